//! The arguments of `rocmrpm pins`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Choice, parse_pin};

/// `rocmrpm pins`.
#[derive(Debug, Subcommand)]
pub enum Pins {
    /// Derive a pin set from upstream files, as upstreams.toml describes
    Derive(PinsDerive),
    /// Compare a pin set with upstream files and upstreams.toml
    Check(PinsCheck),
    /// List pins and closure members that have a newer release
    Outdated(PinsOutdated),
    /// Change a pin to another version, and show what changes for a packager
    Update(PinsUpdate),
    /// Export a pin set for a shell, or for TheRock
    #[command(hide = true)]
    Export(PinsExport),
    /// Import versions from an exported file
    #[command(hide = true)]
    Import(PinsImport),
}

/// `rocmrpm pins derive`.
#[derive(Debug, Args)]
pub struct PinsDerive {
    /// Component and version to start from, such as `vllm=0.33.0` or `torch=2.14.1`
    #[arg(long, value_name = "NAME=VERSION", value_parser = parse_pin)]
    pub from: (String, String),

    /// Pin set with the locations of sources, and the versions that upstream files do not state
    #[arg(long, value_name = "NAME")]
    pub base: Option<String>,

    /// Version to use where upstream files contradict each other (can be repeated)
    #[arg(long = "choose", value_name = "NAME=VERSION", value_parser = parse_pin)]
    pub choices: Vec<(String, String)>,

    /// Write pins/NAME.toml [default: print the pin set]
    #[arg(long, value_name = "NAME")]
    pub output: Option<String>,

    /// Use only the cache, without network access
    #[arg(long)]
    pub offline: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm pins check`.
#[derive(Debug, Args)]
pub struct PinsCheck {
    #[command(flatten)]
    pub choice: Choice,

    /// Use only the cache, without network access
    #[arg(long)]
    pub offline: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm pins outdated`.
#[derive(Debug, Args)]
pub struct PinsOutdated {
    /// Check only these components and members of the Python closure
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,

    #[command(flatten)]
    pub choice: Choice,

    /// Include pre-releases
    #[arg(long)]
    pub pre: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm pins update`.
#[derive(Debug, Args)]
pub struct PinsUpdate {
    /// The component
    #[arg(value_name = "COMPONENT")]
    pub component: String,

    /// The new version [default: the newest final release]
    #[arg(value_name = "VERSION")]
    pub version: Option<String>,

    /// Change this pin set
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,

    /// Show what would change; change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm pins export`.
#[derive(Debug, Args)]
pub struct PinsExport {
    /// Format to write
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: PinsFormat,

    /// Export this pin set
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,

    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `rocmrpm pins import`.
#[derive(Debug, Args)]
pub struct PinsImport {
    /// The file to import
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Format of the file [default: detected from its content]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<PinsFormat>,

    /// Change this pin set
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,

    /// Show what would change; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Formats of other tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PinsFormat {
    /// A file of shell variables: `VLLM_VERSION=0.20.2`
    VersionsEnv,
    /// The source manifest of ROCm's TheRock (JSON)
    SourceManifest,
}
