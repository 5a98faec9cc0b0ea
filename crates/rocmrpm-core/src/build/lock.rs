//! The lock of a build folder. It does not protect the workspace's own files.

use std::path::Path;

use crate::error::{Error, IoError, Kind};
use crate::files;
use crate::workspace::Workspace;

/// Keeps two runs from working in the same build folder at the same time. It is released when the
/// process ends, even if it is killed.
#[derive(Debug)]
pub struct BuildLock(#[expect(dead_code, reason = "it is held, not used")] files::Lock);

impl BuildLock {
    /// Takes the lock of a workspace's build folder for the chosen chroot.
    pub fn take(workspace: &Workspace) -> Result<Self, Error> {
        Self::take_in(&workspace.build_dir())
    }

    /// Takes the lock of a folder that only one run may work in.
    pub fn take_in(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(".lock");
        let refused = || IoError::doing(format!("lock `{}`", path.display()));
        fs_err::create_dir_all(dir).map_err(refused())?;
        files::try_lock(&path).map_err(refused())?.map(Self).ok_or_else(|| {
            let message = format!("another rocmrpm process is using `{}`", dir.display());
            Error::new(Kind::Environment, message)
                .with_help("wait until it finishes, or use another chroot")
        })
    }
}
