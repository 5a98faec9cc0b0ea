//! Decides which members of a locked closure may move to another version. uv picks the versions.

use super::lock::Lock;
use super::upgrade_error::UpgradeError;
use super::{Locked, LockedOrigin};
use crate::names::nearest;

/// The members that may move to another version than the locked one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Upgrade<'a> {
    /// No member.
    #[default]
    None,
    /// All of them.
    All,
    /// Those with these normalized names, and others only if these force them to.
    Members(&'a [String]),
}

impl Upgrade<'_> {
    /// Returns whether a member may move without being forced to.
    pub(super) fn moves(self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Members(names) => names.iter().any(|moved| moved == name),
        }
    }

    /// Checks that the given members can be moved in a lock.
    pub(super) fn check(self, component: &str, lock: Option<&Lock>) -> Result<(), UpgradeError> {
        let Self::Members(names) = self else { return Ok(()) };
        let component = component.to_owned();
        let lock = lock.ok_or_else(|| UpgradeError::NotLocked { component: component.clone() })?;
        for name in names {
            match lock.packages.iter().find(|locked| locked.name == *name) {
                Some(Locked { origin: LockedOrigin::Index { .. }, .. }) => {}
                Some(Locked { origin: LockedOrigin::Stack(by), .. }) => {
                    return Err(UpgradeError::Own { name: name.clone(), by: by.to_string() });
                }
                None => {
                    let names = lock.packages.iter().map(|locked| locked.name.as_str());
                    let near = nearest(name, names).map(str::to_owned);
                    return Err(UpgradeError::NotMember { name: name.clone(), component, near });
                }
            }
        }
        Ok(())
    }
}
