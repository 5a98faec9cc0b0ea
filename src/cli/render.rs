//! `rocmrpm render`.

use std::path::Path;

use serde::Serialize;

use super::{CommandResult, args, context, dist_git};
use crate::document::Document;
use crate::rendered::{self, RenderedFiles};
use crate::report::{Shell, Style, count};
use crate::stack::Stack;

/// What `rocmrpm render --json` prints: the files that follow from the workspace.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RenderReport<'a> {
    schema: &'static str,
    /// The files.
    files: Vec<RenderedFile<'a>>,
}

/// A file that follows from the workspace.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RenderedFile<'a> {
    /// The file.
    path: &'a Path,
    /// Whether it belongs in the history of the workspace.
    committed: bool,
    /// Whether it was out of date.
    differs: bool,
}

impl Document for RenderReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/render/1";
}

pub(super) fn run(args: &args::Render, dir: &Path, shell: &Shell) -> CommandResult {
    if args.form == Some(args::RenderForm::DistGit) {
        return dist_git::run(args, dir, shell);
    }
    let workspace = context::workspace(dir, &args.choice, &args.pin.overrides)?;
    let stack = Stack::new(&workspace)?;
    let RenderedFiles { files: wanted, warning } = rendered::all(&stack)?;
    if let Some(warning) = warning {
        shell.warning(warning);
    }
    let mut different = 0;
    let mut files = Vec::new();
    for file in &wanted {
        let shown = file.shown(&workspace);
        let old = file.old();
        let differs = old != file.text;
        files.push(RenderedFile { path: &file.path, committed: file.committed, differs });
        if args.diff {
            let diff = similar::TextDiff::from_lines(&old, &file.text);
            let unified = diff.unified_diff().header(&shown, &shown).to_string();
            if !unified.is_empty() {
                shell.data(colored(&unified))?;
            }
        }
        if args.check || args.diff {
            if differs && file.committed {
                different += 1;
                shell.status(Style::Bad, "Differs", &shown);
            }
        } else if file.write(&workspace)? {
            shell.status(Style::Good, "Rendered", &shown);
        } else {
            shell.status(Style::Dim, "Unchanged", &shown);
        }
    }
    if args.json {
        shell.json(&RenderReport { schema: RenderReport::SCHEMA, files })?;
    }
    if different > 0 {
        shell.talk(format!(
            "\n{} run `rocmrpm render` to update the files",
            Style::Note.paint("help:")
        ));
        return Ok(u8::from(args.check));
    }
    if args.check {
        let committed = wanted.iter().filter(|file| file.committed).count();
        let specs = count(wanted.len() - committed, "spec");
        shell.status(
            Style::Good,
            "Checked",
            format!("{}; {specs} rendered", count(committed, "committed file")),
        );
    }
    Ok(0)
}

/// Colors the added and removed lines of a diff.
pub(super) fn colored(diff: &str) -> String {
    let paint = |line: &str| match line.chars().next() {
        Some('+') => Style::Good.paint(line),
        Some('-') => Style::Bad.paint(line),
        Some('@') => Style::Note.paint(line),
        _ => line.to_owned(),
    };
    diff.lines().map(|line| paint(line) + "\n").collect()
}
