//! Tests servers and archives that are endless or larger than announced.

use super::super::{limits, metadata::Distribution};
use super::*;
use crate::workspace::LockEntry;
use crate::workspace::pin::Evidence;

/// Returns the size of the cache, in bytes.
fn bytes_in_cache(place: &FetchSandbox) -> u64 {
    let files = walkdir::WalkDir::new(place.dir.path().join("cache")).into_iter().flatten();
    files
        .filter_map(|entry| entry.metadata().ok())
        .filter(|data| data.is_file())
        .map(|data| data.len())
        .sum()
}

#[test]
fn stops_an_endless_page() {
    let server = TestServer::start(|_| Reply::file("<html>").endless());
    let place = FetchSandbox::new();
    let fetcher = place.fetcher().index(server.url("/simple"));
    let error = fetcher.sdist("foo", None).unwrap_err();
    assert!(matches!(error, SourceError::TooLarge { limit: limits::PAGE, .. }), "{error}");
    assert_eq!(bytes_in_cache(&place), 0);
}

#[test]
fn an_endless_page_does_not_affect_others() {
    let server = TestServer::start(|seen| match seen.path.as_str() {
        "/simple/large/" => Reply::file("<html>").endless(),
        path => Reply::file(format!(
            "<a href='{}-1.0.tar.gz'>x</a>",
            path.trim_matches('/').replace("simple/", "")
        )),
    });
    let place = FetchSandbox::new();
    let fetcher = place.fetcher().index(server.url("/simple"));
    let error = fetcher.projects(&["one", "large", "two"]).unwrap_err();
    let SourceError::TooLarge { url, .. } = &error else { panic!("{error}") };
    assert_eq!(*url, server.url("/simple/large/"));
    assert_eq!(fetcher.projects(&["one", "two"]).unwrap().len(), 2);
}

#[test]
fn stops_an_endless_file_and_removes_it() {
    let server = TestServer::start(|_| Reply::file([0x1f, 0x8b]).endless());
    let (place, digest) = (FetchSandbox::new(), Sha256::of_bytes("x"));
    let mut pin = url_pin(&server.url("/demo-1.tar.gz"), Some(digest));
    let entry = LockEntry { sha256: Some(digest), size: Some(1000), ..LockEntry::default() };
    pin.evidence = Evidence(Some(Box::new(entry)));
    let error = place.fetcher().obtain(&pin).unwrap_err();
    assert!(matches!(error, SourceError::TooLarge { limit: limits::PAGE, .. }), "{error}");
    assert_eq!(error.help(), [""; 0]);
    assert_eq!(bytes_in_cache(&place), 0);
}

#[test]
fn an_endless_wheel_does_not_affect_metadata_of_others() {
    let text = "Metadata-Version: 2.1\nName: one\nVersion: 1.0\n";
    let server = TestServer::start(move |seen| match seen.path.as_str() {
        "/simple/one/" => Reply::file("<a href='/one-1.0-py3-none-any.whl'>x</a>"),
        "/simple/two/" => Reply::file("<a href='/two-1.0-py3-none-any.whl'>x</a>"),
        "/one-1.0-py3-none-any.whl.metadata" => Reply::file(text),
        "/two-1.0-py3-none-any.whl.metadata" => Reply::file("").endless(),
        _ => Reply::status(404),
    });
    let place = FetchSandbox::new();
    let fetcher = place.fetcher().index(server.url("/simple"));
    let wheel = |project: &str| Distribution {
        project: project.into(),
        version: "1.0".parse().unwrap(),
        file: format!("{project}-1.0-py3-none-any.whl"),
        sha256: Sha256::of_bytes(project),
        metadata: None,
    };
    // The other wheel fails later, when it is fetched completely.
    let error = fetcher.metadata(&[wheel("one"), wheel("two")]).unwrap_err();
    assert!(matches!(&error, SourceError::Transfer { status: 404, .. }), "{error}");
    assert_eq!(fetcher.metadata(&[wheel("one")]).unwrap(), [text]);
}

/// Returns a pin for a `.tar.gz` file created by `write`.
fn packed(
    place: &FetchSandbox,
    write: impl FnOnce(&mut tar::Builder<flate2::write::GzEncoder<Vec<u8>>>),
) -> Pin {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut builder = tar::Builder::new(gzip);
    write(&mut builder);
    let bytes = builder.into_inner().unwrap().finish().unwrap();
    let file = place.dir.path().join("demo-1.tar.gz");
    fs::write(&file, &bytes).unwrap();
    url_pin(&format!("file://{}", file.display()), Some(Sha256::of_bytes(&bytes)))
}

fn header(path: &str, kind: tar::EntryType, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_path(path).unwrap();
    header.set_entry_type(kind);
    header.set_mode(0o4755);
    header.set_size(size);
    header.set_cksum();
    header
}

#[test]
fn stops_unpacking_a_bomb_and_removes_it() {
    let place = FetchSandbox::new();
    let size = crate::limits::BOMB_SIZE + (8 << 20);
    let pin = packed(&place, |tar| {
        tar.append(
            &header("demo-1/zeros", tar::EntryType::Regular, size),
            std::io::repeat(0).take(size),
        )
        .unwrap();
    });
    let error = place.fetcher().tree(&pin).unwrap_err();
    assert!(error.to_string().ends_with("it unpacks to more than 67108864 bytes"), "{error}");
    assert!(error.help()[0].contains("ROCMRPM_MAX_SIZE"), "{:?}", error.help());
    assert!(!place.dir.path().join("cache/unpacked").exists());
    assert!(bytes_in_cache(&place) < 1 << 20);
}

#[test]
fn counts_the_size_of_sparse_files() {
    let place = FetchSandbox::new();
    let pin = packed(&place, |tar| {
        let mut holes = header("demo-1/holes", tar::EntryType::GNUSparse, 0);
        let gnu = holes.as_gnu_mut().unwrap();
        gnu.realsize[..11].copy_from_slice(b"77777777777");
        gnu.sparse[0].offset[..11].copy_from_slice(b"77777777777");
        gnu.sparse[0].numbytes[..11].copy_from_slice(b"00000000000");
        holes.set_cksum();
        tar.append(&holes, std::io::empty()).unwrap();
    });
    let error = place.fetcher().tree(&pin).unwrap_err();
    assert!(error.to_string().contains("it unpacks to more than"), "{error}");
}

#[test]
fn does_not_unpack_devices_and_special_bits() {
    use std::os::unix::fs::PermissionsExt;
    let place = FetchSandbox::new();
    let pin = packed(&place, |tar| {
        for (path, kind) in [
            ("demo-1/char", tar::EntryType::Char),
            ("demo-1/block", tar::EntryType::Block),
            ("demo-1/pipe", tar::EntryType::Fifo),
            ("demo-1/file", tar::EntryType::Regular),
        ] {
            tar.append(&header(path, kind, 0), std::io::empty()).unwrap();
        }
    });
    let tree = place.fetcher().tree(&pin).unwrap();
    assert_eq!(crate::files::names_in(&tree.dir).unwrap(), ["file"]);
    let mode = fs::metadata(tree.dir.join("file")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[test]
fn unpacks_each_compression() {
    let place = FetchSandbox::new();
    let mut tar = tar::Builder::new(Vec::new());
    tar.append(&header("demo-1/file", tar::EntryType::Regular, 2), &b"hi"[..]).unwrap();
    fs::write(place.dir.path().join("demo-1.tar"), tar.into_inner().unwrap()).unwrap();
    for (program, suffix) in
        [("gzip", ".gz"), ("xz", ".xz"), ("zstd", ".zst"), ("bzip2", ".bz2"), ("", "")]
    {
        if !program.is_empty() {
            let pack = Command::new(program).args(["-k", "-q", "demo-1.tar"]).cwd(place.dir.path());
            pack.output().unwrap();
        }
        let file = place.dir.path().join(format!("demo-1.tar{suffix}"));
        let digest = Sha256::of_file(&file).unwrap().0;
        let tree = place
            .fetcher()
            .tree(&url_pin(&format!("file://{}", file.display()), Some(digest)))
            .unwrap();
        assert_eq!(tree.text("file").unwrap().as_deref(), Some("hi"), "{suffix}");
    }
}

#[test]
fn unpacks_a_modified_source_again() {
    let place = FetchSandbox::new();
    let pin = packed(&place, |tar| {
        tar.append(&header("demo-1/file", tar::EntryType::Regular, 2), &b"hi"[..]).unwrap();
    });
    let tree = place.fetcher().tree(&pin).unwrap();
    let notes = Notes::default();
    let fetcher = Fetcher::new(Cache::at(place.dir.path().join("cache")), place.dir.path(), &notes);
    fs::write(tree.dir.join("file"), "ha").unwrap();
    assert_eq!(fetcher.tree(&pin).unwrap().text("file").unwrap().as_deref(), Some("hi"));
    assert!(notes.0.lock().unwrap()[0].contains("changed since it was unpacked"), "{notes:?}");
    fs::write(tree.dir.join("more"), "").unwrap();
    assert_eq!(place.fetcher().tree(&pin).unwrap().text("more").unwrap(), None);
}

#[test]
fn refetches_a_damaged_file() {
    let archive = archive();
    let digest = Sha256::of_bytes(&archive);
    let server = TestServer::start(move |_| Reply::file(archive.clone()));
    let (place, notes) = (FetchSandbox::new(), Notes::default());
    let path = place.fetcher().cache().path_of(&digest);
    crate::files::write_atomically(&path, "another file").unwrap();
    let pin = url_pin(&server.url("/demo-1.tar.gz"), Some(digest));
    let fetcher = Fetcher::new(Cache::at(place.dir.path().join("cache")), place.dir.path(), &notes);
    let fetched = fetcher.obtain(&pin).unwrap();
    assert_eq!(Sha256::of_file(&path).unwrap(), (digest, fetched.size));
    assert!(notes.0.lock().unwrap()[0].contains("has sha256"), "{notes:?}");

    crate::files::write_atomically(&path, "another file").unwrap();
    let error = place.fetcher().offline(true).obtain(&pin).unwrap_err();
    assert!(matches!(error, SourceError::Offline { .. }), "{error}");
}

/// Collects the warnings of a fetcher.
#[derive(Debug, Default)]
struct Notes(Mutex<Vec<String>>);

impl Events for Notes {
    fn event(&self, event: Event) {
        if let Event::Warning(text) = event {
            self.0.lock().unwrap().push(text);
        }
    }
}

#[test]
fn requires_a_digest_without_tls() {
    let place = FetchSandbox::new();
    let error =
        place.fetcher().resolve(&url_pin("http://u:pw@h.invalid/demo-1.tar.gz", None)).unwrap_err();
    assert!(
        matches!(&error, SourceError::Unprotected { url } if url == "http://h.invalid/demo-1.tar.gz"),
        "{error}"
    );
    assert_eq!(error.kind(), Kind::Config);
}

#[test]
fn does_not_share_metadata_between_indexes() {
    let serve = |summary: &'static str| {
        TestServer::start(move |seen| match seen.path.as_str() {
            "/simple/one/" => Reply::file("<a href='/one-1.0-py3-none-any.whl'>x</a>"),
            "/one-1.0-py3-none-any.whl.metadata" => Reply::file(format!(
                "Metadata-Version: 2.1\nName: one\nVersion: 1.0\nSummary: {summary}\n"
            )),
            _ => Reply::status(404),
        })
    };
    let (lying, honest) = (serve("lie"), serve("truth"));
    let wheels = [Distribution {
        project: "one".into(),
        version: "1.0".parse().unwrap(),
        file: "one-1.0-py3-none-any.whl".into(),
        sha256: Sha256::of_bytes("one"),
        metadata: None,
    }];
    let place = FetchSandbox::new();
    let of = |server: &TestServer| {
        place.fetcher().index(server.url("/simple")).metadata(&wheels).unwrap()
    };
    assert!(of(&lying)[0].contains("lie"));
    assert!(of(&honest)[0].contains("truth"));
    // Neither is fetched again.
    let offline = place.fetcher().index(honest.url("/simple")).offline(true);
    assert!(offline.metadata(&wheels).unwrap()[0].contains("truth"));
}
