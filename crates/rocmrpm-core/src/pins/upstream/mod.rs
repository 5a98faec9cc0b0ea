//! Versions that upstream's own files state: those of the project and of what it needs.
//! `upstreams.toml` declares the files and their readers; `derive` and `check` use the statements.

pub mod cmake;
mod dockerfile;
#[cfg(any(test, fuzzing, feature = "testing"))]
#[doc(hidden)]
pub mod fuzzing;
mod read;
mod readers;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;

pub use read::{Upstream, own_version, read};

/// A statement in a file of an upstream project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Statement {
    /// The component that it is about.
    pub about: String,
    /// The content.
    #[serde(flatten)]
    pub claim: Claim,
    /// The text in the file.
    pub written: String,
    /// The place.
    pub place: UpstreamLocation,
    /// The weight.
    pub weight: Weight,
}

/// The content of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "claim", content = "value", rename_all = "kebab-case")]
pub enum Claim {
    /// This exact version, without a local label.
    Version(String),
    /// Versions that these PEP 440 specifiers allow.
    Requires(String),
    /// This commit of a repository, which may be abbreviated.
    Commit {
        /// The repository, if the file names it.
        git: Option<String>,
        /// Hexadecimal digits.
        commit: String,
    },
    /// This tag of a repository.
    Tag {
        /// The repository, if the file names it.
        git: Option<String>,
        /// The tag.
        tag: String,
    },
    /// The range of Python versions.
    Python(String),
    /// A list of Python versions.
    Pythons(Vec<String>),
    /// The supported GPU targets.
    Targets(Vec<String>),
    /// The supported releases of ROCm.
    Rocm(Vec<String>),
    /// The release of ROCm that upstream builds it with.
    BuiltWithRocm(String),
    /// The version of Rust.
    Rust(String),
    /// The number of crates in the lock file.
    Crates(usize),
}

impl Claim {
    /// Returns the stated version, which can be a tag.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Version(version) => Some(version),
            Self::Tag { tag, .. } => Some(version_of_tag(tag)),
            _ => None,
        }
    }
}

/// The weight of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// The build or the package requires it.
    Demand,
    /// Upstream's own images or tests use it; other versions can work.
    Example,
}

/// A place in a file of an upstream project.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UpstreamLocation {
    /// The project, such as `vllm 0.33.0`.
    pub of: String,
    /// The path below the source's top folder.
    pub file: String,
    /// The line, counted from 1; 0 for the whole file.
    pub line: usize,
}

impl UpstreamLocation {
    /// Returns whether two places are in the same file.
    pub fn is_same_file(&self, other: &Self) -> bool {
        (&self.of, &self.file) == (&other.of, &other.file)
    }
}

impl fmt::Display for UpstreamLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.of, self.file)?;
        if self.line > 0 { write!(f, ":{}", self.line) } else { Ok(()) }
    }
}

/// An upstream file in an unexpected form: missing, or without what all known versions have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Oddity {
    /// The place.
    pub place: UpstreamLocation,
    /// What is wrong: a lower-case sentence without a period.
    pub wrong: String,
    /// The components whose versions the file should state.
    pub about: Vec<String>,
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.wrong)
    }
}

/// Returns a version without its local label: `2.12.0+rocm7.14.0` is `2.12.0`.
pub fn public(version: &str) -> &str {
    version.split('+').next().unwrap_or(version)
}

/// Returns whether a text is a full or abbreviated commit and not a version: at least seven
/// hexadecimal digits.
pub fn is_commit_like(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Returns a repository's URL without `.git` and a slash at its end, so that equal repositories
/// compare equal.
pub fn repository(url: &str) -> &str {
    let url = url.trim_end_matches('/');
    url.strip_suffix(".git").unwrap_or(url)
}

/// Returns the version in a tag: `v3.6.0` is `3.6.0`.
pub fn version_of_tag(tag: &str) -> &str {
    let bare = tag.strip_prefix('v').unwrap_or(tag);
    if bare.starts_with(|c: char| c.is_ascii_digit()) { bare } else { tag }
}
