//! `rocmrpm pipeline rollback`.

use std::path::Path;

use serde::Serialize;

use super::publish::word;
use super::{CommandResult, args};
use crate::document::Document;
use crate::index::change::Action;
use crate::pipeline::{Rollback, plan_rollback};
use crate::report::{Shell, Style};

/// What `rocmrpm pipeline rollback --json` prints: what an earlier publication brings back.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RollbackReport<'a> {
    schema: &'static str,
    /// The pin set.
    pins: &'a str,
    /// The number of the publication's record.
    record: u64,
    /// The chroot of the publication.
    chroot: &'a str,
    /// Whether nothing was written, because of `--dry-run`.
    dry_run: bool,
    /// What changes.
    changes: Vec<RollbackChange<'a>>,
}

/// A wheel or package that users get again, or no longer.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RollbackChange<'a> {
    /// `add`, `promote` or `drop`.
    action: String,
    /// The file name of the wheel or package.
    file: &'a str,
    /// The index or repository.
    destination: &'a str,
}

impl Document for RollbackReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/rollback/1";
}

pub(super) fn run(args: &args::PipelineRollback, dir: &Path, shell: &Shell) -> CommandResult {
    let mut rollback = plan_rollback(dir, args.pins.as_deref(), args.record)?;
    if !args.dry_run {
        rollback.apply()?;
    }
    let changes = changes(&rollback);
    if args.json {
        shell.json(&RollbackReport {
            schema: RollbackReport::SCHEMA,
            pins: &rollback.pins,
            record: rollback.record,
            chroot: &rollback.chroot,
            dry_run: args.dry_run,
            changes: changes
                .iter()
                .map(|(word, file, destination)| RollbackChange {
                    action: word.to_lowercase(),
                    file,
                    destination,
                })
                .collect(),
        })?;
        return Ok(0);
    }
    for (word, file, destination) in &changes {
        let preposition = if *word == "Drop" { "from" } else { "to" };
        let text = format!("{file} {preposition} {destination}");
        match args.dry_run {
            true => shell.data(format!("{word:>12} {text}"))?,
            false => shell.status(Style::Good, word, text),
        }
    }
    let what = format!("{} of {}, record {}", rollback.pins, rollback.chroot, rollback.record);
    match (args.dry_run, changes.is_empty()) {
        (_, true) => shell.status(Style::Good, "Unchanged", what),
        (true, false) => shell.talk("dry run: no changes made"),
        (false, false) => shell.status(Style::Good, "Restored", what),
    }
    Ok(0)
}

/// Returns each change: a word, the file, and the destination.
fn changes(rollback: &Rollback) -> Vec<(&'static str, &str, &str)> {
    let mut changes = Vec::new();
    if let Some((to, change)) = &rollback.wheels {
        let changed = change.notes.iter().filter(|note| note.action != Action::Keep);
        changes.extend(changed.map(|note| (word(&note.action), note.file.as_str(), to.as_str())));
    }
    if let Some((to, change)) = &rollback.packages {
        changes.extend(change.added.iter().map(|one| ("Add", one.file.as_str(), to.as_str())));
        changes.extend(change.leaving.iter().map(|one| ("Drop", one.file.as_str(), to.as_str())));
    }
    changes
}
