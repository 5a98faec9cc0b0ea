//! Scripts of make targets that take too long for a test have tests of their parts.

use std::process::Command;

#[test]
fn scripts_that_compile_kernels_pass_their_tests() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/laboratory/kernels");
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-B", "-m", "unittest"]).current_dir(folder);
    let ran = command.output().expect("cannot run python3 (package: python3)");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}
