//! Checks the files of a workspace against each other: whether every name that a file uses is
//! defined.

use std::collections::BTreeMap;

use super::component::Component;
use super::document::{At, File, INVALID};
use super::error::WorkspaceError;
use super::installation_check::InstallationCheck;
use super::pins::PinSet;
use super::read::Contents;
use crate::error::{Problem, Problems};
use crate::names::{ComponentName, nearest};

/// Checks the names in all files against each other.
pub(super) fn contents(contents: &Contents, problems: &mut Vec<Problem>) {
    let Contents { components, broken, sets, .. } = contents;
    check_requires(components, broken, problems);
    check_closures(components, problems);
    check_ids(components, problems);
    for set in sets.values() {
        check_pins(set, components, broken, problems);
    }
    check_providers(contents, problems);
    check_manifest(contents, problems);
}

/// Rejects a check with the ID of another component's check, or of a check that all stacks have.
fn check_ids(components: &BTreeMap<ComponentName, Component>, problems: &mut Vec<Problem>) {
    if components.values().all(|component| component.checks.is_empty()) {
        return;
    }
    let general = InstallationCheck::general();
    let mut known: BTreeMap<&str, &str> =
        general.iter().map(|check| (check.id.as_str(), "every stack with ROCm")).collect();
    for component in components.values() {
        for check in &component.checks {
            if let Some(other) = known.insert(&check.id, component.name.as_str())
                && other != component.name.as_str()
            {
                let message = format!("the check `{}` of {other} has the same ID", check.id);
                let problem =
                    component.file.problem(check.span.clone(), message, "choose another ID");
                problems.push(problem);
            }
        }
    }
}

fn check_providers(contents: &Contents, problems: &mut Vec<Problem>) {
    let Contents { manifest, components, broken, chroots, providers, .. } = contents;
    for chroot in chroots.values() {
        let At { value, span } = &chroot.rocm_provider;
        if !value.is_empty() && !providers.contains_key(value) {
            problems.push(unknown(&chroot.file, span, "ROCm provider", value, providers.keys()));
        }
    }
    for provider in providers.values() {
        provider.check_targets(&manifest.gpu_targets, problems);
        for At { value, span } in &provider.brings {
            if !broken.contains(value) && !components.keys().any(|name| name.as_str() == value) {
                problems.push(unknown(&provider.file, span, "component", value, components.keys()));
            }
        }
    }
}

fn check_manifest(contents: &Contents, problems: &mut Vec<Problem>) {
    let Contents { manifest_file, manifest, sets, chroots, .. } = contents;
    for at in manifest.containers.values().flat_map(|container| &container.chroots) {
        if !chroots.contains_key(&at.value) {
            problems.push(unknown(manifest_file, &at.span, "chroot", &at.value, chroots.keys()));
        }
    }
    for flavor in manifest.containers.keys().filter(|flavor| !flavor.is_for_chroot()) {
        let file = |chroot: &&String| {
            let chroot = chroot.replace('-', "");
            let rest = flavor.name().strip_prefix(&chroot);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        if let Some(chroot) = chroots.keys().find(file) {
            let name = flavor.name();
            let message =
                format!("the flavor `{name}` is named like the container files of `{chroot}`");
            let label = "choose another name";
            let problem = manifest_file.problem(0..0, message, label);
            problems.push(Problem { span: None, ..problem });
        }
    }
    let mut default = |at: &At<String>, kind, known: Vec<&String>| {
        // A missing `[stack]` leaves both defaults empty; report that mistake only.
        let report = !at.span.is_empty() || problems.is_empty();
        if report && !known.contains(&&at.value) {
            problems.push(unknown(manifest_file, &at.span, kind, &at.value, known));
        }
    };
    default(&manifest.default_chroot, "chroot", chroots.keys().collect());
    default(&manifest.default_pins, "pin set", sets.keys().collect());
}

/// Returns the problems as an error if there are any, ordered by file and position.
pub(super) fn refuse(mut problems: Vec<Problem>) -> Result<(), WorkspaceError> {
    // A file with a syntax error is incomplete, so its other problems would mislead.
    let invalid: Vec<String> =
        problems.iter().filter(|p| p.message == INVALID).map(|p| p.file.clone()).collect();
    problems.retain(|p| p.message == INVALID || !invalid.contains(&p.file));
    if problems.is_empty() {
        return Ok(());
    }
    let mut files: Vec<String> = problems.iter().map(|problem| problem.file.clone()).collect();
    files.dedup();
    problems.sort_by_key(|problem| {
        let start = problem.span.as_ref().map_or(0, |span| span.start);
        (files.iter().position(|file| *file == problem.file), start)
    });
    Err(WorkspaceError::Invalid(Problems(problems)))
}

/// Rejects a second component with a closure, and `generated` in a hand-written component.
fn check_closures(components: &BTreeMap<ComponentName, Component>, problems: &mut Vec<Problem>) {
    let mut first: Option<&Component> = None;
    for component in components.values() {
        if let Some(At { span, .. }) = &component.generated {
            let message = "only `rocmrpm closure --write` sets `generated`";
            problems.push(component.file.problem(span.clone(), message, "remove it"));
        }
        if component.closure.is_none() {
            continue;
        }
        if let Some(first) = first {
            let message = format!("`{}` already has a `[closure]` table", first.name);
            let help = "keep one `[closure]` table in the workspace".to_owned();
            let problem = component.file.problem(0..0, message, "");
            problems.push(Problem { span: None, help: Some(help), ..problem });
        } else {
            first = Some(component);
        }
    }
}

fn check_requires(
    components: &BTreeMap<ComponentName, Component>,
    broken: &[String],
    problems: &mut Vec<Problem>,
) {
    for component in components.values() {
        for At { value, span } in &component.requires {
            if !broken.contains(value) && !components.keys().any(|name| name.as_str() == value) {
                problems.push(unknown(
                    &component.file,
                    span,
                    "component",
                    value,
                    components.keys(),
                ));
            }
        }
    }
}

pub(super) fn check_pins(
    set: &PinSet,
    components: &BTreeMap<ComponentName, Component>,
    broken: &[String],
    problems: &mut Vec<Problem>,
) {
    for (name, pin) in &set.pins {
        let Some(component) = components.get(name) else {
            if !broken.iter().any(|folder| folder == name.as_str()) {
                problems.push(unknown(
                    &set.file,
                    &pin.span,
                    "component",
                    name.as_str(),
                    components.keys(),
                ));
            }
            continue;
        };
        for required in &component.requires {
            let known = components.keys().any(|c| c.as_str() == required.value);
            if known && !set.pins.keys().any(|pinned| pinned.as_str() == required.value) {
                let message =
                    format!("`{name}` requires `{}`, which this set does not pin", required.value);
                let problem = set.file.problem(pin.span.clone(), message, "");
                problems.push(Problem {
                    help: Some(format!("add a `[{}]` table", required.value)),
                    ..problem
                });
            }
        }
    }
}

fn unknown<S: AsRef<str>>(
    file: &File,
    span: &std::ops::Range<usize>,
    kind: &str,
    name: &str,
    known: impl IntoIterator<Item = S>,
) -> Problem {
    let known: Vec<S> = known.into_iter().collect();
    let near = nearest(name, known.iter().map(AsRef::as_ref));
    let near = near.map(|n| format!("did you mean `{n}`?"));
    let component = kind == "component";
    let create = || format!("create it with `rocmrpm add {name}`, or remove what names it here");
    let label = match component {
        true => format!("specs-templates/{name} does not exist"),
        false => "not defined in this workspace".to_owned(),
    };
    Problem {
        help: near.or_else(|| component.then(create)),
        ..file.problem(span.clone(), format!("unknown {kind} `{name}`"), label)
    }
}
