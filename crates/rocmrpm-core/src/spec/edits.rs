//! The edits of upstream's text in a spec, and the placeholders in them.

use serde::Serialize;

use super::error::SpecError;
use super::escape::{escape, single_quoted};
use crate::sources;
use crate::workspace::{Component, Pin, Provider, Workspace};

/// An edit of the upstream text with quoted shell words, for `_shared/edits.tera`.
#[derive(Serialize)]
pub(super) struct EditValues {
    pub matches: usize,
    pub file: String,
    pub find: String,
    pub replace: String,
    pub reason: String,
}

/// Returns the component's edits for this version with placeholders replaced.
pub(super) fn edits(
    workspace: &Workspace,
    component: &Component,
    pin: &Pin,
) -> Result<Vec<EditValues>, SpecError> {
    let (mut edits, mut problems) = (Vec::new(), Vec::new());
    for edit in component.edits_for(&pin.version) {
        let replace = edit_text(workspace, pin, &edit.replace.value).unwrap_or_else(|unknown| {
            let known = EDIT_PLACEHOLDERS.join(" ");
            let message = format!("unknown placeholder `{unknown}`");
            let at = edit.replace.span.clone();
            problems.push(component.file.problem(at, message, format!("expected one of {known}")));
            String::new()
        });
        let folder = match &edit.source {
            None => String::new(),
            Some(name) => match pin.sources.get(name) {
                Some(source) => format!("{}/", sources::source_dir(source)),
                None => {
                    let message = format!("the pin has no source `{name}`");
                    problems.push(component.file.problem(
                        edit.span.clone(),
                        message,
                        "this edit names it",
                    ));
                    continue;
                }
            },
        };
        let word = |text: &str| escape(&format!("'{}'", single_quoted(text)));
        edits.push(EditValues {
            matches: edit.matches,
            file: word(&format!("{folder}{}", edit.file)),
            find: word(&edit.find),
            replace: word(&replace),
            reason: escape(&edit.reason),
        });
    }
    if problems.is_empty() {
        return Ok(edits);
    }
    Err(SpecError::Edits { component: component.name.to_string(), problems })
}

/// The placeholders in an edit's `replace`.
const EDIT_PLACEHOLDERS: &[&str] = &["@PREFIX@", "@LIBDIR@", "@LLVM_BIN@", "@VERSION@", "@PYTHON@"];

/// Replaces the placeholders of an edit; the error is the first unknown one.
pub fn edit_text(workspace: &Workspace, pin: &Pin, text: &str) -> Result<String, String> {
    let Provider { prefix, libdir, llvm_bin, .. } = &workspace.provider;
    let python = workspace.chroot.python.clone();
    let values = [prefix, libdir, llvm_bin, &pin.version, &python];
    let filled = EDIT_PLACEHOLDERS
        .iter()
        .zip(values)
        .fold(text.to_owned(), |text, (placeholder, value)| text.replace(placeholder, value));
    // A remaining uppercase word between two `@` is a misspelled placeholder.
    let mut parts = filled.split('@').skip(1).collect::<Vec<_>>();
    parts.pop();
    let capitals = |part: &&&str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
    };
    match parts.iter().find(capitals) {
        Some(part) => Err(format!("@{part}@")),
        None => Ok(filled),
    }
}
