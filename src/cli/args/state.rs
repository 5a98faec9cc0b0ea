//! Arguments of the commands about what a workspace has on disk: `rocmrpm check`, `graph`, `remove`,
//! `status`, `log`, `clean` and `cache`.

use clap::{Args, Subcommand, ValueEnum};

use super::{BuiltPins, Choice};

/// `rocmrpm check`.
#[derive(Debug, Args)]
pub struct Check {
    #[command(flatten)]
    pub choice: Choice,

    /// Use only the cache, without network access
    #[arg(long)]
    pub offline: bool,
}

/// `rocmrpm status`.
#[derive(Debug, Args)]
pub struct Status {
    /// Show only these components [default: all]
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: BuiltPins,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm log`.
#[derive(Debug, Args)]
pub struct Log {
    /// The component [default: the one that was built last]
    pub component: Option<String>,

    /// Show this log, such as `root.log` [default: the one of rpmbuild]
    #[arg(value_name = "LOG")]
    pub log: Option<String>,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: BuiltPins,

    /// Print what is added to the log until the build finishes
    #[arg(short, long)]
    pub follow: bool,

    /// List the logs instead
    #[arg(long, conflicts_with_all = ["log", "follow"])]
    pub list: bool,
}

/// `rocmrpm clean`.
#[derive(Debug, Args)]
pub struct Clean {
    /// Only clean these components [default: all]
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: BuiltPins,

    /// Also remove results, which the next build makes again
    #[arg(long)]
    pub all: bool,

    /// Only show what would be removed
    #[arg(long)]
    pub dry_run: bool,
}

/// `rocmrpm cache`.
#[derive(Debug, Args)]
pub struct Cache {
    #[command(subcommand)]
    pub command: Option<CacheCommand>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The subcommands of `rocmrpm cache`.
#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// Remove what no command has used for some time
    Prune(CachePrune),
}

/// `rocmrpm cache prune`.
#[derive(Debug, Args)]
pub struct CachePrune {
    /// Remove what was last used this many days ago or earlier
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub days: u16,

    /// Only show what would be removed
    #[arg(long)]
    pub dry_run: bool,
}

/// `rocmrpm remove`.
#[derive(Debug, Args)]
pub struct Remove {
    /// The components
    #[arg(value_name = "COMPONENT", required = true)]
    pub components: Vec<String>,

    /// Remove them even if git cannot restore their files
    #[arg(long)]
    pub force: bool,
}

/// `rocmrpm graph`.
#[derive(Debug, Args)]
pub struct Graph {
    /// Show only these components and their dependencies [default: all]
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    #[command(flatten)]
    pub choice: Choice,

    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub format: GraphFormat,
}

/// Formats of `rocmrpm graph`.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub enum GraphFormat {
    /// A tree
    #[default]
    Text,
    /// A graph for Graphviz
    Dot,
    /// A picture
    Svg,
    /// A page with the picture
    Html,
}
