//! METADATA read from a wheel of which nothing else is looked at. Whether the wheel is what it
//! should be is `read`'s business.

use std::io::{Read, Seek};

use pep440_rs::Version;

use super::metadata::Metadata;

/// How large METADATA may be, in bytes.
const LIMIT: u64 = 16 << 20;

/// Returns the METADATA of the wheel in `file`; the error says what is wrong.
pub fn metadata_in(file: impl Read + Seek) -> Result<String, String> {
    let mut archive =
        zip::ZipArchive::new(file).map_err(|error| format!("it is not a zip archive: {error}"))?;
    let is_metadata =
        |name: &str| name.strip_suffix(".dist-info/METADATA").is_some_and(|folder| !folder.contains('/'));
    let found: Vec<String> = names(&archive).into_iter().filter(|name| is_metadata(name)).collect();
    let name = match found.as_slice() {
        [only] => only,
        [] => return Err("it has no dist-info folder with METADATA".into()),
        _ => return Err("it has more than one dist-info folder".into()),
    };
    text(&mut archive, name, LIMIT)
}

/// Returns the text of a member that has at most `limit` bytes.
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

/// Returns the names of the members of the wheel in `file`, sorted; the error states what is wrong.
pub fn member_names(file: impl Read + Seek) -> Result<Vec<String>, String> {
    let archive = zip::ZipArchive::new(file).map_err(|error| format!("it is not a zip archive: {error}"))?;
    Ok(names(&archive))
}

/// Returns the names of the members of an archive, sorted.
pub(super) fn names<R: Read + Seek>(archive: &zip::ZipArchive<R>) -> Vec<String> {
    let names = archive.file_names().filter_map(Result::ok).map(|name| name.into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Returns the normalized name and the version that METADATA state.
pub fn name_and_version(metadata: &str) -> Result<(String, Version), String> {
    let Metadata { normalized, version, .. } = Metadata::parse(metadata)?;
    Ok((normalized, version))
}
