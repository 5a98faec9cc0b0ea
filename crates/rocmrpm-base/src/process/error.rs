//! Why running a program failed.

use std::time::Duration;

use super::packages::install_help;
use crate::duration;
use crate::error::{Diagnose, Diagnosis, Kind};
use crate::stop;
use crate::trust::TrustError;

/// Why a child process failed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The program is not installed.
    #[error("the program `{program}` is not installed")]
    Missing {
        /// The name searched for on `PATH`.
        program: String,
    },
    /// The program could not be started or waited for.
    #[error("cannot run `{program}`")]
    Start {
        /// The program.
        program: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The program did not succeed.
    #[error("`{program}` {how}{}", if tail.is_empty() { String::new() } else { format!(": {tail}") })]
    Failed {
        /// The program.
        program: String,
        /// How it ended, such as `exited with 22`.
        how: String,
        /// Its exit code, unless a signal ended it.
        code: Option<i32>,
        /// The last lines of its stderr or its log.
        tail: String,
    },
    /// The program exceeded its time limit and was killed.
    #[error("`{program}` exceeded its time limit of {}", duration::shown(*allowed))]
    TimedOut {
        /// The program.
        program: String,
        /// The time limit.
        allowed: Duration,
    },
    /// The program would run code that the user has not trusted.
    #[error(transparent)]
    Trust(TrustError),
    /// A request to stop ended it.
    #[error("{}", stop::Stopped)]
    Stopped,
}

impl Diagnose for ProcessError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Missing { program } => Kind::MissingTool.with_help(install_help(program)),
            Self::Start { .. } | Self::Failed { .. } => Kind::Environment.into(),
            Self::TimedOut { .. } => Kind::Timeout.into(),
            Self::Trust(error) => error.diagnosis(),
            Self::Stopped => Kind::Interrupted.with_help(stop::HELP),
        }
    }
}
