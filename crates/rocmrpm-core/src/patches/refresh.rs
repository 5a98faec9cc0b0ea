//! Regenerates patches for another version if they apply with an offset or git can merge them: the
//! diff is new, the header is kept. It does not write files before the whole series is complete;
//! the caller does.

use std::path::PathBuf;

use serde::Serialize;

use super::apply::{apply, apply_with};
use super::earlier::{self, Earlier};
use super::repository::Repository;
use super::{FileChange, Layers, Run, parse, patch_bytes};
use crate::error::{Error, IoError};
use crate::files;
use crate::process::check_stop;
use crate::sources::Fetcher;
use crate::workspace::edit::is_inside;
use crate::workspace::{Component, Patch, Pin, Workspace};

/// Maximum number of context lines that may differ if no earlier version is available for a merge.
/// Source: GNU patch's own default, patch(1).
const FUZZ: usize = 2;

/// The refreshed patches of a component for one version.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refreshed {
    /// The component.
    pub component: String,
    /// The version.
    pub version: String,
    /// The patches in order, up to the first conflict.
    pub patches: Vec<NewPatch>,
    /// The patch that cannot be merged, if any.
    pub conflict: Option<Conflict>,
}

/// A refreshed patch.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NewPatch {
    /// The file name.
    pub file: String,
    /// How it was refreshed.
    pub how: How,
    /// The path.
    #[serde(skip)]
    pub path: PathBuf,
    /// The bytes.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

/// How a patch was refreshed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum How {
    /// It applies as is.
    Unchanged,
    /// Its hunks have new line numbers.
    Offset,
    /// git merged it with upstream's changes.
    Merged {
        /// The version that it applied to.
        from: String,
    },
    /// GNU patch applied it although the context differs.
    Fuzz,
}

/// A patch that cannot be refreshed.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conflict {
    /// The file name.
    pub file: String,
    /// The reason.
    pub problem: String,
    /// The files with git's conflict markers, as a diff; empty if git was not involved.
    pub diff: String,
    /// The fix.
    pub help: String,
}

/// Regenerates a component's patches for a version where needed.
pub fn refresh(
    workspace: &Workspace,
    component: &Component,
    pin: &Pin,
    fetcher: &Fetcher<'_>,
) -> Result<Refreshed, Error> {
    let action = || IoError::doing("refresh the patches");
    let layers = Layers::of(fetcher, component, pin)?;
    let mut refreshed = Refreshed {
        component: component.name.to_string(),
        version: pin.version.clone(),
        patches: Vec::new(),
        conflict: None,
    };
    let scratch = tempfile::Builder::new().prefix("rocmrpm-").tempdir().map_err(action())?;
    let (repository, tree) = (scratch.path().join("git"), scratch.path().join("tree"));
    fs_err::create_dir(&tree).map_err(action())?;
    let repository = Repository::new(repository)?;
    let mut parsed = Vec::new();
    for patch in component.patches_for(&pin.version) {
        let bytes = patch_bytes(component, patch)?;
        let changes = parse(&String::from_utf8_lossy(&bytes));
        for name in changes.iter().flat_map(FileChange::names).filter(|name| is_inside(name)) {
            layers.copy(name, &tree).map_err(action())?;
        }
        parsed.push((patch, bytes, changes));
    }
    let mut earlier: Option<Vec<EarlierVersion>> = None;
    for (at, (patch, bytes, changes)) in parsed.into_iter().enumerate() {
        check_stop()?;
        let path = component.dir.join(&patch.file_name).canonicalize().map_err(action())?;
        let before = repository.store(&tree)?;
        let applied = apply(&tree, &path, &changes)?;
        let how = if !applied.failures.is_empty() {
            let earlier = match &mut earlier {
                Some(earlier) => earlier,
                none => none.insert(EarlierVersion::all(
                    workspace,
                    component,
                    pin,
                    &repository,
                    fetcher,
                )?),
            };
            let fitting =
                earlier.iter().find(|old| old.earlier.applied.contains_key(&patch.file_name));
            let merged = match fitting {
                Some(old) => old.merge(&repository, &before, at, patch)?,
                None => {
                    repository.restore(&before, &tree)?;
                    match apply_with(&tree, &path, &changes, FUZZ)?.failures.first() {
                        None => Ok((repository.store(&tree)?, How::Fuzz)),
                        Some(misfit) => Err(Conflict::without_earlier(patch, &misfit.problem)),
                    }
                }
            };
            match merged {
                Ok((after, how)) => {
                    repository.restore(&after, &tree)?;
                    how
                }
                Err(conflict) => {
                    refreshed.conflict = Some(conflict);
                    return Ok(refreshed);
                }
            }
        } else if applied.offsets.is_empty() {
            How::Unchanged
        } else {
            How::Offset
        };
        let new = match how {
            How::Unchanged => bytes,
            _ => repository.patch(&before, &repository.store(&tree)?, &bytes)?,
        };
        refreshed.patches.push(NewPatch { file: patch.file_name.clone(), how, path, bytes: new });
    }
    Ok(refreshed)
}

impl Conflict {
    fn without_earlier(patch: &Patch, problem: &str) -> Self {
        Self {
            file: patch.file_name.clone(),
            problem: format!(
                "it does not apply ({problem}), and the cache has no version that it applies to"
            ),
            diff: String::new(),
            help: "fetch a version that it applies to: rocmrpm patch status --pin NAME=VERSION"
                .into(),
        }
    }
}

impl Refreshed {
    /// Writes the changed patches. The caller must ensure that there is no conflict.
    pub fn write(&self) -> Result<(), Error> {
        for patch in &self.patches {
            files::write_if_changed(&patch.path, &patch.bytes)
                .map_err(IoError::doing(format!("write `{}`", patch.path.display())))?;
        }
        Ok(())
    }
}

/// An earlier version and the trees that the series creates for it: before the first patch, and
/// after each patch.
pub(super) struct EarlierVersion {
    pub earlier: Earlier,
    pub trees: Vec<String>,
}

impl EarlierVersion {
    /// Returns the earlier versions in the cache, the best ones first.
    pub fn all(
        workspace: &Workspace,
        component: &Component,
        pin: &Pin,
        repository: &Repository,
        fetcher: &Fetcher<'_>,
    ) -> Result<Vec<Self>, Error> {
        let found = earlier::find(workspace, component, pin, &workspace.pin_sets()?, fetcher)?;
        found.into_iter().map(|earlier| Self::of(earlier, component, pin, repository)).collect()
    }

    /// Merges the changes of the patch at an index of the series with upstream's, into a new tree.
    fn merge(
        &self,
        repository: &Repository,
        before: &str,
        at: usize,
        patch: &Patch,
    ) -> Result<Result<(String, How), Conflict>, Error> {
        let merged = merge(repository, before, (&self.trees[at], &self.trees[at + 1]), patch)?;
        Ok(merged.map(|tree| (tree, How::Merged { from: self.earlier.version.clone() })))
    }

    fn of(
        earlier: Earlier,
        component: &Component,
        pin: &Pin,
        repository: &Repository,
    ) -> Result<Self, Error> {
        let mut trees = Vec::new();
        Run::watched(&earlier.layers, component, &pin.version, &mut |dir| {
            trees.push(repository.store(dir)?);
            Ok(())
        })?;
        Ok(Self { earlier, trees })
    }
}

/// Transfers the changes of a patch from an old tree to a new one, as `git cherry-pick` does.
fn merge(
    repository: &Repository,
    new: &str,
    (old, patched): (&str, &str),
    patch: &Patch,
) -> Result<Result<String, Conflict>, Error> {
    let (clean, tree) = repository.merge(new, (old, patched))?;
    let conflict = |problem: &str, diff: String, help: &str| Conflict {
        file: patch.file_name.clone(),
        problem: problem.to_owned(),
        diff,
        help: help.to_owned(),
    };
    if !clean {
        let diff = repository.git().args(["diff", "--no-color", new, &tree]).text()?;
        return Ok(Err(conflict(
            "upstream changed the same lines",
            diff,
            "resolve it with git: rocmrpm prep --git NAME, then rocmrpm patch save NAME",
        )));
    }
    if tree == new {
        return Ok(Err(conflict(
            "upstream already contains all of it",
            String::new(),
            "remove the patch, or limit its `Versions:` to older versions",
        )));
    }
    Ok(Ok(tree))
}
