//! Checks that every reader of a zip archive sees the same members, whether it follows the central
//! directory or goes from one local header to the next. An archive in which the two differ shows
//! one wheel to a checker and installs another; pip and uv read archives in different ways. It does
//! not check the members' contents.
//!
//! Source: PKWARE, APPNOTE.TXT 6.3.10, sections 4.3 (structure) and 4.5.3 (zip64).

use zip::{CompressionMethod, ZipArchive};

use super::source::{Reader, Source};

const LOCAL_HEADER: usize = 30;
const CENTRAL_HEADER: usize = 46;
const END: usize = 22;
const END64_LOCATOR: usize = 20;
const END64: usize = 56;
/// The possible sizes of a data descriptor: without or with signature, in 32 or 64 bits.
const DESCRIPTORS: [u64; 4] = [12, 16, 20, 24];
/// Bit 3 of the flags: sizes and checksum follow the data.
const DESCRIBED: u16 = 1 << 3;

pub(super) type Archive<'a> = ZipArchive<Reader<'a>>;

/// The fields of a member's entry in the central directory that its local header repeats.
struct Central {
    name: Vec<u8>,
    shown: String,
    start: u64,
    compressed: u64,
    size: u64,
    crc: u32,
    method: u16,
}

/// Checks that the archive in `file` has, from the first byte on, its members one after the other,
/// each with a matching local header, then the central directory, then its end record, and nothing
/// else. The error describes what is wrong.
pub(super) fn check(archive: &Archive<'_>, file: &Source) -> Result<(), String> {
    if archive.has_duplicate_names() {
        return Err("the archive has two members with the same name".into());
    }
    let directory = archive.central_directory_start();
    check_end(archive, file)?;
    let mut members =
        (0..archive.len()).map(|at| central(archive, at)).collect::<Result<Vec<_>, _>>()?;
    members.sort_by_key(|member| member.start);
    let mut end = 0;
    for (at, member) in members.iter().enumerate() {
        if member.start != end {
            let what = if at == 0 { "before" } else { "between" };
            return Err(stray(what));
        }
        let next = members.get(at + 1).map_or(directory, |next| next.start);
        check_member(member, file, next)?;
        end = next;
    }
    if end == directory { Ok(()) } else { Err(stray("before")) }
}

fn stray(place: &str) -> String {
    format!("the archive has stray bytes {place} its members")
}

fn central(archive: &Archive<'_>, at: usize) -> Result<Central, String> {
    let entry = archive.by_index_data(at).map_err(|error| format!("a damaged member: {error}"))?;
    let shown = String::from_utf8_lossy(entry.name_raw()).escape_debug().to_string();
    let method = match entry.compression() {
        CompressionMethod::Stored => 0,
        CompressionMethod::Deflated => 8,
        other => {
            return Err(format!(
                "the member `{shown}` is compressed with {other}, which some installers do not support"
            ));
        }
    };
    Ok(Central {
        name: entry.name_raw().to_vec(),
        shown,
        start: entry.header_start(),
        compressed: entry.compressed_size(),
        size: entry.size(),
        crc: entry.crc32(),
        method,
    })
}

/// Checks a member's local header, and that its data ends where the next structure starts.
fn check_member(member: &Central, file: &Source, next: u64) -> Result<(), String> {
    let differs = |what: &str| {
        format!(
            "the member `{}` has a different {what} in its local header than in the central directory",
            member.shown
        )
    };
    let overlaps =
        || format!("the member `{}` overlaps with the data that follows it", member.shown);
    let head = bytes(file, member.start, LOCAL_HEADER)?;
    if head[..4] != *b"PK\x03\x04" {
        return Err(format!("the member `{}` has no local header", member.shown));
    }
    let (flags, method) = (u16_at(&head, 6), u16_at(&head, 8));
    let (name, extra) = (usize::from(u16_at(&head, 26)), usize::from(u16_at(&head, 28)));
    let rest = bytes(file, member.start + LOCAL_HEADER as u64, name + extra)?;
    if rest[..name] != *member.name {
        return Err(differs("name"));
    }
    if method != member.method {
        return Err(differs("compression"));
    }
    let (crc, mut compressed, mut size) =
        (u32_at(&head, 14), u64::from(u32_at(&head, 18)), u64::from(u32_at(&head, 22)));
    if let Some(large) = zip64(&rest[name..]) {
        // The size comes first, then the compressed size; each is present only if it does not fit
        // above.
        let mut large = large.chunks_exact(8).map(|chunk| u64_at(chunk, 0));
        for value in [&mut size, &mut compressed] {
            if *value == u64::from(u32::MAX) {
                *value = large.next().unwrap_or(*value);
            }
        }
    }
    let data_end =
        (member.start + (LOCAL_HEADER + name + extra) as u64).checked_add(member.compressed);
    let gap = data_end.and_then(|end| next.checked_sub(end)).ok_or_else(overlaps)?;
    let same = |crc: u32, compressed: u64, size: u64| {
        crc == member.crc && compressed == member.compressed && size == member.size
    };
    if flags & DESCRIBED == 0 {
        return match (same(crc, compressed, size), gap) {
            (false, _) => Err(differs("size or checksum")),
            (true, 0) => Ok(()),
            (true, _) => Err(stray("between")),
        };
    }
    if (crc, compressed, size) != (0, 0, 0) && !same(crc, compressed, size) {
        return Err(differs("size or checksum"));
    }
    if !DESCRIPTORS.contains(&gap) {
        return Err(stray("between"));
    }
    let descriptor = bytes(file, next - gap, gap as usize)?;
    let signed = matches!(gap, 16 | 24);
    if signed && descriptor[..4] != *b"PK\x07\x08" {
        return Err(stray("between"));
    }
    let fields = if signed { &descriptor[4..] } else { &descriptor[..] };
    let (compressed, size) = match fields.len() {
        12 => (u64::from(u32_at(fields, 4)), u64::from(u32_at(fields, 8))),
        _ => (u64_at(fields, 4), u64_at(fields, 12)),
    };
    if same(u32_at(fields, 0), compressed, size) {
        Ok(())
    } else {
        Err(differs("size or checksum"))
    }
}

/// Checks that the end record follows the central directory and the file ends there. A comment
/// could hold a second end record.
fn check_end(archive: &Archive<'_>, file: &Source) -> Result<(), String> {
    let after = || "the archive has stray bytes after its central directory".to_owned();
    if archive.offset() != 0 {
        return Err(stray("before"));
    }
    let last = archive.len().checked_sub(1).ok_or("the archive has no members")?;
    let last = archive.by_index_data(last).map_err(|error| format!("a damaged member: {error}"))?;
    let last = last.central_header_start();
    let head = bytes(file, last, CENTRAL_HEADER)?;
    let names = [28, 30, 32].map(|at| u64::from(u16_at(&head, at)));
    let directory_end = last + CENTRAL_HEADER as u64 + names.iter().sum::<u64>();

    let end = file.length().checked_sub(END as u64).ok_or_else(after)?;
    let record = bytes(file, end, END)?;
    if record[..4] != *b"PK\x05\x06" || u16_at(&record, 20) != 0 {
        return Err(after());
    }
    let (mut size, mut start) = (u64::from(u32_at(&record, 12)), u64::from(u32_at(&record, 16)));
    let mut expected = end;
    if directory_end != end {
        let locator = end.checked_sub(END64_LOCATOR as u64).ok_or_else(after)?;
        let record = locator.checked_sub(END64 as u64).ok_or_else(after)?;
        let head = bytes(file, locator, END64_LOCATOR)?;
        if head[..4] != *b"PK\x06\x07" || u64_at(&head, 8) != record {
            return Err(after());
        }
        let head = bytes(file, record, END64)?;
        if head[..4] != *b"PK\x06\x06" || u64_at(&head, 4) != END64 as u64 - 12 {
            return Err(after());
        }
        (size, start) = (u64_at(&head, 40), u64_at(&head, 48));
        expected = record;
    }
    if directory_end != expected || start.checked_add(size) != Some(expected) {
        return Err(after());
    }
    if start == archive.central_directory_start() { Ok(()) } else { Err(after()) }
}

/// Returns the zip64 field among the extra fields.
fn zip64(mut extra: &[u8]) -> Option<&[u8]> {
    while let [a, b, c, d, rest @ ..] = extra {
        let length = usize::from(u16::from_le_bytes([*c, *d]));
        let field = rest.get(..length)?;
        if u16::from_le_bytes([*a, *b]) == 1 {
            return Some(field);
        }
        extra = &rest[length..];
    }
    None
}

fn bytes(file: &Source, at: u64, length: usize) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, at).map_err(|_| "the archive ends too early".to_owned())?;
    Ok(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use super::*;
    use crate::wheel::read::open;

    /// Returns an archive and the offset of its end record.
    fn plain() -> (Vec<u8>, usize) {
        let mut out = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for name in ["a", "b"] {
            out.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            out.write_all(b"x").unwrap();
        }
        let bytes = out.finish().unwrap().into_inner();
        let end = bytes.len() - END;
        (bytes, end)
    }

    /// Returns the same archive with zip64 records and their offset.
    fn large() -> (Vec<u8>, usize) {
        let (plain, end) = plain();
        let count = u64::from(u16_at(&plain, end + 10));
        let (size, start) =
            (u64::from(u32_at(&plain, end + 12)), u64::from(u32_at(&plain, end + 16)));
        let mut bytes = plain[..end].to_vec();
        bytes.extend(b"PK\x06\x06");
        bytes.extend((END64 as u64 - 12).to_le_bytes());
        bytes.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend([count, count, size, start].map(u64::to_le_bytes).concat());
        bytes.extend(
            [&b"PK\x06\x07\0\0\0\0"[..], &(end as u64).to_le_bytes(), &[1, 0, 0, 0]].concat(),
        );
        bytes.extend([&b"PK\x05\x06\0\0\0\0"[..], &[0xff; 12], &[0, 0]].concat());
        (bytes, end)
    }

    fn is_intact(bytes: &[u8]) -> bool {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let file = fs_err::File::open(file.path()).unwrap();
        open(&Source::new(file).unwrap()).is_ok()
    }

    #[test]
    fn rejects_stray_and_changed_bytes_of_both_formats() {
        // The bytes of signatures, sizes and offsets; versions and disk numbers do not matter.
        let of_plain = [0..4, 12..22];
        let of_large = [0..12, 40..60, 64..72, 96..98];
        for (kind, (bytes, end), places) in
            [("plain", plain(), &of_plain[..]), ("zip64", large(), &of_large)]
        {
            assert!(is_intact(&bytes), "{kind}");
            let with = |at: usize, more: &[u8]| [&bytes[..at], more, &bytes[at..]].concat();
            assert!(!is_intact(&with(0, b"x")), "{kind}: before its members");
            assert!(!is_intact(&with(end, b"x")), "{kind}: before its records");
            assert!(!is_intact(&with(bytes.len(), b"x")), "{kind}: after its records");
            for at in places.iter().cloned().flatten() {
                let mut changed = bytes.clone();
                changed[end + at] ^= 1;
                assert!(!is_intact(&changed), "{kind}: byte {at}");
            }
        }
    }
}
