//! Reads dynamic symbols: how many a file defines and how many it imports, and their names. Walks
//! the table in place, without copying it.
//!
//! Sources: gABI, chapter 4, "Symbol Table", and chapter 5, "Hash Table"; the GNU hash table as
//! glibc's `elf/dl-setup_hash.c` reads it.

use goblin::elf::dynamic::{DT_GNU_HASH, DT_HASH, DT_SYMTAB};
use goblin::elf::header::EM_S390;
use goblin::elf::section_header::SHT_DYNSYM;
use goblin::elf::sym::{STB_GLOBAL, STB_GNU_UNIQUE, STB_WEAK};

use super::Sections;
use super::dynamic::{DT_MIPS_SYMTABNO, Dynamic};
use super::raw::{Raw, string};
use crate::facts::{Damage, ElfFacts};
use crate::finding::Depth;

// Names of C++ templates reach some 10,000 bytes. All names of the largest known library
// (libtensorflow_cc) reach some 100 MB, of which few are undefined.
const MAX_NAME: usize = 16 << 10;
const MAX_UNDEFINED: usize = 16 << 20;
const MAX_DEFINED: usize = 64 << 20;

/// Counts the dynamic symbols and collects their names: those of defined symbols only in a deep
/// inspection.
pub(super) fn read(
    raw: &Raw<'_>,
    dynamic: &Dynamic<'_>,
    sections: &Sections<'_>,
    depth: Depth,
    facts: &mut ElfFacts,
    damages: &mut Vec<Damage>,
) {
    let Some(place) = dynamic.value(DT_SYMTAB).and_then(|address| raw.loaded(address)) else {
        return;
    };
    let size = if raw.wide { 24 } else { 16 };
    let Some(count) = count(raw, dynamic, sections, place.start, size) else { return };
    let available = (place.len() / size) as u64;
    if count > available {
        let what =
            format!("has {count} dynamic symbols, but its segment contains only {available}");
        damages.push(super::damage(place.start as u64, what));
    }
    let mut defined = Names::new(if depth == Depth::Deep { MAX_DEFINED } else { 0 });
    let mut undefined = Names::new(MAX_UNDEFINED);
    // The first entry is reserved.
    let entries = raw.file[place].chunks_exact(size).take(count.min(available) as usize).skip(1);
    let (info_at, index_at) = if raw.wide { (4, 6) } else { (12, 14) };
    for entry in entries {
        let (Some(name), Some(index)) = (raw.u32(entry, 0), raw.u16(entry, index_at)) else {
            return;
        };
        match (entry[info_at] >> 4, index) {
            (STB_GLOBAL | STB_GNU_UNIQUE, 0) => {
                facts.undefined_symbols += 1;
                undefined.add(dynamic.strings, name);
            }
            (STB_GLOBAL | STB_WEAK | STB_GNU_UNIQUE, 1..) => {
                facts.defined_symbols += 1;
                defined.add(dynamic.strings, name);
            }
            _ => {}
        }
    }
    facts.symbols.defined = defined.sorted();
    facts.symbols.undefined = undefined.sorted();
}

struct Names {
    names: Vec<Box<str>>,
    budget: usize,
}

impl Names {
    fn new(budget: usize) -> Self {
        Self { names: Vec::new(), budget }
    }

    fn add(&mut self, strings: &[u8], at: u32) {
        if self.budget == 0 {
            return;
        }
        // An unterminated name has been searched too.
        let name = string(strings, at as usize, MAX_NAME);
        let searched = name.map_or(MAX_NAME, <[u8]>::len);
        // The cost of a name is its bytes and its entry in the list.
        let cost = searched + size_of::<Box<str>>();
        let Some(rest) = self.budget.checked_sub(cost) else {
            self.budget = 0;
            return;
        };
        self.budget = rest;
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            self.names.push(String::from_utf8_lossy(name).into());
        }
    }

    fn sorted(mut self) -> Vec<Box<str>> {
        self.names.sort_unstable();
        // A name may have several versions.
        self.names.dedup();
        self.names
    }
}

/// Finds the number of symbols, which the dynamic section does not state: from the section headers,
/// otherwise from a hash table, otherwise from the address of the next table.
fn count(
    raw: &Raw<'_>,
    dynamic: &Dynamic<'_>,
    sections: &Sections<'_>,
    start: usize,
    size: usize,
) -> Option<u64> {
    let section =
        sections.all.iter().find(|(_, s)| s.sh_type == SHT_DYNSYM && s.sh_offset == start as u64);
    if let Some((_, section)) = section {
        return Some(section.sh_size / size as u64);
    }
    let by_hash = dynamic.value(DT_HASH).and_then(|address| hash(raw, address));
    by_hash.or_else(|| dynamic.value(DT_MIPS_SYMTABNO)).or_else(|| {
        let by_gnu_hash = dynamic.value(DT_GNU_HASH).and_then(|address| gnu_hash(raw, address));
        // A GNU hash table without symbols does not show how many are undefined.
        by_gnu_hash.or_else(|| {
            let symbols = dynamic.value(DT_SYMTAB)?;
            let next = dynamic.tables().filter(|table| *table > symbols).min()?;
            Some((next - symbols) / size as u64)
        })
    })
}

/// Reads `nbucket` and `nchain` of a hash table; `nchain` is the number of symbols. On 64-bit
/// S/390, GNU ld writes words of 8 bytes, and lld writes words of 4. The number of buckets is never
/// 0, so a first word of 0 shows the former.
fn hash(raw: &Raw<'_>, address: u64) -> Option<u64> {
    let table = &raw.file[raw.loaded(address)?];
    match raw.wide && raw.machine == EM_S390 && raw.u32(table, 0)? == 0 {
        true => raw.u64(table, 8),
        false => raw.u32(table, 4).map(u64::from),
    }
}

/// Reads a GNU hash table: a header of four words of 4 bytes (buckets, first symbol, size of the
/// filter in words of the class, shift), filter, buckets, chains. The end of the last chain is the
/// last symbol.
fn gnu_hash(raw: &Raw<'_>, address: u64) -> Option<u64> {
    let table = &raw.file[raw.loaded(address)?];
    let (buckets, first, filter) = (raw.u32(table, 0)?, raw.u32(table, 4)?, raw.u32(table, 8)?);
    let start = 16usize.checked_add((filter as usize).checked_mul(raw.word_size())?)?;
    let chains = start.checked_add((buckets as usize).checked_mul(4)?)?;
    let last = table.get(start..chains)?.chunks_exact(4).filter_map(|b| raw.u32(b, 0)).max()?;
    let mut index = last.checked_sub(first)? as usize;
    loop {
        if raw.u32(table, chains.checked_add(index.checked_mul(4)?)?)? & 1 != 0 {
            return Some(u64::from(first) + index as u64 + 1);
        }
        index += 1;
    }
}
