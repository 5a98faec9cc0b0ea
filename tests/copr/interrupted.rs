//! Tests interrupted runs: COPR continues, and the next run finds its results.

use serde_json::json;

use crate::stack::{Stack, assert_no_token};
use crate::support::documents;
use crate::support::{Ran, wait_until};

/// Interrupts a push with a signal while it waits for a running build.
fn interrupted(stack: &Stack, signal: &str) -> Ran {
    stack.copr.control(&json!({"hold": {"other": "running"}}));
    let push = stack.start(&["copr", "push", "other"]);
    wait_until("it runs", || stack.copr.states() == ["other running"]);
    // The upload was answered too: the push polls the build.
    let poll = "GET /api_3/build/1 200";
    wait_until("the push polls it", || stack.copr.requests().iter().any(|request| request == poll));
    push.signal(signal);
    let push = push.finish();
    assert_no_token(&push);
    push
}

#[test]
fn interrupted_push_resumes_without_a_second_upload() {
    let stack = Stack::synced();
    interrupted(&stack, "INT").exits(130).reports(["copr push"]);
    assert_eq!(stack.copr.states(), ["other running"]);
    assert!(!stack.accepted("other"));
    stack.copr.control(&json!({}));
    stack.run(&["copr", "push", "other"]).exits(0);
    assert_eq!(stack.copr.uploads(), 1);
    assert!(stack.accepted("other"));
}

#[test]
fn killed_push_resumes_without_a_second_upload() {
    let stack = Stack::synced();
    assert_eq!(interrupted(&stack, "KILL").code, None);
    stack.copr.control(&json!({}));
    stack.run(&["copr", "push", "other"]).exits(0);
    assert_eq!(stack.copr.uploads(), 1);
    assert!(stack.accepted("other"));
}

#[test]
fn finds_a_build_that_a_killed_push_did_not_record() {
    let stack = Stack::synced();
    stack.commit();
    stack.copr.control(&json!({"hold": {"other": "source-pending"}}));
    let push = stack.start(&["copr", "push", "other"]);
    wait_until("it is sent", || stack.copr.uploads() == 1);
    push.signal("KILL");
    push.finish();
    // As if it had been killed a moment earlier.
    let _ = std::fs::remove_dir_all(stack.workspace.path("build/fedora-43/copr"));
    let requests = stack.copr.requests();
    let listed =
        |requests: &[String]| requests.iter().filter(|r| r.contains("/build/list")).count();
    let before = listed(&requests);
    let push = stack.start(&["copr", "push", "other"]);
    wait_until("it lists the builds", || listed(&stack.copr.requests()) > before);
    stack.copr.control(&json!({}));
    assert_no_token(push.finish().exits(0));
    assert_eq!(stack.copr.uploads(), 1);
    assert!(stack.accepted("other"));
}

#[test]
fn cancels_running_builds() {
    let stack = Stack::synced();
    interrupted(&stack, "INT").exits(130);
    let dry = stack.run(&["copr", "cancel", "--dry-run"]);
    assert!(dry.exits(0).stdout.contains("other"), "{dry}");
    assert_eq!(stack.copr.states(), ["other running"]);
    stack.run(&["copr", "cancel"]).exits(0);
    assert_eq!(stack.copr.states(), ["other canceled"]);
    stack.run(&["copr", "cancel"]).exits(0).reports(["no builds are running"]);
    // Pushing again builds it again.
    stack.copr.control(&json!({}));
    stack.run(&["copr", "push", "other"]).exits(0);
    assert_eq!(stack.copr.states(), ["other canceled", "other succeeded"]);
}

#[test]
fn watches_builds_until_they_finish() {
    let stack = Stack::synced();
    stack.run(&["copr", "watch"]).exits(0).reports(["no builds are running"]);
    interrupted(&stack, "KILL");
    let listed = |request: &&String| request.starts_with("GET /api_3/package/list");
    let lists = || stack.copr.requests().iter().filter(listed).count();
    let before = lists();
    let watch = stack.start(&["copr", "watch"]);
    wait_until("the builds are listed", || lists() > before);
    stack.copr.control(&json!({}));
    let watch = watch.finish();
    assert_no_token(&watch);
    let lines: Vec<&str> = watch.exits(0).stdout.lines().collect();
    assert!(
        lines[0].starts_with("other: running ") && lines[1].starts_with("other: succeeded "),
        "{watch}"
    );
}

#[test]
fn names_the_states_of_both_steps_of_a_build() {
    let stack = Stack::synced();
    let poll = "GET /api_3/build/1 200";
    let polls = || stack.copr.requests().iter().filter(|request| *request == poll).count();
    let phases = ["source-pending", "source-running", "importing", "pending", "running"];
    stack.copr.control(&json!({"hold": {"other": phases[0]}}));
    let push = stack.start(&["copr", "push", "other"]);
    for phase in phases {
        stack.copr.control(&json!({"hold": {"other": phase}}));
        let state = phase.trim_start_matches("source-");
        let of = if phase == state { "other" } else { "?" };
        let reached = || stack.copr.states() == [format!("{of} {state}")];
        wait_until(&format!("it is {phase}"), reached);
        // The first of two polls may have started before that.
        let before = polls();
        wait_until("it is polled", || polls() > before + 1);
    }
    stack.copr.control(&json!({}));
    let push = push.finish();
    let states: Vec<&str> = push
        .exits(0)
        .stderr
        .lines()
        .filter_map(|line| {
            let (_, state) = line.split_once("Building (1/1) other ")?;
            Some(state.split_once(" https://")?.0)
        })
        .collect();
    assert_eq!(states, [&phases[..], &["succeeded"]].concat(), "{push}");
}

#[test]
fn names_an_unnamed_build_after_its_record() {
    let stack = Stack::synced();
    stack.copr.control(&json!({"hold": {"other": "source-running"}}));
    let push = stack.start(&["copr", "push", "other"]);
    let record = stack.workspace.path("build/fedora-43/copr/other.json");
    wait_until("it is recorded", || record.exists());
    push.signal("KILL");
    push.finish();
    documents::read(&record, "rocmrpm/copr-build/2");
    let status = stack.run(&["copr", "status", "--json"]).exits(0).json();
    let rows = status["components"].as_array().unwrap();
    let row = rows.iter().find(|row| row["component"] == "other").unwrap();
    assert_eq!((&row["build"], &row["remote"]), (&json!(1), &json!("1.0-1.fc43")), "{row}");
    assert_eq!(row["state"], "source-running");
    let dry = stack.run(&["copr", "cancel", "--dry-run"]);
    assert!(dry.exits(0).stdout.starts_with("other: source-running "), "{dry}");
}

#[test]
fn ignores_records_of_another_project() {
    let stack = Stack::synced();
    interrupted(&stack, "KILL");
    stack.workspace.replace(
        crate::stack::PROJECT_TOML,
        "project = \"rocm\"",
        "project = \"other\"",
    );
    stack.copr.control(&json!({}));
    stack.run(&["copr", "sync"]).exits(0);
    stack.run(&["copr", "push", "other"]).exits(0);
    let builds = stack.copr.builds();
    let of: Vec<&str> = builds.iter().map(|build| build["project"].as_str().unwrap()).collect();
    assert_eq!(of, ["alice/rocm", "alice/other"]);
}
