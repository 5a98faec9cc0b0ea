//! Builds closures for tests from short descriptions. Not part of the program.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::str::FromStr;

use pep440_rs::Version;

use super::offers::Offers;
use super::{About, Closure, Edge, Graph, Locked, LockedFile, LockedOrigin, Node, Offer, Requires};
use crate::digest::Sha256;
use crate::names::ComponentName;
use crate::workspace::document::At;
use crate::workspace::{ClosureRules, MemberPlace, MemberRule};
use python_packaging::needs::Needs;

/// A graph under construction; the component is `demo`.
pub struct Sketch(Graph);

impl Sketch {
    /// Returns a graph with the requirements of `demo`.
    pub fn of(requires: &[&str]) -> Self {
        let component = ComponentName::parse("demo").unwrap();
        let graph = Graph {
            component,
            root: "demo".into(),
            nodes: std::collections::BTreeMap::new(),
            edges: vec![],
            not_after: None,
        };
        let mut sketch = Self(graph);
        sketch.requires("demo", requires);
        sketch
    }

    /// Adds a distribution from the index.
    pub fn index(self, name: &str, version: &str, requires: &[&str]) -> Self {
        let file = |suffix: &str, size| {
            let name = format!("{}-{version}{suffix}", name.replace('-', "_"));
            Some(LockedFile {
                sha256: Sha256::of_bytes(name.as_bytes()),
                name,
                size: Some(size),
                metadata: None,
            })
        };
        let origin = LockedOrigin::Index {
            wheel: file("-py3-none-any.whl", 1000 * name.len() as u64),
            sdist: file(".tar.gz", 2000),
        };
        self.node(name, version, origin, requires)
    }

    /// Adds a distribution that the component of the same name makes.
    pub fn own(self, name: &str, version: &str, requires: &[&str]) -> Self {
        self.node(name, version, LockedOrigin::Stack(ComponentName::parse(name).unwrap()), requires)
    }

    /// Returns the graph.
    pub fn graph(self) -> Graph {
        self.0
    }

    fn node(mut self, name: &str, version: &str, origin: LockedOrigin, requires: &[&str]) -> Self {
        let locked =
            Locked { name: name.into(), version: Version::from_str(version).unwrap(), origin };
        self.0.nodes.insert(name.into(), Node { locked, about: About::default() });
        self.requires(name, requires);
        self
    }

    fn requires(&mut self, from: &str, requires: &[&str]) {
        for text in requires {
            let needs = Needs::read(&format!("Requires-Dist: {text}\n"));
            let need = &needs.requires[0];
            self.0.edges.push(Edge {
                from: from.into(),
                to: need.name().into(),
                text: need.wanted(),
                specifiers: need.specifiers().cloned().unwrap_or_default(),
                extra: text.contains("extra =="),
            });
        }
        self.0.edges.sort_by(|a, b| (&a.from, &a.to, &a.text).cmp(&(&b.from, &b.to, &b.text)));
    }
}

/// Returns the offers of a release: `python3-NAME` in these package versions; `?` stands for an
/// unknown version.
pub fn offers(list: &[(&str, &str)]) -> Offers {
    let offer = |(name, evr): &(&str, &str)| {
        let version = evr.rsplit(':').next().unwrap_or(evr).replace('~', "");
        let offer = Offer {
            package: format!("python3-{name}"),
            evr: evr.trim_matches('?').into(),
            version: Version::from_str(&version).ok(),
            requires: Requires::default(),
        };
        ((*name).into(), offer)
    };
    Offers::from_list(list.iter().map(offer))
}

/// Returns decisions: name, place (optional) and reason.
pub fn rules(list: &[(&str, Option<MemberPlace>, &str)]) -> ClosureRules {
    let rule = |(name, place, reason): &(&str, Option<MemberPlace>, &str)| MemberRule {
        summary: None,
        leave_out: Vec::new(),
        bundled: None,
        name: At { value: (*name).into(), span: 0..1 },
        place: *place,
        from: None,
        not_after: None,
        build_requires: Vec::new(),
        license: None,
        without: (*place == Some(MemberPlace::Dropped)).then(|| format!("what {name} does")),
        reason: (*reason).into(),
    };
    ClosureRules {
        requirements: vec![],
        extras: vec![],
        runtime: None,
        not_after: None,
        members: list.iter().map(rule).collect(),
        accepts: vec![],
        imports: vec![],
    }
}

/// Returns a closure with a member in each place, and one from the stack.
pub fn sample() -> (Closure, Offers, ClosureRules) {
    let graph =
        Sketch::of(&["fastapi>=0.165", "numpy", "torch==2.11", "ray[serve]>=2", "xgrammar>=0.1"])
            .index("fastapi", "0.165.0", &["pydantic>=2.13", "starlette>=1"])
            .index("hub", "2.0", &["pydantic>=2.13"])
            .index("numpy", "2.3.5", &[])
            .index("pydantic", "2.13.1", &["typing-extensions>=4.15"])
            .index("starlette", "1.0", &["typing-extensions"])
            .own("torch", "2.11.0", &["numpy", "typing-extensions"])
            .index("typing-extensions", "4.15.0", &[])
            .index("xgrammar", "0.1.9", &["numpy>=2", "hub>=2"])
            .graph();
    let offers = offers(&[
        ("fastapi", "0.115.0"),
        ("numpy", "1:2.3.4"),
        ("pydantic", "2.12.0~a1"),
        ("typing-extensions", "4.15.0"),
    ]);
    let rules = rules(&[("ray", Some(MemberPlace::Dropped), "it is for several machines")]);
    let closure = super::place::place(graph, &offers, &rules, "fedora-43", "stable").unwrap();
    (closure, offers, rules)
}
