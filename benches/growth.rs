//! Measures how the cost of a command grows with the size of its input: three sizes each, and the
//! slope between the larger two. Also measures the overhead of `build` over rpmbuild. Prints a
//! table; slow results do not fail.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the table and the progress")]
#![allow(clippy::unwrap_used, reason = "a benchmark without its inputs stops")]

#[path = "shared/aligned.rs"]
mod aligned;
#[path = "growth/closure.rs"]
mod closure;
#[path = "growth/device.rs"]
mod device;
#[path = "shared/growth.rs"]
mod growth;
#[path = "growth/overhead.rs"]
mod overhead;
#[path = "../tests/support/tools.rs"]
mod tools;
#[path = "index/wheels.rs"]
#[allow(dead_code, reason = "only the wheels are needed")]
mod wheels;
#[path = "growth/workspace.rs"]
mod workspace;

use std::path::Path;
use std::process::{Command, Stdio};

use growth::{Growth, best};

fn main() {
    // `cargo test --benches` and the like only check that it builds.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let dir = tempfile::Builder::new().tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = dir.path();
    let mut growth = Growth::default();

    growth.row("components of a workspace: plan", [10, 100, 1000], |size| {
        let at = dir.join(format!("workspace-{size}"));
        workspace::of_chains(&at, size);
        best(|| run(rocmrpm_in(&at).arg("plan")))
    });
    growth.row("files of a folder: inspect", [1_000, 10_000, 100_000], |size| {
        let at = dir.join(format!("files-{size}"));
        device::folder(&at, size);
        best(|| inspect([&at]))
    });
    growth.row("bundles of an ELF file: inspect", [100, 1_000, 10_000], |size| {
        let at = dir.join(format!("bundles-{size}.so"));
        device::bundles(&at, size);
        best(|| inspect(["--deep".as_ref(), at.as_os_str()]))
    });
    closure::measure(&mut growth, dir);
    println!("{growth}");
    println!("{}", overhead::measure(dir));
}

/// Returns the released program.
fn rocmrpm() -> Command {
    Command::new(env!("CARGO_BIN_EXE_rocmrpm"))
}

/// Returns the released program, in a workspace whose code it may run.
fn rocmrpm_in(workspace: &Path) -> Command {
    let mut command = rocmrpm();
    command.arg("-C").arg(workspace).env("ROCMRPM_TRUST", workspace);
    command
}

/// Runs a program that must succeed.
fn run(command: &mut Command) {
    finish(command, &[0]);
}

/// Runs an inspection, which may have findings.
fn inspect(arguments: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr>>) {
    finish(rocmrpm().arg("inspect").args(arguments), &[0, 1]);
}

fn finish(command: &mut Command, codes: &[i32]) {
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).output().unwrap();
    let expected = output.status.code().is_some_and(|code| codes.contains(&code));
    assert!(
        expected,
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}
