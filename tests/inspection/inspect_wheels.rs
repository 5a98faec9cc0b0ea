//! Inspects real wheels and compares the facts of every ELF file in five wheels with GNU readelf
//! and LLVM's tools. Downloads 260 MB once from the index configured for pip.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::{Path, PathBuf};

use crate::offload::Object;
use crate::readelf::Readelf;
use crate::{fetch, offload};
use rocmrpm::inspect::{
    Depth, DeviceCode, ElfFacts, Expectations, FileFacts, Storage, Subject, SubjectKind, inspect,
};

/// Collects all differences so that one run reports everything.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare<T: PartialEq + Debug>(&mut self, place: &str, field: &str, ours: T, truth: T) {
        if ours != truth {
            let short = |value: T| format!("{value:?}").chars().take(600).collect::<String>();
            self.0.push(format!(
                "{place}: {field}\n   ours: {}\n  truth: {}",
                short(ours),
                short(truth)
            ));
        }
    }

    /// Compares sets and reports only the elements that differ.
    fn apart<T: Ord + Debug>(
        &mut self,
        place: &str,
        field: &str,
        ours: &BTreeSet<T>,
        truth: &BTreeSet<T>,
    ) {
        let (more, fewer): (Vec<_>, Vec<_>) =
            (ours.difference(truth).collect(), truth.difference(ours).collect());
        if !(more.is_empty() && fewer.is_empty()) {
            self.compare(place, &format!("{field}, differences"), more, fewer);
        }
    }
}

/// The known content of a wheel, so that an empty comparison fails.
struct Known {
    elf_files: usize,
    bundles: usize,
    objects: usize,
}

fn subject(path: &Path, depth: Depth, kind: SubjectKind) -> Subject {
    let mut report = inspect(&[path.to_owned()], &Expectations::default(), depth).unwrap();
    assert_eq!(report.subjects.len(), 1, "{}", path.display());
    let subject = report.subjects.remove(0);
    assert_eq!(subject.kind, kind);
    subject
}

/// Returns the ELF files in a folder with their relative paths, sorted.
fn elf_files(dir: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(dir).sort_by_file_name() {
        let entry = entry.unwrap();
        if entry.file_type().is_file() && head(entry.path()) == *b"\x7fELF" {
            let inside = entry.path().strip_prefix(dir).unwrap().to_str().unwrap();
            found.push((inside.to_owned(), entry.path().to_owned()));
        }
    }
    found
}

fn head(path: &Path) -> [u8; 4] {
    let mut head = [0; 4];
    // For a shorter file, the remaining bytes stay zero.
    let _ = std::io::Read::read(&mut fs_err::File::open(path).unwrap(), &mut head).unwrap();
    head
}

/// Compares all facts of a wheel with the truth.
fn compare(distribution: &str, known: &Known) {
    let wheel = fetch::wheel(distribution);
    // `/tmp` may be in memory.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let content = dir.path().join("content");
    fetch::unpack(&wheel, &content);
    let (quick, deep) = (
        subject(&content, Depth::Quick, SubjectKind::Folder),
        subject(&content, Depth::Deep, SubjectKind::Folder),
    );
    let mut differences = Differences::default();
    for (depth, unpacked) in [(Depth::Quick, &quick), (Depth::Deep, &deep)] {
        let packed = subject(&wheel, depth, SubjectKind::Wheel);
        archive(&packed, unpacked, &mut differences);
    }
    let (mut bundles, mut all) = (0, Vec::new());
    let elf_files = elf_files(&content);
    for (name, path) in &elf_files {
        let truth = Readelf::of(path);
        let (count, objects) =
            offload::objects(path, truth.section_named(".hip_fatbin"), dir.path());
        for (subject, depth) in [(&quick, Depth::Quick), (&deep, Depth::Deep)] {
            let place = format!("{distribution} {name} {depth:?}");
            let Some(facts) = subject.files.iter().find(|file| file.path == *name) else {
                differences.0.push(format!("{place}: not inspected"));
                continue;
            };
            differences.compare(&place, "size", facts.size, fs_err::metadata(path).unwrap().len());
            match &facts.elf {
                Some(elf) => {
                    linkage(&place, elf, &truth, depth, &mut differences);
                    hygiene(&place, elf, &truth, path, &mut differences);
                }
                None => differences.0.push(format!("{place}: not read as an ELF file")),
            }
            device(&place, facts, count, &objects, depth, &mut differences);
        }
        bundles += count;
        all.extend(objects);
    }
    for (subject, depth) in [(&quick, Depth::Quick), (&deep, Depth::Deep)] {
        let place = format!("{distribution} {depth:?}, all files together");
        differences.apart(&place, "device", &ours(&subject.device, depth), &truth(&all, depth));
    }
    let found = (elf_files.len(), bundles, all.len());
    let known = (known.elf_files, known.bundles, known.objects);
    differences.compare(distribution, "ELF files, bundles, objects as known", known, found);
    let number = differences.0.len();
    assert!(number == 0, "{number} differences:\n{}", differences.0.join("\n"));
}

/// An archive and its unpacked content must have the same facts.
fn archive(packed: &Subject, unpacked: &Subject, differences: &mut Differences) {
    let place = packed.name.clone();
    let names =
        |subject: &Subject| subject.files.iter().map(|f| f.path.clone()).collect::<Vec<_>>();
    differences.compare(&place, "files", names(packed), names(unpacked));
    for (ours, truth) in packed.files.iter().zip(&unpacked.files) {
        let place = format!("{place} {}", ours.path);
        let json = |file: &FileFacts| serde_json::to_string(file).unwrap();
        differences.compare(&place, "facts, packed and unpacked", json(ours), json(truth));
        let symbols = |file: &FileFacts| file.elf.as_ref().map(|elf| elf.symbols.clone());
        differences.compare(&place, "symbols, packed and unpacked", symbols(ours), symbols(truth));
    }
    differences.apart(&place, "contents.paths", &packed.contents.paths, &unpacked.contents.paths);
}

fn linkage(
    place: &str,
    elf: &ElfFacts,
    truth: &Readelf,
    depth: Depth,
    differences: &mut Differences,
) {
    let mut compare = |field, ours: &[String], truth: &[String]| {
        differences.compare(place, field, ours.to_vec(), truth.to_vec());
    };
    let needed: Vec<String> = elf.needed.iter().map(|soname| soname.as_str().to_owned()).collect();
    compare("needed", &needed, &truth.needed);
    compare("rpath", &elf.rpath, &truth.rpath);
    compare("runpath", &elf.runpath, &truth.runpath);
    let soname = elf.soname.as_ref().map(|soname| soname.as_str().to_owned());
    differences.compare(place, "soname", soname, truth.soname.clone());
    differences.compare(place, "interpreter", elf.interpreter.clone(), truth.interpreter.clone());

    let needed: Vec<(&String, &String)> = elf
        .versions_needed
        .iter()
        .flat_map(|(library, all)| all.iter().map(move |v| (library, v)))
        .collect();
    let set: BTreeSet<_> = needed.iter().copied().collect();
    let truly = truth
        .versions_needed
        .iter()
        .flat_map(|(library, all)| all.iter().map(move |v| (library, v)));
    differences.apart(place, "versions_needed", &set, &truly.collect());
    differences.compare(place, "versions_needed, none twice", needed.len(), set.len());
    let provided: BTreeSet<String> = elf.versions_provided.iter().cloned().collect();
    differences.compare(place, "versions_provided", provided, truth.versions_provided.clone());

    // Weak undefined symbols are not required from any library.
    differences.compare(place, "defined_symbols", elf.defined_symbols, truth.defined.len() as u64);
    differences.compare(
        place,
        "undefined_symbols",
        elf.undefined_symbols,
        truth.undefined.len() as u64,
    );
    let names = |names: &[Box<str>]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    let truly = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
    // A quick inspection only counts defined symbols.
    let defined = if depth == Depth::Deep { truly(&truth.defined) } else { BTreeSet::new() };
    differences.apart(place, "symbols.defined", &names(&elf.symbols.defined), &defined);
    differences.apart(
        place,
        "symbols.undefined",
        &names(&elf.symbols.undefined),
        &truly(&truth.undefined),
    );
}

fn hygiene(
    place: &str,
    elf: &ElfFacts,
    truth: &Readelf,
    path: &Path,
    differences: &mut Differences,
) {
    assert_eq!(truth.machine, "Advanced Micro Devices X86-64", "{place}");
    differences.compare(place, "machine", elf.machine.as_str(), "x86_64");
    differences.compare(place, "bits", elf.bits, truth.bits);
    let section = |name: &str| truth.sections.iter().any(|(other, _)| other == name);
    let facts = [
        ("big_endian", elf.big_endian, truth.big_endian),
        ("has_sections", elf.has_sections, !truth.sections.is_empty()),
        ("has_symbols", elf.has_symbols, truth.has_symbols),
        ("has_debug_info", elf.has_debug_info, section(".debug_info")),
        ("debug_link", elf.debug_link.is_some(), section(".gnu_debuglink")),
        ("text_relocations", elf.text_relocations, truth.text_relocations),
        ("debug", elf.debug, false),
    ];
    for (field, ours, truth) in facts {
        differences.compare(place, field, ours, truth);
    }
    let kind = format!("{:?}", elf.kind);
    let truly = BTreeMap::from([("DYN", "Shared"), ("EXEC", "Executable"), ("REL", "Relocatable")]);
    differences.compare(place, "kind", kind.as_str(), truly[truth.kind.as_str()]);
    differences.compare(place, "executable_stack", elf.executable_stack, truth.executable_stack);
    let relro = format!("{:?}", elf.relro).to_lowercase();
    differences.compare(place, "relro", relro.as_str(), truth.relro);
    differences.compare(place, "build_id", elf.build_id.clone(), truth.build_id.clone());
    // All of these files load successfully in practice.
    let fatal: Vec<_> = elf.header_faults.iter().filter(|fault| fault.fatal).collect();
    differences.compare(place, "fatal header_faults", fatal, Vec::new());
    if elf.mentioned_paths.is_empty() {
        return;
    }
    let file = fs_err::read(path).unwrap();
    for mention in &elf.mentioned_paths {
        let there = usize::try_from(mention.offset)
            .ok()
            .and_then(|at| file.get(at..at + mention.path.len()));
        differences.compare(place, "mentioned_paths", Some(mention.path.as_bytes()), there);
        let section = truth.section_named(&mention.section).unwrap_or_default();
        let inside = section.contains(&(mention.offset as usize));
        differences.compare(place, &format!("{mention:?} in its section"), inside, true);
    }
}

/// Target, compression, and code object version (if the depth includes it).
type Key = (String, String, Option<u8>);
/// Number of code objects, bytes, and kernels (if the depth includes them).
type Sum = (u64, u64, Option<u64>);

fn device(
    place: &str,
    facts: &FileFacts,
    bundles: usize,
    objects: &[Object],
    depth: Depth,
    differences: &mut Differences,
) {
    differences.compare(place, "bundles", facts.bundles, bundles as u64);
    differences.apart(place, "device", &ours(&facts.device, depth), &truth(objects, depth));
    for code in &facts.device {
        differences.compare(place, "storage", code.storage, Storage::HipFatbin);
        // A quick inspection has no version for data that it does not decompress.
        let known = depth == Depth::Deep || code.compression.is_none();
        differences.compare(
            place,
            &format!("has a version: {code:?}"),
            code.version.is_some(),
            known,
        );
    }
    differences.compare(place, "damage", facts.damage.clone(), Vec::new());
    differences.compare(place, "mismatches", facts.mismatches.clone(), Vec::new());
    differences.compare(
        place,
        "kpack",
        facts.kpack_reference.is_some() || facts.kpack.is_some(),
        false,
    );
}

fn ours(device: &[DeviceCode], depth: Depth) -> BTreeSet<(Key, Sum)> {
    let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
    for code in device {
        let version = code.version.filter(|_| depth == Depth::Deep);
        let compression =
            code.compression.map(|compression| compression.to_string()).unwrap_or_default();
        let sum = sums.entry((code.target.to_string(), compression, version)).or_default();
        sum.0 += code.count;
        sum.1 += code.bytes;
        sum.2 = match (sum.2, code.kernels) {
            (None, None) => None,
            (sum, kernels) => Some(sum.unwrap_or(0) + kernels.unwrap_or(0)),
        };
    }
    sums.into_iter().collect()
}

fn truth(objects: &[Object], depth: Depth) -> BTreeSet<(Key, Sum)> {
    let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
    for object in objects {
        let version = Some(object.version).filter(|_| depth == Depth::Deep);
        let key = (object.target().to_owned(), object.compression.clone(), version);
        let sum = sums.entry(key).or_default();
        sum.0 += 1;
        sum.1 += object.size;
        if depth == Depth::Deep {
            *sum.2.get_or_insert(0) += object.kernels;
        }
    }
    sums.into_iter().collect()
}

#[test]
fn reads_libraries_for_six_rocm_versions_and_other_vendors() {
    compare("bitsandbytes", &Known { elf_files: 16, bundles: 12, objects: 218 });
}

#[test]
fn reads_extensions_with_small_compressed_bundles() {
    compare("jax-rocm7-plugin", &Known { elf_files: 8, bundles: 4, objects: 108 });
}

#[test]
fn reads_a_large_library_with_many_compressed_bundles() {
    compare("jax-rocm7-pjrt", &Known { elf_files: 1, bundles: 45, objects: 1215 });
}

#[test]
fn reads_libraries_without_gpu_code() {
    compare("onnxruntime-migraphx", &Known { elf_files: 4, bundles: 0, objects: 0 });
}

#[test]
fn reads_a_large_library_with_many_plain_bundles() {
    compare("onnxruntime-rocm", &Known { elf_files: 4, bundles: 95, objects: 760 });
}
