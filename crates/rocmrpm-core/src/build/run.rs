//! A run: compares the plan of a stack with its results on disk, builds every stale component, and
//! keeps the repository up to date. How a component is built is up to `component`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::component::{BuildContext, Built};
use super::gate;
use super::lock::BuildLock;
use super::record::Results;
use super::rocm_root;
use super::schedule::{self, End, Limits, Task, run_tasks};
use super::stack_repository::StackRepository;
use super::stage::Stage;
use super::state::record_failure;
use super::undeclared::refuse_stale;
use super::{Builder, Installable};
use crate::canonical::canonical;
use crate::digest::Sha256;
use crate::error::{Diagnose, Error, IoError, Kind, Problem, Problems};
use crate::events::{self, Event, Events};
use crate::lint::unfinished_in;
use crate::names::ComponentName;
use crate::sources::{self, Fetcher, SourceError};
use crate::spec::{self, History, Rendered};
use crate::stack::{Earlier, Inputs, KeyInputs, Plan, Recorded, SPEC, Stack, Verdict};
use crate::workspace::{
    Chroot, Component, Provider, RocmLock, Workspace, closure_not_written, today,
};

/// The time from which a build counts as long, in seconds.
const LONG_BUILD: f64 = 600.0;

/// The memory per job from which a build that never ran counts as long: that of large C++ sources.
const MEMORY_OF_LONG_BUILDS: u64 = 3_000_000_000;

/// The options of a run.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The last stage to run.
    pub until: Stage,
    /// Whether to continue after every failure with components that do not depend on it; otherwise
    /// only after that of a component that no other one requires.
    pub keep_going: bool,
    /// The timeout of each build; overrides that of the component.
    pub timeout: Option<Duration>,
    /// Whether to show the output of builds.
    pub verbose: bool,
    /// Rejects packages that cannot be installed, before they become results.
    pub installable: Installable,
}

/// What is known before anything is built.
pub struct Prepared<'s, 'w> {
    /// The stack.
    pub stack: &'s Stack<'w>,
    /// The requested components and their dependencies, in build order.
    pub selected: Vec<&'w Component>,
    /// The rendered specs.
    pub specs: BTreeMap<ComponentName, Rendered>,
    /// What to build, and why.
    pub plan: Plan,
    /// Warnings about the workspace.
    pub warnings: Vec<String>,
    /// The last stage to run.
    until: Stage,
}

/// An estimate of how long a plan takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// The total in seconds, based on earlier runs.
    pub seconds: f64,
    /// The components without an earlier run; they are not included.
    pub unknown: Vec<ComponentName>,
}

impl Prepared<'_, '_> {
    /// Makes the named components stale, or all if there are no names.
    pub fn force(&mut self, names: &[String]) {
        for component in &self.selected {
            if names.is_empty() || names.iter().any(|name| name == component.name.as_str()) {
                self.plan.force(component.name.as_str());
            }
        }
    }

    /// Returns the components that would take long to build and have to be built again once the
    /// changes in the workspace are committed: a commit changes the Release. Overridden pins are
    /// experiments, which are not committed.
    pub fn long_and_uncommitted(&self) -> Vec<&ComponentName> {
        let pins = &self.stack.workspace.pins.pins;
        if self.until < Stage::Rpm || pins.values().any(|pin| pin.value.overridden) {
            return Vec::new();
        }
        let stale = |name: &ComponentName| {
            let step = self.plan.step(name.as_str());
            step.is_some_and(|step| matches!(step.verdict, Verdict::Stale(_)))
        };
        let long = |component: &Component| {
            let earlier = self.task(component, &Verdict::Stale(Vec::new())).seconds;
            earlier.map_or(component.memory_per_job >= MEMORY_OF_LONG_BUILDS, |s| s >= LONG_BUILD)
        };
        let selected = self.selected.iter().filter(|component| {
            self.specs[&component.name].release.dirty && stale(&component.name) && long(component)
        });
        selected.map(|component| &component.name).collect()
    }

    /// Returns the work to do, in build order.
    fn tasks(&self) -> Vec<Task> {
        let verdict =
            |component: &Component| Some(&self.plan.step(component.name.as_str())?.verdict);
        let pending =
            self.selected.iter().filter_map(|component| Some((component, verdict(component)?)));
        let pending = pending.filter(|(_, verdict)| **verdict != Verdict::Fresh);
        pending.map(|(component, verdict)| self.task(component, verdict)).collect()
    }

    /// Builds the component of a task, and reports how that ends.
    fn build(&self, context: &BuildContext<'_>, task: &Task, jobs: usize) -> Result<Built, Error> {
        let started = Instant::now();
        let component = self.selected.iter().find(|c| c.name.as_str() == task.name);
        let (Some(component), Some(step)) = (component, self.plan.step(&task.name)) else {
            let message = format!("the task `{}` has no component", task.name);
            return Err(Error::new(Kind::Internal, message));
        };
        let targets = self.stack.gpu_targets(component);
        let result = context.build(component, &self.specs[&component.name], step, targets, jobs);
        let result = result.and_then(|built| {
            if context.until > Stage::Srpm {
                context.repository.accept(&component.name)?;
            }
            Ok(built)
        });
        if result.is_err() && matches!(step.verdict, Verdict::Inspect(_)) {
            // It was in the repository until now.
            context.repository.refresh()?;
        }
        let (outcome, detail) = match &result {
            Ok(built) => (events::Outcome::Built, built.summary.clone()),
            Err(error) if error.kind() == Kind::Interrupted => {
                (events::Outcome::Stopped, String::new())
            }
            Err(_) => (events::Outcome::Failed, String::new()),
        };
        let (component, seconds) = (component.name.clone(), started.elapsed().as_secs_f64());
        context.events.event(Event::Finished { component, outcome, seconds, detail });
        if let (events::Outcome::Failed, Err(error)) = (outcome, &result) {
            context.events.failure(error);
            // Only for `rocmrpm status`: a full disk must not hide why the build failed.
            let build_dir = context.workspace.build_dir_of(&step.component);
            let _ = record_failure(&build_dir, &step.component, error);
        }
        result
    }

    fn task(&self, component: &Component, verdict: &Verdict) -> Task {
        let build_dir = self.stack.workspace.build_dir_of(&component.name);
        let accepted = Results::of(&build_dir, self.until, &component.name).seconds();
        let rejected = Results::rejected(&build_dir, &component.name).seconds();
        let (build, inspection) = (accepted.0.or(rejected.0), accepted.1.or(rejected.1));
        let seconds = match verdict {
            Verdict::Inspect(_) => inspection,
            Verdict::Fresh | Verdict::Stale(_) => {
                build.map(|build| build + inspection.unwrap_or(0.0))
            }
        };
        Task {
            name: component.name.to_string(),
            requires: requires(component, self.until).into_iter().map(str::to_owned).collect(),
            memory_per_job: component.memory_per_job,
            seconds,
        }
    }

    /// Estimates how long the plan takes with these limits, based on earlier runs; `None` if there
    /// is nothing to do, or no earlier run of any of it.
    pub fn estimate(&self, limits: Limits) -> Option<Estimate> {
        let tasks = self.tasks();
        let unknown = tasks.iter().filter(|task| task.seconds.is_none());
        let unknown: Vec<_> = unknown.filter_map(|task| ComponentName::parse(&task.name)).collect();
        let seconds = schedule::estimate(&tasks, limits);
        (unknown.len() < tasks.len()).then_some(Estimate { seconds, unknown })
    }
}

/// How one component of a run finished.
#[derive(Debug)]
pub enum Outcome {
    /// Built and accepted.
    Built(Built),
    /// It was already up to date.
    Fresh,
    /// It failed.
    Failed(Error),
    /// It was not tried, for this reason.
    Skipped(String),
}

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    /// Every selected component, in build order.
    pub outcomes: Vec<(ComponentName, Outcome)>,
    /// The command that builds again what failed, if a build failed.
    pub retry: Option<String>,
}

impl Run {
    /// Returns whether the repository, wheels, and index can be made from what succeeded: nothing
    /// was left out, except for components that failed and those that require them.
    pub fn usable(&self, keep_going: bool) -> bool {
        let interrupted = |outcome: &Outcome| match outcome {
            Outcome::Failed(error) => error.kind() == Kind::Interrupted,
            Outcome::Skipped(_) => !keep_going,
            Outcome::Built(_) | Outcome::Fresh => false,
        };
        let succeeded = |outcome: &Outcome| matches!(outcome, Outcome::Built(_) | Outcome::Fresh);
        let mut outcomes = self.outcomes.iter().map(|(_, outcome)| outcome);
        self.complete() || outcomes.clone().any(succeeded) && !outcomes.any(interrupted)
    }

    /// Returns whether every component is built or up to date.
    pub fn complete(&self) -> bool {
        self.outcomes
            .iter()
            .all(|(_, outcome)| matches!(outcome, Outcome::Built(_) | Outcome::Fresh))
    }
}

/// Renders the specs of the selected components and compares their build keys with the results on
/// disk. Reports the errors of all templates and pins together.
pub fn prepare<'s, 'w>(
    stack: &'s Stack<'w>,
    selected: Vec<&'w Component>,
    builder: &dyn Builder,
    until: Stage,
) -> Result<Prepared<'s, 'w>, Error> {
    let workspace = stack.workspace;
    if until > Stage::Srpm {
        refuse_stale(stack)?;
    }
    let history = History::read(workspace)?;
    let mut specs = BTreeMap::new();
    let mut problems = Problems::default();
    let mut plan = Plan::default();
    let mut unpinned: Vec<(&Component, SourceError)> = Vec::new();
    for component in &selected {
        let rendered = match spec::render(stack, component, &history) {
            Ok(rendered) => Some(rendered),
            Err(error) => {
                problems.absorb(error)?;
                None
            }
        };
        let identities = sources::identities(workspace.pin(component), &workspace.root);
        let source = match identities {
            Ok(identities) => Some(identities),
            Err(error @ SourceError::NotPinned { .. }) => {
                unpinned.push((*component, error));
                None
            }
            Err(error) => return Err(error.into()),
        };
        let (Some(rendered), Some(source)) = (rendered, source) else { continue };
        let now = Inputs {
            build: key_inputs(stack, component, &rendered, source, builder)?,
            inspection: gate::inputs(workspace, component, until),
        };
        let build_dir = workspace.build_dir_of(&component.name);
        let rejected = Results::rejected(&build_dir, &component.name);
        let accepted = Results::of(&build_dir, until, &component.name);
        let earlier = Earlier {
            releases: releases(&accepted, &rendered)?,
            accepted: recorded(&accepted, builder)?,
            rejected: recorded(&rejected, builder)?.filter(|_| until > Stage::Srpm),
        };
        let requires = requires(component, until);
        plan.push(&component.name, &requires, now, &earlier);
        specs.insert(component.name.clone(), rendered);
    }
    if !problems.0.is_empty() {
        problems.0.extend(
            unpinned.iter().map(|(component, error)| not_pinned(workspace, component, error)),
        );
        return Err(problems.into());
    }
    if unpinned.len() > 1 {
        let list: Vec<String> = unpinned.iter().map(|(_, error)| error.to_string()).collect();
        let message = format!("{} pins are not immutable: {}", list.len(), list.join("; "));
        let help = unpinned[0].1.help();
        return Err(help.into_iter().fold(Error::new(Kind::Config, message), Error::with_help));
    }
    if let Some((_, error)) = unpinned.pop() {
        return Err(error.into());
    }
    let mut warnings: Vec<String> = history.warning.iter().cloned().collect();
    warnings.extend(workspace.end_of_life(&workspace.chroot, today()));
    let unwritten = closure_not_written(workspace, &selected);
    warnings.extend(unwritten.map(|Problem { message, help, .. }| {
        [Some(message), help].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }));
    for (name, reason) in &stack.left_out {
        warnings.push(format!("`{name}` is left out: {reason}"));
    }
    Ok(Prepared { stack, selected, specs, plan, warnings, until })
}

/// Returns whether an error is about this machine, such as a full disk, and not about a component:
/// other builds would fail in the same way.
fn stops_all(error: &Error) -> bool {
    matches!(error.kind(), Kind::Environment | Kind::Internal)
}

/// Reads the record of existing results, which count as damaged if the builder has lost them.
fn recorded(results: &Results, builder: &dyn Builder) -> Result<Option<Recorded>, Error> {
    let Some(mut recorded) = results.recorded()? else { return Ok(None) };
    if recorded.damaged.is_none() {
        recorded.damaged = builder.lost(results.dir())?;
    }
    Ok(Some(recorded))
}

/// Returns the old and the new Release, without the dist tag, if a spec differs from that of existing
/// results in nothing else.
fn releases(results: &Results, rendered: &Rendered) -> Result<Option<(String, String)>, Error> {
    let Some(record) = results.record()? else { return Ok(None) };
    let old = fs_err::read_to_string(results.dir().join(&rendered.file_name)).unwrap_or_default();
    let short = |release: &str| release.replace("%{?dist}", "");
    let (was, now) = (short(&record.release), short(&rendered.release.release));
    let same = was != now && without_release(&old) == without_release(&rendered.text);
    Ok(same.then_some((was, now)))
}

/// Returns the lines of a spec that do not follow from the git history.
fn without_release(spec: &str) -> Vec<&str> {
    let mut in_changelog = false;
    let lines = spec.lines().filter(|line| {
        if line.starts_with('%') {
            in_changelog = line.trim_end() == "%changelog";
        }
        !in_changelog && !line.starts_with("Release:")
    });
    lines.collect()
}

/// Reports a pin that is not immutable at its position, along with other errors.
fn not_pinned(workspace: &Workspace, component: &Component, error: &SourceError) -> Problem {
    let set = &workspace.pins;
    let span = set.pins.get(&component.name).map_or(0..0, |at| at.span.clone());
    Problem {
        help: error.help().pop(),
        ..set.file_of(&component.name).problem(span, error.to_string(), "")
    }
}

/// Lists everything that can change a component's result.
fn key_inputs(
    stack: &Stack<'_>,
    component: &Component,
    rendered: &Rendered,
    sources: Vec<(String, String)>,
    builder: &dyn Builder,
) -> Result<KeyInputs, Error> {
    let workspace = stack.workspace;
    let mut inputs = KeyInputs::default();
    inputs.add(SPEC, rendered.digest);
    for (name, identity) in sources {
        inputs.add(name, identity);
    }
    for patch in component.patches_for(&workspace.pin(component).version) {
        let path = component.dir.join(&patch.file_name);
        let digest = Sha256::of_file(&path).map_err(IoError::doing("read a patch"))?.0;
        inputs.add(format!("patch {}", patch.file_name), digest);
    }
    surroundings(stack, component, builder, &mut inputs);
    Ok(inputs)
}

/// Adds the environment that a component is built in and for.
pub(crate) fn surroundings(
    stack: &Stack<'_>,
    component: &Component,
    builder: &dyn Builder,
    inputs: &mut KeyInputs,
) {
    let (chroot, provider) = (&stack.workspace.chroot, &stack.workspace.provider);
    inputs.add("chroot", Sha256::of_bytes(chroot_text(chroot)));
    if !chroot.additional_packages.is_empty() {
        let packages: Vec<&str> =
            chroot.additional_packages.iter().map(|at| at.value.as_str()).collect();
        inputs.add("additional packages", packages.join(" "));
    }
    inputs.add("ROCm provider", Sha256::of_bytes(provider_text(provider)));
    if provider.delivery.is_some() {
        let lock = provider.lock.as_ref().map(RocmLock::text).unwrap_or_default();
        inputs.add("lock of ROCm", Sha256::of_bytes(lock));
    }
    let targets: Vec<_> = stack.gpu_targets(component).iter().map(|t| t.as_str()).collect();
    inputs.add("GPU targets", targets.join(" "));
    inputs.add("builder", builder.identity());
}

fn chroot_text(chroot: &Chroot) -> String {
    let repositories: Vec<_> =
        chroot.repositories.iter().map(|r| (&r.id, &r.url, &r.gpg_key, r.priority)).collect();
    let system = (&chroot.release, &chroot.arch, &chroot.python, &chroot.dist, &chroot.base_config);
    canonical(&(system, &chroot.macros, repositories))
}

fn provider_text(provider: &Provider) -> String {
    canonical(&(&provider.prefix, &provider.version, &provider.gpu_macros))
}

/// Rejects specs with placeholders, or with licenses that are not SPDX expressions: users would see
/// them in the packages.
fn refuse_unfinished(prepared: &Prepared<'_, '_>, stale: &[&Component]) -> Result<(), Error> {
    let mut problems = Problems::default();
    for component in stale {
        let Some(spec) = prepared.specs.get(&component.name) else { continue };
        let template = fs_err::read_to_string(&component.template)
            .map_err(IoError::doing("read a spec's template"))?;
        let root = &prepared.stack.workspace.root;
        let file = component.template.strip_prefix(root).unwrap_or(&component.template);
        for found in unfinished_in(&spec.text, &template) {
            problems.0.push(Problem {
                file: file.display().to_string(),
                text: template.clone(),
                span: found.span,
                message: found.message,
                label: String::new(),
                help: Some(found.help.to_owned()),
            });
        }
    }
    if problems.0.is_empty() { Ok(()) } else { Err(problems.into()) }
}

/// Builds what the plan considers stale.
///
/// `_lock` proves that no other process builds there, now and while the caller uses the results.
pub fn run(
    _lock: &BuildLock,
    prepared: &Prepared<'_, '_>,
    builder: &dyn Builder,
    fetcher: &Fetcher<'_>,
    options: Options,
    events: &dyn Events,
) -> Result<Run, Error> {
    let Prepared { stack, selected, plan, .. } = prepared;
    let stale: Vec<&Component> = selected
        .iter()
        .copied()
        .filter(|c| plan.step(c.name.as_str()).is_some_and(|step| step.verdict != Verdict::Fresh))
        .collect();
    refuse_unfinished(prepared, &stale)?;
    let workspace = stack.workspace;
    let repository =
        StackRepository::new(stack, stale.iter().map(|component| component.name.clone()));
    let (mut ends, mut retry) = (BTreeMap::new(), None);
    if options.until > Stage::Srpm {
        rocm_root::check(workspace, builder)?;
    }
    if plan.stale() > 0 {
        builder.ready()?;
    }
    if options.until > Stage::Srpm || builder.reads_repository() {
        // Also if there is nothing to build: an earlier run may have stopped before this point. And
        // the very first build needs a repository, even an empty one.
        repository.refresh()?;
    }
    if !stale.is_empty() {
        events.event(Event::Planned { total: stale.len(), numbered_at_end: false });
        let Options { until, timeout, verbose, installable, .. } = options;
        let context = BuildContext {
            stack,
            workspace,
            builder,
            fetcher,
            events,
            until,
            timeout,
            verbose,
            installable,
            repository: &repository,
        };
        let stops = |error: &Error, required| !options.keep_going && (required || stops_all(error));
        let left = |seconds| events.event(Event::TimeLeft { seconds });
        let results = run_tasks(&prepared.tasks(), builder.limits(), stops, left, |task, jobs| {
            prepared.build(&context, task, jobs)
        });
        let all = stale.iter().map(|c| c.name.as_str()).zip(&results);
        let failed = all.filter(
            |(_, end)| matches!(end, End::Failed(error) if error.kind() != Kind::Interrupted),
        );
        let failed: Vec<&str> = failed.map(|(name, _)| name).collect();
        retry = (!failed.is_empty()).then(|| context.retry(&failed));
        ends = stale.iter().map(|c| c.name.clone()).zip(results).collect();
    }
    let mut outcome = |component: &&Component| match ends.remove(&component.name) {
        None => Outcome::Fresh,
        Some(End::Done(built)) => Outcome::Built(built),
        Some(End::Failed(error)) => Outcome::Failed(error),
        Some(End::Skipped(reason)) => Outcome::Skipped(reason),
    };
    Ok(Run { outcomes: selected.iter().map(|c| (c.name.clone(), outcome(c))).collect(), retry })
}

/// Returns the components that must be built before this one reaches a stage. An SRPM needs none.
fn requires(component: &Component, until: Stage) -> Vec<&str> {
    let requires = component.requires.iter().map(|at| at.value.as_str());
    requires.filter(|_| until > Stage::Srpm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::testing::sample;
    use crate::workspace::{Repository, RocmVersion};

    #[test]
    fn the_chroot_and_provider_of_a_build_key_are_pinned() {
        let dir = tempfile::tempdir().unwrap();
        let mut workspace = sample(dir.path(), "fedora-43");
        workspace.chroot.macros.insert("debug_package".into(), "%{nil}".into());
        workspace.chroot.repositories.push(Repository {
            id: "rocm".into(),
            url: "https://example.org/$basearch".into(),
            gpg_key: String::new(),
            priority: 90,
        });
        workspace.provider.gpu_macros.push("rocm_gpu_list".into());
        assert_eq!(
            chroot_text(&workspace.chroot),
            r#"(("43", "x86_64", "3.14", ".fc43", "fedora-43-x86_64.cfg"), {"debug_package": "%{nil}"}, [("rocm", "https://example.org/$basearch", "", 90)])"#
        );
        assert_eq!(
            provider_text(&workspace.provider),
            r#"("/usr", Known("6.4"), ["rocm_gpu_list"])"#
        );
        workspace.provider.version = RocmVersion::Header("/opt/rocm/include/v.h".into());
        workspace.provider.gpu_macros.clear();
        assert_eq!(
            provider_text(&workspace.provider),
            r#"("/usr", Header("/opt/rocm/include/v.h"), [])"#
        );
    }
}
