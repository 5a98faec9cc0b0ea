//! Reading a wheel back: its metadata, and whether name, tags and RECORD tell the
//! truth. The file may come from anywhere; nothing in it is trusted.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;

use sha2::digest::DynDigest;
use zip::ZipArchive;

use super::metadata::{Metadata, wheel_tags};
use super::name::FileName;
use super::{Wheel, WheelError, record};
use crate::digest::Sha256;

/// Upper bound on METADATA and WHEEL, and on RECORD, which are read as a whole.
const TEXT_LIMIT: u64 = 16 << 20;
const RECORD_LIMIT: u64 = 256 << 20;

type Archive = ZipArchive<io::BufReader<fs_err::File>>;

/// Reads a wheel and checks it: safe and unique member names, a RECORD that has
/// every member with its true digest and size, and one name, version and set of
/// tags in file name, METADATA and WHEEL.
pub fn read(path: &Path) -> Result<Wheel, WheelError> {
    let invalid = |reason: String| WheelError::invalid(path, reason);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = FileName::parse(name).map_err(invalid)?;
    let (sha256, size) = Sha256::of_file(path)?;
    let file = io::BufReader::new(fs_err::File::open(path)?);
    let mut archive =
        ZipArchive::new(file).map_err(|error| invalid(format!("not a zip archive: {error}")))?;
    let contents = check(&mut archive, &name).map_err(|error| match error {
        Wrong::Content(reason) => invalid(reason),
        Wrong::Io(error) => error.into(),
    })?;
    let Contents { metadata: (text, metadata), tags } = contents;
    Ok(Wheel {
        path: path.to_owned(),
        distribution: metadata.name,
        version: metadata.version.to_string(),
        tags: tags.into_iter().collect(),
        sha256,
        size,
        requires_python: metadata.requires_python,
        metadata: text,
    })
}

enum Wrong {
    Content(String),
    Io(io::Error),
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

struct Contents {
    metadata: (String, Metadata),
    tags: BTreeSet<String>,
}

fn check(archive: &mut Archive, name: &FileName) -> Result<Contents, Wrong> {
    if archive.has_duplicate_names() {
        return Err("the archive has two members with one name".into());
    }
    let members = members(archive)?;
    let dist_info = dist_info(&members)?;
    let text = metadata_file(archive, &dist_info, "METADATA")?;
    let metadata = Metadata::parse(&text).map_err(|reason| format!("{dist_info}/METADATA: {reason}"))?;
    if metadata.normalized != name.distribution || metadata.version != name.version {
        return Err(format!(
            "its name says {} {}, its METADATA says {} {}",
            name.distribution, name.version, metadata.name, metadata.version
        )
        .into());
    }
    let tags = wheel_tags(&metadata_file(archive, &dist_info, "WHEEL")?);
    if tags != name.tags {
        let list = |tags: &BTreeSet<String>| tags.iter().cloned().collect::<Vec<_>>().join(", ");
        let (a, b) = (list(&name.tags), list(&tags));
        return Err(format!("its name says {a}, its WHEEL says {b}").into());
    }
    check_record(archive, &members, &dist_info)?;
    Ok(Contents { metadata: (text, metadata), tags })
}

/// Returns the position of every member that is a file, by name.
fn members(archive: &mut Archive) -> Result<BTreeMap<String, usize>, Wrong> {
    let mut members = BTreeMap::new();
    for at in 0..archive.len() {
        let member = archive.by_index_raw(at).map_err(|error| format!("a damaged member: {error}"))?;
        let name = std::str::from_utf8(member.name_raw())
            .map_err(|_| format!("the member name `{}` is not UTF-8", member.name_raw().escape_ascii()))?;
        let shown = name.escape_debug();
        let parts = name.strip_suffix('/').unwrap_or(name);
        let bad_part = parts.split('/').any(|part| matches!(part, "" | "." | ".."));
        if bad_part || name.contains(|c: char| c == '\\' || c.is_control()) {
            return Err(format!("the member name `{shown}` could lead out of the wheel").into());
        }
        if member.is_symlink() {
            return Err(format!("the member `{shown}` is a symbolic link").into());
        }
        if member.encrypted() {
            return Err(format!("the member `{shown}` is encrypted").into());
        }
        if !name.ends_with('/') {
            members.insert(name.to_owned(), at);
        }
    }
    Ok(members)
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

fn metadata_file(archive: &mut Archive, dist_info: &str, name: &str) -> Result<String, Wrong> {
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

fn check_record(
    archive: &mut Archive,
    members: &BTreeMap<String, usize>,
    dist_info: &str,
) -> Result<(), Wrong> {
    let path = format!("{dist_info}/RECORD");
    let text = metadata_file(archive, dist_info, "RECORD")?;
    let wrong = |reason: String| Wrong::Content(format!("{path}: {reason}"));
    let without_digest = [path.clone(), format!("{path}.jws"), format!("{path}.p7s")];
    let mut listed = BTreeSet::new();
    for line in record::parse(&text).map_err(wrong)? {
        let shown = line.member.escape_debug();
        let Some(at) = members.get(&line.member) else {
            return Err(wrong(format!("`{shown}` is listed, but not in the wheel")));
        };
        if !without_digest.contains(&line.member) {
            let (digest, size) = digest(archive, *at, &line)?;
            if digest != line.digest || size != line.size {
                let (digest_was, size_was) = (&line.digest, &line.size);
                return Err(wrong(format!(
                    "`{shown}` is listed with {digest_was} and size {size_was}, the file has {digest} and {size}"
                )));
            }
        }
        if !listed.insert(line.member.clone()) {
            return Err(wrong(format!("`{shown}` is listed twice")));
        }
    }
    let missing = members.keys().find(|name| !listed.contains(*name) && !without_digest.contains(name));
    match missing {
        Some(name) => Err(wrong(format!("`{}` is not listed", name.escape_debug()))),
        None => Ok(()),
    }
}

/// Returns digest and size of a member, spelled as RECORD has them. Reads no
/// more than the listed size, so that a zip bomb ends early.
fn digest(archive: &mut Archive, at: usize, line: &record::Line) -> Result<(String, String), Wrong> {
    let shown = line.member.escape_debug();
    let algorithm = line.digest.split('=').next().unwrap_or_default();
    let mut hasher: Box<dyn DynDigest> = match algorithm {
        "sha256" => Box::new(sha2::Sha256::default()),
        "sha384" => Box::new(sha2::Sha384::default()),
        "sha512" => Box::new(sha2::Sha512::default()),
        "" => return Err(format!("RECORD has no digest for `{shown}`").into()),
        other => {
            return Err(format!(
                "RECORD has a digest of the kind {other} for `{shown}`; sha256 is the least"
            )
            .into());
        }
    };
    let limit = line.size.parse::<u64>().unwrap_or(0).saturating_add(1);
    let member = archive.by_index(at).map_err(|error| format!("`{shown}`: {error}"))?;
    let mut member = member.take(limit);
    let (mut buffer, mut size) = (vec![0; 1 << 16], 0u64);
    loop {
        match member.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                hasher.update(&buffer[..length]);
                size += length as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error().is_some() => return Err(Wrong::Io(error)),
            Err(error) => return Err(format!("`{shown}` is damaged: {error}").into()),
        }
    }
    Ok((format!("{algorithm}={}", record::base64(&hasher.finalize())), size.to_string()))
}
