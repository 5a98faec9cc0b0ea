//! From a pin to a verified file: fetched, or packed by us, and kept in a store that is
//! addressed by content. What a pin says is `workspace`'s business, what is built from
//! the file is `build`'s.

mod api;
mod commit;
mod crates;
mod fetcher;
#[cfg(any(test, fuzzing, feature = "testing"))]
#[doc(hidden)]
pub mod fuzzing;
mod git;
mod join;
mod linked;
mod lock;
mod metadata;
mod name;
mod pack;
mod partial;
mod releases;
mod sdist_info;
mod submodules;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod testserver;
mod tree;
mod unpack;

use std::path::{Path, PathBuf};

pub use crate::names::normalized;
pub use fetcher::Fetcher;
pub use linked::{CargoProject, LinkedCrate};
pub use lock::{LockError, Locked};
pub use metadata::Distribution;
pub use name::{file_name, source_dir};
pub use pack::is_packed;
pub use releases::{Release, Releases, newer};
pub use rocmrpm_fetch::{
    Cache, ProjectFile, Sdist, SourceError, as_url, files_of_page, password, path_of_url, pip_index,
    project_files, shown_url, version_of_sdist,
};
use rocmrpm_fetch::{archive, cache, download, index, limits, pip, simple, url};
pub(crate) use rocmrpm_fetch::{curl, download_plain, is_unprotected, last_url_segment};
pub(crate) use sdist_info::with_requires;
pub use tree::{Tree, read_inside};

use crate::digest::Sha256;
use crate::names::is_commit;
use crate::workspace::pin::{Pin, Source};

/// A verified file in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Where it lies in the cache.
    pub path: PathBuf,
    /// What it is called beside the spec; see [`file_name`].
    pub file_name: String,
    /// Its digest.
    pub sha256: Sha256,
    /// Its size in bytes.
    pub size: u64,
    /// The folder that the archive's first member lies in, where the archive is a tar
    /// file, plain or in gzip, and has one. It should be the pin's [`source_dir`].
    pub top_folder: Option<String>,
}

/// What makes a pin immutable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// For URLs and sdists.
    File {
        /// Where it was, without credentials; `None` if an sdist was in the cache
        /// already, so that the index was not asked.
        url: Option<String>,
        /// Its digest.
        sha256: Sha256,
        /// Its size in bytes.
        size: u64,
    },
    /// For git repositories.
    Commit {
        /// The full commit.
        commit: String,
        /// The tag that led to it; `None` if the pin had the commit already.
        tag: Option<String>,
    },
    /// A folder of the workspace needs no pinning: the workspace's own history does.
    Folder,
}

impl Resolved {
    /// Writes the digest or commit into the pin that it was found for.
    pub fn settle(self, pin: &mut Pin) {
        match (&mut pin.source, self) {
            (
                Source::Url { sha256, .. } | Source::Sdist { sha256, .. } | Source::Wheel { sha256, .. },
                Self::File { sha256: found, .. },
            ) => {
                *sha256 = Some(found);
            }
            (Source::Git { commit, .. }, Self::Commit { commit: found, .. }) => *commit = Some(found),
            _ => {}
        }
    }
}

/// Returns what identifies a source's content, without any network, for build keys:
/// the pinned digest, the commit, or a digest over the folder's content.
pub fn identity(pin: &Pin, workspace_root: &Path) -> Result<String, SourceError> {
    match &pin.source {
        Source::Url { sha256, .. } | Source::Sdist { sha256, .. } | Source::Wheel { sha256, .. } => {
            sha256.map(|digest| format!("sha256:{digest}")).ok_or_else(|| not_pinned(pin, "sha256"))
        }
        Source::Git { commit, submodules, paths, .. } => {
            let with = if *submodules { " with submodules" } else { "" };
            let only = if paths.is_empty() { String::new() } else { format!(" of {}", paths.join(" ")) };
            Ok(format!("commit:{}{with}{only}", pinned_commit(pin, commit)?))
        }
        Source::Folder { path } => {
            let folder = folder_in(workspace_root, path)?;
            let digest = pack::digest(&folder, pin.component.as_str())?;
            Ok(format!("folder:{digest}"))
        }
        // The lock file, which is part of that source, has every crate's digest.
        Source::Crates { lock_file, of } => {
            Ok(format!("crates of {lock_file} in {}", identity(of, workspace_root)?))
        }
    }
}

/// Returns the [`identity`] of every source of a pin, with what an input of the build
/// key is called: `source`, `source NAME`.
pub fn identities(pin: &Pin, workspace_root: &Path) -> Result<Vec<(String, String)>, SourceError> {
    let named = |name: &str| if name.is_empty() { "source".to_owned() } else { format!("source {name}") };
    pin.all_sources().map(|(name, pin)| Ok((named(name), identity(pin, workspace_root)?))).collect()
}

/// Returns a source folder of the workspace. One that is a link to a place outside is
/// refused: nobody would see its changes in the workspace's history.
fn folder_in(workspace_root: &Path, path: &Path) -> Result<PathBuf, SourceError> {
    let folder = workspace_root.join(path);
    // A folder that is not there is told by whoever reads it.
    let (Ok(real), Ok(root)) = (folder.canonicalize(), workspace_root.canonicalize()) else {
        return Ok(folder);
    };
    if real.starts_with(&root) {
        return Ok(folder);
    }
    let problem = format!("it is a link to `{}`, outside the workspace", real.display());
    Err(SourceError::Unpackable { path: folder, problem })
}

fn not_pinned(pin: &Pin, missing: &'static str) -> SourceError {
    SourceError::NotPinned { component: pin.component.to_string(), version: pin.version.clone(), missing }
}

fn pinned_commit<'p>(pin: &Pin, commit: &'p Option<String>) -> Result<&'p str, SourceError> {
    let commit = commit.as_deref().ok_or_else(|| not_pinned(pin, "commit"))?;
    if is_commit(commit) {
        return Ok(commit);
    }
    Err(SourceError::BadCommit { component: pin.component.to_string(), commit: commit.to_owned() })
}
