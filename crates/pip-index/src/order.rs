//! Determines the order for writing pages: required distributions come first. It does not know the
//! contents of the pages.

use std::collections::{BTreeMap, BTreeSet};

/// Sorts distributions so that each comes after those it requires; within a cycle, the order is
/// arbitrary. Ignores requirements that are not keys of `requires`.
pub(super) fn required_first(requires: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut order = Vec::with_capacity(requires.len());
    let mut visited: BTreeSet<&str> = BTreeSet::new();
    for name in requires.keys() {
        let mut stack = vec![(name.as_str(), false)];
        while let Some((name, ready)) = stack.pop() {
            if ready {
                order.push(name.to_owned());
            } else if visited.insert(name) {
                stack.push((name, true));
                let inside = requires[name].iter().filter(|other| requires.contains_key(*other));
                stack.extend(inside.map(|other| (other.as_str(), false)));
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_required_first() {
        let set =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let requires = BTreeMap::from([
            ("a".into(), set(&["z", "outside"])),
            ("m".into(), set(&["a", "m"])),
            ("x".into(), set(&["y"])),
            ("y".into(), set(&["x"])),
            ("z".into(), set(&[])),
        ]);
        let order = required_first(&requires);
        let at = |name: &str| order.iter().position(|other| other == name).unwrap();
        assert!(order.len() == 5 && at("z") < at("a") && at("a") < at("m"), "{order:?}");
    }
}
