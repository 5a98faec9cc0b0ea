//! Sets the search path (`DT_RUNPATH`) of a linked ELF file.
//!
//! A linker that starts every segment on a page of its own leaves unused bytes after the segment
//! with the string table. The loader maps them already, so the text goes there, and only the size of
//! that segment, the size of the string table, and one entry of the dynamic section change. Without
//! such room, a shorter text may replace the old one; otherwise the file gets another segment
//! (`appended`). Code and data never move. Tools that move them have damaged large ROCm libraries
//! (ROCm/TheRock issues 4561 and 6712).
//!
//! Source: gABI, chapter 5, "Program Header" and "Dynamic Section".

mod appended;
mod file;

use std::io;

use super::payload::{Spool, Stored};
use rocm_inspect::ElfFacts;

pub use file::Edits;
use file::{
    DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, DT_SYMTAB, File, MAX_TABLE, Overwrites, PAGE,
    SHT_STRTAB, SYMBOL, Segment, beyond, number,
};

/// Returns the edits that set the search path of a file to `text`; `None` if it has no room.
/// `facts` are those of the file. A table that is not in the file is `InvalidData`.
pub fn edits(
    spool: &Spool,
    stored: Stored,
    facts: &ElfFacts,
    text: &str,
) -> io::Result<Option<Edits>> {
    if facts.bits != 64 || facts.big_endian {
        return Ok(None);
    }
    let mut file = File::read(spool, stored)?;
    let mut edits = Edits::default();
    edits.overwrite.extend(file.compacted.take());
    let inside = match file.in_padding(text)? {
        Some(edits) => Some(edits),
        None => file.in_place(facts, text)?,
    };
    match inside {
        Some(inside) => edits.overwrite.extend(inside),
        None => match file.in_new_segment(text)? {
            Some(appended) => {
                edits.overwrite.extend(appended.overwrite);
                edits.append = appended.append;
            }
            None => return Ok(None),
        },
    }
    Ok(Some(edits))
}

/// Applies edits, and returns the new content. Copies of `stored` are invalid afterwards.
pub fn apply(spool: &mut Spool, stored: Stored, edits: &Edits) -> io::Result<Stored> {
    let whole = match &edits.append {
        Some((at, bytes)) => spool.extend(stored, *at, bytes)?,
        None => stored,
    };
    spool.overwrite(whole, &edits.overwrite)
}

/// The result of [`set`].
#[derive(Debug)]
pub enum Set {
    /// The content with the search path.
    New(Stored),
    /// The file has no room for it.
    NoRoom,
    /// Parts of the file are unreadable.
    Unreadable(String),
    /// Something else changed, which is a bug.
    Damaged,
}

/// Sets the search path of a file, and checks that nothing else changed. Copies of `stored` are
/// invalid afterwards.
pub fn set(spool: &mut Spool, stored: Stored, text: &str) -> io::Result<Set> {
    let Some((mut before, sound)) = spool.linkage(&stored)? else { return Ok(Set::NoRoom) };
    if !sound {
        return Ok(Set::Unreadable("parts of it are unreadable".into()));
    }
    let edits = match edits(spool, stored, &before, text) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
            ) =>
        {
            return Ok(Set::Unreadable(error.to_string()));
        }
        edits => edits?,
    };
    let Some(edits) = edits else { return Ok(Set::NoRoom) };
    let new = apply(spool, stored, &edits)?;
    let after = spool.linkage(&new)?;
    before.rpath = Vec::new();
    before.runpath = text.split(':').map(str::to_owned).collect();
    let same =
        |after: &ElfFacts| serde_json::to_value(after).ok() == serde_json::to_value(&before).ok();
    Ok(match after {
        Some((after, true)) if same(&after) => Set::New(new),
        _ => Set::Damaged,
    })
}

impl File<'_> {
    /// Places the text after the segment with the string table.
    fn in_padding(&self, text: &str) -> io::Result<Option<Overwrites>> {
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
        edits.extend(self.sections_at(SHT_STRTAB, strings.0).map(|at| (at + 16, table.clone())));
        Ok(Some(edits))
    }

    /// Overwrites the old text if nothing else uses its bytes.
    fn in_place(&self, facts: &ElfFacts, text: &str) -> io::Result<Option<Overwrites>> {
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
        let at = place.position(strings)?.checked_add(value).ok_or_else(beyond)?;
        if self.bytes(at, old.len() as u64 + 1)? != [old.as_bytes(), b"\0"].concat() {
            return Ok(None);
        }
        // Linkers let a name that is the end of another share its bytes. No table states how many
        // symbols there are; reading further than the last one only finds more names.
        let from = table.position(symbols)?;
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
