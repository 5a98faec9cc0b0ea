//! Checks wheels and sdists in parallel, and makes their entries for the pages of an index. It does
//! not decide which of them belong in an index.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::IndexError;
use super::page::File;
use python_packaging::sdist;
use python_packaging::wheel;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::machine;
use rocmrpm_base::parallel;

/// A wheel from another index, which the stack did not build. The caller verified its digest, and that
/// its METADATA is for the distribution and version in its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// The path on this machine, whose last part can differ from `name`.
    pub path: PathBuf,
    /// The file name in the index.
    pub name: String,
    /// The digest of the file.
    pub sha256: Sha256,
    /// The text of METADATA.
    pub metadata: String,
}

/// A file to put into an index.
#[derive(Debug, Clone, Copy)]
pub(super) enum Input<'a> {
    Own(&'a Path),
    Foreign(&'a Foreign),
}

impl<'a> Input<'a> {
    /// Returns all files for an index.
    pub fn all(own: &'a [PathBuf], foreign: &'a [Foreign]) -> Vec<Self> {
        let own = own.iter().map(|path| Self::Own(path));
        own.chain(foreign.iter().map(Self::Foreign)).collect()
    }

    pub fn path(self) -> &'a Path {
        match self {
            Self::Own(path) => path,
            Self::Foreign(foreign) => &foreign.path,
        }
    }

    /// Returns the file name in the index.
    pub fn name(self) -> String {
        match self {
            Self::Own(path) => file_name(path),
            Self::Foreign(foreign) => foreign.name.clone(),
        }
    }

    /// Returns whether an entry on a page can be of this file.
    pub fn fits(self, file: &File) -> bool {
        match self {
            Self::Own(_) => !file.foreign,
            Self::Foreign(foreign) => file.foreign && file.sha256 == foreign.sha256,
        }
    }

    /// Checks the stack's own files; see [`wheel::read`] and [`sdist::open`].
    pub fn read(self) -> Result<IndexedFile, IndexError> {
        match self {
            Self::Own(path) => IndexedFile::read(path),
            Self::Foreign(foreign) => IndexedFile::of_foreign(foreign),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct IndexedFile {
    /// The path on this machine.
    pub source: PathBuf,
    /// The normalized name of the distribution.
    pub distribution: String,
    /// The entry on the page; its upload time is the one that the archive itself states.
    pub file: File,
    /// The text of METADATA or PKG-INFO.
    pub metadata: String,
}

impl IndexedFile {
    /// Checks a wheel or an sdist; see [`wheel::read`] and [`sdist::open`].
    pub fn read(source: &Path) -> Result<Self, IndexError> {
        if source.extension().is_some_and(|extension| extension == "gz") {
            return Self::of_sdist(source);
        }
        let (wheel, newest) = wheel::read_dated(source)?;
        let distribution = wheel::normalized(&wheel.distribution).unwrap_or_default();
        Ok(Self {
            source: source.to_owned(),
            file: File {
                name: file_name(source),
                sha256: wheel.sha256,
                size: wheel.size,
                upload_time: newest.and_then(timestamp).unwrap_or(EARLIEST),
                requires_python: wheel.requires_python,
                metadata: Some(Sha256::of_bytes(&wheel.metadata)),
                plain_name: distribution == wheel.distribution,
                yanked: None,
                foreign: false,
            },
            distribution,
            metadata: wheel.metadata,
        })
    }

    /// Makes the entry of a foreign wheel. Installers accept mistakes in its other files.
    fn of_foreign(foreign: &Foreign) -> Result<Self, IndexError> {
        let Foreign { path, name, sha256, metadata } = foreign;
        let field = |wanted: &str| {
            let found = wheel::header_fields(metadata).find(|field| field.is(wanted));
            found.map(|field| field.one_line())
        };
        let distribution = wheel::wheel_project(name).unwrap_or_default();
        Ok(Self {
            source: path.clone(),
            file: File {
                name: name.clone(),
                sha256: *sha256,
                size: fs_err::metadata(path)?.len(),
                upload_time: EARLIEST,
                requires_python: field("Requires-Python"),
                metadata: Some(Sha256::of_bytes(metadata)),
                plain_name: field("Name").as_ref() == Some(&distribution),
                yanked: None,
                foreign: true,
            },
            distribution,
            metadata: metadata.clone(),
        })
    }

    fn of_sdist(source: &Path) -> Result<Self, IndexError> {
        let sdist = sdist::open(source)?;
        let newest = i64::try_from(sdist.newest).ok();
        let newest = newest.and_then(|seconds| Timestamp::from_second(seconds).ok());
        Ok(Self {
            source: source.to_owned(),
            file: File {
                name: file_name(source),
                sha256: sdist.sha256,
                size: sdist.size,
                upload_time: newest.map_or(EARLIEST, |newest| newest.max(EARLIEST)),
                requires_python: sdist.requires_python,
                // Requirements of an sdist may only be known once it is built (PEP 643).
                metadata: None,
                plain_name: false,
                yanked: None,
                foreign: false,
            },
            distribution: sdist.distribution,
            metadata: sdist.metadata,
        })
    }
}

/// Returns the last part of a path.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// 1980-01-01, the earliest time that a zip archive can hold (APPNOTE.TXT of PKWARE, 4.4.6), for
/// files without a time.
const EARLIEST: Timestamp = Timestamp::constant(315_532_800, 0);

/// Interprets the time of a zip archive, which has no zone, as UTC, in which rocmrpm writes it.
fn timestamp(time: zip::DateTime) -> Option<Timestamp> {
    let small = |part: u8| i8::try_from(part).ok();
    let date = jiff::civil::DateTime::new(
        i16::try_from(time.year()).ok()?,
        small(time.month())?,
        small(time.day())?,
        small(time.hour())?,
        small(time.minute())?,
        small(time.second())?,
        0,
    );
    Some(date.ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}

/// Calls `work` for every item, on all cores, and returns the results in order. If some fail,
/// returns the error of the first failed item in this order.
pub(super) fn each<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, IndexError> + Sync,
) -> Result<Vec<R>, IndexError> {
    parallel::try_map(items, machine::cores(), work)
}
/// Returns the normalized names of the distributions that METADATA requires (PEP 508: the name
/// comes first). Skips invalid names, because the result only sorts pages.
pub(super) fn requires(metadata: &str) -> Vec<String> {
    let fields = wheel::header_fields(metadata).filter(|field| field.is("Requires-Dist"));
    let values = fields.map(|field| field.value);
    let names = values.filter_map(|value| {
        let end = value.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
        wheel::normalized(&value[..end.unwrap_or(value.len())])
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_names_of_requirements() {
        let text = "Name: a\nRequires-Dist: Torch_x[b]==1; python_version>'3'\nrequires-dist: c (>1)\n\
                    Requires-Dist: d\n\nRequires-Dist: no\n";
        assert_eq!(requires(text), ["torch-x", "c", "d"]);
    }
}
