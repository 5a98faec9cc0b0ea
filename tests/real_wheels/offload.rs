//! The GPU code of an ELF file as LLVM 22 sees it: bundles are carved out of
//! `.hip_fatbin` in the plainest way that works, compared with what llvm-objdump lists
//! and extracts, and read with llvm-readelf. llvm-objdump 22 extracts garbage where
//! several compressed bundles follow each other; there the carved objects decide.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;
use std::process::Stdio;

use rocmrpm::process::Command;

use super::llvm::llvm;

/// One code object.
#[derive(Debug)]
pub struct Object {
    /// The entry's ID, such as `hipv4-amdgcn-amd-amdhsa--gfx1151`.
    pub id: String,
    /// What a compressed bundle's header says, as `ccob3-zstd`; empty of plain ones.
    pub compression: String,
    /// In bytes.
    pub size: u64,
    /// The code object version.
    pub version: u8,
    /// How many kernels it has.
    pub kernels: u64,
}

impl Object {
    /// Returns the target ID: what follows the triple.
    pub fn target(&self) -> &str {
        let id = self.id.trim_start_matches("hipv4-").trim_start_matches("hip-");
        id.strip_prefix("amdgcn-amd-amdhsa--").unwrap_or_else(|| panic!("{self:?}"))
    }
}

/// Returns how many bundles there are, and every code object of them.
pub fn objects(elf: &Path, fatbin: Option<Range<usize>>, scratch: &Path) -> (usize, Vec<Object>) {
    let listed = Listed::of(elf, &scratch.join("llvm"));
    let Some(range) = fatbin else {
        assert!(listed.sizes.is_empty(), "{}: LLVM finds bundles without a section", elf.display());
        return (0, Vec::new());
    };
    let file = fs_err::read(elf).unwrap();
    let section = &file[range];
    let (mut objects, mut bundles, mut at) = (Vec::new(), 0, 0);
    // 4096: the section's alignment, and that of every bundle in it (clang's `-bundle-align`).
    while at < section.len() {
        let bytes = &section[at..];
        let size = if bytes.starts_with(b"__CLANG_OFFLOAD_BUNDLE__") {
            objects.extend(read(bytes, bundles, "", &listed, scratch));
            entries(bytes).map(|(_, range)| range.end).max().unwrap()
        } else if bytes.starts_with(b"CCOB") {
            let (compression, size, bundle) = decompressed(bytes);
            objects.extend(read(&bundle, bundles, &compression, &listed, scratch));
            size
        } else {
            panic!("{}: neither a bundle nor its end at {at:#x}", elf.display());
        };
        bundles += 1;
        at = (at + size).next_multiple_of(4096);
    }
    let hosts = listed.sizes.keys().filter(|(_, id)| id.starts_with("host-")).count();
    assert_eq!(listed.sizes.len() - hosts, objects.len(), "{}: LLVM lists others", elf.display());
    (bundles, objects)
}

/// What llvm-objdump extracts: sizes by bundle and ID.
struct Listed {
    dir: std::path::PathBuf,
    sizes: BTreeMap<(usize, String), u64>,
}

impl Listed {
    fn of(elf: &Path, dir: &Path) -> Self {
        fs_err::create_dir_all(dir).unwrap();
        // It writes beside the file that it is given.
        std::os::unix::fs::symlink(elf, dir.join("elf")).unwrap();
        let tool = llvm("objdump");
        let text = Command::new(tool).args(["--offloading", "elf"]).cwd(dir).text();
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", elf.display()));
        let mut sizes = BTreeMap::new();
        for line in text.lines() {
            let Some(name) = line.strip_prefix("Extracting offload bundle: ") else { continue };
            let (bundle, id) = name.strip_prefix("elf.").unwrap().split_once('.').unwrap();
            let size = fs_err::metadata(dir.join(name)).unwrap().len();
            assert!(
                sizes.insert((bundle.parse().unwrap(), id.to_owned()), size).is_none(),
                "{name}"
            );
        }
        Self { dir: dir.to_owned(), sizes }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        // Gigabytes.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Reads the entries of one bundle and has LLVM read the code objects.
fn read(
    bundle: &[u8],
    index: usize,
    compression: &str,
    listed: &Listed,
    scratch: &Path,
) -> Vec<Object> {
    let dir = scratch.join("objects");
    fs_err::create_dir_all(&dir).unwrap();
    let mut objects = Vec::new();
    let mut names = Vec::new();
    for (id, range) in entries(bundle) {
        let code = &bundle[range];
        let theirs = listed.sizes.get(&(index, id.clone()));
        assert_eq!(theirs, Some(&(code.len() as u64)), "bundle {index}, {id}");
        if id.starts_with("host-") {
            assert!(code.is_empty());
            continue;
        }
        let extracted = listed.dir.join(format!("elf.{index}.{id}"));
        if compression.is_empty() {
            assert!(
                fs_err::read(extracted).unwrap() == code,
                "bundle {index}, {id}: LLVM extracts others"
            );
        }
        names.push(objects.len().to_string());
        fs_err::write(dir.join(names.last().unwrap()), code).unwrap();
        objects.push(Object {
            id,
            compression: compression.to_owned(),
            size: code.len() as u64,
            version: 0,
            kernels: 0,
        });
    }
    let command = Command::new(llvm("readelf")).args(["-hW", "--dyn-syms"]).args(&names).cwd(&dir);
    let text = command.text().unwrap();
    let files: Vec<&str> =
        text.split("\nFile: ").filter(|part| part.contains("ELF Header:")).collect();
    assert_eq!(files.len(), objects.len());
    for (object, output) in objects.iter_mut().zip(files) {
        let field = |name: &str| {
            let line = output.lines().find_map(|line| line.trim().strip_prefix(name));
            line.unwrap_or_else(|| panic!("{name} {object:?}:\n{output}")).trim()
        };
        // AMDGPUUsage, "ELF Header": ABI versions 0 to 4 are code object versions 2 to 6.
        let (version, flags) = (field("ABI Version:").parse::<u8>().unwrap() + 2, field("Flags:"));
        let mach = flags.split(", ").nth(1).unwrap_or_else(|| panic!("{object:?}: flags {flags}"));
        assert_eq!(Some(mach), object.target().split(':').next(), "{object:?}: flags {flags}");
        (object.version, object.kernels) = (version, descriptors(output));
    }
    // Where it is cheap: as many kernels in the metadata as descriptors.
    let small: Vec<_> =
        objects.iter().zip(&names).filter(|(object, _)| object.size < 64 << 10).collect();
    if !small.is_empty() {
        let names = small.iter().map(|(_, name)| name);
        let notes =
            Command::new(llvm("readelf")).arg("--notes").args(names).cwd(&dir).text().unwrap();
        let kernels = notes.lines().filter(|line| line.starts_with("    .symbol: ")).count() as u64;
        assert_eq!(
            kernels,
            small.iter().map(|(object, _)| object.kernels).sum::<u64>(),
            "bundle {index}"
        );
    }
    fs_err::remove_dir_all(&dir).unwrap();
    objects
}

/// Counts kernel descriptors among the dynamic symbols (AMDGPUUsage, "Symbols": a
/// kernel's name and `.kd`).
fn descriptors(symbols: &str) -> u64 {
    symbols.lines().filter(|line| line.ends_with(".kd")).count() as u64
}

/// The table of a bundle (ClangOffloadBundler, "Bundled Code Object Layout").
fn entries(bundle: &[u8]) -> impl Iterator<Item = (String, Range<usize>)> {
    let mut at = 32;
    (0..number::<8>(bundle, 24)).map(move |_| {
        let (offset, size, length) =
            (number::<8>(bundle, at), number::<8>(bundle, at + 8), number::<8>(bundle, at + 16));
        let id = String::from_utf8(bundle[at + 24..at + 24 + length].to_vec()).unwrap();
        at += 24 + length;
        (id, offset..offset + size)
    })
}

/// Decompresses a bundle and verifies its hash: the format, the size, the content.
/// Source of the header: LLVM, `OffloadBundle.cpp`, versions 2 and 3.
fn decompressed(bytes: &[u8]) -> (String, usize, Vec<u8>) {
    let (version, method) = (number::<2>(bytes, 4), number::<2>(bytes, 6));
    let (size, length, hash, begin) = match version {
        2 => (number::<4>(bytes, 8), number::<4>(bytes, 12), &bytes[16..24], 24),
        3 => (number::<8>(bytes, 8), number::<8>(bytes, 16), &bytes[24..32], 32),
        _ => panic!("CCOB version {version}"),
    };
    let mut content = Vec::with_capacity(length);
    let (packed, name) = (&bytes[begin..size], ["zlib", "zstd"][method]);
    match name {
        "zlib" => std::io::copy(&mut flate2::read::ZlibDecoder::new(packed), &mut content),
        _ => std::io::copy(&mut zstd::stream::read::Decoder::new(packed).unwrap(), &mut content),
    }
    .unwrap();
    assert_eq!((content.len(), &md5(&content)[..16]), (length, &hex(hash)[..]));
    (format!("ccob{version}-{name}"), size, content)
}

/// Returns the hash in hexadecimal digits, by another implementation than ours.
fn md5(content: &[u8]) -> String {
    let mut sum = std::process::Command::new("md5sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    sum.stdin.take().unwrap().write_all(content).unwrap();
    String::from_utf8(sum.wait_with_output().unwrap().stdout).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> usize {
    bytes[at..at + N].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}
