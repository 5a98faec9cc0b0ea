//! Reads the payload of an RPM as a stream of archive members: detects the compression and parses
//! cpio headers, both the usual ones and those that rpm strips down to the number of a file. `read`
//! matches members with the files in the header.
//!
//! Sources: rpm, `lib/cpio.c` and `docs/manual/format_v4.md`, section "Payload";
//! cpio(5), "New ASCII Format".

use std::io::{self, BufRead, Cursor, Read};
use std::sync::mpsc::{Receiver, sync_channel};

/// rpm's own readers need less: `xz -9` takes 65 MB.
const XZ_MEMORY: u64 = 512 << 20;
// PATH_MAX. The size of a name includes its NUL and any padding by the writer.
const MAX_NAME: u64 = 4096;
const TRAILER: &[u8] = b"TRAILER!!!";

/// The file that a member of the archive is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Member {
    /// The file with this path, and its number of bytes in the payload.
    Named(String, u64),
    /// The file with this number in the header, which also has its size.
    Numbered(usize),
}

/// The number of bytes to decompress at once, and of such pieces to buffer ahead of the reader.
const CHUNK_SIZE: u64 = 256 << 10;
const PIECES: usize = 8;

/// Returns the decompressed payload.
pub(super) fn decompressed(mut input: impl BufRead + Send + 'static) -> io::Result<Box<dyn Read>> {
    let unknown = |what: &str| {
        Err(invalid(format!("the payload is compressed with {what}, which is not supported")))
    };
    match input.fill_buf()? {
        [0x1f, 0x8b, ..] => ahead(flate2::bufread::MultiGzDecoder::new(input)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ahead(zstd::stream::read::Decoder::with_buffer(input)?),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, 0)?;
            ahead(liblzma::bufread::XzDecoder::new_stream(input, stream))
        }
        [b'B', b'Z', b'h', ..] => unknown("bzip2"),
        [0x5d, 0, 0, ..] => unknown("lzma"),
        [b'd', b'r', b'p', b'm', ..] => unknown("a delta"),
        _ => Ok(Box::new(input)),
    }
}

/// Decompresses in a separate thread, which leaves this one to the reader.
fn ahead(mut stream: impl Read + Send + 'static) -> io::Result<Box<dyn Read>> {
    let (pieces, ready) = sync_channel(PIECES);
    std::thread::Builder::new().spawn(move || {
        loop {
            let mut piece = Vec::with_capacity(CHUNK_SIZE as usize);
            let read = (&mut stream).take(CHUNK_SIZE).read_to_end(&mut piece);
            let more = matches!(read, Ok(length) if length > 0);
            // The reader gets the bytes before an error, too.
            let sent = pieces.send(Ok(piece)).is_ok();
            if let Err(error) = read {
                let _ = pieces.send(Err(error));
            }
            if !(more && sent) {
                return;
            }
        }
    })?;
    Ok(Box::new(Ahead { ready, piece: Cursor::default(), ended: false }))
}

/// Reads the pieces that another thread decompresses. An empty piece is the end.
struct Ahead {
    ready: Receiver<io::Result<Vec<u8>>>,
    piece: Cursor<Vec<u8>>,
    ended: bool,
}

impl Read for Ahead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let length = self.piece.read(buffer)?;
            if length > 0 || self.ended || buffer.is_empty() {
                return Ok(length);
            }
            let piece = self.ready.recv();
            let piece =
                piece.map_err(|_| io::Error::other("the decompression thread stopped"))??;
            self.ended = piece.is_empty();
            self.piece = Cursor::new(piece);
        }
    }
}

/// Reads the next member's header; returns `None` at the trailer. If the stream ends before the
/// trailer, the error has the kind `UnexpectedEof`.
pub(super) fn next(input: &mut dyn Read) -> io::Result<Option<Member>> {
    let mut magic = [0; 6];
    input.read_exact(&mut magic)?;
    if &magic == b"07070X" {
        let number = hexadecimal(input)?;
        input.read_exact(&mut [0; 2])?;
        return Ok(Some(Member::Numbered(number as usize)));
    }
    if !matches!(&magic, b"070701" | b"070702") {
        return Err(invalid("a cpio header has an unknown magic number"));
    }
    let mut fields = [0; 13];
    for field in &mut fields {
        *field = hexadecimal(input)?;
    }
    let (size, name_size) = (fields[6], fields[11]);
    if !(1..=MAX_NAME).contains(&name_size) {
        return Err(invalid(format!("a cpio header states a name of {name_size} bytes")));
    }
    let mut name = Vec::new();
    input.take(name_size + padding(110 + name_size)).read_to_end(&mut name)?;
    if (name.len() as u64) < name_size + padding(110 + name_size) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    name.truncate(name_size as usize);
    let Some(end) = name.iter().position(|byte| *byte == 0) else {
        return Err(invalid("a cpio header has a name without a terminating NUL"));
    };
    match &name[..end] {
        TRAILER => Ok(None),
        name => Ok(Some(Member::Named(String::from_utf8_lossy(name).into_owned(), size))),
    }
}

/// Returns the number of bytes between `length` bytes of data and the next header.
pub(super) fn padding(length: u64) -> u64 {
    length.wrapping_neg() % 4
}

fn hexadecimal(input: &mut dyn Read) -> io::Result<u64> {
    let mut digits = [0; 8];
    input.read_exact(&mut digits)?;
    digits.iter().try_fold(0, |sum, digit| match (*digit as char).to_digit(16) {
        Some(digit) => Ok(sum << 4 | u64::from(digit)),
        None => Err(invalid("a cpio header has a character that is not a hexadecimal digit")),
    })
}

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a cpio header including the name and padding.
    pub(crate) fn newc(name: &str, size: u64) -> Vec<u8> {
        let mut fields = [0; 13];
        (fields[6], fields[11]) = (size, name.len() as u64 + 1);
        let fields: String = fields.iter().map(|field| format!("{field:08x}")).collect();
        let mut bytes = format!("070701{fields}{name}\0").into_bytes();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn reads_both_kinds_of_headers() {
        let name = |name: &str, size| Some(Member::Named(name.into(), size));
        assert_eq!(next(&mut &newc("./a", 7)[..]).unwrap(), name("./a", 7));
        assert_eq!(next(&mut &newc("", u32::MAX.into())[..]).unwrap(), name("", u32::MAX.into()));
        assert_eq!(next(&mut &b"07070X0000000a\0\0"[..]).unwrap(), Some(Member::Numbered(10)));
        assert_eq!(next(&mut &newc("TRAILER!!!", 0)[..]).unwrap(), None);
    }

    #[test]
    fn rejects_damaged_headers() {
        let whole = newc("./usr/lib64/a", 1);
        for length in 0..whole.len() {
            assert!(next(&mut &whole[..length]).is_err(), "{length}");
        }
        assert!(next(&mut &b"07070X0000000g\0\0"[..]).is_err());
        assert!(next(&mut &b"070707"[..]).is_err());
        let mut long = whole.clone();
        long[94..102].copy_from_slice(b"ffffffff");
        assert!(next(&mut &long[..]).unwrap_err().to_string().contains("4294967295"));
        long[94..102].copy_from_slice(b"00000000");
        assert!(next(&mut &long[..]).is_err());
    }

    #[test]
    fn names_unsupported_compressions() {
        for (head, name) in
            [(&b"BZh91AY"[..], "bzip2"), (b"\x5d\0\0\x80\0", "lzma"), (b"drpm", "delta")]
        {
            let error = decompressed(head).err().unwrap().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
