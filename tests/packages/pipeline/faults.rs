//! Faults of upstream, of the machine, and of its clock: each run ends with a reason, and the next one
//! continues.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::fixture::{PipelineFixture, WORKS};
use crate::support::server::{Reply, TestServer};
use crate::support::{names_in, processes_with, ran};
use rocmrpm::digest::Sha256;

#[test]
fn detects_a_tag_that_moves() {
    let fixture = PipelineFixture::new();
    let head = fixture.workspace.git(&["rev-parse", "HEAD"]);
    fixture.pipeline(&["run"]).exits(0);
    let upstream = fixture.upstream();
    let git = |args: &[&str]| fixture.workspace.git_in(&upstream, args);
    let before = git(&["rev-parse", "v1.0"]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "Replace the release"]);
    git(&["tag", "--force", "v1.0"]);
    for _ in 0..2 {
        let moved = fixture.pipeline(&["run"]);
        moved.exits(3).reports(["the tag `v1.0` of", "has changed since it was locked"]);
        assert_eq!(fixture.published(), ["greet-1.0-1.noarch.rpm"]);
    }
    let status = fixture.pipeline(&["status", "--json"]);
    let status = status.exits(0).json();
    assert_eq!(status["sets"][0]["blocked"]["stage"], "lock", "{status}");
    git(&["tag", "--force", "v1.0", before.trim()]);
    fixture.pipeline(&["run"]).exits(0).reports(["Finished all stages passed"]);
    fixture.assert_sound(&head);
}

#[test]
fn refuses_a_server_that_sends_other_bytes() {
    let fixture = PipelineFixture::new();
    let archive = fixture.workspace.holder().join("base-1.0.tar.gz");
    let (archive, upstream) = (archive.to_str().unwrap(), fixture.upstream());
    let pack = ["archive", "--prefix=base-1.0/", "--output", archive, "v1.0"];
    fixture.workspace.git_in(&upstream, &pack);
    let (honest, wrong) = (std::fs::read(archive).unwrap(), Arc::new(AtomicBool::new(true)));
    let digest = Sha256::of_bytes(&honest);
    let answer_wrong = wrong.clone();
    let server = TestServer::start(move |_| match answer_wrong.load(Ordering::Relaxed) {
        true => Reply::file("something else"),
        false => Reply::file(honest.clone()),
    });
    let url = server.url("/base-1.0.tar.gz");
    fixture.workspace.pin("base", &format!("url = \"{url}\"\nsha256 = \"{digest}\""));
    fixture.workspace.commit("Take base from a server");
    let head = fixture.workspace.git(&["rev-parse", "HEAD"]);
    for _ in 0..2 {
        let refused = fixture.pipeline(&["run"]);
        refused.exits(30).reports(["base-1.0.tar.gz", &digest.to_string()]);
        refused.has_one_help_per_error();
        assert_eq!(fixture.published(), [""; 0]);
    }
    wrong.store(false, Ordering::Relaxed);
    fixture.pipeline(&["run"]).exits(0).reports(["Finished all stages passed"]);
    assert_eq!(fixture.published(), ["greet-1.0-2.noarch.rpm"]);
    fixture.assert_sound(&head);
}

#[test]
fn stops_a_build_that_hangs() {
    let fixture = PipelineFixture::new();
    let head = fixture.workspace.git(&["rev-parse", "HEAD"]);
    fixture.release("1.1", &[("build.sh", "#!/bin/sh\nexec sleep 98765\n")]);
    let hung = fixture.pipeline(&["run", "--timeout", "3 s"]);
    hung.exits(11).reports(["greet"]).has_one_help_per_error();
    assert_eq!(processes_with("98765"), [""; 0]);
    fixture.release("1.2", &[("build.sh", WORKS)]);
    fixture.pipeline(&["run", "--timeout", "1 h"]).exits(0);
    assert_eq!(fixture.published(), ["greet-1.2-1.noarch.rpm"]);
    fixture.assert_sound(&head);
}

/// Runs the pipeline in a mount namespace where a folder is a file system with this many kilobytes, and
/// again with enough. Returns whether the first run passed.
fn on_a_full_disk(folder: &str, kilobytes: u64) -> bool {
    let fixture = PipelineFixture::new();
    std::fs::create_dir_all(fixture.workspace.path(folder)).unwrap();
    let rocmrpm = env!("CARGO_BIN_EXE_rocmrpm");
    let script = format!(
        "set -e\nmount -t tmpfs -o size={kilobytes}k none {folder}\n\
         code=0; '{rocmrpm}' pipeline run || code=$?\necho first $code\n\
         mount -o remount,size=200m {folder}\n\
         code=0; '{rocmrpm}' pipeline run || code=$?\necho second $code\n\
         '{rocmrpm}' evidence check\n\
         find ../site/host -name '*.rpm' | sort; git status --porcelain"
    );
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "sh", "-c", &script]);
    fixture.workspace.settle(&mut command);
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Pipeline");
        command.env(format!("GIT_{role}_EMAIL"), "pipeline@example.org");
    }
    let ran = ran(&mut command);
    ran.exits(0);
    let after =
        "second 0\n../site/host/base-1.0-1.noarch.rpm\n../site/host/greet-1.0-1.noarch.rpm\n";
    let (first, rest) = ran.stdout.split_once('\n').unwrap();
    assert_eq!(rest, after, "{kilobytes} kB: {ran}");
    let code: i32 = first.strip_prefix("first ").unwrap().parse().unwrap();
    if code != 0 {
        assert_eq!(code, 20, "{kilobytes} kB: {ran}");
        ran.reports(["help: "]);
        // git does not say why.
        let reasons = ["No space left on device", "unable to write"];
        assert!(reasons.iter().any(|reason| ran.stderr.contains(reason)), "{kilobytes} kB: {ran}");
    }
    code == 0
}

#[test]
fn continues_after_a_full_disk_at_any_stage() {
    // The worktree, the records, the sources, the build, the repository, and what is published.
    let mut failed = 0;
    for folder in ["build/pipeline", "../site", "../wheels"] {
        let mut kilobytes = 16;
        while !on_a_full_disk(folder, kilobytes) {
            (failed, kilobytes) = (failed + 1, kilobytes * 4);
            assert!(kilobytes < 100_000, "{folder} is never large enough");
        }
    }
    assert!(failed > 3, "only {failed} runs failed");
}

/// The clock was ahead during the first run, and is right again. rocmrpm goes by digests and numbers.
#[test]
fn clock_that_goes_backwards_changes_nothing() {
    let fixture = PipelineFixture::new();
    let head = fixture.workspace.git(&["rev-parse", "HEAD"]);
    fixture.pipeline(&["run"]).exits(0);
    let evidence = fixture.folder("evidence");
    let mut previous: Option<Sha256> = None;
    for name in names_in(&evidence).iter().filter(|name| name.ends_with(".json")) {
        let path = evidence.join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
        for key in ["started", "finished"] {
            let time = record[key].as_str().unwrap();
            record[key] = format!("2096{}", &time[4..]).into();
        }
        record["previous"] = previous.map_or(serde_json::Value::Null, |digest| {
            serde_json::Value::String(digest.to_string())
        });
        let text = serde_json::to_string_pretty(&record).unwrap() + "\n";
        previous = Some(Sha256::of_bytes(&text));
        std::fs::write(&path, text).unwrap();
    }
    let age = "find build ../site ../wheels -type f -exec touch -d 2096-01-01 {} +";
    let mut command = Command::new("sh");
    fixture.workspace.settle(command.args(["-c", age]));
    ran(&mut command).exits(0);

    fixture.workspace.run(&["evidence", "check"]).exits(0).never_reports("clock");
    fixture.release("1.1", &[]);
    fixture.pipeline(&["run"]).exits(0);
    assert_eq!(fixture.published(), ["greet-1.1-1.noarch.rpm"]);
    fixture.pipeline(&["run"]).exits(0);
    fixture.workspace.run(&["evidence", "check"]).exits(0).reports(["the clock was set back"]);
    let status = fixture.pipeline(&["status", "--json"]);
    assert_eq!(status.exits(0).json()["sets"][0]["blocked"], serde_json::Value::Null);
    fixture.assert_sound(&head);
}
