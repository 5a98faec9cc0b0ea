//! What the records of a chain prove about each component now.

use std::collections::BTreeMap;

use super::bundle::Imported;
use super::chain::Chain;
use super::record::{ComponentEvidence, EvidenceRecord, Outcome, PackageEvidence};
use crate::tier::Tier;

/// What is proved about the current packages of a component.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The upstream version.
    pub version: String,
    /// The Release; empty before the spec is rendered.
    pub release: String,
    /// The highest tier that a record proves.
    pub tier: Option<Tier>,
    /// When that was proved: RFC 3339 in UTC.
    pub since: String,
    /// The key that signed the record, if it is of another machine.
    pub key: Option<String>,
    /// The device that computed, for the tier `ran`.
    pub device: Option<String>,
    /// The packages.
    pub packages: Vec<PackageEvidence>,
    /// How long the last build took, in seconds.
    pub seconds: Option<f64>,
    /// Why the newest build failed.
    pub failure: Option<String>,
}

impl Standing {
    fn of(evidence: &ComponentEvidence, record: &EvidenceRecord) -> Self {
        Self {
            version: evidence.version.clone(),
            release: evidence.release.clone(),
            tier: evidence.tier,
            since: record.finished.clone(),
            key: None,
            device: evidence.device.clone(),
            packages: evidence.packages.clone(),
            seconds: evidence.seconds,
            failure: evidence.failure.clone(),
        }
    }

    /// Returns whether evidence is about the same version and release, and about these packages or some
    /// of them. Evidence that does not state a release or packages is of the current ones.
    fn is_of(&self, evidence: &ComponentEvidence) -> bool {
        let same = |mine: &str, other: &str| mine.is_empty() || other.is_empty() || mine == other;
        self.version == evidence.version
            && same(&self.release, &evidence.release)
            && (self.packages.is_empty()
                || evidence.packages.iter().all(|package| self.packages.contains(package)))
    }

    /// Returns the tier if the evidence lists the packages that it was proved for.
    pub fn tier_of(&self, evidence: &ComponentEvidence) -> Option<Tier> {
        let listed = !self.packages.is_empty() && !evidence.packages.is_empty();
        self.tier.filter(|_| listed && self.is_of(evidence))
    }

    /// Adds evidence about the same packages.
    fn add(&mut self, evidence: &ComponentEvidence, record: &EvidenceRecord) {
        if self.release.is_empty() {
            self.release.clone_from(&evidence.release);
        }
        if self.packages.is_empty() {
            self.packages.clone_from(&evidence.packages);
        }
        self.seconds = evidence.seconds.or(self.seconds);
        self.failure.clone_from(&evidence.failure);
        if evidence.tier > self.tier {
            (self.tier, self.since) = (evidence.tier, record.finished.clone());
            (self.device, self.key) = (evidence.device.clone(), None);
        }
    }
}

/// Returns what is proved about each component in a chroot.
///
/// Records of other machines count only for packages that they name by the digest of the header and
/// that the own chain has; they never change which packages are the current ones.
pub fn standings(chain: &Chain, imported: &[Imported], chroot: &str) -> BTreeMap<String, Standing> {
    let mut all: BTreeMap<String, Standing> = BTreeMap::new();
    let concerns = |record: &EvidenceRecord| {
        record.chroot.as_deref().is_none_or(|other| other == chroot)
            && record.outcome != Outcome::Accepted
    };
    for record in chain.records().filter(|record| concerns(record)) {
        for evidence in &record.components {
            match all.get_mut(&evidence.component) {
                Some(standing) if standing.is_of(evidence) => standing.add(evidence, record),
                _ => {
                    all.insert(evidence.component.clone(), Standing::of(evidence, record));
                }
            }
        }
    }
    for Imported { key, links } in imported {
        let passed = |record: &&EvidenceRecord| {
            record.outcome == Outcome::Passed && record.chroot.as_deref() == Some(chroot)
        };
        for record in links.iter().map(|link| &link.record).filter(passed) {
            for evidence in &record.components {
                let Some(standing) = all.get_mut(&evidence.component) else { continue };
                let has = |package: &PackageEvidence| {
                    let same = |own: &PackageEvidence| own.header == package.header;
                    !package.header.is_empty() && standing.packages.iter().any(same)
                };
                let same = !evidence.packages.is_empty()
                    && evidence.packages.iter().all(has)
                    && standing.is_same_release(evidence);
                if same && evidence.tier > standing.tier {
                    (standing.tier, standing.since) = (evidence.tier, record.finished.clone());
                    (standing.device, standing.key) = (evidence.device.clone(), Some(key.clone()));
                }
            }
        }
    }
    all
}

impl Standing {
    fn is_same_release(&self, evidence: &ComponentEvidence) -> bool {
        self.version == evidence.version && self.release == evidence.release
    }
}

/// Returns the tier of each wheel, by its digest in hexadecimal digits, in any chroot of a chain.
pub fn tiers_of_wheels(chain: &Chain, imported: &[Imported]) -> BTreeMap<String, Option<Tier>> {
    let mut chroots: Vec<&str> = chain.records().filter_map(|r| r.chroot.as_deref()).collect();
    chroots.sort_unstable();
    chroots.dedup();
    let mut tiers = BTreeMap::new();
    for chroot in chroots {
        let standings = standings(chain, imported, chroot);
        let of_chroot = |record: &&EvidenceRecord| record.chroot.as_deref() == Some(chroot);
        for record in chain.records().filter(of_chroot) {
            for evidence in &record.components {
                let current = standings.get(&evidence.component);
                // Wheels of earlier packages keep the tier of the record that lists them.
                let tier = match current.filter(|standing| standing.is_of(evidence)) {
                    Some(standing) => standing.tier,
                    None => evidence.tier,
                };
                for wheel in &evidence.wheels {
                    let known = tiers.entry(wheel.sha256.to_string()).or_insert(None);
                    *known = tier.max(*known);
                }
            }
        }
    }
    tiers
}
