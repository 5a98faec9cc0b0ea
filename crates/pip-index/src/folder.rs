//! Stores an index in a folder of this machine. It does not decide on the contents.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fs_err as fs;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::IndexError;
use super::entry::each;
use super::place::{IndexStorage, Package, Page, Stored};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::files;

/// A folder with an index.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    _lock: Option<files::Lock>,
}

impl Folder {
    /// Opens an index without locking it, for reading or for a single writer.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), _lock: None }
    }

    /// Creates and locks the folder of an index for changes. Other writers wait until the lock is
    /// dropped.
    pub fn lock(root: &Path) -> Result<Self, IndexError> {
        fs::create_dir_all(root)?;
        let lock = files::lock(&root.join(".lock"))?;
        Ok(Self { root: root.to_owned(), _lock: Some(lock) })
    }
}

impl Folder {
    /// Returns the root of the index.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

impl IndexStorage for Folder {
    fn name(&self) -> String {
        self.root.display().to_string()
    }

    fn read(&self, paths: &[String]) -> Result<Vec<Option<Vec<u8>>>, IndexError> {
        each(paths, |path| Ok(if_exists(fs::read(self.root.join(path)))?))
    }

    fn stored(&self, paths: &[String]) -> Result<Vec<Option<Stored>>, IndexError> {
        let stored = |path: &String| if_exists(Sha256::of_file(&self.root.join(path)));
        each(paths, |path| Ok(stored(path)?.map(|(sha256, size)| Stored { size, sha256 })))
    }

    /// Copies each package into place and verifies the copy. A hard link would let a published file
    /// change together with its source.
    fn put_packages(&self, packages: &[Package]) -> Result<(), IndexError> {
        let copies: Vec<_> =
            packages.iter().map(|package| (self.copy_of(package), package)).collect();
        let staged = each(&copies, |(copy, package)| Ok(copy_file(&package.file, copy)?))
            .and_then(|_| sync(copies.iter().map(|(copy, _)| copy.as_path())))
            .and_then(|()| each(&copies, |(copy, package)| self.keep_package(copy, package)));
        if staged.is_err() {
            copies.iter().for_each(|(copy, _)| drop(fs::remove_file(copy)));
        }
        staged?;
        sync_folders(copies.iter().map(|(copy, _)| copy.as_path()))
    }

    fn put_pages(&self, pages: &[Page]) -> Result<(), IndexError> {
        let pages: Vec<_> =
            pages.iter().map(|page| (self.root.join(&page.path), &page.bytes[..])).collect();
        replace_all(&pages, true)?;
        sync_folders(pages.iter().map(|(path, _)| path.as_path()))
    }

    fn remove(&self, paths: &[String]) -> Result<(), IndexError> {
        let remove = |path: &String| Ok(if_exists(fs::remove_file(self.root.join(path)))?);
        paths.iter().try_for_each(|path| remove(path).map(drop))
    }
}

impl Folder {
    /// Returns the temporary name of a package. A killed run leaves this file, and the next run
    /// overwrites it.
    fn copy_of(&self, package: &Package) -> PathBuf {
        let name = format!("{TEMPORARY}{}", Sha256::of_bytes(&package.path));
        self.root.join(&package.path).with_file_name(name)
    }

    /// Verifies a copy and moves it to its final name.
    fn keep_package(&self, copy: &Path, package: &Package) -> Result<(), IndexError> {
        let (target, new) = (self.root.join(&package.path), package.stored.sha256);
        let (sha256, _) = Sha256::of_file(copy)?;
        if sha256 != new {
            return Err(changed(&package.path, "the temporary copy", sha256, new));
        }
        match keep(copy, &target) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(copy)?;
                let (there, _) = Sha256::of_file(&target)?;
                if there == new {
                    Ok(())
                } else {
                    Err(changed(&package.path, &self.name(), there, new))
                }
            }
            other => Ok(other?),
        }
    }
}

/// The number of files that are synced one by one. Beyond it, one `syncfs` per file system is faster,
/// although it also writes what other programs left unwritten: each `fsync` waits for the disk.
const MAX_FSYNCS: usize = 16;

/// Makes the contents of files survive a power failure.
fn sync<'a>(files: impl Iterator<Item = &'a Path>) -> Result<(), IndexError> {
    sync_each(&files.collect())
}

/// Makes the names of files survive a power failure.
fn sync_folders<'a>(paths: impl Iterator<Item = &'a Path>) -> Result<(), IndexError> {
    sync_each(&paths.filter_map(Path::parent).collect())
}

/// Syncs files and folders.
fn sync_each(paths: &BTreeSet<&Path>) -> Result<(), IndexError> {
    if paths.len() <= MAX_FSYNCS {
        return paths.iter().try_for_each(|path| Ok(fs::File::open(*path)?.sync_all()?));
    }
    let mut devices = BTreeSet::new();
    for path in paths {
        if devices.insert(fs::metadata(*path)?.dev()) {
            rustix::fs::syncfs(fs::File::open(*path)?).map_err(io::Error::from)?;
        }
    }
    Ok(())
}

/// The prefix of temporary file names.
const TEMPORARY: &str = ".rocmrpm-";

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(Path::new(".")))?;
    fs::copy(from, to)?;
    let modified = fs::metadata(from)?.modified()?;
    fs::OpenOptions::new().write(true).open(to)?.set_modified(modified)
}

/// Replaces a file atomically and creates its parent folders. The lock excludes other writers, so
/// the temporary name need not be random: the next run overwrites what a killed run left.
pub(super) fn replace(path: &Path, bytes: &[u8], unique: &str) -> io::Result<()> {
    let temporary = path.with_file_name(format!("{TEMPORARY}{unique}"));
    let done = stage(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if done.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    done
}

/// Replaces pages in this order, each atomically, like [`replace`]: writes all of them first, on
/// all cores, and then renames them. `durable` pages are synced in between; the index in the build
/// folder does without, because it can be rebuilt.
pub(super) fn replace_all(pages: &[(PathBuf, &[u8])], durable: bool) -> Result<(), IndexError> {
    let temporary = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.with_file_name(format!("{TEMPORARY}{name}"))
    };
    let staged: Vec<_> = pages.iter().map(|(path, bytes)| (temporary(path), *bytes)).collect();
    let written = each(&staged, |(path, bytes)| Ok(stage(path, bytes)?));
    let synced = written.and_then(|_| match durable {
        true => sync(staged.iter().map(|(path, _)| path.as_path())),
        false => Ok(()),
    });
    let done = synced.and_then(|()| {
        staged.iter().zip(pages).try_for_each(|((temporary, _), (path, _))| {
            rocmrpm_base::process::check_stop()?;
            Ok(fs::rename(temporary, path)?)
        })
    });
    if done.is_err() {
        staged.iter().for_each(|(temporary, _)| drop(fs::remove_file(temporary)));
    }
    done
}

/// Writes a file and creates its parent folders.
fn stage(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::write(path, bytes) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
            fs::write(path, bytes)
        }
        other => other,
    }
}

fn changed(path: &str, place: &str, there: Sha256, new: Sha256) -> IndexError {
    IndexError::OtherDigest { file: path.to_owned(), place: place.to_owned(), there, new }
}

/// Moves a file to its final name, unless that name exists.
fn keep(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some network file systems do not support the flag; a hard link replaces nothing either.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        other => Ok(other?),
    }
}

/// Maps a missing file to `None`.
pub(super) fn if_exists<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
