//! The watch list, with a stand-in for GitHub's API: `rocmrpm pins outdated` and `patch status` show what
//! is due, what is stale, and the last known states.

use crate::support::server::{Reply, SeenRequest, TestServer};
use crate::support::{Parts, REPOSITORY, Ran, Transcript, Workspace, ran};
use rocmrpm::events::Silent;
use rocmrpm::sources::{Cache, Fetcher};
use rocmrpm::watch::watched;
use rocmrpm::workspace::Selection;

const ISSUE: &str = "https://github.com/o/r/issues/1";
const PULL: &str = "https://github.com/o/r/pull/2";
const RELEASE: &str = "https://github.com/o/r/releases/tag/v2.0";

fn entry(url: &str, further: &str) -> String {
    format!(
        "[[watch]]\nurl = \"{url}\"\ncomponents = [\"one\"]\nmeans = \"one needs a patch\"\n\
         do = \"drop the patch of one\"\n{further}\n"
    )
}

/// Creates a workspace with the component `one` 1.0 and a watch list.
fn workspace(watch: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.component("one", &Parts::default());
    workspace.write("watch.toml", watch);
    workspace
}

/// Returns GitHub's description of an issue or a pull request; the form is that of its REST API.
fn issue(path: &str, state: &str, merged_at: Option<&str>) -> String {
    let url = format!("https://github.com/o/r/{path}");
    let number: u32 = path.rsplit('/').next().unwrap().parse().unwrap();
    let mut issue = serde_json::json!({
        "url": format!("https://api.github.com/repos/o/r/issues/{number}"),
        "html_url": url,
        "id": 1,
        "number": number,
        "state": state,
        "state_reason": null,
        "title": "A title",
        "user": { "login": "someone" },
        "labels": [],
        "body": null,
        "created_at": "2026-01-05T12:00:00Z",
    });
    if path.starts_with("pull/") {
        issue["pull_request"] = serde_json::json!({ "html_url": url, "merged_at": merged_at });
    }
    issue.to_string()
}

/// Answers like GitHub for an open issue, a merged pull request, and a release that does not exist.
fn github(seen: &SeenRequest) -> Reply {
    let json = |text: String| Reply::file(text).header("Content-Type", "application/json");
    match seen.path.as_str() {
        "/repos/o/r/issues/1" => json(issue("issues/1", "open", None)),
        "/repos/o/r/issues/2" => json(issue("pull/2", "closed", Some("2026-11-01T12:00:00Z"))),
        "/repos/o/r/issues/3" => Reply::status(301).header("Location", "/repositories/7/issues/1"),
        "/repositories/7/issues/1" => json(issue("issues/1", "closed", None)),
        "/repos/o/r/issues/4" => Reply::status(410),
        "/repos/o/r/issues/5" => Reply::status(403)
            .header("X-RateLimit-Limit", "60")
            .header("X-RateLimit-Remaining", "0"),
        "/repos/o/r/issues/6" => json("{\"html_url\": \"https://git".into()),
        "/repos/o/r/issues/7" => json(issue("issues/7", "locked", None)),
        _ => Reply::status(404),
    }
}

fn command(workspace: &Workspace, api: &TestServer, args: &[&str]) -> std::process::Command {
    let mut command = workspace.command(args);
    command.env("ROCMRPM_GITHUB_API", api.url("")).env("no_proxy", "127.0.0.1");
    command
}

fn outdated(workspace: &Workspace, api: &TestServer) -> Ran {
    ran(&mut command(workspace, api, &["pins", "outdated"]))
}

#[test]
fn shows_states_and_what_is_due() {
    let workspace = workspace(&format!(
        "{}{}{}",
        entry(ISSUE, ""),
        entry(PULL, "state = \"open\"\nchecked = \"2026-10-01\""),
        entry(RELEASE, "versions = \"<2\""),
    ));
    let api = TestServer::start(github);
    let shown = outdated(&workspace, &api);
    shown.exits(1).never_reports("warning");
    shown.prints([
        "watch list",
        &format!("{ISSUE} open"),
        &format!("{PULL} merged"),
        "do now: drop the patch of one",
        "warning: it is merged",
        &format!("{RELEASE} unreleased"),
        "concerns: one 1.0",
        "means: one needs a patch",
    ]);
    assert!(api.seen().iter().all(|seen| seen.header("authorization").is_none()));

    // `patch status` shows the same, and does not fail because of it.
    let status = ran(&mut command(&workspace, &api, &["patch", "status", "one"]));
    status.exits(0).prints([format!("{PULL} merged")]);
    let json = ran(&mut command(&workspace, &api, &["pins", "outdated", "--json"]));
    let json = json.exits(1).document("rocmrpm/pins-outdated/1");
    assert_eq!(json["watched"][1]["due"], true, "{json}");
    assert_eq!(json["watched"][2]["state"], "unreleased", "{json}");
    let json = ran(&mut command(&workspace, &api, &["patch", "status", "--json"]));
    assert_eq!(json.exits(0).json()["watched"][0]["kind"], "issue");

    // Offline, the states are those of the last run, not of the older ones in the file.
    let before = api.seen().len();
    let offline = ran(&mut command(&workspace, &api, &["patch", "status", "--offline"]));
    offline.exits(0).prints([format!("{PULL} merged")]);
    offline.reports(["3 states of the watch list could not be updated", "offline"]);
    assert_eq!(api.seen().len(), before, "nothing was asked");
}

#[test]
fn sends_a_token_only_to_the_api() {
    let workspace = workspace(&entry(ISSUE, ""));
    let api = TestServer::start(github);
    let mut command = command(&workspace, &api, &["pins", "outdated"]);
    ran(command.env("GITHUB_TOKEN", "s3cret/?")).exits(0).never_reports("s3cret");
    // x-access-token:s3cret/?
    let expected = "Basic eC1hY2Nlc3MtdG9rZW46czNjcmV0Lz8=";
    assert_eq!(api.seen()[0].header("authorization"), Some(expected));
    assert_eq!(api.seen()[0].path, "/repos/o/r/issues/1");
}

#[test]
fn keeps_the_last_known_state_of_a_forge_that_does_not_answer() {
    for (number, reason) in [
        (5, "HTTP status 403: it limits requests; set GITHUB_TOKEN for a higher limit"),
        (6, "unexpected response from"),
        (7, "unknown state `locked`"),
    ] {
        let url = format!("https://github.com/o/r/issues/{number}");
        let workspace = workspace(&entry(&url, "state = \"open\"\nchecked = \"2099-01-01\""));
        let api = TestServer::start(github);
        let shown = outdated(&workspace, &api);
        shown.exits(0).prints([format!("{url} open on 2099-01-01")]);
        shown.reports(["1 state of the watch list could not be updated", reason]);
    }
    let workspace = workspace(&entry("https://codeberg.org/o/r/issues/1", ""));
    let api = TestServer::start(github);
    let shown = outdated(&workspace, &api);
    shown.exits(0).prints(["unknown", "warning: its state was never checked"]);
    shown.reports(["only github.com is asked"]);
    assert_eq!(api.seen().len(), 0);
    // Nothing listens there any more.
    let workspace = self::workspace(&entry(ISSUE, "state = \"open\"\nchecked = \"2020-01-01\""));
    let mut command = command(&workspace, &api, &["pins", "outdated"]);
    drop(api);
    let shown = ran(&mut command);
    shown.exits(0).prints([&format!("{ISSUE} open on 2020-01-01"), "warning: open was checked"]);
    shown.reports(["could not be updated"]);
}

#[test]
fn stale_entries_say_why() {
    let entries = [
        entry(ISSUE, "versions = \"<1.0\""),
        entry(PULL, "patch = \"specs-templates/one/gone.patch\""),
        entry("https://github.com/o/r/issues/3", ""),
        entry("https://github.com/o/r/issues/4", "state = \"open\""),
        entry(RELEASE, "").replace("\"one\"", "\"two\""),
        entry("https://github.com/o/r/releases/tag/v3", "versions = \">=2\""),
    ];
    let workspace = workspace(&entries.concat());
    let api = TestServer::start(github);
    let shown = outdated(&workspace, &api);
    shown.exits(1).prints([
        "warning: every pin of one is newer than <1.0",
        "warning: the patch specs-templates/one/gone.patch does not exist",
        "warning: its address is now https://github.com/o/r/issues/1",
        "warning: it is closed",
        "warning: it does not exist, or is not public",
        "warning: nothing states when it was open",
        "warning: there is no component `two`",
    ]);
    // It waits for a version that no set has yet.
    assert!(!shown.stdout.contains("tag/v3"), "{shown}");
    // Entries of other components are not shown, and not asked for.
    let one = ran(&mut command(&workspace, &api, &["pins", "outdated", "one"]));
    assert!(!one.exits(1).stdout.contains("two"), "{one}");
    workspace.write("specs-templates/two/component.toml", "");
    workspace.write("specs-templates/two/two.spec.tera", "");
    outdated(&workspace, &api).exits(1).prints(["warning: no pin set has `two`"]);
}

#[test]
fn reports_mistakes_of_the_file() {
    let workspace = workspace(&entry("https://example.org/o/r", "stat = \"open\""));
    let api = TestServer::start(github);
    for args in [&["pins", "outdated"][..], &["patch", "status"]] {
        let wrong = ran(&mut command(&workspace, &api, args));
        wrong.exits(3).reports([
            "watch.toml:2:7",
            "is not an issue, a pull request, or a release",
            "watch.toml:6:1",
            "did you mean `state`?",
        ]);
    }
    workspace.write("watch.toml", "[[watch]\n");
    outdated(&workspace, &api).exits(3).reports(["watch.toml:1", "not valid TOML"]);
}

#[test]
fn guide_shows_the_list() {
    let text = std::fs::read_to_string(format!("{REPOSITORY}/docs/guides/patch.md")).unwrap();
    let list = text.split("```toml\n").find(|block| block.starts_with("[[watch]]")).unwrap();
    let workspace = Workspace::new();
    workspace.component("hello", &Parts::default());
    workspace.write("watch.toml", list.split("```").next().unwrap());
    let patch = "specs-templates/hello/0001-Greet-with-emphasis.patch";
    let diff = "--- a/hello\n+++ b/hello\n@@ -1 +1 @@\n-hello\n+hello!\n";
    workspace.write(patch, format!("Origin: own\nDrop-When: merged\n---\n{diff}"));
    let api = TestServer::start(|seen| match seen.path.as_str() {
        "/repos/example/hello/issues/12" => Reply::file(
            issue("pull/12", "closed", Some("2026-11-01T12:00:00Z"))
                .replace("github.com/o/r", "github.com/example/hello"),
        ),
        _ => Reply::status(404),
    });
    let shown = outdated(&workspace, &api);
    Transcript::block("docs/guides/patch.md", "rocmrpm pins outdated")
        .assert_prints(&shown.exits(1).stdout);
}

/// Without a network, the entries of the stack are only stale because no forge was asked.
#[test]
fn watch_list_of_the_stack_concerns_its_pins() {
    let (cache, root) = (tempfile::tempdir().unwrap(), std::path::Path::new(REPOSITORY));
    let fetcher = Fetcher::new(Cache::at(cache.path()), root, &Silent).offline(true);
    let workspace = rocmrpm::workspace::Workspace::load(root, &Selection::default()).unwrap();
    let list = watched(&workspace, &[], &fetcher).unwrap();
    assert!(list.len() > 1, "{list:#?}");
    for entry in list {
        assert_eq!(entry.stale, ["its state was never checked"], "{entry:#?}");
    }
}
