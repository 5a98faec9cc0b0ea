//! Sets the search path (`DT_RUNPATH`) of a linked ELF file without moving anything in it.
//!
//! A linker that starts every segment on a page of its own leaves unused bytes after the segment
//! with the string table. The loader maps them already, so the text goes there, and only the size of
//! that segment, the size of the string table, and one entry of the dynamic section change. Where
//! there is no such room, a shorter text may replace the old one. Tools that move sections instead
//! have damaged large ROCm libraries (ROCm/TheRock issues 4561 and 6712).
//!
//! Source: gABI, chapter 5, "Program Header" and "Dynamic Section".

use std::io;

use python_packaging::wheel::{Spool, Stored};
use rocm_inspect::ElfFacts;

const HEADER: usize = 64;
const PROGRAM: usize = 56;
const SECTION: usize = 64;
const SYMBOL: usize = 24;
const ENTRY: usize = 16;
const PAGE: u64 = 4096;
const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const SHT_STRTAB: u64 = 3;
const SHT_NOBITS: u64 = 8;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_STRSZ: u64 = 10;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;
/// Larger tables are not those of a library.
const MAX_TABLE: u64 = 64 << 20;

/// Bytes to write at positions of the file.
pub(super) type Edits = Vec<(u64, Vec<u8>)>;

struct Segment {
    header: u64,
    kind: u64,
    offset: u64,
    address: u64,
    in_file: u64,
    in_memory: u64,
}

struct File<'a> {
    spool: &'a Spool,
    stored: Stored,
    segments: Vec<Segment>,
    /// The ranges of sections in the file.
    sections: Vec<(u64, u64)>,
    /// The address of each string table, and the position of its section's size.
    string_tables: Vec<(u64, u64)>,
    /// Tag, value and position of each entry of the dynamic section.
    dynamic: Vec<(u64, u64, u64)>,
    /// The edit after which the entries have these positions.
    compacted: Option<(u64, Vec<u8>)>,
}

/// Returns the edits that set the search path of a file to `text`; `None` if it has no room.
/// `facts` are those of the file. A table that is not in the file is `InvalidData`.
pub(super) fn edits(
    spool: &Spool,
    stored: Stored,
    facts: &ElfFacts,
    text: &str,
) -> io::Result<Option<Edits>> {
    if facts.bits != 64 || facts.big_endian {
        return Ok(None);
    }
    let mut file = File::read(spool, stored)?;
    let edits = match file.in_padding(text)? {
        Some(edits) => Some(edits),
        None => file.in_place(facts, text)?,
    };
    Ok(edits.map(|edits| file.compacted.take().into_iter().chain(edits).collect()))
}

impl<'a> File<'a> {
    fn read(spool: &'a Spool, stored: Stored) -> io::Result<Self> {
        let mut file = Self {
            spool,
            stored,
            segments: Vec::new(),
            sections: Vec::new(),
            string_tables: Vec::new(),
            dynamic: Vec::new(),
            compacted: None,
        };
        let header = file.bytes(0, HEADER as u64)?;
        let programs = number(&header, 32, 8);
        for index in 0..number(&header, 56, 2) {
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
            if number(&section, 4, 4) == SHT_STRTAB {
                file.string_tables.push((number(&section, 16, 8), at + 32));
            }
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

    fn bytes(&self, at: u64, length: u64) -> io::Result<Vec<u8>> {
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
    fn entry(&self, tag: u64) -> Option<(u64, u64)> {
        let mut entries = self.dynamic.iter().take_while(|(tag, ..)| *tag != 0);
        entries.find(|entry| entry.0 == tag).map(|(_, value, at)| (*value, *at))
    }

    /// Returns the position of the entry for the search path, which may be an unused one.
    fn entry_for_path(&self) -> Option<u64> {
        let old = self.entry(DT_RUNPATH).or_else(|| self.entry(DT_RPATH));
        old.map(|(_, at)| at).or_else(|| {
            let end = self.dynamic.iter().position(|(tag, ..)| *tag == 0)?;
            // Another empty entry must remain to end the table.
            self.dynamic.get(end + 1).filter(|(tag, ..)| *tag == 0)?;
            Some(self.dynamic[end].2)
        })
    }

    fn loads(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.kind == PT_LOAD)
    }

    /// Places the text after the segment with the string table.
    fn in_padding(&self, text: &str) -> io::Result<Option<Edits>> {
        let (Some(strings), Some(size)) = (self.entry(DT_STRTAB), self.entry(DT_STRSZ)) else {
            return Ok(None);
        };
        let (Some(entry), Some(segment)) = (self.entry_for_path(), self.holding(strings.0)) else {
            return Ok(None);
        };
        let length = text.len() as u64 + 1;
        let ends = segment
            .offset
            .checked_add(segment.in_file)
            .zip(segment.address.checked_add(segment.in_file));
        let Some((offset, address)) = ends else { return Ok(None) };
        let (Some(page_end), Some(end), Some(new_end)) = (
            address.checked_next_multiple_of(PAGE),
            offset.checked_add(length),
            address.checked_add(length),
        ) else {
            return Ok(None);
        };
        let crowded = |other: &Segment| {
            let first = other.address - other.address % PAGE;
            let in_file = other.offset < end && offset < other.offset.saturating_add(other.in_file);
            let in_memory =
                first < page_end && segment.address < other.address.saturating_add(other.in_memory);
            other.header != segment.header && (in_file || in_memory)
        };
        let used = |&(start, size): &(u64, u64)| start < end && offset < start.saturating_add(size);
        if segment.in_file != segment.in_memory
            || new_end > page_end
            || end > self.stored.size
            || self.loads().any(crowded)
            || self.sections.iter().any(used)
            || self.bytes(offset, length)?.iter().any(|byte| *byte != 0)
        {
            return Ok(None);
        }
        let size_in_file = [segment.in_file + length, segment.in_memory + length];
        let table = (new_end - strings.0).to_le_bytes().to_vec();
        let mut edits = vec![
            (offset, [text.as_bytes(), b"\0"].concat()),
            (segment.header + 32, size_in_file.map(u64::to_le_bytes).concat()),
            (size.1 + 8, table.clone()),
            (entry, [DT_RUNPATH, address - strings.0].map(u64::to_le_bytes).concat()),
        ];
        // Linkers find the strings by the section; the loader does not read it.
        let section = self.string_tables.iter().filter(|(address, _)| *address == strings.0);
        edits.extend(section.map(|(_, size)| (*size, table.clone())));
        Ok(Some(edits))
    }

    /// Returns the loaded segment with this address.
    fn holding(&self, address: u64) -> Option<&Segment> {
        self.loads().find(|segment| {
            address.checked_sub(segment.address).is_some_and(|at| at < segment.in_file)
        })
    }

    /// Overwrites the old text if nothing else uses its bytes.
    fn in_place(&self, facts: &ElfFacts, text: &str) -> io::Result<Option<Edits>> {
        let Some((value, entry)) = self.entry(DT_RUNPATH).or_else(|| self.entry(DT_RPATH)) else {
            return Ok(None);
        };
        let old = [&facts.runpath, &facts.rpath].into_iter().find(|path| !path.is_empty());
        let old = old.map(|path| path.join(":")).unwrap_or_default();
        let tables = self.entry(DT_STRTAB).zip(self.entry(DT_SYMTAB));
        let Some(((strings, _), (symbols, _))) = tables.filter(|_| text.len() <= old.len()) else {
            return Ok(None);
        };
        let Some((place, table)) = self.holding(strings).zip(self.holding(symbols)) else {
            return Ok(None);
        };
        let position = |segment: &Segment, address: u64| {
            segment.offset.checked_add(address - segment.address).ok_or_else(beyond)
        };
        let at = position(place, strings)?.checked_add(value).ok_or_else(beyond)?;
        if self.bytes(at, old.len() as u64 + 1)? != [old.as_bytes(), b"\0"].concat() {
            return Ok(None);
        }
        // Linkers let a name that is the end of another share its bytes. No table states how many
        // symbols there are; reading further than the last one only finds more names.
        let from = position(table, symbols)?;
        let until = if symbols < strings { strings - symbols } else { table.in_file };
        let until = until.min(self.stored.size.saturating_sub(from)).min(MAX_TABLE);
        let symbols = self.bytes(from, until)?;
        let inside = |name: u64| (value..value.saturating_add(old.len() as u64)).contains(&name);
        let names = (facts.needed.iter().chain(&facts.soname)).map(|name| name.as_str());
        let versions = facts
            .versions_needed
            .iter()
            .flat_map(|(file, versions)| std::iter::once(file).chain(versions).map(String::as_str));
        let mut names =
            names.chain(versions).chain(facts.versions_provided.iter().map(String::as_str));
        if symbols.chunks_exact(SYMBOL).any(|symbol| inside(number(symbol, 0, 4)))
            || names.any(|name| old.ends_with(name))
        {
            return Ok(None);
        }
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(old.len(), 0);
        Ok(Some(vec![(at, bytes), (entry, DT_RUNPATH.to_le_bytes().to_vec())]))
    }
}

fn beyond() -> io::Error {
    let reason = "a table is beyond the end of the file";
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Reads a little-endian number of up to eight bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let mut value = [0; 8];
    value[..length].copy_from_slice(&bytes[at..at + length]);
    u64::from_le_bytes(value)
}
