//! A pin: the exact version of one component and its sources. `pins` reads them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::digest::Sha256;
use crate::gpu::GpuTarget;
use crate::names::ComponentName;

use crate::range::VersionRange;

/// The version and source of one component in one pin set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The component.
    pub component: ComponentName,
    /// The upstream version, as upstream writes it.
    pub version: String,
    /// Where the source comes from.
    pub source: Source,
    /// The branch that the pin follows, if its version and commit are those in the lock file.
    pub follows: Option<Follows>,
    /// Whether `--pin` on the command line changed this pin, which marks every output as dirty.
    pub overridden: bool,
    /// The top folder of the archive, if it does not follow from the file name.
    pub top_folder: Option<String>,
    /// The versions of Python that upstream allows.
    pub python: VersionRange,
    /// The GPU targets that need a further source. Empty: all.
    pub gpu_targets: Vec<GpuTarget>,
    /// Further sources by name, each as a pin of its own component, `<component>-<source>`.
    pub sources: BTreeMap<String, Self>,
    /// The source's entry in the lock file.
    pub evidence: Evidence,
}

/// The version of a pin that follows a branch and was not locked yet.
pub const UNLOCKED: &str = "0";

/// A branch of a git repository that a pin follows. `rocmrpm lock` records its commit and a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Follows {
    /// The branch.
    pub branch: String,
    /// The file with upstream's version. [default: version.txt if it exists, else the newest tag]
    pub version_from: Option<String>,
}

/// The properties of a source when it was locked; `None` for those that could not be determined.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockEntry {
    /// The version that it was locked for.
    pub version: String,
    /// The URL, git URL, or project, as in the pin with the version filled in; the path of the
    /// `Cargo.lock` for crates.
    pub origin: String,
    /// The packed folders of the commit, for git.
    pub paths: Vec<String>,
    /// The digest of the file, for a URL or sdist; that of the `Cargo.lock`, for crates.
    pub sha256: Option<Sha256>,
    /// The file's size in bytes.
    pub size: Option<u64>,
    /// The branch that the pin followed, for git.
    pub branch: Option<String>,
    /// The commit, for git.
    pub commit: Option<String>,
    /// The commit's tree.
    pub tree: Option<String>,
    /// The commit of each packed submodule, by its path.
    pub submodules: Option<BTreeMap<String, String>>,
    /// The digest of the archive of crates.
    pub archive: Option<Sha256>,
    /// How many crates the `Cargo.lock` names.
    pub crates: Option<u64>,
    /// The commit of each git repository that the `Cargo.lock` names.
    pub git: BTreeMap<String, String>,
}

/// The lock entry that a source is verified against. It does not change the meaning of a pin: pins
/// that differ only in it are equal.
#[derive(Debug, Clone, Default)]
pub struct Evidence(pub Option<Box<LockEntry>>);

impl PartialEq for Evidence {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Evidence {}

/// Returns the folder of a [`Source::Folder`] as pins write it.
pub fn shown_folder(path: &Path) -> Cow<'_, str> {
    if path.as_os_str().is_empty() { ".".into() } else { path.to_string_lossy() }
}

impl Pin {
    /// Returns a pin with only a version and a source.
    pub fn new(component: ComponentName, version: impl Into<String>, source: Source) -> Self {
        Self {
            component,
            version: version.into(),
            source,
            follows: None,
            overridden: false,
            top_folder: None,
            python: VersionRange::default(),
            gpu_targets: Vec::new(),
            sources: BTreeMap::new(),
            evidence: Evidence::default(),
        }
    }

    /// Returns all sources with their names: first the main one with an empty name, then the
    /// further ones sorted by name. The spec's `Source0`, `Source1`, ... have the same
    /// order.
    pub fn all_sources(&self) -> impl Iterator<Item = (&str, &Self)> {
        let further = self.sources.iter().map(|(name, pin)| (name.as_str(), pin));
        std::iter::once(("", self)).chain(further)
    }
}

impl Source {
    /// Returns whether its content cannot change upstream.
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

/// Where a source comes from. A pin without a digest or a commit is not immutable yet: it can be
/// locked, but not built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file at a URL, with `{version}` already replaced.
    Url {
        /// `https://`, `http://` or `file://`.
        url: String,
        /// The file's digest.
        sha256: Option<Sha256>,
    },
    /// A commit of a git repository, which rocmrpm packs.
    Git {
        /// Any URL that `git clone` accepts.
        url: String,
        /// The full commit, 40 or 64 hexadecimal digits.
        commit: Option<String>,
        /// Whether submodules are packed too, recursively.
        submodules: bool,
        /// The packed folders of the commit; all if empty.
        paths: Vec<String>,
    },
    /// A source distribution on the pip index of this machine.
    Sdist {
        /// The project's name on the index.
        project: String,
        /// The file's digest.
        sha256: Option<Sha256>,
    },
    /// A wheel on that index.
    Wheel {
        /// The file name, with the version already filled in.
        file: String,
        /// The file's digest.
        sha256: Option<Sha256>,
    },
    /// A folder of the workspace, which rocmrpm packs.
    Folder {
        /// Relative to the workspace's root; empty for the root itself.
        path: PathBuf,
        /// The files and folders to pack, relative to `path` [default: all].
        paths: Vec<String>,
    },
    /// The crates of a lock file in another source, vendored and packed by rocmrpm.
    Crates {
        /// The `Cargo.lock`, below that source's top folder.
        lock_file: String,
        /// The source with the lock file.
        of: Box<Pin>,
    },
}
