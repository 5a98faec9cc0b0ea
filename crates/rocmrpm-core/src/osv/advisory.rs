//! One advisory: read from JSON, and judged for a package at a version.
//!
//! Source: OSV schema 1.7, "Evaluation" for the algorithm of `affected`.

use jiff::Timestamp;
use serde::Deserialize;

use super::version::Version;
use super::{Ecosystem, Package, Severity};
use crate::sources::normalized;

/// The schema's major version that is understood.
const MAJOR: &str = "1";

/// How long an ID may be; the longest real ones have some 30 characters.
const MAX_ID: usize = 100;

/// An advisory.
#[derive(Debug, Clone)]
pub struct Advisory {
    /// Its ID, such as `GHSA-...` or `PYSEC-...`.
    pub id: String,
    /// When it was last changed.
    pub modified: Timestamp,
    /// IDs of the same vulnerability elsewhere, such as `CVE-...`.
    pub aliases: Vec<String>,
    /// One line.
    pub summary: String,
    /// How severe it is.
    pub severity: Severity,
    /// Whether its database took it back.
    pub withdrawn: bool,
    affected: Vec<Affected>,
}

/// Whether an advisory affects a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It does; with the lowest later version that is not affected.
    Affected(Option<String>),
    /// It does not.
    Clear,
    /// A version in it cannot be compared.
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

/// The parts of a document that are read.
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

/// Returns whether an ID can stand in a URL and on a terminal as it is.
pub(super) fn is_id(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    !id.is_empty() && id.len() <= MAX_ID && id.chars().all(plain) && !id.starts_with('.')
}

impl Advisory {
    /// Reads a document; the error says what is wrong with it.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let document: Document =
            serde_json::from_slice(bytes).map_err(|error| format!("it is not an advisory: {error}"))?;
        // Without it the version is 1.0.0 (OSV schema, "schema_version").
        let schema = document.schema_version.as_deref().unwrap_or("1.0.0");
        if schema.split('.').next() != Some(MAJOR) {
            let schema = crate::text::visible(schema);
            return Err(format!("it has schema_version `{schema}`, and {MAJOR}.x is understood"));
        }
        if !is_id(&document.id) {
            return Err(format!("`{}` cannot be an ID", crate::text::visible(&document.id)));
        }
        // Databases have had aliases with commas and blanks. Those cannot be accepted by name.
        let mut names = document.aliases.unwrap_or_default();
        names.retain(|id| is_id(id));
        let modified: Timestamp = document.modified.parse().map_err(|_| {
            format!("`modified` is `{}`, not a time of RFC 3339", crate::text::visible(&document.modified))
        })?;
        let affected = document.affected.unwrap_or_default();
        // A vector may stand beside each package instead (OSV schema, "severity").
        let own = document.severity.unwrap_or_default();
        let vectors = own.iter().chain(affected.iter().flat_map(|one| one.severity.iter().flatten()));
        let vectors: Vec<&str> =
            vectors.filter(|vector| vector.kind.starts_with("CVSS")).map(|v| v.score.as_str()).collect();
        let word = document.database_specific.as_ref().and_then(|value| value["severity"].as_str());
        let severity = Severity::new(word, &vectors);
        let text = document.summary.filter(|text| !text.is_empty()).or(document.details).unwrap_or_default();
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

    /// Returns all of its IDs, its own first.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        [&self.id].into_iter().chain(&self.aliases).map(String::as_str)
    }

    /// Returns the ecosystems of the packages that it is about, each once for every package.
    pub(super) fn ecosystems(&self) -> impl Iterator<Item = &str> {
        self.affected.iter().filter_map(|one| Some(one.package.as_ref()?.ecosystem.as_str()))
    }

    /// Returns the names of the packages of an ecosystem that it is about.
    pub(super) fn names(&self, ecosystem: Ecosystem) -> impl Iterator<Item = String> {
        let of = move |one: &Affected| {
            let package = one.package.as_ref().filter(|package| package.ecosystem == ecosystem.name())?;
            Some(canonical(ecosystem, &package.name))
        };
        self.affected.iter().filter_map(of)
    }

    /// Judges a package.
    pub(super) fn judge(&self, package: &Package) -> Verdict {
        if self.withdrawn {
            return Verdict::Clear;
        }
        let Package { ecosystem, name, version } = package;
        let ours = |one: &&Affected| {
            let named = one.package.as_ref();
            named.is_some_and(|n| n.ecosystem == ecosystem.name() && canonical(*ecosystem, &n.name) == *name)
        };
        let ours: Vec<&Affected> = self.affected.iter().filter(ours).collect();
        let Some(at) = Version::parse(*ecosystem, version) else {
            // Text against text is all that is left.
            let listed = ours.iter().any(|one| one.versions.iter().flatten().any(|text| text == version));
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

/// Returns a name as packages of the ecosystem are compared by.
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
        // Commits say nothing about a release.
        for range in self.ranges.iter().flatten().filter(|range| range.kind != "GIT") {
            match range.holds(ecosystem, at) {
                Ok(true) => verdict = Verdict::Affected(None),
                Ok(false) => {}
                Err(text) if verdict == Verdict::Clear => verdict = Verdict::Unclear(text.to_owned()),
                Err(_) => {}
            }
            later.extend(range.events.iter().filter_map(|event| match event {
                Event::Fixed(text) => {
                    Some((Version::parse(ecosystem, text).filter(|v| v > at)?, text.as_str()))
                }
                _ => None,
            }));
        }
        let listed =
            self.versions.iter().flatten().any(|text| Version::parse(ecosystem, text).as_ref() == Some(at));
        match verdict {
            Verdict::Affected(_) => {}
            _ if listed => {}
            other => return other,
        }
        Verdict::Affected(later.into_iter().min().map(|(_, text)| text.to_owned()))
    }
}

impl Range {
    /// Returns whether a version lies in the range; the error is a version that cannot be read.
    fn holds<'r>(&'r self, ecosystem: Ecosystem, at: &Version) -> Result<bool, &'r str> {
        let mut events = Vec::new();
        for event in &self.events {
            let (text, rank) = match event {
                // Of several events at one version the one that begins comes first.
                Event::Introduced(text) => (text, 0),
                Event::Fixed(text) => (text, 1),
                Event::LastAffected(text) => (text, 2),
                Event::Limit(text) => (text, 3),
            };
            // `0` stands before every version, pre-releases of 0 included; `*` after.
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
