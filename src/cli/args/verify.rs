//! Arguments of `rocmrpm verify`.

use std::path::PathBuf;

use clap::Args;

use super::Choice;

/// `rocmrpm verify`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("place").required(true))]
pub struct Verify {
    /// Verify an installation below this folder, `/` for this machine
    #[arg(long, value_name = "DIR", group = "place")]
    pub root: Option<PathBuf>,

    /// Verify an image
    #[arg(long, value_name = "IMAGE", group = "place")]
    pub container: Option<String>,

    #[command(flatten)]
    pub choice: Choice,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
