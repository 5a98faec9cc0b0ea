//! What several commands do first: load the workspace that the command line selects, and find what
//! this machine knows about a destination.

use std::path::Path;

use super::args::Choice;
use super::user;
use crate::closure::earlier;
use crate::error::{Error, IoError, Problems};
use crate::files::names_in;
use crate::gpu::GpuTarget;
use crate::index::publish::Destination;
use crate::index::seen::Seen;
use crate::names::ComponentName;
use crate::process::own_program;
use crate::report::{Shell, Style};
use crate::sources::{Cache, Fetcher};
use crate::stack::Stack;
use crate::workspace::{Component, Selection, Workspace, closure_not_written, parse_folder_name};

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

/// Returns the record of the serial numbers that this machine has seen at a destination.
pub fn seen(destination: &Destination, allow_rollback: bool) -> Result<Seen, Error> {
    let place = match destination {
        Destination::Folder(path) => std::path::absolute(path)
            .map_err(IoError::doing("find the destination"))?
            .to_string_lossy()
            .into_owned(),
        other => other.open(false)?.name(),
    };
    Ok(Seen::of(Cache::from_env()?.dir(), &place, allow_rollback))
}
