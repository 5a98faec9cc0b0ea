//! Rules about how much GPU code there is for a target: compared with the other
//! targets of the same file, and with the last build.

use std::collections::BTreeMap;

use super::{Rule, RuleId, Severity};
use crate::gpu::GpuTarget;
use crate::inspect::expectations::Expectations;
use crate::inspect::facts::{DeviceCode, FileFacts, Storage, Subject, Target};
use crate::inspect::report::Finding;

/// A sibling with fewer kernels says nothing about how many there should be.
const LEAST: u64 = 10;

pub(super) const FEW: Rule = Rule {
    id: RuleId("kernels-few"),
    severity: Severity::Warning,
    what: "a file has far fewer kernels for a wanted target than for the others: less than half of their median",
    why: "the target is there, so that every list of targets looks right, and most calls fail on it all the same",
    incident: "ROCm/rocm-systems, pull request 6362: packages had the right target with 3 of 646 kernels",
    mend: "look into the build log for compiler calls without the target; where upstream has fewer kernels for \
           this GPU, waive it with the number as the reason",
};

pub(super) const LOST: Rule = Rule {
    id: RuleId("kernels-lost"),
    severity: Severity::Warning,
    what: "the set has far fewer kernels for a target than in the last build: more than a fifth is gone",
    why: "a part of the build was left out without an error, or lost its target list",
    incident: "ROCm/rocm-systems, pull request 6362: packages had the right target with 3 of 646 kernels",
    mend: "compare both with `rocmrpm inspect --against`; where upstream dropped the kernels, the next build \
           compares with this one",
};

pub(super) fn check(subjects: &[Subject], expectations: &Expectations) -> Vec<Finding> {
    let subjects: Vec<&Subject> = subjects.iter().filter(|subject| !subject.debug).collect();
    let mut findings = Vec::new();
    for subject in &subjects {
        for file in &subject.files {
            for gpu in &expectations.gpu_targets {
                findings.extend(few(file, gpu).map(|finding| finding.at(subject, file)));
            }
        }
    }
    let device: Vec<&DeviceCode> = subjects
        .iter()
        .flat_map(|subject| &subject.files)
        .flat_map(|file| &file.device)
        .filter(|code| code.storage.serves() && code.storage != Storage::KernelFile)
        .collect();
    for (target, before) in &expectations.previous_kernels {
        let wanted = |gpu: &GpuTarget| GpuTarget::parse(target).is_none_or(|target| target.serves(gpu));
        let asked = expectations.gpu_targets.is_empty() || expectations.gpu_targets.iter().any(wanted);
        findings.extend(asked.then(|| lost(&device, target, *before)).flatten());
    }
    findings
}

fn few(file: &FileFacts, gpu: &GpuTarget) -> Option<Finding> {
    // Other storages have one target in a file.
    let many = |code: &&DeviceCode| {
        code.storage.serves()
            && !matches!(code.storage, Storage::CodeObject | Storage::KernelFile | Storage::Kpack)
            && matches!(code.target, Target::Gpu(_))
    };
    let codes: Vec<&DeviceCode> = file.device.iter().filter(many).collect();
    let counted = codes.iter().all(|code| code.kernels.is_some());
    let number = |code: &DeviceCode| if counted { code.kernels.unwrap_or(0) } else { code.count };
    let mut own: Option<u64> = None;
    let mut siblings: BTreeMap<&Target, u64> = BTreeMap::new();
    for code in codes {
        match code.target.serves(gpu) {
            true => own = Some(own.unwrap_or(0).saturating_add(number(code))),
            false => *siblings.entry(&code.target).or_default() += number(code),
        }
    }
    let mut numbers: Vec<u64> = siblings.into_values().filter(|number| *number >= LEAST).collect();
    numbers.sort_unstable();
    let (own, median) = (own?, *numbers.get(numbers.len() / 2)?);
    let what = if counted { "kernels" } else { "code objects" };
    (own < median.div_ceil(2)).then(|| {
        let found = format!("{own} {what} for {gpu}");
        FEW.finding(found, format!("about as many as for the other targets, whose median is {median}"))
    })
}

fn lost(device: &[&DeviceCode], target: &str, before: u64) -> Option<Finding> {
    let codes = device.iter().filter(|code| code.target.to_string() == target);
    let unread = device.iter().any(|code| code.target == Target::Unread);
    // What was not counted is not called lost.
    let now =
        codes.map(|code| code.kernels).try_fold(0u64, |sum, kernels| Some(sum.saturating_add(kernels?)))?;
    let least = before.saturating_sub(before / 5);
    (now < least && !unread).then(|| {
        let found = format!("{now} kernels for {target}");
        LOST.finding(found, format!("about {before}, as in the last build"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::testing::subject;

    fn codes(numbers: &[(&str, u64, Option<u64>)]) -> Vec<Subject> {
        let device = numbers.iter().map(|(target, count, kernels)| DeviceCode {
            target: Target::Gpu(GpuTarget::parse(target).unwrap()),
            storage: Storage::HipFatbin,
            compression: None,
            version: None,
            count: *count,
            bytes: 100,
            kernels: *kernels,
        });
        let file = FileFacts { path: "/a.so".into(), device: device.collect(), ..FileFacts::default() };
        vec![subject("a.rpm", vec![file])]
    }

    fn found(subjects: &[Subject], before: &[(&str, u64)]) -> Vec<String> {
        let previous_kernels = before.iter().map(|(target, count)| ((*target).to_owned(), *count)).collect();
        let gpu_targets = vec![GpuTarget::parse("gfx1151").unwrap()];
        let expectations = Expectations { gpu_targets, previous_kernels, ..Expectations::default() };
        check(subjects, &expectations).into_iter().map(|f| format!("{}: {}", f.id, f.found)).collect()
    }

    #[test]
    fn far_fewer_kernels_than_the_siblings_are_told() {
        let kernels =
            |own| codes(&[("gfx1151", 1, Some(own)), ("gfx1100", 1, Some(646)), ("gfx942", 1, Some(700))]);
        assert_eq!(found(&kernels(3), &[]), ["kernels-few: 3 kernels for gfx1151"]);
        assert_eq!(found(&kernels(349), &[]), ["kernels-few: 349 kernels for gfx1151"]);
        assert_eq!(found(&kernels(350), &[]), [""; 0]);
        // Without kernels that were counted, code objects are.
        let objects = codes(&[("gfx1151", 3, None), ("gfx1100", 60, Some(4))]);
        assert_eq!(found(&objects, &[]), ["kernels-few: 3 code objects for gfx1151"]);
        // What has no siblings with many cannot have too few.
        assert_eq!(found(&codes(&[("gfx1151", 1, Some(1)), ("gfx1100", 1, Some(9))]), &[]), [""; 0]);
        // Generic code counts as well.
        let generic =
            codes(&[("gfx1151", 1, Some(1)), ("gfx11-generic", 1, Some(500)), ("gfx942", 1, Some(500))]);
        assert_eq!(found(&generic, &[]), [""; 0]);
    }

    #[test]
    fn a_loss_since_the_last_build_is_told() {
        let now = |kernels| codes(&[("gfx1151", 1, kernels)]);
        assert_eq!(found(&now(Some(79)), &[("gfx1151", 100)]), ["kernels-lost: 79 kernels for gfx1151"]);
        assert_eq!(found(&now(Some(80)), &[("gfx1151", 100)]), [""; 0]);
        assert_eq!(found(&now(None), &[("gfx1151", 100)]), [""; 0], "not counted");
        assert_eq!(found(&codes(&[]), &[("gfx1151", 100)]), ["kernels-lost: 0 kernels for gfx1151"]);
        // A target that is wanted no more.
        assert_eq!(found(&now(Some(100)), &[("gfx942", 100)]), [""; 0]);
    }
}
