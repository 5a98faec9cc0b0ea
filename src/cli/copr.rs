//! `rocmrpm copr`: what its commands begin with.

use std::path::Path;

use super::{Done, args, context};
use crate::copr::CoprError;
use crate::error::Error;
use crate::report::Shell;
use crate::workspace::{CoprChroot, CoprProject, Workspace};

mod push;
mod status;
mod sync;
mod watch;

pub(super) fn run(args: &args::Copr, dir: &Path, shell: &Shell) -> Done {
    match args {
        args::Copr::Sync(args) => sync::run(args, dir, shell),
        args::Copr::Push(args) => push::run(args, dir, shell),
        args::Copr::Status(args) => status::run(args, dir, shell),
        args::Copr::Watch(args) => watch::run(args, dir, shell),
        args::Copr::Cancel(args) => watch::cancel(args, dir, shell),
    }
}

/// The project with a workspace for each of its chroots, or for the one that was chosen.
struct Target {
    project: CoprProject,
    workspaces: Vec<Workspace>,
}

impl Target {
    /// Reads the workspace. `--chroot` takes a name of mock-configs/ or COPR's.
    fn read(dir: &Path, choice: &args::Choice) -> Result<Self, Error> {
        let default = args::Choice { chroot: None, pins: choice.pins.clone() };
        let mut project = context::workspace(dir, &default, &[])?.copr.ok_or(CoprError::NoProjectFile)?;
        if let Some(asked) = &choice.chroot {
            let known = project.chroots.iter().map(|chroot| chroot.definition.clone()).collect();
            project.chroots.retain(|chroot| chroot.definition == *asked || chroot.name.value == *asked);
            if project.chroots.is_empty() {
                return Err(CoprError::NotInProject { chroot: asked.clone(), known }.into());
            }
        }
        let choices = project.chroots.iter().map(|chroot| args::Choice {
            chroot: Some(chroot.definition.clone()),
            pins: choice.pins.clone(),
        });
        let workspaces = choices.map(|choice| context::workspace(dir, &choice, &[]));
        Ok(Self { workspaces: workspaces.collect::<Result<_, _>>()?, project })
    }

    fn chroots(&self) -> impl Iterator<Item = (&CoprChroot, &Workspace)> {
        self.project.chroots.iter().zip(&self.workspaces)
    }
}
