//! Release and changelog of a component, derived from the git history of its pin, its folder,
//! and its source if that lies in the workspace. Which files count is decided in `scope`.

mod changelog;
mod commits;
mod read;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use commits::{Commits, commits_of};

use super::scope::{Family, Scope};
use crate::names::ComponentName;
use crate::stack::Stack;
use crate::workspace::{CLOSURE_FILE, Component, GENERATED, Pin, PinSet, Source, Workspace, compare};

/// The most changelog entries that a spec carries; older ones stay in git.
const MAX_ENTRIES: usize = 30;

/// 1990-01-01, the earliest date that rpm takes in a changelog (build/parseChangelog.c,
/// `dateToTimet`). Stands where there is no history to take a date from.
const EARLIEST: i64 = 631_152_000;

/// One commit that touched the workspace.
#[derive(Debug, Clone)]
struct Commit {
    hash: String,
    seconds: i64,
    author: String,
    email: String,
    subject: String,
    /// The files that it changed, each with the object that it then was, if it was not removed.
    changes: BTreeMap<String, Option<String>>,
}

/// The history of a workspace's pins, templates and sources, newest first.
#[derive(Debug, Clone, Default)]
pub struct History {
    commits: Vec<Commit>,
    /// The pins as each commit that touched them left them.
    sets: BTreeMap<String, Pinned>,
    /// Files with changes that are not committed.
    uncommitted: BTreeSet<String>,
    scope: Scope,
    /// Something the user should know about the history.
    pub warning: Option<String>,
}

/// The pins of a set as they were once.
#[derive(Debug, Clone, Default)]
pub(super) struct Pinned {
    /// Those that packagers write.
    pub own: Option<Arc<PinSet>>,
    /// Those of its closures, by the paths of their files.
    pub closures: BTreeMap<String, Arc<PinSet>>,
}

/// A commit that concerns a component.
struct Entry<'h> {
    commit: &'h Commit,
    /// The versions that the component then had, in whatever chroot; none if it had no pin.
    versions: BTreeSet<&'h str>,
    /// The version that it had in the chosen chroot.
    here: Option<&'h str>,
}

/// A component's Release and changelog, as they go into its spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The value of `Release:`, such as `2%{?dist}`, or `3~dirty%{?dist}` where
    /// something is not committed or a pin is overridden.
    pub release: String,
    /// The text below `%changelog`.
    pub changelog: String,
    /// Whether the release says `~dirty`.
    pub dirty: bool,
    /// The newest entry's date, in seconds since 1970.
    pub seconds: i64,
}

impl History {
    /// Returns whether a component's own spec or source has something that is not
    /// committed or comes from the command line.
    fn is_dirty(&self, workspace: &Workspace, component: &Component) -> bool {
        let pin = workspace.pin(component);
        let own = self.own_paths(workspace, component, pin);
        let touched = |path: &String| own.iter().any(|own| below(path, own));
        let Scope { pins, lock, closure, .. } = &self.scope;
        let pins_touched = [pins, lock, closure].iter().any(|path| self.uncommitted.contains(*path));
        pin.overridden
            || (pins_touched && self.committed_pin(component) != Some(pin))
            || self.uncommitted.iter().any(touched)
    }

    /// Returns the pin as the newest commit has it.
    fn committed_pin(&self, component: &Component) -> Option<&Pin> {
        let pinned = self.commits.iter().find_map(|commit| self.sets.get(&commit.hash))?;
        self.here(pinned, &component.name)
    }

    /// Returns a component's pin for the chosen chroot.
    fn here<'p>(&self, pinned: &'p Pinned, name: &ComponentName) -> Option<&'p Pin> {
        let own = pinned.own.as_ref().and_then(|set| find(set, name));
        own.or_else(|| pinned.closures.get(&self.scope.closure).and_then(|set| find(set, name)))
    }

    /// Returns the paths whose changes concern a component of the chosen chroot.
    fn own_paths(&self, workspace: &Workspace, component: &Component, pin: &Pin) -> Vec<String> {
        let dir = component.dir.strip_prefix(&workspace.root).unwrap_or(&component.dir);
        let mut own = vec![dir.to_string_lossy().into_owned()];
        if component.closure.is_some() {
            let stem = workspace.closure_stem();
            own.push(format!("specs-templates/{GENERATED}/{stem}/{CLOSURE_FILE}"));
        }
        own.extend(self.scope.shared.iter().cloned());
        own.extend(folder(pin).map(str::to_owned));
        own
    }

    /// Counts the commits to what every build root is made from: the manifest, the chroot's
    /// definition and the provider's.
    pub fn shared_commits(&self) -> usize {
        let shared = self.scope.shared.iter();
        let root: Vec<&String> = shared.filter(|path| path.ends_with(".toml")).collect();
        let concerns = |commit: &&Commit| commit.changes.keys().any(|path| root.contains(&path));
        self.commits.iter().filter(concerns).count()
    }

    /// Derives a component's Release: how many commits concern it, in whatever chroot, since its
    /// version last changed. A generated component that is an RPM of its own has `0.` before the
    /// number, so that a release's own package of the same version is the newer one.
    pub fn release(&self, stack: &Stack<'_>, component: &Component) -> Release {
        let workspace = stack.workspace;
        let pin = workspace.pin(component);
        let entries = self.entries(workspace, component);
        let dirty = stack.with_required(&[component]).values().any(|c| self.is_dirty(workspace, c));
        let count = count(&entries, &pin.version);
        let minor = if is_member(workspace, component) { "0." } else { "" };
        let number = if dirty { count + 1 } else { count.max(1) };
        let suffix = if dirty { "~dirty" } else { "" };
        let seconds = entries.last().map_or_else(no_date, |entry| entry.commit.seconds);

        let mut changelog = Vec::new();
        if dirty || count == 0 {
            let what = if pin.overridden {
                format!("Version {} from the command line", pin.version)
            } else if dirty {
                "Changes that are not committed".to_owned()
            } else {
                format!("Version {}", pin.version)
            };
            let who = "rocmrpm <rocmrpm@localhost>";
            let release = format!("{minor}{number}{suffix}");
            changelog.push(changelog::entry(seconds, who, &pin.version, &release, &what));
        }
        for (at, Entry { commit, versions, here }) in entries.iter().enumerate().rev().take(MAX_ENTRIES) {
            let newest = || versions.iter().copied().max_by(|a, b| compare(a, b));
            let version = match at + count >= entries.len() {
                true => pin.version.as_str(),
                false => here.or_else(newest).unwrap_or(&pin.version),
            };
            let who = format!("{} <{}>", commit.author, commit.email);
            let release = format!("{minor}{}", self::count(&entries[..=at], version));
            changelog.push(changelog::entry(commit.seconds, &who, version, &release, &commit.subject));
        }
        Release {
            release: format!("{minor}{number}{suffix}%{{?dist}}"),
            changelog: changelog.join("\n"),
            dirty,
            seconds,
        }
    }

    /// Returns the commits that concern a component in some chroot, oldest first.
    fn entries<'h>(&'h self, workspace: &Workspace, component: &Component) -> Vec<Entry<'h>> {
        let family = Family::of(&self.scope, workspace, component);
        let (mut now, mut pins): (Option<&Pinned>, Vec<(&str, &Pin)>) = (None, Vec::new());
        let mut entries = Vec::new();
        for commit in self.commits.iter().rev() {
            let mut changed = false;
            if let Some(pinned) = self.sets.get(&commit.hash) {
                let pins_now = family.pins(pinned);
                changed = pins_now != pins;
                (now, pins) = (Some(pinned), pins_now);
            }
            if changed || commit.changes.keys().any(|path| family.concerns(path)) {
                entries.push((commit, now));
            }
        }
        let entry = |(commit, pinned): (&'h Commit, Option<&'h Pinned>)| {
            let versions = pinned.into_iter().flat_map(|pinned| pins_of(pinned, &component.name));
            let here = pinned.and_then(|pinned| self.here(pinned, &component.name));
            Entry {
                commit,
                versions: versions.map(|pin| pin.version.as_str()).collect(),
                here: here.map(|pin| pin.version.as_str()),
            }
        };
        entries.into_iter().map(entry).collect()
    }
}

/// Counts the newest commits since a component last had another version in all chroots. Those
/// from before it had a pin count.
fn count(entries: &[Entry<'_>], version: &str) -> usize {
    let has = |entry: &&Entry<'_>| entry.versions.is_empty() || entry.versions.contains(version);
    entries.iter().rev().take_while(has).count()
}

/// Returns a component's pins in all chroots.
fn pins_of<'p>(pinned: &'p Pinned, name: &ComponentName) -> impl Iterator<Item = &'p Pin> {
    let own = pinned.own.as_ref().and_then(|set| find(set, name));
    let closures = pinned.closures.values().filter_map(|set| find(set, name));
    own.into_iter().chain(closures.filter(move |_| own.is_none()))
}

/// Returns whether a component is a member of a Python closure that became an RPM of its own.
fn is_member(workspace: &Workspace, component: &Component) -> bool {
    let runtime = || workspace.with_closure().map(Component::runtime_name);
    component.generated.is_some() && runtime().as_deref() != Some(component.name.as_str())
}

fn find<'s>(set: &'s PinSet, name: &ComponentName) -> Option<&'s Pin> {
    set.pins.get(name).map(|at| &at.value)
}

/// Returns the folder that a pin's source is, if it is one.
pub(super) fn folder(pin: &Pin) -> Option<&str> {
    match &pin.source {
        Source::Folder { path } => path.to_str(),
        _ => None,
    }
}

/// Returns whether a path is this file or folder, or inside it. git reports a submodule
/// by the folder's own name.
pub(super) fn below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the date of what has no history: `SOURCE_DATE_EPOCH`, or the earliest.
/// Source: <https://reproducible-builds.org/specs/source-date-epoch/>.
fn no_date() -> i64 {
    date_of_epoch(std::env::var("SOURCE_DATE_EPOCH").ok().as_deref())
}

fn date_of_epoch(epoch: Option<&str>) -> i64 {
    let given = epoch.and_then(|text| text.trim().parse().ok());
    given.unwrap_or(EARLIEST).max(EARLIEST)
}
