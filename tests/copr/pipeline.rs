//! The pipeline builds and publishes on COPR.

use serde_json::json;

use crate::stack::Stack;
use crate::support::{Ran, names_in, template, wait_until};

const RUN: &[&str] = &["pipeline", "run", "--chroot", "fedora-43", "--builder", "copr"];

/// A committed workspace with a project.
fn committed() -> Stack {
    let stack = Stack::new();
    stack.run(&["lock"]).exits(0);
    stack.workspace.write(".gitignore", "build/\n");
    stack.workspace.commit("Start");
    for (key, value) in [("user.name", "Pipeline"), ("user.email", "pipeline@example.org")] {
        stack.workspace.git(&["config", key, value]);
    }
    stack
}

fn run(stack: &Stack) -> Ran {
    stack.run(RUN)
}

/// Returns the results of a component in the pipeline's folder.
fn results(stack: &Stack, component: &str) -> Vec<String> {
    let tree = stack.workspace.path("build/pipeline/stable/tree");
    let results = tree.join("build/fedora-43/results").join(component);
    names_in(&results).into_iter().filter(|name| name.ends_with(".noarch.rpm")).collect()
}

#[test]
fn pipeline_publishes_only_what_passed_inspection() {
    let stack = committed();
    let stopped = run(&stack);
    stopped.exits(3).reports(["alice/rocm", "rocmrpm copr sync"]).has_one_help_per_error();
    stack.run(&["copr", "sync"]).exits(0);
    stack.copr.control(&json!({"define": {"other": {"broken": "1"}}}));
    run(&stack).exits(1).reports(["elf-damaged"]);
    stack.copr.control(&json!({}));
    assert_eq!(stack.published(), [""; 0]);

    // The next run builds it again, and the first build must not reach users.
    let spec = template("other");
    stack.workspace.replace(&spec, "%install\n", "%install\n# changed\n");
    stack.workspace.commit("Change other");
    let stopped = run(&stack);
    stopped.exits(1).reports(["COPR would also publish 1 build without inspection: "]);
    stopped.reports(["copr-cli delete-build"]).has_one_help_per_error();
    let builds = stack.copr.builds();
    let damaged = builds.iter().find(|build| build["package"] == "other").unwrap();
    stack.copr.cli(&["delete-build", &damaged["id"].to_string()]).exits(0);
    wait_until("the build is deleted", || stack.copr.states().len() < builds.len());
    run(&stack).exits(0).reports(["Passed publish for fedora-43: all builds on COPR"]);
    wait_until("COPR has published", || stack.published().len() == 3);
    let expected: Vec<String> =
        ["app", "lib", "other"].iter().flat_map(|name| results(&stack, name)).collect();
    let published = stack.published();
    let mut names: Vec<&str> =
        published.iter().filter_map(|href| href.rsplit('/').next()).collect();
    names.sort_unstable();
    assert_eq!(names, expected);

    let uploads = stack.copr.uploads();
    run(&stack).exits(0).reports(["Unchanged publish"]);
    assert_eq!(stack.copr.uploads(), uploads);
    stack.workspace.run(&["evidence", "check"]).exits(0);
}

#[test]
fn pipeline_continues_a_build_on_copr_after_a_kill() {
    let stack = committed();
    stack.run(&["copr", "sync"]).exits(0);
    stack.copr.control(&json!({"hold": {"lib": "running"}}));
    let pipeline = stack.start(RUN);
    wait_until("lib runs", || stack.copr.states().iter().any(|state| state == "lib running"));
    pipeline.signal("KILL");
    pipeline.finish();
    stack.copr.control(&json!({}));
    run(&stack).exits(0);
    assert_eq!(stack.copr.uploads(), 3);
    wait_until("COPR has published", || stack.published().len() == 3);
}

#[test]
fn pipeline_needs_a_project_with_the_chroot() {
    let stack = committed();
    let stopped = stack.run(&["pipeline", "run", "--chroot", "host", "--builder", "copr"]);
    stopped.exits(2).reports(["the COPR project has no chroot `host`", "fedora-43"]);
    std::fs::remove_file(stack.workspace.path("copr/project.toml")).unwrap();
    stack.workspace.commit("Leave COPR");
    run(&stack).exits(3).reports(["copr/project.toml"]).has_one_help_per_error();
    assert!(!stack.workspace.path("build/pipeline").exists());
}
