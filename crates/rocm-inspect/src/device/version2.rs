//! Reads the target of a code object of version 2, which older compilers wrote: its flags do not state
//! one, but a note does. Source: LLVM, `AMDGPUUsage`, "Code Object V2 Note Records".

use goblin::elf::program_header::PT_NOTE;
use goblin::elf::section_header::SHT_NOTE;

use super::elf_headers::{Sections, number, segments};
use rocmrpm_base::gpu::GpuTarget;

const NT_AMD_HSA_ISA_VERSION: u64 = 3;

/// How many segments and sections of notes are read at most.
const MOST_PLACES: usize = 16;

/// How many notes of a segment or section are read at most; compilers write about four.
const MOST_NOTES: usize = 64;

/// The target of each version of the instruction set: major, minor, stepping. Source: ROCR-Runtime,
/// `AmdHsaCode::GetIsa`; ROCm 2 also wrote gfx908. XNACK that is off is not part of the name, as in
/// targets of version 3.
const TARGETS: [([u64; 3], &str); 26] = [
    ([6, 0, 0], "gfx600"),
    ([6, 0, 1], "gfx601"),
    ([6, 0, 2], "gfx602"),
    ([7, 0, 0], "gfx700"),
    ([7, 0, 1], "gfx701"),
    ([7, 0, 2], "gfx702"),
    ([7, 0, 3], "gfx703"),
    ([7, 0, 4], "gfx704"),
    ([7, 0, 5], "gfx705"),
    ([8, 0, 0], "gfx802"),
    ([8, 0, 1], "gfx801:xnack+"),
    ([8, 0, 2], "gfx802"),
    ([8, 0, 3], "gfx803"),
    ([8, 0, 4], "gfx803"),
    ([8, 0, 5], "gfx805"),
    ([8, 1, 0], "gfx810:xnack+"),
    ([9, 0, 0], "gfx900"),
    ([9, 0, 1], "gfx900:xnack+"),
    ([9, 0, 2], "gfx902"),
    ([9, 0, 3], "gfx902:xnack+"),
    ([9, 0, 4], "gfx904"),
    ([9, 0, 5], "gfx904:xnack+"),
    ([9, 0, 6], "gfx906"),
    ([9, 0, 7], "gfx906:xnack+"),
    ([9, 0, 8], "gfx908"),
    ([9, 0, 12], "gfx90c"),
];

/// Returns the target of the code object that starts with `bytes` and has `size` bytes; `None` if
/// these bytes do not show it.
pub(super) fn target(bytes: &[u8], size: u64) -> Option<GpuTarget> {
    let places = segments(bytes).filter(|s| s.kind == PT_NOTE).map(|s| (s.offset, s.size));
    let sections = Sections::new(if bytes.len() as u64 == size { bytes } else { &[] });
    let in_sections = sections.iter().filter(|s| s.kind == SHT_NOTE).map(|s| (s.offset, s.size));
    places.chain(in_sections).take(MOST_PLACES).find_map(|(start, length)| {
        let end = start.checked_add(length)?.min(bytes.len() as u64);
        in_notes(bytes.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)?)
    })
}

fn in_notes(mut bytes: &[u8]) -> Option<GpuTarget> {
    for _ in 0..MOST_NOTES {
        // The sizes of its name and content, its type, the name, and the content.
        let [name, content] = [0, 4].map(|at| number::<4>(bytes, at));
        let (name, content) = (usize::try_from(name?).ok()?, usize::try_from(content?).ok()?);
        let start = name.checked_next_multiple_of(4)?.checked_add(12)?;
        if number::<4>(bytes, 8)? == NT_AMD_HSA_ISA_VERSION
            && bytes.get(12..12 + name) == Some(b"AMD\0")
        {
            // Two sizes of names in 16 bits, then the version.
            let isa = bytes.get(start..)?;
            let isa = [number::<4>(isa, 4)?, number::<4>(isa, 8)?, number::<4>(isa, 12)?];
            let (_, name) = TARGETS.iter().find(|(version, _)| *version == isa)?;
            return GpuTarget::parse(name);
        }
        bytes = bytes.get(start.checked_add(content.checked_next_multiple_of(4)?)?..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::code_object::{Object, examine};
    use crate::finding::Depth;
    use crate::testing::{flip_bytes, kernels_object};

    fn note(kind: u32, content: &[u8]) -> Vec<u8> {
        let mut note = [4, content.len() as u32, kind].map(u32::to_le_bytes).concat();
        note.extend(b"AMD\0");
        note.extend(content);
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    /// Returns a code object of version 2 for this version of the instruction set.
    fn object(isa: [u32; 3]) -> Vec<u8> {
        let names = [4u16, 7].map(u16::to_le_bytes).concat();
        let isa = [names, isa.map(u32::to_le_bytes).concat(), b"AMD\0AMDGPU\0".to_vec()].concat();
        let notes = [note(1, &[2, 0, 0, 0, 1, 0, 0, 0]), note(3, &isa), note(10, b"---")].concat();
        // The one segment of this sample is for notes.
        let mut object = kernels_object("gfx1151", 0);
        object.truncate(120);
        object[8] = 0;
        object[48..52].fill(0);
        object[96..104].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        object.extend(notes);
        object
    }

    fn target_of(bytes: &[u8]) -> Option<String> {
        match examine(bytes, bytes.len() as u64, Depth::Quick) {
            Ok((Object::Amdgpu { target, version: Some(2), .. }, _)) => {
                target.map(|target| target.to_string())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reads_the_target_in_the_note() {
        assert_eq!(target_of(&object([8, 0, 3])).as_deref(), Some("gfx803"));
        assert_eq!(target_of(&object([9, 0, 1])).as_deref(), Some("gfx900:xnack+"));
        assert_eq!(target_of(&object([9, 0, 6])).as_deref(), Some("gfx906"));
        assert_eq!(target_of(&object([10, 1, 0])), None);
        let whole = object([9, 0, 0]);
        assert_eq!(target(&whole[..150], whole.len() as u64), None, "the note is cut");
    }

    #[test]
    fn knows_every_target_in_the_table() {
        for (_, name) in TARGETS {
            assert!(GpuTarget::parse(name).is_some(), "{name}");
        }
    }

    #[test]
    fn survives_random_corruption() {
        let bytes = object([9, 0, 0]);
        flip_bytes(&bytes[64..], 3000, |changed| {
            let all = [&bytes[..64], changed].concat();
            drop(target(&all, all.len() as u64));
        });
    }
}
