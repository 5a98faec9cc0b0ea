//! Stores the highest serial number that this machine has seen of a published index or repository,
//! to detect when someone restores an older state. It does not verify signatures.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::IndexError;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::files;

/// The record of one place.
#[derive(Debug, Clone)]
pub struct SerialRecord {
    file: PathBuf,
    place: String,
    /// Whether to accept an older state.
    allow_rollback: bool,
}

#[derive(Serialize, Deserialize)]
struct Record {
    place: String,
    serial: u64,
}

impl SerialRecord {
    /// Returns the record of a place in this cache folder.
    pub fn of(cache: &Path, place: &str, allow_rollback: bool) -> Self {
        let file = cache.join("seen").join(format!("{}.json", Sha256::of_bytes(place)));
        Self { file, place: place.to_owned(), allow_rollback }
    }

    /// Fails if this serial number is lower than the highest seen, unless rollbacks are allowed.
    pub fn check(&self, serial: u64) -> Result<(), IndexError> {
        let seen = self.serial()?;
        match serial < seen && !self.allow_rollback {
            true => Err(IndexError::Rollback { place: self.place.clone(), there: serial, seen }),
            false => Ok(()),
        }
    }

    /// Stores a serial number that was verified or published.
    pub fn remember(&self, serial: u64) -> Result<(), IndexError> {
        if serial != self.serial()? {
            let record = Record { place: self.place.clone(), serial };
            files::write_durably(
                &self.file,
                serde_json::to_vec(&record).map_err(std::io::Error::from)?,
            )?;
        }
        Ok(())
    }

    fn serial(&self) -> Result<u64, IndexError> {
        match fs_err::read(&self.file) {
            Ok(bytes) => {
                Ok(serde_json::from_slice::<Record>(&bytes).map_or(0, |record| record.serial))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_lower_serial_unless_allowed() {
        let cache = tempfile::tempdir().unwrap();
        let seen = SerialRecord::of(cache.path(), "/srv/index", false);
        seen.check(0).unwrap();
        seen.remember(7).unwrap();
        seen.check(7).unwrap();
        seen.check(8).unwrap();
        let error = seen.check(6).unwrap_err();
        assert!(matches!(error, IndexError::Rollback { there: 6, seen: 7, .. }), "{error}");
        SerialRecord::of(cache.path(), "/srv/other", false).check(0).unwrap();
        let allowed = SerialRecord::of(cache.path(), "/srv/index", true);
        allowed.check(6).unwrap();
        allowed.remember(6).unwrap();
        seen.check(6).unwrap();
    }
}
