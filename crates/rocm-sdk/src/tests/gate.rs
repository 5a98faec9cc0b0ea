//! Tests the inspection of the finished packages.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use rocm_inspect::testing::{HostElf, Kpack, bundle, code_object};
use rocmrpm_base::error::Diagnose;

use super::{File, SdkFixture};

const KPACK: &str = "/usr/lib64/.kpack/fft_lib_gfx1151.kpack";

/// Adds a library whose code is in an archive.
fn split(fixture: &mut SdkFixture, more: &[(&str, Vec<u8>)]) {
    let host = HostElf::new().soname("libhipfft.so.0").tables();
    let host = host.kpack_of("hipfft", &[".kpack/fft_lib_@GFXARCH@.kpack"], 1).build();
    let mut files = vec![("/usr/lib64/libhipfft.so.0", File::Binary(host))];
    files.extend(more.iter().map(|(path, bytes)| (*path, File::Binary(bytes.clone()))));
    fixture.rocm().rpm("hipfft", "7.2.4", &files);
}

fn archive(target: &str) -> Vec<u8> {
    let code = code_object(target, 64);
    Kpack::new("fft_lib", &[target]).kernel("hipfft#0", target, &code).build()
}

fn fatbin(target: &str) -> Vec<u8> {
    let code = code_object(target, 64);
    let id = format!("hipv4-amdgcn-amd-amdhsa--{target}");
    let bundle = bundle(&[("host-x86_64-unknown-linux-gnu-", b""), (&id, &code)]);
    HostElf::new().soname("librccl.so.1").tables().fatbin(&bundle).build()
}

fn findings(fixture: &SdkFixture, targets: &[&str]) -> String {
    let error = fixture.made(targets).unwrap_err();
    assert_eq!(error.to_string(), "the packages do not run on the promised GPU targets");
    assert!(!fixture.out().exists());
    error.diagnosis().details.join("\n")
}

#[test]
fn accepts_libraries_that_find_their_archives() {
    let mut fixture = SdkFixture::new();
    split(&mut fixture, &[(KPACK, archive("gfx1151"))]);
    assert!(fixture.made(&["gfx1151"]).unwrap().split);
}

#[test]
fn rejects_references_to_missing_archives() {
    let mut fixture = SdkFixture::new();
    split(&mut fixture, &[("/usr/lib64/.kpack/other_lib_gfx1151.kpack", archive("gfx1151"))]);
    let found = findings(&fixture, &["gfx1151"]);
    assert!(
        found.contains("libhipfft.so.0: found a reference to missing kpack archives"),
        "{found}"
    );
    assert!(found.contains("fft_lib_gfx1151.kpack"), "{found}");
}

#[test]
fn rejects_archives_without_code_for_the_target() {
    let mut fixture = SdkFixture::new();
    split(&mut fixture, &[(KPACK, archive("gfx90a"))]);
    let found = findings(&fixture, &["gfx1151"]);
    assert!(found.contains("no code for gfx1151"), "{found}");
}

#[test]
fn rejects_code_in_libraries_for_all_targets() {
    let mut fixture = SdkFixture::new();
    let more = [(KPACK, archive("gfx1151")), ("/usr/lib64/librccl.so.1", fatbin("gfx1151"))];
    split(&mut fixture, &more);
    assert_eq!(
        findings(&fixture, &["gfx1151"]),
        "_rocm_sdk_libraries/lib/librccl.so.1: found GPU code for gfx1151, expected it in a kpack archive"
    );
}

#[test]
fn rejects_libraries_with_code_for_another_target() {
    let mut fixture = SdkFixture::new();
    fixture.rocm().rpm(
        "rccl",
        "7.2.4",
        &[("/usr/lib64/librccl.so.1", File::Binary(fatbin("gfx90a")))],
    );
    let found = findings(&fixture, &["gfx1151"]);
    assert!(
        found.contains("GPU code for gfx90a") && found.contains("expected GPU code for gfx1151"),
        "{found}"
    );
}
