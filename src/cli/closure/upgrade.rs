//! `rocmrpm closure --upgrade`: how the closure differs from the one that is locked.

use crate::closure::Closure;
use crate::closure::diff::{Difference, Places, diff};
use crate::closure::lock::Lock;
use crate::error::Error;
use crate::report::{Shell, Style, diff_text};
use crate::sources::normalized;
use crate::workspace::Workspace;

/// What is locked before an upgrade.
pub(super) struct Before {
    lock: Lock,
    places: Places,
    /// The members that were named; all if empty.
    names: Vec<String>,
}

impl Before {
    /// Returns what is locked, if an upgrade is asked for and there is a lock. A damaged one is
    /// no reason not to write another.
    pub fn of(workspace: &Workspace, names: Option<&[String]>) -> Option<Self> {
        let names = names?.iter().map(|name| normalized(name)).collect();
        let lock = Lock::read(&workspace.closure_lock()).ok().flatten()?;
        let places = super::places(workspace).unwrap_or_default();
        Some(Self { lock, places, names })
    }

    /// Returns whether single members were named.
    pub fn names_members(&self) -> bool {
        !self.names.is_empty()
    }

    /// Returns what differs now.
    pub fn differences(&self, closure: &Closure, lock: &Lock) -> Vec<Difference> {
        let places: Places =
            closure.members.iter().map(|(name, member)| (name.clone(), member.place)).collect();
        diff((&self.lock.packages, &self.places), (&lock.packages, &places))
    }

    /// Shows what differs: as the command's data where members were named.
    pub fn show(&self, differences: &[Difference], lock: &Lock, shell: &Shell) -> Result<(), Error> {
        if !self.names_members() {
            shell.talk(diff_text(differences));
            return Ok(());
        }
        shell.data(diff_text(differences))?;
        for name in &self.names {
            if let Some(version) =
                lock.version(name).filter(|version| self.lock.version(name) == Some(*version))
            {
                shell.talk(format!(
                    "{} {name} stays at {version}, the newest that requirements and `not-after` allow; \
                     `rocmrpm closure why {name}` lists the requirements",
                    Style::Note.paint("note:")
                ));
            }
        }
        Ok(())
    }
}
