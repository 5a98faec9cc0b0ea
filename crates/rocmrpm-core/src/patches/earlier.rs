//! Finds available versions of a component, from the other pin sets and the workspace's git
//! history, and determines which of its patches apply to them. It does not fetch sources.

use std::collections::{BTreeMap, BTreeSet};

use super::{Applied, Layers, Run, versions};
use crate::error::Error;
use crate::events::Silent;
use crate::git::Repository;
use crate::sources::Fetcher;
use crate::workspace::document::File;
use crate::workspace::pins::Overrides;
use crate::workspace::{Component, Lock, Pin, PinSet, Source, Workspace, compare};

/// Limits the number of commits to search for pins.
const MOST_COMMITS: &str = "-n50";

/// An available version.
pub(super) struct Earlier {
    pub version: String,
    pub layers: Layers,
    /// The patches that apply to this version, by file name.
    pub applied: BTreeMap<String, Applied>,
}

/// Finds available versions: the nearest older versions first, then newer ones.
pub(super) fn find(
    workspace: &Workspace,
    component: &Component,
    pin: &Pin,
    sets: &BTreeMap<String, PinSet>,
    fetcher: &Fetcher<'_>,
) -> Result<Vec<Earlier>, Error> {
    let offline = Fetcher::new(fetcher.cache().clone(), &workspace.root, &Silent).offline(true);
    let mut pins: Vec<Pin> = versions(sets, component).into_iter().cloned().collect();
    pins.extend(pins_in_history(workspace, component, sets.keys()));
    let mut seen = BTreeSet::from([pin.version.clone()]);
    // Workspace folders keep only their current version.
    pins.retain(|pin| {
        !matches!(pin.source, Source::Folder { .. }) && seen.insert(pin.version.clone())
    });
    let older = |other: &Pin| compare(&other.version, &pin.version).is_lt();
    pins.sort_by(|a, b| {
        let near = |x: &Pin, y: &Pin| compare(&x.version, &y.version);
        older(b).cmp(&older(a)).then_with(|| if older(a) { near(b, a) } else { near(a, b) })
    });
    let mut found = Vec::new();
    for other in &pins {
        // Try this version's patches on the other version, regardless of its own patches.
        let main = offline.tree(other).map(|tree| tree.dir);
        let Ok(main) = main else { continue };
        let further = other.sources.values().filter_map(|source| {
            let tree = offline.tree(source).ok()?;
            Some((crate::sources::source_dir(source), tree.dir))
        });
        let layers = Layers::new(main, further.collect());
        let run = Run::of(&layers, component, &pin.version)?;
        let fits = run.patches.into_iter().filter(|tried| tried.applied.failures.is_empty());
        let applied = fits.map(|tried| (tried.patch.file_name.clone(), tried.applied)).collect();
        found.push(Earlier { version: other.version.clone(), layers, applied });
    }
    Ok(found)
}

/// Returns the pins in earlier commits, as far as they can be read. Returns none for a workspace
/// without git.
fn pins_in_history<'s>(
    workspace: &Workspace,
    component: &Component,
    sets: impl Iterator<Item = &'s String>,
) -> Vec<Pin> {
    let Ok(Some(repository)) = Repository::find(&workspace.root) else { return Vec::new() };
    let git = |args: &[&str]| repository.git(args).text().ok();
    let mut pins = Vec::new();
    for set in sets {
        let path = format!("pins/{set}.toml");
        let commits = git(&["log", MOST_COMMITS, "--format=%H", "--no-color", "--", &path])
            .unwrap_or_default();
        for commit in commits.lines() {
            let show = |name: &str| git(&["cat-file", "blob", &format!("{commit}:./pins/{name}")]);
            let Some(text) = show(&format!("{set}.toml")) else { continue };
            let (mut problems, name) = (Vec::new(), path.clone());
            let lock = show(&format!("{set}.lock")).map(|text| File { name: String::new(), text });
            let lock = lock.map(|file| Lock::read(&file, &mut problems)).unwrap_or_default();
            let read =
                PinSet::read(set, File { name, text }, &lock, &Overrides::new(), &mut problems);
            pins.extend(read.pins.get(&component.name).map(|at| at.value.clone()));
        }
    }
    pins
}
