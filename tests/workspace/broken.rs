//! What is broken in a workspace or on the machine, and the message that names the place and the fix.
//! `bad_input.rs` and `workspace_errors.rs` have further cases. Offline; needs rpmbuild and git.

use crate::support::{Parts, Workspace, template};

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.component("lib", &Parts::default());
    workspace.component("demo", &Parts { toml: "# Nothing.\n", ..Parts::default() });
    workspace
}

#[test]
fn misspelled_keys_and_values_show_their_place() {
    let workspace = workspace();
    let pins = "pins/stable.toml";
    let toml = "specs-templates/demo/component.toml";
    let url = |digest: &str| format!("url = \"https://example.org/demo.tar.gz\"\n{digest}");
    for (file, found, instead, messages) in [
        (
            pins,
            "path = \"src/demo\"",
            url("sha265 = \"0\"").as_str(),
            [pins, "did you mean `sha256`?"],
        ),
        (pins, "path = \"src/demo\"", &url("sha256 = \"abc\""), [pins, "64 hexadecimal digits"]),
        (toml, "# Nothing.", "require = [\"lib\"]", [toml, "did you mean `requires`?"]),
        (toml, "# Nothing.", "requires = [\"lbi\"]", [toml, "did you mean `lib`?"]),
        ("rocmrpm.toml", "\"host\"", "\"hots\"", ["rocmrpm.toml", "did you mean `host`?"]),
        (&template("demo"), "<{ version }>", "<{ version >", [&template("demo"), "error: "]),
    ] {
        let before = workspace.read(file);
        workspace.replace(file, found, instead);
        let ran = workspace.run(&["plan"]);
        let [place, help] = messages;
        ran.exits(3).reports([&format!("{place}:"), help]);
        workspace.write(file, &before);
    }
    workspace.run(&["plan"]).exits(0);
}

#[test]
fn misspelled_names_on_the_command_line_have_suggestions() {
    let workspace = workspace();
    for (args, near) in [
        (&["plan", "--chroot", "hots"][..], "host"),
        (&["plan", "--pins", "stabel"], "stable"),
        (&["build", "demmo"], "demo"),
        (&["build", "--pin", "demmo=2.0"], "demo"),
        (&["build", "--until", "rmp"], "rpm"),
        (&["log", "demmo"], "demo"),
        (&["remove", "demmo"], "demo"),
    ] {
        let ran = workspace.run(args);
        ran.exits(2);
        ran.reports([format!("did you mean `{near}`?").trim_end_matches('?')]);
    }
}

#[test]
fn builds_without_a_folder_for_temporary_files() {
    let workspace = workspace();
    let mut command = workspace.command(&["build"]);
    command.env("TMPDIR", workspace.holder().join("absent"));
    workspace.outcome(command).exits(0).reports(["2 built, 0 fresh"]);
}

#[test]
fn unknown_build_requirement_is_a_warning_on_other_systems() {
    let workspace = workspace();
    let preamble = "BuildRequires: libfoo-devel";
    workspace.component("demo", &Parts { preamble, ..Parts::default() });
    let ran = workspace.build();
    match std::path::Path::new("/var/lib/dpkg/status").exists() {
        true => ran.exits(0).reports([
            "warning: unchecked BuildRequires of demo: libfoo-devel; install them, or build with mock",
        ]),
        false => ran.exits(10).reports(["`demo` failed in BuildRequires", "libfoo-devel"]),
    };
}
