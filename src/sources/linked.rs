//! The crates that something made from a source is linked from, and their licences, as cargo
//! finds them from the source's `Cargo.lock`. Vendoring them is done elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::crates::{Failed, cargo, crates_error};
use super::{Fetcher, SourceError, identity};
use crate::error::Kind;
use crate::workspace::pin::Pin;

/// A crate of another project that something is linked from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LinkedCrate {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What its manifest says of its licence.
    pub license: Option<String>,
}

/// What cargo prints. Source: cargo-metadata(1), "JSON format".
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

impl Metadata {
    /// Returns what the workspace is linked from: not what only takes part in the build or in
    /// tests. Sorted.
    fn linked(self) -> Vec<LinkedCrate> {
        let packages: BTreeMap<&str, &Package> =
            self.packages.iter().map(|package| (package.id.as_str(), package)).collect();
        let nodes: BTreeMap<&str, &Node> =
            self.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
        let is_macro = |package: &Package| {
            package.targets.iter().any(|target| target.kind.iter().any(|k| k == "proc-macro"))
        };
        let (mut seen, mut found) = (BTreeSet::new(), BTreeSet::new());
        let mut next: Vec<&str> = self.workspace_members.iter().map(String::as_str).collect();
        while let Some(id) = next.pop() {
            let Some(package) = packages.get(id).filter(|package| !is_macro(package)) else { continue };
            if !seen.insert(id) {
                continue;
            }
            if package.source.is_some() {
                found.insert(LinkedCrate {
                    name: package.name.clone(),
                    version: package.version.clone(),
                    license: package.license.clone(),
                });
            }
            let deps = nodes.get(id).into_iter().flat_map(|node| &node.deps);
            let normal = deps.filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind.is_none()));
            next.extend(normal.map(|dep| dep.pkg.as_str()));
        }
        found.into_iter().collect()
    }
}

impl Fetcher<'_> {
    /// Returns the crates that what is built from the source `of` is linked from, as its lock
    /// file has them, on Linux of this architecture.
    pub fn linked_crates(
        &self,
        of: &Pin,
        lock_file: &str,
        arch: &str,
    ) -> Result<Vec<LinkedCrate>, SourceError> {
        let error = |reason: String| crates_error(of, lock_file, reason, Vec::new(), Kind::Config);
        let recipe =
            format!("linked crates 1\n{lock_file} of {}\n{arch}\n", identity(of, self.workspace_root())?);
        let known = self.remembered(&recipe)?.and_then(|text| serde_json::from_str(&text).ok());
        if let Some(crates) = known {
            return Ok(crates);
        }
        let named = self.named_crates(lock_file, of)?;
        self.needs_network(|| format!("the crates of `{lock_file}` of `{}` {}", of.component, of.version))?;
        self.phase(of, "Fetching", format!("{} crates of {lock_file}", named.folders.len()));
        let manifest = self.tree(of)?.dir.join(Path::new(lock_file).with_file_name("Cargo.toml"));
        // Source: The rustc book, "Platform Support".
        let rust_arch = if arch == "ppc64le" { "powerpc64le" } else { arch };
        let scratch = self.cache().scratch()?;
        let args = ["metadata", "--locked", "--format-version", "1", "--filter-platform"];
        let cargo = cargo(scratch.path()).args(args).arg(format!("{rust_arch}-unknown-linux-gnu"));
        let finished = cargo.arg("--manifest-path").arg(manifest).run()?;
        if !finished.success() {
            let failed = Failed::Cargo { how: finished.how(), stderr: finished.stderr };
            return Err(failed.into_error(of, lock_file));
        }
        let metadata: Metadata = serde_json::from_slice(&finished.stdout)
            .map_err(|said| error(format!("what cargo says of them is not understood: {said}")))?;
        let linked = metadata.linked();
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
    fn what_is_linked_is_told_from_what_builds() {
        let package = |name: &str, source: &str, kind: &str| {
            format!(
                r#"{{"id":"{name}","name":"{name}","version":"1.0.0","license":"MIT","source":{source},"targets":[{{"kind":["{kind}"]}}]}}"#
            )
        };
        let dep = |name: &str, kind: &str| format!(r#"{{"pkg":"{name}","dep_kinds":[{{"kind":{kind}}}]}}"#);
        let packages = [
            package("own", "null", "cdylib"),
            package("linked", "\"registry\"", "lib"),
            package("deeper", "\"registry\"", "lib"),
            package("builds", "\"registry\"", "lib"),
            package("tests", "\"registry\"", "lib"),
            package("derives", "\"registry\"", "proc-macro"),
            package("parses", "\"registry\"", "lib"),
        ];
        let own = [
            dep("linked", "null"),
            dep("builds", "\"build\""),
            dep("tests", "\"dev\""),
            dep("derives", "null"),
        ];
        let nodes = [
            format!(r#"{{"id":"own","deps":[{}]}}"#, own.join(",")),
            format!(r#"{{"id":"linked","deps":[{},{}]}}"#, dep("deeper", "null"), dep("own", "null")),
            format!(r#"{{"id":"derives","deps":[{}]}}"#, dep("parses", "null")),
        ];
        let text = format!(
            r#"{{"packages":[{}],"workspace_members":["own"],"resolve":{{"nodes":[{}]}}}}"#,
            packages.join(","),
            nodes.join(",")
        );
        let linked = serde_json::from_str::<Metadata>(&text).unwrap().linked();
        let names: Vec<&str> = linked.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["deeper", "linked"]);
    }
}
