//! Fetches the offers of the declared outside indexes for distributions, each once per run and in
//! parallel. It also matches offers with requirements, but does not decide what a mismatch means.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::{Operator, Version};

use python_packaging::environment::Environment;
use python_packaging::needs::Need;
use python_packaging::wheel::FileName;
use rocmrpm_base::parallel;
use rocmrpm_fetch::{self as sources, Cache, ProjectFile, SourceError};

/// The number of parallel requests.
const PARALLEL_REQUESTS: usize = 8;

/// A package index as configured in a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexSource {
    /// The index that pip is configured with on this machine.
    Pip,
    /// The root URL of a Simple API.
    Url(String),
}

/// An outside index.
#[derive(Clone)]
pub struct Outside {
    /// The URL without credentials, for messages and files.
    pub shown: String,
    /// The URL for requests, which may have credentials.
    pub url: String,
}

/// Resolves the declared indexes to URLs, without duplicates.
pub fn declared(indexes: &[IndexSource]) -> Result<Vec<Outside>, SourceError> {
    let mut found: Vec<Outside> = Vec::new();
    for index in indexes {
        let url = match index {
            IndexSource::Pip => sources::as_url(&sources::pip_index()?)?,
            IndexSource::Url(url) => url.clone(),
        };
        let shown = sources::shown_url(&url);
        if found.iter().all(|known| known.shown != shown) {
            found.push(Outside { shown, url });
        }
    }
    Ok(found)
}

/// The answers of the indexes for a distribution, in the order of declaration.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The files of each index; empty if the index does not have the distribution.
    pub offers: Vec<(String, Vec<OfferedFile>)>,
    /// Errors of indexes that did not answer.
    pub failures: Vec<String>,
}

/// A file in an index.
#[derive(Debug)]
pub(super) struct OfferedFile {
    pub version: Version,
    /// The tags of a wheel; `None` for a source distribution.
    tags: Option<BTreeSet<String>>,
    requires_python: Option<String>,
    yanked: bool,
}

impl OfferedFile {
    fn of(file: &ProjectFile, project: &str) -> Option<Self> {
        let (version, tags) = match file.sdist_version(project) {
            Some(version) => (version, None),
            None => {
                let name =
                    FileName::parse(&file.name).ok().filter(|name| name.distribution == project)?;
                (name.version, Some(name.tags))
            }
        };
        let (requires_python, yanked) = (file.requires_python.clone(), file.yanked);
        Some(Self { version, tags, requires_python, yanked })
    }

    fn suits(&self, environment: &Environment) -> bool {
        environment.allows(self.requires_python.as_deref())
            && self.tags.as_ref().is_none_or(|tags| tags.iter().any(|tag| environment.takes(tag)))
    }
}

/// How well an index satisfies a requirement.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// A wheel that an installer accepts.
    Wheel,
    /// Only a source distribution, which an installer would build.
    Sdist(Version),
    /// Nothing; the text describes the alternatives.
    Nothing(String),
}

/// Matches the offers of an index with a requirement. If `held` is given, only that version counts.
pub(super) fn satisfy(
    need: &Need,
    offers: &[OfferedFile],
    held: Option<&Version>,
    environment: &Environment,
) -> Match {
    if offers.is_empty() {
        return Match::Nothing("has no such distribution".into());
    }
    // A yanked file counts if the requirement pins its exact version (PEP 592, "Installers").
    let exact = need.specifiers().is_some_and(|specifiers| {
        specifiers.iter().any(|s| matches!(s.operator(), Operator::Equal | Operator::ExactEqual))
    });
    let exact = exact || held.is_some();
    let wanted =
        |o: &&OfferedFile| held.map_or_else(|| need.takes(&o.version), |held| o.version == *held);
    let versions: Vec<&OfferedFile> =
        offers.iter().filter(|o| wanted(o) && (exact || !o.yanked)).collect();
    if let Some(held) = held.filter(|_| versions.is_empty()) {
        return Match::Nothing(format!("has no {held}, which the closure's lock file pins"));
    }
    if versions.is_empty() {
        let newest = offers.iter().filter(|o| !o.yanked).map(|o| &o.version).max();
        return Match::Nothing(match newest {
            Some(newest) => format!("has no such version; its newest is {newest}"),
            None => "has only yanked files".into(),
        });
    }
    let suitable: Vec<&&OfferedFile> =
        versions.iter().filter(|offer| offer.suits(environment)).collect();
    if suitable.iter().any(|offer| offer.tags.is_some()) {
        return Match::Wheel;
    }
    match (suitable.iter().map(|o| &o.version).max(), versions.iter().map(|o| &o.version).max()) {
        (Some(version), _) => Match::Sdist(version.clone()),
        (None, Some(version)) => Match::Nothing(format!(
            "has matching versions, up to {version}, but only for other Pythons or platforms"
        )),
        (None, None) => Match::Nothing("has no matching file".into()),
    }
}

/// Queries every index for every distribution, in parallel. Only an interruption is an error; an
/// index that does not answer is recorded in the answers.
pub(super) fn ask(
    indexes: &[Outside],
    names: &BTreeSet<&str>,
) -> Result<BTreeMap<String, Answers>, SourceError> {
    let cache = Cache::from_env()?;
    let tasks: Vec<(&str, &Outside)> =
        names.iter().flat_map(|name| indexes.iter().map(move |index| (*name, index))).collect();
    let found = parallel::map(&tasks, PARALLEL_REQUESTS, |(name, index)| {
        sources::project_files(&cache, &index.url, name)
    })?;
    let mut answers: BTreeMap<String, Answers> = BTreeMap::new();
    for ((name, index), found) in tasks.into_iter().zip(found) {
        let of = answers.entry(name.to_owned()).or_default();
        match found {
            Ok(files) => {
                let files = files.unwrap_or_default();
                let offers = files.iter().filter_map(|file| OfferedFile::of(file, name)).collect();
                of.offers.push((index.shown.clone(), offers));
            }
            Err(error @ SourceError::Process(_)) => return Err(error),
            Err(error) => of.failures.push(error.to_string()),
        }
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;
    use python_packaging::needs::Needs;

    fn file(name: &str, python: Option<&str>, yanked: bool) -> ProjectFile {
        ProjectFile {
            name: name.into(),
            url: String::new(),
            sha256: None,
            size: None,
            requires_python: python.map(str::to_owned),
            yanked,
            metadata: None,
            upload_time: None,
            foreign: false,
        }
    }

    #[test]
    fn matches_versions_pythons_tags_and_yanks() {
        let here = Environment::new("3.14", "x86_64", Some((2, 42))).unwrap();
        let files = [
            file("numpy-1.0-py3-none-any.whl", None, false),
            file("numpy-2.0-cp313-cp313-manylinux_2_28_x86_64.whl", None, false),
            file("numpy-3.0-py3-none-any.whl", Some(">=3.15"), false),
            file("numpy-4.0.tar.gz", None, false),
            file("numpy-5.0-py3-none-any.whl", None, true),
            file("numpy_other-9-py3-none-any.whl", None, false),
        ];
        let offers: Vec<OfferedFile> =
            files.iter().filter_map(|f| OfferedFile::of(f, "numpy")).collect();
        assert_eq!(offers.len(), 5);
        let matched = |text: &str| {
            let needs = Needs::read(&format!("Requires-Dist: numpy{text}\n"));
            satisfy(&needs.requires[0], &offers, None, &here)
        };
        assert_eq!(matched(""), Match::Wheel);
        assert_eq!(matched("==5.0"), Match::Wheel);
        assert_eq!(matched(">=4"), Match::Sdist(Version::from_str("4.0").unwrap()));
        for (text, expected) in [
            ("==2.0", "other Pythons or platforms"),
            ("==3.0", "up to 3.0"),
            (">=6", "newest is 4.0"),
        ] {
            let Match::Nothing(what) = matched(text) else { panic!("{text}") };
            assert!(what.contains(expected), "{text}: {what}");
        }
        let needs = Needs::read("Requires-Dist: numpy\n");
        let held = |version: &str| {
            let version = Version::from_str(version).unwrap();
            satisfy(&needs.requires[0], &offers, Some(&version), &here)
        };
        assert_eq!(
            (held("1.0"), held("5.0")),
            (Match::Wheel, Match::Wheel),
            "a yanked version is locked on purpose"
        );
        assert_eq!(
            held("9"),
            Match::Nothing("has no 9, which the closure's lock file pins".into())
        );
    }
}
