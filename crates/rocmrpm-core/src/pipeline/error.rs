//! Why a pipeline cannot run.

use std::path::PathBuf;

use crate::error::{Diagnose, Diagnosis, Kind};
use crate::process::{ProcessError, quote};

/// An error of a pipeline itself. The errors of its stages are those of the libraries.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// Another process runs the pipeline of the set.
    #[error("another rocmrpm process runs the pipeline of `{pins}`")]
    Busy {
        /// The pin set.
        pins: String,
    },
    /// The workspace has no history to branch from.
    #[error("`{}` is not in a git repository with a commit, and the pipeline works on a branch", root.display())]
    NoHistory {
        /// The workspace.
        root: PathBuf,
    },
    /// The pin set, the chroot, or the workspace was never committed.
    #[error("`{file}` is not committed, and the pipeline works on what is committed")]
    NotCommitted {
        /// The file, relative to the workspace.
        file: String,
    },
    /// A chroot has the name of the pipeline's folder.
    #[error("the chroot `{name}` uses the folder build/{name}, which the pipeline needs")]
    Reserved {
        /// The chroot.
        name: String,
    },
    /// The record is not of a publication.
    #[error("record {number} of `{pins}` is not a publication")]
    NotPublished {
        /// The number of the record.
        number: u64,
        /// The pin set.
        pins: String,
        /// The numbers of publications.
        known: Vec<String>,
    },
    /// `pipeline.toml` has no destination.
    #[error("pipeline.toml has neither `index` nor `repository`, so nothing is published")]
    NoDestination,
    /// git does not know who commits.
    #[error("git does not know the name and email of the user who commits")]
    NoIdentity,
    /// git failed.
    #[error("cannot {action}")]
    Git {
        /// What was to be done.
        action: String,
        /// The error of git.
        source: ProcessError,
    },
}

impl Diagnose for PipelineError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Busy { .. } => Kind::Environment.with_help("wait until it has finished"),
            Self::NoHistory { root } => {
                let root = quote(&root.to_string_lossy());
                Kind::Usage.with_help(format!(
                    "commit the workspace: git -C {root} add --all && git -C {root} commit"
                ))
            }
            Self::NotCommitted { file } => Kind::Usage.with_help(format!(
                "commit it: git add {0} && git commit {0}",
                quote(file)
            )),
            Self::Reserved { name } => {
                Kind::Config.with_help(format!("rename mock-configs/{name}.toml"))
            }
            Self::NotPublished { known, pins, .. } => Kind::Usage.with_help(match known.as_slice() {
                [] => format!("publish something first: `rocmrpm pipeline run --pins {pins}`"),
                known => format!(
                    "choose one of {}; `rocmrpm evidence show --pins {pins}` describes them",
                    known.join(", ")
                ),
            }),
            Self::NoDestination => {
                Kind::Config.with_help("add `index = \"../wheels\"` to pipeline.toml")
            }
            Self::NoIdentity => Kind::Environment.with_help(
                "run `git config --global user.name NAME` and `git config --global user.email EMAIL`",
            ),
            Self::Git { source: ProcessError::Failed { .. }, .. } => {
                Kind::Environment.with_help("solve what git reports, and run the pipeline again")
            }
            Self::Git { source, .. } => source.diagnosis(),
        }
    }
}
