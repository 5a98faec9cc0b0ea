//! Fetches commits into a bare repository in the cache, finds them by tag, lists them, and writes
//! them as tar files. It does not decide which commits a source consists of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::cache::Cache;
use super::{SourceError, curl, url};
use crate::error::IoError;
use crate::git::{self, Login};
use crate::names::is_commit;
use crate::process::{self, Command, ProcessError};
use crate::range::nearest_versions;

/// An upstream repository.
pub(super) struct Repository<'a> {
    pub cache: &'a Cache,
    /// The URL that git accepts; a relative path is relative to the workspace.
    pub url: &'a str,
    pub workspace_root: &'a Path,
}

/// The address of a repository.
struct Upstream {
    /// The URL without credentials, or the absolute path of a local repository.
    address: String,
    login: Option<url::Credentials>,
}

impl Upstream {
    fn git(&self, dir: Option<&Path>) -> Command {
        let after_scheme = self.address.find("://").map_or(0, |at| at + 3);
        let end = self.address[after_scheme..].find(['/', '?', '#']).map(|at| after_scheme + at);
        let site = &self.address[..end.unwrap_or(self.address.len())];
        let login = self.login.as_ref();
        let login = login.map(|login| Login { site, user: &login.user, password: &login.password });
        git::remote(dir, login.as_ref())
    }
}

/// An entry in the tree of a commit.
pub(super) struct TreeEntry {
    /// The file mode, such as `100644`, or `160000` for a submodule.
    pub mode: String,
    /// The object ID.
    pub id: String,
    /// Relative to the top of the commit, with `/` as separator.
    pub path: String,
}

/// Returns the tag prefixes before a version, in the order to try them.
pub(super) fn tag_prefixes(component: &str) -> [String; 5] {
    ["v".into(), String::new(), "rocm-".into(), format!("{component}-"), format!("{component}-v")]
}

/// Returns the ref that marks a completely fetched commit and protects it from garbage collection.
fn kept(commit: &str) -> String {
    format!("refs/rocmrpm/{commit}")
}

/// Creates a bare repository for this commit, or keeps an existing one.
fn init(dir: &Path, commit: &str) -> Result<(), ProcessError> {
    let object_format = if commit.len() == 64 { "sha256" } else { "sha1" };
    let init = git::bare(dir).args(["init", "--quiet", "--bare", "--template="]);
    init.args(["--object-format", object_format]).output()?;
    Ok(())
}

impl Repository<'_> {
    /// Ensures that the cache contains the commit; calls `fetching` before fetching it.
    pub fn obtain(
        &self,
        commit: &str,
        offline: bool,
        fetching: impl Fn(),
    ) -> Result<(), SourceError> {
        let dir = self.cache.repository(self.url)?;
        if self.has(&dir, commit)? {
            return Ok(());
        }
        if offline {
            let what = format!("commit {commit} of {}", url::shown(self.url));
            return Err(SourceError::Offline { what, cache: self.cache.dir().to_owned() });
        }
        let _lock = self.cache.lock(self.url)?;
        if self.has(&dir, commit)? {
            return Ok(());
        }
        fetching();
        init(&dir, commit)?;
        self.fetch(&dir, commit)
    }

    /// Returns the tree of a cached commit.
    pub fn tree(&self, commit: &str) -> Result<String, SourceError> {
        Ok(self.local()?.args(["rev-parse", "--verify", &format!("{commit}^{{tree}}")]).text()?)
    }

    /// Lists the entries of a commit or one of its folders, optionally recursively.
    pub fn list(
        &self,
        commit: &str,
        folder: &str,
        recursive: bool,
    ) -> Result<Vec<TreeEntry>, SourceError> {
        let mut list = self.local()?.args(["ls-tree", "-z", "--full-tree"]);
        if recursive {
            list = list.arg("-r");
        }
        let output = list.arg(format!("{commit}:{folder}")).output()?;
        let text = String::from_utf8_lossy(&output);
        // Format: `<mode> SP <type> SP <object> TAB <path>`, see git-ls-tree(1).
        let entry = |line: &str| {
            let (what, path) = line.split_once('\t')?;
            let mut what = what.split(' ');
            let (mode, id) = (what.next()?.to_owned(), what.nth(1)?.to_owned());
            Some(TreeEntry { mode, id, path: path.to_owned() })
        };
        Ok(text.split('\0').filter_map(entry).collect())
    }

    /// Returns whether a cached commit has submodules.
    pub fn has_submodules(&self, commit: &str) -> Result<bool, SourceError> {
        Ok(self
            .local()?
            .args(["cat-file", "-e", &format!("{commit}:.gitmodules")])
            .run()?
            .success())
    }

    /// Returns the variables in a commit's `.gitmodules` in order. git parses the file but ignores
    /// its includes.
    pub fn gitmodules(&self, commit: &str) -> Result<Vec<(String, String)>, SourceError> {
        let blob = format!("{commit}:.gitmodules");
        let read = self.local()?.args(["config", "--no-includes", "-z", "--list", "--blob", &blob]);
        let output = read.output()?;
        let text = String::from_utf8_lossy(&output);
        let pair = |item: &str| {
            item.split_once('\n').map(|(key, value)| (key.to_owned(), value.to_owned()))
        };
        Ok(text.split('\0').filter_map(pair).collect())
    }

    /// Writes a cached commit as a tar file with the top folder `prefix`, optionally limited to
    /// some paths. The same commit gives the same bytes, regardless of the user's git configuration
    /// and of other fetched objects.
    pub fn archive(
        &self,
        commit: &str,
        prefix: &str,
        paths: &[String],
        to: &Path,
    ) -> Result<(), SourceError> {
        let empty = self.cache.scratch()?;
        init(empty.path(), commit)?;
        let objects = self.cache.repository(self.url)?.join("objects");
        crate::files::write_atomically(
            &empty.path().join("objects/info/alternates"),
            [objects.as_os_str().as_encoded_bytes(), b"\n"].concat(),
        )
        .map_err(IoError::doing("prepare a repository"))?;
        // `export-subst` would insert times and ref names, and `export-ignore` would omit files.
        let attributes = empty.path().join("info/attributes");
        crate::files::write_atomically(&attributes, "* -export-subst -export-ignore\n")
            .map_err(IoError::doing("prepare a repository"))?;
        let archive = git::scratch(empty.path())
            .args(["--literal-pathspecs", "-c", "tar.umask=0022", "-c", "core.abbrev=40"])
            .args(["archive", "--format=tar"])
            .arg(format!("--prefix={prefix}/"))
            .arg("--output")
            .arg(to)
            .args([commit, "--"])
            .args(paths);
        archive.output()?;
        Ok(())
    }

    fn local(&self) -> Result<Command, SourceError> {
        Ok(git::bare(&self.cache.repository(self.url)?))
    }

    /// Fetches only the commit if the server allows it, otherwise all branches and tags.
    fn fetch(&self, dir: &Path, commit: &str) -> Result<(), SourceError> {
        let own = kept(commit);
        // We hold the lock, so these are left over from a killed git.
        for stale in ["shallow.lock", "packed-refs.lock", &format!("{own}.lock")] {
            crate::files::remove_if_there(&dir.join(stale))
                .map_err(IoError::doing("remove a stale lock"))?;
        }
        let upstream = self.upstream();
        let fetch = || upstream.git(Some(dir)).args(["fetch", "--quiet", "--no-tags"]);
        let only = format!("{commit}:{own}");
        let shallow =
            fetch().args(["--force", "--depth", "1", "--", &upstream.address, &only]).run()?;
        let found = self.kind_of(dir, commit)?;
        if shallow.success() && found.as_deref() == Some("commit") {
            return Ok(());
        }
        let mut all = fetch().args(["--force"]);
        if dir.join("shallow").exists() {
            all = all.arg("--unshallow");
        }
        let all = all
            .args(["--", &upstream.address])
            .args(["refs/heads/*:refs/rocmrpm/heads/*", "refs/tags/*:refs/rocmrpm/tags/*"])
            .run()?;
        if !all.success() {
            return Err(self.failed(&all.stderr));
        }
        match self.kind_of(dir, commit)? {
            Some(kind) if kind == "commit" => {
                git::bare(dir).args(["update-ref", &own, commit]).output()?;
                Ok(())
            }
            found => Err(SourceError::NoCommit {
                url: url::shown(self.url),
                commit: commit.to_owned(),
                found,
            }),
        }
    }

    /// Returns whether the cache contains the commit and all of its objects. git sets the ref only
    /// after a complete fetch; the commit object alone may be left over from a killed git.
    fn has(&self, dir: &Path, commit: &str) -> Result<bool, ProcessError> {
        let verify = ["rev-parse", "--verify", "--quiet", "--end-of-options"];
        let verify = git::bare(dir).args(verify).arg(format!("{}^{{commit}}", kept(commit)));
        let finished = verify.run()?;
        // A tag's ref resolves to a different commit.
        Ok(finished.success()
            && String::from_utf8_lossy(&finished.stdout).trim().eq_ignore_ascii_case(commit))
    }

    /// Returns the type of an object, if it is in the cache.
    fn kind_of(&self, dir: &Path, object: &str) -> Result<Option<String>, ProcessError> {
        let finished = git::bare(dir).args(["cat-file", "-t", object]).run()?;
        let kind = String::from_utf8_lossy(&finished.stdout).trim().to_owned();
        Ok(finished.success().then_some(kind))
    }

    /// Finds the commit of the tag for a version and returns both. Tries `v1.2`, `1.2`, `rocm-1.2`
    /// as in ROCm's repositories, and `<component>-1.2` in this order.
    pub fn resolve(&self, version: &str, component: &str) -> Result<(String, String), SourceError> {
        let tried: Vec<String> =
            tag_prefixes(component).iter().map(|prefix| format!("{prefix}{version}")).collect();
        let refs = self.tags()?;
        for tag in &tried {
            if let Some(commit) = refs.get(tag) {
                return Ok((tag.clone(), commit.clone()));
            }
        }
        // Tags of other parts of the repository have other prefixes.
        let prefixes = tag_prefixes(component);
        let is_release = |tag: &String| {
            let rest = prefixes.iter().filter_map(|prefix| tag.strip_prefix(prefix.as_str()));
            rest.into_iter().any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let near = nearest_versions(version, refs.into_keys().filter(is_release));
        Err(SourceError::NoTag {
            url: url::shown(self.url),
            version: version.to_owned(),
            tried,
            near,
        })
    }

    /// Returns the newest commit of a branch.
    pub fn branch(&self, name: &str) -> Result<String, SourceError> {
        let upstream = self.upstream();
        let list = ["ls-remote", "--heads", "--", &upstream.address];
        let list = upstream.git(None).args(list).run()?;
        if !list.success() {
            return Err(self.failed(&list.stderr));
        }
        let text = String::from_utf8_lossy(&list.stdout).into_owned();
        let branches: BTreeMap<&str, &str> = text
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .filter_map(|(id, branch)| Some((branch.strip_prefix("refs/heads/")?, id)))
            .filter(|(_, id)| is_commit(id))
            .collect();
        branches.get(name).map(|id| (*id).to_owned()).ok_or_else(|| SourceError::NoBranch {
            url: url::shown(self.url),
            branch: name.to_owned(),
            known: branches.keys().take(5).map(|known| (*known).to_owned()).collect(),
        })
    }

    /// Returns the text of a file of a cached commit, if it is a file.
    pub fn text(&self, commit: &str, path: &str) -> Result<Option<String>, SourceError> {
        let blob = ["cat-file", "blob", &format!("{commit}:{path}")];
        let done = self.local()?.args(blob).run()?;
        Ok(done.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned()))
    }

    /// Returns when a cached commit was made, in seconds since 1970.
    pub fn commit_time(&self, commit: &str) -> Result<i64, SourceError> {
        let log = ["log", "-1", "--no-color", "--format=%ct", commit, "--"];
        Ok(self.local()?.args(log).text()?.trim().parse().unwrap_or_default())
    }

    /// Returns the commit of every tag.
    pub fn tags(&self) -> Result<BTreeMap<String, String>, SourceError> {
        let upstream = self.upstream();
        let list =
            upstream.git(None).args(["ls-remote", "--tags", "--", &upstream.address]).run()?;
        if !list.success() {
            return Err(self.failed(&list.stderr));
        }
        let text = String::from_utf8_lossy(&list.stdout);
        let refs = text
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .filter_map(|(id, name)| Some((name.strip_prefix("refs/tags/")?, id)))
            .filter(|(_, id)| is_commit(id));
        let mut tags = BTreeMap::new();
        for (name, id) in refs {
            match name.strip_suffix("^{}") {
                // An annotated tag is a separate object; `^{}` is its target.
                Some(tag) => tags.insert(tag.to_owned(), id.to_owned()),
                None => Some(tags.entry(name.to_owned()).or_insert_with(|| id.to_owned()).clone()),
            };
        }
        Ok(tags)
    }

    fn upstream(&self) -> Upstream {
        let local: PathBuf = self.workspace_root.join(self.url);
        if !self.url.contains(':') && local.is_dir() {
            return Upstream { address: local.to_string_lossy().into_owned(), login: None };
        }
        let web = ["http://", "https://"];
        let is_web = web.iter().any(|scheme| self.url.to_ascii_lowercase().starts_with(scheme));
        match url::split_credentials(self.url) {
            (address, login) if is_web => Upstream { address, login },
            // For other URLs the user is part of the address, and there are no passwords.
            _ => Upstream { address: self.url.to_owned(), login: None },
        }
    }

    fn failed(&self, stderr: &[u8]) -> SourceError {
        let (shown, credentials) = url::split_credentials(self.url);
        // These lines contain the error; the others are advice or progress.
        let text = String::from_utf8_lossy(stderr);
        let wrong =
            text.lines().filter(|line| line.starts_with("fatal: ") || line.starts_with("error: "));
        let mut reported = match wrong.collect::<Vec<_>>() {
            none if none.is_empty() => process::last_lines(stderr, 2).join("; "),
            wrong => wrong[..wrong.len().min(3)].join("; "),
        };
        reported = reported.replace(self.url, &shown);
        if let Some(credentials) = credentials.filter(|c| !c.password.is_empty()) {
            reported = reported.replace(&credentials.password, "***");
        }
        if process::is_full_disk(&reported) {
            let written = self.cache.repository(self.url);
            return written
                .and_then(|dir| curl::unwritable(&dir, shown))
                .unwrap_or_else(|error| error);
        }
        SourceError::Git { url: shown, reported }
    }
}
