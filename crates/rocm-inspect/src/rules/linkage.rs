//! Rules about instructions to the dynamic loader: search paths and needed libraries. It does not
//! check whether the libraries exist.

use super::{Rule, RuleId, Severity};
use crate::expectations::Expectations;
use crate::facts::{FileFacts, Subject, SubjectKind};
use crate::finding::Finding;

const WHY_BUILD: &str = "the folder does not exist where the package is installed, or another user can create it \
                         there and add a library; the package also changes with the build folder";
const WHY_RELATIVE: &str = "the loader resolves it relative to the folder in which the program starts, so it \
                            loads a library from the current folder, no matter who put it there";
const INCIDENT_BUILD: &str = "Fedora's amdsmi: rpmbuild rejected the second libamd_smi.so in the Python module because \
                              its RUNPATH pointed into the build folder; the spec removes it with chrpath";
const HELP_BUILD: &str = "link with the installed path or with $ORIGIN (CMAKE_INSTALL_RPATH, \
                          CMAKE_SKIP_BUILD_RPATH=ON, CMAKE_INSTALL_RPATH_USE_LINK_PATH=OFF) instead of editing \
                          the file afterwards";
const HELP_RELATIVE: &str = "start the entry with $ORIGIN or `/`, and check for an empty variable where the build \
                             assembles the path";

pub(super) const RPATH_BUILD: Rule = Rule {
    id: RuleId("rpath-in-build-folder"),
    severity: Severity::Error,
    what: "a DT_RPATH entry points into a build folder or a folder that anyone can write to",
    why: WHY_BUILD,
    incident: INCIDENT_BUILD,
    help: HELP_BUILD,
};

pub(super) const RUNPATH_BUILD: Rule = Rule {
    id: RuleId("runpath-in-build-folder"),
    severity: Severity::Error,
    what: "a DT_RUNPATH entry points into a build folder or a folder that anyone can write to",
    why: WHY_BUILD,
    incident: INCIDENT_BUILD,
    help: HELP_BUILD,
};

pub(super) const RPATH_RELATIVE: Rule = Rule {
    id: RuleId("rpath-relative"),
    severity: Severity::Error,
    what: "a DT_RPATH entry is relative or empty",
    why: WHY_RELATIVE,
    incident: "",
    help: HELP_RELATIVE,
};

pub(super) const RUNPATH_RELATIVE: Rule = Rule {
    id: RuleId("runpath-relative"),
    severity: Severity::Error,
    what: "a DT_RUNPATH entry is relative or empty",
    why: WHY_RELATIVE,
    incident: "",
    help: HELP_RELATIVE,
};

pub(super) const NEEDED_ABSOLUTE: Rule = Rule {
    id: RuleId("needed-absolute"),
    severity: Severity::Error,
    what: "a DT_NEEDED entry is a path instead of a library name",
    why: "the loader tries only that path, and rpm's dependency generator silently skips such entries, so the \
          package lacks the requirement",
    incident: "rpm's elfdeps prints nothing for `NEEDED /opt/rocm/lib/libamdhip64.so.7`: the package installs \
               without ROCm and fails at startup",
    help: "link with `-l` and `-L`, or add a SONAME to the needed library",
};

/// Build folders, and folders that users other than root can write to or that differ between
/// machines.
const BUILD_FOLDERS: &[&str] = &["/builddir", "/tmp", "/var/tmp", "/home", "/root"];

pub(super) fn check(
    subject: &Subject,
    file: &FileFacts,
    expectations: &Expectations,
) -> Vec<Finding> {
    let Some(elf) = &file.elf else { return Vec::new() };
    let mut findings = Vec::new();
    for (name, entries, build, relative) in [
        ("RPATH", &elf.rpath, &RPATH_BUILD, &RPATH_RELATIVE),
        ("RUNPATH", &elf.runpath, &RUNPATH_BUILD, &RUNPATH_RELATIVE),
    ] {
        for entry in entries {
            let found = format!("{name} entry `{entry}`");
            match judge(entry, folder_of(subject, file), &expectations.build_roots) {
                Verdict::Good => {}
                Verdict::Build(root) => {
                    findings.push(
                        build.finding(found, format!("no entry below {root}")).at(subject, file),
                    );
                }
                Verdict::Relative => {
                    let expected = "an entry that starts with $ORIGIN or `/`";
                    findings.push(relative.finding(found, expected).at(subject, file));
                }
            }
        }
    }
    for needed in elf.needed.iter().filter(|needed| needed.as_str().contains('/')) {
        let name = needed.as_str().rsplit('/').next().unwrap_or_default();
        let finding =
            NEEDED_ABSOLUTE.finding(format!("NEEDED `{needed}`"), format!("NEEDED `{name}`"));
        findings.push(finding.at(subject, file));
    }
    findings.dedup();
    findings
}

/// Returns whether an entry is fine regardless of where the file is installed.
pub(super) fn is_good(
    subject: &Subject,
    file: &FileFacts,
    entry: &str,
    expectations: &Expectations,
) -> bool {
    matches!(judge(entry, folder_of(subject, file), &expectations.build_roots), Verdict::Good)
}

enum Verdict {
    Good,
    Build(String),
    Relative,
}

fn judge(entry: &str, origin: Option<&str>, roots: &[String]) -> Verdict {
    let from_origin = ["$ORIGIN", "${ORIGIN}"].iter().find_map(|name| {
        let rest = entry.strip_prefix(name)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    });
    let path = match (from_origin, origin) {
        (None, _) if !entry.starts_with('/') => return Verdict::Relative,
        (None, _) => entry.to_owned(),
        (Some(rest), Some(origin)) => format!("{origin}{rest}"),
        (Some(_), None) => return Verdict::Good,
    };
    if path.to_ascii_uppercase().contains("BUILDROOT") {
        return Verdict::Build("BUILDROOT".into());
    }
    let path = normal(&path);
    let roots = roots.iter().map(String::as_str).chain(BUILD_FOLDERS.iter().copied());
    let mut roots = roots.map(|root| (root, normal(root)));
    let hit = roots.find(|(_, root)| !root.is_empty() && path.starts_with(root.as_slice()));
    hit.map_or(Verdict::Good, |(root, _)| Verdict::Build(root.to_owned()))
}

/// Returns the components of an absolute path, with `.` and `..` resolved textually.
fn normal(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts
}

/// Returns the folder in which a file will be installed, if known: only RPMs state it.
fn folder_of<'a>(subject: &Subject, file: &'a FileFacts) -> Option<&'a str> {
    let known = subject.kind == SubjectKind::Rpm && file.path.starts_with('/');
    file.path.rsplit_once('/').filter(|_| known).map(|(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::ElfFacts;
    use rocmrpm_base::names::Soname;

    fn ids(rpath: &[&str], runpath: &[&str], needed: &[&str]) -> Vec<&'static str> {
        let owned = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect();
        let elf = ElfFacts {
            bits: 64,
            machine: "x86_64".into(),
            needed: needed.iter().map(|n| Soname::new(*n)).collect(),
            rpath: owned(rpath),
            runpath: owned(runpath),
            ..ElfFacts::default()
        };
        let file = FileFacts {
            path: "/usr/lib64/k/libk.so".into(),
            elf: Some(elf),
            ..FileFacts::default()
        };
        let subject = crate::testing::subject("k.rpm", Vec::new());
        let expectations =
            Expectations { build_roots: vec!["/srv/work/".into()], ..Default::default() };
        let findings = check(&subject, &file, &expectations);
        // Findings that depend on a policy are tested in `search_paths`.
        findings.iter().filter(|f| f.severity == Severity::Error).map(|f| f.id.as_str()).collect()
    }

    #[test]
    fn accepts_installed_folders_and_origin() {
        let fine = [
            "$ORIGIN",
            "${ORIGIN}/../lib",
            "$ORIGIN/../../lib/rocm",
            "/usr/lib64/rocm",
            "/opt/rocm/lib",
            "/homes",
            "/tmpfs",
            "/srv/worker",
            "/usr/lib64/tmp",
        ];
        assert_eq!(ids(&fine, &fine, &["libamdhip64.so.7"]), [""; 0]);
    }

    #[test]
    fn rejects_build_folders_in_any_spelling() {
        for bad in [
            "/builddir/build/BUILD/x",
            "/tmp",
            "/var/tmp/x",
            "/home/me",
            "/root/rpmbuild",
            "/srv/work",
            "/srv/work/a",
            "/usr/src/BUILDROOT/usr/lib",
            "//tmp//x",
            "/usr/../builddir/x",
            "$ORIGIN/../../../builddir/x",
        ] {
            assert_eq!(ids(&[bad], &[], &[]), ["rpath-in-build-folder"], "{bad}");
            assert_eq!(ids(&[], &[bad], &[]), ["runpath-in-build-folder"], "{bad}");
        }
    }

    #[test]
    fn rejects_relative_and_empty_entries() {
        for bad in ["", "lib", "./lib", "../lib", "$LIB/x", "$ORIGINAL/x"] {
            assert_eq!(ids(&[bad], &[], &[]), ["rpath-relative"], "{bad}");
            assert_eq!(ids(&[], &[bad], &[]), ["runpath-relative"], "{bad}");
        }
    }

    #[test]
    fn rejects_needed_paths() {
        assert_eq!(
            ids(&[], &[], &["libc.so.6", "/opt/rocm/lib/libamdhip64.so.7"]),
            ["needed-absolute"]
        );
        assert_eq!(ids(&[], &[], &["./libx.so"]), ["needed-absolute"]);
    }
}
