//! A git repository in a temporary folder, which stores, merges and compares the files that patches
//! change. It does not apply patches.

use std::path::{Path, PathBuf};

use crate::error::{Error, IoError};
use crate::files;
use crate::git;
use crate::process::Command;
use crate::workspace::patch::header_end;

/// A bare git repository for trees and merges.
pub(super) struct Repository {
    dir: PathBuf,
}

impl Repository {
    pub fn new(dir: PathBuf) -> Result<Self, Error> {
        let repository = Self { dir };
        repository.git().args(["init", "--quiet", "--bare", "--template="]).output()?;
        // Store files unmodified, regardless of the source's .gitattributes.
        let attributes = repository.dir.join("info/attributes");
        files::write_atomically(&attributes, "* -text -ident -filter -working-tree-encoding\n")
            .map_err(IoError::doing("store the files that patches change"))?;
        Ok(repository)
    }

    /// Returns git for this repository with a fixed date.
    pub fn git(&self) -> Command {
        ["AUTHOR", "COMMITTER"].iter().fold(git::scratch(&self.dir), |git, who| {
            git.env(format!("GIT_{who}_NAME"), "x")
                .env(format!("GIT_{who}_EMAIL"), "x")
                .env(format!("GIT_{who}_DATE"), "2001-09-17T00:00:00Z")
        })
    }

    fn index(&self) -> PathBuf {
        self.dir.join("rocmrpm-index")
    }

    /// Stores the content of a folder and returns its tree.
    pub fn store(&self, dir: &Path) -> Result<String, Error> {
        files::remove_if_there(&self.index())
            .map_err(IoError::doing("store the files that patches change"))?;
        let git =
            || self.git().env("GIT_INDEX_FILE", self.index()).env("GIT_WORK_TREE", dir).cwd(dir);
        git().args(["add", "--all", "--force", "."]).output()?;
        Ok(git().arg("write-tree").text()?)
    }

    /// Replaces the content of a folder with a tree.
    pub fn restore(&self, tree: &str, dir: &Path) -> Result<(), Error> {
        let action = || IoError::doing("store the files that patches change");
        files::remove_dir_if_there(dir).map_err(action())?;
        fs_err::create_dir(dir).map_err(action())?;
        let git =
            || self.git().env("GIT_INDEX_FILE", self.index()).env("GIT_WORK_TREE", dir).cwd(dir);
        git().args(["read-tree", tree]).output()?;
        git().args(["checkout-index", "--all", "--force"]).output()?;
        Ok(())
    }

    pub fn commit(&self, tree: &str, parent: Option<&str>) -> Result<String, Error> {
        let mut git = self.git().args(["commit-tree", "-m", "x", tree]);
        if let Some(parent) = parent {
            git = git.args(["-p", parent]);
        }
        Ok(git.text()?)
    }

    /// Returns a patch from one tree to another with the header of `old`, a patch or only a header.
    pub fn patch(&self, before: &str, after: &str, old: &[u8]) -> Result<Vec<u8>, Error> {
        let commit = self.commit(after, Some(&self.commit(before, None)?))?;
        let format =
            ["format-patch", "--zero-commit", "--no-signature", "--full-index", "--stdout", "-1"];
        let made = self.git().args(format).arg(commit).output()?;
        let mut bytes = old[..header_end(old)].to_vec();
        bytes.extend_from_slice(&made[header_end(&made)..]);
        // Without a signature, format-patch ends with an empty line.
        while bytes.ends_with(b"\n\n") {
            bytes.pop();
        }
        Ok(bytes)
    }
}
