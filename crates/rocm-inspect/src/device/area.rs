//! Reusable space for decompressed bundles: anonymous memory for small ones, a mapped temporary
//! file for large ones, whose pages the kernel may write back. It does not know the content.

use std::io;
use std::path::Path;

use memmap2::{Advice, MmapMut};

/// Up to this size, space is anonymous memory.
const SMALL: usize = 8 << 20;

/// The space of one thread.
pub(super) struct Area<'a> {
    folder: &'a Path,
    map: Option<MmapMut>,
    /// How many bytes of the map are backed by pages.
    backed: usize,
}

impl<'a> Area<'a> {
    /// Starts without space. Large files will be created in `folder`.
    pub(super) fn new(folder: &'a Path) -> Self {
        Self { folder, map: None, backed: 0 }
    }

    /// Returns `length` bytes of space with arbitrary content, or an error if there is not enough.
    pub(super) fn room(&mut self, length: usize) -> io::Result<&mut [u8]> {
        let map = match self.map.take() {
            Some(map) if map.len() >= length => map,
            // Free the old map before creating the next one.
            old => {
                drop(old);
                self.backed = 0;
                if length <= SMALL {
                    MmapMut::map_anon(length.max(1))?
                } else {
                    file(self.folder, length)?
                }
            }
        };
        if length > self.backed.max(SMALL) {
            // Writing to a page that the disk cannot hold would kill the process; populating
            // reports an error instead. It is also faster than a page fault per page.
            map.advise_range(Advice::PopulateWrite, self.backed, length - self.backed)?;
            self.backed = length;
        }
        Ok(&mut self.map.insert(map)[..length])
    }
}

#[expect(unsafe_code, reason = "mapping a file; see the comment inside")]
fn file(folder: &Path, length: usize) -> io::Result<MmapMut> {
    let file = tempfile::tempfile_in(folder)?;
    // The file is sparse: populating the mapping allocates it, and fails if the disk is full.
    file.set_len(length as u64)?;
    // SAFETY: the file was just created and has no name, so no one else can change or truncate it.
    unsafe { MmapMut::map_mut(&file) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_and_reuses_space() {
        let dir = tempfile::tempdir().unwrap();
        let mut area = Area::new(dir.path());
        for length in [0, 1, 5000, SMALL, SMALL + 1, 3, SMALL + 9000, 2 * SMALL] {
            let room = area.room(length).unwrap();
            assert_eq!(room.len(), length);
            room.fill(7);
        }
        area.room(100).unwrap()[99] = 1;
        assert_eq!(area.room(2 * SMALL).unwrap()[98..101], [7, 1, 7], "the same space");
        assert_eq!(dir.path().read_dir().unwrap().count(), 0, "no name");
    }

    #[test]
    fn offers_only_small_spaces_without_a_folder() {
        let mut area = Area::new(Path::new("/dev/null/none"));
        assert!(area.room(SMALL).is_ok());
        assert!(area.room(SMALL + 1).is_err());
        assert!(area.room(SMALL).is_ok());
    }
}
