//! Defines the errors of publishing and their help texts.

use crate::error::{Diagnose, Diagnosis, IoError, Kind};
use crate::index::IndexError;
use crate::rpms::RpmError;
use crate::rpms::signing::SigningError;

/// Errors that occur while publishing a repository.
#[derive(Debug, thiserror::Error)]
pub enum PublicationError {
    /// The destination contains a repository that rocmrpm did not create.
    #[error("there is a repository in {place} that rocmrpm did not publish")]
    Foreign {
        /// The destination.
        place: String,
    },
    /// Our document in the repository is invalid, or a file that it names is missing.
    #[error("the repository in {place} is damaged: {reason}")]
    Damaged {
        /// The destination.
        place: String,
        /// The problem.
        reason: String,
    },
    /// A package with the same name but different content is already published.
    #[error("{file} in {place} is a different build than the local one")]
    Republished {
        /// The package's file name.
        file: String,
        /// The destination.
        place: String,
    },
    /// The published repository is unsigned or signed with another key.
    #[error("the repository in {place} is {there}, but this one is {here}")]
    OtherKey {
        /// The destination.
        place: String,
        /// The signer of the published repository.
        there: String,
        /// The signer of the local repository.
        here: String,
    },
    /// A package was built from uncommitted changes.
    #[error("{file} was built from uncommitted changes and is not reproducible")]
    Dirty {
        /// The package's file name.
        file: String,
    },
    /// A package has a placeholder, or a license that is not an SPDX expression.
    #[error("{file} is not finished: {reason}")]
    Unfinished {
        /// The package's file name.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// A package of an earlier publication was deleted.
    #[error("{place} no longer has {file}")]
    Gone {
        /// The package's file name.
        file: String,
        /// The destination.
        place: String,
    },
    /// There are no packages to publish.
    #[error("there is nothing to publish: no component has results")]
    Nothing,
    /// Packages or metadata could not be read or created.
    #[error(transparent)]
    Rpm(#[from] RpmError),
    /// The metadata could not be signed.
    #[error(transparent)]
    Signing(#[from] SigningError),
    /// The destination failed to read or write.
    #[error(transparent)]
    Place(#[from] IndexError),
    /// A local file system operation failed.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl Diagnose for PublicationError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Foreign { .. } => {
                Kind::Usage.with_help("publish to another folder, or remove the existing repository")
            }
            Self::Damaged { .. } => Kind::Environment.with_help("publish to another folder"),
            Self::Republished { .. } => Kind::Usage.with_help(
                "published files never change: commit the change, which raises Release, and build again",
            ),
            Self::OtherKey { .. } => Kind::Usage.with_help(
                "a published repository keeps its key: publish to a new folder, and set \
                 `[repository] url` to it",
            ),
            Self::Dirty { .. } => Kind::Usage.with_help(
                "commit the changes and build again, or pass `--allow-dirty` to publish it for testing",
            ),
            Self::Unfinished { .. } => Kind::Findings.with_help(
                "correct the tag in the component's template, and build again; `rocmrpm lint` shows the place",
            ),
            Self::Gone { .. } => Kind::Findings.with_help(
                "choose a later publication, or pin the earlier version and build it again; `keep` in \
                 `[repository]` decides how many builds stay",
            ),
            Self::Nothing => Kind::Usage.with_help("run `rocmrpm build` first"),
            Self::Rpm(error) => error.diagnosis(),
            Self::Signing(error) => error.diagnosis(),
            Self::Place(error) => error.diagnosis(),
            Self::Io(error) => error.diagnosis(),
        }
    }
}
