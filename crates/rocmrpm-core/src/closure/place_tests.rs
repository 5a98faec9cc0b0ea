//! Tests of the places: each rule by itself, and all rules together.

use super::*;
use crate::closure::offers::Offers;
use crate::closure::testing::{Sketch, offers, rules, sample};

fn placed(
    graph: Graph,
    offered: &[(&str, &str)],
    decided: &[(&str, Option<MemberPlace>, &str)],
) -> Result<Closure, PlacementError> {
    place(graph, &offers(offered), &rules(decided), "fedora-43", "stable")
}

/// Returns a member's place and reason.
#[track_caller]
fn at<'c>(closure: &'c Closure, name: &str) -> (MemberPlace, &'c str) {
    let member = &closure.members[name];
    (member.place, member.reason.as_str())
}

/// Returns the problems as message, label and help.
#[track_caller]
fn refused(result: Result<Closure, PlacementError>) -> (Kind, Vec<[String; 3]>) {
    let error = result.expect_err("every member has a place");
    let texts =
        error.problems().into_iter().map(|p| [p.message, p.label, p.help.unwrap_or_default()]);
    (error.kind(), texts.collect())
}

#[test]
fn prefers_the_system_if_its_version_fits() {
    let graph = || {
        Sketch::of(&["numpy>=2", "attrs"])
            .index("numpy", "2.3.5", &["attrs>=22"])
            .index("attrs", "26.1", &[])
            .graph()
    };
    let closure = placed(graph(), &[("numpy", "1:2.3.5"), ("attrs", "25.3.0")], &[]).unwrap();
    assert_eq!(at(&closure, "numpy"), (MemberPlace::System, "fedora-43 has python3-numpy 1:2.3.5"));
    assert_eq!(at(&closure, "attrs"), (MemberPlace::System, "fedora-43 has python3-attrs 25.3.0"));
    assert!(!closure.members["attrs"].decided);

    let closure = placed(graph(), &[("numpy", "?"), ("attrs", "?")], &[]).unwrap();
    assert_eq!(
        at(&closure, "numpy"),
        (
            MemberPlace::Private,
            "fedora-43 has python3-numpy in an unknown version; demo requires numpy>=2"
        )
    );
    let unbound = Sketch::of(&["attrs"]).index("attrs", "26.1", &[]).graph();
    let closure = placed(unbound, &[("attrs", "?")], &[]).unwrap();
    assert_eq!(at(&closure, "attrs"), (MemberPlace::System, "fedora-43 has python3-attrs"));
}

#[test]
fn explains_why_a_member_is_private() {
    let graph = Sketch::of(&["fastapi", "mcp", "openai"])
        .index("fastapi", "0.165.0", &["pydantic>=2.13"])
        .index("openai", "3.0", &["pydantic>=2.12,<3"])
        .index("mcp", "2.0", &["pydantic"])
        .index("pydantic", "2.13.1", &[])
        .graph();
    let closure = placed(graph, &[("pydantic", "2.12.0~a1")], &[]).unwrap();
    assert_eq!(
        at(&closure, "pydantic"),
        (
            MemberPlace::Private,
            "fedora-43 has python3-pydantic 2.12.0~a1; fastapi 0.165.0 requires pydantic>=2.13 (and 1 more)"
        )
    );
    assert_eq!(
        closure.members["mcp"].place,
        MemberPlace::Rpm,
        "Fedora's pydantic is enough for it"
    );
    assert_eq!(
        at(&closure, "fastapi"),
        (MemberPlace::Private, "requires pydantic>=2.13, which is private"),
        "an RPM sees only Fedora's pydantic"
    );
}

#[test]
fn leaves_system_dependencies_to_the_system() {
    let graph = Sketch::of(&["pandas"])
        .index("pandas", "2", &["tzdata"])
        .index("tzdata", "1", &["deep"])
        .index("deep", "1", &[])
        .graph();
    let closure = placed(graph.clone(), &[("pandas", "2")], &[]).unwrap();
    assert_eq!(
        at(&closure, "tzdata"),
        (MemberPlace::System, "only pandas requires it, and fedora-43 has its own")
    );
    assert_eq!(at(&closure, "deep").0, MemberPlace::System);
    let closure =
        placed(graph, &[("pandas", "1")], &[("pandas", Some(MemberPlace::Private), "")]).unwrap();
    assert_eq!(
        (at(&closure, "tzdata").0, at(&closure, "deep").0),
        (MemberPlace::Rpm, MemberPlace::Rpm)
    );
}

/// Returns the places with the packages of a release in which `datasets` has these requirements.
fn with_requires(graph: Graph, requires: Requires) -> Closure {
    let known = offers(&[("datasets", "4.5.0"), ("dill", "0.4.1"), ("extra", "1.0")]);
    let known = known.iter().map(|(name, offer)| {
        let mut offer = offer.clone();
        if name == "datasets" {
            offer.requires = requires.clone();
        }
        (name.to_owned(), offer)
    });
    place(graph, &Offers::from_list(known), &rules(&[]), "fedora-44", "stable").unwrap()
}

#[test]
fn uses_actual_requirements_of_packages() {
    let graph = || {
        Sketch::of(&["datasets", "dill"])
            .index("datasets", "4.5.0", &["dill<0.4.1,>=0.3", "torch<2"])
            .index("dill", "0.4.0", &[])
            .own("torch", "2.11", &[])
            .graph()
    };
    let but = |dill: Option<&str>| {
        let dill = dill.map(|specifiers| specifiers.parse().unwrap());
        Requires::Except([("dill".to_owned(), dill)].into())
    };
    for requires in [but(None), but(Some(">=0.3")), Requires::Unmet(vec![])] {
        let closure = with_requires(graph(), requires);
        assert_eq!(at(&closure, "datasets").0, MemberPlace::System);
        assert_eq!(at(&closure, "dill"), (MemberPlace::System, "fedora-44 has python3-dill 0.4.1"));
    }
    let closure = with_requires(graph(), Requires::default());
    let reason = "fedora-44 has python3-datasets 4.5.0, which requires dill<0.4.1,>=0.3, and fedora-44 has \
                  python3-dill 0.4.1";
    assert_eq!(at(&closure, "datasets"), (MemberPlace::Private, reason));
    assert_eq!(at(&closure, "dill").0, MemberPlace::Private, "a private datasets requires it");
    let closure = with_requires(graph(), but(Some("==0.3")));
    assert!(
        at(&closure, "datasets")
            .1
            .ends_with("which requires dill==0.3, and fedora-44 has python3-dill 0.4.1")
    );
    let closure =
        with_requires(graph(), Requires::Unmet(vec!["python3.14dist(pyarrow) >= 21".into()]));
    let reason = "fedora-44 has python3-datasets 4.5.0, which requires python3.14dist(pyarrow) >= 21, which \
                  no package provides";
    assert_eq!(at(&closure, "datasets"), (MemberPlace::Private, reason));
}

#[test]
fn ignores_metadata_of_other_versions_except_extras() {
    let newer =
        Sketch::of(&["datasets"]).index("datasets", "5.0", &["dill<0.4"]).index("dill", "0.3", &[]);
    let closure = with_requires(newer.graph(), Requires::default());
    assert_eq!([at(&closure, "datasets").0, at(&closure, "dill").0], [MemberPlace::System; 2]);
    let asked = Sketch::of(&["datasets[x]"])
        .index("datasets", "4.5.0", &["extra>=2 ; extra == 'x'"])
        .index("extra", "2.0", &[]);
    let closure = with_requires(asked.graph(), Requires::Unmet(vec![]));
    assert_eq!(at(&closure, "datasets").0, MemberPlace::System);
    let reason = "fedora-44 has python3-extra 1.0; datasets 4.5.0 requires extra>=2";
    assert_eq!(
        at(&closure, "extra"),
        (MemberPlace::Private, reason),
        "python3-datasets does not provide it"
    );
}

#[test]
fn missing_members_get_rpms_unless_they_need_the_prefix() {
    let graph = || {
        Sketch::of(&["a", "d"])
            .index("a", "1", &["b"])
            .index("b", "1", &["c", "a"])
            .index("c", "1", &["hub>=2"])
            .index("d", "1", &["hub", "e"])
            .index("e", "1", &["d"])
            .index("hub", "2.0", &[])
            .graph()
    };
    let closure = placed(graph(), &[("hub", "1.0")], &[]).unwrap();
    assert_eq!(at(&closure, "c"), (MemberPlace::Private, "requires hub>=2, which is private"));
    assert_eq!(at(&closure, "b"), (MemberPlace::Private, "requires c, which is private"));
    assert_eq!(at(&closure, "a"), (MemberPlace::Private, "requires b, which is private"));
    for circle in ["d", "e"] {
        assert_eq!(at(&closure, circle), (MemberPlace::Rpm, "fedora-43 has no such distribution"));
    }
    // The next release has it: everything leaves the private prefix automatically.
    let closure = placed(graph(), &[("hub", "2.1")], &[]).unwrap();
    assert_eq!(at(&closure, "hub"), (MemberPlace::System, "fedora-43 has python3-hub 2.1"));
    assert!(closure.members.values().all(|member| member.place != MemberPlace::Private));
    let closure = placed(graph(), &[("hub", "2.1"), ("a", "1")], &[]).unwrap();
    assert_eq!(closure.members["a"].place, MemberPlace::System);
}

#[test]
fn does_not_mix_release_packages_with_private_members() {
    let graph = || {
        Sketch::of(&["fastapi", "starlette>=1", "api", "same"])
            .index("fastapi", "0.165", &["starlette>=0.46"])
            .index("starlette", "1.0", &[])
            .index("api", "2.30", &["protos>=1.75"])
            .index("protos", "1.76", &[])
            .index("same", "1.0", &["starlette"])
            .graph()
    };
    let fedora =
        [("fastapi", "0.116.1"), ("starlette", "0.46"), ("protos", "1.63"), ("same", "1.0")];
    let closure = placed(graph(), &[fedora.as_slice(), &[("api", "2.11")]].concat(), &[]).unwrap();
    assert_eq!(
        at(&closure, "fastapi"),
        (
            MemberPlace::Private,
            "fedora-43 has python3-fastapi 0.116.1, built for a different starlette than the private 1.0"
        )
    );
    assert_eq!(at(&closure, "same").0, MemberPlace::System, "uv resolved this version with it");
    // Requirements of an `api` that is not installed do not count.
    assert_eq!(at(&closure, "api").0, MemberPlace::System);
    assert_eq!(at(&closure, "protos"), (MemberPlace::System, "fedora-43 has python3-protos 1.63"));
    let closure = placed(graph(), &[fedora.as_slice(), &[("api", "2.30")]].concat(), &[]).unwrap();
    assert_eq!(at(&closure, "protos").0, MemberPlace::Private);
}

#[test]
fn rejects_stack_components_that_need_the_prefix() {
    let graph = |sympy: &str| {
        Sketch::of(&["torch==2.11"])
            .own("torch", "2.11.0", &[sympy])
            .index("sympy", "1.14", &["mpmath"])
            .index("mpmath", "1.3", &[])
            .graph()
    };
    let fedora = [("torch", "2.8.0"), ("sympy", "1.13"), ("mpmath", "1.3")];
    let closure = placed(graph("sympy>=1.13"), &fedora, &[]).unwrap();
    assert_eq!(at(&closure, "torch"), (MemberPlace::Rpm, "component torch of this stack"));

    let (kind, problems) = refused(placed(graph("sympy>=1.14"), &fedora, &[]));
    assert_eq!(kind, Kind::Findings);
    assert_eq!(
        problems,
        [[
            "component torch requires sympy>=1.14, but only the private prefix has it".to_owned(),
            String::new(),
            "sympy is private: fedora-43 has python3-sympy 1.13; torch 2.11.0 requires sympy>=1.14; edit \
             torch to allow the version in fedora-43"
                .to_owned()
        ]]
    );
    // Private because of another member, although Fedora's version is enough for torch.
    let decided = [("sympy", Some(MemberPlace::Private), "a bug in 1.13")];
    let closure = placed(graph("sympy>=1.13"), &fedora, &decided).unwrap();
    assert_eq!(at(&closure, "sympy"), (MemberPlace::Private, "a bug in 1.13"));
    assert_eq!(closure.members["torch"].place, MemberPlace::Rpm);

    let (kind, problems) =
        refused(placed(graph("sympy"), &fedora, &[("torch", Some(MemberPlace::Private), "x")]));
    assert_eq!(kind, Kind::Config);
    assert_eq!(problems[0][0], "`torch` is built by component torch of this stack");
    assert_eq!(problems[0][1], "its place is `rpm`, not `private`");
}

#[test]
fn builds_what_the_stacks_own_require_even_if_the_release_has_them() {
    let graph = Sketch::of(&["torch"])
        .own("torch", "2.11.0", &["fsspec"])
        .index("fsspec", "2026.1", &[])
        .graph();
    // The release's `torch` is not installed, so it does not pull in the requirements of this one.
    let closure = placed(graph, &[("torch", "2.8.0")], &[]).unwrap();
    assert_eq!(at(&closure, "fsspec"), (MemberPlace::Rpm, "fedora-43 has no such distribution"));
}

#[test]
fn applies_valid_decisions() {
    let graph = || {
        Sketch::of(&["a", "b>=2"])
            .index("a", "1", &["p>=1"])
            .index("b", "2", &[])
            .index("p", "2", &[])
            .graph()
    };
    let decided = [
        ("b", Some(MemberPlace::System), "Fedora backports what 2 has"),
        ("p", Some(MemberPlace::Private), "patched by us"),
    ];
    let closure = placed(graph(), &[("b", "?")], &decided).unwrap();
    assert_eq!(at(&closure, "b"), (MemberPlace::System, "Fedora backports what 2 has"));
    assert!(closure.members["b"].decided);
    assert_eq!(at(&closure, "a"), (MemberPlace::Private, "requires p>=1, which is private"));
    let noted = [("a", None, "its license is known")];
    let closure = placed(graph(), &[], &noted).unwrap();
    assert_eq!(at(&closure, "a"), (MemberPlace::Rpm, "fedora-43 has no such distribution"));
    assert!(!closure.members["a"].decided, "only the license was decided");
}

#[test]
fn reports_all_invalid_decisions() {
    let graph = Sketch::of(&["a", "b>=2", "c", "d"])
        .index("a", "1", &["p>=2"])
        .index("b", "2", &[])
        .index("c", "1", &[])
        .index("d", "1", &[])
        .index("p", "2", &[])
        .graph();
    let fedora = [("b", "1"), ("d", "1"), ("p", "1")];
    let decided = [
        ("a", Some(MemberPlace::Rpm), "x"),
        ("b", Some(MemberPlace::System), "x"),
        ("c", Some(MemberPlace::System), "x"),
        ("d", Some(MemberPlace::Rpm), "x"),
        ("bb", Some(MemberPlace::Private), "x"),
        ("nothing-like-it", None, "x"),
        ("gone", Some(MemberPlace::Dropped), "x"),
    ];
    let (kind, problems) = refused(placed(graph, &fedora, &decided));
    assert_eq!(kind, Kind::Config);
    let expected = [
        ["`a` cannot have its own RPM", "it requires p>=2, which is private", ""],
        [
            "`b` cannot come from the system",
            "fedora-43 has python3-b 1; demo requires b>=2",
            "if that version works, edit the requirement to allow it",
        ],
        ["`c` cannot come from the system", "fedora-43 has no such distribution", ""],
        [
            "`d` cannot have its own RPM",
            "fedora-43 has python3-d 1, which it would replace",
            "set its place to `system` or `private`",
        ],
        ["`bb` is not in the closure", "no member has this name", "did you mean `b`?"],
        [
            "`nothing-like-it` is not in the closure",
            "no member has this name",
            "nothing requires it: remove the decision",
        ],
    ];
    assert_eq!(problems, expected.map(|texts| texts.map(str::to_owned)));
}

#[test]
fn keeps_dropped_members_while_required() {
    let (closure, _, rules) = sample();
    let ray = &closure.members["ray"];
    assert_eq!(
        (ray.place, ray.reason.as_str()),
        (MemberPlace::Dropped, "it is for several machines")
    );
    assert_eq!(ray.without.as_deref(), Some("what ray does"));
    assert!(ray.node.is_none() && ray.decided);
    assert!(needless(&closure, &rules).is_empty());

    let gone = crate::closure::testing::rules(&[("ray", Some(MemberPlace::Dropped), "x")]);
    let closure = place(Sketch::of(&[]).graph(), &offers(&[]), &gone, "c", "p").unwrap();
    assert!(closure.members.is_empty());
    assert_eq!(needless(&closure, &gone), [&gone.members[0]]);
}

#[test]
fn error_shows_the_decision() {
    let error = placed(Sketch::of(&[]).graph(), &[], &[("x", None, "y")]).unwrap_err();
    let file = File { name: "specs-templates/demo/component.toml".into(), text: "x = 1\n".into() };
    let error = error.shown_in(&file);
    assert_eq!(error.to_string(), "`x` is not in the closure");
    assert_eq!(
        (error.problems()[0].text.as_str(), &error.problems()[0].span),
        ("x = 1\n", &Some(0..1))
    );
}
