//! Arguments of `rocmrpm build`, `reproduce` and `shell`.

use std::num::NonZeroUsize;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{BuiltPins, Choice, PinArgs};
use crate::build::Stage;

/// `rocmrpm build`.
#[derive(Debug, Args)]
pub struct Build {
    /// Build only these components and, for RPMs, their dependencies
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: PinArgs,

    /// Builder to use [default: mock for chroots, host for `host`]
    #[arg(long, value_enum)]
    pub builder: Option<BuilderName>,

    /// Stop after this stage
    #[arg(long, value_name = "STAGE", value_parser = parse_stage, default_value = "container")]
    #[arg(help = "Stop after this stage: sources, spec, srpm, rpm, wheel, index, container")]
    pub until: Stage,

    /// Show what would be built, and why, without building it (`rocmrpm plan`)
    #[arg(long, conflicts_with = "until")]
    pub dry_run: bool,

    /// Build the named components again even if they are up to date; without names, all
    #[arg(long)]
    pub force: bool,

    /// Wait for another rocmrpm process that uses the same build folder
    #[arg(long)]
    pub wait: bool,

    /// Use up to this many cores [default: all]
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,

    /// Show the output of builds as they run, with the component's name if there are several
    #[arg(long, short)]
    pub verbose: bool,

    /// After a failure, continue with components that do not depend on it
    #[arg(long)]
    pub keep_going: bool,

    /// Use only the cache, without network access
    #[arg(long)]
    pub offline: bool,

    /// Use exactly the build root packages of the last build, from its buildroot_lock.json (mock)
    #[arg(long)]
    pub hermetic: bool,

    /// Use a compiler cache that persists between builds (mock)
    #[arg(long)]
    pub ccache: bool,

    /// Time limit for each component, such as `8h`; overrides component.toml
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub timeout: Option<Duration>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn parse_stage(text: &str) -> Result<Stage, String> {
    Stage::parse(text).ok_or_else(|| {
        let names: Vec<&str> = Stage::ALL.iter().map(|stage| stage.name()).collect();
        match crate::names::nearest(text, names.iter().copied()) {
            Some(near) => format!("there is no stage `{text}`; did you mean `{near}`?"),
            None => format!("there is no stage `{text}`; the stages are {}", names.join(", ")),
        }
    })
}

pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    crate::duration::parse(text)
        .ok_or_else(|| "expected a duration, such as `90 min` or `8 h`".to_owned())
}

/// Builders by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BuilderName {
    /// mock, in a clean chroot
    Mock,
    /// rpmbuild, on this machine
    Host,
}

impl From<BuilderName> for crate::build::BuilderName {
    fn from(name: BuilderName) -> Self {
        match name {
            BuilderName::Mock => Self::Mock,
            BuilderName::Host => Self::Host,
        }
    }
}

/// `rocmrpm reproduce`.
#[derive(Debug, Args)]
pub struct Reproduce {
    /// The component to rebuild
    pub component: String,

    #[command(flatten)]
    pub choice: Choice,

    /// Use only the cache, without network access
    #[arg(long)]
    pub offline: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm shell`.
#[derive(Debug, Args)]
pub struct EnterShell {
    /// The component whose build root to enter
    pub component: String,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: BuiltPins,

    /// Use only the cache, without network access
    #[arg(long)]
    pub offline: bool,

    /// Run this command there instead of a shell
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
