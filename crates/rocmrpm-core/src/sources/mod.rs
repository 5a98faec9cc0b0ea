//! Turns a pin into a verified file: downloaded or packed, and stored in a content-addressed cache.
//! It does not parse pins (`workspace` does) or build from the file (`build` does).

mod api;
mod branch;
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
mod moving;
mod name;
mod pack;
mod partial;
mod releases;
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
pub use moving::Moving;
pub use name::{file_name, source_dir};
pub use pack::is_packed;
pub use releases::{Release, Releases, newer};
pub use rocmrpm_fetch::{
    Cache, CacheEntry, ProjectFile, Sdist, SourceError, as_url, files_of_page, password,
    path_of_url, pip_index, project_files, shown_url, version_of_sdist,
};
use rocmrpm_fetch::{archive, cache, download, index, limits, pip, simple, url};
pub(crate) use rocmrpm_fetch::{
    curl, download_plain, is_unprotected, last_url_segment, links_of_page,
};
pub use tree::{Tree, read_inside};
pub(crate) use unpack::unpack;

use crate::digest::Sha256;
use crate::names::is_commit;
use crate::workspace::pin::{Pin, Source};

/// A verified file in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The path in the cache.
    pub path: PathBuf,
    /// The file name next to the spec; see [`file_name`].
    pub file_name: String,
    /// The digest of the file.
    pub sha256: Sha256,
    /// The size in bytes.
    pub size: u64,
    /// The folder of the archive's first member, for plain and gzip-compressed tar files. It should
    /// match the pin's [`source_dir`].
    pub top_folder: Option<String>,
}

/// The immutable reference of a pin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// The result for URLs and sdists.
    File {
        /// The URL without credentials; `None` if the sdist was cached, so that the index was not
        /// queried.
        url: Option<String>,
        /// The digest of the file.
        sha256: Sha256,
        /// The size in bytes.
        size: u64,
    },
    /// The result for git repositories.
    Commit {
        /// The full commit ID.
        commit: String,
        /// The tag of the commit; `None` if the pin specifies the commit.
        tag: Option<String>,
    },
    /// A workspace folder needs no pin because the workspace's history tracks it.
    Folder,
}

impl Resolved {
    /// Writes the digest or commit into the pin.
    pub fn settle(self, pin: &mut Pin) {
        match (&mut pin.source, self) {
            (
                Source::Url { sha256, .. }
                | Source::Sdist { sha256, .. }
                | Source::Wheel { sha256, .. },
                Self::File { sha256: found, .. },
            ) => {
                *sha256 = Some(found);
            }
            (Source::Git { commit, .. }, Self::Commit { commit: found, .. }) => {
                *commit = Some(found)
            }
            _ => {}
        }
    }
}

/// Returns the identity of a source's content for build keys, without network access: the pinned
/// digest, the commit, or a digest of the folder's content.
pub fn identity(pin: &Pin, workspace_root: &Path) -> Result<String, SourceError> {
    match &pin.source {
        Source::Url { sha256, .. }
        | Source::Sdist { sha256, .. }
        | Source::Wheel { sha256, .. } => {
            sha256.map(|digest| format!("sha256:{digest}")).ok_or_else(|| not_pinned(pin, "sha256"))
        }
        Source::Git { commit, submodules, paths, .. } => {
            let with = if *submodules { " with submodules" } else { "" };
            let only =
                if paths.is_empty() { String::new() } else { format!(" of {}", paths.join(" ")) };
            Ok(format!("commit:{}{with}{only}", pinned_commit(pin, commit)?))
        }
        Source::Folder { path, paths } => {
            let folder = folder_in(workspace_root, path, paths)?;
            let digest =
                pack::digest(&folder, pin.component.as_str(), pack::Which::Sources(paths))?;
            Ok(format!("folder:{digest}"))
        }
        // The lock file, which is part of that source, contains every crate's digest.
        Source::Crates { lock_file, of } => {
            Ok(format!("crates of {lock_file} in {}", identity(of, workspace_root)?))
        }
    }
}

/// Returns the [`identity`] of every source of a pin with its name in the build key: `source`,
/// `source NAME`.
pub fn identities(pin: &Pin, workspace_root: &Path) -> Result<Vec<(String, String)>, SourceError> {
    let named =
        |name: &str| if name.is_empty() { "source".to_owned() } else { format!("source {name}") };
    pin.all_sources().map(|(name, pin)| Ok((named(name), identity(pin, workspace_root)?))).collect()
}

/// Returns a source folder of the workspace, of which only `paths` are packed. Rejects a link to a
/// location outside because its changes would not appear in the workspace's history.
fn folder_in(workspace_root: &Path, path: &Path, paths: &[String]) -> Result<PathBuf, SourceError> {
    let folder = workspace_root.join(path);
    for part in std::iter::once(folder.clone()).chain(paths.iter().map(|part| folder.join(part))) {
        // The code that reads a missing folder reports it.
        let (Ok(real), Ok(root)) = (part.canonicalize(), workspace_root.canonicalize()) else {
            continue;
        };
        if !real.starts_with(&root) {
            let problem = format!("it is a link to `{}`, outside the workspace", real.display());
            return Err(SourceError::Unpackable { path: part, problem });
        }
    }
    Ok(folder)
}

fn not_pinned(pin: &Pin, missing: &'static str) -> SourceError {
    SourceError::NotPinned {
        component: pin.component.to_string(),
        version: pin.version.clone(),
        missing,
    }
}

fn pinned_commit<'p>(pin: &Pin, commit: &'p Option<String>) -> Result<&'p str, SourceError> {
    let commit = commit.as_deref().ok_or_else(|| not_pinned(pin, "commit"))?;
    if is_commit(commit) {
        return Ok(commit);
    }
    Err(SourceError::BadCommit { component: pin.component.to_string(), commit: commit.to_owned() })
}
