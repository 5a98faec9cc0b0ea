//! Scripts of make targets that take too long for a test have tests of their parts.

use std::process::Command;

#[test]
fn scripts_that_compile_kernels_pass_their_tests() {
    assert_pass("tests/laboratory/kernels");
}

#[test]
fn survey_of_projects_passes_its_tests() {
    assert_pass("tools");
}

/// Runs the tests of the Python scripts in a folder.
fn assert_pass(folder: &str) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-B", "-m", "unittest"]).current_dir(folder);
    let ran = command.output().expect("cannot run python3 (package: python3)");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}
