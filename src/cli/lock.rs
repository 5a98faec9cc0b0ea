//! `rocmrpm lock`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::{CommandResult, args, context, render};
use crate::container;
use crate::delivery::{self, ProviderLock};
use crate::digest::Sha256;
use crate::document::Document;
use crate::events::Events;
use crate::pins::{SetLock, lock_set};
use crate::report::{Progress, Shell, Style, count};
use crate::sources::{Cache, Fetcher, Locked, Moving};
use crate::workspace::Lock;
use crate::workspace::pin::LockEntry;

pub(super) fn run(args: &args::Lock, dir: &Path, shell: &Shell) -> CommandResult {
    let choice = args::Choice { chroot: None, pins: args.pins.clone() };
    let workspace = context::workspace(dir, &choice, &[])?;
    let set = &workspace.pins;
    let progress = Progress::new(shell);
    let events: &dyn Events = &progress;
    let moving = if args.update { Moving::All } else { Moving::Nothing };
    let fetcher = Fetcher::new(Cache::from_env()?, &workspace.root, events);
    let fetcher = fetcher.offline(args.offline).moves(moving);
    let mut lock = lock_set(&workspace.root, &set.name, set.file.clone(), &fetcher)?;
    lock.locked.lock.images = container::lock_images(&workspace, &lock.old, args.images, events)?;
    lock.text = lock.locked.lock.text();
    let rocm = delivery::lock_all(&workspace, &fetcher)?;
    drop(fetcher);
    drop(progress);
    let SetLock { name: shown, old_text, old: old_lock, locked, text, .. } = &lock;
    let differs = lock.differs();
    let diff = similar::TextDiff::from_lines(old_text, text)
        .unified_diff()
        .header(shown, shown)
        .to_string();
    // Written only if every source was resolved: a partial lock file would look complete.
    if !args.check && differs {
        lock.write()?;
    }
    for of in rocm.iter().filter(|of| !args.check && of.differs()) {
        of.write()?;
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
            rocm: rocm.iter().map(LockedProvider::of).collect(),
        })?;
    } else if args.check && differs {
        shell.data(render::colored(&diff))?;
    }
    warn(locked, old_lock, shell);
    Ok(report(&lock, &rocm, args.check, shell))
}

/// Reports which lock files were written, or with `check` which are out of date; returns the exit code.
fn report(lock: &SetLock, rocm: &[ProviderLock], check: bool, shell: &Shell) -> u8 {
    for of in rocm {
        let files = format!("{}: {}", of.name, count(of.lock.files.len(), "ROCm file"));
        match (check, of.differs()) {
            (true, true) => shell.status(Style::Bad, "Differs", files),
            (true, false) => shell.status(Style::Good, "Checked", files),
            (false, true) => shell.status(Style::Good, "Locked", files),
            (false, false) => shell.status(Style::Dim, "Unchanged", files),
        }
    }
    let entries = &lock.locked.lock.entries;
    let sources = format!("{}: {}", lock.name, count(entries.len(), "source"));
    let help = match (check, lock.differs()) {
        (true, true) => {
            shell.status(Style::Bad, "Differs", sources);
            match lock.locked.lock.learned_since(&lock.old) {
                Some(names) => format!(
                    "run `rocmrpm lock` to complete the entries of {}, which were unreachable when locked",
                    names.join(", ")
                ),
                None => "run `rocmrpm lock` to update it".to_owned(),
            }
        }
        (true, false) => {
            shell.status(Style::Good, "Checked", sources);
            if !rocm.iter().any(ProviderLock::differs) {
                return 0;
            }
            "run `rocmrpm lock` to update the lock of ROCm".to_owned()
        }
        (false, true) => {
            shell.status(Style::Good, "Locked", sources);
            return 0;
        }
        (false, false) => {
            shell.status(Style::Dim, "Unchanged", sources);
            return 0;
        }
    };
    shell.talk(format!("\n{} {help}", Style::Note.paint("help:")));
    1
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
    /// The locks of ROCm providers that have files instead of packages.
    rocm: Vec<LockedProvider<'a>>,
}

/// The lock of a ROCm provider.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LockedProvider<'a> {
    /// The provider.
    provider: &'a str,
    /// The lock file, relative to the workspace.
    file: &'a str,
    /// Whether the file was out of date.
    differs: bool,
    /// The locked files.
    files: Vec<LockedFile<'a>>,
}

/// A file of ROCm.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LockedFile<'a> {
    /// Its name.
    name: &'a str,
    /// Its digest.
    sha256: Sha256,
}

impl<'a> LockedProvider<'a> {
    fn of(lock: &'a ProviderLock) -> Self {
        let files = lock.lock.files.iter();
        Self {
            provider: &lock.provider,
            file: &lock.name,
            differs: lock.differs(),
            files: files.map(|f| LockedFile { name: &f.name, sha256: f.sha256 }).collect(),
        }
    }
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
