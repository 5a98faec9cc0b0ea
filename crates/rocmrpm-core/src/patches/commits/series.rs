//! Applies a patch or a component's edits to a tree of a repository, as `%prep` does.

use std::collections::BTreeSet;

use super::super::apply::apply;
use super::super::repository::Repository;
use super::super::times;
use super::super::unified::{FileChange, parse};
use crate::error::{Error, IoError, Kind};
use crate::sources::source_dir;
use crate::spec::edit_text;
use crate::workspace::edit::is_inside;
use crate::workspace::{Component, Edit, Pin, Workspace};

/// Applies a patch without fuzz. Returns the new tree, or the reason why it does not apply.
pub(super) fn apply_patch(
    repository: &Repository,
    tree: &str,
    bytes: &[u8],
) -> Result<Result<String, String>, Error> {
    let action = || IoError::doing("apply a patch");
    let changes = parse(&String::from_utf8_lossy(bytes));
    let names = changes.iter().flat_map(FileChange::names).filter(|name| is_inside(name));
    let names: BTreeSet<String> = names.map(str::to_owned).collect();
    let file = tempfile::Builder::new().prefix("rocmrpm-").tempfile().map_err(action())?;
    fs_err::write(file.path(), bytes).map_err(action())?;
    let (applied, after) =
        repository.change(tree, &names, |dir| Ok(apply(dir, file.path(), &changes)?))?;
    Ok(match applied.failures.first() {
        Some(misfit) => {
            let name = misfit.file.and_then(|at| changes.get(at)).map(FileChange::name);
            let place = name.map(|name| format!("{name}: ")).unwrap_or_default();
            Err(format!("{place}{}", misfit.problem))
        }
        None => Ok(after),
    })
}

/// Makes a component's edits. Returns the new tree, and the reasons why some do not apply.
pub(super) fn make_edits(
    repository: &Repository,
    tree: &str,
    workspace: &Workspace,
    component: &Component,
    pin: &Pin,
) -> Result<(String, Vec<String>), Error> {
    let mut edits: Vec<(String, &Edit, String)> = Vec::new();
    let mut problems = Vec::new();
    for edit in component.edits_for(&pin.version) {
        let file = match edit.source.as_ref().map(|name| (name, pin.sources.get(name))) {
            None => edit.file.clone(),
            Some((_, Some(source))) => format!("{}/{}", source_dir(source), edit.file),
            Some((name, None)) => {
                problems.push(format!("{}: the pin has no source `{name}`", edit.file));
                continue;
            }
        };
        let replace = edit_text(workspace, pin, &edit.replace.value).map_err(|unknown| {
            let message = format!("unknown placeholder `{unknown}` in an edit of `{file}`");
            Error::new(Kind::Config, message)
                .with_help(format!("correct it in component.toml of `{}`", component.name))
        })?;
        edits.push((file, edit, replace));
    }
    let names: BTreeSet<String> = edits.iter().map(|(file, ..)| file.clone()).collect();
    let ((), tree) = repository.change(tree, &names, |dir| {
        for (file, edit, replace) in &edits {
            let path = dir.join(file);
            let kind = std::fs::symlink_metadata(&path).map(|metadata| metadata.file_type());
            if !kind.is_ok_and(|kind| kind.is_file()) {
                problems.push(format!("{file}: the file was not found"));
                continue;
            }
            let action = || IoError::doing("make an edit");
            let text = fs_err::read(&path).map_err(action())?;
            match edit.apply_bytes(&text, replace) {
                Ok(edited) => fs_err::write(&path, edited).map_err(action())?,
                Err(found) => problems.push(format!(
                    "{file}: `{}` occurs {}, not {}",
                    edit.find,
                    times(found),
                    times(edit.matches)
                )),
            }
        }
        Ok(())
    })?;
    Ok((tree, problems))
}
