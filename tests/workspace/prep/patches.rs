//! `rocmrpm patch status`.

use super::demo::{demo, lines, patch, pin};

/// Changes line 10 of the file `f`.
const PATCH: &str = "--- a/f\n+++ b/f\n@@ -8,5 +8,5 @@\n a 8\n a 9\n-a 10\n+ours\n a 11\n a 12\n";

#[test]
fn exits_with_0_if_everything_applies() {
    let workspace = demo(&[("f", &lines(30, &[])), ("g", "set(X /opt/rocm) # /opt/rocm\n")]);
    patch(&workspace, "0001-x.patch", "<2", PATCH);
    // Applies after the first one.
    patch(
        &workspace,
        "0002-y.patch",
        "",
        &PATCH.replace("-a 10", "-ours").replace("+ours", "+ours too"),
    );
    workspace.write(
        "specs-templates/demo/component.toml",
        "[[edit]]\nfile = \"g\"\nfind = \"/opt/rocm\"\nreplace = \"@VERSION@\"\nmatches = 2\nreason = \"FHS\"\n\
         drop-when = \"never\"\n\
         [[edit]]\nfile = \"g\"\nfind = \"set(X 1.0\"\nreplace = \"set(X /\"\nmatches = 1\nreason = \"again\"\n\
         [[edit]]\nfile = \"f\"\nfind = \"ours too\"\nreplace = \"x\"\nmatches = 1\nreason = \"after the patches\"\n",
    );
    let ran = workspace.run(&["patch", "status"]);
    ran.exits(0);
    ran.prints([
        "demo 1.0",
        "0001-x.patch (<2) applies",
        "0002-y.patch applies",
        "drop when: never",
        "it has no `drop-when`",
    ]);
    assert!(!ran.stdout.contains("does not apply"), "{}", ran.stdout);
    let json =
        workspace.run(&["patch", "status", "--json"]).exits(0).document("rocmrpm/patch-status/2");
    assert_eq!(json["fails"], false);
    assert_eq!(json["components"][0]["edits"][2]["state"], "applies");
    // The check changed nothing.
    let log = workspace.run(&["prep", "demo"]);
    log.exits(0);
    assert!(
        workspace
            .read(format!("{}/f", log.stdout.trim().replace("[HOLDER]/workspace/", "")))
            .contains("\nx\n")
    );
}

#[test]
fn reports_offsets_and_unused_patches() {
    let workspace = demo(&[("f", &format!("new\nnew\n{}", lines(30, &[])))]);
    patch(&workspace, "0001-x.patch", "", PATCH);
    patch(&workspace, "0002-later.patch", ">=2", PATCH);
    patch(&workspace, "0003-never.patch", "<1", PATCH);
    pin(&workspace, "next", "2.0", &[("f", "x\n")]);
    workspace.run(&["patch", "status", "demo"]).exits(0).prints([
        "0001-x.patch applies with an offset of up to 2 lines",
        "0002-later.patch (>=2) is for other versions",
        "0003-never.patch (<1) is for versions that no pin set has",
    ]);
    let json = workspace.run(&["patch", "status", "--json"]).document("rocmrpm/patch-status/2");
    let patches = &json["components"][0]["patches"];
    assert_eq!(
        patches[0]["offsets"][0],
        serde_json::json!({"file": "f", "hunk": 1, "line": 10, "offset": 2})
    );
    fs_err::remove_file(workspace.path("specs-templates/demo/0001-x.patch")).unwrap();
    workspace.run(&["patch", "refresh", "demo"]).exits(0).reports(["demo has no patch for 1.0"]);
}

#[test]
fn shows_upstream_changes_between_the_sets() {
    let workspace = demo(&[("f", &lines(60, &[])), ("gone", "a 1\n")]);
    patch(
        &workspace,
        "0001-x.patch",
        "",
        &format!("{PATCH}--- a/gone\n+++ b/gone\n@@ -1 +1 @@\n-a 1\n+b\n"),
    );
    let changed = lines(60, &[(10, "a ten\n"), (50, "elsewhere\n")]);
    pin(&workspace, "next", "1.1", &[("f", &changed), ("moved/to/gone", "a 1\n")]);
    workspace.run(&["patch", "status"]).exits(0);
    let ran = workspace.run(&["patch", "status", "--pins", "next"]);
    ran.exits(1).prints([
        "0001-x.patch does not apply",
        "f, hunk 1 (@@ -8,5 +8,5 @@): its lines were not found",
        "upstream changed this from 1.0 to 1.1:",
        "-a 10\n",
        "+a ten\n",
        "gone: the file was not found",
        "a file with that name: moved/to/gone",
        "1.0 has it, 1.1 no longer has it",
    ]);
    assert!(!ran.stdout.contains("elsewhere"), "{}", ran.stdout);
    ran.reports(["`rocmrpm patch refresh`"]);
}

#[test]
fn finds_the_last_matching_version_in_the_history() {
    let workspace = demo(&[("f", &lines(30, &[]))]);
    patch(&workspace, "0001-x.patch", "", PATCH);
    workspace.commit("First");
    workspace.run(&["patch", "status"]).exits(0);
    pin(&workspace, "stable", "1.1", &[("f", &lines(30, &[(10, "a ten\n")]))]);
    workspace.commit("Update");
    workspace.run(&["patch", "status"]).exits(1).prints(["from 1.0 to 1.1:", "+a ten"]);
}

#[test]
fn shows_the_closest_match_without_an_older_version() {
    let workspace = demo(&[(
        "f",
        &format!("{}{}", lines(30, &[]).replace('a', "b"), lines(30, &[(10, "a ten\n")])),
    )]);
    patch(&workspace, "0001-x.patch", "", PATCH);
    workspace.run(&["patch", "status"]).exits(1).prints([
        "the closest match is at line 38; `-` is expected, `+` is found:",
        "| -a 10\n",
        "| +a ten\n",
    ]);
}

#[test]
fn shows_similar_lines_for_edits_that_do_not_match() {
    let workspace = demo(&[("f", "set(LLVM /opt)\nother\nother\n"), ("moved/g", "x\n")]);
    workspace.write(
        "specs-templates/demo/component.toml",
        "[[edit]]\nfile = \"f\"\nfind = \"other\"\nreplace = \"x\"\nmatches = 1\nreason = \"a\"\n\
         [[edit]]\nfile = \"f\"\nfind = \"set(LLVM /opd)\"\nreplace = \"x\"\nmatches = 1\nreason = \"b\"\n\
         [[edit]]\nfile = \"g\"\nfind = \"x\"\nreplace = \"y\"\nmatches = 1\nreason = \"c\"\n\
         [[edit]]\nfile = \"f\"\nfind = \"x\"\nreplace = \"y\"\nmatches = 1\nversions = \">=9\"\nreason = \"d\"\n",
    );
    workspace.run(&["patch", "status"]).exits(1).prints([
        "f: the text occurs 2 times, not once",
        "line 2: other",
        "f: the text occurs 0 times, not once",
        "line 1: set(LLVM /opt)",
        "g: the file was not found",
        "a file with that name: moved/g",
        "(>=9) is for versions that no pin set has",
    ]);
}

#[test]
fn reports_patches_that_upstream_has() {
    let workspace = demo(&[("f", &lines(30, &[(10, "ours\n")]))]);
    patch(&workspace, "0001-x.patch", "", PATCH);
    workspace
        .run(&["patch", "status"])
        .exits(1)
        .prints(["f, hunk 1", "the source already contains its changes"]);
}

#[test]
fn hostile_patches_change_nothing_outside() {
    let workspace = demo(&[("f", "x\n")]);
    let diff = "--- a/../../../victim\n+++ b/../../../victim\n@@ -1 +1 @@\n-safe\n+broken\n";
    workspace.write("victim", "safe\n");
    patch(&workspace, "0001-out.patch", "", diff);
    patch(
        &workspace,
        "0002-ed.patch",
        "",
        "--- a/f\n+++ b/f\n1s/x/y/\n!touch /tmp/rocmrpm-never\nw\n",
    );
    let binary = "diff --git a/f b/f\nindex 1..2 100644\nGIT binary patch\nliteral 3\nKcmZ?wbhEHb\n\nliteral 0\nHcmV?d00001\n\n";
    patch(&workspace, "0003-binary.patch", "", binary);
    let ran = workspace.run(&["patch", "status"]);
    ran.exits(1);
    ran.prints([
        "which is outside of the source",
        "0002-ed.patch does not apply",
        "0003-binary.patch does not apply",
    ]);
    assert_eq!(workspace.read("victim"), "safe\n");
    assert!(!std::path::Path::new("/tmp/rocmrpm-never").exists());
}

#[test]
fn unreachable_sources_do_not_hide_the_others() {
    let workspace = demo(&[("f", &lines(30, &[]))]);
    patch(&workspace, "0001-x.patch", "", PATCH);
    workspace.write(
        "specs-templates/far/component.toml",
        "[[edit]]\nfile = \"f\"\nfind = \"x\"\nreplace = \"y\"\nmatches = 1\nreason = \"d\"\n",
    );
    workspace.write("specs-templates/far/far.spec.tera", "Name: far\n");
    let pins = workspace.read("pins/stable.toml");
    let digest = "0".repeat(64);
    workspace.write(
        "pins/stable.toml",
        format!(
            "{pins}[far]\nversion = \"1\"\nurl = \"file:///nonexistent/far.tar.gz\"\nsha256 = \"{digest}\"\n"
        ),
    );
    workspace
        .run(&["patch", "status"])
        .exits(30)
        .prints(["0001-x.patch applies"])
        .reports(["`far` was not checked"]);
}
