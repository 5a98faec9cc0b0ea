//! Turns paths into subjects: distinguishes RPMs, wheels, tar archives, folders and single files,
//! and reads them on all cores. It neither judges nor extracts them.

mod archive;
mod members;
mod packed;
#[cfg(feature = "rpm")]
mod rpm;
mod subject;
mod tar;
#[cfg(test)]
mod tests;
mod wheel;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;

use fs_err as fs;
use packed::Packed;

use super::InspectError;
use super::facts::{FileFacts, Subject, SubjectKind, Unread};
use super::file::facts;
use super::finding::Depth;
use super::image::{self, Image};
use rocmrpm_base::machine;
use rocmrpm_base::parallel;
use rocmrpm_base::process::check_stop;

/// Reads everything at `paths`. The subjects are unsorted.
pub(super) fn read(paths: &[PathBuf], depth: Depth) -> Result<Vec<Subject>, InspectError> {
    let mut folders = Vec::new();
    let mut jobs = Vec::new();
    for path in paths {
        let Ok(metadata) = fs::metadata(path) else {
            return Err(InspectError::Missing { path: path.clone() });
        };
        match no_file(metadata.file_type()) {
            Some(what) => return Err(InspectError::NotAFile { path: path.clone(), what }),
            None if metadata.is_dir() => folder(path, &mut folders, &mut jobs)?,
            None => jobs.push(Job { path: path.clone(), folder: None }),
        }
    }
    let mut subjects = Vec::new();
    let mut with_packages = vec![false; folders.len()];
    for (done, job) in
        parallel::try_map(&jobs, machine::cores(), |job| job.run(depth))?.into_iter().zip(&jobs)
    {
        let folder = job.folder.as_ref().map(|(index, _)| *index);
        match (done, folder) {
            (ReadOutcome::File(file), Some(index)) => {
                folders[index].files.extend(file.map(|file| *file))
            }
            (ReadOutcome::Unread(unread), Some(index)) => folders[index].unread.push(unread),
            (ReadOutcome::Subject(subject), folder) => {
                if let Some(index) = folder {
                    with_packages[index] = true;
                }
                subjects.push(*subject);
            }
            (ReadOutcome::File(_) | ReadOutcome::Unread(_), None) => {}
        }
    }
    for (folder, with_packages) in folders.into_iter().zip(with_packages) {
        // A folder that only contains packages is not a separate subject.
        if !with_packages || !folder.files.is_empty() || !folder.unread.is_empty() {
            subjects.push(folder.completed());
        }
    }
    Ok(subjects)
}

/// Reads an RPM or a wheel on this thread.
#[cfg(any(test, fuzzing))]
pub(super) fn read_alone(path: &Path, depth: Depth) -> Result<Option<Subject>, InspectError> {
    archive_kind(path)?.map(|kind| archive::read_alone(path, kind, depth)).transpose()
}

/// Describes the kind of a path that is neither a file nor a folder.
fn no_file(kind: std::fs::FileType) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt as _;
    match () {
        () if kind.is_fifo() => Some("a FIFO"),
        () if kind.is_socket() => Some("a socket"),
        () if kind.is_char_device() || kind.is_block_device() => Some("a device"),
        () => None,
    }
}

/// A file to inspect.
struct Job {
    path: PathBuf,
    /// The index of the given folder, and the path inside it.
    folder: Option<(usize, String)>,
}

enum ReadOutcome {
    Subject(Box<Subject>),
    File(Option<Box<FileFacts>>),
    /// A file in a folder that could not be read, or is not supported.
    Unread(Unread),
}

impl Job {
    fn run(&self, depth: Depth) -> Result<ReadOutcome, InspectError> {
        check_stop()?;
        let Some((_, inside)) = &self.folder else {
            let kind = archive_kind(&self.path)?;
            let subject = match kind {
                Some(kind) => archive::read(&self.path, kind, depth),
                None => single(&self.path, depth),
            };
            return subject.map(|subject| ReadOutcome::Subject(Box::new(subject)));
        };
        match self.in_folder(inside, depth) {
            // An unreadable file in a folder does not affect the others.
            Err(error) if !is_ours(&error) => Ok(ReadOutcome::Unread(Unread {
                path: inside.clone(),
                archive: false,
                why: with_cause(&error),
            })),
            done => done,
        }
    }

    fn in_folder(&self, inside: &str, depth: Depth) -> Result<ReadOutcome, InspectError> {
        let path = &self.path;
        match archive_kind(path)? {
            Some(SubjectKind::Rpm) => archive::read(path, SubjectKind::Rpm, depth)
                .map(|subject| ReadOutcome::Subject(Box::new(subject))),
            Some(SubjectKind::Wheel) if path.extension().is_some_and(|e| e == "whl") => {
                archive::read(path, SubjectKind::Wheel, depth)
                    .map(|subject| ReadOutcome::Subject(Box::new(subject)))
            }
            // Many folders contain zip and tar archives of other kinds.
            Some(_) if Packed::of(inside).is_some() => {
                let why = "only RPMs and wheels are read in a folder".to_owned();
                Ok(ReadOutcome::Unread(Unread { path: inside.to_owned(), archive: true, why }))
            }
            _ => {
                let Some((bytes, size)) = image::on_disk(path, inside)? else {
                    return Ok(ReadOutcome::File(None));
                };
                let facts = facts(inside.to_owned(), size, &bytes, depth);
                unchanged(&bytes, path)?;
                Ok(ReadOutcome::File(Some(Box::new(facts))))
            }
        }
    }
}

/// Returns whether an error concerns this machine or this run rather than a single file.
fn is_ours(error: &InspectError) -> bool {
    matches!(
        error,
        InspectError::Process(_) | InspectError::NoRoom { .. } | InspectError::Changed { .. }
    )
}

fn with_cause(error: &InspectError) -> String {
    match std::error::Error::source(error) {
        Some(cause) if !matches!(error, InspectError::Process(_)) => format!("{error}: {cause}"),
        _ => error.to_string(),
    }
}

fn unchanged(image: &Image, path: &Path) -> Result<(), InspectError> {
    image.unchanged().map_err(|_| InspectError::Changed { path: path.to_owned() })
}

fn archive_kind(path: &Path) -> io::Result<Option<SubjectKind>> {
    let head = image::head(&mut image::open(path)?)?;
    Ok(match head.get(..4) {
        Some(b"\xed\xab\xee\xdb") => Some(SubjectKind::Rpm),
        Some(b"PK\x03\x04" | b"PK\x05\x06") => Some(SubjectKind::Wheel),
        _ if tar::is_tar(path, &head)? => Some(SubjectKind::Tar),
        _ => None,
    })
}

/// Starts the subject of a folder, and adds a job for every file in it.
fn folder(
    path: &Path,
    folders: &mut Vec<Subject>,
    jobs: &mut Vec<Job>,
) -> Result<(), InspectError> {
    let mut subject = Subject::new(path, SubjectKind::Folder);
    let inside =
        |entry: &Path| entry.strip_prefix(path).unwrap_or(entry).to_string_lossy().into_owned();
    for entry in walkdir::WalkDir::new(path).sort_by_file_name() {
        check_stop()?;
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) if error.depth() > 0 && error.path().is_some() => {
                let path = error.path().map(inside).unwrap_or_default();
                subject.unread.push(Unread {
                    path,
                    archive: false,
                    why: io::Error::from(error).to_string(),
                });
                continue;
            }
            Err(error) => return Err(io::Error::from(error).into()),
        };
        let inside = inside(entry.path());
        if entry.file_type().is_file() {
            subject.contents.paths.insert(inside.clone());
            jobs.push(Job { path: entry.into_path(), folder: Some((folders.len(), inside)) });
        } else if entry.file_type().is_symlink() {
            let target = fs::read_link(entry.path())?.to_string_lossy().into_owned();
            subject.contents.links.insert(inside, target);
        }
    }
    folders.push(subject);
    Ok(())
}

/// Reads a single file. Computing a digest takes a hundred times as long as a quick inspection,
/// which therefore omits it.
fn single(path: &Path, depth: Depth) -> Result<Subject, InspectError> {
    let mut subject = Subject::new(path, SubjectKind::File);
    let Some((bytes, size)) = image::on_disk(path, &subject.name)? else {
        return Err(InspectError::Unknown { path: path.to_owned() });
    };
    subject.size = Some(size);
    subject.contents.paths.insert(subject.name.clone());
    let abandoned = AtomicBool::new(false);
    thread::scope(|scope| {
        let hashing =
            || parallel::builder().spawn_scoped(scope, || subject::digest(path, &abandoned));
        let digest = (depth == Depth::Deep).then(hashing);
        subject.files.push(facts(subject.name.clone(), size, &bytes, depth));
        unchanged(&bytes, path)?;
        if let Some(digest) = digest {
            let digest = match digest {
                Ok(thread) => {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                }
                Err(_) => subject::digest(path, &abandoned),
            };
            subject.sha256 = Some(digest?.0);
        }
        Ok(subject.completed())
    })
}
