//! Runs commands in the laboratory: rocmrpm as an ordinary user, scripts as root, each in separate
//! namespaces. It contains no tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::{Ran, Workspace, ran};

/// Paths of a test's workspace and cache inside the laboratory.
pub const WORKSPACE: &str = "/home/builder/test/workspace";
const CACHE: &str = "/home/builder/test/cache";

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");
/// Paths of the program and scripts inside the laboratory, where /run is empty at first.
pub const PROGRAM: &str = "/run/rocmrpm/rocmrpm";
const SCRATCH: &str = "/run/rocmrpm/scratch";
/// Path of the script that runs dnf5's solver.
pub const SOLVER: &str = "/run/rocmrpm/solver.py";

pub fn folder() -> PathBuf {
    let variable =
        |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("ROCMRPM_LAB").unwrap_or_else(|| {
        let home = variable("HOME").unwrap_or_else(|| "/root".into());
        variable("XDG_CACHE_HOME").unwrap_or_else(|| home.join(".cache")).join("rocmrpm/lab")
    })
}

/// Returns `tests/laboratory/system/enter` with a test's folder: the workspace and its cache.
fn enter(workspace: &Workspace, user: &str) -> Command {
    let mut command = Command::new(Path::new(REPOSITORY).join("tests/laboratory/system/enter"));
    let bind = |from: &Path, to: &str| format!("{}:{to}", from.display());
    command
        .args(["--user", user, "--cd", WORKSPACE])
        .args(["--bind", &bind(workspace.holder(), "/home/builder/test")])
        .args(["--bind", &bind(Path::new(env!("CARGO_BIN_EXE_rocmrpm")), PROGRAM)])
        .args(["--bind", &bind(&Path::new(REPOSITORY).join("tests/laboratory/scratch"), SCRATCH)])
        .args(["--bind", &bind(&Path::new(REPOSITORY).join("tests/laboratory/solver.py"), SOLVER)])
        .args(["--env", &format!("ROCMRPM_TRUST={WORKSPACE}")])
        .args([
            "--env",
            &format!("ROCMRPM_CACHE={CACHE}"),
            "--env",
            "GNUPGHOME=/home/builder/test/gnupg",
        ])
        .stdin(std::process::Stdio::null())
        .arg("--");
    command
}

/// Runs a command created by [`enter`].
#[track_caller]
fn run(command: &mut Command) -> Ran {
    let ran = ran(command);
    assert!(
        !ran.stderr.contains("there is no laboratory"),
        "{}: run `make lab`",
        ran.stderr.trim_end()
    );
    ran
}

/// Makes the laboratory's ordinary user the owner of a workspace created by root.
pub fn hand_over(workspace: &Workspace) {
    if rustix::process::geteuid().is_root() {
        let users =
            std::fs::read_to_string(folder().join("host/etc/passwd")).unwrap_or_else(|error| {
                panic!("no laboratory in {}: run `make lab` ({error})", folder().display())
            });
        let builder = users.lines().find_map(|line| line.strip_prefix("builder:")).unwrap();
        let ids: Vec<&str> = builder.split(':').skip(1).take(2).collect();
        ran(Command::new("chown").arg("-R").arg(ids.join(":")).arg(workspace.holder())).exits(0);
    }
}

/// Runs rocmrpm as the laboratory's ordinary user.
#[track_caller]
pub fn rocmrpm(workspace: &Workspace, args: &[&str]) -> Ran {
    run(enter(workspace, "builder").arg(PROGRAM).args(args))
}

/// Runs a shell script as the laboratory's ordinary user.
#[track_caller]
pub fn script(workspace: &Workspace, script: &str) -> Ran {
    run(enter(workspace, "builder").args(["bash", "-euo", "pipefail", "-c", script]))
}

/// Runs a shell script as root.
#[track_caller]
pub fn root(workspace: &Workspace, script: &str) -> Ran {
    run(enter(workspace, "root").args(["bash", "-euo", "pipefail", "-c", script]))
}

/// Runs a shell script as the ordinary user after one by root.
#[track_caller]
pub fn script_after(workspace: &Workspace, prepare: &str, script: &str) -> Ran {
    let shell = ["bash", "-euo", "pipefail", "-c", script];
    run(enter(workspace, "root").args(["bash", SCRATCH, prepare, "builder"]).args(shell))
}
