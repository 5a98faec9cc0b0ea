//! Helpers that the integration tests share: temporary workspaces, in which they run rocmrpm and
//! other programs. They change nothing outside of the temporary folder.

#![allow(dead_code, reason = "each test binary uses a different part")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests may panic and print")]

use std::borrow::BorrowMut;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use rocmrpm::digest::Sha256;

pub mod archive;
pub mod device;
pub mod documents;
mod index;
mod ran;
#[path = "../../crates/rocmrpm-core/src/sources/testserver.rs"]
pub mod server;
pub mod transcript;

#[allow(unused_imports, reason = "each test binary uses a different part")]
pub use index::{Index, project, sdist};
#[allow(unused_imports, reason = "each test binary uses a different part")]
pub use ran::{Ran, Running, processes_with, ran, wait_until};
#[allow(unused_imports, reason = "each test binary uses a different part")]
pub use transcript::Transcript;

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

/// The host builder's definitions for machines whose rpm lacks Fedora's macros.
pub const FALLBACK_MACROS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/crates/rocmrpm-core/src/fallback.macros");

/// The first commit's date, in seconds since 1970: 2026-01-05 12:00 UTC.
const FIRST_COMMIT: i64 = 1_767_614_400;

/// Returns the files and folders of this repository that are the source of its own package.
pub fn own_sources() -> Vec<String> {
    let pins = std::fs::read_to_string(Path::new(REPOSITORY).join("pins/stable.toml")).unwrap();
    let pins: toml::Table = pins.parse().unwrap();
    let paths = pins["rocmrpm"]["paths"].as_array().unwrap();
    paths.iter().map(|path| path.as_str().unwrap().to_owned()).collect()
}

/// A workspace in a temporary folder, next to a cache, a home folder, and a state folder. Removed
/// when dropped.
pub struct Workspace {
    holder: tempfile::TempDir,
    environment: Environment,
    commits: AtomicI64,
}

/// The parts of this machine that programs see.
enum Environment {
    /// Only PATH: no index, no git configuration, no home folder. `[HOLDER]` replaces the temporary
    /// folder in output.
    Isolated,
    /// Everything, because builds need the machine's tools and its pip index. The cache is in this
    /// folder, or in the temporary one.
    Machine { cache: Option<PathBuf> },
}

impl Workspace {
    fn in_environment(environment: Environment, holder: tempfile::TempDir) -> Self {
        let workspace = Self { holder, environment, commits: AtomicI64::new(0) };
        for name in ["workspace", "home", "cache"] {
            std::fs::create_dir_all(workspace.holder().join(name)).unwrap();
        }
        workspace
    }

    fn isolated() -> Self {
        Self::in_environment(Environment::Isolated, temporary())
    }

    fn on_machine() -> Self {
        Self::in_environment(Environment::Machine { cache: None }, temporary())
    }

    /// Creates an empty folder, isolated.
    pub fn empty() -> Self {
        Self::isolated()
    }

    /// Creates a workspace with `rocmrpm init`, isolated.
    pub fn init() -> Self {
        let workspace = Self::isolated();
        // The same on machines with mock and without.
        workspace.run(&["init", "--name", "test", "--chroot", "fedora-43"]).exits(0);
        workspace
    }

    /// Creates a workspace from these files, isolated.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let workspace = Self::isolated();
        for (path, text) in files {
            workspace.write(path, text);
        }
        workspace
    }

    /// Copies a committed workspace, such as `examples/quickstart`, or this repository's own if the
    /// path is empty; isolated. Does not copy its builds or its git history.
    pub fn copy_of(workspace: &str) -> Self {
        let copied = Self::isolated();
        copied.copy_from(&Path::new(REPOSITORY).join(workspace));
        copied
    }

    fn copy_from(&self, from: &Path) {
        let workspace = [
            "rocmrpm.toml",
            "upstreams.toml",
            "pins",
            "specs-templates",
            "mock-configs",
            "copr",
            "smoke",
            "src",
        ];
        let own = from == Path::new(REPOSITORY);
        for name in workspace {
            // The `src` of the repository is this program.
            if from.join(name).exists() && !(own && name == "src") {
                copy(&from.join(name), &self.path(name));
            }
        }
        for name in own_sources().iter().filter(|_| own) {
            copy_unless(&from.join(name), &self.path(name), |entry| {
                entry.depth() == 1 && entry.file_name() == "build"
            });
        }
    }

    /// Creates a workspace for the host without components.
    pub fn new() -> Self {
        let workspace = Self::on_machine();
        let rocm = "rocm-provider = \"host\"\n";
        workspace.write(
            "rocmrpm.toml",
            "[stack]\nname = \"test\"\ngpu-targets = [\"gfx1151\"]\n\
             default-chroot = \"host\"\ndefault-pins = \"stable\"\n",
        );
        workspace.write("mock-configs/host.toml", rocm);
        let provider = "mock-configs/rocm/host.toml";
        workspace.write(provider, std::fs::read(quickstart_source().join(provider)).unwrap());
        workspace.write("pins/stable.toml", "");
        std::fs::create_dir_all(workspace.path("specs-templates")).unwrap();
        workspace
    }

    /// Copies `examples/quickstart` with only these components.
    pub fn quickstart(components: &[&str]) -> Self {
        let workspace = Self::on_machine();
        copy(&quickstart_source(), &workspace.root());
        let pins = workspace.read("pins/stable.toml");
        let mut kept = String::new();
        for table in pins.split("\n[") {
            let name = table.split(']').next().unwrap_or_default();
            if components.contains(&name) {
                kept += &format!("\n[{table}");
            } else if workspace.path("specs-templates").join(name).join("component.toml").exists() {
                std::fs::remove_dir_all(workspace.path("specs-templates").join(name)).unwrap();
            }
        }
        workspace.write("pins/stable.toml", kept);
        workspace
    }

    /// Copies this repository's own workspace.
    pub fn stack() -> Self {
        let workspace = Self::on_machine();
        workspace.copy_from(Path::new(REPOSITORY));
        workspace
    }

    /// Copies the laboratory's small workspace, and the shared files of every workspace from the
    /// quickstart. The copy is below the target folder and stays until the next run, because a value
    /// that lives as long as a test program is not dropped.
    pub fn small(name: &str) -> Self {
        let store = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let old = store.join(name);
        if old.exists() {
            std::fs::remove_dir_all(&old)
                .unwrap_or_else(|error| panic!("{}: {error}", old.display()));
        }
        let holder = tempfile::Builder::new().prefix(name).rand_bytes(0).tempdir_in(store).unwrap();
        let workspace = Self::in_environment(Environment::Machine { cache: None }, holder);
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/laboratory/workspace");
        copy(&own, &workspace.root());
        for shared in ["mock-configs/mock.cfg.tera", "mock-configs/rocm", "specs-templates/_shared"]
        {
            copy(&quickstart_source().join(shared), &workspace.root().join(shared));
        }
        workspace
    }

    /// Uses a cache that these workspaces share across runs, so that large files are downloaded only
    /// once.
    pub fn with_shared_cache(self) -> Self {
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rocmrpm-cache");
        Self { environment: Environment::Machine { cache: Some(cache) }, ..self }
    }

    /// Returns the workspace's folder.
    pub fn root(&self) -> PathBuf {
        self.holder().join("workspace")
    }

    /// Returns the temporary folder, which contains the workspace, the home folder, and the cache.
    pub fn holder(&self) -> &Path {
        self.holder.path()
    }

    /// Returns the home folder of an isolated workspace's user.
    pub fn home(&self) -> PathBuf {
        self.holder().join("home")
    }

    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root().join(path)
    }

    /// Returns a path in the build folder of the chroot `host`.
    pub fn built(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root().join("build/host").join(path)
    }

    pub fn cache(&self) -> PathBuf {
        match &self.environment {
            Environment::Machine { cache: Some(cache) } => cache.clone(),
            _ => self.holder().join("cache"),
        }
    }

    #[track_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let path = self.path(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Replaces a text in a file, which must contain it.
    #[track_caller]
    pub fn replace(&self, path: &str, from: &str, to: &str) {
        let text = self.read(path);
        assert!(text.contains(from), "{path} has no {from:?}:\n{text}");
        self.write(path, text.replace(from, to));
    }

    /// Adds a component with a template made of these parts. Its source is a folder with one file.
    pub fn component(&self, name: &str, parts: &Parts<'_>) {
        self.write(format!("src/{name}/hello"), "hello\n");
        self.pin(name, &format!("path = \"src/{name}\""));
        self.write(format!("specs-templates/{name}/component.toml"), parts.toml);
        self.write(template(name), parts.spec(name));
    }

    /// Pins a component's version 1.0 to a source.
    pub fn pin(&self, name: &str, source: &str) {
        let pins = self.read("pins/stable.toml");
        let mut others: Vec<&str> = pins.split_inclusive("\n\n").collect();
        others.retain(|table| !table.starts_with(&format!("[{name}]")));
        self.write(
            "pins/stable.toml",
            others.concat() + &format!("[{name}]\nversion = \"1.0\"\n{source}\n\n"),
        );
    }

    /// Returns the command that runs rocmrpm in this workspace.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocmrpm"));
        command.args(args);
        self.settle(&mut command);
        command
    }

    /// Runs a command in the workspace, with its environment and without a terminal.
    pub fn settle(&self, command: &mut Command) {
        if matches!(self.environment, Environment::Isolated) {
            command.env_clear().envs([
                ("PATH", std::env::var_os("PATH").unwrap()),
                ("HOME", self.home().into()),
                ("LC_ALL", "C.UTF-8".into()),
                ("PIP_CONFIG_FILE", "/dev/null".into()),
                ("PIP_INDEX_URL", "file:///nonexistent/simple".into()),
                ("GIT_CONFIG_NOSYSTEM", "1".into()),
                ("GIT_CONFIG_GLOBAL", "/dev/null".into()),
            ]);
        }
        command
            .current_dir(self.root())
            .env("ROCMRPM_CACHE", self.cache())
            // By then, some workspaces belong to the laboratory's user.
            .env("ROCMRPM_TRUST", self.root())
            .env("XDG_STATE_HOME", self.holder().join("state"))
            .env_remove("SOURCE_DATE_EPOCH")
            // anstream colors the output of every terminal where it is set, even of dumb ones.
            .env_remove("CI")
            .stdin(Stdio::null());
    }

    /// Runs rocmrpm in the workspace.
    pub fn run(&self, args: &[&str]) -> Ran {
        self.outcome(self.command(args))
    }

    /// Runs rocmrpm in the workspace with this package index.
    pub fn run_with_index(&self, index: &Index, args: &[&str]) -> Ran {
        self.outcome(self.command(args).env("PIP_INDEX_URL", index.url()))
    }

    /// Runs a command. In the output of an isolated workspace, `[HOLDER]` replaces the temporary folder.
    pub fn outcome(&self, mut command: impl BorrowMut<Command>) -> Ran {
        let ran = ran(command.borrow_mut());
        match self.environment {
            Environment::Isolated => {
                let holder = self.holder().to_str().unwrap();
                let stdout = ran.stdout.replace(holder, "[HOLDER]");
                Ran { stdout, stderr: ran.stderr.replace(holder, "[HOLDER]"), ..ran }
            }
            Environment::Machine { .. } => ran,
        }
    }

    /// Runs a command line from a help text in the workspace.
    pub fn shell(&self, line: &str) -> Ran {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        self.settle(&mut command);
        ran(&mut command)
    }

    /// Runs `rocmrpm build`.
    pub fn build(&self) -> Ran {
        self.run(&["build"])
    }

    /// Returns `rocmrpm build` with ninja hidden: builds search the distribution's folders for
    /// programs, regardless of `PATH`.
    pub fn build_without_ninja(&self) -> Command {
        let script = format!(
            "set -e\n[ ! -e /usr/bin/ninja ] || mount --bind /dev/null /usr/bin/ninja\n'{}' build",
            env!("CARGO_BIN_EXE_rocmrpm")
        );
        let mut command = Command::new("unshare");
        // Ordinary users need the mapping; root does not.
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--mount", "sh", "-c", &script]);
        self.settle(&mut command);
        command
    }

    /// Starts `rocmrpm` with these arguments without waiting for it.
    pub fn start(&self, args: &[&str]) -> Running {
        self.start_with(args, |_| ())
    }

    /// Starts `rocmrpm` with these arguments and further settings without waiting for it.
    pub fn start_with(&self, args: &[&str], settle: impl FnOnce(&mut Command)) -> Running {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        settle(&mut command);
        Running { child: Some(command.spawn().unwrap()) }
    }

    /// Fails if the results or the repository contain files of a component, or leftovers of an
    /// unfinished replacement.
    #[track_caller]
    pub fn assert_nothing_of(&self, component: &str) {
        let mut stray = Vec::new();
        for place in ["results", "srpms", "repository", "wheels", "index/packages"] {
            for entry in walkdir::WalkDir::new(self.built(place)).into_iter().flatten() {
                let relative = entry.path().strip_prefix(self.built("")).unwrap();
                let text = relative.to_string_lossy().into_owned();
                let last = entry.file_name().to_string_lossy().into_owned();
                if text.contains(component)
                    || last.starts_with(".old-")
                    || last.starts_with(".rocmrpm-0")
                {
                    stray.push(text);
                }
            }
        }
        assert!(stray.is_empty(), "{stray:?}");
    }

    /// Fails unless a component's results are complete: every file has the digest in the record, and
    /// there are no other files.
    #[track_caller]
    pub fn assert_whole(&self, component: &str) -> serde_json::Value {
        let dir = self.built("results").join(component);
        let record = documents::read(&dir.join("build.json"), "rocmrpm/build/2");
        documents::read(&dir.join("inspection.json"), "rocmrpm/inspection/4");
        documents::read(&dir.join("judgement.json"), "rocmrpm/judgement/1");
        documents::read(&dir.join("times.json"), "rocmrpm/times/1");
        let mut expected =
            ["build.json", "inspection.json", "judgement.json", "logs", "times.json"]
                .map(str::to_owned)
                .to_vec();
        for output in record["outputs"].as_array().unwrap() {
            let file = output["file"].as_str().unwrap();
            let (digest, size) = Sha256::of_file(&dir.join(file)).unwrap();
            assert_eq!(
                (digest.to_string(), size),
                (text_of(&output["sha256"]), output["size"].as_u64().unwrap())
            );
            expected.push(file.to_owned());
        }
        expected.sort();
        assert_eq!(names_in(&dir), expected);
        assert_eq!(record["component"], component);
        record
    }

    /// Returns every file of the workspace with its content, by path, without `.git`.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let entries = walkdir::WalkDir::new(self.root())
            .into_iter()
            .filter_entry(|e| e.file_name() != ".git");
        for entry in entries.map(Result::unwrap).filter(|entry| entry.file_type().is_file()) {
            let name =
                entry.path().strip_prefix(self.root()).unwrap().to_string_lossy().into_owned();
            files.insert(name, std::fs::read(entry.path()).unwrap());
        }
        files
    }

    /// Returns every file outside of `build/`, which only a few commands may change.
    pub fn sources(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = self.files();
        files.retain(|name, _| !name.starts_with("build/"));
        files
    }

    /// Runs git in a folder, with authors and dates as seconds after 1970.
    #[track_caller]
    fn git_at(&self, dir: &Path, seconds: i64, args: &[&str]) -> String {
        let mut command = Command::new("git");
        self.settle(&mut command);
        command.args(args).current_dir(dir);
        for (role, email) in [("AUTHOR", "ada@example.org"), ("COMMITTER", "ci@example.org")] {
            command
                .env(format!("GIT_{role}_NAME"), "Ada Lovelace")
                .env(format!("GIT_{role}_EMAIL"), email)
                .env(format!("GIT_{role}_DATE"), format!("@{seconds} +0000"));
        }
        ran(&mut command).exits(0).stdout.clone()
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
        let day = self.commits.fetch_add(1, Ordering::Relaxed);
        self.commit_on(day, subject);
    }

    /// Commits everything in the workspace this many days after the first commit.
    #[track_caller]
    pub fn commit_on(&self, day: i64, subject: &str) {
        if !self.path(".git").exists() {
            self.git(&["init", "--quiet", "--initial-branch=main"]);
        }
        self.git(&["add", "--all"]);
        self.git_at(
            &self.root(),
            FIRST_COMMIT + day * 86_400,
            &["commit", "--quiet", "--message", subject],
        );
    }
}

/// Creates a folder whose path contains no links, so that messages show the same path.
fn temporary() -> tempfile::TempDir {
    let above = std::env::temp_dir().canonicalize().unwrap();
    tempfile::Builder::new().prefix("rocmrpm-test-").tempdir_in(above).unwrap()
}

/// Sections of a small template; empty sections have defaults.
#[derive(Default, Clone, Copy)]
pub struct Parts<'a> {
    /// `component.toml`.
    pub toml: &'a str,
    /// Additional lines of the preamble.
    pub preamble: &'a str,
    pub prep: &'a str,
    pub build: &'a str,
    pub install: &'a str,
    pub check: &'a str,
    pub clean: &'a str,
    pub files: &'a str,
}

impl Parts<'_> {
    /// Returns the template of a component.
    pub fn spec(&self, name: &str) -> String {
        let or = |part: &str, usual: &str| {
            if part.is_empty() { usual.to_owned() } else { part.to_owned() }
        };
        let prep = or(self.prep, "%autosetup -p1 -n <{ source_dir }>");
        let install = or(
            self.install,
            &format!("install -Dpm 644 hello %{{buildroot}}%{{_datadir}}/{name}/hello"),
        );
        let files = or(self.files, &format!("%{{_datadir}}/{name}"));
        let clean = if self.clean.is_empty() {
            String::new()
        } else {
            format!("%clean\n{}\n\n", self.clean)
        };
        let arch = if self.preamble.contains("# arch") { "" } else { "BuildArch:      noarch\n" };
        format!(
            "%global debug_package %{{nil}}\n\
             Name:           {name}\nVersion:        <{{ version }}>\nRelease:        <{{ release }}>\n\
             Summary:        A component of a test\nLicense:        MIT\nURL:            https://example.com/\n\
             Source0:        <{{ source_url }}>\n\
             <@ for patch in patches @>Patch:          <{{ patch }}>\n<@ endfor @>{arch}{}\n\
             %description\nA component of a test.\n\n%prep\n{prep}\n\n%build\n{}\n\n%install\n{install}\n\n\
             %check\n{}\n\n{clean}%files\n{files}\n\n%changelog\n<{{ changelog }}>\n",
            self.preamble, self.build, self.check,
        )
    }
}

/// Returns the path of a component's template.
pub fn template(name: &str) -> String {
    format!("specs-templates/{name}/{name}.spec.tera")
}

fn quickstart_source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart")
}

pub fn copy(from: &Path, to: &Path) {
    copy_unless(from, to, |entry| {
        entry.file_name() == "build" || entry.file_name() == "__pycache__"
    });
}

fn copy_unless(from: &Path, to: &Path, unwanted: impl Fn(&walkdir::DirEntry) -> bool) {
    for entry in
        walkdir::WalkDir::new(from).into_iter().filter_entry(|e| !unwanted(e)).map(Result::unwrap)
    {
        let below = entry.path().strip_prefix(from).unwrap();
        let target = if below.as_os_str().is_empty() { to.to_owned() } else { to.join(below) };
        if entry.file_type().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// Returns the names of a folder's entries, sorted.
pub fn names_in(dir: &Path) -> Vec<String> {
    let entries =
        std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut names: Vec<String> =
        entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub fn text_of(value: &serde_json::Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the output of `rpmspec` for a spec with the host builder's macros.
#[track_caller]
pub fn rpmspec(spec: &Path, args: &[&str]) -> String {
    static MACROS: OnceLock<String> = OnceLock::new();
    let macros = MACROS.get_or_init(|| {
        let showrc = ran(Command::new("rpm").arg("--showrc"));
        showrc.exits(0);
        let path = showrc.stdout.lines().find_map(|line| line.strip_prefix("Macro path:")).map_or(
            "/usr/lib/rpm/macros:/usr/lib/rpm/macros.d/macros.*:/usr/lib/rpm/platform/%{_target}/macros",
            str::trim,
        );
        format!("{FALLBACK_MACROS}:{path}")
    });
    let mut command = Command::new("rpmspec");
    command.arg("--macros").arg(macros).args(["--define", "dist .fc43"]);
    let ran = ran(command.args(args).arg(spec).env("LC_ALL", "C.UTF-8"));
    ran.exits(0);
    // rpmspec reports some errors, such as a bad changelog, without failing.
    assert_eq!(ran.stderr, "", "rpmspec {}", spec.display());
    ran.stdout
}

/// Compares a text with the file of this name in `tests/golden/`; writes that file if
/// `UPDATE_GOLDEN` is set.
#[track_caller]
pub fn golden(name: &str, actual: &str) {
    let path = Path::new(REPOSITORY).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, actual).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!("{error}\nhelp: run `UPDATE_GOLDEN=1 cargo test` to write it")
    });
    similar_asserts::assert_eq!(
        wanted,
        actual,
        "{name}: run `UPDATE_GOLDEN=1 cargo test` to accept the change"
    );
}
