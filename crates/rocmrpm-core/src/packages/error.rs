//! Defines the errors of package lookups and their help texts.

use crate::error::{Diagnose, Diagnosis, IoError, Kind, Problem};
use crate::process::ProcessError;

/// Errors that occur while determining the packages of a chroot.
#[derive(Debug, thiserror::Error)]
pub enum PackagesError {
    /// A table could not be read.
    #[error("cannot read the package table `{table}`")]
    Table {
        /// The table's path in the workspace.
        table: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A line of a table is invalid.
    #[error("line {line} of the package table `{table}` does not have two or three columns")]
    Line {
        /// The table's path in the workspace.
        table: String,
        /// The line number.
        line: usize,
    },
    /// The chroot has no table, but the lookup needs the packages of its release.
    #[error(
        "the chroot `{chroot}` has no package table, so the packages of its release are unknown"
    )]
    NoTable {
        /// The chroot.
        chroot: String,
    },
    /// A table belongs to a release with a different Python version.
    #[error(
        "the package tables of `{chroot}` are for a release with Python {has}, but the chroot has {python}"
    )]
    OtherPython {
        /// The chroot.
        chroot: String,
        /// The version of the table's `python3`.
        has: String,
        /// The Python version of the chroot.
        python: String,
    },
    /// The file of changed requirements has errors.
    #[error("cannot read the requirements of the release's packages")]
    Requires(Vec<Problem>),
    /// The repositories have no packages for the Python version of the chroot.
    #[error(
        "no repository of `{chroot}` has a package for Python {python}: none provides a `python{python}dist(…)`"
    )]
    NoPython {
        /// The chroot.
        chroot: String,
        /// The Python version of the chroot.
        python: String,
    },
    /// dnf could not run or could not read a repository.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file for dnf could not be written.
    #[error(transparent)]
    Io(#[from] IoError),
}

/// Help for when the repositories are unavailable.
const WITHOUT_LIVE: &str = "omit `--live` to use the package tables in mock-configs/packages";

impl Diagnose for PackagesError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Table { table, .. } => Kind::Config.with_help(format!(
                "add {table}, or remove it from `packages` in mock-configs; pass `--live` to query the \
                 repositories instead"
            )),
            Self::NoTable { chroot } => Kind::Config.with_help(format!(
                "add `packages = [\"TABLE\"]` to mock-configs/{chroot}.toml, or pass `--live` to query its \
                 repositories"
            )),
            Self::OtherPython { chroot, .. } => Kind::Config.with_help(format!(
                "set `packages` and `python` in mock-configs/{chroot}.toml to the same release"
            )),
            Self::Requires(problems) => Diagnosis::from(Kind::Config).with_problems(problems),
            Self::Line { .. } => {
                Kind::Config.with_help("separate the columns name, version and package with tabs")
            }
            Self::NoPython { chroot, .. } => Kind::Config
                .with_help(format!("check `python` and `[[repositories]]` in mock-configs/{chroot}.toml"))
                .with_help(WITHOUT_LIVE),
            Self::Process(error @ ProcessError::Failed { .. }) => error.diagnosis().with_help(WITHOUT_LIVE),
            Self::Process(error) => error.diagnosis(),
            Self::Io(error) => error.diagnosis(),
        }
    }
}
