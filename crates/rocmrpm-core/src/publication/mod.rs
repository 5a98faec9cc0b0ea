//! Plans and applies changes to a published dnf repository. Published packages and metadata never
//! change; `repomd.xml` is replaced last, so readers see the previous state until then. It does not
//! build packages.

mod error;
mod retention;
mod rollback;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use fs_err as fs;

pub use error::PublicationError;
pub use rollback::{Earlier, plan_rollback};
pub use state::{Published, RepositoryState};

use crate::digest::Sha256;
use crate::error::IoError;
use crate::index::place::{IndexStorage, Package, Page, Stored};
use crate::index::seen::SerialRecord;
use crate::rpms::RpmError;
use crate::rpms::repomd::{MetadataFile, REPOMD, Repomd};
use crate::rpms::repository::{EPOCH_1980, make_metadata};
use crate::rpms::signing::Signer;

const SIGNATURE: &str = "repodata/repomd.xml.asc";

/// Maximum size of decompressed metadata, in bytes.
const MAX_METADATA: u64 = 1 << 30;

/// The repository to publish and its options.
pub struct Wanted<'a> {
    /// The folder of the local repository.
    pub repository: &'a Path,
    /// The signer of the repository.
    pub signer: Option<&'a Signer>,
    /// The name of the package that enables the repository, also available under this fixed name.
    pub release: &'a str,
    /// Number of builds to keep per package.
    pub keep: usize,
    /// The highest serial number known to this machine.
    pub seen: &'a SerialRecord,
    /// Whether to accept builds of uncommitted changes.
    pub dirty: bool,
}

/// A planned change.
pub struct Change {
    /// The new serial number.
    pub serial: u64,
    /// New packages.
    pub added: Vec<Published>,
    /// Packages that were already published and remain.
    pub kept: Vec<Published>,
    /// Packages that the new metadata omits; the next publication deletes their files.
    pub leaving: Vec<Published>,
    /// The files to upload: packages and metadata first, then pages in this order.
    packages: Vec<Package>,
    pages: Vec<Page>,
    /// The files to delete after the upload.
    removed: Vec<String>,
    /// Keeps the folder of the metadata alive.
    _work: tempfile::TempDir,
}

impl Change {
    /// Returns whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Returns the files other than packages that are written, in this order.
    pub fn written(&self) -> impl Iterator<Item = &str> {
        let metadata = self.packages.iter().map(|package| package.path.as_str());
        let metadata = metadata.filter(|path| !path.ends_with(".rpm"));
        metadata.chain(self.pages.iter().map(|page| page.path.as_str()))
    }

    /// Returns the files to delete at the end.
    pub fn removed(&self) -> &[String] {
        &self.removed
    }

    /// Applies the change. If interrupted, readers always see a consistent state, and running the
    /// command again resumes.
    pub fn apply(&self, place: &dyn IndexStorage) -> Result<(), PublicationError> {
        place.put_packages(&self.packages)?;
        place.put_pages(&self.pages)?;
        if !self.removed.is_empty() {
            place.remove(&self.removed)?;
        }
        Ok(())
    }
}

/// Plans the changes to a destination.
pub fn plan(place: &dyn IndexStorage, wanted: &Wanted<'_>) -> Result<Change, PublicationError> {
    let here = local(wanted)?;
    let (old, live) = there(place)?;
    wanted.seen.check(old.serial)?;
    check_key(place, &old, wanted.signer)?;
    let added = new_packages(&place.name(), &old, &here)?;
    let all: Vec<Published> = old.packages.iter().chain(&added).cloned().collect();
    let current: BTreeSet<String> = here.iter().map(|package| package.file.clone()).collect();
    let packages = retention::kept(&all, &current, wanted.keep);
    change_to(place, (&old, live.as_deref()), packages, (&added, &here), wanted)
}

/// Plans the change of a repository from its `old` state, whose `repomd.xml` readers see as `live`, to
/// these packages. Uploads those of `added`; `here` are the packages of the local repository.
fn change_to(
    place: &dyn IndexStorage,
    (old, live): (&RepositoryState, Option<&[u8]>),
    packages: Vec<Published>,
    (added, here): (&[Published], &[Published]),
    wanted: &Wanted<'_>,
) -> Result<Change, PublicationError> {
    let work = tempfile::Builder::new().prefix("rocmrpm-publish-").tempdir();
    let work = work.map_err(IoError::doing("create a folder for metadata"))?;
    let stays = |package: &&Published| packages.contains(package);
    let (kept, leaving): (Vec<Published>, Vec<Published>) =
        (old.packages.iter().filter(stays).cloned().collect(), left_out(&old.packages, &packages));
    let mut change = Change {
        serial: old.serial,
        added: added.iter().filter(stays).cloned().collect(),
        kept,
        leaving,
        packages: Vec::new(),
        pages: Vec::new(),
        removed: Vec::new(),
        _work: work,
    };
    if packages == old.packages && live == Some(old.repomd.as_bytes()) && old.has_whole_repomd() {
        return Ok(change);
    }
    let folder = change._work.path().to_owned();
    let metadata = metadata(place, old, &packages, wanted.repository, &folder)?;
    let repomd = fs::read(folder.join(REPOMD)).map_err(IoError::doing("read metadata"))?;
    let mut state = RepositoryState {
        serial: old.serial + 1,
        key: wanted.signer.map(|signer| signer.fingerprint().to_owned()),
        metadata: metadata.iter().map(|file| file.path.clone()).collect(),
        repomd: String::from_utf8_lossy(&repomd).into_owned(),
        packages,
        ..RepositoryState::new()
    };
    change.serial = state.serial;
    let now: BTreeSet<&String> = state.files().collect();
    let gone = |path: &&String| !now.contains(path);
    let mut leaving: BTreeSet<String> = old.files().filter(gone).cloned().collect();
    let mut removed: BTreeSet<String> = old.removed.iter().filter(gone).cloned().collect();
    // If the last publication did not finish, readers still see the previous state.
    let ended = live == Some(old.repomd.as_bytes());
    let waiting = old.leaving.iter().filter(gone).cloned();
    if ended {
        removed.extend(waiting)
    } else {
        leaving.extend(waiting)
    }
    state.removed = removed.difference(&leaving).cloned().collect();
    state.leaving = leaving.into_iter().collect();
    change.removed = state.removed.clone();
    change.packages = change
        .added
        .iter()
        .map(|package| to_send(&package.file, wanted.repository, package))
        .collect();
    change.packages.extend(metadata);

    change.pages = pages(&state, wanted, here, &folder)?;
    Ok(change)
}

/// Returns the files that readers start from, `repomd.xml` last: it makes the rest visible.
fn pages(
    state: &RepositoryState,
    wanted: &Wanted<'_>,
    here: &[Published],
    folder: &Path,
) -> Result<Vec<Page>, PublicationError> {
    let read = |path: &Path| fs::read(path).map_err(IoError::doing("read metadata"));
    let page =
        |path: &str, bytes: Vec<u8>, media_type| Page { path: path.to_owned(), bytes, media_type };
    let mut pages = vec![page(state::PATH, state.bytes(), "application/json")];
    if let Some(signer) = wanted.signer {
        let key = signer.public().to_vec();
        pages.push(page(signer.file_name(), key, "application/pgp-keys"));
    }
    let newest = here
        .iter()
        .find(|package| crate::rpms::name_of_file(package.file.as_ref()) == Some(wanted.release));
    if let Some(release) = newest {
        let bytes = read(&wanted.repository.join(&release.file))?;
        pages.push(page(&format!("{}.rpm", wanted.release), bytes, "application/x-rpm"));
    }
    let repomd = folder.join(REPOMD);
    if let Some(signer) = wanted.signer {
        let signature = folder.join(SIGNATURE);
        signer.sign_file(&repomd, &signature)?;
        pages.push(page(SIGNATURE, read(&signature)?, "application/pgp-signature"));
    }
    pages.push(page(REPOMD, read(&repomd)?, "text/xml"));
    Ok(pages)
}

/// Returns the packages to publish.
fn local(wanted: &Wanted<'_>) -> Result<Vec<Published>, PublicationError> {
    let names =
        crate::files::names_in(wanted.repository).map_err(IoError::doing("list the repository"))?;
    let rpms = names.iter().filter(|name| name.ends_with(".rpm"));
    let here = rpms.map(|name| Published::of(&wanted.repository.join(name)));
    let here = here.collect::<Result<Vec<_>, RpmError>>()?;
    // The release package is useless without others.
    let release =
        |p: &Published| crate::rpms::name_of_file(p.file.as_ref()) == Some(wanted.release);
    if here.iter().all(release) {
        return Err(PublicationError::Nothing);
    }
    match here.iter().find(|package| package.is_dirty() && !wanted.dirty) {
        Some(dirty) => Err(PublicationError::Dirty { file: dirty.file.clone() }),
        None => Ok(here),
    }
}

/// Returns the last published state, and the `repomd.xml` that readers see.
fn there(place: &dyn IndexStorage) -> Result<(RepositoryState, Option<Vec<u8>>), PublicationError> {
    let mut read = place.read(&[state::PATH.to_owned(), REPOMD.to_owned()])?.into_iter();
    match (read.next().flatten(), read.next().flatten()) {
        (Some(bytes), live) => Ok((RepositoryState::read(&bytes, &place.name())?, live)),
        (None, None) => Ok((RepositoryState::new(), None)),
        (None, Some(_)) => Err(PublicationError::Foreign { place: place.name() }),
    }
}

fn check_key(
    place: &dyn IndexStorage,
    old: &RepositoryState,
    signer: Option<&Signer>,
) -> Result<(), PublicationError> {
    let here = signer.map(Signer::fingerprint);
    if old.packages.is_empty() || old.key.as_deref() == here {
        return Ok(());
    }
    let shown =
        |key: Option<&str>| key.map_or("not signed".to_owned(), |key| format!("signed with {key}"));
    let (there, here) = (shown(old.key.as_deref()), shown(here));
    Err(PublicationError::OtherKey { place: place.name(), there, here })
}

/// Returns the packages that are not published yet. A published package stays unchanged even if the
/// signature differs; different content is rejected.
fn new_packages(
    place: &str,
    old: &RepositoryState,
    here: &[Published],
) -> Result<Vec<Published>, PublicationError> {
    let mut added = Vec::new();
    for package in here {
        match old.packages.iter().find(|there| there.file == package.file) {
            None => added.push(package.clone()),
            Some(there) if there.sha256 == package.sha256 => {}
            Some(there) if !there.content.is_empty() && there.content == package.content => {}
            Some(_) => {
                let (file, place) = (package.file.clone(), place.to_owned());
                return Err(PublicationError::Republished { file, place });
            }
        }
    }
    Ok(added)
}

fn left_out(old: &[Published], now: &[Published]) -> Vec<Published> {
    old.iter().filter(|package| !now.contains(package)).cloned().collect()
}

fn to_send(path: &str, folder: &Path, package: &Published) -> Package {
    let stored = Stored { size: package.size, sha256: package.sha256 };
    Package { path: path.to_owned(), file: folder.join(&package.file), stored }
}

/// Creates the metadata for these packages in a folder. Published packages need not exist locally:
/// a placeholder with the same size and time makes createrepo_c reuse the published metadata.
fn metadata(
    place: &dyn IndexStorage,
    old: &RepositoryState,
    packages: &[Published],
    repository: &Path,
    folder: &Path,
) -> Result<Vec<Package>, PublicationError> {
    let fail = || IoError::doing("lay out packages for createrepo_c");
    let before = folder.join("before");
    fetch_old(place, old, &before)?;
    let layout = folder.join("layout");
    fs::create_dir_all(&layout).map_err(fail())?;
    for package in packages {
        let path = layout.join(&package.file);
        let made = match old.packages.contains(package) {
            true => stand_in(&path, package),
            false => std::os::unix::fs::symlink(repository.join(&package.file), path),
        };
        made.map_err(fail())?;
    }
    let revision = packages.iter().map(|package| package.time).fold(EPOCH_1980, i64::max);
    make_metadata(&layout, revision, (!old.metadata.is_empty()).then_some(&*before))?;
    fs::rename(layout.join("repodata"), folder.join("repodata")).map_err(fail())?;
    let mut files = Vec::new();
    for name in crate::files::names_in(&folder.join("repodata")).map_err(fail())? {
        let (path, file) = (format!("repodata/{name}"), folder.join("repodata").join(&name));
        if path != REPOMD {
            let (sha256, size) = Sha256::of_file(&file).map_err(fail())?;
            files.push(Package { path, file, stored: Stored { size, sha256 } });
        }
    }
    check_primary(place, &files, packages)?;
    Ok(files)
}

/// Fetches the published metadata for `createrepo_c --update`. Writes `repomd.xml` from the state
/// so that a damaged one can be replaced.
fn fetch_old(
    place: &dyn IndexStorage,
    old: &RepositoryState,
    to: &Path,
) -> Result<(), PublicationError> {
    let fail = || IoError::doing("lay out published metadata");
    let mut files = Vec::new();
    for (path, bytes) in old.metadata.iter().zip(place.read(&old.metadata)?) {
        let damaged = |reason: &str| {
            let reason = format!("{path} {reason}");
            PublicationError::Damaged { place: place.name(), reason }
        };
        let bytes = bytes.ok_or_else(|| damaged("is missing"))?;
        let sha256 = Sha256::of_bytes(&bytes);
        if !path.contains(&sha256.to_string()) {
            return Err(damaged("does not have the digest in its name"));
        }
        files.push(MetadataFile { path: path.clone(), size: bytes.len() as u64, sha256 });
        crate::files::write_atomically(&to.join(path), bytes).map_err(fail())?;
    }
    if !files.is_empty() {
        fs::write(to.join(REPOMD), Repomd::naming(&files)).map_err(fail())?;
    }
    Ok(())
}

/// Creates a sparse placeholder with the size and time in the metadata, so that createrepo_c does
/// not read it.
fn stand_in(path: &Path, package: &Published) -> std::io::Result<()> {
    let file = std::fs::File::create(path)?;
    file.set_len(package.size)?;
    let seconds = std::time::Duration::from_secs(package.time.unsigned_abs());
    file.set_modified(std::time::UNIX_EPOCH + seconds)
}

/// Checks that the metadata contains every package with its published digest.
fn check_primary(
    place: &dyn IndexStorage,
    files: &[Package],
    packages: &[Published],
) -> Result<(), PublicationError> {
    let primary = files.iter().find(|file| file.path.contains("-primary.xml"));
    let text = primary.map(|file| decompressed(&file.file)).transpose();
    let text = text.map_err(IoError::doing("read metadata"))?.unwrap_or_default();
    match packages.iter().find(|package| !text.contains(&format!(">{}</checksum>", package.sha256)))
    {
        None => Ok(()),
        Some(package) => {
            let reason = format!("its metadata does not match the published {}", package.file);
            Err(PublicationError::Damaged { place: place.name(), reason })
        }
    }
}

fn decompressed(path: &PathBuf) -> std::io::Result<String> {
    let file = std::fs::File::open(path)?;
    let zstd = path.extension().is_some_and(|extension| extension == "zst");
    let stream: Box<dyn Read> = if zstd {
        Box::new(zstd::Decoder::new(file)?)
    } else {
        Box::new(flate2::read::GzDecoder::new(file))
    };
    let mut text = String::new();
    stream.take(MAX_METADATA).read_to_string(&mut text)?;
    Ok(text)
}
