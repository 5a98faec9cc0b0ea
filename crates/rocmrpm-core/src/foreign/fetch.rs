//! Fetches the wheels of a lock, and refuses those that may not be redistributed. Does not resolve.

use super::{ForeignError, foreign_in, metadata_of};
use crate::closure::lock::Lock;
use crate::closure::metadata::about;
use crate::closure::{Locked, LockedOrigin, never_reason};
use crate::error::Error;
use crate::events::{Event, Events};
use crate::index::Foreign;
use crate::index::outside::Outside;
use crate::license;
use crate::names::ComponentName;
use crate::parallel;
use crate::sources::{Fetched, Fetcher, SourceError};
use crate::wheel;
use crate::workspace::{Pin, Source, Workspace};

/// The number of parallel downloads.
const PARALLEL: usize = 8;

/// Fetches the foreign wheels of a lock from the first outside index that has each.
pub(super) fn all(
    workspace: &Workspace,
    lock: &Lock,
    outside: &[Outside],
    fetcher: &Fetcher<'_>,
    events: &dyn Events,
) -> Result<Vec<Foreign>, Error> {
    let fetchers: Vec<Fetcher<'_>> =
        outside.iter().map(|index| fetcher.at_index(&index.url)).collect();
    let wanted: Vec<&Locked> = foreign_in(lock).collect();
    let never = wanted.iter().filter_map(|locked| never(workspace, locked)).collect::<Vec<_>>();
    if !never.is_empty() {
        return Err(ForeignError::Refused { refused: never }.into());
    }
    let foreign = parallel::try_map(&wanted, PARALLEL, |locked| one(locked, &fetchers))?;
    let refused: Vec<String> = wanted
        .iter()
        .zip(&foreign)
        .filter_map(|(locked, foreign)| refused(workspace, locked, foreign))
        .collect();
    if !refused.is_empty() {
        return Err(ForeignError::Refused { refused }.into());
    }
    for rule in &workspace.manifest.index.foreign {
        let name = &rule.name.value;
        if workspace.manifest.index.license(name).is_some() && lock.version(name).is_none() {
            events.event(Event::Warning(format!(
                "`[[index.foreign]]` states the license of `{name}`, which nothing requires; remove it"
            )));
        }
    }
    Ok(foreign)
}

/// Returns why a distribution never comes from an index, unless a packager decided otherwise.
fn never(workspace: &Workspace, locked: &Locked) -> Option<String> {
    let decided = workspace.manifest.index.license(&locked.name).is_some();
    let reason = never_reason(&workspace.upstreams, &locked.name).filter(|_| !decided)?;
    Some(format!("{} {}: {reason}", locked.name, locked.version))
}

fn one(locked: &Locked, fetchers: &[Fetcher<'_>]) -> Result<Foreign, ForeignError> {
    let wrong = |file: &str, reason: String| ForeignError::Wheel { file: file.to_owned(), reason };
    let LockedOrigin::Index { wheel: Some(file), .. } = &locked.origin else {
        return Err(wrong(&locked.name, "the lock has no wheel of it".into()));
    };
    let component = ComponentName::parse(&locked.name)
        .ok_or_else(|| wrong(&file.name, "its name cannot be that of a source".into()))?;
    let source = Source::Wheel { file: file.name.clone(), sha256: Some(file.sha256) };
    let pin = Pin::new(component, locked.version.to_string(), source);
    let path = obtain(&pin, fetchers)?.path;
    let metadata = metadata_of(&path).map_err(|reason| wrong(&file.name, reason))?;
    match wheel::name_and_version(&metadata) {
        Ok((name, version)) if name == locked.name && version == locked.version => {}
        Ok((name, version)) => {
            return Err(wrong(&file.name, format!("its METADATA is for {name} {version}")));
        }
        Err(reason) => return Err(wrong(&file.name, reason)),
    }
    Ok(Foreign { path, name: file.name.clone(), sha256: file.sha256, metadata })
}

/// Fetches a wheel from the first index that has it.
fn obtain(pin: &Pin, fetchers: &[Fetcher<'_>]) -> Result<Fetched, SourceError> {
    let mut missing = None;
    for fetcher in fetchers {
        match fetcher.obtain(pin) {
            Err(error @ (SourceError::NoWheel { .. } | SourceError::NoProject { .. })) => {
                missing.get_or_insert(error);
            }
            other => return other,
        }
    }
    Err(missing.unwrap_or_else(|| SourceError::NoIndex {
        reason: "`[index] outside` in rocmrpm.toml names none".into(),
    }))
}

/// Returns why a wheel may not be redistributed.
fn refused(workspace: &Workspace, locked: &Locked, foreign: &Foreign) -> Option<String> {
    let Locked { name, version, .. } = locked;
    let rules = workspace.with_closure().and_then(|component| component.closure.as_ref());
    let of_closure = || rules.and_then(|rules| rules.member(name)?.license.clone());
    let stated = workspace.manifest.index.license(name).map(str::to_owned).or_else(of_closure);
    let why = match stated.or_else(|| about(&foreign.metadata).license) {
        None => "its metadata does not state its license".to_owned(),
        Some(license) => license::refused(&license)?,
    };
    Some(format!("{name} {version}: {why}"))
}
