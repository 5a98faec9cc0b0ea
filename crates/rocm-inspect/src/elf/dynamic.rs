//! Reads the dynamic section: its names, flags, and the addresses of its tables. It does not read
//! those tables.
//!
//! Source of the format: System V gABI, chapter 5, "Dynamic Section".

use std::collections::BTreeMap;
use std::ops::Range;

use goblin::elf::dynamic::{
    DF_1_NOW, DF_BIND_NOW, DF_TEXTREL, DT_BIND_NOW, DT_FLAGS, DT_FLAGS_1, DT_GNU_HASH, DT_HASH,
    DT_JMPREL, DT_NEEDED, DT_NULL, DT_REL, DT_RELA, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRSZ,
    DT_STRTAB, DT_SYMTAB, DT_TEXTREL, DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM,
    DT_VERSYM,
};
use goblin::elf::program_header::{PT_DYNAMIC, PT_GNU_RELRO};

use super::raw::{Raw, string};
use crate::facts::{Damage, ElfFacts, Relro};
use rocmrpm_base::names::Soname;

// Many entries may refer to one long string, so that without limits a small file could exhaust
// memory. Real libraries stay below 100 entries of 1000 bytes.
pub(super) const MAX_STRINGS: usize = 4096;
pub(super) const MAX_STRING: usize = 16 << 10;
const MAX_ENTRIES: usize = 1 << 16;

/// `DT_MIPS_SYMTABNO`: the number of dynamic symbols (MIPS psABI, chapter 5).
pub(super) const DT_MIPS_SYMTABNO: u64 = 0x7000_0011;

const KEPT: [u64; 18] = [
    DT_STRTAB,
    DT_STRSZ,
    DT_SYMTAB,
    DT_HASH,
    DT_GNU_HASH,
    DT_VERSYM,
    DT_VERNEED,
    DT_VERNEEDNUM,
    DT_VERDEF,
    DT_VERDEFNUM,
    DT_FLAGS,
    DT_FLAGS_1,
    DT_TEXTREL,
    DT_BIND_NOW,
    DT_REL,
    DT_RELA,
    DT_JMPREL,
    DT_MIPS_SYMTABNO,
];

/// A file's dynamic section.
pub(super) struct Dynamic<'a> {
    /// Its offset in the file.
    pub(super) offset: u64,
    /// The values of the tags for tables and flags. If a tag occurs several times, this is the last
    /// value, as for the loader.
    values: BTreeMap<u64, u64>,
    /// The string table; empty if unreadable.
    pub(super) strings: &'a [u8],
    /// The range of the string table in the file.
    pub(super) strings_at: Option<Range<usize>>,
}

impl Dynamic<'_> {
    pub(super) fn value(&self, tag: u64) -> Option<u64> {
        self.values.get(&tag).copied()
    }

    /// Yields the addresses of all tables.
    pub(super) fn tables(&self) -> impl Iterator<Item = u64> {
        const TABLES: [u64; 9] = [
            DT_STRTAB,
            DT_HASH,
            DT_GNU_HASH,
            DT_VERSYM,
            DT_VERNEED,
            DT_VERDEF,
            DT_REL,
            DT_RELA,
            DT_JMPREL,
        ];
        TABLES.iter().filter_map(|tag| self.value(*tag))
    }
}

/// Reads the dynamic section into `facts`.
pub(super) fn read<'a>(
    raw: &Raw<'a>,
    facts: &mut ElfFacts,
    damages: &mut Vec<Damage>,
) -> Option<Dynamic<'a>> {
    let relro = raw.programs.iter().any(|p| p.p_type == PT_GNU_RELRO);
    facts.relro = if relro { Relro::Partial } else { Relro::None };
    let program = raw.programs.iter().find(|p| p.p_type == PT_DYNAMIC && p.p_filesz > 0)?;
    let mut damage = |what: String| damages.push(super::damage(program.p_offset, what));
    // The loader uses the address.
    let size = usize::try_from(program.p_filesz).unwrap_or(usize::MAX);
    let place = raw.loaded(program.p_vaddr).or_else(|| {
        let start =
            usize::try_from(program.p_offset).ok().filter(|start| *start < raw.file.len())?;
        Some(start..raw.file.len())
    });
    let Some(place) = place else {
        damage("has a dynamic section outside of the file".to_owned());
        return None;
    };
    if place.len() < size {
        damage(format!(
            "has a dynamic section of {size} bytes that reaches beyond the file or its segment"
        ));
    }
    let bytes = &raw.file[place.start..place.end.min(place.start.saturating_add(size))];

    let mut values = BTreeMap::new();
    let mut names = Vec::new();
    let mut count = 0;
    for entry in bytes.chunks_exact(2 * raw.word_size()).take(MAX_ENTRIES) {
        let (Some(tag), Some(value)) = (raw.word(entry, 0), raw.word(entry, raw.word_size()))
        else {
            break;
        };
        match tag {
            DT_NULL => break,
            DT_NEEDED | DT_SONAME | DT_RPATH | DT_RUNPATH => {
                count += 1;
                if names.len() < MAX_STRINGS {
                    names.push((tag, value));
                }
            }
            _ if KEPT.contains(&tag) => drop(values.insert(tag, value)),
            _ => {}
        }
    }
    let mut dynamic = Dynamic { offset: program.p_offset, values, strings: &[], strings_at: None };
    flags(&dynamic, facts);
    let table = dynamic.value(DT_STRTAB).and_then(|address| {
        let place = raw.loaded(address)?;
        let size = usize::try_from(dynamic.value(DT_STRSZ)?).ok()?;
        (size <= place.len()).then(|| place.start..place.start + size)
    });
    let Some(table) = table else {
        if !names.is_empty() {
            damage("has a dynamic string table outside of the file".to_owned());
        }
        return Some(dynamic);
    };
    dynamic.strings = &raw.file[table.clone()];
    dynamic.strings_at = Some(table);
    if count > MAX_STRINGS {
        damage(format!("has more than {MAX_STRINGS} names in its dynamic section"));
    }
    if let Err(what) = linkage(&dynamic, &names, facts) {
        damage(what);
    }
    Some(dynamic)
}

fn linkage(
    dynamic: &Dynamic<'_>,
    names: &[(u64, u64)],
    facts: &mut ElfFacts,
) -> Result<(), String> {
    for &(tag, at) in names {
        let text = usize::try_from(at).ok().and_then(|at| string(dynamic.strings, at, MAX_STRING));
        let text = text.ok_or_else(|| format!("has an unterminated dynamic string at {at:#x}"))?;
        let text = String::from_utf8_lossy(text);
        // glibc ignores a path that is completely empty, as `chrpath -r ''` leaves it, and searches
        // the current folder for an empty entry of any other path.
        let entries = || text.split(':').filter(|_| !text.is_empty()).map(str::to_owned);
        match tag {
            DT_NEEDED => facts.needed.push(Soname::new(text)),
            DT_SONAME => facts.soname = Some(Soname::new(text)),
            DT_RPATH => facts.rpath.extend(entries()),
            _ => facts.runpath.extend(entries()),
        }
        if facts.rpath.len() + facts.runpath.len() > MAX_STRINGS {
            facts.rpath.truncate(MAX_STRINGS);
            facts.runpath.truncate(MAX_STRINGS);
            return Err(format!("has more than {MAX_STRINGS} entries in RPATH and RUNPATH"));
        }
    }
    Ok(())
}

fn flags(dynamic: &Dynamic<'_>, facts: &mut ElfFacts) {
    let has = |tag, flag| dynamic.value(tag).is_some_and(|value| value & flag != 0);
    facts.text_relocations = dynamic.value(DT_TEXTREL).is_some() || has(DT_FLAGS, DF_TEXTREL);
    let now = dynamic.value(DT_BIND_NOW).is_some()
        || has(DT_FLAGS, DF_BIND_NOW)
        || has(DT_FLAGS_1, DF_1_NOW);
    facts.bind_now = now;
    if now && facts.relro == Relro::Partial {
        facts.relro = Relro::Full;
    }
}
