//! Checks the requirements of a spec's packages. It does not install or fetch any package.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Spec, finding};
use crate::lint_rules::{MISSING, NO_FILES, OUTDATED, UNCHECKED, UNDEFINED};
use crate::packages::{Packages, PackagesError, RequirementAnswer, split};
use crate::spec::sections::Sections;

/// Tags that declare relations of a built package.
const RELATIONS: &[&str] = &[
    "requires",
    "recommends",
    "suggests",
    "supplements",
    "enhances",
    "provides",
    "conflicts",
    "obsoletes",
];

/// Adds what a spec of the stack builds to `packages`: its packages, their provides, and the Python
/// projects that rpm will find in them.
pub fn add_own(packages: &mut Packages, sections: &Sections, projects: &[&str]) {
    let version = sections.value("version").unwrap_or_default();
    let epoch = sections.value("epoch");
    for package in sections.packages.iter().filter(|package| package.files) {
        let version = package.value("version").unwrap_or(version);
        let epoch = package.value("epoch").or(epoch);
        let evr = epoch.map(|epoch| format!("{epoch}:{version}"));
        let version = evr.as_deref().unwrap_or(version);
        packages.add(&package.name, &package.name, version);
        for tag in package.tags.iter().filter(|tag| tag.name == "provides") {
            for provided in split(&tag.value) {
                let mut words = provided.split_whitespace();
                let name = words.next().unwrap_or_default();
                // A package always provides its own name at its own version.
                if sections.packages.iter().any(|package| package.name == name) {
                    continue;
                }
                packages.add(name, &package.name, words.nth(1).unwrap_or_default());
            }
        }
    }
    // The first package of a Python module contains the project.
    let python = sections.packages.iter().find(|p| p.files && p.name.starts_with("python3-"));
    for project in projects {
        if let Some(package) = python {
            let project = crate::packages::normalized_with_extra(project);
            packages.add(&format!("python3dist({project})"), &package.name, version);
        }
    }
}

pub(super) fn check(spec: &Spec<'_>, packages: &Packages) -> Result<Vec<Finding>, PackagesError> {
    let mut findings = Vec::new();
    let mut unchecked: BTreeMap<String, (Vec<String>, usize)> = BTreeMap::new();
    let mut answers: BTreeMap<String, RequirementAnswer> = BTreeMap::new();
    // Whether an undefined macro may declare the files of a package.
    let mut undefined = false;
    for package in &spec.sections.packages {
        for tag in &package.tags {
            let no_files = !package.files && !package.off;
            if no_files && RELATIONS.contains(&tag.name.as_str()) {
                if !spec.sections.unknown.is_empty() {
                    undefined = true;
                    continue;
                }
                let found = format!(
                    "{}: {} in `{}`, which has no %files",
                    tag.name, tag.value, package.name
                );
                let expected = "it in a package with %files";
                findings.push(finding(&NO_FILES, &spec.file, tag.line, found, expected));
            }
            let build = tag.name == "buildrequires";
            if !(build || package.files && tag.name == "requires") {
                continue;
            }
            for requirement in split(&tag.value) {
                let answer = match answers.get(&requirement) {
                    Some(answer) => answer.clone(),
                    None => answers
                        .entry(requirement.clone())
                        .or_insert(packages.satisfy(&requirement)?)
                        .clone(),
                };
                let tag_name = if build { "BuildRequires" } else { "Requires" };
                let (rule, expected) = match answer {
                    RequirementAnswer::By(_) => continue,
                    RequirementAnswer::Missing => (&MISSING, "an available package".to_owned()),
                    RequirementAnswer::OtherVersion { package, version, older } => {
                        let rule = if older { &OUTDATED } else { &MISSING };
                        (rule, format!("the available version: `{package}` {version}"))
                    }
                    RequirementAnswer::NotChecked(reason) => {
                        let (list, _) = unchecked.entry(reason).or_insert((Vec::new(), tag.line));
                        if !list.contains(&requirement) {
                            list.push(requirement);
                        }
                        continue;
                    }
                };
                let found = format!("{tag_name}: {requirement}");
                findings.push(finding(rule, &spec.file, tag.line, found, expected));
            }
        }
    }
    if let Some(first) = spec.sections.unknown.first().filter(|_| undefined) {
        let lines = spec.sections.unknown.iter();
        let calls: BTreeSet<&str> =
            lines.filter_map(|line| line.text.split_whitespace().next()).collect();
        let found = calls.into_iter().collect::<Vec<_>>().join(", ");
        let expected = "macros that this machine or rocmrpm defines";
        findings.push(finding(&UNDEFINED, &spec.file, first.number, found, expected));
    }
    findings.extend(unchecked.into_iter().map(|(reason, (list, line))| {
        finding(
            &UNCHECKED,
            &spec.file,
            line,
            list.join(", "),
            format!("requirements that can be looked up; {reason}"),
        )
    }));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{found, found_with, packages, spec};
    use super::*;

    #[test]
    fn reports_missing_requirements_once_with_their_line() {
        let text = "Name: a\nVersion: 1\nBuildRequires: cmake >= 99, gcc\nRequires: nothing\nRequires: /usr/bin/x\n\
                    BuildRequires: gcc nothing\n%files\n";
        assert_eq!(
            found(&spec(text), "requirement-missing"),
            ["x.spec:4 Requires: nothing", "x.spec:6 BuildRequires: nothing"]
        );
        assert_eq!(
            found(&spec(text), "requirement-outdated"),
            ["x.spec:3 BuildRequires: cmake >= 99"]
        );
        let exact = "Name: a\nBuildRequires: cmake < 3\n";
        assert_eq!(
            found(&spec(exact), "requirement-missing"),
            ["x.spec:2 BuildRequires: cmake < 3"]
        );
        assert_eq!(found(&spec(text), "requirement-unchecked"), ["x.spec:5 /usr/bin/x"]);
    }

    #[test]
    fn finds_requires_of_a_package_without_files() {
        let text = "Name: python-a\nBuildRequires: gcc\nRequires: gcc\n%package -n python3-a\nRequires: gcc\n\
                    %package devel\nProvides: b\n%files -n python3-a\n";
        assert_eq!(
            found(&spec(text), "requires-without-files"),
            [
                "x.spec:3 requires: gcc in `python-a`, which has no %files",
                "x.spec:7 provides: b in `python-a-devel`, which has no %files"
            ]
        );
    }

    #[test]
    fn an_undefined_macro_may_declare_the_files() {
        let text = "Name: a\nRequires: gcc\n%some_font_pkg -f x\n%some_font_pkg -f y\n";
        assert_eq!(found(&spec(text), "requires-without-files"), [""; 0]);
        assert_eq!(found(&spec(text), "macro-undefined"), ["x.spec:3 %some_font_pkg"]);
        let mut off = spec("Name: a\n%package test\nRequires: gcc\n%files\n");
        off.sections.packages[1].off = true;
        assert_eq!(found(&off, "requires-without-files"), [""; 0]);
    }

    #[test]
    fn packages_of_a_spec_have_its_epoch() {
        let mut packages = packages();
        let text = "Name: a\nEpoch: 2\nVersion: 5\nRequires: a-libs = 2:5-1\nRequires: b < 2:4\n%files\n\
                    %package libs\n%files libs\n%package -n b\nVersion: 3\n%files -n b\n";
        let own = spec(text);
        add_own(&mut packages, &own.sections, &[]);
        assert_eq!(found_with(&own, &packages, "requirement-outdated"), [""; 0]);
        assert_eq!(found_with(&own, &packages, "requirement-missing"), [""; 0]);
    }

    #[test]
    fn packages_of_the_stack_satisfy_requirements() {
        let mut packages = packages();
        let own = spec(
            "Name: python-torch-rocm\nVersion: 2.11.0\n%package -n python3-torch-rocm\n\
             Provides: pytorch-rocm = 2.11.0-1, x\n\
             Provides: python3-torch-rocm = 9\n%files -n python3-torch-rocm\n",
        );
        add_own(&mut packages, &own.sections, &["Torch"]);
        let text = "Name: a\nRequires: python3dist(torch) >= 2.10\nRequires: pytorch-rocm = 2.11.0 x\n\
                    Requires: python3-torch-rocm >= 3\n%files\n";
        assert_eq!(
            found_with(&spec(text), &packages, "requirement-outdated"),
            ["x.spec:4 Requires: python3-torch-rocm >= 3"]
        );
    }
}
