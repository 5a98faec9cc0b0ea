//! Reads a host ELF file's reference to kpack archives: the section `.rocm_kpack_ref`, and the
//! wrappers that count the pieces of code. It does not search for the archives.

use std::ops::Range;

use super::msgpack::Reader;
use crate::bundle::Broken;
use crate::facts::{Damage, KpackReference};

/// The first bytes of a wrapper whose code was moved to a kpack archive (0x4b504948,
/// little-endian). Source: ROCm/rocm-systems, `shared/kpack`, `kpack_transform.py`.
const WRAPPER: &[u8; 4] = b"HIPK";

/// `u32` magic, `u32` version, `u64` address, `u64` reserved, whose lower half is the index of the
/// piece.
const WRAPPER_SIZE: usize = 24;
const INDEX_AT: usize = 16;

/// The limits of the loader. Source: the same, `runtime/src/loader.cpp`.
const MAX_SIZE: usize = 64 << 10;

const MAX_PATHS: usize = 256;

/// Reads the reference in `range` of the file. `wrappers` are the ranges of its wrappers. Returns
/// an error if the loader would reject the reference.
pub(crate) fn read(
    file: &[u8],
    range: Range<usize>,
    wrappers: &[Range<usize>],
) -> Result<KpackReference, Damage> {
    let start = range.start;
    let bytes = file.get(range).unwrap_or_default();
    let mut reference =
        parse(&bytes[..bytes.len().min(MAX_SIZE)]).map_err(|Broken { at, what, .. }| Damage {
            elf: false,
            offset: start as u64 + at,
            what: format!("{what}, in its reference to kpack archives (.rocm_kpack_ref)"),
        })?;
    // If the wrappers are not found, there must still be at least one piece.
    reference.pieces = pieces(file, wrappers).max(1);
    Ok(reference)
}

fn parse(bytes: &[u8]) -> Result<KpackReference, Broken> {
    let mut reader = Reader::new(bytes);
    let (mut kernel_name, mut search_paths) = (None, Vec::new());
    for _ in 0..reader.map("the reference")? {
        match reader.text("a key")? {
            "kernel_name" => kernel_name = Some(reader.text("`kernel_name`")?.to_owned()),
            "kpack_search_paths" => {
                for index in 0..reader.array("`kpack_search_paths`")? {
                    if index as usize >= MAX_PATHS {
                        return Err(Broken::new(
                            reader.at(),
                            format!("has more than {MAX_PATHS} paths"),
                        ));
                    }
                    search_paths.push(reader.text("a search path")?.to_owned());
                }
            }
            _ => reader.skip()?,
        }
    }
    let Some(kernel_name) = kernel_name else {
        return Err(Broken::new(0, "has no `kernel_name`"));
    };
    if search_paths.is_empty() {
        return Err(Broken::new(0, "has no `kpack_search_paths`"));
    }
    Ok(KpackReference { kernel_name, search_paths, pieces: 0 })
}

/// Counts the pieces: the wrappers that refer to kpack, or more if the largest index among them is
/// higher.
fn pieces(file: &[u8], wrappers: &[Range<usize>]) -> u64 {
    let bytes = wrappers.iter().filter_map(|range| file.get(range.clone()));
    let moved = bytes.flat_map(|b| b.chunks_exact(WRAPPER_SIZE)).filter(|w| w.starts_with(WRAPPER));
    let (mut count, mut last) = (0, 0);
    for wrapper in moved {
        let index = wrapper[INDEX_AT..].first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
        count += 1;
        last = last.max(u64::from(index) + 1);
    }
    last.max(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{flip_bytes, kpack_reference};

    const PATHS: [&str; 2] = ["../.kpack/fft_lib_@GFXARCH@.kpack", ".kpack/more.kpack"];

    fn at(bytes: &[u8], offset: usize) -> Result<KpackReference, Damage> {
        let file = [&vec![0; offset], bytes].concat();
        read(&file, offset..file.len(), &[])
    }

    #[test]
    fn reads_name_and_paths() {
        let bytes = kpack_reference("lib/librocfft.so.0.1", &PATHS);
        let found = at(&bytes, 100).unwrap();
        assert_eq!((found.kernel_name.as_str(), found.pieces), ("lib/librocfft.so.0.1", 1));
        assert_eq!(found.search_paths, PATHS);
        // Additions of later versions and padding of the section are ignored.
        let mut more = bytes.clone();
        more[0] += 1;
        more.extend(b"\xa5later\x93\x01\x02\x80\0\0\0");
        assert_eq!(at(&more, 0).unwrap(), found);
    }

    #[test]
    fn counts_pieces_by_wrappers() {
        let wrapper = |magic: &[u8], index: u32| {
            [magic, &[1, 0, 0, 0], &[0; 8], &index.to_le_bytes(), &[0; 4]].concat()
        };
        let file =
            [wrapper(b"HIPK", 0), wrapper(b"FPIH", 9), wrapper(b"HIPK", 1), wrapper(b"HIPK", 1)]
                .concat();
        assert_eq!(pieces(&file, &[0..48, 48..96]), 3);
        assert_eq!(pieces(&file, &[0..24, 24..48]), 1);
        assert_eq!(pieces(&file, &[0..20, 90..200]), 0);
        assert_eq!(pieces(&wrapper(b"HIPK", u32::MAX), &[0..24, 24..48]), 1 << 32);
    }

    #[test]
    fn reports_truncation_at_every_byte() {
        let bytes = kpack_reference("lib/librocfft.so.0.1", &PATHS);
        for length in 0..bytes.len() {
            let damage = at(&bytes[..length], 1000).unwrap_err();
            assert!((1000..=1000 + length as u64).contains(&damage.offset), "{length}: {damage:?}");
            assert!(damage.what.contains(".rocm_kpack_ref"));
        }
    }

    #[test]
    fn reports_references_that_the_loader_rejects() {
        for bytes in [
            b"".to_vec(),
            b"\x80".to_vec(),
            b"\x93\x01\x02\x03".to_vec(),
            b"\x81\xabkernel_name\xa1k".to_vec(),
            kpack_reference("k", &[]),
            kpack_reference("k", &["p"; MAX_PATHS + 1]),
            b"\x81\xabkernel_name\xc0".to_vec(),
        ] {
            assert!(at(&bytes, 0).is_err(), "{bytes:02x?}");
        }
        assert!(read(b"short", 3..900, &[]).is_err());
    }

    #[test]
    fn survives_random_corruption() {
        flip_bytes(&kpack_reference("lib/k.so", &PATHS), 5000, |bytes| drop(at(bytes, 7)));
    }
}
