//! Tests pins, constraints and settings with real pip and uv.

use std::path::{Path, PathBuf};

use rocmrpm::index;
use rocmrpm::process::Command;

use super::fixtures::*;
use crate::support::Workspace;
use crate::tools::{alone, environment, new_environment};

/// A workspace whose index for this machine contains `demo-torch` and `demo-vllm`, which requires
/// it and the external `plain-lib`.
struct Stack {
    workspace: Workspace,
    outside: String,
}

const OURS: &str = "1.0+rocm7.14.gfx1151";

impl Stack {
    /// Creates a stack. `index` is the content of the manifest's table `[index]`, where `{outside}`
    /// is the external index: it contains a higher, plain `demo-torch` and distributions that
    /// require it.
    fn new(index: &str) -> Self {
        let workspace = Workspace::init();
        let url = outside(
            &workspace.holder().join("others"),
            &[
                ("demo-torch", "1.0", &[]),
                ("demo-torch", "2.0", &[]),
                ("plain-lib", "3.0", &["plain-base>=1"]),
                ("plain-base", "1.5", &[]),
                ("wants-any", "1.0", &["demo-torch>=1.0"]),
                ("wants-new", "1.0", &["demo-torch>=2.0"]),
            ],
        );
        workspace.replace("rocmrpm.toml", "outside = [\"pip\"]", &index.replace("{outside}", &url));
        let wheels = [
            requiring(workspace.holder(), "demo-torch", &[]),
            requiring(
                workspace.holder(),
                "demo-vllm",
                &["demo-torch==1.0", "plain-lib>=2; os_name == 'posix'"],
            ),
        ];
        index::write(&wheels, &workspace.path("build/host/index")).unwrap();
        Self { workspace, outside: url }
    }

    fn usual() -> Self {
        Self::new("outside = [\"{outside}\"]")
    }

    fn requirements(&self, more: &[&str]) -> crate::support::Ran {
        let args = [&["requirements", "--chroot", "host"], more].concat();
        self.workspace
            .outcome(self.workspace.command(&args).env("PATH", with_uv(self.workspace.holder())))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.workspace.path("build/host/requirements").join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap()
    }
}

/// Returns a `PATH` with the tests' uv, but without their other tools.
pub(crate) fn with_uv(dir: &Path) -> String {
    let bin = dir.join("uv-bin");
    if !bin.exists() {
        fs_err::create_dir(&bin).unwrap();
        let uv =
            environment("python-tools", include_str!("../../support/tools.txt")).join("bin/uv");
        fs_err::os::unix::fs::symlink(uv, bin.join("uv")).unwrap();
    }
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

/// A virtual environment to install into.
struct Target(tempfile::TempDir);

impl Target {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        new_environment(&dir.path().join("venv"));
        Self(dir)
    }

    fn python(&self) -> String {
        self.0.path().join("venv/bin/python").to_str().unwrap().to_owned()
    }

    /// Runs the distribution's pip; the error contains its output.
    fn pip(&self, config: Option<&Path>, args: &[&str]) -> Result<String, String> {
        let mut pip = alone(Command::new(self.python())).args(["-m", "pip"]).args(args).cwd("/");
        if let Some(config) = config {
            pip = pip.env("PIP_CONFIG_FILE", config);
        }
        output(pip)
    }

    fn uv(&self, config: Option<&Path>, args: &[&str]) -> Result<String, String> {
        let uv =
            environment("python-tools", include_str!("../../support/tools.txt")).join("bin/uv");
        let mut uv = alone(Command::new(uv.to_str().unwrap()))
            .runs_code_of_tests()
            .env("UV_CACHE_DIR", self.0.path().join("cache"))
            .cwd("/");
        if let Some(config) = config {
            uv = uv.env_remove("UV_NO_CONFIG").arg("--config-file").arg(config);
        }
        output(uv.args(args).args(["--python", &self.python()]))
    }

    fn frozen(&self) -> Vec<String> {
        self.pip(None, &["freeze"]).unwrap().lines().map(str::to_owned).collect()
    }
}

fn output(command: Command) -> Result<String, String> {
    let line = command.line();
    let finished = command.run().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match finished.success() {
        true => Ok(text(&finished.stdout)),
        false => Err(format!("{line}\n{}{}", text(&finished.stdout), text(&finished.stderr))),
    }
}

#[test]
fn pip_keeps_stack_versions_despite_higher_ones() {
    let stack = Stack::usual();
    stack.requirements(&["--constraints"]).exits(0);
    let config = stack.file("pip.conf");
    let target = Target::new();
    target.pip(Some(&config), &["install", "--quiet", "wants-any"]).unwrap();
    assert_eq!(target.frozen(), [format!("demo-torch=={OURS}"), "wants-any==1.0".into()]);
    let target = Target::new();
    let error = target.pip(Some(&config), &["install", "wants-new"]).unwrap_err();
    assert!(error.contains("demo-torch"), "{error}");
    assert_eq!(target.frozen(), [""; 0]);

    // Without the constraints, the same two indexes give the other build, which is the danger.
    let ours = format!("file://{}/build/host/index/simple", stack.workspace.root().display());
    let both = [
        "install",
        "--quiet",
        "--index-url",
        &ours,
        "--extra-index-url",
        &stack.outside,
        "wants-any",
    ];
    target.pip(None, &both).unwrap();
    assert_eq!(target.frozen(), ["demo-torch==2.0", "wants-any==1.0"]);
}

#[test]
fn uv_keeps_stack_versions_despite_higher_ones() {
    let stack = Stack::usual();
    stack.requirements(&["--constraints"]).exits(0);
    let config = stack.file("uv.toml");
    let target = Target::new();
    target.uv(Some(&config), &["pip", "install", "wants-any"]).unwrap();
    assert_eq!(target.frozen(), [format!("demo-torch=={OURS}"), "wants-any==1.0".into()]);
    let target = Target::new();
    // It fails with the first index only, and with all indexes because of the constraints.
    for strategy in ["first-index", "unsafe-best-match"] {
        let args = ["pip", "install", "--index-strategy", strategy, "wants-new"];
        let error = target.uv(Some(&config), &args).unwrap_err();
        assert!(error.contains("demo-torch"), "{error}");
    }
    assert_eq!(target.frozen(), [""; 0]);
    let ours = format!("file://{}/build/host/index/simple", stack.workspace.root().display());
    let both = ["pip", "install", "--index", &stack.outside, "--default-index", &ours, "wants-any"];
    target.uv(None, &both).unwrap();
    assert_eq!(target.frozen(), ["demo-torch==2.0", "wants-any==1.0"]);
}

#[test]
fn resolved_lock_installs_exactly_with_both() {
    let stack = Stack::usual();
    let ran = stack.requirements(&["--resolve"]);
    ran.exits(0);
    let names = ["constraints.txt", "requirements.lock", "pip.conf", "uv.toml"];
    let paths: Vec<String> = names
        .iter()
        .map(|name| format!("[HOLDER]/workspace/build/host/requirements/{name}"))
        .collect();
    assert_eq!(ran.stdout.lines().collect::<Vec<_>>(), paths);
    let expected = [
        format!("demo-torch=={OURS}"),
        format!("demo-vllm=={OURS}"),
        "plain-base==1.5".into(),
        "plain-lib==3.0".into(),
    ];
    let lock = stack.read("requirements.lock");
    let pins: Vec<&str> = lock.lines().filter_map(|line| line.strip_suffix(" \\")).collect();
    assert_eq!(pins, expected);
    assert_eq!(lock.matches("--hash=sha256:").count(), 4);
    assert!(!lock.contains("--no-deps"), "{lock}");
    let constraints = stack.read("constraints.txt");
    assert_eq!(
        constraints.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>(),
        expected
    );

    let before: Vec<String> = names.iter().map(|name| stack.read(name)).collect();
    stack.requirements(&["--resolve"]).exits(0);
    assert_eq!(names.iter().map(|name| stack.read(name)).collect::<Vec<_>>(), before);

    let path = stack.file("requirements.lock");
    let path = path.to_str().unwrap();
    let (pip_conf, uv_toml) = (stack.file("pip.conf"), stack.file("uv.toml"));
    let target = Target::new();
    target.pip(Some(&pip_conf), &["install", "--quiet", "--require-hashes", "-r", path]).unwrap();
    assert_eq!(target.frozen(), expected);
    let target = Target::new();
    target.uv(Some(&uv_toml), &["pip", "install", "--require-hashes", "-r", path]).unwrap();
    assert_eq!(target.frozen(), expected);
    target.uv(None, &["pip", "install", "--default-index", &stack.outside, "wants-any"]).unwrap();
    target.uv(Some(&uv_toml), &["pip", "sync", "--require-hashes", path]).unwrap();
    assert_eq!(target.frozen(), expected);

    // A file that differs from the lock is rejected.
    let target = Target::new();
    let first = lock.split("--hash=sha256:").nth(1).unwrap()[..64].to_owned();
    fs_err::write(path, lock.replace(&first, &"0".repeat(64))).unwrap();
    let error =
        target.pip(Some(&pip_conf), &["install", "--require-hashes", "-r", path]).unwrap_err();
    assert!(error.contains("HASHES"), "{error}");
    target.uv(Some(&uv_toml), &["pip", "install", "--require-hashes", "-r", path]).unwrap_err();
}

#[test]
fn unresolved_lock_lists_outside_requirements() {
    let stack = Stack::usual();
    let ran = stack.requirements(&["--json"]);
    ran.exits(0).reports(["1 requirement from outside the stack", "plain-lib>=2"]);
    let json = ran.document("rocmrpm/requirements/1");
    assert_eq!(json["open"][0]["requirement"], "plain-lib>=2");
    assert_eq!(json["pins"][1]["version"], OURS);
    let lock = stack.read("requirements.lock");
    assert!(
        lock.contains("#   plain-lib>=2  for demo_vllm-1.0+rocm7.14.gfx1151-py3-none-any.whl\n"),
        "{lock}"
    );
    let path = stack.file("requirements.lock");
    let args =
        ["install", "--quiet", "--require-hashes", "--no-deps", "-r", path.to_str().unwrap()];
    let target = Target::new();
    target.pip(Some(&stack.file("pip.conf")), &args).unwrap();
    assert_eq!(target.frozen(), [format!("demo-torch=={OURS}"), format!("demo-vllm=={OURS}")]);
    let target = Target::new();
    let args = ["pip", "install", "--require-hashes", "--no-deps", "-r", path.to_str().unwrap()];
    target.uv(Some(&stack.file("uv.toml")), &args).unwrap();
    assert_eq!(target.frozen().len(), 2);
}

#[test]
fn rejects_contradicting_pins() {
    let stack = Stack::usual();
    let dir = stack.workspace.holder();
    let wheels =
        [requiring(dir, "demo-torch", &[]), requiring(dir, "demo-vllm", &["demo-torch>=2"])];
    index::write(&wheels, &stack.workspace.path("build/host/index")).unwrap();
    let wrong = "it requires `demo-torch>=2`, but the pin would be demo_torch-1.0+rocm";
    stack.requirements(&[]).exits(3).reports(["cannot pin demo_vllm-1.0+rocm", wrong]);
    assert!(!stack.file("requirements.lock").exists());
}

#[test]
fn handles_folders_with_spaces() {
    let stack = Stack::usual();
    let folder = stack.workspace.holder().join("a folder+");
    stack.requirements(&["--constraints", "-o", folder.to_str().unwrap()]).exits(0);
    let target = Target::new();
    target.pip(Some(&folder.join("pip.conf")), &["install", "--quiet", "wants-any"]).unwrap();
    assert_eq!(target.frozen()[0], format!("demo-torch=={OURS}"));
    assert!(!folder.join("requirements.lock").exists());
}

#[test]
fn never_writes_credentials() {
    let stack = Stack::new("outside = [\"http://me:s3cret@127.0.0.1:9/simple\", \"{outside}\"]");
    let url = "https://me:s3cret@127.0.0.1/simple";
    let ran = stack.requirements(&["--index-url", url, "--json"]);
    ran.exits(0).reports(["are not written"]);
    assert!(!ran.stdout.contains("s3cret") && !ran.stderr.contains("s3cret"));
    for name in ["constraints.txt", "requirements.lock", "pip.conf", "uv.toml"] {
        let text = stack.read(name);
        assert!(!text.contains("s3cret") && !text.contains("me:"), "{name}: {text}");
    }
    assert!(stack.read("pip.conf").contains("index-url = https://127.0.0.1/simple\n"));
    assert!(stack.read("pip.conf").contains("    http://127.0.0.1:9/simple\n"));
    // If uv cannot reach that index, the output does not contain the password.
    let ran = stack.requirements(&["--resolve"]);
    ran.exits(30);
    assert!(!ran.stderr.contains("s3cret"), "{}", ran.stderr);
    for bad in ["simple", "ftp://h/simple", "https://h/a b", "https://h/a\nx"] {
        stack.requirements(&["--index-url", bad]).exits(2).reports(["is not a valid index URL"]);
    }
}

#[test]
fn reports_uv_index_and_resolution_errors_without_writing() {
    let stack = Stack::new("outside = []");
    let bin = stack.workspace.holder().join("bin");
    fs_err::create_dir(&bin).unwrap();
    fs_err::os::unix::fs::symlink("/usr/bin/python3", bin.join("python3")).unwrap();
    let mut command = stack.workspace.command(&["requirements", "--chroot", "host", "--resolve"]);
    let ran = stack.workspace.outcome(command.env("PATH", bin.to_str().unwrap()));
    ran.exits(40).reports(["`uv` is not installed", "dnf install uv", "pip install uv"]);
    stack.requirements(&["--resolve"]).exits(3).reports([
        "plain-lib",
        "rocmrpm index check",
        "[index] outside",
    ]);
    assert!(!stack.file("").exists());
    fs_err::remove_dir_all(stack.workspace.path("build/host/index")).unwrap();
    stack.requirements(&[]).exits(2).reports(["there is no index in", "`rocmrpm index`"]);
    assert!(!stack.file("").exists());
}

#[test]
fn resolves_from_pips_index() {
    let workspace = Workspace::init();
    let wheel = requiring(workspace.holder(), "demo-date", &["python-dateutil>=2.8,<3"]);
    index::write(&[wheel], &workspace.path("build/host/index")).unwrap();
    let index = rocmrpm::sources::pip_index().unwrap();
    let run = |args: &[&str]| {
        let mut command = workspace.command(args);
        command.env("PIP_INDEX_URL", &index).env("PATH", with_uv(workspace.holder()));
        let certificates =
            ["SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "HTTPS_PROXY", "https_proxy"];
        let theirs =
            certificates.iter().filter_map(|name| Some((*name, std::env::var(name).ok()?)));
        workspace.outcome(command.envs(theirs))
    };
    run(&["index", "check", "--chroot", "host"])
        .exits(0)
        .prints(["no findings", "1 requirement checked"]);
    run(&["requirements", "--chroot", "host", "--resolve"]).exits(0);
    let lock = workspace.read("build/host/requirements/requirements.lock");
    let pins: Vec<&str> =
        lock.lines().filter_map(|line| line.strip_suffix(" \\")?.split("==").next()).collect();
    let pins: Vec<&str> = pins.into_iter().filter(|line| !line.contains("--hash")).collect();
    assert_eq!(pins, ["demo-date", "python-dateutil", "six"]);
    let path = workspace.path("build/host/requirements/requirements.lock");
    let config = workspace.path("build/host/requirements/pip.conf");
    let target = Target::new();
    let args = ["install", "--quiet", "--require-hashes", "-r", path.to_str().unwrap()];
    target.pip(Some(&config), &args).unwrap();
    assert_eq!(target.frozen().len(), 3);
}
