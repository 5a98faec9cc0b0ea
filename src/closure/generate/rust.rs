//! What a package needs to know of a source distribution with Rust in it. What follows for its
//! spec is decided elsewhere.

use std::path::Path;

use crate::closure::license;
use crate::sources::{CargoProject, LinkedCrate};

/// Returns what cargo makes of a source distribution with these files in its top folder; `None`
/// without a `Cargo.lock`, in the top folder or where maturin's `manifest-path` leads.
///
/// Source: Maturin User Guide, "Configuration".
pub(super) fn project(dir: &Path, names: &[String]) -> Option<CargoProject> {
    let text = std::fs::read_to_string(dir.join("pyproject.toml")).unwrap_or_default();
    let table = text.parse::<toml::Table>().unwrap_or_default();
    let maturin = |key: &str| table.get("tool")?.get("maturin")?.get(key);
    let manifest = maturin("manifest-path").and_then(toml::Value::as_str).filter(|path| is_inside(path));
    let manifest = manifest.unwrap_or("Cargo.toml").to_owned();
    let beside = match manifest.rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/Cargo.lock"),
        None => "Cargo.lock".to_owned(),
    };
    let lock_file = match names.iter().any(|name| name == "Cargo.lock") {
        true => "Cargo.lock".to_owned(),
        false => dir.join(&beside).is_file().then_some(beside)?,
    };
    // Those for some Pythons alone are tables.
    let features = maturin("features").and_then(toml::Value::as_array).into_iter().flatten();
    let features = features.filter_map(toml::Value::as_str).filter(|name| is_feature(name));
    Some(CargoProject { lock_file, manifest, features: features.map(str::to_owned).collect() })
}

/// Tells whether a path leads to a manifest in the source, and is plain enough for a spec.
fn is_inside(path: &str) -> bool {
    let plain = |part: &str| {
        !matches!(part, "" | "..") && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    (path == "Cargo.toml" || path.ends_with("/Cargo.toml")) && path.split('/').all(plain)
}

/// Source: The Cargo Book, "Features": letters, digits, `_`, `-`, `+`, `.`; `/` after a dependency.
fn is_feature(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-+./?".contains(&b))
}

/// Returns the licence of what is linked from these crates too, or what is wrong with theirs.
pub(super) fn with_crates(license: &str, crates: &[LinkedCrate]) -> Result<String, String> {
    let mut all = vec![license.to_owned()];
    for LinkedCrate { name, version, license } in crates {
        let of = format!("the crate {name} {version} that it is linked from");
        let Some(license) = license else { return Err(format!("{of} does not say its licence")) };
        // Source: The Cargo Book, "The license and license-file fields": `/` was once allowed.
        let license = license.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ");
        if let Some(problem) = license::refused(&license) {
            return Err(format!("{of} cannot be taken: {problem}"));
        }
        all.push(license);
    }
    Ok(license::all(all.iter().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Option<CargoProject> {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let names = std::fs::read_dir(dir.path()).unwrap();
        let names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        project(dir.path(), &names)
    }

    #[test]
    fn maturin_says_which_package_is_built_with_which_features() {
        let of = |lock_file: &str, manifest: &str, features: &[&str]| CargoProject {
            lock_file: lock_file.into(),
            manifest: manifest.into(),
            features: features.iter().map(|&name| name.to_owned()).collect(),
        };
        let maturin = |lines: &str| format!("[tool.maturin]\n{lines}");
        let deep = maturin("manifest-path = \"py/own/Cargo.toml\"");
        let features =
            maturin("features = [\"pyo3/abi3\", \"%{x}\", {feature = \"old\", python-version = \"<3\"}]");
        let outside = maturin("manifest-path = \"../Cargo.toml\"");
        assert_eq!(found(&[("pyproject.toml", "")]), None);
        assert_eq!(found(&[("Cargo.lock", "")]), Some(of("Cargo.lock", "Cargo.toml", &[])));
        assert_eq!(
            found(&[("pyproject.toml", &features), ("Cargo.lock", "")]),
            Some(of("Cargo.lock", "Cargo.toml", &["pyo3/abi3"]))
        );
        assert_eq!(
            found(&[("pyproject.toml", &deep), ("Cargo.lock", ""), ("py/own/Cargo.toml", "")]),
            Some(of("Cargo.lock", "py/own/Cargo.toml", &[]))
        );
        assert_eq!(
            found(&[("pyproject.toml", &deep), ("py/own/Cargo.lock", "")]),
            Some(of("py/own/Cargo.lock", "py/own/Cargo.toml", &[]))
        );
        assert_eq!(found(&[("pyproject.toml", &deep), ("py/Cargo.lock", "")]), None);
        assert_eq!(
            found(&[("pyproject.toml", &outside), ("Cargo.lock", "")]),
            Some(of("Cargo.lock", "Cargo.toml", &[]))
        );
    }

    #[test]
    fn the_licence_is_that_of_all_crates() {
        let of = |name: &str, license: Option<&str>| LinkedCrate {
            name: name.into(),
            version: "1.0.0".into(),
            license: license.map(str::to_owned),
        };
        let good =
            [of("a", Some("MIT/Apache-2.0")), of("b", Some("MIT OR Apache-2.0")), of("c", Some("MIT"))];
        assert_eq!(
            with_crates("BSD-3-Clause", &good).unwrap(),
            "(MIT OR Apache-2.0) AND BSD-3-Clause AND MIT"
        );
        for (bad, said) in [
            (of("d", None), "the crate d 1.0.0 that it is linked from does not say its licence"),
            (
                of("e", Some("SSPL-1.0")),
                "the crate e 1.0.0 that it is linked from cannot be taken: \
                 `SSPL-1.0` is not among the licences that Fedora allows",
            ),
        ] {
            assert_eq!(with_crates("MIT", &[bad]).unwrap_err(), said);
        }
    }
}
