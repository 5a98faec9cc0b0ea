//! Pins that follow a branch, and commits from the command line.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::demo::{PREP, spec};
use crate::support::Workspace;

/// Commits files in a repository, which is created if missing, and returns the commit.
fn commit(workspace: &Workspace, dir: &Path, files: &[(&str, &str)]) -> String {
    if !dir.exists() {
        std::fs::create_dir(dir).unwrap();
        workspace.git_in(dir, &["init", "--quiet", "--initial-branch=main"]);
    }
    for (name, text) in files {
        std::fs::write(dir.join(name), text).unwrap();
    }
    workspace.git_in(dir, &["add", "--all"]);
    workspace.git_in(dir, &["commit", "--quiet", "--message", "Change"]);
    workspace.git_in(dir, &["rev-parse", "HEAD"]).trim().to_owned()
}

/// Returns a workspace whose component `demo` follows a branch, the repository, and the commit.
fn moving() -> (Workspace, PathBuf, String) {
    let workspace = Workspace::init();
    workspace.write("specs-templates/demo/component.toml", "");
    spec(&workspace, PREP, "true");
    let upstream = workspace.holder().join("upstream");
    commit(&workspace, &upstream, &[("version.txt", "1.0\n"), ("f", "1\n")]);
    workspace.git_in(&upstream, &["tag", "v1.0"]);
    let newest = commit(&workspace, &upstream, &[("version.txt", "2.0a0\n"), ("f", "2\n")]);
    let pin = format!("[demo]\ngit = \"file://{}\"\nbranch = \"main\"\n", upstream.display());
    workspace.write("pins/stable.toml", pin);
    (workspace, upstream, newest)
}

/// Returns the version in the lock file.
fn locked(workspace: &Workspace) -> String {
    let lock: toml::Table = workspace.read("pins/stable.lock").parse().unwrap();
    lock["demo"]["version"].as_str().unwrap().to_owned()
}

/// Returns the version and the content of `f` in the prepared source.
fn prepared(workspace: &Workspace, more: &[&str]) -> (String, String) {
    let record = workspace.run(&[&["prep", "demo", "--json"], more].concat());
    let record = record.exits(0).document("rocmrpm/prep/1");
    let folder = record["folder"].as_str().unwrap();
    let folder = folder.replace("[HOLDER]", workspace.holder().to_str().unwrap());
    let text = std::fs::read_to_string(Path::new(&folder).join("f")).unwrap();
    (record["version"].as_str().unwrap().to_owned(), text)
}

/// Fails unless rpm sorts the versions in this order.
fn assert_sorted(versions: &[&str]) {
    for pair in versions.windows(2) {
        let script = format!("%{{lua: print(rpm.vercmp(\"{}\", \"{}\"))}}", pair[0], pair[1]);
        let rpm = Command::new("rpm").args(["--eval", &script]).output().unwrap();
        assert!(rpm.status.success());
        assert_eq!(String::from_utf8_lossy(&rpm.stdout).trim(), "-1", "{pair:?}");
    }
}

#[test]
fn a_branch_moves_only_when_it_is_updated() {
    let (workspace, upstream, first) = moving();
    workspace.run(&["prep", "demo"]).exits(3).reports(["run `rocmrpm lock`"]);
    workspace.run(&["lock"]).exits(0);
    let version = locked(&workspace);
    assert!(version.starts_with("2.0~a0^20"), "{version}");
    assert!(version.ends_with(&format!("git{}", &first[..7])), "{version}");
    let lock = workspace.read("pins/stable.lock");
    assert!(lock.contains(&format!("branch = \"main\"\ncommit = \"{first}\"\n")), "{lock}");
    assert_eq!(prepared(&workspace, &[]), (version.clone(), "2\n".to_owned()));
    workspace.run(&["pins", "outdated", "demo"]).exits(0).prints(["branch main"]);
    // Upstream moves, and nothing here does.
    let second = commit(&workspace, &upstream, &[("f", "3\n")]);
    workspace.run(&["lock"]).exits(0).reports(["Unchanged"]);
    workspace.run(&["lock", "--check"]).exits(0);
    workspace.run(&["lock", "--offline"]).exits(0).reports(["Unchanged"]);
    assert_eq!(prepared(&workspace, &[]), (version.clone(), "2\n".to_owned()));
    let outdated = workspace.run(&["pins", "outdated", "demo"]);
    outdated.exits(1).prints([&second[..12]]).reports(["rocmrpm lock --update"]);
    let ran = workspace.run(&["pins", "update", "demo"]);
    ran.exits(2).reports(["follows the branch `main`", "rocmrpm lock --pins stable --update"]);
    workspace.run(&["lock", "--update"]).exits(0).reports(["Locked"]);
    let moved = locked(&workspace);
    assert_eq!(prepared(&workspace, &[]), (moved.clone(), "3\n".to_owned()));
    workspace.run(&["lock", "--update"]).exits(0).reports(["Unchanged"]);
    // Upstream prepares a release, releases it, and continues.
    commit(&workspace, &upstream, &[("version.txt", "2.0\n")]);
    workspace.run(&["lock", "--update"]).exits(0);
    let before = locked(&workspace);
    commit(&workspace, &upstream, &[("f", "4\n")]);
    workspace.git_in(&upstream, &["tag", "v2.0"]);
    workspace.run(&["lock", "--update"]).exits(0);
    let after = locked(&workspace);
    commit(&workspace, &upstream, &[("version.txt", "2.1a0\n")]);
    workspace.run(&["lock", "--update"]).exits(0);
    let next = locked(&workspace);
    assert_sorted(&[
        "1.0", "2.0~a0", &version, &moved, "2.0~rc1", &before, "2.0", &after, "2.0.1", &next, "2.1",
    ]);
    // Without upstream's file, the newest tag counts.
    workspace.git_in(&upstream, &["rm", "--quiet", "version.txt"]);
    commit(&workspace, &upstream, &[("setup.cfg", "version = 2.2.dev0\n")]);
    workspace.run(&["lock", "--update"]).exits(0).reports(["goes back from"]);
    assert!(locked(&workspace).starts_with("2.0^20"), "{}", locked(&workspace));
    workspace.replace("pins/stable.toml", "\"main\"\n", "\"main\"\nversion-from = \"setup.cfg\"\n");
    commit(&workspace, &upstream, &[("f", "5\n")]);
    workspace.run(&["lock", "--update"]).exits(0);
    assert!(locked(&workspace).starts_with("2.2~dev0^20"), "{}", locked(&workspace));
}

#[test]
fn refuses_branches_without_commits_or_versions() {
    let (workspace, _, _) = moving();
    workspace.replace("pins/stable.toml", "\"main\"", "\"gone\"");
    let ran = workspace.run(&["lock"]);
    ran.exits(3).reports(["has no branch `gone`", "it has main"]);
    workspace.replace("pins/stable.toml", "\"gone\"", "\"main\"\nversion-from = \"f\"");
    let ran = workspace.run(&["lock"]);
    ran.exits(3).reports(["cannot determine the version of commit", "`version-from` in the pin"]);
    assert!(!workspace.path("pins/stable.lock").exists());
    workspace.replace("pins/stable.toml", "git = ", "version = \"1\"\ngit = ");
    workspace.run(&["lock"]).exits(3).reports(["follows a branch and has a version"]);
}

#[test]
fn takes_commits_from_the_command_line() {
    let (workspace, upstream, newest) = moving();
    workspace.run(&["lock"]).exits(0);
    let old = workspace.git_in(&upstream, &["rev-parse", "v1.0"]).trim().to_owned();
    let files = workspace.sources();
    let (version, text) = prepared(&workspace, &["--pin", &format!("demo@{old}")]);
    assert_eq!((version, text.as_str()), (format!("2.0~a0^git{}", &old[..7]), "1\n"));
    let folder = format!("build/fedora-43@demo-2.0~a0_git{}/prep/demo", &old[..7]);
    assert!(workspace.path(folder).exists());
    let other = workspace.holder().join("fork");
    let fork = commit(&workspace, &other, &[("f", "fork\n")]);
    let pin = format!("demo=git:file://{}@{fork}", other.display());
    assert_eq!(prepared(&workspace, &["--pin", &pin]).1, "fork\n");
    assert_eq!(workspace.sources(), files);
    // A pin of another kind needs the repository, and its sources do not follow.
    let table = super::demo::source(&workspace, "demo-1.0", &[("f", "archive\n")]);
    workspace.write("pins/stable.toml", format!("[demo]\nversion = \"1.0\"\n{table}"));
    let (version, text) = prepared(&workspace, &["--pin", &pin]);
    assert_eq!((version, text.as_str()), (format!("1.0^git{}", &fork[..7]), "fork\n"));
    assert_sorted(&["1.0", &format!("1.0^git{}", &fork[..7]), "1.0.1"]);
    let ran = workspace.run(&["prep", "demo", "--pin", &format!("demo@{newest}")]);
    ran.exits(3).reports(["not pinned to a git repository", "--pin demo=git:URL@"]);
    for pin in ["demo@main", "demo=git:file:///x@main", "@0123"] {
        workspace.run(&["prep", "demo", "--pin", pin]).exits(2).reports(["expected a full commit"]);
    }
    let absent = format!("demo=git:file://{}@{}", other.display(), "0".repeat(40));
    workspace.run(&["prep", "demo", "--pin", &absent]).exits(3).reports(["0000000"]);
}
