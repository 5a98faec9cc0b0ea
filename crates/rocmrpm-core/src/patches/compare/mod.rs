//! Compares what two packages of the same software change in upstream's files: by file and content, not
//! by the name of a patch. It does not apply anything.

mod change;
mod script;
mod sed;

use std::path::Path;

use serde::Serialize;
use similar::{DiffOp, TextDiff};

pub use change::Change;

use super::patch_bytes;
use super::unified::parse;
use crate::error::{Error, IoError};
use crate::spec::edit_text;
use crate::spec::sections::Sections;
use crate::workspace::{Component, Pin, Workspace};
use change::{Extent, Relation};

/// The changes of upstream files in a spec, its patches and, for a component, its edits.
#[derive(Debug, Default)]
pub struct Changes {
    /// The changes.
    pub changes: Vec<Change>,
    /// What changes upstream's files in a way that cannot be compared.
    pub unknown: Vec<String>,
}

/// The changes of two packages, compared.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Changes that only the other package makes.
    pub only_theirs: Vec<Change>,
    /// Changes that only the component makes.
    pub only_ours: Vec<Change>,
    /// Changes of the same place with different results.
    pub different: Vec<Pair>,
    /// Changes with the same effect.
    pub same: Vec<Pair>,
    /// What the other package does to files and could not be compared: missing patches, moved and removed
    /// files, changes of files that only the script knows.
    pub theirs_not_compared: Vec<String>,
    /// The same, of the component.
    pub ours_not_compared: Vec<String>,
}

/// Two changes of the same place.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pair {
    /// The other package's.
    pub theirs: Change,
    /// The component's.
    pub ours: Change,
}

/// Returns the changes of another package. `text` is its spec, `sections` are those of the expanded spec,
/// `file` is the name of the spec, and the patches are in `folder`.
pub fn of_spec(
    file: &str,
    text: &str,
    sections: &Sections,
    folder: &Path,
) -> Result<Changes, Error> {
    let script::ScriptChanges { changes, unknown } = script::changes(file, sections);
    let mut found = Changes { changes, unknown };
    let is_patch = |tag: &str| {
        tag.strip_prefix("patch").is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
    };
    let tags = sections.packages[0].tags.iter().filter(|tag| is_patch(&tag.name));
    let named = tags.map(|tag| (tag.line, tag.value.as_str()));
    for (line, value) in named.chain(patch_list(text)) {
        // A URL ends with the file name.
        let name = value.rsplit('/').next().unwrap_or(value);
        match fs_err::read(folder.join(name)) {
            Ok(bytes) => found.changes.extend(of_patch(name, &String::from_utf8_lossy(&bytes))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                found.unknown.push(format!("{file}:{line}: {name} is missing"));
            }
            Err(error) => return Err(IoError::doing("read a patch")(error).into()),
        }
    }
    Ok(found)
}

/// Returns the entries of `%patchlist` with their lines (rpm's manual, "Spec file format").
fn patch_list(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    let list = lines.skip_while(|(_, line)| *line != "%patchlist").skip(1);
    list.take_while(|(_, line)| !line.starts_with('%'))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Returns the changes of a component: its patches and edits for the pinned version, and what the
/// scripts of its expanded spec do.
pub fn of_component(
    workspace: &Workspace,
    component: &Component,
    pin: &Pin,
    (spec, sections): (&str, &Sections),
) -> Result<Changes, Error> {
    let script::ScriptChanges { changes, unknown } = script::changes(spec, sections);
    let mut found = Changes { changes, unknown };
    for patch in component.patches_for(&pin.version) {
        let bytes = patch_bytes(component, patch)?;
        found.changes.extend(of_patch(&patch.file_name, &String::from_utf8_lossy(&bytes)));
    }
    for edit in component.edits_for(&pin.version) {
        // `render` reports unknown placeholders.
        let replace = edit_text(workspace, pin, &edit.replace.value);
        let replace = replace.unwrap_or_else(|_| edit.replace.value.clone());
        let source = edit.source.as_ref().and_then(|name| pin.sources.get(name));
        let folder = source.map(|pin| crate::sources::source_dir(pin) + "/").unwrap_or_default();
        let (file, removed) = (format!("{folder}{}", edit.file), vec![edit.find.clone()]);
        let added = if replace.is_empty() { vec![] } else { vec![replace] };
        found.changes.push(Change::new(&file, "an edit", Extent::Text, removed, added));
    }
    Ok(found)
}

/// Returns the changes of a patch, one for each run of changed lines.
fn of_patch(name: &str, text: &str) -> Vec<Change> {
    let mut changes = Vec::new();
    for file in parse(text) {
        if file.hunks.is_empty() {
            // A renamed file, a mode, or a binary file.
            let what = format!("{} -> {}", file.name(), file.new.as_deref().unwrap_or("(removed)"));
            changes.push(Change::new(file.name(), name, Extent::File, Vec::new(), vec![what]));
        }
        for hunk in &file.hunks {
            let (old, new): (Vec<&str>, Vec<&str>) = (
                hunk.old.iter().map(String::as_str).collect(),
                hunk.new.iter().map(String::as_str).collect(),
            );
            let lines = |lines: &[&str]| -> Vec<String> {
                lines.iter().map(|line| line.trim_end_matches(['\n', '\r']).to_owned()).collect()
            };
            let diff = TextDiff::from_slices(&old, &new);
            for op in diff.ops().iter().filter(|op| !matches!(op, DiffOp::Equal { .. })) {
                let (removed, added) = (lines(&old[op.old_range()]), lines(&new[op.new_range()]));
                changes.push(Change::new(file.name(), name, Extent::Lines, removed, added));
            }
        }
    }
    changes
}

/// Compares the changes of another package with those of a component.
pub fn compare(theirs: Changes, ours: Changes) -> Comparison {
    let mut comparison = Comparison {
        theirs_not_compared: theirs.unknown,
        ours_not_compared: ours.unknown,
        ..Comparison::default()
    };
    let mut met = vec![false; ours.changes.len()];
    for change in theirs.changes {
        let related = ours.changes.iter().map(|ours| change.relation(ours)).enumerate();
        // Among equals, the first.
        let best = related.rev().max_by_key(|(_, relation)| *relation);
        let (at, relation) = best.unwrap_or((0, Relation::Apart));
        if relation == Relation::Apart {
            comparison.only_theirs.push(change);
            continue;
        }
        met[at] = true;
        let pair = Pair { theirs: change, ours: ours.changes[at].clone() };
        match relation {
            Relation::Same => comparison.same.push(pair),
            _ => comparison.different.push(pair),
        }
    }
    let left = ours.changes.into_iter().zip(met).filter(|(_, met)| !met);
    comparison.only_ours = left.map(|(change, _)| change).collect();
    let by_file = |a: &Change, b: &Change| a.file.cmp(&b.file);
    comparison.only_theirs.sort_by(by_file);
    comparison.only_ours.sort_by(by_file);
    comparison.same.sort_by(|a, b| by_file(&a.theirs, &b.theirs));
    comparison.different.sort_by(|a, b| by_file(&a.theirs, &b.theirs));
    comparison
}

impl Comparison {
    /// Returns whether both packages change the same, as far as it could be compared.
    pub fn is_same(&self) -> bool {
        self.only_theirs.is_empty() && self.only_ours.is_empty() && self.different.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_hunks_into_runs_of_changed_lines() {
        let patch = "--- a/f\n+++ b/f\n@@ -1,5 +1,5 @@\n a\n-b\n+B\n c\n d\n+new\n-e\n\
                     diff --git a/old b/moved\nrename from old\nrename to moved\n";
        let shown: Vec<_> = of_patch("x.patch", patch)
            .into_iter()
            .map(|change| (change.file, change.removed.concat(), change.added.concat()))
            .collect();
        let expect = |file: &str, removed: &str, added: &str| {
            (file.to_owned(), removed.to_owned(), added.to_owned())
        };
        assert_eq!(
            shown,
            [expect("f", "b", "B"), expect("f", "e", "new"), expect("old", "", "old -> moved")]
        );
    }

    #[test]
    fn reads_patches_by_tag_and_by_list_and_reports_missing_ones() {
        let dir = tempfile::tempdir().unwrap();
        fs_err::write(dir.path().join("a.patch"), "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n")
            .unwrap();
        let text =
            "Name: x\nPatch0: https://h/a.patch\nPatchy: z\n%patchlist\n# why\nb.patch\n\n%prep\n";
        let found = of_spec("x.spec", text, &Sections::parse(text), dir.path()).unwrap();
        assert_eq!(found.changes[0].by, "a.patch");
        assert_eq!(
            (found.changes.len(), &found.unknown[..]),
            (1, &["x.spec:6: b.patch is missing".to_owned()][..])
        );
    }

    #[test]
    fn pairs_changes_by_content() {
        let change = |file: &str, by: &str, from: &str, to: &str| {
            Change::new(file, by, Extent::Text, vec![from.into()], vec![to.into()])
        };
        let theirs = Changes {
            changes: vec![
                change("b", "x.spec:9", "only here", "x"),
                change("a", "x.spec:8", "setuptools<60", "setuptools"),
                change("a", "x.spec:7", "/opt/rocm", "/usr/lib64"),
            ],
            unknown: vec!["x.spec:3: rm a".into()],
        };
        let ours = Changes {
            changes: vec![
                change("a", "an edit", "/opt/rocm", "/usr"),
                change("a", "an edit", "setuptools<60", "setuptools"),
                change("c", "an edit", "ours only", "x"),
            ],
            unknown: vec![],
        };
        let found = compare(theirs, ours);
        assert_eq!(found.only_theirs[0].by, "x.spec:9");
        assert_eq!(found.only_ours[0].file, "c");
        assert_eq!((found.only_theirs.len(), found.only_ours.len()), (1, 1));
        assert_eq!((found.same.len(), found.different.len()), (1, 1));
        assert_eq!(found.different[0].theirs.by, "x.spec:7");
        assert_eq!(found.theirs_not_compared, ["x.spec:3: rm a"]);
        assert!(!found.is_same());
    }
}
