//! `rocmrpm remove`.

use std::path::Path;

use super::{CommandResult, args, context};
use crate::removal::Removal;
use crate::report::{Shell, Style};

pub(super) fn run(args: &args::Remove, dir: &Path, shell: &Shell) -> CommandResult {
    let choice = args::Choice { chroot: None, pins: None };
    let workspace = context::workspace(dir, &choice, &[])?;
    let removal = Removal::of(&workspace, &args.components, args.force)?;
    removal.apply()?;
    for folder in &removal.folders {
        shell.status(Style::Good, "Removed", folder);
    }
    for (file, _) in &removal.edited {
        shell.status(Style::Good, "Edited", file);
    }
    Ok(0)
}
