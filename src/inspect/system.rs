//! The system on which files are to load: which libraries it has, from which
//! packages, and how new they are. Not whether a set of files fits.

use std::collections::BTreeMap;

/// What is known of the target system. The default knows nothing.
#[derive(Debug, Clone, Default)]
pub struct System {
    /// What it is called, such as `fedora-43` or `this machine`.
    pub name: String,
    /// The libraries that it has: SONAME and package.
    pub libraries: BTreeMap<String, String>,
    /// The ROCm libraries that it has: SONAME and package.
    pub rocm: BTreeMap<String, String>,
    /// Where its ROCm is installed, such as `/usr` or `/opt/rocm/core-7.14`.
    pub rocm_prefix: String,
    /// The newest symbol version of each kind that it has: `GLIBC`, `GLIBCXX`,
    /// `CXXABI` and its number, such as `2.42`.
    pub symbol_versions: BTreeMap<String, String>,
    /// The machine as in RPM architectures, such as `x86_64`; empty where any will do.
    pub arch: String,
}
