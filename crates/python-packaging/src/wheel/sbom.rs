//! Writes the SBOM in a wheel's dist-info: CycloneDX 1.6 in the folder that PEP 770 reserves. It
//! lists what the wheel was made from, as far as the build and the RPMs show. The same wheel has
//! the same SBOM, so there is no serial number.
//!
//! Sources: PEP 770, "Reserving `.dist-info/sboms` directory"; the schema
//! `bom-1.6.schema.json` of CycloneDX; the package-url specification with its types
//! pypi, rpm, npm, cargo, golang and generic.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::RocmWheel;
use super::header;
use super::metadata::Metadata;
use super::provenance::Source;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::text::{AsciiSet, PATH, SEGMENT, percent_encode};

/// The path below the dist-info folder.
pub(super) const NAME: &str = "sboms/rocmrpm.cdx.json";

/// Returns the text of the SBOM. `metadata` was parsed from `text`. The files of the wheel are from
/// RPMs and from packages of ROCm. `sources` are name, digest, and
/// size of the sources and patches.
pub(super) fn text(
    metadata: &Metadata,
    text: &str,
    (rpms, rocm): (&[Source], &[RocmWheel]),
    sources: &[(String, Sha256, u64)],
    source_date_epoch: i64,
) -> String {
    let version = metadata.version.to_string();
    let purl = package_url("pypi", &metadata.normalized, Some(&version));
    let mut main = json!({
        "type": "library",
        "bom-ref": purl,
        "name": metadata.name,
        "version": version,
        "purl": purl,
    });
    if let Some(license) = license(text) {
        main["licenses"] = json!([license]);
    }

    let mut components = BTreeMap::new();
    let mut dependencies = BTreeMap::new();
    let mut files = BTreeSet::new();
    for (at, (name, sha256, _)) in sources.iter().enumerate() {
        let role = if at == 0 { "source" } else { "patch" };
        let reference = format!("{role}:{name}");
        let mut component = file(&reference, name, sha256);
        component["properties"] = json!([{"name": "rocmrpm:role", "value": role}]);
        files.insert(reference.clone());
        components.insert(reference, component);
    }
    let mut packages = BTreeSet::new();
    for rpm in rpms {
        let (reference, component) = package(rpm);
        let mut parts = files.clone();
        for (name, version) in &rpm.header.bundled {
            let (reference, component) = bundled(name, version.as_deref());
            parts.insert(reference.clone());
            components.insert(reference, component);
        }
        dependencies.insert(reference.clone(), parts);
        packages.insert(reference.clone());
        components.insert(reference, component);
    }
    for wheel in rocm {
        let reference = package_url("pypi", &wheel.distribution, Some(&wheel.version));
        let component = json!({
            "type": "library",
            "bom-ref": reference,
            "name": wheel.distribution,
            "version": wheel.version,
            "purl": reference,
            "hashes": hashes(&wheel.sha256),
            "properties": [{"name": "rocmrpm:file", "value": wheel.file}],
        });
        packages.insert(reference.clone());
        components.insert(reference, component);
    }
    dependencies.insert(purl, packages);

    let dependencies: Vec<Value> = dependencies
        .into_iter()
        .map(|(reference, on)| json!({"ref": reference, "dependsOn": on}))
        .collect();
    let document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": timestamp(source_date_epoch),
            "tools": {"components": [
                {"type": "application", "name": "rocmrpm", "version": env!("CARGO_PKG_VERSION")},
            ]},
            "component": main,
        },
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies,
    });
    format!("{document:#}\n")
}

fn timestamp(seconds: i64) -> String {
    let timestamp = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    timestamp.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn file(reference: &str, name: &str, sha256: &Sha256) -> Value {
    json!({"type": "file", "bom-ref": reference, "name": name, "hashes": hashes(sha256)})
}

fn hashes(sha256: &Sha256) -> Value {
    json!([{"alg": "SHA-256", "content": sha256}])
}

fn package(rpm: &Source) -> (String, Value) {
    let header = &rpm.header;
    let version = format!("{}-{}", header.version, header.release);
    let mut purl =
        package_url("rpm", &header.name, Some(&version)) + "?arch=" + &encoded(&header.arch);
    let mut full = version;
    if header.epoch > 0 {
        purl += &format!("&epoch={}", header.epoch);
        full = format!("{}:{full}", header.epoch);
    }
    let mut component = json!({
        "type": "library",
        "bom-ref": purl,
        "name": header.name,
        "version": full,
        "purl": purl,
        "hashes": hashes(&rpm.sha256),
        "properties": [
            {"name": "rocmrpm:file", "value": rpm.file},
            {"name": "rocmrpm:nevra", "value": header.nevra()},
        ],
    });
    if !header.license.is_empty() {
        component["licenses"] = json!([{"license": {"name": header.license}}]);
    }
    (purl, component)
}

/// Returns the component for a bundled library. Fedora writes the ecosystem into the name, as in
/// `bundled(npm(left-pad))` (Packaging Guidelines, "Bundling and Duplication of system libraries").
fn bundled(name: &str, version: Option<&str>) -> (String, Value) {
    let inner = name.split_once('(').and_then(|(kind, rest)| Some((kind, rest.strip_suffix(')')?)));
    let (kind, plain) = match inner {
        Some(("npm" | "nodejs", plain)) => ("npm", plain),
        Some(("crate", plain)) => ("cargo", plain),
        Some(("golang", plain)) => ("golang", plain),
        Some((python, plain)) if python.starts_with("python") && python.ends_with("dist") => {
            ("pypi", plain)
        }
        _ => ("generic", name),
    };
    let normal =
        super::normalized(plain).filter(|_| kind == "pypi").unwrap_or_else(|| plain.to_owned());
    let purl = package_url(kind, &normal, version);
    let mut component = json!({"type": "library", "bom-ref": purl, "name": plain, "purl": purl});
    if let Some(version) = version {
        component["version"] = json!(version);
    }
    (purl, component)
}

fn package_url(kind: &str, name: &str, version: Option<&str>) -> String {
    // In types with a namespace, a slash separates it from the name.
    let namespaced = matches!(kind, "npm" | "golang");
    let name = percent_encode(name, if namespaced { PATH } else { SEGMENT });
    let version = version.map(|version| format!("@{}", encoded(version))).unwrap_or_default();
    format!("pkg:{kind}/{name}{version}")
}

fn encoded(text: &str) -> String {
    const VERSION: &AsciiSet = &SEGMENT.remove(b':');
    percent_encode(text, VERSION)
}

/// Returns the license in METADATA: `License-Expression`, else `License`, which may be a whole text
/// (core metadata specification).
fn license(text: &str) -> Option<Value> {
    if let Some(expression) = field(text, "License-Expression") {
        return Some(json!({"expression": expression}));
    }
    let stated = field(text, "License").filter(|stated| *stated != "UNKNOWN")?;
    let name = stated.lines().map(str::trim).find(|line| !line.is_empty())?;
    let mut license = json!({"name": name});
    if name != stated {
        license["text"] = json!({"content": stated});
    }
    Some(json!({"license": license}))
}

/// Returns the value of a header field, with the spaces around each line removed.
fn field(text: &str, name: &str) -> Option<String> {
    let field = header::fields(text).find(|field| field.is(name))?;
    let lines: Vec<&str> = field.value.lines().map(str::trim).collect();
    (!field.value.is_empty()).then(|| lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stated_licenses() {
        for (text, expected) in [
            (
                "License-Expression: MIT OR Apache-2.0\nLicense: x\n",
                Some(json!({"expression": "MIT OR Apache-2.0"})),
            ),
            ("License: BSD\n", Some(json!({"license": {"name": "BSD"}}))),
            (
                "License: The licence\n  may be copied\nName: x\n",
                Some(
                    json!({"license": {"name": "The licence", "text": {"content": "The licence\nmay be copied"}}}),
                ),
            ),
            ("License: UNKNOWN\n", None),
            ("License:\n", None),
            ("Name: a\n\nLicense: in the text\n", None),
        ] {
            assert_eq!(license(text), expected, "{text:?}");
        }
    }

    #[test]
    fn bundled_libraries_have_ecosystem_urls() {
        for (name, version, expected) in [
            ("zlib", Some("1.3"), "pkg:generic/zlib@1.3"),
            ("python3dist(Foo_Bar)", Some("2"), "pkg:pypi/foo-bar@2"),
            ("npm(@types/node)", None, "pkg:npm/%40types/node"),
            ("crate(serde)", Some("1.0"), "pkg:cargo/serde@1.0"),
            ("golang(github.com/a/b)", None, "pkg:golang/github.com/a/b"),
            ("odd(thing)", None, "pkg:generic/odd%28thing%29"),
        ] {
            assert_eq!(bundled(name, version).0, expected);
        }
    }

    #[test]
    fn encodes_local_versions() {
        assert_eq!(package_url("pypi", "a", Some("1.0+rocm7.14")), "pkg:pypi/a@1.0%2Brocm7.14");
    }
}
