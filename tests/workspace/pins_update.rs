//! `rocmrpm pins outdated`, `update`, `export` and `import`, against git repositories and
//! package indexes on disk.

use std::path::Path;

use crate::support::archive::tar_gz;
use crate::support::{Ran, Workspace};
use rocmrpm::digest::Sha256;
use snapbox::{IntoData, assert_data_eq, str};

/// A workspace of a component from git, with further sources, and one from the index.
/// The chroot is `fedora-43`, so that nothing depends on this machine.
const FILES: &[(&str, &str)] = &[
    (
        "rocmrpm.toml",
        "[stack]\nname = \"lab\"\ngpu-targets = [\"gfx1151\"]\ndefault-chroot = \"fedora-43\"\ndefault-pins = \"stable\"\n",
    ),
    ("specs-templates/engine/component.toml", ENGINE),
    ("specs-templates/engine/0001-say-more.patch", PATCH),
    ("specs-templates/engine/engine.spec.tera", "%build\nexport ENGINE_ARCHS=\"gfx1151\"\n"),
    ("specs-templates/wheel/component.toml", ""),
    ("specs-templates/wheel/wheel.spec.tera", ""),
    ("specs-templates/own/component.toml", ""),
    ("specs-templates/own/own.spec.tera", ""),
    ("src/own/a.txt", "a\n"),
    (
        "mock-configs/fedora-43.toml",
        "release = \"43\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc43\"\nrocm-provider = \"fedora\"\n\
         base-config = \"fedora-43-x86_64.cfg\"\n",
    ),
    ("mock-configs/rocm/fedora.toml", "prefix = \"/usr\"\nversion = \"6.4\"\n"),
];

const ENGINE: &str = r#"
[env]
ENGINE_OLD = "1"

[[edit]]
file = "CMakeLists.txt"
find = "VERSION 3.20"
replace = "VERSION 3.26"
matches = 1
reason = "Fedora's policy"

[[edit]]
file = "setup.py"
find = "ninja"
replace = "make"
matches = 2
versions = "<2"
reason = "a test"
"#;

const PATCH: &str = "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n\
    From: rocmrpm <rocmrpm@users.noreply.github.com>\nDate: Mon, 5 Jan 2026 12:00:00 +0000\n\
    Subject: [PATCH] Say more\n\nWhy.\n\nOrigin: own\nDrop-When: upstream says more\n---\n hello.txt | 2 +-\n\n\
    diff --git a/hello.txt b/hello.txt\n--- a/hello.txt\n+++ b/hello.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+two and more\n three\n-- \n2.43\n";

const CMAKE: &str = "cmake_minimum_required(VERSION 3.20)\nset(ARCHS gfx90a gfx942 gfx1151)\n\
                     if(DEFINED ENV{ENGINE_OLD})\nendif()\n";

/// Returns pins/stable.toml, with comments.
fn pins(workspace: &Workspace) -> String {
    let dir = workspace.holder().display();
    let [engine, kernels] = ["engine", "kernels"].map(|name| commit_of(workspace, name, "v1.0"));
    let digest = Sha256::of_bytes(sdist("wheel", "1.0", ""));
    format!(
        "# The top.\n[engine] # the engine\nversion = \"1.0\" # 1.0 is the last with gfx1151\n\
         git = \"{dir}/engine\"\ncommit = \"{engine}\"\n\n\
         [engine.sources.kernels]\nversion = \"1.0\" # engine 1.0, setup.py:1\ngit = \"{dir}/kernels\"\n\
         commit = \"{kernels}\"\n\n[engine.sources.data]\ngit = \"{dir}/engine\"\ncommit = \"{engine}\"\n\n\
         [wheel]\nversion = \"1.0\"\nsdist = \"wheel\"\nsha256 = \"{digest}\"\npython = \">=3.10, <3.14\"\n\n\
         [own]\nversion = \"1\"\npath = \"src/own\"\n"
    )
}

/// Creates the workspace: repositories with the tags v1.0, v1.1-rc1, v2.0 and rocm-9.9, and an
/// index with wheel 1.0, 1.1, 1.2 (yanked) and 2.0rc1.
fn workspace() -> Workspace {
    let workspace = Workspace::with(FILES);
    let engine = repository(&workspace, "engine");
    release(
        &workspace,
        &engine,
        "v1.0",
        &[
            ("CMakeLists.txt", CMAKE),
            ("hello.txt", "one\ntwo\nthree\n"),
            ("setup.py", "import os\nx = os.environ.get('ENGINE_ARCHS')\n'ninja ninja'\n"),
            (
                "pyproject.toml",
                "[build-system]\nrequires = [\"torch==2.11.0\", \"ninja\"]\n[project]\nrequires-python = \">=3.10\"\n",
            ),
            ("LICENSE", "MIT\n"),
            (
                ".gitmodules",
                "[submodule \"x\"]\n\tpath = third_party/x\n\turl = https://example.org/x\n",
            ),
        ],
    );
    release(&workspace, &engine, "v1.1-rc1", &[("hello.txt", "one\ntwo\nthree\nfour\n")]);
    release(&workspace, &engine, "rocm-9.9", &[]);
    release(
        &workspace,
        &engine,
        "v2.0",
        &[
            (
                "CMakeLists.txt",
                "cmake_minimum_required(VERSION 3.20)\nset(ARCHS gfx90a gfx942 gfx950)\n\
                 include(FetchContent)\nFetchContent_Declare(extra GIT_REPOSITORY https://example.org/extra GIT_TAG v1)\n",
            ),
            ("hello.txt", "one\nTWO\nthree\n"),
            (
                "setup.py",
                "import os\nx = os.environ.get('ENGINE_ARCHS')\ny = os.getenv('ENGINE_NEW')\n",
            ),
            (
                "pyproject.toml",
                "[build-system]\nrequires = [\"torch==2.12.0\"]\n[project]\nrequires-python = \">=3.11\"\n",
            ),
            ("LICENSE", "Apache-2.0\n"),
            (".gitmodules", ""),
        ],
    );
    let kernels = repository(&workspace, "kernels");
    release(&workspace, &kernels, "v1.0", &[("a.txt", "a\n")]);
    release(&workspace, &kernels, "v1.0.1", &[("a.txt", "b\n")]);
    let page = [
        file(&workspace, "1.0", ""),
        file(&workspace, "1.1", "data-requires-python='&gt;=3.10,&lt;3.14'"),
        file(&workspace, "1.2", "data-yanked='bad'"),
        file(&workspace, "2.0rc1", ""),
    ];
    fs_err::write(workspace.holder().join("simple/wheel/index.html"), page.concat()).unwrap();
    workspace.write("pins/stable.toml", pins(&workspace));
    workspace
}

fn repository(workspace: &Workspace, name: &str) -> std::path::PathBuf {
    let dir = workspace.holder().join(name);
    fs_err::create_dir(&dir).unwrap();
    workspace.git_in(&dir, &["init", "--quiet", "--initial-branch=main"]);
    dir
}

fn release(workspace: &Workspace, dir: &Path, tag: &str, files: &[(&str, &str)]) {
    for (path, text) in files {
        fs_err::write(dir.join(path), text).unwrap();
    }
    workspace.git_in(dir, &["add", "--all"]);
    workspace.git_in(dir, &["commit", "--quiet", "--allow-empty", "--message", tag]);
    workspace.git_in(dir, &["tag", "--annotate", "--message", tag, tag]);
}

fn commit_of(workspace: &Workspace, name: &str, tag: &str) -> String {
    workspace
        .git_in(&workspace.holder().join(name), &["rev-parse", &format!("{tag}^{{}}")])
        .trim()
        .to_owned()
}

fn sdist(name: &str, version: &str, setup: &str) -> Vec<u8> {
    let files = [("setup.py", setup), ("PKG-INFO", "Metadata-Version: 2.1\n")];
    tar_gz(&format!("{name}-{version}"), &files)
}

/// Puts an sdist of `wheel` on the workspace's index and returns its link.
fn file(workspace: &Workspace, version: &str, attributes: &str) -> String {
    let dir = workspace.holder().join("simple/wheel");
    fs_err::create_dir_all(&dir).unwrap();
    let bytes = sdist("wheel", version, "");
    let name = format!("wheel-{version}.tar.gz");
    fs_err::write(dir.join(&name), &bytes).unwrap();
    format!("<a {attributes} href='{name}#sha256={}'>x</a>\n", Sha256::of_bytes(&bytes))
}

/// Runs the program with the workspace's index.
fn run(workspace: &Workspace, args: &[&str]) -> Ran {
    let index = format!("file://{}/simple", workspace.holder().display());
    workspace.outcome(workspace.command(args).env("PIP_INDEX_URL", index))
}

#[test]
fn lists_newer_releases_with_their_sources() {
    let workspace = workspace();
    let ran = run(&workspace, &["pins", "outdated"]);
    ran.exits(1);
    assert_data_eq!(
        ran.stdout,
        str![[r#"
COMPONENT       PINNED  NEWEST   PYTHON 3.14        LOOKED UP
engine          1.0     2.0      -                  [HOLDER]/engine
engine/kernels  1.0     1.0.1    -                  [HOLDER]/kernels
own             1       unknown  -                  a folder of the workspace
wheel           1.0     1.1      no: >=3.10, <3.14  pip index

"#]]
        .raw()
    );
    let json = run(&workspace, &["pins", "outdated", "--pre", "--json"])
        .exits(1)
        .document("rocmrpm/pins-outdated/1");
    let newest: Vec<_> =
        json["components"].as_array().unwrap().iter().map(|row| row["newest"].clone()).collect();
    assert_eq!(newest, ["2.0".into(), "1.0.1".into(), serde_json::Value::Null, "2.0rc1".into()]);

    // For a single component; the suggested command has the same pin set.
    let one = run(&workspace, &["pins", "outdated", "engine", "--pins", "stable"]);
    one.exits(1);
    one.reports(["`rocmrpm pins update engine --pins stable --dry-run`"]);
    assert!(
        !one.stdout.contains("wheel") && one.stdout.contains("engine/kernels"),
        "{}",
        one.stdout
    );
    run(&workspace, &["pins", "outdated", "engin"]).exits(2).reports(["did you mean `engine`?"]);

    workspace.replace("pins/stable.toml", "python = \">=3.10, <3.14\"\n", "");
    run(&workspace, &["pins", "outdated"]).exits(1).prints(["yes; newest no: >=3.10,<3.14"]);
    run(&workspace, &["pins", "update", "wheel"]).exits(0);
    run(&workspace, &["pins", "update", "engine"]).exits(0);
    workspace.replace(
        "pins/stable.toml",
        "version = \"1.0\" # engine 1.0",
        "version = \"1.0.1\" # engine 1.0",
    );
    run(&workspace, &["pins", "outdated"]).exits(0);
}

#[test]
fn unreachable_origin_is_a_row_unless_all_are_unreachable() {
    let workspace = workspace();
    fs_err::remove_dir_all(workspace.holder().join("kernels")).unwrap();
    run(&workspace, &["pins", "outdated"])
        .exits(1)
        .prints(["engine/kernels  1.0     unreachable"])
        .reports(["1 of 3 origins could not be queried; the first error:"]);
    fs_err::remove_dir_all(workspace.holder().join("engine")).unwrap();
    let ran = workspace.run(&["pins", "outdated"]);
    ran.exits(30);
    ran.prints(["engine/kernels  1.0     unreachable"]);
    ran.reports(["cannot list newer releases: reached 0 of 3 origins"]);
}

#[test]
fn update_changes_only_values_and_shows_what_matters() {
    let workspace = workspace();
    let before = workspace.files();
    run(&workspace, &["pins", "update", "engine", "--dry-run"])
        .exits(0)
        .reports(["dry run: no changes made"]);
    assert_eq!(workspace.files(), before);

    let ran = run(&workspace, &["pins", "update", "engine"]);
    ran.exits(0).reports(["`rocmrpm lock --pins stable`"]);
    let [old, new] = ["v1.0", "v2.0"].map(|tag| commit_of(&workspace, "engine", tag));
    let shown = ran.stdout.replace(&old[..12], "[OLD]").replace(&new[..12], "[NEW]");
    assert_data_eq!(
        shown,
        str![[r#"
engine 1.0 -> 2.0
  engine.version             1.0 -> 2.0
  engine.commit              [OLD]... -> [NEW]...
  engine.sources.data.commit [OLD]... -> [NEW]...
  ! kernels stays at 1.0: it has its own version; `rocmrpm pins derive --from engine=2.0` finds the one that belongs to it
Comments in pins/stable.toml that mention 1.0
  3: version = "2.0" # 1.0 is the last with gfx1151
  8: version = "1.0" # engine 1.0, setup.py:1
Patches and edits
  0001-say-more.patch     does not apply
      hello.txt, hunk 1 (@@ -1,3 +1,3 @@): its lines were not found
        upstream changed this from 1.0 to 2.0:
        | @@ -1,3 +1,3 @@
        |  one
        | -two
        | +TWO
        |  three
  edit of CMakeLists.txt  applies
  - edit of setup.py (for <2)
GPU targets
  ARCHS in CMakeLists.txt
    + gfx950
    - gfx1151
  ! gfx1151, which the workspace builds for, was removed from a list
Python
  requires-python >=3.10 -> >=3.11
Environment variables that the build reads
  + ENGINE_NEW  setup.py:3
  - ENGINE_OLD  CMakeLists.txt:3  still set in specs-templates/engine/component.toml:3
Requirements
  build-system
    - ninja
      torch ==2.11.0 -> ==2.12.0
Downloads of the build scripts
  + extra  CMakeLists.txt:4
Submodules
  - third_party/x https://example.org/x
License files
    LICENSE changed

"#]]
        .raw()
    );
    let expected = pins(&workspace)
        .replace("version = \"1.0\" # 1.0 is", "version = \"2.0\" # 1.0 is")
        .replace(&format!("commit = \"{old}\""), &format!("commit = \"{new}\""));
    assert_eq!(workspace.read("pins/stable.toml"), expected);
    run(&workspace, &["pins", "update", "engine"]).exits(0).reports(["Unchanged"]);

    let back = run(&workspace, &["pins", "update", "engine", "1.0", "--json"]);
    let back =
        back.exits(0).reports(["engine 1.0 is older than 2.0"]).document("rocmrpm/pins-update/1");
    assert_eq!(back["older"], true);
    assert_eq!(back["upstream"]["patches"]["patches"][0]["state"], "applies");
    assert_eq!(workspace.read("pins/stable.toml"), pins(&workspace));
}

#[test]
fn pins_an_sdist_with_the_spelling_of_the_index() {
    let workspace = workspace();
    run(&workspace, &["pins", "update", "wheel", "1.1.0"])
        .exits(0)
        .prints(["wheel.version 1.0 -> 1.1"]);
    let digest = Sha256::of_bytes(sdist("wheel", "1.1", ""));
    assert!(
        workspace
            .read("pins/stable.toml")
            .contains(&format!("version = \"1.1\"\nsdist = \"wheel\"\nsha256 = \"{digest}\""))
    );
    run(&workspace, &["pins", "update", "wheel", "1.2"])
        .exits(0)
        .reports(["wheel-1.2.tar.gz is yanked"]);
}

#[test]
fn url_follows_its_forge() {
    let workspace = workspace();
    let dir = workspace.holder().join("engine/archive");
    fs_err::create_dir(&dir).unwrap();
    for version in ["1.0", "2.0"] {
        fs_err::write(dir.join(format!("v{version}.tar.gz")), sdist("engine", version, ""))
            .unwrap();
    }
    let digest = |version| Sha256::of_bytes(sdist("engine", version, ""));
    let url = format!("file://{}/engine/archive/v{{version}}.tar.gz", workspace.holder().display());
    let pin = |version| {
        let digest = digest(version);
        format!(
            "engine = {{ version = \"{version}\", url = \"{url}\", sha256 = \"{digest}\", top-folder = \"engine-{version}\" }}\r\n"
        )
    };
    workspace.write("pins/stable.toml", pin("1.0"));
    run(&workspace, &["pins", "outdated"]).exits(1).prints(["engine     1.0     2.0"]);
    run(&workspace, &["pins", "update", "engine"]).exits(0);
    assert_eq!(workspace.read("pins/stable.toml"), pin("2.0"));
    let ran = run(&workspace, &["pins", "update", "engine", "2.1"]);
    ran.exits(2);
    ran.reports(["no tag for version 2.1", "help: the nearest are"]);
    assert_eq!(workspace.read("pins/stable.toml"), pin("2.0"));
    // An unavailable old source does not prevent an update.
    fs_err::remove_file(dir.join("v2.0.tar.gz")).unwrap();
    fs_err::remove_dir_all(workspace.holder().join("cache")).unwrap();
    run(&workspace, &["pins", "update", "engine", "1.0"])
        .exits(0)
        .prints(["Upstream's changes are unknown"]);

    workspace.replace("pins/stable.toml", "{version}", "1.0");
    run(&workspace, &["pins", "update", "engine", "2.0"])
        .exits(2)
        .reports(["its URL has no `{version}`"]);
}

#[test]
fn failed_update_writes_nothing() {
    let workspace = workspace();
    let before = workspace.files();
    for (args, code, says) in [
        (&["engin"][..], 2, &["there is no component `engin`", "did you mean `engine`?"][..]),
        (&["engine", "3.0"], 2, &["no tag for version 3.0", "v2.0"]),
        (&["wheel", "9"], 2, &["no sdist of `wheel` 9", "the nearest are 2.0rc1"]),
        (&["own"], 2, &["its source is a folder of the workspace"]),
    ] {
        run(&workspace, &[&["pins", "update"], args].concat()).exits(code).reports(says);
        assert_eq!(workspace.files(), before, "{args:?}");
    }
    let path = workspace.path("pins/stable.toml");
    let mut permissions = fs_err::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    fs_err::set_permissions(&path, permissions).unwrap();
    run(&workspace, &["pins", "update", "engine"])
        .exits(20)
        .reports(["`pins/stable.toml` is read-only"]);
    assert_eq!(workspace.files(), before);
}

#[test]
fn export_and_import_round_trip() {
    let workspace = workspace();
    let text = pins(&workspace).replace("[engine]", "[torch]").replace("[engine.", "[torch.");
    workspace.write("upstreams.toml", "[[component]]\nname = \"torch\"\ntherock = \"pytorch\"\n");
    for name in ["component.toml", "engine.spec.tera"] {
        let text = workspace.read(format!("specs-templates/engine/{name}"));
        workspace.write(format!("specs-templates/torch/{name}"), &text);
    }
    workspace.write("pins/stable.toml", &text);
    let before = workspace.files();
    for (format, warns) in
        [("versions-env", None), ("source-manifest", Some("left out: own, wheel"))]
    {
        let file = workspace.holder().join(format);
        let file = file.to_str().unwrap();
        let ran = run(&workspace, &["pins", "export", "--format", format, "-o", file]);
        ran.exits(0);
        ran.reports(warns.as_slice());
        run(&workspace, &["pins", "import", file]).exits(0).reports(["Unchanged"]);
        assert_eq!(workspace.files(), before, "{format}");
    }
    let commit = commit_of(&workspace, "engine", "v1.0");
    let exported = run(&workspace, &["pins", "export", "--format", "source-manifest"]).stdout;
    assert_eq!(
        exported,
        format!(
            "{{\n  \"schema_version\": 1,\n  \"pytorch\": {{\n    \"repo\": \"[HOLDER]/engine\",\n    \
             \"commit\": \"{commit}\",\n    \"version\": \"1.0\"\n  }}\n}}\n"
        )
    );
    let exported = run(&workspace, &["pins", "export", "--format", "versions-env"]).stdout;
    let sh = std::process::Command::new("sh")
        .args(["-euc", &format!("{exported}\necho \"$ROCM_VERSION $GPU_TARGETS $TORCH_VERSION $TORCH_KERNELS_VERSION $WHEEL_SHA256\"")])
        .output()
        .unwrap();
    let digest = Sha256::of_bytes(sdist("wheel", "1.0", ""));
    assert_eq!(String::from_utf8(sh.stdout).unwrap(), format!("6.4 gfx1151 1.0 1.0 {digest}\n"));
}

#[test]
fn import_updates_versions_and_resolves_the_rest() {
    let workspace = workspace();
    let new = commit_of(&workspace, "engine", "v2.0");
    workspace.write(
        "v.env",
        "# versions\nexport ENGINE_VERSION='2.0'\nWHEEL_VERSION=1.1\nVLM_VERSION=3\nROCM_VERSION=7\n",
    );
    let ran = run(&workspace, &["pins", "import", "v.env", "--dry-run"]);
    ran.exits(0);
    ran.reports([
        "has no pins for: VLM_VERSION",
        "ignored ROCM_VERSION 7",
        "dry run: no changes made",
    ]);
    assert_eq!(workspace.read("pins/stable.toml"), pins(&workspace));
    run(&workspace, &["pins", "import", "v.env"])
        .exits(0)
        .prints(["engine.version", "engine.sources.data.commit"]);
    let old = commit_of(&workspace, "engine", "v1.0");
    let [before, after] =
        ["1.0", "1.1"].map(|version| Sha256::of_bytes(sdist("wheel", version, "")).to_string());
    let expected = pins(&workspace)
        .replace("version = \"1.0\" # 1.0 is", "version = \"2.0\" # 1.0 is")
        .replace(&format!("commit = \"{old}\""), &format!("commit = \"{new}\""))
        .replace("version = \"1.0\"\nsdist", "version = \"1.1\"\nsdist")
        .replace(&before, &after);
    assert_eq!(workspace.read("pins/stable.toml"), expected);
}

#[test]
fn rejects_ambiguous_imports_with_their_location() {
    let workspace = workspace();
    let before = workspace.files();
    for (text, says) in [
        (
            "WHEEL_VERSION=1.0\nWHEEL_VERSION=1.1\n",
            &["WHEEL_VERSION is set twice", "x:2:15", "it is `1.0` in line 1"][..],
        ),
        ("A=1\nWHEEL_VERSION=${V:-1.1}\n", &["needs a shell to compute it", "x:2:15"]),
        ("touch /tmp/x\n", &["this is not an assignment", "keep only assignments"]),
        ("ENGINE_COMMIT=main\n", &["`main` is not a full commit", "can move"]),
        ("WHEEL_COMMIT=main\n", &["the pin `wheel` is an sdist"]),
        ("WHEEL_VERSION='1 0'\n", &["`1 0` cannot be the version of an RPM"]),
        ("{\"triton\": {\"repo\": \"u\"}, \"triton\": {}}", &["`triton` is defined twice"]),
        ("{\"schema_version\": 2}", &["schema version 2"]),
        ("{\"schema_version\": 1,\n", &["this is not a source manifest"]),
    ] {
        let file = workspace.holder().join("x");
        fs_err::write(&file, text).unwrap();
        run(&workspace, &["pins", "import", file.to_str().unwrap()]).exits(3).reports(says);
    }
    assert_eq!(workspace.files(), before);
    workspace.write(
        "pins/stable.toml",
        pins(&workspace).replace("[engine]", "[triton]").replace("[engine.", "[triton."),
    );
    fs_err::rename(
        workspace.path("specs-templates/engine"),
        workspace.path("specs-templates/triton"),
    )
    .unwrap();
    workspace.write("upstreams.toml", "[[component]]\nname = \"triton\"\ntherock = \"triton\"\n");
    workspace.write("m.json", "{\"triton\": {\"repo\": \"u\", \"branch\": \"main\"}}");
    run(&workspace, &["pins", "import", "m.json"])
        .exits(3)
        .reports(["the branch `main` but no commit"]);
}

#[test]
fn interrupt_is_not_an_unreachable_origin() {
    let workspace = workspace();
    // A server that accepts the connection and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("git = \"http://{}/engine.git\"", silent.local_addr().unwrap());
    workspace.replace(
        "pins/stable.toml",
        &format!("git = \"{}/engine\"", workspace.holder().display()),
        &url,
    );
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rocmrpm"));
    let cache = workspace.holder().join("cache");
    command
        .args(["pins", "outdated", "engine"])
        .current_dir(workspace.root())
        .env("ROCMRPM_CACHE", cache);
    let child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let _connection = silent.accept().unwrap();
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
}
