//! What rpm's own generator of requirements gets wrong for a package of a closure, and what has
//! to stand there instead: requirements on extras, which packages do not provide, and on what
//! is private or dropped.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::{Operator, VersionSpecifier, VersionSpecifiers};

use crate::closure::{Closure, Edge, version};
use crate::spec::requires_pattern;
use crate::workspace::Place;

/// What differs from the automatic requirements of a distribution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Corrections {
    /// Distributions that are not required at all, whatever extras are asked for, sorted.
    pub never: Vec<String>,
    /// Distributions of which no extras are required, sorted.
    pub extras: Vec<String>,
    /// Requirements that have to be written, sorted.
    pub written: Vec<String>,
}

/// Returns what has to be corrected for the distribution `from`. What is private is no
/// requirement of those that `private` is true for: the component itself, which runs where it
/// finds them.
pub(super) fn corrections(closure: &Closure, from: &str, private: bool) -> Corrections {
    let (mut never, mut extras) = (BTreeSet::new(), BTreeSet::new());
    let mut wanted: BTreeMap<&str, Vec<&VersionSpecifiers>> = BTreeMap::new();
    for edge in edges(closure, from) {
        match place(closure, &edge.to) {
            None | Some(Place::Dropped) => {
                never.insert(edge.to.clone());
            }
            Some(Place::Private) if private => {
                never.insert(edge.to.clone());
                // What its extras ask for is its own business: the runtime's.
            }
            Some(_) if has_extras(edge) => {
                extras.insert(edge.to.clone());
                wanted.entry(edge.to.as_str()).or_default().push(&edge.specifiers);
                behind_extras(closure, &edge.to, private, &mut wanted, &mut BTreeSet::new());
            }
            Some(_) => {}
        }
    }
    let written = wanted.iter().map(|(name, specifiers)| requirement(name, specifiers)).collect();
    Corrections { never: never.into_iter().collect(), extras: extras.into_iter().collect(), written }
}

/// Returns what a set of distributions requires that is not among them, as requirements.
pub(super) fn of_all(closure: &Closure, members: &BTreeSet<&str>) -> Vec<String> {
    let mut wanted: BTreeMap<&str, Vec<&VersionSpecifiers>> = BTreeMap::new();
    for member in members {
        for edge in edges(closure, member).filter(|edge| !members.contains(edge.to.as_str())) {
            if matches!(place(closure, &edge.to), Some(Place::System | Place::Rpm)) {
                wanted.entry(edge.to.as_str()).or_default().push(&edge.specifiers);
                if has_extras(edge) {
                    behind_extras(closure, &edge.to, true, &mut wanted, &mut BTreeSet::new());
                }
            }
        }
    }
    wanted.iter().map(|(name, specifiers)| requirement(name, specifiers)).collect()
}

/// Adds what a distribution requires with the extras that the closure wants of it. Which of its
/// requirements are those of extras, the graph does not say; the others are there with it
/// anyway.
fn behind_extras<'c>(
    closure: &'c Closure,
    of: &str,
    private: bool,
    wanted: &mut BTreeMap<&'c str, Vec<&'c VersionSpecifiers>>,
    seen: &mut BTreeSet<String>,
) {
    if !seen.insert(of.to_owned()) {
        return;
    }
    // What it requires in any case, its package requires itself.
    for edge in edges(closure, of).filter(|edge| edge.extra) {
        match place(closure, &edge.to) {
            None | Some(Place::Dropped) => continue,
            Some(Place::Private) if private => continue,
            Some(_) => wanted.entry(edge.to.as_str()).or_default().push(&edge.specifiers),
        }
        if has_extras(edge) {
            behind_extras(closure, &edge.to, private, wanted, seen);
        }
    }
}

fn edges<'c>(closure: &'c Closure, from: &str) -> impl Iterator<Item = &'c Edge> {
    let from = from.to_owned();
    closure.graph.edges.iter().filter(move |edge| edge.from == from && edge.to != from)
}

fn place(closure: &Closure, name: &str) -> Option<Place> {
    closure.members.get(name).map(|member| member.place)
}

fn has_extras(edge: &Edge) -> bool {
    edge.text.contains('[')
}

/// Returns a requirement on a distribution as rpm writes it. Of several lower bounds the greatest
/// counts, of several upper ones the least.
fn requirement(name: &str, specifiers: &[&VersionSpecifiers]) -> String {
    let name = format!("python3dist({name})");
    let all: Vec<&VersionSpecifier> = specifiers.iter().flat_map(|all| all.iter()).collect();
    let with = |operator: Operator| {
        let versions = all.iter().filter(move |one| *one.operator() == operator);
        versions.map(|one| one.version())
    };
    let counts = |one: &&&VersionSpecifier| match one.operator() {
        Operator::GreaterThanEqual => with(Operator::GreaterThanEqual).max() == Some(one.version()),
        Operator::LessThan => with(Operator::LessThan).min() == Some(one.version()),
        _ => true,
    };
    let parts: BTreeSet<String> = all.iter().filter(counts).flat_map(|one| bounds(&name, one)).collect();
    match parts.len() {
        0 => name,
        1 => parts.into_iter().collect(),
        _ => format!("({})", parts.into_iter().collect::<Vec<_>>().join(" with ")),
    }
}

/// Returns the bounds that a version specifier stands for, as python-rpm-generators'
/// pythondistdeps.py writes them.
fn bounds(name: &str, specifier: &VersionSpecifier) -> Vec<String> {
    let at = specifier.version();
    let plain = version::to_rpm(at);
    // The first version after all that begin with these numbers.
    let next = |numbers: usize| {
        let mut release: Vec<u64> = at.release().iter().copied().take(numbers.max(1)).collect();
        if let Some(last) = release.last_mut() {
            *last = last.saturating_add(1);
        }
        version::to_rpm(&pep440_rs::Version::new(release).with_epoch(at.epoch()))
    };
    let all = at.release().len();
    match specifier.operator() {
        Operator::Equal | Operator::ExactEqual => vec![format!("{name} = {plain}")],
        Operator::EqualStar => vec![format!("{name} >= {plain}"), format!("{name} < {}", next(all))],
        Operator::TildeEqual => {
            vec![format!("{name} >= {plain}"), format!("{name} < {}", next(all.saturating_sub(1)))]
        }
        Operator::NotEqual => vec![format!("({name} < {plain} or {name} > {plain})")],
        Operator::NotEqualStar => vec![format!("({name} < {plain} or {name} >= {})", next(all))],
        Operator::LessThan => vec![format!("{name} < {plain}~~")],
        Operator::LessThanEqual => vec![format!("{name} <= {plain}")],
        Operator::GreaterThan => vec![format!("{name} > {plain}")],
        Operator::GreaterThanEqual => vec![format!("{name} >= {plain}")],
    }
}

impl Corrections {
    /// Returns a regular expression for `__requires_exclude` that is true of exactly what rpm
    /// shall not require, as it stands in a spec; `None` where there is nothing.
    pub fn pattern(&self) -> Option<String> {
        requires_pattern(&self.never, &self.extras)
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;

    #[test]
    fn specifiers_are_written_as_rpms_generator_does() {
        for (python, rpm) in [
            ("", "python3dist(a)"),
            (">=1.0", "python3dist(a) >= 1"),
            ("==1.2.post1", "python3dist(a) = 1.2^post1"),
            ("~=1.4.5", "(python3dist(a) < 1.5 with python3dist(a) >= 1.4.5)"),
            ("==1.2.*", "(python3dist(a) < 1.3 with python3dist(a) >= 1.2)"),
            (">=1.0,>=1.10,<3,<2", "(python3dist(a) < 2~~ with python3dist(a) >= 1.10)"),
            ("!=2,<3", "((python3dist(a) < 2 or python3dist(a) > 2) with python3dist(a) < 3~~)"),
        ] {
            let specifiers = VersionSpecifiers::from_str(python).unwrap();
            assert_eq!(requirement("a", &[&specifiers]), rpm, "{python}");
        }
    }
}
