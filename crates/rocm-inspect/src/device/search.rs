//! Finds offsets at which GPU code may start in arbitrary bytes, with one pass for all magics. The
//! caller decides whether it does.

use memchr::memmem::Finder;

use super::{bundle, ccob};

/// The start of a 64-bit little-endian ELF file.
pub(super) const ELF: &[u8] = b"\x7fELF\x02\x01";

/// How many bytes are searched for one magic before they are searched for the next; they stay in
/// the processor's cache meanwhile.
const BLOCK: usize = 256 << 10;

/// Calls `believe` with the offset of every magic. It returns the end of what starts there, where
/// the search continues, or `None` if the magic is a coincidence.
pub(super) fn search(bytes: &[u8], mut believe: impl FnMut(usize) -> Option<usize>) {
    let finders = [Finder::new(bundle::MAGIC), Finder::new(ccob::MAGIC), Finder::new(ELF)];
    let mut at = 0;
    let mut found = Vec::new();
    for start in (0..bytes.len()).step_by(BLOCK) {
        if start + BLOCK <= at {
            continue;
        }
        found.clear();
        let from = start.max(at);
        for finder in &finders {
            // A magic that starts in this block may end in the next.
            let end = bytes.len().min(start + BLOCK + finder.needle().len() - 1);
            found.extend(finder.find_iter(&bytes[from..end]).map(|place| from + place));
        }
        found.sort_unstable();
        for place in &found {
            if *place >= at {
                at = believe(*place).map_or(at, |end| end.max(*place + 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(bytes: &[u8], length: usize) -> Vec<usize> {
        let mut places = Vec::new();
        search(bytes, |place| {
            places.push(place);
            Some(place + length)
        });
        places
    }

    #[test]
    fn finds_every_magic_at_any_offset() {
        for at in [0, 1, BLOCK - 23, BLOCK - 3, BLOCK - 1, BLOCK, 2 * BLOCK + 7] {
            for magic in [&bundle::MAGIC[..], ccob::MAGIC, ELF] {
                let mut bytes = vec![0; 3 * BLOCK];
                bytes[at..at + magic.len()].copy_from_slice(magic);
                assert_eq!(places(&bytes, 1), [at]);
                bytes.truncate(at + magic.len() - 1);
                assert_eq!(places(&bytes, 1), [0; 0]);
            }
        }
    }

    #[test]
    fn continues_after_accepted_ranges() {
        let mut bytes = vec![0; 3 * BLOCK];
        for at in [10, 50, 100, BLOCK + 5, 2 * BLOCK] {
            bytes[at..at + 4].copy_from_slice(ccob::MAGIC);
        }
        assert_eq!(places(&bytes, 60), [10, 100, BLOCK + 5, 2 * BLOCK]);
        assert_eq!(places(&bytes, BLOCK + 100), [10, 2 * BLOCK]);
    }
}
