//! What several commands do first: load the workspace that the command line selects.

use std::path::Path;

use super::args::Choice;
use super::user;
use crate::error::Error;
use crate::files::names_in;
use crate::gpu::GpuTarget;
use crate::names::ComponentName;
use crate::process::own_program;
use crate::report::{Shell, Style};
use crate::sources::Fetcher;
use crate::stack::Stack;
use crate::workspace::{Component, Selection, Workspace, parse_folder_name};

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

/// Returns the help for a command that finds nothing in the workspace's chroot although other
/// chroots have this file or folder in their build folders.
pub fn elsewhere(workspace: &Workspace, what: &str) -> Option<String> {
    let own = workspace.build_dir();
    let names = names_in(own.parent()?).ok()?.into_iter();
    let there: Vec<String> =
        names.filter(|name| own.with_file_name(name).join(what).exists()).collect();
    let chroots = there.iter().filter(|name| {
        matches!(parse_folder_name(name), (chroot, Some(pins))
            if chroot != workspace.chroot.name && pins.is_empty())
    });
    let options: Vec<String> = chroots.map(|name| format!("`--chroot {name}`")).collect();
    if !options.is_empty() {
        return Some(format!("for another chroot there is one: pass {}", options.join(" or ")));
    }
    let pins = there.iter().filter(|name| own.file_name() != Some(name.as_ref()));
    let options: Vec<String> = pins.filter_map(|name| pin_options(workspace, name)).collect();
    (!options.is_empty())
        .then(|| format!("for other pins there is one: pass {}", options.join(" or ")))
}

/// Returns the options that select the build folders of the chosen chroot with other pins from the
/// command line; `None` if there are none.
pub fn other_pins(workspace: &Workspace) -> Option<String> {
    let own = workspace.build_dir();
    let names = names_in(own.parent()?).ok()?.into_iter();
    let others = names.filter(|name| own.file_name() != Some(name.as_ref()));
    let options: Vec<String> = others.filter_map(|name| pin_options(workspace, &name)).collect();
    (!options.is_empty()).then(|| format!("pass {}", options.join(" or ")))
}

/// Returns the options that select a build folder of the chosen chroot with overridden pins.
fn pin_options(workspace: &Workspace, folder: &str) -> Option<String> {
    let (chroot, pins) = parse_folder_name(folder);
    let pins = pins.filter(|pins| chroot == workspace.chroot.name && !pins.is_empty())?;
    // The name of the folder has only the beginning of a commit.
    if pins.values().any(|version| version.contains("_git")) {
        return None;
    }
    let pins: Vec<String> =
        pins.iter().map(|(name, version)| format!("--pin {name}={version}")).collect();
    Some(format!("`{}`", pins.join(" ")))
}

/// Adds what [`elsewhere`] returns to an error.
pub fn or_elsewhere(error: impl Into<Error>, workspace: &Workspace, what: &str) -> Error {
    let error = error.into();
    match elsewhere(workspace, what) {
        Some(help) => error.with_help(help),
        None => error,
    }
}

/// Returns the help for a command that finds no log or build root of a component, although other
/// chroots have one.
pub fn elsewhere_of(workspace: &Workspace, component: &ComponentName) -> Option<String> {
    let of_failure = elsewhere(workspace, &format!("work/{component}/logs"));
    of_failure.or_else(|| elsewhere(workspace, &format!("results/{component}/logs")))
}

/// Adds what [`elsewhere`] returns to an error, or else that a build comes first.
pub fn elsewhere_or_build(error: Error, workspace: &Workspace, what: &str) -> Error {
    let build = || format!("run `{} build` first", own_program());
    error.with_help(elsewhere(workspace, what).unwrap_or_else(build))
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
