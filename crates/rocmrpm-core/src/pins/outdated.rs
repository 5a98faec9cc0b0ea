//! Compares every pin with the newest upstream release and the Python versions that it allows.
//! `sources` lists the releases.

use std::cmp::Ordering;
use std::str::FromStr;

use pep440_rs::{Version, VersionSpecifiers};
use serde::Serialize;

use super::{PinsError, SetText};
use crate::parallel;
use crate::sources::{Fetcher, newer, shown_url};
use crate::workspace::{Component, Pin, Source, Workspace};

/// How many origins are queried at once.
const AT_ONCE: usize = 8;

/// The state of a pin compared with upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OutdatedState {
    /// No newer release exists.
    Newest,
    /// A newer release exists.
    Outdated,
    /// The pinned version is newer than every suitable release.
    Ahead,
    /// Upstream removed or yanked the pinned release, and no newer one exists.
    Withdrawn,
    /// The releases cannot be listed.
    NotKnown,
    /// The origin could not be reached.
    Unreachable,
}

/// A pin compared with the newest release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outdated {
    /// The component.
    pub component: String,
    /// The further source, if the row is about one with its own version.
    pub source: Option<String>,
    /// The pinned version.
    pub pinned: String,
    /// The newest suitable release.
    pub newest: Option<String>,
    /// The branch that the pin follows; its newest release is then the beginning of a commit.
    pub branch: Option<String>,
    /// The result of the comparison.
    pub state: OutdatedState,
    /// Where releases were listed, or why they cannot be listed.
    pub place: String,
    /// The reason why the origin could not be queried.
    pub error: Option<String>,
    /// The versions of Python that the pin allows; empty for all.
    pub python: String,
    /// Whether the chroot's Python is one of them.
    pub python_allowed: bool,
    /// The versions of Python that the newest release allows, if the index states them.
    pub newest_python: Option<String>,
    /// Whether the chroot's Python is one of those.
    pub newest_python_allowed: bool,
}

/// Compares every pin of the chosen set with the upstream releases, or only those of `components` if it
/// is not empty. An unreachable origin is a state of the row, not an error.
pub fn outdated(
    workspace: &Workspace,
    components: &[&Component],
    fetcher: &Fetcher<'_>,
    pre: bool,
) -> Result<Vec<Outdated>, PinsError> {
    let text = SetText::new(&workspace.pins.file)?;
    let mut rows: Vec<(&Pin, &str, &Pin)> = Vec::new();
    for main in workspace.pins.written() {
        let name = main.component.as_str();
        if !components.is_empty()
            && components.iter().all(|component| component.name.as_str() != name)
        {
            continue;
        }
        for (source, pin) in main.all_sources() {
            // The others follow the component's version.
            if source.is_empty() || text.get(&[name, "sources", source, "version"]).is_some() {
                rows.push((main, source, pin));
            }
        }
    }
    let work =
        |(main, source, pin): &(&Pin, &str, &Pin)| row(workspace, fetcher, main, source, pin, pre);
    parallel::map(&rows, AT_ONCE, work).map_err(|error| PinsError::Source(error.into()))
}

fn row(
    workspace: &Workspace,
    fetcher: &Fetcher<'_>,
    main: &Pin,
    source: &str,
    pin: &Pin,
    pre: bool,
) -> Outdated {
    let chroot = &workspace.chroot.python;
    let name = if source.is_empty() { main.component.as_str() } else { source };
    let mut row = Outdated {
        component: main.component.to_string(),
        source: (!source.is_empty()).then(|| source.to_owned()),
        pinned: pin.version.clone(),
        newest: None,
        branch: pin.follows.as_ref().map(|follows| follows.branch.clone()),
        state: OutdatedState::NotKnown,
        place: origin(pin),
        error: None,
        python: pin.python.to_string(),
        python_allowed: chroot.is_empty() || pin.python.holds(chroot),
        newest_python: None,
        newest_python_allowed: true,
    };
    if let Some(branch) = &row.branch {
        row.place = format!("{}, branch {branch}", row.place);
        let newest = fetcher.newest_commit(pin);
        (row.state, row.newest, row.error) = match newest {
            Err(error) => (OutdatedState::Unreachable, None, Some(error.to_string())),
            Ok(newest) => {
                let is_newest = matches!(
                    &pin.source,
                    Source::Git { commit, .. } if *commit == newest
                );
                let state = if is_newest { OutdatedState::Newest } else { OutdatedState::Outdated };
                let short = newest.and_then(|newest| newest.get(..12).map(str::to_owned));
                (state, short, None)
            }
        };
        return row;
    }
    if is_commit(pin) {
        row.place = "a commit, not a release".into();
        return row;
    }
    match fetcher.releases(pin, name) {
        Ok(Some(releases)) => {
            row.place = releases.place.clone();
            match releases.newest(pre) {
                Some(newest) => {
                    let is_listed = releases.found.iter().any(|release| {
                        !release.yanked && newer(&release.version, &pin.version) == Ordering::Equal
                    });
                    row.state = match newer(&newest.version, &pin.version) {
                        Ordering::Greater => OutdatedState::Outdated,
                        Ordering::Equal => OutdatedState::Newest,
                        Ordering::Less if is_listed => OutdatedState::Ahead,
                        Ordering::Less => OutdatedState::Withdrawn,
                    };
                    row.newest = Some(newest.version.clone());
                    row.newest_python.clone_from(&newest.python);
                }
                None => row.place = format!("{}: no suitable release", releases.place),
            }
        }
        Ok(None) => row.place = unknowable(pin).into(),
        Err(error) => {
            row.state = OutdatedState::Unreachable;
            row.error = Some(error.to_string());
        }
    }
    let range =
        row.newest_python.as_ref().and_then(|range| VersionSpecifiers::from_str(range).ok());
    if let (Some(range), Ok(python)) = (range, Version::from_str(chroot)) {
        row.newest_python_allowed = range.contains(&python);
    }
    row
}

fn origin(pin: &Pin) -> String {
    match &pin.source {
        Source::Git { url, .. } | Source::Url { url, .. } => shown_url(url),
        Source::Sdist { .. } | Source::Wheel { .. } => "pip index".into(),
        Source::Folder { .. } | Source::Crates { .. } => String::new(),
    }
}

/// Returns whether the pin's version is only the beginning of its commit.
fn is_commit(pin: &Pin) -> bool {
    let Source::Git { commit: Some(commit), .. } = &pin.source else { return false };
    pin.version.len() > 6 && commit.starts_with(&pin.version)
}

/// Returns why the releases of a source cannot be listed.
pub(super) fn unknowable(pin: &Pin) -> &'static str {
    match &pin.source {
        Source::Folder { .. } => "a folder of the workspace",
        Source::Crates { .. } => "crates of another source",
        _ => "the URL does not belong to a forge with readable tags",
    }
}
