//! Tests search paths, and the packages of programs that need libraries of others.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::io::Read as _;

use super::{File, SdkFixture, runpath};

const MAIN: &str = "int main(void) { return 0; }\n";
/// More uninitialized data than a file may have that gets another segment.
const LARGE: &str = "char large[128 << 20];\n";

#[test]
fn programs_are_in_the_package_of_the_libraries_that_they_need() {
    let mut fixture = SdkFixture::new();
    fixture.rocm();
    let bench =
        fixture.link(&["-Wl,--no-as-needed", "-l:librocblas.so.5", "-Wl,-rpath-link,."], MAIN);
    fixture.library("libbench.so.1", &["librocblas.so.5"]);
    let near = fixture.link(&["-Wl,--no-as-needed", "-l:libbench.so.1", "-Wl,-rpath-link,."], MAIN);
    let library = fixture.library("libbench.so.1", &["librocblas.so.5"]);
    fixture.rpm(
        "rocblas-clients",
        "7.2.4",
        &[
            ("/usr/bin/rocblas-bench", File::Binary(bench)),
            ("/usr/bin/bench", File::Link("rocblas-bench")),
            ("/usr/bin/near", File::Binary(near)),
            ("/usr/lib64/libbench.so.1", File::Binary(library)),
        ],
    );
    let libraries = fixture.wheel(&["gfx1151"], "rocm-sdk-libraries-gfx1151");
    let file = |name: &str| &libraries[&format!("_rocm_sdk_libraries_gfx1151/{name}")];
    assert_eq!(
        runpath(file("bin/rocblas-bench")),
        "$ORIGIN/../lib:$ORIGIN/../../_rocm_sdk_core/lib"
    );
    assert!(file("bin/bench").ends_with(b"rocblas-bench\0"));
    assert!(runpath(file("bin/near")).starts_with("$ORIGIN/../lib"));
    file("lib/libbench.so.1");
}

#[test]
fn rejects_programs_that_need_a_package_which_may_be_missing() {
    let mut fixture = SdkFixture::new();
    fixture.rocm();
    let program =
        fixture.link(&["-Wl,--no-as-needed", "-l:librocblas.so.5", "-Wl,-rpath-link,."], MAIN);
    fixture.rpm("profiler", "1", &[("/usr/bin/rocprof-sys-run", File::Binary(program))]);
    assert_eq!(
        fixture.refusal(&["gfx1151"]),
        "`/usr/bin/rocprof-sys-run` needs librocblas.so.5, but _rocm_profiler may be installed without \
         _rocm_sdk_libraries_gfx1151, which has it"
    );
    assert!(fixture.help(&["gfx1151"]).contains("`--leave-out /usr/bin/rocprof-sys-run`"));
}

#[test]
fn replaces_search_paths_that_lead_out_of_the_packages() {
    let link_with = |fixture: &SdkFixture, options: &[&str], data: &str| {
        let soname = ["-shared", "-fPIC", "-Wl,-soname,libhiprtc.so.7"];
        let source = format!("{data}int g(void) {{ return 7; }}\n");
        fixture.link(&[&soname[..], options].concat(), &source)
    };
    let link = |fixture: &SdkFixture, options: &[&str]| link_with(fixture, options, "");
    let core = |fixture: &mut SdkFixture, bytes: Vec<u8>| {
        fixture.rocm().rpm("hiprtc", "1", &[("/usr/lib64/libhiprtc.so.7", File::Binary(bytes))]);
        let core = fixture.wheel(&["gfx1151"], "rocm-sdk-core");
        core["_rocm_sdk_core/lib/libhiprtc.so.7"].clone()
    };
    let mut fixture = SdkFixture::new();
    let absolute = link(&fixture, &["-Wl,-rpath,/opt/rocm/lib"]);
    let found = core(&mut fixture, absolute);
    assert_eq!(runpath(&found), "$ORIGIN");
    // DT_RPATH has no effect beside DT_RUNPATH.
    let mut fixture = SdkFixture::new();
    let both = link(&fixture, &["-Wl,--disable-new-dtags,-rpath,/opt/rocm/lib"]);
    let found = core(&mut fixture, with_runpath(both));
    let facts = rocm_inspect::linkage_in(&found).unwrap().0;
    assert_eq!((facts.rpath.join(":"), facts.runpath.join(":")), ("".into(), "$ORIGIN".into()));
    // Without room, it gets another segment, unless the file would become much larger.
    let mut fixture = SdkFixture::new();
    let full = filled(link(&fixture, &["-Wl,-rpath,/x"]));
    let found = core(&mut fixture, full);
    assert_eq!(runpath(&found), "$ORIGIN");
    let mut fixture = SdkFixture::new();
    let full = link_with(&fixture, &["-Wl,-rpath,/x"], LARGE);
    let found = core(&mut fixture, filled(full));
    assert_eq!(runpath(&found), "/x");
    let notes = fixture.notes();
    assert!(notes.contains("leads out of the packages"), "{notes}");
    assert!(notes.ends_with("1 in total, such as lib/libhiprtc.so.7 with `/x`"), "{notes}");
}

#[test]
fn keeps_programs_that_find_their_libraries() {
    let mut fixture = SdkFixture::new();
    fixture.rocm();
    // The name of a symbol shares the bytes of the search path.
    let program = fixture.link(
        &["-l:libamdhip64.so.7", "-Wl,-rpath-link,.", "-Wl,-rpath,$ORIGIN/../lib:/x/f"],
        &format!("{LARGE}int f(void); int main(void) {{ return f(); }}\n"),
    );
    fixture.rpm("hip-tools", "7.2.4", &[("/usr/bin/hipinfo", File::Binary(filled(program)))]);
    let core = fixture.wheel(&["gfx1151"], "rocm-sdk-core");
    assert_eq!(runpath(&core["_rocm_sdk_core/bin/hipinfo"]), "$ORIGIN/../lib:/x/f");
    let notes = fixture.notes();
    assert!(notes.ends_with("such as bin/hipinfo with `$ORIGIN/../lib:/x/f`"), "{notes}");
}

#[test]
fn names_all_programs_that_would_not_find_their_libraries() {
    let mut fixture = SdkFixture::new();
    fixture.rocm();
    let options = ["-Wl,--no-as-needed", "-l:libamdhip64.so.7", "-Wl,-rpath-link,."];
    let program = filled(fixture.link(&options, &format!("{LARGE}{MAIN}")));
    let files = ["/usr/bin/hipinfo", "/usr/lib/llvm-22/bin/hip-opt"];
    let files = files.map(|path| (path, File::Binary(program.clone())));
    fixture.rpm("hip-tools", "7.2.4", &files);
    let error = fixture.refusal(&["gfx1151"]);
    let names = "do not find their libraries: /usr/bin/hipinfo, /usr/lib/llvm-22/bin/hip-opt";
    assert!(error.ends_with(names), "{error}");
    let help = fixture.help(&["gfx1151"]);
    let options = "`--leave-out /usr/bin/hipinfo --leave-out /usr/lib/llvm-22/bin/hip-opt`";
    assert!(help.ends_with(options), "{help}");
    // The paths in the help are those that the option takes.
    fixture.leave_out = vec!["/usr/bin/hipinfo".into(), "/usr/lib/llvm-22/bin/hip-opt".into()];
    fixture.made(&["gfx1151"]).unwrap();
}

#[test]
fn names_damaged_files() {
    let mut fixture = SdkFixture::new();
    fixture.rocm();
    let mut library = fixture.library("libhiprtc.so.7", &["libamdhip64.so.7"]);
    // The position of the section headers, which the loader does not read.
    library[40..48].copy_from_slice(&(u64::MAX - 8).to_le_bytes());
    fixture.rpm("hiprtc", "1", &[("/usr/lib64/libhiprtc.so.7", File::Binary(library))]);
    let error = fixture.refusal(&["gfx1151"]);
    let start = "hiprtc-1-1.fc43.x86_64.rpm: `/usr/lib64/libhiprtc.so.7` is a damaged ELF file: ";
    assert!(error.contains(start), "{error}");
    let help = fixture.help(&["gfx1151"]);
    assert!(help.contains("`--leave-out /usr/lib64/libhiprtc.so.7`"), "{help}");
}

#[test]
fn reads_tables_of_untrusted_files() {
    let fixture = SdkFixture::new();
    let whole = fixture.link(
        &["-shared", "-fPIC", "-Wl,--disable-new-dtags,-rpath,/usr/lib64/rocm"],
        "int g(void) { return 7; }\n",
    );
    let whole = with_runpath(whole);
    assert!(crate::fuzzing::search_path(&whole));
    let dynamic = (dynamic(&whole)..).step_by(8).take(64);
    for at in (0..64 + 14 * 56).step_by(4).chain(dynamic) {
        for value in [0, 1, u64::MAX, u64::MAX - 4095, i64::MAX as u64] {
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            crate::fuzzing::search_path(&bytes);
        }
    }
}

fn number(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
}

/// Returns the position of the dynamic section.
fn dynamic(bytes: &[u8]) -> usize {
    let mut programs = (0..usize::from(bytes[56])).map(|index| number(bytes, 32) + index * 56);
    number(bytes, programs.find(|at| bytes[*at..*at + 4] == [2, 0, 0, 0]).unwrap() + 8)
}

/// Adds DT_RUNPATH with the text of DT_RPATH.
fn with_runpath(mut bytes: Vec<u8>) -> Vec<u8> {
    let entries: Vec<usize> = (dynamic(&bytes)..).step_by(16).take(64).collect();
    let find = |tag: usize| entries.iter().copied().find(|at| number(&bytes, *at) == tag).unwrap();
    let (old, free) = (find(15), find(0));
    let value = number(&bytes, old + 8) as u64;
    bytes[free..free + 16].copy_from_slice(&[29, value].map(u64::to_le_bytes).concat());
    bytes
}

#[test]
fn uses_the_room_of_a_file_before_it_grows() {
    let fixture = SdkFixture::new();
    fixture.library("libhsa-runtime64.so.1", &[]);
    let link = |options: &[&str]| {
        let mut arguments =
            vec!["-shared", "-fPIC", "-Wl,--no-as-needed", "-l:libhsa-runtime64.so.1"];
        arguments.extend(options);
        fixture.link(&arguments, "int g(void) { return 7; }\n")
    };
    let set = |bytes: &[u8], text: &str| {
        let mut spool = python_packaging::wheel::Spool::new(fixture.dir.path()).unwrap();
        let stored = spool.append(bytes, false).unwrap();
        let facts = spool.linkage(&stored).unwrap().unwrap().0;
        let edits =
            python_packaging::wheel::search_path::edits(&spool, stored, &facts, text).unwrap()?;
        if edits.append.is_some() {
            return None;
        }
        let changed: usize = edits.overwrite.iter().map(|(_, bytes)| bytes.len()).sum();
        let new = python_packaging::wheel::search_path::apply(&mut spool, stored, &edits).unwrap();
        let after = spool.linkage(&new).unwrap().unwrap();
        assert!(after.1 && after.0.header_faults == facts.header_faults);
        assert_eq!(after.0.runpath.join(":"), text);
        assert!(after.0.rpath.is_empty() && changed < text.len() + 64);
        // A linker reads the section headers, which the loader does not.
        let mut edited = Vec::new();
        spool.reader(new, 0).read_to_end(&mut edited).unwrap();
        fs_err::write(fixture.dir.path().join("libedited.so"), edited).unwrap();
        fixture.link(
            &["-l:libedited.so", "-Wl,-rpath-link,."],
            "int g(void); int main(void) { return g(); }\n",
        );
        Some(())
    };
    assert_eq!(set(&link(&[]), "$ORIGIN/../../a/lib"), Some(()));
    let old = ["-Wl,--disable-new-dtags,-rpath,/usr/lib64/rocm"];
    assert_eq!(set(&link(&old), "$ORIGIN/../../a/much/longer/path/lib"), Some(()));
    // Without padding, the text must fit into the old one, and nothing may share its bytes.
    let dense = filled(link(&["-Wl,-rpath,/usr/lib64/rocm/lib"]));
    assert_eq!(set(&dense, "$ORIGIN/../lib"), Some(()));
    assert_eq!(set(&dense, "$ORIGIN/../../a/much/longer/path/lib"), None);
    let shared = filled(link(&["-Wl,-rpath,/usr/lib64/rocm/g"]));
    assert_eq!(set(&shared, "$ORIGIN"), None);
}

/// Returns the ELF file without padding after its segments.
fn filled(mut bytes: Vec<u8>) -> Vec<u8> {
    let programs = (0..usize::from(bytes[56])).map(|index| number(&bytes, 32) + index * 56);
    let loads = programs.filter(|at| bytes[*at] == 1 && bytes[*at + 1] == 0);
    let ends: Vec<usize> =
        loads.map(|at| number(&bytes, at + 8) + number(&bytes, at + 32)).collect();
    for end in ends {
        let gap = bytes[end..].iter().take(4096 - end % 4096).take_while(|byte| **byte == 0);
        let gap = end + gap.count();
        bytes[end..gap].fill(0xff);
    }
    bytes
}
