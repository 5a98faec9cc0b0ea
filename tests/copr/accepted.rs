//! Users and dependents get exactly the packages that passed inspection, regardless of other builds
//! on COPR. These tests run with the test server and, in `make copr-test`, with COPR's own
//! frontend.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::stack::{CHROOT, PROJECT, PROJECT_TOML, Stack};
use crate::support::names_in;

/// Waits longer than other tests because COPR's own frontend is slow.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(180), "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Changes the installed files of a component.
fn change(stack: &Stack, component: &str, text: &str) {
    let spec = crate::support::template(component);
    stack.workspace.replace(&spec, "%install\n", &format!("%install\n# {text}\n"));
}

fn build_of(stack: &Stack, state: &str) -> String {
    let at = stack.copr.states().iter().position(|found| found == state).unwrap();
    stack.copr.builds()[at]["id"].to_string()
}

/// Deletes a build and waits until COPR's backend has deleted it.
fn delete(stack: &Stack, build: &str) {
    stack.copr.cli(&["delete-build", build]).exits(0);
    let chroot = stack.copr.path("server/results").join(PROJECT).join(CHROOT);
    let is_of =
        |name: &String| name.split('-').next().is_some_and(|n| n.trim_start_matches('0') == build);
    wait_until("its files are deleted", || !names_in(&chroot).iter().any(is_of));
}

#[test]
fn changed_package_gets_a_newer_release() {
    let stack = Stack::synced();
    stack.push().exits(0);
    stack.assert_users_get(&["lib", "app", "other"]);
    let first = stack.accepted_packages("lib");
    // There is no commit, so the workspace's release stays the same.
    change(&stack, "lib", "changed");
    stack.push().exits(0);
    stack.assert_dependents_get(&["lib", "app"]);
    stack.assert_users_get(&["lib", "app", "other"]);
    assert_ne!(stack.accepted_packages("lib"), first);
    let names: Vec<String> = stack.accepted_packages("lib").into_keys().collect();
    assert_eq!(names, ["lib-1.0-1.2.fc43.noarch.rpm"]);
    change(&stack, "lib", "changed again");
    stack.push().exits(0);
    stack.assert_users_get(&["lib", "app", "other"]);
    assert_eq!(stack.copr.uploads(), 7);
}

#[test]
fn dependents_get_the_second_build_of_uncommitted_changes() {
    let stack = Stack::new();
    stack.commit();
    stack.run(&["copr", "sync"]).exits(0);
    change(&stack, "lib", "one");
    stack.run(&["copr", "push", "lib"]).exits(0);
    change(&stack, "lib", "two");
    stack.run(&["copr", "push", "app"]).exits(0);
    let names: Vec<String> = stack.accepted_packages("lib").into_keys().collect();
    assert_eq!(names, ["lib-1.0-2~dirty.2.fc43.noarch.rpm"]);
    // COPR has both builds; dnf installs the second one into the build root of app.
    assert_eq!(stack.copr.states(), ["lib succeeded", "lib succeeded", "app succeeded"]);
    stack.assert_dependents_get(&["lib", "app"]);
    stack.assert_users_get(&["lib", "app"]);
}

#[test]
fn does_not_build_dependents_on_a_rejected_build() {
    let stack = Stack::synced();
    stack.copr.control(&json!({"define": {"lib": {"broken": "1"}}}));
    stack.push().exits(1).reports(["elf-damaged"]);
    stack.copr.control(&json!({"hold": {"app": "running"}}));
    let push = stack.start(&["copr", "push"]);
    wait_until("app runs", || stack.copr.states().iter().any(|state| state == "app running"));
    stack.assert_dependents_get(&["lib"]);
    stack.copr.control(&json!({}));
    let refused = build_of(&stack, "lib succeeded");
    push.finish().exits(1).reports(["not published", &format!("copr-cli delete-build {refused}")]);
    delete(&stack, &refused);
    stack.push().exits(0).reports(["Published"]);
    stack.assert_users_get(&["lib", "app", "other"]);
}

#[test]
fn does_not_publish_packages_of_a_failed_build() {
    let stack = Stack::synced();
    stack.copr.control(
        &json!({"backend": {"lib": "createrepo failed"}, "define": {"lib": {"broken": "1"}}}),
    );
    stack.push().exits(30).reports(["COPR itself failed: createrepo failed"]);
    stack.copr.control(&json!({}));
    let failed = build_of(&stack, "lib failed");
    stack.push().exits(1).reports(["not published", &format!("copr-cli delete-build {failed}")]);
    assert_eq!(stack.published(), [""; 0]);
    delete(&stack, &failed);
    stack.push().exits(0).reports(["Published"]);
    stack.assert_users_get(&["lib", "app", "other"]);
}

#[test]
fn does_not_publish_packages_of_a_canceled_build() {
    let stack = Stack::synced();
    stack.copr.control(&json!({"hold": {"other": "signing"}}));
    let push = stack.start(&["copr", "push", "other"]);
    let folder =
        stack.copr.path("server/results/alice/rocm/fedora-43-x86_64/00000001-other/success");
    wait_until("its packages are signed", || folder.exists());
    stack.run(&["copr", "cancel"]).exits(0);
    push.finish().exits(130);
    assert_eq!(stack.copr.states(), ["other canceled"]);
    // COPR's backend is still processing it.
    let asks = |build: u32| format!("GET /api_3/build/{build} 200");
    stack.copr.control(&json!({"hold": {"other": "signing"}}));
    let push = stack.start(&["copr", "push", "other"]);
    wait_until("the second build is polled", || stack.copr.requests().contains(&asks(2)));
    stack.copr.control(&json!({}));
    push.finish().exits(1).reports(["not published", "/coprs/build/1"]);
    assert_eq!(stack.copr.states(), ["other canceled", "other succeeded"]);
    assert_eq!(stack.published(), [""; 0]);
    delete(&stack, "1");
    stack.push().exits(0).reports(["Published"]);
    stack.assert_users_get(&["lib", "app", "other"]);
}

#[test]
fn rebuilds_a_deleted_build_and_renews_metadata() {
    let stack = Stack::synced();
    stack.push().exits(0);
    stack.assert_users_get(&["lib", "app", "other"]);
    let deleted = build_of(&stack, "other succeeded");
    delete(&stack, &deleted);
    let status = stack.run(&["copr", "status", "--json"]).exits(0).json();
    assert_eq!(status["stale"], 1, "{status}");
    let reason = format!("build {deleted} is no longer on COPR");
    assert_eq!(stack.plan(), ["lib fresh", "app fresh", "other build"]);
    stack.run(&["copr", "status"]).exits(0).prints([&reason]);
    // Even pushing another component hides it from users.
    stack.run(&["copr", "push", "lib"]).exits(0).reports(["Published"]);
    wait_until("the package is removed", || stack.published().len() == 2);
    stack.push().exits(0).reports(["1 built, 2 fresh", "Published"]);
    stack.assert_users_get(&["lib", "app", "other"]);
}

#[test]
fn fresh_clone_reuses_builds_with_the_same_settings() {
    let stack = Stack::synced();
    stack.push().exits(0);
    let build = stack.workspace.path("build");
    std::fs::remove_dir_all(&build).unwrap();
    stack.push().exits(0).never_reports("Sending");
    assert_eq!(stack.copr.uploads(), 3);
    stack.assert_users_get(&["lib", "app", "other"]);

    let project = stack.workspace.read(PROJECT_TOML);
    let packages = "\n[chroot.fedora-43-x86_64]\npackages = [\"gcc\"]\n";
    stack.workspace.write(PROJECT_TOML, project + packages);
    stack.run(&["copr", "sync"]).exits(0);
    std::fs::remove_dir_all(&build).unwrap();
    stack.push().exits(0);
    assert_eq!(stack.copr.uploads(), 6);
    stack.assert_users_get(&["lib", "app", "other"]);
}

#[test]
fn does_not_wait_for_unnamed_builds_of_others() {
    let stack = Stack::synced();
    let foreign = stack.copr.srpm("foreign");
    stack.copr.control(&json!({"hold": {"foreign": "source-pending"}}));
    stack.copr.cli(&["build", "--nowait", "alice/rocm", foreign.to_str().unwrap()]).exits(0);
    stack.run(&["copr", "push", "other"]).exits(0);
    assert_eq!(stack.copr.states(), ["? pending", "other succeeded"]);
    stack.assert_users_get(&["other"]);
}

#[test]
fn lost_answer_to_an_upload_causes_no_second_build() {
    let stack = Stack::synced();
    let lost = json!([{"match": "POST /api_3/build/create/upload", "count": 1, "status": 502}]);
    stack.copr.control(&json!({"lost": lost, "hold": {"other": "source-pending"}}));
    let push = stack.start(&["copr", "push", "other"]);
    wait_until("the build is polled", || {
        stack.copr.requests().iter().any(|request| request == "GET /api_3/build/1 200")
    });
    stack.copr.control(&json!({}));
    push.finish().exits(0);
    assert_eq!(stack.copr.builds().len(), 1);
    stack.assert_users_get(&["other"]);
}
