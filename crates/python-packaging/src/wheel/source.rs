//! Random access to the bytes of a wheel. A small wheel is read into memory once; a larger one
//! stays on disk. This module does not interpret the bytes.

use std::io::{self, Read, Seek};

use fs_err::os::unix::fs::FileExt;

use rocmrpm_base::digest::Sha256;

/// The largest wheel that is held in memory, in bytes.
const SMALL: u64 = 1 << 20;

/// An open wheel.
pub(super) struct Source {
    file: fs_err::File,
    length: u64,
    small: Option<Vec<u8>>,
}

impl Source {
    /// Wraps an open file.
    pub fn new(mut file: fs_err::File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let small = match length <= SMALL {
            true => {
                let mut bytes = vec![0; length as usize];
                file.read_exact(&mut bytes)?;
                Some(bytes)
            }
            false => None,
        };
        Ok(Self { file, length, small })
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the digest of the whole file.
    pub fn digest(&self) -> io::Result<Sha256> {
        if let Some(bytes) = &self.small {
            return Ok(Sha256::of_bytes(bytes));
        }
        let mut file = &self.file;
        file.rewind()?;
        let (sha256, length) = Sha256::of_reader(file)?;
        if length != self.length {
            let path = self.file.path().display();
            return Err(io::Error::other(format!("{path} changed while it was read")));
        }
        Ok(sha256)
    }

    /// Fills the buffer with the bytes from `at` on.
    pub fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        match &self.small {
            None => self.file.read_exact_at(buffer, at),
            Some(bytes) => {
                let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
                rest.unwrap_or_default().read_exact(buffer)
            }
        }
    }

    /// Returns a reader that starts at the first byte.
    pub fn reader(&self) -> io::Result<Reader<'_>> {
        if let Some(bytes) = &self.small {
            return Ok(Reader::Memory(io::Cursor::new(bytes)));
        }
        let mut file = io::BufReader::new(&self.file);
        file.rewind()?;
        Ok(Reader::Disk(file))
    }
}

/// Reads a [`Source`].
pub(super) enum Reader<'a> {
    Memory(io::Cursor<&'a Vec<u8>>),
    Disk(io::BufReader<&'a fs_err::File>),
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Memory(bytes) => bytes.read(buffer),
            Self::Disk(file) => file.read(buffer),
        }
    }
}

impl Seek for Reader<'_> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        match self {
            Self::Memory(bytes) => bytes.seek(to),
            Self::Disk(file) => file.seek(to),
        }
    }
}
