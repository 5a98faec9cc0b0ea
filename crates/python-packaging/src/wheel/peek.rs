//! Reads METADATA and member names from a wheel without checking the wheel. `read` checks it.

use std::io::{Read, Seek};

use pep440_rs::Version;

use super::metadata::Metadata;

/// Upper bound on the size of METADATA, in bytes.
const LIMIT: u64 = 16 << 20;

/// Returns the METADATA of the wheel in `file`; the error describes what is wrong.
pub fn metadata_in(file: impl Read + Seek) -> Result<String, String> {
    let mut archive =
        zip::ZipArchive::new(file).map_err(|error| format!("it is not a zip archive: {error}"))?;
    let is_metadata = |name: &str| {
        name.strip_suffix(".dist-info/METADATA").is_some_and(|folder| !folder.contains('/'))
    };
    let found: Vec<String> = names(&archive).into_iter().filter(|name| is_metadata(name)).collect();
    let name = match found.as_slice() {
        [only] => only,
        [] => return Err("it has no dist-info folder with METADATA".into()),
        _ => return Err("it has more than one dist-info folder".into()),
    };
    text(&mut archive, name, LIMIT)
}

/// Returns the text of a member; more than `limit` bytes are an error.
pub(super) fn text<R: Read + Seek>(
    archive: &mut zip::ZipArchive<R>,
    name: &str,
    limit: u64,
) -> Result<String, String> {
    let member = archive.by_name(name).map_err(|error| format!("{name}: {error}"))?;
    let mut text = Vec::new();
    member.take(limit + 1).read_to_end(&mut text).map_err(|error| format!("{name}: {error}"))?;
    if text.len() as u64 > limit {
        return Err(format!("{name} has more than {limit} bytes"));
    }
    String::from_utf8(text).map_err(|_| format!("{name} is not UTF-8 text"))
}

/// Returns the sorted names of the members of the wheel in `file`; the error describes what is
/// wrong.
pub fn member_names(file: impl Read + Seek) -> Result<Vec<String>, String> {
    let archive =
        zip::ZipArchive::new(file).map_err(|error| format!("it is not a zip archive: {error}"))?;
    Ok(names(&archive))
}

/// Returns the sorted names of the members of an archive.
pub(super) fn names<R: Read + Seek>(archive: &zip::ZipArchive<R>) -> Vec<String> {
    let names = archive.file_names().filter_map(Result::ok).map(|name| name.into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Returns the normalized name and the version in METADATA.
pub fn name_and_version(metadata: &str) -> Result<(String, Version), String> {
    let Metadata { normalized, version, .. } = Metadata::parse(metadata)?;
    Ok((normalized, version))
}
