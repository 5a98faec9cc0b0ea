//! The git repository of a component's sources and patches: where it is, what it was made from, and
//! whether it can be changed. It does not create one.

use std::path::PathBuf;

use serde::Serialize;

use super::super::repository::Repository;
use super::message;
use crate::canonical::canonical;
use crate::digest::Sha256;
use crate::error::{Error, IoError, Kind};
use crate::files;
use crate::git;
use crate::process::quote;
use crate::sources;
use crate::spec::edit_text;
use crate::workspace::{Component, Pin, Workspace};

/// The ref of the commit with upstream's sources.
pub(super) const UPSTREAM: &str = "refs/rocmrpm/upstream";

/// The ref of the tree with the patch files that the commits were made from.
pub(super) const FILES: &str = "refs/rocmrpm/files";

/// The ref of the last commit that the patch files contain.
pub(super) const SAVED: &str = "refs/rocmrpm/saved";

/// The folder of refs of the commits that git is asked to pick.
pub(super) const PICKS: &str = "refs/rocmrpm/picks/";

/// The branch with the patches.
pub(super) const BRANCH: &str = "refs/heads/patches";

/// The settings with the version, and with digests of the sources and of patches and edits.
pub(super) const VERSION: &str = "rocmrpm.version";
pub(super) const SOURCES: &str = "rocmrpm.sources";
pub(super) const SERIES: &str = "rocmrpm.series";

/// The setting with the patches that did not apply and that git is asked to pick.
pub(super) const PENDING: &str = "rocmrpm.pending";

/// The most files to name in a message.
const MOST_NAMED: usize = 5;

/// What git is in the middle of, by a file in its folder.
const IN_PROGRESS: &[(&str, &str)] = &[
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("REVERT_HEAD", "revert"),
    ("sequencer", "cherry-pick"),
];

/// A commit of the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PatchCommit {
    /// The commit.
    pub commit: String,
    /// The first line of its message.
    pub subject: String,
    /// The file of its patch; `null` for upstream's sources, the edits, and what is not saved yet.
    pub file: Option<String>,
}

/// A repository with a component's patches.
pub(super) struct Checkout {
    pub folder: PathBuf,
    pub repository: Repository,
    component: String,
}

/// A commit, with what `patch save` needs of it.
#[derive(Debug, Clone)]
pub(super) struct Commit {
    pub id: String,
    pub parents: Vec<String>,
    pub tree: String,
    /// Name, email, and date.
    pub author: [String; 3],
    /// The subject in the form of a file name.
    pub slug: String,
    pub subject: String,
    pub message: String,
}

/// Returns the folder of a component's repository.
pub(super) fn folder(workspace: &Workspace, component: &Component) -> PathBuf {
    workspace.build_dir().join("git").join(component.name.as_str())
}

/// Locks a component's repository against other runs.
pub(super) fn lock(workspace: &Workspace, component: &Component) -> Result<files::Lock, Error> {
    let folder = folder(workspace, component);
    let above = folder.parent().unwrap_or(&workspace.root);
    let action = || IoError::doing(format!("lock `{}`", folder.display()));
    fs_err::create_dir_all(above).map_err(action())?;
    let lock = files::try_lock(&above.join(format!(".{}.lock", component.name)));
    lock.map_err(action())?.ok_or_else(|| {
        let message = format!("another rocmrpm process is using `{}`", folder.display());
        Error::new(Kind::Environment, message).with_help("try again when it has finished")
    })
}

/// Returns a digest of a pin's sources.
pub(super) fn key_of_sources(workspace: &Workspace, pin: &Pin) -> Result<String, Error> {
    let identities = sources::identities(pin, &workspace.root)?;
    let lines = identities.iter().map(|(name, identity)| format!("{name} {identity}"));
    let lines: Vec<String> = std::iter::once(pin.version.clone()).chain(lines).collect();
    Ok(digest(&lines))
}

/// Returns the digest of a key's parts.
fn digest(lines: &[String]) -> String {
    Sha256::of_bytes(canonical(lines)).to_string()
}

/// Returns a digest of patches and edits.
pub(super) fn key_of_series(
    workspace: &Workspace,
    component: &Component,
    pin: &Pin,
    patches: &[(String, Vec<u8>)],
) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (name, bytes) in patches {
        lines.push(format!("{name} {}", Sha256::of_bytes(bytes)));
    }
    for edit in component.edits_for(&pin.version) {
        let replace = edit_text(workspace, pin, &edit.replace.value).unwrap_or_default();
        let source = edit.source.clone().unwrap_or_default();
        let count = edit.matches.to_string();
        lines.extend([source, edit.file.clone(), edit.find.clone(), replace, count]);
    }
    digest(&lines)
}

impl Checkout {
    /// Finds a component's repository, if `prep --git` made one.
    pub fn find(workspace: &Workspace, component: &Component) -> Result<Option<Self>, Error> {
        let folder = folder(workspace, component);
        let dir = folder.join(".git");
        if !dir.is_dir() {
            return Ok(None);
        }
        let repository = Repository::open(dir)?;
        let component = component.name.to_string();
        let checkout = Self { folder, repository, component };
        Ok(checkout.repository.find(SAVED)?.map(|_| checkout))
    }

    /// Returns the object of a ref.
    pub fn at(&self, name: &str) -> Result<String, Error> {
        self.repository.find(name)?.ok_or_else(|| {
            let message = format!("`{}` has no `{name}`", self.folder.display());
            let folder = quote(&self.folder.to_string_lossy());
            Error::new(Kind::Config, message).with_help(format!(
                "make it again: rm -r {folder}; rocmrpm prep --git {}",
                self.component
            ))
        })
    }

    /// Returns a setting; empty if it is missing.
    pub fn value(&self, key: &str) -> Result<String, Error> {
        Ok(self.repository.values(key)?.pop().unwrap_or_default())
    }

    /// Returns what git is in the middle of.
    pub fn in_progress(&self) -> Option<&'static str> {
        let dir = self.folder.join(".git");
        let found = IN_PROGRESS.iter().find(|(file, _)| dir.join(file).symlink_metadata().is_ok());
        found.map(|(_, what)| *what)
    }

    /// Refuses a repository with an unfinished operation or with changes outside of commits.
    pub fn must_be_clean(&self) -> Result<(), Error> {
        let folder = quote(&self.folder.to_string_lossy());
        if let Some(what) = self.in_progress() {
            let message =
                format!("git is in the middle of a {what} in `{}`", self.folder.display());
            return Err(Error::new(Kind::Config, message)
                .with_help(format!("finish it: git -C {folder} {what} --continue")));
        }
        let found = git::Repository::find(&self.folder)?;
        let changes = found.map(|repository| repository.changes(&[])).transpose()?;
        let changed = changes.map(|changes| changes.changed).unwrap_or_default();
        if changed.is_empty() {
            return Ok(());
        }
        let more = changed.len().saturating_sub(MOST_NAMED);
        let mut names: Vec<String> = changed.into_iter().take(MOST_NAMED).collect();
        if more > 0 {
            names.push(format!("{more} more"));
        }
        let message =
            format!("`{}` has uncommitted changes: {}", self.folder.display(), names.join(", "));
        Err(Error::new(Kind::Config, message)
            .with_help(format!("commit them: git -C {folder} add --all && git -C {folder} commit")))
    }

    /// Returns the commits after one commit up to another one, oldest first.
    pub fn commits(&self, after: &str, to: &str) -> Result<Vec<Commit>, Error> {
        let format = "--format=%H%x00%P%x00%T%x00%an%x00%ae%x00%ad%x00%f%x00%s%x00%B%x00";
        let log = ["log", "--reverse", "--topo-order", "--date=raw", "--no-color", format];
        let out = self.repository.git().args(log).args([to, "--not", after, "--"]).output()?;
        let text = String::from_utf8_lossy(&out).into_owned();
        let fields: Vec<&str> = text.split('\0').collect();
        let commit = |fields: &[&str]| {
            let [id, parents, tree, name, email, date, slug, subject, message] = fields else {
                return None;
            };
            Some(Commit {
                id: id.trim().to_owned(),
                parents: parents.split_whitespace().map(str::to_owned).collect(),
                tree: (*tree).to_owned(),
                author: [name, email, date].map(|field| (*field).to_owned()),
                slug: (*slug).to_owned(),
                subject: (*subject).to_owned(),
                message: (*message).to_owned(),
            })
        };
        Ok(fields.chunks(9).filter_map(commit).collect())
    }

    /// Returns the commits to print, upstream's first.
    pub fn listed(&self) -> Result<Vec<PatchCommit>, Error> {
        let upstream = self.at(UPSTREAM)?;
        let all = self.commits(&upstream, "HEAD")?;
        let subject = self.repository.git().args(["log", "-1", "--no-color", "--format=%s"]);
        let subject = subject.args([upstream.as_str(), "--"]).text()?;
        let first = PatchCommit { commit: upstream, subject, file: None };
        let rest = all.into_iter().map(|commit| PatchCommit {
            file: message::split(&commit.message).1,
            commit: commit.id,
            subject: commit.subject,
        });
        Ok(std::iter::once(first).chain(rest).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_fixed_bytes() {
        let lines = ["1.0".to_owned(), "source sha256:00".to_owned()];
        assert_eq!(canonical(&lines[..]), r#"["1.0", "source sha256:00"]"#);
        assert_eq!(digest(&lines), Sha256::of_bytes(r#"["1.0", "source sha256:00"]"#).to_string());
    }
}
