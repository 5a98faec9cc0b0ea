//! Counts changes to workspace files, for the Release of packages that are not components. It does
//! not create changelogs.

use super::{EARLIEST, no_date};
use crate::git::{Repository, RepositoryError};
use crate::workspace::Workspace;

/// The number of changes to workspace files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commits {
    /// Number of commits that changed at least one of the files.
    pub number: usize,
    /// Whether a file has uncommitted changes.
    pub dirty: bool,
    /// The date of the newest commit, in seconds since 1970.
    pub seconds: i64,
}

/// Counts the commits that changed these workspace files. Like Release, follows only first parents.
pub fn commits_of(workspace: &Workspace, paths: &[String]) -> Result<Commits, RepositoryError> {
    let none = Commits { number: 0, dirty: false, seconds: no_date() };
    let Some(repository) = Repository::find(&workspace.root)? else { return Ok(none) };
    let dirty = !repository.changes(paths)?.changed.is_empty();
    if !repository.has_commits()? {
        return Ok(Commits { dirty, ..none });
    }
    let log =
        repository.git(["log", "--format=%ct", "--no-color", "--first-parent", "--"]).args(paths);
    let log = log.text().map_err(repository.failed())?;
    let times: Vec<i64> = log.lines().filter_map(|line| line.parse().ok()).collect();
    let seconds = times.iter().max().map_or(none.seconds, |newest| (*newest).max(EARLIEST));
    Ok(Commits { number: times.len(), dirty, seconds })
}
