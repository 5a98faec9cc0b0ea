//! Provides git for tests.

use std::path::Path;

use crate::process::Command;

/// Returns git in a folder with fixed identity and time, without user configuration.
pub(crate) fn git(dir: &Path) -> Command {
    let git = Command::new("git").cwd(dir).env("GIT_CONFIG_GLOBAL", "/dev/null");
    ["AUTHOR", "COMMITTER"].iter().fold(git, |git, role| {
        git.env(format!("GIT_{role}_NAME"), "A")
            .env(format!("GIT_{role}_EMAIL"), "a@example.org")
            .env(format!("GIT_{role}_DATE"), "2026-01-02T03:04:05Z")
    })
}
