//! Decides by owner which files we act on: those of the user and of root. A file written by another
//! user could make us run that user's programs. This module does not record trust.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The environment variable that lists trusted folders, separated by `:`. rocmrpm uses these
/// folders even if another user owns them, and runs the code of workspaces in them.
pub const TRUST: &str = "ROCMRPM_TRUST";

/// Returns whether we may use files of this owner: the current user, root, or, under sudo, the user
/// who ran it. git uses the same rule.
pub fn is_ours(owner: u32) -> bool {
    let sudo = || std::env::var("SUDO_UID").ok().and_then(|id| id.parse().ok());
    is_ours_for(owner, rustix::process::geteuid().as_raw(), sudo)
}

fn is_ours_for(owner: u32, user: u32, sudo: impl Fn() -> Option<u32>) -> bool {
    owner == user || owner == 0 || (user == 0 && sudo() == Some(owner))
}

/// Returns whether only users that [`is_ours`] accepts can write the file.
pub fn is_private(metadata: &std::fs::Metadata) -> bool {
    is_ours(metadata.uid()) && metadata.mode() & 0o022 == 0
}

/// Returns whether [`TRUST`] lists a folder, which must be canonical.
pub fn is_accepted(dir: &Path) -> bool {
    let accepted = std::env::var_os(TRUST).unwrap_or_default();
    std::env::split_paths(&accepted)
        .filter(|path| path.is_absolute())
        .any(|path| path == dir || path.canonicalize().is_ok_and(|path| path == dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusts_only_the_user_and_root() {
        let none = || None;
        assert!(is_ours_for(1000, 1000, none) && is_ours_for(0, 1000, none));
        assert!(!is_ours_for(1001, 1000, none) && !is_ours_for(1000, 0, none));
    }

    #[test]
    fn trusts_the_user_who_ran_sudo() {
        let sudo = || Some(1000);
        assert!(is_ours_for(1000, 0, sudo));
        assert!(!is_ours_for(1001, 0, sudo));
        assert!(!is_ours_for(1000, 1001, sudo), "sudo only counts for root");
    }
}
