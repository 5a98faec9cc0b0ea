//! Saves the commits of a component's repository as its patches. Patches that did not change keep
//! their bytes and, where the order allows it, their names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;

use super::super::patch_bytes;
use super::super::repository::{CommitText, Repository};
use super::checkout::{self, Checkout, Commit};
use super::message;
use super::names::{Unnamed, names};
use super::series::{apply_patch, make_edits};
use crate::document::Document;
use crate::error::{Error, IoError, Kind};
use crate::files;
use crate::process::{check_stop, quote};
use crate::range::VersionRange;
use crate::workspace::{Component, Patch, Pin, Workspace};

/// The name and the bytes of a patch file.
type NamedPatch = (String, Vec<u8>);

/// What `rocmrpm patch save --json` prints: the patches of a component after its commits were saved.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PatchSave {
    /// The name and version of the schema.
    pub schema: &'static str,
    /// The component.
    pub component: String,
    /// The version that the commits are for.
    pub version: String,
    /// Whether the patches were written; not with `--dry-run`.
    pub written: bool,
    /// The patches in the order in which they are applied, then those that were removed.
    pub patches: Vec<SavedPatch>,
    /// The edits that do not apply after the patches, and why.
    pub edits_not_made: Vec<String>,
}

/// A patch, and how it changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SavedPatch {
    /// The file name.
    pub file: String,
    /// How it changed.
    pub change: PatchChange,
    /// The file name that it had, if another one.
    pub renamed_from: Option<String>,
    /// The trailers that it lacks.
    pub lacks: Vec<String>,
    /// The pin sets with other versions that a new or changed patch is also for.
    pub also_for: Vec<String>,
}

/// How a patch changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PatchChange {
    /// It has the same bytes.
    Unchanged,
    /// Its changes, message, or author are new.
    Changed,
    /// It is new.
    Added,
    /// Its commit was dropped.
    Removed,
}

impl Document for PatchSave {
    const SCHEMA: &'static str = "rocmrpm/patch-save/1";
}

/// A commit between two trees, without the edits.
struct EditedCommit {
    commit: Commit,
    before: String,
    after: String,
    /// The message without the name of the file.
    message: String,
    file: Option<String>,
}

/// Saves the commits of a component's repository. With `dry_run`, only returns what would change.
pub fn save(
    workspace: &Workspace,
    component: &Component,
    dry_run: bool,
) -> Result<PatchSave, Error> {
    let _lock = checkout::lock(workspace, component)?;
    let Some(checkout) = Checkout::find(workspace, component)? else {
        let message = format!("there is no git repository of `{}`", component.name);
        return Err(Error::new(Kind::Config, message)
            .with_help(format!("make it: rocmrpm prep --git {}", component.name)));
    };
    checkout.must_be_clean()?;
    let saving = Saving::new(workspace, component, &checkout)?;
    let items = saving.items()?;
    let recorded: BTreeMap<String, Vec<u8>> =
        checkout.repository.stored_files(&checkout.at(checkout::FILES)?)?.into_iter().collect();
    // A killed run may have given the commits the names of files that it wrote.
    let mut known = recorded.clone();
    for patch in component.patches_for(&saving.pin.version) {
        known.entry(patch.file_name.clone()).or_insert(patch_bytes(component, patch)?);
    }
    let (wanted, mut patches) = saving.patches(&items, &known)?;
    saving.must_be_expected(&recorded, &wanted)?;
    let names: BTreeSet<&String> = wanted.iter().map(|(name, _)| name).collect();
    let renamed: BTreeSet<String> =
        patches.iter().filter_map(|patch| patch.renamed_from.clone()).collect();
    // A range that no longer has this version keeps a patch for the others.
    let of_version = component.patches_for(&saving.pin.version).map(|patch| &patch.file_name);
    let gone: Vec<&String> =
        of_version.filter(|name| recorded.contains_key(*name) && !names.contains(name)).collect();
    for name in gone.iter().filter(|name| !renamed.contains(**name)) {
        saving.must_be_unused(name)?;
        patches.push(SavedPatch {
            file: (*name).clone(),
            change: PatchChange::Removed,
            renamed_from: None,
            lacks: Vec::new(),
            also_for: Vec::new(),
        });
    }
    if !dry_run {
        for (name, bytes) in &wanted {
            let path = saving.path(name);
            files::write_if_changed(&path, bytes)
                .map_err(IoError::doing(format!("write `{}`", path.display())))?;
        }
        for name in &gone {
            let path = component.dir.join(name);
            files::remove_if_there(&path)
                .map_err(IoError::doing(format!("remove `{}`", path.display())))?;
        }
        saving.record(&items, &wanted)?;
    }
    Ok(PatchSave {
        schema: PatchSave::SCHEMA,
        component: component.name.to_string(),
        version: saving.pin.version.clone(),
        written: !dry_run,
        patches,
        edits_not_made: saving.edited(&items)?.1,
    })
}

struct Saving<'s> {
    workspace: &'s Workspace,
    component: &'s Component,
    checkout: &'s Checkout,
    /// The pin at the version of the repository.
    pin: Pin,
    upstream: String,
    head: String,
}

impl<'s> Saving<'s> {
    fn new(
        workspace: &'s Workspace,
        component: &'s Component,
        checkout: &'s Checkout,
    ) -> Result<Self, Error> {
        let version = checkout.value(checkout::VERSION)?;
        let pin = Pin { version, ..workspace.pin(component).clone() };
        let (upstream, head) = (checkout.at(checkout::UPSTREAM)?, checkout.at("HEAD")?);
        let pending = checkout.repository.values(checkout::PENDING)?;
        if !pending.is_empty() && head == checkout.at(checkout::SAVED)? {
            let message = format!("{} did not apply and was not resolved", pending.join(", "));
            let name = &component.name;
            return Err(Error::new(Kind::Config, message).with_help(format!(
                "try again with `rocmrpm prep --git {name}`, or remove the patch from \
                 specs-templates/{name}"
            )));
        }
        let done = checkout.repository.run(["merge-base", "--is-ancestor", &upstream, &head])?;
        if !done.success() {
            let message = format!(
                "the commit with upstream's sources is not an ancestor of HEAD in `{}`",
                checkout.folder.display()
            );
            let folder = quote(&checkout.folder.to_string_lossy());
            return Err(Error::new(Kind::Config, message).with_help(format!(
                "check out the branch with the patches: git -C {folder} checkout patches"
            )));
        }
        Ok(Self { workspace, component, checkout, pin, upstream, head })
    }

    fn repository(&self) -> &Repository {
        &self.checkout.repository
    }

    fn tree(&self, commit: &str) -> Result<String, Error> {
        self.checkout.at(&format!("{commit}^{{tree}}"))
    }

    /// Makes the edits after the last item.
    fn edited(&self, items: &[EditedCommit]) -> Result<(String, Vec<String>), Error> {
        let upstream = self.tree(&self.upstream)?;
        let tree = items.last().map_or(&upstream, |item| &item.after);
        make_edits(self.repository(), tree, self.workspace, self.component, &self.pin)
    }

    /// Returns the commits that become patches. Moves those after the commit of the edits in front of
    /// it, because patches are applied before edits.
    fn items(&self) -> Result<Vec<EditedCommit>, Error> {
        let mut items: Vec<EditedCommit> = Vec::new();
        let mut tree = self.tree(&self.upstream)?;
        let mut actual = tree.clone();
        let mut edits = false;
        let commits = self.checkout.commits(&self.upstream, &self.head)?;
        if let Some(merge) = commits.iter().find(|commit| commit.parents.len() > 1) {
            return Err(self.refused(merge, "is a merge", "make one line of commits"));
        }
        for commit in commits {
            check_stop()?;
            if message::is_of_edits(&commit.message) {
                let made = make_edits(
                    self.repository(),
                    &tree,
                    self.workspace,
                    self.component,
                    &self.pin,
                )?;
                if edits || made.0 != commit.tree {
                    return Err(self.edits_changed(&commit, &made.0)?);
                }
                (edits, actual) = (true, commit.tree);
                continue;
            }
            let after = match edits {
                false => commit.tree.clone(),
                true => {
                    let (clean, merged) =
                        self.repository().merge(&tree, (&actual, &commit.tree))?;
                    if !clean {
                        let what = "changes the same lines as an edit of component.toml";
                        return Err(self.refused(&commit, what, "move it in front of the edits"));
                    }
                    merged
                }
            };
            if after == tree {
                return Err(self.refused(&commit, "changes nothing", "drop it"));
            }
            actual.clone_from(&commit.tree);
            let (message, file) = message::split(&commit.message);
            self.check_versions(&commit, &message)?;
            let before = std::mem::replace(&mut tree, after.clone());
            items.push(EditedCommit { commit, before, after, message, file });
        }
        if edits && self.edited(&items)?.0 != actual {
            let message = "the edits of component.toml no longer give the files of the last commit";
            return Err(Error::new(Kind::Config, message).with_help(format!(
                "move your commits in front of the edits: git -C {} rebase --interactive",
                quote(&self.checkout.folder.to_string_lossy())
            )));
        }
        Ok(items)
    }

    fn refused(&self, commit: &Commit, what: &str, todo: &str) -> Error {
        let id = commit.id.get(..12).unwrap_or_default();
        let message = format!("the commit {id} \"{}\" {what}", commit.subject);
        let folder = quote(&self.checkout.folder.to_string_lossy());
        let upstream = self.upstream.get(..12).unwrap_or_default();
        Error::new(Kind::Config, message)
            .with_help(format!("{todo}: git -C {folder} rebase --interactive {upstream}"))
    }

    fn edits_changed(&self, commit: &Commit, expected: &str) -> Result<Error, Error> {
        let files = self.repository().differing(expected, &commit.tree)?.join(", ");
        let id = commit.id.get(..12).unwrap_or_default();
        let message = match files.is_empty() {
            true => format!("the commit {id} makes the edits of component.toml a second time"),
            false => format!("the commit {id} of the edits was changed: {files}"),
        };
        Ok(Error::new(Kind::Config, message).with_help(format!(
            "change `[[edit]]` in specs-templates/{}/component.toml, or move the change into a \
             commit of its own",
            self.component.name
        )))
    }

    /// Refuses a patch that would not be for the version of the repository.
    fn check_versions(&self, commit: &Commit, message: &str) -> Result<(), Error> {
        let written = message::trailer(message, "Versions");
        let help = "correct its trailer `Versions:`";
        match VersionRange::parse(written) {
            _ if written.is_empty() => Ok(()),
            None => Err(self.refused(commit, &format!("is for `{written}`, not a range"), help)),
            Some(range) if !range.holds(&self.pin.version) => {
                let what = format!("is for `{written}`, not for {}", self.pin.version);
                Err(self.refused(commit, &what, help))
            }
            Some(_) => Ok(()),
        }
    }

    /// Returns the patch files in order, and how they changed.
    fn patches(
        &self,
        items: &[EditedCommit],
        known: &BTreeMap<String, Vec<u8>>,
    ) -> Result<(Vec<NamedPatch>, Vec<SavedPatch>), Error> {
        let mut seen = BTreeSet::new();
        let mut series = Vec::new();
        for item in items {
            let file = item.file.clone().filter(|file| known.contains_key(file));
            // The second commit with a name is a new patch, such as one part of a split.
            let file = file.filter(|file| seen.insert(file.clone()));
            series.push(Unnamed { file, slug: item.commit.slug.clone() });
        }
        let taken = self.component.patches.iter().map(|patch| patch.file_name.clone());
        let taken = taken.filter(|name| !known.contains_key(name)).collect();
        let names = names(&series, &taken);
        let (mut wanted, mut saved) = (Vec::new(), Vec::new());
        for ((item, unnamed), name) in items.iter().zip(series).zip(names) {
            check_stop()?;
            let old = unnamed.file.as_ref().and_then(|file| Some((file, known.get(file)?)));
            let bytes = self.bytes(item, old.map(|(file, bytes)| (file.as_str(), &bytes[..])))?;
            let change = match old {
                None => PatchChange::Added,
                Some((_, old)) if *old == bytes => PatchChange::Unchanged,
                Some(_) => PatchChange::Changed,
            };
            let lacks = ["Origin", "Drop-When"].into_iter();
            let lacks = lacks.filter(|key| message::trailer(&item.message, key).is_empty());
            saved.push(SavedPatch {
                file: name.clone(),
                change,
                renamed_from: unnamed.file.filter(|file| *file != name),
                lacks: lacks.map(|key| format!("{key}:")).collect(),
                also_for: match change {
                    PatchChange::Unchanged => Vec::new(),
                    _ => {
                        let range = message::trailer(&item.message, "Versions");
                        self.also_for(&VersionRange::parse(range).unwrap_or_default())?
                    }
                },
            });
            wanted.push((name, bytes));
        }
        Ok((wanted, saved))
    }

    /// Returns the other pin sets whose versions a patch is for.
    fn also_for(&self, range: &VersionRange) -> Result<Vec<String>, Error> {
        let sets = self.workspace.pin_sets()?;
        let versions = sets.iter().filter_map(|(name, set)| {
            let version = &set.pins.get(&self.component.name)?.value.version;
            (*version != self.pin.version && range.holds(version)).then(|| name.clone())
        });
        Ok(versions.collect())
    }

    /// Refuses to remove a patch that another pin set needs.
    fn must_be_unused(&self, file: &str) -> Result<(), Error> {
        let patch = self.component.patches.iter().find(|patch| patch.file_name == file);
        let Some(set) = patch.map(|patch| self.also_for(&patch.versions)).transpose()? else {
            return Ok(());
        };
        let Some(set) = set.first() else { return Ok(()) };
        let message =
            format!("cannot remove `{file}`: the pin set `{set}` has a version that it is for");
        let (name, version) = (&self.component.name, &self.pin.version);
        Err(Error::new(Kind::Config, message).with_help(format!(
            "limit its trailer `Versions:` in specs-templates/{name}/{file} to versions other than \
             {version}, and save again"
        )))
    }

    /// Returns the patch of a commit: the old bytes if they still mean the same, else new ones with
    /// the old header if message and author are the same.
    fn bytes(&self, item: &EditedCommit, old: Option<(&str, &[u8])>) -> Result<Vec<u8>, Error> {
        let repository = self.repository();
        let text = CommitText {
            author: item.commit.author.clone().map(|field| field.trim().to_owned()),
            message: item.message.clone(),
        };
        let mut header = None;
        if let Some((file, old)) = old {
            let patch = Patch::of_bytes(file, old, file, &mut Vec::new());
            let before = message::of_patch(repository, &patch, old)?;
            let same = message::normalized(&before.message) == item.message
                && self.author(&before)? == text.author;
            if same {
                if apply_patch(repository, &item.before, old)? == Ok(item.after.clone()) {
                    return Ok(old.to_vec());
                }
                header = Some(old);
            }
        }
        let bytes = match header {
            Some(old) => repository.patch(&item.before, &item.after, old)?,
            None => {
                let [name, email, date] = text.author.clone();
                let author = [name, email, format!("@{date}")];
                let text = CommitText { author, ..text };
                repository.patch_as(&item.before, &item.after, &text)?
            }
        };
        match apply_patch(repository, &item.before, &bytes)? {
            Ok(after) if after == item.after => Ok(bytes),
            Ok(_) => Err(self.refused(
                &item.commit,
                "changes what GNU patch cannot change, such as an empty file or a mode",
                "change it",
            )),
            Err(problem) => {
                Err(self.refused(&item.commit, &format!("is not a patch: {problem}"), "change it"))
            }
        }
    }

    /// Returns the author of a commit with this text.
    fn author(&self, text: &CommitText) -> Result<[String; 3], Error> {
        let tree = self.tree(&self.upstream)?;
        let commit = self.repository().commit_as(&tree, None, text)?;
        let format = "--format=%an%n%ae%n%ad";
        let log = ["log", "-1", "--date=raw", "--no-color", format, &commit, "--"];
        let shown = self.repository().git().args(log).output()?;
        let shown = String::from_utf8_lossy(&shown).into_owned();
        let mut lines = shown.lines();
        Ok(std::array::from_fn(|_| lines.next().unwrap_or_default().trim().to_owned()))
    }

    /// Refuses to overwrite patches that someone else changed since the repository was made. What an
    /// earlier, killed run wrote is as wanted.
    fn must_be_expected(
        &self,
        recorded: &BTreeMap<String, Vec<u8>>,
        wanted: &[(String, Vec<u8>)],
    ) -> Result<(), Error> {
        let wanted: BTreeMap<&String, &Vec<u8>> =
            wanted.iter().map(|(name, bytes)| (name, bytes)).collect();
        let mut there = BTreeSet::new();
        for patch in self.component.patches_for(&self.pin.version) {
            let (name, bytes) = (&patch.file_name, patch_bytes(self.component, patch)?);
            there.insert(name);
            if recorded.get(name) != Some(&bytes) && wanted.get(name) != Some(&&bytes) {
                return Err(self.changed_meanwhile(name));
            }
        }
        let gone = recorded.keys().find(|name| !there.contains(name) && wanted.contains_key(name));
        gone.map_or(Ok(()), |name| Err(self.changed_meanwhile(name)))
    }

    fn changed_meanwhile(&self, file: &str) -> Error {
        let folder = self.checkout.folder.display();
        let name = &self.component.name;
        let message = format!("`{file}` of `{name}` changed since `{folder}` was made");
        let (from, to) = (quote(&folder.to_string()), quote(&format!("{folder}.mine")));
        Error::new(Kind::Config, message).with_help(format!(
            "move your commits away, and pick them again: mv {from} {to}; rocmrpm prep --git {name}"
        ))
    }

    /// Returns the path of a patch; that of its target for a link.
    fn path(&self, name: &str) -> PathBuf {
        let path = self.component.dir.join(name);
        path.canonicalize().unwrap_or(path)
    }

    /// Makes the branch and the record match the patches that were written.
    fn record(&self, items: &[EditedCommit], wanted: &[(String, Vec<u8>)]) -> Result<(), Error> {
        let repository = self.repository();
        let mut tip = self.upstream.clone();
        for (item, (name, _)) in items.iter().zip(wanted) {
            let is_last = item.commit.parents.first() == Some(&tip);
            if is_last && item.file.as_ref() == Some(name) && item.commit.tree == item.after {
                tip.clone_from(&item.commit.id);
                continue;
            }
            let [author, email, date] = item.commit.author.clone();
            let text = CommitText {
                author: [author, email, format!("@{}", date.trim())],
                message: message::with_file(&item.message, name),
            };
            tip = repository.commit_as(&item.after, Some(&tip), &text)?;
        }
        let (edited, _) = self.edited(items)?;
        if edited != self.tree(&tip)? {
            let text = CommitText::message(&message::of_edits());
            tip = repository.commit_as(&edited, Some(&tip), &text)?;
        }
        if tip != self.head {
            let reset = ["reset", "--quiet", "--hard", &tip];
            repository.in_work_tree().args(reset).output()?;
        }
        repository.point(checkout::FILES, &repository.store_files(wanted)?)?;
        repository.point(checkout::SAVED, &tip)?;
        repository.set(checkout::PENDING, &[])?;
        let series = checkout::key_of_series(self.workspace, self.component, &self.pin, wanted);
        repository.set(checkout::SERIES, &[&series])?;
        Ok(())
    }
}
