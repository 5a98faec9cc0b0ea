//! Abstracts where an index is stored: in a folder, or on a server behind a tool. It decides
//! neither what to store nor in which order.

use std::path::PathBuf;

use super::IndexError;
use rocmrpm_base::digest::Sha256;

/// The size and digest of a stored file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// The size in bytes.
    pub size: u64,
    /// The digest of the file.
    pub sha256: Sha256,
}

/// A package to store: a wheel or its metadata. A stored package never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// The path below the root of the index, with `/`.
    pub path: String,
    /// The file on this machine.
    pub file: PathBuf,
    /// The size and digest of the file.
    pub stored: Stored,
}

/// A page to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The path below the root of the index, with `/`.
    pub path: String,
    /// The contents of the page.
    pub bytes: Vec<u8>,
    /// The media type (PEP 691, "Content-Types").
    pub media_type: &'static str,
}

/// A place for an index. All paths are relative to its root and use `/`.
pub trait IndexStorage {
    /// Returns the place in the user's spelling.
    fn name(&self) -> String;

    /// Reads pages; `None` for missing pages.
    fn read(&self, paths: &[String]) -> Result<Vec<Option<Vec<u8>>>, IndexError>;

    /// Returns what is stored at these paths; `None` for missing files. The digest is computed from
    /// the stored bytes, not taken from metadata, unless the place itself verified it.
    fn stored(&self, paths: &[String]) -> Result<Vec<Option<Stored>>, IndexError>;

    /// Like [`IndexStorage::stored`], for packages with local files: a place may compare them without
    /// reading the stored files.
    fn compare(&self, packages: &[Package]) -> Result<Vec<Option<Stored>>, IndexError> {
        let paths: Vec<String> = packages.iter().map(|package| package.path.clone()).collect();
        self.stored(&paths)
    }

    /// Stores packages and verifies what arrived. Each becomes visible as a whole or not at all,
    /// and none replaces an existing file.
    fn put_packages(&self, packages: &[Package]) -> Result<(), IndexError>;

    /// Stores pages in this order, each atomically.
    fn put_pages(&self, pages: &[Page]) -> Result<(), IndexError>;

    /// Removes files; missing files are fine.
    fn remove(&self, paths: &[String]) -> Result<(), IndexError>;
}
