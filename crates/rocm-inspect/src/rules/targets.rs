//! Rules about GPU targets and the presence of GPU code. They consider all subjects together,
//! because a component's packages serve a GPU as a set. `counts` compares the number of kernels.

use std::collections::{BTreeMap, BTreeSet};

use super::served::{Unit, units};
use super::{Rule, RuleId, Severity};
use crate::expectations::Expectations;
use crate::facts::{DeviceCode, FileFacts, Storage, Subject, Target};
use crate::finding::Finding;
use rocmrpm_base::gpu::GpuTarget;

pub(super) const MISSING: Rule = Rule {
    id: RuleId("gpu-target-missing"),
    severity: Severity::Error,
    what: "no GPU code in the set runs on a wanted target",
    why: "programs fail on that GPU with `invalid device function` or silently fall back to the CPU; \
          distributions have shipped packages for the wrong targets for months",
    incident: "Fedora: from June to August 2026, python-torch was built only for PYTORCH_ROCM_ARCH=gfx1151, so \
               2.12.0-6 of Fedora 45 ran on no other GPU until 2.12.0-7 (\"Fix gpu list\")",
    help: "pass the target to the component's build system under the name that it reads (`gpu-targets` in \
           component.toml), check `--offload-arch` in the build log, and build again",
};

pub(super) const ABSENT: Rule = Rule {
    id: RuleId("device-code-absent"),
    severity: Severity::Error,
    what: "the component promises GPU code, but the set has none",
    why: "the build continued without ROCm, usually because it did not find the compiler, and produced a CPU-only \
          package",
    incident: "ROCm/rocm-systems, pull request 10685: device wheels were published without their kernels; \
               importing them worked, but the first kernel failed",
    help: "find out in the build log why GPU support was disabled (no HIP compiler, no ROCM_PATH, a disabled \
           option), or state in component.toml that the component has no device code",
};

pub(super) const UNEXPECTED: Rule = Rule {
    id: RuleId("gpu-target-unexpected"),
    severity: Severity::Warning,
    what: "the set has GPU code for a target that was not requested",
    why: "it makes the package larger, and usually means that the list of targets did not reach the build",
    incident: "ROCm/gsplat, issue 22: without a GPU on the build machine, the list of targets silently fell back \
               to gfx942; a distribution shipped one code object of a BLAS library only for the last target of its list",
    help: "set the list of targets for every build system that the component uses, remove prebuilt code for \
           other targets from the package, or add the target to `gpu-targets`",
};

pub(super) const BROADER: Rule = Rule {
    id: RuleId("gpu-target-generic"),
    severity: Severity::Info,
    what: "only a generic target or SPIR-V serves a wanted target",
    why: "the code runs, but is not optimized for that GPU: it may be slower, SPIR-V is compiled each time it \
          is loaded, and a generic target needs ROCm 6.3 or newer",
    incident: "Fedora: composable_kernel is built only for gfx11-generic and gfx12-generic",
    help: "nothing to fix; if speed matters, add the exact target to the build",
};

pub(super) const MISSING_IN_FILE: Rule = Rule {
    id: RuleId("gpu-target-missing-in-file"),
    severity: Severity::Error,
    what: "a file has GPU code for other targets, but none for a wanted target that other files of the set serve",
    why: "the set looks complete, but every program that uses this file fails on that GPU",
    incident: "Fedora 43 and 44: rccl, and in 43 hipsparselt, were built without gfx1151 although the libraries \
               next to them had it, because their specs have their own lists of targets",
    help: "pass the target to the part of the build that makes this file: libraries often have their own lists",
};

pub(super) const PARTIAL: Rule = Rule {
    id: RuleId("gpu-target-partial"),
    severity: Severity::Info,
    what: "a wanted target is in most bundles of a file, but not in all",
    why: "usually this is intended, because some kernels exist only for some GPUs, but a source file compiled \
          with a different list of targets looks the same",
    incident: "",
    help: "compare with upstream's build, or search the build log for compiler calls without the target",
};

type Code<'a> = (&'a Subject, &'a FileFacts, &'a DeviceCode);

pub(super) fn check(subjects: &[Subject], expectations: &Expectations) -> Vec<Finding> {
    let set: Vec<Code<'_>> = subjects
        .iter()
        .filter(|subject| !subject.debug)
        .flat_map(|subject| subject.files.iter().map(move |file| (subject, file)))
        .flat_map(|(subject, file)| file.device.iter().map(move |code| (subject, file, code)))
        // Tuning data, and code that no offload runtime loads, do not run programs.
        .filter(|(.., code)| code.storage.serves())
        .collect();
    let wanted: BTreeSet<&GpuTarget> = expectations.gpu_targets.iter().collect();
    if set.is_empty() {
        let promised = expectations.device_code == Some(true);
        return promised.then(|| absent(subjects, &expectations.gpu_targets)).into_iter().collect();
    }
    // `kpack` checks code that was moved to archives.
    let moved = set.iter().any(|(.., code)| code.target == Target::Unread);
    let targets: BTreeSet<&Target> = set.iter().map(|(.., code)| &code.target).collect();
    let places = places(&set);
    let units = units(subjects);
    let mut findings = Vec::new();
    for gpu in &wanted {
        findings.extend(served(gpu, &targets, &places, moved));
        if targets.iter().any(|target| target.serves(gpu)) {
            findings.extend(missing_in_files(gpu, &units));
        }
        findings.extend(partial(gpu, subjects));
    }
    // Prebuilt files may serve other GPUs too.
    if expectations.built && !wanted.is_empty() {
        findings.extend(unexpected(&set, &expectations.gpu_targets));
    }
    findings
}

/// Returns one finding for each folder: a problem of one library usually affects those next to it.
fn missing_in_files(gpu: &GpuTarget, units: &[Unit<'_>]) -> Vec<Finding> {
    type Folder<'a> = (&'a Subject, &'a FileFacts, BTreeSet<&'a Target>, u64);
    let mut folders: BTreeMap<(&str, &str), Folder<'_>> = BTreeMap::new();
    for unit in units.iter().filter(|unit| !unit.serves(gpu)) {
        let Some(file) = unit.files.first() else { continue };
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let (.., targets, count) = folders
            .entry((&unit.subject.path, folder))
            .or_insert_with(|| (unit.subject, file, BTreeSet::new(), 0));
        targets.extend(unit.code().map(|code| &code.target));
        *count += 1;
    }
    let findings = folders.into_values().map(|(subject, file, targets, count)| {
        let others = match count {
            1 => String::new(),
            2 => ", as in 1 more file of the folder".to_owned(),
            count => format!(", as in {} more files of the folder", count - 1),
        };
        let found = format!("GPU code for {}, but none that runs on {gpu}{others}", list(targets));
        MISSING_IN_FILE
            .finding(found, format!("GPU code for {gpu}, as in other files"))
            .at(subject, file)
    });
    findings.collect()
}

fn partial(gpu: &GpuTarget, subjects: &[Subject]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for subject in subjects.iter().filter(|subject| !subject.debug) {
        for file in &subject.files {
            let mut counts: BTreeMap<&Target, u64> = BTreeMap::new();
            let bundled = |code: &&DeviceCode| {
                matches!(code.storage, Storage::HipFatbin | Storage::OtherSection | Storage::Bundle)
            };
            for code in file.device.iter().filter(bundled).filter(|code| code.target.serves(gpu)) {
                *counts.entry(&code.target).or_default() += code.count;
            }
            // The variants of one processor are next to each other in a bundle; generic targets may
            // replace it in some bundles.
            let mut processors: BTreeMap<&str, u64> = BTreeMap::new();
            for (target, count) in &counts {
                let name = if let Target::Gpu(target) = target { target.processor() } else { "" };
                let most = processors.entry(name).or_default();
                *most = (*most).max(*count);
            }
            let count: u64 = processors.values().sum();
            if count < file.bundles && count * 2 > file.bundles {
                let found = format!("code for {gpu} in {count} of {} bundles", file.bundles);
                let expected = format!("code for {gpu} in every bundle, unless intended");
                findings.push(PARTIAL.finding(found, expected).at(subject, file));
            }
        }
    }
    findings
}

fn absent(subjects: &[Subject], wanted: &[GpuTarget]) -> Finding {
    let files: usize = subjects.iter().map(|subject| subject.files.len()).sum();
    let expected = match wanted {
        [] => "GPU code".to_owned(),
        wanted => format!("GPU code for {}", list(wanted)),
    };
    let files = if files == 1 {
        "1 ELF file or bundle".to_owned()
    } else {
        format!("{files} ELF files and bundles")
    };
    ABSENT.finding(format!("no GPU code in {files}"), expected)
}

/// Describes which files contain the GPU code.
fn places(set: &[Code<'_>]) -> String {
    let files: BTreeSet<_> =
        set.iter().map(|(subject, file, _)| (&subject.path, &file.path)).collect();
    match files.first() {
        Some((_, file)) if files.len() == 1 => format!("in {file}"),
        Some((_, file)) => format!("in {} files, such as {file}", files.len()),
        None => String::new(),
    }
}

fn served(
    gpu: &GpuTarget,
    targets: &BTreeSet<&Target>,
    places: &str,
    moved: bool,
) -> Option<Finding> {
    let serving: Vec<&Target> =
        targets.iter().copied().filter(|target| target.serves(gpu)).collect();
    let exact =
        |target: &&Target| matches!(target, Target::Gpu(t) if t.processor() == gpu.processor());
    match serving.is_empty() {
        true if moved => None,
        true => {
            let xnack = targets.iter().any(|target| is_for(target, gpu));
            let mode = if xnack { ", which requires XNACK (HSA_XNACK=1)" } else { "" };
            let found = format!("GPU code for {} {places}{mode}", list(targets));
            Some(MISSING.finding(found, format!("GPU code for {gpu}")))
        }
        false if serving.iter().any(exact) => None,
        false => Some(BROADER.finding(
            format!("{gpu} is served by {}", list(&serving)),
            format!("GPU code for {gpu}, or a target that covers it"),
        )),
    }
}

/// Returns one finding for each subject, at the first file with such code: data folders contain
/// hundreds of files, and libraries are built for dozens of targets.
fn unexpected(set: &[Code<'_>], wanted: &[GpuTarget]) -> Vec<Finding> {
    let mut found: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for (subject, file, code) in set {
        // Variants of one processor are next to each other.
        let serves = |code: &DeviceCode| wanted.iter().any(|gpu| is_for(&code.target, gpu));
        // A kernel file for a family of processors serves the wanted ones among them.
        let family = code.storage == Storage::KernelFile
            && file
                .device
                .iter()
                .any(|other| other.storage == Storage::KernelFile && serves(other));
        let asked = code.target == Target::Unread || family || serves(code);
        if !asked {
            found.entry(&subject.path).or_default().push((*subject, *file, *code));
        }
    }
    let findings = found.into_values().filter_map(|places| {
        let (subject, file, _) = *places.first()?;
        let count: u64 = places.iter().map(|(.., code)| code.count).fold(0, u64::saturating_add);
        let objects = if count == 1 { "code object" } else { "code objects" };
        let targets: BTreeSet<String> =
            places.iter().map(|(.., code)| code.target.to_string()).collect();
        let files = places.iter().map(|(_, file, _)| &file.path).collect::<BTreeSet<_>>().len();
        let files = if files == 1 { String::new() } else { format!(" in {files} files") };
        let number =
            if targets.len() < 4 { String::new() } else { format!("{} targets: ", targets.len()) };
        // A file may contain any number of unknown names, more than there are GPUs.
        let more = targets.len().saturating_sub(MAX_TARGETS);
        let mut names: Vec<String> = targets.into_iter().take(MAX_TARGETS).collect();
        names.extend((more > 0).then(|| format!("and {more} more")));
        let expected = format!("GPU code for {} only", list(wanted));
        let found = format!("{count} {objects}{files} for {number}{}", names.join(", "));
        Some(UNEXPECTED.finding(found, expected).at(subject, file))
    });
    findings.collect()
}

fn is_for(target: &Target, gpu: &GpuTarget) -> bool {
    let same =
        |target: &GpuTarget| target.processor() == gpu.processor() && !target.contradicts(gpu);
    target.serves(gpu) || matches!(target, Target::Gpu(target) if same(target))
}

/// How many targets a finding lists.
const MAX_TARGETS: usize = 80;

fn list(items: impl IntoIterator<Item: ToString>) -> String {
    let texts: BTreeSet<String> = items.into_iter().map(|item| item.to_string()).collect();
    texts.into_iter().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Storage;
    use crate::testing::{device_code, gpu};

    fn subject(name: &str, codes: &[(Target, Storage)]) -> Subject {
        let device = codes.iter().map(|(target, storage)| DeviceCode {
            storage: *storage,
            count: 2,
            ..device_code(target.clone())
        });
        let file = FileFacts {
            path: "/usr/lib64/libk.so".into(),
            bundles: 1,
            device: device.collect(),
            ..FileFacts::default()
        };
        crate::testing::subject(name, vec![file])
    }

    fn with(targets: &[&str]) -> Subject {
        let codes: Vec<_> = targets.iter().map(|t| (gpu(t), Storage::HipFatbin)).collect();
        subject("a.rpm", &codes)
    }

    fn ids(subjects: &[Subject], wanted: &[&str], promised: Option<bool>) -> Vec<String> {
        let gpu_targets = wanted.iter().map(|t| GpuTarget::parse(t).unwrap()).collect();
        let expectations =
            Expectations { gpu_targets, built: true, device_code: promised, ..Default::default() };
        check(subjects, &expectations)
            .into_iter()
            .map(|f| format!("{}: {}", f.id, f.found))
            .collect()
    }

    #[test]
    fn accepts_wanted_targets_with_code() {
        assert_eq!(ids(&[with(&["gfx1151"])], &["gfx1151"], Some(true)), [""; 0]);
        assert_eq!(ids(&[with(&["gfx1151", "gfx1100"])], &["gfx1100", "gfx1151"], None), [""; 0]);
        // One package of the set is sufficient.
        assert_eq!(ids(&[with(&["gfx1151"]), with(&[])], &["gfx1151"], Some(true)), [""; 0]);
        // Without wanted targets, nothing is judged.
        assert_eq!(ids(&[with(&["gfx900"])], &[], Some(true)), [""; 0]);
    }

    #[test]
    fn reports_a_wanted_target_without_code() {
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
    fn accepts_generic_targets_and_spirv_with_a_note() {
        let found = ids(&[with(&["gfx11-generic"])], &["gfx1151"], Some(true));
        assert_eq!(found, ["gpu-target-generic: gfx1151 is served by gfx11-generic"]);
        let spirv = subject("a.rpm", &[(Target::Spirv, Storage::HipFatbin)]);
        let found = ids(&[spirv], &["gfx1151"], Some(true));
        assert_eq!(found, ["gpu-target-generic: gfx1151 is served by amdgcnspirv"]);
        assert_eq!(ids(&[with(&["gfx11-generic", "gfx1151"])], &["gfx1151"], None), [""; 0]);
    }

    #[test]
    fn reports_missing_promised_code_once() {
        let found = ids(&[with(&[])], &["gfx1100", "gfx1151"], Some(true));
        assert_eq!(found, ["device-code-absent: no GPU code in 1 ELF file or bundle"]);
        assert_eq!(ids(&[with(&[])], &["gfx1151"], Some(false)), [""; 0]);
    }

    #[test]
    fn requires_code_without_xnack() {
        let found = ids(&[with(&["gfx90a:xnack+"])], &["gfx90a"], None);
        assert_eq!(
            found,
            [
                "gpu-target-missing: GPU code for gfx90a:xnack+ in /usr/lib64/libk.so, which requires XNACK \
                 (HSA_XNACK=1)"
            ]
        );
        assert_eq!(ids(&[with(&["gfx90a:xnack+", "gfx90a:xnack-"])], &["gfx90a"], None), [""; 0]);
    }

    #[test]
    fn accepts_more_targets_in_prebuilt_files() {
        let gpu_targets = vec![GpuTarget::parse("gfx1151").unwrap()];
        let expectations = Expectations { gpu_targets, ..Default::default() };
        assert_eq!(check(&[with(&["gfx1151", "gfx942"])], &expectations), []);
    }

    fn file(path: &str, bundles: u64, codes: &[(&str, Storage, u64)]) -> FileFacts {
        let device = codes.iter().map(|(target, storage, count)| DeviceCode {
            storage: *storage,
            count: *count,
            ..device_code(gpu(target))
        });
        FileFacts { path: path.into(), bundles, device: device.collect(), ..FileFacts::default() }
    }

    fn of_files(files: Vec<FileFacts>) -> Subject {
        crate::testing::subject("a.rpm", files)
    }

    #[test]
    fn reports_a_library_without_the_target() {
        let with = file("/usr/lib64/liba.so", 1, &[("gfx1151", Storage::HipFatbin, 1)]);
        let without = |path: &str| file(path, 1, &[("gfx1100", Storage::HipFatbin, 1)]);
        let set = of_files(vec![
            with.clone(),
            without("/usr/lib64/libb.so"),
            without("/usr/lib64/libc.so"),
        ]);
        let found = ids(&[set], &["gfx1151"], None);
        assert_eq!(
            found[0],
            "gpu-target-missing-in-file: GPU code for gfx1100, but none that runs on gfx1151, as in 1 more \
             file of the folder"
        );
        assert_eq!(found.len(), 2, "{found:?}");
        // Data folders have one file per target.
        let data = file(
            "/usr/lib64/rocblas/library/k_gfx1100.co",
            0,
            &[("gfx1100", Storage::CodeObject, 1)],
        );
        let found = ids(&[of_files(vec![with.clone(), data])], &["gfx1151"], None);
        assert_eq!(found, ["gpu-target-unexpected: 1 code object for gfx1100"]);
        // A target that no file has is missing in all.
        let found = ids(&[of_files(vec![with])], &["gfx1201"], None);
        assert!(found.iter().all(|f| !f.contains("in-file")), "{found:?}");
    }

    #[test]
    fn reports_a_target_in_most_bundles_with_counts() {
        let found = |bundles, codes: &[(&str, Storage, u64)]| {
            ids(&[of_files(vec![file("/a.so", bundles, codes)])], &["gfx1151"], None)
        };
        let fatbin = Storage::HipFatbin;
        assert_eq!(
            found(10, &[("gfx1151", fatbin, 9)]),
            ["gpu-target-partial: code for gfx1151 in 9 of 10 bundles"]
        );
        assert_eq!(found(10, &[("gfx1151", fatbin, 10)]), [""; 0]);
        assert_eq!(found(10, &[("gfx1151", fatbin, 5)]), [""; 0], "kernels for some GPUs only");
        let generic =
            found(10, &[("gfx1151", fatbin, 8), ("gfx11-generic", Storage::OtherSection, 2)]);
        assert_eq!(generic, [""; 0]);
    }

    #[test]
    fn ignores_tuning_data_and_handlers() {
        for storage in [Storage::DataFile, Storage::Embedded] {
            let set =
                of_files(vec![file("/a", 0, &[("gfx1151", storage, 1), ("gfx900", storage, 1)])]);
            let found = ids(&[set], &["gfx1151"], Some(true));
            assert_eq!(found, ["device-code-absent: no GPU code in 1 ELF file or bundle"]);
        }
    }

    #[test]
    fn accepts_kernels_for_a_family_of_processors() {
        let kernels = |targets: &[&str]| {
            let codes: Vec<_> =
                targets.iter().map(|target| (*target, Storage::KernelFile, 1)).collect();
            ids(&[of_files(vec![file("/a.aks2", 0, &codes)])], &["gfx1151"], None)
        };
        assert_eq!(kernels(&["gfx1150", "gfx1151"]), [""; 0]);
        assert_eq!(kernels(&["gfx942"]).len(), 2);
    }

    #[test]
    fn ignores_debugging_packages() {
        let debug = subject("a-debuginfo.rpm", &[(gpu("gfx1151"), Storage::HipFatbin)]);
        assert!(ids(&[debug], &["gfx1151"], Some(true))[0].starts_with("device-code-absent"));
    }

    #[test]
    fn groups_many_unexpected_targets() {
        let set = with(&["gfx1151", "gfx1030", "gfx1100", "gfx90a", "gfx942"]);
        assert_eq!(
            ids(&[set], &["gfx1151"], None),
            [
                "gpu-target-unexpected: 8 code objects for 4 targets: gfx1030, gfx1100, gfx90a, gfx942"
            ]
        );
    }

    #[test]
    fn reports_unknown_processors_as_unexpected() {
        let unknown = (Target::Unknown("gfx9999".into()), Storage::HipFatbin);
        let found = ids(
            &[subject("a.rpm", &[unknown, (gpu("gfx1151"), Storage::HipFatbin)])],
            &["gfx1151"],
            None,
        );
        assert_eq!(found, ["gpu-target-unexpected: 2 code objects for gfx9999"]);
    }

    #[test]
    fn accepts_code_in_kpack_archives_and_references_to_them() {
        let host = (Target::Unread, Storage::Kpack);
        assert_eq!(
            ids(&[subject("a.rpm", std::slice::from_ref(&host))], &["gfx1151"], Some(true)),
            [""; 0]
        );
        let both = subject("a.rpm", &[host, (gpu("gfx1100"), Storage::Kpack)]);
        assert_eq!(ids(std::slice::from_ref(&both), &["gfx1100"], Some(true)), [""; 0]);
        let found = ids(&[both], &["gfx1151"], Some(true));
        assert_eq!(found, ["gpu-target-unexpected: 2 code objects for gfx1100"]);
    }
}
