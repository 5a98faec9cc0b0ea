//! A workspace that the user has not trusted runs none of its code, and `rocmrpm trust` or an answer
//! on the terminal lets it.

use crate::common::{Lab, Ran, SPEC};

/// A COPR project, so that `copr push` gets as far as it can.
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
    &["audit", "offline", "one", "--chroot", "host"],
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

/// Commands that run none of it, whatever they find.
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
    &["trust", "--list"],
];

/// Returns a workspace that came from elsewhere: its code would leave traces.
fn hostile() -> Lab {
    let lab = Lab::init();
    without_trust(&lab, &["trust", "--remove"]).exits(0);
    lab.write("pins/stable.toml", "[one]\nversion = \"1.0\"\npath = \"src/one\"\n");
    lab.write("specs-templates/one/component.toml", "[closure]\n");
    let dir = lab.dir().display();
    let spec = SPEC.replace("%files", &format!("%prep\ntouch {dir}/PREPARED\n\n%files"));
    // The first line runs when rpm parses the spec.
    lab.write("specs-templates/one/one.spec.tera", &format!("%global parsed %(touch {dir}/PWNED)\n{spec}"));
    lab.write("src/one/file.txt", "1\n");
    lab.write("copr/project.toml", PROJECT);
    lab.commit("Begin");
    lab
}

/// Runs the program as a user who set no variable, without a terminal.
fn without_trust(lab: &Lab, args: &[&str]) -> Ran {
    lab.outcome(lab.command(args).env_remove("ROCMRPM_TRUST"))
}

fn has_run(lab: &Lab) -> bool {
    lab.dir().join("PWNED").exists() || lab.dir().join("PREPARED").exists()
}

#[test]
fn commands_run_no_code_of_an_untrusted_workspace() {
    let lab = hostile();
    let before = lab.files();
    for command in RUN_CODE {
        without_trust(&lab, command).exits(3).says(&[
            "error: `[LAB]/workspace` is not trusted, and this command runs code from it as you",
            "help: to trust it, run `rocmrpm trust [LAB]/workspace`",
        ]);
        assert!(!has_run(&lab), "{command:?}");
    }
    assert_eq!(lab.files(), before, "something was written");
    for command in NEVER_RUN_CODE {
        let ran = without_trust(&lab, command);
        assert!(!ran.stderr.contains("trusted"), "{command:?}: {}", ran.stderr);
        assert!(!has_run(&lab), "{command:?}");
    }
}

#[test]
fn a_trusted_workspace_runs_its_code_until_that_is_taken_back() {
    let lab = hostile();
    let lint = ["lint", "--chroot", "host"];
    let by_variable = lab.run(&lint);
    assert!(has_run(&lab), "{}", by_variable.stderr);
    fs_err::remove_file(lab.dir().join("PWNED")).unwrap();

    without_trust(&lab, &["trust"]).exits(0).says(&["Trusted [LAB]/workspace"]);
    assert_eq!(without_trust(&lab, &["trust", "--list"]).exits(0).stdout, "[LAB]/workspace\n");
    let by_list = without_trust(&lab, &lint);
    assert!(has_run(&lab), "{}", by_list.stderr);
    without_trust(&lab, &["prep", "one", "--chroot", "host"]).exits(0);
    without_trust(&lab, &["build", "--chroot", "host", "--until", "srpm"]).exits(0);

    // A workspace in a trusted one may be a clone of anything.
    lab.write("vendor/rocmrpm.toml", &lab.read("rocmrpm.toml"));
    let below = lab.command(&lint).env_remove("ROCMRPM_TRUST").current_dir(lab.path("vendor"));
    lab.outcome(below).exits(3).says(&["run `rocmrpm trust [LAB]/workspace/vendor`"]);

    without_trust(&lab, &["trust", "--remove", "."]).exits(0).says(&["Removed [LAB]/workspace"]);
    without_trust(&lab, &lint).exits(3);
    without_trust(&lab, &["trust", "--remove"]).exits(2).says(&["is not in the list of trusted folders"]);
}

#[test]
fn a_spec_of_another_folder_needs_trust_of_its_own() {
    let lab = hostile();
    let spec = lab.dir().join("other/x.spec");
    fs_err::create_dir(lab.dir().join("other")).unwrap();
    let head = "Version: 1\nRelease: 1\nSummary: x\nLicense: MIT\n%description\nx\n%files\n";
    fs_err::write(&spec, format!("Name: x%(touch {}/PWNED)\n{head}", lab.dir().display())).unwrap();
    without_trust(&lab, &["trust"]).exits(0);
    let lint = ["lint", "--chroot", "host", "--spec", spec.to_str().unwrap()];
    lab.replace("specs-templates/one/one.spec.tera", "%global parsed", "# ");
    lab.replace("specs-templates/one/one.spec.tera", "%(", "%%(");
    without_trust(&lab, &lint).exits(3).says(&["run `rocmrpm trust [LAB]/other`"]);
    assert!(!has_run(&lab));
    without_trust(&lab, &["trust", lab.dir().join("other").to_str().unwrap()]).exits(0);
    let ran = without_trust(&lab, &lint);
    assert!(has_run(&lab), "{}", ran.stderr);
}

#[test]
fn init_trusts_only_what_it_made_itself() {
    let lab = Lab::empty();
    without_trust(&lab, &["init", "--name", "own"]).exits(0);
    assert_eq!(without_trust(&lab, &["trust", "--list"]).exits(0).stdout, "[LAB]/workspace\n");
    without_trust(&lab, &["lint", "--chroot", "host"]).exits(0);

    let lab = Lab::empty();
    lab.write("specs-templates/one/one.spec.tera", SPEC);
    without_trust(&lab, &["init", "--name", "half"]).exits(0);
    assert_eq!(without_trust(&lab, &["trust", "--list"]).exits(0).stdout, "");
}

#[test]
fn a_damaged_list_is_an_error_that_names_it() {
    let lab = hostile();
    let list = lab.dir().join("home/.local/state/rocmrpm/trust.json");
    fs_err::write(&list, "{\"folders\": [\"/").unwrap();
    for command in [&["lint", "--chroot", "host"][..], &["trust"], &["trust", "--list"]] {
        without_trust(&lab, command).exits(20).says(&[
            "`[LAB]/home/.local/state/rocmrpm/trust.json` is not a list of trusted folders",
            "rm [LAB]/home/.local/state/rocmrpm/trust.json",
        ]);
    }
    without_trust(&lab, &["plan", "--chroot", "host"]).exits(0);
    assert!(!has_run(&lab));
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

fn on_terminal(lab: &Lab, answer: &str, args: &[&str]) -> Ran {
    let program = env!("CARGO_BIN_EXE_rocmrpm");
    let python = [&["-c", TERMINAL, answer, program], args].concat();
    let command = snapbox::cmd::Command::new("/usr/bin/python3").args(python);
    let environment = [("HOME", lab.dir().join("home")), ("ROCMRPM_CACHE", lab.dir().join("cache"))];
    let command = command.envs(environment).env_remove("ROCMRPM_TRUST").env_remove("XDG_STATE_HOME");
    lab.outcome(command.current_dir(lab.root()).timeout(std::time::Duration::from_secs(100)))
}

#[test]
fn asks_on_a_terminal_and_takes_only_yes_for_yes() {
    let lab = hostile();
    let lint = ["lint", "--chroot", "host"];
    // An end of file by Ctrl-D among them.
    for answer in ["n\\n", "\\n", "yy\\n", "\\x04"] {
        let ran = on_terminal(&lab, answer, &lint).exits(3);
        ran.prints(&[
            "This command runs code from [LAB]/workspace as you: rpm runs macros of its specs.\n",
            "Trust [LAB]/workspace? [y/N] ",
            "is not trusted",
        ]);
        assert!(!has_run(&lab), "{answer}");
    }
    // Ctrl-C.
    on_terminal(&lab, "\\x03", &lint).exits(130);
    assert!(!has_run(&lab));
    assert_eq!(without_trust(&lab, &["trust", "--list"]).stdout, "");

    let ran = on_terminal(&lab, "y\\n", &lint);
    assert!(has_run(&lab), "{}", ran.stdout);
    assert_eq!(without_trust(&lab, &["trust", "--list"]).stdout, "[LAB]/workspace\n");
    let again = on_terminal(&lab, "n\\n", &lint);
    assert!(!again.stdout.contains("[y/N]"), "{}", again.stdout);
}
