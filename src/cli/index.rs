//! `rocmrpm index`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::{CommandResult, args, context};
use crate::build::BuildLock;
use crate::document::Document;
use crate::foreign;
use crate::outputs;
use crate::production::write_index;
use crate::report::{Progress, Shell};
use crate::sources::{Cache, Fetcher};
use crate::stack::Stack;
use crate::text::file_url;

/// What `rocmrpm index --json` prints: the pip index of the wheels.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct IndexReport<'a> {
    schema: &'static str,
    /// The URL for pip's `--index-url`.
    url: &'a str,
    /// Whether any page or package changed.
    changed: bool,
    /// How many wheels each distribution has, by normalized name.
    distributions: &'a BTreeMap<String, usize>,
    /// How many of the wheels the stack did not build.
    foreign: usize,
}

impl Document for IndexReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/index/1";
}

pub(super) fn run(args: &args::Index, dir: &Path, shell: &Shell) -> CommandResult {
    match &args.command {
        None => write(args, dir, shell),
        Some(args::IndexCommand::Check(args)) => super::index_check::run(args, dir, shell),
        Some(args::IndexCommand::Serve(args)) => super::index_serve::run(args, dir, shell),
    }
}

fn write(args: &args::Index, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let stack = Stack::new(&workspace)?;
    let lock = BuildLock::take(&workspace)?;
    let progress = Progress::new(shell);
    let wheels = outputs::make_wheels(&lock, &stack, &progress)?;
    let fetcher = Fetcher::new(Cache::from_env()?, &workspace.root, &progress);
    let foreign = foreign::wheels(&workspace, &wheels, &fetcher, &progress)?;
    let written = write_index(&wheels, &foreign, &workspace, &progress)?;
    drop(progress);
    if wheels.is_empty() {
        shell.warning(super::wheel::no_wheels(&workspace));
    }
    let url = file_url(&written.simple);
    if args.json {
        shell.json(&IndexReport {
            schema: IndexReport::SCHEMA,
            url: &url,
            changed: written.changed,
            distributions: &written.distributions,
            foreign: written.foreign,
        })?;
    } else {
        shell.data(url)?;
    }
    Ok(0)
}
