//! `rocmrpm prep --git` and `rocmrpm patch save`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::demo::{demo, lines, patch, pin};
use crate::support::Workspace;

const FIRST: &str = "specs-templates/demo/0001-x.patch";
const SECOND: &str = "specs-templates/demo/0002-y.patch";

/// Changes line 10 of `f`.
const CHANGE: &str =
    "--- a/f\n+++ b/f\n@@ -7,7 +7,7 @@\n a 7\n a 8\n a 9\n-a 10\n+ours\n a 11\n a 12\n a 13\n";

/// An edit of line 20 of `f`.
const EDIT: &str = "[[edit]]\nfile = \"f\"\nfind = \"a 20\"\nreplace = \"twenty of @VERSION@\"\n\
    matches = 1\nreason = \"no reason\"\n";

/// Returns a workspace with two patches, of which the first applies with an offset, and an edit.
fn series() -> Workspace {
    let files = [("f", format!("new\n{}", lines(30, &[]))), ("bin/g", lines(3, &[]))];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let workspace = demo(&files);
    patch(&workspace, "0001-x.patch", "<2", CHANGE);
    workspace.replace(FIRST, "Because.", "Because \u{fc}  of\u{a0}this. ");
    // Without a header; GNU patch creates the file.
    workspace.write(
        SECOND,
        "Origin: own\nDrop-When: never\n--- /dev/null\n+++ b/h\n@@ -0,0 +1 @@\n+new\n",
    );
    patch(&workspace, "0009-other.patch", ">=2", "--- a/q\n+++ b/q\n@@ -1 +1 @@\n-1\n+2\n");
    workspace.write("specs-templates/demo/component.toml", EDIT);
    workspace
}

fn repository(workspace: &Workspace) -> PathBuf {
    workspace.path("build/fedora-43/git/demo")
}

/// Runs git in the repository of `demo`.
#[track_caller]
fn git(workspace: &Workspace, args: &[&str]) -> String {
    let settings = ["-c", "core.editor=true", "-c", "advice.detachedHead=false"];
    workspace.git_in(&repository(workspace), &[&settings, args].concat())
}

/// Commits a new content of a file.
fn change(workspace: &Workspace, file: &str, text: &str, message: &str) {
    std::fs::write(repository(workspace).join(file), text).unwrap();
    git(workspace, &["add", "--all"]);
    git(workspace, &["commit", "--quiet", "--message", message]);
}

/// Rebases with this sed script as the editor of the list of commits.
fn rebase(workspace: &Workspace, script: &str) {
    let editor = format!("sequence.editor=sed -i -e '{script}'");
    git(workspace, &["-c", &editor, "rebase", "--quiet", "--interactive", "refs/rocmrpm/upstream"]);
}

fn subjects(workspace: &Workspace) -> Vec<String> {
    let log = git(workspace, &["log", "--reverse", "--format=%s"]);
    log.lines().map(str::to_owned).collect()
}

/// Returns the names of the component's patches.
fn patches(workspace: &Workspace) -> Vec<String> {
    let names = crate::support::names_in(&workspace.path("specs-templates/demo"));
    names.into_iter().filter(|name| name.ends_with(".patch")).collect()
}

/// Returns the files of a folder, without git's.
fn tree(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = walkdir::WalkDir::new(dir).into_iter();
    let entries = entries.filter_entry(|entry| entry.file_name() != ".git").map(Result::unwrap);
    entries
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| {
            let name = entry.path().strip_prefix(dir).unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

#[test]
fn round_trip_keeps_every_byte() {
    let workspace = series();
    let files = workspace.sources();
    let ran = workspace.run(&["prep", "--git", "demo", "--json"]);
    let made = ran.exits(0).document("rocmrpm/prep-git/1");
    assert_eq!(made["made"], true);
    assert_eq!(made["commits"][1]["file"], "0001-x.patch");
    assert_eq!(
        subjects(&workspace),
        ["demo 1.0", "Change it", "y", "Make the edits of component.toml"]
    );
    let author = git(&workspace, &["log", "-1", "--format=%an <%ae> %at%n%b", "HEAD~2"]);
    assert_eq!(
        author,
        "rocmrpm <rocmrpm@users.noreply.github.com> 1795262400\n\
         Because \u{fc}  of\u{a0}this.\n\nOrigin: own\nDrop-When: never\nVersions: <2\n\
         Patch-File: 0001-x.patch\n\n"
    );
    assert_eq!(git(&workspace, &["status", "--porcelain"]), "");
    // The same files as after `%prep`.
    let prepared = workspace
        .run(&["prep", "demo"])
        .exits(0)
        .stdout
        .trim()
        .replace("[HOLDER]", workspace.holder().to_str().unwrap());
    assert_eq!(tree(&repository(&workspace)), tree(Path::new(&prepared)));
    let ran = workspace.run(&["patch", "save", "demo", "--json"]);
    let saved = ran.exits(0).document("rocmrpm/patch-save/1");
    assert_eq!(saved["patches"][0]["change"], "unchanged");
    assert_eq!(saved["patches"].as_array().unwrap().len(), 2);
    assert_eq!(workspace.sources(), files);
    // Neither command does anything the second time.
    let head = git(&workspace, &["rev-parse", "HEAD"]);
    workspace.run(&["prep", "--git", "demo"]).exits(0).reports(["Unchanged demo 1.0 (4 commits)"]);
    workspace.run(&["patch", "save", "demo"]).exits(0).reports(["Unchanged 0001-x.patch"]);
    assert_eq!((workspace.sources(), git(&workspace, &["rev-parse", "HEAD"])), (files, head));
    // Cleaning keeps what may not be saved.
    workspace.run(&["clean", "--all"]).exits(0);
    assert!(repository(&workspace).join("f").exists());
}

#[test]
fn saves_amended_added_reordered_and_dropped_commits() {
    let workspace = series();
    let (first, second) = (workspace.read(FIRST), workspace.read(SECOND));
    workspace.run(&["prep", "--git", "demo"]).exits(0);
    // A commit on top of the edits, although patches are applied before them.
    change(&workspace, "bin/g", &lines(4, &[]), "Add a line\n\nOrigin: own");
    let before = workspace.sources();
    let ran = workspace.run(&["patch", "save", "demo", "--dry-run"]);
    ran.exits(0).reports(["Unchanged 0001-x.patch", "Added 0003-Add-a-line.patch", "dry run"]);
    assert_eq!(workspace.sources(), before);
    let ran = workspace.run(&["patch", "save", "demo"]);
    ran.exits(0).reports(["0003-Add-a-line.patch has no Drop-When: in its message"]);
    let third = workspace.read("specs-templates/demo/0003-Add-a-line.patch");
    assert!(third.contains("From: Ada Lovelace <ada@example.org>\n"), "{third}");
    assert!(third.contains("\nOrigin: own\n---\n bin/g | 1 +\n"), "{third}");
    assert!(!third.contains("Patch-File"), "{third}");
    assert_eq!((workspace.read(FIRST), workspace.read(SECOND)), (first.clone(), second.clone()));
    assert_eq!(subjects(&workspace)[3..], ["Add a line", "Make the edits of component.toml"]);
    assert_eq!(git(&workspace, &["status", "--porcelain"]), "");
    workspace.run(&["patch", "status", "demo"]).exits(0);
    // The other order: one name changes, and no content.
    rebase(&workspace, "1{h;d};2G");
    let ran = workspace.run(&["patch", "save", "demo"]);
    ran.exits(0).reports(["Unchanged 0002-y.patch", "Renamed 0003-x.patch (was 0001-x.patch)"]);
    assert_eq!(
        patches(&workspace),
        ["0002-y.patch", "0003-x.patch", "0004-Add-a-line.patch", "0009-other.patch"]
    );
    assert_eq!(workspace.read("specs-templates/demo/0003-x.patch"), first);
    assert_eq!(workspace.read("specs-templates/demo/0004-Add-a-line.patch"), third);
    workspace.run(&["prep", "demo"]).exits(0);
    // Another change and message, with the trailers, in the second of three.
    let editor = "sequence.editor=sed -i -e '2s/^pick/edit/'";
    git(&workspace, &["-c", editor, "rebase", "--quiet", "--interactive", "refs/rocmrpm/upstream"]);
    workspace.run(&["patch", "save", "demo"]).exits(3).reports(["in the middle of a rebase"]);
    let text = std::fs::read_to_string(repository(&workspace).join("f")).unwrap();
    std::fs::write(repository(&workspace).join("f"), text.replace("ours", "ours, really")).unwrap();
    git(&workspace, &["commit", "--quiet", "--all", "--amend", "--no-edit"]);
    git(&workspace, &["rebase", "--continue"]);
    workspace.run(&["patch", "save", "demo"]).exits(0).reports(["Changed 0003-x.patch"]);
    let changed = workspace.read("specs-templates/demo/0003-x.patch");
    // The header is the same, byte for byte.
    assert_eq!(changed.split("\n---\n").next(), first.split("\n---\n").next());
    assert!(changed.contains("\n+ours, really\n"), "{changed}");
    workspace.run(&["prep", "demo"]).exits(0);
    // Without the first, and with another author.
    rebase(&workspace, "1d");
    let ran = workspace.run(&["patch", "save", "demo"]);
    ran.exits(0).reports(["Unchanged 0003-x.patch", "Removed 0002-y.patch"]);
    assert_eq!(patches(&workspace), ["0003-x.patch", "0004-Add-a-line.patch", "0009-other.patch"]);
    workspace.run(&["patch", "status", "demo"]).exits(0);
    workspace.run(&["prep", "--git", "demo"]).exits(0).reports(["Unchanged demo 1.0 (4 commits)"]);
}

#[test]
fn refuses_what_is_not_a_series_of_patches() {
    let workspace = series();
    let ran = workspace.run(&["patch", "save", "demo"]);
    ran.exits(3).reports(["no git repository of `demo`", "rocmrpm prep --git demo"]);
    workspace.run(&["prep", "--git", "demo"]).exits(0);
    let files = workspace.sources();
    let head = git(&workspace, &["rev-parse", "HEAD"]);
    let refuses = |parts: &[&str]| {
        workspace.run(&["patch", "save", "demo"]).exits(3).has_one_help_per_error().reports(parts);
        assert_eq!(workspace.sources(), files);
        git(&workspace, &["reset", "--quiet", "--hard", head.trim()]);
        git(&workspace, &["clean", "--quiet", "--force", "-d"]);
    };
    std::fs::write(repository(&workspace).join("f"), "else\n").unwrap();
    std::fs::write(repository(&workspace).join("untracked"), "else\n").unwrap();
    refuses(&["uncommitted changes: f, untracked", "add --all && git -C"]);
    // The commit of the edits.
    let text = std::fs::read_to_string(repository(&workspace).join("f")).unwrap();
    std::fs::write(repository(&workspace).join("f"), text.replace("a 25", "mine")).unwrap();
    git(&workspace, &["commit", "--quiet", "--all", "--amend", "--no-edit"]);
    refuses(&["of the edits was changed: f", "component.toml"]);
    change(&workspace, "f", &text.replace("twenty of 1.0", "mine"), "Change an edit");
    refuses(&["\"Change an edit\" changes the same lines as an edit of component.toml"]);
    // What rpm's patch cannot apply.
    std::fs::write(repository(&workspace).join("picture"), [0u8, 1, 255]).unwrap();
    git(&workspace, &["add", "--all"]);
    git(&workspace, &["commit", "--quiet", "--message", "Add a picture"]);
    refuses(&["\"Add a picture\" is not a patch", "GNU patch does not support binary diffs"]);
    git(&workspace, &["commit", "--quiet", "--allow-empty", "--message", "Nothing"]);
    refuses(&["\"Nothing\" changes nothing"]);
    git(&workspace, &["checkout", "--quiet", "-b", "side", "refs/rocmrpm/upstream"]);
    change(&workspace, "bin/g", "side\n", "Side");
    git(&workspace, &["checkout", "--quiet", "patches"]);
    git(&workspace, &["merge", "--quiet", "--message", "Merge side", "side"]);
    refuses(&["\"Merge side\" is a merge"]);
    change(&workspace, "bin/g", "more\n", "More\n\nVersions: >=2");
    refuses(&["\"More\" is for `>=2`, not for 1.0"]);
    // Someone else changes a patch in the workspace.
    change(&workspace, "bin/g", "more\n", "More");
    workspace.replace(SECOND, "+new", "+newer");
    let ran = workspace.run(&["patch", "save", "demo"]);
    ran.exits(3).reports(["`0002-y.patch` of `demo` changed since", "mv "]);
    let ran = workspace.run(&["prep", "--git", "demo"]);
    ran.exits(3).reports(["has commits that are not saved", "rocmrpm patch save demo"]);
    assert!(!patches(&workspace).iter().any(|name| name.contains("More")));
    // Without commits of its own, the repository follows.
    git(&workspace, &["reset", "--quiet", "--hard", head.trim()]);
    workspace.run(&["prep", "--git", "demo"]).exits(0).reports(["Prepared demo 1.0"]);
    assert_eq!(std::fs::read(repository(&workspace).join("h")).unwrap(), b"newer\n");
}

#[test]
fn shows_conflicts_with_a_new_version_as_git_does() {
    let workspace = demo(&[("f", &lines(30, &[])), ("g", &lines(9, &[]))]);
    patch(
        &workspace,
        "0001-g.patch",
        "",
        "--- a/g\n+++ b/g\n@@ -1,3 +1,3 @@\n a 1\n-a 2\n+two\n a 3\n",
    );
    patch(&workspace, "0002-x.patch", "", CHANGE);
    patch(
        &workspace,
        "0003-z.patch",
        "",
        "--- a/g\n+++ b/g\n@@ -6,4 +6,4 @@\n a 6\n a 7\n-a 8\n+eight\n a 9\n",
    );
    workspace.run(&["prep", "--git", "demo"]).exits(0);
    change(
        &workspace,
        "f",
        &lines(30, &[(10, "ours\n"), (29, "mine\n")]),
        "Mine\n\nOrigin: own\nDrop-When: never",
    );
    let first = workspace.read("specs-templates/demo/0001-g.patch");
    // Line 10 of `f` is another one, and line 6 of `g` is context.
    let newer = [("f", lines(30, &[(10, "theirs\n")])), ("g", lines(9, &[(6, "six\n")]))];
    pin(&workspace, "stable", "1.1", &newer.each_ref().map(|(name, text)| (*name, text.as_str())));
    let ran = workspace.run(&["prep", "--git", "demo"]);
    ran.exits(3).reports(["has commits that are not saved"]);
    // They are saved for the version that they were made for.
    workspace.run(&["patch", "save", "demo"]).exits(0).reports(["Added 0004-Mine.patch"]);
    let files = workspace.sources();
    let ran = workspace.run(&["prep", "--git", "demo"]);
    ran.exits(1).reports([
        "Stopped 0002-x.patch conflicts in f",
        "cherry-pick --continue`, then `rocmrpm patch save demo`",
    ]);
    assert_eq!(subjects(&workspace), ["demo 1.1", "Change it"]);
    let text = std::fs::read_to_string(repository(&workspace).join("f")).unwrap();
    assert!(text.contains("<<<<<<< HEAD\ntheirs\n=======\nours\n>>>>>>> "), "{text}");
    workspace.run(&["patch", "save", "demo"]).exits(3).reports(["in the middle of a cherry-pick"]);
    let ran = workspace.run(&["prep", "--git", "demo", "--json"]);
    let again = ran.exits(1).document("rocmrpm/prep-git/1");
    assert_eq!(
        (&again["made"], &again["stopped"]["file"]),
        (&false.into(), &"0002-x.patch".into())
    );
    // Giving up is not the same as dropping the patches.
    git(&workspace, &["cherry-pick", "--abort"]);
    let ran = workspace.run(&["patch", "save", "demo"]);
    ran.exits(3).reports(["0002-x.patch, 0003-z.patch, 0004-Mine.patch did not apply"]);
    assert_eq!(workspace.sources(), files);
    workspace.run(&["prep", "--git", "demo"]).exits(1);
    std::fs::write(repository(&workspace).join("f"), lines(30, &[(10, "both\n")])).unwrap();
    git(&workspace, &["add", "f"]);
    git(&workspace, &["cherry-pick", "--continue"]);
    assert_eq!(subjects(&workspace).len(), 5);
    let ran = workspace.run(&["patch", "save", "demo"]);
    ran.exits(0).reports([
        "Unchanged 0001-g.patch",
        "Changed 0002-x.patch",
        "Changed 0003-z.patch",
        "Unchanged 0004-Mine.patch",
    ]);
    assert_eq!(workspace.read("specs-templates/demo/0001-g.patch"), first);
    workspace.run(&["patch", "status"]).exits(0);
    workspace.run(&["prep", "demo"]).exits(0);
}

#[test]
fn rebases_onto_a_pin_from_the_command_line() {
    let workspace = demo(&[("f", &lines(30, &[]))]);
    patch(&workspace, "0001-x.patch", "<1.2", CHANGE);
    patch(&workspace, "0002-new.patch", ">=1.1", "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n");
    workspace.write("specs-templates/demo/component.toml", EDIT);
    workspace.run(&["patch", "status"]).exits(0);
    pin(&workspace, "next", "1.1", &[("f", &lines(30, &[(12, "twelve\n"), (20, "gone\n")]))]);
    // Nothing conflicts, so git picks the patch; the edit has nothing to edit.
    let ran = workspace.run(&["prep", "--git", "demo", "--pins", "next"]);
    ran.exits(0).reports(["an edit does not apply: f: `a 20` occurs 0 times, not once"]);
    let ran = workspace.run(&["patch", "save", "demo", "--pins", "next"]);
    ran.exits(0).reports([
        "Changed 0001-x.patch",
        "Unchanged 0002-new.patch",
        "0001-x.patch is also for the pin set `stable`",
    ]);
    assert!(workspace.read(FIRST).contains("\nVersions: <1.2\n---\n"), "{}", workspace.read(FIRST));
    // What upstream has is skipped with git, which drops the patch.
    pin(&workspace, "next", "1.1.5", &[("f", &lines(30, &[(10, "ours\n"), (12, "twelve\n")]))]);
    let ran = workspace.run(&["prep", "--git", "demo", "--pins", "next"]);
    ran.exits(1)
        .reports(["Stopped 0001-x.patch is part of the upstream sources", "cherry-pick --skip"]);
    git(&workspace, &["cherry-pick", "--skip"]);
    let ran = workspace.run(&["patch", "save", "demo", "--pins", "next"]);
    ran.exits(3)
        .reports(["cannot remove `0001-x.patch`: the pin set `stable`", "other than 1.1.5"]);
    workspace.replace(FIRST, "Versions: <1.2", "Versions: <1.1.5");
    let ran = workspace.run(&["patch", "save", "demo", "--pins", "next"]);
    ran.exits(0).reports(["Unchanged 0002-new.patch"]).never_reports("0001");
    assert_eq!(patches(&workspace), ["0001-x.patch", "0002-new.patch"]);
    // A patch that applies to no known version cannot be picked.
    patch(&workspace, "0003-odd.patch", "", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-odd\n+even\n");
    let ran = workspace.run(&["prep", "--git", "demo", "--pins", "next"]);
    ran.exits(3)
        .reports(["the cache has no version that it applies to", "rocmrpm patch status --pin"]);
    assert_eq!(subjects(&workspace)[0], "demo 1.1.5");
}

#[test]
fn killed_runs_leave_nothing_half_written() {
    let workspace = series();
    for delay in [0, 20, 60, 120, 200, 300, 450] {
        let run = workspace.start(&["prep", "--git", "demo"]);
        std::thread::sleep(Duration::from_millis(delay));
        run.signal("KILL");
        run.finish();
        let folder = repository(&workspace);
        if folder.exists() {
            assert_eq!(subjects(&workspace).len(), 4, "after {delay} ms");
            std::fs::remove_dir_all(folder).unwrap();
        }
    }
    workspace.run(&["prep", "--git", "demo"]).exits(0);
    rebase(&workspace, "1{h;d};2G");
    change(&workspace, "bin/g", "more\n", "More");
    let before = workspace.sources();
    for delay in [0, 50, 100, 200, 300, 400, 500, 700] {
        let run = workspace.start(&["patch", "save", "demo"]);
        std::thread::sleep(Duration::from_millis(delay));
        run.signal("KILL");
        run.finish();
        if workspace.sources() != before {
            break;
        }
    }
    // The next run completes what the killed one started.
    workspace.run(&["patch", "save", "demo"]).exits(0);
    let names = ["0002-y.patch", "0003-x.patch", "0004-More.patch", "0009-other.patch"];
    assert_eq!(patches(&workspace), names);
    // One that was killed after the first of its files.
    rebase(&workspace, "1d");
    workspace
        .run(&["patch", "save", "demo", "--dry-run"])
        .exits(0)
        .reports(["Removed 0002-y.patch"]);
    std::fs::remove_file(workspace.path(SECOND)).unwrap();
    workspace.run(&["patch", "save", "demo"]).exits(0).reports(["Unchanged 0003-x.patch"]);
    assert_eq!(patches(&workspace), names[1..]);
    workspace.run(&["prep", "--git", "demo"]).exits(0).reports(["Unchanged"]);
    let names = crate::support::names_in(&workspace.path("build/fedora-43/git"));
    assert_eq!(names, [".demo.lock", "demo"]);
}
