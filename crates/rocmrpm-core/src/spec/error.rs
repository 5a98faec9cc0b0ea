//! Why a spec could not be rendered.

use std::path::PathBuf;

use crate::error::{Diagnose, Diagnosis, Kind, Problem};
use crate::process::ProcessError;
use crate::template::TemplateError;

/// Errors that occur while rendering a spec.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The template is invalid.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// An environment variable in `component.toml` is invalid.
    #[error("`{component}` has invalid environment variables")]
    Env {
        /// The name of the component.
        component: String,
        /// The invalid values.
        problems: Vec<Problem>,
    },
    /// An edit in `component.toml` is invalid.
    #[error("`{component}` has invalid edits")]
    Edits {
        /// The name of the component.
        component: String,
        /// The invalid edits.
        problems: Vec<Problem>,
    },
    /// The template ignores something in the pin or `component.toml`.
    #[error("the template `{template}` does not use {}", missing.join(", "))]
    LeavesOut {
        /// The path of the template in the workspace.
        template: String,
        /// The missing parts.
        missing: Vec<String>,
    },
    /// The header specified by the provider does not contain ROCm's version.
    #[error("cannot find ROCm's version in `{}`", path.display())]
    NoRocm {
        /// The path of the header.
        path: PathBuf,
    },
    /// A template could not be read.
    #[error("cannot read a template")]
    Io(#[from] std::io::Error),
    /// A program to query this machine failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl Diagnose for SpecError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Template(error) => error.diagnosis(),
            Self::Env { problems, .. } | Self::Edits { problems, .. } => {
                Diagnosis::from(Kind::Config).with_problems(problems)
            }
            Self::LeavesOut { .. } => Kind::Config.with_help(
                "write the sources with `<{ source_lines }>`, the patches with a loop over `patches`, and \
                 the edits with `<@ include \"_shared/edits.tera\" @>` after %autosetup",
            ),
            Self::NoRocm { .. } => Kind::MissingTool.with_help(
                "on Fedora: `dnf install rocm-hip-devel`; on Debian: `apt-get install libamdhip64-dev`",
            ),
            Self::Io(error) => Diagnosis::of_io(error),
            Self::Process(error) => error.diagnosis(),
        }
    }
}
