//! The lock file of a pin set, computed from its pins and the old lock file. The caller writes it.

use std::path::{Path, PathBuf};

use crate::error::{Error, IoError, Problems};
use crate::files;
use crate::sources::{Fetcher, Locked};
use crate::workspace::document::File;
use crate::workspace::pins::Overrides;
use crate::workspace::{Lock, PinSet};

/// A lock file, before and after.
#[derive(Debug)]
pub struct SetLock {
    /// The name of the file, relative to the workspace.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The old text; empty if there was no file.
    pub old_text: String,
    /// The old lock.
    pub old: Lock,
    /// The new lock.
    pub locked: Locked,
    /// The new text.
    pub text: String,
}

impl SetLock {
    /// Returns whether the file changes.
    pub fn differs(&self) -> bool {
        self.text != self.old_text
    }

    /// Writes the lock file.
    pub fn write(&self) -> Result<(), Error> {
        let action = IoError::doing(format!("write `{}`", self.name));
        Ok(files::write_durably(&self.path, &self.text).map_err(action)?)
    }
}

/// Determines the lock of a pin set with this text, which may not be written yet.
pub fn lock_set(
    root: &Path,
    set: &str,
    pins: File,
    fetcher: &Fetcher<'_>,
) -> Result<SetLock, Error> {
    let name = format!("pins/{set}.lock");
    let path = root.join(format!("pins/{set}.lock"));
    let old_file = match path.is_file() {
        true => File::read(&path, &name).map_err(IoError::doing(format!("read `{name}`")))?,
        false => File { name: name.clone(), text: String::new() },
    };
    let mut problems = Vec::new();
    let old = Lock::read(&old_file, &mut problems);
    // Reads the pins without the lock file, which fills in missing values in the workspace's own
    // pins.
    let pins = PinSet::read(set, pins, &Lock::default(), &Overrides::new(), &mut problems);
    if !problems.is_empty() {
        return Err(Problems(problems).into());
    }
    let mut locked = fetcher.lock(&pins, &old)?;
    locked.lock.images.clone_from(&old.images);
    let text = locked.lock.text();
    Ok(SetLock { name, path, old_text: old_file.text, old, locked, text })
}
