//! Inspects libraries whose GPU code was moved to kpack archives, in RPMs, wheels and folders: real
//! libraries with the section and wrappers that the splitter leaves, real code objects, and
//! archives in the format of `shared/kpack` in ROCm/rocm-systems.

use std::io::Write as _;
use std::path::PathBuf;

use rmp::encode::{write_array_len, write_map_len, write_str, write_uint};
use rocmrpm::gpu::GpuTarget;
use rocmrpm::inspect::{Depth, Expectations, Report, Storage, inspect};
use rocmrpm::process::Command;

const HOST: &str = "
static const char nothing[8];
__attribute__((used, section(\".hipFatBinSegment\")))
static struct { unsigned magic, version; const void *code; unsigned long index; } wrappers[] = {
    { 0x4b504948, 1, nothing, 0 }, { 0x4b504948, 1, nothing, 1 },
};
int twice(int value) { return value * 2; }
";

const KERNEL: &str = "
extern \"C\" __attribute__((global)) void twice(float *values) {
    values[__builtin_amdgcn_workitem_id_x()] *= 2.0f;
}
";

const MODULES: &str = "/usr/lib64/python3.14/site-packages";
const WHEEL: &str = "k-1.0-cp314-cp314-linux_x86_64.whl";

struct KpackFixture(tempfile::TempDir);

impl KpackFixture {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, program: &str, args: &[&str]) {
        let command = Command::new(program).args(args).cwd(self.0.path());
        let line = command.line();
        command.text().unwrap_or_else(|error| {
            panic!("{line}: {error} (Debian packages: clang-19 lld-19 llvm-19)")
        });
    }

    /// Builds a library whose code is in archives, identified by a search path and a kernel name.
    fn library(&self) -> Vec<u8> {
        fs_err::write(self.path("host.c"), HOST).unwrap();
        let mut reference = Vec::new();
        write_map_len(&mut reference, 2).unwrap();
        write_str(&mut reference, "kpack_search_paths").unwrap();
        write_array_len(&mut reference, 1).unwrap();
        write_str(&mut reference, "../.kpack/k_lib_@GFXARCH@.kpack").unwrap();
        write_str(&mut reference, "kernel_name").unwrap();
        write_str(&mut reference, "lib/libk.so").unwrap();
        fs_err::write(self.path("reference"), reference).unwrap();
        let link = ["-shared", "-fPIC", "-nostdlib", "-fuse-ld=lld-19", "-Wl,--build-id", "host.c"];
        self.run("clang-19", &[&link[..], &["-o", "whole.so"]].concat());
        self.run(
            "llvm-objcopy-19",
            &["--add-section=.rocm_kpack_ref=reference", "whole.so", "split.so"],
        );
        fs_err::read(self.path("split.so")).unwrap()
    }

    /// Returns a code object from the compiler.
    fn code(&self, target: &str) -> Vec<u8> {
        fs_err::write(self.path("k.hip"), KERNEL).unwrap();
        let arch = format!("--offload-arch={target}");
        let flags = ["-x", "hip", "-nogpulib", "-nogpuinc", "-O1", "-c", "k.hip", "-o", "k.hsaco"];
        let only = ["--cuda-device-only", "--no-gpu-bundle-output", &arch];
        self.run("clang++-19", &[&flags[..], &only].concat());
        fs_err::read(self.path("k.hsaco")).unwrap()
    }

    fn rpm(&self, files: &[(&str, &[u8])]) -> PathBuf {
        let mut builder =
            rpm::PackageBuilder::new("python3-k-rocm", "1.0", "MIT", "x86_64", "a fixture");
        builder.release("1.fc43");
        builder.provides(rpm::Dependency::any("rocm-gfx(gfx1151)"));
        for (name, bytes) in files {
            let options = rpm::FileOptions::new(format!("{MODULES}/k/{name}"));
            builder.with_file_contents(bytes.to_vec(), options).unwrap();
        }
        let path = self.path("python3-k-rocm-1.0-1.fc43.x86_64.rpm");
        builder.build().unwrap().write_file(&path).unwrap();
        path
    }

    fn wheel(&self, files: &[(&str, &[u8])]) -> PathBuf {
        let path = self.path(WHEEL);
        let mut zip = zip::ZipWriter::new(fs_err::File::create(&path).unwrap());
        let options = zip::write::SimpleFileOptions::default();
        for (name, bytes) in files {
            zip.start_file(format!("k/{name}"), options).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap();
        path
    }
}

/// Returns an archive for `target` with two code objects of `lib/libk.so`.
fn archive(target: &str, code: &[u8], compressed: bool) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    let mut blobs = Vec::new();
    if compressed {
        bytes.extend(2_u32.to_le_bytes());
    }
    for _ in 0..2 {
        if compressed {
            let frame = zstd::stream::encode_all(code, 3).unwrap();
            bytes.extend((frame.len() as u32).to_le_bytes());
            bytes.extend(frame);
        } else {
            bytes.resize(bytes.len().next_multiple_of(64), 0);
            blobs.push(bytes.len() as u64);
            bytes.extend(code);
        }
    }
    let end = bytes.len() as u64;
    bytes[..16].copy_from_slice(&[b"KPAK\x01\0\0\0", &end.to_le_bytes()[..]].concat());

    let toc = &mut bytes;
    let text = |toc: &mut Vec<u8>, text: &str| write_str(toc, text).unwrap();
    let number = |toc: &mut Vec<u8>, key: &str, value: u64| {
        write_str(toc, key).unwrap();
        write_uint(toc, value).unwrap();
    };
    // Seven keys and the table; uncompressed archives omit two keys.
    write_map_len(toc, if compressed { 8 } else { 6 }).unwrap();
    number(toc, "format_version", 1);
    for (key, value) in [("group_name", "k_lib"), ("gfx_arch_family", target)] {
        text(toc, key);
        text(toc, value);
    }
    text(toc, "gfx_arches");
    write_array_len(toc, 1).unwrap();
    text(toc, target);
    if compressed {
        text(toc, "compression_scheme");
        text(toc, "zstd-per-kernel");
        number(toc, "zstd_offset", 64);
        number(toc, "zstd_size", end - 64);
    } else {
        text(toc, "blobs");
        write_array_len(toc, 2).unwrap();
        for offset in blobs {
            write_map_len(toc, 2).unwrap();
            number(toc, "offset", offset);
            number(toc, "size", code.len() as u64);
        }
    }
    text(toc, "toc");
    write_map_len(toc, 2).unwrap();
    for ordinal in 0..2 {
        text(toc, &format!("lib/libk.so#{ordinal}"));
        write_map_len(toc, 1).unwrap();
        text(toc, target);
        write_map_len(toc, 3).unwrap();
        text(toc, "type");
        text(toc, "hsaco");
        number(toc, "ordinal", ordinal);
        number(toc, "original_size", code.len() as u64);
    }
    bytes
}

fn report(paths: &[PathBuf], depth: Depth) -> Report {
    let gpu_targets = vec![GpuTarget::parse("gfx1151").unwrap()];
    let expectations =
        Expectations { gpu_targets, device_code: Some(true), ..Expectations::default() };
    inspect(paths, &expectations, depth).unwrap()
}

/// Returns the subject, file and rule of every error.
fn errors(report: &Report) -> Vec<String> {
    let errors = report.errors().map(|finding| {
        let name = |path: &Option<String>| {
            path.as_deref().unwrap_or("-").rsplit('/').next().unwrap_or_default().to_owned()
        };
        format!("{} {} {}", name(&finding.subject), name(&finding.file), finding.id)
    });
    errors.collect()
}

#[test]
fn accepts_an_rpm_and_a_wheel_with_their_archives() {
    let fixture = KpackFixture::new();
    let (library, code) = (fixture.library(), fixture.code("gfx1151"));
    for compressed in [false, true] {
        let archive = archive("gfx1151", &code, compressed);
        let files = [("lib/libk.so", &library[..]), (".kpack/k_lib_gfx1151.kpack", &archive)];
        let paths = [fixture.rpm(&files), fixture.wheel(&files)];
        for depth in [Depth::Quick, Depth::Deep] {
            let found = report(&paths, depth);
            assert_eq!(errors(&found), [""; 0], "{compressed} {depth:?}");
            let targets: Vec<_> = found.targets().iter().map(ToString::to_string).collect();
            assert_eq!(targets, ["gfx1151"]);
            for subject in &found.subjects {
                let [archive, host] = &subject.files[..] else { panic!("{subject:?}") };
                let device = &archive.device[0];
                assert_eq!((device.storage, device.count), (Storage::Kpack, 2));
                assert_eq!(device.bytes, 2 * code.len() as u64);
                assert_eq!(archive.kpack.as_ref().unwrap().entries, 2);
                let reference = host.kpack_reference.as_ref().unwrap();
                assert_eq!(reference.kernel_name, "lib/libk.so");
                assert_eq!(reference.search_paths, ["../.kpack/k_lib_@GFXARCH@.kpack"]);
            }
        }
    }
}

#[test]
fn reports_a_wheel_without_its_hidden_folder() {
    let fixture = KpackFixture::new();
    let library = fixture.library();
    let archive = archive("gfx1151", &fixture.code("gfx1151"), true);
    let wheel = fixture.wheel(&[("lib/libk.so", &library)]);
    let single = report(std::slice::from_ref(&wheel), Depth::Quick);
    assert_eq!(errors(&single), [format!("{WHEEL} libk.so kpack-reference-unresolved")]);
    assert!(
        single.findings[0].found.ends_with("k/.kpack/k_lib_gfx1151.kpack"),
        "{:?}",
        single.findings
    );

    let rpm = fixture.rpm(&[("lib/libk.so", &library), (".kpack/k_lib_gfx1151.kpack", &archive)]);
    let both = report(&[rpm, wheel], Depth::Quick);
    assert_eq!(
        errors(&both),
        [
            format!("{WHEEL} - hidden-folder-lost"),
            format!("{WHEEL} libk.so kpack-reference-unresolved")
        ]
    );
}

#[test]
fn reports_an_archive_with_code_for_another_target() {
    let fixture = KpackFixture::new();
    let (library, other) = (fixture.library(), fixture.code("gfx1100"));
    // Archives that are named, listed and filled for different targets.
    let named = archive("gfx1100", &other, true);
    let rpm = fixture.rpm(&[("lib/libk.so", &library), (".kpack/k_lib_gfx1100.kpack", &named)]);
    let id = "python3-k-rocm-1.0-1.fc43.x86_64.rpm";
    assert_eq!(
        errors(&report(&[rpm], Depth::Quick)),
        [format!("{id} libk.so kpack-reference-unresolved")]
    );
    let rpm = fixture.rpm(&[("lib/libk.so", &library), (".kpack/k_lib_gfx1151.kpack", &named)]);
    assert_eq!(
        errors(&report(&[rpm], Depth::Quick)),
        [format!("{id} libk.so kpack-target-missing")]
    );
    for compressed in [false, true] {
        let filled = archive("gfx1151", &other, compressed);
        let rpm =
            fixture.rpm(&[("lib/libk.so", &library), (".kpack/k_lib_gfx1151.kpack", &filled)]);
        assert_eq!(errors(&report(std::slice::from_ref(&rpm), Depth::Quick)), [""; 0]);
        let deep = report(&[rpm], Depth::Deep);
        assert_eq!(errors(&deep), [format!("{id} k_lib_gfx1151.kpack bundle-id-mismatch")]);
        assert!(deep.findings[0].found.contains("gfx1100"), "{:?}", deep.findings);
    }
}

#[test]
fn reports_truncated_and_changed_archives() {
    let fixture = KpackFixture::new();
    let (library, code) = (fixture.library(), fixture.code("gfx1151"));
    let archive = archive("gfx1151", &code, true);
    let folder = fixture.path("out");
    fs_err::create_dir_all(folder.join("lib")).unwrap();
    fs_err::create_dir_all(folder.join(".kpack")).unwrap();
    fs_err::write(folder.join("lib/libk.so"), library).unwrap();
    let place = folder.join(".kpack/k_lib_gfx1151.kpack");
    let found = |bytes: &[u8]| {
        fs_err::write(&place, bytes).unwrap();
        errors(&report(std::slice::from_ref(&folder), Depth::Deep))
    };
    assert_eq!(found(&archive), [""; 0]);
    for length in (4..archive.len()).step_by(1 + archive.len() / 200) {
        assert_eq!(
            found(&archive[..length]),
            ["out k_lib_gfx1151.kpack bundle-damaged", "out libk.so kpack-target-missing"],
            "{length}"
        );
    }
    let mut changed = archive.clone();
    changed[100] ^= 0x55;
    assert_eq!(found(&changed), ["out k_lib_gfx1151.kpack bundle-damaged"]);
}

#[test]
fn reads_a_single_archive() {
    let fixture = KpackFixture::new();
    let path = fixture.path("k_lib_gfx1151.kpack");
    fs_err::write(&path, archive("gfx1151", &fixture.code("gfx1151"), false)).unwrap();
    let found = report(std::slice::from_ref(&path), Depth::Deep);
    assert_eq!(errors(&found), [""; 0]);
    assert_eq!(found.subjects[0].device[0].count, 2);
    fs_err::write(&path, b"KPAK").unwrap();
    assert_eq!(
        errors(&report(&[path], Depth::Deep)),
        ["- - device-code-absent", "k_lib_gfx1151.kpack k_lib_gfx1151.kpack bundle-damaged"]
    );
}
