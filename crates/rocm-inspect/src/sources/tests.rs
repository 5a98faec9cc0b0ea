//! Tests the inspection of whole files: archives and files on disk must have the same results.

use std::io::Write as _;

use fs_err as fs;

use super::*;
use crate::testing::{HostElf, bundle, code_object};
use crate::{Expectations, inspect};
use rocmrpm_base::gpu::GpuTarget;

fn found(bytes: &[u8]) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let wanted = GpuTarget::parse("gfx1151").unwrap();
    let expectations =
        Expectations { gpu_targets: vec![wanted], device_code: Some(true), ..Default::default() };
    let report = inspect(&[file.path().to_owned()], &expectations, Depth::Deep).unwrap();
    assert!(report.findings.iter().all(|f| !f.help.is_empty() && !f.expected.is_empty()));
    report.findings.iter().map(|f| format!("{} {}: {}", f.severity, f.id, f.found)).collect()
}

fn fatbin() -> Vec<u8> {
    bundle(&[("hipv4-amdgcn-amd-amdhsa--gfx1151", &code_object("gfx1151", 300))])
}

#[test]
fn accepts_an_undamaged_library() {
    assert_eq!(found(&HostElf::new().fatbin(&fatbin()).build()), [""; 0]);
}

#[test]
fn reports_missing_kpack_archives_instead_of_missing_code() {
    let found = found(&HostElf::new().fatbin(&fatbin()).empty(".hip_fatbin").kpack().build());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("error kpack-reference-unresolved: "));
}

#[test]
fn reports_damage_with_its_offset() {
    let library = HostElf::new().fatbin(&fatbin()).build();
    let at = library.windows(24).position(|w| w == crate::bundle::MAGIC).unwrap();
    let mut broken = library.clone();
    broken[at + 24..at + 32].fill(0xff);
    let text = format!("error bundle-damaged: the data at byte {} states", at + 24);
    assert!(found(&broken).iter().any(|f| f.starts_with(&text)), "{:?}", found(&broken));

    let mut other = library.clone();
    other[at + 4096 + 48] = 0x41;
    let mismatch = found(&other);
    assert!(
        mismatch[1].starts_with("error bundle-id-mismatch: code for gfx1100 under"),
        "{mismatch:?}"
    );

    let headless = found(&library[..20]);
    assert!(headless.iter().any(|f| f.starts_with("error elf-damaged: ")), "{headless:?}");
    let cut = found(&code_object("gfx1151", 300)[..200]);
    assert!(cut.iter().any(|f| f.contains("bundle-damaged") && f.contains("cut short")), "{cut:?}");
}

/// A library with 17 MB of kernels, of which a quick inspection reads the headers.
fn large() -> Vec<u8> {
    let id = "hipv4-amdgcn-amd-amdhsa--gfx1151";
    let mut code = code_object("gfx1151", 300);
    code.resize(17 << 20, 0);
    let bundle = bundle(&[(id, &code)]);
    HostElf::new().needed("libamdhip64.so.7").fatbin(&bundle).build()
}

fn wheel(dir: &Path, name: &str, members: &[(&str, &[u8])]) -> PathBuf {
    let path = dir.join(name);
    let mut zip = zip::ZipWriter::new(fs::File::create(&path).unwrap());
    let options = zip::write::SimpleFileOptions::default().compression_level(Some(1));
    for (name, bytes) in members {
        zip.start_file(*name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.add_symlink("k/link.so", "libk.so", options).unwrap();
    zip.finish().unwrap();
    path
}

fn package(dir: &Path, members: &[(&str, &[u8])]) -> PathBuf {
    let mut builder = ::rpm::PackageBuilder::new("python3-k", "1.0", "MIT", "x86_64", "a fixture");
    builder.using_config(
        ::rpm::BuildConfig::default().compression(::rpm::CompressionWithLevel::Zstd(1)),
    );
    for (name, bytes) in members {
        builder.with_file_contents(*bytes, ::rpm::FileOptions::new(format!("/{name}"))).unwrap();
    }
    builder.with_symlink(::rpm::FileOptions::symlink("/k/link.so", "libk.so")).unwrap();
    let path = dir.join("k.rpm");
    builder.build().unwrap().write_file(&path).unwrap();
    path
}

fn tarball(dir: &Path, members: &[(&str, &[u8])]) -> PathBuf {
    let path = dir.join("k-1.0.tar.gz");
    let file = fs::File::create(&path).unwrap();
    let mut tar =
        ::tar::Builder::new(flate2::write::GzEncoder::new(file, flate2::Compression::fast()));
    for (name, bytes) in members {
        let mut header = ::tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        tar.append_data(&mut header, format!("./{name}"), *bytes).unwrap();
    }
    let mut header = ::tar::Header::new_gnu();
    header.set_entry_type(::tar::EntryType::Symlink);
    header.set_size(0);
    tar.append_link(&mut header, "k/link.so", "libk.so").unwrap();
    tar.into_inner().unwrap().finish().unwrap();
    path
}

fn only(path: &Path, depth: Depth) -> Subject {
    let mut subjects = read(&[path.to_owned()], depth).unwrap();
    assert_eq!(subjects.len(), 1, "{subjects:?}");
    subjects.remove(0)
}

#[test]
fn reads_the_same_facts_from_archives_and_files() {
    let (library, dir) = (large(), tempfile::tempdir().unwrap());
    let long = format!("k/{}/libk.so", "x".repeat(180));
    let members: Vec<(&str, &[u8])> = vec![
        ("k/libk.so", &library),
        ("k/a.py", b"pass"),
        (&long, &library[..4096]),
        ("k-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: K-on-disk\n\nName: no\n"),
    ];
    let archives = tempfile::tempdir().unwrap();
    for (name, bytes) in &members {
        fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    std::os::unix::fs::symlink("libk.so", dir.path().join("k/link.so")).unwrap();
    let folder = only(dir.path(), Depth::Quick);
    assert_eq!(folder.files.len(), 2);
    let facts = serde_json::to_string(&folder.files).unwrap();
    for (path, package) in [
        (wheel(archives.path(), "k-1.0-py3-none-any.whl", &members), "K-on-disk"),
        (tarball(archives.path(), &members), "K-on-disk"),
        (package(archives.path(), &members), "python3-k"),
    ] {
        let subject = only(&path, Depth::Quick);
        let root = if subject.kind == SubjectKind::Rpm { "/" } else { "" };
        let ours = serde_json::to_string(&subject.files).unwrap();
        assert_eq!(ours.replace(r#""path":"/"#, r#""path":""#), facts, "{path:?}");
        assert_eq!(subject.package.as_deref(), Some(package));
        assert_eq!(subject.sha256, Some(rocmrpm_base::digest::Sha256::of_file(&path).unwrap().0));
        let paths: Vec<_> =
            subject.contents.paths.iter().map(|p| p.trim_start_matches(root)).collect();
        assert!(
            paths.iter().copied().eq(folder.contents.paths.iter().map(String::as_str)),
            "{paths:?}"
        );
        assert_eq!(subject.contents.links[&format!("{root}k/link.so")], "libk.so");
    }
}

#[test]
fn inspects_a_repository_as_one_set() {
    let dir = tempfile::tempdir().unwrap();
    let library = HostElf::new().fatbin(&fatbin()).build();
    fs::create_dir(dir.path().join("repodata")).unwrap();
    fs::write(dir.path().join("repodata/repomd.xml"), "<repomd/>").unwrap();
    package(dir.path(), &[("usr/lib64/libk.so", &library)]);
    wheel(dir.path(), "k-1.0-py3-none-any.whl", &[("k/libk.so", &library)]);
    wheel(dir.path(), "other.zip", &[("k/libk.so", &library)]);
    let subjects = read(&[dir.path().to_owned()], Depth::Quick).unwrap();
    let mut kinds: Vec<_> = subjects.iter().map(|subject| subject.kind).collect();
    kinds.sort();
    assert_eq!(kinds, [SubjectKind::Rpm, SubjectKind::Wheel, SubjectKind::Folder]);
    let unread: Vec<_> = subjects.iter().flat_map(|subject| &subject.unread).collect();
    assert_eq!(
        unread.iter().map(|u| (u.path.as_str(), u.archive)).collect::<Vec<_>>(),
        [("other.zip", true)]
    );
    fs::write(dir.path().join("libk.so"), &library).unwrap();
    assert_eq!(read(&[dir.path().to_owned()], Depth::Quick).unwrap().len(), 3);
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(only(empty.path(), Depth::Quick).kind, SubjectKind::Folder);
}

/// A tar archive with one file.
fn tar_of(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut tar = ::tar::Builder::new(Vec::new());
    let mut header = ::tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    tar.append_data(&mut header, name, bytes).unwrap();
    tar.into_inner().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn reads_tar_archives_of_any_compression() {
    let dir = tempfile::tempdir().unwrap();
    let tar = tar_of("k/libk.so", &HostElf::new().fatbin(&fatbin()).build());
    let zst = zstd::stream::encode_all(&tar[..], 1).unwrap();
    for (name, bytes) in [("k.tar", tar.clone()), ("k.tar.xz", xz(&tar)), ("k.tar.zst", zst)] {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        let subject = only(&path, Depth::Deep);
        assert_eq!((subject.kind, subject.files.len()), (SubjectKind::Tar, 1), "{name}");
        assert_eq!(subject.files[0].path, "k/libk.so");
        assert_eq!(subject.device.len(), 1);
    }
}

#[test]
fn reads_archives_in_a_wheel_and_reports_unread_ones() {
    let dir = tempfile::tempdir().unwrap();
    let library = HostElf::new().fatbin(&fatbin()).build();
    let tar = tar_of("lib/libk.so", &library);
    let inner = fs::read(wheel(dir.path(), "inner.whl", &[("i/libi.so", &library)])).unwrap();
    let nested = tar_of("deep.tar", &tar);
    let members: Vec<(&str, Vec<u8>)> = vec![
        ("k/_devel.tar.xz", xz(&tar)),
        ("k/a.tar.zst", zstd::stream::encode_all(&tar[..], 1).unwrap()),
        ("k/inner.whl", inner),
        ("k/cut.tar.xz", xz(&tar)[..60].to_vec()),
        ("k/nested.tar", nested),
        ("k/old.7z", b"7z\xbc\xaf\x27\x1c".to_vec()),
    ];
    let members: Vec<(&str, &[u8])> =
        members.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
    let path = wheel(dir.path(), "k-1.0-py3-none-any.whl", &members);
    let wanted = GpuTarget::parse("gfx1151").unwrap();
    let expectations = Expectations { gpu_targets: vec![wanted], ..Default::default() };
    for depth in [Depth::Quick, Depth::Deep] {
        let report = inspect(std::slice::from_ref(&path), &expectations, depth).unwrap();
        let subject = &report.subjects[0];
        let files: Vec<_> = subject.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(
            files,
            ["k/_devel.tar.xz/lib/libk.so", "k/a.tar.zst/lib/libk.so", "k/inner.whl/i/libi.so"]
        );
        let unread: Vec<_> = subject.unread.iter().map(|unread| unread.path.as_str()).collect();
        assert_eq!(unread, ["k/cut.tar.xz", "k/nested.tar/deep.tar", "k/old.7z"]);
        assert!(subject.unread.iter().all(|unread| unread.archive && !unread.why.is_empty()));
        let found: Vec<_> =
            report.findings.iter().map(|f| format!("{} {}", f.severity, f.id)).collect();
        // The fixture does not have a PT_GNU_STACK.
        let found: Vec<_> =
            found.iter().filter(|found| !found.ends_with("executable-stack")).collect();
        assert_eq!(found, ["warning archive-unread"]);
        assert_eq!(report.verdicts()[0].to_string(), "served exactly");
    }
}

#[test]
fn inspects_other_files_after_an_unreadable_one() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("broken-1-py3-none-any.whl"), b"PK\x03\x04 and no more").unwrap();
    fs::write(dir.path().join("libk.so"), HostElf::new().fatbin(&fatbin()).build()).unwrap();
    let report = inspect(&[dir.path().to_owned()], &Expectations::default(), Depth::Quick).unwrap();
    assert_eq!(report.subjects[0].files.len(), 1);
    let found: Vec<_> =
        report.errors().map(|f| format!("{} {}", f.file.as_deref().unwrap(), f.id)).collect();
    assert_eq!(found, ["broken-1-py3-none-any.whl file-unread"]);
}

#[test]
fn rejects_fifos_and_devices_immediately() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("f.whl");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    assert!(refused(&fifo).ends_with("f.whl: a FIFO, not a file or a folder"));
    assert_eq!(refused(Path::new("/dev/zero")), "/dev/zero: a device, not a file or a folder");
    let late = crate::image::open(&fifo).unwrap_err();
    assert!(late.to_string().contains("not a regular file"), "created after the check");
}

#[test]
fn matches_errors_with_the_headline() {
    let dir = tempfile::tempdir().unwrap();
    let other = bundle(&[("hipv4-amdgcn-amd-amdhsa--gfx1100", &code_object("gfx1100", 300))]);
    fs::write(dir.path().join("liba.so"), HostElf::new().fatbin(&fatbin()).build()).unwrap();
    fs::write(dir.path().join("libb.so"), HostElf::new().fatbin(&other).build()).unwrap();
    let wanted = GpuTarget::parse("gfx1151").unwrap();
    let expectations = Expectations { gpu_targets: vec![wanted], ..Default::default() };
    let report = inspect(&[dir.path().to_owned()], &expectations, Depth::Quick).unwrap();
    assert_eq!(report.verdicts()[0].to_string(), "served in 1 of 2 files");
    assert!(report.has_errors());
}

#[test]
fn distinguishes_lack_of_memory_from_damage() {
    let mut subject = crate::testing::subject("k.whl", vec![FileFacts::default()]);
    assert!(crate::complete(std::slice::from_ref(&subject)).is_ok());
    subject.files[0].out_of_memory = true;
    subject.files[0].path = "k.so".into();
    let error = crate::complete(&[subject]).unwrap_err();
    assert_eq!(error.to_string(), "k.whl: not enough memory to decompress the GPU code of `k.so`");
}

#[test]
fn reports_sparse_files_as_unread() {
    let dir = tempfile::tempdir().unwrap();
    let holes = fs::File::create(dir.path().join("holes.so")).unwrap();
    // More pieces than the first header of the old format describes.
    for piece in 0..40 {
        std::os::unix::fs::FileExt::write_all_at(holes.file(), b"\x7fELF", piece << 20).unwrap();
    }
    fs::write(dir.path().join("libk.so"), HostElf::new().build()).unwrap();
    for format in ["gnu", "pax"] {
        let archive = dir.path().join(format!("{format}.tar"));
        let mut tar = std::process::Command::new("tar");
        tar.current_dir(dir.path()).arg("--create").arg(format!("--format={format}"));
        tar.args(["--sparse", "--file"]).arg(&archive).args(["holes.so", "libk.so"]);
        assert!(tar.status().unwrap().success());
        let report = inspect(&[archive], &Expectations::default(), Depth::Quick).unwrap();
        let files: Vec<_> = report.subjects[0].files.iter().map(|file| &*file.path).collect();
        assert_eq!(files, ["libk.so"], "{format}");
        let unread: Vec<_> = report.subjects[0].unread.iter().map(|file| &*file.path).collect();
        assert_eq!(unread, ["holes.so"], "{format}");
        assert!(report.findings.iter().any(|finding| finding.id.to_string() == "file-unread"));
    }
}

fn refused(path: &Path) -> String {
    let error = read(&[path.to_owned()], Depth::Quick).unwrap_err();
    let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
    format!("{error}{}", source.unwrap_or_default())
}

#[test]
fn rejects_inconsistent_zips() {
    let dir = tempfile::tempdir().unwrap();
    let library = HostElf::new().build();
    let path = wheel(dir.path(), "k.whl", &[("k/a.so", &library), ("k/b.so", &library)]);
    let whole = fs::read(&path).unwrap();
    let places = |text: &[u8]| -> Vec<usize> { memchr::memmem::find_iter(&whole, text).collect() };
    let entries = places(b"PK\x01\x02");
    let patched = |at: usize, value: &[u8]| {
        let mut bytes = whole.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        fs::write(&path, bytes).unwrap();
        refused(&path)
    };
    let size = entries[0] + 24;
    for (text, error) in [
        ("the same name", patched(entries[1] + 46, b"k/a.so")),
        ("share the same bytes", patched(entries[1] + 42, &[0; 4])),
        ("`k/a.so`: File is larger", patched(size, &100u32.to_le_bytes())),
        ("`k/a.so`: the archive states", patched(size, &(library.len() as u32 + 1).to_le_bytes())),
        ("`k/a.so` exceeds the limit", patched(size, &0xffff_fff0u32.to_le_bytes())),
        ("`k/a.so`: ", patched(entries[0] + 8, &[1])),
        ("`k/a.so`: Invalid checksum", patched(entries[0] + 16, &[1, 2, 3, 4])),
    ] {
        assert!(error.contains(text) && error.contains("k.whl"), "{text}: {error}");
    }
}

#[test]
fn survives_truncated_and_corrupt_archives() {
    let dir = tempfile::tempdir().unwrap();
    let library = HostElf::new().fatbin(&fatbin()[..64]).build();
    let members: [(&str, &[u8]); 2] = [("k/a.so", &library), ("k/b.so", &library)];
    let archives = [wheel(dir.path(), "k.whl", &members), tarball(dir.path(), &members)];
    for path in archives {
        let whole = fs::read(&path).unwrap();
        for length in 4..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let cut = read(std::slice::from_ref(&path), Depth::Quick);
            // The trailing zero blocks of a tar archive may be missing.
            let complete = cut.as_ref().is_ok_and(|subjects| subjects[0].files.len() == 2);
            assert!(
                cut.is_err() || complete && length + 64 > whole.len(),
                "{path:?} cut at {length}"
            );
        }
        crate::testing::flip_bytes(&whole, 400, |bytes| {
            fs::write(&path, bytes).unwrap();
            drop(read(std::slice::from_ref(&path), Depth::Quick));
        });
    }
}

#[test]
fn rejects_members_outside_of_the_archive() {
    let dir = tempfile::tempdir().unwrap();
    let path =
        wheel(dir.path(), "x-1-py3-none-any.whl", &[("../../pwned", b"x"), ("/tmp/pwned", b"x")]);
    let report = inspect(&[path], &Expectations::default(), Depth::Quick).unwrap();
    let found: Vec<_> =
        report.findings.iter().map(|f| format!("{} {}", f.severity, f.id)).collect();
    assert_eq!(found, ["error path-outside"]);
}

#[test]
fn judges_an_rpm_by_its_header() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("k.rpm");
    let found = |provides: Option<&str>| {
        let mut builder = ::rpm::PackageBuilder::new("k", "1.0", "MIT", "x86_64", "a fixture");
        let library = HostElf::new().fatbin(&fatbin()).build();
        builder.with_file_contents(library, ::rpm::FileOptions::new("/usr/lib64/libk.so")).unwrap();
        builder.requires(::rpm::Dependency::any("libx.so.1()(64bit)"));
        if let Some(name) = provides {
            builder.provides(::rpm::Dependency::any(name));
        }
        builder.build().unwrap().write_file(&path).unwrap();
        let gpu_targets = vec![GpuTarget::parse("gfx1151").unwrap()];
        let expectations =
            Expectations { gpu_targets, device_code: Some(true), ..Default::default() };
        let report = inspect(std::slice::from_ref(&path), &expectations, Depth::Quick).unwrap();
        let contents = &report.subjects[0].contents;
        assert_eq!(contents.requires, Some(["libx.so.1".to_owned()].into()), "without rpmlib()");
        let ids = report.findings.iter().map(|f| f.id.to_string());
        ids.filter(|id| id.starts_with("gpu-")).collect::<Vec<_>>()
    };
    assert_eq!(found(Some("rocm-gfx(gfx1151)")), [""; 0]);
    assert_eq!(found(None), ["gpu-provide-missing"]);
    assert_eq!(found(Some("rocm-gfx(gfx1100)")), ["gpu-provide-false", "gpu-provide-missing"]);
}
