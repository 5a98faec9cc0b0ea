//! A rule about the paths of an archive's members: where unpacking would write. It does not check
//! their content.

use super::{Rule, RuleId, Severity};
use crate::facts::{Subject, SubjectKind};
use crate::finding::Finding;

pub(super) const OUTSIDE: Rule = Rule {
    id: RuleId("path-outside"),
    severity: Severity::Error,
    what: "a path in an archive points outside of the folder that the archive is unpacked into",
    why: "a program that does not check the path overwrites files elsewhere; one that checks it rejects the \
          archive, or writes the file to a path that its list of files does not contain",
    incident: "Snyk, \"Zip Slip\", 2018: archives with `../` in their paths executed code in many unpackers",
    help: "build the archive again from files with plain paths; if it comes from elsewhere, do not \
           install it",
};

/// Judges the paths of a subject. Returns one finding for any number of bad paths.
pub(super) fn check(subject: &Subject) -> Option<Finding> {
    // The paths of RPMs are absolute; other paths are relative to the folder where they are
    // unpacked.
    let (packed, absolute) = match subject.kind {
        SubjectKind::Rpm => (true, true),
        SubjectKind::Wheel | SubjectKind::Tar => (true, false),
        _ => (false, true),
    };
    let outside = |path: &&String| {
        packed && (path.split('/').any(|part| part == "..") || !absolute && path.starts_with('/'))
    };
    let contents = &subject.contents;
    let mut bad = contents.paths.iter().chain(contents.links.keys()).filter(outside);
    let (first, more) = (bad.next()?, bad.count());
    let more = match more {
        0 => String::new(),
        1 => " and 1 more path like it".to_owned(),
        more => format!(" and {more} more paths like it"),
    };
    let expected = if absolute { "paths without `..`" } else { "relative paths without `..`" };
    let finding = OUTSIDE.finding(format!("`{first}`{more}"), expected);
    Some(Finding { subject: Some(subject.path.clone()), file: Some(first.clone()), ..finding })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::FileFacts;
    use crate::testing::subject;

    fn found(path: &str, files: &[&str], links: &[&str]) -> Option<String> {
        let files =
            files.iter().map(|path| FileFacts { path: (*path).to_owned(), ..FileFacts::default() });
        let mut subject = subject(path, files.collect());
        subject.contents.links =
            links.iter().map(|link| ((*link).to_owned(), "x".to_owned())).collect();
        check(&subject).map(|finding| finding.found)
    }

    #[test]
    fn reports_paths_outside_of_the_archive() {
        assert_eq!(
            found("a.rpm", &["/usr/lib/q/../x.so", "/usr/ok"], &[]).unwrap(),
            "`/usr/lib/q/../x.so`"
        );
        assert_eq!(found("a.whl", &["../../x", "ok"], &[]).unwrap(), "`../../x`");
        assert_eq!(
            found("a.whl", &["/etc/x"], &["../y"]).unwrap(),
            "`/etc/x` and 1 more path like it"
        );
        assert_eq!(
            found("a.whl", &["/1", "/2", "/3"], &[]).unwrap(),
            "`/1` and 2 more paths like it"
        );
        assert_eq!(found("a.rpm", &["/usr/lib/a..b/..c"], &["/usr/lib/x"]), None);
        assert_eq!(found("a.whl", &["a/b..py", "a..b/c"], &[]), None);
        assert_eq!(found("a.whl", &[], &[]), None);
    }
}
