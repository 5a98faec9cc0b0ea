//! `rocmrpm lock`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::{Done, args, context, render};
use crate::container;
use crate::digest::Sha256;
use crate::document::Document;
use crate::error::{Error, IoError};
use crate::events::{Event, Events};
use crate::files;
use crate::pins::{SetLock, lock_set};
use crate::report::{Progress, Shell, Style, count};
use crate::sources::{Cache, Fetcher, Locked, Moving};
use crate::workspace::pin::LockEntry;
use crate::workspace::{Lock, Workspace};

pub(super) fn run(args: &args::Lock, dir: &Path, shell: &Shell) -> Done {
    let choice = args::Choice { chroot: None, pins: args.pins.clone() };
    let workspace = context::workspace(dir, &choice, &[])?;
    let set = &workspace.pins;
    let progress = Progress::new(shell);
    let events: &dyn Events = &progress;
    let moving = if args.update { Moving::All } else { Moving::Nothing };
    let fetcher = Fetcher::new(Cache::from_env()?, &workspace.root, events);
    let fetcher = fetcher.offline(args.offline).moves(moving);
    let mut lock = lock_set(&workspace.root, &set.name, set.file.clone(), &fetcher)?;
    lock.locked.lock.images = images(&workspace, &lock.old, args.images, events)?;
    lock.text = lock.locked.lock.text();
    drop(fetcher);
    drop(progress);
    let SetLock { name: shown, path, old_text, old: old_lock, locked, text } = &lock;
    let differs = lock.differs();
    let diff = similar::TextDiff::from_lines(old_text, text)
        .unified_diff()
        .header(shown, shown)
        .to_string();
    // Written only if every source was resolved: a partial lock file would look complete.
    if !args.check && differs {
        files::write_durably(path, text).map_err(IoError::doing(format!("write `{shown}`")))?;
    }
    if args.json {
        let sources = locked.lock.entries.iter().map(|((component, source), entry)| LockedSource {
            component: component.as_str(),
            source,
            entry,
        });
        shell.json(&LockReport {
            schema: LockReport::SCHEMA,
            pins: &set.name,
            file: shown,
            differs,
            written: differs && !args.check,
            unseen: &locked.unseen,
            sources: sources.collect(),
            images: &locked.lock.images,
        })?;
    } else if args.check && differs {
        shell.data(render::colored(&diff))?;
    }
    warn(locked, old_lock, shell);
    let sources = format!("{shown}: {}", count(locked.lock.entries.len(), "source"));
    match (args.check, differs) {
        (true, true) => {
            shell.status(Style::Bad, "Differs", sources);
            let help = match locked.lock.learned_since(old_lock) {
                Some(names) => format!(
                    "run `rocmrpm lock` to complete the entries of {}, which were unreachable when locked",
                    names.join(", ")
                ),
                None => "run `rocmrpm lock` to update it".to_owned(),
            };
            shell.talk(format!("\n{} {help}", Style::Note.paint("help:")));
            return Ok(1);
        }
        (true, false) => shell.status(Style::Good, "Checked", sources),
        (false, true) => shell.status(Style::Good, "Locked", sources),
        (false, false) => shell.status(Style::Dim, "Unchanged", sources),
    }
    Ok(0)
}

/// Returns the digests of the base images that container files start from: those in the old lock, or
/// with `update`, those that the registries have now.
fn images(
    workspace: &Workspace,
    old: &Lock,
    update: bool,
    events: &dyn Events,
) -> Result<BTreeMap<String, Sha256>, Error> {
    let mut images = BTreeMap::new();
    for image in container::unpinned(workspace)? {
        let digest = match old.images.get(&image) {
            _ if update => {
                events.event(Event::Step { word: "Reading", detail: image.clone() });
                container::digest_of(&image)?
            }
            Some(known) => *known,
            None => continue,
        };
        images.insert(image, digest);
    }
    Ok(images)
}

/// Warns about sources that were not fetched, and about versions that changed nothing.
fn warn(locked: &Locked, old_lock: &Lock, shell: &Shell) {
    if !locked.unseen.is_empty() {
        shell.warning(format!(
            "{} not in the cache, recorded only by digest or commit: {}",
            count(locked.unseen.len(), "source"),
            locked.unseen.join(", ")
        ));
    }
    let unmoved = locked.lock.unmoved_since(old_lock);
    if !unmoved.is_empty() {
        shell.warning(format!(
            "the version changed, but the commit or digest did not: {}; check the pins",
            unmoved.join(", ")
        ));
    }
}

/// What `rocmrpm lock --json` prints: the locked sources of a pin set.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct LockReport<'a> {
    schema: &'static str,
    /// The pin set.
    pins: &'a str,
    /// The lock file, relative to the workspace.
    file: &'a str,
    /// Whether the file was out of date.
    differs: bool,
    /// Whether it was written.
    written: bool,
    /// Sources that are not in the cache and were recorded by digest or commit only, with `--offline`.
    unseen: &'a [String],
    /// All sources, by component.
    sources: Vec<LockedSource<'a>>,
    /// The digests of base images of container files, by name.
    images: &'a BTreeMap<String, Sha256>,
}

/// A source of a component.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LockedSource<'a> {
    /// The component.
    component: &'a str,
    /// The name of a further source; empty for the main one.
    source: &'a str,
    #[serde(flatten)]
    entry: &'a LockEntry,
}

impl Document for LockReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/lock/1";
}
