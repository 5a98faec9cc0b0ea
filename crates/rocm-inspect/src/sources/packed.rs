//! Recognizes archives by their file extensions and first bytes, and decompresses them. It does not
//! read their members.

use std::io::{self, BufRead, Read};

use crate::data_files;

/// How a tar archive is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Xz,
    Zstd,
}

/// An archive inside another one or in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packed {
    /// Includes wheels.
    Zip,
    Tar(Compression),
    /// An archive format that is not read there.
    Other,
}

/// The memory limit of the xz decoder; xz's highest level needs 65 MiB.
const XZ_MEMORY: u64 = 512 << 20;

impl Packed {
    /// Returns the archive format for a file's name. AOTriton's kernel archives count as kernels
    /// instead.
    pub(super) fn of(path: &str) -> Option<Self> {
        let name = path.to_ascii_lowercase();
        let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        let packed = match () {
            () if ends(&[".whl", ".zip"]) => Self::Zip,
            () if ends(&[".tar"]) => Self::Tar(Compression::None),
            () if ends(&[".tar.gz", ".tgz"]) => Self::Tar(Compression::Gzip),
            () if ends(&[".tar.xz", ".txz"]) => Self::Tar(Compression::Xz),
            () if ends(&[".tar.zst", ".tzst"]) => Self::Tar(Compression::Zstd),
            () if ends(&[".tar.bz2", ".tbz2", ".tar.lz4", ".7z", ".rpm", ".deb", ".conda"]) => {
                Self::Other
            }
            () => return None,
        };
        data_files::look(path).is_none().then_some(packed)
    }
}

impl Compression {
    /// Returns the compression of a file that starts with `head`. Sources: RFC 1952, 2.3.1 (gzip
    /// with deflate, the only method); the .xz file format, 2.1.1.1; RFC 8878, 3.1.1.
    pub(super) fn of(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, 8, ..] => Self::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::None,
        }
    }

    /// Returns a reader of the decompressed content.
    pub(super) fn reader<'a>(self, packed: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
        Ok(match self {
            Self::None => Box::new(packed),
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
            Self::Xz => {
                let stream = liblzma::stream::Stream::new_stream_decoder(
                    XZ_MEMORY,
                    liblzma::stream::CONCATENATED,
                );
                Box::new(liblzma::bufread::XzDecoder::new_stream(packed, stream?))
            }
            Self::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(packed)?),
        })
    }
}
