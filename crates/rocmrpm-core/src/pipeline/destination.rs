//! Opens where a pipeline publishes.

use std::path::{Component, Path, PathBuf};

use crate::error::{Error, IoError};
use crate::index::publish::Destination;
use crate::publishing::Target;

/// Opens a destination, which is relative to the user's workspace.
pub(super) fn open(home: &Path, to: &str) -> Result<Target, Error> {
    let destination = match Destination::parse(to, None)? {
        Destination::Folder(path) => Destination::Folder(absolute(home, &path)?),
        other => other,
    };
    Target::open(destination, true, false)
}

/// Returns a path relative to a folder as an absolute one without `..`, so that it does not depend on
/// the current folder.
fn absolute(base: &Path, path: &Path) -> Result<PathBuf, Error> {
    let mut whole = PathBuf::new();
    let joined = std::path::absolute(base.join(path)).map_err(IoError::doing("find a folder"))?;
    for part in joined.components() {
        match part {
            Component::ParentDir => drop(whole.pop()),
            other => whole.push(other),
        }
    }
    Ok(whole)
}
