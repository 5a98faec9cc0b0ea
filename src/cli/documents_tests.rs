//! Tests the JSON Schemas of all documents and TOML files in `docs/schemas/`.
//! `UPDATE_GOLDEN=1 cargo test --lib documents` writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::build::documents::{RunDocument, SourcesReport, SpecsReport};
use super::copr::{push::PushReport, status::StatusReport, sync::SyncReport};
use super::evidence::{EvidenceCheckReport, EvidenceReport};
use super::pins::{check::CheckReport, derive::DeriveReport, outdated::OutdatedReport};
use super::pipeline::{PipelineReport, PipelineStatusReport};
use super::{
    audit::OfflineAudit, cache::CacheReport, container::ImageCheck, dist_git::DistGitReport,
    doctor::Checkup, explain::LogReport, explain::Rules, index::IndexReport, lint::LintReport,
    lock::LockReport, patch::PatchRefresh, patch::PatchStatus, patch_compare::PatchComparison,
    plan::PlanReport, publish::PublishReport, publish_repository::RepositoryReport,
    render::RenderReport, requirements::RequirementsReport, rollback::RollbackReport,
    sdk::SdkCheck, sdk::SdkReport, status::LastBuilds, verify::VerifyReport, wheel::WheelReport,
    wheel::WheelVerification,
};
use crate::document::{file_name, schema_of};
use crate::report::{AuditReport, ClosureReport, DiffReport, WhyReport};
use crate::workspace::keys::{TomlSchemas, toml_schemas};

/// Returns the schemas of all documents by name, such as `rocmrpm/plan/2`.
pub(super) fn documents() -> BTreeMap<String, Value> {
    let mut all = rocmrpm_core::documents();
    all.extend([
        schema_of::<AuditReport<'_>>(),
        schema_of::<CacheReport>(),
        schema_of::<CheckReport<'_>>(),
        schema_of::<Checkup>(),
        schema_of::<ClosureReport<'_>>(),
        schema_of::<DeriveReport<'_>>(),
        schema_of::<DiffReport<'_>>(),
        schema_of::<DistGitReport<'_>>(),
        schema_of::<EvidenceCheckReport<'_>>(),
        schema_of::<EvidenceReport<'_>>(),
        schema_of::<ImageCheck<'_>>(),
        schema_of::<IndexReport<'_>>(),
        schema_of::<LastBuilds<'_>>(),
        schema_of::<LintReport<'_>>(),
        schema_of::<LockReport<'_>>(),
        schema_of::<LogReport<'_>>(),
        schema_of::<OfflineAudit<'_>>(),
        schema_of::<OutdatedReport<'_>>(),
        schema_of::<PatchComparison<'_>>(),
        schema_of::<PatchRefresh<'_>>(),
        schema_of::<PatchStatus<'_>>(),
        schema_of::<PipelineReport>(),
        schema_of::<PipelineStatusReport<'_>>(),
        schema_of::<PlanReport<'_>>(),
        schema_of::<PublishReport<'_>>(),
        schema_of::<PushReport<'_>>(),
        schema_of::<RenderReport<'_>>(),
        schema_of::<RepositoryReport<'_>>(),
        schema_of::<RequirementsReport<'_>>(),
        schema_of::<RollbackReport<'_>>(),
        schema_of::<Rules>(),
        schema_of::<RunDocument>(),
        schema_of::<SdkCheck<'_>>(),
        schema_of::<SdkReport<'_>>(),
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
    let named =
        all.into_iter().map(|schema| (schema["title"].as_str().unwrap().to_owned(), schema));
    let named: BTreeMap<String, Value> = named.collect();
    assert_eq!(named.len(), count, "two documents have the same name");
    named
}

pub(super) fn in_docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)
}

/// Compares a file with its expected text; writes it if `UPDATE_GOLDEN` is set.
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
fn schemas_match_the_structs() {
    let mut files = BTreeSet::new();
    for (name, schema) in documents() {
        let file = file_name(&name);
        assert_file(&in_docs("schemas").join(&file), &format!("{schema:#}\n"));
        files.insert(file);
    }
    files.insert("toml".to_owned());
    assert_eq!(names_in(&in_docs("schemas")), files);
}

/// Calls `check` with every object schema that has properties, and its location.
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
                assert!(
                    property["description"].is_string() || variant,
                    "{at}: `{key}` is not described"
                );
            }
        });
    }
    assert!(keys > 400, "{keys}");
}

#[test]
fn schemas_of_toml_files_match_their_readers() {
    let TomlSchemas { schemas, undescribed, unknown } = toml_schemas();
    assert_eq!(undescribed, BTreeSet::new(), "keys.toml lacks descriptions");
    assert_eq!(unknown, BTreeSet::new(), "keys.toml describes keys that no reader uses");
    let mut files = BTreeSet::new();
    for (name, schema) in schemas {
        let file = format!("{name}.schema.json");
        assert_file(&in_docs("schemas/toml").join(&file), &format!("{schema:#}\n"));
        files.insert(file);
    }
    assert_eq!(names_in(&in_docs("schemas/toml")), files);
}

/// Returns the errors of a TOML file according to its schema.
fn mistakes(schemas: &BTreeMap<&str, Value>, name: &str, text: &str) -> Vec<String> {
    let validator = jsonschema::draft202012::new(&schemas[name]).unwrap();
    let file = serde_json::to_value(toml::from_str::<toml::Table>(text).unwrap()).unwrap();
    validator
        .iter_errors(&file)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

#[test]
fn toml_files_of_this_repository_follow_their_schemas() {
    let schemas = toml_schemas().schemas;
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for workspace in ["", "examples/quickstart", "tests/laboratory/workspace"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(workspace);
        for folder in ["", "copr", "mock-configs", "pins", "specs-templates"] {
            let depth = if folder.is_empty() { 1 } else { 8 };
            let files = walkdir::WalkDir::new(root.join(folder)).max_depth(depth);
            for file in
                files.into_iter().filter_map(Result::ok).filter(|file| file.file_type().is_file())
            {
                let path = file.path().strip_prefix(&root).unwrap().to_str().unwrap();
                let Some(name) = super::schemas::schema(path) else { continue };
                let text = fs_err::read_to_string(file.path()).unwrap();
                assert_eq!(mistakes(&schemas, name, &text), [""; 0], "{}", file.path().display());
                *seen.entry(name).or_default() += 1;
            }
        }
    }
    assert_eq!(seen.keys().copied().collect::<BTreeSet<_>>(), schemas.keys().copied().collect());
    assert!(seen["component"] > 20 && seen["pins"] > 5 && seen["chroot"] > 5, "{seen:?}");
}

#[test]
fn schemas_of_toml_files_refuse_unknown_keys_and_wrong_types() {
    let schemas = toml_schemas().schemas;
    for (name, text) in [
        ("rocmrpm", "[stack]\nname = \"x\"\ngpu-target = []\n"),
        ("component", "optional = \"yes\"\n"),
        ("component", "[[closure.member]]\nname = \"x\"\nreason = \"x\"\nplaces = \"rpm\"\n"),
        ("pins", "[x]\nversion = \"1\"\ncargo-vendor = \"Cargo.lock\"\n"),
        ("pins", "[x]\nsdist = \"x\"\n"),
        ("chroot", "rocm-provider = \"x\"\nrepositories = [\"x\"]\n"),
        ("provider", "prefix = \"/usr\"\npackages = \"fedora\"\n"),
        ("upstreams", "[[file]]\nof = \"x\"\nreader = \"toml\"\nfacts = []\n"),
        ("copr-project", "owner = \"a\"\nproject = \"p\"\n[chroot.f43]\nrepository = []\n"),
    ] {
        assert_eq!(mistakes(&schemas, name, text).len(), 1, "{name}: {text}");
    }
    assert_eq!(mistakes(&schemas, "pins", "[x]\nversion = \"1\"\nsdist = \"x\"\n"), [""; 0]);
}
