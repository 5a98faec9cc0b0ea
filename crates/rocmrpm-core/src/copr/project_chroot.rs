//! A chroot of the project on COPR, with its workspace.

use super::macros::MacrosPackage;
use crate::workspace::{CoprChroot, Workspace};

/// One chroot of the project and what belongs to it.
pub struct ProjectChroot<'a> {
    /// The chroot on COPR.
    pub chroot: &'a CoprChroot,
    /// The workspace with this chroot chosen.
    pub workspace: &'a Workspace,
    /// The macros package, if the chroot sets macros.
    pub macros: Option<MacrosPackage>,
}
