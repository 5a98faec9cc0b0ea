//! Converts upstream's wheels to RPMs and back: the result must match upstream's wheel, with a tag
//! that fits the files.

use std::collections::BTreeMap;
use std::path::Path;

use rocmrpm::error::Diagnose;
use rocmrpm::wheel::{Rocm, SdkOptions, Wheel, WheelError};

use super::fetch;
use super::fixtures::{Package, build_for, members};
use super::tools::assert_accepted;

/// The folder for the Python of the wheels in requirements.txt.
const SITE: &str = "/usr/lib64/python3.12/site-packages";

/// Returns a wheel's members without those that an installer generates, and without libraries for
/// other vendors' GPUs, which are most of it and irrelevant here.
fn installed(wheel: &Path) -> BTreeMap<String, Vec<u8>> {
    let left_out = ["_cuda1", "_xpu2", ".dist-info/RECORD"];
    let kept = |name: &str| !left_out.iter().any(|part| name.contains(part));
    members(wheel).into_iter().filter(|(name, _)| kept(name)).collect()
}

/// Packs a downloaded wheel into an RPM and builds a wheel from that.
fn again(original: &Path, rocm: &Rocm, dir: &Path) -> Result<Wheel, WheelError> {
    let mut package = Package::new("python3-real", "x86_64").uncompressed();
    for (name, content) in installed(original) {
        let path = format!("{SITE}/{name}");
        package = match name.rsplit_once('/').is_some_and(|(_, file)| file.contains(".so")) {
            true => package.program(&path, content),
            false => package.file(&path, content),
        };
    }
    let rpm = package.write(dir);
    let wheels = build_for(rocm, &[rpm], &dir.join("out"))?;
    assert_eq!(wheels.len(), 1);
    Ok(wheels.into_iter().next().unwrap())
}

#[test]
fn real_wheels_round_trip_through_rpms() {
    let original = fetch::wheel("bitsandbytes");
    let dir = tempfile::tempdir().unwrap();
    let wheel = again(&original, &Rocm::System, dir.path()).unwrap();

    let (theirs, mut ours) = (installed(&original), installed(&wheel.path));
    let version = "0.50.2+rocm7.14.gfx1151";
    let mut expected: BTreeMap<String, Vec<u8>> = theirs
        .into_iter()
        .map(|(name, content)| {
            (name.replace("-0.50.2.dist-info/", &format!("-{version}.dist-info/")), content)
        })
        .collect();
    let described = format!("bitsandbytes-{version}.dist-info/METADATA");
    let metadata = String::from_utf8(expected.remove(&described).unwrap()).unwrap();
    let metadata = metadata.replace("\nVersion: 0.50.2\n", &format!("\nVersion: {version}\n"));
    similar_asserts::assert_eq!(
        String::from_utf8(ours.remove(&described).unwrap()).unwrap(),
        metadata
    );
    let tagged = format!("bitsandbytes-{version}.dist-info/WHEEL");
    expected.remove(&tagged).unwrap();
    let text = String::from_utf8(ours.remove(&tagged).unwrap()).unwrap();
    assert!(text.contains("Root-Is-Purelib: false\nTag: py3-none-linux_x86_64\n"), "{text}");
    let names = |members: &BTreeMap<String, Vec<u8>>| members.keys().cloned().collect::<Vec<_>>();
    similar_asserts::assert_eq!(names(&ours), names(&expected));
    for (name, content) in &expected {
        assert!(ours[name] == *content, "{name} has different content");
    }

    // Upstream tags it manylinux_2_24 although it needs external ROCm libraries.
    assert_eq!(wheel.tags, ["py3-none-linux_x86_64"]);
    assert_eq!(assert_accepted(&wheel.path).as_deref(), Some("linux_x86_64"));
}

/// JAX's modules search every known location of ROCm: `$ORIGIN/../rocm/lib`, AMD's wheels under 17
/// names, `/opt/rocm/lib`. No mode can support all of them.
#[test]
fn rejects_real_files_that_no_mode_supports() {
    let original = fetch::wheel("jax-rocm7-plugin");
    let sdk = Rocm::Sdk {
        version: "7.14".into(),
        preloaded: BTreeMap::new(),
        options: SdkOptions::default(),
    };
    for (rocm, reason) in [
        (
            Rocm::System,
            "its RUNPATH `$ORIGIN/../_rocm_sdk_core/lib` leads to AMD's rocm-sdk wheels",
        ),
        (sdk, "its RUNPATH `$ORIGIN/../rocm/lib` leads to a folder that is in neither this wheel"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let error = again(&original, &rocm, dir.path()).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("/jax_rocm7_plugin/_hybrid.so: ") && message.contains(reason),
            "{message}"
        );
        assert!(
            error.help().iter().any(|help| help.contains("chrpath --delete")),
            "{:?}",
            error.help()
        );
        assert_eq!(fs_err::read_dir(dir.path().join("out")).unwrap().count(), 0);
    }
}
