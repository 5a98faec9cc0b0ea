//! The tier that wheels need before they are promoted.

use std::path::Path;

use super::place::{FOLDER, evidence_folder};
use super::status::read;
use crate::error::{Error, IoError, Kind};
use crate::evidence::tiers_of_wheels;
use crate::files::names_in;
use crate::index::change::{Action, Change};
use crate::names::is_plain;
use crate::tier::Tier;

/// Refuses a change that promotes a wheel whose evidence in this workspace proves less than a tier.
/// Wheels are found by their digest, in the evidence of all pin sets.
pub fn check_tier(root: &Path, stack: &str, change: &Change, tier: Tier) -> Result<(), Error> {
    let mut tiers = std::collections::BTreeMap::new();
    let names = names_in(&root.join(FOLDER)).map_err(IoError::doing("list pipelines"))?;
    for pins in names.iter().filter(|name| is_plain(name)) {
        if !evidence_folder(root, pins).is_dir() {
            continue;
        }
        let (chain, imported) = read(root, stack, pins)?;
        for (wheel, proved) in tiers_of_wheels(&chain, &imported) {
            let known = tiers.entry(wheel).or_insert(None);
            *known = proved.max(*known);
        }
    }
    for note in change.notes.iter().filter(|note| matches!(note.action, Action::Promote(_))) {
        let proved = tiers.get(&note.sha256.to_string()).copied().flatten();
        if proved >= Some(tier) {
            continue;
        }
        let proved = proved.map_or("nothing".to_owned(), |proved| format!("`{proved}`"));
        let message = format!("{} is not `{tier}`: the evidence here proves {proved}", note.file);
        return Err(Error::new(Kind::Findings, message).with_help(
            "run `rocmrpm pipeline run`, `rocmrpm verify --record` where it is installed, or import the \
             evidence of a tester; `--tier none` promotes without evidence",
        ));
    }
    Ok(())
}
