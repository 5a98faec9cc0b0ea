//! Gives the files of a wheel search paths that lead to ROCm's Python packages, which are next to it
//! in site-packages. Search paths of the build machine are removed.

use std::collections::{BTreeMap, BTreeSet};

use super::archive::{Content, Member};
use super::linkage::{Elf, Folder, folder};
use super::payload::Spool;
use super::provenance::Relinked;
use super::rocm_sdk::{RELINK, Refusal, library_folder};
use super::search_path::{self, Set};
use rocmrpm_base::names::Soname;

/// Sets the search paths of all files that need a library of ROCm or have a search path out of
/// site-packages. `rocm` are the folders of `rocm-sdk-core` and `rocm-sdk-libraries`; `origins` has the
/// path of each member in its RPM, except for those that are not from an RPM. Returns what changed, by
/// member.
pub(super) fn relink(
    members: &mut BTreeMap<String, Member>,
    elfs: &mut BTreeMap<String, Elf>,
    origins: &BTreeMap<String, String>,
    rocm: [&str; 2],
    spool: &mut Spool,
) -> Result<BTreeMap<String, Relinked>, Refusal> {
    let mut relinked = BTreeMap::new();
    let names: BTreeSet<String> = members.keys().cloned().collect();
    for (name, elf) in elfs.iter_mut().filter(|(name, _)| origins.contains_key(*name)) {
        let Some(text) = wanted(name, elf, &names, rocm) else { continue };
        let Some(Member { content: Content::File(stored), .. }) = members.get(name) else {
            continue;
        };
        let stored = *stored;
        // Links to one file are several members with the same content.
        let copy = spool.duplicate(stored)?;
        let refuse = |reason: String| Refusal::File(name.clone(), reason, RELINK);
        let new = match search_path::set(spool, copy, &text)? {
            Set::New(new) => new,
            Set::NoRoom => {
                return Err(refuse(format!("it has no room for the search path `{text}`")));
            }
            Set::Unreadable(reason) => return Err(refuse(reason)),
            Set::Damaged => {
                return Err(refuse(format!("setting its search path to `{text}` damages it")));
            }
        };
        let old = elf.search_path().collect::<Vec<_>>().join(":");
        if let Some(changed) =
            spool.linkage(&new)?.and_then(|(facts, sound)| Elf::new(facts, sound))
        {
            *elf = changed;
        }
        let file = origins[name].clone();
        relinked.insert(name.clone(), Relinked { file, sha256: stored.sha256, old, new: text });
        if let Some(member) = members.get_mut(name) {
            member.content = Content::File(new);
        }
    }
    Ok(relinked)
}

/// Returns the search path that a file gets; `None` if its own is right.
fn wanted(name: &str, elf: &Elf, members: &BTreeSet<String>, rocm: [&str; 2]) -> Option<String> {
    let (top, _) = name.split_once('/').unwrap_or(("", name));
    // Installers put the schemes of a `.data` folder in other places.
    if !elf.is_loadable() || top.ends_with(".data") {
        return None;
    }
    let mut kept: Vec<String> = Vec::new();
    let mut folders = BTreeSet::new();
    let mut leads_out = false;
    for entry in elf.search_path() {
        match folder(name, entry) {
            Folder::Inside(inside) => {
                kept.push(entry.to_owned());
                folders.insert(inside);
            }
            Folder::Above | Folder::Absolute | Folder::Unknown => leads_out = true,
        }
    }
    let mut added = Vec::new();
    for soname in elf.needed() {
        let has_own = folders.iter().any(|folder| members.contains(&format!("{folder}/{soname}")));
        let Some(to) = library_folder(&Soname::new(soname), rocm).filter(|_| !has_own) else {
            continue;
        };
        let entry = format!("$ORIGIN{}/{to}", "/..".repeat(name.matches('/').count()));
        if !folders.contains(&to) && !added.contains(&entry) {
            added.push(entry);
        }
    }
    if added.is_empty() && !leads_out {
        return None;
    }
    kept.extend(added);
    if kept.is_empty() {
        kept.push("$ORIGIN".to_owned());
    }
    Some(kept.join(":"))
}
