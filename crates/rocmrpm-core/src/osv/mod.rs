//! Looks up known vulnerabilities in the OSV format, <https://ossf.github.io/osv-schema/>, from the
//! service or an export. It does not decide which packages are relevant.

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
    /// Returns the name in OSV documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::PyPi => "PyPI",
            Self::CratesIo => "crates.io",
            Self::Npm => "npm",
            Self::Go => "Go",
        }
    }

    /// Returns the ecosystem for a package URL type (package-url specification, "Known types").
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

/// A package at a specific version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Package {
    /// The ecosystem that publishes the package.
    pub ecosystem: Ecosystem,
    /// The name in that ecosystem; normalized for Python distributions.
    pub name: String,
    /// The version.
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

/// The result of a lookup.
#[derive(Debug, Default)]
pub struct FoundAdvisories {
    /// The hits for each package, in the order of the packages.
    pub hits: Vec<Vec<Hit>>,
    /// Messages about advisories that could not be evaluated.
    pub unclear: Vec<String>,
}
