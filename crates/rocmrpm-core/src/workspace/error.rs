//! Why a workspace could not be read.

use std::path::PathBuf;

use super::path_error::PathError;
use crate::error::{Diagnose, Diagnosis, Kind, Problems};
use crate::names::nearest;

/// Why a workspace could not be read.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// No folder above the start is a workspace.
    #[error("no `rocmrpm.toml` in `{}` or in any folder above it", start.display())]
    NotFound {
        /// Where the search began.
        start: PathBuf,
    },
    /// The start does not exist.
    #[error("the folder `{}` does not exist", start.display())]
    NoFolder {
        /// The folder as given.
        start: PathBuf,
    },
    /// Files of the workspace have mistakes.
    #[error(transparent)]
    Invalid(Problems),
    /// The command line names something that the workspace does not have.
    #[error("there is no {kind} `{name}` in this workspace")]
    Unknown {
        /// What kind of thing: `chroot`, `pin set`, `component`.
        kind: &'static str,
        /// The given name.
        name: String,
        /// The known names.
        known: Vec<String>,
    },
    /// The component exists, but the chosen pin set does not pin it.
    #[error("the component `{name}` has no pin in pins/{set}.toml")]
    Unpinned {
        /// The component.
        name: String,
        /// The pin set.
        set: String,
    },
    /// A file does not belong to the workspace.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A file cannot be read.
    #[error("cannot read the workspace")]
    Io(#[from] std::io::Error),
}

impl Diagnose for WorkspaceError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NotFound { .. } => Kind::Config.with_help(
                "create a workspace here with `rocmrpm init`, or use another one with `-C DIR`",
            ),
            Self::Invalid(problems) => problems.diagnosis(),
            Self::Path(error) => error.diagnosis(),
            Self::Unpinned { name, set } => Kind::Usage.with_help(format!(
                "add a `[{name}]` table to pins/{set}.toml, or choose another set with `--pins`"
            )),
            Self::Unknown { name, known, .. } => {
                Kind::Usage.with_help(match nearest(name, known.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if known.is_empty() => "add one with `rocmrpm add`".into(),
                    None => format!("expected one of: {}", known.join(", ")),
                })
            }
            Self::NoFolder { .. } => Kind::Usage.into(),
            Self::Io(error) => Diagnosis::of_io(error),
        }
    }
}
