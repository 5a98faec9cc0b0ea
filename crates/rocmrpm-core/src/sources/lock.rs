//! Determines the lock file entries for every pin's sources. It does not define the lock format;
//! `workspace` does.

use std::time::Instant;

use super::{Fetcher, Resolved, SourceError, url};
use crate::error::{Diagnose, Diagnosis, Kind};
use crate::events::{Event, Outcome};
use crate::parallel;
use crate::process::ProcessError;
use crate::workspace::pin::{Evidence, Pin, Source};
use crate::workspace::{Lock, LockEntry, PinSet, source_name};

/// Maximum number of pins to process in parallel, to limit the load on upstream servers.
const AT_ONCE: usize = 4;

/// A lock, with the sources that could not be recorded completely.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Locked {
    /// The new lock.
    pub lock: Lock,
    /// Sources that were unavailable offline and are recorded only with their digest or commit.
    pub unseen: Vec<String>,
}

/// A pin set could not be locked.
#[derive(Debug, thiserror::Error)]
#[error("cannot lock {} of {of} sources; nothing was written", failed.len())]
pub struct LockError {
    /// The name of each failed source and its error.
    pub failed: Vec<(String, SourceError)>,
    /// Total number of sources.
    pub of: usize,
}

impl Diagnose for LockError {
    fn diagnosis(&self) -> Diagnosis {
        let kind = self.failed.first().map_or(Kind::Internal, |(_, error)| error.kind());
        let mut all = Diagnosis::from(kind);
        for (name, error) in &self.failed {
            let own = error.diagnosis();
            all.details.push(format!("{name}: {error}"));
            let mut cause = std::error::Error::source(error);
            while let Some(error) = cause {
                all.details.push(format!("  caused by: {error}"));
                cause = error.source();
            }
            all.details.extend(own.details.into_iter().map(|line| format!("  {line}")));
            // Show shared help once, and specific help with its name.
            let general = !matches!(
                error,
                SourceError::NoTag { .. }
                    | SourceError::NoSdist { .. }
                    | SourceError::NoPath { .. }
                    | SourceError::Moved { .. }
            );
            for line in own.help {
                let line = if general || self.failed.len() == 1 {
                    line
                } else {
                    format!("{name}: {line}")
                };
                if !all.help.contains(&line) {
                    all.help.push(line);
                }
            }
        }
        all
    }
}

/// The result for one source.
struct SourceEntry {
    key: (crate::names::ComponentName, String),
    result: Result<Option<SeenSources>, SourceError>,
}

struct SeenSources {
    entry: LockEntry,
    /// Whether the entry is complete.
    whole: bool,
    /// Whether the source was fetched or is in the cache. Otherwise, the entry is from the old lock
    /// or the pin.
    resolved: bool,
}

impl Fetcher<'_> {
    /// Determines the lock entries for every source of a pin set. The pins are as written, without
    /// values from a lock. Never silently changes entries in the `old` lock, and keeps its data for
    /// sources that are unavailable now.
    pub fn lock(&self, pins: &PinSet, old: &Lock) -> Result<Locked, crate::error::Error> {
        let pins: Vec<&Pin> = pins.pins.values().map(|at| &at.value).collect();
        let sources = pins.iter().flat_map(|pin| pin.all_sources());
        let total = sources.filter(|(_, pin)| !is_own(&pin.source)).count();
        self.send(Event::Planned { total, numbered_at_end: true });
        let found = parallel::map(&pins, AT_ONCE, |pin| self.lock_pin(pin, old))?;
        let (mut locked, mut failed) = (Locked::default(), Vec::new());
        for SourceEntry { key, result } in found.into_iter().flatten() {
            let name = source_name(key.0.as_str(), &key.1);
            match result {
                Ok(None) => {}
                Ok(Some(SeenSources { entry, whole, .. })) => {
                    if !whole {
                        locked.unseen.push(name);
                    }
                    locked.lock.entries.insert(key, entry);
                }
                Err(error @ SourceError::Process(ProcessError::Stopped)) => {
                    return Err(error.into());
                }
                Err(error) => failed.push((name, error)),
            }
        }
        if failed.is_empty() { Ok(locked) } else { Err(LockError { failed, of: total }.into()) }
    }

    fn lock_pin(&self, pin: &Pin, old: &Lock) -> Vec<SourceEntry> {
        let component = &pin.component;
        let mut main = Pin { sources: Default::default(), ..pin.clone() };
        let known = old.entry(component, "", &main);
        let result = self.lock_source(component.as_str(), "", &mut main, known);
        let main_failed = result.is_err();
        let mut found = vec![SourceEntry { key: (component.clone(), String::new()), result }];
        for (name, source) in &pin.sources {
            let mut source = source.clone();
            if pin.follows.is_some() && source.version == pin.version {
                source.version.clone_from(&main.version);
            }
            let mut as_recorded = source.clone();
            if let (Source::Crates { of, .. }, Source::Crates { of: recorded, .. }) =
                (&mut source.source, &mut as_recorded.source)
            {
                if main_failed {
                    continue;
                }
                **of = main.clone();
                // Crates share the recorded data of the main source.
                let known = old.entry(component, "", &main).cloned().map(Box::new);
                **recorded = Pin { evidence: Evidence(known), ..main.clone() };
            }
            let known = old.entry(component, name, &as_recorded);
            let result = self.lock_source(component.as_str(), name, &mut source, known);
            found.push(SourceEntry { key: (component.clone(), name.clone()), result });
        }
        found
    }

    /// Determines the lock entry of a source and writes its digest or commit into the pin.
    fn lock_source(
        &self,
        component: &str,
        name: &str,
        pin: &mut Pin,
        known: Option<&LockEntry>,
    ) -> Result<Option<SeenSources>, SourceError> {
        let table = source_name(component, name);
        let started = Instant::now();
        let result = self.look(&table, pin, known);
        let outcome = match &result {
            Ok(None) => return result,
            Ok(Some(SeenSources { resolved: true, .. })) => Outcome::Resolved,
            Ok(Some(_)) => Outcome::Recorded,
            Err(SourceError::Process(ProcessError::Stopped)) => Outcome::Stopped,
            Err(_) => Outcome::Failed,
        };
        let (component, detail) = (pin.component.clone(), pin.version.clone());
        let seconds = started.elapsed().as_secs_f64();
        self.send(Event::Finished { component, outcome, seconds, detail });
        result
    }

    fn look(
        &self,
        table: &str,
        pin: &mut Pin,
        known: Option<&LockEntry>,
    ) -> Result<Option<SeenSources>, SourceError> {
        if is_own(&pin.source) {
            return Ok(None);
        }
        if pin.follows.is_some() {
            self.settle_branch(pin, known)?;
        } else if !pin.source.is_immutable() {
            self.settle(table, pin, known)?;
        }
        let version = pin.version.clone();
        if let Source::Url { url, .. } | Source::Git { url, .. } = &pin.source
            && url::is_unprotected(url)
        {
            let url = url::shown(url);
            self.warn(format!(
                "{url} is fetched without TLS: only the locked digest protects `{table}`"
            ));
        }
        let mut entry = LockEntry { version, ..LockEntry::default() };
        let looked = match &pin.source {
            Source::Url { url: origin, sha256 }
            | Source::Sdist { project: origin, sha256 }
            | Source::Wheel { file: origin, sha256 } => {
                entry.origin.clone_from(origin);
                entry.sha256 = *sha256;
                self.obtain(pin).map(|fetched| entry.size = Some(fetched.size))
            }
            Source::Git { url, commit, paths, .. } => {
                entry.origin.clone_from(url);
                entry.branch = pin.follows.as_ref().map(|follows| follows.branch.clone());
                entry.commit.clone_from(commit);
                entry.paths.clone_from(paths);
                self.facts(pin).map(|facts| {
                    entry.tree = Some(facts.tree);
                    entry.submodules = facts.submodules;
                })
            }
            Source::Crates { lock_file, of } => {
                entry.origin.clone_from(lock_file);
                self.named_crates(lock_file, of).and_then(|named| {
                    entry.sha256 = Some(named.sha256);
                    entry.crates = u64::try_from(named.crates()).ok();
                    entry.git = named.git;
                    entry.archive = Some(self.pack_crates(pin, lock_file, of)?);
                    Ok(())
                })
            }
            Source::Folder { .. } => return Ok(None),
        };
        match looked {
            Ok(()) => Ok(Some(SeenSources { entry, whole: true, resolved: true })),
            Err(SourceError::Offline { .. }) => {
                let mut kept =
                    known.filter(|known| known.commit == entry.commit).cloned().unwrap_or(entry);
                if matches!(pin.source, Source::Git { submodules: false, .. }) {
                    kept.submodules = None;
                }
                Ok(Some(SeenSources { whole: is_whole(&kept, pin), resolved: false, entry: kept }))
            }
            Err(error) => Err(error),
        }
    }

    /// Resolves a pin to an immutable reference. A locked reference must not change.
    fn settle(
        &self,
        table: &str,
        pin: &mut Pin,
        known: Option<&LockEntry>,
    ) -> Result<(), SourceError> {
        let resolved = match self.resolve(pin) {
            Ok(resolved) => resolved,
            Err(SourceError::Offline { .. } | SourceError::Unprotected { .. })
                if known.is_some() =>
            {
                let known = known.cloned().unwrap_or_default();
                match &mut pin.source {
                    Source::Url { sha256, .. }
                    | Source::Sdist { sha256, .. }
                    | Source::Wheel { sha256, .. } => *sha256 = known.sha256,
                    Source::Git { commit, .. } => *commit = known.commit,
                    Source::Folder { .. } | Source::Crates { .. } => {}
                }
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if let Some(moved) = known.and_then(|known| moved(table, pin, &resolved, known)) {
            return Err(moved);
        }
        resolved.settle(pin);
        Ok(())
    }
}

/// Returns whether the workspace's own history records a source: a folder, and crates whose
/// `Cargo.lock` is in such a folder. That file has the digest of every crate.
fn is_own(source: &Source) -> bool {
    match source {
        Source::Folder { .. } => true,
        Source::Crates { of, .. } => is_own(&of.source),
        _ => false,
    }
}

/// Returns the error for a pin that no longer resolves to the locked reference.
fn moved(table: &str, pin: &Pin, resolved: &Resolved, known: &LockEntry) -> Option<SourceError> {
    let (what, locked, found) = match (resolved, &pin.source) {
        (Resolved::Commit { commit, tag }, Source::Git { url, .. }) => {
            let locked = known.commit.as_ref().filter(|locked| *locked != commit)?;
            let tag = tag.as_deref().unwrap_or(&pin.version);
            let what = format!("the tag `{tag}` of {}", url::shown(url));
            (what, format!("commit {locked}"), format!("commit {commit}"))
        }
        (Resolved::File { sha256, .. }, source) => {
            let locked = known.sha256.filter(|locked| locked != sha256)?;
            let what = match source {
                Source::Url { url, .. } => format!("the file {}", url::shown(url)),
                Source::Wheel { file, .. } => format!("the wheel `{file}`"),
                _ => format!("the sdist of `{}` {}", pin.component, pin.version),
            };
            (what, format!("sha256 {locked}"), format!("sha256 {sha256}"))
        }
        _ => return None,
    };
    Some(SourceError::Moved { what, locked, found, table: table.to_owned() })
}

/// Returns whether an entry is complete for its kind of source.
fn is_whole(entry: &LockEntry, pin: &Pin) -> bool {
    match &pin.source {
        Source::Url { .. } | Source::Sdist { .. } | Source::Wheel { .. } => entry.size.is_some(),
        Source::Git { submodules, .. } => {
            entry.tree.is_some() && *submodules == entry.submodules.is_some()
        }
        Source::Crates { .. } => entry.sha256.is_some(),
        Source::Folder { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Sha256;
    use crate::sources::Fetched;
    use crate::sources::fetcher::verify_file;
    use crate::sources::name::tests::pin;

    fn file() -> Source {
        Source::Url { url: "https://h/x.tar.gz".into(), sha256: None }
    }

    #[test]
    fn verifies_the_size_of_the_locked_file() {
        let sha256 = Sha256::of_bytes("x");
        let fetched = Fetched {
            path: "x".into(),
            file_name: "x.tar.gz".into(),
            sha256,
            size: 7,
            top_folder: None,
        };
        // The locked size applies only to a file with the locked digest.
        for (digest, size, right) in [
            (Some(sha256), Some(7), true),
            (Some(sha256), Some(8), false),
            (Some(sha256), None, true),
            (Some(Sha256::of_bytes("y")), Some(8), true),
            (None, Some(8), true),
        ] {
            let mut pin = pin("1", file());
            assert!(verify_file(&pin, &fetched).is_ok(), "not locked");
            pin.evidence.0 =
                Some(Box::new(LockEntry { sha256: digest, size, ..LockEntry::default() }));
            assert_eq!(verify_file(&pin, &fetched).is_ok(), right, "{digest:?} {size:?}");
        }
    }

    #[test]
    fn rejects_tags_and_files_that_changed_since_they_were_locked() {
        let git = || Source::Git {
            url: "https://h/x".into(),
            commit: None,
            submodules: false,
            paths: vec![],
        };
        let wheel = || Source::Wheel { file: "a-1-py3-none-any.whl".into(), sha256: None };
        let sdist = || Source::Sdist { project: "demo".into(), sha256: None };
        let (old, new) = (Sha256::of_bytes("old"), Sha256::of_bytes("new"));
        let file = |sha256| Resolved::File { url: None, sha256, size: 1 };
        let commit = |commit: &str, tag: Option<&str>| {
            let (commit, tag) = (commit.to_owned(), tag.map(str::to_owned));
            Resolved::Commit { commit, tag }
        };
        let known =
            LockEntry { commit: Some("1a".into()), sha256: Some(old), ..LockEntry::default() };
        for (source, resolved, what) in [
            (git(), commit("2b", Some("v1")), Some("the tag `v1` of https://h/x")),
            (git(), commit("2b", None), Some("the tag `1` of https://h/x")),
            (git(), commit("1a", Some("v1")), None),
            (self::file(), file(new), Some("the file https://h/x.tar.gz")),
            (wheel(), file(new), Some("the wheel `a-1-py3-none-any.whl`")),
            (sdist(), file(new), Some("the sdist of `demo` 1")),
            (sdist(), file(old), None),
            (Source::Folder { path: "x".into(), paths: vec![] }, Resolved::Folder, None),
        ] {
            let pin = pin("1", source);
            let found = moved("demo", &pin, &resolved, &known).map(|error| match error {
                SourceError::Moved { what, .. } => what,
                error => panic!("{error}"),
            });
            assert_eq!(found.as_deref(), what, "{pin:?} {resolved:?}");
            // Without a locked value, any result is accepted.
            assert!(moved("demo", &pin, &resolved, &LockEntry::default()).is_none());
        }
    }

    #[test]
    fn entries_are_complete_with_all_properties_of_their_source() {
        let git =
            |submodules| Source::Git { url: "x".into(), commit: None, submodules, paths: vec![] };
        let none = LockEntry::default;
        let tree = || LockEntry { tree: Some("x".into()), ..none() };
        for (source, entry, whole) in [
            (file(), none(), false),
            (file(), LockEntry { size: Some(1), ..none() }, true),
            (git(false), none(), false),
            (git(false), tree(), true),
            (git(true), tree(), false),
            (git(true), LockEntry { submodules: Some([].into()), ..tree() }, true),
            (git(false), LockEntry { submodules: Some([].into()), ..tree() }, false),
            (Source::Folder { path: "x".into(), paths: vec![] }, none(), true),
        ] {
            assert_eq!(is_whole(&entry, &pin("1", source.clone())), whole, "{source:?} {entry:?}");
        }
    }
}
