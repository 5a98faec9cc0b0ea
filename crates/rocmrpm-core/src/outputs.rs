//! What is made from the inspected RPMs of a whole workspace: the wheels of every
//! component, pinned to each other. Remembers what it made, so that a second run does nothing.

mod note;
mod part;
mod verify;

pub use verify::{Verified, verify_wheels};

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::build::{BuildLock, FileRecord, expectations, inspect_wheels};
use crate::error::{Error, IoError, Kind};
use crate::events::{Event, Events};
use crate::files;
use crate::inspect::Expectations;
use crate::names::ComponentName;
use crate::process::check_stop;
use crate::stack::Stack;
use crate::wheel::{self, Pins};

use note::{Note, pinned};
use part::{Part, Preloads, parts, wheels_dir};

/// Makes the wheels of every component that has inspected RPMs and returns all of
/// them, sorted. Wheels of components that are no longer there are removed. They are
/// labelled with what the RPMs were built for, whatever the workspace says now.
pub fn make_wheels(_lock: &BuildLock, stack: &Stack<'_>, events: &dyn Events) -> Result<Vec<PathBuf>, Error> {
    let parts = parts(stack)?;
    for name in part::damaged(stack, &parts)? {
        let text = format!("the results of `{name}` are damaged, it has no wheels until it is built anew");
        events.event(Event::Warning(text));
    }
    let pins = pins(&parts)?;
    let mut preloads = Preloads::default();
    let mut wheels = Vec::new();
    for part in &parts {
        check_stop()?;
        let files = wheels_of(part, stack, &pins, &preloads, events)?;
        let files: Vec<PathBuf> = files.iter().map(|file| part.dir.join(&file.file)).collect();
        preloads.add(part, &files)?;
        wheels.extend(files);
    }
    let kept = parts.iter().map(|part| part.component.name.as_str()).collect();
    remove_others(&wheels_dir(stack.workspace), &kept).map_err(IoError::doing("remove old wheels"))?;
    wheels.sort();
    Ok(wheels)
}

/// Returns the components whose wheels [`make_wheels`] would make anew though their RPMs are
/// as they were, and why.
pub fn stale_wheels(stack: &Stack<'_>) -> Result<BTreeMap<ComponentName, Vec<String>>, Error> {
    let parts = parts(stack)?;
    let pins = pins(&parts)?;
    let mut stale = BTreeMap::new();
    for part in &parts {
        let Some(note) = Note::read(&part.dir) else { continue };
        let reasons = note.reasons_to_make(&part.inputs(), &pins, &part.dir);
        if !reasons.is_empty() {
            stale.insert(part.component.name.clone(), reasons);
        }
    }
    Ok(stale)
}

/// Returns the distributions that the stack has, with the versions that their wheels get.
fn pins(parts: &[Part<'_>]) -> Result<Pins, Error> {
    let mut pins = Pins::new();
    let mut owners = BTreeMap::new();
    for part in parts {
        check_stop()?;
        for (name, version) in wheel::distributions(&part.rpms, &part.label, &part.leave_out)? {
            let ours = &part.component.name;
            if let Some(other) = owners.insert(name.clone(), ours) {
                let message = format!("`{other}` and `{ours}` both have the distribution `{name}`");
                return Err(Error::new(Kind::Config, message).with_help(
                    "requirements on it could mean either: take one of the two out of the stack",
                ));
            }
            pins.insert(name, version);
        }
    }
    Ok(pins)
}

/// Returns a component's wheels: those at hand where they are what would be made.
fn wheels_of(
    part: &Part<'_>,
    stack: &Stack<'_>,
    pins: &Pins,
    preloads: &Preloads,
    events: &dyn Events,
) -> Result<Vec<FileRecord>, Error> {
    let action = || IoError::doing(format!("make the wheels of `{}`", part.component.name));
    let (made_from, judged_by) = (part.inputs(), part.judged_by());
    if let Some(mut note) = Note::read(&part.dir)
        && note.reasons_to_make(&made_from, pins, &part.dir).is_empty()
        && is_whole(&note, part, events).map_err(action())?
    {
        if note.judged_by != judged_by {
            inspect(part, stack, note.wheels.iter().map(|wheel| part.dir.join(&wheel.file)).collect())?;
            note.judged_by = judged_by;
            note.write(&part.dir).map_err(action())?;
        }
        return Ok(note.wheels);
    }
    // Made beside the old ones, which stay until the new ones have passed.
    let new = part.dir.with_file_name(format!(".new-{}", part.component.name));
    files::remove_dir_if_there(&new).map_err(action())?;
    fs_err::create_dir_all(&new).map_err(action())?;
    let wheels = wheel::build(part.request(pins, &preloads.rocm(part), &new, events))
        .inspect_err(|_| drop(files::remove_dir_if_there(&new)))?;
    inspect(part, stack, wheels.iter().map(|wheel| wheel.path.clone()).collect())?;
    let mut required = BTreeSet::new();
    let mut made = Vec::new();
    for wheel in &wheels {
        let wrong = |reason| Error::new(Kind::Internal, format!("{}: {reason}", wheel.path.display()));
        required.extend(wheel::required_names(&wheel.metadata).map_err(wrong)?);
        let file = wheel.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        events.event(Event::Step { word: "Wheel", detail: file.clone() });
        made.push(FileRecord { file, sha256: wheel.sha256, size: wheel.size });
    }
    made.sort_by(|a, b| a.file.cmp(&b.file));
    let note = Note::new(made_from, pinned(required, pins), judged_by, made);
    note.write(&new).map_err(action())?;
    files::exchange(&new, &part.dir).map_err(action())?;
    files::remove_dir_if_there(&new).map_err(action())?;
    Ok(note.wheels)
}

/// Returns whether the wheels are the bytes that were made, and warns of those that are not.
fn is_whole(note: &Note, part: &Part<'_>, events: &dyn Events) -> std::io::Result<bool> {
    let damaged = note.damaged(&part.dir)?;
    for wheel in &damaged {
        events.event(Event::Warning(format!("{wheel} changed on disk since it was made; it is made again")));
    }
    Ok(damaged.is_empty())
}

fn inspect(part: &Part<'_>, stack: &Stack<'_>, wheels: Vec<PathBuf>) -> Result<(), Error> {
    if wheels.is_empty() {
        return Ok(());
    }
    let gpu_targets = part.gpu_targets.clone();
    let expectations = Expectations { gpu_targets, ..expectations(stack, part.component)? };
    inspect_wheels(part.component, &expectations, &part.rpms, &wheels)
}

fn remove_others(dir: &Path, kept: &BTreeSet<&str>) -> std::io::Result<()> {
    if dir.is_dir() {
        for entry in fs_err::read_dir(dir)? {
            let entry = entry?;
            if !kept.contains(entry.file_name().to_string_lossy().as_ref()) {
                files::remove_if_there(&entry.path())?;
            }
        }
    }
    Ok(())
}

/// Returns the JSON Schemas of its documents.
#[cfg(feature = "schema")]
pub(crate) fn documents() -> Vec<serde_json::Value> {
    use crate::document::schema_of;
    vec![schema_of::<note::Note>()]
}
