//! Writes the versions of pins as `Version:` of a spec. `closure::version` writes those of
//! `python3dist()`, and parses both.

use std::str::FromStr;

use pep440_rs::Version;

use crate::workspace::{Pin, Source};

/// Returns the version of a pin in the form of `Version:` in a spec. Only what comes from a package
/// index certainly has a version of Python's syntax.
pub fn of_pin(pin: &Pin) -> String {
    match &pin.source {
        Source::Sdist { .. } | Source::Wheel { .. } => {
            Version::from_str(&pin.version).map_or_else(|_| pin.version.clone(), |at| of_spec(&at))
        }
        _ => pin.version.clone(),
    }
}

/// Returns a version in the form of `Version:` in a spec: a pre-release sorts before its release,
/// and one of a post-release after the release that it follows (Fedora, "Versioning").
pub fn of_spec(version: &Version) -> String {
    if !version.any_prerelease() {
        return version.to_string();
    }
    let release = version.release().iter().map(u64::to_string).collect::<Vec<_>>().join(".");
    let pre = version.pre().map(|pre| format!("~{}{}", pre.kind, pre.number)).unwrap_or_default();
    let post = version.post().map(|post| format!("^post{post}")).unwrap_or_default();
    let dev = version.dev().map(|dev| format!("~dev{dev}")).unwrap_or_default();
    format!("{release}{pre}{post}{dev}")
}
