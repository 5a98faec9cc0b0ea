//! Tests git transfers: passwords, damaged objects, upstream's attributes.

use super::*;

/// Runs git in a folder with a fixed author and the current time.
fn git(dir: &Path, args: &[&str], stdin: &[u8]) -> String {
    let mut git = Command::new("git").cwd(dir).env("GIT_CONFIG_GLOBAL", "/dev/null");
    for role in ["AUTHOR", "COMMITTER"] {
        git = git
            .env(format!("GIT_{role}_NAME"), "A")
            .env(format!("GIT_{role}_EMAIL"), "a@example.org");
    }
    git.args(args).stdin(stdin).text().unwrap()
}

/// Commits these files to a new repository.
fn repository(dir: &Path, files: &[(&str, &str)]) -> String {
    fs::create_dir_all(dir).unwrap();
    git(dir, &["init", "--quiet"], b"");
    for (path, text) in files {
        fs::write(dir.join(path), text).unwrap();
    }
    git(dir, &["add", "--all"], b"");
    git(dir, &["commit", "--quiet", "-m", "one"], b"");
    git(dir, &["tag", "v1"], b"");
    git(dir, &["update-server-info"], b"");
    git(dir, &["rev-parse", "HEAD"], b"")
}

fn git_pin(url: &str, commit: Option<&str>) -> Pin {
    let source = Source::Git {
        url: url.into(),
        commit: commit.map(str::to_owned),
        submodules: false,
        paths: Vec::new(),
    };
    pin("1", source)
}

/// Responds as in git's dumb protocol.
fn dumb(repository: &Path, seen: &super::super::testserver::SeenRequest) -> Reply {
    let path = seen.path.split('?').next().unwrap_or_default();
    match fs::read(repository.join(".git").join(path.trim_start_matches("/r/"))) {
        Ok(bytes) => Reply::file(bytes),
        Err(_) => Reply::status(404),
    }
}

/// Returns the command lines of all processes that contain this text.
fn command_lines_with(text: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(text)).collect()
}

#[test]
fn uses_a_password_without_passing_it_as_an_argument() {
    let place = FetchSandbox::new();
    let dir = place.dir.path().join("upstream");
    let commit = repository(&dir, &[("main.c", "int x;")]);
    let leaks = std::sync::Arc::new(Mutex::new((0, Vec::new())));
    let found = leaks.clone();
    let server = TestServer::start(move |seen| {
        let mut found = found.lock().unwrap();
        let port = seen.header("host").unwrap().to_owned();
        found.0 += command_lines_with(&format!("remote-http http://{port}")).len();
        found.1.extend(command_lines_with("s3cr:et"));
        found.1.extend(command_lines_with("s3cr%3Aet"));
        // builder:s3cr:et
        match seen.header("authorization") {
            Some("Basic YnVpbGRlcjpzM2NyOmV0") => dumb(&dir, seen),
            _ => Reply::status(401).header("WWW-Authenticate", "Basic realm=\"x\""),
        }
    });
    let url = server.url("/r").replace("http://", "http://builder:s3cr%3Aet@");
    let resolved = place.fetcher().resolve(&git_pin(&url, None)).unwrap();
    assert_eq!(resolved, Resolved::Commit { commit: commit.clone(), tag: Some("v1".into()) });
    place.fetcher().obtain(&git_pin(&url, Some(&commit))).unwrap();
    let (requests_seen, leaked) = &*leaks.lock().unwrap();
    assert!(leaked.is_empty(), "{leaked:?}");
    assert!(*requests_seen > 0, "no process of git was seen");
    assert!(server.seen().iter().any(|seen| seen.header("authorization").is_some()));
}

#[test]
fn does_not_send_a_password_to_another_server() {
    let place = FetchSandbox::new();
    let asks = |_: &_| Reply::status(401).header("WWW-Authenticate", "Basic realm=\"x\"");
    let other = TestServer::start(asks);
    let target = other.url("/r/info/refs?service=git-upload-pack");
    let server = TestServer::start(move |_| Reply::status(302).header("Location", target.clone()));
    let url = server.url("/r").replace("http://", "http://builder:s3cret@");
    let error = place.fetcher().resolve(&git_pin(&url, None)).unwrap_err().to_string();
    assert!(!error.contains("s3cret"), "{error}");
    assert!(!other.seen().is_empty(), "the redirection was not followed");
    assert!(other.seen().iter().all(|seen| seen.header("authorization").is_none()));
}

#[test]
fn same_commit_gives_same_archive() {
    let place = FetchSandbox::new();
    let dir = place.dir.path().join("upstream");
    let attributes = "ver.txt export-subst\nhidden.txt export-ignore\n";
    let files =
        [("ver.txt", "$Format:%cr %G?$"), ("hidden.txt", "x"), (".gitattributes", attributes)];
    let commit = repository(&dir, &files);
    let archive = |name: &str| {
        let (fetcher, to) = (place.fetcher(), place.dir.path().join(name));
        let repository = fetcher.repository("upstream");
        repository.obtain(&commit, false, || ()).unwrap();
        repository.archive(&commit, "demo-1", &[], &to).unwrap();
        fs::read(to).unwrap()
    };
    let first = archive("first.tar");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert!(first == archive("second.tar"), "the bytes differ");
    let mut archive = tar::Archive::new(&first[..]);
    let mut texts = std::collections::BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let (mut entry, mut text) = (entry.unwrap(), String::new());
        entry.read_to_string(&mut text).unwrap();
        texts.insert(entry.path().unwrap().display().to_string(), text);
    }
    assert_eq!(texts["demo-1/ver.txt"], files[0].1);
    assert_eq!(texts["demo-1/hidden.txt"], "x");
}

#[test]
fn rejects_a_tree_that_leads_out() {
    let place = FetchSandbox::new();
    let dir = place.dir.path().join("upstream");
    repository(&dir, &[("main.c", "int x;")]);
    let inner = git(&dir, &["rev-parse", "HEAD^{tree}"], b"");
    let id: Vec<u8> =
        (0..40).step_by(2).map(|at| u8::from_str_radix(&inner[at..at + 2], 16).unwrap()).collect();
    let tree = [&b"40000 ..\0"[..], &id].concat();
    let write = ["hash-object", "-t", "tree", "-w", "--literally", "--stdin"];
    let tree = git(&dir, &write, &tree);
    let commit = git(&dir, &["commit-tree", "-m", "x", &tree], b"");
    git(&dir, &["update-ref", "refs/heads/bad", &commit], b"");
    let fetcher = place.fetcher();
    let error =
        fetcher.repository("upstream").obtain(&commit, false, || ()).unwrap_err().to_string();
    assert!(error.contains("hasDotdot"), "{error}");
}
