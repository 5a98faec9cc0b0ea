//! Reads kpack archives: compares the table of contents with the file, and in a deep inspection
//! reads every kernel. It does not resolve references to archives. Two writers are known:
//! `shared/kpack` of ROCm/rocm-systems, and the packing scripts of composable_kernel's `rocm_ck`
//! examples. Their archives differ only in where the code starts and in which keys they omit.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::Range;

use super::table::{Contents, HEADER, KpackEntry, open, target};
use crate::bundle::Broken;
use crate::code_object::{self, Kernels, Object};
use crate::facts::{Damage, DeviceCode, FileFacts, Mismatch, Storage, Target};
use crate::finding::Depth;
use rocmrpm_base::text::visible;

/// The first bytes of an archive.
pub(crate) const MAGIC: &[u8; 4] = b"KPAK";

// Limits far beyond real archives, so that malicious ones cannot exhaust memory or time.
const MAX_DAMAGE: usize = 64;
const LEAST_BUDGET: u64 = 64 << 20;
const BUDGET_RATIO: u64 = 256;
const MOST_BUDGET: u64 = 64 << 30;

/// How much of one kernel is kept in memory for inspection.
const KEPT: u64 = 256 << 20;

/// Collects what the archive at `path`, of `size` bytes, contains. It starts with [`MAGIC`].
pub(crate) fn facts(path: String, size: u64, bytes: &[u8], depth: Depth) -> FileFacts {
    let facts = FileFacts { path, size, ..FileFacts::default() };
    let (start, mut contents) = match open(bytes) {
        Ok(opened) => opened,
        Err(Broken { at, what, .. }) => {
            return FileFacts { damage: vec![Damage { elf: false, offset: at, what }], ..facts };
        }
    };
    contents.entries.sort_by_key(|entry| entry.ordinal);
    let mut found = CollectedCode::default();
    let area = &bytes[..start];
    match contents.archive.compression.as_str() {
        "none" => found.blobs(area, &contents, depth),
        "zstd-per-kernel" => found.frames(area, &contents, depth),
        other => {
            let what = format!(
                "has the unknown compression `{}`; supported: none, zstd-per-kernel",
                visible(other)
            );
            found.damaged(start as u64, what);
        }
    }
    let device = found.device.into_iter().map(|((target, version), sum)| DeviceCode {
        target,
        storage: Storage::Kpack,
        compression: None,
        version,
        count: sum.count,
        bytes: sum.bytes,
        kernels: sum.kernels.count,
        kernel_code: sum.kernels.code,
    });
    let mismatches = found.mismatches.into_iter();
    let mismatches =
        mismatches.map(|((id, flags), (count, offset))| Mismatch { id, flags, count, offset });
    FileFacts {
        device: device.collect(),
        damage: found.damage,
        out_of_memory: found.out_of_memory,
        mismatches: mismatches.collect(),
        kpack: Some(contents.archive),
        ..facts
    }
}

/// What was found in an archive's code so far.
#[derive(Default)]
struct CollectedCode {
    device: BTreeMap<(Target, Option<u8>), Sum>,
    damage: Vec<Damage>,
    mismatches: BTreeMap<(String, String), (u64, u64)>,
    out_of_memory: bool,
}

/// The code for one target and one code object version.
struct Sum {
    count: u64,
    bytes: u64,
    kernels: Kernels,
}

impl CollectedCode {
    /// Reads uncompressed code: a range of the file for each ordinal.
    fn blobs(&mut self, area: &[u8], contents: &Contents, depth: Depth) {
        let mut before: BTreeMap<usize, Range<usize>> = BTreeMap::new();
        for entries in contents.entries.chunk_by(|a, b| a.ordinal == b.ordinal) {
            let KpackEntry { at, ordinal, .. } = entries[0];
            let Some((offset, size)) =
                usize::try_from(ordinal).ok().and_then(|o| contents.blobs.get(o)).copied()
            else {
                let count = contents.blobs.len();
                self.damaged(
                    at,
                    format!("refers to blob {ordinal} of a kpack archive with {count} blobs"),
                );
                continue;
            };
            let Some(range) = inside(area, offset, size) else {
                let end = area.len();
                let what = format!(
                    "refers to {size} bytes at {offset} of a kpack archive whose code ends at {end}"
                );
                self.damaged(at, what);
                continue;
            };
            // Writers never share bytes between entries; sharing could make a small file cost much
            // work.
            let neighbour = before.range(..range.end).next_back().map(|(_, range)| range);
            if neighbour.is_some_and(|other| other.end > range.start) {
                self.damaged(
                    at,
                    format!("refers to {size} bytes at {offset}, which another entry also uses"),
                );
                continue;
            }
            before.insert(range.start, range.clone());
            self.entries(
                entries,
                offset,
                size,
                match depth {
                    Depth::Quick => None,
                    Depth::Deep => Some(&area[range]),
                },
            );
        }
    }

    /// Reads code that is compressed kernel by kernel: the number of frames as `u32`, then for each
    /// frame its size as `u32` and the zstd frame.
    fn frames(&mut self, area: &[u8], contents: &Contents, depth: Depth) {
        let (offset, size) = (contents.zstd_offset, contents.zstd_size);
        let word = |at: usize, end: usize| {
            area[..end].get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
        };
        let frames = inside(area, offset, size)
            .and_then(|range| Some((word(range.start, range.end)?, range)));
        let Some((count, range)) = frames else {
            let end = area.len();
            let what =
                format!("states {size} bytes of compressed kernels at {offset}, beyond byte {end}");
            return self.damaged(area.len() as u64, what);
        };
        let mut budget =
            (area.len() as u64).saturating_mul(BUDGET_RATIO).clamp(LEAST_BUDGET, MOST_BUDGET);
        let (mut next, mut at) = (0, range.start + 4);
        for entries in contents.entries.chunk_by(|a, b| a.ordinal == b.ordinal) {
            let KpackEntry { at: place, ordinal, size, .. } = entries[0];
            if ordinal >= u64::from(count) {
                self.damaged(
                    place,
                    format!("refers to kernel {ordinal} of a kpack archive with {count} kernels"),
                );
                continue;
            }
            if depth == Depth::Quick {
                self.entries(entries, range.start as u64, size.unwrap_or(0), None);
                continue;
            }
            let frame = loop {
                let Some(length) = word(at, range.end) else { break None };
                let Some(frame) =
                    area[..range.end].get(at + 4..).and_then(|b| b.get(..length as usize))
                else {
                    break None;
                };
                let found = (at, frame);
                (next, at) = (next + 1, at + 4 + length as usize);
                if next > ordinal {
                    break Some(found);
                }
            };
            let Some((at, frame)) = frame else {
                self.damaged(
                    at as u64,
                    format!("ends before kernel {ordinal} of {count}, in a kpack archive"),
                );
                return;
            };
            match decode(frame, size, &mut budget) {
                Ok((code, size)) => self.entries(entries, at as u64, size, Some(&code)),
                Err(broken) if broken.out_of_memory => self.out_of_memory = true,
                Err(Broken { what, .. }) => self
                    .damaged(at as u64, format!("{what}, in kernel {ordinal} of a kpack archive")),
            }
        }
    }

    /// Records the entries of one piece of code. `code` has its bytes, or as many as are kept;
    /// `None` if they are not examined.
    fn entries(&mut self, entries: &[KpackEntry], place: u64, size: u64, code: Option<&[u8]>) {
        // Any number of entries may refer to the same code.
        let examined = code.map(|code| code_object::examine(code, size, Depth::Deep));
        for entry in entries {
            if let Some(stated) = entry.size.filter(|stated| *stated != size) {
                let what =
                    format!("states {stated} bytes for code of {size} bytes, in a kpack archive");
                self.damaged(entry.at, what);
            }
            let (mut version, mut kernels) = (None, Kernels::default());
            match examined.as_ref().filter(|_| entry.hsaco) {
                Some(Ok((object, counted))) => {
                    kernels = *counted;
                    if let Object::Amdgpu { version: stated, .. } = object {
                        version = *stated;
                    }
                    if let Some(flags) = code_object::contradiction(&entry.arch, object) {
                        let key = (entry.arch.clone(), flags);
                        self.mismatches.entry(key).or_insert((0, place)).0 += 1;
                    }
                }
                Some(Err(what)) => {
                    self.damaged(place, format!("{what}, for `{}` in a kpack archive", entry.arch));
                    continue;
                }
                None => {}
            }
            let none = Sum { count: 0, bytes: 0, kernels: Kernels::ZERO };
            let sum = self.device.entry((target(&entry.arch), version)).or_insert(none);
            sum.count += 1;
            sum.bytes = sum.bytes.saturating_add(size);
            sum.kernels = sum.kernels.plus(kernels);
        }
    }

    fn damaged(&mut self, offset: u64, what: String) {
        if self.damage.len() < MAX_DAMAGE {
            self.damage.push(Damage { elf: false, offset, what });
        }
    }
}

/// Returns the range of `size` bytes at `offset`, if it is between the header and the table.
fn inside(area: &[u8], offset: u64, size: u64) -> Option<Range<usize>> {
    let (start, end) =
        (usize::try_from(offset).ok()?, usize::try_from(offset.checked_add(size)?).ok()?);
    (start >= HEADER && size > 0 && end <= area.len()).then_some(start..end)
}

/// Decodes one frame: at most as much as stated and as `budget` allows. Returns the part that is
/// kept, and the total size.
fn decode(frame: &[u8], stated: Option<u64>, budget: &mut u64) -> Result<(Vec<u8>, u64), Broken> {
    let allowed = stated.unwrap_or(u64::MAX).min(*budget);
    if let Some(stated) = stated.filter(|stated| stated > budget) {
        let what =
            format!("states {stated} bytes when decompressed, more than the {budget} allowed");
        return Err(Broken::new(0, what));
    }
    let fail = |error: io::Error| Broken::undecodable(0, &error);
    let decoder = zstd::stream::read::Decoder::with_buffer(frame).map_err(fail)?.single_frame();
    // One byte more than allowed shows whether the frame is longer.
    let mut decoder = decoder.take(allowed.saturating_add(1));
    let mut code = Vec::new();
    decoder.by_ref().take(KEPT).read_to_end(&mut code).map_err(fail)?;
    let size = code.len() as u64 + io::copy(&mut decoder, &mut io::sink()).map_err(fail)?;
    *budget -= size.min(*budget);
    match size > allowed {
        true => Err(Broken::new(0, format!("has more than the {allowed} bytes stated or allowed"))),
        false => Ok((code, size)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Kpack, code_object, flip_bytes, kernels_object};

    fn sample(compressed: bool) -> Kpack {
        let (one, two) = (code_object("gfx1151", 3000), code_object("gfx1100", 5000));
        let kpack = Kpack::new("blas_lib", &["gfx1100", "gfx1151"]);
        let kpack = if compressed { kpack.compressed() } else { kpack };
        kpack
            .kernel("lib/libk.so#0", "gfx1151", &one)
            .kernel("lib/libk.so#0", "gfx1100", &two)
            .kernel("lib/libk.so#1", "gfx1151", &one)
    }

    fn read(bytes: &[u8], depth: Depth) -> FileFacts {
        facts("a.kpack".into(), bytes.len() as u64, bytes, depth)
    }

    fn device(facts: &FileFacts) -> Vec<(String, Option<u8>, u64, u64)> {
        facts.device.iter().map(|d| (d.target.to_string(), d.version, d.count, d.bytes)).collect()
    }

    #[test]
    fn reads_both_schemes_at_both_depths() {
        for compressed in [false, true] {
            let bytes = sample(compressed).build();
            for (depth, version) in [(Depth::Quick, None), (Depth::Deep, Some(6))] {
                let found = read(&bytes, depth);
                assert_eq!((&found.damage, &found.mismatches), (&vec![], &vec![]), "{compressed}");
                let wanted =
                    [("gfx1100".into(), version, 1, 5000), ("gfx1151".into(), version, 2, 6000)];
                assert_eq!(device(&found), wanted);
                let archive = found.kpack.unwrap();
                assert_eq!((archive.group.as_str(), archive.entries), ("blas_lib", 3));
                assert_eq!(
                    archive.compression,
                    if compressed { "zstd-per-kernel" } else { "none" }
                );
                assert_eq!(archive.targets.len(), 2);
                assert_eq!(archive.table["lib/libk.so#0"].len(), 2);
                assert_eq!(archive.table["lib/libk.so#1"].len(), 1);
            }
        }
    }

    #[test]
    fn reads_archives_of_the_second_writer() {
        // Code from byte 16 on, names without a number, no group, different keys.
        let bytes = Kpack::new("", &["gfx950"])
            .kernel("gemm", "gfx950", &code_object("gfx950", 300))
            .plain();
        let found = read(&bytes, Depth::Deep);
        assert_eq!(
            (found.damage.len(), device(&found)),
            (0, vec![("gfx950".into(), Some(6), 1, 300)])
        );
        assert!(found.kpack.unwrap().table.contains_key("gemm"));
    }

    #[test]
    fn reports_code_for_another_target_in_deep_inspections() {
        for kpack in [Kpack::new("g", &["gfx1151"]), Kpack::new("g", &["gfx1151"]).compressed()] {
            let bytes = kpack.kernel("k#0", "gfx1151", &code_object("gfx1100", 300)).build();
            assert_eq!(read(&bytes, Depth::Quick).mismatches, []);
            let found = read(&bytes, Depth::Deep);
            let [Mismatch { id, flags, count: 1, offset }] = &found.mismatches[..] else {
                panic!()
            };
            assert_eq!((id.as_str(), flags.as_str()), ("gfx1151", "gfx1100"));
            assert!(*offset >= 64 && *offset < bytes.len() as u64);
        }
        let text =
            Kpack::new("g", &["gfx1151"]).kernel("k#0", "gfx1151", b"no code at all").build();
        assert!(read(&text, Depth::Deep).damage[0].what.contains("neither an ELF file"));
    }

    #[test]
    fn counts_kernels_in_deep_inspections() {
        let (one, two) = (kernels_object("gfx1151", 3), kernels_object("gfx1151", 70));
        let mute = code_object("gfx1100", 300);
        let kpack = || Kpack::new("g", &["gfx1100", "gfx1151"]).kernel("k#0", "gfx1151", &one);
        let kpack = || kpack().kernel("k#1", "gfx1151", &two).kernel("k#1", "gfx1100", &mute);
        let kernels = |bytes: &[u8], depth| -> Vec<_> {
            read(bytes, depth).device.iter().map(|d| (d.target.to_string(), d.kernels)).collect()
        };
        for bytes in [kpack().build(), kpack().compressed().build(), kpack().plain()] {
            let (uncounted, counted) = ("gfx1100".to_owned(), "gfx1151".to_owned());
            assert_eq!(
                kernels(&bytes, Depth::Quick),
                [(uncounted.clone(), None), (counted.clone(), None)]
            );
            assert_eq!(kernels(&bytes, Depth::Deep), [(uncounted, None), (counted, Some(73))]);
        }
    }

    #[test]
    fn reads_an_archive_without_entries() {
        let found = read(&Kpack::new("g", &[]).build(), Depth::Deep);
        assert_eq!((found.damage.len(), found.kpack.unwrap().entries), (0, 0));
    }

    #[test]
    fn reports_truncation_at_every_byte() {
        for compressed in [false, true] {
            let bytes = sample(compressed).build();
            for length in 4..bytes.len() {
                let found = read(&bytes[..length], Depth::Deep);
                assert_eq!((found.damage.len(), &found.kpack), (1, &None), "{length}");
                assert!(found.damage[0].offset <= length as u64);
            }
        }
    }

    #[test]
    fn reports_offsets_outside_of_the_file() {
        let whole = sample(false).build();
        for offset in [0, 15, whole.len() as u64, u64::MAX] {
            let mut bytes = whole.clone();
            bytes[8..16].copy_from_slice(&offset.to_le_bytes());
            assert_eq!(read(&bytes, Depth::Quick).damage[0].offset, 8);
        }
        let mut version = whole.clone();
        version[4] = 2;
        assert!(read(&version, Depth::Quick).damage[0].what.contains("version 2"));
        for (depth, compressed) in
            [(Depth::Quick, false), (Depth::Quick, true), (Depth::Deep, true)]
        {
            let kpack = Kpack::new("g", &["gfx1151"]);
            let kpack = if compressed { kpack.compressed() } else { kpack };
            let kpack = kpack.kernel("k#0", "gfx1151", &code_object("gfx1151", 300));
            for change in [Kpack::ordinal, Kpack::place, Kpack::stated] {
                for value in [7, 1 << 40, u64::MAX] {
                    let bytes = change(kpack.clone(), value).build();
                    let damage = read(&bytes, depth).damage;
                    let reported = damage.len() == 1 && damage[0].offset <= bytes.len() as u64;
                    // The stated size of compressed code is trusted until it is decoded.
                    let unseen =
                        bytes == kpack.clone().stated(value).build() && depth == Depth::Quick;
                    assert!(
                        reported || (unseen && compressed),
                        "{value} {compressed} {depth:?}: {damage:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn rejects_code_shared_between_entries() {
        let code = code_object("gfx1151", 300);
        let mut kpack = Kpack::new("g", &["gfx1151"]);
        for index in 0..100 {
            kpack = kpack.kernel(&format!("k#{index}"), "gfx1151", &code);
        }
        let found = read(&kpack.place(64).build(), Depth::Deep);
        assert_eq!((device(&found)[0].2, found.damage.len()), (1, MAX_DAMAGE));
    }

    #[test]
    fn rejects_decompression_bombs() {
        let zeros = vec![0; 80 << 20];
        let bytes =
            Kpack::new("g", &["gfx1151"]).compressed().kernel("k#0", "gfx1151", &zeros).build();
        assert!(bytes.len() < 100_000);
        let found = read(&bytes, Depth::Deep);
        assert!(found.damage[0].what.contains("allowed"), "{:?}", found.damage);
        let found = read(&sample(true).stated(100).build(), Depth::Deep);
        assert!(
            found.damage.iter().any(|d| d.what.contains("more than the 100")),
            "{:?}",
            found.damage
        );
    }

    #[test]
    fn survives_random_corruption() {
        for compressed in [false, true] {
            let bytes = sample(compressed).build();
            flip_bytes(&bytes, 1000, |bytes| drop(read(bytes, Depth::Deep)));
            // Most of the decisive fields are in the header and the table.
            let table = u64::from_le_bytes(bytes[8..16].try_into().unwrap()) as usize;
            flip_bytes(&bytes[..16], 500, |head| {
                drop(read(&[head, &bytes[16..]].concat(), Depth::Deep))
            });
            flip_bytes(&bytes[table..], 5000, |t| {
                drop(read(&[&bytes[..table], t].concat(), Depth::Deep))
            });
        }
    }
}
