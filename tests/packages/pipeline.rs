//! Walks releases of a local upstream repository through the whole pipeline with real builds, and kills
//! it at every stage.

mod destinations;
mod faults;
pub(crate) mod fixture;
mod notify;
mod rollback;

use std::time::Duration;

use crate::support::documents;
use crate::support::server::{Reply, TestServer};
use crate::support::{Workspace, names_in, ran};
use fixture::{PipelineFixture, WORKS, happens};

/// Five upstream releases: one breaks a patch, one does not build, one is good, one needs a decision,
/// and one is withdrawn after it was published. Only the decisions are made by a person.
#[test]
fn walks_five_releases() {
    let fixture = PipelineFixture::new();
    let head = fixture.workspace.git(&["rev-parse", "HEAD"]);
    fixture.pipeline(&["run"]).exits(0).reports(["Finished all stages passed"]);
    assert_eq!(fixture.published(), ["greet-1.0-1.noarch.rpm"]);

    fixture.release("1.1", &[("hello", "good day\nend\n")]);
    let stopped = fixture.pipeline(&["run"]);
    stopped.exits(1).has_one_help_per_error();
    stopped.reports(["patches or edits do not apply to greet 1.1", "rocmrpm patch refresh"]);
    fixture.pipeline(&["run"]).exits(1);
    let records = fixture.records();
    fixture.pipeline(&["run"]).exits(1).reports(["do not apply to greet 1.1"]);
    assert_eq!(fixture.records(), records, "the same question is recorded once");

    let broken = "#!/bin/sh\necho 'error: no member named x'\nexit 3\n";
    fixture.release("1.2", &[("hello", "hello\nend\n"), ("build.sh", broken)]);
    fixture.pipeline(&["run"]).exits(10).reports(["`greet` failed in %build"]);
    assert_eq!((fixture.pinned().as_str(), fixture.published().len()), ("1.2", 1));
    let status = fixture.pipeline(&["status", "--json"]);
    let status = status.exits(0).document("rocmrpm/pipeline-status/1");
    assert_eq!(status["sets"][0]["blocked"]["stage"], "build");
    let greet = component(&status, "greet");
    assert_eq!(
        (greet["version"].as_str(), greet["tier"].as_str()),
        (Some("1.2"), Some("prepared"))
    );
    assert!(greet["failure"].as_str().unwrap().contains("%build"), "{greet}");

    fixture.release("1.3", &[("build.sh", WORKS)]);
    fixture.pipeline(&["run"]).exits(0);
    assert_eq!(fixture.published(), ["greet-1.3-1.noarch.rpm"]);

    fixture.release("1.4", &[("LICENSE", "Apache-2.0\n")]);
    let question = "greet 1.4: its license files changed: LICENSE";
    fixture.pipeline(&["run"]).exits(1).reports([question]).has_one_help_per_error();
    // Another release does not answer the question.
    fixture.release("1.5", &[("hello", "hello\nend\nmore\n")]);
    fixture.pipeline(&["run"]).exits(1).reports([question]);
    assert_eq!(fixture.pinned(), "1.4");
    fixture
        .pipeline(&["accept", "--reason", "the License tag is right"])
        .exits(0)
        .reports([question]);
    fixture.pipeline(&["accept"]).exits(2).reports(["no question that can be accepted"]);
    fixture.pipeline(&["run"]).exits(0);
    assert_eq!(
        (fixture.pinned().as_str(), fixture.published()),
        ("1.5", vec!["greet-1.5-1.noarch.rpm".into()])
    );

    fixture.withdraw("1.5");
    let stopped = fixture.pipeline(&["run"]);
    stopped.exits(1).has_one_help_per_error();
    stopped.reports(["greet 1.5 was withdrawn", "the newest release is 1.4"]);
    fixture.pipeline(&["accept"]).exits(0);
    fixture.pipeline(&["run"]).exits(0);
    fixture.assert_sound(&head);
    page_shows_it(&fixture);
}

/// An image states what the records prove about the packages that it installs, and nothing else.
#[test]
fn images_have_the_tiers_of_their_packages() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = PipelineFixture::new();
    let manifest = fixture.workspace.read("rocmrpm.toml");
    let base = "\n[container.fedora]\nbase = \"example.org/base:1\"\n";
    fixture.workspace.write("rocmrpm.toml", manifest + base);
    let component = fixture.workspace.read("specs-templates/greet/component.toml");
    let packages = "\n[container]\npackages = [\"greet\"]\n";
    fixture.workspace.write("specs-templates/greet/component.toml", component + packages);
    fixture.workspace.commit("Describe an image");
    fixture.pipeline(&["run"]).exits(0);
    let programs = fixture.workspace.holder().join("programs");
    let podman = programs.join("podman");
    std::fs::create_dir(&programs).unwrap();
    std::fs::write(&podman, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").unwrap();
    std::fs::set_permissions(&podman, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let labels = || -> Vec<String> {
        let tree = fixture.tree("");
        let args = ["-C", tree.to_str().unwrap(), "container", "build"];
        ran(fixture.workspace.command(&args).env("PATH", &path)).exits(0);
        let log = fixture.tree("build/host/container/fedora.log");
        let called = std::fs::read_to_string(log).unwrap();
        called.lines().filter(|line| line.contains(".tier.")).map(str::to_owned).collect()
    };
    assert_eq!(labels(), ["io.rocmrpm.tier.base=inspected", "io.rocmrpm.tier.greet=inspected"]);
    std::fs::remove_dir_all(fixture.folder("evidence")).unwrap();
    assert_eq!(labels(), ["io.rocmrpm.tier.base=none", "io.rocmrpm.tier.greet=none"]);
}

fn component<'v>(status: &'v serde_json::Value, name: &str) -> &'v serde_json::Value {
    let all = status["sets"][0]["components"].as_array().unwrap();
    all.iter().find(|one| one["component"] == name).unwrap()
}

/// Checks the pages and the evidence beside what was published.
fn page_shows_it(fixture: &PipelineFixture) {
    let page = fixture.pipeline(&["status", "--html"]).exits(0).stdout.clone();
    for part in ["greet", "1.5-1", "inspected", "build", "Build time of all components", "%build"] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    if let Some(folder) = std::env::var_os("ROCMRPM_TEST_PAGES") {
        std::fs::write(std::path::Path::new(&folder).join("status.html"), &page).unwrap();
    }
    let site = fixture.workspace.holder().join("site/host/evidence");
    assert_eq!(names_in(&site), ["stable.host.html", "stable.json"]);
    let bundle: serde_json::Value =
        serde_json::from_slice(&std::fs::read(site.join("stable.json")).unwrap()).unwrap();
    assert_eq!(documents::check(&bundle), Some("rocmrpm/evidence-bundle/1"));
    for record in bundle["records"].as_array().unwrap() {
        let record: serde_json::Value = serde_json::from_str(record.as_str().unwrap()).unwrap();
        assert_eq!(documents::check(&record), Some("rocmrpm/evidence/1"));
    }
    assert!(fixture.workspace.holder().join("wheels/evidence/stable.json").exists());
}

/// The program is killed after every record, and in the middle of a build, and ends as one that was not.
#[test]
fn continues_after_kills_at_every_stage() {
    let whole = PipelineFixture::new();
    let fixture = PipelineFixture::new();
    for one in [&whole, &fixture] {
        one.release("1.1", &[("build.sh", "#!/bin/sh\nsleep 2\n")]);
    }
    whole.pipeline(&["run"]).exits(0);
    let head = fixture.workspace.git(&["rev-parse", "HEAD"]);
    let mut kills = 0;
    loop {
        let before = fixture.records();
        let mut run = fixture.start();
        let ended = || fixture.records() > before;
        happens(Duration::from_secs(60), || ended() || run.try_wait().unwrap().is_some());
        if let Some(status) = run.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            break;
        }
        run.kill().unwrap();
        run.wait().unwrap();
        kills += 1;
        assert!(kills < 40, "it never ends");
    }
    // newer, update, lock, check, patches, audit, plan, build, proof, verify, publish
    assert!(kills >= 10, "{kills} kills");
    assert_eq!(fixture.published(), whole.published());
    assert_eq!(fixture.pinned(), "1.1");
    fixture.assert_sound(&head);
    assert_eq!(subjects(&fixture), subjects(&whole));
}

/// Returns the subjects of the commits on the branch, newest first.
fn subjects(fixture: &PipelineFixture) -> String {
    fixture.workspace.git(&["log", "--format=%s", "rocmrpm/stable"])
}

#[test]
fn continues_after_kills_at_any_time() {
    let fixture = PipelineFixture::new();
    let head = fixture.workspace.git(&["rev-parse", "HEAD"]);
    fixture.release("1.1", &[]);
    for milliseconds in (20..).step_by(90) {
        let mut run = fixture.start();
        let done = || run.try_wait().unwrap().is_some();
        if happens(Duration::from_millis(milliseconds), done) {
            break;
        }
        run.kill().unwrap();
        run.wait().unwrap();
        assert!(milliseconds < 20_000, "it never ends");
    }
    fixture.pipeline(&["run"]).exits(0);
    assert_eq!(fixture.published(), ["greet-1.1-1.noarch.rpm"]);
    assert_eq!(subjects(&fixture), "Update greet to 1.1\nStart\n");
    fixture.assert_sound(&head);
}

#[test]
fn refuses_a_second_run_and_leaves_the_user_alone() {
    let fixture = PipelineFixture::new();
    fixture.release("1.1", &[("build.sh", "#!/bin/sh\nsleep 5\n")]);
    // What the user has not committed stays, and is not built.
    let file = "specs-templates/greet/component.toml";
    let mine = fixture.workspace.read(file) + "timeout = \"1 s\"\n";
    fixture.workspace.write(file, &mine);
    let mut first = fixture.start();
    assert!(happens(Duration::from_secs(60), || fixture.folder(".lock").exists()));
    let second = fixture.pipeline(&["run"]);
    second.exits(20).reports(["another rocmrpm process runs the pipeline of `stable`"]);
    second.has_one_help_per_error();
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(fixture.workspace.read(file), mine);
    assert_eq!(fixture.workspace.git(&["status", "--porcelain"]), format!(" M {file}\n"));
}

#[test]
fn asks_before_it_discards_or_overwrites() {
    let fixture = PipelineFixture::new();
    fixture.pipeline(&["run"]).exits(0);
    // A change in the worktree that is not committed.
    std::fs::write(fixture.tree("pins/stable.toml"), "# mine\n").unwrap();
    let stopped = fixture.pipeline(&["run"]);
    stopped.exits(1).reports(["has changes that are not committed: pins/stable.toml"]);
    stopped.has_one_help_per_error();
    assert_eq!(std::fs::read_to_string(fixture.tree("pins/stable.toml")).unwrap(), "# mine\n");
    fixture.workspace.git_in(&fixture.tree(""), &["restore", "."]);
    fixture.pipeline(&["run"]).exits(0);
    // Both branches change the same line.
    fixture.release("1.1", &[]);
    fixture.pipeline(&["run"]).exits(0);
    fixture.workspace.replace(
        "pins/stable.toml",
        "[greet]\nversion = \"1.0\"",
        "[greet]\nversion = \"0.9\"",
    );
    fixture.workspace.commit("Go back");
    let stopped = fixture.pipeline(&["run"]);
    stopped.exits(1).reports(["changed the same lines", "git -C"]).has_one_help_per_error();
    assert_eq!(fixture.pinned(), "1.1");
}

#[test]
fn stops_for_a_due_entry_of_the_watch_list() {
    let fixture = PipelineFixture::new();
    let url = "https://github.com/o/r/issues/1";
    fixture.workspace.write(
        "watch.toml",
        format!(
            "[[watch]]\nurl = \"{url}\"\ncomponents = [\"greet\"]\nmeans = \"it is fixed\"\n\
             do = \"drop the patch\"\n"
        ),
    );
    fixture.workspace.commit("Watch an issue");
    let head = fixture.workspace.git(&["rev-parse", "HEAD"]);
    let api = TestServer::start(move |_| {
        Reply::file(format!("{{\"html_url\": \"{url}\", \"state\": \"closed\"}}"))
    });
    let run = || ran(fixture.command(&["run"]).env("ROCMRPM_GITHUB_API", api.url("")));
    for _ in 0..2 {
        let stopped = run();
        stopped.exits(1).reports([&format!("{url} is closed, which greet 1.0 waited for")]);
        stopped.reports(["help: drop the patch, remove the entry"]).has_one_help_per_error();
    }
    assert_eq!(fixture.records(), 1, "the same question is recorded once");
    fixture.pipeline(&["accept", "--reason", "next week"]).exits(0);
    run().exits(0);
    fixture.assert_sound(&head);
    fixture.workspace.git(&["rm", "--quiet", "watch.toml"]);
    fixture.workspace.commit("Drop the patch");
    run().exits(0).never_reports("watch");
}

#[test]
fn lists_a_newer_release_of_the_distribution() {
    let fixture = PipelineFixture::new();
    fixture.workspace.write(
        "mock-configs/other.toml",
        "release = \"43\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc43\"\n\
         base-config = \"fedora-43-x86_64.cfg\"\nrocm-provider = \"host\"\n",
    );
    let server = TestServer::start(|_| {
        let names = ["9", "43", "44", "test"];
        Reply::file(names.map(|name| format!("<a href=\"{name}/\">{name}</a>")).concat())
    });
    let settings = fixture.workspace.read("pipeline.toml");
    let page = format!("[[releases]]\nof = \"distribution\"\nurl = \"{}\"\n", server.url("/"));
    fixture.workspace.write("pipeline.toml", format!("{settings}{page}"));
    fixture.workspace.commit("Look for releases");
    let newer = || {
        let ran = fixture.pipeline(&["run"]);
        ran.exits(0);
        let status = fixture.pipeline(&["status", "--json"]).exits(0).json();
        status["sets"][0]["newer"].to_string()
    };
    let found = newer();
    let expected = "the distribution: the newest release is 44, the chroots have 43";
    assert!(found.contains(expected), "{found}");
    drop(server);
    let found = newer();
    assert!(found.contains("not checked: releases of the distribution"), "{found}");
}

#[test]
fn dry_run_shows_the_way_and_changes_nothing() {
    let fixture = PipelineFixture::new();
    fixture.release("1.1", &[]);
    let before = fixture.workspace.files();
    let shown = fixture.pipeline(&["run", "--dry-run"]);
    shown.exits(0).prints(["greet 1.0 -> 1.1", "publish", "never"]);
    fixture.pipeline(&["run", "--dry-run", "--json"]).exits(0).document("rocmrpm/pipeline/1");
    assert_eq!(fixture.workspace.files(), before);
    assert_eq!(fixture.workspace.git(&["branch", "--list", "rocmrpm/*"]), "");
    fixture.workspace.replace("pipeline.toml", "index", "skip = [\"greet=1.1\"]\nindex");
    fixture.pipeline(&["run", "--dry-run"]).exits(0).prints(["greet 1.0 -> 1.1 (skipped)"]);
}

#[test]
fn bad_settings_and_workspaces_have_clear_errors() {
    let fixture = PipelineFixture::new();
    fixture.workspace.write("pipeline.toml", "promote = \"tested\"\nskip = [\"greet\"]\n");
    let ran = fixture.pipeline(&["run"]);
    ran.exits(3).reports(["pipeline.toml:1:11", "unknown tier `tested`", "NAME=VERSION"]);
    fixture.workspace.write("pipeline.toml", "from = \"nosuch\"\n");
    fixture.pipeline(&["run"]).exits(2).reports(["there is no component `nosuch`"]);
    fixture.workspace.write("pipeline.toml", "");
    fixture.pipeline(&["run", "--pins", "nosuch"]).exits(2).reports(["pin set `nosuch`"]);
    fixture.pipeline(&["run", "--chroot", "nosuch"]).exits(2).reports(["chroot `nosuch`"]);
    let fresh = Workspace::new();
    let ran = fresh.run(&["pipeline", "run"]);
    ran.exits(2).reports(["is not in a git repository with a commit"]).has_one_help_per_error();
}
