//! Wheels from the payload of RPMs, and wheels read back and checked. One build,
//! two formats: nothing is compiled here, and no index is written.

mod archive;
mod components;
mod container;
mod contents;
mod deflate;
mod distributions;
#[cfg(any(test, fuzzing, feature = "testing"))]
#[doc(hidden)]
pub mod fuzzing;
mod header;
mod intact;
mod label;
mod layout;
mod linkage;
mod manylinux;
mod metadata;
mod name;
mod payload;
mod peek;
mod plan;
mod provenance;
mod read;
mod record;
mod requirements;
mod rocm_sdk;
mod sbom;
mod source;
mod stable_abi;
mod tags;
mod verify;

pub use components::{Purl, Sboms, sboms_in};
pub use contents::{Contents, contents};
pub use distributions::{distributions, metadata_of};
pub use header::fields as header_fields;
pub use label::{LocalLabel, public_and_label};
pub use name::{FileName, normalized, wheel_project};
pub use peek::{member_names, metadata_in, name_and_version};
#[cfg(feature = "schema")]
pub(crate) use provenance::schema as provenance_schema;
pub use read::read;
pub use read::read_dated;
pub use requirements::{markers, requirement};
pub use requirements::{required_names, requirements};
pub use rocm_sdk::preloads;
pub use verify::{Difference, Made, Proof, add_strays, verify};

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use pep440_rs::Version;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::error::{Diagnose, IoError, Kind};
use rocmrpm_base::events::Events;
use rocmrpm_base::process::{self, ProcessError};
use rocmrpm_base::text::{covers, visible};
use rocmrpm_rpms::RpmError;

use payload::{Payload, Spool};
use plan::Plan;

/// What [`build`] needs.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The RPMs of one component. Source packages and debugging data are passed over.
    pub rpms: &'a [PathBuf],
    /// The label that the version gets.
    pub label: &'a LocalLabel,
    /// The time that all members get, in seconds since 1970.
    pub source_date_epoch: i64,
    /// Where the wheels are written.
    pub out_dir: &'a Path,
    /// The Python of the chroot, such as `(3, 14)`; `None` where any will do.
    pub python: Option<(u32, u32)>,
    /// What the stack has: requirements on these are pinned to these versions.
    pub pins: &'a Pins,
    /// Where ROCm's libraries are found once the wheel is installed.
    pub rocm: &'a Rocm,
    /// Files that the wheel does not carry: patterns of absolute paths, with `*`.
    pub leave_out: &'a [String],
    /// What the RPMs were built from, for the wheel's SBOM and provenance; without it the
    /// wheel has neither.
    pub origin: Option<&'a Origin>,
    /// Who is told of what is not wrong but should be known.
    pub events: &'a dyn Events,
}

/// The versions of a stack's distributions, label included, by normalized name.
pub type Pins = BTreeMap<String, Version>;

/// Where the ROCm libraries of an installed wheel come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Rocm {
    /// The distribution's RPMs.
    #[default]
    System,
    /// AMD's `rocm-sdk-*` wheels.
    Sdk {
        /// ROCm's version, such as `7.14`.
        version: String,
        /// What importing other distributions of the stack loads already, by normalized name:
        /// short names of libraries as `rocm_sdk` has them.
        preloaded: BTreeMap<String, BTreeSet<String>>,
    },
}

/// What RPMs were built from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The component.
    pub component: String,
    /// Its upstream version.
    pub version: String,
    /// Its Release, as the spec has it.
    pub release: String,
    /// The chroot's name.
    pub chroot: String,
    /// The version of the ROCm it was built with, where it is known.
    pub rocm: Option<String>,
    /// The GPU targets it was built for.
    pub gpu_targets: Vec<String>,
    /// The build key.
    pub key: Sha256,
    /// The source and the patches: name, digest, size in bytes.
    pub sources: Vec<(String, Sha256, u64)>,
}

/// A wheel on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wheel {
    /// The file.
    pub path: PathBuf,
    /// The distribution's name, as METADATA has it.
    pub distribution: String,
    /// The version with its label, normalized.
    pub version: String,
    /// All compatibility tags, sorted.
    pub tags: Vec<String>,
    /// The file's digest.
    pub sha256: Sha256,
    /// The file's size in bytes.
    pub size: u64,
    /// `Requires-Python`, as METADATA has it.
    pub requires_python: Option<String>,
    /// The whole METADATA.
    pub metadata: String,
}

/// Why no wheel could be made, or why a wheel is not one.
#[derive(Debug, thiserror::Error)]
pub enum WheelError {
    /// An RPM cannot be read.
    #[error(transparent)]
    Rpm(#[from] RpmError),
    /// The file system refuses.
    #[error(transparent)]
    Io(IoError),
    /// We were asked to stop.
    #[error(transparent)]
    Stopped(#[from] ProcessError),
    /// The ROCm version that the label is to name is not one.
    #[error("`{0}` is not a ROCm version of dotted numbers such as 7.14")]
    RocmVersion(String),
    /// A file of an RPM cannot be in a wheel.
    #[error("{}: {path}: {reason}", rpm.display())]
    File {
        /// The RPM.
        rpm: PathBuf,
        /// The file's path in it.
        path: String,
        /// Why.
        reason: String,
        /// How to fix it, if known.
        help: Option<&'static str>,
    },
    /// The files of an RPM as a whole are no wheel.
    #[error("{}: {reason}", rpm.display())]
    Package {
        /// The RPM.
        rpm: PathBuf,
        /// Why.
        reason: String,
        /// How to fix it, if known.
        help: Option<&'static str>,
    },
    /// A pattern of what the wheel is to leave out matches no file.
    #[error("`leave-out`{} has `{pattern}`, which matches no file of its packages", of(component))]
    LeavesNothingOut {
        /// The component, where the packages are one's.
        component: Option<String>,
        /// The pattern.
        pattern: String,
    },
    /// A file is not a wheel, or a wrong one.
    #[error("{}: {reason}", wheel.display())]
    Invalid {
        /// The file.
        wheel: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl From<io::Error> for WheelError {
    fn from(error: io::Error) -> Self {
        Self::Io(IoError::doing("read or write a wheel")(error))
    }
}

impl WheelError {
    fn file(rpm: &Path, path: &str, reason: &str) -> Self {
        Self::File { rpm: rpm.to_owned(), path: visible(path), reason: visible(reason), help: None }
    }

    fn package(rpm: &Path, reason: impl AsRef<str>) -> Self {
        Self::Package { rpm: rpm.to_owned(), reason: visible(reason.as_ref()), help: None }
    }

    fn invalid(wheel: &Path, reason: impl AsRef<str>) -> Self {
        Self::Invalid { wheel: wheel.to_owned(), reason: visible(reason.as_ref()) }
    }

    fn with_help(mut self, text: &'static str) -> Self {
        if let Self::File { help, .. } | Self::Package { help, .. } = &mut self {
            *help = Some(text);
        }
        self
    }
}

fn of(component: &Option<String>) -> String {
    component.iter().map(|name| format!(" of `{name}`")).collect()
}

impl Diagnose for WheelError {
    fn kind(&self) -> Kind {
        match self {
            Self::Rpm(error) => error.kind(),
            Self::Io(error) => error.kind(),
            Self::Stopped(error) => error.kind(),
            Self::RocmVersion(_) | Self::LeavesNothingOut { .. } => Kind::Config,
            Self::File { .. } | Self::Package { .. } => Kind::Build,
            Self::Invalid { .. } => Kind::Usage,
        }
    }

    fn help(&self) -> Vec<String> {
        match self {
            Self::Rpm(error) => error.help(),
            Self::Stopped(error) => error.help(),
            Self::File { help, .. } | Self::Package { help, .. } => {
                help.iter().map(|h| (*h).to_owned()).collect()
            }
            Self::RocmVersion(_) => vec!["the version comes from the chroot's ROCm provider".into()],
            Self::LeavesNothingOut { .. } => vec![
                "patterns are of whole paths, `*` stands for any characters: `/usr/lib64/cmake/*`".into(),
                "remove it, or correct it, below `[wheel]` in the component's component.toml".into(),
            ],
            Self::Invalid { .. } => {
                vec!["remove it: `rocmrpm wheel` makes it anew from the component's RPMs".into()]
            }
            Self::Io(error) => error.help(),
        }
    }
}

/// Makes the wheels of a component from its RPMs: none where no RPM has Python modules,
/// one where one distribution is spread over the RPMs, and one for each RPM where each has
/// its own. On an error nothing is written.
pub fn build(request: Request<'_>) -> Result<Vec<Wheel>, WheelError> {
    fs_err::create_dir_all(request.out_dir)?;
    let mut spool = Spool::new(request.out_dir)?;
    let mut wheels = Vec::new();
    let mut files = Vec::new();
    for plan in plans(request, &mut spool)? {
        process::check_stop()?;
        let (file, wheel) = write(&plan, request, &spool)?;
        wheels.push(wheel);
        files.push(file);
    }
    for (file, wheel) in files.into_iter().zip(&wheels) {
        archive::persist(file, &wheel.path)?;
    }
    wheels.sort_by(|a: &Wheel, b| a.path.cmp(&b.path));
    Ok(wheels)
}

/// Works out the wheels of a component; `spool` takes the files of its RPMs.
fn plans(request: Request<'_>, spool: &mut Spool) -> Result<Vec<Plan>, WheelError> {
    let mut payloads = Vec::new();
    for rpm in request.rpms {
        process::check_stop()?;
        payloads.extend(Payload::read(rpm, spool)?);
    }
    leave_out(&mut payloads, request)?;
    let mut plans: Vec<Plan> = Vec::new();
    for (payload, dist_info) in by_distribution(payloads)? {
        process::check_stop()?;
        let plan = Plan::new(&payload, &dist_info, request, spool)?;
        if plans.iter().any(|other| other.file_name == plan.file_name) {
            let reason = format!("a second package makes {}", plan.file_name);
            return Err(WheelError::package(payload.rpm(), reason));
        }
        plans.push(plan);
    }
    Ok(plans)
}

fn leave_out(payloads: &mut [Payload], request: Request<'_>) -> Result<(), WheelError> {
    let patterns = request.leave_out;
    let paths = || payloads.iter().flat_map(|payload| payload.nodes.keys());
    if let Some(idle) = patterns.iter().find(|pattern| !paths().any(|path| covers(pattern, path))) {
        let component = request.origin.map(|origin| origin.component.clone());
        return Err(WheelError::LeavesNothingOut { component, pattern: visible(idle) });
    }
    for payload in payloads {
        payload.left_out = patterns.to_vec();
    }
    Ok(())
}

fn write(
    plan: &Plan,
    request: Request<'_>,
    spool: &Spool,
) -> Result<(tempfile::NamedTempFile, Wheel), WheelError> {
    let path = request.out_dir.join(&plan.file_name);
    let temporary = tempfile::Builder::new()
        .prefix(".rocmrpm-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(request.out_dir)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (members, epoch) = (&plan.members, request.source_date_epoch);
    let file = fs_err::OpenOptions::new().write(true).open(temporary.path())?;
    archive::write(&file, members, &plan.dist_info, epoch, spool, threads)?;
    let (sha256, size) = Sha256::of_file(temporary.path())?;
    let wheel = Wheel {
        path,
        distribution: plan.distribution.clone(),
        version: plan.version.clone(),
        tags: plan.tags.iter().cloned().collect(),
        sha256,
        size,
        requires_python: plan.requires_python.clone(),
        metadata: plan.metadata.clone(),
    };
    Ok((temporary, wheel))
}

/// Groups the payloads of a component by the distribution that they belong to,
/// with the name of its dist-info folder.
fn by_distribution(mut payloads: Vec<Payload>) -> Result<Vec<(Payload, String)>, WheelError> {
    payloads.retain(|payload| plan::wanted_path(payload).is_some());
    let found: Vec<BTreeSet<String>> = payloads.iter().map(plan::dist_infos).collect();
    let all: BTreeSet<&String> = found.iter().flatten().collect();
    if all.is_empty() {
        return payloads.iter().try_for_each(plan::refuse_modules).map(|()| Vec::new());
    }
    if let [name] = all.into_iter().collect::<Vec<_>>().as_slice() {
        let name = (*name).clone();
        let mut payloads = payloads.into_iter();
        let Some(mut whole) = payloads.next() else { return Ok(Vec::new()) };
        for payload in payloads {
            whole.merge(payload)?;
        }
        return Ok(vec![(whole, name)]);
    }
    let mut groups: BTreeMap<String, Payload> = BTreeMap::new();
    for (payload, mut names) in payloads.into_iter().zip(found) {
        if names.len() > 1 {
            let names: Vec<String> = names.into_iter().collect();
            let reason = format!("it has several distributions: {}", names.join(", "));
            return Err(WheelError::package(payload.rpm(), reason).with_help(
                "put each distribution into a subpackage of its own, or name the files of all but one \
                 in `leave-out` below `[wheel]` in component.toml",
            ));
        }
        match names.pop_first() {
            Some(name) => match groups.get_mut(&name) {
                Some(group) => group.merge(payload)?,
                None => drop(groups.insert(name, payload)),
            },
            None => {
                if let Some(path) = plan::wanted_path(&payload) {
                    let reason = "no dist-info tells to which of the component's wheels this file belongs";
                    return Err(WheelError::file(payload.rpm(), path, reason).with_help(
                        "put it into the subpackage of its distribution, or name it in `leave-out` \
                             below `[wheel]` in component.toml",
                    ));
                }
            }
        }
    }
    Ok(groups.into_iter().map(|(name, payload)| (payload, name)).collect())
}
