//! Changes between two versions of a source that matter to a packager. A module finds each kind of
//! change; none of them judges it.

mod environment;
mod gpu;
mod requirements;
mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

pub use environment::{Environment, Read, UnreadVariable};
pub use gpu::GpuList;
pub use requirements::RequirementChange;

use crate::audit::download_points;
use crate::digest::Sha256;
use crate::error::{Error, Kind};
use crate::patches::{self, Series};
use crate::sources::{Fetcher, Tree};
use crate::workspace::{Component, Pin, VersionRange, Workspace};
use scan::Scan;

/// A value that changed; `old` is null if it is new, `new` if it was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangedValue {
    /// The name of the value.
    pub name: String,
    /// The old value.
    pub old: Option<String>,
    /// The new value.
    pub new: Option<String>,
}

/// All changes between two versions of a component's main source.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Changes {
    /// Environment variables that the build reads.
    pub environment: Environment,
    /// Requirements of the build and of the installed package.
    pub requirements: Vec<RequirementChange>,
    /// `requires-python`.
    pub python: Option<ChangedValue>,
    /// The Python range of the pin, if the new source has another one.
    pub pin_python: Option<String>,
    /// Lists of GPU targets.
    pub gpu: Vec<GpuList>,
    /// The workspace's GPU targets that a list had and no longer has.
    pub gpu_lost: Vec<String>,
    /// Whether patches and edits apply to the new source.
    pub patches: Option<Series>,
    /// The reason why patches and edits could not be tried.
    pub not_tried: Option<String>,
    /// The patches and edits for the old version that are not for the new one.
    pub left_out: Vec<String>,
    /// New downloads of the build scripts, with their places.
    pub downloads_added: Vec<(String, String)>,
    /// Removed downloads, with their places.
    pub downloads_removed: Vec<(String, String)>,
    /// Submodules: their URLs by path.
    pub submodules: Vec<ChangedValue>,
    /// License files: their digests by path.
    pub licenses: Vec<ChangedValue>,
}

/// Compares the pinned source with the new one. Without the old source, only checks whether patches
/// and edits apply.
pub fn changes(
    workspace: &Workspace,
    component: &Component,
    (old, old_tree): (&Pin, Option<&Tree>),
    new: &Pin,
    fetcher: &Fetcher<'_>,
) -> Result<Changes, Error> {
    let new_tree = fetcher.tree(new)?;
    let mut changes =
        Changes { left_out: left_out(component, &old.version, &new.version), ..Changes::default() };
    match patches::status(workspace, component, new, fetcher) {
        Ok(series) => changes.patches = Some(series),
        // A further source can be unreachable although the main one is available.
        Err(error) if matches!(error.kind(), Kind::Network | Kind::Config) => {
            changes.not_tried = Some(error.to_string());
        }
        Err(error) => return Err(error),
    }
    let Some(old_tree) = old_tree else { return Ok(changes) };
    let (before, after) = (Scan::of(&old_tree.dir)?, Scan::of(&new_tree.dir)?);
    let exported = environment::exported(workspace, component)?;
    let (gpu, gpu_lost) = gpu::changes(&before, &after, &workspace.manifest.gpu_targets);
    let python =
        moved("requires-python", requirements::python(&before), requirements::python(&after));
    let declared = old.python.to_string();
    let (fetched, fetches) = (downloads(&old_tree.dir)?, downloads(&new_tree.dir)?);
    Ok(Changes {
        environment: environment::changes(&before, &after, &exported),
        requirements: requirements::changes(&before, &after),
        pin_python: (python.is_some() && !declared.is_empty()).then_some(declared),
        python,
        gpu,
        gpu_lost,
        downloads_added: not_in(&fetches, &fetched),
        downloads_removed: not_in(&fetched, &fetches),
        submodules: all_moved(&submodules(&before), &submodules(&after)),
        licenses: all_moved(&licenses(&before), &licenses(&after)),
        ..changes
    })
}

impl Changes {
    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.environment.added.is_empty()
            && self.environment.removed.is_empty()
            && self.requirements.is_empty()
            && self.python.is_none()
            && self.gpu.is_empty()
            && self.not_tried.is_none()
            && self.left_out.is_empty()
            && self
                .patches
                .as_ref()
                .is_none_or(|series| series.patches.is_empty() && series.edits.is_empty())
            && self.downloads_added.is_empty()
            && self.downloads_removed.is_empty()
            && self.submodules.is_empty()
            && self.licenses.is_empty()
    }
}

/// Returns the patches and edits that are only for the old version.
fn left_out(component: &Component, old: &str, new: &str) -> Vec<String> {
    let ends = |versions: &VersionRange| versions.holds(old) && !versions.holds(new);
    let describe = |name: &str, versions: &VersionRange| format!("{name} (for {versions})");
    let patches = component.patches.iter().filter(|patch| ends(&patch.versions));
    let edits = component.edits.iter().filter(|edit| ends(&edit.versions));
    let patches = patches.map(|patch| describe(&patch.file_name, &patch.versions));
    patches
        .chain(edits.map(|edit| describe(&format!("edit of {}", edit.file), &edit.versions)))
        .collect()
}

/// Returns the downloads of the build's own files, with their places.
fn downloads(dir: &Path) -> Result<Vec<(String, String)>, Error> {
    let points = download_points(dir)?
        .into_iter()
        .filter(|(file, ..)| scan::is_build(file) || scan::is_cargo(file));
    Ok(points.map(|(file, line, what)| (what, format!("{file}:{line}"))).collect())
}

/// Returns the points whose text the others do not have, each text once.
fn not_in(points: &[(String, String)], others: &[(String, String)]) -> Vec<(String, String)> {
    let mut known: BTreeSet<&String> = others.iter().map(|(what, _)| what).collect();
    points.iter().filter(|(what, _)| known.insert(what)).cloned().collect()
}

fn moved(name: &str, old: Option<String>, new: Option<String>) -> Option<ChangedValue> {
    (old != new).then(|| ChangedValue { name: name.to_owned(), old, new })
}

fn all_moved(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Vec<ChangedValue> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    names
        .into_iter()
        .filter_map(|name| moved(name, old.get(name).cloned(), new.get(name).cloned()))
        .collect()
}

/// Returns the URLs of submodules by path (gitmodules(5)).
fn submodules(scan: &Scan) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut path = None;
    let mut url = None;
    for line in scan.text(".gitmodules").unwrap_or_default().lines().chain(["["]) {
        let line = line.trim();
        if line.starts_with('[') {
            if let (Some(path), Some(url)) = (path.take(), url.take()) {
                found.insert(path, url);
            }
        } else if let Some((key, value)) = line.split_once('=') {
            let value = Some(value.trim().trim_matches('"').to_owned());
            match key.trim() {
                "path" => path = value,
                "url" => url = value,
                _ => {}
            }
        }
    }
    found
}

fn licenses(scan: &Scan) -> BTreeMap<String, String> {
    let digest = |text: &str| Sha256::of_bytes(text).to_string();
    scan.files()
        .filter(|(path, _)| scan::is_license(path))
        .map(|(p, t)| (p.to_owned(), digest(t)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_submodules() {
        let scan = |text: &str| Scan::from([(".gitmodules", text)]);
        let module = |path: &str, url: &str| {
            format!("[submodule \"x\"]\n\tpath = {path}\n\turl = \"{url}\"\n")
        };
        let old = submodules(&scan(&(module("a", "u") + &module("b", "v"))));
        let new = submodules(&scan(&(module("b", "w") + &module("c", "u"))));
        let moved: Vec<_> =
            all_moved(&old, &new).into_iter().map(|m| (m.name, m.old, m.new)).collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            moved,
            [
                ("a".into(), some("u"), None),
                ("b".into(), some("v"), some("w")),
                ("c".into(), None, some("u"))
            ]
        );
        assert!(submodules(&scan("[submodule")).is_empty());
    }
}
