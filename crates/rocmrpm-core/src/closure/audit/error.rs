//! The errors of auditing a closure. Findings are not errors.

use crate::error::{Diagnose, Diagnosis, IoError, Kind};
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
    /// A wheel's SBOM cannot be parsed.
    #[error("invalid SBOM in `{file}` of `{member}`: {}", visible(wrong))]
    Sbom {
        /// The member.
        member: String,
        /// Its wheel.
        file: String,
        /// What is wrong.
        wrong: String,
    },
    /// The run was interrupted.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file operation failed.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl Diagnose for AuditError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Osv(error) => error.diagnosis(),
            Self::Source(error) => error.diagnosis(),
            Self::Sbom { member, .. } => Kind::Config.with_help(format!(
                "choose another version: `rocmrpm closure --upgrade {member} --write`"
            )),
            Self::Process(error) => error.diagnosis(),
            Self::Io(error) => error.diagnosis(),
        }
    }
}
