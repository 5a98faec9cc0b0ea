//! Prepares a component's sources by running its `%prep` with rpmbuild on this machine, in
//! `build/<chroot>/prep/<component>/`. It does not build them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::build::{BuildLock, Builder, FileRecord, HostBuilder, Job, build_root, lay_out};
use crate::canonical::canonical;
use crate::digest::Sha256;
use crate::document::Document;
use crate::error::{Error, IoError, Kind};
use crate::events::{Event, Events, WorkPhase};
use crate::files;
use crate::process::end_leftovers;
use crate::sources::{self, Fetcher};
use crate::spec::{self, History, Rendered};
use crate::stack::Stack;
use crate::workspace::{Component, Pin, Workspace};

/// The name of the record. It is written last, so its presence means that the folder is complete.
const RECORD: &str = "prep.json";

/// The schema of the record.
pub const SCHEMA: &str = "rocmrpm/prep/1";

/// `prep.json`, which `rocmrpm prep --json` prints: the inputs of a prepared folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Record {
    /// The name and version of the schema.
    pub schema: String,
    /// The component.
    pub component: String,
    /// The version.
    pub version: String,
    /// The chroot of the spec.
    pub chroot: String,
    /// The pin set.
    pub pins: String,
    /// A digest of everything that `%prep` uses.
    pub key: Sha256,
    /// The top folder of the source.
    pub folder: PathBuf,
    /// The log of rpmbuild.
    pub log: PathBuf,
    /// The sources; the main one is first.
    pub sources: Vec<FileRecord>,
    /// The patches, in the order in which they are applied.
    pub patches: Vec<FileRecord>,
    /// The number of edits.
    pub edits: usize,
}

impl Document for Record {
    const SCHEMA: &'static str = SCHEMA;
}

/// A component's prepared sources.
#[derive(Debug)]
pub struct Prepared {
    /// The inputs and the location.
    pub record: Record,
    /// The spec that contains the `%prep`.
    pub spec: Rendered,
    /// The folder of the build that ran it.
    pub work: PathBuf,
    /// Blocks concurrent preparation while the sources are in use.
    _lock: BuildLock,
}

/// Runs a component's `%prep` and replaces the result of an earlier run.
pub fn prepare(
    stack: &Stack<'_>,
    component: &Component,
    fetcher: &Fetcher<'_>,
    events: &dyn Events,
) -> Result<Prepared, Error> {
    Preparation::new(stack, component)?.run(fetcher, events)
}

/// Returns the result of an earlier run if it is up to date; otherwise runs `%prep`.
pub fn prepared(
    stack: &Stack<'_>,
    component: &Component,
    fetcher: &Fetcher<'_>,
    events: &dyn Events,
) -> Result<Prepared, Error> {
    let preparation = Preparation::new(stack, component)?;
    match preparation.record() {
        Some(record) => {
            let work = preparation.dir.join("build");
            Ok(Prepared { record, spec: preparation.spec, work, _lock: preparation.lock })
        }
        None => preparation.run(fetcher, events),
    }
}

/// Everything that is known before unpacking.
struct Preparation<'a> {
    workspace: &'a Workspace,
    component: &'a Component,
    pin: &'a Pin,
    spec: Rendered,
    dir: PathBuf,
    key: Sha256,
    job_targets: &'a [crate::gpu::GpuTarget],
    builder: HostBuilder<'a>,
    lock: BuildLock,
}

impl<'a> Preparation<'a> {
    fn new(stack: &'a Stack<'a>, component: &'a Component) -> Result<Self, Error> {
        let workspace = stack.workspace;
        if let Some(reason) = stack.left_out.get(&component.name) {
            let message = format!("cannot prepare `{}`: {reason}", component.name);
            return Err(Error::new(Kind::Config, message));
        }
        let pin = workspace.pin(component);
        let mut builder = HostBuilder::new(workspace);
        if !workspace.chroot.is_host() {
            builder = builder.as_chroot(&workspace.chroot);
        }
        builder.ready()?;
        let spec = spec::render(stack, component, &History::read(workspace)?)?;
        let key = key(workspace, component, pin, &spec, &builder)?;
        let above = workspace.build_dir().join("prep");
        let lock = BuildLock::take_in(&above)?;
        let (dir, job_targets) =
            (above.join(component.name.as_str()), stack.gpu_targets(component));
        Ok(Self { workspace, component, pin, spec, dir, key, job_targets, builder, lock })
    }

    /// Returns the record of an earlier run with the same inputs.
    fn record(&self) -> Option<Record> {
        let bytes = fs_err::read(self.dir.join(RECORD)).ok()?;
        let record: Record = serde_json::from_slice(&bytes).ok()?;
        (record.schema == SCHEMA && record.key == self.key && record.folder.is_dir())
            .then_some(record)
    }

    fn run(self, fetcher: &Fetcher<'_>, events: &dyn Events) -> Result<Prepared, Error> {
        let Self { workspace, component, pin, spec, dir, key, job_targets, builder, lock } = self;
        let job = Job {
            component,
            gpu_targets: job_targets,
            spec: &spec,
            sources: dir.join("sources"),
            work: dir.join("build"),
            logs: dir.join("logs"),
            timeout: None,
            jobs: 1,
            repository: PathBuf::new(),
            required: Vec::new(),
            enter: None,
            events,
        };
        end_leftovers(&job.work).map_err(IoError::doing("stop processes of an earlier run"))?;
        let action = || IoError::doing(format!("prepare `{}`", dir.display()));
        // Remove the record first to mark the folder as incomplete.
        files::remove_if_there(&dir.join(RECORD)).map_err(action())?;
        files::remove_dir_if_there(&dir).map_err(action())?;
        for folder in [&job.sources, &job.work, &job.logs] {
            fs_err::create_dir_all(folder).map_err(action())?;
        }
        let (sources, patches) = lay_out(fetcher, component, pin, &spec, &job.sources)?;
        let detail = spec.file_name.clone();
        events.event(Event::Phase {
            component: component.name.clone(),
            phase: WorkPhase::Preparing,
            detail,
        });
        builder.prep(&job)?;
        let folder =
            top_folder(&build_root(&job.work), &sources::source_dir(pin)).map_err(action())?;
        let record = Record {
            schema: SCHEMA.to_owned(),
            component: component.name.to_string(),
            version: pin.version.clone(),
            chroot: workspace.chroot.name.clone(),
            pins: workspace.pins.name.clone(),
            key,
            folder,
            log: job.logs.join("prep.log"),
            sources,
            patches,
            edits: component.edits_for(&pin.version).count(),
        };
        let text = serde_json::to_string_pretty(&record)
            .map_err(|error| Error::new(Kind::Internal, error.to_string()))?;
        files::write_atomically(&dir.join(RECORD), text).map_err(action())?;
        let work = job.work;
        Ok(Prepared { record, spec, work, _lock: lock })
    }
}

/// Returns a digest of everything that `%prep` uses.
fn key(
    workspace: &Workspace,
    component: &Component,
    pin: &Pin,
    spec: &Rendered,
    builder: &HostBuilder<'_>,
) -> Result<Sha256, Error> {
    let mut text = surroundings(spec.digest, &builder.identity(), &workspace.chroot.macros);
    for (name, identity) in sources::identities(pin, &workspace.root)? {
        text.push_str(&format!("{name} {identity}\n"));
    }
    for patch in component.patches_for(&pin.version) {
        let path = component.dir.join(&patch.file_name);
        let digest = Sha256::of_file(&path).map_err(IoError::doing("read a patch"))?.0;
        text.push_str(&format!("{} {digest}\n", patch.file_name));
    }
    Ok(Sha256::of_bytes(text))
}

/// Returns the part of the key that does not depend on sources and patches.
fn surroundings(spec: Sha256, builder: &str, macros: &BTreeMap<String, String>) -> String {
    format!("{spec}\n{builder}\n{}\n", canonical(macros))
}

/// Finds the source's top folder in rpm's build folder: `BUILD/<name>` or, since rpm 4.20,
/// `BUILD/<package>-build/<name>` (rpm 4.20's release notes). If a spec uses another name, its
/// folder is the only one there.
fn top_folder(build: &Path, name: &str) -> std::io::Result<PathBuf> {
    let mut folders = Vec::new();
    for entry in fs_err::read_dir(build)? {
        let entry = entry?;
        // Since rpm 4.20, a folder for scripts is next to the sources.
        if entry.file_type()?.is_dir() && entry.file_name() != "SPECPARTS" {
            folders.push(entry.path());
        }
    }
    if let Some(named) = folders.iter().find(|folder| folder.file_name().is_some_and(|f| f == name))
    {
        return Ok(named.clone());
    }
    match folders.as_slice() {
        [only] if only.to_string_lossy().ends_with("-build") => top_folder(only, name),
        [only] => Ok(only.clone()),
        _ => Ok(build.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_top_folder_in_both_layouts() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for path in
            ["old/x-1", "new/p-1-build/x-1", "new/p-1-build/SPECPARTS", "other/y", "two/a", "two/b"]
        {
            fs_err::create_dir_all(at(path)).unwrap();
        }
        let found =
            ["old", "new", "other", "two"].map(|build| top_folder(&at(build), "x-1").unwrap());
        assert_eq!(found, ["old/x-1", "new/p-1-build/x-1", "other/y", "two"].map(at));
    }

    #[test]
    fn prep_key_surroundings_are_stable() {
        let digest = Sha256::of_bytes("x");
        let macros = BTreeMap::from([
            ("a".to_owned(), "1".to_owned()),
            ("b".to_owned(), "\"2\"".to_owned()),
        ]);
        let expected = format!("{digest}\nrpmbuild\n{}\n", r#"{"a": "1", "b": "\"2\""}"#);
        assert_eq!(surroundings(digest, "rpmbuild", &macros), expected);
    }
}
