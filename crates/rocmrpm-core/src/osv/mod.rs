//! Known vulnerabilities in the format of OSV, <https://ossf.github.io/osv-schema/>: asked of the
//! service, or read from an export of it. Which packages are of interest is not known here.

mod advisory;
mod error;
mod export;
#[cfg(any(test, fuzzing, feature = "testing"))]
#[doc(hidden)]
pub mod fuzzing;
mod service;
mod severity;
mod version;

use serde::{Deserialize, Serialize};

pub use advisory::Advisory;
pub use error::OsvError;
pub use export::{Export, judge};
pub use service::{ADDRESS, Service};
pub use severity::{Level, Severity};

/// Where a package is published. Source: OSV schema, "Defined ecosystems".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Ecosystem {
    /// Python's package index.
    #[serde(rename = "PyPI")]
    PyPi,
    /// Rust's crates.
    #[serde(rename = "crates.io")]
    CratesIo,
    /// JavaScript's packages.
    #[serde(rename = "npm")]
    Npm,
    /// Go's modules.
    #[serde(rename = "Go")]
    Go,
}

impl Ecosystem {
    /// Returns its name in OSV's documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::PyPi => "PyPI",
            Self::CratesIo => "crates.io",
            Self::Npm => "npm",
            Self::Go => "Go",
        }
    }

    /// Returns the ecosystem of a package URL's type (package-url specification, "Known types").
    pub fn of_purl_type(kind: &str) -> Option<Self> {
        match kind {
            "pypi" => Some(Self::PyPi),
            "cargo" => Some(Self::CratesIo),
            "npm" => Some(Self::Npm),
            "golang" => Some(Self::Go),
            _ => None,
        }
    }
}

/// A package at a version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Package {
    /// Where it is published.
    pub ecosystem: Ecosystem,
    /// Its name there; of a Python distribution the normalized one.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// An advisory that affects a package.
#[derive(Debug, Clone)]
pub struct Hit {
    /// The advisory.
    pub advisory: Advisory,
    /// The lowest later version that is not affected, if the advisory has one.
    pub fixed: Option<String>,
}

/// What is known of some packages.
#[derive(Debug, Default)]
pub struct Answer {
    /// The hits of each package, in the order in which the packages were given.
    pub hits: Vec<Vec<Hit>>,
    /// Sentences about advisories that could not be judged.
    pub unclear: Vec<String>,
}
