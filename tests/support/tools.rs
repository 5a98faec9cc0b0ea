//! Python tools in virtual environments that tests share and that stay between runs.
//! They come from the index that this machine's pip is configured with, once. Not what
//! they are asked.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test's helpers may fail as the test may")]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rocmrpm::process::Command;

/// The Python of the distribution, whose `venv` has the distribution's own pip.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// Returns one of the programs of tools.txt: pip (the newest), uv, twine, auditwheel,
/// wheel, check-wheel-contents. pip works on another environment with `--python`.
pub(crate) fn tool(name: &str) -> Command {
    static TOOLS: OnceLock<PathBuf> = OnceLock::new();
    let environment = TOOLS.get_or_init(|| environment("python-tools", include_str!("tools.txt")));
    let program = environment.join("bin").join(name);
    assert!(program.exists(), "tools.txt brings no program {name}");
    alone(Command::new(program.to_str().unwrap())).runs_code_of_tests()
}

/// Returns a virtual environment with these requirements, all with exact versions, below
/// the target folder. It is made once: whoever comes while that goes on waits, and what
/// was not finished, or has other versions, is made again.
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
    // Which index it is, pip's own configuration says.
    Command::new(dir.join("bin/python").to_str().unwrap())
        .args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "-r"])
        .arg(&list)
        .cwd("/")
        .output()
        .unwrap_or_else(|error| panic!("{name} cannot be had from the pip index of this machine: {error}"));
    fs_err::write(&complete, requirements).unwrap();
    dir
}

/// Makes an empty virtual environment, which has the distribution's pip.
pub(crate) fn new_environment(dir: &Path) {
    Command::new(PYTHON)
        .args(["-m", "venv"])
        .arg(dir)
        .cwd("/")
        .output()
        .expect("a virtual environment needs Debian's package python3-venv, or Fedora's python3");
}

/// Takes away what a user's settings tell pip, uv and Python.
pub(crate) fn alone(mut command: Command) -> Command {
    let theirs = ["PIP_", "UV_", "PYTHON", "VIRTUAL_ENV", "TWINE_"];
    // Where uv looks for settings besides a project's own; there are none.
    let nowhere = env!("CARGO_TARGET_TMPDIR");
    // Servers of the tests are on this machine.
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

/// Fails unless all tools that judge wheels take this one: twine, auditwheel, wheel,
/// check-wheel-contents. Returns the platform tag that auditwheel would give it.
#[track_caller]
pub(crate) fn assert_accepted(wheel: &Path) -> Option<String> {
    let run = |command: Command| {
        let line = command.line();
        command.output().unwrap_or_else(|error| panic!("{line}: {error}"))
    };
    let dir = tempfile::tempdir().unwrap();
    let said = run(tool("twine").args(["check", "--strict"]).arg(wheel));
    assert!(String::from_utf8_lossy(&said).contains("PASSED"), "{}", String::from_utf8_lossy(&said));
    run(tool("wheel").args(["unpack", "--dest"]).arg(dir.path()).arg(wheel));
    run(tool("check-wheel-contents").arg("--no-config").arg(wheel));
    // It shows wheels for a platform alone.
    if wheel.to_string_lossy().ends_with("-any.whl") {
        return None;
    }
    let said = run(tool("auditwheel").arg("show").arg(wheel));
    let said = String::from_utf8_lossy(&said).split_whitespace().collect::<Vec<_>>().join(" ");
    let tag = said.split_once("is consistent with the following platform tag: \"");
    let tag = tag.and_then(|(_, rest)| rest.split_once('"'));
    Some(tag.unwrap_or_else(|| panic!("{said}")).0.to_owned())
}
