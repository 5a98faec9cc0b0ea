//! Finding a workspace and reading all of it: every file is read and checked even
//! after the first mistake, so that all mistakes are told at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::chroot::{Chroot, Provider};
use super::closure::WrittenClosure;
use super::component::Component;
use super::copr::CoprProject;
use super::document::{At, File, INVALID};
use super::lock::Lock;
use super::manifest::Manifest;
use super::paths::{self, PathError};
use super::pin::Pin;
use super::pins::{Overrides, PinSet};
use crate::error::{Diagnose, Kind, Problem, Problems};
use crate::names::{ComponentName, nearest};
use crate::ownership;

/// The file that makes a folder a workspace.
pub const MANIFEST: &str = "rocmrpm.toml";

/// The folder below `specs-templates/` of what `rocmrpm closure --write` writes.
pub const GENERATED: &str = "generated";

/// The file beside them that the component's own spec is rendered with.
pub const CLOSURE_FILE: &str = "closure.toml";

/// What the names of the pin sets that it writes end with, before `.toml`.
pub const GENERATED_PINS: &str = ".generated";

/// Which of a workspace's chroots and pin sets to use, and what to override.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// `--chroot`; the manifest's default where absent.
    pub chroot: Option<String>,
    /// `--pins`; the manifest's default where absent.
    pub pins: Option<String>,
    /// `--pin NAME=VERSION`.
    pub overrides: Overrides,
    /// Leave out what `rocmrpm closure --write` wrote.
    pub without_generated: bool,
}

/// A workspace, read whole, with one chroot and one pin set chosen.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The folder of `rocmrpm.toml`, absolute.
    pub root: PathBuf,
    /// `rocmrpm.toml`.
    pub manifest: Manifest,
    /// Every component that the chosen pin set pins.
    pub components: BTreeMap<ComponentName, Component>,
    /// The chosen pin set.
    pub pins: PinSet,
    /// The chosen chroot.
    pub chroot: Chroot,
    /// The chroots that were not chosen, by name.
    pub other_chroots: BTreeMap<String, Chroot>,
    /// The chosen chroot's ROCm provider.
    pub provider: Provider,
    /// `copr/project.toml`, if there is one.
    pub copr: Option<CoprProject>,
    /// What `rocmrpm closure --write` wrote for the chosen pin set and chroot.
    pub closure: Option<WrittenClosure>,
    /// The components that have a folder and no pin in the chosen set.
    unpinned: Vec<ComponentName>,
}

/// Why a workspace could not be read.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// There is none.
    #[error("there is no `rocmrpm.toml` in `{}` or in any folder above it", start.display())]
    NotFound {
        /// Where the search began.
        start: PathBuf,
    },
    /// There is not even such a folder.
    #[error("there is no folder `{}`", start.display())]
    NoFolder {
        /// The folder as given.
        start: PathBuf,
    },
    /// Files of the workspace are wrong.
    #[error(transparent)]
    Invalid(Problems),
    /// The command line names something that the workspace does not have.
    #[error("there is no {kind} `{name}` in this workspace")]
    Unknown {
        /// What kind of thing: `chroot`, `pin set`, `component`.
        kind: &'static str,
        /// The name as given.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The component is there, but the chosen pin set does not pin it.
    #[error("the component `{name}` has no pin in pins/{set}.toml")]
    Unpinned {
        /// The component.
        name: String,
        /// The pin set.
        set: String,
    },
    /// A file is not the workspace's own.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A file cannot be read.
    #[error("cannot read the workspace")]
    Io(#[from] std::io::Error),
}

impl Diagnose for WorkspaceError {
    fn kind(&self) -> Kind {
        match self {
            Self::NotFound { .. } | Self::Invalid(_) | Self::Path(_) => Kind::Config,
            Self::Unknown { .. } | Self::Unpinned { .. } | Self::NoFolder { .. } => Kind::Usage,
            Self::Io(_) => Kind::Environment,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NotFound { .. } => {
                vec!["`rocmrpm init` makes a workspace here; `-C DIR` uses one elsewhere".into()]
            }
            Self::Unpinned { name, set } => {
                vec![format!("add a table `[{name}]` to pins/{set}.toml, or use another set with `--pins`")]
            }
            Self::Unknown { name, known, .. } => match nearest(name, known.iter().map(String::as_str)) {
                Some(near) => vec![format!("did you mean `{near}`?")],
                None => vec![format!("there is: {}", known.join(", "))],
            },
            Self::Path(error) => vec![error.help()],
            _ => Vec::new(),
        }
    }

    fn problems(&self) -> &[Problem] {
        match self {
            Self::Invalid(problems) => problems.problems(),
            _ => &[],
        }
    }
}

/// Finds the workspace that contains `start`, as cargo finds a package. One of another user is
/// refused, as git refuses a repository: specs expand macros, and macros run programs.
pub fn find_root(start: &Path) -> Result<PathBuf, WorkspaceError> {
    let start = match fs_err::canonicalize(start) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(WorkspaceError::NoFolder { start: start.to_owned() });
        }
        other => other?,
    };
    match start.ancestors().find(|dir| dir.join(MANIFEST).is_file()) {
        Some(root) => {
            paths::check_owner(root, ownership::is_ours, ownership::is_accepted)?;
            Ok(root.to_owned())
        }
        None => Err(WorkspaceError::NotFound { start }),
    }
}

impl Workspace {
    /// Reads the workspace that contains `start`.
    pub fn load(start: &Path, selection: &Selection) -> Result<Self, WorkspaceError> {
        let root = find_root(start)?;
        paths::check_inputs(&root)?;
        let mut problems = Vec::new();
        let manifest_file = File::read(&root.join(MANIFEST), MANIFEST)?;
        let manifest = Manifest::read(&manifest_file, &mut problems);
        let (mut components, broken) = read_components(&root, "specs-templates", &mut problems)?;
        let mut sets = read_pin_sets(&root, &selection.overrides, &mut problems)?;
        let mut chroots: BTreeMap<String, Chroot> = BTreeMap::new();
        for (name, file) in toml_files(&root, "mock-configs")? {
            chroots.insert(name.clone(), Chroot::read(&name, file, &mut problems));
        }
        let mut providers: BTreeMap<String, Provider> = BTreeMap::new();
        for (name, file) in toml_files(&root, "mock-configs/rocm")? {
            providers.insert(name.clone(), Provider::read(&name, file, &mut problems));
        }
        let copr_path = root.join("copr/project.toml");
        let copr = copr_path.is_file().then(|| File::read(&copr_path, "copr/project.toml")).transpose()?;
        let copr = copr.map(|file| CoprProject::read(file, &chroots, &mut problems));

        check_requires(&components, &broken, &mut problems);
        check_closures(&components, &mut problems);
        for set in sets.values() {
            check_pins(set, &components, &broken, &mut problems);
        }
        for chroot in chroots.values() {
            let At { value, span } = &chroot.rocm_provider;
            if !value.is_empty() && !providers.contains_key(value) {
                problems.push(unknown(&chroot.file, span, "ROCm provider", value, providers.keys()));
            }
        }
        for provider in providers.values() {
            for At { value, span } in &provider.brings {
                if !broken.contains(value) && !components.keys().any(|name| name.as_str() == value) {
                    problems.push(unknown(&provider.file, span, "component", value, components.keys()));
                }
            }
        }
        let default = |at: &At<String>, kind, known: Vec<&String>, problems: &mut Vec<Problem>| {
            // Where the manifest does not say it, other mistakes come first.
            let told = !at.span.is_empty() || problems.is_empty();
            if told && !known.contains(&&at.value) {
                problems.push(unknown(&manifest_file, &at.span, kind, &at.value, known));
            }
        };
        for at in manifest.containers.values().flat_map(|container| &container.chroots) {
            if !chroots.contains_key(&at.value) {
                problems.push(unknown(&manifest_file, &at.span, "chroot", &at.value, chroots.keys()));
            }
        }
        default(&manifest.default_chroot, "chroot", chroots.keys().collect(), &mut problems);
        default(&manifest.default_pins, "pin set", sets.keys().collect(), &mut problems);
        // What was read of a broken file says nothing about other files.
        let invalid: Vec<String> =
            problems.iter().filter(|p| p.message == INVALID).map(|p| p.file.clone()).collect();
        problems.retain(|p| p.message == INVALID || !invalid.contains(&p.file));
        if !problems.is_empty() {
            // File by file, and in each from top to bottom.
            let mut files: Vec<String> = problems.iter().map(|problem| problem.file.clone()).collect();
            files.dedup();
            problems.sort_by_key(|problem| {
                let start = problem.span.as_ref().map_or(0, |span| span.start);
                (files.iter().position(|file| *file == problem.file), start)
            });
            return Err(WorkspaceError::Invalid(Problems(problems)));
        }

        let chroot = choose(&mut chroots, "chroot", selection.chroot.as_ref(), &manifest.default_chroot)?;
        paths::check_outputs(&root, &chroot.name)?;
        let mut pins = choose(&mut sets, "pin set", selection.pins.as_ref(), &manifest.default_pins)?;
        let stem = closure_stem(&pins.name, &chroot.name, &manifest.default_chroot.value);
        let closure = match selection.without_generated {
            true => None,
            false => add_generated(&root, &stem, &selection.overrides, &mut components, &mut pins)?,
        };
        let known = || pins.pins.keys().map(ToString::to_string).collect();
        if let Some(name) = selection.overrides.keys().find(|n| !pins.pins.keys().any(|k| k.as_str() == *n)) {
            return Err(WorkspaceError::Unknown { kind: "pin", name: name.clone(), known: known() });
        }
        let unpinned = components.keys().filter(|name| !pins.pins.contains_key(*name)).cloned().collect();
        components.retain(|name, _| pins.pins.contains_key(name));
        let provider = choose(&mut providers, "ROCm provider", None, &chroot.rocm_provider)?;
        let other_chroots = chroots;
        Ok(Self {
            root,
            manifest,
            components,
            pins,
            chroot,
            other_chroots,
            provider,
            copr,
            closure,
            unpinned,
        })
    }

    /// Returns the component of this name, or an error that names the nearest.
    pub fn component(&self, name: &str) -> Result<&Component, WorkspaceError> {
        let known = || self.components.keys().map(ToString::to_string).collect();
        if self.unpinned.iter().any(|unpinned| unpinned.as_str() == name) {
            return Err(WorkspaceError::Unpinned { name: name.to_owned(), set: self.pins.name.clone() });
        }
        self.components
            .iter()
            .find(|(key, _)| key.as_str() == name)
            .map(|(_, component)| component)
            .ok_or_else(|| WorkspaceError::Unknown {
                kind: "component",
                name: name.to_owned(),
                known: known(),
            })
    }

    /// Returns a component's pin.
    pub fn pin(&self, component: &Component) -> &Pin {
        // `load` keeps only components that the chosen set pins.
        &self.pins.pins[&component.name].value
    }

    /// Reads all pin sets, without what the command line changed.
    pub fn pin_sets(&self) -> Result<BTreeMap<String, PinSet>, WorkspaceError> {
        let mut problems = Vec::new();
        let sets = read_pin_sets(&self.root, &Overrides::new(), &mut problems)?;
        if problems.is_empty() { Ok(sets) } else { Err(WorkspaceError::Invalid(Problems(problems))) }
    }

    /// Returns the component that has a Python closure, if there is one.
    pub fn with_closure(&self) -> Option<&Component> {
        self.components.values().find(|component| component.closure.is_some())
    }

    /// Returns where the lock of the closure for the chosen pin set and chroot lies.
    pub fn closure_lock(&self) -> PathBuf {
        self.root.join(format!("pins/{}.requirements.lock", self.closure_stem()))
    }

    /// Returns what the files of that closure begin with.
    pub fn closure_stem(&self) -> String {
        self.closure_stem_for(&self.chroot.name)
    }

    /// Returns what the files of the closure for the chosen pin set and this chroot begin with.
    pub fn closure_stem_for(&self, chroot: &str) -> String {
        closure_stem(&self.pins.name, chroot, &self.manifest.default_chroot.value)
    }

    /// Returns the folder that takes everything built against the chosen chroot.
    pub fn build_dir(&self) -> PathBuf {
        self.root.join("build").join(&self.chroot.name)
    }
}

/// Returns what the files of a closure begin with. What the release has decides over it, so
/// that another chroot than the default one has files of its own.
fn closure_stem(set: &str, chroot: &str, default_chroot: &str) -> String {
    if chroot == default_chroot { set.to_owned() } else { format!("{set}.{chroot}") }
}

/// Adds the components and pins that `rocmrpm closure --write` wrote for the chosen set and
/// chroot. The component that they were written for requires them all.
fn add_generated(
    root: &Path,
    stem: &str,
    overrides: &Overrides,
    components: &mut BTreeMap<ComponentName, Component>,
    pins: &mut PinSet,
) -> Result<Option<WrittenClosure>, WorkspaceError> {
    let shown = format!("pins/{stem}{GENERATED_PINS}.toml");
    let path = root.join(&shown);
    if !path.is_file() {
        return Ok(None);
    }
    let mut problems = Vec::new();
    let folder = format!("specs-templates/{GENERATED}/{stem}");
    let (generated, broken) = read_components(root, &folder, &mut problems)?;
    let file = File::read(&path, &shown)?;
    let set = PinSet::read(stem, file, &Lock::default(), overrides, &mut problems);
    for component in generated.values() {
        let whole = |message: String| Problem {
            span: None,
            help: Some("`rocmrpm closure --write` writes it anew".into()),
            ..component.file.problem(0..0, message, "")
        };
        if components.contains_key(&component.name) {
            problems.push(whole(format!("there is another component `{}`", component.name)));
        }
        match &component.generated {
            None => problems.push(whole("a generated component says `generated = \"COMPONENT\"`".into())),
            Some(At { value, span }) => {
                let target = components.get(value.as_str());
                if target.is_none_or(|target| target.closure.is_none()) {
                    let message = format!("`{value}` has no table `[closure]`");
                    problems.push(component.file.problem(span.clone(), message, "generated for this one"));
                }
            }
        }
    }
    check_pins(&set, &generated, &broken, &mut problems);
    let shown = format!("{folder}/{CLOSURE_FILE}");
    let closure = File::read(&root.join(&shown), &shown)?.parse(&mut problems, WrittenClosure::read);
    if !problems.is_empty() {
        return Err(WorkspaceError::Invalid(Problems(problems)));
    }
    let mut names = Vec::new();
    for (name, component) in generated {
        if set.pins.contains_key(&name) {
            names.extend(component.generated.clone().map(|at| (at.value, name.to_string())));
            components.insert(name, component);
        }
    }
    pins.add_generated(set);
    for component in components.values_mut().filter(|component| component.closure.is_some()) {
        let own = names.iter().filter(|(target, _)| target == component.name.as_str());
        let required = own.map(|(_, name)| At { value: name.clone(), span: 0..0 });
        component.requires.extend(required.collect::<Vec<_>>());
    }
    Ok(Some(closure))
}

/// Refuses a second component with a closure, and generated ones among those that are written.
fn check_closures(components: &BTreeMap<ComponentName, Component>, problems: &mut Vec<Problem>) {
    let mut first: Option<&Component> = None;
    for component in components.values() {
        if let Some(At { span, .. }) = &component.generated {
            let message = "a component that is written by hand is not `generated`";
            problems.push(component.file.problem(span.clone(), message, "remove it"));
        }
        if component.closure.is_none() {
            continue;
        }
        if let Some(first) = first {
            let message = format!("`{}` has a table `[closure]` already", first.name);
            let help = "one component of a workspace has a Python closure".to_owned();
            let problem = component.file.problem(0..0, message, "");
            problems.push(Problem { span: None, help: Some(help), ..problem });
        } else {
            first = Some(component);
        }
    }
}

fn choose<T>(
    all: &mut BTreeMap<String, T>,
    kind: &'static str,
    wanted: Option<&String>,
    default: &At<String>,
) -> Result<T, WorkspaceError> {
    let name = wanted.unwrap_or(&default.value);
    all.remove(name).ok_or_else(|| WorkspaceError::Unknown {
        kind,
        name: name.clone(),
        known: all.keys().cloned().collect(),
    })
}

/// Returns the TOML files of a folder by name without suffix; none if the folder
/// is not there.
fn toml_files(root: &Path, folder: &str) -> std::io::Result<BTreeMap<String, File>> {
    let mut files = BTreeMap::new();
    let dir = root.join(folder);
    if dir.is_dir() {
        for entry in fs_err::read_dir(&dir)? {
            let path = entry?.path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if path.extension().is_some_and(|e| e == "toml") && path.is_file() {
                let file = File::read(&path, format!("{folder}/{stem}.toml"))?;
                files.insert(stem, file);
            }
        }
    }
    Ok(files)
}

fn read_pin_sets(
    root: &Path,
    overrides: &Overrides,
    problems: &mut Vec<Problem>,
) -> std::io::Result<BTreeMap<String, PinSet>> {
    let mut sets = BTreeMap::new();
    let files = toml_files(root, "pins")?.into_iter();
    for (name, file) in files.filter(|(name, _)| !name.ends_with(GENERATED_PINS)) {
        let path = root.join(format!("pins/{name}.lock"));
        let lock = path.is_file().then(|| File::read(&path, format!("pins/{name}.lock"))).transpose()?;
        let lock = lock.map(|file| Lock::read(&file, problems)).unwrap_or_default();
        sets.insert(name.clone(), PinSet::read(&name, file, &lock, overrides, problems));
    }
    Ok(sets)
}

/// Returns the components of a folder, and the names of folders that should be one and are not.
fn read_components(
    root: &Path,
    folder: &str,
    problems: &mut Vec<Problem>,
) -> std::io::Result<(BTreeMap<ComponentName, Component>, Vec<String>)> {
    let mut components = BTreeMap::new();
    let mut broken = Vec::new();
    let templates = root.join(folder);
    if templates.is_dir() {
        let mut folders: Vec<PathBuf> =
            fs_err::read_dir(&templates)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
        folders.sort();
        for dir in folders {
            let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let generated = folder == "specs-templates" && name == GENERATED;
            if name.starts_with(['_', '.']) || generated || !dir.is_dir() {
                continue;
            }
            match Component::read(&dir, &format!("{folder}/{name}"), problems)? {
                Some(component) => {
                    components.insert(component.name.clone(), component);
                }
                None => broken.push(name),
            }
        }
    }
    Ok((components, broken))
}

fn check_requires(
    components: &BTreeMap<ComponentName, Component>,
    broken: &[String],
    problems: &mut Vec<Problem>,
) {
    for component in components.values() {
        for At { value, span } in &component.requires {
            if !broken.contains(value) && !components.keys().any(|name| name.as_str() == value) {
                problems.push(unknown(&component.file, span, "component", value, components.keys()));
            }
        }
    }
}

fn check_pins(
    set: &PinSet,
    components: &BTreeMap<ComponentName, Component>,
    broken: &[String],
    problems: &mut Vec<Problem>,
) {
    for (name, pin) in &set.pins {
        let Some(component) = components.get(name) else {
            if !broken.iter().any(|folder| folder == name.as_str()) {
                problems.push(unknown(&set.file, &pin.span, "component", name.as_str(), components.keys()));
            }
            continue;
        };
        for required in &component.requires {
            let known = components.keys().any(|c| c.as_str() == required.value);
            if known && !set.pins.keys().any(|pinned| pinned.as_str() == required.value) {
                let message = format!("`{name}` requires `{}`, which this set does not pin", required.value);
                let problem = set.file.problem(pin.span.clone(), message, "");
                problems
                    .push(Problem { help: Some(format!("add a table `[{}]`", required.value)), ..problem });
            }
        }
    }
}

fn unknown<S: AsRef<str>>(
    file: &File,
    span: &std::ops::Range<usize>,
    kind: &str,
    name: &str,
    known: impl IntoIterator<Item = S>,
) -> Problem {
    let known: Vec<S> = known.into_iter().collect();
    let near = nearest(name, known.iter().map(AsRef::as_ref));
    Problem {
        help: near.map(|n| format!("did you mean `{n}`?")),
        ..file.problem(span.clone(), format!("unknown {kind} `{name}`"), "there is nothing of this name")
    }
}
