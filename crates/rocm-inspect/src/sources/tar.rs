//! Walks the members of a tar archive, compressed or not, in its three dialects: ustar, pax and
//! GNU. Reads only headers and lengths, and does not interpret the files. The content of sparse files
//! is not read: no packaging tool writes them.
//!
//! Sources: POSIX.1-2024, `pax`, "ustar Interchange Format" and "pax Extended Header"; GNU tar
//! manual, "Basic Tar Format" and "Storing Sparse Files".

use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;

use fs_err as fs;
use tar::EntryType;

use super::members::Members;
use super::packed::Compression;
use super::wheel::{distribution, is_metadata};
use crate::InspectError;
use crate::facts::Subject;
use rocmrpm_base::process::check_stop;

const BLOCK: u64 = 512;
/// The maximum size of an extended header; on Linux, paths have at most 4096 bytes.
const MAX_EXTENSION: u64 = 1 << 20;

/// Returns whether the file at `path`, which starts with `head`, is a tar archive.
pub(super) fn is_tar(path: &Path, head: &[u8]) -> io::Result<bool> {
    let compression = Compression::of(head);
    // An uncompressed tar archive is only recognized by its name: its first bytes are a member's
    // name.
    if compression == Compression::None && path.extension().is_none_or(|ending| ending != "tar") {
        return Ok(false);
    }
    let mut block = Vec::new();
    let file = BufReader::new(fs::File::open(path)?);
    // If decompression fails, it is not a tar archive.
    let read =
        compression.reader(file).and_then(|stream| stream.take(BLOCK).read_to_end(&mut block));
    Ok(read.is_ok()
        && header(&block)
            .is_some_and(|header| header.as_ustar().is_some() || header.as_gnu().is_some()))
}

/// Adds every member of the archive, and its distribution's name.
pub(super) fn walk(members: &mut dyn Members, subject: &mut Subject) -> Result<(), InspectError> {
    let mut file = BufReader::with_capacity(128 << 10, fs::File::open(members.archive())?);
    let compression = Compression::of(file.fill_buf()?);
    walk_stream(members, &mut *compression.reader(file)?, &mut subject.package)
}

/// Adds every member of the tar archive in `stream`. `package` receives the distribution's name
/// that the archive states.
pub(super) fn walk_stream(
    members: &mut dyn Members,
    mut stream: &mut dyn Read,
    package: &mut Option<String>,
) -> Result<(), InspectError> {
    let mut next = Extensions::default();
    let mut at = 0u64;
    loop {
        let mut block = Vec::new();
        let place = format!("the header at byte {at} of the archive");
        let read = (&mut stream).take(BLOCK).read_to_end(&mut block);
        read.map_err(|error| members.unreadable(&place, error))?;
        if block.is_empty() || block.len() as u64 == BLOCK && block.iter().all(|byte| *byte == 0) {
            break;
        }
        let Some(header) = header(&block) else {
            return Err(members.damaged(format!("{place} is damaged")));
        };
        let kind = header.entry_type();
        let stated = next.size.map_or_else(|| header.entry_size(), Ok);
        let stated = stated.map_err(|_| members.damaged(format!("{place} has no size")))?;
        let size = match kind {
            EntryType::Symlink | EntryType::Link | EntryType::Directory => 0,
            _ => stated,
        };
        let extended = header.as_gnu().is_some_and(|header| header.is_extended());
        if kind == EntryType::GNUSparse && extended {
            at = at.saturating_add(sparse_map(members, &mut stream, &place)?);
        }
        let mut content = (&mut stream).take(size);
        match kind {
            EntryType::XHeader | EntryType::GNULongName | EntryType::GNULongLink => {
                if size > MAX_EXTENSION {
                    return Err(
                        members.damaged(format!("{place} has an extension of {size} bytes"))
                    );
                }
                members.pass(&place, size)?;
                let mut bytes = Vec::new();
                content
                    .read_to_end(&mut bytes)
                    .map_err(|error| members.unreadable(&place, error))?;
                next.take(kind, &bytes);
            }
            EntryType::XGlobalHeader => members.pass(&place, size)?,
            kind => {
                let Extensions { name, link, sparse, .. } = std::mem::take(&mut next);
                let name = name.unwrap_or_else(|| text(&header.path_bytes()));
                let name = name.trim_start_matches("./").to_owned();
                let target =
                    || link.or_else(|| Some(text(&header.link_name_bytes()?))).unwrap_or_default();
                match kind {
                    EntryType::Directory => {}
                    EntryType::Symlink => members.link(&name, &target())?,
                    EntryType::Link => members.name(&name)?,
                    EntryType::GNUSparse | EntryType::Regular if sparse || kind.is_gnu_sparse() => {
                        members.pass(&name, size)?;
                        members.unread(&name, "a sparse file in a tar archive")?;
                    }
                    EntryType::Regular | EntryType::Continuous if !name.ends_with('/') => {
                        let metadata = is_metadata(&name, "", "PKG-INFO")
                            || is_metadata(&name, ".dist-info", "METADATA");
                        if metadata {
                            members.pass(&name, size)?;
                            members.name(&name)?;
                            let found = distribution(&mut content);
                            let found = found.map_err(|error| members.unreadable(&name, error))?;
                            *package = found.or(package.take());
                        } else {
                            members.streamed(&name, size, &mut content)?;
                        }
                    }
                    // Devices, which no packaging tool writes.
                    _ => members.pass(&name, size)?,
                }
            }
        }
        let rest = content.limit().saturating_add(size.wrapping_neg() % BLOCK);
        skip(&mut stream, rest).map_err(|error| members.unreadable(&place, error))?;
        at = at.saturating_add(BLOCK + size.saturating_add(size.wrapping_neg() % BLOCK));
    }
    Ok(())
}

/// Extended headers, which override fields of the header after them.
#[derive(Default)]
struct Extensions {
    name: Option<String>,
    link: Option<String>,
    size: Option<u64>,
    sparse: bool,
}

impl Extensions {
    fn take(&mut self, kind: EntryType, bytes: &[u8]) {
        let line = || text(bytes.split(|byte| *byte == 0).next().unwrap_or_default());
        match kind {
            EntryType::GNULongName => self.name = Some(line()),
            EntryType::GNULongLink => self.link = Some(line()),
            _ => {
                for record in tar::PaxExtensions::new(bytes).flatten() {
                    let value = text(record.value_bytes());
                    match record.key_bytes() {
                        // Sparse files have their name here, and another one in `path`.
                        b"GNU.sparse.name" => (self.name, self.sparse) = (Some(value), true),
                        b"path" if !self.sparse => self.name = Some(value),
                        b"linkpath" => self.link = Some(value),
                        b"size" => self.size = value.parse().ok(),
                        _ => {}
                    }
                }
            }
        }
    }
}

/// Skips the headers with the rest of a sparse file's map, each of which states whether another one
/// follows. Returns their length.
fn sparse_map(
    members: &mut dyn Members,
    stream: &mut dyn Read,
    place: &str,
) -> Result<u64, InspectError> {
    let mut length = 0;
    loop {
        members.pass(place, BLOCK)?;
        let mut block = tar::GnuExtSparseHeader::new();
        let read = stream.read_exact(block.as_mut_bytes());
        read.map_err(|error| members.unreadable(place, error))?;
        length += BLOCK;
        if !block.is_extended() {
            return Ok(length);
        }
    }
}

/// Returns the header in a block with a valid checksum: the sum of all bytes, with spaces in place
/// of the checksum itself.
fn header(block: &[u8]) -> Option<&tar::Header> {
    let block: &[u8; BLOCK as usize] = block.try_into().ok()?;
    let header = tar::Header::from_byte_slice(block);
    let sum: u32 = block
        .iter()
        .enumerate()
        .map(|(at, byte)| match at {
            148..156 => u32::from(b' '),
            _ => u32::from(*byte),
        })
        .sum();
    (header.cksum().ok()? == sum).then_some(header)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn skip(stream: &mut dyn Read, mut count: u64) -> io::Result<()> {
    let mut buffer = vec![0; 128 << 10];
    while count > 0 {
        check_stop().map_err(io::Error::other)?;
        let length = usize::try_from(count).map_or(buffer.len(), |count| count.min(buffer.len()));
        stream.read_exact(&mut buffer[..length])?;
        count -= length as u64;
    }
    Ok(())
}
