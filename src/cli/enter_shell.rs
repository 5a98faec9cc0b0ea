//! `rocmrpm shell`.

use std::path::Path;

use super::{Done, args, context};
use crate::build::{
    BuildRoot, Builder, HostBuilder, MockBuilder, Results, Stage, required_packages,
};
use crate::error::{Error, Kind};
use crate::prep;
use crate::process::{own_program, quote};
use crate::report::{Progress, Shell, Style};
use crate::sources::{Cache, Fetcher};
use crate::spec::{self, History};
use crate::stack::Stack;
use crate::workspace::{Component, Workspace};

pub(super) fn run(args: &args::EnterShell, dir: &Path, shell: &Shell) -> Done {
    let workspace = context::workspace(dir, &args.choice, &args.pin.overrides)?;
    let component = workspace.component(&args.component)?;
    if let Some((folder, command)) =
        HostBuilder::shell(&workspace, component, source_date(&workspace, component), &args.command)
    {
        shell.status(Style::Good, "Entering", folder.display());
        return Ok(command.interactive()?);
    }
    let elsewhere = context::elsewhere(&workspace, &format!("work/{}/build", component.name));
    let is_elsewhere = elsewhere.is_some();
    if workspace.chroot.is_host() && !is_elsewhere {
        return enter_prepared(args, workspace, shell);
    }
    let build = || {
        let (name, chroot) = (&component.name, quote(&workspace.chroot.name));
        format!(
            "only a failed build leaves one: {0} build {name} --chroot {chroot}; to look at its sources \
             now, run {0} prep {name} --chroot {chroot}",
            own_program()
        )
    };
    let none = Error::new(Kind::Usage, format!("`{}` has no build root to enter", component.name))
        .with_help(elsewhere.unwrap_or_else(build));
    let ready = MockBuilder::new(&workspace).ready();
    // A missing mock does not explain why the other chroot's build root is not found.
    if workspace.chroot.is_host() || is_elsewhere && ready.is_err() {
        return Err(none);
    }
    ready?;
    let root = BuildRoot::of(&workspace, &component.name);
    let Some(path) = root.path()? else { return Err(none) };
    shell.status(Style::Good, "Entering", path.display());
    Ok(root.shell(&args.command).interactive()?)
}

/// Enters the sources that `rocmrpm prep` prepares, in the environment of a build.
fn enter_prepared(args: &args::EnterShell, mut workspace: Workspace, shell: &Shell) -> Done {
    let progress = Progress::new(shell);
    let root = workspace.root.clone();
    let fetcher = Fetcher::new(Cache::from_env()?, &root, &progress).offline(args.offline);
    context::resolve_overrides(&mut workspace, &fetcher)?;
    let component = workspace.component(&args.component)?;
    let stack = context::stack_to_examine(&workspace, component, shell)?;
    let prepared = prep::prepared(&stack, component, &fetcher, &progress)?;
    drop(progress);
    for required in stack.with_required(&[component]).into_values() {
        let results =
            Results::of(&workspace.build_dir_of(&required.name), Stage::Rpm, &required.name);
        if required.name != component.name && results.rpms()?.is_empty() {
            let (name, required) = (&component.name, &required.name);
            shell.warning(format!("`{name}` requires `{required}`, which is not built"));
        }
    }
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
