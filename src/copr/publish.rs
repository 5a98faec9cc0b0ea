//! When the project's repository may show what was built: COPR makes the metadata that users
//! see only when it is asked to, and then of every build that it has. So it is asked once no
//! build is left that was sent from here and did not pass inspection.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::client::Client;
use super::error::CoprError;
use super::record::Sent;
use crate::files;

/// Among a result's logs: the build on COPR that it came from.
const ORIGIN: &str = "copr.json";
const SCHEMA: &str = "rocmrpm/copr-origin/1";

/// The build on COPR that packages came from.
#[derive(Serialize, Deserialize)]
struct Origin {
    schema: String,
    build: u64,
    url: String,
}

/// Writes down which build the packages came from, beside their logs.
pub(super) fn write_origin(logs: &Path, build: u64, url: String) -> std::io::Result<()> {
    let origin = Origin { schema: SCHEMA.to_owned(), build, url };
    files::write_atomically(&logs.join(ORIGIN), serde_json::to_vec_pretty(&origin)?)
}

/// The builds of one chroot, as they are known here.
#[derive(Debug, Default)]
struct Known {
    /// Inspected and accepted.
    accepted: BTreeSet<u64>,
    /// Sent from here, whatever came of them, with the package's name.
    sent: BTreeMap<u64, String>,
    /// Accepted when COPR was last asked to publish.
    published: BTreeSet<u64>,
}

impl Known {
    fn read(build_dir: &Path, macros: &str) -> Self {
        let accepted = accepted(build_dir);
        let mut sent = BTreeMap::new();
        for file in files::names_in(&build_dir.join("copr")).unwrap_or_default() {
            // The macros package sets what others are built with; it has nothing to inspect.
            let Some(name) = file.strip_suffix(".json").filter(|name| *name != macros) else { continue };
            if let Some(record) = Sent::read(build_dir, name) {
                let all = record.before.iter().chain([&record.build]);
                sent.extend(all.map(|build| (*build, name.to_owned())));
            }
        }
        let text = fs_err::read_to_string(marker(build_dir)).unwrap_or_default();
        let published = text.lines().filter_map(|line| line.parse().ok()).collect();
        Self { accepted, sent, published }
    }
}

fn marker(build_dir: &Path) -> PathBuf {
    build_dir.join("copr/published")
}

/// Reads the builds that the accepted results of a build folder came from.
pub(super) fn accepted(build_dir: &Path) -> BTreeSet<u64> {
    let results = build_dir.join("results");
    let origin = |name: &String| -> Option<u64> {
        let bytes = fs_err::read(results.join(name).join("logs").join(ORIGIN)).ok()?;
        let origin: Origin = serde_json::from_slice(&bytes).ok()?;
        (origin.schema == SCHEMA).then_some(origin.build)
    };
    files::names_in(&results).unwrap_or_default().iter().filter_map(origin).collect()
}

/// What keeps the project's repository from being made anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// The package.
    pub package: String,
    /// The build that did not pass inspection, or was not inspected yet.
    pub build: u64,
    /// Whether COPR is done with it.
    pub over: bool,
}

/// What came of the wish to publish.
#[derive(Debug, PartialEq, Eq)]
pub enum Published {
    /// All that was accepted is published already.
    Already,
    /// COPR was asked to publish.
    Asked,
    /// It was not, because of these builds.
    Not(Vec<Obstacle>),
}

/// Lets COPR publish what was accepted. `macros` is the name of the macros package;
/// `build_root` is the workspace's folder with a build folder for each chroot, all of which
/// COPR publishes together.
pub fn publish(client: &Client<'_>, build_root: &Path, macros: &str) -> Result<Published, CoprError> {
    let dirs: Vec<PathBuf> = files::names_in(build_root)?.iter().map(|name| build_root.join(name)).collect();
    let known: Vec<(PathBuf, Known)> =
        dirs.into_iter().map(|dir| (dir.clone(), Known::read(&dir, macros))).collect();
    if all_published(&known) {
        return Ok(Published::Already);
    }
    let mut there: BTreeMap<u64, bool> = client.nameless()?.iter().map(|(id, _)| (*id, false)).collect();
    for build in client.builds()? {
        if build.state.is_good() || !build.state.is_over() {
            there.insert(build.id, build.state.is_over());
        }
    }
    let obstacles = obstacles(known.iter().map(|(_, known)| known), &there);
    if !obstacles.is_empty() {
        return Ok(Published::Not(obstacles));
    }
    client.cli("publish what was built", &["regenerate-repos".to_owned(), client.project().to_owned()])?;
    for (dir, known) in known.iter().filter(|(_, known)| !known.accepted.is_empty()) {
        let lines: Vec<String> = known.accepted.iter().map(|build| format!("{build}\n")).collect();
        fs_err::create_dir_all(dir.join("copr"))?;
        files::write_durably(&marker(dir), lines.concat())?;
    }
    Ok(Published::Asked)
}

/// Tells whether every chroot's accepted builds are published.
fn all_published(known: &[(PathBuf, Known)]) -> bool {
    known.iter().all(|(_, known)| known.accepted.is_subset(&known.published))
}

/// Returns the builds on COPR that were sent from here and not accepted. `there` has the builds that
/// may have packages, and whether they are over.
fn obstacles<'k>(known: impl Iterator<Item = &'k Known>, there: &BTreeMap<u64, bool>) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    for known in known {
        for (build, package) in known.sent.iter().filter(|(build, _)| !known.accepted.contains(build)) {
            if let Some(over) = there.get(build) {
                obstacles.push(Obstacle { package: package.clone(), build: *build, over: *over });
            }
        }
    }
    obstacles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Sha256;

    fn chroot(accepted: &[u64], published: &[u64], sent: &[u64]) -> (PathBuf, Known) {
        let set = |builds: &[u64]| builds.iter().copied().collect();
        let sent = sent.iter().map(|build| (*build, "lib".to_owned())).collect();
        (PathBuf::new(), Known { accepted: set(accepted), published: set(published), sent })
    }

    #[test]
    fn publishes_while_any_chroot_has_accepted_builds_that_are_not_published() {
        assert!(all_published(&[chroot(&[1], &[1, 2], &[]), chroot(&[], &[], &[])]));
        assert!(!all_published(&[chroot(&[1], &[1], &[]), chroot(&[2], &[], &[])]));
        assert!(!all_published(&[chroot(&[2], &[1], &[]), chroot(&[3], &[3], &[])]));
    }

    #[test]
    fn builds_that_are_there_and_not_accepted_are_obstacles() {
        let known = [chroot(&[1], &[], &[1, 2, 3, 4])];
        let there = BTreeMap::from([(1, true), (2, true), (3, false), (9, true)]);
        let obstacle = |build, over| Obstacle { package: "lib".into(), build, over };
        let found = obstacles(known.iter().map(|(_, known)| known), &there);
        assert_eq!(found, [obstacle(2, true), obstacle(3, false)]);
    }

    #[test]
    fn what_was_sent_and_what_was_accepted_are_known_apart() {
        let dir = tempfile::tempdir().unwrap();
        let sent = |build, before: &[u64], name: &str| {
            let mut sent = Sent::new(build, Sha256::of_bytes("x"), "1-1.fc43");
            sent.before = before.to_vec();
            sent.write(dir.path(), name).unwrap();
        };
        sent(7, &[3, 5], "lib");
        sent(1, &[], "test-rpm-macros");
        let logs = dir.path().join("results/lib/logs");
        fs_err::create_dir_all(&logs).unwrap();
        write_origin(&logs, 7, "https://copr.example/7".into()).unwrap();
        fs_err::write(marker(dir.path()), "2\n3\n").unwrap();
        let known = Known::read(dir.path(), "test-rpm-macros");
        assert_eq!(known.accepted, BTreeSet::from([7]));
        assert_eq!(known.sent.keys().copied().collect::<Vec<_>>(), [3, 5, 7]);
        assert_eq!(known.published, BTreeSet::from([2, 3]));
        fs_err::write(logs.join(ORIGIN), "{").unwrap();
        assert_eq!(accepted(dir.path()), BTreeSet::new());
    }
}
