//! Finds programs on `PATH`, and this one.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::text::quote;

/// Returns the path of a program on `PATH`, if found.
pub fn find_program(program: &str) -> Option<PathBuf> {
    find_program_in(&std::env::var_os("PATH").unwrap_or_default(), program)
}

/// Returns the path of a program in a list of folders in the format of `PATH`, if found.
pub fn find_program_in(path: &OsStr, program: &str) -> Option<PathBuf> {
    let runs = |path: &Path| {
        let mode = std::fs::metadata(path)
            .map(|m| std::os::unix::fs::PermissionsExt::mode(&m.permissions()));
        path.is_file() && mode.is_ok_and(|mode| mode & 0o111 != 0)
    };
    std::env::split_paths(path).map(|dir| dir.join(program)).find(|candidate| runs(candidate))
}

/// Returns how the user can run this program again: by name if it is on `PATH`, otherwise by its
/// path, relative if it is below the current folder.
pub fn own_program() -> String {
    let Ok(own) = std::env::current_exe() else { return "rocmrpm".to_owned() };
    // Linux appends this if the file was replaced since the start (proc_pid_exe(5)).
    let path = own.to_string_lossy();
    let own = PathBuf::from(path.strip_suffix(" (deleted)").unwrap_or(&path));
    let name = own.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if find_program(&name).and_then(|found| found.canonicalize().ok()) == own.canonicalize().ok() {
        return name;
    }
    let here = std::env::current_dir().unwrap_or_default();
    quote(&own.strip_prefix(&here).unwrap_or(&own).to_string_lossy())
}
