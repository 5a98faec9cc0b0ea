//! The arguments of all commands. Groups of related commands have their own files.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::error::Kind;
use crate::names::{is_commit, is_version};

mod build;
mod closure;
mod container;
mod copr;
mod groups;
mod index;
mod pins;
mod pipeline;
mod state;
mod upstream;
mod verify;

pub use build::{Build, BuilderName, EnterShell, Reproduce};
pub use closure::{Closure, ClosureAudit, ClosureCommand, ClosureDiff, ClosureHow, ClosureWhy};
pub use container::{Container, ContainerBuild, ContainerCheck, ContainerCommand, ContainerRun};
pub use copr::{Copr, CoprCancel, CoprPush, CoprStatus, CoprSync, CoprWatch};
#[cfg(test)]
pub use groups::GROUPS;
pub use groups::parse;
pub use index::{
    Destination, Index, IndexCheck, IndexCommand, IndexServe, Publish, PublishIndex,
    PublishPromote, PublishRepository, Requirements, Wheel,
};
pub use pins::{
    Pins, PinsCheck, PinsDerive, PinsExport, PinsFormat, PinsImport, PinsOutdated, PinsUpdate,
};
pub use pipeline::{
    Evidence, EvidenceCheck, EvidenceExport, EvidenceImport, EvidenceShow, Pipeline,
    PipelineAccept, PipelineRun, PipelineStatus,
};
pub use state::{
    Cache, CacheCommand, CachePrune, Check, Clean, Graph, GraphFormat, Log, Remove, Status,
};
pub use upstream::{Audit, Lint, Patch, PatchCompare, PatchSave, PatchStatus, Prep};
pub use verify::Verify;

/// Turn version pins into inspected RPMs, wheels, a pip index, and a container file
/// of the ROCm stack
#[derive(Debug, Parser)]
#[command(name = "rocmrpm", version, max_term_width = 100, infer_subcommands = false)]
#[command(after_help = exit_codes())]
pub struct Arguments {
    /// Use the workspace that contains this folder
    #[arg(short = 'C', value_name = "DIR", default_value = ".", global = true)]
    pub directory: PathBuf,

    /// Print only warnings and errors
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// When to use colors
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, global = true)]
    pub color: ColorChoice,

    /// The command
    #[command(subcommand)]
    pub command: Command,
}

/// Returns the line of exit codes below the help.
fn exit_codes() -> String {
    let failures = Kind::ALL.iter().map(|kind| format!("{} {}", kind.exit_code(), kind.summary()));
    let codes: Vec<String> = std::iter::once("0 success".to_owned()).chain(failures).collect();
    format!("Exit codes: {}.", codes.join(", "))
}

/// When to use colors.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub enum ColorChoice {
    /// Use colors if the output is a terminal
    #[default]
    Auto,
    /// Always use colors
    Always,
    /// Never use colors
    Never,
}

impl ColorChoice {
    /// Applies the choice to stdout and stderr.
    pub fn apply(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

/// The commands, in the order of the help. [`groups`] has the headings between them.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a workspace
    Init(Init),
    /// Add components: their folders and their pins
    Add(Add),
    /// Remove components: their folders, and their pins in all pin sets
    Remove(Remove),
    /// Derive pins from upstream files; check and update them
    #[command(subcommand)]
    Pins(Pins),
    /// Lock the sources of a pin set: digests, sizes, commits, trees, submodules, crates
    Lock(Lock),
    /// Show what each component requires
    Graph(Graph),
    /// Unpack, patch, and edit a component's sources as its %prep does, without building
    Prep(Prep),
    /// Check that patches and edits apply to the pinned sources; refresh and save patches
    #[command(subcommand)]
    Patch(Patch),
    /// List the downloads that a build would attempt, and what satisfies each
    Audit(Audit),
    /// Find mistakes in specs that rpmlint does not detect
    Lint(Lint),
    /// Render the specs and the container file
    Render(Render),
    /// Run every check that needs no build: render, lock, pins, lint, closure
    Check(Check),
    /// Show what would be built, and why
    Plan(Plan),
    /// Build what is stale: RPMs, repository, wheels, index, and container file
    Build(Build),
    /// Show the last build of each component: when, how long, and why it failed
    Status(Status),
    /// Print the log of a build
    Log(Log),
    /// Enter the build root of a failed build, or one with prepared sources before a build
    Shell(EnterShell),
    /// Rebuild a component with the same build root packages, and compare the results file by file
    Reproduce(Reproduce),
    /// Remove what failed and stopped builds left
    Clean(Clean),
    /// Show and check linkage and GPU code of RPMs, wheels, folders, and files
    Inspect(Inspect),
    /// Explain a rule or a failure, and how to fix or waive it; find the cause in a log
    Explain(Explain),
    /// Check an installation: dependencies, conflicts, imports, and the stack's checklist
    Verify(Verify),
    /// Show where each Python dependency of a component comes from; package those that are missing
    Closure(Closure),
    /// Make wheels from the RPMs that passed inspection
    Wheel(Wheel),
    /// Write the pip index of the wheels; check or serve an index
    Index(Index),
    /// Write pinned requirements with hashes, and index settings, for pip and uv
    Requirements(Requirements),
    /// Make ROCm's own Python packages from RPMs of ROCm
    ///
    /// Writes the packages that `pip install rocm[libraries,devel]` installs: `rocm`,
    /// `rocm-sdk-core`, `rocm-sdk-libraries`, `rocm-sdk-devel`, and, if the RPMs have the GPU code in
    /// files of its own (kpack), `rocm-sdk-device-TARGET`.
    Sdk(Sdk),
    /// Publish the index or the RPM repository; promote or yank wheels of a published index
    #[command(subcommand)]
    Publish(Publish),
    /// Build on COPR; apply the settings in copr/project.toml
    #[command(subcommand)]
    Copr(Copr),
    /// Render the container file; build an image, or compare one with the pins
    Container(Container),
    /// Keep a pin set current: newer releases, builds, proofs, publication
    #[command(subcommand)]
    Pipeline(Pipeline),
    /// Show, check, and exchange the records of what was built, checked, and run
    #[command(subcommand)]
    Evidence(Evidence),
    /// Check this machine: the tools that rocmrpm runs, and its GPUs and their memory
    Doctor(Doctor),
    /// Trust a workspace, so that commands can run its code as you; list or remove trusted ones
    Trust(Trust),
    /// Show the size of the cache; remove what is unused
    Cache(Cache),
    /// Print shell completions
    ///
    /// They complete commands, options, and the names in a workspace. For bash, add
    /// `source <(rocmrpm completions bash)` to ~/.bashrc; for zsh, `source <(rocmrpm completions zsh)`
    /// to ~/.zshrc, after compinit; for fish, `rocmrpm completions fish | source` to
    /// ~/.config/fish/config.fish.
    Completions(Completions),
    /// Write the man pages of all commands
    #[command(hide = true)]
    Man(Man),
}

/// The chroot and pin set of a command.
#[derive(Debug, Clone, Args)]
pub struct Choice {
    /// Use this chroot from mock-configs/; `host` is this machine
    #[arg(long, value_name = "NAME")]
    pub chroot: Option<String>,

    /// Use this pin set from pins/
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,
}

/// Versions that override pins.
#[derive(Debug, Clone, Args)]
pub struct PinArgs {
    /// Override the version of a component, or take a commit: `NAME@COMMIT` of its repository,
    /// `NAME=git:URL@COMMIT` of another one; marks every output dirty (can be repeated)
    #[arg(long = "pin", value_name = "NAME=VERSION", value_parser = parse_override)]
    pub overrides: Vec<(String, String)>,
}

/// Versions that pins were overridden with.
#[derive(Debug, Clone, Args)]
pub struct BuiltPins {
    /// Use the build folder of `build --pin NAME=VERSION` (can be repeated)
    #[arg(long = "pin", value_name = "NAME=VERSION", value_parser = parse_override)]
    pub overrides: Vec<(String, String)>,
}

fn parse_pin(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, version)) if !name.is_empty() && is_version(version) => {
            Ok((name.to_owned(), version.to_owned()))
        }
        Some((name, version)) if !name.is_empty() && !version.is_empty() => Err(format!(
            "`{version}` cannot be the version of an RPM; use letters, digits, and . _ + ~ ^"
        )),
        _ => Err("expected NAME=VERSION, such as vllm=0.21.0".into()),
    }
}

/// Parses a version or a commit of a component.
fn parse_override(text: &str) -> Result<(String, String), String> {
    let (name, value, commit) = match (text.split_once("=git:"), text.split_once('@')) {
        (Some((name, place)), _) => {
            let commit = place.rsplit_once('@').map(|(_, commit)| commit).unwrap_or_default();
            (name, format!("git:{place}"), commit)
        }
        (None, Some((name, commit))) if !name.contains('=') => (name, format!("@{commit}"), commit),
        _ => return parse_pin(text),
    };
    match is_commit(commit) && !name.is_empty() {
        true => Ok((name.to_owned(), value)),
        false => Err("expected a full commit after `@`: 40 hexadecimal digits".into()),
    }
}

/// `rocmrpm init`.
#[derive(Debug, Args)]
pub struct Init {
    /// Folder of the workspace, created if missing [default: that of -C]
    #[arg(value_name = "FOLDER")]
    pub folder: Option<PathBuf>,

    /// Name of the stack [default: name of the folder]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// GPU target or family to build for; `native` is the GPUs of this machine (can be repeated)
    #[arg(long = "gpu-target", value_name = "TARGET", default_value = "gfx1151")]
    pub gpu_targets: Vec<String>,

    /// Default chroot: `fedora-43`, or `host` for this machine [default: `fedora-43` if mock is
    /// installed, else `host`]
    #[arg(long, value_name = "NAME")]
    pub chroot: Option<String>,
}

/// `rocmrpm add`.
#[derive(Debug, Args)]
pub struct Add {
    /// Project on the pip index, such as `ujson` or `ujson==5.10.0`, or name of the component
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,

    /// Version to package [default: the newest on the index; with --path, that in pyproject.toml]
    #[arg(long)]
    pub version: Option<String>,

    /// Use the source distribution of this project on the pip index [default: the component's name]
    #[arg(long, value_name = "PROJECT", group = "origin")]
    pub sdist: Option<String>,

    /// Package the wheel that upstream published, for projects without a source distribution
    #[arg(long, group = "origin")]
    pub wheel: bool,

    /// Download the source from this URL; `{version}` stands for the version
    #[arg(long, value_name = "URL", group = "origin", requires = "version")]
    pub url: Option<String>,

    /// Use this git repository, at the tag of the version
    #[arg(long, value_name = "URL", group = "origin", requires = "version")]
    pub git: Option<String>,

    /// Use this folder of the workspace
    #[arg(long, value_name = "DIR", group = "origin")]
    pub path: Option<String>,

    /// Add the pins to this pin set
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,
}

/// `rocmrpm lock`.
#[derive(Debug, Args)]
pub struct Lock {
    /// Lock this pin set
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,

    /// Write nothing; exit with 1 if the lock file is out of date
    #[arg(long)]
    pub check: bool,

    /// Move pins that follow a branch to its newest commit
    #[arg(long, conflicts_with = "offline")]
    pub update: bool,

    /// Also lock the digests that the base images of container files have now; needs skopeo
    #[arg(long, conflicts_with = "offline")]
    pub images: bool,

    /// Use only the cache, without network access
    #[arg(long)]
    pub offline: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm render`.
#[derive(Debug, Args)]
pub struct Render {
    /// Render only these components [default: all]
    #[arg(value_name = "COMPONENT", requires = "form")]
    pub components: Vec<String>,

    /// Write packages in this form, which no build uses
    #[arg(long = "for", id = "form", value_name = "FORM", value_enum)]
    #[arg(conflicts_with_all = ["check", "diff"])]
    pub form: Option<RenderForm>,

    /// Use only the cache, without network access
    #[arg(long, requires = "form")]
    pub offline: bool,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: PinArgs,

    /// Write nothing; exit with 1 if the committed container file is out of date
    #[arg(long)]
    pub check: bool,

    /// Print the changes as a diff instead of writing them
    #[arg(long)]
    pub diff: bool,

    /// Print JSON
    #[arg(long, conflicts_with = "diff")]
    pub json: bool,
}

impl Render {
    /// Returns the arguments of `rocmrpm render --check`.
    pub fn check(choice: Choice) -> Self {
        Self {
            components: Vec::new(),
            form: None,
            offline: false,
            choice,
            pin: PinArgs { overrides: Vec::new() },
            check: true,
            diff: false,
            json: false,
        }
    }
}

/// The forms of packages that no build uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RenderForm {
    /// A folder per package to submit to Fedora: spec, patches, sources, and checksums
    DistGit,
}

/// `rocmrpm plan`.
#[derive(Debug, Args)]
pub struct Plan {
    /// Plan only these components and their dependencies
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: PinArgs,

    /// Builder to plan for
    #[arg(long, value_enum)]
    pub builder: Option<BuilderName>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm inspect`.
#[derive(Debug, Args)]
pub struct Inspect {
    /// RPMs, wheels, tar.gz archives, folders, ELF files, and code objects, checked as one set
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,

    /// GPU target or family that the files must support; `native` is the GPUs of this machine (can
    /// be repeated) [default: the workspace's]
    #[arg(long = "gpu-target", value_name = "TARGET")]
    pub gpu_targets: Vec<String>,

    /// Chroot from mock-configs/ that the files must load on [default: the chroot that they were
    /// built for, else the workspace's default]
    #[arg(long, value_name = "NAME")]
    pub chroot: Option<String>,

    /// Check as the build of this component does, with its GPU targets, expectations, and waivers
    #[arg(long, value_name = "NAME")]
    pub component: Option<String>,

    /// Decode every bundle: verify hashes and flags, count kernels
    #[arg(long)]
    pub deep: bool,

    /// Inspect OLD as well, and show what changed since
    #[arg(long, value_name = "OLD", conflicts_with_all = ["format", "component"])]
    pub against: Option<PathBuf>,

    /// Also report paths of build folders inside file contents, which are mostly harmless
    #[arg(long)]
    pub content_paths: bool,

    /// Format of the report
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub format: ReportFormat,

    /// Print JSON, like `--format json`
    #[arg(long, conflicts_with = "format")]
    pub json: bool,

    /// Write the report to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Show all files
    #[arg(short, long)]
    pub verbose: bool,
}

/// Formats of reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Text for a terminal
    #[default]
    Text,
    /// The whole report as JSON; its schema is in docs/schemas/
    Json,
    /// A self-contained HTML page
    Html,
    /// A JUnit report for CI systems
    Junit,
    /// Workflow commands for GitHub Actions
    Github,
}

/// `rocmrpm sdk`.
#[derive(Debug, Args)]
pub struct Sdk {
    /// RPMs of one release of ROCm, with all libraries that they need
    #[arg(value_name = "RPM", required = true)]
    pub rpms: Vec<PathBuf>,

    /// Folder for the packages; replaces one with those of an earlier run
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,

    /// Version of the packages, such as 7.14.0 or 7.14.0a20260101 [default: that of the RPMs]
    #[arg(long, value_name = "VERSION")]
    pub version: Option<String>,

    /// GPU target or family that the packages are for; `native` is the GPUs of this machine (can be
    /// repeated if the RPMs have the GPU code in files of its own)
    #[arg(long = "gpu-target", value_name = "TARGET", required = true)]
    pub gpu_targets: Vec<String>,

    /// Library that every machine has although no RPM has it: a SONAME, with `*` for any characters
    /// (can be repeated)
    #[arg(long = "system-library", value_name = "SONAME")]
    pub system_libraries: Vec<String>,

    /// File that the packages omit: its path in the RPM, with `*` for any characters (can be
    /// repeated)
    #[arg(long = "leave-out", value_name = "PATH")]
    pub leave_out: Vec<String>,

    /// Compare the packages in the folder with the RPMs, file by file, instead of making them
    #[arg(long)]
    pub check: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// ID of a rule or cause, such as `gpu-target-missing` or `disk-full` [default: list all]
    #[arg(value_name = "ID")]
    pub id: Option<String>,

    /// Find the cause in this log: of a build, of a program on the GPU, or of the kernel; `-` reads
    /// the standard input
    #[arg(long, value_name = "FILE", conflicts_with = "id")]
    pub log: Option<PathBuf>,

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

    /// Remove the folder from the trusted ones
    #[arg(long)]
    pub remove: bool,
}

/// `rocmrpm doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Print the command that lets the integrated GPU use this much of the system's memory, in GiB
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u64).range(1..))]
    pub gpu_memory: Option<u64>,

    /// Read the GPUs below this folder, for tests
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub root: PathBuf,

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

/// `rocmrpm man`.
#[derive(Debug, Args)]
pub struct Man {
    /// The folder to write to; created if missing
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}
