//! The changes of a workspace's files that lock a closure and package its members, in an order in which a
//! killed run leaves nothing that builds half a closure.

use std::collections::BTreeMap;
use std::path::Path;

use super::generate::Generated;
use super::lock::Lock;
use crate::error::{Error, IoError};
use crate::files;
use crate::workspace::Workspace;

/// The files of a closure that are out of date.
#[derive(Debug, Default)]
pub struct Changes {
    /// The texts by path below the workspace's root, in the order of writing.
    pub texts: Vec<(String, String)>,
    /// The files that are no longer needed.
    pub obsolete: Vec<String>,
    /// The number of files that are up to date.
    pub unchanged: usize,
}

impl Changes {
    /// Compares the files of a workspace with those that a closure needs.
    pub fn of(workspace: &Workspace, lock: &Lock, generated: Generated) -> Result<Self, Error> {
        let root = &workspace.root;
        let path = workspace.closure_lock();
        let lock_path = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let Generated { files, gone } = generated;
        // A pin without its component is an error for every command, while a component without its
        // pin would only be left out: if this run is killed, no command builds half a closure. The
        // lock file marks the closure as complete, so it comes last.
        let (pins, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            files.into_iter().partition(|(path, _)| path.starts_with("pins/"));
        let mut changes = Self { obsolete: gone, ..Self::default() };
        for (path, text) in pins.into_iter().chain(others).chain([(lock_path, lock.text())]) {
            let old = match fs_err::read(root.join(&path)) {
                Ok(old) => Some(old),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => return Err(IoError::doing(format!("read `{path}`"))(error).into()),
            };
            match old.as_deref() == Some(text.as_bytes()) {
                true => changes.unchanged += 1,
                false => changes.texts.push((path, text)),
            }
        }
        Ok(changes)
    }

    /// Returns whether all files are up to date.
    pub fn is_empty(&self) -> bool {
        self.paths().next().is_none()
    }

    /// Returns the paths of all files that are out of date.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let texts = self.texts.iter().map(|(path, _)| path.as_str());
        texts.chain(self.obsolete.iter().map(String::as_str))
    }

    /// Writes and removes the files below the workspace's root.
    pub fn make(&self, root: &Path) -> Result<(), Error> {
        let (last, first) = match self.texts.split_last() {
            Some((last, first)) => (Some(last), first),
            None => (None, &[][..]),
        };
        let write = |(path, text): &(String, String)| {
            files::write_durably(&root.join(path), text)
                .map_err(IoError::doing(format!("write `{path}`")))
        };
        first.iter().try_for_each(write)?;
        for path in &self.obsolete {
            let whole = root.join(path);
            files::remove_if_there(&whole).map_err(IoError::doing(format!("remove `{path}`")))?;
            // Removing the last file of a folder also removes the folder.
            if let Some(folder) = whole.parent() {
                let _ = fs_err::remove_dir(folder);
            }
        }
        last.map_or(Ok(()), write)?;
        Ok(())
    }
}
