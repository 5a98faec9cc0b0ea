//! Selects the builds that a published repository keeps. A build is everything from one source
//! package: its packages require each other by exact version, so they are kept or dropped together.
//! It does not delete files.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::state::Published;
use crate::rpms::name_of_file;
use crate::workspace::compare;

/// Returns the packages of a repository that was brought back to those of an earlier `record`: these, those
/// with names that the publisher does not know, and older builds of the same source packages.
pub(super) fn rolled_back(
    packages: &[Published],
    record: &[Published],
    knows: &BTreeSet<String>,
) -> Vec<Published> {
    let of = |name: &str| name_of_file(name.as_ref()).unwrap_or(name).to_owned();
    let stays = |package: &&Published| {
        let same = |one: &&Published| of(&one.source) == of(&package.source);
        !record.contains(package)
            && match record.iter().find(same) {
                Some(one) => newest_first(package, one) == Ordering::Greater,
                None => !knows.contains(&of(&package.file)),
            }
    };
    let mut packages: Vec<Published> = packages.iter().filter(stays).cloned().collect();
    packages.extend(record.iter().cloned());
    packages.sort_by(|a, b| a.file.cmp(&b.file));
    packages
}

/// Returns the packages to keep: those in `current`, and the newest `keep` builds of every source
/// package.
///
/// rocmrpm rebuilds a component whenever one of its dependencies in the stack is rebuilt, so a kept
/// build only requires packages of kept builds.
pub(super) fn kept(
    packages: &[Published],
    current: &BTreeSet<String>,
    keep: usize,
) -> Vec<Published> {
    let mut builds: BTreeMap<&str, Vec<&Published>> = BTreeMap::new();
    for package in packages {
        let source = if package.source.is_empty() { &package.file } else { &package.source };
        // An invalid file name counts as a build of its own.
        builds.entry(name_of_file(source.as_ref()).unwrap_or(source)).or_default().push(package);
    }
    let mut kept = Vec::new();
    for mut packages in builds.into_values() {
        packages.sort_by(|a, b| newest_first(a, b));
        let mut seen: Vec<&str> = Vec::new();
        for package in packages {
            if !seen.contains(&package.source.as_str()) {
                seen.push(&package.source);
            }
            if seen.len() <= keep || current.contains(&package.file) {
                kept.push(package.clone());
            }
        }
    }
    kept.sort_by(|a, b| a.file.cmp(&b.file));
    kept
}

fn newest_first(a: &Published, b: &Published) -> Ordering {
    // Order builds by the source's version, which may differ from the package's.
    let version = |p: &Published| {
        let stem = p.source.strip_suffix(".src.rpm").unwrap_or(&p.source);
        let name = name_of_file(p.source.as_ref()).unwrap_or_default();
        stem.get(name.len() + 1..).unwrap_or(&p.version).to_owned()
    };
    let by_version = compare(&version(b), &version(a));
    b.epoch.cmp(&a.epoch).then(by_version).then_with(|| b.source.cmp(&a.source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Sha256;

    fn package(name: &str, version: &str, source: &str) -> Published {
        Published {
            file: format!("{name}-{version}.noarch.rpm"),
            size: 1,
            sha256: Sha256::of_bytes(name),
            time: 0,
            content: String::new(),
            epoch: 0,
            version: version.to_owned(),
            source: format!("{source}-{version}.src.rpm"),
        }
    }

    fn names(kept: &[Published]) -> Vec<&str> {
        kept.iter().map(|p| p.file.trim_end_matches(".noarch.rpm")).collect()
    }

    #[test]
    fn compares_versions_as_numbers() {
        let all = [package("a", "9.5-1", "a"), package("a", "10.0-1", "a")];
        assert_eq!(names(&kept(&all, &BTreeSet::new(), 1)), ["a-10.0-1"]);
        assert_eq!(newest_first(&all[1], &all[0]), Ordering::Less);
    }

    #[test]
    fn orders_by_epoch_then_source_version() {
        let later = Published { epoch: 1, ..package("a", "1.0-1", "a") };
        assert_eq!(newest_first(&later, &package("a", "2.0-1", "a")), Ordering::Less);
        let of = |source: &str| Published { source: source.into(), ..package("b", "1.0-1", "a") };
        assert_eq!(
            newest_first(&of("a-2.0-1.src.rpm"), &of("a-10.0-1.src.rpm")),
            Ordering::Greater
        );
    }

    #[test]
    fn goes_back_to_a_record() {
        let record = [package("a", "1.1-1", "a"), package("a-devel", "1.1-1", "a")];
        let mut all = record.to_vec();
        for (name, version) in [("a", "1.0-1"), ("a", "1.2-1"), ("a-new", "1.2-1")] {
            all.push(package(name, version, "a"));
        }
        all.extend([package("b", "1.0-1", "b"), package("stack-release", "1-9", "stack-release")]);
        let knows = ["a", "a-devel", "a-new", "b"].map(str::to_owned).into();
        let kept = rolled_back(&all, &record, &knows);
        assert_eq!(names(&kept), ["a-1.0-1", "a-1.1-1", "a-devel-1.1-1", "stack-release-1-9"]);
        assert_eq!(rolled_back(&kept, &record, &knows), kept);
    }

    #[test]
    fn keeps_newest_whole_builds() {
        let mut all = Vec::new();
        for version in ["1.0-1", "1.0-2", "1.0-10", "1.1-1"] {
            all.push(package("a", version, "a"));
            all.push(package("a-devel", version, "a"));
        }
        // A package that newer builds lack is dropped with its build.
        all.push(package("a-old", "1.0-2", "a"));
        all.push(package("b", "0.1-1", "b"));
        let none = BTreeSet::new();
        assert_eq!(names(&kept(&all, &none, 1)), ["a-1.1-1", "a-devel-1.1-1", "b-0.1-1"]);
        assert_eq!(
            names(&kept(&all, &none, 2)),
            ["a-1.0-10", "a-1.1-1", "a-devel-1.0-10", "a-devel-1.1-1", "b-0.1-1"]
        );
        assert!(names(&kept(&all, &none, 3)).contains(&"a-old-1.0-2"));
        // The current build is kept even if a newer one was published before.
        let current = BTreeSet::from(["a-1.0-1.noarch.rpm".to_owned()]);
        assert_eq!(
            names(&kept(&all, &current, 1)),
            ["a-1.0-1", "a-1.1-1", "a-devel-1.1-1", "b-0.1-1"]
        );
    }
}
