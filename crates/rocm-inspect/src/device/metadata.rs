//! Counts the kernels of a code object: from its metadata note, otherwise from the symbols of its
//! kernel descriptors. It does not read the kernels' code. Sources: LLVM, `AMDGPUUsage`, "Note
//! Records" and "Code Object Metadata" (MessagePack), and "Symbols" (`.kd`).

use std::collections::{HashMap, HashSet};

use goblin::elf::program_header::{PF_X, PT_LOAD, PT_NOTE};
use goblin::elf::section_header::{SHT_DYNSYM, SHT_NOTE, SHT_SYMTAB};
use rmp::Marker;
use rmp::decode::{read_array_len, read_map_len, read_marker, read_str_len};

use super::elf_headers::{Section, Sections, segments};
use crate::facts::KernelCode;

const NT_AMDGPU_METADATA: u32 = 32;

/// How many segments and sections of notes are read at most; code objects have two.
const MOST_PLACES: usize = 16;

/// The maximum total length of the names in one symbol table.
const MOST_NAMES: usize = 64 << 20;

/// Counts the kernels of the code object that starts with `bytes` and has `size` bytes; `None` if
/// these bytes do not show it.
pub(crate) fn kernels(bytes: &[u8], size: u64) -> Option<u64> {
    let places = segments(bytes).filter(|s| s.kind == PT_NOTE).map(|s| (s.offset, s.size));
    let whole = bytes.len() as u64 == size;
    let sections = Sections::new(if whole { bytes } else { &[] });
    let in_sections = sections.iter().filter(|s| s.kind == SHT_NOTE).map(|s| (s.offset, s.size));
    let mut places = places.chain(in_sections).take(MOST_PLACES);
    let noted = places
        .find_map(|(at, length)| notes(bytes.get(usize::try_from(at).ok()?..)?, length, size));
    if noted.is_some() || !whole {
        return noted;
    }
    [SHT_SYMTAB, SHT_DYNSYM].into_iter().find_map(|kind| {
        let table = sections.iter().find(|section| section.kind == kind)?;
        descriptors(&table, &sections)
    })
}

/// Returns the code size of the `count` kernels in the code object that starts with `bytes` and has
/// `size` bytes: from the symbols if it is complete, otherwise from its executable segments, whose
/// headers are at the start. `None` if these bytes do not show it.
pub(crate) fn code(bytes: &[u8], size: u64, count: u64) -> Option<KernelCode> {
    if bytes.len() as u64 == size {
        let sections = Sections::new(bytes);
        let by_symbols = [SHT_SYMTAB, SHT_DYNSYM].into_iter().find_map(|kind| {
            let table = sections.iter().find(|section| section.kind == kind)?;
            functions(&table, &sections, count)
        });
        if by_symbols.is_some() {
            return by_symbols;
        }
    }
    let executable = segments(bytes).filter(|s| s.kind == PT_LOAD && s.flags & PF_X != 0);
    let bytes = executable.map(|s| s.size).fold(0, u64::saturating_add);
    (bytes > 0).then_some(KernelCode { bytes, empty: 0 })
}

/// The size of the shortest kernel that has an effect: a store of 8 bytes and an `s_endpgm` of 4.
const SHORTEST: u64 = 12;
const STT_FUNC: u8 = 2;

/// Sums up the functions that have a descriptor `<kernel>.kd`; `None` unless there are as many as
/// kernels.
fn functions(table: &Section, sections: &Sections<'_>, count: u64) -> Option<KernelCode> {
    let names = sections.content(table.link as usize).unwrap_or_default();
    let (mut kernels, mut sizes) = (HashSet::new(), HashMap::new());
    let mut left = MOST_NAMES;
    for symbol in sections.bytes_of(table).unwrap_or_default().chunks_exact(24) {
        let at = u32::from_le_bytes([symbol[0], symbol[1], symbol[2], symbol[3]]) as usize;
        let rest = names.get(at..).unwrap_or_default();
        let end = memchr::memchr(0, &rest[..rest.len().min(left)]).unwrap_or(rest.len());
        left = left.checked_sub(end)?;
        let name = &rest[..end];
        if symbol[4] & 0xf == STT_FUNC {
            sizes.insert(
                name,
                symbol[16..].first_chunk().map_or(0, |size| u64::from_le_bytes(*size)),
            );
        } else if let Some(kernel) = name.strip_suffix(b".kd") {
            kernels.insert(kernel);
        }
    }
    if kernels.len() as u64 != count {
        return None;
    }
    kernels.iter().try_fold(KernelCode::default(), |sum, kernel| {
        let bytes = *sizes.get(kernel)?;
        Some(sum.plus(KernelCode { bytes, empty: u64::from(bytes < SHORTEST) }))
    })
}

/// Sums up the notes in the first `length` bytes of `bytes`, which may end within the last one:
/// code linked from several objects has a note for each.
fn notes(mut bytes: &[u8], mut length: u64, size: u64) -> Option<u64> {
    let mut sum: Option<u64> = None;
    // The fixed part of a note: the sizes of its name and content, and its type.
    while length >= 12 {
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let (name, content, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let start = 12 + name.checked_next_multiple_of(4)?;
        if kind == NT_AMDGPU_METADATA && bytes.get(12..12 + name) == Some(b"AMDGPU\0") {
            let metadata = bytes.get(start..)?;
            let count = in_metadata(&metadata[..metadata.len().min(content)])?;
            let possible = count <= (content as u64).min(size);
            sum = Some(sum.unwrap_or(0).checked_add(count).filter(|_| possible)?);
        }
        let end = start.checked_add(content.checked_next_multiple_of(4)?)?;
        length = length.saturating_sub(end as u64);
        if length >= 12 {
            bytes = bytes.get(end..)?;
        }
    }
    sum
}

/// Returns the length of the array `amdhsa.kernels`, which LLVM writes first.
fn in_metadata(mut bytes: &[u8]) -> Option<u64> {
    for _ in 0..read_map_len(&mut bytes).ok()? {
        let length = read_str_len(&mut bytes).ok()? as usize;
        let key = bytes.get(..length)?;
        bytes = &bytes[length..];
        if key == b"amdhsa.kernels" {
            return read_array_len(&mut bytes).ok().map(u64::from);
        }
        skip(&mut bytes)?;
    }
    Some(0)
}

/// Skips one value including nested values.
fn skip(bytes: &mut &[u8]) -> Option<()> {
    let mut values = 1u64;
    while values > 0 {
        let marker = read_marker(bytes).ok()?;
        let mut number = |width: usize| -> Option<u64> {
            let (head, rest) = bytes.split_at_checked(width)?;
            *bytes = rest;
            Some(head.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
        };
        let (length, inner) = match marker {
            Marker::U8 | Marker::I8 => (1, 0),
            Marker::U16 | Marker::I16 => (2, 0),
            Marker::U32 | Marker::I32 | Marker::F32 => (4, 0),
            Marker::U64 | Marker::I64 | Marker::F64 => (8, 0),
            Marker::FixStr(length) => (u64::from(length), 0),
            Marker::Str8 | Marker::Bin8 => (number(1)?, 0),
            Marker::Str16 | Marker::Bin16 => (number(2)?, 0),
            Marker::Str32 | Marker::Bin32 => (number(4)?, 0),
            Marker::FixArray(count) => (0, u64::from(count)),
            Marker::FixMap(count) => (0, 2 * u64::from(count)),
            Marker::Array16 => (0, number(2)?),
            Marker::Array32 => (0, number(4)?),
            Marker::Map16 => (0, 2 * number(2)?),
            Marker::Map32 => (0, 2 * number(4)?),
            Marker::FixPos(_) | Marker::FixNeg(_) | Marker::Null | Marker::True | Marker::False => {
                (0, 0)
            }
            // Extensions do not occur in this metadata.
            _ => return None,
        };
        *bytes = bytes.get(usize::try_from(length).ok()?..)?;
        // Every value takes at least one byte, so the loop ends with the bytes.
        values = values - 1 + inner;
    }
    Some(())
}

/// Counts the symbols `<kernel>.kd`; `None` if their names together are longer than any compiler
/// makes them.
fn descriptors(table: &Section, sections: &Sections<'_>) -> Option<u64> {
    let names = sections.content(table.link as usize).unwrap_or_default();
    let (mut count, mut left) = (0, MOST_NAMES);
    for symbol in sections.bytes_of(table).unwrap_or_default().chunks_exact(24) {
        let at = u32::from_le_bytes([symbol[0], symbol[1], symbol[2], symbol[3]]) as usize;
        let rest = names.get(at..).unwrap_or_default();
        let end = memchr::memchr(0, &rest[..rest.len().min(left)]).unwrap_or(rest.len());
        left = left.checked_sub(end)?;
        let defined = symbol[6] != 0 || symbol[7] != 0;
        count += u64::from(defined && rest[..end].ends_with(b".kd"));
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use goblin::elf::section_header::SHT_STRTAB;

    use super::*;
    use crate::testing::{code_object, flip_bytes, kernels_object};

    #[test]
    fn counts_kernels_in_the_note() {
        for count in [0, 1, 15, 16, 70_000] {
            let object = kernels_object("gfx1151", count);
            assert_eq!(kernels(&object, object.len() as u64), Some(u64::from(count)));
            // The start of the note is enough.
            let front = &object[..object.len().min(300)];
            assert_eq!(kernels(front, object.len() as u64), Some(u64::from(count)));
        }
    }

    #[test]
    fn sums_the_notes_of_all_objects() {
        let one = kernels_object("gfx1151", 3);
        let note = |count| kernels_object("gfx1151", count)[120..].to_vec();
        let other = [[4u32, 4, 3].map(u32::to_le_bytes).concat(), b"GNU\0ids!".to_vec()].concat();
        let padded = |mut note: Vec<u8>| {
            note.resize(note.len().next_multiple_of(4), 0);
            note
        };
        let notes = [other.clone(), padded(note(3)), other, padded(note(4)), note(5)].concat();
        let mut object = one[..120].to_vec();
        object[96..104].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        object.extend(&notes);
        let size = object.len() as u64;
        assert_eq!(kernels(&object, size), Some(12));
        // A truncated note is not guessed.
        assert_eq!(kernels(&object[..object.len() - note(5).len()], size), None);
        // Notes after the end of the segment do not count.
        object[96..104].copy_from_slice(&(notes.len() as u64 - note(5).len() as u64).to_le_bytes());
        assert_eq!(kernels(&object, size), Some(7));
    }

    #[test]
    fn skips_keys_before_the_kernels() {
        let mut bytes = b"\x83\xa1a\x93\xc0\xcd\x01\x02\xa2bc\xa1b\x81\xa1x\xd9\x03abc".to_vec();
        bytes.extend(b"\xaeamdhsa.kernels\xdc\x01\x00");
        assert_eq!(in_metadata(&bytes), Some(256));
        for length in 0..bytes.len() {
            assert_eq!(in_metadata(&bytes[..length]), None, "{length}");
        }
        // States more values than there are.
        assert_eq!(in_metadata(b"\x81\xa1a\xdf\xff\xff\xff\xff\xc0"), None);
        assert_eq!(in_metadata(b"\x81\xa1a\xc0"), Some(0));
    }

    #[test]
    fn skips_values_of_every_width() {
        let values: [&[u8]; 28] = [
            b"\xc0",
            b"\xc2",
            b"\xc3",
            b"\x05",
            b"\xff",
            b"\xcc\x01",
            b"\xd0\x01",
            b"\xcd\x01\x02",
            b"\xd1\x01\x02",
            b"\xce\x01\x02\x03\x04",
            b"\xd2\x01\x02\x03\x04",
            b"\xca\x01\x02\x03\x04",
            b"\xcf\x01\x02\x03\x04\x05\x06\x07\x08",
            b"\xd3\x01\x02\x03\x04\x05\x06\x07\x08",
            b"\xcb\x01\x02\x03\x04\x05\x06\x07\x08",
            b"\xa2ab",
            b"\xd9\x02ab",
            b"\xc4\x02ab",
            b"\xda\x00\x02ab",
            b"\xc5\x00\x02ab",
            b"\xdb\x00\x00\x00\x02ab",
            b"\xc6\x00\x00\x00\x02ab",
            b"\x92\xc0\xc0",
            b"\x81\xc0\xc0",
            b"\xdc\x00\x02\xc0\xc0",
            b"\xdd\x00\x00\x00\x02\xc0\xc0",
            b"\xde\x00\x01\xc0\xc0",
            b"\xdf\x00\x00\x00\x01\xc0\xc0",
        ];
        for value in values {
            let bytes = [&b"\x82\xa1a"[..], value, b"\xaeamdhsa.kernels\x93"].concat();
            assert_eq!(in_metadata(&bytes), Some(3), "{value:02x?}");
        }
    }

    #[test]
    fn counts_defined_descriptors_without_a_note() {
        // Name, section and the lowest byte of the value of each symbol.
        let symbols = [
            ("a.kd", 1u16, 0u8),
            ("b.kd", 0x100, 0),
            ("c.kd", 0x100, 0),
            ("elsewhere.kd", 0, 1),
            ("elsewhere.kd", 0, 0),
            ("a", 1, 1),
        ];
        let (mut table, mut names) = (vec![0; 24], vec![0]);
        for (name, section, value) in symbols {
            table.extend((names.len() as u32).to_le_bytes());
            table.extend([0, 0]);
            table.extend(section.to_le_bytes());
            table.push(value);
            table.extend([0; 15]);
            names.extend(name.bytes().chain([0]));
        }
        let mut object = code_object("gfx1151", 64);
        object.extend([&table[..], &names].concat());
        let start = object.len() as u64;
        for (kind, at, size) in
            [(SHT_SYMTAB, 64, table.len()), (SHT_STRTAB, 64 + table.len(), names.len())]
        {
            object.extend([0, kind, 0, 0, 0, 0].map(u32::to_le_bytes).concat());
            object.extend([at as u64, size as u64, 1, 0, 0].map(u64::to_le_bytes).concat());
        }
        object[40..48].copy_from_slice(&start.to_le_bytes());
        object[58..62].copy_from_slice(&[64, 0, 2, 0]);
        assert_eq!(kernels(&object, object.len() as u64), Some(3));
        // The symbol table of an incomplete object is not available.
        assert_eq!(kernels(&object, object.len() as u64 + 1), None);
    }

    #[test]
    fn ignores_a_count_beyond_the_note() {
        let mut object = kernels_object("gfx1151", 70_000);
        let at = object.windows(4).position(|w| w == 70_000u32.to_be_bytes()).unwrap();
        object[at] = 0xff;
        assert_eq!(kernels(&object, object.len() as u64), None);
    }

    #[test]
    fn reads_repeated_notes_a_limited_number_of_times() {
        // An unterminated array in the first key, so that no note has a result.
        let metadata = [&b"\x81\xa1a\xdd\xff\xff\xff\xff"[..], &[0xc0; 1 << 20]].concat();
        let count = 60_000;
        let mut object = kernels_object("gfx1151", 0);
        object.truncate(64);
        object[54..58].copy_from_slice(&[56u16, count].map(u16::to_le_bytes).concat());
        let at = 64 + 56 * u64::from(count);
        for _ in 0..count {
            object.extend([4u32, 4].map(u32::to_le_bytes).concat());
            object.extend([at, 0, 0, 2 << 20, 0, 4].map(u64::to_le_bytes).concat());
        }
        object.extend([7, metadata.len() as u32, 32].map(u32::to_le_bytes).concat());
        object.extend(b"AMDGPU\0\0");
        object.extend(metadata);
        let start = std::time::Instant::now();
        assert_eq!(kernels(&object, object.len() as u64), None);
        // 60 GB would take minutes.
        assert!(start.elapsed().as_secs() < 30);
    }

    #[test]
    fn ignores_headers_without_size() {
        let object = kernels_object("gfx1151", 3);
        for size in [0, 1, 55] {
            let mut object = object.clone();
            object[54..58].copy_from_slice(&[size, u16::MAX].map(u16::to_le_bytes).concat());
            assert_eq!(segments(&object).count(), 0);
            assert_eq!(kernels(&object, object.len() as u64), None);
        }
        let mut object = code_object("gfx1151", 300);
        assert_eq!(Sections::new(&object).iter().count(), 1);
        object[58..62].copy_from_slice(&[0, 0, 0xff, 0xff]);
        assert_eq!(Sections::new(&object).iter().count(), 0);
    }

    #[test]
    fn survives_truncation_and_corruption() {
        let object = kernels_object("gfx1151", 3);
        for length in 0..object.len() {
            kernels(&object[..length], object.len() as u64);
            kernels(&object[..length], length as u64);
        }
        flip_bytes(&object, 5000, |bytes| {
            kernels(bytes, bytes.len() as u64);
        });
    }
}
