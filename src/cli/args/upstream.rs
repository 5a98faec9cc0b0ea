//! The arguments of the commands for upstream sources and specs: `prep`, `patch`, `audit`,
//! `lint`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Choice, PinArgs};

/// `rocmrpm prep`.
#[derive(Debug, Args)]
pub struct Prep {
    /// The component
    #[arg(value_name = "COMPONENT")]
    pub component: String,

    /// Make a git repository instead: upstream's sources, each patch, and the edits as commits
    #[arg(long)]
    pub git: bool,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: PinArgs,

    /// Use only the cache, without network access
    #[arg(long)]
    pub offline: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm patch`.
#[derive(Debug, Subcommand)]
pub enum Patch {
    /// Check whether every patch and edit applies
    Status(PatchStatus),
    /// Refresh patches that apply with an offset or after a merge
    Refresh(PatchStatus),
    /// Save the commits of the repository that `prep --git` made as the component's patches
    Save(PatchSave),
    /// Compare a component's changes of upstream files with those of another package
    Compare(PatchCompare),
}

/// `rocmrpm patch save`.
#[derive(Debug, Args)]
pub struct PatchSave {
    /// The component
    #[arg(value_name = "COMPONENT")]
    pub component: String,

    /// Show what would change; change nothing
    #[arg(long)]
    pub dry_run: bool,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: PinArgs,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm patch compare`.
#[derive(Debug, Args)]
pub struct PatchCompare {
    /// The component
    #[arg(value_name = "COMPONENT")]
    pub component: String,

    /// The other package: a spec with its patches next to it, or the folder that contains them; rpm
    /// runs the code in the spec's `%(...)`
    #[arg(long = "with", value_name = "PATH")]
    pub other: PathBuf,

    /// Also list the changes that both make
    #[arg(short, long)]
    pub verbose: bool,

    #[command(flatten)]
    pub choice: Choice,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm patch status` and `rocmrpm patch refresh`.
#[derive(Debug, Args)]
pub struct PatchStatus {
    /// Check only these components
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: PinArgs,

    /// Use only the cache, without network access
    #[arg(long)]
    pub offline: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm audit`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Audit {
    #[command(subcommand)]
    old: Option<AuditOld>,

    #[command(flatten)]
    new: AuditArgs,
}

impl Audit {
    /// Returns the arguments, whichever way they were given.
    pub fn args(&self) -> &AuditArgs {
        match &self.old {
            Some(AuditOld::Offline(args)) => args,
            None => &self.new,
        }
    }
}

/// The name that `rocmrpm audit` had before; kept until 1.0.
#[derive(Debug, Subcommand)]
enum AuditOld {
    #[command(hide = true)]
    Offline(AuditArgs),
}

/// The arguments of `rocmrpm audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// The component
    #[arg(value_name = "COMPONENT", required = true)]
    component: Option<String>,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: PinArgs,

    /// Use only the cache, without network access
    #[arg(long)]
    pub offline: bool,

    /// Also show downloads that are satisfied
    #[arg(short, long)]
    pub verbose: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl AuditArgs {
    /// Returns the component.
    pub fn component(&self) -> &str {
        self.component.as_deref().expect("clap requires it")
    }
}

/// `rocmrpm lint`.
#[derive(Debug, Args)]
pub struct Lint {
    /// Check only these components
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    #[command(flatten)]
    pub choice: Choice,

    /// Check this spec file instead of the components' specs; rpm runs the code in its `%(...)`
    #[arg(long, value_name = "FILE", conflicts_with = "components")]
    pub spec: Option<PathBuf>,

    /// Unpacked source of that spec, to check its exports against
    #[arg(long, value_name = "FOLDER", requires = "spec")]
    pub source: Option<PathBuf>,

    /// Query the chroot's repositories with dnf instead of the package tables
    #[arg(long)]
    pub live: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Lint {
    /// Returns the arguments of `rocmrpm lint` for all components.
    pub fn all(choice: Choice) -> Self {
        Self { components: Vec::new(), choice, spec: None, source: None, live: false, json: false }
    }
}
