//! Tests that `rocmrpm closure --upgrade NAME` upgrades one member and what it requires, and that
//! `rocmrpm pins outdated` compares members with the index.

use super::index::Index;
use super::{ClosureFixture, MIT, members, versions};
use crate::support::ran;
use crate::support::server::TestServer;

/// Returns an index with version 1.0 of all distributions, and with newer versions if `later`.
fn index(later: bool) -> TestServer {
    let first = Index::default()
        .wheel("base", "1.0", &[MIT])
        .wheel("left", "1.0", &[MIT, "Requires-Dist: base>=1"])
        .wheel("right", "1.0", &[MIT])
        .wheel("shadow", "1.0", &[MIT]);
    let index = match later {
        false => first,
        true => first
            .wheel("base", "1.1", &[MIT])
            .wheel("base", "2.0", &[MIT])
            .wheel("left", "2.0", &[MIT, "Requires-Dist: base>=1.1", "Requires-Dist: new"])
            .wheel("new", "1.0", &[MIT])
            .wheel("right", "1.5", &[MIT])
            .wheel("right", "2.0rc1", &[MIT])
            .wheel("right", "3.0", &[MIT, "Requires-Python: >=3.15"])
            .wheel("shadow", "1.1", &[MIT]),
    };
    index.serve()
}

/// Returns a workspace with a locked closure. The release's `shadow` is too old.
fn locked() -> ClosureFixture {
    let fixture =
        ClosureFixture::new(&["left", "right", "shadow>=1"], &[("python3-shadow", "0.5")]);
    let server = index(false);
    ran(&mut fixture.command(Some(&server.url("/simple")), &["--write"])).exits(0);
    fixture
}

#[test]
fn moves_one_member_and_what_it_forces() {
    let (fixture, server) = (locked(), index(true));
    let run = |args: &[&str]| ran(&mut fixture.command(Some(&server.url("/simple")), args));
    let before = fixture.lock();
    let right = run(&["--upgrade", "Right"]);
    right.exits(0).reports(["help: run `rocmrpm closure --write --upgrade Right` to lock"]);
    similar_asserts::assert_eq!(
        right.stdout,
        "    NAME   BEFORE  AFTER  PLACE\nup  right  1.0     1.5\n\n1 difference: 1 up\n"
    );
    assert_eq!(fixture.lock(), before, "nothing is written without --write");
    let left = run(&["--upgrade", "left", "--json", "--write"]);
    let document = left.exits(0).json();
    let names = |list: &serde_json::Value| -> Vec<String> {
        list.as_array()
            .unwrap()
            .iter()
            .map(|one| format!("{} {}", one["what"], one["name"]))
            .collect()
    };
    // A member that must move gets its newest version.
    assert_eq!(
        names(&document["upgraded"]),
        ["\"up\" \"base\"", "\"up\" \"left\"", "\"added\" \"new\""]
    );
    assert_eq!(
        versions(&members(&left)),
        ["base 2.0", "left 2.0", "new 1.0", "right 1.0", "shadow 1.0"]
    );
    // The new lock is as binding as any other.
    let again = run(&["--json", "--offline"]);
    assert_eq!(versions(&members(again.exits(0))), versions(&members(&left)));
    let all = run(&["app", "--upgrade", "--json"]);
    assert_eq!(versions(&members(all.exits(0)))[3..], ["right 1.5", "shadow 1.1"]);
    run(&["--upgrade", "left"]).exits(0).reports(["left stays at 2.0"]);
}

#[test]
fn rejects_members_that_cannot_move() {
    let (fixture, server) = (locked(), index(true));
    let run = |args: &[&str]| ran(&mut fixture.command(Some(&server.url("/simple")), args));
    run(&["--upgrade", "rihgt"])
        .exits(2)
        .reports(["`rihgt` is not in the closure of `app`", "did you mean `right`?"]);
    run(&["--upgrade", "right", "app"])
        .exits(2)
        .reports(["move all members: `rocmrpm closure app --upgrade`"]);
    fs_err::remove_file(fixture.workspace.path("pins/p.requirements.lock")).unwrap();
    run(&["--upgrade", "right"])
        .exits(2)
        .reports(["the closure of `app` is not locked", "rocmrpm closure --write"]);
}

#[test]
fn lists_outdated_members_with_places() {
    let (fixture, server) = (locked(), index(true));
    let run = |args: &[&str]| {
        ran(&mut fixture
            .any_command(Some(&server.url("/simple")), &[&["pins", "outdated"], args].concat()))
    };
    let one = run(&["right"]);
    one.exits(1).reports(["next: run `rocmrpm closure --upgrade right` to see"]);
    assert_eq!(one.stdout, "MEMBER  PLACE  LOCKED  NEWEST\nright   rpm    1.0     1.5\n");
    assert!(run(&["right", "--pre"]).exits(1).stdout.contains("2.0rc1"));
    let all = run(&["--json"]);
    let document = all.exits(1).json();
    let rows: Vec<String> = document["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| format!("{} {} {}", row["name"], row["place"], row["newest"]).replace('"', ""))
        .collect();
    assert_eq!(rows, ["base rpm 2.0", "left rpm 2.0", "right rpm 1.5", "shadow private 1.1"]);
    run(&["rihgt"])
        .exits(2)
        .reports(["no component or member of the closure `rihgt`", "did you mean `right`?"]);
    drop(server);
    let closed = "http://127.0.0.1:9/simple";
    let mut command = fixture.any_command(Some(closed), &["pins", "outdated", "right"]);
    ran(&mut command).exits(30).reports(["cannot list newer releases: reached 0 of 1 origin"]);
}
