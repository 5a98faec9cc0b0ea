//! Tests the files of the index and which wheels it rejects.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use rocmrpm::{index, wheel};

use super::fixtures::*;

/// Returns every file below a folder with its content and modification time.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let files = walkdir::WalkDir::new(dir)
        .into_iter()
        .map(Result::unwrap)
        .filter(|e| e.file_type().is_file());
    files
        .filter(|entry| entry.file_name() != ".lock")
        .map(|entry| {
            let modified = entry.metadata().unwrap().modified().unwrap();
            (entry.path().to_owned(), (std::fs::read(entry.path()).unwrap(), modified))
        })
        .collect()
}

#[test]
fn index_has_exactly_the_given_wheels() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("index");
    let (a, b) = (Package::pure("python3-a", "a").write(dir.path()), rich(dir.path()));
    let a = one(&[a], &dir.path().join("out"));
    let b = one(&[b], &dir.path().join("out"));
    let both = [b.path.clone(), a.path.clone()];
    let written = index::write(&both, &root).unwrap();
    assert!(written.changed);
    assert_eq!(written.distributions, BTreeMap::from([("a".into(), 1), ("demo-tool".into(), 1)]));
    let page = std::fs::read_to_string(root.join("simple/a/index.html")).unwrap();
    let metadata = rocmrpm::digest::Sha256::of_bytes(&a.metadata);
    let link = format!(
        "<a href=\"../../packages/a/a-1.0%2Brocm7.14.gfx1151-py3-none-any.whl#sha256={}\" \
         data-requires-python=\"&gt;=3.8\" \
         data-core-metadata=\"sha256={metadata}\" data-dist-info-metadata=\"sha256={metadata}\">a-1.0+rocm7.14.gfx1151-py3-none-any.whl</a>",
        a.sha256
    );
    assert!(page.contains(&link), "{page}");
    let sidecar = root.join("packages/a/a-1.0+rocm7.14.gfx1151-py3-none-any.whl.metadata");
    assert_eq!(std::fs::read_to_string(&sidecar).unwrap(), a.metadata);
    assert!(
        std::fs::read_to_string(root.join("simple/index.html"))
            .unwrap()
            .contains("href=\"demo-tool/\"")
    );

    let before = snapshot(&root);
    assert!(!index::write(&both, &root).unwrap().changed);
    assert!(snapshot(&root) == before, "an unchanged index was written again");

    // The page has the wheel's upload time; for a wheel whose METADATA spells the name differently,
    // the page omits the attribute that pip 23.0 reads.
    let json = std::fs::read_to_string(root.join("simple/demo-tool/index.json")).unwrap();
    assert!(json.contains("\"upload-time\":\"2023-11-14T22:13:20Z\""), "{json}");
    assert!(json.contains("\"core-metadata\"") && !json.contains("dist-info-metadata"), "{json}");

    // Every kind of damage is repaired: a sidecar, a page, a package, the record of the last run.
    std::fs::write(&sidecar, "damaged").unwrap();
    std::fs::remove_file(root.join("simple/a/index.html")).unwrap();
    std::fs::remove_file(root.join("packages/demo-tool").join(b.path.file_name().unwrap()))
        .unwrap();
    std::fs::write(root.join("simple/a/index.json"), "{").unwrap();
    assert!(index::write(&both, &root).unwrap().changed);
    let contents = |s: BTreeMap<PathBuf, (Vec<u8>, _)>| -> Vec<_> {
        s.into_iter().map(|(p, (c, _))| (p, c)).collect()
    };
    assert!(contents(snapshot(&root)) == contents(before), "the index was not repaired");

    assert!(index::write(std::slice::from_ref(&a.path), &root).unwrap().changed);
    assert!(!root.join("simple/demo-tool").exists());
    assert!(!root.join("packages/demo-tool").exists());
    assert_eq!(std::fs::read_dir(root.join("packages/a")).unwrap().count(), 2);
}

#[test]
fn skips_unchanged_wheels() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("index");
    let wheel =
        one(&[Package::pure("python3-a", "a").write(dir.path())], &dir.path().join("out")).path;
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    let age = |path: &Path, time| {
        std::fs::OpenOptions::new().append(true).open(path).unwrap().set_modified(time).unwrap();
    };
    let package = root.join("packages/a").join(wheel.file_name().unwrap());
    let whole = std::fs::read(&wheel).unwrap();
    let damaged = vec![0; whole.len()];
    let write = || index::write(std::slice::from_ref(&wheel), &root);
    age(&wheel, old);
    write().unwrap();
    // A link, then a copy with the same time.
    for copy in [false, true] {
        if copy {
            std::fs::remove_file(&package).unwrap();
            std::fs::copy(&wheel, &package).unwrap();
            age(&package, old);
        }
        std::fs::write(&wheel, &damaged).unwrap();
        age(&wheel, old);
        assert!(!write().unwrap().changed);
        // It is also checked if its time is later than the page's.
        age(&wheel, std::time::SystemTime::now() + std::time::Duration::from_secs(60));
        assert!(write().is_err());
        std::fs::write(&wheel, &whole).unwrap();
        age(&wheel, old);
    }
    // After touching, the wheel is read once, nothing changes, and a link replaces its copy.
    age(&wheel, std::time::SystemTime::now());
    let page = std::fs::read(root.join("simple/a/index.json")).unwrap();
    write().unwrap();
    assert!(!write().unwrap().changed);
    assert_eq!(std::fs::read(root.join("simple/a/index.json")).unwrap(), page);
}

#[test]
fn replaces_rebuilt_wheels() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("index");
    let old = one(&[Package::pure("python3-a", "a").write(dir.path())], &dir.path().join("out"));
    index::write(&[old.path], &root).unwrap();
    let new =
        Package::pure("python3-a", "a").file(&format!("{LIB}/a/more.py"), "").write(dir.path());
    let new = one(&[new], &dir.path().join("out2"));
    let tracks = Some("https://user:secret@host/simple/");
    assert!(
        index::write_with(std::slice::from_ref(&new.path), &[], &root, tracks).unwrap().changed
    );
    let page = std::fs::read_to_string(root.join("simple/a/index.json")).unwrap();
    assert!(
        page.contains(&new.sha256.to_string()) && !page.contains(&old.sha256.to_string()),
        "{page}"
    );
    assert!(page.contains("\"tracks\":[\"https://host/simple/a/\"]"), "{page}");
}

#[test]
fn rejects_wheels_with_the_same_tags() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("index");
    let wheel =
        one(&[Package::pure("python3-a", "a").write(dir.path())], &dir.path().join("out")).path;
    let name = wheel.file_name().unwrap().to_str().unwrap();
    let twin = altered(&wheel, &name.replace("-py3", "-1-py3"), |_| {});
    let error = index::write(&[wheel.clone(), twin], &root).unwrap_err().to_string();
    assert!(
        error.contains(name) && error.contains("-1-py3") && error.contains("both match"),
        "{error}"
    );
    assert!(!root.join("simple").exists());
}

type Members = Vec<(String, Vec<u8>)>;

/// Rewrites a wheel with changed members under this name.
fn altered(wheel: &Path, name: &str, change: impl FnOnce(&mut Members)) -> PathBuf {
    let mut all = members(wheel);
    change(&mut all);
    let folder = tempfile::Builder::new().tempdir_in(wheel.parent().unwrap()).unwrap().keep();
    let path = folder.join(name);
    let mut archive = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    for (name, content) in all {
        let stored = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored);
        archive.start_file(name, stored).unwrap();
        archive.write_all(&content).unwrap();
    }
    archive.finish().unwrap();
    path
}

#[test]
fn rejects_invalid_wheels_and_keeps_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("index");
    let wheel =
        one(&[Package::pure("python3-a", "a").write(dir.path())], &dir.path().join("out")).path;
    let name = wheel.file_name().unwrap().to_str().unwrap().to_owned();
    index::write(std::slice::from_ref(&wheel), &root).unwrap();
    let before = snapshot(&root);

    let edit = |member: &'static str, change: fn(&str) -> String| {
        altered(&wheel, &name, move |members| {
            let (_, content) = members.iter_mut().find(|(name, _)| name.ends_with(member)).unwrap();
            *content = change(std::str::from_utf8(content).unwrap()).into_bytes();
        })
    };
    let add = |member: &str| {
        altered(&wheel, &name, |members| members.push((member.to_owned(), b"x".to_vec())))
    };
    let duplicate = {
        let path = altered(&wheel, &name, |m| {
            m.extend([("dup_1".into(), vec![]), ("dup_2".into(), vec![])])
        });
        let mut bytes = std::fs::read(&path).unwrap();
        replace(&mut bytes, b"dup_2", b"dup_1");
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let without = |member: &'static str| {
        altered(&wheel, &name, move |members| members.retain(|(name, _)| !name.ends_with(member)))
    };
    let cases = [
        (
            "`a/__init__.py` is listed with sha256=",
            edit("__init__.py", |text| text.replace("runs", "ruins")),
        ),
        ("`a/__init__.py` is listed with sha256=", edit("__init__.py", |text| text.repeat(1000))),
        (
            "no digest for `a/__init__.py`",
            edit("RECORD", |text| {
                text.lines().map(|l| l.split(',').next().unwrap().to_owned() + ",,\n").collect()
            }),
        ),
        ("digest of type md5", edit("RECORD", |text| text.replace("sha256=", "md5="))),
        (
            "not have three fields",
            edit("RECORD", |text| text.replace("sha256=", "").replace(',', ";")),
        ),
        ("is listed twice", edit("RECORD", |text| text.repeat(2))),
        (
            "`gone.py` is listed, but not in the wheel",
            edit("RECORD", |text| format!("gone.py,,\n{text}")),
        ),
        ("`stray.py` is not listed", add("stray.py")),
        ("could point outside the wheel", add("../evil.py")),
        ("could point outside the wheel", add("/etc/evil")),
        ("could point outside the wheel", add("a\\..\\evil.py")),
        ("could point outside the wheel", add("a\nb")),
        ("two members with the same name", duplicate),
        ("RECORD: ", without("RECORD")),
        (
            "no dist-info",
            altered(&wheel, &name, |m| m.retain(|(name, _)| !name.contains("dist-info"))),
        ),
        ("several dist-info folders", add("b-1.0.dist-info/METADATA")),
        (
            "its METADATA has a 2.0",
            edit("METADATA", |text| text.replace("Version: 1.0+rocm7.14.gfx1151", "Version: 2.0")),
        ),
        ("its METADATA has b 1.0", edit("METADATA", |text| text.replace("Name: a", "Name: b"))),
        (
            "METADATA: the text is not UTF-8",
            altered(&wheel, &name, |m| {
                m.iter_mut().find(|(name, _)| name.ends_with("METADATA")).unwrap().1.push(0xff);
            }),
        ),
        ("its WHEEL has py2-none-any", edit("WHEEL", |text| text.replace("py3", "py2"))),
        ("its file name has b 1.0", altered(&wheel, &name.replace("a-1.0", "b-1.0"), |_| {})),
        ("not that of a wheel", altered(&wheel, "a.zip", |_| {})),
    ];
    for (expected, bad) in cases {
        let error = index::write(&[wheel.clone(), bad.clone()], &root).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected), "expected {expected:?}, got {text:?}");
        assert!(text.contains(bad.to_str().unwrap()) && !text.contains('\n'), "{text:?}");
        assert!(snapshot(&root) == before, "{expected}: the index changed");
    }

    let other =
        Package::pure("python3-a2", "a").file(&format!("{LIB}/a/more.py"), "").write(dir.path());
    let other = one(&[other], &dir.path().join("out2"));
    let error = index::write(&[wheel, other.path], &root).unwrap_err();
    assert!(error.to_string().contains("have the same name but different contents"), "{error}");
    assert!(snapshot(&root) == before);
}

#[test]
fn never_panics_on_damaged_wheels() {
    let dir = tempfile::tempdir().unwrap();
    let wheel = one(&[rich(dir.path())], &dir.path().join("out")).path;
    let whole = std::fs::read(&wheel).unwrap();
    let folder = dir.path().join("damaged");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join(wheel.file_name().unwrap());
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(wheel::read(&path).is_err(), "cut at {length} of {}", whole.len());
    }
    // xorshift, to make failures reproducible.
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..2000 {
        let mut damaged = whole.clone();
        for _ in 0..3 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let at = (random % whole.len() as u64) as usize;
            damaged[at] ^= (random >> 32) as u8 | 1;
        }
        std::fs::write(&path, &damaged).unwrap();
        // Some bytes, such as times, are meaningless; most are not.
        let _ = wheel::read(&path);
    }
}
