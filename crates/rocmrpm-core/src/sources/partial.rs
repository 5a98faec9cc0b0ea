//! Represents a remote file that is downloaded in parts as needed. Reading a missing part fails and
//! records which part to download next. It does not download; the caller does.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

/// The size of a part in bytes, unless the gap is smaller.
const STEP: u64 = 64 << 10;

/// Gaps of up to this many bytes are downloaded as one part. The central directory of PyTorch's
/// wheels has 1.4 million bytes.
const NEAR: u64 = 2 << 20;

/// A partially downloaded file.
pub(super) struct PartialFile {
    length: u64,
    /// The offset and the bytes of each part, sorted by offset.
    parts: Vec<(u64, Vec<u8>)>,
    at: u64,
    missing: Option<u64>,
}

impl PartialFile {
    /// Creates a file of `length` bytes without any parts.
    pub fn new(length: u64) -> Self {
        Self { length, parts: Vec::new(), at: 0, missing: None }
    }

    /// Adds the part at offset `start`.
    pub fn insert(&mut self, start: u64, bytes: Vec<u8>) {
        self.parts.push((start, bytes));
        self.parts.sort_by_key(|(start, _)| *start);
        self.missing = None;
    }

    /// Returns the range to download next, or `None` if no read has failed since the last part.
    pub fn missing(&self) -> Option<Range<u64>> {
        let start = self.missing?;
        let next = self.parts.iter().map(|(begins, _)| *begins).find(|begins| *begins > start);
        let next = next.unwrap_or(self.length);
        Some(start..if next - start <= NEAR { next } else { start + STEP })
    }

    /// Returns the number of downloaded bytes.
    pub fn downloaded(&self) -> usize {
        self.parts.iter().map(|(_, bytes)| bytes.len()).sum()
    }
}

impl Read for PartialFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.length || buffer.is_empty() {
            return Ok(0);
        }
        let at = self.at;
        let rest = self.parts.iter().find_map(|(start, bytes)| {
            let offset = usize::try_from(at.checked_sub(*start)?).ok()?;
            bytes.get(offset..).filter(|rest| !rest.is_empty())
        });
        let Some(rest) = rest else {
            self.missing = Some(at);
            return Err(io::Error::other("this part of the file is not downloaded"));
        };
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for PartialFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_the_missing_part_up_to_the_next_one() {
        let length = 3 * NEAR;
        let mut file = PartialFile::new(length);
        let read = |file: &mut PartialFile, at| {
            let mut bytes = [0; 4];
            file.seek(SeekFrom::Start(at)).unwrap();
            file.read_exact(&mut bytes).map(|()| bytes).map_err(|_| file.missing())
        };
        assert_eq!(
            read(&mut file, 10).unwrap_err(),
            Some(10..10 + STEP),
            "the next part is far away"
        );
        file.insert(length - 8, b"12345678".to_vec());
        assert_eq!(file.missing(), None);
        assert_eq!(read(&mut file, length - 8).unwrap(), *b"1234");
        assert_eq!(read(&mut file, length - 4).unwrap(), *b"5678");
        let near = length - 8 - NEAR;
        assert_eq!(read(&mut file, near).unwrap_err(), Some(near..length - 8));
        assert_eq!(read(&mut file, near - 1).unwrap_err(), Some(near - 1..near - 1 + STEP));
        file.insert(100, b"abcd".to_vec());
        assert_eq!(file.downloaded(), 12);
        assert_eq!(read(&mut file, 98).unwrap_err(), Some(98..100));
        // A read across the end of a part requests what follows that part.
        assert_eq!(read(&mut file, 102).unwrap_err(), Some(104..104 + STEP));
        assert_eq!(file.seek(SeekFrom::End(2)).unwrap(), length + 2);
        assert_eq!(file.read(&mut [0; 4]).unwrap(), 0);
        assert!(file.seek(SeekFrom::Current(-(length as i64) - 3)).is_err());
    }
}
