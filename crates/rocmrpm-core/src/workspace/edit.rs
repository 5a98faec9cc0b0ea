//! Edits of the upstream text: the declarations in `[[edit]]` of component.toml, and how one changes
//! a text. Does not find the files.

use super::document::{At, Table};
use super::manifest::gpu_targets;
use crate::gpu::GpuTarget;
use crate::range::VersionRange;

/// One edit, which replaces a text within a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The file, below the source's top folder.
    pub file: String,
    /// The further source that has the file. [default: the main source]
    pub source: Option<String>,
    /// The text to replace.
    pub find: String,
    /// The new text, before placeholders such as `@PREFIX@` are replaced.
    pub replace: At<String>,
    /// How often the text must occur.
    pub matches: usize,
    /// The versions of the component that it is for.
    pub versions: VersionRange,
    /// The edit applies if the component is built for no other GPU targets. Empty: for all.
    pub gpu_targets: Vec<GpuTarget>,
    /// Why.
    pub reason: String,
    /// When it can be removed; empty if not stated.
    pub drop_when: String,
    /// Its position in component.toml.
    pub span: std::ops::Range<usize>,
}

impl Edit {
    /// Reads one `[[edit]]`; `None` if a key is missing or wrong.
    pub(super) fn read(table: &mut Table<'_>) -> Option<Self> {
        let file = table.required_string("file", "a file below the source's top folder");
        if let Some(At { value, span }) = &file
            && !is_inside(value)
        {
            let label = "expected a relative path without `..`";
            table.problem(span.clone(), "the path leads out of the source", label, None);
        }
        let source = table.string("source").map(|at| at.value);
        let find = table.required_string("find", "the text to replace, within one line");
        if let Some(At { value, span }) = &find
            && value.is_empty()
        {
            table.problem(
                span.clone(),
                "`find` must not be empty",
                "expected the text to replace",
                None,
            );
        }
        let replace = table.required_string("replace", "the new text");
        let span = table.span();
        if !table.has("matches") {
            let label = "expected `matches`: how often the text must occur";
            table.problem(span.clone(), "`matches` is missing in `[[edit]]`", label, None);
        }
        let matches = table.integer("matches").map(|n| usize::try_from(n).ok().filter(|n| *n > 0));
        if matches == Some(None) {
            table.problem(
                span.clone(),
                "`matches` must be 1 or more",
                "expected how often the text occurs",
                None,
            );
        }
        let versions = versions(table);
        let gpu_targets = gpu_targets(table, "gpu-targets", false);
        let reason = table.required_string("reason", "why upstream's text is edited");
        let drop_when = table.string("drop-when").map(|at| at.value).unwrap_or_default();
        Some(Self {
            file: file.map(|at| at.value).filter(|file| is_inside(file))?,
            source,
            find: find.map(|at| at.value).filter(|find| !find.is_empty())?,
            replace: replace?,
            matches: matches??,
            versions,
            gpu_targets,
            reason: reason?.value,
            drop_when,
            span,
        })
    }

    /// Replaces the text wherever it occurs. The error is the number of occurrences if it differs
    /// from the declared one. Placeholders in `replace` are already replaced. The spec's
    /// `_shared/edits.tera` does the same in `%prep`.
    pub fn apply(&self, text: &str, replace: &str) -> Result<String, usize> {
        let edited = self.apply_bytes(text.as_bytes(), replace)?;
        // UTF-8 remains valid if whole texts are replaced in it.
        Ok(String::from_utf8_lossy(&edited).into_owned())
    }

    /// Replaces the text like [`Self::apply`] in a file of any encoding.
    pub fn apply_bytes(&self, text: &[u8], replace: &str) -> Result<Vec<u8>, usize> {
        let (mut edited, mut end, mut found) = (Vec::with_capacity(text.len()), 0, 0);
        for at in memchr::memmem::find_iter(text, &self.find) {
            edited.extend_from_slice(&text[end..at]);
            edited.extend_from_slice(replace.as_bytes());
            (end, found) = (at + self.find.len(), found + 1);
        }
        if found != self.matches {
            return Err(found);
        }
        edited.extend_from_slice(&text[end..]);
        // awk ends every line that it writes.
        if !text.ends_with(b"\n") {
            edited.push(b'\n');
        }
        Ok(edited)
    }
}

/// Reads the range `versions`. [default: all versions]
pub(super) fn versions(table: &mut Table<'_>) -> VersionRange {
    let Some(At { value, span }) = table.string("versions") else { return VersionRange::default() };
    VersionRange::parse(&value).unwrap_or_else(|| {
        table.problem(
            span,
            format!("`{value}` is not a range of versions"),
            "expected a range such as `>=1.2, <2`",
            None,
        );
        VersionRange::default()
    })
}

/// Returns whether a path stays below the folder that it is relative to.
pub(crate) fn is_inside(path: &str) -> bool {
    let path = std::path::Path::new(path);
    path.components().next().is_some()
        && path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Command;

    /// Applies the edit as `%prep` does, with the function of the shared template.
    fn in_prep(edit: &Edit, text: &str, replace: &str) -> Option<String> {
        let template = include_str!("../../../../specs-templates/_shared/edits.tera");
        let start = template.find("edit() {").unwrap();
        let end = start + template[start..].find("\n}\n").unwrap() + 3;
        // A spec escapes `%` as `%%`.
        let script = format!("{}edit \"$@\"", template[start..end].replace("%%", "%"));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(&edit.file);
        fs_err::write(&file, text).unwrap();
        let shell = Command::new("sh").cwd(dir.path()).args(["-e", "-c", &script, "sh"]);
        let shell = shell.args([&edit.matches.to_string(), &edit.file, &edit.find, replace]);
        let done = shell.run().unwrap();
        done.success().then(|| fs_err::read_to_string(&file).unwrap())
    }

    fn edit(find: &str, replace: &str, matches: usize) -> Edit {
        Edit {
            file: "a b".into(),
            source: None,
            find: find.into(),
            replace: At { value: replace.into(), span: 0..0 },
            matches,
            versions: VersionRange::default(),
            gpu_targets: Vec::new(),
            reason: String::new(),
            drop_when: String::new(),
            span: 0..0,
        }
    }

    #[test]
    fn edits_files_of_any_encoding() {
        let edited = edit("caf", "tea", 1).apply_bytes(b"\xff caf\xe9\n", "tea");
        assert_eq!(edited.unwrap(), b"\xff tea\xe9\n");
    }

    #[test]
    fn edits_like_prep() {
        for (text, find, replace, matches, edited) in [
            ("one two\n", "two", "x", 1, Some("one x\n")),
            ("aaa\n", "aa", "b", 1, Some("ba\n")),
            ("a a\na\n", "a", "aa", 3, Some("aa aa\naa\n")),
            ("a a\na\n", "a", "b", 2, None),
            ("a\n", "b", "a", 1, None),
            ("no end", "end", "x", 1, Some("no x\n")),
            ("a\r\nb\r\n", "a", "b", 1, Some("b\r\nb\r\n")),
            ("ä ö\n\n\tx\n", "ö", "ß", 1, Some("ä ß\n\n\tx\n")),
            (
                "$(x) \\n %s & ' \" `y`\n",
                "\\n %s & ' \"",
                "\\t && %d '' $HOME",
                1,
                Some("$(x) \\t && %d '' $HOME `y`\n"),
            ),
            (".*[x]\n", ".*[", "]", 1, Some("]x]\n")),
            ("a\n", "a", "b\nc", 1, Some("b\nc\n")),
            ("", "a", "b", 1, None),
        ] {
            let edit = edit(find, replace, matches);
            assert_eq!(edit.apply(text, replace).ok().as_deref(), edited, "{text:?}");
            assert_eq!(in_prep(&edit, text, replace).as_deref(), edited, "in %prep: {text:?}");
        }
    }
}
