//! Appends a segment to a file whose string table has no room: program headers, dynamic section if
//! it has no unused entry, and string table are copied to the end of the file, where they may grow.
//! The originals remain, unused.
//!
//! The new segment has the same distance between address and position as the first one. Before
//! Linux 5.18, a program gets the address of its program headers from that distance; code that
//! unwinds the stack reads them there.
//!
//! Sources: gABI, chapter 5; Linux, `fs/binfmt_elf.c` (`AT_PHDR`); glibc, `elf/dl-load.c`.

use std::io;

use super::file::{
    DT_RUNPATH, DT_STRSZ, DT_STRTAB, ENTRY, Edits, File, MAX_TABLE, PAGE, PROGRAM, PT_DYNAMIC,
    PT_LOAD, SHT_DYNAMIC, SHT_STRTAB, number,
};

const PT_PHDR: u64 = 6;
const PF_W: u64 = 2;
const PF_R: u64 = 4;
/// The most bytes of zeros before the segment. Only uninitialized data needs more than some pages.
const MAX_GAP: u64 = 64 << 20;
/// More program headers than this have another encoding.
const MAX_PROGRAMS: u64 = 1000;

impl File<'_> {
    /// Returns the edits that add a segment with `text`; `None` if the file has no string table or
    /// so much uninitialized data that it would grow by more than `MAX_GAP`.
    pub(super) fn in_new_segment(&self, text: &str) -> io::Result<Option<Edits>> {
        let (Some(strings), Some(size)) = (self.entry(DT_STRTAB), self.entry(DT_STRSZ)) else {
            return Ok(None);
        };
        let (Some((offset, address)), Some(old)) = (self.free_place(), self.holding(strings.0))
        else {
            return Ok(None);
        };
        let mut table = self.bytes(old.position(strings.0)?, size.0)?;
        table.extend(text.as_bytes());
        table.push(0);
        let headers = (self.programs.1 + 1) * PROGRAM as u64;
        let entry = self.entry_for_path();
        let dynamic = match entry {
            Some(_) => Vec::new(),
            None => self.longer_dynamic(address + headers, size.0, table.len() as u64),
        };
        let before = headers + dynamic.len() as u64;
        let strings_at = [address + before, offset + before, table.len() as u64];
        let dynamic_at = [address + headers, offset + headers, dynamic.len() as u64];
        let length = before + table.len() as u64;
        let moved = entry.is_none().then_some(dynamic_at);
        let programs = self.longer_programs([address, offset, length], moved)?;

        let mut overwrite = vec![
            (32, offset.to_le_bytes().to_vec()),
            (56, ((self.programs.1 + 1) as u16).to_le_bytes().to_vec()),
        ];
        let mut describe = |kind, old, new: [u64; 3]| {
            let new = new.map(u64::to_le_bytes).concat();
            overwrite.extend(self.sections_at(kind, old).map(|at| (at, new.clone())));
        };
        describe(SHT_STRTAB, strings.0, strings_at);
        if let Some(new) = moved {
            let old = self.segments.iter().find(|segment| segment.kind == PT_DYNAMIC);
            describe(SHT_DYNAMIC, old.map_or(0, |old| old.address), new);
        }
        if let Some(entry) = entry {
            overwrite.push((strings.1 + 8, strings_at[0].to_le_bytes().to_vec()));
            overwrite.push((size.1 + 8, strings_at[2].to_le_bytes().to_vec()));
            overwrite.push((entry, [DT_RUNPATH, size.0].map(u64::to_le_bytes).concat()));
        }
        Ok(Some(Edits { overwrite, append: Some((offset, [programs, dynamic, table].concat())) }))
    }

    /// Returns position and address of a page after everything in the file and in memory.
    fn free_place(&self) -> Option<(u64, u64)> {
        let first = self.loads().next()?;
        let distance = first.address.checked_sub(first.offset)?;
        let ends = self.loads().map(|load| load.address.checked_add(load.in_memory));
        let end = ends.collect::<Option<Vec<u64>>>()?.into_iter().max()?;
        let offset = self.stored.size.max(end.saturating_sub(distance));
        let offset = offset.checked_next_multiple_of(PAGE)?;
        let address = offset.checked_add(distance)?;
        address.checked_add(4 * MAX_TABLE)?;
        let fits = distance.is_multiple_of(PAGE)
            && offset - self.stored.size <= MAX_GAP
            && self.programs.1 < MAX_PROGRAMS;
        fits.then_some((offset, address))
    }

    /// Returns the dynamic section, which is loaded at `address`, with an entry for the search path.
    /// The string table follows it, and has the text at `text`.
    fn longer_dynamic(&self, address: u64, text: u64, table: u64) -> Vec<u8> {
        let used = self.dynamic.iter().take_while(|(tag, ..)| *tag != 0);
        let strings = address + (used.clone().count() as u64 + 2) * ENTRY as u64;
        let entries = used.map(|(tag, value, _)| match *tag {
            DT_STRTAB => [DT_STRTAB, strings],
            DT_STRSZ => [DT_STRSZ, table],
            tag => [tag, *value],
        });
        let entries = entries.chain([[DT_RUNPATH, text], [0, 0]]);
        entries.flatten().flat_map(u64::to_le_bytes).collect()
    }

    /// Returns the program headers with one for a new segment. Both places are address, position, and
    /// length: of the segment, which starts with the headers, and of the moved dynamic section.
    fn longer_programs(&self, segment: [u64; 3], dynamic: Option<[u64; 3]>) -> io::Result<Vec<u8>> {
        let old = self.bytes(self.programs.0, self.programs.1 * PROGRAM as u64)?;
        let size = old.len() as u64 + PROGRAM as u64;
        let is_load = |program: &&[u8]| number(program, 0, 4) == PT_LOAD;
        let last = old.chunks_exact(PROGRAM).filter(is_load).count();
        let mut loads = 0;
        let mut new = Vec::new();
        for program in old.chunks_exact(PROGRAM) {
            let kind = number(program, 0, 4);
            let place = match (kind, dynamic) {
                (PT_PHDR, _) => Some([segment[0], segment[1], size]),
                (PT_DYNAMIC, Some(place)) => Some(place),
                _ => None,
            };
            match place {
                None => new.extend(program),
                Some(place) => new.extend(header(kind, number(program, 4, 4), place, 8)),
            }
            loads += usize::from(kind == PT_LOAD);
            if kind == PT_LOAD && loads == last {
                // The loader writes to the dynamic section.
                let flags = if dynamic.is_some() { PF_R | PF_W } else { PF_R };
                new.extend(header(PT_LOAD, flags, segment, PAGE));
            }
        }
        Ok(new)
    }
}

/// Returns a program header for a place, which is address, position, and length.
fn header(kind: u64, flags: u64, [address, offset, length]: [u64; 3], align: u64) -> Vec<u8> {
    let start = kind | flags << 32;
    let fields = [start, offset, address, address, length, length, align];
    fields.map(u64::to_le_bytes).concat()
}
