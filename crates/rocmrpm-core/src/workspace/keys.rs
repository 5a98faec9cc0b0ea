//! JSON Schemas of the TOML files of a workspace, with which editors complete keys. They follow from
//! the readers: these read small files, and every key that they ask for is noted. `keys.toml` says what
//! the keys mean.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::chroot::{Chroot, HOST, Provider};
use super::component::Component;
use super::copr::CoprProject;
use super::document::File;
use super::lock::Lock;
use super::manifest::Manifest;
use super::pins::{Overrides, PinSet};
use crate::error::Problem;

/// Descriptions of the keys, by file and dotted path; `*` stands for any key.
const DESCRIPTIONS: &str = include_str!("keys.toml");

/// The key that stands for any key in the files that are read.
const ANY: &str = "x";

/// What a reader takes a key for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    String,
    Boolean,
    Integer,
    Strings,
    StringMap,
    Table,
    Tables,
}

/// What is known of a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Key {
    /// Missing if a reader only asked whether the key exists.
    kind: Option<Kind>,
    required: bool,
}

/// The keys of a table, and what its other entries are if any key is allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Keys {
    named: BTreeMap<String, Key>,
    any: bool,
}

/// The tables of a file by their dotted paths.
type Tables = BTreeMap<String, Keys>;

thread_local! {
    static NOTES: RefCell<Option<Tables>> = const { RefCell::new(None) };
}

fn note(table: &str, change: impl FnOnce(&mut Keys)) {
    NOTES.with_borrow_mut(|notes| {
        if let Some(notes) = notes {
            change(notes.entry(table.to_owned()).or_default());
        }
    });
}

/// Notes that a reader asks for a key.
pub(super) fn note_key(table: &str, key: &str, kind: Option<Kind>, required: bool) {
    note(table, |keys| {
        let known = keys.named.entry(key.to_owned()).or_default();
        known.kind = known.kind.or(kind);
        known.required |= required;
    });
}

/// Notes that a reader takes every entry of a table for a table.
pub(super) fn note_any(table: &str) {
    note(table, |keys| keys.any = true);
}

/// Reads a file; what is wrong with it does not matter here.
type Reader = fn(File, &mut Vec<Problem>);

/// The kinds of files: their names, what they are, and their readers.
const FILES: &[(&str, &str, Reader)] = &[
    ("rocmrpm", "`rocmrpm.toml`: the stack of a workspace.", |file, problems| {
        Manifest::read(&file, problems);
    }),
    ("component", "`component.toml`: a component.", |file, problems| {
        Component::from_file(&file, Path::new("."), Vec::new(), problems);
    }),
    ("pins", "A file in `pins/`: versions and sources of components.", |file, problems| {
        PinSet::read(ANY, file, &Lock::default(), &Overrides::new(), problems);
    }),
    ("chroot", "A file in `mock-configs/`: what components are built against.", |file, problems| {
        // The one that needs the fewest keys.
        Chroot::read(HOST, file, problems);
    }),
    ("provider", "A file in `mock-configs/rocm/`: whose ROCm packages are used.", |file, problems| {
        Provider::read(ANY, file, problems);
    }),
    ("copr-project", "`copr/project.toml`: the project on COPR.", |file, problems| {
        CoprProject::read(file, &BTreeMap::new(), problems);
    }),
];

/// The JSON Schemas of all kinds of files by their names.
pub struct TomlSchemas {
    /// The schemas.
    pub schemas: BTreeMap<&'static str, Value>,
    /// Keys that readers ask for and `keys.toml` does not describe.
    pub undescribed: BTreeSet<String>,
    /// Keys that `keys.toml` describes and no reader asks for.
    pub unknown: BTreeSet<String>,
}

/// Returns the JSON Schemas of the TOML files of a workspace.
pub fn toml_schemas() -> TomlSchemas {
    let described: BTreeMap<String, BTreeMap<String, String>> =
        toml::from_str(DESCRIPTIONS).unwrap_or_default();
    let mut all =
        TomlSchemas { schemas: BTreeMap::new(), undescribed: BTreeSet::new(), unknown: BTreeSet::new() };
    for (name, what, read) in FILES {
        let tables = tables(*read);
        let descriptions = described.get(*name).cloned().unwrap_or_default();
        let mut builder = Builder { tables: &tables, descriptions, undescribed: Vec::new() };
        let mut schema = builder.table("", "");
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        schema["$id"] = json!(format!("urn:rocmrpm:toml:{name}"));
        schema["description"] = json!(what);
        all.schemas.insert(name, schema);
        let of_file = |path: String| format!("{name}: {path}");
        all.undescribed.extend(builder.undescribed.into_iter().map(of_file));
        all.unknown.extend(builder.descriptions.into_keys().map(of_file));
    }
    all
}

/// Finds the tables and keys of a kind of file: it reads files with the tables that are known so far,
/// with and without required keys, until no more come to light.
fn tables(read: Reader) -> Tables {
    let mut tables = Tables::new();
    loop {
        let before = tables.clone();
        for required in [false, true] {
            let text = example(&before, "", required).to_string();
            NOTES.set(Some(tables));
            read(File { name: "x.toml".into(), text }, &mut Vec::new());
            tables = NOTES.take().unwrap_or_default();
        }
        if tables == before {
            return tables;
        }
    }
}

/// Returns a table with all tables that are known to be in it.
fn example(tables: &Tables, path: &str, required: bool) -> toml::Table {
    let mut table = toml::Table::new();
    let Some(keys) = tables.get(path) else { return table };
    let below = |key: &str| toml::Value::Table(example(tables, &joined(path, key), required));
    for (name, key) in &keys.named {
        let value = match key.kind {
            Some(Kind::Table) => below(name),
            Some(Kind::Tables) => toml::Value::Array(vec![below(name)]),
            // All such keys are lists; others would be noted as something else.
            None => toml::Value::Array(Vec::new()),
            Some(Kind::String) if required && key.required => ANY.into(),
            Some(_) => continue,
        };
        table.insert(name.clone(), value);
    }
    if keys.any {
        table.insert(ANY.to_owned(), below(ANY));
    }
    table
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Builds the schema of a file.
struct Builder<'t> {
    tables: &'t Tables,
    /// What is not used yet.
    descriptions: BTreeMap<String, String>,
    undescribed: Vec<String>,
}

impl Builder<'_> {
    /// Returns the schema of a table; `shown` is its path with `*` for any key.
    fn table(&mut self, path: &str, shown: &str) -> Value {
        let keys = self.tables.get(path).cloned().unwrap_or_default();
        let mut properties = Map::new();
        for (name, key) in &keys.named {
            let (path, shown) = (joined(path, name), joined(shown, name));
            let schema = match key.kind {
                Some(Kind::Boolean) => json!({"type": "boolean"}),
                Some(Kind::Integer) => json!({"type": "integer"}),
                Some(Kind::Strings) | None => json!({"type": "array", "items": {"type": "string"}}),
                Some(Kind::String) => json!({"type": "string"}),
                Some(Kind::StringMap) => {
                    json!({"type": "object", "additionalProperties": {"type": "string"}})
                }
                Some(Kind::Table) => self.table(&path, &shown),
                Some(Kind::Tables) => json!({"type": "array", "items": self.table(&path, &shown)}),
            };
            properties.insert(name.clone(), self.described(schema, shown));
        }
        let other = match keys.any {
            true => {
                let shown = joined(shown, "*");
                let schema = self.table(&joined(path, ANY), &shown);
                self.described(schema, shown)
            }
            false => json!(false),
        };
        let required = keys.named.iter().filter(|(_, key)| key.required).map(|(name, _)| name);
        let required: Vec<&String> = required.collect();
        let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": other});
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema
    }

    fn described(&mut self, mut schema: Value, shown: String) -> Value {
        match self.descriptions.remove(&shown) {
            Some(text) => schema["description"] = json!(text),
            None => self.undescribed.push(shown),
        }
        schema
    }
}
