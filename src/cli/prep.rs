//! `rocmrpm prep`.

use std::path::Path;

use super::{Done, args, context};
use crate::prep;
use crate::report::{Progress, Shell, Style};
use crate::sources::{Cache, Fetcher};

pub(super) fn run(args: &args::Prep, dir: &Path, shell: &Shell) -> Done {
    let mut workspace = context::workspace(dir, &args.choice, &args.pin.overrides)?;
    let progress = Progress::new(shell);
    let root = workspace.root.clone();
    let fetcher = Fetcher::new(Cache::from_env()?, &root, &progress).offline(args.offline);
    context::resolve_overrides(&mut workspace, &fetcher)?;
    let component = workspace.component(&args.component)?;
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
