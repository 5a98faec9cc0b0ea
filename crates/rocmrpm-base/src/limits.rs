//! Sizes in bytes, and limits on how much an untrusted archive may unpack to.

use std::io::{self, Read};

/// Archives of this size or more may unpack to at most [`BOMB_RATIO`] times their own size. PyPI
/// applies these limits to uploads.
pub const BOMB_SIZE: u64 = 64 << 20;
/// The maximum ratio of an archive's unpacked size to its own size.
pub const BOMB_RATIO: u64 = 50;

/// Parses a size such as `4 GB` or `512MB`, in decimal units.
pub fn parse_size(text: &str) -> Option<u64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    let unit = match text[number.len()..].trim() {
        "GB" => 1_000_000_000,
        "MB" => 1_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok().filter(|n| *n > 0)?.checked_mul(unit)
}

/// A reader that fails when `inner` yields more bytes than the limit.
pub struct Bounded<R> {
    inner: R,
    left: u64,
    limit: u64,
}

impl<R: Read> Bounded<R> {
    /// Wraps `inner` with a limit in bytes.
    pub fn new(inner: R, limit: u64) -> Self {
        Self { inner, left: limit, limit }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => return Err(too_large(self.limit)),
        }
        Ok(count)
    }
}

/// Returns the error for an archive that exceeds the limit when unpacked.
pub fn too_large(limit: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it unpacks to more than {limit} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_sizes_with_units() {
        assert_eq!(parse_size("4 GB"), Some(4_000_000_000));
        assert_eq!(parse_size("512MB"), Some(512_000_000));
        for bad in ["4", "GB", "-1 GB", "0 GB", "4 GiB", "99999999999999 GB"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }

    #[test]
    fn rejects_more_bytes_than_the_limit() {
        let read = |limit| io::copy(&mut Bounded::new(&[0; 100][..], limit), &mut io::sink());
        assert_eq!(read(100).unwrap(), 100);
        assert_eq!(read(99).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
