//! The status of all pin sets of a workspace, from their evidence. It asks no network.

use std::path::Path;

use super::place::{FOLDER, evidence_folder};
use crate::error::{Error, IoError};
use crate::evidence::{Chain, Imported, SetStatus, evidence_page, imported};
use crate::files::names_in;
use crate::names::is_plain;

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

/// Returns the page of a pin set and chroot.
pub fn page_of(root: &Path, stack: &str, pins: &str, chroot: &str) -> Result<String, Error> {
    let (chain, imported) = read(root, stack, pins)?;
    Ok(evidence_page(&chain, &imported, stack, pins, chroot))
}
