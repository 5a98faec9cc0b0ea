//! Arguments of `rocmrpm closure`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::Choice;
use super::build::parse_duration;

/// `rocmrpm closure`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Closure {
    /// What else to do with it
    #[command(subcommand)]
    pub command: Option<ClosureCommand>,

    /// The component; the one that has a table `[closure]` where it is left out
    #[arg(value_name = "COMPONENT")]
    pub component: Option<String>,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub how: ClosureHow,

    /// Write the lock file, and the components and pins that bring the members
    #[arg(long, conflicts_with = "check")]
    pub write: bool,

    /// Write nothing; exit with 1 where what is written is not what it should be
    #[arg(long)]
    pub check: bool,

    /// Print JSON
    #[arg(long, conflicts_with = "html")]
    pub json: bool,

    /// Print a page for a browser
    #[arg(long)]
    pub html: bool,
}

/// How a closure is computed.
#[derive(Debug, Clone, Args)]
pub struct ClosureHow {
    /// Ask the chroot's repositories by dnf what they have, instead of the package tables
    #[arg(long)]
    pub live: bool,

    /// Ask no index and no repository: what is locked and in the cache must do
    #[arg(long)]
    pub offline: bool,

    /// Move these members to their newest allowed versions, and others only as far as these force
    /// them; all members if no NAME is given
    #[arg(long, value_name = "NAME", num_args = 0.., conflicts_with = "offline")]
    pub upgrade: Option<Vec<String>>,
}

/// The commands below `rocmrpm closure`.
#[derive(Debug, Subcommand)]
pub enum ClosureCommand {
    /// Tell the chain of requirements that brings a member in
    Why(ClosureWhy),
    /// Tell what differs between two locks
    Diff(ClosureDiff),
    /// List known vulnerabilities and yanked files of the members
    Audit(ClosureAudit),
}

/// `rocmrpm closure why`.
#[derive(Debug, Args)]
pub struct ClosureWhy {
    /// The distribution
    pub name: String,

    /// The component; the one that has a table `[closure]` where it is left out
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
    /// The earlier lock: a file, or the name of a pin set
    pub old: String,

    /// The later lock: a file, or the name of a pin set
    pub new: String,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm closure audit`.
#[derive(Debug, Args)]
pub struct ClosureAudit {
    /// The component [default: the one that has a table `[closure]`]
    #[arg(value_name = "COMPONENT")]
    pub component: Option<String>,

    #[command(flatten)]
    pub choice: Choice,

    /// Read advisories from an export of OSV, a zip archive or a folder, instead of asking its
    /// service (can be repeated)
    #[arg(long, value_name = "PATH")]
    pub export: Vec<PathBuf>,

    /// Show advisories about the release's own packages, too; they do not count
    #[arg(long)]
    pub system: bool,

    /// Ask the chroot's repositories by dnf what they have, instead of the package tables
    #[arg(long)]
    pub live: bool,

    /// Use only the lock, the cache and exports
    #[arg(long)]
    pub offline: bool,

    /// How long one answer of OSV's service may take
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "60 s")]
    pub timeout: Duration,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
