//! The schema check of every JSON document in these tests, and schemas of TOML files.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde_json::{Value, json};

use crate::support::documents::{check, check_text};
use crate::support::{REPOSITORY, Workspace};

fn is_refused(text: &str) -> bool {
    catch_unwind(AssertUnwindSafe(|| check_text(text))).is_err()
}

#[test]
fn rejects_documents_that_violate_their_schema() {
    let workspace = Workspace::copy_of("examples/quickstart");
    let plan: Value =
        serde_json::from_str(&workspace.run(&["plan", "--json"]).exits(0).stdout).unwrap();
    assert_eq!(check(&plan), Some("rocmrpm/plan/2"));
    for (pointer, value) in [
        ("/schema", json!("rocmrpm/plan/1")),
        ("/stale", json!("one")),
        ("/steps/0/key", json!("abc")),
        ("/steps/0/plan", json!("wait")),
    ] {
        let mut other = plan.clone();
        *other.pointer_mut(pointer).unwrap() = value;
        assert!(is_refused(&other.to_string()), "{pointer}");
    }
    for pointer in ["", "/steps/0"] {
        let mut more = plan.clone();
        more.pointer_mut(pointer).unwrap()["surprise"] = json!(1);
        assert!(is_refused(&more.to_string()), "{pointer}: an additional key");
        let mut less = plan.clone();
        less.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove("stale").unwrap();
        assert!(is_refused(&less.to_string()), "{pointer}: a missing key");
    }
    assert!(!is_refused(&plan.to_string()));
}

/// Every document is validated: a test asks for it by its schema, from a command (`document`, or
/// `["schema"]` of what `ran` validated) or from a file.
#[test]
fn every_schema_has_a_document_in_a_test() {
    let root = Path::new(REPOSITORY);
    let mut asked = String::new();
    for entry in walkdir::WalkDir::new(root.join("tests")).into_iter().map(Result::unwrap) {
        if entry.path().extension().is_some_and(|extension| extension == "rs") {
            let text = fs_err::read_to_string(entry.path()).unwrap();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for call in ["document(", "documents::read(", "check(", "[\"schema\"]", "\"--json\"]"] {
                for (at, _) in text.match_indices(call) {
                    let end = (at + 200).min(text.len());
                    asked += text.get(at..end).unwrap_or(&text[at..]).split(';').next().unwrap();
                    asked.push('\n');
                }
            }
        }
    }
    let names = crate::support::names_in(&root.join("docs/schemas"));
    let names = names.iter().filter_map(|name| name.strip_suffix(".schema.json"));
    let unasked = names.filter_map(|name| {
        let (name, version) = name.rsplit_once('-')?;
        let id = format!("\"rocmrpm/{name}/{version}\"");
        (!asked.contains(&id)).then_some(id)
    });
    assert_eq!(unasked.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn files_of_init_and_add_name_schemas_of_the_workspace() {
    let workspace = Workspace::init();
    workspace.write("src/hello/setup.py", "");
    workspace.run(&["add", "hello", "--path", "src/hello", "--version", "1.0"]).exits(0);
    let mut named = Vec::new();
    for (name, bytes) in workspace.files() {
        if name.ends_with(".toml") {
            let text = String::from_utf8(bytes).unwrap();
            let line = text.lines().next().and_then(|line| line.strip_prefix("#:schema "));
            let schema = workspace
                .path(&name)
                .parent()
                .unwrap()
                .join(line.unwrap_or_else(|| panic!("{name}")));
            let published =
                Path::new(REPOSITORY).join("docs/schemas/toml").join(schema.file_name().unwrap());
            assert!(fs_err::read(&schema).unwrap() == fs_err::read(published).unwrap(), "{name}");
            named.push((name, schema.file_name().unwrap().to_str().unwrap().to_owned()));
        }
    }
    let of =
        |name: &str| named.iter().find(|(path, _)| path == name).map(|(_, schema)| schema.as_str());
    assert_eq!(of("rocmrpm.toml"), Some("rocmrpm.schema.json"));
    assert_eq!(of("pins/stable.toml"), Some("pins.schema.json"));
    assert_eq!(of("mock-configs/host.toml"), Some("chroot.schema.json"));
    assert_eq!(of("mock-configs/rocm/fedora.toml"), Some("provider.schema.json"));
    assert_eq!(of("specs-templates/hello/component.toml"), Some("component.schema.json"));
    workspace.run(&["plan"]).exits(0);
}
