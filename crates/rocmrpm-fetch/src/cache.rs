//! The content-addressed store: the paths of verified files, and the locks that separate concurrent
//! runs. It does not fetch files.
//!
//! ```text
//! sha256/<2 digits>/<64 digits>   verified files, named by their content
//! partial/<sha256 of the URL>     unfinished downloads
//! git/<sha256 of the URL>         bare repositories
//! packed/<sha256 of a recipe>     the digest of the archive made from a recipe
//! unpacked/<sha256>               the unpacked archive with this digest, and a digest of its files
//! lock/<key>                      a lock, held while one of the above is written
//! .scratch-*                      the temporary folder of a run, locked while in use
//! ```

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use fs_err as fs;

use super::SourceError;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::error::IoError;
use rocmrpm_base::files;
use rocmrpm_base::ownership;

/// The store of all fetched files, shared by all workspaces of a user.
#[derive(Debug, Clone)]
pub struct Cache {
    dir: PathBuf,
    checked: Arc<Checked>,
}

/// The paths that this run has already verified. Two threads that need the same path wait for a
/// single verification.
#[derive(Debug, Default)]
struct Checked(Mutex<HashMap<PathBuf, Arc<Mutex<bool>>>>);

/// Whether the cache has a file.
#[derive(Debug, PartialEq, Eq)]
pub enum CacheState {
    /// The file is missing.
    Missing,
    /// The file exists, with the content that its name states.
    Whole,
    /// The file had other content than its name states, and was removed.
    Damaged {
        /// The digest of the other content.
        found: Sha256,
    },
}

/// A temporary folder for one run, removed on drop, or by a later run if this one is killed.
#[derive(Debug)]
pub struct Scratch {
    // Dropped first, so that the folder stays locked while it is removed.
    dir: tempfile::TempDir,
    _lock: Option<files::Lock>,
}

impl Scratch {
    /// Returns the folder.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// The prefix of the names of these folders.
const SCRATCH: &str = ".scratch-";

/// The time after which an unused folder that can be recreated is removed.
const UNUSED: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// The caches whose leftovers this process has removed.
static SWEPT: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);

impl Cache {
    /// Returns the cache from the environment: `ROCMRPM_CACHE`, else `$XDG_CACHE_HOME/rocmrpm`,
    /// else `~/.cache/rocmrpm`.
    pub fn from_env() -> Result<Self, SourceError> {
        Self::from_vars(|name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from))
    }

    fn from_vars(var: impl Fn(&str) -> Option<PathBuf>) -> Result<Self, SourceError> {
        // The XDG Base Directory Specification says to ignore relative paths.
        let xdg = || var("XDG_CACHE_HOME").filter(|d| d.is_absolute()).map(|d| d.join("rocmrpm"));
        let home = || var("HOME").map(|d| d.join(".cache/rocmrpm"));
        let dir = var("ROCMRPM_CACHE").or_else(xdg).or_else(home).ok_or(SourceError::NoCache)?;
        let cache = Self::at(std::path::absolute(&dir).map_err(IoError::doing("find the cache"))?);
        cache.check_access(ownership::is_ours)?;
        Ok(cache)
    }

    /// Refuses a cache that another user can write to: its files go into builds, and git runs in
    /// its repositories.
    fn check_access(&self, is_ours: impl Fn(u32) -> bool) -> Result<(), SourceError> {
        let action = || IoError::doing(format!("inspect the cache {}", self.dir.display()));
        let metadata = match fs::metadata(&self.dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(action())?,
        };
        let refused = |path: &Path, owner| {
            Err(SourceError::OpenCache { cache: self.dir.clone(), path: path.to_owned(), owner })
        };
        if !is_ours(metadata.uid()) {
            return refused(&self.dir, Some(metadata.uid()));
        }
        let is_open = |metadata: &std::fs::Metadata| metadata.mode() & 0o022 != 0;
        if is_open(&metadata) {
            return refused(&self.dir, None);
        }
        if metadata.mode() & 0o077 == 0 {
            return Ok(());
        }
        for entry in fs::read_dir(&self.dir).map_err(action())? {
            let entry = entry.map_err(action())?;
            // Another run may be removing it.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() && is_open(&metadata) {
                return refused(&entry.path(), None);
            }
        }
        Ok(())
    }

    /// Returns the cache in this folder, which need not exist yet.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), checked: Arc::default() }
    }

    /// Returns the folder of the cache.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of the file with this content, whether or not it exists.
    pub fn path_of(&self, digest: &Sha256) -> PathBuf {
        let name = digest.to_string();
        self.dir.join("sha256").join(&name[..2]).join(name)
    }

    /// Returns the path of the unpacked archive with this digest, whether or not it exists.
    pub fn unpacked(&self, digest: &Sha256) -> PathBuf {
        self.dir.join("unpacked").join(digest.to_string())
    }

    /// Returns whether the cache has the file with this content. Each run reads the file once to
    /// verify that the content still matches.
    pub fn held(&self, digest: &Sha256) -> Result<CacheState, SourceError> {
        let path = self.path_of(digest);
        if !path.is_file() {
            return Ok(CacheState::Missing);
        }
        let mut damaged = None;
        self.once(&path, || {
            let (found, _) =
                Sha256::of_file(&path).map_err(IoError::doing("verify a cached file"))?;
            if found != *digest {
                fs::remove_file(&path).map_err(IoError::doing("remove a damaged file"))?;
                damaged = Some(found);
            }
            Ok(found == *digest)
        })?;
        Ok(damaged.map_or(CacheState::Whole, |found| CacheState::Damaged { found }))
    }

    /// Runs a check of the file or folder at this path, unless it has already succeeded in this
    /// run.
    pub fn once(
        &self,
        path: &Path,
        check: impl FnOnce() -> Result<bool, SourceError>,
    ) -> Result<(), SourceError> {
        let slot = self.slot(path);
        let mut checked = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if !*checked {
            *checked = check()?;
        }
        Ok(())
    }

    fn slot(&self, path: &Path) -> Arc<Mutex<bool>> {
        let mut slots = self.checked.0.lock().unwrap_or_else(PoisonError::into_inner);
        slots.entry(path.to_owned()).or_default().clone()
    }

    /// Moves a verified file, which is on the cache's file system, to its final path.
    pub fn admit(&self, file: &Path, digest: &Sha256) -> Result<PathBuf, SourceError> {
        let path = self.path_of(digest);
        self.folder_of(&path)?;
        fs::rename(file, &path).map_err(IoError::doing("store a file in the cache"))?;
        *self.slot(&path).lock().unwrap_or_else(PoisonError::into_inner) = true;
        Ok(path)
    }

    /// Returns the path of the partial download of this URL.
    pub fn partial(&self, url: &str) -> Result<PathBuf, SourceError> {
        let path = self.dir.join("partial").join(Sha256::of_bytes(url).to_string());
        self.folder_of(&path)?;
        Ok(path)
    }

    /// Returns the path of the bare repository for this URL.
    pub fn repository(&self, url: &str) -> Result<PathBuf, SourceError> {
        let path = self.dir.join("git").join(Sha256::of_bytes(url).to_string());
        self.folder_of(&path)?;
        Ok(path)
    }

    /// Returns the digest of the archive that this recipe gave earlier, if the cache still has it.
    /// Does not verify the content.
    pub fn packed(&self, recipe: &str) -> Option<Sha256> {
        let text = std::fs::read_to_string(self.packed_path(recipe)).ok()?;
        Sha256::parse(text.trim()).filter(|digest| self.path_of(digest).is_file())
    }

    /// Records the archive that a recipe gave.
    pub fn record_packed(&self, recipe: &str, digest: &Sha256) -> Result<(), SourceError> {
        rocmrpm_base::files::write_atomically(&self.packed_path(recipe), format!("{digest}\n"))
            .map_err(IoError::doing("record a packed source in the cache"))?;
        Ok(())
    }

    fn packed_path(&self, recipe: &str) -> PathBuf {
        self.dir.join("packed").join(Sha256::of_bytes(recipe).to_string())
    }

    /// Creates a temporary folder on the cache's file system.
    pub fn scratch(&self) -> Result<Scratch, SourceError> {
        let action =
            || IoError::doing(format!("create a folder in the cache {}", self.dir.display()));
        self.create().map_err(action())?;
        self.sweep_once().map_err(action())?;
        // Another run must not find the folder before it is locked.
        let _making = self.lock(SCRATCH)?;
        let dir =
            tempfile::Builder::new().prefix(SCRATCH).tempdir_in(&self.dir).map_err(action())?;
        // NFS cannot lock folders; leftovers stay there.
        let lock = files::try_lock_folder(dir.path()).ok().flatten();
        Ok(Scratch { dir, _lock: lock })
    }

    /// Removes the folders of killed runs, once per process.
    fn sweep_once(&self) -> std::io::Result<()> {
        let mut swept = SWEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if swept.get_or_insert_default().insert(self.dir.clone()) {
            drop(swept);
            self.sweep()?;
        }
        Ok(())
    }

    fn sweep(&self) -> std::io::Result<()> {
        let mut leftovers = Vec::new();
        let making = self.lock(SCRATCH).map_err(std::io::Error::other)?;
        for name in files::names_in(&self.dir)?.into_iter().filter(|name| name.starts_with(SCRATCH))
        {
            let folder = self.dir.join(name);
            match files::try_lock_folder(&folder) {
                Ok(Some(lock)) => leftovers.push((folder, lock)),
                Ok(None) => {}
                // Its run removed it, it belongs to another user, or folders cannot be locked.
                Err(_) => {}
            }
        }
        drop(making);
        // The next run retries folders that cannot be removed now.
        leftovers.iter().for_each(|(folder, _)| drop(files::remove_dir_if_there(folder)));
        Ok(())
    }

    /// Marks a folder of the cache as used now, for [`Cache::prune`].
    pub fn touch(&self, folder: &Path) -> std::io::Result<()> {
        fs::File::open(folder)?.set_modified(SystemTime::now())
    }

    /// Removes the folders below `kind` that no run has used for a long time. Users of a folder
    /// hold the lock `KIND NAME`.
    pub fn prune(&self, kind: &str) -> Result<(), SourceError> {
        let action = || {
            IoError::doing(format!("remove unused folders of {}", self.dir.join(kind).display()))
        };
        let is_old = |folder: &Path| {
            let used = std::fs::metadata(folder).and_then(|data| data.modified());
            used.is_ok_and(|used| used.elapsed().is_ok_and(|ago| ago > UNUSED))
        };
        for name in files::names_in(&self.dir.join(kind)).map_err(action())? {
            let folder = self.dir.join(kind).join(&name);
            if is_old(&folder) {
                let _lock = self.lock(&format!("{kind} {name}"))?;
                if is_old(&folder) {
                    files::remove_dir_if_there(&folder).map_err(action())?;
                }
            }
        }
        Ok(())
    }

    /// Waits until no other thread or process holds the lock for `key`.
    pub fn lock(&self, key: &str) -> Result<files::Lock, SourceError> {
        let path = self.dir.join("lock").join(Sha256::of_bytes(key).to_string());
        self.folder_of(&path)?;
        Ok(files::lock(&path).map_err(IoError::doing(format!("lock {}", path.display())))?)
    }

    /// Creates the folder of the cache, which only the user can enter.
    fn create(&self) -> std::io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(|error| {
            std::io::Error::new(error.kind(), format!("{}: {error}", self.dir.display()))
        })
    }

    fn folder_of(&self, path: &Path) -> Result<(), SourceError> {
        let folder = path.parent().unwrap_or(&self.dir);
        self.create().map_err(IoError::doing("create the cache"))?;
        fs::create_dir_all(folder).map_err(IoError::doing("create a folder in the cache"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocmrpm_base::error::Diagnose;

    #[test]
    fn takes_cache_from_environment() {
        let from = |vars: &[(&str, &str)]| {
            let vars: Vec<_> =
                vars.iter().map(|(k, v)| (k.to_string(), PathBuf::from(v))).collect();
            Cache::from_vars(|name| vars.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone()))
                .map(|cache| cache.dir)
        };
        let all = [("ROCMRPM_CACHE", "/r"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(from(&all).unwrap(), Path::new("/r"));
        assert_eq!(from(&all[1..]).unwrap(), Path::new("/x/rocmrpm"));
        assert_eq!(from(&all[2..]).unwrap(), Path::new("/h/.cache/rocmrpm"));
        assert_eq!(
            from(&[("XDG_CACHE_HOME", "x"), ("HOME", "/h")]).unwrap(),
            Path::new("/h/.cache/rocmrpm")
        );
        assert!(matches!(from(&[]), Err(SourceError::NoCache)));
    }

    #[test]
    fn only_the_user_can_enter_a_new_cache() {
        let dir = tempfile::tempdir().unwrap();
        for (name, make) in [
            ("locked", (|cache| drop(cache.lock("a").unwrap())) as fn(&Cache)),
            ("scratch", |cache| drop(cache.scratch().unwrap())),
        ] {
            let cache = Cache::at(dir.path().join("parent").join(name));
            make(&cache);
            assert_eq!(fs::metadata(cache.dir()).unwrap().mode() & 0o777, 0o700, "{name}");
        }
    }

    #[test]
    fn rejects_cache_writable_by_others() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("cache"));
        let mode = |name: &str, mode| {
            let path = dir.path().join(name);
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        };
        let check = || cache.check_access(|_| true);
        check().unwrap();
        fs::create_dir_all(dir.path().join("cache/git")).unwrap();
        for (cache_mode, git_mode, refused) in [
            (0o755, 0o755, None),
            (0o700, 0o777, None),
            (0o775, 0o755, Some("cache")),
            (0o702, 0o755, Some("cache")),
            (0o755, 0o775, Some("cache/git")),
        ] {
            mode("cache", cache_mode);
            mode("cache/git", git_mode);
            let error = check().err();
            assert_eq!(error.is_some(), refused.is_some(), "{cache_mode:o} {git_mode:o}");
            let (Some(error), Some(name)) = (error, refused) else { continue };
            let path = dir.path().join(name);
            assert!(
                error.to_string().contains(&format!("`{}` can be written to", path.display())),
                "{error}"
            );
            assert_eq!(error.help(), [format!("chmod 0700 {}", cache.dir().display())]);
        }
    }

    #[test]
    fn rejects_cache_of_another_user() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let error = cache.check_access(|_| false).unwrap_err();
        assert!(error.to_string().contains("belongs to another user (user ID "), "{error}");
        assert!(error.help()[0].contains("export ROCMRPM_CACHE="), "{:?}", error.help());
    }

    #[test]
    fn lock_excludes_others_until_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let lock = cache.lock("a").unwrap();
        let _other_key = cache.lock("b").unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _lock = cache.lock("a").unwrap();
                sender.send(()).unwrap();
            });
            assert!(receiver.recv_timeout(Duration::from_millis(200)).is_err());
            drop(lock);
            receiver.recv_timeout(Duration::from_secs(20)).unwrap();
        });
    }

    #[test]
    fn ignores_recipe_without_its_archive() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let digest = Sha256::of_bytes("x");
        cache.record_packed("recipe", &digest).unwrap();
        assert_eq!(cache.packed("recipe"), None);
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        cache.admit(&file, &digest).unwrap();
        assert_eq!(cache.packed("recipe"), Some(digest));
        assert_eq!(cache.packed("another"), None);
    }

    #[test]
    fn removes_file_whose_content_does_not_match_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, digest) = (Cache::at(dir.path()), Sha256::of_bytes("x"));
        assert_eq!(cache.held(&digest).unwrap(), CacheState::Missing);
        let path = cache.path_of(&digest);
        rocmrpm_base::files::write_atomically(&path, "y").unwrap();
        assert_eq!(
            cache.held(&digest).unwrap(),
            CacheState::Damaged { found: Sha256::of_bytes("y") }
        );
        assert!(!path.exists());
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        cache.admit(&file, &digest).unwrap();
        assert_eq!(cache.held(&digest).unwrap(), CacheState::Whole);
        assert_eq!(Cache::at(dir.path()).held(&digest).unwrap(), CacheState::Whole);
    }

    #[test]
    fn removes_long_unused_folders() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, at) = (Cache::at(dir.path()), |name: &str| dir.path().join("proof").join(name));
        for name in ["new", "old", "used"] {
            rocmrpm_base::files::write_atomically(&at(name).join("a.rpm"), "x").unwrap();
        }
        for name in ["old", "used"] {
            let long_ago = SystemTime::now() - UNUSED - Duration::from_secs(60);
            fs::File::open(at(name)).unwrap().set_modified(long_ago).unwrap();
        }
        cache.touch(&at("used")).unwrap();
        cache.prune("proof").unwrap();
        assert_eq!(files::names_in(&dir.path().join("proof")).unwrap(), ["new", "used"]);
        cache.prune("none").unwrap();
    }

    #[test]
    fn removes_folders_of_killed_runs_only() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join(".scratch-left");
        rocmrpm_base::files::write_atomically(&left.join("a/b"), "x").unwrap();
        let in_use = Cache::at(dir.path()).scratch().unwrap();
        assert!(!left.exists());
        fs::create_dir(&left).unwrap();
        Cache::at(dir.path()).sweep().unwrap();
        assert!(!left.exists() && in_use.path().exists());
        let path = in_use.path().to_owned();
        drop(in_use);
        assert!(!path.exists());
    }
}
