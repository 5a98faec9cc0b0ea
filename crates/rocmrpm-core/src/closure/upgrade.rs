//! Decides which members of a locked closure may move to another version. uv picks the versions.

use super::lock::Lock;
use super::{Locked, Origin};
use crate::error::{Diagnose, Diagnosis, Kind};
use crate::names::nearest;
use crate::text::visible;

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
                Some(Locked { origin: Origin::Index { .. }, .. }) => {}
                Some(Locked { origin: Origin::Stack(by), .. }) => {
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

/// Why a member cannot be moved to another version.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeError {
    /// There is no lock, so no version would stay.
    #[error("the closure of `{component}` is not locked, so that all members would move")]
    NotLocked {
        /// The component.
        component: String,
    },
    /// It is not a member.
    #[error("`{}` is not in the closure of `{component}`", visible(name))]
    NotMember {
        /// The requested name.
        name: String,
        /// The component.
        component: String,
        /// The nearest member.
        near: Option<String>,
    },
    /// A component of the stack makes it.
    #[error("`{name}` is made by the component `{by}`, not taken from the index")]
    Own {
        /// The distribution.
        name: String,
        /// The component.
        by: String,
    },
}

impl Diagnose for UpgradeError {
    fn diagnosis(&self) -> Diagnosis {
        Kind::Usage.with_help(match self {
            Self::NotLocked { .. } => "lock it: `rocmrpm closure --write`".to_owned(),
            Self::NotMember { name, component, .. } if name == component => {
                format!("move all members: `rocmrpm closure {component} --upgrade`")
            }
            Self::NotMember { near: Some(near), .. } => format!("did you mean `{near}`?"),
            Self::NotMember { component, .. } => format!("list the members: `rocmrpm closure {component}`"),
            Self::Own { by, .. } => format!("pin another version: `rocmrpm pins update {by}`"),
        })
    }
}
