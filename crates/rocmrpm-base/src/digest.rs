//! Parses, prints and computes SHA-256 digests. It does not know where they are recorded.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;

use sha2::Digest as _;

/// A SHA-256 digest, printed as 64 lowercase hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256([u8; 32]);

impl Sha256 {
    /// Parses 64 hexadecimal digits of either case. Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != 64 {
            return None;
        }
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(text.chunks_exact(2)) {
            let high = (pair[0] as char).to_digit(16)?;
            let low = (pair[1] as char).to_digit(16)?;
            *byte = (high * 16 + low) as u8;
        }
        Some(Self(digest))
    }

    /// Returns the digest of bytes in memory.
    pub fn of_bytes(bytes: impl AsRef<[u8]>) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// Returns the digest and the length in bytes of everything that `reader` yields.
    pub fn of_reader(mut reader: impl Read) -> io::Result<(Self, u64)> {
        let mut hasher = sha2::Sha256::new();
        let mut buffer = vec![0; 1 << 17];
        let mut length = 0;
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok((Self(hasher.finalize().into()), length)),
                Ok(n) => {
                    hasher.update(&buffer[..n]);
                    length += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the digest and the size in bytes of a file. Errors name the file.
    pub fn of_file(path: &Path) -> io::Result<(Self, u64)> {
        Self::of_reader(fs_err::File::open(path)?)
    }

    /// Returns a hasher that takes data block by block; `into` turns it into a digest.
    pub fn hasher() -> sha2::Sha256 {
        sha2::Sha256::new()
    }

    /// Returns the raw 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Sha256 {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl From<sha2::Sha256> for Sha256 {
    fn from(hasher: sha2::Sha256) -> Self {
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[byte >> 4, byte & 15].map(|half| DIGITS[usize::from(half)]));
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256({self})")
    }
}

impl serde::Serialize for Sha256 {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

crate::text_schema!(Sha256, {"description": "A SHA-256 digest.", "pattern": "^[0-9a-f]{64}$"});

impl<'de> serde::Deserialize<'de> for Sha256 {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(format!("`{text}` is not a SHA-256 digest of 64 hex digits"))
        })
    }
}

/// Returns the SHA-512 digest of a file as 128 lowercase hexadecimal digits. Errors name the file.
pub fn sha512_of_file(path: &Path) -> io::Result<String> {
    let mut hasher = Sha512Writer(sha2::Sha512::new());
    io::copy(&mut fs_err::File::open(path)?, &mut hasher)?;
    Ok(hasher.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Hashes what is written to it.
struct Sha512Writer(sha2::Sha512);

impl io::Write for Sha512Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // FIPS 180-2, appendix B.1: the digest of "abc".
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn computes_prints_and_parses() {
        assert_eq!(Sha256::of_bytes("abc").to_string(), ABC);
        assert_eq!(Sha256::parse(&ABC.to_uppercase()), Some(Sha256::of_bytes("abc")));
        assert_eq!(Sha256::of_reader(&b"abc"[..]).unwrap(), (Sha256::of_bytes("abc"), 3));
    }

    #[test]
    fn computes_sha512_of_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        // FIPS 180-2, appendix C.1.
        let digest = sha512_of_file(file.path()).unwrap();
        assert!(digest.starts_with("ddaf35a193617abacc417349ae204131"), "{digest}");
        assert!(digest.ends_with("2a9ac94fa54ca49f") && digest.len() == 128, "{digest}");
    }

    #[test]
    fn rejects_other_text() {
        for bad in ["", "ab", &ABC[1..], &format!("{ABC}0"), &ABC.replace('b', "g")] {
            assert_eq!(Sha256::parse(bad), None, "{bad}");
        }
    }
}
