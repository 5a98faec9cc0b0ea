//! The two link modes, by which an installed wheel finds ROCm's libraries: the distribution's RPMs,
//! or AMD's `rocm-sdk-*` wheels. Checks that the built files support the mode that the workspace
//! sets, and determines what else the wheel needs for it. The facts are data in `rocm-sdk.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;

use super::linkage::{Elf, Folder, Load, Outside, folder};
use super::requirements::requirements;
use super::{Rocm, WheelError};
use rocm_inspect as inspect;
use rocmrpm_base::names::Soname;

/// The module that a package's `__init__.py` imports before it loads its libraries.
const INIT: &str = "_rocm_init.py";
const INIT_LIMIT: u64 = 1 << 20;
pub(super) const CORE: &str = "_rocm_sdk_core";
pub(super) const LIBRARIES: &str = "_rocm_sdk_libraries";

const REBUILD: &str =
    "build it for the RPMs' ROCm, or set `rocm = \"rocm-sdk\"` under `[wheels]` in rocmrpm.toml";
const UNLINK: &str = "delete that RUNPATH in %install (`chrpath --delete`), build it for the RPMs' ROCm, or set \
                      `rocm = \"rocm-sdk\"` under `[wheels]` in rocmrpm.toml";
pub(super) const RELINK: &str = "link it without RUNPATH (CMAKE_SKIP_RPATH, `chrpath --delete`) or with one below $ORIGIN, \
                      e.g. $ORIGIN/../_rocm_sdk_core/lib";
const LOAD: &str = "start the package's __init__.py with `from . import _rocm_init` and \
                    `_rocm_init.initialize()` (rocmrpm writes that module), or link with a RUNPATH such as \
                    $ORIGIN/../_rocm_sdk_core/lib";
const OTHER_ROCM: &str = "build it with the workspace's ROCm, or set `rocm = \"system\"` under `[wheels]` in \
                          rocmrpm.toml";
const ABSENT: &str = "build without the code that needs it, list that file in `leave-out` under `[wheel]` in \
                      component.toml, or set `rocm = \"system\"` under `[wheels]` in rocmrpm.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    first: String,
    devices: String,
    folders: BTreeMap<Part, Vec<String>>,
    library: Vec<Library>,
    bundle: Vec<Bundle>,
}

/// What a library needs at run time besides the libraries that it links to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bundle {
    stem: String,
    /// Libraries that it opens by name: their names before `.so`.
    #[serde(default)]
    pub opens: Vec<String>,
    /// Patterns of its files, below the folder of ROCm.
    #[serde(default)]
    pub data: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Part {
    Core,
    Libraries,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Library {
    stem: String,
    wheel: Part,
    #[serde(default = "lib")]
    folder: String,
    name: Option<String>,
    since: Option<String>,
    through: Option<String>,
}

fn lib() -> String {
    "lib".to_owned()
}

/// How wheels use ROCm's Python packages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SdkOptions {
    /// The exact version that wheels require; `None` for any with the same first two numbers.
    pub exact: Option<String>,
    /// Whether another version is an error of the import instead of a warning.
    pub fails: bool,
    /// Whether the symbols of the loaded libraries stay out of the global scope.
    pub local: bool,
    /// The folder of `rocm-sdk-libraries`, if search paths are set to lead to ROCm's packages.
    pub relink: Option<String>,
    /// Whether the packages are not AMD's, and may be of older versions.
    pub made: bool,
    /// Whether the GPU code is in packages of its own; `None` if the version decides that.
    pub split: Option<bool>,
}

/// Where AMD's wheels have a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SdkLibrary {
    /// Whether it is in `rocm-sdk-core`; `rocm-sdk-libraries` otherwise.
    pub core: bool,
    /// The name by which `rocm_sdk` loads it in the newest version, if it has one.
    pub name: Option<&'static str>,
}

/// Returns where AMD's wheels have the library with this name before `.so`; `None` if they do not
/// have it.
pub fn sdk_library(stem: &str) -> Option<SdkLibrary> {
    let library = table().library.iter().find(|library| library.stem == stem)?;
    Some(SdkLibrary { core: library.wheel == Part::Core, name: library.name.as_deref() })
}

/// Returns the names before `.so` of all libraries of AMD's wheels.
pub fn sdk_stems() -> impl Iterator<Item = &'static str> {
    table().library.iter().map(|library| library.stem.as_str())
}

/// Returns the folder of site-packages with a library of ROCm; `None` if no wheel has it. `core` and
/// `libraries` are the folders of `rocm-sdk-core` and `rocm-sdk-libraries`.
pub(super) fn library_folder(soname: &Soname, [core, libraries]: [&str; 2]) -> Option<String> {
    let library = table().library.iter().find(|library| library.stem == soname.stem())?;
    let top = if library.wheel == Part::Core { core } else { libraries };
    Some(format!("{top}/{}", library.folder))
}

/// Returns what the library with this name before `.so` needs at run time besides the libraries that
/// it links to.
pub(super) fn bundled_with(stem: &str) -> Option<&'static Bundle> {
    table().bundle.iter().find(|bundle| bundle.stem == stem)
}

fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        // The table is built in, and a test parses it.
        toml::from_str(include_str!("rocm-sdk.toml"))
            .expect("the built-in table of AMD's wheels is valid")
    });
    &TABLE
}

/// The first two numbers of a ROCm version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u64, u64);

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(|number| {
            number.bytes().all(|b| b.is_ascii_digit()).then(|| number.parse::<u64>().ok()).flatten()
        });
        let version = Self(numbers.next()??, numbers.next()??);
        numbers.all(|number| number.is_some()).then_some(version)
    }

    fn is_before(self, version: &str) -> bool {
        Self::parse(version).is_some_and(|other| self < other)
    }
}

impl Library {
    /// Returns the short name that loads the library, its own or that of another library.
    fn short_name(&self, rocm: Version) -> Option<&str> {
        let known = self.since.as_deref().is_none_or(|since| !rocm.is_before(since));
        self.name.as_deref().filter(|_| known).or(self.through.as_deref())
    }

    /// Returns whether this folder of site-packages contains the library.
    fn is_in(&self, searched: &str) -> bool {
        searched
            .split_once('/')
            .is_some_and(|(top, rest)| part(top) == Some(self.wheel) && rest == self.folder)
    }
}

/// Returns the AMD wheel that a top-level folder belongs to. The folder of a wheel for a GPU family
/// has the family in its name.
fn part(top: &str) -> Option<Part> {
    let family = top.strip_prefix(LIBRARIES);
    match top == CORE {
        true => Some(Part::Core),
        false if family.is_some_and(|f| f.is_empty() || f.starts_with('_')) => {
            Some(Part::Libraries)
        }
        false => None,
    }
}

/// Returns whether a library belongs to ROCm.
pub(super) fn is_rocm(soname: &Soname) -> bool {
    inspect::rocm_sonames(soname.stem(), 0).is_some()
        || table().library.iter().any(|library| library.stem == soname.stem())
}

/// Returns the library of AMD's wheels with this SONAME; the error is the reason and the help.
fn find(
    soname: &Soname,
    rocm: Version,
    made: bool,
) -> Result<&'static Library, (String, &'static str)> {
    let (table, Version(major, minor)) = (table(), rocm);
    if !made && rocm.is_before(&table.first) {
        let reason = format!(
            "there are no rocm-sdk wheels for ROCm {major}.{minor}; the first are for {}",
            table.first
        );
        return Err((reason, OTHER_ROCM));
    }
    let library = table.library.iter().find(|library| library.stem == soname.stem());
    let library =
        library.ok_or_else(|| ("no rocm-sdk wheel has that library".to_owned(), ABSENT))?;
    match inspect::rocm_sonames(&library.stem, major) {
        Some(known) if !known.is_empty() && !known.contains(&soname.as_str()) => {
            let reason =
                format!("the rocm-sdk wheels of ROCm {major}.{minor} have {}", known.join(", "));
            Err((reason, OTHER_ROCM))
        }
        _ => Ok(library),
    }
}

/// A wheel with its planned members.
pub(super) struct Linking<'a, M> {
    /// All members.
    pub members: &'a BTreeMap<String, M>,
    pub elfs: &'a BTreeMap<String, Elf>,
    /// The result of loading them; `None` if it could not be determined.
    pub loads: Option<&'a [Load]>,
    /// METADATA, whose requirements are used.
    pub metadata: &'a str,
    /// The GPU targets of the build.
    pub targets: &'a [String],
    /// Reads the text of a small member.
    pub text: &'a dyn Fn(&str) -> io::Result<Option<String>>,
}

/// What the wheel needs besides its files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// A requirement to add to METADATA.
    pub requirement: Option<String>,
    /// Members to generate, with their text.
    pub generated: BTreeMap<String, String>,
}

/// Why a wheel does not support the link mode.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The file, the reason and the help.
    File(String, String, &'static str),
    /// The ROCm version is invalid.
    Version(String),
    /// A file is unreadable.
    Io(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What the files of a package need of AMD's wheels.
#[derive(Default)]
struct Needs<'a> {
    /// The short names to load first, each with one library that it loads and the file that needs
    /// it.
    wanted: BTreeMap<&'static str, (Soname, &'a Outside)>,
    /// The short names of the libraries that the files open themselves.
    opened: BTreeSet<&'static str>,
}

fn refuse(soname: &Soname, outside: &Outside, reason: &str, help: &'static str) -> Refusal {
    Refusal::File(outside.file.clone(), format!("needs {soname}: {reason}"), help)
}

impl<M> Linking<'_, M> {
    /// Checks that the files can find ROCm's libraries, and determines what else that needs.
    pub fn resolve(&self, rocm: &Rocm) -> Result<Outcome, Refusal> {
        match rocm {
            Rocm::System => self.system(),
            Rocm::Bundled { .. } => self.bundled(),
            Rocm::Sdk { version, preloaded, options } => {
                let parsed =
                    Version::parse(version).ok_or_else(|| Refusal::Version(version.clone()))?;
                self.search_paths()?;
                self.sdk(parsed, preloaded, options)
            }
        }
    }

    fn entries(&self) -> impl Iterator<Item = (&String, &str)> {
        self.elfs.iter().flat_map(|(file, elf)| elf.search_path().map(move |entry| (file, entry)))
    }

    fn system(&self) -> Result<Outcome, Refusal> {
        for (file, entry) in self.entries() {
            if entry.split('/').any(|part| part.starts_with("_rocm_sdk_")) {
                let reason = format!(
                    "its RUNPATH `{entry}` leads to AMD's rocm-sdk wheels, which a wheel for the system's ROCm does not use"
                );
                return Err(Refusal::File(file.clone(), reason, UNLINK));
            }
        }
        match self.members.keys().find(|name| is_init(name)) {
            Some(file) => {
                let reason = "it loads AMD's rocm-sdk wheels, which a wheel for the system's ROCm does not use";
                Err(Refusal::File(file.clone(), reason.to_owned(), REBUILD))
            }
            None => Ok(Outcome::default()),
        }
    }

    /// Checks that the files find the libraries of ROCm in the wheel itself.
    fn bundled(&self) -> Result<Outcome, Refusal> {
        for load in self.loads.unwrap_or_default() {
            for (soname, outside) in &load.outside {
                let soname = Soname::new(soname);
                if is_rocm(&soname) && super::manylinux::library(soname.as_str()).is_none() {
                    let reason = "the wheel has it, but no search path leads there";
                    return Err(refuse(&soname, outside, reason, RELINK));
                }
            }
        }
        let mut outcome = Outcome::default();
        for start in self.members.keys().filter(|name| name.ends_with("/__init__.py")) {
            let Some((owner, "__init__.py")) = start.split_once('/') else { continue };
            if (self.text)(start)?.is_some_and(|text| imports_init(&text)) {
                let text = "# Made by rocmrpm: the wheel has the libraries of ROCm.\n\n\n\
                            def initialize():\n    pass\n";
                outcome.generated.insert(format!("{owner}/{INIT}"), text.to_owned());
            }
        }
        Ok(outcome)
    }

    /// Checks that every search path leads to a folder that exists in an environment.
    fn search_paths(&self) -> Result<(), Refusal> {
        let required = required(self.metadata);
        let has = |folder: &str| {
            let start = format!("{folder}/");
            let (top, rest) = folder.split_once('/').unwrap_or((folder, ""));
            let sdk = part(top).and_then(|part| table().folders.get(&part));
            folder.is_empty()
                || self
                    .members
                    .range(start.clone()..)
                    .next()
                    .is_some_and(|(name, _)| name.starts_with(&start))
                || sdk.is_some_and(|folders| folders.iter().any(|known| known == rest))
                || super::name::normalized(top).is_some_and(|name| required.contains(&name))
        };
        for (file, entry) in self.entries() {
            let reason = match folder(file, entry) {
                Folder::Inside(folder) if has(&folder) => continue,
                Folder::Inside(_) => {
                    "leads to a folder that is in neither this wheel, AMD's rocm-sdk wheels, nor a wheel that \
                     it requires"
                }
                Folder::Above => "leads out of site-packages",
                Folder::Absolute => "is an absolute path, which may not exist on other machines",
                Folder::Unknown => "does not lead to a fixed folder",
            };
            return Err(Refusal::File(
                file.clone(),
                format!("its RUNPATH `{entry}` {reason}"),
                RELINK,
            ));
        }
        Ok(())
    }

    fn sdk(
        &self,
        rocm: Version,
        preloaded: &BTreeMap<String, BTreeSet<String>>,
        options: &SdkOptions,
    ) -> Result<Outcome, Refusal> {
        let (needs, any) = self.needs(rocm, options.made)?;
        let required = required(self.metadata);
        let loaded: BTreeSet<&str> = preloaded
            .iter()
            .filter(|(name, _)| required.contains(*name))
            .flat_map(|(_, names)| names.iter().map(String::as_str))
            .collect();
        let mut outcome = Outcome::default();
        for (owner, Needs { wanted, opened }) in needs {
            let start = format!("{owner}/__init__.py");
            let package = self.members.contains_key(&start);
            let uses = !wanted.is_empty() || options.relink.is_some();
            if uses && package && (self.text)(&start)?.is_some_and(|text| imports_init(&text)) {
                let text = init(wanted.into_keys().chain(opened).collect(), rocm, options);
                outcome.generated.insert(format!("{owner}/{INIT}"), text);
                continue;
            }
            if let Some((short, (soname, outside))) =
                wanted.iter().find(|(name, _)| !loaded.contains(*name))
            {
                let why = match package {
                    true => format!("{start} does not import _rocm_init"),
                    false => "the file is not in a package with an __init__.py".to_owned(),
                };
                let reason = format!(
                    "nothing loads it (`{short}`) from AMD's rocm-sdk wheels: {why}, no RUNPATH leads there, and no distribution that it requires loads it"
                );
                return Err(refuse(soname, outside, &reason, LOAD));
            }
        }
        outcome.requirement = any.then(|| self.requirement(rocm, options));
        Ok(outcome)
    }

    /// Returns what each package, or file outside of packages, needs of AMD's wheels, and whether
    /// any file needs one of their libraries.
    fn needs(
        &self,
        rocm: Version,
        made: bool,
    ) -> Result<(BTreeMap<&str, Needs<'_>>, bool), Refusal> {
        let Some(loads) = self.loads else {
            let file = self.elfs.keys().next().cloned().unwrap_or_default();
            let reason = "its libraries have too many dependencies on each other to follow";
            return Err(Refusal::File(file, reason.into(), RELINK));
        };
        let mut any = false;
        let mut all: BTreeMap<&str, Needs<'_>> = BTreeMap::new();
        for load in loads {
            let needs = all.entry(self.package(&load.root).unwrap_or(&load.root)).or_default();
            for (soname, outside) in &load.outside {
                let soname = Soname::new(soname);
                if !is_rocm(&soname) {
                    continue;
                }
                any = true;
                let library = find(&soname, rocm, made)
                    .map_err(|(reason, help)| refuse(&soname, outside, &reason, help))?;
                if outside.searched.iter().any(|folder| library.is_in(folder)) {
                    continue;
                }
                let Some(short) = library.short_name(rocm) else {
                    let reason = "rocm_sdk does not load that library by name, and its RUNPATH does not find it";
                    return Err(refuse(&soname, outside, reason, RELINK));
                };
                needs.wanted.entry(short).or_insert((soname, outside));
            }
            let opened =
                load.opens.keys().filter_map(|name| find(&Soname::new(name), rocm, made).ok());
            needs.opened.extend(opened.filter_map(|library| library.short_name(rocm)));
        }
        Ok((all, any))
    }

    /// Returns the top-level package of a member.
    fn package<'n>(&self, member: &'n str) -> Option<&'n str> {
        let (top, _) = member.split_once('/')?;
        self.members.contains_key(&format!("{top}/__init__.py")).then_some(top)
    }

    /// Requires any ROCm with the same first two numbers. The requirement accepts pre-releases if
    /// the installer accepts them (PEP 440, "Handling of pre-releases"). An extra that a version of
    /// `rocm` lacks only makes the installer warn.
    fn requirement(&self, rocm: Version, options: &SdkOptions) -> String {
        let mut extras = BTreeSet::from(["libraries".to_owned()]);
        if options.split.unwrap_or(!rocm.is_before(&table().devices)) {
            // A wheel for a target serves all of its features (`gfx942:xnack+`).
            let targets = self.targets.iter().filter_map(|target| target.split(':').next());
            let plain = |target: &&str| {
                target.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
            };
            extras.extend(targets.filter(plain).map(|target| format!("device-{target}")));
        }
        let extras: Vec<String> = extras.into_iter().collect();
        format!("rocm[{}]=={}", extras.join(","), version_pattern(rocm, options))
    }
}

/// Returns a requirement on ROCm's Python packages without the GPU code for any target.
pub(super) fn without_devices(requirement: &str) -> String {
    with_extras(requirement, |extra| !extra.starts_with("device-")).unwrap_or_default()
}

/// Returns a requirement on ROCm's GPU code for only this target, if it requires that code.
pub(super) fn for_device(requirement: &str, target: &str) -> Option<String> {
    with_extras(requirement, |extra| extra.strip_prefix("device-") == Some(target))
}

/// Returns `rocm[EXTRAS]==VERSION` with only these extras; `None` if it has none of them.
fn with_extras(requirement: &str, wanted: impl Fn(&str) -> bool) -> Option<String> {
    let (name, rest) = requirement.split_once('[')?;
    let (extras, version) = rest.split_once(']')?;
    let extras: Vec<&str> = extras.split(',').filter(|extra| wanted(extra)).collect();
    (!extras.is_empty()).then(|| format!("{name}[{}]{version}", extras.join(",")))
}

/// Returns the normalized names of the distributions that METADATA requires, without extras.
fn required(metadata: &str) -> BTreeSet<String> {
    let all = requirements(metadata).unwrap_or_default().into_iter();
    let plain = all.filter(|requirement| requirement.marker.evaluate_extras(&[]));
    plain.map(|requirement| requirement.name.to_string()).collect()
}

/// Returns whether a Python source has a statement that imports `_rocm_init`.
fn imports_init(source: &str) -> bool {
    source.lines().any(|line| {
        let code = line.split('#').next().unwrap_or_default().trim_start();
        let mut words =
            code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        (code.starts_with("from ") || code.starts_with("import "))
            && words.any(|word| word == "_rocm_init")
    })
}

/// Generates the module that loads these libraries, in the order of the table. `*` in
/// `check_version` matches anything (rocm_sdk/__init__.py, `initialize_process`).
fn init(names: BTreeSet<&str>, rocm: Version, options: &SdkOptions) -> String {
    let ordered = table().library.iter().filter_map(|library| library.name.as_deref());
    let lines: String = ordered
        .filter(|name| names.contains(name))
        .map(|name| format!("            \"{name}\",\n"))
        .collect();
    let mut more = String::new();
    if options.fails {
        more += "        fail_on_version_mismatch=True,\n";
    }
    if options.local {
        more += "        rtld_global=False,\n";
    }
    format!(
        "# Made by rocmrpm from what the libraries of this package need.\n\n\ndef initialize():\n    import rocm_sdk\n\n    rocm_sdk.initialize_process(\n        preload_shortnames=[\n{lines}        ],\n        check_version=\"{}\",\n{more}    )\n",
        version_pattern(rocm, options)
    )
}

/// Returns the version that wheels require, in which `*` is any text.
fn version_pattern(rocm: Version, options: &SdkOptions) -> String {
    options.exact.clone().unwrap_or_else(|| format!("{}.{}.*", rocm.0, rocm.1))
}

/// Returns the libraries of AMD's wheels that importing the packages of a wheel loads: the short
/// names in their `_rocm_init.py`.
pub fn preloads(wheel: &Path) -> Result<BTreeSet<String>, WheelError> {
    let invalid = |error: zip::result::ZipError| WheelError::invalid(wheel, error.to_string());
    let file = io::BufReader::new(fs_err::File::open(wheel)?);
    let mut archive = zip::ZipArchive::new(file).map_err(invalid)?;
    let names = archive.file_names().collect::<Result<Vec<_>, _>>().map_err(invalid)?;
    let names: Vec<String> =
        names.into_iter().map(Into::into).filter(|name: &String| is_init(name)).collect();
    let mut preloads = BTreeSet::new();
    for name in names {
        let mut text = String::new();
        let member = archive.by_name(&name).map_err(invalid)?;
        member.take(INIT_LIMIT).read_to_string(&mut text)?;
        preloads.extend(listed(&text));
    }
    Ok(preloads)
}

/// Returns whether a member is a package's module that loads AMD's wheels.
pub(super) fn is_init(member: &str) -> bool {
    member.split_once('/').is_some_and(|(_, file)| file == INIT)
}

/// Returns the strings in the list `preload_shortnames`.
pub(super) fn listed(source: &str) -> Vec<String> {
    let list = source.split_once("preload_shortnames=[").and_then(|(_, rest)| rest.split_once(']'));
    let names = list
        .map_or("", |(list, _)| list)
        .split(',')
        .map(|name| name.trim().trim_matches(['"', '\'']));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
#[path = "rocm_sdk_tests.rs"]
mod tests;
