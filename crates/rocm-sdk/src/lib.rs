//! Makes ROCm's Python packages, as TheRock lays them out, from RPMs of ROCm: `rocm-sdk-core`,
//! `rocm-sdk-libraries`, `rocm-sdk-device-<target>`, `rocm-sdk-devel`, `rocm-profiler`, and the
//! selector `rocm`. It compiles nothing, and writes no index.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod devel;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod layout;
mod licenses;
mod link;
mod output;
mod packages;
mod paths;
mod release;
mod selector;
mod stub;
#[cfg(test)]
mod tests;
mod tree;
mod wheels;

use std::path::{Path, PathBuf};

use python_packaging::wheel::{self, Assembly, Difference, Proof, Spool, Wheel};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::events::{Event, Events, Step};
use rocmrpm_base::gpu::GpuTarget;

pub use error::SdkError;
use output::Output;

/// The input of [`build`].
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The RPMs of one release of ROCm.
    pub rpms: &'a [PathBuf],
    /// The folder for the packages. It replaces one with packages of an earlier run.
    pub out_dir: &'a Path,
    /// The version of the packages; `None` for that of the RPMs.
    pub version: Option<&'a str>,
    /// The GPU targets or families that the packages are for.
    pub targets: &'a [Family],
    /// Patterns of SONAMEs that every machine has, although not every distribution does.
    pub system_libraries: &'a [String],
    /// Files that the packages omit: patterns of installed paths, with `*`.
    pub leave_out: &'a [String],
    /// Returns whether a license is an SPDX expression.
    pub is_spdx: fn(&str) -> bool,
    /// The time of all members, in seconds since 1970.
    pub source_date_epoch: i64,
    /// Receives warnings and steps.
    pub events: &'a dyn Events,
}

/// A GPU target or a family of them, as a package is named after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    /// The name, such as `gfx1151` or `gfx110X-all`.
    pub name: String,
    /// The targets.
    pub targets: Vec<GpuTarget>,
}

/// The packages of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The version.
    pub version: String,
    /// Whether the GPU code is in packages of its own.
    pub split: bool,
    /// The wheels, sorted by name.
    pub wheels: Vec<Wheel>,
    /// The sdist of `rocm`.
    pub selector: Sdist,
}

/// A source archive on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sdist {
    /// The path.
    pub path: PathBuf,
    /// The digest of the file.
    pub sha256: Sha256,
    /// The size of the file in bytes.
    pub size: u64,
}

/// What to write.
struct Planned {
    release: release::Release,
    spool: Spool,
    packages: packages::Packages,
    assemblies: Vec<Assembly>,
}

impl Planned {
    /// Reads the RPMs. `folder` is for temporary files.
    fn new(request: Request<'_>, folder: &Path) -> Result<Self, SdkError> {
        let release = release::check(request)?;
        let mut spool = Spool::new(folder)?;
        let tree = tree::Tree::read(request, &release, &mut spool)?;
        let mut packages = packages::assign(request, &release, &tree, &mut spool)?;
        packages.link(request, &tree, &mut spool)?;
        let assemblies =
            wheels::assemblies(&packages, request, &release, &tree, &mut spool, folder)?;
        Ok(Self { release, spool, packages, assemblies })
    }
}

/// Makes the packages. All appear in the folder in one step.
pub fn build(request: Request<'_>) -> Result<Made, SdkError> {
    let output = Output::new(request.out_dir)?;
    let folder = output.path();
    let planned = Planned::new(request, folder)?;
    let Planned { release, spool, packages, assemblies } = &planned;
    let mut wheels = Vec::new();
    for assembly in assemblies {
        let name = assembly.metadata.lines().nth(1).unwrap_or_default();
        let detail = name.trim_start_matches("Name: ").to_owned();
        request.events.event(Event::Step { step: Step::Packing, detail });
        wheels.push(wheel::assemble(assembly, folder, spool)?.persist()?);
    }
    gate::check(request, release, packages, &wheels)?;
    let (name, bytes) =
        (selector::sdist_name(release), selector::sdist(request, release, packages)?);
    fs_err::write(folder.join(&name), &bytes)?;
    let (sha256, size) = (Sha256::of_bytes(&bytes), bytes.len() as u64);
    let selector = Sdist { path: request.out_dir.join(name), sha256, size };
    wheels.sort_by(|a: &Wheel, b| a.path.cmp(&b.path));
    for path in wheels.iter_mut().map(|wheel| &mut wheel.path) {
        *path = request.out_dir.join(path.file_name().unwrap_or_default());
    }
    output.publish()?;
    let Planned { release, .. } = planned;
    Ok(Made { version: release.version, split: release.split, wheels, selector })
}

/// Compares the packages in the folder with those that [`build`] makes, member by member. Writes
/// nothing.
pub fn check(request: Request<'_>) -> Result<Vec<Proof>, SdkError> {
    let mut above = request.out_dir.ancestors();
    let folder = above.find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
    let Planned { release, spool, packages, assemblies } = Planned::new(request, folder)?;
    let mut proofs = Vec::new();
    for assembly in &assemblies {
        proofs.push(wheel::check(assembly, request.out_dir, &spool)?);
    }
    let name = selector::sdist_name(&release);
    let bytes = selector::sdist(request, &release, &packages)?;
    let (path, expected) = (request.out_dir.join(&name), Some(Sha256::of_bytes(&bytes)));
    let mut proof = Proof { wheel: name.clone(), ..Proof::default() };
    let differs = "it differs from what rocmrpm makes from the RPMs";
    match path.exists() {
        true => match Some(Sha256::of_file(&path)?.0) {
            found if found == expected => {
                proof.made.push(wheel::Made { member: name, changes: Vec::new() });
            }
            found => proof.differences.push(Difference::of_file(differs, expected, found)),
        },
        false => proof.differences.push(Difference::of_file("it is missing", expected, None)),
    }
    proofs.push(proof);
    wheel::add_strays(request.out_dir, &mut proofs)?;
    proofs.sort_by(|a, b| a.wheel.cmp(&b.wheel));
    Ok(proofs)
}
