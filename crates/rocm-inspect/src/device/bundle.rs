//! Reads the entry table of uncompressed offload bundles. Source of the format: LLVM,
//! `ClangOffloadBundler`, "Bundled Binary File Layout". `device` interprets the entries' content.

use super::entry_id::EntryId;

/// The first bytes of a bundle.
pub(crate) const MAGIC: &[u8; 24] = b"__CLANG_OFFLOAD_BUNDLE__";

// Compilers know fewer than a hundred targets, and the longest known ID has 50 characters. Anything
// far larger is not a bundle.
pub(crate) const MAX_ENTRIES: u64 = 4096;
pub(crate) const MAX_ID: u64 = 256;

/// The maximum length of a table.
pub(crate) const MAX_TABLE: usize = 32 + (MAX_ENTRIES * (24 + MAX_ID)) as usize;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BundleEntry {
    /// The ID: printable ASCII characters only.
    pub(crate) id: String,
    /// The offset of the code in the bundle.
    pub(crate) offset: u64,
    /// The size of the code in bytes.
    pub(crate) size: u64,
}

/// A bundle's entries, sorted by offset. Entries with content are after the table and do not
/// overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) entries: Vec<BundleEntry>,
    /// The end of the last entry, as an offset in the bundle.
    pub(crate) end: u64,
}

/// A defect of a bundle, with its offset in the bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) at: u64,
    pub(crate) what: String,
    /// The bundle may be fine: memory ran out.
    pub(crate) out_of_memory: bool,
}

impl Broken {
    pub(crate) fn new(at: u64, what: impl Into<String>) -> Self {
        Self { at, what: what.into(), out_of_memory: false }
    }

    /// Returns the error for a decoder that failed at `at`.
    pub(crate) fn undecodable(at: u64, error: &std::io::Error) -> Self {
        let out_of_memory = is_out_of_memory(error);
        Self { out_of_memory, ..Self::new(at, format!("cannot be decompressed: {error}")) }
    }
}

/// Returns whether a decoder ran out of memory. zstd's decoder reports it only as text.
pub(crate) fn is_out_of_memory(error: &std::io::Error) -> bool {
    use zstd::zstd_safe::{get_error_name, zstd_sys::ZSTD_ErrorCode};
    let code = (ZSTD_ErrorCode::ZSTD_error_memory_allocation as usize).wrapping_neg();
    error.kind() == std::io::ErrorKind::OutOfMemory || error.to_string() == get_error_name(code)
}

impl Table {
    /// Reads the table at the start of `bytes`; `None` if it extends beyond them.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Self>, Broken> {
        let mut input = Input { bytes, at: 0 };
        match input.table() {
            Ok(table) => Ok(Some(table)),
            Err(Stop::More) => Ok(None),
            Err(Stop::Broken(broken)) => Err(broken),
        }
    }

    /// Reads the table of a bundle that `bytes` contains completely.
    pub(crate) fn whole(bytes: &[u8]) -> Result<Self, Broken> {
        let length = bytes.len() as u64;
        let table = Self::read(bytes)?;
        let table = table.ok_or_else(|| Broken::new(length, "ends within its table of entries"))?;
        table.inside(length)?;
        Ok(table)
    }

    /// Checks that all entries are inside a bundle of `length` bytes.
    pub(crate) fn inside(&self, length: u64) -> Result<(), Broken> {
        let mut content = self.entries.iter().filter(|entry| entry.size > 0);
        match content.find(|entry| entry.offset.saturating_add(entry.size) > length) {
            Some(BundleEntry { id, offset, size }) => {
                let what = format!("ends within entry `{id}` ({size} bytes at {offset})");
                Err(Broken::new(length, what))
            }
            None => Ok(()),
        }
    }

    /// Returns whether a compiler could have written this table: every ID is of a known kind, and
    /// at least one is for AMD GPUs and has content. Arbitrary bytes can follow the magic if it is
    /// just a string constant.
    pub(crate) fn is_credible(&self) -> bool {
        let kind = |entry: &BundleEntry| {
            let kind = entry.id.split('-').next().unwrap_or_default();
            ["host", "hip", "hipv4", "openmp", "sycl"].contains(&kind)
        };
        let amd = |entry: &BundleEntry| {
            entry.size > 0 && matches!(EntryId::parse(&entry.id), EntryId::Amd { .. })
        };
        self.entries.iter().all(kind) && self.entries.iter().any(amd)
    }
}

enum Stop {
    More,
    Broken(Broken),
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Stop> {
        let taken =
            self.bytes.get(self.at..).and_then(|rest| rest.get(..count)).ok_or(Stop::More)?;
        self.at += count;
        Ok(taken)
    }

    fn u64(&mut self) -> Result<u64, Stop> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(std::array::from_fn(|i| bytes[i])))
    }

    fn table(&mut self) -> Result<Table, Stop> {
        let broken = |at: usize, what: String| Err(Stop::Broken(Broken::new(at as u64, what)));
        if self.take(MAGIC.len())? != MAGIC {
            return broken(0, "is not an offload bundle: the magic is missing".into());
        }
        let count = self.u64()?;
        if !(1..=MAX_ENTRIES).contains(&count) {
            return broken(24, format!("states {count} entries; 1 to {MAX_ENTRIES} are possible"));
        }
        let mut entries = Vec::new();
        for index in 0..count {
            let start = self.at;
            let (offset, size, length) = (self.u64()?, self.u64()?, self.u64()?);
            let what = format!("entry {index} of the table");
            if length > MAX_ID {
                let what = format!("{what} has an ID of {length} bytes, more than {MAX_ID}");
                return broken(start + 16, what);
            }
            let id = self.take(length as usize)?;
            if !id.iter().all(u8::is_ascii_graphic) {
                return broken(start + 24, format!("{what} has an ID with unprintable characters"));
            }
            entries.push(BundleEntry {
                id: String::from_utf8_lossy(id).into_owned(),
                offset,
                size,
            });
        }
        entries.sort_by_key(|entry| entry.offset);
        let mut end = self.at as u64;
        for BundleEntry { id, offset, size } in entries.iter().filter(|entry| entry.size > 0) {
            if *offset < end {
                let what = format!(
                    "has an entry `{id}` ({size} bytes at {offset}) that overlaps the data before it"
                );
                return Err(Stop::Broken(Broken::new(*offset, what)));
            }
            end = offset.saturating_add(*size);
        }
        Ok(Table { entries, end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_lack_of_memory_from_damage() {
        let zstds = std::io::Error::other("Allocation error : not enough memory");
        assert!(Broken::undecodable(0, &zstds).out_of_memory);
        assert!(
            !Broken::undecodable(0, &std::io::Error::other("Data corruption detected"))
                .out_of_memory
        );
    }
    use crate::testing::{bundle, code_object, flip_bytes};

    fn two() -> Vec<u8> {
        let objects = [code_object("gfx1100", 300), code_object("gfx1151", 5000)];
        bundle(&[
            ("host-x86_64-unknown-linux-gnu-", &[]),
            ("hipv4-amdgcn-amd-amdhsa--gfx1100", &objects[0]),
            ("hipv4-amdgcn-amd-amdhsa--gfx1151", &objects[1]),
        ])
    }

    #[test]
    fn reads_entries_and_end() {
        let mut bytes = two();
        let end = bytes.len() as u64;
        bytes.extend([0; 100]);
        let bundle = Table::whole(&bytes).unwrap();
        let seen: Vec<_> = bundle.entries.iter().map(|e| (e.id.as_str(), e.size)).collect();
        assert_eq!(
            seen,
            [
                ("host-x86_64-unknown-linux-gnu-", 0),
                ("hipv4-amdgcn-amd-amdhsa--gfx1100", 300),
                ("hipv4-amdgcn-amd-amdhsa--gfx1151", 5000)
            ]
        );
        assert_eq!(bundle.end, end);
    }

    #[test]
    fn rejects_truncation_at_every_byte() {
        let bytes = two();
        for length in 0..bytes.len() {
            let broken = Table::whole(&bytes[..length]).unwrap_err();
            assert!(broken.at <= length as u64, "{length}: {broken:?}");
        }
    }

    #[test]
    fn rejects_huge_numbers_with_their_offset() {
        let patched = |at: usize, value: u64| {
            let mut bytes = two();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            Table::whole(&bytes).unwrap_err()
        };
        let second = 32 + 24 + "host-x86_64-unknown-linux-gnu-".len();
        for value in [1 << 60, u64::MAX, 4097, 0] {
            assert_eq!(patched(24, value).at, 24);
        }
        for value in [1 << 60, u64::MAX] {
            assert!(patched(second, value).what.contains("ends within entry"));
            assert!(patched(second + 8, value).what.contains("overlap"));
            assert_eq!(patched(second + 16, value).at, second as u64 + 16);
        }
        assert!(patched(second, 40).what.contains("overlap"));
    }

    #[test]
    fn survives_random_corruption() {
        flip_bytes(&two(), 3000, |bytes| drop(Table::whole(bytes)));
    }
}
