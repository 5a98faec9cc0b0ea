//! Loads the workspace that the command line selects, as most commands do first.

use std::path::Path;

use super::args::Choice;
use crate::closure::earlier;
use crate::error::{Error, Problems};
use crate::sources::Fetcher;
use crate::stack::Stack;
use crate::workspace::{Selection, Workspace, closure_not_written};

/// Loads the workspace with the chosen chroot, pin set and overrides.
pub fn workspace(dir: &Path, choice: &Choice, overrides: &[(String, String)]) -> Result<Workspace, Error> {
    let selection = Selection {
        chroot: choice.chroot.clone(),
        pins: choice.pins.clone(),
        overrides: overrides.iter().cloned().collect(),
        ..Selection::default()
    };
    Ok(Workspace::load(dir, &selection)?)
}

/// Resolves digests and commits for versions from the command line, because those in the pin set
/// belong to other versions.
pub fn resolve_overrides(workspace: &mut Workspace, fetcher: &Fetcher<'_>) -> Result<(), Error> {
    for at in workspace.pins.pins.values_mut().filter(|at| at.value.overridden) {
        fetcher.resolve(&at.value)?.settle(&mut at.value);
    }
    Ok(())
}

/// Refuses stacks that users could not install or upgrade: a component without a written Python
/// closure for a chroot, and members with a lower version than in an earlier release. Builds for
/// this machine are exempt, because they are not installed from a repository.
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
