//! `rocmrpm pins import`.

use std::collections::BTreeSet;
use std::path::Path;

use super::{CommandResult, args, context};
use crate::error::IoError;
use crate::events::Events;
use crate::pins::{self, SetText};
use crate::report::{Progress, Shell, Style, changed_text};
use crate::sources::{Cache, Fetcher};
use crate::workspace::document::File;
use crate::workspace::{Pin, Workspace};

pub(super) fn run(args: &args::PinsImport, dir: &Path, shell: &Shell) -> CommandResult {
    let choice = args::Choice { chroot: None, pins: args.pins.clone() };
    let workspace = context::workspace(dir, &choice, &[])?;
    let shown = args.file.display().to_string();
    let file =
        File::read(&args.file, &*shown).map_err(IoError::doing("read the file to import"))?;
    let json = file.text.trim_start().starts_with(['{', '['])
        || args.file.extension().is_some_and(|extension| extension == "json");
    let format = args.format.unwrap_or(if json {
        args::PinsFormat::SourceManifest
    } else {
        args::PinsFormat::VersionsEnv
    });
    let import = match format {
        args::PinsFormat::VersionsEnv => pins::read_versions_env(&file, &workspace)?,
        args::PinsFormat::SourceManifest => pins::read_source_manifest(&file, &workspace)?,
    };
    let progress = Progress::new(shell);
    let events: &dyn Events = &progress;
    let fetcher = Fetcher::new(Cache::from_env()?, &workspace.root, events);
    let text = pins::import(&workspace, &file, &import, &fetcher)?;
    if !args.dry_run {
        text.write(&workspace.root)?;
    }
    drop(progress);
    for note in &import.notes {
        shell.warning(note);
    }
    if !import.unknown.is_empty() {
        let names = import.unknown.join(", ");
        shell.warning(format!("pins/{}.toml has no pins for: {names}", workspace.pins.name));
    }
    let set = format!("pins/{}.toml", workspace.pins.name);
    let lines = outdated_comments(&workspace, &text);
    if !lines.is_empty() {
        let lines = format!("{}{lines}", if lines.contains(',') { "lines " } else { "line " });
        shell.warning(format!("comments in {set} mention the old version of a pin: {lines}"));
    }
    if text.changed().is_empty() {
        shell.status(Style::Dim, "Unchanged", format!("{set} already matches {shown}"));
        return Ok(0);
    }
    shell.data(changed_text(text.changed()))?;
    if args.dry_run {
        shell.talk(format!("\n{} dry run: no changes made", Style::Note.paint("note:")));
        return Ok(0);
    }
    shell.status(Style::Good, "Imported", format!("{shown} into {set}"));
    let next = format!("run `rocmrpm lock --pins {}` to update the lock file", workspace.pins.name);
    shell.talk(format!("\n{} {next}", Style::Note.paint("next:")));
    Ok(0)
}

/// Returns the numbers of the lines whose comments mention the old version of a component.
fn outdated_comments(workspace: &Workspace, text: &SetText) -> String {
    let of = |pin: &Pin| {
        let key = format!("{}.version", pin.component);
        let is_moved = text.changed().iter().any(|changed| changed.key == key);
        let name = pin.component.as_str();
        if is_moved { text.comments_with(name, &pin.version) } else { Vec::new() }
    };
    let lines: BTreeSet<usize> =
        workspace.pins.written().flat_map(of).map(|(line, _)| line).collect();
    lines.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}
