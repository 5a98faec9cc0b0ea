//! `pins derive` and `pins check` for a stack that rocmrpm knows nothing about: its `upstreams.toml`
//! declares which files of its projects are read. Mistakes in it are reported with their location.

use crate::support::Workspace;
use snapbox::{assert_data_eq, str};

/// `jax` names the version of `jaxlib` in pyproject.toml and the commit of XLA in a file of Bazel's.
const UPSTREAMS: &str = r#"[[component]]
name = "jaxlib"

[[component]]
name = "jax"

[[source]]
of = "jax"
name = "xla"
git = "XLA"

[[file]]
of = "jax"
path = "pyproject.toml"
reader = "toml"
fact = [
    { key = "project.dependencies", states = "requirements", about = "jaxlib" },
    { key = "project.requires-python", states = "python" },
]

[[file]]
of = "jax"
path = "third_party/xla/revision.bzl"
reader = "regex"
fact = [{ pattern = '^XLA_COMMIT = "(?<value>[0-9a-f]{40})"$', states = "commit", about = "xla" }]

[[together]]
of = "jaxlib"
versions = "<0.9"
python = ">=3.10, <3.14"
source = "METADATA of jaxlib 0.8"
"#;

struct Stack {
    workspace: Workspace,
    /// XLA's commits, the older one first.
    xla: [String; 2],
}

impl Stack {
    /// Makes a workspace with these components.
    fn with(components: [&str; 2]) -> Self {
        let workspace = Workspace::init();
        for name in components {
            workspace.write(format!("specs-templates/{name}/component.toml"), "");
            workspace.write(format!("specs-templates/{name}/{name}.spec.tera"), "Name: x\n");
        }
        Self { workspace, xla: Default::default() }
    }

    fn new() -> Self {
        let mut stack = Self::with(["jax", "jaxlib"]);
        stack.xla =
            ["one", "two"].map(|tag| stack.commit("xla", tag, &[("BUILD", &format!("# {tag}\n"))]));
        for version in ["0.8.0", "0.9.0"] {
            stack.commit("jaxlib", &format!("v{version}"), &[("version", version)]);
            stack.jax(version, version, &stack.xla[usize::from(version == "0.9.0")]);
        }
        let source =
            |name: &str| format!("version = \"0.1\"\ngit = \"{}\"\n", stack.repository(name));
        stack.workspace.write(
            "pins/stable.toml",
            format!("[jax]\n{}\n[jaxlib]\n{}", source("jax"), source("jaxlib")),
        );
        stack.workspace.write(
            "upstreams.toml",
            UPSTREAMS.replace("XLA\"\n\n", &format!("{}\"\n\n", stack.repository("xla"))),
        );
        stack
    }

    fn repository(&self, name: &str) -> String {
        self.workspace.holder().join("upstream").join(name).display().to_string()
    }

    /// Commits a release of jax that requires this jaxlib and this XLA.
    fn jax(&self, version: &str, jaxlib: &str, xla: &str) {
        let pyproject = format!(
            "[project]\nname = \"jax\"\nrequires-python = \">=3.11\"\ndependencies = [\n    \"jaxlib=={jaxlib}\",\n    \"numpy>=2\",\n]\n"
        );
        let revision = format!("# To update XLA, change the commit.\nXLA_COMMIT = \"{xla}\"\n");
        let files =
            [("pyproject.toml", pyproject.as_str()), ("third_party/xla/revision.bzl", &revision)];
        self.commit("jax", &format!("v{version}"), &files);
    }

    /// Commits files to a repository and tags the commit, which it returns.
    fn commit(&self, name: &str, tag: &str, files: &[(&str, &str)]) -> String {
        let dir = std::path::PathBuf::from(self.repository(name));
        fs_err::create_dir_all(&dir).unwrap();
        self.workspace.git_in(&dir, &["init", "--quiet", "--initial-branch=main"]);
        for (path, text) in files {
            fs_err::create_dir_all(dir.join(path).parent().unwrap()).unwrap();
            fs_err::write(dir.join(path), text).unwrap();
        }
        self.workspace.git_in(&dir, &["add", "--all"]);
        self.workspace.git_in(&dir, &["commit", "--quiet", "--message", tag]);
        self.workspace.git_in(&dir, &["tag", tag]);
        self.workspace.git_in(&dir, &["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// Derives the set `stable` from jax 0.9.0.
    fn derived() -> Self {
        let stack = Self::new();
        stack
            .workspace
            .run(&["pins", "derive", "--from", "jax=0.9.0", "--output", "stable"])
            .exits(0);
        stack
    }

    /// Checks the set `stable` after a change of its text.
    fn check_with(&self, from: &str, to: &str) -> crate::support::Ran {
        let set = self.workspace.read("pins/stable.toml");
        assert!(set.contains(from), "{from}\n{set}");
        self.workspace.write("pins/stable.toml", set.replace(from, to));
        let ran = self.workspace.run(&["pins", "check"]);
        self.workspace.write("pins/stable.toml", &set);
        ran
    }
}

#[test]
fn derives_a_set_from_declared_files() {
    let stack = Stack::derived();
    let set = stack.workspace.read("pins/stable.toml");
    for part in [
        "[jaxlib]\n# jax 0.9.0, pyproject.toml:5: jaxlib==0.9.0\nversion = \"0.9.0\"\n",
        "# jax 0.9.0, pyproject.toml:3: requires-python = \">=3.11\"\npython = \">=3.11\"\n",
        "[jax.sources.xla]\n# jax 0.9.0, third_party/xla/revision.bzl:2: XLA_COMMIT = \"",
        &format!("commit = \"{}\"\n", stack.xla[1]),
    ] {
        assert!(set.contains(part), "{part}\n{set}");
    }
    stack
        .workspace
        .run(&["pins", "check"])
        .exits(0)
        .reports(["0 errors, 0 warnings; 2 upstream files"]);
    stack
        .workspace
        .run(&["pins", "derive", "--from", "jaxlib=0.9.0"])
        .exits(2)
        .reports(["declares none of its files", "derive from one of jax"]);
}

#[test]
fn checks_a_set_against_declared_files() {
    let stack = Stack::derived();
    stack
        .check_with(
            "pyproject.toml:5: jaxlib==0.9.0\nversion = \"0.9.0\"",
            "x\nversion = \"0.8.0\"",
        )
        .exits(1)
        .reports([
            "the set has jaxlib 0.8.0, but 0.9.0 is required by jax 0.9.0",
            "jax 0.9.0, pyproject.toml:5: `jaxlib==0.9.0`",
            "jaxlib 0.8.0 allows Python >=3.10, <3.14, but the chroot fedora-43 has 3.14",
        ]);
    let [old, new] = &stack.xla;
    stack
        .check_with(&format!("commit = \"{new}\""), &format!("commit = \"{old}\""))
        .exits(1)
        .reports(["jax 0.9.0 needs another commit of xla", "third_party/xla/revision.bzl:2: `"]);
    let older =
        "[[source]]\nof = \"jax\"\nname = \"xla\"\nversions = \"<0.9\"\ngit = \"https://h/xla\"\n";
    stack
        .workspace
        .write("upstreams.toml", format!("{}\n{older}", stack.workspace.read("upstreams.toml")));
    let git = |url: &str| format!("git = \"{url}\"\ncommit = \"{new}\"");
    let xla = stack.repository("xla");
    stack.check_with(&git(&xla), &git("https://h/xla")).exits(0).reports([
        "warning: pins/stable.toml:",
        "jax 0.9.0 takes xla from [HOLDER]/upstream/xla, but the set uses the repository of other versions",
    ]);
    stack
        .check_with(&git(&xla), &git("https://h/mirror"))
        .exits(0)
        .reports(["0 errors, 0 warnings"]);
    stack
        .check_with("[jax.sources.xla]", "[jax.sources.other]")
        .exits(1)
        .reports(["jax 0.9.0 needs xla, but the set has no source for it"]);
}

#[test]
fn reports_files_that_differ_from_their_declaration() {
    let stack = Stack::derived();
    let line = format!("XLA_COMMIT = \"{}\"\n", stack.xla[0]);
    for (version, revision, message) in [
        ("0.9.1", line.repeat(2), "its pattern matches 2 times, expected 1 (upstreams.toml:25)"),
        (
            "0.9.2",
            "XLA = \"main\"\n".into(),
            "its pattern matches 0 times, expected 1 (upstreams.toml:25)",
        ),
    ] {
        stack.commit("jax", &format!("v{version}"), &[("third_party/xla/revision.bzl", &revision)]);
        stack
            .workspace
            .run(&["pins", "derive", "--from", &format!("jax={version}")])
            .exits(1)
            .reports([&format!("jax {version}, third_party/xla/revision.bzl: {message}")]);
    }
    let dir = std::path::PathBuf::from(stack.repository("jax"));
    fs_err::remove_file(dir.join("third_party/xla/revision.bzl")).unwrap();
    stack.commit("jax", "v0.9.3", &[]);
    stack.workspace.run(&["pins", "derive", "--from", "jax=0.9.3"]).exits(1).reports([
        "third_party/xla/revision.bzl: the file does not exist, although other versions have it (upstreams.toml:21)",
    ]);
}

/// `ollama` names the commit of llama.cpp in a Makefile.
#[test]
fn follows_commits_of_components_that_are_versioned_by_commit() {
    let stack = Stack::with(["llama-cpp", "ollama"]);
    let [old, new] = ["one", "two"]
        .map(|tag| stack.commit("llama-cpp", tag, &[("CMakeLists.txt", &format!("# {tag}\n"))]));
    for (version, commit) in [("0.1.0", &old), ("0.2.0", &new)] {
        stack.commit(
            "ollama",
            &format!("v{version}"),
            &[("Makefile.sync", &format!("FETCH_HEAD={commit}\n"))],
        );
    }
    stack.workspace.write(
        "upstreams.toml",
        r#"[[component]]
name = "llama-cpp"

[[component]]
name = "ollama"

[[file]]
of = "ollama"
path = "Makefile.sync"
reader = "regex"
fact = [{ pattern = '^FETCH_HEAD=(?<value>[0-9a-f]{40})$', states = "commit", about = "llama-cpp" }]
"#,
    );
    let base = format!(
        "[llama-cpp]\nversion = \"{}\"\ngit = \"{}\"\ncommit = \"{old}\"\n\n\
         [ollama]\nversion = \"0.1.0\"\ngit = \"{}\"\n",
        &old[..8],
        stack.repository("llama-cpp"),
        stack.repository("ollama")
    );
    stack.workspace.write("pins/stable.toml", &base);
    stack
        .workspace
        .run(&["pins", "derive", "--from", "ollama=0.2.0", "--output", "stable"])
        .exits(0);
    let set = stack.workspace.read("pins/stable.toml");
    let pin = format!("version = \"{}\"\ngit = \"{}\"\n", &new[..8], stack.repository("llama-cpp"));
    let commit = format!("# ollama 0.2.0, Makefile.sync:1: FETCH_HEAD={new}\ncommit = \"{new}\"\n");
    assert!(set.contains(&(pin + &commit)), "{set}");
    stack
        .workspace
        .run(&["pins", "check"])
        .exits(0)
        .reports(["0 errors, 0 warnings; 1 upstream file and"]);
    stack
        .check_with(&format!("commit = \"{new}\""), &format!("commit = \"{old}\""))
        .reports(["ollama 0.2.0 requires another commit of llama-cpp"]);
}

#[test]
fn works_without_upstreams_toml() {
    let stack = Stack::derived();
    fs_err::remove_file(stack.workspace.path("upstreams.toml")).unwrap();
    stack
        .workspace
        .run(&["pins", "check"])
        .exits(0)
        .reports(["0 errors, 0 warnings; 0 upstream files"]);
    stack
        .workspace
        .run(&["pins", "derive", "--from", "jax=0.9.0"])
        .exits(2)
        .reports(["upstreams.toml declares none of its files", "`[[file]]` with `of = \"jax\"`"]);
}

#[test]
fn names_of_distributions_are_normalized() {
    let workspace = Workspace::init();
    for name in ["torch>=2", "torch[rocm]", "Torch", "torch_x", "torch ", ""] {
        let rule = format!("[[not-from-index]]\nname = \"{name}\"\nreason = \"x\"\n");
        workspace.write("upstreams.toml", rule);
        workspace
            .run(&["plan"])
            .exits(3)
            .reports([format!("`{name}` is not a normalized name").as_str()]);
    }
    let rule = "[[not-from-index]]\nname = \"pytorch-triton*\"\nreason = \"x\"\n";
    workspace.write("upstreams.toml", rule);
    workspace.run(&["plan"]).exits(0);
}

#[test]
fn reports_all_mistakes_of_upstreams_toml_at_once() {
    let workspace = Workspace::init();
    workspace.write(
        "upstreams.toml",
        r#"[[component]]
name = "jaxlib"

[[component]]
name = "jax"
git = "https://h/jax"
sdist = "jax"

[[source]]
of = "jax"
name = "xla"
git = "https://h/xla"
version-file = "../v"

[[file]]
of = "jax"
path = "setup.cfg"
reader = "regexp"

[[file]]
of = "jax"
path = "../pyproject.toml"
reader = "regex"
fact = [
    { pattern = 'a(b', states = "version", about = "jaxlib" },
    { pattern = '^V = (\d+)', states = "version", about = "jaxlbi" },
    { pattern = '^V = (?<value>\d+)', matches = 0, states = "versions" },
]

[[file]]
of = "jax"
path = "x.cmake"
reader = "cmake"
fact = [{ set = "V", states = "requirements" }, { key = "v", states = "version" }]

[[file]]
of = "nothing"
reader = "requirements"

[[together]]
of = "jax"
versions = "0.9"
with = { jaxlib = "of today" }
source = "x"
"#,
    );
    let ran = workspace.run(&["plan"]);
    ran.exits(3);
    let shown: String = ran
        .stderr
        .lines()
        .filter(|line| ["error: ", " --> ", "help: "].iter().any(|part| line.contains(part)))
        .map(|line| format!("{}\n", line.trim_start()))
        .collect();
    assert_data_eq!(
        shown,
        str![[r#"
error: a component has either `git` or `sdist`
--> upstreams.toml:7:9
error: the path leads out of the source
--> upstreams.toml:13:16
error: unknown reader `regexp`
--> upstreams.toml:18:10
= help: did you mean `regex`?
error: the path leads out of the source
--> upstreams.toml:22:8
error: this is not a regular expression
--> upstreams.toml:25:17
= help: use the syntax of Rust's crate `regex`, and single quotes around it
error: the pattern has no group for the value
--> upstreams.toml:26:17
error: unknown component `jaxlbi`
--> upstreams.toml:26:59
= help: did you mean `jaxlib`?
error: `matches` must be 1 or more
--> upstreams.toml:27:5
error: a file cannot state `versions`
--> upstreams.toml:27:61
= help: did you mean `version`?
error: only a TOML file can state this
--> upstreams.toml:34:31
error: `set` is missing in `[file.fact]`
--> upstreams.toml:34:49
error: unknown key `key`
--> upstreams.toml:34:51
error: a file has either `path` or `paths`
--> upstreams.toml:36:1
error: unknown component `nothing`
--> upstreams.toml:37:6
= help: add `[[component]]` with `name = "nothing"`
error: this is not a version range
--> upstreams.toml:42:12
error: this is not a version
--> upstreams.toml:43:19
error: 16 mistakes in the workspace's files

"#]]
    );
}
