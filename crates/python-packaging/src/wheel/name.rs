//! Names of distributions and wheel files, as PEP 503 and the binary distribution format spell
//! them. This module does not read the files.

use std::collections::BTreeSet;
use std::str::FromStr;

use pep440_rs::Version;
use rocmrpm_base::names;

/// Normalizes a name for an index (PEP 503). Returns `None` for an invalid name.
pub fn normalized(name: &str) -> Option<String> {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    if !edge(bytes.first()) || !edge(bytes.last()) || !bytes.iter().all(|b| inner(*b)) {
        return None;
    }
    Some(names::normalized(name))
}

/// Splits the folder name `name-version.dist-info` into the normalized distribution and its
/// version. Old build backends wrote `_` for the `+` of a version.
pub(super) fn of_dist_info(folder: &str) -> Option<(String, Version)> {
    let (name, version) = folder.strip_suffix(".dist-info")?.rsplit_once('-')?;
    let version =
        Version::from_str(version).or_else(|_| Version::from_str(&version.replacen('_', "+", 1)));
    Some((normalized(name)?, version.ok()?))
}

/// Returns the normalized project of a wheel with this file name, or `None` if it is not a wheel's:
/// `NAME-VERSION(-BUILD)?-PYTHON-ABI-PLATFORM.whl`, with only letters, digits and `_.+!` (binary
/// distribution format, "File name convention").
pub fn wheel_project(file: &str) -> Option<String> {
    let stem = file.strip_suffix(".whl")?;
    let parts: Vec<&str> = stem.split('-').collect();
    let plain = |part: &&str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "_.+!".contains(c))
    };
    let version = Version::from_str(parts.get(1)?);
    let name = parts[0].starts_with(|c: char| c.is_ascii_alphanumeric());
    (matches!(parts.len(), 5 | 6) && parts.iter().all(plain) && version.is_ok() && name)
        .then(|| rocmrpm_base::names::normalized(parts[0]))
}

/// The tag of a source distribution in a [`FileName`]: no wheel has it, because it has no hyphens.
const SDIST: &str = "sdist";

/// The parts of the file name of a wheel, or of an sdist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileName {
    /// The distribution, normalized for an index.
    pub distribution: String,
    /// The version.
    pub version: Version,
    /// Every `python-abi-platform` tag that the compressed tags of the name expand to; `sdist` for an
    /// sdist.
    pub tags: BTreeSet<String>,
}

impl FileName {
    /// Parses the file name of a wheel or of an sdist; the error describes what is wrong with it.
    pub fn of_distribution(name: &str) -> Result<Self, String> {
        if name.ends_with(".tar.gz") { Self::of_sdist(name) } else { Self::parse(name) }
    }

    /// Parses the file name of an sdist, `NAME-VERSION.tar.gz` (PEP 625); the error describes what
    /// is wrong with it.
    pub fn of_sdist(name: &str) -> Result<Self, String> {
        let parts = name.strip_suffix(".tar.gz").and_then(|stem| stem.split_once('-'));
        let (distribution, version) = parts.ok_or("the file name is not `name-version.tar.gz`")?;
        let distribution = normalized(distribution).ok_or_else(|| {
            format!("`{distribution}` in the file name is not a distribution name")
        })?;
        let version = Version::from_str(version)
            .map_err(|_| format!("`{version}` in the file name is not a version"))?;
        Ok(Self { distribution, version, tags: BTreeSet::from([SDIST.to_owned()]) })
    }

    /// Returns whether this is the name of an sdist.
    pub fn is_sdist(&self) -> bool {
        self.tags.contains(SDIST)
    }

    /// Parses the file name of a wheel; the error describes what is wrong with it.
    pub fn parse(name: &str) -> Result<Self, String> {
        let safe = |b: u8| b.is_ascii_alphanumeric() || b"-_.+!".contains(&b);
        let stem = name.strip_suffix(".whl").filter(|_| name.bytes().all(safe));
        let stem = stem.ok_or("the file name is not that of a wheel")?;
        let parts: Vec<&str> = stem.split('-').collect();
        let (head, tags) = match parts.as_slice() {
            [dist, version, tags @ ..] if tags.len() == 3 => ([*dist, *version], tags),
            [dist, version, build, tags @ ..] if tags.len() == 3 => {
                if !build.starts_with(|c: char| c.is_ascii_digit()) {
                    return Err(format!(
                        "the build tag `{build}` in the file name does not start with a digit"
                    ));
                }
                ([*dist, *version], tags)
            }
            _ => return Err("the file name is not `name-version-python-abi-platform.whl`".into()),
        };
        let distribution = normalized(head[0])
            .ok_or_else(|| format!("`{}` in the file name is not a distribution name", head[0]))?;
        let version = Version::from_str(head[1])
            .map_err(|_| format!("`{}` in the file name is not a version", head[1]))?;
        Ok(Self { distribution, version, tags: expand(tags[0], tags[1], tags[2]) })
    }
}

fn expand(python: &str, abi: &str, platform: &str) -> BTreeSet<String> {
    let mut tags = BTreeSet::new();
    for python in python.split('.') {
        for abi in abi.split('.') {
            tags.extend(platform.split('.').map(|platform| format!("{python}-{abi}-{platform}")));
        }
    }
    tags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_dist_info_folders() {
        let read = |folder| of_dist_info(folder).map(|(name, version)| format!("{name} {version}"));
        for (folder, expected) in [
            ("Flash_Attn-2.8.3.dist-info", "flash-attn 2.8.3"),
            ("a-1!1.0rc1.dist-info", "a 1!1.0rc1"),
            ("a-1.0+git1.dist-info", "a 1.0+git1"),
            ("a-1.0_git1.dist-info", "a 1.0+git1"),
        ] {
            assert_eq!(read(folder).as_deref(), Some(expected));
        }
        for bad in ["a.dist-info", "a-x.dist-info", "-1.dist-info", "a-1", "a-1_x_+.dist-info"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn normalizes_names() {
        assert_eq!(normalized("Flash_Attn.._x").as_deref(), Some("flash-attn-x"));
        for bad in ["", "-a", "a-", "a b", "ä", "a/b", "a\n"] {
            assert_eq!(normalized(bad), None, "{bad}");
        }
    }

    #[test]
    fn parses_file_names() {
        let name = FileName::parse("flash_attn-2.8+rocm7.14-1x-py2.py3-none-any.whl").unwrap();
        assert_eq!(name.distribution, "flash-attn");
        assert_eq!(name.version.to_string(), "2.8+rocm7.14");
        assert_eq!(name.tags.into_iter().collect::<Vec<_>>(), ["py2-none-any", "py3-none-any"]);
    }

    #[test]
    fn parses_file_names_of_sdists() {
        let name = FileName::of_distribution("Rocm_SDK-7.14.0rc1.tar.gz").unwrap();
        assert_eq!((name.distribution.as_str(), name.is_sdist()), ("rocm-sdk", true));
        assert_eq!(name.version.to_string(), "7.14.0rc1");
        for bad in ["a.tar.gz", "a-x.tar.gz", "a-b-1.tar.gz", "-1.tar.gz", "a-1.zip"] {
            FileName::of_distribution(bad).unwrap_err();
        }
        FileName::parse("a-1.tar.gz").unwrap_err();
    }

    #[test]
    fn rejects_invalid_file_names() {
        for bad in [
            "a.whl",
            "a-1-py3-none.whl",
            "a-x-py3-none-any.whl",
            "a-1-b-py3-none-any.whl",
            "a-1-py3-none-any.zip",
            "a-1-1-1-py3-none-any.whl",
            "ä-1-py3-none-any.whl",
            "../a-1-py3-none-any.whl",
        ] {
            assert!(FileName::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn recognizes_wheel_names() {
        for (file, project) in [
            ("Foo_Bar.x-1.0.post1-py2.py3-none-any.whl", Some("foo-bar-x")),
            ("a-1-2-cp314-cp314-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", Some("a")),
            ("a-1-py3-none.whl", None),
            ("a-1-py3-none-any.zip", None),
            ("a-x-py3-none-any.whl", None),
            ("../a-1-py3-none-any.whl", None),
            ("a-1--none-any.whl", None),
            ("a-1-py3-none-a ny.whl", None),
        ] {
            assert_eq!(wheel_project(file).as_deref(), project, "{file}");
        }
    }
}
