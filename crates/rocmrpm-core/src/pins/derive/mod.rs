//! Derives a pin set from the version of one component by reading upstream's files. `decide` chooses
//! between statements, and `write` writes the set.

mod decide;
mod error;
mod source;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use decide::Undecided;
pub use decide::{Decision, Followed};
pub use error::{Contradiction, DeriveError, Unreachable};
pub use source::FurtherSource;

use super::upstream::{self, Oddity, Upstream};
use crate::error::{Error, Kind};
use crate::names::{ComponentName, nearest};
use crate::sources::{Fetcher, Resolved, SourceError, Tree};
use crate::workspace::upstreams::UpstreamOrigin;
use crate::workspace::{Lock, Pin, PinSet, Source, Upstreams};

/// The input of a derivation.
pub struct Request<'a> {
    /// The component and the version to derive from.
    pub from: (&'a str, &'a str),
    /// The versions chosen on the command line where upstream's files disagree.
    pub choices: BTreeMap<&'a str, &'a str>,
    /// The set with the sources, and with the versions that upstream's files do not state.
    pub base: &'a PinSet,
    /// What the stack knows about upstream projects.
    pub upstreams: &'a Upstreams,
    /// Returns whether the workspace has such a component.
    pub has_component: &'a dyn Fn(&str) -> bool,
}

/// A derived set.
#[derive(Debug)]
pub struct Derived {
    /// The file's text.
    pub text: String,
    /// The decision about every component.
    pub decisions: BTreeMap<String, Decision>,
    /// Oddities in upstream's files that do not affect the set.
    pub oddities: Vec<Oddity>,
}

/// The state of the derivation.
struct Work<'a> {
    request: &'a Request<'a>,
    fetcher: &'a Fetcher<'a>,
    reader: &'a Fetcher<'a>,
    base: write::Base,
    read: BTreeMap<String, Upstream>,
    decisions: BTreeMap<String, Decision>,
    unreachable: Vec<Unreachable>,
}

/// The result of a derivation.
#[derive(Debug)]
pub enum Outcome {
    /// A set.
    Set(Derived),
    /// Upstream's files disagree, so a choice is needed.
    Contradictions {
        /// The contradictions.
        list: Vec<Contradiction>,
        /// Sources that could not be fetched.
        unreachable: Vec<Unreachable>,
    },
}

/// Derives a complete set, or returns nothing. `fetcher` finds digests and commits; `reader` fetches
/// sources only to read them, without submodules.
pub fn derive<'a>(
    request: &'a Request<'a>,
    fetcher: &'a Fetcher<'a>,
    reader: &'a Fetcher<'a>,
) -> Result<Outcome, Error> {
    let (from, version) = request.from;
    let readable = request.upstreams.readable();
    if !readable.contains(&from) {
        let known = readable.join(", ");
        return Err(DeriveError::NotReadable { name: from.to_owned(), known }.into());
    }
    let base = write::Base::read(request.base)?;
    let mut work = Work {
        request,
        fetcher,
        reader,
        base,
        read: BTreeMap::new(),
        decisions: BTreeMap::new(),
        unreachable: Vec::new(),
    };
    work.check_choices()?;
    let given =
        Decision::new(version, Followed::Given, vec![format!("given: --from {from}={version}")]);
    work.settle(from, given)?;
    let mut contradictions = Vec::new();
    for component in &request.upstreams.components {
        let name = component.name.as_str();
        if name == from || !work.wanted(name) {
            continue;
        }
        match work.decide(name) {
            Ok(Some(decision)) => work.settle(name, decision)?,
            Ok(None) => {}
            Err(Undecided::Failed(error)) => return Err(error),
            Err(Undecided::Contradiction(contradiction)) => {
                contradictions.push(contradiction);
                // Builds that belong to one of its versions are unknown without it.
                if request.upstreams.bases().contains(name) {
                    break;
                }
            }
        }
    }
    if !contradictions.is_empty() {
        let unreachable = work.unreachable;
        return Ok(Outcome::Contradictions { list: contradictions, unreachable });
    }
    let (blocking, oddities): (Vec<_>, Vec<_>) = work
        .read
        .values()
        .flat_map(|read| read.oddities.clone())
        .partition(|oddity| work.blocks(oddity));
    if !blocking.is_empty() {
        return Err(DeriveError::Odd { list: blocking, unreachable: work.unreachable }.into());
    }
    if !work.unreachable.is_empty() {
        return Err(DeriveError::Unreachable(work.unreachable).into());
    }
    let text = work.text()?;
    Ok(Outcome::Set(Derived { text, decisions: work.decisions, oddities }))
}

impl<'a> Work<'a> {
    fn upstreams(&self) -> &'a Upstreams {
        self.request.upstreams
    }

    /// Returns the base set's pin of a component.
    fn base_pin(&self, name: &str) -> Option<&'a Pin> {
        let pins = &self.request.base.pins;
        pins.iter().find(|(key, _)| key.as_str() == name).map(|(_, at)| &at.value)
    }

    /// Returns whether a component can be in the set.
    fn wanted(&self, name: &str) -> bool {
        self.base.has(name) || (self.request.has_component)(name)
    }

    fn check_choices(&self) -> Result<(), DeriveError> {
        let components = &self.upstreams().components;
        let known = || components.iter().map(|known| known.name.as_str()).chain(self.base.names());
        for name in self.request.choices.keys() {
            if *name == self.request.from.0 || !known().any(|known| known == *name) {
                let near = nearest(name, known()).map(str::to_owned);
                return Err(DeriveError::Choice { name: (*name).to_owned(), near });
            }
        }
        Ok(())
    }

    /// Returns whether an oddity leaves a version of the set unknown: the file would have stated it,
    /// and it was not chosen on the command line.
    fn blocks(&self, oddity: &Oddity) -> bool {
        oddity.about.iter().any(|name| {
            let is_source = self.upstreams().component(name).is_none()
                && self.upstreams().sources.iter().any(|source| source.name == *name);
            let of_set = is_source || self.wanted(name);
            of_set
                && name != self.request.from.0
                && !self.request.choices.contains_key(name.as_str())
        })
    }

    /// Finds the source of a decided component, and reads it if it has declared files.
    fn settle(&mut self, name: &str, decision: Decision) -> Result<(), Error> {
        let version = decision.version.clone();
        self.decisions.insert(name.to_owned(), decision);
        match self.source(name) {
            Ok(read) => {
                if let Some(tree) = read {
                    let upstream = upstream::read(self.upstreams(), name, &version, &tree.dir);
                    self.read.insert(name.to_owned(), upstream);
                }
                self.complete(name)
            }
            // Without its own version, nothing else is known.
            Err(error) if name == self.request.from.0 && error.kind() != Kind::Network => {
                Err(error)
            }
            Err(error) => {
                let lost = self.out_of_reach(name, &version, error)?;
                self.unreachable.push(lost);
                Ok(())
            }
        }
    }

    /// Pins the source of a decided component; returns it unpacked if it has declared files.
    fn source(&mut self, name: &str) -> Result<Option<Tree>, Error> {
        let mut pin = self.pin(name)?;
        let reads = self.upstreams().readable().contains(&name);
        let resolved = if pin.source.is_immutable() {
            Resolved::Folder
        } else {
            self.fetcher.resolve(&pin)?
        };
        if let (Resolved::Commit { tag: Some(tag), .. }, Some(decision)) =
            (&resolved, self.decisions.get_mut(name))
        {
            decision.origin_notes.push(format!("tag {tag}"));
        }
        resolved.settle(&mut pin);
        if let Some(decision) = self.decisions.get_mut(name) {
            decision.pin = Some(pin.clone());
        }
        Ok(if reads { Some(self.reader.tree(&for_reading(&pin, Vec::new()))?) } else { None })
    }

    /// Returns the source of a decided component, with digest and commit if they are known.
    fn pin(&self, name: &str) -> Result<Pin, Error> {
        let decision = &self.decisions[name];
        let version = decision.version.as_str();
        let no_origin = || DeriveError::NoOrigin { name: name.to_owned() };
        let component = ComponentName::parse(name).ok_or_else(no_origin)?;
        let origin = self.upstreams().component(name).and_then(|known| known.origin.as_ref());
        let mut pin = match self.base_pin(name) {
            Some(pin) if pin.version == version => pin.clone(),
            Some(_) => self.other_version(name, version)?,
            None => {
                let source = match origin.ok_or_else(no_origin)? {
                    UpstreamOrigin::Git { url, submodules, paths } => Source::Git {
                        url: url.clone(),
                        commit: None,
                        submodules: *submodules,
                        paths: paths.clone(),
                    },
                    UpstreamOrigin::Sdist(project) => {
                        Source::Sdist { project: project.clone(), sha256: None }
                    }
                };
                Pin::new(component, version, source)
            }
        };
        if let Some((git, found)) = &decision.commit {
            let (submodules, paths) = match &pin.source {
                Source::Git { submodules, paths, .. } => (*submodules, paths.clone()),
                _ => match origin {
                    Some(UpstreamOrigin::Git { paths, .. }) => (false, paths.clone()),
                    _ => (false, Vec::new()),
                },
            };
            let own = match &pin.source {
                Source::Git { url, .. } => Some(url.clone()),
                _ => None,
            };
            // Use the set's spelling of the repository.
            let url = match (git, own) {
                (Some(git), Some(own)) if upstream::repository(&own) == git => own,
                (Some(git), _) => git.clone(),
                (None, Some(own)) => own,
                // The set takes it from elsewhere, where commits do not apply.
                (None, None) => return Ok(pin),
            };
            pin.top_folder = None;
            pin.source = Source::Git { url, commit: found.clone(), submodules, paths };
        }
        Ok(pin)
    }

    /// Lists the values that are unknown without the source of a decided component.
    fn out_of_reach(&self, name: &str, version: &str, error: Error) -> Result<Unreachable, Error> {
        let mut values = Vec::new();
        if self.decisions[name].pin.is_none() {
            values.push(format!("the digest of {name} {version}, or the commit of its tag"));
        }
        let mut named = BTreeSet::new();
        for file in self.upstreams().files_of(name, version) {
            let paths = file.paths.join(" or ");
            for about in &file.about {
                if named.insert((about, paths.clone())) {
                    values.push(format!("{about}, from {paths}"));
                }
            }
        }
        Unreachable::new(format!("{name} {version}"), values, error)
    }

    /// Returns the base set's pin for another version.
    fn other_version(&self, name: &str, version: &str) -> Result<Pin, Error> {
        let overrides = [(name.to_owned(), version.to_owned())].into_iter().collect();
        let base = self.request.base;
        let set = PinSet::read(
            &base.name,
            base.file.clone(),
            &Lock::default(),
            &overrides,
            &mut Vec::new(),
        );
        let pin =
            set.pins.into_iter().find(|(key, _)| key.as_str() == name).map(|(_, at)| at.value);
        let mut pin = pin.ok_or_else(|| DeriveError::NoOrigin { name: name.to_owned() })?;
        pin.overridden = false;
        if let Some((_, old)) = base.pins.iter().find(|(key, _)| key.as_str() == name) {
            pin.top_folder =
                pin.top_folder.map(|folder| folder.replace(&old.value.version, version));
        }
        Ok(pin)
    }
}

/// Returns a pin for reading text only: without submodules, and with only some folders if they are
/// enough.
pub(super) fn for_reading(pin: &Pin, only: Vec<String>) -> Pin {
    let mut pin = pin.clone();
    if let Source::Git { submodules, paths, .. } = &mut pin.source {
        *submodules = false;
        *paths = only;
    }
    pin
}

impl From<SourceError> for DeriveError {
    fn from(error: SourceError) -> Self {
        Self::Source(Box::new(error))
    }
}
