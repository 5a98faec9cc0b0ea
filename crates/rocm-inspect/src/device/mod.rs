//! Collects the GPU code of one file: walks the bundles of a section one by one, searches other
//! sections, and reads bare bundles and code objects. Records damage with its offset and continues
//! after it. Other modules decode the formats.

pub(super) mod ar;
mod area;
pub(super) mod bundle;
pub(super) mod ccob;
pub(super) mod code_object;
pub(super) mod data_files;
mod decode;
pub(super) mod elf_headers;
pub(super) mod entry_id;
mod harvest;
mod metadata;
pub(super) mod offload_binary;
mod search;
mod version2;

use std::ops::Range;

use decode::Job;
pub(super) use harvest::Gathered;
use harvest::{CodeLocation, Harvest, MAX_DAMAGE};

use self::bundle::{Broken, Table};
use self::ccob::Header;
use self::code_object::{EM_AMDGPU, HEAD, Kernels, Object};
use super::facts::{Damage, Storage, Target};
use super::finding::Depth;
use super::image;

/// Bundles in a section start at multiples of this, the section's own alignment.
const ALIGNMENT: usize = 4096;

// How much one file may decompress to. The limits are far beyond real files, whose bundles
// decompress to 83 times their size, and keep malicious ones from consuming time.
const LEAST_BUDGET: u64 = 64 << 20;
const BUDGET_RATIO: u64 = 256;
const MOST_BUDGET: u64 = 64 << 30;

/// Collects the GPU code of one file.
pub(super) struct Device<'a> {
    file: &'a [u8],
    depth: Depth,
    budget: u64,
    jobs: Vec<Job<'a>>,
    harvest: Harvest,
}

impl<'a> Device<'a> {
    /// Starts with a file whose GPU code has not been read.
    pub(super) fn new(file: &'a [u8], depth: Depth) -> Self {
        let budget =
            (file.len() as u64).saturating_mul(BUDGET_RATIO).clamp(LEAST_BUDGET, MOST_BUDGET);
        Self { file, depth, budget, jobs: Vec::new(), harvest: Harvest::default() }
    }

    /// Reads the bundles and code objects that follow each other in `range`, separated by zeros.
    /// After damage, the walk continues at the next aligned offset that looks like a bundle.
    pub(super) fn walk(&mut self, range: Range<usize>, storage: Storage) {
        let Some(section) = self.file.get(range.clone()) else { return };
        let mut at = 0;
        while let Some(gap) = section[at..].iter().position(|byte| *byte != 0) {
            at += gap;
            if self.harvest.damage.len() >= MAX_DAMAGE {
                let what = "was not read, because of too much damage before it";
                self.harvest.damaged(range.start + at, what.into());
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

    /// Reads the bundles in a range that may contain anything else too, each with the storage that
    /// `storage` returns for its offset, and code objects outside of bundles. Bytes that only look
    /// like a bundle are neither counted nor damage.
    pub(super) fn search(&mut self, range: Range<usize>, storage: impl Fn(usize) -> Storage) {
        let Some(bytes) = self.file.get(range.clone()) else { return };
        search::search(bytes, |at| {
            let start = range.start + at;
            let end = self.believe(start, range.end, storage(start))?;
            Some(end - range.start)
        });
    }

    /// Reads the offload binaries in `range`, separated by zeros.
    pub(super) fn offload_binaries(&mut self, range: Range<usize>, storage: Storage) {
        let file = self.file;
        let Some(section) = file.get(range.clone()) else { return };
        let mut at = 0;
        while let Some(gap) = section[at..].iter().position(|byte| *byte != 0) {
            at += gap;
            let start = range.start + at;
            let read = offload_binary::read(&section[at..], &mut self.budget);
            let binary = match read {
                Ok(binary) => binary,
                Err(broken) => return self.harvest.broken(start, broken),
            };
            for image in &binary.images {
                let bytes = binary.bytes(image, &section[at..]);
                self.image(start, image, bytes, storage);
            }
            at += binary.end;
        }
    }

    /// Reads a file that is itself a bundle, an offload binary, or a code object (an AMDGPU ELF
    /// file).
    pub(super) fn whole_file(&mut self) {
        let all = 0..self.file.len();
        if self.file.starts_with(offload_binary::MAGIC) {
            self.offload_binaries(all, Storage::OffloadBinary);
        } else if self.file.starts_with(code_object_magic()) {
            self.code_object(all, Storage::CodeObject, "");
        } else {
            // Some writers concatenate several bundles.
            self.walk(all, Storage::Bundle);
        }
    }

    /// Reads one code object, which some text may declare to be for the target `declared`.
    pub(super) fn code_object(&mut self, range: Range<usize>, storage: Storage, declared: &str) {
        let Some(bytes) = self.file.get(range.clone()) else { return };
        let (size, place) =
            (bytes.len() as u64, CodeLocation { storage, compression: None, offset: range.start });
        match code_object::examine(bytes, size, self.depth) {
            Ok((object, kernels)) => self.harvest.object(declared, &object, place, size, kernels),
            Err(what) => self.harvest.damaged(range.start, what),
        }
    }

    /// Reads one code object that is stored under an ID.
    pub(super) fn identified(&mut self, id: &str, range: Range<usize>, storage: Storage) {
        let Some(bytes) = self.file.get(range.clone()) else { return };
        let entry = bundle::BundleEntry { id: id.to_owned(), offset: 0, size: bytes.len() as u64 };
        let examined = code_object::examine(bytes, entry.size, self.depth);
        let place = CodeLocation { storage, compression: None, offset: range.start };
        self.harvest.entry(&entry, place, Some(examined));
    }

    /// Records that the file's code is in archives that are not read.
    pub(super) fn elsewhere(&mut self, storage: Storage) {
        let place = CodeLocation { storage, compression: None, offset: 0 };
        self.harvest.add(Target::Unread, place, None, 0, Kernels::default());
    }

    /// Records what the file's name shows.
    pub(super) fn named(&mut self, target: Target, storage: Storage, size: u64) {
        let place = CodeLocation { storage, compression: None, offset: 0 };
        self.harvest.add(target, place, None, size, Kernels::default());
    }

    /// Records damage outside of GPU code.
    pub(super) fn damaged(&mut self, damage: Damage) {
        self.harvest.note(damage);
    }

    /// Decodes the remaining jobs and returns what was collected.
    pub(super) fn finish(mut self) -> Gathered {
        for harvest in decode::run(&self.jobs, &image::folder()) {
            self.harvest.merge(harvest);
        }
        self.harvest.finish()
    }

    /// Reads what starts at `start` and returns its end, both as offsets in the file; `None` if the
    /// end is unknown.
    fn piece(&mut self, start: usize, limit: usize, storage: Storage) -> Option<usize> {
        let bytes = &self.file[start..limit];
        if bytes.starts_with(bundle::MAGIC) {
            match Table::whole(bytes) {
                Ok(table) => Some(self.plain(start, bytes, &table, storage)),
                Err(broken) => self.broken(start, broken),
            }
        } else if bytes.starts_with(ccob::MAGIC) {
            match Header::read(bytes) {
                Ok(header) => self.compressed(start, bytes, header, storage),
                Err(broken) => self.broken(start, broken),
            }
        } else if bytes.starts_with(code_object_magic()) {
            match code_object::extent(bytes) {
                Some(end) => {
                    self.code_object(start..start + end, storage, "");
                    Some(start + end)
                }
                None => {
                    self.broken(start, Broken::new(0, "holds an ELF file whose end is unknown"))
                }
            }
        } else {
            self.broken(start, Broken::new(0, "holds neither a bundle nor zeros"))
        }
    }

    /// Reads a bundle whose entries are all known to be inside it, and returns its end.
    fn plain(&mut self, start: usize, bytes: &[u8], table: &Table, storage: Storage) -> usize {
        self.harvest.bundles += 1;
        for entry in &table.entries {
            // Entries without content may state any offset.
            let inside = if entry.size > 0 { entry.offset as usize } else { 0 };
            let code = bytes.get(inside..inside + entry.size as usize).unwrap_or_default();
            let place = CodeLocation { storage, compression: None, offset: start + inside };
            let examined = code_object::examine(code, entry.size, self.depth);
            self.harvest.entry(entry, place, Some(examined));
        }
        start + table.end as usize
    }

    fn compressed(
        &mut self,
        start: usize,
        bytes: &'a [u8],
        header: Header,
        storage: Storage,
    ) -> Option<usize> {
        let end = header.end.map(|end| start + end);
        let place = CodeLocation { storage, compression: Some(header.compression), offset: start };
        if end.is_some() && self.depth == Depth::Quick {
            match header.table(bytes, &mut self.budget) {
                Ok(table) => {
                    self.harvest.bundles += 1;
                    table.entries.iter().for_each(|entry| self.harvest.entry(entry, place, None));
                }
                Err(broken) => self.harvest.broken(start, broken),
            }
            return end;
        }
        if let Err(broken) = header.reserve(&mut self.budget) {
            self.harvest.broken(start, broken);
            return end;
        }
        let job = Job { start, bytes, header, storage };
        if end.is_some() {
            self.jobs.push(job);
            return end;
        }
        let (harvest, length) = decode::one(&job, self.depth);
        self.harvest.merge(harvest);
        length.map(|length| start + length)
    }

    /// Like [`Self::piece`], for arbitrary bytes: reads only what a compiler could have written.
    fn believe(&mut self, start: usize, limit: usize, storage: Storage) -> Option<usize> {
        let bytes = &self.file[start..limit];
        if bytes.starts_with(bundle::MAGIC) {
            let table = Table::whole(bytes).ok().filter(Table::is_credible)?;
            let code = |entry: &bundle::BundleEntry| -> Option<Object> {
                let start = entry.offset as usize;
                let head = bytes.get(start..start + entry.size.min(HEAD as u64) as usize)?;
                code_object::identify(head, entry.size).ok()
            };
            let content = table.entries.iter().filter(|entry| entry.size > 0);
            let amd = content.filter_map(code).any(|object| object != Object::Bitcode);
            amd.then(|| self.plain(start, bytes, &table, storage))
        } else if bytes.starts_with(ccob::MAGIC) {
            let header = Header::read(bytes).ok()?;
            header.table(bytes, &mut self.budget).ok().filter(Table::is_credible)?;
            self.compressed(start, bytes, header, storage)
        } else {
            let machine = bytes.get(18..20) == Some(&EM_AMDGPU.to_le_bytes());
            let end = code_object::extent(bytes).filter(|_| machine)?;
            code_object::identify(&bytes[..HEAD], end as u64).ok()?;
            self.code_object(start..start + end, Storage::Embedded, "");
            Some(start + end)
        }
    }

    fn image(
        &mut self,
        start: usize,
        image: &offload_binary::Image,
        bytes: &[u8],
        storage: Storage,
    ) {
        use offload_binary::Kind;
        if !image.is_amd() {
            return;
        }
        let size = bytes.len() as u64;
        let place = CodeLocation { storage, compression: None, offset: start + image.offset() };
        match image.kind {
            Kind::Object | Kind::Spirv => match code_object::examine(bytes, size, self.depth) {
                Ok((object, kernels)) => {
                    let id = format!("{}-{}", image.triple, image.arch);
                    self.harvest.identified(&id, &image.arch, &object, place);
                    self.harvest.object(&image.arch, &object, place, size, kernels);
                }
                Err(what) => self
                    .harvest
                    .damaged(place.offset, format!("{what}, in its image for `{}`", image.arch)),
            },
            // The linker puts the objects of all targets into one bundle.
            Kind::Fatbinary => match Table::whole(bytes) {
                Ok(table) => {
                    self.plain(place.offset, bytes, &table, storage);
                }
                Err(broken) => self.harvest.broken(place.offset, broken),
            },
            Kind::Bitcode => self.harvest.bitcode(&image.arch, place, size),
            Kind::Other => {}
        }
    }

    fn broken(&mut self, start: usize, broken: Broken) -> Option<usize> {
        self.harvest.broken(start, broken);
        None
    }
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
    use crate::facts::{Damage, Mismatch};
    use crate::testing::{Method, aligned, bundle, ccob, code_object, flip_bytes};

    fn one(target: &str, size: usize) -> Vec<u8> {
        let id = format!("hipv4-amdgcn-amd-amdhsa--{target}");
        bundle(&[("host-x86_64-unknown-linux-gnu-", &[]), (&id, &code_object(target, size))])
    }

    fn walked(bytes: &[u8]) -> (Vec<String>, Vec<Damage>, Vec<Mismatch>) {
        let mut device = Device::new(bytes, Depth::Deep);
        device.walk(0..bytes.len(), Storage::HipFatbin);
        let Gathered { code, damage, mismatches, .. } = device.finish();
        let code = code.iter().map(|c| {
            let compression = c.compression.map(|c| format!(" {c}")).unwrap_or_default();
            format!("{}{compression} {} {}", c.target, c.count, c.bytes)
        });
        (code.collect(), damage, mismatches)
    }

    #[test]
    fn reads_adjacent_plain_and_compressed_bundles() {
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
    fn continues_after_damage() {
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
    fn stops_after_too_much_damage() {
        let pieces = vec![bundle::MAGIC.to_vec(); 10_000];
        let (code, damage, _) = walked(&aligned(&pieces));
        assert!(code.is_empty() && damage.len() == MAX_DAMAGE + 1);
    }

    #[test]
    fn reports_truncation_that_loses_code() {
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
    fn reports_odd_entries_with_their_offset() {
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
    fn accepts_any_offset_of_an_empty_entry() {
        let id = "hipv4-amdgcn-amd-amdhsa--gfx1151";
        let mut bytes = bundle(&[(id, &[]), (id, &code_object("gfx1151", 300))]);
        bytes[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        let (code, damage, _) = walked(&aligned(&[one("gfx1100", 300), bytes]));
        assert_eq!((code.len(), damage.len()), (2, 1));
    }

    #[test]
    fn limits_decompression_per_file() {
        let bomb = bundle(&[("hip-amdgcn-amd-amdhsa--gfx1151", &vec![0; 40 << 20])]);
        let bomb = ccob(&bomb, 3, Method::Zstd);
        let (_, damage, _) = walked(&aligned(&[bomb.clone(), bomb.clone(), bomb]));
        let refused = damage.iter().filter(|d| d.what.contains("allowed here")).count();
        assert_eq!(refused, 2, "{damage:?}");
    }

    #[test]
    fn reads_bare_files() {
        for (bytes, storage) in [
            (code_object("gfx1151", 300), Storage::CodeObject),
            (one("gfx1151", 300), Storage::Bundle),
            (ccob(&one("gfx1151", 300), 2, Method::Zstd), Storage::Bundle),
        ] {
            let mut device = Device::new(&bytes, Depth::Deep);
            device.whole_file();
            let Gathered { code, damage, .. } = device.finish();
            assert_eq!((code.len(), damage.len()), (1, 0));
            assert_eq!((code[0].storage, code[0].bytes), (storage, 300));
        }
    }

    #[test]
    fn survives_random_corruption() {
        let bytes = aligned(&[
            one("gfx1151", 600),
            ccob(&one("gfx1100", 600), 1, Method::Zstd),
            code_object("gfx1201", 700),
        ]);
        flip_bytes(&bytes, 3000, |bytes| drop(walked(bytes)));
    }
}
