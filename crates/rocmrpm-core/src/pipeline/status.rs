//! The status of all pin sets of a workspace, from their evidence. It asks no network.

use std::collections::BTreeMap;
use std::path::Path;

use super::build::all_results;
use super::place::{FOLDER, evidence_folder, evidence_folder_for};
use crate::error::{Error, IoError};
use crate::evidence::{Chain, Imported, SetStatus, evidence_page, imported, standings};
use crate::files::names_in;
use crate::names::is_plain;
use crate::stack::Stack;
use crate::tier::Tier;

/// Returns the status of each pin set of a workspace that has records, or only of `pins`.
pub fn collect(root: &Path, stack: &str, pins: Option<&str>) -> Result<Vec<SetStatus>, Error> {
    let names = names_in(&root.join(FOLDER)).map_err(IoError::doing("list pipelines"))?;
    let mut sets = Vec::new();
    for name in names.iter().filter(|name| is_plain(name)) {
        if pins.is_some_and(|pins| pins != name) || !evidence_folder(root, name).is_dir() {
            continue;
        }
        let (chain, imported) = read(root, stack, name)?;
        sets.push(SetStatus::of(&chain, &imported, name));
    }
    Ok(sets)
}

/// Reads the evidence of a pin set: the own chain, and what was imported.
pub fn read(root: &Path, stack: &str, pins: &str) -> Result<(Chain, Vec<Imported>), Error> {
    let dir = evidence_folder(root, pins);
    Ok((Chain::read(&dir, pins)?, imported(&dir, stack, pins)?))
}

/// Returns what records prove about the packages in the build folder, by component; `None` if they
/// are not the packages of a record.
pub fn tiers_of_results(stack: &Stack<'_>) -> Result<BTreeMap<String, Option<Tier>>, Error> {
    let workspace = stack.workspace;
    let (stack_name, pins) = (&workspace.manifest.name, &workspace.pins.name);
    let dir = evidence_folder_for(&workspace.root, pins);
    let (chain, imported) = (Chain::read(&dir, pins)?, imported(&dir, stack_name, pins)?);
    let standings = standings(&chain, &imported, &workspace.chroot.name);
    let results = all_results(stack)?.into_iter().map(|evidence| {
        let standing = standings.get(&evidence.component);
        let tier = standing.and_then(|standing| standing.tier_of(&evidence));
        (evidence.component, tier)
    });
    Ok(results.collect())
}

/// Returns the page of a pin set and chroot.
pub fn page_of(root: &Path, stack: &str, pins: &str, chroot: &str) -> Result<String, Error> {
    let (chain, imported) = read(root, stack, pins)?;
    Ok(evidence_page(&chain, &imported, stack, pins, chroot))
}
