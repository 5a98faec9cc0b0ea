//! The command that starts a container with the machine's GPUs: their device files, and the groups
//! that may open them. Does not build images.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::error::{Diagnose, Diagnosis, Kind};
use crate::process::{Command, ProcessError, find_program};
use crate::workspace::Flavor;

/// The device file of ROCm's driver.
const KFD: &str = "/dev/kfd";
/// The folder with a device file per GPU.
const DRI: &str = "/dev/dri";

/// A program that runs containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    /// podman.
    Podman,
    /// docker.
    Docker,
}

/// Why a container cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The machine has no GPU with this driver.
    #[error("this machine has no {path}")]
    NoDevice {
        /// The device file.
        path: &'static str,
    },
    /// Neither program is installed.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl Diagnose for LaunchError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NoDevice { .. } => Kind::Environment.with_help(
                "run `rocmrpm doctor` to see what the GPU needs, or pass `--without-gpu`",
            ),
            Self::Process(error) => error.diagnosis(),
        }
    }
}

impl Runner {
    /// Returns the program to use on this machine; prefers podman.
    pub fn of_machine() -> Result<Self, LaunchError> {
        let installed = |runner: &Self| find_program(runner.name()).is_some();
        let first = [Self::Podman, Self::Docker].into_iter().find(installed);
        first.ok_or_else(|| ProcessError::Missing { program: "podman".into() }.into())
    }

    /// Returns the program's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }
}

/// A container to start.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The image.
    pub image: &'a str,
    /// The flavor of the image.
    pub flavor: &'a Flavor,
    /// Whether the container gets the machine's GPUs.
    pub gpu: bool,
    /// Whether a person uses the container's terminal.
    pub terminal: bool,
    /// The program and its arguments; empty for those of the image.
    pub command: &'a [String],
}

impl Launch<'_> {
    /// Returns the command. `root` is the folder with the machine's device files, `/` except in tests.
    ///
    /// Files keep their groups in a container, but their numbers differ from those in the image:
    /// podman passes on the user's own groups, and docker gets the numbers.
    pub fn command(&self, runner: Runner, root: &Path) -> Result<Command, LaunchError> {
        let mut args: Vec<String> =
            ["run", "--rm", "--interactive", "--pull", "never"].map(str::to_owned).into();
        if self.terminal {
            args.push("--tty".into());
        }
        if self.gpu {
            let devices = match self.flavor {
                Flavor::Vulkan => &[DRI][..],
                _ => &[KFD, DRI],
            };
            for path in devices {
                if !below(root, path).exists() {
                    return Err(LaunchError::NoDevice { path });
                }
                args.extend(["--device".into(), (*path).to_owned()]);
            }
            match runner {
                Runner::Podman => args.extend(["--group-add", "keep-groups"].map(str::to_owned)),
                Runner::Docker => {
                    for group in groups(root, devices) {
                        args.extend(["--group-add".into(), group.to_string()]);
                    }
                }
            }
        }
        let command = Command::new(runner.name()).args(args).arg(self.image);
        Ok(command.args(self.command))
    }
}

fn below(root: &Path, path: &str) -> std::path::PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// Returns the numbers of the groups of device files, and of the files in device folders.
fn groups(root: &Path, devices: &[&str]) -> BTreeSet<u32> {
    let files = devices.iter().map(|path| below(root, path)).flat_map(|path| {
        let inside = std::fs::read_dir(&path).into_iter().flatten().flatten();
        let inside: Vec<_> =
            inside.map(|entry| entry.path()).filter(|path| !path.is_dir()).collect();
        if path.is_dir() { inside } else { vec![path] }
    });
    files.filter_map(|path| Some(std::fs::metadata(path).ok()?.gid())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(flavor: &Flavor) -> Launch<'_> {
        Launch { image: "stack", flavor, gpu: true, terminal: false, command: &[] }
    }

    fn line(launch: &Launch<'_>, runner: Runner, root: &Path) -> String {
        launch.command(runner, root).unwrap().line()
    }

    #[test]
    fn passes_devices_and_groups() {
        let dir = tempfile::tempdir().unwrap();
        let missing = launch(&Flavor::Fedora).command(Runner::Podman, dir.path()).unwrap_err();
        assert_eq!(missing.to_string(), "this machine has no /dev/kfd");
        fs_err::create_dir_all(dir.path().join("dev/dri/by-path")).unwrap();
        fs_err::write(dir.path().join("dev/dri/renderD128"), "").unwrap();
        let group = std::fs::metadata(dir.path().join("dev/dri/renderD128")).unwrap().gid();
        let vulkan = line(&launch(&Flavor::Vulkan), Runner::Docker, dir.path());
        let expected = format!(
            "docker run --rm --interactive --pull never --device /dev/dri --group-add {group} stack"
        );
        assert_eq!(vulkan, expected);
        assert!(launch(&Flavor::Fedora).command(Runner::Podman, dir.path()).is_err());
        fs_err::write(dir.path().join("dev/kfd"), "").unwrap();
        let podman = line(&launch(&Flavor::Fedora), Runner::Podman, dir.path());
        assert!(
            podman.contains("--device /dev/kfd --device /dev/dri --group-add keep-groups stack")
        );
        let nothing = tempfile::tempdir().unwrap();
        let command = ["sh".to_owned(), "-c".into(), "a b".into()];
        let bare =
            Launch { gpu: false, terminal: true, command: &command, ..launch(&Flavor::Fedora) };
        let bare = line(&bare, Runner::Podman, nothing.path());
        assert_eq!(bare, "podman run --rm --interactive --pull never --tty stack sh -c 'a b'");
    }
}
