//! Validates JSON documents against their schemas in `docs/schemas/`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde_json::Value;

type Validators = BTreeMap<String, &'static jsonschema::Validator>;

static VALIDATORS: LazyLock<Mutex<Validators>> = LazyLock::new(Mutex::default);

/// Fails if a text is a JSON document of rocmrpm that does not match its schema.
#[track_caller]
pub fn check_text(text: &str) {
    if let Some(document) = text.starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
    {
        check(&document);
    }
}

/// Reads a file that is a JSON document of this schema, and validates it.
#[track_caller]
pub fn read(path: &Path, schema: &str) -> Value {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(check(&document), Some(schema), "{}", path.display());
    document
}

/// Validates a JSON document if it names a schema of rocmrpm; returns that name.
#[track_caller]
pub fn check(document: &Value) -> Option<&str> {
    let name = document["schema"].as_str().filter(|name| name.starts_with("rocmrpm/"))?;
    let errors: Vec<String> = validator(name)
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert_eq!(errors, [""; 0], "{document:#}");
    Some(name)
}

fn validator(name: &str) -> &'static jsonschema::Validator {
    let mut validators = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
    validators.entry(name.to_owned()).or_insert_with(|| {
        let file = format!("{}.schema.json", name.trim_start_matches("rocmrpm/").replace('/', "-"));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas").join(file);
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("`{name}` has no schema: {}: {error}", path.display()));
        let schema: Value = serde_json::from_str(&text).unwrap();
        let validator =
            jsonschema::draft202012::new(&schema).unwrap_or_else(|e| panic!("{name}: {e}"));
        Box::leak(Box::new(validator))
    })
}
