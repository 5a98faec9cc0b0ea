//! Makes ROCm's Python packages, as TheRock lays them out, from RPMs of ROCm: `rocm-sdk-core`,
//! `rocm-sdk-libraries`, `rocm-sdk-device-<target>`, `rocm-sdk-devel`, `rocm-profiler`, and the
//! selector `rocm`. It compiles nothing, and writes no index.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod devel;
mod error;
mod layout;
mod packages;
mod release;
mod search_path;
mod selector;
mod stub;
#[cfg(test)]
mod tests;
mod tree;
mod wheels;

use std::path::{Path, PathBuf};

use python_packaging::wheel::{Spool, Wheel};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::events::{Event, Events};
use rocmrpm_base::gpu::GpuTarget;

pub use error::SdkError;

/// The input of [`build`].
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The RPMs of one release of ROCm.
    pub rpms: &'a [PathBuf],
    /// The folder for the packages.
    pub out_dir: &'a Path,
    /// The version of the packages; `None` for that of the RPMs.
    pub version: Option<&'a str>,
    /// The GPU targets or families that the packages are for.
    pub targets: &'a [Family],
    /// Patterns of SONAMEs that every machine has, although not every distribution does.
    pub system_libraries: &'a [String],
    /// Files that the packages omit: patterns of installed paths, with `*`.
    pub leave_out: &'a [String],
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

/// Makes the packages. Writes no file with its final name before all are complete.
pub fn build(request: Request<'_>) -> Result<Made, SdkError> {
    let release = release::check(request)?;
    // Unnamed files need a folder on the file system of the result.
    let parent = request.out_dir.ancestors().find(|folder| folder.is_dir());
    let mut spool = Spool::new(parent.unwrap_or(Path::new(".")))?;
    let tree = tree::Tree::read(request, &release, &mut spool)?;
    let mut packages = packages::assign(request, &release, &tree, &mut spool)?;
    packages.link(request, &mut spool)?;
    fs_err::create_dir_all(request.out_dir)?;
    let mut unnamed = Vec::new();
    for assembly in wheels::assemblies(&packages, request, &release, &tree, &mut spool)? {
        let name = assembly.metadata.lines().nth(1).unwrap_or_default();
        let detail = name.trim_start_matches("Name: ").to_owned();
        request.events.event(Event::Step { word: "Packing", detail });
        unnamed.push(python_packaging::wheel::assemble(assembly, request.out_dir, &spool)?);
    }
    let selector = selector::write(request, &release, &packages)?;
    let mut wheels = Vec::new();
    for wheel in unnamed {
        wheels.push(wheel.persist()?);
    }
    wheels.sort_by(|a: &Wheel, b| a.path.cmp(&b.path));
    let selector = selector.persist()?;
    Ok(Made { version: release.version, split: release.split, wheels, selector })
}
