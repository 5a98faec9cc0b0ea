//! Compares the platform tags of compiled files with auditwheel's result for the same wheels.

use std::path::Path;

use super::fixtures::*;
use crate::tools::tool;

/// Returns auditwheel's tag for a wheel.
fn auditwheel(wheel: &Path) -> String {
    let text = tool("auditwheel").args(["show", "--json"]).arg(wheel).text().unwrap();
    let json = text.find('{').map_or("", |at| &text[at..]);
    let verdict: serde_json::Value =
        serde_json::from_str(json).unwrap_or_else(|_| panic!("{text}"));
    verdict["overall_tag"].as_str().unwrap().to_owned()
}

fn platform(wheel: &rocmrpm::wheel::Wheel) -> String {
    let [tag] = &wheel.tags[..] else { panic!("{:?}", wheel.tags) };
    tag.splitn(3, '-').nth(2).unwrap().to_owned()
}

/// Returns C code that calls this function of the C library.
fn calls(function: &str) -> String {
    format!("extern void {function}(void); void here(void) {{ {function}(); }}")
}

#[test]
fn platform_matches_auditwheel() {
    const INTEL: bool = cfg!(target_arch = "x86_64");
    let arch = std::env::consts::ARCH;
    let compiler = Compiler::new();
    let needed = "extern void there(void); void here(void) { there(); }";
    let library = |name: &str, flags: &str| {
        compiler.library(name, "void there(void) {}", &format!("-Wl,-soname,{name} {flags}"))
    };
    let inner = library("libinner.so.1", "-lc");
    library("liboutside-of-the-wheel.so.1", "-lc");
    library("libpython3.11.so.1.0", "-lc");
    std::fs::write(compiler.0.path().join("map"), "GLIBCXX_3.4.30 { global: there; };\n").unwrap();
    library("libstdc++.so.6", "-lc -Wl,--version-script,map");
    let oldest = if INTEL { "manylinux_2_5" } else { "manylinux_2_17" };
    let mut cases = vec![
        ("plain", compiler.library("a.so", &calls("malloc"), "-lc"), oldest),
        (
            "threads",
            compiler.library("a.so", &calls("pthread_key_create"), "-lc"),
            "manylinux_2_34",
        ),
        ("random", compiler.library("a.so", &calls("arc4random"), "-lc"), "manylinux_2_36"),
        ("vector", compiler.library("a.so", needed, "-l:libstdc++.so.6 -lc"), "manylinux_2_35"),
        ("python", compiler.library("a.so", needed, "-l:libpython3.11.so.1.0 -lc"), "linux"),
        (
            "outside",
            compiler.library("a.so", needed, "-l:liboutside-of-the-wheel.so.1 -lc"),
            "linux",
        ),
        ("lost", compiler.library("a.so", needed, "-l:libinner.so.1 -lc"), "linux"),
        (
            "found",
            compiler.library("a.so", needed, "-l:libinner.so.1 -lc -Wl,-rpath,$ORIGIN/../p.libs"),
            oldest,
        ),
    ];
    if INTEL {
        cases.push((
            "copies",
            compiler.library("a.so", &calls("memcpy"), "-lc -fno-builtin"),
            "manylinux_2_17",
        ));
        let newer = compiler.library("a.so", &calls("malloc"), "-lc -Wl,-z,x86-64-v3");
        cases.push(("processor", newer, "linux"));
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, extension, expected) in cases {
        let module = format!("{name}/a.so");
        let files: &[(&str, &[u8])] = &[(&module, &extension), ("p.libs/libinner.so.1", &inner)];
        let rpm = compiled(name, "", "py3-none-any", files).write(dir.path());
        let wheel = one(&[rpm], &dir.path().join("out"));
        assert_eq!(platform(&wheel), format!("{expected}_{arch}"), "{name}");
        assert_eq!(auditwheel(&wheel.path), platform(&wheel), "{name}");
    }
}

#[test]
fn private_glibc_version_has_no_policy() {
    let compiler = Compiler::new();
    std::fs::write(compiler.0.path().join("map"), "GLIBC_PRIVATE { global: there; };\n").unwrap();
    compiler.library(
        "libm.so.6",
        "void there(void) {}",
        "-Wl,-soname,libm.so.6 -Wl,--version-script,map -lc",
    );
    let source = "extern void there(void); void here(void) { there(); }";
    let module = compiler.library("a.so", source, "-l:libm.so.6 -lc");
    let dir = tempfile::tempdir().unwrap();
    let rpm =
        compiled("private", "", "py3-none-any", &[("private/a.so", &module)]).write(dir.path());
    let wheel = one(&[rpm], &dir.path().join("out"));
    assert_eq!(platform(&wheel), format!("linux_{}", std::env::consts::ARCH));
    assert_eq!(auditwheel(&wheel.path), platform(&wheel));
}

#[test]
fn omits_a_stable_abi_that_is_violated() {
    let compiler = Compiler::new();
    let dir = tempfile::tempdir().unwrap();
    let oldest = if cfg!(target_arch = "x86_64") { 5 } else { 17 };
    for (name, function, expected) in [
        ("kept", "PyList_New", "cp38-abi3"),
        ("later", "PyType_FromMetaclass", "cp312-abi3"),
        ("more", "PyUnstable_Code_New", "cp314-cp314"),
    ] {
        let source = format!("{} void *PyInit_m(void) {{ here(); return 0; }}", calls(function));
        let module = compiler.library("m.abi3.so", &source, "-lc");
        let path = format!("{name}/m.abi3.so");
        let rpm =
            compiled(name, "", "cp38-abi3-linux_x86_64", &[(&path, &module)]).write(dir.path());
        let wheel = one(&[rpm], &dir.path().join("out"));
        assert_eq!(
            wheel.tags,
            [format!("{expected}-manylinux_2_{oldest}_{}", std::env::consts::ARCH)]
        );
    }
}
