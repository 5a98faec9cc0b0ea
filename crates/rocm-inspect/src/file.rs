//! Determines what one file contains: passes its bytes to the readers and combines their results.
//! It does not know where the bytes come from.

use goblin::elf::header::ELFMAG;

use super::code_object::EM_AMDGPU;
use super::device::Device;
use super::elf_headers::Sections;
use super::facts::{Damage, ElfFacts, FileFacts, Storage};
use super::finding::Depth;
use super::{ar, bundle, ccob, data_files, elf, kpack};

/// The alignment of bundles in the section made for them.
const ALIGNMENT: usize = 4096;

const ET_REL: u16 = 1;

/// The first bytes of LLVM bitcode: the code of device functions that are linked across object
/// files (`-fgpu-rdc`).
const BITCODE: &[u8] = b"BC\xc0\xde";

/// Collects what one file of `size` bytes contains. `bytes` is its whole content, or empty if its
/// name is enough.
pub(super) fn facts(path: String, size: u64, bytes: &[u8], depth: Depth) -> FileFacts {
    if bytes.starts_with(kpack::MAGIC) {
        return kpack::facts(path, size, bytes, depth);
    }
    let mut device = Device::new(bytes, depth);
    let mut facts = FileFacts::default();
    if bytes.starts_with(ar::MAGIC) {
        archive(&mut device, bytes);
    } else if bytes.starts_with(ELFMAG) {
        if is_device(bytes) {
            device.whole_file();
        }
        match elf::read(bytes, depth) {
            Ok(host) => {
                host.damage.into_iter().for_each(|damage| device.damaged(damage));
                places(&mut device, bytes, 0, &host.places, &host.facts, None);
                // Separate debugging data has only the section's header.
                if let Some(range) = host.places.kpack_reference.filter(|_| !host.facts.debug) {
                    device.elsewhere(Storage::Kpack);
                    match kpack::reference(bytes, range, &host.places.wrappers) {
                        Ok(reference) => facts.kpack_reference = Some(reference),
                        Err(damage) => device.damaged(damage),
                    }
                }
                facts.elf = Some(host.facts);
            }
            Err(damage) => device.damaged(damage),
        }
    } else if let Some((targets, storage)) = data_files::look(&path).filter(|_| !is_bundle(bytes)) {
        targets.into_iter().for_each(|target| device.named(target, storage, size));
    } else {
        device.whole_file();
    }
    let gathered = device.finish();
    FileFacts {
        path,
        size,
        bundles: gathered.bundles,
        device: gathered.code,
        damage: gathered.damage,
        mismatches: gathered.mismatches,
        wrong_hashes: gathered.wrong_hashes,
        out_of_memory: gathered.out_of_memory,
        ..facts
    }
}

fn is_device(bytes: &[u8]) -> bool {
    bytes.get(18..20) == Some(&EM_AMDGPU.to_le_bytes())
}

fn is_bundle(bytes: &[u8]) -> bool {
    bytes.starts_with(bundle::MAGIC) || bytes.starts_with(ccob::MAGIC)
}

/// Reads the device code of the ELF file `bytes`, which starts at offset `base` of the inspected
/// file. `storage` overrides the storage that the ELF file's sections imply.
fn places(
    device: &mut Device<'_>,
    bytes: &[u8],
    base: usize,
    places: &elf::CodeRanges,
    facts: &ElfFacts,
    storage: Option<Storage>,
) {
    let shift = |range: &std::ops::Range<usize>| range.start + base..range.end + base;
    for range in &places.fatbins {
        device.walk(shift(range), storage.unwrap_or(Storage::HipFatbin));
    }
    for range in &places.offloading {
        device.offload_binaries(shift(range), storage.unwrap_or(Storage::OffloadBinary));
    }
    let taken = match bytes.get(16..18) == Some(&ET_REL.to_le_bytes()) {
        true => target_sections(device, bytes, base, storage.unwrap_or(Storage::OtherSection)),
        false => Vec::new(),
    };
    // Code objects are not searched for further code objects.
    if is_device(bytes) || facts.debug {
        return;
    }
    // Without section headers, the alignment still shows that the compiler put a bundle where the
    // runtime finds it.
    let found = |at: usize| match storage {
        Some(storage) => storage,
        None if !facts.has_sections && (at - base).is_multiple_of(ALIGNMENT) => Storage::HipFatbin,
        None => Storage::OtherSection,
    };
    for range in elf::without(places.others.clone(), &taken) {
        device.search(shift(&range), found);
    }
}

/// Reads the sections `__CLANG_OFFLOAD_BUNDLE__<id>`, in which the bundler stores the code of each
/// target in object files, and returns their ranges, sorted. Source: LLVM, `ClangOffloadBundler`.
fn target_sections(
    device: &mut Device<'_>,
    bytes: &[u8],
    base: usize,
    storage: Storage,
) -> Vec<std::ops::Range<usize>> {
    let sections = Sections::new(bytes);
    let found = sections.iter().filter_map(|section| {
        let id = sections.name(&section)?.strip_prefix(bundle::MAGIC)?;
        // The host's own section is one byte, or the object file itself.
        let is_code = |content: &&[u8]| content.starts_with(ELFMAG) || content.starts_with(BITCODE);
        let content = sections.bytes_of(&section).filter(is_code)?;
        Some((section.offset as usize, content.len(), id))
    });
    let mut found: Vec<_> = found.collect();
    found.sort_unstable();
    let mut taken: Vec<std::ops::Range<usize>> = Vec::new();
    for (start, length, id) in found {
        // Thousands of sections with the same bytes would cost thousands of times the work.
        if taken.last().is_some_and(|last| start < last.end) {
            let what = "has sections of device code that overlap".to_owned();
            device.damaged(Damage { elf: true, offset: (base + start) as u64, what });
            continue;
        }
        let end = start + length;
        device.identified(&String::from_utf8_lossy(id), base + start..base + end, storage);
        taken.push(start..end);
    }
    taken
}

fn archive(device: &mut Device<'_>, file: &[u8]) {
    for member in ar::members(file) {
        let range = match member {
            Ok(range) => range,
            Err(broken) => {
                return device.damaged(Damage { elf: false, offset: broken.at, what: broken.what });
            }
        };
        let bytes = &file[range.clone()];
        let storage = Storage::StaticArchive;
        if is_bundle(bytes) {
            device.walk(range, storage);
        } else if bytes.starts_with(ELFMAG) && is_device(bytes) {
            device.code_object(range, storage, "");
        } else if bytes.starts_with(ELFMAG)
            // Archives may contain objects of other kinds too, which are ignored.
            && let Ok(host) = elf::read(bytes, Depth::Quick)
        {
            places(device, bytes, range.start, &host.places, &host.facts, Some(storage));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        HostElf, aligned, archive, bundle, code_object, flip_bytes, kernels_object, offload_binary,
    };

    fn read(bytes: &[u8]) -> FileFacts {
        facts("file".into(), bytes.len() as u64, bytes, Depth::Deep)
    }

    fn codes(facts: &FileFacts) -> Vec<String> {
        let codes = facts.device.iter();
        codes.map(|c| format!("{} {} {} {:?}", c.target, c.storage, c.count, c.kernels)).collect()
    }

    fn plain(target: &str) -> Vec<u8> {
        bundle(&[(&format!("hipv4-amdgcn-amd-amdhsa--{target}"), &kernels_object(target, 3))])
    }

    /// Reads arbitrary bytes with places as the ELF reader returns them.
    fn placed(bytes: &[u8], places: &elf::CodeRanges, has_sections: bool) -> Vec<String> {
        let mut device = Device::new(bytes, Depth::Deep);
        let elf = ElfFacts { has_sections, ..ElfFacts::default() };
        super::places(&mut device, bytes, 0, places, &elf, None);
        let gathered = device.finish();
        assert_eq!(gathered.damage, []);
        codes(&FileFacts { device: gathered.code, ..FileFacts::default() })
    }

    #[test]
    fn finds_bundles_and_code_objects_but_not_strings() {
        let mut bytes = vec![1; 1000];
        bytes
            .extend(b"__CLANG_OFFLOAD_BUNDLE__ is a mere string, as is CCOB\x02\0\x01\0 and \x7fELF\x02\x01");
        bytes.extend(plain("gfx1151"));
        bytes.extend([7; 333]);
        bytes.extend(kernels_object("gfx1100", 5));
        bytes.extend([7; 333]);
        bytes.extend(crate::testing::ccob(&plain("gfx1030"), 3, crate::testing::Method::Zstd));
        bytes.extend([7; 333]);
        let all = elf::CodeRanges {
            others: std::iter::once(0..bytes.len()).collect(),
            ..elf::CodeRanges::default()
        };
        assert_eq!(
            placed(&bytes, &all, true),
            [
                "gfx1030 other-section 1 Some(3)",
                "gfx1100 embedded 1 Some(5)",
                "gfx1151 other-section 1 Some(3)"
            ]
        );
        // Only code inside the given ranges is found.
        let few = elf::CodeRanges {
            others: std::iter::once(0..1500).collect(),
            ..elf::CodeRanges::default()
        };
        assert_eq!(placed(&bytes, &few, true), [""; 0]);
    }

    #[test]
    fn detects_bundles_without_sections_by_alignment() {
        let bytes = [vec![1; 4096], plain("gfx1151")].concat();
        let all = elf::CodeRanges {
            others: std::iter::once(0..bytes.len()).collect(),
            ..elf::CodeRanges::default()
        };
        assert_eq!(placed(&bytes, &all, false), ["gfx1151 hip-fatbin 1 Some(3)"]);
        assert_eq!(placed(&bytes, &all, true), ["gfx1151 other-section 1 Some(3)"]);
    }

    #[test]
    fn reads_offload_binaries_in_a_row_and_as_files() {
        let object = kernels_object("gfx1151", 2);
        let mut bytes =
            offload_binary(&[("gfx1151", 1, &object), ("gfx1100", 2, b"BC\xc0\xde")], 2);
        bytes.extend(offload_binary(&[("gfx1151", 1, &object)], 1));
        let fat = plain("gfx1030");
        bytes.extend(offload_binary(&[("", 4, &fat)], 2));
        let wanted = [
            "gfx1030 offload-binary 1 Some(3)",
            "gfx1100 bitcode 1 None",
            "gfx1151 offload-binary 2 Some(4)",
        ];
        let all = elf::CodeRanges {
            offloading: std::iter::once(0..bytes.len()).collect(),
            ..elf::CodeRanges::default()
        };
        assert_eq!(placed(&bytes, &all, true), wanted);
        assert_eq!(codes(&read(&bytes)), wanted);
        // An architecture that the object contradicts.
        let wrong = read(&offload_binary(&[("gfx1100", 1, &object)], 2));
        assert_eq!((wrong.mismatches.len(), codes(&wrong).len()), (1, 1));
    }

    #[test]
    fn reads_sections_of_one_target_once() {
        let object = kernels_object("gfx1151", 2);
        let name = b"__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx1151\0";
        let (at, length) = (64 + name.len() as u64, object.len() as u64);
        let elf = |count: u16| {
            let table = at + length;
            let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x3e\0\x01\0\0\0".to_vec();
            bytes.extend([0, 0, table].map(u64::to_le_bytes).concat());
            bytes.extend([0; 4]);
            bytes.extend([64, 0, 0, 64, count, 0].map(u16::to_le_bytes).concat());
            bytes.extend(name);
            bytes.extend(&object);
            let section = |name: u32, place: [u64; 2]| {
                let numbers = [name, 1].map(u32::to_le_bytes).concat();
                let places = [0, 0, place[0], place[1], 0, 1, 0].map(u64::to_le_bytes).concat();
                [numbers, places].concat()
            };
            bytes.extend(section(name.len() as u32 - 1, [64, name.len() as u64]));
            (1..count).for_each(|_| bytes.extend(section(0, [at, length])));
            bytes
        };
        let places = elf::CodeRanges::default();
        assert_eq!(placed(&elf(2), &places, true), ["gfx1151 other-section 1 Some(2)"]);
        let many = elf(50_000);
        let found = read(&many);
        assert_eq!(codes(&found), ["gfx1151 other-section 1 Some(2)"]);
        assert!(found.damage.iter().any(|damage| damage.what.contains("overlap")));
        assert!(found.damage.len() < 100);
    }

    #[test]
    fn reads_static_archives() {
        let fat = HostElf::new().fatbin(&aligned(&[plain("gfx1151"), plain("gfx1151")])).build();
        let members = [
            ("/", &b"symbols"[..]),
            ("a.o/", &fat),
            ("b.o/", &plain("gfx1100")),
            ("c.o/", &code_object("gfx1030", 300)),
            ("d.bc/", b"BC\xc0\xde"),
            ("e.txt/", b"text"),
        ];
        let found = read(&archive(&members));
        assert_eq!(
            codes(&found),
            [
                "gfx1030 static-archive 1 None",
                "gfx1100 static-archive 1 Some(3)",
                "gfx1151 static-archive 2 Some(6)"
            ]
        );
        assert_eq!((found.bundles, &found.damage[..]), (3, &[][..]));
        let cut = archive(&members);
        assert_eq!(read(&cut[..cut.len() - 4]).damage.len(), 1);
    }

    #[test]
    fn recognizes_data_files_by_name() {
        let found = facts("db/gfx942130.db.txt".into(), 77, &[], Depth::Quick);
        assert_eq!(codes(&found), ["gfx942 data-file 1 None"]);
        assert_eq!((found.device[0].bytes, found.size), (77, 77));
    }

    #[test]
    fn survives_random_corruption() {
        let object = kernels_object("gfx1151", 2);
        let host = HostElf::new().fatbin(&plain("gfx1100")).build();
        let files = [
            archive(&[("/", b"symbols"), ("a.o/", &host), ("#1/4", b"b.o\0BC")]),
            offload_binary(&[("gfx1151", 1, &object), ("gfx1100", 1, &object)], 2),
            host,
        ];
        for file in files {
            flip_bytes(&file, 1500, |bytes| drop(read(bytes)));
        }
    }
}
