//! A static package index (PEP 503) of wheels in a folder, written so that a
//! reader never sees half of it. Not which wheels belong in it.

mod page;
pub mod place;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::digest::Sha256;
use crate::error::{Diagnose, IoError, Kind};
use crate::files;
use crate::process::{self, ProcessError};
use crate::wheel::{self, WheelError};
use page::Link;
use state::{Known, State};

/// What an index has and what a run did to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Where pip's `--index-url` points.
    pub simple: PathBuf,
    /// The distributions with the number of their wheels, by normalized name.
    pub distributions: BTreeMap<String, usize>,
    /// Whether any page or package changed.
    pub changed: bool,
}

/// Why an index was not written.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A wheel is not one, or a wrong one.
    #[error(transparent)]
    Wheel(#[from] WheelError),
    /// Two files have one name.
    #[error("{} and {} have the same name and differ", first.display(), second.display())]
    SameName {
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// The file system refuses.
    #[error(transparent)]
    Io(IoError),
    /// We were asked to stop.
    #[error(transparent)]
    Stopped(#[from] ProcessError),
}

impl From<io::Error> for IndexError {
    fn from(error: io::Error) -> Self {
        Self::Io(IoError::doing("read or write the index")(error))
    }
}

impl Diagnose for IndexError {
    fn kind(&self) -> Kind {
        match self {
            Self::Wheel(error) => error.kind(),
            Self::SameName { .. } => Kind::Usage,
            Self::Io(error) => error.kind(),
            Self::Stopped(error) => error.kind(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Wheel(error) => error.hints(),
            Self::SameName { .. } => {
                vec!["give different builds of one version different local labels, or leave one out".into()]
            }
            Self::Io(error) => error.hints(),
            Self::Stopped(error) => error.hints(),
        }
    }
}

/// A wheel that was checked, with the file it came from.
struct Checked {
    source: PathBuf,
    known: Known,
    /// Its METADATA, unless that is in its place already.
    metadata: Option<String>,
}

/// Makes the index in `index_dir` have exactly these wheels: `packages/` with the
/// files, `simple/` with the pages.
///
/// Every wheel is checked first (see [`wheel::read`]); one that is wrong is an
/// error, and nothing is changed. A wheel that an earlier run checked, and whose
/// size and time are still the same, is not read again. Then packages, pages and
/// the root page are put in place in this order, each in one step, and last what
/// no page names any more is removed. Two processes that write the same index
/// wait for each other.
pub fn write(wheels: &[PathBuf], index_dir: &Path) -> Result<Written, IndexError> {
    fs::create_dir_all(index_dir)?;
    let lock = fs::File::create(index_dir.join(".lock"))?;
    lock.file().lock()?;
    let (packages, simple) = (index_dir.join("packages"), index_dir.join("simple"));
    let checked = check(wheels, &State::load(index_dir), &packages)?;
    fs::create_dir_all(&packages)?;
    fs::create_dir_all(&simple)?;

    let mut changed = false;
    let mut pages: BTreeMap<&str, Vec<Link<'_>>> = BTreeMap::new();
    for (name, Checked { source, known, metadata }) in &checked {
        let target = packages.join(name);
        if !same_bytes(source, &target, known)? {
            files::link_or_copy(source, &target)?;
            changed = true;
        }
        if let Some(metadata) = metadata {
            changed |= files::write_if_changed(&metadata_path(&packages, name), metadata)?;
        }
        pages.entry(&known.distribution).or_default().push(Link {
            file: name,
            sha256: known.sha256,
            metadata: known.metadata,
            requires_python: known.requires_python.as_deref(),
        });
    }
    for (name, links) in &pages {
        let path = simple.join(name).join("index.html");
        changed |= files::write_if_changed(&path, page::distribution(name, links))?;
    }
    changed |= files::write_if_changed(&simple.join("index.html"), page::root(pages.keys().copied()))?;

    let kept = checked.keys().flat_map(|name| [name.clone(), format!("{name}.metadata")]).collect();
    changed |= remove_others(&packages, &kept)?;
    let mut kept: BTreeSet<String> = pages.keys().map(|name| (*name).to_owned()).collect();
    kept.insert("index.html".into());
    changed |= remove_others(&simple, &kept)?;

    let distributions = pages.iter().map(|(name, links)| ((*name).to_owned(), links.len())).collect();
    let known = checked.into_iter().map(|(name, checked)| (name, checked.known)).collect();
    State::new(known).save(index_dir)?;
    Ok(Written { simple, distributions, changed })
}

/// Checks every wheel that the last run has not checked already.
fn check(wheels: &[PathBuf], old: &State, packages: &Path) -> Result<BTreeMap<String, Checked>, IndexError> {
    let mut checked: BTreeMap<String, Checked> = BTreeMap::new();
    for source in wheels {
        process::check_stop()?;
        let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let meta = fs::metadata(source)?;
        let known = old.known(&name, &meta).filter(|known| {
            Sha256::of_file(&metadata_path(packages, &name)).is_ok_and(|(digest, _)| digest == known.metadata)
        });
        let (known, metadata) = match known {
            Some(known) => (known.clone(), None),
            None => read(source, &meta)?,
        };
        match checked.get(&name) {
            Some(other) if other.known.sha256 != known.sha256 => {
                let first = other.source.clone();
                return Err(IndexError::SameName { first, second: source.clone() });
            }
            Some(_) => {}
            None => drop(checked.insert(name, Checked { source: source.clone(), known, metadata })),
        }
    }
    Ok(checked)
}

fn read(source: &Path, meta: &std::fs::Metadata) -> Result<(Known, Option<String>), IndexError> {
    let wheel = wheel::read(source)?;
    let known = Known {
        size: meta.len(),
        modified: (meta.mtime(), meta.mtime_nsec()),
        sha256: wheel.sha256,
        distribution: wheel::normalized(&wheel.distribution).unwrap_or_default(),
        requires_python: wheel.requires_python,
        metadata: Sha256::of_bytes(&wheel.metadata),
    };
    Ok((known, Some(wheel.metadata)))
}

fn metadata_path(packages: &Path, wheel: &str) -> PathBuf {
    packages.join(format!("{wheel}.metadata"))
}

/// Tells whether `target` has the bytes of the wheel: the same file under a
/// second name, or a copy where no such name is possible.
fn same_bytes(source: &Path, target: &Path, known: &Known) -> io::Result<bool> {
    let target_meta = match fs::metadata(target) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let source_meta = fs::metadata(source)?;
    if (source_meta.dev(), source_meta.ino()) == (target_meta.dev(), target_meta.ino()) {
        return Ok(true);
    }
    Ok(target_meta.len() == known.size && Sha256::of_file(target)?.0 == known.sha256)
}

/// Removes what is not in `kept`. Tells whether there was anything.
fn remove_others(folder: &Path, kept: &BTreeSet<String>) -> io::Result<bool> {
    let mut removed = false;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if kept.contains(entry.file_name().to_string_lossy().as_ref()) {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
        removed = true;
    }
    Ok(removed)
}
