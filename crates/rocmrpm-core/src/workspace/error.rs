//! Why a workspace could not be read.

use std::path::PathBuf;

use super::path_error::PathError;
use crate::error::{Diagnose, Diagnosis, Kind, Problems};
use crate::names::nearest;

/// Why a workspace could not be read.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// There is none.
    #[error("there is no `rocmrpm.toml` in `{}` or in any folder above it", start.display())]
    NotFound {
        /// Where the search began.
        start: PathBuf,
    },
    /// There is not even such a folder.
    #[error("there is no folder `{}`", start.display())]
    NoFolder {
        /// The folder as given.
        start: PathBuf,
    },
    /// Files of the workspace are wrong.
    #[error(transparent)]
    Invalid(Problems),
    /// The command line names something that the workspace does not have.
    #[error("there is no {kind} `{name}` in this workspace")]
    Unknown {
        /// What kind of thing: `chroot`, `pin set`, `component`.
        kind: &'static str,
        /// The name as given.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The component is there, but the chosen pin set does not pin it.
    #[error("the component `{name}` has no pin in pins/{set}.toml")]
    Unpinned {
        /// The component.
        name: String,
        /// The pin set.
        set: String,
    },
    /// A file is not the workspace's own.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A file cannot be read.
    #[error("cannot read the workspace")]
    Io(#[from] std::io::Error),
}

impl Diagnose for WorkspaceError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NotFound { .. } => {
                Kind::Config.with_help("`rocmrpm init` makes a workspace here; `-C DIR` uses one elsewhere")
            }
            Self::Invalid(problems) => problems.diagnosis(),
            Self::Path(error) => error.diagnosis(),
            Self::Unpinned { name, set } => Kind::Usage.with_help(format!(
                "add a table `[{name}]` to pins/{set}.toml, or use another set with `--pins`"
            )),
            Self::Unknown { name, known, .. } => {
                Kind::Usage.with_help(match nearest(name, known.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("there is: {}", known.join(", ")),
                })
            }
            Self::NoFolder { .. } => Kind::Usage.into(),
            Self::Io(error) => Diagnosis::of_io(error),
        }
    }
}
