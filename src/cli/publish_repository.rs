//! `rocmrpm publish repository`.

use std::path::Path;

use serde::Serialize;

use super::{CommandResult, args, context};
use crate::build::BuildLock;
use crate::digest::Sha256;
use crate::document::Document;
use crate::error::Error;
use crate::index::publish::Destination;
use crate::publication::{Change, Published};
use crate::publishing::{PlannedPackages, Target, apply_packages, plan_packages};
use crate::report::{Shell, Style, count, human_size};
use crate::stack::Stack;

pub(super) fn run(args: &args::PublishRepository, dir: &Path, shell: &Shell) -> CommandResult {
    let to = &args.destination;
    let destination = Destination::parse(&to.destination, to.endpoint_url.as_deref())?;
    let target = Target::open(destination, !to.dry_run, to.allow_rollback)?;
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let stack = Stack::new(&workspace)?;
    let lock = BuildLock::take(&workspace)?;
    let PlannedPackages { change, signed } =
        plan_packages(&target, &stack, &lock, args.allow_dirty)?;
    let place = target.place();
    for package in change.added.iter().filter(|package| package.is_dirty()) {
        shell.warning(format!(
            "{} comes from a dirty build, which no one else can repeat",
            package.file
        ));
    }
    if !to.json {
        show(&change, to.dry_run, shell)?;
    }
    if !to.dry_run {
        apply_packages(&target, &change)?;
    }
    if to.json {
        shell.json(&document(&change, &place.name(), to.dry_run))?;
    }
    match (to.dry_run, change.is_empty()) {
        (_, true) => shell.status(Style::Good, "Unchanged", place.name()),
        (true, _) => shell.talk("dry run: no changes made"),
        (false, _) => {
            let (new, all) = (change.added.len(), change.added.len() + change.kept.len());
            let text = format!("{}, {new} of them new, to {}", count(all, "package"), place.name());
            shell.status(Style::Good, "Published", text);
        }
    }
    if !signed && !change.is_empty() {
        shell.warning(
            "packages and metadata are unsigned; Fedora 45 and later install them only with `--no-gpgchecks`",
        );
    }
    Ok(0)
}

/// Prints the parts of a change, to stdout for a dry run.
fn show(change: &Change, dry_run: bool, shell: &Shell) -> Result<(), Error> {
    let line = |word: &'static str, package: &Published| {
        (word, format!("{} ({})", package.file, human_size(package.size)))
    };
    let mut lines: Vec<(&'static str, String)> = Vec::new();
    lines.extend(change.added.iter().map(|package| line("Add", package)));
    lines.extend(change.leaving.iter().map(|package| line("Drop", package)));
    if dry_run {
        lines.extend(change.kept.iter().map(|package| line("Keep", package)));
        lines.extend(change.written().map(|path| ("Write", path.to_owned())));
        lines.extend(change.removed().iter().map(|path| ("Remove", path.clone())));
    }
    for (word, text) in lines {
        if dry_run {
            shell.data(format!("{word:>12} {text}"))?;
        } else {
            shell.status(Style::Good, word, text);
        }
    }
    Ok(())
}

/// What `rocmrpm publish repository --json` prints: what changes in a repository.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RepositoryReport<'a> {
    schema: &'static str,
    /// The repository.
    destination: &'a str,
    /// Whether nothing was written, because of `--dry-run`.
    dry_run: bool,
    /// New packages.
    added: Vec<PublishedPackage<'a>>,
    /// Packages that stay.
    kept: Vec<PublishedPackage<'a>>,
    /// Packages that the metadata no longer list.
    leaving: Vec<PublishedPackage<'a>>,
    /// Files that are written.
    written: Vec<&'a str>,
    /// Files that are removed.
    removed: &'a [String],
}

/// A package of a repository.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PublishedPackage<'a> {
    /// Its file name.
    file: &'a str,
    /// Its size in bytes.
    size: u64,
    /// Its digest.
    sha256: Sha256,
}

impl Document for RepositoryReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/publish-repository/1";
}

fn document<'a>(change: &'a Change, destination: &'a str, dry_run: bool) -> RepositoryReport<'a> {
    fn list(packages: &[Published]) -> Vec<PublishedPackage<'_>> {
        packages
            .iter()
            .map(|p| PublishedPackage { file: &p.file, size: p.size, sha256: p.sha256 })
            .collect()
    }
    RepositoryReport {
        schema: RepositoryReport::SCHEMA,
        destination,
        dry_run,
        added: list(&change.added),
        kept: list(&change.kept),
        leaving: list(&change.leaving),
        written: change.written().collect(),
        removed: change.removed(),
    }
}
