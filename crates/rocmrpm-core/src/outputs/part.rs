//! Collects a component's inspected RPMs and everything that determines the bytes of its wheels. It
//! does not build wheels.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::build::{BuildRecord, FileRecord, Results, Stage, fetch_rocm_wheels};
use crate::canonical::canonical;
use crate::digest::Sha256;
use crate::error::{Error, IoError};
use crate::events::Events;
use crate::gpu::GpuTarget;
use crate::gpu_families;
use crate::inspect::RULES_VERSION;
use crate::machine;
use crate::names::ComponentName;
use crate::spec::rocm_version;
use crate::stack::{KeyInputs, Stack};
use crate::wheel::{self, BuildOrigin, LocalLabel, Pins, Request, Rocm, RocmWheel, SdkOptions};
use crate::workspace::{Component, Delivery, RocmLock, RocmSource, Workspace};

/// The folder of the package `rocm-sdk-libraries`.
const LIBRARIES: &str = "_rocm_sdk_libraries";

/// A component with inspected RPMs.
pub(super) struct WheelComponent<'w> {
    pub component: &'w Component,
    pub record: BuildRecord,
    pub rpms: Vec<PathBuf>,
    pub gpu_targets: Vec<GpuTarget>,
    pub label: LocalLabel,
    /// The folder of the wheels.
    pub dir: PathBuf,
    /// The ROCm version of the build.
    rocm: String,
    source: RocmSource,
    workspace: &'w Workspace,
    /// How the wheels use ROCm's Python packages.
    sdk: SdkOptions,
    python: Option<(u32, u32)>,
    pub leave_out: Vec<String>,
    /// Distributions that METADATA does not require, because the index leaves them out.
    not_required: Vec<String>,
    origin: BuildOrigin,
    /// The inputs of the RPM inspection.
    inspection: KeyInputs,
}

/// Returns the folder that contains one folder of wheels per component.
pub(super) fn wheels_dir(workspace: &Workspace) -> PathBuf {
    workspace.build_dir().join("wheels")
}

/// Returns the components that get wheels. Generated components of a Python closure are already on
/// an index; pip installs them from there at the locked versions.
fn with_wheels<'w>(stack: &Stack<'w>) -> impl Iterator<Item = &'w Component> {
    stack.order().iter().copied().filter(|component| component.generated.is_none())
}

/// Returns the components of a stack that have inspected RPMs, in build order. Omits damaged
/// results: recording that they gave no wheel would wrongly apply when the same RPMs are rebuilt.
pub(super) fn parts<'w>(stack: &Stack<'w>) -> Result<Vec<WheelComponent<'w>>, Error> {
    let python = python(stack.workspace)?;
    let parts =
        with_wheels(stack).map(|component| WheelComponent::of(stack.workspace, component, python));
    parts.filter_map(Result::transpose).collect()
}

/// Returns the components whose results are all unusable.
pub(super) fn damaged<'w>(
    stack: &Stack<'w>,
    parts: &[WheelComponent<'w>],
) -> Result<Vec<&'w ComponentName>, IoError> {
    let used = |name: &ComponentName| parts.iter().any(|part| part.component.name == *name);
    let mut damaged = Vec::new();
    for component in with_wheels(stack).filter(|component| !used(&component.name)) {
        let build_dir = stack.workspace.build_dir_of(&component.name);
        if Results::of(&build_dir, Stage::Rpm, &component.name).record()?.is_some() {
            damaged.push(&component.name);
        }
    }
    Ok(damaged)
}

/// Returns the Python version of the target.
fn python(workspace: &Workspace) -> Result<Option<(u32, u32)>, Error> {
    let version = match workspace.chroot.is_host() {
        true => machine::python_version()?,
        false => workspace.chroot.python.clone(),
    };
    let numbers = version.split_once('.');
    Ok(numbers.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?))))
}

/// Returns the leading number of a Release such as `3~dirty%{?dist}`.
fn release_number(release: &str) -> Option<u32> {
    let end = release.find(|c: char| !c.is_ascii_digit()).unwrap_or(release.len());
    release[..end].parse().ok()
}

impl<'w> WheelComponent<'w> {
    fn of(
        workspace: &'w Workspace,
        component: &'w Component,
        python: Option<(u32, u32)>,
    ) -> Result<Option<Self>, Error> {
        let results =
            Results::of(&workspace.build_dir_of(&component.name), Stage::Rpm, &component.name);
        let accepted = results.accepted()?.filter(|(_, rpms)| !rpms.is_empty());
        let Some((record, rpms)) = accepted else { return Ok(None) };
        let rocm = record.rocm.clone().map_or_else(|| rocm_version(&workspace.provider), Ok)?;
        let gpu_targets: Vec<GpuTarget> =
            record.gpu_targets.iter().filter_map(|t| GpuTarget::parse(t)).collect();
        let mut label = LocalLabel::new(&rocm, &gpu_targets)?;
        if record.dirty {
            label = label.dirty();
        }
        if let Some(number) = release_number(&record.release) {
            label = label.release(number);
        }
        Ok(Some(Self {
            component,
            rpms,
            gpu_targets,
            label,
            dir: wheels_dir(workspace).join(component.name.as_str()),
            sdk: sdk_options(workspace, &rocm),
            rocm,
            source: workspace.manifest.wheel_rocm,
            workspace,
            python,
            leave_out: component.wheel_leaves_out.iter().map(|at| at.value.clone()).collect(),
            not_required: workspace.manifest.index.left_out().into_iter().collect(),
            origin: origin(&record),
            inspection: results
                .recorded()?
                .and_then(|recorded| recorded.inspection)
                .unwrap_or_default(),
            record,
        }))
    }

    /// Lists everything that determines the bytes of the wheels, except the versions of their
    /// requirements and the inspection rules.
    pub fn inputs(&self, pins: &Pins) -> Result<KeyInputs, Error> {
        let mut inputs = KeyInputs::default();
        inputs.add("set of packages", Sha256::of_bytes(packages_text(&self.record.outputs)));
        inputs.add("label", &self.label);
        inputs.add("date", self.record.source_date_epoch);
        inputs.add("rocmrpm", env!("CARGO_PKG_VERSION"));
        inputs.add("Python", python_text(self.python));
        inputs.add("source of ROCm", rocm_text(self.source, &self.rocm));
        if self.source == RocmSource::RocmSdk && self.sdk != SdkOptions::default() {
            inputs.add("use of ROCm's packages", sdk_text(&self.sdk));
        }
        if self.source == RocmSource::Bundled {
            let lock = self.workspace.provider.lock.as_ref();
            inputs.add("lock of ROCm", lock.map(RocmLock::text).unwrap_or_default());
        }
        inputs.add("list of files left out", left_out_text(&self.leave_out));
        if !self.not_required.is_empty() {
            inputs.add("list of distributions not required", self.not_required.join(" "));
        }
        let required = Vec::from_iter(wheel::required_by(&self.rpms, pins)?);
        inputs.add("list of required distributions", required.join(" "));
        Ok(inputs)
    }

    /// Lists the inputs of the wheel inspection: those of the RPM inspection, and the current
    /// rules.
    pub fn judged_by(&self) -> KeyInputs {
        let mut inputs = self.inspection.clone();
        inputs.add("set of rules", RULES_VERSION);
        inputs
    }

    /// Returns the inputs for both [`wheel::build`] and [`wheel::verify`].
    pub fn request<'a>(
        &'a self,
        pins: &'a Pins,
        rocm: &'a Rocm,
        out_dir: &'a Path,
        events: &'a dyn Events,
    ) -> Request<'a> {
        Request {
            rpms: &self.rpms,
            label: &self.label,
            source_date_epoch: self.record.source_date_epoch,
            out_dir,
            python: self.python,
            pins,
            rocm,
            leave_out: &self.leave_out,
            not_required: &self.not_required,
            origin: Some(&self.origin),
            events,
        }
    }
}

fn packages_text(outputs: &[FileRecord]) -> String {
    let binary = |file: &str| file.ends_with(".rpm") && !file.ends_with(".src.rpm");
    let packages = outputs.iter().filter(|output| binary(&output.file));
    canonical(&packages.map(|output| (&output.file, output.sha256)).collect::<Vec<_>>())
}

fn python_text(version: Option<(u32, u32)>) -> String {
    canonical(&version)
}

fn rocm_text(source: RocmSource, version: &str) -> String {
    format!("{} {version}", canonical(&source))
}

/// Returns how wheels use ROCm's Python packages. The lock of the provider has their names.
fn sdk_options(workspace: &Workspace, rocm: &str) -> SdkOptions {
    let rules = workspace.manifest.wheel_sdk;
    let delivery = &workspace.provider.delivery;
    let made = matches!(delivery, Some(Delivery::PythonPackages { .. }));
    let files = workspace.provider.lock.iter().flat_map(|lock| &lock.files);
    let mut files = files.filter(|_| made);
    let version = files.clone().find_map(|file| {
        file.distribution.as_ref().filter(|(name, _)| name == "rocm").map(|(_, of)| of.clone())
    });
    let libraries = files.find_map(|file| {
        let stem = file.name.split('-').next()?;
        stem.strip_prefix(LIBRARIES.trim_start_matches('_')).map(str::to_owned)
    });
    // File names are lowercase; folders have the name of the family.
    let suffix = libraries.as_deref().map(|suffix| {
        let named = |family: &&str| suffix[1..].eq_ignore_ascii_case(&family.replace('-', "_"));
        let family = gpu_families::families().find(|family| !suffix.is_empty() && named(family));
        family.map_or_else(|| suffix.to_owned(), |family| format!("_{}", family.replace('-', "_")))
    });
    let relink = rules.relink || made;
    SdkOptions {
        exact: rules.exact.then(|| version.unwrap_or_else(|| rocm.to_owned())),
        fails: rules.fails,
        local: rules.local,
        relink: relink.then(|| format!("{LIBRARIES}{}", suffix.clone().unwrap_or_default())),
        made,
        split: suffix.map(|suffix| suffix.is_empty()),
    }
}

fn sdk_text(SdkOptions { exact, fails, local, relink, made, split }: &SdkOptions) -> String {
    canonical(&((exact, fails, local), (relink, made, split)))
}

fn left_out_text(patterns: &[String]) -> String {
    canonical(patterns)
}

/// Returns the origin of the RPMs in this record. The wheel module does not know about builds.
fn origin(record: &BuildRecord) -> BuildOrigin {
    BuildOrigin {
        component: record.component.clone(),
        version: record.version.clone(),
        // The macro for the distribution is not part of the released version.
        release: record.release.trim_end_matches("%{?dist}").to_owned(),
        chroot: record.chroot.clone(),
        rocm: record.rocm.clone(),
        gpu_targets: record.gpu_targets.clone(),
        key: record.key,
        sources: record.sources.iter().map(|s| (s.file.clone(), s.sha256, s.size)).collect(),
    }
}

/// What the wheels of all components have in common about ROCm.
#[derive(Default)]
pub(super) struct Preloads {
    /// The libraries from AMD's wheels that the distributions built so far load on import.
    names: BTreeMap<String, BTreeSet<String>>,
    /// The wheels of ROCm, once they were fetched: checking the digests of gigabytes takes seconds.
    rocm_wheels: OnceCell<Vec<RocmWheel>>,
}

impl Preloads {
    /// Adds a component's wheels.
    pub fn add(&mut self, part: &WheelComponent<'_>, wheels: &[PathBuf]) -> Result<(), Error> {
        if part.source == RocmSource::RocmSdk {
            for path in wheels {
                let file = path.file_name().unwrap_or_default().to_string_lossy();
                self.insert(&file, wheel::preloads(path)?);
            }
        }
        Ok(())
    }

    /// Adds a wheel by file name.
    pub fn insert(&mut self, wheel: &str, names: BTreeSet<String>) {
        let name = wheel.split('-').next().and_then(wheel::normalized).unwrap_or_default();
        self.names.entry(name).or_default().extend(names);
    }

    /// Returns where a component's wheels find ROCm.
    pub fn rocm(&self, part: &WheelComponent<'_>, events: &dyn Events) -> Result<Rocm, Error> {
        Ok(match part.source {
            RocmSource::System => Rocm::System,
            RocmSource::RocmSdk => {
                let (version, preloaded) = (part.rocm.clone(), self.names.clone());
                Rocm::Sdk { version, preloaded, options: part.sdk.clone() }
            }
            RocmSource::Bundled => {
                let wheels = match self.rocm_wheels.get() {
                    Some(wheels) => wheels.clone(),
                    None => {
                        let wheels = fetch_rocm_wheels(part.workspace, events)?;
                        self.rocm_wheels.get_or_init(|| wheels).clone()
                    }
                };
                Rocm::Bundled { wheels }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_for_rocm_packages_have_fixed_bytes() {
        let options = SdkOptions {
            exact: Some("7.14.0".into()),
            fails: true,
            local: false,
            relink: Some("_rocm_sdk_libraries_gfx115X_all".into()),
            made: true,
            split: Some(false),
        };
        let bytes = r#"((Some("7.14.0"), true, false), (Some("_rocm_sdk_libraries_gfx115X_all"), true, Some(false)))"#;
        assert_eq!(sdk_text(&options), bytes);
    }

    #[test]
    fn reads_the_number_of_a_release() {
        for (release, number) in [
            ("2%{?dist}", Some(2)),
            ("13~dirty%{?dist}", Some(13)),
            ("1", Some(1)),
            ("", None),
            ("x1", None),
        ] {
            assert_eq!(release_number(release), number, "{release}");
        }
    }

    #[test]
    fn inputs_of_a_wheel_are_pinned() {
        let digest = Sha256::of_bytes("x");
        let output = |file: &str| FileRecord { file: file.to_owned(), sha256: digest, size: 1 };
        let outputs = [output("a-1.x86_64.rpm"), output("a-1.src.rpm"), output("a.spec")];
        let packages = format!(r#"[("a-1.x86_64.rpm", Sha256({digest}))]"#);
        assert_eq!(packages_text(&outputs), packages);
        assert_eq!(python_text(Some((3, 14))), "Some((3, 14))");
        assert_eq!(python_text(None), "None");
        assert_eq!(rocm_text(RocmSource::System, "7.2"), "System 7.2");
        assert_eq!(rocm_text(RocmSource::RocmSdk, "7.2"), "RocmSdk 7.2");
        assert_eq!(left_out_text(&["*/a.so".to_owned(), "b".to_owned()]), r#"["*/a.so", "b"]"#);
    }
}
