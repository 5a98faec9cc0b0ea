//! Builds the package stack-smoke with the stack's template, installs it with dnf5 into an empty root,
//! and runs it there, where nothing else of the stack is.

use std::path::Path;

use super::lab;
use super::support::{Workspace, copy};

#[test]
fn stack_smoke_builds_and_runs_without_the_stack() {
    let workspace = Workspace::small("laboratory-smoke");
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in ["smoke", "specs-templates/stack-smoke"] {
        copy(&source.join(folder), &workspace.path(folder));
    }
    let pins = workspace.read("pins/stable.toml");
    let own = std::fs::read_to_string(source.join("pins/stable.toml")).unwrap();
    let start = own.find("[stack-smoke]").unwrap();
    let pin = own[start..].split("\n\n").next().unwrap();
    workspace.write("pins/stable.toml", format!("{pins}\n{pin}\n"));
    lab::hand_over(&workspace);
    let build = ["build", "stack-smoke", "--chroot", "fedora-43", "--builder", "host"];
    lab::rocmrpm(&workspace, &[&build[..], &["--until", "rpm"]].concat()).exits(0);
    let script = "root=/mnt/root\n\
         dnf5 -y --installroot=$root --releasever=43 --use-host-config --setopt=install_weak_deps=0 \
             --setopt=reposdir=/nonexistent --setopt=cachedir=/mnt/cache \
             --repofrompath=fedora,file:///lab/fedora --setopt=fedora.gpgcheck=0 \
             --repofrompath=stack,file://$PWD/build/fedora-43/repository --setopt=stack.gpgcheck=0 \
             install stack-smoke >&2\n\
         chroot $root stack-smoke --bench --json -";
    let results = lab::root(&workspace, script).exits(0).json();
    let checks = results["checks"].as_array().unwrap();
    assert!(checks.len() > 15, "{results}");
    for check in checks {
        assert_eq!(check["outcome"], "not-run", "{check}");
        assert_eq!(check["computed"], serde_json::json!([]), "{check}");
    }
    let detail = |id: &str| &checks.iter().find(|check| check["id"] == id).unwrap()["detail"];
    assert_eq!(detail("cpu-matmul"), "the Python module torch is not installed");
    assert_eq!(detail("llama-cpu"), "the program llama-bench is not installed");
}
