//! Walks releases of a local upstream repository through the whole pipeline with real builds, and kills
//! it at every stage.

mod destinations;
mod faults;
pub(crate) mod lab;
mod notify;
mod rollback;

use std::time::Duration;

use crate::support::documents;
use crate::support::server::{Reply, TestServer};
use crate::support::{Workspace, names_in, ran};
use lab::{Lab, WORKS, happens};

/// Five upstream releases: one breaks a patch, one does not build, one is good, one needs a decision,
/// and one is withdrawn after it was published. Only the decisions are made by a person.
#[test]
fn walks_five_releases() {
    let lab = Lab::new();
    let head = lab.workspace.git(&["rev-parse", "HEAD"]);
    lab.pipeline(&["run"]).exits(0).reports(["Finished all stages passed"]);
    assert_eq!(lab.published(), ["greet-1.0-1.noarch.rpm"]);

    lab.release("1.1", &[("hello", "good day\nend\n")]);
    let stopped = lab.pipeline(&["run"]);
    stopped.exits(1).has_one_help_per_error();
    stopped.reports(["patches or edits do not apply to greet 1.1", "rocmrpm patch refresh"]);
    lab.pipeline(&["run"]).exits(1);
    let records = lab.records();
    lab.pipeline(&["run"]).exits(1).reports(["do not apply to greet 1.1"]);
    assert_eq!(lab.records(), records, "the same question is recorded once");

    let broken = "#!/bin/sh\necho 'error: no member named x'\nexit 3\n";
    lab.release("1.2", &[("hello", "hello\nend\n"), ("build.sh", broken)]);
    lab.pipeline(&["run"]).exits(10).reports(["`greet` failed in %build"]);
    assert_eq!((lab.pinned().as_str(), lab.published().len()), ("1.2", 1));
    let status = lab.pipeline(&["status", "--json"]);
    let status = status.exits(0).document("rocmrpm/pipeline-status/1");
    assert_eq!(status["sets"][0]["blocked"]["stage"], "build");
    let greet = component(&status, "greet");
    assert_eq!(
        (greet["version"].as_str(), greet["tier"].as_str()),
        (Some("1.2"), Some("prepared"))
    );
    assert!(greet["failure"].as_str().unwrap().contains("%build"), "{greet}");

    lab.release("1.3", &[("build.sh", WORKS)]);
    lab.pipeline(&["run"]).exits(0);
    assert_eq!(lab.published(), ["greet-1.3-1.noarch.rpm"]);

    lab.release("1.4", &[("LICENSE", "Apache-2.0\n")]);
    let question = "greet 1.4: its license files changed: LICENSE";
    lab.pipeline(&["run"]).exits(1).reports([question]).has_one_help_per_error();
    // Another release does not answer the question.
    lab.release("1.5", &[("hello", "hello\nend\nmore\n")]);
    lab.pipeline(&["run"]).exits(1).reports([question]);
    assert_eq!(lab.pinned(), "1.4");
    lab.pipeline(&["accept", "--reason", "the License tag is right"]).exits(0).reports([question]);
    lab.pipeline(&["accept"]).exits(2).reports(["no question that can be accepted"]);
    lab.pipeline(&["run"]).exits(0);
    assert_eq!(
        (lab.pinned().as_str(), lab.published()),
        ("1.5", vec!["greet-1.5-1.noarch.rpm".into()])
    );

    lab.withdraw("1.5");
    let stopped = lab.pipeline(&["run"]);
    stopped.exits(1).has_one_help_per_error();
    stopped.reports(["greet 1.5 was withdrawn", "the newest release is 1.4"]);
    lab.pipeline(&["accept"]).exits(0);
    lab.pipeline(&["run"]).exits(0);
    lab.assert_sound(&head);
    page_shows_it(&lab);
}

/// An image states what the records prove about the packages that it installs, and nothing else.
#[test]
fn images_have_the_tiers_of_their_packages() {
    use std::os::unix::fs::PermissionsExt as _;
    let lab = Lab::new();
    let manifest = lab.workspace.read("rocmrpm.toml");
    let base = "\n[container.fedora]\nbase = \"example.org/base:1\"\n";
    lab.workspace.write("rocmrpm.toml", manifest + base);
    let component = lab.workspace.read("specs-templates/greet/component.toml");
    let packages = "\n[container]\npackages = [\"greet\"]\n";
    lab.workspace.write("specs-templates/greet/component.toml", component + packages);
    lab.workspace.commit("Describe an image");
    lab.pipeline(&["run"]).exits(0);
    let programs = lab.workspace.holder().join("programs");
    let podman = programs.join("podman");
    std::fs::create_dir(&programs).unwrap();
    std::fs::write(&podman, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").unwrap();
    std::fs::set_permissions(&podman, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let labels = || -> Vec<String> {
        let tree = lab.tree("");
        let args = ["-C", tree.to_str().unwrap(), "container", "build"];
        ran(lab.workspace.command(&args).env("PATH", &path)).exits(0);
        let log = lab.tree("build/host/container/fedora.log");
        let called = std::fs::read_to_string(log).unwrap();
        called.lines().filter(|line| line.contains(".tier.")).map(str::to_owned).collect()
    };
    assert_eq!(labels(), ["io.rocmrpm.tier.base=inspected", "io.rocmrpm.tier.greet=inspected"]);
    std::fs::remove_dir_all(lab.folder("evidence")).unwrap();
    assert_eq!(labels(), ["io.rocmrpm.tier.base=none", "io.rocmrpm.tier.greet=none"]);
}

fn component<'v>(status: &'v serde_json::Value, name: &str) -> &'v serde_json::Value {
    let all = status["sets"][0]["components"].as_array().unwrap();
    all.iter().find(|one| one["component"] == name).unwrap()
}

/// Checks the pages and the evidence beside what was published.
fn page_shows_it(lab: &Lab) {
    let page = lab.pipeline(&["status", "--html"]).exits(0).stdout.clone();
    for part in ["greet", "1.5-1", "inspected", "build", "Build time of all components", "%build"] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    if let Some(folder) = std::env::var_os("ROCMRPM_TEST_PAGES") {
        std::fs::write(std::path::Path::new(&folder).join("status.html"), &page).unwrap();
    }
    let site = lab.workspace.holder().join("site/host/evidence");
    assert_eq!(names_in(&site), ["stable.host.html", "stable.json"]);
    let bundle: serde_json::Value =
        serde_json::from_slice(&std::fs::read(site.join("stable.json")).unwrap()).unwrap();
    assert_eq!(documents::check(&bundle), Some("rocmrpm/evidence-bundle/1"));
    for record in bundle["records"].as_array().unwrap() {
        let record: serde_json::Value = serde_json::from_str(record.as_str().unwrap()).unwrap();
        assert_eq!(documents::check(&record), Some("rocmrpm/evidence/1"));
    }
    assert!(lab.workspace.holder().join("wheels/evidence/stable.json").exists());
}

/// The program is killed after every record, and in the middle of a build, and ends as one that was not.
#[test]
fn continues_after_kills_at_every_stage() {
    let whole = Lab::new();
    let lab = Lab::new();
    for one in [&whole, &lab] {
        one.release("1.1", &[("build.sh", "#!/bin/sh\nsleep 2\n")]);
    }
    whole.pipeline(&["run"]).exits(0);
    let head = lab.workspace.git(&["rev-parse", "HEAD"]);
    let mut kills = 0;
    loop {
        let before = lab.records();
        let mut run = lab.start();
        let ended = || lab.records() > before;
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
    assert_eq!(lab.published(), whole.published());
    assert_eq!(lab.pinned(), "1.1");
    lab.assert_sound(&head);
    assert_eq!(subjects(&lab), subjects(&whole));
}

/// Returns the subjects of the commits on the branch, newest first.
fn subjects(lab: &Lab) -> String {
    lab.workspace.git(&["log", "--format=%s", "rocmrpm/stable"])
}

#[test]
fn continues_after_kills_at_any_time() {
    let lab = Lab::new();
    let head = lab.workspace.git(&["rev-parse", "HEAD"]);
    lab.release("1.1", &[]);
    for milliseconds in (20..).step_by(90) {
        let mut run = lab.start();
        let done = || run.try_wait().unwrap().is_some();
        if happens(Duration::from_millis(milliseconds), done) {
            break;
        }
        run.kill().unwrap();
        run.wait().unwrap();
        assert!(milliseconds < 20_000, "it never ends");
    }
    lab.pipeline(&["run"]).exits(0);
    assert_eq!(lab.published(), ["greet-1.1-1.noarch.rpm"]);
    assert_eq!(subjects(&lab), "Update greet to 1.1\nStart\n");
    lab.assert_sound(&head);
}

#[test]
fn refuses_a_second_run_and_leaves_the_user_alone() {
    let lab = Lab::new();
    lab.release("1.1", &[("build.sh", "#!/bin/sh\nsleep 5\n")]);
    // What the user has not committed stays, and is not built.
    let file = "specs-templates/greet/component.toml";
    let mine = lab.workspace.read(file) + "timeout = \"1 s\"\n";
    lab.workspace.write(file, &mine);
    let mut first = lab.start();
    assert!(happens(Duration::from_secs(60), || lab.folder(".lock").exists()));
    let second = lab.pipeline(&["run"]);
    second.exits(20).reports(["another rocmrpm process runs the pipeline of `stable`"]);
    second.has_one_help_per_error();
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(lab.workspace.read(file), mine);
    assert_eq!(lab.workspace.git(&["status", "--porcelain"]), format!(" M {file}\n"));
}

#[test]
fn asks_before_it_discards_or_overwrites() {
    let lab = Lab::new();
    lab.pipeline(&["run"]).exits(0);
    // A change in the worktree that is not committed.
    std::fs::write(lab.tree("pins/stable.toml"), "# mine\n").unwrap();
    let stopped = lab.pipeline(&["run"]);
    stopped.exits(1).reports(["has changes that are not committed: pins/stable.toml"]);
    stopped.has_one_help_per_error();
    assert_eq!(std::fs::read_to_string(lab.tree("pins/stable.toml")).unwrap(), "# mine\n");
    lab.workspace.git_in(&lab.tree(""), &["restore", "."]);
    lab.pipeline(&["run"]).exits(0);
    // Both branches change the same line.
    lab.release("1.1", &[]);
    lab.pipeline(&["run"]).exits(0);
    lab.workspace.replace(
        "pins/stable.toml",
        "[greet]\nversion = \"1.0\"",
        "[greet]\nversion = \"0.9\"",
    );
    lab.workspace.commit("Go back");
    let stopped = lab.pipeline(&["run"]);
    stopped.exits(1).reports(["changed the same lines", "git -C"]).has_one_help_per_error();
    assert_eq!(lab.pinned(), "1.1");
}

#[test]
fn stops_for_a_due_entry_of_the_watch_list() {
    let lab = Lab::new();
    let url = "https://github.com/o/r/issues/1";
    lab.workspace.write(
        "watch.toml",
        format!(
            "[[watch]]\nurl = \"{url}\"\ncomponents = [\"greet\"]\nmeans = \"it is fixed\"\n\
             do = \"drop the patch\"\n"
        ),
    );
    lab.workspace.commit("Watch an issue");
    let head = lab.workspace.git(&["rev-parse", "HEAD"]);
    let api = TestServer::start(move |_| {
        Reply::file(format!("{{\"html_url\": \"{url}\", \"state\": \"closed\"}}"))
    });
    let run = || ran(lab.command(&["run"]).env("ROCMRPM_GITHUB_API", api.url("")));
    for _ in 0..2 {
        let stopped = run();
        stopped.exits(1).reports([&format!("{url} is closed, which greet 1.0 waited for")]);
        stopped.reports(["help: drop the patch, remove the entry"]).has_one_help_per_error();
    }
    assert_eq!(lab.records(), 1, "the same question is recorded once");
    lab.pipeline(&["accept", "--reason", "next week"]).exits(0);
    run().exits(0);
    lab.assert_sound(&head);
    lab.workspace.git(&["rm", "--quiet", "watch.toml"]);
    lab.workspace.commit("Drop the patch");
    run().exits(0).never_reports("watch");
}

#[test]
fn lists_a_newer_release_of_the_distribution() {
    let lab = Lab::new();
    lab.workspace.write(
        "mock-configs/other.toml",
        "release = \"43\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc43\"\n\
         base-config = \"fedora-43-x86_64.cfg\"\nrocm-provider = \"host\"\n",
    );
    let server = TestServer::start(|_| {
        let names = ["9", "43", "44", "test"];
        Reply::file(names.map(|name| format!("<a href=\"{name}/\">{name}</a>")).concat())
    });
    let settings = lab.workspace.read("pipeline.toml");
    let page = format!("[[releases]]\nof = \"distribution\"\nurl = \"{}\"\n", server.url("/"));
    lab.workspace.write("pipeline.toml", format!("{settings}{page}"));
    lab.workspace.commit("Look for releases");
    let newer = || {
        let ran = lab.pipeline(&["run"]);
        ran.exits(0);
        let status = lab.pipeline(&["status", "--json"]).exits(0).json();
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
    let lab = Lab::new();
    lab.release("1.1", &[]);
    let before = lab.workspace.files();
    let shown = lab.pipeline(&["run", "--dry-run"]);
    shown.exits(0).prints(["greet 1.0 -> 1.1", "publish", "never"]);
    lab.pipeline(&["run", "--dry-run", "--json"]).exits(0).document("rocmrpm/pipeline/1");
    assert_eq!(lab.workspace.files(), before);
    assert_eq!(lab.workspace.git(&["branch", "--list", "rocmrpm/*"]), "");
    lab.workspace.replace("pipeline.toml", "index", "skip = [\"greet=1.1\"]\nindex");
    lab.pipeline(&["run", "--dry-run"]).exits(0).prints(["greet 1.0 -> 1.1 (skipped)"]);
}

#[test]
fn bad_settings_and_workspaces_have_clear_errors() {
    let lab = Lab::new();
    lab.workspace.write("pipeline.toml", "promote = \"tested\"\nskip = [\"greet\"]\n");
    let ran = lab.pipeline(&["run"]);
    ran.exits(3).reports(["pipeline.toml:1:11", "unknown tier `tested`", "NAME=VERSION"]);
    lab.workspace.write("pipeline.toml", "from = \"nosuch\"\n");
    lab.pipeline(&["run"]).exits(2).reports(["there is no component `nosuch`"]);
    lab.workspace.write("pipeline.toml", "");
    lab.pipeline(&["run", "--pins", "nosuch"]).exits(2).reports(["pin set `nosuch`"]);
    lab.pipeline(&["run", "--chroot", "nosuch"]).exits(2).reports(["chroot `nosuch`"]);
    let fresh = Workspace::new();
    let ran = fresh.run(&["pipeline", "run"]);
    ran.exits(2).reports(["is not in a git repository with a commit"]).has_one_help_per_error();
}
