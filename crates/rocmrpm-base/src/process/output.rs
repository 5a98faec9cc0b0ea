//! How a program ended, and what its output shows.

use std::time::Duration;

/// How a program ended, and its output.
#[derive(Debug)]
pub struct Finished {
    /// The exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it, if any.
    pub signal: Option<i32>,
    /// Its stdout, unless that went to a log.
    pub stdout: Vec<u8>,
    /// Its stderr, unless that went to a log.
    pub stderr: Vec<u8>,
    /// How long it ran.
    pub elapsed: Duration,
}

impl Finished {
    /// Returns whether the exit code is 0.
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }

    /// Describes how it ended: `exited with 1`, `was ended by signal 9`.
    pub fn how(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("exited with {code}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "ended".into(),
        }
    }
}

/// Returns whether the output of a program that ran under `LC_ALL=C` reports a full disk, in the
/// system's wording (strerror(3)).
pub fn is_full_disk(output: &str) -> bool {
    ["No space left on device", "Disk quota exceeded"].iter().any(|full| output.contains(full))
}

/// Returns the last non-empty lines of a program's output, oldest first.
pub fn last_lines(bytes: &[u8], count: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines: Vec<String> = text
        .lines()
        .rev()
        .map(str::trim_end)
        .filter(|l| !l.is_empty())
        .take(count)
        .map(str::to_owned)
        .collect();
    lines.reverse();
    lines
}
