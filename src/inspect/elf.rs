//! The headers and the dynamic section of an ELF file of either class and byte
//! order, and where its GPU code lies. The only place that uses `goblin`, and of
//! it only the readers of single tables, whose results are checked here.

use std::ops::Range;

use goblin::container::{Container, Ctx};
use goblin::elf::dynamic::{DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRSZ, DT_STRTAB, Dynamic};
use goblin::elf::header::Header;
use goblin::elf::note::NT_GNU_BUILD_ID;
use goblin::elf::program_header::{PT_LOAD, PT_NOTE, ProgramHeader};
use goblin::elf::section_header::{SHN_XINDEX, SHT_NOBITS, SHT_NOTE, SectionHeader};
use goblin::elf::{Elf, header};

use super::code_object::EM_AMDGPU;
use super::facts::{Damage, ElfFacts};
use super::report::Depth;
use crate::names::Soname;

// Many entries may refer to one long string, so that without limits a small file
// could fill the memory. Real libraries stay below 100 entries of 1000 bytes.
const MAX_STRINGS: usize = 4096;
const MAX_STRING: usize = 16 << 10;
const MAX_SECTION_NAME: usize = 64;

/// What an ELF file's headers say.
pub(super) struct Host {
    pub(super) facts: ElfFacts,
    /// Where its GPU code may lie.
    pub(super) places: Places,
    /// What could not be read.
    pub(super) damage: Vec<Damage>,
}

/// Where in an ELF file GPU code may lie: ranges of the file, none beyond its end,
/// those of one kind sorted and apart from each other.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The sections `.hip_fatbin` that have content.
    pub(super) fatbins: Vec<Range<usize>>,
    /// The sections `.hipFatBinSegment`: wrappers of 24 bytes.
    pub(super) wrappers: Vec<Range<usize>>,
    /// The sections `.llvm.offloading`.
    pub(super) offloading: Vec<Range<usize>>,
    /// The section `.rocm_kpack_ref`.
    pub(super) kpack_reference: Option<Range<usize>>,
    /// What else may hold bundles: sections of data, or, where there are no section
    /// headers, segments.
    pub(super) others: Vec<Range<usize>>,
}

/// Reads an ELF file. The error is a header that cannot be read at all.
pub(super) fn read(file: &[u8], depth: Depth) -> Result<Host, Damage> {
    let _ = depth;
    let fail =
        |what: &str, error: goblin::error::Error| damage(0, format!("has an unreadable {what}: {error}"));
    let header = Elf::parse_header(file).map_err(|e| fail("ELF header", e))?;
    let container = header.container().map_err(|e| fail("ELF class", e))?;
    let order = header.endianness().map_err(|e| fail("byte order", e))?;
    let ctx = Ctx::new(container, order);
    let mut damages = Vec::new();

    let (phoff, shoff) = (header.e_phoff, header.e_shoff);
    let programs = match usize::try_from(phoff) {
        Ok(at) if header.e_phnum > 0 => ProgramHeader::parse(file, at, header.e_phnum.into(), ctx),
        _ => Ok(Vec::new()),
    };
    let programs = programs.unwrap_or_else(|error| {
        damages.push(damage(phoff, format!("has unreadable program headers: {error}")));
        Vec::new()
    });
    let sections = match usize::try_from(shoff) {
        Ok(at) => SectionHeader::parse(file, at, header.e_shnum.into(), ctx),
        Err(_) => Ok(Vec::new()),
    };
    let sections = sections.unwrap_or_else(|error| {
        damages.push(damage(shoff, format!("has unreadable section headers: {error}")));
        Vec::new()
    });
    let sections = Sections { file, names: names(file, &header, &sections), headers: sections };

    let debug = [b".text".as_slice(), b".dynamic"].iter().any(|name| sections.named(name).any(is_empty));
    let mut facts = ElfFacts {
        bits: if container == Container::Big { 64 } else { 32 },
        machine: machine(header.e_machine),
        debug,
        soname: None,
        needed: Vec::new(),
        rpath: Vec::new(),
        runpath: Vec::new(),
        build_id: build_id(&sections, &programs, ctx),
        ..ElfFacts::default()
    };
    // In separate debugging data the program headers speak of another file.
    if !debug && let Err(what) = dynamic(file, &programs, ctx, &mut facts) {
        let at = programs.iter().find(|p| p.p_type == goblin::elf::program_header::PT_DYNAMIC);
        damages.push(damage(at.map_or(0, |p| p.p_offset), what));
    }
    let fatbins = fatbins(&sections, &mut damages);
    let reference = sections.named(b".rocm_kpack_ref").next();
    let kpack_reference = reference.and_then(|s| range(file, s.sh_offset, s.sh_size));
    let places = Places { fatbins, kpack_reference, ..Places::default() };
    Ok(Host { facts, places, damage: damages })
}

fn damage(offset: u64, what: impl Into<String>) -> Damage {
    Damage { elf: true, offset, what: what.into() }
}

struct Sections<'a> {
    file: &'a [u8],
    names: &'a [u8],
    headers: Vec<SectionHeader>,
}

impl Sections<'_> {
    fn named(&self, name: &[u8]) -> impl Iterator<Item = &SectionHeader> {
        self.headers.iter().filter(move |s| string(self.names, s.sh_name, MAX_SECTION_NAME) == Some(name))
    }
}

fn is_empty(section: &SectionHeader) -> bool {
    section.sh_type == SHT_NOBITS
}

fn range(file: &[u8], offset: u64, size: u64) -> Option<Range<usize>> {
    let (start, end) = (usize::try_from(offset).ok()?, usize::try_from(offset.checked_add(size)?).ok()?);
    (end <= file.len()).then_some(start..end)
}

fn names<'a>(file: &'a [u8], header: &Header, sections: &[SectionHeader]) -> &'a [u8] {
    let index = match u32::from(header.e_shstrndx) {
        SHN_XINDEX => sections.first().map_or(0, |first| first.sh_link as usize),
        index => index as usize,
    };
    let table = sections.get(index).filter(|table| !is_empty(table));
    table.and_then(|table| range(file, table.sh_offset, table.sh_size)).map_or(&[], |range| &file[range])
}

/// Returns the string at `at` without its NUL, if it has fewer than `limit` bytes.
fn string(table: &[u8], at: usize, limit: usize) -> Option<&[u8]> {
    let rest = table.get(at..)?;
    let rest = &rest[..rest.len().min(limit)];
    rest.iter().position(|byte| *byte == 0).map(|end| &rest[..end])
}

fn dynamic(file: &[u8], programs: &[ProgramHeader], ctx: Ctx, facts: &mut ElfFacts) -> Result<(), String> {
    let Some(dynamic) = Dynamic::parse(file, programs, ctx).map_err(|e| e.to_string())? else {
        return Ok(());
    };
    let value = |tag: u64| dynamic.dyns.iter().find(|d| d.d_tag == tag).map(|d| d.d_val);
    let Some(address) = value(DT_STRTAB) else { return Ok(()) };
    let table = programs.iter().filter(|p| p.p_type == PT_LOAD).find_map(|p| {
        let inside = address.checked_sub(p.p_vaddr).filter(|inside| *inside < p.p_filesz)?;
        range(file, p.p_offset.checked_add(inside)?, value(DT_STRSZ)?)
    });
    let wanted =
        dynamic.dyns.iter().filter(|d| [DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH].contains(&d.d_tag));
    for (index, entry) in wanted.enumerate() {
        let table = &file[table.clone().ok_or("has a dynamic string table outside of the file")?];
        if index >= MAX_STRINGS {
            return Err(format!("has more than {MAX_STRINGS} names in its dynamic section"));
        }
        let text = usize::try_from(entry.d_val).ok().and_then(|at| string(table, at, MAX_STRING));
        let text =
            text.ok_or_else(|| format!("has a dynamic string at {:#x} that does not end", entry.d_val))?;
        let text = String::from_utf8_lossy(text);
        let entries = || text.split(':').map(str::to_owned);
        match entry.d_tag {
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

fn fatbins(sections: &Sections<'_>, damages: &mut Vec<Damage>) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut found: Vec<_> =
        sections.named(b".hip_fatbin").filter(|s| !is_empty(s) && s.sh_size > 0).collect();
    found.sort_by_key(|section| (section.sh_offset, section.sh_size));
    for section in found {
        let range = range(sections.file, section.sh_offset, section.sh_size);
        match range.filter(|range| ranges.last().is_none_or(|last| last.end <= range.start)) {
            Some(range) => ranges.push(range),
            None => {
                let size = section.sh_size;
                let what = format!(
                    "has a section .hip_fatbin of {size} bytes that overlaps another or the file's end"
                );
                damages.push(damage(section.sh_offset, what));
                break;
            }
        }
    }
    ranges
}

fn build_id(sections: &Sections<'_>, programs: &[ProgramHeader], ctx: Ctx) -> Option<String> {
    let in_sections = sections.named(b".note.gnu.build-id").filter(|s| s.sh_type == SHT_NOTE);
    let in_sections = in_sections.map(|s| (s.sh_offset, s.sh_size));
    let in_segments = programs.iter().filter(|p| p.p_type == PT_NOTE).map(|p| (p.p_offset, p.p_filesz));
    let mut places = in_sections.chain(in_segments).take(16);
    places.find_map(|(offset, size)| note(&sections.file[range(sections.file, offset, size)?], ctx))
}

/// Finds the build ID in a sequence of notes: name size, content size, type, each
/// of 4 bytes, then name and content, each filled up to 4 bytes.
fn note(mut notes: &[u8], ctx: Ctx) -> Option<String> {
    loop {
        let word = |at: usize| {
            let bytes = *notes.get(at..)?.first_chunk()?;
            Some(if ctx.le.is_little() { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
        };
        let (name_size, size, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let name = notes.get(12..12usize.checked_add(name_size)?)?;
        let start = 12usize.checked_add(name_size.checked_next_multiple_of(4)?)?;
        let content = notes.get(start..start.checked_add(size)?)?;
        if name == b"GNU\0" && kind == NT_GNU_BUILD_ID && size <= 64 {
            return Some(content.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        notes = notes.get(start.checked_add(size.checked_next_multiple_of(4)?)?..)?;
    }
}

fn machine(number: u16) -> String {
    let name = match number {
        header::EM_386 => "i386",
        header::EM_X86_64 => "x86_64",
        header::EM_AARCH64 => "aarch64",
        header::EM_PPC64 => "ppc64",
        header::EM_S390 => "s390x",
        header::EM_RISCV => "riscv",
        EM_AMDGPU => "amdgpu",
        _ => return format!("machine {number}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &[u8]) -> Result<Host, Damage> {
        super::read(file, Depth::Deep)
    }
    use crate::inspect::testing::{HostElf, flip_bytes};

    fn host() -> HostElf {
        HostElf::new()
            .needed("libamdhip64.so.7")
            .needed("libc.so.6")
            .soname("libk.so.0")
            .rpath("/opt/a:")
            .runpath("$ORIGIN/../lib:/usr/lib64")
            .fatbin(b"not looked at here")
    }

    #[test]
    fn linkage_is_read() {
        let bytes = host().build();
        let host = read(&bytes).ok().unwrap();
        let facts = host.facts;
        assert_eq!((facts.bits, facts.machine.as_str(), facts.debug), (64, "x86_64", false));
        assert_eq!(facts.needed, [Soname::new("libamdhip64.so.7"), Soname::new("libc.so.6")]);
        assert_eq!(facts.soname, Some(Soname::new("libk.so.0")));
        assert_eq!(
            (facts.rpath, facts.runpath),
            (vec!["/opt/a".into(), "".into()], vec!["$ORIGIN/../lib".to_string(), "/usr/lib64".into()])
        );
        assert_eq!(host.damage, []);
        assert_eq!(&bytes[host.places.fatbins[0].clone()], b"not looked at here");
    }

    #[test]
    fn a_truncation_at_every_byte_is_told() {
        let bytes = host().build();
        for length in 4..bytes.len() {
            match read(&bytes[..length]) {
                Ok(host) => assert!(!host.damage.is_empty(), "{length}"),
                Err(damage) => assert!(damage.elf),
            }
        }
    }

    #[test]
    fn empty_sections_hold_no_code_and_debugging_data_no_linkage() {
        let moved = read(&host().empty(".hip_fatbin").kpack().build()).ok().unwrap();
        assert!(
            moved.places.fatbins.is_empty() && moved.places.kpack_reference.is_some() && !moved.facts.debug
        );
        assert_eq!(moved.facts.needed.len(), 2);
        let debug = read(&host().empty(".dynamic").empty(".hip_fatbin").build()).ok().unwrap();
        assert!(debug.places.fatbins.is_empty() && debug.facts.debug);
        assert!(debug.facts.needed.is_empty() && debug.damage.is_empty());
    }

    #[test]
    fn a_section_beyond_the_file_is_told() {
        let host = read(&host().fatbin_size(1 << 60).build()).ok().unwrap();
        assert!(host.places.fatbins.is_empty());
        assert!(host.damage[0].what.contains(".hip_fatbin"), "{:?}", host.damage);
    }

    #[test]
    fn names_without_number_are_told() {
        let colons = ":".repeat(5000);
        let host = read(&HostElf::new().rpath(&colons).runpath(&colons).build()).ok().unwrap();
        assert!(host.damage[0].what.contains("RPATH"), "{:?}", host.damage);
        assert!(host.facts.rpath.len() + host.facts.runpath.len() <= 2 * MAX_STRINGS);
        let many = (0..5000).fold(HostElf::new(), |elf, _| elf.needed("a"));
        let host = read(&many.build()).ok().unwrap();
        assert_eq!((host.facts.needed.len(), host.damage.len()), (MAX_STRINGS, 1));
        let long = read(&HostElf::new().needed(&"x".repeat(MAX_STRING)).build()).ok().unwrap();
        assert!(long.damage[0].what.contains("does not end"), "{:?}", long.damage);
    }

    #[test]
    fn random_corruption_never_panics() {
        let bytes = host().build();
        flip_bytes(&bytes, 20_000, |bytes| drop(read(bytes)));
        // Most of what decides stands in the headers.
        let (head, tables) = (64, bytes.len() - 7 * 64);
        flip_bytes(&bytes[..head], 5000, |head| drop(read(&[head, &bytes[head.len()..]].concat())));
        flip_bytes(&bytes[tables..], 5000, |t| drop(read(&[&bytes[..tables], t].concat())));
    }

    #[test]
    fn notes_give_the_build_id() {
        let notes =
            b"\x04\0\0\0\x04\0\0\0\x01\0\0\0GNU\0abcd\x04\0\0\0\x03\0\0\0\x03\0\0\0GNU\0\x01\xab\xff\0";
        let ctx = Ctx::new(Container::Big, goblin::container::Endian::Little);
        assert_eq!(note(notes, ctx).as_deref(), Some("01abff"));
        for length in 0..notes.len() - 1 {
            assert_eq!(note(&notes[..length], ctx), None);
        }
        assert_eq!(note(&[0xff; 64], ctx), None);
        assert_eq!(note(&[0; 64], ctx), None);
    }
}
