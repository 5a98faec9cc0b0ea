//! What can go wrong with a change of a pin set.

use crate::error::{Diagnose, IoError, Kind, Problem, Problems};
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
    fn kind(&self) -> Kind {
        match self {
            Self::Invalid(problems) => problems.kind(),
            Self::ReadOnly { .. } | Self::ChangedMeanwhile { .. } => Kind::Environment,
            Self::NotKnown { .. } | Self::Fixed { .. } => Kind::Usage,
            Self::Ambiguous { .. } => Kind::Config,
            Self::NoneReached { .. } => Kind::Network,
            // A version from the command line is nothing that a file has wrong.
            Self::Source(SourceError::NoTag { .. } | SourceError::NoSdist { .. }) => Kind::Usage,
            Self::Source(error) => error.kind(),
            Self::Io(error) => error.kind(),
        }
    }

    fn help(&self) -> Vec<String> {
        match self {
            Self::ReadOnly { file } => vec![format!("`chmod u+w {file}`, if it may be changed")],
            Self::ChangedMeanwhile { .. } => vec!["run the same command again".into()],
            Self::NotKnown { component, .. } => {
                vec![format!("name the version: `rocmrpm pins update {component} VERSION`")]
            }
            Self::Fixed { help, .. } => vec![help.clone()],
            Self::NoneReached { .. } => vec!["is the network there? `--json` says of each why".into()],
            Self::Source(error) => error.help(),
            Self::Io(error) => error.help(),
            Self::Invalid(_) | Self::Ambiguous { .. } => Vec::new(),
        }
    }

    fn problems(&self) -> &[Problem] {
        match self {
            Self::Invalid(problems) => problems.problems(),
            _ => &[],
        }
    }
}
