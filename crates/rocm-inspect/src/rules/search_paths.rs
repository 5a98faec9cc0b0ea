//! Rules about the policy for DT_RPATH and DT_RUNPATH: which tag is used, and where entries lead.
//! `linkage` checks for entries that are always wrong.

use std::collections::BTreeSet;

use super::linkage::is_good;
use super::origins::OTHER_WHEEL;
use super::{Rule, RuleId, Severity};
use crate::closure::tree::{RPMS, SITE_PACKAGES, WHEELS, normal};
use crate::closure::{Closure, after_origin, entries};
use crate::expectations::Expectations;
use crate::facts::{ElfFacts, FileFacts, Subject, SubjectKind};
use crate::finding::Finding;
use crate::libraries::{module_owner, rocm_stem};
use crate::system::SearchPathTag;
use crate::system::{DEFAULT_FOLDERS, System};

const WHY_FORBIDDEN: &str = "the loader searches DT_RPATH before LD_LIBRARY_PATH, also for indirect dependencies; \
                             it searches DT_RUNPATH after LD_LIBRARY_PATH, only for the file's own dependencies. \
                             A distribution or a ROCm release uses one of them everywhere; files with the other \
                             one find different libraries";
const WHY_ABSOLUTE: &str = "the path exists on one machine or in one release only; elsewhere it points to nothing \
                            or to libraries of another version";
const WHY_UNRESOLVED: &str = "the loader does not find the libraries there; they may have moved, or the entry has one \
                              `..` too few or too many";
const INCIDENT_ABSOLUTE: &str = "published ROCm wheels have entries such as /opt/rh/devtoolset-*, a CI \
                                 user's home folder and /project/build";
const HELP_ABSOLUTE: &str = "make the path relative to `$ORIGIN`, or remove the entry if the loader searches the \
                             folder anyway";
const HELP_UNRESOLVED: &str =
    "compare the entry with the installed locations of the file and of its libraries";

pub(super) const BOTH: Rule = Rule {
    id: RuleId("rpath-and-runpath"),
    severity: Severity::Warning,
    what: "a file has both DT_RPATH and DT_RUNPATH",
    why: "if DT_RUNPATH is present, the loader ignores DT_RPATH and does not search its entries",
    incident: "",
    help: "link with one of `--enable-new-dtags` and `--disable-new-dtags` in all parts of the build",
};

pub(super) const RPATH_FORBIDDEN: Rule = Rule {
    id: RuleId("rpath-forbidden"),
    severity: Severity::Warning,
    what: "a file has DT_RPATH where only DT_RUNPATH is allowed: in a distribution's package below /usr, or in \
           packages of a ROCm provider that uses DT_RUNPATH",
    why: WHY_FORBIDDEN,
    incident: "",
    help: "link with `-Wl,--enable-new-dtags`; do not edit large libraries with patchelf, which has damaged them",
};

pub(super) const RUNPATH_FORBIDDEN: Rule = Rule {
    id: RuleId("runpath-forbidden"),
    severity: Severity::Warning,
    what: "a file has DT_RUNPATH where the ROCm provider's packages use DT_RPATH",
    why: WHY_FORBIDDEN,
    incident: "ROCm/TheRock converts DT_RUNPATH in all its packages, and its package test rejects files without \
               DT_RPATH (native_linux_package_install_test.py)",
    help: "link with `-Wl,--disable-new-dtags`",
};

pub(super) const RPATH_ABSOLUTE: Rule = Rule {
    id: RuleId("rpath-absolute"),
    severity: Severity::Warning,
    what: "a DT_RPATH entry is absolute and points outside of the folders of the system and its ROCm",
    why: WHY_ABSOLUTE,
    incident: INCIDENT_ABSOLUTE,
    help: HELP_ABSOLUTE,
};

pub(super) const RUNPATH_ABSOLUTE: Rule = Rule {
    id: RuleId("runpath-absolute"),
    severity: Severity::Warning,
    what: "a DT_RUNPATH entry is absolute and points outside of the folders of the system and its ROCm",
    why: WHY_ABSOLUTE,
    incident: INCIDENT_ABSOLUTE,
    help: HELP_ABSOLUTE,
};

pub(super) const RPATH_UNRESOLVED: Rule = Rule {
    id: RuleId("rpath-unresolved"),
    severity: Severity::Warning,
    what: "a DT_RPATH entry with $ORIGIN points to a folder in which the set has no files",
    why: WHY_UNRESOLVED,
    incident: "",
    help: HELP_UNRESOLVED,
};

pub(super) const RUNPATH_UNRESOLVED: Rule = Rule {
    id: RuleId("runpath-unresolved"),
    severity: Severity::Warning,
    what: "a DT_RUNPATH entry with $ORIGIN points to a folder in which the set has no files",
    why: WHY_UNRESOLVED,
    incident: "",
    help: HELP_UNRESOLVED,
};

/// How many entries a finding lists.
const SHOWN: usize = 3;

/// Judges one file on its own. `linkage` reports entries that are always wrong.
pub(super) fn check(
    subject: &Subject,
    file: &FileFacts,
    expectations: &Expectations,
) -> Vec<Finding> {
    let Some(elf) = &file.elf else { return Vec::new() };
    let system = &expectations.system;
    let mut findings = Vec::new();
    if !elf.rpath.is_empty() && !elf.runpath.is_empty() {
        let found =
            format!("RPATH `{}` and RUNPATH `{}`", elf.rpath.join(":"), elf.runpath.join(":"));
        findings.push(BOTH.finding(shortened(found), "one of them"));
    }
    findings.extend(forbidden(subject, file, elf, system));
    for (name, entries, rule) in
        [("RPATH", &elf.rpath, &RPATH_ABSOLUTE), ("RUNPATH", &elf.runpath, &RUNPATH_ABSOLUTE)]
    {
        let bad = entries
            .iter()
            .filter(|entry| {
                is_absolute(entry, system) && is_good(subject, file, entry, expectations)
            })
            .filter(|entry| !is_own_folder(subject, entry));
        findings.extend(listed(rule, name, bad, "an entry that starts with $ORIGIN"));
    }
    findings.into_iter().map(|finding| finding.at(subject, file)).collect()
}

fn forbidden(
    subject: &Subject,
    file: &FileFacts,
    elf: &ElfFacts,
    system: &System,
) -> Option<Finding> {
    if subject.kind != SubjectKind::Rpm {
        return None;
    }
    let prefix = system.rocm_prefix.as_str();
    let in_rocm = !["", "/usr"].contains(&prefix) && is_within(&file.path, prefix);
    let tag = match in_rocm {
        true => system.search_path_tag?,
        false if is_within(&file.path, "/usr") => SearchPathTag::Runpath,
        false => return None,
    };
    match tag {
        SearchPathTag::Runpath if !elf.rpath.is_empty() => {
            let found = format!("RPATH `{}`", elf.rpath.join(":"));
            Some(RPATH_FORBIDDEN.finding(shortened(found), "RUNPATH with $ORIGIN, or none"))
        }
        SearchPathTag::Rpath if !elf.runpath.is_empty() => {
            let found = format!("RUNPATH `{}`", elf.runpath.join(":"));
            Some(RUNPATH_FORBIDDEN.finding(shortened(found), "RPATH"))
        }
        _ => None,
    }
}

fn is_absolute(entry: &str, system: &System) -> bool {
    let entry = entry.trim_end_matches('/');
    let standard = DEFAULT_FOLDERS.contains(&entry);
    let rocm = !["", "/usr"].contains(&system.rocm_prefix.as_str())
        && is_within(entry, &system.rocm_prefix);
    entry.starts_with('/') && !standard && !rocm
}

/// Returns whether an RPM's entry leads to a folder for its own libraries, as Fedora's packaging
/// guidelines allow ("Rpath for Internal Libraries").
fn is_own_folder(subject: &Subject, entry: &str) -> bool {
    let folder = format!("{}/", entry.trim_end_matches('/'));
    let mut below = subject.contents.paths.range(folder.clone()..);
    let library =
        ["/usr/lib64/", "/usr/lib/", "/usr/libexec/"].iter().any(|lib| folder.starts_with(lib));
    subject.kind == SubjectKind::Rpm
        && library
        && below.next().is_some_and(|path| path.starts_with(&folder))
}

fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Finds entries with $ORIGIN that do not lead to a folder of the set.
pub(super) fn unresolved(closure: &Closure<'_>, expectations: &Expectations) -> Vec<Finding> {
    let system = &expectations.system;
    let mut findings = Vec::new();
    // The top-level names of the set's wheels in site-packages.
    let wheels = closure.tree.elfs.iter().filter(|elf| elf.root == WHEELS);
    let own_tops: BTreeSet<String> = wheels.filter_map(|elf| top(&elf.place)).collect();
    for elf in &closure.tree.elfs {
        if !matches!(elf.subject.kind, SubjectKind::Rpm | SubjectKind::Wheel) {
            continue;
        }
        let leads_nowhere = |entry: &&String| {
            let Some(rest) = after_origin(entry) else { return false };
            if !is_good(elf.subject, elf.file, entry, expectations) {
                return false;
            }
            let path = format!("{}{rest}", elf.folder());
            !(elf.root == WHEELS && leads_to_others(&path, &own_tops))
                && closure.tree.folder(elf.root, &path).is_none()
                && !(elf.root == RPMS && is_systems(&path, system))
        };
        for (name, entries, rule) in [
            ("RPATH", &elf.facts.rpath, &RPATH_UNRESOLVED),
            ("RUNPATH", &elf.facts.runpath, &RUNPATH_UNRESOLVED),
        ] {
            let lib = if elf.facts.bits == 64 { "lib64" } else { "lib" };
            let expanded = |entry: &String| entry.replace("${LIB}", lib).replace("$LIB", lib);
            let entries: Vec<String> = entries.iter().map(expanded).collect();
            // Builds use one list for files in folders of different depths.
            let found: BTreeSet<&str> = entries
                .iter()
                .filter(|entry| !leads_nowhere(entry))
                .filter_map(|e| tail(e))
                .collect();
            let bad = entries
                .iter()
                .filter(leads_nowhere)
                .filter(|entry| !tail(entry).is_some_and(|tail| found.contains(tail)));
            let finding = listed(rule, name, bad, "a folder in which the set has files");
            findings.extend(finding.map(|finding| finding.at(elf.subject, elf.file)));
        }
    }
    findings
}

/// Returns the part of an entry after `$ORIGIN` and any number of `..`, such as `torch/lib`.
fn tail(entry: &str) -> Option<&str> {
    let mut rest = after_origin(entry)?;
    while let Some(above) = rest.strip_prefix("/..") {
        rest = above;
    }
    Some(rest.trim_matches('/')).filter(|tail| !tail.is_empty())
}

/// Finds wheels that are not in the set, but whose modules search paths lead to, so that they may
/// provide ROCm's libraries instead of the system.
pub(super) fn other_wheels(closure: &Closure<'_>) -> Option<Finding> {
    let tops = closure.tree.elfs.iter().filter(|elf| elf.root == WHEELS);
    let own: BTreeSet<&str> = tops.filter_map(|elf| module_owner(&top(&elf.place)?)).collect();
    let mut first = None;
    let (mut missing, mut files) = (BTreeSet::new(), 0_usize);
    for (elf, links) in closure.of_files().filter(|(elf, _)| elf.root == WHEELS) {
        if !links.iter().any(|link| rocm_stem(link.library.as_str()).is_some()) {
            continue;
        }
        let owner = |entry: &String| {
            let path = normal(WHEELS, &format!("{}{}", elf.folder(), after_origin(entry)?))?;
            module_owner(&top(&path)?).filter(|owner| !own.contains(owner))
        };
        let owners: BTreeSet<&str> = entries(elf).iter().filter_map(owner).collect();
        if !owners.is_empty() {
            first.get_or_insert(elf);
            files += 1;
            missing.extend(owners);
        }
    }
    let first = first?;
    let names = Vec::from_iter(missing).join(" and ");
    let of = if files == 1 { "a file".to_owned() } else { format!("{files} files") };
    let found = format!("search paths of {of} lead to {names}");
    let expected = format!("the wheels of {names} in the set");
    Some(OTHER_WHEEL.finding(found, expected).at(first.subject, first.file))
}

/// Returns whether a path leads to the modules of a wheel that is not in the set, such as
/// `nvidia/cublas/lib` or `_rocm_sdk_core/lib`, so that it may exist. Bazel's folders exist only in
/// its build and do not belong to any wheel.
fn leads_to_others(path: &str, own_tops: &BTreeSet<String>) -> bool {
    let Some(path) = normal(WHEELS, path) else { return false };
    match top(&path) {
        Some(top) => !own_tops.contains(&top) && !top.starts_with("_solib_"),
        // Above all modules: those of another Python, or the environment's own libraries.
        None => path.contains("/site-packages/") || path.contains("/dist-packages/"),
    }
}

/// Returns the top-level module or package of a path in an environment.
fn top(path: &str) -> Option<String> {
    let rest = path.strip_prefix(SITE_PACKAGES)?.strip_prefix('/')?;
    rest.split('/').next().map(str::to_owned)
}

fn is_systems(path: &str, system: &System) -> bool {
    let Some(path) = crate::closure::tree::normal(RPMS, path) else { return false };
    let rocm = !["", "/usr"].contains(&system.rocm_prefix.as_str())
        && is_within(&path, &system.rocm_prefix);
    rocm || DEFAULT_FOLDERS.contains(&path.as_str())
}

/// Returns one finding for any number of a file's entries.
fn listed<'e>(
    rule: &Rule,
    name: &str,
    entries: impl Iterator<Item = &'e String>,
    expected: &str,
) -> Option<Finding> {
    let entries: BTreeSet<&str> = entries.map(String::as_str).collect();
    let shown: Vec<String> = entries.iter().take(SHOWN).map(|entry| format!("`{entry}`")).collect();
    let found = match entries.len() {
        0 => return None,
        1 => format!("{name} entry {}", shown[0]),
        n if n <= SHOWN => format!("{name} entries {}", shown.join(", ")),
        n => format!("{n} {name} entries ({}, ...)", shown.join(", ")),
    };
    Some(rule.finding(shortened(found), expected))
}

/// Shortens a text, because entries may have thousands of characters.
fn shortened(text: String) -> String {
    match text.char_indices().nth(400) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::subject;

    fn file(path: &str, rpath: &[&str], runpath: &[&str]) -> FileFacts {
        let owned = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect();
        let elf = ElfFacts {
            bits: 64,
            machine: "x86_64".into(),
            rpath: owned(rpath),
            runpath: owned(runpath),
            ..ElfFacts::default()
        };
        FileFacts { path: path.into(), elf: Some(elf), ..FileFacts::default() }
    }

    fn system() -> System {
        let tag = Some(SearchPathTag::Rpath);
        System {
            rocm_prefix: "/opt/rocm/core-7.14".into(),
            search_path_tag: tag,
            ..System::default()
        }
    }

    fn expectations() -> Expectations {
        Expectations { system: system(), ..Expectations::default() }
    }

    fn ids(name: &str, file: FileFacts) -> Vec<&'static str> {
        let subject = subject(name, Vec::new());
        check(&subject, &file, &expectations()).iter().map(|f| f.id.as_str()).collect()
    }

    #[test]
    fn rejects_both_tags_in_one_file() {
        assert_eq!(ids("a-1.whl", file("a.so", &["$ORIGIN"], &["$ORIGIN"])), ["rpath-and-runpath"]);
        assert_eq!(ids("a-1.whl", file("a.so", &["$ORIGIN"], &[])), [""; 0]);
    }

    #[test]
    fn requires_the_tag_of_the_kind_of_package() {
        let usr = "/usr/lib64/a.so";
        let rocm = "/opt/rocm/core-7.14/lib/a.so";
        assert_eq!(ids("a.rpm", file(usr, &["$ORIGIN"], &[])), ["rpath-forbidden"]);
        assert_eq!(ids("a.rpm", file(usr, &[], &["$ORIGIN"])), [""; 0]);
        assert_eq!(ids("a.rpm", file(rocm, &[], &["$ORIGIN"])), ["runpath-forbidden"]);
        assert_eq!(ids("a.rpm", file(rocm, &["$ORIGIN"], &[])), [""; 0]);
        // There is no policy elsewhere or in wheels.
        assert_eq!(ids("a.rpm", file("/opt/rocm/core-7.1/a.so", &["$ORIGIN"], &[])), [""; 0]);
        assert_eq!(ids("a-1.whl", file("a.so", &[], &["$ORIGIN"])), [""; 0]);
        let none = System { search_path_tag: None, ..system() };
        let file = file(rocm, &[], &["$ORIGIN"]);
        assert_eq!(
            forbidden(&subject("a.rpm", Vec::new()), &file, file.elf.as_ref().unwrap(), &none),
            None
        );
    }

    #[test]
    fn rejects_absolute_entries_outside_of_the_system() {
        let strange =
            ["/opt/rh/devtoolset-7/root/usr/lib64", "/opt/rocm/lib", "/usr/lib64/openmpi/lib"];
        for entry in strange {
            assert_eq!(ids("a-1.whl", file("a.so", &[entry], &[])), ["rpath-absolute"], "{entry}");
            assert_eq!(
                ids("a.rpm", file("/usr/lib64/a.so", &[], &[entry])),
                ["runpath-absolute"],
                "{entry}"
            );
        }
        let fine = ["/usr/lib64", "/lib/", "/opt/rocm/core-7.14/lib", "$ORIGIN/../x"];
        assert_eq!(ids("a-1.whl", file("a.so", &[], &fine)), [""; 0]);
        let mut rpm = subject("a.rpm", Vec::new());
        let user = file("/usr/lib64/a.so", &[], &["/usr/lib64/a/"]);
        let found = |rpm: &Subject| check(rpm, &user, &expectations()).len();
        assert_eq!(found(&rpm), 1);
        rpm.contents.paths.insert("/usr/lib64/a/libprivate.so".into());
        assert_eq!(found(&rpm), 0, "a folder of the package itself");
        let many: Vec<String> = (0..4000).map(|n| format!("/opt/{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(ids("a-1.whl", file("a.so", &many, &[])), ["rpath-absolute"]);
    }

    #[test]
    fn accepts_entries_for_files_of_other_depths() {
        let list =
            ["$ORIGIN/../_rocm_sdk_core/lib", "$ORIGIN/../../_rocm_sdk_core/lib", "$ORIGIN/../x"];
        let found = |subjects: &[Subject]| {
            let system = system();
            let closure = Closure::new(subjects, &system);
            let mut findings = unresolved(&closure, &expectations());
            findings.extend(other_wheels(&closure));
            findings.iter().map(|f| format!("{} {}", f.id, f.found)).collect::<Vec<_>>()
        };
        let wheel = |paths: &[&str]| {
            let with_rocm = |path: &&str| {
                let mut file = file(path, &[], &list);
                if let Some(elf) = &mut file.elf {
                    elf.needed.push(rocmrpm_base::names::Soname::new("libamdhip64.so.7"));
                }
                file
            };
            subject("x-1.whl", paths.iter().map(with_rocm).collect())
        };
        let nowhere = "runpath-unresolved RUNPATH entry `$ORIGIN/../x`";
        let one = "library-in-other-wheel search paths of a file lead to rocm-sdk-core";
        assert_eq!(found(&[wheel(&["x/y/a.so"])]), [nowhere, one]);
        let two = "library-in-other-wheel search paths of 2 files lead to rocm-sdk-core";
        assert_eq!(found(&[wheel(&["x/a.so", "y/b.so"])]), [two]);
        let sdk = subject("sdk-7.whl", vec![file("_rocm_sdk_core/lib/libx.so", &[], &[])]);
        assert_eq!(found(&[wheel(&["x/y/a.so"]), sdk]), [nowhere]);
    }

    #[test]
    fn reports_origin_entries_outside_of_the_set() {
        let found = |subjects: &[Subject]| {
            let system = system();
            let closure = Closure::new(subjects, &system);
            let findings = unresolved(&closure, &expectations());
            findings.iter().map(|f| format!("{} {}", f.id, f.found)).collect::<Vec<_>>()
        };
        let bad =
            file("x/lib/a.so", &["$ORIGIN/../../torch/lib"], &["$ORIGIN/../nowhere", "$ORIGIN"]);
        // The content of a wheel outside of the set is unknown.
        let nowhere = ["runpath-unresolved RUNPATH entry `$ORIGIN/../nowhere`"];
        assert_eq!(found(&[subject("x-1.whl", vec![bad.clone()])]), nowhere);
        let python = "$ORIGIN/../../../../python3.12/site-packages/torch/lib";
        let known = ["$ORIGIN/../../_solib_local/_U", python];
        assert_eq!(
            found(&[subject("x-1.whl", vec![file("x/lib/a.so", &known, &[])])]),
            ["rpath-unresolved RPATH entry `$ORIGIN/../../_solib_local/_U`"]
        );
        let torch = |path: &str| subject("torch-2.whl", vec![file(path, &[], &[])]);
        assert_eq!(
            found(&[torch("torch/lib/b.so"), subject("x-1.whl", vec![bad.clone()])]),
            nowhere
        );
        let moved = found(&[torch("torch/b.so"), subject("x-1.whl", vec![bad.clone()])]);
        assert_eq!(moved[0], "rpath-unresolved RPATH entry `$ORIGIN/../../torch/lib`");
        let fine = file(
            "/usr/lib64/x/a.so",
            &[],
            &["$ORIGIN/..", "$ORIGIN/../../../opt/rocm/core-7.14/lib", "/no"],
        );
        assert_eq!(found(&[subject("a.rpm", vec![fine])]), [""; 0]);
        assert_eq!(found(&[subject("folder", vec![bad])]), [""; 0]);
    }
}
