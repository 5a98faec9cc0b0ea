//! Adds the files that `rocmrpm closure --write` wrote to the hand-written ones.

use std::collections::BTreeMap;
use std::path::Path;

use super::check::check_pins;
use super::closure::WrittenClosure;
use super::component::Component;
use super::document::{At, File};
use super::error::WorkspaceError;
use super::layout::{CLOSURE_FILE, GENERATED, GENERATED_PINS};
use super::lock::Lock;
use super::pins::{Overrides, PinSet};
use super::read::read_components;
use crate::error::{Problem, Problems};
use crate::names::ComponentName;

/// Returns the stem of a closure's file names. A closure depends on the packages of the release,
/// so a chroot other than the default one has its own files.
pub(super) fn closure_stem(set: &str, chroot: &str, default_chroot: &str) -> String {
    if chroot == default_chroot { set.to_owned() } else { format!("{set}.{chroot}") }
}

/// Adds the components and pins that `rocmrpm closure --write` wrote for the chosen set and
/// chroot. The component with the closure then requires all of them.
pub(super) fn add_generated(
    root: &Path,
    stem: &str,
    overrides: &Overrides,
    components: &mut BTreeMap<ComponentName, Component>,
    pins: &mut PinSet,
) -> Result<Option<WrittenClosure>, WorkspaceError> {
    let shown = format!("pins/{stem}{GENERATED_PINS}.toml");
    let path = root.join(&shown);
    if !path.is_file() {
        return Ok(None);
    }
    let mut problems = Vec::new();
    let folder = format!("specs-templates/{GENERATED}/{stem}");
    let (generated, broken) = read_components(root, &folder, &mut problems)?;
    let file = File::read(&path, &shown)?;
    let set = PinSet::read(stem, file, &Lock::default(), overrides, &mut problems);
    for component in generated.values() {
        let whole = |message: String| Problem {
            span: None,
            help: Some("run `rocmrpm closure --write` to write it again".into()),
            ..component.file.problem(0..0, message, "")
        };
        if components.contains_key(&component.name) {
            problems
                .push(whole(format!("the workspace has another component `{}`", component.name)));
        }
        match &component.generated {
            None => problems
                .push(whole("a generated component needs `generated = \"COMPONENT\"`".into())),
            Some(At { value, span }) => {
                let target = components.get(value.as_str());
                if target.is_none_or(|target| target.closure.is_none()) {
                    let message = format!("`{value}` has no `[closure]` table");
                    problems.push(component.file.problem(
                        span.clone(),
                        message,
                        "this component was generated for it",
                    ));
                }
            }
        }
    }
    check_pins(&set, &generated, &broken, &mut problems);
    let shown = format!("{folder}/{CLOSURE_FILE}");
    let closure =
        File::read(&root.join(&shown), &shown)?.parse(&mut problems, WrittenClosure::read);
    if !problems.is_empty() {
        return Err(WorkspaceError::Invalid(Problems(problems)));
    }
    let mut names = Vec::new();
    for (name, component) in generated {
        if set.pins.contains_key(&name) {
            names.extend(component.generated.clone().map(|at| (at.value, name.to_string())));
            components.insert(name, component);
        }
    }
    pins.add_generated(set);
    for component in components.values_mut().filter(|component| component.closure.is_some()) {
        let own = names.iter().filter(|(target, _)| target == component.name.as_str());
        let required = own.map(|(_, name)| At { value: name.clone(), span: 0..0 });
        component.requires.extend(required.collect::<Vec<_>>());
    }
    Ok(Some(closure))
}
