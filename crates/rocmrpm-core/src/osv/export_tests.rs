//! Tests valid exports as OSV writes them, and malicious ones.

use std::io::Write;

use zip::write::SimpleFileOptions;

use super::*;
use crate::osv::Ecosystem;

const AIOHTTP: &str = include_str!("../../../../tests/osv/GHSA-5h86-8mv2-jq9f.json");
const PYSEC: &str = include_str!("../../../../tests/osv/PYSEC-2024-24.json");
const RING: &str = include_str!("../../../../tests/osv/RUSTSEC-2025-0009.json");

fn now() -> Timestamp {
    "2026-11-22T12:00:00Z".parse().unwrap()
}

fn zip_of(path: &Path, files: &[(&str, &[u8])]) {
    let mut zip = zip::ZipWriter::new(fs::File::create(path).unwrap());
    for (name, bytes) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
}

fn package(ecosystem: Ecosystem, name: &str, version: &str) -> Package {
    Package { ecosystem, name: name.into(), version: version.into() }
}

#[test]
fn reads_zip_archives_and_folders() {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        ("GHSA-5h86-8mv2-jq9f.json", AIOHTTP),
        ("PYSEC-2024-24.json", PYSEC),
        ("r/RUSTSEC-2025-0009.json", RING),
    ];
    let (zip, folder) = (dir.path().join("all.zip"), dir.path().join("folder"));
    zip_of(&zip, &files.map(|(name, text)| (name, text.as_bytes())));
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::write(folder.join("README"), "no advisory").unwrap();
    let packages = [
        package(Ecosystem::PyPi, "aiohttp", "3.9.1"),
        package(Ecosystem::CratesIo, "ring", "0.17.8"),
        package(Ecosystem::PyPi, "ring", "0.17.8"),
    ];
    for path in [&zip, &folder] {
        let export = Export::read(path, &packages, now()).unwrap();
        assert_eq!((export.newest_day().to_string(), export.age), ("2026-11-12".into(), 9));
        assert!(export.covers("PyPI") && export.covers("crates.io") && !export.covers("npm"));
        let answer = judge(&[export], &packages);
        let ids: Vec<Vec<_>> = answer
            .hits
            .iter()
            .map(|hits| hits.iter().map(|hit| hit.advisory.id.as_str()).collect())
            .collect();
        assert_eq!(
            ids,
            [vec!["GHSA-5h86-8mv2-jq9f", "PYSEC-2024-24"], vec!["RUSTSEC-2025-0009"], vec![]]
        );
        assert_eq!(answer.hits[1][0].fixed.as_deref(), Some("0.17.12"));
    }
    // The same advisory in two exports is listed once.
    let both = [&zip, &folder].map(|path| Export::read(path, &packages, now()).unwrap());
    assert_eq!(judge(&both, &packages).hits[1].len(), 1);
}

#[test]
fn warns_about_old_exports_then_rejects_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("all.zip");
    let read = |modified: &str| {
        let text = AIOHTTP.replace("2026-11-12T22:04:41.182934Z", modified);
        assert_ne!(text, AIOHTTP);
        zip_of(&path, &[("a.json", text.as_bytes())]);
        Export::read(&path, &[], now())
    };
    assert_eq!(read("2026-10-24T00:00:00Z").unwrap().warning(), None);
    let warning = read("2026-09-22T00:00:00Z").unwrap().warning().unwrap();
    assert!(warning.contains("is from 2026-09-22, 61 days ago"), "{warning}");
    let error = read("2025-11-20T00:00:00Z").unwrap_err().to_string();
    assert!(
        error.contains("all.zip is from 2025-11-20, 367 days ago; at most 180 are allowed"),
        "{error}"
    );
    // A clock that is behind does not cause a rejection.
    assert_eq!(read("2027-01-01T00:00:00Z").unwrap().warning(), None);
}

#[test]
fn rejects_invalid_exports() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("all.zip");
    let wrong = |path: &Path| Export::read(path, &[], now()).unwrap_err().to_string();
    assert!(wrong(&path).ends_with("is not an export of OSV: it does not exist"));
    fs::write(&path, "PK").unwrap();
    assert!(wrong(&path).contains("it is not a zip archive"));
    zip_of(&path, &[("readme.txt", b"x")]);
    assert!(wrong(&path).ends_with("it has no JSON file"));
    fs::create_dir(dir.path().join("empty")).unwrap();
    assert!(wrong(&dir.path().join("empty")).ends_with("it has no JSON file"));
    zip_of(&path, &[("a.json", AIOHTTP.as_bytes()), ("b\u{1b}.json", b"{\"id\":")]);
    assert!(
        wrong(&path).contains("all.zip: b\\u{1b}.json: it is not an advisory"),
        "{}",
        wrong(&path)
    );
    let other = AIOHTTP.replace("1.7.3", "3.0.0");
    zip_of(&path, &[("a.json", other.as_bytes())]);
    assert!(wrong(&path).contains("a.json: it has schema_version `3.0.0`"));
    // 9 MiB that compress to several thousand bytes.
    zip_of(&path, &[("bomb.json", &vec![b' '; 9 << 20])]);
    assert!(fs::metadata(&path).unwrap().len() < 100_000);
    assert!(wrong(&path).contains("bomb.json: it has more than 8388608 bytes"));
}

#[test]
fn cut_and_changed_archives_never_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("all.zip");
    zip_of(&path, &[("a.json", AIOHTTP.as_bytes()), ("b.json", RING.as_bytes())]);
    let whole = fs::read(&path).unwrap();
    let packages = [package(Ecosystem::PyPi, "aiohttp", "3.9.1")];
    for at in (0..whole.len()).step_by(3) {
        fs::write(&path, &whole[..at]).unwrap();
        assert!(Export::read(&path, &packages, now()).is_err(), "{at}");
        let mut changed = whole.clone();
        changed[at] ^= 0xff;
        fs::write(&path, &changed).unwrap();
        // A corrupted time or name is harmless; a corrupted advisory fails its checksum.
        if let Ok(export) = Export::read(&path, &packages, now()) {
            assert!(judge(&[export], &packages).hits[0].len() <= 1);
        }
    }
}
