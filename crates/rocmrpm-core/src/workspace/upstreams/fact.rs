//! `[[file.fact]]` of upstreams.toml: a value in a file, and what it states.

use regex::{Regex, RegexBuilder};

use super::Reference;
use super::reader::Reader;
use crate::names::nearest;
use crate::text::visible;
use crate::workspace::document::{At, Table};

/// The size limit of a compiled pattern, in bytes.
const MAX_PATTERN: usize = 1 << 20;

/// A value in a file, and what it states.
#[derive(Debug, Clone)]
pub struct Fact {
    /// Where the value is.
    pub locator: Locator,
    /// What it states.
    pub states: States,
    /// The component that it is about.
    pub about: String,
    /// Whether the file can lack it.
    pub optional: bool,
    /// Where it is declared, such as `upstreams.toml:12`.
    pub declared: String,
}

/// Where a value is in a file.
#[derive(Debug, Clone)]
pub enum Locator {
    /// A CMake variable.
    Variable(String),
    /// The `GIT_TAG` of a `FetchContent_Declare`.
    Content(String),
    /// An ARG of a Dockerfile.
    Arg {
        /// Its name.
        name: String,
        /// The ARG with the repository.
        git: Option<String>,
    },
    /// A key of a TOML file, with the tables it is in.
    Key(Vec<String>),
    /// The group `value` of a regular expression, or its groups `oldest` and `newest`; the group
    /// `git` has the repository.
    Pattern {
        /// The expression.
        regex: Regex,
        /// The expected number of matches.
        matches: Matches,
        /// Whether its group `project` names the component.
        project: bool,
    },
}

/// The expected number of matches of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matches {
    /// Exactly this many.
    Exactly(usize),
    /// This many or more.
    AtLeast(usize),
}

/// What a value states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum States {
    /// A version.
    Version,
    /// A commit or a tag.
    Revision,
    /// A commit.
    Commit,
    /// A list of requirements.
    Requirements,
    /// The range of Python versions.
    Python,
    /// A list of Python versions.
    Pythons,
    /// The GPU targets that it supports.
    GpuTargets,
    /// The releases of ROCm that it supports.
    Rocm,
    /// The version of Rust.
    Rust,
    /// Crates, one per element of a list.
    Crates,
}

/// The statements by name.
const STATES: &[(&str, States)] = &[
    ("version", States::Version),
    ("revision", States::Revision),
    ("commit", States::Commit),
    ("requirements", States::Requirements),
    ("python", States::Python),
    ("pythons", States::Pythons),
    ("gpu-targets", States::GpuTargets),
    ("rocm", States::Rocm),
    ("rust", States::Rust),
    ("crates", States::Crates),
];

impl Fact {
    pub(super) fn read(
        table: &mut Table<'_>,
        of: &str,
        reader: Option<&Reader>,
        references: &mut Vec<Reference>,
    ) -> Option<Self> {
        let declared = table.place(&table.span());
        let about = table.string("about");
        references.extend(about.clone().map(|name| Reference { name, of: Some(of.to_owned()) }));
        let optional = table.boolean("optional").unwrap_or(false);
        let states = states(table);
        if let (Some((States::Requirements | States::Crates, span)), Some(reader)) =
            (&states, reader)
            && *reader != Reader::Toml
        {
            table.problem(
                span.clone(),
                "only a TOML file can state this",
                "expected `reader = \"toml\"`",
                None,
            );
        }
        let locator = match reader? {
            Reader::Toml => {
                let key = table.required_string("key", "a key with the tables it is in");
                key.map(|at| Locator::Key(at.value.split('.').map(str::to_owned).collect()))
            }
            Reader::Cmake { .. } if table.has("content") => {
                table.string("content").map(|at| Locator::Content(at.value))
            }
            Reader::Cmake { .. } => {
                let name = table
                    .required_string("set", "a variable; or `content`, a FetchContent_Declare");
                name.map(|at| Locator::Variable(at.value))
            }
            Reader::Dockerfile => {
                let name = table.required_string("arg", "the name of an ARG");
                let git = table.string("git-arg").map(|at| at.value);
                name.map(|at| Locator::Arg { name: at.value, git })
            }
            Reader::Regex => pattern(table),
            Reader::Requirements => None,
        };
        let about = about.map_or_else(|| of.to_owned(), |at| at.value);
        Some(Self { locator: locator?, states: states?.0, about, optional, declared })
    }
}

fn states(table: &mut Table<'_>) -> Option<(States, std::ops::Range<usize>)> {
    let At { value, span } =
        table.required_string("states", "what the value states, such as `version`")?;
    let known = STATES.iter().find(|(name, _)| *name == value).map(|(_, states)| *states);
    if known.is_none() {
        let names = || STATES.iter().map(|(name, _)| *name);
        let help = nearest(&value, names()).map(|near| format!("did you mean `{near}`?"));
        let label = format!("expected one of {}", names().collect::<Vec<_>>().join(", "));
        table.problem(
            span.clone(),
            format!("a file cannot state `{}`", visible(&value)),
            label,
            help,
        );
    }
    known.map(|states| (states, span))
}

fn pattern(table: &mut Table<'_>) -> Option<Locator> {
    let matches = matches(table);
    let At { value, span } = table.required_string("pattern", "a regular expression")?;
    let regex = RegexBuilder::new(&value).multi_line(true).size_limit(MAX_PATTERN).build();
    let regex = match regex {
        Ok(regex) => regex,
        Err(error) => {
            // The last line of a syntax error has the reason; the lines above it repeat the pattern.
            let text = error.to_string();
            let reason =
                text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            let help =
                "use the syntax of Rust's crate `regex`, and single quotes around it".to_owned();
            table.problem(span, "this is not a regular expression", visible(&reason), Some(help));
            return None;
        }
    };
    let has = |group: &str| regex.capture_names().flatten().any(|name| name == group);
    if !(has("value") || has("oldest") && has("newest")) {
        let label = "expected a group `(?<value>...)`, or for Pythons `(?<oldest>...)` and `(?<newest>...)`";
        table.problem(span, "the pattern has no group for the value", label, None);
        return None;
    }
    let project = has("project");
    Some(Locator::Pattern { regex, matches: matches?, project })
}

/// Reads the expected number of matches. [default: 1]
fn matches(table: &mut Table<'_>) -> Option<Matches> {
    let (exactly, at_least) = (table.has("matches"), table.has("at-least"));
    if exactly && at_least {
        let label = "remove one of the two";
        table.problem(table.span(), "a pattern has either `matches` or `at-least`", label, None);
    }
    let mut number = |key: &str| {
        let number = table.integer(key)?;
        let checked = usize::try_from(number).ok().filter(|number| *number > 0);
        if checked.is_none() {
            let label = "use `optional = true` for a pattern that need not match";
            table.problem(table.span(), format!("`{key}` must be 1 or more"), label, None);
        }
        checked
    };
    match (exactly, at_least) {
        (true, _) => number("matches").map(Matches::Exactly),
        (false, true) => number("at-least").map(Matches::AtLeast),
        (false, false) => Some(Matches::Exactly(1)),
    }
}
