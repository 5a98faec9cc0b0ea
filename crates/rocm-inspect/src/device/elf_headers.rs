//! Reads the program headers and sections of 64-bit little-endian ELF files, which may be cut short.

use goblin::elf::section_header::SHT_NOBITS;

/// The sizes of `Elf64_Phdr` and `Elf64_Shdr`.
pub(crate) const PROGRAM: u64 = 56;
pub(crate) const SECTION: u64 = 64;

pub(crate) struct Segment {
    /// `p_type`.
    pub(crate) kind: u32,
    /// `p_flags`.
    pub(crate) flags: u32,
    /// Its offset in the file.
    pub(crate) offset: u64,
    /// Its size in the file, in bytes.
    pub(crate) size: u64,
}

pub(super) fn number<const N: usize>(bytes: &[u8], at: u64) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let bytes: &[u8; N] = bytes.get(at..)?.first_chunk()?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Yields the program headers of the 64-bit little-endian ELF file that starts with `bytes`, up to
/// the end of `bytes`.
pub(crate) fn segments(bytes: &[u8]) -> impl Iterator<Item = Segment> {
    // With a smaller entry size, entries would be the same bytes over and over.
    let size = || number::<2>(bytes, 54).filter(|size| *size >= PROGRAM);
    let header = move |at: u64| Some((number::<8>(bytes, 32)?, size()?, at));
    let count = number::<2>(bytes, 56).unwrap_or(0);
    (0..count).map_while(move |index| {
        let (start, size, index) = header(index)?;
        let at = start.checked_add(size * index)?;
        let (kind, offset) =
            (number::<4>(bytes, at)? as u32, number::<8>(bytes, at.checked_add(8)?)?);
        let flags = number::<4>(bytes, at.checked_add(4)?)? as u32;
        Some(Segment { kind, flags, offset, size: number::<8>(bytes, at.checked_add(32)?)? })
    })
}

pub(crate) struct Section {
    name: u64,
    /// `sh_type`.
    pub(crate) kind: u32,
    /// Its offset in the file.
    pub(crate) offset: u64,
    /// Its size in bytes.
    pub(crate) size: u64,
    /// `sh_link`.
    pub(crate) link: u32,
}

/// The sections of a 64-bit little-endian ELF file.
pub(crate) struct Sections<'a> {
    bytes: &'a [u8],
}

impl<'a> Sections<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    fn get(&self, index: u64) -> Option<Section> {
        let (bytes, start) = (self.bytes, number::<8>(self.bytes, 40)?);
        let size = number::<2>(bytes, 58).filter(|size| *size >= SECTION)?;
        let at = start.checked_add(size * index)?;
        let at = |inside: u64| at.checked_add(inside);
        Some(Section {
            name: number::<4>(bytes, at(0)?)?,
            kind: number::<4>(bytes, at(4)?)? as u32,
            offset: number::<8>(bytes, at(24)?)?,
            size: number::<8>(bytes, at(32)?)?,
            link: number::<4>(bytes, at(40)?)? as u32,
        })
    }

    /// Yields all sections, up to the end of the bytes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Section> {
        let count = number::<2>(self.bytes, 60).unwrap_or(0);
        (0..count).map_while(|index| self.get(index))
    }

    pub(crate) fn name(&self, section: &Section) -> Option<&'a [u8]> {
        let names = self.content(number::<2>(self.bytes, 62)? as usize)?;
        let rest = names.get(usize::try_from(section.name).ok()?..)?;
        let rest = &rest[..rest.len().min(512)];
        Some(&rest[..memchr::memchr(0, rest)?])
    }

    /// Returns the content of the section with this index.
    pub(crate) fn content(&self, index: usize) -> Option<&'a [u8]> {
        self.bytes_of(&self.get(index as u64)?)
    }

    /// Returns the content of a section; `None` if it has no bytes in the file.
    pub(crate) fn bytes_of(&self, section: &Section) -> Option<&'a [u8]> {
        let start = usize::try_from(section.offset).ok()?;
        let end = start.checked_add(usize::try_from(section.size).ok()?)?;
        if section.kind == SHT_NOBITS { None } else { self.bytes.get(start..end) }
    }
}
