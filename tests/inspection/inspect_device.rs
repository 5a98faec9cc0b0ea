//! Compares device code in all places where two releases of clang store it with LLVM's own tools.
//! Needs no ROCm: the kernels only use builtins, and libamdhip64 is a stub.

use std::path::Path;

use crate::clang_fixture::ClangFixture;
use rocmrpm::gpu::GpuTarget;
use rocmrpm::inspect::{Depth, Expectations, FileFacts, Report, inspect};

fn expecting(targets: &[&str]) -> Expectations {
    let gpu_targets = targets.iter().map(|target| GpuTarget::parse(target).unwrap()).collect();
    Expectations { gpu_targets, device_code: Some(true), ..Expectations::default() }
}

fn report(path: &Path, depth: Depth) -> Report {
    inspect(&[path.to_owned()], &expecting(&["gfx1151"]), depth).unwrap()
}

fn file(report: &Report) -> &FileFacts {
    &report.subjects[0].files[0]
}

/// Returns target, storage, compression, code object version, count and kernels.
fn code(report: &Report) -> Vec<String> {
    let codes = file(report).device.iter().map(|c| {
        let compression = c.compression.map(|c| format!(" {c}")).unwrap_or_default();
        let version = c.version.map_or("-".into(), |version| version.to_string());
        let kernels = c.kernels.map_or("-".into(), |kernels| kernels.to_string());
        format!("{} {}{compression} v{version} {} {kernels}", c.target, c.storage, c.count)
    });
    codes.collect()
}

fn deep(path: &Path) -> Vec<String> {
    let report = report(path, Depth::Deep);
    assert_eq!((&file(&report).damage[..], &file(&report).wrong_hashes[..]), (&[][..], &[][..]));
    assert!(file(&report).mismatches.is_empty());
    code(&report)
}

#[test]
fn counts_kernels_of_every_code_object_version() {
    for clang in ["19", "22"] {
        let fixture = ClangFixture::new(clang);
        for version in [4, 5, 6] {
            fixture.compile(
                "twice",
                &format!("--offload-arch=gfx1151 -mcode-object-version={version}"),
                "k.o",
                &[],
            );
            fixture.link("k.o -o libk.so");
            assert_eq!(
                deep(&fixture.path("libk.so")),
                [format!("gfx1151 hip-fatbin v{version} 1 2")]
            );
        }
    }
}

#[test]
fn decodes_compressed_bundles_and_verifies_their_hashes() {
    let newer: &[(&str, &str)] = &[("COMPRESSED_BUNDLE_FORMAT_VERSION", "2")];
    for (clang, env, format) in
        [("19", &[][..], "ccob2-zstd"), ("22", &[][..], "ccob3-zstd"), ("22", newer, "ccob2-zstd")]
    {
        let fixture = ClangFixture::new(clang);
        let flags = "--offload-arch=gfx1100 --offload-arch=gfx1151 --offload-compress -mcode-object-version=5";
        fixture.compile("twice", flags, "k.o", env);
        fixture.compile("thrice", flags, "l.o", env);
        fixture.link("k.o l.o -o libk.so");
        let path = fixture.path("libk.so");
        let wanted =
            ["gfx1100", "gfx1151"].map(|target| format!("{target} hip-fatbin {format} v5 2 4"));
        assert_eq!(deep(&path), wanted);
        // A quick inspection gets the same targets and sizes from the tables only.
        let (quick, full) = (report(&path, Depth::Quick), report(&path, Depth::Deep));
        let wanted =
            ["gfx1100", "gfx1151"].map(|target| format!("{target} hip-fatbin {format} v- 2 -"));
        assert_eq!(code(&quick), wanted);
        let bytes =
            |report: &Report| file(report).device.iter().map(|c| c.bytes).collect::<Vec<_>>();
        assert_eq!((bytes(&quick), file(&quick).bundles), (bytes(&full), 2));
        assert_eq!(full.findings, []);

        // Only a deep inspection detects a wrong hash in the header.
        let mut changed = fs_err::read(&path).unwrap();
        let at = changed.windows(4).position(|window| window == b"CCOB").unwrap();
        changed[at + if format.starts_with("ccob3") { 24 } else { 16 }] ^= 1;
        fs_err::write(fixture.path("changed.so"), changed).unwrap();
        let ids = |depth| -> Vec<String> {
            let report = report(&fixture.path("changed.so"), depth);
            report.errors().map(|finding| finding.id.to_string()).collect()
        };
        assert_eq!(
            (ids(Depth::Quick), ids(Depth::Deep)),
            (vec![], vec!["bundle-hash-mismatch".into()])
        );
    }
}

#[test]
fn reads_relocatable_device_code_as_one_bundle() {
    let fixture = ClangFixture::new("19");
    for name in ["twice", "thrice"] {
        fixture.compile(name, "--offload-arch=gfx1151 -fgpu-rdc", &format!("{name}.o"), &[]);
    }
    // Before linking, object files and archives contain bitcode for the target.
    fixture.run("llvm-ar", "rcs librdc.a twice.o thrice.o");
    for (name, count) in [("twice.o", 1), ("librdc.a", 2)] {
        let object = report(&fixture.path(name), Depth::Deep);
        let found = (code(&object), &file(&object).damage[..]);
        assert_eq!(found, (vec![format!("gfx1151 bitcode v- {count} -")], &[][..]), "{name}");
        // The bitcode counts as code for this GPU.
        assert_eq!(object.findings, []);
        assert_eq!(object.verdicts()[0].to_string(), "served exactly");
    }
    fixture.link(
        "--hip-link -fgpu-rdc --offload-arch=gfx1151 -nogpulib twice.o thrice.o -o librdc.so",
    );
    let path = fixture.path("librdc.so");
    assert_eq!(deep(&path), ["gfx1151 hip-fatbin v5 1 4"]);
    assert_eq!(file(&report(&path, Depth::Deep)).bundles, 1);
}

#[test]
fn distinguishes_units_with_different_targets_and_features() {
    let fixture = ClangFixture::new("22");
    fixture.compile("twice", "--offload-arch=gfx1151 --offload-arch=gfx11-generic", "k.o", &[]);
    let features = "--offload-arch=gfx90a:xnack+ --offload-arch=gfx90a:xnack- --offload-arch=gfx906:sramecc-:xnack-";
    fixture.compile(
        "thrice",
        &format!("{features} --offload-arch=gfx1153 --offload-arch=gfx950"),
        "l.o",
        &[],
    );
    fixture.link("k.o l.o -o libk.so");
    fixture.run("llvm-strip", "libk.so");
    let wanted = [
        "gfx1151",
        "gfx1153",
        "gfx11-generic",
        "gfx90a:xnack+",
        "gfx90a:xnack-",
        "gfx906:sramecc-:xnack-",
        "gfx950",
    ];
    let mut wanted: Vec<String> =
        wanted.iter().map(|target| format!("{target} hip-fatbin v6 1 2")).collect();
    let mut found = deep(&fixture.path("libk.so"));
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted);
}

#[test]
fn reports_kernels_without_code_by_their_size() {
    let fixture = ClangFixture::new("22");
    let targets = "--offload-arch=gfx1100 --offload-arch=gfx1151 --offload-arch=gfx90a";
    for compress in ["", "--offload-compress"] {
        fixture.compile("twice", &format!("{targets} {compress}"), "k.o", &[]);
        // The kernels are empty for gfx1151 only.
        fixture.compile("stub", &format!("{targets} {compress} -DSTUB=__gfx1151__"), "s.o", &[]);
        fixture.link("k.o -o whole.so");
        fixture.link("s.o -o stub.so");
        let whole = report(&fixture.path("whole.so"), Depth::Deep);
        assert_eq!(
            (whole.findings.len(), whole.verdicts()[0].to_string().as_str()),
            (0, "served exactly")
        );
        let stub = report(&fixture.path("stub.so"), Depth::Deep);
        let found: Vec<_> = stub.errors().map(|f| format!("{}: {}", f.id, f.found)).collect();
        assert_eq!(found, ["kernels-stub: gfx1151: 2 of 2 kernels without code"]);
        assert_eq!(stub.verdicts()[0].to_string(), "0 of 2 kernels in stub.so");
    }
}

#[test]
fn reads_static_archives() {
    let fixture = ClangFixture::new("22");
    fixture.compile("twice", "--offload-arch=gfx1151 --offload-arch=gfx1100", "twice.o", &[]);
    fixture.compile("thrice", "--offload-arch=gfx1151", "an_object_with_a_long_name.o", &[]);
    for format in ["gnu", "bsd"] {
        let library = format!("lib{format}.a");
        let args =
            format!("--format={format} rcs {library} twice.o an_object_with_a_long_name.o stub.c");
        fixture.run("llvm-ar", &args);
        let found = deep(&fixture.path(&library));
        assert_eq!(
            found,
            ["gfx1100 static-archive v6 1 2", "gfx1151 static-archive v6 2 4"],
            "{format}"
        );
    }
}

#[test]
fn reads_offload_binaries_of_the_new_driver() {
    let fixture = ClangFixture::new("22");
    fixture.compile(
        "twice",
        "--offload-arch=gfx1151 --cuda-device-only --no-gpu-bundle-output",
        "k.hsaco",
        &[],
    );
    fixture.compile(
        "twice",
        "--offload-arch=gfx1151 --cuda-device-only --no-gpu-bundle-output -emit-llvm",
        "k.bc",
        &[],
    );
    let image = |file: &str, arch: &str| {
        format!("--image=file={file},triple=amdgcn-amd-amdhsa,arch={arch},kind=hip")
    };
    fixture.run(
        "clang-offload-packager",
        &format!("-o packed {} {}", image("k.hsaco", "gfx1151"), image("k.bc", "gfx1100")),
    );
    let packed = fs_err::read(fixture.path("packed")).unwrap();
    fs_err::write(fixture.path("twofold"), [&packed[..], &packed[..]].concat()).unwrap();
    let with = |first: &str, second: &str| [first.to_owned(), second.to_owned()];
    assert_eq!(
        deep(&fixture.path("packed")),
        with("gfx1100 bitcode v- 1 -", "gfx1151 offload-binary v6 1 2")
    );
    assert_eq!(
        deep(&fixture.path("twofold")),
        with("gfx1100 bitcode v- 2 -", "gfx1151 offload-binary v6 2 4")
    );
    // The wrong architecture.
    fixture.run("clang-offload-packager", &format!("-o wrong {}", image("k.hsaco", "gfx1100")));
    let wrong = report(&fixture.path("wrong"), Depth::Quick);
    assert_eq!(
        wrong.errors().map(|finding| finding.id.as_str()).collect::<Vec<_>>(),
        ["bundle-id-mismatch"]
    );
}

#[test]
fn counts_kernels_by_symbols_without_a_note() {
    let fixture = ClangFixture::new("19");
    fixture.compile(
        "twice",
        "--offload-arch=gfx1151 --cuda-device-only --no-gpu-bundle-output",
        "k.hsaco",
        &[],
    );
    assert_eq!(deep(&fixture.path("k.hsaco")), ["gfx1151 code-object v5 1 2"]);
    let mut bytes = fs_err::read(fixture.path("k.hsaco")).unwrap();
    let at = bytes.windows(7).position(|window| window == b"AMDGPU\0").unwrap();
    bytes[at] = b'X';
    fs_err::write(fixture.path("noteless.hsaco"), bytes).unwrap();
    assert_eq!(deep(&fixture.path("noteless.hsaco")), ["gfx1151 code-object v5 1 2"]);
    let symbols = fixture.run("llvm-readelf", "-sW k.hsaco");
    assert!(symbols.contains(".kd"), "{symbols}");
}
