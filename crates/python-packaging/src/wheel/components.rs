//! Reads the SBOMs that upstream put in a wheel: files below `.dist-info/sboms/` in CycloneDX JSON.
//! `sbom` writes SBOMs.
//!
//! Sources: PEP 770; `bom-1.6.schema.json` of CycloneDX; the package-url specification.

use std::io::{Read, Seek};

use serde::{Deserialize, Serialize};
use zip::ZipArchive;

use super::record;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::text::percent_decode_lossy;

/// Upper bound on the size of an SBOM or a RECORD, in bytes. hf_xet's SBOM has 400,000.
const LIMIT: u64 = 64 << 20;

/// Upper bound on components nested in components.
const MAX_DEPTH: usize = 32;

/// A component of an SBOM.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SbomComponent {
    /// The name.
    pub name: String,
    /// The version, if stated.
    pub version: Option<String>,
    /// The package URL, if stated.
    pub purl: Option<String>,
    /// The licenses: SPDX IDs, SPDX expressions, and names of other licenses.
    pub licenses: Vec<String>,
}

/// The components that the SBOMs of a wheel list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sboms {
    /// The components of all SBOMs, sorted, without duplicates.
    pub components: Vec<SbomComponent>,
    /// The paths of the SBOMs that were read.
    pub read: Vec<String>,
    /// The paths of the SBOMs in other formats.
    pub other: Vec<String>,
}

/// Reads the SBOMs of the wheel in `file`; the error describes what is wrong.
pub fn sboms_in(file: impl Read + Seek) -> Result<Sboms, String> {
    let mut archive =
        ZipArchive::new(file).map_err(|error| format!("it is not a zip archive: {error}"))?;
    let names = archive.file_names().filter_map(Result::ok).map(|name| name.into_owned());
    let mut names: Vec<String> = names.filter(|name| is_sbom(name)).collect();
    names.sort();
    let mut sboms = Sboms::default();
    for name in names {
        let bytes = member(&mut archive, &name)?;
        check_record(&mut archive, &name, &bytes)?;
        match serde_json::from_slice::<Bom>(&bytes) {
            Ok(bom) if bom.format.as_deref() == Some("CycloneDX") => {
                let mut found = Vec::new();
                gather(bom.components, 0, &mut found)
                    .map_err(|wrong| format!("{name}: {wrong}"))?;
                sboms.components.extend(found);
                sboms.read.push(name);
            }
            // Other formats have other suffixes: `.spdx.json`, `.cdx.xml`.
            Ok(_) => sboms.other.push(name),
            Err(_) if !name.ends_with(".json") => sboms.other.push(name),
            Err(error) => return Err(format!("{name} is not an SBOM: {error}")),
        }
    }
    sboms.components.sort();
    sboms.components.dedup();
    Ok(sboms)
}

fn is_sbom(name: &str) -> bool {
    let inside = name.split_once(".dist-info/sboms/");
    inside.is_some_and(|(folder, file)| {
        !folder.contains('/') && !file.is_empty() && !file.ends_with('/')
    })
}

fn member(archive: &mut ZipArchive<impl Read + Seek>, name: &str) -> Result<Vec<u8>, String> {
    let member = archive.by_name(name).map_err(|error| format!("{name}: {error}"))?;
    let mut bytes = Vec::new();
    member.take(LIMIT + 1).read_to_end(&mut bytes).map_err(|error| format!("{name}: {error}"))?;
    if bytes.len() as u64 > LIMIT {
        return Err(format!("{name} has more than {LIMIT} bytes"));
    }
    Ok(bytes)
}

/// Checks that RECORD has the digest of an SBOM.
fn check_record(
    archive: &mut ZipArchive<impl Read + Seek>,
    name: &str,
    bytes: &[u8],
) -> Result<(), String> {
    let folder = name.split_once("/sboms/").map_or("", |(folder, _)| folder);
    let path = format!("{folder}/RECORD");
    let text = member(archive, &path)?;
    let text = String::from_utf8(text).map_err(|_| format!("{path} is not UTF-8 text"))?;
    let lines = record::parse(&text).map_err(|wrong| format!("{path}: {wrong}"))?;
    let found = format!("sha256={}", record::base64(Sha256::of_bytes(bytes).as_bytes()));
    match lines.into_iter().find(|line| line.member == name) {
        None => Err(format!("{name} is not in its RECORD")),
        Some(line) if line.digest.starts_with("sha256=") && line.digest != found => {
            Err(format!("{name} differs from its RECORD: expected {}, found {found}", line.digest))
        }
        Some(_) => Ok(()),
    }
}

/// The fields of CycloneDX that rocmrpm reads.
#[derive(Deserialize)]
pub(super) struct Bom {
    #[serde(rename = "bomFormat")]
    format: Option<String>,
    #[serde(default)]
    pub(super) components: Vec<Component>,
}

#[derive(Deserialize)]
pub(super) struct Component {
    name: String,
    version: Option<String>,
    purl: Option<String>,
    #[serde(default)]
    licenses: Vec<Choice>,
    #[serde(default)]
    components: Vec<Component>,
}

#[derive(Deserialize)]
struct Choice {
    expression: Option<String>,
    license: Option<License>,
}

#[derive(Deserialize)]
struct License {
    id: Option<String>,
    name: Option<String>,
}

pub(super) fn gather(
    from: Vec<Component>,
    depth: usize,
    found: &mut Vec<SbomComponent>,
) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("its components are nested more than {MAX_DEPTH} levels deep"));
    }
    for Component { name, version, purl, licenses, components } in from {
        let text = |choice: Choice| {
            choice
                .expression
                .or_else(|| choice.license.and_then(|license| license.id.or(license.name)))
        };
        let licenses = licenses.into_iter().filter_map(text).collect();
        let version = version.filter(|version| !version.is_empty());
        found.push(SbomComponent { name, version, purl, licenses });
        gather(components, depth + 1, found)?;
    }
    Ok(())
}

/// A package URL with percent-encoding decoded.
#[derive(Debug, PartialEq, Eq)]
pub struct Purl {
    /// The type, such as `cargo`.
    pub kind: String,
    /// The namespace and the name, joined by `/`.
    pub name: String,
    /// The version, if stated.
    pub version: Option<String>,
}

impl Purl {
    /// Parses a package URL: `pkg:TYPE/NAMESPACE/NAME@VERSION?QUALIFIERS#SUBPATH`.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("pkg:")?.trim_start_matches('/');
        let rest = rest.split('#').next()?.split('?').next()?;
        let (path, version) = match rest.rsplit_once('@') {
            Some((path, version)) if !version.contains('/') => {
                (path, Some(percent_decode_lossy(version)))
            }
            _ => (rest, None),
        };
        let (kind, name) = path.split_once('/')?;
        let (kind, name) =
            (kind.to_ascii_lowercase(), percent_decode_lossy(name.trim_matches('/')));
        (!kind.is_empty() && !name.is_empty()).then_some(Self { kind, name, version })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Write};

    const BOM: &str = r#"{"bomFormat":"CycloneDX","specVersion":"1.5","metadata":{"component":{"name":"own"}},
        "components":[{"type":"library","name":"ring","version":"0.17.8","purl":"pkg:cargo/ring@0.17.8",
        "licenses":[{"license":{"id":"MIT"}},{"expression":"ISC OR MIT"}],
        "components":[{"type":"library","name":"inner","version":""}]},{"type":"file","name":"ring"}]}"#;

    fn wheel(files: &[(&str, &str)], record: Option<&str>) -> Cursor<Vec<u8>> {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let mut lines = String::new();
        for (name, text) in files {
            let name = format!("a-1.dist-info/{name}");
            lines += &record::line(&name, &Sha256::of_bytes(text), text.len() as u64);
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        }
        zip.start_file("a-1.dist-info/RECORD", zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(record.unwrap_or(&lines).as_bytes()).unwrap();
        zip.finish().unwrap()
    }

    #[test]
    fn reads_components_with_their_licenses() {
        let files = [("sboms/a.cyclonedx.json", BOM), ("sboms/b.spdx", "x"), ("METADATA", "")];
        let sboms = sboms_in(wheel(&files, None)).unwrap();
        assert_eq!(sboms.read, ["a-1.dist-info/sboms/a.cyclonedx.json"]);
        assert_eq!(sboms.other, ["a-1.dist-info/sboms/b.spdx"]);
        let names: Vec<_> =
            sboms.components.iter().map(|c| (c.name.as_str(), c.version.as_deref())).collect();
        assert_eq!(names, [("inner", None), ("ring", None), ("ring", Some("0.17.8"))]);
        assert_eq!(sboms.components[2].licenses, ["MIT", "ISC OR MIT"]);
        assert_eq!(sboms_in(wheel(&[("METADATA", "")], None)).unwrap(), Sboms::default());
    }

    #[test]
    fn rejects_sbom_that_does_not_match_record() {
        let name = "sboms/a.cyclonedx.json";
        let other = format!("a-1.dist-info/{name},sha256={},1\n", record::base64([7; 32]));
        let deep = format!(
            r#"{{"bomFormat":"CycloneDX","components":[{}]}}"#,
            r#"{"name":"x","components":["#.repeat(40) + &"]}".repeat(40)
        );
        for (text, record, wrong) in [
            (BOM, Some(""), "is not in its RECORD"),
            (BOM, Some(other.as_str()), "differs from its RECORD: expected sha256=Bwc"),
            (BOM, Some("a,b\n"), "RECORD: line 1"),
            ("{", None, "is not an SBOM"),
            (&deep, None, "nested more than 32"),
        ] {
            let error = sboms_in(wheel(&[(name, text)], record)).unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
        assert!(sboms_in(Cursor::new(b"PK".to_vec())).unwrap_err().contains("not a zip archive"));
    }

    #[test]
    fn reads_package_urls() {
        let purl = |kind: &str, name: &str, version: Option<&str>| Purl {
            kind: kind.into(),
            name: name.into(),
            version: version.map(str::to_owned),
        };
        for (text, expected) in [
            ("pkg:cargo/ring@0.17.8", Some(purl("cargo", "ring", Some("0.17.8")))),
            ("pkg:npm/%40types/node@1.0?arch=x#sub", Some(purl("npm", "@types/node", Some("1.0")))),
            ("pkg:PYPI/a", Some(purl("pypi", "a", None))),
            (
                "pkg:cargo/own@1.0+local?download_url=file://.",
                Some(purl("cargo", "own", Some("1.0+local"))),
            ),
            (
                "pkg:golang/github.com/a/b@v1.2",
                Some(purl("golang", "github.com/a/b", Some("v1.2"))),
            ),
            ("pkg:cargo", None),
            ("cargo/ring", None),
            ("pkg:cargo/", None),
        ] {
            assert_eq!(Purl::parse(text), expected, "{text}");
        }
    }
}
