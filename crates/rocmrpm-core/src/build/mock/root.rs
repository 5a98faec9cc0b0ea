//! The build root of one component, and the mock commands that work on it. Builds themselves start
//! in `mock`.

use std::path::PathBuf;

use crate::names::ComponentName;
use crate::process::{Command, ProcessError, quote};
use crate::workspace::Workspace;

/// Where a build happens inside the root. Source: mock, `config.py` (`chroothome`) and
/// `backend.py`.
const BUILD_FOLDER: &str = "/builddir/build/BUILD";

/// The build root of a component in mock, whether or not it exists yet.
pub struct BuildRoot {
    /// The workspace's folder. mock executes its config, which is Python, as the user and outside
    /// of the build root.
    root: PathBuf,
    config: PathBuf,
    /// The name of the component, and of its pins if they are from the command line.
    name: String,
}

impl BuildRoot {
    /// Returns a component's build root in the workspace's chosen chroot.
    pub fn of(workspace: &Workspace, component: &ComponentName) -> Self {
        Self::new(workspace, config_path(workspace), component)
    }

    pub(super) fn new(workspace: &Workspace, config: PathBuf, component: &ComponentName) -> Self {
        // A build with other pins has its own root. The name of its folder starts with the chroot's.
        let folder = workspace.build_dir_of(component);
        let folder = folder.file_name().unwrap_or_default().to_string_lossy();
        let pins = folder.strip_prefix(&workspace.chroot.name).unwrap_or_default();
        let name = format!("{component}{}", pins.replace('@', "-"));
        Self { root: workspace.root.clone(), config, name }
    }

    /// Returns mock with the component's own build root. The first part of the root's name is that
    /// of the cache, which all components share.
    pub(super) fn mock(&self) -> Command {
        let mock = Command::new("mock").runs_code_of(&self.root);
        mock.arg("-r").arg(&self.config).arg("--uniqueext").arg(&self.name)
    }

    /// Returns the path of the root, if a build left one.
    pub fn path(&self) -> Result<Option<PathBuf>, ProcessError> {
        if !self.config.exists() {
            return Ok(None);
        }
        let output = self.mock().arg("--print-root-path").text()?;
        let path = output.lines().next_back().map(|line| PathBuf::from(line.trim()));
        // mock creates this file in a root that it has set up.
        Ok(path.filter(|path| path.join(".initialized").exists()))
    }

    /// Returns the command that runs a shell, or a command, where the build ran: as the same user,
    /// and equally cut off from the network.
    pub fn shell(&self, command: &[String]) -> Command {
        let mock = self.mock().args(["--quiet", "--unpriv", "--cwd", BUILD_FOLDER, "--shell"]);
        if command.is_empty() {
            return mock;
        }
        // mock joins the words and passes them to a shell.
        let line = command.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
        mock.arg("--").arg(line)
    }

    /// Returns the command that kills all processes inside the root: mock runs them as root, so
    /// rocmrpm cannot signal them itself.
    pub(super) fn end_all(&self) -> Command {
        self.mock().args(["--quiet", "--orphanskill"])
    }
}

/// Returns the path of a chroot's mock config.
pub(super) fn config_path(workspace: &Workspace) -> PathBuf {
    workspace.build_dir().join("mock.cfg")
}
