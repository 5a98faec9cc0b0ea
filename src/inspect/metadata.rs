//! How many kernels a code object has: from its metadata note, else from its
//! kernel descriptors' symbols. Sources: LLVM, `AMDGPUUsage`, "Note Records" and
//! "Code Object Metadata" (MessagePack), and "Symbols" (`.kd`).

use rmp::Marker;
use rmp::decode::{read_array_len, read_map_len, read_marker, read_str_len};

use super::code_object::{Section, Sections, segments};

const PT_NOTE: u32 = 4;
const SHT_SYMTAB: u32 = 2;
const SHT_NOTE: u32 = 7;
const SHT_DYNSYM: u32 = 11;
const NT_AMDGPU_METADATA: u32 = 32;

/// How long the names of one symbol table may be together.
const MOST_NAMES: usize = 64 << 20;

/// Counts the kernels of the code object that begins with `bytes` and has `size`
/// bytes; `None` where what is there does not tell.
pub(super) fn kernels(bytes: &[u8], size: u64) -> Option<u64> {
    let notes = segments(bytes).filter(|s| s.kind == PT_NOTE).map(|s| s.offset);
    let whole = bytes.len() as u64 == size;
    let sections = Sections::new(if whole { bytes } else { &[] });
    let in_sections = sections.iter().filter(|s| s.kind == SHT_NOTE).map(|s| s.offset);
    let mut places = notes.chain(in_sections);
    let noted = places.find_map(|at| note(bytes.get(usize::try_from(at).ok()?..)?, size));
    if noted.is_some() || !whole {
        return noted;
    }
    [SHT_SYMTAB, SHT_DYNSYM].into_iter().find_map(|kind| {
        let table = sections.iter().find(|section| section.kind == kind)?;
        descriptors(&table, &sections)
    })
}

/// Reads the first notes at the beginning of `bytes`, which may end within them.
fn note(mut bytes: &[u8], size: u64) -> Option<u64> {
    // Notes beside the one that counts are few and small.
    for _ in 0..16 {
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let (name, length, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let start = 12 + name.checked_next_multiple_of(4)?;
        let content = bytes.get(start..)?;
        if kind == NT_AMDGPU_METADATA && bytes.get(12..12 + name) == Some(b"AMDGPU\0") {
            let content = &content[..content.len().min(length)];
            return in_metadata(content).filter(|count| *count <= (length as u64).min(size));
        }
        bytes = content.get(length.checked_next_multiple_of(4)?..)?;
    }
    None
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

/// Passes over one value with all that is in it.
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
            Marker::FixPos(_) | Marker::FixNeg(_) | Marker::Null | Marker::True | Marker::False => (0, 0),
            // Extensions do not occur in this metadata.
            _ => return None,
        };
        *bytes = bytes.get(usize::try_from(length).ok()?..)?;
        // Every value takes a byte at least, so this ends with the bytes.
        values = values - 1 + inner;
    }
    Some(())
}

/// Counts the symbols `<kernel>.kd`; `None` where their names are longer together
/// than any compiler makes them.
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
    use super::*;
    use crate::inspect::testing::{flip_bytes, kernels_object};

    #[test]
    fn kernels_are_counted_in_the_note() {
        for count in [0, 1, 15, 16, 70_000] {
            let object = kernels_object("gfx1151", count);
            assert_eq!(kernels(&object, object.len() as u64), Some(u64::from(count)));
            // The beginning of the note is enough.
            let front = &object[..object.len().min(300)];
            assert_eq!(kernels(front, object.len() as u64), Some(u64::from(count)));
        }
    }

    #[test]
    fn keys_before_the_kernels_are_passed_over() {
        let mut bytes = b"\x83\xa1a\x93\xc0\xcd\x01\x02\xa2bc\xa1b\x81\xa1x\xd9\x03abc".to_vec();
        bytes.extend(b"\xaeamdhsa.kernels\xdc\x01\x00");
        assert_eq!(in_metadata(&bytes), Some(256));
        for length in 0..bytes.len() {
            assert_eq!(in_metadata(&bytes[..length]), None, "{length}");
        }
        // A number of values that are not there.
        assert_eq!(in_metadata(b"\x81\xa1a\xdf\xff\xff\xff\xff\xc0"), None);
        assert_eq!(in_metadata(b"\x81\xa1a\xc0"), Some(0));
    }

    #[test]
    fn a_count_beyond_the_note_is_no_count() {
        let mut object = kernels_object("gfx1151", 70_000);
        let at = object.windows(4).position(|w| w == 70_000u32.to_be_bytes()).unwrap();
        object[at] = 0xff;
        assert_eq!(kernels(&object, object.len() as u64), None);
    }

    #[test]
    fn truncations_and_corruption_never_panic() {
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
