//! Takes one component from its pin to a results folder: source, spec, SRPM, RPMs. The gate decides
//! whether the RPMs are accepted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::error::ComponentError;
use super::inputs::lay_out;
use super::mock::shell_dir;
use super::record::{
    BUILDROOT_LOCK, BuildRecord, FileRecord, Results, SCHEMA, Times, build_folder, is_binary_rpm,
    target_names, work_dir,
};
use super::rocm_root::lay_out_rocm;
use super::stack_repository::StackRepository;
use super::stage::Stage;
use super::tail;
use super::undeclared;
use super::{Builder, BuiltRpms, Installable, Job};
use crate::error::{Error, IoError, Kind};
use crate::events::{Event, Events, WorkPhase};
use crate::files;
use crate::gpu::GpuTarget;
use crate::process::{check_stop, end_leftovers, own_program, quote};
use crate::rpms::{is_debug, name_of_file};
use crate::sources::{self, Fetcher};
use crate::spec::{Rendered, rocm_version};
use crate::stack::{PlannedComponent, Stack, Verdict};
use crate::workspace::{Component, Pin, Workspace};

/// What building any component of a run needs.
pub(super) struct BuildContext<'a> {
    pub stack: &'a Stack<'a>,
    pub workspace: &'a Workspace,
    pub builder: &'a dyn Builder,
    pub fetcher: &'a Fetcher<'a>,
    pub events: &'a dyn Events,
    pub until: Stage,
    pub timeout: Option<Duration>,
    pub verbose: bool,
    pub installable: Installable,
    pub repository: &'a StackRepository<'a>,
}

/// The result of building a component.
#[derive(Debug)]
pub struct Built {
    /// Where its results are.
    pub results: Results,
    /// A short summary of the result, such as `2 RPMs`.
    pub summary: String,
}

pub(super) fn rpm_count(n: usize) -> String {
    format!("{n} RPM{}", if n == 1 { "" } else { "s" })
}

impl BuildContext<'_> {
    /// Builds one component. `jobs` is the number of compile jobs that it may run.
    pub fn build(
        &self,
        component: &Component,
        spec: &Rendered,
        step: &PlannedComponent,
        targets: &[GpuTarget],
        jobs: usize,
    ) -> Result<Built, Error> {
        let build_dir = self.workspace.build_dir_of(&component.name);
        let work = work_dir(&build_dir, &component.name);
        let job = Job {
            component,
            gpu_targets: targets,
            spec,
            sources: work.join("sources"),
            work: build_folder(&build_dir, &component.name),
            logs: work.join("logs"),
            jobs,
            timeout: self.timeout.or(component.timeout),
            repository: self.repository.dir(),
            required: required_packages(self.stack, component)?,
            enter: Some(enter_again(self.workspace, component)),
            events: self.events,
        };
        // A run that was killed could not stop its child processes, which would write into this
        // build.
        end_leftovers(&job.work).map_err(IoError::doing("stop processes of an earlier run"))?;
        let results = Results::of(&build_dir, self.until, &component.name);
        let waiting = Results::rejected(&build_dir, &component.name);
        match step.verdict {
            Verdict::Inspect(_) => {
                self.repository.exclusively(|| take_back(&results, &waiting, step, &work))?;
            }
            Verdict::Fresh | Verdict::Stale(_) => self.make(&job, step, &work, &waiting)?,
        }
        if self.until > Stage::Srpm {
            self.inspect(&job, step, &waiting)?;
        }
        let made: Vec<String> =
            waiting.record()?.into_iter().flat_map(|r| r.outputs).map(|o| o.file).collect();
        self.repository
            .exclusively(|| results.replace_with(waiting.dir()))
            .and_then(|()| files::remove_dir_if_there(&work))
            .map_err(IoError::doing(format!("keep the results of `{}`", component.name)))?;
        let rpms = made.iter().filter(|file| is_binary_rpm(file)).count();
        let srpm = made.iter().find(|file| file.ends_with(".src.rpm"));
        let summary = match step.verdict {
            _ if rpms == 0 => srpm.cloned().unwrap_or_default(),
            Verdict::Inspect(_) => format!("{}, reinspected", rpm_count(rpms)),
            Verdict::Fresh | Verdict::Stale(_) => rpm_count(rpms),
        };
        Ok(Built { results, summary })
    }

    /// Builds a component and leaves the result, with its record, in the folder `waiting`.
    fn make(
        &self,
        job: &Job<'_>,
        step: &PlannedComponent,
        work: &Path,
        waiting: &Results,
    ) -> Result<(), Error> {
        let Job { component, spec, .. } = *job;
        let prepare = || format!("prepare `{}`", work.display());
        // From now on, the build root is that of this build.
        let shell = shell_dir(&self.workspace.build_dir_of(&component.name), &component.name);
        for dir in [work, &shell] {
            files::remove_dir_if_there(dir).map_err(IoError::doing(prepare()))?;
        }
        for dir in [&job.sources, &job.work, &job.logs] {
            fs_err::create_dir_all(dir).map_err(IoError::doing(prepare()))?;
        }
        let mut clock = Clock { seconds: BTreeMap::new(), started: Instant::now() };
        let phase = |phase, detail: &str| self.phase(component, phase, detail);

        let pin = self.workspace.pin(component);
        let (mut sources, mut patches) = lay_out(self.fetcher, component, pin, spec, &job.sources)?;
        if self.until > Stage::Srpm {
            lay_out_rocm(self.workspace, self.fetcher, &job.work)?;
        }
        self.check_unchanged(pin, step, &patches)?;
        sources.append(&mut patches);
        clock.lap("fetch");

        check_stop()?;
        phase(WorkPhase::Packing, &spec.file_name);
        let srpm = self.shown(job, || self.builder.srpm(job))?;
        clock.lap("srpm");

        let mut built = BuiltRpms::default();
        if self.until > Stage::Srpm {
            check_stop()?;
            phase(WorkPhase::Building, "");
            built = self.shown(job, || self.builder.rpms(job, &srpm))?;
            clock.lap("build");
            if built.rpms.is_empty() {
                return Err(ComponentError::NoRpms { component: component.name.to_string() }.into());
            }
            let warnings = undeclared::warnings(self.stack, component, &built.buildroot)?;
            warnings.into_iter().for_each(|text| self.events.event(Event::Warning(text)));
        }
        let record = BuildRecord {
            schema: SCHEMA.to_owned(),
            component: component.name.to_string(),
            version: pin.version.clone(),
            release: spec.release.release.clone(),
            dirty: spec.release.dirty,
            source_date_epoch: spec.release.seconds,
            key: step.key,
            inputs: step.inputs.clone(),
            chroot: self.workspace.chroot.name.clone(),
            builder: self.builder.name().to_owned(),
            stage: self.until.min(Stage::Rpm).name().to_owned(),
            gpu_targets: target_names(job.gpu_targets),
            rocm: rocm_version(&self.workspace.provider).ok(),
            sources,
            outputs: Vec::new(),
            buildroot: built.buildroot,
            unchecked_build_requires: built.unchecked,
        };
        let spec_path = job.sources.join(&spec.file_name);
        let files: Vec<&PathBuf> = [&srpm, &spec_path].into_iter().chain(&built.rpms).collect();
        let keep = IoError::doing(format!("keep the results of `{}`", component.name));
        if let Some(lock) = &built.lock {
            let keep = IoError::doing("keep the lock of the build root");
            fs_err::create_dir_all(waiting.dir())
                .and_then(|()| files::link_or_copy(lock, &waiting.dir().join(BUILDROOT_LOCK)))
                .map_err(keep)?;
        }
        Ok(store(waiting, &files, &job.logs, record, clock.seconds).map_err(keep)?)
    }

    /// Runs a step of the builder, and shows its output if the user wants that.
    fn shown<T>(&self, job: &Job<'_>, step: impl FnOnce() -> T) -> T {
        if self.verbose { tail::shown(job, self.builder.output_logs(), step) } else { step() }
    }

    pub(super) fn phase(&self, component: &Component, phase: WorkPhase, detail: &str) {
        let component = component.name.clone();
        self.events.event(Event::Phase { component, phase, detail: detail.to_owned() });
    }

    /// Fails if the source or a patch changed since the plan was made: the result would be recorded
    /// under a wrong key.
    fn check_unchanged(
        &self,
        pin: &Pin,
        step: &PlannedComponent,
        patches: &[FileRecord],
    ) -> Result<(), Error> {
        let mut now = sources::identities(pin, &self.workspace.root)?;
        now.extend(
            patches.iter().map(|patch| (format!("patch {}", patch.file), patch.sha256.to_string())),
        );
        match now.iter().find(|(name, value)| step.inputs.get(name) != Some(value.as_str())) {
            None => Ok(()),
            Some((name, _)) => {
                let message =
                    format!("the {name} of `{}` changed while rocmrpm was running", pin.component);
                Err(Error::new(Kind::Environment, message).with_help("run the same command again"))
            }
        }
    }

    /// Returns the command that builds these components again.
    pub fn retry(&self, components: &[&str]) -> String {
        let components = components.join(" ");
        if self.builder.name() == "copr" {
            return command_again(self.workspace, &format!("copr push {components}"), &[]);
        }
        let mut options = vec![format!("--builder {}", self.builder.name())];
        if self.until < Stage::Container {
            options.push(format!("--until {}", self.until));
        }
        command_again(self.workspace, &format!("build {components}"), &options)
    }
}

/// Returns the accepted RPMs of all components that a component requires, without debugging packages.
pub fn required_packages(
    stack: &Stack<'_>,
    component: &Component,
) -> Result<Vec<PathBuf>, IoError> {
    let mut packages = Vec::new();
    for required in stack.with_required(&[component]).into_values() {
        if required.name != component.name {
            let build_dir = stack.workspace.build_dir_of(&required.name);
            packages.extend(Results::of(&build_dir, Stage::Rpm, &required.name).rpms()?);
        }
    }
    packages.retain(|package| !name_of_file(package).is_some_and(is_debug));
    Ok(packages)
}

/// Returns a rocmrpm command with the current workspace, chroot and pins, for the user to copy.
pub(crate) fn command_again(workspace: &Workspace, command: &str, options: &[String]) -> String {
    let Workspace { root, chroot, pins, .. } = workspace;
    let mut words = vec![
        "-C".to_owned(),
        quote(&root.to_string_lossy()),
        format!("{command} --chroot {} --pins {}", quote(&chroot.name), quote(&pins.name)),
    ];
    words.extend(options.iter().cloned());
    for pin in pins.pins.values().map(|at| &at.value).filter(|pin| pin.overridden) {
        words.push(format!("--pin {}", quote(&format!("{}={}", pin.component, pin.version))));
    }
    format!("{} {}", own_program(), words.join(" "))
}

/// Returns the command that enters a component's build root.
pub(crate) fn enter_again(workspace: &Workspace, component: &Component) -> String {
    command_again(workspace, &format!("shell {}", component.name), &[])
}

/// Moves results that must be inspected again to where a build leaves them, unless they are there
/// already: until they pass, they are not accepted.
fn take_back(
    results: &Results,
    waiting: &Results,
    step: &PlannedComponent,
    work: &Path,
) -> Result<(), IoError> {
    if results.record()?.is_none_or(|record| record.key != step.key) {
        return Ok(());
    }
    files::remove_dir_if_there(work)
        .and_then(|()| fs_err::create_dir_all(work))
        .and_then(|()| fs_err::rename(results.dir(), waiting.dir()))
        .map_err(IoError::doing(format!("reinspect `{}`", step.component)))
}

/// Fills a results folder: files, logs, and last the record.
fn store(
    to: &Results,
    files: &[&PathBuf],
    logs: &Path,
    mut record: BuildRecord,
    seconds: BTreeMap<String, f64>,
) -> std::io::Result<()> {
    fs_err::create_dir_all(to.dir())?;
    for file in files {
        let copy = to.dir().join(file.file_name().unwrap_or_default());
        files::link_or_copy(file, &copy)?;
        record.outputs.push(FileRecord::of(&copy)?);
    }
    record.outputs.sort_by(|a, b| a.file.cmp(&b.file));
    fs_err::rename(logs, to.dir().join("logs"))?;
    to.write(&record, &Times::until_now(seconds))
}

/// Measures phases one after the other.
struct Clock {
    seconds: BTreeMap<String, f64>,
    started: Instant,
}

impl Clock {
    fn lap(&mut self, phase: &str) {
        let seconds = self.started.elapsed().as_secs_f64();
        self.seconds.insert(phase.to_owned(), (seconds * 1000.0).round() / 1000.0);
        self.started = Instant::now();
    }
}
