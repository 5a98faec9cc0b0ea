//! One component's build root, and the commands of mock that are about it.

use std::path::PathBuf;

use crate::names::ComponentName;
use crate::process::{Command, ProcessError, quote};
use crate::workspace::Workspace;

/// Where a build happens inside the root. Source: mock, `config.py` (`chroothome`) and
/// `backend.py`.
const BUILD_FOLDER: &str = "/builddir/build/BUILD";

/// The build root that a component has, or would have, in mock.
pub struct BuildRoot {
    /// The workspace's folder. mock runs its config, which is Python, as the user and outside of the
    /// build root.
    root: PathBuf,
    config: PathBuf,
    component: String,
}

impl BuildRoot {
    /// Returns a component's build root in the workspace's chosen chroot.
    pub fn of(workspace: &Workspace, component: &ComponentName) -> Self {
        Self::new(workspace, config_path(workspace), component)
    }

    pub(super) fn new(workspace: &Workspace, config: PathBuf, component: &ComponentName) -> Self {
        Self { root: workspace.root.clone(), config, component: component.to_string() }
    }

    /// Returns mock with the component's own build root: the name's first part is the
    /// cache's, which all components share.
    pub(super) fn mock(&self) -> Command {
        let mock = Command::new("mock").runs_code_of(&self.root);
        mock.arg("-r").arg(&self.config).arg("--uniqueext").arg(&self.component)
    }

    /// Returns where the root is, if a build left one.
    pub fn path(&self) -> Result<Option<PathBuf>, ProcessError> {
        if !self.config.exists() {
            return Ok(None);
        }
        let said = self.mock().arg("--print-root-path").text()?;
        let path = said.lines().next_back().map(|line| PathBuf::from(line.trim()));
        // mock's own mark of a root that it has set up.
        Ok(path.filter(|path| path.join(".initialized").exists()))
    }

    /// Returns the command that runs a shell, or a command, where the build ran: as its
    /// user, and as cut off from the network.
    pub fn shell(&self, command: &[String]) -> Command {
        let mock = self.mock().args(["--quiet", "--unpriv", "--cwd", BUILD_FOLDER, "--shell"]);
        if command.is_empty() {
            return mock;
        }
        // mock joins the words and hands them to a shell.
        let line = command.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
        mock.arg("--").arg(line)
    }

    /// Returns the command that ends what runs inside the root: mock runs as root and
    /// cannot be signalled by us, but does that for us.
    pub(super) fn end_all(&self) -> Command {
        self.mock().args(["--quiet", "--orphanskill"])
    }
}

/// Returns where a chroot's mock config is.
pub(super) fn config_path(workspace: &Workspace) -> PathBuf {
    workspace.build_dir().join("mock.cfg")
}
