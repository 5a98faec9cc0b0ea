//! What the build system of a library or program says about it.

use std::collections::BTreeSet;

use super::installed::Installed;
use crate::sources::CargoProject;

/// What a build system says about a project.
#[derive(Debug, Default)]
pub(super) struct Project {
    /// The file that says it, for messages.
    pub file: &'static str,
    pub summary: String,
    pub home: Option<String>,
    pub license: Option<String>,
    pub installed: Installed,
    /// Whether the build may install more files than those that are known.
    pub installs_more: bool,
    /// The name of the translations, if there are any.
    pub translations: Option<String>,
    /// BuildRequires of the build system itself.
    pub build_requires: BTreeSet<String>,
    /// The definitions in the first lines of the spec.
    pub globals: &'static str,
    /// What follows `%autosetup -p1 -n FOLDER`.
    pub prep: String,
    pub build: String,
    pub install: String,
    pub check: String,
    /// The cargo project whose crates are linked.
    pub rust: Option<CargoProject>,
}
