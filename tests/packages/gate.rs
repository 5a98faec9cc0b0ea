//! Tests built packages that were not accepted: changed rules inspect the same packages again
//! without a rebuild. Offline; needs rpmbuild, createrepo_c and gcc.

use crate::support;
use crate::support::{Parts, Ran, Workspace, names_in};

const TOML: &str = "specs-templates/one/component.toml";
const PROMISED: &str = "[inspect]\ndevice-code = true\n";
const DENIED: &str = "[inspect]\ndevice-code = false\n";

fn workspace(toml: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.component("one", &Parts { toml, ..Parts::default() });
    workspace
}

/// Returns the component's plan, `build`, `inspect` or `fresh`, and the reasons.
fn plan(workspace: &Workspace) -> (String, String) {
    let step = workspace.run(&["plan", "--chroot", "host", "--json"]).json()["steps"][0].clone();
    let reasons =
        step["reasons"].as_array().unwrap().iter().map(support::text_of).collect::<Vec<_>>();
    (support::text_of(&step["plan"]), reasons.join(", "))
}

fn was_built(ran: &Ran) -> bool {
    ran.stderr.contains("Building (")
}

#[test]
fn reinspects_rejected_packages_when_rules_change() {
    let workspace = workspace(PROMISED);
    let first = workspace.build();
    first.exits(1).reports([
        "did not pass inspection",
        "device-code-absent",
        "work/one/results/inspection.json",
    ]);
    assert!(was_built(&first));
    workspace.assert_nothing_of("one");

    workspace.write(TOML, DENIED);
    assert_eq!(plan(&workspace), ("inspect".into(), "promise of device code changed".into()));
    let second = workspace.build();
    second.exits(0).reports(["Inspecting (1/1) one", "1 built, 0 fresh"]);
    assert!(!was_built(&second));
    workspace.assert_whole("one");
    assert_eq!(plan(&workspace).0, "fresh");
}

/// Adds a program and its library; the package contains `files`.
fn linked(workspace: &Workspace, files: &str) {
    let build = "echo 'int shared(void) { return 0; }' > s.c\n\
                 echo 'int shared(void); int main(void) { return shared(); }' > m.c\n\
                 gcc -shared -fPIC -Wl,-soname,libgate-test.so.1 -o libgate-test.so.1 s.c\n\
                 gcc -Wl,--build-id=none -o gate-test m.c ./libgate-test.so.1";
    let install = "install -D gate-test %{buildroot}%{_bindir}/gate-test\n\
                   install -D libgate-test.so.1 %{buildroot}/usr/lib64/libgate-test.so.1";
    let install = match files.contains("lib64") {
        true => install.to_owned(),
        false => install.lines().take(1).collect(),
    };
    workspace.component(
        "one",
        &Parts { preamble: "# arch", build, install: &install, files, ..Parts::default() },
    );
}

#[test]
fn rejects_a_missing_library_that_the_last_build_had() {
    let workspace = Workspace::new();
    linked(&workspace, "%{_bindir}/gate-test\n/usr/lib64/libgate-test.so.1");
    workspace.build().exits(0);
    linked(&workspace, "%{_bindir}/gate-test");
    workspace.build().exits(1).reports(["library-missing", "libgate-test.so.1"]);
}

#[test]
fn build_shows_inspection_warnings() {
    let workspace = Workspace::new();
    linked(&workspace, "%{_bindir}/gate-test\n/usr/lib64/libgate-test.so.1");
    let built = workspace.build();
    built.exits(0).reports(["warning: one: /usr/bin/gate-test: found ", "[build-id-missing]"]);
    let warnings = built.stderr.lines().filter(|line| line.starts_with("warning: one: ")).count();
    let report: serde_json::Value =
        serde_json::from_str(&workspace.read("build/host/results/one/inspection.json")).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let expected = findings.iter().filter(|finding| finding["severity"] == "warning").count();
    assert_eq!(warnings, expected, "{built}");
    assert_eq!(
        workspace.run(&["plan", "--chroot", "host", "--json"]).json()["stale"],
        0,
        "nothing is left to build"
    );
}

#[test]
fn waiver_accepts_built_packages_without_a_rebuild() {
    let workspace = workspace(PROMISED);
    workspace.build().exits(1);
    let waiver =
        "\n[[inspect.waive]]\nrule = \"device-code-absent\"\nreason = \"compiled when called\"\n";
    workspace.write(TOML, format!("{PROMISED}{waiver}"));
    assert_eq!(plan(&workspace), ("inspect".into(), "list of waivers changed".into()));
    let waived = workspace.build();
    waived.exits(0).reports(["because: compiled when called", "1 RPM, reinspected"]);
    assert!(!was_built(&waived));
    // Another reason makes another waiver, but requires no build.
    workspace.replace(TOML, "when called", "when it is called");
    assert!(!was_built(workspace.build().exits(0)));
    assert_eq!(plan(&workspace).0, "fresh");
}

#[test]
fn retry_without_changes_rebuilds() {
    let workspace = workspace(PROMISED);
    workspace.build().exits(1);
    assert_eq!(plan(&workspace), ("build".into(), "it did not pass inspection".into()));
    let again = workspace.build();
    again.exits(1);
    assert!(was_built(&again));
}

#[test]
fn removes_packages_from_the_repository_when_they_no_longer_pass() {
    let workspace = workspace(DENIED);
    workspace.build().exits(0);
    let repository = workspace.built("repository");
    assert!(names_in(&repository).iter().any(|name| name.ends_with(".rpm")));
    workspace.write(TOML, PROMISED);
    let judged = workspace.build();
    judged.exits(1).reports(["device-code-absent"]);
    assert!(!was_built(&judged));
    assert!(!names_in(&repository).iter().any(|name| name.ends_with(".rpm")));
    // Restoring the file restores the result.
    workspace.write(TOML, DENIED);
    let back = workspace.build();
    back.exits(0);
    assert!(!was_built(&back));
    workspace.assert_whole("one");
    assert!(names_in(&repository).iter().any(|name| name.ends_with(".rpm")));
}

#[test]
fn rebuilds_rejected_results_that_lost_a_package() {
    let workspace = workspace(PROMISED);
    workspace.build().exits(1);
    let waiting = workspace.built("work/one/results");
    let rpm = names_in(&waiting).into_iter().find(|name| name.ends_with(".noarch.rpm")).unwrap();
    fs_err::remove_file(waiting.join(rpm)).unwrap();
    workspace.write(TOML, DENIED);
    assert_eq!(plan(&workspace), ("build".into(), "it was never built".into()));
    let ran = workspace.build();
    ran.exits(0);
    assert!(was_built(&ran));
}
