//! Rules about the libraries of the whole set: duplicates, copies, and incompatible ones.
//! `symbols` has the rules about symbols.

use std::collections::{BTreeMap, BTreeSet};

use super::origins::{self, Alternatives};
use super::{Rule, RuleId, Severity, search_paths, symbols};
use crate::closure::tree::{Elf, RPMS, Root, SITE_PACKAGES, WHEELS, is_below};
use crate::closure::{Closure, Link};
use crate::expectations::Expectations;
use crate::facts::Subject;
use crate::finding::{Finding, LibraryOrigin};
use crate::libraries::{RocmName, rocm_library, rocm_stem};
use crate::system::{DEFAULT_FOLDERS, System};

pub(super) const MIXED: Rule = Rule {
    id: RuleId("rocm-majors-mixed"),
    severity: Severity::Error,
    what: "the set contains or needs libraries from two ROCm releases: two major versions of one library, or \
           libraries that no release contains together",
    why: "one process loads both; they share symbols and devices but not their state, which causes crashes and \
          wrong results far from the cause",
    incident: "ROCm/legacy-rocm-build issue 5339 (libhipblas.so.2 next to libhipblas.so.3); Looong01/pyg-rocm-build \
               issue 18: extensions built from parts of two ROCm versions do not load",
    help: "build all parts against one version of ROCm, and remove files that were built against another",
};

pub(super) const TWICE: Rule = Rule {
    id: RuleId("soname-twice"),
    severity: Severity::Error,
    what: "two different files of the set have the same SONAME, and both can be loaded",
    why: "the loader uses whichever it finds first; if both are opened by path, each has its own state behind the \
          same symbols, and one frees what the other allocated",
    incident: "ROCm/TheRock issues 1059, 2269 and 4476: Python's amdsmi came with a second libamd_smi.so; in one \
               process with torch, it ended in `double free or corruption` or found no GPU",
    help: "remove one of them, and make the files that used it find the other",
};

pub(super) const BUNDLED: Rule = Rule {
    id: RuleId("rocm-bundled"),
    severity: Severity::Warning,
    what: "the set contains a copy of a ROCm library that the system's packages provide",
    why: "if a process also loads the system's library, it has two ROCm runtimes; the copy gets no updates",
    incident: "pytorch/pytorch issue 186516: a bundled libamd_smi.so.26 next to the one of amdsmi, and \
               torch.cuda.device_count() returned 0",
    help: "remove the copy, and require the package that provides the library",
};

pub(super) fn check(subjects: &[Subject], expectations: &Expectations) -> Vec<Finding> {
    let system = &expectations.system;
    let closure = Closure::new(subjects, system);
    let alternatives = Alternatives::of(&closure);
    let mut findings = origins::check(&closure, &alternatives, expectations);
    findings.extend(mixed(&closure, &alternatives));
    findings.extend(twice(&closure));
    findings.extend(bundled(&closure, system));
    findings.extend(symbols::check(&closure, system));
    findings.extend(search_paths::unresolved(&closure, expectations));
    findings.extend(search_paths::other_wheels(&closure));
    findings
}

fn mixed(closure: &Closure<'_>, alternatives: &Alternatives) -> Vec<Finding> {
    // For each library and major version, the files that are it or need it.
    let mut seen: BTreeMap<RocmName<'_>, BTreeSet<&str>> = BTreeMap::new();
    // Of builds for several versions of ROCm, a process loads only one.
    let together = closure.links.iter().filter(|link| !alternatives.by_version(link.from));
    let needed =
        together.map(|l| (l.library.as_str(), closure.tree.elfs[l.from].file.path.as_str()));
    let contained = closure.tree.elfs.iter().map(|elf| (elf.soname(), elf.file.path.as_str()));
    for (soname, file) in needed.chain(contained) {
        if let Some(name) = rocm_library(soname).filter(|name| name.major.is_some()) {
            seen.entry(name).or_default().insert(file);
        }
    }
    let names: Vec<&RocmName<'_>> = seen.keys().collect();
    let majors: Vec<_> =
        names.chunk_by(|a, b| a.stem == b.stem).filter(|names| names.len() > 1).collect();
    let mut findings = Vec::new();
    for names in &majors {
        let found: Vec<String> =
            names.iter().take(4).map(|name| location(name, &seen[name])).collect();
        findings
            .push(MIXED.finding(found.join(" and "), format!("one version of {}", names[0].stem)));
    }
    if majors.is_empty() {
        findings.extend(releases(&seen));
    }
    findings
}

/// Finds two libraries that no release of ROCm contains together.
fn releases(seen: &BTreeMap<RocmName<'_>, BTreeSet<&str>>) -> Option<Finding> {
    let all: Vec<_> = seen.iter().map(|(name, files)| (name, files, name.releases())).collect();
    let known = || all.iter().filter(|(.., releases)| !releases.is_empty());
    let (a, b) = known().find_map(|a| Some((a, known().find(|b| a.2.is_disjoint(&b.2))?)))?;
    let of = |(name, files, releases): &(&RocmName<'_>, &BTreeSet<&str>, BTreeSet<u64>)| {
        let releases: Vec<String> = releases.iter().map(u64::to_string).collect();
        format!("{} of ROCm {}", location(name, files), releases.join(" or "))
    };
    Some(MIXED.finding(format!("{} and {}", of(a), of(b)), "libraries of one release of ROCm"))
}

fn location(name: &RocmName<'_>, files: &BTreeSet<&str>) -> String {
    format!("{}.so.{} ({})", name.stem, name.major.unwrap_or_default(), some_of(files))
}

fn some_of(files: &BTreeSet<&str>) -> String {
    let first = files.first().copied().unwrap_or_default();
    match files.len() {
        0 | 1 => format!("in {first}"),
        n => format!("in {first} and {} more", n - 1),
    }
}

fn twice(closure: &Closure<'_>) -> Vec<Finding> {
    let mut needed: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for link in &closure.links {
        needed
            .entry(link.library.as_str())
            .or_default()
            .insert(closure.tree.elfs[link.from].folder());
    }
    let mut groups: BTreeMap<(usize, &str), Vec<&Elf<'_>>> = BTreeMap::new();
    for elf in &closure.tree.elfs {
        let Some(soname) = &elf.facts.soname else { continue };
        let soname = soname.as_str();
        // Modules that are only opened by path do not conflict: `_C.so` of two packages.
        let library = soname.starts_with("lib") || needed.contains_key(soname);
        // Among these, the loader picks one.
        let picked = elf.place.contains("/glibc-hwcaps/");
        if library && !picked && elf.facts.interpreter.is_none() {
            // Single files and folders are judged together, RPMs and wheels separately: wheels are
            // mostly built from the RPMs.
            groups.entry((elf.root.min(WHEELS + 1), soname)).or_default().push(elf);
        }
    }
    let mut findings = Vec::new();
    for ((_, soname), elfs) in groups.iter().filter(|(_, elfs)| elfs.len() > 1) {
        let first = elfs[0];
        let others: Vec<&Elf<'_>> =
            elfs[1..].iter().copied().filter(|elf| differs(first, elf)).collect();
        if are_apart(elfs, needed.get(soname)) {
            continue;
        }
        if let Some(other) = others.first() {
            let more = if others.len() > 1 {
                format!(" and {} more", others.len() - 1)
            } else {
                String::new()
            };
            let found = format!(
                "SONAME `{soname}` of {} also in {}{more}",
                first.file.path, other.file.path
            );
            findings.push(
                TWICE.finding(found, "one file with this SONAME").at(first.subject, first.file),
            );
        }
    }
    findings
}

/// Returns whether files with the same SONAME, none of them ROCm's, are alternatives within a
/// package that are opened by path. Either they are in the same folder, under names that differ
/// from the SONAME (fakeroot's two ways to communicate with its daemon) or that name a GPU stack
/// (`-cpu`); or they are in sibling folders and only needed there (NVIDIA's profiler for two
/// generations of GPUs, builds for each release of torch).
fn are_apart(elfs: &[&Elf<'_>], needed_in: Option<&BTreeSet<&str>>) -> bool {
    let rocm = elfs.iter().any(|elf| rocm_stem(elf.soname()).is_some());
    let folders: BTreeSet<&str> = elfs.iter().map(|elf| elf.folder()).collect();
    // Packages do not know each other's alternatives.
    let packages: BTreeSet<&str> = elfs.iter().map(|elf| elf.subject.path.as_str()).collect();
    if packages.len() > 1 {
        return false;
    }
    if rocm || folders.iter().any(|folder| DEFAULT_FOLDERS.contains(folder)) {
        return false;
    }
    if folders.len() == 1 {
        let named = |elf: &Elf<'_>| elf.place.ends_with(&format!("/{}", elf.soname()));
        let alternatives =
            elfs.iter().all(|elf| named(elf) || origins::stack(&elf.place).is_some());
        return needed_in.is_none() && (alternatives || !elfs.iter().any(|elf| named(elf)));
    }
    let Some(variants) = variants(&folders, elfs[0].root) else { return false };
    let within = |folder: &str| variants.iter().any(|v| folder == *v || is_below(folder, v));
    needed_in.is_none_or(|needed_in| needed_in.iter().all(|folder| within(folder)))
}

/// Returns the folders of the alternatives that contain these folders. Their paths differ in one
/// name, which is the last one, or the same name for two versions (`torch-2.9/lib`,
/// `torch-2.10/lib`).
fn variants<'a>(folders: &BTreeSet<&'a str>, root: Root) -> Option<Vec<&'a str>> {
    let split: Vec<Vec<&str>> = folders.iter().map(|folder| folder.split('/').collect()).collect();
    let first = split.first()?;
    if split.iter().any(|other| other.len() != first.len()) {
        return None;
    }
    let differing =
        (0..first.len()).filter(|at| split.iter().any(|other| other[*at] != first[*at]));
    let differing: Vec<usize> = differing.collect();
    let [at] = differing[..] else { return None };
    // Separate packages are not alternatives.
    let top = if root == WHEELS { SITE_PACKAGES.split('/').count() } else { 0 };
    let name = |folder: &[&str]| folder[at].replace(|c: char| c.is_ascii_digit() || c == '.', "");
    let versions = split.iter().all(|other| name(other) == name(first));
    let end = |folder: &[&str]| folder[..=at].iter().map(|name| name.len() + 1).sum::<usize>() - 1;
    let variants = || folders.iter().zip(&split).map(|(folder, split)| &folder[..end(split)]);
    (at > top && (versions || at + 1 == first.len())).then(|| variants().collect())
}

/// Returns whether two files with the same SONAME are two libraries in one process.
fn differs(a: &Elf<'_>, b: &Elf<'_>) -> bool {
    let same_place = a.root == b.root && a.place == b.place;
    // Wheels cannot contain links, so the name for linking is a copy of the library.
    let same_folder = a.root == WHEELS && b.root == WHEELS && a.folder() == b.folder();
    let same_content = match (&a.facts.build_id, &b.facts.build_id) {
        (Some(a), Some(b)) => a == b,
        _ => {
            let what =
                |e: &Elf<'_>| (e.file.size, e.facts.defined_symbols, e.facts.undefined_symbols);
            what(a) == what(b) && a.facts.needed == b.facts.needed
        }
    };
    // Two copies with the same content are two libraries too if they share a root; for single files
    // and folders that is unknown.
    let copies = same_content && (a.root > WHEELS || same_folder);
    a.suits(b) && !same_place && !copies
}

fn bundled(closure: &Closure<'_>, system: &System) -> Vec<Finding> {
    let mut findings = Vec::new();
    for elf in &closure.tree.elfs {
        let Some(soname) = elf.facts.soname.as_ref() else { continue };
        let Some(name) = rocm_library(soname.as_str()) else { continue };
        let known = system.rocm.iter().find(|(known, _)| rocm_library(known) == Some(name));
        let Some((known, package)) = known.filter(|_| !is_rocm_itself(elf, system)) else {
            continue;
        };
        let of_system = |link: &&Link<'_>| {
            link.origin == LibraryOrigin::Provided
                && rocm_library(link.library.as_str()) == Some(name)
        };
        // If another file needs the system's copy, both are loaded.
        let both = closure.links.iter().find(of_system).map(|link| {
            let user = &closure.tree.elfs[link.from].file.path;
            format!(", and {user} also needs the system's `{known}`")
        });
        let found = format!("a copy of `{soname}`{}", both.unwrap_or_default());
        findings.push(
            BUNDLED.finding(found, format!("the library of {package}")).at(elf.subject, elf.file),
        );
    }
    findings
}

/// Returns whether a file belongs to the target system's ROCm.
fn is_rocm_itself(elf: &Elf<'_>, system: &System) -> bool {
    let package = elf.subject.package.as_deref().unwrap_or_default();
    let by_name = !package.is_empty() && system.rocm.values().any(|known| known == package);
    let sdk = elf.root == WHEELS && elf.place.split('/').any(|part| part.starts_with("_rocm_sdk_"));
    let place = match elf.root {
        RPMS => {
            let below = system.rocm_folders().iter().any(|folder| is_below(&elf.place, folder));
            below
                || ["/usr/lib64", "/usr/lib"].contains(&elf.folder())
                    && system.rocm_prefix == "/usr"
        }
        // The installed location of a folder or file is unknown.
        root => root != WHEELS,
    };
    by_name || sdk || place
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{ElfFacts, FileFacts};
    use crate::testing::subject;
    use rocmrpm_base::names::Soname;

    fn library(path: &str, soname: &str, needed: &[&str]) -> FileFacts {
        let elf = ElfFacts {
            bits: 64,
            machine: "x86_64".into(),
            soname: Some(Soname::new(soname)),
            needed: needed.iter().map(|n| Soname::new(*n)).collect(),
            build_id: Some(path.into()),
            ..ElfFacts::default()
        };
        FileFacts { path: path.into(), elf: Some(elf), ..FileFacts::default() }
    }

    fn expectations() -> Expectations {
        let mut system =
            System { name: "f".into(), rocm_prefix: "/opt/rocm".into(), ..System::default() };
        system.add("libc.so.6", "glibc");
        system.add("libamdhip64.so.7", "rocm-hip");
        system.add("libamd_smi.so.26", "amdsmi");
        Expectations { system, ..Expectations::default() }
    }

    fn found(subjects: &[Subject]) -> Vec<String> {
        let expectations = expectations();
        let findings = check(subjects, &expectations);
        findings.iter().map(|f| format!("{}: {}", f.id, f.found)).collect()
    }

    #[test]
    fn reports_missing_and_foreign_libraries_as_errors() {
        let set = [subject(
            "a.rpm",
            vec![
                library(
                    "/usr/lib64/liba.so",
                    "liba.so",
                    &["libc.so.6", "libb.so", "libx.so", "libcudart.so.12"],
                ),
                library("/usr/lib64/libb.so", "libb.so", &["libamdhip64.so.7"]),
            ],
        )];
        assert_eq!(
            found(&set),
            [
                "library-missing: NEEDED `libx.so`, not found",
                "library-foreign: NEEDED `libcudart.so.12` of CUDA (NVIDIA)",
            ]
        );
        // On an unknown system, no library is missing.
        assert_eq!(check(&set, &Expectations::default()), []);
    }

    #[test]
    fn groups_findings_of_a_file_that_misses_many_libraries() {
        let names: Vec<String> = (0..100).map(|n| format!("libx{n}.so")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found =
            found(&[subject("a.rpm", vec![library("/usr/lib64/liba.so", "liba.so", &names)])]);
        assert_eq!(found.len(), origins::MAX_FOR_FILE + 1);
        let last = found.last().unwrap();
        assert!(
            last.starts_with("library-missing: 80 more NEEDED: `libx20.so`, `libx21.so`, "),
            "{last}"
        );
        assert!(last.ends_with("`libx39.so` and 60 more, not found"), "{last}");
    }

    #[test]
    fn reports_two_major_versions_of_a_rocm_library() {
        let new = || library("a/liba.so", "liba.so", &["libamdhip64.so.7"]);
        let old = library("b/libb.so", "libb.so", &["libamdhip64.so.6"]);
        let mixed = found(&[subject("a-1.whl", vec![new()]), subject("b-1.whl", vec![old])]);
        assert_eq!(
            mixed.last().unwrap(),
            "rocm-majors-mixed: libamdhip64.so.6 (in b/libb.so) and libamdhip64.so.7 (in a/liba.so)"
        );
        let set = [subject(
            "a-1.whl",
            vec![library("a/liba.so", "a", &["libamdhip64.so.7", "libhipblas.so.2"])],
        )];
        assert_eq!(
            found(&set).last().unwrap(),
            "rocm-majors-mixed: libamdhip64.so.7 (in a/liba.so) of ROCm 7 or 10 and libhipblas.so.2 (in a/liba.so) \
             of ROCm 6"
        );
        let same = library("b/libb.so", "libb.so", &["libamdhip64.so.7", "libamd_smi.so.26"]);
        assert_eq!(
            found(&[subject("a-1.whl", vec![new()]), subject("b-1.whl", vec![same])]),
            [""; 0]
        );
    }

    #[test]
    fn reports_one_soname_of_two_files() {
        let copy = |path: &str| library(path, "libk.so.1", &[]);
        let two =
            [subject("a.rpm", vec![copy("/usr/lib64/libk.so.1"), copy("/usr/lib64/k/libk.so.1")])];
        assert_eq!(
            found(&two),
            [
                "soname-twice: SONAME `libk.so.1` of /usr/lib64/libk.so.1 also in /usr/lib64/k/libk.so.1"
            ]
        );
        // These are fine: the same path in two packages, an RPM and its wheel, libraries that the
        // loader picks from, modules that are opened by path.
        let one = |name: &str| subject(name, vec![copy("/usr/lib64/libk.so.1")]);
        let wheel = subject("a-1.whl", vec![copy("k/libk.so.1")]);
        let v3 = subject("v3.rpm", vec![copy("/usr/lib64/glibc-hwcaps/x86-64-v3/libk.so.1")]);
        let modules =
            ["/usr/lib64/a/_C.so", "/usr/lib64/b/_C.so"].map(|path| library(path, "_C.so", &[]));
        assert_eq!(
            found(&[one("a.rpm"), one("b.rpm"), wheel, v3, subject("c.rpm", modules.to_vec())]),
            [""; 0]
        );
        let mut other = copy("/usr/lib/libk.so.1");
        other.elf.as_mut().unwrap().bits = 32;
        assert_eq!(found(&[one("a.rpm"), subject("a32.rpm", vec![other])]), [""; 0]);
    }

    #[test]
    fn accepts_link_names_and_alternatives_opened_by_path() {
        let copy = |path: &str, id: &str| {
            let mut file = library(path, "libk.so.1", &[]);
            file.elf.as_mut().unwrap().build_id = Some(id.into());
            file
        };
        let wheel = |files| found(&[subject("k-1.whl", files)]);
        assert_eq!(wheel(vec![copy("k/libk.so", "a"), copy("k/libk.so.1", "a")]), [""; 0]);
        let apart = || vec![copy("k/old/libk.so.1", "a"), copy("k/new/libk.so.1", "b")];
        assert_eq!(wheel(apart()), [""; 0]);
        let names = ["k/libk-tcp.so", "k/libk-sysv.so"];
        assert_eq!(wheel(vec![copy(names[0], "a"), copy(names[1], "b")]), [""; 0]);
        assert_eq!(wheel(vec![copy("k/libk.so.1", "a"), copy(names[1], "b")]).len(), 1);
        assert_eq!(wheel(vec![copy("k/a/libk.so.1", "a"), copy("j/a/libk.so.1", "b")]).len(), 1);
        let mut needed = apart();
        needed.push(library("k/_k.so", "_k.so", &["libk.so.1"]));
        assert_eq!(wheel(needed).len(), 1);
        // One build for each release of torch, and a build without GPU support.
        let releases = || {
            let paths = ["2.9", "2.10", "2.11"]
                .map(|version| format!("k/torch/torch-{version}/lib/libk.so.1"));
            paths.iter().map(|path| copy(path, path)).collect::<Vec<_>>()
        };
        assert_eq!(wheel(releases()), [""; 0]);
        let mut needed = releases();
        needed.push(library("k/torch/torch-2.9/bin/k.so", "k.so", &["libk.so.1"]));
        assert_eq!(wheel(needed.clone()), [""; 0]);
        needed.push(library("k/torch/k.so", "k.so", &["libk.so.1"]));
        assert_eq!(wheel(needed).len(), 1);
        assert_eq!(
            wheel(vec![copy("k/a/lib/libk.so.1", "a"), copy("k/b/lib/libk.so.1", "b")]).len(),
            1
        );
        assert_eq!(wheel(vec![copy("k/libk.so.1", "a"), copy("k/libk-cpu.so", "b")]), [""; 0]);
    }

    #[test]
    fn accepts_builds_for_two_rocm_versions_side_by_side() {
        let files = ["64", "70"].map(|version| {
            let hip = format!("libamdhip64.so.{}", &version[..1]);
            library(&format!("b/libb_rocm{version}.so"), "", &[&hip])
        });
        let mixed = found(&[subject("b-1.whl", files.to_vec())]);
        assert!(mixed.iter().all(|f| !f.starts_with("rocm-majors-mixed")), "{mixed:?}");
    }

    #[test]
    fn warns_of_copies_of_rocm_outside_of_rocm() {
        let smi = |path: &str| vec![library(path, "libamd_smi.so.26", &[])];
        let bundled = ["rocm-bundled: a copy of `libamd_smi.so.26`"];
        assert_eq!(found(&[subject("x-1.whl", smi("amdsmi/libamd_smi.so"))]), bundled);
        assert_eq!(
            found(&[subject(
                "x-1.rpm",
                smi("/usr/lib/python3.14/site-packages/amdsmi/libamd_smi.so")
            )]),
            bundled
        );
        // With auditwheel's name, and next to a module that needs the system's copy.
        let hip = "libamdhip64-f1043337.so.7.2.70204";
        let mut repaired = vec![library(&format!("x.libs/{hip}"), hip, &[])];
        let copy = format!("rocm-bundled: a copy of `{hip}`");
        assert_eq!(found(&[subject("x-1.whl", repaired.clone())]), [copy.as_str()]);
        repaired.push(library("x/_x.so", "_x.so", &["libamdhip64.so.7"]));
        let both = format!("{copy}, and x/_x.so also needs the system's `libamdhip64.so.7`");
        assert_eq!(found(&[subject("x-1.whl", repaired)]), [both]);
        for (name, path) in [
            ("amdsmi-26.rpm", "/usr/lib64/libamd_smi.so.26"),
            ("x-1.rpm", "/opt/rocm/lib/libamd_smi.so.26"),
            ("rocm_sdk_core-7.whl", "_rocm_sdk_core/lib/libamd_smi.so.26"),
            ("folder", "lib/libamd_smi.so.26"),
        ] {
            assert_eq!(found(&[subject(name, smi(path))]), [""; 0], "{name}");
        }
        assert_eq!(
            found(&[subject("x-1.whl", vec![library("x/libz.so.1", "libz.so.1", &[])])]),
            [""; 0]
        );
    }
}
