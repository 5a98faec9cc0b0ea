//! Walks the members of a wheel, or of any other zip archive, by its central directory. Rejects
//! inconsistent zip files, whose content depends on the reader.

use std::io::{self, BufReader, Read, Write as _};

use fs_err as fs;

use super::members::Members;
use crate::InspectError;
use crate::facts::Subject;
use crate::image;
use rocmrpm_base::process::check_stop;
use rocmrpm_base::text::visible;

/// `PATH_MAX` on Linux.
const MAX_LINK: u64 = 4096;
/// How much of METADATA is read to find the name, which is near its start.
const MAX_METADATA: u64 = 64 << 10;

/// Adds every member of the wheel, and its distribution's name.
pub(super) fn walk(members: &mut dyn Members, subject: &mut Subject) -> Result<(), InspectError> {
    let path = members.archive().to_owned();
    let fail = |source| InspectError::Wheel { path: path.clone(), source };
    let file = BufReader::with_capacity(32 << 10, fs::File::open(&path)?);
    let mut archive = zip::ZipArchive::new(file).map_err(fail)?;
    if archive.has_duplicate_names() {
        return Err(members.damaged("two of its members have the same name".into()));
    }
    if archive.has_overlapping_entries().map_err(fail)? {
        return Err(members.damaged("two of its members share the same bytes".into()));
    }
    let mut last = None;
    while let Some(index) = members.next(archive.len(), last) {
        last = Some(index);
        let name = archive.name_for_index(index).and_then(Result::ok).map(|name| visible(&name));
        let mut member = match archive.by_index(index) {
            Ok(member) => member,
            Err(error) => {
                return Err(members.unreadable(&name.unwrap_or_default(), io::Error::other(error)));
            }
        };
        if member.is_dir() {
            continue;
        }
        let name = String::from_utf8_lossy(member.name_raw()).into_owned();
        let size = member.size();
        if member.is_symlink() {
            let mut target = Vec::new();
            let read = (&mut member).take(MAX_LINK).read_to_end(&mut target);
            read.map_err(|error| members.unreadable(&name, error))?;
            members.link(&name, &String::from_utf8_lossy(&target))?;
        } else if is_metadata(&name, ".dist-info", "METADATA") {
            members.name(&name)?;
            let found =
                distribution(&mut member).map_err(|error| members.unreadable(&name, error))?;
            subject.package = found;
        } else {
            members.file(&name, size, &mut member)?;
        }
    }
    Ok(())
}

/// Adds the files of a zip archive that is itself the member `name` of an archive. It goes through
/// a temporary file, because its directory is at the end.
pub(super) fn walk_nested(
    members: &mut dyn Members,
    name: &str,
    mut content: impl Read,
) -> Result<(), InspectError> {
    let archive = members.archive().to_owned();
    let folder = image::folder();
    let no_room = |source| InspectError::NoRoom {
        archive: archive.clone(),
        member: name.to_owned(),
        folder: folder.clone(),
        source,
    };
    let mut file = tempfile::tempfile_in(&folder).map_err(no_room)?;
    let mut buffer = vec![0; 128 << 10];
    loop {
        check_stop()?;
        let count = content.read(&mut buffer).map_err(|error| members.unreadable(name, error))?;
        if count == 0 {
            break;
        }
        file.write_all(&buffer[..count]).map_err(no_room)?;
    }
    let fail = |error| members.unreadable(name, io::Error::other(error));
    let mut archive = zip::ZipArchive::new(BufReader::new(file)).map_err(fail)?;
    if archive.has_overlapping_entries().map_err(fail)? {
        return Err(members.damaged(format!("two members of `{name}` share the same bytes")));
    }
    for index in 0..archive.len() {
        let mut member = match archive.by_index(index) {
            Ok(member) => member,
            Err(error) => return Err(members.unreadable(name, io::Error::other(error))),
        };
        if member.is_file() {
            let inside = String::from_utf8_lossy(member.name_raw()).into_owned();
            let size = member.size();
            members.file(&inside, size, &mut member)?;
        }
    }
    Ok(())
}

/// Returns whether this is the metadata file of a distribution, in a top-level folder.
pub(super) fn is_metadata(name: &str, folder: &str, file: &str) -> bool {
    name.split_once('/').is_some_and(|(top, rest)| top.ends_with(folder) && rest == file)
}

/// Returns the name in METADATA or PKG-INFO. Source: Python packaging user guide, "Core metadata
/// specifications".
pub(super) fn distribution(content: &mut dyn Read) -> io::Result<Option<String>> {
    let mut text = Vec::new();
    content.take(MAX_METADATA).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines().take_while(|line| !line.is_empty());
    Ok(lines.find_map(|line| line.strip_prefix("Name:")).map(|name| name.trim().to_owned()))
}

/// Returns the distribution in a wheel's file name. Source: "Binary distribution format", section
/// "File name convention".
pub(super) fn name_of_file(file: &str) -> Option<String> {
    file.strip_suffix(".whl")?.split('-').next().map(str::to_owned)
}
