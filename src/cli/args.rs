//! Every command's arguments, as clap reads them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::build::Stage;
use crate::names::is_version;

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
    /// Show linkage and GPU code of RPMs, wheels, folders and files, and what is wrong with them
    Inspect(Inspect),
    /// Tell what a rule of the inspection finds, why that matters, how to mend it and how to waive it
    Explain(Explain),
    /// Make wheels from the RPMs that passed inspection
    Wheel(Wheel),
    /// Write the pip index of the wheels; check or serve one
    Index(Index),
    /// Write exact pins with hashes for pip and uv, and the settings that make them use the index
    Requirements(Requirements),
    /// Publish the index; promote or yank what is published
    #[command(subcommand)]
    Publish(Publish),
    /// Render the container file
    Container(Container),
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

/// `rocmrpm pins`.
#[derive(Debug, Subcommand)]
pub enum Pins {
    /// Write the pin set that follows from upstream's own files
    Derive(PinsDerive),
    /// Compare a pin set with upstream's files and with the table of what goes together
    Check(PinsCheck),
    /// Tell for which pins upstream has a newer release
    Outdated(PinsOutdated),
    /// Change a pin to another version and show what that changes for a packager
    Update(PinsUpdate),
    /// Write a pin set for other tools
    Export(PinsExport),
    /// Take versions over from another tool's file
    Import(PinsImport),
}

/// `rocmrpm pins derive`.
#[derive(Debug, Args)]
pub struct PinsDerive {
    /// The component and version to begin with, such as `vllm=0.33.0` or `torch=2.14.1`
    #[arg(long, value_name = "NAME=VERSION", value_parser = parse_pin)]
    pub from: (String, String),

    /// Take where sources come from, and what upstream's files do not say, from this pin set
    #[arg(long, value_name = "NAME")]
    pub base: Option<String>,

    /// Where upstream contradicts itself: this value (can be repeated)
    #[arg(long = "choose", value_name = "NAME=VERSION", value_parser = parse_pin)]
    pub choices: Vec<(String, String)>,

    /// Write pins/NAME.toml; printed where absent
    #[arg(long, value_name = "NAME")]
    pub output: Option<String>,

    /// Use the cache alone, no network
    #[arg(long)]
    pub offline: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm pins check`.
#[derive(Debug, Args)]
pub struct PinsCheck {
    #[command(flatten)]
    pub choice: Choice,

    /// Use the cache alone, no network
    #[arg(long)]
    pub offline: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm pins outdated`.
#[derive(Debug, Args)]
pub struct PinsOutdated {
    /// Look at these components alone
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    /// Look at this pin set
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,

    /// Count pre-releases too
    #[arg(long)]
    pub pre: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm pins update`.
#[derive(Debug, Args)]
pub struct PinsUpdate {
    /// The component
    #[arg(value_name = "COMPONENT")]
    pub component: String,

    /// The version; the newest final one where absent
    #[arg(value_name = "VERSION")]
    pub version: Option<String>,

    /// Change this pin set
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,

    /// Change nothing, show what would change
    #[arg(long)]
    pub dry_run: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm pins export`.
#[derive(Debug, Args)]
pub struct PinsExport {
    /// The form
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: PinsFormat,

    /// Export this pin set
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,

    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `rocmrpm pins import`.
#[derive(Debug, Args)]
pub struct PinsImport {
    /// The file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Its form; known from its content where absent
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<PinsFormat>,

    /// Change this pin set
    #[arg(long, value_name = "NAME")]
    pub pins: Option<String>,

    /// Change nothing, show what would change
    #[arg(long)]
    pub dry_run: bool,
}

/// Other tools' forms of pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PinsFormat {
    /// A file of shell variables: `VLLM_VERSION=0.20.2`
    VersionsEnv,
    /// The source manifest of ROCm's TheRock, JSON
    SourceManifest,
}

/// `rocmrpm prep`.
#[derive(Debug, Args)]
pub struct Prep {
    /// The component
    #[arg(value_name = "COMPONENT")]
    pub component: String,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: PinArgs,

    /// Use the cache alone, no network
    #[arg(long)]
    pub offline: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm patch`.
#[derive(Debug, Subcommand)]
pub enum Patch {
    /// Tell for every patch and edit whether it applies
    Status(PatchStatus),
    /// Write patches anew that apply with an offset or with a merge
    Refresh(PatchStatus),
}

/// `rocmrpm patch status` and `rocmrpm patch refresh`.
#[derive(Debug, Args)]
pub struct PatchStatus {
    /// Only these components
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: PinArgs,

    /// Use the cache alone, no network
    #[arg(long)]
    pub offline: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm audit`.
#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Tell for each place in the prepared source that fetches something what satisfies it
    Offline(AuditOffline),
}

/// `rocmrpm audit offline`.
#[derive(Debug, Args)]
pub struct AuditOffline {
    /// The component
    #[arg(value_name = "COMPONENT")]
    pub component: String,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: PinArgs,

    /// Use the cache alone, no network
    #[arg(long)]
    pub offline: bool,

    /// Show what is satisfied, too
    #[arg(short, long)]
    pub verbose: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm lint`.
#[derive(Debug, Args)]
pub struct Lint {
    /// Only these components
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    #[command(flatten)]
    pub choice: Choice,

    /// Look at this spec file instead of the components' specs; rpm runs what stands in its `%(...)`
    #[arg(long, value_name = "FILE", conflicts_with = "components")]
    pub spec: Option<PathBuf>,

    /// The unpacked source of that spec, with which its exports are compared
    #[arg(long, value_name = "FOLDER", requires = "spec")]
    pub source: Option<PathBuf>,

    /// Ask the chroot's repositories by dnf instead of the package tables
    #[arg(long)]
    pub live: bool,

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

/// `rocmrpm build`.
#[derive(Debug, Args)]
pub struct Build {
    /// Build only these components and, if RPMs are built, what they require
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    #[command(flatten)]
    pub choice: Choice,

    #[command(flatten)]
    pub pin: PinArgs,

    /// Who builds: mock for chroots, rpmbuild for `host`
    #[arg(long, value_enum)]
    pub builder: Option<BuilderName>,

    /// Stop after this stage
    #[arg(long, value_name = "STAGE", value_parser = parse_stage, default_value = "container")]
    #[arg(help = "Stop after this stage: sources, spec, srpm, rpm, wheel, index, container")]
    pub until: Stage,

    /// After a failure, go on with what does not depend on it
    #[arg(long)]
    pub keep_going: bool,

    /// Use the cache alone, no network
    #[arg(long)]
    pub offline: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn parse_stage(text: &str) -> Result<Stage, String> {
    Stage::parse(text).ok_or_else(|| {
        let names: Vec<&str> = Stage::ALL.iter().map(|stage| stage.name()).collect();
        match crate::names::nearest(text, names.iter().copied()) {
            Some(near) => format!("there is no stage `{text}`; did you mean `{near}`?"),
            None => format!("there is no stage `{text}`; there is: {}", names.join(", ")),
        }
    })
}

/// Builders by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BuilderName {
    /// mock, in a clean chroot.
    Mock,
    /// rpmbuild, on this machine.
    Host,
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
    /// The rule's ID, such as `gpu-target-missing`; all rules where absent
    #[arg(value_name = "ID")]
    pub rule: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm wheel`.
#[derive(Debug, Args)]
pub struct Wheel {
    #[command(flatten)]
    pub choice: Choice,

    /// Make nothing: prove by digests that the files of the wheels are those of the RPMs
    #[arg(long)]
    pub verify: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm index`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Index {
    /// What to do with an index; where absent, the workspace's is written
    #[command(subcommand)]
    pub command: Option<IndexCommand>,

    #[command(flatten)]
    pub choice: Choice,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The commands below `rocmrpm index`.
#[derive(Debug, Subcommand)]
pub enum IndexCommand {
    /// Tell whether every requirement of every wheel is satisfied, and no wheel is there twice
    Check(IndexCheck),
    /// Serve an index on this machine, for trying and testing
    Serve(IndexServe),
}

/// `rocmrpm index check`.
#[derive(Debug, Args)]
pub struct IndexCheck {
    /// The index's folder; the workspace's where absent
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// Check this channel of a published index
    #[arg(long, value_name = "NAME")]
    pub channel: Option<String>,

    #[command(flatten)]
    pub choice: Choice,

    /// Ask no outside index: what only such a one could have is told, not checked
    #[arg(long)]
    pub offline: bool,

    /// Read every package and compare its digest, not its size alone
    #[arg(long)]
    pub digests: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm index serve`.
#[derive(Debug, Args)]
pub struct IndexServe {
    /// The index's folder; the workspace's where absent
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,

    #[command(flatten)]
    pub choice: Choice,

    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub address: std::net::IpAddr,

    /// The port to listen on; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value = "8000")]
    pub port: u16,
}

/// `rocmrpm requirements`.
#[derive(Debug, Args)]
pub struct Requirements {
    #[command(flatten)]
    pub choice: Choice,

    /// Write constraints.txt instead of requirements.lock: what is installed is up to others, its
    /// versions are not
    #[arg(long)]
    pub constraints: bool,

    /// Let `uv pip compile` resolve what the stack requires from outside, and pin that too
    #[arg(long)]
    pub resolve: bool,

    /// Where the index will be found; the workspace's own folder where absent
    #[arg(long, value_name = "URL")]
    pub index_url: Option<String>,

    /// The folder to write to; build/<chroot>/requirements where absent
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The commands below `rocmrpm publish`.
#[derive(Debug, Subcommand)]
pub enum Publish {
    /// Add the workspace's wheels to a published index
    Index(PublishIndex),
    /// Let a channel point to what another one has
    Promote(PublishPromote),
    /// Mark a wheel as one that nobody should choose any more
    Yank(PublishYank),
}

/// Where an index is published.
#[derive(Debug, Clone, Args)]
pub struct Destination {
    /// A folder, `HOST:FOLDER` or rsync:// for rsync, or s3://BUCKET/PREFIX
    #[arg(value_name = "DESTINATION")]
    pub destination: String,

    /// The address of an S3 service that is not Amazon's
    #[arg(long, value_name = "URL")]
    pub endpoint_url: Option<String>,

    /// Show what would be done; change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rocmrpm publish index`.
#[derive(Debug, Args)]
pub struct PublishIndex {
    #[command(flatten)]
    pub destination: Destination,

    /// The channel that gets the wheels
    #[arg(long, value_name = "NAME", default_value = "testing")]
    pub channel: String,

    #[command(flatten)]
    pub choice: Choice,
}

/// `rocmrpm publish promote`.
#[derive(Debug, Args)]
pub struct PublishPromote {
    #[command(flatten)]
    pub destination: Destination,

    /// Only these distributions, all of their versions, or `NAME==VERSION`
    #[arg(value_name = "DISTRIBUTION")]
    pub distributions: Vec<String>,

    /// The channel that has the wheels
    #[arg(long, value_name = "NAME", default_value = "testing")]
    pub from: String,

    /// The channel that gets them
    #[arg(long, value_name = "NAME", default_value = "stable")]
    pub to: String,
}

/// `rocmrpm publish yank`.
#[derive(Debug, Args)]
pub struct PublishYank {
    #[command(flatten)]
    pub destination: Destination,

    /// `NAME==VERSION`, with the local label
    #[arg(value_name = "NAME==VERSION")]
    pub version: String,

    /// Why; pip shows it
    #[arg(long, value_name = "TEXT", required_unless_present = "undo")]
    pub reason: Option<String>,

    /// Take the mark away again
    #[arg(long, conflicts_with = "reason")]
    pub undo: bool,
}

/// `rocmrpm container`.
#[derive(Debug, Args)]
pub struct Container {
    #[command(flatten)]
    pub choice: Choice,

    /// Print it instead of writing it
    #[arg(long)]
    pub print: bool,
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
