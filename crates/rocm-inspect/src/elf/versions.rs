//! Reads symbol versions: those that a file needs from other libraries, and those that it defines.
//!
//! Source of the format: Linux Standard Base, Core, "Symbol Versioning". The structures are the
//! same in ELF32 and ELF64.

use std::collections::{BTreeMap, BTreeSet};

use goblin::elf::dynamic::{DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM};

use super::dynamic::Dynamic;
use super::raw::{Raw, string};
use crate::facts::{Damage, ElfFacts};

// glibc defines some 50 versions; programs need some 100 from all their libraries.
const MAX_STEPS: usize = 1 << 16;
const MAX_NAMES: usize = 8192;
const MAX_NAME: usize = 1024;

/// The flag of the version that is the file's own name (`VER_FLG_BASE`).
const BASE: u16 = 1;

/// Reads both tables into `facts`.
pub(super) fn read(
    raw: &Raw<'_>,
    dynamic: &Dynamic<'_>,
    facts: &mut ElfFacts,
    damages: &mut Vec<Damage>,
) {
    let mut walk = Walk { raw, strings: dynamic.strings, steps: 0, names: 0 };
    let mut needed = BTreeMap::<String, BTreeSet<String>>::new();
    let mut provided = BTreeSet::new();
    let read_needed = walk.needed(dynamic, &mut needed);
    let read_provided = walk.provided(dynamic, &mut provided);
    facts.versions_needed = needed.into_iter().map(|(k, v)| (k, v.into_iter().collect())).collect();
    facts.versions_provided = provided.into_iter().collect();
    if read_needed.and(read_provided).is_none() {
        damages.push(super::damage(dynamic.offset, "has an unreadable table of symbol versions"));
    }
}

struct Walk<'a> {
    raw: &'a Raw<'a>,
    strings: &'a [u8],
    steps: usize,
    names: usize,
}

impl Walk<'_> {
    /// Counts a step against the limit for both tables.
    fn step(&mut self) -> Option<()> {
        self.steps += 1;
        (self.steps <= MAX_STEPS).then_some(())
    }

    fn name(&mut self, at: u32) -> Option<String> {
        self.names += 1;
        (self.names <= MAX_NAMES).then_some(())?;
        string(self.strings, at as usize, MAX_NAME)
            .map(|name| String::from_utf8_lossy(name).into_owned())
    }

    /// `Elfxx_Verneed`: version, count of 2 bytes; file, first entry, next of 4.
    /// `Elfxx_Vernaux`: hash of 4; flags, index of 2; name, next of 4.
    fn needed(
        &mut self,
        dynamic: &Dynamic<'_>,
        needed: &mut BTreeMap<String, BTreeSet<String>>,
    ) -> Option<()> {
        if dynamic.value(DT_VERNEED).is_none() {
            return Some(());
        }
        let raw = self.raw;
        let table = raw.file.get(raw.loaded(dynamic.value(DT_VERNEED)?)?)?;
        let mut at = 0usize;
        for _ in 0..dynamic.value(DT_VERNEEDNUM).unwrap_or(u64::MAX) {
            self.step()?;
            let word = |offset: usize| raw.u32(table, at.checked_add(offset)?);
            let count = raw.u16(table, at.checked_add(2)?)?;
            let (file, first, next) = (word(4)?, word(8)?, word(12)?);
            let library = self.name(file)?;
            let versions = needed.entry(library).or_default();
            let mut entry = at.checked_add(first as usize)?;
            for _ in 0..count {
                self.step()?;
                versions.insert(self.name(raw.u32(table, entry.checked_add(8)?)?)?);
                match raw.u32(table, entry.checked_add(12)?)? {
                    0 => break,
                    next => entry = entry.checked_add(next as usize)?,
                }
            }
            if next == 0 {
                break;
            }
            at = at.checked_add(next as usize)?;
        }
        Some(())
    }

    /// `Elfxx_Verdef`: version, flags, index, count of 2 bytes; hash, first entry,
    /// next of 4. `Elfxx_Verdaux`: name, next of 4; the first one is the version.
    fn provided(&mut self, dynamic: &Dynamic<'_>, provided: &mut BTreeSet<String>) -> Option<()> {
        if dynamic.value(DT_VERDEF).is_none() {
            return Some(());
        }
        let raw = self.raw;
        let table = raw.file.get(raw.loaded(dynamic.value(DT_VERDEF)?)?)?;
        let mut at = 0usize;
        for _ in 0..dynamic.value(DT_VERDEFNUM).unwrap_or(u64::MAX) {
            self.step()?;
            let flags = raw.u16(table, at.checked_add(2)?)?;
            let (first, next) =
                (raw.u32(table, at.checked_add(12)?)?, raw.u32(table, at.checked_add(16)?)?);
            if flags & BASE == 0 {
                provided.insert(self.name(raw.u32(table, at.checked_add(first as usize)?)?)?);
            }
            if next == 0 {
                break;
            }
            at = at.checked_add(next as usize)?;
        }
        Some(())
    }
}
