//! Lists the crates and licenses that a Cargo project links, based on the source's `Cargo.lock`. It
//! does not vendor crates.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::crates::{Failed, Named, cargo, crates_error};
use super::{Fetcher, SourceError, identity};
use crate::canonical::canonical;
use crate::error::Kind;
use crate::events::WorkPhase;
use crate::text::visible;
use crate::workspace::pin::Pin;

/// A crate of another project that is linked into something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkedCrate {
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
    /// The license in its manifest.
    pub license: Option<String>,
}

/// A Cargo project in a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CargoProject {
    /// The path of `Cargo.lock`, relative to the source's top folder.
    pub lock_file: String,
    /// The path of `Cargo.toml`, which belongs to a package or to a virtual workspace that is built
    /// completely.
    pub manifest: String,
    /// The features to enable.
    pub features: Vec<String>,
    /// Whether to enable all features.
    pub all_features: bool,
    /// Whether to disable the default features.
    pub no_default_features: bool,
}

impl CargoProject {
    /// Returns everything that determines the crates.
    fn recipe(&self, source: &str, arch: &str) -> String {
        let Self { lock_file, manifest, features, all_features, no_default_features } = self;
        format!(
            "linked crates 2\nCargoProject {{ lock_file: {}, manifest: {}, features: {}, all_features: {}, \
             no_default_features: {} }} of {source}\n{arch}\n",
            canonical(lock_file),
            canonical(manifest),
            canonical(features),
            canonical(all_features),
            canonical(no_default_features)
        )
    }
}

/// The output format for `cargo tree`: a package and its license. Source: cargo-tree(1), "Tree
/// Formatting Options".
const FORMAT: &str = "{p}|{l}";

/// Parses the output of `cargo tree`: `NAME vVERSION|LICENSE`, with ` (PLACE)` after the version of
/// packages outside of registries. Packages in folders belong to the project.
fn linked(text: &str) -> Result<Vec<LinkedCrate>, String> {
    let mut found = BTreeSet::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let read = || {
            let (package, license) = line.split_once('|')?;
            let (name, rest) = package.split_once(" v")?;
            let (version, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let license = Some(license.trim()).filter(|text| !text.is_empty()).map(str::to_owned);
            // A ` (proc-macro)` marker may precede the place.
            let own = rest.contains("(/");
            Some((own, LinkedCrate { name: name.to_owned(), version: version.to_owned(), license }))
        };
        match read() {
            None => {
                return Err(format!("cannot parse a line of `cargo tree`: `{}`", visible(line)));
            }
            Some((true, _)) => {}
            Some((false, linked)) => drop(found.insert(linked)),
        }
    }
    Ok(found.into_iter().collect())
}

impl Fetcher<'_> {
    /// Returns the crates that a Cargo project in the source `of` links according to its lock file,
    /// on Linux for this architecture.
    pub fn linked_crates(
        &self,
        of: &Pin,
        project: &CargoProject,
        arch: &str,
    ) -> Result<Vec<LinkedCrate>, SourceError> {
        let CargoProject { lock_file, manifest, features, .. } = project;
        let error = |reason: String| crates_error(of, lock_file, reason, Vec::new(), Kind::Config);
        let recipe = project.recipe(&identity(of, self.workspace_root())?, arch);
        let known = self.remembered(&recipe)?.and_then(|text| serde_json::from_str(&text).ok());
        if let Some(crates) = known {
            return Ok(crates);
        }
        self.needs_network(|| {
            format!("the crates of `{lock_file}` of `{}` {}", of.component, of.version)
        })?;
        let (_unpacked, tree) = self.private_tree(of)?;
        let named = Named::read_in(&tree, lock_file, of)?;
        self.phase(of, WorkPhase::Fetching, format!("{} crates of {lock_file}", named.crates()));
        let manifest = tree.dir.join(manifest);
        // Source: The rustc book, "Platform Support".
        let rust_arch = if arch == "ppc64le" { "powerpc64le" } else { arch };
        let scratch = self.cache().scratch()?;
        // `cargo metadata` is unsuitable: it unifies the features of the whole workspace.
        let args = ["tree", "--locked", "--edges", "no-build,no-dev,no-proc-macro", "--no-dedupe"];
        let cargo = cargo(scratch.path()).args(args).args(["--prefix", "none", "--format", FORMAT]);
        let cargo = cargo.arg("--target").arg(format!("{rust_arch}-unknown-linux-gnu"));
        let cargo = cargo.args(features.iter().flat_map(|name| ["--features", name]));
        let cargo = cargo.args(project.all_features.then_some("--all-features"));
        let cargo = cargo.args(project.no_default_features.then_some("--no-default-features"));
        let finished = cargo.arg("--manifest-path").arg(manifest).run()?;
        if !finished.success() {
            let failed = Failed::Cargo { how: finished.how(), stderr: finished.stderr };
            return Err(failed.into_error(of, lock_file));
        }
        let linked = linked(&String::from_utf8_lossy(&finished.stdout)).map_err(error)?;
        if let Ok(text) = serde_json::to_string(&linked) {
            self.remember(&recipe, &text)?;
        }
        Ok(linked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_output_of_cargo() {
        let output = "own v0.1.0 (/tmp/own)|MIT\nderives v0.1.0 (proc-macro) (/tmp/derives)|\n\
                    beta v2.0.0-rc.1|\nalpha v1.2.0+build|MIT/Zlib\n\
                    alpha v1.2.0+build|MIT/Zlib\n\nfar v0.3.0 (https://example.org/far?rev=1#0a1b2c3d)|ISC\n";
        let of = |name: &str, version: &str, license: Option<&str>| LinkedCrate {
            name: name.into(),
            version: version.into(),
            license: license.map(str::to_owned),
        };
        let expected = [
            of("alpha", "1.2.0+build", Some("MIT/Zlib")),
            of("beta", "2.0.0-rc.1", None),
            of("far", "0.3.0", Some("ISC")),
        ];
        assert_eq!(linked(output).unwrap(), expected);
        assert_eq!(
            linked("error of some kind\n").unwrap_err(),
            "cannot parse a line of `cargo tree`: `error of some kind`"
        );
    }

    #[test]
    fn recipe_and_format_are_stable() {
        let project = CargoProject {
            lock_file: "Cargo.lock".into(),
            manifest: "py/Cargo.toml".into(),
            features: vec!["a".into(), "b".into()],
            all_features: false,
            no_default_features: true,
        };
        assert_eq!(
            project.recipe("sha256:0f", "x86_64"),
            "linked crates 2\nCargoProject { lock_file: \"Cargo.lock\", manifest: \"py/Cargo.toml\", \
             features: [\"a\", \"b\"], all_features: false, no_default_features: true } of sha256:0f\nx86_64\n"
        );
        let linked = LinkedCrate { name: "a".into(), version: "1".into(), license: None };
        assert_eq!(
            serde_json::to_string(&linked).unwrap(),
            r#"{"name":"a","version":"1","license":null}"#
        );
    }
}
