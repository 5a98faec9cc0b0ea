//! Tests wheels built from RPMs and their index with pip and uv.

mod archive;
mod bad_input;
mod channels;
mod check;
mod clients;
mod crash;
mod fixtures;
mod held;
mod index;
mod link_modes;
mod pins;
mod platform_tags;
mod proof;
mod real;
mod requirements;
pub(crate) mod serve;
mod served;

use crate::{fetch, tools};
use fixtures::*;
use rocmrpm::error::Diagnose;
use rocmrpm::process::Command;

#[test]
fn pure_wheel_has_the_expected_members() {
    let dir = tempfile::tempdir().unwrap();
    let rpm = rich(dir.path());
    let wheel = one(std::slice::from_ref(&rpm), &dir.path().join("out"));
    let version = "1.0+rocm7.14.gfx1151";
    let stem = format!("demo_tool-{version}");
    assert_eq!(
        wheel.path.file_name().unwrap().to_str().unwrap(),
        format!("{stem}-py2.py3-none-any.whl")
    );
    assert_eq!((wheel.distribution.as_str(), wheel.version.as_str()), ("Demo.Tool", version));
    let record = text(&wheel.path, &format!("{stem}.dist-info/RECORD"));
    let expected = [
        format!("{stem}.data/data/share/demo-tool/data.txt"),
        format!("{stem}.data/scripts/demo-extra"),
        format!("{stem}.data/scripts/demo-shell"),
        "demo_tool/__init__.py".into(),
        "demo_tool/a, \"b\".txt".into(),
        "demo_tool/all/data.txt".into(),
        "demo_tool/copy.txt".into(),
        format!("{stem}.dist-info/METADATA"),
        format!("{stem}.dist-info/WHEEL"),
        format!("{stem}.dist-info/entry_points.txt"),
        format!("{stem}.dist-info/licenses/LICENSE"),
        format!("{stem}.dist-info/RECORD"),
    ];
    similar_asserts::assert_eq!(names(&wheel.path), expected);
    assert_eq!(record.lines().count(), expected.len());
    assert!(record.contains("\"demo_tool/a, \"\"b\"\".txt\",sha256="), "{record}");
    assert!(record.ends_with(&format!("{stem}.dist-info/RECORD,,\n")), "{record}");
    assert_eq!(
        text(&wheel.path, &format!("{stem}.dist-info/METADATA")),
        format!(
            "Metadata-Version: 2.1\r\nName: Demo.Tool\r\nVersion: {version}\r\n\r\nVersion: 1.0\r\n"
        )
    );
    assert_eq!(
        text(&wheel.path, &format!("{stem}.dist-info/WHEEL")),
        format!(
            "Wheel-Version: 1.0\nGenerator: rocmrpm ({})\nRoot-Is-Purelib: true\nTag: py2-none-any\nTag: py3-none-any\n",
            env!("CARGO_PKG_VERSION")
        )
    );
    assert!(
        text(&wheel.path, &format!("{stem}.data/scripts/demo-extra"))
            .starts_with("#!python\nimport")
    );
    assert!(
        text(&wheel.path, &format!("{stem}.data/scripts/demo-shell")).starts_with("#!/bin/sh\n")
    );

    let again = one(&[rpm], &dir.path().join("again"));
    assert_eq!(std::fs::read(&wheel.path).unwrap(), std::fs::read(&again.path).unwrap());
    let listing = Command::new("/usr/bin/python3")
        .args(["-m", "zipfile", "-l"])
        .arg(&wheel.path)
        .text()
        .unwrap();
    assert!(
        listing.contains("demo_tool/__init__.py") && listing.contains("2023-11-14 22:13:20"),
        "{listing}"
    );
    assert_eq!(
        std::fs::read_dir(dir.path().join("out")).unwrap().count(),
        1,
        "unexpected files were left"
    );
}

#[test]
fn merges_split_distributions_into_one_wheel() {
    let dir = tempfile::tempdir().unwrap();
    let info = format!("{LIB64}/ext-1.0.dist-info");
    let main = Package::new("python3-ext", "x86_64")
        .file(&format!("{info}/METADATA"), metadata("ext", "1.0"))
        .file(&format!("{info}/WHEEL"), "Tag: cp314-cp314-linux_x86_64\n")
        .program(&format!("{LIB64}/ext/_C.cpython-314-x86_64-linux-gnu.so"), elf(X86_64))
        .program(&format!("{LIB64}/ext/libgpu.so"), elf(X86_64))
        .file(&format!("{LIB64}/ext/kernel.hsaco"), elf(AMDGPU))
        .file(&format!("{LIB}/ext/pure.py"), "")
        .write(dir.path());
    let devel = Package::new("python3-ext-devel", "x86_64")
        .file("/usr/include/python3.14/ext/ext.h", "int x;\n")
        .file("/usr/include/ext-c/c.h", "int y;\n")
        .file("/usr/share/doc/python3-ext-devel/README", "read me\n")
        .write(dir.path());
    let debug = Package::new("python3-ext-debuginfo", "x86_64")
        .file("/usr/lib/debug/x.so.debug", elf(3))
        .write(dir.path());
    let wheel = one(&[main, devel, debug], &dir.path().join("out"));
    assert_eq!(wheel.tags, ["cp314-cp314-linux_x86_64"]);
    let stem = "ext-1.0+rocm7.14.gfx1151";
    assert!(
        text(&wheel.path, &format!("{stem}.dist-info/WHEEL")).contains("Root-Is-Purelib: false\n")
    );
    let names = names(&wheel.path);
    for name in ["ext/pure.py", "ext/kernel.hsaco"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
    assert!(names.contains(&format!("{stem}.data/headers/ext.h")), "{names:?}");
    assert!(names.contains(&format!("{stem}.data/data/include/ext-c/c.h")), "{names:?}");
}

#[test]
fn tags_stable_abi_and_plain_libraries() {
    let dir = tempfile::tempdir().unwrap();
    for (name, file, backend, expected) in [
        ("stable", "m.abi3.so", "cp39-abi3-linux_x86_64", "cp39-abi3-linux_x86_64"),
        ("plain", "libm.so", "py3-none-linux_x86_64", "py3-none-linux_x86_64"),
        ("gpuonly", "m.hsaco", "py3-none-any", "py3-none-any"),
    ] {
        let machine = if name == "gpuonly" { AMDGPU } else { X86_64 };
        let info = format!("{LIB64}/{name}-1.0.dist-info");
        let rpm = Package::new(name, "x86_64")
            .file(&format!("{info}/METADATA"), metadata(name, "1.0"))
            .file(&format!("{info}/WHEEL"), format!("Tag: {backend}\n"))
            .file(&format!("{LIB64}/{name}/{file}"), elf(machine))
            .write(dir.path());
        assert_eq!(one(&[rpm], &dir.path().join("out")).tags, [expected]);
    }
}

#[test]
fn builds_one_wheel_per_distribution() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let (a, b) = (
        Package::pure("python3-a", "a").write(dir.path()),
        Package::pure("python3-b", "b").write(dir.path()),
    );
    let docs = Package::new("a-doc", "noarch").file("/usr/share/doc/a/x", "x").write(dir.path());
    let wheels = build(&[b.clone(), a.clone(), docs.clone()], &out).unwrap();
    assert_eq!(wheels.iter().map(|w| w.distribution.as_str()).collect::<Vec<_>>(), ["a", "b"]);

    let stray = Package::new("a-data", "noarch").file("/usr/share/a/x", "x").write(dir.path());
    assert!(build(&[stray.clone(), docs], &dir.path().join("none")).unwrap().is_empty());
    let error = build(&[a, b, stray], &out).unwrap_err();
    assert!(
        error.to_string().contains("a-data-1.0-1.fc43.noarch.rpm: /usr/share/a/x: no dist-info"),
        "{error}"
    );
}

/// Returns the kind of defect, a package with it, and the expected error.
fn refused() -> Vec<(&'static str, Package)> {
    let pure = || Package::pure("python3-bad", "bad");
    let info = format!("{LIB}/bad-1.0.dist-info");
    let bare = || Package::new("python3-bad", "noarch");
    vec![
        ("`.` or `..`", pure().file(&format!("{LIB}/../../../../etc/evil"), "x")),
        ("`.` or `..`", pure().file(&format!("{LIB}/bad/../../evil.py"), "x")),
        ("control character", pure().file(&format!("{LIB}/bad/a\nb.py"), "x")),
        ("backslash", pure().file(&format!("{LIB}/bad/..\\..\\evil.py"), "x")),
        (
            "leaves the package: /etc/passwd",
            pure().link(&format!("{LIB}/bad/passwd"), "/etc/passwd"),
        ),
        (
            "leaves the package: ../../../../../../x",
            pure().link(&format!("{LIB}/bad/x"), "../../../../../../x"),
        ),
        (
            "`\\u{1b}[2J` is not a valid name",
            bare().file(&format!("{info}/METADATA"), metadata("\u{1b}[2J", "1.0")),
        ),
        ("leaves the package: loop", pure().link(&format!("{LIB}/bad/loop"), "loop")),
        ("a folder above it", pure().link(&format!("{LIB}/bad/up"), "../bad")),
        ("both as a file and as a folder", pure().file(&format!("{LIB64}/bad"), "x")),
        ("it differs from /usr/lib/", pure().file(&format!("{LIB64}/bad/__init__.py"), "other")),
        (
            "shared library outside site-packages",
            pure().file("/usr/lib64/libbad.so.1", elf(X86_64)),
        ),
        ("no counterpart", pure().file("/usr/libexec/bad", "x")),
        ("the wheel's own data", pure().file(&format!("{LIB}/bad-1.0.data/scripts/evil"), "x")),
        (
            "a second dist-info folder",
            pure().file(&format!("{LIB}/evil-1.0.dist-info/entry_points.txt"), "x"),
        ),
        (
            "several distributions: bad-1.0.dist-info, worse-1.0.dist-info",
            pure().file(&format!("{LIB}/worse-1.0.dist-info/METADATA"), "x"),
        ),
        ("two Python versions", pure().file("/usr/lib/python3.13/site-packages/bad/x.py", "x")),
        (
            "two Python versions",
            pure().file(&format!("{LIB}/bad/_C.cpython-313-x86_64-linux-gnu.so"), elf(X86_64)),
        ),
        (
            "two architectures",
            pure()
                .file(&format!("{LIB}/bad/a.so"), elf(X86_64))
                .file(&format!("{LIB}/bad/b.so"), elf(183)),
        ),
        (
            "not UTF-8",
            bare().file(
                &format!("{info}/METADATA"),
                b"Name: bad\nVersion: 1.0\nAuthor: \xff\n".to_vec(),
            ),
        ),
        ("it names other 1.0", bare().file(&format!("{info}/METADATA"), metadata("other", "1.0"))),
        ("it names bad 2.0", bare().file(&format!("{info}/METADATA"), metadata("bad", "2.0"))),
        ("no Version", bare().file(&format!("{info}/METADATA"), "Name: bad\n")),
        (
            "`../bad` is not a valid name",
            bare().file(&format!("{info}/METADATA"), metadata("../bad", "1.0")),
        ),
    ]
}

#[test]
fn rejects_unsuitable_packages_without_writing() {
    for (expected, package) in refused() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let good = Package::pure("python3-good", "good").write(dir.path());
        let bad = package.write(dir.path());
        for rpms in [vec![bad.clone()], vec![good.clone(), bad.clone()]] {
            let error = build(&rpms, &out).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(expected), "expected {expected:?}, got {text:?}");
            assert!(
                text.contains("python3-bad-1.0-1.fc43.noarch.rpm") && !text.contains('\n'),
                "{text:?}"
            );
            assert_eq!(error.kind().exit_code(), 10, "{text}");
            assert_eq!(
                std::fs::read_dir(&out).unwrap().count(),
                0,
                "{expected}: something was written"
            );
        }
    }
}

#[test]
fn rejects_links_that_multiply() {
    let dir = tempfile::tempdir().unwrap();
    let mut package = Package::pure("python3-bad", "bad").file(&format!("{LIB}/bad/d30/x"), "x");
    for level in 0..30 {
        for side in ["a", "b"] {
            package =
                package.link(&format!("{LIB}/bad/d{level}/{side}"), &format!("../d{}", level + 1));
        }
    }
    let error = build(&[package.write(dir.path())], &dir.path().join("out")).unwrap_err();
    assert!(error.to_string().contains("itself a link target"), "{error}");
}

#[test]
fn rejects_duplicate_files_in_the_header() {
    let dir = tempfile::tempdir().unwrap();
    let mut builder = rpm::PackageBuilder::new("bad", "1.0", "MIT", "noarch", "a demo");
    builder.using_config(rpm::BuildConfig::default().compression(rpm::CompressionType::None));
    for name in ["module_1.py", "module_2.py"] {
        builder
            .with_file_contents("x", rpm::FileOptions::new(format!("{LIB}/bad/{name}")))
            .unwrap();
    }
    let path = dir.path().join("bad.rpm");
    builder.build().unwrap().write_file(&path).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    replace(&mut bytes, b"module_2.py", b"module_1.py");
    std::fs::write(&path, bytes).unwrap();
    let error = build(&[path], &dir.path().join("out")).unwrap_err();
    let chain =
        format!("{error}: {:?}", std::error::Error::source(&error).map(ToString::to_string));
    assert!(chain.contains("duplicate") || chain.contains("twice"), "{chain}");
}
