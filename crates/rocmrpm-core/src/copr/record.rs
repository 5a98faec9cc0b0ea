//! Records which builds on COPR components were sent as. A build's number is recorded as soon as
//! COPR shows it, so that a later run waits for that build instead of sending it twice. Accepted
//! results are recorded elsewhere, in `publish`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest::Sha256;
use crate::document::Document;
use crate::files;

const SCHEMA: &str = "rocmrpm/copr-build/2";

/// The folder of the records in a chroot's build folder.
pub(super) const FOLDER: &str = "copr";

/// A file in `copr/` of a build folder: a build that was sent to COPR.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sent {
    schema: String,
    /// `owner/project`.
    pub project: String,
    /// COPR's number of the build.
    pub build: u64,
    /// The digest of the spec, the sources, the patches, and the settings of the build.
    pub key: Sha256,
    /// Version and release.
    pub version_release: String,
    /// Whether rocmrpm has fetched its results or reported its failure. Later pushes send a new
    /// build.
    pub settled: bool,
    /// Earlier builds of it that were not accepted.
    #[serde(default)]
    pub before: Vec<u64>,
}

impl Document for Sent {
    const SCHEMA: &'static str = SCHEMA;
}

impl Sent {
    /// Returns a record of a build that was just sent or found.
    pub fn new(project: &str, build: u64, key: Sha256, version_release: &str) -> Self {
        let (project, version_release) = (project.to_owned(), version_release.to_owned());
        Self {
            schema: SCHEMA.to_owned(),
            project,
            build,
            key,
            version_release,
            settled: false,
            before: Vec::new(),
        }
    }

    /// Returns the record with the build marked as finished.
    #[must_use]
    pub fn settled(mut self) -> Self {
        self.settled = true;
        self
    }

    /// Reads the record of a component; `None` if there is none in the current format for this
    /// project.
    pub fn read(build_dir: &Path, project: &str, name: &str) -> Option<Self> {
        let sent: Self = serde_json::from_slice(&fs_err::read(path(build_dir, name)).ok()?).ok()?;
        (sent.schema == SCHEMA && sent.project == project).then_some(sent)
    }

    /// Returns the package names of builds that COPR has not named yet.
    pub fn names(build_dir: &Path, project: &str) -> BTreeMap<u64, String> {
        let records = Self::all(build_dir, project).into_iter();
        records.map(|(name, sent)| (sent.build, name)).collect()
    }

    /// Reads the records of all components, by name.
    pub fn all(build_dir: &Path, project: &str) -> BTreeMap<String, Self> {
        let files = files::names_in(&build_dir.join(FOLDER)).unwrap_or_default();
        let names = files.iter().filter_map(|file| file.strip_suffix(".json"));
        names
            .filter_map(|name| Some((name.to_owned(), Self::read(build_dir, project, name)?)))
            .collect()
    }

    /// Writes the record of a component, replacing an older one.
    pub fn write(&self, build_dir: &Path, name: &str) -> std::io::Result<()> {
        let path = path(build_dir, name);
        fs_err::create_dir_all(path.parent().unwrap_or(build_dir))?;
        let mut json = serde_json::to_vec_pretty(self)?;
        json.push(b'\n');
        files::write_durably(&path, json)
    }
}

fn path(build_dir: &Path, name: &str) -> PathBuf {
    build_dir.join(FOLDER).join(format!("{name}.json"))
}

/// Returns the digest of the names and contents in a folder of sources. For the spec, it uses
/// `text`, because the file may have another release.
pub(super) fn content_of(dir: &Path, spec: &str, text: &str) -> std::io::Result<Sha256> {
    let mut list = String::new();
    for name in files::names_in(dir)? {
        let digest = match name == spec {
            true => Sha256::of_bytes(text),
            false => Sha256::of_file(&dir.join(&name))?.0,
        };
        list.push_str(&format!("{digest} {name}\n"));
    }
    Ok(Sha256::of_bytes(list))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_belong_to_a_project_and_round_trip() {
        let dir = tempfile::tempdir().unwrap();
        let sent = Sent::new("alice/rocm", 7, Sha256::of_bytes("x"), "1-1.fc43");
        sent.write(dir.path(), "k").unwrap();
        assert_eq!(Sent::read(dir.path(), "alice/rocm", "k"), Some(sent.clone()));
        assert_eq!(Sent::read(dir.path(), "bob/rocm", "k"), None);
        assert_eq!(Sent::read(dir.path(), "alice/rocm", "other"), None);
        assert_eq!(Sent::all(dir.path(), "alice/rocm"), BTreeMap::from([("k".to_owned(), sent)]));
        assert!(Sent::all(dir.path(), "bob/rocm").is_empty());
        let older = Sent {
            schema: "rocmrpm/copr/0".into(),
            ..Sent::read(dir.path(), "alice/rocm", "k").unwrap()
        };
        older.write(dir.path(), "k").unwrap();
        assert_eq!(Sent::read(dir.path(), "alice/rocm", "k"), None, "another format");
    }

    #[test]
    fn content_digest_covers_sources_and_the_text_of_the_spec() {
        let dir = tempfile::tempdir().unwrap();
        fs_err::write(dir.path().join("k.spec"), "Release: 1.2").unwrap();
        fs_err::write(dir.path().join("k.tar"), "x").unwrap();
        let content = |text| content_of(dir.path(), "k.spec", text).unwrap();
        let first = content("Release: 1");
        assert_ne!(content("Release: 2"), first);
        fs_err::write(dir.path().join("k.spec"), "Release: 1").unwrap();
        assert_eq!(content("Release: 1"), first);
        fs_err::write(dir.path().join("k.tar"), "y").unwrap();
        assert_ne!(content("Release: 1"), first);
    }

    #[test]
    fn record_format_is_pinned() {
        let key = Sha256::of_bytes("x");
        let sent = Sent { before: vec![5], ..Sent::new("alice/rocm", 7, key, "1-1.fc43") };
        let expected = r#"{"schema":"rocmrpm/copr-build/2","project":"alice/rocm","build":7,"key":"KEY","version_release":"1-1.fc43","settled":false,"before":[5]}"#;
        assert_eq!(
            serde_json::to_string(&sent).unwrap(),
            expected.replace("KEY", &key.to_string())
        );
    }
}
