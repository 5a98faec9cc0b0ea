//! Rules about kpack archives: whether every reference leads to its archive, and whether the
//! archive has code for the wanted targets. `placement` resolves the paths.

use std::collections::BTreeSet;

use super::placement::{Installed, InstalledFile, Placement};
use super::{Rule, RuleId, Severity};
use crate::expectations::Expectations;
use crate::facts::{FileFacts, KpackArchive, KpackReference, Subject, Target};
use crate::finding::Finding;
use rocmrpm_base::gpu::GpuTarget;

pub(super) const UNRESOLVED: Rule = Rule {
    id: RuleId("kpack-reference-unresolved"),
    severity: Severity::Error,
    what: "a library's GPU code was moved to kpack archives, but the set does not contain them",
    why: "the library loads and the GPU is found, but the first kernel fails with hipErrorInvalidImage",
    incident: "lemonade-sdk/vllm-rocm (docs/upstream/gfx1151-vllm-hiperrorinvalidimage.md): an upload skipped \
               the folders `.kpack`; imports and device detection worked, but every kernel failed",
    help: "put the archives where the library searches for them, relative to its own folder, including hidden \
           folders; inspect the packages that have them together with this one; or build with KPACK_SPLIT_ARTIFACTS=OFF",
};

pub(super) const MISSING: Rule = Rule {
    id: RuleId("kpack-target-missing"),
    severity: Severity::Error,
    what: "a library's kpack archives have no code for a wanted target",
    why: "the loader finds the archive but no code in it, and the first kernel fails; the archive lists code \
          under the library's name at the time of the split, so a library renamed later fails, too",
    incident: "",
    help: "split the library and write its archives in one build, for all wanted targets, and do not rename \
           them afterwards",
};

pub(super) const PARTIAL: Rule = Rule {
    id: RuleId("kpack-target-partial"),
    severity: Severity::Info,
    what: "the kpack archives have some pieces of a library's code for other targets but not for a wanted one",
    why: "usually this is intended, because many kernels exist only for some GPUs",
    incident: "",
    help: "nothing to fix if the sources exclude the target; otherwise check the build's list of \
           targets",
};

pub(super) const MISPLACED: Rule = Rule {
    id: RuleId("kpack-archive-misplaced"),
    severity: Severity::Error,
    what: "a component has a package for each GPU target, but a kpack archive is outside of its target's package",
    why: "dnf installs the archive for GPUs that the user did not choose; an archive without a package of its \
          target was built for a GPU that the stack does not want",
    incident: "",
    help: "write `%exclude_device_archives` into the %files of the package with the library, build only for \
           `gpu-targets`, and name each archive after its target",
};

/// The placeholder for a target in search paths. Source: ROCm/rocm-systems, `shared/kpack`,
/// `runtime/src/loader.cpp`.
const PLACEHOLDER: &str = "@GFXARCH@";

/// How many targets or files a finding names.
const NAMED: usize = 8;

pub(super) fn check(subjects: &[Subject], expectations: &Expectations) -> Vec<Finding> {
    let hosts: Vec<_> = subjects
        .iter()
        .filter(|subject| !subject.debug)
        .flat_map(|subject| subject.files.iter().map(move |file| (subject, file)))
        .filter_map(|(subject, file)| Some((subject, file, file.kpack_reference.as_ref()?)))
        .collect();
    let mut findings = misplaced(subjects, expectations);
    if hosts.is_empty() {
        return findings;
    }
    let installed = Installed::new(subjects);
    let wanted: BTreeSet<&GpuTarget> = expectations.gpu_targets.iter().collect();
    for (subject, file, reference) in hosts {
        let archives = Archives::of(&installed, subject, file, reference);
        let found = archives.judge(reference, &wanted);
        findings.extend(found.into_iter().map(|finding| finding.at(subject, file)));
    }
    findings
}

/// Checks that RPMs built here have archives only for the targets that they provide, if one of them
/// has nothing else: then each target has its package.
fn misplaced(subjects: &[Subject], expectations: &Expectations) -> Vec<Finding> {
    let packages: Vec<(&Subject, &BTreeSet<String>)> = subjects
        .iter()
        .filter(|subject| expectations.built && !subject.debug)
        .filter_map(|subject| Some((subject, subject.contents.gpu_provides.as_ref()?)))
        .collect();
    let of_target = |(subject, provided): &(&Subject, &BTreeSet<String>)| {
        let only = subject.files.iter().all(|file| file.kpack.is_some());
        only && !subject.files.is_empty() && !provided.is_empty()
    };
    if !packages.iter().any(of_target) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (subject, provided) in packages {
        let provided: Vec<_> = provided.iter().filter_map(|name| GpuTarget::parse(name)).collect();
        for file in &subject.files {
            let targets = file.kpack.iter().flat_map(|archive| &archive.targets);
            let mut others =
                targets.filter(|target| !provided.iter().any(|gpu| target.serves(gpu)));
            if let Some(target) = others.next() {
                let expected = format!("only in a package that provides rocm-gfx({target})");
                let found = format!("a kpack archive for {target}");
                findings.push(MISPLACED.finding(found, expected).at(subject, file));
            }
        }
    }
    findings
}

/// The archives that a reference's search paths lead to.
struct Archives<'a> {
    /// The search paths from the root, with their placeholders.
    paths: Vec<String>,
    /// The archives: the path, the target in the path if it has a placeholder, and the content if
    /// readable.
    found: Vec<(String, Option<GpuTarget>, Option<&'a KpackArchive>)>,
}

impl<'a> Archives<'a> {
    fn of(
        installed: &Installed<'a>,
        subject: &Subject,
        file: &FileFacts,
        reference: &KpackReference,
    ) -> Self {
        let placement = Placement::of(subject);
        let own = placement.path(&file.path);
        let (mut paths, mut found) = (Vec::new(), Vec::new());
        for search in &reference.search_paths {
            let path = own.resolve(search);
            match path.split_once(PLACEHOLDER) {
                Some((before, after)) => {
                    for (full, place) in installed.starting(&placement, before) {
                        let middle = full[before.len()..].strip_suffix(after);
                        if let Some(target) = middle.and_then(GpuTarget::parse) {
                            found.push((full.to_owned(), Some(target), archive(place)));
                        }
                    }
                }
                None => {
                    if let Some(place) = installed.at(&placement, &path) {
                        found.push((path.clone(), None, archive(place)));
                    }
                }
            }
            paths.push(path);
        }
        Self { paths, found }
    }

    fn judge(&self, reference: &KpackReference, wanted: &BTreeSet<&GpuTarget>) -> Vec<Finding> {
        let mut unresolved = BTreeSet::new();
        let (mut missing, mut partial, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        let targets: Vec<Option<&GpuTarget>> = match wanted.is_empty() {
            true => vec![None],
            false => wanted.iter().copied().map(Some).collect(),
        };
        for gpu in targets {
            let here: Vec<_> =
                self.found.iter().filter(|(_, target, _)| serves(target.as_ref(), gpu)).collect();
            if here.is_empty() {
                unresolved.insert(gpu);
                continue;
            }
            match self.pieces(reference, gpu, here.iter().filter_map(|(.., archive)| *archive)) {
                Pieces::All => {}
                Pieces::Elsewhere(count) => partial.push(format!(
                    "{} of {} pieces for {}",
                    reference.pieces.saturating_sub(count),
                    reference.pieces,
                    name(gpu)
                )),
                Pieces::Missing(key) => {
                    let (path, _, archive) = here[0];
                    let unread =
                        if archive.is_none() { ", which is empty or cannot be read" } else { "" };
                    missing.push(format!("no code for {} in {path}{unread}", name(gpu)));
                    expected.push(format!("`{key}` for {}", name(gpu)));
                }
            }
        }
        let mut findings = Vec::new();
        if !unresolved.is_empty() {
            let paths = some(self.paths.iter().flat_map(|path| expanded(path, &unresolved)));
            findings.push(UNRESOLVED.finding(
                format!("a reference to missing kpack archives: {paths}"),
                "the archives at the referenced paths in the set",
            ));
        }
        if !missing.is_empty() {
            findings.push(MISSING.finding(some(missing.into_iter()), some(expected.into_iter())));
        }
        if !partial.is_empty() {
            findings.push(PARTIAL.finding(
                some(partial.into_iter()),
                format!("{} pieces, unless the sources exclude the target", reference.pieces),
            ));
        }
        findings
    }

    /// Checks whether `archives` have every piece for the target. The run time must not depend on
    /// the number of pieces, which is an untrusted number in the file.
    fn pieces<'b>(
        &self,
        reference: &KpackReference,
        gpu: Option<&GpuTarget>,
        archives: impl Iterator<Item = &'b KpackArchive>,
    ) -> Pieces {
        let archives: Vec<_> =
            archives.filter(|a| a.targets.iter().any(|t| runs(t, gpu))).collect();
        let count = reference.pieces;
        let of = |archives: &[&KpackArchive], gpu| -> BTreeSet<u64> {
            let keys = archives.iter().flat_map(|archive| keys(archive, reference));
            keys.filter(|(_, targets)| targets.iter().any(|t| runs(t, gpu)))
                .map(|(index, _)| index)
                .collect()
        };
        let mine = of(&archives, gpu);
        if mine.len() as u64 == count {
            return Pieces::All;
        }
        let all: Vec<_> = self.found.iter().filter_map(|(.., archive)| *archive).collect();
        let mut anywhere = of(&all, None);
        anywhere.extend(&mine);
        match mine.is_empty() || (anywhere.len() as u64) < count {
            true => {
                let known = if mine.is_empty() { &mine } else { &anywhere };
                let first = (0..count).find(|index| !known.contains(index)).unwrap_or_default();
                Pieces::Missing(format!("{}#{first}", reference.kernel_name))
            }
            false => Pieces::Elsewhere(count - mine.len() as u64),
        }
    }
}

enum Pieces {
    All,
    /// This many pieces exist only for other targets.
    Elsewhere(u64),
    /// The key of the first missing piece.
    Missing(String),
}

/// Yields the pieces of the reference's library in an archive, with their targets.
fn keys<'a>(
    archive: &'a KpackArchive,
    reference: &'a KpackReference,
) -> impl Iterator<Item = (u64, &'a BTreeSet<Target>)> {
    let prefix = format!("{}#", reference.kernel_name);
    let from = archive.table.range(prefix.clone()..);
    let own =
        from.map_while(move |(key, targets)| Some((key.strip_prefix(&prefix)?.parse(), targets)));
    own.filter_map(|(index, targets)| Some((index.ok()?, targets)))
        .filter(|(index, _)| *index < reference.pieces)
}

fn archive<'a>(place: InstalledFile<'a>) -> Option<&'a KpackArchive> {
    place.file.and_then(|file| file.kpack.as_ref())
}

fn serves(target: Option<&GpuTarget>, gpu: Option<&GpuTarget>) -> bool {
    match (target, gpu) {
        (Some(target), Some(gpu)) => target.serves(gpu),
        _ => true,
    }
}

fn runs(target: &Target, gpu: Option<&GpuTarget>) -> bool {
    gpu.is_none_or(|gpu| target.serves(gpu))
}

fn name(gpu: Option<&GpuTarget>) -> &str {
    gpu.map_or("any target", GpuTarget::as_str)
}

/// Returns the paths that the loader tries for the targets: each with all its features, with fewer
/// of them, and with none. Source: the same, `runtime/src/isa_target_match.h`.
fn expanded(path: &str, targets: &BTreeSet<Option<&GpuTarget>>) -> Vec<String> {
    if !path.contains(PLACEHOLDER) {
        return vec![path.to_owned()];
    }
    let mut paths = Vec::new();
    for target in targets {
        let Some(target) = target else { return vec![path.to_owned()] };
        let features: Vec<&str> = target.as_str().split(':').skip(1).take(4).collect();
        for subset in (0..1_usize << features.len()).rev() {
            let kept = features
                .iter()
                .enumerate()
                .filter(|(i, _)| subset & 1 << (features.len() - 1 - i) != 0);
            let kept: String = kept.map(|(_, feature)| format!(":{feature}")).collect();
            paths.push(path.replacen(PLACEHOLDER, &format!("{}{kept}", target.processor()), 1));
        }
    }
    paths
}

fn some(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<String> = texts.collect();
    match texts.len().checked_sub(NAMED) {
        Some(more @ 1..) => format!("{} and {more} more", texts[..NAMED].join(", ")),
        _ => texts.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::SubjectKind;
    use crate::testing::subject;

    const SEARCH: &str = "../.kpack/k_lib_@GFXARCH@.kpack";

    fn host(path: &str, pieces: u64) -> FileFacts {
        let reference = KpackReference {
            kernel_name: "lib/libk.so".into(),
            search_paths: vec![SEARCH.into()],
            pieces,
        };
        FileFacts { path: path.into(), kpack_reference: Some(reference), ..FileFacts::default() }
    }

    fn gpu(text: &str) -> GpuTarget {
        GpuTarget::parse(text).unwrap()
    }

    /// An archive with these kernels, each for its list of targets.
    fn archive(path: &str, targets: &[&str], kernels: &[(&str, &[&str])]) -> FileFacts {
        let all = |names: &[&str]| {
            names.iter().map(|name| Target::Gpu(gpu(name))).collect::<BTreeSet<_>>()
        };
        let archive = KpackArchive {
            targets: all(targets).into_iter().collect(),
            entries: kernels.len() as u64,
            table: kernels.iter().map(|(name, targets)| (name.to_string(), all(targets))).collect(),
            ..KpackArchive::default()
        };
        FileFacts { path: path.into(), kpack: Some(archive), ..FileFacts::default() }
    }

    fn whole(path: &str, target: &str) -> FileFacts {
        archive(path, &[target], &[("lib/libk.so#0", &[target]), ("lib/libk.so#1", &[target])])
    }

    fn found(subjects: &[Subject], wanted: &[&str]) -> Vec<String> {
        let gpu_targets = wanted.iter().map(|target| gpu(target)).collect();
        let findings = check(subjects, &Expectations { gpu_targets, ..Expectations::default() });
        findings.into_iter().map(|f| format!("{}: {}", f.id, f.found)).collect()
    }

    #[test]
    fn accepts_references_to_existing_code() {
        let lib = "/opt/rocm/lib/libk.so";
        let place = "/opt/rocm/.kpack/k_lib_gfx1151.kpack";
        let one = subject("a.rpm", vec![host(lib, 2), whole(place, "gfx1151")]);
        assert_eq!(found(std::slice::from_ref(&one), &["gfx1151"]), [""; 0]);
        assert_eq!(found(&[one], &[]), [""; 0]);
        // The archive may be in another package of the set: RPMs with RPMs, wheels with wheels.
        let device = subject("b.rpm", vec![whole(place, "gfx1151")]);
        assert_eq!(found(&[subject("a.rpm", vec![host(lib, 2)]), device], &["gfx1151"]), [""; 0]);
        let wheels = [
            subject("k-1.whl", vec![host("k/lib/libk.so", 2)]),
            subject(
                "k_gfx1151-1.whl",
                vec![whole("k_gfx1151-1.data/platlib/k/.kpack/k_lib_gfx1151.kpack", "gfx1151")],
            ),
        ];
        assert_eq!(found(&wheels, &["gfx1151"]), [""; 0]);
        // An archive without features and one for a generic target are both sufficient.
        for (wanted, has) in [("gfx90a:xnack+", "gfx90a"), ("gfx1151", "gfx11-generic")] {
            let archive = whole(&format!("lib/.kpack/k_lib_{has}.kpack"), has);
            let folder = subject("out", vec![host("lib/x/libk.so", 2), archive]);
            assert_eq!(found(&[folder], &[wanted]), [""; 0]);
        }
    }

    #[test]
    fn reports_archives_outside_of_their_targets_package() {
        let (lib, folder) = ("/opt/rocm/lib/libk.so", "/opt/rocm/.kpack");
        let place = |target: &str| format!("{folder}/k_lib_{target}.kpack");
        let package = |provides: &[&str], files: Vec<FileFacts>| {
            let mut package = subject("a.rpm", files);
            package.contents.gpu_provides = Some(provides.iter().map(|&p| p.into()).collect());
            package
        };
        let device = |provided: &str, target: &str| {
            package(&[provided], vec![whole(&place(target), target)])
        };
        let found = |subjects: &[Subject], built| {
            let gpu_targets = vec![gpu("gfx1100"), gpu("gfx1151")];
            let expectations = Expectations { gpu_targets, built, ..Expectations::default() };
            let findings = check(subjects, &expectations).into_iter();
            findings
                .map(|f| format!("{}: {}: {}", f.id, f.file.unwrap(), f.found))
                .collect::<Vec<_>>()
        };
        let main = package(&[], vec![host(lib, 2)]);
        let split = [main.clone(), device("gfx1100", "gfx1100"), device("gfx1151", "gfx1151")];
        assert_eq!(found(&split, true), [""; 0]);
        let generic = [main, device("gfx1100", "gfx11-generic"), package(&[], Vec::new())];
        assert_eq!(found(&generic, true), [""; 0]);
        // Not excluded from the main package; for a target that the stack does not want.
        for target in ["gfx1151", "gfx1030"] {
            let main = package(&[], vec![host(lib, 2), whole(&place(target), target)]);
            let set = [main, split[1].clone(), split[2].clone()];
            let one =
                format!("kpack-archive-misplaced: {}: a kpack archive for {target}", place(target));
            assert_eq!(found(&set, true), [one]);
            assert_eq!(found(&set, false), [""; 0], "packages of other projects");
        }
        let swapped =
            [split[0].clone(), device("gfx1100", "gfx1151"), device("gfx1151", "gfx1100")];
        assert_eq!(found(&swapped, true).len(), 2);
        // Packages for all targets together.
        let all = vec![
            host(lib, 2),
            whole(&place("gfx1100"), "gfx1100"),
            whole(&place("gfx1151"), "gfx1151"),
        ];
        assert_eq!(found(&[package(&["gfx1100"], all)], true), [""; 0]);
    }

    #[test]
    fn locates_single_files_by_their_paths() {
        let single = |path: &str, file: FileFacts| Subject {
            kind: SubjectKind::File,
            ..subject(path, vec![file])
        };
        let library = single("out/lib/libk.so", host("libk.so", 2));
        let archive = whole("k_lib_gfx1151.kpack", "gfx1151");
        let adjacent = single("out/.kpack/k_lib_gfx1151.kpack", archive.clone());
        assert_eq!(found(&[library.clone(), adjacent], &["gfx1151"]), [""; 0]);
        let elsewhere = single("k_lib_gfx1151.kpack", archive);
        assert_eq!(found(&[library, elsewhere], &["gfx1151"]).len(), 1);
    }

    #[test]
    fn names_missing_archives() {
        let rpm = subject("a.rpm", vec![host("/opt/rocm/lib/libk.so", 1)]);
        let elsewhere =
            subject("b.whl", vec![whole("opt/rocm/.kpack/k_lib_gfx1151.kpack", "gfx1151")]);
        let other =
            subject("c.rpm", vec![whole("/opt/rocm/.kpack/k_lib_gfx1100.kpack", "gfx1100")]);
        let found_for = |wanted| found(&[rpm.clone(), elsewhere.clone(), other.clone()], wanted);
        assert_eq!(
            found_for(&["gfx1151"]),
            ["kpack-reference-unresolved: a reference to missing kpack archives: \
              /opt/rocm/.kpack/k_lib_gfx1151.kpack"]
        );
        assert_eq!(
            found_for(&["gfx90a:sramecc+:xnack-"])[0].split(": ").nth(2).unwrap(),
            "/opt/rocm/.kpack/k_lib_gfx90a:sramecc+:xnack-.kpack, /opt/rocm/.kpack/k_lib_gfx90a:sramecc+.kpack, \
             /opt/rocm/.kpack/k_lib_gfx90a:xnack-.kpack, /opt/rocm/.kpack/k_lib_gfx90a.kpack"
        );
        // Without wanted targets any archive is sufficient, but there must be one.
        assert_eq!(found(&[rpm.clone(), elsewhere.clone()], &[]).len(), 1);
        let debug = subject("a-debuginfo.rpm", vec![host("/usr/lib/debug/libk.so", 1)]);
        assert_eq!(found(&[debug], &["gfx1151"]), [""; 0]);
    }

    #[test]
    fn reports_archives_without_the_code() {
        let lib = host("lib/libk.so", 2);
        let place = ".kpack/k_lib_gfx1151.kpack";
        let with = |archive| found(&[subject("out", vec![lib.clone(), archive])], &["gfx1151"]);
        for (file, part) in [
            (whole(place, "gfx1100"), "no code for gfx1151 in out/.kpack/k_lib_gfx1151.kpack"),
            (archive(place, &[], &[]), "no code for gfx1151"),
            // The loader checks the list of targets first.
            (
                archive(place, &["gfx1100"], &[("lib/libk.so#0", &["gfx1151"])]),
                "no code for gfx1151",
            ),
            (
                archive(place, &["gfx1151"], &[("lib/libother.so#0", &["gfx1151"])]),
                "no code for gfx1151",
            ),
            (
                archive(place, &["gfx1151"], &[("lib/libk.so#0", &["gfx1151"])]),
                "no code for gfx1151",
            ),
            (
                FileFacts { path: place.into(), ..FileFacts::default() },
                "is empty or cannot be read",
            ),
        ] {
            let found = with(file);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                found[0].starts_with("kpack-target-missing: ") && found[0].contains(part),
                "{found:?}"
            );
        }
        let first = archive(place, &["gfx1151"], &[("lib/libk.so#0", &["gfx1151"])]);
        let findings = check(&[subject("out", vec![lib.clone(), first])], &Expectations::default());
        assert_eq!(findings[0].expected, "`lib/libk.so#1` for any target");
    }

    #[test]
    fn counts_pieces_that_only_some_targets_have() {
        let files = vec![
            host("lib/libk.so", 2),
            archive(".kpack/k_lib_gfx1151.kpack", &["gfx1151"], &[("lib/libk.so#1", &["gfx1151"])]),
            whole(".kpack/k_lib_gfx942.kpack", "gfx942"),
        ];
        let found = found(&[subject("out", files)], &["gfx1151", "gfx942"]);
        assert_eq!(found, ["kpack-target-partial: 1 of 2 pieces for gfx1151"]);
    }

    #[test]
    fn ignores_the_size_of_a_forged_number_of_pieces() {
        let files =
            vec![host("lib/libk.so", u64::MAX), whole(".kpack/k_lib_gfx1151.kpack", "gfx1151")];
        assert_eq!(found(&[subject("out", files)], &["gfx1151"]).len(), 1);
    }
}
