//! JSON Schemas of the TOML files of a workspace, with which editors complete keys. The readers define
//! the keys: they read small files, and every key that they ask for is recorded. `keys.toml` describes
//! the keys.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::chroot::{Chroot, HOST};
use super::component::Component;
use super::copr::CoprProject;
use super::document::File;
use super::lock::Lock;
use super::manifest::Manifest;
use super::noted_keys::{Kind, Tables, noted};
use super::pins::{Overrides, PinSet};
use super::pipeline::PipelineSettings;
use super::provider::Provider;
use super::upstreams::Upstreams;
use super::watch::WatchList;
use crate::error::Problem;

/// Descriptions of the keys, by file and dotted path; `*` matches any key.
const DESCRIPTIONS: &str = include_str!("keys.toml");

/// The key that represents any key in the files that are read.
const ANY: &str = "x";

/// Reads a file and ignores its problems.
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
    (
        "chroot",
        "A file in `mock-configs/`: what components are built against.",
        |file, problems| {
            // `host` needs the fewest keys.
            Chroot::read(HOST, file, problems);
        },
    ),
    (
        "provider",
        "A file in `mock-configs/rocm/`: whose ROCm packages are used.",
        |file, problems| {
            Provider::read(ANY, file, problems);
        },
    ),
    ("pipeline", "`pipeline.toml`: how the stack is kept current.", |file, problems| {
        PipelineSettings::read(&file, problems);
    }),
    ("copr-project", "`copr/project.toml`: the project on COPR.", |file, problems| {
        CoprProject::read(file, &BTreeMap::new(), problems);
    }),
    ("upstreams", "`upstreams.toml`: what is known about upstream projects.", |file, problems| {
        Upstreams::read(&file, problems);
    }),
    ("watch", "`watch.toml`: upstream changes to wait for.", |file, problems| {
        WatchList::read(&file, problems);
    }),
];

/// A file with the keys that a reader asks for only beside certain values: each reader in
/// `upstreams.toml` has its own.
const SEEDS: &[(&str, &str)] = &[("upstreams", include_str!("examples/upstreams.toml"))];

/// Keys that are required beside certain values only.
const SOMETIMES_REQUIRED: &[&str] =
    &["file.fact.arg", "file.fact.key", "file.fact.pattern", "file.fact.set", "prefix"];

/// Keys of which a table that knows both must have one.
const EITHER: [&str; 2] = ["branch", "version"];

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
    let mut all = TomlSchemas {
        schemas: BTreeMap::new(),
        undescribed: BTreeSet::new(),
        unknown: BTreeSet::new(),
    };
    for (name, what, read) in FILES {
        let seed = SEEDS.iter().find(|(seeded, _)| seeded == name).map_or("", |(_, text)| text);
        let tables = tables(*read, seed);
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

/// Finds the tables and keys of a kind of file: reads files with the tables that are known so far,
/// with and without required keys, until no reader asks for a new one. Reads `seed` first.
fn tables(read: Reader, seed: &str) -> Tables {
    let read_noting = |tables, text| {
        noted(tables, || read(File { name: "x.toml".into(), text }, &mut Vec::new()))
    };
    let mut tables = read_noting(Tables::new(), seed.to_owned());
    loop {
        let before = tables.clone();
        for required in [false, true] {
            tables = read_noting(tables, example(&before, "", required).to_string());
        }
        if tables == before {
            return tables;
        }
    }
}

/// Returns a table with all tables that are known below it.
fn example(tables: &Tables, path: &str, required: bool) -> toml::Table {
    let mut table = toml::Table::new();
    let Some(keys) = tables.get(path) else { return table };
    let below = |key: &str| toml::Value::Table(example(tables, &joined(path, key), required));
    for (name, key) in &keys.named {
        let value = match key.kind {
            Some(Kind::Table) => below(name),
            Some(Kind::Tables) => toml::Value::Array(vec![below(name)]),
            // All such keys are lists; any other would be recorded with another type.
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
    /// The descriptions that are not used yet.
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
        let required =
            required.filter(|name| !SOMETIMES_REQUIRED.contains(&joined(path, name).as_str()));
        let required: Vec<&String> = required.collect();
        let mut schema =
            json!({"type": "object", "properties": properties, "additionalProperties": other});
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        if EITHER.iter().all(|name| keys.named.contains_key(*name)) {
            schema["anyOf"] = EITHER.iter().map(|name| json!({"required": [name]})).collect();
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
