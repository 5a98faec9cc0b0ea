//! `documents.md`, from the JSON Schemas of the documents.

use clap::{Command, CommandFactory};
use serde_json::Value;

use super::assert_page;
use super::markdown::{anchor, cell, check, table, text};
use crate::cli::args::Arguments;
use crate::cli::documents_tests::documents;
use crate::document::file_name;

const INTRO: &str = "# JSON documents

Commands print these documents with `--json`, and builds and published folders contain some of them.
Each names its schema in the key `schema`, as in `\"schema\": \"rocmrpm/plan/2\"`. The number increases
when a key is removed, renamed, or changes its meaning; new keys do not change it. The schemas are
JSON Schema, draft 2020-12, and describe every key, including those of nested objects.
";

/// Returns the commands in a description, such as `rocmrpm plan`, that print the document.
fn commands(description: &str) -> Vec<String> {
    let spans = description.split('`').skip(1).step_by(2);
    let with_json = spans.filter(|span| span.starts_with("rocmrpm ") && span.ends_with(" --json"));
    with_json.map(command_of).collect()
}

/// Returns the command that a command line starts with.
fn command_of(line: &str) -> String {
    let root = Arguments::command();
    let mut command: &Command = &root;
    let mut name = "rocmrpm".to_owned();
    for word in line.split(' ').skip(1).take_while(|word| !word.starts_with('-') && *word != "...")
    {
        command = command
            .find_subcommand(word)
            .unwrap_or_else(|| panic!("`{line}`: no command `{word}`"));
        name = format!("{name} {word}");
    }
    name
}

/// Returns links to the sections of commands.
fn links(commands: &[String]) -> String {
    let link = |name: &String| format!("[`{name}`](commands.md#{})", anchor(name));
    commands.iter().map(link).collect::<Vec<_>>().join(", ")
}

/// Returns what the value of a key is, for people.
fn kind(schema: &Value) -> String {
    let named = |reference: &str| format!("`{}`", reference.rsplit('/').next().unwrap_or_default());
    if let Some(reference) = schema["$ref"].as_str() {
        return named(reference);
    }
    if let Some(value) = schema["const"].as_str() {
        return format!("`\"{value}\"`");
    }
    let parts = ["anyOf", "oneOf"].iter().find_map(|key| schema[*key].as_array());
    if let Some(parts) = parts {
        return parts.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    let of_type = |name: &str| match name {
        "array" => format!("list of {}", plural(&kind(&schema["items"]))),
        "object" if schema["additionalProperties"].is_object() => {
            format!("map to {}", kind(&schema["additionalProperties"]))
        }
        other => other.to_owned(),
    };
    match &schema["type"] {
        Value::String(name) => of_type(name),
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).map(of_type).collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}

fn plural(kind: &str) -> String {
    match kind {
        "string" | "integer" | "number" | "boolean" | "object" => format!("{kind}s"),
        other => other.to_owned(),
    }
}

fn description(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

fn section(name: &str, schema: &Value) -> String {
    let description = description(schema);
    let mut section = format!("\n## `{name}`\n\n{}\n\n", text(description));
    let commands = commands(description);
    if !commands.is_empty() {
        section += &format!("- Printed by {}\n", links(&commands));
    }
    let file = file_name(name);
    section += &format!("- Schema: [`{file}`](../schemas/{file})\n\n");
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let row = |(key, property): (&String, &Value)| {
        let optional = if required.contains(&key.as_str()) { "" } else { " (optional)" };
        [
            format!("`{key}`"),
            format!("{}{optional}", kind(property)),
            cell(self::description(property)),
        ]
    };
    let properties =
        schema["properties"].as_object().unwrap_or_else(|| panic!("{name} has no keys"));
    section + &table(["key", "type", "description"], properties.iter().map(row))
}

#[test]
fn the_page_has_every_document() {
    let documents = documents();
    let row = |(name, schema): (&String, &Value)| {
        let description = description(schema).lines().next().unwrap_or_default().to_owned();
        [format!("[`{name}`](#{})", anchor(name)), cell(&description)]
    };
    let mut page =
        format!("{INTRO}\n{}", table(["document", "description"], documents.iter().map(row)));
    page.extend(documents.iter().map(|(name, schema)| section(name, schema)));
    check(&page);
    assert_page("documents.md", &page);
}
