//! `rocmrpm prep`.

use std::path::Path;

use super::{CommandResult, args, context};
use crate::error::Kind;
use crate::patches::{self, GitPrep};
use crate::prep;
use crate::process::quote;
use crate::report::{Progress, Shell, Style, count};
use crate::sources::{Cache, Fetcher};

pub(super) fn run(args: &args::Prep, dir: &Path, shell: &Shell) -> CommandResult {
    let mut workspace = context::workspace(dir, &args.choice, &args.pin.overrides)?;
    let progress = Progress::new(shell);
    let root = workspace.root.clone();
    let fetcher = Fetcher::new(Cache::from_env()?, &root, &progress).offline(args.offline);
    context::resolve_overrides(&mut workspace, &fetcher)?;
    let component = workspace.component(&args.component)?;
    if args.git {
        let made = patches::prepare_git(&workspace, component, &fetcher)?;
        drop(progress);
        return show_git(&made, args.json, shell);
    }
    let stack = context::stack_to_examine(&workspace, component, shell)?;
    let prepared = prep::prepare(&stack, component, &fetcher, &progress)?;
    let record = &prepared.record;
    let (sources, patches) = (record.sources.len(), record.patches.len());
    let with = format!("sources {sources}, patches {patches}, edits {}", record.edits);
    let what = format!("{} {} ({with})", record.component, record.version);
    shell.status(Style::Good, "Prepared", what);
    if args.json {
        shell.json(record)?;
    } else {
        shell.data(record.folder.display())?;
    }
    Ok(0)
}

/// Shows the repository, and what to do if git stopped at a conflict.
fn show_git(made: &GitPrep, json: bool, shell: &Shell) -> CommandResult {
    let (style, word) = match made.made {
        true => (Style::Good, "Prepared"),
        false => (Style::Dim, "Unchanged"),
    };
    let commits = count(made.commits.len(), "commit");
    shell.status(style, word, format!("{} {} ({commits})", made.component, made.version));
    if json {
        shell.json(made)?;
    } else {
        shell.data(made.folder.display())?;
    }
    for problem in &made.edits_not_made {
        shell.warning(format!("an edit does not apply: {problem}"));
    }
    let Some(stopped) = &made.stopped else { return Ok(0) };
    let (name, folder) = (&made.component, quote(&made.folder.to_string_lossy()));
    let (problem, way) = match stopped.conflicts.is_empty() {
        true => ("is part of the upstream sources".to_owned(), "--skip"),
        false => (format!("conflicts in {}", stopped.conflicts.join(", ")), "--continue"),
    };
    shell.status(Style::Bad, "Stopped", format!("{} {problem}", stopped.file));
    let resolve = match stopped.conflicts.is_empty() {
        true => String::new(),
        false => "resolve the conflict, `git add` the files, and ".to_owned(),
    };
    shell.help(format!(
        "{resolve}run `git -C {folder} cherry-pick {way}`, then `rocmrpm patch save {name}`"
    ));
    Ok(Kind::Findings.exit_code())
}
