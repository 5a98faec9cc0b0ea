//! Builds: from a plan to inspected results on disk. Builders turn specs and
//! sources into RPMs; the scheduler decides what runs at the same time; a failed
//! build is explained.

mod component;
mod error;
mod failure;
mod gate;
mod host;
mod lock;
mod mock;
mod record;
mod release;
mod requires;
mod run;
mod schedule;
mod shelf;
mod stage;
mod system;

pub use component::Built;
pub(crate) use component::{command_again, enter_again, lay_out};
pub use error::ComponentError;
#[cfg(any(test, fuzzing, feature = "testing"))]
#[doc(hidden)]
pub use failure::fuzzing;
pub use failure::{Cause, CauseKind, Failure, Known, Pattern, Phase, cause, causes};
pub use gate::{expectations, inspect_wheels};
pub use host::{HostBuilder, build_root};
pub use lock::BuildLock;
pub use mock::{BuildRoot, HermeticError, MockBuilder, check_locks};
pub use record::{BuildRecord, FileRecord, Results, build_folder};
pub use requires::{HostNeeds, needs_of};
pub(crate) use run::surroundings;
pub use run::{Estimate, Options, Outcome, Prepared, Run, prepare, run};
pub use schedule::Limits;
pub use shelf::{refresh_repository, result_rpms};
pub use stage::Stage;
pub use system::system;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::duration;
use crate::error::{Diagnose, Error, IoError, Kind};
use crate::events::Events;
use crate::gpu::GpuTarget;
use crate::machine;
use crate::process::ProcessError;
use crate::spec::Rendered;
use crate::stack::Stack;
use crate::template::TemplateError;
use crate::workspace::Component;

/// A check of the RPMs that were built of a component.
pub type Installable = fn(&Stack<'_>, &Component, &[PathBuf]) -> Result<(), Error>;

/// Everything a builder needs to build one component.
pub struct Job<'a> {
    /// Which component.
    pub component: &'a Component,
    /// The GPU targets that it is built for.
    pub gpu_targets: &'a [GpuTarget],
    /// Its spec.
    pub spec: &'a Rendered,
    /// A folder with the spec, its source and its patches, and nothing else.
    pub sources: PathBuf,
    /// A folder for the builder's own use, empty at first.
    pub work: PathBuf,
    /// Where logs go.
    pub logs: PathBuf,
    /// How many compile jobs memory and cores allow.
    pub jobs: usize,
    /// How long the build may take, if that is limited.
    pub timeout: Option<Duration>,
    /// The repository of what was built before, for builders that can use it.
    pub repository: PathBuf,
    /// The command that builds this component again, for messages.
    pub retry: String,
    /// The command that enters its build root, where `rocmrpm shell` finds that.
    pub enter: Option<String>,
    /// Who hears what the builder is doing.
    pub events: &'a dyn Events,
}

/// What came of one SRPM.
#[derive(Debug, Default)]
pub struct BuiltRpms {
    /// The binary RPMs, sorted.
    pub rpms: Vec<PathBuf>,
    /// The packages of the build root, where the builder knows them.
    pub buildroot: Vec<String>,
    /// BuildRequires that nothing checked.
    pub unchecked: Vec<String>,
    /// What the build root was made of, as mock's plugin buildroot_lock writes it.
    pub lock: Option<PathBuf>,
}

/// What turns a spec and its sources into an SRPM and that into RPMs.
pub trait Builder: Sync {
    /// The builder's name, as `--builder` takes it.
    fn name(&self) -> &'static str;

    /// Everything about the builder that can change a result, for the build key.
    fn identity(&self) -> String;

    /// Tells what keeps this builder from working at all, before anything is fetched.
    fn ready(&self) -> Result<(), BuildError>;

    /// Returns why results that are here count as damaged: where the builder keeps them for others,
    /// they are missing.
    fn lost(&self, _results: &Path) -> Result<Option<String>, BuildError> {
        Ok(None)
    }

    /// Makes the SRPM.
    fn srpm(&self, job: &Job<'_>) -> Result<PathBuf, BuildError>;

    /// Makes the RPMs.
    fn rpms(&self, job: &Job<'_>, srpm: &Path) -> Result<BuiltRpms, BuildError>;

    /// Returns what all builds that run at the same time may use together.
    fn limits(&self) -> Limits {
        Limits { cores: machine::cores(), memory: machine::available_memory() }
    }

    /// Returns whether it reads the repository of what was built before, which then has
    /// to be there even if it is empty.
    fn reads_repository(&self) -> bool {
        false
    }

    /// Returns the folders that the build runs in, which no RPATH may name.
    fn build_roots(&self, job: &Job<'_>) -> Vec<String>;
}

/// How many lines of a log are shown of a build that took too long.
const LAST_LINES: usize = 5;

/// Why a builder could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The build itself failed.
    #[error(transparent)]
    Failed(Box<Failure>),
    /// The builder's surroundings refuse.
    #[error("{message}")]
    Environment {
        /// What refuses.
        message: String,
        /// How to fix it.
        help: String,
    },
    /// The chroot's definition is wrong.
    #[error("{message}")]
    Chroot {
        /// What is wrong.
        message: String,
        /// Where.
        help: String,
    },
    /// The machine lacks what the spec requires.
    #[error("`{component}` requires what this machine lacks: {what}")]
    Missing {
        /// Which component.
        component: String,
        /// The BuildRequires.
        what: String,
        /// How to install them.
        help: String,
    },
    /// The build took longer than it may, and was ended.
    #[error("`{component}` took longer than the {} that a build of it may take", duration::shown(*allowed))]
    TimedOut {
        /// Which component.
        component: String,
        /// How long it might have taken.
        allowed: Duration,
        /// The log of what it did.
        log: PathBuf,
        /// The command that tries again.
        retry: String,
    },
    /// A template of the workspace is wrong.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A service that builds elsewhere does not do what it is asked.
    #[error(transparent)]
    Remote(RemoteError),
    /// The packages of an earlier build root are not to be had.
    #[error(transparent)]
    Hermetic(#[from] HermeticError),
    /// What an earlier build left cannot be read.
    #[error(transparent)]
    Earlier(#[from] IoError),
    /// A program is missing, or we were asked to stop.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The file system refuses.
    #[error("cannot prepare the build")]
    Io(#[from] std::io::Error),
}

/// The error of a builder that is not on this machine.
#[derive(Debug)]
pub struct RemoteError(Box<dyn Diagnose>);

impl RemoteError {
    /// Takes the builder's own error.
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
    fn kind(&self) -> Kind {
        match self {
            Self::Failed(failure) => failure.kind(),
            Self::Environment { .. } | Self::Io(_) => Kind::Environment,
            Self::Chroot { .. } => Kind::Config,
            Self::Missing { .. } => Kind::MissingTool,
            Self::TimedOut { .. } => Kind::Timeout,
            Self::Template(error) => error.kind(),
            Self::Remote(error) => error.0.kind(),
            Self::Hermetic(error) => error.kind(),
            Self::Earlier(error) => error.kind(),
            Self::Process(error) => error.kind(),
        }
    }

    fn help(&self) -> Vec<String> {
        match self {
            Self::Failed(failure) => failure.help(),
            Self::Environment { help, .. } | Self::Chroot { help, .. } | Self::Missing { help, .. } => {
                vec![help.clone()]
            }
            Self::Remote(error) => error.0.help(),
            Self::TimedOut { component, log, retry, .. } => vec![
                format!(
                    "give it more time: `timeout` in the component.toml of `{component}`, or `--timeout`"
                ),
                format!("what it did until then: {}", log.display()),
                format!("to try again: {retry}"),
            ],
            Self::Template(error) => error.help(),
            Self::Hermetic(error) => error.help(),
            Self::Earlier(error) => error.help(),
            Self::Process(error) => {
                let mut help = error.help();
                if matches!(error, ProcessError::Missing { program } if program == "mock") {
                    help.push("`--chroot host` builds on this machine instead, without mock".into());
                }
                help
            }
            Self::Io(_) => Vec::new(),
        }
    }

    fn details(&self) -> Vec<String> {
        match self {
            Self::Failed(failure) => failure.lines.clone(),
            Self::TimedOut { log, .. } => failure::Log::read(log).last(LAST_LINES),
            _ => Vec::new(),
        }
    }

    fn problems(&self) -> &[crate::error::Problem] {
        match self {
            Self::Failed(failure) => &failure.problems,
            Self::Template(error) => error.problems(),
            _ => &[],
        }
    }
}

/// Returns the JSON Schemas of its documents.
#[cfg(feature = "schema")]
pub(crate) fn documents() -> Vec<serde_json::Value> {
    use crate::document::schema_of;
    vec![schema_of::<record::BuildRecord>(), schema_of::<record::Times>(), schema_of::<record::Judgement>()]
}
