//! The lock of a build folder. It does not protect the workspace's own files.

use std::path::Path;
use std::time::Duration;

use crate::error::{Error, IoError, Kind};
use crate::events::{Event, Events};
use crate::files;
use crate::process::check_stop;
use crate::workspace::Workspace;

/// Keeps two runs from working in the same build folder at the same time. It is released when the
/// process ends, even if it is killed.
#[derive(Debug)]
pub struct BuildLock(#[expect(dead_code, reason = "it is held, not used")] files::Lock);

impl BuildLock {
    /// Takes the lock of a workspace's build folders for the chosen chroot. Builds with other pins
    /// have the same lock, because they share the results of components that the pins do not concern.
    pub fn take(workspace: &Workspace) -> Result<Self, Error> {
        Self::take_in(&workspace.regular_build_dir())
    }

    /// Takes the lock, and waits while another process has it.
    pub fn wait_for(workspace: &Workspace, events: &dyn Events) -> Result<Self, Error> {
        let dir = workspace.regular_build_dir();
        let mut reported = false;
        loop {
            if let Some(lock) = Self::try_take_in(&dir)? {
                return Ok(lock);
            }
            if !reported {
                let text = format!("waiting for the rocmrpm process that uses `{}`", dir.display());
                events.event(Event::Warning(text));
                reported = true;
            }
            check_stop()?;
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Returns whether another process works in a workspace's build folder.
    pub fn is_held(workspace: &Workspace) -> Result<bool, IoError> {
        let path = workspace.regular_build_dir().join(".lock");
        if !path.exists() {
            return Ok(false);
        }
        let lock = files::try_lock(&path);
        Ok(lock.map_err(IoError::doing(format!("lock `{}`", path.display())))?.is_none())
    }

    /// Takes the lock of a folder; `None` if another process has it.
    fn try_take_in(dir: &Path) -> Result<Option<Self>, IoError> {
        let path = dir.join(".lock");
        let lock = fs_err::create_dir_all(dir).and_then(|()| files::try_lock(&path));
        Ok(lock.map_err(IoError::doing(format!("lock `{}`", path.display())))?.map(Self))
    }

    /// Takes the lock of a folder that only one run may work in.
    pub fn take_in(dir: &Path) -> Result<Self, Error> {
        let mut lock = Self::try_take_in(dir)?;
        if lock.is_none() {
            // `is_held` of another process holds it for a moment.
            std::thread::sleep(Duration::from_millis(50));
            lock = Self::try_take_in(dir)?;
        }
        lock.ok_or_else(|| {
            let message = format!("another rocmrpm process is using `{}`", dir.display());
            Error::new(Kind::Environment, message)
                .with_help("pass `--wait` to `build`, or try again when it has finished")
        })
    }
}
