//! Waivers in component.toml: mistakes in them, and their effect on a build.

use crate::support::{Workspace, project};
use snapbox::{assert_data_eq, str};

/// Returns a workspace with the component `hello` and this component.toml.
fn with(toml: &str) -> Workspace {
    let workspace = Workspace::init();
    for (path, text) in project("hello", "1.0") {
        workspace.write(format!("src/hello/{path}"), &text);
    }
    workspace.run(&["add", "hello", "--path", "src/hello", "--version", "1.0"]).exits(0);
    workspace.write("specs-templates/hello/component.toml", toml);
    workspace
}

#[test]
fn reports_mistakes_in_waivers_with_locations() {
    let workspace = with(
        "[inspect]\ndevice-code = false\n\n[[inspect.waive]]\nrule = \"not-striped\"\nreason = \" \"\n\n\
         [[inspect.waive]]\nfiles = \"*.so\"\nfound = \"\"\nreason = 1\n\n[[inspect.waive]]\nrule = \"banana\"\n",
    );
    let ran = workspace.run(&["plan"]);
    ran.exits(3);
    assert_eq!(ran.stdout, "");
    assert_data_eq!(
        ran.stderr,
        str![[r#"
error: unknown rule `not-striped`
 --> specs-templates/hello/component.toml:5:8
  |
5 | rule = "not-striped"
  |        ^^^^^^^^^^^^^ not a rule of this kind
  |
  = help: did you mean `not-stripped`?

error: `reason` must not be empty
 --> specs-templates/hello/component.toml:6:10
  |
6 | reason = " "
  |          ^^^ expected why the finding is accepted

error: `rule` is missing in `[inspect.waive]`
 --> specs-templates/hello/component.toml:8:1
  |
8 | [[inspect.waive]]
  | ^^^^^^^^^^^^^^^^^ expected `rule`: a rule's ID, such as `library-missing`

error: unknown key `files`
 --> specs-templates/hello/component.toml:9:1
  |
9 | files = "*.so"
  | ^^^^^ this table has no such key
  |
  = help: did you mean `file`?

error: `found` must not be empty
  --> specs-templates/hello/component.toml:10:9
   |
10 | found = ""
   |         ^^ leave `found` out to accept any

error: `reason` must be a string
  --> specs-templates/hello/component.toml:11:10
   |
11 | reason = 1
   |          ^ this is an integer

error: `reason` is missing in `[inspect.waive]`
  --> specs-templates/hello/component.toml:13:1
   |
13 | [[inspect.waive]]
   | ^^^^^^^^^^^^^^^^^ expected `reason`: why the finding is accepted

error: unknown rule `banana`
  --> specs-templates/hello/component.toml:14:8
   |
14 | rule = "banana"
   |        ^^^^^^^^ not a rule of this kind
   |
   = help: `rocmrpm explain` lists all rules

error: 8 mistakes in the workspace's files

"#]]
    );
    let workspace = with("[inspect]\nwaive = \"not-stripped\"\n");
    workspace
        .run(&["plan"])
        .exits(3)
        .reports(["`waive` must be an array of tables", "component.toml:2:9"]);
}

#[test]
fn waived_findings_pass_and_are_reported() {
    let waiver = "[[inspect.waive]]\nrule = \"device-code-absent\"\nreason = \"compiled when it is called\"\n";
    let workspace = with(&format!("[inspect]\ndevice-code = true\n\n{waiver}"));
    let ran = workspace.run(&["build", "--chroot", "host", "--until", "rpm"]);
    ran.exits(0);
    ran.reports([
        "Waived hello: found no GPU code in",
        "[device-code-absent], because: compiled when it is called",
    ]);
    let report: serde_json::Value =
        serde_json::from_str(&workspace.read("build/host/results/hello/inspection.json")).unwrap();
    assert_eq!(report["findings"], serde_json::json!([]));
    assert_eq!(report["waived"][0]["finding"]["id"], "device-code-absent");
    assert_eq!(report["waived"][0]["place"], "specs-templates/hello/component.toml");
}

#[test]
fn unused_waiver_fails_the_build() {
    let workspace = with(
        "[[inspect.waive]]\nrule = \"not-stripped\"\nfile = \"*/hello.so\"\nreason = \"known\"\n",
    );
    let ran = workspace.run(&["build", "--chroot", "host", "--until", "rpm"]);
    ran.exits(1);
    ran.reports([
        "`hello` did not pass inspection: 1 error",
        "specs-templates/hello/component.toml: found a waiver of `not-stripped`, file `*/hello.so` that matches no finding",
        "help: remove the `[[inspect.waive]]` table",
    ]);
}
