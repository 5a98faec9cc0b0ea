use std::path::Path;

use super::*;
use crate::error::{Diagnose, Kind};
use crate::stack::KeyInputs;

fn package(header: &str) -> PackageEvidence {
    PackageEvidence { file: "greet-1.0-1.noarch.rpm".into(), header: header.into(), size: 1 }
}

fn greet(tier: Tier, header: &str) -> ComponentEvidence {
    ComponentEvidence {
        component: "greet".into(),
        version: "1.0".into(),
        release: "1".into(),
        tier: Some(tier),
        packages: if header.is_empty() { Vec::new() } else { vec![package(header)] },
        ..ComponentEvidence::default()
    }
}

fn add(chain: &mut Chain, stage: &'static str, components: Vec<ComponentEvidence>) {
    let mut inputs = KeyInputs::default();
    inputs.add("stage", stage);
    let mut draft = Draft::new(stage, Some("host"), inputs);
    draft.components = components;
    draft.finish(chain).unwrap();
}

fn chain(dir: &Path) -> Chain {
    Chain::read(dir, "stable").unwrap()
}

#[test]
fn records_follow_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let mut made = chain(dir.path());
    for stage in ["plan", "build", "proof"] {
        add(&mut made, stage, Vec::new());
    }
    let read = chain(dir.path());
    assert_eq!(read.links(), made.links());
    assert_eq!(read.remarks().unwrap(), [""; 0]);
    assert_eq!(read.records().nth(1).unwrap().previous, Some(read.links()[0].sha256));
}

#[test]
fn detects_records_that_were_changed_removed_or_moved() {
    let dir = tempfile::tempdir().unwrap();
    let mut made = chain(dir.path());
    for stage in ["plan", "build", "proof"] {
        add(&mut made, stage, Vec::new());
    }
    let path = |number: u32| dir.path().join(format!("00000{number}.json"));
    let texts: Vec<String> =
        (1..=3).map(|number| fs_err::read_to_string(path(number)).unwrap()).collect();
    let broken = |why: &str| {
        let error = Chain::read(dir.path(), "stable").unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!((error.kind(), error.help().len()), (Kind::Environment, 1));
    };
    fs_err::write(path(1), texts[0].replace("passed", "failed")).unwrap();
    broken("does not follow");
    fs_err::write(path(1), &texts[0]).unwrap();
    fs_err::write(path(2), texts[1].replace("\"build\"", "\"proof\"")).unwrap();
    broken("its key is not the digest of its inputs");
    fs_err::write(path(2), &texts[2]).unwrap();
    broken("its number is 3, not 2");
    fs_err::remove_file(path(2)).unwrap();
    broken("`000002.json` is missing");
    fs_err::write(path(2), &texts[1][..texts[1].len() / 2]).unwrap();
    broken("EOF");
    fs_err::write(path(2), &texts[1]).unwrap();
    assert_eq!(chain(dir.path()).links().len(), 3);
    assert!(Chain::read(dir.path(), "edge").unwrap_err().to_string().contains("`stable`"));
}

#[test]
fn logs_are_kept_by_their_digest() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("build.log");
    fs_err::write(&log, "error: no\n").unwrap();
    let evidence = dir.path().join("evidence");
    let mut made = chain(&evidence);
    let mut draft = Draft::new("build", Some("host"), KeyInputs::default());
    draft.logs.push(log);
    let error = crate::error::Error::new(Kind::Build, "it failed").with_help("fix it");
    let record = draft.fail(&mut made, &error).unwrap().clone();
    assert_eq!((record.outcome, record.summary.as_str()), (Outcome::Failed, "it failed"));
    assert_eq!(record.details, ["help: fix it"]);
    let kept = evidence.join("logs").join(&record.logs[0].file);
    assert_eq!(fs_err::read_to_string(&kept).unwrap(), "error: no\n");
    fs_err::write(&kept, "error: yes\n").unwrap();
    assert!(made.remarks().unwrap()[0].contains("has changed"));
    fs_err::remove_file(&kept).unwrap();
    assert!(made.remarks().unwrap()[0].contains("is missing"));
}

#[test]
fn tiers_are_those_of_the_current_packages() {
    let dir = tempfile::tempdir().unwrap();
    let mut made = chain(dir.path());
    let tier = |made: &Chain| standings(made, &[], "host")["greet"].tier;
    add(&mut made, "plan", vec![greet(Tier::Rendered, "")]);
    assert_eq!(tier(&made), Some(Tier::Rendered));
    add(&mut made, "build", vec![greet(Tier::Inspected, "a")]);
    add(&mut made, "plan", vec![greet(Tier::Rendered, "")]);
    assert_eq!(tier(&made), Some(Tier::Inspected), "the plan is of the same release");
    add(&mut made, "install", vec![greet(Tier::Installed, "a")]);
    assert_eq!(tier(&made), Some(Tier::Installed));
    add(&mut made, "build", vec![greet(Tier::Inspected, "b")]);
    assert_eq!(tier(&made), Some(Tier::Inspected), "others were installed");
    let newer = ComponentEvidence { version: "1.1".into(), ..greet(Tier::Rendered, "") };
    add(&mut made, "plan", vec![newer]);
    assert_eq!(tier(&made), Some(Tier::Rendered), "another version");
    assert!(standings(&made, &[], "fedora-43").is_empty());
}

#[test]
fn a_tier_is_only_of_the_packages_of_its_record() {
    let dir = tempfile::tempdir().unwrap();
    let mut made = chain(dir.path());
    let tier = |made: &Chain, header| {
        standings(made, &[], "host")["greet"].tier_of(&greet(Tier::Inspected, header))
    };
    add(&mut made, "plan", vec![greet(Tier::Rendered, "")]);
    assert_eq!(tier(&made, "a"), None, "the record has no packages");
    add(&mut made, "install", vec![greet(Tier::Installed, "a")]);
    assert_eq!(tier(&made, "a"), Some(Tier::Installed));
    assert_eq!(tier(&made, "b"), None, "other packages");
    assert_eq!(tier(&made, ""), None, "no packages");
}

#[test]
fn evidence_of_others_counts_only_for_the_packages_that_it_names() {
    let dir = tempfile::tempdir().unwrap();
    let mut own = chain(&dir.path().join("own"));
    add(&mut own, "build", vec![greet(Tier::Inspected, "a")]);
    let tier = |evidence: ComponentEvidence| {
        let folder = tempfile::tempdir().unwrap();
        let mut other = chain(folder.path());
        add(&mut other, "run", vec![evidence]);
        let imported = Imported { key: "K".into(), links: other.links().to_vec() };
        let all = standings(&own, &[imported], "host");
        (all["greet"].tier.unwrap(), all["greet"].key.clone())
    };
    assert_eq!(tier(greet(Tier::Ran, "a")), (Tier::Ran, Some("K".into())));
    assert_eq!(tier(greet(Tier::Ran, "b")), (Tier::Inspected, None), "other packages");
    assert_eq!(tier(greet(Tier::Ran, "")), (Tier::Inspected, None), "no packages");
    assert_eq!(tier(greet(Tier::Built, "a")), (Tier::Inspected, None), "a lower tier");
    let release = ComponentEvidence { release: "2".into(), ..greet(Tier::Ran, "a") };
    assert_eq!(tier(release), (Tier::Inspected, None), "another release");
    let unknown = ComponentEvidence { component: "other".into(), ..greet(Tier::Ran, "a") };
    assert_eq!(tier(unknown), (Tier::Inspected, None), "another component");
}

#[test]
fn pages_escape_what_records_state() {
    let dir = tempfile::tempdir().unwrap();
    let mut made = chain(dir.path());
    let failure = Some("<script>alert(1)</script>".to_owned());
    let evidence = ComponentEvidence { failure, ..greet(Tier::Built, "<b>") };
    add(&mut made, "build", vec![evidence]);
    let pages = [
        evidence_page(&made, &[], "<stack>", "stable", "host"),
        status_page("<stack>", &[SetStatus::of(&made, &[], "stable")], "2026-11-26T10:00:00Z"),
    ];
    for page in pages {
        assert!(page.contains("&lt;script&gt;") && !page.contains("<script>"), "{page}");
        assert!(page.contains("&lt;stack&gt;") && !page.contains("<stack>"), "{page}");
        assert_eq!(page.matches("<details").count(), page.matches("</details>").count());
        assert_eq!(page.matches("<tr").count(), page.matches("</tr>").count());
    }
}
