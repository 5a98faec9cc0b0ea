//! For every pin the newest release upstream, and what Python it wants. How that is
//! looked up is `sources`' business.

use std::cmp::Ordering;
use std::str::FromStr;

use pep440_rs::{Version, VersionSpecifiers};
use serde::Serialize;

use super::{PinsError, SetText};
use crate::parallel;
use crate::sources::{Fetcher, newer, shown_url};
use crate::workspace::{Component, Pin, Source, Workspace};

/// How many origins are asked at once.
const AT_ONCE: usize = 8;

/// What a pin is, compared with what upstream has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// There is nothing newer.
    Newest,
    /// There is a newer release.
    Outdated,
    /// The pinned version is newer than every release that counts.
    Ahead,
    /// The releases cannot be listed.
    NotKnown,
    /// The origin could not be reached.
    Unreachable,
}

/// A pin beside the newest release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outdated {
    /// The component.
    pub component: String,
    /// The further source, where this is one with a version of its own.
    pub source: Option<String>,
    /// The pinned version.
    pub pinned: String,
    /// The newest release that counts.
    pub newest: Option<String>,
    /// The result of the comparison.
    pub state: State,
    /// Where releases were listed, or why they cannot be listed.
    pub place: String,
    /// Why the origin could not be asked.
    pub error: Option<String>,
    /// The versions of Python that the pin allows; empty for all.
    pub python: String,
    /// Whether the chroot's Python is one of them.
    pub python_allowed: bool,
    /// The versions of Python that the newest release allows, where the index says it.
    pub newest_python: Option<String>,
    /// Whether the chroot's Python is one of those.
    pub newest_python_allowed: bool,
}

/// Compares every pin of the chosen set with the releases upstream. An origin that does
/// not answer is a row's state, not an error. `components` are looked at alone, all where
/// there is none.
pub fn outdated(
    workspace: &Workspace,
    components: &[&Component],
    fetcher: &Fetcher<'_>,
    pre: bool,
) -> Result<Vec<Outdated>, PinsError> {
    let text = SetText::new(&workspace.pins.file)?;
    let mut asked: Vec<(&Pin, &str, &Pin)> = Vec::new();
    for main in workspace.pins.written() {
        let name = main.component.as_str();
        if !components.is_empty() && components.iter().all(|component| component.name.as_str() != name) {
            continue;
        }
        for (source, pin) in main.all_sources() {
            // The others follow the component.
            if source.is_empty() || text.get(&[name, "sources", source, "version"]).is_some() {
                asked.push((main, source, pin));
            }
        }
    }
    let work = |(main, source, pin): &(&Pin, &str, &Pin)| row(workspace, fetcher, main, source, pin, pre);
    parallel::map(&asked, AT_ONCE, work).map_err(|error| PinsError::Source(error.into()))
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
        state: State::NotKnown,
        place: origin(pin),
        error: None,
        python: pin.python.to_string(),
        python_allowed: chroot.is_empty() || pin.python.holds(chroot),
        newest_python: None,
        newest_python_allowed: true,
    };
    if is_commit(pin) {
        row.place = "a commit, not a release".into();
        return row;
    }
    match fetcher.releases(pin, name) {
        Ok(Some(releases)) => {
            row.place = releases.place.clone();
            match releases.newest(pre) {
                Some(newest) => {
                    row.state = match newer(&newest.version, &pin.version) {
                        Ordering::Greater => State::Outdated,
                        Ordering::Equal => State::Newest,
                        Ordering::Less => State::Ahead,
                    };
                    row.newest = Some(newest.version.clone());
                    row.newest_python.clone_from(&newest.python);
                }
                None => row.place = format!("{}: no release that counts", releases.place),
            }
        }
        Ok(None) => row.place = unknowable(pin).into(),
        Err(error) => {
            row.state = State::Unreachable;
            row.error = Some(error.to_string());
        }
    }
    let range = row.newest_python.as_ref().and_then(|range| VersionSpecifiers::from_str(range).ok());
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

/// Returns whether the pin's version is but the beginning of its commit.
fn is_commit(pin: &Pin) -> bool {
    let Source::Git { commit: Some(commit), .. } = &pin.source else { return false };
    pin.version.len() > 6 && commit.starts_with(&pin.version)
}

/// Says why nobody can tell which releases a source has.
pub(super) fn unknowable(pin: &Pin) -> &'static str {
    match &pin.source {
        Source::Folder { .. } => "a folder of the workspace",
        Source::Crates { .. } => "crates of another source",
        _ => "the URL is not of a forge whose tags could be read",
    }
}
