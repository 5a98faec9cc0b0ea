//! `rocmrpm pins import` and `export` of TheRock's source manifests, against git repositories on disk.

use std::cmp::Ordering;
use std::path::Path;

use crate::support::{Ran, Workspace};
use rocmrpm::workspace::compare;
use serde_json::{Value, json};

const FILES: &[(&str, &str)] = &[
    (
        "rocmrpm.toml",
        "[stack]\nname = \"lab\"\ngpu-targets = [\"gfx1151\"]\ndefault-chroot = \"fedora-43\"\ndefault-pins = \"nightly\"\n",
    ),
    (
        "mock-configs/fedora-43.toml",
        "release = \"43\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc43\"\nrocm-provider = \"fedora\"\n\
         base-config = \"fedora-43-x86_64.cfg\"\n",
    ),
    ("mock-configs/rocm/fedora.toml", "prefix = \"/usr\"\nversion = \"6.4\"\n"),
    (
        "upstreams.toml",
        "[[component]]\nname = \"torch\"\ntherock = \"pytorch\"\n\n\
         [[component]]\nname = \"triton\"\ngit = \"https://example.org/triton\"\nsubmodules = true\n\
         therock = \"triton\"\n\n\
         [[component]]\nname = \"torchvision\"\ntherock = \"pytorch_vision\"\n",
    ),
    ("src/own/a.txt", "a\n"),
];

/// The digest of a file that is not fetched.
const DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The day of every commit in a repository of a test.
const DAY: &str = "20260105";

/// Creates a workspace that pins torch to a tag, triton to a file, and torchvision to a branch.
fn workspace() -> Workspace {
    let workspace = Workspace::with(FILES);
    for name in ["torch", "triton", "torchvision", "own"] {
        workspace.write(format!("specs-templates/{name}/component.toml"), "");
        workspace.write(format!("specs-templates/{name}/{name}.spec.tera"), "");
    }
    let [torch, _, _] = ["torch", "triton", "torchvision"].map(|name| {
        let first = commit(&workspace, name);
        workspace.git_in(&workspace.holder().join(name), &["tag", "v2.12.0"]);
        first
    });
    let dir = workspace.holder().display();
    workspace.write(
        "pins/nightly.toml",
        format!(
            "[torch] # PyTorch\nversion = \"2.12.0\"\ngit = \"{dir}/torch\"\ncommit = \"{torch}\"\n\n\
             [torch.sources.tools]\ngit = \"{dir}/torch\"\ncommit = \"{torch}\"\npaths = [\"tools\"]\n\n\
             [torch.sources.data]\nurl = \"https://example.org/data.tar.gz\"\nsha256 = \"{DIGEST}\"\n\n\
             [triton]\nversion = \"3.6.0\"\n# Why 3.6.0.\n\
             url = \"https://example.org/triton-{{version}}.tar.gz\"\nsha256 = \"{DIGEST}\"\n\
             top-folder = \"triton-3.6.0\"\n\n\
             [triton.sources.llvm]\nversion = \"23.0\"\ngit = \"{dir}/torch\"\ncommit = \"{torch}\"\n\n\
             [torchvision]\ngit = \"{dir}/torchvision\"\nbranch = \"main\"\nversion-from = \"f\"\n\n\
             [own]\nversion = \"1\"\npath = \"src/own\"\n"
        ),
    );
    workspace
}

/// Adds a commit to a repository, which is created if missing, and returns it.
fn commit(workspace: &Workspace, name: &str) -> String {
    let dir = workspace.holder().join(name);
    if !dir.exists() {
        fs_err::create_dir(&dir).unwrap();
        workspace.git_in(&dir, &["init", "--quiet", "--initial-branch=main"]);
    }
    workspace.git_in(&dir, &["commit", "--quiet", "--allow-empty", "--message", name]);
    workspace.git_in(&dir, &["rev-parse", "HEAD"]).trim().to_owned()
}

/// Returns a project of a manifest.
fn project(workspace: &Workspace, name: &str, commit: &str, version: &str) -> Value {
    let repo = workspace.holder().join(name);
    json!({"repo": repo, "commit": commit, "branch": "nightly", "version": version})
}

fn import(workspace: &Workspace, manifest: &Value) -> Ran {
    workspace.write("m.json", serde_json::to_string_pretty(manifest).unwrap());
    workspace.run(&["pins", "import", "m.json"])
}

fn export(workspace: &Workspace) -> Value {
    let args = ["pins", "export", "--format", "source-manifest"];
    let ran = workspace.run(&args);
    ran.exits(0).reports(["left out: own"]);
    let holder = workspace.holder().to_str().unwrap().to_owned();
    serde_json::from_str(&ran.stdout.replace("[HOLDER]", &holder)).unwrap()
}

fn pinned(workspace: &Workspace) -> toml::Table {
    workspace.read("pins/nightly.toml").parse().unwrap()
}

#[test]
fn imports_a_nightly_manifest_and_exports_it_again() {
    let workspace = workspace();
    let [torch, triton, vision] =
        ["torch", "triton", "torchvision"].map(|name| commit(&workspace, name));
    let manifest = json!({
        "schema_version": 1,
        "pytorch": project(&workspace, "torch", &torch, "2.13.0a0+rocm7.14.0"),
        "pytorch_vision": project(&workspace, "torchvision", &vision, "0.28.0.dev20260105+rocm7.14.0"),
        "triton": project(&workspace, "triton", &triton, "3.7.0+rocm7.14.0"),
        "apex": {"repo": "https://example.org/apex", "commit": torch, "version": "1.11.0"},
        "therock": {"repo": "https://example.org/rock", "commit": "unknown", "version": "7.14.0"},
    });
    let before = workspace.read("pins/nightly.toml");
    workspace.write("m.json", manifest.to_string());
    let ran = workspace.run(&["pins", "import", "m.json", "--dry-run"]);
    ran.exits(0).prints(["triton.sha256", "e3b0c44298fc... removed"]);
    assert_eq!(workspace.read("pins/nightly.toml"), before);
    import(&workspace, &manifest).exits(0).reports([
        "has no pins for: apex, therock",
        "ignored the label +rocm7.14.0 of `pytorch`",
        "the pin `torch.sources.data` stays at 2.12.0",
        "the pin `triton.sources.llvm` stays at 23.0: check that it belongs to `triton` 3.7.0~snapshot",
        "comments in pins/nightly.toml mention the old version of a pin: line 19",
        "rocmrpm lock --pins nightly",
    ]);
    let old = workspace.git_in(&workspace.holder().join("torch"), &["rev-parse", "v2.12.0"]);
    let (old, dir) = (old.trim(), workspace.holder().display().to_string());
    let [at_torch, at_triton, at_vision] =
        [&torch, &triton, &vision].map(|commit| format!("{DAY}git{}", &commit[..7]));
    assert_eq!(
        workspace.read("pins/nightly.toml"),
        format!(
            "[torch] # PyTorch\nversion = \"2.13.0~a0^{at_torch}\"\ngit = \"{dir}/torch\"\n\
             commit = \"{torch}\"\n\n\
             [torch.sources.tools]\ngit = \"{dir}/torch\"\ncommit = \"{torch}\"\npaths = [\"tools\"]\n\n\
             [torch.sources.data]\nurl = \"https://example.org/data.tar.gz\"\nversion = \"2.12.0\"\n\
             sha256 = \"{DIGEST}\"\n\n\
             [triton]\nversion = \"3.7.0~snapshot^{at_triton}\"\nsubmodules = true\n# Why 3.6.0.\n\
             git = \"{dir}/triton\"\ncommit = \"{triton}\"\n\n\
             [triton.sources.llvm]\nversion = \"23.0\"\ngit = \"{dir}/torch\"\ncommit = \"{old}\"\n\n\
             [torchvision]\ngit = \"{dir}/torchvision\"\nversion = \"0.28.0~dev20260105^{at_vision}\"\n\
             commit = \"{vision}\"\n\n\
             [own]\nversion = \"1\"\npath = \"src/own\"\n"
        )
    );
    import(&workspace, &manifest).exits(0).reports(["Unchanged"]);
    let exported = export(&workspace);
    for (project, version) in
        [("pytorch", "2.13.0a0"), ("pytorch_vision", "0.28.0.dev20260105"), ("triton", "3.7.0")]
    {
        let mut expected = manifest[project].clone();
        expected["version"] = version.into();
        expected.as_object_mut().unwrap().remove("branch");
        assert_eq!(exported[project], expected);
    }
    import(&workspace, &exported).exits(0).reports(["Unchanged"]);
    // The next commit of the day, a release, and a commit after it.
    let mut versions = vec![pinned(&workspace)["torch"]["version"].as_str().unwrap().to_owned()];
    for (version, tag) in [("2.13.0a0", None), ("2.13.0", Some("v2.13.0")), ("2.13.0", None)] {
        let next = commit(&workspace, "torch");
        if let Some(tag) = tag {
            workspace.git_in(&workspace.holder().join("torch"), &["tag", tag]);
        }
        let manifest = json!({"pytorch": project(&workspace, "torch", &next, version)});
        import(&workspace, &manifest).exits(0);
        versions.push(pinned(&workspace)["torch"]["version"].as_str().unwrap().to_owned());
    }
    assert_eq!(versions[2], "2.13.0");
    let rises = versions.is_sorted_by(|a, b| compare(a, b) == Ordering::Less);
    assert!(rises, "{versions:?}");
    let older = json!({"pytorch": project(&workspace, "torch", &torch, "2.13.0a0")});
    import(&workspace, &older).exits(0).reports(["`torch` goes back from 2.13.0^"]);
}

#[test]
fn keeps_a_branch_that_is_locked_at_the_commit() {
    let workspace = workspace();
    let dir = workspace.holder().join("torchvision");
    fs_err::write(dir.join("version.txt"), "0.28.0a0\n").unwrap();
    workspace.git_in(&dir, &["add", "--all"]);
    let vision = commit(&workspace, "torchvision");
    let pin = format!("[torchvision]\ngit = \"{}\"\nbranch = \"main\"\n", dir.display());
    let own = "[own]\nversion = \"1\"\npath = \"src/own\"\n";
    workspace.write("pins/nightly.toml", format!("{pin}\n{own}"));
    for unused in ["torch", "triton"] {
        fs_err::remove_dir_all(workspace.path(format!("specs-templates/{unused}"))).unwrap();
    }
    workspace.run(&["lock"]).exits(0);
    let exported = export(&workspace);
    let project = &exported["pytorch_vision"];
    let expected = json!({"repo": dir, "commit": vision, "branch": "main", "version": "0.28.0a0"});
    assert_eq!(*project, expected);
    import(&workspace, &exported).exits(0).reports(["Unchanged"]);
}

#[test]
fn imports_without_network_and_warns_about_the_day() {
    let workspace = workspace();
    let manifest = |commit: &str| {
        json!({
            "pytorch": {"repo": "http://127.0.0.1:1/x", "commit": commit, "version": "2.13.0a0+rocm7"},
        })
    };
    import(&workspace, &manifest(&"b".repeat(40))).exits(0).reports(["`torch` has no day"]);
    let first = pinned(&workspace)["torch"].clone();
    assert_eq!(first["version"].as_str(), Some("2.13.0~a0^0gitbbbbbbb"));
    assert_eq!(first["git"].as_str(), Some("http://127.0.0.1:1/x"));
    import(&workspace, &manifest(&"A".repeat(40))).exits(0);
    let next = pinned(&workspace)["torch"].clone();
    assert_eq!(next["version"].as_str(), Some("2.13.0~a0^0.1gitaaaaaaa"));
    assert_eq!(next["commit"].as_str(), Some("a".repeat(40).as_str()));
}

#[test]
fn rejects_invalid_manifests_with_their_location() {
    let workspace = workspace();
    let before = workspace.read("pins/nightly.toml");
    let dir = workspace.holder().join("torch");
    let repo = dir.display();
    let none = "c".repeat(40);
    for (text, says) in [
        ("pytorch".to_owned(), ["this is not a source manifest", "m.json:1:1"]),
        ("[]".to_owned(), ["this is not a source manifest", "m.json:1:1"]),
        ("{\n \"pytorch\": 1\n}".to_owned(), ["`pytorch` is not an object", "m.json:2:2"]),
        ("{\n \"pytorhc\": {}\n}".to_owned(), ["unknown project `pytorhc`", "m.json:2:2"]),
        (
            "{\"therock\": {}, \"pytorch_audio\": {}}".to_owned(),
            ["pins no project of this manifest", "m.json:1:1"],
        ),
        ("{}".to_owned(), ["pins no project of this manifest", "m.json:1:1"]),
        (
            format!("{{\"pytorch\": {{\"repo\": \"{repo}\"}}}}"),
            ["`commit` is missing in `pytorch`", "m.json:1:2"],
        ),
        (
            format!("{{\"pytorch\": {{\"commit\": \"{none}\"}}}}"),
            ["`repo` is missing in `pytorch`", "m.json:1:2"],
        ),
        (
            format!("{{\"pytorch\": {{\"repo\": \"x\", \"commit\": \"{none}\"}}}}"),
            ["`x` is not the URL of a git repository", "m.json:1:14"],
        ),
        (
            format!("{{\"pytorch\": {{\"repo\": 1, \"commit\": \"{none}\"}}}}"),
            ["`repo` of `pytorch` is not a string", "m.json:1:14"],
        ),
        (
            format!("{{\"triton\": {{\"repo\": \"{repo}\", \"commit\": \"main\"}}}}"),
            ["`main` is not a full commit", "m.json"],
        ),
        (
            format!(
                "{{\"triton\": {{\"repo\": \"{repo}\", \"commit\": \"{none}\", \"version\": \"1\"}}}}"
            ),
            ["has no commit cccccccccc", "m.json"],
        ),
        (
            format!(
                "{{\"triton\": {{\"repo\": \"{repo}\", \"commit\": \"{none}\", \"version\": \"1 2\"}}}}"
            ),
            ["`1 2` cannot be the version of an RPM", "m.json"],
        ),
    ] {
        workspace.write("m.json", &text);
        let ran = workspace.run(&["pins", "import", "m.json"]);
        ran.exits(3).reports(says);
        assert_eq!(ran.stderr.matches("help: ").count(), 1, "{text}\n{ran}");
        assert_eq!(workspace.read("pins/nightly.toml"), before);
    }
    assert!(!Path::new(&workspace.path("pins/nightly.lock")).exists());
}
