//! Unpacks sources for reading: each cached archive once, into a cache folder that every run
//! verifies before use. It does not interpret the files. Builds unpack their own copy.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::cache::Scratch;
use super::unpack::unpack;
use super::{Fetched, Fetcher, SourceError};
use crate::digest::Sha256;
use crate::error::IoError;
use crate::workspace::pin::Pin;
use crate::{files, machine, parallel};

/// Maximum size of a file to read, in bytes. The largest real one is vLLM's Cargo.lock with about
/// 200,000.
const MAX_FILE: u64 = 4 << 20;

/// An unpacked source. It is shared and must not be modified.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The top folder of the source.
    pub dir: PathBuf,
    /// The archive of the source.
    pub fetched: Fetched,
}

impl Tree {
    /// Finds the top folder of a source that was unpacked into `dir`.
    fn in_folder(dir: &Path, mut fetched: Fetched) -> Result<Self, SourceError> {
        let top = top_folder(dir).map_err(IoError::doing("read an unpacked source"))?;
        // Not all archives name it in their first bytes.
        if fetched.top_folder.is_none() && top != dir {
            let name = top.file_name().map(|name| name.to_string_lossy().into_owned());
            fetched.top_folder = name;
        }
        Ok(Self { dir: top, fetched })
    }

    /// Returns the text of a source file; `None` if it does not exist. Invalid UTF-8 becomes
    /// U+FFFD.
    pub fn text(&self, path: &str) -> Result<Option<String>, SourceError> {
        let bytes = read_inside(&self.dir, path).map_err(|reason| SourceError::Unreadable {
            path: path.to_owned(),
            archive: self.fetched.file_name.clone(),
            reason,
        })?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// Returns the bytes of a file below the top folder of an unpacked source, `None` if it does not
/// exist, or the reason why it was not read. Only reads regular files of limited size and never
/// follows links out of the source.
pub fn read_inside(dir: &Path, path: &str) -> Result<Option<Vec<u8>>, String> {
    let path = dir.join(path);
    let Ok(real) = path.canonicalize() else {
        return match path.symlink_metadata() {
            Ok(_) => Err("it is a dangling link".into()),
            Err(_) => Ok(None),
        };
    };
    if dir.canonicalize().map_or(true, |dir| !real.starts_with(dir)) {
        return Err("it is a link that leads out of the source".into());
    }
    let size = match real.metadata() {
        Ok(data) if data.is_file() => data.len(),
        Ok(_) => return Err("it is not a regular file".into()),
        Err(error) => return Err(format!("it cannot be read: {error}")),
    };
    if size > MAX_FILE {
        return Err(format!("it has {size} bytes; the limit is {MAX_FILE} bytes"));
    }
    std::fs::read(&real).map(Some).map_err(|error| format!("it cannot be read: {error}"))
}

impl Fetcher<'_> {
    /// Ensures that the pinned source is cached, verified and unpacked.
    pub fn tree(&self, pin: &Pin) -> Result<Tree, SourceError> {
        let fetched = self.obtain(pin)?;
        let dir = self.cache().unpacked(&fetched.sha256);
        self.cache().once(&dir, || self.unpack_once(&fetched, &dir).map(|()| true))?;
        Tree::in_folder(&dir, fetched)
    }

    /// Unpacks the pinned source from its verified archive for one use, independent of earlier
    /// runs.
    pub(super) fn private_tree(&self, pin: &Pin) -> Result<(Scratch, Tree), SourceError> {
        let fetched = self.obtain(pin)?;
        let scratch = self.cache().scratch()?;
        unpack(&fetched, scratch.path())?;
        let tree = Tree::in_folder(scratch.path(), fetched)?;
        Ok((scratch, tree))
    }

    /// Unpacks an archive unless an unmodified copy from an earlier run exists.
    fn unpack_once(&self, fetched: &Fetched, dir: &Path) -> Result<(), SourceError> {
        let action = || IoError::doing(format!("unpack `{}`", fetched.file_name));
        let _lock = self.cache().lock(&dir.to_string_lossy())?;
        let record = dir.with_extension("digest");
        if dir.is_dir() {
            // A killed run or an older rocmrpm leaves no record.
            if let Ok(recorded) = std::fs::read_to_string(&record) {
                if digest_of(dir)?.to_string() == recorded.trim() {
                    return Ok(());
                }
                self.warn(format!(
                    "{} changed since it was unpacked; unpacking it again",
                    dir.display()
                ));
            }
            files::remove_dir_if_there(dir).map_err(action())?;
        }
        let scratch = self.cache().scratch()?;
        unpack(fetched, scratch.path())?;
        files::write_atomically(&record, format!("{}\n", digest_of(scratch.path())?))
            .map_err(action())?;
        fs_err::rename(scratch.path(), dir).map_err(action())?;
        Ok(())
    }
}

/// Returns a digest of everything in a folder: names, types, permissions, contents.
fn digest_of(dir: &Path) -> Result<Sha256, SourceError> {
    let action = || IoError::doing(format!("verify {}", dir.display()));
    let entries = walkdir::WalkDir::new(dir).min_depth(1).sort_by_file_name().into_iter();
    let entries: Vec<_> =
        entries.collect::<Result<_, _>>().map_err(|error| action()(error.into()))?;
    let lines = parallel::try_map(&entries, machine::cores(), |entry| {
        let (path, kind) = (entry.path(), entry.file_type());
        let mode = entry.metadata().map_err(|error| action()(error.into()))?.permissions().mode();
        let content = match () {
            () if kind.is_file() => Sha256::of_file(path).map_err(action())?.0,
            () if kind.is_symlink() => {
                Sha256::of_bytes(fs_err::read_link(path).map_err(action())?.as_os_str().as_bytes())
            }
            () => Sha256::of_bytes(""),
        };
        let name = path.strip_prefix(dir).unwrap_or(path).as_os_str().as_bytes();
        Ok::<_, SourceError>(format!("{mode:o} {content} {}\n", Sha256::of_bytes(name)))
    })?;
    Ok(Sha256::of_bytes(lines.concat()))
}

/// Returns the only folder in `dir` if there is nothing else, otherwise `dir`.
fn top_folder(dir: &Path) -> std::io::Result<PathBuf> {
    let mut entries = fs_err::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
    match entries.pop() {
        Some(only) if entries.is_empty() && only.file_type()?.is_dir() => Ok(only.path()),
        _ => Ok(dir.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn digest_covers_names_types_modes_and_contents() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let link = |to: &str, name: &str| fs_err::os::unix::fs::symlink(to, at(name)).unwrap();
        let allow = |name: &str, mode| {
            fs_err::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        fs_err::create_dir(at("folder")).unwrap();
        let mut seen = BTreeSet::new();
        let mut changed = || seen.insert(digest_of(dir.path()).unwrap().to_string());
        assert!(changed(), "at first");
        assert!(!changed(), "unchanged");
        for name in ["top", "folder/inner"] {
            fs_err::write(at(name), "x").unwrap();
            allow(name, 0o644);
            assert!(changed(), "{name} is new");
            fs_err::write(at(name), "y").unwrap();
            assert!(changed(), "content of {name}");
            allow(name, 0o755);
            assert!(changed(), "mode of {name}");
        }
        link("top", "link");
        assert!(changed(), "a link");
        fs_err::remove_file(at("link")).unwrap();
        link("folder", "link");
        assert!(changed(), "target of a link");
        fs_err::rename(at("link"), at("other")).unwrap();
        assert!(changed(), "name of a link");
        fs_err::create_dir(at("empty")).unwrap();
        assert!(changed(), "an empty folder");
    }

    #[test]
    fn only_folder_is_the_top_folder() {
        let dir = tempfile::tempdir().unwrap();
        let top = || top_folder(dir.path()).unwrap();
        assert_eq!(top(), dir.path());
        fs_err::create_dir(dir.path().join("a")).unwrap();
        assert_eq!(top(), dir.path().join("a"));
        fs_err::write(dir.path().join("b"), "").unwrap();
        assert_eq!(top(), dir.path());
        fs_err::remove_dir(dir.path().join("a")).unwrap();
        assert_eq!(top(), dir.path(), "a file");
    }

    #[test]
    fn reads_only_files_of_the_source() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| dir.path().join(name);
        let link = |to: &Path, name: &str| fs_err::os::unix::fs::symlink(to, at(name)).unwrap();
        fs_err::write(outside.path().join("secret"), "s").unwrap();
        fs_err::write(at("file"), "f").unwrap();
        link(Path::new("file"), "inside");
        link(&outside.path().join("secret"), "out");
        link(outside.path(), "folder");
        link(Path::new("nowhere"), "dangling");
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        fs_err::File::create(at("large")).unwrap().set_len(MAX_FILE + 1).unwrap();
        let read = |name: &str| read_inside(dir.path(), name);
        assert_eq!(read("file"), Ok(Some(b"f".to_vec())));
        assert_eq!(read("inside"), Ok(Some(b"f".to_vec())));
        assert_eq!(read("none"), Ok(None));
        for (name, reason) in [
            ("out", "leads out of the source"),
            ("folder/secret", "leads out of the source"),
            ("dangling", "dangling link"),
            ("socket", "not a regular file"),
            (".", "not a regular file"),
            ("large", "4194305 bytes"),
        ] {
            let error = read(name).unwrap_err();
            assert!(error.contains(reason), "{name}: {error}");
        }
    }
}
