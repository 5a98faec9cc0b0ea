//! The arguments of the commands about wheels and their index.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Choice;
use crate::evidence::Tier;

/// `rocmrpm wheel`.
#[derive(Debug, Args)]
pub struct Wheel {
    #[command(flatten)]
    pub choice: Choice,

    /// Write nothing; exit with 1 if a wheel has other files than its RPMs
    #[arg(long, alias = "verify")]
    pub check: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm index`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Index {
    /// The subcommand [default: write the index of the workspace]
    #[command(subcommand)]
    pub command: Option<IndexCommand>,

    #[command(flatten)]
    pub choice: Choice,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The commands below `rocmrpm index`.
#[derive(Debug, Subcommand)]
pub enum IndexCommand {
    /// Check that every requirement of every wheel is satisfied, and that no wheel is duplicated
    Check(IndexCheck),
    /// Serve an index on this machine, for testing
    Serve(IndexServe),
}

/// `rocmrpm index check`.
#[derive(Debug, Args)]
pub struct IndexCheck {
    /// Folder of the index, or the URL of a signed one [default: the workspace's index]
    #[arg(value_name = "DIR|URL")]
    pub index: Option<String>,

    /// Public key that verifies the index's manifest [default: the key in `[signing]`]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,

    /// Accept an index that is older than the newest that this machine has seen
    #[arg(long)]
    pub allow_rollback: bool,

    /// Check this channel of a published index
    #[arg(long, value_name = "NAME")]
    pub channel: Option<String>,

    #[command(flatten)]
    pub choice: Choice,

    /// Do not query external indexes; list the requirements that only they could satisfy
    #[arg(long)]
    pub offline: bool,

    /// Require that installers need no other index; uv proves it
    #[arg(long, conflicts_with = "offline")]
    pub closed: bool,

    /// Compare the digest of every package, not only its size
    #[arg(long)]
    pub digests: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm index serve`.
#[derive(Debug, Args)]
pub struct IndexServe {
    /// Folder of the index [default: the workspace's index]
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,

    #[command(flatten)]
    pub choice: Choice,

    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub address: std::net::IpAddr,

    /// Port to listen on; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value = "8000")]
    pub port: u16,

    /// Answer requests for this host name in addition to localhost (can be repeated); on addresses
    /// that other machines can reach, all names are answered
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
}

/// `rocmrpm requirements`.
#[derive(Debug, Args)]
pub struct Requirements {
    #[command(flatten)]
    pub choice: Choice,

    /// Write constraints.txt instead of requirements.lock: it pins versions, but does not select
    /// what is installed
    #[arg(long)]
    pub constraints: bool,

    /// Also resolve requirements from outside the stack with `uv pip compile`, and pin them
    #[arg(long)]
    pub resolve: bool,

    /// URL of the index [default: the index folder of the workspace]
    #[arg(long, value_name = "URL")]
    pub index_url: Option<String>,

    /// Folder to write to [default: build/<chroot>/requirements]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The commands below `rocmrpm publish`.
#[derive(Debug, Subcommand)]
pub enum Publish {
    /// Add the workspace's wheels, or other wheels and sdists, to a published index
    Index(PublishIndex),
    /// Add the workspace's RPMs to a published dnf repository
    Repository(PublishRepository),
    /// Promote wheels of a published index from one channel to another
    Promote(PublishPromote),
    /// Yank wheels of a published index, so that installers no longer choose them
    Yank(PublishYank),
}

/// The destination of a published index or repository.
#[derive(Debug, Clone, Args)]
pub struct Destination {
    /// A folder, `HOST:FOLDER` or an rsync:// URL for rsync, or s3://BUCKET/PREFIX
    #[arg(value_name = "DESTINATION")]
    pub destination: String,

    /// URL of an S3 service other than Amazon's
    #[arg(long, value_name = "URL")]
    pub endpoint_url: Option<String>,

    /// Show what would change; change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Accept a destination that is older than what this machine has published or checked there
    #[arg(long)]
    pub allow_rollback: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm publish index`.
#[derive(Debug, Args)]
pub struct PublishIndex {
    #[command(flatten)]
    pub destination: Destination,

    /// Wheels and sdists to publish instead of the workspace's wheels; errors of inspection reject them
    #[arg(value_name = "FILE", conflicts_with_all = ["chroot", "pins"])]
    pub files: Vec<PathBuf>,

    /// Channel to publish to
    #[arg(long, value_name = "NAME", default_value = "testing")]
    pub channel: String,

    #[command(flatten)]
    pub choice: Choice,
}

/// `rocmrpm publish repository`.
#[derive(Debug, Args)]
pub struct PublishRepository {
    #[command(flatten)]
    pub destination: Destination,

    /// Also publish builds of uncommitted changes
    #[arg(long)]
    pub allow_dirty: bool,

    #[command(flatten)]
    pub choice: Choice,
}

/// `rocmrpm publish promote`.
#[derive(Debug, Args)]
pub struct PublishPromote {
    #[command(flatten)]
    pub destination: Destination,

    /// Promote only these distributions, in all versions or as `NAME==VERSION`
    #[arg(value_name = "DISTRIBUTION")]
    pub distributions: Vec<String>,

    /// Channel to promote from
    #[arg(long, value_name = "NAME", default_value = "testing")]
    pub from: String,

    /// Channel to promote to
    #[arg(long, value_name = "NAME", default_value = "stable")]
    pub to: String,

    /// Refuse wheels that evidence of this workspace does not prove to be of this tier
    /// [default: `promote` in pipeline.toml, or none]
    #[arg(long, value_name = "TIER", value_enum)]
    pub tier: Option<TierName>,
}

/// Tiers by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TierName {
    /// No evidence is required
    None,
    /// The spec was rendered
    Rendered,
    /// %prep succeeded
    Prepared,
    /// The packages were built
    Built,
    /// The packages passed the inspection
    Inspected,
    /// The packages were installed and imported
    Installed,
    /// A program computed on a GPU of a target
    Ran,
}

impl TierName {
    /// Returns the tier, if one is required.
    pub fn tier(self) -> Option<Tier> {
        match self {
            Self::None => None,
            Self::Rendered => Some(Tier::Rendered),
            Self::Prepared => Some(Tier::Prepared),
            Self::Built => Some(Tier::Built),
            Self::Inspected => Some(Tier::Inspected),
            Self::Installed => Some(Tier::Installed),
            Self::Ran => Some(Tier::Ran),
        }
    }
}

/// `rocmrpm publish yank`.
#[derive(Debug, Args)]
pub struct PublishYank {
    #[command(flatten)]
    pub destination: Destination,

    /// Distribution and version to yank, with the local label
    #[arg(value_name = "NAME==VERSION")]
    pub version: String,

    /// Reason for the yank, which pip shows
    #[arg(long, value_name = "TEXT", required_unless_present = "undo")]
    pub reason: Option<String>,

    /// Undo the yank
    #[arg(long, conflicts_with = "reason")]
    pub undo: bool,
}
