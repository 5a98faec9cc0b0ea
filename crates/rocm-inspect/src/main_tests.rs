//! Tests the program on real and damaged files. The library has its own tests.

use std::path::Path;
use std::process::Command;

use super::run as run_program;

struct Output {
    code: u8,
    stdout: String,
    stderr: String,
}

/// Runs the program with files of a folder, which its output does not name.
fn run(dir: &Path, arguments: &[&str]) -> Output {
    let argument = |text: &&str| match text.ends_with(".so") || *text == "fifo" {
        true => dir.join(text).into(),
        false => (*text).into(),
    };
    let (code, stdout, stderr) = match run_program(arguments.iter().map(argument)) {
        Ok((text, code)) => (code, text, String::new()),
        Err(failure) => (failure.code, String::new(), failure.text),
    };
    let folder = format!("{}/", dir.display());
    let [stdout, stderr] = [stdout, stderr].map(|text| text.replace(&folder, ""));
    Output { code, stdout, stderr }
}

#[track_caller]
fn assert_prints(output: &Output, code: u8, stdout: &str, stderr: &str) {
    snapbox::assert_data_eq!(output.stderr.clone(), stderr);
    snapbox::assert_data_eq!(output.stdout.clone(), stdout);
    assert_eq!(output.code, code);
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
    assert_eq!(output.code, 1, "{}", output.stderr);
    let json: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(json["schema"], rocm_inspect::SCHEMA);
    assert_eq!(json["depth"], "deep");
    assert_eq!(json["gpu_targets"], serde_json::json!(["gfx1151"]));
    assert_eq!(json["findings"][0]["severity"], "error");
    let output = run(dir.path(), &["--gpu-target", "gfx110X-dgpu", "--json", "libx.so"]);
    let family: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(family["gpu_targets"], serde_json::json!(["gfx1100", "gfx1101", "gfx1102"]));
    let text = run(dir.path(), &["--gpu-target=gfx1151", "libx.so"]);
    let text = text.stdout;
    let id = "runpath-relative";
    assert_eq!(json["findings"][0]["id"], id);
    assert!(text.contains(&format!("why       rocm-inspect --explain {id}\n")), "{text}");
    let explained = run(dir.path(), &["--explain", id]);
    assert!(explained.stdout.starts_with(&format!("{id} (error)\n\nwhat: ")));
    let rules = run(dir.path(), &["--rules"]).stdout;
    assert!(rules.contains(&format!("error    {id}: ")), "{rules}");
}

#[test]
fn prints_every_format_and_what_differs() {
    let dir = tempfile::tempdir().unwrap();
    library(dir.path(), &[]);
    for (format, start) in [
        ("text", "libx.so "),
        ("json", "{\n  \"schema\": \"rocmrpm/inspection/"),
        ("html", "<!DOCTYPE html>\n"),
        ("junit", "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"rocm-inspect\" "),
        ("github", "::group::rocm-inspect\n"),
    ] {
        let output = run(dir.path(), &["--format", format, "libx.so"]);
        assert!(output.stdout.starts_with(start), "{format}: {}{}", output.stderr, output.stdout);
    }
    std::fs::create_dir(dir.path().join("old")).unwrap();
    std::fs::rename(dir.path().join("libx.so"), dir.path().join("old/libx.so")).unwrap();
    library(dir.path(), &["-Wl,-soname,libx.so.2"]);
    let same = run(dir.path(), &["--against", "libx.so", "libx.so"]);
    assert_prints(&same, 0, "no differences\n", "");
    let changed = run(dir.path(), &["--against", "old/libx.so", "libx.so"]);
    assert!(
        changed.code == 1 && changed.stdout.contains("SONAME    none -> libx.so.2"),
        "{}",
        changed.stdout
    );
    let json = run(dir.path(), &["--against", "old/libx.so", "--json", "libx.so"]).stdout;
    assert!(json.contains("\"schema\": \"rocmrpm/comparison/"), "{json}");
}

#[test]
fn system_libraries_are_not_unknown() {
    let dir = tempfile::tempdir().unwrap();
    library(dir.path(), &["-Wl,-soname,libmine.so.7"]);
    std::fs::write(dir.path().join("y.c"), "void x(void); void y(void) { x(); }\n").unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-s", "-o", "user.so", "y.c", "libx.so"]).current_dir(dir.path());
    assert!(cc.status().unwrap().success(), "cc failed");
    let unknown = run(dir.path(), &["user.so"]).stdout;
    assert!(unknown.contains("[library-unknown]"), "{unknown}");
    let machine = run(dir.path(), &["--system", "this-machine", "user.so"]).stdout;
    assert!(machine.contains("[library-missing]"), "{machine}");
    let any = run(dir.path(), &["--system", "none", "user.so"]).stdout;
    assert!(!any.contains("[library-"), "{any}");
    let known = run(dir.path(), &["--system-library", "libmine.so.7", "user.so"]).stdout;
    assert!(known.ends_with("\nno findings\n"), "{known}");
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
    assert_eq!(output.code, 1);
    assert!(output.stdout.contains("error["));
}

#[test]
fn rejects_wrong_arguments() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, message) in [
        (&[][..], "no file to inspect"),
        (&["--no-such"], "unexpected argument `--no-such`"),
        (&["--deep=yes", "x"], "unexpected argument `--deep=yes`"),
        (&["--gpu-target"], "`--gpu-target` needs a value"),
        (
            &["--system", "vms", "x"],
            "unknown system `vms`: expected one of fedora, this-machine, none",
        ),
        (
            &["--format", "xml", "x"],
            "unknown format `xml`: expected one of text, json, html, junit, github",
        ),
        (&["--against", "x.so", "--format=html", "y.so"], "`--against` prints only text and JSON"),
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
    assert!(help.stdout.contains("Usage: rocm-inspect [OPTIONS] FILE...\n"));
    let version = format!("rocm-inspect {}\n", env!("CARGO_PKG_VERSION"));
    assert_prints(&run(dir.path(), &["--version"]), 0, &version, "");
}
