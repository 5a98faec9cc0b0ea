//! Rules about the origin of needed libraries: missing, unknown, or another vendor's. `closure`
//! checks for duplicates and incompatible libraries.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{Rule, RuleId, Severity};
use crate::closure::tree::{Elf, Root, WHEELS};
use crate::closure::{Closure, Link};
use crate::expectations::Expectations;
use crate::finding::{Finding, LibraryOrigin};
use crate::libraries::{rocm_stem, without_digest};
use crate::system::System;

pub(super) const MISSING: Rule = Rule {
    id: RuleId("library-missing"),
    severity: Severity::Error,
    what: "a file needs a library that neither the set nor a known package of the system provides",
    why: "the dynamic loader refuses the file: `cannot open shared object file: No such file or directory`",
    incident: "ROCm/pytorch issue 2411: torch from a release branch was built against ROCm 7 and installed without \
               it, and `import torch` failed because libamdhip64.so.7 was not found",
    help: "add the file that provides the library to the set, or require its package; if the system has a library \
           that the inspection does not know, add it to the libraries of the system: `[libraries]` in the chroot's \
           file in mock-configs of a rocmrpm workspace",
};

pub(super) const FOREIGN: Rule = Rule {
    id: RuleId("library-foreign"),
    severity: Severity::Error,
    what: "a file needs a library of another vendor's GPU stack, of another C library, or of a ROCm version that \
           differs from the system's",
    why: "the library is not on the system and does not belong there: the wrong variant was built or downloaded, \
          or the package contains files built for another version of ROCm",
    incident: "ROCm/legacy-rocm-build issue 5339: libhipblas.so.2 from ROCm 6, where ROCm 7 has \
               libhipblas.so.3",
    help: "build for ROCm and against the chroot's version of it; waive the finding for an optional plug-in that \
           is loaded only if its libraries are installed",
};

pub(super) const UNKNOWN: Rule = Rule {
    id: RuleId("library-unknown"),
    severity: Severity::Warning,
    what: "a file needs a library that is not in the set, not part of ROCm, and not in any library table",
    why: "the inspection knows about 300 of Fedora's thousands of libraries, so the system may have it. If an RPM \
          requires the library, dnf does not install the package without it; a wheel or a folder has no requirements \
          and fails when it is loaded",
    incident: "",
    help: "check with `dnf repoquery --whatprovides 'NAME()(64bit)'` whether the target system has the library, \
           and add it to the libraries of the system: `[libraries]` in the chroot's file in mock-configs of a rocmrpm \
           workspace",
};

pub(super) const OTHER_WHEEL: Rule = Rule {
    id: RuleId("library-in-other-wheel"),
    severity: Severity::Warning,
    what: "files need libraries from the wheel of another distribution, such as torch, that is not in the set",
    why: "an extension module finds these libraries because Python imported their distribution first, or by its \
          RPATH or RUNPATH. Without the wheel, it is unknown whether its version works with these files",
    incident: "",
    help: "inspect both wheels together: `EXTENSION.whl TORCH.whl` in one command",
};

pub(super) const ALTERNATIVE: Rule = Rule {
    id: RuleId("alternative-foreign"),
    severity: Severity::Info,
    what: "files that are alternatives to each other need another vendor's libraries, or another version of ROCm",
    why: "the program opens only the one that matches the machine; the others only make the package larger",
    incident: "bitsandbytes' wheels have 16 builds of one library, for the CPU, CUDA, ROCm and oneAPI",
    help: "nothing to fix; in your own package, omit those for other systems",
};

// A file may need thousands of libraries that do not exist.
pub(super) const MAX_FOR_FILE: usize = 20;

pub(super) fn check(
    closure: &Closure<'_>,
    alternatives: &Alternatives,
    expectations: &Expectations,
) -> Vec<Finding> {
    let system = &expectations.system;
    // On an unknown system, no library is missing.
    if !system.is_known() {
        return Vec::new();
    }
    let sonames: BTreeSet<(Root, &str)> =
        closure.tree.elfs.iter().map(|elf| (elf.root, elf.soname())).collect();
    let mut groups = Groups::new(expectations);
    // For each family of alternatives, the files and the vendors whose libraries they need.
    let mut optional: BTreeMap<usize, BTreeMap<&str, BTreeSet<usize>>> = BTreeMap::new();
    // For each distribution, the libraries of its wheel and the files that need them.
    let mut hosts: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<usize>)> = BTreeMap::new();
    for (index, (elf, links)) in closure.of_files().enumerate() {
        let mut foreign: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut missing: Vec<&Link<'_>> = Vec::new();
        for link in links {
            match (link.origin, link.by.as_deref()) {
                (LibraryOrigin::Foreign, by) => {
                    let whose = by.unwrap_or("another system");
                    match alternatives.of.get(&index).filter(|_| !is_required(elf, link)) {
                        Some((family, _)) => {
                            optional
                                .entry(*family)
                                .or_default()
                                .entry(whose)
                                .or_default()
                                .insert(index);
                        }
                        None => foreign.entry(whose).or_default().push(link.library.as_str()),
                    }
                }
                (LibraryOrigin::Missing, Some(host)) => {
                    let (libraries, files) = hosts.entry(host).or_default();
                    libraries.insert(link.library.as_str());
                    files.insert(index);
                }
                (LibraryOrigin::Missing, None) => missing.push(link),
                (LibraryOrigin::Own | LibraryOrigin::Provided, _) => {}
            }
        }
        let own = |library: &str| sonames.contains(&(elf.root, library));
        for (rule, what, reason) in absent(elf, &missing, own, system) {
            groups.add(rule, elf, what, reason, &[]);
        }
        for (whose, libraries) in foreign {
            groups.add(&FOREIGN, elf, String::new(), whose, &libraries);
        }
    }
    let mut findings = groups.findings(system);
    let first = |files: &BTreeSet<usize>| Some(&closure.tree.elfs[*files.first()?]);
    for (host, (libraries, files)) in hosts {
        let Some(first) = first(&files) else { continue };
        let libraries: Vec<&str> = libraries.into_iter().collect();
        let more =
            if files.len() > 1 { format!(" in {} files", files.len()) } else { String::new() };
        let found = format!("NEEDED {} of {host}{more}", quoted(&libraries));
        let finding = OTHER_WHEEL.finding(found, format!("the wheel of {host} in the set"));
        findings.push(finding.at(first.subject, first.file));
    }
    for (family, by) in optional {
        let files: BTreeSet<usize> = by.values().flatten().copied().collect();
        let Some(first) = first(&files) else { continue };
        let found = needs_of_family(&alternatives.families[family], files.len(), &by);
        let finding = ALTERNATIVE.finding(found, "an alternative for this system");
        findings.push(finding.at(first.subject, first.file));
    }
    findings
}

/// Describes how many alternatives of a family need foreign libraries, and the files by vendor.
fn needs_of_family(
    (stem, all): &(String, usize),
    files: usize,
    by: &BTreeMap<&str, BTreeSet<usize>>,
) -> String {
    let mut counts: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for (whose, files) in by {
        // The table states what the system has instead.
        let short = whose.split(';').next().unwrap_or_default();
        counts.entry(short).or_default().extend(files);
    }
    let whose: Vec<String> =
        counts.iter().map(|(whose, files)| format!("{} {whose}", files.len())).collect();
    format!("{files} of {all} files `{stem}_*` need foreign libraries: {}", whose.join(", "))
}

/// Findings that are the same for several files of a subject.
struct Groups<'c> {
    expectations: &'c Expectations,
    /// In the order in which they were found.
    groups: Vec<Group<'c>>,
    places: HashMap<GroupKey<'c>, usize>,
}

/// The rule, the subject, the libraries, the reason, and the file if findings of each file count.
type GroupKey<'c> = (RuleId, &'c str, String, &'c str, Option<&'c str>);

struct Group<'c> {
    rule: &'static Rule,
    first: &'c Elf<'c>,
    files: usize,
    what: String,
    reason: &'c str,
    libraries: BTreeSet<&'c str>,
}

impl<'c> Groups<'c> {
    fn new(expectations: &'c Expectations) -> Self {
        Self { expectations, groups: Vec::new(), places: HashMap::new() }
    }

    /// Adds what a rule found in a file: what it needs, or the libraries of one origin, and why that
    /// is wrong.
    fn add(
        &mut self,
        rule: &'static Rule,
        elf: &'c Elf<'c>,
        what: String,
        reason: &'c str,
        libraries: &[&'c str],
    ) {
        // A waiver may accept the finding for some of the files.
        let waived = self.expectations.waivers.iter().any(|w| w.rule == rule.id.as_str());
        let file = waived.then_some(elf.file.path.as_str());
        let key = (rule.id, elf.subject.path.as_str(), what.clone(), reason, file);
        let next = self.groups.len();
        let at = *self.places.entry(key).or_insert(next);
        if at == next {
            let libraries = BTreeSet::new();
            self.groups.push(Group { rule, first: elf, files: 0, what, reason, libraries });
        }
        self.groups[at].files += 1;
        self.groups[at].libraries.extend(libraries);
    }

    fn findings(self, system: &System) -> Vec<Finding> {
        let finding = |group: Group<'_>| {
            let files = match group.files {
                1 => String::new(),
                files => format!(" in {files} files"),
            };
            let (found, expected) = if group.libraries.is_empty() {
                let found = format!("{}{files}, {}", group.what, group.reason);
                (found, format!("a library of the set or of {}", system.name))
            } else {
                let files = if files.is_empty() { files } else { format!("{files},") };
                let libraries = quoted(&Vec::from_iter(group.libraries));
                let found = format!("NEEDED {libraries}{files} of {}", group.reason);
                (found, format!("libraries of {}", system.name))
            };
            group.rule.finding(found, expected).at(group.first.subject, group.first.file)
        };
        self.groups.into_iter().map(finding).collect()
    }
}

/// Returns the libraries of unknown origin with rule and reason: the first ones individually, the
/// rest by rule.
fn absent(
    elf: &Elf<'_>,
    missing: &[&Link<'_>],
    own: impl Fn(&str) -> bool,
    system: &System,
) -> Vec<(&'static Rule, String, &'static str)> {
    let (first, rest) = missing.split_at(missing.len().min(MAX_FOR_FILE));
    let mut findings = Vec::new();
    for link in first {
        let (rule, reason) = judge(elf, link, &own, system);
        findings.push((rule, format!("NEEDED `{}`", link.library), reason));
    }
    let mut others: BTreeMap<Severity, (&'static Rule, Vec<&str>)> = BTreeMap::new();
    for link in rest {
        let (rule, _) = judge(elf, link, &own, system);
        others.entry(rule.severity).or_insert((rule, Vec::new())).1.push(link.library.as_str());
    }
    for (rule, libraries) in others.into_values() {
        let reason = if rule.id == MISSING.id { "not found" } else { "not in any library table" };
        let what = format!("{} more NEEDED: {}", libraries.len(), quoted(&libraries));
        findings.push((rule, what, reason));
    }
    findings
}

/// Returns the rule for a library of unknown origin, and the reason. A library that the system may
/// have is not an error: a gap in a table must not block a release.
fn judge(
    elf: &Elf<'_>,
    link: &Link<'_>,
    own: impl Fn(&str) -> bool,
    system: &System,
) -> (&'static Rule, &'static str) {
    let library = link.library.as_str();
    // If an RPM requires no library at all, rpm's dependency generator was disabled.
    let requires = elf.subject.contents.requires.as_ref().filter(|requires| !requires.is_empty());
    // No library of a distribution has such a name.
    let private = !is_versioned(library) || is_repaired(library) || rocm_stem(library).is_some();
    if system.complete || library.contains('/') {
        (&MISSING, "not found")
    } else if elf.root <= WHEELS && own(library) {
        (&MISSING, "not found: it is in the set, but outside of the loader's search path")
    } else if private {
        (&MISSING, "not found")
    } else if requires.is_none() {
        (&UNKNOWN, "not in any library table")
    } else if is_required(elf, link) {
        (&UNKNOWN, "not in any library table; the RPM requires it")
    } else {
        (&MISSING, "not found, and the RPM does not require it")
    }
}

/// Returns whether an RPM requires a library: `libx.so.1()(64bit)`.
fn is_required(elf: &Elf<'_>, link: &Link<'_>) -> bool {
    let requires = elf.subject.contents.requires.as_ref();
    requires.is_some_and(|requires| requires.contains(link.library.as_str()))
}

/// Returns whether a SONAME has a version, as in distributions (`libx.so.1`, `libx-1.2.so`);
/// libraries without one belong to a single program.
fn is_versioned(soname: &str) -> bool {
    let digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    match soname.split_once(".so") {
        Some((_, version)) if version.starts_with('.') => digit(&version[1..]),
        Some((stem, _)) => stem.split('-').skip(1).any(digit) && !is_repaired(soname),
        None => false,
    }
}

/// Returns whether auditwheel gave a library its name, with a digest, so that only that wheel can
/// contain it.
fn is_repaired(soname: &str) -> bool {
    let stem = soname.split_once(".so").map_or(soname, |(stem, _)| stem);
    without_digest(stem.split_once('.').map_or(stem, |(stem, _)| stem)).is_some()
}

fn quoted(libraries: &[&str]) -> String {
    let shown: Vec<String> =
        libraries.iter().take(MAX_FOR_FILE).map(|library| format!("`{library}`")).collect();
    match libraries.len() {
        0..=MAX_FOR_FILE => shown.join(", "),
        n => format!("{} and {} more", shown.join(", "), n - MAX_FOR_FILE),
    }
}

/// Alternatives, of which a program opens the one that matches the machine: builds of one library
/// for several GPU stacks or versions of a stack, next to each other, that no file of the set
/// needs.
pub(super) struct Alternatives {
    /// The name and the size of each family.
    families: Vec<(String, usize)>,
    /// For each file, its family, and whether the family has several files for its GPU stack.
    of: HashMap<usize, (usize, bool)>,
}

/// The suffixes of such file names after the last `_` or `-`, without digits.
const STACKS: [&str; 8] = ["cpu", "cuda", "rocm", "hip", "xpu", "sycl", "tensorrt", "openvino"];

/// Splits the name of a file for one GPU stack into the stem that alternatives share and the stack.
pub(super) fn stack(path: &str) -> Option<(&str, &str)> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let name = name.split_once(".so").map_or(name, |(name, _)| name);
    let (stem, stack) = name.rsplit_once(['_', '-'])?;
    let stack = stack.trim_end_matches(|c: char| c.is_ascii_digit());
    STACKS.contains(&stack).then_some((stem, stack))
}

impl Alternatives {
    pub(super) fn of(closure: &Closure<'_>) -> Self {
        let needed: HashSet<usize> = closure.links.iter().filter_map(|link| link.to).collect();
        let mut groups: BTreeMap<_, Vec<(usize, &str)>> = BTreeMap::new();
        for (index, elf) in closure.tree.elfs.iter().enumerate() {
            let Some((stem, stack)) = stack(&elf.place) else { continue };
            if !needed.contains(&index) && elf.facts.interpreter.is_none() {
                groups.entry((elf.root, elf.folder(), stem)).or_default().push((index, stack));
            }
        }
        let (mut families, mut of) = (Vec::new(), HashMap::new());
        for ((_, _, stem), files) in groups.into_iter().filter(|(_, files)| files.len() > 1) {
            let several =
                |stack: &str| files.iter().filter(|(_, other)| *other == stack).count() > 1;
            let several = STACKS.map(|stack| (stack, several(stack)));
            for (index, stack) in &files {
                of.insert(*index, (families.len(), several.contains(&(*stack, true))));
            }
            families.push((String::from(stem), files.len()));
        }
        Self { families, of }
    }

    /// Returns whether a file is one of several builds for versions of the same GPU stack.
    pub(super) fn by_version(&self, index: usize) -> bool {
        self.of.get(&index).is_some_and(|(_, several)| *several)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expectations::Waiver;
    use crate::facts::{ElfFacts, FileFacts, Subject};
    use crate::rules::closure;
    use crate::testing::subject;
    use rocmrpm_base::names::Soname;

    fn library(path: &str, needed: &[&str]) -> FileFacts {
        let needed = needed.iter().map(|n| Soname::new(*n)).collect();
        let elf = ElfFacts { bits: 64, machine: "x86_64".into(), needed, ..ElfFacts::default() };
        FileFacts { path: path.into(), elf: Some(elf), ..FileFacts::default() }
    }

    fn of_system(subjects: &[Subject], system: System) -> Vec<String> {
        let expectations = Expectations { system, ..Expectations::default() };
        let found = closure::check(subjects, &expectations);
        found.iter().map(|f| format!("{} {}: {}", f.severity, f.id, f.found)).collect()
    }

    fn found(subjects: &[Subject]) -> Vec<String> {
        of_system(subjects, System::fedora())
    }

    #[test]
    fn warns_of_libraries_that_are_not_in_the_table() {
        let files = || vec![library("/usr/bin/a", &["libgadget.so.3", "libgadget-2.1-system.so"])];
        let unknown = [
            "warning library-unknown: NEEDED `libgadget.so.3`, not in any library table",
            "warning library-unknown: NEEDED `libgadget-2.1-system.so`, not in any library table",
        ];
        for name in ["folder", "a-1.whl", "a.rpm"] {
            assert_eq!(found(&[subject(name, files())]), unknown, "{name}");
        }
        let complete = System { complete: true, ..System::fedora() };
        let all = of_system(&[subject("folder", files())], complete);
        assert!(all.iter().all(|f| f.starts_with("error library-missing")), "{all:?}");
    }

    #[test]
    fn groups_many_unknown_libraries_as_warnings() {
        let names: Vec<String> = (0..23).map(|n| format!("libu{n}.so.1")).collect();
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.push("libmine.so");
        let all = found(&[subject("a-1.whl", vec![library("a/_a.so", &names)])]);
        assert_eq!(
            all[20..],
            [
                "error library-missing: 1 more NEEDED: `libmine.so`, not found",
                "warning library-unknown: 3 more NEEDED: `libu20.so.1`, `libu21.so.1`, `libu22.so.1`, not in any library table",
            ]
        );
        assert!(all[..20].iter().all(|f| f.starts_with("warning library-unknown: ")), "{all:?}");
    }

    #[test]
    fn reports_a_library_of_many_files_once() {
        let files = || {
            let file = |n| {
                let cuda = if n % 2 == 0 { "libcudart.so.12" } else { "libcublas.so.12" };
                let needed = ["libamdhip64.so.4", cuda, "libmine.so", "libgadget.so.3"];
                library(&format!("a/_{n}.so"), &needed)
            };
            (0..30).map(file).collect::<Vec<_>>()
        };
        let rocm = "another version of ROCm; fedora has libamdhip64.so.6";
        let expected = [
            "error library-missing: NEEDED `libmine.so` in 30 files, not found".to_owned(),
            "warning library-unknown: NEEDED `libgadget.so.3` in 30 files, not in any library table"
                .to_owned(),
            "error library-foreign: NEEDED `libcublas.so.12`, `libcudart.so.12` in 30 files, of CUDA (NVIDIA)"
                .to_owned(),
            format!("error library-foreign: NEEDED `libamdhip64.so.4` in 30 files, of {rocm}"),
        ];
        assert_eq!(found(&[subject("a-1.whl", files())]), expected);
        // Waivers accept the findings of single files.
        let waiver = Waiver {
            rule: "library-foreign".into(),
            file: Some("a/_0.so".into()),
            found: None,
            reason: "a plug-in".into(),
            place: "component.toml".into(),
        };
        let expectations = Expectations {
            system: System::fedora(),
            waivers: vec![waiver],
            ..Expectations::default()
        };
        assert_eq!(closure::check(&[subject("a-1.whl", files())], &expectations).len(), 62);
    }

    #[test]
    fn reports_a_missing_torch_wheel_once() {
        let files = || {
            vec![
                library("x/_a.so", &["libc10.so", "libtorch.so", "libc.so.6"]),
                library("x/_b.so", &["libtorch_hip.so"]),
            ]
        };
        let one = "warning library-in-other-wheel: NEEDED `libc10.so`, `libtorch.so`, `libtorch_hip.so` of torch \
                   in 2 files";
        assert_eq!(found(&[subject("x-1.whl", files())]), [one]);
        // Libraries that are missing from a torch in the set are missing.
        let torch = subject("torch-2.whl", vec![library("torch/lib/libc10.so", &[])]);
        let all = found(&[subject("x-1.whl", files()), torch]);
        assert!(
            all.iter().all(|f| f.starts_with("error library-missing")) && all.len() == 2,
            "{all:?}"
        );
        let cuda = found(&[subject("x-1.whl", vec![library("x/_c.so", &["libtorch_cuda.so"])])]);
        assert!(cuda[0].starts_with("error library-foreign"), "{cuda:?}");
    }

    #[test]
    fn reports_another_c_library_as_foreign() {
        let musl =
            found(&[subject("x-1.whl", vec![library("x/_a.so", &["libc.musl-x86_64.so.1"])])]);
        let expected = "error library-foreign: NEEDED `libc.musl-x86_64.so.1` of musl, another C library than glibc";
        assert_eq!(musl, [expected]);
    }

    #[test]
    fn knows_the_libraries_of_rocm() {
        let names = [
            "librocm-core.so.1",
            "librocprofiler-sdk-rocpd.so.1",
            "libhipsolver_fortran.so",
            "libhipsolver_fortran.so.1",
        ];
        assert_eq!(found(&[subject("x-1.whl", vec![library("x/_a.so", &names)])]), [""; 0]);
    }

    #[test]
    fn considers_the_requirements_of_an_rpm() {
        let mut rpm =
            subject("a.rpm", vec![library("/usr/bin/a", &["libgadget.so.3", "libother.so.1"])]);
        rpm.contents.requires = Some(["libc.so.6", "libgadget.so.3"].map(str::to_owned).into());
        assert_eq!(
            found(&[rpm]),
            [
                "warning library-unknown: NEEDED `libgadget.so.3`, not in any library table; the RPM requires it",
                "error library-missing: NEEDED `libother.so.1`, not found, and the RPM does not require it",
            ]
        );
    }

    #[test]
    fn reports_names_that_no_distribution_uses_as_missing() {
        for name in [
            "libgadget.so",
            "libgadget-1a2b3c4d.so.3",
            "libgadget-12345678.so",
            "_C.so",
            "/opt/libx.so.1",
        ] {
            let set = [subject("a-1.whl", vec![library("a/_a.so", &[name])])];
            assert_eq!(found(&set), [format!("error library-missing: NEEDED `{name}`, not found")]);
        }
        let mut program = library("/usr/bin/a", &["libgadget.so.3"]);
        program.elf.as_mut().unwrap().interpreter = Some("/lib64/ld-linux-x86-64.so.2".into());
        let hidden =
            found(&[subject("a.rpm", vec![program, library("/usr/lib64/a/libgadget.so.3", &[])])]);
        assert_eq!(hidden.len(), 1, "{hidden:?}");
        assert!(
            hidden[0]
                .ends_with("not found: it is in the set, but outside of the loader's search path")
        );
    }

    #[test]
    fn ignores_the_search_path_inside_a_plain_folder() {
        let mut program = library("bin/a", &["libgadget.so.3"]);
        program.elf.as_mut().unwrap().interpreter = Some("/lib64/ld-linux-x86-64.so.2".into());
        let files = [program, library("plugins/libgadget.so.3", &[])];
        let missing = "error library-missing: NEEDED `libgadget.so.3`, not found: it is in the set, but outside of \
                       the loader's search path";
        // The installed location of its files is unknown.
        let unknown = "warning library-unknown: NEEDED `libgadget.so.3`, not in any library table";
        for (name, expected) in [("folder", unknown), ("a-1.whl", missing), ("a.rpm", missing)] {
            assert_eq!(found(&[subject(name, files.to_vec())]), [expected], "{name}");
        }
    }

    #[test]
    fn accepts_foreign_alternatives_of_one_library() {
        let files = || {
            vec![
                library("b/libb_cpu.so", &["libc.so.6"]),
                library("b/libb_cuda118.so", &["libcudart.so.11.0", "libcublas.so.11"]),
                library("b/libb_cuda12.so", &["libcudart.so.12"]),
                library("b/libb_rocm64.so", &["libamdhip64.so.6"]),
                library("b/libb_rocm70.so", &["libamdhip64.so.7"]),
                library("b/libb_xpu.so", &["libsycl.so.8"]),
            ]
        };
        let expected = "info alternative-foreign: 3 of 6 files `libb_*` need foreign libraries: 2 CUDA (NVIDIA), \
                    1 oneAPI (Intel)";
        assert_eq!(found(&[subject("b-1.whl", files())]), [expected]);
        // An RPM that requires them cannot be installed.
        let mut rpm = subject("b.rpm", files());
        rpm.contents.requires =
            Some(["libcudart.so.11.0", "libcublas.so.11"].map(str::to_owned).into());
        let all = found(&[rpm]);
        assert_eq!(
            all[0],
            "error library-foreign: NEEDED `libcublas.so.11`, `libcudart.so.11.0` of CUDA (NVIDIA)"
        );
        assert_eq!(all.len(), 2, "{all:?}");
        // A file that others need is not an alternative, nor is a single one.
        let mut needed = files();
        needed.push(library("b/_b.so", &["libb_cuda12.so"]));
        assert!(found(&[subject("b-1.whl", needed)])[0].starts_with("error library-foreign"));
        let single = files().split_off(5);
        assert!(found(&[subject("b-1.whl", single)])[0].starts_with("error library-foreign"));
    }
}
