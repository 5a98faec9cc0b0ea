//! Tests downloads: fetching, resuming, rejecting.

use super::*;

#[test]
fn fetches_a_file_once_and_copies_it() {
    let (place, bytes) = (FetchSandbox::new(), archive());
    let (digest, body) = (Sha256::of_bytes(&bytes), bytes.clone());
    let server = TestServer::start(move |_| Reply::file(body.clone()));
    let pin = url_pin(&server.url("/demo-1.tar.gz"), Some(digest));
    let fetched = place.fetcher().obtain(&pin).unwrap();
    assert_eq!(fetched.top_folder.as_deref(), Some("demo-1"));
    assert_eq!((fetched.file_name.as_str(), fetched.size), ("demo-1.tar.gz", bytes.len() as u64));
    let again = place.fetcher().offline(true).obtain(&pin).unwrap();
    assert_eq!(again, fetched);
    assert_eq!(server.seen().len(), 1);
    assert_eq!(place.stored(), 1, "no partial file is left");

    let out = place.dir.path().join("SOURCES");
    let copy = place.fetcher().copy_to(&fetched, &out).unwrap();
    assert_eq!(fs::read(copy).unwrap(), bytes);

    fs::write(&fetched.path, "rot").unwrap();
    let error = place.fetcher().copy_to(&fetched, &out).unwrap_err();
    assert!(matches!(&error, SourceError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains(&Sha256::of_bytes("rot").to_string()));
    assert_eq!(fs::read(out.join("demo-1.tar.gz")).unwrap(), bytes, "the good copy stays");
    place.fetcher().obtain(&pin).unwrap();
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn resumes_an_interrupted_download() {
    let (place, bytes) = (FetchSandbox::new(), archive());
    let (digest, body, turn) = (Sha256::of_bytes(&bytes), bytes.clone(), AtomicUsize::new(0));
    let server = TestServer::start(move |_| match turn.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::file(body.clone()).cut_after(5000),
        _ => Reply::file(body.clone()),
    });
    let pin = url_pin(&server.url("/demo-1.tar.gz"), Some(digest));
    let error = place.fetcher().obtain(&pin).unwrap_err();
    assert!(matches!(error, SourceError::Truncated { arrived: 5000, .. }), "{error}");
    assert!(error.to_string().contains("was interrupted after 5000 bytes"), "{error}");
    assert_eq!(error.kind(), Kind::Network);
    assert!(error.help()[0].contains("again to resume"));
    place.fetcher().obtain(&pin).unwrap();
    assert_eq!(server.seen()[1].header("range"), Some("bytes=5000-"));
}

#[test]
fn restarts_downloads_that_cannot_resume() {
    let bytes = archive();
    let digest = Sha256::of_bytes(&bytes);
    // A server without ranges; one with ranges; a part of another file; a complete file.
    let other = vec![7; 100];
    for (ranges, part) in [(false, &bytes[..5000]), (true, &other), (true, &bytes), (false, &bytes)]
    {
        let (place, body) = (FetchSandbox::new(), bytes.clone());
        let server = TestServer::start(move |_| match ranges {
            true => Reply::file(body.clone()),
            false => Reply::file(body.clone()).without_ranges(),
        });
        let url = server.url("/demo-1.tar.gz");
        fs::write(place.fetcher().cache().partial(&url).unwrap(), part).unwrap();
        let fetched = place.fetcher().obtain(&url_pin(&url, Some(digest))).unwrap();
        assert_eq!(fs::read(fetched.path).unwrap(), bytes);
        assert!(server.seen().len() <= 2);
    }
}

#[test]
fn does_not_resume_without_a_digest() {
    let (place, bytes) = (FetchSandbox::new(), archive());
    let body = bytes.clone();
    let server = TestServer::start(move |_| Reply::file(body.clone()));
    let url = server.url("/demo-1.tar.gz");
    fs::write(place.fetcher().cache().partial(&url).unwrap(), [7; 100]).unwrap();
    let resolved = place.fetcher().resolve(&url_pin(&url, None)).unwrap();
    let (sha256, size) = (Sha256::of_bytes(&bytes), bytes.len() as u64);
    assert_eq!(resolved, Resolved::File { url: Some(url.clone()), sha256, size });
    assert_eq!(server.seen()[0].header("range"), None);
    // A resolved source needs no second transfer.
    place.fetcher().offline(true).obtain(&url_pin(&url, Some(sha256))).unwrap();
}

#[test]
fn reports_both_digests_of_a_mismatch() {
    let place = FetchSandbox::new();
    let html = "<!DOCTYPE html>\n<p>sorry";
    let server = TestServer::start(move |_| Reply::file(html));
    let expected = Sha256::of_bytes("expected");
    let error = place
        .fetcher()
        .obtain(&url_pin(&server.url("/demo-1.tar.gz"), Some(expected)))
        .unwrap_err();
    let (text, found) = (error.to_string(), Sha256::of_bytes(html).to_string());
    assert!(text.contains(&expected.to_string()) && text.contains(&found), "{text}");
    assert!(text.contains("begins with `<!DOCTYPE html>`"), "{text}");
    assert_eq!(place.stored(), 0);
}

#[test]
fn rejects_a_source_that_is_not_an_archive() {
    let place = FetchSandbox::new();
    let html = "<!DOCTYPE html>\n<p>sorry";
    let server = TestServer::start(move |_| Reply::file(html));
    for sha256 in [None, Some(Sha256::of_bytes(html))] {
        let pin = url_pin(&server.url("/demo-1.tar.gz"), sha256);
        let error = place.fetcher().resolve(&pin).unwrap_err().to_string();
        let expected = format!(
            "`demo-1.tar.gz` from {} is not a gzip file: it begins with `<!DOCTYPE html>`",
            server.url("/demo-1.tar.gz")
        );
        assert_eq!(error, expected);
        assert_eq!(place.stored(), 0);
    }
}

#[test]
fn reports_why_a_transfer_failed() {
    let place = FetchSandbox::new();
    let server = TestServer::start(|seen| match seen.path.as_str() {
        "/404" => Reply::status(404),
        "/403" => Reply::status(403),
        _ => Reply::status(302).header("Location", "/loop"),
    });
    let free_port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let missing = format!("file://{}/none", place.dir.path().display());
    for (url, why) in [
        (server.url("/404"), "HTTP status 404"),
        (server.url("/403"), "HTTP status 403"),
        (server.url("/loop"), "redirects more than 10 times"),
        (format!("http://{free_port}/x"), "refuses the connection"),
        (missing, "does not exist or cannot be read"),
        ("ftp://127.0.0.1/x".into(), "only https, http and file URLs"),
    ] {
        let error =
            place.fetcher().obtain(&url_pin(&url, Some(Sha256::of_bytes("x")))).unwrap_err();
        assert!(error.to_string().contains(why) && error.to_string().contains(&url), "{error}");
        assert_eq!(error.kind(), Kind::Network, "{url}");
    }
    let odd =
        place.fetcher().obtain(&url_pin("http://127.0.0.1/a\nb", Some(Sha256::of_bytes("x"))));
    assert!(matches!(odd, Err(SourceError::BadUrl { .. })));
}

#[test]
fn reports_a_full_disk() {
    let (place, bytes) = (FetchSandbox::new(), archive());
    let digest = Sha256::of_bytes(&bytes);
    let server = TestServer::start(move |_| Reply::file(bytes.clone()));
    let url = server.url("/demo-1.tar.gz");
    let partial = place.fetcher().cache().partial(&url).unwrap();
    std::os::unix::fs::symlink("/dev/full", &partial).unwrap();
    let error = place.fetcher().obtain(&url_pin(&url, Some(digest))).unwrap_err();
    assert!(matches!(error, SourceError::Write { .. }), "{error}");
    assert!(error.to_string().contains(&partial.display().to_string()), "{error}");
    assert_eq!(error.kind(), Kind::Environment);
    assert!(partial.symlink_metadata().is_ok(), "the partial file is kept");
}

#[test]
fn concurrent_runs_fetch_once() {
    let (place, bytes) = (FetchSandbox::new(), archive());
    let digest = Sha256::of_bytes(&bytes);
    let server = TestServer::start(move |_| Reply::file(bytes.clone()));
    let pin = url_pin(&server.url("/demo-1.tar.gz"), Some(digest));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| place.fetcher().obtain(&pin).unwrap());
        }
    });
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn fetches_file_urls() {
    let (place, bytes) = (FetchSandbox::new(), archive());
    fs::write(place.dir.path().join("demo-1.tar.gz"), &bytes).unwrap();
    let url = format!("file://{}/demo-1.tar.gz", place.dir.path().display());
    let fetched = place.fetcher().obtain(&url_pin(&url, Some(Sha256::of_bytes(&bytes)))).unwrap();
    assert_eq!(fetched.size, bytes.len() as u64);
}
