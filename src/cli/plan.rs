//! `rocmrpm plan`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::{Done, args, context};
use crate::build::{Estimate, MockOptions, Stage, choose_builder, prepare};
use crate::digest::Sha256;
use crate::document::Document;
use crate::duration;
use crate::names::ComponentName;
use crate::outputs;
use crate::report::{Progress, Shell, Style, Table, count};
use crate::rpm_version::of_pin;
use crate::sources::{Cache, Fetcher};
use crate::stack::{Stack, Verdict};

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

pub(super) fn run(args: &args::Plan, dir: &Path, shell: &Shell) -> Done {
    let mut workspace = context::workspace(dir, &args.choice, &args.pin.overrides)?;
    if !args.pin.overrides.is_empty() {
        let progress = Progress::new(shell);
        let root = workspace.root.clone();
        context::resolve_overrides(
            &mut workspace,
            &Fetcher::new(Cache::from_env()?, &root, &progress),
        )?;
    }
    let stack = Stack::new(&workspace)?;
    let selected = stack.named_with_requirements(&args.components)?;
    let (builder, _) =
        choose_builder(&stack, args.builder.map(Into::into), Stage::Rpm, MockOptions::default());
    let prepared = prepare(&stack, selected, builder.as_ref(), Stage::Rpm)?;
    for warning in &prepared.warnings {
        shell.warning(warning);
    }
    // Unreadable results have no wheels; the commands that make wheels report the reason.
    let stale_wheels = outputs::stale_wheels(&stack).unwrap_or_default();
    let waves = stack.waves(&prepared.selected);
    let numbered = waves.iter().enumerate();
    let numbers: BTreeMap<&str, usize> = numbered
        .flat_map(|(at, wave)| wave.iter().map(move |c| (c.name.as_str(), at + 1)))
        .collect();
    let wave = |name: &str| numbers.get(name).copied();
    let estimate = prepared.estimate(builder.limits());
    if args.json {
        let steps: Vec<_> = prepared
            .plan
            .steps
            .iter()
            .map(|step| {
                let name = step.component.as_str();
                let spec = &prepared.specs[&step.component];
                let (plan, reasons) = Planned::of(&step.verdict);
                PlanStep {
                    component: name,
                    version: &workspace.pins.pins[&step.component].value.version,
                    release: &spec.release.release,
                    dirty: spec.release.dirty,
                    wave: wave(name),
                    key: step.key,
                    stale: plan == Planned::Build,
                    plan,
                    reasons,
                    wheels: stale_wheels
                        .get(&step.component)
                        .map(Vec::as_slice)
                        .unwrap_or_default(),
                }
            })
            .collect();
        let unknown = estimate.iter().flat_map(|estimate| &estimate.unknown);
        let left_out = stack.left_out.iter();
        shell.json(&PlanReport {
            schema: PlanReport::SCHEMA,
            chroot: &workspace.chroot.name,
            pins: &workspace.pins.name,
            builder: builder.name(),
            stale: prepared.plan.stale(),
            seconds: estimate.as_ref().map(|estimate| estimate.seconds.round()),
            seconds_unknown_of: unknown.map(ComponentName::as_str).collect(),
            steps,
            left_out: left_out
                .map(|(name, reason)| LeftOut { component: name.as_str(), reason })
                .collect(),
        })?;
        return Ok(0);
    }
    let mut table = Table::new(&["wave", "component", "version", "plan", "why"]);
    for step in &prepared.plan.steps {
        let pin = &workspace.pins.pins[&step.component].value;
        let release = prepared.specs[&step.component].release.release.replace("%{?dist}", "");
        let (style, verdict, why) = match &step.verdict {
            Verdict::Fresh => (
                Style::Dim,
                "fresh",
                match stale_wheels.get(&step.component) {
                    None => "nothing changed".to_owned(),
                    Some(reasons) => format!("its wheels are stale: {}", reasons.join(", ")),
                },
            ),
            Verdict::Inspect(reasons) => (Style::Good, "inspect", reasons.join(", ")),
            Verdict::Stale(reasons) => (Style::Good, "build", reasons.join(", ")),
        };
        table.styled_row(vec![
            (None, wave(step.component.as_str()).map_or_else(String::new, |wave| wave.to_string())),
            (None, step.component.to_string()),
            (None, format!("{}-{release}", of_pin(pin))),
            (Some(style), verdict.to_owned()),
            (None, why),
        ]);
    }
    shell.data(table.text())?;
    let builds = prepared.plan.steps.iter().any(|step| matches!(step.verdict, Verdict::Stale(_)));
    if let Some(Estimate { seconds, unknown }) = estimate.filter(|_| builds) {
        let time = duration::shown(Duration::from_secs_f64(seconds.round().max(1.0)));
        let cores = count(builder.limits().cores, "core");
        let mut text = format!("about {time} on {cores}, based on earlier builds");
        if !unknown.is_empty() {
            let names: Vec<&str> = unknown.iter().map(ComponentName::as_str).collect();
            text += &format!("; not counted because never built here: {}", names.join(", "));
        }
        shell.talk(format!("\n{}", Style::Dim.paint(text)));
    }
    Ok(0)
}
