//! Writes a wheel from members that the caller chose, rather than from those of a Python package in
//! RPMs. It checks no member.

use std::collections::BTreeMap;
use std::path::Path;

use super::archive::{self, Member};
use super::metadata::{Metadata, wheel_file};
use super::payload::Spool;
use super::{Wheel, WheelError};
use rocmrpm_base::digest::Sha256;

/// A wheel to write.
pub struct Assembly {
    /// The text of METADATA.
    pub metadata: String,
    /// The compatibility tag, such as `py3-none-linux_x86_64`.
    pub tag: String,
    /// The members, except for METADATA, WHEEL and RECORD.
    pub members: BTreeMap<String, Member>,
    /// Files below the dist-info folder, by their path in it.
    pub dist_info: BTreeMap<String, Member>,
    /// The time of all members, in seconds since 1970.
    pub source_date_epoch: i64,
}

/// A finished wheel that does not have its name yet. Dropping it removes the file.
#[derive(Debug)]
pub struct Unnamed {
    file: tempfile::NamedTempFile,
    wheel: Wheel,
}

impl Unnamed {
    /// Returns the path of the unnamed file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Gives the file its name.
    pub fn persist(self) -> Result<Wheel, WheelError> {
        archive::persist(self.file, &self.wheel.path)?;
        Ok(self.wheel)
    }
}

/// Writes a wheel into `folder`, without its name. Fails if METADATA is invalid.
pub fn assemble(parts: Assembly, folder: &Path, spool: &Spool) -> Result<Unnamed, WheelError> {
    let Assembly { metadata: text, tag, mut members, dist_info: files, source_date_epoch } = parts;
    let metadata = Metadata::parse(&text).map_err(|reason| WheelError::invalid(folder, reason))?;
    let version = metadata.version.to_string();
    let stem = format!("{}-{version}", metadata.normalized.replace('-', "_"));
    let dist_info = format!("{stem}.dist-info");
    let tags = [tag.clone()].into();
    let fixed = [("METADATA", text.clone()), ("WHEEL", wheel_file(false, &tags))];
    let fixed = fixed.map(|(name, text)| (name.to_owned(), Member::text(text)));
    let files = files.into_iter().chain(fixed);
    members.extend(files.map(|(name, member)| (format!("{dist_info}/{name}"), member)));
    let temporary = super::temporary(folder)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let file = fs_err::OpenOptions::new().write(true).open(temporary.path())?;
    archive::write(&file, &members, &dist_info, source_date_epoch, spool, threads)?;
    let (sha256, size) = Sha256::of_file(temporary.path())?;
    let wheel = Wheel {
        path: folder.join(format!("{stem}-{tag}.whl")),
        distribution: metadata.name,
        version,
        tags: tags.into_iter().collect(),
        sha256,
        size,
        requires_python: metadata.requires_python,
        metadata: text,
    };
    Ok(Unnamed { file: temporary, wheel })
}
