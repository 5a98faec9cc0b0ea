//! The comparisons for inspection: other tools, and the minimum work to read such a file.

use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

use rocmrpm::digest::Sha256;
use rocmrpm::process::Command;

use crate::fetch;
use crate::llvm::llvm;

/// llvm-objdump, which writes a file for every code object that it lists.
pub struct Objdump {
    pub name: String,
    elf: PathBuf,
}

impl Objdump {
    pub fn new(elf: &Path) -> Self {
        Self { name: llvm("objdump"), elf: elf.to_owned() }
    }

    /// Returns the folder with the written files, gigabytes that are not needed.
    pub fn run(&self) -> tempfile::TempDir {
        // It writes beside its input. On disk, as for its users.
        let dir = tempfile::tempdir_in(fetch::store("bench")).unwrap();
        std::os::unix::fs::symlink(&self.elf, dir.path().join("elf")).unwrap();
        run(std::process::Command::new(&self.name)
            .args(["--offloading", "elf"])
            .current_dir(dir.path()));
        dir
    }
}

/// auditwheel in a separate virtual environment.
pub struct Auditwheel(PathBuf);

impl Auditwheel {
    pub fn installed() -> Self {
        let venv = fetch::store("bench").join("auditwheel");
        let program = venv.join("bin/auditwheel");
        if !program.exists() {
            let made = Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(&venv).output();
            made.unwrap_or_else(|error| panic!("{error} (Debian: python3-venv)"));
            let pip = venv.join("bin/pip").to_str().unwrap().to_owned();
            Command::new(pip).args(["install", "--quiet", "auditwheel==6.8.2"]).output().unwrap();
        }
        Self(program)
    }

    pub fn show(&self, wheel: &Path) {
        run(std::process::Command::new(&self.0).arg("show").arg(wheel));
    }
}

/// Decompresses a payload with rpm2cpio.
pub fn rpm2cpio(rpm: &Path) {
    run(std::process::Command::new("rpm2cpio").arg(rpm));
}

fn run(command: &mut std::process::Command) {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let status = status.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

/// Decompresses the ELF files of a wheel and discards the data; of other members, only the first
/// bytes, which identify them.
pub fn inflate(wheel: &Path) {
    let mut archive =
        zip::ZipArchive::new(BufReader::new(fs_err::File::open(wheel).unwrap())).unwrap();
    for index in 0..archive.len() {
        let mut member = archive.by_index(index).unwrap();
        let mut head = Vec::new();
        member.by_ref().take(4).read_to_end(&mut head).unwrap();
        if head == b"\x7fELF" {
            drain(member);
        }
    }
}

/// Decompresses the payload of an RPM and discards the data.
pub fn payload(rpm: &Path) {
    let mut file = fs_err::File::open(rpm).unwrap();
    // RPM V4 package format: a lead of 96 bytes, the signature, padded to 8 bytes, and the
    // header; both start with 16 bytes that contain their length.
    let mut at = 96;
    for align in [8, 1] {
        let mut intro = [0; 16];
        file.seek(SeekFrom::Start(at)).unwrap();
        file.read_exact(&mut intro).unwrap();
        assert_eq!(intro[..3], [0x8e, 0xad, 0xe8]);
        let number =
            |at: usize| u64::from(u32::from_be_bytes(intro[at..at + 4].try_into().unwrap()));
        at = (at + 16 + 16 * number(8) + number(12)).next_multiple_of(align);
    }
    file.seek(SeekFrom::Start(at)).unwrap();
    drain(zstd::stream::read::Decoder::new(file).unwrap());
}

/// Does the work, and computes the file's SHA-256 at the same time, as inspection must: reports name
/// files by digest. Processors without instructions for SHA need longer for it than for the work.
pub fn with_digest(file: &Path, work: impl FnOnce()) {
    std::thread::scope(|scope| {
        let digest = scope.spawn(|| Sha256::of_file(file).unwrap());
        work();
        std::hint::black_box(digest.join().unwrap());
    });
}

fn drain(mut reader: impl Read) {
    let mut buffer = vec![0; 128 << 10];
    while reader.read(&mut buffer).unwrap() > 0 {}
}

/// The compressed bundles of an ELF file, format 3 with zstd.
pub struct Bundles {
    file: Vec<u8>,
    payloads: Vec<std::ops::Range<usize>>,
}

impl Bundles {
    pub fn of(elf: &Path) -> Self {
        let file = fs_err::read(elf).unwrap();
        let mut payloads = Vec::new();
        let mut at = 0;
        while at + 32 <= file.len() {
            let long =
                |place: usize| u64::from_le_bytes(file[place..place + 8].try_into().unwrap());
            // Version 3, method 1 (LLVM, `OffloadBundle.cpp`); bundles are aligned to 4096 bytes.
            if file[at..].starts_with(b"CCOB\x03\0\x01\0") {
                let end = at + usize::try_from(long(at + 8)).unwrap();
                payloads.push(at + 32..end);
                at = end.next_multiple_of(4096);
            } else {
                at += 4096;
            }
        }
        // The longest first, which is best for two threads.
        payloads.sort_by_key(|range| std::cmp::Reverse(range.len()));
        Self { file, payloads }
    }

    pub fn count(&self) -> usize {
        self.payloads.len()
    }

    /// Decompresses all of them with two threads and discards the data.
    pub fn decompress(&self) {
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(range) = self.payloads.get(next.fetch_add(1, Ordering::Relaxed)) {
                drain(zstd::stream::read::Decoder::new(&self.file[range.clone()]).unwrap());
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(work);
            scope.spawn(work);
        });
    }
}
