//! Reads a wheel back and checks that its name, tags and RECORD match its members. The file may
//! come from anywhere, so nothing in it is trusted.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;

use pep440_rs::Version;
use sha2::digest::DynDigest;
use zip::ZipArchive;

use super::intact::{self, Archive};
use super::metadata::{Metadata, wheel_tags};
use super::name::{FileName, normalized};
use super::source::Source;
use super::{Wheel, WheelError, record};
use rocmrpm_base::limits::{BOMB_RATIO, BOMB_SIZE};
use rocmrpm_base::process::{self, ProcessError};

/// Upper bounds on METADATA and WHEEL, and on RECORD, which are read as a whole.
const TEXT_LIMIT: u64 = 16 << 20;
const RECORD_LIMIT: u64 = 256 << 20;

/// Linux's PATH_MAX.
const MAX_NAME: usize = 4096;

/// Reads a wheel and checks that the archive is unambiguous, that member names are safe and unique,
/// that RECORD has every member with its digest and size, and that file name, METADATA and WHEEL
/// agree on the name, version and tags.
///
/// Names that differ only by case are allowed: the wheels are for Linux, and some projects have
/// such files.
pub fn read(path: &Path) -> Result<Wheel, WheelError> {
    Ok(read_dated(path)?.0)
}

/// Like [`read`], and also returns the time of the wheel's newest member, as stated in the archive.
pub fn read_dated(path: &Path) -> Result<(Wheel, Option<zip::DateTime>), WheelError> {
    let invalid = |reason: String| WheelError::invalid(path, reason);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = FileName::parse(name).map_err(invalid)?;
    let file = Source::new(fs_err::File::open(path)?)?;
    let (sha256, size) = (file.digest()?, file.length());
    let wrong = |error| match error {
        Wrong::Content(reason) => invalid(reason),
        Wrong::Io(error) => error.into(),
        Wrong::Stopped(error) => error.into(),
    };
    let mut archive = open(&file).map_err(wrong)?;
    let contents = check(&mut archive, &name).map_err(wrong)?;
    let newest = newest(&archive).map_err(wrong)?;
    let Contents { metadata: (text, metadata), tags } = contents;
    let wheel = Wheel {
        path: path.to_owned(),
        distribution: metadata.name,
        version: metadata.version.to_string(),
        tags: tags.into_iter().collect(),
        sha256,
        size,
        requires_python: metadata.requires_python,
        metadata: text,
    };
    Ok((wheel, newest))
}

pub(super) enum Wrong {
    Content(String),
    Io(io::Error),
    Stopped(ProcessError),
}

impl From<ProcessError> for Wrong {
    fn from(error: ProcessError) -> Self {
        Self::Stopped(error)
    }
}

impl From<String> for Wrong {
    fn from(reason: String) -> Self {
        Self::Content(reason)
    }
}

impl From<&str> for Wrong {
    fn from(reason: &str) -> Self {
        Self::Content(reason.to_owned())
    }
}

/// Opens an archive and checks that its structure is unambiguous.
pub(super) fn open(file: &Source) -> Result<Archive<'_>, Wrong> {
    let reader = file.reader().map_err(Wrong::Io)?;
    let archive = ZipArchive::new(reader).map_err(|error| format!("not a zip archive: {error}"))?;
    intact::check(&archive, file)?;
    let sizes = (0..archive.len()).filter_map(|at| Some(archive.by_index_data(at).ok()?.size()));
    let total: u128 = sizes.map(u128::from).sum();
    // The time to check a wheel is proportional to the size of its members.
    if total > u128::from(BOMB_SIZE) && total > u128::from(BOMB_RATIO) * u128::from(file.length()) {
        return Err(format!(
            "its members have {total} bytes, more than {BOMB_RATIO} times those of the file"
        )
        .into());
    }
    Ok(archive)
}

struct Contents {
    metadata: (String, Metadata),
    tags: BTreeSet<String>,
}

fn check(archive: &mut Archive<'_>, name: &FileName) -> Result<Contents, Wrong> {
    let members = members(archive)?;
    let dist_info = dist_info(&members)?;
    let text = metadata_file(archive, &dist_info, "METADATA")?;
    let metadata =
        Metadata::parse(&text).map_err(|reason| format!("{dist_info}/METADATA: {reason}"))?;
    if metadata.normalized != name.distribution || metadata.version != name.version {
        return Err(format!(
            "its file name has {} {}, but its METADATA has {} {}",
            name.distribution, name.version, metadata.name, metadata.version
        )
        .into());
    }
    check_folder(&dist_info, &metadata)?;
    let wheel = metadata_file(archive, &dist_info, "WHEEL")?;
    check_format(&wheel).map_err(|reason| format!("{dist_info}/WHEEL: {reason}"))?;
    let tags = wheel_tags(&wheel);
    if tags != name.tags {
        let list = |tags: &BTreeSet<String>| tags.iter().cloned().collect::<Vec<_>>().join(", ");
        let (a, b) = (list(&name.tags), list(&tags));
        return Err(format!("its file name has the tags {a}, but its WHEEL has {b}").into());
    }
    check_record(archive, &members, &dist_info, &[("METADATA", &text), ("WHEEL", &wheel)])?;
    Ok(Contents { metadata: (text, metadata), tags })
}

/// Returns the index of every member that is a file, by name.
pub(super) fn members(archive: &Archive<'_>) -> Result<BTreeMap<String, usize>, Wrong> {
    let mut members = BTreeMap::new();
    for at in 0..archive.len() {
        let member =
            archive.by_index_data(at).map_err(|error| format!("a damaged member: {error}"))?;
        let name = std::str::from_utf8(member.name_raw()).map_err(|_| {
            format!("the member name `{}` is not UTF-8", member.name_raw().escape_ascii())
        })?;
        if name.len() > MAX_NAME {
            return Err(format!(
                "a member name has {} bytes, more than any path can have",
                name.len()
            )
            .into());
        }
        let shown = name.escape_debug();
        let parts = name.strip_suffix('/').unwrap_or(name);
        let bad_part = parts.split('/').any(|part| matches!(part, "" | "." | ".."));
        if bad_part || name.contains(|c: char| c == '\\' || c.is_control()) {
            return Err(format!("the member name `{shown}` could point outside the wheel").into());
        }
        if member.is_symlink() {
            return Err(format!("the member `{shown}` is a symbolic link").into());
        }
        if member.encrypted() {
            return Err(format!("the member `{shown}` is encrypted").into());
        }
        if !name.ends_with('/') {
            members.insert(name.to_owned(), at);
        } else if member.size() > 0 {
            return Err(format!("the member `{shown}` is a folder with content").into());
        }
    }
    for member in members.keys() {
        let mut above = member.match_indices('/').map(|(at, _)| &member[..at]);
        if let Some(file) = above.find(|above| members.contains_key(*above)) {
            return Err(format!(
                "the wheel has `{}` both as a file and as a folder",
                file.escape_debug()
            )
            .into());
        }
    }
    Ok(members)
}

/// Returns the time of the newest member, as stated in the archive.
fn newest(archive: &Archive<'_>) -> Result<Option<zip::DateTime>, Wrong> {
    let mut newest = None;
    for at in 0..archive.len() {
        let member =
            archive.by_index_data(at).map_err(|error| format!("a damaged member: {error}"))?;
        newest = newest.max(member.last_modified());
    }
    Ok(newest)
}

/// Checks that the name of the dist-info folder agrees with METADATA.
fn check_folder(dist_info: &str, metadata: &Metadata) -> Result<(), Wrong> {
    let stem = dist_info.strip_suffix(".dist-info").unwrap_or(dist_info);
    let same = stem.rsplit_once('-').is_some_and(|(name, version)| {
        normalized(name).as_ref() == Some(&metadata.normalized)
            && version.parse::<Version>().is_ok_and(|version| version == metadata.version)
    });
    match same {
        true => Ok(()),
        false => {
            let (name, version) = (&metadata.name, &metadata.version);
            Err(format!(
                "its METADATA has {name} {version}, but its folder is {}",
                dist_info.escape_debug()
            )
            .into())
        }
    }
}

/// Checks the version of the format: installers must refuse a newer major version (binary
/// distribution format, "File contents").
fn check_format(wheel: &str) -> Result<(), String> {
    let versions: Vec<&str> = wheel
        .lines()
        .filter_map(|line| line.strip_prefix("Wheel-Version:"))
        .map(str::trim)
        .collect();
    match versions.as_slice() {
        [version] if version.split('.').next() == Some("1") => Ok(()),
        [version] => Err(format!("the format version is `{}`, expected 1", version.escape_debug())),
        [] => Err("it has no Wheel-Version".into()),
        _ => Err("it has Wheel-Version twice".into()),
    }
}

fn dist_info(members: &BTreeMap<String, usize>) -> Result<String, Wrong> {
    let folders: BTreeSet<&str> = members
        .keys()
        .filter_map(|name| name.split_once('/'))
        .map(|(top, _)| top)
        .filter(|top| top.ends_with(".dist-info"))
        .collect();
    match folders.into_iter().collect::<Vec<_>>().as_slice() {
        [only] => Ok((*only).to_owned()),
        [] => Err("it has no dist-info folder".into()),
        several => Err(format!("it has several dist-info folders: {}", several.join(", ")).into()),
    }
}

pub(super) fn metadata_file(
    archive: &mut Archive<'_>,
    dist_info: &str,
    name: &str,
) -> Result<String, Wrong> {
    let limit = if name == "RECORD" { RECORD_LIMIT } else { TEXT_LIMIT };
    let path = format!("{dist_info}/{name}");
    let member = archive.by_name(&path).map_err(|error| format!("{path}: {error}"))?;
    let mut bytes = Vec::new();
    member.take(limit + 1).read_to_end(&mut bytes).map_err(|error| format!("{path}: {error}"))?;
    if bytes.len() as u64 > limit {
        return Err(format!("{path}: larger than {} MiB", limit >> 20).into());
    }
    Ok(String::from_utf8(bytes).map_err(|_| format!("{path}: the text is not UTF-8"))?)
}

/// Checks RECORD. `read` has the texts of the dist-info folder that were already read.
fn check_record(
    archive: &mut Archive<'_>,
    members: &BTreeMap<String, usize>,
    dist_info: &str,
    read: &[(&str, &str)],
) -> Result<(), Wrong> {
    let path = format!("{dist_info}/RECORD");
    let text = metadata_file(archive, dist_info, "RECORD")?;
    let wrong = |reason: String| Wrong::Content(format!("{path}: {reason}"));
    let without_digest = [path.clone(), format!("{path}.jws"), format!("{path}.p7s")];
    let mut listed = BTreeSet::new();
    // Checked before allocating memory for the lines.
    if text.lines().count() > 2 * members.len() {
        return Err(wrong("it has more than two lines per member".into()));
    }
    for line in record::parse(&text).map_err(wrong)? {
        let shown = line.member.escape_debug();
        let Some(at) = members.get(&line.member) else {
            return Err(wrong(format!("`{shown}` is listed, but not in the wheel")));
        };
        if !without_digest.contains(&line.member) {
            let name = line.member.strip_prefix(dist_info).and_then(|rest| rest.strip_prefix('/'));
            let known = read.iter().find(|(text, _)| Some(*text) == name).map(|(_, text)| *text);
            let (digest, size) = digest(archive, *at, &line, known)?;
            if digest != line.digest || size != line.size {
                let (digest_was, size_was) = (&line.digest, &line.size);
                return Err(wrong(format!(
                    "`{shown}` is listed with {digest_was} and size {size_was}, but the file has {digest} \
                     and {size}"
                )));
            }
        }
        if !listed.insert(line.member.clone()) {
            return Err(wrong(format!("`{shown}` is listed twice")));
        }
    }
    let missing =
        members.keys().find(|name| !listed.contains(*name) && !without_digest.contains(name));
    match missing {
        Some(name) => Err(wrong(format!("`{}` is not listed", name.escape_debug()))),
        None => Ok(()),
    }
}

/// Returns the digest and size of a member in RECORD's spelling. Reads only a little more than the
/// listed size, which stops a zip bomb early, and nothing if the text is already known.
fn digest(
    archive: &mut Archive<'_>,
    at: usize,
    line: &record::Line,
    known: Option<&str>,
) -> Result<(String, String), Wrong> {
    let shown = line.member.escape_debug();
    let algorithm = line.digest.split('=').next().unwrap_or_default();
    let mut hasher: Box<dyn DynDigest> = match algorithm {
        "sha256" => Box::new(sha2::Sha256::default()),
        "sha384" => Box::new(sha2::Sha384::default()),
        "sha512" => Box::new(sha2::Sha512::default()),
        "" => return Err(format!("RECORD has no digest for `{shown}`").into()),
        other => {
            return Err(format!(
                "RECORD has a digest of type {other} for `{shown}`, which is weaker than sha256"
            )
            .into());
        }
    };
    let limit = line.size.parse::<u64>().unwrap_or(0).saturating_add(1);
    let size = match known {
        Some(text) => {
            hasher.update(text.as_bytes());
            text.len() as u64
        }
        None => each_block(archive, at, limit, &line.member, |block| hasher.update(block))?,
    };
    Ok((format!("{algorithm}={}", record::base64(hasher.finalize())), size.to_string()))
}

/// Passes up to `limit` bytes of the member `name` to a callback, block by block, and returns their
/// number.
pub(super) fn each_block(
    archive: &mut Archive<'_>,
    at: usize,
    limit: u64,
    name: &str,
    mut visit: impl FnMut(&[u8]),
) -> Result<u64, Wrong> {
    // I/O errors of the file itself are kept as they are.
    let damaged = |error: io::Error| match error.raw_os_error() {
        Some(_) => Wrong::Io(error),
        None => format!("`{}` is damaged: {error}", name.escape_debug()).into(),
    };
    let mut member = archive.by_index(at).map_err(|error| damaged(error.into()))?.take(limit);
    let (mut buffer, mut size) = (vec![0; limit.clamp(1, 1 << 16) as usize], 0);
    loop {
        process::check_stop()?;
        match member.read(&mut buffer) {
            Ok(0) => return Ok(size),
            Ok(length) => {
                visit(&buffer[..length]);
                size += length as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(damaged(error)),
        }
    }
}
