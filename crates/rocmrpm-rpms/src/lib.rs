//! RPM files and repositories: reads headers and payloads, signs and verifies, and (in
//! `repository`) writes the metadata that dnf reads. It does not know how RPMs are built, or what
//! their files contain.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod checked;
mod files;
mod payload;
mod read;
mod relations;
pub mod repomd;
pub mod repository;
pub mod signing;
pub mod tags;
#[cfg(test)]
mod tests;

pub use files::{EntryKind, PayloadEntry};
pub use read::{Header, files, for_each_file, header};
pub use relations::{PackagedFile, Relation, Relations, Required, write_headers};

use std::path::{Path, PathBuf};

use rocmrpm_base::error::{Diagnose, Diagnosis, Kind};
use rocmrpm_base::process::{ProcessError, quote};
use signing::SigningError;

/// Returns the package's name from the file name of an RPM, `NAME-VERSION-RELEASE.ARCH.rpm`
/// (`_build_name_fmt` in rpm's macros). Version and release cannot contain a dash.
pub fn name_of_file(path: &Path) -> Option<&str> {
    let stem = path.file_name()?.to_str()?.strip_suffix(".rpm")?;
    stem.rsplitn(3, '-').nth(2).filter(|name| !name.is_empty())
}

/// Returns whether a package of this name has only debugging data, as rpmbuild names it.
pub fn is_debug(name: &str) -> bool {
    name.ends_with("-debuginfo") || name.ends_with("-debugsource")
}

/// The errors of RPM files and repositories.
#[derive(Debug, thiserror::Error)]
pub enum RpmError {
    /// The file is not an RPM, or it is damaged.
    #[error("{}: not a readable RPM: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reader's error, in one line.
        reason: String,
    },
    /// Two RPMs would have the same name in a repository.
    #[error("{} and {} would have the same name in the repository", one.display(), other.display())]
    SameName {
        /// One of the two.
        one: PathBuf,
        /// The other.
        other: PathBuf,
    },
    /// `repomd.xml` is damaged or incomplete, or a file that it lists is.
    #[error("{}: damaged metadata: {reason}", path.display())]
    Metadata {
        /// The path of `repomd.xml`.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// An I/O operation failed.
    #[error("cannot read or write a repository")]
    Io(#[from] std::io::Error),
    /// `createrepo_c` failed or is missing.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// Signing a package or the metadata failed.
    #[error(transparent)]
    Signing(#[from] SigningError),
}

impl Diagnose for RpmError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Unreadable { path, .. } => {
                let file = quote(&path.to_string_lossy());
                Kind::Usage.with_help(format!(
                    "run `rpm -K --nosignature {file}` to check it; to rebuild the result of a build, remove \
                     its folder"
                ))
            }
            Self::SameName { .. } => Kind::Usage.into(),
            Self::Metadata { path, .. } => Kind::Environment.with_help(format!(
                "run `df {}` to check whether the disk is full; createrepo_c may have failed to write the file",
                quote(&path.parent().and_then(Path::parent).unwrap_or(path).to_string_lossy())
            )),
            Self::Io(error) => Diagnosis::of_io(error),
            // zlib reports this for every failed write, usually because the disk is full.
            Self::Process(error @ ProcessError::Failed { tail, .. })
                if tail.contains("file operation error") =>
            {
                error.diagnosis().with_help(
                    "free some space for the repository and in TMPDIR; `df -h` shows which file system is full",
                )
            }
            Self::Process(error) => error.diagnosis(),
            Self::Signing(error) => error.diagnosis(),
        }
    }
}

#[cfg(test)]
mod names {
    use super::*;

    #[test]
    fn reads_the_package_name_from_a_file_name() {
        let name = |file| name_of_file(Path::new(file));
        assert_eq!(
            name("/x/python3-rocm-smoke-1.0.0-1~dirty.fc43.x86_64.rpm"),
            Some("python3-rocm-smoke")
        );
        assert_eq!(name("x-1.rpm"), None);
        assert_eq!(name("x-1-1.noarch"), None);
    }
}
