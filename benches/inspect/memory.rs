//! Samples the program's memory, without mapped files, from outside while it runs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Returns the peak of anonymous and shared memory in bytes. Pages of mapped files, which the kernel
/// can reclaim at any time, do not count. Returns `None` if the program fails.
pub fn peak(path: &Path, deep: bool) -> Option<u64> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocmrpm"));
    command
        .arg("inspect")
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if deep {
        command.arg("--deep");
    }
    // A folder without a workspace, so that no expectations apply.
    let mut child = command.current_dir("/").spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        // 0: nothing found, 1: findings.
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().is_some_and(|code| code <= 1).then_some(peak);
        }
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let kilobytes = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0)
        };
        peak = peak.max((kilobytes("RssAnon:") + kilobytes("RssShmem:")) << 10);
        std::thread::sleep(Duration::from_millis(2));
    }
}
