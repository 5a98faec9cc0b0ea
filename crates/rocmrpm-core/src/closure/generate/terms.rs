//! Determines what a package made from a wheel states about the software in it: its license and
//! what is bundled. Uses the wheel's SBOMs, the reviewed tables and the traces in its binaries.
//! Fails if these are incomplete. Does not read the wheel itself.

use std::collections::BTreeSet;

use pep440_rs::Version;

use crate::closure::bundled::{Traces, tables};
use crate::closure::sbom::{self, Component, Sbom, rpm_version};
use crate::license;
use crate::sources::normalized;
use crate::text::visible;
use crate::wheel::Contents;

/// What a package states about its contents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The license of everything in the wheel, as an SPDX expression.
    pub license: String,
    /// What is bundled, in the syntax of `Provides:`.
    pub bundled: BTreeSet<String>,
}

/// A wheel and the facts about it.
pub(crate) struct Wheel<'a> {
    /// The normalized name of the distribution.
    pub name: &'a str,
    pub version: &'a Version,
    /// The license that its metadata or the packager states.
    pub license: &'a str,
    pub contents: &'a Contents,
    pub traces: &'a Traces,
    /// What is bundled according to the packager, if the packager decided that.
    pub decided: Option<&'a [String]>,
}

/// Returns what a package made from a wheel states; the error names what is unknown or not allowed.
pub(crate) fn of(wheel: &Wheel<'_>) -> Result<Terms, String> {
    if let Some(decided) = wheel.decided {
        let bundled = decided.iter().map(|text| decided_line(text)).collect();
        return Ok(Terms { license: wheel.license.to_owned(), bundled });
    }
    let mut found = FoundTerms::default();
    found.licenses.push(wheel.license.to_owned());
    for (path, text) in &wheel.contents.sboms {
        let in_it = |problem: String| format!("its SBOM {}: {problem}", visible(path));
        let sbom = sbom::read(text).map_err(in_it)?;
        check_subject(wheel, &sbom).map_err(in_it)?;
        found.add_sbom(wheel, &sbom).map_err(in_it)?;
    }
    if wheel.contents.compiled {
        found.add_inventory(wheel);
        found.add_crates(wheel)?;
        found.check(wheel)?;
    }
    let license = license::all(found.licenses.iter().map(String::as_str));
    Ok(Terms { license, bundled: found.bundled })
}

/// Returns an entry of `bundled` in component.toml in the syntax of `Provides:`.
fn decided_line(text: &str) -> String {
    match text.split_once('=') {
        Some((name, version)) => format!("bundled({}) = {}", name.trim(), version.trim()),
        None => format!("bundled({})", text.trim()),
    }
}

/// Checks that an SBOM belongs to the wheel. A crate may have a different name than the
/// distribution that is made from it.
fn check_subject(wheel: &Wheel<'_>, sbom: &Sbom) -> Result<(), String> {
    let Some(subject) = &sbom.subject else { return Ok(()) };
    let named = normalized(&subject.name) == wheel.name;
    let stated = subject.version.as_deref();
    let version = stated.and_then(|version| version.parse::<Version>().ok());
    let differs = version.is_some_and(|version| version != *wheel.version);
    if (subject.kind == "pypi" && !named) || (named && differs) {
        let (name, stated) = (visible(&subject.name), visible(stated.unwrap_or_default()));
        return Err(format!(
            "it is for {name} {stated}, but the wheel is {} {}",
            wheel.name, wheel.version
        ));
    }
    Ok(())
}

/// What was found in a wheel.
#[derive(Default)]
struct FoundTerms {
    licenses: Vec<String>,
    bundled: BTreeSet<String>,
    /// Crates and libraries that an SBOM or a table lists.
    names: BTreeSet<String>,
    /// Whether an SBOM or a table lists what is compiled into the wheel.
    listed: bool,
    /// Whether an SBOM or a table lists the libraries that were copied into it.
    copies: bool,
}

impl FoundTerms {
    fn add_sbom(&mut self, wheel: &Wheel<'_>, sbom: &Sbom) -> Result<(), String> {
        self.listed |= !sbom.of_copies;
        self.copies |= sbom.of_copies;
        for component in &sbom.components {
            // A list of copied libraries may contain some that were not kept.
            if component.is_system() && wheel.contents.copied.is_empty() {
                continue;
            }
            self.add_component(component)?;
        }
        // The license of the wheel's main crate may differ from that in the metadata.
        if let Some(license) = sbom.subject.as_ref().and_then(|subject| subject.license.as_ref()) {
            self.licenses.push(acceptable(license, "it")?);
        }
        Ok(())
    }

    fn add_component(&mut self, component: &Component) -> Result<(), String> {
        let version = component.version.as_deref().unwrap_or_default();
        let of = format!("{} {}", visible(&component.name), visible(version));
        let of = of.trim();
        let known = component.is_system().then(|| tables().copied.get(&component.name)).flatten();
        let Some(stated) = component.license.as_ref().or(known) else {
            return Err(format!("it does not state the license of {of}"));
        };
        self.licenses.push(acceptable(stated, of)?);
        self.names.insert(component.name.clone());
        if !component.own {
            self.bundled.insert(component.provides()?);
        }
        Ok(())
    }

    /// Adds the entry of the reviewed table.
    fn add_inventory(&mut self, wheel: &Wheel<'_>) {
        let Some(inventory) = tables().wheel.get(wheel.name) else { return };
        (self.listed, self.copies) = (true, true);
        self.licenses.extend(inventory.license.clone());
        for name in &inventory.contains {
            self.names.insert(name.clone());
            self.licenses.extend(tables().library.get(name).map(|library| library.license.clone()));
            let versions = wheel.traces.libraries.get(name).filter(|versions| !versions.is_empty());
            match versions {
                Some(versions) => {
                    self.bundled.extend(
                        versions.iter().map(|version| format!("bundled({name}) = {version}")),
                    );
                }
                None => drop(self.bundled.insert(format!("bundled({name})"))),
            }
        }
    }

    /// Adds the crates in its binaries that no SBOM lists.
    fn add_crates(&mut self, wheel: &Wheel<'_>) -> Result<(), String> {
        for (name, version) in &wheel.traces.crates {
            if self.names.contains(name) {
                continue;
            }
            let Some(license) = tables().crates.get(name) else {
                return Err(format!(
                    "it contains the crate {name} {version}, whose license is unknown"
                ));
            };
            self.licenses.push(license.clone());
            self.bundled.insert(format!("bundled(crate({name})) = {}", rpm_version(version)));
        }
        Ok(())
    }

    /// Checks that everything in the wheel is listed.
    fn check(&self, wheel: &Wheel<'_>) -> Result<(), String> {
        if !self.listed {
            return Err(
                "it is compiled, and neither an SBOM nor a reviewed table lists what is in it"
                    .into(),
            );
        }
        for (name, versions) in &wheel.traces.libraries {
            if !self.names.contains(name) {
                let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
                let text = format!("{name} {}", versions.join(", "));
                return Err(format!(
                    "it contains {}, which no SBOM or reviewed table lists",
                    text.trim()
                ));
            }
        }
        let named = |file: &str| {
            let stem = file.split(".so").next().unwrap_or(file);
            let stem = stem.rsplit_once('-').map_or(stem, |(stem, _)| stem);
            [stem, stem.strip_prefix("lib").unwrap_or(stem)]
                .iter()
                .any(|name| self.names.contains(*name))
        };
        match wheel.contents.copied.iter().find(|file| !self.copies && !named(file)) {
            Some(file) => Err(format!(
                "it contains the library {}, which no SBOM or reviewed table lists",
                visible(file)
            )),
            None => Ok(()),
        }
    }
}

/// Returns a license from an SBOM, if Fedora allows it.
fn acceptable(stated: &str, of: &str) -> Result<String, String> {
    let license = license::of_crate(stated);
    match license::refused(&license) {
        None => Ok(license),
        Some(problem) => Err(format!("the license of {of}: {problem}")),
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;

    const SBOM: &str = r#"{"bomFormat": "CycloneDX", "metadata": {"component":
        {"name": "some", "version": "1.0", "purl": "pkg:pypi/some@1.0"}},
        "components": [{"name": "ring", "version": "0.17.14", "purl": "pkg:cargo/ring@0.17.14",
                        "licenses": [{"expression": "Apache-2.0 AND ISC"}]}]}"#;

    fn terms(
        name: &str,
        sbom: Option<&str>,
        more: impl FnOnce(&mut Contents, &mut Traces),
    ) -> Result<Terms, String> {
        let mut contents = Contents { compiled: true, ..Contents::default() };
        contents.sboms.extend(sbom.map(|text| ("a.cdx.json".to_owned(), text.to_owned())));
        let mut traces = Traces::default();
        more(&mut contents, &mut traces);
        let version = Version::from_str("1.0").unwrap();
        of(&Wheel {
            name,
            version: &version,
            license: "MIT",
            contents: &contents,
            traces: &traces,
            decided: None,
        })
    }

    #[test]
    fn accepts_sbom() {
        let found = terms("some", Some(SBOM), |_, traces| {
            traces.crates.insert(("ring".into(), "0.17.14".into()));
        });
        let found = found.unwrap();
        assert_eq!(found.license, "Apache-2.0 AND ISC AND MIT");
        assert_eq!(found.bundled, ["bundled(crate(ring)) = 0.17.14".to_owned()].into());
    }

    #[test]
    fn accepts_reviewed_table() {
        let found = terms("protobuf", None, |_, _| {}).unwrap();
        assert_eq!(
            found.bundled,
            ["bundled(upb)".to_owned(), "bundled(utf8_range)".to_owned()].into()
        );
        let found = terms("llvmlite", None, |_, traces| {
            traces.libraries.insert("llvm".into(), ["20.1.8".to_owned()].into());
        });
        assert_eq!(found.unwrap().bundled, ["bundled(llvm) = 20.1.8".to_owned()].into());
        // A crate that the SBOM does not list.
        let found = terms("some", Some(SBOM), |_, traces| {
            traces.crates.insert(("aho-corasick".into(), "1.1.3-rc.1".into()));
        });
        let found = found.unwrap();
        assert_eq!(found.license, "(MIT OR Unlicense) AND Apache-2.0 AND ISC AND MIT");
        assert!(
            found.bundled.contains("bundled(crate(aho-corasick)) = 1.1.3~rc.1"),
            "{:?}",
            found.bundled
        );
    }

    #[test]
    fn rejects_unlisted_software() {
        type Change = fn(&mut Contents, &mut Traces);
        let cases: [(&str, Option<&str>, Change, &str); 6] = [
            ("some", None, |_, _| {}, "neither an SBOM nor a reviewed table"),
            (
                "some",
                Some(SBOM),
                |contents, _| {
                    contents.copied.insert("libz-01234567.so.1".into());
                },
                "the library libz-",
            ),
            (
                "some",
                Some(SBOM),
                |_, traces| {
                    drop(traces.libraries.insert("openssl".into(), ["3.6.5".to_owned()].into()))
                },
                "it contains openssl 3.6.5, which no SBOM or reviewed table lists",
            ),
            (
                "some",
                Some(SBOM),
                |_, traces| {
                    traces.crates.insert(("never-seen".into(), "1.0.0".into()));
                },
                "the crate never-seen 1.0.0",
            ),
            ("other", Some(SBOM), |_, _| {}, "it is for some 1.0, but the wheel is other 1.0"),
            ("some", Some("{"), |_, _| {}, "its SBOM a.cdx.json: it is not JSON"),
        ];
        for (name, sbom, change, problem) in cases {
            let error = terms(name, sbom, change).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        let refused = SBOM.replace("Apache-2.0 AND ISC", "SSPL-1.0");
        let error = terms("some", Some(&refused), |_, _| {}).unwrap_err();
        assert!(
            error.contains("the license of ring 0.17.14: `SSPL-1.0` is not a license"),
            "{error}"
        );
        let older = SBOM.replace("\"version\": \"1.0\"", "\"version\": \"0.9\"");
        let error = terms("some", Some(&older), |_, _| {}).unwrap_err();
        assert!(error.contains("it is for some 0.9, but the wheel is some 1.0"), "{error}");
    }

    #[test]
    fn accepts_packagers_decision() {
        let version = Version::from_str("1.0").unwrap();
        let contents = Contents {
            compiled: true,
            copied: ["liba.so".to_owned()].into(),
            ..Contents::default()
        };
        let decided = ["openssl=3.6.5".to_owned(), "crate(ring)".to_owned()];
        let wheel = Wheel {
            name: "some",
            version: &version,
            license: "MIT",
            contents: &contents,
            traces: &Traces::default(),
            decided: Some(&decided),
        };
        let bundled = ["bundled(openssl) = 3.6.5".to_owned(), "bundled(crate(ring))".to_owned()];
        assert_eq!(of(&wheel), Ok(Terms { license: "MIT".into(), bundled: bundled.into() }));
    }

    #[test]
    fn bundles_libraries_without_a_version() {
        let found = terms("llvmlite", None, |_, traces| {
            traces.libraries.insert("llvm".into(), BTreeSet::new());
        });
        assert_eq!(found.unwrap().bundled, ["bundled(llvm)".to_owned()].into());
    }

    #[test]
    fn reviewed_table_covers_copied_libraries() {
        let found = terms("llvmlite", None, |contents, _| {
            contents.copied.insert("libz-01234567.so.1".into());
        });
        assert!(found.is_ok(), "{found:?}");
    }

    #[test]
    fn accepts_crate_sbom_with_another_name() {
        let of_crate = SBOM
            .replace("pkg:pypi/some@1.0", "pkg:cargo/some-rs@1.0")
            .replace("\"some\"", "\"some-rs\"");
        assert!(terms("some", Some(&of_crate), |_, _| {}).is_ok());
        let error = terms("other", Some(SBOM), |_, _| {}).unwrap_err();
        assert!(error.contains("it is for some 1.0, but the wheel is other 1.0"), "{error}");
    }
}
