//! The arguments of `rocmrpm pins`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Choice, parse_pin};

/// `rocmrpm pins`.
#[derive(Debug, Subcommand)]
pub enum Pins {
    /// Write the pin set that follows from upstream's own files
    Derive(PinsDerive),
    /// Compare a pin set with upstream's files and with upstreams.toml
    Check(PinsCheck),
    /// List the pins and members of the closure for which there is a newer release
    Outdated(PinsOutdated),
    /// Change a pin to another version and show what that changes for a packager
    Update(PinsUpdate),
    /// Write a pin set for other tools
    Export(PinsExport),
    /// Take versions over from another tool's file
    Import(PinsImport),
}

/// `rocmrpm pins derive`.
#[derive(Debug, Args)]
pub struct PinsDerive {
    /// The component and version to begin with, such as `vllm=0.33.0` or `torch=2.14.1`
    #[arg(long, value_name = "NAME=VERSION", value_parser = parse_pin)]
    pub from: (String, String),

    /// Take where sources come from, and what upstream's files do not say, from this pin set
    #[arg(long, value_name = "NAME")]
    pub base: Option<String>,

    /// Where upstream contradicts itself: this value (can be repeated)
    #[arg(long = "choose", value_name = "NAME=VERSION", value_parser = parse_pin)]
    pub choices: Vec<(String, String)>,

    /// Write pins/NAME.toml; printed where absent
    #[arg(long, value_name = "NAME")]
    pub output: Option<String>,

    /// Use the cache alone, no network
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

    /// Use the cache alone, no network
    #[arg(long)]
    pub offline: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm pins outdated`.
#[derive(Debug, Args)]
pub struct PinsOutdated {
    /// Compare only these components and members of the Python closure
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,

    #[command(flatten)]
    pub choice: Choice,

    /// Count pre-releases too
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

    /// The version; the newest final one where absent
    #[arg(value_name = "VERSION")]
    pub version: Option<String>,

    /// Change this pin set
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,

    /// Change nothing, show what would change
    #[arg(long)]
    pub dry_run: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm pins export`.
#[derive(Debug, Args)]
pub struct PinsExport {
    /// The form
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
    /// The file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Its form; known from its content where absent
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<PinsFormat>,

    /// Change this pin set
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,

    /// Change nothing, show what would change
    #[arg(long)]
    pub dry_run: bool,
}

/// Other tools' forms of pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PinsFormat {
    /// A file of shell variables: `VLLM_VERSION=0.20.2`
    VersionsEnv,
    /// The source manifest of ROCm's TheRock, JSON
    SourceManifest,
}
