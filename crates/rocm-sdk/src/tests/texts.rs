//! Tests license texts and the license fields of METADATA.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use super::{File, SdkFixture};

#[test]
fn every_wheel_has_all_license_texts() {
    let mut fixture = SdkFixture::new();
    let long = "x".repeat((1 << 20) + 1);
    let latin = vec![0xa9, b'\n'];
    fixture.rocm().rpm(
        "hiprand",
        "7.2.4",
        &[
            ("/usr/share/licenses/hiprand/LONG", File::Text(&long)),
            ("/usr/share/licenses/hiprand/LATIN", File::Binary(latin.clone())),
            ("/usr/share/licenses/hiprand/LINKED", File::Link("../../doc/hiprand/README")),
            ("/usr/share/doc/hiprand/README", File::Text("MIT too\n")),
            ("/opt/rocm-7.2.4/share/doc/hiprand/LICENSE.md", File::Text("MIT\n")),
        ],
    );
    let core = fixture.wheel(&["gfx1151"], "rocm-sdk-core");
    let text = |name: &str| &core[&format!("rocm_sdk_core-7.2.4.dist-info/{name}")];
    assert_eq!(text("licenses/hiprand/LONG").len(), long.len());
    assert_eq!(*text("licenses/hiprand/LATIN"), latin);
    assert_eq!(text("licenses/hiprand/LINKED"), b"MIT too\n");
    assert_eq!(text("licenses/opt/rocm-7.2.4/share/doc/hiprand/LICENSE.md"), b"MIT\n");
    let metadata = String::from_utf8_lossy(text("METADATA"));
    let fields: Vec<&str> = metadata.lines().filter(|line| line.contains("icense")).collect();
    assert_eq!(
        fields,
        [
            "License-Expression: MIT",
            "License-File: hiprand/LATIN",
            "License-File: hiprand/LINKED",
            "License-File: hiprand/LONG",
            "License-File: opt/rocm-7.2.4/share/doc/hiprand/LICENSE.md",
            "License-File: rocm-hip/LICENSE",
        ]
    );
}

#[test]
fn rejects_links_to_missing_license_texts() {
    let mut fixture = SdkFixture::new();
    let link = ("/usr/share/licenses/hiprand/LICENSE", File::Link("../rocrand/LICENSE"));
    let error = fixture.rocm().rpm("hiprand", "7.2.4", &[link]).refusal(&["gfx1151"]);
    assert_eq!(
        error,
        "the license text `/usr/share/licenses/hiprand/LICENSE` is a link to `../rocrand/LICENSE`, which no RPM \
         has"
    );
}

#[test]
fn lists_licenses_that_are_not_spdx_expressions() {
    let mut fixture = SdkFixture::new();
    fixture.rocm().license = "MIT and others";
    let library = fixture.library("libhiprtc.so.7", &[]);
    fixture.rpm("hiprtc", "7.2.4", &[("/usr/lib64/libhiprtc.so.7", File::Binary(library))]);
    let core = fixture.wheel(&["gfx1151"], "rocm-sdk-core");
    let metadata = String::from_utf8_lossy(&core["rocm_sdk_core-7.2.4.dist-info/METADATA"]);
    assert!(!metadata.contains("License-Expression"), "{metadata}");
    assert!(metadata.contains("License-File: rocm-hip/LICENSE\n"), "{metadata}");
    let notes = fixture.notes();
    assert!(notes.contains("such as `MIT and others` of hiprtc"), "{notes}");
    // The RPMs of the other packages have SPDX expressions.
    let libraries = fixture.wheel(&["gfx1151"], "rocm-sdk-libraries-gfx1151");
    let metadata = &libraries["rocm_sdk_libraries_gfx1151-7.2.4.dist-info/METADATA"];
    assert!(String::from_utf8_lossy(metadata).contains("License-Expression: MIT\n"));
}
