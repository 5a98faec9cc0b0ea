//! Tests where libraries are found, in RPMs and wheels of libraries from a real compiler and
//! linker. Needs no ROCm: its libraries are stubs.

use std::io::Write as _;
use std::path::PathBuf;

use rocmrpm::inspect::{Depth, Expectations, Report, Rocm, System, inspect};
use rocmrpm::process::Command;

struct LinkageFixture(tempfile::TempDir);

impl LinkageFixture {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Links a library from this source; `flags` name its dependencies.
    fn library(&self, name: &str, source: &str, flags: &[&str]) -> Vec<u8> {
        fs_err::write(self.path("source.cpp"), source).unwrap();
        let soname = format!("-Wl,-soname,{name}");
        let mut args =
            vec!["-shared", "-fPIC", "-nostdlib", "-fuse-ld=lld-19", "-L.", "-Wl,--build-id"];
        args.extend(["source.cpp", &soname, "-o", name]);
        args.extend(flags);
        let command = Command::new("clang++-19").args(&args).cwd(self.0.path());
        let line = command.line();
        command
            .text()
            .unwrap_or_else(|error| panic!("{line}: {error} (Debian packages: clang-19 lld-19)"));
        fs_err::read(self.path(name)).unwrap()
    }

    fn rpm(&self, name: &str, files: &[(&str, &[u8])]) -> PathBuf {
        let mut builder = rpm::PackageBuilder::new(name, "1.0", "MIT", "x86_64", "a fixture");
        builder.release("1.fc43");
        for (place, bytes) in files {
            builder.with_file_contents(*bytes, rpm::FileOptions::new(*place)).unwrap();
        }
        let path = self.path(&format!("{name}.rpm"));
        builder.build().unwrap().write_file(&path).unwrap();
        path
    }

    fn wheel(&self, name: &str, files: &[(&str, &[u8])]) -> PathBuf {
        let path = self.path(&format!("{name}-1.0-py3-none-linux_x86_64.whl"));
        let mut zip = zip::ZipWriter::new(fs_err::File::create(&path).unwrap());
        for (place, bytes) in files {
            zip.start_file(*place, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap();
        path
    }
}

fn system() -> System {
    let mut system =
        System { name: "fedora-43".into(), rocm_prefix: "/opt/rocm".into(), ..System::default() };
    system.add("libc.so.6", "glibc");
    system.add("libamdhip64.so.7", "rocm-hip");
    for (kind, version) in [("GLIBC", "2.42"), ("GLIBCXX", "3.4.34")] {
        system.symbol_versions.insert(kind.into(), version.into());
    }
    system
}

fn report(paths: &[PathBuf]) -> Report {
    let expectations = Expectations { system: system(), ..Expectations::default() };
    inspect(paths, &expectations, Depth::Deep).unwrap()
}

fn needs(report: &Report) -> Vec<String> {
    let by = |by: &Option<String>| by.clone().unwrap_or_else(|| "-".into());
    report
        .needs
        .iter()
        .map(|n| format!("{} {} {} {}", n.file, n.library, n.origin, by(&n.by)))
        .collect()
}

/// Returns the findings of these rules.
fn found(report: &Report, ids: &[&str]) -> Vec<String> {
    let findings = report.findings.iter().filter(|f| ids.contains(&f.id.as_str()));
    findings
        .map(|f| format!("{} {}: {}", f.file.as_deref().unwrap_or("-"), f.id, f.found))
        .collect()
}

#[test]
fn finds_the_origin_of_each_needed_library() {
    let fixture = LinkageFixture::new();
    fixture.library("libamdhip64.so.7", "", &[]);
    fixture.library("libamdhip64.so.6", "", &[]);
    fixture.library("libnobody.so.1", "", &[]);
    fixture.library("libcudart.so.12", "", &[]);
    let own = fixture.library("libown.so", "", &[]);
    let flags = [
        "-l:libown.so",
        "-l:libamdhip64.so.7",
        "-l:libnobody.so.1",
        "-l:libcudart.so.12",
        "-l:libamdhip64.so.6",
        "-Wl,--enable-new-dtags,-rpath,$ORIGIN/private",
    ];
    let user = fixture.library("libuser.so", "", &flags);
    let report = report(&[
        fixture.rpm("own", &[("/usr/lib64/private/libown.so", &own)]),
        fixture.rpm("user", &[("/usr/lib64/libuser.so", &user)]),
    ]);
    assert_eq!(
        needs(&report),
        [
            "/usr/lib64/libuser.so libown.so self /usr/lib64/private/libown.so",
            "/usr/lib64/libuser.so libamdhip64.so.7 provided rocm-hip",
            "/usr/lib64/libuser.so libnobody.so.1 missing -",
            "/usr/lib64/libuser.so libcudart.so.12 foreign CUDA (NVIDIA)",
            "/usr/lib64/libuser.so libamdhip64.so.6 foreign another version of ROCm; fedora-43 has libamdhip64.so.7",
        ]
    );
    let ids: Vec<&str> = report.errors().map(|finding| finding.id.as_str()).collect();
    assert_eq!(ids, ["rocm-majors-mixed", "library-foreign", "library-foreign"]);
    // A name that is missing from the tables is not an error.
    let unknown =
        "/usr/lib64/libuser.so library-unknown: NEEDED `libnobody.so.1`, not in any library table";
    assert_eq!(found(&report, &["library-unknown"]), [unknown]);
}

#[test]
fn follows_origin_between_wheels() {
    let fixture = LinkageFixture::new();
    let c10 = fixture.library("libc10.so", "", &[]);
    let module = fixture.library(
        "_C.so",
        "",
        &["-l:libc10.so", "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../torch/lib"],
    );
    let torch = fixture.wheel("torch", &[("torch/lib/libc10.so", &c10)]);
    let vllm = fixture.wheel("vllm", &[("vllm/_C.so", &module)]);
    let both = report(&[torch, vllm.clone()]);
    assert_eq!(needs(&both), ["vllm/_C.so libc10.so self torch/lib/libc10.so"]);
    assert_eq!(found(&both, &["rpath-unresolved", "library-missing"]), [""; 0]);
    let single = report(&[vllm]);
    assert_eq!(
        found(&single, &["rpath-unresolved", "library-missing", "library-in-other-wheel"]),
        ["vllm/_C.so library-in-other-wheel: NEEDED `libc10.so` of torch"]
    );
}

#[test]
fn command_accepts_an_extension_without_its_hosts_wheel() {
    let fixture = LinkageFixture::new();
    for name in ["libc10.so", "libtorch_hip.so", "libtorch_cuda.so"] {
        fixture.library(name, "", &[]);
    }
    let inspected = |needed: &[&str]| {
        let module = fixture.library("_C.so", "", needed);
        let wheel = fixture.wheel("extension", &[("a/_C.so", &module), ("a/_D.so", &module)]);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rocmrpm"));
        let output =
            command.arg("inspect").arg(wheel).current_dir(fixture.path("")).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = inspected(&["-l:libc10.so", "-l:libtorch_hip.so"]);
    assert_eq!((code, text.matches("of torch in 2 files").count()), (Some(0), 1), "{text}");
    assert!(text.contains("library-in-other-wheel"), "{text}");
    let (code, text) = inspected(&["-l:libc10.so", "-l:libtorch_cuda.so"]);
    assert_eq!((code, text.contains("library-foreign")), (Some(1), true), "{text}");
}

#[test]
fn accepts_a_wheel_made_from_an_rpm() {
    let fixture = LinkageFixture::new();
    let library = fixture.library("libk.so.1", "extern \"C\" int k() { return 1; }", &[]);
    let other = fixture.library("libk.so.1", "extern \"C\" int k() { return 2; }", &[]);
    let rpm = fixture.rpm("k", &[("/usr/lib64/python3.14/site-packages/k/libk.so.1", &library)]);
    let wheel = fixture.wheel("k", &[("k/libk.so.1", &library)]);
    assert_eq!(found(&report(&[rpm.clone(), wheel.clone()]), &["soname-twice"]), [""; 0]);
    let second = fixture.wheel("l", &[("l/libk.so.1", &other)]);
    assert_eq!(
        found(&report(&[rpm, wheel, second]), &["soname-twice"]),
        ["k/libk.so.1 soname-twice: SONAME `libk.so.1` of k/libk.so.1 also in l/libk.so.1"]
    );
}

#[test]
fn rejects_symbol_versions_of_a_newer_glibc() {
    let fixture = LinkageFixture::new();
    fs_err::write(
        fixture.path("map"),
        "GLIBC_2.34 { global: old; }; GLIBC_2.99 { global: fresh; local: *; };",
    )
    .unwrap();
    let stub = "extern \"C\" int old() { return 0; } extern \"C\" int fresh() { return 0; }";
    fixture.library("libc.so.6", stub, &["-Wl,--version-script=map"]);
    let use_of = |name: &str| {
        format!("extern \"C\" int {name}(); extern \"C\" int k() {{ return {name}(); }}")
    };
    let new = fixture.library("libnew.so", &use_of("fresh"), &["-l:libc.so.6"]);
    let old = fixture.library("libold.so", &use_of("old"), &["-l:libc.so.6"]);
    let report = report(&[
        fixture.rpm("k", &[("/usr/lib64/libnew.so", &new), ("/usr/lib64/libold.so", &old)])
    ]);
    assert_eq!(
        found(&report, &["symbol-version-too-new"]),
        ["/usr/lib64/libnew.so symbol-version-too-new: needed symbol versions GLIBC_2.99"]
    );
}

#[test]
fn rejects_extensions_for_another_torch() {
    let fixture = LinkageFixture::new();
    let c10 = fixture.library("libc10.so", "namespace c10 { int kept() { return 1; } }", &[]);
    let source = "namespace c10 { int kept(); int gone(); } extern \"C\" int k() { return c10::kept() + c10::gone(); }";
    let module = fixture.library("_C.so", source, &["-l:libc10.so"]);
    let torch = fixture.wheel("torch", &[("torch/lib/libc10.so", &c10)]);
    let report = report(&[torch, fixture.wheel("x", &[("x/_C.so", &module)])]);
    assert_eq!(
        found(&report, &["torch-symbol-undefined"]),
        ["x/_C.so torch-symbol-undefined: undefined c10::gone (_ZN3c104goneEv)"]
    );
}

#[test]
fn warns_of_hip_functions_without_the_library() {
    let fixture = LinkageFixture::new();
    fixture.library("libamdhip64.so.7", "extern \"C\" int hipMalloc() { return 0; }", &[]);
    let source = "extern \"C\" int hipMalloc(); extern \"C\" int k() { return hipMalloc(); }";
    let without = fixture.library("libwithout.so", source, &[]);
    let with = fixture.library("libwith.so", source, &["-l:libamdhip64.so.7"]);
    let report = report(&[fixture
        .rpm("k", &[("/usr/lib64/libwith.so", &with), ("/usr/lib64/libwithout.so", &without)])]);
    let found = found(&report, &["library-underlinked"]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0]
            .starts_with("/usr/lib64/libwithout.so library-underlinked: hipMalloc of libamdhip64")
    );
}

#[test]
fn finds_the_libraries_of_this_machine() {
    let mut system = System::this_machine(&Rocm::default()).unwrap();
    assert!(
        system.libraries.contains_key("libc.so.6") && system.symbol_versions.contains_key("GLIBC")
    );
    let expectations = Expectations { system: system.clone(), ..Expectations::default() };
    let shell = [PathBuf::from("/bin/sh").canonicalize().unwrap()];
    let report = inspect(&shell, &expectations, Depth::Quick).unwrap();
    assert_eq!(found(&report, &["library-missing", "symbol-version-too-new"]), [""; 0]);
    assert!(report.needs.iter().any(|need| need.library == "libc.so.6"));
    system.symbol_versions.insert("GLIBC".into(), "2.1".into());
    let expectations = Expectations { system, ..Expectations::default() };
    let report = inspect(&shell, &expectations, Depth::Quick).unwrap();
    assert_eq!(found(&report, &["symbol-version-too-new"]).len(), 1);
}
