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
    let (base, suffix) = version.split_at(version.find(['~', '^']).unwrap_or(version.len()));
    let suffix = match suffix {
        // In other packages, `^` marks a snapshot of a later version.
        _ if suffix.starts_with('^') && !suffix.starts_with("^post") => String::new(),
        _ => suffix.replace("~~", "~").replace(['~', '^'], "."),
    };
    Version::from_str(&format!("{base}{suffix}")).ok().filter(|version| !version.is_local())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpm_version::{of_pin, of_spec};
    use crate::workspace::{Pin, Source};

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
    fn prereleases_sort_before_their_releases() {
        // Each in Python's and RPM's syntax, from oldest to newest.
        let sorted = [
            ("0.1.7.dev18", "0.1.7~dev18"),
            ("0.1.7rc1.dev2", "0.1.7~rc1~dev2"),
            ("0.1.7rc1", "0.1.7~rc1"),
            ("0.1.7", "0.1.7"),
            ("0.1.7.post2.dev18", "0.1.7^post2~dev18"),
            ("0.1.7.post2", "0.1.7.post2"),
            ("0.1.8", "0.1.8"),
        ];
        for (python, rpm) in sorted {
            assert_eq!(of_spec(&version(python)), rpm);
            assert_eq!(of_package(&format!("{rpm}-1.fc43")), Some(version(python)), "{rpm}");
        }
        for pair in sorted.windows(2) {
            let [(_, older), (_, newer)] = pair else { unreachable!("windows of two") };
            let compare = format!("%{{lua:print(rpm.vercmp('{older}', '{newer}'))}}");
            let rpm = crate::process::Command::new("rpm").args(["--eval", &compare]);
            assert_eq!(rpm.text().unwrap().trim(), "-1", "{older} {newer}");
        }
    }

    #[test]
    fn only_versions_of_an_index_are_pythons() {
        let of = |source: Source, version: &str| {
            of_pin(&Pin::new(crate::names::ComponentName::parse("x").unwrap(), version, source))
        };
        let sdist = || Source::Sdist { project: "x".into(), sha256: None };
        let url = || Source::Url { url: "https://h/x.tar.gz".into(), sha256: None };
        assert_eq!(of(sdist(), "1.2b3"), "1.2~b3");
        assert_eq!(of(sdist(), "1.2.post1"), "1.2.post1");
        assert_eq!(of(url(), "0.11.2b"), "0.11.2b");
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
