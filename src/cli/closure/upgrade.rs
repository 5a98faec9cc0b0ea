//! `rocmrpm closure --upgrade`: the differences between the closure and the lock file.

use crate::closure::Closure;
use crate::closure::compute::known_places;
use crate::closure::diff::{Difference, MemberPlaces, diff};
use crate::closure::lock::Lock;
use crate::error::Error;
use crate::report::{Shell, Style, diff_text};
use crate::sources::normalized;
use crate::workspace::Workspace;

/// The locked closure before an upgrade.
pub(super) struct Before {
    lock: Lock,
    places: MemberPlaces,
    /// The members to upgrade; all if empty.
    names: Vec<String>,
}

impl Before {
    /// Reads the lock file if an upgrade is requested. Ignores a missing or damaged lock file,
    /// which does not prevent writing a new one.
    pub fn of(workspace: &Workspace, names: Option<&[String]>) -> Option<Self> {
        let names = names?.iter().map(|name| normalized(name)).collect();
        let lock = Lock::read(&workspace.closure_lock()).ok().flatten()?;
        let places = known_places(workspace).unwrap_or_default();
        Some(Self { lock, places, names })
    }

    /// Returns whether the upgrade is limited to some members.
    pub fn names_members(&self) -> bool {
        !self.names.is_empty()
    }

    /// Returns the differences from the locked closure.
    pub fn differences(&self, closure: &Closure, lock: &Lock) -> Vec<Difference> {
        let places: MemberPlaces =
            closure.members.iter().map(|(name, member)| (name.clone(), member.place)).collect();
        diff((&self.lock.packages, &self.places), (&lock.packages, &places))
    }

    /// Shows the differences, on stdout if the upgrade is limited to some members.
    pub fn show(
        &self,
        differences: &[Difference],
        lock: &Lock,
        shell: &Shell,
    ) -> Result<(), Error> {
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
