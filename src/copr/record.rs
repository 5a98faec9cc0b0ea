//! Which build of COPR a component was sent as: written down as soon as COPR has told its
//! number, so that whoever goes on later waits for that build and sends nothing twice.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest::Sha256;
use crate::files;

const SCHEMA: &str = "rocmrpm/copr-build/1";

/// A build that was sent to COPR.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    schema: String,
    /// COPR's number of it.
    pub build: u64,
    /// What was sent: the digest of the spec, the sources and the patches.
    pub content: Sha256,
    /// Version and release.
    pub version_release: String,
    /// Whether its end is known here: brought back, or reported as failed. What is built
    /// after that is a new build.
    pub settled: bool,
    /// Builds that it was sent as before, and which were not accepted.
    #[serde(default)]
    pub before: Vec<u64>,
}

impl Sent {
    /// Returns a record of a build that was just sent, or found.
    pub fn new(build: u64, content: Sha256, version_release: &str) -> Self {
        let version_release = version_release.to_owned();
        Self {
            schema: SCHEMA.to_owned(),
            build,
            content,
            version_release,
            settled: false,
            before: Vec::new(),
        }
    }

    /// Returns the record of the same build, its end known.
    #[must_use]
    pub fn settled(mut self) -> Self {
        self.settled = true;
        self
    }

    /// Reads the record of a component, if there is one of our format.
    pub fn read(build_dir: &Path, name: &str) -> Option<Self> {
        let sent: Self = serde_json::from_slice(&fs_err::read(path(build_dir, name)).ok()?).ok()?;
        (sent.schema == SCHEMA).then_some(sent)
    }

    /// Writes the record of a component, in the place of an older one.
    pub fn write(&self, build_dir: &Path, name: &str) -> std::io::Result<()> {
        let path = path(build_dir, name);
        fs_err::create_dir_all(path.parent().unwrap_or(build_dir))?;
        let mut json = serde_json::to_vec_pretty(self)?;
        json.push(b'\n');
        files::write_durably(&path, json)
    }
}

fn path(build_dir: &Path, name: &str) -> PathBuf {
    build_dir.join("copr").join(format!("{name}.json"))
}

/// Returns the digest of what a folder of sources holds, names included.
pub(super) fn content_of(dir: &Path) -> std::io::Result<Sha256> {
    let mut text = String::new();
    for name in files::names_in(dir)? {
        text.push_str(&format!("{} {name}\n", Sha256::of_file(&dir.join(&name))?.0));
    }
    Ok(Sha256::of_bytes(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_content_counts() {
        let dir = tempfile::tempdir().unwrap();
        let sources = dir.path().join("sources");
        fs_err::create_dir(&sources).unwrap();
        fs_err::write(sources.join("k.spec"), "Name: k").unwrap();
        let content = content_of(&sources).unwrap();
        let sent = Sent::new(7, content, "1-1.fc43");
        sent.write(dir.path(), "k").unwrap();
        assert_eq!(Sent::read(dir.path(), "k"), Some(sent));
        assert_eq!(Sent::read(dir.path(), "other"), None);
        fs_err::write(sources.join("k.spec"), "Name: k2").unwrap();
        assert_ne!(content_of(&sources).unwrap(), content);
    }
}
