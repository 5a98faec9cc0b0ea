//! `rocmrpm plan`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::{Done, args, context};
use crate::build::{Estimate, Stage, prepare};
use crate::duration;
use crate::names::ComponentName;
use crate::outputs;
use crate::report::{Progress, Shell, Style, Table, count};
use crate::sources::{Cache, Fetcher};
use crate::stack::{Stack, Verdict};

pub(super) fn run(args: &args::Plan, dir: &Path, shell: &Shell) -> Done {
    let mut workspace = context::workspace(dir, &args.choice, &args.pin.overrides)?;
    if !args.pin.overrides.is_empty() {
        let progress = Progress::new(shell);
        let root = workspace.root.clone();
        context::resolve_overrides(&mut workspace, &Fetcher::new(Cache::from_env()?, &root, &progress))?;
    }
    let stack = Stack::new(&workspace)?;
    let selected = context::components(&stack, &args.components)?;
    let (builder, _) = context::builder(&stack, args.builder, Stage::Rpm, context::MockOptions::default());
    let prepared = prepare(&stack, selected, builder.as_ref(), Stage::Rpm)?;
    for warning in &prepared.warnings {
        shell.warning(warning);
    }
    // Results that cannot be read have no wheels; whoever makes them is told why.
    let stale_wheels = outputs::stale_wheels(&stack).unwrap_or_default();
    let waves = stack.waves(&prepared.selected);
    let numbered = waves.iter().enumerate();
    let numbers: BTreeMap<&str, usize> =
        numbered.flat_map(|(at, wave)| wave.iter().map(move |c| (c.name.as_str(), at + 1))).collect();
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
                let (verdict, reasons) = match &step.verdict {
                    Verdict::Fresh => ("fresh", Vec::new()),
                    Verdict::Inspect(reasons) => ("inspect", reasons.clone()),
                    Verdict::Stale(reasons) => ("build", reasons.clone()),
                };
                json!({
                    "component": name,
                    "version": workspace.pins.pins[&step.component].value.version,
                    "release": spec.release.release,
                    "dirty": spec.release.dirty,
                    "wave": wave(name),
                    "key": step.key,
                    "stale": verdict == "build",
                    "plan": verdict,
                    "reasons": reasons,
                    "wheels": stale_wheels.get(&step.component).cloned().unwrap_or_default(),
                })
            })
            .collect();
        shell.json(&json!({
            "schema": "rocmrpm/plan/2",
            "chroot": workspace.chroot.name,
            "pins": workspace.pins.name,
            "builder": builder.name(),
            "stale": prepared.plan.stale(),
            "seconds": estimate.as_ref().map(|estimate| estimate.seconds.round()),
            "seconds_unknown_of": estimate.iter().flat_map(|e| &e.unknown).map(ComponentName::as_str).collect::<Vec<_>>(),
            "steps": steps,
            "left_out": stack.left_out.iter().map(|(n, r)| json!({"component": n.as_str(), "reason": r})).collect::<Vec<_>>(),
        }))?;
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
                    Some(reasons) => format!("its wheels are made anew: {}", reasons.join(", ")),
                },
            ),
            Verdict::Inspect(reasons) => (Style::Good, "inspect", reasons.join(", ")),
            Verdict::Stale(reasons) => (Style::Good, "build", reasons.join(", ")),
        };
        table.styled_row(vec![
            (None, wave(step.component.as_str()).map_or_else(String::new, |wave| wave.to_string())),
            (None, step.component.to_string()),
            (None, format!("{}-{release}", pin.version)),
            (Some(style), verdict.to_owned()),
            (None, why),
        ]);
    }
    shell.data(table.text())?;
    if let Some(Estimate { seconds, unknown }) = estimate {
        let time = duration::shown(Duration::from_secs_f64(seconds.round()));
        let cores = count(builder.limits().cores, "core");
        let mut text = format!("about {time} on {cores}, as the last time");
        if !unknown.is_empty() {
            let names: Vec<&str> = unknown.iter().map(ComponentName::as_str).collect();
            text += &format!("; never built here, and not counted: {}", names.join(", "));
        }
        shell.talk(format!("\n{}", Style::Dim.paint(text)));
    }
    Ok(0)
}
