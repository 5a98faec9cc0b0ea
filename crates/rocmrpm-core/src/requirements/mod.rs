//! Generates the files that let users install exactly what this stack built: pins with digests,
//! constraints, and settings for pip and uv. It does not read wheels; `index` does.

mod files;
mod resolve;

use std::collections::BTreeMap;

use serde::Serialize;

pub use files::{Texts, texts};
pub use resolve::resolve;

use crate::error::{Diagnose, Diagnosis, IoError, Kind};
use crate::index::demands::UsableWheels;
use crate::index::listing::{Listed, Listing};
use crate::index::outside::Outside;
use crate::process::ProcessError;
use crate::uv;
use python_packaging::environment::Environment;

/// The input for the files.
pub struct Set<'a> {
    /// The name of the stack.
    pub stack: &'a str,
    /// The name of the chroot.
    pub chroot: &'a str,
    /// The Python and platform of the chroot.
    pub environment: &'a Environment,
    /// The URL of the index, without credentials.
    pub index_url: &'a str,
    /// The declared external indexes.
    pub outside: &'a [Outside],
    /// The exact pins, sorted by name.
    pub pins: Vec<Pinned>,
    /// Requirements that no pin satisfies.
    pub open: Vec<Open>,
}

/// A distribution pinned to one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pinned {
    /// Its normalized name.
    pub name: String,
    /// Its version, with the local label.
    pub version: String,
    /// The digests of all of its files as `sha256:...`, sorted.
    pub hashes: Vec<String>,
    /// Whether the stack built it.
    pub own: bool,
}

/// A requirement that comes from outside and is not pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Open {
    /// The requirement without its marker.
    pub requirement: String,
    /// The wheels that require it.
    pub wheels: Vec<String>,
}

/// Errors that occur while generating requirements.
#[derive(Debug, thiserror::Error)]
pub enum RequirementsError {
    /// The index has no wheel for the environment.
    #[error("the index in `{index}` has no wheel for Python {python} on {arch}")]
    Empty {
        /// The folder of the index.
        index: String,
        /// The Python version.
        python: String,
        /// The architecture.
        arch: String,
    },
    /// A wheel could not be pinned.
    #[error("cannot pin {file}: {wrong}")]
    Unpinnable {
        /// The file name of the wheel.
        file: String,
        /// The problem.
        wrong: String,
    },
    /// uv found no solution or could not query an index.
    #[error("uv cannot resolve what the stack requires from outside")]
    Resolve {
        /// The last lines of uv's output, without passwords.
        reported: Vec<String>,
        /// Whether an index was unreachable.
        network: bool,
    },
    /// uv's output is invalid or contradicts the stack.
    #[error("unexpected output of `uv pip compile`: {0}")]
    Answer(String),
    /// uv was not found or could not run.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file system operation failed.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl Diagnose for RequirementsError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Empty { .. } => {
                Kind::Config.with_help("run `rocmrpm index` to write the index of the chroot's wheels")
            }
            Self::Unpinnable { .. } => {
                Kind::Config.with_help("run `rocmrpm index check` to list all problems with it")
            }
            Self::Resolve { network: true, reported, .. } => Kind::Network
                .with_help("run the same command again later, or without `--resolve`, which needs no index")
                .with_details(reported),
            Self::Resolve { reported, .. } => Kind::Config
                .with_help(
                    "run `rocmrpm index check` to list the requirements that no index or closure lock file \
                     satisfies",
                )
                .with_help("add the indexes that have them to `[index] outside` in rocmrpm.toml")
                .with_details(reported),
            Self::Answer(_) => {
                Kind::Environment.with_help("this uv may be unsupported; install a release from 2026")
            }
            Self::Process(error) => uv::diagnosis(error),
            Self::Io(error) => error.diagnosis(),
        }
    }
}

/// Pins every distribution of a view that the environment can install at its highest version, and
/// returns the requirements that are not pinned.
pub fn pins(
    view: &Listing,
    environment: &Environment,
) -> Result<(Vec<Pinned>, Vec<Open>), RequirementsError> {
    let usables = UsableWheels::of(view, environment);
    if let Some((wheel, wrong)) = usables.broken.first() {
        return Err(RequirementsError::Unpinnable {
            file: wheel.file.clone(),
            wrong: wrong.clone(),
        });
    }
    let mut pins = Vec::new();
    for (name, wheels) in &usables.wheels {
        let Some(newest) = wheels.last().map(|usable| usable.wheel) else { continue };
        let highest = &newest.name.version;
        let files = view.wheels.get(*name).into_iter().flatten();
        let files = files.filter(|wheel| !wheel.listed.yanked && wheel.name.version == *highest);
        let mut hashes = Vec::new();
        for wheel in files {
            let Some(digest) = wheel.listed.sha256 else {
                let wrong = "its page has no sha256 for it".into();
                return Err(RequirementsError::Unpinnable { file: wheel.file.clone(), wrong });
            };
            hashes.push(format!("sha256:{digest}"));
        }
        hashes.sort();
        hashes.dedup();
        pins.push(Pinned {
            name: (*name).to_owned(),
            version: highest.to_string(),
            hashes,
            own: !newest.listed.foreign,
        });
    }
    if pins.is_empty() {
        return Err(RequirementsError::Empty {
            index: view.root.display().to_string(),
            python: environment.python(),
            arch: environment.arch().to_owned(),
        });
    }
    let demands = usables.demands(environment);
    let highest: BTreeMap<&str, &Listed> = usables
        .wheels
        .iter()
        .filter_map(|(name, wheels)| Some((*name, wheels.last()?.wheel)))
        .collect();
    for demand in demands.iter().filter(|demand| demand.optional.is_none()) {
        let Some(there) = highest.get(demand.need.name()) else { continue };
        let pinned = |file: &&&str| highest.values().any(|wheel| wheel.file == **file);
        if let Some(file) = demand.wheels.iter().find(pinned)
            && !demand.need.takes(&there.name.version)
        {
            let wrong = format!(
                "it requires `{}`, but the pin would be {}",
                demand.need.wanted(),
                there.file
            );
            return Err(RequirementsError::Unpinnable { file: (*file).to_owned(), wrong });
        }
    }
    let from_outside = demands.iter().filter(|demand| {
        demand.optional.is_none() && !view.wheels.contains_key(demand.need.name())
    });
    let open = from_outside.map(|demand| Open {
        requirement: demand.need.wanted(),
        wheels: demand.wheels.iter().map(|wheel| (*wheel).to_owned()).collect(),
    });
    Ok((pins, open.collect()))
}
