//! The source manifest of ROCm's TheRock, as its `external-builds/pytorch/
//! checkout_from_manifest.py` reads it and `build_tools/github_actions/
//! generate_pytorch_source_manifest.py` writes it: `schema_version` 1, and by project
//! `repo`, `commit`, `branch`, `version`. Its names of projects are in `upstreams.toml`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use strsim::damerau_levenshtein;

use super::PinsError;
use super::import::Import;
use super::import_source::Imported;
use crate::error::{Problem, Problems};
use crate::rpm_version;
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
        let Some(Pin { version, source: Source::Git { url, commit, .. }, follows, .. }) =
            pin.map(|(_, at)| &at.value)
        else {
            continue;
        };
        let commit = commit.clone().ok_or_else(|| SourceError::NotPinned {
            component: component.to_owned(),
            version: version.clone(),
            missing: "commit",
        })?;
        let branch = follows.as_ref().map(|follows| follows.branch.clone());
        let fields = [
            ("repo", Some(url.clone())),
            ("commit", Some(commit)),
            ("branch", branch),
            ("version", Some(rpm_version::upstream(version))),
        ];
        let fields = fields
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), Value::from(value?))))
            .collect();
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
    let mut import = Import { of_commits: true, ..Import::default() };
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
            let help = "correct the JSON, or name another format with `--format`";
            problems.push(problem(file, at..at, message, error.to_string(), help));
            return import;
        }
    };
    let components = &workspace.upstreams.components;
    let known = || components.iter().filter_map(|component| component.therock.as_deref());
    let mut seen: Vec<&str> = Vec::new();
    for (name, entry) in &root.0 {
        let span = place(file, name, None);
        if seen.contains(&name.as_str()) {
            let message = format!("`{name}` is defined twice");
            problems.push(problem(file, span, message, "the second one", "remove one of them"));
            continue;
        }
        seen.push(name);
        let project = match entry {
            ManifestEntry::Other(value) if name == "schema_version" => {
                if value.as_u64() != Some(SCHEMA_VERSION) {
                    let message = format!("unsupported schema version {value}");
                    let help = "update rocmrpm, or generate the manifest with an older TheRock";
                    problems.push(problem(file, span, message, "expected 1", help));
                }
                continue;
            }
            ManifestEntry::Other(_) => {
                let message = format!("`{name}` is not an object");
                let help = format!("write `\"{name}\": {{\"repo\": ..., \"commit\": ...}}`");
                problems.push(problem(file, span, message, "expected `{`", help));
                continue;
            }
            ManifestEntry::Project(project) => project,
        };
        let component = components.iter().find(|c| c.therock.as_ref() == Some(name));
        let is_pinned = |name: &str| workspace.pins.pins.keys().any(|known| known.as_str() == name);
        let is_typo = |known: &&str| damerau_levenshtein(name, known) <= name.len() / 4;
        match (component, known().find(is_typo)) {
            (Some(component), _) if is_pinned(&component.name) => {
                let entry = read_project(file, name, project, &mut import.notes, problems);
                import.entries.insert((component.name.clone(), String::new()), entry);
            }
            (None, Some(meant)) => {
                let message = format!("unknown project `{name}`");
                let label =
                    format!("upstreams.toml has {}", known().collect::<Vec<_>>().join(", "));
                problems.push(problem(file, span, message, label, format!("write `{meant}`")));
            }
            _ => import.unknown.push(name.clone()),
        }
    }
    if import.entries.is_empty() && problems.is_empty() {
        let message = format!("`{}` pins no project of this manifest", workspace.pins.file.name);
        let label = format!("it has {}", seen.join(", "));
        let help = "add `therock = \"PROJECT\"` to the components in upstreams.toml, and pin them";
        problems.push(problem(file, 0..0, message, label, help));
    }
    import
}

fn problem(
    file: &File,
    span: std::ops::Range<usize>,
    message: impl Into<String>,
    label: impl Into<String>,
    help: impl Into<String>,
) -> Problem {
    Problem { help: Some(help.into()), ..file.problem(span, message, label) }
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
            let message = format!("`{key}` of `{name}` is defined twice");
            problems.push(problem(file, span, message, "the second one", "remove one of them"));
            continue;
        }
        seen.push(key);
        let Some(text) = value.as_str() else {
            let message = format!("`{key}` of `{name}` is not a string");
            problems.push(problem(file, span, message, "expected a string", "quote the value"));
            continue;
        };
        let at = At { value: text.to_owned(), span };
        match key.as_str() {
            "repo" if !text.contains([':', '/']) => {
                let message = format!("`{text}` is not the URL of a git repository");
                let help = "write a URL such as https://github.com/OWNER/NAME";
                problems.push(problem(file, at.span, message, "expected a URL", help));
            }
            "repo" => imported.url = Some(at),
            "commit" => imported.commit = Some(at),
            "version" => imported.version = Some(without_label(name, at, notes)),
            "branch" => branch = Some(at),
            _ => notes.push(format!("ignored the unknown key `{key}` of `{name}`")),
        }
    }
    if let (false, Some(branch)) = (seen.contains(&"commit"), &branch) {
        let message = format!("`{name}` has the branch `{}` but no commit", branch.value);
        let (span, label) = (branch.span.clone(), "a branch can move");
        problems.push(problem(file, span, message, label, "add a `commit`"));
    }
    for key in ["repo", "commit"] {
        if !seen.contains(&key) && (key == "repo" || branch.is_none()) {
            let message = format!("`{key}` is missing in `{name}`");
            let (span, help) = (place(file, name, None), format!("add a `{key}`"));
            problems.push(problem(file, span, message, "expected `repo` and `commit`", help));
        }
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
