//! What most commands begin with: the workspace as the command line selects it.

use std::path::Path;

use super::args::Choice;
use crate::closure::earlier;
use crate::error::{Error, Problems};
use crate::sources::Fetcher;
use crate::stack::Stack;
use crate::workspace::{Selection, Workspace, closure_not_written};

/// Reads the workspace with the chosen chroot, pin set and overrides.
pub fn workspace(dir: &Path, choice: &Choice, overrides: &[(String, String)]) -> Result<Workspace, Error> {
    let selection = Selection {
        chroot: choice.chroot.clone(),
        pins: choice.pins.clone(),
        overrides: overrides.iter().cloned().collect(),
        ..Selection::default()
    };
    Ok(Workspace::load(dir, &selection)?)
}

/// Finds digests and commits for versions that came from the command line: what the
/// pin set records is about other versions.
pub fn resolve_overrides(workspace: &mut Workspace, fetcher: &Fetcher<'_>) -> Result<(), Error> {
    for at in workspace.pins.pins.values_mut().filter(|at| at.value.overridden) {
        fetcher.resolve(&at.value)?.settle(&mut at.value);
    }
    Ok(())
}

/// Refuses what users could not install or upgrade: a component whose Python closure is not
/// written for a chroot, and members that have a lower version than in an earlier release. What is
/// built for this machine is not installed from a repository.
pub fn check_closures<'w>(
    workspaces: impl IntoIterator<Item = &'w Workspace>,
    names: &[String],
) -> Result<(), Error> {
    let mut problems = Problems::default();
    for workspace in workspaces.into_iter().filter(|workspace| !workspace.chroot.is_host()) {
        let stack = Stack::new(workspace)?;
        problems.0.extend(closure_not_written(workspace, &stack.named_with_requirements(names)?));
        problems.0.extend(earlier::held_back(workspace)?);
    }
    if problems.0.is_empty() { Ok(()) } else { Err(problems.into()) }
}
