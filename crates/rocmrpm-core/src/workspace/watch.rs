//! `watch.toml`: upstream issues, pull requests, and releases, what each means for which components, and
//! what to do when it changes. It is not part of what packages are built from, so a change of it does
//! not change a Release. `watch` asks for their states.

use std::path::Path;

use jiff::civil::Date;
use serde::Serialize;

use super::document::{At, File, Table};
use super::edit::is_inside;
use super::error::WorkspaceError;
use super::layout::WATCH;
use crate::error::{Problem, Problems};
use crate::range::VersionRange;
use crate::text::visible;

/// The content of `watch.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchList {
    /// The entries.
    pub entries: Vec<WatchEntry>,
}

/// An entry of the watch list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchEntry {
    /// The page of the issue, pull request, or release.
    pub url: String,
    /// What is watched.
    pub subject: WatchSubject,
    /// The components that it concerns.
    pub components: Vec<String>,
    /// The versions of these components.
    pub versions: VersionRange,
    /// What it means for them.
    pub means: String,
    /// What to do when it changes.
    pub action: String,
    /// The patch to drop, relative to the workspace.
    pub patch: Option<String>,
    /// The last known state.
    pub state: Option<WatchState>,
    /// When that was the state.
    pub checked: Option<Date>,
}

/// What an entry watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchSubject {
    /// Its kind.
    pub kind: WatchKind,
    /// The host of the forge.
    pub host: String,
    /// The repository: `OWNER/NAME`.
    pub repository: String,
    /// The number of an issue or pull request, or the tag of a release.
    pub id: String,
}

/// The kinds of what is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WatchKind {
    /// An issue.
    Issue,
    /// A pull request.
    PullRequest,
    /// A release.
    Release,
}

/// The state of what is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WatchState {
    /// An issue or a pull request is open.
    Open,
    /// An issue is closed, or a pull request is closed and not merged.
    Closed,
    /// A pull request is merged.
    Merged,
    /// There is no such release yet.
    Unreleased,
    /// There is such a release.
    Released,
}

impl WatchState {
    /// All states.
    const ALL: [Self; 5] =
        [Self::Open, Self::Closed, Self::Merged, Self::Unreleased, Self::Released];

    /// Returns the name in `watch.toml` and output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Merged => "merged",
            Self::Unreleased => "unreleased",
            Self::Released => "released",
        }
    }

    /// Parses a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Returns whether what was waited for has happened.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Closed | Self::Merged | Self::Released)
    }

    const fn is_of(self, kind: WatchKind) -> bool {
        match self {
            Self::Open | Self::Closed => !matches!(kind, WatchKind::Release),
            Self::Merged => matches!(kind, WatchKind::PullRequest),
            Self::Unreleased | Self::Released => matches!(kind, WatchKind::Release),
        }
    }
}

impl WatchSubject {
    /// Parses the page of an issue, a pull request, or a release, as GitHub and Forgejo name them.
    fn parse(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("https://")?;
        let (host, path) = rest.split_once('/')?;
        let mut parts = path.splitn(4, '/');
        let (owner, name, kind, id) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let (kind, id) = match (kind, id.strip_prefix("tag/")) {
            ("issues", _) => (WatchKind::Issue, id),
            ("pull" | "pulls", _) => (WatchKind::PullRequest, id),
            ("releases", Some(tag)) => (WatchKind::Release, tag),
            _ => return None,
        };
        let is_plain = |text: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            !text.is_empty() && text.chars().all(plain) && text.chars().any(|c| c != '.')
        };
        let is_number = !id.is_empty() && id.chars().all(|c| c.is_ascii_digit());
        let is_id = match kind {
            WatchKind::Release => id.split('/').all(is_plain),
            WatchKind::Issue | WatchKind::PullRequest => is_number,
        };
        (is_plain(host) && is_plain(owner) && is_plain(name) && is_id).then(|| Self {
            kind,
            host: host.to_owned(),
            repository: format!("{owner}/{name}"),
            id: id.to_owned(),
        })
    }
}

impl WatchList {
    /// Reads the watch list of a workspace; that of a workspace without the file is empty.
    pub fn load(root: &Path) -> Result<Self, WorkspaceError> {
        let path = root.join(WATCH);
        if !path.is_file() {
            return Ok(Self::default());
        }
        let mut problems = Vec::new();
        let list = Self::read(&File::read(&path, WATCH)?, &mut problems);
        match problems.is_empty() {
            true => Ok(list),
            false => Err(WorkspaceError::Invalid(Problems(problems))),
        }
    }

    /// Reads `watch.toml`.
    pub fn read(file: &File, problems: &mut Vec<Problem>) -> Self {
        file.parse(problems, |root| {
            let mut entries: Vec<WatchEntry> = Vec::new();
            root.tables("watch", |table| {
                let Some((url, entry)) = entry(table) else { return };
                if entries.iter().any(|other| other.url == entry.url) {
                    let message = format!("`{}` is watched twice", visible(&entry.url));
                    table.problem(url, message, "combine both entries", None);
                }
                entries.push(entry);
            });
            Self { entries }
        })
    }
}

/// Reads an entry, with the position of its URL.
fn entry(table: &mut Table<'_>) -> Option<(std::ops::Range<usize>, WatchEntry)> {
    let url = table.required_string("url", "the page of an issue, a pull request, or a release");
    let components: Vec<String> =
        table.strings("components").into_iter().map(|at| at.value).collect();
    if components.is_empty() && url.is_some() {
        let (span, label) = (table.span(), "expected `components`: what it concerns");
        table.problem(span, "`components` is missing or empty", label, None);
    }
    let versions = table.string("versions");
    let range = versions.as_ref().map(|at| VersionRange::parse(&at.value));
    if let (Some(At { value, span }), Some(None)) = (versions, &range) {
        let message = format!("`{}` is not a range of versions", visible(&value));
        table.problem(span, message, "expected a range such as `>=1.2, <2`", None);
    }
    let means = table.required_string("means", "what it means for the components");
    let action = table.required_string("do", "what to do when it changes");
    let patch = table.string("patch");
    if let Some(At { value, span }) = patch.as_ref().filter(|at| !is_inside(&at.value)) {
        let message = format!("`{}` is not a path in the workspace", visible(value));
        let label = "expected a path such as `specs-templates/hello/0001-x.patch`";
        table.problem(span.clone(), message, label, None);
    }
    let state = table.string("state");
    let checked = table.day("checked");
    let At { value: url, span } = url?;
    let Some(subject) = WatchSubject::parse(&url) else {
        let message = format!("`{}` is not an issue, a pull request, or a release", visible(&url));
        let label = "expected https://HOST/OWNER/NAME/issues/1, .../pull/1 or .../releases/tag/TAG";
        table.problem(span, message, label, None);
        return None;
    };
    let known = state.as_ref().and_then(|at| WatchState::parse(&at.value));
    let known = known.filter(|state| state.is_of(subject.kind));
    if let (Some(At { value, span: place }), None) = (&state, known) {
        let of_kind = WatchState::ALL.into_iter().filter(|state| state.is_of(subject.kind));
        let names: Vec<&str> = of_kind.map(WatchState::name).collect();
        let message = format!("`{}` is not a state of {url}", visible(value));
        table.problem(place.clone(), message, format!("expected {}", names.join(", ")), None);
    }
    let entry = WatchEntry {
        url,
        subject,
        components,
        versions: range.flatten().unwrap_or_default(),
        means: means?.value,
        action: action?.value,
        patch: patch.map(|at| at.value),
        state: known,
        checked,
    };
    Some((span, entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (WatchList, Vec<String>) {
        let mut problems = Vec::new();
        let file = File { name: WATCH.into(), text: text.into() };
        let list = WatchList::read(&file, &mut problems);
        (list, problems.into_iter().map(|problem| problem.message).collect())
    }

    #[test]
    fn knows_pages_of_forges() {
        let of =
            |url: &str| WatchSubject::parse(url).map(|of| (of.kind, of.host, of.repository, of.id));
        let found = |kind, host: &str, id: &str| {
            Some((kind, host.to_owned(), "o/r.x".to_owned(), id.to_owned()))
        };
        assert_eq!(
            of("https://github.com/o/r.x/issues/12"),
            found(WatchKind::Issue, "github.com", "12")
        );
        assert_eq!(
            of("https://codeberg.org/o/r.x/pulls/1"),
            found(WatchKind::PullRequest, "codeberg.org", "1")
        );
        assert_eq!(
            of("https://github.com/o/r.x/releases/tag/release/v1.0"),
            found(WatchKind::Release, "github.com", "release/v1.0")
        );
        for url in [
            "http://github.com/o/r/issues/1",
            "https://github.com/o/r/issues/x",
            "https://github.com/o/r/issues/1/2",
            "https://github.com/o/r/issues/1?x=y",
            "https://github.com/o/r/releases",
            "https://github.com/o/r/releases/tag/../../x",
            "https://github.com/../r/issues/1",
            "https://user@github.com/o/r/issues/1",
            "https://github.com/o/r",
        ] {
            assert_eq!(of(url), None, "{url}");
        }
    }

    #[test]
    fn reports_mistakes_with_their_place() {
        let good = "[[watch]]\nurl = \"https://github.com/o/r/pull/1\"\ncomponents = [\"a\"]\n\
                    versions = \">=1, <2\"\nmeans = \"x\"\ndo = \"y\"\nstate = \"merged\"\n\
                    checked = \"2026-11-20\"\npatch = \"specs-templates/a/1.patch\"\n";
        let (list, problems) = read(good);
        assert_eq!(problems, [""; 0]);
        assert_eq!(list.entries[0].state, Some(WatchState::Merged));
        assert_eq!(read(&good.repeat(2)).1, ["`https://github.com/o/r/pull/1` is watched twice"]);
        for (from, to, wanted) in [
            ("pull/1", "pull/x", "is not an issue, a pull request, or a release"),
            ("[\"a\"]", "[]", "`components` is missing or empty"),
            (">=1, <2", "1", "`1` is not a range of versions"),
            ("\"merged\"", "\"released\"", "`released` is not a state of"),
            ("2026-11-20", "soon", "this is not a day"),
            ("specs-templates/a", "../a", "is not a path in the workspace"),
            ("do =", "then =", "`do`"),
        ] {
            let (_, problems) = read(&good.replace(from, to));
            assert!(problems.iter().any(|problem| problem.contains(wanted)), "{to}: {problems:?}");
        }
        assert_eq!(read("").0, WatchList::default());
    }
}
