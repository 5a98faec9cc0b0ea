//! Tests the check of an index: its findings, and that it changes nothing.

use std::path::{Path, PathBuf};

use rocmrpm::digest::Sha256;
use rocmrpm::index;
use serde_json::json;

use super::fixtures::*;
use crate::support::{Ran, Workspace};

/// An index under construction with arbitrary pages and packages.
struct Pages(PathBuf);

impl Pages {
    /// Adds a wheel with this METADATA; `change` modifies its entry on the page.
    fn add(&self, file: &str, more: &str, change: impl FnOnce(&mut serde_json::Value)) {
        let name = file.split('-').next().unwrap().replace('_', "-");
        let version = file.split('-').nth(1).unwrap();
        let metadata = metadata(&name, version).replace("\n\n", &format!("\n{more}\n"));
        let packages = self.0.join("packages").join(&name);
        fs_err::create_dir_all(&packages).unwrap();
        fs_err::write(packages.join(file), file).unwrap();
        fs_err::write(packages.join(format!("{file}.metadata")), &metadata).unwrap();
        let mut entry = json!({
            "filename": file,
            "url": format!("../../packages/{name}/{}", file.replace('+', "%2B")),
            "hashes": {"sha256": Sha256::of_bytes(file).to_string()},
            "size": file.len(),
            "core-metadata": {"sha256": Sha256::of_bytes(&metadata).to_string()},
            "yanked": false,
        });
        change(&mut entry);
        let page = self.0.join("simple").join(&name).join("index.json");
        fs_err::create_dir_all(page.parent().unwrap()).unwrap();
        let old =
            std::fs::read_to_string(&page).ok().and_then(|text| serde_json::from_str(&text).ok());
        let mut whole: serde_json::Value = old.unwrap_or_else(|| json!({"files": []}));
        whole["files"].as_array_mut().unwrap().push(entry);
        fs_err::write(page, whole.to_string()).unwrap();
    }

    fn plain(&self, file: &str, more: &str) {
        self.add(file, more, |_| {});
    }
}

fn workspace(outside: &str) -> (Workspace, Pages) {
    let workspace = Workspace::init();
    workspace.replace("rocmrpm.toml", "outside = [\"pip\"]", &format!("outside = [{outside}]"));
    let pages = Pages(workspace.path("build/fedora-43/index"));
    (workspace, pages)
}

/// Returns the findings as `id: wheels`, each wheel without tags.
fn findings(ran: &Ran) -> Vec<String> {
    let json = ran.document("rocmrpm/index-check/2");
    let short = |file: &serde_json::Value| {
        file.as_str().unwrap().splitn(3, '-').take(2).collect::<Vec<_>>().join("-")
    };
    let one = |finding: &serde_json::Value| {
        assert!(!finding["help"].as_str().unwrap().is_empty());
        let wheels: Vec<String> = finding["wheels"].as_array().unwrap().iter().map(short).collect();
        format!("{}: {}", finding["id"].as_str().unwrap(), wheels.join(" "))
    };
    json["findings"].as_array().unwrap().iter().map(one).collect()
}

fn snapshot(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = walkdir::WalkDir::new(dir).sort_by_file_name().into_iter().map(Result::unwrap);
    let files = files.filter(|entry| entry.file_type().is_file());
    files.map(|entry| (entry.path().to_owned(), std::fs::read(entry.path()).unwrap())).collect()
}

#[test]
fn reports_every_fault_and_changes_nothing() {
    let (workspace, pages) = workspace("");
    pages.plain(
        "vllm-1.0+rocm7.14.gfx1151-cp314-cp314-linux_x86_64.whl",
        "Requires-Dist: torch==2.11.0\nRequires-Dist: torch<2 ; python_version < '3.14'\n\
         Requires-Dist: Torch_Vision==1.0+rocm7.14.gfx1151\nRequires-Dist: numpy>=2 ; sys_platform == 'linux'\n\
         Requires-Dist: old>=1\nRequires-Dist: pandas ; extra == 'data'\nProvides-Extra: data\n\
         Requires-Dist: what ever\n",
    );
    // A version that does not match, and another one for another Python.
    pages.plain("torch-2.10.0+rocm7.14.gfx1151-cp314-cp314-linux_x86_64.whl", "");
    pages.plain("torch-2.11.0+rocm7.14.gfx1151-cp313-cp313-linux_x86_64.whl", "");
    // The same version for two Linux platforms, and one without a label.
    pages.plain("torch_vision-1.0+rocm7.14.gfx1151-cp314-cp314-linux_x86_64.whl", "");
    pages.plain("torch_vision-1.0+rocm7.14.gfx1151-cp312-abi3-manylinux_2_28_x86_64.whl", "");
    pages.plain("torch_vision-1.1-cp314-cp314-linux_x86_64.whl", "");
    // Yanked: it satisfies nothing, even though it is ours.
    pages.add("old-1.0+rocm7.14.gfx1151-py3-none-any.whl", "", |entry| {
        entry["yanked"] = json!("bad")
    });
    // Two sets of GPU targets.
    pages.plain("aiter-1.0+rocm7.14.gfx1151-py3-none-any.whl", "");
    pages.plain("aiter-1.0+rocm7.14.gfx1100-py3-none-any.whl", "");
    // Packages that do not match the page or are missing.
    pages.add("size-1.0+rocm7.14-py3-none-any.whl", "", |entry| entry["size"] = json!(1));
    pages.add("gone-1.0+rocm7.14-py3-none-any.whl", "", |entry| {
        entry["url"] = json!("../../packages/gone/other.whl");
    });
    pages.add("away-1.0+rocm7.14-py3-none-any.whl", "", |entry| {
        entry["url"] = json!("../../../../../../../../etc/passwd");
    });
    pages.add("meta-1.0+rocm7.14-py3-none-any.whl", "", |entry| {
        entry["core-metadata"] = json!({"sha256": "0".repeat(64)});
    });
    let before = snapshot(&pages.0);
    let ran = workspace.run(&["index", "check", "--json"]);
    ran.exits(1);
    similar_asserts::assert_eq!(
        findings(&ran),
        [
            "duplicate: torch_vision-1.0+rocm7.14.gfx1151 torch_vision-1.0+rocm7.14.gfx1151",
            "metadata-missing: away-1.0+rocm7.14",
            "metadata-missing: gone-1.0+rocm7.14",
            "metadata-missing: meta-1.0+rocm7.14",
            "package-differs: size-1.0+rocm7.14",
            "package-missing: away-1.0+rocm7.14",
            "package-missing: gone-1.0+rocm7.14",
            "plain-beside-labelled: torch_vision-1.1 torch_vision-1.0+rocm7.14.gfx1151",
            "unreadable: vllm-1.0+rocm7.14.gfx1151",
            "unsatisfied: vllm-1.0+rocm7.14.gfx1151",
            "unsatisfied: vllm-1.0+rocm7.14.gfx1151",
            "unsatisfied: vllm-1.0+rocm7.14.gfx1151",
            "several-gpu-targets: aiter-1.0+rocm7.14.gfx1100 aiter-1.0+rocm7.14.gfx1151",
            "unsatisfied-extra: vllm-1.0+rocm7.14.gfx1151",
        ]
    );
    let text = workspace.run(&["index", "check"]);
    text.exits(1);
    text.prints([
        "for Python 3.14 on x86_64",
        "1 wheel for other Pythons or platforms",
        "error[unsatisfied]: torch==2.11.0\n  in        vllm-1.0+rocm7.14.gfx1151-cp314-cp314-linux_x86_64.whl\n  \
         found     the index has only torch 2.10.0+rocm7.14.gfx1151\n  help      build a version of `torch`",
        "error[unsatisfied]: numpy>=2 ; sys_platform == 'linux'",
        "no outside index is declared",
        "1.0+rocm7.14.gfx1151 on every machine",
        "12 errors, 2 warnings | ",
    ]);
    assert!(snapshot(&pages.0) == before, "the check changed the index");
}

#[test]
fn checks_extras_that_the_stack_requests() {
    let (workspace, pages) = workspace("");
    pages.plain("a-1.0+rocm7.14-py3-none-any.whl", "Requires-Dist: b[gpu,none]==1.0\n");
    pages.plain(
        "b-1.0+rocm7.14-py3-none-any.whl",
        "Provides-Extra: gpu\nRequires-Dist: c ; extra == 'gpu'\nRequires-Dist: b[deep] ; extra == 'gpu'\n\
         Provides-Extra: deep\nRequires-Dist: d ; extra == 'deep'\n",
    );
    let ran = workspace.run(&["index", "check", "--json"]);
    ran.exits(1);
    let expected = [
        "unsatisfied: b-1.0+rocm7.14",
        "unsatisfied: b-1.0+rocm7.14",
        "unknown-extra: a-1.0+rocm7.14",
    ];
    assert_eq!(findings(&ran), expected);
}

#[test]
fn detects_damage_of_the_same_size_by_digest() {
    let (workspace, pages) = workspace("");
    let file = "a-1.0+rocm7.14-py3-none-any.whl";
    pages.plain(file, "");
    workspace.run(&["index", "check", "--digests"]).exits(0).prints(["no findings"]);
    fs_err::write(pages.0.join("packages/a").join(file), "x".repeat(file.len())).unwrap();
    workspace.run(&["index", "check"]).exits(0);
    workspace
        .run(&["index", "check", "--digests"])
        .exits(1)
        .prints(["error[package-differs]", "its sha256 is"]);
}

#[test]
fn checks_declared_outside_indexes() {
    let others = tempfile::tempdir().unwrap();
    let url = outside(others.path(), &[("numpy", "2.1", &[]), ("torch", "9.0", &[])]);
    let (workspace, pages) = workspace(&format!("\"{url}\""));
    let vllm = "vllm-1.0+rocm7.14-py3-none-any.whl";
    pages.plain(vllm, "Requires-Dist: numpy>=2\nRequires-Dist: torch\n");
    pages.plain("torch-2.0+rocm7.14-py3-none-any.whl", "");
    workspace.run(&["index", "check"]).exits(0).prints(["no findings | 2 requirements checked\n"]);
    // Only the index itself can satisfy our own names, regardless of other indexes.
    pages.plain(
        "triton-1.0+rocm7.14-py3-none-any.whl",
        "Requires-Dist: torch>=9\nRequires-Dist: numpy>=3\n",
    );
    let ran = workspace.run(&["index", "check"]);
    ran.exits(1);
    ran.prints([
        "error[unsatisfied]: torch>=9",
        "error[unsatisfied]: numpy>=3",
        "its newest is 2.1",
    ]);

    // The second index is unreachable, so requirements missing from the first are not checked.
    let manifest = workspace.read("rocmrpm.toml").replace(
        &format!("\"{url}\""),
        &format!("\"{url}\", \"http://me:s3cret@127.0.0.1:9/simple\""),
    );
    workspace.write("rocmrpm.toml", &manifest);
    fs_err::remove_dir_all(pages.0.join("simple/triton")).unwrap();
    workspace.run(&["index", "check"]).exits(0);
    pages.plain("flash-1.0+rocm7.14-py3-none-any.whl", "Requires-Dist: einops\n");
    let ran = workspace.run(&["index", "check"]);
    ran.exits(30).reports(["an external index is unreachable"]);
    assert!(!ran.stdout.contains("s3cret") && !ran.stderr.contains("s3cret"));
    ran.prints([
        "unchecked: einops",
        "flash-1.0+rocm7.14-py3-none-any.whl",
        "2 requirements checked, 1 unchecked",
    ]);
    let ran = workspace.run(&["index", "check", "--offline"]);
    ran.exits(0);
    ran.prints(["unchecked: einops", "unchecked: numpy>=2", "1 requirement checked, 2 unchecked"]);
}

#[test]
fn checks_local_index_and_channels() {
    let (workspace, pages) = workspace("");
    let wheels = [
        requiring(workspace.holder(), "demo-torch", &["demo-base ; extra == 'gpu'"]),
        requiring(workspace.holder(), "demo-vllm", &["demo-torch[gpu]==1.0"]),
        requiring(workspace.holder(), "demo-base", &[]),
    ];
    workspace
        .run(&["index", "check"])
        .exits(2)
        .reports(["there is no index in", "run `rocmrpm index`"]);
    index::write(&wheels, &pages.0).unwrap();
    workspace
        .run(&["index", "check", "--digests"])
        .exits(0)
        .prints(["3 wheels of 3 distributions", "no findings"]);
    // The HTML pages matter just as much.
    let html = pages.0.join("simple/demo-torch/index.html");
    let whole = fs_err::read_to_string(&html).unwrap();
    fs_err::write(&html, whole.replace("data-core-metadata", "data-x")).unwrap();
    workspace.run(&["index", "check"]).exits(1).prints([
        "error[pages-differ]",
        "of `demo-torch`",
        "1 error, ",
    ]);
    fs_err::write(&html, whole).unwrap();
    fs_err::create_dir(pages.0.join("testing")).unwrap();
    fs_err::rename(pages.0.join("simple"), pages.0.join("testing/simple")).unwrap();
    let dir = pages.0.to_str().unwrap();
    workspace
        .run(&["index", "check", dir])
        .exits(2)
        .reports(["choose a channel with `--channel`: testing"]);
    // The pages are one folder deeper than their URLs.
    workspace
        .run(&["index", "check", dir, "--channel", "testing"])
        .exits(1)
        .prints(["error[package-missing]"]);
}

#[test]
fn reports_an_index_without_wheels() {
    let (workspace, _) = workspace("");
    workspace
        .run(&["index"])
        .exits(0)
        .reports(["no component with a Python distribution has been built for fedora-43"]);
    workspace.run(&["index", "check"]).exits(0).prints(["no wheels | 0 requirements checked\n"]);
}
