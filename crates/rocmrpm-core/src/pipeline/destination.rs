//! Opens where a pipeline publishes.

use std::path::Path;

use crate::error::{Error, IoError};
use crate::files;
use crate::index::publish::Destination;
use crate::publishing::Target;
use crate::workspace::PipelineSettings;

/// Opens a destination, which is relative to the user's workspace.
pub(super) fn open(home: &Path, settings: &PipelineSettings, to: &str) -> Result<Target, Error> {
    let endpoint = settings.endpoint_url.as_deref().filter(|_| to.starts_with("s3://"));
    let destination = match Destination::parse(to, endpoint)? {
        Destination::Folder(path) => {
            let path =
                files::absolute(&home.join(path)).map_err(IoError::doing("find a folder"))?;
            Destination::Folder(path)
        }
        other => other,
    };
    Target::open(destination, true, false)
}
