//! What the black-box tests share: a temporary workspace, and the program run in it
//! with an environment that holds nothing of the developer's own.

#![allow(dead_code, reason = "every test file uses another part of this")]
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail as the test may")]

use std::cell::Cell;
use std::path::{Path, PathBuf};

use crate::archive::tar_gz;
use rocmrpm::process::Command;

/// The folder of this repository.
pub const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

/// A spec template without scripts.
pub const SPEC: &str = "Name: <{ name }>
Version: <{ version }>
Release: <{ release }>
Summary: A test
License: MIT
Source0: <{ source_url }>
BuildArch: noarch

%description
A test.

%files

%changelog
<{ changelog }>
";

/// Definitions that the host builder brings for machines whose rpm lacks Fedora's.
const FALLBACK_MACROS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/rocmrpm-core/src/fallback.macros");

/// The first commit's date, in seconds since 1970: 2026-01-05 12:00 UTC.
const FIRST_COMMIT: i64 = 1_767_614_400;

/// A folder of its own for a test: `workspace`, and beside it the cache and the home
/// folder that the program is given. Removed when dropped.
pub struct Lab {
    dir: tempfile::TempDir,
    commits: Cell<i64>,
}

/// How the program ended and what it wrote; the test's own folder reads `[LAB]`.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Checks the exit code, and shows everything if it is another.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        let Self { stdout, stderr, .. } = &self;
        assert_eq!(self.code, code, "exit code\n--- stdout\n{stdout}--- stderr\n{stderr}");
        self
    }

    /// Checks that stderr has each of these somewhere.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "stderr lacks `{part}`:\n{}", self.stderr);
        }
        self
    }

    /// Checks that stdout has each of these somewhere.
    #[track_caller]
    pub fn prints(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stdout.contains(part), "stdout lacks `{part}`:\n{}", self.stdout);
        }
        self
    }

    /// Reads stdout as one JSON document of this schema.
    #[track_caller]
    pub fn json(&self, schema: &str) -> serde_json::Value {
        let value: serde_json::Value = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not JSON: {error}\n{}", self.stdout));
        assert_eq!(value["schema"], schema);
        value
    }
}

impl Lab {
    /// Returns a lab whose workspace is an empty folder.
    pub fn empty() -> Self {
        let dir = tempfile::Builder::new().prefix("rocmrpm-test-").tempdir().unwrap();
        for name in ["workspace", "home", "cache"] {
            fs_err::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir, commits: Cell::new(0) }
    }

    /// Returns a lab with a workspace as `init` makes it.
    pub fn init() -> Self {
        let lab = Self::empty();
        lab.run(&["init", "--name", "lab"]).exits(0);
        lab
    }

    /// Returns a lab with these files in its workspace.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let lab = Self::empty();
        for (path, text) in files {
            lab.write(path, text);
        }
        lab
    }

    /// Returns a lab with a copy of a committed workspace: `` or `examples/quickstart`.
    /// What was built in it stays behind, and so does its git history.
    pub fn copy_of(workspace: &str) -> Self {
        let lab = Self::empty();
        let from = Path::new(REPOSITORY).join(workspace);
        for name in ["rocmrpm.toml", "pins", "specs-templates", "mock-configs", "copr", "src"] {
            // The repository's own `src` is this program.
            if from.join(name).exists() && !(name == "src" && workspace.is_empty()) {
                copy(&from.join(name), &lab.path(name));
            }
        }
        lab
    }

    /// Returns the workspace's folder.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("workspace")
    }

    /// Returns the folder that holds the workspace, the cache and the home folder.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns a path in the workspace.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Writes a file of the workspace.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }

    /// Reads a file of the workspace.
    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        fs_err::read_to_string(self.path(name)).unwrap()
    }

    /// Replaces text in a file of the workspace, which must have it.
    #[track_caller]
    pub fn replace(&self, name: &str, old: &str, new: &str) {
        let text = self.read(name);
        assert!(text.contains(old), "{name} has no `{old}`:\n{text}");
        self.write(name, &text.replace(old, new));
    }

    /// Returns every file of the workspace with its content, without `.git`.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut files: Vec<_> = walkdir::WalkDir::new(self.root())
            .into_iter()
            .map(Result::unwrap)
            .filter(|entry| entry.file_type().is_file())
            .map(|entry| {
                let name = entry.path().strip_prefix(self.root()).unwrap().to_string_lossy().into_owned();
                (name, fs_err::read(entry.path()).unwrap())
            })
            .filter(|(name, _)| !name.starts_with(".git/"))
            .collect();
        files.sort();
        files
    }

    /// Returns the program, to be run in the workspace.
    pub fn command(&self, args: &[&str]) -> snapbox::cmd::Command {
        snapbox::cmd::Command::new(env!("CARGO_BIN_EXE_rocmrpm"))
            .args(args)
            .env_clear()
            .envs(self.environment())
            .current_dir(self.root())
            .timeout(std::time::Duration::from_secs(300))
    }

    /// Runs the program in the workspace.
    pub fn run(&self, args: &[&str]) -> Ran {
        self.outcome(self.command(args))
    }

    /// Runs the program in the workspace with the package index in this folder.
    pub fn run_with_index(&self, index: &Index, args: &[&str]) -> Ran {
        self.outcome(self.command(args).env("PIP_INDEX_URL", index.url()))
    }

    /// Runs a command and collects what came of it. A JSON document on stdout is checked against its
    /// schema.
    pub fn outcome(&self, command: snapbox::cmd::Command) -> Ran {
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| {
            String::from_utf8(bytes.to_vec()).unwrap().replace(self.dir.path().to_str().unwrap(), "[LAB]")
        };
        let ran = Ran {
            code: output.status.code().unwrap_or_else(|| panic!("ended by {}", output.status)),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        };
        crate::support::documents::check_text(&ran.stdout);
        ran
    }

    /// Returns all environment variables that programs of a test see.
    fn environment(&self) -> Vec<(&'static str, String)> {
        let folder = |name: &str| self.dir.path().join(name).to_string_lossy().into_owned();
        let path = std::env::var("PATH").unwrap();
        vec![
            ("PATH", path),
            ("HOME", folder("home")),
            ("ROCMRPM_CACHE", folder("cache")),
            ("ROCMRPM_TRUST", folder("workspace")),
            ("LC_ALL", "C.UTF-8".into()),
            // No index but the one that a test names.
            ("PIP_CONFIG_FILE", "/dev/null".into()),
            ("PIP_INDEX_URL", "file:///nonexistent/simple".into()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("GIT_CONFIG_GLOBAL", "/dev/null".into()),
        ]
    }

    /// Runs git in a folder of the lab, dated `seconds` after 1970.
    #[track_caller]
    fn git_at(&self, dir: &Path, seconds: i64, args: &[&str]) -> String {
        let date = format!("@{seconds} +0000");
        let mut command = Command::new("git").args(args).cwd(dir);
        for (name, value) in self.environment() {
            command = command.env(name, value);
        }
        for (role, email) in [("AUTHOR", "ada@example.org"), ("COMMITTER", "ci@example.org")] {
            command = command
                .env(format!("GIT_{role}_NAME"), "Ada Lovelace")
                .env(format!("GIT_{role}_EMAIL"), email)
                .env(format!("GIT_{role}_DATE"), &date);
        }
        command.text().unwrap_or_else(|error| panic!("git {args:?}: {error} (package: git)"))
    }

    /// Runs git in the workspace.
    #[track_caller]
    pub fn git(&self, args: &[&str]) -> String {
        self.git_at(&self.root(), FIRST_COMMIT, args)
    }

    /// Runs git in another folder.
    #[track_caller]
    pub fn git_in(&self, dir: &Path, args: &[&str]) -> String {
        self.git_at(dir, FIRST_COMMIT, args)
    }

    /// Commits everything in the workspace, a day after the commit before.
    #[track_caller]
    pub fn commit(&self, subject: &str) {
        let day = self.commits.replace(self.commits.get() + 1);
        self.commit_on(day, subject);
    }

    /// Commits everything in the workspace so many days after the first commit's day.
    #[track_caller]
    pub fn commit_on(&self, day: i64, subject: &str) {
        if !self.path(".git").exists() {
            self.git(&["init", "--quiet", "--initial-branch=main"]);
        }
        self.git(&["add", "--all"]);
        self.git_at(&self.root(), FIRST_COMMIT + day * 86_400, &["commit", "--quiet", "--message", subject]);
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from) {
        let entry = entry.unwrap();
        let below = entry.path().strip_prefix(from).unwrap();
        let target = if below.as_os_str().is_empty() { to.to_owned() } else { to.join(below) };
        if entry.file_type().is_dir() {
            fs_err::create_dir_all(&target).unwrap();
        } else {
            fs_err::copy(entry.path(), &target).unwrap();
        }
    }
}

/// A package index in a folder: pages of the Simple API as a server would send them.
pub struct Index(tempfile::TempDir);

impl Index {
    /// Returns an index without projects.
    pub fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Returns an index with one sdist of the project [`hello`].
    pub fn with_hello(version: &str) -> Self {
        let index = Self::empty();
        index.add("hello", version, &sdist("hello", version));
        index
    }

    /// Adds a project with one sdist, with its digest in the page.
    pub fn add(&self, project: &str, version: &str, bytes: &[u8]) {
        let dir = self.0.path().join("simple").join(project);
        fs_err::create_dir_all(&dir).unwrap();
        let file = format!("{project}-{version}.tar.gz");
        fs_err::write(dir.join(&file), bytes).unwrap();
        let digest = rocmrpm::digest::Sha256::of_bytes(bytes);
        let page = dir.join("index.html");
        let old = std::fs::read_to_string(&page).unwrap_or_else(|_| "<!DOCTYPE html>\n".into());
        fs_err::write(&page, format!("{old}<a href=\"{file}#sha256={digest}\">{file}</a>\n")).unwrap();
    }

    /// Returns the index's URL.
    pub fn url(&self) -> String {
        format!("file://{}/simple", self.0.path().display())
    }
}

/// The files of a small project in pure Python, by path.
pub fn project(name: &str, version: &str) -> Vec<(String, String)> {
    let pyproject = format!(
        "[build-system]\nrequires = [\"setuptools\"]\nbuild-backend = \"setuptools.build_meta\"\n\n\
         [project]\nname = \"{name}\"\nversion = \"{version}\"\ndescription = \"Says hello\"\n\n\
         [tool.setuptools]\npackages = [\"{name}\"]\n"
    );
    vec![
        ("LICENSE".into(), "MIT\n".into()),
        ("pyproject.toml".into(), pyproject),
        (format!("{name}/__init__.py"), "def greet():\n    return \"hello\"\n".into()),
    ]
}

/// Returns the project's sdist: `.tar.gz` with a PKG-INFO, the same bytes every time.
pub fn sdist(name: &str, version: &str) -> Vec<u8> {
    let info = format!(
        "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: Says 100% hello.\n\
         License: MIT\nHome-page: https://example.org/{name}\n\nLonger text.\n"
    );
    let mut files = project(name, version);
    files.push(("PKG-INFO".into(), info));
    tar_gz(&format!("{name}-{version}"), &files)
}

/// What `rpmspec` makes of a spec, with the macros that the host builder brings.
#[track_caller]
pub fn rpmspec(spec: &Path, args: &[&str]) -> String {
    let showrc = Command::new("rpm").arg("--showrc").text();
    let showrc = showrc.unwrap_or_else(|error| panic!("rpm --showrc: {error} (Debian package: rpm)"));
    let path = showrc.lines().find_map(|line| line.strip_prefix("Macro path:")).map_or(
        "/usr/lib/rpm/macros:/usr/lib/rpm/macros.d/macros.*:/usr/lib/rpm/platform/%{_target}/macros",
        str::trim,
    );
    let command = Command::new("rpmspec")
        .arg("--macros")
        .arg(format!("{FALLBACK_MACROS}:{path}"))
        .args(["--define", "dist .fc43"])
        .args(args)
        .arg(spec)
        .runs_code_of_tests()
        .env("LC_ALL", "C.UTF-8");
    let done = command.run().unwrap_or_else(|error| panic!("rpmspec: {error} (Debian package: rpm)"));
    // rpmspec tells some mistakes, such as a bad changelog, without failing.
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.success() && said.is_empty(), "rpmspec {}: {}\n{said}", spec.display(), done.how());
    String::from_utf8(done.stdout).unwrap()
}

/// Compares a text with the file of this name in `tests/golden/`; writes that file
/// where `UPDATE_GOLDEN` is set.
#[track_caller]
pub fn golden(name: &str, actual: &str) {
    let path = Path::new(REPOSITORY).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, actual).unwrap();
    }
    let wanted = fs_err::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{error}\nUPDATE_GOLDEN=1 cargo test writes it"));
    similar_asserts::assert_eq!(wanted, actual, "{name}: UPDATE_GOLDEN=1 cargo test accepts the change");
}
