//! Tests RPMs that cannot become wheels, and wheels whose archive looks different to different
//! readers: each gives a clear error, and nothing is written.

use std::io::Write;
use std::path::{Path, PathBuf};

use rocmrpm::error::Diagnose;
use rocmrpm::events::Silent;
use rocmrpm::wheel::{self, Pins, Request, Rocm, Wheel, WheelError};
use rocmrpm::{index, process::Command};
use zip::write::SimpleFileOptions;

use super::fixtures::*;

fn built(rpms: &[PathBuf], out_dir: &Path, leave_out: &[&str]) -> Result<Vec<Wheel>, WheelError> {
    let leave_out: Vec<String> = leave_out.iter().map(|pattern| (*pattern).to_owned()).collect();
    wheel::build(Request {
        rpms,
        label: &label(),
        source_date_epoch: EPOCH,
        out_dir,
        python: Some((3, 14)),
        pins: &Pins::new(),
        rocm: &Rocm::System,
        leave_out: &leave_out,
        not_required: &[],
        origin: None,
        events: &Silent,
    })
}

#[test]
fn rejects_ambiguous_packages() {
    let bare = || Package::new("python3-bad", "noarch");
    let pure = || Package::pure("python3-bad", "bad");
    let old = "/usr/lib/python3.13/site-packages";
    let cases: Vec<(&[&str], &str, Package)> = vec![
        (
            &["it is installed for Python 3.13, but the chroot has Python 3.14"],
            "rebuild the component",
            bare()
                .file(&format!("{old}/bad-1.0.dist-info/METADATA"), metadata("bad", "1.0"))
                .file(&format!("{old}/bad.py"), ""),
        ),
        (
            &["no dist-info folder with METADATA", "site-packages/bad.py"],
            "%pyproject_install",
            bare().file(&format!("{LIB}/bad.py"), ""),
        ),
        (
            &["no dist-info folder with METADATA"],
            "`leave-out`",
            bare().file(&format!("{LIB}/bad-1.0.dist-info/WHEEL"), "Tag: py3-none-any\n"),
        ),
        (
            &["egg-info metadata", "bad-1.0-py3.14.egg-info/PKG-INFO"],
            "%pyproject_install",
            bare()
                .file(&format!("{LIB}/bad-1.0-py3.14.egg-info/PKG-INFO"), metadata("bad", "1.0"))
                .file(&format!("{LIB}/bad.py"), ""),
        ),
        (
            &["egg-info metadata", "other.egg-info"],
            "`leave-out`",
            pure().file(&format!("{LIB}/other.egg-info"), metadata("other", "1.0")),
        ),
        (
            &["several distributions: bad-1.0.dist-info, worse-1.0.dist-info"],
            "in its own subpackage",
            pure().file(&format!("{LIB}/worse-1.0.dist-info/METADATA"), metadata("worse", "1.0")),
        ),
        (
            &["/usr/lib64/cmake/bad/bad.cmake: this folder has no counterpart"],
            "`leave-out`",
            pure().file("/usr/lib64/cmake/bad/bad.cmake", ""),
        ),
        (
            &["/usr/lib64/pkgconfig/bad.pc: this folder has no counterpart"],
            "`leave-out`",
            pure().file("/usr/lib64/pkgconfig/bad.pc", ""),
        ),
    ];
    for (expected, help, package) in cases {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let error = built(&[package.write(dir.path())], &out, &[]).unwrap_err();
        let text = error.to_string();
        for part in expected {
            assert!(text.contains(part), "{part:?}: {text}");
        }
        assert!(
            text.contains("python3-bad-1.0-1.fc43.noarch.rpm") && !text.contains('\n'),
            "{text}"
        );
        assert!(error.help().concat().contains(help), "{help}: {:?}", error.help());
        assert_eq!(error.kind().exit_code(), 10, "{text}");
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0, "{text}: something was written");
    }
}

#[test]
fn builds_no_wheel_without_python_modules() {
    let dir = tempfile::tempdir().unwrap();
    let rpm = Package::new("tool", "noarch")
        .program("/usr/bin/tool", "#!/bin/sh\n")
        .file("/usr/lib64/cmake/tool.cmake", "")
        .write(dir.path());
    assert_eq!(built(&[rpm], &dir.path().join("out"), &[]).unwrap(), []);
}

#[test]
fn omits_and_ignores_left_out_files() {
    let dir = tempfile::tempdir().unwrap();
    let main = Package::pure("python3-a", "a")
        .link(&format!("{LIB}/a/libgpu.so"), "/usr/lib64/libgpu.so.1")
        .file(&format!("{LIB}/other-1.0.dist-info/METADATA"), metadata("other", "1.0"))
        .file(&format!("{LIB}/a/tests/x.py"), "")
        .write(dir.path());
    let devel = Package::new("python3-a-devel", "noarch")
        .file("/usr/lib64/libgpu.so.1", elf(AMDGPU))
        .file("/usr/lib64/cmake/a/a.cmake", "")
        .file("/usr/include/a/a.h", "int a;\n")
        .write(dir.path());
    let rpms = [main, devel];
    let patterns =
        ["*/a/tests/*", "/usr/lib64/cmake/*", "/usr/lib64/libgpu.so*", "*/other-1.0.dist-info/*"];
    let wheels = built(&rpms, &dir.path().join("out"), &patterns).unwrap();
    let stem = "a-1.0+rocm7.14.gfx1151";
    let names = names(&wheels[0].path);
    let expected = ["a/__init__.py", "a/libgpu.so", &format!("{stem}.data/data/include/a/a.h")];
    for name in expected {
        assert!(names.iter().any(|member| member == name), "{name}: {names:?}");
    }
    for part in ["tests", "cmake", "other"] {
        assert!(!names.iter().any(|name| name.contains(part)), "{names:?}");
    }

    let out = dir.path().join("none");
    let error = built(&rpms, &out, &[&patterns[..], &["/usr/lib64/cmake"]].concat()).unwrap_err();
    assert!(error.to_string().contains("`/usr/lib64/cmake`, which matches no file"), "{error}");
    assert_eq!(error.kind().exit_code(), 3);
    assert!(error.help().concat().contains("/usr/lib64/cmake/*"), "{:?}", error.help());
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0);
}

/// Returns a wheel of a module `a`, its required file name, and its bytes.
fn wheel_bytes(dir: &Path) -> (PathBuf, String, Vec<u8>) {
    let wheel = one(&[Package::pure("python3-a", "a").write(dir)], &dir.join("out")).path;
    let name = wheel.file_name().unwrap().to_str().unwrap().to_owned();
    let bytes = std::fs::read(&wheel).unwrap();
    (wheel, name, bytes)
}

fn find(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).position(|window| window == what).unwrap()
}

fn rfind(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).rposition(|window| window == what).unwrap()
}

/// Increases the 32-bit number at `at`.
fn add(bytes: &mut [u8], at: usize, more: u32) {
    let old = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    bytes[at..at + 4].copy_from_slice(&(old + more).to_le_bytes());
}

#[test]
fn rejects_ambiguous_archives_and_keeps_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let (wheel, name, whole) = wheel_bytes(dir.path());
    let root = dir.path().join("index");
    index::write(std::slice::from_ref(&wheel), &root).unwrap();
    let before = snapshot(&root);

    type Damage = fn(&mut Vec<u8>);
    let cases: [(&str, Damage); 9] = [
        ("has a different name in its local header", |bytes| {
            let at = find(bytes, b"a/__init__.py");
            bytes[at] = b'b';
        }),
        ("has a different size or checksum in its local header", |bytes| add(bytes, 22, 1)),
        ("has a different size or checksum in its local header", |bytes| add(bytes, 14, 1)),
        ("has a different compression in its local header", |bytes| bytes[8] ^= 8),
        ("stray bytes before its members", |bytes| {
            bytes.splice(0..0, *b"#!/bin/sh\n");
        }),
        ("stray bytes before its members", |bytes| {
            // With corrected offsets.
            bytes.splice(0..0, *b"#!/bin/sh\n");
            let mut at = find(bytes, b"PK\x01\x02");
            let end = rfind(bytes, b"PK\x05\x06");
            while at < end {
                add(bytes, at + 42, 10);
                let length = |at| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
                at += 46 + length(at + 28) + length(at + 30) + length(at + 32);
            }
            add(bytes, end + 16, 10);
        }),
        ("stray bytes after its central directory", |bytes| bytes.extend(*b"more")),
        ("stray bytes after its central directory", |bytes| {
            // A comment, which may be another archive.
            let end = bytes.len();
            bytes[end - 2] = 4;
            bytes.extend(*b"more");
        }),
        ("bytes between its members", |bytes| {
            let directory = find(bytes, b"PK\x01\x02");
            bytes.splice(directory..directory, *b"hidden");
            let end = rfind(bytes, b"PK\x05\x06");
            add(bytes, end + 16, 6);
        }),
    ];
    let folder = dir.path().join("bad");
    std::fs::create_dir(&folder).unwrap();
    let bad = folder.join(name);
    for (at, (expected, damage)) in cases.into_iter().enumerate() {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        std::fs::write(&bad, &bytes).unwrap();
        let error = index::write(&[wheel.clone(), bad.clone()], &root).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected), "{at}: expected {expected:?}, got {text:?}");
        assert!(text.contains(bad.to_str().unwrap()) && !text.contains('\n'), "{text:?}");
        assert!(snapshot(&root) == before, "{expected}: the index changed");
    }
}

/// Returns all files below a folder with their content.
fn snapshot(dir: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let files = walkdir::WalkDir::new(dir).into_iter().map(Result::unwrap);
    let files = files.filter(|e| e.file_type().is_file() && e.file_name() != ".lock");
    files.map(|e| (e.path().to_owned(), std::fs::read(e.path()).unwrap())).collect()
}

/// Writes a wheel with these members and a matching RECORD.
fn write_wheel(path: &Path, members: &[(&str, &[u8])]) {
    let info = "a-1.0.dist-info";
    let mut all = vec![
        (format!("{info}/METADATA"), metadata("a", "1.0").into_bytes()),
        (
            format!("{info}/WHEEL"),
            b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n".to_vec(),
        ),
    ];
    for (name, content) in members {
        all.retain(|(other, _)| other != name);
        all.push(((*name).to_owned(), content.to_vec()));
    }
    let mut record = String::new();
    for (name, content) in &all {
        // The required format: sha256 in URL-safe base64 without padding.
        let code = "import sys,hashlib,base64;\
            print(base64.urlsafe_b64encode(hashlib.sha256(open(sys.argv[1],'rb').read()).digest()).decode().rstrip('='))";
        let file = path.with_extension("member");
        std::fs::write(&file, content).unwrap();
        let digest = Command::new("/usr/bin/python3").args(["-c", code]).arg(&file).text().unwrap();
        record += &format!("{name},sha256={},{}\n", digest.trim(), content.len());
    }
    all.push((format!("{info}/RECORD"), format!("{record}{info}/RECORD,,\n").into_bytes()));
    let mut archive = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    for (name, content) in all {
        archive.start_file(name, SimpleFileOptions::default()).unwrap();
        archive.write_all(&content).unwrap();
    }
    archive.finish().unwrap();
}

#[test]
fn rejects_contents_that_installers_reject() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a-1.0-py3-none-any.whl");
    write_wheel(&path, &[("a.py", b"x"), ("A.py", b"y")]);
    wheel::read(&path).expect("names that differ only by case are valid on Linux");

    let zeros = vec![0; 65 << 20];
    let long = "a".repeat(5000);
    let wheel = "a-1.0.dist-info/WHEEL";
    let tag = "Tag: py3-none-any\n";
    let newer = format!("Wheel-Version: 2.0\n{tag}");
    let cases: [(&str, &str, &[u8]); 6] = [
        ("more than 50 times those of the file", "zeros.bin", &zeros),
        ("5000 bytes, more than any path", &long, b""),
        ("both as a file and as a folder", "a-1.0.dist-info/WHEEL/x", b""),
        ("the format version is `2.0`, expected 1", wheel, newer.as_bytes()),
        ("it has no Wheel-Version", wheel, tag.as_bytes()),
        ("its folder is a-1.0.dist-info", "a-1.0.dist-info/METADATA", b"Name: a\nVersion: 1.0.1\n"),
    ];
    for (expected, name, content) in cases {
        let path = match expected.contains("its folder is") {
            true => dir.path().join("a-1.0.1-py3-none-any.whl"),
            false => path.clone(),
        };
        write_wheel(&path, &[(name, content)]);
        let error = wheel::read(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn does_not_allocate_claimed_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a-1.0-py3-none-any.whl");
    // A RECORD that declares a terabyte.
    write_wheel(&path, &[("a.py", b"x")]);
    let mut all = members(&path);
    let record = &mut all.iter_mut().find(|(name, _)| name.ends_with("/RECORD")).unwrap().1;
    *record = String::from_utf8(record.clone())
        .unwrap()
        .replacen(",1\n", ",1099511627776\n", 1)
        .into_bytes();
    let mut archive = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    for (name, content) in &all {
        archive.start_file(name.as_str(), SimpleFileOptions::default()).unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap();
    let error = wheel::read(&path).unwrap_err().to_string();
    assert!(
        error.contains("size 1099511627776, but the file has") && error.contains(" and 1"),
        "{error}"
    );

    // A RECORD of empty lines: parsing a line would take a hundred times its size.
    let lines = b",,\n".repeat(20 << 20);
    let mut archive = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    for (name, content) in &all {
        archive.start_file(name.as_str(), SimpleFileOptions::default()).unwrap();
        archive.write_all(if name.ends_with("/RECORD") { &lines } else { content }).unwrap();
    }
    archive.finish().unwrap();
    let error = wheel::read(&path).unwrap_err().to_string();
    assert!(error.contains("two lines per member"), "{error}");
}

#[test]
fn reads_archives_of_other_writers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a-1.0-py3-none-any.whl");
    write_wheel(&path, &[("a.py", b"x")]);
    // Python writes data descriptors with 32 or 64 bits if it cannot seek, and zip64 fields if
    // requested.
    let code = "import sys, zipfile, io\n\
        class Stream(io.RawIOBase):\n\
        \x20   def __init__(self, file): self.file = file\n\
        \x20   def writable(self): return True\n\
        \x20   def write(self, data): return self.file.write(data)\n\
        old = zipfile.ZipFile(sys.argv[1])\n\
        for stream in (True, False):\n\
        \x20   for large in (True, False):\n\
        \x20       name = f'{sys.argv[2]}/{stream}-{large}'\n\
        \x20       with open(name, 'wb') as file:\n\
        \x20           with zipfile.ZipFile(Stream(file) if stream else file, 'w', zipfile.ZIP_DEFLATED) as new:\n\
        \x20               for info in old.infolist():\n\
        \x20                   with new.open(info.filename, 'w', force_zip64=large) as out: out.write(old.read(info))\n";
    Command::new("/usr/bin/python3").args(["-c", code]).arg(&path).arg(dir.path()).text().unwrap();
    for kind in ["True-True", "True-False", "False-True", "False-False"] {
        std::fs::copy(dir.path().join(kind), &path).unwrap();
        wheel::read(&path).unwrap_or_else(|error| panic!("{kind}: {error}"));
    }
    // Enough members for a 64-bit end record.
    let code = "import sys, zipfile\n\
        old = zipfile.ZipFile(sys.argv[1])\n\
        empty = 'sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0'\n\
        with zipfile.ZipFile(sys.argv[2], 'w') as new:\n\
        \x20   for info in old.infolist():\n\
        \x20       content = old.read(info)\n\
        \x20       if info.filename.endswith('/RECORD'):\n\
        \x20           for n in range(66000): new.writestr(f'm{n}.py', '')\n\
        \x20           content += ''.join(f'm{n}.py,{empty}\\n' for n in range(66000)).encode()\n\
        \x20       new.writestr(info.filename, content)\n";
    let many = dir.path().join("many");
    Command::new("/usr/bin/python3").args(["-c", code]).arg(&path).arg(&many).text().unwrap();
    assert!(std::fs::read(&many).unwrap().windows(4).any(|bytes| bytes == b"PK\x06\x06"));
    std::fs::rename(&many, &path).unwrap();
    wheel::read(&path).unwrap();
}
