//! Tests the comparison of the packages with their RPMs, and what each wheel states about these.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::io::Write as _;

use python_packaging::wheel::Proof;
use rocmrpm_base::digest::Sha256;
use serde_json::Value;

use super::{SdkFixture, members, runpath};

const CORE: &str = "rocm_sdk_core-7.2.4-py3-none-linux_x86_64.whl";
const INFO: &str = "rocm_sdk_core-7.2.4.dist-info";

fn proofs(fixture: &SdkFixture) -> BTreeMap<String, Proof> {
    let proofs = fixture.with(&["gfx1151"], crate::check).unwrap();
    proofs.into_iter().map(|proof| (proof.wheel.clone(), proof)).collect()
}

fn differences(fixture: &SdkFixture) -> Vec<String> {
    let all = proofs(fixture).into_values().flat_map(|proof| proof.differences);
    all.map(|of| format!("{}: {}", of.member.unwrap_or_default(), of.what)).collect()
}

#[test]
fn finished_packages_match_their_rpms() {
    let mut fixture = SdkFixture::new();
    fixture.rocm().made(&["gfx1151"]).unwrap();
    let proofs = proofs(&fixture);
    assert_eq!(proofs.len(), 4);
    for proof in proofs.values() {
        assert_eq!(proof.differences, [], "{}", proof.wheel);
    }
    let core = &proofs[CORE];
    assert_eq!(core.rpms, ["rocm-hip-7.2.4-1.fc43.x86_64.rpm"]);
    let changes = |member: &str| {
        let made = core.made.iter().find(|made| made.member == member);
        made.unwrap_or_else(|| panic!("{:?}", core.made)).changes.join("\n")
    };
    // What differs from the RPM's file is its search path only; a stub is not in the RPM.
    assert_eq!(changes("_rocm_sdk_core/bin/rocminfo"), "-RUNPATH \n+RUNPATH $ORIGIN/../lib");
    assert_eq!(changes("_rocm_sdk_core/bin/rocm_agent_enumerator"), "");
    assert_eq!(core.identical, 3, "the header, the license, and a library that needs no other");
}

#[test]
fn a_changed_or_missing_package_is_a_difference() {
    let mut fixture = SdkFixture::new();
    fixture.rocm().made(&["gfx1151"]).unwrap();
    let wheel = fixture.out().join(CORE);
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in members(&wheel) {
        let options = zip::write::SimpleFileOptions::default();
        let mode = if name.contains("/bin/") { 0o755 } else { 0o644 };
        archive.start_file(&name, options.unix_permissions(mode)).unwrap();
        let changed = name.ends_with("hip_runtime.h");
        archive.write_all(if changed { b"other" } else { &bytes }).unwrap();
    }
    fs_err::write(&wheel, archive.finish().unwrap().into_inner()).unwrap();
    let found = differences(&fixture);
    let header = "_rocm_sdk_core/include/hip/hip_runtime.h: it differs from the RPM's file";
    assert!(found.contains(&header.to_owned()), "{found:?}");
    assert_eq!(found.len(), 1, "{found:?}");
    fs_err::write(fixture.out().join("rocm-7.2.4.tar.gz"), "x").unwrap();
    fs_err::remove_file(&wheel).unwrap();
    fs_err::write(fixture.out().join("rocm_sdk_core-7.2.3-py3-none-linux_x86_64.whl"), "x")
        .unwrap();
    assert_eq!(
        differences(&fixture),
        [
            ": it differs from what rocmrpm makes from the RPMs",
            ": no RPM of the component makes this wheel",
            ": the wheel is missing",
        ]
    );
}

#[test]
fn states_the_rpms_and_the_files_with_other_search_paths() {
    let mut fixture = SdkFixture::new();
    fixture.rocm();
    let core = fixture.wheel(&["gfx1151"], "rocm-sdk-core");
    let json =
        |name: &str| -> Value { serde_json::from_slice(&core[&format!("{INFO}/{name}")]).unwrap() };
    let provenance = json("rocmrpm.json");
    assert_eq!(provenance["schema"], "rocmrpm/sdk-provenance/1");
    let rpm = fixture.rpms.iter().find(|rpm| rpm.ends_with("rocm-hip-7.2.4-1.fc43.x86_64.rpm"));
    let digest = Sha256::of_file(rpm.unwrap()).unwrap().0.to_string();
    let rpms = provenance["rpms"].as_array().unwrap();
    assert_eq!((rpms.len(), rpms[0]["sha256"].as_str()), (1, Some(digest.as_str())));
    let relinked = provenance["relinked"].as_array().unwrap();
    let tool = relinked.iter().find(|of| of["file"] == "/usr/bin/rocminfo").unwrap();
    assert_eq!(tool["member"], "_rocm_sdk_core/bin/rocminfo");
    assert_eq!(tool["runpath"], runpath(&core["_rocm_sdk_core/bin/rocminfo"]));
    // The digest is that of the file before.
    let original = Sha256::of_bytes(fixture.rocminfo.as_slice()).to_string();
    assert_eq!(tool["sha256"], original);
    let sbom = json("sboms/rocmrpm.cdx.json");
    assert_eq!(sbom["metadata"]["component"]["purl"], "pkg:pypi/rocm-sdk-core@7.2.4");
    assert_eq!(sbom["components"][0]["hashes"][0]["content"], digest);
    assert_eq!(sbom["components"][0]["licenses"][0]["license"]["name"], "MIT");
}
