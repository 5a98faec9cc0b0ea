//! The errors of turning a closure's members into packages; all affected members are reported
//! together.

use crate::error::{Diagnose, Diagnosis, Error, Kind};
use crate::process::ProcessError;
use crate::sources::SourceError;

/// A member that cannot become a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The member.
    pub member: String,
    /// What is wrong with it.
    pub problem: String,
    /// How to fix it.
    pub help: String,
}

impl Refused {
    pub(super) fn new(member: &str, problem: impl Into<String>, help: impl Into<String>) -> Self {
        Self { member: member.to_owned(), problem: problem.into(), help: help.into() }
    }

    /// Refuses a member whose name cannot be a component's.
    pub(super) fn name(member: &str) -> Self {
        let problem = "its name is not valid for a component";
        Self::new(member, problem, "choose another place for it")
    }
}

/// Refuses one member; `files` adds the component.toml.
impl From<Refused> for GenerateError {
    fn from(refused: Refused) -> Self {
        Self::Refused { file: String::new(), members: vec![refused] }
    }
}

/// Why the members of a closure cannot become packages.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// Some members cannot become packages.
    #[error("{}", match members.as_slice() {
        [one] => format!("cannot package `{}`: {}", one.member, one.problem),
        all => format!("cannot package {} members of the closure", all.len()),
    })]
    Refused {
        /// The component.toml with the decisions about members.
        file: String,
        /// The members.
        members: Vec<Refused>,
    },
    /// A file of a member is unavailable.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The machine's libraries could not be listed.
    #[error(transparent)]
    Machine(#[from] ProcessError),
    /// A member's wheel does not match its name.
    #[error("`{member}`: cannot use the wheel {file}: {reason}")]
    Wheel {
        /// The member.
        member: String,
        /// The wheel's name.
        file: String,
        /// Why.
        reason: String,
    },
    /// The files written for an earlier release cannot be read.
    #[error("{0}")]
    Earlier(Error),
}

impl Diagnose for GenerateError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Refused { file, members } => match members.as_slice() {
                [one] => Kind::Config.with_help(format!("{} ({file})", one.help)),
                members => {
                    let details = members.iter().map(|Refused { member, problem, help }| {
                        format!("{member}: {problem}; {help}")
                    });
                    Kind::Config
                        .with_help(format!("`[[closure.member]]` is in {file}"))
                        .with_details(details)
                }
            },
            Self::Source(error) => error.diagnosis(),
            Self::Machine(error) => error.diagnosis(),
            Self::Wheel { member, .. } => Kind::Config
                .with_help(format!(
                    "build it from source: `name = \"{member}\"` with `from = \"sdist\"` in `[[closure.member]]`"
                ))
                .with_help("or look for another version: `rocmrpm closure --write --upgrade`"),
            Self::Earlier(error) => error.diagnosis().clone(),
        }
    }
}
