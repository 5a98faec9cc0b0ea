//! Arguments of `rocmrpm closure`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::Choice;
use super::build::parse_duration;
use crate::closure::compute::Computation;

/// `rocmrpm closure`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Closure {
    /// The subcommand
    #[command(subcommand)]
    pub command: Option<ClosureCommand>,

    /// The component [default: the one with a `[closure]` table]
    #[arg(value_name = "COMPONENT")]
    pub component: Option<String>,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub how: ClosureHow,

    /// Write the lock file, and the components and pins that provide the members
    #[arg(long, conflicts_with = "check")]
    pub write: bool,

    /// Write nothing; exit with 1 if a written file is out of date
    #[arg(long)]
    pub check: bool,

    /// Print JSON
    #[arg(long, conflicts_with = "html")]
    pub json: bool,

    /// Print an HTML page
    #[arg(long)]
    pub html: bool,
}

impl Closure {
    /// Returns the arguments of `rocmrpm closure --check`.
    pub fn check(choice: Choice, offline: bool) -> Self {
        Self {
            command: None,
            component: None,
            choice,
            how: ClosureHow { live: false, offline, upgrade: None },
            write: false,
            check: true,
            json: false,
            html: false,
        }
    }
}

/// How a closure is computed.
#[derive(Debug, Clone, Args)]
pub struct ClosureHow {
    /// Query the chroot's repositories with dnf instead of the package tables
    #[arg(long)]
    pub live: bool,

    /// Use only the lock file and the cache, without network access
    #[arg(long)]
    pub offline: bool,

    /// Upgrade these members to their newest allowed versions, and others only if these require
    /// it; all members if no NAME is given
    #[arg(long, value_name = "NAME", num_args = 0.., conflicts_with = "offline")]
    pub upgrade: Option<Vec<String>>,
}

impl ClosureHow {
    /// Returns how the library computes the closure.
    pub fn computation(&self) -> Computation<'_> {
        Computation { live: self.live, offline: self.offline, upgrade: self.upgrade.as_deref() }
    }
}

/// The commands below `rocmrpm closure`.
#[derive(Debug, Subcommand)]
pub enum ClosureCommand {
    /// Show the chain of requirements that makes a distribution a member
    Why(ClosureWhy),
    /// Show the differences between two lock files
    Diff(ClosureDiff),
    /// List known vulnerabilities and yanked files of the members
    Audit(ClosureAudit),
}

/// `rocmrpm closure why`.
#[derive(Debug, Args)]
pub struct ClosureWhy {
    /// The distribution
    pub name: String,

    /// The component [default: the one with a `[closure]` table]
    #[arg(long, value_name = "NAME")]
    pub component: Option<String>,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub how: ClosureHow,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm closure diff`.
#[derive(Debug, Args)]
pub struct ClosureDiff {
    /// The old lock file, or the name of its pin set
    pub old: String,

    /// The new lock file, or the name of its pin set
    pub new: String,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm closure audit`.
#[derive(Debug, Args)]
pub struct ClosureAudit {
    /// The component [default: the one with a `[closure]` table]
    #[arg(value_name = "COMPONENT")]
    pub component: Option<String>,

    #[command(flatten)]
    pub choice: Choice,

    /// Read advisories from an export of OSV, a zip archive or a folder, instead of its service
    /// (can be repeated)
    #[arg(long, value_name = "PATH")]
    pub export: Vec<PathBuf>,

    /// Also show advisories for the release's own packages; they do not affect the exit code
    #[arg(long)]
    pub system: bool,

    /// Query the chroot's repositories with dnf instead of the package tables
    #[arg(long)]
    pub live: bool,

    /// Use only the lock file, the cache, and exports
    #[arg(long)]
    pub offline: bool,

    /// Time limit for each response of the OSV service
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "60 s")]
    pub timeout: Duration,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
