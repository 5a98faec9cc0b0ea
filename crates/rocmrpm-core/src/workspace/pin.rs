//! A pin: the exact version of one component and where its sources come from.
//! Plain values; reading them from a pin set is `pins`' business.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::digest::Sha256;
use crate::names::ComponentName;

use crate::range::VersionRange;

/// The version and source of one component in one pin set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Which component.
    pub component: ComponentName,
    /// The upstream version, as upstream writes it.
    pub version: String,
    /// Where the source comes from.
    pub source: Source,
    /// Whether the command line changed this pin (`--pin`), which marks every
    /// output as dirty.
    pub overridden: bool,
    /// The folder that the source unpacks to, where it does not follow from the
    /// file's name.
    pub top_folder: Option<String>,
    /// The versions of Python that upstream allows.
    pub python: VersionRange,
    /// Further sources by name, each as the pin of a component of its own, named
    /// `<component>-<source>`.
    pub sources: BTreeMap<String, Self>,
    /// What the lock file says about this source.
    pub evidence: Evidence,
}

/// What a source was found to be when it was locked. What could not be looked at then
/// is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockEntry {
    /// The version it was locked for.
    pub version: String,
    /// The URL, git URL, or project, as the pin has it with the version filled in; for
    /// crates the path of the `Cargo.lock`.
    pub origin: String,
    /// The folders of the commit that are packed, for git.
    pub paths: Vec<String>,
    /// The digest of the file, for a URL or sdist; of the `Cargo.lock`, for crates.
    pub sha256: Option<Sha256>,
    /// The file's size in bytes.
    pub size: Option<u64>,
    /// The commit, for git.
    pub commit: Option<String>,
    /// The commit's tree.
    pub tree: Option<String>,
    /// The commit of each submodule that is packed, by its path.
    pub submodules: Option<BTreeMap<String, String>>,
    /// The digest of the archive that the crates are packed into.
    pub archive: Option<Sha256>,
    /// How many crates the `Cargo.lock` names.
    pub crates: Option<u64>,
    /// The commit of each git repository that the `Cargo.lock` names.
    pub git: BTreeMap<String, String>,
}

/// What a source was when it was locked, which is verified when it is obtained. It
/// does not change what the pin means: pins that differ in nothing else are equal.
#[derive(Debug, Clone, Default)]
pub struct Evidence(pub Option<Box<LockEntry>>);

impl PartialEq for Evidence {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Evidence {}

impl Pin {
    /// Returns a pin with nothing but a version and a source.
    pub fn new(component: ComponentName, version: impl Into<String>, source: Source) -> Self {
        Self {
            component,
            version: version.into(),
            source,
            overridden: false,
            top_folder: None,
            python: VersionRange::default(),
            sources: BTreeMap::new(),
            evidence: Evidence::default(),
        }
    }

    /// Returns all sources, each with its name: the main one, whose name is empty,
    /// then the further ones in the order of their names, which is the order of the
    /// spec's `Source0`, `Source1`, ...
    pub fn all_sources(&self) -> impl Iterator<Item = (&str, &Self)> {
        let further = self.sources.iter().map(|(name, pin)| (name.as_str(), pin));
        std::iter::once(("", self)).chain(further)
    }
}

impl Source {
    /// Returns whether it always is the same: what it means cannot change upstream.
    pub fn is_immutable(&self) -> bool {
        match self {
            Self::Url { sha256, .. } | Self::Sdist { sha256, .. } | Self::Wheel { sha256, .. } => {
                sha256.is_some()
            }
            Self::Git { commit, .. } => commit.is_some(),
            Self::Folder { .. } | Self::Crates { .. } => true,
        }
    }
}

/// Where a source comes from. `None` for a digest or a commit means that the pin
/// is not immutable yet: it can be locked, but not built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file at a URL, `{version}` already filled in.
    Url {
        /// `https://`, `http://` or `file://`.
        url: String,
        /// The file's digest.
        sha256: Option<Sha256>,
    },
    /// A commit of a git repository, packed by us.
    Git {
        /// Anything that `git clone` takes.
        url: String,
        /// The full commit, 40 or 64 hexadecimal digits.
        commit: Option<String>,
        /// Whether its submodules are packed with it, and theirs.
        submodules: bool,
        /// The folders of the commit that are packed; all where it is empty.
        paths: Vec<String>,
    },
    /// A source distribution on the pip index that this machine is configured with.
    Sdist {
        /// The project's name on the index.
        project: String,
        /// The file's digest.
        sha256: Option<Sha256>,
    },
    /// A wheel on that index.
    Wheel {
        /// Its file name, the version already filled in.
        file: String,
        /// The file's digest.
        sha256: Option<Sha256>,
    },
    /// A folder of the workspace, packed by us.
    Folder {
        /// Relative to the workspace's root.
        path: PathBuf,
    },
    /// The crates that a lock file of another source names, vendored and packed by us.
    Crates {
        /// The `Cargo.lock`, below that source's top folder.
        lock_file: String,
        /// The source that the lock file is in.
        of: Box<Pin>,
    },
}
