//! Writes the structure of a zip archive around compressed members. It neither chooses nor
//! compresses them.
//!
//! Source: PKWARE's APPNOTE.TXT 6.3.10; comments name the sections. There are no data descriptors:
//! a member's header is written once its size and checksum are known.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use flate2::Crc;
use zip::DateTime;

use super::deflate::{BLOCK, Block, Content};

/// Section 4.4.3: the versions that deflate and the 64-bit fields need.
const VERSION: u16 = 20;
const VERSION_64: u16 = 45;
/// Section 4.4.2: the file attributes are those of Unix.
const UNIX: u16 = 3 << 8;
/// Section 4.4.4, bit 11: the name is in UTF-8.
const UTF8: u16 = 1 << 11;
/// Section 4.4.5.
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// Sections 4.3.7 and 4.3.12 to 4.3.16.
const LOCAL_HEADER: u32 = 0x0403_4b50;
const CENTRAL_HEADER: u32 = 0x0201_4b50;
const END_64: u32 = 0x0606_4b50;
const END_LOCATOR_64: u32 = 0x0706_4b50;
const END: u32 = 0x0605_4b50;
const LOCAL_HEADER_LENGTH: u64 = 30;
/// Section 4.5.3: the extra field with 64-bit values.
const EXTRA_64: u16 = 1;
/// `S_IFREG`, a regular file, in inode(7).
const REGULAR: u32 = 0o100_000;

/// An archive under construction, which is invalid before [`Container::finish`].
pub(super) struct Container<'a> {
    file: &'a File,
    at: u64,
    date: u16,
    time: u16,
    directory: Vec<u8>,
    members: u64,
    open: Option<Open>,
}

struct Open {
    header: u64,
    data: u64,
    crc: Crc,
}

/// The name and mode of a member.
#[derive(Clone, Copy)]
pub(super) struct MemberName<'a> {
    pub name: &'a str,
    pub executable: bool,
}

/// The fields that the local header and the central directory share.
struct Fields<'a> {
    entry: MemberName<'a>,
    method: u16,
    crc: u32,
    compressed: u64,
    size: u64,
}

impl<'a> Container<'a> {
    /// Starts an archive in an empty file. All members get this time.
    pub fn new(file: &'a File, time: DateTime) -> Self {
        let (date, time) = (time.datepart(), time.timepart());
        Self { file, at: 0, date, time, directory: Vec::new(), members: 0, open: None }
    }

    /// Writes the next block of the open member, or of a new one if none is open. The last block
    /// closes the member. A member that deflate does not shrink is stored.
    pub fn block(
        &mut self,
        entry: MemberName<'_>,
        content: &impl Content,
        block: Block,
    ) -> io::Result<()> {
        let size = content.size();
        let header = self.at;
        let length = LOCAL_HEADER_LENGTH
            + (entry.name.len() + extra_64(size >= LIMIT, &[0, 0]).len()) as u64;
        let open = self.open.get_or_insert_with(|| Open {
            header,
            data: header + length,
            crc: Crc::new(),
        });
        if header == open.header {
            self.at = open.data;
        }
        open.crc.combine(&block.crc);
        self.file.write_all_at(&block.bytes, self.at)?;
        self.at += block.bytes.len() as u64;
        if !block.last {
            return Ok(());
        }
        let (header, data, crc) = (open.header, open.data, open.crc.sum());
        self.open = None;
        let mut fields = Fields { entry, method: DEFLATED, crc, compressed: self.at - data, size };
        if fields.compressed >= size {
            self.store(content, data)?;
            (fields.method, fields.compressed) = (STORED, size);
        }
        let local = self.local(&fields)?;
        self.file.write_all_at(&local, header)?;
        self.enter(&fields, header);
        Ok(())
    }

    /// Overwrites the compressed bytes with the uncompressed content.
    fn store(&mut self, content: &impl Content, data: u64) -> io::Result<()> {
        let mut buffer = Vec::new();
        let mut done = 0;
        while done < content.size() {
            buffer.resize((content.size() - done).min(BLOCK) as usize, 0);
            content.read_exact_at(done, &mut buffer)?;
            self.file.write_all_at(&buffer, data + done)?;
            done += buffer.len() as u64;
        }
        self.at = data + done;
        Ok(())
    }

    /// Section 4.3.7. Both sizes take 64 bits if the uncompressed size, the larger one, needs them.
    fn local(&self, fields: &Fields<'_>) -> io::Result<Vec<u8>> {
        let large = fields.size >= LIMIT;
        let extra = extra_64(large, &[fields.size, fields.compressed]);
        let name = fields.entry.name.as_bytes();
        let mut bytes = LOCAL_HEADER.to_le_bytes().to_vec();
        put_16(&mut bytes, &self.common(fields, large));
        let sizes = if large { [u32::MAX; 2] } else { [low(fields.compressed), low(fields.size)] };
        put_32(&mut bytes, &[fields.crc, sizes[0], sizes[1]]);
        let length = u16::try_from(name.len());
        let length =
            length.map_err(|_| io::Error::other("a member's name is longer than 65535 bytes"))?;
        put_16(&mut bytes, &[length, extra.len() as u16]);
        bytes.extend(name);
        bytes.extend(extra);
        Ok(bytes)
    }

    /// Section 4.3.12. Only values that do not fit take 64 bits.
    fn enter(&mut self, fields: &Fields<'_>, header: u64) {
        let name = fields.entry.name.as_bytes();
        let wide: Vec<u64> = [fields.size, fields.compressed, header]
            .into_iter()
            .filter(|value| *value >= LIMIT)
            .collect();
        let extra = extra_64(!wide.is_empty(), &wide);
        let common = self.common(fields, !wide.is_empty());
        let bytes = &mut self.directory;
        put_32(bytes, &[CENTRAL_HEADER]);
        put_16(bytes, &[UNIX | common[0]]);
        put_16(bytes, &common);
        put_32(bytes, &[fields.crc, low(fields.compressed), low(fields.size)]);
        // No comment, first disk, no internal attributes. `name.len()` was checked to fit.
        put_16(bytes, &[name.len() as u16, extra.len() as u16, 0, 0, 0]);
        let mode = REGULAR | if fields.entry.executable { 0o755 } else { 0o644 };
        put_32(bytes, &[mode << 16, low(header)]);
        bytes.extend(name);
        bytes.extend(extra);
        self.members += 1;
    }

    fn common(&self, fields: &Fields<'_>, large: bool) -> [u16; 5] {
        let version = if large { VERSION_64 } else { VERSION };
        let flags = if fields.entry.name.is_ascii() { 0 } else { UTF8 };
        [version, flags, fields.method, self.time, self.date]
    }

    /// Writes the central directory and the end records (sections 4.3.14 to 4.3.16).
    pub fn finish(mut self) -> io::Result<()> {
        let (start, length, members) = (self.at, self.directory.len() as u64, self.members);
        let mut end = Vec::new();
        if start >= LIMIT || length >= LIMIT || members >= u64::from(u16::MAX) {
            put_32(&mut end, &[END_64]);
            // The size of the rest of this record; both disk numbers are 0.
            put_64(&mut end, &[44]);
            put_16(&mut end, &[UNIX | VERSION_64, VERSION_64]);
            put_32(&mut end, &[0, 0]);
            put_64(&mut end, &[members, members, length, start]);
            put_32(&mut end, &[END_LOCATOR_64, 0]);
            put_64(&mut end, &[start + length]);
            put_32(&mut end, &[1]);
        }
        let count = u16::try_from(members).unwrap_or(u16::MAX);
        put_32(&mut end, &[END]);
        put_16(&mut end, &[0, 0, count, count]);
        put_32(&mut end, &[low(length), low(start)]);
        put_16(&mut end, &[0]);
        self.directory.extend(end);
        self.file.write_all_at(&self.directory, start)?;
        // A stored member may have left longer compressed bytes.
        self.file.set_len(start + self.directory.len() as u64)
    }
}

/// From this value on, a field takes 64 bits.
const LIMIT: u64 = u32::MAX as u64;

/// Returns the value in 32 bits, or the marker that refers to the extra field.
fn low(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn extra_64(wanted: bool, values: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if wanted {
        put_16(&mut bytes, &[EXTRA_64, 8 * values.len() as u16]);
        put_64(&mut bytes, values);
    }
    bytes
}

fn put_16(bytes: &mut Vec<u8>, values: &[u16]) {
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn put_32(bytes: &mut Vec<u8>, values: &[u32]) {
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn put_64(bytes: &mut Vec<u8>, values: &[u64]) {
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

#[cfg(test)]
#[path = "container_tests.rs"]
mod tests;
