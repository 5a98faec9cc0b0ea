//! Tests the records of what has been compiled, and the tables made from them.

use std::path::Path;
use std::process::Command;

use crate::support::REPOSITORY;
use rocmrpm::digest::Sha256;

/// Runs tests/laboratory/evidence.py in a folder; returns standard error if it fails.
fn evidence(folder: &Path, args: &[&str]) -> Result<(), String> {
    let script = Path::new(REPOSITORY).join("tests/laboratory/evidence.py");
    let mut python = Command::new("python3");
    python.arg("-B").arg(script).args(args).current_dir(folder);
    let output = python.output().expect("python3 runs");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8(output.stderr).unwrap()) }
}

fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Returns the line about a component in a page of docs/stack.
fn line(folder: &Path, page: &str, component: &str) -> String {
    let text = std::fs::read_to_string(folder.join("docs/stack").join(page)).unwrap();
    let start = format!("| {component} ");
    text.lines()
        .find(|line| line.starts_with(&start))
        .unwrap_or_else(|| panic!("{text}"))
        .to_owned()
}

#[test]
fn tables_of_evidence_are_up_to_date() {
    evidence(Path::new(REPOSITORY), &["table", "--check"]).unwrap();
}

/// The stack's first page names a test for each claim that has no record.
#[test]
fn tests_named_as_proof_exist() {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let page = read(&Path::new(REPOSITORY).join("docs/stack/README.md"));
    let named: Vec<_> = page.split('`').filter_map(|code| code.split_once("::")).collect();
    assert!(!named.is_empty());
    let files = walkdir::WalkDir::new(Path::new(REPOSITORY).join("tests")).into_iter();
    let files: Vec<_> = files.map(|entry| entry.unwrap().into_path()).collect();
    for (module, name) in named {
        let file = format!("{module}.rs");
        let mut texts = files.iter().filter(|path| path.ends_with(&file)).map(|path| read(path));
        assert!(
            texts.any(|text| text.contains(&format!("#[test]\nfn {name}()"))),
            "{module}::{name}"
        );
    }
}

const PINS: &str = "[hello]\nversion = \"1.0\"\n[other]\nversion = \"2\"\n";

/// Writes a workspace with two pinned components, a third for another GPU, and a build of `hello`.
fn workspace(folder: &Path) {
    write(folder, "pins/stable.toml", PINS);
    write(folder, "pins/edge.toml", &format!("{PINS}[third]\nversion = \"3\"\n"));
    for (component, text) in [("hello", ""), ("other", ""), ("third", "gpu-targets = [\"gfx942\"]")]
    {
        write(folder, &format!("specs-templates/{component}/component.toml"), text);
    }
    write(folder, "mock-configs/lab.toml", "rocm-provider = \"rocm\"\n");
    write(folder, "mock-configs/rocm/rocm.toml", "version = \"7.2\"\n");
    let stack = "[stack]\ngpu-targets = [\"gfx1151\"]\ndefault-pins = \"stable\"\n";
    write(folder, "rocmrpm.toml", stack);
    let page = "# Stack\n\n<!-- records: `python3 tests/laboratory/evidence.py table` -->\nold\n\
        <!-- end of records -->\n\nend\n";
    write(folder, "docs/stack/README.md", page);
    let spec = spec_digest();
    let build = format!(
        r#"{{"sources": [{{"file": "hello.tar.gz", "sha256": "{spec}"}}],
            "outputs": [{{"file": "hello-1.0-1.src.rpm", "sha256": "{spec}"}},
                {{"file": "hello-1.0-1.x86_64.rpm", "sha256": "{spec}"}},
                {{"file": "hello.spec", "sha256": "{spec}"}}]}}"#
    );
    write(folder, "build/lab/results/hello/build.json", &build);
    let times = r#"{"seconds": {"build": 74.5, "srpm": 1}, "finished": "2026-11-01T03:44:25Z"}"#;
    write(folder, "build/lab/results/hello/times.json", times);
    let report = r#"{"subjects": [{"debug": false, "device": [{"count": 2, "kernels": 40},
        {"count": 1, "kernels": 2}]}, {"debug": true, "device": [{"count": 9, "kernels": 9}]}]}"#;
    write(folder, "build/lab/results/hello/inspection.json", report);
}

fn spec_digest() -> Sha256 {
    Sha256::of_bytes("Name: hello\n")
}

/// Writes the record of a run that reached a stage, with this exit status and device.
fn record(folder: &Path, command: &str, stage: &str, status: &str, device: &str) {
    evidence(folder, &["record", ".", "lab", "hello", command, stage, status, "5", device])
        .unwrap();
}

#[test]
fn shows_the_stages_that_runs_of_the_pinned_versions_reached() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    workspace(folder);
    record(folder, "make lab-llama ROCM=7.2", "inspected", "0", "");
    let page = std::fs::read_to_string(folder.join("docs/stack/README.md")).unwrap();
    let expected = "# Stack

<!-- records: `python3 tests/laboratory/evidence.py table` -->
| component | pin set | ROCm | prepared | configured | compiled | inspected | installed | ran |
|---|---|---|---|---|---|---|---|---|
| hello 1.0, ROCm flavor | stable | 7.2 | yes | yes | yes | yes |  |  |

No package has run on a GPU. Without a record of a build:

- `stable`: other
- `edge`: hello, other
<!-- end of records -->

end
";
    assert_eq!(page, expected);
    let facts = line(folder, "evidence.md", "hello");
    let expected = "| hello 1.0, ROCm flavor | stable | 7.2 | inspected | 42 kernels in 3 code objects \
        | 1 min 15 s | 2026-11-01 | `make lab-llama ROCM=7.2` |";
    assert_eq!(facts, expected);

    let path = folder.join("docs/stack/evidence/hello.stable.lab.toml");
    let written: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    assert_eq!(written["date"].as_str(), Some("2026-11-01"));
    let digests = |field: &str| {
        let table = written[field].as_table().unwrap().iter();
        table.map(|(name, of)| format!("{name} {}", of.as_str().unwrap())).collect::<Vec<_>>()
    };
    let of = |name: &str| format!("{name} sha256:{}", spec_digest());
    assert_eq!(digests("inputs"), [of("hello.spec"), of("hello.tar.gz")]);
    assert_eq!(digests("outputs"), [of("hello-1.0-1.x86_64.rpm")]);

    // A stage that failed is not reached.
    record(folder, "make it", "compiled", "1", "");
    let hello = line(folder, "README.md", "hello");
    assert_eq!(hello, "| hello 1.0 | stable | 7.2 | yes | yes | yes | failed |  |  |");
    assert!(line(folder, "evidence.md", "hello").contains("| compiled, then failed |"));

    // A failed run has the stages in its log, also if it was stopped.
    write(folder, "build/lab/work/hello/logs/build.log", "Executing(%build): /bin/sh\n");
    write(folder, "build/lab/work/hello/sources/hello.spec", "Name: hello\n");
    record(folder, "make it", "failed", "0", "");
    let hello = line(folder, "README.md", "hello");
    assert_eq!(hello, "| hello 1.0 | stable | 7.2 | yes | failed |  |  |  |  |");

    // Another version has not been built; its pages are out of date, and name the older record.
    write(folder, "pins/stable.toml", &PINS.replace("1.0", "1.1"));
    let error = evidence(folder, &["table", "--check"]).unwrap_err();
    assert!(error.contains("docs/stack/README.md is out of date"), "{error}");
    evidence(folder, &["table"]).unwrap();
    let read = |page: &str| std::fs::read_to_string(folder.join("docs/stack").join(page)).unwrap();
    assert!(read("README.md").contains("- `stable` and `edge`: hello, other\n"));
    assert!(read("evidence.md").contains("no longer pinned: `hello.stable.lab.toml` (1.0).\n"));
}

#[test]
fn names_the_device_on_which_a_package_ran() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    workspace(folder);
    // Without HIP, ROCm has no part in a build.
    let chroot = "rocm-provider = \"rocm\"\n[macros]\n\"_without_hip\" = \"1\"\n";
    write(folder, "mock-configs/lab.toml", chroot);
    record(folder, "make lab-llama-vulkan", "ran", "0", "llvmpipe (LLVM 21)");
    let hello = line(folder, "README.md", "hello");
    let expected =
        "| hello 1.0, Vulkan flavor | stable |  | yes | yes | yes | yes | yes | on llvmpipe |";
    assert_eq!(hello, expected);
    assert!(line(folder, "evidence.md", "hello").contains("| ran on llvmpipe (LLVM 21) |"));
    let read = || std::fs::read_to_string(folder.join("docs/stack/README.md")).unwrap();
    assert!(read().contains("No package has run on a GPU."), "{}", read());

    record(folder, "make it", "ran", "0", "AMD Radeon 8060S (RADV)");
    assert!(line(folder, "README.md", "hello").ends_with("| on AMD Radeon 8060S |"));
    assert!(!read().contains("No package has run on a GPU."), "{}", read());
}

#[test]
fn shows_a_build_of_another_version_apart() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    workspace(folder);
    workspace(&folder.join("other"));
    write(folder, "other/pins/stable.toml", &PINS.replace("1.0", "0.9"));
    let commit = format!("hello=git:{}", "0".repeat(40));
    let run = ["record", "other", "lab", "hello", "make it", "inspected", "0", "5", &commit];
    evidence(folder, &run).unwrap();
    let page = std::fs::read_to_string(folder.join("docs/stack/README.md")).unwrap();
    assert!(page.contains("- `stable` and `edge`: hello, other\n"), "{page}");
    let page = page.replace('\n', " ");
    assert!(page.contains("than the pinned one: hello 0.9 instead of 1.0: inspected."), "{page}");
    let facts = line(folder, "evidence.md", "hello");
    assert!(
        facts.starts_with("| hello 0.9 instead of 1.0 | stable | 7.2 | inspected |"),
        "{facts}"
    );
    let record = folder.join("docs/stack/evidence/hello.stable.lab.toml");
    let record: toml::Table = std::fs::read_to_string(record).unwrap().parse().unwrap();
    assert_eq!(record["instead-of"].as_str(), Some("1.0"));
    assert_eq!(record["inputs"]["hello"].as_str(), commit.strip_prefix("hello="));
}

#[test]
fn rejects_records_with_other_fields() {
    let folder = tempfile::tempdir().unwrap();
    workspace(folder.path());
    write(folder.path(), "docs/stack/evidence/hello.stable.lab.toml", "component = \"hello\"\n");
    let error = evidence(folder.path(), &["table"]).unwrap_err();
    assert!(
        error.contains("hello.stable.lab.toml: expected the fields component, pins"),
        "{error}"
    );
}

#[test]
fn asks_for_the_marks_around_the_generated_part() {
    let folder = tempfile::tempdir().unwrap();
    workspace(folder.path());
    write(folder.path(), "docs/stack/README.md", "# Stack\n");
    let error = evidence(folder.path(), &["table"]).unwrap_err();
    assert!(
        error.contains("docs/stack/README.md: the generated part is not marked\nhelp: "),
        "{error}"
    );
}
