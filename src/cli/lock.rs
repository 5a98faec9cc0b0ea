//! `rocmrpm lock`.

use std::path::Path;

use super::{Done, args, context};
use crate::error::IoError;
use crate::events::Events;
use crate::files;
use crate::report::{Progress, Shell, Style, count};
use crate::sources::{Cache, Fetcher, Resolved};
use crate::workspace::{Lock, LockEntry, Pin, Source};

pub(super) fn run(args: &args::Lock, dir: &Path, shell: &Shell) -> Done {
    let choice = args::Choice { chroot: None, pins: args.pins.clone() };
    let workspace = context::workspace(dir, &choice, &[])?;
    let progress = Progress::new(shell);
    let events: &dyn Events = &progress;
    let fetcher = Fetcher::new(Cache::from_env()?, &workspace.root, events);
    let mut lock = Lock::default();
    for (name, at) in &workspace.pins.pins {
        let pin = &at.value;
        let Some(origin) = origin(pin) else { continue };
        let resolved = fetcher.resolve(pin)?;
        let version = pin.version.clone();
        let entry = match resolved {
            Resolved::File { sha256, size, .. } => {
                LockEntry { version, origin, sha256: Some(sha256), commit: None, size: Some(size) }
            }
            Resolved::Commit { commit, .. } => {
                LockEntry { version, origin, sha256: None, commit: Some(commit), size: None }
            }
            Resolved::Folder => continue,
        };
        lock.entries.insert(name.clone(), entry);
    }
    let shown = format!("pins/{}.lock", workspace.pins.name);
    // Written only when every pin was resolved: a partial lock would look whole.
    let changed = files::write_if_changed(&workspace.root.join(&shown), lock.text())
        .map_err(IoError::doing(format!("write `{shown}`")))?;
    drop(progress);
    let (style, word) = if changed { (Style::Good, "Locked") } else { (Style::Dim, "Unchanged") };
    shell.status(style, word, format!("{shown}: {}", count(lock.entries.len(), "source")));
    Ok(0)
}

fn origin(pin: &Pin) -> Option<String> {
    match &pin.source {
        Source::Url { url, .. } | Source::Git { url, .. } => Some(url.clone()),
        Source::Sdist { project, .. } => Some(project.clone()),
        Source::Folder { .. } | Source::Crates { .. } => None,
    }
}
