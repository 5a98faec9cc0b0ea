//! Proves that the packages of a stack can be installed: every requirement in the RPM headers is
//! satisfied by a package of the stack, or of the chroot's release or ROCm provider. Components
//! that are not built are packed from locked wheels or represented by their specs. It does not
//! install anything.

mod built;
mod check;
mod pack;
mod preamble;
mod target;
mod unpack;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use built::provided;
pub use check::{Conflict, Findings, Unmet, check};
pub use pack::{Basis, Packed};
pub use target::Target;

use crate::closure::Graph;
use crate::error::{Diagnose, Diagnosis, Error, Kind};
use crate::events::Events;
use crate::machine;
use crate::names::ComponentName;
use crate::parallel;
use crate::rpms::Relations;
use crate::sources::Fetcher;
use crate::stack::Stack;
use crate::workspace::Workspace;

/// The result of a proof and its inputs.
#[derive(Debug, Clone)]
pub struct Proof {
    /// The components and their RPMs, in build order.
    pub components: Vec<Packed>,
    /// Number of packages.
    pub packages: usize,
    /// The result of the check.
    pub findings: Findings,
}

impl Proof {
    /// Groups the components by the basis of their RPMs.
    pub fn by_basis(&self) -> BTreeMap<Basis, Vec<&ComponentName>> {
        let mut by_basis: BTreeMap<Basis, Vec<&ComponentName>> = BTreeMap::new();
        for packed in &self.components {
            by_basis.entry(packed.basis).or_default().push(&packed.component);
        }
        by_basis
    }
}

/// Packages cannot be installed together.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.message())]
pub struct NotInstallable {
    /// What contains the packages, such as `the stack`.
    pub of: String,
    /// The name of the chroot.
    pub chroot: String,
    /// The unmet requirements.
    pub unmet: Vec<Unmet>,
    /// The file conflicts.
    pub conflicts: Vec<Conflict>,
}

/// Where rpmbuild links ELF files by build ID (rpm, build/files.c, `generateBuildIDs`).
const BUILD_IDS: &str = "/usr/lib/.build-id/";

impl NotInstallable {
    /// Returns an error for unmet requirements or conflicts.
    pub fn of(findings: &Findings, of: &str, chroot: &str) -> Result<(), Self> {
        let Findings { unmet, conflicts, .. } = findings;
        match unmet.is_empty() && conflicts.is_empty() {
            true => Ok(()),
            false => Err(Self {
                of: of.to_owned(),
                chroot: chroot.to_owned(),
                unmet: unmet.clone(),
                conflicts: conflicts.clone(),
            }),
        }
    }

    fn message(&self) -> String {
        let Self { of, chroot, unmet, conflicts } = self;
        match (unmet.len(), conflicts.len()) {
            (0, 1) => format!("two packages of {of} conflict"),
            (0, n) => format!("{n} pairs of packages of {of} conflict"),
            (1, _) => format!("1 requirement of {of} is not provided on `{chroot}`"),
            (n, _) => format!("{n} requirements of {of} are not provided on `{chroot}`"),
        }
    }
}

impl Diagnose for NotInstallable {
    fn diagnosis(&self) -> Diagnosis {
        let of_build_id =
            |conflict: &Conflict| conflict.files.iter().all(|file| file.starts_with(BUILD_IDS));
        let help = if self.unmet.is_empty() && self.conflicts.iter().all(of_build_id) {
            "the packages have the same ELF file: add `%global _build_id_links none` to one of the specs"
                .into()
        } else if self.unmet.is_empty() {
            "remove the file in the spec of one of them, or make a member of a closure `private` in component.toml"
                .into()
        } else if self.unmet.iter().any(|unmet| unmet.requirement.contains(".so")) {
            format!(
                "if {0} has the library, add it to `[libraries]` in mock-configs/{0}.toml; if the package itself \
                 contains it, filter the requirement in the spec with `%global __requires_exclude`",
                self.chroot
            )
        } else {
            "run `rocmrpm closure --write`, or package the missing dependency as a component"
                .to_owned()
        };
        let unmet = self.unmet.iter().map(ToString::to_string);
        let details = unmet.chain(self.conflicts.iter().map(ToString::to_string));
        Kind::Findings.with_help(help).with_details(details)
    }
}

/// Checks all packages of a stack. `graph` contains the requirements of distributions that are not
/// built and have no wheel. Packs missing packages first, which takes a minute at most.
pub fn prove<'a>(
    stack: &'a Stack<'a>,
    graph: Option<&'a Graph>,
    fetcher: &'a Fetcher<'a>,
    events: &'a dyn Events,
) -> Result<Proof, Error> {
    let packer = pack::Packer::new(stack, graph, fetcher, events)?;
    // Packing from wheels takes longest, so start it first.
    let mut order: Vec<_> = stack.order().to_vec();
    order.sort_by_key(|component| std::cmp::Reverse(stack.workspace.pin(component).sources.len()));
    let components =
        parallel::try_map(&order, machine::cores(), |component| packer.component(component))?;
    let rpms: Vec<PathBuf> = components.iter().flat_map(|packed| packed.rpms.clone()).collect();
    let findings = closed(stack.workspace, &rpms)?;
    Ok(Proof { packages: rpms.len(), components, findings })
}

/// Checks that RPMs only require each other and packages of the chroot.
pub fn closed(workspace: &Workspace, rpms: &[PathBuf]) -> Result<Findings, Error> {
    let relations = read(rpms)?;
    let all: Vec<&Relations> = relations.iter().collect();
    Ok(check(&relations, &all, &Target::of(workspace)?)?)
}

fn read(rpms: &[PathBuf]) -> Result<Vec<Relations>, Error> {
    parallel::try_map(rpms, machine::cores(), |rpm| Ok(Relations::read(rpm)?))
}
