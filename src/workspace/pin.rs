//! A pin: the exact version of one component and where its source comes from.
//! Plain values; reading them from a pin set is `pins`' business.

use std::path::PathBuf;

use crate::digest::Sha256;
use crate::names::ComponentName;

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
    },
    /// A source distribution on the pip index that this machine is configured with.
    Sdist {
        /// The project's name on the index.
        project: String,
        /// The file's digest.
        sha256: Option<Sha256>,
    },
    /// A folder of the workspace, packed by us.
    Folder {
        /// Relative to the workspace's root.
        path: PathBuf,
    },
}
