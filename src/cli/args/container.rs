//! Arguments of `rocmrpm container`.

use clap::{Args, Subcommand};

use super::Choice;
use crate::workspace::Flavor;

/// `rocmrpm container`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Container {
    /// The subcommand
    #[command(subcommand)]
    pub command: Option<ContainerCommand>,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub flavor: FlavorArg,

    /// Print the container file instead of writing it
    #[arg(long)]
    pub print: bool,
}

/// The flavor of a container file.
#[derive(Debug, Clone, Args)]
pub struct FlavorArg {
    /// Kind of image: fedora, ubuntu, vulkan, toolbox, or one that the workspace defines
    #[arg(long, value_name = "NAME", value_parser = parse_flavor, default_value = "fedora")]
    pub flavor: Flavor,
}

fn parse_flavor(text: &str) -> Result<Flavor, std::convert::Infallible> {
    Ok(Flavor::parse(text))
}

/// The commands below `rocmrpm container`.
#[derive(Debug, Subcommand)]
pub enum ContainerCommand {
    /// Build the image with podman or buildah
    Build(ContainerBuild),
    /// Start a container with the GPUs of this machine, with podman or docker
    Run(ContainerRun),
    /// Compare an image's labels with the pins
    Check(ContainerCheck),
}

/// `rocmrpm container build`.
#[derive(Debug, Args)]
pub struct ContainerBuild {
    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub flavor: FlavorArg,

    /// Name of the image [default: the stack's name, with the flavor]
    #[arg(short, long, value_name = "IMAGE")]
    pub tag: Option<String>,

    /// Use this base image instead
    #[arg(long, value_name = "IMAGE")]
    pub base: Option<String>,
}

/// `rocmrpm container run`.
#[derive(Debug, Args)]
pub struct ContainerRun {
    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub flavor: FlavorArg,

    /// Image to start [default: the stack's name, with the flavor]
    #[arg(short, long, value_name = "IMAGE")]
    pub tag: Option<String>,

    /// Start it without GPUs
    #[arg(long)]
    pub without_gpu: bool,

    /// Print the command instead of running it
    #[arg(long)]
    pub print: bool,

    /// Program in the image, and its arguments [default: the image's]
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// `rocmrpm container check`.
#[derive(Debug, Args)]
pub struct ContainerCheck {
    /// The image to compare
    pub image: String,

    #[command(flatten)]
    pub choice: Choice,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
