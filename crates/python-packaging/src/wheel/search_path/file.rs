//! Reads the parts of a linked ELF file that hold its search path.
//!
//! Source: gABI, chapter 5, "Program Header" and "Dynamic Section".

use std::io;

use super::super::payload::{Spool, Stored};

const HEADER: usize = 64;
pub(super) const PROGRAM: usize = 56;
const SECTION: usize = 64;
pub(super) const SYMBOL: usize = 24;
pub(super) const ENTRY: usize = 16;
pub(super) const PAGE: u64 = 4096;
pub(super) const PT_LOAD: u64 = 1;
pub(super) const PT_DYNAMIC: u64 = 2;
pub(super) const SHT_STRTAB: u64 = 3;
pub(super) const SHT_DYNAMIC: u64 = 6;
const SHT_NOBITS: u64 = 8;
pub(super) const DT_STRTAB: u64 = 5;
pub(super) const DT_SYMTAB: u64 = 6;
pub(super) const DT_STRSZ: u64 = 10;
pub(super) const DT_RPATH: u64 = 15;
pub(super) const DT_RUNPATH: u64 = 29;
/// Larger tables are not those of a library.
pub(super) const MAX_TABLE: u64 = 64 << 20;

/// Bytes to write at positions of a file.
pub type Overwrites = Vec<(u64, Vec<u8>)>;

/// What changes in a file.
#[derive(Default)]
pub struct Edits {
    /// Bytes to write at positions of the file.
    pub overwrite: Overwrites,
    /// Bytes to append, and their position in the file. Zeros precede them.
    pub append: Option<(u64, Vec<u8>)>,
}

pub(super) struct Segment {
    pub header: u64,
    pub kind: u64,
    pub offset: u64,
    pub address: u64,
    pub in_file: u64,
    pub in_memory: u64,
}

impl Segment {
    /// Returns the position in the file of an address in this segment.
    pub(super) fn position(&self, address: u64) -> io::Result<u64> {
        self.offset.checked_add(address - self.address).ok_or_else(beyond)
    }
}

pub(super) struct File<'a> {
    pub spool: &'a Spool,
    pub stored: Stored,
    pub segments: Vec<Segment>,
    /// The program headers: position and number.
    pub programs: (u64, u64),
    /// The ranges of sections in the file.
    pub sections: Vec<(u64, u64)>,
    /// The type and address of each section, and the position of its address in its header.
    pub tables: Vec<(u64, u64, u64)>,
    /// Tag, value and position of each entry of the dynamic section.
    pub dynamic: Vec<(u64, u64, u64)>,
    /// The edit after which the entries have these positions.
    pub compacted: Option<(u64, Vec<u8>)>,
}

impl<'a> File<'a> {
    pub(super) fn read(spool: &'a Spool, stored: Stored) -> io::Result<Self> {
        let mut file = Self {
            spool,
            stored,
            segments: Vec::new(),
            programs: (0, 0),
            sections: Vec::new(),
            tables: Vec::new(),
            dynamic: Vec::new(),
            compacted: None,
        };
        let header = file.bytes(0, HEADER as u64)?;
        let (programs, count) = (number(&header, 32, 8), number(&header, 56, 2));
        file.programs = (programs, count);
        for index in 0..count {
            let at = programs.checked_add(index * PROGRAM as u64).ok_or_else(beyond)?;
            let program = file.bytes(at, PROGRAM as u64)?;
            let field = |offset| number(&program, offset, 8);
            file.segments.push(Segment {
                header: at,
                kind: number(&program, 0, 4),
                offset: field(8),
                address: field(16),
                in_file: field(32),
                in_memory: field(40),
            });
        }
        let sections = number(&header, 40, 8);
        for index in 0..number(&header, 60, 2) {
            let at = sections.checked_add(index * SECTION as u64).ok_or_else(beyond)?;
            let section = file.bytes(at, SECTION as u64)?;
            if number(&section, 4, 4) != SHT_NOBITS {
                file.sections.push((number(&section, 24, 8), number(&section, 32, 8)));
            }
            file.tables.push((number(&section, 4, 4), number(&section, 16, 8), at + 16));
        }
        file.sections.push((sections, number(&header, 60, 2) * SECTION as u64));
        let dynamic = file.segments.iter().find(|segment| segment.kind == PT_DYNAMIC);
        if let Some(&Segment { offset, in_file, .. }) = dynamic {
            let table = file.bytes(offset, in_file)?;
            file.read_dynamic(offset, &table);
        }
        Ok(file)
    }

    /// Reads the dynamic section. Beside DT_RUNPATH, it skips DT_RPATH, which has no effect then:
    /// the other entries move up.
    fn read_dynamic(&mut self, offset: u64, table: &[u8]) {
        let entries = || table.chunks_exact(ENTRY).map(|entry| (number(entry, 0, 8), entry));
        let used = || entries().take_while(|(tag, _)| *tag != 0);
        let skips =
            used().any(|(tag, _)| tag == DT_RUNPATH) && used().any(|(tag, _)| tag == DT_RPATH);
        let end = used().count();
        let kept = entries()
            .enumerate()
            .filter(|(at, (tag, _))| !(skips && *at < end && *tag == DT_RPATH));
        let kept: Vec<&[u8]> = kept.map(|(_, (_, entry))| entry).collect();
        let position = |index: usize| offset + (index * ENTRY) as u64;
        let entry = |(index, entry): (usize, &&[u8])| {
            (number(entry, 0, 8), number(entry, 8, 8), position(index))
        };
        self.dynamic = kept.iter().enumerate().map(entry).collect();
        if skips {
            let mut bytes = kept.concat();
            bytes.resize(table.len() / ENTRY * ENTRY, 0);
            self.compacted = Some((offset, bytes));
        }
    }

    pub(super) fn bytes(&self, at: u64, length: u64) -> io::Result<Vec<u8>> {
        if length > MAX_TABLE {
            let reason = "a table in it has more than 64 MiB";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        // Before the memory is reserved.
        if self.stored.size.checked_sub(at).is_none_or(|left| left < length) {
            return Err(beyond());
        }
        let mut bytes = vec![0; length as usize];
        self.spool.read_exact_at(&self.stored, at, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the value and position of the first entry with this tag before the end of the table.
    pub(super) fn entry(&self, tag: u64) -> Option<(u64, u64)> {
        let mut entries = self.dynamic.iter().take_while(|(tag, ..)| *tag != 0);
        entries.find(|entry| entry.0 == tag).map(|(_, value, at)| (*value, *at))
    }

    /// Returns the position of the entry for the search path, which may be an unused one.
    pub(super) fn entry_for_path(&self) -> Option<u64> {
        let old = self.entry(DT_RUNPATH).or_else(|| self.entry(DT_RPATH));
        old.map(|(_, at)| at).or_else(|| {
            let end = self.dynamic.iter().position(|(tag, ..)| *tag == 0)?;
            // Another empty entry must remain to end the table.
            self.dynamic.get(end + 1).filter(|(tag, ..)| *tag == 0)?;
            Some(self.dynamic[end].2)
        })
    }

    pub(super) fn loads(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.kind == PT_LOAD)
    }

    /// Yields the positions of the addresses in the headers of sections of this type and address.
    pub(super) fn sections_at(&self, kind: u64, address: u64) -> impl Iterator<Item = u64> {
        let found = self.tables.iter().filter(move |table| (table.0, table.1) == (kind, address));
        found.map(|table| table.2)
    }

    /// Returns the loaded segment with this address.
    pub(super) fn holding(&self, address: u64) -> Option<&Segment> {
        self.loads().find(|segment| {
            address.checked_sub(segment.address).is_some_and(|at| at < segment.in_file)
        })
    }
}

/// Reads a little-endian number of up to eight bytes.
pub(super) fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let mut value = [0; 8];
    value[..length].copy_from_slice(&bytes[at..at + length]);
    u64::from_le_bytes(value)
}

pub(super) fn beyond() -> io::Error {
    let reason = "a table is beyond the end of the file";
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
