//! What several commands do first: load the workspace that the command line selects.

use std::path::Path;

use super::args::Choice;
use super::user;
use crate::build::find_elsewhere;
use crate::error::Error;
use crate::gpu::GpuTarget;
use crate::names::ComponentName;
use crate::process::own_program;
use crate::report::{Shell, Style};
use crate::sources::Fetcher;
use crate::stack::Stack;
use crate::workspace::{Component, Selection, Workspace};

/// Loads the workspace with the chosen chroot, pin set and overrides.
pub fn workspace(
    dir: &Path,
    choice: &Choice,
    overrides: &[(String, String)],
) -> Result<Workspace, Error> {
    let overrides = overrides.iter().cloned().collect();
    let selection = Selection { overrides, ..user::selection(choice)? };
    Ok(Workspace::load(dir, &selection)?)
}

/// Adds what [`find_elsewhere`] returns to an error.
pub fn or_elsewhere(error: impl Into<Error>, workspace: &Workspace, what: &str) -> Error {
    let error = error.into();
    match find_elsewhere(workspace, what) {
        Some(help) => error.with_help(help),
        None => error,
    }
}

/// Returns the help for a command that finds no log or build root of a component, although other
/// chroots have one.
pub fn elsewhere_of(workspace: &Workspace, component: &ComponentName) -> Option<String> {
    let of_failure = find_elsewhere(workspace, &format!("work/{component}/logs"));
    of_failure.or_else(|| find_elsewhere(workspace, &format!("results/{component}/logs")))
}

/// Adds what [`find_elsewhere`] returns to an error, or else that a build comes first.
pub fn elsewhere_or_build(error: Error, workspace: &Workspace, what: &str) -> Error {
    let build = || format!("run `{} build` first", own_program());
    error.with_help(find_elsewhere(workspace, what).unwrap_or_else(build))
}

/// Resolves digests and commits for versions from the command line, because those in the pin set
/// belong to other versions.
pub fn resolve_overrides(workspace: &mut Workspace, fetcher: &Fetcher<'_>) -> Result<(), Error> {
    for at in workspace.pins.pins.values_mut().filter(|at| at.value.overridden) {
        fetcher.resolve(&at.value)?.settle(&mut at.value);
    }
    Ok(())
}

/// Returns a stack to examine a component's sources, and notes if builds leave it out because of its
/// GPU targets.
pub fn stack_to_examine<'w>(
    workspace: &'w Workspace,
    component: &Component,
    shell: &Shell,
) -> Result<Stack<'w>, Error> {
    let (stack, left_out) = Stack::to_examine(workspace, component)?;
    if let Some(reason) = left_out {
        let targets: Vec<&str> =
            stack.gpu_targets(component).iter().map(GpuTarget::as_str).collect();
        shell.talk(format!(
            "{} builds leave `{}` out: {reason}; its spec here is for {}",
            Style::Dim.paint("note:"),
            component.name,
            targets.join(", ")
        ));
    }
    Ok(stack)
}
