//! Publishes what was built: wheels to a channel of a pip index, packages to a dnf repository. `index`
//! and `publication` plan the changes; here they are signed and applied.

mod packages;
mod wheels;

use std::path::Path;

pub use packages::{PlannedPackages, apply_packages, plan_packages};
pub use wheels::{
    apply_wheels, check_dirty, made_wheels, sign_wheels, source_date_epoch, upload_time,
};

use crate::closure::earlier;
use crate::error::{Error, IoError, Problems};
use crate::index::folder::Folder;
use crate::index::place::IndexStorage;
use crate::index::publish::Destination;
use crate::index::seen::SerialRecord;
use crate::sources::Cache;
use crate::stack::Stack;
use crate::workspace::{Workspace, closure_not_written};

/// An open destination of wheels or packages.
pub struct Target {
    destination: Destination,
    place: Box<dyn IndexStorage>,
    /// Whether the destination is a missing folder, which is only created when it is written to.
    new_folder: bool,
    seen: SerialRecord,
}

impl Target {
    /// Opens a destination. If it will change, locks an existing folder until the target is dropped.
    pub fn open(
        destination: Destination,
        to_change: bool,
        allow_rollback: bool,
    ) -> Result<Self, Error> {
        let new_folder = destination.is_new_folder();
        let place = destination.open(to_change)?;
        let seen = seen(&destination, allow_rollback)?;
        Ok(Self { destination, place, new_folder, seen })
    }

    /// Returns the place, for reading.
    pub fn place(&self) -> &dyn IndexStorage {
        &*self.place
    }

    /// Returns the record of the serial numbers that this machine has seen there.
    pub fn seen(&self) -> &SerialRecord {
        &self.seen
    }

    /// Returns the folder, if the destination is one.
    fn folder(&self) -> Option<&Path> {
        match &self.destination {
            Destination::Folder(path) => Some(path),
            Destination::Rsync(_) | Destination::S3(_) => None,
        }
    }

    /// Calls `apply` with the place, which is locked and exists.
    pub fn change<E: Into<Error>>(
        &self,
        apply: impl FnOnce(&dyn IndexStorage) -> Result<(), E>,
    ) -> Result<(), Error> {
        match self.folder().filter(|_| self.new_folder) {
            Some(path) => apply(&Folder::lock(path)?),
            None => apply(&*self.place),
        }
        .map_err(Into::into)
    }
}

/// Returns the record of the serial numbers that this machine has seen at a destination.
fn seen(destination: &Destination, allow_rollback: bool) -> Result<SerialRecord, Error> {
    let place = match destination {
        Destination::Folder(path) => std::path::absolute(path)
            .map_err(IoError::doing("find the destination"))?
            .to_string_lossy()
            .into_owned(),
        other => other.open(false)?.name(),
    };
    Ok(SerialRecord::of(Cache::from_env()?.dir(), &place, allow_rollback))
}

/// Refuses stacks that users could not install or upgrade: a component without a written Python
/// closure for a chroot, and members with a lower version than in an earlier release. Builds for
/// this machine are exempt, because they are not installed from a repository.
pub fn check_closures<'w>(
    workspaces: impl IntoIterator<Item = &'w Workspace>,
    names: &[String],
) -> Result<(), Error> {
    let mut problems = Problems::default();
    for workspace in workspaces.into_iter().filter(|workspace| !workspace.chroot.is_host()) {
        let stack = Stack::new(workspace)?;
        problems.0.extend(closure_not_written(workspace, &stack.named_with_requirements(names)?));
        problems.0.extend(earlier::held_back(workspace)?);
    }
    if problems.0.is_empty() { Ok(()) } else { Err(problems.into()) }
}
