//! The units of systemd that run the pipeline every night. systemd's own tools check them.

use std::path::PathBuf;
use std::process::Command;

use crate::support::{REPOSITORY, Ran, ran};

const UNITS: [&str; 2] = ["rocmrpm-pipeline.service", "rocmrpm-pipeline.timer"];

/// Copies the units into a folder as a user does, with the path of this rocmrpm.
fn units() -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let copy = |name: &&str| {
        let text = std::fs::read_to_string(format!("{REPOSITORY}/examples/pipeline/{name}"));
        let start = format!("ExecStart={}", env!("CARGO_BIN_EXE_rocmrpm"));
        let path = folder.path().join(name);
        std::fs::write(&path, text.unwrap().replace("ExecStart=rocmrpm", &start)).unwrap();
        path
    };
    let paths = UNITS.iter().map(copy).collect();
    (folder, paths)
}

fn analyze(args: &[&str], units: &[PathBuf]) -> Ran {
    // The manager of a user needs a folder for its sockets.
    let folder = units[0].parent().unwrap();
    ran(Command::new("systemd-analyze").env("XDG_RUNTIME_DIR", folder).args(args).args(units))
}

fn verify(units: &[PathBuf]) -> Ran {
    analyze(&["verify", "--user", "--man=no", "--recursive-errors=no"], units)
}

#[test]
fn units_are_valid_and_start_one_command() {
    let (_folder, units) = units();
    // A setting that systemd ignores is only a message.
    verify(&units).exits(0).never_reports("rocmrpm-pipeline");
    let text = std::fs::read_to_string(&units[0]).unwrap();
    let starts: Vec<&str> = text.lines().filter(|line| line.starts_with("Exec")).collect();
    assert!(matches!(starts[..], [start] if start.ends_with("rocmrpm pipeline run")), "{starts:?}");
    std::fs::write(&units[0], text.replace("Type=oneshot", "Type=onceshot")).unwrap();
    verify(&units[..1]).reports(["Failed to parse service type"]);
}

#[test]
fn service_has_few_permissions() {
    let (_folder, units) = units();
    // systemd's scale ends at 10. Builds need the network, namespaces, and devices of the GPU.
    analyze(&["security", "--offline=true", "--threshold=55"], &units[..1]).exits(0);
}
