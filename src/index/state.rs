//! What an index remembers of the wheels it checked, so that a run reads only new
//! ones. Losing it costs time, nothing else.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::digest::Sha256;
use crate::files;

const FILE: &str = "state.json";
const SCHEMA: &str = "rocmrpm/index-state/1";

/// The wheels of an index by file name.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct State {
    schema: String,
    wheels: BTreeMap<String, Known>,
}

/// A wheel that was checked, with the size and time it had then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    /// Bytes.
    pub size: u64,
    /// Seconds and nanoseconds of the last change.
    pub modified: (i64, i64),
    /// The file's digest.
    pub sha256: Sha256,
    /// The distribution's normalized name.
    pub distribution: String,
    /// `Requires-Python`.
    pub requires_python: Option<String>,
    /// The digest of its METADATA.
    pub metadata: Sha256,
}

impl State {
    /// Returns what is to be remembered.
    pub fn new(wheels: BTreeMap<String, Known>) -> Self {
        Self { schema: SCHEMA.into(), wheels }
    }

    /// Reads what the last run remembered; nothing where that is missing, damaged
    /// or of another version.
    pub fn load(index_dir: &Path) -> Self {
        let read = || {
            let bytes = fs_err::read(index_dir.join(FILE)).ok()?;
            serde_json::from_slice::<Self>(&bytes).ok().filter(|state| state.schema == SCHEMA)
        };
        read().unwrap_or_else(|| Self::new(BTreeMap::new()))
    }

    /// Writes it, unless it is there already.
    pub fn save(&self, index_dir: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        files::write_if_changed(&index_dir.join(FILE), text).map(drop)
    }

    /// Returns what is known of a file, if it is still the one that was checked.
    pub fn known(&self, name: &str, now: &Metadata) -> Option<&Known> {
        let known = self.wheels.get(name)?;
        let same = known.size == now.len() && known.modified == (now.mtime(), now.mtime_nsec());
        same.then_some(known)
    }
}
