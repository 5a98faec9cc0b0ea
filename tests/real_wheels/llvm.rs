//! LLVM's own tools of a version that reads HIP's fat binaries: 22 or newer.

use rocmrpm::process::{Command, find_program};

/// What `.hip_fatbin` sections need: older tools know less or nothing of them.
const VERSION: u32 = 22;

/// Returns the name of one of LLVM's tools, such as `objdump`: with the version as
/// Debian has it, or without, as on Fedora and elsewhere.
pub fn llvm(tool: &str) -> String {
    let versioned = format!("llvm-{tool}-{VERSION}");
    if find_program(&versioned).is_some() {
        return versioned;
    }
    let plain = format!("llvm-{tool}");
    let output = Command::new(&plain).arg("--version").text().unwrap_or_default();
    let version =
        output.split("LLVM version ").nth(1).and_then(|rest| rest.split('.').next()?.parse().ok());
    assert!(
        version.is_some_and(|version: u32| version >= VERSION),
        "neither {versioned} nor {plain} of version {VERSION} or newer is on PATH (Debian 12: llvm-{VERSION} \
         from bookworm-security; Fedora 44 and newer: llvm); {plain} says: {output}"
    );
    plain
}
