//! `rocmrpm clean`.

use std::path::Path;

use super::{CommandResult, args, context};
use crate::build::{
    BuildLock, end_earlier_builds, find_elsewhere, removable, removable_folders, size_of,
};
use crate::error::IoError;
use crate::files;
use crate::report::{Shell, Style, human_size};
use crate::workspace::Workspace;

pub(super) fn run(args: &args::Clean, dir: &Path, shell: &Shell) -> CommandResult {
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
        end_earlier_builds(&workspace)?;
    }
    let mut removed = 0;
    let chosen = removable(&workspace, &args.components, args.all)?;
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
    let help = removable_folders(args.all).flat_map(|folder| match &args.components[..] {
        [] => vec![folder.to_owned()],
        names => names.iter().map(|name| format!("{folder}/{name}")).collect(),
    });
    let mut help = help.filter_map(|path| find_elsewhere(workspace, &path));
    if let Some(help) = help.next() {
        shell.help(help);
    }
}
