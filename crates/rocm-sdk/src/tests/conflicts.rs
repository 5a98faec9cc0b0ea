//! Tests files and packages that contradict each other.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use super::{File, SdkFixture};

#[test]
fn rejects_two_libraries_with_one_soname() {
    let mut fixture = SdkFixture::new();
    fixture.rocm();
    let one = fixture.library("libhiprtc.so.7", &[]);
    let other = fixture.library("libhiprtc.so.7", &["libamdhip64.so.7"]);
    fixture.rpm(
        "hiprtc",
        "1",
        &[
            ("/usr/lib64/libhiprtc.so.7.1", File::Binary(one)),
            ("/usr/lib64/libhiprtc.so.7.2", File::Binary(other)),
        ],
    );
    assert_eq!(
        fixture.refusal(&["gfx1151"]),
        "`/usr/lib64/libhiprtc.so.7.1` and `/usr/lib64/libhiprtc.so.7.2` differ, and both are \
         `lib/libhiprtc.so.7` in the packages"
    );
    assert!(fixture.help(&["gfx1151"]).contains("`--leave-out /usr/lib64/libhiprtc.so.7.2`"));
}

#[test]
fn accepts_copies_of_a_library() {
    let mut fixture = SdkFixture::new();
    fixture.rocm();
    let library = fixture.library("libhiprtc.so.7", &[]);
    let names =
        ["/usr/lib64/libhiprtc.so.7", "/usr/lib64/libhiprtc.so.7.1", "/usr/lib/libhiprtc.so.7.1"];
    let files = names.map(|name| (name, File::Binary(library.clone())));
    fixture.rpm("hiprtc", "1", &files);
    let core = fixture.wheel(&["gfx1151"], "rocm-sdk-core");
    let found: Vec<&String> = core.keys().filter(|name| name.contains("hiprtc")).collect();
    assert_eq!(found, ["_rocm_sdk_core/lib/libhiprtc.so.7"]);
}

#[test]
fn rejects_a_file_with_the_path_of_a_folder() {
    let mut fixture = SdkFixture::new();
    fixture.rocm().rpm(
        "other",
        "1",
        &[("/usr/lib/x", File::Text("a")), ("/usr/lib64/x/y", File::Text("b"))],
    );
    let error = fixture.refusal(&["gfx1151"]);
    assert!(
        error.contains("is the file `/usr/lib/x` and a folder, for `/usr/lib64/x/y`"),
        "{error}"
    );
    let mut fixture = SdkFixture::new();
    fixture.rocm().rpm(
        "other",
        "1",
        &[("/opt/rocm/bin/a", File::Text("")), ("/usr/bin/a/b.cmake", File::Text(""))],
    );
    let error = fixture.refusal(&["gfx1151"]);
    assert!(error.contains("`_rocm_sdk_devel/bin/a` in the packages is the file"), "{error}");
}

#[test]
fn rejects_names_that_cannot_be_unpacked() {
    for soname in ["..", "libz3\n.so.4"] {
        let mut fixture = SdkFixture::new();
        fixture.rocm();
        let option = format!("-Wl,-soname,{soname}");
        let library = fixture.link(&["-shared", "-fPIC", &option], "int g(void) { return 7; }\n");
        fixture.rpm("z3", "1", &[("/usr/lib64/libz3.so.4", File::Binary(library))]);
        let error = fixture.refusal(&["gfx1151"]);
        let start = "`/usr/lib64/libz3.so.4` cannot be `_rocm_sdk_";
        assert!(error.starts_with(start) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn rejects_packages_that_require_a_missing_one() {
    let mut fixture = SdkFixture::new();
    let files = [("/usr/lib64/.kpack/blas_lib_gfx1151.kpack", File::Text("a"))];
    fixture.rpm("rocblas", "7.2.4", &files);
    let error = fixture.refusal(&["gfx1151"]);
    assert_eq!(error, "no RPM has a file for rocm-sdk-core, which rocm requires");
    let core = [("/usr/share/hip/version", File::Text("7"))];
    let error = fixture.rpm("hip", "7.2.4", &core).refusal(&["gfx1151"]);
    assert_eq!(
        error,
        "no RPM has a file for rocm-sdk-libraries, which rocm-sdk-device-gfx1151 requires"
    );
}

#[test]
fn uses_the_newest_version_of_a_release() {
    let mut fixture = SdkFixture::new();
    fixture.rocm().rpm("rocfft", "7.2.10", &[]).rpm("rocrand", "7.2.9", &[]);
    // The same target twice is one.
    assert_eq!(fixture.made(&["gfx1151", "gfx1151"]).unwrap().version, "7.2.10");
}

#[test]
fn lists_libraries_without_code_for_a_target() {
    let mut fixture = SdkFixture::new();
    let data = "/usr/lib64/hipblaslt/library/TensileLibrary_gfx90a.dat";
    fixture.rocm().rpm("hipblaslt", "7.2.4", &[(data, File::Text("a"))]);
    fixture.made(&["gfx1151"]).unwrap();
    let notes = fixture.notes();
    let expected = "no RPM has GPU code for gfx1151 of lib/hipblaslt/library, which has code for other targets";
    assert!(notes.contains(expected), "{notes}");
}

#[test]
fn rejects_rpms_of_two_releases() {
    let mut fixture = SdkFixture::new();
    fixture.rocm().rpm("rocfft", "7.1.0", &[]);
    let error = fixture.refusal(&["gfx1151"]);
    assert!(error.contains("is of ROCm 7.1.0, but"), "{error}");
}

#[test]
fn rejects_targets_without_gpu_code() {
    let mut fixture = SdkFixture::new();
    let error = fixture.rocm().refusal(&["gfx1201"]);
    assert_eq!(error, "no RPM has GPU code for gfx1201; found: gfx1151, gfx90a");
    let error = fixture.refusal(&["gfx1151", "gfx90a"]);
    assert!(error.contains("for one target or family, not for 2"), "{error}");
}

#[test]
fn rejects_two_files_with_one_path() {
    let mut fixture = SdkFixture::new();
    fixture.rocm().rpm(
        "other",
        "1",
        &[("/usr/lib/cmake/hip/hip-config.cmake", File::Text("# other\n"))],
    );
    let error = fixture.refusal(&["gfx1151"]);
    assert!(
        error.ends_with("and both are `lib/cmake/hip/hip-config.cmake` in the packages"),
        "{error}"
    );
}

#[test]
fn rejects_links_out_of_the_tree() {
    for (path, to) in [("/usr/lib64/a", "/srv/a"), ("/usr/bin/b", "../../../../b")] {
        let mut fixture = SdkFixture::new();
        fixture.rocm().rpm("other", "1", &[(path, File::Link(to))]);
        let error = fixture.refusal(&["gfx1151"]);
        assert_eq!(error, format!("`{path}` links to `{to}`, which is outside of ROCm's folders"));
    }
}

#[test]
fn rejects_libraries_that_no_package_has() {
    let mut fixture = SdkFixture::new();
    fixture.rocm();
    fixture.library("libfar.so.1", &[]);
    let near = fixture.library("libhiprtc.so.7", &["libfar.so.1"]);
    fixture.rpm("hiprtc", "1", &[("/usr/lib64/libhiprtc.so.7", File::Binary(near))]);
    let error = fixture.refusal(&["gfx1151"]);
    assert!(error.ends_with("libfar.so.1 (for lib/libhiprtc.so.7 of _rocm_sdk_core)"), "{error}");
}
