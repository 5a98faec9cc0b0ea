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
    text + &format!("\nInstalled with `{distribution}[device-{target}]`.\n")
}
