//! The arguments of the commands about wheels and their index.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Choice;

/// `rocmrpm wheel`.
#[derive(Debug, Args)]
pub struct Wheel {
    #[command(flatten)]
    pub choice: Choice,

    /// Make nothing: prove by digests that the files of the wheels are those of the RPMs
    #[arg(long)]
    pub verify: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm index`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Index {
    /// What to do with an index; where absent, the workspace's is written
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
    /// Tell whether every requirement of every wheel is satisfied, and no wheel is there twice
    Check(IndexCheck),
    /// Serve an index on this machine, for trying and testing
    Serve(IndexServe),
}

/// `rocmrpm index check`.
#[derive(Debug, Args)]
pub struct IndexCheck {
    /// The index's folder, or the address of a signed one [default: the workspace's index]
    #[arg(value_name = "DIR|URL")]
    pub index: Option<String>,

    /// The public key that signs the index's manifest [default: the key in `[signing]`]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,

    /// Accept an older state of the index than this machine has seen
    #[arg(long)]
    pub allow_rollback: bool,

    /// Check this channel of a published index
    #[arg(long, value_name = "NAME")]
    pub channel: Option<String>,

    #[command(flatten)]
    pub choice: Choice,

    /// Ask no outside index: what only such a one could have is told, not checked
    #[arg(long)]
    pub offline: bool,

    /// Read every package and compare its digest, not its size alone
    #[arg(long)]
    pub digests: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm index serve`.
#[derive(Debug, Args)]
pub struct IndexServe {
    /// The index's folder; the workspace's where absent
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,

    #[command(flatten)]
    pub choice: Choice,

    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub address: std::net::IpAddr,

    /// The port to listen on; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value = "8000")]
    pub port: u16,

    /// Answer requests for this host name, beside those for localhost; on addresses that other
    /// machines reach, every name is answered
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
}

/// `rocmrpm requirements`.
#[derive(Debug, Args)]
pub struct Requirements {
    #[command(flatten)]
    pub choice: Choice,

    /// Write constraints.txt instead of requirements.lock: what is installed is up to others, its
    /// versions are not
    #[arg(long)]
    pub constraints: bool,

    /// Let `uv pip compile` resolve what the stack requires from outside, and pin that too
    #[arg(long)]
    pub resolve: bool,

    /// Where the index will be found; the workspace's own folder where absent
    #[arg(long, value_name = "URL")]
    pub index_url: Option<String>,

    /// The folder to write to; build/<chroot>/requirements where absent
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The commands below `rocmrpm publish`.
#[derive(Debug, Subcommand)]
pub enum Publish {
    /// Add the workspace's wheels to a published index
    Index(PublishIndex),
    /// Add the workspace's RPMs to a published dnf repository
    Repository(PublishRepository),
    /// Let a channel point to what another one has
    Promote(PublishPromote),
    /// Mark a wheel as one that nobody should choose any more
    Yank(PublishYank),
}

/// Where an index or a repository is published.
#[derive(Debug, Clone, Args)]
pub struct Destination {
    /// A folder, `HOST:FOLDER` or rsync:// for rsync, or s3://BUCKET/PREFIX
    #[arg(value_name = "DESTINATION")]
    pub destination: String,

    /// The address of an S3 service that is not Amazon's
    #[arg(long, value_name = "URL")]
    pub endpoint_url: Option<String>,

    /// Show what would be done; change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Accept that the destination is older than what this machine has published or checked there
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

    /// The channel that gets the wheels
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

    /// Take builds of what was not committed too
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

    /// Only these distributions, all of their versions, or `NAME==VERSION`
    #[arg(value_name = "DISTRIBUTION")]
    pub distributions: Vec<String>,

    /// The channel that has the wheels
    #[arg(long, value_name = "NAME", default_value = "testing")]
    pub from: String,

    /// The channel that gets them
    #[arg(long, value_name = "NAME", default_value = "stable")]
    pub to: String,
}

/// `rocmrpm publish yank`.
#[derive(Debug, Args)]
pub struct PublishYank {
    #[command(flatten)]
    pub destination: Destination,

    /// `NAME==VERSION`, with the local label
    #[arg(value_name = "NAME==VERSION")]
    pub version: String,

    /// Why; pip shows it
    #[arg(long, value_name = "TEXT", required_unless_present = "undo")]
    pub reason: Option<String>,

    /// Take the mark away again
    #[arg(long, conflicts_with = "reason")]
    pub undo: bool,
}
