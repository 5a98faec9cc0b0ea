//! Errors of changing a pin set.

use crate::error::{Diagnose, Diagnosis, IoError, Kind, Problems};
use crate::sources::SourceError;

/// Why a pin set could not be changed or compared.
#[derive(Debug, thiserror::Error)]
pub enum PinsError {
    /// A file has mistakes, or would have them.
    #[error(transparent)]
    Invalid(#[from] Problems),
    /// The pin set is read-only.
    #[error("`{file}` is read-only")]
    ReadOnly {
        /// The file.
        file: String,
    },
    /// The pin set changed on disk.
    #[error("`{file}` changed since it was read, so it was not overwritten")]
    ChangedMeanwhile {
        /// The file.
        file: String,
    },
    /// The releases cannot be listed.
    #[error("cannot list the releases of `{component}`: {reason}")]
    NotKnown {
        /// The component.
        component: String,
        /// The reason.
        reason: String,
    },
    /// The component's source cannot have another version.
    #[error("cannot update `{component}`: {reason}")]
    Fixed {
        /// The component.
        component: String,
        /// The reason.
        reason: String,
        /// The alternative.
        help: String,
    },
    /// Two values would have the same name.
    #[error("`{first}` and `{second}` would both be written as {name}")]
    Ambiguous {
        /// The first pin.
        first: String,
        /// The second pin.
        second: String,
        /// The variable's name.
        name: String,
    },
    /// No origin responded.
    #[error("cannot list newer releases: reached 0 of {origins}")]
    NoneReached {
        /// The number of origins, with the noun.
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
                Kind::Environment.with_help(format!("make it writable: chmod u+w {file}"))
            }
            Self::ChangedMeanwhile { .. } => Kind::Environment.with_help("run the command again"),
            Self::NotKnown { component, .. } => Kind::Usage
                .with_help(format!("name the version: rocmrpm pins update {component} VERSION")),
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
