//! Reads the text files of a source tree that describe its build. Does not interpret them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::IoError;

/// The size limit of a file. Build files have a few hundred kilobytes at most.
const MAX_SIZE: u64 = 4 << 20;

/// Folders whose files are not part of the project's own build.
const ASIDE: &[&str] = &[
    "test",
    "tests",
    "testing",
    "doc",
    "docs",
    "examples",
    "benchmarks",
    ".github",
    ".buildkite",
    ".ci",
    ".circleci",
    ".devcontainer",
    "third_party",
    "third-party",
    "3rdparty",
];

/// Folders whose Python files are part of the build.
const HELPERS: &[&str] =
    &["setup_helpers", "build_backend", "build_helpers", "build_tools", "cmake"];

/// The texts by path.
#[derive(Debug)]
pub(super) struct Scan {
    files: BTreeMap<String, String>,
}

impl Scan {
    /// Reads a tree. Does not follow links, which can lead anywhere.
    pub fn of(dir: &Path) -> Result<Self, IoError> {
        let mut files = BTreeMap::new();
        for entry in walkdir::WalkDir::new(dir) {
            let entry =
                entry.map_err(|error| IoError::doing("read an unpacked source")(error.into()))?;
            let path = entry
                .path()
                .strip_prefix(dir)
                .unwrap_or(entry.path())
                .to_string_lossy()
                .into_owned();
            let wanted = is_build(&path)
                || is_requirements(&path)
                || is_license(&path)
                || is_metadata(&path);
            if !wanted || !entry.file_type().is_file() {
                continue;
            }
            let size = entry.metadata().map_or(0, |metadata| metadata.len());
            if size <= MAX_SIZE {
                let bytes = fs_err::read(entry.path())
                    .map_err(IoError::doing("read an unpacked source"))?;
                files.insert(path, String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        Ok(Self { files })
    }

    /// Returns a file's text.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Returns all files.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Returns the files that are part of the build.
    pub fn build_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| is_build(path))
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Scan {
    fn from(files: [(&str, &str); N]) -> Self {
        Self { files: files.map(|(path, text)| (path.to_owned(), text.to_owned())).into() }
    }
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn folders(path: &str) -> impl Iterator<Item = &str> {
    path.rsplit('/').skip(1)
}

/// Returns whether a file is part of the build: CMake files, and Python's build scripts with their
/// helpers.
pub(super) fn is_build(path: &str) -> bool {
    let name = name(path);
    if folders(path).any(|folder| ASIDE.contains(&folder)) {
        return false;
    }
    let helper = || {
        name.starts_with("setup")
            || (name.starts_with("build") && folders(path).count() < 3)
            || folders(path).any(|folder| HELPERS.contains(&folder))
    };
    name == "CMakeLists.txt" || name.ends_with(".cmake") || (name.ends_with(".py") && helper())
}

/// Returns whether a file has requirements that matter with ROCm: `requirements.txt`, and those
/// in folders of that name except for tests, documentation and other devices.
pub(super) fn is_requirements(path: &str) -> bool {
    let name = name(path);
    let folder = folders(path).any(|folder| folder == "requirements");
    let other = [
        "test",
        "dev",
        "lint",
        "doc",
        "cuda",
        "nvidia",
        "cpu",
        "tpu",
        "xpu",
        "hpu",
        "neuron",
        "nightly",
        "kv_connector",
    ];
    let Some(stem) = name.strip_suffix(".txt") else { return false };
    (folder || stem.starts_with("requirements"))
        && !folders(path).any(|folder| ASIDE.contains(&folder))
        && !other.iter().any(|word| stem.contains(word))
}

/// Returns whether a file lists crates.
pub(super) fn is_cargo(path: &str) -> bool {
    matches!(name(path), "Cargo.toml" | "Cargo.lock")
}

fn is_metadata(path: &str) -> bool {
    matches!(path, "pyproject.toml" | "python/pyproject.toml" | ".gitmodules" | "PKG-INFO")
}

/// Returns whether a file is a license, by the names that forges and packaging tools know.
pub(super) fn is_license(path: &str) -> bool {
    let name = name(path).to_ascii_uppercase();
    let words = ["LICENSE", "LICENCE", "COPYING", "NOTICE"];
    let code = [".PY", ".H", ".HPP", ".CPP", ".JSON", ".YML", ".SH"];
    words.iter().any(|word| name.starts_with(word)) && !code.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classifies_files_by_name() {
        for path in [
            "setup.py",
            "CMakeLists.txt",
            "cmake/utils.cmake",
            "tools/setup_helpers/env.py",
            "python/build_x.py",
        ] {
            assert!(is_build(path), "{path}");
        }
        for path in [
            "tests/setup.py",
            "vllm/v1/attention/a/builder.py",
            "third_party/x/CMakeLists.txt",
            "x.py",
        ] {
            assert!(!is_build(path), "{path}");
        }
        assert!(
            is_requirements("requirements/build/rocm.txt") && is_requirements("requirements.txt")
        );
        assert!(
            !is_requirements("requirements/rocm-test.txt") && !is_requirements("CMakeLists.txt")
        );
        assert!(is_license("csrc/x/LICENSE-MIT.txt") && !is_license("license.py"));
    }
}
