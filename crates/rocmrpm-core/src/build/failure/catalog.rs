//! The catalog of known causes of failures of builds and of programs on the GPU, which is data (`failures.toml`), and the search
//! for a cause in lines of text. Splitting a log into phases is up to `log`.

use std::cmp::Reverse;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use serde::{Deserialize, Serialize};

use super::pattern::Pattern;
use crate::error::Kind;

/// The catalog's text.
const CATALOG: &str = include_str!("../failures.toml");

/// A general cause must be within this many lines of the end: earlier messages did not stop the
/// build.
const NEAR: usize = 40;

/// The maximum number of names that are listed.
const MAX_SHOWN: usize = 8;

/// Commands that scripts end with after another command has failed.
const LAST_WORDS: &[&str] = &["+ cat", "+ echo", "+ exit", "+ false"];

/// A part of a build, a program around it, or the use of its result, that a cause belongs to.
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
    /// `%install`, and rpm's processing of the files after it: debuginfo, bytecode, RPATHs.
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
    /// Programs that use the GPU, and the kernel's log.
    Run,
}

impl Phase {
    /// Returns the phase that a failure names, such as `%build`; `None` if the name is unknown.
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
            "run" => Self::Run,
            _ => return None,
        })
    }

    /// Returns its name in the catalog.
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
            Self::Run => "run",
        }
    }
}

/// What has to change to fix a cause.
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
    /// The network, or a remote service.
    Network,
    /// The time limit of a build.
    Timeout,
}

impl CauseKind {
    /// All kinds, in the order in which they are listed.
    pub const ALL: [Self; 5] =
        [Self::Build, Self::Config, Self::Environment, Self::Network, Self::Timeout];

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

/// An entry of the catalog.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// Its name, as passed to `rocmrpm explain`.
    pub id: String,
    /// What has to change.
    pub kind: CauseKind,
    /// The phases that it applies to; all phases of a build if empty.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// Whether it only applies if no more specific cause does, and near the end.
    #[serde(default)]
    pub general: bool,
    /// Whether to list the names from every matching line, not only from one.
    #[serde(default)]
    pub every: bool,
    /// What the log lines look like.
    pub patterns: Vec<Pattern>,
    /// What went wrong; `{1}` stands for what the pattern matched in its place.
    pub cause: String,
    /// How to fix it.
    pub help: String,
    /// Where the messages come from.
    pub seen: String,
}

impl Cause {
    /// Returns what the patterns match at the first of these lines.
    fn find(&self, lines: &[String]) -> Option<Vec<String>> {
        self.patterns.iter().find_map(|pattern| pattern.find(lines))
    }

    /// Returns the first match of the patterns in each line, as a list.
    fn find_every(&self, lines: &[String]) -> String {
        let mut names = Vec::new();
        for at in 0..lines.len() {
            let name = self.find(&lines[at..]).and_then(|found| found.into_iter().next());
            names.extend(name.filter(|name| !names.contains(name)));
        }
        let more = names.len().saturating_sub(MAX_SHOWN);
        names.truncate(MAX_SHOWN);
        let list = names.join(", ");
        if more > 0 { format!("{list} and {more} more") } else { list }
    }

    fn applies(&self, phase: Option<Phase>) -> bool {
        let of_builds = self.phases.is_empty();
        phase.is_none_or(|phase| self.phases.contains(&phase) || of_builds && phase != Phase::Run)
    }

    /// Returns whether it also occurs in programs that use the GPU, not only in builds.
    pub fn is_of_programs(&self) -> bool {
        self.phases.contains(&Phase::Run)
    }

    /// Ranks causes that explain other messages first, and general ones last.
    fn rank(&self) -> u8 {
        match self {
            Self { general: true, .. } => 0,
            Self { kind: CauseKind::Environment, .. } => 2,
            _ => 1,
        }
    }
}

#[derive(Deserialize)]
struct Catalog {
    cause: Vec<Cause>,
}

/// Returns the catalog, more specific causes first.
pub fn causes() -> &'static [Cause] {
    static CAUSES: LazyLock<Vec<Cause>> = LazyLock::new(|| {
        // The catalog is part of the program; a test parses it.
        toml::from_str::<Catalog>(CATALOG).map(|catalog| catalog.cause).unwrap_or_default()
    });
    &CAUSES
}

/// Returns the cause with this ID.
pub fn cause(id: &str) -> Option<&'static Cause> {
    causes().iter().find(|cause| cause.id == id)
}

/// A known cause, filled in from a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownCause {
    /// Its ID in the catalog.
    pub id: &'static str,
    /// What went wrong.
    pub cause: String,
    /// How to fix it.
    pub help: String,
    /// What kind of failure it is.
    pub kind: Kind,
}

impl KnownCause {
    /// Fills what a pattern matched into a cause.
    pub(super) fn of(cause: &'static Cause, found: &[String]) -> Self {
        let filled = |text: &str| {
            let numbered = found.iter().enumerate();
            numbered.fold(text.to_owned(), |text, (at, found)| {
                text.replace(&format!("{{{}}}", at + 1), found)
            })
        };
        Self {
            id: &cause.id,
            cause: filled(&cause.cause),
            help: filled(&cause.help),
            kind: cause.kind.into(),
        }
    }
}

/// Finds the cause of a failure in the lines of the failed phase, and the line that shows it.
/// `None` as the phase matches any.
///
/// rpm's scripts stop at the first command that fails (`sh -e`) and show each one as `+ command`,
/// so messages from before the last command did not stop the build. The search therefore starts
/// there, with causes that explain other messages, such as a full disk, ahead of the rest, and then
/// the one nearest to the end. Only specific causes are searched for in the lines before.
pub(super) fn find(lines: &[String], phase: Option<Phase>) -> Option<(usize, KnownCause)> {
    let is_command =
        |line: &String| line.starts_with("+ ") && !LAST_WORDS.iter().any(|w| line.starts_with(w));
    let last = lines.iter().rposition(is_command).unwrap_or(0);
    let near = lines.len().saturating_sub(NEAR).max(last);
    let mut candidates = candidates(lines);
    candidates.retain(|(order, _)| causes()[*order].applies(phase));
    candidates.sort_by_key(|&(order, at)| Reverse((causes()[order].rank(), at, Reverse(order))));
    candidates.dedup();
    let best = |from: usize, near: usize| {
        candidates.iter().find_map(|&(order, at)| {
            let cause = &causes()[order];
            if at < if cause.general { near } else { from } {
                return None;
            }
            let mut found = cause.find(&lines[at..])?;
            if let Some(first) = found.first_mut().filter(|_| cause.every) {
                *first = cause.find_every(&lines[from..]);
            }
            Some((at, KnownCause::of(cause, &found)))
        })
    };
    best(last, near).or_else(|| best(0, lines.len()))
}

/// Returns the causes that may match, by their place in the catalog, each with the line where the
/// match would begin. One pass over the lines finds the longest texts of all patterns: logs have up
/// to millions of lines, and the catalog has hundreds of patterns.
fn candidates(lines: &[String]) -> Vec<(usize, usize)> {
    static TEXTS: LazyLock<(AhoCorasick, Vec<(usize, usize)>)> = LazyLock::new(|| {
        let patterns = causes()
            .iter()
            .enumerate()
            .flat_map(|(order, cause)| cause.patterns.iter().map(move |pattern| (order, pattern)));
        let (texts, owners): (Vec<&str>, _) = patterns
            .filter_map(|(order, pattern)| {
                let (line, text) = pattern.longest_text()?;
                Some((text, (order, line)))
            })
            .unzip();
        // It fails only for more texts than fit into 32 bits.
        (AhoCorasick::new(texts).expect("the catalog is small"), owners)
    });
    let (search, owners) = &*TEXTS;
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        found.extend(search.find_overlapping_iter(line).filter_map(|hit| {
            let (order, below) = owners[hit.pattern()];
            Some((order, at.checked_sub(below)?))
        }));
    }
    found
}
