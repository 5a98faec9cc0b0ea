//! Errors of deriving a pin set.

use crate::error::{Diagnose, Diagnosis, Error, Kind};
use crate::pins::upstream::{Oddity, Statement};
use crate::sources::SourceError;

/// Places where upstream's files name different versions of one component.
#[derive(Debug, Clone, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Contradiction {
    /// The component.
    pub about: String,
    /// All statements, in the order of the files.
    pub statements: Vec<Statement>,
}

/// A source that could not be fetched, and the values that it would have provided.
#[derive(Debug, Clone, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unreachable {
    /// The component and its version.
    pub source: String,
    /// The values, each with the file that would have provided it.
    pub values: Vec<String>,
    /// The reason.
    pub reason: String,
    /// The kind of the reason.
    #[serde(skip)]
    kind: Kind,
    /// The help for the reason.
    #[serde(skip)]
    help: Vec<String>,
}

impl Unreachable {
    /// Returns the source whose fetch failed with this error, if other sources can still be fetched:
    /// its server failed or does not have it. Otherwise, returns the error.
    pub(super) fn new(source: String, values: Vec<String>, error: Error) -> Result<Self, Error> {
        let is_absent = error.downcast_ref().is_some_and(SourceError::is_absent);
        if error.kind() != Kind::Network && !is_absent {
            return Err(error);
        }
        let causes: String = error.causes().iter().map(|cause| format!(": {cause}")).collect();
        let (kind, help) = (error.kind(), error.help().to_vec());
        Ok(Self { source, values, reason: format!("{error}{causes}"), kind, help })
    }

    /// Returns the lines that describe sources.
    fn lines(list: &[Self]) -> impl Iterator<Item = String> {
        list.iter().flat_map(|one| {
            let head = format!("{}: {}", one.source, one.reason);
            std::iter::once(head).chain(one.values.iter().map(|value| format!("  {value}")))
        })
    }
}

/// Why a set could not be derived.
#[derive(Debug, thiserror::Error)]
pub enum DeriveError {
    /// No file of this component is declared.
    #[error("cannot derive a set from `{name}`: upstreams.toml declares none of its files")]
    NotReadable {
        /// The component.
        name: String,
        /// The components with declared files.
        known: String,
    },
    /// A choice for a component that is not derived.
    #[error("`--choose {name}=...` names a component that is not derived")]
    Choice {
        /// The component.
        name: String,
        /// A similar name.
        near: Option<String>,
    },
    /// Upstream's files disagree.
    #[error("upstream's files disagree about {}{}", names(.list), also(.unreachable))]
    Contradictions {
        /// The version to derive from, as on the command line.
        from: String,
        /// The contradictions.
        list: Vec<Contradiction>,
        /// Sources that could not be fetched.
        unreachable: Vec<Unreachable>,
    },
    /// Files have an unexpected form.
    #[error(
        "upstream's files have an unexpected form, so the versions in them are unknown{}",
        also(.unreachable)
    )]
    Odd {
        /// The files.
        list: Vec<Oddity>,
        /// Sources that could not be fetched.
        unreachable: Vec<Unreachable>,
    },
    /// Sources are unreachable.
    #[error("cannot fetch {}, so the set cannot be derived", sources(.0))]
    Unreachable(Vec<Unreachable>),
    /// The origin of a component is unknown.
    #[error("neither the base set nor upstreams.toml has a source for `{name}`")]
    NoOrigin {
        /// The component.
        name: String,
    },
    /// An error of a source.
    #[error(transparent)]
    Source(Box<SourceError>),
}

fn names(list: &[Contradiction]) -> String {
    list.iter().map(|one| one.about.as_str()).collect::<Vec<_>>().join(", ")
}

fn sources(list: &[Unreachable]) -> String {
    let names: Vec<&str> = list.iter().map(|one| one.source.as_str()).collect();
    let noun = if names.len() == 1 { "source" } else { "sources" };
    format!("the {noun} of {}", names.join(", "))
}

fn also(unreachable: &[Unreachable]) -> String {
    if unreachable.is_empty() {
        return String::new();
    }
    format!("; also, rocmrpm cannot fetch {}", sources(unreachable))
}

impl Diagnose for DeriveError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NotReadable { name, known } if known.is_empty() => Kind::Usage.with_help(
                format!("declare them in upstreams.toml: `[[file]]` with `of = \"{name}\"`"),
            ),
            Self::NotReadable { known, .. } => {
                Kind::Usage.with_help(format!("derive from one of {known}"))
            }
            Self::Choice { near, .. } => Diagnosis::from(Kind::Usage)
                .with_help_lines(near.iter().map(|name| format!("did you mean `{name}`?"))),
            Self::Contradictions { from, list, unreachable } => {
                let choices = list.iter().filter_map(|one| {
                    let first =
                        one.statements.iter().find_map(|statement| statement.claim.version())?;
                    Some(format!(" --choose {}={first}", one.about))
                });
                let choices: String = choices.collect();
                let statements = |one: &Contradiction| -> Vec<String> {
                    one.statements.iter().map(|s| detail(&one.about, s)).collect()
                };
                Kind::Findings
                    .with_help(format!(
                        "run it again with `{}`, or derive from a version other than {from}",
                        choices.trim_start()
                    ))
                    .with_details(list.iter().flat_map(statements))
                    .with_details(Unreachable::lines(unreachable))
            }
            Self::Odd { list, unreachable } => {
                let mut about: Vec<_> = list.iter().flat_map(|odd| odd.about.clone()).collect();
                about.sort();
                about.dedup();
                Kind::Findings
                    .with_help(format!("run it again with {}", choose_all(&about)))
                    .with_details(list.iter().map(ToString::to_string))
                    .with_details(Unreachable::lines(unreachable))
            }
            Self::Unreachable(list) => {
                let network = list.iter().any(|one| one.kind == Kind::Network);
                let kind = if network { Kind::Network } else { Kind::Config };
                let retry = network.then_some("check the network, then run the command again");
                let absent = list.iter().filter(|one| one.kind != Kind::Network);
                // The second line is about the pin, which does not exist yet.
                let help =
                    absent.filter_map(|one| Some(format!("{}: {}", one.source, one.help.first()?)));
                Diagnosis::from(kind)
                    .with_help_lines(retry)
                    .with_help_lines(help)
                    .with_details(Unreachable::lines(list))
            }
            Self::NoOrigin { name } => Kind::Config
                .with_help(format!("add a `[{name}]` table with a source to the base set")),
            Self::Source(error) => error.diagnosis(),
        }
    }
}

fn choose_all(about: &[String]) -> String {
    let choices: Vec<_> = about.iter().map(|name| format!("`--choose {name}=VERSION`")).collect();
    choices.join(", ")
}

fn detail(about: &str, statement: &Statement) -> String {
    format!("{}: {about}: {}", statement.place, statement.written)
}
