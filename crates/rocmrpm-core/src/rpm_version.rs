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

/// Returns upstream's version of a pinned one: `2.15.0a0` for `2.15.0~a0^20261122git1234567`.
pub fn upstream(version: &str) -> String {
    let base = match version.rsplit_once('^') {
        Some((base, commit)) if commit.contains("git") => base,
        _ => version,
    };
    let base = base.strip_suffix("~snapshot").unwrap_or(base);
    if !base.contains(['~', '^']) {
        return base.to_owned();
    }
    let python = Version::from_str(&base.replace(['~', '^'], "."));
    python.map_or_else(|_| base.to_owned(), |version| version.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restores_the_upstream_version_of_a_snapshot() {
        for (pinned, stated) in [
            ("2.14.0", "2.14.0"),
            ("0.1.20.post1", "0.1.20.post1"),
            ("2.15.0~a0^20261122git1234567", "2.15.0a0"),
            ("2.15.0~a0^20261122.1git1234567", "2.15.0a0"),
            ("2.15.0~dev20261122^0git1234567", "2.15.0.dev20261122"),
            ("2.15.0~snapshot^20261122git1234567", "2.15.0"),
            ("2.15.0^git1234567", "2.15.0"),
            ("2.15.0~rc1", "2.15.0rc1"),
            ("2.0~a1^post2~dev3", "2.0a1.post2.dev3"),
            ("1^x~y", "1^x~y"),
        ] {
            assert_eq!(upstream(pinned), stated, "{pinned}");
        }
    }
}
