//! Decides which of several statements a set follows, in this order:
//!
//! - a choice on the command line;
//! - a requirement of a build or a package; two different requirements are a contradiction. A file
//!   that names another version of the component that a build belongs to (`against` of
//!   upstreams.toml) describes another build and does not count;
//! - the versions that work together;
//! - the versions in upstream's images and tests, but only for components that the set takes from
//!   git, because these versions are tags and commits.

use serde::Serialize;

use super::source::note;
use super::{Contradiction, FurtherSource, Unreachable, Work};
use crate::error::Error;
use crate::names::ComponentName;
use crate::pins::upstream::{
    Claim, Statement, Upstream, Weight, is_commit_like, own_version, public, repository,
};
use crate::workspace::upstreams::{UpstreamOrigin, exact};
use crate::workspace::{Pin, Source, UPSTREAMS, VersionRange};

/// The origin of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Followed {
    /// `--from` on the command line.
    Given,
    /// `--choose` on the command line.
    Chosen,
    /// Upstream's files.
    Upstream,
    /// The table of versions that work together.
    Table,
    /// The base set, because nothing else states it.
    Base,
}

/// The version of one component, and the reasons for it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Decision {
    /// The version.
    pub version: String,
    /// The origin of the version.
    pub followed: Followed,
    /// Where it is stated, and the statements that were not followed.
    pub notes: Vec<String>,
    /// The origin of the digest or the commit.
    pub origin_notes: Vec<String>,
    /// The Python versions, and where they are stated.
    pub python: Option<(String, Vec<String>)>,
    /// The further sources: name, note, and the keys of their table.
    pub sources: Vec<FurtherSource>,
    /// The further sources that upstream's files mention; they replace those of the base
    /// set.
    #[serde(skip)]
    pub spoken: Vec<String>,
    /// The repository and the commit that upstream states, if any.
    #[serde(skip)]
    pub commit: Option<(Option<String>, Option<String>)>,
    /// The pin.
    #[serde(skip)]
    pub pin: Option<Pin>,
}

impl Decision {
    /// Returns a decision about a version.
    pub fn new(version: &str, followed: Followed, notes: Vec<String>) -> Self {
        Self {
            version: version.to_owned(),
            followed,
            notes,
            origin_notes: Vec::new(),
            python: None,
            sources: Vec::new(),
            spoken: Vec::new(),
            commit: None,
            pin: None,
        }
    }
}

/// Why there is no decision.
pub(super) enum Undecided {
    /// Upstream's files disagree.
    Contradiction(Contradiction),
    /// Another error.
    Failed(Error),
}

/// Returns the note of how a decision uses a statement.
fn use_of(statement: &Statement, decision: &Decision) -> String {
    let version = statement.claim.version();
    let same = version.is_none_or(|version| version == decision.version);
    let followed = statement.weight == Weight::Demand || version.is_some_and(|_| same);
    let how = match (same, followed) {
        (true, true) => "",
        (true, false) => "upstream's own build uses ",
        (false, _) => "ignored: ",
    };
    format!("{how}{}", note(statement))
}

impl Work<'_> {
    /// Decides the version of a component; `None` if nothing states it.
    pub(super) fn decide(&mut self, name: &str) -> Result<Option<Decision>, Undecided> {
        let (fits, other) = self.statements(name);
        let contradiction = |statements| {
            Undecided::Contradiction(Contradiction { about: name.to_owned(), statements })
        };
        let (demands, examples): (Vec<_>, Vec<_>) =
            fits.iter().partition(|statement| statement.weight == Weight::Demand);
        let mut versions: Vec<&str> = demands.iter().filter_map(|s| s.claim.version()).collect();
        versions.dedup();
        let distinct = versions.iter().any(|version| *version != versions[0]);
        let chosen = self.request.choices.get(name).copied();
        let table = self.table(name);
        let example = examples
            .iter()
            .find(|s| s.claim.version().is_some())
            .filter(|_| self.taken_from_git(name));
        let mut commits = demands.iter().filter_map(|statement| match &statement.claim {
            Claim::Commit { git, commit } if commit.len() >= 40 => Some((git, commit, *statement)),
            _ => None,
        });
        let commit = commits.next();
        let differ =
            commit.is_some_and(|(_, first, _)| commits.any(|(_, other, _)| other != first));
        if chosen.is_none() && differ {
            return Err(contradiction(fits.clone()));
        }
        let mut decision = match (chosen, versions.first(), &table, example) {
            (Some(version), ..) => Decision::new(
                version,
                Followed::Chosen,
                vec![format!("chosen: --choose {name}={version}")],
            ),
            (None, Some(_), ..) if distinct => {
                let mut statements: Vec<Statement> = fits.clone();
                statements.retain(|statement| statement.claim.version().is_some());
                return Err(contradiction(statements));
            }
            (None, Some(version), ..) => Decision::new(version, Followed::Upstream, Vec::new()),
            (None, None, Some((version, source)), _) => {
                Decision::new(version, Followed::Table, vec![format!("{UPSTREAMS}: {source}")])
            }
            (None, None, None, Some(example)) => Decision::new(
                example.claim.version().unwrap_or_default(),
                Followed::Upstream,
                Vec::new(),
            ),
            (None, None, None, None) => match &commit {
                Some((git, commit, _)) => {
                    let version = self.version_of_commit(name, git.as_deref(), commit);
                    match version.map_err(Undecided::Failed)? {
                        Some((version, note)) => {
                            Decision::new(&version, Followed::Upstream, vec![note])
                        }
                        None => return Ok(None),
                    }
                }
                _ => return Ok(None),
            },
        };
        // The commit's own note names its statement.
        let of_commit = commit.map(|(_, _, statement)| statement).filter(|_| chosen.is_none());
        let noted = fits.iter().filter(|statement| of_commit != Some(*statement));
        let notes: Vec<String> = noted.map(|statement| use_of(statement, &decision)).collect();
        decision.notes.extend(notes);
        let against = self.upstreams().component(name).and_then(|known| known.against.as_deref());
        for statement in &other {
            let base = against.unwrap_or_default();
            decision.notes.push(format!("for another {base}: {}", note(statement)));
        }
        if let Some((git, commit, statement)) = commit {
            // A chosen version has its own commit.
            if chosen.is_none() {
                decision.commit = Some((git.clone(), Some(commit.clone())));
                decision.origin_notes.push(note(statement));
            }
        } else if chosen.is_none() {
            decision.commit = self.other_repository(name, &demands);
        }
        Ok(Some(decision))
    }

    /// Returns the statements about the version of a component: those for this set, and those for
    /// another base.
    fn statements(&self, name: &str) -> (Vec<Statement>, Vec<Statement>) {
        let all = self.read.values().flat_map(|read| read.about(name));
        let of_versions = all.filter(|statement| {
            matches!(&statement.claim, Claim::Version(_) | Claim::Tag { .. } | Claim::Commit { .. })
        });
        of_versions.cloned().partition(|statement| self.belongs_to_set(name, statement))
    }

    /// Returns the version of a component at a commit, and where it is stated: the first digits of the
    /// commit if the base set has them, else the version of the component in the same repository.
    fn version_of_commit(
        &mut self,
        name: &str,
        git: Option<&str>,
        commit: &str,
    ) -> Result<Option<(String, String)>, Error> {
        if let Some(base) = self.base_pin(name)
            && let Source::Git { commit: Some(old), .. } = &base.source
        {
            let set = &self.request.base.name;
            if old == commit {
                let note = format!("the version that pins/{set}.toml has for this commit");
                return Ok(Some((base.version.clone(), note)));
            }
            if is_commit_like(&base.version) && old.starts_with(&base.version) {
                let version = &commit[..base.version.len().min(commit.len())];
                let note = format!("the first digits of the commit, as in pins/{set}.toml");
                return Ok(Some((version.to_owned(), note)));
            }
        }
        let known = self.upstreams().component(name);
        let Some(of) = known.and_then(|known| known.version_of.as_deref()) else { return Ok(None) };
        let statements = self.read.values().flat_map(|read| read.about(of));
        let label =
            statements.filter(|s| matches!(s.claim, Claim::Version(_))).find_map(|statement| {
                let word =
                    statement.written.split(['=', ' ']).rfind(|word| word.contains("+git"))?;
                Some((labelled(word, commit)?.to_owned(), note(statement)))
            });
        if label.is_some() {
            return Ok(label);
        }
        let url = match (git, known.and_then(|known| known.origin.as_ref())) {
            (Some(git), _) => git.to_owned(),
            (None, Some(UpstreamOrigin::Git { url, .. })) => url.clone(),
            (None, _) => return Ok(None),
        };
        let Some(component) = ComponentName::parse(name) else { return Ok(None) };
        let source = Source::Git {
            url,
            commit: Some(commit.to_owned()),
            submodules: false,
            paths: Vec::new(),
        };
        let at = format!("{of} at {}", &commit[..8]);
        match self.reader.tree(&Pin::new(component, &commit[..8], source)) {
            Ok(tree) => {
                let found = own_version(self.upstreams(), of, &at, &tree.dir);
                Ok(found.and_then(|found| Some((found.claim.version()?.to_owned(), note(&found)))))
            }
            Err(error) => {
                let values = vec![format!("the version of {name}")];
                let source = format!("{of} at commit {commit}");
                self.unreachable.push(Unreachable::new(source, values, error.into())?);
                Ok(None)
            }
        }
    }

    /// Returns the repository of a required tag, if the set takes the component from git.
    fn other_repository(
        &self,
        name: &str,
        demands: &[&Statement],
    ) -> Option<(Option<String>, Option<String>)> {
        let git = demands.iter().find_map(|statement| match &statement.claim {
            Claim::Tag { git: Some(git), .. } => Some(git),
            _ => None,
        })?;
        match self.base_pin(name).map(|pin| &pin.source) {
            Some(Source::Git { url, .. }) if repository(url) == git => None,
            Some(Source::Git { .. }) | None => Some((Some(git.clone()), None)),
            // The set takes it from elsewhere, by its version.
            Some(_) => None,
        }
    }

    /// Returns whether a statement describes the build in the set.
    fn belongs_to_set(&self, name: &str, statement: &Statement) -> bool {
        let against = self.upstreams().component(name).and_then(|known| known.against.as_deref());
        let Some((base, decided)) =
            against.and_then(|base| Some((base, self.decisions.get(base)?)))
        else {
            return true;
        };
        let mut stated = self.read.values().flat_map(|read| read.about(base));
        stated.all(|other| {
            !other.place.is_same_file(&statement.place)
                || other.claim.version().is_none_or(|version| version == decided.version)
        })
    }

    /// Returns the version that works with the decided ones, and where that is stated.
    fn table(&self, name: &str) -> Option<(String, String)> {
        self.upstreams().components.iter().find_map(|other| {
            let decided = self.decisions.get(&other.name)?;
            let row = self.upstreams().together(&other.name, &decided.version)?;
            let version = exact(row.with.get(name)?)?;
            Some((
                version.to_owned(),
                format!("{} {}: {}", other.name, decided.version, row.source),
            ))
        })
    }

    /// Returns whether the set takes a component from git.
    fn taken_from_git(&self, name: &str) -> bool {
        match self.base_pin(name) {
            Some(pin) => matches!(pin.source, Source::Git { .. }),
            None => {
                let known = self.upstreams().component(name);
                matches!(
                    known.and_then(|known| known.origin.as_ref()),
                    Some(UpstreamOrigin::Git { .. })
                )
            }
        }
    }

    /// Adds the Python versions and the further sources that a component's own files state.
    pub(super) fn complete(&mut self, name: &str) -> Result<(), Error> {
        let read = self.read.get(name).cloned().unwrap_or_default();
        let version = self.decisions[name].version.clone();
        let python = self.python(name, &version, &read);
        let (sources, spoken) = self.further_sources(name, &version, &read)?;
        if let Some(decision) = self.decisions.get_mut(name) {
            decision.python = python;
            decision.sources = sources;
            decision.spoken = spoken;
        }
        Ok(())
    }

    /// Returns the Python versions: those in the upstream files, with the upper bound of `[[together]]` if
    /// they have none.
    fn python(&self, name: &str, version: &str, read: &Upstream) -> Option<(String, Vec<String>)> {
        let row = self.upstreams().together(name, version);
        let table = row.and_then(|row| Some((row.python.clone()?, &row.source)));
        let stated = read.about(name).find_map(|statement| match &statement.claim {
            Claim::Python(range) => {
                Some((VersionRange::parse(range)?.to_string(), note(statement)))
            }
            _ => None,
        });
        match (stated, table) {
            (Some((range, note)), Some((table, source))) if !range.contains('<') => {
                let bounds: Vec<&str> =
                    table.split(", ").filter(|part| part.starts_with(['<', '!'])).collect();
                if bounds.is_empty() {
                    return Some((range, vec![note]));
                }
                let bounds = bounds.join(", ");
                let more = format!("{UPSTREAMS}: {bounds}: {source}");
                Some((format!("{range}, {bounds}"), vec![note, more]))
            }
            (Some((range, note)), _) => Some((range, vec![note])),
            (None, Some((table, source))) => Some((table, vec![format!("{UPSTREAMS}: {source}")])),
            (None, None) => None,
        }
    }
}

/// Returns the version in a text such as `3.8.0+git669b31ac` whose label has the first digits of
/// this commit.
fn labelled<'v>(version: &'v str, commit: &str) -> Option<&'v str> {
    let (_, label) = version.split_once("+git")?;
    let label = label.split('.').next()?;
    (label.len() >= 7 && commit.starts_with(label)).then(|| public(version))
}
