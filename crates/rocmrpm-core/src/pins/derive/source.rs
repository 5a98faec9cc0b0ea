//! Further sources that a component's own files state: repositories at a commit or tag, and the crates
//! of a lock file.

use serde::Serialize;

use super::{Unreachable, Work, for_reading};
use crate::error::Error;
use crate::names::ComponentName;
use crate::pins::upstream::{Claim, Statement, Upstream, UpstreamLocation, cmake};
use crate::sources::Resolved;
use crate::workspace::upstreams::{States, UpstreamSource};
use crate::workspace::{Pin, Source};

/// The name of the further source with the crates of a component.
const CRATES: &str = "crates";

pub(super) fn note(statement: &Statement) -> String {
    format!("{}: {}", statement.place, statement.written)
}

/// A further source that follows from upstream's files.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FurtherSource {
    /// Its name.
    pub name: String,
    /// Where it is stated.
    pub notes: Vec<String>,
    /// The version, if it differs from the component's.
    pub version: Option<String>,
    /// A repository and its commit.
    pub git: Option<(String, String)>,
    /// A lock file of crates.
    pub cargo_vendor: Option<String>,
    /// The packed folders, if the base set does not name them.
    #[serde(skip)]
    pub paths: Vec<String>,
}

impl Work<'_> {
    /// Returns a component's further sources, and all names that its files can state.
    pub(super) fn further_sources(
        &mut self,
        name: &str,
        version: &str,
        read: &Upstream,
    ) -> Result<(Vec<FurtherSource>, Vec<String>), Error> {
        let (mut sources, mut spoken) = (Vec::new(), Vec::new());
        let files = self.upstreams().files.iter().filter(|file| file.of == name);
        if files.flat_map(|file| &file.facts).any(|fact| fact.states == States::Crates) {
            spoken.push(CRATES.to_owned());
            sources.extend(crates(name, read));
        }
        for known in self.upstreams().sources_of(name, version) {
            // The set has it as a component of its own.
            if self.upstreams().component(&known.name).is_some() && self.wanted(&known.name) {
                continue;
            }
            spoken.push(known.name.clone());
            let Some(statement) =
                read.about(&known.name).find(|statement| is_revision(&statement.claim))
            else {
                continue;
            };
            match self.further_source(known, statement) {
                Ok(found) => sources.extend(found),
                Err(error) => {
                    let value = match &known.version {
                        Some((file, _)) => format!("the version of {}, from {file}", known.name),
                        None => format!("the commit of {}", known.name),
                    };
                    let source = format!("{} of {name} {version}", known.name);
                    self.unreachable.push(Unreachable::new(source, vec![value], error)?);
                }
            }
        }
        Ok((sources, spoken))
    }

    fn further_source(
        &self,
        known: &UpstreamSource,
        statement: &Statement,
    ) -> Result<Option<FurtherSource>, Error> {
        let mut notes = vec![note(statement)];
        let (stated, commit) = match &statement.claim {
            Claim::Commit { git, commit } => (git, Some(commit.clone())),
            Claim::Tag { git, .. } => (git, None),
            _ => (&None, None),
        };
        let base = self.base_pin(&known.of).and_then(|pin| pin.sources.get(&known.name));
        let base = base.and_then(|pin| match &pin.source {
            Source::Git { url, commit, .. } => Some((url, commit.as_ref(), &pin.version)),
            _ => None,
        });
        let unchanged = base.filter(|(_, old, _)| old.is_some() && *old == commit.as_ref());
        let url = match (stated, base) {
            (Some(git), _) => git,
            // A packager's own repository has its own contents. An upstream repository can be that
            // of other versions, even for the same commit.
            (None, Some((url, ..))) if !self.upstreams().has_repository(known, url) => url,
            (None, _) => &known.git,
        };
        let version = match (unchanged, &known.version, &commit) {
            (Some((.., version)), Some(_), _) => Some(version.clone()),
            (None, Some((file, form)), Some(commit)) => {
                self.version_at(known, url, commit, file, form, &mut notes)?
            }
            _ => statement.claim.version().map(str::to_owned),
        };
        let Some(component) = ComponentName::parse(&format!("{}-{}", known.of, known.name)) else {
            return Ok(None);
        };
        let source = Source::Git { url: url.clone(), commit, submodules: false, paths: Vec::new() };
        let mut pin = Pin::new(component, version.clone().unwrap_or_default(), source);
        let resolved: Resolved = self.fetcher.resolve(&pin)?;
        resolved.settle(&mut pin);
        let Source::Git { commit: Some(commit), .. } = pin.source else { return Ok(None) };
        Ok(Some(FurtherSource {
            name: known.name.clone(),
            notes,
            version,
            git: Some((url.clone(), commit)),
            cargo_vendor: None,
            paths: known.paths.clone(),
        }))
    }

    /// Reads the version of a source at a commit from a CMake file: `23.0.0git1f126a6d`.
    fn version_at(
        &self,
        known: &UpstreamSource,
        url: &str,
        commit: &str,
        file: &str,
        form: &str,
        notes: &mut Vec<String>,
    ) -> Result<Option<String>, Error> {
        let Some(component) = ComponentName::parse(&format!("{}-{}", known.of, known.name)) else {
            return Ok(None);
        };
        let short = commit.get(..8).unwrap_or(commit);
        let source = Source::Git {
            url: url.to_owned(),
            commit: Some(commit.to_owned()),
            submodules: false,
            paths: Vec::new(),
        };
        let folder = file.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        let pin = for_reading(&Pin::new(component, short, source), folder.into_iter().collect());
        let text = self.reader.tree(&pin)?.text(file)?.unwrap_or_default();
        let commands = cmake::commands(&text).unwrap_or_default();
        let values = cmake::evaluate(&commands, &Default::default()).variables;
        let mut version = form.replace("{commit}", short);
        for (name, value) in &values {
            version = version.replace(&format!("{{{name}}}"), &value.text);
        }
        if !crate::names::is_version(&version) {
            notes.push(format!("its version is unknown: {file} does not set all of {form}"));
            return Ok(None);
        }
        let first = values.iter().filter(|(name, _)| form.contains(&format!("{{{name}}}")));
        let line = first.map(|(_, value)| value.line).min().unwrap_or(0);
        let place = UpstreamLocation { of: known.name.clone(), file: file.to_owned(), line };
        notes.push(format!("{place}: {version}"));
        Ok(Some(version))
    }
}

fn is_revision(claim: &Claim) -> bool {
    matches!(claim, Claim::Commit { .. } | Claim::Tag { .. })
}

/// Returns a component's crates as a further source, if it has a lock file of crates.
fn crates(name: &str, read: &Upstream) -> Option<FurtherSource> {
    let statement =
        read.about(name).find(|statement| matches!(statement.claim, Claim::Crates(_)))?;
    let rust = read.about(name).find(|statement| matches!(statement.claim, Claim::Rust(_)));
    Some(FurtherSource {
        name: CRATES.to_owned(),
        notes: [Some(statement), rust].into_iter().flatten().map(note).collect(),
        version: None,
        git: None,
        cargo_vendor: Some(statement.place.file.clone()),
        paths: Vec::new(),
    })
}
