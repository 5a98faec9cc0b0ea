//! Reads numbers and addresses of an ELF file of either class and byte order. It uses the program
//! headers to resolve addresses, and does not know any table.

use std::ops::Range;

use goblin::elf::program_header::{PT_LOAD, ProgramHeader};

/// An ELF file with the header fields needed to read it.
pub(super) struct Raw<'a> {
    pub(super) file: &'a [u8],
    /// Whether it is ELF64.
    pub(super) wide: bool,
    pub(super) little: bool,
    pub(super) machine: u16,
    pub(super) programs: Vec<ProgramHeader>,
}

impl<'a> Raw<'a> {
    /// Yields the loaded segments, in the table's order.
    pub(super) fn loads(&self) -> impl Iterator<Item = &ProgramHeader> {
        self.programs.iter().filter(|p| p.p_type == PT_LOAD)
    }

    /// Returns the range of `size` bytes at `offset`, if it is inside the file.
    pub(super) fn range(&self, offset: u64, size: u64) -> Option<Range<usize>> {
        let end = usize::try_from(offset.checked_add(size)?).ok()?;
        (end <= self.file.len()).then_some(usize::try_from(offset).ok()?..end)
    }

    /// Returns the part of the file that is loaded at `address` and after it, up to the first
    /// segment that does not continue the previous one both in the file and in memory.
    pub(super) fn loaded(&self, address: u64) -> Option<Range<usize>> {
        let (start, mut last) = self.loads().find_map(|p| {
            let inside = address.checked_sub(p.p_vaddr).filter(|inside| *inside < p.p_filesz)?;
            Some((usize::try_from(p.p_offset.checked_add(inside)?).ok()?, p))
        })?;
        // patchelf moves parts to the front of a program and splits them into separate segments.
        while let Some(next) = self.loads().find(|next| next.p_filesz > 0 && continues(last, next))
        {
            last = next;
        }
        let end = last.p_offset.saturating_add(last.p_filesz).min(self.file.len() as u64) as usize;
        (start < end).then_some(start..end)
    }

    pub(super) fn u16(&self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self.little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    }

    pub(super) fn u32(&self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self.little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    pub(super) fn u64(&self, bytes: &[u8], at: usize) -> Option<u64> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self.little { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) })
    }

    /// Reads a number of the class's word size.
    pub(super) fn word(&self, bytes: &[u8], at: usize) -> Option<u64> {
        if self.wide { self.u64(bytes, at) } else { self.u32(bytes, at).map(u64::from) }
    }

    /// Returns the class's word size in bytes.
    pub(super) fn word_size(&self) -> usize {
        if self.wide { 8 } else { 4 }
    }
}

/// Returns whether a segment starts at the end of another one, both in the file and in memory.
pub(super) fn continues(last: &ProgramHeader, next: &ProgramHeader) -> bool {
    last.p_filesz == last.p_memsz
        && last.p_offset.checked_add(last.p_filesz) == Some(next.p_offset)
        && last.p_vaddr.checked_add(last.p_memsz) == Some(next.p_vaddr)
}

/// Returns the string at `at` without its NUL, if it is shorter than `limit` bytes.
pub(super) fn string(table: &[u8], at: usize, limit: usize) -> Option<&[u8]> {
    let rest = table.get(at..)?;
    let rest = &rest[..rest.len().min(limit)];
    memchr::memchr(0, rest).map(|end| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_adjacent_segments() {
        let load = |p_offset, p_vaddr, p_filesz| ProgramHeader {
            p_type: PT_LOAD,
            p_offset,
            p_vaddr,
            p_filesz,
            p_memsz: p_filesz,
            ..ProgramHeader::default()
        };
        let loaded = |programs: Vec<ProgramHeader>| {
            let raw = Raw { file: &[0; 40], wide: true, little: true, machine: 62, programs };
            raw.loaded(0x1004)
        };
        let first = || load(0, 0x1000, 10);
        assert_eq!(loaded(vec![first()]), Some(4..10));
        assert_eq!(loaded(vec![first(), load(10, 0x100a, 10), load(20, 0x1014, 5)]), Some(4..25));
        assert_eq!(loaded(vec![first(), load(10, 0x100a, 90)]), Some(4..40));
        for apart in [load(11, 0x100a, 10), load(10, 0x100b, 10), load(10, 0x100a, 0)] {
            assert_eq!(loaded(vec![first(), apart]), Some(4..10));
        }
        let zeros = ProgramHeader { p_memsz: 12, ..first() };
        assert_eq!(loaded(vec![zeros, load(10, 0x100c, 10)]), Some(4..10));
    }
}
