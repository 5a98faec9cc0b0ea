//! Commands run no code of a workspace that the user does not trust. `rocmrpm trust` or an answer
//! on the terminal trusts it.

use std::process::Command;

use crate::support::transcript::in_pages;
use crate::support::{Ran, SPEC, Transcript, Workspace};

/// A COPR project for `copr push`.
const PROJECT: &str = "owner = \"ada\"\nproject = \"lab\"\nchroots = [\"fedora-43-x86_64\"]\n";

/// Every command that runs code of the workspace.
const RUN_CODE: &[&[&str]] = &[
    &["build", "--chroot", "host"],
    &["build", "--chroot", "host", "--until", "srpm"],
    &["build", "--builder", "mock", "--chroot", "fedora-43"],
    &["reproduce", "one", "--chroot", "host"],
    &["shell", "one", "--chroot", "host"],
    &["shell", "one", "--chroot", "fedora-43"],
    &["prep", "one", "--chroot", "host"],
    &["audit", "one", "--chroot", "host"],
    &["lint", "--chroot", "host"],
    &["lint", "--spec", "specs-templates/one/one.spec.tera"],
    &["closure", "one"],
    &["closure", "one", "--write"],
    &["closure", "one", "--check"],
    &["closure", "one", "--upgrade"],
    &["closure", "why", "six", "--component", "one"],
    &["requirements", "--resolve"],
    &["publish", "repository", "published"],
    &["copr", "push"],
];

/// Commands that never run code of the workspace.
const NEVER_RUN_CODE: &[&[&str]] = &[
    &["plan", "--chroot", "host"],
    &["plan", "--chroot", "fedora-43"],
    &["render", "--chroot", "host"],
    &["build", "--chroot", "host", "--until", "spec"],
    &["build", "--chroot", "host", "--until", "sources"],
    &["lock", "--offline"],
    &["pins", "outdated"],
    &["pins", "export"],
    &["patch", "status"],
    &["inspect", "src/one/file.txt"],
    &["explain", "gpu-target-missing"],
    &["wheel", "--chroot", "host"],
    &["index", "--chroot", "host"],
    &["requirements", "--chroot", "host"],
    &["container"],
    &["closure", "one", "--offline"],
    &["closure", "diff", "a", "b"],
    &["closure", "audit"],
    &["copr", "status"],
    &["copr", "push", "--dry-run"],
    &["publish", "index", "published"],
    &["verify", "--root", "src"],
    &["doctor"],
    &["completions", "bash"],
    &["man", "pages"],
    &["trust", "--list"],
];

/// Returns an untrusted workspace whose code would leave traces.
fn hostile() -> Workspace {
    let workspace = Workspace::init();
    without_trust(&workspace, &["trust", "--remove"]).exits(0);
    workspace.write("pins/stable.toml", "[one]\nversion = \"1.0\"\npath = \"src/one\"\n");
    workspace.write("specs-templates/one/component.toml", "[closure]\n");
    let dir = workspace.holder().display();
    let spec = SPEC.replace("%files", &format!("%prep\ntouch {dir}/PREPARED\n\n%files"));
    // The first line runs when rpm parses the spec.
    workspace.write(
        "specs-templates/one/one.spec.tera",
        format!("%global parsed %(touch {dir}/PWNED)\n{spec}"),
    );
    workspace.write("src/one/file.txt", "1\n");
    workspace.write("copr/project.toml", PROJECT);
    workspace.commit("Begin");
    workspace
}

/// Runs the program without the variable and without a terminal.
fn without_trust(workspace: &Workspace, args: &[&str]) -> Ran {
    workspace.outcome(workspace.command(args).env_remove("ROCMRPM_TRUST"))
}

fn has_run(workspace: &Workspace) -> bool {
    workspace.holder().join("PWNED").exists() || workspace.holder().join("PREPARED").exists()
}

#[test]
fn commands_run_no_code_of_an_untrusted_workspace() {
    let workspace = hostile();
    let before = workspace.files();
    for command in RUN_CODE {
        without_trust(&workspace, command).exits(3).reports([
            "error: `[HOLDER]/workspace` is not trusted, and this command runs code from it as you",
            "help: to trust it, run `rocmrpm trust [HOLDER]/workspace`",
        ]);
        assert!(!has_run(&workspace), "{command:?}");
    }
    assert_eq!(workspace.files(), before, "something was written");
    for command in NEVER_RUN_CODE {
        let ran = without_trust(&workspace, command);
        assert!(!ran.stderr.contains("trusted"), "{command:?}: {}", ran.stderr);
        assert!(!has_run(&workspace), "{command:?}");
    }
}

#[test]
fn trusted_workspace_runs_its_code_until_trust_is_removed() {
    let workspace = hostile();
    let lint = ["lint", "--chroot", "host"];
    let by_variable = workspace.run(&lint);
    assert!(has_run(&workspace), "{}", by_variable.stderr);
    fs_err::remove_file(workspace.holder().join("PWNED")).unwrap();

    without_trust(&workspace, &["trust"]).exits(0).reports(["Trusted [HOLDER]/workspace"]);
    assert_eq!(
        without_trust(&workspace, &["trust", "--list"]).exits(0).stdout,
        "[HOLDER]/workspace\n"
    );
    let by_list = without_trust(&workspace, &lint);
    assert!(has_run(&workspace), "{}", by_list.stderr);
    without_trust(&workspace, &["prep", "one", "--chroot", "host"]).exits(0);
    without_trust(&workspace, &["build", "--chroot", "host", "--until", "srpm"]).exits(0);

    // A workspace inside a trusted one may be an untrusted clone.
    workspace.write("vendor/rocmrpm.toml", workspace.read("rocmrpm.toml"));
    let mut below = workspace.command(&lint);
    below.env_remove("ROCMRPM_TRUST").current_dir(workspace.path("vendor"));
    workspace.outcome(below).exits(3).reports(["run `rocmrpm trust [HOLDER]/workspace/vendor`"]);

    without_trust(&workspace, &["trust", "--remove", "."])
        .exits(0)
        .reports(["Removed [HOLDER]/workspace"]);
    without_trust(&workspace, &lint).exits(3);
    without_trust(&workspace, &["trust", "--remove"])
        .exits(2)
        .reports(["is not in the list of trusted folders"]);
}

#[test]
fn spec_in_another_folder_needs_separate_trust() {
    let workspace = hostile();
    let spec = workspace.holder().join("other/x.spec");
    fs_err::create_dir(workspace.holder().join("other")).unwrap();
    let head = "Version: 1\nRelease: 1\nSummary: x\nLicense: MIT\n%description\nx\n%files\n";
    fs_err::write(&spec, format!("Name: x%(touch {}/PWNED)\n{head}", workspace.holder().display()))
        .unwrap();
    without_trust(&workspace, &["trust"]).exits(0);
    let lint = ["lint", "--chroot", "host", "--spec", spec.to_str().unwrap()];
    workspace.replace("specs-templates/one/one.spec.tera", "%global parsed", "# ");
    workspace.replace("specs-templates/one/one.spec.tera", "%(", "%%(");
    without_trust(&workspace, &lint).exits(3).reports(["run `rocmrpm trust [HOLDER]/other`"]);
    assert!(!has_run(&workspace));
    without_trust(&workspace, &["trust", workspace.holder().join("other").to_str().unwrap()])
        .exits(0);
    let ran = without_trust(&workspace, &lint);
    assert!(has_run(&workspace), "{}", ran.stderr);
}

#[test]
fn init_trusts_only_a_new_workspace() {
    let workspace = Workspace::empty();
    without_trust(&workspace, &["init", "--name", "own"]).exits(0);
    assert_eq!(
        without_trust(&workspace, &["trust", "--list"]).exits(0).stdout,
        "[HOLDER]/workspace\n"
    );
    without_trust(&workspace, &["lint", "--chroot", "host"]).exits(0);

    let workspace = Workspace::empty();
    workspace.write("specs-templates/one/one.spec.tera", SPEC);
    without_trust(&workspace, &["init", "--name", "half"]).exits(0);
    assert_eq!(without_trust(&workspace, &["trust", "--list"]).exits(0).stdout, "");
}

#[test]
fn names_a_damaged_trust_list() {
    let workspace = hostile();
    let list = workspace.holder().join("state/rocmrpm/trust.json");
    fs_err::write(&list, "{\"folders\": [\"/").unwrap();
    for command in [&["lint", "--chroot", "host"][..], &["trust"], &["trust", "--list"]] {
        without_trust(&workspace, command).exits(20).reports([
            "`[HOLDER]/state/rocmrpm/trust.json` is not a list of trusted folders",
            "rm [HOLDER]/state/rocmrpm/trust.json",
        ]);
    }
    without_trust(&workspace, &["plan", "--chroot", "host"]).exits(0);
    assert!(!has_run(&workspace));
}

/// Runs a program on a terminal, types an answer after the question, and prints what it wrote.
const TERMINAL: &str = r#"
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
written, asked = b"", 0
while True:
    try:
        chunk = os.read(terminal, 4096)
    except OSError:
        break
    if not chunk:
        break
    written += chunk
    if written.count(b"[y/N] ") > asked:
        asked += 1
        os.write(terminal, bytes(sys.argv[1], "ascii").decode("unicode_escape").encode())
sys.stdout.buffer.write(written.replace(b"\r\n", b"\n"))
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

fn on_terminal(workspace: &Workspace, answer: &str, args: &[&str]) -> Ran {
    let program = env!("CARGO_BIN_EXE_rocmrpm");
    let python = [&["-c", TERMINAL, answer, program], args].concat();
    let mut command = Command::new("/usr/bin/python3");
    workspace.settle(&mut command);
    workspace.outcome(command.args(python).env_remove("ROCMRPM_TRUST"))
}

#[test]
fn prompts_on_a_terminal_and_accepts_only_yes() {
    let workspace = hostile();
    let lint = ["lint", "--chroot", "host"];
    // `\x04` is Ctrl-D: end of file.
    for answer in ["n\\n", "\\n", "yy\\n", "\\x04"] {
        let ran = on_terminal(&workspace, answer, &lint);
        ran.exits(3);
        ran.prints([
            "This command runs code from [HOLDER]/workspace as you: rpm runs macros of its specs.\n",
            "Trust [HOLDER]/workspace? [y/N] ",
            "is not trusted",
        ]);
        assert!(!has_run(&workspace), "{answer}");
    }
    // Ctrl-C.
    on_terminal(&workspace, "\\x03", &lint).exits(130);
    assert!(!has_run(&workspace));
    assert_eq!(without_trust(&workspace, &["trust", "--list"]).stdout, "");

    let ran = on_terminal(&workspace, "y\\n", &lint);
    Transcript::block("docs/concepts/trust.md", "rocmrpm lint --chroot host")
        .assert_prints(&in_pages(&workspace, &ran.stdout));
    assert!(has_run(&workspace), "{}", ran.stdout);
    assert_eq!(without_trust(&workspace, &["trust", "--list"]).stdout, "[HOLDER]/workspace\n");
    let again = on_terminal(&workspace, "n\\n", &lint);
    assert!(!again.stdout.contains("[y/N]"), "{}", again.stdout);
}
