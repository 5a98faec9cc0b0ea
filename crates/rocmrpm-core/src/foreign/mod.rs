//! The wheels that an index has beside the stack's own, so that installers need no other index.
//! `pins/<set>.index.lock` names each with its digest. Does not write the index.

mod error;
mod fetch;
mod resolve;
mod solve;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fs_err as fs;

pub use error::ForeignError;
pub use solve::{Unsolved, solve};

use crate::closure::lock::Lock;
use crate::closure::{LockedOrigin, OwnDistribution};
use crate::error::{Error, IoError};
use crate::events::{Event, Events, Step};
use crate::files;
use crate::index::Foreign;
use crate::index::outside;
use crate::names::ComponentName;
use crate::sources::Fetcher;
use crate::style::{count, human_size};
use crate::wheel;
use crate::workspace::Workspace;
use python_packaging::environment::Environment;
use python_packaging::needs::Needs;
use resolve::ForeignQuery;

/// Returns the foreign wheels of a workspace's index, for the stack's own wheels `own`; empty unless
/// `[index] closed` is set. Resolves them and writes the lock if it is missing or for other
/// requirements.
///
/// # Errors
///
/// Fails if a wheel may not be redistributed, if it changed on the outside index, or if the lock is
/// out of date and the fetcher is offline.
pub fn wheels(
    workspace: &Workspace,
    own: &[PathBuf],
    fetcher: &Fetcher<'_>,
    events: &dyn Events,
) -> Result<Vec<Foreign>, Error> {
    let rules = &workspace.manifest.index;
    if !rules.closed || own.is_empty() {
        return Ok(Vec::new());
    }
    let environment = workspace.chroot.environment()?;
    let outside = outside::declared(&rules.outside)?;
    let question = ForeignQuery {
        workspace,
        own: read_own(own, &environment)?,
        closure: Lock::read(&workspace.closure_lock())?,
        environment,
        outside: &outside,
    };
    let lock = locked(&question, fetcher, events)?;
    let foreign = fetch::all(workspace, &lock, &outside, fetcher, events)?;
    let size: u64 =
        foreign.iter().map(|wheel| fs::metadata(&wheel.path).map_or(0, |m| m.len())).sum();
    let detail = format!("{} of others ({})", count(foreign.len(), "wheel"), human_size(size));
    events.event(Event::Step { step: Step::Holding, detail });
    Ok(foreign)
}

/// Returns the lock if it is for the question, else a new one, which it writes.
fn locked(
    question: &ForeignQuery<'_>,
    fetcher: &Fetcher<'_>,
    events: &dyn Events,
) -> Result<Lock, Error> {
    let workspace = question.workspace;
    let path = workspace.index_lock();
    let shown = path.strip_prefix(&workspace.root).unwrap_or(&path).display().to_string();
    let old = Lock::read(&path)?;
    let inputs = question.inputs();
    if let Some(lock) = old.clone().filter(|old| old.inputs == inputs) {
        return Ok(lock);
    }
    if fetcher.is_offline() {
        return Err(ForeignError::Outdated { lock: shown }.into());
    }
    let detail = "what the wheels require from outside with uv".to_owned();
    events.event(Event::Step { step: Step::Resolving, detail });
    let lock = question.resolve(old.as_ref(), inputs)?;
    let none = old.is_none() && foreign_in(&lock).next().is_none();
    if !none
        && files::write_if_changed(&path, lock.text_with(HEAD))
            .map_err(IoError::doing(format!("write `{shown}`")))?
    {
        let detail = format!("{} in {shown}", count(foreign_in(&lock).count(), "wheel"));
        events.event(Event::Step { step: Step::Locked, detail });
    }
    Ok(lock)
}

/// The first lines of the lock.
const HEAD: &str = "# The wheels that the index has beside the stack's own, exactly. Written by `rocmrpm index`; to use\n\
                    # newer versions, delete this file and run it again.\n";

/// Returns the distributions in a lock that are not the stack's own.
fn foreign_in(lock: &Lock) -> impl Iterator<Item = &crate::closure::Locked> {
    lock.packages.iter().filter(|locked| matches!(locked.origin, LockedOrigin::Index { .. }))
}

/// Reads the METADATA of the stack's own wheels that work in the environment.
fn read_own(
    wheels: &[PathBuf],
    environment: &Environment,
) -> Result<BTreeMap<String, OwnDistribution>, ForeignError> {
    let mut own = BTreeMap::new();
    for path in wheels {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let wrong = |reason| ForeignError::Wheel { file: file.clone().into_owned(), reason };
        let parsed = wheel::FileName::parse(&file).map_err(wrong)?;
        if !parsed.tags.iter().any(|tag| environment.takes(tag)) {
            continue;
        }
        let metadata = metadata_of(path).map_err(wrong)?;
        let (name, version) = wheel::name_and_version(&metadata).map_err(wrong)?;
        // Wheels are in one folder per component.
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        let component = ComponentName::parse(&folder.to_string_lossy())
            .or_else(|| ComponentName::parse(&name))
            .ok_or_else(|| wrong("it has no component".into()))?;
        own.insert(name, OwnDistribution::of_wheel(component, version, Needs::read(&metadata)));
    }
    Ok(own)
}

fn metadata_of(path: &Path) -> Result<String, String> {
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    wheel::metadata_in(file)
}
