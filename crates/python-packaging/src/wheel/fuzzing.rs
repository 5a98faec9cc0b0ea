//! Fuzzing entry points; see `rocmrpm_base::fuzzing`.

use std::str::FromStr;

use super::components::{Bom, Purl, gather};
use super::metadata::{Metadata, commands, wheel_tags};
use super::name::{FileName, of_dist_info};
use super::{Pins, header, markers, record, requirements};
use rocmrpm_base::fuzzing::{Parser, text};

/// The parsers of text files in wheels.
pub const PARSERS: &[Parser] = &[
    metadata,
    required,
    rewritten,
    wheel_file,
    entry_points,
    record,
    file_name,
    package_url,
    sbom,
];

fn metadata(bytes: &[u8]) -> bool {
    let text = text(bytes);
    for field in header::fields(&text) {
        assert_eq!(&text[field.at.clone()], field.value);
        assert!(field.lines.start <= field.at.start && field.at.end <= field.lines.end);
    }
    let Ok(metadata) = Metadata::parse(&text) else { return false };
    let changed = metadata.with_version(&text, |version| format!("{version}+rocm7.2"));
    let changed = Metadata::parse(&changed);
    // A version with a local label does not get a second one.
    assert!(
        changed.is_ok_and(|changed| changed.normalized == metadata.normalized)
            || text.contains('+')
    );
    true
}

fn required(bytes: &[u8]) -> bool {
    let text = text(bytes);
    let Ok(requirements) = requirements::requirements(&text) else { return false };
    let environment = markers((3, 14), "x86_64").expect("the environment is valid");
    for requirement in &requirements {
        let _ = requirement.evaluate_markers(&environment, &[]);
    }
    requirements::required_names(&text).is_ok()
}

fn rewritten(bytes: &[u8]) -> bool {
    let version = pep440_rs::Version::from_str("2.9.1+rocm7.2").expect("the version is valid");
    let pins: Pins = [("torch".to_owned(), version)].into_iter().collect();
    let environment = markers((3, 14), "x86_64");
    let extra = ["amdsmi>=7".to_owned()];
    requirements::rewrite(&text(bytes), &pins, &extra, environment.as_ref()).is_ok()
}

fn wheel_file(bytes: &[u8]) -> bool {
    !wheel_tags(&text(bytes)).is_empty()
}

fn entry_points(bytes: &[u8]) -> bool {
    !commands(&text(bytes)).is_empty()
}

fn record(bytes: &[u8]) -> bool {
    record::parse(&text(bytes)).is_ok()
}

fn file_name(bytes: &[u8]) -> bool {
    let text = text(bytes);
    of_dist_info(&text);
    FileName::parse(&text).is_ok()
}

fn package_url(bytes: &[u8]) -> bool {
    Purl::parse(&text(bytes)).is_some()
}

fn sbom(bytes: &[u8]) -> bool {
    let Ok(bom) = serde_json::from_slice::<Bom>(bytes) else { return false };
    gather(bom.components, 0, &mut Vec::new()).is_ok()
}
