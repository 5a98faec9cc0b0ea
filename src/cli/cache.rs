//! `rocmrpm cache`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::{CommandResult, args};
use crate::document::Document;
use crate::report::{Shell, Style, Table, human_size};
use crate::sources::{Cache, CacheEntry};
use args::CacheCommand;

/// The length of a day in seconds.
const DAY: u64 = 24 * 60 * 60;

/// What `rocmrpm cache --json` prints: the size of the cache.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CacheReport {
    schema: &'static str,
    /// The folder.
    path: String,
    /// The size of all entries in bytes.
    size: u64,
    /// The kinds of entries, sorted by folder.
    kinds: Vec<CacheKind>,
}

impl Document for CacheReport {
    const SCHEMA: &'static str = "rocmrpm/cache/1";
}

/// The entries of one kind.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CacheKind {
    /// The folder below the cache.
    folder: &'static str,
    /// What it contains.
    what: &'static str,
    /// The number of entries.
    entries: usize,
    /// Their size in bytes.
    size: u64,
    /// The size in bytes of the entries that were not used in the last 30 days.
    unused: u64,
}

pub(super) fn run(args: &args::Cache, shell: &Shell) -> CommandResult {
    let cache = Cache::from_env()?;
    match &args.command {
        Some(CacheCommand::Prune(prune)) => self::prune(&cache, prune, shell),
        None => show(&cache, args.json, shell),
    }
}

fn show(cache: &Cache, json: bool, shell: &Shell) -> CommandResult {
    let mut kinds: BTreeMap<&str, CacheKind> = BTreeMap::new();
    for entry in cache.entries()? {
        let CacheEntry { kind: folder, what, size, .. } = entry;
        let kind = kinds.entry(folder);
        let kind = kind.or_insert(CacheKind { folder, what, entries: 0, size: 0, unused: 0 });
        kind.entries += 1;
        kind.size += size;
        if entry.unused_for(Duration::from_secs(30 * DAY)) {
            kind.unused += size;
        }
    }
    let size = kinds.values().map(|kind| kind.size).sum();
    let path = cache.dir().display().to_string();
    if json {
        let kinds = kinds.into_values().collect();
        shell.json(&CacheReport { schema: CacheReport::SCHEMA, path, size, kinds })?;
        return Ok(0);
    }
    let mut table = Table::new(&["folder", "entries", "size", "unused for 30 days", "contains"]);
    for kind in kinds.values() {
        table.row([
            kind.folder.to_owned(),
            kind.entries.to_string(),
            human_size(kind.size),
            human_size(kind.unused),
            kind.what.to_owned(),
        ]);
    }
    if !kinds.is_empty() {
        shell.data(table.text())?;
    }
    shell.talk(format!("{} in {path}", human_size(size)));
    Ok(0)
}

fn prune(cache: &Cache, args: &args::CachePrune, shell: &Shell) -> CommandResult {
    let unused = Duration::from_secs(u64::from(args.days) * DAY);
    let mut freed = 0;
    for entry in cache.entries()?.iter().filter(|entry| entry.unused_for(unused)) {
        freed += entry.size;
        if args.dry_run {
            shell.data(entry.path.display())?;
        } else {
            cache.remove(entry)?;
        }
    }
    let word = if args.dry_run { "Would free" } else { "Freed" };
    shell.status(Style::Good, word, human_size(freed));
    Ok(0)
}
