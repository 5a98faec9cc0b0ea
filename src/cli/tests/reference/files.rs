//! `files.md`, from the schemas of TOML files, the descriptions in `keys.toml`, and the examples.

use std::path::Path;

use serde_json::{Map, Value};

use super::assert_page;
use super::markdown::{cell, check, sentence, table, text};
use crate::workspace::keys::toml_schemas;

const INTRO: &str = "# Files of a workspace

These are the TOML files of a workspace and all of their keys. An unknown key is an error. A key without
a default that is not required can be omitted.

Editors complete the keys and check their types: `rocmrpm init` and `rocmrpm add` write the JSON Schemas
of these files to `.schemas/`, and a line `#:schema` at the top of each file that they write.
";

/// The kinds of files by the names of their schemas, with their paths, in the order of the page.
const FILES: &[(&str, &str)] = &[
    ("rocmrpm", "rocmrpm.toml"),
    ("component", "specs-templates/COMPONENT/component.toml"),
    ("pins", "pins/NAME.toml"),
    ("chroot", "mock-configs/NAME.toml"),
    ("provider", "mock-configs/rocm/NAME.toml"),
    ("copr-project", "copr/project.toml"),
    ("upstreams", "upstreams.toml"),
    ("pipeline", "pipeline.toml"),
    ("watch", "watch.toml"),
];

fn example(name: &str) -> String {
    let path = format!("crates/rocmrpm-core/src/workspace/examples/{name}.toml");
    fs_err::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Writes the tables of a kind of file.
struct Page {
    text: String,
    /// The file's name, for headings.
    file: String,
}

impl Page {
    /// Writes a table and those below it. `path` has a name for any key, as in `chroot.NAME`.
    fn add(&mut self, schema: &Value, path: &str, array: bool) {
        if !path.is_empty() {
            let (open, close) = if array { ("[[", "]]") } else { ("[", "]") };
            let (description, default) = split(schema_text(schema));
            self.text += &format!(
                "\n### `{open}{path}{close}` in `{}`\n\n{}",
                self.file,
                sentence(&text(description))
            );
            self.text +=
                &default.map_or_else(String::new, |default| format!(" [{}]", text(default)));
            self.text += "\n";
        }
        self.add_keys(schema);
        for (key, below) in properties(schema) {
            let path = joined(path, key);
            if is_table(below) {
                self.add(below, &path, false);
            } else if is_table(&below["items"]) {
                // The description is of the key, not of each table.
                let mut items = below["items"].clone();
                items["description"] = below["description"].clone();
                self.add(&items, &path, true);
            }
        }
        if is_table(&schema["additionalProperties"]) {
            let name = match (path, self.file.as_str()) {
                ("", _) => "COMPONENT",
                ("container", _) => "FLAVOR",
                _ => "NAME",
            };
            self.add(&schema["additionalProperties"], &joined(path, name), false);
        }
    }

    fn add_keys(&mut self, schema: &Value) {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let keys =
            properties(schema).filter(|(_, below)| !is_table(below) && !is_table(&below["items"]));
        let row = |(key, below): (&String, &Value)| {
            let (description, default) = split(schema_text(below));
            let default = match default {
                Some(default) => default.strip_prefix("default: ").unwrap_or(default),
                None if required.contains(&key.as_str()) => "required",
                None => "",
            };
            [format!("`{key}`"), kind(below).to_owned(), cell(default), cell(description)]
        };
        let rows: Vec<[String; 4]> = keys.map(row).collect();
        if !rows.is_empty() {
            self.text += &format!("\n{}", table(["key", "type", "default", "description"], rows));
        }
    }
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flat_map(Map::iter)
}

/// Returns whether a schema is of a table with known keys, or with tables.
fn is_table(schema: &Value) -> bool {
    properties(schema).next().is_some() || schema["additionalProperties"]["type"] == "object"
}

fn schema_text(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

/// Splits a description from its default, such as `[default: 2 GB]`.
fn split(description: &str) -> (&str, Option<&str>) {
    match description.strip_suffix(']').and_then(|text| text.rsplit_once(" [")) {
        Some((text, default))
            if default.starts_with("default: ") || default.starts_with("required") =>
        {
            (text, Some(default))
        }
        _ => (description, None),
    }
}

fn kind(schema: &Value) -> &'static str {
    match schema["type"].as_str() {
        Some("string") => "string",
        Some("boolean") => "boolean",
        Some("integer") => "integer",
        Some("array") => "list of strings",
        Some("object") => "table of strings",
        other => panic!("no name for the type {other:?}"),
    }
}

#[test]
fn the_page_has_every_file_and_key() {
    let schemas = toml_schemas().schemas;
    let mut names: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    assert_eq!(names, schemas.keys().copied().collect::<Vec<_>>());
    let mut text = INTRO.to_owned();
    for (name, path) in FILES {
        let schema = &schemas[name];
        let what = schema_text(schema);
        let what = what.split_once(": ").map_or(what, |(_, what)| what);
        text += &format!("\n## `{path}`\n\n{}\n\n```toml\n{}```\n", sentence(what), example(name));
        let mut page =
            Page { text: String::new(), file: path.rsplit('/').next().unwrap_or(path).to_owned() };
        if path.ends_with("NAME.toml") {
            page.file = (*path).to_owned();
        }
        page.add(schema, "", false);
        text += &page.text;
    }
    check(&text);
    assert_page("files.md", &text);
}
