//! Upgrades from an earlier release of the workspace: members that have separate RPMs there must be
//! replaced by a newer package or obsoleted. Upgrades to later releases are up to `later`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::str::FromStr;

use pep440_rs::Version;

use super::Closure;
use super::offers::Offers;
use super::package_name::package;
use crate::error::{Error, IoError, Problem, Problems};
use crate::rpm_version::of_spec;
use crate::workspace::document::File;
use crate::workspace::pins::Overrides;
use crate::workspace::{
    Chroot, Component, GENERATED_PINS, Lock, MemberPlace, PinSet, Workspace, compare,
};

/// Reads the members with separate RPMs in the written closure of an earlier chroot, with the
/// versions of their packages. Empty if no closure is written for it.
fn members(
    workspace: &Workspace,
    component: &Component,
    chroot: &Chroot,
) -> Result<BTreeMap<String, String>, Error> {
    let stem = workspace.closure_stem_for(&chroot.name);
    let shown = format!("pins/{stem}{GENERATED_PINS}.toml");
    let path = workspace.root.join(&shown);
    if !path.is_file() {
        return Ok(BTreeMap::new());
    }
    let file = File::read(&path, &shown).map_err(IoError::doing(format!("read `{shown}`")))?;
    let mut problems = Vec::new();
    let set = PinSet::read(&stem, file, &Lock::default(), &Overrides::new(), &mut problems);
    if !problems.is_empty() {
        return Err(Problems(problems).into());
    }
    Ok(rpms(&set, component).map(|(name, version)| (name.to_owned(), version)).collect())
}

/// Returns the members among generated pins, except for the package of the private ones.
fn rpms<'p>(set: &'p PinSet, component: &Component) -> impl Iterator<Item = (&'p str, String)> {
    let runtime = component.runtime_name();
    let pins = set.pins.iter().filter(move |(name, _)| name.as_str() != runtime);
    pins.map(|(name, at)| (name.as_str(), version_of_spec(&at.value.version)))
}

/// Returns a pinned version as the package of a member spells it.
fn version_of_spec(pinned: &str) -> String {
    Version::from_str(pinned).map_or_else(|_| pinned.to_owned(), |pinned| of_spec(&pinned))
}

/// Returns what the component's package obsoletes, in rpm's syntax: the RPMs in an earlier release
/// of members for which this release has neither an RPM nor an equally new package. The bounds only
/// cover the stack's own packages; the release's own package of that version or a later one stays
/// installed.
pub fn obsoletes(
    workspace: &Workspace,
    component: &Component,
    closure: &Closure,
    offers: &Offers,
) -> Result<Vec<String>, Error> {
    let mut newest: BTreeMap<String, String> = BTreeMap::new();
    for chroot in workspace.earlier_chroots() {
        for (name, version) in members(workspace, component, chroot)? {
            let known = newest.entry(name).or_default();
            if compare(&version, known) == Ordering::Greater {
                *known = version;
            }
        }
    }
    let is_rpm = |name: &str| {
        closure.members.get(name).is_some_and(|member| member.place == MemberPlace::Rpm)
    };
    let obsolete = |(name, version): (&String, &String)| {
        let package = package(name);
        let offer = offers.of_dist(name).filter(|offer| offer.package == package);
        match offer {
            // The stack's Releases start with 0, Fedora's with 1.
            None => Some(format!("{package} < {version}-1")),
            Some(offer) if compare(&offer.evr, version) != Ordering::Less => None,
            // The release's own package is older, and must stay installable.
            Some(_) => Some(format!("{package} = {version}")),
        }
    };
    Ok(newest.iter().filter(|(name, _)| !is_rpm(name)).filter_map(obsolete).collect())
}

/// Returns the members whose RPMs an upgrade from an earlier release would keep, because they have
/// higher versions there.
pub fn held_back(workspace: &Workspace) -> Result<Vec<Problem>, Error> {
    let (Some(component), Some(generated)) = (workspace.with_closure(), &workspace.pins.generated)
    else {
        return Ok(Vec::new());
    };
    let mut problems = Vec::new();
    for chroot in workspace.earlier_chroots() {
        let earlier = members(workspace, component, chroot)?;
        for name in &generated.names {
            let at = &workspace.pins.pins[name];
            let now = version_of_spec(&at.value.version);
            let Some(then) =
                earlier.get(name.as_str()).filter(|then| compare(then, &now) == Ordering::Greater)
            else {
                continue;
            };
            let (here, there, set) = (&workspace.chroot.name, &chroot.name, &workspace.pins.name);
            let message = format!("`{name}` {now} for {here} is lower than {then} for {there}");
            let problem = generated.file.problem(
                at.span.clone(),
                message,
                "an upgrade would keep the earlier package",
            );
            let help = format!(
                "run `rocmrpm closure --pins {set} --chroot {here} --upgrade --write` to resolve it again"
            );
            problems.push(Problem { help: Some(help), ..problem });
        }
    }
    Ok(problems)
}
