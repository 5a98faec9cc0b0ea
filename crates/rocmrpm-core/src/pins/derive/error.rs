//! Why no set follows.

use crate::error::{Diagnose, Kind};
use crate::pins::upstream::{Oddity, Statement, readable};
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

/// Why no set follows.
#[derive(Debug, thiserror::Error)]
pub enum DeriveError {
    /// Nobody knows this component's files.
    #[error("nothing can be derived from `{name}`: none of its files are known")]
    NotReadable {
        /// The component.
        name: String,
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
    /// Nobody says where a component comes from.
    #[error("neither the base set nor the table of origins says where `{name}` comes from")]
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
    fn kind(&self) -> Kind {
        match self {
            Self::NotReadable { .. } | Self::Choice { .. } => Kind::Usage,
            Self::Contradictions { .. } | Self::Odd(_) => Kind::Findings,
            Self::Unreachable(_) => Kind::Network,
            Self::NoOrigin { .. } => Kind::Config,
            Self::Source(error) => error.kind(),
        }
    }

    fn help(&self) -> Vec<String> {
        match self {
            Self::NotReadable { .. } => vec![format!("begin with one of {}", readable().join(", "))],
            Self::Choice { near, .. } => near.iter().map(|name| format!("did you mean `{name}`?")).collect(),
            Self::Contradictions { from, list } => {
                let choices = list.iter().filter_map(|one| {
                    let first = one.statements.iter().find_map(|statement| statement.says.version())?;
                    Some(format!(" --choose {}={first}", one.about))
                });
                let choices: String = choices.collect();
                vec![format!(
                    "choose: run it again with `{}`, or begin with another version than {from}",
                    choices.trim_start()
                )]
            }
            Self::Odd(list) => {
                let mut about: Vec<_> = list.iter().flat_map(|odd| odd.about.clone()).collect();
                about.sort();
                about.dedup();
                vec![format!("say the versions yourself: {}", choose_all(&about))]
            }
            Self::Unreachable(_) => {
                vec!["run the same command again where these sources can be reached".into()]
            }
            Self::NoOrigin { name } => vec![format!("add a table `[{name}]` with a source to the base set")],
            Self::Source(error) => error.help(),
        }
    }

    fn details(&self) -> Vec<String> {
        match self {
            Self::Contradictions { list, .. } => {
                list.iter().flat_map(|one| one.statements.iter().map(|s| told(&one.about, s))).collect()
            }
            Self::Odd(list) => list.iter().map(ToString::to_string).collect(),
            Self::Unreachable(list) => list
                .iter()
                .flat_map(|one| {
                    let head = format!("{}: {}", one.source, one.reason);
                    std::iter::once(head).chain(one.values.iter().map(|value| format!("  {value}")))
                })
                .collect(),
            Self::Source(error) => error.details(),
            _ => Vec::new(),
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
