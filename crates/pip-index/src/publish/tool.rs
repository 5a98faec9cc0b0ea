//! Runs the tools: sets their environment, reports failures, runs several in parallel, and lays out
//! files for them. It does not know what each tool does.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::PublishError;
use crate::folder::if_exists;
use crate::place::{Page, Stored};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::error::IoError;
use rocmrpm_base::parallel;
use rocmrpm_base::process::{Command, Finished, last_lines};

/// The number of lines of a tool's output in an error.
const TAIL_LINES: usize = 8;

/// The number of parallel child processes, as many as the connections that browsers open to a host.
const PARALLEL_TOOLS: usize = 4;

/// Runs a tool whose output is parsed: in English, without a pager or prompts.
pub(super) fn run(command: Command) -> Result<Finished, PublishError> {
    let command = command.env("LC_ALL", "C").env("AWS_PAGER", "").env("AWS_CLI_AUTO_PROMPT", "off");
    Ok(command.run()?)
}

/// Returns an error with the tool's output.
pub(super) fn failed(
    program: &str,
    finished: &Finished,
    action: &str,
    place: &str,
) -> PublishError {
    PublishError::Tool {
        action: action.to_owned(),
        place: place.to_owned(),
        program: program.to_owned(),
        how: finished.how(),
        words: last_lines(&finished.stderr, TAIL_LINES)
            .iter()
            .map(|line| rocmrpm_base::text::visible(line))
            .collect(),
    }
}

/// Calls `work` for every item, several in parallel, and returns the results in order. After a
/// failure, no further item is started.
pub(super) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, PublishError> + Sync,
) -> Result<Vec<R>, PublishError> {
    parallel::try_map(items, PARALLEL_TOOLS, work)
}

/// Splits pages where the depth of their folders changes. Pages of different folders of one depth do not
/// refer to each other: a page that refers to others is closer to the root.
pub(super) fn levels(pages: &[Page]) -> impl Iterator<Item = &[Page]> {
    let depth = |page: &Page| page.path.split('/').count();
    pages.chunk_by(move |one, other| depth(one) == depth(other))
}

/// A folder with the layout of the index, for tools that copy folders: links to packages, and
/// pages.
pub(super) struct Layout {
    dir: tempfile::TempDir,
    list: String,
}

impl Layout {
    /// Creates an empty layout.
    pub fn new() -> Result<Self, PublishError> {
        let dir = tempfile::Builder::new()
            .prefix("rocmrpm-publish-")
            .tempdir()
            .map_err(io("create a folder"))?;
        fs::create_dir(dir.path().join("tree")).map_err(io("create a folder"))?;
        Ok(Self { dir, list: String::new() })
    }

    /// Lists a path, whether or not it exists here.
    pub fn name(&mut self, path: &str) -> PathBuf {
        self.list.push_str(path);
        self.list.push('\n');
        self.tree().join(path)
    }

    /// Adds a link to a file elsewhere.
    pub fn link(&mut self, path: &str, file: &Path) -> Result<(), PublishError> {
        let file = std::path::absolute(file).map_err(io("find a package"))?;
        let at = self.made(path)?;
        symlink(file, at).map_err(io("link a package"))
    }

    /// Adds a file with these contents.
    pub fn write(&mut self, path: &str, bytes: &[u8]) -> Result<PathBuf, PublishError> {
        let at = self.made(path)?;
        fs::write(&at, bytes).map_err(io("write a page"))?;
        Ok(at)
    }

    /// Adds an empty folder.
    pub fn folder(&self, path: &str) -> Result<(), PublishError> {
        fs::create_dir_all(self.tree().join(path)).map_err(io("create a folder"))
    }

    /// Returns the folder with the layout of the index.
    pub fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    /// Writes the list of paths, one per line, and returns its file.
    pub fn list(&self) -> Result<PathBuf, PublishError> {
        let path = self.dir.path().join("list");
        fs::write(&path, &self.list).map_err(io("write a list of files"))?;
        Ok(path)
    }

    /// Reads a downloaded file; `None` if the tool did not download it.
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>, PublishError> {
        if_exists(fs::read(self.tree().join(path))).map_err(io("read a page"))
    }

    /// Returns the size and digest of a downloaded file; `None` if the tool did not download it.
    pub fn stored(&self, path: &str) -> Result<Option<Stored>, PublishError> {
        let read =
            if_exists(Sha256::of_file(&self.tree().join(path))).map_err(io("read a file"))?;
        Ok(read.map(|(sha256, size)| Stored { size, sha256 }))
    }

    fn made(&mut self, path: &str) -> Result<PathBuf, PublishError> {
        let at = self.name(path);
        fs::create_dir_all(at.parent().unwrap_or(&at)).map_err(io("create a folder"))?;
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
    fn a_level_ends_where_the_depth_changes() {
        let page = |path: &str| Page { path: path.into(), bytes: Vec::new(), media_type: "" };
        let pages = ["s/a/x", "s/b/x", "s/x", "x"].map(page);
        let lengths: Vec<usize> = levels(&pages).map(<[Page]>::len).collect();
        assert_eq!(lengths, [2, 1, 1]);
    }

    #[test]
    fn maps_only_missing_files_to_none() {
        let mut layout = Layout::new().unwrap();
        layout.write("a/file", b"x").unwrap();
        let stored = Stored { size: 1, sha256: Sha256::of_bytes("x") };
        assert_eq!(layout.read("a/file").unwrap(), Some(b"x".to_vec()));
        assert_eq!(layout.stored("a/file").unwrap(), Some(stored));
        assert_eq!((layout.read("b").unwrap(), layout.stored("b").unwrap()), (None, None));
        // Not even root can read a folder as a file.
        assert!(layout.read("a").is_err() && layout.stored("a").is_err());
    }
}
