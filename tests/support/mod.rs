//! What the end-to-end tests share: workspaces in temporary folders, and running
//! rocmrpm in them as a user would. Nothing outside the temporary folder is touched.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test's helpers may fail as the test may")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rocmrpm::digest::Sha256;

pub mod documents;
#[path = "../../crates/rocmrpm-core/src/sources/testserver.rs"]
pub mod server;

/// A workspace in a temporary folder, with a cache of its own.
pub struct Workspace {
    holder: tempfile::TempDir,
    cache: Option<PathBuf>,
}

/// What a command came to.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Fails unless the exit code is this one.
    #[track_caller]
    pub fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Fails unless stderr holds every one of these.
    #[track_caller]
    pub fn says<S: AsRef<str>>(&self, parts: impl IntoIterator<Item = S>) -> &Self {
        for part in parts {
            let part = part.as_ref();
            assert!(self.stderr.contains(part), "stderr does not say: {part}\n{self}");
        }
        self
    }

    /// Fails if stderr holds this.
    #[track_caller]
    pub fn never_says(&self, part: &str) -> &Self {
        assert!(!self.stderr.contains(part), "stderr says: {part}\n{self}");
        self
    }

    /// Takes the text after `help: <what>: ` out of stderr.
    #[track_caller]
    pub fn help(&self, what: &str) -> String {
        let start = format!("help: {what}: ");
        let line = self.stderr.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("no help {what}\n{self}")).to_owned()
    }

    /// Reads stdout as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit code {:?}\nstdout:\n{}\nstderr:\n{}", self.code, self.stdout, self.stderr)
    }
}

impl Workspace {
    /// Makes a workspace for the host without components.
    pub fn new() -> Self {
        let holder = tempfile::Builder::new().prefix("rocmrpm-test-").tempdir().unwrap();
        let workspace = Self { holder, cache: None };
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

    /// Makes a copy of `examples/quickstart` with these components alone.
    pub fn quickstart(components: &[&str]) -> Self {
        let holder = tempfile::Builder::new().prefix("rocmrpm-test-").tempdir().unwrap();
        let workspace = Self { holder, cache: None };
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

    /// Makes a copy of this repository's own workspace.
    pub fn stack() -> Self {
        let holder = tempfile::Builder::new().prefix("rocmrpm-test-").tempdir().unwrap();
        let workspace = Self { holder, cache: None };
        let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
        workspace.write("rocmrpm.toml", std::fs::read(repository.join("rocmrpm.toml")).unwrap());
        for name in ["pins", "specs-templates", "mock-configs"] {
            copy(&repository.join(name), &workspace.root().join(name));
        }
        workspace
    }

    /// Makes a copy of the small workspace of the laboratory, with what every workspace
    /// has beside its components from the quickstart. It lies below the target folder, and
    /// stays until the next run: a value that lives as long as a test program is not dropped.
    pub fn small(name: &str) -> Self {
        let store = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let old = store.join(name);
        if old.exists() {
            std::fs::remove_dir_all(&old).unwrap_or_else(|error| panic!("{}: {error}", old.display()));
        }
        let holder = tempfile::Builder::new().prefix(name).rand_bytes(0).tempdir_in(store).unwrap();
        let workspace = Self { holder, cache: None };
        std::fs::create_dir_all(workspace.cache()).unwrap();
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/laboratory/workspace");
        copy(&own, &workspace.root());
        for shared in ["mock-configs/mock.cfg.tera", "mock-configs/rocm", "specs-templates/_shared"] {
            copy(&quickstart_source().join(shared), &workspace.root().join(shared));
        }
        workspace
    }

    /// Takes the cache that all such workspaces of these tests share, now and later:
    /// what is large is downloaded once.
    pub fn with_shared_cache(self) -> Self {
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rocmrpm-cache");
        Self { cache: Some(cache), ..self }
    }

    /// Returns the workspace's folder.
    pub fn root(&self) -> PathBuf {
        // The system's word for it, as messages and build roots have it.
        self.holder().join("workspace")
    }

    /// Returns the folder of the test, which holds the workspace and its cache.
    pub fn holder(&self) -> PathBuf {
        self.holder.path().canonicalize().unwrap()
    }

    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root().join(path)
    }

    /// Returns a path in the build folder of the chroot `host`.
    pub fn built(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root().join("build/host").join(path)
    }

    pub fn cache(&self) -> PathBuf {
        self.cache.clone().unwrap_or_else(|| self.holder.path().join("cache"))
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

    /// Replaces a text that must be there in a file.
    #[track_caller]
    pub fn replace(&self, path: &str, from: &str, to: &str) {
        let text = self.read(path);
        assert!(text.contains(from), "{path} has no {from:?}:\n{text}");
        self.write(path, text.replace(from, to));
    }

    /// Adds a component whose source is a folder with one file, with a template
    /// made of these parts.
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

    /// Returns rocmrpm in this workspace, with these arguments.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocmrpm"));
        command.args(args);
        self.settle(&mut command);
        command
    }

    /// Gives a command the workspace as its folder and cache, and no terminal.
    pub fn settle(&self, command: &mut Command) {
        command
            .current_dir(self.root())
            .env("ROCMRPM_CACHE", self.cache())
            // Some belong to the laboratory's user by then.
            .env("ROCMRPM_TRUST", self.root())
            .env("XDG_STATE_HOME", self.holder.path().join("state"))
            .env_remove("SOURCE_DATE_EPOCH")
            .stdin(Stdio::null());
    }

    /// Runs rocmrpm to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        ran(&mut self.command(args))
    }

    /// Runs a line that the user is told to type, in the workspace.
    pub fn shell(&self, line: &str) -> Ran {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        self.settle(&mut command);
        ran(&mut command)
    }

    /// Runs `rocmrpm build` to its end.
    pub fn build(&self) -> Ran {
        self.run(&["build"])
    }

    /// Returns `rocmrpm build` where ninja is hidden: builds look for programs in the
    /// distribution's folders, whatever `PATH` says.
    pub fn build_without_ninja(&self) -> Command {
        let script = format!(
            "set -e\n[ ! -e /usr/bin/ninja ] || mount --bind /dev/null /usr/bin/ninja\n'{}' build",
            env!("CARGO_BIN_EXE_rocmrpm")
        );
        let mut command = Command::new("unshare");
        // The mapping makes it work for ordinary users; root needs none.
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--mount", "sh", "-c", &script]);
        self.settle(&mut command);
        command
    }

    /// Starts `rocmrpm` with these arguments and leaves it running.
    pub fn start(&self, args: &[&str]) -> Running {
        self.start_with(args, |_| ())
    }

    /// Starts `rocmrpm` with these arguments, settled further, and leaves it running.
    pub fn start_with(&self, args: &[&str], settle: impl FnOnce(&mut Command)) -> Running {
        let mut command = self.command(args);
        settle(&mut command);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Running { child: Some(child) }
    }

    /// Fails if there is anything of a component in the results or the repository,
    /// or if anything lies about that was on its way there.
    #[track_caller]
    pub fn assert_nothing_of(&self, component: &str) {
        let mut stray = Vec::new();
        for place in ["results", "srpms", "repository", "wheels", "index/packages"] {
            for entry in walkdir::WalkDir::new(self.built(place)).into_iter().flatten() {
                let relative = entry.path().strip_prefix(self.built("")).unwrap();
                let text = relative.to_string_lossy().into_owned();
                let last = entry.file_name().to_string_lossy().into_owned();
                if text.contains(component) || last.starts_with(".old-") || last.starts_with(".rocmrpm-0") {
                    stray.push(text);
                }
            }
        }
        assert!(stray.is_empty(), "{stray:?}");
    }

    /// Fails unless a component's results are whole: every file is there with the
    /// digest that the record says, and nothing besides.
    #[track_caller]
    pub fn assert_whole(&self, component: &str) -> serde_json::Value {
        let dir = self.built("results").join(component);
        let read = |name: &str| -> serde_json::Value {
            serde_json::from_slice(&std::fs::read(dir.join(name)).unwrap()).unwrap()
        };
        let record = read("build.json");
        for name in ["build", "inspection", "judgement", "times"] {
            let document = read(&format!("{name}.json"));
            let schema = documents::check(&document).unwrap_or_default();
            assert!(schema.starts_with(&format!("rocmrpm/{name}/")), "{name}.json: `{schema}`");
        }
        let mut expected = ["build.json", "inspection.json", "judgement.json", "logs", "times.json"]
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

    /// Returns every file outside `build/` with its digest: what no command but
    /// those that say so may change.
    pub fn files(&self) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        let entries =
            walkdir::WalkDir::new(self.root()).into_iter().filter_entry(|e| e.file_name() != "build");
        for entry in entries.map(Result::unwrap).filter(|e| e.file_type().is_file()) {
            let digest = Sha256::of_file(entry.path()).unwrap().0.to_string();
            files.insert(entry.into_path(), digest);
        }
        files
    }
}

/// Sections of a small template; what is empty is left out.
#[derive(Default, Clone, Copy)]
pub struct Parts<'a> {
    /// `component.toml`.
    pub toml: &'a str,
    /// Further lines of the preamble.
    pub preamble: &'a str,
    pub prep: &'a str,
    pub build: &'a str,
    pub install: &'a str,
    pub check: &'a str,
    pub clean: &'a str,
    pub files: &'a str,
}

impl Parts<'_> {
    fn spec(&self, name: &str) -> String {
        let or = |part: &str, usual: &str| if part.is_empty() { usual.to_owned() } else { part.to_owned() };
        let prep = or(self.prep, "%autosetup -p1 -n <{ source_dir }>");
        let install =
            or(self.install, &format!("install -Dpm 644 hello %{{buildroot}}%{{_datadir}}/{name}/hello"));
        let files = or(self.files, &format!("%{{_datadir}}/{name}"));
        let clean = if self.clean.is_empty() { String::new() } else { format!("%clean\n{}\n\n", self.clean) };
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

/// Returns where a component's template lies.
pub fn template(name: &str) -> String {
    format!("specs-templates/{name}/{name}.spec.tera")
}

fn quickstart_source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart")
}

pub fn copy(from: &Path, to: &Path) {
    let unwanted =
        |entry: &walkdir::DirEntry| entry.file_name() == "build" || entry.file_name() == "__pycache__";
    for entry in walkdir::WalkDir::new(from).into_iter().filter_entry(|e| !unwanted(e)).map(Result::unwrap) {
        let below = entry.path().strip_prefix(from).unwrap();
        let target = if below.as_os_str().is_empty() { to.to_owned() } else { to.join(below) };
        if entry.file_type().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// Runs a command to its end; its output is shown if the test fails. A JSON document on stdout is
/// checked against its schema.
pub fn ran(command: &mut Command) -> Ran {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().unwrap_or_else(|error| panic!("{program}: {error}; {}", package_of(&program)));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ran = Ran { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) };
    println!("$ {program} {:?}\n{ran}\n", command.get_args().collect::<Vec<_>>());
    documents::check_text(&ran.stdout);
    ran
}

fn package_of(program: &str) -> String {
    rocmrpm::process::install_help(program)
}

/// A rocmrpm that is at work. Ended when dropped.
pub struct Running {
    child: Option<Child>,
}

impl Running {
    pub fn signal(&self, name: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -s $0 $1", name, &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end.
    pub fn finish(mut self) -> Ran {
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let ran =
            Ran { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) };
        println!("$ rocmrpm (in the background)\n{ran}\n");
        documents::check_text(&ran.stdout);
        ran
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until something is so; fails after half a minute.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(30), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the ids of processes that have this among their arguments.
pub fn processes_with(argument: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let id = entry.file_name().to_string_lossy().into_owned();
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if arguments.split(|byte| *byte == 0).any(|a| a == argument.as_bytes()) {
            found.push(id);
        }
    }
    found
}

/// Returns the names of a folder's entries, sorted.
pub fn names_in(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut names: Vec<String> =
        entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub fn text_of(value: &serde_json::Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
