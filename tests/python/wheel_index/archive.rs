//! Tests writing wheels: a wheel contains everything in the RPM or is not written at all.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rocmrpm::digest::Sha256;
use rocmrpm::error::{Diagnose, Kind};
use rocmrpm::process::Command;

use super::fixtures::*;

/// For tests that run themselves again in a process that may be killed: the path of the RPM.
const RPM: &str = "ROCMRPM_TEST_RPM";

/// Runs one of these tests in a separate process after some shell commands.
fn run_separately(test: &str, rpm: &Path, prepare: &str) {
    let (_, module) = module_path!().split_once("::").unwrap();
    let script = format!("{prepare}\nexec \"$0\" --exact {module}::{test} --nocapture");
    let this = std::env::current_exe().unwrap();
    let run = Command::new("sh").args(["-c", &script]).arg(this).env(RPM, rpm).run().unwrap();
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.success() && out.contains("1 passed"), "{prepare}: {out}{err}");
}

fn left(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

/// Returns incompressible bytes.
fn noise(length: usize) -> Vec<u8> {
    (0..length as u64 / 32).flat_map(|at| *Sha256::of_bytes(at.to_le_bytes()).as_bytes()).collect()
}

/// Builds a distribution with rpmbuild; `install` runs in its folder.
fn rpmbuild(dir: &Path, install: &str) -> PathBuf {
    let info = format!("{LIB}/demo-1.0.dist-info");
    let spec = format!(
        "Name: demo\nVersion: 1.0\nRelease: 1\nSummary: demo\nLicense: MIT\nBuildArch: noarch\n\
         %description\ndemo\n%install\nmkdir -p %{{buildroot}}{info} %{{buildroot}}{LIB}/demo\n\
         printf 'Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n' > %{{buildroot}}{info}/METADATA\n\
         cd %{{buildroot}}{LIB}/demo\n{install}\n%files\n{LIB}\n"
    );
    std::fs::write(dir.join("demo.spec"), spec).unwrap();
    let top = format!("_topdir {}", dir.display());
    let args = [
        "-bb",
        "--quiet",
        "-D",
        &top,
        "-D",
        "__os_install_post %{nil}",
        "-D",
        "_binary_payload w.ufdio",
    ];
    Command::new("rpmbuild")
        .args(args)
        .arg("demo.spec")
        .cwd(dir)
        .runs_code_of_tests()
        .text()
        .unwrap();
    dir.join("RPMS/noarch/demo-1.0-1.noarch.rpm")
}

#[test]
fn members_of_every_length_match_the_rpm() {
    let dir = tempfile::tempdir().unwrap();
    let text: String = (0..200_000).map(|number| format!("{number}\n")).collect();
    let files = [("empty", Vec::new()), ("text", text.into_bytes()), ("noise", noise(1 << 20))];
    let script = [b"#!/usr/bin/python3\n# ".to_vec(), noise(600 << 10)].concat();
    let mut package =
        Package::pure("demo", "demo").uncompressed().program("/usr/bin/script", script.clone());
    for (name, content) in &files {
        package = package.file(&format!("{LIB}/demo/{name}"), content.clone());
    }
    let wheel = one(&[package.write(dir.path())], &dir.path().join("out"));
    let members = members(&wheel.path);
    let member = |wanted: &str| &members.iter().find(|(name, _)| name.ends_with(wanted)).unwrap().1;
    for (name, content) in &files {
        assert!(member(&format!("demo/{name}")) == content, "{name}");
    }
    let shebang = script.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    assert!(*member("scripts/script") == [b"#!python\n", &script[shebang..]].concat());
    let tested =
        Command::new("/usr/bin/python3").args(["-m", "zipfile", "-t"]).arg(&wheel.path).text();
    assert_eq!(tested.unwrap(), "Done testing");
}

#[test]
fn writes_hard_links_as_files() {
    let dir = tempfile::tempdir().unwrap();
    let rpm = rpmbuild(dir.path(), "echo text > a\nln a b\nln a sub\n: > empty\nln empty empty2");
    let wheel = one(&[rpm], &dir.path().join("out"));
    let members = members(&wheel.path);
    for (name, content) in
        [("a", "text\n"), ("b", "text\n"), ("sub", "text\n"), ("empty", ""), ("empty2", "")]
    {
        let found = members.iter().find(|(member, _)| *member == format!("demo/{name}"));
        assert_eq!(found.map(|(_, bytes)| bytes.as_slice()), Some(content.as_bytes()), "{name}");
    }
}

#[test]
fn rejects_content_that_differs_from_the_header() {
    let dir = tempfile::tempdir().unwrap();
    let rpm = Package::pure("demo", "demo").uncompressed().write(dir.path());
    one(std::slice::from_ref(&rpm), &dir.path().join("whole"));
    let mut bytes = std::fs::read(&rpm).unwrap();
    replace(&mut bytes, b"it runs", b"it ruin");
    std::fs::write(&rpm, bytes).unwrap();
    let out = dir.path().join("out");
    let error = build(&[rpm], &out).unwrap_err();
    assert_eq!(error.kind(), Kind::Build);
    let text = error.to_string();
    assert!(
        text.contains("demo/__init__.py: the content differs from the header: its SHA-256 is "),
        "{text}"
    );
    assert_eq!(left(&out), [""; 0]);
}

#[test]
fn full_disk_leaves_no_files() {
    if let Some(rpm) = std::env::var_os(RPM).map(PathBuf::from) {
        let out = rpm.with_extension("out");
        let error = build(&[rpm], &out).unwrap_err();
        assert_eq!(error.kind(), Kind::Environment);
        assert_eq!(left(&out), [""; 0]);
        let mut text = error.to_string();
        let mut cause: &dyn std::error::Error = &error;
        while let Some(next) = cause.source() {
            text += &format!(": {next}");
            cause = next;
        }
        assert!(text.contains("File too large"), "{text}");
        let expected = std::env::var("WRITTEN").unwrap();
        assert_eq!(text.contains(".rocmrpm-"), expected == "wheel", "{expected}: {text}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut package =
        Package::pure("demo", "demo").file(&format!("{LIB}/demo/noise"), noise(400 << 10));
    // Adds nothing to the payload, but entries to the wheel's lists.
    for number in 0..40 {
        package = package.file(&format!("{LIB}/demo/empty{number}"), "");
    }
    let rpm = package.write(dir.path());
    one(std::slice::from_ref(&rpm), &dir.path().join("out"));
    // Limits files to this many blocks of 512 bytes (POSIX, `ulimit`); with the signal ignored,
    // writing beyond that is an error.
    for (blocks, file) in [(16, "payload"), (802, "wheel")] {
        let prepare = format!("trap '' XFSZ; ulimit -f {blocks}; export WRITTEN={file}");
        run_separately("full_disk_leaves_no_files", &rpm, &prepare);
    }
}

#[test]
fn stops_between_blocks() {
    if let Some(rpm) = std::env::var_os(RPM).map(PathBuf::from) {
        rocmrpm::process::catch_signals().unwrap();
        let out = rpm.with_extension("out");
        std::fs::create_dir(&out).unwrap();
        let watched = out.clone();
        let watcher = std::thread::spawn(move || {
            let length = || {
                let mut files = std::fs::read_dir(&watched).unwrap().flatten();
                files.next().and_then(|file| file.metadata().ok()).map(|metadata| metadata.len())
            };
            while length().is_none_or(|length| length == 0) {
                std::thread::sleep(Duration::from_millis(1));
            }
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT)
                .unwrap();
            let mut longest = 0;
            while let Some(length) = length() {
                longest = longest.max(length);
                std::thread::sleep(Duration::from_millis(1));
            }
            longest
        });
        let error = build(&[rpm], &out).unwrap_err();
        assert_eq!(error.kind(), Kind::Interrupted);
        assert_eq!(left(&out), [""; 0]);
        let longest = watcher.join().unwrap();
        assert!(longest < 20 << 20, "{longest} bytes were written");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Compresses to half of its size.
    let large: String = noise(512 << 10).iter().map(|byte| format!("{byte:02x}")).collect();
    let path = dir.path().join("large");
    std::fs::write(&path, large.repeat(96)).unwrap();
    let rpm = rpmbuild(dir.path(), &format!("cp '{}' .", path.display()));
    run_separately("stops_between_blocks", &rpm, "");
}
