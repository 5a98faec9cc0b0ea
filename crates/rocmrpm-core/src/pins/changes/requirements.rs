//! Requirements that a Python project declares: for its build, for the installed package, in
//! requirements files, and for Python itself. They are compared as text by name.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::scan::{Scan, is_requirements};
use crate::pins::requirements_file::{self, is_option};
use crate::sources::normalized;

/// A requirement that changed: `old` is empty if it is new, `new` is empty if it was removed.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequirementChange {
    /// Where it is declared: `build-system`, `dependencies`, an extra, or a file.
    pub place: String,
    /// The distribution's normalized name (PEP 503).
    pub name: String,
    /// The old requirements: the texts after the name.
    pub old: Vec<String>,
    /// The new requirements.
    pub new: Vec<String>,
}

/// The texts after each name, by place and name.
type Requirements = BTreeMap<(String, String), BTreeSet<String>>;

/// Compares the requirements of two trees.
pub(super) fn changes(old: &Scan, new: &Scan) -> Vec<RequirementChange> {
    let (mut old, new) = (all(old), all(new));
    let mut changed = Vec::new();
    let list = |texts: BTreeSet<String>| texts.into_iter().collect::<Vec<_>>();
    for (key, new) in new {
        let old = old.remove(&key).unwrap_or_default();
        if old != new {
            changed.push((key, list(old), list(new)));
        }
    }
    changed.extend(old.into_iter().map(|(key, old)| (key, list(old), Vec::new())));
    changed.sort();
    let change = |((place, name), old, new)| RequirementChange { place, name, old, new };
    changed.into_iter().map(change).collect()
}

/// Returns the Python range of a project: from pyproject.toml, or from the sdist's metadata.
pub(super) fn python(scan: &Scan) -> Option<String> {
    let declared = pyprojects(scan).find_map(|(_, root)| {
        Some(root.get("project")?.get("requires-python")?.as_str()?.to_owned())
    });
    let metadata = || {
        let lines = scan.text("PKG-INFO")?.lines().take_while(|line| !line.is_empty());
        lines
            .filter_map(|line| line.strip_prefix("Requires-Python:"))
            .map(|v| v.trim().to_owned())
            .next()
    };
    declared.or_else(metadata)
}

fn pyprojects(scan: &Scan) -> impl Iterator<Item = (&str, toml::Table)> {
    let files = scan.files().filter(|(path, _)| path.ends_with("pyproject.toml"));
    // Ignore one that does not parse.
    files.filter_map(|(path, text)| Some((path, text.parse::<toml::Table>().ok()?)))
}

fn all(scan: &Scan) -> Requirements {
    let mut found = Requirements::new();
    let mut add = |place: &str, line: &str| {
        if let Some((name, rest)) = requirement(line) {
            found.entry((place.to_owned(), name)).or_default().insert(rest);
        }
    };
    for (path, root) in pyprojects(scan) {
        let folder = path.strip_suffix("pyproject.toml").unwrap_or_default();
        let mut add_all = |place: &str, value: Option<&toml::Value>| {
            let lines = value.and_then(toml::Value::as_array).into_iter().flatten();
            lines
                .filter_map(toml::Value::as_str)
                .for_each(|line| add(&format!("{folder}{place}"), line));
        };
        add_all("build-system", root.get("build-system").and_then(|table| table.get("requires")));
        let project = root.get("project");
        add_all("dependencies", project.and_then(|table| table.get("dependencies")));
        let extras = project.and_then(|table| table.get("optional-dependencies")?.as_table());
        for (extra, lines) in extras.into_iter().flatten() {
            add_all(&format!("[{extra}]"), Some(lines));
        }
    }
    for (path, text) in scan.files().filter(|(path, _)| is_requirements(path)) {
        requirements_file::lines(text).for_each(|(_, line)| add(path, line));
    }
    found
}

/// Splits a requirement into its normalized name and the rest with single spaces.
fn requirement(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    let end = line
        .find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)))
        .unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let rest = rest.split_whitespace().collect::<Vec<_>>().join(" ");
    if is_option(line) {
        // `-r common.txt` and other options count as requirements.
        return Some((line.split_whitespace().collect::<Vec<_>>().join(" "), String::new()));
    }
    (!name.is_empty()).then(|| (normalized(name), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_requirements() {
        let old = Scan::from([
            (
                "pyproject.toml",
                "[build-system]\nrequires = [\"torch == 2.11.0\", \"cmake>=3.26\", \"ninja\"]\n[project]\nrequires-python=\">=3.10\"\n",
            ),
            (
                "requirements/rocm.txt",
                "-r common.txt\n# x\nRay>=2 ; python_version < '3.14' # why\n",
            ),
            ("requirements/test.txt", "pytest\n"),
        ]);
        let new = Scan::from([
            (
                "pyproject.toml",
                "[build-system]\nrequires = [\"torch==2.12.0\", \"cmake>=3.26\", \"setuptools-rust\"]\n",
            ),
            ("requirements/rocm.txt", "-r common.txt\nray >= 2\n"),
            ("PKG-INFO", "Name: x\nRequires-Python: >=3.11\n\nRequires-Python: no\n"),
        ]);
        let list = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        let found: Vec<_> =
            changes(&old, &new).into_iter().map(|c| (c.place, c.name, c.old, c.new)).collect();
        let change = |place: &str, name: &str, old: &[&str], new: &[&str]| {
            (place.to_owned(), name.to_owned(), list(old), list(new))
        };
        assert_eq!(
            found,
            [
                change("build-system", "ninja", &[""], &[]),
                change("build-system", "setuptools-rust", &[], &[""]),
                change("build-system", "torch", &["== 2.11.0"], &["==2.12.0"]),
                change(
                    "requirements/rocm.txt",
                    "ray",
                    &[">=2 ; python_version < '3.14'"],
                    &[">= 2"]
                ),
            ]
        );
        assert_eq!(
            (python(&old).as_deref(), python(&new).as_deref()),
            (Some(">=3.10"), Some(">=3.11"))
        );
        assert_eq!(changes(&Scan::from([("pyproject.toml", "[")]), &Scan::from([])), []);
    }
}
