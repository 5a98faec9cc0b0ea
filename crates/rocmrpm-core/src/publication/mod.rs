//! A published dnf repository: what changes in it when a stack is published, worked
//! out before anything is sent. Packages and metadata never change once they are
//! there; `repomd.xml` does, at the end, and until then a reader sees what was before.

mod error;
mod retention;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use fs_err as fs;

pub use error::PublicationError;
pub use state::{Published, State};

use crate::digest::Sha256;
use crate::error::IoError;
use crate::index::place::{Package, Page, Place, Stored};
use crate::index::seen::Seen;
use crate::rpms::RpmError;
use crate::rpms::repomd::{MetadataFile, REPOMD, Repomd};
use crate::rpms::repository::{EPOCH_1980, make_metadata};
use crate::rpms::signing::Signer;

const SIGNATURE: &str = "repodata/repomd.xml.asc";

/// The most that metadata may hold when it is decompressed.
const MAX_METADATA: u64 = 1 << 30;

/// What is to be published.
pub struct Wanted<'a> {
    /// The folder of the stack's repository.
    pub repository: &'a Path,
    /// Who signed it.
    pub signer: Option<&'a Signer>,
    /// The name of the package that enables the repository, and the name under which it can always
    /// be found there.
    pub release: &'a str,
    /// How many builds of a package are kept.
    pub keep: usize,
    /// The highest serial number that this machine knows of.
    pub seen: &'a Seen,
    /// Whether builds of what was not committed are taken.
    pub dirty: bool,
}

/// What publishing does, worked out beforehand.
pub struct Change {
    /// The serial number after it.
    pub serial: u64,
    /// Packages that are new.
    pub added: Vec<Published>,
    /// Packages that were there before and stay.
    pub kept: Vec<Published>,
    /// Packages that the metadata names no more; they lie there until the next time.
    pub leaving: Vec<Published>,
    /// What is sent: packages and metadata, then pages in this order.
    packages: Vec<Package>,
    pages: Vec<Page>,
    /// What is removed then.
    removed: Vec<String>,
    /// Holds the metadata.
    _work: tempfile::TempDir,
}

impl Change {
    /// Returns whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Returns the files that are written beside packages, in this order.
    pub fn written(&self) -> impl Iterator<Item = &str> {
        let metadata = self.packages.iter().map(|package| package.path.as_str());
        let metadata = metadata.filter(|path| !path.ends_with(".rpm"));
        metadata.chain(self.pages.iter().map(|page| page.path.as_str()))
    }

    /// Returns the files that are removed at the end.
    pub fn removed(&self) -> &[String] {
        &self.removed
    }

    /// Does it: whenever it is interrupted, what a reader finds is whole, and the same command
    /// goes on from there.
    pub fn apply(&self, place: &dyn Place) -> Result<(), PublicationError> {
        place.put_packages(&self.packages)?;
        place.put_pages(&self.pages)?;
        if !self.removed.is_empty() {
            place.remove(&self.removed)?;
        }
        Ok(())
    }
}

/// Works out what publishing changes in a place.
pub fn plan(place: &dyn Place, wanted: &Wanted<'_>) -> Result<Change, PublicationError> {
    let here = local(wanted)?;
    let (old, live) = there(place)?;
    wanted.seen.check(old.serial)?;
    check_key(place, &old, wanted.signer)?;
    let added = new_packages(&place.name(), &old, &here)?;
    let all: Vec<Published> = old.packages.iter().chain(&added).cloned().collect();
    let current: BTreeSet<String> = here.iter().map(|package| package.file.clone()).collect();
    let packages = retention::kept(&all, &current, wanted.keep);
    let work = tempfile::Builder::new().prefix("rocmrpm-publish-").tempdir();
    let work = work.map_err(IoError::doing("make a folder for metadata"))?;
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
    if packages == old.packages && live.as_deref() == Some(old.repomd.as_bytes()) && old.has_whole_repomd() {
        return Ok(change);
    }
    let folder = change._work.path().to_owned();
    let metadata = metadata(place, &old, &packages, wanted.repository, &folder)?;
    let repomd = folder.join(REPOMD);
    let read = |path: &Path| fs::read(path).map_err(IoError::doing("read metadata"));
    let mut state = State {
        serial: old.serial + 1,
        key: wanted.signer.map(|signer| signer.fingerprint().to_owned()),
        metadata: metadata.iter().map(|file| file.path.clone()).collect(),
        repomd: String::from_utf8_lossy(&read(&repomd)?).into_owned(),
        packages,
        ..State::new()
    };
    change.serial = state.serial;
    let now: BTreeSet<&String> = state.files().collect();
    let gone = |path: &&String| !now.contains(path);
    let mut leaving: BTreeSet<String> = old.files().filter(gone).cloned().collect();
    let mut removed: BTreeSet<String> = old.removed.iter().filter(gone).cloned().collect();
    // Where the last publishing did not come to its end, readers still have what was before it.
    let ended = live.as_deref() == Some(old.repomd.as_bytes());
    let waiting = old.leaving.iter().filter(gone).cloned();
    if ended {
        removed.extend(waiting)
    } else {
        leaving.extend(waiting)
    }
    state.removed = removed.difference(&leaving).cloned().collect();
    state.leaving = leaving.into_iter().collect();
    change.removed = state.removed.clone();
    change.packages =
        change.added.iter().map(|package| to_send(&package.file, wanted.repository, package)).collect();
    change.packages.extend(metadata);

    let page = |path: &str, bytes: Vec<u8>, media_type| Page { path: path.to_owned(), bytes, media_type };
    change.pages.push(page(state::PATH, state.bytes(), "application/json"));
    if let Some(signer) = wanted.signer {
        change.pages.push(page(signer.file_name(), signer.public().to_vec(), "application/pgp-keys"));
    }
    let newest =
        here.iter().find(|package| crate::rpms::name_of_file(package.file.as_ref()) == Some(wanted.release));
    if let Some(release) = newest {
        let bytes = read(&wanted.repository.join(&release.file))?;
        change.pages.push(page(&format!("{}.rpm", wanted.release), bytes, "application/x-rpm"));
    }
    if let Some(signer) = wanted.signer {
        let signature = folder.join(SIGNATURE);
        signer.sign_file(&repomd, &signature)?;
        change.pages.push(page(SIGNATURE, read(&signature)?, "application/pgp-signature"));
    }
    change.pages.push(page(REPOMD, read(&repomd)?, "text/xml"));
    Ok(change)
}

/// Returns the packages that are to be published.
fn local(wanted: &Wanted<'_>) -> Result<Vec<Published>, PublicationError> {
    let names = crate::files::names_in(wanted.repository).map_err(IoError::doing("list the repository"))?;
    let rpms = names.iter().filter(|name| name.ends_with(".rpm"));
    let here = rpms.map(|name| Published::of(&wanted.repository.join(name)));
    let here = here.collect::<Result<Vec<_>, RpmError>>()?;
    // The release package alone is of no use.
    let release = |p: &Published| crate::rpms::name_of_file(p.file.as_ref()) == Some(wanted.release);
    if here.iter().all(release) {
        return Err(PublicationError::Nothing);
    }
    match here.iter().find(|package| package.is_dirty() && !wanted.dirty) {
        Some(dirty) => Err(PublicationError::Dirty { file: dirty.file.clone() }),
        None => Ok(here),
    }
}

/// Returns what was published last, and the `repomd.xml` that readers find.
fn there(place: &dyn Place) -> Result<(State, Option<Vec<u8>>), PublicationError> {
    let mut read = place.read(&[state::PATH.to_owned(), REPOMD.to_owned()])?.into_iter();
    match (read.next().flatten(), read.next().flatten()) {
        (Some(bytes), live) => Ok((State::read(&bytes, &place.name())?, live)),
        (None, None) => Ok((State::new(), None)),
        (None, Some(_)) => Err(PublicationError::Foreign { place: place.name() }),
    }
}

fn check_key(place: &dyn Place, old: &State, signer: Option<&Signer>) -> Result<(), PublicationError> {
    let here = signer.map(Signer::fingerprint);
    if old.packages.is_empty() || old.key.as_deref() == here {
        return Ok(());
    }
    let shown = |key: Option<&str>| key.map_or("not signed".to_owned(), |key| format!("signed with {key}"));
    let (there, here) = (shown(old.key.as_deref()), shown(here));
    Err(PublicationError::OtherKey { place: place.name(), there, here })
}

/// Returns the packages that are not there yet. One that is there stays as it is, whenever it
/// was signed; with other content it is refused.
fn new_packages(place: &str, old: &State, here: &[Published]) -> Result<Vec<Published>, PublicationError> {
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

/// Makes the metadata of these packages in a folder. Those that are published already need not be
/// here: a file of the same size and time stands for them, and createrepo_c takes over what
/// the published metadata says.
fn metadata(
    place: &dyn Place,
    old: &State,
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

/// Fetches the published metadata for `createrepo_c --update`. Its `repomd.xml` is written here, so
/// that a damaged one can be replaced.
fn fetch_old(place: &dyn Place, old: &State, to: &Path) -> Result<(), PublicationError> {
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

/// Makes a file that takes no space and that createrepo_c does not read, its size and time being
/// those of the metadata.
fn stand_in(path: &Path, package: &Published) -> std::io::Result<()> {
    let file = std::fs::File::create(path)?;
    file.set_len(package.size)?;
    let seconds = std::time::Duration::from_secs(package.time.unsigned_abs());
    file.set_modified(std::time::UNIX_EPOCH + seconds)
}

/// Makes sure that the metadata has every package with the digest that it is published with.
fn check_primary(
    place: &dyn Place,
    files: &[Package],
    packages: &[Published],
) -> Result<(), PublicationError> {
    let primary = files.iter().find(|file| file.path.contains("-primary.xml"));
    let text = primary.map(|file| decompressed(&file.file)).transpose();
    let text = text.map_err(IoError::doing("read metadata"))?.unwrap_or_default();
    match packages.iter().find(|package| !text.contains(&format!(">{}</checksum>", package.sha256))) {
        None => Ok(()),
        Some(package) => {
            let reason = format!("its metadata does not have {} as it is there", package.file);
            Err(PublicationError::Damaged { place: place.name(), reason })
        }
    }
}

fn decompressed(path: &PathBuf) -> std::io::Result<String> {
    let file = std::fs::File::open(path)?;
    let zstd = path.extension().is_some_and(|extension| extension == "zst");
    let stream: Box<dyn Read> =
        if zstd { Box::new(zstd::Decoder::new(file)?) } else { Box::new(flate2::read::GzDecoder::new(file)) };
    let mut text = String::new();
    stream.take(MAX_METADATA).read_to_string(&mut text)?;
    Ok(text)
}
