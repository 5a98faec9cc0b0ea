//! `rocmrpm lock`: what it records for every kind of source, what it rejects, and what it keeps.

mod crates;

use std::path::PathBuf;

use crate::support;
use crate::support::server::{Reply, TestServer};
use crate::support::{Index, Ran, Workspace};
use rocmrpm::digest::Sha256;

const SPEC: &str = "Name: <{ name }>
Version: <{ version }>
Release: <{ release }>
Summary: A test
License: MIT
<{ source_lines }>
BuildArch: noarch

%description
A test.

%prep
%autosetup -n <{ source_dir }>

%files

%changelog
<{ changelog }>
";

/// Returns a workspace with these pins, and a component for each.
fn lab_with(pins: &str) -> Workspace {
    let workspace = Workspace::init();
    set_pins(&workspace, pins);
    workspace
}

fn set_pins(workspace: &Workspace, pins: &str) {
    workspace.write("pins/stable.toml", pins);
    for line in pins.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']'))
            && !name.contains('.')
        {
            workspace.write(format!("specs-templates/{name}/component.toml"), "");
            workspace.write(format!("specs-templates/{name}/{name}.spec.tera"), SPEC);
        }
    }
}

/// A repository of a workspace, in which the test commits.
struct Repository<'a> {
    workspace: &'a Workspace,
    dir: PathBuf,
}

impl<'a> Repository<'a> {
    fn new(workspace: &'a Workspace, name: &str) -> Self {
        let dir = workspace.holder().join(name);
        fs_err::create_dir(&dir).unwrap();
        let repository = Self { workspace, dir };
        repository.git(&["init", "--quiet", "--initial-branch", "main"]);
        repository
    }

    fn git(&self, args: &[&str]) -> String {
        self.workspace.git_in(&self.dir, args).trim().to_owned()
    }

    /// Commits these files, and submodules by path and commit, in addition to existing ones.
    fn commit(&self, files: &[(&str, &str)], links: &[(&str, &str)]) -> String {
        for (path, text) in files {
            let path = self.dir.join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
            self.git(&["add", "--all"]);
        }
        for (path, commit) in links {
            self.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},{path}")]);
        }
        self.git(&["commit", "--quiet", "--message", "x"]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn tree(&self) -> String {
        self.git(&["rev-parse", "HEAD^{tree}"])
    }

    fn url(&self) -> String {
        format!("file://{}", self.dir.display())
    }
}

/// Deletes the cache, as on a new machine.
fn forget(workspace: &Workspace) {
    fs_err::remove_dir_all(workspace.holder().join("cache")).unwrap();
}

fn lock_text(workspace: &Workspace) -> String {
    workspace.read("pins/stable.lock")
}

#[test]
fn records_every_kind_of_source() {
    let workspace = Workspace::init();
    let (sub, top) = (Repository::new(&workspace, "sub"), Repository::new(&workspace, "top"));
    let sub_commit = sub.commit(&[("s/x", "x"), ("t", "t")], &[]);
    let modules = "[submodule \"s\"]\n\tpath = ext/sub\n\turl = ../sub\n";
    let commit = top.commit(&[("a/x", "x"), (".gitmodules", modules)], &[("ext/sub", &sub_commit)]);
    top.git(&["tag", "v2.0"]);
    let archive = support::sdist("file", "1.0");
    fs_err::write(workspace.holder().join("file-1.0.tar.gz"), &archive).unwrap();
    let index = Index::with_hello("1.0");
    let hello = support::sdist("hello", "1.0");
    workspace.write("src/own/a.txt", "a\n");
    let (dir, url) = (workspace.holder().display(), top.url());
    set_pins(
        &workspace,
        &format!(
            "[own]\nversion = \"1\"\npath = \"src/own\"\n\n\
             [hello]\nversion = \"1.0\"\nsdist = \"hello\"\n\n\
             [file]\nversion = \"1.0\"\nurl = \"file://{dir}/file-{{version}}.tar.gz\"\nsha256 = \"{}\"\n\n\
             [file.sources.folder]\nversion = \"2.0\"\ngit = \"{url}\"\npaths = [\"a\"]\n\n\
             [tree]\nversion = \"3\"\ngit = \"{url}\"\ncommit = \"{commit}\"\nsubmodules = true\n",
            Sha256::of_bytes(&archive)
        ),
    );
    let ran = workspace.run_with_index(&index, &["lock", "--json"]);
    ran.exits(0).reports([
        "Resolved (1/4) ",
        "Resolved (2/4) ",
        "Resolved (3/4) ",
        "Resolved (4/4) ",
    ]);
    for source in ["hello 1.0", "file 1.0", "file-folder 2.0", "tree 3"] {
        let shown = ran.stderr.lines().filter(|line| line.contains(&format!(") {source} in ")));
        assert_eq!(shown.count(), 1, "{source}\n{}", ran.stderr);
    }
    let expected = format!(
        "# Written by `rocmrpm lock`. Review its changes; do not edit it.\n\n\
         [file]\nversion = \"1.0\"\norigin = \"file://{dir}/file-1.0.tar.gz\"\nsha256 = \"{}\"\nsize = {}\n\n\
         [file.sources.folder]\nversion = \"2.0\"\norigin = \"{url}\"\npaths = [\"a\"]\n\
         commit = \"{commit}\"\ntree = \"{tree}\"\n\n\
         [hello]\nversion = \"1.0\"\norigin = \"hello\"\nsha256 = \"{}\"\nsize = {}\n\n\
         [tree]\nversion = \"3\"\norigin = \"{url}\"\ncommit = \"{commit}\"\ntree = \"{tree}\"\n\n\
         [tree.submodules]\n\"ext/sub\" = \"{sub_commit}\"\n",
        Sha256::of_bytes(&archive),
        archive.len(),
        Sha256::of_bytes(&hello),
        hello.len(),
        tree = top.tree(),
    );
    similar_asserts::assert_eq!(lock_text(&workspace), expected);
    let document = ran.document("rocmrpm/lock/1");
    assert_eq!(document["file"], "pins/stable.lock");
    assert_eq!((&document["differs"], &document["written"]), (&true.into(), &true.into()));
    assert_eq!(document["unseen"], serde_json::json!([]));
    let sources = document["sources"].as_array().unwrap();
    assert_eq!(sources.len(), 4);
    assert_eq!(sources[1]["source"], "folder");
    assert_eq!(sources[3]["submodules"]["ext/sub"], sub_commit.as_str());

    // Nothing changes by itself, and a build needs only the lock and the cache.
    workspace
        .run_with_index(&index, &["lock", "--check"])
        .exits(0)
        .reports(["Checked pins/stable.lock: 4 sources"]);
    workspace.run(&["lock", "--check", "--offline"]).exits(0);
    assert_eq!(lock_text(&workspace), expected);
    workspace.run(&["build", "--until", "sources", "--offline"]).exits(0);

    // A fresh clone with an empty cache, without network.
    forget(&workspace);
    workspace.run(&["lock", "--check", "--offline"]).exits(0);
    workspace
        .run(&["lock", "--offline"])
        .exits(0)
        .reports(["Recorded (4/4) ", "Unchanged pins/stable.lock: 4 sources"]);
    assert_eq!(lock_text(&workspace), expected);
    workspace.run_with_index(&index, &["build", "--until", "sources"]).exits(0);
}

#[test]
fn check_shows_the_difference_and_writes_nothing() {
    let workspace = Workspace::init();
    let git = Repository::new(&workspace, "up");
    let one = git.commit(&[("x", "1")], &[]);
    let two = git.commit(&[("x", "2")], &[]);
    let pins = |commit: &str| {
        format!("[a]\nversion = \"1\"\ngit = \"{}\"\ncommit = \"{commit}\"\n", git.url())
    };
    set_pins(&workspace, &pins(&one));
    workspace.run(&["lock", "--check"]).exits(1).prints(["+[a]", &format!("+commit = \"{one}\"")]);
    assert!(!workspace.path("pins/stable.lock").exists());
    workspace.run(&["lock"]).exits(0).reports(["Locked pins/stable.lock: 1 source"]);
    let before = lock_text(&workspace);

    set_pins(&workspace, &pins(&two));
    for offline in [false, true] {
        let args: &[&str] =
            if offline { &["lock", "--check", "--offline"] } else { &["lock", "--check"] };
        if offline {
            forget(&workspace);
        }
        workspace
            .run(args)
            .exits(1)
            .prints([
                "--- pins/stable.lock",
                &format!("-commit = \"{one}\""),
                &format!("+commit = \"{two}\""),
            ])
            .reports([
                "Differs pins/stable.lock: 1 source",
                "help: run `rocmrpm lock` to update it",
            ]);
    }
    let document =
        workspace.run(&["lock", "--check", "--json"]).exits(1).document("rocmrpm/lock/1");
    assert_eq!((&document["differs"], &document["written"]), (&true.into(), &false.into()));
    assert_eq!(lock_text(&workspace), before);
    workspace.run(&["lock"]).exits(0);
    assert_eq!(
        lock_text(&workspace),
        before
            .replace(&one, &two)
            .replace(&git.git(&["rev-parse", &format!("{one}^{{tree}}")]), &git.tree())
    );
    // A removed pin is also removed from the lock.
    set_pins(&workspace, "");
    fs_err::remove_dir_all(workspace.path("specs-templates/a")).unwrap();
    workspace.run(&["lock", "--check", "--offline"]).exits(1).prints(["-[a]"]);
}

#[test]
fn reports_all_pins_that_cannot_be_locked() {
    let workspace = Workspace::init();
    let git = Repository::new(&workspace, "up");
    git.commit(&[("x", "1")], &[]);
    git.git(&["tag", "v1.1"]);
    let body = support::sdist("f", "1");
    let (served, digest) = (body.clone(), Sha256::of_bytes(&body));
    let server = TestServer::start(move |seen| match seen.path.as_str() {
        "/other.tar.gz" => Reply::file(served.clone()),
        _ => Reply::status(404),
    });
    let wrong = Sha256::of_bytes("wrong");
    let index = Index::with_hello("1.0");
    let pins = format!(
        "[fine]\nversion = \"1.1\"\ngit = \"{git}\"\n\n\
         [gone]\nversion = \"1\"\nurl = \"{}\"\nsha256 = \"{digest}\"\n\n\
         [hello]\nversion = \"1.1\"\nsdist = \"hello\"\n\n\
         [other]\nversion = \"1\"\nurl = \"{}\"\nsha256 = \"{wrong}\"\n\n\
         [tagless]\nversion = \"1.0\"\ngit = \"{git}\"\n\n\
         [tagless.sources.more]\ngit = \"{git}\"\ncommit = \"{none}\"\n",
        server.url("/gone-1.tar.gz"),
        server.url("/other.tar.gz"),
        git = git.url(),
        none = "1".repeat(40),
    );
    set_pins(&workspace, &pins);
    let refused = |ran: Ran| {
        ran.exits(30).reports([
            "error: cannot lock 5 of 6 sources; nothing was written",
            "gone: cannot fetch http://127.0.0.1:",
            "404",
            "hello: the index file://",
            "has no sdist of `hello` 1.1",
            "help: hello: the nearest are 1.0",
            "other: the digest of `other.tar.gz`",
            &wrong.to_string(),
            &digest.to_string(),
            "tagless: the git repository file://[HOLDER]/up has no tag for version 1.0; tried v1.0, ",
            "help: tagless: the nearest are v1.1",
            &format!(
                "tagless.sources.more: the git repository file://[HOLDER]/up has no commit {}",
                "1".repeat(40)
            ),
        ]);
    };
    refused(workspace.run_with_index(&index, &["lock"]));
    assert!(!workspace.path("pins/stable.lock").exists());
    workspace.write("pins/stable.lock", "# mine\n");
    refused(workspace.run_with_index(&index, &["lock", "--check"]));
    refused(workspace.run_with_index(&index, &["lock"]));
    assert_eq!(lock_text(&workspace), "# mine\n");
}

#[test]
fn rejects_moved_upstream_sources_until_accepted() {
    let workspace = Workspace::init();
    let git = Repository::new(&workspace, "up");
    let one = git.commit(&[("x", "1")], &[]);
    git.git(&["tag", "v1"]);
    let file = workspace.holder().join("f-1.tar.gz");
    let (first, second) = (support::sdist("f", "1"), support::sdist("f", "2"));
    fs_err::write(&file, &first).unwrap();
    let pins = format!(
        "[f]\nversion = \"1\"\nurl = \"file://{}\"\n\n[g]\nversion = \"1\"\ngit = \"{}\"\n",
        file.display(),
        git.url()
    );
    set_pins(&workspace, &pins);
    workspace.run(&["lock"]).exits(0);
    let before = lock_text(&workspace);
    assert!(before.contains(&one));

    let two = git.commit(&[("x", "2")], &[]);
    git.git(&["tag", "--force", "v1"]);
    fs_err::write(&file, &second).unwrap();
    workspace.run(&["lock"]).exits(3).reports([
        "error: cannot lock 2 of 2 sources",
        &format!(
            "g: the tag `v1` of file://[HOLDER]/up has changed since it was locked: expected commit \
             {one}, found commit {two}"
        ),
        &format!("expected sha256 {}, found sha256 {}", Sha256::of_bytes(&first), Sha256::of_bytes(&second)),
        "help: g: to accept it, remove the table `[g]` from the lock file and run `rocmrpm lock` again",
    ]);
    assert_eq!(lock_text(&workspace), before);
    // A build still uses the locked sources.
    workspace.run(&["build", "--until", "sources"]).exits(0);

    let first_table = before.find("\n[g]").unwrap();
    workspace.write(
        "pins/stable.lock",
        before[..first_table]
            .replace(&Sha256::of_bytes(&first).to_string(), &Sha256::of_bytes(&second).to_string()),
    );
    workspace.run(&["lock"]).exits(0);
    assert!(lock_text(&workspace).contains(&two));
    // A commit in the pin is used without looking up the tag.
    set_pins(
        &workspace,
        &format!("[g]\nversion = \"1\"\ngit = \"{}\"\ncommit = \"{one}\"\n", git.url()),
    );
    fs_err::remove_dir_all(workspace.path("specs-templates/f")).unwrap();
    workspace.run(&["lock"]).exits(0);
    assert!(lock_text(&workspace).contains(&one));
}

#[test]
fn offline_lock_records_only_commits_and_warns() {
    let workspace = Workspace::init();
    let git = Repository::new(&workspace, "up");
    let commit = git.commit(&[("x", "1")], &[]);
    git.git(&["tag", "v1"]);
    let url = git.url();
    let pins = format!(
        "[a]\nversion = \"1\"\ngit = \"{url}\"\ncommit = \"{commit}\"\nsubmodules = true\n\n\
         [a.sources.crates]\ncargo-vendor = \"Cargo.lock\"\n\n\
         [b]\nversion = \"1\"\nsdist = \"b\"\nsha256 = \"{}\"\n",
        Sha256::of_bytes("b")
    );
    set_pins(&workspace, &pins);
    workspace.run(&["lock", "--offline"]).exits(0).reports([
        "warning: 3 sources not in the cache, recorded only by digest or commit: a, a.sources.crates, b",
        "Locked pins/stable.lock: 3 sources",
    ]);
    let text = lock_text(&workspace);
    assert!(
        text.contains(&commit)
            && text.contains("[a.sources.crates]\nversion = \"1\"\norigin = \"Cargo.lock\"\n")
    );
    assert!(
        !text.contains("tree") && !text.contains("size") && !text.contains("submodules"),
        "{text}"
    );
    let document = workspace
        .run(&["lock", "--check", "--offline", "--json"])
        .exits(0)
        .document("rocmrpm/lock/1");
    assert_eq!(document["unseen"], serde_json::json!(["a", "a.sources.crates", "b"]));

    // Values that become known later are added; the others are kept.
    set_pins(
        &workspace,
        &format!(
            "[a]\nversion = \"1\"\ngit = \"{url}\"\ncommit = \"{commit}\"\nsubmodules = true\n"
        ),
    );
    fs_err::remove_dir_all(workspace.path("specs-templates/b")).unwrap();
    workspace.run(&["lock", "--check"]).exits(1).reports(["help: run `rocmrpm lock` to update it"]);
    workspace.write("pins/stable.lock", &text[..text.find("\n[a.sources.crates]").unwrap()]);
    workspace.run(&["lock", "--check"]).exits(1).prints(["+tree = "]).reports([
        "help: run `rocmrpm lock` to complete the entries of a, which were unreachable when locked",
    ]);
    workspace.run(&["lock"]).exits(0);
    let whole = lock_text(&workspace);
    assert!(whole.contains(&git.tree()) && whole.ends_with("\n[a.submodules]\n"), "{whole}");
    forget(&workspace);
    workspace.run(&["lock", "--offline"]).exits(0).reports(["Unchanged"]);
    assert_eq!(lock_text(&workspace), whole);
    // Without its submodules, it is another source, whose tree is still known.
    let pins = workspace.read("pins/stable.toml");
    set_pins(&workspace, &pins.replace("submodules = true\n", ""));
    workspace.run(&["lock", "--check", "--offline"]).exits(1).prints(["-[a.submodules]"]);

    // A pin without a commit can neither be locked offline nor be built.
    set_pins(
        &workspace,
        &format!(
            "[a]\nversion = \"1\"\ngit = \"{url}\"\n\n[c]\nversion = \"1\"\ngit = \"{url}\"\n"
        ),
    );
    let ran = workspace.run(&["lock", "--offline"]);
    ran.exits(30);
    ran.reports([
        "cannot lock 1 of 2 sources",
        "c: the tag of c 1 is not in the cache",
        "run the same command once without `--offline`",
    ]);
    assert_eq!(lock_text(&workspace), whole);
    let ran = workspace.run(&["build", "--until", "sources", "c"]);
    ran.exits(3);
    ran.reports(["the pin of `c` 1 has no commit", "help: run `rocmrpm lock`"]);
}

#[test]
fn build_rejects_wrong_values_in_the_lock() {
    let workspace = Workspace::init();
    let (sub, git) = (Repository::new(&workspace, "sub"), Repository::new(&workspace, "up"));
    let inner = sub.commit(&[("x", "1")], &[]);
    let modules = "[submodule \"s\"]\n\tpath = s\n\turl = ../sub\n";
    let commit = git.commit(&[("y", "1"), (".gitmodules", modules)], &[("s", &inner)]);
    let archive = support::sdist("f", "1");
    fs_err::write(workspace.holder().join("f-1.tar.gz"), &archive).unwrap();
    set_pins(
        &workspace,
        &format!(
            "[a]\nversion = \"1\"\ngit = \"{}\"\ncommit = \"{commit}\"\nsubmodules = true\n\n\
             [f]\nversion = \"1\"\nurl = \"file://{}/f-1.tar.gz\"\n",
            git.url(),
            workspace.holder().display()
        ),
    );
    workspace.run(&["lock"]).exits(0);
    let text = lock_text(&workspace);
    let build = ["build", "--until", "sources"];
    workspace.run(&build).exits(0);
    for (true_value, wrong, message) in [
        (git.tree(), "2".repeat(40), "for the commit's tree, which is"),
        (inner.clone(), "3".repeat(40), "for the submodule `s`, which is"),
        (
            format!("size = {}", archive.len()),
            "size = 7".into(),
            "it has 7 bytes for the size of `f-1.tar.gz`",
        ),
        (
            Sha256::of_bytes(&archive).to_string(),
            Sha256::of_bytes("lie").to_string(),
            "the digest of `f-1.tar.gz`",
        ),
    ] {
        assert!(text.contains(&true_value));
        workspace.write("pins/stable.lock", text.replace(&true_value, &wrong));
        let ran = workspace.run(&build);
        assert_ne!(ran.code, Some(0), "{message}");
        ran.reports([message]);
    }
    workspace.write("pins/stable.lock", &text);
    workspace.run(&build).exits(0);
    // Only `lock` itself corrects the values.
    workspace.write("pins/stable.lock", text.replace(&git.tree(), &"2".repeat(40)));
    workspace.run(&["lock", "--check"]).exits(1).prints([&format!("+tree = \"{}\"", git.tree())]);
    workspace.run(&["lock"]).exits(0);
    assert_eq!(lock_text(&workspace), text);
}

#[test]
fn rejects_files_that_are_not_sources() {
    let workspace = Workspace::init();
    let folder = workspace.holder().join("folder");
    fs_err::create_dir(&folder).unwrap();
    let pins = format!(
        "[empty]\nversion = \"1\"\nurl = \"file://{}\"\n\n[gone]\nversion = \"1\"\ngit = \"{}\"\n",
        folder.display(),
        workspace.holder().join("gone").display()
    );
    set_pins(&workspace, &pins);
    workspace.run(&["lock"]).exits(3).reports([
        "empty: `folder` from file://[HOLDER]/folder is not a source: it begins with nothing",
        "gone: cannot fetch from the git repository [HOLDER]/gone: fatal: '[HOLDER]/gone' does not appear",
        "check the URL of the pin",
    ]);
    assert!(!workspace.path("pins/stable.lock").exists());
}

#[test]
fn killed_lock_keeps_the_old_file() {
    for (signal, code) in [("KILL", None), ("TERM", Some(130))] {
        kill_while_it_waits(signal, code);
    }
}

fn kill_while_it_waits(signal: &str, code: Option<i32>) {
    use std::sync::atomic::Ordering::Relaxed;

    let body = support::sdist("f", "1");
    // Makes a client wait until the test releases it.
    let open = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (gate, noted) = (open.clone(), asked.clone());
    let server = TestServer::start(move |seen| {
        noted.store(true, Relaxed);
        let since = std::time::Instant::now();
        while seen.path.contains("slow") && !gate.load(Relaxed) && since.elapsed().as_secs() < 60 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Reply::file(body.clone())
    });
    let pins = format!(
        "[f]\nversion = \"1\"\nurl = \"{}\"\n\n[slow]\nversion = \"1\"\nurl = \"{}\"\n",
        server.url("/f-1.tar.gz"),
        server.url("/slow-1.tar.gz")
    );
    let workspace = lab_with(&pins);
    workspace.write("pins/stable.lock", "# old\n");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rocmrpm"));
    command
        .arg("lock")
        .current_dir(workspace.root())
        .env("ROCMRPM_CACHE", workspace.holder().join("cache"));
    command.stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !asked.load(Relaxed) {
        assert!(std::time::Instant::now() < deadline, "the server received no request");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let id = child.id().to_string();
    let kill = rocmrpm::process::Command::new("sh").args(["-c", "kill -s $0 $1", signal, &id]);
    kill.output().unwrap();
    assert_eq!(child.wait().unwrap().code(), code);
    open.store(true, Relaxed);
    assert_eq!(lock_text(&workspace), "# old\n");
    let names: Vec<_> =
        fs_err::read_dir(workspace.path("pins")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    workspace.run(&["lock"]).exits(0).reports(["Locked pins/stable.lock: 2 sources"]);
}

/// Checks the sets of this repository as CI does: a new clone, an empty cache, no network.
#[test]
fn lock_files_of_this_repository_are_up_to_date() {
    let workspace = Workspace::copy_of("");
    for entry in fs_err::read_dir(workspace.path("pins")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // The generated part of a closure belongs to the set.
        if let Some(set) = name.strip_suffix(".toml").filter(|set| !set.contains('.')) {
            let ran = workspace.run(&["lock", "--check", "--offline", "--pins", set]);
            assert_eq!(
                ran.code,
                Some(0),
                "run `rocmrpm lock --pins {set}`\n{}{}",
                ran.stdout,
                ran.stderr
            );
        }
    }
}

#[test]
fn completing_a_lock_makes_no_new_release() {
    let workspace = Workspace::init();
    let git = Repository::new(&workspace, "up");
    let commit = git.commit(&[("x", "1")], &[]);
    set_pins(
        &workspace,
        &format!("[a]\nversion = \"1\"\ngit = \"{}\"\ncommit = \"{commit}\"\n", git.url()),
    );
    workspace.run(&["lock", "--offline"]).exits(0);
    workspace.commit("Begin");
    let step = || {
        let plan = workspace.run(&["plan", "--json"]).exits(0).document("rocmrpm/plan/2");
        let step = plan["steps"][0].clone();
        ["release", "dirty", "key"].map(|name| step[name].clone())
    };
    let before = step();
    assert_eq!(before[1], false);
    workspace.run(&["lock"]).exits(0).reports(["Locked"]);
    assert!(lock_text(&workspace).contains("tree = "));
    assert_eq!(step(), before);
    workspace.commit("Lock the tree");
    assert_eq!(step(), before);
}

#[test]
fn environment_sets_the_size_limit() {
    let server = TestServer::start(|_| Reply::file(vec![7; 2_000_000]));
    let workspace =
        lab_with(&format!("[demo]\nversion = \"1\"\nurl = \"{}\"\n", server.url("/demo-1.bin")));
    let run = |limit: &str| {
        workspace.outcome(workspace.command(&["lock"]).env("ROCMRPM_MAX_SIZE", limit))
    };
    run("1 MB").exits(30).reports([
        "it has more than 1000000 bytes",
        "if you trust it, raise the limit, e.g. `ROCMRPM_MAX_SIZE=",
    ]);
    run("1")
        .exits(3)
        .reports(["`1` in ROCMRPM_MAX_SIZE is not a size", "ROCMRPM_MAX_SIZE=\"64 GB\""]);
    run("3 MB").exits(0);
}

#[test]
fn warns_about_a_source_without_tls() {
    let digest = Sha256::of_bytes("x");
    let pins = "[demo]\nversion = \"1\"\nurl = \"http://u:pw@h.invalid/demo-1.bin\"\n";
    let workspace = lab_with(pins);
    let refused = workspace.run(&["lock"]);
    refused.exits(3);
    refused.reports([
        "refusing to fetch http://h.invalid/demo-1.bin without TLS or a known digest",
        "use https",
    ]);
    let hex = digest.to_string();
    let cached = workspace.holder().join("cache/sha256").join(&hex[..2]).join(&hex);
    fs_err::create_dir_all(cached.parent().unwrap()).unwrap();
    fs_err::write(cached, "x").unwrap();
    set_pins(&workspace, &format!("{pins}sha256 = \"{digest}\"\n"));
    let warned = workspace.run(&["lock"]);
    warned.exits(0);
    warned
        .reports(["http://h.invalid/demo-1.bin is fetched without TLS: only the locked digest protects `demo`"]);
}

#[test]
fn wrong_cached_file_is_not_locked() {
    let server = TestServer::start(|_| Reply::file("right"));
    let digest = Sha256::of_bytes("right");
    let url = server.url("/demo-1.bin");
    let workspace =
        lab_with(&format!("[demo]\nversion = \"1\"\nurl = \"{url}\"\nsha256 = \"{digest}\"\n"));
    let hex = digest.to_string();
    let cached = workspace.holder().join("cache/sha256").join(&hex[..2]).join(&hex);
    fs_err::create_dir_all(cached.parent().unwrap()).unwrap();
    fs_err::write(&cached, "a wrong file").unwrap();
    workspace.run(&["lock"]).exits(0).reports(["rocmrpm removed it"]);
    assert!(lock_text(&workspace).contains("size = 5\n"), "{}", lock_text(&workspace));
    assert_eq!(fs_err::read_to_string(cached).unwrap(), "right");
}
