//! A chroot of the project on COPR, with its workspace.

use super::macros::MacrosPackage;
use crate::error::Error;
use crate::spec::History;
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

impl<'a> ProjectChroot<'a> {
    /// Reads the version of the macros package from the history of the workspace.
    pub fn new(chroot: &'a CoprChroot, workspace: &'a Workspace) -> Result<Self, Error> {
        let macros = MacrosPackage::new(workspace, &History::read(workspace)?);
        Ok(Self { chroot, workspace, macros })
    }
}
