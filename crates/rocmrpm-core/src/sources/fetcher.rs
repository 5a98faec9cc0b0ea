//! Coordinates fetching for each kind of source: what to request, download and pack. It does not
//! implement these steps; the sibling modules do.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use fs_err as fs;

use super::cache::{Cache, CacheState};
use super::download::{self, Request};
use super::git::Repository;
use super::index::{self, ProjectFile, Sdist};
use super::moving::Moving;
use super::url::{self, Credentials};
use super::{
    Fetched, Resolved, SourceError, archive, file_name, folder_in, not_pinned, pack, pinned_commit,
    pip, simple, source_dir,
};
use crate::digest::Sha256;
use crate::error::IoError;
use crate::events::{Event, Events, WorkPhase};
use crate::names::ComponentName;
use crate::workspace::pin::{Pin, Source, shown_folder};

/// The modification time of files in packed folders: 1990-01-01, which both rpm and zip can
/// represent. It does not depend on the environment because the same folder must always give the
/// same archive.
pub(super) const MTIME: u64 = 631_152_000;

/// Fetches sources into the cache.
pub struct Fetcher<'a> {
    pub(super) cache: Cache,
    workspace_root: &'a Path,
    events: &'a dyn Events,
    offline: bool,
    moving: Moving<'a>,
    /// The index URL with credentials, determined on first use.
    index: OnceLock<String>,
}

impl<'a> Fetcher<'a> {
    /// Returns a fetcher that uses the network.
    pub fn new(cache: Cache, workspace_root: &'a Path, events: &'a dyn Events) -> Self {
        let (offline, moving) = (false, Moving::Nothing);
        Self { cache, workspace_root, events, offline, moving, index: OnceLock::new() }
    }

    /// Sets whether to work offline.
    #[must_use]
    pub fn offline(mut self, offline: bool) -> Self {
        self.offline = offline;
        self
    }

    /// Sets which branches `lock` moves to their newest commit.
    #[must_use]
    pub fn moves(mut self, moving: Moving<'a>) -> Self {
        self.moving = moving;
        self
    }

    /// Uses this index instead of pip's configured index.
    #[must_use]
    pub fn index(mut self, index: impl Into<String>) -> Self {
        self.index = OnceLock::from(index.into());
        self
    }

    /// Returns a fetcher like this one that uses another index.
    pub(crate) fn at_index(&self, index: &str) -> Self {
        let cache = self.cache.clone();
        Self { cache, index: OnceLock::from(index.to_owned()), ..*self }
    }

    pub(crate) fn is_offline(&self) -> bool {
        self.offline
    }

    pub(super) fn moving(&self) -> Moving<'a> {
        self.moving
    }

    pub(super) fn workspace_root(&self) -> &Path {
        self.workspace_root
    }

    pub(crate) fn warn(&self, warning: String) {
        self.send(Event::Warning(warning));
    }

    pub(super) fn send(&self, event: Event) {
        self.events.event(event);
    }

    /// Returns the cache that fetched sources are stored in.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Ensures that the cache contains the verified source. Rejects a pin without digest or commit.
    /// Does not use the network for cached sources.
    pub fn obtain(&self, pin: &Pin) -> Result<Fetched, SourceError> {
        let sha256 = match &pin.source {
            Source::Url { url, sha256 } => {
                let expected = sha256.ok_or_else(|| not_pinned(pin, "sha256"))?;
                if !self.holds(&expected)? {
                    self.download(pin, url, None, Some(expected), None)?;
                }
                expected
            }
            Source::Sdist { project, sha256 } => {
                let expected = sha256.ok_or_else(|| not_pinned(pin, "sha256"))?;
                if !self.holds(&expected)? {
                    let sdist = self.sdist(project, Some(&pin.version))?;
                    if let Some(found) = sdist.sha256.filter(|found| *found != expected) {
                        return Err(SourceError::IndexDigest {
                            file: sdist.file_name,
                            expected,
                            found,
                        });
                    }
                    let credentials = self.credentials_for(&sdist.url)?;
                    self.download(pin, &sdist.url, credentials, Some(expected), sdist.size)?;
                }
                expected
            }
            Source::Wheel { file, sha256 } => {
                let expected = sha256.ok_or_else(|| not_pinned(pin, "sha256"))?;
                if !self.holds(&expected)? {
                    let found = self.wheel(file)?;
                    if let Some(found) = found.sha256.filter(|found| *found != expected) {
                        return Err(SourceError::IndexDigest {
                            file: file.clone(),
                            expected,
                            found,
                        });
                    }
                    let credentials = self.credentials_for(&found.url)?;
                    self.download(pin, &found.url, credentials, Some(expected), found.size)?;
                }
                expected
            }
            Source::Git { .. } => self.pack_commit(pin)?,
            Source::Folder { path, paths } => self.pack_folder(pin, path, paths)?,
            Source::Crates { lock_file, of } => self.pack_crates(pin, lock_file, of)?,
        };
        self.fetched(pin, sha256)
    }

    /// Determines the immutable reference of a pin for the lock file. Downloads and trusts files
    /// without a digest; searches the tags for a git version.
    pub fn resolve(&self, pin: &Pin) -> Result<Resolved, SourceError> {
        let pinned = |url| {
            let Fetched { sha256, size, .. } = self.obtain(pin)?;
            Ok(Resolved::File { url, sha256, size })
        };
        let (url, credentials, expected, announced) = match &pin.source {
            Source::Url { url, sha256: Some(_) } => return pinned(Some(url::shown(url))),
            Source::Sdist { sha256: Some(_), .. } | Source::Wheel { sha256: Some(_), .. } => {
                return pinned(None);
            }
            Source::Folder { .. } | Source::Crates { .. } => return Ok(Resolved::Folder),
            Source::Git { commit: Some(commit), .. } => {
                pinned_commit(pin, &Some(commit.clone()))?;
                return Ok(Resolved::Commit { commit: commit.clone(), tag: None });
            }
            Source::Git { url, commit: None, .. } => {
                self.needs_network(|| format!("the tag of {} {}", pin.component, pin.version))?;
                let (tag, commit) =
                    self.repository(url).resolve(&pin.version, pin.component.as_str())?;
                return Ok(Resolved::Commit { commit, tag: Some(tag) });
            }
            Source::Url { url, sha256: None } => (url.clone(), None, None, None),
            Source::Sdist { project, sha256: None } => {
                let sdist = self.sdist(project, Some(&pin.version))?;
                if sdist.yanked {
                    self.warn(format!("{} is yanked: upstream withdrew it", sdist.file_name));
                }
                (sdist.url.clone(), self.credentials_for(&sdist.url)?, sdist.sha256, sdist.size)
            }
            Source::Wheel { file, sha256: None } => {
                let wheel = self.wheel(file)?;
                if wheel.yanked {
                    self.warn(format!("{file} is yanked: upstream withdrew it"));
                }
                let credentials = self.credentials_for(&wheel.url)?;
                (wheel.url, credentials, wheel.sha256, wheel.size)
            }
        };
        if expected.is_none() && url::is_unprotected(&url) {
            return Err(SourceError::Unprotected { url: url::shown(&url) });
        }
        let sha256 = self.download(pin, &url, credentials, expected, announced)?;
        let size = self.fetched(pin, sha256)?.size;
        Ok(Resolved::File { url: Some(url::shown(&url)), sha256, size })
    }

    /// Returns the sdist of a version, or of the greatest final version that has one and is not
    /// yanked, from the index.
    pub fn sdist(&self, project: &str, version: Option<&str>) -> Result<Sdist, SourceError> {
        self.needs_network(|| format!("the page of `{project}` on the package index"))?;
        let index = self.index_url()?;
        let Some((text, url)) = simple::page(&self.cache, index, project)? else {
            return Err(SourceError::NoProject {
                index: url::shown(index),
                project: super::normalized(project),
            });
        };
        index::pick(index::read_page(&text, &url, project)?, version, project, index)
    }

    /// Returns the wheel with this file name from the index.
    fn wheel(&self, file: &str) -> Result<ProjectFile, SourceError> {
        let project = crate::wheel::wheel_project(file).unwrap_or_default();
        self.needs_network(|| format!("the page of `{project}` on the package index"))?;
        let index = self.index_url()?;
        let Some((text, url)) = simple::page(&self.cache, index, &project)? else {
            return Err(SourceError::NoProject { index: url::shown(index), project });
        };
        let mut files = index::files(&text, &url)?;
        match files.iter().position(|found| found.name == file) {
            Some(at) => Ok(files.swap_remove(at)),
            None => Err(SourceError::NoWheel { index: url::shown(index), file: file.to_owned() }),
        }
    }

    /// Returns whether the cache contains the file. Removes it if its content does not match the
    /// digest.
    pub(super) fn holds(&self, digest: &Sha256) -> Result<bool, SourceError> {
        let held = self.cache.held(digest)?;
        if let CacheState::Damaged { found } = held {
            let path = self.cache.path_of(digest);
            self.warn(format!(
                "the cached file {} has sha256 {found}; rocmrpm removed it",
                path.display()
            ));
        }
        Ok(held == CacheState::Whole)
    }

    /// Returns the verified archive that an earlier run packed with this recipe, if it is still in
    /// the cache.
    pub(super) fn packed(&self, recipe: &str) -> Result<Option<Sha256>, SourceError> {
        match self.cache.packed(recipe) {
            Some(digest) if self.holds(&digest)? => Ok(Some(digest)),
            _ => Ok(None),
        }
    }

    /// Copies a fetched file into a folder under its name and verifies it again because the cache
    /// may have been damaged. Removes a damaged entry.
    pub fn copy_to(&self, fetched: &Fetched, dir: &Path) -> Result<PathBuf, SourceError> {
        let action = || {
            IoError::doing(format!(
                "copy `{}` from the cache to `{}`",
                fetched.file_name,
                dir.display()
            ))
        };
        let to = dir.join(&fetched.file_name);
        fs::create_dir_all(dir).map_err(action())?;
        let source = fs::File::open(&fetched.path).map_err(action())?;
        let mut target = tempfile::Builder::new()
            .prefix(".rocmrpm-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(dir)
            .map_err(action())?;
        let (found, _) =
            Sha256::of_reader(Tee { source, target: target.as_file_mut() }).map_err(action())?;
        if found != fetched.sha256 {
            fs::remove_file(&fetched.path).map_err(IoError::doing("remove a damaged file"))?;
            let path = fetched.path.clone();
            return Err(SourceError::Damaged { path, expected: fetched.sha256, found });
        }
        target.persist(&to).map_err(|error| action()(error.error))?;
        Ok(to)
    }

    fn download(
        &self,
        pin: &Pin,
        url: &str,
        credentials: Option<Credentials>,
        expected: Option<Sha256>,
        announced: Option<u64>,
    ) -> Result<Sha256, SourceError> {
        let name = file_name(pin);
        let (url, own) = url::split_credentials(url);
        self.needs_network(|| format!("`{name}` from {url}"))?;
        self.phase(pin, WorkPhase::Fetching, name.clone());
        let credentials = own.or(credentials);
        let recorded = pin.evidence.0.as_ref().filter(|entry| entry.sha256 == expected);
        let size = announced.or(recorded.and_then(|entry| entry.size));
        let request =
            Request { url: &url, credentials: credentials.as_ref(), name: &name, expected, size };
        download::file(&self.cache, &request)
    }

    fn pack_folder(&self, pin: &Pin, path: &Path, paths: &[String]) -> Result<Sha256, SourceError> {
        let (prefix, component) = (source_dir(pin), pin.component.as_str());
        let folder = folder_in(self.workspace_root, path, paths)?;
        let which = pack::Which::Sources(paths);
        let content = pack::digest(&folder, component, which)?;
        let recipe = format!("folder 3\n{content}\n{prefix}\n");
        if let Some(digest) = self.packed(&recipe)? {
            return Ok(digest);
        }
        self.phase(pin, WorkPhase::Packing, shown_folder(path).into_owned());
        let scratch = self.cache.scratch()?;
        let packed = scratch.path().join("tar.gz");
        let found = pack::folder(&folder, component, which, &prefix, MTIME, &packed)?;
        if found != content {
            let problem = "it changed while it was read".to_owned();
            return Err(SourceError::Unpackable { path: folder, problem });
        }
        self.keep(&packed, &recipe)
    }

    /// Adds a packed archive to the cache.
    pub(super) fn keep(&self, packed: &Path, recipe: &str) -> Result<Sha256, SourceError> {
        let (digest, _) =
            Sha256::of_file(packed).map_err(IoError::doing("read a packed source"))?;
        self.cache.admit(packed, &digest)?;
        self.cache.record_packed(recipe, &digest)?;
        Ok(digest)
    }

    pub(super) fn fetched(&self, pin: &Pin, sha256: Sha256) -> Result<Fetched, SourceError> {
        let (path, file_name) = (self.cache.path_of(&sha256), file_name(pin));
        let size = fs::metadata(&path).map_err(IoError::doing("read the cache"))?.len();
        match archive::check(&path, &file_name)? {
            Ok(top_folder) => {
                let fetched = Fetched { path, file_name, sha256, size, top_folder };
                verify_file(pin, &fetched)?;
                Ok(fetched)
            }
            Err(not) => Err(SourceError::NotAnArchive {
                file: format!("`{file_name}`"),
                expected: not.expected,
                begins: not.begins,
            }),
        }
    }

    pub(super) fn repository<'b>(&'b self, url: &'b str) -> Repository<'b> {
        Repository { cache: &self.cache, url, workspace_root: self.workspace_root }
    }

    /// Returns the URL of the index, including any credentials.
    pub(crate) fn index_url(&self) -> Result<&str, SourceError> {
        if let Some(index) = self.index.get() {
            return Ok(index);
        }
        let index = pip::as_url(&pip::pip_index()?)?;
        if url::is_unprotected(&index) {
            let index = url::shown(&index);
            self.warn(format!(
                "the package index {index} does not use TLS, so its digests cannot be trusted"
            ));
        }
        // Another thread may have stored the same value first.
        Ok(self.index.get_or_init(|| index))
    }

    /// Returns the index credentials if they apply to this URL.
    pub(super) fn credentials_for(&self, url: &str) -> Result<Option<Credentials>, SourceError> {
        let index = self.index_url()?;
        Ok(url::split_credentials(index).1.filter(|_| url::same_origin(index, url)))
    }

    pub(super) fn needs_network(&self, what: impl Fn() -> String) -> Result<(), SourceError> {
        if !self.offline {
            return Ok(());
        }
        Err(SourceError::Offline { what: what(), cache: self.cache.dir().to_owned() })
    }

    /// Reports that there are no more events for `name`.
    pub fn leave(&self, name: &ComponentName) {
        self.events.event(Event::Left { name: name.clone() });
    }

    pub(super) fn phase(&self, pin: &Pin, phase: WorkPhase, detail: String) {
        self.events.event(Event::Phase { component: pin.component.clone(), phase, detail });
    }
}

/// Copies everything that is read from `source` to `target`.
struct Tee<'t> {
    source: fs::File,
    target: &'t mut std::fs::File,
}

impl Read for Tee<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.target.write_all(&buffer[..count])?;
        Ok(count)
    }
}

/// Compares a file with a correct digest with its lock entry.
pub(super) fn verify_file(pin: &Pin, fetched: &Fetched) -> Result<(), SourceError> {
    let known = pin.evidence.0.as_ref().filter(|entry| entry.sha256 == Some(fetched.sha256));
    match known.and_then(|entry| entry.size).filter(|size| *size != fetched.size) {
        None => Ok(()),
        Some(size) => Err(SourceError::LockDiffers {
            component: pin.component.to_string(),
            what: format!("the size of `{}`", fetched.file_name),
            locked: format!("{size} bytes"),
            found: format!("{} bytes", fetched.size),
        }),
    }
}
