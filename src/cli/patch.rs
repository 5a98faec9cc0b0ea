//! `rocmrpm patch`.

use std::path::Path;

use serde::Serialize;

use super::{CommandResult, args, context, patch_compare};
use crate::document::Document;
use crate::error::{Error, Kind};
use crate::patches::{self, How, PatchChange, Refreshed, Series};
use crate::report::{
    Progress, Shell, Style, conflict_text, series_text, show_error, watch_text, watch_warning,
};
use crate::sources::{Cache, Fetcher};
use crate::watch::{Watched, watched};
use crate::workspace::{Component, Workspace};

/// What `rocmrpm patch status --json` prints: whether patches and edits apply, and the watch list.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PatchStatus<'a> {
    schema: &'static str,
    /// The chroot.
    chroot: &'a str,
    /// The pin set.
    pins: &'a str,
    /// Whether any patch or edit does not apply.
    fails: bool,
    /// The components with their patches and edits.
    components: &'a [Series],
    /// Components that could not be checked.
    not_checked: Vec<NotChecked<'a>>,
    /// The entries of the watch list that concern a pin or are out of date.
    watched: &'a [Watched],
}

/// What `rocmrpm patch refresh --json` prints: patches adapted to the pinned sources.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PatchRefresh<'a> {
    schema: &'static str,
    /// The chroot.
    chroot: &'a str,
    /// The pin set.
    pins: &'a str,
    /// Whether the patches were written; not if any has a conflict.
    written: bool,
    /// The components with their patches.
    components: &'a [Refreshed],
    /// Components that could not be checked.
    not_checked: Vec<NotChecked<'a>>,
}

/// A component that could not be checked.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NotChecked<'a> {
    /// The component.
    component: &'a str,
    /// Why its sources could not be fetched.
    error: String,
}

impl Document for PatchStatus<'_> {
    const SCHEMA: &'static str = "rocmrpm/patch-status/2";
}

impl Document for PatchRefresh<'_> {
    const SCHEMA: &'static str = "rocmrpm/patch-refresh/2";
}

pub(super) fn run(args: &args::Patch, dir: &Path, shell: &Shell) -> CommandResult {
    match args {
        args::Patch::Status(args) => status(args, dir, shell),
        args::Patch::Refresh(args) => refresh(args, dir, shell),
        args::Patch::Save(args) => save(args, dir, shell),
        args::Patch::Compare(args) => patch_compare::run(args, dir, shell),
    }
}

fn status(args: &args::PatchStatus, dir: &Path, shell: &Shell) -> CommandResult {
    let (workspace, series, unchecked) =
        each(args, dir, shell, |workspace, component, fetcher| {
            patches::status(workspace, component, workspace.pin(component), fetcher)
        })?;
    let fails = series.iter().any(Series::fails);
    let watched = {
        let progress = Progress::new(shell);
        let fetcher =
            Fetcher::new(Cache::from_env()?, &workspace.root, &progress).offline(args.offline);
        let names: Vec<&str> = args.components.iter().map(String::as_str).collect();
        watched(&workspace, &names, &fetcher)?
    };
    if args.json {
        shell.json(&PatchStatus {
            schema: PatchStatus::SCHEMA,
            chroot: &workspace.chroot.name,
            pins: &workspace.pins.name,
            fails,
            components: &series,
            not_checked: not_checked(&unchecked),
            watched: &watched,
        })?;
    } else {
        let mut texts: Vec<String> = series.iter().map(series_text).collect();
        if !watched.is_empty() {
            texts.push(watch_text(&watched));
        }
        if texts.is_empty() {
            shell.talk("no component has patches or edits");
        } else {
            shell.data(texts.join("\n"))?;
        }
    }
    watch_warning(&watched).iter().for_each(|warning| shell.warning(warning));
    if series.iter().any(Series::a_patch_fails) {
        let what = "run `rocmrpm patch refresh` to refresh the patches that git can merge";
        shell.help(what);
    }
    code(shell, fails, &unchecked)
}

fn refresh(args: &args::PatchStatus, dir: &Path, shell: &Shell) -> CommandResult {
    let (workspace, all, unchecked) = each(args, dir, shell, |workspace, component, fetcher| {
        patches::refresh(workspace, component, workspace.pin(component), fetcher)
    })?;
    let conflicts = all.iter().any(|refreshed| refreshed.conflict.is_some());
    if !conflicts {
        all.iter().try_for_each(Refreshed::write)?;
    }
    if args.json {
        shell.json(&PatchRefresh {
            schema: PatchRefresh::SCHEMA,
            chroot: &workspace.chroot.name,
            pins: &workspace.pins.name,
            written: !conflicts,
            components: &all,
            not_checked: not_checked(&unchecked),
        })?;
    } else {
        let texts: Vec<String> =
            all.iter().map(conflict_text).filter(|text| !text.is_empty()).collect();
        if !texts.is_empty() {
            shell.data(texts.join("\n"))?;
        }
    }
    for refreshed in all.iter().filter(|_| !conflicts) {
        if refreshed.patches.is_empty() {
            let (component, version) = (&refreshed.component, &refreshed.version);
            shell.talk(format!(
                "{} {component} has no patch for {version}",
                Style::Dim.paint("note:")
            ));
        }
        for patch in &refreshed.patches {
            let how = match &patch.how {
                How::Unchanged => {
                    shell.status(Style::Dim, "Unchanged", &patch.file);
                    continue;
                }
                How::Offset => "new line numbers".to_owned(),
                How::Merged { from } => format!("merged with upstream's changes since {from}"),
                How::Fuzz => "its context differs; review it".to_owned(),
            };
            shell.status(Style::Good, "Refreshed", format!("{} ({how})", patch.file));
        }
    }
    if conflicts {
        shell.status(Style::Bad, "Failed", "no patch was written");
    }
    code(shell, conflicts, &unchecked)
}

fn save(args: &args::PatchSave, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = context::workspace(dir, &args.choice, &args.pin.overrides)?;
    let component = workspace.component(&args.component)?;
    let saved = patches::save(&workspace, component, args.dry_run)?;
    if args.json {
        shell.json(&saved)?;
    }
    for patch in &saved.patches {
        let (style, word) = match (patch.change, &patch.renamed_from) {
            (PatchChange::Unchanged, None) => (Style::Dim, "Unchanged"),
            (PatchChange::Unchanged, Some(_)) => (Style::Good, "Renamed"),
            (PatchChange::Changed, _) => (Style::Good, "Changed"),
            (PatchChange::Added, _) => (Style::Good, "Added"),
            (PatchChange::Removed, _) => (Style::Good, "Removed"),
        };
        let from = patch.renamed_from.as_ref().map(|name| format!(" (was {name})"));
        shell.status(style, word, format!("{}{}", patch.file, from.unwrap_or_default()));
    }
    for problem in &saved.edits_not_made {
        shell.warning(format!("an edit does not apply after the patches: {problem}"));
    }
    for patch in &saved.patches {
        if !patch.lacks.is_empty() {
            let lacks = patch.lacks.join(" and ");
            shell.warning(format!("{} has no {lacks} in its message", patch.file));
        }
        if let Some(set) = patch.also_for.first() {
            let name = &saved.component;
            shell.talk(format!(
                "{} {} is also for the pin set `{set}`; run `rocmrpm patch status {name} --pins {set}`",
                Style::Dim.paint("note:"),
                patch.file
            ));
        }
    }
    if args.dry_run {
        shell.talk(format!("\n{} dry run: no changes made", Style::Note.paint("note:")));
    }
    Ok(0)
}

/// A component whose sources are unavailable, and why.
type Unchecked = (String, Error);

/// Calls `work` for each named component, or for all components with patches or edits.
fn each<T>(
    args: &args::PatchStatus,
    dir: &Path,
    shell: &Shell,
    work: impl Fn(&Workspace, &Component, &Fetcher<'_>) -> Result<T, Error>,
) -> Result<(Workspace, Vec<T>, Vec<Unchecked>), Error> {
    let mut workspace = context::workspace(dir, &args.choice, &args.pin.overrides)?;
    let progress = Progress::new(shell);
    let root = workspace.root.clone();
    let fetcher = Fetcher::new(Cache::from_env()?, &root, &progress).offline(args.offline);
    context::resolve_overrides(&mut workspace, &fetcher)?;
    let named = args.components.iter().map(|name| workspace.component(name));
    let mut components: Vec<&Component> = named.collect::<Result<_, _>>()?;
    if components.is_empty() {
        let has = |c: &&Component| !c.patches.is_empty() || !c.edits.is_empty();
        components = workspace.components.values().filter(has).collect();
    }
    let (mut done, mut unchecked) = (Vec::new(), Vec::new());
    for component in components {
        match work(&workspace, component, &fetcher) {
            Ok(one) => done.push(one),
            // The sources of other components may still be available.
            Err(error) if error.kind() == Kind::Network || error.kind() == Kind::Config => {
                unchecked.push((component.name.to_string(), error));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((workspace, done, unchecked))
}

fn not_checked(unchecked: &[Unchecked]) -> Vec<NotChecked<'_>> {
    unchecked
        .iter()
        .map(|(component, error)| NotChecked { component, error: error.to_string() })
        .collect()
}

/// Returns the exit code: patches that do not apply take precedence over unavailable sources.
fn code(shell: &Shell, found: bool, unchecked: &[Unchecked]) -> CommandResult {
    for (name, error) in unchecked {
        shell.warning(format!("`{name}` was not checked, because its sources are unavailable:"));
        show_error(shell, error);
    }
    Ok(match unchecked.first() {
        _ if found => 1,
        Some((_, error)) => error.kind().exit_code(),
        None => 0,
    })
}
