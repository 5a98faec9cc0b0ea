//! Makes wheels from the payload of RPMs, and reads and checks wheels. One build serves both
//! formats: this module compiles nothing, and writes no index.

mod archive;
mod assemble;
mod bundle;
mod components;
mod container;
mod contents;
mod deflate;
mod device;
mod device_plan;
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
mod pins;
mod plan;
mod provenance;
mod read;
mod record;
mod relink;
mod requirements;
mod rocm_sdk;
mod sbom;
pub mod search_path;
mod source;
mod stable_abi;
mod tags;
mod verify;

pub use archive::{Content, Member};
pub use assemble::{Assembly, Unnamed, assemble, check};
pub use bundle::RocmWheel;
pub use components::{Purl, Sboms, sboms_in};
pub use contents::{Contents, contents};
pub use distributions::{distributions, metadata_of};
pub use header::fields as header_fields;
pub use label::{LocalLabel, public_and_label};
pub use manylinux::library as manylinux_library;
pub(crate) use metadata::Metadata;
pub use metadata::commands;
pub use name::{FileName, normalized, wheel_project};
pub use payload::{Node, Payload, Spool, Stored, Target, check_path, join};
pub use peek::{member_names, metadata_in, name_and_version};
pub use pins::{Pins, required_by};
#[cfg(feature = "schema")]
pub(crate) use provenance::schemas as provenance_schemas;
pub use provenance::{Relinked, Source as SourceRpm};
pub use read::read;
pub use read::read_dated;
pub use requirements::{markers, requirement};
pub use requirements::{required_names, requirements};
pub use rocm_sdk::{SdkLibrary, SdkOptions, preloads, sdk_library, sdk_stems};
pub use verify::{Difference, Made, Proof, add_strays, verify};

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use rocmrpm_base::digest::Sha256;
use rocmrpm_base::error::{Diagnose, Diagnosis, IoError, Kind};
use rocmrpm_base::events::Events;
use rocmrpm_base::process::{self, ProcessError};
use rocmrpm_base::text::{covers, visible};
use rocmrpm_rpms::RpmError;

use device::Device;
use plan::Plan;

/// The input of [`build`].
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The RPMs of one component. Source packages and debugging data are skipped.
    pub rpms: &'a [PathBuf],
    /// The local label that the version gets.
    pub label: &'a LocalLabel,
    /// The time of all members, in seconds since 1970.
    pub source_date_epoch: i64,
    /// The folder for the wheels.
    pub out_dir: &'a Path,
    /// The Python of the chroot, such as `(3, 14)`; `None` if any will do.
    pub python: Option<(u32, u32)>,
    /// The distributions of the stack: requirements on them are pinned to these versions, and the
    /// requirements of the RPMs on their packages are added.
    pub pins: &'a Pins,
    /// The source of ROCm's libraries once the wheel is installed.
    pub rocm: &'a Rocm,
    /// Files that the wheel omits: patterns of absolute paths, with `*`.
    pub leave_out: &'a [String],
    /// Normalized names of distributions that METADATA does not require, whatever upstream states.
    pub not_required: &'a [String],
    /// What the RPMs were built from, for the wheel's SBOM and provenance. With `None`, the wheel
    /// gets neither.
    pub origin: Option<&'a BuildOrigin>,
    /// Receives warnings.
    pub events: &'a dyn Events,
}

/// The source of the ROCm libraries of an installed wheel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Rocm {
    /// The distribution's RPMs.
    #[default]
    System,
    /// AMD's `rocm-sdk-*` wheels.
    Sdk {
        /// ROCm's version, such as `7.14`.
        version: String,
        /// The libraries that importing other distributions of the stack already loads, by
        /// normalized name: short names, as in `rocm_sdk`.
        preloaded: BTreeMap<String, BTreeSet<String>>,
        /// How wheels use them.
        options: SdkOptions,
    },
    /// The wheel itself, with files of ROCm's Python packages.
    Bundled {
        /// The packages.
        wheels: Vec<RocmWheel>,
    },
}

/// The build that RPMs come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildOrigin {
    /// The name of the component.
    pub component: String,
    /// Its upstream version.
    pub version: String,
    /// The Release, as in the spec.
    pub release: String,
    /// The chroot's name.
    pub chroot: String,
    /// The version of the ROCm it was built with, if known.
    pub rocm: Option<String>,
    /// The GPU targets it was built for.
    pub gpu_targets: Vec<String>,
    /// The build key.
    pub key: Sha256,
    /// The sources and patches: name, digest, size in bytes.
    pub sources: Vec<(String, Sha256, u64)>,
}

/// A wheel file on disk, with its metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wheel {
    /// The path.
    pub path: PathBuf,
    /// The distribution's name, as in METADATA.
    pub distribution: String,
    /// The normalized version, including the label.
    pub version: String,
    /// All compatibility tags, sorted.
    pub tags: Vec<String>,
    /// The digest of the file.
    pub sha256: Sha256,
    /// The size of the file in bytes.
    pub size: u64,
    /// `Requires-Python`, as in METADATA.
    pub requires_python: Option<String>,
    /// The text of METADATA.
    pub metadata: String,
}

/// Why a wheel could not be made, or why a file is not a valid wheel.
#[derive(Debug, thiserror::Error)]
pub enum WheelError {
    /// An RPM is unreadable.
    #[error(transparent)]
    Rpm(#[from] RpmError),
    /// An I/O operation failed.
    #[error(transparent)]
    Io(IoError),
    /// The user interrupted rocmrpm.
    #[error(transparent)]
    Stopped(#[from] ProcessError),
    /// The ROCm version for the label is invalid.
    #[error("`{0}` is not a ROCm version of dotted numbers such as 7.14")]
    RocmVersion(String),
    /// A wheel cannot hold a file of an RPM.
    #[error("{}: {path}: {reason}", rpm.display())]
    File {
        /// The RPM.
        rpm: PathBuf,
        /// The path of the file in the RPM.
        path: String,
        /// The reason.
        reason: String,
        /// How to fix it, if known.
        help: Option<&'static str>,
    },
    /// The files of an RPM do not make a wheel.
    #[error("{}: {reason}", rpm.display())]
    Package {
        /// The RPM.
        rpm: PathBuf,
        /// The reason.
        reason: String,
        /// How to fix it, if known.
        help: Option<&'static str>,
    },
    /// A `leave-out` pattern matches no file.
    #[error(
        "`leave-out`{} lists `{pattern}`, which matches no file in its packages",
        of(component)
    )]
    LeavesNothingOut {
        /// The component, if the packages belong to one.
        component: Option<String>,
        /// The pattern.
        pattern: String,
    },
    /// A file is not a valid wheel.
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
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Rpm(error) => error.diagnosis(),
            Self::Io(error) => error.diagnosis(),
            Self::Stopped(error) => error.diagnosis(),
            Self::RocmVersion(_) => {
                Kind::Config.with_help("correct the version in the chroot's ROCm provider")
            }
            Self::LeavesNothingOut { .. } => Kind::Config
                .with_help(
                    "write patterns for whole paths, with `*` for any characters, e.g. `/usr/lib64/cmake/*`",
                )
                .with_help("remove or correct it under `[wheel]` in the component's component.toml"),
            Self::File { help, .. } | Self::Package { help, .. } => {
                Diagnosis::from(Kind::Build).with_help_lines(help.iter().copied())
            }
            Self::Invalid { .. } => Kind::Usage
                .with_help("remove it, then run `rocmrpm wheel` to make it again from the component's RPMs"),
        }
    }
}

/// Makes the wheels of a component from its RPMs: none if no RPM has Python modules, one if a
/// distribution is spread over the RPMs, and one per RPM if each has its own. Writes nothing on an
/// error.
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

/// Plans the wheels of a component. `spool` holds the contents of the RPMs' files.
fn plans(request: Request<'_>, spool: &mut Spool) -> Result<Vec<Plan>, WheelError> {
    let mut payloads = Vec::new();
    for rpm in request.rpms {
        process::check_stop()?;
        payloads.extend(Payload::read(rpm, spool, |_| true)?);
    }
    leave_out(&mut payloads, request)?;
    let mut plans: Vec<Plan> = Vec::new();
    let mut add = |plan: Plan, payload: &Payload| {
        if plans.iter().any(|other| other.file_name == plan.file_name) {
            let reason = format!("another package also makes {}", plan.file_name);
            return Err(WheelError::package(payload.rpm(), reason));
        }
        plans.push(plan);
        Ok(())
    };
    for Group { payload, dist_info, devices } in by_distribution(payloads)? {
        process::check_stop()?;
        let targets: Vec<Device> = devices.iter().map(|(device, _)| device.clone()).collect();
        let plan = Plan::new(&payload, &dist_info, &targets, request, spool)?;
        for (device, payload) in &devices {
            add(device_plan::plan(device, payload, &plan, request, spool)?, payload)?;
        }
        add(plan, &payload)?;
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
    let temporary = temporary(request.out_dir)?;
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

/// Creates a file for a wheel in its folder, with the permissions of an ordinary file.
fn temporary(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    tempfile::Builder::new().prefix(".rocmrpm-").permissions(permissions).tempfile_in(folder)
}

/// The payloads of one distribution.
struct Group {
    payload: Payload,
    /// The name of its dist-info folder.
    dist_info: String,
    /// Its GPU code for single targets.
    devices: Vec<(Device, Payload)>,
}

/// Groups the payloads of a component by the distribution they belong to.
fn by_distribution(all: Vec<Payload>) -> Result<Vec<Group>, WheelError> {
    let (mut payloads, mut devices) = (Vec::new(), Vec::new());
    for payload in all.into_iter().filter(|payload| plan::wanted_path(payload).is_some()) {
        match Device::of_payload(&payload)? {
            Some(device) => devices.push((device, payload)),
            None => payloads.push(payload),
        }
    }
    let mut groups = hosts(payloads)?;
    let alone = groups.len() == 1;
    for (device, payload) in devices {
        let is_host = |rpm: &PathBuf| rocmrpm_rpms::name_of_file(rpm) == Some(&device.host);
        match groups.iter_mut().find(|group| alone || group.payload.rpms.iter().any(is_host)) {
            Some(group) => group.devices.push((device, payload)),
            None => plan::refuse_modules(&payload)?,
        }
    }
    Ok(groups)
}

/// Groups the payloads without packages for one GPU target.
fn hosts(payloads: Vec<Payload>) -> Result<Vec<Group>, WheelError> {
    let group = |payload, dist_info| Group { payload, dist_info, devices: Vec::new() };
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
        return Ok(vec![group(whole, name)]);
    }
    let mut groups: BTreeMap<String, Payload> = BTreeMap::new();
    for (payload, mut names) in payloads.into_iter().zip(found) {
        if names.len() > 1 {
            let names: Vec<String> = names.into_iter().collect();
            let reason = format!("it has several distributions: {}", names.join(", "));
            return Err(WheelError::package(payload.rpm(), reason).with_help(
                "put each distribution in its own subpackage, or list the files of all but one in \
                 `leave-out` under `[wheel]` in component.toml",
            ));
        }
        match names.pop_first() {
            Some(name) => match groups.get_mut(&name) {
                Some(group) => group.merge(payload)?,
                None => drop(groups.insert(name, payload)),
            },
            None => {
                if let Some(path) = plan::wanted_path(&payload) {
                    let reason =
                        "no dist-info folder assigns this file to one of the component's wheels";
                    return Err(WheelError::file(payload.rpm(), path, reason).with_help(
                        "put it in the subpackage of its distribution, or list it in `leave-out` \
                             under `[wheel]` in component.toml",
                    ));
                }
            }
        }
    }
    Ok(groups.into_iter().map(|(name, payload)| group(payload, name)).collect())
}
