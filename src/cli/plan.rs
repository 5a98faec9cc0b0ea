//! `rocmrpm plan`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::{CommandResult, args, context};
use crate::build::{
    Builder, BuilderName, Estimate, MockOptions, Prepared, Stage, choose_builder, prepare,
};
use crate::digest::Sha256;
use crate::document::Document;
use crate::duration;
use crate::names::ComponentName;
use crate::outputs;
use crate::report::{Progress, Shell, Style, Table, count};
use crate::rpm_version::of_pin;
use crate::sources::{Cache, Fetcher};
use crate::stack::{PlannedComponent, Stack, Verdict};

/// What `rocmrpm plan --json` prints: what a build would do.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PlanReport<'a> {
    schema: &'static str,
    /// The chroot.
    chroot: &'a str,
    /// The pin set.
    pins: &'a str,
    /// The builder: `mock`, `host` or `copr`.
    builder: &'a str,
    /// How many components would be built or inspected.
    stale: usize,
    /// How long that would take, in seconds, estimated from earlier builds; null if there is nothing
    /// to do or no time is known.
    seconds: Option<f64>,
    /// Components that were never built here; their time is not in `seconds`.
    seconds_unknown_of: Vec<&'a str>,
    /// The components, in build order.
    steps: Vec<PlanStep<'a>>,
    /// Components that are not available for the chroot.
    left_out: Vec<LeftOut<'a>>,
}

/// A component of a plan.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PlanStep<'a> {
    /// The component.
    component: &'a str,
    /// Its upstream version.
    version: &'a str,
    /// Its Release, as in the spec.
    release: &'a str,
    /// Whether something is not committed, or a pin is overridden.
    dirty: bool,
    /// The number of the wave, from 1: components of one wave do not require each other.
    wave: Option<usize>,
    /// The build key.
    key: Sha256,
    /// Whether it would be built.
    stale: bool,
    /// The planned action.
    plan: Planned,
    /// What changed since its last build or inspection.
    reasons: &'a [String],
    /// Why its wheels are stale.
    wheels: &'a [String],
}

/// The planned action for a component.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum Planned {
    /// Nothing.
    Fresh,
    /// Its packages would be inspected again.
    Inspect,
    /// It would be built.
    Build,
}

impl Planned {
    /// Returns the action for a verdict, with the reasons.
    pub(super) fn of(verdict: &Verdict) -> (Self, &[String]) {
        match verdict {
            Verdict::Fresh => (Self::Fresh, &[]),
            Verdict::Inspect(reasons) => (Self::Inspect, reasons),
            Verdict::Stale(reasons) => (Self::Build, reasons),
        }
    }

    /// Returns the name of the action in output.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Inspect => "inspect",
            Self::Build => "build",
        }
    }
}

/// A component that is not built.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LeftOut<'a> {
    /// The component.
    component: &'a str,
    /// Why.
    reason: &'a str,
}

impl Document for PlanReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/plan/2";
}

/// What `plan` and `build --dry-run` ask.
pub(super) struct PlanRequest<'a> {
    components: &'a [String],
    choice: &'a args::Choice,
    overrides: &'a args::PinArgs,
    builder: Option<BuilderName>,
    force: bool,
    json: bool,
}

impl<'a> PlanRequest<'a> {
    pub(super) fn of_build(build: &'a args::Build) -> Self {
        Self {
            components: &build.components,
            choice: &build.choice,
            overrides: &build.pin,
            builder: build.builder.map(Into::into),
            force: build.force,
            json: build.json,
        }
    }
}

pub(super) fn run(args: &args::Plan, dir: &Path, shell: &Shell) -> CommandResult {
    let question = PlanRequest {
        components: &args.components,
        choice: &args.choice,
        overrides: &args.pin,
        builder: args.builder.map(Into::into),
        force: false,
        json: args.json,
    };
    show(&question, dir, shell)
}

/// Prints what a build would do.
pub(super) fn show(question: &PlanRequest<'_>, dir: &Path, shell: &Shell) -> CommandResult {
    let overrides = &question.overrides.overrides;
    let mut workspace = context::workspace(dir, question.choice, overrides)?;
    if !overrides.is_empty() {
        let progress = Progress::new(shell);
        let root = workspace.root.clone();
        context::resolve_overrides(
            &mut workspace,
            &Fetcher::new(Cache::from_env()?, &root, &progress),
        )?;
    }
    let stack = Stack::new(&workspace)?;
    let selected = stack.named_with_requirements(question.components)?;
    let (builder, _) = choose_builder(&stack, question.builder, Stage::Rpm, MockOptions::default());
    let mut prepared = prepare(&stack, selected, builder.as_ref(), Stage::Rpm)?;
    if question.force {
        prepared.force(question.components);
    }
    for warning in &prepared.warnings {
        shell.warning(warning);
    }
    let preview = Preview::new(&prepared, builder.as_ref());
    if question.json {
        shell.json(&preview.report())?;
        return Ok(0);
    }
    shell.data(preview.table().text())?;
    if let Some(time) = preview.time() {
        shell.talk(format!("\n{}", Style::Dim.paint(time)));
    }
    Ok(0)
}

/// A plan, and what else a preview shows of its components.
struct Preview<'a> {
    prepared: &'a Prepared<'a, 'a>,
    builder: &'a dyn Builder,
    estimate: Option<Estimate>,
    /// Why wheels are stale, by component.
    stale_wheels: BTreeMap<ComponentName, Vec<String>>,
    /// The numbers of the waves, by component.
    waves: BTreeMap<&'a str, usize>,
}

impl<'a> Preview<'a> {
    fn new(prepared: &'a Prepared<'a, 'a>, builder: &'a dyn Builder) -> Self {
        let waves = prepared.stack.waves(&prepared.selected).into_iter().zip(1..);
        Self {
            prepared,
            builder,
            estimate: prepared.estimate(builder.limits()),
            // Unreadable results have no wheels; the commands that make wheels report the reason.
            stale_wheels: outputs::stale_wheels(prepared.stack).unwrap_or_default(),
            waves: waves
                .flat_map(|(wave, number)| {
                    wave.into_iter().map(move |component| (component.name.as_str(), number))
                })
                .collect(),
        }
    }

    fn report(&self) -> PlanReport<'_> {
        let Prepared { stack, specs, plan, .. } = self.prepared;
        let step = |step: &'a PlannedComponent| {
            let name = step.component.as_str();
            let release = &specs[&step.component].release;
            let (plan, reasons) = Planned::of(&step.verdict);
            let wheels = self.stale_wheels.get(&step.component);
            PlanStep {
                component: name,
                version: &stack.workspace.pins.pins[&step.component].value.version,
                release: &release.release,
                dirty: release.dirty,
                wave: self.waves.get(name).copied(),
                key: step.key,
                stale: plan == Planned::Build,
                plan,
                reasons,
                wheels: wheels.map_or(&[], Vec::as_slice),
            }
        };
        let unknown = self.estimate.iter().flat_map(|estimate| &estimate.unknown);
        let left_out = stack.left_out.iter();
        PlanReport {
            schema: PlanReport::SCHEMA,
            chroot: &stack.workspace.chroot.name,
            pins: &stack.workspace.pins.name,
            builder: self.builder.name(),
            stale: plan.stale(),
            seconds: self.estimate.as_ref().map(|estimate| estimate.seconds.round()),
            seconds_unknown_of: unknown.map(ComponentName::as_str).collect(),
            steps: plan.steps.iter().map(step).collect(),
            left_out: left_out
                .map(|(name, reason)| LeftOut { component: name.as_str(), reason })
                .collect(),
        }
    }

    fn table(&self) -> Table {
        let Prepared { stack, specs, plan, .. } = self.prepared;
        let mut table = Table::new(&["wave", "component", "version", "plan", "why"]);
        for step in &plan.steps {
            let pin = &stack.workspace.pins.pins[&step.component].value;
            let release = specs[&step.component].release.release.replace("%{?dist}", "");
            let (planned, reasons) = Planned::of(&step.verdict);
            let (style, why) = match (planned, self.stale_wheels.get(&step.component)) {
                (Planned::Fresh, None) => (Style::Dim, "nothing changed".to_owned()),
                (Planned::Fresh, Some(reasons)) => {
                    (Style::Dim, format!("its wheels are stale: {}", reasons.join(", ")))
                }
                (Planned::Inspect | Planned::Build, _) => (Style::Good, reasons.join(", ")),
            };
            let wave = self.waves.get(step.component.as_str());
            table.styled_row(vec![
                (None, wave.map_or_else(String::new, ToString::to_string)),
                (None, step.component.to_string()),
                (None, format!("{}-{release}", of_pin(pin))),
                (Some(style), planned.word().to_owned()),
                (None, why),
            ]);
        }
        table
    }

    /// Returns how long the build would take, as text; `None` if nothing is built.
    fn time(&self) -> Option<String> {
        let mut steps = self.prepared.plan.steps.iter();
        let builds = steps.any(|step| matches!(step.verdict, Verdict::Stale(_)));
        let Estimate { seconds, unknown } = self.estimate.as_ref().filter(|_| builds)?;
        let time = duration::shown(Duration::from_secs_f64(seconds.round().max(1.0)));
        let cores = count(self.builder.limits().cores, "core");
        let mut text = format!("about {time} on {cores}, based on earlier builds");
        if !unknown.is_empty() {
            let names: Vec<&str> = unknown.iter().map(ComponentName::as_str).collect();
            text += &format!("; not counted because never built here: {}", names.join(", "));
        }
        Some(text)
    }
}
