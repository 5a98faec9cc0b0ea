//! Proves with uv that each of the stack's distributions can be installed from an index alone. Does
//! not download wheels.

use std::collections::BTreeMap;
use std::path::Path;

use fs_err as fs;

use super::ForeignError;
use crate::digest::Sha256;
use crate::error::IoError;
use crate::index::demands::{Usable, UsableWheels};
use crate::index::listing::Listing;
use crate::uv::{self, Failure, FailureReason, StandIn, metadata_wheel, plain_platform};
use python_packaging::environment::Environment;

/// A distribution that cannot be installed from the index alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsolved {
    /// The file name of its newest wheel.
    pub wheel: String,
    /// What uv reported.
    pub reported: Vec<String>,
}

/// Lets uv choose wheels of a view for the newest version of each of the stack's own distributions,
/// or of all distributions if none is the stack's. Returns those for which it finds no set. `root`
/// is the folder of the workspace.
pub fn solve(
    root: &Path,
    view: &Listing,
    environment: &Environment,
) -> Result<Vec<Unsolved>, ForeignError> {
    let usables = UsableWheels::of(view, environment);
    let scratch = tempfile::tempdir().map_err(IoError::doing("create a folder for uv"))?;
    let index = write_index(&usables, environment, scratch.path())
        .map_err(IoError::doing("write an index for uv"))?;
    let newest: BTreeMap<&str, &Usable<'_>> =
        usables.wheels.iter().filter_map(|(name, wheels)| Some((*name, wheels.last()?))).collect();
    let any_own = newest.values().any(|usable| is_own(usable));
    let mut unsolved = Vec::new();
    for (name, usable) in newest.iter().filter(|(_, usable)| !any_own || is_own(usable)) {
        let wanted = format!("{name}=={}\n", usable.wheel.name.version);
        let args = ["--only-binary", ":all:"];
        match uv::compile(root, environment, scratch.path(), wanted, &[index.url()], &args) {
            Ok(_) => {}
            Err(Failure::Refused { reported, why: FailureReason::Unsatisfiable }) => {
                let (wheel, reported) = (usable.wheel.file.clone(), uv::last(reported));
                unsolved.push(Unsolved { wheel, reported });
            }
            Err(Failure::Refused { reported, .. }) => {
                let reported = uv::last(reported);
                return Err(ForeignError::Resolve { reported, network: false });
            }
            Err(Failure::Process(error)) => return Err(error.into()),
            Err(Failure::Io(error)) => return Err(error.into()),
        }
    }
    Ok(unsolved)
}

fn is_own(usable: &Usable<'_>) -> bool {
    !usable.wheel.listed.foreign
}

/// Writes an index of all wheels, with only the METADATA that the view has beside them.
fn write_index(
    usables: &UsableWheels<'_>,
    environment: &Environment,
    folder: &Path,
) -> std::io::Result<StandIn> {
    let index = StandIn::in_folder(folder);
    for (name, wheels) in &usables.wheels {
        let folder = index.folder(name)?;
        let mut files = Vec::new();
        for Usable { wheel, .. } in wheels.iter().filter(|usable| !usable.wheel.name.is_sdist()) {
            let Ok(metadata) = wheel.metadata() else { continue };
            let stem = format!("{}-{}", name.replace('-', "_"), wheel.name.version);
            let bytes = metadata_wheel(&stem, &metadata)?;
            let file = plain_platform(&wheel.file, environment);
            fs::write(folder.join(&file), &bytes)?;
            files.push((file, Sha256::of_bytes(&bytes)));
        }
        index.page(name, &files)?;
    }
    Ok(index)
}
