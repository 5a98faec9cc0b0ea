//! Tests `rocmrpm copr push`: build order, the gate, and that it builds only stale components.

use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::site::TOKEN;
use crate::stack::{Stack, assert_no_token};
use crate::support::{Transcript, ran, wait_until};

#[test]
fn builds_in_waves_and_fetches_the_packages() {
    let stack = Stack::synced();
    assert_eq!(stack.plan(), ["lib build", "app build", "other build"]);
    assert_eq!(stack.copr.uploads(), 0);

    stack.copr.control(&json!({"hold": {"lib": "running"}}));
    let push = stack.start(&["copr", "push"]);
    wait_until("lib runs and other is done", || {
        let mut states = stack.copr.states();
        states.sort();
        states == ["lib running", "other succeeded"]
    });
    // Dependents of lib are not uploaded while COPR builds it.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(stack.copr.uploads(), 2);
    let status = stack.run(&["copr", "status"]);
    assert!(status.exits(0).stdout.contains("running"), "{status}");
    assert_eq!(stack.published(), [""; 0]);
    stack.copr.control(&json!({}));
    let push = push.finish();
    assert_no_token(push.exits(0).reports(["Published"]));
    assert_eq!(stack.copr.states().last().unwrap(), "app succeeded");

    for component in ["lib", "app", "other"] {
        assert!(stack.accepted(component), "{component}");
    }
    let repository = stack.workspace.path("build/fedora-43/repository");
    let names = crate::support::names_in(&repository);
    for name in
        ["app-1.0-1.fc43.noarch.rpm", "lib-1.0-1.fc43.noarch.rpm", "other-1.0-1.fc43.noarch.rpm"]
    {
        assert!(names.iter().any(|file| file == name), "{names:?}");
    }
    wait_until("all is published", || stack.published().len() == 3);

    // There is nothing to do, here and in a second workspace with the same content.
    assert_eq!(stack.plan(), ["lib fresh", "app fresh", "other fresh"]);
    stack.push().exits(0);
    assert_eq!(stack.copr.uploads(), 3);
    let asked = |request: &&String| request.starts_with("PUT /api_3/project/regenerate-repos");
    assert_eq!(stack.copr.requests().iter().filter(asked).count(), 1);
    let status = stack.run(&["copr", "status", "--json"]).document("rocmrpm/copr-status/1");
    assert_eq!(
        (&status["stale"], &status["components"][0]["state"]),
        (&json!(0), &json!("succeeded"))
    );
}

#[test]
fn failure_skips_dependents() {
    let stack = Stack::synced();
    let log = "Executing(%build): /bin/sh\nerror: a dependency of lib is missing";
    stack.copr.control(&json!({"fail": {"lib": log}}));
    let failed = stack.run(&["copr", "push", "--keep-going"]);
    let page = format!("{}/coprs/build/", stack.copr.url);
    failed.exits(10).reports(["a dependency of lib is missing", page.as_str()]);
    let mut states = stack.copr.states();
    states.sort();
    assert_eq!(states, ["lib failed", "other succeeded"]);
    assert_eq!((stack.accepted("lib"), stack.accepted("other")), (false, true));

    // After the fix, it resumes.
    stack.copr.control(&json!({}));
    stack.push().exits(0);
    assert_eq!(stack.copr.uploads(), 4);
    let tail = stack.copr.states().split_off(2);
    assert_eq!(tail, ["lib succeeded", "app succeeded"]);
    assert_eq!(stack.plan(), ["lib fresh", "app fresh", "other fresh"]);
}

#[test]
fn packages_from_copr_pass_the_same_gate() {
    let stack = Stack::synced();
    stack.copr.control(&json!({"define": {"lib": {"broken": "1"}}}));
    let refused = stack.run(&["copr", "push", "--keep-going"]);
    refused.exits(1).reports(["elf-damaged", "delete-build"]);
    let mut states = stack.copr.states();
    states.sort();
    assert_eq!(states, ["lib succeeded", "other succeeded"]);
    let results = stack.workspace.path("build/fedora-43/results/lib");
    assert!(!results.exists(), "{}", results.display());

    // After the fix, it is built again, but nothing is published while the rejected build exists.
    stack.copr.control(&json!({}));
    let refused =
        stack.copr.builds().iter().find(|build| build["package"] == "lib").unwrap()["id"].clone();
    let delete = format!("copr-cli delete-build {refused}");
    stack.push().exits(1).reports(["not published", delete.as_str()]);
    assert!(stack.accepted("lib") && stack.accepted("app"));
    assert_eq!(stack.published(), [""; 0]);
    stack.copr.cli(&["delete-build", &refused.to_string()]).exits(0);
    stack.push().exits(0).reports(["Published"]);
    wait_until("all is published", || stack.published().len() == 3);
    assert_eq!(stack.copr.uploads(), 4);
}

#[test]
fn build_root_gets_macros_as_a_package() {
    let stack = Stack::new();
    let chroot = stack.workspace.read("mock-configs/fedora-43.toml");
    stack
        .workspace
        .write("mock-configs/fedora-43.toml", format!("{chroot}\n[macros]\nof_rocm = \"7\"\n"));
    stack.run(&["copr", "sync"]).exits(0);
    stack.run(&["copr", "push", "other"]).exits(0);
    let states = stack.copr.states();
    assert_eq!(states, ["test-rpm-macros succeeded", "other succeeded"]);
    let project = stack.copr.state()["projects"]["alice/rocm"].clone();
    let packages = project["chroots"]["fedora-43-x86_64"]["additional_packages"].clone();
    assert!(packages[0].as_str().unwrap().starts_with("test-rpm-macros-"), "{packages}");
    // It is built only once and stays in place.
    stack.run(&["copr", "sync"]).exits(0).reports(["Unchanged"]);
    let push = stack.run(&["copr", "push"]);
    assert_eq!(stack.copr.states().iter().filter(|s| s.starts_with("test-rpm-macros")).count(), 1);
    let output = push.exits(0).stderr.replace(&stack.copr.url, "https://copr.fedorainfracloud.org");
    Transcript::block("docs/guides/copr.md", "rocmrpm copr push").assert_prints(&output);
}

#[test]
fn token_is_never_a_command_line_argument() {
    let stack = Stack::synced();
    let trace = stack.copr.path("trace");
    let mut command = Command::new("strace");
    let calls = ["-f", "-qq", "-s", "65536", "-e", "trace=execve", "-o"];
    command
        .args(calls)
        .arg(&trace)
        .arg(env!("CARGO_BIN_EXE_rocmrpm"))
        .args(["copr", "push", "other"]);
    stack.workspace.settle(&mut command);
    stack.copr.settle(&mut command);
    let push = ran(&mut command);
    assert_no_token(push.exits(0));
    let traced = std::fs::read_to_string(trace).unwrap();
    assert!(traced.contains("copr-cli") && traced.contains("curl"), "{traced}");
    assert!(!traced.contains(TOKEN), "the token is an argument");
    for entry in walkdir::WalkDir::new(stack.workspace.root()).into_iter().flatten() {
        if entry.file_type().is_file() {
            let bytes = std::fs::read(entry.path()).unwrap();
            let found = bytes.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes());
            assert!(!found, "the token is in {}", entry.path().display());
        }
    }
}

#[test]
fn counts_components_of_each_chroot_from_one() {
    let stack = Stack::new();
    let definition = stack.workspace.read("mock-configs/fedora-43.toml");
    stack.workspace.write("mock-configs/fedora-44.toml", definition.replace("43", "44"));
    stack.workspace.replace(
        crate::stack::PROJECT_TOML,
        "chroots = [",
        "chroots = [\"fedora-44-x86_64\", ",
    );
    stack.run(&["copr", "sync"]).exits(0);
    let push = stack.run(&["copr", "push", "other"]);
    push.exits(0).never_reports("(2/1)");
    assert_eq!(push.stderr.matches("Sending (1/1) other").count(), 2, "{push}");
}
