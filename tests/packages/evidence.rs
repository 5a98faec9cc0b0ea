//! Exchanges evidence between machines, with signatures by the real gpg.

use std::process::Command;

use crate::pipeline::lab::Lab;
use crate::repository::keyring::Keyring;
use crate::support::{Ran, ran};

const USER: &str = "Test <test@example.org>";

/// A workspace with evidence, and the keys of two machines.
struct Exchange {
    lab: Lab,
    own: Keyring,
    other: Keyring,
}

impl Exchange {
    fn new() -> Self {
        let lab = Lab::new();
        let manifest = lab.workspace.read("rocmrpm.toml");
        lab.workspace.write("rocmrpm.toml", format!("{manifest}[signing]\nkey = \"{USER}\"\n"));
        lab.workspace.write("pins/edge.toml", lab.workspace.read("pins/stable.toml"));
        lab.workspace.commit("Sign");
        let (own, other) = (Keyring::with_key(USER), Keyring::with_key(USER));
        let exchange = Self { lab, own, other };
        for (keyring, file) in [(&exchange.own, "own.asc"), (&exchange.other, "other.asc")] {
            let mut export = Command::new("gpg");
            export.args(["--armor", "--export"]).env("GNUPGHOME", keyring.path());
            exchange.lab.workspace.write(format!("build/{file}"), ran(&mut export).stdout);
        }
        exchange
    }

    fn run(&self, args: &[&str]) -> Ran {
        let mut command = self.lab.command(&["run"]);
        command.env("GNUPGHOME", self.own.path());
        if args != ["pipeline"] {
            command = self.lab.workspace.command(&[&["evidence"], args].concat());
            command.env("GNUPGHOME", self.own.path());
        }
        ran(&mut command)
    }
}

#[test]
fn imports_only_signed_evidence_of_the_same_set() {
    let exchange = Exchange::new();
    let Exchange { lab, .. } = &exchange;
    exchange.run(&["pipeline"]).exits(0);
    let records = lab.records();
    exchange.run(&["export", "build/e.json"]).exits(0).reports([format!("{records} records")]);
    let import = |file: &str, key: &str, pins: &str| {
        exchange.run(&["import", file, "--key", key, "--pins", pins])
    };
    let wrong = import("build/e.json", "build/other.asc", "stable");
    wrong.exits(1).reports(["is not signed by the key in `build/other.asc`"]);
    wrong.has_one_help_per_error();
    let other = import("build/e.json", "build/own.asc", "edge");
    other.exits(2).reports(["it is of the pin set `stable`, not `edge`"]).has_one_help_per_error();
    let text = lab.workspace.read("build/e.json");
    lab.workspace
        .write("build/changed.json", text.replace("\"stack\": \"test\"", "\"stack\": \"text\""));
    lab.workspace.write("build/changed.json.asc", lab.workspace.read("build/e.json.asc"));
    import("build/changed.json", "build/own.asc", "stable").exits(1).reports(["is not signed"]);
    assert!(!lab.folder("evidence/imported").exists(), "nothing was kept");
    let key = exchange.own.fingerprint(USER);
    let imported = import("build/e.json", "build/own.asc", "stable");
    imported.exits(0).reports([format!("{records} records signed by {key}")]);
    exchange.run(&["check"]).exits(0).reports(["1 imported file"]);

    // An older export does not replace a newer one.
    lab.release("1.1", &[]);
    exchange.run(&["pipeline"]).exits(0);
    exchange.run(&["export", "build/newer.json"]).exits(0);
    import("build/newer.json", "build/own.asc", "stable").exits(0);
    let older = import("build/e.json", "build/own.asc", "stable");
    older.exits(2).reports([format!("it has {records} records")]).has_one_help_per_error();
    exchange.run(&["check"]).exits(0).reports(["1 imported file"]);
    exchange.run(&["show", "--json"]).exits(0).document("rocmrpm/evidence-list/1");
    exchange.run(&["check", "--json"]).exits(0).document("rocmrpm/evidence-check/1");
}

#[test]
fn a_damaged_chain_stops_everything_that_relies_on_it() {
    let exchange = Exchange::new();
    exchange.run(&["pipeline"]).exits(0);
    let record = exchange.lab.folder("evidence/000003.json");
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, text.replace("\"cores\": ", "\"cores\": 1")).unwrap();
    for args in [&["check"][..], &["show"], &["export", "build/e.json"], &["pipeline"]] {
        let ran = exchange.run(args);
        ran.exits(20).reports(["is not the record that belongs there"]).has_one_help_per_error();
    }
    std::fs::write(&record, text).unwrap();
    exchange.run(&["check"]).exits(0);
}
