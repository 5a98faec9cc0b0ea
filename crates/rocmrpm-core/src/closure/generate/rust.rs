//! Gathers the facts about the Rust parts of a source distribution. Does not generate the spec.

use std::collections::BTreeSet;
use std::path::Path;

use crate::closure::license;
use crate::sources::{CargoProject, LinkedCrate, read_inside};

/// Returns the cargo project of a source distribution with these files in its top folder, as
/// maturin or setuptools-rust would build it; `None` without a `Cargo.lock` in the top folder or
/// next to the manifest.
///
/// Sources: Maturin User Guide, "Configuration" and "Project Layout"; setuptools-rust,
/// "pyproject.toml".
pub(crate) fn project(dir: &Path, names: &[String]) -> Option<CargoProject> {
    let bytes = read_inside(dir, "pyproject.toml").ok().flatten().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let table = text.parse::<toml::Table>().unwrap_or_default();
    let tool = |name: &str| table.get("tool")?.get(name);
    let maturin = |key: &str| tool("maturin")?.get(key);
    let parts =
        ["ext-modules", "bins"].into_iter().filter_map(|key| tool("setuptools-rust")?.get(key));
    let parts: Vec<&toml::Value> = parts.filter_map(toml::Value::as_array).flatten().collect();

    let manifests = maturin("manifest-path")
        .into_iter()
        .chain(parts.iter().filter_map(|part| part.get("path")));
    let manifest = manifests.filter_map(toml::Value::as_str).find(|path| is_inside(path));
    let in_top = |name: &str| names.iter().any(|other| other == name);
    let manifest = match manifest {
        Some(path) => path,
        None if !in_top("Cargo.toml") && dir.join("rust/Cargo.toml").is_file() => "rust/Cargo.toml",
        None => "Cargo.toml",
    };
    let beside = format!("{}Cargo.lock", manifest.strip_suffix("Cargo.toml").unwrap_or_default());
    let lock_file = match in_top("Cargo.lock") {
        true => "Cargo.lock".to_owned(),
        false => dir.join(&beside).is_file().then_some(beside)?,
    };
    let lists =
        maturin("features").into_iter().chain(parts.iter().filter_map(|part| part.get("features")));
    let features = lists.filter_map(toml::Value::as_array).flatten();
    // A table applies only to some versions of Python. Include it anyway: an unneeded license is
    // better than a missing one.
    let named = |value: &toml::Value| {
        value.as_str().or_else(|| value.get("feature")?.as_str()).map(str::to_owned)
    };
    // cargo rejects other names.
    let features: BTreeSet<String> =
        features.filter_map(named).filter(|name| is_feature(name)).collect();
    let is_set = |key: &str| maturin(key).and_then(toml::Value::as_bool) == Some(true);
    Some(CargoProject {
        lock_file,
        manifest: manifest.to_owned(),
        features: features.into_iter().collect(),
        all_features: is_set("all-features"),
        no_default_features: is_set("no-default-features"),
    })
}

/// Returns whether a path names a manifest inside the source, and is safe to use in a spec.
fn is_inside(path: &str) -> bool {
    let plain = |part: &str| {
        !matches!(part, "" | "..")
            && !part.starts_with('-')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    (path == "Cargo.toml" || path.ends_with("/Cargo.toml")) && path.split('/').all(plain)
}

/// Returns whether a name is that of a feature. Source: The Cargo Book, "Features": letters,
/// digits, `_`, `-`, `+`, `.`; `/` after a dependency.
fn is_feature(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-+./?".contains(&b);
    !name.is_empty() && !name.starts_with('-') && name.bytes().all(plain)
}

/// Combines a license with those of the crates that are linked in; the error names a crate whose
/// license is missing or not allowed.
pub(crate) fn with_crates(license: &str, crates: &[LinkedCrate]) -> Result<String, String> {
    let mut all = vec![license.to_owned()];
    for LinkedCrate { name, version, license } in crates {
        let of = format!("the linked crate {name} {version}");
        let Some(license) = license else { return Err(format!("{of} does not state its license")) };
        let license = license::of_crate(license);
        if let Some(problem) = license::refused(&license) {
            return Err(format!("{of} cannot be used: {problem}"));
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
    fn ignores_links_out_of_the_source() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let text = "[tool.maturin]\nmanifest-path = \"x/Cargo.toml\"\n";
        std::fs::write(outside.path().join("pyproject.toml"), text).unwrap();
        let link = dir.path().join("pyproject.toml");
        std::os::unix::fs::symlink(outside.path().join("pyproject.toml"), link).unwrap();
        std::fs::write(dir.path().join("Cargo.lock"), "").unwrap();
        let manifest = |dir: &Path| project(dir, &["Cargo.lock".to_owned()]).unwrap().manifest;
        assert_eq!(manifest(dir.path()), "Cargo.toml");
        std::fs::write(outside.path().join("Cargo.lock"), "").unwrap();
        assert_eq!(manifest(outside.path()), "x/Cargo.toml");
    }

    #[test]
    fn reads_manifest_and_features_from_pyproject() {
        let of = |lock_file: &str, manifest: &str, features: &[&str]| {
            Some(CargoProject {
                lock_file: lock_file.into(),
                manifest: manifest.into(),
                features: features.iter().map(|&name| name.to_owned()).collect(),
                all_features: false,
                no_default_features: false,
            })
        };
        let (lock, top) = (("Cargo.lock", ""), of("Cargo.lock", "Cargo.toml", &[]));
        assert_eq!(found(&[("pyproject.toml", "")]), None);
        assert_eq!(found(&[lock]), top);
        assert_eq!(found(&[lock, ("Cargo.toml", ""), ("rust/Cargo.toml", "")]), top);
        let beside = [("rust/Cargo.toml", ""), ("rust/Cargo.lock", "")];
        assert_eq!(found(&beside), of("rust/Cargo.lock", "rust/Cargo.toml", &[]));
        assert_eq!(found(&[("Cargo.toml", ""), ("rust/Cargo.lock", "")]), None);

        let deep = ("pyproject.toml", "[tool.maturin]\nmanifest-path = \"py/own/Cargo.toml\"");
        assert_eq!(found(&[deep, lock]), of("Cargo.lock", "py/own/Cargo.toml", &[]));
        assert_eq!(
            found(&[deep, ("py/own/Cargo.lock", "")]),
            of("py/own/Cargo.lock", "py/own/Cargo.toml", &[])
        );
        assert_eq!(found(&[deep, ("py/Cargo.lock", "")]), None);
        for outside in [
            "../Cargo.toml",
            "/etc/Cargo.toml",
            "-n/Cargo.toml",
            "$(x)/Cargo.toml",
            "py/Cargo.lock",
        ] {
            let text = format!("[tool.maturin]\nmanifest-path = \"{outside}\"");
            assert_eq!(found(&[("pyproject.toml", &text), lock]), top, "{outside}");
        }

        let text = "[tool.maturin]\nfeatures = [\"pyo3/abi3\", \"%{x}\", \"-Z\", \
                    {feature = \"old\", python-version = \"<3\"}]";
        assert_eq!(
            found(&[("pyproject.toml", text), lock]),
            of("Cargo.lock", "Cargo.toml", &["old", "pyo3/abi3"])
        );
        let text = "[[tool.setuptools-rust.ext-modules]]\npath = \"a/Cargo.toml\"\nfeatures = [\"b\"]\n\
                    [[tool.setuptools-rust.bins]]\nfeatures = [\"c\"]";
        assert_eq!(
            found(&[("pyproject.toml", text), lock]),
            of("Cargo.lock", "a/Cargo.toml", &["b", "c"])
        );
        let text = "[tool.maturin]\nall-features = true\nno-default-features = true";
        let all = CargoProject { all_features: true, no_default_features: true, ..top.unwrap() };
        assert_eq!(found(&[("pyproject.toml", text), lock]), Some(all));
    }

    #[test]
    fn combines_licenses_of_all_crates() {
        let of = |name: &str, license: Option<&str>| LinkedCrate {
            name: name.into(),
            version: "1.0.0".into(),
            license: license.map(str::to_owned),
        };
        let good = [
            of("a", Some("MIT/Apache-2.0")),
            of("b", Some("MIT OR Apache-2.0")),
            of("c", Some("MIT")),
        ];
        assert_eq!(
            with_crates("BSD-3-Clause", &good).unwrap(),
            "(Apache-2.0 OR MIT) AND BSD-3-Clause AND MIT"
        );
        for (bad, message) in [
            (of("d", None), "the linked crate d 1.0.0 does not state its license"),
            (
                of("e", Some("SSPL-1.0")),
                "the linked crate e 1.0.0 cannot be used: \
                 `SSPL-1.0` is not a license that Fedora allows",
            ),
        ] {
            assert_eq!(with_crates("MIT", &[bad]).unwrap_err(), message);
        }
    }

    #[test]
    fn rejects_options_as_features() {
        for good in ["abi3", "a-", "dep/b+c.d", "dep?/x"] {
            assert!(is_feature(good), "{good}");
        }
        for bad in ["", "-Z", "--config=x", "a b", "a;b"] {
            assert!(!is_feature(bad), "{bad}");
        }
    }
}
