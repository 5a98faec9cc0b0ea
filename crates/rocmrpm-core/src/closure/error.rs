//! The errors of computing a component's closure. Errors of placing its members are in `place`.

use super::UpgradeError;
use super::collision::Collision;
use crate::error::{Diagnose, Diagnosis, Error, IoError, Kind, Problem};
use crate::packages::PackagesError;
use crate::process::ProcessError;
use crate::rpms::RpmError;
use crate::sources::SourceError;
use crate::uv;
use crate::wheel::WheelError;

/// The command that recreates a lock.
const RECREATE: &str = "run `rocmrpm closure --upgrade --write` to recreate it";

/// Why a closure could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum ClosureError {
    /// The requirements of a component are not stated anywhere.
    #[error("cannot determine the requirements of `{component}`: {reason}")]
    NoRequirements {
        /// The component.
        component: String,
        /// What rocmrpm searched for.
        reason: String,
    },
    /// A requirement of the component is invalid.
    #[error("{file}:{line}: invalid requirement `{text}`: {reason}")]
    Requirement {
        /// The file, below the source's top folder.
        file: String,
        /// The line.
        line: usize,
        /// The requirement.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The component's edits do not match its requirement files.
    #[error("the edits of `{component}` do not match its requirement files")]
    Edits {
        /// The component.
        component: String,
        /// The edits that do not match.
        problems: Vec<Problem>,
    },
    /// A member cannot be moved to another version.
    #[error(transparent)]
    Upgrade(#[from] UpgradeError),
    /// No set of versions satisfies all requirements.
    #[error(transparent)]
    Collision(#[from] Box<Collision>),
    /// uv could not reach an index.
    #[error("uv cannot reach a package index")]
    Unreachable {
        /// The last lines of its output, without passwords.
        reported: Vec<String>,
    },
    /// uv failed for a reason other than conflicting requirements.
    #[error("uv cannot resolve the closure")]
    Refused {
        /// The last lines of its output, without passwords.
        reported: Vec<String>,
    },
    /// uv's output cannot be parsed.
    #[error("unexpected output of `uv pip compile`: {0}")]
    Answer(String),
    /// A distribution has no file for the chroot.
    #[error(
        "{name} {version} has no wheel for Python {python} on {arch}, and no source distribution"
    )]
    NoFile {
        /// The distribution.
        name: String,
        /// Its version.
        version: String,
        /// The chroot's Python.
        python: String,
        /// The chroot's architecture.
        arch: String,
    },
    /// A distribution would come from the index although it must not.
    #[error("`{name}` must not come from a package index: {reason}")]
    Never {
        /// The distribution.
        name: String,
        /// Why not.
        reason: String,
        /// The chain of requirements from the component to it.
        chain: String,
    },
    /// The requirements of a distribution cannot be read.
    #[error("invalid METADATA of {of}: {wrong}")]
    Metadata {
        /// The distribution and its version.
        of: String,
        /// What is wrong.
        wrong: String,
    },
    /// The lock is damaged.
    #[error("{file}{}: not the lock file of a closure: {wrong}", if *line == 0 { String::new() } else { format!(":{line}") })]
    Lock {
        /// The file.
        file: String,
        /// The line; 0 for the whole file.
        line: usize,
        /// What is wrong.
        wrong: String,
    },
    /// The lock is for something else.
    #[error("{file} is for {has}, not for {wanted}")]
    OtherLock {
        /// The file.
        file: String,
        /// What the lock is for.
        has: String,
        /// What was requested.
        wanted: String,
    },
    /// The lock lacks something that its members require.
    #[error("{file} is inconsistent: {wrong}")]
    Torn {
        /// The file.
        file: String,
        /// What is wrong.
        wrong: String,
    },
    /// Downloads are forbidden, and the lock is outdated.
    #[error("the closure of `{component}` must be resolved, but `--offline` forbids it: {why}")]
    Offline {
        /// The component.
        component: String,
        /// Why the lock is outdated.
        why: String,
    },
    /// The index has a different file than the locked one.
    #[error("the index has `{file}` with sha256 {found}, but sha256 {expected} is locked")]
    LockedDigest {
        /// The file.
        file: String,
        /// The locked digest.
        expected: String,
        /// The index's digest.
        found: String,
    },
    /// A distribution is unavailable.
    #[error(transparent)]
    Source(SourceError),
    /// The packages of the release are unknown.
    #[error(transparent)]
    Packages(#[from] PackagesError),
    /// A built package cannot be read.
    #[error(transparent)]
    Rpm(#[from] RpmError),
    /// The distributions in a built package cannot be read.
    #[error(transparent)]
    Wheel(#[from] WheelError),
    /// The chroot's Python is unknown.
    #[error("{0}")]
    Environment(Error),
    /// The answer of a script that parses Python is invalid.
    #[error("unexpected output of the import check in `python3`: {0}")]
    Python(String),
    /// A program could not be run.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file operation failed.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl From<SourceError> for ClosureError {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::IndexDigest { file, expected, found } => Self::LockedDigest {
                file,
                expected: expected.to_string(),
                found: found.to_string(),
            },
            error => Self::Source(error),
        }
    }
}

/// What to check if uv's output is not as expected.
const OTHER_UV: &str = "this uv may be unsupported; install a release from 2026";

impl Diagnose for ClosureError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NoRequirements { .. } => Kind::Config.with_help(
                "list the requirement files in component.toml: `requirements = [\"requirements.txt\"]` in `[closure]`",
            ),
            Self::Requirement { .. } => {
                Kind::Config.with_help("fix or remove the line with an `[[edit]]` in component.toml")
            }
            Self::Edits { problems, .. } => Kind::Config
                .with_help("run `rocmrpm patch status` to check which edits apply")
                .with_problems(problems),
            Self::Upgrade(error) => error.diagnosis(),
            Self::Collision(collision) => collision.diagnosis(),
            Self::Unreachable { reported } => Kind::Network
                .with_help("check the network; a locked closure needs no index")
                .with_details(reported),
            Self::Refused { reported } => Kind::Environment.with_help(OTHER_UV).with_details(reported),
            Self::Answer(_) => Kind::Environment.with_help(OTHER_UV),
            Self::Python(_) => Kind::Environment.with_help("install CPython 3.10 or newer as `python3`"),
            Self::NoFile { name, .. } => Kind::Config
                .with_help(format!(
                    "add it as a component with `rocmrpm add {name}`, from a source that has files"
                ))
                .with_help(format!(
                    "or drop it: `[[closure.member]]` with `name = \"{name}\"` and `place = \"dropped\"`"
                )),
            Self::Never { name, chain, .. } => Kind::Config.with_help(format!("required by {chain}")).with_help(
                format!(
                    "make it a component of the stack, or drop it: `[[closure.member]]` with `name = \"{name}\"` and `place = \"dropped\"`"
                ),
            ),
            Self::Metadata { .. } => Kind::Network
                .with_help("list what the index has with `pip index versions`; it may be a damaged mirror"),
            Self::Lock { .. } | Self::OtherLock { .. } | Self::Torn { .. } => Kind::Config.with_help(
                "restore it from the workspace's history, or remove it and run `rocmrpm closure --write`",
            ),
            Self::Offline { .. } => {
                Kind::Network.with_help("run the same command once without `--offline`, with `--write`")
            }
            Self::LockedDigest { .. } => Kind::Network
                .with_help(
                    "released files never change: do not accept it unless you know why it did",
                )
                .with_help(RECREATE),
            Self::Source(error @ (SourceError::NoFile { .. } | SourceError::NoProject { .. })) => {
                Diagnosis { help: vec![RECREATE.into()], ..error.diagnosis() }
            }
            Self::Source(error) => error.diagnosis(),
            Self::Packages(error) => error.diagnosis(),
            Self::Rpm(error) => error.diagnosis(),
            Self::Wheel(error) => error.diagnosis(),
            Self::Environment(error) => error.diagnosis().clone(),
            Self::Process(error) => uv::diagnosis(error),
            Self::Io(error) => error.diagnosis(),
        }
    }
}
