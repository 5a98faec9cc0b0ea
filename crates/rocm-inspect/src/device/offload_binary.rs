//! Reads LLVM's offload binaries, in which clang's new driver stores the code of every target
//! (`.llvm.offloading`): header, entries, strings. It does not interpret the images. Source of the
//! format: LLVM, `llvm/include/llvm/Object/OffloadBinary.h`, versions 1 to 3.

use std::io::Read;
use std::ops::Range;

use super::bundle::Broken;

/// The first bytes of an offload binary.
pub(crate) const MAGIC: &[u8; 4] = b"\x10\xff\x10\xad";

// Limits far beyond what compilers write.
const MAX_ENTRIES: u64 = 4096;
const MAX_STRINGS: u64 = 64;
const MAX_STRING: usize = 256;

/// How large an offload binary may be after decompression in memory; no release of LLVM compresses
/// them yet.
const MAX_INFLATED: u64 = 256 << 20;

const HEADER: usize = 32;
const ENTRY: u64 = 40;

/// The kind of an image (`ImageKind`), as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `IMG_Object`.
    Object,
    /// `IMG_Bitcode`.
    Bitcode,
    /// `IMG_Fatbinary`: a bundle.
    Fatbinary,
    /// `IMG_SPIRV`.
    Spirv,
    /// Code for other vendors, or none.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) kind: Kind,
    pub(crate) triple: String,
    pub(crate) arch: String,
    range: Range<usize>,
    inflated: bool,
}

impl Image {
    /// Returns whether it is for AMD GPUs. LLVM 24 renames the architecture.
    pub(crate) fn is_amd(&self) -> bool {
        let amd = self.triple.split('-').nth(1) == Some("amd");
        amd || self.triple.starts_with("amdgcn") || self.triple.starts_with("amdgpu")
    }

    /// Returns its offset in the offload binary.
    pub(crate) fn offset(&self) -> usize {
        if self.inflated { 0 } else { self.range.start }
    }
}

#[derive(Debug)]
pub(crate) struct OffloadBinary {
    pub(crate) images: Vec<Image>,
    /// Its size in bytes.
    pub(crate) end: usize,
    inflated: Option<Vec<u8>>,
}

impl OffloadBinary {
    /// Returns an image's bytes; `file` must be the bytes that the offload binary was read from.
    pub(crate) fn bytes<'a>(&'a self, image: &Image, file: &'a [u8]) -> &'a [u8] {
        self.inflated.as_deref().unwrap_or(file).get(image.range.clone()).unwrap_or_default()
    }
}

/// Reads the offload binary at the start of `bytes`, which may extend beyond it. Decompression
/// counts against `budget`.
pub(crate) fn read(bytes: &[u8], budget: &mut u64) -> Result<OffloadBinary, Broken> {
    let fail = |at, what: &str| Err(Broken::new(at, what));
    if !bytes.starts_with(MAGIC) {
        return fail(0, "is not an offload binary: the magic is missing");
    }
    let fields = (u32_at(bytes, 4), u64_at(bytes, 8), u64_at(bytes, 16), u64_at(bytes, 24));
    let (Some(version), Some(size), Some(entries), Some(count)) = fields else {
        return fail(0, "is an offload binary truncated in its header");
    };
    if !(1..=3).contains(&version) {
        return Err(Broken::new(
            4,
            format!("is an offload binary of unsupported version {version}; supported: 1 to 3"),
        ));
    }
    let end = usize::try_from(size).ok().filter(|end| (HEADER..=bytes.len()).contains(end));
    let Some(end) = end else {
        let what = format!("states {size} bytes in total, but has {}", bytes.len());
        return Err(Broken::new(8, what));
    };
    let own = &bytes[..end];
    let inflated = match version {
        3 => u64_at(own, 32).filter(|size| *size > 0),
        _ => None,
    };
    let inflated = match inflated {
        Some(size) => Some(inflate(own, entries, size, budget)?),
        None => None,
    };
    // Version 1 states the entry's size where later versions state the number of entries.
    let count = if version == 1 { 1 } else { count };
    if !(1..=MAX_ENTRIES).contains(&count) {
        return Err(Broken::new(
            24,
            format!("states {count} images; 1 to {MAX_ENTRIES} are possible"),
        ));
    }
    let content = inflated.as_deref().unwrap_or(own);
    let mut images = Vec::new();
    for index in 0..count {
        let at = entries.saturating_add(index * ENTRY);
        match image(content, at, version, inflated.is_some()) {
            Some(image) => images.push(image),
            None => {
                let what = format!("has image {index} outside of its {} bytes", content.len());
                return Err(Broken::new(at.min(end as u64), what));
            }
        }
    }
    apart(&images).map(|()| OffloadBinary { images, end, inflated })
}

/// Checks that images do not overlap: otherwise a small file could cause as much work as a large
/// one.
fn apart(images: &[Image]) -> Result<(), Broken> {
    let mut ranges: Vec<_> =
        images.iter().map(|i| &i.range).filter(|range| !range.is_empty()).collect();
    ranges.sort_by_key(|range| range.start);
    match ranges.windows(2).find(|pair| pair[0].end > pair[1].start) {
        Some(pair) => {
            Err(Broken::new(pair[1].start as u64, "has images that overlap in an offload binary"))
        }
        None => Ok(()),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn image(bytes: &[u8], at: u64, version: u32, inflated: bool) -> Option<Image> {
    let entry = bytes.get(usize::try_from(at).ok()?..)?.first_chunk::<{ ENTRY as usize }>()?;
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| entry[at + i]));
    let (strings, count, start, size) = (number(8), number(16), number(24), number(32));
    let start = usize::try_from(start).ok()?;
    let range = start..start.checked_add(usize::try_from(size).ok()?)?;
    bytes.get(range.clone())?;
    let (mut triple, mut arch) = (String::new(), String::new());
    let width = if version == 1 { 16 } else { 24 };
    for index in 0..count.min(MAX_STRINGS) {
        let at = usize::try_from(strings.checked_add(index * width)?).ok()?;
        let string = |at: usize| {
            let start = usize::try_from(u64_at(bytes, at)?).ok()?;
            let rest = bytes.get(start..)?;
            let rest = &rest[..rest.len().min(MAX_STRING)];
            let end = memchr::memchr(0, rest)?;
            Some(String::from_utf8_lossy(&rest[..end]).into_owned())
        };
        let (key, value) = (string(at)?, string(at.checked_add(8)?));
        match key.as_str() {
            "triple" => triple = value?,
            "arch" => arch = value?,
            _ => {}
        }
    }
    let kind = match u16::from_le_bytes([entry[0], entry[1]]) {
        // The packager recognizes files only by their extensions.
        0 if bytes[range.clone()].starts_with(b"\x7fELF") => Kind::Object,
        1 => Kind::Object,
        2 => Kind::Bitcode,
        4 => Kind::Fatbinary,
        6 => Kind::Spirv,
        _ => Kind::Other,
    };
    Some(Image { kind, triple, arch, range, inflated })
}

/// Decompresses everything after the header, which is kept as is.
fn inflate(own: &[u8], header: u64, size: u64, budget: &mut u64) -> Result<Vec<u8>, Broken> {
    let allowed = (*budget).min(MAX_INFLATED);
    let start = usize::try_from(header).ok().filter(|start| *start <= own.len());
    let Some(start) = start.filter(|start| (*start as u64..=allowed).contains(&size)) else {
        let what =
            format!("states {size} bytes when decompressed, more than the {allowed} allowed here");
        return Err(Broken::new(32, what));
    };
    let (head, payload) = own.split_at(start);
    let mut content = head.to_vec();
    let wanted = size - start as u64;
    let limit = wanted.saturating_add(1);
    let read = match payload.starts_with(b"\x28\xb5\x2f\xfd") {
        true => zstd::stream::read::Decoder::with_buffer(payload)
            .and_then(|decoder| decoder.take(limit).read_to_end(&mut content)),
        false => flate2::bufread::ZlibDecoder::new(payload).take(limit).read_to_end(&mut content),
    };
    *budget = budget.saturating_sub(size);
    match read {
        Ok(count) if count as u64 == wanted => Ok(content),
        Ok(_) => {
            Err(Broken::new(32, format!("does not decompress to the {size} bytes that it states")))
        }
        Err(error) => Err(Broken::new(header, format!("cannot be decompressed: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{code_object, flip_bytes, offload_binary};

    fn two() -> Vec<u8> {
        let objects = [code_object("gfx1100", 300), code_object("gfx1151", 500)];
        offload_binary(&[("gfx1100", 1, &objects[0]), ("gfx1151", 1, &objects[1])], 2)
    }

    fn parse(bytes: &[u8]) -> Result<OffloadBinary, Broken> {
        read(bytes, &mut (64 << 20))
    }

    #[test]
    fn reads_images_of_both_versions() {
        let mut bytes = two();
        let end = bytes.len();
        bytes.extend([1; 50]);
        let binary = parse(&bytes).unwrap();
        let seen: Vec<_> = binary
            .images
            .iter()
            .map(|i| (i.kind, &*i.arch, binary.bytes(i, &bytes).len()))
            .collect();
        assert_eq!(seen, [(Kind::Object, "gfx1100", 300), (Kind::Object, "gfx1151", 500)]);
        assert_eq!((binary.end, binary.images[0].is_amd()), (end, true));
        let one = offload_binary(&[("gfx1151", 2, b"BC")], 1);
        let binary = parse(&one).unwrap();
        assert_eq!((binary.images.len(), binary.images[0].kind), (1, Kind::Bitcode));
        assert_eq!(binary.bytes(&binary.images[0], &one), b"BC");
    }

    #[test]
    fn distinguishes_images_of_other_vendors() {
        for (triple, amd) in [
            ("amdgcn-amd-amdhsa", true),
            ("amdgpu-amd-amdhsa", true),
            ("amdgcn", true),
            ("spirv64-amd-amdhsa", true),
            ("spirv64-intel", false),
            ("nvptx64-nvidia-cuda", false),
            ("", false),
        ] {
            let triple = triple.to_owned();
            let image = Image {
                kind: Kind::Object,
                triple,
                arch: "x".into(),
                range: 0..0,
                inflated: false,
            };
            assert_eq!(image.is_amd(), amd, "{}", image.triple);
        }
    }

    #[test]
    fn rejects_images_that_share_bytes() {
        let mut bytes = two();
        // Replaces the second image's offset and size with those of the first.
        let (first, second) = (32 + 24, 32 + 40 + 24);
        bytes.copy_within(first..first + 16, second);
        assert!(parse(&bytes).unwrap_err().what.contains("overlap"));
        bytes[second..second + 8].fill(0);
        bytes[second + 8..second + 16].fill(0);
        assert!(parse(&bytes).is_ok());
    }

    #[test]
    fn reads_and_limits_compressed_binaries() {
        let plain = two();
        let plain = offload_binary_v3(&plain);
        let mut bytes = plain[..40].to_vec();
        let body = zstd::stream::encode_all(&plain[40..], 3).unwrap();
        bytes.extend(&body);
        let total = bytes.len() as u64;
        bytes[8..16].copy_from_slice(&total.to_le_bytes());
        bytes[32..40].copy_from_slice(&(plain.len() as u64).to_le_bytes());
        let binary = parse(&bytes).unwrap();
        assert_eq!((binary.images.len(), binary.end), (2, bytes.len()));
        assert_eq!(binary.bytes(&binary.images[1], &bytes), code_object("gfx1151", 500));
        for wrong in [plain.len() as u64 - 1, plain.len() as u64 + 1, 1 << 60] {
            bytes[32..40].copy_from_slice(&wrong.to_le_bytes());
            assert_eq!(parse(&bytes).unwrap_err().at, 32);
        }
    }

    /// Converts an offload binary to version 3, which has a longer header.
    fn offload_binary_v3(two: &[u8]) -> Vec<u8> {
        let mut bytes = two[..32].to_vec();
        bytes[4] = 3;
        bytes[16..24].copy_from_slice(&40u64.to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend(&two[32..]);
        let (entries, strings) = (2, 4);
        let mut moved = |at: usize| {
            let value = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) + 8;
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        for entry in 0..entries {
            moved(40 + entry * 40 + 8);
            moved(40 + entry * 40 + 24);
        }
        for string in 0..strings {
            moved(40 + entries * 40 + string * 24);
            moved(40 + entries * 40 + string * 24 + 8);
        }
        bytes
    }

    #[test]
    fn rejects_truncation_at_every_byte() {
        let bytes = two();
        for length in 0..bytes.len() {
            let broken = parse(&bytes[..length]).unwrap_err();
            assert!(broken.at <= 40, "{length}: {broken:?}");
            let mut fitting = bytes[..length].to_vec();
            if length >= 16 {
                fitting[8..16].copy_from_slice(&(length as u64).to_le_bytes());
                // The last bytes are padding.
                assert!(parse(&fitting).is_err() || bytes.len() - length < 8, "{length}");
            }
        }
    }

    #[test]
    fn rejects_huge_numbers_and_corruption() {
        for at in [8, 16, 24, 32 + 24, 32 + 32] {
            let mut bytes = two();
            bytes[at..at + 8].fill(0xff);
            assert!(parse(&bytes).is_err(), "{at}");
        }
        flip_bytes(&two(), 5000, |bytes| drop(parse(bytes)));
    }
}
