//! Plans the wheels with the GPU code of one target. They belong to the wheel with the library.

use std::collections::{BTreeMap, BTreeSet};

use super::archive::Member;
use super::device::Device;
use super::header;
use super::metadata::{self, Metadata};
use super::payload::{Payload, Spool};
use super::plan::{Gathering, Plan, origin_files, rewrite};
use super::provenance;
use super::{Request, WheelError, required_by, rocm_sdk};

/// Plans the wheel that belongs to `main`.
pub(super) fn plan(
    device: &Device,
    payload: &Payload,
    main: &Plan,
    request: Request<'_>,
    spool: &Spool,
) -> Result<Plan, WheelError> {
    let wrong = |reason: String| WheelError::package(payload.rpm(), reason);
    let text = text_of(device, main);
    let metadata = Metadata::parse(&text).map_err(wrong)?;
    let stem = format!("{}-{}", metadata.normalized.replace('-', "_"), metadata.version);
    let mut gathering = Gathering::new(payload, spool, &main.dist_info, &stem, request.python);
    gathering.run()?;
    let mut members = gathering.members;
    let mut required = required_by(&payload.rpms, request.pins)?;
    required.remove(&metadata.normalized);
    let text = rewrite(&text, &required, &request, &stem).map_err(wrong)?;
    let dist_info = format!("{stem}.dist-info");
    // The root must be that of the wheel with the library: Fedora's Python has two.
    let pure = main.tags.iter().all(|tag| tag.ends_with("-any"));
    let wheel = metadata::wheel_file(pure, &main.tags);
    let made = [("METADATA", text.clone()), ("WHEEL", wheel)];
    let origin = origin_files(payload, &metadata, &text, &request, (&BTreeMap::new(), &[]))?;
    for (name, text) in made.into_iter().chain(origin) {
        members.insert(format!("{dist_info}/{name}"), Member::text(text));
    }
    Ok(Plan {
        file_name: format!("{stem}-{}.whl", main.compressed_tags),
        compressed_tags: main.compressed_tags.clone(),
        dist_info,
        members,
        distribution: metadata.name,
        version: metadata.version.to_string(),
        tags: main.tags.clone(),
        requires_python: metadata.requires_python,
        metadata: text,
        sdk: None,
        rpms: payload.rpms.iter().map(|rpm| provenance::file_name(rpm)).collect(),
        replaced: BTreeMap::new(),
        relinked: BTreeMap::new(),
        bundled: BTreeMap::new(),
        preloads: BTreeSet::new(),
    })
}

/// Returns METADATA without the requirements of the RPM.
fn text_of(device: &Device, main: &Plan) -> String {
    let Plan { distribution, version, .. } = main;
    let kept = |name: &str| {
        let field = header::fields(&main.metadata).find(|field| field.is(name));
        field.map(|field| format!("{name}: {}\n", field.one_line())).unwrap_or_default()
    };
    let target = &device.target;
    let mut text = kept("Metadata-Version");
    text += &format!("Name: {}\nVersion: {version}\n", device.distribution(distribution));
    text += &format!("Summary: GPU code of {distribution} for {target}\n");
    text += &["License", "License-Expression", "Requires-Python"].map(kept).concat();
    text += &format!("Requires-Dist: {distribution}=={version}\n");
    let sdk = main.sdk.as_deref().and_then(|sdk| rocm_sdk::for_device(sdk, target));
    text += &sdk.map(|sdk| format!("Requires-Dist: {sdk}\n")).unwrap_or_default();
    text += "Description-Content-Type: text/markdown\n";
    text + &format!("\nInstalled with `{distribution}[device-{target}]`.\n")
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::super::{LocalLabel, Pins, Rocm, Wheel, build, distributions};
    use super::*;
    use rocmrpm_base::events::Silent;

    const MODULES: &str = "/usr/lib64/python3.14/site-packages";

    /// Writes an RPM with these files, provides and requirements.
    fn package(
        dir: &Path,
        name: &str,
        files: &[&str],
        (provides, requires): (&[&str], &[&str]),
    ) -> PathBuf {
        let mut builder = rpm::PackageBuilder::new(name, "1.0", "MIT", "x86_64", "a fixture");
        for file in files {
            let project = file.split('-').next().unwrap();
            let text = format!("Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n");
            let options = rpm::FileOptions::new(format!("{MODULES}/{file}"));
            builder.with_file_contents(text, options).unwrap();
        }
        for name in provides {
            builder.provides(rpm::Dependency::any(*name));
        }
        for name in requires {
            builder.requires(rpm::Dependency::any(*name));
        }
        let path = dir.join(format!("{name}-1.0-1.x86_64.rpm"));
        builder.build().unwrap().write_file(&path).unwrap();
        path
    }

    #[test]
    fn wheels_of_a_target_belong_to_the_wheel_with_the_library() {
        let dir = tempfile::tempdir().unwrap();
        let package = |name: &str, files: &[&str], provides: &[&str], requires: &[&str]| {
            package(dir.path(), name, files, (provides, requires))
        };
        let code = ["rocm-gfx(gfx1201)"];
        let gfx = ["base-gfx"];
        let base = [
            package("base", &["base-1.0.dist-info/METADATA"], &[], &gfx),
            package("other", &["other-1.0.dist-info/METADATA"], &[], &[]),
            package("base-gfx1201", &[], &gfx, &["base-device-gfx1201(x86-64)"]),
            package("base-device-gfx1201", &["base/.kpack/b_gfx1201.kpack"], &code, &["base"]),
            package("base-gfx1100", &[], &gfx, &["base-device-gfx1100"]),
            package(
                "base-device-gfx1100",
                &["base/.kpack/b_gfx1100.kpack"],
                &["rocm-gfx(gfx1100)"],
                &["base"],
            ),
            package("base-gfx-all", &[], &gfx, &["base-device-gfx1100", "base-device-gfx1201"]),
        ];
        let app = [
            package("app", &["app-1.0.dist-info/METADATA"], &[], &["base"]),
            // The choice of a target.
            package(
                "app-gfx1201",
                &["app/.kpack/a_gfx1201.kpack"],
                &code,
                &["app", "base-gfx1201"],
            ),
        ];
        let label = LocalLabel::new("7.14", &[]).unwrap();
        let mut pins = Pins::new();
        for rpms in [&base[..], &app] {
            pins.extend(distributions(rpms, &label, &[]).unwrap());
        }
        let wheels = |rpms: &[PathBuf]| -> Vec<Wheel> {
            let request = Request {
                rpms,
                label: &label,
                source_date_epoch: 0,
                out_dir: &dir.path().join("out"),
                python: None,
                pins: &pins,
                rocm: &Rocm::System,
                leave_out: &[],
                not_required: &[],
                origin: None,
                events: &Silent,
            };
            build(request).unwrap()
        };
        let requirements = |wheels: Vec<Wheel>| -> Vec<(String, Vec<String>)> {
            let of = |wheel: Wheel| {
                let lines = wheel.metadata.lines();
                let lines = lines.filter_map(|line| line.strip_prefix("Requires-Dist: "));
                (wheel.distribution, lines.map(str::to_owned).collect())
            };
            wheels.into_iter().map(of).collect()
        };
        let version = "1.0+rocm7.14";
        let extra = |name: &str, target: &str, extra: &str| {
            format!("{name}-device-{target}=={version}; extra == \"device-{extra}\"")
        };
        let expected = |name: &str, own: &[String]| (name.to_owned(), own.to_vec());
        assert_eq!(
            requirements(wheels(&base)),
            [
                expected(
                    "base",
                    &[
                        extra("base", "gfx1100", "gfx1100"),
                        extra("base", "gfx1201", "gfx1201"),
                        extra("base", "gfx1100", "all"),
                        extra("base", "gfx1201", "all"),
                    ]
                ),
                expected("base-device-gfx1100", &[format!("base=={version}")]),
                expected("base-device-gfx1201", &[format!("base=={version}")]),
                expected("other", &[]),
            ]
        );
        assert_eq!(
            requirements(wheels(&app)),
            [
                expected(
                    "app",
                    &[
                        format!("base=={version}"),
                        extra("app", "gfx1201", "gfx1201"),
                        extra("app", "gfx1201", "all"),
                    ]
                ),
                expected(
                    "app-device-gfx1201",
                    &[format!("app=={version}"), format!("base-device-gfx1201=={version}"),]
                ),
            ]
        );
    }
}
