//! Tests what appears in the folder, and what the packages omit or add.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use rocmrpm_base::files::names_in;

use super::{File, SdkFixture, runpath};

#[test]
fn replaces_the_packages_of_an_earlier_run() {
    let mut fixture = SdkFixture::new();
    fixture.rocm().made(&["gfx90a"]).unwrap();
    let made = fixture.made(&["gfx1151"]).unwrap();
    let names = [
        "rocm-7.2.4.tar.gz",
        "rocm_sdk_core-7.2.4-py3-none-linux_x86_64.whl",
        "rocm_sdk_devel-7.2.4-py3-none-linux_x86_64.whl",
        "rocm_sdk_libraries_gfx1151-7.2.4-py3-none-linux_x86_64.whl",
    ];
    assert_eq!(names_in(&fixture.out()).unwrap(), names);
    assert!(
        made.wheels
            .iter()
            .map(|wheel| &wheel.path)
            .chain([&made.selector.path])
            .all(|p| p.is_file())
    );
    // A failure changes nothing, and leaves nothing beside the folder.
    fixture.made(&["gfx1201"]).unwrap_err();
    fixture.leave_out = vec!["/usr/lib64/libhsa-runtime64.so.1".into()];
    fixture.made(&["gfx1151"]).unwrap_err();
    assert_eq!(names_in(&fixture.out()).unwrap(), names);
    let parent = names_in(fixture.out().parent().unwrap()).unwrap();
    assert!(!parent.iter().any(|name| name.starts_with('.')), "{parent:?}");
}

#[test]
fn links_to_folders_follow_the_layout() {
    let mut fixture = SdkFixture::new();
    fixture.rocm().rpm(
        "rocm-llvm-devel",
        "22",
        &[
            ("/usr/lib64/rocm/llvm", File::Link("../../lib/llvm-22")),
            ("/usr/lib/llvm-22/include/llvm.h", File::Text("")),
        ],
    );
    let devel = fixture.wheel(&["gfx1151"], "rocm-sdk-devel");
    let mut tar = tar::Archive::new(&devel["rocm_sdk_devel/_devel.tar"][..]);
    let links = tar.entries().unwrap().filter_map(|entry| {
        let entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        Some((path, entry.link_name().unwrap()?.display().to_string()))
    });
    let link = ("_rocm_sdk_devel/lib/rocm/llvm".to_owned(), "../llvm".to_owned());
    assert!(links.collect::<Vec<_>>().contains(&link));
}

#[test]
fn keeps_a_folder_with_other_files() {
    let mut fixture = SdkFixture::new();
    fixture.rocm();
    fs_err::create_dir(fixture.out()).unwrap();
    fs_err::write(fixture.out().join("torch-2.10.0-cp314-cp314-linux_x86_64.whl"), "").unwrap();
    let error = fixture.made(&["gfx1151"]).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "out-dir/torch-2.10.0-cp314-cp314-linux_x86_64.whl: not one of ROCm's Python packages, which \
             `--out` replaces"
        ),
        "{error}"
    );
    assert_eq!(names_in(&fixture.out()).unwrap().len(), 1);
}

#[test]
fn links_to_scripts_become_stubs() {
    let mut fixture = SdkFixture::new();
    fixture.rocm().rpm(
        "amdsmi",
        "7.2.4",
        &[
            ("/usr/libexec/amdsmi_cli/amdsmi_cli.py", File::Text("#!/usr/bin/python3\n")),
            ("/usr/bin/amd-smi", File::Link("../libexec/amdsmi_cli/amdsmi_cli.py")),
            ("/usr/libexec/amdsmi_cli/copy.py", File::Link("amdsmi_cli.py")),
        ],
    );
    let core = fixture.wheel(&["gfx1151"], "rocm-sdk-core");
    let stub = &core["_rocm_sdk_core/bin/amd-smi"];
    assert!(stub.ends_with(b"../libexec/amdsmi_cli/amdsmi_cli.py\0"));
    // Python may import it.
    assert_eq!(core["_rocm_sdk_core/libexec/amdsmi_cli/copy.py"], b"#!/usr/bin/python3\n");
    assert!(
        String::from_utf8_lossy(&core["rocm_sdk_core-7.2.4.dist-info/entry_points.txt"])
            .contains("amd-smi = ")
    );
}

#[test]
fn profilers_are_commands_and_find_their_libraries_by_short_names() {
    let mut fixture = SdkFixture::new();
    fixture.rocm();
    let library = fixture.library("librocprof-sys.so.1", &["libamdhip64.so.7"]);
    fixture.rpm(
        "rocprofiler-systems",
        "7.2.4",
        &[
            ("/usr/bin/rocprof-sys-run", File::Text("#!/bin/sh\n")),
            ("/usr/lib64/librocprof-sys.so.1.7", File::Binary(library)),
            ("/usr/lib64/librocprof-sys.so.1", File::Link("librocprof-sys.so.1.7")),
            ("/usr/lib64/librocprof-sys.so", File::Link("librocprof-sys.so.1")),
        ],
    );
    let profiler = fixture.wheel(&["gfx1151"], "rocm-profiler");
    assert_eq!(
        String::from_utf8_lossy(&profiler["rocm_profiler-7.2.4.dist-info/entry_points.txt"]),
        "[console_scripts]\nrocprof-sys-run = rocm_profiler._cli:rocprof_sys_run\n"
    );
    for name in ["librocprof-sys.so", "librocprof-sys.so.1"] {
        let library = &profiler[&format!("_rocm_profiler/lib/{name}")];
        assert!(runpath(library).contains("$ORIGIN/../../_rocm_sdk_core/lib"), "{name}");
    }
    // The development files cannot link to the third name.
    let notes = fixture.notes();
    assert!(
        notes.contains(
            "1 link to files outside of rocm-sdk-devel, such as lib/librocprof-sys.so.1.7"
        ),
        "{notes}"
    );
}

#[test]
fn lists_what_the_packages_omit() {
    let mut fixture = SdkFixture::new();
    fixture.rocm().rpm("rocm-hip-debuginfo", "7.2.4", &[]);
    fixture.system_libraries = vec!["libelf.so.*".into()];
    fixture.made(&["gfx1151"]).unwrap();
    let notes = fixture.notes();
    for note in [
        "1 debug package, such as rocm-hip-debuginfo",
        "1 file for other GPU targets, such as /usr/lib64/rocblas/library/TensileLibrary_gfx90a.dat",
        "no file needs a library that these patterns of `--system-library` match: 1 in total, such as \
         libelf.so.*",
    ] {
        assert!(notes.contains(note), "{notes}");
    }
}
