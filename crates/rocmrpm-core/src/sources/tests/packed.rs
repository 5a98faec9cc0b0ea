//! Tests packed commits and folders, incomplete pins, and offline use.

use super::*;
use crate::events::WorkPhase;
use crate::git::testing::git;

#[test]
fn rejects_unpinned_sources_with_help() {
    let place = FetchSandbox::new();
    let git = |commit: Option<&str>| git_pin("1", "https://u:pw@h/r", commit);
    for unpinned in [url_pin("http://127.0.0.1/x", None), sdist_pin("x", "1", None), git(None)] {
        for error in [
            place.fetcher().obtain(&unpinned).unwrap_err(),
            identity(&unpinned, place.dir.path()).unwrap_err(),
        ] {
            assert!(matches!(error, SourceError::NotPinned { .. }), "{error}");
            assert!(error.help()[0].contains("rocmrpm lock"));
            assert_eq!(error.kind(), Kind::Config);
        }
    }
    for bad in ["main", "-x", "0123456", &"g".repeat(40)] {
        assert!(matches!(
            place.fetcher().obtain(&git(Some(bad))),
            Err(SourceError::BadCommit { .. })
        ));
    }
    let commit = "0".repeat(40);
    assert_eq!(
        identity(&git(Some(&commit)), place.dir.path()).unwrap(),
        format!("commit:{commit}")
    );
}

#[test]
fn reports_missing_sources_offline() {
    let place = FetchSandbox::new();
    let digest = Some(Sha256::of_bytes("x"));
    let git = git_pin("1", "https://u:secret@h/r", Some(&"0".repeat(40))).source;
    for (pin, named) in [
        (
            url_pin("https://u:secret@h/demo-1.tar.gz", digest),
            "`demo-1.tar.gz` from https://h/demo-1.tar.gz",
        ),
        (sdist_pin("Foo", "1", digest), "`Foo` on the package index"),
        (pin("1", git), "of https://h/r"),
    ] {
        let error = place.fetcher().offline(true).obtain(&pin).unwrap_err();
        assert_eq!(error.kind(), Kind::Network);
        let text = error.to_string();
        assert!(
            text.contains(named) && text.contains("--offline") && !text.contains("secret"),
            "{text}"
        );
    }
}

#[test]
fn packs_a_folder_again_only_after_changes() {
    let place = FetchSandbox::new();
    crate::files::write_atomically(&place.dir.path().join("src/demo/main.c"), "int x;").unwrap();
    let pin = pin("1", Source::Folder { path: "src/demo".into(), paths: vec![] });
    let fetched = place.fetcher().offline(true).obtain(&pin).unwrap();
    assert_eq!(fetched.top_folder, Some(source_dir(&pin)));
    let id = identity(&pin, place.dir.path()).unwrap();
    assert_eq!(place.fetcher().obtain(&pin).unwrap(), fetched);
    fs::write(place.dir.path().join("src/demo/main.c"), "int y;").unwrap();
    assert_ne!(place.fetcher().obtain(&pin).unwrap().sha256, fetched.sha256);
    assert_ne!(identity(&pin, place.dir.path()).unwrap(), id);
    assert_eq!(place.fetcher().resolve(&pin).unwrap(), Resolved::Folder);
}

#[test]
fn discards_a_folder_that_changes_while_packing() {
    struct Edit(std::path::PathBuf);
    impl Events for Edit {
        fn event(&self, event: Event) {
            // The content was hashed and is about to be packed.
            if let Event::Phase { phase: WorkPhase::Packing, .. } = event {
                fs::write(&self.0, "int evil;").unwrap();
            }
        }
    }
    let place = FetchSandbox::new();
    let file = place.dir.path().join("src/demo/main.c");
    crate::files::write_atomically(&file, "int x;").unwrap();
    let pin = pin("1", Source::Folder { path: "src/demo".into(), paths: vec![] });
    let edit = Edit(file.clone());
    let fetcher = Fetcher::new(Cache::at(place.dir.path().join("cache")), place.dir.path(), &edit);
    let error = fetcher.obtain(&pin).unwrap_err();
    assert!(
        error.to_string().ends_with("cannot be packed: it changed while it was read"),
        "{error}"
    );
    assert_eq!(place.stored(), 0);
    fs::write(&file, "int x;").unwrap();
    let fetched = place.fetcher().obtain(&pin).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(fs::File::open(fetched.path).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    assert!(text.contains("int x;") && !text.contains("evil"));
}

#[test]
fn rejects_an_archive_that_leads_out() {
    let place = FetchSandbox::new();
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.as_mut_bytes()[..10].copy_from_slice(b"d/../../xy");
    header.set_size(1);
    header.set_cksum();
    tar.append(&header, &b"x"[..]).unwrap();
    let archive = tar.into_inner().unwrap();
    let file = place.dir.path().join("d-1.tar");
    fs::write(&file, &archive).unwrap();
    let pin = url_pin(&format!("file://{}", file.display()), Some(Sha256::of_bytes(&archive)));
    let error = place.fetcher().tree(&pin).unwrap_err();
    assert!(matches!(error, SourceError::NotUnpacked { .. }), "{error}");
    let unpacked = place.fetcher().cache().unpacked(&Sha256::of_bytes(&archive));
    assert!(!unpacked.exists(), "nothing half-unpacked stays");
}

#[test]
fn refetches_an_incomplete_commit() {
    let place = FetchSandbox::new();
    let upstream = place.dir.path().join("up");
    let commit = repository(&upstream);
    let url = format!("file://{}", upstream.display());
    let cached = place.fetcher().cache().repository(&url).unwrap();
    let git = |dir: &Path, args: &[&str]| Command::new("git").cwd(dir).args(args);
    git(place.dir.path(), &["init", "--quiet", "--bare", &cached.to_string_lossy()])
        .output()
        .unwrap();
    let object = git(&upstream, &["cat-file", "commit", &commit]).output().unwrap();
    let write = git(&cached, &["hash-object", "-t", "commit", "-w", "--stdin"]).stdin(object);
    assert_eq!(write.text().unwrap().trim(), commit);

    let pin = git_pin("1", &url, Some(&commit));
    let error = place.fetcher().offline(true).obtain(&pin).unwrap_err();
    assert!(matches!(error, SourceError::Offline { .. }), "{error}");
    place.fetcher().obtain(&pin).unwrap();
    place.fetcher().offline(true).obtain(&pin).unwrap();
}

/// Creates a repository with two commits and returns the first one, which has the annotated tag
/// `v1` and the lightweight tag `2`.
fn repository(dir: &Path) -> String {
    let git = |args: &[&str]| git(dir).args(args).text().unwrap();
    fs::create_dir_all(dir).unwrap();
    git(&["init", "--quiet"]);
    fs::write(dir.join("main.c"), "int x;").unwrap();
    git(&["add", "main.c"]);
    git(&["commit", "--quiet", "-m", "one"]);
    let commit = git(&["rev-parse", "HEAD"]);
    git(&["tag", "-a", "-m", "one", "v1"]);
    git(&["tag", "2"]);
    fs::write(dir.join("main.c"), "int y;").unwrap();
    git(&["commit", "--quiet", "-a", "-m", "two"]);
    git(&["update-server-info"]);
    commit
}

fn git_pin(version: &str, url: &str, commit: Option<&str>) -> Pin {
    pin(
        version,
        Source::Git {
            url: url.into(),
            commit: commit.map(str::to_owned),
            submodules: false,
            paths: Vec::new(),
        },
    )
}

#[test]
fn packs_a_commit_once() {
    let (place, other) = (FetchSandbox::new(), FetchSandbox::new());
    let commit = repository(&place.dir.path().join("upstream"));
    assert_eq!(repository(&other.dir.path().join("upstream")), commit);
    let pin = git_pin("1", "upstream", Some(&commit));
    let fetched = place.fetcher().obtain(&pin).unwrap();
    assert_eq!(fetched.top_folder, Some(source_dir(&pin)));
    assert_eq!(fetched.file_name, "demo-1.tar.gz");
    assert_eq!(
        other.fetcher().obtain(&pin).unwrap().sha256,
        fetched.sha256,
        "the same bytes elsewhere"
    );
    let mut archive =
        tar::Archive::new(flate2::read::GzDecoder::new(fs::File::open(&fetched.path).unwrap()));
    let mut text = String::new();
    let mut entry = archive
        .entries()
        .unwrap()
        .map(Result::unwrap)
        .find(|e| e.path().unwrap() == Path::new("demo-1/main.c"))
        .unwrap();
    entry.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), entry.header().mode().unwrap()), ("int x;", 0o644));

    fs::remove_dir_all(place.dir.path().join("upstream")).unwrap();
    assert_eq!(place.fetcher().offline(true).obtain(&pin).unwrap(), fetched);
}

#[test]
fn fetches_everything_from_a_server_without_single_commits() {
    let place = FetchSandbox::new();
    let dir = place.dir.path().join("upstream");
    let commit = repository(&dir);
    // git's dumb protocol serves only files and no shallow fetches.
    let server = TestServer::start(move |seen| {
        let path = seen.path.split('?').next().unwrap_or_default();
        match fs::read(dir.join(".git").join(path.trim_start_matches("/r/"))) {
            Ok(bytes) => Reply::file(bytes),
            Err(_) => Reply::status(404),
        }
    });
    let url = server.url("/r");
    place.fetcher().obtain(&git_pin("1", &url, Some(&commit))).unwrap();
    let none = "1".repeat(40);
    let error = place.fetcher().obtain(&git_pin("1", &url, Some(&none))).unwrap_err();
    assert_eq!(error.to_string(), format!("the git repository {url} has no commit {none}"));
}

#[test]
fn reports_missing_commits_and_repositories() {
    let place = FetchSandbox::new();
    repository(&place.dir.path().join("upstream"));
    let none = "1".repeat(40);
    let error = place.fetcher().obtain(&git_pin("1", "upstream", Some(&none))).unwrap_err();
    assert_eq!(error.to_string(), format!("the git repository upstream has no commit {none}"));
    let error = place.fetcher().obtain(&git_pin("1", "nowhere", Some(&none))).unwrap_err();
    assert_eq!(error.kind(), Kind::Network);
    assert!(
        error.to_string().starts_with("cannot fetch from the git repository nowhere: "),
        "{error}"
    );
}

#[test]
fn resolves_tags_to_commits() {
    let place = FetchSandbox::new();
    let commit = repository(&place.dir.path().join("upstream"));
    for (version, tag) in [("1", "v1"), ("2", "2")] {
        let resolved = place.fetcher().resolve(&git_pin(version, "upstream", None)).unwrap();
        assert_eq!(resolved, Resolved::Commit { commit: commit.clone(), tag: Some(tag.into()) });
    }
    let error = place.fetcher().resolve(&git_pin("3", "upstream", None)).unwrap_err();
    let expected = "the git repository upstream has no tag for version 3; tried v3, 3, rocm-3, demo-3, demo-v3";
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.help()[0], "the nearest are 2, v1");
}

#[test]
fn reports_packing() {
    struct Notes(Mutex<Vec<String>>);
    impl Events for Notes {
        fn event(&self, event: Event) {
            if let Event::Phase { phase: WorkPhase::Packing, detail, .. } = event {
                self.0.lock().unwrap().push(detail);
            }
        }
    }
    let (place, notes) = (FetchSandbox::new(), Notes(Mutex::new(Vec::new())));
    crate::files::write_atomically(&place.dir.path().join("src/a"), "x").unwrap();
    let fetcher = Fetcher::new(Cache::at(place.dir.path().join("cache")), place.dir.path(), &notes);
    let pin = pin("1", Source::Folder { path: "src".into(), paths: vec![] });
    fetcher.obtain(&pin).unwrap();
    fetcher.obtain(&pin).unwrap();
    assert_eq!(*notes.0.lock().unwrap(), ["src"]);
}

#[test]
fn unpacks_a_source_once() {
    let place = FetchSandbox::new();
    let commit = repository(&place.dir.path().join("upstream"));
    let pin = git_pin("1", "upstream", Some(&commit));
    let fetcher = place.fetcher();
    let tree = fetcher.tree(&pin).unwrap();
    assert!(tree.dir.ends_with("demo-1"));
    assert_eq!(tree.text("main.c").unwrap().as_deref(), Some("int x;"));
    assert_eq!(tree.text("other.c").unwrap(), None);
    assert_eq!(fetcher.tree(&pin).unwrap().dir, tree.dir);
}
