//! Decompressing whole bundles, several at once: each is one stream that feeds its
//! hash and its reader, of which no more than the beginning of one code object is
//! kept. Where bundles are is found out before.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::harvest::{Examined, Harvest, Place};
use crate::inspect::bundle::{Broken, MAX_TABLE, Table};
use crate::inspect::ccob::{self, Header, Stream};
use crate::inspect::code_object;
use crate::inspect::facts::Storage;
use crate::inspect::md5;
use crate::inspect::report::Depth;

/// How much of a stream is taken at a time: whole blocks of MD5, and what stays in
/// the processor's second cache.
const CHUNK: usize = 64 << 10;

/// How much of a code object is kept: its headers and the beginning of its
/// metadata, or a small one as a whole, with its symbols.
const KEPT: usize = 128 << 10;

/// How much memory the decoders of one thread may use for what they look back at;
/// one of them runs in any case. Compilers write single segments (RFC 8878,
/// 3.1.1.1.1.2), in which that is the whole content: 80 MB of a large library, so
/// that few run beside each other, and hashing those one by one is what takes time.
const WINDOWS: u64 = 48 << 20;

/// A compressed bundle that is to be decoded.
pub(super) struct Job<'a> {
    /// Where it stands in the file.
    pub(super) start: usize,
    /// The bytes from there on, to its end at least.
    pub(super) bytes: &'a [u8],
    pub(super) header: Header,
    pub(super) storage: Storage,
}

/// Decodes the bundles on all cores and returns what is in them, in their order.
pub(super) fn run(jobs: &[Job<'_>], depth: Depth) -> Vec<Harvest> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len()).max(1);
    let most = jobs.len().div_ceil(cores).clamp(1, md5::LANES);
    // The largest first, so that none of them is left alone at the end.
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(jobs[*index].header.declared));
    let next = AtomicUsize::new(0);
    let work = || worker(jobs, &order, &next, most, depth);
    let mut results: Vec<(usize, Harvest)> = match cores {
        1 => work(),
        _ => std::thread::scope(|scope| {
            let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            let joined = threads.into_iter().map(|thread| match thread.join() {
                Ok(results) => results,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            joined.flatten().collect()
        }),
    };
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, harvest)| harvest).collect()
}

/// Decodes one bundle at once and returns where it ends as well, which version 1
/// does not say.
pub(super) fn one(job: &Job<'_>, depth: Depth) -> (Harvest, Option<usize>) {
    let mut lane = match Lane::new(0, job) {
        Ok(lane) => lane,
        Err(broken) => return failed(job, broken),
    };
    while lane.advance(depth) {
        lane.hash_alone();
    }
    let unread = lane.stream.unread();
    let ended = lane.failure.is_none();
    (lane.finish(depth), ended.then(|| job.bytes.len() - unread))
}

fn failed(job: &Job<'_>, broken: Broken) -> (Harvest, Option<usize>) {
    let mut harvest = Harvest::default();
    harvest.broken(job.start, broken);
    (harvest, None)
}

fn worker(
    jobs: &[Job<'_>],
    order: &[usize],
    next: &AtomicUsize,
    most: usize,
    depth: Depth,
) -> Vec<(usize, Harvest)> {
    let mut results = Vec::new();
    let mut lanes: Vec<Lane<'_>> = Vec::new();
    loop {
        while lanes.len() < most && lanes.iter().map(|lane| lane.window).sum::<u64>() < WINDOWS {
            let Some(index) = order.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            match Lane::new(*index, &jobs[*index]) {
                Ok(lane) => lanes.push(lane),
                Err(broken) => results.push((*index, failed(&jobs[*index], broken).0)),
            }
        }
        if lanes.is_empty() {
            return results;
        }
        let mut ended = Vec::new();
        for at in (0..lanes.len()).rev() {
            if !lanes[at].advance(depth) {
                ended.push(lanes.swap_remove(at));
            }
        }
        if depth == Depth::Deep {
            let streams = lanes.iter_mut().map(|lane| (&mut lane.hash, &lane.buffer[..]));
            md5::update(&mut streams.collect::<Vec<_>>());
        }
        results.extend(ended.into_iter().map(|lane| (lane.index, lane.finish(depth))));
    }
}

/// A bundle while it is decoded.
struct Lane<'a> {
    index: usize,
    job: &'a Job<'a>,
    stream: Stream<'a>,
    window: u64,
    reader: Reader,
    hash: md5::State,
    buffer: Vec<u8>,
    filled: usize,
    length: u64,
    failure: Option<Broken>,
}

impl<'a> Lane<'a> {
    fn new(index: usize, job: &'a Job<'a>) -> Result<Self, Broken> {
        Ok(Self {
            index,
            job,
            stream: Stream::open(&job.header, job.bytes)?,
            window: job.header.window(job.bytes),
            reader: Reader::default(),
            hash: md5::START,
            buffer: vec![0; CHUNK],
            filled: 0,
            length: 0,
            failure: None,
        })
    }

    /// Decompresses and reads the next chunk; false at the end and at damage.
    fn advance(&mut self, depth: Depth) -> bool {
        self.filled = 0;
        let read = self.stream.fill(&mut self.buffer).and_then(|count| {
            self.filled = count;
            self.length += count as u64;
            self.reader.push(&self.buffer[..count], depth).map_err(ccob::inside)
        });
        self.failure = read.err();
        self.failure.is_none() && self.filled == self.buffer.len()
    }

    fn hash_alone(&mut self) {
        md5::update(&mut [(&mut self.hash, &self.buffer)]);
    }

    fn finish(self, depth: Depth) -> Harvest {
        let Self { job, stream, reader, hash, buffer, filled, length, failure, .. } = self;
        let mut harvest = Harvest::default();
        let ended = failure.map_or(Ok(()), Err).and_then(|()| stream.complete());
        let table = ended.and_then(|()| reader.finish(length, depth).map_err(ccob::inside));
        let (table, examined) = match table {
            Ok(table) => table,
            Err(broken) => {
                harvest.broken(job.start, broken);
                return harvest;
            }
        };
        harvest.bundles = 1;
        // An entry has no place of its own in the file.
        let compression = Some(job.header.compression);
        let place = Place { storage: job.storage, compression, offset: job.start };
        let mut examined = examined.into_iter();
        for entry in &table.entries {
            let examined = if entry.size > 0 { examined.next() } else { None };
            harvest.entry(entry, place, examined);
        }
        if depth == Depth::Deep {
            let hash = md5::finish(hash, &buffer[..filled], length);
            let computed = u64::from_le_bytes(std::array::from_fn(|i| hash[i]));
            // LLVM never leaves the field empty, and its readers do not mind.
            if job.header.hash != computed && job.header.hash != 0 {
                harvest.wrong_hash(job.start, job.header.hash, computed);
            }
        }
        harvest
    }
}

/// Reads a bundle whose bytes come one chunk after the other.
#[derive(Default)]
struct Reader {
    head: Vec<u8>,
    /// With how many bytes another look at the table is worthwhile.
    enough: usize,
    table: Option<Table>,
    /// How many entries with content were read.
    done: usize,
    /// Where in the bundle the next chunk begins.
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
                // Entries without content may claim to be anywhere.
                table.entries.sort_by_key(|entry| (entry.size == 0, entry.offset));
                self.table = Some(table);
                let head = std::mem::take(&mut self.head);
                self.content(&head, depth);
                Ok(())
            }
            None if self.head.len() > MAX_TABLE => {
                Err(Broken::new(self.head.len() as u64, "has a table of entries without end"))
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
        while let Some(entry) = entries.get(self.done).filter(|entry| entry.size > 0 && entry.offset < end) {
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

    /// Returns the table and what was found out about each entry with content, in
    /// the table's order. `length` is how many bytes the bundle has.
    fn finish(mut self, length: u64, depth: Depth) -> Result<(Table, Vec<Examined>), Broken> {
        if self.table.is_none() {
            // What came was not looked at again for being too little more.
            self.enough = 0;
            self.push(&[], depth)?;
        }
        let table = self.table.take();
        let table = table.ok_or_else(|| Broken::new(length, "ends within its table of entries"))?;
        table.inside(length)?;
        Ok((table, self.examined))
    }
}
