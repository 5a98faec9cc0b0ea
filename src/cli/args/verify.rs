//! Arguments of `rocmrpm verify`.

use std::path::PathBuf;

use clap::Args;

use super::Choice;

/// `rocmrpm verify`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("place").required(true))]
pub struct Verify {
    /// Check the installation below this folder; `/` is this machine
    #[arg(long, value_name = "DIR", group = "place")]
    pub root: Option<PathBuf>,

    /// Check this image
    #[arg(long, value_name = "IMAGE", group = "place")]
    pub container: Option<String>,

    #[command(flatten)]
    pub choice: Choice,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
