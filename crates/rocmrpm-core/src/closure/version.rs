//! Converts the versions of Python distributions to RPM's syntax and back. `pep440_rs` and
//! `workspace::compare` compare versions.
//!
//! Source: python-rpm-generators, `pythondistdeps.py`, class `RpmVersion`, which writes the
//! versions of `python3dist()`: the epoch precedes a colon, zeros at the end of the release are
//! dropped, a pre-release follows `~`, a development release `~~`, a post-release `^post`. Of
//! several suffixes, only the first of these is written, and local labels are dropped.

use std::str::FromStr;

use pep440_rs::Version;

/// Returns a version in the form of `python3dist(NAME) = VERSION`.
pub fn to_rpm(version: &Version) -> String {
    let mut release: Vec<String> = version.release().iter().map(u64::to_string).collect();
    while release.len() > 1 && release.last().is_some_and(|last| last == "0") {
        release.pop();
    }
    let epoch = match version.epoch() {
        0 => String::new(),
        epoch => format!("{epoch}:"),
    };
    let suffix = match (version.pre(), version.dev(), version.post()) {
        (Some(pre), ..) => format!("~{}{}", pre.kind, pre.number),
        (None, Some(dev), _) => format!("~~dev{dev}"),
        (None, None, Some(post)) => format!("^post{post}"),
        (None, None, None) => String::new(),
    };
    format!("{epoch}{}{suffix}", release.join("."))
}

/// Returns a version in the form of `Version:` in a member's spec: a pre-release sorts before its
/// release (Fedora, "Versioning").
pub fn of_spec(version: &Version) -> String {
    if !version.any_prerelease() {
        return version.to_string();
    }
    let release = version.release().iter().map(u64::to_string).collect::<Vec<_>>().join(".");
    let pre = version.pre().map(|pre| format!("~{}{}", pre.kind, pre.number)).unwrap_or_default();
    let dev = version.dev().map(|dev| format!("~dev{dev}")).unwrap_or_default();
    format!("{release}{pre}{dev}")
}

/// Parses the version in `python3dist(NAME) = VERSION`, whose epoch is Python's.
pub fn of_provide(version: &str) -> Option<Version> {
    let (epoch, rest) = version.split_once(':').unwrap_or(("0", version));
    let version = of_release(rest)?;
    Some(version.with_epoch(epoch.parse().ok()?))
}

/// Returns the version of a package in Python's syntax. Ignores the package's epoch, which is rpm's
/// own and not the distribution's, and its release.
pub fn of_package(evr: &str) -> Option<Version> {
    let version = evr.split_once(':').map_or(evr, |(_, version)| version);
    of_release(version.split('-').next()?)
}

fn of_release(version: &str) -> Option<Version> {
    let (base, suffix) = match version.split_once(['~', '^']) {
        None => (version, String::new()),
        Some((base, rest)) => {
            let rest = rest.trim_start_matches('~');
            match version.contains('~') {
                true => (base, format!(".{rest}")),
                // In other packages, `^` marks a snapshot of a later version.
                false if rest.starts_with("post") => (base, format!(".{rest}")),
                false => (base, String::new()),
            }
        }
    };
    Version::from_str(&format!("{base}{suffix}")).ok().filter(|version| !version.is_local())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::from_str(text).unwrap()
    }

    #[test]
    fn writes_versions_like_the_provides_generator() {
        for (python, rpm) in [
            ("1.2", "1.2"),
            ("1.2.0", "1.2"),
            ("1.0.0", "1"),
            ("0", "0"),
            ("0.0", "0"),
            ("10.20", "10.20"),
            ("1.2rc1", "1.2~rc1"),
            ("1.2.0b3", "1.2~b3"),
            ("1.0a1.dev4", "1~a1"),
            ("1.2.dev3", "1.2~~dev3"),
            ("1.2.0.post1", "1.2^post1"),
            ("2!1.0", "2:1"),
            ("1.2+local", "1.2"),
        ] {
            assert_eq!(to_rpm(&version(python)), rpm, "{python}");
        }
    }

    #[test]
    fn versions_round_trip() {
        for python in
            ["1.2", "1", "0", "10.20", "1.2rc1", "1.2b3", "1.2.dev3", "1.2.post1", "2!1.5"]
        {
            assert_eq!(of_provide(&to_rpm(&version(python))), Some(version(python)), "{python}");
        }
        assert_eq!(of_provide("1~rc1"), Some(version("1.0.0rc1")), "trailing zeros do not matter");
        for wrong in ["", "x", "1.2~~~", "a:1", "1.2~git", "1.2+local"] {
            assert_eq!(of_provide(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ignores_epoch_and_release_of_packages() {
        for (evr, python) in [
            ("1:2.3-4.fc43", Some("2.3")),
            ("2.3", Some("2.3")),
            ("2.3~rc1", Some("2.3rc1")),
            ("2.3~beta2-1", Some("2.3b2")),
            ("2.3~~dev1", Some("2.3.dev1")),
            ("2.3^post1", Some("2.3.post1")),
            ("2.3^20250101gitabc", Some("2.3")),
            ("2.3.post1", Some("2.3.post1")),
            ("2025k", None),
            ("%{version}", None),
            ("", None),
        ] {
            assert_eq!(of_package(evr), python.map(version), "{evr}");
        }
    }
}
