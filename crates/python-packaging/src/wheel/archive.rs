//! Writing a wheel's archive: the same members give the same bytes. Not which members
//! there are, nor the archive's format.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use zip::DateTime;

use super::container::{Container, Entry};
use super::payload::{Spool, Stored};
use super::{WheelError, deflate, record};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::process;

/// The first and last second that a zip archive can state.
const ZIP_TIMES: std::ops::RangeInclusive<i64> = 315_532_800..=4_354_819_198;
/// What a script begins with for whose interpreter the installer is to care.
pub(super) const SHEBANG: &[u8] = b"#!python\n";

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

/// Writes the members and a RECORD of them, those in `dist_info` last, compressed on so
/// many threads.
pub(super) fn write(
    file: &fs_err::File,
    members: &BTreeMap<String, Member>,
    dist_info: &str,
    source_date_epoch: i64,
    spool: &Spool,
    threads: usize,
) -> Result<(), WheelError> {
    let inside = format!("{dist_info}/");
    let (mut entries, mut contents) = (Vec::new(), Vec::new());
    let mut record = String::new();
    for last in [false, true] {
        for (name, member) in members.iter().filter(|(name, _)| name.starts_with(&inside) == last) {
            process::check_stop()?;
            let content = Bytes::of(&member.content, spool);
            let (digest, size) = content.digest()?;
            record += &record::line(name, &digest, size);
            entries.push(Entry { name, executable: member.executable });
            contents.push(content);
        }
    }
    let name = format!("{inside}RECORD");
    record += &record::own_line(&name);
    entries.push(Entry { name: &name, executable: false });
    contents.push(Bytes { head: record.as_bytes(), rest: None });

    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot write to {}: {error}", file.path().display()))
    };
    let mut container = Container::new(file.file(), time(source_date_epoch));
    deflate::compress(&contents, threads, |member, block| {
        Ok(container.block(entries[member], &contents[member], block).map_err(named)?)
    })?;
    Ok(container.finish().map_err(named)?)
}

/// The bytes of a member: some that we made, then a file of the payload from some place on.
struct Bytes<'a> {
    head: &'a [u8],
    rest: Option<(&'a Spool, Stored, u64)>,
}

impl<'a> Bytes<'a> {
    fn of(content: &'a Content, spool: &'a Spool) -> Self {
        match content {
            Content::File(stored) => Self { head: &[], rest: Some((spool, *stored, 0)) },
            Content::Script(stored, skip) => Self { head: SHEBANG, rest: Some((spool, *stored, *skip)) },
            Content::Text(bytes) => Self { head: bytes, rest: None },
        }
    }

    fn digest(&self) -> io::Result<(Sha256, u64)> {
        match self.rest {
            None => Ok((Sha256::of_bytes(self.head), self.head.len() as u64)),
            Some((_, stored, 0)) if self.head.is_empty() => Ok((stored.sha256, stored.size)),
            Some((spool, stored, skip)) => {
                Sha256::of_reader(io::Read::chain(self.head, spool.reader(stored, skip)))
            }
        }
    }
}

impl deflate::Content for Bytes<'_> {
    fn size(&self) -> u64 {
        self.head.len() as u64 + self.rest.map_or(0, |(_, stored, skip)| stored.size - skip)
    }

    fn read_exact_at(&self, at: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        let head = usize::try_from(at).ok().and_then(|at| self.head.get(at..)).unwrap_or_default();
        let head = &head[..head.len().min(buffer.len())];
        buffer[..head.len()].copy_from_slice(head);
        buffer = &mut buffer[head.len()..];
        match self.rest {
            _ if buffer.is_empty() => Ok(()),
            Some((spool, stored, skip)) => {
                let start = skip + (at + head.len() as u64) - self.head.len() as u64;
                spool.read_exact_at(&stored, start, buffer)
            }
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
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
    // Only a whole line can be replaced; Linux itself reads 256 bytes of it (execve(2)).
    if !line.ends_with(b"\n") && stored.size > length as u64 {
        return Ok(None);
    }
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
    fn lines_that_call_python_are_found_whole() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(dir.path()).unwrap();
        let long = format!("#!/usr/bin/python3 {}", "x".repeat(1000));
        for (script, expected) in [
            ("#!/usr/bin/python3 -sP\nx", Some(23)),
            ("#!/usr/bin/env -S python3.14 -u\r\nx", Some(33)),
            ("#! /usr/bin/python3", Some(19)),
            ("#!/bin/sh python\n", None),
            ("#!/opt/python/bin/ruby\n", None),
            ("import x\n", None),
            ("", None),
            (&long, None),
            (&format!("{long}\nx"), None),
        ] {
            let stored = spool.append(script.as_bytes(), true).unwrap();
            assert_eq!(python_shebang(&spool, &stored).unwrap(), expected, "{script}");
        }
    }

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
