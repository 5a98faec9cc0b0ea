//! Gathers the facts about a member that its package needs: what it is built from, its license, the
//! contents of its wheel, and the needs of its source. Does not generate any files.

use std::collections::BTreeSet;
use std::fs::{File, FileType};
use std::path::Path;

use pep440_rs::Version;
use pep508_rs::VersionOrUrl;
use serde::{Deserialize, Serialize};

use super::error::{GenerateError, Refused};
use super::rust;
use super::terms::{self, Terms};
use crate::closure::bundled::{self, Traces};
use crate::closure::offers::Offers;
use crate::closure::{LockedFile, Member, Origin};
use crate::error::IoError;
use crate::license;
use crate::names::ComponentName;
use crate::sources::{CargoProject, Fetcher, SourceError, Tree, normalized, source_dir};
use crate::wheel::{self, Contents};
use crate::workspace::{BuiltFrom, MemberPlace, MemberRule, Pin, Source};

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

/// The facts about a member.
pub(super) struct Facts {
    pub built_from: Built,
    /// The reason for that choice, as a sentence.
    pub reason: String,
    /// Its license as an SPDX expression.
    pub license: String,
    /// What it is, as its metadata or the packager states it; empty if neither does.
    pub summary: String,
    /// The folders that the private package does not have, below site-packages.
    pub leave_out: Vec<String>,
    /// Whether it works on any architecture.
    pub pure: bool,
}

/// What a package is built from.
pub(super) enum Built {
    Wheel(WheelFacts),
    Sdist(SdistFacts),
}

/// The contents of a wheel.
pub(crate) struct WheelFacts {
    pub file: LockedFile,
    /// Whether its metadata lists license files.
    pub names_licenses: bool,
    pub contents: Contents,
    /// What is bundled in it, in the syntax of `Provides:`.
    pub bundled: BTreeSet<String>,
}

/// What is cached about a wheel: reading a large one takes seconds.
#[derive(Serialize, Deserialize)]
struct Looked {
    contents: Contents,
    traces: Traces,
}

/// The facts about a source distribution.
pub(super) struct SdistFacts {
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

impl Facts {
    /// Gathers the facts about a member.
    pub fn of(
        member: &Member,
        rule: Option<&MemberRule>,
        offers: &Offers,
        fetcher: &Fetcher<'_>,
        arch: &str,
    ) -> Result<Self, GenerateError> {
        let refused = |problem: String, help: String| GenerateError::Refused {
            file: String::new(),
            members: vec![Refused { member: member.name.clone(), problem, help }],
        };
        let decide = |what: &str| format!("add {what} to its `[[closure.member]]`");
        let none =
            || refused("the lock has no file of it".into(), "run `rocmrpm closure --write`".into());
        let node = member.node.as_ref().ok_or_else(none)?;
        let Origin::Index { wheel, sdist } = &node.locked.origin else { return Err(none()) };
        let version = &node.locked.version;

        let license =
            rule.and_then(|rule| rule.license.clone()).or_else(|| node.about.license.clone());
        let Some(license) = license else {
            let help = decide("`license = \"SPDX\"` from its source");
            return Err(refused("its metadata does not state its license".into(), help));
        };
        if let Some(problem) = license::refused(&license) {
            let help = format!(
                "if that is not its license, {}; otherwise drop it, because Fedora may not distribute it",
                decide("`license = \"SPDX\"`")
            );
            return Err(refused(problem, help));
        }

        let summary = rule.and_then(|rule| rule.summary.clone());
        let summary = summary.unwrap_or_else(|| node.about.summary.clone());
        let leave_out = rule.map_or_else(Vec::new, |rule| rule.leave_out.clone());
        let facts = |built_from: Built, reason: String, license: String, pure: bool| {
            let (summary, leave_out) = (summary.clone(), leave_out.clone());
            Self { built_from, reason, license, summary, leave_out, pure }
        };

        let pure = wheel.as_ref().is_none_or(|file| file.name.ends_with("-none-any.whl"));
        let asked = rule.and_then(|rule| rule.from);
        let of_wheel = |file: &LockedFile, reason: String| {
            let (mut wheel, traces) = WheelFacts::of(&member.name, version, file, fetcher)?;
            let terms = terms::of(&terms::Wheel {
                name: &member.name,
                version,
                license: &license,
                contents: &wheel.contents,
                traces: &traces,
                decided: rule.and_then(|rule| rule.bundled.as_deref()),
            });
            let Terms { license, bundled } = terms.map_err(|problem| {
                let what = "review the contents of its wheel, and add `bundled = [\"NAME = VERSION\"]` and \
                            `license = \"SPDX\"` to its `[[closure.member]]`";
                refused(problem, what.into())
            })?;
            wheel.bundled = bundled;
            Ok(facts(Built::Wheel(wheel), reason, license, pure))
        };
        let of_sdist = |sdist: SdistFacts, reason: String| {
            let packages = rule.map_or_else(Vec::new, |rule| rule.build_requires.clone());
            let sdist = SdistFacts { packages, ..sdist };
            let compiled = sdist.rust.is_some() || (wheel.is_none() && sdist.extensions);
            let pure = pure && !compiled;
            let private = member.place == MemberPlace::Private;
            let license = match (&sdist.rust, wheel) {
                // The private package has one source per member.
                (Some(_), Some(wheel)) if private => {
                    return of_wheel(
                        wheel,
                        "it is private, and its source is written in Rust".into(),
                    );
                }
                (Some(_), None) if private => {
                    let problem = "its source is written in Rust, and the private package cannot vendor its crates";
                    let help = "run `rocmrpm closure --write --upgrade` to look for a version with a wheel, \
                                  or choose another place for it";
                    return Err(refused(problem.into(), help.into()));
                }
                (Some(project), _) => {
                    let pin = sdist_pin(&member.name, version, &sdist.file)?;
                    let crates = fetcher.linked_crates(&pin, project, arch)?;
                    let help = match wheel {
                        Some(_) => decide("`from = \"wheel\"`"),
                        None => "choose another place for it".into(),
                    };
                    rust::with_crates(&license, &crates)
                        .map_err(|problem| refused(problem, help))?
                }
                (None, _) => license.clone(),
            };
            let contents = match wheel {
                Some(file) => {
                    Some(WheelFacts::of(&member.name, version, file, fetcher)?.0.contents)
                }
                None => None,
            };
            Ok(facts(Built::Sdist(SdistFacts { contents, ..sdist }), reason, license, pure))
        };
        match (asked, wheel, sdist) {
            // No other package builds against private members, and one package cannot have the
            // build tools of all members.
            (None, Some(wheel), _) if member.place == MemberPlace::Private => {
                of_wheel(wheel, "it is private".into())
            }
            (Some(BuiltFrom::Wheel), Some(wheel), _) => of_wheel(wheel, "it is decided so".into()),
            (Some(BuiltFrom::Wheel), None, _) => {
                let problem = "it has no wheel for the chroot's Python".to_owned();
                Err(refused(problem, "remove `from` from its `[[closure.member]]`".into()))
            }
            (Some(BuiltFrom::Sdist), _, Some(sdist)) => {
                let (facts, _) = SdistFacts::of(&member.name, version, sdist, fetcher)?;
                of_sdist(facts, "it is decided so".into())
            }
            (Some(BuiltFrom::Sdist), _, None) => {
                let problem = "it has no source distribution".to_owned();
                Err(refused(problem, "remove `from` from its `[[closure.member]]`".into()))
            }
            (None, Some(wheel), _) if !pure => of_wheel(
                wheel,
                "it is compiled, and upstream's wheel is for the chroot's Python".into(),
            ),
            (None, None, Some(sdist)) => {
                let (facts, _) = SdistFacts::of(&member.name, version, sdist, fetcher)?;
                of_sdist(facts, "it has no wheel for the chroot's Python".into())
            }
            (None, Some(wheel), Some(sdist)) => {
                let (facts, build) = SdistFacts::of(&member.name, version, sdist, fetcher)?;
                match build.and_then(|build| build.plain(offers)) {
                    Ok(()) => of_sdist(
                        facts,
                        "it is pure Python, and the release has what builds it".into(),
                    ),
                    Err(reason) => of_wheel(wheel, reason),
                }
            }
            (None, Some(wheel), None) => of_wheel(wheel, "it has no source distribution".into()),
            (None, None, None) => Err(none()),
        }
    }
}

/// Returns the pin of a file of a member.
fn pin_of(name: &str, version: &Version, source: Source) -> Option<Pin> {
    Some(Pin::new(ComponentName::parse(name)?, version.to_string(), source))
}

fn sdist_pin(name: &str, version: &Version, file: &LockedFile) -> Result<Pin, GenerateError> {
    let source = Source::Sdist { project: name.to_owned(), sha256: Some(file.sha256) };
    pin_of(name, version, source).ok_or_else(|| no_name(name))
}

fn no_name(name: &str) -> GenerateError {
    GenerateError::Refused {
        file: String::new(),
        members: vec![Refused {
            member: name.to_owned(),
            problem: "its name is not valid for a component".into(),
            help: "choose another place for it".into(),
        }],
    }
}

impl WheelFacts {
    /// Returns the facts and the traces in its binaries.
    pub fn of(
        name: &str,
        version: &Version,
        file: &LockedFile,
        fetcher: &Fetcher<'_>,
    ) -> Result<(Self, Traces), GenerateError> {
        let source = Source::Wheel { file: file.name.clone(), sha256: Some(file.sha256) };
        let pin = pin_of(name, version, source).ok_or_else(|| no_name(name))?;
        let fetched = fetcher.obtain(&pin)?;
        let wrong = |reason| {
            let (member, file) = (name.to_owned(), file.name.clone());
            GenerateError::Wheel { member, file, reason }
        };
        let metadata = metadata(&fetched.path, name, version).map_err(wrong)?;
        let names_licenses = names_licenses(&metadata);
        let recipe = format!("wheel contents 3\n{}\n{}\n", file.sha256, bundled::digest());
        let known = fetcher.remembered(&recipe)?.and_then(|text| serde_json::from_str(&text).ok());
        let Looked { contents, traces } = match known {
            Some(known) => known,
            None => {
                let looked = look(&fetched.path).map_err(wrong)?;
                if let Ok(text) = serde_json::to_string(&looked) {
                    fetcher.remember(&recipe, &text)?;
                }
                looked
            }
        };
        let facts = Self { file: file.clone(), names_licenses, contents, bundled: BTreeSet::new() };
        Ok((facts, traces))
    }
}

fn open(path: &Path) -> Result<File, String> {
    File::open(path).map_err(|error| format!("it cannot be read: {error}"))
}

/// Returns a wheel's METADATA, which must belong to this distribution.
fn metadata(path: &Path, name: &str, version: &Version) -> Result<String, String> {
    let metadata = wheel::metadata_in(open(path)?)?;
    let (stated, of) = wheel::name_and_version(&metadata)?;
    if stated != name || of != *version {
        return Err(format!("its METADATA is for {stated} {of}"));
    }
    Ok(metadata)
}

/// Returns whether METADATA lists license files (PEP 639), which rpm then marks as such.
fn names_licenses(metadata: &str) -> bool {
    wheel::header_fields(metadata).any(|field| field.is("License-File"))
}

/// Reads the contents of a wheel. Ignores mistakes in other files, because pip installs the wheel
/// anyway.
fn look(path: &Path) -> Result<Looked, String> {
    let file = open(path)?;
    let length = file.metadata().map_err(|error| format!("it cannot be read: {error}"))?.len();
    let mut traces = Traces::default();
    let contents = wheel::contents(file, length, |bytes| traces.add(bytes))?;
    Ok(Looked { contents, traces })
}

/// How a source distribution is built.
pub(crate) struct Build {
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
    fn plain(&self, offers: &Offers) -> Result<(), String> {
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
    fn of(
        name: &str,
        version: &Version,
        file: &LockedFile,
        fetcher: &Fetcher<'_>,
    ) -> Result<(Self, Result<Build, String>), GenerateError> {
        let pin = sdist_pin(name, version, file)?;
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

    #[test]
    fn reads_license_files_from_the_header() {
        for (metadata, expected) in [
            ("Name: x\nLicense-File: LICENSE\nVersion: 1\n\ntext\n", true),
            ("license-file: LICENSE\n", true),
            ("Name: x\nLicense: MIT\n\nLicense-File: LICENSE\n", false),
            ("", false),
        ] {
            assert_eq!(names_licenses(metadata), expected, "{metadata}");
        }
    }
}
