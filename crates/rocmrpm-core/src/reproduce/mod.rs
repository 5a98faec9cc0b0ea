//! Rebuilds a component from the SRPM of its last accepted build and compares the result file by
//! file. It does not modify the results.

mod compare;
mod content;

pub use compare::{Compared, Difference, FileDifference, Package};
pub use content::{Cause, Section};

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::build::{
    BuildLock, BuildRecord, Builder, Job, Results, Stage, build_folder, command_again, enter_again,
    lay_out_rocm, required_packages, surroundings,
};
use crate::digest::Sha256;
use crate::document::Document;
use crate::error::{Error, IoError, Kind};
use crate::events::{Event, Events, WorkPhase};
use crate::files;
use crate::gpu::GpuTarget;
use crate::names::is_plain;
use crate::process::{end_leftovers, own_program};
use crate::rpms::{self, EntryKind, RpmError};
use crate::sources::{Cache, Fetcher};
use crate::spec::{Release, Rendered};
use crate::stack::{KeyInputs, Stack};
use crate::workspace::Component;
use content::BuildFolders;

/// The schema of the document.
pub const SCHEMA: &str = "rocmrpm/reproduce/1";

/// `reproduce.json`, which `rocmrpm reproduce --json` prints: the differences after rebuilding a
/// component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reproduction {
    /// The name and number of the schema.
    pub schema: &'static str,
    /// The component.
    pub component: String,
    /// Its version and Release.
    pub version: String,
    /// The builder of both builds.
    pub builder: String,
    /// Whether users would get identical packages.
    pub identical: bool,
    /// The differences between the packages.
    #[serde(flatten)]
    pub compared: Compared,
    /// Inputs of the build that have changed since then.
    pub inputs_changed: Vec<String>,
    /// Packages that only the earlier build root had.
    pub buildroot_removed: Vec<String>,
    /// Packages that only the new build root has.
    pub buildroot_added: Vec<String>,
    /// The folder of the new RPMs.
    pub rpms: PathBuf,
    /// The folder of the build's logs.
    pub logs: PathBuf,
}

impl Document for Reproduction {
    const SCHEMA: &'static str = SCHEMA;
}

/// A build to reproduce.
pub struct Subject<'a> {
    component: &'a Component,
    results: Results,
    /// The record of the build.
    pub record: BuildRecord,
}

impl<'a> Subject<'a> {
    /// Returns a component's accepted results after verifying them against their record.
    pub fn new(stack: &Stack<'a>, component: &'a Component) -> Result<Self, Error> {
        let workspace = stack.workspace;
        let results = Results::of(&workspace.build_dir(), Stage::Rpm, &component.name);
        let again = || command_again(workspace, &format!("build {}", component.name), &[]);
        let Some((record, _)) = results.accepted()? else {
            let message = format!("`{}` has no results to reproduce", component.name);
            return Err(
                Error::new(Kind::Config, message).with_help(format!("build it first: {}", again()))
            );
        };
        for output in &record.outputs {
            let path = results.dir().join(&output.file);
            let (found, _) = Sha256::of_file(&path).map_err(IoError::doing("read a result"))?;
            if found != output.sha256 {
                let message = format!("{} has changed since the build", path.display());
                let help = format!("remove {}, then rebuild: {}", results.dir().display(), again());
                return Err(Error::new(Kind::Environment, message).with_help(help));
            }
        }
        Ok(Self { component, results, record })
    }

    /// Returns the results that are compared with the new build.
    pub fn results(&self) -> &Results {
        &self.results
    }

    /// Returns the spec of the build.
    fn spec(&self) -> Result<Rendered, Error> {
        let path = self.output(".spec")?;
        let text = fs_err::read_to_string(&path).map_err(IoError::doing("read the spec"))?;
        Ok(Rendered {
            file_name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            digest: Sha256::of_bytes(&text),
            text,
            release: Release {
                release: self.record.release.clone(),
                changelog: String::new(),
                dirty: self.record.dirty,
                seconds: self.record.source_date_epoch,
            },
        })
    }

    fn output(&self, ending: &str) -> Result<PathBuf, Error> {
        let file = self.record.outputs.iter().find(|output| output.file.ends_with(ending));
        let missing =
            || Error::new(Kind::Internal, format!("the results of a build have no *{ending}"));
        Ok(self.results.dir().join(&file.ok_or_else(missing)?.file))
    }
}

/// Rebuilds and compares the packages.
///
/// `_lock` proves that no other build uses the folder.
pub fn reproduce(
    _lock: &BuildLock,
    stack: &Stack<'_>,
    subject: &Subject<'_>,
    builder: &dyn Builder,
    events: &dyn Events,
) -> Result<Reproduction, Error> {
    let Subject { component, record, .. } = subject;
    let workspace = stack.workspace;
    let build_dir = workspace.build_dir();
    let dir = build_dir.join("reproduce").join(component.name.as_str());
    let doing = || IoError::doing(format!("prepare `{}`", dir.display()));
    let (srpm, spec) = (subject.output(".src.rpm")?, subject.spec()?);
    let targets: Vec<GpuTarget> =
        record.gpu_targets.iter().filter_map(|name| GpuTarget::parse(name)).collect();
    let limits = builder.limits();
    let by_memory =
        usize::try_from(limits.memory / component.memory_per_job.max(1)).unwrap_or(usize::MAX);
    let job = Job {
        component,
        gpu_targets: &targets,
        spec: &spec,
        sources: dir.join("sources"),
        work: dir.join("build"),
        logs: dir.join("logs"),
        jobs: limits.cores.min(by_memory).max(1),
        timeout: component.timeout,
        repository: build_dir.join("repository"),
        required: required_packages(stack, component)?,
        events,
        enter: (builder.name() == "mock").then(|| enter_again(workspace, component)),
    };
    builder.ready()?;
    lay_out(&job, &dir, &srpm)?;
    let fetcher = Fetcher::new(Cache::from_env()?, &workspace.root, events);
    lay_out_rocm(workspace, &fetcher, &job.work)?;
    let phase = |phase| {
        let (component, detail) = (component.name.clone(), String::new());
        events.event(Event::Phase { component, phase, detail });
    };
    phase(WorkPhase::Building);
    let built = builder.rpms(&job, &srpm)?;
    let rpms = dir.join("rpms");
    fs_err::create_dir_all(&rpms).map_err(doing())?;
    let new = keep(&built.rpms, &rpms).map_err(IoError::doing("keep the new packages"))?;
    phase(WorkPhase::Comparing);
    let then = Job {
        work: build_folder(&build_dir, &component.name),
        sources: PathBuf::new(),
        logs: PathBuf::new(),
        repository: PathBuf::new(),
        required: Vec::new(),
        enter: None,
        ..job
    };
    let (old_places, new_places) =
        (builder.build_roots(&then), builder.build_roots(&Job { work: dir.join("build"), ..then }));
    let places = BuildFolders { old: &old_places, new: &new_places };
    let compared = compare::compare(&subject.results.rpms()?, &new, places, &dir)?;
    let mut now = KeyInputs::default();
    surroundings(stack, component, builder, &mut now);
    let (removed, added) = changed(&record.buildroot, &built.buildroot);
    let reproduction = Reproduction {
        schema: SCHEMA,
        component: component.name.to_string(),
        version: format!("{}-{}", record.version, record.release.replace("%{?dist}", "")),
        builder: builder.name().to_owned(),
        identical: compared.same(),
        compared,
        inputs_changed: now.others_in(&record.inputs),
        buildroot_removed: removed,
        buildroot_added: added,
        rpms,
        logs: dir.join("logs"),
    };
    let mut json = serde_json::to_vec_pretty(&reproduction)
        .map_err(|error| Error::new(Kind::Internal, error.to_string()))?;
    json.push(b'\n');
    files::write_atomically(&dir.join("reproduce.json"), json).map_err(doing())?;
    Ok(reproduction)
}

/// Clears the folder of a reproduction, and unpacks the SRPM there.
fn lay_out(job: &Job<'_>, dir: &Path, srpm: &Path) -> Result<(), Error> {
    let doing = || IoError::doing(format!("prepare `{}`", dir.display()));
    end_leftovers(&job.work).map_err(IoError::doing("stop processes of an earlier run"))?;
    files::remove_dir_if_there(dir).map_err(doing())?;
    for folder in [&job.sources, &job.work, &job.logs] {
        fs_err::create_dir_all(folder).map_err(doing())?;
    }
    unpack(srpm, &job.sources)
}

/// Keeps packages in a folder, and returns their paths there.
fn keep(rpms: &[PathBuf], folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let kept = rpms.iter().map(|rpm| {
        let kept = folder.join(rpm.file_name().unwrap_or_default());
        files::link_or_copy(rpm, &kept).map(|()| kept)
    });
    kept.collect()
}

/// Returns the items only in the first list, and those only in the second.
fn changed(old: &[String], new: &[String]) -> (Vec<String>, Vec<String>) {
    let without = |all: &[String], other: &[String]| {
        let other: std::collections::BTreeSet<&String> = other.iter().collect();
        all.iter().filter(|name| !other.contains(name)).cloned().collect()
    };
    (without(old, new), without(new, old))
}

/// Unpacks an SRPM into the layout for a builder: the spec next to its sources.
fn unpack(srpm: &Path, to: &Path) -> Result<(), Error> {
    rpms::for_each_file::<RpmError>(srpm, |entry, content| {
        let name = entry.path.rsplit('/').next().unwrap_or_default();
        if entry.kind != EntryKind::Regular || !is_plain(name) {
            let reason =
                format!("unexpected file `{}` in the SRPM", crate::text::visible(&entry.path));
            return Err(RpmError::Unreadable { path: srpm.to_owned(), reason });
        }
        let mut file = fs_err::File::create(to.join(name))?;
        std::io::copy(content, &mut file)?;
        Ok(file.flush()?)
    })
    .map_err(|error| {
        Error::from(error).with_help(format!("run `{} build` to rebuild it", own_program()))
    })?;
    Ok(())
}
