//! `rocmrpm shell`.

use std::path::Path;

use super::{Done, args, context};
use crate::build::{BuildRoot, Builder, HostBuilder, MockBuilder};
use crate::error::{Error, Kind};
use crate::process::own_program;
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
    let none = Error::new(Kind::Usage, format!("`{}` has no build root to enter", component.name))
        .with_help(format!(
            "only a failed build leaves one: {} build {} --chroot {}",
            own_program(),
            component.name,
            workspace.chroot.name
        ));
    let left = format!("work/{}/build", component.name);
    let none = context::or_elsewhere(none, &workspace, &left);
    if workspace.chroot.is_host() {
        return Err(none);
    }
    MockBuilder::new(&workspace).ready()?;
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
