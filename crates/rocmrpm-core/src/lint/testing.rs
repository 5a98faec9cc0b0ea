//! Provides helpers for the tests of the rules.

use super::{SourceNames, Spec, lint};
use crate::packages::Packages;
use crate::spec::sections::Sections;

/// Returns a spec with this text and ROCm in `/usr`.
pub(super) fn spec(text: &str) -> Spec<'static> {
    Spec {
        file: "x.spec".into(),
        sections: Sections::parse(text),
        written: ("x.spec".into(), text.into()),
        prefix: "/usr".into(),
        own: None,
        words: None,
    }
}

/// Returns a release that contains cmake 3.31 and gcc 15.
pub(super) fn packages() -> Packages {
    let mut packages = Packages::empty("c", true);
    packages.add("cmake", "cmake", "3.31");
    packages.add("gcc", "gcc", "15");
    packages
}

pub(super) fn words(text: &str) -> SourceNames {
    let mut words = SourceNames::default();
    words.add(text);
    words
}

/// Returns the location and text of every finding of a rule.
pub(super) fn found(spec: &Spec<'_>, rule: &str) -> Vec<String> {
    found_with(spec, &packages(), rule)
}

pub(super) fn found_with(spec: &Spec<'_>, packages: &Packages, rule: &str) -> Vec<String> {
    let (findings, _) = lint(spec, packages).unwrap();
    let of_rule = findings.iter().filter(|finding| finding.id.as_str() == rule);
    let place = |file: &str, line: Option<usize>| {
        line.map_or(file.to_owned(), |line| format!("{file}:{line}"))
    };
    of_rule.map(|f| format!("{} {}", place(&f.file, f.line), f.found)).collect()
}
