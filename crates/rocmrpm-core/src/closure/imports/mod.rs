//! Checks whether the locked files define what a component imports. Parses Python files, but never
//! executes them.

mod defined;
mod python;
mod stdlib;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::Version;

use self::defined::{DefinedNames, Files, Modules, NameStatus};
pub use self::wanted::Unread;
use self::wanted::{How, Import, Wanted};
use super::{Closure, ClosureError, Locked};
use crate::parallel;
use crate::sources::Fetcher;
use crate::workspace::{Component, ImportRule, Workspace};

/// How many distributions are fetched and read concurrently.
const AT_ONCE: usize = 4;

/// The result of the check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imports {
    /// The component's own top-level module; `None` if its source has none, and nothing was
    /// checked.
    pub own: Option<String>,
    /// Imports that fail, by file and line.
    pub missing: Vec<Missing>,
    /// Names that code defines on import, such as `six.moves.range`; they are not checked.
    pub dynamic: Vec<Unchecked>,
    /// Files that cannot be parsed.
    pub unread: Vec<Unread>,
    /// The counts.
    pub counts: Counts,
    /// Distributions for which the release has another version than the one that was checked.
    pub other_versions: Vec<OtherVersion>,
    /// Rules of component.toml that no import matches.
    pub needless: Vec<String>,
}

/// An import that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The file, below the source's top folder.
    pub file: String,
    /// The line.
    pub line: usize,
    /// The dotted name of what is missing.
    pub name: String,
    /// The distribution that should define it, with its version; `None` if no member has the
    /// top-level module.
    pub distribution: Option<(String, Version)>,
    /// Whether only a part of the component fails: the import is behind a condition or in a
    /// function.
    pub partly: bool,
    /// Why component.toml accepts it.
    pub accepted: Option<String>,
}

/// An import that cannot be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unchecked {
    /// The file, below the source's top folder.
    pub file: String,
    /// The line.
    pub line: usize,
    /// The dotted name.
    pub name: String,
}

/// Counts of imports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Imports of the closure's names and modules that were checked.
    pub checked: usize,
    /// The modules of these imports.
    pub modules: usize,
    /// Imports from compiled modules, whose names are not checked.
    pub compiled: usize,
    /// Imports from modules that cannot be parsed.
    pub unread: usize,
    /// Imports from components of the stack, which are not checked.
    pub stack: usize,
    /// Imports that fail, but are caught or only for type checkers.
    pub optional: usize,
    /// Imports that no member provides, behind a condition or in a function.
    pub absent: usize,
}

/// A distribution for which the release has another version than the locked one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherVersion {
    /// The distribution.
    pub name: String,
    /// The version that was checked.
    pub locked: Version,
    /// The release's version, if it is known.
    pub release: Option<Version>,
}

impl Imports {
    /// Returns the imports that must be fixed or accepted.
    pub fn errors(&self) -> impl Iterator<Item = &Missing> {
        self.missing.iter().filter(|missing| missing.accepted.is_none() && !missing.partly)
    }

    /// Returns the imports that fail in a part of the component and are not accepted.
    pub fn warnings(&self) -> impl Iterator<Item = &Missing> {
        self.missing.iter().filter(|missing| missing.accepted.is_none() && missing.partly)
    }
}

/// Compares what a component imports with what the locked files of its closure define.
pub fn check(
    workspace: &Workspace,
    component: &Component,
    closure: &Closure,
    python: &str,
    fetcher: &Fetcher<'_>,
) -> Result<Imports, ClosureError> {
    let wanted = Wanted::of(workspace, component, &closure.graph.root, fetcher)?;
    let mut imports =
        Imports { own: wanted.own.clone(), unread: wanted.unread, ..Imports::default() };
    let Some(own) = wanted.own else { return Ok(imports) };
    let stack = top_level_of_stack(workspace);
    let is_ours = |import: &&Import| {
        let top = top_level(&import.module);
        top != own && !stdlib::has(top, python)
    };
    let (of_stack, others): (Vec<_>, Vec<_>) = wanted
        .imports
        .iter()
        .filter(is_ours)
        .partition(|import| stack.contains(top_level(&import.module)));
    imports.counts.stack = of_stack.len();
    let providers = providers(closure, fetcher)?;
    let questions = questions(&others, &providers);
    let asked: Vec<&str> = questions.keys().copied().collect();
    let answers = parallel::try_map(&asked, AT_ONCE, |name| {
        let answer = match files_of(closure, name) {
            Some((_, files)) => files.ask(&questions[name], fetcher)?,
            None => DefinedNames::default(),
        };
        Ok::<_, ClosureError>((*name, answer))
    })?;
    let answers: BTreeMap<&str, DefinedNames> = answers.into_iter().collect();
    for (name, answer) in &answers {
        let unread = |reason: &str| Unread {
            distribution: Some((*name).to_owned()),
            reason: reason.to_owned(),
        };
        imports.unread.extend(answer.reasons().map(unread));
    }
    imports.unread.sort();
    judge(&mut imports, &others, &providers, &answers, closure);
    accept(&mut imports, component, &workspace.pin(component).version);
    imports.other_versions = other_versions(closure, &asked);
    Ok(imports)
}

/// Returns the name of the top-level module of a dotted name.
fn top_level(module: &str) -> &str {
    module.split('.').next().unwrap_or(module)
}

/// Returns the top-level modules of the stack's components, which have the components' names.
fn top_level_of_stack(workspace: &Workspace) -> BTreeSet<String> {
    let components =
        workspace.components.values().filter(|component| component.generated.is_none());
    components.map(|component| component.name.as_str().replace('-', "_")).collect()
}

fn files_of<'c>(closure: &'c Closure, name: &str) -> Option<(&'c Locked, Files<'c>)> {
    let locked = &closure.members.get(name)?.node.as_ref()?.locked;
    Some((locked, Files::of(locked)?))
}

/// Returns the distributions that provide each top-level module.
fn providers<'c>(
    closure: &'c Closure,
    fetcher: &Fetcher<'_>,
) -> Result<BTreeMap<String, Vec<&'c str>>, ClosureError> {
    let names: Vec<&str> = closure.members.keys().map(String::as_str).collect();
    let tops = parallel::try_map(&names, AT_ONCE, |name| match files_of(closure, name) {
        Some((_, files)) => files.top_level(fetcher),
        None => Ok(BTreeSet::new()),
    })?;
    let mut providers: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, tops) in names.into_iter().zip(tops) {
        tops.into_iter().for_each(|top| providers.entry(top).or_default().push(name));
    }
    Ok(providers)
}

/// Returns what to check in each distribution.
fn questions<'c>(
    imports: &[&Import],
    providers: &BTreeMap<String, Vec<&'c str>>,
) -> BTreeMap<&'c str, Modules> {
    let mut questions: BTreeMap<&str, Modules> = BTreeMap::new();
    for import in imports {
        for provider in providers.get(top_level(&import.module)).into_iter().flatten() {
            let names =
                questions.entry(provider).or_default().entry(import.module.clone()).or_default();
            names.extend(import.name.clone());
        }
    }
    questions
}

/// Sorts the imports by their state.
fn judge(
    imports: &mut Imports,
    wanted: &[&Import],
    providers: &BTreeMap<String, Vec<&str>>,
    answers: &BTreeMap<&str, DefinedNames>,
    closure: &Closure,
) {
    let mut modules = BTreeSet::new();
    for import in wanted {
        let name = match &import.name {
            Some(name) => format!("{}.{name}", import.module),
            None => import.module.clone(),
        };
        let (file, line) = (import.file.clone(), import.line);
        let counts = &mut imports.counts;
        let caught = matches!(import.how, How::Optional | How::Typing);
        let Some(candidates) = providers.get(top_level(&import.module)) else {
            match import.how {
                How::Plain => imports.missing.push(Missing {
                    file,
                    line,
                    name,
                    distribution: None,
                    partly: false,
                    accepted: None,
                }),
                How::Conditional | How::Lazy => counts.absent += 1,
                How::Optional | How::Typing => counts.optional += 1,
            }
            continue;
        };
        // Several distributions may share a top-level module; one that defines the name suffices.
        let state =
            |provider: &str| answers[provider].state(&import.module, import.name.as_deref());
        let best = candidates.iter().min_by_key(|provider| (state(provider), *provider));
        let Some((provider, found)) = best.map(|provider| (*provider, state(provider))) else {
            continue;
        };
        match found {
            NameStatus::Defined => {}
            NameStatus::Compiled => counts.compiled += 1,
            NameStatus::Unread => counts.unread += 1,
            NameStatus::Dynamic => imports.dynamic.push(Unchecked { file, line, name }),
            NameStatus::Missing | NameStatus::NoModule if caught => counts.optional += 1,
            NameStatus::Missing | NameStatus::NoModule => imports.missing.push(Missing {
                file,
                line,
                name,
                distribution: files_of(closure, provider)
                    .map(|(locked, _)| (locked.name.clone(), locked.version.clone())),
                partly: import.how != How::Plain,
                accepted: None,
            }),
        }
        if matches!(found, NameStatus::Defined | NameStatus::Missing | NameStatus::NoModule) {
            counts.checked += 1;
            modules.insert(&import.module);
        }
    }
    imports.counts.modules = modules.len();
}

/// Marks the imports that component.toml accepts, and finds the rules that match nothing.
fn accept(imports: &mut Imports, component: &Component, version: &str) {
    let rules = component.closure.iter().flat_map(|rules| &rules.imports);
    for rule in rules.filter(|rule| rule.versions.holds(version)) {
        let mut matched = false;
        for missing in imports.missing.iter_mut().filter(|missing| covers(rule, &missing.name)) {
            missing.accepted = Some(rule.reason.clone());
            matched = true;
        }
        if !matched {
            imports.needless.push(rule.name.value.clone());
        }
    }
}

/// Returns whether a rule covers a dotted name: the name itself or a prefix of it.
fn covers(rule: &ImportRule, name: &str) -> bool {
    let rest = name.strip_prefix(rule.name.value.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the distributions whose version in the release differs from the locked one.
fn other_versions(closure: &Closure, names: &[&str]) -> Vec<OtherVersion> {
    let other = |name: &&str| {
        let member = closure.members.get(*name)?;
        let locked = &member.node.as_ref()?.locked.version;
        let release = member
            .offer
            .as_ref()
            .filter(|_| member.place == crate::workspace::MemberPlace::System)?;
        let release = release.version.clone();
        (release.as_ref() != Some(locked)).then(|| OtherVersion {
            name: member.name.clone(),
            locked: locked.clone(),
            release,
        })
    };
    names.iter().filter_map(other).collect()
}
