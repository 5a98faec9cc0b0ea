//! Makes a folder with many files, and an ELF file with many offload bundles.

use std::path::Path;
use std::process::Command;

/// One in this many files of a folder is an ELF file.
const FILES_PER_ELF: usize = 100;

/// Makes a folder with this many files.
pub fn folder(dir: &Path, files: usize) {
    let library = dir.with_extension("so");
    shared_library(&library);
    let elf = std::fs::read(library).unwrap();
    for at in 0..files {
        let folder = dir.join(format!("{}", at / 1000));
        if at % 1000 == 0 {
            std::fs::create_dir_all(&folder).unwrap();
        }
        let (name, bytes): (_, &[u8]) = match at % FILES_PER_ELF {
            0 => (format!("{at}.so"), &elf),
            _ => (format!("{at}.txt"), b"a text\n"),
        };
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

/// Makes a shared library with this many offload bundles for gfx1151.
/// Source of the format: clang's documentation, "Clang Offload Bundler".
pub fn bundles(path: &Path, count: usize) {
    shared_library(path);
    let section = path.with_extension("fatbin");
    std::fs::write(&section, bundle().repeat(count)).unwrap();
    let mut objcopy = Command::new("objcopy");
    objcopy.arg("--add-section").arg(format!(".hip_fatbin={}", section.display())).arg(path);
    assert!(objcopy.status().unwrap().success());
}

/// Returns a bundle of one page: an empty entry for the host, and a code object with only a header.
fn bundle() -> Vec<u8> {
    let (host, gpu) = ("host-x86_64-unknown-linux-gnu-", "hipv4-amdgcn-amd-amdhsa--gfx1151");
    let object = code_object();
    let mut bytes = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    bytes.extend(2u64.to_le_bytes());
    for (id, size) in [(host, 0), (gpu, object.len() as u64)] {
        [512, size, id.len() as u64].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend(id.as_bytes());
    }
    bytes.resize(512, 0);
    bytes.extend(object);
    bytes.resize(4096, 0);
    bytes
}

/// Returns the header of an ELF file for gfx1151 without segments and sections.
/// Source of the numbers: LLVM's AMDGPU usage, "Code Object".
fn code_object() -> Vec<u8> {
    let mut header = vec![0; 64];
    // 64 bit, little endian, version 1, AMDGPU_HSA, ABI version 4 (code object V6).
    header[..9].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 64, 4]);
    header[16..20].copy_from_slice(&[3, 0, 224, 0]);
    header[20] = 1;
    header[48] = 0x4a;
    header[52] = 64;
    header
}

fn shared_library(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-nostdlib", "-s", "-x", "c", "/dev/null", "-o"]).arg(path);
    assert!(cc.status().unwrap().success());
}
