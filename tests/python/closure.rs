//! Tests `rocmrpm closure` from resolution to lock with the real uv and an index of tiny
//! distributions on 127.0.0.1: which distributions are accepted or rejected, and why. Three real
//! distributions come from the pip index. Needs the uv environment of tools.txt, and therefore
//! python3-venv.

mod audit;
mod imports;
pub mod index;
mod places;
mod real;
mod upgrade;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::server::{Reply, TestServer};
use crate::support::{Ran, Workspace, ran, wait_until};
use crate::tools;
use index::{Dist, Index, Lie};
use rocmrpm::digest::Sha256;
use rocmrpm::error::{Diagnose, Kind};
use rocmrpm::events::Silent;
use rocmrpm::sources::{Cache, Distribution, Fetcher};

/// A workspace with the component `app`, which has a closure.
pub struct ClosureFixture {
    /// The workspace with `app`.
    pub workspace: Workspace,
}

const CHROOT: &str = "release = \"43\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc43\"\n\
    rocm-provider = \"r\"\nbase-config = \"c.cfg\"\npackages = [\"t\"]\n\n[symbol-versions]\nGLIBC = \"2.42\"\n";

/// A spec that `rocmrpm closure --check` can pack.
const SPEC: &str = "<@ if closure.requires_exclude @>%global __requires_exclude ^(<{ closure.requires_exclude }>)\n\
    <@ endif @>Name: python-<{ name }>\nVersion: <{ version }>\nRelease: <{ release }>\nSummary: A component\n\
    License: MIT\nBuildArch: noarch\n%description\nA component.\n%package -n python3-<{ name }>\n\
    Summary: A component\n<@ if closure.runtime @>Requires: <{ closure.runtime }> = %{version}\n<@ endif @>\
    <@ for required in closure.requires @>Requires: <{ required }>\n<@ endfor @>\
    %description -n python3-<{ name }>\nA component.\n%files -n python3-<{ name }>\n";

impl ClosureFixture {
    /// Creates a lab with these dependencies of `app` and these packages in the release.
    pub fn new(requires: &[&str], packages: &[(&str, &str)]) -> Self {
        let fixture = Self { workspace: Workspace::new() };
        let table: String =
            packages.iter().map(|(name, version)| format!("{name}\t{version}\n")).collect();
        for (path, text) in [
            (
                "rocmrpm.toml",
                "[stack]\nname = \"t\"\ngpu-targets = [\"gfx1151\"]\ndefault-chroot = \"c\"\ndefault-pins = \"p\"\n",
            ),
            ("mock-configs/c.toml", CHROOT),
            ("mock-configs/rocm/r.toml", "prefix = \"/usr\"\nversion = \"7.1\"\n"),
            ("mock-configs/packages/t.tsv", &table),
            ("pins/p.toml", "[app]\nversion = \"1.0\"\npath = \"src/app\"\n"),
            ("specs-templates/app/component.toml", "[closure]\n"),
            ("specs-templates/app/app.spec.tera", SPEC),
        ] {
            fixture.workspace.write(path, text);
        }
        fixture.requires(requires);
        fixture
    }

    /// Changes the dependencies of `app`.
    fn requires(&self, requires: &[&str]) {
        let list: Vec<String> =
            requires.iter().map(|requirement| format!("{requirement:?}")).collect();
        let project = format!(
            "[project]\nname = \"app\"\nversion = \"1.0\"\ndependencies = [{}]\n",
            list.join(", ")
        );
        self.workspace.write("src/app/pyproject.toml", project);
    }

    /// Adds a component of the stack that contains version 2.0 of a Python distribution.
    fn own(&self, name: &str) {
        self.workspace.write(format!("src/{name}/setup.py"), "");
        let pins = self.workspace.read("pins/p.toml");
        self.workspace.write(
            "pins/p.toml",
            format!("{pins}\n[{name}]\nversion = \"2.0\"\npath = \"src/{name}\"\n"),
        );
        self.workspace.write(format!("specs-templates/{name}/component.toml"), "");
        self.workspace.write(format!("specs-templates/{name}/{name}.spec.tera"), SPEC);
    }

    /// Returns a `rocmrpm closure` command with an index and uv.
    pub fn command(&self, index: Option<&str>, args: &[&str]) -> Command {
        self.any_command(index, &[&["closure"], args].concat())
    }

    /// Returns a rocmrpm command with an index and uv.
    pub fn any_command(&self, index: Option<&str>, args: &[&str]) -> Command {
        let mut command = self.workspace.command(args);
        self.settle(index, &mut command);
        command
    }

    /// Lets a command use an index and uv.
    fn settle(&self, index: Option<&str>, command: &mut Command) {
        use_uv(&self.workspace, command);
        command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
        if let Some(index) = index {
            command
                .env("PIP_INDEX_URL", index)
                .env("UV_CACHE_DIR", self.workspace.holder().join("uv-cache"));
        }
    }

    fn run(&self, server: &TestServer, args: &[&str]) -> Ran {
        ran(&mut self.command(Some(&server.url("/simple")), args))
    }

    /// Returns the members with versions and places.
    fn members(&self, server: &TestServer) -> BTreeMap<String, (String, String)> {
        members(self.run(server, &["app", "--json"]).exits(0))
    }

    fn lock(&self) -> String {
        self.workspace.read("pins/p.requirements.lock")
    }
}

/// Puts uv into a command's path, without the user's settings.
pub fn use_uv(workspace: &Workspace, command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("UV_") {
            command.env_remove(name);
        }
    }
    let uv =
        tools::environment("python-tools", include_str!("../support/tools.txt")).join("bin/uv");
    let bin = workspace.holder().join("bin");
    if !bin.join("uv").exists() {
        fs_err::create_dir_all(&bin).unwrap();
        fs_err::os::unix::fs::symlink(uv, bin.join("uv")).unwrap();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(bin).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(path).unwrap());
}

/// Returns the members in the `--json` output: version and place by name.
pub fn members(ran: &Ran) -> BTreeMap<String, (String, String)> {
    let document = ran.json();
    assert_eq!(document["schema"], "rocmrpm/closure/1");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let member = |member: &serde_json::Value| {
        (text(&member["name"]), (text(&member["version"]), text(&member["place"])))
    };
    document["members"].as_array().unwrap().iter().map(member).collect()
}

fn versions(members: &BTreeMap<String, (String, String)>) -> Vec<String> {
    members.iter().map(|(name, (version, _))| format!("{name} {version}")).collect()
}

const MIT: &str = "License-Expression: MIT";

#[test]
fn finds_members_through_extras_markers_and_files() {
    let server = Index::default()
        .wheel(
            "a",
            "1.0",
            &["Requires-Dist: b[more]>=1", "Requires-Dist: gone ; python_version < '3.9'"],
        )
        .wheel("a", "2.0", &[])
        .bare_wheel(
            "b",
            "1.0",
            &[
                "Provides-Extra: more",
                "Requires-Dist: c ; extra == 'more'",
                "Requires-Dist: d ; extra == 'other'",
            ],
        )
        .wheel("b", "1.5", &["Provides-Extra: more", "Requires-Dist: c ; extra == 'more'"])
        .sdist("c", "0.5", &["Requires-Dist: e"])
        .wheel("e", "3.0", &[MIT])
        .wheel("e", "4.0rc1", &[])
        .serve();
    // Fedora's b is suitable and used; Fedora has no e.
    let fixture = ClosureFixture::new(
        &["a<2", "e!=9 ; sys_platform == 'linux'"],
        &[("python3-b", "1.0"), ("python3-a", "2.0")],
    );
    let members = fixture.members(&server);
    assert_eq!(versions(&members), ["a 1.0", "b 1.0", "c 0.5", "e 3.0"]);
    let place = |name: &str| members[name].1.as_str();
    assert_eq!(
        [place("a"), place("b"), place("c"), place("e")],
        ["private", "system", "rpm", "rpm"]
    );
}

#[test]
fn reuses_the_lock_until_an_input_changes() {
    let server = Index::default()
        .wheel("a", "1.0", &[])
        .wheel("a", "1.1", &[])
        .wheel("b", "1.0", &["Requires-Dist: a"])
        .serve();
    let fixture = ClosureFixture::new(&["b"], &[("python3-a", "1.0"), ("python3-b", "1.0")]);
    fixture.run(&server, &["app", "--write"]).exits(0);
    let lock = fixture.lock();
    assert!(lock.contains("\na==1.0 \\\n    --hash=sha256:"), "{lock}");
    assert!(!lock.contains("127.0.0.1") && !lock.contains("http"), "{lock}");
    let asked = server.seen().len();
    let mut warm = fixture.command(Some(&server.url("/simple")), &["app", "--json", "--offline"]);
    // Nothing is available that could resolve or fetch.
    warm.env("PATH", fixture.workspace.holder().join("nothing"));
    let again = ran(&mut warm);
    assert_eq!(versions(&members(again.exits(0))), ["a 1.0", "b 1.0"]);
    fixture.run(&server, &["app", "--check"]).exits(0);
    assert_eq!(server.seen().len(), asked, "the index must not be queried");
    // A release with a newer package, and a changed requirement.
    fixture.workspace.write("mock-configs/packages/t.tsv", "python3-a\t1.1\npython3-b\t1.0\n");
    let ran = fixture.run(&server, &["app", "--offline"]);
    ran.exits(30).reports([
        "`--offline` forbids it",
        "p.requirements.lock is for other",
        "help: run the same command once",
    ]);
    assert_eq!(versions(&fixture.members(&server)), ["a 1.1", "b 1.0"]);
    fixture.run(&server, &["app", "--check"]).exits(1);
    fixture.requires(&["a<1.1"]);
    assert_eq!(versions(&fixture.members(&server)), ["a 1.0"]);
    assert_eq!(fixture.lock(), lock, "nothing is written without --write");
}

#[test]
fn holds_stack_distributions_at_its_versions() {
    let nvidia =
        ["Requires-Dist: nvidia-cublas==13 ; sys_platform == 'linux'", "Requires-Dist: a>=1"];
    let server = Index::default()
        .wheel("torch", "2.0", &nvidia)
        .wheel("torch", "3.0", &nvidia)
        .wheel("nvidia-cublas", "13", &[])
        .wheel("a", "1.0", &[])
        .wheel("taker", "1.0", &["Requires-Dist: torch>=1"])
        .wheel("refuser", "1.0", &["Requires-Dist: torch>=3"])
        .wheel("middle", "1.0", &["Requires-Dist: refuser"])
        .serve();
    let fixture = ClosureFixture::new(&["taker"], &[]);
    fixture.own("torch");
    assert_eq!(versions(&fixture.members(&server)), ["a 1.0", "taker 1.0", "torch 2.0"]);
    fixture.requires(&["taker", "middle"]);
    let refused = fixture.run(&server, &["app"]);
    refused.exits(3).reports([
        "`app` has no closure: the stack has torch 2.0, which a requirement excludes",
        "app -> middle 1.0 -> refuser 1.0 -> torch>=3",
        "help: pin another version of `torch`",
    ]);
    refused.never_reports("taker 1.0 -> torch");
}

#[test]
fn reports_colliding_chains() {
    let server = Index::default()
        .wheel("left", "1.0", &["Requires-Dist: base>=2"])
        .wheel("right", "1.0", &["Requires-Dist: inner"])
        .wheel("inner", "1.0", &["Requires-Dist: base<2"])
        .wheel("other", "1.0", &["Requires-Dist: base"])
        .wheel("base", "1.0", &[])
        .wheel("base", "2.0", &[])
        .add(
            &Dist { name: "old", version: "1.0", lines: &[] },
            "cp313-cp313-manylinux_2_28_x86_64",
            true,
            Lie::None,
        )
        .serve();
    let fixture = ClosureFixture::new(&["left", "right", "other"], &[]);
    let reported = fixture.run(&server, &["app"]);
    reported.exits(3).reports([
        "two requirements on `base` conflict",
        "app -> left 1.0 -> base>=2",
        "app -> right 1.0 -> inner 1.0 -> base<2",
    ]);
    reported.never_reports("other 1.0 -> base");
    fixture.requires(&["old>=1"]);
    fixture.run(&server, &["app"]).exits(3).reports([
        "`old`",
        "old-1.0-cp313-cp313",
        "rocmrpm add old",
    ]);
    fixture.requires(&["base>=7"]);
    fixture
        .run(&server, &["app"])
        .exits(3)
        .reports(["no version of `base` that satisfies a requirement", "app -> base>=7"]);
}

#[test]
fn rejects_placeholders_and_foreign_builds() {
    let server = Index::default()
        .wheel("rocm", "0.1", &["Requires-Dist: rocm-sdk-core"])
        .wheel("rocm-sdk-core", "0.1", &[])
        .wheel("torch", "2.0", &[])
        .wheel("wants", "1.0", &["Requires-Dist: torch"])
        .serve();
    let fixture = ClosureFixture::new(&["wants"], &[]);
    let rule =
        "[[not-from-index]]\nname = \"torch*\"\nreason = \"the index only has builds for CPUs\"\n";
    fixture.workspace.write("upstreams.toml", rule);
    fixture.run(&server, &["app"]).exits(3).reports(["the index only has builds for CPUs"]);
    fixture
        .run(&server, &["app"])
        .exits(3)
        .reports(["`torch` must not come from a package index", "app -> wants 1.0 -> torch"]);
    fixture.requires(&["rocm"]);
    fixture.run(&server, &["app"]).exits(3).reports([
        "must not come from a package index",
        "placeholder",
        "help: required by app -> rocm",
    ]);
    let rule = "[closure]\n[[closure.member]]\nname = \"rocm\"\nplace = \"dropped\"\nreason = \"r\"\nwithout = \"w\"\n";
    fixture.workspace.write("specs-templates/app/component.toml", rule);
    let left = fixture.members(&server);
    assert!(
        !left.contains_key("rocm-sdk-core"),
        "dependencies of a dropped member must be dropped, too: {left:?}"
    );
}

#[test]
fn reports_damaged_lock_with_its_line() {
    let server =
        Index::default().wheel("a", "1.0", &["Requires-Dist: b>=1"]).wheel("b", "1.0", &[]).serve();
    let fixture = ClosureFixture::new(&["a"], &[("python3-a", "1.0"), ("python3-b", "1.0")]);
    fixture.run(&server, &["app", "--write"]).exits(0);
    let lock = fixture.lock();
    let b = lock.find("# file: b-").unwrap();
    for (text, code, wrong) in [
        (
            lock.replace("a==1.0 ", "a=1.0 "),
            3,
            "p.requirements.lock:12: not the lock file of a closure",
        ),
        (
            lock.replace("# python: 3.14", "# python: 3.13"),
            3,
            "is for Python `3.13`, not for Python `3.14`",
        ),
        (lock.replace("# component: app", "# component: other"), 3, "is for the component `other`"),
        (lock.replace("# file: a-1.0", "# file: ../a-1.0"), 3, "is not a file name"),
        // Valid, but not what was written.
        (lock[..b].to_owned(), 0, "b"),
    ] {
        assert_ne!(text, lock, "{wrong}");
        fixture.workspace.write("pins/p.requirements.lock", &text);
        let ran = fixture.run(&server, &["app"]);
        ran.exits(code);
        if code != 0 {
            ran.reports([wrong, "help: restore it from the workspace's history"]);
        }
        fixture.run(&server, &["app", "--upgrade"]).exits(0);
    }
}

#[test]
fn reports_help_without_uv_index_or_cache() {
    let fixture = ClosureFixture::new(&["a"], &[]);
    let server = Index::default().wheel("a", "1.0", &[]).serve();
    fixture
        .run(&server, &["app", "--offline"])
        .exits(30)
        .reports(["there is no pins/p.requirements.lock"]);
    let tools = fixture.workspace.holder().join("tools");
    fs_err::create_dir_all(&tools).unwrap();
    for tool in ["curl", "tar", "python3"] {
        let path = rocmrpm::process::find_program(tool)
            .unwrap_or_else(|| panic!("{tool} is not installed"));
        fs_err::os::unix::fs::symlink(path, tools.join(tool)).unwrap();
    }
    let mut bare = fixture.command(Some(&server.url("/simple")), &["app"]);
    ran(bare.env("PATH", &tools)).exits(40).reports(["`uv` is not installed", "pip install uv"]);
    let closed = server.url("/simple").replace("http://", "http://user:s3cret@");
    drop(server);
    let unreachable = ran(&mut fixture.command(Some(&closed), &["app"]));
    unreachable.exits(30).never_reports("s3cret");
}

#[test]
fn rejects_a_lying_index() {
    let server = Index::default().wheel("a", "1.0", &[]).wheel("b", "1.0", &[]).serve();
    let fixture = ClosureFixture::new(&["a", "b"], &[("python3-a", "1.0"), ("python3-b", "1.0")]);
    fixture.run(&server, &["app", "--write"]).exits(0);
    drop(server);
    fs_err::remove_dir_all(fixture.workspace.cache()).unwrap();
    // The same file names with different content, and a missing file.
    let server =
        Index::default().wheel("a", "1.0", &["Summary: other"]).wheel("b", "1.0", &[]).serve();
    let ran = fixture.run(&server, &["app"]);
    ran.exits(30).reports(["the index has `a-1.0-py3-none-any.whl` with sha256", "is locked"]);
    ran.reports([
        "help: released files never change",
        "help: run `rocmrpm closure --upgrade --write` to recreate it",
    ]);
    let server = Index::default().wheel("a", "1.0", &[]).wheel("b", "2.0", &[]).serve();
    fixture.run(&server, &["app"]).exits(3).reports(["no longer has `b-1.0-py3-none-any.whl`"]);
}

#[test]
fn reads_metadata_from_every_source() {
    let big: String =
        (0..40_000u32).map(|n| format!("{n:x}{}\n", Sha256::of_bytes(n.to_le_bytes()))).collect();
    let mut index = Index::default()
        .wheel("beside", "1.0", &["Requires-Dist: x"])
        .bare_wheel("inside", "1.0", &["Requires-Dist: y"])
        .sbom_wheel("deep", "1.0", &["Requires-Dist: w"], &big)
        .sdist("source", "1.0", &["Requires-Dist: z"])
        .add(
            &Dist { name: "liar", version: "1.0", lines: &[] },
            "py3-none-any",
            true,
            Lie::MetadataDigest,
        )
        .add(
            &Dist { name: "other", version: "1.0", lines: &[] },
            "py3-none-any",
            false,
            Lie::Version,
        )
        .add(
            &Dist { name: "sent", version: "1.0", lines: &[] },
            "py3-none-any",
            false,
            Lie::Digest,
        );
    index.put("broken", "broken-1.0-py3-none-any.whl", b"no archive".to_vec(), "", Lie::None);
    index.put(
        "empty",
        "empty-1.0.tar.gz",
        crate::support::archive::tar_gz("empty-1.0", &[("big", &big)]),
        "",
        Lie::None,
    );
    let file = |name: &str, file: &str| Distribution {
        project: name.into(),
        version: "1.0".parse().unwrap(),
        file: file.into(),
        sha256: index.digest(file),
        metadata: None,
    };
    let wheel = |name: &str| file(name, &format!("{name}-1.0-py3-none-any.whl"));
    let good =
        [wheel("beside"), wheel("inside"), wheel("deep"), file("source", "source-1.0.tar.gz")];
    let bad = [
        (wheel("liar"), "the digest of `liar-1.0-py3-none-any.whl.metadata`"),
        (wheel("other"), "they are for other 99"),
        (wheel("sent"), "sha256"),
        (wheel("broken"), "is not a zip file"),
        (file("empty", "empty-1.0.tar.gz"), "no PKG-INFO"),
        (
            Distribution {
                file: "inside-1.1-py3-none-any.whl".into(),
                sha256: Sha256::of_bytes("x"),
                ..wheel("inside")
            },
            "no longer has",
        ),
        (Distribution { project: "none".into(), ..wheel("inside") }, "none"),
    ];
    let bad: Vec<_> = bad.into_iter().collect();
    let server = index.serve();
    let dir = tempfile::tempdir().unwrap();
    let fetcher = |offline| {
        Fetcher::new(Cache::at(dir.path().join("cache")), dir.path(), &Silent)
            .index(server.url("/simple"))
            .offline(offline)
    };
    let error = fetcher(true).metadata(&good).unwrap_err();
    assert_eq!(error.kind(), Kind::Network, "{error}");
    let texts = fetcher(false).metadata(&good).unwrap();
    for (text, required) in texts.iter().zip(["x", "y", "w", "z"]) {
        assert!(text.contains(&format!("Requires-Dist: {required}\n")), "{text}");
    }
    let asked = server.seen();
    let parts_of = |file: &str| {
        let of_file =
            asked.iter().filter(|seen| seen.path == format!("/files/{file}-1.0-py3-none-any.whl"));
        of_file.map(|seen| seen.header("range").is_some()).collect::<Vec<_>>()
    };
    assert_eq!(parts_of("beside"), [true; 0], "METADATA is next to it: {asked:?}");
    assert_eq!(parts_of("inside"), [true], "METADATA is at its end: {asked:?}");
    assert_eq!(parts_of("deep"), [true, true], "METADATA is before its end: {asked:?}");
    assert_eq!(fetcher(true).metadata(&good).unwrap(), texts, "from the cache");
    // METADATA with a known digest needs no index, and nothing else is used instead.
    let index =
        Fetcher::new(Cache::at(dir.path().join("cache")), dir.path(), &Silent).index("no index");
    let of = |digest| Distribution { metadata: Some(digest), ..good[0].clone() };
    let known = of(Sha256::of_bytes(&texts[0]));
    assert_eq!(index.metadata(std::slice::from_ref(&known)).unwrap(), texts[..1]);
    let other = fetcher(false).metadata(&[of(Sha256::of_bytes(&texts[1]))]).unwrap_err();
    assert!(other.to_string().contains("METADATA of `beside-1.0-py3-none-any.whl`"), "{other}");
    for (one, wrong) in bad {
        let error = fetcher(false).metadata(std::slice::from_ref(&one)).unwrap_err();
        let causes = rocmrpm::error::Error::from(error);
        let output = format!("{causes} {:?}", causes.causes());
        assert!(output.contains(wrong), "{}: {output}", one.file);
        assert!(fetcher(true).metadata(&[one]).is_err(), "rejected METADATA must not be cached");
    }
}

#[test]
fn stops_resolution_without_leftovers() {
    let asked = Arc::new(AtomicBool::new(false));
    let ask = asked.clone();
    let server = TestServer::start(move |_| {
        ask.store(true, Ordering::SeqCst);
        std::thread::sleep(Duration::from_secs(3));
        Reply::status(503)
    });
    let fixture = ClosureFixture::new(&["a"], &[]);
    let index = server.url("/simple");
    let command = fixture.command(Some(&index), &["app", "--write"]);
    let running = fixture.workspace.start_with(&["closure", "app", "--write"], |start| {
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => start.env(name, value),
                None => start.env_remove(name),
            };
        }
    });
    wait_until("uv asks the index", || asked.load(Ordering::SeqCst));
    running.signal("INT");
    running.finish().exits(130);
    assert!(!fixture.workspace.path("pins/p.requirements.lock").exists());
}

#[test]
fn writers_wait_for_each_other() {
    let (asked, go_on) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (asks, may) = (asked.clone(), go_on.clone());
    let index = Index::default().wheel("a", "1.0", &["License-Expression: MIT"]);
    let server = index.serve_after(move |_| {
        asks.fetch_add(1, Ordering::SeqCst);
        while !may.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let fixture = ClosureFixture::new(&["a"], &[]);
    let start = || {
        let mut command = fixture.command(Some(&server.url("/simple")), &["app", "--write"]);
        std::thread::spawn(move || ran(&mut command))
    };
    let first = start();
    wait_until("the first one asks the index", || asked.load(Ordering::SeqCst) > 0);
    let second = start();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(asked.load(Ordering::SeqCst), 1, "the second one waits");
    go_on.store(true, Ordering::SeqCst);
    first.join().unwrap().exits(0);
    second.join().unwrap().exits(0).reports(["Unchanged"]);
}

#[test]
fn fetches_locked_metadata_while_uv_resolves() {
    let fixture = ClosureFixture::new(&["a"], &[]);
    let index = || Index::default().wheel("a", "1.0", &["License-Expression: MIT"]);
    fixture.run(&index().serve(), &["app", "--write"]).exits(0);
    fs_err::remove_dir_all(fixture.workspace.cache()).unwrap();
    let (ours, others) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (asks, uv_asks) = (ours.clone(), others.clone());
    let server = index().serve_after(move |request| match request.header("user-agent") {
        Some(agent) if agent.starts_with("uv/") => {
            uv_asks.store(true, Ordering::SeqCst);
            wait_until("METADATA are asked for", || asks.load(Ordering::SeqCst));
        }
        _ => asks.store(true, Ordering::SeqCst),
    });
    fs_err::remove_dir_all(fixture.workspace.holder().join("uv-cache")).unwrap();
    fixture.run(&server, &["app", "--upgrade"]).exits(0);
    assert!(others.load(Ordering::SeqCst) && ours.load(Ordering::SeqCst));
}

#[test]
fn rejects_chroot_without_package_table() {
    let fixture = ClosureFixture::new(&["a"], &[("python3", "3.15.0~rc1"), ("python3-a", "1.0")]);
    let server = Index::default().wheel("a", "1.0", &[]).serve();
    let refused = |says: &[&str]| {
        fixture.run(&server, &["app", "--write"]).exits(3).reports(says.iter().copied());
        assert!(!fixture.workspace.root().join("pins/p.requirements.lock").exists());
    };
    refused(&[
        "for a release with Python 3.15.0~rc1, but the chroot has 3.14",
        "mock-configs/c.toml",
    ]);
    fs_err::remove_file(fixture.workspace.root().join("mock-configs/packages/t.tsv")).unwrap();
    refused(&[
        "cannot read the package table `mock-configs/packages/t.tsv`",
        "help: add mock-configs/packages/t.tsv",
    ]);
    fixture.workspace.write("mock-configs/c.toml", CHROOT.replace("packages = [\"t\"]\n", ""));
    refused(&[
        "the chroot `c` has no package table",
        "help: add `packages = [\"TABLE\"]` to mock-configs/c.toml",
    ]);
}

#[test]
fn reads_actual_requirements_next_to_the_table() {
    let fixture = ClosureFixture::new(&["a"], &[("python3-a", "1.0"), ("python3-b", "2.0")]);
    let server = Index::default()
        .wheel("a", "1.0", &["Requires-Dist: b<2"])
        .wheel("b", "1.0", &[])
        .wheel("b", "2.0", &[])
        .serve();
    let places = || {
        let ran = fixture.run(&server, &["app", "--json"]);
        let document: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
        let members = document["members"].as_array().unwrap().clone();
        members
            .iter()
            .map(|m| format!("{} {}", m["name"], m["place"]).replace('"', ""))
            .collect::<Vec<_>>()
    };
    assert_eq!(places(), ["a private", "b private"], "dnf could not install python3-a");
    let list = "mock-configs/packages/t.requires.toml";
    let entry = |version: &str| {
        format!(
            "[[package]]\nname = \"a\"\nversion = \"{version}\"\nrequires = [\"b\"]\nsource = \"a.spec:7\"\n"
        )
    };
    fixture.workspace.write(list, entry("1.0"));
    assert_eq!(places(), ["a system", "b system"]);
    fixture.workspace.write(list, entry("0.9"));
    fixture.run(&server, &["app"]).exits(3).reports([
        "`a` 0.9 is not the version of the package table",
        "mock-configs/packages/t.requires.toml:2",
        "the table has 1.0",
        "then set `version`",
    ]);
}

#[test]
fn rejects_repositories_without_python_packages() {
    let fixture = ClosureFixture::new(&["a"], &[]);
    let server = Index::default().wheel("a", "1.0", &[]).serve();
    let repository = fixture.workspace.holder().join("repository");
    fs_err::create_dir(&repository).unwrap();
    rocmrpm::process::Command::new("createrepo_c").arg("-q").arg(&repository).output().unwrap();
    let url =
        format!("\n[[repositories]]\nid = \"r\"\nurl = \"file://{}\"\n", repository.display());
    fixture.workspace.write("mock-configs/c.toml", CHROOT.to_owned() + &url);
    fixture
        .run(&server, &["app", "--live"])
        .exits(3)
        .reports(["no repository of `c` has a package for Python 3.14", "mock-configs/c.toml"]);
}

/// Returns an index where `app` 1.0 was released on 2026-05-10 and three distributions have one
/// version each from before and after that day.
fn dated_index() -> Index {
    let mut index = Index::default().on("2026-05-10").sdist(
        "app",
        "1.0",
        &["Requires-Dist: x", "Requires-Dist: y"],
    );
    for (day, version) in [("2026-05-10", "1.0"), ("2026-05-11", "1.1")] {
        index = index.on(day).wheel("x", version, &["Requires-Dist: z"]);
        index = index.wheel("y", version, &[]).wheel("z", version, &[]);
    }
    index
}

#[test]
fn resolves_as_of_the_release_day_of_the_component() {
    let fixture = ClosureFixture::new(&[], &[("python3-setuptools", "80")]);
    let index = dated_index();
    let digest = index.digest("app-1.0.tar.gz");
    let server = index.serve();
    let pin = format!("[app]\nversion = \"1.0\"\nsdist = \"app\"\nsha256 = \"{digest}\"\n");
    fixture.workspace.write("pins/p.toml", pin);
    assert_eq!(versions(&fixture.members(&server)), ["x 1.0", "y 1.0", "z 1.0"]);
    let ran = fixture.run(&server, &["app", "--json"]);
    assert_eq!(ran.exits(0).json()["not_after"], "2026-05-10");
    assert!(
        fixture
            .run(&server, &["app"])
            .exits(0)
            .stdout
            .contains("with the pins of p, as of 2026-05-10\n")
    );

    // A later version of one member requires an explicit decision.
    let toml = |text: &str| fixture.workspace.write("specs-templates/app/component.toml", text);
    toml(
        "[closure]\n[[closure.member]]\nname = \"z\"\nnot-after = \"2026-05-11\"\nreason = \"a fix\"\n",
    );
    assert_eq!(versions(&fixture.members(&server)), ["x 1.0", "y 1.0", "z 1.1"]);
    toml("[closure]\nnot-after = \"2026-05-11\"\n");
    assert_eq!(versions(&fixture.members(&server)), ["x 1.1", "y 1.1", "z 1.1"]);
    toml("[closure]\nnot-after = \"May\"\n");
    fixture.run(&server, &["app"]).exits(3).reports(["this is not a day", "component.toml:2"]);
}

#[test]
fn resolves_again_for_another_cutoff() {
    let fixture = ClosureFixture::new(&[], &[("python3-setuptools", "80")]);
    let index = dated_index();
    let digest = index.digest("app-1.0.tar.gz");
    let wheel = index.digest("x-1.0-py3-none-any.whl");
    let server = index.serve();
    let pin = format!("[app]\nversion = \"1.0\"\nsdist = \"app\"\nsha256 = \"{digest}\"\n");
    fixture.workspace.write("pins/p.toml", pin);
    let rest = "[[closure.member]]\nname = \"x\"\nlicense = \"MIT\"\nreason = \"r\"\n\
                [[closure.member]]\nname = \"y\"\nlicense = \"MIT\"\nreason = \"r\"\n\
                [[closure.member]]\nname = \"z\"\nlicense = \"MIT\"\nreason = \"r\"\n";
    let toml = |head: &str| {
        fixture.workspace.write("specs-templates/app/component.toml", format!("{head}{rest}"))
    };
    toml("[closure]\n");
    fixture.run(&server, &["--write"]).exits(0);
    let lock = fixture.lock();
    assert!(
        lock.contains("\n# not-after: 2026-05-10\n") && lock.contains(&wheel.to_string()),
        "{lock}"
    );
    fixture.run(&server, &["--check"]).exits(0);
    fixture.run(&server, &["--check", "--offline"]).exits(0);

    toml("[closure]\nnot-after = \"2026-06-01\"\n");
    fixture
        .run(&server, &["--offline"])
        .exits(30)
        .reports(["pins/p.requirements.lock has the cutoff 2026-05-10, not 2026-06-01"]);
    assert_eq!(fixture.lock(), lock);
    fixture.run(&server, &["--check"]).exits(1).reports(["Differs pins/p.requirements.lock"]);
    fixture.run(&server, &["--write", "--upgrade"]).exits(0);
    assert!(fixture.lock().contains("\n# not-after: 2026-06-01\n"));
}
