//! Tests the test server with the real copr-cli.

use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::site::Copr;
use crate::support::{names_in, ran, wait_until};

const CHROOT: &str = "fedora-43-x86_64";
const PROJECT: &str = "alice/rocm";

/// Creates a source package in the site's folder.
fn srpm(copr: &Copr, name: &str, build: &str) -> PathBuf {
    let spec = copr.path(&format!("{name}.spec"));
    let text = format!(
        "Name: {name}\nVersion: 1.0\nRelease: 1%{{?dist}}\nSummary: A package\nLicense: MIT\nBuildArch: noarch\n\
         BuildRequires: no-such-package\n%description\nA package.\n%build\n{build}\n%install\n\
         install -d %{{buildroot}}/usr/share/{name}\necho %{{!?text:one}}%{{?text}} > \
         %{{buildroot}}/usr/share/{name}/text\n%files\n/usr/share/{name}\n"
    );
    std::fs::write(&spec, text).unwrap();
    let top = format!("_topdir {}", copr.path("rpmbuild").display());
    let mut rpmbuild = Command::new("rpmbuild");
    rpmbuild.args(["-bs", "--define", &top, "--define", "dist .fc43"]).arg(spec);
    assert_eq!(ran(&mut rpmbuild).code, Some(0));
    copr.path(&format!("rpmbuild/SRPMS/{name}-1.0-1.fc43.src.rpm"))
}

/// Starts a server with a project, and returns a source package that builds.
fn project() -> (Copr, String) {
    let copr = Copr::start();
    copr.cli(&["create", PROJECT, "--chroot", CHROOT]).exits(0);
    let srpm = srpm(&copr, "hello", "true").to_str().unwrap().to_owned();
    (copr, srpm)
}

fn wait_for(copr: &Copr, states: &[&str]) {
    wait_until(&format!("{states:?}"), || copr.states() == states);
}

#[test]
fn stores_projects() {
    let copr = Copr::start();
    assert_eq!(copr.cli(&["whoami"]).stdout, "alice\n");
    let chroots = copr.cli(&["list-chroots"]);
    assert!(chroots.stdout.lines().any(|line| line == CHROOT), "{chroots}");

    let description = "# ROCm\n\nAs it *is*,  byte for byte.\n";
    let chroot = ["--chroot", CHROOT, "--chroot", "fedora-44-x86_64"];
    let settings = ["--description", description, "--repo", "https://example.org/$basearch/"];
    copr.cli(&[&["create", PROJECT][..], &chroot, &settings].concat()).exits(0);
    let project = &copr.state()["projects"][PROJECT];
    assert_eq!(project["description"], description);
    assert_eq!(project["additional_repos"], json!(["https://example.org/$basearch/"]));
    copr.cli(&["create", PROJECT, "--chroot", CHROOT])
        .exits(1)
        .reports(["name: You already have a project named 'rocm'."]);
    copr.cli(&["create", "alice/new", "--chroot", "fedora-99-x86_64"])
        .exits(1)
        .reports(["chroots: 'fedora-99-x86_64' is not a valid choice for this field."]);

    copr.cli(&["modify", PROJECT, "--chroot", CHROOT, "--enable-net", "on"]).exits(0);
    let got = copr.cli(&["get", PROJECT]);
    assert!(got.stdout.contains(CHROOT) && !got.stdout.contains("fedora-44"), "{got}");
    assert_eq!(copr.state()["projects"][PROJECT]["enable_net"], true);

    let chroot = format!("{PROJECT}/{CHROOT}");
    copr.cli(&["edit-chroot", &chroot, "--packages", "rocm-rpm-macros gcc"]).exits(0);
    let packages = &copr.cli(&["get-chroot", &chroot]).json()["additional_packages"];
    assert_eq!(*packages, json!(["rocm-rpm-macros", "gcc"]));

    copr.log_in("bob", "bob-token-of-30-characters");
    copr.cli(&["modify", PROJECT, "--description", "mine"])
        .exits(7)
        .reports(["Only owners and admins may update their projects."]);
    copr.cli(&["get", "alice/none"]).exits(1).reports(["Project alice/none does not exist."]);
}

#[test]
fn builds_and_serves_the_results() {
    let (copr, srpm) = project();
    copr.control(&json!({"hold": {"hello": "running"}}));
    let built = copr.cli(&["build", "--nowait", "--timeout", "600", PROJECT, &srpm]);
    assert!(built.exits(0).stdout.contains("Created builds: 1"), "{built}");
    wait_for(&copr, &["hello running"]);
    // The source build holds the same state before it has a package.
    copr.control(&json!({}));
    wait_for(&copr, &["hello succeeded"]);
    assert_eq!(copr.cli(&["status", "1"]).stdout, "succeeded\n");
    assert!(copr.cli(&["watch-build", "1"]).exits(0).stdout.contains("Build 1: succeeded"));
    let build = &copr.cli(&["list-builds", PROJECT, "--output-format", "json"]).json()[0];
    assert_eq!(
        (&build["id"], &build["state"], &build["name"]),
        (&json!(1), &json!("succeeded"), &json!("hello"))
    );
    let packages = copr.cli(&["list-packages", PROJECT, "--with-all-builds"]).json();
    assert_eq!(packages[0]["builds"][0]["source_package"]["version"], "1.0-1");
    let monitor = copr.cli(&["monitor", PROJECT]).json();
    assert_eq!(monitor[0]["state"], "succeeded");
    assert_eq!(copr.builds()[0]["timeout"], 600);

    let chroot = copr.path("server/results/alice/rocm").join(CHROOT);
    assert_eq!(names_in(&chroot), ["00000001-hello", "repodata"]);
    let live = chroot.join("00000001-hello/builder-live.log");
    wait_until("the logs are packed", || !live.exists());
    let names = names_in(&chroot.join("00000001-hello"));
    let expected = [
        "backend.log.gz",
        "build.info",
        "build.log.gz",
        "builder-live.log.gz",
        "configs.tar.gz",
        "hello-1.0-1.fc43.noarch.rpm",
        "hello-1.0-1.fc43.src.rpm",
        "hello.spec",
        "hw_info.log.gz",
        "results.json",
        "root.log.gz",
        "state.log.gz",
        "success",
    ];
    assert_eq!(names, expected);

    let url = format!("{}/backend/results/alice/rocm/{CHROOT}/00000001-hello", copr.url);
    let rpm = copr.path("hello.rpm");
    copr.fetch(&format!("{url}/hello-1.0-1.fc43.noarch.rpm"), &rpm).exits(0);
    let digests = ran(Command::new("rpm").args(["-K", "--nosignature"]).arg(&rpm));
    assert!(digests.exits(0).stdout.contains("digests OK"));
    copr.control(&json!({"drop": [{"match": "rpm$", "count": 1, "after": 1000}]}));
    copr.fetch(&format!("{url}/hello-1.0-1.fc43.noarch.rpm"), &rpm).exits(18);
    copr.fetch(&format!("{url}/none"), &rpm).exits(22);
}

#[test]
fn fails_and_cancels_builds_and_continues_after_a_failure() {
    let (copr, good) = project();
    let bad = srpm(&copr, "bad", "echo it cannot be; exit 3");
    let build = |more: &[&str], srpm: &str| {
        copr.cli(&[&["build", "--nowait"], more, &[PROJECT, srpm]].concat())
    };
    copr.control(&json!({"hold": {"bad": "running"}}));
    build(&[], bad.to_str().unwrap()).exits(0);
    // A batch starts after the previous one, even if that fails.
    build(&["--after-build-id", "1"], &good).exits(0);
    wait_for(&copr, &["bad running", "? pending"]);
    copr.control(&json!({}));
    wait_for(&copr, &["bad failed", "hello succeeded"]);
    let log = copr
        .path("server/results/alice/rocm")
        .join(CHROOT)
        .join("00000001-bad/builder-live.log.gz");
    wait_until("its log is packed", || log.exists());
    let log = ran(Command::new("zcat").arg(log));
    assert!(log.stdout.contains("it cannot be"), "{log}");
    copr.cli(&["watch-build", "1"]).exits(4).reports(["Build(s) 1 failed."]);

    copr.control(&json!({"hold": {"hello": "importing"}, "fail": {"bad": "no room"}}));
    build(&[], &good).exits(0);
    wait_until("it is imported", || copr.states().last().unwrap() == "hello importing");
    assert_eq!(copr.cli(&["cancel", "3"]).stdout, "canceled\n");
    copr.cli(&["cancel", "3"]).exits(1).reports(["Cannot cancel build 3"]);
    assert_eq!(copr.cli(&["status", "3"]).stdout, "canceled\n");
    build(&["--after-build-id", "99"], &good)
        .exits(1)
        .reports(["'after_build_id': ['Build 99 not found']"]);
    let other = ["--chroot", "fedora-44-x86_64"];
    build(&other, &good)
        .exits(1)
        .reports(["'fedora-44-x86_64' is not a valid choice for this field."]);
    copr.cli(&["build", "--nowait", "alice/none", &good])
        .exits(1)
        .reports(["Project alice/none does not exist."]);
    assert_eq!(copr.uploads(), 3);

    // A build canceled while running stays canceled, and so does one that times out.
    let slow = srpm(&copr, "slow", "sleep 30");
    build(&[], slow.to_str().unwrap()).exits(0);
    wait_until("it runs", || copr.states().last().unwrap() == "slow running");
    copr.cli(&["cancel", "4"]).exits(0);
    build(&["--timeout", "1"], slow.to_str().unwrap()).exits(0);
    wait_until("its time is over", || copr.states().last().unwrap() == "slow failed");
    assert_eq!(copr.states()[3], "slow canceled");
}

#[test]
fn rejects_an_expired_token_and_recovers_from_errors() {
    let (copr, srpm) = project();
    copr.control(&json!({"expired": ["alice"]}));
    let refused = format!(
        "Login invalid/expired. Please visit {}/api to get or renew your API token.",
        copr.url
    );
    copr.cli(&["build", "--nowait", PROJECT, &srpm]).exits(1).reports([refused]);
    copr.log_in("alice", "not-the-token");
    copr.control(&json!({}));
    copr.cli(&["modify", PROJECT, "--description", ""])
        .exits(1)
        .reports(["Login invalid/expired."]);

    let once = |status: u16| json!({"errors": [{"match": "GET /api_3/build", "count": 1, "status": status}]});
    copr.control(&once(500));
    copr.cli(&["list-builds", PROJECT])
        .exits(1)
        .reports(["there is probably a bug in the Copr code"]);
    copr.cli(&["list-builds", PROJECT]).exits(0);
    copr.control(&once(503));
    copr.cli(&["list-builds", PROJECT]).exits(1).reports(["Response is not in JSON format"]);
    copr.cli(&["list-builds", PROJECT]).exits(0);
}

#[test]
fn rejects_deleting_chroots_and_projects_with_running_builds() {
    let (copr, srpm) = project();
    copr.control(&json!({"hold": {"hello": "running"}}));
    copr.cli(&["build", "--nowait", PROJECT, &srpm]).exits(0);
    wait_for(&copr, &["hello running"]);
    let running = "Build(s) 1 are still running.";
    copr.cli(&["modify", PROJECT, "--chroot", "fedora-44-x86_64"])
        .exits(1)
        .reports(["Can't drop chroot from project, related build 1 is still in progress"]);
    assert!(copr.state()["projects"][PROJECT]["chroots"].get("fedora-44-x86_64").is_none());
    copr.cli(&["delete-build", "1"]).exits(1).reports([running]);
    copr.cli(&["delete", PROJECT]).exits(1).reports([running]);
    copr.log_in("bob", "bob-token-of-30-characters");
    copr.cli(&["delete-build", "1"])
        .exits(1)
        .reports(["You don't have permissions to delete build(s) 1."]);
    copr.log_in("alice", crate::site::TOKEN);
    copr.control(&json!({}));
    wait_for(&copr, &["hello succeeded"]);
    copr.cli(&["delete", PROJECT]).exits(0);
}

#[test]
fn packs_logs_after_reporting_the_state() {
    let (copr, srpm) = project();
    let results = copr.path("server/results/alice/rocm");
    let logs = |folder: &str| {
        let is_packed_later = |name: &String| {
            ["backend.log", "builder-live.log"].contains(&name.trim_end_matches(".gz"))
        };
        let names = names_in(&results.join(folder)).into_iter();
        names.filter(is_packed_later).collect::<Vec<_>>()
    };
    let (plain, packed) =
        (["backend.log", "builder-live.log"], ["backend.log.gz", "builder-live.log.gz"]);
    copr.control(&json!({"hold": {"hello": "source-packing"}}));
    copr.cli(&["build", "--nowait", PROJECT, &srpm]).exits(0);
    wait_for(&copr, &["hello importing"]);
    assert_eq!(logs("srpm-builds/00000001"), plain);
    copr.control(&json!({"hold": {"hello": "packing"}}));
    wait_for(&copr, &["hello succeeded"]);
    assert_eq!(logs("srpm-builds/00000001"), packed);
    let folder = format!("{CHROOT}/00000001-hello");
    assert_eq!(logs(&folder), plain);
    copr.control(&json!({}));
    wait_until("the logs are packed", || logs(&folder) == packed);
}

#[test]
fn keeps_packages_of_failed_and_canceled_builds() {
    let (copr, srpm) = project();
    copr.control(&json!({"backend": {"hello": "createrepo failed"}}));
    copr.cli(&["build", "--nowait", PROJECT, &srpm]).exits(0);
    wait_for(&copr, &["hello failed"]);
    let chroot = copr.path("server/results/alice/rocm").join(CHROOT);
    let has =
        |folder: &str, name: &str| names_in(&chroot.join(folder)).iter().any(|file| file == name);
    let rpm = "hello-1.0-1.fc43.noarch.rpm";
    assert!(has("00000001-hello", rpm));
    wait_until("its logs are packed", || has("00000001-hello", "backend.log.gz"));
    let log = ran(Command::new("zcat").arg(chroot.join("00000001-hello/backend.log.gz")));
    assert!(log.stdout.ends_with("[ ERROR][PID:1] createrepo failed\n"), "{log}");

    copr.control(&json!({"hold": {"hello": "signing"}}));
    copr.cli(&["build", "--nowait", PROJECT, &srpm]).exits(0);
    wait_until("it is signed", || chroot.join("00000002-hello/success").exists());
    copr.cli(&["cancel", "2"]).exits(0);
    assert_eq!(copr.cli(&["status", "2"]).stdout, "canceled\n");
    copr.control(&json!({}));
    wait_until("the backend is done", || has("00000002-hello", "backend.log.gz"));
    assert!(has("00000002-hello", rpm));
    assert_eq!(copr.states(), ["hello failed", "hello canceled"]);
}
