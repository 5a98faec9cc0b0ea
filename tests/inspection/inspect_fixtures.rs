//! Inspects files from a real compiler and linker, and compares the result with LLVM's own tools.
//! Needs no ROCm: the kernels only use builtins, and libamdhip64 is a stub.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rocmrpm::gpu::GpuTarget;
use rocmrpm::inspect::{
    Depth, Expectations, FileFacts, InspectError, Report, Storage, Subject, SubjectKind, inspect,
};
use rocmrpm::process::Command;

use crate::clang_fixture::STUB;
use crate::support::ran;

const KERNEL: &str = r#"
#define __global__ __attribute__((global))
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, void *);
extern "C" int __hipPushCallConfiguration(dim3, dim3, unsigned long = 0, void * = 0);
extern "C" int __hipPopCallConfiguration(dim3 *, dim3 *, unsigned long *, void *);
__global__ void NAME(float *values) { values[__builtin_amdgcn_workitem_id_x()] *= 2.0f; }
extern "C" void run_NAME(float *values) { NAME<<<dim3{1, 1, 1}, dim3{64, 1, 1}>>>(values); }
"#;

/// Runs a tool and returns its stdout.
fn run(dir: &Path, program: &str, args: &[&str]) -> String {
    let command = Command::new(program).args(args).cwd(dir);
    let line = command.line();
    command.text().unwrap_or_else(|error| {
        panic!("{line}: {error} (Debian packages: clang-19 lld-19 clang-tools-19 llvm-19)")
    })
}

/// A folder with the stub library for compiling fixtures.
struct CompiledFixture(tempfile::TempDir);

impl CompiledFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs_err::write(dir.path().join("stub.c"), STUB).unwrap();
        let args = "-shared -fPIC -nostdlib -fuse-ld=lld-19 -Wl,-soname,libamdhip64.so.7 stub.c -o libamdhip64.so.7";
        run(dir.path(), "clang-19", &args.split(' ').collect::<Vec<_>>());
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Compiles the kernel `name` for the targets to the file `output`.
    fn compile(&self, name: &str, targets: &[&str], flags: &str, output: &str) {
        let source = format!("{name}.hip");
        fs_err::write(self.path(&source), KERNEL.replace("NAME", name)).unwrap();
        let targets: Vec<String> = targets.iter().map(|t| format!("--offload-arch={t}")).collect();
        let mut args = vec![
            "-x",
            "hip",
            "-nogpulib",
            "-nogpuinc",
            "-fPIC",
            "-O1",
            "-c",
            &source,
            "-o",
            output,
        ];
        args.extend(targets.iter().map(String::as_str));
        args.extend(flags.split_whitespace());
        run(self.0.path(), "clang++-19", &args);
    }

    /// Links objects to the shared library `output`.
    fn link(&self, objects: &[&str], flags: &str, output: &str) -> PathBuf {
        let mut args =
            vec!["-shared", "-nostdlib", "-fuse-ld=lld-19", "-L.", "-Wl,--build-id", "-o", output];
        args.extend(objects);
        args.push("-l:libamdhip64.so.7");
        args.extend(flags.split_whitespace());
        run(self.0.path(), "clang++-19", &args);
        self.path(output)
    }

    /// Builds a shared library with one kernel for the targets.
    fn library(&self, targets: &[&str], compile: &str, link: &str) -> PathBuf {
        self.compile("twice", targets, compile, "twice.o");
        self.link(&["twice.o"], link, "libk.so")
    }
}

fn expecting(targets: &[&str]) -> Expectations {
    Expectations {
        gpu_targets: targets.iter().map(|t| GpuTarget::parse(t).unwrap()).collect(),
        device_code: Some(true),
        built: true,
        ..Default::default()
    }
}

fn report(path: &Path, expectations: &Expectations) -> Report {
    inspect(&[path.to_owned()], expectations, Depth::Deep).unwrap()
}

fn targets(report: &Report) -> Vec<String> {
    report.targets().iter().map(ToString::to_string).collect()
}

fn ids(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|finding| finding.id.as_str()).collect()
}

fn only_file(report: &Report) -> &FileFacts {
    let [Subject { files, .. }] = &report.subjects[..] else { panic!("{report:?}") };
    let [file] = &files[..] else { panic!("{report:?}") };
    file
}

/// Returns each target of the file with its number of code objects, total size and compression.
fn device(report: &Report) -> Vec<(String, u64, String)> {
    let codes = only_file(report).device.iter();
    codes
        .map(|c| {
            (
                c.target.to_string(),
                c.count,
                c.compression.map(|c| c.to_string()).unwrap_or_default(),
            )
        })
        .collect()
}

/// Returns the content of `.hip_fatbin`, extracted by LLVM.
fn carve(fixture: &CompiledFixture, library: &Path) -> PathBuf {
    let carved = fixture.path("carved");
    let dump = format!("--dump-section=.hip_fatbin={}", carved.display());
    run(fixture.0.path(), "llvm-objcopy-19", &[&dump, library.to_str().unwrap(), "/dev/null"]);
    carved
}

/// Returns the targets that the bundler lists for a single bundle.
fn bundler_list(fixture: &CompiledFixture, bundle: &Path) -> BTreeSet<String> {
    let input = format!("--input={}", bundle.display());
    let ids = run(fixture.0.path(), "clang-offload-bundler-19", &["--list", "--type=o", &input]);
    ids.lines()
        .filter_map(|id| id.strip_prefix("hipv4-amdgcn-amd-amdhsa--"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn reads_all_facts_of_one_target_like_llvm() {
    let fixture = CompiledFixture::new();
    let library = fixture.library(&["gfx1151"], "", "-Wl,-soname,libk.so.0");
    let report = report(&library, &expecting(&["gfx1151"]));
    assert_eq!((ids(&report), targets(&report)), (vec![], vec!["gfx1151".to_owned()]));
    let file = only_file(&report);
    let elf = file.elf.as_ref().unwrap();
    assert_eq!((elf.bits, elf.machine.as_str(), file.bundles), (64, "x86_64", 1));
    assert_eq!(elf.soname.as_ref().unwrap().as_str(), "libk.so.0");
    assert_eq!(
        report.needed().iter().map(|n| n.as_str()).collect::<Vec<_>>(),
        ["libamdhip64.so.7"]
    );

    let notes = run(fixture.0.path(), "llvm-readelf-19", &["-n", "libk.so"]);
    let build_id = elf.build_id.as_ref().unwrap();
    assert!(notes.contains(&format!("Build ID: {build_id}")), "{notes}");

    // The code object extracted by the bundler has the same size and flags.
    let carved = carve(&fixture, &library);
    assert_eq!(bundler_list(&fixture, &carved), BTreeSet::from(["gfx1151".to_owned()]));
    let args = [
        "--unbundle",
        "--type=o",
        "--targets=hipv4-amdgcn-amd-amdhsa--gfx1151",
        "--input=carved",
        "--output=code",
    ];
    run(fixture.0.path(), "clang-offload-bundler-19", &args);
    assert_eq!(file.device[0].bytes, fs_err::metadata(fixture.path("code")).unwrap().len());
    let header = run(fixture.0.path(), "llvm-readelf-19", &["-h", "code"]);
    assert!(header.contains("gfx1151"), "{header}");
}

#[test]
fn reads_three_targets_with_features() {
    let fixture = CompiledFixture::new();
    let wanted = ["gfx1100", "gfx1151", "gfx90a:xnack-"];
    let library = fixture.library(&wanted, "", "");
    let report = report(&library, &expecting(&wanted));
    assert_eq!((ids(&report), targets(&report)), (vec![], wanted.map(str::to_owned).to_vec()));
    assert_eq!(
        bundler_list(&fixture, &carve(&fixture, &library)),
        targets(&report).into_iter().collect::<BTreeSet<_>>()
    );
}

#[test]
fn reads_two_units_with_different_targets() {
    let fixture = CompiledFixture::new();
    fixture.compile("one", &["gfx1151"], "", "one.o");
    fixture.compile("two", &["gfx1100", "gfx1151"], "--offload-compress", "two.o");
    let library = fixture.link(&["one.o", "two.o"], "", "libk.so");
    let report = report(&library, &expecting(&["gfx1151"]));
    let code = |target: &str, compression: &str| (target.to_owned(), 1, compression.to_owned());
    assert_eq!(
        device(&report),
        [code("gfx1100", "ccob2-zstd"), code("gfx1151", ""), code("gfx1151", "ccob2-zstd")]
    );
    assert_eq!(only_file(&report).bundles, 2);
    assert_eq!(ids(&report), ["gpu-target-unexpected"]);
    assert!(!report.has_errors());
}

#[test]
fn reads_compressed_code_of_every_code_object_version() {
    let fixture = CompiledFixture::new();
    for version in ["4", "5", "6"] {
        let flags = format!("-mcode-object-version={version} --offload-compress");
        let library = fixture.library(&["gfx1030", "gfx1151"], &flags, "");
        let report = report(&library, &expecting(&["gfx1030", "gfx1151"]));
        assert_eq!(ids(&report), [""; 0], "{version}");
        assert_eq!(device(&report).len(), 2);
        assert_eq!(
            bundler_list(&fixture, &carve(&fixture, &library)),
            targets(&report).into_iter().collect()
        );
    }
}

#[test]
fn accepts_a_generic_target_with_a_note() {
    let fixture = CompiledFixture::new();
    let library = fixture.library(&["gfx11-generic"], "-mcode-object-version=6", "");
    let report = report(&library, &expecting(&["gfx1151"]));
    assert_eq!(
        (ids(&report), targets(&report)),
        (vec!["gpu-target-generic"], vec!["gfx11-generic".into()])
    );
    assert!(!report.has_errors());
}

#[test]
fn rejects_wrong_and_missing_targets() {
    let fixture = CompiledFixture::new();
    let library = fixture.library(&["gfx1100"], "", "");
    let wrong = report(&library, &expecting(&["gfx1151"]));
    assert_eq!(ids(&wrong), ["gpu-target-missing", "gpu-target-unexpected"]);
    assert_eq!(wrong.errors().next().unwrap().expected, "GPU code for gfx1151");
    let none = report(&fixture.path("libamdhip64.so.7"), &expecting(&["gfx1151"]));
    assert_eq!(ids(&none), ["device-code-absent"]);
}

#[test]
fn distinguishes_rpath_and_runpath() {
    let fixture = CompiledFixture::new();
    let old = "-Wl,--disable-new-dtags,-rpath,/builddir/build/x:$ORIGIN/../lib";
    let library = fixture.library(&["gfx1151"], "", old);
    let found = report(&library, &expecting(&["gfx1151"]));
    assert_eq!(ids(&found), ["rpath-in-build-folder"]);
    assert_eq!(
        only_file(&found).elf.as_ref().unwrap().rpath,
        ["/builddir/build/x".to_owned(), "$ORIGIN/../lib".into()]
    );

    let new = "-Wl,--enable-new-dtags,-rpath,/opt/work/x:";
    let library = fixture.library(&["gfx1151"], "", new);
    let expectations =
        Expectations { build_roots: vec!["/opt/work".into()], ..expecting(&["gfx1151"]) };
    let found = report(&library, &expectations);
    assert_eq!(ids(&found), ["runpath-in-build-folder", "runpath-relative"]);
    assert_eq!(only_file(&found).elf.as_ref().unwrap().rpath, [""; 0]);
}

#[test]
fn rejects_a_needed_path() {
    let fixture = CompiledFixture::new();
    // A library without SONAME is recorded in NEEDED by the path given to the linker.
    let args = "-shared -fPIC -nostdlib -fuse-ld=lld-19 stub.c -o nosoname.so";
    run(fixture.0.path(), "clang-19", &args.split(' ').collect::<Vec<_>>());
    let stub = fixture.path("nosoname.so");
    fixture.compile("twice", &["gfx1151"], "", "twice.o");
    let library = fixture.link(&["twice.o", stub.to_str().unwrap()], "", "libk.so");
    assert_eq!(ids(&report(&library, &expecting(&["gfx1151"]))), ["needed-absolute"]);
}

#[test]
fn finds_code_in_stripped_libraries_but_not_in_debugging_data() {
    let fixture = CompiledFixture::new();
    let library = fixture.library(&["gfx1151"], "", "");
    run(fixture.0.path(), "llvm-objcopy-19", &["--only-keep-debug", "libk.so", "libk.so.debug"]);
    run(fixture.0.path(), "llvm-strip-19", &["libk.so"]);
    let stripped = report(&library, &expecting(&["gfx1151"]));
    assert_eq!((ids(&stripped), targets(&stripped)), (vec![], vec!["gfx1151".to_owned()]));
    let debug = report(&fixture.path("libk.so.debug"), &Expectations::default());
    let file = only_file(&debug);
    assert!(file.elf.as_ref().unwrap().debug && file.device.is_empty() && file.damage.is_empty());
    assert_eq!(ids(&debug), [""; 0]);
}

#[test]
fn reads_bare_code_objects_and_bundles() {
    let fixture = CompiledFixture::new();
    let only = "--cuda-device-only";
    fixture.compile("twice", &["gfx1151"], &format!("{only} --no-gpu-bundle-output"), "k.hsaco");
    let code = report(&fixture.path("k.hsaco"), &expecting(&["gfx1151"]));
    assert_eq!((ids(&code), targets(&code)), (vec![], vec!["gfx1151".to_owned()]));
    assert_eq!(only_file(&code).device[0].storage, Storage::CodeObject);
    assert_eq!(only_file(&code).elf.as_ref().unwrap().machine, "amdgpu");

    for (flags, compression) in [("", ""), (" --offload-compress", "ccob2-zstd")] {
        let flags = format!("{only} --gpu-bundle-output{flags}");
        fixture.compile("twice", &["gfx1100", "gfx1151"], &flags, "k.co");
        let bundle = report(&fixture.path("k.co"), &expecting(&["gfx1100", "gfx1151"]));
        assert_eq!(ids(&bundle), [""; 0]);
        assert_eq!(device(&bundle)[0], ("gfx1100".to_owned(), 1, compression.to_owned()));
        assert_eq!(only_file(&bundle).device[0].storage, Storage::Bundle);
        assert_eq!(
            bundler_list(&fixture, &fixture.path("k.co")),
            targets(&bundle).into_iter().collect()
        );
    }
}

#[test]
fn reports_an_edited_code_object() {
    let fixture = CompiledFixture::new();
    let library = fixture.library(&["gfx1151"], "", "");
    let mut bytes = fs_err::read(&library).unwrap();
    let at =
        bytes.windows(20).position(|w| w.starts_with(b"\x7fELF") && w[18..20] == [224, 0]).unwrap();
    bytes[at + 48] = 0x41;
    fs_err::write(&library, bytes).unwrap();
    let found = report(&library, &expecting(&["gfx1100"]));
    assert_eq!(ids(&found), ["bundle-id-mismatch"]);
    assert!(found.findings[0].found.contains(&format!("byte {at}")), "{:?}", found.findings);
}

#[test]
fn reads_libraries_from_relocatable_device_code() {
    let fixture = CompiledFixture::new();
    for name in ["one", "two"] {
        fixture.compile(name, &["gfx1151"], "-fgpu-rdc", &format!("{name}.o"));
    }
    let flags = "--hip-link -fgpu-rdc --offload-arch=gfx1151 -nogpulib";
    let library = fixture.link(&["one.o", "two.o"], flags, "libk.so");
    let found = report(&library, &expecting(&["gfx1151"]));
    assert_eq!((ids(&found), only_file(&found).bundles), (vec![], 1));
}

fn rpm(fixture: &CompiledFixture, name: &str, files: &[(&Path, &str)]) -> PathBuf {
    let mut builder = rpm::PackageBuilder::new(name, "1.0", "MIT", "x86_64", "a fixture");
    builder.release("1.fc43");
    if files.iter().any(|(file, _)| file.ends_with("libk.so")) {
        builder.provides(rpm::Dependency::any("rocm-gfx(gfx1151)"));
    }
    builder.with_file_contents("text", rpm::FileOptions::new("/usr/share/k/readme")).unwrap();
    for (file, place) in files {
        builder
            .with_file_contents(fs_err::read(file).unwrap(), rpm::FileOptions::new(*place))
            .unwrap();
    }
    let path = fixture.path(&format!("{name}.rpm"));
    builder.build().unwrap().write_file(&path).unwrap();
    path
}

fn wheel(fixture: &CompiledFixture, files: &[(&Path, &str)]) -> PathBuf {
    let path = fixture.path("k-1.0-py3-none-linux_x86_64.whl");
    let mut zip = zip::ZipWriter::new(fs_err::File::create(&path).unwrap());
    let options = zip::write::SimpleFileOptions::default();
    zip.start_file("k/__init__.py", options).unwrap();
    zip.write_all(b"pass\n").unwrap();
    for (file, place) in files {
        zip.start_file(*place, options).unwrap();
        zip.write_all(&fs_err::read(file).unwrap()).unwrap();
    }
    zip.finish().unwrap();
    path
}

#[test]
fn reads_the_same_facts_from_rpms_wheels_and_folders() {
    let fixture = CompiledFixture::new();
    let library = fixture.library(&["gfx1151"], "", "-Wl,-s,-rpath,$ORIGIN/../../builddir/x");
    let package = rpm(&fixture, "k", &[(&library, "/usr/lib64/libk.so")]);
    let wheel = wheel(&fixture, &[(&library, "k/lib/libk.so"), (&library, "../k/evil.so")]);
    let expectations = expecting(&["gfx1151"]);

    let of_rpm = report(&package, &expectations);
    let [subject] = &of_rpm.subjects[..] else { panic!() };
    assert_eq!((subject.kind, subject.name.as_str()), (SubjectKind::Rpm, "k-1.0-1.fc43.x86_64"));
    assert_eq!(subject.size, Some(fs_err::metadata(&package).unwrap().len()));
    assert_eq!(subject.files[0].path, "/usr/lib64/libk.so");
    // In a package, $ORIGIN is known, so the entry can be resolved.
    assert_eq!(ids(&of_rpm), ["runpath-in-build-folder"]);

    let of_wheel = report(&wheel, &expectations);
    let paths: Vec<_> = of_wheel.subjects[0].files.iter().map(|f| f.path.as_str()).collect();
    assert_eq!(paths, ["../k/evil.so", "k/lib/libk.so"]);
    assert_eq!(of_wheel.subjects[0].device[0].count, 2);
    // In the wheel, the entry leads from `k` to modules of another wheel, which may be installed;
    // from the file outside of all modules, it leads nowhere.
    assert_eq!(ids(&of_wheel), ["path-outside", "runpath-unresolved"]);
    let (a, b) = (&of_rpm.subjects[0].files[0], &of_wheel.subjects[0].files[1]);
    assert_eq!(serde_json::to_value(&a.elf).unwrap(), serde_json::to_value(&b.elf).unwrap());
    assert_eq!(a.device, b.device);

    // Each package in a folder is a separate subject; all other files form one subject.
    let folder = report(fixture.0.path(), &expectations);
    let kinds: Vec<_> = folder.subjects.iter().map(|s| s.kind).collect();
    assert_eq!(kinds, [SubjectKind::Folder, SubjectKind::Wheel, SubjectKind::Rpm]);

    // The output is one deterministic document with its schema.
    let json = serde_json::to_string(&of_rpm).unwrap();
    assert_eq!(json, serde_json::to_string(&report(&package, &expectations)).unwrap());
    assert!(json.starts_with(r#"{"schema":"rocmrpm/inspection/4","depth":"deep","#), "{json}");
    assert!(
        json.contains(
            r#""device":[{"target":"gfx1151","storage":"hip-fatbin","compression":null,"#
        )
    );

    // The program prints it, and what differs from another package.
    let inspect = |args: &[&Path]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rocmrpm"));
        ran(command.args(["inspect", "--json"]).args(args))
    };
    inspect(&[&package]).document("rocmrpm/inspection/4");
    let same = inspect(&[&package, Path::new("--against"), &package]);
    same.exits(0).document("rocmrpm/comparison/2");
    let other = inspect(&[&wheel, Path::new("--against"), &package]);
    other.exits(1).document("rocmrpm/comparison/2");
}

#[test]
fn judges_a_set_without_its_debugging_packages() {
    let fixture = CompiledFixture::new();
    let library = fixture.library(&["gfx1151"], "", "");
    let stub = fixture.path("libamdhip64.so.7");
    run(fixture.0.path(), "llvm-strip-19", &["libk.so", "libamdhip64.so.7"]);
    let main = rpm(&fixture, "k", &[(&stub, "/usr/lib64/a.so")]);
    let other = rpm(&fixture, "k-kernels", &[(&library, "/usr/lib64/b.so")]);
    let debug = rpm(&fixture, "k-debuginfo", &[(&library, "/usr/lib/debug/b.so.debug")]);
    let expectations = expecting(&["gfx1151"]);
    assert_eq!(ids(&inspect(&[main.clone(), other], &expectations, Depth::Deep).unwrap()), [""; 0]);
    assert_eq!(
        ids(&inspect(&[main, debug], &expectations, Depth::Deep).unwrap()),
        ["device-code-absent"]
    );
}

#[test]
fn names_unreadable_paths_and_archives_in_errors() {
    let fixture = CompiledFixture::new();
    let fails = |name: &str| {
        let error =
            inspect(&[fixture.path(name)], &Expectations::default(), Depth::Deep).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        error
    };
    assert!(matches!(fails("nowhere"), InspectError::Missing { .. }));
    assert!(matches!(fails("stub.c"), InspectError::Unknown { .. }));

    let library = fixture.library(&["gfx1151"], "", "");
    let whole = fs_err::read(wheel(&fixture, &[(&library, "libk.so")])).unwrap();
    for length in (4..whole.len()).step_by(whole.len() / 40) {
        fs_err::write(fixture.path("cut.whl"), &whole[..length]).unwrap();
        fails("cut.whl");
    }
    // Change one byte of the library's compressed content.
    let mut corrupt = whole;
    let middle = corrupt.len() / 2;
    corrupt[middle] ^= 0xff;
    fs_err::write(fixture.path("corrupt.whl"), corrupt).unwrap();
    assert!(matches!(fails("corrupt.whl"), InspectError::Member { .. }));
}

#[test]
fn survives_truncated_and_corrupt_libraries() {
    let fixture = CompiledFixture::new();
    let library = fixture.library(&["gfx1151"], "--offload-compress", "");
    let whole = fs_err::read(&library).unwrap();
    let path = fixture.path("changed.so");
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as usize
    };
    for case in 0..2000 {
        let mut bytes = whole.clone();
        match case % 2 {
            0 => bytes.truncate(4 + next() % (whole.len() - 4)),
            _ => (0..8).for_each(|_| bytes[4 + next() % (whole.len() - 4)] = next() as u8),
        }
        fs_err::write(&path, bytes).unwrap();
        let found = report(&path, &expecting(&["gfx1151"]));
        if case % 2 == 0 {
            assert!(found.has_errors(), "a truncated file passed");
        }
    }
}
