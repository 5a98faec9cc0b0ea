//! Reads the wheel of a member: the facts that its package needs, and the traces of bundled
//! libraries in its binaries.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use pep440_rs::Version;
use serde::{Deserialize, Serialize};

use super::pin_of;
use crate::closure::LockedFile;
use crate::closure::bundled::{self, Traces};
use crate::closure::generate::error::GenerateError;
use crate::sources::Fetcher;
use crate::wheel::{self, Contents};
use crate::workspace::Source;

/// The contents of a wheel.
pub struct WheelFacts {
    pub file: LockedFile,
    /// Whether its metadata lists license files.
    pub names_licenses: bool,
    pub contents: Contents,
    /// What is bundled in it, in the syntax of `Provides:`.
    pub bundled: BTreeSet<String>,
}

/// What is cached about a wheel: reading a large one takes seconds.
#[derive(Serialize, Deserialize)]
struct Looked {
    contents: Contents,
    traces: Traces,
}

impl WheelFacts {
    /// Returns the facts and the traces in its binaries.
    pub fn of(
        name: &str,
        version: &Version,
        file: &LockedFile,
        fetcher: &Fetcher<'_>,
    ) -> Result<(Self, Traces), GenerateError> {
        let source = Source::Wheel { file: file.name.clone(), sha256: Some(file.sha256) };
        let pin = pin_of(name, version, source)?;
        let fetched = fetcher.obtain(&pin)?;
        let wrong = |reason| {
            let (member, file) = (name.to_owned(), file.name.clone());
            GenerateError::Wheel { member, file, reason }
        };
        let metadata = metadata(&fetched.path, name, version).map_err(wrong)?;
        let names_licenses = names_licenses(&metadata);
        let recipe = format!("wheel contents 4\n{}\n{}\n", file.sha256, bundled::digest());
        let known = fetcher.remembered(&recipe)?.and_then(|text| serde_json::from_str(&text).ok());
        let Looked { contents, traces } = match known {
            Some(known) => known,
            None => {
                let looked = look(&fetched.path).map_err(wrong)?;
                if let Ok(text) = serde_json::to_string(&looked) {
                    fetcher.remember(&recipe, &text)?;
                }
                looked
            }
        };
        let facts = Self { file: file.clone(), names_licenses, contents, bundled: BTreeSet::new() };
        Ok((facts, traces))
    }
}

fn open(path: &Path) -> Result<File, String> {
    File::open(path).map_err(|error| format!("it cannot be read: {error}"))
}

/// Returns a wheel's METADATA, which must belong to this distribution.
fn metadata(path: &Path, name: &str, version: &Version) -> Result<String, String> {
    let metadata = wheel::metadata_in(open(path)?)?;
    let (stated, of) = wheel::name_and_version(&metadata)?;
    if stated != name || of != *version {
        return Err(format!("its METADATA is for {stated} {of}"));
    }
    Ok(metadata)
}

/// Returns whether METADATA lists license files (PEP 639), which rpm then marks as such.
fn names_licenses(metadata: &str) -> bool {
    wheel::header_fields(metadata).any(|field| field.is("License-File"))
}

/// Reads the contents of a wheel. Ignores mistakes in other files, because pip installs the wheel
/// anyway.
fn look(path: &Path) -> Result<Looked, String> {
    let file = open(path)?;
    let length = file.metadata().map_err(|error| format!("it cannot be read: {error}"))?.len();
    let mut traces = Traces::default();
    let contents = wheel::contents(file, length, |bytes| traces.add(bytes))?;
    Ok(Looked { contents, traces })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_license_files_from_the_header() {
        for (metadata, expected) in [
            ("Name: x\nLicense-File: LICENSE\nVersion: 1\n\ntext\n", true),
            ("license-file: LICENSE\n", true),
            ("Name: x\nLicense: MIT\n\nLicense-File: LICENSE\n", false),
            ("", false),
        ] {
            assert_eq!(names_licenses(metadata), expected, "{metadata}");
        }
    }
}
