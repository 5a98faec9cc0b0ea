//! Compresses contents on all cores: cuts each into blocks, compresses the blocks separately and
//! joins them into one stream. It does not write the archive around them.
//!
//! A deflate stream is a sequence of parts, the last of which is marked as such, and a match may
//! reach back 32 KiB into earlier parts (RFC 1951, sections 2 and 3.2.3). So each block is
//! compressed with the preceding 32 KiB as its dictionary and padded to a whole byte by an empty
//! stored part (zlib's `Z_SYNC_FLUSH`), as in pigz. Blocks have a fixed length, so the bytes do not
//! depend on the number of threads.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

use super::WheelError;
use rocmrpm_base::{parallel, process};

/// The length of a block in bytes. Shorter blocks would spend time on dictionaries; longer ones
/// would cost memory on machines with many cores.
pub(super) const BLOCK: u64 = 512 << 10;
/// The distance that a match can reach back, in bytes.
const WINDOW: u64 = 32 << 10;
/// zlib's default, fixed here so that the bytes stay the same.
const LEVEL: u32 = 6;

/// Content that several threads can read.
pub(super) trait Content: Sync {
    /// Returns the length in bytes.
    fn size(&self) -> u64;

    /// Fills the buffer with the bytes from `at` on.
    fn read_exact_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<()>;
}

/// A compressed block.
pub(super) struct Block {
    /// The part of the stream.
    pub bytes: Vec<u8>,
    /// The checksum of the uncompressed bytes.
    pub crc: Crc,
    /// Whether this is the last block of its content.
    pub last: bool,
}

struct Job {
    content: usize,
    at: u64,
    done: SyncSender<io::Result<Block>>,
}

/// Compresses contents on this many threads and calls `take` for every block in order, with the
/// index of its content. An empty content has one block. At most two blocks per thread exist at any
/// time.
pub(super) fn compress<C: Content>(
    contents: &[C],
    threads: usize,
    mut take: impl FnMut(usize, Block) -> Result<(), WheelError>,
) -> Result<(), WheelError> {
    let mut places = contents.iter().enumerate().flat_map(|(content, bytes)| {
        (0..bytes.size().div_ceil(BLOCK).max(1)).map(move |block| (content, block * BLOCK))
    });
    let (jobs, waiting) = channel::<Job>();
    let waiting = Mutex::new(waiting);
    std::thread::scope(|scope| {
        // Dropping the sender before the scope joins the threads makes them exit.
        let jobs = jobs;
        // This thread writes the compressed blocks, so at least one other must compress.
        parallel::builder().spawn_scoped(scope, || work(contents, &waiting))?;
        parallel::helpers(scope, threads.saturating_sub(1), || work(contents, &waiting));
        let mut ahead: VecDeque<(usize, Receiver<io::Result<Block>>)> = VecDeque::new();
        loop {
            while ahead.len() < 2 * threads.max(1)
                && let Some((content, at)) = places.next()
            {
                let (done, block) = sync_channel(1);
                let ended = |_| io::Error::other("the compression threads exited");
                jobs.send(Job { content, at, done }).map_err(ended)?;
                ahead.push_back((content, block));
            }
            let Some((content, block)) = ahead.pop_front() else { return Ok(()) };
            process::check_stop()?;
            let block =
                block.recv().map_err(|_| io::Error::other("a compression thread exited"))??;
            take(content, block)?;
        }
    })
}

fn work<C: Content>(contents: &[C], waiting: &Mutex<Receiver<Job>>) {
    let mut packer =
        Packer { deflate: Compress::new(Compression::new(LEVEL), false), input: Vec::new() };
    loop {
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // After an error, the receiver may be gone.
        let _ = job.done.send(packer.block(&contents[job.content], job.at));
    }
}

struct Packer {
    deflate: Compress,
    input: Vec<u8>,
}

impl Packer {
    fn block(&mut self, content: &impl Content, at: u64) -> io::Result<Block> {
        let (start, end) = (at.saturating_sub(WINDOW), content.size().min(at + BLOCK));
        self.input.resize((end - start) as usize, 0);
        content.read_exact_at(start, &mut self.input)?;
        let (dictionary, input) = self.input.split_at((at - start) as usize);
        self.deflate.reset();
        if !dictionary.is_empty() {
            self.deflate.set_dictionary(dictionary)?;
        }
        let last = end == content.size();
        let flush = if last { FlushCompress::Finish } else { FlushCompress::Sync };
        // Enough for incompressible data, which takes 5 extra bytes per stored part.
        let mut bytes = Vec::with_capacity(input.len() + input.len() / 256 + 64);
        loop {
            let read = self.deflate.total_in() as usize;
            let status = self.deflate.compress_vec(&input[read..], &mut bytes, flush)?;
            if status == Status::StreamEnd || !last && bytes.len() < bytes.capacity() {
                break;
            }
            bytes.reserve(BLOCK as usize / 8);
        }
        let mut crc = Crc::new();
        crc.update(input);
        Ok(Block { bytes, crc, last })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Read as _;

    use super::*;

    impl Content for Vec<u8> {
        fn size(&self) -> u64 {
            self.len() as u64
        }

        fn read_exact_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
            buffer.copy_from_slice(&self[at as usize..][..buffer.len()]);
            Ok(())
        }
    }

    /// Pseudo-random numbers in lines, every second of which is a repetition.
    pub(in crate::wheel) fn lines(length: u64) -> Vec<u8> {
        let mut state = 1u64;
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < length {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bytes.extend(format!("{state:x} {:x}\n", state >> 60).as_bytes());
        }
        bytes.truncate(length as usize);
        bytes
    }

    /// Compresses one content.
    pub(in crate::wheel) fn compressed(content: &[u8]) -> Vec<Block> {
        let mut blocks = Vec::new();
        compress(&[content.to_vec()], 1, |_, block| {
            blocks.push(block);
            Ok(())
        })
        .unwrap();
        blocks
    }

    fn streams(contents: &[Vec<u8>], threads: usize) -> Vec<(Vec<u8>, u32)> {
        let mut streams: Vec<(Vec<u8>, Crc)> =
            contents.iter().map(|_| Default::default()).collect();
        compress(contents, threads, |content, block| {
            streams[content].0.extend(block.bytes);
            streams[content].1.combine(&block.crc);
            Ok(())
        })
        .unwrap();
        streams.into_iter().map(|(bytes, crc)| (bytes, crc.sum())).collect()
    }

    #[test]
    fn streams_do_not_depend_on_threads() {
        let lengths = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 0, 5 * BLOCK + 7, 3];
        let contents: Vec<_> = lengths.into_iter().map(lines).collect();
        let one = streams(&contents, 1);
        for threads in [2, 3, 16] {
            assert!(streams(&contents, threads) == one, "{threads} threads");
        }
        for (content, (stream, crc)) in contents.iter().zip(&one) {
            let mut inflated = Vec::new();
            let mut decoder = flate2::bufread::DeflateDecoder::new(&stream[..]);
            decoder.read_to_end(&mut inflated).unwrap();
            assert!(inflated == *content, "{} bytes", content.len());
            assert_eq!(decoder.total_in(), stream.len() as u64, "bytes follow the end");
            let mut whole = Crc::new();
            whole.update(content);
            assert_eq!(whole.sum(), *crc);
        }
    }

    #[test]
    fn blocks_refer_to_preceding_data() {
        // Noise that repeats after 16 KiB: without a dictionary, every block would store it again.
        let mut state = 1u32;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as u8
        })
        .take(16 << 10)
        .collect();
        let content = noise.repeat((4 * BLOCK) as usize / noise.len());
        let (stream, _) = streams(&[content], 2).remove(0);
        assert!(stream.len() < 4 * noise.len(), "{} bytes", stream.len());
    }

    #[test]
    fn stops_on_errors_of_reader_and_writer() {
        struct Broken;
        impl Content for Broken {
            fn size(&self) -> u64 {
                u64::MAX
            }
            fn read_exact_at(&self, at: u64, _: &mut [u8]) -> io::Result<()> {
                if at < 3 * BLOCK { Ok(()) } else { Err(io::Error::other("broken")) }
            }
        }
        let mut taken = 0;
        let error = compress(&[Broken], 2, |_, _| {
            taken += 1;
            Ok(())
        });
        assert!(error.unwrap_err().to_string().contains("read or write a wheel"));
        assert_eq!(taken, 4);
        let error = compress(&[lines(9 * BLOCK)], 2, |_, _| Err(io::Error::other("full").into()));
        assert!(error.is_err());
    }
}
