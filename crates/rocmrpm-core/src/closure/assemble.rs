//! Builds the graph of a closure: the locked distributions that the component leads to, and every
//! requirement between them that holds. Does not choose versions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::lock::Lock;
use super::never::never_reason;
use super::question::ClosureQuery;
use super::roots::{self, StatedRequirements};
use super::{About, ClosureError, Edge, Graph, Locked, LockedFile, LockedOrigin, Node, metadata};
use crate::digest::Sha256;
use crate::sources::{Distribution, Fetcher};
use crate::workspace::Upstreams;
use python_packaging::needs::Need;

/// A distribution and its metadata.
struct KnownDistribution {
    stated: StatedRequirements,
    about: About,
}

/// Builds the graph of the locked distributions. `file` is the lock's path, unless it was just
/// resolved.
pub(super) fn graph(
    question: &ClosureQuery<'_>,
    lock: &Lock,
    file: Option<&str>,
    fetcher: &Fetcher<'_>,
) -> Result<Graph, ClosureError> {
    let graph = connected(question, lock, file, None, fetcher)?;
    forbid(question.upstreams, &graph)?;
    Ok(graph)
}

/// Builds the graph without checking what is locked, and without checking versions of the
/// distribution `free`.
pub(super) fn connected(
    question: &ClosureQuery<'_>,
    lock: &Lock,
    file: Option<&str>,
    free: Option<&str>,
    fetcher: &Fetcher<'_>,
) -> Result<Graph, ClosureError> {
    let known = known(question, lock, fetcher)?;
    let dropped = question.dropped();
    let root = &question.root.name;
    let mut extras: BTreeMap<&str, BTreeSet<String>> =
        BTreeMap::from([(root.as_str(), question.extras())]);
    let mut open: Vec<&str> = vec![root];
    let mut edges: BTreeMap<&str, Vec<Edge>> = BTreeMap::new();
    while let Some(name) = open.pop() {
        let stated = match name == root {
            true => &question.root,
            false => &known[name].stated,
        };
        let mut own = Vec::new();
        for need in
            stated.holding(&question.environment, extras.get(name).unwrap_or(&BTreeSet::new()))
        {
            own.push(edge(name, need, !need.holds(question.environment.markers(), &[])));
            if dropped.contains(need.name()) || need.name() == root {
                continue;
            }
            let Some((to, _)) = known.get_key_value(need.name()) else {
                if free == Some(need.name()) {
                    continue;
                }
                let wrong =
                    format!("`{name}` requires `{}`, which it does not contain", need.wanted());
                return Err(torn(file, wrong));
            };
            let locked = lock.version(to).filter(|_| free != Some(to.as_str()));
            if let Some(version) = locked.filter(|version| !need.takes(version)) {
                let wrong =
                    format!("`{name}` requires `{}`, but it has {to} {version}", need.wanted());
                return Err(torn(file, wrong));
            }
            // The extras that are requested can change what a distribution requires.
            let asked = extras.entry(to).or_default();
            let before = asked.len();
            asked.extend(need.parsed.extras.iter().map(ToString::to_string));
            if (asked.len() > before || !edges.contains_key(to.as_str()))
                && !open.contains(&to.as_str())
            {
                open.push(to);
            }
        }
        edges.insert(name, own);
    }
    let reached: BTreeSet<&str> = edges.keys().copied().collect();
    let nodes = lock.packages.iter().filter(|locked| reached.contains(locked.name.as_str()));
    let nodes = nodes.map(|locked| {
        let about = known[&locked.name].about.clone();
        (locked.name.clone(), Node { locked: locked.clone(), about })
    });
    let mut graph = Graph {
        component: question.component.name.clone(),
        root: root.clone(),
        nodes: nodes.collect(),
        edges: edges.into_values().flatten().collect(),
        not_after: question.cutoff.day,
    };
    graph.edges.sort_by(|a, b| {
        (&a.from, &a.to, &a.text, a.extra).cmp(&(&b.from, &b.to, &b.text, b.extra))
    });
    // A requirement that holds without an extra does not need one.
    graph.edges.dedup_by(|b, a| (&a.from, &a.to, &a.text) == (&b.from, &b.to, &b.text));
    Ok(graph)
}

/// Reads the metadata of every locked distribution.
fn known(
    question: &ClosureQuery<'_>,
    lock: &Lock,
    fetcher: &Fetcher<'_>,
) -> Result<BTreeMap<String, KnownDistribution>, ClosureError> {
    let mut known = BTreeMap::new();
    for locked in &lock.packages {
        if let (LockedOrigin::Stack(_), Some(own)) =
            (&locked.origin, question.own.get(&locked.name))
        {
            let name = locked.name.clone();
            let stated =
                StatedRequirements { name: name.clone(), needs: own.needs.clone(), metadata: None };
            known.insert(name, KnownDistribution { stated, about: own.about.clone() });
        }
    }
    let files = files(lock);
    for (file, text) in files.iter().zip(fetcher.metadata(&files)?) {
        let of = format!("{} {}", file.project, file.version);
        let (name, needs) = (file.project.clone(), roots::needs(&text, &of)?);
        let stated = StatedRequirements { name: name.clone(), needs, metadata: None };
        known.insert(name, KnownDistribution { stated, about: metadata::about(&text) });
    }
    Ok(known)
}

/// Records the digests of the wheels' METADATA in a lock, so that later runs reject other METADATA.
/// Reuses the digests that `old` has for the same wheels.
pub(super) fn record_metadata(
    lock: &mut Lock,
    old: Option<&Lock>,
    fetcher: &Fetcher<'_>,
) -> Result<(), ClosureError> {
    let old = old.map_or(&[][..], |old| &old.packages);
    let known: BTreeMap<Sha256, Sha256> =
        wheels(old).filter_map(|wheel| Some((wheel.sha256, wheel.metadata?))).collect();
    let mut files = files(lock);
    for file in &mut files {
        file.metadata = known.get(&file.sha256).copied();
    }
    let texts = fetcher.metadata(&files)?;
    let found: BTreeMap<Sha256, Sha256> =
        files.iter().zip(texts).map(|(file, text)| (file.sha256, Sha256::of_bytes(text))).collect();
    for locked in &mut lock.packages {
        if let LockedOrigin::Index { wheel: Some(wheel), .. } = &mut locked.origin {
            wheel.metadata = found.get(&wheel.sha256).copied();
        }
    }
    Ok(())
}

/// Returns the wheels of locked packages.
pub(super) fn wheels(packages: &[Locked]) -> impl Iterator<Item = &LockedFile> {
    packages.iter().filter_map(|locked| match &locked.origin {
        LockedOrigin::Index { wheel, .. } => wheel.as_ref(),
        LockedOrigin::Stack(_) => None,
    })
}

/// Returns the files whose METADATA list the requirements.
pub(super) fn files(lock: &Lock) -> Vec<Distribution> {
    let of = |locked: &Locked| {
        let LockedOrigin::Index { wheel, sdist } = &locked.origin else { return None };
        let file = wheel.as_ref().or(sdist.as_ref())?;
        let (project, version) = (locked.name.clone(), locked.version.clone());
        let LockedFile { name, sha256, metadata, .. } = file.clone();
        Some(Distribution { project, version, file: name, sha256, metadata })
    };
    lock.packages.iter().filter_map(of).collect()
}

fn edge(from: &str, need: &Need, extra: bool) -> Edge {
    Edge {
        from: from.to_owned(),
        to: need.name().to_owned(),
        text: need.wanted(),
        specifiers: need.specifiers().cloned().unwrap_or_default(),
        extra,
    }
}

fn torn(file: Option<&str>, wrong: String) -> ClosureError {
    match file {
        Some(file) => ClosureError::Torn { file: file.to_owned(), wrong },
        None => ClosureError::Answer(wrong),
    }
}

/// Rejects distributions that must never come from an index.
fn forbid(upstreams: &Upstreams, graph: &Graph) -> Result<(), ClosureError> {
    for (name, node) in &graph.nodes {
        let LockedOrigin::Index { .. } = node.locked.origin else { continue };
        if let Some(reason) = never_reason(upstreams, name) {
            let chain = chain(graph, name).unwrap_or_default();
            return Err(ClosureError::Never {
                name: name.clone(),
                reason: reason.to_owned(),
                chain,
            });
        }
    }
    Ok(())
}

/// Returns the shortest chain of requirements from the component to a distribution, such as
/// `vllm -> x 1.0 -> torch<2`.
fn chain(graph: &Graph, to: &str) -> Option<String> {
    let by = first_edges(graph);
    by.get(to).and_then(|last| chain_with(graph, &by, last))
}

/// Returns the shortest chain of requirements that ends with `last`.
pub(super) fn chain_to(graph: &Graph, last: &Edge) -> Option<String> {
    chain_with(graph, &first_edges(graph), last)
}

/// Returns the requirement through which each distribution is reached first.
fn first_edges(graph: &Graph) -> BTreeMap<&str, &Edge> {
    let mut by: BTreeMap<&str, &Edge> = BTreeMap::new();
    let mut open = VecDeque::from([graph.root.as_str()]);
    while let Some(name) = open.pop_front() {
        for edge in graph.edges.iter().filter(|edge| edge.from == name) {
            if edge.to != graph.root && !by.contains_key(edge.to.as_str()) {
                by.insert(&edge.to, edge);
                open.push_back(&edge.to);
            }
        }
    }
    by
}

fn chain_with(graph: &Graph, by: &BTreeMap<&str, &Edge>, last: &Edge) -> Option<String> {
    let mut words = vec![last.text.clone()];
    let mut at = last.from.as_str();
    while at != graph.root {
        let version = graph.nodes.get(at).map(|node| format!(" {}", node.locked.version));
        words.push(format!("{at}{}", version.unwrap_or_default()));
        at = &by.get(at)?.from;
    }
    words.push(graph.root.clone());
    words.reverse();
    Some(words.join(" -> "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: &str, to: &str, text: &str) -> Edge {
        let specifiers = text[to.len()..].parse().unwrap();
        Edge { from: from.into(), to: to.into(), text: text.into(), specifiers, extra: false }
    }

    #[test]
    fn finds_shortest_chain() {
        let edges = vec![
            edge("a", "b", "b>=1"),
            edge("b", "a", "a"),
            edge("b", "c", "c"),
            edge("c", "d", "d<2"),
            edge("root", "a", "a"),
            edge("root", "c", "c>3"),
        ];
        let component = crate::names::ComponentName::parse("root").unwrap();
        let graph = Graph {
            component,
            root: "root".into(),
            nodes: BTreeMap::new(),
            edges,
            not_after: None,
        };
        assert_eq!(chain(&graph, "d").as_deref(), Some("root -> c -> d<2"));
        assert_eq!(chain(&graph, "b").as_deref(), Some("root -> a -> b>=1"));
        assert_eq!(chain(&graph, "x"), None);
        assert_eq!(chain_to(&graph, &graph.edges[2]).as_deref(), Some("root -> a -> b -> c"));
    }
}
