//! Records what a verification shows about installed packages, on this machine or for another one.

use super::place::{evidence_folder, lock};
use super::status::read;
use crate::error::{Error, Kind};
use crate::evidence::{ComponentEvidence, Draft, EvidenceRecord, Outcome};
use crate::stack::{KeyInputs, Stack};
use crate::tier::Tier;
use crate::verify::{self, Smoke, Subject, Verified, verify};

/// The stage of the record, which no pipeline has.
const STAGE: &str = "installed";

/// Verifies a system, and writes a record about the installed packages that the evidence of the pin set
/// names, which the own pipeline wrote or which was imported.
pub fn record_installed(
    stack: &Stack<'_>,
    subject: Subject<'_>,
    smoke: Smoke,
) -> Result<Verified, Error> {
    let workspace = stack.workspace;
    let (root, pins, chroot) = (&workspace.root, &workspace.pins.name, &workspace.chroot.name);
    let _lock = lock(root, pins)?;
    let (mut chain, imported) = read(root, &workspace.manifest.name, pins)?;
    let names = |record: &&EvidenceRecord| {
        record.chroot.as_deref() == Some(chroot) && record.outcome == Outcome::Passed
    };
    let others = imported.iter().flat_map(|imported| &imported.links).map(|link| &link.record);
    let records = others.chain(chain.records()).filter(names);
    let evidence = records.flat_map(|record| &record.components);
    let known: Vec<ComponentEvidence> =
        evidence.filter(|evidence| !evidence.packages.is_empty()).cloned().collect();
    let unknown = |message: String| {
        Err(Error::new(Kind::Findings, message).with_help(
            "import the evidence that is published with the packages: `rocmrpm evidence import FILE --key KEY`",
        ))
    };
    if known.is_empty() {
        let folder = evidence_folder(root, pins);
        return unknown(format!(
            "no record in `{}` names packages for `{chroot}`",
            folder.display()
        ));
    }
    let mut draft = Draft::new(STAGE, Some(chroot), KeyInputs::default());
    let verified = verify(stack, subject, smoke, &known)?;
    if verified.components.is_empty() {
        return unknown(format!(
            "no package in {} is one that the evidence of `{pins}` names",
            verified.place
        ));
    }
    draft.inputs.add("smoke", smoke != Smoke::No);
    for package in verified.components.iter().flat_map(|evidence| &evidence.packages) {
        draft.inputs.add(&package.file, &package.header);
    }
    let of = |outcome| verified.checks.iter().filter(move |check| check.outcome == outcome);
    let lines = |what, outcome| {
        of(outcome).map(move |check| format!("{what}: {}: {}", check.id, check.detail))
    };
    draft.details.extend(lines("failed", verify::Outcome::Fail));
    draft.details.extend(lines("not run", verify::Outcome::NotRun));
    let number =
        |tier| verified.components.iter().filter(|evidence| evidence.tier >= Some(tier)).count();
    draft.summary = format!(
        "{} of {} components installed, {} ran on a GPU",
        number(Tier::Installed),
        verified.components.len(),
        number(Tier::Ran)
    );
    draft.components.clone_from(&verified.components);
    draft.finish(&mut chain)?;
    Ok(verified)
}
