//! Tests packing commits with submodules, and folders of commits, from real repositories.

use super::*;
use crate::git::testing::git;
use crate::workspace::LockEntry;
use crate::workspace::pin::Evidence;

/// A folder with the repositories of one upstream.
struct Upstream<'a>(&'a Path);

impl Upstream<'_> {
    fn git(&self, name: &str, args: &[&str], stdin: &str) -> String {
        git(&self.0.join(name)).args(args).stdin(stdin).text().unwrap()
    }

    /// Commits exactly these files and submodules to a repository.
    fn commit(&self, name: &str, files: &[(&str, &str)], links: &[(&str, &str)]) -> String {
        let dir = self.0.join(name);
        if !dir.exists() {
            fs::create_dir_all(&dir).unwrap();
            self.git(name, &["init", "--quiet", "--initial-branch", "main"], "");
        }
        self.git(name, &["read-tree", "--empty"], "");
        for (path, text) in files {
            let blob = self.git(name, &["hash-object", "-w", "--stdin"], text);
            self.git(
                name,
                &["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{path}")],
                "",
            );
        }
        for (path, commit) in links {
            self.git(
                name,
                &["update-index", "--add", "--cacheinfo", &format!("160000,{commit},{path}")],
                "",
            );
        }
        let tree = self.git(name, &["write-tree"], "");
        self.commit_tree(name, &tree)
    }

    fn commit_tree(&self, name: &str, tree: &str) -> String {
        let commit = self.git(name, &["commit-tree", "-m", "x", tree], "");
        let branch = format!("refs/heads/b{}", &commit[..12]);
        self.git(name, &["update-ref", &branch, &commit], "");
        self.git(name, &["update-server-info"], "");
        commit
    }

    /// Creates a superproject with two levels of submodules and returns its commit.
    fn nested(&self) -> String {
        let leaf = self.commit("leaf", &[("leaf.h", "leaf"), ("d/deep.h", "deep")], &[]);
        let mid_modules = "[submodule \"a.b\"]\n\tpath = ext/leaf\n\turl = ../leaf\n";
        let mid = self.commit(
            "mid",
            &[("mid.h", "mid"), (".gitmodules", mid_modules)],
            &[("ext/leaf", &leaf)],
        );
        let top_modules = "[submodule \"third_party/mid\"]\n\tpath = third_party/mid\n\turl = ../mid/\n\
                           [submodule \"unused\"]\n\tpath = unused\n\turl = ../nowhere\n\tupdate = none\n\
                           [submodule \"gone\"]\n\tpath = gone\n\turl = ext::sh\n\
                           [include]\n\tpath = /etc/passwd\n";
        self.commit(
            "top",
            &[("main.c", "main"), ("third_party/x.h", "x"), (".gitmodules", top_modules)],
            &[("third_party/mid", &mid), ("unused", &leaf)],
        )
    }
}

fn git_pin(url: &str, commit: &str, submodules: bool, paths: &[&str]) -> Pin {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    pin("1", Source::Git { url: url.into(), commit: Some(commit.into()), submodules, paths })
}

fn files_in(fetched: &Fetched) -> Vec<String> {
    let file = fs::File::open(&fetched.path).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let entries = archive.entries().unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.header().entry_type().is_file());
    files.map(|entry| entry.path().unwrap().display().to_string()).collect()
}

const NESTED: [&str; 7] = [
    "demo-1/.gitmodules",
    "demo-1/main.c",
    "demo-1/third_party/x.h",
    "demo-1/third_party/mid/.gitmodules",
    "demo-1/third_party/mid/mid.h",
    "demo-1/third_party/mid/ext/leaf/d/deep.h",
    "demo-1/third_party/mid/ext/leaf/leaf.h",
];

#[test]
fn packs_submodules_recursively_and_reproducibly() {
    let (place, other) = (FetchSandbox::new(), FetchSandbox::new());
    let root = place.dir.path().join("upstream");
    let commit = Upstream(&root).nested();
    assert_eq!(Upstream(&other.dir.path().join("elsewhere")).nested(), commit);
    let pin = git_pin("upstream/top", &commit, true, &[]);
    let fetched = place.fetcher().obtain(&pin).unwrap();
    assert_eq!(files_in(&fetched), NESTED);
    assert_eq!(fetched.top_folder, Some(source_dir(&pin)));
    // Use git's own protocol instead of a path, as on another machine.
    let url = format!("file://{}/elsewhere/top", other.dir.path().display());
    let again = other.fetcher().obtain(&git_pin(&url, &commit, true, &[])).unwrap();
    assert_eq!(again.sha256, fetched.sha256);

    fs::remove_dir_all(&root).unwrap();
    let facts = place.fetcher().offline(true).facts(&pin).unwrap();
    let submodules = facts.submodules.unwrap();
    let paths: Vec<_> = submodules.keys().collect();
    assert_eq!(paths, ["third_party/mid", "third_party/mid/ext/leaf"]);
    // The repositories are cached, so packing again needs no network.
    let part = git_pin("upstream/top", &commit, true, &["third_party/x.h"]);
    assert_eq!(files_in(&place.fetcher().offline(true).obtain(&part).unwrap()), [NESTED[2]]);
    let mut unpacked = place.fetcher().tree(&pin).unwrap();
    unpacked.dir.push("third_party/mid/ext");
    assert_eq!(unpacked.text("leaf/leaf.h").unwrap().as_deref(), Some("leaf"));
}

#[test]
fn fetches_submodules_from_the_superprojects_server() {
    let place = FetchSandbox::new();
    let root = place.dir.path().join("upstream");
    let commit = Upstream(&root).nested();
    // git's dumb protocol.
    let server = TestServer::start(move |seen| {
        let path = seen.path.split('?').next().unwrap_or_default().trim_start_matches('/');
        let (repository, file) = path.split_once('/').unwrap_or_default();
        match fs::read(root.join(repository).join(".git").join(file)) {
            Ok(bytes) => Reply::file(bytes),
            Err(_) => Reply::status(404),
        }
    });
    let pin = git_pin(&server.url("/top"), &commit, true, &[]);
    assert_eq!(files_in(&place.fetcher().obtain(&pin).unwrap()), NESTED);
}

#[test]
fn packs_only_selected_folders_of_a_commit() {
    let place = FetchSandbox::new();
    let commit = Upstream(&place.dir.path().join("upstream")).nested();
    let obtain = |submodules, paths: &[&str]| {
        place.fetcher().obtain(&git_pin("upstream/top", &commit, submodules, paths))
    };
    assert_eq!(files_in(&obtain(false, &["third_party"]).unwrap()), [NESTED[2]]);
    assert_eq!(files_in(&obtain(false, &["third_party/"]).unwrap()), [NESTED[2]]);
    assert_eq!(files_in(&obtain(true, &["third_party"]).unwrap()), NESTED[2..]);
    assert_eq!(
        files_in(&obtain(true, &["main.c", "third_party/mid/ext/leaf/d"]).unwrap()),
        [NESTED[1], NESTED[5]]
    );
    for (submodules, path, folder) in [
        (
            false,
            "python/triton_kernels",
            "its top folder has `.gitmodules`, `main.c`, `third_party`, `unused`",
        ),
        (false, "third_party/y", "`third_party` has `mid`, `x.h`"),
        (false, "third_party/mid/ext", "`third_party` has `mid`, `x.h`"),
        (false, "main.c/x", "its top folder has"),
        (false, ":(exclude)main.c", "its top folder has"),
        (false, "--output=x", "its top folder has"),
    ] {
        let error = obtain(submodules, &[path]).unwrap_err();
        let text = format!("commit {commit} of upstream/top has no `{path}`");
        assert_eq!((error.to_string(), error.kind()), (text, Kind::Config));
        assert!(error.help()[0].starts_with(folder), "{:?}", error.help());
    }
    // The error names the submodule.
    let error = obtain(true, &["third_party/mid/none"]).unwrap_err();
    assert!(
        error.to_string().starts_with("cannot fetch the submodule `third_party/mid`: commit "),
        "{error}"
    );
    assert_eq!(error.help(), ["its top folder has `.gitmodules`, `ext`, `mid.h`"]);
}

#[test]
fn reports_a_missing_submodule() {
    let place = FetchSandbox::new();
    let upstream = place.dir.path().join("upstream");
    let upstream = Upstream(&upstream);
    upstream.commit("sub", &[("x", "x")], &[]);
    let none = "1".repeat(40);
    for (url, kind, cause) in
        [("../sub", Kind::Config, "has no commit"), ("../gone", Kind::Network, "cannot fetch")]
    {
        let modules = format!("[submodule \"s\"]\n\tpath = s\n\turl = {url}\n");
        let commit = upstream.commit("top", &[(".gitmodules", &modules)], &[("s", &none)]);
        let error =
            place.fetcher().obtain(&git_pin("upstream/top", &commit, true, &[])).unwrap_err();
        let place = place.dir.path().display();
        let text = format!(
            "cannot fetch the submodule `s`: commit {none} of {place}/upstream/{}",
            &url[3..]
        );
        assert_eq!((error.to_string(), error.kind()), (text, kind));
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains(cause), "{source}");
    }
}

#[test]
fn rejects_a_hostile_gitmodules() {
    let place = FetchSandbox::new();
    let folder = place.dir.path().join("upstream");
    let upstream = Upstream(&folder);
    let sub = upstream.commit("sub", &[("x", "x")], &[]);
    let marker = place.dir.path().join("pwned");
    let refused = |commit: &str, reason: &str| {
        let error =
            place.fetcher().obtain(&git_pin("upstream/top", commit, true, &[])).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, SourceError::BadSubmodule { .. }), "{text}");
        assert_eq!(error.kind(), Kind::Config);
        assert!(text.contains(commit) && text.contains("upstream/top is refused: "), "{text}");
        assert!(text.contains(reason), "{text}");
        assert!(!marker.exists());
    };
    for (url, reason) in [
        (format!("-u./{}", marker.display()), "is not a URL"),
        (format!("\"--upload-pack=touch {}\"", marker.display()), "is not a URL"),
        (format!("\"ext::touch {}\"", marker.display()), "runs the program git-remote-ext"),
        ("ssh://-oProxyCommand=x/y".into(), "a program's option"),
        ("sub".into(), "a location on this machine"),
    ] {
        let modules = format!("[submodule \"s\"]\n\tpath = s\n\turl = {url}\n");
        refused(&upstream.commit("top", &[(".gitmodules", &modules)], &[("s", &sub)]), reason);
    }
    refused(
        &upstream.commit("top", &[("a", "")], &[("s", &sub)]),
        "`.gitmodules` does not name it",
    );
    let broken = "[submodule \"s\"\n\tpath\n";
    refused(
        &upstream.commit("top", &[(".gitmodules", broken)], &[("s", &sub)]),
        "bad config line 2",
    );
    let modules = "[submodule \"s\"]\n\tpath = s\n";
    refused(&upstream.commit("top", &[(".gitmodules", modules)], &[("s", &sub)]), "has no URL");

    // git itself never creates such trees.
    let blob = upstream.git("top", &["hash-object", "-w", "--stdin"], "../outside");
    let link = format!("120000 blob {blob}\t.gitmodules\n160000 commit {sub}\ts\n");
    let tree = upstream.git("top", &["mktree", "--missing"], &link);
    refused(&upstream.commit_tree("top", &tree), "`.gitmodules` does not name it");
    let modules = "[submodule \"s\"]\n\tpath = a/..\n\turl = ../sub\n";
    let blob = upstream.git("top", &["hash-object", "-w", "--stdin"], modules);
    let inner =
        upstream.git("top", &["mktree", "--missing"], &format!("160000 commit {sub}\t..\n"));
    let outer = format!("100644 blob {blob}\t.gitmodules\n040000 tree {inner}\ta\n");
    let tree = upstream.git("top", &["mktree"], &outer);
    let commit = upstream.commit_tree("top", &tree);
    let error = place
        .fetcher()
        .obtain(&git_pin("upstream/top", &commit, true, &[]))
        .unwrap_err()
        .to_string();
    assert!(error.contains("hasDotdot") && !marker.exists(), "{error}");
}

#[test]
fn rejects_a_repository_that_contains_itself() {
    let place = FetchSandbox::new();
    let folder = place.dir.path().join("upstream");
    let upstream = Upstream(&folder);
    let modules = "[submodule \"s\"]\n\tpath = s\n\turl = ../top\n";
    let mut commit = upstream.commit("top", &[("x", "x")], &[]);
    for _ in 0..18 {
        commit = upstream.commit("top", &[(".gitmodules", modules)], &[("s", &commit)]);
    }
    let error = place.fetcher().obtain(&git_pin("upstream/top", &commit, true, &[])).unwrap_err();
    assert!(error.to_string().ends_with("more than 16 deep"), "{error}");
}

#[test]
fn verifies_a_commit_against_the_lock() {
    let place = FetchSandbox::new();
    let commit = Upstream(&place.dir.path().join("upstream")).nested();
    let pin = git_pin("upstream/top", &commit, true, &[]);
    let fetched = place.fetcher().obtain(&pin).unwrap();
    let facts = place.fetcher().facts(&pin).unwrap();
    let entry = LockEntry {
        commit: Some(commit.clone()),
        tree: Some(facts.tree.clone()),
        submodules: facts.submodules.clone(),
        ..LockEntry::default()
    };
    let with = |change: &dyn Fn(&mut LockEntry)| {
        let mut entry = entry.clone();
        change(&mut entry);
        place.fetcher().obtain(&Pin { evidence: Evidence(Some(Box::new(entry))), ..pin.clone() })
    };
    assert_eq!(with(&|_| ()).unwrap(), fetched);
    // These fail even though the same archive was packed before.
    let wrong = "2".repeat(40);
    let mid = "third_party/mid".to_owned();
    type Lie<'a> = (&'a dyn Fn(&mut LockEntry), &'a str);
    let wrong_entries: [Lie<'_>; 4] = [
        (&|entry| entry.tree = Some(wrong.clone()), "for the commit's tree"),
        (
            &|entry| drop(entry.submodules.as_mut().unwrap().insert(mid.clone(), wrong.clone())),
            "`third_party/mid`",
        ),
        (
            &|entry| drop(entry.submodules.as_mut().unwrap().remove(&mid)),
            "it has no submodule there",
        ),
        (
            &|entry| drop(entry.submodules.as_mut().unwrap().insert("q".into(), wrong.clone())),
            "which is no submodule",
        ),
    ];
    for (lie, named) in wrong_entries {
        let error = with(lie).unwrap_err();
        assert!(error.to_string().contains(named), "{error}");
        assert_eq!(error.kind(), Kind::Config);
        assert!(matches!(error, SourceError::LockDiffers { .. }));
    }
}

#[test]
fn archives_do_not_depend_on_other_fetched_objects() {
    let (place, other) = (FetchSandbox::new(), FetchSandbox::new());
    let files = [
        (".gitattributes", "names export-subst\n"),
        ("names", "$Format:%D$ $Format:%(describe:tags=true)$\n"),
    ];
    let commit = |place: &FetchSandbox| {
        let folder = place.dir.path().join("upstream");
        let commit = Upstream(&folder).commit("r", &files, &[]);
        Upstream(&folder).git("r", &["tag", "--force", "v1", &commit], "");
        commit
    };
    let pin = git_pin("upstream/r", &commit(&place), false, &[]);
    assert_eq!(commit(&other), commit(&place));
    let shallow = place.fetcher().obtain(&pin).unwrap();
    // Fetching a nonexistent commit fetches all branches and tags.
    other.fetcher().obtain(&git_pin("upstream/r", &"1".repeat(40), false, &[])).unwrap_err();
    assert_eq!(other.fetcher().obtain(&pin).unwrap().sha256, shallow.sha256);
    let tree = place.fetcher().tree(&pin).unwrap();
    assert_eq!(tree.text("names").unwrap().as_deref(), Some(files[1].1));
}

#[test]
fn limits_the_number_of_submodules() {
    let place = FetchSandbox::new();
    let folder = place.dir.path().join("upstream");
    let upstream = Upstream(&folder);
    // Three submodules per level: 3 + 9 + 27 + 81 + 243 + 729.
    let mut commit = upstream.commit("top", &[("x", "x")], &[]);
    let module = |name: &str| format!("[submodule \"{name}\"]\n\tpath = {name}\n\turl = ../top\n");
    let modules: String = ["a", "b", "c"].map(module).concat();
    for _ in 0..6 {
        let links = ["a", "b", "c"].map(|name| (name, commit.as_str()));
        commit = upstream.commit("top", &[(".gitmodules", &modules)], &links);
    }
    let error = place.fetcher().obtain(&git_pin("upstream/top", &commit, true, &[])).unwrap_err();
    assert!(error.to_string().ends_with("there are more than 500 submodules"), "{error}");
}

#[test]
fn ignores_redundant_slashes_in_paths() {
    let place = FetchSandbox::new();
    let upstream = Upstream(place.dir.path());
    let commit = upstream.commit("up", &[("a/b/c", "c"), ("d", "d")], &[]);
    for path in ["a//b", "a/b/", "/a/b"] {
        let url = format!("file://{}", place.dir.path().join("up").display());
        let source = Source::Git {
            url,
            commit: Some(commit.clone()),
            submodules: false,
            paths: vec![path.into()],
        };
        place.fetcher().facts(&pin("1", source)).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}
