//! Computes the place of each member of a closure from the offers of the release, the requirements,
//! and the decisions of a packager. A pure function; it does not generate packages.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pep440_rs::VersionSpecifiers;

use super::offers::Offers;
use super::{Closure, Edge, Graph, LockedOrigin, Member, Node, Offer, Requires};
use crate::error::{Diagnose, Diagnosis, Kind, Problem};
use crate::names::nearest;
use crate::workspace::document::File;
use crate::workspace::{ClosureRules, MemberPlace, MemberRule};

/// Why members have no place.
#[derive(Debug, thiserror::Error)]
#[error("{}", message(.problems))]
pub struct PlacementError {
    problems: Vec<Problem>,
    /// Whether one of the problems is a mistake in component.toml.
    of_rules: bool,
}

fn message(problems: &[Problem]) -> String {
    match problems {
        [one] => one.message.clone(),
        many => format!("{} members of the closure have no place", many.len()),
    }
}

impl PlacementError {
    /// Adds the positions of problems with decisions, which are in this `component.toml`.
    #[must_use]
    pub fn shown_in(mut self, file: &File) -> Self {
        for problem in &mut self.problems {
            problem.file.clone_from(&file.name);
            if problem.span.is_some() {
                problem.text.clone_from(&file.text);
            }
        }
        self
    }
}

impl Diagnose for PlacementError {
    fn diagnosis(&self) -> Diagnosis {
        let kind = if self.of_rules { Kind::Config } else { Kind::Findings };
        Diagnosis::from(kind).with_problems(&self.problems)
    }
}

/// Assigns a place to each member of a graph. Reports all problems at once.
pub fn place(
    graph: Graph,
    offers: &Offers,
    rules: &ClosureRules,
    chroot: &str,
    pins: &str,
) -> Result<Closure, PlacementError> {
    let mut view = View::new(&graph, offers, rules, chroot);
    view.find_private();
    view.find_places();
    view.check();
    if !view.problems.is_empty() {
        return Err(PlacementError { of_rules: view.of_rules, problems: view.problems });
    }
    let members = view.members();
    Ok(Closure { graph, chroot: chroot.to_owned(), pins: pins.to_owned(), members })
}

/// Returns the decisions that are no longer needed: they are about distributions that nothing
/// requires.
pub fn needless<'r>(closure: &Closure, rules: &'r ClosureRules) -> Vec<&'r MemberRule> {
    rules.members.iter().filter(|rule| !closure.members.contains_key(&rule.name.value)).collect()
}

/// Whether the release's version satisfies a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    Yes,
    /// The version is unknown, and the requirement has a bound.
    Unknown,
    No,
}

fn fit(offer: Option<&Offer>, edge: &Edge) -> Fit {
    offer.map_or(Fit::No, |offer| takes(&edge.specifiers, offer))
}

fn takes(specifiers: &VersionSpecifiers, offer: &Offer) -> Fit {
    match &offer.version {
        _ if specifiers.is_empty() => Fit::Yes,
        None => Fit::Unknown,
        Some(version) if specifiers.contains(version) => Fit::Yes,
        Some(_) => Fit::No,
    }
}

/// Returns whether the release has exactly the locked version.
fn is_locked(offer: &Offer, node: &Node) -> bool {
    offer.version.as_ref() == Some(&node.locked.version)
}

/// The state of the computation.
struct View<'g> {
    graph: &'g Graph,
    offers: &'g Offers,
    rules: &'g ClosureRules,
    chroot: &'g str,
    /// The requirements by required distribution, those of the component first.
    wanted: BTreeMap<&'g str, Vec<&'g Edge>>,
    /// The requirements by requiring distribution.
    wants: BTreeMap<&'g str, Vec<&'g Edge>>,
    /// The members of the private prefix, with the order in which they were found.
    private: BTreeMap<&'g str, usize>,
    places: BTreeMap<&'g str, (MemberPlace, String)>,
    problems: Vec<Problem>,
    of_rules: bool,
}

impl<'g> View<'g> {
    fn new(graph: &'g Graph, offers: &'g Offers, rules: &'g ClosureRules, chroot: &'g str) -> Self {
        Self {
            graph,
            offers,
            rules,
            chroot,
            wanted: graph.by_required(),
            wants: graph.by_requirer(),
            private: BTreeMap::new(),
            places: BTreeMap::new(),
            problems: Vec::new(),
            of_rules: false,
        }
    }

    fn wanted(&self, name: &str) -> &[&'g Edge] {
        self.wanted.get(name).map_or(&[], Vec::as_slice)
    }

    fn wants(&self, name: &str) -> &[&'g Edge] {
        self.wants.get(name).map_or(&[], Vec::as_slice)
    }

    fn decided(&self, name: &str) -> Option<(&'g MemberRule, MemberPlace)> {
        self.rules.member(name).and_then(|rule| Some((rule, rule.place?)))
    }

    /// Finds the members that must be private: the smallest set that needs no others.
    fn find_private(&mut self) {
        let decided = |name: &&str| {
            self.decided(name).is_some_and(|(_, place)| place == MemberPlace::Private)
        };
        let names = self.graph.nodes.keys().map(String::as_str);
        self.private = names.filter(decided).map(|name| (name, 0)).collect();
        let free: Vec<&str> = self
            .graph
            .nodes
            .iter()
            .filter(|(name, node)| {
                matches!(node.locked.origin, LockedOrigin::Index { .. })
                    && self.decided(name).is_none()
            })
            .map(|(name, _)| name.as_str())
            .collect();
        // A new private member can make others private, but never the reverse.
        loop {
            let before = self.private.len();
            for name in &free {
                let must = match self.offers.of_dist(name) {
                    None => self.hides(name).is_some() || self.only_private(name).is_some(),
                    Some(offer) => {
                        self.refusal(name, offer).is_some()
                            || self.made_for_another(name).is_some()
                            || self.not_installable(name, offer).is_some()
                    }
                };
                if must {
                    let nth = self.private.len() + 1;
                    self.private.entry(*name).or_insert(nth);
                }
            }
            if self.private.len() == before {
                return;
            }
        }
    }

    /// Returns whether a requirement can rule out the release's package. A requirement of one of
    /// the release's packages cannot: dnf installs that package with the release's own dependencies
    /// or not at all. Requirements of its extras are not the package's own, and count if that
    /// version is locked.
    fn counts(&self, edge: &Edge) -> bool {
        let name = edge.from.as_str();
        let Some(node) = self.graph.nodes.get(name) else { return true };
        matches!(node.locked.origin, LockedOrigin::Stack(_))
            || self.private.contains_key(name)
            || self.offers.of_dist(name).is_none_or(|offer| edge.extra && is_locked(offer, node))
    }

    /// Returns the requirement that makes the release's package uninstallable, and what the release
    /// has instead. METADATA of a version other than the package's do not count, and the stack's
    /// own packages replace those of the release.
    fn not_installable(&self, name: &str, offer: &Offer) -> Option<String> {
        let differing = match &offer.requires {
            Requires::Unmet(unmet) => {
                return Some(format!("{}, which no package provides", unmet.first()?));
            }
            Requires::Except(differing) => differing,
        };
        self.graph.nodes.get(name).filter(|node| is_locked(offer, node))?;
        self.wants(name).iter().filter(|edge| !edge.extra && !self.is_of_stack(&edge.to)).find_map(
            |edge| {
                let has = self.offers.of_dist(&edge.to)?;
                let (specifiers, text) = match differing.get(&edge.to) {
                    None => (&edge.specifiers, edge.text.clone()),
                    Some(None) => return None,
                    Some(Some(specifiers)) => (specifiers, format!("{}{specifiers}", edge.to)),
                };
                let other = || format!("{text}, and {} has {}", self.chroot, has);
                (takes(specifiers, has) == Fit::No).then(other)
            },
        )
    }

    fn is_of_stack(&self, name: &str) -> bool {
        let node = self.graph.nodes.get(name);
        node.is_some_and(|node| matches!(node.locked.origin, LockedOrigin::Stack(_)))
    }

    /// Assigns a place and a reason to each member.
    fn find_places(&mut self) {
        let mut places = BTreeMap::new();
        let needed = self.needed();
        for (name, node) in &self.graph.nodes {
            let given = match (&node.locked.origin, self.decided(name)) {
                (_, Some((rule, place))) => (place, rule.reason.clone()),
                (LockedOrigin::Stack(component), None) => {
                    (MemberPlace::Rpm, format!("component {component} of this stack"))
                }
                (LockedOrigin::Index { .. }, None)
                    if self.offers.of_dist(name).is_none() && !needed.contains(name.as_str()) =>
                {
                    let from =
                        self.wanted(name).first().map_or("nothing", |edge| edge.from.as_str());
                    (
                        MemberPlace::System,
                        format!("only {from} requires it, and {} has its own", self.chroot),
                    )
                }
                (LockedOrigin::Index { .. }, None) => self.computed(name),
            };
            places.insert(name.as_str(), given);
        }
        for rule in
            self.rules.members.iter().filter(|rule| rule.place == Some(MemberPlace::Dropped))
        {
            let name = rule.name.value.as_str();
            if !self.wanted(name).is_empty() {
                places.insert(name, (MemberPlace::Dropped, rule.reason.clone()));
            }
        }
        self.places = places;
    }

    fn computed(&self, name: &str) -> (MemberPlace, String) {
        let Some(offer) = self.offers.of_dist(name) else {
            return match (self.hides(name), self.only_private(name)) {
                (Some(reason), _) => (MemberPlace::Private, reason),
                (None, Some(edge)) => {
                    (MemberPlace::Private, format!("requires {}, which is private", edge.text))
                }
                (None, None) => {
                    (MemberPlace::Rpm, format!("{} has no such distribution", self.chroot))
                }
            };
        };
        let has = format!("{} has {}", self.chroot, offer);
        match (self.refusal(name, offer), self.made_for_another(name)) {
            (Some(refusal), _) => (MemberPlace::Private, refusal),
            (None, Some(edge)) => {
                let private =
                    self.graph.nodes.get(&edge.to).map(|node| node.locked.version.to_string());
                let private = private.unwrap_or_default();
                (
                    MemberPlace::Private,
                    format!("{has}, built for a different {} than the private {private}", edge.to),
                )
            }
            (None, None) => match self.not_installable(name, offer) {
                Some(unmet) => (MemberPlace::Private, format!("{has}, which requires {unmet}")),
                None => (MemberPlace::System, has),
            },
        }
    }

    /// Returns which later release's package an RPM of a member would hide, if any.
    fn hides(&self, name: &str) -> Option<String> {
        self.offers.later().hidden(name, &self.graph.nodes.get(name)?.locked.version)
    }

    /// Returns a member's requirement on a private one, if the release has a version other than the
    /// locked one: that version was not resolved together with the private members, and uv would
    /// have preferred it.
    fn made_for_another(&self, name: &str) -> Option<&'g Edge> {
        let node = self.graph.nodes.get(name)?;
        let offer = self.offers.of_dist(name)?;
        let private = |edge: &&Edge| self.private.contains_key(edge.to.as_str()) && edge.to != name;
        self.wants(name).iter().copied().find(private).filter(|_| !is_locked(offer, node))
    }

    /// Describes the requirements that the release's package does not satisfy, if any.
    fn refusal(&self, name: &str, offer: &Offer) -> Option<String> {
        let refuses = |edge: &&Edge| fit(Some(offer), edge) != Fit::Yes && self.counts(edge);
        let refusing: Vec<&Edge> = self.wanted(name).iter().copied().filter(refuses).collect();
        let first = refusing.first()?;
        let unknown = match fit(Some(offer), first) {
            Fit::Unknown => " in an unknown version",
            _ => "",
        };
        let others: BTreeSet<&str> = refusing
            .iter()
            .map(|edge| edge.from.as_str())
            .filter(|from| *from != first.from)
            .collect();
        let more = match others.len() {
            0 => String::new(),
            n => format!(" (and {n} more)"),
        };
        let has = format!("{} has {}{unknown}", self.chroot, offer);
        Some(format!("{has}; {} requires {}{more}", self.named(&first.from), first.text))
    }

    /// Returns a member's name with its version.
    fn named(&self, name: &str) -> String {
        let node = self.graph.nodes.get(name);
        node.map_or_else(|| name.to_owned(), |node| format!("{name} {}", node.locked.version))
    }

    /// Returns a requirement of a member that nothing outside the private prefix satisfies. Of
    /// several, the one on the member that became private first, which is therefore not private
    /// because of this member.
    fn only_private(&self, name: &str) -> Option<&'g Edge> {
        let inside = |edge: &&Edge| {
            self.private.contains_key(edge.to.as_str())
                && fit(self.offers.of_dist(&edge.to), edge) != Fit::Yes
        };
        self.wants(name)
            .iter()
            .copied()
            .filter(inside)
            .min_by_key(|edge| self.private.get(edge.to.as_str()))
    }

    /// Returns the members that are required by the component or by a member that does not come
    /// from the release: a package of the release pulls in its own requirements, but not those of
    /// its extras.
    fn needed(&self) -> BTreeSet<&'g str> {
        let (mut needed, mut open) = (BTreeSet::new(), vec![self.graph.root.as_str()]);
        let mut opened: BTreeSet<&str> = open.iter().copied().collect();
        while let Some(name) = open.pop() {
            for edge in self.wants(name) {
                let to = edge.to.as_str();
                needed.insert(to);
                if (!self.is_of_release(to) || edge.text.contains('[')) && opened.insert(to) {
                    open.push(to);
                }
            }
        }
        needed
    }

    fn is_of_release(&self, name: &str) -> bool {
        match self.decided(name) {
            Some((_, place)) => place == MemberPlace::System,
            None => {
                let node = self.graph.nodes.get(name);
                let of_index =
                    node.is_some_and(|n| matches!(n.locked.origin, LockedOrigin::Index { .. }));
                of_index && self.offers.of_dist(name).is_some() && !self.private.contains_key(name)
            }
        }
    }

    /// Reports what is not possible: invalid decisions, and components outside the prefix that
    /// require private members.
    fn check(&mut self) {
        for rule in &self.rules.members {
            self.check_rule(rule);
        }
        for (name, node) in &self.graph.nodes {
            let LockedOrigin::Stack(component) = &node.locked.origin else { continue };
            if let Some(edge) = self.only_private(name).filter(|_| self.decided(name).is_none()) {
                let private =
                    self.places.get(edge.to.as_str()).map_or("", |(_, reason)| reason.as_str());
                let message = format!(
                    "component {component} requires {}, but only the private prefix has it",
                    edge.text
                );
                let help = format!(
                    "{} is private: {private}; edit {component} to allow the version in {}",
                    edge.to, self.chroot
                );
                self.problem(None, message, "", Some(help));
            }
        }
    }

    fn check_rule(&mut self, rule: &'g MemberRule) {
        let name = rule.name.value.as_str();
        let span = Some(rule.name.span.clone());
        let dropped = rule.place == Some(MemberPlace::Dropped);
        let Some(node) = self.graph.nodes.get(name) else {
            if !dropped {
                let message = format!("`{name}` is not in the closure");
                let known = self.graph.nodes.keys().map(String::as_str);
                let help = match nearest(name, known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "nothing requires it: remove the decision".to_owned(),
                };
                self.problem(span, message, "no member has this name", Some(help));
            }
            return;
        };
        let Some(place) = rule.place else { return };
        if let LockedOrigin::Stack(component) = &node.locked.origin
            && !matches!(place, MemberPlace::Rpm | MemberPlace::Dropped)
        {
            let message = format!("`{name}` is built by component {component} of this stack");
            let label = format!("its place is `rpm`, not `{}`", place.name());
            self.problem(span, message, label, None);
            return;
        }
        let own = matches!(node.locked.origin, LockedOrigin::Stack(_));
        let offer = self.offers.of_dist(name);
        match (place, offer) {
            (MemberPlace::System, None) => {
                let message = format!("`{name}` cannot come from the system");
                let label = format!("{} has no such distribution", self.chroot);
                self.problem(span, message, label, None);
            }
            // If the version is unknown, trust the packager.
            (MemberPlace::System, Some(offer)) if offer.version.is_some() => {
                if let Some(refusal) = self.refusal(name, offer) {
                    let message = format!("`{name}` cannot come from the system");
                    let help = "if that version works, edit the requirement to allow it";
                    self.problem(span, message, refusal, Some(help.to_owned()));
                }
            }
            (MemberPlace::Rpm, Some(offer)) if !own => {
                let message = format!("`{name}` cannot have its own RPM");
                let label = format!("{} has {}, which it would replace", self.chroot, offer);
                self.problem(
                    span,
                    message,
                    label,
                    Some("set its place to `system` or `private`".to_owned()),
                );
            }
            (MemberPlace::Rpm, _) => {
                if let Some(edge) = self.only_private(name) {
                    let message = format!("`{name}` cannot have its own RPM");
                    let label = format!("it requires {}, which is private", edge.text);
                    self.problem(span, message, label, None);
                }
            }
            _ => {}
        }
    }

    fn problem(
        &mut self,
        span: Option<Range<usize>>,
        message: String,
        label: impl Into<String>,
        help: Option<String>,
    ) {
        self.of_rules |= span.is_some();
        let file = format!("specs-templates/{}/component.toml", self.graph.component);
        let label = label.into();
        self.problems.push(Problem { file, text: String::new(), span, message, label, help });
    }

    fn members(self) -> BTreeMap<String, Member> {
        let member = |(name, (place, reason)): (&str, (MemberPlace, String))| {
            let rule = self.rules.member(name);
            let node: Option<Node> =
                self.graph.nodes.get(name).filter(|_| place != MemberPlace::Dropped).cloned();
            let member = Member {
                name: name.to_owned(),
                node,
                offer: self.offers.of_dist(name).cloned(),
                place,
                reason,
                decided: rule.is_some_and(|rule| rule.place.is_some()),
                without: rule.and_then(|rule| rule.without.clone()),
            };
            (name.to_owned(), member)
        };
        self.places.clone().into_iter().map(member).collect()
    }
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
