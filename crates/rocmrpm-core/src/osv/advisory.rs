//! Reads an advisory from JSON and decides whether it affects a package version. It does not fetch
//! advisories.
//!
//! Source: OSV schema 1.7, "Evaluation" for the algorithm of `affected`.

use jiff::Timestamp;
use serde::Deserialize;

use super::version::Version;
use super::{Ecosystem, Package, Severity};
use crate::sources::normalized;

/// The supported major version of the schema.
const MAJOR: &str = "1";

/// Maximum length of an ID; the longest real IDs have about 30 characters.
const MAX_ID: usize = 100;

/// An advisory from an OSV database.
#[derive(Debug, Clone)]
pub struct Advisory {
    /// The ID, such as `GHSA-...` or `PYSEC-...`.
    pub id: String,
    /// The time of the last change.
    pub modified: Timestamp,
    /// IDs of the same vulnerability in other databases, such as `CVE-...`.
    pub aliases: Vec<String>,
    /// A one-line summary.
    pub summary: String,
    /// The severity, as far as it is known.
    pub severity: Severity,
    /// Whether the database withdrew the advisory.
    pub withdrawn: bool,
    affected: Vec<Affected>,
}

/// Whether an advisory affects a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The package is affected. Contains the lowest later version that is not affected.
    Affected(Option<String>),
    /// The package is not affected.
    Clear,
    /// A version that is relevant for the decision cannot be compared.
    Unclear(String),
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Affected {
    package: Option<Named>,
    versions: Option<Vec<String>>,
    ranges: Option<Vec<Range>>,
    severity: Option<Vec<Vector>>,
}

#[derive(Debug, Clone, Deserialize)]
struct Named {
    ecosystem: String,
    name: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Range {
    #[serde(rename = "type")]
    kind: String,
    events: Vec<Event>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Event {
    Introduced(String),
    Fixed(String),
    LastAffected(String),
    Limit(String),
}

#[derive(Debug, Clone, Deserialize)]
struct Vector {
    #[serde(rename = "type")]
    kind: String,
    score: String,
}

/// The fields of a document that rocmrpm uses.
#[derive(Deserialize)]
struct Document {
    schema_version: Option<String>,
    id: String,
    modified: String,
    withdrawn: Option<String>,
    aliases: Option<Vec<String>>,
    summary: Option<String>,
    details: Option<String>,
    severity: Option<Vec<Vector>>,
    affected: Option<Vec<Affected>>,
    database_specific: Option<serde_json::Value>,
}

/// Returns whether an ID is safe in a URL and on a terminal.
pub(super) fn is_id(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    !id.is_empty() && id.len() <= MAX_ID && id.chars().all(plain) && !id.starts_with('.')
}

impl Advisory {
    /// Reads a document; the error describes the problem.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let document: Document = serde_json::from_slice(bytes)
            .map_err(|error| format!("it is not an advisory: {error}"))?;
        // The default version is 1.0.0 (OSV schema, "schema_version").
        let schema = document.schema_version.as_deref().unwrap_or("1.0.0");
        if schema.split('.').next() != Some(MAJOR) {
            let schema = crate::text::visible(schema);
            return Err(format!(
                "it has schema_version `{schema}`, but only {MAJOR}.x is supported"
            ));
        }
        if !is_id(&document.id) {
            return Err(format!("`{}` is not a valid ID", crate::text::visible(&document.id)));
        }
        // Some databases have aliases with commas and spaces. Users cannot accept those by name.
        let mut names = document.aliases.unwrap_or_default();
        names.retain(|id| is_id(id));
        let modified: Timestamp = document.modified.parse().map_err(|_| {
            format!(
                "`modified` is `{}`, not a time of RFC 3339",
                crate::text::visible(&document.modified)
            )
        })?;
        let affected = document.affected.unwrap_or_default();
        // Packages may have their own vectors (OSV schema, "severity").
        let own = document.severity.unwrap_or_default();
        let vectors =
            own.iter().chain(affected.iter().flat_map(|one| one.severity.iter().flatten()));
        let vectors: Vec<&str> = vectors
            .filter(|vector| vector.kind.starts_with("CVSS"))
            .map(|v| v.score.as_str())
            .collect();
        let word = document.database_specific.as_ref().and_then(|value| value["severity"].as_str());
        let severity = Severity::new(word, &vectors);
        let text = document
            .summary
            .filter(|text| !text.is_empty())
            .or(document.details)
            .unwrap_or_default();
        let summary = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        Ok(Self {
            id: document.id,
            modified,
            aliases: names,
            summary: summary.to_owned(),
            severity,
            withdrawn: document.withdrawn.is_some(),
            affected,
        })
    }

    /// Returns the ID, then all aliases.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        [&self.id].into_iter().chain(&self.aliases).map(String::as_str)
    }

    /// Returns the ecosystem of every affected package entry, including duplicates.
    pub(super) fn ecosystems(&self) -> impl Iterator<Item = &str> {
        self.affected.iter().filter_map(|one| Some(one.package.as_ref()?.ecosystem.as_str()))
    }

    /// Returns the names of affected packages in an ecosystem.
    pub(super) fn names(&self, ecosystem: Ecosystem) -> impl Iterator<Item = String> {
        let of = move |one: &Affected| {
            let package =
                one.package.as_ref().filter(|package| package.ecosystem == ecosystem.name())?;
            Some(canonical(ecosystem, &package.name))
        };
        self.affected.iter().filter_map(of)
    }

    /// Decides whether the advisory affects a package.
    pub(super) fn judge(&self, package: &Package) -> Verdict {
        if self.withdrawn {
            return Verdict::Clear;
        }
        let Package { ecosystem, name, version } = package;
        let ours = |one: &&Affected| {
            let named = one.package.as_ref();
            named.is_some_and(|n| {
                n.ecosystem == ecosystem.name() && canonical(*ecosystem, &n.name) == *name
            })
        };
        let ours: Vec<&Affected> = self.affected.iter().filter(ours).collect();
        let Some(at) = Version::parse(*ecosystem, version) else {
            // The versions can only be compared as text.
            let listed =
                ours.iter().any(|one| one.versions.iter().flatten().any(|text| text == version));
            return match (listed, ours.is_empty()) {
                (true, _) => Verdict::Affected(None),
                (false, true) => Verdict::Clear,
                (false, false) => Verdict::Unclear(version.clone()),
            };
        };
        let mut verdict = Verdict::Clear;
        for one in ours {
            match one.judge(*ecosystem, &at) {
                Verdict::Affected(fixed) => return Verdict::Affected(fixed),
                Verdict::Unclear(text) => verdict = Verdict::Unclear(text),
                Verdict::Clear => {}
            }
        }
        verdict
    }

    /// Returns the lowest later version that is not affected.
    pub(super) fn fixed(&self, package: &Package) -> Option<String> {
        match self.judge(package) {
            Verdict::Affected(fixed) => fixed,
            _ => None,
        }
    }
}

/// Returns a package name in the ecosystem's canonical form.
fn canonical(ecosystem: Ecosystem, name: &str) -> String {
    match ecosystem {
        Ecosystem::PyPi => normalized(name),
        _ => name.to_owned(),
    }
}

impl Affected {
    fn judge(&self, ecosystem: Ecosystem, at: &Version) -> Verdict {
        let mut verdict = Verdict::Clear;
        let mut later: Vec<(Version, &str)> = Vec::new();
        // Commit ranges do not apply to releases.
        for range in self.ranges.iter().flatten().filter(|range| range.kind != "GIT") {
            match range.holds(ecosystem, at) {
                Ok(true) => verdict = Verdict::Affected(None),
                Ok(false) => {}
                Err(text) if verdict == Verdict::Clear => {
                    verdict = Verdict::Unclear(text.to_owned())
                }
                Err(_) => {}
            }
            later.extend(range.events.iter().filter_map(|event| match event {
                Event::Fixed(text) => {
                    Some((Version::parse(ecosystem, text).filter(|v| v > at)?, text.as_str()))
                }
                _ => None,
            }));
        }
        let listed = self
            .versions
            .iter()
            .flatten()
            .any(|text| Version::parse(ecosystem, text).as_ref() == Some(at));
        match verdict {
            Verdict::Affected(_) => {}
            _ if listed => {}
            other => return other,
        }
        Verdict::Affected(later.into_iter().min().map(|(_, text)| text.to_owned()))
    }
}

impl Range {
    /// Returns whether a version is in the range; the error is a version that cannot be parsed.
    fn holds<'r>(&'r self, ecosystem: Ecosystem, at: &Version) -> Result<bool, &'r str> {
        let mut events = Vec::new();
        for event in &self.events {
            let (text, rank) = match event {
                // At the same version, `introduced` comes first.
                Event::Introduced(text) => (text, 0),
                Event::Fixed(text) => (text, 1),
                Event::LastAffected(text) => (text, 2),
                Event::Limit(text) => (text, 3),
            };
            // `0` precedes every version, including pre-releases of 0; `*` follows every version.
            let version = match text.as_str() {
                "0" if rank == 0 => None,
                "*" if rank == 3 => continue,
                text => Some(Version::parse(ecosystem, text).ok_or(text)?),
            };
            events.push((version, rank));
        }
        events.sort();
        let limits: Vec<_> = events.iter().filter(|(_, rank)| *rank == 3).collect();
        if !limits.is_empty()
            && !limits.iter().any(|(limit, _)| limit.as_ref().is_some_and(|limit| at < limit))
        {
            return Ok(false);
        }
        let mut inside = false;
        for (version, rank) in &events {
            let reached = version.as_ref().is_none_or(|version| at >= version);
            let passed = version.as_ref().is_some_and(|version| at > version);
            inside = match rank {
                0 if reached => true,
                1 if reached => false,
                2 if passed => false,
                _ => inside,
            };
        }
        Ok(inside)
    }
}

#[cfg(test)]
#[path = "advisory_tests.rs"]
mod tests;
