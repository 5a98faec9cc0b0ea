//! Checks whether a component's patches and edits apply to a version's sources, and explains
//! failures. It works on a copy of the affected files and does not modify the sources.

mod apply;
mod commits;
pub mod compare;
mod earlier;
mod from_edits;
#[cfg(any(test, fuzzing, feature = "testing"))]
#[doc(hidden)]
pub mod fuzzing;
mod layers;
mod near;
mod refresh;
mod repository;
mod unified;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

pub use apply::Offset;
pub use commits::{
    GitPrep, PatchChange, PatchCommit, PatchSave, SavedPatch, Stopped, prepare_git, save,
};
pub use from_edits::{EditPatch, from_edits};
pub use near::Near;
pub use refresh::{Conflict, How, NewPatch, Refreshed, refresh};

use crate::error::{Error, IoError};
use crate::process::check_stop;
use crate::sources::{self, Fetcher};
use crate::spec::edit_text;
use crate::workspace::edit::is_inside;
use crate::workspace::{Component, Edit, Patch, Pin, PinSet, Workspace};
use apply::{Applied, Misfit, apply};
use earlier::Earlier;
use layers::{Layers, SourcePath};
use unified::FileChange;
use unified::parse;

/// The patches and edits of a component, tried on one version.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// The component.
    pub component: String,
    /// The version.
    pub version: String,
    /// The patches, by file name.
    pub patches: Vec<PatchStatus>,
    /// The edits, in the order in which they are applied.
    pub edits: Vec<EditStatus>,
}

/// A patch, and whether it applies.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PatchStatus {
    /// The file name.
    pub file: String,
    /// The subject of the patch.
    pub subject: String,
    /// The origin.
    pub origin: String,
    /// When it can be removed.
    pub drop_when: String,
    /// The versions that it is for; empty for all.
    pub versions: String,
    /// Whether it applies.
    #[serde(flatten)]
    pub state: PatchState,
    /// Remarks.
    pub remarks: Vec<String>,
}

/// An edit, and whether it applies.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EditStatus {
    /// The file, relative to the main source's top folder.
    pub file: String,
    /// The text to replace.
    pub find: String,
    /// The reason.
    pub reason: String,
    /// When it can be removed.
    pub drop_when: String,
    /// The versions that it is for; empty for all.
    pub versions: String,
    /// How often the text must occur.
    pub expected: usize,
    /// How often the text occurs.
    pub found: usize,
    /// Whether it applies.
    #[serde(flatten)]
    pub state: PatchState,
    /// Lines with the text or a similar one: number and text.
    pub near: Vec<(usize, String)>,
    /// Remarks.
    pub remarks: Vec<String>,
}

/// Whether a patch or an edit applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum PatchState {
    /// It applies as is.
    Applies,
    /// It applies, with hunks at other lines.
    Offset {
        /// These hunks.
        offsets: Vec<Offset>,
    },
    /// It does not apply.
    Fails {
        /// The parts that do not apply.
        failures: Vec<Failure>,
    },
    /// It is for other versions, which other pin sets pin.
    OtherVersion,
    /// It is for versions that no pin set pins.
    Unused,
}

/// A part of a patch or edit that does not apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failure {
    /// The file; empty if unknown.
    pub file: String,
    /// The number of the hunk in the file, counted from 1.
    pub hunk: Option<usize>,
    /// The hunk's `@@` line.
    pub header: Option<String>,
    /// The problem.
    pub problem: String,
    /// Upstream's changes at this place.
    pub upstream: Option<UpstreamChange>,
    /// The place most similar to what the hunk expects: `-` marks expected lines, `+` existing ones.
    pub near: Option<Near>,
    /// Files of the same base name, if the file does not exist.
    pub elsewhere: Vec<String>,
}

/// Upstream's changes between a version that a patch applies to and this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UpstreamChange {
    /// The version that the patch applies to.
    pub from: String,
    /// This version.
    pub to: String,
    /// A unified diff; empty if the file was removed.
    pub diff: String,
}

impl Series {
    /// Returns whether a patch or an edit does not apply.
    pub fn fails(&self) -> bool {
        self.a_patch_fails()
            || self.edits.iter().any(|edit| matches!(edit.state, PatchState::Fails { .. }))
    }

    /// Returns whether a patch does not apply, regardless of the edits.
    pub fn a_patch_fails(&self) -> bool {
        self.patches.iter().any(|patch| matches!(patch.state, PatchState::Fails { .. }))
    }
}

/// Tries a component's patches and edits on the sources of a pin, which may differ from the
/// workspace's pin, and explains failures.
pub fn status(
    workspace: &Workspace,
    component: &Component,
    pin: &Pin,
    fetcher: &Fetcher<'_>,
) -> Result<Series, Error> {
    let sets = workspace.pin_sets()?;
    let layers = Layers::of(fetcher, component, pin)?;
    let mut run = Run::of(&layers, component, &pin.version)?;
    if run.patches.iter().any(|tried| !tried.failures.is_empty()) {
        let earlier = earlier::find(workspace, component, pin, &sets, fetcher)?;
        for tried in &mut run.patches {
            explain(tried, &layers, &earlier, &pin.version)?;
        }
    }
    let used = |holds: &dyn Fn(&str) -> bool| {
        let pins = sets.values().filter_map(|set| set.pins.get(&component.name));
        if pins.map(|at| at.value.version.as_str()).any(holds) {
            PatchState::OtherVersion
        } else {
            PatchState::Unused
        }
    };
    let patch = |patch: &Patch| {
        let tried = run.patches.iter().find(|tried| tried.patch.file_name == patch.file_name);
        let state = match tried {
            None => used(&|version| patch.versions.holds(version)),
            Some(tried) if !tried.failures.is_empty() => {
                PatchState::Fails { failures: tried.failures.clone() }
            }
            Some(tried) if !tried.applied.offsets.is_empty() => {
                PatchState::Offset { offsets: tried.applied.offsets.clone() }
            }
            Some(_) => PatchState::Applies,
        };
        PatchStatus {
            file: patch.file_name.clone(),
            subject: patch.subject.clone(),
            origin: patch.origin.clone(),
            drop_when: patch.drop_when.clone(),
            versions: patch.versions.to_string(),
            state,
            remarks: missing(&[("Origin", &patch.origin), ("Drop-When", &patch.drop_when)]),
        }
    };
    let patches = component.patches.iter().map(patch).collect();
    let mut texts = BTreeMap::new();
    let mut edits = Vec::new();
    for edit in &component.edits {
        let status = EditStatus {
            file: edit.file.clone(),
            find: edit.find.clone(),
            reason: edit.reason.clone(),
            drop_when: edit.drop_when.clone(),
            versions: edit.versions.to_string(),
            expected: edit.matches,
            found: 0,
            state: used(&|version| edit.versions.holds(version)),
            near: Vec::new(),
            remarks: missing(&[("drop-when", &edit.drop_when)]),
        };
        edits.push(if edit.versions.holds(&pin.version) {
            run.edit(workspace, pin, edit, status, &mut texts)?
        } else {
            status
        });
    }
    Ok(Series {
        component: component.name.to_string(),
        version: pin.version.clone(),
        patches,
        edits,
    })
}

/// Returns a remark for each empty field.
fn missing(fields: &[(&str, &str)]) -> Vec<String> {
    fields
        .iter()
        .filter(|(_, value)| value.is_empty())
        .map(|(name, _)| format!("it has no `{name}`"))
        .collect()
}

/// The result of trying a patch.
struct Tried<'a> {
    patch: &'a Patch,
    changes: Vec<FileChange>,
    applied: Applied,
    failures: Vec<Failure>,
}

/// The patches of one version, applied in order to a copy of the files.
struct Run<'a> {
    layers: &'a Layers,
    scratch: tempfile::TempDir,
    patches: Vec<Tried<'a>>,
    /// Files named by a patch: if the copy lacks one, it does not exist.
    touched: BTreeSet<String>,
}

impl<'a> Run<'a> {
    fn of(layers: &'a Layers, component: &'a Component, version: &'a str) -> Result<Self, Error> {
        Self::watched(layers, component, version, &mut |_| Ok(()))
    }

    /// Applies the patches; calls `after` with the copy before the first patch and after each
    /// patch.
    fn watched(
        layers: &'a Layers,
        component: &'a Component,
        version: &'a str,
        after: &mut dyn FnMut(&Path) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let action = || IoError::doing("try the patches");
        let scratch = tempfile::Builder::new().prefix("rocmrpm-").tempdir().map_err(action())?;
        let mut run = Self { layers, scratch, patches: Vec::new(), touched: BTreeSet::new() };
        let mut parsed = Vec::new();
        for patch in component.patches_for(version) {
            let changes = parse(&String::from_utf8_lossy(&patch_bytes(component, patch)?));
            for name in changes.iter().flat_map(FileChange::names) {
                if is_inside(name) && run.touched.insert(name.to_owned()) {
                    layers.copy(name, run.scratch.path()).map_err(action())?;
                }
            }
            parsed.push((patch, changes));
        }
        after(run.scratch.path())?;
        for (patch, changes) in parsed {
            check_stop()?;
            let path = component.dir.join(&patch.file_name).canonicalize().map_err(action())?;
            let applied = apply(run.scratch.path(), &path, &changes)?;
            let failures =
                applied.failures.iter().map(|misfit| run.failure(misfit, &changes)).collect();
            run.patches.push(Tried { patch, changes, applied, failures });
            after(run.scratch.path())?;
        }
        Ok(run)
    }

    /// Explains a failure based on the current files.
    fn failure(&self, misfit: &Misfit, changes: &[FileChange]) -> Failure {
        let mut failure = Failure { problem: misfit.problem.clone(), ..Failure::default() };
        let Some(change) = misfit.file.and_then(|at| changes.get(at)) else { return failure };
        failure.file = change.name().to_owned();
        let hunk = misfit.hunk.and_then(|number| change.hunks.get(number.checked_sub(1)?));
        failure.hunk = misfit.hunk;
        failure.header = hunk.map(|hunk| hunk.header.clone());
        let text = self.text(&failure.file);
        match (hunk, text) {
            (Some(hunk), Some(text)) => {
                if hunk.new.len() > 1 && text.contains(&hunk.new.concat()) {
                    failure.problem = "the source already contains its changes".to_owned();
                }
                failure.near = near::nearest_place(&text, &hunk.old, hunk.old_start);
            }
            (_, None) => failure.elsewhere = self.layers.same_name(&failure.file),
            (None, Some(_)) => {}
        }
        failure
    }

    /// Returns the text of a file after all patches.
    fn text(&self, path: &str) -> Option<String> {
        if !self.touched.contains(path) {
            return self.layers.text(path).ok().flatten();
        }
        let full = self.scratch.path().join(path);
        let is_file = std::fs::symlink_metadata(&full).is_ok_and(|metadata| metadata.is_file());
        is_file
            .then(|| fs_err::read(full).ok())
            .flatten()
            .map(|b| String::from_utf8_lossy(&b).into_owned())
    }

    /// Tries one edit on the text after all patches and earlier edits.
    fn edit(
        &self,
        workspace: &Workspace,
        pin: &Pin,
        edit: &Edit,
        mut status: EditStatus,
        texts: &mut BTreeMap<String, String>,
    ) -> Result<EditStatus, Error> {
        let fails = |file: &str, problem: String, elsewhere| {
            let failure =
                Failure { file: file.to_owned(), problem, elsewhere, ..Failure::default() };
            PatchState::Fails { failures: vec![failure] }
        };
        if let Some(name) = &edit.source {
            match pin.sources.get(name) {
                Some(source) => {
                    status.file = format!("{}/{}", sources::source_dir(source), edit.file)
                }
                None => {
                    status.state =
                        fails(&edit.file, format!("the pin has no source `{name}`"), Vec::new());
                    return Ok(status);
                }
            }
        }
        let path = status.file.clone();
        let replace = match edit_text(workspace, pin, &edit.replace.value) {
            Ok(replace) => replace,
            Err(unknown) => {
                status.state = fails(&path, format!("unknown placeholder `{unknown}`"), Vec::new());
                return Ok(status);
            }
        };
        let Some(text) = texts.get(&path).cloned().or_else(|| self.text(&path)) else {
            let problem = match self.layers.place(&path) {
                SourcePath::Link(_) | SourcePath::Outside => {
                    "it is a link, which an edit would write through"
                }
                SourcePath::File(_) | SourcePath::Nothing => "the file was not found",
            };
            status.state = fails(&path, problem.to_owned(), self.layers.same_name(&path));
            return Ok(status);
        };
        match edit.apply(&text, &replace) {
            Ok(edited) => {
                texts.insert(path, edited);
                (status.found, status.state) = (edit.matches, PatchState::Applies);
            }
            Err(found) => {
                let problem =
                    format!("the text occurs {}, not {}", times(found), times(edit.matches));
                status.found = found;
                status.near = near::lines_like(&text, &edit.find);
                status.state = fails(&path, problem, Vec::new());
            }
        }
        Ok(status)
    }
}

fn times(n: usize) -> String {
    if n == 1 { "once".to_owned() } else { format!("{n} times") }
}

/// Adds to a patch's failures what upstream changed since a version that the patch applies to.
fn explain(
    tried: &mut Tried<'_>,
    layers: &Layers,
    earlier: &[Earlier],
    to: &str,
) -> Result<(), Error> {
    let read =
        |layers: &Layers, path: &str| layers.text(path).map_err(IoError::doing("read a source"));
    for (failure, misfit) in tried.failures.iter_mut().zip(&tried.applied.failures) {
        let Some(change) = misfit.file.and_then(|at| tried.changes.get(at)) else { continue };
        let hunk = misfit.hunk.and_then(|number| change.hunks.get(number.checked_sub(1)?));
        for other in earlier {
            let Some(applied) = other.applied.get(&tried.patch.file_name) else { continue };
            let Some(old) = read(&other.layers, &failure.file)? else { continue };
            let diff = match (read(layers, &failure.file)?, hunk) {
                (None, _) => String::new(),
                (Some(new), Some(hunk)) => {
                    let moved = applied.offsets.iter().find(|offset| {
                        offset.file == failure.file && Some(offset.hunk) == misfit.hunk
                    });
                    let first =
                        moved.map_or(hunk.old_start, |offset| offset.line).saturating_sub(1);
                    near::changes_around(&old, &new, first..first + hunk.old_len)
                }
                (Some(_), None) => continue,
            };
            if diff.is_empty() && !failure.problem.ends_with("not found") {
                continue;
            }
            failure.upstream =
                Some(UpstreamChange { from: other.version.clone(), to: to.to_owned(), diff });
            break;
        }
    }
    Ok(())
}

/// Returns all versions of a component in the pin sets.
fn versions<'s>(sets: &'s BTreeMap<String, PinSet>, component: &Component) -> Vec<&'s Pin> {
    sets.values().filter_map(|set| set.pins.get(&component.name)).map(|at| &at.value).collect()
}

fn patch_bytes(component: &Component, patch: &Patch) -> Result<Vec<u8>, Error> {
    let path: &Path = &component.dir.join(&patch.file_name);
    Ok(fs_err::read(path).map_err(IoError::doing("read a patch"))?)
}
