//! Installs Python tools into virtual environments that tests share and that remain between runs.
//! They come from the index configured for this machine's pip.

#![allow(dead_code, reason = "each test file uses a different part")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rocmrpm::process::Command;

/// The distribution's Python, whose `venv` installs the distribution's own pip.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// Returns one of the programs of tools.txt: pip (the newest), uv, twine, auditwheel,
/// wheel, check-wheel-contents. pip works on another environment with `--python`.
pub(crate) fn tool(name: &str) -> Command {
    static TOOLS: OnceLock<PathBuf> = OnceLock::new();
    let environment = TOOLS.get_or_init(|| environment("python-tools", include_str!("tools.txt")));
    let program = environment.join("bin").join(name);
    assert!(program.exists(), "tools.txt installs no program {name}");
    alone(Command::new(program.to_str().unwrap())).runs_code_of_tests()
}

/// Returns a virtual environment below the target folder with these requirements, all with exact
/// versions. Creates it once, while other callers wait; replaces one that is incomplete or has
/// other versions.
pub(crate) fn environment(name: &str, requirements: &str) -> PathBuf {
    let store = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs_err::create_dir_all(store).unwrap();
    let lock = fs_err::File::create(store.join(format!("{name}.lock"))).unwrap();
    lock.file().lock().unwrap();
    let dir = store.join(name);
    let complete = dir.join("complete.txt");
    if fs_err::read_to_string(&complete).is_ok_and(|text| text == requirements) {
        return dir;
    }
    if dir.exists() {
        fs_err::remove_dir_all(&dir).unwrap();
    }
    new_environment(&dir);
    let list = dir.join("requirements.txt");
    fs_err::write(&list, requirements).unwrap();
    // pip's own configuration selects the index.
    Command::new(dir.join("bin/python").to_str().unwrap())
        .args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "-r"])
        .arg(&list)
        .cwd("/")
        .output()
        .unwrap_or_else(|error| {
            panic!("cannot install {name} from this machine's pip index: {error}")
        });
    fs_err::write(&complete, requirements).unwrap();
    dir
}

/// Creates an empty virtual environment with the distribution's pip.
pub(crate) fn new_environment(dir: &Path) {
    Command::new(PYTHON)
        .args(["-m", "venv"])
        .arg(dir)
        .cwd("/")
        .output()
        .expect("a virtual environment needs Debian's package python3-venv, or Fedora's python3");
}

/// Removes the user's settings for pip, uv and Python.
pub(crate) fn alone(mut command: Command) -> Command {
    let theirs = ["PIP_", "UV_", "PYTHON", "VIRTUAL_ENV", "TWINE_"];
    // A folder without settings for uv.
    let nowhere = env!("CARGO_TARGET_TMPDIR");
    // The tests' servers are on this machine.
    let ours = [
        ("PIP_CONFIG_FILE", "/dev/null"),
        ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
        ("PIP_NO_CACHE_DIR", "1"),
        ("UV_NO_CACHE", "1"),
        ("UV_PYTHON_DOWNLOADS", "never"),
        ("XDG_CONFIG_HOME", nowhere),
        ("XDG_CONFIG_DIRS", nowhere),
        ("NO_PROXY", "127.0.0.1"),
        ("no_proxy", "127.0.0.1"),
    ];
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let is_ours = ours.iter().any(|(ours, _)| *ours == name);
        if !is_ours && theirs.iter().any(|start| name.starts_with(start)) {
            command = command.env_remove(name);
        }
    }
    ours.into_iter().fold(command, |command, (name, value)| command.env(name, value))
}

/// Fails unless all tools that check wheels accept this one: twine, auditwheel, wheel,
/// check-wheel-contents. Returns the platform tag that auditwheel would give it.
#[track_caller]
pub(crate) fn assert_accepted(wheel: &Path) -> Option<String> {
    let run = |command: Command| {
        let line = command.line();
        command.output().unwrap_or_else(|error| panic!("{line}: {error}"))
    };
    let dir = tempfile::tempdir().unwrap();
    let stdout = run(tool("twine").args(["check", "--strict"]).arg(wheel));
    assert!(
        String::from_utf8_lossy(&stdout).contains("PASSED"),
        "{}",
        String::from_utf8_lossy(&stdout)
    );
    run(tool("wheel").args(["unpack", "--dest"]).arg(dir.path()).arg(wheel));
    run(tool("check-wheel-contents").arg("--no-config").arg(wheel));
    // auditwheel only supports platform wheels.
    if wheel.to_string_lossy().ends_with("-any.whl") {
        return None;
    }
    let stdout = run(tool("auditwheel").arg("show").arg(wheel));
    let text = String::from_utf8_lossy(&stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    let tag = text.split_once("is consistent with the following platform tag: \"");
    let tag = tag.and_then(|(_, rest)| rest.split_once('"'));
    Some(tag.unwrap_or_else(|| panic!("{text}")).0.to_owned())
}
