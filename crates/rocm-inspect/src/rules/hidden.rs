//! The rule about hidden folders, which contain kpack archives: whether they were lost when one
//! package was built from another. `kpack` checks the archives themselves.

use std::collections::BTreeSet;

use super::placement::module_path;
use super::{Rule, RuleId, Severity};
use crate::facts::{Subject, SubjectKind};
use crate::finding::Finding;

pub(super) const LOST: Rule = Rule {
    id: RuleId("hidden-folder-lost"),
    severity: Severity::Error,
    what: "files in a hidden folder of one package are missing from another that was made from it",
    why: "copies with `*`, globs in %files and uploads skip names that start with a dot; kpack archives are in \
          such a folder (`.kpack`), and without them every kernel fails with hipErrorInvalidImage",
    incident: "lemonade-sdk/vllm-rocm (docs/upstream/gfx1151-vllm-hiperrorinvalidimage.md): an upload of \
               artifacts skipped `.kpack` and `.devel_links`",
    help: "copy folders instead of globs (`cp -a dir/. target`), set include-hidden-files when uploading \
           artifacts, and list hidden folders in %files",
};

/// Compares subjects if one was built from the other.
pub(super) fn check(subjects: &[Subject]) -> Vec<Finding> {
    let all: Vec<_> = subjects.iter().filter(|subject| !subject.debug).map(Modules::of).collect();
    let mut findings = Vec::new();
    for full in all.iter().filter(|full| !full.hidden.is_empty()) {
        for other in all.iter().filter(|other| full.became(other)) {
            // A separate wheel may contain the code of a target, as AMD's do.
            let moved = |path: &str| {
                all.iter().any(|m| m.kind() == other.kind() && m.hidden.contains(path))
            };
            let lost: Vec<&str> = full.lost_in(other).filter(|path| !moved(path)).collect();
            let Some(first) = lost.first() else { continue };
            let files =
                if lost.len() == 1 { "1 file".to_owned() } else { format!("{} files", lost.len()) };
            let found = format!(
                "{files} in hidden folders of {} missing, such as {first}",
                full.subject.path
            );
            let finding = LOST.finding(found, format!("every file of {}", full.subject.path));
            findings.push(Finding { subject: Some(other.subject.path.clone()), ..finding });
        }
    }
    findings
}

/// A subject's files as Python modules: their paths below site-packages.
struct Modules<'a> {
    subject: &'a Subject,
    distribution: String,
    paths: BTreeSet<&'a str>,
    /// The members of `paths` in a hidden folder.
    hidden: BTreeSet<&'a str>,
}

impl<'a> Modules<'a> {
    fn of(subject: &'a Subject) -> Self {
        let paths =
            subject.contents.paths.iter().chain(subject.files.iter().map(|file| &file.path));
        let paths: BTreeSet<&str> = paths.map(|path| module_path(subject.kind, path)).collect();
        let hidden = paths.iter().copied().filter(|path| in_hidden_folder(path)).collect();
        Self { subject, distribution: distribution(subject), paths, hidden }
    }

    fn kind(&self) -> SubjectKind {
        self.subject.kind
    }

    /// Returns whether `other` was built from this subject: they share a file, and either `other`
    /// is another kind of package of the same distribution, or all its files are in this one too.
    fn became(&self, other: &Self) -> bool {
        if std::ptr::eq(self.subject, other.subject) {
            return false;
        }
        let theirs = || other.paths.iter().filter(|path| !of_installer(path));
        let named = self.kind() != other.kind()
            && !self.distribution.is_empty()
            && self.distribution == other.distribution;
        let common = theirs().any(|path| self.paths.contains(path));
        common && (named || theirs().all(|path| self.paths.contains(path)))
    }

    /// Yields the hidden files that `other` lacks although it has their neighbors.
    fn lost_in<'b>(&'b self, other: &'b Self) -> impl Iterator<Item = &'a str> + 'b {
        let tops: BTreeSet<&str> =
            other.paths.iter().filter_map(|path| path.split('/').next()).collect();
        self.hidden.iter().copied().filter(move |path| {
            let top = path.split('/').next().unwrap_or_default();
            !other.paths.contains(path) && (top.starts_with('.') || tops.contains(top))
        })
    }
}

fn in_hidden_folder(path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    folder.split('/').any(|part| part.starts_with('.') && !matches!(part, "." | ".."))
}

/// Returns whether an installer or a build backend rewrites this file.
fn of_installer(path: &str) -> bool {
    let top = path.split('/').next().unwrap_or_default();
    top.ends_with(".dist-info") || top.ends_with(".egg-info") || path.contains("__pycache__/")
}

/// Returns the distribution's name, normalized as in PEP 503, without the affixes of ROCm packages:
/// `python3-foo-rocm` is foo.
fn distribution(subject: &Subject) -> String {
    let name = match (&subject.package, subject.kind) {
        (Some(package), _) => package.as_str(),
        (None, SubjectKind::Rpm) => subject.name.rsplitn(3, '-').last().unwrap_or_default(),
        (None, SubjectKind::Wheel) => subject.name.split('-').next().unwrap_or_default(),
        _ => return String::new(),
    };
    let name = name.to_lowercase().replace(['_', '.'], "-");
    let name = match name.split_once('-') {
        Some((python, rest))
            if python.trim_end_matches(|c: char| c.is_ascii_digit()) == "python" =>
        {
            rest
        }
        _ => &name,
    };
    name.strip_suffix("-rocm").unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::subject;

    fn package(name: &str, paths: &[&str]) -> Subject {
        let mut subject = subject(name, vec![]);
        subject.contents.paths = paths.iter().map(ToString::to_string).collect();
        subject
    }

    fn found(subjects: &[Subject]) -> Vec<String> {
        check(subjects).into_iter().map(|f| format!("{}: {}", f.id, f.found)).collect()
    }

    #[test]
    fn reports_lost_hidden_folders_at_the_package_that_lacks_them() {
        let modules = "/usr/lib64/python3.14/site-packages";
        let mut rpm = package(
            "python3-vllm-rocm-1.0-1.fc43.x86_64.rpm",
            &[
                &format!("{modules}/vllm/_C.abi3.so"),
                &format!("{modules}/vllm/.kpack/vllm_gfx1151.kpack"),
                &format!("{modules}/vllm/.kpack/vllm_gfx1100.kpack"),
                &format!("{modules}/.devel_links/gfx1151.json"),
                "/usr/lib/.build-id/ab/cdef",
            ],
        );
        rpm.package = Some("python3-vllm-rocm".into());
        let without = package("vllm-1.0-cp314-cp314-linux_x86_64.whl", &["vllm/_C.abi3.so"]);
        assert_eq!(
            found(&[rpm.clone(), without.clone()]),
            ["hidden-folder-lost: 3 files in hidden folders of \
              python3-vllm-rocm-1.0-1.fc43.x86_64.rpm missing, such as .devel_links/gfx1151.json"]
        );
        let at = check(&[rpm.clone(), without]);
        assert_eq!(at[0].subject.as_deref(), Some("vllm-1.0-cp314-cp314-linux_x86_64.whl"));

        // A separate package with no shared file, or with additional files, has lost nothing.
        for paths in [&["other/_C.abi3.so"][..], &["vllm/_C.abi3.so", "more/x.so"]] {
            let other = package("torch-1.0-cp314-cp314-linux_x86_64.whl", paths);
            assert_eq!(found(&[rpm.clone(), other]), [""; 0]);
        }
        let whole = package(
            "vllm-1.0-cp314-cp314-linux_x86_64.whl",
            &[
                "vllm/_C.abi3.so",
                "vllm/.kpack/vllm_gfx1151.kpack",
                "vllm/.kpack/vllm_gfx1100.kpack",
                ".devel_links/gfx1151.json",
                "vllm-1.0.dist-info/RECORD",
            ],
        );
        assert_eq!(found(&[rpm.clone(), whole]), [""; 0]);
        // One wheel for the host and one for the targets, as AMD splits them.
        let host = package("vllm-1.0-cp314-cp314-linux_x86_64.whl", &["vllm/_C.abi3.so"]);
        let device = package(
            "amd_vllm_device-1.0-py3-none-any.whl",
            &[
                "vllm/.kpack/vllm_gfx1151.kpack",
                "vllm/.kpack/vllm_gfx1100.kpack",
                ".devel_links/gfx1151.json",
            ],
        );
        assert_eq!(found(&[rpm, host, device]), [""; 0]);
    }

    #[test]
    fn derives_the_distribution_from_package_names() {
        let rpm = |name: &str| Subject { package: Some(name.into()), ..subject("x.rpm", vec![]) };
        let unnamed = |file: &str| Subject { package: None, ..subject(file, vec![]) };
        for (subject, expected) in [
            (rpm("python3-vllm-rocm"), "vllm"),
            (rpm("python3-Flash_Attn"), "flash-attn"),
            (rpm("python-vllm"), "vllm"),
            (rpm("vllm-rocm"), "vllm"),
            (rpm("pythonic-vllm"), "pythonic-vllm"),
            (rpm("vllm"), "vllm"),
            (unnamed("flash-attn-1.0-1.fc43.x86_64.rpm"), "flash-attn"),
            (unnamed("flash_attn-1.0-py3-none-any.whl"), "flash-attn"),
            (unnamed("folder"), ""),
        ] {
            assert_eq!(distribution(&subject), expected, "{:?} {}", subject.package, subject.name);
        }
    }

    #[test]
    fn recognizes_a_copy_under_another_name_by_its_files() {
        let full = package("out/full", &["k/libk.so", "k/.kpack/a.kpack", "k/x.py"]);
        let copy =
            package("k-1.0-py3-none-any.whl", &["k/libk.so", "k/x.py", "k-1.0.dist-info/WHEEL"]);
        assert_eq!(
            found(&[full, copy]),
            [
                "hidden-folder-lost: 1 file in hidden folders of out/full missing, such as k/.kpack/a.kpack"
            ]
        );
    }
}
