//! Rules about the amount of GPU code for a target, compared with the other targets of the same
//! file and with the last build. Whether there is any code is checked in `targets`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Rule, RuleId, Severity};
use crate::expectations::Expectations;
use crate::facts::{DeviceCode, FileFacts, KernelCode, Storage, Subject, Target};
use crate::finding::Finding;
use rocmrpm_base::gpu::GpuTarget;

/// Targets with fewer kernels do not count as a reference for the others.
const MIN_KERNELS: u64 = 10;

pub(super) const FEW: Rule = Rule {
    id: RuleId("kernels-few"),
    severity: Severity::Error,
    what: "a file has far fewer kernels for a wanted target than for its other targets: less than half of their \
          median",
    why: "the target is present, so every list of targets looks right, but most calls fail on it",
    incident: "ROCm/rocm-systems, pull request 6362: packages had the right target with 3 of 646 kernels",
    help: "search the build log for compiler calls without the target; if upstream has fewer kernels for this \
           GPU, waive the finding and state the number in the reason",
};

pub(super) const STUBS: Rule = Rule {
    id: RuleId("kernels-stub"),
    severity: Severity::Error,
    what: "most of a file's kernels for a wanted target have no code, or these kernels are on average less than \
           an eighth of the size of those for its other targets",
    why: "every list of targets and every count of kernels looks right, but the kernels return immediately and \
          write no results",
    incident: "",
    help: "search the kernels for an `#if` that excludes the target (`__gfx942__`, `__AMDGCN_WAVEFRONT_SIZE`); if \
           a kernel is empty on purpose, waive the finding and state that as the reason",
};

pub(super) const LOST: Rule = Rule {
    id: RuleId("kernels-lost"),
    severity: Severity::Warning,
    what: "the set has far fewer kernels for a target than the last build: more than a fifth is gone",
    why: "the build silently skipped a part, or a part of it lost its target list",
    incident: "ROCm/rocm-systems, pull request 6362: packages had the right target with 3 of 646 kernels",
    help: "compare both builds with `--against`; if upstream removed the kernels, ignore the \
           finding: the next build is compared with this one",
};

pub(super) fn check(subjects: &[Subject], expectations: &Expectations) -> Vec<Finding> {
    let subjects: Vec<&Subject> = subjects.iter().filter(|subject| !subject.debug).collect();
    let mut findings = Vec::new();
    for gpu in &expectations.gpu_targets {
        for (subject, file, counts) in compared(subjects.iter().copied(), gpu) {
            findings.extend(counts.finding(gpu).map(|finding| finding.at(subject, file)));
        }
    }
    let device: Vec<&DeviceCode> = subjects
        .iter()
        .flat_map(|subject| &subject.files)
        .flat_map(|file| &file.device)
        .filter(|code| code.storage.serves() && code.storage != Storage::KernelFile)
        .collect();
    for (target, before) in &expectations.previous_kernels {
        let wanted =
            |gpu: &GpuTarget| GpuTarget::parse(target).is_none_or(|target| target.serves(gpu));
        let asked =
            expectations.gpu_targets.is_empty() || expectations.gpu_targets.iter().any(wanted);
        findings.extend(asked.then(|| lost(&device, target, *before)).flatten());
    }
    findings
}

/// Kernels that a file lacks for a target, compared with its other targets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shortfall {
    /// The file.
    pub file: String,
    /// The number of kernels for this target.
    pub found: u64,
    /// The median of the numbers for the other targets.
    pub expected: u64,
    /// What was counted: `kernels`, or `code objects` if kernels were not counted.
    pub what: &'static str,
}

/// Returns the kernels that files lack for a target, and whether a rule below reports them: a few
/// less than for other targets may be intended.
pub(super) fn shortfalls<'a>(
    subjects: impl Iterator<Item = &'a Subject>,
    gpu: &GpuTarget,
) -> Vec<(Shortfall, bool)> {
    let compared = compared(subjects, gpu).into_iter();
    let shortfalls = compared.filter_map(|(_, file, counts)| {
        let (found, expected, reported) = match counts.stubs() {
            Some(_) => (0, counts.own, true),
            None => (counts.own, counts.fewer(1)?, counts.few().is_some()),
        };
        let shortfall = Shortfall { file: file.path.clone(), found, expected, what: counts.what };
        Some((shortfall, reported))
    });
    shortfalls.collect()
}

/// Returns the files with kernels for a target, each with its kernels and those for other targets.
fn compared<'a>(
    subjects: impl Iterator<Item = &'a Subject>,
    gpu: &GpuTarget,
) -> Vec<(&'a Subject, &'a FileFacts, Counts<'a>)> {
    let mut found = Vec::new();
    for subject in subjects {
        let mut split: BTreeMap<String, Vec<&DeviceCode>> = BTreeMap::new();
        for (file, code) in subject.files.iter().flat_map(split_codes) {
            split.entry(name_without_target(file, code)).or_default().push(code);
        }
        for file in &subject.files {
            let counts = Counts::of_file(file, gpu).or_else(|| {
                let own = split_codes(file).filter(|(_, code)| code.target.serves(gpu));
                let own: Vec<&DeviceCode> = own.map(|(_, code)| code).collect();
                let others = split.get(&name_without_target(file, own.first()?))?;
                let others = others.iter().copied().filter(|code| !code.target.serves(gpu));
                Counts::of(others.chain(own.iter().copied()), gpu, true)
            });
            found.extend(counts.map(|counts| (subject, file, counts)));
        }
    }
    found
}

/// Yields code in files that often have one target each.
fn split_codes(file: &FileFacts) -> impl Iterator<Item = (&FileFacts, &DeviceCode)> {
    let split = |code: &&DeviceCode| {
        matches!(code.storage, Storage::CodeObject | Storage::Kpack)
            && matches!(code.target, Target::Gpu(_))
    };
    file.device.iter().filter(split).map(move |code| (file, code))
}

/// Returns the name that the files of one library have in common if there is one for each target.
fn name_without_target(file: &FileFacts, code: &DeviceCode) -> String {
    match &code.target {
        Target::Gpu(target) => file.path.replace(target.processor(), "*"),
        _ => file.path.clone(),
    }
}

/// How many kernels there are for a target and for each of the other targets, or how many code
/// objects if kernels were not counted.
struct Counts<'a> {
    own: u64,
    /// The number of kernels and their code, if both are known.
    own_code: Option<(u64, KernelCode)>,
    siblings: BTreeMap<&'a Target, (u64, Option<KernelCode>)>,
    what: &'static str,
    /// Whether the targets are in separate files, which upstreams tune separately: only empty
    /// kernels are a fault, not fewer or smaller ones.
    split: bool,
}

/// Kernels cannot do the same work as the other targets' if their average size is less than the
/// median of those divided by this.
const FRACTION: u64 = 8;

impl<'a> Counts<'a> {
    /// Compares the targets of one file. Returns `None` if it has no code for the target, or no code
    /// that is counted.
    fn of_file(file: &'a FileFacts, gpu: &GpuTarget) -> Option<Self> {
        // The number of kernels in SPIR-V is unknown.
        if file.device.iter().any(|code| code.target == Target::Spirv && code.storage.serves()) {
            return None;
        }
        // Other storages have one target per file, or no kernels yet.
        let many = |code: &&DeviceCode| {
            let single =
                [Storage::CodeObject, Storage::KernelFile, Storage::Kpack, Storage::Bitcode];
            code.storage.serves()
                && !single.contains(&code.storage)
                && matches!(code.target, Target::Gpu(_))
        };
        Self::of(file.device.iter().filter(many), gpu, false)
    }

    fn of(
        codes: impl Iterator<Item = &'a DeviceCode> + Clone,
        gpu: &GpuTarget,
        split: bool,
    ) -> Option<Self> {
        let counted = codes.clone().all(|code| code.kernels.is_some());
        let number =
            |code: &DeviceCode| if counted { code.kernels.unwrap_or(0) } else { code.count };
        let mut own: Option<(u64, Option<KernelCode>)> = None;
        let mut siblings = BTreeMap::new();
        for code in codes {
            let sum = match code.target.serves(gpu) {
                true => own.get_or_insert((0, Some(KernelCode::default()))),
                false => siblings.entry(&code.target).or_insert((0, Some(KernelCode::default()))),
            };
            sum.0 = sum.0.saturating_add(number(code));
            sum.1 = sum.1.zip(code.kernel_code).map(|(a, b)| a.plus(b));
        }
        let (own, code) = own?;
        let what = if counted { "kernels" } else { "code objects" };
        let own_code = code.filter(|_| counted).map(|code| (own, code));
        Some(Self { own, own_code, siblings, what, split })
    }

    /// Returns the median of the other targets that have at least `least` kernels, if this target
    /// has fewer.
    fn fewer(&self, least: u64) -> Option<u64> {
        let numbers = self.siblings.values().map(|(number, _)| *number);
        let median = median(numbers.filter(|number| *number >= least).collect())?;
        (!self.split && self.own < median).then_some(median)
    }

    /// Returns the median of the other targets if this target has less than half of it.
    fn few(&self) -> Option<u64> {
        self.fewer(MIN_KERNELS).filter(|median| self.own < median.div_ceil(2))
    }

    /// Returns how the target's kernels are deficient compared with the siblings', if they are.
    fn stubs(&self) -> Option<String> {
        let (count, code) = self.own_code.filter(|(count, _)| *count > 0)?;
        let siblings = self.siblings.values().filter_map(|(count, code)| Some((*count, (*code)?)));
        let siblings: Vec<(u64, KernelCode)> = siblings.filter(|(count, _)| *count > 0).collect();
        let mostly_empty = |count: u64, code: KernelCode| code.empty.saturating_mul(2) > count;
        let by_design = siblings.iter().any(|(count, code)| mostly_empty(*count, *code));
        if mostly_empty(count, code) && !by_design {
            return Some(format!("{} of {} without code", code.empty, plural(count, "kernel")));
        }
        let size = median(siblings.iter().map(|(count, code)| code.bytes / count).collect())?;
        let own = code.bytes / count;
        (!self.split && own.saturating_mul(FRACTION) < size).then(|| {
            format!(
                "{} of {own} bytes on average, of {size} for the other targets",
                plural(count, "kernel")
            )
        })
    }

    fn finding(&self, gpu: &GpuTarget) -> Option<Finding> {
        if let Some(stubs) = self.stubs() {
            let expected = "kernels with code, as for the other targets";
            return Some(STUBS.finding(format!("{gpu}: {stubs}"), expected));
        }
        let median = self.few()?;
        let found = format!("{} for {gpu}", plural(self.own, self.what));
        Some(FEW.finding(found, format!("about {median}, the median of the other targets")))
    }
}

fn median(mut numbers: Vec<u64>) -> Option<u64> {
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied()
}

fn plural(count: u64, what: &str) -> String {
    let what = what.trim_end_matches('s');
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn lost(device: &[&DeviceCode], target: &str, before: u64) -> Option<Finding> {
    let codes = device.iter().filter(|code| code.target.to_string() == target);
    let unread = device.iter().any(|code| code.target == Target::Unread);
    // Kernels that were not counted are not reported as lost.
    let now = codes
        .map(|code| code.kernels)
        .try_fold(0u64, |sum, kernels| Some(sum.saturating_add(kernels?)))?;
    let least = before.saturating_sub(before / 5);
    (now < least && !unread).then(|| {
        let found = format!("{} for {target}", plural(now, "kernel"));
        LOST.finding(found, format!("about {before}, as in the last build"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{device_code, gpu, subject};

    fn codes(numbers: &[(&str, u64, Option<u64>)]) -> Vec<Subject> {
        let device = numbers.iter().map(|(target, count, kernels)| DeviceCode {
            count: *count,
            kernels: *kernels,
            ..device_code(gpu(target))
        });
        let file =
            FileFacts { path: "/a.so".into(), device: device.collect(), ..FileFacts::default() };
        vec![subject("a.rpm", vec![file])]
    }

    fn found(subjects: &[Subject], before: &[(&str, u64)]) -> Vec<String> {
        let previous_kernels =
            before.iter().map(|(target, count)| ((*target).to_owned(), *count)).collect();
        let gpu_targets = vec![GpuTarget::parse("gfx1151").unwrap()];
        let expectations =
            Expectations { gpu_targets, previous_kernels, ..Expectations::default() };
        check(subjects, &expectations)
            .into_iter()
            .map(|f| format!("{}: {}", f.id, f.found))
            .collect()
    }

    #[test]
    fn reports_far_fewer_kernels_than_for_other_targets() {
        let kernels = |own| {
            codes(&[("gfx1151", 1, Some(own)), ("gfx1100", 1, Some(646)), ("gfx942", 1, Some(700))])
        };
        assert_eq!(found(&kernels(3), &[]), ["kernels-few: 3 kernels for gfx1151"]);
        assert_eq!(found(&kernels(349), &[]), ["kernels-few: 349 kernels for gfx1151"]);
        assert_eq!(found(&kernels(350), &[]), [""; 0]);
        // If kernels were not counted, code objects are.
        let objects = codes(&[("gfx1151", 3, None), ("gfx1100", 60, Some(4))]);
        assert_eq!(found(&objects, &[]), ["kernels-few: 3 code objects for gfx1151"]);
        // Without siblings that have many, there cannot be too few.
        assert_eq!(
            found(&codes(&[("gfx1151", 1, Some(1)), ("gfx1100", 1, Some(9))]), &[]),
            [""; 0]
        );
        // Generic code counts too.
        let generic = codes(&[
            ("gfx1151", 1, Some(1)),
            ("gfx11-generic", 1, Some(500)),
            ("gfx942", 1, Some(500)),
        ]);
        assert_eq!(found(&generic, &[]), [""; 0]);
    }

    #[test]
    fn counts_one_kernel_in_the_singular() {
        let one = codes(&[("gfx1151", 1, Some(1)), ("gfx1100", 1, Some(11))]);
        assert_eq!(found(&one, &[]), ["kernels-few: 1 kernel for gfx1151"]);
        assert_eq!(
            found(&codes(&[("gfx1151", 1, Some(1))]), &[("gfx1151", 9)]),
            ["kernels-lost: 1 kernel for gfx1151"]
        );
    }

    #[test]
    fn reports_kernels_without_code() {
        let stubs = |codes_of: &[(u64, u64, u64)]| {
            let mut set =
                codes(&[("gfx1151", 1, Some(0)), ("gfx1100", 1, Some(0))][..codes_of.len()]);
            for (code, (kernels, bytes, empty)) in set[0].files[0].device.iter_mut().zip(codes_of) {
                code.kernels = Some(*kernels);
                code.kernel_code = Some(KernelCode { bytes: *bytes, empty: *empty });
            }
            found(&set, &[])
        };
        assert_eq!(
            stubs(&[(10, 40, 10), (10, 900, 0)]),
            ["kernels-stub: gfx1151: 10 of 10 kernels without code"]
        );
        assert_eq!(stubs(&[(1, 4, 1)]), ["kernels-stub: gfx1151: 1 of 1 kernel without code"]);
        assert_eq!(
            stubs(&[(10, 300, 0), (10, 9000, 0)]),
            [
                "kernels-stub: gfx1151: 10 kernels of 30 bytes on average, of 900 for the other targets"
            ]
        );
        assert_eq!(stubs(&[(10, 1200, 0), (10, 9000, 0)]), [""; 0]);
        assert_eq!(stubs(&[(10, 600, 5), (10, 900, 0)]), [""; 0], "half of them");
        assert_eq!(stubs(&[(1, 4, 1), (1, 4, 1)]), [""; 0], "empty for all");
    }

    #[test]
    fn reports_code_objects_of_their_own_without_code() {
        let file = |path: &str, target: &str, storage, empty| FileFacts {
            path: path.into(),
            device: vec![DeviceCode {
                storage,
                kernels: Some(10),
                kernel_code: Some(KernelCode { bytes: 400, empty }),
                ..device_code(gpu(target))
            }],
            ..FileFacts::default()
        };
        for storage in [Storage::CodeObject, Storage::Kpack] {
            let own = |empty| file("lib/k_gfx1151.co", "gfx1151", storage, empty);
            let other = |empty| file("lib/k_gfx942.co", "gfx942", storage, empty);
            let found = |files| found(&[subject("a.rpm", files)], &[]);
            let stub = ["kernels-stub: gfx1151: 10 of 10 kernels without code"];
            assert_eq!(found(vec![own(10), other(0)]), stub);
            assert_eq!(found(vec![own(10)]), stub);
            assert_eq!(found(vec![own(10), other(10)]), [""; 0], "empty for all");
            assert_eq!(found(vec![own(0), other(10)]), [""; 0]);
            let unrelated = file("lib/m_gfx942.co", "gfx942", storage, 10);
            assert_eq!(found(vec![own(10), unrelated]), stub);
        }
    }

    #[test]
    fn reports_kernels_lost_since_the_last_build() {
        let now = |kernels| codes(&[("gfx1151", 1, kernels)]);
        assert_eq!(
            found(&now(Some(79)), &[("gfx1151", 100)]),
            ["kernels-lost: 79 kernels for gfx1151"]
        );
        assert_eq!(found(&now(Some(80)), &[("gfx1151", 100)]), [""; 0]);
        assert_eq!(found(&now(None), &[("gfx1151", 100)]), [""; 0], "not counted");
        assert_eq!(
            found(&codes(&[]), &[("gfx1151", 100)]),
            ["kernels-lost: 0 kernels for gfx1151"]
        );
        // A target that is no longer wanted.
        assert_eq!(found(&now(Some(100)), &[("gfx942", 100)]), [""; 0]);
    }
}
