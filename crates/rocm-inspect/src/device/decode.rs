//! Decompresses whole bundles on all cores: groups of similar sizes into the space of a temporary
//! file, where they are hashed together, or a single one as a stream. The caller locates the
//! bundles.
//!
//! Compilers write single segments (RFC 8878, 3.1.1.1.1.2), in which a decoder refers back to the
//! whole content: 80 MB for a large library. Several at once do not fit in memory, and hashing them
//! one by one is too slow; hence the file.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::area::Area;
use super::bundle::{Broken, MAX_TABLE, Table};
use super::ccob::{self, Header, Stream};
use super::code_object;
use super::harvest::{CodeLocation, Examined, Harvest};
use crate::facts::Storage;
use crate::finding::Depth;
use rocmrpm_base::parallel;

/// How many bytes of a stream are read at a time.
const CHUNK: usize = 64 << 10;

/// How much of a code object is kept: its headers and the start of its metadata, or all of a small
/// one, including its symbols.
const KEPT: usize = 128 << 10;

/// How much disk space the temporary files use together at most.
const ROOM: usize = 2 << 30;

/// A compressed bundle to decode.
pub(super) struct Job<'a> {
    /// Its offset in the file.
    pub(super) start: usize,
    /// The bytes from this offset at least to the end of the bundle.
    pub(super) bytes: &'a [u8],
    pub(super) header: Header,
    pub(super) storage: Storage,
}

impl Job<'_> {
    /// Returns how much space it needs: one byte more than declared, so that excess content is
    /// detected, rounded up to whole cache lines.
    fn room(&self) -> usize {
        let declared = usize::try_from(self.header.declared).unwrap_or(usize::MAX);
        declared.saturating_add(64) / 64 * 64
    }
}

/// Decodes the bundles on all cores, with temporary files in `folder`, and returns their contents
/// in the same order.
pub(super) fn run(jobs: &[Job<'_>], folder: &Path) -> Vec<Harvest> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    run_on(cores, jobs, folder)
}

fn run_on(cores: usize, jobs: &[Job<'_>], folder: &Path) -> Vec<Harvest> {
    let largest = jobs.iter().map(Job::room).max().unwrap_or(0);
    let cores = cores.min(jobs.len()).min(ROOM / largest.max(1)).max(1);
    let groups = groups(jobs, cores);
    let (next, streaming) = (AtomicUsize::new(0), Mutex::new(()));
    let work = || {
        let mut area = Area::new(folder);
        let mut results = Vec::new();
        while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
            let group: Vec<_> = group.iter().map(|index| (*index, &jobs[*index])).collect();
            results.extend(together(&group, &mut area, ROOM / cores, &streaming));
        }
        results
    };
    let mut results: Vec<(usize, Harvest)> = match cores {
        1 => work(),
        _ => std::thread::scope(|scope| {
            let threads = parallel::helpers(scope, cores - 1, work);
            let own = work();
            let joined = threads.into_iter().map(|thread| match thread.join() {
                Ok(results) => results,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            own.into_iter().chain(joined.flatten()).collect()
        }),
    };
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, harvest)| harvest).collect()
}

/// Returns which bundles are decoded together: the largest first, so that none of them is left for
/// the end, and as many as are hashed in lockstep and fit in the space of one thread.
fn groups(jobs: &[Job<'_>], cores: usize) -> Vec<Vec<usize>> {
    let most = jobs.len().div_ceil(cores).clamp(1, md5_lanes::LANES);
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(jobs[*index].header.declared));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut left = 0;
    for index in order {
        let room = jobs[index].room();
        match groups.last_mut() {
            Some(group) if group.len() < most && room <= left => {
                group.push(index);
                left -= room;
            }
            _ => {
                groups.push(vec![index]);
                left = (ROOM / cores).saturating_sub(room);
            }
        }
    }
    groups
}

/// Decodes a group. Bundles that do not fit and damaged ones are streamed, which reports the
/// damage.
fn together(
    group: &[(usize, &Job<'_>)],
    area: &mut Area<'_>,
    most: usize,
    streaming: &Mutex<()>,
) -> Vec<(usize, Harvest)> {
    let wanted = group.iter().fold(0, |sum: usize, (_, job)| sum.saturating_add(job.room()));
    let room = if wanted <= most { area.room(wanted).ok() } else { None };
    let mut room = room.unwrap_or_default();
    let (mut decoded, mut results) = (Vec::new(), Vec::new());
    for (index, job) in group {
        let space = room.split_off_mut(..job.room()).unwrap_or_default();
        match job.header.decompress(job.bytes, space) {
            Some(content) => decoded.push((*index, *job, content)),
            None => {
                // The stream's window is in memory: 128 MB for the largest that zstd's decoder
                // accepts, so only one is decoded at a time.
                let _one = streaming.lock().unwrap_or_else(PoisonError::into_inner);
                results.push((*index, one(job, Depth::Deep).0));
            }
        }
    }
    let contents: Vec<&[u8]> = decoded.iter().map(|(.., content)| *content).collect();
    for ((index, job, content), hash) in decoded.into_iter().zip(md5_lanes::all(&contents)) {
        let mut reader = Reader::default();
        let read = content.chunks(CHUNK).try_for_each(|chunk| reader.push(chunk, Depth::Deep));
        let read = read.and_then(|()| reader.finish(content.len() as u64, Depth::Deep));
        results.push((index, harvest(job, read.map_err(ccob::inside), Some(hash))));
    }
    results
}

/// Decodes one bundle as a stream. Also returns its end, which version 1 does not state.
pub(super) fn one(job: &Job<'_>, depth: Depth) -> (Harvest, Option<usize>) {
    let mut reader = Reader::default();
    let mut buffer = vec![0; CHUNK];
    let (mut hash, mut length) = (md5_lanes::START, 0);
    let mut stream = match Stream::open(&job.header, job.bytes) {
        Ok(stream) => stream,
        Err(broken) => return (harvest(job, Err(broken), None), None),
    };
    let last = loop {
        let read = stream.fill(&mut buffer).and_then(|count| {
            reader.push(&buffer[..count], depth).map_err(ccob::inside)?;
            Ok(count)
        });
        let count = match read {
            Ok(count) => count,
            Err(broken) => return (harvest(job, Err(broken), None), None),
        };
        length += count as u64;
        if count < buffer.len() {
            break &buffer[..count];
        }
        if depth == Depth::Deep {
            md5_lanes::update(&mut [(&mut hash, &buffer)]);
        }
    };
    let end = job.bytes.len() - stream.unread();
    let read = stream.complete().and_then(|()| reader.finish(length, depth).map_err(ccob::inside));
    let hash = (depth == Depth::Deep).then(|| md5_lanes::finish(hash, last, length));
    (harvest(job, read, hash), Some(end))
}

/// Collects the contents of a bundle. `hash` is the hash of its content.
fn harvest(
    job: &Job<'_>,
    read: Result<(Table, Vec<Examined>), Broken>,
    hash: Option<[u8; 16]>,
) -> Harvest {
    let mut harvest = Harvest::default();
    let (table, examined) = match read {
        Ok(read) => read,
        Err(broken) => {
            harvest.broken(job.start, broken);
            return harvest;
        }
    };
    harvest.bundles = 1;
    // An entry of a compressed bundle does not have its own offset in the file.
    let compression = Some(job.header.compression);
    let place = CodeLocation { storage: job.storage, compression, offset: job.start };
    let mut examined = examined.into_iter();
    for entry in &table.entries {
        let examined = if entry.size > 0 { examined.next() } else { None };
        harvest.entry(entry, place, examined);
    }
    let computed = hash.map(|hash| u64::from_le_bytes(std::array::from_fn(|i| hash[i])));
    match computed {
        // LLVM never leaves the field empty, and its readers accept that.
        Some(computed) if job.header.hash != computed && job.header.hash != 0 => {
            harvest.wrong_hash(job.start, job.header.hash, computed);
        }
        _ => {}
    }
    harvest
}

/// Reads a bundle whose bytes arrive chunk by chunk.
#[derive(Default)]
struct Reader {
    head: Vec<u8>,
    /// How many bytes make another attempt to read the table worthwhile.
    enough: usize,
    table: Option<Table>,
    /// How many entries with content have been read.
    done: usize,
    /// The offset of the next chunk in the bundle.
    at: u64,
    kept: Vec<u8>,
    examined: Vec<Examined>,
}

impl Reader {
    fn push(&mut self, bytes: &[u8], depth: Depth) -> Result<(), Broken> {
        if self.table.is_some() {
            self.content(bytes, depth);
            return Ok(());
        }
        self.head.extend(bytes);
        if self.head.len() < self.enough {
            return Ok(());
        }
        match Table::read(&self.head)? {
            Some(mut table) => {
                // Entries without content may state any offset.
                table.entries.sort_by_key(|entry| (entry.size == 0, entry.offset));
                self.table = Some(table);
                let head = std::mem::take(&mut self.head);
                self.content(&head, depth);
                Ok(())
            }
            None if self.head.len() > MAX_TABLE => {
                Err(Broken::new(self.head.len() as u64, "has an endless table of entries"))
            }
            None => {
                self.enough = self.head.len() * 2;
                Ok(())
            }
        }
    }

    fn content(&mut self, bytes: &[u8], depth: Depth) {
        let end = self.at + bytes.len() as u64;
        let entries = self.table.as_ref().map_or(&[][..], |table| &table.entries);
        while let Some(entry) =
            entries.get(self.done).filter(|entry| entry.size > 0 && entry.offset < end)
        {
            let wanted = entry.size.min(KEPT as u64) as usize;
            let from = (entry.offset + self.kept.len() as u64).saturating_sub(self.at) as usize;
            let rest = bytes.get(from..).unwrap_or_default();
            let taken = &rest[..rest.len().min(wanted - self.kept.len())];
            if self.kept.is_empty() && taken.len() == wanted {
                self.examined.push(code_object::examine(taken, entry.size, depth));
            } else {
                self.kept.extend(taken);
                if self.kept.len() < wanted {
                    break;
                }
                self.examined.push(code_object::examine(&self.kept, entry.size, depth));
                self.kept.clear();
            }
            self.done += 1;
        }
        self.at = end;
    }

    /// Returns the table and the result for each entry with content, in the table's order. `length`
    /// is the size of the bundle in bytes.
    fn finish(mut self, length: u64, depth: Depth) -> Result<(Table, Vec<Examined>), Broken> {
        if self.table.is_none() {
            // The last bytes were too few for another attempt to read the table.
            self.enough = 0;
            self.push(&[], depth)?;
        }
        let table = self.table.take();
        let table = table.ok_or_else(|| Broken::new(length, "ends within its table of entries"))?;
        table.inside(length)?;
        Ok((table, self.examined))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Method, bundle, ccob, kernels_object};

    /// Bundles of various lengths up to 20 MB, some of them damaged or with a wrong hash.
    fn bundles() -> Vec<Vec<u8>> {
        let bundles = (0..21).map(|n: usize| {
            let mut object = kernels_object("gfx1151", n as u32 + 1);
            object.resize(object.len() + n * n * 50_000 + n, n as u8);
            let method = if n % 5 == 4 { Method::Zlib } else { Method::Zstd };
            let plain = bundle(&[("hip-amdgcn-amd-amdhsa--gfx1151", &object)]);
            let mut bytes = ccob(&plain, 2 + (n as u16 & 1), method);
            match n {
                3 | 17 => bytes[if n & 1 == 0 { 16 } else { 24 }] ^= 1,
                7 | 19 => bytes.truncate(bytes.len() - 2),
                11 => bytes[16] += 1,
                _ => {}
            }
            bytes
        });
        bundles.collect()
    }

    fn decoded(bundles: &[Vec<u8>], cores: usize, folder: &Path) -> String {
        let jobs = bundles.iter().enumerate().map(|(start, bytes)| {
            let mut header = bytes.clone();
            let length = bytes.len() as u64;
            // Also in a truncated bundle.
            match header[4] {
                2 => header[8..12].copy_from_slice(&(length as u32).to_le_bytes()),
                _ => header[8..16].copy_from_slice(&length.to_le_bytes()),
            }
            let header = Header::read(&header).unwrap();
            Job { start, bytes, header, storage: Storage::HipFatbin }
        });
        let jobs: Vec<_> = jobs.collect();
        let mut all = Harvest::default();
        run_on(cores, &jobs, folder).into_iter().for_each(|harvest| all.merge(harvest));
        let all = all.finish();
        format!("{} {:?} {:?} {:?}", all.bundles, all.code, all.damage, all.wrong_hashes)
    }

    #[test]
    fn decodes_equally_on_any_cores_and_space() {
        let (bundles, dir) = (bundles(), tempfile::tempdir().unwrap());
        let wanted = decoded(&bundles, 1, dir.path());
        assert_eq!(wanted.matches("WrongHash").count(), 2, "{wanted}");
        assert_eq!(wanted.matches("Damage").count(), 3, "{wanted}");
        assert!(
            wanted.starts_with("18 ")
                && wanted.contains("count: 9, bytes: 66401804, kernels: Some(101)"),
            "{wanted}"
        );
        for cores in [2, 3, 40] {
            assert_eq!(decoded(&bundles, cores, dir.path()), wanted);
        }
        for cores in [1, 2] {
            assert_eq!(decoded(&bundles, cores, Path::new("/dev/null/none")), wanted, "no space");
        }
    }

    #[test]
    fn keeps_groups_within_their_space() {
        let bytes = ccob(&bundle(&[]), 3, Method::Zstd);
        let jobs = |declared: &[u64]| -> Vec<Job<'_>> {
            let job = |declared: &u64| {
                let mut header = bytes.clone();
                header[16..24].copy_from_slice(&declared.to_le_bytes());
                let header = Header::read(&header).unwrap();
                Job { start: 0, bytes: &bytes, header, storage: Storage::HipFatbin }
            };
            declared.iter().map(job).collect()
        };
        assert_eq!(groups(&jobs(&[5, 9, 7]), 2), [vec![1, 2], vec![0]]);
        assert_eq!(groups(&jobs(&[1; 20]), 2).iter().map(Vec::len).collect::<Vec<_>>(), [8, 8, 4]);
        let large = jobs(&[1 << 33, 600 << 20, 600 << 20, 1]);
        assert_eq!(groups(&large, 1), [vec![0], vec![1, 2, 3]]);
        assert_eq!(groups(&large, 2), [vec![0], vec![1], vec![2, 3]]);
        assert!(groups(&[], 1).is_empty());
    }
}
