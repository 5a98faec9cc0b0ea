//! Tests the records of what has been compiled, and the table made from them.

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

/// Returns the table's line of a component.
fn line(folder: &Path, component: &str) -> String {
    let table = std::fs::read_to_string(folder.join("docs/stack/evidence.md")).unwrap();
    table.lines().find(|line| line.starts_with(&format!("| {component} "))).unwrap().to_owned()
}

#[test]
fn table_of_evidence_is_up_to_date() {
    evidence(Path::new(REPOSITORY), &["table", "--check"]).unwrap();
}

#[test]
fn records_runs_and_shows_only_those_of_the_pinned_version() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let pins = "[hello]\nversion = \"1.0\"\n[other]\nversion = \"2\"\n";
    write(folder, "pins/stable.toml", pins);
    write(folder, "specs-templates/hello/component.toml", "");
    write(folder, "specs-templates/other/component.toml", "");
    write(folder, "mock-configs/lab.toml", "rocm-provider = \"rocm\"\n");
    write(folder, "mock-configs/rocm/rocm.toml", "version = \"7.2\"\n");
    let stack = "[stack]\ngpu-targets = [\"gfx1151\"]\ndefault-pins = \"stable\"\n";
    write(folder, "rocmrpm.toml", stack);
    let spec = Sha256::of_bytes("Name: hello\n");
    let build = format!(
        r#"{{"sources": [{{"file": "hello.tar.gz", "sha256": "{spec}"}}],
            "outputs": [{{"file": "hello-1.0-1.src.rpm", "sha256": "{spec}"}},
                {{"file": "hello-1.0-1.x86_64.rpm", "sha256": "{spec}"}},
                {{"file": "hello.spec", "sha256": "{spec}"}}]}}"#
    );
    write(folder, "build/lab/results/hello/build.json", &build);
    let times = r#"{"seconds": {"build": 74.5, "srpm": 1}, "finished": "2026-11-01T03:44:25Z"}"#;
    write(folder, "build/lab/results/hello/times.json", times);

    evidence(folder, &["record", ".", "lab", "hello", "make it", "inspected", "0", "1"]).unwrap();
    let hello = line(folder, "hello");
    let start = "| hello | stable | 1.0 | 7.2 | yes | yes | yes | yes |  | 1 min 15 s | ";
    assert!(hello.starts_with(start), "{hello}");
    assert!(hello.ends_with(" | `make it` |"), "{hello}");
    assert_eq!(line(folder, "other"), "| other | stable | 2 |  |  |  |  |  |  |  |  |  |");
    let path = folder.join("docs/stack/evidence/hello.stable.lab.toml");
    let record: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    assert_eq!(record["date"].as_str(), Some("2026-11-01"));
    let digests = |field: &str| {
        let table = record[field].as_table().unwrap().iter();
        table.map(|(name, of)| format!("{name} {}", of.as_str().unwrap())).collect::<Vec<_>>()
    };
    let of = |name: &str| format!("{name} sha256:{spec}");
    assert_eq!(digests("inputs"), [of("hello.spec"), of("hello.tar.gz")]);
    assert_eq!(digests("outputs"), [of("hello-1.0-1.x86_64.rpm")]);

    // An inspection that failed is not a stage.
    evidence(folder, &["record", ".", "lab", "hello", "make it", "compiled", "1", "9"]).unwrap();
    let start = "| hello | stable | 1.0 | 7.2 | yes | yes | yes | failed |  | 1 min 15 s | ";
    assert!(line(folder, "hello").starts_with(start), "{}", line(folder, "hello"));

    // A failed run has the stages in its log, also if it was stopped.
    write(folder, "build/lab/work/hello/logs/build.log", "Executing(%build): /bin/sh\n");
    write(folder, "build/lab/work/hello/sources/hello.spec", "Name: hello\n");
    evidence(folder, &["record", ".", "lab", "hello", "make it", "failed", "0", "5"]).unwrap();
    let start = "| hello | stable | 1.0 | 7.2 | yes | failed |  |  |  | 5 s | ";
    assert!(line(folder, "hello").starts_with(start), "{}", line(folder, "hello"));

    // Another version has not been built, and the table is out of date.
    write(folder, "pins/stable.toml", &pins.replace("1.0", "1.1"));
    let error = evidence(folder, &["table", "--check"]).unwrap_err();
    assert!(error.contains("docs/stack/evidence.md is out of date"), "{error}");
    evidence(folder, &["table"]).unwrap();
    assert_eq!(line(folder, "hello"), "| hello | stable | 1.1 |  |  |  |  |  |  |  |  |  |");
}

#[test]
fn rejects_records_with_other_fields() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "docs/stack/evidence/hello.stable.lab.toml", "component = \"hello\"\n");
    let error = evidence(folder.path(), &["table"]).unwrap_err();
    assert!(
        error.contains("hello.stable.lab.toml: expected the fields component, pins"),
        "{error}"
    );
}
