//! The files with which others install exactly what this stack built: pins with digests,
//! constraints, and settings for pip and uv. Which wheels there are is `index`'s business.

mod files;
mod resolve;

use std::collections::BTreeMap;

use serde::Serialize;

pub use files::{Texts, texts};
pub use resolve::resolve;

use crate::error::{Diagnose, IoError, Kind};
use crate::index::demands::Usables;
use crate::index::listing::{Listed, Listing};
use crate::index::outside::Outside;
use crate::process::ProcessError;
use crate::uv;
use python_packaging::environment::Environment;

/// What the files are made from.
pub struct Set<'a> {
    /// The stack's name.
    pub stack: &'a str,
    /// The chroot's name.
    pub chroot: &'a str,
    /// Its Python and platform.
    pub environment: &'a Environment,
    /// Where the index is, without credentials.
    pub index_url: &'a str,
    /// The declared outside indexes.
    pub outside: &'a [Outside],
    /// The exact pins, sorted by name.
    pub pins: Vec<Pinned>,
    /// Requirements that the pins do not contain.
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
    /// `sha256:...` of all of its files, sorted.
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
    /// The wheels that have it.
    pub wheels: Vec<String>,
}

/// Why requirements cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum RequirementsError {
    /// The index has no wheel for the environment.
    #[error("the index in `{index}` has no wheel for Python {python} on {arch}")]
    Empty {
        /// The index.
        index: String,
        /// The Python.
        python: String,
        /// The architecture.
        arch: String,
    },
    /// A wheel cannot be pinned.
    #[error("{file} cannot be pinned: {wrong}")]
    Unpinnable {
        /// The wheel.
        file: String,
        /// What is wrong.
        wrong: String,
    },
    /// uv found no set of versions, or could not ask an index.
    #[error("uv cannot resolve what the stack requires from outside")]
    Resolve {
        /// Its last lines, without passwords.
        said: Vec<String>,
        /// Whether it did not reach an index.
        network: bool,
    },
    /// uv says something that cannot be read, or that contradicts the stack.
    #[error("what `uv pip compile` says cannot be used: {0}")]
    Answer(String),
    /// uv is not there or could not be run.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The file system refuses.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl Diagnose for RequirementsError {
    fn kind(&self) -> Kind {
        match self {
            Self::Empty { .. } | Self::Unpinnable { .. } => Kind::Config,
            Self::Resolve { network: true, .. } => Kind::Network,
            Self::Resolve { .. } => Kind::Config,
            Self::Answer(_) => Kind::Environment,
            Self::Process(error) => error.kind(),
            Self::Io(error) => error.kind(),
        }
    }

    fn help(&self) -> Vec<String> {
        match self {
            Self::Empty { .. } => vec!["`rocmrpm index` writes the index of the chroot's wheels".into()],
            Self::Unpinnable { .. } => vec!["`rocmrpm index check` tells all that is wrong with it".into()],
            Self::Resolve { network: true, .. } => {
                vec!["run the same command again later; without `--resolve` no index is asked".into()]
            }
            Self::Resolve { .. } => vec![
                "`rocmrpm index check` tells which requirements no index and no closure's lock satisfies"
                    .into(),
                "name the indexes that have them: `[index] outside` in rocmrpm.toml".into(),
            ],
            Self::Answer(_) => vec!["is this uv much newer or older than 2026's?".into()],
            Self::Process(error) => uv::help(error),
            Self::Io(error) => error.help(),
        }
    }

    fn details(&self) -> Vec<String> {
        match self {
            Self::Resolve { said, .. } => said.clone(),
            _ => Vec::new(),
        }
    }
}

/// Pins every distribution of a view that an installer in the environment can use, at its
/// highest version, and tells what comes from outside.
pub fn pins(
    view: &Listing,
    environment: &Environment,
) -> Result<(Vec<Pinned>, Vec<Open>), RequirementsError> {
    let usables = Usables::of(view, environment);
    if let Some((wheel, wrong)) = usables.broken.first() {
        return Err(RequirementsError::Unpinnable { file: wheel.file.clone(), wrong: wrong.clone() });
    }
    let mut pins = Vec::new();
    for (name, wheels) in &usables.wheels {
        let Some(highest) = wheels.last().map(|usable| &usable.wheel.name.version) else { continue };
        let files = view.wheels.get(*name).into_iter().flatten();
        let files = files.filter(|wheel| !wheel.said.yanked && wheel.name.version == *highest);
        let mut hashes = Vec::new();
        for wheel in files {
            let Some(digest) = wheel.said.sha256 else {
                let wrong = "its page has no sha256 of it".into();
                return Err(RequirementsError::Unpinnable { file: wheel.file.clone(), wrong });
            };
            hashes.push(format!("sha256:{digest}"));
        }
        hashes.sort();
        hashes.dedup();
        pins.push(Pinned { name: (*name).to_owned(), version: highest.to_string(), hashes, own: true });
    }
    if pins.is_empty() {
        return Err(RequirementsError::Empty {
            index: view.root.display().to_string(),
            python: environment.python(),
            arch: environment.arch().to_owned(),
        });
    }
    let demands = usables.demands(environment);
    let highest: BTreeMap<&str, &Listed> =
        usables.wheels.iter().filter_map(|(name, wheels)| Some((*name, wheels.last()?.wheel))).collect();
    for demand in demands.iter().filter(|demand| demand.optional.is_none()) {
        let Some(there) = highest.get(demand.need.name()) else { continue };
        let pinned = |file: &&&str| highest.values().any(|wheel| wheel.file == **file);
        if let Some(file) = demand.wheels.iter().find(pinned)
            && !demand.need.takes(&there.name.version)
        {
            let wrong =
                format!("it requires `{}`, and the pin would be {}", demand.need.wanted(), there.file);
            return Err(RequirementsError::Unpinnable { file: (*file).to_owned(), wrong });
        }
    }
    let from_outside = demands
        .iter()
        .filter(|demand| demand.optional.is_none() && !view.wheels.contains_key(demand.need.name()));
    let open = from_outside.map(|demand| Open {
        requirement: demand.need.wanted(),
        wheels: demand.wheels.iter().map(|wheel| (*wheel).to_owned()).collect(),
    });
    Ok((pins, open.collect()))
}
