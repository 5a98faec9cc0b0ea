//! Reads and writes our document in a published repository, which makes it unnecessary to list or
//! download files. It does not decide what to publish.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::PublicationError;
use crate::digest::Sha256;
use crate::document::Document;
use crate::rpms::repomd::Repomd;
use crate::rpms::{RpmError, header};

/// The path of the document.
pub(super) const PATH: &str = "rocmrpm.json";

const SCHEMA: &str = "rocmrpm/repository/1";

/// `rocmrpm.json` in a published repository: what was published last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RepositoryState {
    pub(super) schema: String,
    /// Counts up with every publication.
    #[serde(default)]
    pub serial: u64,
    /// The fingerprint of the key that it is signed with.
    pub key: Option<String>,
    /// Its packages, sorted by file name.
    pub packages: Vec<Published>,
    /// Its metadata files except `repomd.xml`, sorted. Their names contain their digests.
    pub metadata: Vec<String>,
    /// `repomd.xml`.
    pub repomd: String,
    /// Files that the metadata no longer lists. They stay until the next publication, for clients
    /// that have just read the previous metadata.
    pub leaving: Vec<String>,
    /// Files that were removed when it was published.
    pub removed: Vec<String>,
}

impl Document for RepositoryState {
    const SCHEMA: &'static str = SCHEMA;
}

/// A package of a published repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Published {
    /// Its file name.
    pub file: String,
    /// Its size in bytes.
    pub size: u64,
    /// The digest of the file.
    pub sha256: Sha256,
    /// The modification time of the file, in seconds since 1970, as in the metadata.
    pub time: i64,
    /// The digest of its header, which does not depend on the signature.
    pub content: String,
    /// `Epoch`.
    pub epoch: u32,
    /// `Version` and `Release`, with a dash between them.
    pub version: String,
    /// The file name of the source package.
    pub source: String,
}

impl RepositoryState {
    /// Returns the state of an empty repository.
    pub fn new() -> Self {
        Self { schema: SCHEMA.to_owned(), ..Self::default() }
    }

    /// Parses the document. `place` is used in messages.
    pub fn read(bytes: &[u8], place: &str) -> Result<Self, PublicationError> {
        let damaged =
            |reason: String| PublicationError::Damaged { place: place.to_owned(), reason };
        let state: Self =
            serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        if state.schema != SCHEMA {
            return Err(damaged(format!("its schema is not {SCHEMA}")));
        }
        let files = state.packages.iter().map(|package| &package.file);
        let removable = state.leaving.iter().chain(&state.removed);
        let own = |path: &String| {
            let name = path.strip_prefix("repodata/").unwrap_or(path);
            !name.is_empty() && !name.contains('/') && !name.starts_with('.')
        };
        match files.chain(&state.metadata).chain(removable).find(|path| !own(path)) {
            Some(path) => Err(damaged(format!(
                "it lists the file `{}`, which is not a file of a repository",
                crate::text::visible(path)
            ))),
            None => Ok(state),
        }
    }

    /// Serializes the document.
    pub fn bytes(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// Returns whether `repomd.xml` names all metadata. An earlier release may have published the
    /// output of an interrupted or failed tool.
    pub fn has_whole_repomd(&self) -> bool {
        Repomd::parse(&self.repomd).is_ok_and(|repomd| repomd.paths().iter().eq(&self.metadata))
    }

    /// Returns every file of the repository except those that are replaced.
    pub fn files(&self) -> impl Iterator<Item = &String> {
        self.packages.iter().map(|package| &package.file).chain(&self.metadata)
    }
}

impl Published {
    /// Reads a local package.
    pub fn of(path: &Path) -> Result<Self, RpmError> {
        let header = header(path)?;
        let (sha256, size) = Sha256::of_file(path)?;
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let time = fs::metadata(path)?.mtime();
        let version = format!("{}-{}", header.version, header.release);
        let (epoch, content, source) = (header.epoch, header.content, header.source);
        Ok(Self { file, size, sha256, time, content, epoch, version, source })
    }

    /// Returns whether the package was built from uncommitted changes.
    pub fn is_dirty(&self) -> bool {
        self.version.rsplit('-').next().is_some_and(|release| release.contains("~dirty"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_ends_with_a_line_feed() {
        assert!(RepositoryState::new().bytes().ends_with(b"}\n"));
    }

    #[test]
    fn a_document_names_only_files_of_the_repository() {
        let state = RepositoryState {
            metadata: vec!["repodata/a-primary.xml.zst".into()],
            ..RepositoryState::new()
        };
        assert_eq!(RepositoryState::read(&state.bytes(), "there").unwrap(), state);
        for path in ["../x", "/etc/passwd", "a/b.rpm", "repodata/../x", "repodata/", ".lock"] {
            let state = RepositoryState { leaving: vec![path.into()], ..RepositoryState::new() };
            let error = RepositoryState::read(&state.bytes(), "there").unwrap_err().to_string();
            assert!(error.contains(path), "{error}");
        }
        assert!(RepositoryState::read(b"{}", "there").is_err());
    }
}
