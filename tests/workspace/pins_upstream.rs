//! `rocmrpm pins derive` and `rocmrpm pins check`, with stand-ins for upstream sources: git
//! repositories and an index on disk. The last test uses a real sdist of vLLM.

use crate::support::archive::tar_gz;
use crate::support::{Index, Ran, Transcript, Workspace};

/// The components that the stand-in workspace has.
const COMPONENTS: [&str; 8] =
    ["aotriton", "extra", "torch", "torchaudio", "torchvision", "triton", "triton-kernels", "vllm"];

/// A workspace with upstream sources beside it.
struct Stand {
    workspace: Workspace,
    index: Index,
}

impl Stand {
    /// Creates the sources that torch 2.11.0 leads to, and an older base set.
    fn new() -> Self {
        let workspace = Workspace::init();
        workspace.write("upstreams.toml", include_str!("../../upstreams.toml"));
        for name in COMPONENTS {
            workspace.write(
                format!("specs-templates/{name}/component.toml"),
                "memory-per-job = \"1 GB\"\n",
            );
            workspace.write(format!("specs-templates/{name}/{name}.spec.tera"), "Name: x\n");
        }
        let stand = Self { workspace, index: Index::empty() };
        let llvm = stand.commit("llvm", "llvmorg-22", &[(
            "cmake/Modules/LLVMVersion.cmake",
            "if(NOT DEFINED LLVM_VERSION_MAJOR)\n  set(LLVM_VERSION_MAJOR 22)\nendif()\nset(LLVM_VERSION_MINOR 1)\nset(LLVM_VERSION_PATCH 0)\n",
        )]);
        for version in ["3.5.1", "3.6.0"] {
            let setup = format!(
                "TRITON_VERSION = \"{version}\" + suffix()\nMIN_PYTHON = (3, 10)\nMAX_PYTHON = (3, 14)\n"
            );
            stand.commit(
                "triton",
                &format!("v{version}"),
                &[("setup.py", &setup), ("cmake/llvm-hash.txt", &format!("{llvm}\n"))],
            );
        }
        for (repository, tag) in [
            ("vision", "v0.26.0"),
            ("audio", "v2.11.0"),
            ("aotriton", "0.11.2b"),
            ("vision", "v0.28.0"),
            ("vision", "v0.29.0"),
        ] {
            stand.commit(repository, tag, &[("version.txt", tag)]);
        }
        let aotriton = stand
            .workspace
            .git_in(&stand.repository("aotriton"), &["rev-parse", "0.11.2b^{commit}"]);
        for (version, triton) in [("2.11.0", "3.6.0"), ("2.14.0", "3.6.0")] {
            let cmake = format!(
                "if(NOT X)\n  set(__AOTRITON_VER \"0.11.2b\")\n  set(__AOTRITON_ROCM_LIST \"rocm6.2\" \"rocm7.2\")\n  set(__AOTRITON_CI_COMMIT \"{}\")\nendif()\n",
                aotriton.trim()
            );
            stand.commit(
                "torch",
                &format!("v{version}"),
                &[
                    ("version.txt", &format!("{version}a0\n")),
                    (
                        "pyproject.toml",
                        "[project]\nname = \"torch\"\nrequires-python = \">=3.10\"\n",
                    ),
                    (".ci/docker/triton_version.txt", &format!("{triton}\n")),
                    (
                        ".ci/docker/ci_commit_pins/triton.txt",
                        "5f40dc89506d67ab8e7aa2b7c8cf1351f8b22f31\n",
                    ),
                    ("cmake/External/aotriton.cmake", &cmake),
                ],
            );
        }
        stand.write_base();
        stand
    }

    fn repository(&self, name: &str) -> std::path::PathBuf {
        self.workspace.holder().join("upstream").join(name)
    }

    /// Commits files to a repository and tags the commit, which it returns.
    fn commit(&self, name: &str, tag: &str, files: &[(&str, &str)]) -> String {
        let dir = self.repository(name);
        fs_err::create_dir_all(&dir).unwrap();
        self.workspace.git_in(&dir, &["init", "--quiet", "--initial-branch=main"]);
        for (path, text) in files {
            let path = dir.join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        self.workspace.git_in(&dir, &["add", "--all"]);
        self.workspace.git_in(&dir, &["commit", "--quiet", "--allow-empty", "--message", tag]);
        self.workspace.git_in(&dir, &["tag", tag]);
        self.workspace.git_in(&dir, &["rev-parse", "HEAD"]).trim().to_owned()
    }

    fn commit_of(&self, name: &str, tag: &str) -> String {
        self.workspace
            .git_in(&self.repository(name), &["rev-parse", &format!("{tag}^{{commit}}")])
            .trim()
            .to_owned()
    }

    /// Writes a base set with versions that do not exist.
    fn write_base(&self) {
        let mut text = String::from("# About the file.\n\n");
        for (component, repository, more) in [
            ("aotriton", "aotriton", ""),
            ("torch", "torch", "submodules = true\n"),
            ("torchaudio", "audio", ""),
            ("torchvision", "vision", ""),
            ("triton", "triton", ""),
        ] {
            let git = self.repository(repository);
            text +=
                &format!("[{component}]\nversion = \"0.1\"\ngit = \"{}\"\n{more}\n", git.display());
        }
        text += &format!(
            "[triton.sources.llvm]\ngit = \"{}\"\ncommit = \"{}\"\npaths = [\"cmake\"]\n\n",
            self.repository("llvm").display(),
            "0".repeat(40)
        );
        text += "# The reason is unknown.\n[extra]\nversion = \"1.0\" # as it is\npath = \"src/extra\"\n\n";
        text += "[vllm]\nversion = \"0.1\"\nsdist = \"vllm\"\n";
        self.workspace.write("pins/stable.toml", &text);
    }

    /// Puts a vLLM on the index.
    fn vllm(&self, version: &str, files: &[(&str, &str)]) {
        self.index.add("vllm", version, &tar_gz(&format!("vllm-{version}"), files));
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.workspace.run_with_index(&self.index, args)
    }

    fn sets(&self) -> Vec<String> {
        let mut names: Vec<String> = fs_err::read_dir(self.workspace.path("pins"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// The files of a vLLM whose requirements name these versions of torch.
fn vllm_files(pyproject: &str, rocm: &str, kernels: &str) -> Vec<(&'static str, String)> {
    vec![
        (
            "pyproject.toml",
            format!(
                "[build-system]\nrequires = [\n    \"torch == {pyproject}\",\n]\n[project]\nrequires-python = \">=3.10,<3.15\"\n"
            ),
        ),
        ("requirements/common.txt", "numpy\n".into()),
        ("requirements/rocm.txt", "-r common.txt\n".into()),
        (
            "requirements/build/rocm.txt",
            format!("torch=={rocm}\ntorchvision==0.26.0\ntorchaudio==2.11.0\ntriton==3.6.0\n"),
        ),
        (
            "CMakeLists.txt",
            format!(
                "set(PYTHON_SUPPORTED_VERSIONS \"3.10\" \"3.14\")\nset(HIP_SUPPORTED_ARCHS \"gfx942;gfx1151\")\nset(TORCH_SUPPORTED_VERSION_ROCM \"{pyproject}\")\n"
            ),
        ),
        (
            "cmake/external_projects/triton_kernels.cmake",
            format!(
                "set(TAG \"v3.6.0\")\nFetchContent_Declare(triton_kernels\n  GIT_REPOSITORY {kernels}\n  GIT_TAG ${{TAG}})\n"
            ),
        ),
        (
            "docker/Dockerfile.rocm_base",
            "ARG TORCH_VERSION=2.13.0+rocm10.0.0\nARG PYTORCH_VISION_BRANCH=\"v0.24.1\"\n".into(),
        ),
    ]
}

fn borrowed<'a>(files: &'a [(&'static str, String)]) -> Vec<(&'static str, &'a str)> {
    files.iter().map(|(path, text)| (*path, text.as_str())).collect()
}

fn agreeing(stand: &Stand) -> Vec<(&'static str, String)> {
    let files = vllm_files("2.11.0", "2.11.0", &stand.repository("triton").display().to_string());
    stand.vllm("0.20.2", &borrowed(&files));
    files
}

#[test]
fn derives_a_set_from_vllm_down_to_llvm() {
    let stand = Stand::new();
    agreeing(&stand);
    let derived = ["pins", "derive", "--from", "vllm=0.20.2", "--output", "new"];
    stand.run(&derived).exits(0).reports(["Derived pins/new.toml: 8 components, 7 from"]);
    let text = stand.workspace.read("pins/new.toml");
    for line in [
        "# vllm 0.20.2, pyproject.toml:3: torch == 2.11.0\n",
        "# vllm 0.20.2, requirements/build/rocm.txt:1: torch==2.11.0\n",
        "# ignored: vllm 0.20.2, docker/Dockerfile.rocm_base:1: TORCH_VERSION=2.13.0+rocm10.0.0\n",
        "# torch 2.11.0, .ci/docker/triton_version.txt:1: 3.6.0\n",
        "# torch 2.11.0, cmake/External/aotriton.cmake:2: __AOTRITON_VER 0.11.2b\nversion = \"0.11.2b\"\n",
        "submodules = true\n",
        "# tag v2.11.0\n",
        "# triton 3.6.0, setup.py:3: MAX_PYTHON = (3, 14)\npython = \">=3.10, <3.15\"\n",
        "# triton 3.6.0, cmake/llvm-hash.txt:1: ",
        "# llvm, cmake/Modules/LLVMVersion.cmake:2: 22.1.0git",
        "paths = [\"cmake\"]\n",
        "# vllm 0.20.2, cmake/external_projects/triton_kernels.cmake:1: GIT_TAG v3.6.0\n",
        "# copied from pins/stable.toml: no file that was read states it\n# The reason is unknown.\n[extra]\nversion = \"1.0\" # as it is\n",
        "python = \">=3.10, <3.15\"\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("About the file"), "{text}");
    for (repository, tag) in [
        ("torch", "v2.11.0"),
        ("triton", "v3.6.0"),
        ("vision", "v0.26.0"),
        ("audio", "v2.11.0"),
        ("aotriton", "0.11.2b"),
        ("llvm", "llvmorg-22"),
    ] {
        let commit = format!("commit = \"{}\"", stand.commit_of(repository, tag));
        assert!(text.contains(&commit), "{repository}\n{text}");
    }
    let headers: Vec<&str> = text.lines().filter(|line| line.starts_with('[')).collect();
    assert_eq!(
        headers,
        [
            "[aotriton]",
            "[extra]",
            "[torch]",
            "[torchaudio]",
            "[torchvision]",
            "[triton]",
            "[triton.sources.llvm]",
            "[triton-kernels]",
            "[vllm]"
        ]
    );
    // A second run changes nothing, and works from only the cache.
    stand.run(&derived).exits(0).reports(["Unchanged pins/new.toml"]);
    stand.run(&["pins", "check", "--pins", "new", "--offline"]).exits(0).reports([
        "Checked pins/new.toml",
        "0 errors, 1 warning;",
        "torch 2.11.0 supports ROCm up to 7.2, but the provider amdrocm has ROCm 7.14",
    ]);
    let json = stand.run(&[
        "pins",
        "derive",
        "--from",
        "vllm=0.20.2",
        "--base",
        "new",
        "--offline",
        "--json",
    ]);
    let json = json.exits(0).document("rocmrpm/pins-derive/1");
    assert_eq!(json["components"]["torch"]["followed"], "upstream");
    assert_eq!(json["components"]["extra"]["followed"], "base");
    assert!(json["text"].as_str().unwrap().contains("as in pins/new.toml, which has this version"));
}

#[test]
fn derives_a_set_from_only_torch() {
    let stand = Stand::new();
    let row = "# upstreams.toml: torch 2.11.0: METADATA of torch and torchvision; pytorch/pytorch#174105\n";
    stand.run(&["pins", "derive", "--from", "torch=2.11.0"]).exits(0).prints([
        &format!("{row}version = \"0.26.0\"\n"),
        "[triton]\n\
         # torch 2.11.0, .ci/docker/triton_version.txt:1: 3.6.0\n\
         # upstream's own build uses torch 2.11.0, .ci/docker/ci_commit_pins/triton.txt:1: 5f40dc89506d67ab8e7aa2b7c8cf1351f8b22f31\n\
         version = \"3.6.0\"\n",
        "states it\n[vllm]\nversion = \"0.1\"\n",
    ]);
}

#[test]
fn reports_contradictions_and_applies_choices() {
    let stand = Stand::new();
    let files = vllm_files(
        "2.14.0",
        "2.11.0+rocm7.14.0",
        &stand.repository("triton").display().to_string(),
    );
    stand.vllm("0.20.3", &borrowed(&files));
    let derive = ["pins", "derive", "--from", "vllm=0.20.3", "--output", "new"];
    stand.run(&derive).exits(1).reports([
        "upstream's files disagree about torch",
        "vllm 0.20.3, pyproject.toml:3: torch: torch == 2.14.0",
        "vllm 0.20.3, requirements/build/rocm.txt:1: torch: torch==2.11.0+rocm7.14.0",
        "vllm 0.20.3, CMakeLists.txt:3: torch: TORCH_SUPPORTED_VERSION_ROCM 2.14.0",
        "vllm 0.20.3, docker/Dockerfile.rocm_base:1: torch: TORCH_VERSION=2.13.0+rocm10.0.0",
        "run it again with `--choose torch=2.14.0`, or derive from a version other than vllm=0.20.3",
    ]);
    assert_eq!(stand.sets(), ["stable.toml"]);
    let mut json = derive.to_vec();
    json.push("--json");
    let json = stand.run(&json).exits(1).document("rocmrpm/pins-derive/1");
    let places = &json["contradictions"][0]["statements"];
    assert_eq!(json["contradictions"][0]["about"], "torch");
    assert_eq!(places.as_array().unwrap().len(), 4);
    assert_eq!(
        places[1],
        serde_json::json!({
            "about": "torch",
            "claim": "version",
            "value": "2.11.0",
            "written": "torch==2.11.0+rocm7.14.0",
            "place": { "of": "vllm 0.20.3", "file": "requirements/build/rocm.txt", "line": 1 },
            "weight": "demand",
        })
    );
    assert_eq!(stand.sets(), ["stable.toml"]);
    let mut chosen = derive.to_vec();
    chosen.extend(["--choose", "torch=2.14.0"]);
    stand.run(&chosen).exits(0);
    let text = stand.workspace.read("pins/new.toml");
    for line in [
        "# chosen: --choose torch=2.14.0\n",
        "# ignored: vllm 0.20.3, requirements/build/rocm.txt:1: torch==2.11.0+rocm7.14.0\n",
        // The versions in the other file go with another torch.
        "# for another torch: vllm 0.20.3, requirements/build/rocm.txt:2: torchvision==0.26.0\n",
        "version = \"0.29.0\"\n",
        "--base stable --choose torch=2.14.0`.\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    for (choice, message) in [("tirch=1", "did you mean `torch`?"), ("vllm=1", "not derived")] {
        let mut args = derive.to_vec();
        args.extend(["--choose", choice]);
        stand.run(&args).exits(2).reports([message]);
    }
}

#[test]
fn names_unreachable_sources_and_writes_nothing() {
    let stand = Stand::new();
    agreeing(&stand);
    fs_err::remove_dir_all(stand.repository("torch")).unwrap();
    fs_err::remove_dir_all(stand.repository("aotriton")).unwrap();
    let derive = ["pins", "derive", "--from", "vllm=0.20.2", "--output", "new"];
    stand.run(&derive).exits(30).reports([
        "the sources of torch 2.11.0, aotriton 0.11.2b,",
        "the digest of torch 2.11.0, or the commit of its tag",
        "aotriton, from cmake/External/aotriton.cmake",
        "triton, from .ci/docker/triton_version.txt",
        // The table has its version, but not its commit.
        "the digest of aotriton 0.11.2b, or the commit of its tag",
    ]);
    assert_eq!(stand.sets(), ["stable.toml"]);
    // One run names what the servers do not have, as well.
    stand.workspace.git_in(&stand.repository("vision"), &["tag", "--delete", "v0.26.0"]);
    fs_err::remove_dir_all(stand.repository("audio")).unwrap();
    let choose = ["--choose", "torch=2.14.0", "--choose", "torchvision=0.27.0"];
    stand.run(&[&derive[..], &choose].concat()).exits(30).reports([
        "torchvision 0.27.0: the git repository",
        "has no tag for version 3.8.0",
        "the digest of torchvision 0.27.0, or the commit of its tag",
        "help: torchvision 0.27.0: the nearest are v0.28.0, v0.29.0",
        "the digest of torchaudio 2.11.0, or the commit of its tag",
        "the sources of torch 2.14.0, triton 3.8.0,",
    ]);
    let absent = Stand::new();
    agreeing(&absent);
    for (repository, tag) in [("vision", "v0.26.0"), ("audio", "v2.11.0")] {
        absent.workspace.git_in(&absent.repository(repository), &["tag", "--delete", tag]);
    }
    absent.run(&derive).exits(3).reports([
        "torchvision 0.26.0: the git repository",
        "torchaudio 2.11.0: the git repository",
        "help: torchvision 0.26.0: the nearest are v0.28.0, v0.29.0",
    ]);
    let offline = Stand::new();
    agreeing(&offline);
    offline.run(&["pins", "derive", "--from", "vllm=0.20.2", "--offline"]).exits(30).reports([
        "the source of vllm 0.20.2 ",
        "--offline",
        "torch, from pyproject.toml",
    ]);
}

#[test]
fn reports_bad_input() {
    let stand = Stand::new();
    let files = agreeing(&stand);
    stand
        .run(&["pins", "derive", "--from", "vllm=0.99"])
        .exits(3)
        .reports(["no sdist of `vllm` 0.99", "0.20.2"]);
    stand.run(&["pins", "derive", "--from", "torch=9.9"]).exits(3).reports(["v2.11.0"]);
    stand
        .run(&["pins", "derive", "--from", "extra=1"])
        .exits(2)
        .reports(["derive from one of vllm, torch, triton"]);
    stand.run(&["pins", "derive", "--from", "vllm=0.20.2", "--output", "../x"]).exits(2);
    stand.run(&["pins", "derive", "--from", "vllm=0.20.2", "--base", "none"]).exits(2);
    for (version, path, text, message) in [
        ("0.20.4", "pyproject.toml", "[build-system\n", "pyproject.toml:1: this is not valid TOML"),
        ("0.20.5", "pyproject.toml", "\u{0}\u{1}", "not valid TOML"),
        ("0.20.6", "requirements/build/rocm.txt", "wheel\n", "it names none of torch"),
        (
            "0.20.7",
            "CMakeLists.txt",
            "project(x)\n",
            "it does not set TORCH_SUPPORTED_VERSION_ROCM",
        ),
    ] {
        let mut broken = files.clone();
        broken
            .iter_mut()
            .filter(|(name, _)| *name == path)
            .for_each(|(_, old)| *old = text.to_owned());
        stand.vllm(version, &borrowed(&broken));
        let from = format!("vllm={version}");
        stand
            .run(&["pins", "derive", "--from", &from, "--output", "new"])
            .exits(1)
            .reports([message, "--choose torch=VERSION"]);
    }
    let huge = "x".repeat(5 << 20);
    let mut part: Vec<(&str, &str)> = borrowed(&files);
    part.retain(|(path, _)| *path != "cmake/external_projects/triton_kernels.cmake");
    part.push(("cmake/external_projects/triton_kernels.cmake", &huge));
    stand.vllm("0.20.8", &part);
    stand
        .run(&["pins", "derive", "--from", "vllm=0.20.8"])
        .exits(1)
        .reports(["5242880 bytes", "--choose triton-kernels=VERSION"]);
    // A choice replaces the statement of the file.
    let kernels = format!(
        "{}\n[triton-kernels]\nversion = \"0.1\"\ngit = \"{}\"\n",
        stand.workspace.read("pins/stable.toml"),
        stand.repository("triton").display()
    );
    stand.workspace.write("pins/stable.toml", &kernels);
    let choose = "triton-kernels=3.6.0";
    stand
        .run(&["pins", "derive", "--from", "vllm=0.20.8", "--choose", choose])
        .exits(0)
        .reports(["warning: vllm 0.20.8, cmake/external_projects/triton_kernels.cmake: it has 5242880 bytes"])
        .prints(["# chosen: --choose triton-kernels=3.6.0\nversion = \"3.6.0\"\n"]);
    assert_eq!(stand.sets(), ["stable.toml"]);
}

#[test]
fn explains_conflicting_pins_with_both_locations() {
    let stand = Stand::new();
    agreeing(&stand);
    stand.run(&["pins", "derive", "--from", "vllm=0.20.2", "--output", "stable"]).exits(0);
    let good = stand.workspace.read("pins/stable.toml");
    stand.run(&["pins", "check"]).exits(0);
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        stand.workspace.write("pins/stable.toml", good.replace(from, to));
    };
    with("version = \"3.6.0\"\n", "version = \"3.5.1\"\n");
    stand.run(&["pins", "check"]).exits(1).reports([
        "the set has triton 3.5.1, but 3.6.0 is required by torch 2.11.0 and vllm 0.20.2",
        "pins/stable.toml:",
        "torch 2.11.0, .ci/docker/triton_version.txt:1: `3.6.0`",
    ]);
    with("version = \"0.26.0\"", "version = \"0.28.0\"");
    let check = stand.run(&["pins", "check"]);
    Transcript::block("docs/guides/update.md", "rocmrpm pins check")
        .assert_prints(&check.exits(1).stderr);
    let llvm = stand.commit_of("llvm", "llvmorg-22");
    with(&format!("commit = \"{llvm}\""), &format!("commit = \"{}\"", "1".repeat(40)));
    stand
        .run(&["pins", "check"])
        .exits(1)
        .reports(["triton 3.6.0 needs another commit of llvm", "cmake/llvm-hash.txt:1"]);
    // A workspace for a GPU that vLLM cannot be built for.
    stand.workspace.write("pins/stable.toml", &good);
    stand.workspace.replace("rocmrpm.toml", "gfx1151", "gfx1152");
    let json = stand.run(&["pins", "check", "--json"]).exits(1).document("rocmrpm/pins-check/1");
    let finding = &json["findings"][0];
    assert_eq!(finding["rule"], "gpu-target");
    assert_eq!(finding["file"], "pins/stable.toml");
    assert!(finding["line"].as_u64().unwrap() > 1);
    assert!(
        finding["upstream"][0].as_str().unwrap().starts_with("vllm 0.20.2, CMakeLists.txt:2: `")
    );
    // An unavailable source is not checked; the table still applies.
    stand.workspace.replace("rocmrpm.toml", "gfx1152", "gfx1151");
    with("version = \"2.11.0\"\ngit", "version = \"2.10.0\"\ngit");
    fs_err::remove_dir_all(stand.workspace.holder().join("cache")).unwrap();
    let ran = stand.run(&["pins", "check", "--offline"]);
    ran.exits(1);
    ran.reports([
        "not checked: vllm 0.20.2: ",
        "--offline",
        "works with torch ==2.11.0, but the set has 2.10.0",
    ]);
}

#[test]
fn derives_the_repository_of_an_unchanged_commit() {
    let stand = Stand::new();
    agreeing(&stand);
    let derive = ["pins", "derive", "--from", "vllm=0.20.2", "--output", "stable"];
    stand.run(&derive).exits(0);
    // Triton 3.6 takes LLVM from the repository `right`, others from `other`. The set has the latter.
    let (right, other) = (stand.repository("llvm"), stand.repository("other-llvm"));
    stand.workspace.git_in(
        &stand.workspace.root(),
        &["clone", "--quiet", &right.display().to_string(), &other.display().to_string()],
    );
    let url = |owner: &str| format!("\"https://github.com/{owner}/llvm-project\"");
    stand.workspace.replace("upstreams.toml", &url("llvm"), &format!("\"{}\"", right.display()));
    stand.workspace.replace(
        "upstreams.toml",
        &url("triton-lang"),
        &format!("\"{}\"", other.display()),
    );
    let good = stand.workspace.read("pins/stable.toml");
    let wrong =
        good.replace(&format!("\"{}\"", right.display()), &format!("\"{}\"", other.display()));
    assert_ne!(good, wrong);
    stand.workspace.write("pins/stable.toml", wrong);
    stand.run(&derive).exits(0);
    let text = stand.workspace.read("pins/stable.toml");
    assert!(text.contains(&format!("\ngit = \"{}\"\n", right.display())), "{text}");
    assert!(!text.contains(&other.display().to_string()), "{text}");
}

#[test]
fn warns_of_the_repository_of_other_versions() {
    let stand = Stand::new();
    agreeing(&stand);
    stand.run(&["pins", "derive", "--from", "vllm=0.20.2", "--output", "stable"]).exits(0);
    let good = stand.workspace.read("pins/stable.toml");
    let ours = stand.repository("llvm").display().to_string();
    let url = |owner: &str| format!("https://github.com/{owner}/llvm-project");
    for (version, wrong, right) in
        [("3.6.0", "triton-lang", "llvm"), ("3.7.1", "llvm", "triton-lang")]
    {
        let text = good.replace("version = \"3.6.0\"\n", &format!("version = \"{version}\"\n"));
        assert!(text.contains(&ours), "{text}");
        stand.workspace.write("pins/stable.toml", text.replace(&ours, &url(wrong)));
        let warning = format!("triton {version} takes llvm from {}, but", url(right));
        stand.run(&["pins", "check"]).reports([warning.as_str()]);
        stand.workspace.write("pins/stable.toml", text.replace(&ours, &url(right)));
        let ran = stand.run(&["pins", "check"]);
        assert!(!ran.stdout.contains("takes llvm from"), "{}", ran.stdout);
    }
}

#[test]
fn checks_chroot_provider_and_crates() {
    let stand = Stand::new();
    agreeing(&stand);
    stand.run(&["pins", "derive", "--from", "vllm=0.20.2", "--output", "stable"]).exits(0);
    // Only ranges in the set leave components out.
    stand.workspace.replace(
        "mock-configs/fedora-43.toml",
        "python = \"3.14\"",
        "python = \"3.15\"",
    );
    let left_out = "vllm 0.20.2 allows Python >=3.10, <3.15, but the chroot fedora-43 has 3.15: the set leaves the component out";
    stand.run(&["pins", "check"]).exits(0).reports([left_out, "pyproject.toml:6: `"]);
    let text = stand.workspace.read("pins/stable.toml");
    let (before, after) = text.split_at(text.rfind("python = ").unwrap());
    stand
        .workspace
        .write("pins/stable.toml", format!("{before}{}", after.split_once('\n').unwrap().1));
    stand
        .run(&["pins", "check"])
        .exits(1)
        .reports(["error: vllm 0.20.2 allows Python >=3.10, <3.15"]);
    // The range of triton leaves it out, unless the set has a wider one.
    let wider = text.replace("(3, 14)\npython = \">=3.10, <3.15\"", "(3, 14)\npython = \">=3.10\"");
    assert_ne!(wider, text);
    stand.workspace.write("pins/stable.toml", &wider);
    stand
        .run(&["pins", "check"])
        .exits(0)
        .reports(["warning: pins/stable.toml:", "a patch must add the support"]);
    stand.workspace.write("pins/stable.toml", &text);
    stand.workspace.replace(
        "mock-configs/fedora-43.toml",
        "python = \"3.15\"",
        "python = \"3.14\"",
    );
    stand.workspace.replace(
        "mock-configs/rocm/amdrocm.toml",
        "version = \"7.14\"",
        "version = \"6.1\"",
    );
    let too_old = "torch 2.11.0 needs ROCm 6.2 or newer, but the provider amdrocm has ROCm 6.1";
    stand.run(&["pins", "check"]).exits(1).reports([too_old, "cmake/External/aotriton.cmake:3: `"]);
    // The Rust part is derived with its crates; a set without them is an error.
    stand.workspace.replace(
        "mock-configs/rocm/amdrocm.toml",
        "version = \"6.1\"",
        "version = \"7.2\"",
    );
    let mut files =
        vllm_files("2.11.0", "2.11.0", &stand.repository("triton").display().to_string());
    files.push(("rust/Cargo.lock", "version = 4\n[[package]]\nname = \"a\"\n".into()));
    files.push(("rust-toolchain.toml", "[toolchain]\nchannel = \"1.95\"\n".into()));
    stand.vllm("0.22.0", &borrowed(&files));
    stand.run(&["pins", "derive", "--from", "vllm=0.22.0", "--output", "stable"]).exits(0);
    let text = stand.workspace.read("pins/stable.toml");
    stand.run(&["pins", "check"]).exits(0).reports(["0 errors, 0 warnings"]);
    let (without, crates) = text.split_once("[vllm.sources.crates]").unwrap();
    assert!(crates.contains("rust/Cargo.lock: 1 crate\n"), "{crates}");
    stand.workspace.write("pins/stable.toml", without);
    stand
        .run(&["pins", "check"])
        .exits(1)
        .reports(["has a Rust part", "cargo-vendor = \"rust/Cargo.lock\""]);
    // A version without Rust has no crates.
    stand.workspace.write("pins/stable.toml", &text);
    let back = stand.run(&["pins", "derive", "--from", "vllm=0.20.2"]);
    back.exits(0);
    assert!(!back.stdout.contains("cargo-vendor"), "{}", back.stdout);
}

#[test]
fn reads_related_commits_of_a_torch_fork() {
    let stand = Stand::new();
    let vision = stand.repository("vision").display().to_string();
    let commit = stand.commit_of("vision", "v0.28.0");
    let line =
        |os: &str, commit: &str| format!("{os}|pytorch|torchvision|main|{commit}|{vision}\n");
    let both = line("ubuntu", &commit) + &line("centos", &commit);
    let released = stand.commit_of("torch", "v2.11.0");
    stand.commit("torch", "v2.11.0.1", &[("related_commits", &both)]);
    // Move the tag of the release to the fork's commit.
    let dir = stand.repository("torch");
    stand.workspace.git_in(&dir, &["tag", "--force", "v2.11.0", "HEAD"]);
    assert_ne!(stand.commit_of("torch", "v2.11.0"), released);
    stand.run(&["pins", "derive", "--from", "torch=2.11.0"]).exits(0).prints([
        &format!("# torch 2.11.0, related_commits:1: ubuntu|pytorch|torchvision|main|{commit}|"),
        &format!("commit = \"{commit}\"\n"),
        "version = \"0.26.0\"\n",
    ]);
    let differ = line("ubuntu", &commit) + &line("centos", &"2".repeat(40));
    stand.commit("torch", "v2.11.0.2", &[("related_commits", &differ)]);
    stand.workspace.git_in(&dir, &["tag", "--force", "v2.11.0", "HEAD"]);
    stand.run(&["pins", "derive", "--from", "torch=2.11.0"]).exits(1).reports([
        "disagree about torchvision",
        "related_commits:1",
        "related_commits:2",
    ]);
}

/// The real vLLM 0.33.0 names three versions of torch, in five places.
#[test]
fn reports_contradictions_of_the_real_vllm() {
    let stand = Stand::new();
    // Large files are downloaded once for all tests: real_prep.rs uses this cache, too.
    let cache = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("rocmrpm-cache");
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rocmrpm"));
        command.args(args).current_dir(stand.workspace.root()).env("ROCMRPM_CACHE", &cache);
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, _, stderr) = run(&["pins", "derive", "--from", "vllm=0.33.0"]);
    assert_eq!(code, Some(1), "{stderr}");
    Transcript::block("docs/guides/update.md", "rocmrpm pins derive --from vllm=0.33.0")
        .assert_prints(&stderr);
    let (code, text, stderr) =
        run(&["pins", "derive", "--from", "vllm=0.33.0", "--choose", "torch=2.14.0"]);
    assert_eq!(code, Some(0), "{stderr}");
    for line in [
        "sha256 = \"f4c33c2503d52bb411146afa9618a4f48bed68912f617e6803ac8d76e4c74112\"\n",
        "# vllm 0.33.0, pyproject.toml:34: requires-python = \">=3.11,<3.15\"\npython = \">=3.11, <3.15\"\n",
        "# vllm 0.33.0, cmake/external_projects/triton_kernels.cmake:16: GIT_TAG 669b31acc1dd1b3fd93286afd5db67f65d9f7557\n\
         commit = \"669b31acc1dd1b3fd93286afd5db67f65d9f7557\"\n",
        "git = \"https://github.com/ROCm/triton\"\n",
        "# vllm 0.33.0, docker/Dockerfile.rocm_base:7: TRITON_VERSION=3.8.0+git669b31ac\n",
        "# vllm 0.33.0, rust/Cargo.lock: 624 crates\n# vllm 0.33.0, rust-toolchain.toml:2: channel = \"1.95\"\ncargo-vendor = \"rust/Cargo.lock\"\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}
