//! Versions that work together, for cases where upstream's files do not state it or are unavailable.

use std::collections::BTreeMap;

use super::{Reference, not_a_range, range};
use crate::names::is_version;
use crate::range::{VersionRange, compare};
use crate::workspace::document::{At, Table};
use crate::workspace::layout::UPSTREAMS;

/// What works with some versions of a component.
#[derive(Debug, Clone)]
pub struct Together {
    /// The component.
    pub of: String,
    /// Its versions.
    pub versions: VersionRange,
    /// The versions of other components: one version, or a range.
    pub with: BTreeMap<String, String>,
    /// The Python versions that upstream has wheels for.
    pub python: Option<String>,
    /// The oldest supported ROCm.
    pub rocm: Option<String>,
    /// Where upstream states it.
    pub source: String,
}

impl Together {
    /// Returns the citation for messages and comments.
    pub fn cited(&self) -> String {
        format!("{UPSTREAMS}: {}", self.source)
    }

    pub(super) fn read(table: &mut Table<'_>, references: &mut Vec<Reference>) -> Option<Self> {
        let of = table.required_string("of", "a component");
        let versions = range(table, "versions");
        let with = table.string_map("with");
        for (name, At { value, span }) in &with {
            if exact(value).is_some_and(|version| !is_version(version)) {
                let label = "expected a version or a range such as `>=2.14`";
                table.problem(span.clone(), "this is not a version", label, None);
            }
            let name = At { value: name.clone(), span: span.clone() };
            references.push(Reference { name, of: None });
        }
        let python = table.string("python");
        if let Some(At { value, span }) = &python
            && VersionRange::parse(value).is_none()
        {
            not_a_range(table, span.clone());
        }
        let rocm = table.string("rocm");
        if let Some(At { value, span }) = &rocm
            && !is_version(value)
        {
            table.problem(
                span.clone(),
                "this is not a version",
                "expected a version such as `7.2`",
                None,
            );
        }
        let source = table.required_string("source", "where upstream states it");
        references.extend(of.clone().map(|name| Reference { name, of: None }));
        Some(Self {
            of: of?.value,
            versions,
            with: with.into_iter().map(|(name, at)| (name, at.value)).collect(),
            python: python.map(|at| at.value),
            rocm: rocm.map(|at| at.value),
            source: source?.value,
        })
    }
}

/// Returns whether a version equals the wanted one, or is in the wanted range.
pub fn satisfies(version: &str, wanted: &str) -> bool {
    match VersionRange::parse(wanted) {
        Some(range) => range.holds(version),
        None => compare(version, wanted).is_eq(),
    }
}

/// Returns the only wanted version, or `None` for a range.
pub fn exact(wanted: &str) -> Option<&str> {
    VersionRange::parse(wanted).is_none().then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_versions_from_ranges() {
        assert!(satisfies("2.11.0", "2.11.0") && !satisfies("2.13.0", "2.11.0"));
        assert!(satisfies("2.15.0", ">=2.14.0") && !satisfies("2.13.0", ">=2.14.0"));
        assert_eq!((exact("2.11.0"), exact(">=2.14.0")), (Some("2.11.0"), None));
    }
}
