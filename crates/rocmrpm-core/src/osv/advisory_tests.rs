//! Tests advisories modeled on public ones (tests/osv/README.md), and invalid advisories.

use super::*;

fn real(text: &str) -> Advisory {
    Advisory::read(text.as_bytes()).unwrap()
}

fn judged(advisory: &Advisory, ecosystem: Ecosystem, name: &str, version: &str) -> Verdict {
    advisory.judge(&Package { ecosystem, name: name.into(), version: version.into() })
}

fn fixed(version: &str) -> Verdict {
    Verdict::Affected(Some(version.to_owned()))
}

/// Returns an advisory for `a` on PyPI with these `affected` keys.
fn about(keys: &str) -> Advisory {
    real(&format!(
        r#"{{"id":"X-1","modified":"2026-01-01T00:00:00Z",
            "affected":[{{"package":{{"ecosystem":"PyPI","name":"A"}},{keys}}}]}}"#
    ))
}

#[test]
fn judges_python_versions_by_ranges() {
    let protobuf = real(include_str!("../../../../tests/osv/GHSA-8qvm-5x2c-j2w7.json"));
    for (version, expected) in [
        ("3.20.3", fixed("4.25.8")),
        ("4.25.8", Verdict::Clear),
        ("5.26.0rc1", fixed("5.29.5")),
        ("5.29.4", fixed("5.29.5")),
        ("5.29.5", Verdict::Clear),
        ("6.30.0rc1", fixed("6.31.1")),
        ("6.31.1", Verdict::Clear),
        ("0.0.1.dev0", fixed("4.25.8")),
    ] {
        assert_eq!(judged(&protobuf, Ecosystem::PyPi, "protobuf", version), expected, "{version}");
    }
    assert_eq!(judged(&protobuf, Ecosystem::PyPi, "protobuf2", "5.29.4"), Verdict::Clear);
    assert_eq!(judged(&protobuf, Ecosystem::CratesIo, "protobuf", "5.29.4"), Verdict::Clear);
    assert_eq!((protobuf.severity.name(), protobuf.severity.score), ("high", None));
}

#[test]
fn judges_crates_by_semantic_versions() {
    let ring = real(include_str!("../../../../tests/osv/RUSTSEC-2025-0009.json"));
    for (version, expected) in [
        ("0.16.20", fixed("0.17.12")),
        ("0.17.12-alpha.1", fixed("0.17.12")),
        ("0.17.12", Verdict::Clear),
        ("0.17.14+x", Verdict::Clear),
        ("x", Verdict::Unclear("x".into())),
    ] {
        assert_eq!(judged(&ring, Ecosystem::CratesIo, "ring", version), expected, "{version}");
    }
}

#[test]
fn reads_what_the_databases_state() {
    let github = real(include_str!("../../../../tests/osv/GHSA-5h86-8mv2-jq9f.json"));
    assert_eq!(
        github.ids().collect::<Vec<_>>(),
        ["GHSA-5h86-8mv2-jq9f", "CVE-2024-23334", "PYSEC-2024-24"]
    );
    assert_eq!((github.severity.name(), github.severity.score), ("medium", Some(5.9)));
    let pypa = real(include_str!("../../../../tests/osv/PYSEC-2024-24.json"));
    assert!(
        pypa.summary.starts_with("aiohttp is an asynchronous") && pypa.summary.ends_with("Python.")
    );
    // Commit ranges do not apply to releases.
    assert_eq!(judged(&pypa, Ecosystem::PyPi, "aiohttp", "1.0.4"), Verdict::Clear);
    assert_eq!(judged(&pypa, Ecosystem::PyPi, "aiohttp", "3.9.1"), fixed("3.9.2"));
}

#[test]
fn evaluates_every_kind_of_event() {
    let range =
        |events: &str| about(&format!(r#""ranges":[{{"type":"ECOSYSTEM","events":[{events}]}}]"#));
    let last = range(r#"{"introduced":"1"},{"last_affected":"1.5"}"#);
    let again = range(r#"{"fixed":"2"},{"introduced":"0"},{"introduced":"3"},{"fixed":"3.1"}"#);
    let limited = range(r#"{"introduced":"0"},{"limit":"2"}"#);
    let open = range(r#"{"introduced":"0"},{"limit":"*"}"#);
    for (advisory, version, expected) in [
        (&last, "1.5.0", Verdict::Affected(None)),
        (&last, "1.5.0.post1", Verdict::Clear),
        (&last, "0.9", Verdict::Clear),
        (&again, "1", fixed("2")),
        (&again, "2.5", Verdict::Clear),
        (&again, "3.0.1", fixed("3.1")),
        (&limited, "1.9", Verdict::Affected(None)),
        (&limited, "2", Verdict::Clear),
        (&open, "99", Verdict::Affected(None)),
    ] {
        assert_eq!(
            judged(advisory, Ecosystem::PyPi, "a", version),
            expected,
            "{version} {advisory:?}"
        );
    }
    let listed = about(r#""versions":["1.0.0","2.0","nonsense"]"#);
    assert_eq!(judged(&listed, Ecosystem::PyPi, "a", "1.0"), Verdict::Affected(None));
    assert_eq!(judged(&listed, Ecosystem::PyPi, "a", "1.0.1"), Verdict::Clear);
    assert_eq!(judged(&listed, Ecosystem::PyPi, "a", "nonsense"), Verdict::Affected(None));
}

#[test]
fn incomparable_versions_are_unclear_unless_listed() {
    let events = r#"{"introduced":"2004d"},{"fixed":"2"}"#;
    let unclear = about(&format!(
        r#""ranges":[{{"type":"ECOSYSTEM","events":[{events}]}}],"versions":["1.5"]"#
    ));
    assert_eq!(judged(&unclear, Ecosystem::PyPi, "a", "1.4"), Verdict::Unclear("2004d".into()));
    assert_eq!(judged(&unclear, Ecosystem::PyPi, "a", "1.5"), fixed("2"));
    let withdrawn = r#"{"id":"X-1","modified":"2026-01-01T00:00:00Z","withdrawn":"2026-01-02T00:00:00Z",
        "affected":[{"package":{"ecosystem":"PyPI","name":"a"},"versions":["1"]}]}"#;
    assert_eq!(judged(&real(withdrawn), Ecosystem::PyPi, "a", "1"), Verdict::Clear);
}

#[test]
fn drops_aliases_that_are_not_ids() {
    let text =
        r#"{"id":"X","aliases":["a b","GHSA-1,","CVE-1"],"modified":"2026-01-01T00:00:00Z"}"#;
    assert_eq!(Advisory::read(text.as_bytes()).unwrap().aliases, ["CVE-1"]);
}

#[test]
fn rejects_other_documents() {
    for (text, wrong) in [
        ("", "it is not an advisory"),
        ("[]", "it is not an advisory"),
        (r#"{"id":"X-1"}"#, "missing field `modified`"),
        (r#"{"id":"X-1","modified":"yesterday"}"#, "`modified` is `yesterday`"),
        (
            r#"{"schema_version":"2.0.0","id":"X-1","modified":"2026-01-01T00:00:00Z"}"#,
            "schema_version `2.0.0`, but only 1.x is supported",
        ),
        (r#"{"id":"../X","modified":"2026-01-01T00:00:00Z"}"#, "`../X` is not a valid ID"),
        (
            r#"{"id":"X","modified":"2026-01-01T00:00:00Z","affected":[{"ranges":[{"type":"SEMVER","events":[{"since":"1"}]}]}]}"#,
            "unknown variant `since`",
        ),
    ] {
        let error = Advisory::read(text.as_bytes()).unwrap_err();
        assert!(error.contains(wrong), "{text}: {error}");
    }
    let whole = include_str!("../../../../tests/osv/GHSA-5h86-8mv2-jq9f.json").trim_end();
    for end in 0..whole.len() {
        assert!(Advisory::read(&whole.as_bytes()[..end]).is_err(), "{end}");
    }
    // A null is treated as a missing key.
    let nulls = r#"{"id":"X","modified":"2026-01-01T00:00:00Z","aliases":null,"affected":null,"severity":null}"#;
    assert!(Advisory::read(nulls.as_bytes()).is_ok());
}
