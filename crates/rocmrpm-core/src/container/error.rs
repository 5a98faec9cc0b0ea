//! Why there is no container file, and how to fix it.

use crate::error::{Diagnose, Diagnosis, Kind};

/// Why there is no container file.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// The chroot names no image to start from.
    #[error("the chroot `{chroot}` has no `container-image` to start from")]
    NoImage {
        /// The chroot.
        chroot: String,
    },
    /// No component says what belongs into the image.
    #[error("no component names packages for the image")]
    NoPackages {
        /// The key that would.
        key: &'static str,
        /// Such a package.
        example: &'static str,
    },
    /// No release of Ubuntu is known to have the chroot's Python.
    #[error("no release of Ubuntu is known to have Python {python}, which the wheels are for")]
    NoUbuntu {
        /// The Python.
        python: String,
    },
    /// The wheels want the system's ROCm, and the provider has none for Ubuntu.
    #[error("the ROCm provider `{provider}` has no packages for Ubuntu")]
    NoRocm {
        /// The provider.
        provider: String,
    },
    /// Packages are to come from a place that the workspace does not name.
    #[error("the container file's packages are to come from {place}, which the workspace does not name")]
    NoPlace {
        /// The place.
        place: &'static str,
        /// Where it would be named.
        file: &'static str,
    },
}

impl Diagnose for ContainerError {
    fn diagnosis(&self) -> Diagnosis {
        Kind::Config.with_help(match self {
            Self::NoImage { chroot } => format!(
                "add such as `container-image = \"registry.fedoraproject.org/fedora:43\"` to mock-configs/{chroot}.toml"
            ),
            Self::NoPackages { key, example } => {
                format!("add such as `{key} = [\"{example}\"]` below `[container]` in a component.toml")
            }
            Self::NoUbuntu { .. } => {
                "name an image that has it, as `base` below `[container.ubuntu]` in rocmrpm.toml".into()
            }
            Self::NoRocm { provider } => format!(
                "add `[ubuntu]` with url, suite, gpg-key and packages to mock-configs/rocm/{provider}.toml, or state `rocm = \"rocm-sdk\"` below `[wheels]` in rocmrpm.toml"
            ),
            Self::NoPlace { file, .. } => format!("name it in {file}, or state `from = \"local\"`"),
        })
    }
}
