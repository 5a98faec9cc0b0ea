//! Tests a failing and recovering COPR, and expired tokens.

use serde_json::json;

use crate::stack::{PROJECT_TOML, Stack, assert_no_token};

#[test]
fn retries_server_errors_without_losing_builds() {
    let stack = Stack::synced();
    stack.copr.control(&json!({"errors": [
        {"match": "GET /api_3/build/\\d", "count": 2, "status": 500},
        {"match": "POST /api_3/build/create/upload", "count": 1, "status": 500},
        {"match": "GET /api_3/build-chroot", "count": 1, "status": 503},
        {"match": "GET /backend/results/.*noarch.rpm", "count": 1, "status": 502},
    ]}));
    stack.push().exits(0);
    let requests = stack.copr.requests();
    for status in ["500", "503", "502"] {
        assert!(requests.iter().any(|request| request.ends_with(status)), "{requests:#?}");
    }
    assert_eq!(stack.copr.uploads(), 3);
    assert!(stack.accepted("app"));
}

/// The pauses take a minute, so the test tries other faults in the meantime.
#[test]
fn gives_up_on_an_unreachable_server() {
    let stack = Stack::synced();
    stack.copr.control(&json!({"errors": [{"match": "/api_3/", "count": 1000, "status": 503}]}));
    let status = stack.start(&["copr", "status"]);
    check_expired_token_is_reported_before_uploads();
    check_truncated_download_is_retried();
    check_timeout_is_reported();
    let status = status.finish();
    assert_no_token(&status);
    status.exits(30).reports([stack.copr.url.as_str()]);
}

fn check_truncated_download_is_retried() {
    let stack = Stack::synced();
    stack.copr.control(
        &json!({"pulp": true, "drop": [{"match": "noarch.rpm$", "count": 1, "after": 1000}]}),
    );
    stack.run(&["copr", "push", "other"]).exits(0);
    let fetched = |request: &&String| {
        request.starts_with("GET /backend") && request.ends_with("noarch.rpm 200")
    };
    assert_eq!(stack.copr.requests().iter().filter(fetched).count(), 2);
    assert!(stack.accepted("other"));
}

fn check_timeout_is_reported() {
    let stack = Stack::synced();
    let project = stack.workspace.read(PROJECT_TOML);
    stack.workspace.write(PROJECT_TOML, format!("{project}timeout = \"2 s\"\n"));
    let spec = crate::support::template("other");
    stack.workspace.replace(&spec, "%build\n", "%build\nsleep 60\n");
    stack.run(&["copr", "push", "other"]).exits(11).reports(["timeout"]);
    assert_eq!(stack.copr.builds()[0]["timeout"], 2);
}

fn check_expired_token_is_reported_before_uploads() {
    let stack = Stack::synced();
    stack.copr.control(&json!({"expired": ["alice"]}));
    let page = format!("{}/api", stack.copr.url);
    stack.push().exits(3).reports(["expired", page.as_str()]).never_reports("Packing");
    assert_eq!(stack.copr.uploads(), 0);
    stack.copr.control(&json!({}));
    stack.push().exits(0);
    assert_eq!(stack.copr.uploads(), 3);
}

#[test]
fn rejects_packages_not_signed_by_the_project() {
    for key in ["", "other"] {
        let stack = Stack::synced();
        stack.copr.control(&json!({"key": {"other": key}}));
        let refused = stack.run(&["copr", "push", "other"]);
        refused.exits(30).reports([
            "`other-1.0-1.fc43.noarch.rpm` of build ",
            "is not signed with the project's key",
            "/pubkey.gpg",
        ]);
        assert!(!stack.accepted("other"));
        assert_eq!(stack.published(), [""; 0]);
    }
}

#[test]
fn reports_failures_of_copr_itself() {
    let stack = Stack::synced();
    stack.copr.control(&json!({"backend": {"other": "Build timeouted"}}));
    stack.run(&["copr", "push", "other"]).exits(11).reports(["timeout"]);
    stack.copr.control(&json!({"backend": {"other": "Copr GPG signing problems: no key"}}));
    let failed = stack.run(&["copr", "push", "other"]);
    failed
        .exits(30)
        .reports(["`other` failed in COPR: COPR itself failed: Copr GPG signing problems: no key"]);
    assert_log_exists(&failed);
}

#[test]
fn reads_logs_that_copr_has_not_packed_yet() {
    let stack = Stack::synced();
    let log = "Executing(%build): /bin/sh\nerror: a dependency of other is missing";
    let packing = json!({"other": "packing"});
    stack.copr.control(&json!({"hold": packing, "fail": {"other": log}}));
    let failed = stack.run(&["copr", "push", "other"]);
    failed.exits(10).reports(["a dependency of other is missing"]);
    assert_log_exists(&failed);
    let results = stack.copr.path("server/results/alice/rocm/fedora-43-x86_64/00000001-other");
    assert!(results.join("builder-live.log").exists());
}

#[test]
fn shows_the_log_of_a_failed_source_build() {
    let stack = Stack::synced();
    stack.copr.control(&json!({"source": {"other": true}}));
    let failed = stack.run(&["copr", "push", "other"]);
    failed
        .exits(10)
        .reports(["COPR could not read the SRPM of build 1", "can not read the source package"]);
    assert_log_exists(&failed);
}

#[test]
fn omits_help_for_debian() {
    let stack = Stack::synced();
    let log = "Executing(%build): /bin/sh\nx.cpp:1: fatal error: hip/hip_runtime.h: No such file or directory\n\
               error: Bad exit status from /var/tmp/rpm-tmp.Ab (%build)";
    stack.copr.control(&json!({"fail": {"other": log}}));
    let failed = stack.run(&["copr", "push", "other"]);
    failed
        .exits(10)
        .reports(["HIP's headers are not installed", "rocm-hip-devel"])
        .never_reports("apt-get");
}

#[track_caller]
fn assert_log_exists(failed: &crate::support::Ran) {
    let log = failed.reference("Log");
    assert!(std::path::Path::new(&log).exists(), "{log}");
}
