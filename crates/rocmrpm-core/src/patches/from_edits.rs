//! Turns a component's edits into patches: applies each to the patched source and compares. It does
//! not write the patches into a folder.

use super::layers::{Layers, SourcePath};
use super::repository::Repository;
use super::{Run, times};
use crate::error::{Error, IoError, Kind};
use crate::process::check_stop;
use crate::sources::{self, Fetcher};
use crate::spec::edit_text;
use crate::workspace::{Component, Edit, Pin, Workspace};

/// Maximum length of the part of a file name that comes from a patch's subject, as in
/// git-format-patch(1).
const MAX_SLUG: usize = 52;

/// A patch with the changes of one edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditPatch {
    /// The file name. It sorts after the names of the component's own patches.
    pub file_name: String,
    /// The reason of the edit.
    pub reason: String,
    /// The patch.
    pub bytes: Vec<u8>,
}

/// Returns a patch for each edit of a component that is for this version, in the order in which the
/// edits are made. They apply after the component's own patches.
pub fn from_edits(
    workspace: &Workspace,
    component: &Component,
    pin: &Pin,
    fetcher: &Fetcher<'_>,
) -> Result<Vec<EditPatch>, Error> {
    let edits: Vec<&Edit> = component.edits_for(&pin.version).collect();
    if edits.is_empty() {
        return Ok(Vec::new());
    }
    let action = || IoError::doing("make patches of the edits");
    let layers = Layers::of(fetcher, component, pin)?;
    let run = Run::of(&layers, component, &pin.version)?;
    let tree = run.scratch.path();
    if let Some(tried) = run.patches.iter().find(|tried| !tried.failures.is_empty()) {
        return Err(refused(component, format!("`{}` does not apply", tried.patch.file_name)));
    }
    let git = tempfile::Builder::new().prefix("rocmrpm-").tempdir().map_err(action())?;
    let repository = Repository::new(git.path().join("git"))?;
    let mut patches = Vec::new();
    for (edit, number) in edits.into_iter().zip(run.patches.len() + 1..) {
        check_stop()?;
        let file = match &edit.source {
            None => edit.file.clone(),
            Some(name) => match pin.sources.get(name) {
                Some(source) => format!("{}/{}", sources::source_dir(source), edit.file),
                None => {
                    return Err(refused(component, format!("the pin has no source `{name}`")));
                }
            },
        };
        let replace = edit_text(workspace, pin, &edit.replace.value).map_err(|unknown| {
            refused(component, format!("unknown placeholder `{unknown}` in an edit of `{file}`"))
        })?;
        if !run.touched.contains(&file) {
            layers.copy(&file, tree).map_err(action())?;
        }
        let path = tree.join(&file);
        let kind = std::fs::symlink_metadata(&path).map(|metadata| metadata.file_type());
        if !kind.is_ok_and(|kind| kind.is_file()) {
            let problem = match layers.place(&file) {
                SourcePath::Link(_) | SourcePath::Outside => "is a link",
                SourcePath::File(_) | SourcePath::Nothing => "was not found",
            };
            return Err(refused(component, format!("`{file}` {problem}")));
        }
        let before = repository.store(tree)?;
        let text = fs_err::read(&path).map_err(action())?;
        let edited = edit.apply_bytes(&text, &replace).map_err(|found| {
            let (found, expected) = (times(found), times(edit.matches));
            let problem = format!("`{}` occurs {found} in `{file}`, not {expected}", edit.find);
            refused(component, problem)
        })?;
        fs_err::write(&path, edited).map_err(action())?;
        let after = repository.store(tree)?;
        let bytes = repository.patch(&before, &after, header(edit, &file).as_bytes())?;
        let file_name = format!("{number:04}-{}.patch", slug(&edit.reason));
        patches.push(EditPatch { file_name, reason: edit.reason.clone(), bytes });
    }
    Ok(patches)
}

fn refused(component: &Component, problem: String) -> Error {
    let name = &component.name;
    Error::new(Kind::Config, format!("cannot make patches of the edits of `{name}`: {problem}"))
        .with_help(format!("run `rocmrpm patch status {name}` for details"))
}

/// Returns the header of a patch in the form of `git format-patch`, without its last line feed.
fn header(edit: &Edit, file: &str) -> String {
    let mut header = format!(
        "Subject: [PATCH] Edit {file}\n\nReason: {}\nOrigin: own",
        edit.reason.split_whitespace().collect::<Vec<_>>().join(" ")
    );
    if !edit.drop_when.is_empty() {
        let drop_when = edit.drop_when.split_whitespace().collect::<Vec<_>>().join(" ");
        header.push_str(&format!("\nDrop-When: {drop_when}"));
    }
    header
}

/// Returns words of a text as part of a file name.
fn slug(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut slug = String::new();
    for word in words {
        if slug.len() + word.len() + 1 > MAX_SLUG && !slug.is_empty() {
            break;
        }
        let between = if slug.is_empty() { "" } else { "-" };
        slug.push_str(&format!("{between}{}", word.to_ascii_lowercase()));
    }
    slug.truncate(MAX_SLUG);
    if slug.is_empty() { "edit".to_owned() } else { slug }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_patches_like_git() {
        assert_eq!(slug("Use the provider's path, (/usr)"), "use-the-provider-s-path-usr");
        assert_eq!(slug("ünü"), "n");
        assert_eq!(slug("…"), "edit");
        assert_eq!(slug(&"word ".repeat(30)).len(), 49);
        assert_eq!(slug(&"w".repeat(90)).len(), 52);
    }
}
