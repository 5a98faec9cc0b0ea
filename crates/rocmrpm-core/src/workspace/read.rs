//! Reads the files of a workspace one by one. `check` compares them with each other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::chroot::Chroot;
use super::component::Component;
use super::copr::CoprProject;
use super::document::File;
use super::layout::{GENERATED, GENERATED_PINS, MANIFEST, UPSTREAMS};
use super::lock::Lock;
use super::manifest::Manifest;
use super::pins::{Overrides, PinSet};
use super::provider::Provider;
use super::rocm_lock::RocmLock;
use super::upstreams::Upstreams;
use crate::error::Problem;
use crate::names::ComponentName;

/// The content of a workspace without what `rocmrpm closure --write` wrote.
pub(super) struct Contents {
    pub manifest_file: File,
    pub manifest: Manifest,
    pub components: BTreeMap<ComponentName, Component>,
    /// Folders that should be components and are not.
    pub broken: Vec<String>,
    pub sets: BTreeMap<String, PinSet>,
    pub chroots: BTreeMap<String, Chroot>,
    pub providers: BTreeMap<String, Provider>,
    pub copr: Option<CoprProject>,
    pub upstreams: Upstreams,
}

impl Contents {
    pub(super) fn read(
        root: &Path,
        overrides: &Overrides,
        problems: &mut Vec<Problem>,
    ) -> std::io::Result<Self> {
        let manifest_file = File::read(&root.join(MANIFEST), MANIFEST)?;
        let manifest = Manifest::read(&manifest_file, problems);
        let (components, broken) = read_components(root, "specs-templates", problems)?;
        let sets = read_pin_sets(root, overrides, problems)?;
        let mut chroots: BTreeMap<String, Chroot> = BTreeMap::new();
        for (name, file) in toml_files(root, "mock-configs")? {
            chroots.insert(name.clone(), Chroot::read(&name, file, problems));
        }
        let mut providers: BTreeMap<String, Provider> = BTreeMap::new();
        for (name, file) in toml_files(root, "mock-configs/rocm")? {
            let mut provider = Provider::read(&name, file, problems);
            let path = root.join(format!("mock-configs/rocm/{name}.lock"));
            if provider.delivery.is_some() && path.is_file() {
                let file = File::read(&path, format!("mock-configs/rocm/{name}.lock"))?;
                provider.lock = Some(RocmLock::read(&file, problems));
            }
            providers.insert(name, provider);
        }
        let copr_path = root.join("copr/project.toml");
        let copr =
            copr_path.is_file().then(|| File::read(&copr_path, "copr/project.toml")).transpose()?;
        let copr = copr.map(|file| CoprProject::read(file, &chroots, problems));
        let path = root.join(UPSTREAMS);
        let upstreams = path.is_file().then(|| File::read(&path, UPSTREAMS)).transpose()?;
        let upstreams = upstreams.map(|file| Upstreams::read(&file, problems)).unwrap_or_default();
        Ok(Self {
            manifest_file,
            manifest,
            components,
            broken,
            sets,
            chroots,
            providers,
            copr,
            upstreams,
        })
    }
}

/// Returns the TOML files of a folder by name without suffix; none if the folder does not exist.
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

pub(super) fn read_pin_sets(
    root: &Path,
    overrides: &Overrides,
    problems: &mut Vec<Problem>,
) -> std::io::Result<BTreeMap<String, PinSet>> {
    let mut sets = BTreeMap::new();
    let files = toml_files(root, "pins")?.into_iter();
    for (name, file) in files.filter(|(name, _)| !name.ends_with(GENERATED_PINS)) {
        let path = root.join(format!("pins/{name}.lock"));
        let lock =
            path.is_file().then(|| File::read(&path, format!("pins/{name}.lock"))).transpose()?;
        let lock = lock.map(|file| Lock::read(&file, problems)).unwrap_or_default();
        sets.insert(name.clone(), PinSet::read(&name, file, &lock, overrides, problems));
    }
    Ok(sets)
}

/// Returns the components of a folder, and the names of folders that should be components and are not.
pub(super) fn read_components(
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
