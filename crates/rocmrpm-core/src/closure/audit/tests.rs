//! Tests of how advisories about the members of a closure become findings.

use super::vulnerability::findings;
use super::*;
use crate::closure::testing::sample;
use crate::events::Silent;
use crate::osv::{Advisory, Hit};
use crate::sources::Cache;
use crate::workspace::document::At;

fn rule(id: &str, package: Option<&str>, until: &str) -> AcceptRule {
    AcceptRule {
        id: At { value: id.into(), span: 0..1 },
        package: package.map(str::to_owned),
        reason: "r".into(),
        until: until.parse().unwrap(),
    }
}

fn advisory(id: &str, aliases: &[&str], severity: &str) -> Hit {
    let text = serde_json::json!({
        "id": id, "modified": "2026-01-01T00:00:00Z", "aliases": aliases, "summary": format!("about {id}"),
        "database_specific": { "severity": severity },
    });
    Hit { advisory: Advisory::read(text.to_string().as_bytes()).unwrap(), fixed: Some("9".into()) }
}

/// Returns the findings in the sample closure if every package has these hits.
fn found(system: bool, hits: &[Hit]) -> (Vec<Finding>, usize) {
    let (closure, ..) = sample();
    let dir = tempfile::tempdir().unwrap();
    let request = Request {
        closure: &closure,
        version: "1.0",
        accepts: &[],
        system,
        exports: &[],
        service: Service { address: "", limit: std::time::Duration::from_secs(1) },
        offline: true,
        now: Timestamp::UNIX_EPOCH,
    };
    let fetcher = Fetcher::new(Cache::at(dir.path()), dir.path(), &Silent).offline(true);
    let scope = Scope::of(&request, &fetcher).unwrap();
    // None of the wheels is in the cache.
    assert_eq!(scope.warnings.len(), 1, "{:?}", scope.warnings);
    assert!(scope.warnings[0].contains("pydantic-2.13.1-py3-none-any.whl") && !scope.complete);
    let packages = scope.packages();
    let all = vec![hits.to_vec(); packages.len()];
    (findings(&scope, &packages, &all), scope.passed_over)
}

#[test]
fn audits_release_packages_only_on_request() {
    let hits = [advisory("GHSA-1", &[], "HIGH")];
    let names = |findings: &[Finding]| -> Vec<String> {
        findings
            .iter()
            .map(|one| format!("{} {} {}", one.package, one.version, one.holder.name()))
            .collect()
    };
    let (findings, passed_over) = found(false, &hits);
    let ours =
        ["demo 1.0 stack", "fastapi 0.165.0 private", "hub 2.0 private", "pydantic 2.13.1 private"];
    assert_eq!(names(&findings)[..4], ours);
    assert_eq!(
        names(&findings)[4..],
        ["starlette 1.0 rpm", "torch 2.11.0 stack", "xgrammar 0.1.9 private"]
    );
    assert_eq!(passed_over, 2);
    let (findings, passed_over) = found(true, &hits);
    // This is the release's version, not the locked one.
    assert!(names(&findings).contains(&"numpy 2.3.4 system".to_owned()), "{:?}", names(&findings));
    let of_release = findings.iter().filter(|one| one.status == Status::OfRelease).count();
    assert_eq!((of_release, passed_over), (2, 0));
}

#[test]
fn merges_advisories_about_one_vulnerability() {
    let hits = [
        advisory("PYSEC-1", &["CVE-1"], ""),
        advisory("OTHER-2", &["CVE-2"], "LOW"),
        advisory("GHSA-1", &["CVE-1b"], "HIGH"),
        advisory("X-1", &["CVE-1", "CVE-1b"], "MODERATE"),
    ];
    let (findings, _) = found(false, &hits);
    let of_hub: Vec<_> = findings.iter().filter(|one| one.package == "hub").collect();
    assert_eq!(of_hub.len(), 2);
    let AuditProblem::Vulnerable(one) = &of_hub[1].what else { panic!() };
    assert_eq!(one.id, "GHSA-1");
    assert_eq!(one.aliases, ["CVE-1", "CVE-1b", "PYSEC-1", "X-1"]);
    assert_eq!((one.severity.name(), one.summary.as_str()), ("high", "about GHSA-1"));
}

#[test]
fn expires_acceptance_and_requires_a_match() {
    let (all, _) = found(false, &[advisory("GHSA-1", &["CVE-1"], "HIGH")]);
    let status = |rules: &[AcceptRule], day: &str| {
        let mut findings = all.clone();
        let warnings = accept::apply(rules, &mut findings, day.parse().unwrap(), true);
        let of =
            |wanted: fn(&Status) -> bool| findings.iter().filter(|one| wanted(&one.status)).count();
        let open = of(|status| *status == Status::Open);
        let accepted = of(|status| matches!(status, Status::Accepted(..)));
        (open, accepted, of(|status| matches!(status, Status::Expired(..))), warnings)
    };
    let hub = [rule("cve-1", Some("hub"), "2027-01-31")];
    assert_eq!(status(&hub, "2027-01-31"), (6, 1, 0, vec![]));
    assert_eq!(status(&hub, "2027-02-01"), (6, 0, 1, vec![]));
    // A rule that is still valid wins over an expired one.
    let both = [rule("GHSA-1", None, "2027-03-01"), rule("CVE-1", None, "2027-01-31")];
    assert_eq!(status(&both, "2027-02-15"), (0, 7, 0, vec![]));
    let none = [
        rule("CVE-2", None, "2027-01-31"),
        rule(crate::workspace::YANKED, Some("hub"), "2027-01-31"),
    ];
    let (open, _, _, warnings) = status(&none, "2026-01-01");
    assert_eq!((open, warnings.len()), (7, 2));
    assert!(warnings[1].contains("the acceptance of `yanked` of `hub`"), "{warnings:?}");
    // Rules may accept findings in what could not be audited.
    assert!(
        accept::apply(&none, &mut all.clone(), "2026-01-01".parse().unwrap(), false).is_empty()
    );
}
