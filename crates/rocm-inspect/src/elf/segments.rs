//! Checks the integrity of the program headers: finds contradictions that editing a linked file
//! leaves behind, and separates those that the loader rejects or misreads from those that it
//! tolerates. It does not check the sections.
//!
//! Sources: gABI, chapter 5, "Program Header"; glibc, `elf/dl-load.c` (`_dl_map_object_from_fd`)
//! and `elf/dl-map-segments.h`; Linux, `fs/binfmt_elf.c`.

use goblin::elf::dynamic::{DT_STRTAB, DT_SYMTAB};
use goblin::elf::header::Header;
use goblin::elf::program_header::{
    PF_W, PT_DYNAMIC, PT_GNU_RELRO, PT_GNU_STACK, PT_INTERP, PT_LOAD, PT_PHDR, PT_TLS,
    ProgramHeader,
};
use goblin::elf::section_header::SHT_DYNAMIC;

use super::Sections;
use super::dynamic::Dynamic;
use super::raw::{Raw, continues};
use crate::facts::HeaderFault;

/// The smallest page size of the machines that ROCm runs on.
const PAGE: u64 = 4096;
const MAX_FAULTS: usize = 64;

/// Returns the faults of the program headers, in the table's order.
pub(super) fn faults(
    raw: &Raw<'_>,
    header: &Header,
    sections: &Sections<'_>,
    dynamic: Option<&Dynamic<'_>>,
) -> Vec<HeaderFault> {
    let size = if raw.wide { 56 } else { 32 };
    let mut check = Check { raw, header, entry: size, faults: Vec::new() };
    if !raw.programs.is_empty() && u64::from(header.e_phentsize) != size {
        let what = format!("program headers of {} bytes each, not {size}", header.e_phentsize);
        check.add(header.e_phoff, true, what);
    }
    if raw.loads().next().is_none() {
        check.add(header.e_phoff, true, "no segment is loaded (PT_LOAD)".to_owned());
    }
    check.loads();
    for (index, program) in raw.programs.iter().enumerate() {
        check.other(check.at(index), program);
    }
    check.tables(sections, dynamic);
    check.faults.sort();
    check.faults.truncate(MAX_FAULTS);
    check.faults
}

struct Check<'a> {
    raw: &'a Raw<'a>,
    header: &'a Header,
    entry: u64,
    faults: Vec<HeaderFault>,
}

impl Check<'_> {
    fn add(&mut self, offset: u64, fatal: bool, what: String) {
        if self.faults.len() < 2 * MAX_FAULTS {
            self.faults.push(HeaderFault { offset, what, fatal });
        }
    }

    fn at(&self, index: usize) -> u64 {
        self.header.e_phoff.saturating_add(index as u64 * self.entry)
    }

    fn loads(&mut self) {
        let raw = self.raw;
        let mut last: Option<&ProgramHeader> = None;
        for (index, load) in raw.programs.iter().enumerate().filter(|(_, p)| p.p_type == PT_LOAD) {
            let at = self.at(index);
            if last.is_none() && load.p_flags & PF_W != 0 {
                self.add(at, false, "the first PT_LOAD is writable".to_owned());
            }
            self.alignment(at, load);
            if raw.range(load.p_offset, load.p_filesz).is_none() {
                let (offset, size) = (load.p_offset, load.p_filesz);
                let what = format!(
                    "a PT_LOAD of {size:#x} bytes at {offset:#x} ends beyond the file's end"
                );
                self.add(at, true, what);
            }
            if load.p_filesz > load.p_memsz {
                let (file, memory) = (load.p_filesz, load.p_memsz);
                let what = format!(
                    "a PT_LOAD has more bytes in the file ({file:#x}) than loaded ({memory:#x})"
                );
                self.add(at, false, what);
            }
            if let Some(last) = last {
                self.order(at, last, load);
            }
            last = Some(load);
        }
    }

    /// glibc rejects an address that is not congruent to its offset modulo the page size. Before
    /// 2.35 it required the same modulo `p_align`, and `p_align` to be a multiple of the page size
    /// (sourceware bug 28688).
    fn alignment(&mut self, at: u64, load: &ProgramHeader) {
        let (align, apart) = (load.p_align, load.p_vaddr.wrapping_sub(load.p_offset));
        let (address, offset) = (load.p_vaddr, load.p_offset);
        let power = align.is_power_of_two();
        if align > 1 && !power {
            self.add(
                at,
                false,
                format!("a PT_LOAD has the alignment {align:#x}, which is not a power of two"),
            );
        }
        if !apart.is_multiple_of(PAGE) {
            let what = format!(
                "a PT_LOAD at {offset:#x} for the address {address:#x}, which differ modulo the page size"
            );
            self.add(at, true, what);
        } else if power && !apart.is_multiple_of(align) {
            let what = format!(
                "a PT_LOAD at {offset:#x} for the address {address:#x}, which differ modulo its alignment {align:#x} (rejected by glibc before 2.35)"
            );
            self.add(at, true, what);
        } else if align % PAGE != 0 {
            let what = format!(
                "a PT_LOAD has the alignment {align:#x}, less than a page (rejected by glibc before 2.35)"
            );
            self.add(at, true, what);
        }
    }

    /// glibc reserves memory from the first segment to the last one, and maps them in the table's
    /// order, each over what is already there.
    fn order(&mut self, at: u64, last: &ProgramHeader, load: &ProgramHeader) {
        let (before, address) = (last.p_vaddr, load.p_vaddr);
        let end = before.saturating_add(last.p_memsz.max(last.p_filesz));
        if address < before {
            let what = format!("the PT_LOAD for {address:#x} comes after the one for {before:#x}");
            self.add(at, true, what);
        } else if address < end {
            let what =
                format!("the PT_LOAD for {address:#x} overlaps the one before it, up to {end:#x}");
            self.add(at, true, what);
        } else {
            // On a shared page, the later segment's file content replaces the earlier one's.
            let common = end > before && address / PAGE == (end - 1) / PAGE && load.p_filesz > 0;
            let same = before.wrapping_sub(last.p_offset) == address.wrapping_sub(load.p_offset);
            if common && (!same || last.p_memsz > last.p_filesz) {
                let what = format!(
                    "the PT_LOAD for {address:#x} shares a page with the one before it, up to {end:#x}, and replaces its content"
                );
                self.add(at, true, what);
            }
        }
    }

    fn other(&mut self, at: u64, program: &ProgramHeader) {
        let (address, size) = (program.p_vaddr, program.p_filesz);
        let end = address.saturating_add(program.p_memsz);
        let name = match program.p_type {
            PT_LOAD | PT_GNU_STACK => return,
            PT_PHDR => "PT_PHDR",
            PT_DYNAMIC => "PT_DYNAMIC",
            PT_INTERP => "PT_INTERP",
            PT_TLS => "PT_TLS",
            PT_GNU_RELRO => "PT_GNU_RELRO",
            _ => "a segment",
        };
        if size > 0 && self.raw.range(program.p_offset, size).is_none() {
            let what = format!(
                "{name} of {size:#x} bytes at {:#x} ends beyond the file's end",
                program.p_offset
            );
            self.add(at, program.p_type == PT_INTERP, what);
            return;
        }
        let missing = format!("{name} for {address:#x} to {end:#x} is in no PT_LOAD");
        match program.p_type {
            // It has no content in the file, so only its size counts.
            PT_TLS if size == 0 => {}
            // glibc ignores an empty dynamic section.
            PT_DYNAMIC if size == 0 => {}
            PT_DYNAMIC | PT_TLS => match self.raw.loaded(address) {
                Some(place) if !self.covered(address, address.saturating_add(size)) => {
                    let what =
                        format!("{name} extends beyond the end of its PT_LOAD at {:#x}", place.end);
                    self.add(at, true, what);
                }
                Some(place) if place.start as u64 != program.p_offset => {
                    let what = format!(
                        "{name} states the file offset {:#x}, but is loaded from {:#x}",
                        program.p_offset, place.start
                    );
                    self.add(at, false, what);
                }
                Some(_) => {}
                None => self.add(at, true, missing),
            },
            PT_GNU_RELRO if end > address && !self.covered(address, end) => {
                // The loader protects whole pages, and fails to do so beyond all segments.
                let (first, last) = (address / PAGE, end / PAGE);
                let pages = |p: &ProgramHeader| {
                    (p.p_vaddr / PAGE, p.p_vaddr.saturating_add(p.p_memsz).div_ceil(PAGE))
                };
                let within =
                    self.raw.loads().map(pages).any(|(from, to)| from <= first && last <= to);
                let start = self.raw.loads().map(|p| pages(p).0).min().unwrap_or(0);
                let stop = self.raw.loads().map(|p| pages(p).1).max().unwrap_or(0);
                if !within {
                    self.add(at, first < start || last > stop, missing);
                }
            }
            PT_PHDR => self.phdr(at, program, missing),
            _ => {}
        }
    }

    /// Returns whether one segment, or several that continue each other, load all addresses from
    /// `from` to `to`.
    fn covered(&self, from: u64, to: u64) -> bool {
        let end = |p: &ProgramHeader| p.p_vaddr.saturating_add(p.p_memsz);
        let Some(mut last) = self.raw.loads().find(|p| p.p_vaddr <= from && from < end(p)) else {
            return false;
        };
        while let Some(next) =
            self.raw.loads().find(|next| next.p_filesz > 0 && continues(last, next))
        {
            if to <= end(last) {
                break;
            }
            last = next;
        }
        to <= end(last)
    }

    /// Code that walks the program headers of a loaded file (`dl_iterate_phdr`) reads them at the
    /// address in PT_PHDR; the loader itself reads them at `e_phoff`. Segments are mapped in whole
    /// pages, which is enough.
    fn phdr(&mut self, at: u64, program: &ProgramHeader, missing: String) {
        let (address, size) = (program.p_vaddr, program.p_filesz);
        let end = address.saturating_add(size);
        let mapped = self.raw.loads().find(|p| {
            let stop = p.p_vaddr.saturating_add(p.p_filesz).div_ceil(PAGE).saturating_mul(PAGE);
            p.p_filesz > 0 && p.p_vaddr / PAGE <= address / PAGE && end <= stop
        });
        let Some(load) = mapped else { return self.add(at, true, missing) };
        let offset = address.wrapping_sub(load.p_vaddr).wrapping_add(load.p_offset);
        let bytes = |offset| self.raw.range(offset, size).map(|range| &self.raw.file[range]);
        if bytes(offset) != bytes(self.header.e_phoff) {
            let what =
                format!("PT_PHDR for {address:#x} differs from the program headers at e_phoff");
            self.add(at, true, what);
        } else if !self
            .raw
            .loads()
            .any(|p| p.p_vaddr <= address && end <= p.p_vaddr.saturating_add(p.p_filesz))
        {
            self.add(at, false, format!("{missing}, only in the rest of a page"));
        }
    }

    fn tables(&mut self, sections: &Sections<'_>, dynamic: Option<&Dynamic<'_>>) {
        let header = self.header;
        let count = (sections.all.len() as u64).max(header.e_shnum.into());
        let end = header.e_shoff.saturating_add(count * u64::from(header.e_shentsize));
        if header.e_shoff > 0 && end > self.raw.file.len() as u64 {
            let what = format!("section headers up to {end:#x}, beyond the file's end");
            self.add(header.e_shoff, false, what);
        }
        let Some(dynamic) = dynamic else { return };
        let program = self.raw.programs.iter().enumerate().find(|(_, p)| p.p_type == PT_DYNAMIC);
        let Some((index, program)) = program else { return };
        let at = self.at(index);
        let section = sections.all.iter().find(|(_, s)| s.sh_type == SHT_DYNAMIC);
        if let Some((_, section)) = section
            && (section.sh_offset, section.sh_addr) != (program.p_offset, program.p_vaddr)
        {
            let what = format!(
                "PT_DYNAMIC is at {:#x} for {:#x}, but the section .dynamic is at {:#x} for {:#x}",
                program.p_offset, program.p_vaddr, section.sh_offset, section.sh_addr
            );
            self.add(at, false, what);
        }
        for (tag, name) in [(DT_STRTAB, "DT_STRTAB"), (DT_SYMTAB, "DT_SYMTAB")] {
            if let Some(address) = dynamic.value(tag)
                && self.raw.loaded(address).is_none()
            {
                self.add(
                    at,
                    true,
                    format!("{name} points to {address:#x}, which is in no PT_LOAD"),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use goblin::elf::Elf;

    use super::*;
    use crate::testing::HostElf;

    fn program(kind: u32, offset: u64, address: u64, size: u64) -> ProgramHeader {
        ProgramHeader {
            p_type: kind,
            p_flags: 4,
            p_offset: offset,
            p_vaddr: address,
            p_paddr: address,
            p_filesz: size,
            p_memsz: size,
            p_align: if kind == PT_LOAD { PAGE } else { 8 },
        }
    }

    /// Returns the faults of these headers in a file of four pages, and whether each is fatal.
    fn check(programs: Vec<ProgramHeader>) -> Vec<(bool, String)> {
        let mut file = HostElf::new().build();
        file.resize(4 * PAGE as usize, 0);
        // Without section headers.
        file[40..48].fill(0);
        file[58..64].fill(0);
        let header = Elf::parse_header(&file).unwrap();
        let raw = Raw { file: &file, wide: true, little: true, machine: 62, programs };
        let sections = Sections { all: Vec::new() };
        faults(&raw, &header, &sections, None).into_iter().map(|f| (f.fatal, f.what)).collect()
    }

    fn only(programs: Vec<ProgramHeader>, fatal: bool, what: &str) {
        let faults = check(programs);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(faults[0].0, fatal, "{faults:?}");
        assert!(faults[0].1.contains(what), "{faults:?} {what}");
    }

    fn load(offset: u64, address: u64, size: u64) -> ProgramHeader {
        program(PT_LOAD, offset, address, size)
    }

    #[test]
    fn accepts_legal_layouts() {
        let whole = || load(0, 0, 4 * PAGE);
        let cases = [
            vec![whole()],
            // A gap and a segment without content, as after splitting off GPU code.
            vec![load(0, 0, PAGE), ProgramHeader { p_memsz: 1 << 30, ..load(PAGE, 5 * PAGE, 0) }],
            // Two segments on the same page of the file, mapped separately.
            vec![load(0, 0, 100), load(100, PAGE + 100, 100)],
            vec![whole(), program(PT_DYNAMIC, 120, 120, 16), program(PT_TLS, 0, 1 << 40, 0)],
            vec![program(PT_PHDR, 64, 64, 112), whole()],
            // The protected range ends at a page boundary, not at the segment's end.
            vec![load(0, 0, 3 * PAGE + 5), program(PT_GNU_RELRO, 2 * PAGE, 2 * PAGE, PAGE + PAGE)],
            vec![whole(), ProgramHeader { p_flags: 7, ..program(PT_GNU_STACK, 0, 0, 0) }],
        ];
        for case in cases {
            let text = format!("{case:?}");
            assert_eq!(check(case), [], "{text}");
        }
    }

    #[test]
    fn reports_each_contradiction() {
        let whole = || load(0, 0, 4 * PAGE);
        only(vec![], true, "no segment is loaded");
        only(vec![ProgramHeader { p_flags: 6, ..whole() }], false, "writable");
        only(vec![ProgramHeader { p_align: 3 * PAGE, ..whole() }], false, "not a power of two");
        only(vec![ProgramHeader { p_align: 16, ..whole() }], true, "less than a page");
        only(vec![load(0, 8, PAGE)], true, "modulo the page size");
        only(
            vec![ProgramHeader { p_align: 1 << 21, ..load(0, PAGE, 9) }],
            true,
            "modulo its alignment 0x200000",
        );
        only(vec![load(0, 0, 4 * PAGE + 1)], true, "beyond the file's end");
        only(vec![load(0, 0, u64::MAX)], true, "beyond the file's end");
        only(vec![ProgramHeader { p_memsz: 5, ..whole() }], false, "more bytes in the file");
        only(vec![load(PAGE, PAGE, 9), load(0, 0, 9)], true, "comes after");
        only(vec![load(0, 0, PAGE + 1), load(PAGE, PAGE, 9)], true, "overlaps");
        only(vec![load(0, 0, 100), load(PAGE + 100, 100, 9)], true, "shares a page");
        only(vec![whole(), program(PT_PHDR, 64, 1 << 30, 112)], true, "PT_PHDR for 0x40000000");
        only(vec![load(PAGE, 0, PAGE), program(PT_PHDR, 64, 64, 112)], true, "differs from");
        only(vec![load(0, 0, 64), program(PT_PHDR, 64, 64, 112)], false, "rest of a page");
        only(vec![whole(), program(PT_DYNAMIC, 0, 5 * PAGE, 16)], true, "PT_DYNAMIC");
        only(vec![whole(), program(PT_DYNAMIC, 128, 256, 16)], false, "is loaded from 0x100");
        only(vec![whole(), program(PT_TLS, 0, 5 * PAGE, 16)], true, "PT_TLS");
        only(vec![whole(), program(PT_GNU_RELRO, 0, 5 * PAGE, PAGE)], true, "PT_GNU_RELRO");
        let gap =
            vec![load(0, 0, 9), load(PAGE, 9 * PAGE, 9), program(PT_GNU_RELRO, 0, 5 * PAGE, PAGE)];
        only(gap, false, "PT_GNU_RELRO");
        only(vec![whole(), program(4, 5 * PAGE, 0, 9)], false, "a segment of 0x9 bytes");
        only(vec![whole(), program(PT_INTERP, 5 * PAGE, 0, 9)], true, "PT_INTERP");
    }

    #[test]
    fn reports_tables_outside_of_the_file() {
        let read = |file: &[u8]| {
            let faults =
                super::super::read(file, Default::default()).ok().unwrap().facts.header_faults;
            faults.into_iter().map(|f| (f.fatal, f.what)).collect::<Vec<_>>()
        };
        let mut file = HostElf::new().needed("libc.so.6").build();
        assert_eq!(read(&file), []);
        let mut more = file.clone();
        more[40..48].copy_from_slice(&(1u64 << 40).to_le_bytes());
        assert!(matches!(&read(&more)[..], [(false, what)] if what.contains("section headers")));
        let mut other = file.clone();
        other[54] = 57;
        assert!(
            matches!(&read(&other)[..], [(true, what)] if what.contains("57 bytes")),
            "{:?}",
            read(&other)
        );
        // DT_STRTAB is the second entry of the dynamic section.
        let dynamic = u64::from_le_bytes(*file[120 + 8..].first_chunk().unwrap()) as usize;
        file[dynamic + 24..dynamic + 32].fill(0x7f);
        assert!(matches!(&read(&file)[..], [(true, what)] if what.contains("DT_STRTAB")));
    }

    #[test]
    fn limits_the_number_of_faults() {
        assert_eq!(check((0..4000).map(|i| load(1, i * PAGE, 1)).collect()).len(), MAX_FAULTS);
    }
}
