//! Tests the `rocm-inspect` program on real and damaged files. The library has its own tests.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::path::Path;
use std::process::{Command, Output};

fn run(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocm-inspect"));
    command.args(arguments).current_dir(dir).output().unwrap()
}

#[track_caller]
fn assert_prints(output: &Output, code: i32, stdout: &str, stderr: &str) {
    snapbox::assert_data_eq!(String::from_utf8_lossy(&output.stderr).into_owned(), stderr);
    snapbox::assert_data_eq!(String::from_utf8_lossy(&output.stdout).into_owned(), stdout);
    assert_eq!(output.status.code(), Some(code));
}

/// Compiles a library that links to libc.
fn library(dir: &Path, flags: &[&str]) {
    std::fs::write(dir.join("x.c"), "#include <stdio.h>\nvoid x(void) { puts(\"x\"); }\n").unwrap();
    let mut command = Command::new("cc");
    let command = command.args(["-shared", "-fPIC", "-s", "-o", "libx.so", "x.c"]).args(flags);
    assert!(command.current_dir(dir).status().unwrap().success(), "cc failed");
}

#[test]
fn reports_a_compiled_library() {
    let dir = tempfile::tempdir().unwrap();
    library(dir.path(), &[]);
    let expected = "\
libx.so  [..], 1 file
  no GPU code

  libx.so  [..]
      provided  libc.so.6 (glibc)

no findings
";
    assert_prints(&run(dir.path(), &["libx.so"]), 0, expected, "");
}

#[test]
fn fails_if_a_report_has_errors() {
    let dir = tempfile::tempdir().unwrap();
    library(dir.path(), &["-Wl,--enable-new-dtags,-rpath,lib"]);
    let output = run(dir.path(), &["--gpu-target", "gfx1151", "--json", "--deep", "libx.so"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], rocm_inspect::SCHEMA);
    assert_eq!(json["depth"], "deep");
    assert_eq!(json["gpu_targets"], serde_json::json!(["gfx1151"]));
    assert_eq!(json["findings"][0]["severity"], "error");
    let output = run(dir.path(), &["--gpu-target", "gfx110X-dgpu", "--json", "libx.so"]);
    let family: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(family["gpu_targets"], serde_json::json!(["gfx1100", "gfx1101", "gfx1102"]));
    let text = run(dir.path(), &["--gpu-target=gfx1151", "libx.so"]);
    let text = String::from_utf8(text.stdout).unwrap();
    let id = "runpath-relative";
    assert_eq!(json["findings"][0]["id"], id);
    assert!(text.contains(&format!("why       rocm-inspect --explain {id}\n")), "{text}");
    let explained = run(dir.path(), &["--explain", id]);
    assert!(
        String::from_utf8(explained.stdout)
            .unwrap()
            .starts_with(&format!("{id} (error)\n\nwhat: "))
    );
}

#[test]
fn rejects_files_that_are_not_inspected() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("empty.so"), "").unwrap();
    std::fs::write(dir.path().join("text.so"), "not an ELF file\n").unwrap();
    for name in ["empty.so", "text.so"] {
        let expected = format!("error: {name}: not an RPM, wheel, [..]\n");
        assert_prints(&run(dir.path(), &[name]), 2, "", &expected);
    }
    let missing = "error: missing.so: no such file or folder\n";
    assert_prints(&run(dir.path(), &["missing.so"]), 2, "", missing);
    assert!(Command::new("mkfifo").arg(dir.path().join("fifo")).status().unwrap().success());
    let fifo = "error: fifo: a FIFO, not a file or a folder\nhelp: [..]\n";
    assert_prints(&run(dir.path(), &["fifo"]), 2, "", fifo);
}

#[test]
fn reports_a_truncated_library_as_damaged() {
    let dir = tempfile::tempdir().unwrap();
    library(dir.path(), &[]);
    let bytes = std::fs::read(dir.path().join("libx.so")).unwrap();
    std::fs::write(dir.path().join("cut.so"), &bytes[..bytes.len() / 2]).unwrap();
    let output = run(dir.path(), &["cut.so"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stdout).unwrap().contains("error["));
}

#[test]
fn rejects_wrong_arguments() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, message) in [
        (&[][..], "no file to inspect"),
        (&["--no-such"], "unexpected argument `--no-such`"),
        (&["--deep=yes", "x"], "unexpected argument `--deep=yes`"),
        (&["--gpu-target"], "`--gpu-target` needs a value"),
        (&["--gpu-target", "gfx-none", "x"], "unknown GPU target `gfx-none`"),
        (&["--explain", "no-such-rule"], "unknown rule `no-such-rule`"),
    ] {
        let expected = format!("error: {message}\nhelp: run `rocm-inspect --help`\n");
        assert_prints(&run(dir.path(), arguments), 2, "", &expected);
    }
}

#[test]
fn prints_help_and_version() {
    let dir = tempfile::tempdir().unwrap();
    let help = run(dir.path(), &["--help"]);
    assert!(
        String::from_utf8(help.stdout).unwrap().contains("Usage: rocm-inspect [OPTIONS] FILE...\n")
    );
    let version = format!("rocm-inspect {}\n", env!("CARGO_PKG_VERSION"));
    assert_prints(&run(dir.path(), &["--version"]), 0, &version, "");
}
