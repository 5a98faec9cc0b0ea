//! The pins of a set at some commit, and the paths in which their sources are.

use std::collections::BTreeMap;
use std::path::{Component, PathBuf};
use std::sync::Arc;

use crate::workspace::{Pin, PinSet, Source};

/// The pins of a set at some commit.
#[derive(Debug, Clone, Default)]
pub(super) struct Pinned {
    /// The pins that packagers write.
    pub own: Option<Arc<PinSet>>,
    /// The pins of closures, by file path.
    pub closures: BTreeMap<String, Arc<PinSet>>,
}

/// Returns the packed files and folders of a pin with a folder source.
pub(super) fn folders(pin: &Pin) -> Vec<String> {
    match &pin.source {
        Source::Folder { path, paths } if paths.is_empty() => {
            vec![path.to_string_lossy().into_owned()]
        }
        Source::Folder { path, paths } => {
            // One spelling: git does not write `./src` or `src/`.
            let plain = |part: &String| -> PathBuf {
                path.join(part).components().filter(|part| *part != Component::CurDir).collect()
            };
            paths.iter().map(|part| plain(part).to_string_lossy().into_owned()).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns whether a path is this file or folder, or inside it. git reports a submodule by the name
/// of its folder.
pub(super) fn below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
