//! Collects the GPU code of one file, piece by piece, and sums it up by target and storage, with
//! limits on its amount. It does not read the code.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::bundle::{self, Broken};
use super::code_object::{self, Kernels, Object};
use super::entry_id::{EntryId, known_target, processor};
use crate::facts::{Compression, Damage, DeviceCode, Mismatch, Storage, Target, WrongHash};

// Limits for one file, far beyond those of real files, so that a malicious file cannot exhaust
// memory.
pub(super) const MAX_DAMAGE: usize = 64;
const MAX_DISTINCT: usize = 4096;

/// The result for one piece of code: its kind and its kernels, or why a GPU cannot run it.
pub(super) type Examined = Result<(Object, Kernels), String>;

/// The location of a piece of code.
#[derive(Debug, Clone, Copy)]
pub(super) struct CodeLocation {
    pub(super) storage: Storage,
    pub(super) compression: Option<Compression>,
    /// The offset in the file, in bytes.
    pub(super) offset: usize,
}

type Key = (Target, Storage, Option<Compression>, Option<u8>);

struct Sum {
    count: u64,
    bytes: u64,
    kernels: Kernels,
}

/// The GPU code of a file or of a part of it.
#[derive(Default)]
pub(super) struct Harvest {
    pub(super) bundles: u64,
    pub(super) damage: Vec<Damage>,
    code: BTreeMap<Key, Sum>,
    mismatches: BTreeMap<(String, String), (u64, u64)>,
    wrong_hashes: Vec<WrongHash>,
    out_of_memory: bool,
}

/// The GPU code of a file, sorted.
pub(crate) struct Gathered {
    pub(crate) bundles: u64,
    pub(crate) code: Vec<DeviceCode>,
    pub(crate) damage: Vec<Damage>,
    pub(crate) mismatches: Vec<Mismatch>,
    pub(crate) wrong_hashes: Vec<WrongHash>,
    pub(crate) out_of_memory: bool,
}

impl Harvest {
    /// Adds one entry of a bundle. `examined` is `None` if only the table was read.
    pub(super) fn entry(
        &mut self,
        entry: &bundle::BundleEntry,
        place: CodeLocation,
        examined: Option<Examined>,
    ) {
        let EntryId::Amd { target: declared } = EntryId::parse(&entry.id) else { return };
        let id = &entry.id;
        match examined {
            _ if entry.size == 0 => {
                self.damaged(place.offset, format!("has no code in its entry `{id}`"))
            }
            None => self.add(announced(&declared), place, None, entry.size, Kernels::default()),
            Some(Ok((Object::Bitcode, _))) if place.storage != Storage::HipFatbin => {
                self.bitcode(&declared, place, entry.size);
            }
            Some(Ok((Object::Bitcode, _))) => {
                let what = "holds LLVM bitcode where a code object is expected";
                self.damaged(place.offset, format!("{what}, in its entry `{id}`"));
            }
            Some(Ok((object, kernels))) => {
                self.identified(id, &declared, &object, place);
                self.object(&declared, &object, place, entry.size, kernels);
            }
            Some(Err(what)) => self.damaged(place.offset, format!("{what}, in its entry `{id}`")),
        }
    }

    /// Records a mismatch if an object's flags contradict the ID that it is stored under.
    pub(super) fn identified(
        &mut self,
        id: &str,
        declared: &str,
        object: &Object,
        place: CodeLocation,
    ) {
        if let Some(flags) = code_object::contradiction(declared, object) {
            self.mismatch(id.to_owned(), flags, place.offset);
        }
    }

    /// Adds a code object that a text declares to be for the target `declared`.
    pub(super) fn object(
        &mut self,
        declared: &str,
        object: &Object,
        place: CodeLocation,
        size: u64,
        kernels: Kernels,
    ) {
        let version = match object {
            Object::Amdgpu { version, .. } => *version,
            Object::Spirv => None,
            Object::Bitcode => return self.bitcode(declared, place, size),
        };
        self.add(target(declared, object), place, version, size, kernels);
    }

    /// Adds bitcode, which the linker compiles for the declared target. Bitcode without a target is
    /// a library for compilers.
    pub(super) fn bitcode(&mut self, declared: &str, place: CodeLocation, size: u64) {
        if !declared.is_empty() {
            let place = CodeLocation { storage: Storage::Bitcode, ..place };
            self.add(announced(declared), place, None, size, Kernels::default());
        }
    }

    pub(super) fn add(
        &mut self,
        target: Target,
        place: CodeLocation,
        version: Option<u8>,
        bytes: u64,
        kernels: Kernels,
    ) {
        self.sum(
            (target, place.storage, place.compression, version),
            Sum { count: 1, bytes, kernels },
        );
    }

    fn sum(&mut self, key: Key, more: Sum) {
        let room = self.code.len() < MAX_DISTINCT;
        match self.code.entry(key) {
            Entry::Occupied(mut sum) => {
                let sum = sum.get_mut();
                sum.count = sum.count.saturating_add(more.count);
                sum.bytes = sum.bytes.saturating_add(more.bytes);
                sum.kernels = sum.kernels.plus(more.kernels);
            }
            Entry::Vacant(place) if room => _ = place.insert(more),
            Entry::Vacant(_) => {}
        }
    }

    fn mismatch(&mut self, id: String, flags: String, place: usize) {
        if self.mismatches.len() < MAX_DISTINCT {
            self.mismatches.entry((id, flags)).or_insert((0, place as u64)).0 += 1;
        }
    }

    pub(super) fn broken(&mut self, start: usize, broken: Broken) {
        if broken.out_of_memory {
            self.out_of_memory = true;
            return;
        }
        self.damaged(start.saturating_add(broken.at as usize), broken.what);
    }

    pub(super) fn damaged(&mut self, offset: usize, what: String) {
        self.note(Damage { elf: false, offset: offset as u64, what });
    }

    /// Records damage. One entry beyond the limit shows that the walk ended early.
    pub(super) fn note(&mut self, damage: Damage) {
        if self.damage.len() <= MAX_DAMAGE {
            self.damage.push(damage);
        }
    }

    pub(super) fn wrong_hash(&mut self, offset: usize, stated: u64, computed: u64) {
        if self.wrong_hashes.len() < MAX_DAMAGE {
            let hex = |hash: u64| format!("{:016x}", hash.swap_bytes());
            let (stated, computed) = (hex(stated), hex(computed));
            self.wrong_hashes.push(WrongHash { offset: offset as u64, stated, computed });
        }
    }

    /// Adds what another harvest collected.
    pub(super) fn merge(&mut self, other: Self) {
        self.bundles += other.bundles;
        self.out_of_memory |= other.out_of_memory;
        other.damage.into_iter().for_each(|damage| self.note(damage));
        other.code.into_iter().for_each(|(key, sum)| self.sum(key, sum));
        for (key, (count, place)) in other.mismatches {
            if self.mismatches.len() < MAX_DISTINCT {
                self.mismatches.entry(key).or_insert((0, place)).0 += count;
            }
        }
        let left = MAX_DAMAGE.saturating_sub(self.wrong_hashes.len());
        self.wrong_hashes.extend(other.wrong_hashes.into_iter().take(left));
    }

    /// Returns what was collected, sorted.
    pub(super) fn finish(self) -> Gathered {
        let code = self.code.into_iter().map(|((target, storage, compression, version), sum)| {
            DeviceCode {
                target,
                storage,
                compression,
                version,
                count: sum.count,
                bytes: sum.bytes,
                kernels: sum.kernels.count,
                kernel_code: sum.kernels.code,
            }
        });
        let mismatches = self.mismatches.into_iter();
        let mismatches =
            mismatches.map(|((id, flags), (count, offset))| Mismatch { id, flags, count, offset });
        Gathered {
            bundles: self.bundles,
            code: code.collect(),
            damage: self.damage,
            mismatches: mismatches.collect(),
            wrong_hashes: self.wrong_hashes,
            out_of_memory: self.out_of_memory,
        }
    }
}

/// Returns the target that an ID declares.
fn announced(declared: &str) -> Target {
    match known_target(declared) {
        _ if declared == "amdgcnspirv" => Target::Spirv,
        Some(target) => Target::Gpu(target),
        None => Target::Unknown(named(processor(declared), "amdgpu")),
    }
}

/// Returns an object's target. The flags decide; the ID's text helps only if the table does not
/// contain what they state.
fn target(declared: &str, object: &Object) -> Target {
    match object {
        Object::Spirv | Object::Bitcode => Target::Spirv,
        Object::Amdgpu { target: Some(target), .. } => Target::Gpu(target.clone()),
        Object::Amdgpu { mach: None, .. } => match known_target(declared) {
            Some(target) => Target::Gpu(target),
            None => Target::Unknown(named(declared, "code object version 2")),
        },
        Object::Amdgpu { mach: Some(mach), .. } => {
            Target::Unknown(named(processor(declared), &format!("processor {mach:#04x}")))
        }
    }
}

fn named(declared: &str, otherwise: &str) -> String {
    // A known name would contradict the flags here, so it must not be used.
    if declared.is_empty() || known_target(declared).is_some() {
        otherwise.to_owned()
    } else {
        declared.to_owned()
    }
}
