//! `versions.env`: a pin set as variables of a POSIX shell. Reads plain assignments as text; never runs
//! a file.

use std::collections::BTreeMap;

use super::{Import, PinsError};
use crate::error::{Problem, Problems};
use crate::process::quote;
use crate::sources::SourceError;
use crate::spec::rocm_version;
use crate::text::line_of;
use crate::workspace::document::{At, File};
use crate::workspace::{Pin, Source, Workspace};

/// The version of ROCm that the stack is built against.
const ROCM_VERSION: &str = "ROCM_VERSION";
/// The GPU targets, separated by `;`.
const GPU_TARGETS: &str = "GPU_TARGETS";

/// Returns the chosen pin set as a shell's variables.
pub fn export(workspace: &Workspace) -> Result<String, PinsError> {
    let mut lines: Vec<(String, String)> = Vec::new();
    // The provider `host` only knows its version on machines with ROCm; omit it elsewhere.
    if let Ok(version) = rocm_version(&workspace.provider) {
        lines.push((ROCM_VERSION.into(), version));
    }
    let targets: Vec<&str> =
        workspace.manifest.gpu_targets.iter().map(|target| target.as_str()).collect();
    lines.push((GPU_TARGETS.into(), targets.join(";")));
    let mut names: BTreeMap<String, String> =
        lines.iter().map(|(name, _)| (name.clone(), "the workspace".to_owned())).collect();
    for Named { main, source, prefix, pin } in named(workspace) {
        let owner = if source.is_empty() {
            main.component.to_string()
        } else {
            format!("{}.{source}", main.component)
        };
        for (name, value) in values(&prefix, pin)? {
            if let Some(first) = names.insert(name.clone(), owner.clone()) {
                return Err(PinsError::Ambiguous { first, second: owner, name });
            }
            lines.push((name, value));
        }
    }
    let mut text = format!(
        "# The pin set `{}` of `{}`, for a shell; written by `rocmrpm pins export`.\n\
         # `rocmrpm pins import` applies changes to pins/{}.toml.\n",
        workspace.pins.name, workspace.manifest.name, workspace.pins.name
    );
    for (name, value) in lines {
        if name.ends_with("_VERSION") && name != ROCM_VERSION {
            text.push('\n');
        }
        text.push_str(&format!("{name}={}\n", quote(&value)));
    }
    Ok(text)
}

/// A source and the prefix of its variables.
struct Named<'w> {
    main: &'w Pin,
    /// The further source's name; empty for the main one.
    source: &'w str,
    prefix: String,
    pin: &'w Pin,
}

/// Returns every source with a version.
fn named(workspace: &Workspace) -> impl Iterator<Item = Named<'_>> {
    let sources = workspace
        .pins
        .written()
        .flat_map(|main| main.all_sources().map(move |(source, pin)| (main, source, pin)));
    sources.filter(|(.., pin)| !matches!(pin.source, Source::Crates { .. })).map(
        |(main, source, pin)| {
            let joint = if source.is_empty() { "" } else { "_" };
            // A variable cannot start with a digit.
            let first = if main.component.as_str().starts_with(|c: char| c.is_ascii_digit()) {
                "_"
            } else {
                ""
            };
            let name = format!("{first}{}{joint}{source}", main.component);
            let capital =
                |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
            Named { main, source, prefix: name.chars().map(capital).collect(), pin }
        },
    )
}

/// Returns a source's variables. An unpinned source is an error: readers would get different ones.
fn values(prefix: &str, pin: &Pin) -> Result<Vec<(String, String)>, PinsError> {
    let floating = |missing| {
        let (component, version) = (pin.component.to_string(), pin.version.clone());
        PinsError::Source(SourceError::NotPinned { component, version, missing })
    };
    let mut values = vec![("VERSION", pin.version.clone())];
    match &pin.source {
        Source::Url { url, sha256 } => {
            values.push(("URL", url.clone()));
            values.push(("SHA256", sha256.ok_or_else(|| floating("sha256"))?.to_string()));
        }
        Source::Git { url, commit, .. } => {
            values.push(("URL", url.clone()));
            values.push(("COMMIT", commit.clone().ok_or_else(|| floating("commit"))?));
        }
        // The index depends on the machine.
        Source::Sdist { sha256, .. } | Source::Wheel { sha256, .. } => {
            values.push(("SHA256", sha256.ok_or_else(|| floating("sha256"))?.to_string()));
        }
        Source::Folder { .. } | Source::Crates { .. } => {}
    }
    Ok(values.into_iter().map(|(key, value)| (format!("{prefix}_{key}"), value)).collect())
}

/// Reads a shell's variables as an import into the chosen pin set.
pub fn read(file: &File, workspace: &Workspace) -> Result<Import, PinsError> {
    let assigned = parse(file).map_err(|problems| PinsError::Invalid(Problems(problems)))?;
    let mut import = Import::default();
    let prefixes: BTreeMap<String, (&Pin, &str)> =
        named(workspace).map(|named| (named.prefix, (named.main, named.source))).collect();
    for (name, at) in assigned {
        let known = name.rsplit_once('_').and_then(|(prefix, key)| {
            let (pin, source) = prefixes.get(prefix)?;
            let key =
                ["VERSION", "URL", "COMMIT", "SHA256"].into_iter().find(|known| *known == key)?;
            Some((pin.component.to_string(), (*source).to_owned(), key))
        });
        match known {
            Some((component, source, key)) => {
                let entry = import.entries.entry((component, source)).or_default();
                let slot = match key {
                    "VERSION" => &mut entry.version,
                    "URL" => &mut entry.url,
                    "COMMIT" => &mut entry.commit,
                    _ => &mut entry.sha256,
                };
                *slot = Some(at);
            }
            None if name == ROCM_VERSION => {
                let here = rocm_version(&workspace.provider).unwrap_or_default();
                if here != at.value {
                    let note = format!("ignored {name} {}: the chroot has {here}", at.value);
                    import.notes.push(note);
                }
            }
            None if name == GPU_TARGETS => {
                let here: Vec<&str> =
                    workspace.manifest.gpu_targets.iter().map(|t| t.as_str()).collect();
                if here.join(";") != at.value {
                    let here = here.join(";");
                    import
                        .notes
                        .push(format!("ignored {name} {}: rocmrpm.toml has {here}", at.value));
                }
            }
            None => import.unknown.push(name),
        }
    }
    Ok(import)
}

/// Reads assignments: `NAME=VALUE` with an optional `export`, quotes, and comments. A value that only a
/// shell can compute is a problem.
fn parse(file: &File) -> Result<Vec<(String, At<String>)>, Vec<Problem>> {
    let mut found: Vec<(String, At<String>)> = Vec::new();
    let mut problems = Vec::new();
    let mut start = 0;
    for line in file.text.split_inclusive('\n') {
        let at = start;
        start += line.len();
        let content = line.trim_end_matches(['\n', '\r']);
        let whole = at..at + content.len();
        let body = content.trim_start();
        if body.is_empty() || body.starts_with('#') {
            continue;
        }
        let body = body.strip_prefix("export ").map_or(body, str::trim_start);
        let offset = at + (content.len() - body.len());
        let length =
            body.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(body.len());
        let (name, rest) = body.split_at(length);
        let plain = !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit());
        let Some(written) = rest.strip_prefix('=').filter(|_| plain) else {
            let mut problem =
                file.problem(whole, "this is not an assignment", "expected `NAME=value`");
            problem.help =
                Some("keep only assignments: rocmrpm reads the file and does not run it".into());
            problems.push(problem);
            continue;
        };
        let span = offset + length + 1..whole.end;
        match value(written) {
            Err(why) => {
                let mut problem =
                    file.problem(span, format!("the value of {name} {why}"), "not a plain value");
                problem.help =
                    Some("write the plain value; put special characters in single quotes".into());
                problems.push(problem);
            }
            Ok(value) => match found.iter().find(|(known, _)| known == name) {
                Some((_, first)) => {
                    let line = line_of(&file.text, first.span.start);
                    let message = format!("{name} is set twice");
                    let label = format!("it is `{}` in line {line}", first.value);
                    problems.push(file.problem(span, message, label));
                }
                None => found.push((name.to_owned(), At { value, span })),
            },
        }
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

/// Reads a value as a shell would, up to its end or a comment. The error names what only a shell could
/// do.
fn value(text: &str) -> Result<String, &'static str> {
    const COMPUTED: &str = "needs a shell to compute it";
    let mut value = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' => loop {
                match chars.next() {
                    Some('\'') => break,
                    Some(c) => value.push(c),
                    None => return Err("has no closing quote"),
                }
            },
            '"' => loop {
                match chars.next() {
                    Some('"') => break,
                    Some('\\') => match chars.next() {
                        Some(c @ ('"' | '\\' | '$' | '`')) => value.push(c),
                        Some(c) => value.extend(['\\', c]),
                        None => return Err("has no closing quote"),
                    },
                    Some('$' | '`') => return Err(COMPUTED),
                    Some(c) => value.push(c),
                    None => return Err("has no closing quote"),
                }
            },
            '\\' => value.push(chars.next().ok_or("continues on the next line")?),
            '$' | '`' => return Err(COMPUTED),
            '~' if value.is_empty() => return Err(COMPUTED),
            '(' => return Err("is an array"),
            ';' | '&' | '|' | '<' | '>' | ')' => return Err("is followed by a command"),
            ' ' | '\t' => {
                let rest: String = chars.collect();
                let rest = rest.trim_start();
                let comment = rest.is_empty() || rest.starts_with('#');
                return if comment { Ok(value) } else { Err("is followed by a command") };
            }
            c => value.push(c),
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<(String, String)>, Vec<String>> {
        let file = File { name: "versions.env".into(), text: text.into() };
        let found = parse(&file)
            .map_err(|problems| problems.into_iter().map(|p| p.message).collect::<Vec<_>>());
        found.map(|all| all.into_iter().map(|(name, at)| (name, at.value)).collect())
    }

    #[test]
    fn reads_assignments_like_a_shell() {
        let text = "# c\r\n\nA=1.0\r\n  export B='a b' # c\nC=\"x\\\"y\\z\"tail\nD=\nE=a\\ b#c\n";
        let expected =
            [("A", "1.0"), ("B", "a b"), ("C", "x\"y\\ztail"), ("D", ""), ("E", "a b#c")];
        assert_eq!(parsed(text).unwrap(), expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
    }

    #[test]
    fn rejects_what_only_a_shell_can_do() {
        for (text, message) in [
            ("A=${B:-1}", "the value of A needs a shell to compute it"),
            ("A=\"$(id)\"", "the value of A needs a shell to compute it"),
            ("A=`id`", "the value of A needs a shell to compute it"),
            ("A=1 rm -rf x", "the value of A is followed by a command"),
            ("A=1;B=2", "the value of A is followed by a command"),
            ("A='1", "the value of A has no closing quote"),
            ("A=1\\", "the value of A continues on the next line"),
            ("A=1\nA=2", "A is set twice"),
            ("A+=1", "this is not an assignment"),
            ("source x", "this is not an assignment"),
            ("if true; then", "this is not an assignment"),
            ("1A=1", "this is not an assignment"),
        ] {
            assert_eq!(parsed(text).unwrap_err(), [message], "{text}");
        }
    }
}
