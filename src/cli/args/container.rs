//! Arguments of `rocmrpm container`.

use clap::{Args, Subcommand};

use super::Choice;
use crate::workspace::Flavour;

/// `rocmrpm container`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Container {
    /// What to do with it
    #[command(subcommand)]
    pub command: Option<ContainerCommand>,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub flavour: FlavourArg,

    /// Print it instead of writing it
    #[arg(long)]
    pub print: bool,
}

/// Which container file.
#[derive(Debug, Clone, Copy, Args)]
pub struct FlavourArg {
    /// What the image is made of: fedora, ubuntu, vulkan, spoof, ollama
    #[arg(long, value_name = "NAME", value_parser = parse_flavour, default_value = "fedora")]
    pub flavour: Flavour,
}

fn parse_flavour(text: &str) -> Result<Flavour, String> {
    Flavour::parse(text).ok_or_else(|| {
        let names: Vec<&str> = Flavour::ALL.iter().map(|flavour| flavour.name()).collect();
        match crate::names::nearest(text, names.iter().copied()) {
            Some(near) => format!("there is no flavour `{text}`; did you mean `{near}`?"),
            None => format!("there is no flavour `{text}`; there is: {}", names.join(", ")),
        }
    })
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

    #[command(flatten)]
    pub flavour: FlavourArg,

    /// Call the image this; the stack's name, with the flavour, where absent
    #[arg(short, long, value_name = "IMAGE")]
    pub tag: Option<String>,

    /// Start from this image instead
    #[arg(long, value_name = "IMAGE")]
    pub base: Option<String>,
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
