//! Checks tags that a packager writes for placeholders, and licenses for SPDX expressions. Builds
//! and publications reject what it finds.

use std::ops::Range;

use super::{Finding, Spec, finding};
use crate::closure::license::not_spdx;
use crate::inspect::Rule;
use crate::lint_rules::{LEFT, LICENSE, PLACEHOLDER};
use crate::spec::sections::{Sections, Tag};
use crate::text::visible;

/// The tags that describe a package to its users.
const DESCRIBING: &[&str] = &["license", "summary", "url"];

pub(super) fn check(spec: &Spec<'_>) -> Vec<Finding> {
    let wrong = |(tag, rule, found): (&Tag, &'static Rule, String)| {
        let expected = if rule.id == LEFT.id { "a value" } else { "an SPDX expression" };
        finding(rule, &spec.file, tag.line, found, expected)
    };
    unfinished(&spec.sections).map(wrong).collect()
}

/// Returns the tags of a spec that are not finished, each with the rule and what is wrong.
fn unfinished(sections: &Sections) -> impl Iterator<Item = (&Tag, &'static Rule, String)> {
    let tags = sections.packages.iter().flat_map(|package| &package.tags);
    // A macro that rpm has not expanded could stand for anything.
    let tags =
        tags.filter(|tag| DESCRIBING.contains(&tag.name.as_str()) && !tag.value.contains('%'));
    tags.filter_map(|tag| {
        if is_placeholder(&tag.value) {
            return Some((tag, &LEFT, tag.value.clone()));
        }
        let problem = (tag.name == "license").then(|| not_spdx(&tag.value)).flatten()?;
        Some((tag, &LICENSE, problem))
    })
}

/// Returns whether a value has a placeholder as a word.
fn is_placeholder(value: &str) -> bool {
    value.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == PLACEHOLDER)
}

/// A tag of a template that must be finished before the package is built.
pub(crate) struct Unfinished {
    /// What is wrong.
    pub message: String,
    /// The place in the template, if it has the tag's value literally.
    pub span: Option<Range<usize>>,
    /// How to fix it.
    pub help: &'static str,
}

/// Returns what is not finished in a rendered spec, with the places in its template.
pub(crate) fn unfinished_in(spec: &str, template: &str) -> Vec<Unfinished> {
    let sections = Sections::parse(spec);
    let found = unfinished(&sections).map(|(tag, rule, found)| {
        let lines = template.split_inclusive('\n').scan(0, |at, line| {
            *at += line.len();
            Some((*at - line.len(), line))
        });
        let start = |line: &str| line.split_once(':').map(|(tag, _)| tag.trim().to_lowercase());
        let mut lines = lines.filter(|(_, line)| start(line).as_deref() == Some(&tag.name));
        let place = lines.find(|(_, line)| line.trim_end().ends_with(tag.value.as_str()));
        let message = match rule.id == LEFT.id {
            true => format!("the placeholder `{}` is left", visible(&found)),
            false => found,
        };
        let span = place.map(|(at, line)| at..at + line.trim_end().len());
        Unfinished { message, span, help: rule.help }
    });
    found.collect()
}

/// Returns what is wrong with the license and the summary of a built package.
pub fn unfinished_package(license: &str, summary: &str) -> Option<String> {
    for (tag, value) in [("License", license), ("Summary", summary)] {
        if is_placeholder(value) {
            return Some(format!("`{tag}` has the placeholder `{}`", visible(value)));
        }
    }
    not_spdx(license)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{found, spec};
    use super::*;

    fn text(license: &str, summary: &str) -> String {
        format!("Name: x\nSummary: {summary}\nLicense: {license}\nURL: https://h/\n%files\n")
    }

    #[test]
    fn rejects_placeholders_and_licenses_that_are_not_spdx() {
        for (license, summary, rule, expected) in [
            (
                "TODO: an SPDX expression",
                "x",
                "placeholder-left",
                vec!["x.spec:3 TODO: an SPDX expression"],
            ),
            ("MIT", "TODO: one line", "placeholder-left", vec!["x.spec:2 TODO: one line"]),
            ("MIT", "Lists of TODOs", "placeholder-left", vec![]),
            (
                "Artistic License",
                "x",
                "license-not-spdx",
                vec!["x.spec:3 `Artistic License` is not an SPDX expression"],
            ),
            ("MIT AND %{theirs}", "x", "license-not-spdx", vec![]),
            ("Apache-2.0 WITH LLVM-exception", "x", "license-not-spdx", vec![]),
        ] {
            assert_eq!(found(&spec(&text(license, summary)), rule), expected, "{license}");
        }
    }

    #[test]
    fn finds_the_place_in_the_template() {
        let template = "Name: x\nLicense:   TODO: y\n";
        let all = unfinished_in(&text("TODO: y", "x"), template);
        let [one] = &all[..] else { panic!("{}", all.len()) };
        assert_eq!(one.message, "the placeholder `TODO: y` is left");
        assert_eq!(&template[one.span.clone().unwrap()], "License:   TODO: y");
    }

    #[test]
    fn built_packages_have_no_placeholders() {
        assert_eq!(unfinished_package("MIT", "Does it"), None);
        assert!(unfinished_package("TODO: x", "Does it").unwrap().contains("`License`"));
        assert!(unfinished_package("MIT", "TODO").unwrap().contains("`Summary`"));
        assert!(unfinished_package("Various", "x").unwrap().contains("`Various`"));
    }
}
