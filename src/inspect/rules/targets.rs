//! Rules about GPU targets and the presence of GPU code. They look at all
//! subjects together: a component's packages serve a GPU as a set.

use std::collections::{BTreeMap, BTreeSet};

use super::{Rule, RuleId, Severity};
use crate::gpu::GpuTarget;
use crate::inspect::expectations::Expectations;
use crate::inspect::facts::{DeviceCode, FileFacts, Storage, Subject, Target};
use crate::inspect::report::Finding;

pub(super) const MISSING: Rule = Rule {
    id: RuleId("gpu-target-missing"),
    severity: Severity::Error,
    what: "no GPU code in the set runs on a wanted target",
    why: "programs fail on that GPU with `invalid device function` or fall back to the CPU without a word; \
          distributions have shipped packages for the wrong targets for months",
    incident: "",
    mend: "pass the target to the component's build system under the name it reads (`gpu-targets` in \
           component.toml), look into the build log for the compiler's `--offload-arch`, and build again",
};

pub(super) const ABSENT: Rule = Rule {
    id: RuleId("device-code-absent"),
    severity: Severity::Error,
    what: "the component promises GPU code, and the set has none",
    why: "the build went on without ROCm, mostly because it did not find the compiler, and made a CPU-only package",
    incident: "",
    mend: "find out in the build log why the GPU part was switched off (no HIP compiler, no ROCM_PATH, an option \
           that is off), or state in component.toml that the component has no device code",
};

pub(super) const UNEXPECTED: Rule = Rule {
    id: RuleId("gpu-target-unexpected"),
    severity: Severity::Warning,
    what: "the set has GPU code for a target that nobody asked for",
    why: "it makes the package larger, and it is mostly the sign of a target list that did not reach the build",
    incident: "",
    mend: "set the target list for every build system that the component uses, drop the prebuilt code of other \
           targets from the package, or add the target to `gpu-targets`",
};

pub(super) const BROADER: Rule = Rule {
    id: RuleId("gpu-target-generic"),
    severity: Severity::Info,
    what: "a wanted target is served only by a generic target or by SPIR-V",
    why: "the code runs, but was not compiled for that GPU in particular: it may be slower, SPIR-V is compiled \
          anew when it is loaded, and a generic target needs ROCm 6.3 or newer",
    incident: "",
    mend: "nothing needs mending; add the exact target to the build where speed matters",
};

pub(super) const KPACK: Rule = Rule {
    id: RuleId("kpack-not-read"),
    severity: Severity::Info,
    what: "GPU code was moved to kpack archives, which are not read",
    why: "what the archives hold for which GPU is not known, so a target that is not found elsewhere is not \
          called missing",
    incident: "",
    mend: "check the archives (`.kpack`) by hand, or build with KPACK_SPLIT_ARTIFACTS=OFF",
};

pub(super) fn check(subjects: &[Subject], expectations: &Expectations) -> Vec<Finding> {
    let set: Vec<(&Subject, &FileFacts, &DeviceCode)> = subjects
        .iter()
        .filter(|subject| !subject.debug)
        .flat_map(|subject| subject.files.iter().map(move |file| (subject, file)))
        .flat_map(|(subject, file)| file.device.iter().map(move |code| (subject, file, code)))
        .collect();
    let wanted = &expectations.gpu_targets;
    if set.is_empty() {
        let promised = expectations.device_code == Some(true);
        return promised.then(|| absent(subjects, wanted)).into_iter().collect();
    }
    let kpack = set.iter().find(|(.., code)| code.storage == Storage::Kpack);
    let targets: BTreeSet<&Target> = set.iter().map(|(.., code)| &code.target).collect();
    let places = places(&set);
    let mut findings = Vec::new();
    for gpu in wanted.iter().collect::<BTreeSet<_>>() {
        findings.extend(served(gpu, &targets, &places, kpack.is_some()));
    }
    if let Some((subject, file, _)) = kpack {
        let found = "a reference to kpack archives (.rocm_kpack_ref) instead of GPU code";
        findings.push(KPACK.finding(found, "GPU code that can be read").at(subject, file));
    }
    if !wanted.is_empty() {
        findings.extend(unexpected(&set, wanted));
    }
    findings
}

fn absent(subjects: &[Subject], wanted: &[GpuTarget]) -> Finding {
    let files: usize = subjects.iter().map(|subject| subject.files.len()).sum();
    let expected = match wanted {
        [] => "GPU code".to_owned(),
        wanted => format!("GPU code for {}", list(wanted)),
    };
    let files =
        if files == 1 { "1 ELF file or bundle".to_owned() } else { format!("{files} ELF files and bundles") };
    ABSENT.finding(format!("no GPU code in {files}"), expected)
}

/// Says in which files the GPU code is.
fn places(set: &[(&Subject, &FileFacts, &DeviceCode)]) -> String {
    let files: BTreeSet<_> = set.iter().map(|(subject, file, _)| (&subject.path, &file.path)).collect();
    match files.first() {
        Some((_, file)) if files.len() == 1 => format!("in {file}"),
        Some((_, file)) => format!("in {} files, such as {file}", files.len()),
        None => String::new(),
    }
}

fn served(gpu: &GpuTarget, targets: &BTreeSet<&Target>, places: &str, kpack: bool) -> Option<Finding> {
    let serving: Vec<&Target> = targets.iter().copied().filter(|target| target.serves(gpu)).collect();
    let exact = |target: &&Target| matches!(target, Target::Gpu(t) if t.processor() == gpu.processor());
    match serving.is_empty() {
        true if kpack => None,
        true => {
            let found = format!("GPU code for {} {places}", list(targets));
            Some(MISSING.finding(found, format!("GPU code for {gpu}")))
        }
        false if serving.iter().any(exact) => None,
        false => Some(BROADER.finding(
            format!("{gpu} is served by {}", list(&serving)),
            format!("GPU code for {gpu}, or a target that covers it"),
        )),
    }
}

/// One finding for each subject and target, at the first file that has it: data
/// folders hold hundreds of files for one target.
fn unexpected(set: &[(&Subject, &FileFacts, &DeviceCode)], wanted: &[GpuTarget]) -> Vec<Finding> {
    let mut found: BTreeMap<(&str, &Target), Vec<_>> = BTreeMap::new();
    for (subject, file, code) in set {
        let asked = code.target == Target::Unread || wanted.iter().any(|gpu| code.target.serves(gpu));
        if !asked {
            found.entry((&subject.path, &code.target)).or_default().push((*subject, *file, *code));
        }
    }
    let findings = found.into_iter().filter_map(|((_, target), places)| {
        let (subject, file, _) = *places.first()?;
        let count: u64 = places.iter().map(|(.., code)| code.count).sum();
        let objects = if count == 1 { "code object" } else { "code objects" };
        let files = places.iter().map(|(_, file, _)| &file.path).collect::<BTreeSet<_>>().len();
        let files = if files == 1 { String::new() } else { format!(" in {files} files") };
        let expected = format!("GPU code for {} only", list(wanted));
        let finding = UNEXPECTED.finding(format!("{count} {objects} for {target}{files}"), expected);
        Some(finding.at(subject, file))
    });
    findings.collect()
}

fn list(items: impl IntoIterator<Item: ToString>) -> String {
    let texts: BTreeSet<String> = items.into_iter().map(|item| item.to_string()).collect();
    texts.into_iter().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(name: &str, codes: &[(Target, Storage)]) -> Subject {
        let device = codes.iter().map(|(target, storage)| DeviceCode {
            target: target.clone(),
            storage: *storage,
            compression: None,
            version: None,
            count: 2,
            bytes: 100,
            kernels: None,
        });
        let file = FileFacts {
            path: "/usr/lib64/libk.so".into(),
            bundles: 1,
            device: device.collect(),
            ..FileFacts::default()
        };
        crate::inspect::testing::subject(name, vec![file])
    }

    fn gpu(name: &str) -> Target {
        Target::Gpu(GpuTarget::parse(name).unwrap())
    }

    fn with(targets: &[&str]) -> Subject {
        let codes: Vec<_> = targets.iter().map(|t| (gpu(t), Storage::HipFatbin)).collect();
        subject("a.rpm", &codes)
    }

    fn ids(subjects: &[Subject], wanted: &[&str], promised: Option<bool>) -> Vec<String> {
        let gpu_targets = wanted.iter().map(|t| GpuTarget::parse(t).unwrap()).collect();
        let expectations = Expectations { gpu_targets, device_code: promised, ..Default::default() };
        check(subjects, &expectations).into_iter().map(|f| format!("{}: {}", f.id, f.found)).collect()
    }

    #[test]
    fn what_is_wanted_and_there_is_no_finding() {
        assert_eq!(ids(&[with(&["gfx1151"])], &["gfx1151"], Some(true)), [""; 0]);
        assert_eq!(ids(&[with(&["gfx1151", "gfx1100"])], &["gfx1100", "gfx1151"], None), [""; 0]);
        // One package of the set suffices.
        assert_eq!(ids(&[with(&["gfx1151"]), with(&[])], &["gfx1151"], Some(true)), [""; 0]);
        // Nothing wanted: nothing judged.
        assert_eq!(ids(&[with(&["gfx900"])], &[], Some(true)), [""; 0]);
    }

    #[test]
    fn a_wanted_target_without_code_is_missing() {
        let found = ids(&[with(&["gfx1100"])], &["gfx1151"], None);
        assert_eq!(
            found,
            [
                "gpu-target-missing: GPU code for gfx1100 in /usr/lib64/libk.so",
                "gpu-target-unexpected: 2 code objects for gfx1100"
            ]
        );
        let found = ids(&[with(&["gfx90a:xnack+"])], &["gfx90a:xnack-"], None);
        assert!(found[0].starts_with("gpu-target-missing"));
        assert_eq!(ids(&[with(&[])], &["gfx1151"], None), [""; 0], "no code and none promised");
    }

    #[test]
    fn generic_targets_and_spirv_satisfy_and_it_is_said() {
        let found = ids(&[with(&["gfx11-generic"])], &["gfx1151"], Some(true));
        assert_eq!(found, ["gpu-target-generic: gfx1151 is served by gfx11-generic"]);
        let spirv = subject("a.rpm", &[(Target::Spirv, Storage::HipFatbin)]);
        let found = ids(&[spirv], &["gfx1151"], Some(true));
        assert_eq!(found, ["gpu-target-generic: gfx1151 is served by amdgcnspirv"]);
        assert_eq!(ids(&[with(&["gfx11-generic", "gfx1151"])], &["gfx1151"], None), [""; 0]);
    }

    #[test]
    fn promised_code_that_is_absent_is_one_finding() {
        let found = ids(&[with(&[])], &["gfx1100", "gfx1151"], Some(true));
        assert_eq!(found, ["device-code-absent: no GPU code in 1 ELF file or bundle"]);
        assert_eq!(ids(&[with(&[])], &["gfx1151"], Some(false)), [""; 0]);
    }

    #[test]
    fn debugging_packages_do_not_count() {
        let debug = subject("a-debuginfo.rpm", &[(gpu("gfx1151"), Storage::HipFatbin)]);
        assert!(ids(&[debug], &["gfx1151"], Some(true))[0].starts_with("device-code-absent"));
    }

    #[test]
    fn unknown_processors_are_unexpected() {
        let unknown = (Target::Unknown("gfx9999".into()), Storage::HipFatbin);
        let found =
            ids(&[subject("a.rpm", &[unknown, (gpu("gfx1151"), Storage::HipFatbin)])], &["gfx1151"], None);
        assert_eq!(found, ["gpu-target-unexpected: 2 code objects for gfx9999"]);
    }

    #[test]
    fn kpack_archives_are_neither_absent_nor_missing() {
        let kpack = subject("a.rpm", &[(Target::Unread, Storage::Kpack)]);
        let found = ids(&[kpack], &["gfx1151"], Some(true));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("kpack-not-read"));
    }
}
