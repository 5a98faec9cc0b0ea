//! Reads the `pylock.toml` that uv writes, and writes one with the versions that uv should prefer.
//! Does not run uv.
//!
//! Source: PEP 751, "A file format to record Python dependencies for installation reproducibility".
//! URLs in it are not used: they may point to a mirror, and may contain passwords.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use pep440_rs::Version;
use serde::Deserialize;

use super::lock::check_file;
use super::own::OwnDistribution;
use super::{ClosureError, Locked, LockedFile, LockedOrigin};
use crate::digest::Sha256;
use crate::sources::last_url_segment;
use crate::text::visible;
use crate::wheel::{FileName, normalized};
use python_packaging::environment::Environment;

#[derive(Deserialize)]
struct Pylock {
    #[serde(default)]
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: Option<String>,
    sdist: Option<File>,
    #[serde(default)]
    wheels: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    name: Option<String>,
    url: Option<String>,
    path: Option<String>,
    size: Option<u64>,
    #[serde(default)]
    hashes: BTreeMap<String, String>,
}

/// Returns the text of a `pylock.toml` that contains only versions. uv prefers the versions in its
/// output file if they satisfy the requirements.
pub(crate) fn preferences<'a>(
    versions: impl IntoIterator<Item = (&'a str, &'a Version)>,
) -> String {
    let mut text = "lock-version = \"1.0\"\ncreated-by = \"rocmrpm\"\n".to_owned();
    for (name, version) in versions {
        text += &format!("\n[[packages]]\nname = \"{name}\"\nversion = \"{version}\"\n");
    }
    text
}

/// Parses uv's output: the distributions, sorted by name, each with its sdist and the wheel that an
/// installer picks in the environment.
pub(crate) fn read(
    text: &str,
    own: &BTreeMap<String, OwnDistribution>,
    environment: &Environment,
) -> Result<Vec<Locked>, ClosureError> {
    let answer = |wrong: String| ClosureError::Answer(wrong);
    let Pylock { packages } = toml::from_str(text).map_err(|error| {
        answer(format!("its pylock.toml cannot be read: {}", visible(error.message())))
    })?;
    let mut found: BTreeMap<String, Locked> = BTreeMap::new();
    for package in packages {
        let name = package.name.clone();
        if normalized(&name).as_deref() != Some(name.as_str()) {
            return Err(answer(format!(
                "`{}` is not the normalized name of a distribution",
                visible(&name)
            )));
        }
        let version =
            package.version.as_deref().and_then(|version| Version::from_str(version).ok());
        let version = version.ok_or_else(|| answer(format!("it has no version of {name}")))?;
        let origin = match own.get(&name) {
            Some(own) if own.version == version => LockedOrigin::Stack(own.component.clone()),
            Some(own) => {
                return Err(answer(format!(
                    "it selects {name} {version}, but the stack has {}",
                    own.version
                )));
            }
            None => package.origin(&version, environment)?,
        };
        let locked = Locked { name: name.clone(), version, origin };
        if found.insert(name.clone(), locked).is_some() {
            return Err(answer(format!("it has {name} twice")));
        }
    }
    Ok(found.into_values().collect())
}

impl Package {
    fn origin(
        self,
        version: &Version,
        environment: &Environment,
    ) -> Result<LockedOrigin, ClosureError> {
        let locked = |file: &File| file.locked(&self.name, version);
        let sdist = self.sdist.as_ref().map(locked).transpose()?;
        let wheels = self.wheels.iter().map(locked).collect::<Result<Vec<_>, _>>()?;
        let wheel = best(wheels, environment);
        if wheel.is_none() && sdist.is_none() {
            return Err(ClosureError::NoFile {
                name: self.name.clone(),
                version: version.to_string(),
                python: environment.python(),
                arch: environment.arch().to_owned(),
            });
        }
        Ok(LockedOrigin::Index { wheel, sdist })
    }
}

impl File {
    fn locked(&self, project: &str, version: &Version) -> Result<LockedFile, ClosureError> {
        let of_url = || self.url.as_deref().map(last_url_segment);
        let of_path =
            || Some(Path::new(self.path.as_deref()?).file_name()?.to_string_lossy().into_owned());
        let name = self.name.clone().or_else(of_url).or_else(of_path).unwrap_or_default();
        check_file(&name, project, version).map_err(ClosureError::Answer)?;
        let sha256 = self.hashes.get("sha256").and_then(|hex| Sha256::parse(hex));
        let sha256 =
            sha256.ok_or_else(|| ClosureError::Answer(format!("it has no sha256 for `{name}`")))?;
        Ok(LockedFile { name, sha256, size: self.size, metadata: None })
    }
}

/// Returns the wheel that an installer picks: the one whose tag comes first in
/// `packaging.tags.sys_tags`, whose order pip uses.
fn best(wheels: Vec<LockedFile>, environment: &Environment) -> Option<LockedFile> {
    let ranked = wheels.into_iter().filter_map(|wheel| {
        let name = FileName::parse(&wheel.name).ok()?;
        let tags = name.tags.iter().filter(|tag| environment.takes(tag));
        Some((tags.map(|tag| rank(tag)).max()?, Reverse(wheel.name.clone()), wheel))
    });
    ranked.max_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1))).map(|(_, _, wheel)| wheel)
}

/// Ranks a compatible tag: CPython before any Python, the specific ABI before stable ABIs, newer C
/// libraries before older ones, `any` platform last.
fn rank(tag: &str) -> (u8, bool, Vec<u32>, Vec<u32>) {
    let parts: Vec<&str> = tag.splitn(3, '-').collect();
    let [python, abi, platform] = parts[..] else { return (0, false, Vec::new(), Vec::new()) };
    let numbers = |text: &str| -> Vec<u32> {
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
    };
    let kind = match abi {
        "abi3" => 2,
        "none" if python.starts_with("py") => 0,
        "none" => 1,
        _ => 3,
    };
    // `manylinux2014` and similar tags are older than any version with two numbers.
    let glibc = match platform.strip_prefix("manylinux_") {
        Some(version) => numbers(version),
        None => Vec::new(),
    };
    (kind, platform != "any", numbers(python), glibc)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Environment {
        Environment::new("3.14", "x86_64", Some((2, 42))).unwrap()
    }

    fn file(name: &str) -> LockedFile {
        LockedFile { name: name.into(), sha256: Sha256::of_bytes(name), size: None, metadata: None }
    }

    #[test]
    fn picks_the_wheel_that_pip_picks() {
        for (names, expected) in [
            (
                vec![
                    "a-1-py3-none-any.whl",
                    "a-1-cp314-cp314-manylinux_2_28_x86_64.whl",
                    "a-1-cp39-abi3-manylinux_2_28_x86_64.whl",
                ],
                Some("a-1-cp314-cp314-manylinux_2_28_x86_64.whl"),
            ),
            (
                vec![
                    "a-1-cp39-abi3-manylinux_2_28_x86_64.whl",
                    "a-1-cp310-abi3-manylinux_2_17_x86_64.whl",
                ],
                Some("a-1-cp310-abi3-manylinux_2_17_x86_64.whl"),
            ),
            (
                vec![
                    "a-1-cp314-cp314-manylinux_2_17_x86_64.whl",
                    "a-1-cp314-cp314-manylinux_2_28_x86_64.whl",
                ],
                Some("a-1-cp314-cp314-manylinux_2_28_x86_64.whl"),
            ),
            (
                vec!["a-1-py3-none-any.whl", "a-1-py3-none-manylinux2014_x86_64.whl"],
                Some("a-1-py3-none-manylinux2014_x86_64.whl"),
            ),
            (vec!["a-1-cp313-cp313-manylinux_2_28_x86_64.whl"], None),
            (vec![], None),
        ] {
            let wheels = names.iter().map(|name| file(name)).collect();
            assert_eq!(
                best(wheels, &here()).map(|wheel| wheel.name).as_deref(),
                expected,
                "{names:?}"
            );
        }
    }

    #[test]
    fn rejects_hostile_output() {
        let digest = Sha256::of_bytes("x");
        let good = format!(
            "[[packages]]\nname = 'a'\nversion = '1'\nwheels = [{{ url = 'https://u:secret@h/a-1-py3-none-any.whl', \
             hashes = {{ sha256 = '{digest}' }} }}]\n"
        );
        let read = |text: &str| read(text, &BTreeMap::new(), &here());
        let locked = read(&good).unwrap();
        assert_eq!(locked.len(), 1);
        for (from, to, wrong) in [
            ("'a'", "'../a'", "not the normalized name"),
            ("version = '1'", "", "no version"),
            ("version = '1'", "version = '2'", "not a file of a 2"),
            ("a-1-py3-none-any.whl'", "..%2f..%2fa-1-py3-none-any.whl'", "not a file name"),
            ("a-1-py3-none-any.whl'", "b-1-py3-none-any.whl'", "not a file of a 1"),
            ("sha256 =", "sha1 =", "no sha256 for"),
            ("py3-none-any", "py2-none-any", "no wheel for Python 3.14"),
            ("[[packages]]", "[[packages]", "cannot be read"),
            ("wheels = ", "wheels = 1 #", "cannot be read"),
        ] {
            let error = read(&good.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(wrong) && !error.contains("secret"), "{to}: {error}");
        }
        assert!(read(&format!("{good}\n{good}")).unwrap_err().to_string().contains("twice"));
    }
}
