//! Tests `rocmrpm closure audit` with a fake server that implements OSV's protocol on 127.0.0.1,
//! and with exports. The advisories are modeled on public ones (tests/osv/README.md).

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::index::Index;
use super::{ClosureFixture, MIT};
use crate::support::server::{Reply, SeenRequest, TestServer};
use crate::support::{Ran, Transcript, ran};

const AIOHTTP: &str = include_str!("../../osv/GHSA-5h86-8mv2-jq9f.json");
const PYSEC: &str = include_str!("../../osv/PYSEC-2024-24.json");
const STARLETTE: &str = include_str!("../../osv/GHSA-7f5h-v6xp-fcq8.json");
const RING: &str = include_str!("../../osv/RUSTSEC-2025-0009.json");
const ALL: [&str; 4] = [AIOHTTP, PYSEC, STARLETTE, RING];

const SBOM: &str = r#"{"bomFormat":"CycloneDX","specVersion":"1.5","components":[
    {"type":"library","name":"ring","version":"0.17.8","purl":"pkg:cargo/ring@0.17.8",
     "licenses":[{"license":{"id":"ISC"}}]},
    {"type":"library","name":"ring","version":"0.17.14","purl":"pkg:cargo/ring@0.17.14",
     "licenses":[{"license":{"id":"ISC"}}]},
    {"type":"library","name":"zlib","version":"1.3","purl":"pkg:generic/zlib@1.3",
     "licenses":[{"license":{"id":"Zlib"}}]}]}"#;

fn index() -> Index {
    Index::default()
        .wheel("aiohttp", "3.9.1", &[MIT])
        .sbom_wheel("hf-xet", "1.0", &[MIT], SBOM)
        .wheel("starlette", "0.49.0", &[MIT])
}

/// Returns a workspace with a locked closure: aiohttp and hf-xet from the index, and starlette from
/// the release.
fn locked() -> (ClosureFixture, TestServer) {
    let fixture = ClosureFixture::new(
        &["aiohttp", "hf-xet", "starlette"],
        &[("python3-starlette", "0.49.0")],
    );
    let server = index().serve();
    ran(&mut fixture.command(Some(&server.url("/simple")), &["--write"])).exits(0);
    (fixture, server)
}

/// Returns the IDs of the service's advisories for a package version.
fn known(query: &Value) -> &'static [&'static str] {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (of, name) = (text(&query["package"]["ecosystem"]), text(&query["package"]["name"]));
    match (of.as_str(), name.as_str(), text(&query["version"]).as_str()) {
        ("PyPI", "aiohttp", "3.9.1") => &["GHSA-5h86-8mv2-jq9f", "PYSEC-2024-24"],
        ("PyPI", "starlette", "0.49.0") => &["GHSA-7f5h-v6xp-fcq8"],
        ("crates.io", "ring", "0.17.8") => &["RUSTSEC-2025-0009"],
        _ => &[],
    }
}

fn advisory(id: &str) -> Option<&'static str> {
    ALL.into_iter().find(|text| serde_json::from_str::<Value>(text).unwrap()["id"] == id)
}

/// Responds like the service, with one advisory per page.
fn answer(seen: &SeenRequest) -> Reply {
    if let Some(id) = seen.path.strip_prefix("/v1/vulns/") {
        return advisory(id).map_or(Reply::status(404), |text| Reply::file(text).without_ranges());
    }
    assert_eq!(seen.path, "/v1/querybatch");
    let body: Value = serde_json::from_slice(&seen.body).unwrap();
    let result = |query: &Value| {
        let ids = known(query);
        let page: usize = query["page_token"].as_str().map_or(0, |token| token.parse().unwrap());
        let Some(id) = ids.get(page) else { return json!({}) };
        let text: Value = serde_json::from_str(advisory(id).unwrap()).unwrap();
        let mut result = json!({ "vulns": [{ "id": id, "modified": text["modified"] }] });
        if page + 1 < ids.len() {
            result["next_page_token"] = (page + 1).to_string().into();
        }
        result
    };
    let results: Vec<Value> = body["queries"].as_array().unwrap().iter().map(result).collect();
    Reply::file(json!({ "results": results }).to_string()).without_ranges()
}

fn audit(fixture: &ClosureFixture, index: &TestServer, osv: &TestServer, args: &[&str]) -> Ran {
    let mut command = fixture.command(Some(&index.url("/simple")), &[&["audit"], args].concat());
    ran(command.env("ROCMRPM_OSV_URL", osv.url("")))
}

fn accept(fixture: &ClosureFixture, rules: &[(&str, &str, &str)]) {
    let rule = |(id, package, until): &(&str, &str, &str)| {
        let package =
            if package.is_empty() { String::new() } else { format!("package = \"{package}\"\n") };
        format!(
            "[[closure.accept]]\nid = \"{id}\"\n{package}reason = \"no static files\"\nuntil = \"{until}\"\n"
        )
    };
    let text: String = rules.iter().map(rule).collect();
    fixture.workspace.write("specs-templates/app/component.toml", format!("[closure]\n{text}"));
}

#[test]
fn lists_vulnerable_members_and_components_of_their_sboms() {
    let (fixture, index) = locked();
    let osv = TestServer::start(answer);
    let found = audit(&fixture, &index, &osv, &[]);
    found.exits(1);
    let text = found.stdout.replace(&osv.url(""), "OSV");
    similar_asserts::assert_eq!(
        text,
        "app  for c with the pins of p
  3 packages and 2 components of the SBOMs in 1 wheel, advisories from OSV

PACKAGE        PLACE  SEVERITY  ADVISORY                            FIXED IN  SUMMARY
aiohttp 3.9.1  rpm    medium    GHSA-5h86-8mv2-jq9f CVE-2024-23334  3.9.2     aiohttp is vulnerable to directory traversal
hf-xet 1.0     rpm    unknown   RUSTSEC-2025-0009 CVE-2025-4432     0.17.12   in its ring 0.17.8: Some AES functions may panic when overflow checking is enabled.

2 known vulnerabilities, in 2 packages
"
    );
    found.reports([
        "warning: 1 component in SBOMs not checked",
        "1 member is a package of c and was skipped; `--system` includes it",
        "help: run `rocmrpm closure --upgrade aiohttp`",
    ]);
    let paths = |server: &TestServer| {
        server.seen().iter().map(|seen| seen.path.clone()).collect::<Vec<_>>()
    };
    let asked = paths(&osv);
    assert_eq!(
        asked.iter().filter(|path| *path == "/v1/querybatch").count(),
        2,
        "two pages: {asked:?}"
    );
    // Unchanged advisories are not fetched again, and --system adds packages that do not count.
    let system = audit(&fixture, &index, &osv, &["--system", "--json"]);
    let document = system.exits(1).json();
    assert_eq!(document["schema"], "rocmrpm/closure-audit/1");
    assert_eq!((&document["clean"], &document["system_passed_over"]), (&json!(false), &json!(0)));
    let found = document["findings"].as_array().unwrap();
    assert_eq!(found[0]["vulnerability"]["aliases"], json!(["CVE-2024-23334", "PYSEC-2024-24"]));
    assert_eq!(found[1]["vulnerability"]["component"]["wheel"], "hf_xet-1.0-py3-none-any.whl");
    assert_eq!((&found[2]["place"], &found[2]["status"]), (&json!("system"), &json!("of-release")));
    let more = paths(&osv)[asked.len()..].to_vec();
    assert_eq!(more.iter().filter(|path| path.starts_with("/v1/vulns/")).count(), 1, "{more:?}");
}

#[test]
fn accepts_findings_until_their_day() {
    let (fixture, index) = locked();
    let osv = TestServer::start(answer);
    let run = || audit(&fixture, &index, &osv, &[]);
    accept(
        &fixture,
        &[("CVE-2024-23334", "", "2999-01-31"), ("RUSTSEC-2025-0009", "hf-xet", "2999-01-31")],
    );
    let ran = run();
    ran.exits(0).never_reports("acceptance");
    assert!(ran.stdout.ends_with("no known vulnerabilities; 2 accepted\n"), "{ran}");
    assert!(ran.stdout.contains("2999-01-31  no static files"), "{ran}");
    accept(
        &fixture,
        &[("PYSEC-2024-24", "", "2020-01-31"), ("RUSTSEC-2025-0009", "aiohttp", "2999-01-31")],
    );
    let ran = run();
    ran.exits(1).reports(["no finding matches the acceptance of `RUSTSEC-2025-0009` of `aiohttp`"]);
    assert!(ran.stdout.contains("(was accepted until 2020-01-31)"), "{ran}");
    accept(&fixture, &[("CVE-2024-23334", "", "soon")]);
    run().exits(3).reports(["`soon` is not a day", "component.toml:5"]);
}

#[test]
fn reports_service_failures_with_help() {
    let (fixture, index) = locked();
    let with = |body: &'static str| move |_: &SeenRequest| Reply::file(body).without_ranges();
    let changed = |from: &'static str, to: &'static str| {
        TestServer::start(move |seen: &SeenRequest| {
            match seen.path.strip_prefix("/v1/vulns/").and_then(advisory) {
                Some(text) => Reply::file(text.replace(from, to)).without_ranges(),
                None => answer(seen),
            }
        })
    };
    for (osv, wrong) in [
        (TestServer::start(with("")), "it is not a list of results"),
        (TestServer::start(with("{\"results\":[{\"vulns\":")), "it is not a list of results"),
        (TestServer::start(with("<html>captive portal</html>")), "it is not a list of results"),
        (TestServer::start(with("{\"results\":[]}")), "it has 0 results for 5 queries"),
        (TestServer::start(|_| Reply::status(500)), "HTTP status 500"),
        (
            TestServer::start(|_| Reply::file("{\"results\":").cut_after(4)),
            "cannot query http://127.0.0.1",
        ),
        (changed("1.7.3", "2.0.0"), "it has schema_version `2.0.0`, but only 1.x is supported"),
        (changed("\"modified\"", "\"changed\""), "missing field `modified`"),
        (
            changed("\"GHSA-5h86-8mv2-jq9f\",\n  \"mod", "\"GHSA-other\",\n  \"mod"),
            "it is about `GHSA-other`",
        ),
        (
            TestServer::start(|_| {
                std::thread::sleep(std::time::Duration::from_secs(3));
                Reply::status(200)
            }),
            "the transfer took too long",
        ),
    ] {
        let ran = audit(&fixture, &index, &osv, &["--timeout", "1 s"]);
        ran.exits(30).reports([wrong, "help: check the network", "--export all.zip"]);
        assert_eq!(ran.stdout, "", "{wrong}");
    }
    let gone = TestServer::start(answer);
    let mut command = fixture.command(Some(&index.url("/simple")), &["audit"]);
    command.env("ROCMRPM_OSV_URL", gone.url("").replace("http://", "http://user:s3cret@"));
    drop(gone);
    ran(&mut command).exits(30).reports(["cannot query http://127.0.0.1"]).never_reports("s3cret");
}

/// Writes an export of these advisories, last changed this many days ago.
fn export(fixture: &ClosureFixture, name: &str, texts: &[&str], days: i64) -> PathBuf {
    let path = fixture.workspace.holder().join(name);
    let mut zip = zip::ZipWriter::new(fs_err::File::create(&path).unwrap());
    for text in texts {
        let mut advisory: Value = serde_json::from_str(text).unwrap();
        let modified = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * days);
        advisory["modified"] = modified.to_string().into();
        let file = format!("{}.json", advisory["id"].as_str().unwrap());
        zip.start_file(file, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(advisory.to_string().as_bytes()).unwrap();
    }
    zip.finish().unwrap();
    path
}

#[test]
fn reads_exports_instead_of_the_service() {
    let (fixture, index) = locked();
    let run = |paths: &[&Path], args: &[&str]| {
        let mut words = vec!["audit"];
        paths.iter().for_each(|path| words.extend(["--export", path.to_str().unwrap()]));
        ran(&mut fixture.command(Some(&index.url("/simple")), &[&words, args].concat()))
    };
    let (all, python) =
        (export(&fixture, "all.zip", &ALL, 3), export(&fixture, "py.zip", &ALL[..3], 60));
    let crates = export(&fixture, "crates.zip", &[RING], 0);
    let asked = index.seen().len();
    let found = run(&[&all], &["--offline"]);
    found.exits(1).reports(["cannot check for yanked files with `--offline`"]);
    assert_eq!(index.seen().len(), asked, "the service must not be queried");
    for part in ["GHSA-5h86-8mv2-jq9f CVE-2024-23334  3.9.2", "in its ring 0.17.8", "all.zip of 20"]
    {
        assert!(found.stdout.contains(part), "{part}: {found}");
    }
    for (name, path) in [("pypi.zip", &python), ("crates.zip", &crates)] {
        fs_err::copy(path, fixture.workspace.path(name)).unwrap();
    }
    Transcript::block(
        "docs/guides/closure.md",
        "rocmrpm closure audit --offline --export pypi.zip --export crates.zip",
    )
    .run_with(&fixture.workspace, |shell| fixture.settle(Some(&index.url("/simple")), shell));
    let two = run(&[&python, &crates], &["--offline", "--json"]);
    assert_eq!(two.exits(1).json()["findings"].as_array().unwrap().len(), 2);
    two.reports(["py.zip is from 20", "60 days ago; later ones are missing"]);
    run(&[&python], &["--offline"])
        .exits(1)
        .reports(["components of crates.io in wheels were not checked"]);
    run(&[&crates], &["--offline"])
        .exits(3)
        .reports(["crates.zip has no advisory for PyPI", "help: fetch a new export"]);
    let old = export(&fixture, "old.zip", &ALL, 365);
    let ran = run(&[&old], &["--offline"]);
    let day = (jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * 365)).to_string();
    ran.exits(3).reports([
        &format!("old.zip is from {}, 365 days ago", &day[..10]),
        "help: fetch a new export",
    ]);
    fs_err::write(&old, "{}").unwrap();
    run(&[&old], &["--offline"]).exits(3).reports(["it is not a zip archive"]);
    run(&[], &["--offline"])
        .exits(2)
        .reports(["`--offline` does not allow querying for advisories", "--export all.zip"]);
}

#[test]
fn finds_and_accepts_yanked_files() {
    let (fixture, server) = locked();
    drop(server);
    let server = index().yank("aiohttp").yank("starlette").serve();
    // Advisories for packages that are not locked.
    let path = export(&fixture, "all.zip", &[&STARLETTE.replace("starlette", "other"), RING], 0);
    let run = || {
        let args = ["audit", "--export", path.to_str().unwrap()];
        ran(&mut fixture.command(Some(&server.url("/simple")), &args))
    };
    accept(&fixture, &[("RUSTSEC-2025-0009", "", "2999-01-01")]);
    let found = run();
    found.exits(1);
    assert!(found.stdout.contains("aiohttp 3.9.1  rpm    yanked"), "{found}");
    assert!(found.stdout.contains("aiohttp-3.9.1-py3-none-any.whl\n"), "{found}");
    assert!(
        found.stdout.contains("yanked files of 1 package, in 1 package; 1 accepted"),
        "{found}"
    );
    accept(
        &fixture,
        &[("RUSTSEC-2025-0009", "", "2999-01-01"), ("yanked", "aiohttp", "2999-01-01")],
    );
    run().exits(0);
}

#[test]
fn rejects_invalid_sboms() {
    let fixture = ClosureFixture::new(&["hf-xet"], &[]);
    let server = Index::default().sbom_wheel("hf-xet", "1.0", &[MIT], "{").serve();
    let osv = TestServer::start(answer);
    audit(&fixture, &server, &osv, &[]).exits(3).reports([
        "invalid SBOM in `hf_xet-1.0-py3-none-any.whl` of `hf-xet`",
        "is not an SBOM",
        "help: choose another version: `rocmrpm closure --upgrade hf-xet --write`",
    ]);
}
