//! `rocmrpm shell`.

use std::path::Path;

use super::{CommandResult, args, context};
use crate::build::find_elsewhere;
use crate::build::{
    BuildRoot, Builder, HostBuilder, MockBuilder, Results, Stage, is_prepared, prepare_root,
    required_packages,
};
use crate::error::{Error, Kind};
use crate::prep;
use crate::report::{Progress, Shell, Style};
use crate::sources::{Cache, Fetcher};
use crate::spec::{self, History};
use crate::stack::Stack;
use crate::workspace::{Component, Workspace};

pub(super) fn run(args: &args::EnterShell, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = context::workspace(dir, &args.choice, &args.pin.overrides)?;
    let component = workspace.component(&args.component)?;
    if let Some((folder, command)) =
        HostBuilder::shell(&workspace, component, source_date(&workspace, component), &args.command)
    {
        shell.status(Style::Good, "Entering", folder.display());
        return Ok(command.interactive()?);
    }
    // What a failed build left for other pins or another chroot is what the user means.
    let elsewhere = find_elsewhere(&workspace, &format!("work/{}/build", component.name));
    if workspace.chroot.is_host() && elsewhere.is_none() {
        return enter_prepared(args, workspace, shell);
    }
    let is_ready = MockBuilder::new(&workspace).ready();
    // A missing mock does not explain why the other chroot's build root is not found.
    if let Some(help) = elsewhere.filter(|_| workspace.chroot.is_host() || is_ready.is_err()) {
        let message = format!("`{}` has no build root to enter", component.name);
        return Err(Error::new(Kind::Usage, message).with_help(help));
    }
    is_ready?;
    enter_mock(args, workspace, shell)
}

/// Enters the build root that a failed build left in mock; prepares one if there is none.
fn enter_mock(args: &args::EnterShell, mut workspace: Workspace, shell: &Shell) -> CommandResult {
    let name = workspace.component(&args.component)?.name.clone();
    let left = BuildRoot::of(&workspace, &name);
    if !is_prepared(&workspace, &name)
        && let Some(path) = left.path()?
    {
        shell.status(Style::Good, "Entering", path.display());
        return Ok(left.shell(&args.command).interactive()?);
    }
    let progress = Progress::new(shell);
    let root = workspace.root.clone();
    let fetcher = Fetcher::new(Cache::from_env()?, &root, &progress).offline(args.offline);
    context::resolve_overrides(&mut workspace, &fetcher)?;
    let component = workspace.component(&args.component)?;
    let stack = context::stack_to_examine(&workspace, component, shell)?;
    warn_about_requirements(&stack, component, shell)?;
    let root = prepare_root(&stack, component, &fetcher, &progress)?;
    drop(progress);
    let path = root.path()?.unwrap_or_default();
    shell.status(Style::Good, "Entering", path.display());
    Ok(root.shell(&args.command).interactive()?)
}

/// Warns about each required component that is not built.
fn warn_about_requirements(
    stack: &Stack<'_>,
    component: &Component,
    shell: &Shell,
) -> Result<(), Error> {
    for required in stack.with_required(&[component]).into_values() {
        let build_dir = stack.workspace.build_dir_of(&required.name);
        let results = Results::of(&build_dir, Stage::Rpm, &required.name);
        if required.name != component.name && results.rpms()?.is_empty() {
            let (name, required) = (&component.name, &required.name);
            shell.warning(format!("`{name}` requires `{required}`, which is not built"));
        }
    }
    Ok(())
}

/// Enters the sources that `rocmrpm prep` prepares, in the environment of a build.
fn enter_prepared(
    args: &args::EnterShell,
    mut workspace: Workspace,
    shell: &Shell,
) -> CommandResult {
    let progress = Progress::new(shell);
    let root = workspace.root.clone();
    let fetcher = Fetcher::new(Cache::from_env()?, &root, &progress).offline(args.offline);
    context::resolve_overrides(&mut workspace, &fetcher)?;
    let component = workspace.component(&args.component)?;
    let stack = context::stack_to_examine(&workspace, component, shell)?;
    let prepared = prep::prepared(&stack, component, &fetcher, &progress)?;
    drop(progress);
    warn_about_requirements(&stack, component, shell)?;
    let folder = prepared.record.folder.clone();
    let command = HostBuilder::shell_before_build(
        &workspace,
        (&prepared.work, &folder),
        &required_packages(&stack, component)?,
        prepared.spec.release.seconds,
        &args.command,
    )?;
    // Other commands can use the sources while the shell runs.
    drop(prepared);
    shell.status(Style::Good, "Entering", folder.display());
    Ok(command.interactive()?)
}

/// Returns the `SOURCE_DATE_EPOCH` of the component's builds, if its spec can be rendered.
fn source_date(workspace: &Workspace, component: &Component) -> Option<i64> {
    let stack = Stack::new(workspace).ok()?;
    let history = History::read(workspace).ok()?;
    Some(spec::render(&stack, component, &history).ok()?.release.seconds)
}
