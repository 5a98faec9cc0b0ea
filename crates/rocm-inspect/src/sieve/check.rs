//! Whether what a sieve left out of an ELF file is nothing that a quick look reads,
//! told by the section headers, which stand at the file's end, and the dynamic section.

use std::ops::Range;

use goblin::elf::program_header::{PT_DYNAMIC, PT_LOAD};
use goblin::elf::section_header::{SHF_EXECINSTR, SHT_NOBITS, SHT_NULL};

use super::{Header, Program, SECTION, Sieve, overlap, u32_at, u64_at};

/// Entries of a dynamic section; real ones have about 40.
const MAX_DYNAMIC: u64 = 4096;
/// The addresses of tables: DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_REL,
/// DT_JMPREL, DT_GNU_HASH, DT_VERSYM, DT_VERDEF, DT_VERNEED.
const TABLES: [u64; 10] = [4, 5, 6, 7, 17, 23, 0x6fff_fef5, 0x6fff_fff0, 0x6fff_fffc, 0x6fff_fffe];

/// `None` where a header cannot be read.
pub(super) fn was_right(sieve: &Sieve, file: &[u8]) -> Option<bool> {
    let header = Header::read(file)?;
    let programs = header.programs(file)?;
    let (start, count) = header.sections;
    let table = start..start.checked_add(count * SECTION)?;
    let mut right = intact(sieve, &table);
    for index in 0..count {
        let at = usize::try_from(start + index * SECTION).ok()?;
        let kind = u32_at(file, at + 4)?;
        let (flags, offset, size) = (u64_at(file, at + 8)?, u64_at(file, at + 24)?, u64_at(file, at + 32)?);
        if kind == SHT_NULL || kind == SHT_NOBITS || size == 0 {
            continue;
        }
        let range = offset..offset.saturating_add(size);
        let code = flags & u64::from(SHF_EXECINSTR) != 0;
        right &= (code || !sieve.code.iter().any(|hole| overlap(hole, &range))) && !cuts(sieve, &range);
    }
    for program in programs.iter().filter(|p| p.kind != PT_LOAD && !p.file.is_empty()) {
        right &= intact(sieve, &program.file);
    }
    Some(right && tables(sieve, file, &programs)?)
}

/// Returns whether a range was kept as a whole, unless it holds whole bundles.
fn intact(sieve: &Sieve, range: &Range<u64>) -> bool {
    !sieve.code.iter().any(|hole| overlap(hole, range)) && !cuts(sieve, range)
}

/// Returns whether a range begins or ends inside of a bundle.
fn cuts(sieve: &Sieve, range: &Range<u64>) -> bool {
    let inside = |at: u64| {
        let next = sieve.bundles.partition_point(|bundle| bundle.start < at);
        next > 0 && at < sieve.bundles[next - 1].end
    };
    inside(range.start) || inside(range.end)
}

fn tables(sieve: &Sieve, file: &[u8], programs: &[Program]) -> Option<bool> {
    for dynamic in programs.iter().filter(|p| p.kind == PT_DYNAMIC) {
        for index in 0..((dynamic.file.end - dynamic.file.start) / 16).min(MAX_DYNAMIC) {
            let at = usize::try_from(dynamic.file.start.checked_add(index * 16)?).ok()?;
            let (tag, address) = (u64_at(file, at)?, u64_at(file, at + 8)?);
            if tag == 0 {
                break;
            }
            let inside = |load: &&Program| {
                let length = load.file.end - load.file.start;
                load.kind == PT_LOAD && address.checked_sub(load.address).is_some_and(|in_it| in_it < length)
            };
            if TABLES.contains(&tag)
                && let Some(load) = programs.iter().find(inside)
            {
                let place = load.file.start + (address - load.address);
                if !intact(sieve, &(place..place + 1)) {
                    return Some(false);
                }
            }
        }
    }
    Some(true)
}
