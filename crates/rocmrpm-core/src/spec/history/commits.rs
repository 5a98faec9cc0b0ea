//! How often files of a workspace changed: the Release of what is not a component.

use super::{EARLIEST, no_date};
use crate::git::{Repository, RepositoryError};
use crate::workspace::Workspace;

/// How often files of a workspace changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commits {
    /// How many commits changed one of them.
    pub number: usize,
    /// Whether one has changes that are not committed.
    pub dirty: bool,
    /// The newest commit's date, in seconds since 1970.
    pub seconds: i64,
}

/// Counts the commits that changed these files of a workspace, as Release counts them: only
/// first parents.
pub fn commits_of(workspace: &Workspace, paths: &[String]) -> Result<Commits, RepositoryError> {
    let none = Commits { number: 0, dirty: false, seconds: no_date() };
    let Some(repository) = Repository::find(&workspace.root)? else { return Ok(none) };
    let dirty = !repository.changes(paths)?.changed.is_empty();
    if !repository.has_commits()? {
        return Ok(Commits { dirty, ..none });
    }
    let log = repository.git(["log", "--format=%ct", "--no-color", "--first-parent", "--"]).args(paths);
    let log = log.text().map_err(repository.failed())?;
    let times: Vec<i64> = log.lines().filter_map(|line| line.parse().ok()).collect();
    let seconds = times.iter().max().map_or(none.seconds, |newest| (*newest).max(EARLIEST));
    Ok(Commits { number: times.len(), dirty, seconds })
}
