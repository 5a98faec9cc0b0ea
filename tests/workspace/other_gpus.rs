//! The repository's own stack for other GPUs: only `gpu-targets` in `rocmrpm.toml` is different.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::{REPOSITORY, Workspace, copy, names_in};

/// Returns a copy of the stack for these GPU targets.
pub(crate) fn stack_for(targets: &[&str]) -> Workspace {
    let workspace = Workspace::copy_of("");
    let list = format!("gpu-targets = {targets:?}");
    workspace.replace("rocmrpm.toml", "gpu-targets = [\"gfx1151\"]", &list);
    workspace.commit("Begin");
    workspace
}

/// Returns a copy of the stack with the files of an example over it, as its guide copies them.
pub(crate) fn example(name: &str) -> Workspace {
    let workspace = Workspace::copy_of("");
    copy(&Path::new(REPOSITORY).join("examples").join(name), &workspace.root());
    workspace.commit("Begin");
    workspace
}

/// Returns the GPU targets of AMD's packages that a text names.
fn targets_of_packages(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| c.is_whitespace() || "\"',".contains(c));
    let packages = words.filter(|word| word.starts_with("amdrocm"));
    packages.filter_map(|package| Some(package.split_once("-gfx")?.1.to_owned())).collect()
}

#[test]
fn requires_the_packages_of_every_gpu_target() {
    for targets in [&["gfx1100"][..], &["gfx1100", "gfx1201"]] {
        let stack = stack_for(targets);
        stack.run(&["render", "--chroot", "fedora-43"]).exits(0);
        let expected: BTreeSet<String> =
            targets.iter().map(|target| target["gfx".len()..].to_owned()).collect();
        let specs = stack.path("build/fedora-43/specs");
        let mut with_packages = Vec::new();
        for name in names_in(&specs) {
            let spec = fs_err::read_to_string(specs.join(&name)).unwrap();
            let found = targets_of_packages(&spec);
            if !found.is_empty() {
                assert_eq!(found, expected, "{name}");
                with_packages.push(name);
            }
        }
        assert!(with_packages.contains(&"python-torch-rocm.spec".to_owned()), "{with_packages:?}");
        let ubuntu = stack.read("Containerfile.fedora43-ubuntu");
        assert_eq!(targets_of_packages(&ubuntu), expected, "{ubuntu}");
        let fedora = stack.read("Containerfile.fedora43");
        let label = format!("io.rocmrpm.gpu-targets=\"{}\"", targets.join(" "));
        assert!(fedora.contains(&label), "{fedora}");
        // None of them can pass for gfx942, and one is a gfx1100.
        assert!(stack.path("Containerfile.spoof").exists());
        std::fs::remove_file(stack.path("Containerfile.spoof")).unwrap();
        let manifest = stack.read("rocmrpm.toml").replace("\"11.0.0\"", "\"9.4.2\"");
        stack.write("rocmrpm.toml", manifest);
        stack.run(&["render", "--chroot", "fedora-43"]).exits(0);
        assert!(!stack.path("Containerfile.spoof").exists());
        stack.run(&["container", "--print", "--flavor", "spoof"]).exits(3).reports([
            "no GPU target of the stack can pass for version 9.4.2, as in the flavor `spoof`",
            "remove HSA_OVERRIDE_GFX_VERSION from `env` in `[container.spoof]` of rocmrpm.toml",
        ]);
        stack.run(&["container", "--print", "--flavor", "spoofs"]).exits(3).reports([
            "there is no flavor `spoofs`; the flavors are fedora, ollama, spoof, toolbox, ubuntu, vulkan",
            "did you mean `spoof`?",
        ]);
    }
}

#[test]
fn rejects_a_provider_with_packages_for_another_gpu_target() {
    let stack = stack_for(&["gfx1100"]);
    let provider = "mock-configs/rocm/amdrocm.toml";
    stack.replace(provider, "amdrocm-dnn7.14-{gpu-target}", "amdrocm-dnn7.14-gfx1151");
    let text = stack.read(provider);
    let line = text.lines().position(|line| line.contains("dnn7.14-gfx1151")).unwrap() + 1;
    for command in ["lint", "plan"] {
        stack.run(&[command]).exits(3).reports([
            "error: `amdrocm-dnn7.14-gfx1151` is for gfx1151, but the stack is for gfx1100",
            &format!("--> {provider}:{line}:"),
            "help: write `amdrocm-dnn7.14-{gpu-target}`, which is one package per GPU target",
            "error: 1 mistake in the workspace's files",
        ]);
    }
}

#[test]
fn init_supports_every_gpu_target() {
    let workspace = Workspace::empty();
    let targets = ["--gpu-target", "gfx1100", "--gpu-target", "gfx942"];
    workspace.run(&[&["init", "--chroot", "fedora-43"], &targets[..]].concat()).exits(0);
    workspace.run(&["plan"]).exits(0);
}
