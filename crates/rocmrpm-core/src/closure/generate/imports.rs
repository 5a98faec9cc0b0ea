//! Decides whether `%check` of a member's package can import the member: the build root can have
//! packages of the release and of other members, but neither the private prefix nor dropped members.

use std::collections::BTreeSet;

use super::requires::{edges, of_all, place};
use crate::closure::Closure;
use crate::workspace::MemberPlace;

/// What an import in `%check` needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Import {
    /// These build requirements in rpm's syntax, and the components that provide some of them.
    Needs { build_requires: Vec<String>, components: BTreeSet<String> },
    /// Something that the build root cannot have; the reason as a part of a sentence.
    Unavailable(String),
}

impl Import {
    /// Returns what the import of a member needs.
    pub fn of(closure: &Closure, name: &str) -> Self {
        match missing(closure, name, &mut BTreeSet::new()) {
            Some(reason) => Self::Unavailable(reason),
            None => {
                let required = edges(closure, name).filter(|edge| !edge.extra);
                let packaged = required.filter(|edge| is_packaged(closure, &edge.to));
                Self::Needs {
                    build_requires: of_all(closure, &[name].into()),
                    components: packaged.map(|edge| edge.to.clone()).collect(),
                }
            }
        }
    }
}

fn is_packaged(closure: &Closure, name: &str) -> bool {
    place(closure, name) == Some(MemberPlace::Rpm)
}

/// Returns why the build root cannot have all requirements of a member; `above` are the members
/// that require it, whose builds come later.
fn missing<'c>(
    closure: &'c Closure,
    name: &'c str,
    above: &mut BTreeSet<&'c str>,
) -> Option<String> {
    above.insert(name);
    let found = edges(closure, name).filter(|edge| !edge.extra).find_map(|edge| {
        let to = edge.to.as_str();
        let reason = match place(closure, to) {
            Some(MemberPlace::System) => return None,
            Some(MemberPlace::Rpm) if above.contains(to) => "is built after it",
            Some(MemberPlace::Rpm) => return missing(closure, to, above),
            Some(MemberPlace::Private) => "is in the private prefix",
            Some(MemberPlace::Dropped) => "is left out",
            None => "is a component of the stack, whose build takes hours",
        };
        Some(format!("{name} requires {to}, which {reason}"))
    });
    above.remove(name);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closure::Member;
    use crate::closure::testing::Sketch;

    /// Returns the import of `a`, which requires `b`, which requires `c`.
    fn import(of_b: MemberPlace, of_c: MemberPlace, requires_of_c: &[&str]) -> Import {
        let graph = Sketch::of(&["a"])
            .index("a", "1", &["b>=1"])
            .index("b", "1", &["c"])
            .index("c", "1", requires_of_c)
            .graph();
        let places = [("a", MemberPlace::Rpm), ("b", of_b), ("c", of_c)];
        let members = places.map(|(name, place)| {
            let (name, reason) = (name.to_owned(), String::new());
            let (node, offer, without) = (None, None, None);
            let member =
                Member { name: name.clone(), node, offer, place, reason, decided: false, without };
            (name, member)
        });
        let (chroot, pins) = (String::new(), String::new());
        Import::of(&Closure { graph, chroot, pins, members: members.into() }, "a")
    }

    #[test]
    fn imports_with_packages_of_the_release_and_of_members() {
        use MemberPlace::{Private, Rpm, System};
        let needs = |components: &[&str]| Import::Needs {
            build_requires: vec!["python3dist(b) >= 1".into()],
            components: components.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(import(System, Private, &[]), needs(&[]));
        assert_eq!(import(Rpm, System, &[]), needs(&["b"]));
        assert_eq!(import(Rpm, Rpm, &[]), needs(&["b"]));
    }

    #[test]
    fn states_what_the_build_root_cannot_have() {
        use MemberPlace::{Dropped, Private, Rpm};
        for (of_b, of_c, requires_of_c, reason) in [
            (Private, Rpm, &[][..], "a requires b, which is in the private prefix"),
            (Dropped, Rpm, &[], "a requires b, which is left out"),
            (Rpm, Private, &[], "b requires c, which is in the private prefix"),
            (Rpm, Rpm, &["a"], "c requires a, which is built after it"),
            (Rpm, Rpm, &["torch"], "c requires torch, which is a component of the stack"),
        ] {
            let Import::Unavailable(found) = import(of_b, of_c, requires_of_c) else { panic!() };
            assert!(found.starts_with(reason), "{found}");
        }
    }
}
