//! Which of several statements a set follows.
//!
//! - What was chosen on the command line counts before everything.
//! - What a build or a package demands counts next; where two demands differ, upstream
//!   contradicts itself.
//! - A file that names another torch than the set's says nothing about what is built
//!   against torch: its versions belong together.
//! - Then the table of what goes together counts.
//! - What upstream's images and tests use counts last, and for components that the set takes
//!   from git alone, because their versions are tags and commits.

use serde::Serialize;

use super::{Contradiction, Unreachable, Work, for_reading};
use crate::error::{Diagnose, Error, Kind};
use crate::names::ComponentName;
use crate::pins::compat;
use crate::pins::upstream::{self, Place, Says, Statement, Upstream, Weight, cmake, public, repository};
use crate::sources::Resolved;
use crate::workspace::{Pin, Source, VersionRange};

/// What a version follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Followed {
    /// It was begun with.
    Given,
    /// It was chosen on the command line.
    Chosen,
    /// Upstream's files say it.
    Upstream,
    /// The table of what goes together says it.
    Table,
    /// Nothing speaks of it: it is the base set's.
    Base,
}

/// What became of one component, and why.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Decision {
    /// Its version.
    pub version: String,
    /// What that follows from.
    pub followed: Followed,
    /// Where that stands, and what else is said.
    pub notes: Vec<String>,
    /// Where digest or commit come from.
    pub origin_notes: Vec<String>,
    /// The Pythons, and where they stand.
    pub python: Option<(String, Vec<String>)>,
    /// The further sources: name, note, and the keys of their table.
    pub sources: Vec<FurtherSource>,
    /// The names of further sources that upstream's files speak of, so that the base set's do
    /// not stay.
    #[serde(skip)]
    pub spoken: Vec<&'static str>,
    /// The repository and the commit that upstream names, where it names one.
    #[serde(skip)]
    pub commit: Option<(Option<String>, Option<String>)>,
    /// The pin.
    #[serde(skip)]
    pub pin: Option<Pin>,
}

/// A further source that follows from upstream's files.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FurtherSource {
    /// Its name.
    pub name: &'static str,
    /// Where that stands.
    pub notes: Vec<String>,
    /// The version, where it is one of its own.
    pub version: Option<String>,
    /// A repository and its commit.
    pub git: Option<(String, String)>,
    /// A lock file of crates.
    pub cargo_vendor: Option<&'static str>,
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
    /// Upstream contradicts itself.
    Contradiction(Contradiction),
    /// Something else is wrong.
    Failed(Error),
}

/// What is built against one torch.
const AGAINST_TORCH: &[&str] = &["triton", "torchvision", "torchaudio"];

fn note(statement: &Statement) -> String {
    format!("{}: {}", statement.place, statement.written)
}

impl Work<'_> {
    /// Decides on a component's version; `None` where nothing speaks of it.
    pub(super) fn decide(&mut self, name: &str) -> Result<Option<Decision>, Undecided> {
        let all: Vec<Statement> = self.read.values().flat_map(|read| read.about(name).cloned()).collect();
        let (fits, other): (Vec<Statement>, Vec<Statement>) = all
            .into_iter()
            .filter(|statement| {
                matches!(&statement.says, Says::Version(_) | Says::Tag { .. } | Says::Commit { .. })
            })
            .partition(|statement| self.same_torch(name, statement));
        let (demands, examples): (Vec<_>, Vec<_>) =
            fits.iter().partition(|statement| statement.weight == Weight::Demand);
        let mut versions: Vec<&str> = demands.iter().filter_map(|s| s.says.version()).collect();
        versions.dedup();
        let distinct = versions.iter().any(|version| *version != versions[0]);
        let chosen = self.request.choices.get(name).copied();
        let table = self.table(name);
        let example =
            examples.iter().find(|s| s.says.version().is_some()).filter(|_| self.taken_from_git(name));
        let commit = demands.iter().find_map(|statement| match &statement.says {
            Says::Commit { git, commit } if commit.len() >= 40 => Some((git, commit, *statement)),
            _ => None,
        });
        let commits = demands.iter().filter_map(|statement| match &statement.says {
            Says::Commit { commit, .. } if commit.len() >= 40 => Some(commit),
            _ => None,
        });
        if chosen.is_none() && commit.is_some_and(|(_, first, _)| commits.clone().any(|other| other != first))
        {
            let statements = fits.clone();
            return Err(Undecided::Contradiction(Contradiction { about: name.to_owned(), statements }));
        }
        let mut decision = match (chosen, versions.first(), &table, example) {
            (Some(version), ..) => {
                Decision::new(version, Followed::Chosen, vec![format!("chosen: --choose {name}={version}")])
            }
            (None, Some(_), ..) if distinct => {
                let mut statements: Vec<Statement> = fits.clone();
                statements.retain(|statement| statement.says.version().is_some());
                return Err(Undecided::Contradiction(Contradiction { about: name.to_owned(), statements }));
            }
            (None, Some(version), ..) => Decision::new(version, Followed::Upstream, Vec::new()),
            (None, None, Some((version, source)), _) => Decision::new(
                version,
                Followed::Table,
                vec![format!("table of what goes together: {source}")],
            ),
            (None, None, None, Some(example)) => {
                Decision::new(example.says.version().unwrap_or_default(), Followed::Upstream, Vec::new())
            }
            (None, None, None, None) => match &commit {
                Some((git, commit, _)) if name == "triton-kernels" => {
                    match self.kernels_version(git.as_deref(), commit).map_err(Undecided::Failed)? {
                        Some((version, note)) => Decision::new(&version, Followed::Upstream, vec![note]),
                        None => return Ok(None),
                    }
                }
                _ => return Ok(None),
            },
        };
        for statement in &fits {
            // The commit that is followed stands above the commit.
            if chosen.is_none() && commit.is_some_and(|(_, _, of_commit)| of_commit == statement) {
                continue;
            }
            let version = statement.says.version();
            let same = version.is_none_or(|version| version == decision.version);
            let followed = statement.weight == Weight::Demand || version.is_some_and(|_| same);
            let how = match (same, followed) {
                (true, true) => "",
                (true, false) => "upstream's own build has ",
                (false, _) => "not followed: ",
            };
            decision.notes.push(format!("{how}{}", note(statement)));
        }
        for statement in &other {
            decision.notes.push(format!("named with another torch: {}", note(statement)));
        }
        if let Some((git, commit, statement)) = commit {
            // A version that was chosen has a commit of its own.
            if chosen.is_none() {
                decision.commit = Some((git.clone(), Some(commit.clone())));
                decision.origin_notes.push(note(statement));
            }
        } else if chosen.is_none() {
            decision.commit = self.other_repository(name, &demands);
        }
        Ok(Some(decision))
    }

    /// Returns the version of Triton that a commit of it is, and where that stands.
    fn kernels_version(
        &mut self,
        git: Option<&str>,
        commit: &str,
    ) -> Result<Option<(String, String)>, Error> {
        let base = self.request.base.pins.iter().find(|(key, _)| key.as_str() == "triton-kernels");
        if let Some((_, at)) = base
            && matches!(&at.value.source, Source::Git { commit: Some(known), .. } if known == commit)
        {
            let note = format!("the version that pins/{}.toml has for this commit", self.request.base.name);
            return Ok(Some((at.value.version.clone(), note)));
        }
        let said = self.read.values().flat_map(|read| read.about("triton"));
        let label = said.filter(|s| matches!(s.says, Says::Version(_))).find_map(|statement| {
            let word = statement.written.split(['=', ' ']).rfind(|word| word.contains("+git"))?;
            Some((labelled(word, commit)?.to_owned(), note(statement)))
        });
        if label.is_some() {
            return Ok(label);
        }
        let origin = || self.compat.origins.get("triton-kernels").and_then(|origin| origin.git.clone());
        let (Some(url), Some(component)) =
            (git.map(str::to_owned).or_else(origin), ComponentName::parse("triton-kernels"))
        else {
            return Ok(None);
        };
        let source =
            Source::Git { url, commit: Some(commit.to_owned()), submodules: false, paths: Vec::new() };
        match self.reader.tree(&Pin::new(component, &commit[..8], source)) {
            Ok(tree) => {
                let read = upstream::read("triton", "3.4", &tree.dir);
                let found = read
                    .about("triton")
                    .find_map(|statement| Some((statement.says.version()?.to_owned(), note(statement))));
                Ok(found.map(|(version, said)| {
                    (version, said.replace("triton 3.4,", &format!("triton at {},", &commit[..8])))
                }))
            }
            Err(error) if error.kind() == Kind::Network => {
                let values = vec!["the version of triton-kernels, from setup.py".to_owned()];
                let source = format!("triton at commit {commit}");
                self.unreachable.push(Unreachable { source, values, reason: error.to_string() });
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the repository of a tag that is demanded, where the set has it from git.
    fn other_repository(
        &self,
        name: &str,
        demands: &[&Statement],
    ) -> Option<(Option<String>, Option<String>)> {
        let git = demands.iter().find_map(|statement| match &statement.says {
            Says::Tag { git: Some(git), .. } => Some(git),
            _ => None,
        })?;
        let base = self.request.base.pins.iter().find(|(key, _)| key.as_str() == name);
        match base.map(|(_, at)| &at.value.source) {
            Some(Source::Git { url, .. }) if repository(url) == git => None,
            Some(Source::Git { .. }) | None => Some((Some(git.clone()), None)),
            // The set has it from elsewhere, by its version.
            Some(_) => None,
        }
    }

    /// Returns whether a statement belongs to the set's torch.
    fn same_torch(&self, name: &str, statement: &Statement) -> bool {
        let Some(torch) = self.decisions.get("torch").filter(|_| AGAINST_TORCH.contains(&name)) else {
            return true;
        };
        let of_file = |other: &&Statement| {
            other.place.file == statement.place.file && other.place.of == statement.place.of
        };
        let mut torches = self.read.values().flat_map(|read| read.about("torch")).filter(of_file);
        torches.all(|other| other.says.version().is_none_or(|version| version == torch.version))
    }

    /// Returns the version that goes with what is decided, and where that stands.
    fn table(&self, name: &str) -> Option<(String, String)> {
        let mut rows = ["torch", "vllm"].into_iter().filter_map(|other| {
            let decided = self.decisions.get(other)?;
            let row = self.compat.row(other, &decided.version)?;
            let version = compat::exact(row.with.get(name)?)?;
            Some((version.to_owned(), format!("{other} {}: {}", decided.version, row.source)))
        });
        rows.next()
    }

    /// Returns whether the set takes a component from git.
    fn taken_from_git(&self, name: &str) -> bool {
        let base = self.request.base.pins.iter().find(|(key, _)| key.as_str() == name);
        match base {
            Some((_, at)) => matches!(at.value.source, Source::Git { .. }),
            None => self.compat.origins.get(name).is_some_and(|origin| origin.git.is_some()),
        }
    }

    /// Adds what a component's own files say of its Python and its further sources.
    pub(super) fn complete(&mut self, name: &str) -> Result<(), Error> {
        let read = self.read.get(name).cloned().unwrap_or_default();
        let version = self.decisions[name].version.clone();
        let python = self.python(name, &version, &read);
        let mut sources = Vec::new();
        let mut spoken = Vec::new();
        if name == "vllm" {
            spoken.push("crates");
            sources.extend(crates(&read));
            if !self.wanted("triton-kernels") {
                spoken.push("triton-kernels");
                sources.extend(self.kernels_source(&read)?);
            }
        }
        if name == "triton" {
            spoken.push("llvm");
            match self.llvm(&version, &read) {
                Ok(found) => sources.extend(found),
                Err(error) if error.kind() == Kind::Network => {
                    let mut lost =
                        super::unreachable("llvm of triton", &version, &self.decisions[name], &error);
                    lost.values = vec!["the version of LLVM, from cmake/Modules/LLVMVersion.cmake".into()];
                    self.unreachable.push(lost);
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(decision) = self.decisions.get_mut(name) {
            decision.python = python;
            decision.sources = sources;
            decision.spoken = spoken;
        }
        Ok(())
    }

    /// Returns the Pythons: what upstream's files say, and an upper bound from the table where
    /// they have none.
    fn python(&self, name: &str, version: &str, read: &Upstream) -> Option<(String, Vec<String>)> {
        let row = self.compat.row(name, version);
        let table = row.and_then(|row| Some((row.python.clone()?, &row.source)));
        let said = read.about(name).find_map(|statement| match &statement.says {
            Says::Python(range) => Some((VersionRange::parse(range)?.to_string(), note(statement))),
            _ => None,
        });
        match (said, table) {
            (Some((range, note)), Some((table, source))) if !range.contains('<') => {
                let bounds: Vec<&str> =
                    table.split(", ").filter(|part| part.starts_with(['<', '!'])).collect();
                if bounds.is_empty() {
                    return Some((range, vec![note]));
                }
                let bounds = bounds.join(", ");
                let more = format!("table of what goes together: {bounds}: {source}");
                Some((format!("{range}, {bounds}"), vec![note, more]))
            }
            (Some((range, note)), _) => Some((range, vec![note])),
            (None, Some((table, source))) => {
                Some((table, vec![format!("table of what goes together: {source}")]))
            }
            (None, None) => None,
        }
    }

    /// Returns Triton's LLVM as a further source.
    fn llvm(&self, version: &str, read: &Upstream) -> Result<Option<FurtherSource>, Error> {
        let found = read.about("llvm").find_map(|statement| match &statement.says {
            Says::Commit { commit, .. } => Some((commit.clone(), note(statement))),
            _ => None,
        });
        let Some((commit, said)) = found else { return Ok(None) };
        let base = self.request.base.pins.iter().find(|(key, _)| key.as_str() == "triton");
        let base = base.and_then(|(_, at)| at.value.sources.get("llvm"));
        let mut notes = vec![said];
        let row = self.compat.row("triton", version);
        let own = "https://github.com/llvm/llvm-project".to_owned();
        let table = row.and_then(|row| row.llvm.clone()).unwrap_or(own);
        let (url, known) = match base.map(|pin| (&pin.source, &pin.version)) {
            Some((Source::Git { url, commit: Some(old), .. }, known)) if *old == commit => {
                (url.clone(), Some(known.clone()))
            }
            // A repository of the packager's own has what they put there.
            Some((Source::Git { url, .. }, _)) if !url.starts_with("https://github.com/") => {
                (url.clone(), None)
            }
            _ => (table, None),
        };
        let version = match known {
            Some(version) => Some(version),
            None => self.llvm_version(&url, &commit, &mut notes)?,
        };
        Ok(Some(FurtherSource { name: "llvm", notes, version, git: Some((url, commit)), cargo_vendor: None }))
    }

    /// Reads the version of LLVM at a commit: `23.0.0git1f126a6d`.
    fn llvm_version(
        &self,
        url: &str,
        commit: &str,
        notes: &mut Vec<String>,
    ) -> Result<Option<String>, Error> {
        const FILE: &str = "cmake/Modules/LLVMVersion.cmake";
        let Some(component) = ComponentName::parse("triton-llvm") else { return Ok(None) };
        let source = Source::Git {
            url: url.to_owned(),
            commit: Some(commit.to_owned()),
            submodules: false,
            paths: Vec::new(),
        };
        let pin = for_reading(&Pin::new(component, &commit[..8], source), vec!["cmake/Modules".into()]);
        let text = self.reader.tree(&pin)?.text(FILE)?.unwrap_or_default();
        let found = cmake::evaluate(&cmake::commands(&text).unwrap_or_default()).variables;
        let number = |name: &str| found.get(&format!("LLVM_VERSION_{name}")).map(|value| value.text.clone());
        let (Some(major), Some(minor), Some(patch)) = (number("MAJOR"), number("MINOR"), number("PATCH"))
        else {
            notes.push(format!(
                "its version is not known: {FILE} does not set LLVM_VERSION_MAJOR, _MINOR, _PATCH"
            ));
            return Ok(None);
        };
        let version = format!("{major}.{minor}.{patch}git{}", &commit[..8]);
        if !crate::names::is_version(&version) {
            notes.push(format!("its version is not known: {FILE} has no numbers"));
            return Ok(None);
        }
        let place = Place { of: "LLVM".into(), file: FILE.into(), line: found["LLVM_VERSION_MAJOR"].line };
        notes.push(format!("{place}: {major}.{minor}.{patch}"));
        Ok(Some(version))
    }

    /// Returns vLLM's triton_kernels as a further source of vLLM itself, for sets that have no
    /// component of that name.
    fn kernels_source(&self, read: &Upstream) -> Result<Option<FurtherSource>, Error> {
        let Some(statement) = read.about("triton-kernels").next() else { return Ok(None) };
        let notes = vec![note(statement)];
        let origin = || self.compat.origins.get("triton-kernels").and_then(|origin| origin.git.clone());
        let (git, version, commit) = match &statement.says {
            Says::Commit { git, commit } => (git.clone().or_else(origin), None, Some(commit.clone())),
            Says::Tag { git, .. } => {
                (git.clone().or_else(origin), statement.says.version().map(str::to_owned), None)
            }
            _ => return Ok(None),
        };
        let (Some(git), Some(component)) = (git, ComponentName::parse("vllm-triton-kernels")) else {
            return Ok(None);
        };
        let source = Source::Git { url: git.clone(), commit, submodules: false, paths: Vec::new() };
        let mut pin = Pin::new(component, version.clone().unwrap_or_default(), source);
        let resolved: Resolved = self.fetcher.resolve(&pin)?;
        resolved.settle(&mut pin);
        let Source::Git { commit: Some(commit), .. } = pin.source else { return Ok(None) };
        let git = Some((git, commit));
        Ok(Some(FurtherSource { name: "triton-kernels", notes, version, git, cargo_vendor: None }))
    }
}

/// Returns vLLM's crates as a further source, where it has some.
fn crates(read: &Upstream) -> Option<FurtherSource> {
    let statement = read.about("vllm").find(|statement| matches!(statement.says, Says::Crates(_)))?;
    let mut notes = vec![note(statement)];
    let rust = read.about("vllm").find(|statement| matches!(statement.says, Says::Rust(_)));
    notes.extend(rust.map(note));
    Some(FurtherSource {
        name: "crates",
        notes,
        version: None,
        git: None,
        cargo_vendor: Some("rust/Cargo.lock"),
    })
}

/// Returns the version in a text such as `3.8.0+git669b31ac` whose label has the beginning of
/// this commit.
pub(super) fn labelled<'v>(version: &'v str, commit: &str) -> Option<&'v str> {
    let (_, label) = version.split_once("+git")?;
    let label = label.split('.').next()?;
    (label.len() >= 7 && commit.starts_with(label)).then(|| public(version))
}
