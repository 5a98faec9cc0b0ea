//! What upstream's own files say about versions: of themselves and of what they want
//! beside them. Which of it a pin set follows is not decided here.

pub mod cmake;
mod files;
#[cfg(any(test, fuzzing, feature = "testing"))]
#[doc(hidden)]
pub mod fuzzing;
mod read;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;

pub use read::{Upstream, read};
pub use table::{UpstreamFile, files_of, readable};

/// One thing that a file of upstream's says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Statement {
    /// The component that it is about.
    pub about: String,
    /// What is said.
    #[serde(flatten)]
    pub says: Says,
    /// The text as it stands there.
    pub written: String,
    /// Where.
    pub place: Place,
    /// What it is worth.
    pub weight: Weight,
}

/// What a statement says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "says", content = "value", rename_all = "kebab-case")]
pub enum Says {
    /// Exactly this version, without a local label.
    Version(String),
    /// Versions that these PEP 440 specifiers allow.
    Requires(String),
    /// This commit, which may be cut short, of a repository.
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
    /// The range of Pythons.
    Python(String),
    /// The Pythons, one by one.
    Pythons(Vec<String>),
    /// The GPU targets that it can be built for.
    Targets(Vec<String>),
    /// The versions of ROCm, lowest first.
    Rocm(Vec<String>),
    /// The version of Rust.
    Rust(String),
    /// It has a lock file with so many crates.
    Crates(usize),
}

impl Says {
    /// Returns the version that is named, by itself or as a tag.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Version(version) => Some(version),
            Self::Tag { tag, .. } => Some(version_of_tag(tag)),
            _ => None,
        }
    }
}

/// What a statement is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// The build or the package demands it.
    Demand,
    /// Upstream's own images or tests use it; other versions may do as well.
    Example,
}

/// A place in a file of upstream's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Place {
    /// Whose file, such as `vllm 0.33.0`.
    pub of: String,
    /// The path below the source's top folder.
    pub file: String,
    /// The line, counted from 1; 0 stands for the whole file.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.of, self.file)?;
        if self.line > 0 { write!(f, ":{}", self.line) } else { Ok(()) }
    }
}

/// A file of upstream's that is not as it should be: missing, or without what it has in
/// every version known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Oddity {
    /// Where.
    pub place: Place,
    /// What is wrong: a lower-case sentence without a period.
    pub wrong: String,
    /// The components whose versions the file would have said.
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

/// Returns whether a text is a commit, whole or cut short, and no version: at least seven
/// hexadecimal digits.
pub fn is_commit_like(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Returns the repository's URL without `.git` and a slash at its end, so that two spellings
/// are one.
pub fn repository(url: &str) -> &str {
    let url = url.trim_end_matches('/');
    url.strip_suffix(".git").unwrap_or(url)
}

/// Returns the version in a tag: `v3.6.0` is `3.6.0`.
pub fn version_of_tag(tag: &str) -> &str {
    let bare = tag.strip_prefix('v').unwrap_or(tag);
    if bare.starts_with(|c: char| c.is_ascii_digit()) { bare } else { tag }
}
