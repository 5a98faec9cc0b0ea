//! Tests an index that is enough by itself with the real rpmbuild, pip and uv, and an outside index
//! on 127.0.0.1: what it has, how it was proved, and what happens if the outside index changes,
//! breaks off, or has a wheel that may not be redistributed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::closure::index::{Index, Lie};
use crate::support::server::{Reply, TestServer};
use crate::support::{Parts, Ran, Workspace, ran};
use crate::tools;
use rocmrpm::closure::lock::Lock;
use rocmrpm::closure::{Locked, LockedFile, LockedOrigin};
use rocmrpm::digest::Sha256;
use rocmrpm::process;

const MIT: &str = "License-Expression: MIT";

const INSTALL: &str = "\
site=%{buildroot}/usr/lib/python<{ chroot.python }>/site-packages
info=$site/<{ name }>-<{ version }>.dist-info
install -d $info
echo > $site/<{ name }>.py
printf 'Metadata-Version: 2.1\\nName: <{ name }>\\nVersion: <{ version }>\\n' > $info/METADATA
cat requires >> $info/METADATA
printf 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n' > $info/WHEEL";

/// A workspace with the built component `app`, whose wheel has requirements from outside.
struct IndexFixture(Workspace);

impl IndexFixture {
    /// `index` is the content of the table `[index]`, without `outside`.
    fn new(requires: &[&str], outside: &str, index: &str) -> Self {
        let workspace = Workspace::new();
        workspace.replace(
            "mock-configs/rocm/host.toml",
            "version-header = \"/usr/include/hip/hip_version.h\"",
            "version = \"7.1\"",
        );
        let files = "/usr/lib/python<{ chroot.python }>/site-packages/*";
        workspace.component("app", &Parts { install: INSTALL, files, ..Parts::default() });
        let lines: String =
            requires.iter().map(|requirement| format!("Requires-Dist: {requirement}\n")).collect();
        workspace.write("src/app/requires", lines);
        let manifest = workspace.read("rocmrpm.toml");
        workspace.write("rocmrpm.toml", manifest + &table(outside, index));
        let fixture = Self(workspace);
        fixture.run(&["build", "--until", "rpm"]).exits(0);
        fixture
    }

    fn run(&self, args: &[&str]) -> Ran {
        let mut command = self.0.command(args);
        crate::closure::use_uv(&self.0, &mut command);
        ran(command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1"))
    }

    /// Replaces the table `[index]`.
    fn settle(&self, outside: &str, index: &str) {
        let manifest = self.0.read("rocmrpm.toml");
        let (before, _) = manifest.split_once("\n[index]").unwrap();
        self.0.write("rocmrpm.toml", before.to_owned() + &table(outside, index));
    }

    /// Returns what pip and uv install from the index in a folder, and from nothing else.
    fn installed(&self, simple: &Path) -> Vec<String> {
        let url = format!("file://{}", simple.display());
        let dir = tempfile::tempdir().unwrap();
        let venv = |name: &str| {
            let venv = dir.path().join(name);
            tools::new_environment(&venv);
            venv.join("bin/python").to_str().unwrap().to_owned()
        };
        let (pip, uv) = (venv("pip"), venv("uv"));
        let run = |command: process::Command, args: &[&str]| {
            let command = command.args(args).cwd("/");
            let line = command.line();
            command.text().unwrap_or_else(|error| panic!("{line}: {error}"))
        };
        let python = || tools::alone(process::Command::new(&pip)).args(["-m", "pip"]);
        run(python(), &["install", "--quiet", "--index-url", &url, "app"]);
        run(python(), &["check"]);
        let frozen = run(python(), &["freeze"]);
        let install = ["--no-config", "pip", "install", "--quiet", "--default-index", &url];
        run(tools::tool("uv"), &[&install[..], &["--python", &uv, "app"]].concat());
        run(tools::tool("uv"), &["--no-config", "pip", "check", "--python", &uv]);
        let other = run(tools::tool("uv"), &["--no-config", "pip", "freeze", "--python", &uv]);
        // uv does not leave out what each environment has.
        let other: Vec<&str> = other
            .lines()
            .filter(|line| !line.starts_with("pip==") && !line.starts_with("setuptools=="))
            .collect();
        assert_eq!(frozen.lines().collect::<Vec<_>>(), other, "pip and uv");
        frozen.lines().map(str::to_owned).collect()
    }

    fn simple(&self) -> PathBuf {
        self.0.built("index/simple")
    }
}

fn table(outside: &str, index: &str) -> String {
    format!("\n[index]\noutside = [\"{outside}\"]\n{index}")
}

/// Returns an index on which `lib-one` requires `lib-two`.
fn libraries() -> Index {
    libraries_without_two().wheel("lib-two", "1.5", &[MIT])
}

fn libraries_without_two() -> Index {
    Index::default().wheel("lib-one", "1.0", &["Requires-Dist: lib-two>=1", MIT]).wheel(
        "lib-one",
        "2.0",
        &["Requires-Dist: lib-two>=1", MIT],
    )
}

#[test]
fn closed_index_installs_without_any_other_index() {
    let server = libraries().serve();
    let fixture = IndexFixture::new(&["lib-one>=1"], &server.url("/simple"), "closed = true\n");
    let ran = fixture.run(&["index", "--json"]);
    ran.exits(0).reports(["Resolving", "Locked 2 wheels in pins/stable.index.lock"]);
    let json = ran.document("rocmrpm/index/1");
    assert_eq!((&json["foreign"], &json["distributions"]["lib-two"]), (&2.into(), &1.into()));
    let page = fixture.0.read("build/host/index/simple/lib-one/index.json");
    assert!(page.contains("\"_foreign\":true"), "{page}");
    assert!(!fixture.0.read("build/host/index/simple/app/index.json").contains("_foreign"));
    fixture.run(&["index", "check", "--closed", "--digests"]).exits(0).prints([
        "foreign   2 wheels that the stack did not build",
        "no findings, and no other index is needed",
    ]);
    let expected = ["app==1.0+rocm7.1.gfx1151.", "lib-one==2.0", "lib-two==1.5"];
    let is_expected = |found: Vec<String>| {
        assert!(found.iter().zip(expected).all(|(found, wanted)| found.starts_with(wanted)));
        assert_eq!(found.len(), 3, "{found:?}");
    };
    is_expected(fixture.installed(&fixture.simple()));

    // The lock and the cache are enough for everything that follows.
    drop(server);
    fixture.run(&["index"]).exits(0).never_reports("Resolving");
    let published = fixture.0.holder().join("published");
    let args = ["publish", "index", published.to_str().unwrap(), "--channel", "testing"];
    let ran = fixture.run(&args);
    ran.exits(0).reports(["Add lib_one-2.0-py3-none-any.whl to testing (foreign)"]);
    fixture.run(&args).exits(0).reports(["Unchanged"]);
    let promote = ["publish", "promote", published.to_str().unwrap()];
    fixture.run(&promote).exits(0);
    let check = ["index", "check", published.to_str().unwrap(), "--channel", "stable"];
    fixture.run(&[&check[..], &["--closed", "--digests"]].concat()).exits(0).prints(["foreign"]);
    is_expected(fixture.installed(&published.join("stable/simple")));

    // The requirements of users distinguish them as well.
    let json = fixture.run(&["requirements", "--json"]).document("rocmrpm/requirements/1");
    let own = |at: usize| (json["pins"][at]["name"].clone(), json["pins"][at]["own"].clone());
    assert_eq!(own(0), ("app".into(), true.into()));
    assert_eq!(own(1), ("lib-one".into(), false.into()));
}

#[test]
fn check_finds_what_needs_another_index() {
    let server = libraries()
        .wheel("old", "1.0", &["Requires-Dist: lib-two<1", MIT])
        .wheel("lib-two", "0.5", &[MIT])
        .serve();
    let url = server.url("/simple");
    let fixture = IndexFixture::new(&["lib-one>=1"], &url, "");
    fixture.run(&["index"]).exits(0);
    fixture.run(&["index", "check"]).exits(0);
    fixture.run(&["index", "check", "--closed"]).exits(1).prints([
        "error[unsatisfied]: lib-one>=1",
        "found     the index has no `lib-one`",
        "`closed = true`",
    ]);
    // Each requirement alone is satisfied, but no set satisfies all: only a solver finds that.
    let folder = fixture.0.holder().join("others");
    fs_err::create_dir_all(&folder).unwrap();
    let fetch = |file: &str| {
        let path = folder.join(file);
        let curl = Command::new("curl")
            .args(["-fsS", "--noproxy", "127.0.0.1", "-o"])
            .arg(&path)
            .arg(server.url(&format!("/files/{file}")))
            .status();
        assert!(curl.unwrap().success());
        path
    };
    let files = ["lib_one-2.0", "lib_two-1.5", "lib_two-0.5", "old-1.0"];
    let mut wheels: Vec<PathBuf> =
        files.iter().map(|stem| fetch(&format!("{stem}-py3-none-any.whl"))).collect();
    fixture.0.write("src/app/requires", "Requires-Dist: lib-one\nRequires-Dist: old\n");
    fixture.run(&["build", "--until", "wheel"]).exits(0);
    let own = fixture.0.built("wheels/app");
    let own = fs_err::read_dir(own).unwrap().map(|entry| entry.unwrap().path());
    wheels.extend(own.filter(|path| path.extension().is_some_and(|end| end == "whl")));
    rocmrpm::index::write(&wheels, &fixture.0.built("index")).unwrap();
    fixture.run(&["index", "check", "--offline"]).exits(0);
    fixture.run(&["index", "check", "--closed"]).exits(1).prints([
        "error[not-closed]: a wheel that needs another index",
        "app-1.0+rocm7.1",
        "lib-two",
    ]);
}

#[test]
fn versions_are_those_of_the_closure_that_have_a_wheel() {
    let index = libraries().sdist("source-only", "1.0", &[]).wheel("source-only", "0.9", &[MIT]);
    let file = |name: &str| LockedFile {
        name: name.into(),
        sha256: index.digest(name),
        size: None,
        metadata: None,
    };
    let of = |name: &str, version: &str, origin| Locked {
        name: name.into(),
        version: version.parse().unwrap(),
        origin,
    };
    let lock = Lock {
        component: "app".into(),
        chroot: "host".into(),
        python: "3.11".into(),
        arch: "x86_64".into(),
        not_after: None,
        inputs: Sha256::of_bytes(""),
        packages: vec![
            of(
                "lib-one",
                "1.0",
                LockedOrigin::Index {
                    wheel: Some(file("lib_one-1.0-py3-none-any.whl")),
                    sdist: None,
                },
            ),
            of(
                "source-only",
                "1.0",
                LockedOrigin::Index { wheel: None, sdist: Some(file("source_only-1.0.tar.gz")) },
            ),
        ],
    };
    let server = index.serve();
    let requires = ["lib-one", "source-only"];
    let fixture = IndexFixture::new(&requires, &server.url("/simple"), "closed = true\n");
    fixture.0.write("pins/stable.requirements.lock", lock.text());
    fixture.run(&["index"]).exits(0);
    let lock = fixture.0.read("pins/stable.index.lock");
    for pin in ["\nlib-one==1.0 ", "\nsource-only==0.9 ", "\nlib-two==1.5 "] {
        assert!(lock.contains(pin), "{pin} is not in {lock}");
    }
    fixture.run(&["index", "check", "--closed"]).exits(0);
}

#[test]
fn license_decides_what_may_be_in_the_index() {
    let server = libraries()
        .wheel("not-free", "1.0", &["License: Proprietary"])
        .wheel("silent", "1.0", &[])
        .serve();
    let url = server.url("/simple");
    let fixture = IndexFixture::new(
        &["lib-one", "not-free ; os_name == 'posix'", "silent"],
        &url,
        "closed = true\n",
    );
    let published = fixture.0.holder().join("published");
    let publish = ["publish", "index", published.to_str().unwrap()];
    let ran = fixture.run(&publish);
    ran.exits(3).has_one_help_per_error().reports([
        "the index may not have 2 wheels",
        "not-free 1.0: its metadata does not state its license",
        "silent 1.0: its metadata does not state its license",
        "[[index.foreign]]",
    ]);
    assert!(!published.exists() && !fixture.simple().exists());

    let rule = |name: &str, decision: &str| {
        format!("[[index.foreign]]\nname = \"{name}\"\n{decision}\nreason = \"a test\"\n")
    };
    let silent = rule("silent", "license = \"MIT\"");
    fixture.settle(
        &url,
        &format!("closed = true\n{silent}{}", rule("not-free", "license = \"Elastic-2.0\"")),
    );
    fixture.run(&publish).exits(3).reports(["the index may not have 1 wheel", "`Elastic-2.0`"]);

    let free = format!("closed = true\n{silent}{}", rule("not-free", "leave-out = true"));
    fixture.settle(&url, &free);
    fixture.run(&publish).exits(0);
    let metadata = published.join("packages/app");
    let metadata = fs_err::read_dir(metadata).unwrap().map(|entry| entry.unwrap().path());
    let metadata = metadata.filter(|path| path.extension().is_some_and(|end| end == "metadata"));
    let metadata = fs_err::read_to_string(metadata.into_iter().next().unwrap()).unwrap();
    assert!(!metadata.contains("not-free") && metadata.contains("silent"), "{metadata}");
    let check = ["index", "check", published.to_str().unwrap(), "--channel", "testing", "--closed"];
    fixture.run(&check).exits(0);
    assert_eq!(fixture.installed(&published.join("testing/simple")).len(), 4);
    fixture.run(&["wheel", "--check"]).exits(0).prints(["-Requires-Dist: not-free"]);

    // The decision has no effect if a wheel of others requires it.
    fixture.settle(&url, &format!("{free}{}", rule("lib-two", "leave-out = true")));
    fixture
        .run(&publish)
        .exits(3)
        .reports(["`lib-two` is left out of the index, but a wheel of others"]);
}

/// What the server of the last test does.
static MODE: AtomicUsize = AtomicUsize::new(BREAKS);
const BREAKS: usize = 0;
const WORKS: usize = 1;
const CHANGED: usize = 2;

const FILE: &str = "lib_two-1.5-py3-none-any.whl";

/// Returns an index with another file under the name of lib-two 1.5.
fn changed() -> Index {
    let other = Index::default().wheel("lib-two", "1.5", &["Summary: Other", MIT]);
    let mut index = libraries_without_two();
    index.put("lib-two", FILE, other.bytes(FILE).to_vec(), "", Lie::None);
    index
}

#[test]
fn rejects_changed_files_and_resumes_broken_downloads() {
    let good = libraries();
    let (bytes, digest) = (good.bytes(FILE).to_vec(), good.digest(FILE));
    let (good, other) = (good.answer(), changed().answer());
    let server = TestServer::start(move |request| match MODE.load(Ordering::SeqCst) {
        BREAKS if request.path.ends_with(FILE) => {
            Reply::file(bytes.clone()).cut_after(bytes.len() / 2)
        }
        CHANGED => other(request),
        _ => good(request),
    });
    let fixture = IndexFixture::new(&["lib-one"], &server.url("/simple"), "closed = true\n");
    fixture.run(&["index"]).exits(30).has_one_help_per_error();
    assert!(!fixture.simple().exists(), "an index without its wheels");
    MODE.store(WORKS, Ordering::SeqCst);
    fixture.run(&["index"]).exits(0);
    let there = fixture.0.built(format!("index/packages/lib-two/{FILE}"));
    assert_eq!(Sha256::of_file(&there).unwrap().0, digest);
    let page = || fixture.0.read("build/host/index/simple/lib-two/index.json");
    let lock = || fixture.0.read("pins/stable.index.lock");
    let before = (page(), lock());

    // Another file under the same name, which is not in the cache.
    MODE.store(CHANGED, Ordering::SeqCst);
    fs_err::remove_dir_all(fixture.0.cache()).unwrap();
    let digests = [FILE.to_owned(), digest.to_string(), "delete the lock of the index".into()];
    fixture.run(&["index"]).exits(30).has_one_help_per_error().reports(&digests);
    assert_eq!((page(), lock()), before);
    // A new resolution does not accept it either.
    let server = changed().serve();
    fixture.settle(&server.url("/simple"), "closed = true\n");
    fixture.run(&["index"]).exits(30).has_one_help_per_error().reports(&digests);
    assert_eq!((page(), lock()), before);

    // A damaged lock is an error with its line.
    fixture.0.write("pins/stable.index.lock", lock().replace("lib-two==", "lib-two>="));
    fixture.run(&["index"]).exits(3).reports(["pins/stable.index.lock:"]);
}
