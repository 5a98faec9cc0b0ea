//! Reads ELF files of either class and byte order, with and without section headers: the headers
//! here, the tables in the submodules. It judges nothing. Uses only those parts of `goblin` that
//! parse single headers, and checks their results.

mod dynamic;
mod notes;
mod places;
mod raw;
mod segments;
mod strings;
mod symbols;
mod versions;

use goblin::container::{Container, Ctx};
use goblin::elf::Elf;
use goblin::elf::header::{self, ET_DYN, ET_EXEC, ET_REL, Header};
use goblin::elf::program_header::{PF_X, PT_GNU_STACK, PT_INTERP, ProgramHeader};
use goblin::elf::section_header::{SHN_XINDEX, SHT_NOBITS, SHT_SYMTAB, SectionHeader};

pub(super) use places::{CodeRanges, without};
use raw::{Raw, string};

use super::code_object::EM_AMDGPU;
use super::facts::{Damage, ElfFacts, ElfKind};
use super::finding::Depth;

// Linux refuses programs with more than 1170 program headers; object files reach some 100,000
// sections.
const MAX_PROGRAMS: u16 = 4096;
const MAX_SECTIONS: u64 = 1 << 18;
const MAX_SECTION_NAME: usize = 256;
const MAX_FILE_NAME: usize = 4096;

/// What an ELF file's headers and tables state.
pub(super) struct Host {
    pub(super) facts: ElfFacts,
    /// Where it may contain GPU code.
    pub(super) places: CodeRanges,
    /// The parts that could not be read.
    pub(super) damage: Vec<Damage>,
}

/// The headers and tables of an ELF file, and what was read from them.
struct Tables<'a> {
    raw: Raw<'a>,
    sections: Sections<'a>,
    dynamic: Option<dynamic::Dynamic<'a>>,
    facts: ElfFacts,
    damage: Vec<Damage>,
}

/// Reads an ELF file. Returns an error if its header is unreadable.
///
/// A quick inspection reads executable segments only where tables point to them, and leaves
/// `symbols.defined` empty.
pub(super) fn read(file: &[u8], depth: Depth) -> Result<Host, Damage> {
    let Tables { raw, sections, dynamic, mut facts, mut damage } = tables(file, depth)?;
    let places = places::read(&raw, &sections, &mut damage);
    strings::read(&raw, &sections, &places, dynamic.as_ref(), depth, &mut facts);
    Ok(Host { facts, places, damage })
}

/// Reads the headers and tables as in a quick inspection, but not the constant data. Also returns
/// whether everything could be read.
pub(super) fn linkage(file: &[u8]) -> Option<(ElfFacts, bool)> {
    let Tables { facts, damage, .. } = tables(file, Depth::Quick).ok()?;
    Some((facts, damage.is_empty()))
}

/// The size of `Elf32_Ehdr`.
const SHORTEST_HEADER: usize = 52;

fn tables(file: &[u8], depth: Depth) -> Result<Tables<'_>, Damage> {
    let fail = |what: &str, error: goblin::error::Error| {
        damage(0, format!("has an unreadable {what}: {error}"))
    };
    if file.len() < SHORTEST_HEADER {
        return Err(damage(0, format!("has an ELF header that ends after {} bytes", file.len())));
    }
    let header = Elf::parse_header(file).map_err(|e| fail("ELF header", e))?;
    let container = header.container().map_err(|e| fail("ELF class", e))?;
    let order = header.endianness().map_err(|e| fail("byte order", e))?;
    let ctx = Ctx::new(container, order);
    let mut damages = Vec::new();
    let raw = Raw {
        file,
        wide: container == Container::Big,
        little: order.is_little(),
        machine: header.e_machine,
        programs: programs(file, &header, ctx, &mut damages),
    };
    let sections = Sections::read(&raw, &header, ctx, &mut damages);

    let debug =
        [b".text".as_slice(), b".dynamic"].iter().any(|name| sections.named(name).any(is_empty));
    let content = |name: &[u8]| sections.named(name).any(|s| !is_empty(s) && s.sh_size > 0);
    let mut facts = ElfFacts {
        bits: if raw.wide { 64 } else { 32 },
        big_endian: !raw.little,
        machine: machine(&header, raw.wide, raw.little),
        kind: match header.e_type {
            ET_REL => ElfKind::Relocatable,
            ET_EXEC => ElfKind::Executable,
            ET_DYN => ElfKind::Shared,
            _ => ElfKind::Other,
        },
        debug,
        debug_link: debug_link(&raw, &sections),
        has_symbols: sections.all.iter().any(|(_, s)| s.sh_type == SHT_SYMTAB && s.sh_size > 0),
        has_debug_info: content(b".debug_info") || content(b".zdebug_info"),
        has_sections: !sections.all.is_empty(),
        ..ElfFacts::default()
    };
    notes::read(&raw, &sections, &mut facts);
    let mut dynamic = None;
    // In separate debugging data, the program headers describe another file.
    if !debug {
        facts.interpreter = interpreter(&raw);
        let stack = raw.programs.iter().find(|p| p.p_type == PT_GNU_STACK);
        facts.executable_stack = stack.map(|stack| stack.p_flags & PF_X != 0);
        dynamic = dynamic::read(&raw, &mut facts, &mut damages);
        if let Some(dynamic) = &dynamic {
            versions::read(&raw, dynamic, &mut facts, &mut damages);
            symbols::read(&raw, dynamic, &sections, depth, &mut facts, &mut damages);
        }
        // The system's loader does not load GPU code.
        let loaded = [ElfKind::Executable, ElfKind::Shared].contains(&facts.kind);
        if loaded && ![EM_AMDGPU, EM_CUDA].contains(&raw.machine) {
            facts.header_faults = segments::faults(&raw, &header, &sections, dynamic.as_ref());
        }
    }
    Ok(Tables { raw, sections, dynamic, facts, damage: damages })
}

fn damage(offset: u64, what: impl Into<String>) -> Damage {
    Damage { elf: true, offset, what: what.into() }
}

fn programs(
    file: &[u8],
    header: &Header,
    ctx: Ctx,
    damages: &mut Vec<Damage>,
) -> Vec<ProgramHeader> {
    let count = header.e_phnum;
    let mut fail = |what| {
        damages.push(damage(header.e_phoff, what));
        Vec::new()
    };
    if count > MAX_PROGRAMS {
        return fail(format!("has {count} program headers; at most {MAX_PROGRAMS} are supported"));
    }
    match usize::try_from(header.e_phoff) {
        Ok(at) if count > 0 => ProgramHeader::parse(file, at, count.into(), ctx)
            .unwrap_or_else(|error| fail(format!("has unreadable program headers: {error}"))),
        _ => Vec::new(),
    }
}

/// The section headers with their names; empty if unreadable.
struct Sections<'a> {
    all: Vec<(&'a [u8], SectionHeader)>,
}

impl<'a> Sections<'a> {
    fn read(raw: &Raw<'a>, header: &Header, ctx: Ctx, damages: &mut Vec<Damage>) -> Self {
        let mut fail = |what| damages.push(damage(header.e_shoff, what));
        let mut headers = Vec::new();
        if let Ok(at) = usize::try_from(header.e_shoff)
            && at > 0
        {
            // A count that is too large for the header is in the first section's header.
            let first = SectionHeader::parse(raw.file, at, 1, ctx);
            let count = match (header.e_shnum, &first) {
                (0, Ok(first)) => first.first().map_or(0, |first| first.sh_size),
                (count, _) => count.into(),
            };
            let parsed = match count {
                0 => Ok(Vec::new()),
                _ => SectionHeader::parse(raw.file, at, count.min(MAX_SECTIONS) as usize, ctx),
            };
            match parsed {
                Ok(parsed) => headers = parsed,
                Err(error) => fail(format!("has unreadable section headers: {error}")),
            }
            if count > MAX_SECTIONS && !headers.is_empty() {
                fail(format!("has {count} sections, of which only {MAX_SECTIONS} are read"));
            }
        }
        let names = names(raw, header, &headers);
        let named = |section: SectionHeader| {
            let rest = names.get(section.sh_name..).unwrap_or(&[]);
            let rest = &rest[..rest.len().min(MAX_SECTION_NAME)];
            (memchr::memchr(0, rest).map_or(rest, |end| &rest[..end]), section)
        };
        Self { all: headers.into_iter().map(named).collect() }
    }

    fn named(&self, name: &[u8]) -> impl Iterator<Item = &SectionHeader> {
        self.all.iter().filter(move |(its, _)| *its == name).map(|(_, section)| section)
    }
}

fn is_empty(section: &SectionHeader) -> bool {
    section.sh_type == SHT_NOBITS
}

fn names<'a>(raw: &Raw<'a>, header: &Header, sections: &[SectionHeader]) -> &'a [u8] {
    let index = match u32::from(header.e_shstrndx) {
        SHN_XINDEX => sections.first().map_or(0, |first| first.sh_link as usize),
        index => index as usize,
    };
    let table = sections.get(index).filter(|table| !is_empty(table));
    table
        .and_then(|table| raw.range(table.sh_offset, table.sh_size))
        .map_or(&[], |range| &raw.file[range])
}

fn interpreter(raw: &Raw<'_>) -> Option<String> {
    let program = raw.programs.iter().find(|p| p.p_type == PT_INTERP)?;
    let bytes = &raw.file[raw.range(program.p_offset, program.p_filesz)?];
    string(bytes, 0, MAX_FILE_NAME).map(|path| String::from_utf8_lossy(path).into_owned())
}

/// Returns the file name in the section `.gnu_debuglink`, which has the name, padded to 4 bytes,
/// and a checksum. Source: GDB manual, "Separate Debug Files".
fn debug_link(raw: &Raw<'_>, sections: &Sections<'_>) -> Option<String> {
    let section = sections.named(b".gnu_debuglink").find(|s| !is_empty(s))?;
    let bytes = &raw.file[raw.range(section.sh_offset, section.sh_size)?];
    string(bytes, 0, MAX_FILE_NAME).map(|name| String::from_utf8_lossy(name).into_owned())
}

// Registered numbers that goblin does not define (gABI, "Machine Information").
const EM_CUDA: u16 = 190;
const EM_LOONGARCH: u16 = 258;

/// Returns the machine's name as in RPM.
fn machine(header: &Header, wide: bool, little: bool) -> String {
    // `EF_ARM_ABI_FLOAT_HARD` (ELF for the Arm Architecture).
    const HARD_FLOAT: u32 = 0x400;
    let name = match (header.e_machine, wide, little) {
        (header::EM_386, ..) => "i386",
        (header::EM_X86_64, true, _) => "x86_64",
        (header::EM_X86_64, false, _) => "x32",
        (header::EM_AARCH64, true, true) => "aarch64",
        (header::EM_AARCH64, true, false) => "aarch64_be",
        (header::EM_AARCH64, false, _) => "aarch64_ilp32",
        (header::EM_ARM, _, true) if header.e_flags & HARD_FLOAT != 0 => "armv7hl",
        (header::EM_ARM, _, true) => "arm",
        (header::EM_ARM, _, false) => "armeb",
        (header::EM_PPC64, _, true) => "ppc64le",
        (header::EM_PPC64, _, false) => "ppc64",
        (header::EM_PPC, ..) => "ppc",
        (header::EM_S390, true, _) => "s390x",
        (header::EM_S390, false, _) => "s390",
        (header::EM_RISCV, true, _) => "riscv64",
        (header::EM_RISCV, false, _) => "riscv32",
        (EM_LOONGARCH, true, _) => "loongarch64",
        (header::EM_MIPS, true, true) => "mips64el",
        (header::EM_MIPS, true, false) => "mips64",
        (header::EM_MIPS, false, true) => "mipsel",
        (header::EM_MIPS, false, false) => "mips",
        (header::EM_IA_64, ..) => "ia64",
        (header::EM_SPARC, ..) => "sparc",
        (header::EM_SPARCV9, ..) => "sparc64",
        (header::EM_68K, ..) => "m68k",
        (header::EM_SH, ..) => "sh4",
        (header::EM_BPF, ..) => "bpf",
        (EM_CUDA, ..) => "cuda",
        (EM_AMDGPU, ..) => "amdgpu",
        (number, ..) => return format!("machine {number}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::dynamic::{MAX_STRING, MAX_STRINGS};
    use super::*;
    use rocmrpm_base::names::Soname;

    fn read(file: &[u8]) -> Result<Host, Damage> {
        super::read(file, Depth::Deep)
    }
    use crate::testing::{HostElf, flip_bytes};

    fn host() -> HostElf {
        HostElf::new()
            .needed("libamdhip64.so.7")
            .needed("libc.so.6")
            .soname("libk.so.0")
            .rpath("/opt/a:")
            .runpath("$ORIGIN/../lib:/usr/lib64")
            .fatbin(b"not inspected here")
    }

    #[test]
    fn reads_linkage() {
        let bytes = host().build();
        let host = read(&bytes).ok().unwrap();
        let facts = host.facts;
        assert_eq!((facts.bits, facts.machine.as_str(), facts.debug), (64, "x86_64", false));
        assert_eq!(facts.needed, [Soname::new("libamdhip64.so.7"), Soname::new("libc.so.6")]);
        assert_eq!(facts.soname, Some(Soname::new("libk.so.0")));
        assert_eq!(
            (facts.rpath, facts.runpath),
            (
                vec!["/opt/a".into(), "".into()],
                vec!["$ORIGIN/../lib".to_string(), "/usr/lib64".into()]
            )
        );
        assert_eq!(host.damage, []);
        assert_eq!(&bytes[host.places.fatbins[0].clone()], b"not inspected here");
    }

    #[test]
    fn ignores_an_empty_search_path() {
        let read = |rpath: &str| {
            read(&HostElf::new().rpath(rpath).runpath(rpath).build()).ok().unwrap().facts
        };
        assert_eq!((read("").rpath, read("").runpath), (Vec::new(), Vec::new()));
        assert_eq!(read(":").rpath, ["", ""]);
    }

    #[test]
    fn reports_a_truncated_header() {
        let damage = read(b"\x7fELF\x02\x01\x01").err().unwrap();
        assert_eq!(damage.what, "has an ELF header that ends after 7 bytes");
    }

    #[test]
    fn reports_truncation_at_every_byte() {
        let bytes = host().build();
        for length in 4..bytes.len() {
            match read(&bytes[..length]) {
                Ok(host) => assert!(!host.damage.is_empty(), "{length}"),
                Err(damage) => assert!(damage.elf),
            }
        }
    }

    #[test]
    fn reads_tables_with_and_without_section_headers() {
        let mut bytes = host().tables().build();
        for sections in [true, false] {
            for depth in [Depth::Quick, Depth::Deep] {
                let Host { facts, places, damage } = super::read(&bytes, depth).ok().unwrap();
                assert_eq!((damage, facts.has_sections), (vec![], sections));
                assert_eq!(facts.header_faults, []);
                assert_eq!((facts.defined_symbols, facts.undefined_symbols), (1, 1));
                assert_eq!(facts.symbols.undefined, ["leaves".into()]);
                let defined: &[Box<str>] =
                    if depth == Depth::Deep { &["gives".into()] } else { &[] };
                assert_eq!(facts.symbols.defined, defined);
                assert_eq!(facts.versions_needed["libc.so.6"], ["GLIBC_2.4"]);
                assert_eq!(facts.versions_provided, ["V_1"]);
                let section = if sections { ".rodata" } else { "segment" };
                let [mention] = &facts.mentioned_paths[..] else {
                    panic!("{:?}", facts.mentioned_paths)
                };
                assert_eq!(
                    (mention.path.as_str(), mention.section.as_str()),
                    ("/opt/rocm/lib", section)
                );
                assert!(bytes[mention.offset as usize..].starts_with(b"/opt/rocm/lib\0"));
                assert!(facts.mentioned_libraries.contains(&"libopened.so.3".to_owned()));
                assert!(!facts.mentioned_libraries.contains(&"libc.so.6".to_owned()));
                // The places include the fatbin in both cases.
                let named = places.fatbins.len();
                assert_eq!(named, usize::from(sections));
                let inside = |range: &std::ops::Range<usize>| {
                    bytes[range.clone()].windows(18).any(|w| w == b"not inspected here")
                };
                assert_eq!(places.others.iter().any(inside), !sections);
            }
            bytes[40..48].fill(0);
            bytes[58..64].fill(0);
        }
    }

    #[test]
    fn searches_executable_segments_only_in_deep_inspections() {
        let mut bytes = host().tables().build();
        bytes[64 + 4] = 5;
        let mentions = |depth| super::read(&bytes, depth).ok().unwrap().facts.mentioned_paths.len();
        assert_eq!((mentions(Depth::Quick), mentions(Depth::Deep)), (0, 1));
    }

    #[test]
    fn survives_damaged_tables() {
        let bytes = host().tables().build();
        for length in 4..bytes.len() {
            match read(&bytes[..length]) {
                Ok(host) => assert!(!host.damage.is_empty(), "{length}"),
                Err(damage) => assert!(damage.elf),
            }
        }
        flip_bytes(&bytes, 4000, |bytes| drop(read(bytes)));
        let mut bare = bytes.clone();
        bare[40..48].fill(0);
        bare[58..64].fill(0);
        flip_bytes(&bare, 4000, |bytes| drop(read(bytes)));
        // Only the tables, so that the headers still lead to them.
        let (from, to) = (64 + 2 * 56, bytes.len() - 11 * 64);
        flip_bytes(&bare[from..to], 4000, |t| drop(read(&[&bare[..from], t].concat())));
    }

    #[test]
    fn names_machines_as_rpm_does() {
        let mut bytes = host().build();
        for (number, name) in [
            (62u16, "x86_64"),
            (183, "aarch64"),
            (21, "ppc64le"),
            (243, "riscv64"),
            (9999, "machine 9999"),
        ] {
            bytes[18..20].copy_from_slice(&number.to_le_bytes());
            assert_eq!(read(&bytes).ok().unwrap().facts.machine, name);
        }
    }

    #[test]
    fn ignores_empty_sections_and_linkage_of_debugging_data() {
        let moved = read(&host().empty(".hip_fatbin").kpack().build()).ok().unwrap();
        assert!(
            moved.places.fatbins.is_empty()
                && moved.places.kpack_reference.is_some()
                && !moved.facts.debug
        );
        assert_eq!(moved.facts.needed.len(), 2);
        let debug = read(&host().empty(".dynamic").empty(".hip_fatbin").build()).ok().unwrap();
        assert!(debug.places.fatbins.is_empty() && debug.facts.debug);
        assert!(debug.facts.needed.is_empty() && debug.damage.is_empty());
    }

    #[test]
    fn reports_a_section_beyond_the_file() {
        let host = read(&host().fatbin_size(1 << 60).build()).ok().unwrap();
        assert!(host.places.fatbins.is_empty());
        assert!(host.damage[0].what.contains(".hip_fatbin"), "{:?}", host.damage);
    }

    #[test]
    fn reports_too_many_names() {
        let colons = ":".repeat(5000);
        let host = read(&HostElf::new().rpath(&colons).runpath(&colons).build()).ok().unwrap();
        assert!(host.damage[0].what.contains("RPATH"), "{:?}", host.damage);
        assert!(host.facts.rpath.len() + host.facts.runpath.len() <= 2 * MAX_STRINGS);
        let many = (0..5000).fold(HostElf::new(), |elf, _| elf.needed("a"));
        let host = read(&many.build()).ok().unwrap();
        assert_eq!((host.facts.needed.len(), host.damage.len()), (MAX_STRINGS, 1));
        let long = read(&HostElf::new().needed(&"x".repeat(MAX_STRING)).build()).ok().unwrap();
        assert!(long.damage[0].what.contains("unterminated"), "{:?}", long.damage);
    }

    #[test]
    fn survives_random_corruption() {
        let bytes = host().build();
        flip_bytes(&bytes, 4000, |bytes| drop(read(bytes)));
        // Most of the decisive fields are in the headers.
        let (head, tables) = (64, bytes.len() - 7 * 64);
        flip_bytes(&bytes[..head], 5000, |head| drop(read(&[head, &bytes[head.len()..]].concat())));
        flip_bytes(&bytes[tables..], 5000, |t| drop(read(&[&bytes[..tables], t].concat())));
    }
}
