//! The watch list of a stack: asks forges for the states of upstream issues, pull requests, and releases,
//! and finds the entries that are due or stale.

mod forge;

use jiff::civil::Date;
use serde::Serialize;

use crate::error::Error;
use crate::sources::Fetcher;
use crate::workspace::{PinSet, WatchEntry, WatchKind, WatchList, WatchState, Workspace, today};
use forge::{ForgeAnswer, KnownState};

/// How long a state counts that no forge confirmed, in days.
const MAX_AGE: i64 = 90;

/// An entry of the watch list, with the state of what it watches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Watched {
    /// The page of the issue, pull request, or release.
    pub url: String,
    /// What is watched.
    pub kind: WatchKind,
    /// The components that it concerns.
    pub components: Vec<String>,
    /// The versions of the components that it concerns; empty for all.
    pub versions: String,
    /// What it means for the components.
    pub means: String,
    /// What to do when it is closed, merged, or released.
    pub action: String,
    /// The patch that is then dropped.
    pub patch: Option<String>,
    /// The pins of the chosen set that it concerns, such as `hello 1.0`.
    pub pins: Vec<String>,
    /// The last known state; null if there is none.
    pub state: Option<WatchState>,
    /// When that was the state.
    pub checked: Option<String>,
    /// Why the forge was not asked, or did not answer; null if it answered.
    pub error: Option<String>,
    /// Whether it is closed, merged, or released, so that a person has to act.
    pub due: bool,
    /// Why the entry is out of date.
    pub stale: Vec<String>,
}

/// Returns the entries of the watch list that concern a pin of the chosen set or are out of date: those
/// of all components, or only of these. A forge that does not answer is a state of the entry, not an
/// error.
pub fn watched(
    workspace: &Workspace,
    components: &[&str],
    fetcher: &Fetcher<'_>,
) -> Result<Vec<Watched>, Error> {
    let list = WatchList::load(&workspace.root)?;
    let concerns = |entry: &&WatchEntry| {
        components.is_empty()
            || entry.components.iter().any(|name| components.contains(&name.as_str()))
    };
    let entries: Vec<&WatchEntry> = list.entries.iter().filter(concerns).collect();
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let sets: Vec<PinSet> = workspace.pin_sets()?.into_values().collect();
    let answers = forge::ask(&entries, fetcher, today())?;
    let watched = entries.into_iter().zip(answers);
    Ok(watched
        .map(|(entry, answer)| Watched::of(entry, answer, workspace, &sets))
        .filter(|watched| !watched.pins.is_empty() || !watched.stale.is_empty())
        .collect())
}

impl Watched {
    fn of(entry: &WatchEntry, answer: ForgeAnswer, workspace: &Workspace, sets: &[PinSet]) -> Self {
        let ForgeAnswer { known, error, remark } = answer;
        let state = known.map(|known| known.state);
        let due = state.is_some_and(WatchState::is_final);
        let mut stale: Vec<String> = Vec::new();
        for name in &entry.components {
            stale.extend(outdated(name, entry, workspace, sets));
        }
        if let Some(patch) = &entry.patch
            && !workspace.root.join(patch).is_file()
        {
            stale.push(format!("the patch {patch} does not exist"));
        }
        stale.extend(remark);
        match known {
            Some(known) if due => stale.push(format!("it is {}", known.state.name())),
            Some(known) => stale.extend(too_old(known, today())),
            None => stale.push("its state was never checked".to_owned()),
        }
        let pins = workspace.pins.pins.iter().filter(|(name, pin)| {
            entry.components.iter().any(|other| other == name.as_str())
                && entry.versions.holds(&pin.value.version)
        });
        Self {
            url: entry.url.clone(),
            kind: entry.subject.kind,
            components: entry.components.clone(),
            versions: entry.versions.to_string(),
            means: entry.means.clone(),
            action: entry.action.clone(),
            patch: entry.patch.clone(),
            pins: pins.map(|(name, pin)| format!("{name} {}", pin.value.version)).collect(),
            state,
            checked: known.and_then(|known| known.day).map(|day| day.to_string()),
            error,
            due,
            stale,
        }
    }
}

/// Returns why an entry no longer concerns a component.
fn outdated(
    name: &str,
    entry: &WatchEntry,
    workspace: &Workspace,
    sets: &[PinSet],
) -> Option<String> {
    let pins = sets.iter().flat_map(|set| &set.pins);
    let versions: Vec<&str> = pins
        .filter(|(pinned, _)| pinned.as_str() == name)
        .map(|(_, pin)| pin.value.version.as_str())
        .collect();
    if versions.is_empty() {
        return Some(match workspace.root.join("specs-templates").join(name).is_dir() {
            true => format!("no pin set has `{name}`"),
            false => format!("there is no component `{name}`"),
        });
    }
    let behind = versions.iter().all(|version| entry.versions.is_behind(version));
    behind.then(|| format!("every pin of {name} is newer than {}", entry.versions))
}

/// Returns that a state is too old to rely on.
fn too_old(KnownState { state, day }: KnownState, today: Date) -> Option<String> {
    let Some(day) = day else {
        return Some(format!("nothing states when it was {}", state.name()));
    };
    let days = today.since(day).map_or(0, |span| i64::from(span.get_days()));
    (days > MAX_AGE).then(|| format!("{} was checked {days} days ago", state.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_age() {
        let old = |day: &str| {
            let known = KnownState { state: WatchState::Open, day: day.parse().ok() };
            too_old(known, "2026-11-26".parse().unwrap())
        };
        assert_eq!(old("2026-08-28"), None);
        assert_eq!(old("2026-08-27").as_deref(), Some("open was checked 91 days ago"));
        // The clock was set back since.
        assert_eq!(old("2027-11-26"), None);
        assert_eq!(old("").as_deref(), Some("nothing states when it was open"));
    }
}
