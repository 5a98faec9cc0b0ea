//! Reads the source distribution of a member: the facts that its package needs, and whether the
//! release can build it without extra steps.

use std::collections::BTreeSet;
use std::fs::FileType;
use std::path::Path;

use pep440_rs::Version;
use pep508_rs::VersionOrUrl;

use super::pin_of;
use crate::closure::LockedFile;
use crate::closure::generate::error::{GenerateError, Refused};
use crate::closure::generate::rust;
use crate::closure::offers::Offers;
use crate::error::IoError;
use crate::sources::{CargoProject, Fetcher, SourceError, Tree, normalized, source_dir};
use crate::wheel::{self, Contents};
use crate::workspace::{Pin, Source};

/// The build backends whose pure Python source distributions build without extra steps: Fedora's
/// guidelines build all of them with `%pyproject_wheel`.
const PLAIN_BACKENDS: &[&str] = &[
    "flit_core.buildapi",
    "hatchling.build",
    "pdm.backend",
    "poetry.core.masonry.api",
    "setuptools.build_meta",
    "setuptools.build_meta:__legacy__",
];

/// Prefixes of the names of license files, in lower case.
const LICENSE_FILES: &[&str] = &["copying", "licence", "license", "notice"];

/// The facts about a source distribution.
pub struct SdistFacts {
    pub file: LockedFile,
    /// The project's name as it is written in the pin.
    pub project: String,
    /// Its top folder, if it does not follow from its name.
    pub top_folder: Option<String>,
    /// The normalized names of its build dependencies.
    pub build_requires: BTreeSet<String>,
    /// The packages that, according to a packager, the build needs in addition.
    pub packages: Vec<String>,
    /// Its Rust project, if it has a `Cargo.lock`.
    pub rust: Option<CargoProject>,
    /// The toolchain files in it that rustup would follow.
    pub toolchain_files: Vec<String>,
    /// Whether it contains the source of an extension module in C, C++ or Cython. setup.py and
    /// other backends only know this when they run.
    pub extensions: bool,
    /// Its license files, relative to the top folder.
    pub license_files: Vec<String>,
    /// The contents of upstream's wheel of it, if there is one.
    pub contents: Option<Contents>,
}

#[cfg(test)]
impl SdistFacts {
    /// Returns the facts about `x-1.tar.gz`, which has nothing special.
    pub fn sample() -> Self {
        let name = "x-1.tar.gz".to_owned();
        Self {
            file: LockedFile {
                sha256: crate::digest::Sha256::of_bytes(&name),
                name,
                size: None,
                metadata: None,
            },
            project: "x".into(),
            top_folder: None,
            build_requires: BTreeSet::new(),
            packages: Vec::new(),
            rust: None,
            toolchain_files: Vec::new(),
            extensions: false,
            license_files: Vec::new(),
            contents: None,
        }
    }
}

/// Returns the pin of a member's source distribution.
pub fn pin(name: &str, version: &Version, file: &LockedFile) -> Result<Pin, Refused> {
    let source = Source::Sdist { project: name.to_owned(), sha256: Some(file.sha256) };
    pin_of(name, version, source)
}

/// How a source distribution is built.
pub struct Build {
    pub backend: String,
    requires: Vec<String>,
}

impl Build {
    /// Reads the table `[build-system]` of pyproject.toml (PEP 517, PEP 518); the default is
    /// setuptools.
    pub fn read(tree: &Tree) -> Result<Result<Self, String>, SourceError> {
        let legacy = || Self {
            backend: "setuptools.build_meta:__legacy__".into(),
            requires: vec!["setuptools".into()],
        };
        let Some(text) = tree.text("pyproject.toml")? else { return Ok(Ok(legacy())) };
        let Ok(table) = text.parse::<toml::Table>() else {
            return Ok(Err("its pyproject.toml cannot be read".into()));
        };
        let Some(system) = table.get("build-system").and_then(toml::Value::as_table) else {
            return Ok(Ok(legacy()));
        };
        let requires = system.get("requires").and_then(toml::Value::as_array).into_iter().flatten();
        let requires = requires.filter_map(toml::Value::as_str).map(str::to_owned).collect();
        let backend = system.get("build-backend").and_then(toml::Value::as_str);
        let in_tree = system.contains_key("backend-path");
        let backend = match backend {
            Some(_) if in_tree => "a backend of its own".to_owned(),
            Some(name) => name.to_owned(),
            None => legacy().backend,
        };
        Ok(Ok(Self { backend, requires }))
    }

    /// Checks that the release can build it without extra steps; the error is the reason why not.
    pub fn plain(&self, offers: &Offers) -> Result<(), String> {
        if !PLAIN_BACKENDS.contains(&self.backend.as_str()) {
            return Err(format!("its source is built by {}", self.backend));
        }
        for text in &self.requires {
            let Ok(requirement) = wheel::requirement(text) else {
                return Err(format!(
                    "its source has a build requirement that cannot be read: {text}"
                ));
            };
            let name = normalized(requirement.name.as_ref());
            let Some(offer) = offers.of_dist(&name) else {
                return Err(format!(
                    "its source is built by {name}, which the release does not have"
                ));
            };
            let fits = match (&requirement.version_or_url, &offer.version) {
                (Some(VersionOrUrl::VersionSpecifier(wanted)), Some(version)) => {
                    wanted.contains(version)
                }
                (Some(VersionOrUrl::VersionSpecifier(wanted)), None) => wanted.is_empty(),
                (Some(_), _) => false,
                (None, _) => true,
            };
            if !fits {
                let has =
                    offer.version.as_ref().map_or_else(|| offer.evr.clone(), ToString::to_string);
                return Err(format!("its source is built by {text}, and the release has {has}"));
            }
        }
        Ok(())
    }
}

impl SdistFacts {
    /// Returns the facts and how it is built, or why that is unknown.
    pub fn of(
        name: &str,
        version: &Version,
        file: &LockedFile,
        fetcher: &Fetcher<'_>,
    ) -> Result<(Self, Result<Build, String>), GenerateError> {
        let pin = pin(name, version, file)?;
        let tree = fetcher.tree(&pin)?;
        let build = Build::read(&tree)?;
        let requires = build.as_ref().map_or(&[][..], |build| &build.requires);
        let parsed = requires.iter().filter_map(|text| wheel::requirement(text).ok());
        let build_requires =
            parsed.map(|requirement| normalized(requirement.name.as_ref())).collect();
        let names = names_in(&tree.dir, FileType::is_file)?;
        let toolchain = ["rust-toolchain", "rust-toolchain.toml"];
        let toolchain_files =
            toolchain.iter().filter(|file| names.iter().any(|name| name == *file));
        let top_folder =
            tree.fetched.top_folder.clone().filter(|folder| *folder != source_dir(&pin));
        let facts = Self {
            file: file.clone(),
            project: name.to_owned(),
            top_folder,
            build_requires,
            packages: Vec::new(),
            rust: rust::project(&tree.dir, &names),
            toolchain_files: toolchain_files.map(|name| (*name).to_owned()).collect(),
            extensions: has_extensions(&tree.dir),
            license_files: license_files(&tree.dir, &names)?,
            contents: None,
        };
        Ok((facts, build))
    }
}

/// Returns whether an sdist contains sources of extension modules: those of Cython, or what
/// setup.py compiles.
pub(crate) fn has_extensions(dir: &Path) -> bool {
    let setup = fs_err::read(dir.join("setup.py")).unwrap_or_default();
    let files = walkdir::WalkDir::new(dir).into_iter().filter_map(Result::ok);
    let mut names =
        files.filter(|entry| entry.file_type().is_file()).map(|entry| entry.into_path());
    String::from_utf8_lossy(&setup).contains("ext_modules")
        || names.any(|path| path.extension().is_some_and(|extension| extension == "pyx"))
}

/// Returns the license files in the top folder or, if there are none, those one folder below.
pub(crate) fn license_files(dir: &Path, names: &[String]) -> Result<Vec<String>, SourceError> {
    let plain = |name: &str| {
        !name.starts_with('-')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    let is_license = |name: &&String| {
        let lower = name.to_lowercase();
        let (stem, extension) = lower.split_once('.').unwrap_or((&lower, ""));
        let text =
            matches!(extension, "" | "txt" | "md" | "rst") || LICENSE_FILES.contains(&extension);
        LICENSE_FILES.iter().any(|begin| stem.starts_with(begin)) && text && plain(name)
    };
    let mut found: Vec<String> = names.iter().filter(is_license).cloned().collect();
    if found.is_empty() {
        for folder in names_in(dir, FileType::is_dir)?.iter().filter(|name| plain(name)) {
            let below = names_in(&dir.join(folder), FileType::is_file)?;
            found.extend(below.iter().filter(is_license).map(|name| format!("{folder}/{name}")));
        }
    }
    Ok(found)
}

/// Returns the names of entries of one type in a folder, sorted.
pub(crate) fn names_in(
    dir: &Path,
    kind: fn(&FileType) -> bool,
) -> Result<Vec<String>, SourceError> {
    let action = || IoError::doing("read an unpacked source");
    let mut names = BTreeSet::new();
    for entry in fs_err::read_dir(dir).map_err(action())? {
        let entry = entry.map_err(action())?;
        if kind(&entry.file_type().map_err(action())?) {
            names.insert(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_sources_of_extension_modules() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!has_extensions(dir.path()));
        fs_err::write(dir.path().join("setup.py"), "setup(ext_modules=cythonize(x))").unwrap();
        assert!(has_extensions(dir.path()));
        fs_err::write(dir.path().join("setup.py"), "setup()").unwrap();
        assert!(!has_extensions(dir.path()));
        fs_err::create_dir(dir.path().join("k")).unwrap();
        fs_err::write(dir.path().join("k/parser.pyx"), "").unwrap();
        assert!(has_extensions(dir.path()));
    }

    #[test]
    fn finds_license_files() {
        let dir = tempfile::tempdir().unwrap();
        let of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            license_files(dir.path(), &names).unwrap()
        };
        let plain = ["COPYING", "LICENSE-MIT", "LICENSE.txt", "LICENSE_Apache.md", "NOTICE"];
        assert_eq!(of(&plain), plain);
        assert_eq!(
            of(&[
                "LICENSE of x",
                "LICENSE%x",
                "-LICENSE",
                "LICENSE.py",
                "setup.py",
                "README.md",
                "PKG-INFO"
            ]),
            [""; 0]
        );
        fs_err::create_dir(dir.path().join("docs")).unwrap();
        fs_err::write(dir.path().join("docs/LICENSE.rst"), "").unwrap();
        assert_eq!(of(&["setup.py"]), ["docs/LICENSE.rst"]);
        assert_eq!(of(&["NOTICE"]), ["NOTICE"]);
    }
}
