//! States what a verification shows about the packages that are installed, for a record of evidence. A
//! package is one of the stack's if a record names it by the digest of its header.

use std::collections::{BTreeMap, BTreeSet};

use super::packages::{module, query};
use super::place::VerifyTarget;
use super::{Check, Outcome, Verified, import_check};
use crate::error::Error;
use crate::evidence::ComponentEvidence;
use crate::gpu_machine::GpuMachine;
use crate::rpms::is_debug;
use crate::tier::Tier;

/// Returns what is shown about the components of which packages are installed. `known` is the evidence
/// that names packages, oldest first.
pub(super) fn evidence(
    place: &VerifyTarget,
    known: &[ComponentEvidence],
    gpus: &GpuMachine,
    verified: &mut Verified,
) -> Result<Vec<ComponentEvidence>, Error> {
    let installed = installed(place)?;
    let mut newest: BTreeMap<&str, ComponentEvidence> = BTreeMap::new();
    for evidence in known {
        let there = |header: &str| installed.get(header).is_some_and(|name| !is_debug(name));
        let packages = evidence.packages.iter().filter(|package| there(&package.header));
        let packages: Vec<_> = packages.cloned().collect();
        if !packages.is_empty() {
            let ComponentEvidence { component, version, release, gpu_targets, .. } = evidence;
            let found = ComponentEvidence {
                component: component.clone(),
                version: version.clone(),
                release: release.clone(),
                gpu_targets: gpu_targets.clone(),
                packages,
                ..ComponentEvidence::default()
            };
            newest.insert(component, found);
        }
    }
    let mut all: Vec<ComponentEvidence> = newest.into_values().collect();
    for evidence in &mut all {
        judge(evidence, place, &installed, gpus, verified)?;
    }
    Ok(all)
}

/// Sets the tier of a component, or why it has none.
fn judge(
    evidence: &mut ComponentEvidence,
    place: &VerifyTarget,
    installed: &BTreeMap<String, String>,
    gpus: &GpuMachine,
    verified: &mut Verified,
) -> Result<(), Error> {
    let mut computing = BTreeSet::new();
    for package in &evidence.packages {
        let name = &installed[&package.header];
        for path in files(place, name)? {
            let program = path.strip_prefix("/usr/bin/").map(str::to_owned);
            let Some(module) = module(&path) else {
                computing.extend(program);
                continue;
            };
            let id = super::import_id(&module);
            let index = match verified.checks.iter().position(|check| check.id == id) {
                Some(index) => index,
                None => {
                    verified.checks.push(import_check(place, &module, name)?);
                    verified.checks.len() - 1
                }
            };
            let Check { outcome, detail, .. } = &verified.checks[index];
            match outcome {
                Outcome::Pass => drop(computing.insert(module)),
                Outcome::Fail => evidence.failure = Some(format!("import {module}: {detail}")),
                Outcome::NotRun => return Ok(()),
            }
        }
    }
    if evidence.failure.is_some() {
        return Ok(());
    }
    evidence.tier = Some(Tier::Installed);
    let ran = verified.computed.iter().any(|name| computing.contains(name));
    if let Some(device) = device(gpus, evidence).filter(|_| ran) {
        (evidence.tier, evidence.device) = (Some(Tier::Ran), Some(device));
    }
    Ok(())
}

/// Returns the GPUs of the machine if the packages were built for each of them, because any of them may
/// have computed. A program for a GPU that an override presents proves nothing.
fn device(machine: &GpuMachine, evidence: &ComponentEvidence) -> Option<String> {
    let overridden = machine.environment.keys().any(|name| name.starts_with("HSA_OVERRIDE_GFX"));
    let names: BTreeSet<String> = machine.gpus.iter().map(crate::gpu_machine::Gpu::name).collect();
    let built_for = |name: &String| {
        evidence.gpu_targets.iter().any(|target| target.split(':').next() == Some(name))
    };
    (!overridden && !names.is_empty() && names.iter().all(built_for))
        .then(|| names.into_iter().collect::<Vec<_>>().join(", "))
}

/// Returns the names of the installed packages by the digest of their header.
fn installed(place: &VerifyTarget) -> Result<BTreeMap<String, String>, Error> {
    let text = query(place, &["-qa", "--qf", "%{SHA256HEADER}\\t%{NAME}\\n"])?;
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    Ok(lines.map(|(header, name)| (header.to_owned(), name.to_owned())).collect())
}

fn files(place: &VerifyTarget, name: &str) -> Result<Vec<String>, Error> {
    Ok(query(place, &["-ql", "--", name])?.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(variable: Option<&str>) -> GpuMachine {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/machines/strix-halo");
        GpuMachine::read(root.as_ref(), |name| variable.filter(|v| *v == name).map(Into::into))
    }

    #[test]
    fn a_program_ran_only_on_a_gpu_that_it_was_built_for() {
        let built_for = |targets: &[&str]| ComponentEvidence {
            gpu_targets: targets.iter().map(|target| (*target).to_owned()).collect(),
            ..ComponentEvidence::default()
        };
        let plain = machine(None);
        assert_eq!(device(&plain, &built_for(&["gfx1100", "gfx1151"])).as_deref(), Some("gfx1151"));
        assert_eq!(device(&plain, &built_for(&["gfx1100"])), None);
        assert_eq!(device(&plain, &built_for(&[])), None);
        let overridden = machine(Some("HSA_OVERRIDE_GFX_VERSION"));
        assert_eq!(device(&overridden, &built_for(&["gfx1151"])), None);
    }
}
