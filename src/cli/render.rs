//! `rocmrpm render`.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Done, args, context, dist_git};
use crate::container;
use crate::document::Document;
use crate::error::{IoError, Problems};
use crate::files;
use crate::report::{Shell, Style, count};
use crate::spec::{self, History};
use crate::stack::Stack;

/// A file with its expected text.
struct Wanted {
    path: PathBuf,
    text: String,
    /// Whether the file is committed to the workspace's history, so that `--check` compares it.
    committed: bool,
}

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

pub(super) fn run(args: &args::Render, dir: &Path, shell: &Shell) -> Done {
    if args.form == Some(args::RenderForm::DistGit) {
        return dist_git::run(args, dir, shell);
    }
    let workspace = context::workspace(dir, &args.choice, &args.pin.overrides)?;
    let stack = Stack::new(&workspace)?;
    let history = History::read(&workspace)?;
    if let Some(warning) = &history.warning {
        shell.warning(warning);
    }
    let mut wanted = Vec::new();
    let mut problems = Problems::default();
    for component in stack.order() {
        match spec::render(&stack, component, &history) {
            Ok(rendered) => wanted.push(Wanted {
                path: workspace.build_dir().join("specs").join(&rendered.file_name),
                text: rendered.text,
                committed: false,
            }),
            Err(error) => problems.absorb(error)?,
        }
    }
    if !problems.0.is_empty() {
        return Err(problems.into());
    }
    for (path, text) in container::wanted(&workspace)? {
        let committed = args.pin.overrides.is_empty();
        wanted.push(Wanted { path, text, committed });
    }

    let mut different = 0;
    let mut files = Vec::new();
    for Wanted { path, text, committed } in &wanted {
        let shown = path.strip_prefix(&workspace.root).unwrap_or(path).display().to_string();
        let old = fs_err::read_to_string(path).unwrap_or_default();
        files.push(RenderedFile { path, committed: *committed, differs: old != *text });
        if args.diff {
            let diff = similar::TextDiff::from_lines(&old, text);
            let unified = diff.unified_diff().header(&shown, &shown).to_string();
            if !unified.is_empty() {
                shell.data(colored(&unified))?;
            }
        }
        if args.check || args.diff {
            if old != *text && *committed {
                different += 1;
                shell.status(Style::Bad, "Differs", &shown);
            }
        } else if files::write_if_changed(path, text)
            .map_err(IoError::doing(format!("write `{shown}`")))?
        {
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
