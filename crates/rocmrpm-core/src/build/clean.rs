//! What can be removed from a build folder, and stopping the processes that would write there.

use std::path::{Path, PathBuf};

use super::build_folder;
use crate::error::{Error, IoError};
use crate::files;
use crate::process::end_leftovers;
use crate::workspace::Workspace;

/// What failed and stopped builds, `prep`, `shell`, and `reproduce` leave, which has a folder per
/// component.
const LEFT: [&str; 4] = ["work", "prep", "shell", "reproduce"];

/// The results that have a folder per component.
const RESULTS: [&str; 3] = ["results", "srpms", "wheels"];

/// Returns the folders that have a folder per component: what builds left, and with `results`, what they
/// made.
pub fn removable_folders(results: bool) -> impl Iterator<Item = &'static str> {
    LEFT.iter().chain(RESULTS.iter().filter(move |_| results)).copied()
}

/// Stops the processes of builds whose rocmrpm was killed, which would write to the build folder.
pub fn end_earlier_builds(workspace: &Workspace) -> Result<(), Error> {
    let build_dir = workspace.build_dir();
    for name in workspace.components.keys() {
        let folder = build_folder(&build_dir, name);
        if folder.exists() {
            end_leftovers(&folder).map_err(IoError::doing("stop processes of an earlier run"))?;
        }
    }
    Ok(())
}

/// Returns what can be removed from a workspace's build folder, sorted: what builds of these components
/// left, or of all if none is named; with `results`, their results as well.
pub fn removable(
    workspace: &Workspace,
    components: &[String],
    results: bool,
) -> Result<Vec<PathBuf>, Error> {
    let build_dir = &workspace.build_dir();
    let action = || IoError::doing(format!("read `{}`", build_dir.display()));
    if components.is_empty() {
        let names = files::names_in(build_dir).map_err(action())?.into_iter();
        // The lock of this run stays, the list of the builds that COPR has, and the repositories of
        // `prep --git`, which may have commits that are not saved.
        let kept = |name: &str| name.starts_with('.') || ["copr", "git"].contains(&name);
        let chosen = names.filter(|name| match results {
            true => !kept(name),
            false => LEFT.contains(&name.as_str()),
        });
        return Ok(chosen.map(|name| build_dir.join(name)).collect());
    }
    let mut paths = Vec::new();
    for name in components {
        let name = workspace.component(name)?.name.as_str();
        let folders = removable_folders(results).map(|folder| build_dir.join(folder).join(name));
        paths.extend(folders.filter(|path| path.exists()));
    }
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Returns the size of a file or folder in bytes. What cannot be read counts as empty.
pub fn size_of(path: &Path) -> u64 {
    let entries = walkdir::WalkDir::new(path).into_iter().filter_map(Result::ok);
    let files = entries.filter(|entry| entry.file_type().is_file());
    files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}
