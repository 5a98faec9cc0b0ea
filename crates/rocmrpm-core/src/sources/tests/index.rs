//! Tests lookup of sdists by name on an index.

use super::*;

#[test]
fn finds_an_sdist_on_a_private_html_index() {
    let (place, bytes) = (FetchSandbox::new(), archive());
    let (digest, body) = (Sha256::of_bytes(&bytes), bytes.clone());
    let server = TestServer::start(move |seen| {
        match seen.path.as_str() {
        "/simple/foo-bar/" => Reply::file(format!(
            "<a href='../../f/Foo.Bar-1.0.tar.gz#sha256={digest}'>x</a><a href='/f/Foo.Bar-1.1.tar.gz'>x</a>"
        ))
        .header("Content-Type", "text/html"),
        path if path.starts_with("/f/") => Reply::file(body.clone()),
        _ => Reply::status(404),
    }
    });
    let index = server.url("/simple/").replace("http://", "http://me:s%3Acret@");
    let fetcher = place.fetcher().index(&index);
    let fetched = fetcher.obtain(&sdist_pin("Foo_Bar", "1.0", Some(digest))).unwrap();
    assert_eq!(fetched.file_name, "foo_bar-1.0.tar.gz");
    let seen = server.seen();
    assert!(seen[0].header("accept").unwrap().starts_with("application/vnd.pypi.simple.v1+json, "));
    // "me:s:cret" in base64, for both the page and the file on the same server.
    assert!(
        seen.iter().all(|s| s.header("authorization") == Some("Basic bWU6czpjcmV0")),
        "{seen:?}"
    );
    assert_eq!(seen[1].path, "/f/Foo.Bar-1.0.tar.gz");

    let other = Sha256::of_bytes("other");
    let error = fetcher.obtain(&sdist_pin("Foo_Bar", "1.0", Some(other))).unwrap_err();
    assert!(matches!(error, SourceError::IndexDigest { .. }), "{error}");
    assert_eq!(server.seen().len(), 3, "the file itself was not requested");

    for (project, version, message) in
        [("none", "1", "no project `none`"), ("foo.bar", "9", "no sdist")]
    {
        let error = fetcher.obtain(&sdist_pin(project, version, Some(other))).unwrap_err();
        let text = format!("{error} {:?}", error.help());
        assert!(text.contains(message) && !text.contains("cret"), "{text}");
    }
    let latest = fetcher.sdist("foo.bar", None).unwrap();
    assert_eq!((latest.version.as_str(), latest.sha256), ("1.1", None));
    // The index has no digest for 1.1, so resolving trusts the downloaded file.
    let resolved = fetcher.resolve(&sdist_pin("foo.bar", "1.1", None)).unwrap();
    let url = Some(server.url("/f/Foo.Bar-1.1.tar.gz"));
    assert_eq!(resolved, Resolved::File { url, sha256: digest, size: bytes.len() as u64 });
}

#[test]
fn sends_credentials_only_to_their_server() {
    let (place, bytes) = (FetchSandbox::new(), archive());
    let digest = Sha256::of_bytes(&bytes);
    let files = TestServer::start(move |_| Reply::file(bytes.clone()));
    let (link, redirect) = (files.url("/demo-1.tar.gz"), files.url("/moved/demo-1.tar.gz"));
    let server = TestServer::start(move |seen| match seen.path.as_str() {
        "/simple/demo/" => Reply::file(format!("<a href='{link}'>x</a>")),
        _ => Reply::status(302).header("Location", redirect.clone()),
    });
    let with_password = |url: String| url.replace("http://", "http://me:secret@");
    let fetcher = place.fetcher().index(with_password(server.url("/simple")));
    fetcher.obtain(&sdist_pin("demo", "1", Some(digest))).unwrap();
    let resolved =
        fetcher.resolve(&url_pin(&with_password(server.url("/demo-1.tar.gz")), None)).unwrap();
    assert!(!format!("{resolved:?}").contains("secret"), "{resolved:?}");
    assert!(server.seen().iter().all(|seen| seen.header("authorization").is_some()));
    assert_eq!(files.seen().len(), 2);
    assert!(
        files.seen().iter().all(|seen| seen.header("authorization").is_none()),
        "{:?}",
        files.seen()
    );
}

#[test]
fn prefers_a_json_index_and_checks_its_digest() {
    let (place, bytes) = (FetchSandbox::new(), archive());
    let (digest, wrong) = (Sha256::of_bytes(&bytes), Sha256::of_bytes("wrong"));
    let server = TestServer::start(move |seen| match seen.path.as_str() {
        "/simple/demo/" => Reply::file(format!(
            r#"{{"files":[{{"filename":"demo-1.tar.gz","url":"/good","hashes":{{"sha256":"{digest}"}}}},
                {{"filename":"demo-2.tar.gz","url":"/bad","hashes":{{"sha256":"{wrong}"}},"yanked":true}}]}}"#
        )),
        _ => Reply::file(bytes.clone()),
    });
    let fetcher = place.fetcher().index(server.url("/simple"));
    assert_eq!(fetcher.sdist("demo", None).unwrap().version, "1");
    let Resolved::File { sha256, .. } = fetcher.resolve(&sdist_pin("demo", "1", None)).unwrap()
    else {
        panic!()
    };
    assert_eq!(sha256, digest);
    let error = fetcher.resolve(&sdist_pin("demo", "2", None)).unwrap_err();
    assert!(matches!(error, SourceError::Digest { .. }), "{error}");
}

#[test]
fn uses_a_folder_as_an_index() {
    let (place, bytes) = (FetchSandbox::new(), archive());
    let root = place.dir.path().join("simple");
    crate::files::write_atomically(&root.join("demo/index.html"), "<a href=demo-1.tar.gz>x</a>")
        .unwrap();
    crate::files::write_atomically(&root.join("demo/demo-1.tar.gz"), &bytes).unwrap();
    let fetcher = place.fetcher().index(format!("file://{}", root.display()));
    fetcher.obtain(&sdist_pin("Demo", "1", Some(Sha256::of_bytes(&bytes)))).unwrap();
    let missing = fetcher.sdist("none", None).unwrap_err();
    assert!(matches!(missing, SourceError::NoProject { .. }), "{missing}");
}
