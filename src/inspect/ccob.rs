//! Compressed offload bundles ("CCOB"), versions 1 to 3, with zlib or zstd,
//! decoded as streams that never grow beyond what they declare and the caller
//! allows. Source of the format: LLVM, `llvm/lib/Object/OffloadBundle.cpp`.

use std::io::{self, BufReader, Read};

use super::bundle::{self, Broken, Bundle, Forward};
use super::facts::Compression;

/// The first bytes of a compressed bundle.
pub(super) const MAGIC: &[u8; 4] = b"CCOB";

/// A decompressed bundle may have so many bytes; real ones reach 500 MB.
const MAX_DECOMPRESSED: u64 = 8 << 30;

/// A compressed bundle that was read.
pub(super) struct Decoded {
    pub(super) bundle: Bundle,
    pub(super) compression: Compression,
    /// Where it ends, from its beginning.
    pub(super) end: usize,
}

/// A compressed bundle that cannot be read.
pub(super) struct Undecodable {
    pub(super) broken: Broken,
    /// Where it ends all the same, if its header says so credibly.
    pub(super) end: Option<usize>,
}

struct Header {
    version: u16,
    method: u16,
    total: Option<u64>,
    uncompressed: u64,
    /// Where the header states `uncompressed`.
    uncompressed_at: u64,
    length: usize,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        let u16_at = |at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let u32_at = |at: usize| Some(u64::from(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?)));
        let u64_at = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let (version, method) = (u16_at(4)?, u16_at(6)?);
        // What stands last, the hash of the content, ends the header.
        let (total, uncompressed, uncompressed_at, hash) = match version {
            1 => (None, u32_at(8)?, 8, 12),
            2 => (Some(u32_at(8)?), u32_at(12)?, 12, 16),
            _ => (Some(u64_at(8)?), u64_at(16)?, 16, 24),
        };
        u64_at(hash)?;
        Some(Self { version, method, total, uncompressed, uncompressed_at, length: hash + 8 })
    }
}

/// Reads the compressed bundle at the beginning of `bytes`, which may go on
/// behind it. `budget` is how many bytes may be decompressed at all; what was
/// decompressed is taken from it.
pub(super) fn read(bytes: &[u8], budget: &mut u64) -> Result<Decoded, Undecodable> {
    let fail = |at, what: String| Undecodable { broken: Broken::new(at, what), end: None };
    let Some(header) = Header::read(bytes) else {
        return Err(fail(0, format!("is a compressed bundle cut short after {} bytes", bytes.len())));
    };
    let Header { version, method, total, uncompressed, uncompressed_at, length } = header;
    if !(1..=3).contains(&version) {
        return Err(fail(4, format!("is a compressed bundle of version {version}; 1 to 3 are known")));
    }
    let end = match total {
        None => None,
        Some(total) => match usize::try_from(total).ok().filter(|t| (length..=bytes.len()).contains(t)) {
            Some(end) => Some(end),
            None => {
                let left = bytes.len();
                return Err(fail(8, format!("states {total} bytes in all, but {left} are there")));
            }
        },
    };
    let fail = |at, what| Undecodable { broken: Broken::new(at, what), end };
    let allowed = (*budget).min(MAX_DECOMPRESSED);
    if uncompressed > allowed {
        return Err(fail(
            uncompressed_at,
            format!(
                "states {uncompressed} bytes when decompressed, more than the {allowed} that are allowed here"
            ),
        ));
    }
    let payload = &bytes[length..end.unwrap_or(bytes.len())];
    let (decoder, method) = match method {
        0 => (Decoder::Zlib(flate2::bufread::ZlibDecoder::new(payload)), "zlib"),
        1 => match zstd::stream::read::Decoder::with_buffer(payload) {
            Ok(decoder) => (Decoder::Zstd(decoder.single_frame()), "zstd"),
            Err(error) => return Err(fail(length as u64, format!("cannot be decompressed: {error}"))),
        },
        other => {
            return Err(fail(6, format!("is compressed by method {other}; 0 (zlib) and 1 (zstd) are known")));
        }
    };
    let mut stream =
        BufReader::with_capacity(1 << 16, Bounded { decoder, declared: uncompressed, produced: 0 });
    let result = bundle::read(&mut stream).and_then(|bundle| {
        let rest = io::copy(&mut stream, &mut io::sink());
        let rest = rest.map_err(|error| Broken::new(bundle.end, format!("cannot be decompressed: {error}")));
        rest.map(|_| bundle)
    });
    let Bounded { decoder, produced, .. } = stream.into_inner();
    *budget -= produced.min(*budget);
    // A place in the decompressed bytes is no place in the file.
    let inside = |Broken { at, what }| Broken::new(0, format!("when decompressed, at byte {at}, {what}"));
    let bundle = result.map_err(|broken| Undecodable { broken: inside(broken), end })?;
    if produced != uncompressed {
        let what = format!("states {uncompressed} bytes when decompressed, but has {produced}");
        return Err(fail(uncompressed_at, what));
    }
    let end = end.unwrap_or(bytes.len() - decoder.unread());
    Ok(Decoded { bundle, compression: Compression { version, method }, end })
}

enum Decoder<'a> {
    Zlib(flate2::bufread::ZlibDecoder<&'a [u8]>),
    Zstd(zstd::stream::read::Decoder<'static, &'a [u8]>),
}

impl Decoder<'_> {
    fn unread(&self) -> usize {
        match self {
            Self::Zlib(decoder) => decoder.get_ref().len(),
            Self::Zstd(decoder) => decoder.get_ref().len(),
        }
    }
}

/// A decoder that refuses to yield more than was declared.
struct Bounded<'a> {
    decoder: Decoder<'a>,
    declared: u64,
    produced: u64,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match &mut self.decoder {
            Decoder::Zlib(decoder) => decoder.read(buffer)?,
            Decoder::Zstd(decoder) => decoder.read(buffer)?,
        };
        self.produced += count as u64;
        if self.produced > self.declared {
            return Err(io::Error::other(format!("more than the {} bytes declared", self.declared)));
        }
        Ok(count)
    }
}

impl Forward for BufReader<Bounded<'_>> {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        match io::copy(&mut self.by_ref().take(count), &mut io::sink())? == count {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::testing::{Method, bundle, ccob, code_object, flip_bytes};

    const BUDGET: u64 = 64 << 20;

    fn plain() -> Vec<u8> {
        bundle(&[
            ("host-x86_64-unknown-linux-gnu-", &[]),
            ("hipv4-amdgcn-amd-amdhsa--gfx1151", &code_object("gfx1151", 1000)),
        ])
    }

    fn broken(bytes: &[u8]) -> String {
        read(bytes, &mut { BUDGET }).err().unwrap().broken.what
    }

    #[test]
    fn every_version_and_method_is_read_up_to_its_end() {
        for version in 1..=3 {
            for method in [Method::Zlib, Method::Zstd] {
                let mut bytes = ccob(&plain(), version, method);
                let end = bytes.len();
                bytes.extend(b"CCOB and more");
                let mut budget = BUDGET;
                let decoded = read(&bytes, &mut budget).ok().unwrap();
                assert_eq!((decoded.end, decoded.compression.version), (end, version));
                assert_eq!(decoded.bundle, bundle::read(&mut &plain()[..]).unwrap());
                assert_eq!(BUDGET - budget, plain().len() as u64);
            }
        }
    }

    #[test]
    fn a_truncation_at_every_byte_is_an_error() {
        for version in 1..=3 {
            for method in [Method::Zlib, Method::Zstd] {
                let bytes = ccob(&plain(), version, method);
                for length in 0..bytes.len() {
                    // Also those with a size that was made to fit.
                    let mut fitting = bytes[..length].to_vec();
                    match version {
                        2 if length >= 12 => fitting[8..12].copy_from_slice(&(length as u32).to_le_bytes()),
                        3 if length >= 16 => fitting[8..16].copy_from_slice(&(length as u64).to_le_bytes()),
                        _ => {}
                    }
                    assert!(
                        read(&fitting, &mut { BUDGET }).is_err(),
                        "v{version} at {length}, size made to fit"
                    );
                    assert!(read(&bytes[..length], &mut { BUDGET }).is_err(), "v{version} at {length}");
                }
            }
        }
    }

    #[test]
    fn wrong_sizes_are_told() {
        for method in [Method::Zlib, Method::Zstd] {
            for declared in [0, 100, plain().len() as u64 - 1, plain().len() as u64 + 1] {
                let mut bytes = ccob(&plain(), 3, method);
                bytes[16..24].copy_from_slice(&declared.to_le_bytes());
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
            assert!(broken(&bytes).contains("bytes in all"));
        }
    }

    #[test]
    fn unknown_versions_and_methods_are_told() {
        let mut bytes = ccob(&plain(), 3, Method::Zstd);
        bytes[6] = 7;
        assert!(broken(&bytes).contains("method 7"));
        bytes[4] = 9;
        assert!(broken(&bytes).contains("version 9"));
    }

    #[test]
    fn a_bomb_is_refused_by_what_it_declares_and_by_what_it_yields() {
        let bomb = bundle(&[("hip-amdgcn-amd-amdhsa--gfx1151", &vec![0; 256 << 20])]);
        let mut bytes = ccob(&bomb, 3, Method::Zstd);
        assert!(bytes.len() < 40_000);
        assert!(broken(&bytes).contains("more than the 67108864"));
        bytes[16..24].copy_from_slice(&(1u64 << 20).to_le_bytes());
        let mut budget = BUDGET;
        assert!(read(&bytes, &mut budget).is_err());
        assert!(BUDGET - budget < 2 << 20, "stopped where the declared size ended");
    }

    #[test]
    fn random_corruption_never_panics() {
        for version in 1..=3 {
            for method in [Method::Zlib, Method::Zstd] {
                flip_bytes(&ccob(&plain(), version, method), 500, |bytes| drop(read(bytes, &mut { BUDGET })));
            }
        }
    }
}
