//! Derives the Release and changelog of a component from the git history of its pin, its folder,
//! and its source if that is in the workspace. It does not decide which files count; `scope` does.

mod changelog;
mod commits;
mod read;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use commits::{Commits, commits_of};

use super::pinned::{Pinned, below, folders};
use super::scope::{Family, Scope};
use crate::names::ComponentName;
use crate::rpm_version::of_pin;
use crate::stack::Stack;
use crate::workspace::{CLOSURE_FILE, Component, GENERATED, Pin, PinSet, Workspace, compare};

/// Maximum number of changelog entries in a spec; older ones remain in git.
const MAX_ENTRIES: usize = 30;

/// 1990-01-01, the earliest date that rpm accepts in a changelog (build/parseChangelog.c,
/// `dateToTimet`). Used if there is no history.
const EARLIEST: i64 = 631_152_000;

/// A commit that changed the workspace.
#[derive(Debug, Clone)]
struct Commit {
    hash: String,
    seconds: i64,
    author: String,
    email: String,
    subject: String,
    /// The changed files with their new object IDs; `None` for a removed file.
    changes: BTreeMap<String, Option<String>>,
}

/// The history of a workspace's pins, templates and sources, newest first.
#[derive(Debug, Clone, Default)]
pub struct History {
    commits: Vec<Commit>,
    /// The pins after each commit that changed them.
    sets: BTreeMap<String, Pinned>,
    /// Files with uncommitted changes.
    uncommitted: BTreeSet<String>,
    scope: Scope,
    /// A warning about the history for the user.
    pub warning: Option<String>,
}

/// A commit that affects a component.
struct ComponentCommit<'h> {
    commit: &'h Commit,
    /// The versions of the component at that commit in any chroot; empty if it had no pin.
    versions: BTreeSet<&'h str>,
    /// The version in the selected chroot.
    here: Option<&'h str>,
}

/// A component's Release and changelog for its spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The value of `Release:`, such as `2%{?dist}`, or `3~dirty%{?dist}` for uncommitted changes
    /// and overridden pins.
    pub release: String,
    /// The text of `%changelog`.
    pub changelog: String,
    /// Whether the release contains `~dirty`.
    pub dirty: bool,
    /// The date of the newest entry, in seconds since 1970.
    pub seconds: i64,
}

impl History {
    /// Returns whether a component's own spec or source has uncommitted changes or overrides from
    /// the command line.
    fn is_dirty(&self, workspace: &Workspace, component: &Component) -> bool {
        let pin = workspace.pin(component);
        let own = self.own_paths(workspace, component, pin);
        let touched = |path: &String| own.iter().any(|own| below(path, own));
        let Scope { pins, lock, closure, .. } = &self.scope;
        let pins_touched =
            [pins, lock, closure].iter().any(|path| self.uncommitted.contains(*path));
        pin.overridden
            || (pins_touched && self.committed_pin(component) != Some(pin))
            || self.uncommitted.iter().any(touched)
    }

    /// Returns the pin in the newest commit.
    fn committed_pin(&self, component: &Component) -> Option<&Pin> {
        let pinned = self.commits.iter().find_map(|commit| self.sets.get(&commit.hash))?;
        self.here(pinned, &component.name)
    }

    /// Returns a component's pin for the selected chroot.
    fn here<'p>(&self, pinned: &'p Pinned, name: &ComponentName) -> Option<&'p Pin> {
        let own = pinned.own.as_ref().and_then(|set| find(set, name));
        own.or_else(|| pinned.closures.get(&self.scope.closure).and_then(|set| find(set, name)))
    }

    /// Returns the paths that affect a component in the selected chroot.
    fn own_paths(&self, workspace: &Workspace, component: &Component, pin: &Pin) -> Vec<String> {
        let dir = component.dir.strip_prefix(&workspace.root).unwrap_or(&component.dir);
        let mut own = vec![dir.to_string_lossy().into_owned()];
        if component.closure.is_some() {
            let stem = workspace.closure_stem();
            own.push(format!("specs-templates/{GENERATED}/{stem}/{CLOSURE_FILE}"));
        }
        own.extend(self.scope.shared.iter().cloned());
        own.extend(folders(pin));
        own
    }

    /// Counts the commits that affect every build root: those that change the manifest, the chroot
    /// or the provider.
    pub fn shared_commits(&self) -> usize {
        let shared = self.scope.shared.iter();
        let root: Vec<&String> = shared.filter(|path| path.ends_with(".toml")).collect();
        let concerns = |commit: &&Commit| commit.changes.keys().any(|path| root.contains(&path));
        self.commits.iter().filter(concerns).count()
    }

    /// Derives a component's Release: the number of commits in any chroot that affect it since its
    /// version last changed. A generated component with its own RPM gets the prefix `0.` so that
    /// the release's own package of the same version is newer.
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
            let version = of_pin(pin);
            changelog.push(changelog::entry(seconds, who, &version, &release, &what));
        }
        for (at, ComponentCommit { commit, versions, here }) in
            entries.iter().enumerate().rev().take(MAX_ENTRIES)
        {
            let newest = || versions.iter().copied().max_by(|a, b| compare(a, b));
            let version = match at + count >= entries.len() {
                true => pin.version.as_str(),
                false => here.or_else(newest).unwrap_or(&pin.version),
            };
            let who = format!("{} <{}>", commit.author, commit.email);
            let release = format!("{minor}{}", self::count(&entries[..=at], version));
            changelog.push(changelog::entry(
                commit.seconds,
                &who,
                version,
                &release,
                &commit.subject,
            ));
        }
        Release {
            release: format!("{minor}{number}{suffix}%{{?dist}}"),
            changelog: changelog.join("\n"),
            dirty,
            seconds,
        }
    }

    /// Returns the commits that affect a component in any chroot, oldest first.
    fn entries<'h>(
        &'h self,
        workspace: &Workspace,
        component: &Component,
    ) -> Vec<ComponentCommit<'h>> {
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
            ComponentCommit {
                commit,
                versions: versions.map(|pin| pin.version.as_str()).collect(),
                here: here.map(|pin| pin.version.as_str()),
            }
        };
        entries.into_iter().map(entry).collect()
    }
}

/// Counts the newest commits since the component last had another version in all chroots, including
/// those before it had a pin.
fn count(entries: &[ComponentCommit<'_>], version: &str) -> usize {
    let has = |entry: &&ComponentCommit<'_>| {
        entry.versions.is_empty() || entry.versions.contains(version)
    };
    entries.iter().rev().take_while(has).count()
}

/// Returns a component's pins in all chroots.
fn pins_of<'p>(pinned: &'p Pinned, name: &ComponentName) -> impl Iterator<Item = &'p Pin> {
    let own = pinned.own.as_ref().and_then(|set| find(set, name));
    let closures = pinned.closures.values().filter_map(|set| find(set, name));
    own.into_iter().chain(closures.filter(move |_| own.is_none()))
}

/// Returns whether a component is a closure member with its own RPM.
fn is_member(workspace: &Workspace, component: &Component) -> bool {
    let runtime = || workspace.with_closure().map(Component::runtime_name);
    component.generated.is_some() && runtime().as_deref() != Some(component.name.as_str())
}

fn find<'s>(set: &'s PinSet, name: &ComponentName) -> Option<&'s Pin> {
    set.pins.get(name).map(|at| &at.value)
}

/// Returns the date to use without history: `SOURCE_DATE_EPOCH`, or the earliest. Source:
/// <https://reproducible-builds.org/specs/source-date-epoch/>.
fn no_date() -> i64 {
    date_of_epoch(std::env::var("SOURCE_DATE_EPOCH").ok().as_deref())
}

fn date_of_epoch(epoch: Option<&str>) -> i64 {
    let given = epoch.and_then(|text| text.trim().parse().ok());
    given.unwrap_or(EARLIEST).max(EARLIEST)
}
