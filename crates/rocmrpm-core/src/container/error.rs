//! The errors of rendering a container file, each with its help.

use crate::error::{Diagnose, Diagnosis, Kind};
use crate::names::nearest;

/// Why a container file could not be rendered.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// The chroot does not name a base image.
    #[error("the chroot `{chroot}` has no `container-image`")]
    NoImage {
        /// The chroot.
        chroot: String,
    },
    /// No component lists packages for the image.
    #[error("no component lists packages for the image")]
    NoPackages {
        /// The component.toml key that lists them.
        key: &'static str,
        /// An example of a package to list.
        example: &'static str,
    },
    /// No known release of Ubuntu has the chroot's Python.
    #[error("no known release of Ubuntu has Python {python}, which the wheels need")]
    NoUbuntu {
        /// The version of Python.
        python: String,
    },
    /// The wheels need the system's ROCm, and the provider has no packages for Ubuntu.
    #[error("the ROCm provider `{provider}` has no packages for Ubuntu")]
    NoRocm {
        /// The provider.
        provider: String,
    },
    /// The workspace does not define the flavor.
    #[error("there is no flavor `{flavor}`; the flavors are {}", known.join(", "))]
    UnknownFlavor {
        /// The name.
        flavor: String,
        /// The names of rocmrpm's own flavors, and of those that the workspace defines.
        known: Vec<String>,
    },
    /// No GPU of the stack has the instructions of the GPU that an image presents.
    #[error(
        "no GPU target of the stack can pass for version {presented}, as in the flavor `{flavor}`"
    )]
    NoSpoof {
        /// The flavor.
        flavor: String,
        /// The value of `HSA_OVERRIDE_GFX_VERSION`.
        presented: String,
    },
    /// The packages come from a source that the workspace does not name.
    #[error(
        "the container file installs packages from {place}, which the workspace does not define"
    )]
    NoPlace {
        /// The source.
        place: &'static str,
        /// The file that would name it.
        file: &'static str,
    },
}

impl Diagnose for ContainerError {
    fn diagnosis(&self) -> Diagnosis {
        Kind::Config.with_help(match self {
            Self::NoImage { chroot } => format!(
                "add e.g. `container-image = \"registry.fedoraproject.org/fedora:43\"` to mock-configs/{chroot}.toml"
            ),
            Self::NoPackages { key, example } => {
                format!("add e.g. `{key} = [\"{example}\"]` to `[container]` in a component.toml")
            }
            Self::NoUbuntu { .. } => {
                "set `base` in `[container.ubuntu]` of rocmrpm.toml to an image that has it".into()
            }
            Self::NoRocm { provider } => format!(
                "add `[ubuntu]` with url, suite, gpg-key and packages to mock-configs/rocm/{provider}.toml, or set `rocm = \"rocm-sdk\"` in `[wheels]` of rocmrpm.toml"
            ),
            Self::UnknownFlavor { flavor, known } => {
                match nearest(flavor, known.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!(
                        "describe an image that others built in `[container.{flavor}]` of \
                         rocmrpm.toml, with `base` and `built-by`"
                    ),
                }
            }
            Self::NoSpoof { flavor, .. } => format!(
                "remove HSA_OVERRIDE_GFX_VERSION from `env` in `[container.{flavor}]` of rocmrpm.toml"
            ),
            Self::NoPlace { file, .. } => format!("define it in {file}, or set `from = \"local\"`"),
        })
    }
}
