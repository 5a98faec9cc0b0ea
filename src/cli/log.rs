//! `rocmrpm log`.

use std::path::Path;
use std::time::Duration;

use super::{CommandResult, args, context};
use crate::build::{BuildLock, BuildLog, LastBuild, build_logs, main_log};
use crate::error::{Error, IoError, Kind};
use crate::names::{ComponentName, nearest};
use crate::process::{check_stop, own_program, quote};
use crate::report::{Shell, Table, human_size};
use crate::text::visible;
use crate::workspace::Workspace;

/// The interval of reading a log that grows.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(super) fn run(args: &args::Log, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = context::workspace(dir, &args.choice, &args.pin.overrides)?;
    let name = match &args.component {
        Some(name) => workspace.component(name)?.name.clone(),
        None => last_built(&workspace)?,
    };
    let logs = build_logs(&workspace.build_dir_of(&name), &name)?;
    if args.list {
        let mut table = Table::new(&["log", "size", "path"]);
        for BuildLog { name, path, size, .. } in &logs {
            table.row([name.clone(), human_size(*size), path.display().to_string()]);
        }
        if logs.is_empty() {
            return Err(without_logs(&workspace, &name));
        }
        shell.data(table.text())?;
        return Ok(0);
    }
    let log = match &args.log {
        None => main_log(&logs).ok_or_else(|| without_logs(&workspace, &name))?,
        Some(wanted) => logs.iter().find(|log| log.name == *wanted).ok_or_else(|| {
            let error =
                Error::new(Kind::Usage, format!("`{name}` has no log `{}`", visible(wanted)));
            match nearest(wanted, logs.iter().map(|log| log.name.as_str())) {
                Some(near) => error.with_help(format!("did you mean `{near}`?")),
                None => error.with_help(format!("list them: {} log {name} --list", own_program())),
            }
        })?,
    };
    let action = || IoError::doing(format!("read `{}`", log.path.display()));
    let mut file = fs_err::File::open(&log.path).map_err(action())?;
    loop {
        // Asked first: what the build writes before it finishes is then read below.
        let finished = !args.follow || !is_running(&workspace, &name)?;
        if !shell.copy(&mut file).map_err(action())? || finished {
            return Ok(0);
        }
        check_stop()?;
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn is_running(workspace: &Workspace, name: &ComponentName) -> Result<bool, Error> {
    let last = LastBuild::of(&workspace.build_dir_of(name), name)?;
    Ok(matches!(last, LastBuild::Unfinished) && BuildLock::is_held(workspace)?)
}

/// Returns the component whose log was written last.
fn last_built(workspace: &Workspace) -> Result<ComponentName, Error> {
    let mut last = None;
    for name in workspace.components.keys() {
        let written =
            build_logs(&workspace.build_dir_of(name), name)?.iter().map(|log| log.modified).max();
        last = last.max(written.map(|time| (time, name)));
    }
    match last {
        Some((_, name)) => Ok(name.clone()),
        None => {
            let message = format!("nothing was built for `{}`", workspace.chroot.name);
            let error = Error::new(Kind::Usage, message);
            Err(context::elsewhere_or_build(error, workspace, "results"))
        }
    }
}

fn without_logs(workspace: &Workspace, name: &ComponentName) -> Error {
    let chroot = &workspace.chroot.name;
    let build =
        || format!("build it first: {} build {name} --chroot {}", own_program(), quote(chroot));
    Error::new(Kind::Usage, format!("`{name}` has no log for `{chroot}`"))
        .with_help(context::elsewhere_of(workspace, name).unwrap_or_else(build))
}
