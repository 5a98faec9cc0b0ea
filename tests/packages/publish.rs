//! Tests publishing from a user's perspective: to a folder, over rsync and to S3, with the real
//! tools and a real client. Needs rpmbuild, createrepo_c, rsync, aws, venv, and the index
//! configured for pip.

pub mod places;
mod site;

use crate::support;
use places::{Moto, Rsyncd, Where};
use rocmrpm::index::place::{IndexStorage, Page};
use site::Site;

/// Tests the requirements for every destination, from the first wheel to a yanked one.
fn story(place: &Where) {
    let site = Site::new(place);
    let nothing = place.files();

    // A nonexistent wheel cannot be promoted, and the destination does not change.
    site.run(&["publish", "promote"])
        .exits(2)
        .reports(["there is no wheel in testing of", "publish index"]);
    site.run(&["publish", "promote", "--from", "stable"])
        .exits(2)
        .reports(["stable cannot be promoted to itself"]);
    assert_eq!(place.files(), nothing);

    // A dry run lists changes without making them.
    let dry = site.publish(&["--dry-run"]);
    dry.exits(0);
    let wheel = site.wheel("one");
    for line in [
        format!("Upload packages/one/{wheel} ("),
        format!("Upload packages/one/{wheel}.metadata"),
        "Write testing/simple/one/index.html".into(),
        "Write testing/simple/index.json".into(),
    ] {
        assert!(dry.stdout.contains(&line), "{line}\n{dry}");
    }
    assert_eq!(place.files(), nothing);

    publishes_and_promotes(&site, place);
    let both = place.files();
    let version = wheel.split('-').nth(1).unwrap();
    let one = format!("one=={version}");
    site.run(&["publish", "yank", &one, "--reason", "it is <broken>"])
        .exits(0)
        .reports(["Yank one-1.0"]);
    let page = String::from_utf8(place.files()["stable/simple/one/index.html"].clone()).unwrap();
    assert!(page.contains("data-yanked=\"it is &lt;broken&gt;\""), "{page}");
    site.run(&["publish", "yank", "one", "--undo"]).exits(2).reports(["`one` has no version"]);
    site.run(&["publish", "yank", &one, "--undo"]).exits(0).reports(["Restore one-1.0"]);
    assert_eq!(place.files(), both);
}

/// Publishes into an empty place, where no file is ever replaced, and promotes.
fn publishes_and_promotes(site: &Site, place: &Where) {
    let wheel = site.wheel("one");
    let package = format!("packages/one/{wheel}");
    // A foreign file with this name stays, and nothing is uploaded.
    place.put(&package, b"something else");
    let occupied = place.files();
    site.publish(&[]).exits(2).reports([
        wheel.as_str(),
        "with the digest",
        "published files never change",
    ]);
    assert_eq!(place.files(), occupied);
    place.remove(&package);

    site.publish(&["--json", "--dry-run"]).exits(0).document("rocmrpm/publish/1");
    site.publish(&[])
        .exits(0)
        .reports([format!("Upload {package}").as_str(), "Published 4 files and 7 pages"]);
    let first = place.files();
    assert_eq!(first[&package], std::fs::read(site.built(&format!("wheels/one/{wheel}"))).unwrap());
    assert_eq!(site.install("testing"), "two uses one");

    // Publishing again does nothing.
    site.publish(&[]).exits(0).reports(["Keep one-1.0+rocm", "Unchanged"]);
    assert_eq!(place.files(), first);

    let promoted = site.run(&["publish", "promote"]);
    promoted
        .exits(0)
        .reports([format!("Promote {wheel} to stable").as_str(), "Published 7 pages to"]);
    let packages = |files: &places::Files| {
        files
            .clone()
            .into_iter()
            .filter(|(path, _)| path.starts_with("packages/"))
            .collect::<Vec<_>>()
    };
    assert_eq!(packages(&place.files()), packages(&first));
    assert_eq!(site.install("stable"), "two uses one");
}

/// Kills rocmrpm at the n-th call of the tool. In every state, clients find all files that a page
/// names, and the next run completes it.
fn kill_at_every(place: &Where, tool: &str, steps: impl Iterator<Item = usize>) {
    let site = Site::new(place);
    let mut killed = 0;
    for step in steps {
        let ran = site.publish_killed_at(tool, step);
        match ran.code {
            Some(0) => break,
            None => killed += 1,
            // Uploads of the killed run may finish during the next one, which then stops.
            Some(code) => {
                assert_eq!(code, 20, "{ran}");
                ran.reports(["another writer changed", "run the same command again"]);
            }
        }
        place.assert_whole();
    }
    assert!(killed > 2, "{tool} was killed {killed} times");
    site.publish(&[]).exits(0);
    place.assert_whole();
    assert_eq!(site.install("testing"), "two uses one");
    site.publish(&[]).exits(0).reports(["Unchanged"]);
}

#[test]
fn publishes_to_a_folder() {
    let holder = tempfile::tempdir().unwrap();
    story(&Where::folder(holder.path()));
}

#[test]
fn publishes_over_rsync_with_a_remote_shell() {
    let holder = tempfile::tempdir().unwrap();
    story(&Where::remote_shell(holder.path()));
}

#[test]
fn publishes_to_an_rsync_daemon() {
    let server = Rsyncd::start();
    story(&Where::daemon(&server));
}

#[test]
fn publishes_to_s3() {
    let server = Moto::start();
    let place = Where::s3(&server);
    // The rest of the story needs no other requests, and each start of aws takes a second.
    publishes_and_promotes(&Site::new(&place), &place);
    // A plain endpoint serves this as the folder's page.
    let files = place.files();
    assert_eq!(files["stable/simple/one/"], files["stable/simple/one/index.html"]);
    let head = server.head("index/stable/simple/one/");
    assert!(head.contains("text/html") && head.contains("max-age=60"), "{head}");
    let head = server.head("index/stable/simple/one/index.json");
    assert!(head.contains("application/vnd.pypi.simple.v1+json"), "{head}");
    let wheel = files.keys().find(|key| key.ends_with(".whl")).unwrap();
    let head = server.head(&format!("index/{wheel}"));
    assert!(head.contains("application/zip") && head.contains("immutable"), "{head}");
}

#[test]
fn resumes_after_a_kill_during_rsync() {
    // Use a daemon: with a remote shell, the far end would also run the killing rsync.
    let server = Rsyncd::start();
    kill_at_every(&Where::daemon(&server), "rsync", 1..);
}

#[test]
fn resumes_after_a_kill_during_aws() {
    let server = Moto::start();
    kill_at_every(&Where::s3(&server), "aws", (1..).step_by(8));
}

#[test]
fn errors_show_the_output_of_tools_and_missing_tools() {
    let server = Moto::start();
    let place = Where::s3(&server);
    let site = Site::new(&place);
    let run = |args: &[&str]| site.run_without_place(args);
    let endpoint = server.url();
    run(&["publish", "promote", "s3://no-such-bucket/x", "--endpoint-url", &endpoint])
        .exits(30)
        .reports(["NoSuchBucket", "help: create the bucket with `aws s3 mb"]);
    run(&["publish", "promote", "rsync://127.0.0.1:1/x/y"])
        .exits(30)
        .reports(["Connection refused"]);
    run(&["publish", "promote", "https://h/x"]).exits(2).reports(["a destination is a folder"]);
    run(&["publish", "promote", "x", "--endpoint-url", "http://h"]).exits(2);
    let without = site.without_tools();
    support::ran(site.command(&["publish", "promote", "s3://bucket"]).env("PATH", without.path()))
        .exits(40)
        .reports(["`aws`", "awscli"]);
    support::ran(site.command(&["publish", "promote", "host:x"]).env("PATH", without.path()))
        .exits(40)
        .reports(["`rsync`"]);
}

#[test]
fn rsync_follows_links_without_replacing_them() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("index");
    for (path, text) in [
        ("index/testing/simple/a/index.json", "a"),
        ("store/b.json", "b"),
        ("store/stable/simple/c/index.json", "c"),
    ] {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(dir.path().join(to), root.join(name)).unwrap()
    };
    std::fs::create_dir(root.join("testing/simple/b")).unwrap();
    link("store/b.json", "testing/simple/b/index.json");
    link("store/stable", "stable");
    let place = rocmrpm::index::publish::Rsync::new(root.to_str().unwrap());
    let paths = ["testing/simple/a", "testing/simple/b", "stable/simple/c", "stable/simple/d"]
        .map(|folder| format!("{folder}/index.json"));
    let read = place.read(&paths).unwrap();
    let text = |page: &str| Some(page.as_bytes().to_vec());
    assert_eq!(read, [text("a"), text("b"), text("c"), None]);
    // Some versions of rsync write through the link, others fail; the link stays.
    let page = Page { path: paths[3].clone(), bytes: "d".into(), media_type: "" };
    let _ = place.put_pages(&[page]);
    assert!(root.join("stable").is_symlink());
    assert_eq!(place.read(&paths[2..3]).unwrap(), [text("c")]);
}

#[test]
fn creates_a_missing_folder_only_for_wheels() {
    let holder = tempfile::tempdir().unwrap();
    let place = Where::folder(holder.path());
    let site = Site::new(&place);
    site.run(&["publish", "promote"]).exits(2).reports(["there is no wheel in testing of"]);
    site.run(&["publish", "yank", "one==1.0", "--reason", "x"])
        .exits(2)
        .reports(["there is no `one`"]);
    site.publish(&["--channel", "stabel"]).exits(2).reports(["did you mean `stable`?"]);
    assert_eq!(std::fs::read_dir(holder.path()).unwrap().count(), 0);
    // The folder of the build's own index cannot be a destination.
    site.command(&["index"]).output().unwrap();
    let own = site.built("index");
    let before = support::names_in(&own);
    site.run_without_place(&["publish", "index", own.to_str().unwrap()])
        .exits(2)
        .reports(["is the index of a build", "publish to another folder"]);
    assert_eq!(support::names_in(&own), before);
}

#[test]
fn rejects_dirty_wheels_in_stable() {
    let holder = tempfile::tempdir().unwrap();
    let place = Where::folder(holder.path());
    let site = Site::dirty(&place);
    site.publish(&["--channel", "stable"]).exits(2).reports(["dirty build"]);
    assert_eq!(std::fs::read_dir(holder.path()).unwrap().count(), 0, "something was sent");
    site.publish(&[]).exits(0).reports(["warning:", "dirty build"]);
    site.run(&["publish", "promote"]).exits(2).reports(["dirty build"]);
    assert!(!place.files().keys().any(|path| path.starts_with("stable/")));
}
