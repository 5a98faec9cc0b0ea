//! One file's bytes for inspection: mapped where they lie on disk, in memory or a
//! temporary file where they come from an archive; nothing at all of files that
//! are of no interest. Not what the bytes mean.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Deref;
use std::path::Path;

use fs_err as fs;
use memmap2::Mmap;

use super::{ar, bundle, ccob, kpack, offload_binary};

/// How much of a member is kept in memory before a temporary file takes it.
const IN_MEMORY: u64 = 256 << 20;

/// The bytes of a file.
pub(super) enum Image {
    Memory(Vec<u8>),
    Mapped(Mmap),
}

impl Deref for Image {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Memory(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }
}

/// What can go wrong while a member is taken out of an archive.
pub(super) enum MemberError {
    /// It cannot be read.
    Unreadable(io::Error),
    /// It is longer than allowed.
    TooLarge,
}

/// Tells whether a file that begins so is an ELF file, an offload bundle or a kpack archive.
pub(super) fn is_interesting(head: &[u8]) -> bool {
    head.starts_with(goblin::elf::header::ELFMAG)
        || head.starts_with(ccob::MAGIC)
        || head.starts_with(bundle::MAGIC)
        || head.starts_with(ar::MAGIC)
        || head.starts_with(offload_binary::MAGIC)
        || head.starts_with(kpack::MAGIC)
}

/// Returns up to as many first bytes as tell what a file is.
pub(super) fn head(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    reader.take(bundle::MAGIC.len() as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Maps the file at `path`, if it is interesting.
pub(super) fn on_disk(path: &Path) -> io::Result<Option<Image>> {
    let mut file = fs::File::open(path)?;
    match is_interesting(&head(&mut file)?) {
        true => map(file.file()).map(|map| Some(Image::Mapped(map))),
        false => Ok(None),
    }
}

/// Reads a member of an archive, if it is interesting: no more than `limit` bytes.
pub(super) fn of_member(reader: &mut dyn Read, limit: u64) -> Result<Option<Image>, MemberError> {
    let mut reader = reader.take(limit.saturating_add(1));
    let mut bytes = head(&mut reader).map_err(MemberError::Unreadable)?;
    if !is_interesting(&bytes) {
        return Ok(None);
    }
    reader.by_ref().take(IN_MEMORY).read_to_end(&mut bytes).map_err(MemberError::Unreadable)?;
    let spooled = match (bytes.len() as u64) < IN_MEMORY {
        true => None,
        false => Some(spool(&bytes, &mut reader).map_err(MemberError::Unreadable)?),
    };
    if reader.limit() == 0 {
        return Err(MemberError::TooLarge);
    }
    Ok(Some(spooled.unwrap_or(Image::Memory(bytes))))
}

fn spool(begin: &[u8], rest: &mut impl Read) -> io::Result<Image> {
    // `/tmp` often lies in memory, which is what a temporary file is to save.
    let large = Path::new("/var/tmp");
    let folder = if large.is_dir() { large.to_owned() } else { std::env::temp_dir() };
    let mut file = tempfile::tempfile_in(folder)?;
    file.write_all(begin)?;
    io::copy(rest, &mut file)?;
    file.seek(SeekFrom::Start(0))?;
    map(&file).map(Image::Mapped)
}

#[expect(unsafe_code, reason = "mapping a file; see the comment inside")]
fn map(file: &std::fs::File) -> io::Result<Mmap> {
    // SAFETY: the map is read-only and private to us, and all that is read from
    // it is checked where it is used. Who changes the file meanwhile can make the
    // result wrong, and who cuts it short can end the process, as with every
    // program that maps its input.
    unsafe { Mmap::map(file) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_interesting_files_are_read() {
        for (bytes, wanted) in [
            (&b"\x7fELF and more"[..], true),
            (b"CCOB", true),
            (b"KPAK", true),
            (b"__CLANG_OFFLOAD_BUNDLE__", true),
            (b"__CLANG_OFFLOAD_BUNDLE", false),
            (b"#!/bin/sh", false),
            (b"", false),
        ] {
            let image = of_member(&mut &*bytes, 1000).ok().unwrap();
            assert_eq!(image.as_deref(), wanted.then_some(bytes));
        }
        let mut endless = io::repeat(b'x');
        assert!(of_member(&mut endless, u64::MAX).ok().unwrap().is_none());
    }

    #[test]
    fn a_member_over_the_limit_is_refused() {
        let bytes = [b"\x7fELF".as_slice(), &[0; 100]].concat();
        assert!(of_member(&mut &*bytes, 104).is_ok());
        assert!(matches!(of_member(&mut &*bytes, 103), Err(MemberError::TooLarge)));
    }

    #[test]
    fn a_large_member_goes_through_a_temporary_file() {
        let size = IN_MEMORY + 12_345;
        let mut reader = (&b"\x7fELF"[..]).chain(io::repeat(7)).take(size);
        let image = of_member(&mut reader, u64::MAX).ok().unwrap().unwrap();
        assert!(matches!(image, Image::Mapped(_)));
        assert_eq!((image.len() as u64, &image[..5], image[image.len() - 1]), (size, &b"\x7fELF\x07"[..], 7));
    }
}
