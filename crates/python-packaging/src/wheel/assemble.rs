//! Writes a wheel from members that the caller chose, rather than from those of a Python package in
//! RPMs, and compares such a wheel with its members. It checks no member.

use std::collections::BTreeMap;
use std::path::Path;

use super::archive::{self, Member};
use super::metadata::{Metadata, wheel_file};
use super::payload::Spool;
use super::provenance::{self, Relinked, Source};
use super::verify::{self, Expected, Proof};
use super::{Wheel, WheelError, sbom};
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
    /// The RPMs whose files it has, for its SBOM and its provenance.
    pub rpms: Vec<Source>,
    /// The members that are files of the RPMs except for their search paths.
    pub relinked: BTreeMap<String, Relinked>,
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

/// All members of a wheel except for RECORD.
struct Complete {
    metadata: Metadata,
    text: String,
    stem: String,
    tag: String,
    members: BTreeMap<String, Member>,
}

impl Complete {
    fn new(parts: &Assembly, folder: &Path) -> Result<Self, WheelError> {
        let text = parts.metadata.clone();
        let metadata =
            Metadata::parse(&text).map_err(|reason| WheelError::invalid(folder, reason))?;
        let stem = format!("{}-{}", metadata.normalized.replace('-', "_"), metadata.version);
        let sbom = sbom::text(&metadata, &text, (&parts.rpms, &[]), &[], parts.source_date_epoch);
        let made = [
            ("METADATA", text.clone()),
            ("WHEEL", wheel_file(false, &[parts.tag.clone()].into())),
            (sbom::NAME, sbom),
            (provenance::NAME, provenance::assembled(&parts.rpms, &parts.relinked)?),
        ];
        let made = made.map(|(name, text)| (name.to_owned(), Member::text(text)));
        let files = parts.dist_info.clone().into_iter().chain(made);
        let files = files.map(|(name, member)| (format!("{stem}.dist-info/{name}"), member));
        let members = parts.members.clone().into_iter().chain(files).collect();
        Ok(Self { metadata, text, stem, tag: parts.tag.clone(), members })
    }

    fn dist_info(&self) -> String {
        format!("{}.dist-info", self.stem)
    }

    fn file_name(&self) -> String {
        format!("{}-{}.whl", self.stem, self.tag)
    }
}

/// Writes a wheel into `folder`, without its name. Fails if METADATA is invalid.
pub fn assemble(parts: &Assembly, folder: &Path, spool: &Spool) -> Result<Unnamed, WheelError> {
    let complete = Complete::new(parts, folder)?;
    let temporary = super::temporary(folder)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let file = fs_err::OpenOptions::new().write(true).open(temporary.path())?;
    let (members, epoch) = (&complete.members, parts.source_date_epoch);
    archive::write(&file, members, &complete.dist_info(), epoch, spool, threads)?;
    let (sha256, size) = Sha256::of_file(temporary.path())?;
    let wheel = Wheel {
        path: folder.join(complete.file_name()),
        version: complete.metadata.version.to_string(),
        distribution: complete.metadata.name,
        tags: vec![complete.tag],
        sha256,
        size,
        requires_python: complete.metadata.requires_python,
        metadata: complete.text,
    };
    Ok(Unnamed { file: temporary, wheel })
}

/// Compares the wheel in `folder` with the one that [`assemble`] writes. Writes nothing.
pub fn check(parts: &Assembly, folder: &Path, spool: &Spool) -> Result<Proof, WheelError> {
    let complete = Complete::new(parts, folder)?;
    let mut proof = Proof {
        wheel: complete.file_name(),
        rpms: parts.rpms.iter().map(|rpm| rpm.file.clone()).collect(),
        ..Proof::default()
    };
    let expected = Expected {
        members: &complete.members,
        dist_info: &complete.dist_info(),
        replaced: &BTreeMap::new(),
        relinked: &parts.relinked,
        bundled: &BTreeMap::new(),
    };
    verify::compare(&folder.join(&proof.wheel), expected, spool, &mut proof)?;
    Ok(proof)
}
