//! Finds and reads the git repository that contains a workspace. It does not trust the repository's
//! configuration: a workspace may be an unpacked archive that contains a `.git`.

use std::path::{Path, PathBuf};

use crate::error::{Diagnose, Diagnosis, Kind};
use crate::ownership;
use crate::process::{Command, ProcessError, quote};

/// Errors that occur while reading the git history of a workspace.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// git failed.
    #[error("cannot read the git history of `{}`", root.display())]
    Git {
        /// The workspace.
        root: PathBuf,
        /// git's error.
        source: ProcessError,
    },
    /// git would read its configuration from the files of the workspace.
    #[error("`{}` looks like a bare git repository: it contains `HEAD`, `objects` and `refs`", dir.display())]
    Bare {
        /// The folder.
        dir: PathBuf,
    },
    /// An object in the history was never fetched.
    #[error("the git clone of `{}` lacks the object {object}", root.display())]
    Incomplete {
        /// The workspace.
        root: PathBuf,
        /// The object.
        object: String,
    },
}

impl Diagnose for RepositoryError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Git { root, source } if source.to_string().contains("dubious ownership") => {
                let root = quote(&root.to_string_lossy());
                let command = format!("git config --global --add safe.directory {root}");
                source.diagnosis().with_help(format!("if you trust its owner: {command}"))
            }
            Self::Git { source, .. } => source.diagnosis(),
            Self::Bare { dir } => {
                let head = quote(&dir.join("HEAD").to_string_lossy());
                Kind::Config.with_help(format!(
                    "if you expected this: rm {head}; otherwise, do not trust this workspace"
                ))
            }
            Self::Incomplete { root, .. } => {
                let root = quote(&root.to_string_lossy());
                Kind::Environment.with_help(format!(
                    "fetch all objects: git -C {root} fetch --refetch --no-filter"
                ))
            }
        }
    }
}

/// The repository that contains a workspace.
pub(crate) struct Repository<'a> {
    /// The workspace, or one of its submodules.
    pub(super) root: &'a Path,
    /// The folder that contains `.git`.
    top: PathBuf,
}

impl<'a> Repository<'a> {
    /// Finds the repository that contains a folder, if any.
    pub fn find(root: &'a Path) -> Result<Option<Self>, RepositoryError> {
        let Some(top) = root.ancestors().find(|dir| dir.join(".git").exists()) else {
            return Ok(None);
        };
        let mut folders = root.ancestors().take_while(|dir| dir.starts_with(top));
        match folders.find(|dir| looks_bare(dir)) {
            Some(dir) => Err(RepositoryError::Bare { dir: dir.to_owned() }),
            None => Ok(Some(Self { root, top: top.to_owned() })),
        }
    }

    pub(super) fn submodule(root: &'a Path) -> Self {
        Self { root, top: root.to_owned() }
    }

    /// Returns git with the workspace as the working directory.
    pub fn git<A: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut git = super::local().cwd(self.root);
        if ownership::is_accepted(&self.top) {
            git = git.args(["-c", &format!("safe.directory={}", self.top.display())]);
        }
        git.args(args)
    }

    /// Returns an error constructor for `map_err`.
    pub fn failed(&self) -> impl Fn(ProcessError) -> RepositoryError + use<'_> {
        |source| RepositoryError::Git { root: self.root.to_owned(), source }
    }

    pub fn has_commits(&self) -> Result<bool, RepositoryError> {
        let verify = self.git(["rev-parse", "--quiet", "--verify", "HEAD"]).run();
        Ok(verify.map_err(self.failed())?.success())
    }

    /// Returns the contents of objects in the given order. Invalid UTF-8 becomes U+FFFD.
    pub fn texts(&self, objects: &[&str]) -> Result<Vec<String>, RepositoryError> {
        if objects.is_empty() {
            return Ok(Vec::new());
        }
        let wanted: String = objects.iter().map(|object| format!("{object}\n")).collect();
        let output =
            self.git(["cat-file", "--batch"]).stdin(wanted).output().map_err(self.failed())?;
        let mut texts = split_batch(&output).into_iter();
        let text = |object: &&str| {
            let missing = || RepositoryError::Incomplete {
                root: self.root.to_owned(),
                object: (*object).to_owned(),
            };
            texts.next().flatten().ok_or_else(missing)
        };
        objects.iter().map(text).collect()
    }
}

/// Returns whether git would treat a folder as a bare repository. Source: git, `setup.c`,
/// `is_git_directory`.
fn looks_bare(dir: &Path) -> bool {
    let there = |name: &str| dir.join(name).symlink_metadata().is_ok();
    there("HEAD") && there("objects") && there("refs")
}

/// Splits the output of `git cat-file --batch`: `<oid> <type> <size>`, a line feed, the content, a
/// line feed; `<name> missing` for a missing object.
fn split_batch(mut bytes: &[u8]) -> Vec<Option<String>> {
    let mut texts = Vec::new();
    while let Some(end) = bytes.iter().position(|b| *b == b'\n') {
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        bytes = &bytes[end + 1..];
        let size = head.rsplit(' ').next().and_then(|size| size.parse::<usize>().ok());
        texts.push(size.and_then(|size| bytes.get(..size).map(|text| (size, text))).map(
            |(size, text)| {
                bytes = bytes.get(size + 1..).unwrap_or_default();
                String::from_utf8_lossy(text).into_owned()
            },
        ));
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_batches() {
        let bytes = b"aa blob 3\nx\ny\nbb missing\ncc blob 0\n\n";
        assert_eq!(split_batch(bytes), [Some("x\ny".to_owned()), None, Some(String::new())]);
    }

    #[test]
    fn dubious_ownership_has_its_own_help() {
        let failed = |tail: &str| RepositoryError::Git {
            root: "/srv/my stack".into(),
            source: ProcessError::Failed {
                program: "git".into(),
                how: "exited with 128".into(),
                code: Some(128),
                tail: tail.to_owned(),
            },
        };
        let help =
            failed("fatal: detected dubious ownership in repository at '/srv/my stack'").help();
        let command =
            "if you trust its owner: git config --global --add safe.directory '/srv/my stack'";
        assert_eq!(help, [command]);
        assert!(failed("fatal: bad object HEAD").help().is_empty());
    }

    #[test]
    fn refuses_a_folder_that_looks_like_a_bare_repository() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().join("ws");
        fs_err::create_dir_all(workspace.join("objects")).unwrap();
        assert!(Repository::find(&workspace).unwrap().is_none(), "not a repository");
        fs_err::create_dir(dir.path().join(".git")).unwrap();
        fs_err::create_dir(workspace.join("refs")).unwrap();
        assert!(Repository::find(&workspace).unwrap().is_some());
        fs_err::write(workspace.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        let error = Repository::find(&workspace).err().unwrap();
        assert!(matches!(&error, RepositoryError::Bare { dir } if *dir == workspace), "{error}");
    }
}
