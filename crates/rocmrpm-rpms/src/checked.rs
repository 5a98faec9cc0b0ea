//! Reads the headers of an RPM file as bytes and verifies their lengths, counts and offsets, which
//! the `rpm` crate trusts. It does not interpret the tags.
//!
//! Source of the format and the limits: rpm, `docs/manual/format_v4.md`, and `hdrblobVerifyInfo` in
//! `lib/header.c`, which refuses the same headers.

use std::io::{self, Read};

const LEAD: usize = 96;
const MAGIC: &[u8; 4] = b"\x8e\xad\xe8\x01";
// HEADER_TAGS_MAX and HEADER_DATA_MAX in rpm's lib/header_internal.h.
const MAX_TAGS: usize = 0xffff;
const MAX_DATA: usize = 0x0fff_ffff;
const INDEX_ENTRY: usize = 16;

/// Reads the lead, signature header and header from the start of an RPM file. `input` is then at
/// the payload.
pub(super) fn headers(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    exactly(input, LEAD, &mut bytes)?;
    if !bytes.starts_with(b"\xed\xab\xee\xdb") {
        return Err(invalid("the lead's magic is missing"));
    }
    let data = header(input, &mut bytes, "signature header")?;
    exactly(input, data.next_multiple_of(8) - data, &mut bytes)?;
    header(input, &mut bytes, "header")?;
    Ok(bytes)
}

/// Appends one header and returns the length of its data section.
fn header(input: &mut impl Read, bytes: &mut Vec<u8>, what: &str) -> io::Result<usize> {
    let start = bytes.len();
    exactly(input, 16, bytes)?;
    let intro = &bytes[start..];
    if !intro.starts_with(MAGIC) {
        return Err(invalid(format!("the {what}'s magic is missing at byte {start}")));
    }
    let (tags, data) = (number(intro, 8) as usize, number(intro, 12) as usize);
    if tags > MAX_TAGS || data > MAX_DATA {
        return Err(invalid(format!("the {what} states {tags} tags and {data} bytes of data")));
    }
    exactly(input, tags * INDEX_ENTRY + data, bytes)?;
    let (index, data) = bytes[start + 16..].split_at(tags * INDEX_ENTRY);
    verify(index, data).map_err(|reason| invalid(format!("the {what} {reason}")))?;
    Ok(data.len())
}

/// Checks that every tag's values lie inside the data section, and that no two tags share any
/// bytes, so that all tags together cannot be larger than the section.
fn verify(index: &[u8], data: &[u8]) -> Result<(), String> {
    let mut entries: Vec<_> = index
        .chunks_exact(INDEX_ENTRY)
        .map(|e| (number(e, 8) as usize, number(e, 0), number(e, 4), number(e, 12) as usize))
        // A tag without values takes no space; a text always has a value.
        .filter(|(offset, _, kind, count)| {
            *offset > data.len() || matches!(*kind, 6 | 10..) || *kind > 0 && *count > 0
        })
        .collect();
    entries.sort_unstable();
    for (at, (offset, tag, kind, count)) in entries.iter().copied().enumerate() {
        let limit = entries.get(at + 1).map_or(data.len(), |next| next.0.min(data.len()));
        let wrong =
            || format!("has a damaged tag {tag}: {count} values of type {kind} at {offset}");
        // Up to the start of the next tag's values.
        let room = data.get(offset..limit).ok_or_else(wrong)?;
        let size = match kind {
            1 | 2 | 7 => 1,
            3 => 2,
            4 => 4,
            5 => 8,
            6 if count != 1 => return Err(wrong()),
            6 | 8 | 9 => {
                memchr::memchr_iter(0, room).nth(count - 1).ok_or_else(wrong)?;
                continue;
            }
            _ => return Err(wrong()),
        };
        if count.checked_mul(size).is_none_or(|length| length > room.len()) {
            return Err(wrong());
        }
    }
    Ok(())
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn exactly(input: &mut impl Read, count: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
    match input.take(count as u64).read_to_end(bytes)? == count {
        true => Ok(()),
        false => Err(invalid("the file ends within its headers")),
    }
}

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(tag: u32, kind: u32, offset: u32, count: u32) -> Vec<u8> {
        [tag, kind, offset, count].iter().flat_map(|n| n.to_be_bytes()).collect()
    }

    #[test]
    fn rejects_values_outside_the_data_or_overlapping() {
        let data = b"\0\0\0\x01one\0two\0\0\0\0";
        let good =
            [entry(1, 4, 0, 1), entry(2, 8, 4, 2), entry(3, 7, 12, 3), entry(4, 0, 0, 0)].concat();
        assert_eq!(verify(&good, data), Ok(()));
        for bad in [
            entry(1, 4, 0, u32::MAX),
            entry(1, 4, 12, 2),
            entry(1, 6, u32::MAX, 1),
            entry(1, 8, 4, 9),
            entry(1, 8, 4, u32::MAX),
            entry(1, 10, 0, 1),
            entry(1, 6, 4, 0),
            entry(1, 6, 4, 2),
            entry(1, 5, 16, 1),
            [entry(1, 4, 0, 1), entry(2, 4, 2, 1)].concat(),
            [entry(1, 6, 4, 1), entry(2, 8, 4, 2)].concat(),
            [entry(1, 4, 0, 1), entry(2, 3, 0, 1)].concat(),
            [entry(1, 8, 4, 2), entry(2, 7, 11, 1)].concat(),
            [entry(1, 4, 0, 1), entry(2, 7, 17, 1)].concat(),
            [entry(1, 8, 4, 2), entry(2, 3, 6, 1)].concat(),
        ] {
            assert!(verify(&bad, data).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn rejects_many_texts_that_share_bytes() {
        let data = [vec![b'x'; 1000], vec![0]].concat();
        for count in [0, 1] {
            let index: Vec<u8> = (0..1000).flat_map(|tag| entry(tag, 6, 0, count)).collect();
            assert!(verify(&index, &data).is_err());
        }
    }

    #[test]
    fn rejects_oversized_headers() {
        let mut bytes = b"\xed\xab\xee\xdb".to_vec();
        bytes.resize(LEAD, 0);
        bytes.extend(MAGIC);
        bytes.extend([0; 4]);
        for (tags, data, text) in [
            (1u32, u32::MAX, "states"),
            (u32::MAX, 1, "states"),
            (0xffff, 0x0fff_ffff, "ends within"),
        ] {
            let file =
                [bytes.clone(), tags.to_be_bytes().to_vec(), data.to_be_bytes().to_vec()].concat();
            let error = headers(&mut &file[..]).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
