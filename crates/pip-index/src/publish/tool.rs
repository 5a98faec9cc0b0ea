//! How the tools are called: their surroundings, what a failure says, several side
//! by side, files laid out for them. Not which tool does what.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::PublishError;
use crate::folder::there;
use crate::place::Stored;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::error::IoError;
use rocmrpm_base::parallel;
use rocmrpm_base::process::{Command, Finished, last_lines};

/// How many lines of a tool's own words an error shows.
const WORDS: usize = 8;

/// How many children run at one time: as many connections as browsers have to one host.
const SIDE_BY_SIDE: usize = 4;

/// Runs a tool whose messages are to be understood: in English, without a pager or questions.
pub(super) fn run(command: Command) -> Result<Finished, PublishError> {
    let command = command.env("LC_ALL", "C").env("AWS_PAGER", "").env("AWS_CLI_AUTO_PROMPT", "off");
    Ok(command.run()?)
}

/// Returns an error with the tool's words.
pub(super) fn failed(program: &str, finished: &Finished, action: &str, place: &str) -> PublishError {
    PublishError::Tool {
        action: action.to_owned(),
        place: place.to_owned(),
        program: program.to_owned(),
        how: finished.how(),
        words: last_lines(&finished.stderr, WORDS)
            .iter()
            .map(|line| rocmrpm_base::text::visible(line))
            .collect(),
    }
}

/// Calls `work` for every item, some at one time, and returns what it returned, in order. After a
/// failure no other item is begun.
pub(super) fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, PublishError> + Sync,
) -> Result<Vec<R>, PublishError> {
    parallel::try_map(items, SIDE_BY_SIDE, work)
}

/// A folder laid out as the index is, for tools that copy folders: links to packages, and pages.
pub(super) struct Layout {
    dir: tempfile::TempDir,
    list: String,
}

impl Layout {
    /// Returns an empty one.
    pub fn new() -> Result<Self, PublishError> {
        let dir =
            tempfile::Builder::new().prefix("rocmrpm-publish-").tempdir().map_err(io("make a folder"))?;
        fs::create_dir(dir.path().join("tree")).map_err(io("make a folder"))?;
        Ok(Self { dir, list: String::new() })
    }

    /// Lists a path that need not be here.
    pub fn name(&mut self, path: &str) -> PathBuf {
        self.list.push_str(path);
        self.list.push('\n');
        self.tree().join(path)
    }

    /// Adds a file that lies elsewhere.
    pub fn link(&mut self, path: &str, file: &Path) -> Result<(), PublishError> {
        let file = std::path::absolute(file).map_err(io("find a package"))?;
        let at = self.made(path)?;
        symlink(file, at).map_err(io("link a package"))
    }

    /// Adds a file with this content.
    pub fn write(&mut self, path: &str, bytes: &[u8]) -> Result<PathBuf, PublishError> {
        let at = self.made(path)?;
        fs::write(&at, bytes).map_err(io("write a page"))?;
        Ok(at)
    }

    /// Adds an empty folder.
    pub fn folder(&self, path: &str) -> Result<(), PublishError> {
        fs::create_dir_all(self.tree().join(path)).map_err(io("make a folder"))
    }

    /// The folder that is laid out as the index is.
    pub fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    /// Writes the list of paths, one a line, and returns its file.
    pub fn list(&self) -> Result<PathBuf, PublishError> {
        let path = self.dir.path().join("list");
        fs::write(&path, &self.list).map_err(io("write a list of files"))?;
        Ok(path)
    }

    /// Reads a file that a tool fetched; `None` if it fetched none.
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>, PublishError> {
        there(fs::read(self.tree().join(path))).map_err(io("read a page"))
    }

    /// Returns size and digest of a file that a tool fetched; `None` if it fetched none.
    pub fn stored(&self, path: &str) -> Result<Option<Stored>, PublishError> {
        let read = there(Sha256::of_file(&self.tree().join(path))).map_err(io("read a file"))?;
        Ok(read.map(|(sha256, size)| Stored { size, sha256 }))
    }

    fn made(&mut self, path: &str) -> Result<PathBuf, PublishError> {
        let at = self.name(path);
        fs::create_dir_all(at.parent().unwrap_or(&at)).map_err(io("make a folder"))?;
        Ok(at)
    }
}

/// Returns a function for `map_err`.
pub(super) fn io(action: &str) -> impl Fn(std::io::Error) -> PublishError {
    move |error| PublishError::Io(IoError::doing(action)(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_file_was_not_fetched() {
        let mut layout = Layout::new().unwrap();
        layout.write("a/file", b"x").unwrap();
        let stored = Stored { size: 1, sha256: Sha256::of_bytes("x") };
        assert_eq!(layout.read("a/file").unwrap(), Some(b"x".to_vec()));
        assert_eq!(layout.stored("a/file").unwrap(), Some(stored));
        assert_eq!((layout.read("b").unwrap(), layout.stored("b").unwrap()), (None, None));
        // A folder cannot be read, not even by root.
        assert!(layout.read("a").is_err() && layout.stored("a").is_err());
    }
}
