//! `rocmrpm copr`: the common part of its commands.

use std::path::Path;

use super::{CommandResult, args, context};
use crate::copr::CoprError;
use crate::error::{Error, Kind};
use crate::report::Shell;
use crate::workspace::{CoprChroot, CoprProject, Workspace};

pub(super) mod push;
pub(super) mod status;
pub(super) mod sync;
mod watch;

pub(super) fn run(args: &args::Copr, dir: &Path, shell: &Shell) -> CommandResult {
    let all = args::Choice { chroot: None, pins: None };
    match args {
        args::Copr::Sync(args) => each(dir, &all, |target| sync::run(args, target, shell)),
        args::Copr::Push(args) => each(dir, &args.choice, |target| push::run(args, target, shell)),
        args::Copr::Status(args) => {
            each(dir, &args.choice, |target| status::run(args, target, shell))
        }
        args::Copr::Watch(args) => {
            each(dir, &args.choice, |target| watch::run(args, target, shell))
        }
        args::Copr::Cancel(args) => {
            each(dir, &args.choice, |target| watch::cancel(args, target, shell))
        }
    }
}

/// Runs a command for each project, until one fails.
fn each(
    dir: &Path,
    choice: &args::Choice,
    run: impl Fn(&Target) -> CommandResult,
) -> CommandResult {
    let mut code = 0;
    for target in Target::read(dir, choice)? {
        let of_project = run(&target)?;
        if code == 0 {
            code = of_project;
        }
        if ![0, Kind::Findings.exit_code()].contains(&of_project) {
            return Ok(of_project);
        }
    }
    Ok(code)
}

/// A project with the workspaces of its chroots, or of the chosen chroot.
struct Target {
    project: CoprProject,
    workspaces: Vec<Workspace>,
}

impl Target {
    /// Reads the workspace and returns the projects for its chroots. `--chroot` accepts a name of
    /// mock-configs/ or of COPR.
    fn read(dir: &Path, choice: &args::Choice) -> Result<Vec<Self>, Error> {
        let default = args::Choice { chroot: None, pins: choice.pins.clone() };
        let mut project =
            context::workspace(dir, &default, &[])?.copr.ok_or(CoprError::NoProjectFile)?;
        if let Some(asked) = &choice.chroot {
            let known = project.chroots.iter().map(|chroot| chroot.definition.clone()).collect();
            project
                .chroots
                .retain(|chroot| chroot.definition == *asked || chroot.name.value == *asked);
            if project.chroots.is_empty() {
                return Err(CoprError::NotInProject { chroot: asked.clone(), known }.into());
            }
        }
        let target = |project: CoprProject| -> Result<Self, Error> {
            let choices = project.chroots.iter().map(|chroot| args::Choice {
                chroot: Some(chroot.definition.clone()),
                pins: choice.pins.clone(),
            });
            let workspaces = choices.map(|choice| context::workspace(dir, &choice, &[]));
            Ok(Self { workspaces: workspaces.collect::<Result<_, _>>()?, project })
        };
        project.split().into_iter().map(target).collect()
    }

    fn chroots(&self) -> impl Iterator<Item = (&CoprChroot, &Workspace)> {
        self.project.chroots.iter().zip(&self.workspaces)
    }
}
