//! Tests the files in `examples/`, which docs/reference/files.md shows: readers accept them, and they
//! have every key. Keys that exclude each other are in different tables, or in a comment.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::chroot::Chroot;
use super::component::Component;
use super::copr::CoprProject;
use super::document::File;
use super::keys::toml_schemas;
use super::lock::Lock;
use super::manifest::Manifest;
use super::pins::{Overrides, PinSet};
use super::pipeline::PipelineSettings;
use super::provider::Provider;
use super::upstreams::Upstreams;
use super::watch::WatchList;
use crate::error::Problem;

fn example(name: &str) -> File {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/workspace/examples/{name}.toml"));
    File { name: format!("{name}.toml"), text: fs_err::read_to_string(path).unwrap() }
}

/// Returns what the reader of a kind of file finds wrong with the example.
fn problems(name: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let file = example(name);
    match name {
        "rocmrpm" => drop(Manifest::read(&file, &mut problems)),
        "component" => drop(Component::from_file(&file, Path::new("."), Vec::new(), &mut problems)),
        "pins" => drop(PinSet::read("x", file, &Lock::default(), &Overrides::new(), &mut problems)),
        "chroot" => drop(Chroot::read("fedora-44", file, &mut problems)),
        "provider" => drop(Provider::read("x", file, &mut problems)),
        "copr-project" => {
            let chroot = |release: &str| {
                let text = example("chroot").text.replace("44", release);
                let file = File { name: "x.toml".into(), text };
                let name = format!("fedora-{release}");
                (name.clone(), Chroot::read(&name, file, &mut Vec::new()))
            };
            drop(CoprProject::read(
                file,
                &BTreeMap::from([chroot("43"), chroot("44")]),
                &mut problems,
            ));
        }
        "pipeline" => drop(PipelineSettings::read(&file, &mut problems)),
        "upstreams" => drop(Upstreams::read(&file, &mut problems)),
        "watch" => drop(WatchList::read(&file, &mut problems)),
        other => panic!("`{other}` has no reader here"),
    }
    problems
}

#[test]
fn readers_accept_the_examples() {
    for name in toml_schemas().schemas.keys() {
        let problems: Vec<String> =
            problems(name).iter().map(|p| format!("{}: {}", p.message, p.label)).collect();
        assert_eq!(problems, [""; 0], "{name}.toml");
    }
}

/// Adds the keys of a schema that no value has.
fn add_missing(schema: &Value, values: &[&toml::Value], path: &str, missing: &mut Vec<String>) {
    let values: Vec<&toml::Value> = values
        .iter()
        .flat_map(|value| value.as_array().map_or(vec![*value], |items| items.iter().collect()))
        .collect();
    let schema = if schema["items"]["properties"].is_object() { &schema["items"] } else { schema };
    for (key, below) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let found: Vec<&toml::Value> = values.iter().filter_map(|value| value.get(key)).collect();
        if found.is_empty() {
            missing.push(path);
        } else {
            add_missing(below, &found, &path, missing);
        }
    }
    if schema["additionalProperties"]["properties"].is_object() {
        let named = |key: &&String| schema["properties"].get(key.as_str()).is_some();
        let tables = values.iter().filter_map(|value| value.as_table()).flatten();
        let other: Vec<&toml::Value> =
            tables.filter(|(key, _)| !named(key)).map(|(_, value)| value).collect();
        add_missing(&schema["additionalProperties"], &other, &format!("{path}.*"), missing);
    }
}

#[test]
fn examples_have_every_key() {
    let mut missing = Vec::new();
    for (name, schema) in toml_schemas().schemas {
        let file = toml::Value::Table(example(name).text.parse().unwrap());
        add_missing(&schema, &[&file], name, &mut missing);
    }
    // rocmrpm writes the first; the second excludes `version`, and the others exclude `prefix`.
    let expected = ["component.generated", "provider.artifacts", "provider.python-packages"]
        .map(str::to_owned);
    assert_eq!(missing, [&expected[..], &["provider.version-header".to_owned()]].concat());
}
