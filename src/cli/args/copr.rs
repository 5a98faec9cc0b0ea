//! Arguments of `rocmrpm copr`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Choice;

/// The commands below `rocmrpm copr`.
#[derive(Debug, Subcommand)]
pub enum Copr {
    /// Make the project on COPR what copr/project.toml says
    Sync(CoprSync),
    /// Build on COPR what is stale, in order, and bring the results back for inspection
    Push(CoprPush),
    /// Show which builds the project has, and what is stale
    Status(CoprStatus),
    /// Follow the builds under way until all have ended
    Watch(CoprWatch),
    /// Cancel the builds under way
    Cancel(CoprCancel),
}

/// How COPR is reached.
#[derive(Debug, Args)]
pub struct CoprAccess {
    /// Let copr-cli use this configuration instead of ~/.config/copr
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `rocmrpm copr sync`.
#[derive(Debug, Args)]
pub struct CoprSync {
    #[command(flatten)]
    pub access: CoprAccess,

    /// Show the difference; change nothing; exit with 1 if there is one
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

    /// Push only these components and what they require
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    #[command(flatten)]
    pub choice: Choice,

    /// After a failure, go on with what does not depend on it
    #[arg(long)]
    pub keep_going: bool,

    /// Show what would be built, in which order; change nothing
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
