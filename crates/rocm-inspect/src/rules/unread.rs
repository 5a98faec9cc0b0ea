//! Rules about files that were not read. Their content is unknown, so no other rule judges them.

use super::{Rule, RuleId, Severity};
use crate::facts::{Subject, Unread};
use crate::finding::Finding;

pub(super) const FILE: Rule = Rule {
    id: RuleId("file-unread"),
    severity: Severity::Error,
    what: "a file or a folder is unreadable",
    why: "it is unknown whether it loads, and which GPUs it serves",
    incident: "",
    help: "make it readable for your user, or remove it from the folder; unpack an archive with sparse files, and \
           inspect the folder",
};

pub(super) const ARCHIVE: Rule = Rule {
    id: RuleId("archive-unread"),
    severity: Severity::Warning,
    what: "an archive inside a package or a folder was not read",
    why: "other rules do not see its libraries and GPU code, so the results for targets may be wrong",
    incident: "rocm_sdk_devel's wheel has its libraries in `_devel.tar.xz`, which is unpacked on first use",
    help: "inspect the archive separately: pass its path, or unpack it and pass the folder",
};

/// Judges the unread files of a subject: one finding each for files and for archives.
pub(super) fn check(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (rule, archive) in [(&FILE, false), (&ARCHIVE, true)] {
        let unread: Vec<&Unread> =
            subject.unread.iter().filter(|unread| unread.archive == archive).collect();
        let Some(first) = unread.first() else { continue };
        let more = match unread.len() {
            1 => String::new(),
            2 => ", and 1 more".to_owned(),
            count => format!(", and {} more", count - 1),
        };
        let finding = rule.finding(format!("not read: {}{more}", first.why), "a readable file");
        findings.push(Finding {
            subject: Some(subject.path.clone()),
            file: Some(first.path.clone()),
            ..finding
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::subject;

    #[test]
    fn reports_unread_files_once_for_each_kind() {
        let unread =
            |path: &str, archive| Unread { path: path.into(), archive, why: "is odd".into() };
        let mut folder = subject("folder", Vec::new());
        assert_eq!(check(&folder), []);
        folder.unread = vec![unread("a.7z", true), unread("b.7z", true), unread("c", false)];
        let found: Vec<_> =
            check(&folder).iter().map(|f| format!("{} {}", f.severity, f)).collect();
        assert_eq!(
            found,
            [
                "error c: found not read: is odd, expected a readable file [file-unread]",
                "warning a.7z: found not read: is odd, and 1 more, expected a readable file [archive-unread]"
            ]
        );
    }
}
