//! Detects the software inside compiled wheels, with the reviewed tables of `bundled.toml` and the
//! traces that software leaves in binaries. What a package states about it is decided in
//! `generate`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use memchr::memmem;
use serde::{Deserialize, Serialize};

use crate::digest::Sha256;

const TABLES: &str = include_str!("bundled.toml");

/// The tables of `bundled.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tables {
    /// Libraries by their name in `bundled()`.
    pub library: BTreeMap<String, Library>,
    /// What wheels contain, by normalized distribution name.
    pub wheel: BTreeMap<String, Inventory>,
    /// Licenses of crates.
    pub crates: BTreeMap<String, String>,
    /// Licenses of system packages that auditwheel copies libraries from.
    pub copied: BTreeMap<String, String>,
}

/// A library that wheels contain.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Library {
    /// Its license, as an SPDX expression.
    pub license: String,
    /// Texts in the binaries that contain it, with `{version}` in place of its version.
    #[serde(default)]
    traces: Vec<String>,
    /// Its name in vcpkg, if it differs.
    vcpkg: Option<String>,
}

/// The contents of a distribution's wheels.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Inventory {
    /// The license of code that is in none of the libraries and crates in these tables.
    pub license: Option<String>,
    /// The libraries inside.
    pub contains: BTreeSet<String>,
    /// The source of this information.
    #[expect(dead_code, reason = "it is for those who review the table")]
    source: String,
}

pub(super) fn tables() -> &'static Tables {
    static READ: LazyLock<Tables> =
        // A test parses the table.
        LazyLock::new(|| {
            toml::from_str(TABLES).unwrap_or_else(|error| unreachable!("{error}"))
        });
    &READ
}

/// Returns the digest of everything except the bytes that determines [`Traces`].
pub(super) fn digest() -> Sha256 {
    Sha256::of_bytes(TABLES)
}

/// The traces of software in binaries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Traces {
    /// Crates: name and version.
    pub crates: BTreeSet<(String, String)>,
    /// Libraries, with their versions if these are known.
    pub libraries: BTreeMap<String, BTreeSet<String>>,
}

impl Traces {
    /// Adds the traces in the bytes of a binary.
    pub fn add(&mut self, bytes: &[u8]) {
        self.add_crates(bytes);
        self.add_ports(bytes);
        for (name, library) in &tables().library {
            for trace in &library.traces {
                if let Some(versions) = find(bytes, trace) {
                    self.libraries.entry(name.clone()).or_default().extend(versions);
                }
            }
        }
    }

    /// Adds crates: those from a registry leave the paths of their sources, for panics:
    /// `registry/src/<index>/<name>-<version>/src/lib.rs`. Not all crates can panic.
    fn add_crates(&mut self, bytes: &[u8]) {
        let place = b"/registry/src/";
        for at in memmem::find_iter(bytes, place) {
            let mut parts = path(&bytes[at + place.len()..]).split('/').skip(1);
            let (Some(folder), Some(_)) = (parts.next(), parts.next()) else { continue };
            // A name may contain `-` and digits; a version has at least two dots, with numbers
            // around the first.
            let starts = folder.match_indices('-').map(|(at, _)| at);
            let is_version = |text: &str| {
                text.split('.').count() >= 3
                    && text.split('.').take(2).all(is_number)
                    && is_plain(text)
            };
            let split = starts.map(|at| (&folder[..at], &folder[at + 1..]));
            if let Some((name, version)) =
                split.into_iter().find(|(_, version)| is_version(version))
                && is_plain(name)
            {
                self.crates.insert((name.to_owned(), version.to_owned()));
            }
        }
    }

    /// Adds ports of vcpkg, which leave the paths of their sources:
    /// `buildtrees/<port>/src/v<version>-<digest>.clean/`.
    fn add_ports(&mut self, bytes: &[u8]) {
        let place = b"/buildtrees/";
        for at in memmem::find_iter(bytes, place) {
            let mut parts = path(&bytes[at + place.len()..]).split('/');
            let (Some(port), Some("src"), Some(folder)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let Some((stem, digest)) =
                folder.strip_suffix(".clean").and_then(|name| name.rsplit_once('-'))
            else {
                continue;
            };
            if !is_plain(port) || !digest.bytes().all(|b| b.is_ascii_hexdigit()) {
                continue;
            }
            let known = tables().library.iter();
            let known = known.filter(|(_, library)| library.vcpkg.as_deref() == Some(port));
            let name = known.map(|(name, _)| name.as_str()).next().unwrap_or(port);
            let versions = self.libraries.entry(name.to_owned()).or_default();
            let number = stem.trim_start_matches(|c: char| !c.is_ascii_digit()).replace('_', ".");
            if number.contains('.') && number.split('.').all(is_number) {
                versions.insert(number);
            }
        }
    }
}

/// Returns the versions in a trace in these bytes; `None` if the trace is not there.
fn find(bytes: &[u8], trace: &str) -> Option<BTreeSet<String>> {
    let Some((before, after)) = trace.split_once("{version}") else {
        return memmem::find(bytes, trace.as_bytes()).map(|_| BTreeSet::new());
    };
    let is_version = |text: &str| text.contains('.') && text.split('.').all(is_number);
    if before.is_empty() {
        let version = |at: usize| {
            let digits = bytes[..at]
                .iter()
                .rev()
                .take(32)
                .take_while(|b| b.is_ascii_digit() || **b == b'.')
                .count();
            std::str::from_utf8(&bytes[at - digits..at])
                .ok()
                .filter(|text| is_version(text))
                .map(str::to_owned)
        };
        let found: BTreeSet<String> =
            memmem::find_iter(bytes, after.as_bytes()).filter_map(version).collect();
        return (!found.is_empty()).then_some(found);
    }
    let version = |at: usize| {
        let rest = &bytes[at + before.len()..];
        let digits = rest.iter().take(32).take_while(|b| b.is_ascii_digit() || **b == b'.').count();
        let (version, rest) = rest.split_at(digits);
        let version = std::str::from_utf8(version).ok()?;
        (is_version(version) && rest.starts_with(after.as_bytes())).then(|| version.to_owned())
    };
    let found: BTreeSet<String> =
        memmem::find_iter(bytes, before.as_bytes()).filter_map(version).collect();
    (!found.is_empty()).then_some(found)
}

/// Returns the text at the start of `bytes` that may be a path.
fn path(bytes: &[u8]) -> &str {
    let length = bytes.iter().take(256).take_while(|b| b.is_ascii_graphic()).count();
    std::str::from_utf8(&bytes[..length]).unwrap_or_default()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Returns whether a name or version is safe to use in a spec.
pub(super) fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._+-".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closure::license;

    #[test]
    fn built_in_tables_are_valid() {
        let tables = tables();
        let licenses = tables.library.values().map(|library| &library.license);
        let licenses = licenses.chain(tables.crates.values()).chain(tables.copied.values());
        for text in licenses.chain(tables.wheel.values().filter_map(|wheel| wheel.license.as_ref()))
        {
            assert_eq!(license::refused(text), None);
        }
        for (name, wheel) in &tables.wheel {
            assert_eq!(crate::sources::normalized(name), *name);
            for library in &wheel.contains {
                assert!(
                    tables.library.contains_key(library),
                    "{name} contains {library}, which is in no table"
                );
            }
        }
        assert!(tables.library.keys().all(|name| is_plain(name)));
    }

    #[test]
    fn detects_software_in_binaries() {
        let mut traces = Traces::default();
        traces.add(
            b"\0/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/tiktoken-rs-0.7.0/src/lib.rs\0\
              /registry/src/x/a-b2-1.2.3-rc.1/src/lib.rs\0/registry/src/x/odd/src/lib.rs\0/registry/src/",
        );
        let crates = [("a-b2", "1.2.3-rc.1"), ("tiktoken-rs", "0.7.0")];
        assert_eq!(
            traces.crates,
            crates.map(|(name, version)| (name.into(), version.into())).into()
        );
        let mut traces = Traces::default();
        traces.add(
            b"OpenSSL 3.6.5 3 Nov 2026\0 1.0.8, 13-Jul-2019\0libcurl/8.23.0\0/vcpkg/buildtrees/abseil/src/20260107.1-b1a4a53e9a.clean/x\0\
              /vcpkg/buildtrees/curl/src/url-8_23_0-7ec8cad9a3.clean/x\0\
              /vcpkg/buildtrees/re2/src/86bb745f55-648e6b982e.clean/x\0/buildtrees/a%/src/1.2-0.clean/\0OpenSSL x",
        );
        let found: Vec<(&str, Vec<&str>)> = traces
            .libraries
            .iter()
            .map(|(name, versions)| (name.as_str(), versions.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(
            found,
            [
                ("abseil-cpp", vec!["20260107.1"]),
                ("bzip2", vec!["1.0.8"]),
                ("curl", vec!["8.23.0"]),
                ("openssl", vec!["3.6.5"]),
                ("re2", vec![]),
            ]
        );
    }
}
