//! Builds everything from a workspace's pins in one call: packages in build order, their wheels,
//! the pip index, and the container files. It sends progress as [`Event`]s, and does not decide
//! what a command prints.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::build::{
    BuildLock, Builder, BuilderName, MockOptions, Options, Prepared, Results, Run, Stage,
    check_locks, choose_builder, prepare, result_rpms, run,
};
use crate::container;
use crate::error::{Error, IoError, Kind, Problems};
use crate::events::{Event, Events, Step};
use crate::foreign;
use crate::index;
use crate::names::nearest;
use crate::outputs::make_wheels;
use crate::process::check_stop;
use crate::proof;
use crate::rpms::name_of_file;
use crate::sources::{Fetcher, pip_index};
use crate::stack::{Stack, Verdict};
use crate::style::count;
use crate::workspace::{Component, IndexSource, Workspace, closure_not_written};

/// What to build, up to which stage, and how.
#[derive(Debug, Clone)]
pub struct Order {
    /// The names of components; all if empty.
    pub components: Vec<String>,
    /// The last stage.
    pub until: Stage,
    /// The builder; `None` for the chroot's default.
    pub builder: Option<BuilderName>,
    /// Whether to use ccache, which only mock supports.
    pub ccache: bool,
    /// Whether to build with exactly the packages of the last build, which only mock supports.
    pub hermetic: bool,
    /// Whether to disable downloads.
    pub offline: bool,
    /// Whether to continue after a failure with components that do not depend on it.
    pub keep_going: bool,
    /// Whether to build the named components, or all, even if they are up to date.
    pub force: bool,
    /// Whether to wait for another process that uses the build folder.
    pub wait: bool,
    /// Whether to show the output of builds.
    pub verbose: bool,
    /// The time limit of each build; `None` for those of the components.
    pub timeout: Option<Duration>,
}

impl Order {
    /// Returns an order of what is out of date, with the chroot's default builder and no options.
    pub fn up_to(until: Stage, components: Vec<String>) -> Self {
        Self {
            components,
            until,
            builder: None,
            ccache: false,
            hermetic: false,
            offline: false,
            keep_going: false,
            force: false,
            wait: false,
            verbose: false,
            timeout: None,
        }
    }
}

/// The result of a production.
pub struct Production<'s, 'w> {
    /// The specs and the plan.
    pub prepared: Prepared<'s, 'w>,
    /// The outcome of each component.
    pub run: Run,
    /// The outputs made from the packages, of which those of failed components are missing; `None`
    /// if the run stopped before everything was tried.
    pub outputs: Option<Outputs>,
}

/// The outputs of a run besides packages.
#[derive(Debug, Default)]
pub struct Outputs {
    /// The number of wheels.
    pub wheels: usize,
    /// The pip index, if the run went that far.
    pub index: Option<index::Written>,
    /// The container files that belong to the workspace, changed or not.
    pub containers: Vec<PathBuf>,
}

/// Returns the components of an order, in build order.
///
/// # Errors
///
/// Fails if a name is unknown, or if a component's Python closure is not written for this chroot.
pub fn selected<'w>(
    stack: &Stack<'w>,
    names: &[String],
    until: Stage,
) -> Result<Vec<&'w Component>, Error> {
    // Only RPM builds need the required components; earlier stages do not.
    if until <= Stage::Srpm {
        return stack.named(names);
    }
    let selected = stack.named_with_requirements(names)?;
    let unwritten = closure_not_written(stack.workspace, &selected);
    match unwritten.filter(|_| !stack.workspace.chroot.is_host()) {
        Some(problem) => Err(Problems(vec![problem]).into()),
        None => Ok(selected),
    }
}

/// Renders the specs of an order's components.
pub fn render<'s, 'w>(
    stack: &'s Stack<'w>,
    order: &Order,
    fetcher: &Fetcher<'_>,
    events: &dyn Events,
) -> Result<Prepared<'s, 'w>, Error> {
    let components = selected(stack, &order.components, order.until)?;
    let (builder, warning) = choose(stack, order, fetcher)?;
    let about_builder = warning.as_deref();
    prepare_order(stack, order, components, (builder.as_ref(), about_builder), events)
}

/// Renders the specs of an order's components for another builder than its own, which comes with a
/// warning about it.
pub fn plan_with<'s, 'w>(
    builder: (&dyn Builder, Option<&str>),
    stack: &'s Stack<'w>,
    order: &Order,
    events: &dyn Events,
) -> Result<Prepared<'s, 'w>, Error> {
    let components = selected(stack, &order.components, order.until)?;
    prepare_order(stack, order, components, builder, events)
}

/// Returns the builder of an order, and a warning about it, if there is one.
fn choose<'w>(
    stack: &Stack<'w>,
    order: &Order,
    fetcher: &Fetcher<'_>,
) -> Result<(Box<dyn Builder + 'w>, Option<String>), Error> {
    let cache = fetcher.cache();
    let options = MockOptions {
        ccache: order.ccache.then(|| cache.dir().join("ccache").join(&stack.workspace.chroot.name)),
        hermetic: order.hermetic.then(|| (cache.clone(), order.offline)),
    };
    let (builder, warning) = choose_builder(stack, order.builder, order.until, options);
    for (option, requested) in [("--ccache", order.ccache), ("--hermetic", order.hermetic)] {
        if requested && builder.name() != "mock" {
            let message =
                format!("`{option}` requires the builder `mock`, not `{}`", builder.name());
            return Err(Error::new(Kind::Usage, message));
        }
    }
    Ok((builder, warning))
}

/// Renders the specs and makes the plan. Sends warnings about the workspace, and about the builder
/// if it has work to do.
fn prepare_order<'s, 'w>(
    stack: &'s Stack<'w>,
    order: &Order,
    components: Vec<&'w Component>,
    (builder, warning): (&dyn Builder, Option<&str>),
    events: &dyn Events,
) -> Result<Prepared<'s, 'w>, Error> {
    let mut prepared = prepare(stack, components, builder, order.until)?;
    if order.force {
        prepared.force(&order.components);
    }
    let about_builder = warning.filter(|_| prepared.plan.stale() > 0);
    for warning in prepared.warnings.iter().map(String::as_str).chain(about_builder) {
        events.event(Event::Warning(warning.to_owned()));
    }
    if let [first, others @ ..] = &prepared.long_and_uncommitted()[..] {
        let more = match others.len() {
            0 => String::new(),
            n => format!(" and {}", count(n, "other component")),
        };
        events.event(Event::Warning(format!(
            "`{first}`{more} will be built from uncommitted changes, and again after the commit; \
             commit before long builds"
        )));
    }
    if order.hermetic {
        let stale =
            prepared.plan.steps.iter().filter(|step| matches!(step.verdict, Verdict::Stale(_)));
        check_locks(&stack.workspace.regular_build_dir(), stale.map(|step| &step.component))?;
    }
    Ok(prepared)
}

/// Builds the components of an order, and their outputs.
///
/// A failed component is part of the result. An error means that nothing was started, or that
/// wheels, index, or container files could not be made.
pub fn produce<'s, 'w>(
    stack: &'s Stack<'w>,
    order: &Order,
    fetcher: &Fetcher<'_>,
    events: &dyn Events,
) -> Result<Production<'s, 'w>, Error> {
    let (builder, warning) = choose(stack, order, fetcher)?;
    let builder = (builder.as_ref(), warning.as_deref());
    produce_with(builder, || Ok(()), stack, order, fetcher, events)
}

/// Builds an order with another builder than its own, which comes with a warning about it. `get_ready`
/// is called before the first build.
pub fn produce_with<'s, 'w>(
    builder: (&dyn Builder, Option<&str>),
    get_ready: impl FnOnce() -> Result<(), Error>,
    stack: &'s Stack<'w>,
    order: &Order,
    fetcher: &Fetcher<'_>,
    events: &dyn Events,
) -> Result<Production<'s, 'w>, Error> {
    let components = selected(stack, &order.components, order.until)?;
    let lock = match order.wait {
        true => BuildLock::wait_for(stack.workspace, events)?,
        false => BuildLock::take(stack.workspace)?,
    };
    let prepared = prepare_order(stack, order, components, builder, events)?;
    if prepared.plan.stale() > 0 {
        get_ready()?;
    }
    let options = Options {
        until: order.until,
        keep_going: order.keep_going,
        timeout: order.timeout,
        verbose: order.verbose,
        installable: proof::provided,
    };
    let run = run(&lock, &prepared, builder.0, fetcher, options, events)?;
    let outputs = match run.usable(order.keep_going) {
        true => Some(make_outputs(&lock, stack, order.until, fetcher, events)?),
        false => None,
    };
    Ok(Production { prepared, run, outputs })
}

fn make_outputs(
    lock: &BuildLock,
    stack: &Stack<'_>,
    until: Stage,
    fetcher: &Fetcher<'_>,
    events: &dyn Events,
) -> Result<Outputs, Error> {
    let workspace = stack.workspace;
    let mut outputs = Outputs::default();
    if until >= Stage::Wheel {
        check_stop()?;
        let wheels = make_wheels(lock, stack, events)?;
        outputs.wheels = wheels.len();
        let index_exists = workspace.build_dir().join("index").exists();
        if until >= Stage::Index && (!wheels.is_empty() || index_exists) {
            let foreign = foreign::wheels(workspace, &wheels, fetcher, events)?;
            outputs.index = Some(write_index(&wheels, &foreign, workspace, events)?);
        }
    }
    if until >= Stage::Container {
        for warning in unknown_packages(stack)? {
            events.event(Event::Warning(warning));
        }
        outputs.containers = container::write_all(workspace, events)?;
    }
    Ok(outputs)
}

/// Writes the pip index of a workspace's wheels, and of foreign ones.
pub fn write_index(
    wheels: &[PathBuf],
    foreign: &[index::Foreign],
    workspace: &Workspace,
    events: &dyn Events,
) -> Result<index::Written, Error> {
    let tracks = tracked_index(workspace)?;
    let folder = workspace.build_dir().join("index");
    let written = index::write_with(wheels, foreign, &folder, tracks.as_deref())?;
    if written.changed {
        let detail = count(written.distributions.len(), "distribution");
        events.event(Event::Step { step: Step::Indexed, detail });
    }
    Ok(written)
}

/// Returns the root of the index whose projects the workspace's index extends (PEP 708), if its
/// rocmrpm.toml names one.
pub fn tracked_index(workspace: &Workspace) -> Result<Option<String>, Error> {
    match &workspace.manifest.index.tracks {
        None => Ok(None),
        Some(IndexSource::Url(url)) => Ok(Some(url.clone())),
        Some(IndexSource::Pip) => Ok(Some(pip_index()?)),
    }
}

/// Returns a warning for each package of an image that no component built.
fn unknown_packages(stack: &Stack<'_>) -> Result<Vec<String>, IoError> {
    let rpms = result_rpms(stack, &BTreeSet::new())?;
    let names: Vec<&str> = rpms.iter().filter_map(|path| name_of_file(path)).collect();
    let mut warnings = Vec::new();
    let build_dir = |component: &Component| stack.workspace.build_dir_of(&component.name);
    for component in stack.order() {
        if Results::of(&build_dir(component), Stage::Rpm, &component.name).record()?.is_none() {
            continue;
        }
        for package in
            component.container_packages.iter().filter(|p| !names.contains(&p.value.as_str()))
        {
            let near = nearest(&package.value, names.iter().copied());
            let near = near.map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
            let file = &component.file.name;
            warnings.push(format!("{file}: no built package is named `{}`{near}", package.value));
        }
    }
    Ok(warnings)
}
