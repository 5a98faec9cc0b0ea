//! Builds: from a plan to inspected results on disk. Builders turn specs and sources into RPMs; the
//! scheduler decides what runs at the same time; failed builds are explained. Making wheels and
//! images from the results happens elsewhere.

mod choice;
mod clean;
mod component;
mod elsewhere;
mod error;
mod failure;
mod gate;
mod host;
mod host_root;
mod inputs;
mod lock;
mod mock;
mod record;
mod release;
mod requires;
mod rocm_root;
mod run;
mod schedule;
mod stack_repository;
mod stage;
mod state;
mod system;
mod tail;
mod undeclared;

pub use choice::{BuilderName, MockOptions, choose_builder};
pub use clean::{end_earlier_builds, removable, removable_folders, size_of};
pub use component::{Built, required_packages};
pub(crate) use component::{command_again, enter_again};
pub use elsewhere::{find_elsewhere, find_other_pins};
pub use error::ComponentError;
#[cfg(any(test, fuzzing, feature = "testing"))]
#[doc(hidden)]
pub use failure::fuzzing;
pub use failure::{
    Cause, CauseKind, Explanation, Failure, KnownCause, Pattern, Phase, cause, causes,
};
pub use gate::{expectations, inspect_foreign_wheels, inspect_wheels};
pub use host::{HostBuilder, build_root};
pub use host_root::UnpackError;
pub(crate) use inputs::lay_out;
pub use lock::BuildLock;
pub use mock::{BuildRoot, HermeticError, MockBuilder, check_locks, is_prepared, prepare_root};
pub use record::{BuildRecord, FileRecord, Results, build_folder};
pub use rocm_root::{ArtifactError, fetch_rocm_wheels, lay_out_rocm};
pub(crate) use run::surroundings;
pub use run::{Estimate, Options, Outcome, Prepared, Run, prepare, run};
pub use schedule::Limits;
pub use stack_repository::{refresh_repository, result_rpms};
pub use stage::Stage;
pub use state::{BuildLog, FailureRecord, LastBuild, build_logs, main_log};
pub use system::system;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::duration;
use crate::error::{Diagnose, Diagnosis, Error, IoError, Kind};
use crate::events::Events;
use crate::gpu::GpuTarget;
use crate::machine;
use crate::process::ProcessError;
use crate::spec::Rendered;
use crate::stack::Stack;
use crate::template::TemplateError;
use crate::workspace::Component;

/// A check of the RPMs that were built from a component.
pub type Installable = fn(&Stack<'_>, &Component, &[PathBuf]) -> Result<(), Error>;

/// Everything a builder needs to build one component.
pub struct Job<'a> {
    /// The component.
    pub component: &'a Component,
    /// The GPU targets to build for.
    pub gpu_targets: &'a [GpuTarget],
    /// The rendered spec.
    pub spec: &'a Rendered,
    /// A folder with only the spec, its sources and its patches.
    pub sources: PathBuf,
    /// The builder's own folder, empty at first.
    pub work: PathBuf,
    /// The folder for logs.
    pub logs: PathBuf,
    /// The number of compile jobs that memory and cores allow.
    pub jobs: usize,
    /// The timeout of the build, if there is one.
    pub timeout: Option<Duration>,
    /// The repository of earlier builds, for builders that can use it.
    pub repository: PathBuf,
    /// The RPMs of all components that this one requires, for builders without a repository.
    pub required: Vec<PathBuf>,
    /// The command that enters its build root, if `rocmrpm shell` supports that.
    pub enter: Option<String>,
    /// Receives the builder's progress.
    pub events: &'a dyn Events,
}

/// What a builder made from one SRPM.
#[derive(Debug, Default)]
pub struct BuiltRpms {
    /// The binary RPMs, sorted.
    pub rpms: Vec<PathBuf>,
    /// The packages of the build root, if the builder knows them.
    pub buildroot: Vec<String>,
    /// BuildRequires that were not checked.
    pub unchecked: Vec<String>,
    /// The lock of the build root, as mock's plugin buildroot_lock writes it.
    pub lock: Option<PathBuf>,
}

/// Returns the packages of a build root, sorted, from the list that mock writes to its logs; empty
/// if there is none.
pub(crate) fn installed_packages(logs: &Path) -> Vec<String> {
    let list = fs_err::read_to_string(logs.join("installed_pkgs.log")).unwrap_or_default();
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    names
}

/// A way to turn a spec and its sources into an SRPM, and the SRPM into RPMs.
pub trait Builder: Sync {
    /// The builder's name, as passed to `--builder`.
    fn name(&self) -> &'static str;

    /// Everything about the builder that can change a result; part of the build key.
    fn identity(&self) -> String;

    /// Checks the builder's prerequisites before anything is fetched.
    fn ready(&self) -> Result<(), BuildError>;

    /// Returns why existing results count as damaged: a builder that stores them elsewhere as well
    /// may have lost them there.
    fn lost(&self, _results: &Path) -> Result<Option<String>, BuildError> {
        Ok(None)
    }

    /// Makes the SRPM.
    fn srpm(&self, job: &Job<'_>) -> Result<PathBuf, BuildError>;

    /// Makes the RPMs.
    fn rpms(&self, job: &Job<'_>, srpm: &Path) -> Result<BuiltRpms, BuildError>;

    /// Returns what all concurrent builds may use together.
    fn limits(&self) -> Limits {
        Limits { cores: machine::cores(), memory: machine::available_memory() }
    }

    /// Returns whether the builder reads the repository of earlier builds, which must then exist
    /// even if it is empty.
    fn reads_repository(&self) -> bool {
        false
    }

    /// Returns the logs, below the folder for logs, that contain the output of rpmbuild.
    fn output_logs(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the folders that the build runs in, which must not be in any RPATH.
    fn build_roots(&self, job: &Job<'_>) -> Vec<String>;
}

/// The number of log lines shown for a build that timed out.
const LAST_LINES: usize = 5;

/// Why a builder failed.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The build itself failed.
    #[error(transparent)]
    Failed(Box<Failure>),
    /// The machine or its setup prevents the build.
    #[error("{message}")]
    Environment {
        /// What is wrong.
        message: String,
        /// How to fix it.
        help: String,
    },
    /// The chroot's definition is wrong.
    #[error("{message}")]
    Chroot {
        /// What is wrong.
        message: String,
        /// Where to fix it.
        help: String,
    },
    /// BuildRequires of the spec are not installed on this machine.
    #[error("BuildRequires of `{component}` are not installed: {what}")]
    Missing {
        /// The component.
        component: String,
        /// The BuildRequires.
        what: String,
        /// How to install them.
        help: String,
    },
    /// The build timed out and was killed.
    #[error("the build of `{component}` exceeded its time limit of {}", duration::shown(*allowed))]
    TimedOut {
        /// The component.
        component: String,
        /// The timeout.
        allowed: Duration,
        /// The build's log.
        log: PathBuf,
    },
    /// The packages of required components could not be unpacked.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// An artifact of TheRock could not be unpacked.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// A template of the workspace is wrong.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A remote build service failed.
    #[error(transparent)]
    Remote(RemoteError),
    /// The packages of an earlier build root are unavailable.
    #[error(transparent)]
    Hermetic(#[from] HermeticError),
    /// The results of an earlier build cannot be read.
    #[error(transparent)]
    Earlier(#[from] IoError),
    /// A program is missing, or the run was interrupted.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file operation failed.
    #[error("cannot prepare the build")]
    Io(#[from] std::io::Error),
}

/// The error of a builder that is not on this machine.
#[derive(Debug)]
pub struct RemoteError(Box<dyn Diagnose>);

impl RemoteError {
    /// Wraps the builder's own error.
    pub fn new(error: impl Diagnose) -> Self {
        Self(Box::new(error))
    }
}

impl std::fmt::Display for RemoteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for RemoteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl From<Failure> for BuildError {
    fn from(failure: Failure) -> Self {
        Self::Failed(Box::new(failure))
    }
}

impl Diagnose for BuildError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Failed(failure) => failure.diagnosis(),
            Self::Environment { help, .. } => Kind::Environment.with_help(help),
            Self::Chroot { help, .. } => Kind::Config.with_help(help),
            Self::Missing { help, .. } => Kind::MissingTool.with_help(help),
            Self::TimedOut { component, log, .. } => Diagnosis::from(Kind::Timeout)
                .with_help(format!(
                    "raise `timeout` in the component.toml of `{component}`, or pass a longer `--timeout`"
                ))
                .with_reference("Log", log.display())
                .with_details(failure::Log::read(log).last(LAST_LINES)),
            Self::Unpack(error) => error.diagnosis(),
            Self::Artifact(error) => error.diagnosis(),
            Self::Template(error) => error.diagnosis(),
            Self::Remote(error) => error.0.diagnosis(),
            Self::Hermetic(error) => error.diagnosis(),
            Self::Earlier(error) => error.diagnosis(),
            Self::Process(error @ ProcessError::Missing { program }) if program == "mock" => {
                let install = error.help().concat();
                Kind::MissingTool.with_help(format!("{install}; or pass `--chroot host` to build without mock"))
            }
            Self::Process(error) => error.diagnosis(),
            Self::Io(error) => Diagnosis::of_io(error),
        }
    }
}

/// Returns the JSON Schemas of this module's documents.
#[cfg(feature = "schema")]
pub(crate) fn documents() -> Vec<serde_json::Value> {
    use crate::document::schema_of;
    vec![
        schema_of::<state::FailureRecord>(),
        schema_of::<record::BuildRecord>(),
        schema_of::<record::Times>(),
        schema_of::<record::Judgement>(),
    ]
}
