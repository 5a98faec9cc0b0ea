//! One component's way from its pin to a results folder: source, spec, SRPM, RPMs,
//! inspection. Nothing stands in the results folder that did not pass.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::record::{BuildRecord, FileRecord, Results, SCHEMA, target_names};
use super::shelf::Shelf;
use super::stage::Stage;
use super::{Builder, BuiltRpms, Job};
use crate::error::{Diagnose, Error, IoError, Kind};
use crate::events::{Event, Events};
use crate::files;
use crate::gpu::GpuTarget;
use crate::inspect::{self, Depth, Expectations, Report, Severity};
use crate::process::{check_stop, end_leftovers, own_program, quote};
use crate::sources::{self, Fetcher};
use crate::spec::{Rendered, rocm_version};
use crate::stack::Step;
use crate::workspace::{Component, Pin, Workspace};

/// What a component's way needs beside the component.
pub(super) struct Way<'a> {
    pub workspace: &'a Workspace,
    pub builder: &'a dyn Builder,
    pub fetcher: &'a Fetcher<'a>,
    pub events: &'a dyn Events,
    pub until: Stage,
    pub shelf: &'a Shelf<'a>,
}

/// What came of a component.
#[derive(Debug)]
pub struct Built {
    /// Where its results are.
    pub results: Results,
    /// A few words on what came of it, such as `2 RPMs`.
    pub summary: String,
}

/// Why a component was built and yet not accepted.
#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    /// The inspection found errors.
    #[error("`{component}` did not pass inspection: {}", count(report))]
    Findings {
        /// Which component.
        component: String,
        /// Everything that was found.
        report: Box<Report>,
        /// Where the whole report is.
        path: PathBuf,
        /// The folder with the build's logs.
        logs: PathBuf,
        /// The command that tries again.
        retry: String,
    },
    /// Another component brings the same package.
    #[error("`{component}` makes the package `{package}`, as `{other}` does")]
    SamePackage {
        /// The component that was built.
        component: String,
        /// The component that has the package already.
        other: String,
        /// The RPM's file name.
        package: String,
    },
    /// The build succeeded without a package.
    #[error("`{component}` was built, but no RPM came of it")]
    NoRpms {
        /// Which component.
        component: String,
    },
}

fn rpm_count(n: usize) -> String {
    format!("{n} RPM{}", if n == 1 { "" } else { "s" })
}

fn count(report: &Report) -> String {
    match report.errors().count() {
        1 => "1 error".to_owned(),
        n => format!("{n} errors"),
    }
}

impl Diagnose for ComponentError {
    fn kind(&self) -> Kind {
        match self {
            Self::Findings { .. } => Kind::Findings,
            Self::SamePackage { .. } => Kind::Config,
            Self::NoRpms { .. } => Kind::Build,
        }
    }

    fn details(&self) -> Vec<String> {
        match self {
            Self::Findings { report, .. } => report.errors().map(ToString::to_string).collect(),
            Self::SamePackage { .. } | Self::NoRpms { .. } => Vec::new(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Findings { report, path, logs, retry, .. } => {
                let mut hints: Vec<String> = report.errors().map(|finding| finding.remedy.clone()).collect();
                hints.dedup();
                hints.push(format!("the whole report: {}", path.display()));
                hints.push(format!("the build's logs: {}", logs.display()));
                hints.push(format!("to try again: {retry}"));
                hints
            }
            Self::SamePackage { other, .. } => vec![format!(
                "take it out of one of the two templates; if it moved here, build `{other}` first"
            )],
            Self::NoRpms { .. } => vec!["does the template have a `%files` section?".into()],
        }
    }
}

impl Way<'_> {
    /// Takes one component all the way. `jobs` is how many compile jobs it may run.
    pub fn build(
        &self,
        component: &Component,
        spec: &Rendered,
        step: &Step,
        targets: &[GpuTarget],
        jobs: usize,
    ) -> Result<Built, Error> {
        let build_dir = self.workspace.build_dir();
        let work = build_dir.join("work").join(component.name.as_str());
        let prepare = || format!("prepare `{}`", work.display());
        let own = work.join("build");
        // A run that was killed could not end its children, which would write into
        // this build.
        end_leftovers(&own).map_err(IoError::doing("end what an earlier run left running"))?;
        files::remove_dir_if_there(&work).map_err(IoError::doing(prepare()))?;
        let job = Job {
            component,
            gpu_targets: targets,
            spec,
            sources: work.join("sources"),
            work: own,
            logs: work.join("logs"),
            jobs,
            repository: self.shelf.dir(),
            retry: self.retry(component),
        };
        for dir in [&job.sources, &job.work, &job.logs] {
            fs_err::create_dir_all(dir).map_err(IoError::doing(prepare()))?;
        }
        let mut clock = Clock { seconds: BTreeMap::new(), started: Instant::now() };
        let phase = |phase, detail: &str| {
            let component = component.name.clone();
            self.events.event(Event::Phase { component, phase, detail: detail.to_owned() });
        };

        let pin = self.workspace.pin(component);
        let fetched = self.fetcher.obtain(pin)?;
        self.fetcher.copy_to(&fetched, &job.sources)?;
        let mut sources =
            vec![FileRecord { file: spec.source_file.clone(), sha256: fetched.sha256, size: fetched.size }];
        for patch in &component.patches {
            let to = job.sources.join(patch);
            fs_err::copy(component.dir.join(patch), &to).map_err(IoError::doing("copy a patch"))?;
            sources.push(FileRecord::of(&to).map_err(IoError::doing("read a patch"))?);
        }
        self.check_unchanged(pin, step, &sources)?;
        let spec_path = job.sources.join(&spec.file_name);
        files::write_atomically(&spec_path, &spec.text).map_err(IoError::doing("write the spec"))?;
        clock.lap("fetch");

        check_stop()?;
        phase("Packing", &spec.file_name);
        let srpm = self.builder.srpm(&job)?;
        clock.lap("srpm");

        let mut built = BuiltRpms::default();
        let mut report = None;
        if self.until > Stage::Srpm {
            check_stop()?;
            phase("Building", "");
            built = self.builder.rpms(&job, &srpm)?;
            clock.lap("build");
            if built.rpms.is_empty() {
                return Err(ComponentError::NoRpms { component: component.name.to_string() }.into());
            }
            self.shelf.check_names(&component.name, &built.rpms)?;
            phase("Inspecting", &rpm_count(built.rpms.len()));
            report = Some(self.inspect(component, targets, &job, &built.rpms, &work)?);
            clock.lap("inspect");
        }

        let out = work.join("results");
        let keep = IoError::doing(format!("keep the results of `{}`", component.name));
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
            gpu_targets: target_names(targets),
            rocm: rocm_version(&self.workspace.provider).ok(),
            sources,
            outputs: Vec::new(),
            buildroot: built.buildroot,
            unchecked_build_requires: built.unchecked,
            seconds: clock.seconds,
            finished: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        };
        let files: Vec<&PathBuf> = [&srpm, &spec_path].into_iter().chain(&built.rpms).collect();
        let results = Results::of(&build_dir, self.until, &component.name);
        store(&out, &files, report.as_ref(), &job.logs, record)
            .and_then(|()| results.replace_with(&out))
            .and_then(|()| files::remove_dir_if_there(&work))
            .map_err(keep)?;
        let summary = match built.rpms.len() {
            0 => srpm.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            n => rpm_count(n),
        };
        Ok(Built { results, summary })
    }

    /// Refuses to go on if the source or a patch is not what the plan saw: the result
    /// would be recorded under a wrong key. `sources` are the source and the patches.
    fn check_unchanged(&self, pin: &Pin, step: &Step, sources: &[FileRecord]) -> Result<(), Error> {
        let mut now = vec![("source".to_owned(), sources::identity(pin, &self.workspace.root)?)];
        let patches = sources.iter().skip(1);
        now.extend(patches.map(|patch| (format!("patch {}", patch.file), patch.sha256.to_string())));
        match now.iter().find(|(name, value)| step.inputs.get(name) != Some(value.as_str())) {
            None => Ok(()),
            Some((name, _)) => {
                let message = format!("the {name} of `{}` changed while rocmrpm was running", pin.component);
                Err(Error::new(Kind::Environment, message).hinted("run the same command again"))
            }
        }
    }

    /// Inspects what was built; an error ends the component's way.
    fn inspect(
        &self,
        component: &Component,
        targets: &[GpuTarget],
        job: &Job<'_>,
        rpms: &[PathBuf],
        work: &Path,
    ) -> Result<Report, Error> {
        let expectations = Expectations {
            gpu_targets: targets.to_vec(),
            device_code: component.device_code,
            build_roots: self.builder.build_roots(job),
            ..Expectations::default()
        };
        let report = inspect::inspect(rpms, &expectations, Depth::Deep)?;
        for finding in report.findings.iter().filter(|finding| finding.severity == Severity::Warning) {
            self.events.event(Event::Warning(format!("{}: {finding}", component.name)));
        }
        if report.has_errors() {
            let path = work.join("inspection.json");
            files::write_atomically(&path, inspection_json(&report))
                .map_err(IoError::doing("write inspection.json"))?;
            let component = component.name.to_string();
            let (logs, retry) = (job.logs.clone(), job.retry.clone());
            return Err(
                ComponentError::Findings { component, report: Box::new(report), path, logs, retry }.into()
            );
        }
        Ok(report)
    }

    /// Returns the command that builds this component again.
    fn retry(&self, component: &Component) -> String {
        let Workspace { root, chroot, pins, .. } = self.workspace;
        let mut words = vec![
            "-C".to_owned(),
            quote(&root.to_string_lossy()),
            format!("build {} --chroot {} --pins {}", component.name, quote(&chroot.name), quote(&pins.name)),
            format!("--builder {}", self.builder.name()),
        ];
        if self.until < Stage::Container {
            words.push(format!("--until {}", self.until));
        }
        for pin in pins.pins.values().map(|at| &at.value).filter(|pin| pin.overridden) {
            words.push(format!("--pin {}", quote(&format!("{}={}", pin.component, pin.version))));
        }
        format!("{} {}", own_program(), words.join(" "))
    }
}

/// Fills a results folder: files, logs, inspection, and last the record.
fn store(
    out: &Path,
    files: &[&PathBuf],
    report: Option<&Report>,
    logs: &Path,
    mut record: BuildRecord,
) -> std::io::Result<()> {
    fs_err::create_dir_all(out)?;
    for file in files {
        let to = out.join(file.file_name().unwrap_or_default());
        files::link_or_copy(file, &to)?;
        record.outputs.push(FileRecord::of(&to)?);
    }
    if let Some(report) = report {
        let path = out.join("inspection.json");
        fs_err::write(&path, inspection_json(report))?;
        record.outputs.push(FileRecord::of(&path)?);
    }
    record.outputs.sort_by(|a, b| a.file.cmp(&b.file));
    fs_err::rename(logs, out.join("logs"))?;
    let mut json = serde_json::to_vec_pretty(&record)?;
    json.push(b'\n');
    files::write_atomically(&out.join("build.json"), json)
}

fn inspection_json(report: &Report) -> Vec<u8> {
    // A report is plain data: strings, numbers, lists and maps with string keys.
    let mut json = serde_json::to_vec_pretty(report).unwrap_or_default();
    json.push(b'\n');
    json
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
