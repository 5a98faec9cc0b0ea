//! Brings a published repository back to the packages of an earlier publication. Their files are still
//! there: those of earlier builds by the rule of retention, those of the last publication until the next.

use std::collections::{BTreeMap, BTreeSet};

use fs_err as fs;

use super::retention::rolled_back;
use super::state::Published;
use super::{Change, PublicationError, Wanted, change_to, check_key, there};
use crate::error::IoError;
use crate::index::place::IndexStorage;
use crate::index::seen::SerialRecord;
use crate::rpms::signing::Signer;

/// An earlier publication, and what the publisher has published since.
pub struct Earlier {
    /// The digests of its packages' headers, by file name.
    pub packages: BTreeMap<String, String>,
    /// The names of all packages that the publisher has ever published there.
    pub knows: BTreeSet<String>,
}

/// Plans bringing a repository back to an earlier publication.
pub fn plan_rollback(
    place: &dyn IndexStorage,
    earlier: &Earlier,
    signer: Option<&Signer>,
    seen: &SerialRecord,
) -> Result<Change, PublicationError> {
    let (old, live) = there(place)?;
    seen.check(old.serial)?;
    check_key(place, &old, signer)?;
    let again = tempfile::Builder::new().prefix("rocmrpm-rollback-").tempdir();
    let again = again.map_err(IoError::doing("create a folder for packages"))?;
    let mut record = Vec::new();
    for (file, header) in &earlier.packages {
        let gone = || PublicationError::Gone { file: file.clone(), place: place.name() };
        let listed = old.packages.iter().find(|package| package.file == *file);
        let package = match listed {
            Some(package) => package.clone(),
            // The metadata no longer describe it, so createrepo_c has to read it. One at a time,
            // because packages can be larger than the memory.
            None => {
                let bytes = place.read(std::slice::from_ref(file))?.pop().flatten();
                let path = again.path().join(file);
                fs::write(&path, bytes.ok_or_else(gone)?)
                    .map_err(IoError::doing("keep a published package"))?;
                Published::of(&path)?
            }
        };
        if package.content != *header {
            let reason = format!("{file} is not the package that was published");
            return Err(PublicationError::Damaged { place: place.name(), reason });
        }
        record.push(package);
    }
    let packages = rolled_back(&old.packages, &record, &earlier.knows);
    let wanted =
        Wanted { repository: again.path(), signer, release: "", keep: 0, seen, dirty: false };
    let mut change =
        change_to(place, (&old, live.as_deref()), packages.clone(), (&[], &[]), &wanted)?;
    change.added = packages.into_iter().filter(|one| !old.packages.contains(one)).collect();
    Ok(change)
}
