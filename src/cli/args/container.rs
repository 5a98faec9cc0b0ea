//! Arguments of `rocmrpm container`.

use clap::{Args, Subcommand};

use super::Choice;

/// `rocmrpm container`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Container {
    /// What to do with it
    #[command(subcommand)]
    pub command: Option<ContainerCommand>,

    #[command(flatten)]
    pub choice: Choice,

    /// Print it instead of writing it
    #[arg(long)]
    pub print: bool,
}

/// The commands below `rocmrpm container`.
#[derive(Debug, Subcommand)]
pub enum ContainerCommand {
    /// Build the image with podman or buildah
    Build(ContainerBuild),
    /// Compare an image's labels with the pins
    Check(ContainerCheck),
}

/// `rocmrpm container build`.
#[derive(Debug, Args)]
pub struct ContainerBuild {
    #[command(flatten)]
    pub choice: Choice,
}

/// `rocmrpm container check`.
#[derive(Debug, Args)]
pub struct ContainerCheck {
    /// The image
    pub image: String,

    #[command(flatten)]
    pub choice: Choice,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
