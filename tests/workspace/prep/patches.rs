//! `rocmrpm patch status`.

use super::demo::{demo, lines, patch, pin};

/// Changes line 10 of the file `f`.
const PATCH: &str = "--- a/f\n+++ b/f\n@@ -8,5 +8,5 @@\n a 8\n a 9\n-a 10\n+ours\n a 11\n a 12\n";

#[test]
fn what_applies_exits_with_0() {
    let lab = demo(&[("f", &lines(30, &[])), ("g", "set(X /opt/rocm) # /opt/rocm\n")]);
    patch(&lab, "0001-x.patch", "<2", PATCH);
    // On top of the first one.
    patch(&lab, "0002-y.patch", "", &PATCH.replace("-a 10", "-ours").replace("+ours", "+ours too"));
    lab.write(
        "specs-templates/demo/component.toml",
        "[[edit]]\nfile = \"g\"\nfind = \"/opt/rocm\"\nreplace = \"@VERSION@\"\nmatches = 2\nreason = \"FHS\"\n\
         drop-when = \"never\"\n\
         [[edit]]\nfile = \"g\"\nfind = \"set(X 1.0\"\nreplace = \"set(X /\"\nmatches = 1\nreason = \"again\"\n\
         [[edit]]\nfile = \"f\"\nfind = \"ours too\"\nreplace = \"x\"\nmatches = 1\nreason = \"after the patches\"\n",
    );
    let ran = lab.run(&["patch", "status"]).exits(0);
    let ran = ran.prints(&[
        "demo 1.0",
        "0001-x.patch (<2) applies",
        "0002-y.patch applies",
        "drop when: never",
        "it has no `drop-when`",
    ]);
    assert!(!ran.stdout.contains("does not apply"), "{}", ran.stdout);
    let json = lab.run(&["patch", "status", "--json"]).exits(0).json("rocmrpm/patch-status/2");
    assert_eq!(json["fails"], false);
    assert_eq!(json["components"][0]["edits"][2]["state"], "applies");
    // Nothing was changed by looking.
    let log = lab.run(&["prep", "demo"]).exits(0);
    assert!(lab.read(&format!("{}/f", log.stdout.trim().replace("[LAB]/workspace/", ""))).contains("\nx\n"));
}

#[test]
fn offsets_and_unused_patches_are_told() {
    let lab = demo(&[("f", &format!("new\nnew\n{}", lines(30, &[])))]);
    patch(&lab, "0001-x.patch", "", PATCH);
    patch(&lab, "0002-later.patch", ">=2", PATCH);
    patch(&lab, "0003-never.patch", "<1", PATCH);
    pin(&lab, "next", "2.0", &[("f", "x\n")]);
    lab.run(&["patch", "status", "demo"]).exits(0).prints(&[
        "0001-x.patch applies with an offset of up to 2 lines",
        "0002-later.patch (>=2) is for other versions",
        "0003-never.patch (<1) is for versions that no pin set has",
    ]);
    let json = lab.run(&["patch", "status", "--json"]).json("rocmrpm/patch-status/2");
    let patches = &json["components"][0]["patches"];
    assert_eq!(
        patches[0]["offsets"][0],
        serde_json::json!({"file": "f", "hunk": 1, "line": 10, "offset": 2})
    );
    fs_err::remove_file(lab.path("specs-templates/demo/0001-x.patch")).unwrap();
    lab.run(&["patch", "refresh", "demo"]).exits(0).says(&["demo has no patch for 1.0"]);
}

#[test]
fn a_misfit_shows_what_upstream_changed_between_the_sets() {
    let lab = demo(&[("f", &lines(60, &[])), ("gone", "a 1\n")]);
    patch(&lab, "0001-x.patch", "", &format!("{PATCH}--- a/gone\n+++ b/gone\n@@ -1 +1 @@\n-a 1\n+b\n"));
    let changed = lines(60, &[(10, "a ten\n"), (50, "elsewhere\n")]);
    pin(&lab, "next", "1.1", &[("f", &changed), ("moved/to/gone", "a 1\n")]);
    lab.run(&["patch", "status"]).exits(0);
    let ran = lab.run(&["patch", "status", "--pins", "next"]).exits(1).prints(&[
        "0001-x.patch does not apply",
        "f, hunk 1 (@@ -8,5 +8,5 @@): its lines are not there",
        "upstream changed there, from 1.0 to 1.1:",
        "-a 10\n",
        "+a ten\n",
        "gone: the file is not there",
        "a file of that name: moved/to/gone",
        "1.0 has it, 1.1 has it no more",
    ]);
    assert!(!ran.stdout.contains("elsewhere"), "{}", ran.stdout);
    ran.says(&["`rocmrpm patch refresh`"]);
}

#[test]
fn the_version_that_fitted_is_found_in_the_history() {
    let lab = demo(&[("f", &lines(30, &[]))]);
    patch(&lab, "0001-x.patch", "", PATCH);
    lab.commit("First");
    lab.run(&["patch", "status"]).exits(0);
    pin(&lab, "stable", "1.1", &[("f", &lines(30, &[(10, "a ten\n")]))]);
    lab.commit("Update");
    lab.run(&["patch", "status"]).exits(1).prints(&["from 1.0 to 1.1:", "+a ten"]);
}

#[test]
fn without_an_older_version_the_nearest_place_is_shown() {
    let lab =
        demo(&[("f", &format!("{}{}", lines(30, &[]).replace('a', "b"), lines(30, &[(10, "a ten\n")])))]);
    patch(&lab, "0001-x.patch", "", PATCH);
    lab.run(&["patch", "status"]).exits(1).prints(&[
        "most like it is line 38; `-` is expected, `+` is there:",
        "| -a 10\n",
        "| +a ten\n",
    ]);
}

#[test]
fn edits_that_match_otherwise_are_told_with_near_lines() {
    let lab = demo(&[("f", "set(LLVM /opt)\nother\nother\n"), ("moved/g", "x\n")]);
    lab.write(
        "specs-templates/demo/component.toml",
        "[[edit]]\nfile = \"f\"\nfind = \"other\"\nreplace = \"x\"\nmatches = 1\nreason = \"a\"\n\
         [[edit]]\nfile = \"f\"\nfind = \"set(LLVM /opd)\"\nreplace = \"x\"\nmatches = 1\nreason = \"b\"\n\
         [[edit]]\nfile = \"g\"\nfind = \"x\"\nreplace = \"y\"\nmatches = 1\nreason = \"c\"\n\
         [[edit]]\nfile = \"f\"\nfind = \"x\"\nreplace = \"y\"\nmatches = 1\nversions = \">=9\"\nreason = \"d\"\n",
    );
    lab.run(&["patch", "status"]).exits(1).prints(&[
        "f: the text is there 2 times, not once",
        "line 2: other",
        "f: the text is there 0 times, not once",
        "line 1: set(LLVM /opt)",
        "g: the file is not there",
        "a file of that name: moved/g",
        "(>=9) is for versions that no pin set has",
    ]);
}

#[test]
fn what_upstream_took_is_told() {
    let lab = demo(&[("f", &lines(30, &[(10, "ours\n")]))]);
    patch(&lab, "0001-x.patch", "", PATCH);
    lab.run(&["patch", "status"]).exits(1).prints(&["f, hunk 1", "what it does is in the source already"]);
}

#[test]
fn hostile_patches_change_nothing_outside() {
    let lab = demo(&[("f", "x\n")]);
    let diff = "--- a/../../../victim\n+++ b/../../../victim\n@@ -1 +1 @@\n-safe\n+broken\n";
    lab.write("victim", "safe\n");
    patch(&lab, "0001-out.patch", "", diff);
    patch(&lab, "0002-ed.patch", "", "--- a/f\n+++ b/f\n1s/x/y/\n!touch /tmp/rocmrpm-never\nw\n");
    let binary = "diff --git a/f b/f\nindex 1..2 100644\nGIT binary patch\nliteral 3\nKcmZ?wbhEHb\n\nliteral 0\nHcmV?d00001\n\n";
    patch(&lab, "0003-binary.patch", "", binary);
    let ran = lab.run(&["patch", "status"]).exits(1);
    ran.prints(&[
        "which is outside of the source",
        "0002-ed.patch does not apply",
        "0003-binary.patch does not apply",
    ]);
    assert_eq!(lab.read("victim"), "safe\n");
    assert!(!std::path::Path::new("/tmp/rocmrpm-never").exists());
}

#[test]
fn sources_out_of_reach_do_not_hide_the_others() {
    let lab = demo(&[("f", &lines(30, &[]))]);
    patch(&lab, "0001-x.patch", "", PATCH);
    lab.write(
        "specs-templates/far/component.toml",
        "[[edit]]\nfile = \"f\"\nfind = \"x\"\nreplace = \"y\"\nmatches = 1\nreason = \"d\"\n",
    );
    lab.write("specs-templates/far/far.spec.tera", "Name: far\n");
    let pins = lab.read("pins/stable.toml");
    let digest = "0".repeat(64);
    lab.write(
        "pins/stable.toml",
        &format!(
            "{pins}[far]\nversion = \"1\"\nurl = \"file:///nonexistent/far.tar.gz\"\nsha256 = \"{digest}\"\n"
        ),
    );
    lab.run(&["patch", "status"])
        .exits(30)
        .prints(&["0001-x.patch applies"])
        .says(&["`far` was not looked at"]);
}
