//! Finds where an ELF file may contain GPU code, by the names and types of its sections, or by its
//! segments if there are no sections. It does not read the content.

use std::ops::Range;

use goblin::elf::program_header::PF_X;
use goblin::elf::section_header::{SHF_EXECINSTR, SHT_PROGBITS};

use super::raw::Raw;
use super::{Sections, is_empty};
use crate::facts::Damage;

/// Where an ELF file may contain GPU code: ranges of the file, none beyond its end, sorted and
/// without overlaps.
#[derive(Debug, Default)]
pub(crate) struct CodeRanges {
    /// The non-empty sections `.hip_fatbin`.
    pub(crate) fatbins: Vec<Range<usize>>,
    /// The sections `.hipFatBinSegment`: wrappers of 24 bytes.
    pub(crate) wrappers: Vec<Range<usize>>,
    /// The sections `.llvm.offloading`.
    pub(crate) offloading: Vec<Range<usize>>,
    /// The section `.rocm_kpack_ref`.
    pub(crate) kpack_reference: Option<Range<usize>>,
    /// Other ranges that may contain bundles: data sections, or segments if there are no section
    /// headers.
    pub(crate) others: Vec<Range<usize>>,
}

impl CodeRanges {
    /// Returns all ranges except `others`, sorted.
    pub(super) fn named(&self) -> Vec<Range<usize>> {
        let kinds = [&self.fatbins, &self.wrappers, &self.offloading];
        let ranges = kinds.into_iter().flatten().chain(&self.kpack_reference).cloned();
        apart(ranges.collect())
    }
}

pub(super) fn read(
    raw: &Raw<'_>,
    sections: &Sections<'_>,
    damages: &mut Vec<Damage>,
) -> CodeRanges {
    let mut kpack = named(raw, sections, b".rocm_kpack_ref", &mut Vec::new());
    let mut places = CodeRanges {
        fatbins: named(raw, sections, b".hip_fatbin", damages),
        wrappers: named(raw, sections, b".hipFatBinSegment", damages),
        offloading: named(raw, sections, b".llvm.offloading", damages),
        kpack_reference: (!kpack.is_empty()).then(|| kpack.swap_remove(0)),
        others: Vec::new(),
    };
    // In a damaged file, one range may have several names.
    places.wrappers = without(places.wrappers, &places.fatbins);
    let taken = apart([places.fatbins.clone(), places.wrappers.clone()].concat());
    places.offloading = without(places.offloading, &taken);
    let others = match sections.all.is_empty() {
        true => {
            let data = raw.loads().filter(|p| p.p_flags & PF_X == 0 && p.p_filesz > 0);
            data.filter_map(|p| {
                let end = p.p_offset.checked_add(p.p_filesz)?.min(raw.file.len() as u64);
                raw.range(p.p_offset, end.checked_sub(p.p_offset)?)
            })
            .collect()
        }
        false => {
            let data = sections.all.iter().filter(|(name, s)| {
                s.sh_type == SHT_PROGBITS
                    && s.sh_flags & u64::from(SHF_EXECINSTR) == 0
                    && !is_table(name)
            });
            data.filter_map(|(_, s)| raw.range(s.sh_offset, s.sh_size)).collect()
        }
    };
    places.others = without(apart(others), &places.named());
    places
}

/// Returns whether a section of this name is known to contain no bundles.
pub(super) fn is_table(name: &[u8]) -> bool {
    const PREFIXES: [&[u8]; 6] =
        [b".debug_", b".zdebug_", b".eh_frame", b".gcc_except_table", b".gnu_debug", b".got"];
    const NAMES: [&[u8]; 4] = [b".comment", b".interp", b".strtab", b".shstrtab"];
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the non-empty sections with this name. If one overlaps another or exceeds the file,
/// records damage and omits those after it.
fn named(
    raw: &Raw<'_>,
    sections: &Sections<'_>,
    name: &[u8],
    damages: &mut Vec<Damage>,
) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut found: Vec<_> =
        sections.named(name).filter(|s| !is_empty(s) && s.sh_size > 0).collect();
    found.sort_by_key(|section| (section.sh_offset, section.sh_size));
    for section in found {
        let range = raw.range(section.sh_offset, section.sh_size);
        match range.filter(|range| ranges.last().is_none_or(|last| last.end <= range.start)) {
            Some(range) => ranges.push(range),
            None => {
                let (name, size) = (String::from_utf8_lossy(name), section.sh_size);
                let what = format!(
                    "has a section {name} of {size} bytes that overlaps another or the file's end"
                );
                damages.push(super::damage(section.sh_offset, what));
                break;
            }
        }
    }
    ranges
}

/// Sorts ranges and removes overlaps.
pub(super) fn apart(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut end = 0;
    for range in &mut ranges {
        range.start = range.start.max(end);
        end = end.max(range.end);
    }
    ranges.retain(|range| range.start < range.end);
    ranges
}

/// Removes `taken` from `ranges`; both are sorted and without overlaps.
pub(crate) fn without(ranges: Vec<Range<usize>>, taken: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut rest = Vec::new();
    let mut taken = taken.iter().peekable();
    for range in ranges {
        let mut start = range.start;
        while let Some(cut) = taken.next_if(|cut| cut.end <= range.end) {
            if start < cut.start {
                rest.push(start..cut.start.min(range.end));
            }
            start = start.max(cut.end);
        }
        // A range that extends beyond this one may reach into the next one.
        let end = taken.peek().map_or(range.end, |cut| range.end.min(cut.start));
        if start < end {
            rest.push(start..end);
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_overlaps_from_ranges() {
        assert_eq!(apart(vec![5..9, 0..6, 2..3, 9..9, 20..21]), [0..6, 6..9, 20..21]);
        type Ranges<'a> = &'a [Range<usize>];
        let cases: [(Ranges<'_>, Ranges<'_>, Ranges<'_>); 6] = [
            (&[0..10, 20..30], &[2..4, 8..25], &[0..2, 4..8, 25..30]),
            (&[0..10, 12..14], &[], &[0..10, 12..14]),
            (&[5..10, 12..14], &[0..6, 9..13], &[6..9, 13..14]),
            (&[5..10, 12..14], &[0..6, 7..30], &[6..7, 7..7]),
            (&[5..10, 12..14], &[0..2, 2..5, 10..11], &[5..10, 12..14]),
            (&[5..10, 12..14], &[0..5, 5..14], &[]),
        ];
        for (ranges, taken, rest) in cases {
            let rest: Vec<_> = rest.iter().filter(|range| !range.is_empty()).cloned().collect();
            assert_eq!(without(ranges.to_vec(), taken), rest, "{ranges:?} {taken:?}");
        }
    }
}
