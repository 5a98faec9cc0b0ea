//! Tests one property of every kind of inspected file: after any truncation or change, the result
//! is facts or an error that names the file, in bounded time. The files are also the seeds of the
//! fuzz targets. Compiled only for tests.

use std::path::{Path, PathBuf};

use fs_err as fs;

use super::testing::{
    HostElf, Kpack, Method, aligned, archive, bundle, ccob, code_object, flip_bytes,
    kernels_object, offload_binary,
};
use super::{Depth, Expectations, InspectError, Subject, inspect, inspect_bytes};
use rocmrpm_base::gpu::GpuTarget;

/// A file: the fuzz target that it is a seed for, its name, its bytes.
pub(super) struct Fixture {
    target: &'static str,
    name: String,
    bytes: Vec<u8>,
}

fn fixture(target: &'static str, name: impl Into<String>, bytes: Vec<u8>) -> Fixture {
    Fixture { target, name: name.into(), bytes }
}

fn plain() -> Vec<u8> {
    bundle(&[
        ("host-x86_64-unknown-linux-gnu-", &[]),
        ("hipv4-amdgcn-amd-amdhsa--gfx1100", &code_object("gfx1100", 600)),
        ("hipv4-amdgcn-amd-amdhsa--gfx1151", &code_object("gfx1151", 700)),
    ])
}

fn kpacks() -> [(&'static str, Vec<u8>); 4] {
    let code = code_object("gfx1151", 600);
    let kpack = Kpack::new("k_lib", &["gfx1151"]).kernel("lib/libk.so#0", "gfx1151", &code);
    let two = kpack.clone().kernel("lib/libk.so#1", "gfx1151", &code);
    [
        ("none.kpack", kpack.build()),
        ("zstd.kpack", two.clone().compressed().build()),
        ("plain.kpack", two.plain()),
        ("empty.kpack", Kpack::new("k_lib", &[]).build()),
    ]
}

fn elfs() -> Vec<(&'static str, Vec<u8>)> {
    let host =
        || HostElf::new().needed("libamdhip64.so.7").soname("libk.so.0").runpath("$ORIGIN/../lib");
    let mixed = aligned(&[plain(), ccob(&plain(), 3, Method::Zstd), code_object("gfx1201", 700)]);
    vec![
        ("plain.so", host().fatbin(&plain()).build()),
        ("mixed.so", host().rpath("/opt/rocm/lib:").fatbin(&mixed).build()),
        ("empty.so", host().build()),
        ("debug.so", host().empty(".dynamic").empty(".hip_fatbin").build()),
        (
            "kpack.so",
            host()
                .fatbin(&plain())
                .empty(".hip_fatbin")
                .kpack_of("lib/libk.so", &[".kpack/a"], 3)
                .build(),
        ),
        ("code.hsaco", code_object("gfx90a:xnack+", 700)),
    ]
}

fn rpm(files: &[(&str, Vec<u8>)], compression: rpm::CompressionType) -> Vec<u8> {
    let mut builder = rpm::PackageBuilder::new("k", "1.0", "MIT", "x86_64", "a fixture");
    builder.release("1.fc43");
    builder.using_config(rpm::BuildConfig::default().compression(compression));
    for (name, bytes) in files {
        let options = rpm::FileOptions::new(format!("/usr/lib64/k/{name}"));
        builder.with_file_contents(bytes.clone(), options).unwrap();
    }
    builder.with_symlink(rpm::FileOptions::symlink("/usr/lib64/k/link.so", "plain.so")).unwrap();
    let mut bytes = Vec::new();
    builder.build().unwrap().write(&mut bytes).unwrap();
    bytes
}

fn wheel(files: &[(&str, Vec<u8>)], method: zip::CompressionMethod) -> Vec<u8> {
    use std::io::Write as _;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    for (name, bytes) in files {
        zip.start_file(format!("k/{name}"), options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn tar(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let mut tar = tar::Builder::new(encoder);
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, format!("k-1.0/{name}"), &bytes[..]).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

/// Static archives and offload binaries.
fn collections() -> [(&'static str, Vec<u8>); 4] {
    let (fat, object) = (elfs().swap_remove(0).1, kernels_object("gfx1151", 3));
    let members: [(&str, &[u8]); 5] = [
        ("/", b"symbols"),
        ("//", b"long.o/\n"),
        ("/0", &fat),
        ("k.o/", &object),
        ("#1/4", b"b.o\0BC"),
    ];
    let images: [(&str, u16, &[u8]); 3] =
        [("gfx1151", 1, &object), ("gfx1100", 2, b"BC\xc0\xde"), ("", 4, &plain())];
    [
        ("k.a", archive(&members)),
        ("one.packed", offload_binary(&images[..1], 1)),
        ("three.packed", offload_binary(&images, 2)),
        ("two.packed", [offload_binary(&images, 2), offload_binary(&images[..1], 1)].concat()),
    ]
}

/// Returns a small file of every kind.
pub(super) fn fixtures() -> Vec<Fixture> {
    let mut all: Vec<_> =
        elfs().into_iter().map(|(name, bytes)| fixture("elf", name, bytes)).collect();
    all.extend(collections().map(|(name, bytes)| fixture("elf", name, bytes)));
    all.push(fixture("ccob", "plain.co", plain()));
    for version in 1..=3 {
        for method in [Method::Zlib, Method::Zstd] {
            let name = format!("{version}-{method:?}.co");
            all.push(fixture("ccob", name, ccob(&plain(), version, method)));
        }
    }
    all.extend(kpacks().map(|(name, bytes)| fixture("kpack", name, bytes)));
    let [none, ..] = kpacks();
    let files = [elfs().swap_remove(4), elfs().swap_remove(0), (".kpack/a", none.1)];
    for compression in [
        rpm::CompressionType::None,
        rpm::CompressionType::Gzip,
        rpm::CompressionType::Xz,
        rpm::CompressionType::Zstd,
    ] {
        all.push(fixture("rpm", format!("{compression}.rpm"), rpm(&files, compression)));
    }
    for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        let name = format!("k-1.0-py3-none-{}.whl", method.to_string().to_lowercase());
        all.push(fixture("wheel", name, wheel(&files, method)));
    }
    all.push(fixture("wheel", "k-1.0.tar.gz", tar(&files)));
    all
}

fn judged(path: &Path) -> Result<super::Report, InspectError> {
    let gpu_targets = vec![GpuTarget::parse("gfx1151").unwrap()];
    inspect(
        &[path.to_owned()],
        &Expectations { gpu_targets, ..Expectations::default() },
        Depth::Deep,
    )
}

/// Checks that the result for a changed file names it and is not too long.
fn answered(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    match judged(path) {
        Ok(report) => {
            let [subject] = &report.subjects[..] else { panic!("{report:?}") };
            assert!(subject.path.ends_with(name));
            for finding in report.findings.iter().filter(|finding| finding.file.is_some()) {
                assert!(
                    finding.subject.as_ref().is_some_and(|path| path.ends_with(name)),
                    "{finding:?}"
                );
            }
            // A small file must not cause a large result.
            let answer = serde_json::to_string(&report).unwrap().len();
            assert!(answer < (64 << 10) + 16 * bytes.len(), "{answer} bytes");
        }
        Err(error) => assert!(error.to_string().contains(name), "{error}"),
    }
}

fn shown(subject: &Subject) -> String {
    format!("{:#?} {:#?}", subject.files, subject.contents)
}

/// Returns where to write the fuzz targets' seeds; see `fuzz/seeds.sh`.
fn seeds() -> Option<PathBuf> {
    std::env::var_os("ROCMRPM_FUZZ_SEEDS").map(PathBuf::from)
}

#[test]
fn reads_undamaged_files() {
    let dir = tempfile::tempdir().unwrap();
    for Fixture { target, name, bytes } in fixtures() {
        let path = dir.path().join(&name);
        fs::write(&path, &bytes).unwrap();
        if let Some(seeds) = seeds() {
            // The fuzz targets prepend the magic to their input.
            let seed = match (target, bytes.starts_with(b"CCOB")) {
                ("ccob", true) => [&[0], &bytes[4..]].concat(),
                ("ccob", false) => [&[1], &bytes[24..]].concat(),
                ("kpack", _) => bytes[8..].to_vec(),
                _ => bytes.clone(),
            };
            fs::create_dir_all(seeds.join(target)).unwrap();
            fs::write(seeds.join(target).join(&name), seed).unwrap();
        }
        let report = judged(&path).unwrap();
        let [subject] = &report.subjects[..] else { panic!("{report:?}") };
        let damage: Vec<_> = subject.files.iter().flat_map(|file| &file.damage).collect();
        assert!(damage.is_empty(), "{name}: {damage:?}");
        let code = |file: &super::FileFacts| !file.device.is_empty() || file.kpack.is_some();
        let without = ["empty.so", "debug.so"].contains(&&*name);
        assert_eq!(subject.files.iter().any(code), !without, "{name}: {subject:?}");
        let alone = super::fuzzing::archive(&path).map(|alone| shown(&alone));
        let archive = matches!(target, "rpm" | "wheel");
        assert_eq!(alone, archive.then(|| shown(subject)));
    }
}

#[test]
fn survives_truncation() {
    let dir = tempfile::tempdir().unwrap();
    for Fixture { name, bytes, .. } in fixtures() {
        let path = dir.path().join(&name);
        // Headers and tables are at the start and at the end.
        let edge = 200.min(bytes.len() / 2);
        let middle = (edge..bytes.len() - edge).step_by(1 + bytes.len() / 100);
        for length in (0..edge).chain(middle).chain(bytes.len() - edge..bytes.len()) {
            answered(&path, &bytes[..length]);
        }
    }
}

#[test]
fn survives_changed_bytes() {
    let dir = tempfile::tempdir().unwrap();
    for Fixture { name, bytes, .. } in fixtures() {
        let path = dir.path().join(&name);
        flip_bytes(&bytes, 100, |bytes| answered(&path, bytes));
        let edge = 256.min(bytes.len());
        flip_bytes(&bytes[..edge], 100, |head| answered(&path, &[head, &bytes[edge..]].concat()));
        let edge = bytes.len() - edge;
        flip_bytes(&bytes[edge..], 100, |tail| answered(&path, &[&bytes[..edge], tail].concat()));
    }
}

#[test]
fn inspects_bytes_at_both_depths() {
    for Fixture { name, bytes, .. } in fixtures() {
        for depth in [Depth::Quick, Depth::Deep] {
            flip_bytes(&bytes, 200, |bytes| {
                let found = inspect_bytes(&name, bytes, depth);
                assert_eq!((found.path.as_str(), found.size), (name.as_str(), bytes.len() as u64));
            });
        }
    }
}
