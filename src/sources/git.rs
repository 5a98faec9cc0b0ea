//! Commits of git repositories: fetched into a bare repository in the cache, found by
//! tag, and written as a tar file. Compressing and storing it is done elsewhere.

use std::path::{Path, PathBuf};

use super::cache::Cache;
use super::{SourceError, url};
use crate::error::IoError;
use crate::process::{self, Command, ProcessError};

/// A repository upstream.
pub(super) struct Repository<'a> {
    pub cache: &'a Cache,
    /// What git takes; a relative path is one below the workspace.
    pub url: &'a str,
    pub workspace_root: &'a Path,
}

/// What a commit's archive is to be, and what is known of it.
pub(super) struct Archived {
    /// Whether the commit has submodules, which an archive leaves out.
    pub submodules: bool,
}

/// Tells whether this is a full commit name, SHA-1 or SHA-256.
pub(super) fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Returns git, not listening to variables that a hook or a shell may have set, and
/// asking nobody for a password.
fn git() -> Command {
    let mut git = Command::new("git").env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"] {
        git = git.env_remove(name);
    }
    if std::env::var_os("GIT_SSH_COMMAND").is_none() {
        git = git.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes -o ConnectTimeout=60");
    }
    // Below a thousand bytes a second for a minute, a transfer is dead. Collecting
    // garbage in the background would outlive our lock.
    git.args(["-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60", "-c", "gc.auto=0"])
        .args(["-c", "maintenance.auto=false"])
}

impl Repository<'_> {
    /// Writes the commit as a tar file below the top folder `prefix`. The same commit
    /// gives the same bytes, whatever the user's git is configured to.
    pub fn archive(&self, commit: &str, prefix: &str, to: &Path) -> Result<Archived, SourceError> {
        let _lock = self.cache.lock(self.url)?;
        let dir = self.cache.repository(self.url)?;
        let local = || git().arg("--git-dir").arg(&dir);
        let object_format = if commit.len() == 64 { "sha256" } else { "sha1" };
        local().args(["init", "--quiet", "--bare", "--object-format", object_format]).output()?;
        if self.kind_of(&dir, commit)?.as_deref() != Some("commit") {
            self.fetch(&dir, commit)?;
        }
        let archive = local()
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .args(["-c", "tar.umask=0022", "-c", "core.abbrev=40"])
            .args(["archive", "--format=tar"])
            .arg(format!("--prefix={prefix}/"))
            .arg("--output")
            .arg(to)
            .arg(commit);
        archive.output()?;
        let gitmodules = local().args(["cat-file", "-e"]).arg(format!("{commit}:.gitmodules")).run()?;
        Ok(Archived { submodules: gitmodules.success() })
    }

    /// Fetches the commit alone where the server lets us, and all branches and tags
    /// where it does not.
    fn fetch(&self, dir: &Path, commit: &str) -> Result<(), SourceError> {
        // We hold the lock, so this is left from a git that was killed.
        let stale = dir.join("shallow.lock");
        if stale.exists() {
            fs_err::remove_file(&stale).map_err(IoError::doing("remove a stale lock"))?;
        }
        let fetch = || {
            git().cwd(self.workspace_root).arg("--git-dir").arg(dir).args(["fetch", "--quiet", "--no-tags"])
        };
        // The ref keeps the commit from being collected.
        let only = format!("{commit}:refs/rocmrpm/{commit}");
        let shallow = fetch().args(["--force", "--depth", "1", "--", &self.place(), &only]).run()?;
        let found = self.kind_of(dir, commit)?;
        if shallow.success() && found.as_deref() == Some("commit") {
            return Ok(());
        }
        let mut all = fetch().args(["--force"]);
        if dir.join("shallow").exists() {
            all = all.arg("--unshallow");
        }
        let all = all
            .args(["--", &self.place()])
            .args(["refs/heads/*:refs/rocmrpm/heads/*", "refs/tags/*:refs/rocmrpm/tags/*"])
            .run()?;
        if !all.success() {
            return Err(self.failed(&all.stderr));
        }
        match self.kind_of(dir, commit)? {
            Some(kind) if kind == "commit" => Ok(()),
            found => {
                Err(SourceError::NoCommit { url: url::shown(self.url), commit: commit.to_owned(), found })
            }
        }
    }

    /// Returns what kind of object this is, if the cache has it.
    fn kind_of(&self, dir: &Path, object: &str) -> Result<Option<String>, ProcessError> {
        let finished = git().arg("--git-dir").arg(dir).args(["cat-file", "-t", object]).run()?;
        let kind = String::from_utf8_lossy(&finished.stdout).trim().to_owned();
        Ok(finished.success().then_some(kind))
    }

    /// Finds the commit of the tag that stands for a version: `v1.2`, `1.2`,
    /// `rocm-1.2` as ROCm's own repositories have it, or `<component>-1.2`. The first
    /// of these that exists counts. Returns the tag and the commit.
    pub fn resolve(&self, version: &str, component: &str) -> Result<(String, String), SourceError> {
        let tried: Vec<String> = ["v", "", "rocm-", &format!("{component}-"), &format!("{component}-v")]
            .iter()
            .map(|prefix| format!("{prefix}{version}"))
            .collect();
        let list = git().cwd(self.workspace_root).args(["ls-remote", "--tags", "--", &self.place()]).run()?;
        if !list.success() {
            return Err(self.failed(&list.stderr));
        }
        let text = String::from_utf8_lossy(&list.stdout);
        let refs: Vec<(&str, &str)> = text
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .filter_map(|(id, name)| Some((name.strip_prefix("refs/tags/")?, id)))
            .filter(|(_, id)| is_commit(id))
            .collect();
        let find = |name: &str| refs.iter().find(|(tag, _)| *tag == name).map(|(_, id)| (*id).to_owned());
        for tag in &tried {
            // An annotated tag is an object of its own; `^{}` is what it points to.
            if let Some(commit) = find(&format!("{tag}^{{}}")).or_else(|| find(tag)) {
                return Ok((tag.clone(), commit));
            }
        }
        let mut near: Vec<(usize, &str)> = refs
            .iter()
            .filter(|(tag, _)| !tag.ends_with("^{}"))
            .map(|(tag, _)| (strsim::damerau_levenshtein(tag, &tried[0]), *tag))
            .collect();
        near.sort();
        let near = near.into_iter().take(5).map(|(_, tag)| tag.to_owned()).collect();
        Err(SourceError::NoTag { url: url::shown(self.url), version: version.to_owned(), tried, near })
    }

    /// Returns what to tell git: the URL, or the absolute path of a local repository.
    fn place(&self) -> String {
        let local: PathBuf = self.workspace_root.join(self.url);
        if !self.url.contains(':') && local.is_dir() {
            local.to_string_lossy().into_owned()
        } else {
            self.url.to_owned()
        }
    }

    fn failed(&self, stderr: &[u8]) -> SourceError {
        let (shown, credentials) = url::split_credentials(self.url);
        let mut said = process::last_lines(stderr, 2).join("; ").replace(self.url, &shown);
        if let Some(credentials) = credentials.filter(|c| !c.password.is_empty()) {
            said = said.replace(&credentials.password, "***");
        }
        SourceError::Git { url: shown, said }
    }
}
