//! The table of what goes together, `compat.toml`: what upstream's files do not say, and
//! what they say while they cannot be had. Looking things up, nothing else.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::error::{Error, Kind};
use crate::workspace::{VersionRange, compare};

/// The table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compat {
    /// Where components come from that a pin set does not have.
    pub origins: BTreeMap<String, Origin>,
    #[serde(rename = "row")]
    rows: Vec<Row>,
}

/// Where a component comes from.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// A git repository.
    pub git: Option<String>,
    /// A project on the package index.
    pub sdist: Option<String>,
    /// Whether its submodules belong to it.
    #[serde(default)]
    pub submodules: bool,
    /// The folders that are packed.
    #[serde(default)]
    pub paths: Vec<String>,
}

/// What goes together with some versions of a component.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    component: String,
    versions: String,
    /// The versions beside it: one version, or conditions.
    #[serde(default)]
    pub with: BTreeMap<String, String>,
    /// The Pythons that its wheels are for.
    pub python: Option<String>,
    /// The lowest ROCm that upstream builds it for.
    pub rocm: Option<String>,
    /// The repository of its LLVM, where it is not LLVM's own.
    pub llvm: Option<String>,
    /// Where that stands.
    pub source: String,
}

impl Compat {
    /// Returns the table.
    pub fn get() -> Result<&'static Self, Error> {
        static TABLE: OnceLock<Result<Compat, String>> = OnceLock::new();
        let table =
            TABLE.get_or_init(|| toml::from_str(include_str!("compat.toml")).map_err(|e| e.to_string()));
        table.as_ref().map_err(|error| Error::new(Kind::Internal, format!("compat.toml: {error}")))
    }

    /// Returns the row of a component's version.
    pub fn row(&self, component: &str, version: &str) -> Option<&Row> {
        self.rows.iter().find(|row| {
            row.component == component
                && VersionRange::parse(&row.versions).is_some_and(|range| range.holds(version))
        })
    }
}

/// Returns whether a version is what a row wants: the version itself or one that the
/// conditions hold.
pub fn satisfies(version: &str, wanted: &str) -> bool {
    match VersionRange::parse(wanted) {
        Some(range) => range.holds(version),
        None => compare(version, wanted).is_eq(),
    }
}

/// Returns the one version that a row wants, if it wants one.
pub fn exact(wanted: &str) -> Option<&str> {
    VersionRange::parse(wanted).is_none().then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{ComponentName, is_version};

    #[test]
    fn the_table_is_sound() {
        let table = Compat::get().unwrap();
        for row in &table.rows {
            assert!(VersionRange::parse(&row.versions).is_some(), "{}", row.versions);
            assert!(ComponentName::parse(&row.component).is_some());
            assert!(row.python.as_deref().is_none_or(|range| VersionRange::parse(range).is_some()));
            assert!(row.rocm.as_deref().is_none_or(is_version));
            for wanted in row.with.values() {
                assert!(exact(wanted).is_none_or(is_version), "{wanted}");
            }
            assert!(!row.source.is_empty());
        }
        for (name, origin) in &table.origins {
            assert_eq!(origin.git.is_some(), origin.sdist.is_none(), "{name}");
        }
    }

    #[test]
    fn rows_agree_with_each_other() {
        let table = Compat::get().unwrap();
        for row in table.rows.iter().filter(|row| row.component == "torch") {
            let torch = row.versions.trim_start_matches("==");
            for name in ["torchvision", "torchaudio"] {
                let Some(other) = table.row(name, &row.with[name]) else { continue };
                assert!(satisfies(torch, &other.with["torch"]), "{torch} and {name} {}", row.with[name]);
            }
        }
    }

    #[test]
    fn versions_and_conditions_are_told_apart() {
        assert!(satisfies("2.11.0", "2.11.0") && !satisfies("2.13.0", "2.11.0"));
        assert!(satisfies("2.15.0", ">=2.14.0") && !satisfies("2.13.0", ">=2.14.0"));
        assert_eq!((exact("2.11.0"), exact(">=2.14.0")), (Some("2.11.0"), None));
        let table = Compat::get().unwrap();
        assert_eq!(table.row("torch", "2.13.0").unwrap().with["torchvision"], "0.28.0");
        assert!(table.row("torch", "1.0").is_none());
    }
}
