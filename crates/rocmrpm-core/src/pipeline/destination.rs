//! Opens where a pipeline publishes.

use std::path::Path;

use crate::error::{Error, IoError};
use crate::files;
use crate::index::publish::Destination;
use crate::publishing::Target;

/// Opens a destination, which is relative to the user's workspace.
pub(super) fn open(home: &Path, to: &str) -> Result<Target, Error> {
    let destination = match Destination::parse(to, None)? {
        Destination::Folder(path) => {
            let path =
                files::absolute(&home.join(path)).map_err(IoError::doing("find a folder"))?;
            Destination::Folder(path)
        }
        other => other,
    };
    Target::open(destination, true, false)
}
