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

    /// Also compute with the stack: run stack-smoke there, and compare with its last run
    #[arg(long)]
    pub smoke: bool,

    /// Also measure how fast the stack is; implies --smoke
    #[arg(long)]
    pub bench: bool,

    /// Also write a record of evidence: which packages of the stack are installed, and which ran on a GPU
    #[arg(long, conflicts_with = "container")]
    pub record: bool,

    /// Also write the results to this file, as JUnit's XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
