//! Builds the wheels of every component in a workspace, pinned to each other, from inspected RPMs.
//! It remembers its results so that a second run does nothing. It does not build RPMs.

mod note;
mod part;
mod verify;

pub use verify::{Verified, verify_wheels};

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::build::{BuildLock, FileRecord, expectations, inspect_wheels};
use crate::error::{Error, IoError, Kind};
use crate::events::{Event, Events, Step};
use crate::files;
use crate::inspect::Expectations;
use crate::names::ComponentName;
use crate::process::check_stop;
use crate::stack::{KeyInputs, Stack};
use crate::wheel::{self, Pins};

use note::{WheelsNote, pinned};
use part::{Preloads, WheelComponent, parts, wheels_dir};

/// Builds the wheels of every component that has inspected RPMs and returns all of them, sorted.
/// Removes the wheels of components that no longer exist. The labels of wheels reflect what the
/// RPMs were built for, not the current workspace.
pub fn make_wheels(
    _lock: &BuildLock,
    stack: &Stack<'_>,
    events: &dyn Events,
) -> Result<Vec<PathBuf>, Error> {
    let parts = parts(stack)?;
    for name in part::damaged(stack, &parts)? {
        let text = format!("the results of `{name}` are damaged; rebuild it to get its wheels");
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
    remove_others(&wheels_dir(stack.workspace), &kept)
        .map_err(IoError::doing("remove old wheels"))?;
    wheels.sort();
    Ok(wheels)
}

/// Returns the components whose wheels [`make_wheels`] would rebuild even though their RPMs are
/// unchanged, with the reasons.
pub fn stale_wheels(stack: &Stack<'_>) -> Result<BTreeMap<ComponentName, Vec<String>>, Error> {
    let parts = parts(stack)?;
    let pins = pins(&parts)?;
    let mut stale = BTreeMap::new();
    for part in &parts {
        let Some(note) = WheelsNote::read(&part.dir) else { continue };
        let reasons = note.reasons_to_make(&part.inputs(&pins)?, &pins, &part.dir);
        if !reasons.is_empty() {
            stale.insert(part.component.name.clone(), reasons);
        }
    }
    Ok(stale)
}

/// Returns the distributions of the stack: the versions of their wheels, and what their RPMs provide.
fn pins(parts: &[WheelComponent<'_>]) -> Result<Pins, Error> {
    let mut pins = Pins::new();
    let mut owners = BTreeMap::new();
    for part in parts {
        check_stop()?;
        let distributions = wheel::distributions(&part.rpms, &part.label, &part.leave_out)?;
        for name in distributions.names() {
            let ours = &part.component.name;
            if let Some(other) = owners.insert(name.clone(), ours) {
                let message =
                    format!("`{other}` and `{ours}` both provide the distribution `{name}`");
                return Err(Error::new(Kind::Config, message).with_help(
                    "remove one of the two from the stack; requirements on it would be ambiguous",
                ));
            }
        }
        pins.extend(distributions);
    }
    Ok(pins)
}

/// Returns a component's wheels. Reuses those of the last run if they are up to date; otherwise
/// builds new ones, which replace the old ones after they pass inspection.
fn wheels_of(
    part: &WheelComponent<'_>,
    stack: &Stack<'_>,
    pins: &Pins,
    preloads: &Preloads,
    events: &dyn Events,
) -> Result<Vec<FileRecord>, Error> {
    let (key, judged_by) = (part.inputs(pins)?, part.judged_by());
    if let Some(note) = kept(part, &key, pins, events)? {
        return inspect_kept(note, part, stack, judged_by);
    }
    let new = part.dir.with_file_name(format!(".new-{}", part.component.name));
    let (wheels, requires) = write(part, pins, preloads, &new, events)?;
    inspect(part, stack, &new, &wheels)?;
    let note = WheelsNote::new(key, requires, judged_by, wheels);
    swap(&note, &new, part).map_err(doing(part))?;
    Ok(note.wheels)
}

fn doing(part: &WheelComponent<'_>) -> impl FnOnce(std::io::Error) -> IoError {
    IoError::doing(format!("make the wheels of `{}`", part.component.name))
}

/// Returns the note of the last run if its wheels can be reused: same inputs and pins, and
/// unchanged on disk.
fn kept(
    part: &WheelComponent<'_>,
    key: &KeyInputs,
    pins: &Pins,
    events: &dyn Events,
) -> Result<Option<WheelsNote>, Error> {
    let note = WheelsNote::read(&part.dir);
    let Some(note) = note.filter(|note| note.reasons_to_make(key, pins, &part.dir).is_empty())
    else {
        return Ok(None);
    };
    let damaged = note.damaged(&part.dir).map_err(doing(part))?;
    for wheel in &damaged {
        events.event(Event::Warning(format!("{wheel} has changed on disk; rebuilding it")));
    }
    Ok(if damaged.is_empty() { Some(note) } else { None })
}

/// Inspects wheels of the last run again if rules or expectations have changed.
fn inspect_kept(
    mut note: WheelsNote,
    part: &WheelComponent<'_>,
    stack: &Stack<'_>,
    judged_by: KeyInputs,
) -> Result<Vec<FileRecord>, Error> {
    if note.judged_by != judged_by {
        inspect(part, stack, &part.dir, &note.wheels)?;
        note.judged_by = judged_by;
        note.write(&part.dir).map_err(doing(part))?;
    }
    Ok(note.wheels)
}

/// The requirements of a component's distributions, each with its pinned version.
type Requires = BTreeMap<String, Option<String>>;

/// Plans and writes a component's wheels to a new folder; removes it on failure.
fn write(
    part: &WheelComponent<'_>,
    pins: &Pins,
    preloads: &Preloads,
    new: &Path,
    events: &dyn Events,
) -> Result<(Vec<FileRecord>, Requires), Error> {
    files::remove_dir_if_there(new).map_err(doing(part))?;
    fs_err::create_dir_all(new).map_err(doing(part))?;
    let rocm = preloads.rocm(part, events)?;
    let wheels = wheel::build(part.request(pins, &rocm, new, events))
        .inspect_err(|_| drop(files::remove_dir_if_there(new)))?;
    let mut required = BTreeSet::new();
    let mut written = Vec::new();
    for wheel in &wheels {
        let wrong =
            |reason| Error::new(Kind::Internal, format!("{}: {reason}", wheel.path.display()));
        required.extend(wheel::required_names(&wheel.metadata).map_err(wrong)?);
        let file = wheel.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        events.event(Event::Step { step: Step::Wheel, detail: file.clone() });
        written.push(FileRecord { file, sha256: wheel.sha256, size: wheel.size });
    }
    written.sort_by(|a, b| a.file.cmp(&b.file));
    Ok((written, pinned(required, pins)))
}

/// Replaces the old folder with the new one.
fn swap(note: &WheelsNote, new: &Path, part: &WheelComponent<'_>) -> std::io::Result<()> {
    note.write(new)?;
    files::exchange(new, &part.dir)?;
    files::remove_dir_if_there(new)
}

fn inspect(
    part: &WheelComponent<'_>,
    stack: &Stack<'_>,
    dir: &Path,
    wheels: &[FileRecord],
) -> Result<(), Error> {
    if wheels.is_empty() {
        return Ok(());
    }
    let wheels: Vec<PathBuf> = wheels.iter().map(|wheel| dir.join(&wheel.file)).collect();
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

/// Returns the JSON Schemas of this module's documents.
#[cfg(feature = "schema")]
pub(crate) fn documents() -> Vec<serde_json::Value> {
    use crate::document::schema_of;
    vec![schema_of::<note::WheelsNote>()]
}
