//! Arguments of `rocmrpm copr`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Choice;

/// The commands below `rocmrpm copr`.
#[derive(Debug, Subcommand)]
pub enum Copr {
    /// Apply copr/project.toml to the project on COPR
    Sync(CoprSync),
    /// Build stale components on COPR, in order, and download the results for inspection
    Push(CoprPush),
    /// Show the builds of the project, and which components are stale
    Status(CoprStatus),
    /// Follow the running builds until all have finished
    Watch(CoprWatch),
    /// Cancel the running builds
    Cancel(CoprCancel),
}

/// How to reach COPR.
#[derive(Debug, Args)]
pub struct CoprAccess {
    /// Configuration file for copr-cli [default: ~/.config/copr]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `rocmrpm copr sync`.
#[derive(Debug, Args)]
pub struct CoprSync {
    #[command(flatten)]
    pub access: CoprAccess,

    /// Show the differences without applying them; exit with 1 if there are any
    #[arg(long)]
    pub dry_run: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm copr push`.
#[derive(Debug, Args)]
pub struct CoprPush {
    #[command(flatten)]
    pub access: CoprAccess,

    /// Push only these components and their dependencies
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    #[command(flatten)]
    pub choice: Choice,

    /// After a failure, continue with components that do not depend on it
    #[arg(long)]
    pub keep_going: bool,

    /// Show what would be built, and in which order; change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm copr status`.
#[derive(Debug, Args)]
pub struct CoprStatus {
    #[command(flatten)]
    pub access: CoprAccess,

    #[command(flatten)]
    pub choice: Choice,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm copr watch`.
#[derive(Debug, Args)]
pub struct CoprWatch {
    #[command(flatten)]
    pub access: CoprAccess,

    #[command(flatten)]
    pub choice: Choice,
}

/// `rocmrpm copr cancel`.
#[derive(Debug, Args)]
pub struct CoprCancel {
    #[command(flatten)]
    pub access: CoprAccess,

    /// Cancel only the builds of these components
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    #[command(flatten)]
    pub choice: Choice,

    /// Show what would be canceled; change nothing
    #[arg(long)]
    pub dry_run: bool,
}
