//! Explains why a distribution is a member of a closure: the chains of requirements that lead to
//! it, or the facts about a name that is not a member. Does not format the result.

use std::collections::BTreeMap;

use super::offers::Offers;
use super::{Closure, Edge, Member};
use crate::error::{Diagnose, Diagnosis, Kind};
use crate::names::nearest;
use crate::sources::normalized;
use crate::workspace::{ClosureRules, MemberPlace};

/// Why a distribution is a member.
#[derive(Debug)]
pub struct MembershipReason<'c> {
    /// The member.
    pub member: &'c Member,
    /// A shortest chain of requirements from the component to the member.
    pub chain: Vec<&'c Edge>,
    /// The number of other chains of the same length.
    pub others: u64,
    /// All direct requirements on it, those of the component first.
    pub required_by: Vec<&'c Edge>,
}

/// A name that is not a member.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` is not in the closure of `{component}`")]
pub struct NotMember {
    name: String,
    component: String,
    help: Vec<String>,
}

impl Diagnose for NotMember {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::from(Kind::Usage).with_help_lines(&self.help)
    }
}

/// Explains why a distribution is a member. The name may have any spelling.
pub fn why<'c>(
    closure: &'c Closure,
    offers: &Offers,
    rules: &ClosureRules,
    name: &str,
) -> Result<MembershipReason<'c>, NotMember> {
    let name = normalized(name);
    let Some(member) = closure.members.get(&name) else {
        let help = help(closure, offers, rules, &name);
        return Err(NotMember { name, component: closure.graph.component.to_string(), help });
    };
    let (chain, shortest) = chains(closure).remove(name.as_str()).unwrap_or_default();
    Ok(MembershipReason {
        member,
        chain,
        others: shortest.saturating_sub(1),
        required_by: required_by(closure, &name),
    })
}

/// Returns the requirements on a distribution, those of the component first.
pub fn required_by<'c>(closure: &'c Closure, name: &str) -> Vec<&'c Edge> {
    let mut edges: Vec<&Edge> = closure.graph.edges.iter().filter(|edge| edge.to == name).collect();
    edges.sort_by_key(|edge| edge.from != closure.graph.root);
    edges
}

/// Returns for each distribution that the component reaches a shortest chain to it, and the number
/// of chains of that length.
pub fn chains(closure: &Closure) -> BTreeMap<&str, (Vec<&Edge>, u64)> {
    let graph = &closure.graph;
    let mut wants: BTreeMap<&str, BTreeMap<&str, &Edge>> = BTreeMap::new();
    for edge in &graph.edges {
        // Two requirements on the same distribution, with different bounds, count as one step.
        wants.entry(&edge.from).or_default().entry(&edge.to).or_insert(edge);
    }
    let mut found: BTreeMap<&str, (Vec<&Edge>, u64)> = BTreeMap::new();
    found.insert(&graph.root, (Vec::new(), 1));
    let mut reached = vec![graph.root.as_str()];
    while !reached.is_empty() {
        let mut next: BTreeMap<&str, (Vec<&Edge>, u64)> = BTreeMap::new();
        for from in reached {
            let (chain, ways) = found.get(from).cloned().unwrap_or_default();
            for (to, edge) in wants.get(from).into_iter().flatten() {
                if found.contains_key(to) {
                    continue;
                }
                let (_, count) = next
                    .entry(to)
                    .or_insert_with(|| (chain.iter().copied().chain([*edge]).collect(), 0));
                *count = count.saturating_add(ways);
            }
        }
        reached = next.keys().copied().collect();
        found.append(&mut next);
    }
    found
}

fn help(closure: &Closure, offers: &Offers, rules: &ClosureRules, name: &str) -> Vec<String> {
    if name == closure.graph.root {
        return vec![format!("component `{}` itself builds it", closure.graph.component)];
    }
    if let Some(rule) = rules.member(name).filter(|rule| rule.place == Some(MemberPlace::Dropped)) {
        let because = format!("it is dropped in component.toml ({})", rule.reason);
        return vec![format!("{because}, and nothing requires it anymore: remove that decision")];
    }
    let near = nearest(name, closure.members.keys().map(String::as_str));
    let mut help: Vec<String> =
        near.map(|near| format!("did you mean `{near}`?")).into_iter().collect();
    help.push(match offers.of_dist(name) {
        Some(offer) => format!(
            "nothing requires it; {} has {}, so its place would be `system` if that version fits",
            closure.chroot, offer
        ),
        None => format!("nothing requires it; {} has no such distribution either", closure.chroot),
    });
    help
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closure::place::place;
    use crate::closure::testing::{Sketch, offers, rules, sample};

    fn steps(why: &MembershipReason<'_>) -> Vec<String> {
        why.chain.iter().map(|edge| format!("{} -> {}", edge.from, edge.text)).collect()
    }

    #[test]
    fn finds_shortest_chain_and_counts_others() {
        let (closure, had, decided) = sample();
        let found = why(&closure, &had, &decided, "Typing_Extensions").unwrap();
        assert_eq!(found.member.place, MemberPlace::System);
        assert_eq!(steps(&found), ["demo -> torch==2.11", "torch -> typing-extensions"]);
        assert_eq!(found.others, 0);
        let from: Vec<&str> = found.required_by.iter().map(|edge| edge.from.as_str()).collect();
        assert_eq!(from, ["pydantic", "starlette", "torch"]);

        let two_ways = Sketch::of(&["a", "b", "c"])
            .index("a", "1", &["z>=1", "z<3"])
            .index("b", "1", &["z"])
            .index("c", "1", &["d"])
            .index("d", "1", &["z"])
            .index("z", "1", &["a"])
            .graph();
        let closure = place(two_ways, &offers(&[]), &rules(&[]), "c", "p").unwrap();
        let found = why(&closure, &had, &decided, "z").unwrap();
        assert_eq!(steps(&found), ["demo -> a", "a -> z<3"]);
        assert_eq!((found.others, found.required_by.len()), (1, 4));
        let direct = why(&closure, &had, &decided, "a").unwrap();
        assert_eq!(direct.required_by[0].from, "demo", "the component comes first");
        assert_eq!(steps(&direct), ["demo -> a"]);
    }

    #[test]
    fn counts_chains_without_enumeration() {
        // 2^80 chains: too many for a u64, and to enumerate.
        let mut sketch = Sketch::of(&["a0", "b0"]);
        for at in 0..80 {
            let next = [format!("a{}", at + 1), format!("b{}", at + 1)];
            let next: Vec<&str> = next.iter().map(String::as_str).collect();
            let next = if at == 79 { vec!["end"] } else { next };
            sketch =
                sketch.index(&format!("a{at}"), "1", &next).index(&format!("b{at}"), "1", &next);
        }
        let graph = sketch.index("end", "1", &[]).graph();
        let closure = place(graph, &offers(&[]), &rules(&[]), "c", "p").unwrap();
        let found = why(&closure, &offers(&[]), &rules(&[]), "end").unwrap();
        assert_eq!((found.chain.len(), found.others), (81, u64::MAX - 1));
    }

    #[test]
    fn explains_missing_members() {
        let (closure, had, decided) = sample();
        let help = |name: &str| {
            let error = why(&closure, &had, &decided, name).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            (error.to_string(), error.help())
        };
        let (message, near) = help("pydantik");
        assert_eq!(message, "`pydantik` is not in the closure of `demo`");
        assert_eq!(near[0], "did you mean `pydantic`?");
        assert_eq!(near[1], "nothing requires it; fedora-43 has no such distribution either");
        assert_eq!(help("demo").1, ["component `demo` itself builds it"]);
        let dropped = why(&closure, &had, &decided, "ray").unwrap();
        assert_eq!(steps(&dropped), ["demo -> ray[serve]>=2"]);

        let more = offers(&[("requests", "2.32")]);
        let gone = rules(&[("old", Some(MemberPlace::Dropped), "slow")]);
        assert_eq!(
            why(&closure, &more, &gone, "requests").unwrap_err().help(),
            [
                "nothing requires it; fedora-43 has python3-requests 2.32, so its place would be `system` if that \
              version fits"
            ]
        );
        assert_eq!(
            why(&closure, &more, &gone, "old").unwrap_err().help(),
            [
                "it is dropped in component.toml (slow), and nothing requires it anymore: remove that decision"
            ]
        );
    }
}
