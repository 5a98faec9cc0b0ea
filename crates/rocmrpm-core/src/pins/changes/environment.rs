//! Environment variables that build files read, found in the text of Python and CMake files. Does not
//! run or parse programs.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::scan::Scan;
use crate::error::IoError;
use crate::workspace::{Component, Workspace};

/// Changes of the environment variables that a build reads.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Environment {
    /// Variables that only the new version reads.
    pub added: Vec<Read>,
    /// Variables that only the old version reads.
    pub removed: Vec<UnreadVariable>,
}

/// A variable and the first place that reads it.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Read {
    /// The name.
    pub name: String,
    /// The file and the line.
    pub place: String,
}

/// A variable that the build no longer reads.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnreadVariable {
    /// The name.
    pub name: String,
    /// The first file and line that read it.
    pub place: String,
    /// Where the workspace sets it: `component.toml`, or the name of the template.
    pub exported: Option<String>,
}

/// Compares the variables that the build files of two trees read.
pub(super) fn changes(old: &Scan, new: &Scan, exported: &BTreeMap<String, String>) -> Environment {
    let (old, new) = (all_reads(old), all_reads(new));
    let only = |these: &BTreeMap<String, String>, others: &BTreeMap<String, String>| -> Vec<Read> {
        let read =
            |(name, place): (&String, &String)| Read { name: name.clone(), place: place.clone() };
        these.iter().filter(|(name, _)| !others.contains_key(*name)).map(read).collect()
    };
    let gone = |Read { name, place }| UnreadVariable {
        exported: exported.get(&name).cloned(),
        name,
        place,
    };
    Environment {
        added: only(&new, &old),
        removed: only(&old, &new).into_iter().map(gone).collect(),
    }
}

/// Returns the variables that the workspace sets for a component's build, and where.
pub(super) fn exported(
    workspace: &Workspace,
    component: &Component,
) -> Result<BTreeMap<String, String>, IoError> {
    let mut found = BTreeMap::new();
    let shown = |path: &std::path::Path| {
        path.strip_prefix(&workspace.root).unwrap_or(path).display().to_string()
    };
    let text = fs_err::read_to_string(&component.template)
        .map_err(IoError::doing("read the component's template"))?;
    for (at, line) in text.lines().enumerate() {
        for part in line.split("export ").skip(1) {
            let name: String = part.chars().take_while(|c| is_name(*c)).collect();
            if part[name.len()..].starts_with('=') && !name.is_empty() {
                found
                    .entry(name)
                    .or_insert_with(|| format!("{}:{}", shown(&component.template), at + 1));
            }
        }
    }
    for (name, at) in &component.env {
        let line = component.file.text[..at.span.start].lines().count().max(1);
        found.insert(name.clone(), format!("{}:{line}", component.file.name));
    }
    Ok(found)
}

fn all_reads(scan: &Scan) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (path, text) in scan.build_files() {
        for (name, line) in reads(path, text) {
            found.entry(name).or_insert_with(|| format!("{path}:{line}"));
        }
    }
    found
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns whether a text can be a variable's name: capital letters.
fn is_variable(name: &str) -> bool {
    name.len() > 1
        && name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        && name.contains(|c: char| c.is_ascii_uppercase())
}

/// Returns the variables that a build file reads, with the line.
fn reads(path: &str, text: &str) -> BTreeSet<(String, usize)> {
    let found = if path.ends_with(".py") { python(text) } else { cmake(text) };
    let mut starts: Vec<usize> = vec![0];
    starts.extend(text.match_indices('\n').map(|(at, _)| at + 1));
    let line = |at: usize| starts.partition_point(|start| *start <= at);
    found.into_iter().map(|(name, at)| (name, line(at))).collect()
}

/// CMake's `$ENV{NAME}` and `DEFINED ENV{NAME}`; `set(ENV{NAME} ...)` writes.
fn cmake(text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("ENV{") {
        let rest = &text[at + 4..];
        let name: String = rest.chars().take_while(|c| is_name(*c)).collect();
        let before = text[..at].trim_end();
        let writes = before.ends_with("set(") || before.ends_with("set (");
        if rest[name.len()..].starts_with('}')
            && is_variable(&name)
            && !writes
            && !is_comment(text, at)
        {
            found.push((name, at));
        }
    }
    found
}

/// Python's `os.environ.get("NAME")`, `os.environ["NAME"]`, `os.getenv("NAME")`,
/// `"NAME" in os.environ`, `envs.NAME`, and the project's own functions whose names contain
/// `env`, such as `check_env_flag("NAME")`. An assignment writes.
fn python(text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let lower = text.to_ascii_lowercase();
    for (at, _) in lower.match_indices("env") {
        let rest = &text[at..];
        let word = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
        let (head, mut tail) = rest.split_at(word);
        let start = text[..at].trim_end_matches(is_name).len();
        // Match `environ` once, not again as `env`.
        if text[start..at].to_ascii_lowercase().contains("env") {
            continue;
        }
        if text[..start].trim_end_matches(|c: char| is_name(c) || c == '.').ends_with(" in ")
            && head == "environ"
            && let Some((name, place)) = quoted_before(text, start)
        {
            found.push((name, place));
        }
        for method in [".get", ".pop", ".setdefault"] {
            tail = tail.strip_prefix(method).unwrap_or(tail);
        }
        if head == "envs" && tail.starts_with('.') {
            let name: String = tail[1..].chars().take_while(|c| is_name(*c)).collect();
            if is_variable(&name) {
                found.push((name, at));
            }
            continue;
        }
        let Some(inside) = tail.trim_start().strip_prefix(['(', '[']) else { continue };
        let bracket = tail.trim_start().starts_with('[');
        let argument = inside.trim_start().trim_start_matches(['f', 'r']);
        let Some(name) = argument.strip_prefix(['"', '\'']) else { continue };
        let name: String = name.chars().take_while(|c| is_name(*c)).collect();
        let behind = &argument[1 + name.len()..];
        if !behind.starts_with(['"', '\'']) || !is_variable(&name) || is_comment(text, at) {
            continue;
        }
        let after =
            behind[1..].trim_start().strip_prefix(']').map(str::trim_start).unwrap_or_default();
        let writes = bracket && after.starts_with('=') && !after.starts_with("==");
        if !writes {
            found.push((name, at));
        }
    }
    found
}

/// Returns the text in quotes before ` in os.environ` or ` not in os.environ`.
fn quoted_before(text: &str, at: usize) -> Option<(String, usize)> {
    let before = text[..at].trim_end_matches(|c: char| is_name(c) || c == '.').trim_end();
    let before = before.strip_suffix(" in")?.trim_end();
    let before = before.strip_suffix(" not").unwrap_or(before).trim_end();
    let inner = before.strip_suffix(['"', '\''])?;
    let start = inner.rfind(['"', '\''])? + 1;
    is_variable(&inner[start..]).then(|| (inner[start..].to_owned(), start))
}

/// Returns whether a position is in a comment line.
fn is_comment(text: &str, at: usize) -> bool {
    let line = text[..at].rfind('\n').map_or(0, |start| start + 1);
    text[line..at].trim_start().starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_panics() {
        for text in [
            "“env”",
            "éenviron['X']",
            "\"ö\" in os.environ",
            "env('",
            "env[\"A\u{301}",
            "ä ENV{",
            "ENV{ü}",
        ] {
            for file in ["setup.py", "CMakeLists.txt"] {
                assert_eq!(names(file, text), [], "{text}");
            }
        }
    }

    fn names(path: &str, text: &str) -> Vec<(String, usize)> {
        let mut found: Vec<_> = reads(path, text).into_iter().collect();
        found.sort_by_key(|(_, line)| *line);
        found
    }

    #[test]
    fn finds_all_ways_of_reading() {
        let text = "a = os.environ.get(\"AA_1\", \"x\")\nb = os.environ['BB']\nc = os.getenv(\n    'CC')\n\
                    d = check_env_flag(\"DD\")\nif \"EE\" in os.environ:\n  x = envs.FF\nif 'GG' not in os.environ: pass\n\
                    h = env.pop('HH') == os.environ[\"II\"] == 1\nget_environment_variable('JJ')\n";
        let expected = [
            ("AA_1", 1),
            ("BB", 2),
            ("CC", 3),
            ("DD", 5),
            ("EE", 6),
            ("FF", 7),
            ("GG", 8),
            ("HH", 9),
            ("II", 9),
        ];
        let mut expected: Vec<_> = expected.map(|(n, l)| (n.to_owned(), l)).into();
        expected.push(("JJ".into(), 10));
        assert_eq!(names("setup.py", text), expected);
        let text =
            "if(DEFINED ENV{AA})\n set(X $ENV{BB})\n set(ENV{CC} 1)\n # $ENV{DD}\n \"$ENV{}\"\n";
        assert_eq!(names("CMakeLists.txt", text), [("AA".to_owned(), 1), ("BB".to_owned(), 2)]);
    }

    #[test]
    fn ignores_text_that_only_resembles_reading() {
        let text = "os.environ['AA'] = '1'\n# os.getenv('BB')\nenvironment('lower')\nos.environ[name]\n\
                    env['CC DD']\nenv(\"\nenv('";
        assert_eq!(names("setup.py", text), []);
    }

    #[test]
    fn marks_variables_that_the_workspace_sets_in_vain() {
        let old = Scan::from([("setup.py", "os.getenv('AA')\nos.getenv('BB')\nos.getenv('CC')")]);
        let new = Scan::from([("setup.py", "os.getenv('CC')\n"), ("x.cmake", "$ENV{DD}")]);
        let found = changes(&old, &new, &[("AA".to_owned(), "component.toml:3".to_owned())].into());
        assert_eq!(found.added, [Read { name: "DD".into(), place: "x.cmake:1".into() }]);
        let exported: Vec<_> =
            found.removed.iter().map(|g| (g.name.as_str(), g.exported.as_deref())).collect();
        assert_eq!(exported, [("AA", Some("component.toml:3")), ("BB", None)]);
    }
}
