//! Why a member of a closure cannot be moved to another version.

use crate::error::{Diagnose, Diagnosis, Kind};
use crate::text::visible;

/// Why a member cannot be moved to another version.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeError {
    /// There is no lock, so no version would stay.
    #[error("the closure of `{component}` is not locked, so all members would move")]
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
            Self::NotMember { component, .. } => {
                format!("list the members: `rocmrpm closure {component}`")
            }
            Self::Own { by, .. } => format!("pin another version: `rocmrpm pins update {by}`"),
        })
    }
}
