//! The catalogue of known causes of failed builds, which is data (`failures.toml`), and the choice
//! of the cause that a text tells. What a log consists of is not known here.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::pattern::Pattern;
use crate::error::Kind;

/// The catalogue's text.
const CATALOGUE: &str = include_str!("../failures.toml");

/// How near to the end a general cause must be told: what was said long before was no reason to stop.
const NEAR: usize = 40;

/// How many names of a list are told.
const MOST: usize = 8;

/// Commands that scripts end with after another one has failed.
const LAST_WORDS: &[&str] = &["+ cat", "+ echo", "+ exit", "+ false"];

/// A part of a build, or a program around it, that a cause belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Reading the spec.
    Spec,
    /// BuildRequires, and `%generate_buildrequires`.
    Buildrequires,
    /// `%prep`.
    Prep,
    /// `%conf` and `%build`.
    Build,
    /// `%install`, with what rpm does to the files after it: debuginfo, bytecode, RPATHs.
    Install,
    /// `%check`.
    Check,
    /// `%files`.
    Files,
    /// rpmbuild itself: macros, writing packages, signing.
    Rpm,
    /// dnf, which fills a build root or installs packages.
    Dnf,
    /// mock itself.
    Mock,
}

impl Phase {
    /// Returns the phase that a failure names, such as `%build`; `None` where it names none.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "the spec" => Self::Spec,
            "BuildRequires" | "%generate_buildrequires" => Self::Buildrequires,
            "%prep" => Self::Prep,
            "%conf" | "%build" => Self::Build,
            "%install" => Self::Install,
            "%check" => Self::Check,
            "%files" => Self::Files,
            "dnf" => Self::Dnf,
            "mock" => Self::Mock,
            _ => return None,
        })
    }

    /// Returns its name in the catalogue.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Buildrequires => "buildrequires",
            Self::Prep => "prep",
            Self::Build => "build",
            Self::Install => "install",
            Self::Check => "check",
            Self::Files => "files",
            Self::Rpm => "rpm",
            Self::Dnf => "dnf",
            Self::Mock => "mock",
        }
    }
}

/// What is to be changed where a cause is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CauseKind {
    /// The component: its template, patches or pin.
    Build,
    /// A file of the workspace, or a setting of a tool.
    Config,
    /// The machine or the chroot; no change of a component fixes it.
    Environment,
    /// The network, or who answers there.
    Network,
    /// The time that a build may take.
    Timeout,
}

impl CauseKind {
    /// All kinds, in the order in which they are listed.
    pub const ALL: [Self; 5] = [Self::Build, Self::Config, Self::Environment, Self::Network, Self::Timeout];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Config => "config",
            Self::Environment => "environment",
            Self::Network => "network",
            Self::Timeout => "timeout",
        }
    }
}

impl From<CauseKind> for Kind {
    fn from(kind: CauseKind) -> Self {
        match kind {
            CauseKind::Build => Self::Build,
            CauseKind::Config => Self::Config,
            CauseKind::Environment => Self::Environment,
            CauseKind::Network => Self::Network,
            CauseKind::Timeout => Self::Timeout,
        }
    }
}

/// One entry of the catalogue.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// Its name, as `rocmrpm explain` takes it.
    pub id: String,
    /// What is to be changed.
    pub kind: CauseKind,
    /// Where it applies; everywhere where empty.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// Whether it only holds where nothing more exact is known, and near the end.
    #[serde(default)]
    pub general: bool,
    /// Whether every line that tells it has a name to tell, not only the last one.
    #[serde(default)]
    pub every: bool,
    /// What a line of a log looks like that tells it.
    pub patterns: Vec<Pattern>,
    /// What went wrong; `{1}` stands for what the pattern has in its place.
    pub cause: String,
    /// How to fix it.
    pub help: String,
    /// Where it was seen.
    pub seen: String,
}

impl Cause {
    /// Returns what the patterns find in the first of these lines.
    fn find(&self, lines: &[String]) -> Option<Vec<String>> {
        self.patterns.iter().find_map(|pattern| pattern.find(lines))
    }

    /// Returns the first of what the patterns find in each line, as a list.
    fn find_every(&self, lines: &[String]) -> String {
        let mut names = Vec::new();
        for at in 0..lines.len() {
            let name = self.find(&lines[at..]).and_then(|found| found.into_iter().next());
            names.extend(name.filter(|name| !names.contains(name)));
        }
        let more = names.len().saturating_sub(MOST);
        names.truncate(MOST);
        let list = names.join(", ");
        if more > 0 { format!("{list} and {more} more") } else { list }
    }

    fn applies(&self, phase: Option<Phase>) -> bool {
        self.phases.is_empty() || phase.is_none_or(|phase| self.phases.contains(&phase))
    }

    /// What explains other messages comes first, what is told of anything comes last.
    fn rank(&self) -> u8 {
        match self {
            Self { general: true, .. } => 0,
            Self { kind: CauseKind::Environment, .. } => 2,
            _ => 1,
        }
    }
}

#[derive(Deserialize)]
struct Catalogue {
    cause: Vec<Cause>,
}

/// Returns the catalogue, the more exact cause before the more general one.
pub fn causes() -> &'static [Cause] {
    static CAUSES: LazyLock<Vec<Cause>> = LazyLock::new(|| {
        // The catalogue is part of the program; a test reads it.
        toml::from_str::<Catalogue>(CATALOGUE).map(|catalogue| catalogue.cause).unwrap_or_default()
    });
    &CAUSES
}

/// Returns the cause with this ID.
pub fn cause(id: &str) -> Option<&'static Cause> {
    causes().iter().find(|cause| cause.id == id)
}

/// A known cause, as a text tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its name in the catalogue.
    pub id: &'static str,
    /// What went wrong.
    pub cause: String,
    /// How to fix it.
    pub help: String,
    /// What kind of failure it is.
    pub kind: Kind,
}

impl Known {
    /// Fills what a pattern has found into a cause.
    pub(super) fn of(cause: &'static Cause, found: &[String]) -> Self {
        let filled = |text: &str| {
            let numbered = found.iter().enumerate();
            numbered
                .fold(text.to_owned(), |text, (at, found)| text.replace(&format!("{{{}}}", at + 1), found))
        };
        Self {
            id: &cause.id,
            cause: filled(&cause.cause),
            help: filled(&cause.help),
            kind: cause.kind.into(),
        }
    }
}

/// Finds the cause that the lines of a failed phase tell, and the line that tells it. `None` as
/// phase stands for any.
///
/// rpm's scripts end at the first command that fails (`sh -e`) and show each one as `+ command`, so
/// that what was said before the last of them was tolerated. A cause is looked for there first: one
/// that explains other messages, such as a full disk, before others, and then the one nearest to
/// the end. Only an exact one is looked for in what came before.
pub(super) fn find(lines: &[String], phase: Option<Phase>) -> Option<(usize, Known)> {
    let is_command =
        |line: &String| line.starts_with("+ ") && !LAST_WORDS.iter().any(|w| line.starts_with(w));
    let last = lines.iter().rposition(is_command).unwrap_or(0);
    let near = lines.len().saturating_sub(NEAR).max(last);
    let best = |from: usize, near: usize| {
        let known = causes().iter().enumerate().filter(|(_, cause)| cause.applies(phase));
        let hits = known.filter_map(|(order, cause)| {
            let from = if cause.general { near } else { from };
            let (at, found) =
                (from..lines.len()).rev().find_map(|at| Some((at, cause.find(&lines[at..])?)))?;
            Some(((cause.rank(), at, std::cmp::Reverse(order)), cause, found))
        });
        let ((_, at, _), cause, mut found) = hits.max_by_key(|(key, ..)| *key)?;
        if let Some(first) = found.first_mut().filter(|_| cause.every) {
            *first = cause.find_every(&lines[from..]);
        }
        Some((at, Known::of(cause, &found)))
    };
    best(last, near).or_else(|| best(0, lines.len()))
}
