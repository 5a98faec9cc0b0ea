//! `rocmrpm patch refresh`.

use super::demo::{demo, lines, patch, pin};
use crate::support::Workspace;

const FILE: &str = "specs-templates/demo/0001-x.patch";

/// Changes line 10 of the file `f`.
const PATCH: &str = " f | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n\n\
    --- a/f\n+++ b/f\n@@ -7,7 +7,7 @@\n a 7\n a 8\n a 9\n-a 10\n+ours\n a 11\n a 12\n a 13\n";

/// Returns the text before the diff.
fn header(workspace: &Workspace) -> String {
    workspace.read(FILE).split("\n---\n").next().unwrap().to_owned()
}

#[test]
fn refresh_updates_line_numbers_and_keeps_the_header() {
    let workspace = demo(&[("f", &format!("new\n{}", lines(30, &[])))]);
    patch(&workspace, "0001-x.patch", "", PATCH);
    workspace.replace(FILE, "Because.", "Because \u{fc}  of\u{a0}this. ");
    patch(&workspace, "0002-y.patch", "", "--- a/g\n+++ b/g\n@@ -0,0 +1 @@\n+new\n");
    let (before, second) =
        (header(&workspace), workspace.read("specs-templates/demo/0002-y.patch"));
    workspace
        .run(&["patch", "refresh", "demo"])
        .exits(0)
        .reports(["Refreshed 0001-x.patch (new line numbers)", "Unchanged 0002-y.patch"]);
    assert_eq!(header(&workspace), before);
    assert!(workspace.read(FILE).contains("\n@@ -8,7 +8,7 @@"), "{}", workspace.read(FILE));
    assert!(workspace.read(FILE).ends_with("\n a 13\n"));
    assert_eq!(workspace.read("specs-templates/demo/0002-y.patch"), second);
    workspace.run(&["patch", "status"]).exits(0).prints(["0001-x.patch applies\n"]);
    // A second refresh changes nothing.
    let files = workspace.files();
    workspace.run(&["patch", "refresh"]).exits(0).reports(["Unchanged 0001-x.patch"]);
    assert_eq!(workspace.files(), files);
    workspace.run(&["prep", "demo"]).exits(0);
}

#[test]
fn refresh_merges_nearby_upstream_changes() {
    let workspace = demo(&[("f", &lines(30, &[]))]);
    patch(&workspace, "0001-x.patch", "", PATCH);
    workspace.run(&["patch", "status"]).exits(0);
    // Line 12 is context of the patch, but not next to its change.
    pin(&workspace, "next", "1.1", &[("f", &format!("new\n{}", lines(30, &[(12, "twelve\n")])))]);
    let before = header(&workspace);
    workspace.run(&["patch", "status", "--pins", "next"]).exits(1);
    let refreshed = workspace.run(&["patch", "refresh", "--pins", "next"]);
    refreshed.exits(0);
    refreshed.reports(["0001-x.patch (merged with upstream's changes since 1.0)"]);
    assert_eq!(header(&workspace), before);
    assert!(workspace.read(FILE).contains(" twelve\n"));
    workspace
        .run(&["patch", "status", "--pins", "next"])
        .exits(0)
        .prints(["0001-x.patch applies\n"]);
}

#[test]
fn shows_conflicts_and_writes_nothing() {
    let workspace = demo(&[("f", &lines(30, &[])), ("g", &lines(30, &[]))]);
    patch(&workspace, "0001-x.patch", "", &PATCH.replace("/f\n", "/g\n"));
    patch(&workspace, "0002-y.patch", "", PATCH);
    workspace.run(&["patch", "status"]).exits(0);
    pin(
        &workspace,
        "next",
        "1.1",
        &[("f", &lines(30, &[(10, "theirs\n")])), ("g", &format!("new\n{}", lines(30, &[])))],
    );
    let files = workspace.read(FILE);
    workspace
        .run(&["patch", "refresh", "--pins", "next"])
        .exits(1)
        .prints(["0002-y.patch conflicts", "<<<<<<<", "+ours", " theirs", ">>>>>>>"])
        .reports(["was written"]);
    assert_eq!(workspace.read(FILE), files);
    // A patch that upstream has is not a conflict of lines.
    pin(&workspace, "next", "1.2", &[("f", &lines(30, &[(10, "ours\n")])), ("g", &lines(30, &[]))]);
    workspace
        .run(&["patch", "refresh", "--pins", "next"])
        .exits(1)
        .prints(["upstream already contains all of it", "remove the patch"]);
    let json = workspace
        .run(&["patch", "refresh", "--pins", "next", "--json"])
        .exits(1)
        .document("rocmrpm/patch-refresh/2");
    assert_eq!(json["written"], false);
    assert_eq!(json["components"][0]["conflict"]["file"], "0002-y.patch");
}

#[test]
fn accepts_different_context_without_an_older_version() {
    let workspace = demo(&[("f", &lines(30, &[(13, "thirteen\n")]))]);
    patch(&workspace, "0001-x.patch", "", PATCH);
    workspace.run(&["patch", "refresh"]).exits(0).reports(["its context differs; review it"]);
    workspace.run(&["patch", "status"]).exits(0).prints(["0001-x.patch applies\n"]);
    pin(&workspace, "stable", "2.0", &[("f", "quite another\n")]);
    workspace
        .run(&["patch", "refresh"])
        .exits(1)
        .prints(["the cache has no version that it applies to"]);
}
