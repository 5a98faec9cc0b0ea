//! Tests the packager's view of a closure: places and reasons, decisions in component.toml, the
//! page, the difference between two locks, and the files that `--write` writes and `--check`
//! verifies.

use super::{ClosureFixture, Index, MIT};
use crate::support::server::TestServer;

const DROPPED: &str = "[closure]\n\n[[closure.member]]\nname = \"ray\"\nplace = \"dropped\"\n\
    without = \"serving on several machines\"\nreason = \"one machine is enough here\"\n";

const COMPONENT: &str = "specs-templates/app/component.toml";
const TABLE: &str = "mock-configs/packages/t.tsv";

/// Returns a lab with a member in each place, and its index.
fn fixture() -> (ClosureFixture, TestServer) {
    let server = Index::default()
        .wheel("api", "1.0", &["Requires-Dist: pyd>=2.13", MIT])
        .wheel("num", "2.0", &[MIT])
        .wheel("only", "1.0", &["Requires-Dist: num", MIT])
        .wheel("pyd", "2.13", &[MIT])
        .serve();
    let fixture = ClosureFixture::new(
        &["api", "num>=1", "only", "ray[serve]>=2"],
        &[("python3-num", "2.0"), ("python3-pyd", "2.12.0~a1")],
    );
    fixture.workspace.write(COMPONENT, DROPPED);
    (fixture, server)
}

#[test]
fn shows_place_and_reason_of_each_member() {
    let (fixture, server) = fixture();
    let shown = fixture.run(&server, &[]);
    shown.exits(0);
    for part in [
        "app  for c with the pins of p",
        "\nsystem\n  num 2.0\n",
        "\nrpm\n  only 1.0\n",
        "requires pyd>=2.13, which is private",
        "c has python3-pyd 2.12.0~a1; api 1.0 requires pyd>=2.13",
        "  ray   serving on several machines  one machine is enough here",
    ] {
        assert!(shown.stdout.contains(part), "{part}: {shown}");
    }
    assert!(shown.stdout.lines().all(|line| line.trim_end() == line), "{shown}");

    let why = fixture.run(&server, &["why", "PYD"]);
    let output = "pyd 2.13  private\n  because    c has python3-pyd 2.12.0~a1; api 1.0 requires pyd>=2.13\n  \
                chain      app requires api\n             api 1.0 requires pyd>=2.13\n\n  \
                REQUIRED BY  PLACE    AS\n  api 1.0      private  pyd>=2.13\n";
    assert_eq!(why.exits(0).stdout, output);
    let why = fixture.run(&server, &["why", "ray", "--component", "app", "--json"]);
    let document = why.exits(0).json();
    assert_eq!(document["schema"], "rocmrpm/closure-why/1");
    assert_eq!((&document["place"], &document["decided"]), (&"dropped".into(), &true.into()));
    assert_eq!(document["chain"][0]["requirement"], "ray[serve]>=2");
    fixture.run(&server, &["why", "pid"]).exits(2).reports([
        "`pid` is not in the closure of `app`",
        "help: did you mean `pyd`?",
        "c has no such distribution either",
    ]);
    fixture
        .run(&server, &["why", "num", "--component", "ap"])
        .exits(2)
        .reports(["did you mean `app`?"]);

    let page = fixture.run(&server, &["--html"]);
    page.exits(0);
    for name in ["api", "num", "only", "pyd", "ray"] {
        assert!(page.stdout.contains(&format!("id=\"m-{name}\"")), "{name}");
    }
    fixture.run(&server, &["--html", "--json"]).exits(2);
}

#[test]
fn later_release_takes_members_back() {
    let (fixture, server) = fixture();
    fixture.workspace.write(TABLE, "python3-num\t2.0\npython3-pyd\t2.13\n");
    let members = fixture.members(&server);
    let place = |name: &str| members[name].1.as_str();
    assert_eq!([place("pyd"), place("api"), place("ray")], ["system", "rpm", "dropped"]);
    fixture.requires(&["api"]);
    fixture.run(&server, &[]).exits(0).reports([
        "nothing requires `ray` any longer; remove the decision to drop it from specs-templates/app/component.toml",
    ]);
}

#[test]
fn shows_invalid_decisions_in_their_file() {
    let (fixture, server) = fixture();
    let decided: String = [("pyd", "system"), ("num", "rpm"), ("onyl", "private")]
        .map(|(name, place)| {
            format!(
                "\n[[closure.member]]\nname = \"{name}\"\nplace = \"{place}\"\nreason = \"x\"\n"
            )
        })
        .concat();
    fixture.workspace.write(COMPONENT, format!("{DROPPED}{decided}"));
    fixture.run(&server, &[]).exits(3).reports([
        "error: `pyd` cannot come from the system",
        "--> specs-templates/app/component.toml:10:8",
        "c has python3-pyd 2.12.0~a1; api 1.0 requires pyd>=2.13",
        "error: `num` cannot have its own RPM",
        "c has python3-num 2.0, which it would replace",
        "error: `onyl` is not in the closure",
        "did you mean `only`?",
        "error: 3 members of the closure have no place",
    ]);
    fixture.workspace.write(COMPONENT, DROPPED.replace("without", "wihtout"));
    fixture
        .run(&server, &[])
        .exits(3)
        .reports(["did you mean `without`?", "a dropped member needs `without`"]);
}

#[test]
fn rejects_stack_components_that_need_the_prefix() {
    let server = Index::default()
        .wheel("torch", "2.0", &["Requires-Dist: sym>=2"])
        .wheel("sym", "2.1", &[])
        .serve();
    let fixture = ClosureFixture::new(&["torch"], &[("python3-sym", "1.0")]);
    fixture.own("torch");
    fixture.run(&server, &["app"]).exits(1).reports([
        "component torch requires sym>=2, but only the private prefix has it",
        "sym is private: c has python3-sym 1.0; torch 2.0 requires sym>=2",
    ]);
}

#[test]
fn compares_two_locks() {
    let (fixture, server) = fixture();
    fixture.run(&server, &["--write"]).exits(0);
    let old = fixture.workspace.holder().join("old.lock");
    fs_err::write(&old, fixture.lock()).unwrap();
    let old = old.to_str().unwrap();
    let same = fixture.run(&server, &["diff", old, "p"]);
    assert_eq!(same.exits(0).stdout, "no differences\n");

    fixture.requires(&["num>=1", "pyd<2.13"]);
    let newer = Index::default().wheel("num", "2.0", &[MIT]).wheel("pyd", "2.12", &[MIT]).serve();
    fixture.run(&newer, &["--write"]).exits(0).reports(["nothing requires `ray` any longer"]);
    let differs = fixture.run(&newer, &["diff", old, "p"]);
    let output = "         NAME  BEFORE  AFTER  PLACE\nremoved  api   1.0\nremoved  only  1.0\n\
                down     pyd   2.13    2.12\n\n3 differences: 2 removed, 1 down\n";
    assert_eq!(differs.exits(1).stdout, output);
    let document = fixture.run(&newer, &["diff", old, "p", "--json"]).exits(1).json();
    assert_eq!(document["schema"], "rocmrpm/closure-diff/1");
    assert_eq!(document["differences"][2]["what"], "down");
    fixture
        .run(&newer, &["diff", "q", "p"])
        .exits(2)
        .reports(["there is no pin set `q`", "did you mean `p`?"]);
    fixture
        .run(&newer, &["diff", "no.lock", "p"])
        .exits(2)
        .reports(["`no.lock` is neither a file nor a pin set"]);
}

/// Returns the files below a folder of the workspace with their texts.
fn below(fixture: &ClosureFixture, folder: &str) -> Vec<(String, String)> {
    let files = walkdir::WalkDir::new(fixture.workspace.path(folder)).sort_by_file_name();
    let files = files.into_iter().map(Result::unwrap).filter(|entry| entry.file_type().is_file());
    files
        .map(|entry| {
            (entry.path().display().to_string(), fs_err::read_to_string(entry.path()).unwrap())
        })
        .collect()
}

#[test]
fn checks_restores_and_removes_generated_files() {
    let (fixture, server) = fixture();
    let generated = "specs-templates/generated/p";
    fixture
        .run(&server, &["--check"])
        .exits(1)
        .reports(["Differs pins/p.requirements.lock", "closure --write"]);
    assert!(
        !fixture.workspace.path("specs-templates/generated").exists(),
        "--check writes nothing"
    );
    fixture.run(&server, &["--write"]).exits(0).reports(["Wrote pins/p.generated.toml"]);
    let written = [below(&fixture, "pins"), below(&fixture, generated)].concat();
    for path in [
        "p.requirements.lock",
        "p.generated.toml",
        "only/component.toml",
        "app-runtime/component.toml",
    ] {
        assert!(written.iter().any(|(file, _)| file.ends_with(path)), "{path}");
    }
    fixture.run(&server, &["--write"]).exits(0).reports(["Unchanged"]);
    let checked = fixture.run(&server, &["--check", "--json"]).exits(0).json();
    assert_eq!((&checked["differs"], &checked["written"]), (&serde_json::json!([]), &false.into()));

    // Damage by a killed run or manual changes: missing files, other files, and files of another
    // closure.
    let only = format!("{generated}/only/component.toml");
    for damage in 0..4 {
        match damage {
            0 => fs_err::remove_file(fixture.workspace.path(&only)).unwrap(),
            1 => fs_err::write(fixture.workspace.path(&only), "generated = \"elsewhere\"\n[[[")
                .unwrap(),
            2 => fs_err::remove_file(fixture.workspace.path("pins/p.generated.toml")).unwrap(),
            _ => fs_err::remove_dir_all(fixture.workspace.path(generated)).unwrap(),
        }
        fixture.run(&server, &["--check"]).exits(1);
        fixture.run(&server, &["--write"]).exits(0);
        assert_eq!(
            [below(&fixture, "pins"), below(&fixture, generated)].concat(),
            written,
            "damage {damage}"
        );
    }

    // The release now contains two members.
    fixture.workspace.write(TABLE, "python3-num\t2.0\npython3-pyd\t2.13\npython3-only\t1.0\n");
    fixture
        .run(&server, &["--write"])
        .exits(0)
        .reports(["Removed specs-templates/generated/p/only/component.toml"]);
    for gone in ["only", "app-runtime"] {
        assert!(!fixture.workspace.path(format!("{generated}/{gone}")).exists(), "{gone}");
    }
    fixture.run(&server, &["--check"]).exits(0);
}

/// Fedora 44 has `only` in the same version and `num` in another one; nothing needs `pyd` there.
#[test]
fn obsoletes_or_replaces_rpms_of_an_earlier_release() {
    let (fixture, server) = fixture();
    let second = fixture.workspace.read("mock-configs/c.toml");
    let second =
        second.replace("\"43\"", "\"44\"").replace(".fc43", ".fc44").replace("\"t\"", "\"u\"");
    fixture.workspace.write("mock-configs/d.toml", second);
    let table = "mock-configs/packages/u.tsv";
    // Our RPM must not be newer than the later release's, which it would hide; an equal, newer or
    // unknown version there is fine.
    for (later, place) in [("0.9", "private"), ("1.0", "rpm"), ("1.1", "rpm")] {
        fixture
            .workspace
            .write(table, format!("python3-num\t2.0\npython3-pyd\t2.13\npython3-only\t{later}\n"));
        assert_eq!(fixture.members(&server)["only"].1, place, "{later}");
    }
    let reason = "d has python3-only 0.9: an RPM of 1.0 would hide it after an upgrade";
    fixture.workspace.write(table, "python3-only\t0.9\n");
    assert!(fixture.run(&server, &["why", "only"]).exits(0).stdout.contains(reason));
    fixture.workspace.write(table, "python3-num\t2.0\npython3-pyd\t2.13\n");
    fixture.run(&server, &["--write"]).exits(0);
    fixture.workspace.replace(
        "pins/p.generated.toml",
        "[only]",
        "[left]\nversion = \"3.0rc1\"\nsdist = \"left\"\n\n[older]\nversion = \"2.0\"\nsdist = \"older\"\n\n\
         [taken]\nversion = \"1.0\"\nsdist = \"taken\"\n\n[only]",
    );
    fixture.workspace.write(
        table,
        "python3-num\t2.0\npython3-pyd\t2.13\npython3-taken\t1.0\npython3-older\t1.0\n",
    );
    fixture.run(&server, &["--write", "--chroot", "d"]).exits(0);
    let written: toml::Table =
        fixture.workspace.read("specs-templates/generated/p.d/closure.toml").parse().unwrap();
    let obsoletes: Vec<_> =
        written["obsoletes"].as_array().unwrap().iter().map(|o| o.as_str().unwrap()).collect();
    assert_eq!(obsoletes, ["python3-left < 3.0~rc1-1", "python3-older = 2.0"]);
    fixture.run(&server, &["--check", "--chroot", "d"]).exits(0);
    // The earlier closure affects the later one.
    fixture.workspace.write("pins/p.generated.toml", "[left\n");
    fixture
        .run(&server, &["--check", "--chroot", "d"])
        .exits(3)
        .reports(["pins/p.generated.toml", "not valid TOML"]);
}

#[test]
fn writes_nothing_on_errors() {
    let (fixture, server) = fixture();
    // An unknown license is detected before any file is written.
    let unlicensed = Index::default()
        .wheel("api", "1.0", &["Requires-Dist: pyd>=2.13", MIT])
        .wheel("num", "2.0", &[MIT])
        .wheel("only", "1.0", &[])
        .wheel("pyd", "2.13", &[MIT])
        .serve();
    let before = below(&fixture, ".");
    fixture.run(&unlicensed, &["--write"]).exits(3).reports(["`only`"]);
    assert_eq!(below(&fixture, "."), before);
    fixture.workspace.write(COMPONENT, "");
    fixture
        .run(&server, &["--write"])
        .exits(2)
        .reports(["no component of the workspace has a `[closure]` table"]);
    fixture.run(&server, &["app", "--write"]).exits(2).reports(["`app` has no `[closure]` table"]);
    fixture.run(&server, &["app", "why", "num"]).exits(2);
}
