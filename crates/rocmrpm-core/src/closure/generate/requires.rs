//! Corrects what rpm's own generator of requirements gets wrong for packages of a closure:
//! requirements on extras, which packages do not provide, and on private or dropped members.
//! Requirements on libraries are up to `linked`.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::{Operator, VersionSpecifier, VersionSpecifiers};

use crate::closure::{Closure, Edge, version};
use crate::spec::requires_pattern;
use crate::workspace::MemberPlace;

/// The corrections of a distribution's automatic requirements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Corrections {
    /// Distributions that are not required at all, with or without extras, sorted.
    pub never: Vec<String>,
    /// Distributions whose extras are not required, sorted.
    pub extras: Vec<String>,
    /// Requirements that must be written explicitly, sorted.
    pub written: Vec<String>,
}

/// Returns the corrections for the distribution `from`. If `private` is set, it does not require
/// private members: the component itself runs where it finds them.
pub(super) fn corrections(closure: &Closure, from: &str, private: bool) -> Corrections {
    let (mut never, mut extras) = (BTreeSet::new(), BTreeSet::new());
    let mut wanted: BTreeMap<&str, Vec<&VersionSpecifiers>> = BTreeMap::new();
    for edge in edges(closure, from) {
        match place(closure, &edge.to) {
            None | Some(MemberPlace::Dropped) => {
                never.insert(edge.to.clone());
            }
            Some(MemberPlace::Private) if private => {
                never.insert(edge.to.clone());
                // The runtime package requires what the extras need.
            }
            Some(_) if has_extras(edge) => {
                extras.insert(edge.to.clone());
                wanted.entry(edge.to.as_str()).or_default().push(&edge.specifiers);
                requirements_of_extras(
                    closure,
                    &edge.to,
                    private,
                    &mut wanted,
                    &mut BTreeSet::new(),
                );
            }
            Some(_) => {}
        }
    }
    let written = wanted.iter().map(|(name, specifiers)| requirement(name, specifiers)).collect();
    Corrections {
        never: never.into_iter().collect(),
        extras: extras.into_iter().collect(),
        written,
    }
}

/// Returns the requirements of a set of distributions on others.
pub(super) fn of_all(closure: &Closure, members: &BTreeSet<&str>) -> Vec<String> {
    let mut wanted: BTreeMap<&str, Vec<&VersionSpecifiers>> = BTreeMap::new();
    for member in members {
        for edge in edges(closure, member).filter(|edge| !members.contains(edge.to.as_str())) {
            if matches!(place(closure, &edge.to), Some(MemberPlace::System | MemberPlace::Rpm)) {
                wanted.entry(edge.to.as_str()).or_default().push(&edge.specifiers);
                if has_extras(edge) {
                    requirements_of_extras(
                        closure,
                        &edge.to,
                        true,
                        &mut wanted,
                        &mut BTreeSet::new(),
                    );
                }
            }
        }
    }
    wanted.iter().map(|(name, specifiers)| requirement(name, specifiers)).collect()
}

/// Adds what a distribution requires with the extras that the closure requests. The graph does not
/// record which extra a requirement belongs to, but all of these extras are requested anyway.
fn requirements_of_extras<'c>(
    closure: &'c Closure,
    of: &str,
    private: bool,
    wanted: &mut BTreeMap<&'c str, Vec<&'c VersionSpecifiers>>,
    seen: &mut BTreeSet<String>,
) {
    if !seen.insert(of.to_owned()) {
        return;
    }
    // The distribution's own package has the requirements that do not depend on extras.
    for edge in edges(closure, of).filter(|edge| edge.extra) {
        match place(closure, &edge.to) {
            None | Some(MemberPlace::Dropped) => continue,
            Some(MemberPlace::Private) if private => continue,
            Some(_) => wanted.entry(edge.to.as_str()).or_default().push(&edge.specifiers),
        }
        if has_extras(edge) {
            requirements_of_extras(closure, &edge.to, private, wanted, seen);
        }
    }
}

/// Returns what a distribution requires, also with extras.
pub(super) fn edges<'c>(closure: &'c Closure, from: &str) -> impl Iterator<Item = &'c Edge> {
    let from = from.to_owned();
    closure.graph.edges.iter().filter(move |edge| edge.from == from && edge.to != from)
}

/// Returns the place of a member; `None` for components of the stack.
pub(super) fn place(closure: &Closure, name: &str) -> Option<MemberPlace> {
    closure.members.get(name).map(|member| member.place)
}

fn has_extras(edge: &Edge) -> bool {
    edge.text.contains('[')
}

/// Returns a requirement on a distribution in rpm's syntax. Uses the highest of several lower
/// bounds and the lowest of several upper bounds.
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
    let parts: BTreeSet<String> =
        all.iter().filter(counts).flat_map(|one| bounds(&name, one)).collect();
    match parts.len() {
        0 => name,
        1 => parts.into_iter().collect(),
        _ => format!("({})", parts.into_iter().collect::<Vec<_>>().join(" with ")),
    }
}

/// Returns the bounds of a version specifier, as python-rpm-generators' pythondistdeps.py writes
/// them.
fn bounds(name: &str, specifier: &VersionSpecifier) -> Vec<String> {
    let at = specifier.version();
    let plain = version::to_rpm(at);
    // The first version after all that start with these numbers.
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
        Operator::EqualStar => {
            vec![format!("{name} >= {plain}"), format!("{name} < {}", next(all))]
        }
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
    /// Returns a regular expression for `__requires_exclude`, as written in a spec, that matches
    /// exactly what rpm must not require; `None` if there is nothing to exclude.
    pub fn pattern(&self) -> Option<String> {
        requires_pattern(&self.never, &self.extras)
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;

    #[test]
    fn writes_specifiers_like_rpms_generator() {
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
