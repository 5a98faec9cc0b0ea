//! Tests the readers with the repository's own upstreams.toml and small files in the form of
//! upstream's.

use std::path::Path;

use fs_err as fs;

use super::*;
use crate::workspace::Upstreams;
use crate::workspace::document::File;
use crate::workspace::upstreams::satisfies;

fn upstreams() -> Upstreams {
    let text = include_str!("../../../../../upstreams.toml").to_owned();
    let mut problems = Vec::new();
    let upstreams = Upstreams::read(&File { name: "upstreams.toml".into(), text }, &mut problems);
    assert!(
        problems.is_empty(),
        "{:?}",
        problems.iter().map(|problem| &problem.message).collect::<Vec<_>>()
    );
    upstreams
}

fn read(component: &str, version: &str, dir: &Path) -> Upstream {
    super::read(&upstreams(), component, version, dir)
}

fn source(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, bytes) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    dir
}

fn statements_about(upstream: &Upstream, about: &str) -> Vec<(Claim, String)> {
    upstream.about(about).map(|s| (s.claim.clone(), s.place.to_string())).collect()
}

#[test]
fn selects_files_by_version() {
    let upstreams = upstreams();
    assert_eq!(upstreams.readable(), ["vllm", "torch", "triton"]);
    let of = |version| {
        let files = upstreams.files_of("vllm", version);
        files.flat_map(|file| file.paths.clone()).collect::<Vec<_>>()
    };
    let has = |version, path: &str| of(version).iter().any(|file| file == path);
    assert!(
        has("0.19.1", "requirements/rocm-build.txt")
            && !has("0.20.2", "requirements/rocm-build.txt")
    );
    assert!(has("0.22.0", "rust/Cargo.lock") && !has("0.20.2", "rust/Cargo.lock"));
    assert_eq!(upstreams.together("torch", "2.13.0").unwrap().with["torchvision"], "0.28.0");
    assert!(upstreams.together("torch", "1.0").is_none());
    let llvm = |version| {
        upstreams.sources_of("triton", version).map(|source| &source.git).collect::<Vec<_>>()
    };
    assert_eq!(llvm("3.7.0"), ["https://github.com/llvm/llvm-project"]);
    assert_eq!(llvm("3.7.1"), ["https://github.com/triton-lang/llvm-project"]);
}

#[test]
fn rows_agree_with_those_of_their_base() {
    let upstreams = upstreams();
    let mut compared = 0;
    for row in upstreams.together.iter().filter(|row| row.of == "torch") {
        let torch = row.versions.to_string().trim_start_matches("==").to_owned();
        for name in ["torchvision", "torchaudio"] {
            let Some(other) = upstreams.together(name, &row.with[name]) else { continue };
            assert!(
                satisfies(&torch, &other.with["torch"]),
                "{torch} and {name} {}",
                row.with[name]
            );
            compared += 1;
        }
    }
    assert!(compared > 10, "{compared}");
}

#[test]
fn reads_what_vllm_requires() {
    let dir = source(&[
        (
            "pyproject.toml",
            b"[build-system]\nrequires = [\n  \"wheel\",\n  \"torch == 2.14.0\",\n]\n[project]\nrequires-python = \">=3.11,<3.15\"\n",
        ),
        (
            "requirements/build/rocm.txt",
            b"-r ../common.txt\n--extra-index-url https://h/whl/rocm7.1\ntorch==2.12.0+rocm7.14.0 # why\ntriton==3.7.1+git0263a6a6\namdsmi==7.0.2\n",
        ),
        ("requirements/common.txt", b"numpy\n"),
        ("requirements/rocm.txt", b"-r common.txt\ntorchaudio>=2.10\n"),
        (
            "CMakeLists.txt",
            b"set(PYTHON_SUPPORTED_VERSIONS \"3.11\" \"3.12\")\nset(HIP_SUPPORTED_ARCHS \"gfx942;gfx1151\")\nset(TORCH_SUPPORTED_VERSION_ROCM \"2.14.0\")\n",
        ),
        (
            "cmake/external_projects/triton_kernels.cmake",
            b"set(T \"v3.6.0\")\nFetchContent_Declare(triton_kernels GIT_REPOSITORY https://h/triton.git GIT_TAG ${T})\n",
        ),
        (
            "docker/Dockerfile.rocm_base",
            b"ARG TORCH_VERSION=2.13.0+rocm10.0.0\nARG FA_BRANCH=\"0e60e394\" # main\nARG FA_REPO=\"https://h/fa.git\"\nRUN x \\\nARG AITER_BRANCH=no\nARG AITER_BRANCH=\"v0.1.26\"\n",
        ),
        ("rust/Cargo.lock", b"version = 4\n[[package]]\nname = \"a\"\n[[package]]\nname = \"b\"\n"),
        ("rust-toolchain.toml", b"[toolchain]\nchannel = \"1.95\"\n"),
    ]);
    let upstream = read("vllm", "0.33.0", dir.path());
    assert_eq!(upstream.oddities, []);
    let version = |v: &str| Claim::Version(v.into());
    assert_eq!(
        statements_about(&upstream, "torch"),
        [
            (version("2.14.0"), "vllm 0.33.0, pyproject.toml:4".into()),
            (version("2.12.0"), "vllm 0.33.0, requirements/build/rocm.txt:3".into()),
            (version("2.14.0"), "vllm 0.33.0, CMakeLists.txt:3".into()),
            (version("2.13.0"), "vllm 0.33.0, docker/Dockerfile.rocm_base:1".into()),
        ]
    );
    let only = |about| statements_about(&upstream, about).remove(0).0;
    assert_eq!(only("torchaudio"), Claim::Requires(">=2.10".into()));
    assert_eq!(
        only("triton-kernels"),
        Claim::Tag { git: Some("https://h/triton".into()), tag: "v3.6.0".into() }
    );
    assert_eq!(
        only("flash-attn"),
        Claim::Commit { git: Some("https://h/fa".into()), commit: "0e60e394".into() }
    );
    assert_eq!(only("aiter"), Claim::Tag { git: None, tag: "v0.1.26".into() });
    let rocm: Vec<_> = upstream.about("rocm").map(|s| s.claim.clone()).collect();
    let built = |v: &str| Claim::BuiltWithRocm(v.into());
    assert_eq!(rocm, [built("7.1"), built("7.14.0"), built("10.0.0")]);
    let of_vllm: Vec<_> = upstream.about("vllm").map(|s| s.claim.clone()).collect();
    let words = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        of_vllm,
        [
            Claim::Python(">=3.11,<3.15".into()),
            Claim::Pythons(words(&["3.11", "3.12"])),
            Claim::Targets(words(&["gfx942", "gfx1151"])),
            Claim::Crates(2),
            Claim::Rust("1.95".into()),
        ]
    );
}

#[test]
fn reads_what_torch_and_triton_are_built_with() {
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let related = format!(
        "ubuntu|pytorch|torchvision|main|{commit}|https://h/vision\ncentos|pytorch|torchvision|main|{commit}|https://h/vision\nubuntu|pytorch|apex|x|{commit}|https://h/apex\n"
    );
    let aotriton = format!(
        "if(NOT X)\n set(__AOTRITON_VER \"0.12b\")\n set(__AOTRITON_ROCM_LIST\n \"rocm6.4\"\n \"rocm7.14\")\n if(DEFINED ENV{{C}})\n set(__AOTRITON_CI_COMMIT \"$ENV{{C}}\")\n else()\n set(__AOTRITON_CI_COMMIT \"{commit}\")\n endif()\nendif()\n"
    );
    let dir = source(&[
        ("version.txt", b"2.13.0a0\n"),
        ("pyproject.toml", b"[project]\nrequires-python = \">=3.10\"\n"),
        (".ci/docker/triton_version.txt", b"3.7.1\n"),
        (".ci/docker/ci_commit_pins/triton.txt", commit.as_bytes()),
        (".github/ci_commit_pins/vision.txt", commit.as_bytes()),
        ("cmake/External/aotriton.cmake", aotriton.as_bytes()),
        ("related_commits", related.as_bytes()),
    ]);
    let upstream = read("torch", "2.13.0", dir.path());
    assert_eq!(upstream.oddities, []);
    assert_eq!(
        statements_about(&upstream, "triton")[0],
        (Claim::Version("3.7.1".into()), "torch 2.13.0, .ci/docker/triton_version.txt:1".into())
    );
    assert_eq!(
        statements_about(&upstream, "aotriton")[0],
        (Claim::Version("0.12b".into()), "torch 2.13.0, cmake/External/aotriton.cmake:2".into())
    );
    assert!(statements_about(&upstream, "aotriton")[1].1.ends_with(":9"));
    assert_eq!(statements_about(&upstream, "torchvision").len(), 2, "each project once");
    assert_eq!(
        statements_about(&upstream, "rocm")[0].0,
        Claim::Rocm(vec!["6.4".into(), "7.14".into()])
    );

    let setup =
        b"TRITON_VERSION = \"3.7.1\" + suffix()\nMIN_PYTHON = (3, 10)\nMAX_PYTHON = (3, 14)\n";
    let hash = format!("{commit}\n");
    let info = format!("{{\n  \"llvm_hash\": \"{commit}\"\n}}\n");
    for (file, text, line) in
        [("cmake/llvm-hash.txt", &hash, 1), ("cmake/llvm-info.json", &info, 2)]
    {
        let dir = source(&[("setup.py", setup), (file, text.as_bytes())]);
        let upstream = read("triton", "3.7.1", dir.path());
        assert_eq!(upstream.oddities, []);
        assert_eq!(
            statements_about(&upstream, "llvm")[0].1,
            format!("triton 3.7.1, {file}:{line}")
        );
        assert_eq!(
            statements_about(&upstream, "triton")[1].0,
            Claim::Python(">=3.10, <3.15".into())
        );
    }
}

#[test]
fn reports_missing_and_broken_files() {
    let huge = vec![b'x'; 5 << 20];
    let long = format!("torch=={}\n", "1".repeat(1 << 20));
    let deep = b"[".repeat(100_000);
    for (path, bytes, expected) in [
        ("pyproject.toml", &b"[project\n"[..], "not valid TOML"),
        ("pyproject.toml", &deep, "not valid TOML"),
        ("pyproject.toml", b"[project]\nname = \"x\"\n", "it has no `project.requires-python`"),
        ("pyproject.toml", b"\xff\xfe\x00", "not UTF-8"),
        ("pyproject.toml", &huge, "the limit is 4194304"),
        ("requirements/build/rocm.txt", b"wheel\n", "names none of torch"),
        ("requirements/build/rocm.txt", b"amd-aiter==1\n", "names none of torch"),
        ("requirements/build/rocm.txt", b"torch==\n", "is not a requirement"),
        ("requirements/build/rocm.txt", long.as_bytes(), "more than 4096"),
        ("requirements/build/rocm.txt", b"torch @ https://h/t.whl\n", "comes from a URL"),
        ("CMakeLists.txt", b"project(x)\n", "does not set HIP_SUPPORTED_ARCHS"),
        ("CMakeLists.txt", b"set(", "no closing parenthesis"),
        ("cmake/external_projects/triton_kernels.cmake", b"set(x 1)\n", "no FetchContent_Declare"),
        (
            "cmake/external_projects/triton_kernels.cmake",
            b"FetchContent_Declare(triton_kernels GIT_TAG ${X})",
            "is unknown",
        ),
        ("docker/Dockerfile.rocm_base", b"FROM x\n", "none of the ARGs"),
        ("rust/Cargo.lock", b"version = 4\n", "no `package`"),
        ("rust-toolchain.toml", b"[toolchain]\n", "no `toolchain.channel`"),
    ] {
        let dir = source(&[(path, bytes)]);
        let upstream = read("vllm", "0.33.0", dir.path());
        let odd: Vec<_> = upstream.oddities.iter().filter(|odd| odd.place.file == path).collect();
        assert!(odd.iter().any(|odd| odd.wrong.contains(expected)), "{path}: {odd:?}");
    }
    let empty = tempfile::tempdir().unwrap();
    let upstream = read("vllm", "0.33.0", empty.path());
    assert_eq!(upstream.oddities.len(), 8, "{:?}", upstream.oddities);
    assert_eq!(read("triton", "3.7.1", empty.path()).oddities.len(), 2);
    for (path, bytes, expected) in [
        (
            ".ci/docker/triton_version.txt",
            &b"3.7.1 3.8\n"[..],
            "its pattern matches 0 times, expected 1 (upstreams.toml:",
        ),
        (".ci/docker/triton_version.txt", b"three\x07!", "is not a version"),
        (".ci/docker/ci_commit_pins/triton.txt", b"main\n", "is not a commit"),
        ("related_commits", b"ubuntu|a|b\n", "its pattern matches 0 times, expected at least 1"),
        ("related_commits", b"u|p|torchvision|b|main|o\n", "`main` is not a commit"),
        (
            "cmake/External/aotriton.cmake",
            b"set(__AOTRITON_VER ${X})",
            "the value of __AOTRITON_VER, `${X}`, is unknown",
        ),
    ] {
        let dir = source(&[(path, bytes)]);
        let upstream = read("torch", "2.13.0", dir.path());
        assert!(
            upstream.oddities.iter().any(|odd| odd.wrong.contains(expected)),
            "{path}: {:?}",
            upstream.oddities
        );
    }
}

#[test]
fn rejects_links_out_of_the_source() {
    let outside = source(&[("secret", b"[project]\nrequires-python = \">=3\"\n")]);
    let dir = source(&[]);
    std::os::unix::fs::symlink(outside.path().join("secret"), dir.path().join("pyproject.toml"))
        .unwrap();
    std::os::unix::fs::symlink("/dev/zero", dir.path().join("version.txt")).unwrap();
    let upstream = read("torch", "2.13.0", dir.path());
    let wrong: Vec<_> =
        upstream.oddities.iter().filter(|odd| odd.wrong.contains("out of the source")).collect();
    assert_eq!(wrong.len(), 2, "{:?}", upstream.oddities);
    assert!(upstream.statements.is_empty());
}

#[test]
fn normalizes_versions_tags_and_urls() {
    assert_eq!(public("3.7.1+git0263a6a6"), "3.7.1");
    assert_eq!(
        (version_of_tag("v3.6.0"), version_of_tag("0.12b"), version_of_tag("vision")),
        ("3.6.0", "0.12b", "vision")
    );
    assert_eq!(repository("https://h/a.git/"), "https://h/a");
    assert!(is_commit_like("0e60e394") && !is_commit_like("v0.1.26") && !is_commit_like("abc"));
}
