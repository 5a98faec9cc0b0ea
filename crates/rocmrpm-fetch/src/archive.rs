//! Checks that a file starts like the kind of archive that its name promises, and finds the folder
//! that it unpacks to. It does not unpack archives.

use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use rocmrpm_base::error::IoError;

/// The size of a tar header and of the blocks that follow it (POSIX.1, ustar).
const BLOCK: usize = 512;

/// Upper bound on the pax and GNU long-name records before the first member. Real ones have a few
/// hundred bytes.
const MAX_RECORD: u64 = 1 << 20;

/// The mismatch between a file and the archive format of its name.
#[derive(Debug, PartialEq, Eq)]
pub struct NotThat {
    /// The format that the name promises, with its article.
    pub expected: &'static str,
    /// The start of the file, in printable form.
    pub begins: String,
}

/// Checks that the file starts like the kind of archive that `name` promises; a name without an
/// archive's suffix promises nothing. Returns the top-level folder of the first member, if the
/// format allows that.
pub fn check(path: &Path, name: &str) -> Result<Result<Option<String>, NotThat>, IoError> {
    let action = || IoError::doing("read a source");
    let mut file = fs_err::File::open(path).map_err(action())?;
    let mut start = Vec::new();
    (&mut file).take(BLOCK as u64).read_to_end(&mut start).map_err(action())?;
    let has = |suffixes: &[&str]| suffixes.iter().any(|s| name.to_ascii_lowercase().ends_with(s));
    let not = |expected| Ok(Err(NotThat { expected, begins: beginning(&start) }));
    let magic = |bytes: &[u8], expected| {
        if start.starts_with(bytes) { Ok(Ok(None)) } else { not(expected) }
    };
    if has(&[".tar.gz", ".tgz", ".crate"]) {
        if !start.starts_with(&[0x1f, 0x8b]) {
            return not("a gzip file");
        }
        let whole = io::BufReader::new(fs_err::File::open(path).map_err(action())?);
        return match top_folder(MultiGzDecoder::new(whole)) {
            Some(folder) => Ok(Ok(folder)),
            None => not("a tar archive inside gzip"),
        };
    }
    if has(&[".tar"]) {
        let whole = io::BufReader::new(fs_err::File::open(path).map_err(action())?);
        return match top_folder(whole) {
            Some(folder) => Ok(Ok(folder)),
            None => not("a tar archive"),
        };
    }
    if has(&[".gz"]) {
        magic(&[0x1f, 0x8b], "a gzip file")
    } else if has(&[".xz", ".txz"]) {
        magic(b"\xfd7zXZ\0", "an xz file")
    } else if has(&[".zst"]) {
        magic(&[0x28, 0xb5, 0x2f, 0xfd], "a zstd file")
    } else if has(&[".bz2", ".tbz", ".tbz2"]) {
        magic(b"BZh", "a bzip2 file")
    } else if has(&[".zip", ".whl"]) {
        magic(b"PK\x03\x04", "a zip file")
    } else {
        Ok(Ok(None))
    }
}

/// Returns the first path component of the first member of a tar stream: `Some(None)` if it has no
/// folder, `None` if the stream is not a tar archive.
fn top_folder(mut tar: impl Read) -> Option<Option<String>> {
    // git writes a pax header first, and long names have records of their own.
    for _ in 0..4 {
        let mut header = [0; BLOCK];
        tar.read_exact(&mut header).ok()?;
        let size = number(&header[124..136])?;
        // The checksum counts its own field as blanks. V7 archives have no magic, so the checksum
        // is the only mark that all variants share.
        let sum: u64 = header
            .iter()
            .enumerate()
            .map(|(i, b)| u64::from(if (148..156).contains(&i) { b' ' } else { *b }))
            .sum();
        if number(&header[148..156])? != sum {
            return None;
        }
        match header[156] {
            b'g' | b'x' | b'L' | b'K' if size <= MAX_RECORD => {
                let padded = size.div_ceil(BLOCK as u64) * BLOCK as u64;
                let skipped = io::copy(&mut (&mut tar).take(padded), &mut io::sink()).ok()?;
                if skipped < padded {
                    return None;
                }
            }
            b'g' | b'x' | b'L' | b'K' => return None,
            kind => {
                let prefix = if &header[257..262] == b"ustar" {
                    text(&header[345..500])
                } else {
                    String::new()
                };
                let path = format!("{prefix}/{}", text(&header[..100]));
                let mut folders = path.split('/').filter(|part| !part.is_empty() && *part != ".");
                let first = folders.next().map(str::to_owned);
                let inside = folders.next().is_some() || kind == b'5';
                return Some(first.filter(|_| inside));
            }
        }
    }
    None
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field.split(|b| *b == 0).next().unwrap_or_default()).into_owned()
}

/// Parses an octal field. Sizes over 8 GiB are binary and read as 0, because the caller does not
/// need them.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        return Some(0);
    }
    let text = text(field);
    u64::from_str_radix(text.trim_matches(' '), 8).ok()
}

/// Returns the first bytes of a file in printable form.
pub fn beginning(bytes: &[u8]) -> String {
    let line = bytes.iter().take(48).take_while(|b| **b != b'\n' && **b != b'\r');
    let line: Vec<u8> = line.copied().collect();
    if bytes.is_empty() {
        "nothing, it is empty".into()
    } else if !line.is_empty()
        && line.iter().all(|b| b.is_ascii_graphic() || *b == b' ' || *b == b'\t')
    {
        format!("`{}`", String::from_utf8_lossy(&line).trim())
    } else {
        let bytes: Vec<_> = bytes.iter().take(8).map(|b| format!("{b:02x}")).collect();
        format!("the bytes {}", bytes.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Returns a tar archive with one file at this path.
    fn tar_of(path: &str) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(2);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, &b"hi"[..]).unwrap();
        builder.into_inner().unwrap()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn check_bytes(bytes: &[u8], name: &str) -> Result<Option<String>, NotThat> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        check(file.path(), name).unwrap()
    }

    #[test]
    fn recognizes_archives_with_their_folder() {
        let tar = tar_of("demo-1/a/b");
        assert_eq!(check_bytes(&tar, "x.tar"), Ok(Some("demo-1".into())));
        assert_eq!(check_bytes(&gzip(&tar), "x.tgz"), Ok(Some("demo-1".into())));
        assert_eq!(check_bytes(&gzip(&tar_of("bare")), "x.tar.gz"), Ok(None));
        let long = format!("demo-2/{}", "x".repeat(300));
        assert_eq!(check_bytes(&gzip(&tar_of(&long)), "x.tar.gz"), Ok(Some("demo-2".into())));
        for (bytes, name) in [
            (&b"\xfd7zXZ\0..."[..], "a.tar.xz"),
            (b"\x28\xb5\x2f\xfd", "a.tar.zst"),
            (b"BZh9", "a.tar.bz2"),
            (b"\xfd7zXZ\0", "a.txz"),
            (b"BZh9", "a.tbz"),
            (b"BZh9", "a.tbz2"),
            (b"\x1f\x8b", "a.patch.gz"),
            (b"PK\x03\x04", "a.ZIP"),
            (b"PK\x03\x04", "a.whl"),
            (b"anything", "a.patch"),
        ] {
            assert_eq!(check_bytes(bytes, name), Ok(None), "{name}");
            if !name.ends_with(".patch") {
                assert!(check_bytes(b"<html>", name).is_err(), "{name}");
            }
        }
    }

    #[test]
    fn shows_other_content() {
        let html = b"<!DOCTYPE html>\n<html>sorry</html>";
        let error = check_bytes(html, "x.tar.gz").unwrap_err();
        assert_eq!((error.expected, error.begins.as_str()), ("a gzip file", "`<!DOCTYPE html>`"));
        assert_eq!(check_bytes(b"", "x.zip").unwrap_err().begins, "nothing, it is empty");
        assert_eq!(check_bytes(b"\0\x01\xff", "x.xz").unwrap_err().begins, "the bytes 00 01 ff");
        // A single printable byte does not make it text.
        assert_eq!(
            check_bytes(b"A\x1b[2J\0", "x.xz").unwrap_err().begins,
            "the bytes 41 1b 5b 32 4a 00"
        );
        // A file that starts with an empty line is not shown as empty text.
        assert_eq!(
            check_bytes(b"\n<html>", "x.xz").unwrap_err().begins,
            "the bytes 0a 3c 68 74 6d 6c 3e"
        );
        assert_eq!(
            check_bytes(&gzip(html), "x.tar.gz").unwrap_err().expected,
            "a tar archive inside gzip"
        );
        assert_eq!(check_bytes(&[0; 2048], "x.tar").unwrap_err().expected, "a tar archive");
    }

    #[test]
    fn reads_headers_of_files_over_8_gib() {
        let mut header = tar::Header::new_gnu();
        header.set_path("demo-1/a").unwrap();
        header.set_size(9 << 30);
        header.set_cksum();
        assert_eq!(check_bytes(header.as_bytes(), "x.tar"), Ok(Some("demo-1".into())));
    }

    #[test]
    fn rejects_truncated_and_changed_headers() {
        let whole = gzip(&tar_of("demo-1/a"));
        for end in 0..whole.len().min(60) {
            assert!(check_bytes(&whole[..end], "x.tar.gz").is_err(), "{end}");
        }
        let tar = tar_of("demo-1/a");
        for at in 0..BLOCK {
            let mut changed = tar.clone();
            changed[at] ^= 0xff;
            assert!(check_bytes(&changed, "x.tar").is_err(), "{at}");
        }
    }

    #[test]
    fn allows_three_records_before_the_first_member() {
        let mut record = tar::Header::new_ustar();
        record.set_entry_type(tar::EntryType::XGlobalHeader);
        record.set_size(3);
        record.set_cksum();
        let record = [record.as_bytes(), &[b'x'; BLOCK][..]].concat();
        for (count, folder) in [(0, true), (3, true), (4, false)] {
            let tar = [record.repeat(count), tar_of("demo-1/a")].concat();
            assert_eq!(check_bytes(&tar, "x.tar").ok().flatten().is_some(), folder, "{count}");
        }
    }

    #[test]
    fn rejects_oversized_record() {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::XGlobalHeader);
        header.set_size(7_000_000_000);
        header.set_cksum();
        assert!(check_bytes(header.as_bytes(), "x.tar").is_err());
    }
}
