//! Where a pipeline works: a git worktree of the workspace's repository on a branch of its own, below
//! `build/pipeline`. Nothing else of the repository or the workspace changes.

use std::path::{Path, PathBuf};

use super::error::PipelineError;
use crate::error::{Error, IoError};
use crate::evidence::OpenQuestion;
use crate::files;
use crate::git::Repository;
use crate::process::{ProcessError, quote};
use crate::trust;
use crate::workspace::{MANIFEST, Workspace};

/// The folder of all pipelines in a workspace.
pub const FOLDER: &str = "build/pipeline";

/// The file that lists what the pipeline is about to write in its worktree. It exists only while the
/// files differ from the branch.
const PENDING: &str = "pending";

/// The file that exists while git makes the worktree.
const CREATING: &str = "creating";

/// The most files that a question lists.
const SHOWN: usize = 5;

/// Returns the folder of a set's pipeline in a workspace.
pub fn folder(root: &Path, pins: &str) -> PathBuf {
    root.join(FOLDER).join(pins)
}

/// Returns the folder of a set's evidence in a workspace.
pub fn evidence_folder(root: &Path, pins: &str) -> PathBuf {
    folder(root, pins).join("evidence")
}

/// Returns the folder of the evidence of a set for a workspace, which can be the pipeline's worktree.
pub(super) fn evidence_folder_for(root: &Path, pins: &str) -> PathBuf {
    let tree = Path::new(FOLDER).join(pins).join("tree");
    let dir = root.ancestors().find(|dir| dir.ends_with(&tree)).and_then(Path::parent);
    dir.map_or_else(|| evidence_folder(root, pins), |dir| dir.join("evidence"))
}

/// The branch of a set's pipeline.
pub fn branch(pins: &str) -> String {
    format!("rocmrpm/{pins}")
}

/// Locks the pipeline of a set, also against other writers of records.
pub(super) fn lock(root: &Path, pins: &str) -> Result<files::Lock, Error> {
    let dir = folder(root, pins);
    fs_err::create_dir_all(&dir).map_err(IoError::doing("create the pipeline's folder"))?;
    let lock = files::try_lock(&dir.join(".lock")).map_err(IoError::doing("lock the pipeline"))?;
    Ok(lock.ok_or_else(|| PipelineError::Busy { pins: pins.to_owned() })?)
}

/// The folders of a pipeline, which this process has locked.
pub(super) struct PipelineFolders {
    /// The user's workspace.
    home: PathBuf,
    /// `build/pipeline/SET`.
    dir: PathBuf,
    /// The worktree.
    tree: PathBuf,
    /// The workspace in the worktree.
    pub root: PathBuf,
    branch: String,
    _lock: files::Lock,
}

impl PipelineFolders {
    /// Locks the pipeline of a set.
    pub fn open(workspace: &Workspace) -> Result<Self, Error> {
        let home = workspace.root.clone();
        let pins = &workspace.pins.name;
        let reserved = FOLDER.rsplit('/').next().unwrap_or(FOLDER);
        if workspace.all_chroots().any(|chroot| chroot.name == reserved) {
            return Err(PipelineError::Reserved { name: reserved.to_owned() }.into());
        }
        let no_history = || PipelineError::NoHistory { root: home.clone() };
        let repository = Repository::find(&home)?.ok_or_else(no_history)?;
        if !repository.has_commits()? {
            return Err(no_history().into());
        }
        let lock = lock(&home, pins)?;
        let dir = folder(&home, pins);
        let prefix = git(&repository, "find the workspace in its repository")
            .text(["rev-parse", "--show-prefix"])?;
        let tree = dir.join("tree");
        let root = match prefix.trim_end_matches('/') {
            "" => tree.clone(),
            below => tree.join(below),
        };
        Ok(Self { home, dir, tree, root, branch: branch(pins), _lock: lock })
    }

    /// Brings the worktree to a state to work on: clean, and with everything that the user's current
    /// branch has. Returns the question if a person has to decide.
    pub fn prepare(&self, pins: &str) -> Result<Option<OpenQuestion>, Error> {
        let repository = self.home()?;
        let home = git(&repository, "read the current commit");
        let head = home.text(["rev-parse", "HEAD"])?;
        for file in [MANIFEST.to_owned(), format!("pins/{pins}.toml")] {
            if !home.succeeds(["cat-file", "-e", &format!("HEAD:./{file}")])? {
                return Err(PipelineError::NotCommitted { file }.into());
            }
        }
        self.create(&head)?;
        trust::extend(&self.home, &self.canonical_root()?)?;
        self.check_identity()?;
        self.undo()?;
        if let Some(question) = self.uncommitted()? {
            return Ok(Some(question));
        }
        self.follow(&head)
    }

    /// Makes the worktree, unless it is complete.
    fn create(&self, head: &str) -> Result<(), Error> {
        let repository = self.home()?;
        let creating = self.dir.join(CREATING);
        let doing = || IoError::doing("create the pipeline's worktree");
        let path = self.tree.to_string_lossy().into_owned();
        let worktree = git(&repository, "create the pipeline's worktree");
        if self.tree.join(".git").exists() && !creating.exists() {
            return Ok(());
        }
        // What is left of a worktree, here or only in git's list.
        worktree.succeeds(["worktree", "remove", "--force", "--force", &path])?;
        files::remove_if_there(&self.tree).map_err(doing())?;
        files::write_durably(&creating, "").map_err(doing())?;
        let branch = format!("refs/heads/{}", self.branch);
        let exists = worktree.succeeds(["rev-parse", "--verify", "--quiet", &branch])?;
        match exists {
            true => worktree.run(["worktree", "add", "--quiet", &path, &self.branch])?,
            false => {
                worktree.run(["worktree", "add", "--quiet", "-b", &self.branch, &path, head])?;
            }
        }
        fs_err::remove_file(&creating).map_err(doing())?;
        Ok(files::sync_folder(&self.dir).map_err(doing())?)
    }

    /// Restores what a run that was killed had written without a commit.
    fn undo(&self) -> Result<(), Error> {
        let pending = self.dir.join(PENDING);
        let doing = || IoError::doing("restore the pipeline's worktree");
        let list = match fs_err::read_to_string(&pending) {
            Ok(list) => list,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(doing()(error).into()),
        };
        let repository = self.tree()?;
        let restore = git(&repository, "restore the pipeline's worktree");
        if list.is_empty() {
            // A merge, which git may have finished.
            if restore.succeeds(["rev-parse", "--verify", "--quiet", "MERGE_HEAD"])? {
                restore.run(["merge", "--abort"])?;
            }
        }
        for file in list.lines() {
            match restore.succeeds(["cat-file", "-e", &format!("HEAD:./{file}")])? {
                true => restore.run(["checkout", "--quiet", "HEAD", "--", file])?,
                false => {
                    restore.run(["rm", "--quiet", "--cached", "--ignore-unmatch", "--", file])?;
                    files::remove_if_there(&self.root.join(file)).map_err(doing())?;
                }
            }
        }
        Ok(fs_err::remove_file(&pending).map_err(doing())?)
    }

    /// Returns a question if the worktree has changes that the pipeline did not make.
    fn uncommitted(&self) -> Result<Option<OpenQuestion>, Error> {
        let repository = self.tree()?;
        let changes = repository.changes(&[])?.changed;
        let changed: Vec<&String> =
            changes.iter().filter(|path| !path.starts_with("build/")).collect();
        if changed.is_empty() {
            return Ok(None);
        }
        let shown: Vec<&str> = changed.iter().take(SHOWN).map(|path| path.as_str()).collect();
        let more = match changed.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let root = quote(&self.root.to_string_lossy());
        Ok(Some(OpenQuestion {
            what: format!(
                "`{}` has changes that are not committed: {}{more}",
                self.root.display(),
                shown.join(", ")
            ),
            help: format!(
                "commit them: git -C {root} commit --all; or discard them: git -C {root} restore --staged --worktree ."
            ),
            acceptable: false,
        }))
    }

    /// Adds the commits of the user's current branch.
    fn follow(&self, head: &str) -> Result<Option<OpenQuestion>, Error> {
        let repository = self.tree()?;
        let merge = git(&repository, "merge the current branch into the pipeline's");
        if merge.succeeds(["merge-base", "--is-ancestor", head, "HEAD"])? {
            return Ok(None);
        }
        self.announce("")?;
        let merged = merge.succeeds(["merge", "--quiet", "--no-edit", head])?;
        if !merged {
            merge.run(["merge", "--abort"])?;
        }
        self.done()?;
        let root = quote(&self.root.to_string_lossy());
        Ok((!merged).then(|| OpenQuestion {
            what: format!(
                "the branch `{}` and the current branch changed the same lines",
                self.branch
            ),
            help: format!("merge them: git -C {root} merge {}", &head[..head.len().min(12)]),
            acceptable: false,
        }))
    }

    /// Writes files of the worktree and commits them; `before_commit` runs in between. If the process
    /// is killed before the commit, the next run restores the files.
    pub fn commit(
        &self,
        paths: &[String],
        message: &str,
        write: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.announce(&paths.iter().map(|path| format!("{path}\n")).collect::<String>())?;
        if let Err(error) = write() {
            // The files may be incomplete, such as on a full disk.
            self.undo()?;
            return Err(error);
        }
        let repository = self.tree()?;
        let commit = git(&repository, "commit to the pipeline's branch");
        let existing: Vec<&str> =
            paths.iter().map(String::as_str).filter(|path| self.root.join(path).exists()).collect();
        commit.run([&["add", "--force", "--"][..], &existing[..]].concat())?;
        if !commit.succeeds(["diff", "--cached", "--quiet"])? {
            commit.run(["commit", "--quiet", "--message", message])?;
        }
        self.done()
    }

    /// Returns the commit that the pipeline works on.
    pub fn head(&self) -> Result<String, Error> {
        git(&self.tree()?, "read the pipeline's branch").text(["rev-parse", "HEAD"])
    }

    /// Records that these files, or a merge if there are none, differ from the branch for a moment.
    fn announce(&self, list: &str) -> Result<(), Error> {
        let pending = self.dir.join(PENDING);
        Ok(files::write_durably(&pending, list).map_err(IoError::doing("write to the worktree"))?)
    }

    fn done(&self) -> Result<(), Error> {
        let doing = || IoError::doing("write to the worktree");
        Ok(files::remove_if_there(&self.dir.join(PENDING)).map_err(doing())?)
    }

    fn check_identity(&self) -> Result<(), Error> {
        let repository = self.tree()?;
        match git(&repository, "read git's configuration")
            .succeeds(["var", "GIT_COMMITTER_IDENT"])?
        {
            true => Ok(()),
            false => Err(PipelineError::NoIdentity.into()),
        }
    }

    fn canonical_root(&self) -> Result<PathBuf, Error> {
        Ok(fs_err::canonicalize(&self.root).map_err(IoError::doing("find the worktree"))?)
    }

    fn home(&self) -> Result<Repository<'_>, Error> {
        found(&self.home)
    }

    fn tree(&self) -> Result<Repository<'_>, Error> {
        found(&self.root)
    }
}

fn found(root: &Path) -> Result<Repository<'_>, Error> {
    let missing = || PipelineError::NoHistory { root: root.to_owned() };
    Ok(Repository::find(root)?.ok_or_else(missing)?)
}

/// git in a repository, with what its commands are for.
struct Git<'a> {
    repository: &'a Repository<'a>,
    action: &'static str,
}

fn git<'a>(repository: &'a Repository<'a>, action: &'static str) -> Git<'a> {
    Git { repository, action }
}

impl Git<'_> {
    fn failed(&self, source: ProcessError) -> Error {
        PipelineError::Git { action: self.action.to_owned(), source }.into()
    }

    fn run<'s>(&self, args: impl IntoIterator<Item = &'s str>) -> Result<(), Error> {
        let output = self.repository.git(args).output();
        output.map(drop).map_err(|error| self.failed(error))
    }

    fn text<'s>(&self, args: impl IntoIterator<Item = &'s str>) -> Result<String, Error> {
        self.repository.git(args).text().map_err(|error| self.failed(error))
    }

    /// Returns whether a command exits with 0.
    fn succeeds<'s>(&self, args: impl IntoIterator<Item = &'s str>) -> Result<bool, Error> {
        let finished = self.repository.git(args).run();
        Ok(finished.map_err(|error| self.failed(error))?.success())
    }
}
