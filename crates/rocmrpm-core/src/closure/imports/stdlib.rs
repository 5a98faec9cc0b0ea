//! The top-level modules of Python's standard library, from a table. Does not cover submodules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;

/// A Python's major and minor version.
type Python = (u32, u32);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    modules: BTreeSet<String>,
    since: BTreeMap<String, String>,
    until: BTreeMap<String, String>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    toml::from_str(include_str!("stdlib.toml"))
        .unwrap_or_else(|error| unreachable!("a test reads stdlib.toml: {error}"))
});

/// Returns whether the standard library of a Python such as `3.14` has a top-level module of this
/// name.
pub(super) fn has(module: &str, python: &str) -> bool {
    let bound =
        |table: &BTreeMap<String, String>| table.get(module).and_then(|version| pair(version));
    let Some(python) = pair(python) else { return TABLE.modules.contains(module) };
    match bound(&TABLE.until) {
        Some(last) => python <= last,
        None => {
            TABLE.modules.contains(module)
                && bound(&TABLE.since).is_none_or(|first| python >= first)
        }
    }
}

fn pair(version: &str) -> Option<Python> {
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_modules_of_each_python() {
        for (module, python, expected) in [
            ("os", "3.14", true),
            ("_thread", "3.14", true),
            ("numpy", "3.14", false),
            ("annotationlib", "3.14", true),
            ("annotationlib", "3.13", false),
            ("cgi", "3.12", true),
            ("cgi", "3.14", false),
        ] {
            assert_eq!(has(module, python), expected, "{module} in {python}");
        }
        for version in TABLE.since.values().chain(TABLE.until.values()) {
            assert!(pair(version).is_some(), "{version}");
        }
        assert!(TABLE.since.keys().all(|module| TABLE.modules.contains(module)));
        assert!(TABLE.until.keys().all(|module| !TABLE.modules.contains(module)));
    }
}
