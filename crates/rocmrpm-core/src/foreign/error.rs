//! Why an index cannot have the wheels that its own wheels require, each with its help.

use crate::closure::ClosureError;
use crate::digest::Sha256;
use crate::error::{Diagnose, Diagnosis, IoError, Kind};
use crate::process::ProcessError;
use crate::sources::SourceError;
use crate::uv;

/// Why an index cannot be enough by itself.
#[derive(Debug, thiserror::Error)]
pub enum ForeignError {
    /// A wheel cannot be read.
    #[error("cannot read {file}: {reason}")]
    Wheel {
        /// The file name of the wheel.
        file: String,
        /// The problem.
        reason: String,
    },
    /// The lock is for other requirements, and the network may not be used.
    #[error("{lock} is missing or for other requirements")]
    Outdated {
        /// The file.
        lock: String,
    },
    /// uv found no solution or could not query an index.
    #[error("uv cannot resolve what the stack's wheels require from outside")]
    Resolve {
        /// The last lines of uv's output, without passwords.
        reported: Vec<String>,
        /// Whether an index was unreachable.
        network: bool,
    },
    /// An index has another file under the name of a locked one.
    #[error("{file} has sha256 {found}, but the lock of the index has {locked}")]
    Changed {
        /// The file name of the wheel.
        file: String,
        /// The digest in the lock.
        locked: Sha256,
        /// The digest on the index.
        found: Sha256,
    },
    /// Wheels that the index may not have.
    #[error("the index may not have {}", crate::style::count(refused.len(), "wheel"))]
    Refused {
        /// The distribution, its version, and the reason of each.
        refused: Vec<String>,
    },
    /// A distribution is left out, but a foreign wheel requires it.
    #[error("`{name}` is left out of the index, but a wheel of others requires it")]
    LeftOut {
        /// The distribution.
        name: String,
    },
    /// The lock is invalid.
    #[error(transparent)]
    Closure(#[from] ClosureError),
    /// A wheel could not be fetched.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// uv was not found or could not run.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file system operation failed.
    #[error(transparent)]
    Io(#[from] IoError),
}

/// The help for a file that is not the locked one.
const CHANGED: &str = "if upstream replaced the file and you have checked the new one, delete the lock of the index \
     in pins/ and run `rocmrpm index`";

impl Diagnose for ForeignError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Wheel { .. } => {
                Kind::Config.with_help("run `rocmrpm wheel` to make the stack's wheels again")
            }
            Self::Outdated { .. } => Kind::Network
                .with_help("run `rocmrpm index` with access to the index, and commit the file"),
            Self::Resolve { network: true, reported } => Kind::Network
                .with_help("run the same command again later")
                .with_details(reported),
            Self::Resolve { reported, .. } => Kind::Config
                .with_help(
                    "add an index that has the wheels to `[index] outside` in rocmrpm.toml, or build \
                     what is missing as a component",
                )
                .with_details(reported),
            Self::Changed { .. } => Kind::Network.with_help(CHANGED),
            Self::Refused { refused } => Kind::Config
                .with_help(
                    "decide in rocmrpm.toml: `[[index.foreign]]` with `name`, `reason`, and \
                     `license = \"SPDX\"` or `leave-out = true`",
                )
                .with_details(refused),
            Self::LeftOut { name } => Kind::Config.with_help(format!(
                "remove the `[[index.foreign]]` table of `{name}` from rocmrpm.toml"
            )),
            Self::Closure(error) => error.diagnosis(),
            Self::Source(
                error @ (SourceError::Digest { .. } | SourceError::IndexDigest { .. }),
            ) => Diagnosis { help: vec![CHANGED.into()], ..error.diagnosis() },
            Self::Source(error) => error.diagnosis(),
            Self::Process(error) => uv::diagnosis(error),
            Self::Io(error) => error.diagnosis(),
        }
    }
}
