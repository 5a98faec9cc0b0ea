//! Describes the Python and the platform that wheels are for: evaluates markers, checks
//! `Requires-Python` and matches compatibility tags. It does not read what wheels require.

use std::str::FromStr;

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::MarkerEnvironment;

use crate::wheel;

/// A CPython on Linux.
#[derive(Debug, Clone)]
pub struct Environment {
    python: (u32, u32),
    full: Version,
    arch: String,
    /// The version of the C library; an unknown one matches every tag.
    glibc: Option<(u32, u32)>,
    markers: MarkerEnvironment,
}

impl Environment {
    /// Returns the environment of a Python `major.minor` on an architecture; `None` if `python` is
    /// not such a version.
    pub fn new(python: &str, arch: &str, glibc: Option<(u32, u32)>) -> Option<Self> {
        let (major, minor) = major_and_minor(python)?;
        let markers = wheel::markers((major, minor), arch)?;
        Some(Self {
            python: (major, minor),
            full: Version::new([major.into(), minor.into(), 0]),
            arch: arch.to_owned(),
            glibc,
            markers,
        })
    }

    /// Returns Python's version, such as `3.14`.
    pub fn python(&self) -> String {
        format!("{}.{}", self.python.0, self.python.1)
    }

    /// Returns the architecture, such as `x86_64`.
    pub fn arch(&self) -> &str {
        &self.arch
    }

    /// Returns the version of the C library, if known.
    pub fn glibc(&self) -> Option<(u32, u32)> {
        self.glibc
    }

    /// Returns the values for evaluating markers (dependency specifiers of the Python packaging
    /// user guide, "Environment markers").
    pub fn markers(&self) -> &MarkerEnvironment {
        &self.markers
    }

    /// Returns whether a `Requires-Python` allows this Python. An invalid one allows every Python,
    /// because pip ignores it.
    pub fn allows(&self, requires_python: Option<&str>) -> bool {
        requires_python
            .and_then(|text| VersionSpecifiers::from_str(text).ok())
            .is_none_or(|specifiers| specifiers.contains(&self.full))
    }

    /// Returns whether an installer in this environment accepts a wheel with this
    /// `python-abi-platform` tag (platform compatibility tags of the Python packaging user guide).
    pub fn takes(&self, tag: &str) -> bool {
        let mut parts = tag.splitn(3, '-');
        let (Some(python), Some(abi), Some(platform)) = (parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        self.takes_python(python, abi) && self.takes_platform(platform)
    }

    fn takes_python(&self, python: &str, abi: &str) -> bool {
        let (major, minor) = self.python;
        let own = format!("cp{major}{minor}");
        if let Some(version) = python.strip_prefix("py") {
            return abi == "none" && self.reaches(version, true);
        }
        let Some(version) = python.strip_prefix("cp") else { return false };
        match abi {
            "abi3" => self.reaches(version, false),
            abi => python == own && (abi == "none" || abi == own),
        }
    }

    /// Returns whether a tag's version, such as `3` or `39`, has this major version and is not
    /// newer than this Python. `bare` is the answer for a bare major version.
    fn reaches(&self, version: &str, bare: bool) -> bool {
        let (major, minor) = self.python;
        match version.strip_prefix(&major.to_string()) {
            Some("") => bare,
            Some(rest) => rest.parse::<u32>().is_ok_and(|tagged| tagged <= minor),
            None => false,
        }
    }

    fn takes_platform(&self, platform: &str) -> bool {
        if platform == "any" {
            return true;
        }
        let suffix = format!("_{}", self.arch);
        let Some(kind) = platform.strip_suffix(&suffix) else { return false };
        // The legacy names are aliases for glibc versions (PEP 600, "Legacy manylinux tags").
        let needs = match kind {
            "linux" => return true,
            "manylinux1" => Some((2, 5)),
            "manylinux2010" => Some((2, 12)),
            "manylinux2014" => Some((2, 17)),
            other => other
                .strip_prefix("manylinux_")
                .and_then(|v| major_and_minor(&v.replacen('_', ".", 1))),
        };
        needs.is_some_and(|needs| self.glibc.is_none_or(|has| needs <= has))
    }
}

/// Returns the first two numbers of a version; `None` if it has fewer, or others than numbers.
pub fn major_and_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(str::parse::<u32>);
    match (parts.next()?, parts.next()?) {
        (Ok(major), Ok(minor)) => Some((major, minor)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_tags_like_installers() {
        let here = Environment::new("3.14", "x86_64", Some((2, 42))).unwrap();
        for tag in [
            "py3-none-any",
            "py39-none-any",
            "py314-none-any",
            "cp314-cp314-linux_x86_64",
            "cp314-none-any",
            "cp39-abi3-manylinux_2_28_x86_64",
            "cp314-cp314-manylinux_2_42_x86_64",
            "cp38-abi3-manylinux2014_x86_64",
            "py3-none-manylinux1_x86_64",
        ] {
            assert!(here.takes(tag), "{tag}");
        }
        for tag in [
            "py2-none-any",
            "py315-none-any",
            "cp313-cp313-linux_x86_64",
            "cp313-none-any",
            "cp314-cp314t-linux_x86_64",
            "cp315-abi3-linux_x86_64",
            "cp314-cp314-manylinux_2_43_x86_64",
            "cp314-cp314-linux_aarch64",
            "cp314-cp314-musllinux_1_2_x86_64",
            "cp314-cp314-macosx_11_0_arm64",
            "py3-none",
        ] {
            assert!(!here.takes(tag), "{tag}");
        }
    }

    #[test]
    fn checks_requires_python() {
        let here = Environment::new("3.14", "x86_64", None).unwrap();
        for (text, allowed) in
            [(">=3.9,<4", true), (">=3.9,<3.14", false), ("==3.14.*", true), ("3x", true)]
        {
            assert_eq!(here.allows(Some(text)), allowed, "{text}");
        }
        assert!(here.allows(None));
        assert!(Environment::new("three", "x86_64", None).is_none());
    }
}
