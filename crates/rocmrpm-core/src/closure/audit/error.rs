//! Why a closure could not be audited.

use crate::error::{Diagnose, IoError, Kind};
use crate::osv::OsvError;
use crate::process::ProcessError;
use crate::sources::SourceError;
use crate::text::visible;

/// Why a closure could not be audited.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// Advisories could not be read.
    #[error(transparent)]
    Osv(#[from] OsvError),
    /// A wheel or a page of the index could not be fetched.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A wheel's SBOM cannot be read.
    #[error("the SBOM in `{file}` of `{member}` cannot be used: {}", visible(wrong))]
    Sbom {
        /// The member.
        member: String,
        /// Its wheel.
        file: String,
        /// What is wrong.
        wrong: String,
    },
    /// The user asked to stop.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The file system refuses.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl Diagnose for AuditError {
    fn kind(&self) -> Kind {
        match self {
            Self::Osv(error) => error.kind(),
            Self::Source(error) => error.kind(),
            Self::Sbom { .. } => Kind::Config,
            Self::Process(error) => error.kind(),
            Self::Io(error) => error.kind(),
        }
    }

    fn help(&self) -> Vec<String> {
        match self {
            Self::Osv(error) => error.help(),
            Self::Source(error) => error.help(),
            Self::Sbom { member, .. } => {
                vec![format!("take another version of it: `rocmrpm closure --upgrade {member} --write`")]
            }
            Self::Process(error) => error.help(),
            Self::Io(error) => error.help(),
        }
    }
}
