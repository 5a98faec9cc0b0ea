//! Checks that a quick inspection reads nothing of what a sieve skipped in an ELF file. Uses the
//! section headers, which are at the end of the file, and the dynamic section.

use std::ops::Range;

use goblin::elf::program_header::{PT_DYNAMIC, PT_LOAD};
use goblin::elf::section_header::{SHF_EXECINSTR, SHT_NOBITS, SHT_NULL};

use super::{Header, Program, SECTION, Sieve, overlap, u32_at, u64_at};

/// The maximum number of entries in a dynamic section; real ones have about 40.
const MAX_DYNAMIC: u64 = 4096;
/// The tags of table addresses: DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_REL, DT_JMPREL,
/// DT_GNU_HASH, DT_VERSYM, DT_VERDEF, DT_VERNEED.
const TABLES: [u64; 10] = [4, 5, 6, 7, 17, 23, 0x6fff_fef5, 0x6fff_fff0, 0x6fff_fffc, 0x6fff_fffe];

/// Returns `None` if a header is unreadable.
pub(super) fn was_right(sieve: &Sieve, file: &[u8]) -> Option<bool> {
    let header = Header::read(file)?;
    let programs = header.programs(file)?;
    let (start, count) = header.sections;
    let table = start..start.checked_add(count * SECTION)?;
    let mut right = intact(sieve, &table);
    for index in 0..count {
        let at = usize::try_from(start + index * SECTION).ok()?;
        let kind = u32_at(file, at + 4)?;
        let (flags, offset, size) =
            (u64_at(file, at + 8)?, u64_at(file, at + 24)?, u64_at(file, at + 32)?);
        if kind == SHT_NULL || kind == SHT_NOBITS || size == 0 {
            continue;
        }
        let range = offset..offset.saturating_add(size);
        let code = flags & u64::from(SHF_EXECINSTR) != 0;
        right &=
            (code || !sieve.code.iter().any(|hole| overlap(hole, &range))) && !cuts(sieve, &range);
    }
    for program in programs.iter().filter(|p| p.kind != PT_LOAD && !p.file.is_empty()) {
        right &= intact(sieve, &program.file);
    }
    Some(right && tables(sieve, file, &programs)?)
}

/// Returns whether a range was kept completely, apart from whole bundles inside it.
fn intact(sieve: &Sieve, range: &Range<u64>) -> bool {
    !sieve.code.iter().any(|hole| overlap(hole, range)) && !cuts(sieve, range)
}

/// Returns whether a range starts or ends inside a bundle.
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
                load.kind == PT_LOAD
                    && address.checked_sub(load.address).is_some_and(|in_it| in_it < length)
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
