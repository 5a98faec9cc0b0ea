//! Compares the inspection of ELF files with readelf: system libraries, and compiled files of both
//! classes and both byte orders, with and without section headers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rocmrpm::inspect::{Depth, ElfFacts, ElfKind, Expectations, Relro, inspect};
use rocmrpm::process::Command;

/// Facts about a file that both report.
#[derive(Debug, Default, PartialEq, Eq)]
struct ReadelfOutput {
    needed: Vec<String>,
    soname: Option<String>,
    rpath: Vec<String>,
    runpath: Vec<String>,
    versions_needed: BTreeMap<String, BTreeSet<String>>,
    versions_provided: BTreeSet<String>,
    build_id: Option<String>,
    interpreter: Option<String>,
    relro: Relro,
    executable_stack: Option<bool>,
    text_relocations: bool,
    has_symbols: bool,
    has_debug_info: bool,
    defined: BTreeSet<String>,
    undefined: BTreeSet<String>,
    defined_symbols: u64,
    undefined_symbols: u64,
}

fn run(dir: &Path, program: &str, args: &[&str]) -> String {
    let command = Command::new(program).args(args).cwd(dir);
    let line = command.line();
    command.text().unwrap_or_else(|error| {
        panic!("{line}: {error} (Debian packages: binutils clang-19 lld-19 llvm-19)")
    })
}

fn facts(path: &Path, depth: Depth) -> ElfFacts {
    let report = inspect(&[path.to_owned()], &Expectations::default(), depth).unwrap();
    let file = &report.subjects[0].files[0];
    assert_eq!(file.damage, [], "{}", path.display());
    file.elf.clone().unwrap()
}

fn ours(path: &Path) -> ReadelfOutput {
    let facts = facts(path, Depth::Deep);
    let set = |names: &[Box<str>]| names.iter().map(ToString::to_string).collect();
    ReadelfOutput {
        needed: facts.needed.iter().map(|needed| needed.as_str().to_owned()).collect(),
        soname: facts.soname.map(|soname| soname.as_str().to_owned()),
        rpath: facts.rpath,
        runpath: facts.runpath,
        versions_needed: facts
            .versions_needed
            .into_iter()
            .map(|(library, versions)| (library, versions.into_iter().collect()))
            .collect(),
        versions_provided: facts.versions_provided.into_iter().collect(),
        build_id: facts.build_id,
        interpreter: facts.interpreter,
        relro: facts.relro,
        executable_stack: facts.executable_stack,
        text_relocations: facts.text_relocations,
        has_symbols: facts.has_symbols,
        has_debug_info: facts.has_debug_info,
        defined: set(&facts.symbols.defined),
        undefined: set(&facts.symbols.undefined),
        defined_symbols: facts.defined_symbols,
        undefined_symbols: facts.undefined_symbols,
    }
}

/// Parses readelf's output section by section.
fn readelf(path: &Path) -> ReadelfOutput {
    let args = ["-hdlnVSW", "--dyn-syms", path.to_str().unwrap()];
    let text = run(Path::new("/"), "readelf", &args);
    let mut reported = ReadelfOutput::default();
    let (mut relro, mut now, mut library, mut symbols) = (false, false, String::new(), false);
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let bracket = || line.split_once('[').unwrap().1.strip_suffix(']').unwrap().to_owned();
        let named =
            || line.split_once("Name: ").unwrap().1.split_whitespace().next().unwrap().to_owned();
        if line.starts_with("Symbol table '") {
            symbols = line.contains(".dynsym");
        } else if line.starts_with("Version ") || line.starts_with("Histogram") {
            symbols = false;
        } else if symbols && fields.len() >= 8 && fields[0].ends_with(':') && fields[0] != "Num:" {
            symbol(line, &mut reported);
        } else if let [address, kind, ..] = fields[..]
            && address.starts_with("0x")
            && kind.starts_with('(')
        {
            match kind {
                "(NEEDED)" => reported.needed.push(bracket()),
                "(SONAME)" => reported.soname = Some(bracket()),
                "(RPATH)" => reported.rpath = bracket().split(':').map(str::to_owned).collect(),
                "(RUNPATH)" => reported.runpath = bracket().split(':').map(str::to_owned).collect(),
                "(TEXTREL)" => reported.text_relocations = true,
                "(BIND_NOW)" => now = true,
                "(FLAGS)" | "(FLAGS_1)" => {
                    now |= fields.contains(&"BIND_NOW") || fields.contains(&"NOW");
                    reported.text_relocations |= fields.contains(&"TEXTREL");
                }
                _ => {}
            }
        } else if fields.first() == Some(&"GNU_RELRO") {
            relro = true;
        } else if fields.first() == Some(&"GNU_STACK") {
            reported.executable_stack = Some(fields[6..fields.len() - 1].concat().contains('E'));
        } else if let Some((_, rest)) = line.split_once("Requesting program interpreter: ") {
            reported.interpreter = rest.strip_suffix(']').map(str::to_owned);
        } else if let Some((_, id)) = line.split_once("Build ID: ") {
            reported.build_id = Some(id.to_owned());
        } else if line.contains(" Version: ") && line.contains("File: ") {
            library =
                line.split_once("File: ").unwrap().1.split_whitespace().next().unwrap().to_owned();
            reported.versions_needed.entry(library.clone()).or_default();
        } else if line.contains(" Rev: ") && line.contains("Name: ") {
            if !line.contains("Flags: BASE") {
                reported.versions_provided.insert(named());
            }
        } else if line.contains("  Name: ") && line.contains("  Flags: ") {
            reported.versions_needed.get_mut(&library).unwrap().insert(named());
        } else if line.trim_start().starts_with('[') && line.contains(']') {
            let columns: Vec<&str> = line.split_once(']').unwrap().1.split_whitespace().collect();
            reported.has_symbols |= columns.contains(&"SYMTAB");
            reported.has_debug_info |= columns.first() == Some(&".debug_info");
        }
    }
    reported.relro = match (relro, now) {
        (false, _) => Relro::None,
        (true, false) => Relro::Partial,
        (true, true) => Relro::Full,
    };
    reported
}

/// Parses a line of readelf's symbol table: number, value, size, type, binding, visibility,
/// optional text in brackets, index, name with version.
fn symbol(line: &str, reported: &mut ReadelfOutput) {
    let line = match (line.find('['), line.find(']')) {
        (Some(from), Some(to)) if from < to => format!("{}{}", &line[..from], &line[to + 1..]),
        _ => line.to_owned(),
    };
    let fields: Vec<&str> = line.split_whitespace().collect();
    let Some(name) = fields.get(7).map(|name| name.split('@').next().unwrap().to_owned()) else {
        return;
    };
    match (fields[4], fields[6]) {
        ("GLOBAL" | "UNIQUE", "UND") => {
            reported.undefined_symbols += 1;
            reported.undefined.insert(name);
        }
        ("LOCAL", _) | ("WEAK", "UND") => {}
        _ => {
            reported.defined_symbols += 1;
            reported.defined.insert(name);
        }
    }
}

/// Compares field by field so that a failure names the field instead of ten thousand symbols.
fn compare(path: &Path) -> ReadelfOutput {
    let (ours, theirs) = (ours(path), readelf(path));
    let name = path.display();
    let missing: Vec<_> = theirs.defined.symmetric_difference(&ours.defined).take(5).collect();
    assert!(missing.is_empty(), "{name}: defined symbols {missing:?}");
    let missing: Vec<_> = theirs.undefined.symmetric_difference(&ours.undefined).take(5).collect();
    assert!(missing.is_empty(), "{name}: undefined symbols {missing:?}");
    similar_asserts::assert_eq!(format!("{ours:#?}"), format!("{theirs:#?}"), "{name}");
    ours
}

/// Returns a selection of this machine's libraries, from the folder that contains libc.
fn system_libraries() -> Vec<PathBuf> {
    let maps = fs_err::read_to_string("/proc/self/maps").unwrap();
    let libc = maps
        .lines()
        .find_map(|line| line.split_whitespace().nth(5).filter(|p| p.contains("/libc.so.6")));
    let folder = Path::new(libc.unwrap()).parent().unwrap();
    let mut files: Vec<PathBuf> = fs_err::read_dir(folder)
        .unwrap()
        .filter_map(|entry| {
            let entry = entry.unwrap();
            let library = entry.file_name().to_string_lossy().contains(".so.");
            (library && entry.file_type().unwrap().is_file()).then(|| entry.path())
        })
        // readelf takes seconds for the symbols of the largest files.
        .filter(|path| fs_err::metadata(path).unwrap().len() < 8 << 20)
        .collect();
    files.sort();
    let step = files.len().div_ceil(60).max(1);
    files.into_iter().step_by(step).collect()
}

#[test]
fn reads_libraries_of_the_machine_like_readelf() {
    let files = system_libraries();
    assert!(files.len() >= 10, "{files:?}");
    let mut versions = 0;
    for path in &files {
        let reported = compare(path);
        versions += reported.versions_needed.len();
        let facts = facts(path, Depth::Quick);
        assert_eq!(facts.header_faults, [], "{}", path.display());
        assert_eq!(facts.symbols.defined.len(), 0);
        assert_eq!(facts.defined_symbols, reported.defined_symbols);
        assert_eq!(facts.symbols.undefined.len(), reported.undefined.len());
    }
    assert!(versions >= files.len() / 2, "{versions}");
}

const SOURCE: &str = r#"
extern int outside(int);
extern int perhaps(int) __attribute__((weak));
int shared = 5;
const char *const names[] = {"libopened.so.3", "/opt/rocm/lib", "/builddir/build/BUILD/k/k.c"};
static int (*const table[])(int) = {outside};
int first(int x) { return table[0](x) + shared + names[x][0]; }
int second(int x) { return perhaps ? perhaps(x) : first(x); }
__attribute__((visibility("hidden"))) int third(int x) { return x; }
"#;

const MAP: &str = "V_1 { global: first; local: third; };\nV_2 { global: second; shared; } V_1;\n";

/// A folder for compiling fixtures.
struct ElfFixture(tempfile::TempDir);

impl ElfFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs_err::write(dir.path().join("a.c"), SOURCE).unwrap();
        fs_err::write(dir.path().join("o.c"), "int outside(int x) { return x; }").unwrap();
        fs_err::write(dir.path().join("a.map"), MAP).unwrap();
        fs_err::write(dir.path().join("o.map"), "OUT_7 { global: outside; };\n").unwrap();
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn clang(&self, args: &str) {
        run(self.0.path(), "clang-19", &args.split_whitespace().collect::<Vec<_>>());
    }

    /// Compiles a library and links it against another one with a symbol version.
    fn library(&self, target: &str, flags: &str) -> PathBuf {
        let base = format!("{target} -nostdlib -fuse-ld=lld-19 -fPIC -shared -g0");
        self.clang(&format!(
            "{base} o.c -o liboutside.so.1 -Wl,-soname,liboutside.so.1 -Wl,--version-script=o.map"
        ));
        self.clang(&format!("{base} a.c -L. -l:liboutside.so.1 -o liba.so {flags}"));
        self.path("liba.so")
    }
}

#[test]
fn reads_compiled_libraries_of_all_kinds_like_readelf() {
    let fixture = ElfFixture::new();
    let check = |flags: &str| compare(&fixture.library("", flags));
    let plain = check("-Wl,-soname,liba.so.1 -Wl,--build-id");
    assert_eq!(plain.soname.as_deref(), Some("liba.so.1"));
    assert_eq!((plain.relro, plain.executable_stack), (Relro::Partial, Some(false)));
    assert_eq!(plain.needed, ["liboutside.so.1"]);
    assert_eq!(plain.versions_needed["liboutside.so.1"], BTreeSet::from(["OUT_7".to_owned()]));
    assert_eq!((plain.defined_symbols, plain.undefined_symbols), (4, 1));
    assert_eq!(plain.build_id.map(|id| id.len()), Some(40));

    assert_eq!(check("-Wl,-z,now").relro, Relro::Full);
    assert_eq!(check("-Wl,-z,norelro").relro, Relro::None);
    assert_eq!(check("-Wl,-z,execstack").executable_stack, Some(true));
    assert_eq!(check("-Wl,--build-id=none").build_id, None);
    assert_eq!(check("-Wl,--build-id=fast").build_id.map(|id| id.len()), Some(16));
    assert_eq!(check("-Wl,--version-script=a.map").versions_provided.len(), 2);
    assert_eq!(check("-Wl,--hash-style=sysv").defined_symbols, 4);
    assert_eq!(
        check("-Wl,--enable-new-dtags,-rpath,$ORIGIN/../lib:").runpath,
        ["$ORIGIN/../lib", ""]
    );
    assert_eq!(check("-Wl,--disable-new-dtags,-rpath,/opt/a:/opt/b").rpath, ["/opt/a", "/opt/b"]);
    assert!(check("-g1").has_debug_info);
    assert!(!check("-Wl,-s").has_symbols);
    let text = "int first(int); extern int there; __attribute__((section(\".text\"))) int *const at = &there;";
    fs_err::write(fixture.path("t.c"), text).unwrap();
    fixture.clang("-nostdlib -fuse-ld=lld-19 -shared -Wl,-z,notext t.c -o libt.so");
    assert!(compare(&fixture.path("libt.so")).text_relocations);
}

#[test]
fn reads_other_classes_and_byte_orders_like_readelf() {
    let cases = [
        ("-m32", 32, false, "i386"),
        ("--target=powerpc64-linux-gnu", 64, true, "ppc64"),
        ("--target=powerpc64le-linux-gnu", 64, false, "ppc64le"),
        ("--target=s390x-linux-gnu", 64, true, "s390x"),
        ("--target=powerpc-linux-gnu", 32, true, "ppc"),
        ("--target=aarch64-linux-gnu", 64, false, "aarch64"),
        ("--target=aarch64_be-linux-gnu", 64, true, "aarch64_be"),
        ("--target=armv7-linux-gnueabihf", 32, false, "armv7hl"),
        ("--target=riscv64-linux-gnu -mno-relax", 64, false, "riscv64"),
        ("--target=mips-linux-gnu", 32, true, "mips"),
    ];
    let fixture = ElfFixture::new();
    for (target, bits, big_endian, machine) in cases {
        for flags in [
            "-Wl,--version-script=a.map -Wl,--build-id -Wl,-soname,liba.so",
            "-Wl,--hash-style=sysv",
        ] {
            let path = fixture.library(target, flags);
            let reported = compare(&path);
            assert_eq!(
                (reported.defined_symbols, reported.undefined_symbols),
                (4, 1),
                "{target} {flags}"
            );
            let facts = facts(&path, Depth::Quick);
            assert_eq!(
                (facts.bits, facts.big_endian, facts.machine.as_str()),
                (bits, big_endian, machine)
            );
            assert_eq!((facts.header_faults, facts.kind), (vec![], ElfKind::Shared), "{target}");
            without_sections(&fixture, &path, target);
        }
    }
}

/// Strips the section headers and expects the same facts.
fn without_sections(fixture: &ElfFixture, path: &Path, what: &str) {
    let with = facts(path, Depth::Deep);
    let stripped = fixture.path("stripped.so");
    let args = ["--strip-sections", path.to_str().unwrap(), stripped.to_str().unwrap()];
    run(fixture.0.path(), "llvm-objcopy-19", &args);
    let without = facts(&stripped, Depth::Deep);
    assert!(with.has_sections && !without.has_sections);
    assert_eq!(with.symbols, without.symbols, "{what}");
    let numbers =
        |f: &ElfFacts| (f.defined_symbols, f.undefined_symbols, f.relro, f.executable_stack);
    assert_eq!(numbers(&with), numbers(&without));
    assert_eq!(with.versions_needed, without.versions_needed);
    assert_eq!(with.versions_provided, without.versions_provided);
    assert_eq!((&with.build_id, &with.needed), (&without.build_id, &without.needed));
    assert_eq!(with.mentioned_libraries, without.mentioned_libraries);
    let paths = |f: &ElfFacts| f.mentioned_paths.iter().map(|m| m.path.clone()).collect::<Vec<_>>();
    assert_eq!(paths(&with), paths(&without));
    assert_eq!(without.header_faults, [], "{what}");
}

#[test]
fn distinguishes_programs_objects_and_debugging_data() {
    let fixture = ElfFixture::new();
    fs_err::write(fixture.path("m.c"), "int main(void) { return 0; }").unwrap();
    fixture.clang(
        "-O1 -g m.c -o m -pie -fuse-ld=lld-19 -Wl,--dynamic-linker=/lib64/ld-linux-x86-64.so.2",
    );
    let program = compare(&fixture.path("m"));
    assert_eq!(program.interpreter.as_deref(), Some("/lib64/ld-linux-x86-64.so.2"));
    assert!(program.has_debug_info && program.has_symbols);
    assert_eq!(facts(&fixture.path("m"), Depth::Quick).header_faults, []);
    // GNU ld's hash table for a program without definitions does not count symbols.
    fixture.clang("-O1 m.c -o g -pie -fuse-ld=bfd -Wl,--hash-style=gnu");
    compare(&fixture.path("g"));
    without_sections(&fixture, &fixture.path("g"), "GNU ld");
    fixture.clang("-static -no-pie -nostdlib -Wl,-e,main -fuse-ld=lld-19 m.c -o s");
    let fixed = facts(&fixture.path("s"), Depth::Quick);
    assert_eq!((fixed.kind, fixed.needed.len()), (ElfKind::Executable, 0));
    fixture.clang("-c a.c -o a.o");
    let object = facts(&fixture.path("a.o"), Depth::Quick);
    assert_eq!((object.kind, object.has_symbols), (ElfKind::Relocatable, true));
    assert_eq!(object.header_faults, []);

    run(fixture.0.path(), "objcopy", &["--only-keep-debug", "m", "m.debug"]);
    run(
        fixture.0.path(),
        "objcopy",
        &["--strip-all", "--add-gnu-debuglink=m.debug", "m", "m.stripped"],
    );
    let stripped = facts(&fixture.path("m.stripped"), Depth::Quick);
    assert_eq!(stripped.debug_link.as_deref(), Some("m.debug"));
    assert!(!stripped.has_symbols && !stripped.has_debug_info && !stripped.debug);
    let debug = facts(&fixture.path("m.debug"), Depth::Quick);
    assert!(debug.debug && debug.has_symbols && debug.has_debug_info);
    assert_eq!((debug.build_id, debug.needed.len()), (stripped.build_id, 0));
    assert_eq!(debug.header_faults, []);
}

#[test]
fn finds_libraries_and_folders_in_strings() {
    let fixture = ElfFixture::new();
    let found = facts(&fixture.library("", ""), Depth::Quick);
    assert_eq!(found.mentioned_libraries, ["libopened.so.3"]);
    let mentions: Vec<_> =
        found.mentioned_paths.iter().map(|m| (m.path.as_str(), m.section.as_str())).collect();
    assert_eq!(
        mentions,
        [("/builddir/build/BUILD/k/k.c", ".rodata"), ("/opt/rocm/lib", ".rodata")]
    );
    let bytes = fs_err::read(fixture.path("liba.so")).unwrap();
    let place = found.mentioned_paths[1].offset as usize;
    assert!(bytes[place..].starts_with(b"/opt/rocm/lib\0"));
}
