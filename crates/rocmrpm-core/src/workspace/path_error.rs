//! Why a path of a workspace is not used.

use std::path::{Path, PathBuf};

use super::layout::MAX_FILE;
use crate::error::{Diagnose, Diagnosis, Kind};
use crate::ownership;

/// Why a file of the workspace is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A file that would be read lies elsewhere.
    #[error("`{file}` is a link to `{}`, outside the workspace", target.display())]
    Outside {
        /// The file, below the workspace.
        file: String,
        /// What it leads to.
        target: PathBuf,
    },
    /// A file that would be read is a device, a socket or a pipe.
    #[error("`{file}` is neither a file nor a folder")]
    Special {
        /// The file.
        file: String,
    },
    /// A file that would be read is too large.
    #[error("`{file}` has {size} bytes; at most {MAX_FILE} are read")]
    TooLarge {
        /// The file.
        file: String,
        /// Its size.
        size: u64,
    },
    /// Something that would be written or deleted lies elsewhere.
    #[error("`{file}` is a link to `{}`; rocmrpm writes to and deletes in `build` and follows no links there", target.display())]
    Output {
        /// The link, below the workspace.
        file: String,
        /// What it leads to.
        target: PathBuf,
    },
    /// Another user wrote the workspace.
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
                format!("put the file itself into the workspace, or remove the link: rm {}", file(name))
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
