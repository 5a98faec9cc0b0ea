//! Writes the container files of a workspace: which ones it has, and their paths. Does not render
//! their contents.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{file_name, is_possible, render};
use crate::error::{Error, IoError};
use crate::events::{Event, Events, Step};
use crate::files;
use crate::stack::Stack;
use crate::workspace::{Container, Flavor, Selection, Workspace};

/// Writes all container files of a workspace and returns their paths.
pub fn write_all(workspace: &Workspace, events: &dyn Events) -> Result<Vec<PathBuf>, Error> {
    let wanted = wanted(workspace)?;
    for (path, text) in &wanted {
        write(path, text, workspace, events)?;
    }
    Ok(wanted.into_iter().map(|(path, _)| path).collect())
}

/// Writes a container file and reports whether that changed it.
pub fn write(
    path: &Path,
    text: &str,
    workspace: &Workspace,
    events: &dyn Events,
) -> Result<(), Error> {
    let detail = path.strip_prefix(&workspace.root).unwrap_or(path).display().to_string();
    let changed =
        files::write_if_changed(path, text).map_err(IoError::doing(format!("write `{detail}`")))?;
    events.event(if changed {
        Event::Step { step: Step::Rendered, detail }
    } else {
        Event::Unchanged { detail }
    });
    Ok(())
}

/// Returns the container files of a workspace: for the chosen chroot if it has an image, otherwise
/// for the workspace's default chroot, and for the chroots that flavors name. Empty if no
/// component belongs in an image.
pub fn wanted(workspace: &Workspace) -> Result<Vec<(PathBuf, String)>, Error> {
    let mut files = Vec::new();
    each_workspace(workspace, |workspace, flavors| {
        let stack = Stack::new(workspace)?;
        for flavor in flavors {
            files.push((path(workspace, flavor), render(&stack, flavor)?));
        }
        Ok(())
    })?;
    Ok(files)
}

/// Calls `work` for the workspace with each chroot that has container files, and their flavors.
pub(super) fn each_workspace(
    workspace: &Workspace,
    mut work: impl FnMut(&Workspace, &[Flavor]) -> Result<(), Error>,
) -> Result<(), Error> {
    let load = |chroot: Option<&String>| {
        let overrides = workspace.pins.pins.iter().filter(|(_, at)| at.value.overridden);
        let selection = Selection {
            chroot: chroot.cloned(),
            pins: Some(workspace.pins.name.clone()),
            overrides: overrides
                .map(|(name, at)| (name.to_string(), at.value.version.clone()))
                .collect(),
            ..Selection::default()
        };
        Workspace::load(&workspace.root, &selection)
    };
    let default;
    let chosen = match workspace.chroot.container_image.is_empty() {
        false => workspace,
        true => {
            default = load(None)?;
            &default
        }
    };
    let stack = Stack::new(chosen)?;
    let containers = &workspace.manifest.containers;
    // `rocmrpm container --flavor` explains why the chroot does not support the others.
    let possible: Vec<Flavor> =
        containers.keys().filter(|flavor| is_possible(&stack, flavor)).cloned().collect();
    work(chosen, &possible)?;
    let others = containers.values().flat_map(|container| &container.chroots).map(|at| &at.value);
    for chroot in others.filter(|name| **name != chosen.chroot.name).collect::<BTreeSet<_>>() {
        let names = |container: &Container| container.chroots.iter().any(|at| at.value == *chroot);
        let flavors: Vec<Flavor> = containers
            .iter()
            .filter(|(_, container)| names(container))
            .map(|(flavor, _)| flavor.clone())
            .collect();
        work(&load(Some(chroot))?, &flavors)?;
    }
    Ok(())
}

/// Returns where a flavor's container file is written.
fn path(workspace: &Workspace, flavor: &Flavor) -> PathBuf {
    let dirty = workspace.pins.pins.values().any(|at| at.value.overridden);
    // Files rendered from overridden pins must not end up in the workspace's history.
    let dir = if dirty { workspace.build_dir() } else { workspace.root.clone() };
    dir.join(file_name(&workspace.chroot.name, flavor))
}
