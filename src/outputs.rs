//! What is made from the inspected RPMs of a whole workspace: the wheels of every
//! component, and the index over them. Remembers what it made, so that a second
//! run does nothing.

mod origin;
mod verify;

pub use origin::origin;
pub use verify::{Verified, verify_wheels};

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::build::{BuildLock, BuildRecord, FileRecord, Results, Stage, expectations, inspect_wheels};
use crate::digest::Sha256;
use crate::error::{Error, IoError};
use crate::events::{Event, Events};
use crate::files;
use crate::gpu::GpuTarget;
use crate::inspect::{Expectations, RULES_VERSION};
use crate::spec::rocm_version;
use crate::stack::Stack;
use crate::wheel::{self, LocalLabel, Origin, Pins, Request, Rocm};
use crate::workspace::Component;

/// The format of the note beside a component's wheels.
const SCHEMA: &str = "rocmrpm/wheels/1";

/// The name of that note.
const NOTE: &str = "wheels.json";

/// What was made for one component: what from, and the files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    schema: String,
    made_from: Sha256,
    wheels: Vec<FileRecord>,
}

/// Makes the wheels of every component that has inspected RPMs and returns all of
/// them, sorted. Wheels of components that are no longer there are removed. They are labelled with what the
/// RPMs were built for, whatever the workspace says now.
pub fn make_wheels(_lock: &BuildLock, stack: &Stack<'_>, events: &dyn Events) -> Result<Vec<PathBuf>, Error> {
    let workspace = stack.workspace;
    let dir = workspace.build_dir().join("wheels");
    let mut wheels = Vec::new();
    let mut kept = BTreeSet::new();
    for component in stack.order() {
        let Some(parts) = Parts::of(stack, component)? else { continue };
        kept.insert(component.name.as_str());
        let own = dir.join(component.name.as_str());
        let files = component_wheels(stack, component, &parts, &own, events)?;
        wheels.extend(files.iter().map(|file| own.join(&file.file)));
    }
    remove_others(&dir, &kept).map_err(IoError::doing("remove old wheels"))?;
    wheels.sort();
    Ok(wheels)
}

/// What the wheels of a component are made of.
struct Parts {
    record: BuildRecord,
    rpms: Vec<PathBuf>,
    label: LocalLabel,
    python: Option<(u32, u32)>,
    pins: Pins,
    rocm: Rocm,
    leave_out: Vec<String>,
    origin: Origin,
}

impl Parts {
    /// Gathers them; nothing where there are no accepted RPMs. Damaged results are not
    /// accepted ones: a note that they gave no wheel would hold for the same RPMs built again.
    fn of(stack: &Stack<'_>, component: &Component) -> Result<Option<Self>, Error> {
        let workspace = stack.workspace;
        let results = Results::of(&workspace.build_dir(), Stage::Rpm, &component.name);
        let accepted = results.accepted().filter(|(_, rpms)| !rpms.is_empty());
        let Some((record, rpms)) = accepted else { return Ok(None) };
        let rocm = record.rocm.clone().map_or_else(|| rocm_version(&workspace.provider), Ok)?;
        let targets: Vec<GpuTarget> = record.gpu_targets.iter().filter_map(|t| GpuTarget::parse(t)).collect();
        let label = LocalLabel::new(&rocm, &targets)?;
        let origin = origin(&results, &record).map_err(IoError::doing("read build.json"))?;
        let python = workspace.chroot.python.split_once('.');
        Ok(Some(Self {
            label: if record.dirty { label.dirty() } else { label },
            python: python.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?))),
            pins: Pins::new(),
            rocm: Rocm::System,
            leave_out: component.wheel_leaves_out.iter().map(|at| at.value.clone()).collect(),
            origin,
            record,
            rpms,
        }))
    }

    fn request<'a>(&'a self, out_dir: &'a Path, events: &'a dyn Events) -> Request<'a> {
        Request {
            rpms: &self.rpms,
            label: &self.label,
            source_date_epoch: self.record.source_date_epoch,
            out_dir,
            python: self.python,
            pins: &self.pins,
            rocm: &self.rocm,
            leave_out: &self.leave_out,
            origin: Some(&self.origin),
            events,
        }
    }
}

fn component_wheels(
    stack: &Stack<'_>,
    component: &Component,
    parts: &Parts,
    dir: &Path,
    events: &dyn Events,
) -> Result<Vec<FileRecord>, Error> {
    let Parts { record, rpms, label, python, leave_out, origin, .. } = parts;
    let epoch = record.source_date_epoch;
    let outputs: Vec<_> = record.outputs.iter().map(|output| (&output.file, output.sha256)).collect();
    let made_from = format!(
        "{outputs:?} {label:?} {epoch} {python:?} {leave_out:?} {origin:?} {} rules {RULES_VERSION}",
        env!("CARGO_PKG_VERSION")
    );
    let made_from = Sha256::of_bytes(made_from);
    let note_path = dir.join(NOTE);
    if let Some(note) = read_note(&note_path)
        && note.made_from == made_from
        && note.wheels.iter().all(|w| fs_err::metadata(dir.join(&w.file)).is_ok_and(|m| m.len() == w.size))
    {
        return Ok(note.wheels);
    }
    let action = || IoError::doing(format!("make the wheels of `{}`", component.name));
    // The note goes first and comes last, so that it never speaks of half a folder.
    files::remove_dir_if_there(dir).map_err(action())?;
    fs_err::create_dir_all(dir).map_err(action())?;
    let wheels = wheel::build(parts.request(dir, events))?;
    let paths: Vec<PathBuf> = wheels.iter().map(|wheel| wheel.path.clone()).collect();
    if !paths.is_empty() {
        let gpu_targets = record.gpu_targets.iter().filter_map(|t| GpuTarget::parse(t)).collect();
        let expectations = Expectations { gpu_targets, ..expectations(stack, component)? };
        inspect_wheels(component, &expectations, rpms, &paths)?;
    }
    let mut files = Vec::new();
    for wheel in &wheels {
        let file = wheel.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        events.event(Event::Step { word: "Wheel", detail: file.clone() });
        files.push(FileRecord { file, sha256: wheel.sha256, size: wheel.size });
    }
    files.sort_by(|a, b| a.file.cmp(&b.file));
    let note = Note { schema: SCHEMA.to_owned(), made_from, wheels: files.clone() };
    let json = serde_json::to_vec_pretty(&note).map_err(std::io::Error::from).map_err(action())?;
    files::write_atomically(&note_path, json).map_err(action())?;
    Ok(files)
}

fn read_note(path: &Path) -> Option<Note> {
    let note: Note = serde_json::from_slice(&fs_err::read(path).ok()?).ok()?;
    (note.schema == SCHEMA).then_some(note)
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
