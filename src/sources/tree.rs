//! Sources unpacked, for reading: each archive of the cache once, in a folder of the
//! cache. What is read in them is not known here. A build unpacks its own copy.

use std::path::{Path, PathBuf};

use super::{Fetched, Fetcher, SourceError};
use crate::error::IoError;
use crate::process::{self, Command};
use crate::workspace::pin::Pin;

/// How large a file may be that is read. The largest real one is vLLM's Cargo.lock, a
/// fifth of a million bytes.
const MAX_FILE: u64 = 4 << 20;

/// An unpacked source, for reading only: others read the same files.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The top folder of the source.
    pub dir: PathBuf,
    /// The archive that it was unpacked from.
    pub fetched: Fetched,
}

impl Tree {
    /// Returns the text of a file of the source; `None` if there is no such file. What
    /// is not UTF-8 becomes U+FFFD.
    pub fn text(&self, path: &str) -> Result<Option<String>, SourceError> {
        let bytes = read_inside(&self.dir, path).map_err(|reason| SourceError::Unreadable {
            path: path.to_owned(),
            archive: self.fetched.file_name.clone(),
            reason,
        })?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// Returns the bytes of a file below the top folder of an unpacked source, `None` if there is
/// no such file, or why it is not read: links are not followed out of the source, and nothing
/// but a file of bounded size is read.
pub fn read_inside(dir: &Path, path: &str) -> Result<Option<Vec<u8>>, String> {
    let path = dir.join(path);
    let Ok(real) = path.canonicalize() else {
        return match path.symlink_metadata() {
            Ok(_) => Err("it is a link that leads nowhere".into()),
            Err(_) => Ok(None),
        };
    };
    if dir.canonicalize().map_or(true, |dir| !real.starts_with(dir)) {
        return Err("it is a link that leads out of the source".into());
    }
    let size = match real.metadata() {
        Ok(data) if data.is_file() => data.len(),
        Ok(_) => return Err("it is no file".into()),
        Err(error) => return Err(format!("it cannot be read: {error}")),
    };
    if size > MAX_FILE {
        return Err(format!("it has {size} bytes; at most {MAX_FILE} are read"));
    }
    std::fs::read(&real).map(Some).map_err(|error| format!("it cannot be read: {error}"))
}

impl Fetcher<'_> {
    /// Makes sure that the pinned source is in the cache, verified and unpacked.
    pub fn tree(&self, pin: &Pin) -> Result<Tree, SourceError> {
        let fetched = self.obtain(pin)?;
        let dir = self.cache().unpacked(&fetched.sha256);
        if !dir.is_dir() {
            let scratch = self.cache().scratch()?;
            unpack(&fetched, scratch.path())?;
            let action = || IoError::doing(format!("unpack `{}`", fetched.file_name));
            let parent = dir.parent().unwrap_or(&dir);
            fs_err::create_dir_all(parent).map_err(action())?;
            match std::fs::rename(scratch.path(), &dir) {
                // Somebody else was faster, with the same content.
                Err(_) if dir.is_dir() => {}
                other => other.map_err(action())?,
            }
        }
        let dir = top_folder(&dir).map_err(IoError::doing("read an unpacked source"))?;
        Ok(Tree { dir, fetched })
    }
}

/// Unpacks an archive with tar, which refuses members that lead out of the folder and
/// knows the compressions.
fn unpack(fetched: &Fetched, to: &Path) -> Result<(), SourceError> {
    let tar = Command::new("tar").env("LC_ALL", "C").args([
        "--extract",
        "--no-same-owner",
        "--no-same-permissions",
    ]);
    let finished = tar.arg("--file").arg(&fetched.path).arg("--directory").arg(to).run()?;
    if finished.success() {
        return Ok(());
    }
    let said = process::last_lines(&finished.stderr, 3).join("; ");
    if process::says_full(&said) {
        let full = std::io::Error::new(std::io::ErrorKind::StorageFull, said);
        return Err(IoError::doing(format!("unpack `{}`", fetched.file_name))(full).into());
    }
    Err(SourceError::NotUnpacked { archive: fetched.file_name.clone(), reason: said })
}

/// Returns the only folder in `dir` where nothing else is beside it, else `dir`.
fn top_folder(dir: &Path) -> std::io::Result<PathBuf> {
    let mut entries = fs_err::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
    match entries.pop() {
        Some(only) if entries.is_empty() && only.file_type()?.is_dir() => Ok(only.path()),
        _ => Ok(dir.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_source_are_read() {
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
            ("dangling", "leads nowhere"),
            ("socket", "no file"),
            (".", "no file"),
            ("large", "4194305 bytes"),
        ] {
            let error = read(name).unwrap_err();
            assert!(error.contains(reason), "{name}: {error}");
        }
    }
}
