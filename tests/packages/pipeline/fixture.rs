//! A workspace with a component from a local git repository, whose releases the tests make.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Parts, Ran, Workspace, names_in, ran, template};

/// A patch of `hello` in `greet` that applies while the line is unchanged.
const PATCH: &str = "From: Ada <ada@example.org>
Subject: [PATCH] Greet politely

Origin: downstream
Drop-When: upstream greets politely
---
--- a/hello
+++ b/hello
@@ -1,2 +1,2 @@
-hello
+good morning
 end
";

/// The script that builds a release that works.
pub const WORKS: &str = "#!/bin/sh\ntrue\n";

/// A workspace, the repository of its component `greet` at 1.0, and the component `base`.
pub struct PipelineFixture {
    pub workspace: Workspace,
}

impl PipelineFixture {
    /// Creates the workspace and commits it.
    pub fn new() -> Self {
        let fixture = Self { workspace: Workspace::new() };
        let workspace = &fixture.workspace;
        workspace.write(".gitignore", "/build/\n");
        std::fs::create_dir_all(fixture.upstream()).unwrap();
        workspace.git_in(&fixture.upstream(), &["init", "--quiet", "--initial-branch=main"]);
        fixture.release(
            "1.0",
            &[("hello", "hello\nend\n"), ("LICENSE", "MIT\n"), ("build.sh", WORKS)],
        );
        workspace.component("base", &Parts::default());
        let parts = Parts {
            toml: "requires = [\"base\"]\n",
            preamble: "Requires: base",
            build: "sh ./build.sh",
            ..Parts::default()
        };
        workspace.component("greet", &parts);
        workspace.write("specs-templates/greet/0001-Greet-politely.patch", PATCH);
        let url = format!("file://{}", fixture.upstream().display());
        workspace.pin("greet", &format!("git = \"{url}\""));
        workspace.write(
            "pipeline.toml",
            "index = \"../wheels\"\nrepository = \"../site/{chroot}\"\npromote = \"inspected\"\n",
        );
        assert!(workspace.path(template("greet")).exists());
        workspace.run(&["lock"]).exits(0);
        workspace.commit("Start");
        fixture
    }

    /// Returns the folder of the upstream repository.
    pub fn upstream(&self) -> PathBuf {
        self.workspace.holder().join("upstream")
    }

    /// Commits files upstream, and tags a release.
    pub fn release(&self, version: &str, files: &[(&str, &str)]) {
        for (name, text) in files {
            std::fs::write(self.upstream().join(name), text).unwrap();
        }
        let git = |args: &[&str]| self.workspace.git_in(&self.upstream(), args);
        git(&["add", "--all"]);
        git(&["commit", "--quiet", "--allow-empty", "--message", &format!("Release {version}")]);
        git(&["tag", &format!("v{version}")]);
    }

    /// Removes the tag of a release.
    pub fn withdraw(&self, version: &str) {
        self.workspace.git_in(&self.upstream(), &["tag", "--delete", &format!("v{version}")]);
    }

    /// Returns `rocmrpm pipeline` with these arguments.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.workspace.command(&[&["pipeline"], args].concat());
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "Pipeline");
            command.env(format!("GIT_{role}_EMAIL"), "pipeline@example.org");
        }
        command
    }

    pub fn pipeline(&self, args: &[&str]) -> Ran {
        ran(&mut self.command(args))
    }

    /// Starts a run without waiting for it, in a process group of its own.
    pub fn start(&self) -> std::process::Child {
        let mut command = self.command(&["run"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// Returns a path in the folder of the pipeline of `stable`.
    pub fn folder(&self, path: impl AsRef<Path>) -> PathBuf {
        self.workspace.path("build/pipeline/stable").join(path)
    }

    /// Returns a path in the worktree.
    pub fn tree(&self, path: impl AsRef<Path>) -> PathBuf {
        self.folder("tree").join(path)
    }

    /// Returns the number of records.
    pub fn records(&self) -> usize {
        match self.folder("evidence").is_dir() {
            true => {
                names_in(&self.folder("evidence")).iter().filter(|n| n.ends_with(".json")).count()
            }
            false => 0,
        }
    }

    /// Returns the packages of `greet` that the published repository lists.
    pub fn published(&self) -> Vec<String> {
        let state = self.workspace.holder().join("site/host/rocmrpm.json");
        let Ok(state) = std::fs::read(state) else { return Vec::new() };
        let state: serde_json::Value = serde_json::from_slice(&state).unwrap();
        let packages = state["packages"].as_array().unwrap().iter();
        let names = packages.map(|package| package["file"].as_str().unwrap().to_owned());
        names.filter(|name| name.starts_with("greet-")).collect()
    }

    /// Returns the pinned version of `greet` on the branch.
    pub fn pinned(&self) -> String {
        let pins: toml::Table =
            std::fs::read_to_string(self.tree("pins/stable.toml")).unwrap().parse().unwrap();
        pins["greet"]["version"].as_str().unwrap().to_owned()
    }

    /// Fails unless the evidence is whole, and everything outside of the pipeline's folder is as the
    /// user left it.
    #[track_caller]
    pub fn assert_sound(&self, head: &str) {
        let workspace = &self.workspace;
        ran(workspace.command(&["evidence", "check"]).stdin(Stdio::null())).exits(0);
        assert_eq!(workspace.git(&["rev-parse", "HEAD"]), head);
        assert_eq!(workspace.git(&["rev-parse", "--abbrev-ref", "HEAD"]), "main\n");
        assert_eq!(workspace.git(&["status", "--porcelain"]), "");
        assert_eq!(workspace.git_in(&self.tree(""), &["status", "--porcelain"]), "");
        assert!(!self.folder("pending").exists() && !self.folder("creating").exists());
    }
}

/// Waits a little while a condition does not hold; returns whether it did in the end.
pub fn happens(within: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let started = std::time::Instant::now();
    while started.elapsed() < within {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    is_so()
}
