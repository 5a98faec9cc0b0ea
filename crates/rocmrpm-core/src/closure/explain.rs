//! Explains why no set of versions satisfies all requirements: finds the chains of requirements
//! that conflict by resolving again without one distribution. uv's own output is shown as well.
//! Does not suggest versions.

use std::collections::BTreeMap;

use pep440_rs::Version;

use super::collision::{Collision, ConflictReason, ConflictSubject};
use super::question::{Attempt, ClosureQuery};
use super::{ClosureError, Edge, assemble};
use crate::error::{Diagnose, Kind};
use crate::sources::{Fetcher, ProjectFile, version_of_sdist};
use crate::uv;
use crate::wheel::{FileName, normalized};

/// The maximum number of distributions to try. uv names only a few, and the relevant one early.
const TRIES: usize = 4;

/// Finds the chains that conflict.
pub(super) fn explain(
    question: &ClosureQuery<'_>,
    reported: Vec<String>,
    fetcher: &Fetcher<'_>,
) -> Result<Collision, ClosureError> {
    let mut on = None;
    for name in suspects(question, &reported) {
        // Errors here are not fatal: uv's own output is still shown.
        match try_without(question, &name, fetcher) {
            Ok(None) => {}
            Ok(found) => {
                on = found;
                break;
            }
            Err(error) if error.kind() == Kind::Interrupted => return Err(error),
            Err(_) => {}
        }
    }
    Ok(Collision {
        component: question.component.name.to_string(),
        on,
        reported: uv::last(reported),
    })
}

/// Returns the distributions whose versions uv's output mentions: the stack's own first, then the
/// most frequent ones.
fn suspects(question: &ClosureQuery<'_>, reported: &[String]) -> Vec<String> {
    let mut spoken: BTreeMap<String, usize> = BTreeMap::new();
    for word in reported.iter().flat_map(|line| line.split(|c: char| c.is_whitespace() || c == ','))
    {
        let end = word.find(['<', '>', '=', '!', '~', '[']);
        if let Some(name) = end.and_then(|end| normalized(&word[..end])) {
            *spoken.entry(name).or_default() += 1;
        }
    }
    let mut names: Vec<(bool, usize, String)> = spoken
        .into_iter()
        .filter(|(name, _)| *name != question.root.name)
        .map(|(name, times)| (question.own.contains_key(&name), times, name))
        .collect();
    names.sort_by(|a, b| (b.0, b.1, &a.2).cmp(&(a.0, a.1, &b.2)));
    names.into_iter().take(TRIES).map(|(_, _, name)| name).collect()
}

/// Resolves without a distribution, or without the version of one of the stack's own. `None` if
/// that does not help.
fn try_without(
    question: &ClosureQuery<'_>,
    name: &str,
    fetcher: &Fetcher<'_>,
) -> Result<Option<ConflictSubject>, ClosureError> {
    let Ok(lock) =
        question.attempt(None, &Attempt { free: Some(name), ..Attempt::default() }, fetcher)?
    else {
        return Ok(None);
    };
    let graph = assemble::connected(question, &lock, None, Some(name), fetcher)?;
    let edges: Vec<&Edge> =
        graph.edges.iter().filter(|edge| edge.to == name && !edge.specifiers.is_empty()).collect();
    let (why, guilty) = match question.own.get(name) {
        Some(own) => {
            let refusing = edges.into_iter().filter(|edge| !edge.specifiers.contains(&own.version));
            (ConflictReason::Held(own.version.clone()), refusing.collect())
        }
        None => {
            let offered = fetcher.projects(&[name])?.into_iter().next().unwrap_or_default();
            guilty(question, name, &offered, edges)
        }
    };
    let chains: Vec<String> =
        guilty.into_iter().filter_map(|edge| assemble::chain_to(&graph, edge)).collect();
    Ok((!chains.is_empty()).then(|| ConflictSubject { name: name.to_owned(), why, chains }))
}

/// Finds the one or two requirements that no version on the index satisfies together.
fn guilty<'e>(
    question: &ClosureQuery<'_>,
    name: &str,
    offered: &[ProjectFile],
    edges: Vec<&'e Edge>,
) -> (ConflictReason, Vec<&'e Edge>) {
    let environment = &question.environment;
    let of = |file: &ProjectFile| match FileName::parse(&file.name) {
        Ok(wheel) if wheel.distribution == name => {
            Some((wheel.version, wheel.tags.iter().any(|tag| environment.takes(tag))))
        }
        _ => Some((version_of_sdist(&file.name, name)?, true)),
    };
    let files: Vec<(Version, bool, &str)> = offered
        .iter()
        .filter_map(|file| {
            let (version, fits) = of(file)?;
            Some((
                version,
                fits && environment.allows(file.requires_python.as_deref()),
                file.name.as_str(),
            ))
        })
        .collect();
    let take = |edges: &[&Edge], usable: bool| {
        files.iter().find(|(version, fits, _)| {
            (*fits || !usable) && edges.iter().all(|edge| edge.specifiers.contains(version))
        })
    };
    for edge in &edges {
        if take(&[edge], true).is_none() {
            let why = match take(&[edge], false) {
                Some((_, _, file)) => ConflictReason::NoFile((*file).to_owned()),
                None => ConflictReason::NoVersion,
            };
            return (why, vec![edge]);
        }
    }
    for (at, one) in edges.iter().enumerate() {
        for other in &edges[at + 1..] {
            if take(&[one, other], true).is_none() {
                return (ConflictReason::Exclude, vec![one, other]);
            }
        }
    }
    (ConflictReason::Among, edges)
}
