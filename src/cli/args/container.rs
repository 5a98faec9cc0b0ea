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
#[derive(Debug, Clone, Copy, Args)]
pub struct FlavorArg {
    /// Kind of image: fedora, ubuntu, vulkan, toolbox, vendor, spoof, ollama
    #[arg(long, value_name = "NAME", value_parser = parse_flavor, default_value = "fedora")]
    pub flavor: Flavor,
}

fn parse_flavor(text: &str) -> Result<Flavor, String> {
    Flavor::parse(text).ok_or_else(|| {
        let names: Vec<&str> = Flavor::ALL.iter().map(|flavor| flavor.name()).collect();
        match crate::names::nearest(text, names.iter().copied()) {
            Some(near) => format!("there is no flavor `{text}`; did you mean `{near}`?"),
            None => format!("there is no flavor `{text}`; the flavors are {}", names.join(", ")),
        }
    })
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
