//! The highest serial number that this machine has seen of a published index or repository, so that
//! an older state which someone puts back is detected. Not how that state is signed.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::IndexError;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::files;

/// What is known of one place.
#[derive(Debug, Clone)]
pub struct Seen {
    file: PathBuf,
    place: String,
    /// Accept an older state.
    allow_rollback: bool,
}

#[derive(Serialize, Deserialize)]
struct Record {
    place: String,
    serial: u64,
}

impl Seen {
    /// Returns what the cache in this folder knows of a place.
    pub fn of(cache: &Path, place: &str, allow_rollback: bool) -> Self {
        let file = cache.join("seen").join(format!("{}.json", Sha256::of_bytes(place)));
        Self { file, place: place.to_owned(), allow_rollback }
    }

    /// Fails if this serial number is lower than one that was seen before.
    pub fn check(&self, serial: u64) -> Result<(), IndexError> {
        let seen = self.serial()?;
        match serial < seen && !self.allow_rollback {
            true => Err(IndexError::Rollback { place: self.place.clone(), there: serial, seen }),
            false => Ok(()),
        }
    }

    /// Remembers a serial number that was checked or published.
    pub fn remember(&self, serial: u64) -> Result<(), IndexError> {
        if serial != self.serial()? {
            let record = Record { place: self.place.clone(), serial };
            files::write_durably(&self.file, serde_json::to_vec(&record).map_err(std::io::Error::from)?)?;
        }
        Ok(())
    }

    fn serial(&self) -> Result<u64, IndexError> {
        match fs_err::read(&self.file) {
            Ok(bytes) => Ok(serde_json::from_slice::<Record>(&bytes).map_or(0, |record| record.serial)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_serial_is_a_rollback_unless_allowed() {
        let cache = tempfile::tempdir().unwrap();
        let seen = Seen::of(cache.path(), "/srv/index", false);
        seen.check(0).unwrap();
        seen.remember(7).unwrap();
        seen.check(7).unwrap();
        seen.check(8).unwrap();
        let error = seen.check(6).unwrap_err();
        assert!(matches!(error, IndexError::Rollback { there: 6, seen: 7, .. }), "{error}");
        Seen::of(cache.path(), "/srv/other", false).check(0).unwrap();
        let allowed = Seen::of(cache.path(), "/srv/index", true);
        allowed.check(6).unwrap();
        allowed.remember(6).unwrap();
        seen.check(6).unwrap();
    }
}
