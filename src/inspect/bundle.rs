//! Uncompressed offload bundles: the table of entries and the first bytes of each
//! entry. Source of the format: LLVM, `ClangOffloadBundler`, "Bundled Binary File
//! Layout". What the entries hold is `device`'s business.

use std::io::{self, Read};

use super::code_object::HEAD;

/// The first bytes of a bundle.
pub(super) const MAGIC: &[u8; 24] = b"__CLANG_OFFLOAD_BUNDLE__";

// Compilers know fewer than a hundred targets and the longest ID known has 50
// characters; what goes far beyond is no bundle.
const MAX_ENTRIES: u64 = 4096;
const MAX_ID: u64 = 256;

/// Bytes that are read once from front to back.
pub(super) trait Forward: Read {
    /// Leaves out `count` bytes; an error where there are not as many.
    fn skip(&mut self, count: u64) -> io::Result<()>;
}

impl Forward for &[u8] {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        let count = usize::try_from(count).ok().filter(|count| *count <= self.len());
        *self = &self[count.ok_or(io::ErrorKind::UnexpectedEof)?..];
        Ok(())
    }
}

/// One entry of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The ID: printable ASCII characters.
    pub(super) id: String,
    /// Where the code begins, from the bundle's beginning.
    pub(super) offset: u64,
    /// How many bytes it has.
    pub(super) size: u64,
    /// The first [`HEAD`] bytes of the code, or all.
    pub(super) head: Vec<u8>,
}

/// A bundle's entries in the order of their offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bundle {
    pub(super) entries: Vec<Entry>,
    /// Where the last entry ends, from the bundle's beginning.
    pub(super) end: u64,
}

/// What is wrong with a bundle, and where, from its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) at: u64,
    pub(super) what: String,
}

impl Broken {
    pub(super) fn new(at: u64, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }
}

/// Reads the bundle at whose first byte `input` stands. At the end `input` stands
/// behind the last entry: at [`Bundle::end`].
pub(super) fn read(input: &mut impl Forward) -> Result<Bundle, Broken> {
    let mut input = Counted { input, at: 0 };
    if &input.take::<24>("the magic")? != MAGIC {
        return Err(Broken::new(0, "is no offload bundle: the magic is missing"));
    }
    let count = input.u64("the number of entries")?;
    if !(1..=MAX_ENTRIES).contains(&count) {
        return Err(Broken::new(24, format!("states {count} entries; 1 to {MAX_ENTRIES} are possible")));
    }
    let mut entries = Vec::new();
    for index in 0..count {
        entries.push(input.entry(index)?);
    }
    entries.sort_by_key(|entry| entry.offset);
    for entry in entries.iter_mut().filter(|entry| entry.size > 0) {
        input.content(entry)?;
    }
    Ok(Bundle { entries, end: input.at })
}

struct Counted<'a, F> {
    input: &'a mut F,
    at: u64,
}

impl<F: Forward> Counted<'_, F> {
    fn take<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Broken> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes).map_err(|error| self.broken(&error, what))?;
        self.at += N as u64;
        Ok(bytes)
    }

    fn u64(&mut self, what: &str) -> Result<u64, Broken> {
        self.take(what).map(u64::from_le_bytes)
    }

    /// `at` only ever grows by bytes that were really there, so that it cannot
    /// overflow.
    fn skip(&mut self, count: u64, what: &str) -> Result<(), Broken> {
        self.input.skip(count).map_err(|error| self.broken(&error, what))?;
        self.at += count;
        Ok(())
    }

    fn broken(&self, error: &io::Error, what: &str) -> Broken {
        Broken::new(
            self.at,
            match error.kind() {
                io::ErrorKind::UnexpectedEof => format!("ends within {what}"),
                _ => format!("cannot be decompressed to {what}: {error}"),
            },
        )
    }

    fn entry(&mut self, index: u64) -> Result<Entry, Broken> {
        let what = format!("entry {index} of the table");
        let start = self.at;
        let (offset, size, length) = (self.u64(&what)?, self.u64(&what)?, self.u64(&what)?);
        if length > MAX_ID {
            return Err(Broken::new(
                start + 16,
                format!("{what} has an ID of {length} bytes, more than {MAX_ID}"),
            ));
        }
        let mut id = vec![0; length as usize];
        self.input.read_exact(&mut id).map_err(|error| self.broken(&error, &what))?;
        self.at += length;
        match String::from_utf8(id) {
            Ok(id) if id.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Ok(Entry { id, offset, size, head: Vec::new() })
            }
            _ => Err(Broken::new(start + 24, format!("{what} has an ID of other than printable characters"))),
        }
    }

    fn content(&mut self, entry: &mut Entry) -> Result<(), Broken> {
        let Entry { id, offset, size, .. } = &*entry;
        let what = format!("entry `{id}` ({size} bytes at {offset})");
        let Some(gap) = offset.checked_sub(self.at) else {
            return Err(Broken::new(*offset, format!("has {what} overlap what stands before it")));
        };
        self.skip(gap, &what)?;
        let mut head = vec![0; (*size).min(HEAD as u64) as usize];
        self.input.read_exact(&mut head).map_err(|error| self.broken(&error, &what))?;
        self.at += head.len() as u64;
        self.skip(size - head.len() as u64, &what)?;
        entry.head = head;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::testing::{bundle, code_object, flip_bytes};

    fn two() -> Vec<u8> {
        let objects = [code_object("gfx1100", 300), code_object("gfx1151", 5000)];
        bundle(&[
            ("host-x86_64-unknown-linux-gnu-", &[]),
            ("hipv4-amdgcn-amd-amdhsa--gfx1100", &objects[0]),
            ("hipv4-amdgcn-amd-amdhsa--gfx1151", &objects[1]),
        ])
    }

    #[test]
    fn entries_and_end_are_read() {
        let mut bytes = two();
        let end = bytes.len() as u64;
        bytes.extend([0; 100]);
        let bundle = read(&mut &bytes[..]).unwrap();
        let seen: Vec<_> = bundle.entries.iter().map(|e| (e.id.as_str(), e.size, e.head.len())).collect();
        assert_eq!(
            seen,
            [
                ("host-x86_64-unknown-linux-gnu-", 0, 0),
                ("hipv4-amdgcn-amd-amdhsa--gfx1100", 300, 64),
                ("hipv4-amdgcn-amd-amdhsa--gfx1151", 5000, 64)
            ]
        );
        assert_eq!(bundle.end, end);
    }

    #[test]
    fn a_truncation_at_every_byte_is_an_error() {
        let bytes = two();
        for length in 0..bytes.len() {
            let broken = read(&mut &bytes[..length]).unwrap_err();
            assert!(broken.at <= length as u64, "{length}: {broken:?}");
        }
    }

    #[test]
    fn huge_numbers_are_errors_with_their_place() {
        let patched = |at: usize, value: u64| {
            let mut bytes = two();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            read(&mut &bytes[..]).unwrap_err()
        };
        let second = 32 + 24 + "host-x86_64-unknown-linux-gnu-".len();
        for value in [1 << 60, u64::MAX, 4097, 0] {
            assert_eq!(patched(24, value).at, 24);
        }
        for value in [1 << 60, u64::MAX] {
            assert!(patched(second, value).what.contains("ends within entry"));
            assert!(
                patched(second + 8, value).what.contains("overlap") || value == u64::MAX || value == 1 << 60
            );
            assert_eq!(patched(second + 16, value).at, second as u64 + 16);
        }
        assert!(patched(second, 40).what.contains("overlap"));
    }

    #[test]
    fn random_corruption_never_panics() {
        flip_bytes(&two(), 3000, |bytes| drop(read(&mut &*bytes)));
    }
}
