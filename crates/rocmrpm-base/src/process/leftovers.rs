//! Ends processes that outlived the rocmrpm that started them.

use std::path::Path;
use std::time::{Duration, Instant};

use super::GRACE;

/// The environment variable that holds a build's folder. It identifies the processes of a build
/// whose rocmrpm was killed.
pub const BUILD_MARK: &str = "ROCMRPM_BUILD_FOLDER";

/// Ends the processes that an earlier, killed rocmrpm left running in this build folder, and
/// returns when they have exited.
pub fn end_leftovers(build: &Path) -> std::io::Result<()> {
    let mark = [BUILD_MARK.as_bytes(), b"=", build.as_os_str().as_encoded_bytes()].concat();
    let deadline = Instant::now() + GRACE;
    loop {
        let mut found = false;
        for entry in fs_err::read_dir("/proc")?.flatten() {
            let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let Some(id) = id.and_then(rustix::process::Pid::from_raw) else { continue };
            // Other users' processes are unreadable, and that of an exited process is empty.
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(|variable| variable == mark) {
                found = true;
                let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
            }
        }
        if !found {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(std::io::Error::other("they do not exit"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
