//! `rocmrpm shell`.

use std::path::Path;

use super::{Done, args, context};
use crate::build::{BuildRoot, Builder, HostBuilder, MockBuilder};
use crate::error::{Error, Kind};
use crate::process::{own_program, quote};
use crate::report::{Shell, Style};
use crate::spec::{self, History};
use crate::stack::Stack;
use crate::workspace::{Component, Workspace};

pub(super) fn run(args: &args::EnterShell, dir: &Path, shell: &Shell) -> Done {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let component = workspace.component(&args.component)?;
    if let Some((folder, command)) =
        HostBuilder::shell(&workspace, component, source_date(&workspace, component), &args.command)
    {
        shell.status(Style::Good, "Entering", folder.display());
        return Ok(command.interactive()?);
    }
    let elsewhere = context::elsewhere(&workspace, &format!("work/{}/build", component.name));
    let is_elsewhere = elsewhere.is_some();
    let build = || {
        let (name, chroot) = (&component.name, quote(&workspace.chroot.name));
        format!("only a failed build leaves one: {} build {name} --chroot {chroot}", own_program())
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

/// Returns the `SOURCE_DATE_EPOCH` of the component's builds, if its spec can be rendered.
fn source_date(workspace: &Workspace, component: &Component) -> Option<i64> {
    let stack = Stack::new(workspace).ok()?;
    let history = History::read(workspace).ok()?;
    Some(spec::render(&stack, component, &history).ok()?.release.seconds)
}
