//! Provides one file's bytes for inspection: mapped if the file is on disk, in memory or a
//! temporary file if it comes from an archive. Skips files that are not inspected. It does not
//! interpret the bytes.

use std::io::{self, Read};
use std::ops::Deref;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fs_err as fs;
use memmap2::{Mmap, MmapOptions};

use super::mapped::Mapped;
use super::sieve::{LOOKAHEAD, PAGE, Sieve};
use super::{ar, bundle, ccob, data_files, kpack, offload_binary};
use rocmrpm_base::process::check_stop;

/// Members of this size or more go through a temporary file.
pub(super) const LARGE: u64 = 16 << 20;
/// How much of a large member is in memory at a time. More would not stay in a core's cache between
/// the decompressor and us.
const BUFFER: usize = 2 * LOOKAHEAD;

/// The bytes of a file.
#[derive(Debug)]
pub(super) enum Image {
    Memory(Vec<u8>),
    /// Our own temporary file.
    Spooled(Mmap),
    /// A file that other programs may change.
    Mapped(Mapped),
}

impl Image {
    /// Returns an error if the file changed while it was read.
    pub(super) fn unchanged(&self) -> io::Result<()> {
        match self {
            Self::Memory(_) | Self::Spooled(_) => Ok(()),
            Self::Mapped(map) => map.unchanged(),
        }
    }
}

impl Deref for Image {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Memory(bytes) => bytes,
            Self::Spooled(map) => map,
            Self::Mapped(map) => map,
        }
    }
}

/// Why a member of an archive could not be read.
#[derive(Debug)]
pub(super) enum MemberError {
    /// It is unreadable.
    Unreadable(io::Error),
    /// It is larger than allowed.
    TooLarge,
    /// Its length differs from the one that the archive states.
    Length(String),
    /// The disk is too full for it.
    NoRoom(PathBuf, io::Error),
    /// The sieve cannot skip parts of it; read it again as a whole.
    Again,
}

/// How to read a member of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taking {
    /// Completely.
    All,
    /// Without the parts that a quick inspection does not read.
    Sieved,
}

/// Returns whether a file that starts with these bytes is inspected: ELF files, offload bundles and
/// binaries, static archives and kpack archives.
pub(super) fn is_interesting(head: &[u8]) -> bool {
    let magics: [&[u8]; 6] = [
        goblin::elf::header::ELFMAG,
        ccob::MAGIC,
        bundle::MAGIC,
        // Thin archives (`!<thin>`) do not contain their members.
        ar::MAGIC,
        kpack::MAGIC,
        offload_binary::MAGIC,
    ];
    magics.iter().any(|magic| head.starts_with(magic))
}

/// Returns whether a file's name is enough to inspect it, regardless of its content.
fn is_known_by_name(path: &str) -> bool {
    data_files::look(path).is_some()
}

/// Returns the first bytes of a file, enough to identify its format.
pub(super) fn head(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    reader.take(bundle::MAGIC.len() as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Opens a regular file. Any other kind is an immediate error: a FIFO blocks, and a device may
/// never end.
pub(super) fn open(path: &Path) -> io::Result<fs::File> {
    use fs_err::os::unix::fs::OpenOptionsExt as _;
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other(format!("{}: not a regular file", path.display()))),
    }
}

/// Returns the bytes and the size of the file at `path`, if it is inspected under the name `name`:
/// mapped, or no bytes if its name is enough.
pub(super) fn on_disk(path: &Path, name: &str) -> io::Result<Option<(Image, u64)>> {
    let mut file = open(path)?;
    if is_interesting(&head(&mut file)?) {
        let map = Mapped::new(file.file(), &MmapOptions::new()).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot map {}: {error}", path.display()))
        })?;
        let length = map.len() as u64;
        return Ok(Some((Image::Mapped(map), length)));
    }
    match is_known_by_name(name) {
        true => Ok(Some((Image::Memory(Vec::new()), file.metadata()?.len()))),
        false => Ok(None),
    }
}

/// Reads the member `name` of an archive, which states that it has `declared` bytes, if it is
/// inspected: at most `allowed` bytes. Of other members, reads only the first bytes.
pub(super) fn of_member(
    mut reader: &mut dyn Read,
    name: &str,
    declared: u64,
    allowed: u64,
    taking: Taking,
) -> Result<Option<Image>, MemberError> {
    let head = head(&mut reader).map_err(MemberError::Unreadable)?;
    if !is_interesting(&head) {
        return Ok(is_known_by_name(name).then_some(Image::Memory(Vec::new())));
    }
    if declared > allowed {
        return Err(MemberError::TooLarge);
    }
    let mut whole = (&head[..]).chain(reader);
    match declared < LARGE {
        true => in_memory(&mut whole, declared).map(|bytes| Some(Image::Memory(bytes))),
        false => {
            let folder = folder();
            let file = tempfile::tempfile_in(&folder)
                .map_err(|e| MemberError::NoRoom(folder.clone(), e))?;
            spool(&mut whole, declared, taking, file, &folder).map(Some)
        }
    }
}

fn in_memory(reader: &mut dyn Read, declared: u64) -> Result<Vec<u8>, MemberError> {
    let mut bytes = Vec::new();
    // One more byte shows whether the member is longer; the archive's checksum is verified at the
    // end.
    let mut reader = reader.take(declared + 1);
    while reader.by_ref().take(1 << 20).read_to_end(&mut bytes).map_err(MemberError::Unreadable)?
        > 0
    {
        stop()?;
    }
    match bytes.len() as u64 == declared {
        true => Ok(bytes),
        false => Err(length(declared, bytes.len() as u64)),
    }
}

fn length(declared: u64, came: u64) -> MemberError {
    MemberError::Length(match came > declared {
        true => format!("the archive states {declared} bytes, but there are more"),
        false => format!("the archive states {declared} bytes, but has {came}"),
    })
}

fn stop() -> Result<(), MemberError> {
    check_stop().map_err(|stopped| MemberError::Unreadable(io::Error::other(stopped)))
}

/// Returns the folder for large temporary files. `/tmp` is often in memory, which these files are
/// meant to save.
pub(super) fn folder() -> PathBuf {
    let large = Path::new("/var/tmp");
    match std::env::var_os("TMPDIR") {
        None if large.is_dir() => large.to_owned(),
        _ => std::env::temp_dir(),
    }
}

/// Writes a member into an empty file: only the pages that the sieve keeps. The others stay holes,
/// which take no space.
fn spool(
    reader: &mut dyn Read,
    declared: u64,
    taking: Taking,
    file: std::fs::File,
    folder: &Path,
) -> Result<Image, MemberError> {
    let no_room = |error| MemberError::NoRoom(folder.to_owned(), error);
    file.set_len(declared).map_err(no_room)?;
    let mut buffer = vec![0; BUFFER];
    let mut sieve = Sieve::open(declared);
    // The buffer starts with `filled` bytes of the file from offset `at`.
    let (mut at, mut filled, mut first) = (0u64, 0, taking == Taking::Sieved);
    loop {
        stop()?;
        let end = !fill(reader, &mut buffer, &mut filled).map_err(MemberError::Unreadable)?;
        if std::mem::take(&mut first) {
            sieve = Sieve::new(&buffer[..filled], declared);
        }
        if at + filled as u64 > declared {
            return Err(length(declared, at + filled as u64));
        }
        let mut done = 0;
        let mut kept = 0..0;
        while done < filled {
            let window = &buffer[done..filled];
            let short =
                window.len() < PAGE || window.len() < LOOKAHEAD && sieve.looks_ahead(window);
            if short && !end {
                break;
            }
            let page = done..done + PAGE.min(window.len());
            match sieve.keeps(at + done as u64, window) {
                true if kept.end == page.start => kept.end = page.end,
                true => {
                    file.write_all_at(&buffer[kept.clone()], at + kept.start as u64)
                        .map_err(no_room)?;
                    kept = page.clone();
                }
                false => {}
            }
            done = page.end;
        }
        file.write_all_at(&buffer[kept.clone()], at + kept.start as u64).map_err(no_room)?;
        buffer.copy_within(done..filled, 0);
        at += done as u64;
        filled -= done;
        if end {
            break;
        }
    }
    if at < declared {
        return Err(length(declared, at));
    }
    let map = map(&file).map_err(no_room)?;
    match sieve.was_right(&map) {
        true => Ok(Image::Spooled(map)),
        false => Err(MemberError::Again),
    }
}

/// Reads a file as if it were a large member of an archive.
#[cfg(test)]
pub(super) fn sieved(bytes: &[u8]) -> Result<Image, MemberError> {
    let file = tempfile::tempfile().map_err(|error| MemberError::NoRoom(PathBuf::new(), error))?;
    spool(&mut &*bytes, bytes.len() as u64, Taking::Sieved, file, Path::new(""))
}

/// Fills the buffer; returns false at the end.
fn fill(reader: &mut dyn Read, buffer: &mut [u8], filled: &mut usize) -> io::Result<bool> {
    while *filled < buffer.len() {
        match reader.read(&mut buffer[*filled..]) {
            Ok(0) => return Ok(false),
            Ok(count) => *filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Maps `length` bytes at `offset` of a file.
pub(super) fn part(file: &std::fs::File, offset: u64, length: u64) -> io::Result<Image> {
    let length = usize::try_from(length).map_err(io::Error::other)?;
    let mut options = MmapOptions::new();
    Mapped::new(file, options.offset(offset).len(length)).map(Image::Mapped)
}

/// Maps our own temporary file.
#[expect(unsafe_code, reason = "mapping a file; see the comment inside")]
fn map(file: &std::fs::File) -> io::Result<Mmap> {
    // SAFETY: the map is read-only, and the file does not have a name, so no one else can change
    // it.
    unsafe { MmapOptions::new().map(file) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(bytes: &[u8], declared: u64) -> Result<Option<Image>, MemberError> {
        of_member(&mut &*bytes, "a", declared, 1 << 41, Taking::Sieved)
    }

    #[test]
    fn reads_only_supported_files() {
        for (bytes, wanted) in [
            (&b"\x7fELF and more"[..], true),
            (b"CCOB", true),
            (b"__CLANG_OFFLOAD_BUNDLE__", true),
            (b"__CLANG_OFFLOAD_BUNDLE", false),
            (b"!<arch>\n", true),
            (b"!<thin>\n", false),
            (b"KPAK\x01", true),
            (b"\x10\xff\x10\xad", true),
            (b"#!/bin/sh", false),
            (b"", false),
        ] {
            let image = taken(bytes, bytes.len() as u64).unwrap();
            assert_eq!(image.as_deref(), wanted.then_some(bytes));
        }
        assert!(of_member(&mut io::repeat(b'x'), "a", u64::MAX, 0, Taking::All).unwrap().is_none());
    }

    #[test]
    fn rejects_members_of_the_wrong_length() {
        for size in [9104, LARGE + 9104] {
            let bytes = [b"\x7fELF".as_slice(), &vec![1; size as usize - 4]].concat();
            assert!(taken(&bytes, size).is_ok());
            for stated in [size - 1, size - 5000, size + 1, size + 5000, 1 << 40] {
                let error = taken(&bytes, stated).unwrap_err();
                assert!(matches!(error, MemberError::Length(_)), "{size} {stated}: {error:?}");
            }
        }
    }

    #[test]
    fn rejects_members_over_the_limit_before_reading() {
        let error = of_member(&mut &b"\x7fELF"[..], "a", 1000, 999, Taking::All).unwrap_err();
        assert!(matches!(error, MemberError::TooLarge));
    }

    #[test]
    fn reads_large_members_through_a_temporary_file() {
        for extra in [0, 1, PAGE as u64, 12_345, BUFFER as u64 - 1] {
            let size = LARGE + extra;
            let bytes: Vec<u8> =
                b"\x7fELF".iter().copied().chain((4..size).map(|n| (n / 7) as u8)).collect();
            let image = taken(&bytes, size).unwrap().unwrap();
            assert!(matches!(image, Image::Spooled(_)));
            assert!(*image == *bytes);
        }
    }

    #[test]
    fn reports_the_folder_of_a_full_disk() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut bytes = (&b"\x7fELF"[..]).chain(io::repeat(1)).take(LARGE);
        let error = spool(&mut bytes, LARGE, Taking::All, full, Path::new("/full")).unwrap_err();
        assert!(matches!(error, MemberError::NoRoom(folder, _) if folder == Path::new("/full")));
    }
}
