//! Sources unpacked, for reading: each archive of the cache once, in a folder of the
//! cache. What is read in them is not known here. A build unpacks its own copy.

use std::path::{Path, PathBuf};

use super::{Fetched, Fetcher, SourceError};
use crate::error::IoError;
use crate::process::Command;
use crate::workspace::pin::Pin;

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
        match std::fs::read(self.dir.join(path)) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let action = format!("read `{path}` of `{}`", self.fetched.file_name);
                Err(IoError::doing(action)(error).into())
            }
        }
    }
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
    let tar = Command::new("tar").args(["--extract", "--no-same-owner", "--no-same-permissions"]);
    tar.arg("--file").arg(&fetched.path).arg("--directory").arg(to).output()?;
    Ok(())
}

/// Returns the only folder in `dir` where nothing else is beside it, else `dir`.
fn top_folder(dir: &Path) -> std::io::Result<PathBuf> {
    let mut entries = fs_err::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
    match entries.pop() {
        Some(only) if entries.is_empty() && only.file_type()?.is_dir() => Ok(only.path()),
        _ => Ok(dir.to_owned()),
    }
}
