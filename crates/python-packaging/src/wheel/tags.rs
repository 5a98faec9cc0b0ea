//! Determines the compatibility tags of a wheel from its files: never a tag that the files do not
//! allow. It does not write the tags.

use std::collections::{BTreeMap, BTreeSet};

use super::linkage::Elf;
use super::stable_abi;

/// The tags of a wheel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tags {
    pub pythons: BTreeSet<String>,
    pub abi: String,
    pub platform: String,
}

impl Tags {
    /// Returns the tags as in a file name: `py2.py3-none-any`.
    pub fn compressed(&self) -> String {
        let pythons: Vec<&str> = self.pythons.iter().map(String::as_str).collect();
        format!("{}-{}-{}", pythons.join("."), self.abi, self.platform)
    }

    /// Returns every tag that [`Tags::compressed`] expands to, as in WHEEL.
    pub fn expanded(&self) -> BTreeSet<String> {
        self.pythons
            .iter()
            .map(|python| format!("{python}-{}-{}", self.abi, self.platform))
            .collect()
    }

    /// Returns whether the wheel is free of machine code.
    pub fn pure(&self) -> bool {
        self.platform == "any"
    }
}

/// What the files of a wheel imply for its tags, gathered file by file. Each value keeps the path
/// of the first such file, for errors.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// Python versions in the spelling of tags, such as `314`, from folders and modules.
    versions: BTreeMap<String, String>,
    /// The ABI suffixes of extension modules, such as `314` or `314t`.
    exact: BTreeMap<String, String>,
    archs: BTreeMap<&'static str, String>,
    stable: bool,
    /// The first minor version of Python 3 that has all of the stable ABI in use.
    since: u32,
    /// A library without an exact ABI in its name that uses more than the stable ABI.
    unstable: Option<String>,
    /// Whether a library uses Python's API without an ABI in its name.
    unnamed: bool,
}

impl Evidence {
    /// Records a file in the folder of this Python version.
    pub fn folder(&mut self, python: (u32, u32), path: &str) {
        self.versions.entry(format!("{}{}", python.0, python.1)).or_insert_with(|| path.to_owned());
    }

    /// Records an ELF file.
    pub fn elf(&mut self, elf: &Elf, path: &str) {
        self.archs.entry(elf.arch).or_insert_with(|| path.to_owned());
        let name = path.rsplit('/').next().unwrap_or(path);
        if let Some(suffix) = extension_abi(name) {
            let digits = suffix.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            self.versions.entry(digits.to_owned()).or_insert_with(|| path.to_owned());
            self.exact.entry(suffix.to_owned()).or_insert_with(|| path.to_owned());
            return;
        }
        if name.ends_with(".abi3.so") {
            self.stable = true;
        } else if !elf.python.is_empty() {
            self.unnamed = true;
        }
        match stable_abi::since(elf.python.iter().map(String::as_str)) {
            Some(minor) => self.since = self.since.max(minor),
            None => drop(self.unstable.get_or_insert_with(|| path.to_owned())),
        }
    }

    /// Returns the tags. `original` are the build backend's tags, `policy` is the manylinux policy
    /// that all files comply with.
    pub fn tags(&self, original: &BTreeSet<String>, policy: Option<u32>) -> Result<Tags, String> {
        one(&self.versions, "Python versions")?;
        one(&self.exact, "Python ABIs")?;
        let arch = one(&self.archs, "architectures")?;
        // PEP 600, "Core definition".
        let platform = match (arch, policy) {
            (None, _) => "any".to_owned(),
            (Some(arch), Some(minor)) => format!("manylinux_2_{minor}_{arch}"),
            (Some(arch), None) => format!("linux_{arch}"),
        };
        let original: Vec<[&str; 2]> =
            original.iter().filter_map(|tag| python_and_abi(tag)).collect();
        if let Some(suffix) = self.exact.keys().next() {
            let python = suffix.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            return Ok(Tags {
                pythons: [format!("cp{python}")].into(),
                abi: format!("cp{suffix}"),
                platform,
            });
        }
        if self.stable || self.unnamed {
            let (python, stated) = self.python(&original)?;
            let claims = stated == Some("abi3");
            // Only the build backend knows which API a library without an ABI in its name uses.
            let stable = self.unstable.is_none() && (claims || !self.unnamed);
            let (python, abi) = match (stable, claims) {
                (true, _) => (self.at_least(python), "abi3".to_owned()),
                // The backend states the Python of a stable ABI that the library exceeds.
                (false, true) => {
                    let python = self.folder_python(self.unstable.as_deref())?;
                    (python.clone(), python)
                }
                (false, false) => (python.clone(), python),
            };
            return Ok(Tags { pythons: [python].into(), abi, platform });
        }
        let mut pythons: BTreeSet<String> = original
            .iter()
            .filter(|[_, abi]| *abi == "none")
            .map(|[python, _]| (*python).to_owned())
            .collect();
        let all = pythons.iter().all(|python| python.bytes().all(|b| b.is_ascii_alphanumeric()));
        if pythons.is_empty() || !all {
            pythons = ["py3".to_owned()].into();
        }
        Ok(Tags { pythons, abi: "none".into(), platform })
    }

    /// Returns the lowest Python that the backend stated, with its ABI; if it stated none, the
    /// Python of the folder that the files are in.
    fn python<'a>(&self, original: &[[&'a str; 2]]) -> Result<(String, Option<&'a str>), String> {
        let number = |python: &str| -> Option<u32> {
            let digits = python.strip_prefix("cp")?;
            digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        // Plain string order would put `cp39` above `cp310`. All have major version 3.
        let lowest = |wanted: fn(&str) -> bool| {
            original
                .iter()
                .filter(|[_, abi]| wanted(abi))
                .filter_map(|[python, abi]| Some((number(python)?, *python, *abi)))
                .min_by_key(|(number, ..)| (number.to_string().len(), *number))
        };
        if let Some((_, python, abi)) =
            lowest(|abi| abi == "abi3").or_else(|| lowest(|abi| abi != "none"))
        {
            return Ok((python.to_owned(), Some(abi)));
        }
        self.folder_python(None).map(|python| (python, None))
    }

    /// Returns the Python of the folder that the files are in.
    fn folder_python(&self, unstable: Option<&str>) -> Result<String, String> {
        match (self.versions.keys().next(), unstable) {
            (Some(digits), _) => Ok(format!("cp{digits}")),
            (None, Some(path)) => {
                Err(format!("{path} uses more than the stable ABI, but its Python is not stated"))
            }
            (None, None) => {
                Err("the Python that its modules were compiled for is not stated".into())
            }
        }
    }

    /// Returns `python`, or the first Python that has the stable ABI in use if that is later.
    fn at_least(&self, python: String) -> String {
        let minor = python.strip_prefix("cp3").and_then(|minor| minor.parse::<u32>().ok());
        if minor.is_some_and(|minor| minor < self.since) {
            format!("cp3{}", self.since)
        } else {
            python
        }
    }
}

fn one<'a, K: AsRef<str>>(
    found: &'a BTreeMap<K, String>,
    what: &str,
) -> Result<Option<&'a K>, String> {
    let mut all = found.iter();
    let first = all.next();
    if let (Some((a, first)), Some((b, second))) = (first, all.next()) {
        let (a, b) = (a.as_ref(), b.as_ref());
        return Err(format!("files for two {what}: {first} for {a}, {second} for {b}"));
    }
    Ok(first.map(|(value, _)| value))
}

/// Returns `314t` for `_C.cpython-314t-x86_64-linux-gnu.so`.
fn extension_abi(name: &str) -> Option<&str> {
    let (_, rest) = name.strip_suffix(".so")?.rsplit_once(".cpython-")?;
    let suffix = rest.split('-').next()?;
    let digits = suffix.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    (digits.len() >= 2 && digits.bytes().all(|b| b.is_ascii_digit())).then_some(suffix)
}

fn python_and_abi(tag: &str) -> Option<[&str; 2]> {
    let mut parts = tag.split('-');
    Some([parts.next()?, parts.next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    use rocm_inspect::ElfFacts;

    fn elf(machine: &str, python: &[&str]) -> Elf {
        let mut facts = ElfFacts { machine: machine.to_owned(), ..ElfFacts::default() };
        facts.symbols.undefined = python.iter().map(|name| (*name).into()).collect();
        Elf::new(facts, true).unwrap()
    }

    fn tags(original: &[&str], files: &[(&Elf, &str)]) -> Result<String, String> {
        let mut evidence = Evidence::default();
        evidence.folder((3, 14), "/usr/lib64/python3.14/site-packages/a/__init__.py");
        for (elf, path) in files {
            evidence.elf(elf, path);
        }
        let original = original.iter().map(|tag| (*tag).to_owned()).collect();
        evidence.tags(&original, None).map(|tags| tags.compressed())
    }

    #[test]
    fn derives_tags_from_files() {
        const EXTENSION: &str = "a/_C.cpython-314-x86_64-linux-gnu.so";
        let (lib, api) = (&elf("x86_64", &[]), &elf("x86_64", &["PyList_New"]));
        let newer = &elf("x86_64", &["PyList_New", "PyType_FromMetaclass"]);
        let private = &elf("x86_64", &["PyList_New", "PyUnstable_Code_New"]);
        for (original, files, expected) in [
            (&["py2-none-any", "py3-none-any"][..], &[][..], "py2.py3-none-any"),
            (&[], &[], "py3-none-any"),
            (&["p!-none-any", "py2-none-any"], &[], "py3-none-any"),
            (&["cp314-cp314-linux_x86_64"], &[], "py3-none-any"),
            (&["py3-none-any"], &[(lib, "a/libx.so")], "py3-none-linux_x86_64"),
            (&["py3-none-any"], &[(api, EXTENSION)], "cp314-cp314-linux_x86_64"),
            (&["cp39-abi3-linux_x86_64"], &[(api, "a/b.abi3.so")], "cp39-abi3-linux_x86_64"),
            (&["cp310-abi3-x", "cp39-abi3-x"], &[(api, "a/b.abi3.so")], "cp39-abi3-linux_x86_64"),
            (&[], &[(api, "a/b.abi3.so")], "cp314-abi3-linux_x86_64"),
            (
                &["cp39-abi3-x"],
                &[(api, "a/b.abi3.so"), (api, EXTENSION)],
                "cp314-cp314-linux_x86_64",
            ),
            (&["cp314-cp314-x"], &[(api, "triton/_C/libtriton.so")], "cp314-cp314-linux_x86_64"),
            (&["cp312-abi3-x"], &[(api, "triton/_C/libtriton.so")], "cp312-abi3-linux_x86_64"),
            (&["py3-none-any"], &[(api, "triton/_C/libtriton.so")], "cp314-cp314-linux_x86_64"),
            (&[], &[(api, "a.cpython-314t-x86_64-linux-gnu.so")], "cp314-cp314t-linux_x86_64"),
            // The stable ABI of a later Python, and more than the stable ABI.
            (&["cp39-abi3-x"], &[(newer, "a/b.abi3.so")], "cp312-abi3-linux_x86_64"),
            (&["cp313-abi3-x"], &[(newer, "a/b.abi3.so")], "cp313-abi3-linux_x86_64"),
            (
                &["cp39-abi3-x"],
                &[(newer, "a/b.so"), (lib, "a/c.abi3.so")],
                "cp312-abi3-linux_x86_64",
            ),
            (&["cp39-abi3-x"], &[(private, "a/b.abi3.so")], "cp314-cp314-linux_x86_64"),
            (&["cp39-abi3-x"], &[(private, "a/libtriton.so")], "cp314-cp314-linux_x86_64"),
            (&[], &[(private, "a/b.abi3.so")], "cp314-cp314-linux_x86_64"),
        ] {
            assert_eq!(tags(original, files).as_deref(), Ok(expected), "{original:?} {files:?}");
        }
    }

    #[test]
    fn wheels_without_machine_code_are_pure() {
        for (platform, pure) in
            [("any", true), ("linux_x86_64", false), ("manylinux_2_28_x86_64", false)]
        {
            let tags = Tags {
                pythons: ["py3".into()].into(),
                abi: "none".into(),
                platform: platform.into(),
            };
            assert_eq!(tags.pure(), pure, "{platform}");
        }
    }

    #[test]
    fn reports_both_contradicting_files() {
        let (arm, lib, api) =
            (&elf("aarch64", &[]), &elf("x86_64", &[]), &elf("x86_64", &["PyList_New"]));
        for files in [
            [(lib, "a/one.so"), (arm, "a/two.so")],
            [(api, "one.cpython-314-x.so"), (api, "two.cpython-313-x.so")],
            [(api, "one.cpython-314-x.so"), (api, "two.cpython-314t-x.so")],
        ] {
            let error = tags(&[], &files).unwrap_err();
            assert!(error.contains("two"), "{error}");
        }
        let error = tags(&[], &[(api, "one.cpython-313-x.so")]).unwrap_err();
        assert!(
            error.contains("two Python versions") && error.contains("one.cpython-313"),
            "{error}"
        );
    }
}
