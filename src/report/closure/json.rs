//! Builds the JSON documents of a closure, of why a member is in it, and of the differences between
//! two closures.

use std::collections::BTreeMap;

use serde::Serialize;

use super::imports::ImportsReport;
use super::{groups, size};
use crate::closure::diff::Difference;
use crate::closure::why::{MembershipReason, chains, required_by};
use crate::closure::{Closure, Edge, LockedFile, LockedOrigin, Member, Offer};
use crate::digest::Sha256;
use crate::document::Document;
use crate::report::install::InstallReport;
use crate::workspace::MemberPlace;

/// What `rocmrpm closure --json` prints: every Python distribution that a component requires, and where
/// it comes from.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ClosureReport<'a> {
    schema: &'static str,
    /// The component.
    component: &'a str,
    /// The component's own distribution.
    distribution: &'a str,
    /// The chroot.
    chroot: &'a str,
    /// The pin set.
    pins: &'a str,
    /// Releases after this day are ignored; null if there is no limit.
    not_after: Option<String>,
    /// The number and size of the members, by place.
    totals: BTreeMap<&'static str, Total>,
    /// The members, by name.
    members: Vec<ListedMember<'a>>,
    /// With `--write` and `--check`: files that are out of date.
    differs: &'a [String],
    /// Whether these files were written.
    written: bool,
    /// With `--upgrade`: the differences from the previous lock file.
    #[serde(skip_serializing_if = "Option::is_none")]
    upgraded: Option<Vec<MemberDifference<'a>>>,
    /// With `--check`: the proof that the packages can be installed.
    proof: Option<InstallReport<'a>>,
    /// With `--write` and `--check`: what the component imports.
    imports: Option<ImportsReport<'a>>,
}

/// The parts of a closure's document in addition to the closure itself.
#[derive(Default)]
pub struct Extras<'a> {
    /// Files that are out of date, if the command checks that.
    pub differs: &'a [String],
    /// Whether these files were written.
    pub written: bool,
    /// The differences from the previous lock file, after an upgrade.
    pub upgraded: Option<&'a [Difference]>,
    /// The proof that the packages can be installed.
    pub proof: Option<InstallReport<'a>>,
    /// The result of the import check.
    pub imports: Option<ImportsReport<'a>>,
}

/// Members of one place.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Total {
    /// How many members.
    members: usize,
    /// Their size in bytes, as far as it is known.
    bytes: u64,
}

/// A member, and what requires it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ListedMember<'a> {
    #[serde(flatten)]
    member: MemberReport<'a>,
    /// A shortest chain of requirements from the component to the member.
    chain: Vec<Requirement<'a>>,
    /// Everything that requires it directly, the component first.
    required_by: Vec<Requirement<'a>>,
}

/// What `rocmrpm closure why --json` prints: why a distribution is in the closure.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WhyReport<'a> {
    schema: &'static str,
    /// The component.
    component: &'a str,
    /// The chroot.
    chroot: &'a str,
    /// The pin set.
    pins: &'a str,
    #[serde(flatten)]
    member: MemberReport<'a>,
    /// A shortest chain of requirements from the component to the member.
    chain: Vec<Requirement<'a>>,
    /// How many other chains are as short.
    other_chains: u64,
    /// Everything that requires it directly, the component first.
    required_by: Vec<Requirement<'a>>,
}

/// What `rocmrpm closure diff --json` prints: the differences between two closures.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DiffReport<'a> {
    schema: &'static str,
    /// The old closure: a pin set or a file.
    old: &'a str,
    /// The new one.
    new: &'a str,
    /// The differences.
    differences: Vec<MemberDifference<'a>>,
}

/// A member of a closure.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MemberReport<'a> {
    /// The normalized name.
    name: &'a str,
    /// The version; null if the member is dropped.
    version: Option<String>,
    /// The place it comes from.
    place: &'static str,
    /// Why.
    reason: &'a str,
    /// Whether component.toml decides the place.
    decided: bool,
    /// What stops working without it, if it is dropped.
    without: Option<&'a str>,
    /// The component of the stack that it comes from.
    made_by: Option<&'a str>,
    /// The package of the release, if there is one.
    offer: Option<OfferReport<'a>>,
    /// The wheel on the index.
    wheel: Option<IndexFile<'a>>,
    /// The source distribution on the index.
    sdist: Option<IndexFile<'a>>,
    /// The size of the file that is used, in bytes.
    bytes: Option<u64>,
    /// One sentence from its metadata.
    summary: Option<&'a str>,
    /// The license from its metadata.
    license: Option<&'a str>,
    /// The home page from its metadata.
    home: Option<&'a str>,
}

/// A package of the release.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OfferReport<'a> {
    /// The package.
    package: &'a str,
    /// Its epoch, version and release, if known.
    evr: Option<&'a str>,
    /// Its version as Python writes it, if known.
    version: Option<String>,
}

/// A file on the index.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct IndexFile<'a> {
    /// The file name.
    name: &'a str,
    /// The digest.
    sha256: Sha256,
    /// The size in bytes, if known.
    size: Option<u64>,
}

/// A requirement.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Requirement<'a> {
    /// The normalized name of the distribution that requires it.
    from: &'a str,
    /// The normalized name of the required distribution.
    to: &'a str,
    /// The requirement as written, without its marker.
    requirement: &'a str,
}

/// How a member differs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct MemberDifference<'a> {
    /// The normalized name.
    name: &'a str,
    /// The kind of change.
    what: &'static str,
    /// The old version; null if it was not a member.
    old: Option<String>,
    /// The new version; null if it is no longer a member.
    new: Option<String>,
    /// If that changed: whether it comes from the stack now (`true`) or from an index.
    now_own: Option<bool>,
    /// Whether the index has other files of the same version.
    other_files: bool,
    /// The old place, if both are known and differ.
    old_place: Option<&'static str>,
    /// The new place, if both are known and differ.
    new_place: Option<&'static str>,
}

impl Document for ClosureReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/closure/1";
}

impl Document for WhyReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/closure-why/1";
}

impl Document for DiffReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/closure-diff/1";
}

/// Returns the JSON document of a closure.
pub fn closure_json<'a>(closure: &'a Closure, extras: Extras<'a>) -> ClosureReport<'a> {
    let chains = chains(closure);
    let total = |members: usize, bytes: u64| Total { members, bytes };
    let totals =
        groups(closure).into_iter().map(|g| (g.place.name(), total(g.members.len(), g.bytes)));
    let member = |member: &'a Member| {
        let chain = chains.get(member.name.as_str()).map_or(&[][..], |(chain, _)| chain);
        ListedMember {
            member: MemberReport::of(member),
            chain: Requirement::all(chain),
            required_by: Requirement::all(&required_by(closure, &member.name)),
        }
    };
    let Extras { differs, written, upgraded, proof, imports } = extras;
    ClosureReport {
        schema: ClosureReport::SCHEMA,
        component: closure.graph.component.as_str(),
        distribution: &closure.graph.root,
        chroot: &closure.chroot,
        pins: &closure.pins,
        not_after: closure.graph.not_after.map(|day| day.to_string()),
        totals: totals.collect(),
        members: closure.members.values().map(member).collect(),
        differs,
        written,
        upgraded: upgraded.map(MemberDifference::all),
        proof,
        imports,
    }
}

/// Returns the JSON document of why a member is in a closure.
pub fn why_json<'a>(closure: &'a Closure, why: &MembershipReason<'a>) -> WhyReport<'a> {
    WhyReport {
        schema: WhyReport::SCHEMA,
        component: closure.graph.component.as_str(),
        chroot: &closure.chroot,
        pins: &closure.pins,
        member: MemberReport::of(why.member),
        chain: Requirement::all(&why.chain),
        other_chains: why.others,
        required_by: Requirement::all(&why.required_by),
    }
}

/// Returns the JSON document of the differences between two closures.
pub fn diff_json<'a>(old: &'a str, new: &'a str, differences: &'a [Difference]) -> DiffReport<'a> {
    DiffReport {
        schema: DiffReport::SCHEMA,
        old,
        new,
        differences: MemberDifference::all(differences),
    }
}

impl<'a> MemberDifference<'a> {
    fn all(differences: &'a [Difference]) -> Vec<Self> {
        differences.iter().map(Self::of).collect()
    }

    fn of(difference: &'a Difference) -> Self {
        let place = |place: fn(&(MemberPlace, MemberPlace)) -> MemberPlace| {
            difference.places.as_ref().map(|both| place(both).name())
        };
        Self {
            name: &difference.name,
            what: difference.what().name(),
            old: difference.versions.0.as_ref().map(ToString::to_string),
            new: difference.versions.1.as_ref().map(ToString::to_string),
            now_own: difference.own,
            other_files: difference.files,
            old_place: place(|both| both.0),
            new_place: place(|both| both.1),
        }
    }
}

impl<'a> Requirement<'a> {
    fn all(edges: &[&'a Edge]) -> Vec<Self> {
        let requirement = |edge: &&'a Edge| {
            let Edge { from, to, text, .. } = edge;
            Self { from, to, requirement: text }
        };
        edges.iter().map(requirement).collect()
    }
}

impl<'a> MemberReport<'a> {
    fn of(member: &'a Member) -> Self {
        let node = member.node.as_ref();
        let (made_by, wheel, sdist) = match node.map(|node| &node.locked.origin) {
            Some(LockedOrigin::Stack(component)) => (Some(component.as_str()), None, None),
            Some(LockedOrigin::Index { wheel, sdist }) => (None, wheel.as_ref(), sdist.as_ref()),
            None => (None, None, None),
        };
        Self {
            name: &member.name,
            version: node.map(|node| node.locked.version.to_string()),
            place: member.place.name(),
            reason: &member.reason,
            decided: member.decided,
            without: member.without.as_deref(),
            made_by,
            offer: member.offer.as_ref().map(OfferReport::of),
            wheel: wheel.map(IndexFile::of),
            sdist: sdist.map(IndexFile::of),
            bytes: size(member),
            summary: node.map(|node| node.about.summary.as_str()),
            license: node.and_then(|node| node.about.license.as_deref()),
            home: node.and_then(|node| node.about.home.as_deref()),
        }
    }
}

impl<'a> OfferReport<'a> {
    fn of(Offer { package, evr, version, .. }: &'a Offer) -> Self {
        let evr = Some(evr.as_str()).filter(|evr| !evr.is_empty());
        Self { package, evr, version: version.as_ref().map(ToString::to_string) }
    }
}

impl<'a> IndexFile<'a> {
    fn of(file: &'a LockedFile) -> Self {
        Self { name: &file.name, sha256: file.sha256, size: file.size }
    }
}
