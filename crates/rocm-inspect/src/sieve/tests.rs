//! Tests that a quick inspection reads nothing of the skipped parts: a sieved file has the same
//! facts as the file on disk.

use super::*;
use crate::file::facts;
use crate::finding::Depth;
use crate::image::{MemberError, sieved};
use crate::testing::{Method, aligned, bundle, ccob, code_object, flip_bytes};

const TEXT: usize = 0x2000;

/// A host ELF file with separate code and data: `.text` of `text` bytes, and `.hip_fatbin` in a
/// writable segment after it.
struct Laid {
    text: usize,
    fatbin: Vec<u8>,
    /// Replacements for section headers: index, flags, offset, size.
    sections: Vec<(usize, u64, u64, u64)>,
    /// An additional program header: type, flags, offset, size.
    program: Option<(u32, u32, u64, u64)>,
}

impl Laid {
    fn new(text: usize, fatbin: &[u8]) -> Self {
        Self { text, fatbin: fatbin.to_vec(), sections: Vec::new(), program: None }
    }

    fn fatbin_at(&self) -> usize {
        (TEXT + self.text).next_multiple_of(PAGE)
    }

    fn build(&self) -> Vec<u8> {
        let fatbin = self.fatbin_at();
        let names = b"\0.text\0.hip_fatbin\0.shstrtab\0";
        let names_at = fatbin + self.fatbin.len();
        let shoff = (names_at + names.len()).next_multiple_of(8);
        let mut programs = vec![
            (1u32, 4u32, 0u64, TEXT as u64),
            (1, 5, TEXT as u64, self.text as u64),
            (1, 6, fatbin as u64, self.fatbin.len() as u64),
        ];
        programs.extend(self.program);
        let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec();
        bytes.extend([0, 64, shoff as u64].iter().flat_map(|n: &u64| n.to_le_bytes()));
        bytes.extend([0; 4]);
        let counts = [64, 56, programs.len() as u16, 64, 4, 3];
        bytes.extend(counts.iter().flat_map(|n: &u16| n.to_le_bytes()));
        for (kind, flags, offset, size) in programs {
            bytes.extend([kind.to_le_bytes(), flags.to_le_bytes()].concat());
            let numbers = [offset, offset, offset, size, size, 4096];
            bytes.extend(numbers.iter().flat_map(|n: &u64| n.to_le_bytes()));
        }
        bytes.resize(TEXT, 1);
        bytes.extend((0..self.text).map(|n| (n / 3) as u8 | 1));
        bytes.resize(fatbin, 0);
        bytes.extend(&self.fatbin);
        bytes.extend(names);
        bytes.resize(shoff, 0);
        let mut sections = [
            (0u32, 0u32, 0u64, 0u64, 0u64),
            (1, 1, 6, TEXT as u64, self.text as u64),
            (7, 1, 3, fatbin as u64, self.fatbin.len() as u64),
            (19, 3, 0, names_at as u64, names.len() as u64),
        ];
        for (number, flags, offset, size) in &self.sections {
            let section = &mut sections[*number];
            (section.2, section.3, section.4) = (*flags, *offset, *size);
        }
        for (name, kind, flags, offset, size) in sections {
            bytes.extend([name.to_le_bytes(), kind.to_le_bytes()].concat());
            let numbers = [flags, offset, offset, size, 0, 1, 0];
            bytes.extend(numbers.iter().flat_map(|n: &u64| n.to_le_bytes()));
        }
        bytes
    }
}

fn plain(target: &str, size: usize) -> Vec<u8> {
    let id = format!("hipv4-amdgcn-amd-amdhsa--{target}");
    let host = ("host-x86_64-unknown-linux-gnu-", &[][..]);
    bundle(&[host, (&id, &code_object(target, size)), (&id, &code_object(target, size / 2))])
}

fn quick(bytes: &[u8]) -> serde_json::Value {
    serde_json::to_value(facts("libk.so".into(), bytes.len() as u64, bytes, Depth::Quick)).unwrap()
}

/// Compares the facts and returns how many pages were skipped; `None` if the file must be read
/// again.
fn left_out(bytes: &[u8]) -> Option<usize> {
    match sieved(bytes) {
        Ok(image) => {
            assert_eq!(image.len(), bytes.len());
            assert_eq!(quick(&image), quick(bytes));
            let pages = image.chunks(PAGE).zip(bytes.chunks(PAGE));
            let other: Vec<_> = pages.filter(|(ours, theirs)| ours != theirs).collect();
            assert!(other.iter().all(|(ours, _)| ours.iter().all(|byte| *byte == 0)));
            Some(other.len())
        }
        Err(MemberError::Again) => None,
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn skips_code_of_both_kinds() {
    let pieces = [
        plain("gfx1151", 100_000),
        ccob(&plain("gfx1100", 3 << 20), 3, Method::Zstd),
        plain("gfx1030", 5000),
        ccob(&plain("gfx1201", 3 << 20), 2, Method::Zlib),
        ccob(&plain("gfx90a", 1 << 20), 1, Method::Zstd),
        code_object("gfx1151", 50_000),
        plain("gfx1100", 300),
    ];
    let large = pieces[1].len().min(pieces[3].len());
    assert!(large > 2 * LOOKAHEAD);
    let bytes = Laid::new(300_000, &aligned(&pieces)).build();
    let pages = left_out(&bytes).unwrap();
    // The text, the entries of two plain bundles, and the rest of two compressed ones.
    let compressed = if TABLES_ONLY { 2 * (large - LOOKAHEAD) / PAGE - 4 } else { 0 };
    assert!(pages > 70 + 30 + compressed, "{pages}");
    assert_eq!(quick(&bytes)["bundles"], 6);
}

#[test]
fn skips_nothing_in_unusual_files() {
    let fatbin = plain("gfx1151", 100_000);
    let whole = Laid::new(100_000, &fatbin).build();
    assert!(left_out(&whole).unwrap() > 40);
    let patched = |at: usize, value: &[u8]| {
        let mut bytes = whole.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    };
    for (what, bytes) in [
        ("no section headers", patched(60, &[0, 0])),
        ("an AMD GPU", patched(18, &224u16.to_le_bytes())),
        ("program headers of the wrong size", patched(54, &[57])),
        ("a segment beyond the end", patched(64 + 56 + 32, &u64::MAX.to_le_bytes())),
        ("segments that overlap", patched(64 + 32, &0x3000u64.to_le_bytes())),
        ("32 bits", patched(4, &[1])),
    ] {
        assert_eq!(left_out(&bytes), Some(0), "{what}");
    }
    // If data is not separate from code, code is kept.
    let together = patched(64 + 4, &5u32.to_le_bytes());
    assert!(left_out(&together).unwrap() < left_out(&whole).unwrap());
    let notes = Laid { program: Some((4, 4, 0x5000, 32)), ..Laid::new(100_000, &fatbin) };
    assert!(left_out(&notes.build()).unwrap() < left_out(&whole).unwrap());
}

#[test]
fn keeps_unusual_bundles() {
    let whole = plain("gfx1151", 100_000);
    let first = 32 + 24 + "host-x86_64-unknown-linux-gnu-".len();
    let patched = |at: usize, value: u64| {
        let mut bytes = whole.clone();
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        bytes
    };
    let object = 4096;
    for (what, fatbin) in [
        ("no entries", patched(24, 0)),
        ("too many entries", patched(24, u64::MAX)),
        ("an entry beyond the file", patched(first + 8, 1 << 40)),
        ("an endless entry", patched(first + 8, u64::MAX)),
        ("an entry in the table", patched(first, 8)),
        ("entries that overlap", patched(first + 8, 150_000)),
        ("an endless ID", patched(first + 16, 1 << 20)),
        ("no code object", patched(object, 0)),
        ("an unaligned entry", [&whole[..], &[0; 4096]].concat()[..].to_vec()),
    ] {
        let file = Laid::new(100, &fatbin).build();
        let pages = left_out(&file).unwrap();
        let limit =
            if what.starts_with("no code") || what.starts_with("an unaligned") { 40 } else { 0 };
        assert!(pages <= limit, "{what}: {pages}");
    }
    let compressed = ccob(&plain("gfx1151", 3 << 20), 3, Method::Zstd);
    for (at, value) in [(4, 4u8), (6, 2), (15, 1), (40, 0x55)] {
        let mut fatbin = compressed.clone();
        fatbin[at] = value;
        assert_eq!(left_out(&Laid::new(100, &fatbin).build()), Some(0), "{at}");
    }
}

#[test]
fn rereads_files_with_sections_in_skipped_parts() {
    let fatbin = plain("gfx1151", 100_000);
    let laid = || Laid::new(100_000, &fatbin);
    let at = laid().fatbin_at() as u64;
    let (flags, size) = (3, fatbin.len() as u64);
    for sections in [
        // Data in the middle of the code.
        vec![(1, 2, 0x8000, 100)],
        vec![(2, flags, 0x8000, size)],
        // A section that starts or ends inside a bundle.
        vec![(2, flags, at, size - 60_000)],
        vec![(2, flags, at + 8192, size - 8192)],
    ] {
        let bytes = Laid { sections: sections.clone(), ..laid() }.build();
        assert_eq!(left_out(&bytes), None, "{sections:?}");
    }
    let inside = Laid { program: Some((4, 4, at + 8192, 100)), ..laid() };
    assert_eq!(left_out(&inside.build()), None);
    let mut dynamic = Laid { program: Some((2, 6, 0x1000, 32)), ..laid() }.build();
    dynamic[0x1000..0x1020].copy_from_slice(
        &[5u64, 0x8000, 0, 0].iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>(),
    );
    assert_eq!(left_out(&dynamic), None);
}

#[test]
fn reads_the_same_facts_from_corrupt_files() {
    let pieces = [
        plain("gfx1151", 20_000),
        ccob(&plain("gfx1100", 500_000), 3, Method::Zstd),
        plain("gfx1030", 9000),
    ];
    let whole = Laid::new(20_000, &aligned(&pieces)).build();
    let fatbin = Laid::new(20_000, &[]).fatbin_at();
    // Most of the decisive fields are in the headers and the tables.
    for place in
        [0..250, fatbin..fatbin + 200, fatbin + 4096..fatbin + 4200, whole.len() - 256..whole.len()]
    {
        flip_bytes(&whole[place.clone()], 100, |part| {
            let mut bytes = whole.clone();
            bytes.splice(place.clone(), part.iter().copied());
            if !bytes.is_empty() {
                left_out(&bytes);
            }
        });
    }
}
