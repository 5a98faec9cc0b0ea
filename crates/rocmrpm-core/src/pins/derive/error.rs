//! Why no set follows.

use crate::error::{Diagnose, Diagnosis, Error, Kind};
use crate::pins::upstream::{Oddity, Statement};
use crate::sources::SourceError;

/// Places where upstream's files name different versions of one component.
#[derive(Debug, Clone, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Contradiction {
    /// The component.
    pub about: String,
    /// Everything that is said, in the order of the files.
    pub statements: Vec<Statement>,
}

/// A source that could not be had, and what would have come from it.
#[derive(Debug, Clone, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unreachable {
    /// The component and its version.
    pub source: String,
    /// The values, each with the file that it would have come from.
    pub values: Vec<String>,
    /// Why.
    pub reason: String,
}

impl Unreachable {
    pub(super) fn new(source: String, values: Vec<String>, error: &Error) -> Self {
        let causes: String = error.causes().iter().map(|cause| format!(": {cause}")).collect();
        Self { source, values, reason: format!("{error}{causes}") }
    }
}

/// Why no set follows.
#[derive(Debug, thiserror::Error)]
pub enum DeriveError {
    /// No file of this component is declared.
    #[error("nothing can be derived from `{name}`: upstreams.toml declares none of its files")]
    NotReadable {
        /// The component.
        name: String,
        /// The components that have files there.
        known: String,
    },
    /// A choice about something that is not derived.
    #[error("`--choose {name}=...` chooses a version of something that is not derived")]
    Choice {
        /// The component.
        name: String,
        /// A name that is nearly the same.
        near: Option<String>,
    },
    /// Upstream contradicts itself.
    #[error("upstream's files contradict each other about {}", names(.list))]
    Contradictions {
        /// What was begun with, as on the command line.
        from: String,
        /// About what.
        list: Vec<Contradiction>,
    },
    /// Files are not as they should be.
    #[error("upstream's files are not as known from other versions, so what they say is not known")]
    Odd(Vec<Oddity>),
    /// Sources cannot be had.
    #[error("{} cannot be had, so not all of the set can be derived", sources(.0))]
    Unreachable(Vec<Unreachable>),
    /// The origin of a component is unknown.
    #[error("neither the base set nor upstreams.toml states where `{name}` comes from")]
    NoOrigin {
        /// The component.
        name: String,
    },
    /// A source is not what it should be.
    #[error(transparent)]
    Source(Box<SourceError>),
}

fn names(list: &[Contradiction]) -> String {
    list.iter().map(|one| one.about.as_str()).collect::<Vec<_>>().join(", ")
}

fn sources(list: &[Unreachable]) -> String {
    list.iter().map(|one| format!("the source of {}", one.source)).collect::<Vec<_>>().join(" and ")
}

impl Diagnose for DeriveError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NotReadable { name, known } if known.is_empty() => Kind::Usage
                .with_help(format!("declare them in upstreams.toml: `[[file]]` with `of = \"{name}\"`")),
            Self::NotReadable { known, .. } => Kind::Usage.with_help(format!("begin with one of {known}")),
            Self::Choice { near, .. } => Diagnosis::from(Kind::Usage)
                .with_help_lines(near.iter().map(|name| format!("did you mean `{name}`?"))),
            Self::Contradictions { from, list } => {
                let choices = list.iter().filter_map(|one| {
                    let first = one.statements.iter().find_map(|statement| statement.says.version())?;
                    Some(format!(" --choose {}={first}", one.about))
                });
                let choices: String = choices.collect();
                let statements = |one: &Contradiction| -> Vec<String> {
                    one.statements.iter().map(|s| told(&one.about, s)).collect()
                };
                Kind::Findings
                    .with_help(format!(
                        "choose: run it again with `{}`, or begin with another version than {from}",
                        choices.trim_start()
                    ))
                    .with_details(list.iter().flat_map(statements))
            }
            Self::Odd(list) => {
                let mut about: Vec<_> = list.iter().flat_map(|odd| odd.about.clone()).collect();
                about.sort();
                about.dedup();
                Kind::Findings
                    .with_help(format!("say the versions yourself: {}", choose_all(&about)))
                    .with_details(list.iter().map(ToString::to_string))
            }
            Self::Unreachable(list) => {
                let lines = list.iter().flat_map(|one| {
                    let head = format!("{}: {}", one.source, one.reason);
                    std::iter::once(head).chain(one.values.iter().map(|value| format!("  {value}")))
                });
                Kind::Network
                    .with_help("run the same command again where these sources can be reached")
                    .with_details(lines)
            }
            Self::NoOrigin { name } => {
                Kind::Config.with_help(format!("add a table `[{name}]` with a source to the base set"))
            }
            Self::Source(error) => error.diagnosis(),
        }
    }
}

fn choose_all(about: &[String]) -> String {
    let choices: Vec<_> = about.iter().map(|name| format!("`--choose {name}=VERSION`")).collect();
    choices.join(", ")
}

fn told(about: &str, statement: &Statement) -> String {
    format!("{}: {about}: {}", statement.place, statement.written)
}
