//! `rocmrpm clean`.

use std::path::{Path, PathBuf};

use super::{Done, args, context};
use crate::build::{BuildLock, build_folder};
use crate::error::{Error, IoError};
use crate::files;
use crate::process::end_leftovers;
use crate::report::{Shell, Style, human_size};
use crate::workspace::Workspace;

/// What failed and stopped builds, `prep`, `shell`, and `reproduce` leave, which has a folder per
/// component.
const LEFT: [&str; 4] = ["work", "prep", "shell", "reproduce"];

/// The results that have a folder per component.
const RESULTS: [&str; 3] = ["results", "srpms", "wheels"];

pub(super) fn run(args: &args::Clean, dir: &Path, shell: &Shell) -> Done {
    let workspace = context::workspace(dir, &args.choice, &args.pin.overrides)?;
    let build_dir = workspace.build_dir();
    if !build_dir.exists() {
        shell.status(
            Style::Good,
            "Clean",
            format!("nothing was built for `{}`", workspace.chroot.name),
        );
        show_elsewhere(args, &workspace, shell);
        return Ok(0);
    }
    let _lock = BuildLock::take(&workspace)?;
    if !args.dry_run {
        // A run that was killed could not stop its child processes, which would write there.
        for name in workspace.components.keys() {
            let folder = build_folder(&build_dir, name);
            if folder.exists() {
                end_leftovers(&folder)
                    .map_err(IoError::doing("stop processes of an earlier run"))?;
            }
        }
    }
    let mut removed = 0;
    let chosen = chosen(args, &workspace, &build_dir)?;
    if chosen.is_empty() {
        show_elsewhere(args, &workspace, shell);
    }
    for path in chosen {
        let size = size_of(&path);
        removed += size;
        let shown = format!("{}  {}", path.display(), Style::Dim.paint(human_size(size)));
        if args.dry_run {
            shell.data(path.display())?;
        } else {
            shell.status(Style::Good, "Removing", shown);
            files::remove_if_there(&path)
                .map_err(IoError::doing(format!("remove `{}`", path.display())))?;
        }
    }
    if args.all && !args.dry_run && build_dir != workspace.regular_build_dir() {
        // Something may have been kept.
        let _ = fs_err::remove_dir(&build_dir);
    }
    let word = if args.dry_run { "Would free" } else { "Freed" };
    shell.status(Style::Good, word, human_size(removed));
    Ok(0)
}

/// Names the chroots that have what the command would remove.
fn show_elsewhere(args: &args::Clean, workspace: &Workspace, shell: &Shell) {
    let folders = LEFT.iter().chain(RESULTS.iter().filter(|_| args.all));
    let help = folders.flat_map(|folder| match &args.components[..] {
        [] => vec![(*folder).to_owned()],
        names => names.iter().map(|name| format!("{folder}/{name}")).collect(),
    });
    let mut help = help.filter_map(|path| context::elsewhere(workspace, &path));
    if let Some(help) = help.next() {
        shell.help(help);
    }
}

/// Returns the paths to remove, sorted.
fn chosen(
    args: &args::Clean,
    workspace: &Workspace,
    build_dir: &Path,
) -> Result<Vec<PathBuf>, Error> {
    let action = || IoError::doing(format!("read `{}`", build_dir.display()));
    if args.components.is_empty() {
        let names = files::names_in(build_dir).map_err(action())?.into_iter();
        // The lock of this run stays, the list of the builds that COPR has, and the repositories of
        // `prep --git`, which may have commits that are not saved.
        let kept = |name: &str| name.starts_with('.') || ["copr", "git"].contains(&name);
        let chosen = names.filter(|name| match args.all {
            true => !kept(name),
            false => LEFT.contains(&name.as_str()),
        });
        return Ok(chosen.map(|name| build_dir.join(name)).collect());
    }
    let mut paths = Vec::new();
    for name in &args.components {
        let name = workspace.component(name)?.name.as_str();
        let results = RESULTS.iter().filter(|_| args.all);
        let folders = LEFT.iter().chain(results).map(|folder| build_dir.join(folder).join(name));
        paths.extend(folders.filter(|path| path.exists()));
    }
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Returns the size of a file or folder in bytes. What cannot be read counts as empty.
pub(super) fn size_of(path: &Path) -> u64 {
    let entries = walkdir::WalkDir::new(path).into_iter().filter_map(Result::ok);
    let files = entries.filter(|entry| entry.file_type().is_file());
    files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}
