//! Formats the proof that packages install, as JSON and as lines for a terminal: what it proves,
//! and what it does not cover.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;

use super::count;
use crate::names::ComponentName;
use crate::proof::{Basis, Proof};

/// The proof that packages can be installed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InstallReport<'a> {
    /// How many packages there are.
    packages: usize,
    /// How many different requirements they have.
    requirements: usize,
    /// The components, in build order.
    components: Vec<PackedComponent<'a>>,
    /// Requirements that nothing satisfies.
    unmet: Vec<UnmetRequirement<'a>>,
    /// Files that two of the packages have.
    conflicts: Vec<FileConflict<'a>>,
    /// Requirements that could not be checked, by the reason.
    unchecked: &'a BTreeMap<String, BTreeSet<String>>,
}

/// A component with its RPMs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PackedComponent<'a> {
    /// The component.
    component: &'a str,
    /// What the RPMs were made from: `built`, `wheels`, `other-wheels` or `spec`.
    basis: &'static str,
    /// The RPMs.
    rpms: &'a [PathBuf],
}

/// A requirement that nothing satisfies.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UnmetRequirement<'a> {
    /// The package with the requirement.
    package: &'a str,
    /// The requirement.
    requirement: &'a str,
    /// The files of the package that it comes from.
    files: &'a [String],
    /// Why nothing satisfies it.
    reason: &'a str,
}

/// Files that several packages have.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FileConflict<'a> {
    /// The packages.
    packages: &'a [String],
    /// The files.
    files: &'a [String],
}

/// Returns the proof as a part of the closure's JSON document.
pub fn install_json(proof: &Proof) -> InstallReport<'_> {
    let findings = &proof.findings;
    let components = proof.components.iter().map(|packed| PackedComponent {
        component: packed.component.as_str(),
        basis: basis(packed.basis),
        rpms: &packed.rpms,
    });
    let unmet = findings.unmet.iter().map(|unmet| UnmetRequirement {
        package: &unmet.package,
        requirement: &unmet.requirement,
        files: &unmet.files,
        reason: &unmet.why,
    });
    let conflicts = findings.conflicts.iter();
    let conflicts =
        conflicts.map(|one| FileConflict { packages: &one.packages, files: &one.files });
    InstallReport {
        packages: proof.packages,
        requirements: findings.requirements,
        components: components.collect(),
        unmet: unmet.collect(),
        conflicts: conflicts.collect(),
        unchecked: &findings.unchecked,
    }
}

/// Returns a line that summarizes the proof.
pub fn install_summary(proof: &Proof) -> String {
    let (packages, requirements) = (proof.packages, proof.findings.requirements);
    let packed = proof.components.iter().filter(|packed| packed.fresh).count();
    let packed = if packed == 0 {
        String::new()
    } else {
        format!("; {} packed", count(packed, "component"))
    };
    format!("{} of {}{packed}", count(requirements, "requirement"), count(packages, "package"))
}

/// Returns the limits of the proof, one sentence each.
pub fn install_notes(proof: &Proof) -> Vec<String> {
    let by_basis = proof.by_basis();
    let list = |basis: Basis| {
        let names = by_basis.get(&basis).filter(|names| !names.is_empty())?;
        Some(names.iter().map(|name: &&ComponentName| name.as_str()).collect::<Vec<_>>().join(", "))
    };
    let mut notes = Vec::new();
    if let Some(names) = list(Basis::Spec) {
        notes.push(format!("not built, so their ELF files are not checked: {names}"));
    }
    if let Some(names) = list(Basis::OtherWheels) {
        notes
            .push(format!("not built from source yet, so checked with upstream's wheels: {names}"));
    }
    for (reason, requirements) in &proof.findings.unchecked {
        let list: Vec<&str> = requirements.iter().map(String::as_str).collect();
        notes.push(format!("{} not checked, {reason}: {}", list.len(), list.join(", ")));
    }
    notes
}

fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Built => "built",
        Basis::Wheels => "wheels",
        Basis::OtherWheels => "other-wheels",
        Basis::Spec => "spec",
    }
}
