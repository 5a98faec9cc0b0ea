//! Makes the git repository of a component's sources, patches, and edits, or moves it to another
//! version: patches that apply become commits, and git picks the others from an earlier version.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::super::layers::{Layers, copy_folder};
use super::super::patch_bytes;
use super::super::refresh::EarlierVersion;
use super::super::repository::{CommitText, Repository};
use super::checkout::{self, Checkout, PatchCommit};
use super::message;
use super::series::{apply_patch, make_edits};
use crate::document::Document;
use crate::error::{Error, IoError, Kind};
use crate::files;
use crate::process::{check_stop, end_leftovers, quote};
use crate::sources::Fetcher;
use crate::workspace::{Component, Patch, Workspace};

/// What `rocmrpm prep --git --json` prints: a git repository with a component's sources and patches.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GitPrep {
    /// The name and version of the schema.
    pub schema: &'static str,
    /// The component.
    pub component: String,
    /// The version.
    pub version: String,
    /// The chroot, whose values the edits contain.
    pub chroot: String,
    /// The pin set.
    pub pins: String,
    /// The work tree.
    pub folder: PathBuf,
    /// Whether the repository was made; not if it was already there with these sources and patches.
    pub made: bool,
    /// The commits: upstream's sources first, then a commit per patch, then the edits.
    pub commits: Vec<PatchCommit>,
    /// Where git stopped, if a patch conflicts with the sources.
    pub stopped: Option<Stopped>,
    /// The edits that do not apply, and why.
    pub edits_not_made: Vec<String>,
}

/// A patch that conflicts with the sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stopped {
    /// The patch's file.
    pub file: String,
    /// The files with conflicts; empty if upstream contains all of the patch.
    pub conflicts: Vec<String>,
}

impl Document for GitPrep {
    const SCHEMA: &'static str = "rocmrpm/prep-git/1";
}

/// A patch of the series with its commit's text.
struct SeriesCommit<'c> {
    at: usize,
    patch: &'c Patch,
    bytes: Vec<u8>,
    text: CommitText,
}

/// Makes the repository of a component, unless there is one with the same sources and patches. One
/// for another version, or with other patches, is replaced if everything in it is saved.
pub fn prepare_git(
    workspace: &Workspace,
    component: &Component,
    fetcher: &Fetcher<'_>,
) -> Result<GitPrep, Error> {
    let pin = workspace.pin(component);
    let _lock = checkout::lock(workspace, component)?;
    let mut patches = Vec::new();
    for patch in component.patches_for(&pin.version) {
        patches.push((patch.file_name.clone(), patch_bytes(component, patch)?));
    }
    let sources = checkout::key_of_sources(workspace, pin)?;
    let series = checkout::key_of_series(workspace, component, pin, &patches);
    let existing = Checkout::find(workspace, component)?;
    if let Some(existing) = &existing {
        let same = existing.value(checkout::SOURCES)? == sources
            && existing.value(checkout::SERIES)? == series;
        let unchanged = existing.at("HEAD")? == existing.at(checkout::SAVED)?;
        let aborted = unchanged
            && existing.in_progress().is_none()
            && !existing.repository.values(checkout::PENDING)?.is_empty();
        if same && !aborted {
            return report(workspace, component, existing, false, Vec::new());
        }
        existing.must_be_clean()?;
        if !unchanged {
            return Err(unsaved(component, existing));
        }
    }
    let folder = checkout::folder(workspace, component);
    let new = folder.with_file_name(format!(".{}.new", component.name));
    let action = || IoError::doing(format!("make `{}`", folder.display()));
    end_leftovers(&new.join(".git")).map_err(IoError::doing("stop processes of an earlier run"))?;
    files::remove_dir_if_there(&new).map_err(action())?;
    fs_err::create_dir_all(&new).map_err(action())?;
    let repository = match &existing {
        // Its commits can be picked, and its other branches stay.
        Some(old) => {
            copy_folder(&old.folder.join(".git"), &new.join(".git")).map_err(action())?;
            files::remove_if_there(&new.join(".git/index")).map_err(action())?;
            Repository::open(new.join(".git"))?
        }
        None => Repository::with_work_tree(new.join(".git"))?,
    };
    let made = Making { workspace, component, fetcher, repository, existing };
    let edits_not_made = made.make(&new, &patches).inspect_err(|_| {
        // The next run removes what is left.
        let _ = files::remove_dir_if_there(&new);
    })?;
    made.repository.set(checkout::VERSION, &[&pin.version])?;
    made.repository.set(checkout::SOURCES, &[&sources])?;
    made.repository.set(checkout::SERIES, &[&series])?;
    files::exchange(&new, &folder).map_err(action())?;
    files::remove_dir_if_there(&new).map_err(action())?;
    let Some(made) = Checkout::find(workspace, component)? else {
        return Err(Error::new(Kind::Internal, "the repository has no saved commit"));
    };
    report(workspace, component, &made, true, edits_not_made)
}

fn unsaved(component: &Component, existing: &Checkout) -> Error {
    let folder = existing.folder.display();
    let message =
        format!("`{folder}` has commits that are not saved, for other sources or patches");
    let name = &component.name;
    let (from, to) = (quote(&folder.to_string()), quote(&format!("{folder}.mine")));
    Error::new(Kind::Config, message)
        .with_help(format!("save them: rocmrpm patch save {name}"))
        .with_help(format!("to cherry-pick them later, move the folder away: mv {from} {to}"))
}

fn report(
    workspace: &Workspace,
    component: &Component,
    checkout: &Checkout,
    made: bool,
    edits_not_made: Vec<String>,
) -> Result<GitPrep, Error> {
    let stopped = match checkout.in_progress() {
        None => None,
        Some(_) => stopped(&checkout.repository)?,
    };
    Ok(GitPrep {
        schema: GitPrep::SCHEMA,
        component: component.name.to_string(),
        version: workspace.pin(component).version.clone(),
        chroot: workspace.chroot.name.clone(),
        pins: workspace.pins.name.clone(),
        folder: checkout.folder.clone(),
        made,
        commits: checkout.listed()?,
        stopped,
        edits_not_made,
    })
}

/// Returns the patch that git stopped at.
fn stopped(repository: &Repository) -> Result<Option<Stopped>, Error> {
    let Some(picked) = repository.find("CHERRY_PICK_HEAD")? else { return Ok(None) };
    let text = repository.git().args(["log", "-1", "--no-color", "--format=%B", &picked, "--"]);
    let file = message::split(&text.text()?).1.unwrap_or_default();
    let list = ["diff", "--name-only", "-z", "--no-color", "--diff-filter=U"];
    let out = repository.in_work_tree().args(list).output()?;
    let names = String::from_utf8_lossy(&out);
    let names = names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned);
    Ok(Some(Stopped { file, conflicts: names.collect() }))
}

/// What makes the commits of a new repository.
struct Making<'m> {
    workspace: &'m Workspace,
    component: &'m Component,
    fetcher: &'m Fetcher<'m>,
    repository: Repository,
    existing: Option<Checkout>,
}

impl Making<'_> {
    /// Makes all commits and checks the last one out. Returns the edits that do not apply.
    fn make(&self, folder: &Path, patches: &[(String, Vec<u8>)]) -> Result<Vec<String>, Error> {
        let Self { workspace, component, fetcher, repository, .. } = self;
        let pin = workspace.pin(component);
        let layers = Layers::of(fetcher, component, pin)?;
        let action = || IoError::doing(format!("copy the sources of `{}`", component.name));
        layers.copy_all(folder).map_err(action())?;
        let mut tree = repository.store_work_tree()?;
        let about = format!(
            "{} {}\n\nUpstream's sources, without patches and edits.\n",
            component.name, pin.version
        );
        let upstream = repository.commit_as(&tree, None, &CommitText::message(&about))?;
        let (mut tip, mut pending) = (upstream.clone(), Vec::new());
        for (at, patch) in component.patches_for(&pin.version).enumerate() {
            check_stop()?;
            let bytes = patches[at].1.clone();
            let mut text = message::of_patch(repository, patch, &bytes)?;
            text.message = message::with_file(&text.message, &patch.file_name);
            // The rest follows a patch that git has to pick.
            let applied = match pending.is_empty() {
                true => apply_patch(repository, &tree, &bytes)?,
                false => Err(String::new()),
            };
            match applied {
                Ok(after) => {
                    tip = repository.commit_as(&after, Some(&tip), &text)?;
                    tree = after;
                }
                Err(_) => pending.push(SeriesCommit { at, patch, bytes, text }),
            }
        }
        let picks = self.picks(&pending, &upstream)?;
        let mut left_out = Vec::new();
        if picks.is_empty() {
            (tip, left_out) = self.with_edits(&tip)?;
        }
        repository.point(checkout::UPSTREAM, &upstream)?;
        repository.point(checkout::FILES, &repository.store_files(patches)?)?;
        repository.point(checkout::SAVED, &tip)?;
        repository.git().args(["symbolic-ref", "HEAD", checkout::BRANCH]).output()?;
        repository.point(checkout::BRANCH, &tip)?;
        for (name, _) in repository.refs(checkout::PICKS)? {
            repository.git().args(["update-ref", "-d", &name]).output()?;
        }
        for (number, pick) in picks.iter().enumerate() {
            repository.point(&format!("{}{number}", checkout::PICKS), pick)?;
        }
        let names: Vec<&str> = pending.iter().map(|step| step.patch.file_name.as_str()).collect();
        repository.set(checkout::PENDING, &names)?;
        repository.in_work_tree().args(["reset", "--quiet", "--hard", &tip]).output()?;
        if picks.is_empty() {
            return Ok(left_out);
        }
        let done = repository.in_work_tree().arg("cherry-pick").args(&picks).run()?;
        if done.success() {
            (tip, left_out) = self.with_edits(&repository.find("HEAD")?.unwrap_or(tip))?;
            repository.in_work_tree().args(["reset", "--quiet", "--hard", &tip]).output()?;
        } else if stopped(repository)?.is_none() {
            let message = String::from_utf8_lossy(&done.stderr).trim().to_owned();
            let message = format!("git cherry-pick {}: {message}", done.how());
            return Err(
                Error::new(Kind::Environment, message).with_help("install git 2.38 or newer")
            );
        }
        Ok(left_out)
    }

    /// Returns a commit for each patch that does not apply, with a parent that it applies to.
    fn picks(&self, pending: &[SeriesCommit<'_>], upstream: &str) -> Result<Vec<String>, Error> {
        let Self { workspace, component, fetcher, repository, existing } = self;
        let known = match existing.as_ref().filter(|_| !pending.is_empty()) {
            Some(existing) => commits_of(existing, pending)?,
            None => BTreeMap::new(),
        };
        let mut earlier: Option<Vec<EarlierVersion>> = None;
        let mut picks = Vec::new();
        for SeriesCommit { at, patch, bytes, text } in pending {
            if let Some(commit) = known.get(&patch.file_name) {
                picks.push(commit.clone());
                continue;
            }
            let earlier = match &mut earlier {
                Some(earlier) => earlier,
                none => none.insert(EarlierVersion::all(
                    workspace,
                    component,
                    workspace.pin(component),
                    repository,
                    fetcher,
                )?),
            };
            let old = earlier.iter().find(|old| old.earlier.applied.contains_key(&patch.file_name));
            let (before, after) = match old {
                Some(old) => (old.trees[*at].clone(), old.trees[at + 1].clone()),
                // It may need only upstream's sources, and not the patch that conflicts.
                None => match apply_patch(repository, upstream, bytes)? {
                    Ok(after) => (upstream.to_owned() + "^{tree}", after),
                    Err(problem) => return Err(without_earlier(patch, &problem)),
                },
            };
            let before = repository.find(&before)?.unwrap_or(before);
            let parent = repository.commit(&before, None)?;
            picks.push(repository.commit_as(&after, Some(&parent), text)?);
        }
        Ok(picks)
    }

    /// Makes the component's edits on top of a commit. Returns the new commit, and the edits that do
    /// not apply.
    fn with_edits(&self, tip: &str) -> Result<(String, Vec<String>), Error> {
        let Self { workspace, component, repository, .. } = self;
        let pin = workspace.pin(component);
        let tree = repository.find(&format!("{tip}^{{tree}}"))?.unwrap_or_default();
        let (edited, left_out) = make_edits(repository, &tree, workspace, component, pin)?;
        if edited == tree {
            return Ok((tip.to_owned(), left_out));
        }
        let text = CommitText::message(&message::of_edits());
        Ok((repository.commit_as(&edited, Some(tip), &text)?, left_out))
    }
}

/// Returns the commits of an existing repository by patch, for patches that are still the same.
fn commits_of(
    existing: &Checkout,
    pending: &[SeriesCommit<'_>],
) -> Result<BTreeMap<String, String>, Error> {
    let recorded: BTreeMap<String, Vec<u8>> =
        existing.repository.stored_files(&existing.at(checkout::FILES)?)?.into_iter().collect();
    let mut all = existing.commits(&existing.at(checkout::UPSTREAM)?, checkout::SAVED)?;
    for (_, commit) in existing.repository.refs(checkout::PICKS)? {
        all.extend(existing.commits(&format!("{commit}^"), &commit)?);
    }
    let is_same = |file: &String| {
        let step = pending.iter().find(|step| step.patch.file_name == *file);
        step.is_some_and(|step| recorded.get(file) == Some(&step.bytes))
    };
    let named =
        all.into_iter().filter_map(|commit| Some((message::split(&commit.message).1?, commit.id)));
    Ok(named.filter(|(file, _)| is_same(file)).collect())
}

fn without_earlier(patch: &Patch, problem: &str) -> Error {
    let file = &patch.file_name;
    let message = format!(
        "`{file}` does not apply ({problem}), and the cache has no version that it applies to"
    );
    Error::new(Kind::Config, message)
        .with_help("fetch a version that it applies to: rocmrpm patch status --pin NAME=VERSION")
}
