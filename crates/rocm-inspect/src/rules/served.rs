//! Determines how a set serves a GPU: which of its files with GPU code have code that runs on it,
//! and whether the kernels are complete. The findings and the headline of every report use this
//! module, so that they do not contradict each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use super::counts::{self, Shortfall};
use super::origins::stack;
use crate::facts::{DeviceCode, FileFacts, Storage, Subject, Target};
use rocmrpm_base::gpu::GpuTarget;

/// How a wanted target is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Served {
    /// Every file with GPU code has code for this exact target, or for targets that cover it.
    Exactly,
    /// Every file with GPU code has code that runs on it, but none for this exact target.
    Covered,
    /// Every file with GPU code has code that runs on it, but some have fewer kernels than for their
    /// other targets, which can be intended.
    Fewer,
    /// Some files have no code for it, or too few kernels.
    Partly,
    /// The set has GPU code, but none that runs on it.
    No,
    /// No code for it was found, but some of the set was not read.
    Unknown,
    /// The set has no GPU code at all.
    NoCode,
}

/// How the set serves one wanted target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// The target.
    pub target: GpuTarget,
    /// How it is served.
    pub served: Served,
    /// The targets of the code that runs on it.
    pub by: Vec<Target>,
    /// How many files with code for several targets have code that runs on it.
    pub files: u64,
    /// How many files with code for several targets there are. Alternatives for versions of one GPU
    /// stack count as one.
    pub of_files: u64,
    /// The file that has the smallest part of the kernels that its other targets have.
    pub shortfall: Option<Shortfall>,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = || self.by.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let kernels = self.shortfall.iter().map(|Shortfall { file, found, expected, what }| {
            let name = file.rsplit('/').next().unwrap_or_default();
            format!("{found} of {expected} {what} in {name}")
        });
        match self.served {
            Served::Exactly => f.write_str("served exactly"),
            Served::Covered => write!(f, "served by {}", by()),
            Served::Fewer => {
                let parts: Vec<String> = kernels.collect();
                write!(f, "served by {}, {}", by(), parts.join(", "))
            }
            Served::Partly => {
                let files = (self.files < self.of_files)
                    .then(|| format!("served in {} of {} files", self.files, self.of_files));
                let parts: Vec<String> = files.into_iter().chain(kernels).collect();
                f.write_str(&parts.join(", "))
            }
            Served::No => f.write_str("not served"),
            Served::Unknown => f.write_str("unknown, part of the set was not read"),
            Served::NoCode => f.write_str("no GPU code in this set"),
        }
    }
}

/// Returns how the subjects serve a target, excluding debugging data.
pub(crate) fn verdict(subjects: &[Subject], gpu: &GpuTarget) -> Verdict {
    let real = || subjects.iter().filter(|subject| !subject.debug);
    let code = real().flat_map(|subject| &subject.files).flat_map(|file| &file.device);
    let targets: BTreeSet<&Target> =
        code.filter(|c| c.storage.serves()).map(|c| &c.target).collect();
    let by: Vec<&Target> = targets.iter().copied().filter(|target| target.serves(gpu)).collect();
    let units = units(subjects);
    let files = units.iter().filter(|unit| unit.serves(gpu)).count() as u64;
    let lacking = counts::shortfalls(real(), gpu);
    let reported = lacking.iter().any(|(_, reported)| *reported);
    let shortfall = lacking
        .into_iter()
        .map(|(shortfall, _)| shortfall)
        .min_by_key(|s| (s.found.saturating_mul(1000) / s.expected.max(1), s.file.clone()));
    let exact =
        |target: &&&Target| matches!(target, Target::Gpu(t) if t.processor() == gpu.processor());
    let unread =
        targets.contains(&Target::Unread) || real().any(|subject| !subject.unread.is_empty());
    let of_files = units.len() as u64;
    let served = match by.is_empty() {
        true if unread => Served::Unknown,
        true if targets.is_empty() => Served::NoCode,
        true => Served::No,
        false if files < of_files || reported => Served::Partly,
        false if shortfall.is_some() => Served::Fewer,
        false if by.iter().any(|target| exact(&target)) => Served::Exactly,
        false => Served::Covered,
    };
    let by = by.into_iter().cloned().collect();
    Verdict { target: gpu.clone(), served, by, files, of_files, shortfall }
}

/// A file whose storage can have code for several targets, or several such files of which a process
/// loads one.
pub(super) struct Unit<'a> {
    pub(super) subject: &'a Subject,
    pub(super) files: Vec<&'a FileFacts>,
}

impl<'a> Unit<'a> {
    /// Returns whether any of the files has code that runs on the GPU.
    pub(super) fn serves(&self, gpu: &GpuTarget) -> bool {
        self.code().any(|code| code.target.serves(gpu))
    }

    /// Yields the code in the files.
    pub(super) fn code(&self) -> impl Iterator<Item = &'a DeviceCode> {
        self.files.iter().flat_map(|file| &file.device).filter(|code| code.storage.serves())
    }
}

/// Returns the units that should each serve every target, by subject and path.
pub(super) fn units(subjects: &[Subject]) -> Vec<Unit<'_>> {
    let mut units: BTreeMap<(&str, String), Unit<'_>> = BTreeMap::new();
    for subject in subjects.iter().filter(|subject| !subject.debug) {
        for file in &subject.files {
            let mut code = file.device.iter().filter(|code| code.storage.serves()).peekable();
            let data = file.path.split('/').any(|folder| folder == "library");
            if data || code.peek().is_none() || code.any(|code| single(code.storage)) {
                continue;
            }
            let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let name = match stack(&file.path) {
                Some((stem, stack)) => format!("{folder}/{stem}_{stack}"),
                None => file.path.clone(),
            };
            let unit = units.entry((&subject.path, name));
            unit.or_insert_with(|| Unit { subject, files: Vec::new() }).files.push(file);
        }
    }
    units.into_values().collect()
}

/// Returns whether a file of this storage always has code for a single target, so that only the
/// files of a folder together can serve several.
fn single(storage: Storage) -> bool {
    matches!(storage, Storage::Bundle | Storage::CodeObject | Storage::KernelFile | Storage::Kpack)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{KernelCode, Unread};
    use crate::testing::{device_code, gpu, subject};

    /// A file with this path and, for each target, the number of kernels, their size in bytes, and
    /// the number of empty ones.
    fn file(path: &str, codes: &[(&str, u64, u64, u64)]) -> FileFacts {
        let device = codes.iter().map(|(target, kernels, bytes, empty)| DeviceCode {
            kernels: Some(*kernels),
            kernel_code: Some(KernelCode { bytes: *bytes, empty: *empty }),
            ..device_code(gpu(target))
        });
        FileFacts {
            path: path.into(),
            bundles: 1,
            device: device.collect(),
            ..FileFacts::default()
        }
    }

    fn shown(files: Vec<FileFacts>) -> String {
        verdict(&[subject("a-1.whl", files)], &GpuTarget::parse("gfx1151").unwrap()).to_string()
    }

    #[test]
    fn describes_what_is_not_served() {
        let good = |path: &str| file(path, &[("gfx1151", 11, 1100, 0), ("gfx1100", 11, 1100, 0)]);
        let without = |path: &str| file(path, &[("gfx1100", 11, 1100, 0)]);
        let few = || file("a/few.so", &[("gfx1151", 1, 100, 0), ("gfx1100", 11, 1100, 0)]);
        assert_eq!(shown(vec![good("a/x.so"), good("a/y.so")]), "served exactly");
        assert_eq!(
            shown(vec![good("a/x.so"), without("a/y.so"), without("a/z.so")]),
            "served in 1 of 3 files"
        );
        assert_eq!(shown(vec![few()]), "1 of 11 kernels in few.so");
        let half = file("a/half.so", &[("gfx1151", 350, 100, 0), ("gfx1100", 700, 200, 0)]);
        assert_eq!(
            shown(vec![good("a/x.so"), half]),
            "served by gfx1151, 350 of 700 kernels in half.so"
        );
        assert_eq!(
            shown(vec![few(), without("a/y.so")]),
            "served in 1 of 2 files, 1 of 11 kernels in few.so"
        );
        assert_eq!(shown(vec![without("a/x.so")]), "not served");
        assert_eq!(
            shown(vec![file("a/x.so", &[("gfx11-generic", 3, 300, 0)])]),
            "served by gfx11-generic"
        );
        assert_eq!(shown(vec![]), "no GPU code in this set");
    }

    #[test]
    fn ignores_kernels_without_code() {
        let stubs = |own, of_other| {
            file("a/k.so", &[("gfx1151", 10, own, of_other), ("gfx1100", 10, 9000, 0)])
        };
        assert_eq!(shown(vec![stubs(40, 10)]), "0 of 10 kernels in k.so");
        assert_eq!(shown(vec![stubs(8000, 0)]), "served exactly");
        // Much less code than for the other targets.
        assert_eq!(shown(vec![stubs(900, 0)]), "0 of 10 kernels in k.so");
        assert_eq!(
            shown(vec![file("a/k.so", &[("gfx1151", 10, 40, 10)])]),
            "0 of 10 kernels in k.so"
        );
        // Some are empty for all targets.
        let same = file("a/k.so", &[("gfx1151", 2, 48, 1), ("gfx1100", 2, 48, 1)]);
        assert_eq!(shown(vec![same]), "served exactly");
    }

    #[test]
    fn accepts_one_of_several_builds_for_versions() {
        let old = file("a/libk_rocm62.so", &[("gfx1100", 3, 300, 0)]);
        let new = file("a/libk_rocm72.so", &[("gfx1151", 3, 300, 0)]);
        assert_eq!(shown(vec![old.clone(), new]), "served exactly");
        assert_eq!(shown(vec![old]), "not served");
    }

    #[test]
    fn returns_unknown_for_unread_archives() {
        let mut wheel = subject("a-1.whl", Vec::new());
        wheel.unread = vec![Unread { path: "x.7z".into(), archive: true, why: "is odd".into() }];
        let verdict = verdict(&[wheel], &GpuTarget::parse("gfx1151").unwrap());
        assert_eq!(verdict.served, Served::Unknown);
    }
}
