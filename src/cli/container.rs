//! `rocmrpm container`.

use std::path::{Path, PathBuf};

use super::{Done, args, context};
use crate::container;
use crate::error::{Error, IoError};
use crate::files;
use crate::report::{Shell, Style};
use crate::stack::Stack;
use crate::workspace::{Selection, Workspace};

pub(super) fn run(args: &args::Container, dir: &Path, shell: &Shell) -> Done {
    if args.command.is_some() {
        return Err(Error::new(crate::error::Kind::Internal, "this is not there yet"));
    }
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let stack = Stack::new(&workspace)?;
    if args.print {
        shell.data(container::render(&stack)?)?;
        return Ok(0);
    }
    let path = workspace.root.join(container::file_name(&workspace.chroot.name));
    write(&path, &container::render(&stack)?, &workspace, shell)?;
    Ok(0)
}

/// Returns the container file that belongs to a workspace: for the chosen chroot if
/// that has an image, else for the workspace's default one; `None` if neither has,
/// or if no component belongs into an image.
pub(super) fn wanted(workspace: &Workspace) -> Result<Option<(PathBuf, String)>, Error> {
    if !workspace.chroot.container_image.is_empty() {
        return rendered(workspace);
    }
    let overrides = workspace.pins.pins.iter().filter(|(_, at)| at.value.overridden);
    let selection = Selection {
        chroot: None,
        pins: Some(workspace.pins.name.clone()),
        overrides: overrides.map(|(name, at)| (name.to_string(), at.value.version.clone())).collect(),
    };
    rendered(&Workspace::load(&workspace.root, &selection)?)
}

fn rendered(workspace: &Workspace) -> Result<Option<(PathBuf, String)>, Error> {
    let stack = Stack::new(workspace)?;
    let nothing = stack.order().iter().all(|c| c.container_packages.is_empty());
    if nothing || workspace.chroot.container_image.is_empty() {
        return Ok(None);
    }
    let dirty = workspace.pins.pins.values().any(|at| at.value.overridden);
    // What was made of overridden pins must not end up in the workspace's history.
    let dir = if dirty { workspace.build_dir() } else { workspace.root.clone() };
    Ok(Some((dir.join(container::file_name(&workspace.chroot.name)), container::render(&stack)?)))
}

/// Writes a container file and says so.
pub(super) fn write(path: &Path, text: &str, workspace: &Workspace, shell: &Shell) -> Result<(), Error> {
    let shown = path.strip_prefix(&workspace.root).unwrap_or(path).display().to_string();
    let changed = files::write_if_changed(path, text).map_err(IoError::doing(format!("write `{shown}`")))?;
    let (style, word) = if changed { (Style::Good, "Rendered") } else { (Style::Dim, "Unchanged") };
    shell.status(style, word, shown);
    Ok(())
}
