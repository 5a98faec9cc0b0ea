//! Writing a wheel's zip archive: the same members give the same bytes. Not which
//! members there are.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::payload::{Spool, Stored};
use super::{WheelError, record};
use crate::digest::Sha256;
use crate::process;

/// The level of deflate: the usual balance, and fixed so that bytes stay the same.
const LEVEL: i64 = 6;
/// From this size on a member gets the 64-bit fields of zip. Below 4 GiB by more
/// than deflate can add to content that it cannot compress.
const LARGE: u64 = 0xff00_0000;
/// The first and last second that a zip archive can state.
const ZIP_TIMES: std::ops::RangeInclusive<i64> = 315_532_800..=4_354_819_198;

/// What a member of the wheel consists of.
#[derive(Debug, Clone)]
pub(super) enum Content {
    /// A file of the payload, as it is.
    File(Stored),
    /// A Python script whose first line, of so many bytes, becomes `#!python`,
    /// which installers replace with the environment's interpreter.
    Script(Stored, u64),
    /// Text that we made.
    Text(Vec<u8>),
}

/// A member of the wheel.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub content: Content,
    pub executable: bool,
}

/// Writes the members and a RECORD of them, those in `dist_info` last.
pub(super) fn write(
    file: &mut fs_err::File,
    members: &BTreeMap<String, Member>,
    dist_info: &str,
    source_date_epoch: i64,
    spool: &Spool,
) -> Result<(), WheelError> {
    let mut archive =
        Archive { zip: ZipWriter::new(io::BufWriter::new(file)), time: time(source_date_epoch) };
    let inside = format!("{dist_info}/");
    let mut record = String::new();
    for last in [false, true] {
        for (name, member) in members.iter().filter(|(name, _)| name.starts_with(&inside) == last) {
            process::check_stop()?;
            let (digest, size) = archive.add(name, member, spool)?;
            record += &record::line(name, &digest, size);
        }
    }
    let name = format!("{inside}RECORD");
    record += &record::own_line(&name);
    let member = Member { content: Content::Text(record.into_bytes()), executable: false };
    archive.add(&name, &member, spool)?;
    let mut file = archive.zip.finish().map_err(io::Error::from)?;
    file.flush()?;
    Ok(())
}

struct Archive<W: Write + io::Seek> {
    zip: ZipWriter<W>,
    time: DateTime,
}

impl<W: Write + io::Seek> Archive<W> {
    fn add(&mut self, name: &str, member: &Member, spool: &Spool) -> io::Result<(Sha256, u64)> {
        const SHEBANG: &[u8] = b"#!python\n";
        let size = match &member.content {
            Content::File(stored) => stored.size,
            Content::Script(stored, skip) => stored.size - skip + SHEBANG.len() as u64,
            Content::Text(bytes) => bytes.len() as u64,
        };
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(LEVEL))
            .last_modified_time(self.time)
            .unix_permissions(if member.executable { 0o755 } else { 0o644 })
            .large_file(size >= LARGE);
        self.zip.start_file(name, options)?;
        let digest = match &member.content {
            Content::File(stored) => {
                io::copy(&mut spool.reader(*stored, 0), &mut self.zip)?;
                stored.sha256
            }
            Content::Script(stored, skip) => {
                let mut content = SHEBANG.to_vec();
                spool.reader(*stored, *skip).read_to_end(&mut content)?;
                self.zip.write_all(&content)?;
                Sha256::of_bytes(&content)
            }
            Content::Text(bytes) => {
                self.zip.write_all(bytes)?;
                Sha256::of_bytes(bytes)
            }
        };
        Ok((digest, size))
    }
}

fn time(source_date_epoch: i64) -> DateTime {
    let seconds = source_date_epoch.clamp(*ZIP_TIMES.start(), *ZIP_TIMES.end());
    let stated = jiff::Timestamp::from_second(seconds).ok().and_then(|timestamp| {
        let at = timestamp.to_zoned(jiff::tz::TimeZone::UTC).datetime();
        let part = |value: i8| u8::try_from(value).unwrap_or(0);
        DateTime::from_date_and_time(
            u16::try_from(at.year()).ok()?,
            part(at.month()),
            part(at.day()),
            part(at.hour()),
            part(at.minute()),
            part(at.second()),
        )
        .ok()
    });
    stated.unwrap_or_default()
}

/// Returns the length of a script's first line if that calls a Python
/// interpreter, its end included.
pub(super) fn python_shebang(spool: &Spool, stored: &Stored) -> io::Result<Option<u64>> {
    let mut head = [0; 512];
    let length = spool.read_at(stored, 0, &mut head)?;
    let Some(line) = head[..length].split_inclusive(|b| *b == b'\n').next() else { return Ok(None) };
    let Some(command) = std::str::from_utf8(line).ok().and_then(|line| line.strip_prefix("#!")) else {
        return Ok(None);
    };
    let interpreter = command
        .split_ascii_whitespace()
        .map(|word| word.rsplit('/').next().unwrap_or(word))
        .find(|word| *word != "env" && !word.starts_with('-'));
    Ok(interpreter.is_some_and(|name| name.starts_with("python")).then_some(line.len() as u64))
}

/// Gives the finished file its name and the permissions of any other file.
pub(super) fn persist(file: tempfile::NamedTempFile, path: &Path) -> io::Result<()> {
    let renamed = file.persist(path);
    renamed.map_err(|error| {
        io::Error::new(error.error.kind(), format!("{}: {}", path.display(), error.error))
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_outside_of_zips_range_are_clamped() {
        let stated = |epoch| {
            let time = time(epoch);
            (time.year(), time.month(), time.day(), time.hour(), time.minute(), time.second())
        };
        assert_eq!(stated(0), (1980, 1, 1, 0, 0, 0));
        assert_eq!(stated(1_700_000_000), (2023, 11, 14, 22, 13, 20));
        assert_eq!(stated(i64::MAX), (2107, 12, 31, 23, 59, 58));
        assert_eq!(stated(i64::MIN), (1980, 1, 1, 0, 0, 0));
    }
}
