//! The distributions of a stack, the RPMs that provide them, and those that require them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pep440_rs::Version;

use super::WheelError;
use rocmrpm_rpms as rpms;

/// The versions of a stack's distributions, including labels, and what their RPMs provide.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins {
    /// Versions by normalized name.
    versions: BTreeMap<String, Version>,
    /// Normalized names by the names that RPMs provide, such as `python3-torch-rocm`.
    provided: BTreeMap<String, BTreeSet<String>>,
}

impl Pins {
    /// Returns no distributions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the version of a distribution by its normalized name.
    pub fn get(&self, name: &str) -> Option<&Version> {
        self.versions.get(name)
    }

    /// Returns the normalized names of all distributions.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.versions.keys()
    }

    /// Adds the distributions of another component.
    pub fn extend(&mut self, others: Self) {
        self.versions.extend(others.versions);
        for (name, distributions) in others.provided {
            self.provided.entry(name).or_default().extend(distributions);
        }
    }

    /// Adds a distribution.
    pub(super) fn insert(&mut self, name: String, version: Version) {
        self.versions.insert(name, version);
    }

    /// Adds what an RPM with files of a distribution provides.
    pub(super) fn provide(&mut self, distribution: &str, provides: &[String]) {
        for name in provides {
            self.provided.entry(name.clone()).or_default().insert(distribution.to_owned());
        }
    }

    /// Returns the distributions that an RPM with these requirements needs. A name that the RPMs of
    /// several distributions provide needs none of them.
    pub(super) fn required(&self, requires: &[String]) -> BTreeSet<&str> {
        let one = |name| match self.provided.get(name)?.iter().collect::<Vec<_>>().as_slice() {
            [distribution] => Some(distribution.as_str()),
            _ => None,
        };
        requires.iter().filter_map(one).collect()
    }
}

/// Returns the distributions of a stack that RPMs require, by normalized name. Conditions on them
/// (rich dependencies) count only as METADATA states them.
pub fn required_by(packages: &[PathBuf], pins: &Pins) -> Result<BTreeSet<String>, WheelError> {
    let mut required = BTreeSet::new();
    for rpm in packages {
        let header = rpms::header(rpm)?;
        if header.arch != "src" && !header.is_debug() {
            required.extend(pins.required(&header.requires).into_iter().map(str::to_owned));
        }
    }
    Ok(required)
}

impl FromIterator<(String, Version)> for Pins {
    fn from_iter<I: IntoIterator<Item = (String, Version)>>(pins: I) -> Self {
        Self { versions: pins.into_iter().collect(), ..Self::default() }
    }
}
