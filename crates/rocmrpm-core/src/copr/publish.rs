//! Decides when to publish the project's repository. COPR creates the metadata that users see only
//! on request, and then for all packages in its folders, including those of failed builds. So
//! rocmrpm requests it only once no build that it sent has packages that were not accepted.
//! Inspecting builds is up to the gate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::client::Client;
use super::error::CoprError;
use super::record::{FOLDER, Sent};
use super::results::with_packages;
use super::state::Build;
use crate::document::Document;
use crate::files;

/// The file in a result's logs that names the build on COPR that it came from.
const ORIGIN: &str = "copr.json";
const SCHEMA: &str = "rocmrpm/copr-origin/2";

/// `logs/copr.json` of a result: the build on COPR that the packages came from.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct CoprOrigin {
    schema: String,
    /// `owner/project`.
    project: String,
    /// COPR's number of the build.
    build: u64,
    /// The build's page.
    url: String,
}

impl Document for CoprOrigin {
    const SCHEMA: &'static str = SCHEMA;
}

/// Records in the logs which build the packages came from.
pub(super) fn write_origin(client: &Client<'_>, logs: &Path, build: u64) -> std::io::Result<()> {
    let (schema, project) = (SCHEMA.to_owned(), client.project().to_owned());
    let origin = CoprOrigin { schema, project, build, url: client.build_page(build) };
    files::write_atomically(&logs.join(ORIGIN), serde_json::to_vec_pretty(&origin)?)
}

/// Returns the build of the project that a result came from.
pub(super) fn origin(results: &Path, project: &str) -> Option<u64> {
    let bytes = fs_err::read(results.join("logs").join(ORIGIN)).ok()?;
    let origin: CoprOrigin = serde_json::from_slice(&bytes).ok()?;
    (origin.schema == SCHEMA && origin.project == project).then_some(origin.build)
}

/// Returns the builds of the project that the accepted results in a build folder came from.
pub(super) fn accepted(build_dir: &Path, project: &str) -> BTreeSet<u64> {
    let results = build_dir.join("results");
    let names = files::names_in(&results).unwrap_or_default();
    names.iter().filter_map(|name| origin(&results.join(name), project)).collect()
}

/// What this machine knows about the builds of one chroot.
#[derive(Debug, Default)]
struct KnownBuilds {
    /// Inspected and accepted.
    accepted: BTreeSet<u64>,
    /// Sent from here, whatever the outcome, with the package's name.
    sent: BTreeMap<u64, String>,
    /// All builds that the project had at the last request to publish.
    published: BTreeSet<u64>,
}

impl KnownBuilds {
    fn read(build_dir: &Path, project: &str, macros: &str) -> Self {
        let mut sent = BTreeMap::new();
        for (name, record) in Sent::all(build_dir, project) {
            // The macros package only configures other builds; there is nothing to inspect.
            if name != macros {
                let all = record.before.iter().chain([&record.build]);
                sent.extend(all.map(|build| (*build, name.clone())));
            }
        }
        let text = fs_err::read_to_string(marker(build_dir)).unwrap_or_default();
        let mut lines = text.lines();
        let is_ours = lines.next() == Some(project);
        let published = lines.filter(|_| is_ours).filter_map(|line| line.parse().ok()).collect();
        Self { accepted: accepted(build_dir, project), sent, published }
    }

    /// Returns whether users see all accepted builds that the project still has, and none that it
    /// no longer has.
    fn is_published(&self, present: &BTreeSet<u64>) -> bool {
        let gone = self.published.difference(present).next();
        gone.is_none()
            && self.accepted.intersection(present).all(|build| self.published.contains(build))
    }
}

/// The file with the project and the builds that it had at the last request to publish.
fn marker(build_dir: &Path) -> PathBuf {
    build_dir.join(FOLDER).join("published")
}

/// A build that keeps the project's repository from being published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// The package.
    pub package: String,
    /// The build that failed inspection or was not inspected yet.
    pub build: u64,
    /// Whether COPR is done with it, neither building nor deleting it.
    pub over: bool,
}

/// The outcome of a request to publish.
#[derive(Debug, PartialEq, Eq)]
pub enum Published {
    /// Everything that was accepted is already published.
    Already,
    /// COPR was asked to publish.
    Asked,
    /// Nothing was requested because of these builds.
    Not(Vec<Obstacle>),
}

/// Asks COPR to publish what was accepted. `macros` is the name of the macros package. `build_root`
/// is the workspace's folder with one build folder per chroot; COPR publishes all chroots together.
pub fn publish(
    client: &Client<'_>,
    build_root: &Path,
    macros: &str,
) -> Result<Published, CoprError> {
    let read = |name: &String| {
        let dir = build_root.join(name);
        let known = KnownBuilds::read(&dir, client.project(), macros);
        (dir, known)
    };
    let known: Vec<(PathBuf, KnownBuilds)> =
        files::names_in(build_root)?.iter().map(read).collect();
    let builds = client.builds()?;
    let present: BTreeSet<u64> = builds.iter().map(|build| build.id).collect();
    if known.iter().all(|(_, known)| known.is_published(&present)) {
        return Ok(Published::Already);
    }
    let obstacles = obstacles(client, &builds, known.iter().map(|(_, known)| known))?;
    if !obstacles.is_empty() {
        return Ok(Published::Not(obstacles));
    }
    client
        .cli("publish the builds", &["regenerate-repos".to_owned(), client.project().to_owned()])?;
    let lines: Vec<String> = present.iter().map(|build| format!("{build}\n")).collect();
    for (dir, _) in
        known.iter().filter(|(_, known)| !known.accepted.is_empty() || !known.published.is_empty())
    {
        fs_err::create_dir_all(dir.join(FOLDER))?;
        files::write_durably(&marker(dir), format!("{}\n{}", client.project(), lines.concat()))?;
    }
    Ok(Published::Asked)
}

/// Returns the builds that COPR would publish although they were not accepted. `build_root` and
/// `macros` are those of [`publish`].
pub fn unaccepted(
    client: &Client<'_>,
    build_root: &Path,
    macros: &str,
) -> Result<Vec<Obstacle>, CoprError> {
    let names = files::names_in(build_root).unwrap_or_default();
    let known = names
        .iter()
        .map(|name| KnownBuilds::read(&build_root.join(name), client.project(), macros));
    obstacles(client, &client.builds()?, known.collect::<Vec<_>>().iter())
}

/// Returns the builds that were sent from here and not accepted, and that have packages or may
/// still get some. This goes by the folders, not the states: a build that failed after making its
/// packages keeps them, and COPR's backend finishes a build that was canceled during signing.
fn obstacles<'k>(
    client: &Client<'_>,
    builds: &[Build],
    known: impl Iterator<Item = &'k KnownBuilds>,
) -> Result<Vec<Obstacle>, CoprError> {
    let mut open: BTreeMap<u64, String> = BTreeMap::new();
    for known in known {
        let rest = known.sent.iter().filter(|(build, _)| !known.accepted.contains(build));
        open.extend(rest.map(|(build, package)| (*build, package.clone())));
    }
    if open.is_empty() {
        return Ok(Vec::new());
    }
    let mut over: BTreeMap<u64, bool> =
        client.nameless()?.iter().map(|(id, _)| (*id, false)).collect();
    over.extend(builds.iter().map(|build| (build.id, build.state.is_over())));
    over.retain(|build, over| !*over && open.contains_key(build));
    let rest = open.keys().filter(|build| !over.contains_key(build)).copied().collect();
    for (build, done) in with_packages(client, &rest)? {
        // A build that is no longer listed is being deleted.
        over.insert(build, done && builds.iter().any(|other| other.id == build));
    }
    let obstacle = |(build, over)| Obstacle { package: open[&build].clone(), build, over };
    Ok(over.into_iter().map(obstacle).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Sha256;
    use crate::events::Silent;

    #[test]
    fn is_published_if_metadata_has_all_accepted_and_no_deleted_builds() {
        let known = |accepted: &[u64], published: &[u64]| {
            let set = |builds: &[u64]| builds.iter().copied().collect();
            KnownBuilds {
                accepted: set(accepted),
                published: set(published),
                sent: BTreeMap::new(),
            }
        };
        let present = BTreeSet::from([1, 2, 3]);
        let none: &[u64] = &[];
        for (accepted, published, expected) in [
            (&[1][..], &[1, 2][..], true),
            (none, none, true),
            (&[2][..], &[1][..], false),
            // Deleted on COPR: users would get a 404.
            (&[1][..], &[1, 7][..], false),
            (&[1, 7][..], &[1, 2][..], true),
        ] {
            assert_eq!(
                known(accepted, published).is_published(&present),
                expected,
                "{accepted:?} {published:?}"
            );
        }
    }

    #[test]
    fn knows_only_builds_of_the_project() {
        let dir = tempfile::tempdir().unwrap();
        let sent = |build, before: &[u64], name: &str| {
            let mut sent = Sent::new("alice/rocm", build, Sha256::of_bytes("x"), "1-1.fc43");
            sent.before = before.to_vec();
            sent.write(dir.path(), name).unwrap();
        };
        sent(7, &[3, 5], "lib");
        sent(1, &[], "test-rpm-macros");
        let results = dir.path().join("results/lib");
        let logs = results.join("logs");
        fs_err::create_dir_all(&logs).unwrap();
        write_origin(&Client::sample("alice/rocm", &Silent), &logs, 7).unwrap();
        fs_err::write(marker(dir.path()), "alice/rocm\n2\n3\n").unwrap();
        let known = |project| KnownBuilds::read(dir.path(), project, "test-rpm-macros");
        let ours = known("alice/rocm");
        assert_eq!(ours.accepted, BTreeSet::from([7]));
        assert_eq!(ours.sent.keys().copied().collect::<Vec<_>>(), [3, 5, 7]);
        assert_eq!(ours.published, BTreeSet::from([2, 3]));
        let other = known("bob/rocm");
        assert!(other.accepted.is_empty() && other.sent.is_empty() && other.published.is_empty());
        fs_err::write(logs.join(ORIGIN), "{").unwrap();
        assert_eq!(origin(&results, "alice/rocm"), None);
    }
}
