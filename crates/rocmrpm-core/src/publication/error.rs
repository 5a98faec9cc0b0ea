//! Why a repository was not published, and how to fix it.

use crate::error::{Diagnose, Diagnosis, IoError, Kind};
use crate::index::IndexError;
use crate::rpms::RpmError;
use crate::rpms::signing::SigningError;

/// Why a repository was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublicationError {
    /// There is a repository that somebody else made.
    #[error("there is a repository in {place} that rocmrpm did not publish")]
    Foreign {
        /// The destination.
        place: String,
    },
    /// Our document there is not as we write it, or what it names is not there.
    #[error("the repository in {place} is damaged: {reason}")]
    Damaged {
        /// The destination.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// A package of this name is published, with other content.
    #[error("{file} is in {place} already, and is another build than the one here")]
    Republished {
        /// The package's file name.
        file: String,
        /// The destination.
        place: String,
    },
    /// What is there was signed with another key, or by nobody.
    #[error("the repository in {place} is {there}, this one is {here}")]
    OtherKey {
        /// The destination.
        place: String,
        /// Who signed what is there.
        there: String,
        /// Who signed what is here.
        here: String,
    },
    /// A package was built from what was not committed.
    #[error("{file} is of a dirty build: nobody can build it again")]
    Dirty {
        /// The package's file name.
        file: String,
    },
    /// There are no packages.
    #[error("there is nothing to publish: no component has results")]
    Nothing,
    /// Packages or metadata cannot be read or made.
    #[error(transparent)]
    Rpm(#[from] RpmError),
    /// The metadata cannot be signed.
    #[error(transparent)]
    Signing(#[from] SigningError),
    /// The place did not take or give what it should.
    #[error(transparent)]
    Place(#[from] IndexError),
    /// This machine's file system refuses.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl Diagnose for PublicationError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Foreign { .. } => {
                Kind::Usage.with_help("publish to another folder, or remove what is there")
            }
            Self::Damaged { .. } => Kind::Environment
                .with_help("publish to another folder; users of this one keep what can still be read"),
            Self::Republished { .. } => Kind::Usage.with_help(
                "what is published never changes: commit the change, so that Release rises, and build again",
            ),
            Self::OtherKey { .. } => Kind::Usage.with_help(
                "what is published never changes, and neither does its key: publish to a new folder, and \
                 let `[repository] url` name it",
            ),
            Self::Dirty { .. } => Kind::Usage.with_help(
                "commit the changes and build again; `--allow-dirty` publishes it all the same, to try it",
            ),
            Self::Nothing => Kind::Usage.with_help("`rocmrpm build` builds them"),
            Self::Rpm(error) => error.diagnosis(),
            Self::Signing(error) => error.diagnosis(),
            Self::Place(error) => error.diagnosis(),
            Self::Io(error) => error.diagnosis(),
        }
    }
}
