//! Reads ELF notes: the build ID, the required x86-64 level, and the libraries in dlopen notes. It
//! ignores all other notes.

use goblin::elf::header::EM_X86_64;
use goblin::elf::note::{NT_GNU_BUILD_ID, NT_GNU_PROPERTY_TYPE_0};
use goblin::elf::program_header::PT_NOTE;
use goblin::elf::section_header::SHT_NOTE;
use serde::Deserialize;

use super::Sections;
use super::raw::Raw;
use crate::facts::ElfFacts;

/// The type of a dlopen note, and its owner. Source: systemd,
/// docs/ELF_DLOPEN_METADATA.md.
const DLOPEN: u32 = 0x407c_0c0a;
const DLOPEN_OWNER: &[u8] = b"FDO\0";

const MAX_SEGMENTS: usize = 16;
const MAX_NOTES: usize = 4096;
const MAX_BUILD_ID: usize = 64;
const MAX_PROPERTIES: usize = 64;
const MAX_JSON: usize = 64 << 10;
const MAX_LIBRARIES: usize = 256;
const MAX_NAME: usize = 256;

/// Reads the notes into `facts`.
pub(super) fn read(raw: &Raw<'_>, sections: &Sections<'_>, facts: &mut ElfFacts) {
    const NAMES: [&[u8]; 3] = [b".note.gnu.build-id", b".note.gnu.property", b".note.dlopen"];
    let in_sections = NAMES.iter().flat_map(|name| sections.named(name));
    let in_sections = in_sections
        .filter(|s| s.sh_type == SHT_NOTE)
        .map(|s| (s.sh_offset, s.sh_size, s.sh_addralign))
        .take(MAX_SEGMENTS);
    // In separate debugging data, the program headers describe another file.
    let in_segments = raw.programs.iter().filter(|p| p.p_type == PT_NOTE && !facts.debug);
    let in_segments = in_segments.map(|p| (p.p_offset, p.p_filesz, p.p_align)).take(MAX_SEGMENTS);
    let mut libraries = Vec::new();
    let mut build_id = None;
    let mut isa = 0;
    for (offset, size, align) in in_sections.chain(in_segments) {
        let Some(range) = raw.range(offset, size) else { continue };
        each(raw, &raw.file[range], align, |owner, kind, content| match (owner, kind) {
            (b"GNU\0", NT_GNU_BUILD_ID) if build_id.is_none() && content.len() <= MAX_BUILD_ID => {
                build_id = Some(content.iter().map(|byte| format!("{byte:02x}")).collect());
            }
            (b"GNU\0", NT_GNU_PROPERTY_TYPE_0) => isa |= isa_needed(raw, content),
            (DLOPEN_OWNER, DLOPEN) => libraries.extend(dlopen(content)),
            _ => {}
        });
        libraries.truncate(4 * MAX_LIBRARIES);
    }
    libraries.sort_unstable();
    libraries.dedup();
    libraries.truncate(MAX_LIBRARIES);
    facts.build_id = build_id;
    facts.dlopen_notes = libraries;
    facts.x86_isa_needed = isa;
}

/// Returns `GNU_PROPERTY_X86_ISA_1_NEEDED` of a property note: properties of type, size and data,
/// each padded to a word of the class. Source: x86-64 psABI, "Program Property".
fn isa_needed(raw: &Raw<'_>, content: &[u8]) -> u32 {
    const ISA_1_NEEDED: u32 = 0xc000_8002;
    let (mut at, mut isa) = (0usize, 0);
    for _ in 0..MAX_PROPERTIES {
        let mut one = || {
            let (kind, size) = (raw.u32(content, at)?, raw.u32(content, at.checked_add(4)?)?);
            let data = at.checked_add(8)?;
            if kind == ISA_1_NEEDED && size == 4 && raw.machine == EM_X86_64 {
                isa |= raw.u32(content, data)?;
            }
            data.checked_add(size as usize)?.checked_next_multiple_of(raw.word_size())
        };
        match one() {
            Some(next) => at = next,
            None => break,
        }
    }
    isa
}

/// Calls `found` with the owner, type and content of each note in a sequence. A note has the sizes
/// of owner and content and the type, 4 bytes each, then owner and content, each padded to the
/// alignment. Source: gABI, chapter 5, "Note Section"; alignment to 8 if that of the segment is 8,
/// as in glibc (`ELF_NOTE_NEXT_OFFSET`).
fn each(raw: &Raw<'_>, notes: &[u8], align: u64, mut found: impl FnMut(&[u8], u32, &[u8])) {
    let align = if align == 8 { 8 } else { 4 };
    let mut at = 0usize;
    for _ in 0..MAX_NOTES {
        let mut one = || {
            let rest = notes.get(at..)?;
            let (owner_size, size) = (raw.u32(rest, 0)? as usize, raw.u32(rest, 4)? as usize);
            let owner = rest.get(12..12usize.checked_add(owner_size)?)?;
            let start = 12usize.checked_add(owner_size)?.checked_next_multiple_of(align)?;
            let content = rest.get(start..start.checked_add(size)?)?;
            found(owner, raw.u32(rest, 8)?, content);
            at.checked_add(start.checked_add(size)?.checked_next_multiple_of(align)?)
        };
        match one() {
            Some(next) => at = next,
            None => return,
        }
    }
}

#[derive(Deserialize)]
struct Dlopen {
    #[serde(default)]
    soname: Vec<String>,
}

/// Parses a JSON array of objects, each with the names of one library, preferred name first.
fn dlopen(content: &[u8]) -> Vec<String> {
    let end = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let parsed = content.get(..end).filter(|json| json.len() <= MAX_JSON);
    let parsed = parsed.and_then(|json| serde_json::from_slice::<Vec<Dlopen>>(json).ok());
    let names = parsed.unwrap_or_default().into_iter().flat_map(|entry| entry.soname);
    names.filter(|name| name.len() <= MAX_NAME).take(MAX_LIBRARIES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(little: bool) -> Raw<'static> {
        Raw { file: &[], wide: true, little, machine: 62, programs: Vec::new() }
    }

    fn note(
        order: fn(u32) -> [u8; 4],
        owner: &[u8],
        kind: u32,
        content: &[u8],
        align: usize,
    ) -> Vec<u8> {
        let mut bytes = [owner.len() as u32, content.len() as u32, kind].map(order).concat();
        bytes.extend(owner);
        bytes.resize(bytes.len().next_multiple_of(align), 0);
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(align), 0);
        bytes
    }

    fn count(raw: &Raw<'_>, notes: &[u8], align: u64) -> Vec<(Vec<u8>, u32, Vec<u8>)> {
        let mut found = Vec::new();
        each(raw, notes, align, |o, k, c| found.push((o.to_vec(), k, c.to_vec())));
        found
    }

    #[test]
    fn reads_notes_of_either_byte_order_and_alignment() {
        for align in [4, 8] {
            for (little, order) in
                [(true, u32::to_le_bytes as fn(u32) -> _), (false, u32::to_be_bytes)]
            {
                let first = note(order, b"GNU\0", 5, b"12345", align);
                let notes = [first, note(order, b"FDO\0", DLOPEN, b"x", align)].concat();
                let found = count(&raw(little), &notes, align as u64);
                assert_eq!(found[0], (b"GNU\0".to_vec(), 5, b"12345".to_vec()));
                assert_eq!(found[1], (b"FDO\0".to_vec(), DLOPEN, b"x".to_vec()));
                for length in 0..notes.len() {
                    assert!(
                        count(&raw(little), &notes[..length], align as u64).len() <= 2,
                        "{length}"
                    );
                }
            }
        }
        assert_eq!(count(&raw(true), &[0xff; 64], 4), []);
        assert!(count(&raw(true), &[0; 1 << 20], 4).len() <= MAX_NOTES);
    }

    #[test]
    fn reads_the_required_instruction_set() {
        let property = |kind: u32, data: &[u8]| {
            let mut bytes = [kind.to_le_bytes(), (data.len() as u32).to_le_bytes()].concat();
            bytes.extend(data);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            bytes
        };
        let other = property(0xc000_0002, &[3, 0, 0, 0]);
        let both = [other.clone(), property(0xc000_8002, &[5, 0, 0, 0])].concat();
        assert_eq!(isa_needed(&raw(true), &both), 5);
        assert_eq!(isa_needed(&raw(true), &other), 0);
        for length in 0..both.len() {
            assert!([0, 5].contains(&isa_needed(&raw(true), &both[..length])), "{length}");
        }
        assert_eq!(isa_needed(&raw(true), &[0xff; 4096]), 0);
    }

    #[test]
    fn reads_libraries_from_dlopen_notes() {
        let json = br#"[{"feature":"gpu","priority":"suggested","soname":["libfoo.so.2","libfoo.so.1"]},{"soname":["libbar.so"]},{}]"#;
        assert_eq!(dlopen(json), ["libfoo.so.2", "libfoo.so.1", "libbar.so"]);
        assert_eq!(dlopen(&[json.as_slice(), b"\0\0"].concat()).len(), 3);
        for length in 0..json.len() {
            assert!(dlopen(&json[..length]).is_empty());
        }
        let deep = [b'['; 60_000];
        assert!(dlopen(&deep).is_empty());
    }
}
