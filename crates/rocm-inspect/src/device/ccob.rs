//! Reads compressed offload bundles ("CCOB"), versions 1 to 3, with zlib or zstd: their headers,
//! and their content as a stream that never exceeds its declared size. It does not interpret the
//! content. Source of the format: LLVM, `llvm/lib/Object/OffloadBundle.cpp`.

use std::io::Read;

use super::bundle::{Broken, MAX_TABLE, Table};
use crate::facts::Compression;

/// The first bytes of a compressed bundle.
pub(crate) const MAGIC: &[u8; 4] = b"CCOB";

/// The maximum decompressed size of a bundle; real ones reach 500 MB.
const MAX_DECOMPRESSED: u64 = 8 << 30;

/// The minimum cost of a bundle, so that millions of tiny ones add up.
const COST: u64 = 128 << 10;

/// How many bytes are decompressed first to read the table of entries.
const HEADER_BYTES: usize = 4 << 10;

/// The fields of the header.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) compression: Compression,
    /// The declared decompressed size in bytes.
    pub(crate) declared: u64,
    /// The offset of the declared size in the header.
    declared_at: u64,
    /// The first eight bytes of the content's MD5 as a little-endian number. LLVM computes it when
    /// it writes a bundle; when it reads one, it only prints whether they match.
    pub(crate) hash: u64,
    /// The size of the header in bytes.
    length: usize,
    /// The offset of the bundle's end; version 1 does not state it.
    pub(crate) end: Option<usize>,
}

impl Header {
    /// Reads the header at the start of `bytes`, which may extend beyond the bundle.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Broken> {
        let cut = || {
            Broken::new(0, format!("is a compressed bundle cut short after {} bytes", bytes.len()))
        };
        let u16_at = |at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let u32_at =
            |at: usize| Some(u64::from(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?)));
        let u64_at = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let (version, method) = u16_at(4).zip(u16_at(6)).ok_or_else(cut)?;
        // The content hash is the last field of the header.
        let (total, declared, declared_at, hash_at) = match version {
            1 => (Some(None), u32_at(8), 8, 12),
            2 => (u32_at(8).map(Some), u32_at(12), 12, 16),
            3 => (u64_at(8).map(Some), u64_at(16), 16, 24),
            _ => {
                let what = format!(
                    "is a compressed bundle of unsupported version {version}; supported: 1 to 3"
                );
                return Err(Broken::new(4, what));
            }
        };
        let (Some(total), Some(declared), Some(hash)) = (total, declared, u64_at(hash_at)) else {
            return Err(cut());
        };
        let length = hash_at + 8;
        let method = match method {
            0 => "zlib",
            1 => "zstd",
            other => {
                let what = format!(
                    "has the unsupported compression method {other}; supported: 0 (zlib), 1 (zstd)"
                );
                return Err(Broken::new(6, what));
            }
        };
        let fits =
            |total: u64| usize::try_from(total).ok().filter(|t| (length..=bytes.len()).contains(t));
        let end = match total.map(|total| fits(total).ok_or(total)) {
            None => None,
            Some(Ok(end)) => Some(end),
            Some(Err(total)) => {
                let left = bytes.len();
                return Err(Broken::new(
                    8,
                    format!("states {total} bytes in total, but has {left}"),
                ));
            }
        };
        let compression = Compression { version, method };
        Ok(Self { compression, declared, declared_at, hash, length, end })
    }

    /// Subtracts what decompressing the whole bundle may need from `budget`.
    pub(crate) fn reserve(&self, budget: &mut u64) -> Result<(), Broken> {
        let (declared, allowed) = (self.declared, (*budget).min(MAX_DECOMPRESSED));
        if declared > allowed {
            let what = format!(
                "states {declared} bytes when decompressed, more than the {allowed} allowed here"
            );
            return Err(Broken::new(self.declared_at, what));
        }
        *budget = budget.saturating_sub(declared.saturating_add(COST));
        Ok(())
    }

    /// Returns the compressed part of the bundle at the start of `bytes`.
    fn payload<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.length..self.end.unwrap_or(bytes.len())).unwrap_or_default()
    }

    /// Decompresses the bundle at the start of `bytes` in one call. This is faster than a
    /// [`Stream`], and the decoder refers back only to `space`, which must be larger than the
    /// declared size. Returns `None` on any error; a stream reports the details.
    pub(crate) fn decompress<'s>(&self, bytes: &[u8], space: &'s mut [u8]) -> Option<&'s [u8]> {
        let count = match self.compression.method {
            "zlib" => Stream::open(self, bytes).ok()?.fill(space).ok()?,
            _ => {
                // As in the stream, bytes after the frame do not matter.
                let payload = self.payload(bytes);
                let frame =
                    payload.get(..zstd::zstd_safe::find_frame_compressed_size(payload).ok()?)?;
                zstd::bulk::Decompressor::new().ok()?.decompress_to_buffer(frame, space).ok()?
            }
        };
        (count as u64 == self.declared).then(|| &space[..count])
    }

    /// Decompresses only the table of entries, and subtracts its cost from `budget`, which limits
    /// it.
    pub(crate) fn table(&self, bytes: &[u8], budget: &mut u64) -> Result<Table, Broken> {
        let mut head = Vec::new();
        *budget = budget.saturating_sub(COST);
        let mut stream = Stream::open(self, bytes)?;
        loop {
            let (have, wanted) = (head.len(), (head.len() * 4).clamp(HEADER_BYTES, MAX_TABLE));
            if *budget < wanted as u64 {
                let what = "was not read, because too much of this file was decompressed before it";
                return Err(Broken::new(0, what));
            }
            head.resize(wanted, 0);
            let count = stream.fill(&mut head[have..])?;
            head.truncate(have + count);
            *budget -= count as u64;
            if let Some(table) = Table::read(&head).map_err(inside)? {
                table.inside(self.declared).map_err(inside)?;
                return Ok(table);
            }
            if have + count < wanted || wanted == MAX_TABLE {
                return Err(inside(Broken::new(
                    (have + count) as u64,
                    "ends within its table of entries",
                )));
            }
        }
    }
}

/// Converts an error inside the decompressed bytes, whose offsets do not exist in the file.
pub(crate) fn inside(broken: Broken) -> Broken {
    let what = format!("when decompressed, at byte {}, {}", broken.at, broken.what);
    Broken { at: 0, what, ..broken }
}

/// The content of a compressed bundle, decompressed as a stream.
pub(crate) struct Stream<'a> {
    decoder: Decoder<'a>,
    declared: u64,
    declared_at: u64,
    produced: u64,
}

enum Decoder<'a> {
    Zlib(flate2::bufread::ZlibDecoder<&'a [u8]>),
    Zstd(zstd::stream::read::Decoder<'static, &'a [u8]>),
}

impl<'a> Stream<'a> {
    /// Opens the bundle at the start of `bytes`, whose header was read before.
    pub(crate) fn open(header: &Header, bytes: &'a [u8]) -> Result<Self, Broken> {
        let payload = header.payload(bytes);
        let decoder = match header.compression.method {
            "zlib" => Decoder::Zlib(flate2::bufread::ZlibDecoder::new(payload)),
            _ => match zstd::stream::read::Decoder::with_buffer(payload) {
                Ok(decoder) => Decoder::Zstd(decoder.single_frame()),
                Err(error) => return Err(Broken::undecodable(header.length as u64, &error)),
            },
        };
        Ok(Self {
            decoder,
            declared: header.declared,
            declared_at: header.declared_at,
            produced: 0,
        })
    }

    /// Fills `buffer` and returns the number of bytes; fewer than its length only at the end.
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, Broken> {
        let mut filled = 0;
        while filled < buffer.len() {
            let read = match &mut self.decoder {
                Decoder::Zlib(decoder) => decoder.read(&mut buffer[filled..]),
                Decoder::Zstd(decoder) => decoder.read(&mut buffer[filled..]),
            };
            let at = self.produced;
            let fail = |error| inside(Broken::undecodable(at, &error));
            let count = read.map_err(fail)?;
            if count == 0 {
                break;
            }
            filled += count;
            self.produced += count as u64;
            if self.produced > self.declared {
                let what =
                    format!("decompresses to more than the {} declared bytes", self.declared);
                return Err(Broken::new(self.declared_at, what));
            }
        }
        Ok(filled)
    }

    /// Checks, at the end, that the stream produced as much as was declared.
    pub(crate) fn complete(&self) -> Result<(), Broken> {
        match self.produced == self.declared {
            true => Ok(()),
            false => {
                let what = format!(
                    "states {} bytes when decompressed, but has {}",
                    self.declared, self.produced
                );
                Err(Broken::new(self.declared_at, what))
            }
        }
    }

    /// Returns how many bytes of the input follow the end of the stream.
    pub(crate) fn unread(&self) -> usize {
        match &self.decoder {
            Decoder::Zlib(decoder) => decoder.get_ref().len(),
            Decoder::Zstd(decoder) => decoder.get_ref().len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Method, bundle, ccob, code_object, flip_bytes};

    const BUDGET: u64 = 64 << 20;

    fn plain() -> Vec<u8> {
        bundle(&[
            ("host-x86_64-unknown-linux-gnu-", &[]),
            ("hipv4-amdgcn-amd-amdhsa--gfx1151", &code_object("gfx1151", 1000)),
        ])
    }

    /// Decompresses the whole bundle, as a deep inspection does.
    fn read(bytes: &[u8], budget: &mut u64) -> Result<(Vec<u8>, usize), Broken> {
        let header = Header::read(bytes)?;
        header.reserve(budget)?;
        let mut stream = Stream::open(&header, bytes)?;
        let mut content = vec![0; header.declared as usize + 1];
        let count = stream.fill(&mut content)?;
        stream.complete()?;
        content.truncate(count);
        Ok((content, header.end.unwrap_or(bytes.len() - stream.unread())))
    }

    fn at_once(bytes: &[u8]) -> Option<Vec<u8>> {
        let header = Header::read(bytes).ok()?;
        let mut space = vec![1; header.declared as usize + 1];
        header.decompress(bytes, &mut space).map(<[u8]>::to_vec)
    }

    fn table(bytes: &[u8]) -> Result<Table, Broken> {
        Header::read(bytes)?.table(bytes, &mut { BUDGET })
    }

    fn broken(bytes: &[u8]) -> String {
        read(bytes, &mut { BUDGET }).err().unwrap().what
    }

    #[test]
    fn reports_damage_in_the_content_at_the_bundles_start() {
        let Broken { at, what, .. } = inside(Broken::new(9, "the magic is wrong"));
        assert_eq!((at, what.as_str()), (0, "when decompressed, at byte 9, the magic is wrong"));
    }

    #[test]
    fn reads_every_version_and_method_to_its_end() {
        for version in 1..=3 {
            for method in [Method::Zlib, Method::Zstd] {
                let mut bytes = ccob(&plain(), version, method);
                let end = bytes.len();
                bytes.extend(b"CCOB and more");
                let mut budget = BUDGET;
                assert_eq!(read(&bytes, &mut budget), Ok((plain(), end)));
                assert_eq!(at_once(&bytes[..end]), Some(plain()));
                assert_eq!(Header::read(&bytes).unwrap().compression.version, version);
                assert_eq!(table(&bytes), Table::whole(&plain()));
                assert_eq!(BUDGET - budget, plain().len() as u64 + COST);
            }
        }
    }

    #[test]
    fn rejects_truncation_at_every_byte() {
        for version in 1..=3 {
            for method in [Method::Zlib, Method::Zstd] {
                let bytes = ccob(&plain(), version, method);
                for length in 0..bytes.len() {
                    // Also with a header whose size matches the truncated length.
                    let mut fitting = bytes[..length].to_vec();
                    match version {
                        2 if length >= 12 => {
                            fitting[8..12].copy_from_slice(&(length as u32).to_le_bytes())
                        }
                        3 if length >= 16 => {
                            fitting[8..16].copy_from_slice(&(length as u64).to_le_bytes())
                        }
                        _ => {}
                    }
                    assert!(
                        read(&fitting, &mut { BUDGET }).is_err(),
                        "v{version} at {length}, size made to fit"
                    );
                    assert!(
                        read(&bytes[..length], &mut { BUDGET }).is_err(),
                        "v{version} at {length}"
                    );
                }
            }
        }
    }

    #[test]
    fn reports_wrong_sizes() {
        for method in [Method::Zlib, Method::Zstd] {
            for declared in [0, 100, plain().len() as u64 - 1, plain().len() as u64 + 1] {
                let mut bytes = ccob(&plain(), 3, method);
                bytes[16..24].copy_from_slice(&declared.to_le_bytes());
                assert_eq!(at_once(&bytes), None);
                let what = broken(&bytes);
                assert!(what.contains("declared") || what.contains("but has"), "{what}");
            }
        }
        let mut bytes = ccob(&plain(), 3, Method::Zstd);
        bytes[16..24].copy_from_slice(&(1u64 << 50).to_le_bytes());
        assert!(broken(&bytes).contains("more than the"));
        for total in [0, 31, u64::MAX] {
            let mut bytes = ccob(&plain(), 3, Method::Zstd);
            bytes[8..16].copy_from_slice(&total.to_le_bytes());
            assert!(broken(&bytes).contains("bytes in total"));
        }
    }

    #[test]
    fn reports_unknown_versions_and_methods() {
        let mut bytes = ccob(&plain(), 3, Method::Zstd);
        bytes[6] = 7;
        assert!(broken(&bytes).contains("method 7"));
        bytes[4] = 9;
        assert!(broken(&bytes).contains("version 9"));
    }

    #[test]
    fn rejects_bombs_by_declared_and_by_actual_size() {
        let bomb = bundle(&[("hip-amdgcn-amd-amdhsa--gfx1151", &vec![0; 256 << 20])]);
        let mut bytes = ccob(&bomb, 3, Method::Zstd);
        assert!(bytes.len() < 40_000);
        let mut budget = BUDGET;
        assert!(Header::read(&bytes).unwrap().table(&bytes, &mut budget).is_ok());
        assert!(BUDGET - budget < 1 << 18, "only the table");
        assert!(Header::read(&bytes).unwrap().table(&bytes, &mut 10).is_err());
        assert!(broken(&bytes).contains("more than the 67108864"));
        bytes[16..24].copy_from_slice(&(1u64 << 20).to_le_bytes());
        let mut budget = BUDGET;
        assert!(read(&bytes, &mut budget).is_err());
        assert!(BUDGET - budget < 2 << 20, "stopped where the declared size ended");
    }

    #[test]
    fn survives_random_corruption() {
        for version in 1..=3 {
            for method in [Method::Zlib, Method::Zstd] {
                flip_bytes(&ccob(&plain(), version, method), 500, |bytes| {
                    drop(table(bytes));
                    // Declared sizes of gigabytes only suit streams, whose output is not kept.
                    if Header::read(bytes).is_ok_and(|header| header.declared < 1 << 20) {
                        let streamed =
                            read(bytes, &mut { BUDGET }).ok().map(|(content, _)| content);
                        assert_eq!(at_once(bytes), streamed);
                    }
                });
            }
        }
    }
}
