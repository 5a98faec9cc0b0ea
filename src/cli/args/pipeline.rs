//! The arguments of the commands that keep a stack current.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::build::BuilderName;

/// The commands below `rocmrpm pipeline`.
#[derive(Debug, Subcommand)]
pub enum Pipeline {
    /// Move the pins to newer releases, build, prove, and publish them to `testing`
    ///
    /// Works on the git branch `rocmrpm/SET` in a folder of its own, and leaves a record of evidence
    /// for every stage. Stops at the first stage that needs a person, and resumes there.
    Run(PipelineRun),
    /// Show what is proved, outdated, and blocked, for all pin sets and chroots
    Status(PipelineStatus),
    /// Accept what the pipeline stopped for
    Accept(PipelineAccept),
    /// Bring the channel `stable` and the repository back to an earlier publication
    Rollback(PipelineRollback),
}

/// `rocmrpm pipeline run`.
#[derive(Debug, Args)]
pub struct PipelineRun {
    /// Use this pin set from pins/
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,

    /// Build for this chroot from mock-configs/ (can be repeated)
    #[arg(long, value_name = "NAME")]
    pub chroot: Vec<String>,

    /// Build with this instead of the chroot's default
    #[arg(long, value_name = "NAME", value_enum)]
    pub builder: Option<PipelineBuilder>,

    /// Stop each build after this time, such as `8 h` [default: `timeout` of the component]
    #[arg(long, value_name = "DURATION", value_parser = super::build::parse_duration)]
    pub timeout: Option<Duration>,

    /// Take no newer releases; use only the cache, without network access
    #[arg(long)]
    pub offline: bool,

    /// Show what would happen; change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What can build the packages of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PipelineBuilder {
    /// In a chroot by mock
    Mock,
    /// With rpmbuild on this machine
    Host,
    /// On COPR, in the project of copr/project.toml
    Copr,
}

impl From<PipelineBuilder> for crate::pipeline::PipelineBuilder {
    fn from(name: PipelineBuilder) -> Self {
        match name {
            PipelineBuilder::Mock => Self::Local(Some(BuilderName::Mock)),
            PipelineBuilder::Host => Self::Local(Some(BuilderName::Host)),
            PipelineBuilder::Copr => Self::Copr,
        }
    }
}

/// `rocmrpm pipeline status`.
#[derive(Debug, Args)]
pub struct PipelineStatus {
    /// Show only this pin set
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,

    /// Print a page of HTML that needs no server
    #[arg(long)]
    pub html: bool,

    /// Print JSON
    #[arg(long, conflicts_with = "html")]
    pub json: bool,
}

/// `rocmrpm pipeline accept`.
#[derive(Debug, Args)]
pub struct PipelineAccept {
    /// Use this pin set from pins/
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,

    /// Record why
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
}

/// `rocmrpm pipeline rollback`.
#[derive(Debug, Args)]
pub struct PipelineRollback {
    /// Number of the publication's record, which `rocmrpm evidence show` lists with the stage `publish`
    #[arg(value_name = "RECORD")]
    pub record: u64,

    /// Use this pin set from pins/
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,

    /// Show what would change; change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The commands below `rocmrpm evidence`.
#[derive(Debug, Subcommand)]
pub enum Evidence {
    /// Show the records of a pin set: what was done, where, and with which result
    Show(EvidenceShow),
    /// Check that no record was changed or left out, and verify imported signatures again
    Check(EvidenceCheck),
    /// Write all records of a pin set to one file, with a signature
    Export(EvidenceExport),
    /// Add records that another machine exported, if their signature is valid
    Import(EvidenceImport),
}

/// `rocmrpm evidence show`.
#[derive(Debug, Args)]
pub struct EvidenceShow {
    /// Use this pin set from pins/
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,

    /// Show only the records of this chroot, and those of the whole set
    #[arg(long, value_name = "NAME", required_if_eq("html", "true"))]
    pub chroot: Option<String>,

    /// Print a page of HTML that needs no server
    #[arg(long)]
    pub html: bool,

    /// Print JSON
    #[arg(long, conflicts_with = "html")]
    pub json: bool,
}

/// `rocmrpm evidence check`.
#[derive(Debug, Args)]
pub struct EvidenceCheck {
    /// Use this pin set from pins/
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm evidence export`.
#[derive(Debug, Args)]
pub struct EvidenceExport {
    /// File to write; the signature is in FILE.asc
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Use this pin set from pins/
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,

    /// Write no signature; no machine imports such a file
    #[arg(long)]
    pub unsigned: bool,
}

/// `rocmrpm evidence import`.
#[derive(Debug, Args)]
pub struct EvidenceImport {
    /// File that `evidence export` wrote; FILE.asc has its signature
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Public key that verifies the signature
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,

    /// Use this pin set from pins/
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,
}
