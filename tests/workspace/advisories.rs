//! Checks the locked crates against RustSec's advisories with the library behind `cargo audit`.
//! The snapshot in `tools/advisories` is renewed by `tools/advisories.py`; a clone of
//! advisory-db named by `ROCMRPM_ADVISORY_DB` is read instead of it.

use std::path::{Path, PathBuf};

use rustsec::advisory::Informational;
use rustsec::database::Query;
use rustsec::{Database, Lockfile, Report, report};

/// Advisories that do not apply, each with the reason.
const ACCEPTED: &[(&str, &str)] = &[];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn database() -> Database {
    let dir = std::env::var_os("ROCMRPM_ADVISORY_DB")
        .map_or(root().join("tools/advisories"), PathBuf::from);
    Database::open(&dir).unwrap_or_else(|error| panic!("cannot read {}: {error}", dir.display()))
}

/// Returns the advisories that affect a lock file: vulnerabilities, and crates that are unsound
/// or unmaintained.
fn affected(database: &Database, lock: &Lockfile) -> Vec<String> {
    let settings = report::Settings {
        informational_warnings: vec![
            Informational::Notice,
            Informational::Unmaintained,
            Informational::Unsound,
        ],
        ..report::Settings::default()
    };
    let report = Report::generate(database, lock, &settings);
    let vulnerabilities = report
        .vulnerabilities
        .list
        .iter()
        .map(|found| (found.advisory.id.to_string(), &found.package));
    let warnings = report.warnings.values().flatten();
    let warnings = warnings
        .filter_map(|found| Some((found.advisory.as_ref()?.id.to_string(), &found.package)));
    vulnerabilities
        .chain(warnings)
        .filter(|(id, _)| ACCEPTED.iter().all(|(accepted, _)| accepted != id))
        .map(|(id, package)| format!("{} {}: {id}", package.name, package.version))
        .collect()
}

#[test]
fn locked_crates_have_no_advisories() {
    let database = database();
    for lock in ["Cargo.lock", "fuzz/Cargo.lock"] {
        let locked = Lockfile::load(root().join(lock)).unwrap();
        assert_eq!(affected(&database, &locked), [""; 0], "advisories for {lock}");
    }
}

#[test]
fn snapshot_covers_every_locked_crate() {
    let text = std::fs::read_to_string(root().join("tools/advisories/covered.toml")).unwrap();
    let covered: toml::Table = text.parse().unwrap();
    let crates: Vec<&str> =
        covered["crates"].as_array().unwrap().iter().filter_map(|name| name.as_str()).collect();
    for lock in ["Cargo.lock", "fuzz/Cargo.lock"] {
        let packages = Lockfile::load(root().join(lock)).unwrap().packages;
        // A package without a source belongs to this repository.
        for package in packages.iter().filter(|package| package.source.is_some()) {
            let name = package.name.as_str();
            assert!(
                crates.contains(&name),
                "{lock} has {name}, which the advisories of {} do not cover: run tools/advisories.py CLONE",
                covered["as-of"]
            );
        }
    }
}

/// The check finds what it searches for: memmap2 before 0.9.11 has an advisory.
#[test]
fn reports_an_affected_version() {
    let lock = "version = 4\n\n[[package]]\nname = \"memmap2\"\nversion = \"0.9.10\"\n\
                source = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
    let database = Database::open(&root().join("tools/advisories")).unwrap();
    let found = affected(&database, &lock.parse().unwrap());
    assert_eq!(found, ["memmap2 0.9.10: RUSTSEC-2026-0186"]);
    assert_eq!(database.query(&Query::new().package_name("memmap2".parse().unwrap())).len(), 1);
}
