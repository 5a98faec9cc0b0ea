//! Exchanges evidence between machines, with signatures by the real gpg.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use crate::pipeline::fixture::PipelineFixture;
use crate::repository::keyring::Keyring;
use crate::support::{Ran, copy, names_in, ran, template};

const USER: &str = "Test <test@example.org>";

/// A workspace with evidence, and the keys of two machines.
struct Exchange {
    fixture: PipelineFixture,
    own: Keyring,
    other: Keyring,
}

impl Exchange {
    fn new() -> Self {
        let fixture = PipelineFixture::new();
        let manifest = fixture.workspace.read("rocmrpm.toml");
        fixture.workspace.write("rocmrpm.toml", format!("{manifest}[signing]\nkey = \"{USER}\"\n"));
        fixture.workspace.write("pins/edge.toml", fixture.workspace.read("pins/stable.toml"));
        fixture.workspace.commit("Sign");
        let (own, other) = (Keyring::with_key(USER), Keyring::with_key(USER));
        let exchange = Self { fixture, own, other };
        for (keyring, file) in [(&exchange.own, "own.asc"), (&exchange.other, "other.asc")] {
            let mut export = Command::new("gpg");
            export.args(["--armor", "--export"]).env("GNUPGHOME", keyring.path());
            exchange.fixture.workspace.write(format!("build/{file}"), ran(&mut export).stdout);
        }
        exchange
    }

    fn run(&self, args: &[&str]) -> Ran {
        let mut command = self.fixture.command(&["run"]);
        command.env("GNUPGHOME", self.own.path());
        if args != ["pipeline"] {
            command = self.fixture.workspace.command(&[&["evidence"], args].concat());
            command.env("GNUPGHOME", self.own.path());
        }
        ran(&mut command)
    }
}

#[test]
fn imports_only_signed_evidence_of_the_same_set() {
    let exchange = Exchange::new();
    let Exchange { fixture, .. } = &exchange;
    exchange.run(&["pipeline"]).exits(0);
    let records = fixture.records();
    exchange.run(&["export", "build/e.json"]).exits(0).reports([format!("{records} records")]);
    let import = |file: &str, key: &str, pins: &str| {
        exchange.run(&["import", file, "--key", key, "--pins", pins])
    };
    let wrong = import("build/e.json", "build/other.asc", "stable");
    wrong.exits(1).reports(["is not signed by the key in `build/other.asc`"]);
    wrong.has_one_help_per_error();
    let other = import("build/e.json", "build/own.asc", "edge");
    other.exits(2).reports(["it is of the pin set `stable`, not `edge`"]).has_one_help_per_error();
    let text = fixture.workspace.read("build/e.json");
    fixture
        .workspace
        .write("build/changed.json", text.replace("\"stack\": \"test\"", "\"stack\": \"text\""));
    fixture.workspace.write("build/changed.json.asc", fixture.workspace.read("build/e.json.asc"));
    import("build/changed.json", "build/own.asc", "stable").exits(1).reports(["is not signed"]);
    assert!(!fixture.folder("evidence/imported").exists(), "nothing was kept");
    let key = exchange.own.fingerprint(USER);
    let imported = import("build/e.json", "build/own.asc", "stable");
    imported.exits(0).reports([format!("{records} records signed by {key}")]);
    exchange.run(&["check"]).exits(0).reports(["1 imported file"]);

    // An older export does not replace a newer one.
    fixture.release("1.1", &[]);
    exchange.run(&["pipeline"]).exits(0);
    exchange.run(&["export", "build/newer.json"]).exits(0);
    import("build/newer.json", "build/own.asc", "stable").exits(0);
    let older = import("build/e.json", "build/own.asc", "stable");
    older.exits(2).reports([format!("it has {records} records")]).has_one_help_per_error();
    exchange.run(&["check"]).exits(0).reports(["1 imported file"]);
    exchange.run(&["show", "--json"]).exits(0).document("rocmrpm/evidence-list/1");
    // What was changed after the import does not count.
    let kept = names_in(&fixture.folder("evidence/imported"));
    let kept = kept.iter().find(|name| name.ends_with(".json")).unwrap();
    let kept = fixture.folder("evidence/imported").join(kept);
    let text = std::fs::read_to_string(&kept).unwrap();
    std::fs::write(&kept, text.replace("inspected", "ran")).unwrap();
    let status = fixture.pipeline(&["status"]);
    status.exits(1).reports(["is not signed by the key"]).has_one_help_per_error();
    std::fs::write(&kept, text).unwrap();
    fixture.pipeline(&["status"]).exits(0);
    exchange.run(&["check", "--json"]).exits(0).document("rocmrpm/evidence-check/1");
}

#[test]
fn a_damaged_chain_stops_everything_that_relies_on_it() {
    let exchange = Exchange::new();
    exchange.run(&["pipeline"]).exits(0);
    let record = exchange.fixture.folder("evidence/000003.json");
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, text.replace("\"cores\": ", "\"cores\": 1")).unwrap();
    for args in [&["check"][..], &["show"], &["export", "build/e.json"], &["pipeline"]] {
        let ran = exchange.run(args);
        ran.exits(20).reports(["is not the record that belongs there"]).has_one_help_per_error();
    }
    std::fs::write(&record, text).unwrap();
    exchange.run(&["check"]).exits(0);
}

/// Makes a system with the GPU of Strix Halo, an interpreter that imports every module, and a stack-smoke
/// that computed with the program `greet`. rpm's database lists the packages of a repository.
fn system(root: &Path, repository: &Path) {
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines/strix-halo"), root);
    for folder in ["bin", "tmp", "var/lib/rpm"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    std::fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
    symlink("busybox", root.join("bin/sh")).unwrap();
    let smoke = serde_json::json!({ "schema": "stack-smoke/1", "checks": [{
        "id": "greet", "what": "greet computes on the GPU", "outcome": "pass", "detail": "",
        "seconds": 1, "values": {}, "computed": ["greet"],
    }] });
    let smoke = format!("#!/bin/sh\necho '{smoke}'\n");
    for (name, text) in [("python3", "#!/bin/sh\n"), ("stack-smoke", &smoke)] {
        let program = root.join("bin").join(name);
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    for name in names_in(repository).iter().filter(|name| name.ends_with(".noarch.rpm")) {
        let mut install = Command::new("rpm");
        install.arg("--dbpath").arg(root.join("var/lib/rpm"));
        install.args([
            "-i",
            "--justdb",
            "--nodeps",
            "--ignorearch",
            "--noscripts",
            "--nosignature",
        ]);
        ran(install.arg(repository.join(name))).exits(0);
    }
}

#[test]
fn a_tester_raises_the_tier_of_what_is_installed_and_of_what_ran_on_a_gpu() {
    let exchange = Exchange::new();
    let fixture = &exchange.fixture;
    let text = fixture.workspace.read(template("greet"));
    let program = "%install\ninstall -Dpm 755 hello %{buildroot}%{_bindir}/greet\n";
    let text =
        text.replace("%install\n", program).replace("%files\n", "%files\n%{_bindir}/greet\n");
    fixture.workspace.write(template("greet"), text);
    fixture.workspace.commit("Add a program");
    exchange.run(&["pipeline"]).exits(0);
    exchange.run(&["export", "build/e.json"]).exits(0);
    let root = fixture.workspace.holder().join("system");
    system(&root, &fixture.workspace.holder().join("site/host"));

    // The tester has the workspace, but built nothing.
    let tester = fixture.workspace.holder().join("tester");
    fixture.workspace.git(&["clone", "--quiet", ".", tester.to_str().unwrap()]);
    let run = |args: &[&str]| {
        let mut command = fixture.workspace.command(args);
        command.current_dir(&tester).env("ROCMRPM_TRUST", &tester);
        ran(command.env("GNUPGHOME", exchange.other.path()))
    };
    let verify = ["verify", "--root", root.to_str().unwrap(), "--record", "--json"];
    let unknown = run(&verify);
    unknown.exits(1).reports(["names packages for `host`", "help: import the evidence"]);
    let evidence = fixture.workspace.path("build/e.json");
    let key = fixture.workspace.path("build/own.asc");
    let (evidence, key) = (evidence.to_str().unwrap(), key.to_str().unwrap());
    run(&["evidence", "import", evidence, "--key", key]).exits(0);
    let verified = run(&[&verify[..], &["--smoke"]].concat()).exits(0).document("rocmrpm/verify/1");
    let found = verified["components"].as_array().unwrap().iter();
    let found: Vec<_> = found
        .map(|one| (&one["component"], &one["tier"], &one["device"], one["packages"].as_array()))
        .map(|(name, tier, device, packages)| {
            (name.as_str().unwrap(), tier.as_str(), device.as_str(), packages.unwrap().len())
        })
        .collect();
    let expected =
        [("base", Some("installed"), None, 1), ("greet", Some("ran"), Some("gfx1151"), 1)];
    assert_eq!(found, expected);

    // The publisher takes it over from the tester's key.
    let tested = fixture.workspace.path("build/tested.json");
    let tested = tested.to_str().unwrap();
    run(&["evidence", "export", tested]).exits(0);
    let tiers = || {
        let status = fixture.pipeline(&["status", "--json"]).exits(0).json();
        let components = status["sets"][0]["components"].as_array().unwrap().clone();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
        let tier = |one: &serde_json::Value| (text(&one["tier"]), text(&one["key"]));
        components.iter().map(tier).collect::<Vec<_>>()
    };
    let plain = |tier: &str| (tier.to_owned(), "-".to_owned());
    assert_eq!(tiers(), [plain("inspected"), plain("inspected")]);
    exchange.run(&["import", tested, "--key", "build/other.asc"]).exits(0);
    let key = exchange.other.fingerprint(USER);
    assert_eq!(tiers(), [("installed".to_owned(), key.clone()), ("ran".to_owned(), key)]);

    // The own machine proves it by itself.
    let own = |more: &[&str]| ran(&mut fixture.workspace.command(&[&verify[..4], more].concat()));
    own(&[]).exits(0).reports(["Recorded base 1.0: installed", "Recorded greet 1.0: installed"]);
    assert_eq!(tiers()[0], plain("installed"));
    own(&["--smoke"]).exits(0).reports(["Recorded greet 1.0: ran on gfx1151"]);
    assert_eq!(tiers(), [plain("installed"), plain("ran")]);
    exchange.run(&["check"]).exits(0);

    // Other packages prove nothing about these.
    fixture.release("1.1", &[]);
    exchange.run(&["pipeline"]).exits(0);
    assert_eq!(tiers(), [plain("installed"), plain("inspected")]);
}
