//! A git repository that rocmrpm creates: stores, merges, and compares files, and reads and writes
//! commits and refs. It does not apply patches.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::{Error, IoError, Kind};
use crate::files;
use crate::git;
use crate::process::{BUILD_MARK, Command, Finished};
use crate::workspace::patch::header_end;

/// The author of commits that no person wrote: name and email.
pub(super) const AUTHOR: [&str; 2] = ["rocmrpm", "rocmrpm@localhost"];

/// A git repository, by its git folder.
#[derive(Debug)]
pub(super) struct Repository {
    dir: PathBuf,
}

/// The author and the message of a commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CommitText {
    /// Name, email, and date in any form that git reads; empty if unknown.
    pub author: [String; 3],
    pub message: String,
}

impl CommitText {
    /// Returns the text of a commit that no person wrote.
    pub fn message(message: &str) -> Self {
        Self { message: message.to_owned(), ..Self::default() }
    }
}

impl Repository {
    pub fn new(dir: PathBuf) -> Result<Self, Error> {
        let repository = Self { dir };
        repository.git().args(["init", "--quiet", "--bare", "--template="]).output()?;
        repository.ignore_attributes()?;
        Ok(repository)
    }

    /// Returns a repository that exists.
    pub fn open(dir: PathBuf) -> Result<Self, Error> {
        let repository = Self { dir };
        repository.ignore_attributes()?;
        Ok(repository)
    }

    /// Makes git store, merge, and compare files unmodified, whatever the source's .gitattributes
    /// state. No other attributes take precedence over these, so no filter of the repository's
    /// configuration runs.
    fn ignore_attributes(&self) -> Result<(), Error> {
        let attributes = self.dir.join("info/attributes");
        let text = "* -text -ident -filter -working-tree-encoding !merge !diff\n";
        files::write_if_changed(&attributes, text)
            .map_err(IoError::doing("store the files that patches change"))?;
        Ok(())
    }

    /// Creates a repository with a work tree, the folder that contains `dir`.
    pub fn with_work_tree(dir: PathBuf) -> Result<Self, Error> {
        let repository = Self::new(dir)?;
        repository.set("core.bare", &["false"])?;
        Ok(repository)
    }

    /// Returns git for this repository with a fixed date.
    pub fn git(&self) -> Command {
        let git = git::scratch(&self.dir).env(BUILD_MARK, &self.dir);
        let git = git.args(["-c", "merge.default=text", "-c", "commit.gpgSign=false"]);
        ["AUTHOR", "COMMITTER"].iter().fold(git, |git, who| {
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

    /// Returns git for the work tree and its index.
    pub fn in_work_tree(&self) -> Command {
        let work = self.dir.parent().unwrap_or(&self.dir);
        self.git().env("GIT_WORK_TREE", work).cwd(work)
    }

    /// Stores the whole work tree and returns its tree.
    pub fn store_work_tree(&self) -> Result<String, Error> {
        self.in_work_tree().args(["add", "--all", "--force", "."]).output()?;
        Ok(self.git().arg("write-tree").text()?)
    }

    /// Copies the named files of a tree into an empty folder, calls `work`, and returns its result
    /// and the tree with the files as they are then.
    pub fn change<T>(
        &self,
        tree: &str,
        names: &BTreeSet<String>,
        work: impl FnOnce(&Path) -> Result<T, Error>,
    ) -> Result<(T, String), Error> {
        let action = || IoError::doing("apply a patch or an edit");
        let scratch = tempfile::Builder::new().prefix("rocmrpm-").tempdir().map_err(action())?;
        let dir = scratch.path();
        files::remove_if_there(&self.index()).map_err(action())?;
        let git =
            || self.git().env("GIT_INDEX_FILE", self.index()).env("GIT_WORK_TREE", dir).cwd(dir);
        git().args(["read-tree", tree]).output()?;
        let list: Vec<u8> =
            names.iter().flat_map(|name| [name.as_bytes(), b"\0"].concat()).collect();
        let known = git().args(["--literal-pathspecs", "ls-files", "-z", "--"]).args(names);
        if !names.is_empty() {
            let known = known.output()?;
            git().args(["checkout-index", "-z", "--stdin", "--force"]).stdin(known).output()?;
        }
        let done = work(dir)?;
        git()
            .args(["update-index", "--add", "--remove", "--replace", "-z", "--stdin"])
            .stdin(list)
            .output()?;
        Ok((done, git().arg("write-tree").text()?))
    }

    /// Commits a tree with an author and a message. Ignores a date that git cannot read.
    pub fn commit_as(
        &self,
        tree: &str,
        parent: Option<&str>,
        text: &CommitText,
    ) -> Result<String, Error> {
        let [name, email, date] = &text.author;
        let commit = |date: &str| {
            let mut git = self.git().env("GIT_COMMITTER_NAME", AUTHOR[0]);
            git = git.env("GIT_COMMITTER_EMAIL", AUTHOR[1]);
            let (name, email) = match name.is_empty() {
                true => (AUTHOR[0], AUTHOR[1]),
                false => (name.as_str(), email.as_str()),
            };
            git = git.env("GIT_AUTHOR_NAME", name).env("GIT_AUTHOR_EMAIL", email);
            if !date.is_empty() {
                git = git.env("GIT_AUTHOR_DATE", date).env("GIT_COMMITTER_DATE", date);
            }
            let parent = parent.iter().flat_map(|parent| ["-p", parent]);
            git.args(["commit-tree", "-F", "-", tree]).args(parent).stdin(text.message.as_str())
        };
        let done = commit(date).run()?;
        if done.success() {
            return Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned());
        }
        Ok(commit("").text()?)
    }

    /// Runs git without treating an exit code as an error.
    pub fn run<const N: usize>(&self, args: [&str; N]) -> Result<Finished, Error> {
        Ok(self.git().args(args).run()?)
    }

    /// Returns the object that a revision names, if any.
    pub fn find(&self, revision: &str) -> Result<Option<String>, Error> {
        let done = self.run(["rev-parse", "--verify", "--quiet", "--end-of-options", revision])?;
        let id = String::from_utf8_lossy(&done.stdout).trim().to_owned();
        Ok(done.success().then_some(id))
    }

    /// Points a ref to an object.
    pub fn point(&self, name: &str, object: &str) -> Result<(), Error> {
        self.git().args(["update-ref", "-m", "rocmrpm", name, object]).output()?;
        Ok(())
    }

    /// Returns the refs below a folder such as `refs/rocmrpm`, with their objects.
    pub fn refs(&self, below: &str) -> Result<Vec<(String, String)>, Error> {
        let list = ["for-each-ref", "--format=%(refname) %(objectname)", below];
        let text = self.git().args(list).text()?;
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        Ok(pairs.map(|(name, id)| (name.to_owned(), id.to_owned())).collect())
    }

    /// Returns the values of a setting.
    pub fn values(&self, key: &str) -> Result<Vec<String>, Error> {
        let done = self.run(["config", "--local", "-z", "--get-all", key])?;
        let text = String::from_utf8_lossy(&done.stdout);
        Ok(text.split('\0').filter(|value| !value.is_empty()).map(str::to_owned).collect())
    }

    /// Replaces the values of a setting.
    pub fn set(&self, key: &str, values: &[&str]) -> Result<(), Error> {
        // Exit code 5: the setting does not exist.
        self.run(["config", "--local", "--unset-all", key])?;
        for value in values {
            self.git().args(["config", "--local", "--add", key, value]).output()?;
        }
        Ok(())
    }

    /// Stores files as a tree; their names have no folder.
    pub fn store_files(&self, named: &[(String, Vec<u8>)]) -> Result<String, Error> {
        let mut lines = Vec::new();
        for (name, bytes) in named {
            let mut git = self.git().args(["hash-object", "-w", "--no-filters", "--stdin"]);
            if !bytes.is_empty() {
                git = git.stdin(bytes.clone());
            }
            lines.extend(format!("100644 blob {}\t{name}\0", git.text()?).into_bytes());
        }
        Ok(self.git().args(["mktree", "-z"]).stdin(lines).text()?)
    }

    /// Returns the files that [`Self::store_files`] stored.
    pub fn stored_files(&self, tree: &str) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let names = self.git().args(["ls-tree", "-z", "--name-only", tree]).output()?;
        let names = String::from_utf8_lossy(&names).into_owned();
        names
            .split('\0')
            .filter(|name| !name.is_empty())
            .map(|name| {
                let bytes = self.git().args(["cat-file", "blob", &format!("{tree}:{name}")]);
                Ok((name.to_owned(), bytes.output()?))
            })
            .collect()
    }

    /// Returns the files that differ between two trees.
    pub fn differing(&self, one: &str, other: &str) -> Result<Vec<String>, Error> {
        let diff = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", one, other];
        let names = self.git().args(diff).output()?;
        let names = String::from_utf8_lossy(&names);
        Ok(names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    pub fn commit(&self, tree: &str, parent: Option<&str>) -> Result<String, Error> {
        let mut git = self.git().args(["commit-tree", "-m", "x", tree]);
        if let Some(parent) = parent {
            git = git.args(["-p", parent]);
        }
        Ok(git.text()?)
    }

    /// Transfers the changes from an old tree to another one onto a new tree. Returns whether that
    /// was possible without conflicts, and the tree, which contains git's conflict markers if not.
    pub fn merge(&self, new: &str, (old, changed): (&str, &str)) -> Result<(bool, String), Error> {
        let base = self.commit(old, None)?;
        let ours = self.commit(new, Some(&base))?;
        let theirs = self.commit(changed, Some(&base))?;
        // git-merge-tree(1): exit code 0 for a clean merge, 1 for conflicts.
        let done = self.git().args(["merge-tree", "--write-tree", &ours, &theirs]).run()?;
        let out = String::from_utf8_lossy(&done.stdout).into_owned();
        let tree = out.lines().next().unwrap_or_default().to_owned();
        match done.code {
            Some(0) => Ok((true, tree)),
            Some(1) => Ok((false, tree)),
            _ => {
                let message = String::from_utf8_lossy(&done.stderr).trim().to_owned();
                let message = format!("git merge-tree {}: {message}", done.how());
                Err(Error::new(Kind::Environment, message).with_help("install git 2.38 or newer"))
            }
        }
    }

    /// Returns a patch from one tree to another with the header of `old`, a patch or only a header.
    pub fn patch(&self, before: &str, after: &str, old: &[u8]) -> Result<Vec<u8>, Error> {
        let made = self.patch_as(before, after, &CommitText::message("x"))?;
        let mut bytes = old[..header_end(old)].to_vec();
        bytes.extend_from_slice(&made[header_end(&made)..]);
        Ok(bytes)
    }

    /// Returns a patch from one tree to another with a new header.
    pub fn patch_as(&self, before: &str, after: &str, text: &CommitText) -> Result<Vec<u8>, Error> {
        let commit = self.commit_as(after, Some(&self.commit(before, None)?), text)?;
        let format = [
            "format-patch",
            "--zero-commit",
            "--no-signature",
            "--full-index",
            "--no-encode-email-headers",
            "--no-ext-diff",
            "--no-textconv",
            "--stdout",
            "-1",
        ];
        let mut bytes = self.git().args(format).arg(commit).output()?;
        // Without a signature, format-patch ends with an empty line.
        while bytes.ends_with(b"\n\n") {
            bytes.pop();
        }
        Ok(bytes)
    }
}
