//! The Python closure of a component: every distribution that it requires at run time, where each
//! comes from in a chroot, and why. Generating packages is up to `generate`.

mod assemble;
pub mod audit;
pub(crate) mod bundled;
pub mod changes;
mod collision;
pub mod compute;
mod cutoff;
pub mod diff;
pub mod earlier;
mod error;
mod explain;
#[cfg(any(test, fuzzing, feature = "testing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod generate;
pub mod imports;
pub mod later;
pub mod lock;
pub(crate) mod metadata;
mod never;
pub mod offers;
mod own;
pub(crate) mod package_name;
pub mod place;
pub(crate) mod pylock;
mod question;
pub mod resolve;
mod roots;
mod sbom;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
mod upgrade;
mod upgrade_error;
pub mod version;
pub mod why;

use std::collections::BTreeMap;
use std::fmt;

use pep440_rs::Version;

use crate::digest::Sha256;
use crate::names::ComponentName;
use crate::workspace::MemberPlace;
pub use collision::{Collision, ConflictReason, ConflictSubject};
pub(crate) use cutoff::Cutoff;
pub use error::ClosureError;
pub(crate) use never::never_reason;
pub(crate) use own::{OwnDistribution, makes_python, name_of, stand_in};
pub use upgrade::Upgrade;
pub use upgrade_error::UpgradeError;

/// A file of a distribution on an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockedFile {
    /// The file's name; the index knows its URL.
    pub name: String,
    /// Its digest.
    pub sha256: Sha256,
    /// Its size in bytes, if the index states it.
    pub size: Option<u64>,
    /// The digest of its METADATA, if it is a wheel whose METADATA the closure was made from.
    pub metadata: Option<Sha256>,
}

/// Where a locked distribution comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockedOrigin {
    /// A component of the stack makes it; nothing is downloaded from an index.
    Stack(ComponentName),
    /// The index has it; at least one of the two fields is set.
    Index {
        /// The wheel that an installer in the chroot picks.
        wheel: Option<LockedFile>,
        /// The source distribution.
        sdist: Option<LockedFile>,
    },
}

/// A distribution held at one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locked {
    /// Its normalized name.
    pub name: String,
    /// Its version.
    pub version: Version,
    /// Where it comes from.
    pub origin: LockedOrigin,
}

/// A requirement that holds in the chroot, from one distribution to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The normalized name of the requiring distribution; the component's own distribution for the
    /// roots.
    pub from: String,
    /// The normalized name of the required distribution.
    pub to: String,
    /// The requirement as written, without its marker: `pydantic[email]>=2.12`.
    pub text: String,
    /// The versions that satisfy it.
    pub specifiers: pep440_rs::VersionSpecifiers,
    /// Whether it holds only because of an extra of the requiring distribution. The release's
    /// packages do not require what their extras do.
    pub extra: bool,
}

/// What a distribution's METADATA states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// `Summary`, one line.
    pub summary: String,
    /// `License-Expression`, or what `License` and the classifiers stand for as an SPDX expression;
    /// `None` if they stand for nothing.
    pub license: Option<String>,
    /// `Home-page`, or the `Project-URL` that is most similar.
    pub home: Option<String>,
}

/// The distributions of a closure and the requirements between them.
#[derive(Debug, Clone)]
pub struct Graph {
    /// The component.
    pub component: ComponentName,
    /// The normalized name of the component's own distribution.
    pub root: String,
    /// The distributions by name, except for the component's own.
    pub nodes: BTreeMap<String, Node>,
    /// All requirements that hold, sorted, including those on dropped members. Those of the
    /// component itself have `root` as `from`.
    pub edges: Vec<Edge>,
    /// The last day, in UTC, from which files on the index were used; `None` for no limit.
    pub not_after: Option<jiff::civil::Date>,
}

impl Graph {
    /// Returns the requirements by the requiring distribution.
    pub fn by_requirer(&self) -> BTreeMap<&str, Vec<&Edge>> {
        let mut edges: BTreeMap<&str, Vec<&Edge>> = BTreeMap::new();
        for edge in &self.edges {
            edges.entry(&edge.from).or_default().push(edge);
        }
        edges
    }

    /// Returns the requirements by the required distribution, those of the component first.
    pub fn by_required(&self) -> BTreeMap<&str, Vec<&Edge>> {
        let mut edges: BTreeMap<&str, Vec<&Edge>> = BTreeMap::new();
        for edge in &self.edges {
            edges.entry(&edge.to).or_default().push(edge);
        }
        edges.values_mut().for_each(|edges| edges.sort_by_key(|edge| edge.from != self.root));
        edges
    }
}

/// A distribution of a closure.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its version and files.
    pub locked: Locked,
    /// What its METADATA states.
    pub about: About,
}

/// What the chroot's release has for a distribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The package.
    pub package: String,
    /// The package's version with epoch; empty if it is not known.
    pub evr: String,
    /// The version in the syntax of PEP 440, from `python3.14dist(NAME) = VERSION` or from `evr`;
    /// `None` if it is not known.
    pub version: Option<Version>,
    /// What the package actually requires.
    pub requires: Requires,
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.evr.as_str() {
            "" => f.write_str(&self.package),
            evr => write!(f, "{} {evr}", self.package),
        }
    }
}

/// What a package of the release requires of other distributions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requires {
    /// What the METADATA of its version states, except for these distributions; `None` for one that
    /// it does not require at all.
    Except(BTreeMap<String, Option<pep440_rs::VersionSpecifiers>>),
    /// Queried from the repositories, in which nothing satisfies these requirements.
    Unmet(Vec<String>),
}

impl Default for Requires {
    fn default() -> Self {
        Self::Except(BTreeMap::new())
    }
}

/// A member of a closure, with its place.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its normalized name.
    pub name: String,
    /// Its version and files; `None` if it is dropped.
    pub node: Option<Node>,
    /// What the release has for it.
    pub offer: Option<Offer>,
    /// Its place.
    pub place: MemberPlace,
    /// The reason for its place, as a sentence.
    pub reason: String,
    /// Whether a packager decided the place in component.toml.
    pub decided: bool,
    /// What stops working without it, if it is dropped.
    pub without: Option<String>,
}

/// A closure with the place of each member.
#[derive(Debug, Clone)]
pub struct Closure {
    /// The distributions and requirements.
    pub graph: Graph,
    /// The chroot's name.
    pub chroot: String,
    /// The pin set's name.
    pub pins: String,
    /// The members by name.
    pub members: BTreeMap<String, Member>,
}
