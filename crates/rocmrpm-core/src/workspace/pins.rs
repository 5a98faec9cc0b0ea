//! Reads pin sets, `pins/<name>.toml`, and overrides pins. Does not resolve them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::document::{At, File, Table};
use super::edit::is_inside;
use super::lock::{Lock, commit, sha256};
use super::manifest::gpu_targets;
use super::pin::{Follows, Pin, Source, UNLOCKED};
use crate::digest::Sha256;
use crate::error::Problem;
use crate::names::{ComponentName, is_version};
use crate::range::VersionRange;
use crate::wheel::wheel_project;

/// One coherent set of pins.
#[derive(Debug, Clone)]
pub struct PinSet {
    /// The set's name: the file name without `.toml`.
    pub name: String,
    /// The pins with the positions of their tables.
    pub pins: BTreeMap<ComponentName, At<Pin>>,
    /// The digests of base images in the lock file, by name.
    pub images: BTreeMap<String, Sha256>,
    /// The file they were read from.
    pub file: File,
    /// The pins that `rocmrpm closure --write` wrote, and their file.
    pub generated: Option<Generated>,
}

/// The pins that belong to a component's Python closure.
#[derive(Debug, Clone)]
pub struct Generated {
    /// The components.
    pub names: BTreeSet<ComponentName>,
    /// The file they were read from.
    pub file: File,
}

/// What the command line states about pins, by component: a version for `--pin NAME=VERSION`,
/// `@COMMIT` for `--pin NAME@COMMIT`, and `git:URL@COMMIT` for `--pin NAME=git:URL@COMMIT`.
pub type Overrides = BTreeMap<String, String>;

/// One of these, parsed.
enum Override<'o> {
    Version(&'o str),
    Commit { url: Option<&'o str>, commit: &'o str },
}

impl<'o> Override<'o> {
    fn parse(text: &'o str) -> Self {
        match text.rsplit_once('@') {
            Some(("", commit)) => Self::Commit { url: None, commit },
            Some((url, commit)) if url.starts_with("git:") => {
                Self::Commit { url: url.strip_prefix("git:"), commit }
            }
            _ => Self::Version(text),
        }
    }
}

/// Returns the version of a commit from the command line: it sorts after the pinned version, whose
/// patches and edits it has, and before the next one.
fn of_commit(pinned: &str, commit: &str) -> String {
    let base = pinned.split_once('^').map_or(pinned, |(base, _)| base);
    format!("{base}^git{}", commit.get(..7).unwrap_or(commit))
}

impl PinSet {
    /// Reads a pin set. `lock`, the content of the lock file, supplies the digests and commits that
    /// the set omits.
    pub fn read(
        name: &str,
        file: File,
        lock: &Lock,
        overrides: &Overrides,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let pins = file.parse(problems, |root| {
            root.each_table(|key, table| read_pin(key, table, lock, overrides))
        });
        let pins = pins.into_iter().flatten().map(|at| (at.value.component.clone(), at)).collect();
        Self { name: name.to_owned(), pins, images: lock.images.clone(), file, generated: None }
    }

    /// Adds the pins of a closure. Hand-written pins take precedence.
    pub fn add_generated(&mut self, generated: Self) {
        let Self { pins, file, .. } = generated;
        let mut names = BTreeSet::new();
        for (name, pin) in pins {
            if let Entry::Vacant(vacant) = self.pins.entry(name) {
                names.insert(vacant.key().clone());
                vacant.insert(pin);
            }
        }
        self.generated = Some(Generated { names, file });
    }

    /// Returns whether `rocmrpm closure --write` wrote a component's pin.
    pub fn is_generated(&self, name: &ComponentName) -> bool {
        self.generated.as_ref().is_some_and(|generated| generated.names.contains(name))
    }

    /// Returns the hand-written pins.
    pub fn written(&self) -> impl Iterator<Item = &Pin> {
        self.pins.values().map(|at| &at.value).filter(|pin| !self.is_generated(&pin.component))
    }

    /// Returns the file with a component's pin.
    pub fn file_of(&self, name: &ComponentName) -> &File {
        let generated = self.generated.as_ref().filter(|generated| generated.names.contains(name));
        generated.map_or(&self.file, |generated| &generated.file)
    }
}

fn read_pin(
    key: At<String>,
    table: &mut Table<'_>,
    lock: &Lock,
    overrides: &Overrides,
) -> Option<At<Pin>> {
    let component = ComponentName::parse(&key.value);
    if component.is_none() {
        let message = format!("`{}` is not a component name", key.value);
        table.problem(
            key.span.clone(),
            message,
            "expected lower-case letters, digits and `-`",
            None,
        );
    }
    let follows = follows(table);
    let written = table.string("version");
    check_version(&key, &written, &follows, table);
    let of_branch = follows.as_ref().map(|_| {
        let entry = ComponentName::parse(&key.value).and_then(|name| lock.of_branch(&name));
        entry.map_or(UNLOCKED, |entry| &entry.version).to_owned()
    });
    let own = written.map(|at| at.value).or(of_branch);
    let given = overrides.get(&key.value).map(|text| Override::parse(text));
    let version = match &given {
        Some(Override::Version(version)) => Some((*version).to_owned()),
        _ => own,
    };
    let mut source = read_source(&key, table, version.as_deref().unwrap_or_default());
    if let (Some(_), Some(source)) = (&follows, &source) {
        check_branch(&key, source, table);
    }
    let top_folder = top_folder(table);
    let python = python(table);
    let further = table.table("sources", |sources| {
        sources.each_table(|name, table| {
            let version = version.as_deref().unwrap_or_default();
            read_further(&key.value, &name, table, version).map(|pin| (name.value, pin))
        })
    });
    let mut version = version?;
    match (&given, &mut source) {
        // The entry of another version does not apply to this one.
        (Some(Override::Version(_)), Some(source)) => source.forget(),
        (Some(Override::Commit { url, commit }), Some(source)) => {
            if !source.use_commit(*url, commit) {
                let message = format!("`{}` is not pinned to a git repository", key.value);
                let help = format!("name it: --pin {}=git:URL@{commit}", key.value);
                let label = "only a git repository has commits";
                table.problem(key.span.clone(), message, label, Some(help));
            }
            version = of_commit(&version, commit);
        }
        _ => {}
    }
    let (component, source) = (component?, source?);
    let overridden = given.is_some();
    let follows = follows.filter(|_| !overridden);
    let mut pin =
        Pin { follows, overridden, top_folder, python, ..Pin::new(component, version, source) };
    let component = pin.component.clone();
    if !overridden {
        lock.complete(&component, "", &mut pin);
        if pin.follows.is_some() && pin.evidence.0.is_none() {
            UNLOCKED.clone_into(&mut pin.version);
        }
    }
    for (name, source) in further.unwrap_or_default().into_iter().flatten() {
        let mut source = source.into_pin(&pin);
        lock.complete(&component, &name, &mut source);
        pin.sources.insert(name, source);
    }
    Some(At { value: pin, span: key.span })
}

/// Adds problems of a pin's version, which it has unless it follows a branch.
fn check_version(
    key: &At<String>,
    written: &Option<At<String>>,
    follows: &Option<Follows>,
    table: &mut Table<'_>,
) {
    match (written, follows) {
        (None, None) if !table.has("version") => {
            let message = format!("`version` is missing in `[{}]`", key.value);
            table.problem(table.span(), message, "expected `version`: the upstream version", None);
        }
        (Some(at), Some(_)) => {
            let message = format!("`{}` follows a branch and has a version", key.value);
            let label = "remove it: `rocmrpm lock` records the version of the branch";
            table.problem(at.span.clone(), message, label, None);
        }
        _ => {}
    }
    if let Some(At { value, span }) = written
        && !is_version(value)
    {
        table.problem(
            span.clone(),
            format!("`{value}` cannot be the version of an RPM"),
            "expected letters, digits and . _ + ~ ^",
            None,
        );
    }
}

/// Adds problems of the source of a pin that follows a branch.
fn check_branch(key: &At<String>, source: &Source, table: &mut Table<'_>) {
    match source {
        Source::Git { commit: None, .. } => {}
        Source::Git { commit: Some(_), .. } => {
            let message = format!("`{}` follows a branch and has a commit", key.value);
            table.problem(key.span.clone(), message, "remove one of them", None);
        }
        _ => {
            let message = "`branch` does not apply to this source".to_owned();
            table.problem(key.span.clone(), message, "expected `git`", None);
        }
    }
}

/// A further source, before the main one is known.
enum Further {
    Pin(Box<Pin>),
    Crates { component: ComponentName, lock_file: String },
}

impl Further {
    fn into_pin(self, main: &Pin) -> Pin {
        match self {
            Self::Pin(pin) => *pin,
            Self::Crates { component, lock_file } => {
                let of = Box::new(Pin { sources: BTreeMap::new(), ..main.clone() });
                Pin::new(component, main.version.clone(), Source::Crates { lock_file, of })
            }
        }
    }
}

/// Reads `[<component>.sources.<name>]`; `version` is the component's.
fn read_further(
    component: &str,
    name: &At<String>,
    table: &mut Table<'_>,
    version: &str,
) -> Option<Further> {
    let full = ComponentName::parse(&format!("{component}-{}", name.value));
    if full.is_none() {
        let message = format!("`{}` is not a valid name of a source", name.value);
        table.problem(
            name.span.clone(),
            message,
            "expected lower-case letters, digits and `-`",
            None,
        );
    }
    if let Some(At { value, span }) = table.string("cargo-vendor") {
        if !is_inside(&value) {
            let label = "expected a relative path without `..`";
            table.problem(span, "the path leads out of the source", label, None);
        }
        return Some(Further::Crates { component: full?, lock_file: value });
    }
    let version = table.string("version").map_or_else(|| version.to_owned(), |at| at.value);
    let source = read_source(name, table, &version);
    let top_folder = top_folder(table);
    let gpu_targets = gpu_targets(table, "gpu-targets", false);
    Some(Further::Pin(Box::new(Pin {
        top_folder,
        gpu_targets,
        ..Pin::new(full?, version, source?)
    })))
}

/// Reads the branch that a pin follows.
fn follows(table: &mut Table<'_>) -> Option<Follows> {
    let branch = table.string("branch");
    let version_from = table.string("version-from");
    if let Some(At { value, span }) = &version_from {
        if !is_inside(value) {
            let label = "expected a relative path without `..`";
            table.problem(span.clone(), "the path leads out of the source", label, None);
        }
        if branch.is_none() {
            let message = "`version-from` is for a pin that follows a branch";
            table.problem(span.clone(), message, "add `branch`, or remove it", None);
        }
    }
    let At { value, span } = branch?;
    let is_name = value.chars().all(|c| c.is_ascii_alphanumeric() || "._/+-".contains(c));
    let starts = value.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !is_name || !starts || value.contains("..") {
        let message = format!("`{value}` is not the name of a branch");
        table.problem(span, message, "expected a name such as `main`", None);
        return None;
    }
    Some(Follows { branch: value, version_from: version_from.map(|at| at.value) })
}

fn top_folder(table: &mut Table<'_>) -> Option<String> {
    let name = table.string("top-folder")?;
    table.must_be_plain(&name, "a folder's name");
    Some(name.value)
}

fn python(table: &mut Table<'_>) -> VersionRange {
    let Some(At { value, span }) = table.string("python") else { return VersionRange::default() };
    VersionRange::parse(&value).unwrap_or_else(|| {
        let message = format!("`{value}` is not a range of versions");
        table.problem(span, message, "expected a range such as `>=3.10, <3.15`", None);
        VersionRange::default()
    })
}

fn read_source(key: &At<String>, table: &mut Table<'_>, version: &str) -> Option<Source> {
    let kinds = ["url", "git", "sdist", "wheel", "path"].into_iter();
    let mut given: Vec<_> = kinds.filter_map(|kind| Some((kind, table.string(kind)?))).collect();
    let sha256 = sha256(table);
    let commit = commit(table);
    let submodules = table.boolean("submodules");
    let paths = table.strings("paths");
    for At { value, span } in paths.iter().filter(|at| !is_inside(&at.value)) {
        let message = format!("`{value}` leads out of the source");
        table.problem(span.clone(), message, "expected a relative path without `..`", None);
    }
    let Some((kind, source)) = given.pop() else {
        let message = format!("`{}` has no source", key.value);
        let label = "expected one of `url`, `git`, `sdist`, `wheel`, `path`";
        table.problem(key.span.clone(), message, label, None);
        return None;
    };
    if let Some((first, _)) = given.first() {
        let message = format!("`{}` has more than one source", key.value);
        table.problem(source.span, message, format!("`{kind}` conflicts with `{first}`"), None);
        return None;
    }
    for (field, present, kinds) in [
        ("sha256", sha256.is_some(), &["url", "sdist", "wheel"][..]),
        ("commit", commit.is_some(), &["git"]),
        ("submodules", submodules.is_some(), &["git"]),
        ("paths", !paths.is_empty(), &["git", "path"]),
    ] {
        if present && !kinds.contains(&kind) {
            let message = format!("`{field}` does not apply to a `{kind}` source");
            table.problem(key.span.clone(), message, "remove it", None);
        }
    }
    let paths: Vec<String> = paths.into_iter().map(|at| at.value).collect();
    Some(match kind {
        "url" => Source::Url { url: url(source, table)?.replace("{version}", version), sha256 },
        "git" => {
            let submodules = submodules.unwrap_or(false);
            Source::Git { url: source.value, commit, submodules, paths }
        }
        "sdist" => Source::Sdist { project: source.value, sha256 },
        "wheel" => Source::Wheel { file: wheel_file(source, table, version)?, sha256 },
        _ => Source::Folder { path: folder(source, table, paths.is_empty())?, paths },
    })
}

fn url(At { value, span }: At<String>, table: &mut Table<'_>) -> Option<String> {
    let schemes = ["https://", "http://", "file://"];
    if !schemes.iter().any(|scheme| value.starts_with(scheme)) {
        let message = "this is not a URL that can be fetched";
        table.problem(span, message, "expected https://, http:// or file://", None);
        return None;
    }
    Some(value)
}

fn wheel_file(
    At { value, span }: At<String>,
    table: &mut Table<'_>,
    version: &str,
) -> Option<String> {
    let file = value.replace("{version}", version);
    if wheel_project(&file).is_none() {
        let label = "expected `NAME-VERSION-PYTHON-ABI-PLATFORM.whl`";
        table.problem(span, "this is not the file name of a wheel", label, None);
        return None;
    }
    Some(file)
}

/// Reads the folder of a source; `whole` if the source is everything in it.
fn folder(At { value, span }: At<String>, table: &mut Table<'_>, whole: bool) -> Option<PathBuf> {
    // Normalize the path: the history compares it with git's paths.
    let path: PathBuf =
        Path::new(&value).components().filter(|part| *part != Component::CurDir).collect();
    if !path.components().all(|part| matches!(part, Component::Normal(_))) {
        let label = "expected a relative path without `..`";
        table.problem(span, "the path leads out of the workspace", label, None);
        return None;
    }
    // The root also contains builds, so its sources must be listed.
    if whole && path.as_os_str().is_empty() {
        let message = "the path is the whole workspace";
        let help = "list what to pack, such as `paths = [\"src\", \"Cargo.toml\"]`";
        table.problem(span, message, "expected a folder, or `paths`", Some(help.to_owned()));
        return None;
    }
    Some(path)
}

impl Source {
    /// Uses a commit of the pinned repository, or of another one. Returns whether there is one.
    fn use_commit(&mut self, other: Option<&str>, commit: &str) -> bool {
        let commit = Some(commit.to_lowercase());
        match (&mut *self, other) {
            (Self::Git { url, commit: pinned, .. }, other) => {
                if let Some(other) = other {
                    other.clone_into(url);
                }
                *pinned = commit;
            }
            // An archive or an sdist contains the submodules, too.
            (_, Some(url)) => {
                let (url, paths) = (url.to_owned(), Vec::new());
                *self = Self::Git { url, commit, submodules: true, paths };
            }
            (_, None) => return false,
        }
        true
    }

    /// Removes digest and commit.
    fn forget(&mut self) {
        match self {
            Self::Url { sha256, .. } | Self::Sdist { sha256, .. } | Self::Wheel { sha256, .. } => {
                *sha256 = None
            }
            Self::Git { commit, .. } => *commit = None,
            Self::Folder { .. } | Self::Crates { .. } => {}
        }
    }
}

#[cfg(test)]
#[path = "pins_tests.rs"]
mod tests;
