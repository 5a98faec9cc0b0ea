//! Finds a workspace and reads all of it. Reads and checks every file even after a mistake, so that
//! all mistakes are reported at once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::check;
use super::chroot::Chroot;
use super::closure::WrittenClosure;
use super::component::Component;
use super::copr::CoprProject;
use super::delivery::Delivery;
use super::document::At;
use super::error::WorkspaceError;
use super::experiment::{affected, folder_name};
use super::generated::{add_generated, closure_stem};
use super::layout::MANIFEST;
use super::manifest::Manifest;
use super::paths;
use super::pin::Pin;
use super::pins::{Overrides, PinSet};
use super::provider::Provider;
use super::read::{Contents, read_pin_sets};
use super::upstreams::Upstreams;
use crate::error::Problems;
use crate::names::ComponentName;
use crate::ownership;

/// Which of a workspace's chroots and pin sets to use, and what to override.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// `--chroot`. [default: the manifest's]
    pub chroot: Option<String>,
    /// `--pins`. [default: the manifest's]
    pub pins: Option<String>,
    /// `--pin NAME=VERSION`.
    pub overrides: Overrides,
    /// Leave out what `rocmrpm closure --write` wrote.
    pub without_generated: bool,
    /// Use the release's own ROCm, a provider with the name of the chroot, if it is defined.
    pub own_rocm: bool,
}

/// A complete workspace with one chosen chroot and pin set.
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
    /// What the stack knows about upstream projects.
    pub upstreams: Upstreams,
    /// What `rocmrpm closure --write` wrote for the chosen pin set and chroot.
    pub closure: Option<WrittenClosure>,
    /// The components that the chosen set does not pin.
    unpinned: Vec<ComponentName>,
    /// The name of the build folder.
    build_folder: String,
    /// The components whose results pins from the command line can change.
    affected: BTreeSet<ComponentName>,
}

/// Finds the workspace that contains `start`, as cargo finds a package. Refuses a workspace of
/// another user, as git does: specs expand macros, and macros run programs.
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
        let contents = Contents::read(&root, &selection.overrides, &mut problems)?;
        check::contents(&contents, &mut problems);
        check::refuse(problems)?;
        let Contents {
            manifest,
            mut components,
            mut sets,
            mut chroots,
            mut providers,
            copr,
            upstreams,
            ..
        } = contents;

        let chroot =
            choose(&mut chroots, "chroot", selection.chroot.as_ref(), &manifest.default_chroot)?;
        paths::check_outputs(&root, &chroot.name)?;
        let mut pins =
            choose(&mut sets, "pin set", selection.pins.as_ref(), &manifest.default_pins)?;
        let stem = closure_stem(&pins.name, &chroot.name, &manifest.default_chroot.value);
        let closure = match selection.without_generated {
            true => None,
            false => add_generated(&root, &stem, &selection.overrides, &mut components, &mut pins)?,
        };
        let known = || pins.pins.keys().map(ToString::to_string).collect();
        if let Some(name) =
            selection.overrides.keys().find(|n| !pins.pins.keys().any(|k| k.as_str() == *n))
        {
            return Err(WorkspaceError::Unknown {
                kind: "pin",
                name: name.clone(),
                known: known(),
            });
        }
        let unpinned =
            components.keys().filter(|name| !pins.pins.contains_key(*name)).cloned().collect();
        components.retain(|name, _| pins.pins.contains_key(name));
        for component in components.values_mut() {
            if let Some(at) = pins.pins.get_mut(&component.name) {
                component.keep_for(&manifest.gpu_targets, &mut at.value);
            }
        }
        let own_rocm = selection.own_rocm && providers.contains_key(&chroot.name);
        let own_rocm = own_rocm.then_some(&chroot.name);
        let provider = choose(&mut providers, "ROCm provider", own_rocm, &chroot.rocm_provider)?;
        let other_chroots = chroots;
        let overridden = pins.pins.iter().filter(|(_, at)| at.value.overridden);
        let overridden = overridden.map(|(name, at)| (name, at.value.version.as_str()));
        let build_folder = folder_name(&chroot.name, overridden);
        let mut affected_by_pins = BTreeSet::new();
        if build_folder != chroot.name {
            paths::check_outputs(&root, &build_folder)?;
            affected_by_pins = affected(&root, components.values(), |name| {
                pins.pins.get(name).is_some_and(|at| at.value.overridden)
            })?;
        }
        Ok(Self {
            root,
            manifest,
            components,
            pins,
            chroot,
            other_chroots,
            provider,
            copr,
            upstreams,
            closure,
            unpinned,
            build_folder,
            affected: affected_by_pins,
        })
    }

    /// Returns the component of this name, or an error that names the nearest one.
    pub fn component(&self, name: &str) -> Result<&Component, WorkspaceError> {
        let known = || self.components.keys().map(ToString::to_string).collect();
        if self.unpinned.iter().any(|unpinned| unpinned.as_str() == name) {
            return Err(WorkspaceError::Unpinned {
                name: name.to_owned(),
                set: self.pins.name.clone(),
            });
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

    /// Reads all pin sets, without the overrides of the command line.
    pub fn pin_sets(&self) -> Result<BTreeMap<String, PinSet>, WorkspaceError> {
        let mut problems = Vec::new();
        let sets = read_pin_sets(&self.root, &Overrides::new(), &mut problems)?;
        if problems.is_empty() {
            Ok(sets)
        } else {
            Err(WorkspaceError::Invalid(Problems(problems)))
        }
    }

    /// Returns the component that has a Python closure, if there is one.
    pub fn with_closure(&self) -> Option<&Component> {
        self.components.values().find(|component| component.closure.is_some())
    }

    /// Returns the path of the closure's lock for the chosen pin set and chroot.
    pub fn closure_lock(&self) -> PathBuf {
        self.root.join(format!("pins/{}.requirements.lock", self.closure_stem()))
    }

    /// Returns the path of the lock of the wheels that an index has beside the stack's own, for the
    /// chosen pin set and chroot.
    pub fn index_lock(&self) -> PathBuf {
        self.root.join(format!("pins/{}.index.lock", self.closure_stem()))
    }

    /// Returns the stem of that closure's file names.
    pub fn closure_stem(&self) -> String {
        self.closure_stem_for(&self.chroot.name)
    }

    /// Returns the stem of the closure's file names for the chosen pin set and this chroot.
    pub fn closure_stem_for(&self, chroot: &str) -> String {
        closure_stem(&self.pins.name, chroot, &self.manifest.default_chroot.value)
    }

    /// Returns the GPU target or family for which ROCm's Python packages are chosen.
    pub fn rocm_target(&self) -> String {
        let stated = match &self.provider.delivery {
            Some(Delivery::PythonPackages { target, .. }) => target.clone(),
            _ => None,
        };
        let first = || self.manifest.gpu_targets.first().map(|gpu| gpu.processor().to_owned());
        stated.or_else(first).unwrap_or_default()
    }

    /// Returns the folder for everything built against the chosen chroot, with the pins from the
    /// command line.
    pub fn build_dir(&self) -> PathBuf {
        self.root.join("build").join(&self.build_folder)
    }

    /// Returns the folder for everything built against the chosen chroot with the pin set as it is.
    pub fn regular_build_dir(&self) -> PathBuf {
        self.root.join("build").join(&self.chroot.name)
    }

    /// Returns the folder for the results of a component. Pins from the command line that do not
    /// concern it do not change it.
    pub fn build_dir_of(&self, component: &ComponentName) -> PathBuf {
        if self.affected.contains(component) { self.build_dir() } else { self.regular_build_dir() }
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
