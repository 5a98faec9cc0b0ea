//! Parses SBOMs in wheels, which are untrusted: CycloneDX and SPDX 2, as JSON. What a package
//! states is decided in `generate`.
//!
//! Sources: PEP 770; CycloneDX 1.4 to 1.7, "components", "licenses"; SPDX 2.3, "Package
//! information"; the package URL specification.

use serde_json::Value;

use super::bundled::is_plain;
use crate::license;
use crate::sources::normalized;
use crate::text::visible;

/// The maximum number of components in one SBOM.
const MAX_COMPONENTS: usize = 20_000;
/// The maximum depth of nested components.
const MAX_DEPTH: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sbom {
    /// Whether it lists only libraries that a repair tool copied into the wheel.
    pub of_copies: bool,
    /// What it describes.
    pub subject: Option<Component>,
    /// The components of the subject.
    pub components: Vec<Component>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Component {
    /// The kind of its package URL, such as `cargo`; empty if it has none.
    pub kind: String,
    pub name: String,
    pub version: Option<String>,
    /// Its license, as an SPDX expression if the SBOM states one.
    pub license: Option<String>,
    /// Whether it is part of the subject's own sources.
    pub own: bool,
}

impl Component {
    /// Returns the component in rpm's syntax: `bundled(crate(ring)) = 0.17.14`.
    pub fn provides(&self) -> Result<String, String> {
        let name = match self.kind.as_str() {
            "cargo" => format!("crate({})", self.name),
            "pypi" => format!("python3dist({})", normalized(&self.name)),
            kind @ ("npm" | "golang") => format!("{kind}({})", self.name),
            _ => self.name.clone(),
        };
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._+-/@".contains(&b);
        if self.name.is_empty() || !self.name.bytes().all(plain) {
            return Err(format!("`{}` cannot be the name of a component", visible(&self.name)));
        }
        match self.version.as_deref() {
            None => Ok(format!("bundled({name})")),
            Some(version) if is_plain(version) => {
                Ok(format!("bundled({name}) = {}", rpm_version(version)))
            }
            Some(version) => Err(format!(
                "`{}` cannot be the version of {}",
                visible(version),
                visible(&self.name)
            )),
        }
    }

    /// Returns whether it is a package of an operating system.
    pub fn is_system(&self) -> bool {
        matches!(self.kind.as_str(), "rpm" | "deb" | "apk" | "alpm")
    }
}

/// Returns a semantic version in the form that rpm compares correctly: `1.0.0~rc.1^build`, as
/// cargo2rpm writes it.
pub(super) fn rpm_version(version: &str) -> String {
    let (version, build) = version.split_once('+').unwrap_or((version, ""));
    let (release, pre) = version.split_once('-').unwrap_or((version, ""));
    let with = |sign: &str, text: &str| match text {
        "" => String::new(),
        text => format!("{sign}{}", text.replace(['-', '+'], "_")),
    };
    format!("{release}{}{}", with("~", pre), with("^", build))
}

/// Parses an SBOM; the error states what is wrong, and where.
pub(super) fn read(text: &str) -> Result<Sbom, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    if value.get("bomFormat").and_then(Value::as_str) == Some("CycloneDX") {
        return cyclonedx(&value);
    }
    match value.get("spdxVersion").and_then(Value::as_str) {
        Some(version) if version.starts_with("SPDX-2.") => spdx(&value),
        Some(version) => Err(format!("its format is {}, not SPDX-2.x", visible(version))),
        None => Err("it is neither CycloneDX nor SPDX 2".into()),
    }
}

fn cyclonedx(value: &Value) -> Result<Sbom, String> {
    let metadata = value.get("metadata");
    let subject = metadata.and_then(|metadata| metadata.get("component"));
    let subject = subject.map(|value| component(value, "metadata.component")).transpose()?;
    let mut components = Vec::new();
    nested(value, "", 0, &mut components)?;
    // A list up to 1.4; since 1.5 an object with components.
    let tools = metadata.and_then(|metadata| metadata.get("tools"));
    let tools =
        tools.and_then(|tools| tools.get("components").or(Some(tools))).and_then(Value::as_array);
    let by = |tool: &Value| tool.get("name").and_then(Value::as_str) == Some("auditwheel");
    let of_copies = tools.is_some_and(|tools| tools.iter().any(by));
    // auditwheel also lists the subject among the components.
    components.retain(|one| {
        subject
            .as_ref()
            .is_none_or(|subject| (&one.kind, &one.name) != (&subject.kind, &subject.name))
    });
    Ok(Sbom { of_copies, subject, components })
}

/// Adds the components below a value.
fn nested(
    value: &Value,
    place: &str,
    depth: usize,
    found: &mut Vec<Component>,
) -> Result<(), String> {
    let Some(list) = value.get("components") else { return Ok(()) };
    let here = format!("{place}components");
    let list = list.as_array().ok_or_else(|| format!("{here} is not a list"))?;
    if depth > MAX_DEPTH {
        return Err(format!("{here} is nested more than {MAX_DEPTH} times"));
    }
    for (at, value) in list.iter().enumerate() {
        let here = format!("{here}[{at}]");
        let one = component(value, &here)?;
        // Build tools and procedural macros are not part of the output.
        if value.get("scope").and_then(Value::as_str) == Some("excluded") {
            continue;
        }
        found.push(one);
        if found.len() > MAX_COMPONENTS {
            return Err(format!("it has more than {MAX_COMPONENTS} components"));
        }
        nested(value, &format!("{here}."), depth + 1, found)?;
    }
    Ok(())
}

fn component(value: &Value, place: &str) -> Result<Component, String> {
    let text = |key: &str| match value.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("{place}.{key} is not a text")),
    };
    let name = text("name")?.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| format!("{place} has no name"))?;
    let (kind, own) = text("purl")?.map(|purl| url(&purl)).unwrap_or_default();
    let license = licenses(value.get("licenses"), place)?;
    let name = match text("group")? {
        Some(group) if kind == "npm" && !group.is_empty() => format!("{group}/{name}"),
        _ => name,
    };
    let version = text("version")?.filter(|version| !version.is_empty());
    Ok(Component { kind, name, version, license, own })
}

/// Returns the kind of a package URL, and whether it is a folder of the same project, which is how
/// cargo-cyclonedx writes crates of the workspace.
fn url(purl: &str) -> (String, bool) {
    let kind =
        purl.strip_prefix("pkg:").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    (kind.to_owned(), purl.contains("download_url=file:"))
}

/// Returns the license of a CycloneDX component; several licenses all apply.
fn licenses(value: Option<&Value>, place: &str) -> Result<Option<String>, String> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    let list = value.as_array().ok_or_else(|| format!("{place}.licenses is not a list"))?;
    let mut all = Vec::new();
    for (at, choice) in list.iter().enumerate() {
        let text = |pointer: &str| choice.pointer(pointer).and_then(Value::as_str);
        let named = || {
            license::spdx(None, text("/license/name"), &[])
                .or(text("/license/name").map(str::to_owned))
        };
        let one = text("/expression").or(text("/license/id")).map(str::to_owned).or_else(named);
        all.push(one.ok_or_else(|| {
            format!("{place}.licenses[{at}] has neither `expression` nor `license`")
        })?);
    }
    Ok((!all.is_empty()).then(|| license::all(all.iter().map(String::as_str))))
}

fn spdx(value: &Value) -> Result<Sbom, String> {
    let list =
        value.get("packages").and_then(Value::as_array).ok_or("it has no list `packages`")?;
    if list.len() > MAX_COMPONENTS {
        return Err(format!("it has more than {MAX_COMPONENTS} packages"));
    }
    let described = value.get("documentDescribes").and_then(Value::as_array);
    let related = value.get("relationships").and_then(Value::as_array).into_iter().flatten();
    let related = related
        .filter(|one| one.get("relationshipType").and_then(Value::as_str) == Some("DESCRIBES"));
    let mut subjects = related
        .filter_map(|one| one.get("relatedSpdxElement"))
        .chain(described.into_iter().flatten());
    let subject_id = subjects.next();
    let (mut subject, mut components) = (None, Vec::new());
    for (at, package) in list.iter().enumerate() {
        let place = format!("packages[{at}]");
        let text =
            |key: &str| package.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let stated = |key: &str| text(key).filter(|text| !matches!(*text, "NOASSERTION" | "NONE"));
        let references =
            package.get("externalRefs").and_then(Value::as_array).into_iter().flatten();
        let purls = references
            .filter(|one| one.get("referenceType").and_then(Value::as_str) == Some("purl"));
        let purl = purls
            .filter_map(|one| one.get("referenceLocator")?.as_str())
            .next()
            .unwrap_or_default();
        let (kind, own) = url(purl);
        let one = Component {
            kind,
            own,
            name: text("name").ok_or_else(|| format!("{place} has no name"))?.to_owned(),
            version: stated("versionInfo").map(str::to_owned),
            license: stated("licenseConcluded").or(stated("licenseDeclared")).map(str::to_owned),
        };
        match subject_id.is_some() && package.get("SPDXID") == subject_id {
            true => subject = Some(one),
            false => components.push(one),
        }
    }
    Ok(Sbom { of_copies: false, subject, components })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_become_provides() {
        let text = r#"{"bomFormat": "CycloneDX", "specVersion": "1.5", "metadata": {"component":
            {"name": "a-python", "version": "1.0", "purl": "pkg:cargo/a-python@1.0?download_url=file://."}},
            "components": [
              {"name": "ring", "version": "0.17.1-rc.1+x", "purl": "pkg:cargo/ring@0.17.1", "licenses": [{"expression": "MIT"}]},
              {"name": "syn", "version": "2.0.1", "scope": "excluded", "purl": "pkg:cargo/syn@2.0.1"},
              {"name": "own", "version": "1", "purl": "pkg:cargo/own@1?download_url=file://../own"},
              {"name": "node", "group": "@types", "purl": "pkg:npm/%40types/node"},
              {"name": "Foo_Bar", "version": "2", "purl": "pkg:pypi/foo-bar@2",
               "licenses": [{"license": {"id": "MIT"}}, {"license": {"name": "Apache 2.0"}}],
               "components": [{"name": "zlib", "version": "1.3"}]}]}"#;
        let sbom = read(text).unwrap();
        let subject = sbom.subject.unwrap();
        assert_eq!((subject.name.as_str(), subject.own, sbom.of_copies), ("a-python", true, false));
        let provides: Vec<String> =
            sbom.components.iter().map(|one| one.provides().unwrap()).collect();
        assert_eq!(
            provides,
            [
                "bundled(crate(ring)) = 0.17.1~rc.1^x",
                "bundled(crate(own)) = 1",
                "bundled(npm(@types/node))",
                "bundled(python3dist(foo-bar)) = 2",
                "bundled(zlib) = 1.3",
            ]
        );
        assert_eq!(sbom.components[3].license.as_deref(), Some("Apache-2.0 AND MIT"));
    }

    #[test]
    fn spdx_is_read() {
        let text = r#"{"spdxVersion": "SPDX-2.3", "packages": [
            {"SPDXID": "SPDXRef-a", "name": "a", "versionInfo": "1"},
            {"SPDXID": "b", "name": "zlib", "versionInfo": "1.3", "licenseConcluded": "NOASSERTION",
             "licenseDeclared": "Zlib", "externalRefs": [{"referenceType": "purl", "referenceLocator": "pkg:generic/zlib@1.3"}]}],
            "relationships": [{"relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-a"}]}"#;
        let sbom = read(text).unwrap();
        assert_eq!(sbom.subject.unwrap().name, "a");
        assert_eq!(sbom.components.len(), 1);
        assert_eq!(sbom.components[0].license.as_deref(), Some("Zlib"));
    }

    #[test]
    fn reports_damage_with_its_position() {
        let deep = format!(
            "{{\"bomFormat\": \"CycloneDX\", \"components\": {}",
            "[{\"components\": ".repeat(200)
        );
        for (text, problem) in [
            ("", "it is not JSON"),
            ("{\"bomFormat\": \"CycloneDX\"", "it is not JSON"),
            (deep.as_str(), "it is not JSON: recursion limit"),
            ("{}", "it is neither CycloneDX nor SPDX 2"),
            ("{\"spdxVersion\": \"SPDX-3.0\"}", "its format is SPDX-3.0, not SPDX-2.x"),
            ("{\"spdxVersion\": \"SPDX-2.3\"}", "it has no list `packages`"),
            ("{\"bomFormat\": \"CycloneDX\", \"components\": {}}", "components is not a list"),
            ("{\"bomFormat\": \"CycloneDX\", \"components\": [{}]}", "components[0] has no name"),
            (
                "{\"bomFormat\": \"CycloneDX\", \"components\": [{\"name\": \"a\", \"version\": 1}]}",
                "components[0].version is not a text",
            ),
            (
                "{\"bomFormat\": \"CycloneDX\", \"components\": [{\"name\": \"a\", \"licenses\": [{}]}]}",
                "components[0].licenses[0] has neither",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(problem), "{error}");
        }
        let evil = |name: &str, version: &str| {
            let component = Component {
                name: name.into(),
                version: Some(version.into()),
                ..Component::default()
            };
            component.provides().unwrap_err()
        };
        assert!(evil("a) = 1\n%(reboot)", "1").contains("cannot be the name"));
        assert!(evil("a", "1\nRequires: b").contains("cannot be the version of a"));
    }
}
