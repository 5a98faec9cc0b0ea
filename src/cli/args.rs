//! Every command's arguments, as clap reads them; those of some subjects are in files
//! of their own.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::names::is_version;

mod build;
mod closure;
mod container;
mod copr;
mod index;
mod pins;
mod upstream;
mod verify;

pub use build::{Build, BuilderName, EnterShell, Reproduce};
pub use closure::{Closure, ClosureAudit, ClosureCommand, ClosureDiff, ClosureHow, ClosureWhy};
pub use container::{Container, ContainerBuild, ContainerCheck, ContainerCommand};
pub use copr::{Copr, CoprCancel, CoprPush, CoprStatus, CoprSync, CoprWatch};
pub use index::{
    Destination, Index, IndexCheck, IndexCommand, IndexServe, Publish, PublishIndex, PublishRepository,
    Requirements, Wheel,
};
pub use pins::{Pins, PinsCheck, PinsDerive, PinsExport, PinsFormat, PinsImport, PinsOutdated, PinsUpdate};
pub use upstream::{Audit, Lint, Patch, PatchStatus, Prep};
pub use verify::Verify;

/// Turn version pins into inspected RPMs, wheels, a pip index and a container file
/// of the ROCm stack
#[derive(Debug, Parser)]
#[command(name = "rocmrpm", version, max_term_width = 100, infer_subcommands = false)]
#[command(after_help = "Exit codes: 0 ok, 1 findings or a difference, 2 usage, 3 configuration, \
    10 a build failed, 11 timeout, 20 chroot or host, 30 network, 40 a tool is missing, 70 our mistake, \
    130 interrupted.")]
pub struct Arguments {
    /// Use the workspace that contains this folder
    #[arg(short = 'C', value_name = "DIR", default_value = ".", global = true)]
    pub directory: PathBuf,

    /// Say nothing but warnings and errors
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// When to use colours
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, global = true)]
    pub color: ColorChoice,

    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub enum ColorChoice {
    /// Where the stream is a terminal that wants them.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorChoice {
    /// Makes both streams follow the choice.
    pub fn apply(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a workspace
    Init(Init),
    /// Add a component: its folder and its pin
    Add(Add),
    /// Record what every pin's sources are: digest and size, commit, tree, submodules, crates
    Lock(Lock),
    /// Derive pins from upstream's own files, check, update, export and import them
    #[command(subcommand)]
    Pins(Pins),
    /// Unpack, patch and edit a component's sources as its %prep does, and build nothing
    Prep(Prep),
    /// Tell whether patches and edits apply to the pinned sources; write patches anew
    #[command(subcommand)]
    Patch(Patch),
    /// Look for what a build would fetch from the network
    #[command(subcommand)]
    Audit(Audit),
    /// Look for mistakes in specs that rpmlint does not know
    Lint(Lint),
    /// Render the specs and the container file
    Render(Render),
    /// Show what would be built, and why
    Plan(Plan),
    /// Build what is stale: RPMs, inspection, repository, wheels, index, container file
    Build(Build),
    /// Build a component once more in the same packages, and compare file by file
    Reproduce(Reproduce),
    /// Enter the build root that a failed build left
    Shell(EnterShell),
    /// Show linkage and GPU code of RPMs, wheels, folders and files, and what is wrong with them
    Inspect(Inspect),
    /// Explain a rule, or the cause of a failed build, and how to fix or waive it
    Explain(Explain),
    /// Tell where each Python distribution comes from that a component requires, and write what brings it
    Closure(Closure),
    /// Make wheels from the RPMs that passed inspection
    Wheel(Wheel),
    /// Write the pip index of the wheels; check or serve one
    Index(Index),
    /// Write exact pins with hashes for pip and uv, and the settings that make them use the index
    Requirements(Requirements),
    /// Publish the index or the RPM repository; promote or yank what is published
    #[command(subcommand)]
    Publish(Publish),
    /// Build on COPR, and make the project there what the workspace says
    #[command(subcommand)]
    Copr(Copr),
    /// Render the container file; build the image, and compare one with the pins
    Container(Container),
    /// Check what users will install: dependencies, conflicts, imports, the checklist
    Verify(Verify),
    /// Trust a workspace: let commands run its code as you; list or remove trusted ones
    Trust(Trust),
    /// Tell what this machine has and lacks
    Doctor(Doctor),
    /// Print shell completions
    Completions(Completions),
}

/// Which chroot and pin set a command uses.
#[derive(Debug, Clone, Args)]
pub struct Choice {
    /// Build against this chroot of mock-configs/; `host` is this machine
    #[arg(long, value_name = "NAME")]
    pub chroot: Option<String>,

    /// Use this pin set of pins/
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,
}

/// Versions that override pins.
#[derive(Debug, Clone, Args)]
pub struct PinArgs {
    /// Use another version of a component; marks every output dirty (can be repeated)
    #[arg(long = "pin", value_name = "NAME=VERSION", value_parser = parse_pin)]
    pub overrides: Vec<(String, String)>,
}

fn parse_pin(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, version)) if !name.is_empty() && is_version(version) => {
            Ok((name.to_owned(), version.to_owned()))
        }
        Some((name, version)) if !name.is_empty() && !version.is_empty() => {
            Err(format!("`{version}` cannot be the version of an RPM; it has letters, digits and . _ + ~ ^"))
        }
        _ => Err("expected NAME=VERSION, such as vllm=0.21.0".into()),
    }
}

/// `rocmrpm init`.
#[derive(Debug, Args)]
pub struct Init {
    /// The stack's name; the folder's name where absent
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// A GPU target to build for (can be repeated)
    #[arg(long = "gpu-target", value_name = "TARGET", default_value = "gfx1151")]
    pub gpu_targets: Vec<String>,
}

/// `rocmrpm add`.
#[derive(Debug, Args)]
pub struct Add {
    /// The component's name
    pub name: String,

    /// The upstream version; the newest on the index where absent
    #[arg(long)]
    pub version: Option<String>,

    /// Take the source distribution of this project on the pip index (the default, with the
    /// component's name)
    #[arg(long, value_name = "PROJECT", group = "origin")]
    pub sdist: Option<String>,

    /// Take a file; `{version}` in it stands for the version
    #[arg(long, value_name = "URL", group = "origin", requires = "version")]
    pub url: Option<String>,

    /// Take a commit of a git repository; the tag of the version is resolved
    #[arg(long, value_name = "URL", group = "origin", requires = "version")]
    pub git: Option<String>,

    /// Take a folder of the workspace
    #[arg(long, value_name = "DIR", group = "origin", requires = "version")]
    pub path: Option<String>,

    /// Add the pin to this pin set
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,
}

/// `rocmrpm lock`.
#[derive(Debug, Args)]
pub struct Lock {
    /// Lock this pin set
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,

    /// Write nothing; exit with 1 if the lock file is not what would be written
    #[arg(long)]
    pub check: bool,

    /// Use the cache alone, no network
    #[arg(long)]
    pub offline: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm render`.
#[derive(Debug, Args)]
pub struct Render {
    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: PinArgs,

    /// Write nothing; exit with 1 if the committed container file is not what would be rendered
    #[arg(long)]
    pub check: bool,

    /// Show how the files on disk differ from what would be rendered; write nothing
    #[arg(long)]
    pub diff: bool,

    /// Print JSON
    #[arg(long, conflicts_with = "diff")]
    pub json: bool,
}

/// `rocmrpm plan`.
#[derive(Debug, Args)]
pub struct Plan {
    /// Plan only these components and what they require
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: PinArgs,

    /// Who builds
    #[arg(long, value_enum)]
    pub builder: Option<BuilderName>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm inspect`.
#[derive(Debug, Args)]
pub struct Inspect {
    /// RPMs, wheels, tar.gz archives, folders, ELF files, code objects; together they are judged
    /// as one set
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,

    /// A GPU target that must be served (can be repeated); the workspace's where absent
    #[arg(long = "gpu-target", value_name = "TARGET")]
    pub gpu_targets: Vec<String>,

    /// The chroot of mock-configs/ on which the files are to load; where absent, the one they were
    /// built for, if they lie in a build folder, or the default
    #[arg(long, value_name = "NAME")]
    pub chroot: Option<String>,

    /// Judge as the build of this component does: its targets, its promise of GPU code, its
    /// waivers
    #[arg(long, value_name = "NAME")]
    pub component: Option<String>,

    /// Decode every bundle: verify hashes and flags, count kernels
    #[arg(long)]
    pub deep: bool,

    /// Show what changed since OLD, which is inspected in the same way
    #[arg(long, value_name = "OLD", conflicts_with_all = ["format", "component"])]
    pub against: Option<PathBuf>,

    /// Report paths of build folders inside file contents too, which are mostly benign
    #[arg(long)]
    pub content_paths: bool,

    /// How to print the report
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub format: ReportFormat,

    /// Print JSON: the same as `--format json`
    #[arg(long, conflicts_with = "format")]
    pub json: bool,

    /// Write the report to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Show every file, however many there are
    #[arg(short, long)]
    pub verbose: bool,
}

/// How a report is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people at a terminal
    #[default]
    Text,
    /// The whole report; docs/schemas/ has its schema
    Json,
    /// One self-contained page
    Html,
    /// A test report for CI systems
    Junit,
    /// Workflow commands of GitHub Actions
    Github,
}

/// `rocmrpm explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// The ID of a rule or a cause, such as `gpu-target-missing` or `disk-full`; all where absent
    #[arg(value_name = "ID")]
    pub id: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm trust`.
#[derive(Debug, Args)]
pub struct Trust {
    /// The workspace, or the folder of a spec for `lint --spec` [default: the workspace that
    /// contains the current folder]
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// Print the trusted folders
    #[arg(long, conflicts_with_all = ["folder", "remove"])]
    pub list: bool,

    /// Stop trusting it
    #[arg(long)]
    pub remove: bool,
}

/// `rocmrpm doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}
