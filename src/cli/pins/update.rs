//! `rocmrpm pins update`.

use std::path::Path;

use super::{CommandResult, args, context};
use crate::events::Events;
use crate::pins::update;
use crate::report::{Progress, Shell, Style, pins_update_text};
use crate::sources::{Cache, Fetcher};

pub(super) fn run(args: &args::PinsUpdate, dir: &Path, shell: &Shell) -> CommandResult {
    let choice = args::Choice { chroot: None, pins: args.pins.clone() };
    let workspace = context::workspace(dir, &choice, &[])?;
    let component = workspace.component(&args.component)?;
    let progress = Progress::new(shell);
    let events: &dyn Events = &progress;
    let fetcher = Fetcher::new(Cache::from_env()?, &workspace.root, events);
    let (update, text) = update(&workspace, component, args.version.as_deref(), &fetcher)?;
    if !args.dry_run {
        text.write(&workspace.root)?;
    }
    drop(progress);
    if args.json {
        shell.json(&update)?;
    } else {
        shell.data(pins_update_text(&update))?;
    }
    let (name, version, file) = (&update.component, &update.new, &update.file);
    if update.changed.is_empty() {
        shell.status(Style::Dim, "Unchanged", format!("{file} already has {name} {version}"));
        return Ok(0);
    }
    if update.older {
        shell.warning(format!("{name} {version} is older than {}, the previous pin", update.old));
    }
    if args.dry_run {
        shell.talk(format!("\n{} dry run: no changes made", Style::Note.paint("note:")));
        return Ok(0);
    }
    shell.status(Style::Good, "Pinned", format!("{name} {version} in {file}"));
    let set = &workspace.pins.name;
    shell.talk(format!(
        "\n{} run `rocmrpm lock --pins {set}` to update the lock file",
        Style::Note.paint("next:")
    ));
    Ok(0)
}
