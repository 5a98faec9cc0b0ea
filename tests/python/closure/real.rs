//! Tests closures of three real distributions from the index configured for pip: a tiny one, one
//! with extras and markers, and one that conflicts with Fedora 43. Their versions are pinned, and
//! the assertions only cover what cannot change upstream.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{ClosureFixture, members, use_uv};
use crate::support::{Transcript, Workspace, ran};

/// Returns the members and direct requirements of an sdist's closure against Fedora 43's table.
fn closure(
    project: &str,
    version: &str,
    sha256: &str,
    rules: &str,
) -> (BTreeMap<String, (String, String)>, BTreeSet<String>) {
    let fixture = ClosureFixture::new(&[], &[]);
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("mock-configs/packages/fedora-43.tsv");
    fixture.workspace.write("mock-configs/packages/t.tsv", fs_err::read(table).unwrap());
    let pin =
        format!("[app]\nversion = \"{version}\"\nsdist = \"{project}\"\nsha256 = \"{sha256}\"\n");
    fixture.workspace.write("pins/p.toml", pin);
    fixture.workspace.write("specs-templates/app/component.toml", format!("[closure]\n{rules}"));
    let mut command = fixture.command(None, &["app", "--json"]);
    // Keep uv's downloads for the next run.
    let ran =
        ran(command.env("UV_CACHE_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("closure-uv")));
    let document = ran.exits(0).json();
    assert_eq!(document["distribution"], project);
    let direct = document["members"].as_array().unwrap().iter().filter(|member| {
        member["required_by"].as_array().unwrap().iter().any(|edge| edge["from"] == project)
    });
    let direct = direct.map(|member| member["name"].as_str().unwrap().to_owned()).collect();
    (members(&ran), direct)
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn tiny_distribution_requires_nothing() {
    let digest = "2d91e135bf72d31a410b17c16da610a82cb55f6b0477d1a902134b24a455b8b3";
    let (members, direct) = closure("iniconfig", "2.0.0", digest, "");
    assert!(members.is_empty() && direct.is_empty(), "{members:?}");
}

#[test]
fn evaluates_extras_and_markers() {
    let digest = "a0cb88a46f32dc874e04ee956e4c2764aba2aa228f650b06788ba6bda2962ab5";
    let (members, direct) =
        closure("httpx", "0.27.0", digest, "extras = [\"http2\", \"brotli\"]\n");
    let expected = ["anyio", "brotli", "certifi", "h2", "httpcore", "idna", "sniffio"];
    assert_eq!(
        direct,
        names(&expected),
        "brotlicffi is for other Pythons, socksio for another extra"
    );
    for name in ["h11", "hpack", "hyperframe"] {
        assert!(members.contains_key(name), "{name}: {members:?}");
    }
    assert_eq!(
        members["httpcore"],
        ("1.0.9".to_owned(), "system".to_owned()),
        "Fedora's version is preferred"
    );
    assert_eq!(members["h2"], ("4.2.0".to_owned(), "system".to_owned()));
}

#[test]
fn members_that_reject_fedoras_version_become_private() {
    let digest = "0fbeb6180d383a9186d0d6ed954e0042ad9f18e0e8de088b2b419d526927d196";
    let (members, direct) = closure("flask", "1.1.4", digest, "");
    assert_eq!(direct, names(&["click", "itsdangerous", "jinja2", "werkzeug"]));
    // Fedora 43 has Jinja2 3 and Werkzeug 3; Flask 1.1.4 requires lower versions of both.
    for (name, version) in
        [("jinja2", "2."), ("werkzeug", "1."), ("click", "7."), ("itsdangerous", "1.")]
    {
        let (found, place) = &members[name];
        assert!(found.starts_with(version) && place == "private", "{name} {found} {place}");
    }
    assert_eq!(members["markupsafe"], ("3.0.2".to_owned(), "system".to_owned()));
}

/// The closure of this repository's own stack, which is locked as of a day: the index can change
/// only which version of protobuf is the newest.
#[test]
fn guide_shows_the_closure_of_the_stack() {
    let stack = Workspace::stack().with_shared_cache();
    let uv_cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("closure-uv");
    for block in [
        Transcript::block("docs/guides/closure.md", "rocmrpm closure"),
        Transcript::block("docs/guides/closure.md", "rocmrpm closure why pydantic-core"),
        Transcript::block("docs/guides/closure.md", "rocmrpm pins outdated protobuf"),
    ] {
        block.run_with(&stack, |shell| {
            use_uv(&stack, shell);
            shell.env("UV_CACHE_DIR", &uv_cache);
        });
    }
}
