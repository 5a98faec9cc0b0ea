//! Tests reading RPMs of every kind: those that rpmbuild makes, and malformed ones.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::payload::tests::newc;
use super::*;
use rocmrpm_base::process::Command;
use rocmrpm_base::testing::flip_bytes;

type Files = BTreeMap<String, Vec<u8>>;

fn content(path: &Path) -> Result<Files, RpmError> {
    let mut files = Files::new();
    for_each_file::<RpmError>(path, |entry, content| {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        if entry.kind == EntryKind::Regular {
            assert!(files.insert(entry.path.clone(), bytes).is_none());
        }
        Ok(())
    })?;
    Ok(files)
}

/// Builds a package with rpmbuild.
fn rpmbuild(dir: &Path, files: &str, install: &str, payload: &str) -> PathBuf {
    let spec = format!(
        "Name: demo\nVersion: 1.0\nRelease: 1\nSummary: demo\nLicense: MIT\nBuildArch: noarch\n\
         %description\ndemo\n%install\nmkdir -p %{{buildroot}}/usr/share/demo\ncd %{{buildroot}}/usr/share/demo\n\
         {install}\n%files\n{files}\n"
    );
    fs_err::write(dir.join("demo.spec"), spec).unwrap();
    let top = format!("_topdir {}", dir.display());
    let payload = format!("_binary_payload {payload}");
    let args = [
        "-bb",
        "--quiet",
        "-D",
        &top,
        "-D",
        &payload,
        "-D",
        "__os_install_post %{nil}",
        "demo.spec",
    ];
    Command::new("rpmbuild").args(args).cwd(dir).runs_code_of_tests().text().unwrap();
    dir.join("RPMS/noarch/demo-1.0-1.noarch.rpm")
}

#[test]
fn reads_every_compression_of_rpmbuild() {
    let install = "seq 1 100000 > numbers\n: > empty\nln -s numbers link\necho one > 'a b'";
    let numbers: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    for payload in ["w9.gzdio", "w7.xzdio", "w19.zstdio", "w.ufdio"] {
        let dir = tempfile::tempdir().unwrap();
        let files = content(&rpmbuild(dir.path(), "/usr/share/demo", install, payload)).unwrap();
        let names: Vec<_> = files.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            ["/usr/share/demo/a b", "/usr/share/demo/empty", "/usr/share/demo/numbers"]
        );
        assert_eq!(files["/usr/share/demo/numbers"], numbers.as_bytes(), "{payload}");
    }
}

#[test]
fn last_hard_link_has_the_content_and_ghosts_have_none() {
    let dir = tempfile::tempdir().unwrap();
    let install = "echo text > a\nln a b\nln a c\necho ghost > g";
    let path =
        rpmbuild(dir.path(), "/usr/share/demo/[abc]\n%ghost /usr/share/demo/g", install, "w.ufdio");
    let mut seen = Vec::new();
    for_each_file::<RpmError>(&path, |entry, content| {
        let mut text = String::new();
        content.read_to_string(&mut text)?;
        let name = entry.path.rsplit('/').next().unwrap_or_default().to_owned();
        seen.push((name, entry.kind.clone(), entry.size, text));
        Ok(())
    })
    .unwrap();
    let file = |name: &str, text: &str| (name.to_owned(), EntryKind::Regular, 5, text.to_owned());
    assert_eq!(seen[..3], [file("a", ""), file("b", ""), file("c", "text\n")]);
    assert_eq!((seen[3].0.as_str(), &seen[3].1, seen[3].3.as_str()), ("g", &EntryKind::Ghost, ""));
}

fn package(files: &[(&str, &[u8])]) -> rpm::Package {
    let mut builder = rpm::PackageBuilder::new("demo", "1.0", "MIT", "x86_64", "a demo");
    builder.using_config(rpm::BuildConfig::default().compression(rpm::CompressionType::None));
    for (path, bytes) in files {
        builder.with_file_contents(*bytes, rpm::FileOptions::new(*path)).unwrap();
    }
    builder.build().unwrap()
}

fn written(dir: &Path, package: &rpm::Package) -> PathBuf {
    let path = dir.join("demo.rpm");
    package.write_file(&path).unwrap();
    path
}

#[test]
fn reads_packages_with_many_files() {
    let names: Vec<String> = (0..5000).map(|n| format!("/usr/share/demo/{n}")).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|n| (n.as_str(), n.as_bytes())).collect();
    let dir = tempfile::tempdir().unwrap();
    let read = content(&written(dir.path(), &package(&files))).unwrap();
    assert_eq!(read.len(), 5000);
    assert!(read.iter().all(|(path, bytes)| path.as_bytes() == bytes));
}

/// Returns members as rpm writes them in packages with files over 4 GB.
fn stripped(members: &[(u32, &[u8])]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (number, bytes) in members {
        payload.extend(format!("07070X{number:08x}\0\0").as_bytes());
        payload.extend(*bytes);
        payload.resize(payload.len().next_multiple_of(4), 0);
    }
    payload.extend(newc("TRAILER!!!", 0));
    payload
}

#[test]
fn stripped_payload_has_the_content_of_hard_links_once() {
    let dir = tempfile::tempdir().unwrap();
    let path =
        rpmbuild(dir.path(), "/usr/share/demo/[abc]", "echo text > a\nln a b\nln a c", "w.ufdio");
    let mut package = rpm::Package::open(path).unwrap();
    package.payload = stripped(&[(0, b""), (1, b""), (2, b"text\n")]);
    let files = content(&written(dir.path(), &package)).unwrap();
    let expected =
        [("/usr/share/demo/a", ""), ("/usr/share/demo/b", ""), ("/usr/share/demo/c", "text\n")];
    assert_eq!(files, content_of(&expected));
}

#[test]
fn stripped_payload_takes_sizes_from_the_header() {
    let dir = tempfile::tempdir().unwrap();
    let mut package = package(&[("/a", b"first"), ("/b", b""), ("/c", b"third one")]);
    package.payload = stripped(&[(2, b"third one"), (0, b"first"), (1, b"")]);
    let files = content(&written(dir.path(), &package)).unwrap();
    assert_eq!(files, content_of(&[("/a", "first"), ("/b", ""), ("/c", "third one")]));
    for (members, text) in [
        (stripped(&[(3, b"")]), "the payload has file number 3, but the header lists only 3"),
        (stripped(&[(0, b"first"), (0, b"first")]), "`/a` twice"),
        (stripped(&[(0, b"first")]), "ends without `/b`"),
        (newc("./d", 0), "a file `./d` that the header does not list"),
    ] {
        package.payload = members;
        let error = content(&written(dir.path(), &package)).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

fn content_of(files: &[(&str, &str)]) -> Files {
    files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
}

#[test]
fn reads_files_over_4_gb() {
    let dir = tempfile::tempdir().unwrap();
    let large = (4u64 << 30) + 5;
    let mut package = package(&[("/a", b"x"), ("/b", b"behind")]);
    // LONGFILESIZES instead of FILESIZES.
    let mut entries = package.metadata.header.get_all_entries().unwrap();
    entries.retain(|(tag, _)| *tag > 99 && *tag != rpm::IndexTag::RPMTAG_FILESIZES as u32);
    let sizes = rpm::IndexData::Int64(vec![large, 6]);
    entries.push((rpm::IndexTag::RPMTAG_LONGFILESIZES as u32, sizes));
    let entries = entries.into_iter().map(|(tag, data)| rpm::HeaderEntry { tag, data });
    package.metadata.header =
        rpm::Header::from_entries(entries, rpm::IndexTag::RPMTAG_HEADERIMMUTABLE);
    package.payload = Vec::new();
    let path = written(dir.path(), &package);
    // A sparse file, with a hole for the content of the large file.
    let file = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
    let start = file.metadata().unwrap().len();
    let second = stripped(&[(1, b"behind")]);
    use std::os::unix::fs::FileExt as _;
    file.file().write_all_at(b"07070X00000000\0\0", start).unwrap();
    file.file().write_all_at(&second, start + 16 + large + 3).unwrap();
    let mut seen = Vec::new();
    for_each_file::<RpmError>(&path, |entry, content| {
        let mut bytes = Vec::new();
        content.take(10).read_to_end(&mut bytes)?;
        seen.push((entry.size, bytes));
        Ok(())
    })
    .unwrap();
    assert_eq!(seen, [(large, vec![0; 10]), (6, b"behind".to_vec())]);
}

#[test]
fn rejects_truncation_at_every_byte() {
    let dir = tempfile::tempdir().unwrap();
    let cut = dir.path().join("cut.rpm");
    for compression in [
        rpm::CompressionType::None,
        rpm::CompressionType::Gzip,
        rpm::CompressionType::Xz,
        rpm::CompressionType::Zstd,
    ] {
        let mut builder = rpm::PackageBuilder::new("demo", "1.0", "MIT", "x86_64", "a demo");
        builder.using_config(rpm::BuildConfig::default().compression(compression));
        builder.with_file_contents("hello\n", rpm::FileOptions::new("/usr/share/demo/a")).unwrap();
        let package = builder.build().unwrap();
        let whole = written(dir.path(), &package);
        let bytes = fs_err::read(&whole).unwrap();
        content(&whole).unwrap();
        let headers = bytes.len() - package.payload.len();
        for length in 0..headers {
            assert!(
                checked::headers(&mut &bytes[..length]).is_err(),
                "cut at {length} of {headers}"
            );
        }
        for length in headers..bytes.len() {
            fs_err::write(&cut, &bytes[..length]).unwrap();
            assert!(content(&cut).is_err(), "{compression:?} cut at {length} of {}", bytes.len());
        }
    }
}

#[test]
fn random_corruption_does_not_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flipped.rpm");
    let whole = fs_err::read(written(dir.path(), &package(&[("/a", b"first"), ("/b", b"second")])))
        .unwrap();
    flip_bytes(&whole, 1500, |bytes| {
        fs_err::write(&path, bytes).unwrap();
        drop(content(&path));
    });
}
