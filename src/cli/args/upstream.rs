//! The arguments of the commands that look at upstream's sources and at specs: prep, patch,
//! audit, lint.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Choice, PinArgs};

/// `rocmrpm prep`.
#[derive(Debug, Args)]
pub struct Prep {
    /// The component
    #[arg(value_name = "COMPONENT")]
    pub component: String,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: PinArgs,

    /// Use the cache alone, no network
    #[arg(long)]
    pub offline: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm patch`.
#[derive(Debug, Subcommand)]
pub enum Patch {
    /// Tell for every patch and edit whether it applies
    Status(PatchStatus),
    /// Write patches anew that apply with an offset or with a merge
    Refresh(PatchStatus),
}

/// `rocmrpm patch status` and `rocmrpm patch refresh`.
#[derive(Debug, Args)]
pub struct PatchStatus {
    /// Only these components
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: PinArgs,

    /// Use the cache alone, no network
    #[arg(long)]
    pub offline: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm audit`.
#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Tell for each place in the prepared source that fetches something what satisfies it
    Offline(AuditOffline),
}

/// `rocmrpm audit offline`.
#[derive(Debug, Args)]
pub struct AuditOffline {
    /// The component
    #[arg(value_name = "COMPONENT")]
    pub component: String,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: PinArgs,

    /// Use the cache alone, no network
    #[arg(long)]
    pub offline: bool,

    /// Show what is satisfied, too
    #[arg(short, long)]
    pub verbose: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm lint`.
#[derive(Debug, Args)]
pub struct Lint {
    /// Only these components
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    #[command(flatten)]
    pub choice: Choice,

    /// Look at this spec file instead of the components' specs; rpm runs what stands in its `%(...)`
    #[arg(long, value_name = "FILE", conflicts_with = "components")]
    pub spec: Option<PathBuf>,

    /// The unpacked source of that spec, with which its exports are compared
    #[arg(long, value_name = "FOLDER", requires = "spec")]
    pub source: Option<PathBuf>,

    /// Ask the chroot's repositories by dnf instead of the package tables
    #[arg(long)]
    pub live: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
