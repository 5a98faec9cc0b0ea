//! What the cache contains, how large it is, and when it was last used; removes entries. Commands
//! that use an entry read its files, so the time of the last use is that of the last access, as far
//! as the file system records it: with `relatime`, within a day; with `noatime`, the time of
//! writing.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::SourceError;
use super::cache::Cache;
use rocmrpm_base::error::IoError;
use rocmrpm_base::files;

/// The folders of the cache with entries that can be fetched or made again, and what they contain.
/// `lock` is empty files, and `seen` cannot be made again.
const KINDS: [(&str, &str); 7] = [
    ("sha256", "files"),
    ("git", "git repositories"),
    ("unpacked", "unpacked archives"),
    ("packed", "digests of packed archives"),
    ("buildroots", "packages of recorded build roots"),
    ("proof", "RPMs without payload"),
    ("partial", "incomplete downloads"),
];

/// One entry of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// The folder below the cache, such as `git`.
    pub kind: &'static str,
    /// What the folder contains, in words.
    pub what: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// When it was last used.
    pub used: SystemTime,
}

impl CacheEntry {
    /// Returns whether it was last used this long ago or earlier.
    pub fn unused_for(&self, time: Duration) -> bool {
        self.used.elapsed().is_ok_and(|ago| ago >= time)
    }
}

impl Cache {
    /// Returns all entries that can be fetched or made again, by kind.
    pub fn entries(&self) -> Result<Vec<CacheEntry>, SourceError> {
        let mut entries = Vec::new();
        for (kind, what) in KINDS {
            let above = self.dir().join(kind);
            let action = || IoError::doing(format!("read {}", above.display()));
            for name in files::names_in(&above).map_err(action())? {
                let path = above.join(name);
                let inside = match kind {
                    // The first two digits of the names are folders.
                    "sha256" => files::names_in(&path).map_err(action())?,
                    _ => vec![String::new()],
                };
                for name in inside {
                    let path = if name.is_empty() { path.clone() } else { path.join(name) };
                    let (size, used) = usage(&path);
                    entries.push(CacheEntry { kind, what, path, size, used });
                }
            }
        }
        Ok(entries)
    }

    /// Removes an entry. A run that is killed leaves no half of it.
    pub fn remove(&self, entry: &CacheEntry) -> Result<(), SourceError> {
        let scratch = self.scratch()?;
        let to = scratch.path().join("removed");
        match fs_err::rename(&entry.path, to) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(IoError::doing("remove an entry of the cache")(error).into())
            }
            _ => Ok(()),
        }
    }
}

/// Returns the size of a file or folder, and when any of its files was last used. What cannot be read
/// counts as empty and as used now.
fn usage(path: &Path) -> (u64, SystemTime) {
    let (mut size, mut used) = (0, None);
    for entry in walkdir::WalkDir::new(path) {
        let Some(metadata) = entry.ok().and_then(|entry| entry.metadata().ok()) else {
            used = Some(SystemTime::now());
            continue;
        };
        // Listing a folder counts as an access to it.
        if metadata.is_file() {
            size += metadata.len();
            let seconds = metadata.atime().max(metadata.mtime()).max(0).unsigned_abs();
            used = used.max(Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)));
        }
    }
    (size, used.unwrap_or(SystemTime::UNIX_EPOCH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocmrpm_base::digest::Sha256;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// Returns a cache with a file and a repository that were last used some days ago.
    fn filled(days: u32) -> (tempfile::TempDir, Cache) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("cache"));
        let file = cache.path_of(&Sha256::of_bytes("abc"));
        let head = cache.repository("https://example.org/a").unwrap().join("HEAD");
        let time = SystemTime::now() - DAY * days;
        for (path, text) in [(&file, "abc"), (&head, "ref: main\n")] {
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
            let times = std::fs::FileTimes::new().set_accessed(time).set_modified(time);
            std::fs::File::options().write(true).open(path).unwrap().set_times(times).unwrap();
        }
        fs_err::create_dir_all(cache.dir().join("seen")).unwrap();
        fs_err::write(cache.dir().join("seen/x"), "7").unwrap();
        (dir, cache)
    }

    #[test]
    fn lists_sizes_and_ages() {
        let (_dir, cache) = filled(3);
        let entries = cache.entries().unwrap();
        let kinds: Vec<_> = entries.iter().map(|entry| (entry.kind, entry.size)).collect();
        assert_eq!(kinds, [("sha256", 3), ("git", 10)]);
        assert!(entries.iter().all(|entry| entry.unused_for(DAY * 2)));
        assert!(!entries.iter().any(|entry| entry.unused_for(DAY * 4)));
        // Listing is not a use.
        assert_eq!(cache.entries().unwrap(), entries);
    }

    #[test]
    fn removes_whole_entries_only() {
        let (_dir, cache) = filled(3);
        for entry in cache.entries().unwrap() {
            cache.remove(&entry).unwrap();
            assert!(!entry.path.exists());
            // Another run removed it.
            cache.remove(&entry).unwrap();
        }
        assert_eq!(cache.entries().unwrap(), []);
        assert_eq!(fs_err::read(cache.dir().join("seen/x")).unwrap(), b"7");
        let left = files::names_in(cache.dir()).unwrap();
        assert!(!left.iter().any(|name| name.starts_with(".scratch-")), "{left:?}");
    }
}
