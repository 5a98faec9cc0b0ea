//! The folder of the packages: all appear in it in one step, instead of those of an earlier run.

use std::path::{Path, PathBuf};

use rocmrpm_base::error::IoError;
use rocmrpm_base::files;

use super::SdkError;

/// A folder that is written before it has its name. Dropping it removes it.
pub(super) struct Output {
    folder: PathBuf,
    staging: tempfile::TempDir,
}

impl Output {
    /// Creates the unnamed folder. Fails if the one of this name has other files than ROCm's
    /// packages, which would be lost.
    pub fn new(folder: &Path) -> Result<Self, SdkError> {
        let occupied = |name: &str| SdkError::Occupied { path: folder.join(name) };
        if folder.exists() && !folder.is_dir() {
            return Err(occupied(""));
        }
        if let Some(name) = files::names_in(folder)?.iter().find(|name| !is_package(name)) {
            return Err(occupied(name));
        }
        // A link keeps its name.
        let whole = fs_err::canonicalize(folder).or_else(|_| std::path::absolute(folder))?;
        if std::env::current_dir().is_ok_and(|current| current == whole) {
            return Err(SdkError::CurrentFolder);
        }
        let parent = whole.ancestors().skip(1).find(|folder| folder.is_dir());
        let staging = tempfile::Builder::new()
            .prefix(".rocmrpm-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir_in(parent.unwrap_or(Path::new("/")))?;
        Ok(Self { folder: whole, staging })
    }

    /// Returns the unnamed folder.
    pub fn path(&self) -> &Path {
        self.staging.path()
    }

    /// Gives the folder its name, and removes the one that had it.
    pub fn publish(self) -> Result<(), SdkError> {
        let (new, folder) = (self.staging.path(), &self.folder);
        let replace = || {
            if let Ok(old) = fs_err::metadata(folder) {
                fs_err::set_permissions(new, old.permissions())?;
            }
            fs_err::create_dir_all(folder.parent().unwrap_or(folder))?;
            files::exchange(new, folder)
        };
        let action = || IoError::doing(format!("replace the folder `{}`", folder.display()));
        replace().map_err(|error| SdkError::Io(action()(error)))
    }
}

/// Returns whether an earlier run may have written a file.
fn is_package(name: &str) -> bool {
    let wheel = name.starts_with("rocm_sdk_") || name.starts_with("rocm_profiler-");
    wheel && name.ends_with(".whl") || name.starts_with("rocm-") && name.ends_with(".tar.gz")
}
