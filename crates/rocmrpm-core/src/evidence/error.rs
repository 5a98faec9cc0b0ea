//! Why evidence cannot be read, exchanged, or trusted.

use std::path::PathBuf;

use crate::error::{Diagnose, Diagnosis, IoError, Kind};
use crate::process::quote;
use crate::rpms::signing::SigningError;

/// An error of evidence.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// A record on disk cannot be used.
    #[error("`{}` is not the record that belongs there: {why}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A file with exported evidence cannot be used.
    #[error("`{}` is not exported evidence: {why}", file.display())]
    NotEvidence {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The evidence has no valid signature.
    #[error("`{}` is not signed by the key in `{}`", file.display(), key.display())]
    Unsigned {
        /// The file.
        file: PathBuf,
        /// The public key.
        key: PathBuf,
    },
    /// The workspace has no key to sign with.
    #[error("evidence is exported signed, and rocmrpm.toml has no `[signing] key`")]
    NoKey,
    /// A signature could not be made or verified.
    #[error(transparent)]
    Signing(#[from] SigningError),
    /// A file operation failed.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl Diagnose for EvidenceError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Damaged { file, .. } => {
                let folder = file.parent().unwrap_or(file);
                let folder = quote(&folder.to_string_lossy());
                Kind::Environment.with_help(format!(
                    "restore the folder from a copy, or start a new chain: mv {folder} {folder}.old"
                ))
            }
            Self::NotEvidence { .. } => {
                Kind::Usage.with_help("pass a file that `rocmrpm evidence export` wrote")
            }
            Self::Unsigned { key, .. } => {
                let key = quote(&key.to_string_lossy());
                Kind::Findings.with_help(format!(
                    "get the file and its `.asc` again, or the right key; `gpg --show-keys {key}` shows this one"
                ))
            }
            Self::NoKey => Kind::Config.with_help(
                "add `[signing]` with `key = \"FINGERPRINT\"` to rocmrpm.toml, or pass `--unsigned`",
            ),
            Self::Signing(error) => error.diagnosis(),
            Self::Io(error) => error.diagnosis(),
        }
    }
}
