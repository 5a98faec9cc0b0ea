//! Errors about paths that a workspace must not use.

use std::path::{Path, PathBuf};

use super::layout::MAX_FILE;
use crate::error::{Diagnose, Diagnosis, Kind};
use crate::ownership;

/// Why rocmrpm does not use a path of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// An input is a link that leads out of the workspace.
    #[error("`{file}` is a link to `{}`, outside the workspace", target.display())]
    Outside {
        /// The file, below the workspace.
        file: String,
        /// The target of the link.
        target: PathBuf,
    },
    /// An input is a device, a socket or a pipe.
    #[error("`{file}` is neither a file nor a folder")]
    Special {
        /// The file.
        file: String,
    },
    /// An input is too large.
    #[error("`{file}` has {size} bytes; the limit is {MAX_FILE} bytes")]
    TooLarge {
        /// The file.
        file: String,
        /// Its size.
        size: u64,
    },
    /// An output is a link that leads out of `build`.
    #[error("`{file}` is a link to `{}`; rocmrpm writes to and deletes in `build` and follows no links there", target.display())]
    Output {
        /// The link, below the workspace.
        file: String,
        /// The target of the link.
        target: PathBuf,
    },
    /// Another user owns the workspace.
    #[error("`{}` belongs to another user (user ID {owner}), who could make you run any program", path.display())]
    Owner {
        /// The workspace.
        root: PathBuf,
        /// Its folder or its manifest.
        path: PathBuf,
        /// The owner.
        owner: u32,
    },
}

impl Diagnose for PathError {
    fn diagnosis(&self) -> Diagnosis {
        let word = |path: &Path| crate::process::quote(&path.to_string_lossy());
        let file = |file: &str| word(Path::new(file));
        Kind::Config.with_help(match self {
            Self::Outside { file: name, .. } => {
                format!("copy the file into the workspace, or remove the link: rm {}", file(name))
            }
            Self::Special { file: name } | Self::TooLarge { file: name, .. } => {
                format!("remove it: rm {}", file(name))
            }
            Self::Output { file: name, target } => format!(
                "remove the link: rm {}; to build on another file system, mount it: \
                 mount --bind {} {}",
                file(name),
                word(target),
                file(name)
            ),
            Self::Owner { root, .. } => {
                format!("if you trust this user: export {}={}", ownership::TRUST, word(root))
            }
        })
    }
}
