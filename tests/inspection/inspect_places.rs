//! Inspects GPU code in every place and format that compilers, linkers and packers use: files,
//! members of RPMs and members of wheels give the same facts at both depths, and the facts match
//! LLVM's tools.

mod fixtures;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use fixtures::{Fixture, Row, Workshop};
use rocmrpm::gpu::GpuTarget;
use rocmrpm::inspect::{Depth, Expectations, FileFacts, Report, inspect};

const DEPTHS: [Depth; 2] = [Depth::Quick, Depth::Deep];

/// From this size, members are not kept in memory, and a quick inspection skips data it does not
/// need.
const LARGE: usize = 16 << 20;

fn report(path: &Path, depth: Depth) -> Report {
    let gpu_targets = vec![GpuTarget::parse("gfx1151").unwrap()];
    let expectations =
        Expectations { gpu_targets, device_code: Some(true), ..Expectations::default() };
    inspect(&[path.to_owned()], &expectations, depth).unwrap()
}

fn files(path: &Path, depth: Depth) -> Vec<FileFacts> {
    let mut report = report(path, depth);
    assert_eq!(report.subjects.len(), 1, "{}", path.display());
    report.subjects.remove(0).files
}

fn only_file(path: &Path, depth: Depth) -> FileFacts {
    let mut files = files(path, depth);
    assert_eq!(files.len(), 1, "{}", path.display());
    files.remove(0)
}

fn rows(facts: &FileFacts) -> Vec<Row> {
    let rows = facts.device.iter().map(|code| Row {
        target: code.target.to_string(),
        storage: code.storage.to_string(),
        compression: code
            .compression
            .map(|compression| compression.to_string())
            .unwrap_or_default(),
        version: code.version,
        count: code.count,
        bytes: code.bytes,
        kernels: code.kernels,
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    rows
}

/// Returns the facts of a quick inspection: no kernels, and only the table of data that it does not
/// decompress.
fn quick(row: &Row) -> Row {
    // Bundles of version 1 end where their content ends.
    let decoded = row.compression.is_empty() || row.compression.starts_with("ccob1");
    Row { kernels: None, version: row.version.filter(|_| decoded), ..row.clone() }
}

/// Returns the facts as one value without the name.
fn all_of(facts: &FileFacts) -> serde_json::Value {
    let mut value = serde_json::to_value(facts).unwrap();
    value["path"].take();
    value
}

fn rpm(folder: &Path, files: &[(&str, Vec<u8>)]) -> PathBuf {
    let mut builder = rpm::PackageBuilder::new("k", "1.0", "MIT", "x86_64", "a fixture");
    builder.release("1.fc43");
    for (name, bytes) in files {
        let options = rpm::FileOptions::new(format!("/usr/lib64/{name}"));
        builder.with_file_contents(bytes.clone(), options).unwrap();
    }
    let path = folder.join("k-1.0-1.fc43.x86_64.rpm");
    builder.build().unwrap().write_file(&path).unwrap();
    path
}

fn wheel(folder: &Path, files: &[(&str, Vec<u8>)]) -> PathBuf {
    let path = folder.join("k-1.0-py3-none-linux_x86_64.whl");
    let mut zip = zip::ZipWriter::new(fs_err::File::create(&path).unwrap());
    for (name, bytes) in files {
        zip.start_file(format!("k/{name}"), zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
    path
}

fn name(fixture: &Fixture) -> &str {
    fixture.path.file_name().unwrap().to_str().unwrap()
}

#[test]
fn finds_the_same_code_as_llvm_in_any_package() {
    let shop = Workshop::new();
    assert!(shop.made.len() > 30);
    check_against_llvm(&shop);
    check_members(&shop);
    check_large_members(&shop);
    check_findings(&shop);
}

fn check_against_llvm(shop: &Workshop) {
    for fixture in &shop.made {
        let mut deep = fixture.rows.clone();
        deep.sort();
        let mut wanted = [deep.iter().map(quick).collect::<Vec<_>>(), deep];
        wanted.iter_mut().for_each(|rows| rows.sort());
        for (depth, wanted) in DEPTHS.into_iter().zip(wanted) {
            let facts = only_file(&fixture.path, depth);
            assert_eq!(rows(&facts), wanted, "{} {depth:?}", name(fixture));
            assert_eq!(facts.bundles, fixture.bundles, "{}", name(fixture));
            let faults = (&facts.damage[..], &facts.mismatches[..], &facts.wrong_hashes[..]);
            assert_eq!(faults, (&[][..], &[][..], &[][..]), "{}", name(fixture));
        }
    }
}

fn check_members(shop: &Workshop) {
    let dir = tempfile::tempdir().unwrap();
    let mut packed: Vec<_> = shop
        .made
        .iter()
        .map(|fixture| (name(fixture), fs_err::read(&fixture.path).unwrap()))
        .collect();
    packed.sort();
    let packages = [rpm(dir.path(), &packed), wheel(dir.path(), &packed)];
    for depth in DEPTHS {
        for package in &packages {
            let members = files(package, depth);
            assert_eq!(members.len(), shop.made.len());
            for fixture in &shop.made {
                let of = |member: &&FileFacts| Path::new(&member.path).ends_with(name(fixture));
                let member = members.iter().find(of).unwrap();
                let on_disk = only_file(&fixture.path, depth);
                assert_eq!(
                    all_of(member),
                    all_of(&on_disk),
                    "{} in {}",
                    name(fixture),
                    package.display()
                );
            }
        }
    }
}

fn check_findings(shop: &Workshop) {
    // Neither code that no runtime loads nor text counts for a target.
    for absent in ["handlers.so", "text.so"] {
        let report = report(&shop.fixture.path(absent), Depth::Deep);
        let ids: Vec<_> = report.errors().map(|finding| finding.id.as_str()).collect();
        assert_eq!(ids, ["device-code-absent"], "{absent}");
    }
    for served in ["generic.so", "nosections.so", "rodata.so", "images.so", "units.a"] {
        assert!(!report(&shop.fixture.path(served), Depth::Quick).has_errors(), "{served}");
    }
    for (name, tag) in [("rpath.so", "(RPATH)"), ("runpath.so", "(RUNPATH)")] {
        let output = shop.fixture.run("llvm-readelf", &format!("-dW {name}"));
        assert!(output.contains(tag) && output.contains("[$ORIGIN/../lib]"), "{output}");
        let elf = only_file(&shop.fixture.path(name), Depth::Quick).elf.unwrap();
        let (rpath, runpath) = (elf.rpath.concat(), elf.runpath.concat());
        let wanted = ["$ORIGIN/../lib", ""];
        let found = if tag == "(RPATH)" { [rpath, runpath] } else { [runpath, rpath] };
        assert_eq!(found, wanted);
    }
}

/// For large members, a quick inspection skips data that it does not read from files.
fn check_large_members(shop: &Workshop) {
    let dir = tempfile::tempdir().unwrap();
    for (index, fixture) in shop.made.iter().enumerate() {
        let mut bytes = fs_err::read(&fixture.path).unwrap();
        // Nothing after the last header of an ELF file is read.
        bytes.resize(bytes.len().max(LARGE), 0);
        let path = dir.path().join(name(fixture));
        fs_err::write(&path, &bytes).unwrap();
        let on_disk = only_file(&path, Depth::Quick);
        let files = [(name(fixture), bytes)];
        let wheel = wheel(dir.path(), &files);
        assert_eq!(all_of(&only_file(&wheel, Depth::Quick)), all_of(&on_disk), "{}", name(fixture));
        if index % 8 == 0 {
            let rpm = rpm(dir.path(), &files);
            assert_eq!(
                all_of(&only_file(&rpm, Depth::Quick)),
                all_of(&on_disk),
                "{}",
                name(fixture)
            );
        }
        if name(fixture).ends_with(".so") && name(fixture) != "nosections.so" {
            assert_eq!((rows(&on_disk).len(), on_disk.damage.len()), (fixture.rows.len(), 0));
        }
    }
}
