//! Publishes the packages of a workspace.

use std::path::{Path, PathBuf};

use super::{Target, check_closures};
use crate::build::{BuildLock, refresh_repository};
use crate::error::{Error, IoError};
use crate::files::names_in;
use crate::lint::unfinished_package;
use crate::proof::{NotInstallable, closed};
use crate::publication::{Change, PublicationError, Wanted, plan};
use crate::rpms::header;
use crate::rpms::repository::STAMP;
use crate::stack::Stack;

/// A planned change of a repository.
pub struct PlannedPackages {
    /// The change.
    pub change: Change,
    /// Whether packages and metadata are signed.
    pub signed: bool,
}

/// Refreshes the repository of a build, checks its packages, and plans what to publish: packages
/// with placeholders, and packages that cannot be installed, are refused.
pub fn plan_packages(
    target: &Target,
    stack: &Stack<'_>,
    lock: &BuildLock,
    allow_dirty: bool,
) -> Result<PlannedPackages, Error> {
    if let Some(path) = target.folder().filter(|path| path.join(STAMP).exists()) {
        // This is the repository of a build, whose lock a refresh takes.
        return Err(PublicationError::Foreign { place: path.display().to_string() }.into());
    }
    let workspace = stack.workspace;
    check_closures([workspace], &[])?;
    let (repository, signer) = refresh_repository(lock, stack)?;
    let rpms: Vec<_> = rpms_in(&repository)?;
    refuse_unfinished(&rpms)?;
    let findings = closed(workspace, &rpms)?;
    NotInstallable::of(&findings, "the repository", &workspace.chroot.name)?;
    let manifest = &workspace.manifest;
    let wanted = Wanted {
        seen: target.seen(),
        repository: &repository,
        signer: signer.as_ref(),
        release: &format!("{}-release", manifest.name),
        keep: manifest.repository.keep,
        dirty: allow_dirty,
    };
    Ok(PlannedPackages { change: plan(target.place(), &wanted)?, signed: signer.is_some() })
}

/// Applies a change, and remembers its serial number.
pub fn apply_packages(target: &Target, change: &Change) -> Result<(), Error> {
    if !change.is_empty() {
        target.change(|place| change.apply(place))?;
    }
    Ok(target.seen().remember(change.serial)?)
}

/// Rejects packages with placeholders, or with licenses that are not SPDX expressions.
fn refuse_unfinished(rpms: &[PathBuf]) -> Result<(), Error> {
    for path in rpms {
        let header = header(path)?;
        if let Some(reason) = unfinished_package(&header.license, &header.summary) {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Err(PublicationError::Unfinished { file, reason }.into());
        }
    }
    Ok(())
}

/// Returns the packages of the published repository.
fn rpms_in(repository: &Path) -> Result<Vec<PathBuf>, Error> {
    let names = names_in(repository).map_err(IoError::doing("read the repository"))?;
    Ok(names
        .iter()
        .filter(|name| name.ends_with(".rpm"))
        .map(|name| repository.join(name))
        .collect())
}
