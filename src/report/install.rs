//! The proof that packages install, as JSON and as lines for a terminal: what it is of, and what
//! it does not cover.

use serde_json::{Value, json};

use super::count;
use crate::names::ComponentName;
use crate::proof::{Basis, Proof};

/// Returns the proof as it stands in `rocmrpm/closure/1`.
pub fn install_json(proof: &Proof) -> Value {
    let components: Vec<Value> = proof
        .components
        .iter()
        .map(|packed| {
            json!({ "component": packed.component.as_str(), "basis": basis(packed.basis), "rpms": packed.rpms })
        })
        .collect();
    let unmet: Vec<Value> = proof
        .findings
        .unmet
        .iter()
        .map(|unmet| {
            json!({
                "package": unmet.package, "requirement": unmet.requirement, "files": unmet.files,
                "reason": unmet.why,
            })
        })
        .collect();
    let conflicts = proof.findings.conflicts.iter();
    let conflicts: Vec<Value> =
        conflicts.map(|conflict| json!({ "packages": conflict.packages, "files": conflict.files })).collect();
    json!({
        "packages": proof.packages,
        "requirements": proof.findings.requirements,
        "components": components,
        "unmet": unmet,
        "conflicts": conflicts,
        "unchecked": proof.findings.unchecked,
    })
}

/// Returns one line on what was proved.
pub fn install_summary(proof: &Proof) -> String {
    let (packages, requirements) = (proof.packages, proof.findings.requirements);
    let packed = proof.components.iter().filter(|packed| packed.fresh).count();
    let packed = if packed == 0 { String::new() } else { format!("; {} packed", count(packed, "component")) };
    format!("{} of {}{packed}", count(requirements, "requirement"), count(packages, "package"))
}

/// Returns what was not proved, a sentence each.
pub fn install_notes(proof: &Proof) -> Vec<String> {
    let by_basis = proof.by_basis();
    let list = |basis: Basis| {
        let names = by_basis.get(&basis).filter(|names| !names.is_empty())?;
        Some(names.iter().map(|name: &&ComponentName| name.as_str()).collect::<Vec<_>>().join(", "))
    };
    let mut notes = Vec::new();
    if let Some(names) = list(Basis::Spec) {
        notes.push(format!("not built, so their ELF files are not proved: {names}"));
    }
    if let Some(names) = list(Basis::OtherWheels) {
        notes.push(format!("built from source, proved with upstream's wheels until they are: {names}"));
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
