//! Gathering the GPU code of one file: walking the bundles of a section from one
//! to the next, and bare bundles and code objects. What is wrong is noted with its
//! place, and the walk goes on behind it.

use std::collections::BTreeMap;
use std::ops::Range;

use super::bundle::{self, Broken, Bundle};
use super::ccob;
use super::code_object::{self, HEAD, Object};
use super::entry_id::{EntryId, known_target, processor};
use super::facts::{Compression, Damage, DeviceCode, Mismatch, Storage, Target};

/// Where bundles begin in a section, as the section's own alignment demands.
const ALIGNMENT: usize = 4096;

// Limits for one file, far beyond what real files have, so that made-up ones
// cannot use up memory or time: real bundles decompress to 83 times their size.
const MAX_DAMAGE: usize = 64;
const MAX_DISTINCT: usize = 4096;
const LEAST_BUDGET: u64 = 64 << 20;
const BUDGET_RATIO: u64 = 256;
const MOST_BUDGET: u64 = 64 << 30;

type Key = (Target, Storage, Option<Compression>);

/// The GPU code of one file while it is gathered.
pub(super) struct Device<'a> {
    file: &'a [u8],
    budget: u64,
    pub(super) bundles: u64,
    pub(super) damage: Vec<Damage>,
    code: BTreeMap<Key, (u64, u64)>,
    mismatches: BTreeMap<(String, String), (u64, u64)>,
}

impl<'a> Device<'a> {
    /// Begins with a file that has no GPU code yet.
    pub(super) fn new(file: &'a [u8]) -> Self {
        let budget = (file.len() as u64).saturating_mul(BUDGET_RATIO).clamp(LEAST_BUDGET, MOST_BUDGET);
        Self {
            file,
            budget,
            bundles: 0,
            damage: Vec::new(),
            code: BTreeMap::new(),
            mismatches: BTreeMap::new(),
        }
    }

    /// Takes in the bundles and code objects that stand one after the other in
    /// `range`, zeros between them. Where something is damaged, the walk goes on
    /// at the next aligned place that looks like a bundle.
    pub(super) fn walk(&mut self, range: Range<usize>, storage: Storage) {
        let Some(section) = self.file.get(range.clone()) else { return };
        let mut at = 0;
        while let Some(gap) = section[at..].iter().position(|byte| *byte != 0) {
            at += gap;
            if self.damage.len() >= MAX_DAMAGE {
                self.damaged(range.start + at, "is not looked at, after so much damage before it".into());
                return;
            }
            at = match self.piece(range.start + at, range.end, storage) {
                Some(end) => end - range.start,
                None => match next_bundle(section, at + 1) {
                    Some(next) => next,
                    None => return,
                },
            };
        }
    }

    /// Takes in a file that is itself a bundle or, an AMDGPU ELF file, a code object.
    pub(super) fn whole_file(&mut self) {
        match self.file.starts_with(code_object_magic()) {
            true => self.code_object(0, self.file, Storage::CodeObject),
            // Some writers put several bundles one behind the other.
            false => self.walk(0..self.file.len(), Storage::Bundle),
        }
    }

    /// Notes that the file's code lies in archives that are not read.
    pub(super) fn elsewhere(&mut self, storage: Storage) {
        self.add(Target::Unread, storage, None, 0, 0);
    }

    /// Returns what was gathered, sorted.
    pub(super) fn finish(self) -> (u64, Vec<DeviceCode>, Vec<Damage>, Vec<Mismatch>) {
        let code = self.code.into_iter().map(|((target, storage, compression), (count, bytes))| DeviceCode {
            target,
            storage,
            compression,
            version: None,
            count,
            bytes,
            kernels: None,
        });
        let mismatches = self.mismatches.into_iter();
        let mismatches =
            mismatches.map(|((id, flags), (count, offset))| Mismatch { id, flags, count, offset });
        (self.bundles, code.collect(), self.damage, mismatches.collect())
    }

    /// Takes in what begins at `start` and returns where it ends, both from the
    /// file's beginning; `None` where the end cannot be known.
    fn piece(&mut self, start: usize, limit: usize, storage: Storage) -> Option<usize> {
        let bytes = &self.file[start..limit];
        let end = if bytes.starts_with(bundle::MAGIC) {
            match bundle::read(&mut &*bytes) {
                Ok(bundle) => {
                    self.entries(start, &bundle, storage, None);
                    Some(bundle.end as usize)
                }
                Err(broken) => self.broken(start, broken),
            }
        } else if bytes.starts_with(ccob::MAGIC) {
            match ccob::read(bytes, &mut self.budget) {
                Ok(decoded) => {
                    self.entries(start, &decoded.bundle, storage, Some(decoded.compression));
                    Some(decoded.end)
                }
                Err(error) => {
                    self.broken(start, error.broken);
                    error.end
                }
            }
        } else if bytes.starts_with(code_object_magic()) {
            match code_object::extent(bytes) {
                Some(end) => {
                    self.code_object(start, &bytes[..end], storage);
                    Some(end)
                }
                None => self.broken(start, Broken::new(0, "holds an ELF file whose end cannot be told")),
            }
        } else {
            self.broken(start, Broken::new(0, "holds neither a bundle nor zeros"))
        };
        end.map(|end| start + end)
    }

    fn entries(&mut self, start: usize, bundle: &Bundle, storage: Storage, compression: Option<Compression>) {
        self.bundles += 1;
        for entry in &bundle.entries {
            let EntryId::Amd { target: said } = EntryId::parse(&entry.id) else { continue };
            // In a compressed bundle the entry has no place of its own in the file.
            let place = start.saturating_add(if compression.is_none() { entry.offset as usize } else { 0 });
            if entry.size == 0 {
                self.damaged(place, format!("has no code in its entry `{}`", entry.id));
                continue;
            }
            match code_object::identify(&entry.head, entry.size) {
                Ok(object) => {
                    if let Some(flags) = code_object::contradiction(&said, &object) {
                        self.mismatch(entry.id.clone(), flags, place);
                    }
                    self.add(target(&said, &object), storage, compression, 1, entry.size);
                }
                Err(what) => self.damaged(place, format!("{what}, in its entry `{}`", entry.id)),
            }
        }
    }

    fn code_object(&mut self, start: usize, bytes: &[u8], storage: Storage) {
        let size = bytes.len() as u64;
        match code_object::identify(&bytes[..bytes.len().min(HEAD)], size) {
            Ok(object) => self.add(target("", &object), storage, None, 1, size),
            Err(what) => self.damaged(start, what),
        }
    }

    fn add(
        &mut self,
        target: Target,
        storage: Storage,
        compression: Option<Compression>,
        count: u64,
        bytes: u64,
    ) {
        if self.code.len() >= MAX_DISTINCT {
            return;
        }
        let sum = self.code.entry((target, storage, compression)).or_default();
        sum.0 += count;
        sum.1 = sum.1.saturating_add(bytes);
    }

    fn mismatch(&mut self, id: String, flags: String, place: usize) {
        if self.mismatches.len() < MAX_DISTINCT {
            self.mismatches.entry((id, flags)).or_insert((0, place as u64)).0 += 1;
        }
    }

    fn broken(&mut self, start: usize, broken: Broken) -> Option<usize> {
        self.damaged(start.saturating_add(broken.at as usize), broken.what);
        None
    }

    fn damaged(&mut self, offset: usize, what: String) {
        if self.damage.len() <= MAX_DAMAGE {
            self.damage.push(Damage { elf: false, offset: offset as u64, what });
        }
    }
}

/// Returns what an object runs on. The flags decide; the ID's text helps only
/// where they say nothing that the table has.
fn target(said: &str, object: &Object) -> Target {
    match object {
        Object::Spirv => Target::Spirv,
        Object::Amdgpu { target: Some(target), .. } => Target::Gpu(target.clone()),
        Object::Amdgpu { mach: None, .. } => match known_target(said) {
            Some(target) => Target::Gpu(target),
            None => Target::Unknown(named(said, "code object version 2")),
        },
        Object::Amdgpu { mach: Some(mach), .. } => {
            Target::Unknown(named(processor(said), &format!("processor {mach:#04x}")))
        }
    }
}

fn named(said: &str, otherwise: &str) -> String {
    // A known name here would contradict the flags, so it must not be used.
    if said.is_empty() || known_target(said).is_some() { otherwise.to_owned() } else { said.to_owned() }
}

fn code_object_magic() -> &'static [u8] {
    goblin::elf::header::ELFMAG
}

fn next_bundle(section: &[u8], from: usize) -> Option<usize> {
    (from.next_multiple_of(ALIGNMENT)..section.len()).step_by(ALIGNMENT).find(|at| {
        let bytes = &section[*at..];
        bytes.starts_with(bundle::MAGIC) || bytes.starts_with(ccob::MAGIC)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::testing::{Method, aligned, bundle, ccob, code_object, flip_bytes};

    fn one(target: &str, size: usize) -> Vec<u8> {
        let id = format!("hipv4-amdgcn-amd-amdhsa--{target}");
        bundle(&[("host-x86_64-unknown-linux-gnu-", &[]), (&id, &code_object(target, size))])
    }

    fn walked(bytes: &[u8]) -> (Vec<String>, Vec<Damage>, Vec<Mismatch>) {
        let mut device = Device::new(bytes);
        device.walk(0..bytes.len(), Storage::HipFatbin);
        let (_, code, damage, mismatches) = device.finish();
        let code = code.iter().map(|c| {
            let compression = c.compression.map(|c| format!(" {c}")).unwrap_or_default();
            format!("{}{compression} {} {}", c.target, c.count, c.bytes)
        });
        (code.collect(), damage, mismatches)
    }

    #[test]
    fn plain_and_compressed_bundles_stand_back_to_back() {
        let pieces = [
            one("gfx1151", 5000),
            ccob(&one("gfx1151", 6000), 1, Method::Zstd),
            ccob(&one("gfx1100", 6000), 1, Method::Zlib),
            ccob(&one("gfx1151", 7000), 2, Method::Zlib),
            ccob(&one("gfx11-generic", 8000), 3, Method::Zstd),
            one("gfx1151", 9000),
            code_object("gfx1201", 700),
        ];
        let (code, damage, mismatches) = walked(&aligned(&pieces));
        assert_eq!((damage, mismatches), (vec![], vec![]));
        assert_eq!(
            code,
            [
                "gfx11-generic ccob3-zstd 1 8000",
                "gfx1100 ccob1-zlib 1 6000",
                "gfx1151 2 14000",
                "gfx1151 ccob1-zstd 1 6000",
                "gfx1151 ccob2-zlib 1 7000",
                "gfx1201 1 700",
            ]
        );
    }

    #[test]
    fn the_walk_goes_on_behind_damage() {
        let mut broken = one("gfx1151", 5000);
        broken[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
        let mut corrupt = ccob(&one("gfx1030", 6000), 3, Method::Zstd);
        corrupt[32..40].fill(0xff);
        let bytes = aligned(&[broken, corrupt, b"garbage".to_vec(), one("gfx1100", 5000)]);
        let (code, damage, _) = walked(&bytes);
        assert_eq!(code, ["gfx1100 1 5000"]);
        assert_eq!(damage.len(), 3, "{damage:?}");
        assert_eq!(damage[0].offset, 24);
        assert!(damage.iter().all(|d| d.offset < bytes.len() as u64));
    }

    #[test]
    fn damage_without_end_ends_the_walk() {
        let pieces = vec![bundle::MAGIC.to_vec(); 10_000];
        let (code, damage, _) = walked(&aligned(&pieces));
        assert!(code.is_empty() && damage.len() == MAX_DAMAGE + 1);
    }

    #[test]
    fn a_truncation_at_every_byte_is_told_or_without_consequence() {
        let bytes = aligned(&[one("gfx1151", 600), ccob(&one("gfx1100", 600), 3, Method::Zstd)]);
        let whole = walked(&bytes);
        for length in 1..bytes.len() {
            let (code, damage, _) = walked(&bytes[..length]);
            let lost = code.len() < whole.0.len();
            let between = bytes[..length].iter().rev().take_while(|b| **b == 0).count() > 0;
            assert!(
                !lost || !damage.is_empty() || between || length == one("gfx1151", 600).len(),
                "{length}"
            );
        }
    }

    #[test]
    fn odd_entries_are_told_with_their_place() {
        let object = code_object("gfx1100", 300);
        let mut unknown = code_object("gfx1100", 300);
        unknown[48] = 0x60;
        let (code, damage, mismatches) = walked(&bundle(&[
            ("hipv4-amdgcn-amd-amdhsa--gfx1151", &object),
            ("hipv4-amdgcn-amd-amdhsa--gfx1030", &[]),
            ("hipv4-amdgcn-amd-amdhsa--gfx9999", &unknown),
            ("hip-spirv64-amd-amdhsa--amdgcnspirv", &[3, 2, 0x23, 7, 0, 0, 0, 0]),
            ("hipv4-amdgcn-amd-amdhsa--gfx1200", b"CCOB inside"),
            ("openmp-nvptx64-nvidia-cuda--sm_80", b"not ours"),
        ]));
        assert_eq!(code, ["gfx1100 1 300", "amdgcnspirv 1 8", "gfx9999 1 300"]);
        assert_eq!(damage.len(), 2);
        assert!(damage.iter().any(|d| d.what.contains("no code") && d.what.contains("gfx1030")));
        assert!(damage.iter().any(|d| d.what.contains("neither") && d.what.contains("gfx1200")));
        assert_eq!(mismatches.len(), 1);
        assert_eq!((mismatches[0].flags.as_str(), mismatches[0].count), ("gfx1100", 1));
    }

    #[test]
    fn an_empty_entry_may_claim_any_offset() {
        let id = "hipv4-amdgcn-amd-amdhsa--gfx1151";
        let mut bytes = bundle(&[(id, &[]), (id, &code_object("gfx1151", 300))]);
        bytes[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        let (code, damage, _) = walked(&aligned(&[one("gfx1100", 300), bytes]));
        assert_eq!((code.len(), damage.len()), (2, 1));
    }

    #[test]
    fn bombs_use_up_one_budget_for_the_whole_file() {
        let bomb = bundle(&[("hip-amdgcn-amd-amdhsa--gfx1151", &vec![0; 40 << 20])]);
        let bomb = ccob(&bomb, 3, Method::Zstd);
        let (_, damage, _) = walked(&aligned(&[bomb.clone(), bomb.clone(), bomb]));
        let refused = damage.iter().filter(|d| d.what.contains("allowed here")).count();
        assert_eq!(refused, 2, "{damage:?}");
    }

    #[test]
    fn bare_files_are_read() {
        for (bytes, storage) in [
            (code_object("gfx1151", 300), Storage::CodeObject),
            (one("gfx1151", 300), Storage::Bundle),
            (ccob(&one("gfx1151", 300), 2, Method::Zstd), Storage::Bundle),
        ] {
            let mut device = Device::new(&bytes);
            device.whole_file();
            let (_, code, damage, _) = device.finish();
            assert_eq!((code.len(), damage.len()), (1, 0));
            assert_eq!((code[0].storage, code[0].bytes), (storage, 300));
        }
    }

    #[test]
    fn random_corruption_never_panics() {
        let bytes = aligned(&[
            one("gfx1151", 600),
            ccob(&one("gfx1100", 600), 1, Method::Zstd),
            code_object("gfx1201", 700),
        ]);
        flip_bytes(&bytes, 3000, |bytes| drop(walked(bytes)));
    }
}
