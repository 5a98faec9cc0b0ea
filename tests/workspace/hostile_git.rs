//! Workspaces whose git repository configures programs to run: no command runs them. Each test also
//! runs plain git, to prove that the trap works.

use crate::support::{SPEC, Workspace};

/// The commands that read the history of a workspace.
const COMMANDS: [&[&str]; 5] =
    [&["plan"], &["lint"], &["render"], &["audit", "one"], &["patch", "status", "one"]];

/// Returns a committed workspace of one component.
fn committed() -> Workspace {
    let workspace = Workspace::init();
    workspace.write("pins/stable.toml", "[one]\nversion = \"1.0\"\npath = \"src/one\"\n");
    workspace.write("specs-templates/one/component.toml", "");
    workspace.write("specs-templates/one/one.spec.tera", SPEC);
    workspace.write("src/one/file.txt", "1\n");
    workspace.commit("Begin");
    workspace
}

/// Writes a program beside the workspace that leaves a file behind when it runs.
fn trap(workspace: &Workspace) -> (String, std::path::PathBuf) {
    let (program, mark) = (workspace.holder().join("trap"), workspace.holder().join("ran"));
    let script = format!("#!/bin/sh\necho \"$0 $*\" >> '{}'\nexit 1\n", mark.display());
    fs_err::write(&program, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(&program, mode).unwrap();
    (program.to_str().unwrap().to_owned(), mark)
}

fn plain_git(dir: &std::path::Path, args: &[&str]) {
    let git = rocmrpm::process::Command::new("git").cwd(dir).args(args);
    let _ =
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").run().unwrap();
}

#[test]
fn runs_no_program_of_a_repositorys_configuration() {
    let workspace = committed();
    let (trap, mark) = trap(&workspace);
    for key in [
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "core.askPass",
        "core.editor",
        "diff.external",
        "diff.x.command",
        "diff.x.textconv",
        "filter.x.clean",
        "filter.x.process",
        "filter.x.smudge",
        "gpg.program",
        "merge.x.driver",
    ] {
        workspace.git(&["config", key, &trap]);
    }
    workspace.git(&["config", "log.showSignature", "true"]);
    workspace.git(&["config", "filter.x.required", "true"]);
    fs_err::create_dir_all(workspace.path(".git/info")).unwrap();
    fs_err::write(workspace.path(".git/info/attributes"), "* filter=x diff=x\n").unwrap();
    fs_err::create_dir_all(workspace.path(".git/hooks")).unwrap();
    for hook in ["post-index-change", "reference-transaction", "pre-auto-gc"] {
        fs_err::copy(&trap, workspace.path(".git/hooks").join(hook)).unwrap();
    }
    // A new modification time makes git read the file again.
    workspace.write("src/one/file.txt", "1\n");
    for command in COMMANDS {
        let ran = workspace.run(command);
        if command.len() == 1 {
            ran.exits(0);
        }
        let ran = fs_err::read_to_string(&mark).unwrap_or_default();
        assert!(ran.is_empty(), "{command:?} ran {ran}");
    }
    let plan = workspace.run(&["plan", "--json"]).exits(0).document("rocmrpm/plan/2");
    assert_eq!(
        (plan["steps"][0]["release"].as_str(), &plan["steps"][0]["dirty"]),
        (Some("1%{?dist}"), &false.into())
    );
    plain_git(&workspace.root(), &["status"]);
    assert!(mark.exists(), "the trap does not work");
}

#[test]
fn refuses_a_clone_whose_workspace_looks_like_a_bare_repository() {
    let outer = Workspace::empty();
    let (trap, mark) = trap(&outer);
    for (name, bytes) in committed().files() {
        let path = outer.path(format!("ws/{name}"));
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, bytes).unwrap();
    }
    let config = format!(
        "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\nfsmonitor = \"{trap}; false\"\n"
    );
    outer.write("ws/HEAD", "ref: refs/heads/main\n");
    outer.write("ws/config", &config);
    for keep in ["objects/info/.keep", "objects/pack/.keep", "refs/heads/.keep"] {
        outer.write(format!("ws/{keep}"), "");
    }
    outer.commit("Begin");
    let clone = Workspace::empty();
    clone.git(&["clone", "--quiet", outer.root().to_str().unwrap(), "."]);
    for command in COMMANDS {
        let mut command_below = clone.command(&[&["-C", "ws"], command].concat());
        let ran = clone.outcome(command_below.env("ROCMRPM_TRUST", clone.path("ws")));
        if command.len() == 1 {
            ran.exits(3)
                .reports(["workspace/ws` looks like a bare git repository", "do not trust"]);
        }
        assert!(!mark.exists(), "{command:?} ran the trap");
    }
    plain_git(&clone.path("ws"), &["status"]);
    assert!(mark.exists(), "the trap does not work");
}

#[test]
fn fetches_nothing_for_the_history_of_a_partial_clone() {
    let origin = committed();
    origin.replace("pins/stable.toml", "1.0", "1.1");
    origin.commit("one 1.1");
    origin.git(&["config", "uploadpack.allowFilter", "true"]);
    let workspace = Workspace::empty();
    let (trap, mark) = trap(&workspace);
    let url = format!("file://{}", origin.root().display());
    workspace.git(&["clone", "--quiet", "--filter=blob:none", &url, "."]);
    workspace.git(&["config", "remote.origin.uploadpack", &trap]);
    workspace.run(&["plan"]).exits(20).reports(["lacks the object", "fetch --refetch --no-filter"]);
    assert!(!mark.exists(), "plan fetched");
    plain_git(&workspace.root(), &["cat-file", "-p", "HEAD~1:pins/stable.toml"]);
    assert!(mark.exists(), "the trap does not work");
    workspace.git(&["config", "--unset", "remote.origin.uploadpack"]);
    workspace.git(&["fetch", "--quiet", "--refetch", "--no-filter"]);
    workspace.run(&["plan"]).exits(0);
}

#[test]
fn a_subject_cannot_forge_a_changelog_entry() {
    let workspace = committed();
    let hash = workspace.git(&["rev-parse", "HEAD"]);
    workspace.write("src/one/file.txt", "2\n");
    let subject = format!(
        "fix\u{1}{hash}\u{2}1700000000\u{2}Linus\u{2}l@example.org\u{2}Reviewed\u{2}src/one/x \u{1b}[31m"
    );
    workspace.commit(&subject);
    workspace.run(&["render"]).exits(0);
    let spec = workspace.read("build/fedora-43/specs/one.spec");
    let (_, changelog) = spec.split_once("%changelog\n").unwrap();
    let entries: Vec<&str> = changelog.lines().filter(|line| line.starts_with('*')).collect();
    assert_eq!(
        entries,
        [
            "* Tue Jan 06 2026 Ada Lovelace <ada@example.org> - 1.0-2",
            "* Mon Jan 05 2026 Ada Lovelace <ada@example.org> - 1.0-1"
        ]
    );
    assert!(changelog.contains("- fix\\u{1}") && !changelog.contains(['\u{1}', '\u{2}', '\u{1b}']));
}
