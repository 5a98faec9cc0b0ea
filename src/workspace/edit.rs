//! Edits of upstream's text: what component.toml declares in `[[edit]]`, and what an
//! edit does to a text. Which file it is in is the caller's business.

use super::document::{At, Table};
use super::range::VersionRange;

/// One edit: a text within a line that becomes another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The file, below the source's top folder.
    pub file: String,
    /// The further source that the file is in; the main one where absent.
    pub source: Option<String>,
    /// The text that is replaced.
    pub find: String,
    /// What replaces it, placeholders such as `@PREFIX@` not yet filled in.
    pub replace: At<String>,
    /// How often the text must occur.
    pub matches: usize,
    /// The component's versions that it is for.
    pub versions: VersionRange,
    /// Why.
    pub reason: String,
    /// When it can go; empty if it is not said.
    pub drop_when: String,
    /// Where it stands in component.toml.
    pub span: std::ops::Range<usize>,
}

impl Edit {
    /// Reads one `[[edit]]`; `None` if something that it needs is missing or wrong.
    pub(super) fn read(table: &mut Table<'_>) -> Option<Self> {
        let file = table.required_string("file", "a file below the source's top folder");
        if let Some(At { value, span }) = &file
            && !is_inside(value)
        {
            let label = "expected a relative path without `..`";
            table.problem(span.clone(), "the path leads out of the source", label, None);
        }
        let source = table.string("source").map(|at| at.value);
        let find = table.required_string("find", "the text that is replaced, within one line");
        if let Some(At { value, span }) = &find
            && value.is_empty()
        {
            table.problem(span.clone(), "`find` must not be empty", "expected the text to replace", None);
        }
        let replace = table.required_string("replace", "the text that takes its place");
        let span = table.span();
        if !table.has("matches") {
            let label = "expected `matches`: how often the text must occur";
            table.problem(span.clone(), "`matches` is missing in `[edit]`", label, None);
        }
        let matches = table.integer("matches").map(|n| usize::try_from(n).ok().filter(|n| *n > 0));
        if matches == Some(None) {
            table.problem(span.clone(), "`matches` must be 1 or more", "an edit that changes nothing", None);
        }
        let versions = versions(table);
        let reason = table.required_string("reason", "why upstream's text is edited");
        let drop_when = table.string("drop-when").map(|at| at.value).unwrap_or_default();
        Some(Self {
            file: file.map(|at| at.value).filter(|file| is_inside(file))?,
            source,
            find: find.map(|at| at.value).filter(|find| !find.is_empty())?,
            replace: replace?,
            matches: matches??,
            versions,
            reason: reason?.value,
            drop_when,
            span,
        })
    }

    /// Replaces the text wherever it occurs; the error is how often it did, where
    /// that is not as often as declared. `replace` has its placeholders filled in.
    pub fn apply(&self, text: &str, replace: &str) -> Result<String, usize> {
        let found = text.matches(self.find.as_str()).count();
        if found == self.matches { Ok(text.replace(&self.find, replace)) } else { Err(found) }
    }
}

/// Reads `versions`, a range; all versions where it is absent or wrong.
pub(super) fn versions(table: &mut Table<'_>) -> VersionRange {
    let Some(At { value, span }) = table.string("versions") else { return VersionRange::default() };
    VersionRange::parse(&value).unwrap_or_else(|| {
        table.problem(
            span,
            format!("`{value}` is not a range of versions"),
            "expected such as `>=1.2, <2`",
            None,
        );
        VersionRange::default()
    })
}

/// Tells whether a path stays below the folder that it is relative to.
pub(crate) fn is_inside(path: &str) -> bool {
    let path = std::path::Path::new(path);
    path.components().next().is_some()
        && path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
}
