//! Where an index lies: a folder, or a server that a tool reaches. What belongs
//! there, and in which order, is decided elsewhere.

use std::path::PathBuf;

use super::IndexError;
use rocmrpm_base::digest::Sha256;

/// A file that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Bytes.
    pub size: u64,
    /// Its digest.
    pub sha256: Sha256,
}

/// A package that is to be there: a wheel or its metadata. Once there it never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its path below the index's root, with `/`.
    pub path: String,
    /// The file on this machine.
    pub file: PathBuf,
    /// What is in it.
    pub stored: Stored,
}

/// A page that is to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Its path below the index's root, with `/`.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Its media type (PEP 691, "Content-Types").
    pub media_type: &'static str,
}

/// A place for an index. All paths are below its root and use `/`.
pub trait Place {
    /// Returns the place as users write it.
    fn name(&self) -> String;

    /// Reads pages; `None` for those that are not there.
    fn read(&self, paths: &[String]) -> Result<Vec<Option<Vec<u8>>>, IndexError>;

    /// Tells what lies under these paths; `None` where nothing does. The digest is that of the
    /// bytes there, not what somebody says of them, unless the place itself verified it.
    fn stored(&self, paths: &[String]) -> Result<Vec<Option<Stored>>, IndexError>;

    /// Like [`Place::stored`], for packages whose files are here: a place that can compare without
    /// reading what is there does.
    fn compare(&self, packages: &[Package]) -> Result<Vec<Option<Stored>>, IndexError> {
        let paths: Vec<String> = packages.iter().map(|package| package.path.clone()).collect();
        self.stored(&paths)
    }

    /// Puts packages in place and verifies what arrived. Each becomes visible as a whole or not
    /// at all, and none replaces a file that is there.
    fn put_packages(&self, packages: &[Package]) -> Result<(), IndexError>;

    /// Puts pages in place in this order, each in one step.
    fn put_pages(&self, pages: &[Page]) -> Result<(), IndexError>;

    /// Removes files; those that are not there are fine.
    fn remove(&self, paths: &[String]) -> Result<(), IndexError>;
}
