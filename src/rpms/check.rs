//! Whether the numbers in an RPM's two headers fit the file, looked at before the `rpm`
//! crate reads them: it trusts them, and panics or allocates as much as they say. What
//! the headers say is `read`'s business. Source of the format: rpm, "Package format";
//! of the limits, rpm's `lib/header.cc`.

use std::io::{self, BufReader, Read};
use std::path::Path;

use super::RpmError;

const LEAD: u64 = 96;
const INTRO: usize = 16;
const MAGIC: [u8; 4] = [0x8e, 0xad, 0xe8, 1];
const MAX_ENTRIES: u32 = 0xffff;
const MAX_DATA: u32 = 0x0fff_ffff;
const ENTRY: u32 = 16;

/// Checks both headers of the file at `path`.
pub(super) fn headers(path: &Path) -> Result<(), RpmError> {
    let file = fs_err::File::open(path)?;
    let mut rest = file.metadata()?.len().saturating_sub(LEAD);
    let mut reader = BufReader::new(file);
    let unreadable = |reason: String| RpmError::Unreadable { path: path.to_owned(), reason };
    if io::copy(&mut reader.by_ref().take(LEAD), &mut io::sink())? < LEAD {
        return Err(unreadable("it ends within the lead".into()));
    }
    for name in ["signature header", "header"] {
        let length = header(&mut reader, &mut rest).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => unreadable(format!("the {name} {error}")),
            io::ErrorKind::UnexpectedEof => unreadable(format!("it ends within the {name}")),
            _ => RpmError::Io(error),
        })?;
        // The signature header alone is filled up to eight bytes.
        let padding = length.next_multiple_of(8) - length;
        rest = rest.saturating_sub(padding);
        io::copy(&mut reader.by_ref().take(padding), &mut io::sink())?;
    }
    Ok(())
}

/// Checks one header, and returns how many bytes it has. `rest` is how many there are.
fn header(reader: &mut impl Read, rest: &mut u64) -> io::Result<u64> {
    let mut intro = [0; INTRO];
    reader.read_exact(&mut intro)?;
    let (count, data) = (word(&intro, 8), word(&intro, 12));
    if intro[..4] != MAGIC {
        return Err(invalid("does not begin as one".into()));
    }
    if count > MAX_ENTRIES || data > MAX_DATA {
        return Err(invalid(format!("states {count} entries and {data} bytes, more than rpm takes")));
    }
    let index = count * ENTRY;
    let length = INTRO as u64 + u64::from(index) + u64::from(data);
    // Only now is it known that these bytes are there.
    *rest = rest.checked_sub(length).ok_or(io::ErrorKind::UnexpectedEof)?;
    let (mut entries, mut store) = (vec![0; index as usize], vec![0; data as usize]);
    reader.read_exact(&mut entries)?;
    reader.read_exact(&mut store)?;
    let mut sum = 0;
    for (number, entry) in entries.chunks_exact(ENTRY as usize).enumerate() {
        let (kind, offset, count) = (word(entry, 4), word(entry, 8), word(entry, 12));
        let size = store.get(offset as usize..).and_then(|data| extent(data, kind, count));
        let Some(size) = size else {
            return Err(invalid(format!("has an entry {number} whose data is not inside it")));
        };
        // In rpm's own headers entries share no bytes but those of the region's trailer;
        // entries that all mean the same bytes would take a square of the time.
        sum += size;
        if sum > 2 * store.len() + INTRO {
            return Err(invalid("has entries that overlap".into()));
        }
    }
    Ok(length)
}

/// How many bytes the data of an entry takes up; `None` where they are not there.
fn extent(data: &[u8], kind: u32, count: u32) -> Option<usize> {
    let count = count as usize;
    let size = match kind {
        0 => 0,
        1 | 2 | 7 => count,
        3 => count.checked_mul(2)?,
        4 => count.checked_mul(4)?,
        5 => count.checked_mul(8)?,
        // A text is always one.
        6 => memchr::memchr(0, data).filter(|_| count == 1)? + 1,
        8 | 9 => match count {
            0 => 0,
            count => memchr::memchr_iter(0, data).nth(count - 1)? + 1,
        },
        _ => return None,
    };
    (size <= data.len()).then_some(size)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package() -> Vec<u8> {
        let mut builder = rpm::PackageBuilder::new("demo", "1.0", "MIT", "x86_64", "a demo");
        builder.with_file_contents("hello\n", rpm::FileOptions::new("/usr/share/demo/a")).unwrap();
        let mut bytes = Vec::new();
        builder.build().unwrap().write(&mut bytes).unwrap();
        bytes
    }

    fn checked(bytes: &[u8]) -> Result<(), String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs_err::write(file.path(), bytes).unwrap();
        headers(file.path()).map_err(|error| {
            let RpmError::Unreadable { path, reason } = error else { panic!("{error:?}") };
            assert_eq!(path, file.path());
            reason
        })
    }

    #[test]
    fn a_whole_package_passes_and_one_cut_short_does_not() {
        let bytes = package();
        assert_eq!(checked(&bytes), Ok(()));
        let metadata = rpm::PackageMetadata::parse(&mut &bytes[..]).unwrap();
        let payload = metadata.get_package_segment_offsets().payload as usize;
        for length in (0..payload).step_by(7).chain(payload - 1..payload) {
            assert!(checked(&bytes[..length]).unwrap_err().starts_with("it ends within"), "{length}");
        }
        assert_eq!(checked(&bytes[..payload]), Ok(()));
    }

    #[test]
    fn numbers_that_lead_out_of_a_header_are_told() {
        let bytes = package();
        let patched = |at: usize, value: u32| {
            let mut bytes = bytes.clone();
            bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
            checked(&bytes).unwrap_err()
        };
        let entries = LEAD as usize + INTRO;
        assert!(patched(LEAD as usize, 0).contains("signature header does not begin"));
        assert!(patched(entries - 8, u32::MAX).contains("more than rpm takes"));
        assert!(patched(entries - 4, MAX_DATA).contains("it ends within"));
        for (field, value) in [(4, 10), (8, 1 << 20), (8, u32::MAX), (12, u32::MAX), (12, 1 << 30)] {
            assert!(patched(entries + 16 + field, value).contains("entry 1"), "{field} {value}");
        }
    }

    #[test]
    fn entries_that_mean_the_same_bytes_are_told() {
        let (count, data) = (100_u32, 1000_u32);
        let mut bytes = vec![0; LEAD as usize];
        bytes.extend(MAGIC);
        bytes.extend([0; 4]);
        bytes.extend([count.to_be_bytes(), data.to_be_bytes()].concat());
        for tag in 0..count {
            bytes.extend([tag, 7, 0, data].map(u32::to_be_bytes).concat());
        }
        bytes.extend(vec![0; data as usize]);
        assert_eq!(checked(&bytes).unwrap_err(), "the signature header has entries that overlap");
    }
}
