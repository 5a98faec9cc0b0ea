//! What the readers of the archive formats hand the members of an archive to, in the archive's order.
//! `archive` implements it; the readers do not depend on how members are inspected.

use std::io::{self, Read};
use std::path::Path;

use crate::InspectError;

/// Receives the members of one archive.
pub(super) trait Members {
    /// Returns the path of the archive.
    fn archive(&self) -> &Path;

    /// Returns the index of the next member for this walker, of `count` members listed in a
    /// directory; `after` is the last one that it took.
    fn next(&mut self, count: usize, after: Option<usize>) -> Option<usize>;

    /// Adds a symbolic link.
    fn link(&mut self, name: &str, target: &str) -> Result<(), InspectError>;

    /// Adds a regular file without content of its own: a hard link.
    fn name(&mut self, name: &str) -> Result<(), InspectError>;

    /// Adds a regular file that is not read.
    fn unread(&mut self, name: &str, why: &str) -> Result<(), InspectError>;

    /// Adds a regular file of an archive that must be read sequentially, so that skipped files are
    /// decompressed too.
    fn streamed(
        &mut self,
        name: &str,
        size: u64,
        content: &mut dyn Read,
    ) -> Result<(), InspectError>;

    /// Adds a regular file of an archive that allows skipping files.
    fn file(&mut self, name: &str, size: u64, content: &mut dyn Read) -> Result<(), InspectError>;

    /// Counts what must be decompressed to skip or read a member.
    fn pass(&mut self, name: &str, size: u64) -> Result<(), InspectError>;

    /// Returns the error for an unreadable member.
    fn unreadable(&self, member: &str, source: io::Error) -> InspectError;

    /// Returns the error for an inconsistent archive.
    fn damaged(&self, what: String) -> InspectError;
}
