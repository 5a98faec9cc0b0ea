//! Brings what users get back to an earlier publication of a chroot: the channel `stable` of the index,
//! and the repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::destination::open;
use super::error::PipelineError;
use super::place::{PipelineFolders, evidence_folder};
use super::promote::check_tier;
use super::{PipelineStage, Request, home_workspace};
use crate::error::Error;
use crate::evidence::{Chain, Draft, EvidenceRecord, Outcome, PackageEvidence};
use crate::index::change::{self, Action};
use crate::publication::{self, Earlier};
use crate::publishing::{Target, apply_packages, apply_wheels, sign_wheels};
use crate::rpms::name_of_file;
use crate::rpms::signing::Signer;
use crate::stack::KeyInputs;
use crate::style::count;
use crate::workspace::{PipelineSettings, Workspace};

/// The stage of the records of rollbacks. No run has it.
const STAGE: &str = "rollback";

/// The channel that is brought back.
const CHANNEL: &str = "stable";

/// The input with the number of the publication.
const RECORD: &str = "record";

/// A planned rollback.
pub struct Rollback {
    /// The pin set.
    pub pins: String,
    /// The number of the record of the publication.
    pub record: u64,
    /// Its chroot.
    pub chroot: String,
    /// The change of the index, and its destination.
    pub wheels: Option<(String, change::Change)>,
    /// The change of the repository, and its destination.
    pub packages: Option<(String, publication::Change)>,
    targets: [Option<Target>; 2],
    chain: Chain,
    _place: PipelineFolders,
}

/// Plans bringing the destinations in `pipeline.toml` back to the publication that a record states.
pub fn plan_rollback(dir: &Path, pins: Option<&str>, number: u64) -> Result<Rollback, Error> {
    let request = Request { pins: pins.map(str::to_owned), ..Request::default() };
    let workspace = home_workspace(dir, &request)?;
    let pins = workspace.pins.name.clone();
    let settings = PipelineSettings::load(&workspace.root)?;
    // No run may publish meanwhile.
    let place = PipelineFolders::open(&workspace)?;
    let chain = Chain::read(&evidence_folder(&workspace.root, &pins), &pins)?;
    let (record, chroot) = publication(&chain, number, &pins)?;
    let (record, chroot) = (record.clone(), chroot.to_owned());
    let to_repository = settings.repository.as_ref().map(|to| to.replace("{chroot}", &chroot));
    if settings.index.is_none() && to_repository.is_none() {
        return Err(PipelineError::NoDestination.into());
    }
    let (mut wheels, mut packages, mut targets) = (None, None, [None, None]);
    if let Some(to) = settings.index.clone() {
        let target = open(&workspace.root, &settings, &to)?;
        let change = wheels_of(&chain, &record, &target, &workspace, &settings)?;
        (wheels, targets[0]) = (Some((to, change)), Some(target));
    }
    if let Some(to) = to_repository {
        let target = open(&workspace.root, &settings, &to)?;
        let signer = match &workspace.manifest.signing_key {
            Some(key) => Some(Signer::find(key, &workspace.manifest.name)?),
            None => None,
        };
        let earlier = earlier(&chain, &record);
        let change =
            publication::plan_rollback(target.place(), &earlier, signer.as_ref(), target.seen())?;
        (packages, targets[1]) = (Some((to, change)), Some(target));
    }
    let record = record.number;
    Ok(Rollback { pins, record, chroot, wheels, packages, targets, chain, _place: place })
}

impl Rollback {
    /// Applies the rollback, and records it. If interrupted, the same command continues.
    pub fn apply(&mut self) -> Result<(), Error> {
        let mut details = Vec::new();
        let [index, repository] = &self.targets;
        if let (Some(target), Some((_, change))) = (index, &self.wheels) {
            apply_wheels(target, change)?;
            let changed = change.notes.iter().filter(|note| note.action != Action::Keep);
            details.extend(changed.map(ToString::to_string));
        }
        if let (Some(target), Some((to, change))) = (repository, &self.packages) {
            apply_packages(target, change)?;
            details.extend(change.added.iter().map(|one| format!("add {} to {to}", one.file)));
            details.extend(change.leaving.iter().map(|one| format!("drop {} from {to}", one.file)));
        }
        let mut inputs = KeyInputs::default();
        inputs.add(RECORD, self.record);
        let last = self.chain.records().rfind(|record| {
            record.chroot.as_ref() == Some(&self.chroot)
                && (record.stage == STAGE || record.stage == PipelineStage::Publish.name())
        });
        if details.is_empty() && last.is_some_and(|last| last.inputs == inputs) {
            return Ok(());
        }
        let mut draft = Draft::new(STAGE, Some(&self.chroot), inputs);
        draft.summary =
            format!("back to record {}: {}", self.record, count(details.len(), "change"));
        draft.details = details;
        draft.finish(&mut self.chain)?;
        Ok(())
    }
}

/// Returns the record of a publication, and its chroot.
fn publication<'c>(
    chain: &'c Chain,
    number: u64,
    pins: &str,
) -> Result<(&'c EvidenceRecord, &'c str), Error> {
    let all = || chain.records().filter(|record| is_publication(record));
    let record = all().find(|record| record.number == number);
    if let Some(record) = record
        && let Some(chroot) = &record.chroot
    {
        return Ok((record, chroot));
    }
    let known: Vec<String> = all().map(|record| record.number.to_string()).collect();
    Err(PipelineError::NotPublished { number, pins: pins.to_owned(), known }.into())
}

fn is_publication(record: &EvidenceRecord) -> bool {
    record.stage == PipelineStage::Publish.name()
        && record.outcome == Outcome::Passed
        && record.chroot.is_some()
}

/// Returns the publications of the same chroot.
fn publications<'c>(
    chain: &'c Chain,
    chroot: Option<&'c str>,
) -> impl Iterator<Item = &'c EvidenceRecord> {
    chain
        .records()
        .filter(move |record| is_publication(record) && record.chroot.as_deref() == chroot)
}

/// Plans the change of the channel. Wheels that were never promoted need the tier of a promotion.
fn wheels_of(
    chain: &Chain,
    record: &EvidenceRecord,
    target: &Target,
    workspace: &Workspace,
    settings: &PipelineSettings,
) -> Result<change::Change, Error> {
    let digests = |record: &EvidenceRecord| -> Vec<_> {
        let wheels = record.components.iter().flat_map(|component| &component.wheels);
        wheels.map(|wheel| wheel.sha256).collect()
    };
    let wanted: BTreeSet<_> = digests(record).into_iter().collect();
    let all: BTreeSet<_> =
        publications(chain, record.chroot.as_deref()).flat_map(digests).collect();
    let mut change = change::plan_rollback(target.place(), CHANNEL, &wanted, &all)?;
    if let Some(tier) = settings.promote {
        check_tier(&workspace.root, &workspace.manifest.name, &change, tier)?;
    }
    sign_wheels(target, &mut change, Some(&workspace.manifest))?;
    Ok(change)
}

fn packages(record: &EvidenceRecord) -> impl Iterator<Item = &PackageEvidence> {
    record.components.iter().flat_map(|component| &component.packages)
}

/// Returns the packages of a publication, and the names of all packages that were published.
fn earlier(chain: &Chain, record: &EvidenceRecord) -> Earlier {
    let headers = |record: &EvidenceRecord| -> BTreeMap<String, String> {
        packages(record).map(|package| (package.file.clone(), package.header.clone())).collect()
    };
    let files = publications(chain, record.chroot.as_deref()).flat_map(headers);
    let name = |(file, _): (String, String)| name_of_file(file.as_ref()).map(str::to_owned);
    Earlier { packages: headers(record), knows: files.filter_map(name).collect() }
}

/// Returns the digests of the headers of packages that the last rollback of a chroot took back, unless a
/// publication followed or was allowed since.
pub(super) fn taken_back(chain: &Chain, chroot: &str) -> BTreeSet<String> {
    let headers = |record| packages(record).map(|package| package.header.clone());
    let Some(rollback) = chain.last(STAGE, Some(chroot)) else { return BTreeSet::new() };
    let publish = chain.last(PipelineStage::Publish.name(), Some(chroot));
    if publish.is_some_and(|last| last.is_done() && last.number > rollback.number) {
        return BTreeSet::new();
    }
    let number = rollback.inputs.get(RECORD).and_then(|number| number.parse().ok()).unwrap_or(0);
    let (kept, later): (Vec<_>, Vec<_>) =
        publications(chain, Some(chroot)).partition(|record| record.number <= number);
    let stays: BTreeSet<String> =
        kept.into_iter().filter(|record| record.number == number).flat_map(headers).collect();
    later.into_iter().flat_map(headers).filter(|header| !stays.contains(header)).collect()
}
