//! The source manifest of ROCm's TheRock, as its `external-builds/pytorch/
//! checkout_from_manifest.py` reads it and `build_tools/github_actions/
//! generate_pytorch_source_manifest.py` writes it: `schema_version` 1, and by project
//! `repo`, `commit`, `branch`, `version`. Its names of projects are in `upstreams.toml`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::PinsError;
use super::import::{Import, Imported};
use crate::error::{Problem, Problems};
use crate::sources::SourceError;
use crate::workspace::document::{At, File};
use crate::workspace::{Pin, Source, Workspace};

/// The version of the format (`SCHEMA_VERSION` in checkout_from_manifest.py).
const SCHEMA_VERSION: u64 = 1;

/// An object that keeps the order of its keys, and duplicates.
struct Object<V>(Vec<(String, V)>);

impl<V: Serialize> Serialize for Object<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Object<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs<V>(std::marker::PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Pairs<V> {
            type Value = Object<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Object(pairs))
            }
        }
        deserializer.deserialize_map(Pairs(std::marker::PhantomData))
    }
}

/// The value of a key of the root: a project, or something else.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ManifestEntry {
    Project(Object<Value>),
    Other(Value),
}

/// Returns the chosen pin set as a source manifest, and the components that such a manifest cannot
/// name.
pub fn export(workspace: &Workspace) -> Result<(String, Vec<String>), PinsError> {
    let mut root = vec![("schema_version".to_owned(), ManifestEntry::Other(SCHEMA_VERSION.into()))];
    let mut left_out: Vec<String> =
        workspace.pins.written().map(|pin| pin.component.to_string()).collect();
    let components = &workspace.upstreams.components;
    let named = components
        .iter()
        .filter_map(|known| Some((known.therock.as_deref()?, known.name.as_str())));
    for (project, component) in named.collect::<BTreeMap<_, _>>() {
        let pin = workspace.pins.pins.iter().find(|(name, _)| name.as_str() == component);
        let Some(Pin { version, source: Source::Git { url, commit, .. }, .. }) =
            pin.map(|(_, at)| &at.value)
        else {
            continue;
        };
        let commit = commit.clone().ok_or_else(|| SourceError::NotPinned {
            component: component.to_owned(),
            version: version.clone(),
            missing: "commit",
        })?;
        let fields = [("repo", url.clone()), ("commit", commit), ("version", version.clone())];
        let fields = fields.map(|(key, value)| (key.to_owned(), Value::from(value))).into();
        root.push((project.to_owned(), ManifestEntry::Project(Object(fields))));
        left_out.retain(|name| name != component);
    }
    // Serialization cannot fail: all keys are strings.
    let text = serde_json::to_string_pretty(&Object(root)).unwrap_or_default();
    Ok((text + "\n", left_out))
}

/// Reads a source manifest as an import into the chosen pin set.
pub fn read(file: &File, workspace: &Workspace) -> Result<Import, PinsError> {
    let mut problems = Vec::new();
    let import = read_root(file, workspace, &mut problems);
    if problems.is_empty() { Ok(import) } else { Err(PinsError::Invalid(Problems(problems))) }
}

fn read_root(file: &File, workspace: &Workspace, problems: &mut Vec<Problem>) -> Import {
    let mut import = Import::default();
    let root: Object<ManifestEntry> = match serde_json::from_str(&file.text) {
        Ok(root) => root,
        Err(error) => {
            let start: usize = file
                .text
                .split_inclusive('\n')
                .take(error.line().saturating_sub(1))
                .map(str::len)
                .sum();
            let at = file.text.floor_char_boundary(start + error.column().saturating_sub(1));
            let message = "this is not a source manifest";
            problems.push(file.problem(at..at, message, error.to_string()));
            return import;
        }
    };
    let mut seen: Vec<&str> = Vec::new();
    for (name, entry) in &root.0 {
        if seen.contains(&name.as_str()) {
            let message = format!("`{name}` is defined twice");
            problems.push(file.problem(place(file, name, None), message, "remove one of them"));
            continue;
        }
        seen.push(name);
        let project = match entry {
            ManifestEntry::Project(project) => project,
            ManifestEntry::Other(value) if name == "schema_version" => {
                if value.as_u64() != Some(SCHEMA_VERSION) {
                    let message = format!("unsupported schema version {value}");
                    problems.push(file.problem(place(file, name, None), message, "expected 1"));
                }
                continue;
            }
            ManifestEntry::Other(_) => {
                let message = format!("`{name}` is not an object");
                problems.push(file.problem(
                    place(file, name, None),
                    message,
                    "expected `repo` and `commit`",
                ));
                continue;
            }
        };
        let component =
            workspace.upstreams.components.iter().find(|c| c.therock.as_ref() == Some(name));
        let is_pinned = |name: &str| workspace.pins.pins.keys().any(|known| known.as_str() == name);
        match component.filter(|component| is_pinned(&component.name)) {
            Some(component) => {
                let entry = read_project(file, name, project, &mut import.notes, problems);
                import.entries.insert((component.name.clone(), String::new()), entry);
            }
            None => import.unknown.push(name.clone()),
        }
    }
    import
}

fn read_project(
    file: &File,
    name: &str,
    project: &Object<Value>,
    notes: &mut Vec<String>,
    problems: &mut Vec<Problem>,
) -> Imported {
    let mut imported = Imported::default();
    let mut branch = None;
    let mut seen: Vec<&str> = Vec::new();
    for (key, value) in &project.0 {
        let span = place(file, name, Some(key));
        if seen.contains(&key.as_str()) {
            problems.push(file.problem(
                span,
                format!("`{key}` of `{name}` is defined twice"),
                "remove one of them",
            ));
            continue;
        }
        seen.push(key);
        let Some(text) = value.as_str() else {
            problems.push(file.problem(
                span,
                format!("`{key}` of `{name}` is not a string"),
                "expected a string",
            ));
            continue;
        };
        let at = At { value: text.to_owned(), span };
        match key.as_str() {
            "repo" => imported.url = Some(at),
            "commit" => imported.commit = Some(at),
            "version" => imported.version = Some(without_label(name, at, notes)),
            "branch" => branch = Some(at),
            _ => notes.push(format!("ignored the unknown key `{key}` of `{name}`")),
        }
    }
    if let (None, Some(branch)) = (&imported.commit, branch) {
        let message = format!("`{name}` has the branch `{}` but no commit", branch.value);
        let mut problem = file.problem(branch.span, message, "a branch can move");
        problem.help = Some("add a `commit`".into());
        problems.push(problem);
    }
    imported
}

/// Removes a local label (PEP 440), such as `+rocm7.14.0`, which belongs to a build and not to upstream.
fn without_label(name: &str, at: At<String>, notes: &mut Vec<String>) -> At<String> {
    let Some((version, label)) = at.value.split_once('+') else { return at };
    notes.push(format!("ignored the label +{label} of `{name}`, which names a build"));
    At { value: version.to_owned(), span: at.span }
}

/// Returns the last position of a key of the root, or of one of its objects.
fn place(file: &File, name: &str, key: Option<&str>) -> std::ops::Range<usize> {
    let quoted = |name: &str| format!("\"{name}\"");
    let root = file.text.rfind(&quoted(name)).unwrap_or(0);
    let Some(key) = key else { return root..root + name.len() + 2 };
    let end = file.text[root..].find('}').map_or(file.text.len(), |length| root + length);
    match file.text[root..end].rfind(&quoted(key)) {
        Some(at) => root + at..root + at + key.len() + 2,
        None => root..root,
    }
}
