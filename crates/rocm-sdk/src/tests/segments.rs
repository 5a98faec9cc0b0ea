//! Tests files that get another segment because they have no room for a search path, with programs
//! and libraries that lld linked: it leaves no unused bytes after a segment.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeSet;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use python_packaging::wheel::Spool;
use python_packaging::wheel::search_path::{apply, edits};
use rocm_inspect::{Depth, Expectations, inspect};

/// Debian's LLVM, which lld linked: its programs need libraries of another folder.
const LLVM: &str = "/usr/lib/llvm-22/bin";

/// A program that unwinds its stack, which reads the program headers in memory, uses memory of all
/// kinds, and prints how the system sees its program headers.
const PROGRAM: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <elf.h>
#include <link.h>
#include <stdexcept>
#include <sys/auxv.h>
extern "C" int f(void);
extern char **environ;
thread_local int of_thread = 5;
char uninitialized[3 << 20];
int initialized = 7;
static const char *relocated[] = {"a", "b"};
struct Early { int value = initialized + 1; } early;
static int count(dl_phdr_info *info, size_t, void *first) {
    if (!*static_cast<int *>(first)) *static_cast<int *>(first) = info->dlpi_phnum;
    return 0;
}
int main(int argc, char **argv) {
    for (char c : uninitialized) if (c) return 1;
    if (of_thread != 5 || early.value != 8 || relocated[argc > 9][0] != 'a' || !environ[0]) return 2;
    auto programs = reinterpret_cast<const Elf64_Phdr *>(getauxval(AT_PHDR));
    int loads = 0, first = 0;
    for (unsigned long i = 0; i < getauxval(AT_PHNUM); i++) loads += programs[i].p_type == PT_LOAD;
    dl_iterate_phdr(count, &first);
    try {
        throw std::runtime_error("thrown");
    } catch (const std::exception &error) {
        free(malloc(1 << 20));
        std::printf("%s %d %d %d\n", error.what(), f(), loads, first == (int)getauxval(AT_PHNUM));
        return 0;
    }
}
"#;

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{command:?}: {error}; install clang-22, lld-22 and g++ of Debian")
    });
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {output:?}");
    text + &String::from_utf8_lossy(&output.stderr)
}

/// Links with lld.
fn link(dir: &Path, name: &str, source: &str, options: &[&str]) -> PathBuf {
    let file = dir.join(name);
    fs_err::create_dir_all(file.parent().unwrap()).unwrap();
    fs_err::write(dir.join("a.cc"), source).unwrap();
    let mut clang = Command::new("clang++-22");
    clang.current_dir(dir).args(["-O1", "-fuse-ld=lld", "a.cc", "-o"]).arg(&file).args(options);
    run(&mut clang);
    file
}

/// Sets the search path of a file, and returns whether it got another segment. The inspection must
/// find what it found before, and nothing wrong.
fn set(file: &Path, text: &str) -> bool {
    let bytes = fs_err::read(file).unwrap();
    let mut spool = Spool::new(file.parent().unwrap()).unwrap();
    let stored = spool.append(&bytes[..], true).unwrap();
    let mut before = spool.linkage(&stored).unwrap().unwrap().0;
    let edits = edits(&spool, stored, &before, text).unwrap().unwrap();
    let new = apply(&mut spool, stored, &edits).unwrap();
    let (after, sound) = spool.linkage(&new).unwrap().unwrap();
    before.runpath = text.split(':').map(str::to_owned).collect();
    before.rpath = Vec::new();
    assert!(sound);
    assert_eq!(serde_json::to_value(&after).unwrap(), serde_json::to_value(&before).unwrap());
    let mut edited = Vec::new();
    spool.reader(new, 0).read_to_end(&mut edited).unwrap();
    // Code and data did not move.
    let changed = bytes.iter().zip(&edited).filter(|(old, new)| old != new).count();
    assert!(changed < 400, "{changed} bytes of {}", file.display());
    fs_err::remove_file(file).unwrap();
    fs_err::write(file, edited).unwrap();
    fs_err::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
    let report = inspect(&[file.to_owned()], &Expectations::default(), Depth::Deep).unwrap();
    let headers: Vec<String> = report
        .findings
        .iter()
        .filter(|finding| finding.id.as_str().starts_with("program-headers"))
        .map(ToString::to_string)
        .collect();
    assert_eq!(headers, [""; 0]);
    edits.append.is_some()
}

/// Returns the number of segments that the loader maps.
fn loads(bytes: &[u8]) -> usize {
    let number = |at: usize, size: usize| {
        bytes[at..at + size].iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    };
    let programs = (0..number(56, 2)).map(|index| number(32, 8) + index * 56);
    programs.filter(|at| number(*at, 4) == 1).count()
}

#[test]
fn programs_run_with_another_segment() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let source = "extern \"C\" int f(void) { return 42; }\n";
    let library =
        link(dir, "far/away/libf.so.1", source, &["-shared", "-fPIC", "-Wl,-soname,libf.so.1"]);
    let library = library.to_str().unwrap();
    for (name, options) in [
        ("plain", &[][..]),
        ("with-old-path", &["-Wl,-rpath,/x", "-Wl,--enable-new-dtags"]),
        ("with-rpath", &["-Wl,-rpath,/x", "-Wl,--disable-new-dtags"]),
        ("fixed-address", &["-no-pie", "-fno-PIE"]),
        ("all-bound", &["-Wl,-z,now", "-Wl,-z,relro"]),
        ("packed", &["-Wl,-z,noseparate-code", "-Wl,-z,pack-relative-relocs"]),
        ("large-pages", &["-Wl,-z,max-page-size=65536"]),
    ] {
        let program = link(dir, &format!("bin/{name}"), PROGRAM, &[options, &[library]].concat());
        let before = Command::new(&program).output().unwrap();
        assert_eq!(before.status.code(), Some(127), "{name} finds its library: {before:?}");
        assert!(set(&program, "$ORIGIN/../far/away"), "{name} had room");
        // A process sees the new segment, and unwinds with it.
        let output = || run(&mut Command::new(&program));
        let expected = || format!("thrown 42 {} 1\n", loads(&fs_err::read(&program).unwrap()));
        assert_eq!(output(), expected(), "{name}");
        set(&program, "$ORIGIN/../far/away:$ORIGIN/../bin:$ORIGIN");
        assert_eq!(output(), expected(), "{name} again");
    }
}

#[test]
fn libraries_load_with_another_segment() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let inner = "extern \"C\" int f(void) { return 42; }\n";
    let inner = link(dir, "far/libf.so.1", inner, &["-shared", "-fPIC", "-Wl,-soname,libf.so.1"]);
    let outer = "#include <stdexcept>\nextern \"C\" int f(void);\nthread_local int t = 1;\n\
        extern \"C\" int g(void) { try { throw std::runtime_error(\"x\"); } catch (...) { return f() + t; } }\n";
    let options = ["-shared", "-fPIC", "-Wl,-soname,libg.so.1", inner.to_str().unwrap()];
    let outer = link(dir, "near/libg.so.1", outer, &options);
    assert!(set(&outer, "$ORIGIN/../far"));
    // Linkers read it, and the loader finds the library that it needs.
    let main = "#include <cstdio>\nextern \"C\" int g(void);\nint main() { std::printf(\"%d\\n\", g()); }\n";
    for linker in ["lld", "bfd"] {
        let chosen = format!("-fuse-ld={linker}");
        let options =
            [outer.to_str().unwrap(), &chosen, "-Wl,-rpath,$ORIGIN/../near", "-Wl,-rpath-link,far"];
        let program = link(dir, &format!("bin/{linker}"), main, &options);
        assert_eq!(run(&mut Command::new(program)), "43\n", "{linker}");
    }
}

#[test]
fn programs_of_llvm_run_with_another_segment() {
    let dir = tempfile::tempdir().unwrap();
    let (bin, libraries) = (dir.path().join("llvm/bin"), dir.path().join("lib"));
    fs_err::create_dir_all(&bin).unwrap();
    fs_err::create_dir_all(&libraries).unwrap();
    let mut grown = BTreeSet::new();
    for name in ["clang", "lld", "opt", "llvm-ar", "llvm-objcopy", "llvm-readobj"] {
        let original = Path::new(LLVM).join(name);
        let program = bin.join(name);
        fs_err::copy(&original, &program).unwrap_or_else(|error| {
            panic!("{error}; install clang-22, lld-22 and llvm-22 of Debian")
        });
        let bytes = fs_err::read(&program).unwrap();
        let facts = rocm_inspect::linkage_in(&bytes).unwrap().0;
        for library in
            facts.needed.iter().map(|name| name.as_str()).filter(|n| n.contains(".so.22"))
        {
            let known = Path::new("/usr/lib/x86_64-linux-gnu").join(library);
            let _ = std::os::unix::fs::symlink(
                fs_err::canonicalize(known).unwrap(),
                libraries.join(library),
            );
        }
        if set(&program, "$ORIGIN/../../lib:$ORIGIN/../lib") {
            grown.insert(name);
        }
        // The loader takes LLVM's libraries from our folder, not from the system's.
        let trace = run(Command::new(&program).env("LD_TRACE_LOADED_OBJECTS", "1"));
        let of_llvm = trace.lines().filter(|line| line.contains(".so.22"));
        let ours = format!("{}/../../lib/", bin.display());
        assert!(of_llvm.clone().count() > 0, "{trace}");
        assert!(of_llvm.clone().all(|line| line.contains(&ours)), "{trace}");
        let mut command = Command::new(&program);
        // The generic name of lld is not a linker.
        let shown = run(match name {
            "lld" => command.args(["-flavor", "ld.lld", "--version"]),
            _ => command.arg("--version"),
        });
        assert!(
            shown.contains("LLD 22")
                || shown.contains("LLVM version 22")
                || shown.contains("version 22"),
            "{shown}"
        );
    }
    assert_eq!(grown.len(), 6, "{grown:?} had no room");
    // The compiler starts itself again, and the linker by its folder.
    std::os::unix::fs::symlink("lld", bin.join("ld.lld")).unwrap();
    fs_err::write(
        dir.path().join("a.c"),
        "int printf(const char *, ...); int main(void) { printf(\"x\\n\"); }\n",
    )
    .unwrap();
    let mut clang = Command::new(bin.join("clang"));
    clang.current_dir(dir.path()).args(["-fuse-ld=lld", "a.c", "-o", "a", "-###"]);
    let plan = run(&mut clang);
    assert!(plan.contains(&format!("{}/ld.lld", bin.display())), "{plan}");
    let mut clang = Command::new(bin.join("clang"));
    run(clang.current_dir(dir.path()).args(["-fuse-ld=lld", "a.c", "-o", "a"]));
    assert_eq!(run(&mut Command::new(dir.path().join("a"))), "x\n");
}
