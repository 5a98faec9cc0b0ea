//! Joins several tar files by concatenating their members. It does not interpret or modify members,
//! except to read their size.

use std::io::{self, Read, Write};

/// Size of a tar header and of data blocks, in bytes (POSIX.1, ustar).
const BLOCK: usize = 512;

/// Size of GNU tar's record, in bytes. git also pads its archives to a multiple of it.
const RECORD: u64 = 20 * BLOCK as u64;

/// Writes one tar file from several.
pub(super) struct Writer<W: Write> {
    to: io::BufWriter<W>,
    written: u64,
}

impl<W: Write> Writer<W> {
    pub fn new(to: W) -> Self {
        Self { to: io::BufWriter::new(to), written: 0 }
    }

    /// Appends all members of a tar file.
    pub fn append(&mut self, tar: impl Read) -> io::Result<()> {
        let invalid = |message| io::Error::new(io::ErrorKind::InvalidData, message);
        let mut tar = io::BufReader::new(tar);
        loop {
            let mut header = [0; BLOCK];
            tar.read_exact(&mut header)?;
            if header.iter().all(|byte| *byte == 0) {
                return Ok(());
            }
            // An octal field. For sizes over 8 GiB, git writes 0 here and the size elsewhere, so
            // the next block is not a header.
            let size = String::from_utf8_lossy(&header[124..136]);
            let size = u64::from_str_radix(size.trim_matches(|c| c == '\0' || c == ' '), 8);
            let size = size.map_err(|_| invalid("a member of the archive has no size"))?;
            if &header[257..262] != b"ustar" {
                return Err(invalid("a member of the archive has no header, or is over 8 GiB"));
            }
            let padded = size.div_ceil(BLOCK as u64) * BLOCK as u64;
            self.to.write_all(&header)?;
            if io::copy(&mut (&mut tar).take(padded), &mut self.to)? < padded {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.written += BLOCK as u64 + padded;
        }
    }

    /// Writes the end of the archive.
    pub fn finish(mut self) -> io::Result<()> {
        let end = self.written + 2 * BLOCK as u64;
        let padding = end.div_ceil(RECORD) * RECORD - self.written;
        io::copy(&mut io::repeat(0).take(padding), &mut self.to)?;
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, path, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn join(tars: &[&[u8]]) -> io::Result<Vec<u8>> {
        let mut joined = Vec::new();
        let mut writer = Writer::new(&mut joined);
        for tar in tars {
            writer.append(*tar)?;
        }
        writer.finish()?;
        Ok(joined)
    }

    #[test]
    fn concatenates_members() {
        let long = vec![b'x'; 1000];
        let (one, two) = (tar_of(&[("a/1", b"1"), ("a/2", &long)]), tar_of(&[("a/b/3", b"")]));
        let joined = join(&[&one, &two]).unwrap();
        assert_eq!(joined.len() as u64 % RECORD, 0);
        let mut archive = tar::Archive::new(&joined[..]);
        let members: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.path().unwrap().display().to_string(), entry.size())
            })
            .collect();
        let expected = [("a/1", 1), ("a/2", 1000), ("a/b/3", 0)];
        assert_eq!(members, expected.map(|(path, size)| (path.to_owned(), size)));
    }

    #[test]
    fn rejects_truncated_and_foreign_archives() {
        let tar = tar_of(&[("a", b"1")]);
        for end in [0, 1, 511, 512, 513, 1023, 1024, 1100] {
            assert!(join(&[&tar[..end]]).is_err(), "{end}");
        }
        assert!(join(&[&[b'x'; 2048]]).is_err());
    }
}
