//! The JSON Schemas of all documents, as they are in `docs/schemas/`, and the list of
//! documents in `docs/architecture.md`. `UPDATE_GOLDEN=1 cargo test --lib documents` writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::build::documents::{RunDocument, SourcesReport, SpecsReport};
use super::copr::{push::PushReport, status::StatusReport, sync::SyncReport};
use super::pins::{check::CheckReport, derive::DeriveReport, outdated::OutdatedReport};
use super::{
    audit::OfflineAudit, container::ImageCheck, doctor::Checkup, explain::Rules, index::IndexReport,
    lint::LintReport, lock::LockReport, patch::PatchRefresh, patch::PatchStatus, plan::PlanReport,
    publish::PublishReport, publish_repository::RepositoryReport, render::RenderReport,
    requirements::RequirementsReport, verify::VerifyReport, wheel::WheelReport, wheel::WheelVerification,
};
use crate::document::{file_name, schema_of};
use crate::report::{AuditReport, ClosureReport, DiffReport, WhyReport};

/// Returns the schemas of all documents by their names, such as `rocmrpm/plan/2`.
fn documents() -> BTreeMap<String, Value> {
    let mut all = rocmrpm_core::documents();
    all.extend([
        schema_of::<AuditReport<'_>>(),
        schema_of::<CheckReport<'_>>(),
        schema_of::<Checkup>(),
        schema_of::<ClosureReport<'_>>(),
        schema_of::<DeriveReport<'_>>(),
        schema_of::<DiffReport<'_>>(),
        schema_of::<ImageCheck<'_>>(),
        schema_of::<IndexReport<'_>>(),
        schema_of::<LintReport<'_>>(),
        schema_of::<LockReport<'_>>(),
        schema_of::<OfflineAudit<'_>>(),
        schema_of::<OutdatedReport<'_>>(),
        schema_of::<PatchRefresh<'_>>(),
        schema_of::<PatchStatus<'_>>(),
        schema_of::<PlanReport<'_>>(),
        schema_of::<PublishReport<'_>>(),
        schema_of::<PushReport<'_>>(),
        schema_of::<RenderReport<'_>>(),
        schema_of::<RepositoryReport<'_>>(),
        schema_of::<RequirementsReport<'_>>(),
        schema_of::<Rules>(),
        schema_of::<RunDocument>(),
        schema_of::<SourcesReport<'_>>(),
        schema_of::<SpecsReport<'_>>(),
        schema_of::<StatusReport<'_>>(),
        schema_of::<SyncReport<'_>>(),
        schema_of::<VerifyReport<'_>>(),
        schema_of::<WheelReport<'_>>(),
        schema_of::<WheelVerification<'_>>(),
        schema_of::<WhyReport<'_>>(),
    ]);
    let count = all.len();
    let named = all.into_iter().map(|schema| (schema["title"].as_str().unwrap().to_owned(), schema));
    let named: BTreeMap<String, Value> = named.collect();
    assert_eq!(named.len(), count, "two documents have one name");
    named
}

fn in_docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)
}

/// Compares a file with what it should be; writes it if `UPDATE_GOLDEN` is set.
fn assert_file(path: &Path, wanted: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs_err::write(path, wanted).unwrap();
    }
    let text = fs_err::read_to_string(path).unwrap_or_default();
    similar_asserts::assert_eq!(
        text,
        wanted,
        "{}: UPDATE_GOLDEN=1 cargo test --lib documents",
        path.display()
    );
}

fn names_in(dir: &Path) -> BTreeSet<String> {
    let names = fs_err::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

#[test]
fn schemas_follow_from_the_structs() {
    let mut files = BTreeSet::new();
    for (name, schema) in documents() {
        let file = file_name(&name);
        assert_file(&in_docs("schemas").join(&file), &format!("{schema:#}\n"));
        files.insert(file);
    }
    assert_eq!(names_in(&in_docs("schemas")), files);
}

#[test]
fn docs_list_every_document() {
    const START: &str = "| `\"schema\"` | document |\n|---|---|\n";
    let path = in_docs("architecture.md");
    let text = fs_err::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(START).expect("docs/architecture.md has the table of documents");
    let end = rest.find("\n\n").unwrap();
    let row = |(name, schema): (&String, &Value)| {
        let description = schema["description"].as_str().unwrap();
        let description = description.split_once('\n').map_or(description, |(first, _)| first);
        format!("| [`{name}`](schemas/{}) | {description} |\n", file_name(name))
    };
    let rows: String = documents().iter().map(row).collect();
    assert_file(&path, &format!("{before}{START}{}{}", rows.trim_end(), &rest[end..]));
}

/// Calls `check` with every object schema that has properties, and where it is.
fn each_object(schema: &Value, at: &str, check: &mut dyn FnMut(&Value, &str)) {
    if schema["properties"].is_object() {
        check(schema, at);
    }
    match schema {
        Value::Object(map) => {
            map.iter().for_each(|(key, below)| each_object(below, &format!("{at}/{key}"), check));
        }
        Value::Array(items) => items.iter().for_each(|item| each_object(item, at, check)),
        _ => {}
    }
}

#[test]
fn every_key_is_described_and_in_snake_case() {
    let is_snake = |key: &str| {
        key.starts_with(|c: char| c.is_ascii_lowercase())
            && key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let mut keys = 0;
    for (name, schema) in documents() {
        assert!(schema["description"].as_str().is_some_and(|text| text.ends_with('.')), "{name}");
        each_object(&schema, &name, &mut |object, at| {
            for (key, property) in object["properties"].as_object().unwrap() {
                keys += 1;
                assert!(is_snake(key), "{at}: `{key}`");
                // The keys of a variant that has no fields with names: the variant is described.
                let variant = at.ends_with("/oneOf") && object["description"].is_string();
                assert!(property["description"].is_string() || variant, "{at}: `{key}` is not described");
            }
        });
    }
    assert!(keys > 400, "{keys}");
}
