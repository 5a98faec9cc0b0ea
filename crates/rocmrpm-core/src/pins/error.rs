//! What can go wrong with a change of a pin set.

use crate::error::{Diagnose, Diagnosis, IoError, Kind, Problems};
use crate::sources::SourceError;

/// Why a pin set could not be changed or compared.
#[derive(Debug, thiserror::Error)]
pub enum PinsError {
    /// A file has mistakes, or would have them.
    #[error(transparent)]
    Invalid(#[from] Problems),
    /// The pin set may not be written.
    #[error("`{file}` is read-only")]
    ReadOnly {
        /// The file.
        file: String,
    },
    /// Another process or an editor wrote the pin set.
    #[error("`{file}` changed since it was read; nothing is written")]
    ChangedMeanwhile {
        /// The file.
        file: String,
    },
    /// Nothing tells which releases there are.
    #[error("nothing tells which releases of `{component}` there are: {reason}")]
    NotKnown {
        /// The component.
        component: String,
        /// Why not.
        reason: String,
    },
    /// The component's source has no version that could be another.
    #[error("`{component}` cannot be updated: {reason}")]
    Fixed {
        /// The component.
        component: String,
        /// Why not.
        reason: String,
        /// What to do instead.
        help: String,
    },
    /// Two values would have one name.
    #[error("`{first}` and `{second}` would both be written as {name}")]
    Ambiguous {
        /// The first pin.
        first: String,
        /// The second pin.
        second: String,
        /// The variable's name.
        name: String,
    },
    /// No origin could be asked.
    #[error("none of the {origins} could be asked for newer releases")]
    NoneReached {
        /// How many there are, with the noun.
        origins: String,
    },
    /// Fetching.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The file system.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl Diagnose for PinsError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Invalid(problems) => problems.diagnosis(),
            Self::ReadOnly { file } => {
                Kind::Environment.with_help(format!("`chmod u+w {file}`, if it may be changed"))
            }
            Self::ChangedMeanwhile { .. } => Kind::Environment.with_help("run the same command again"),
            Self::NotKnown { component, .. } => {
                Kind::Usage.with_help(format!("name the version: `rocmrpm pins update {component} VERSION`"))
            }
            Self::Fixed { help, .. } => Kind::Usage.with_help(help),
            Self::Ambiguous { .. } => Kind::Config.into(),
            Self::NoneReached { .. } => {
                Kind::Network.with_help("check the network; `--json` lists the reason for each")
            }
            // A version from the command line is not a mistake in a file.
            Self::Source(error @ (SourceError::NoTag { .. } | SourceError::NoSdist { .. })) => {
                Diagnosis { kind: Kind::Usage, ..error.diagnosis() }
            }
            Self::Source(error) => error.diagnosis(),
            Self::Io(error) => error.diagnosis(),
        }
    }
}
