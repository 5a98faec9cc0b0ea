//! From paths to subjects: telling RPMs, wheels, tar archives, folders and single files
//! apart, and going through them over all cores. Neither judging nor extracting.

mod archive;
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

use super::InspectError;
use super::facts::{FileFacts, Subject, SubjectKind};
use super::file::facts;
use super::image;
use super::report::Depth;
use crate::machine;
use crate::parallel;
use crate::process::check_stop;

/// Reads everything at `paths`, in no order of subjects.
pub(super) fn read(paths: &[PathBuf], depth: Depth) -> Result<Vec<Subject>, InspectError> {
    let mut folders = Vec::new();
    let mut jobs = Vec::new();
    for path in paths {
        let Ok(metadata) = fs::metadata(path) else {
            return Err(InspectError::Missing { path: path.clone() });
        };
        match metadata.is_dir() {
            true => folder(path, &mut folders, &mut jobs)?,
            false => jobs.push(Job { path: path.clone(), folder: None }),
        }
    }
    let mut subjects = Vec::new();
    let mut with_packages = vec![false; folders.len()];
    for (done, job) in
        parallel::try_map(&jobs, machine::cores(), |job| job.run(depth))?.into_iter().zip(&jobs)
    {
        let folder = job.folder.as_ref().map(|(index, _)| *index);
        match (done, folder) {
            (Done::File(file), Some(index)) => folders[index].files.extend(file.map(|file| *file)),
            (Done::Subject(subject), folder) => {
                if let Some(index) = folder {
                    with_packages[index] = true;
                }
                subjects.push(*subject);
            }
            (Done::File(_), None) => {}
        }
    }
    for (folder, with_packages) in folders.into_iter().zip(with_packages) {
        // A folder of packages alone is no subject beside them.
        if !with_packages || !folder.files.is_empty() {
            subjects.push(folder.completed());
        }
    }
    Ok(subjects)
}

/// A file to be inspected.
struct Job {
    path: PathBuf,
    /// The folder that was given, by number, and the path in it.
    folder: Option<(usize, String)>,
}

enum Done {
    Subject(Box<Subject>),
    File(Option<Box<FileFacts>>),
}

impl Job {
    fn run(&self, depth: Depth) -> Result<Done, InspectError> {
        check_stop()?;
        let path = &self.path;
        let kind = archive_kind(path)?;
        let subject = |subject| Done::Subject(Box::new(subject));
        let Some((_, inside)) = &self.folder else {
            return match kind {
                Some(kind) => archive::read(path, kind, depth).map(subject),
                None => single(path, depth).map(subject),
            };
        };
        match kind {
            Some(SubjectKind::Rpm) => archive::read(path, SubjectKind::Rpm, depth).map(subject),
            // Zip and tar archives of other kinds lie in many folders.
            Some(SubjectKind::Wheel) if path.extension().is_some_and(|e| e == "whl") => {
                archive::read(path, SubjectKind::Wheel, depth).map(subject)
            }
            _ => {
                let image = image::on_disk(path, inside)?;
                let facts = image.map(|(bytes, size)| Box::new(facts(inside.clone(), size, &bytes, depth)));
                Ok(Done::File(facts))
            }
        }
    }
}

fn archive_kind(path: &Path) -> io::Result<Option<SubjectKind>> {
    let head = image::head(&mut fs::File::open(path)?)?;
    Ok(match head.get(..4) {
        Some(b"\xed\xab\xee\xdb") => Some(SubjectKind::Rpm),
        Some(b"PK\x03\x04" | b"PK\x05\x06") => Some(SubjectKind::Wheel),
        // Source: RFC 1952, 2.3.1: ID1, ID2, and deflate, the only method.
        Some([0x1f, 0x8b, 8, _]) if tar::is_tar(path)? => Some(SubjectKind::Tar),
        _ => None,
    })
}

/// Begins the subject of a folder, with a job for every file in it.
fn folder(path: &Path, folders: &mut Vec<Subject>, jobs: &mut Vec<Job>) -> Result<(), InspectError> {
    let mut subject = Subject::new(path, SubjectKind::Folder);
    for entry in walkdir::WalkDir::new(path).sort_by_file_name() {
        check_stop()?;
        let entry = entry.map_err(io::Error::from)?;
        let inside = entry.path().strip_prefix(path).unwrap_or(entry.path()).to_string_lossy().into_owned();
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

/// A digest takes a hundred times as long as a quick look, which therefore goes
/// without.
fn single(path: &Path, depth: Depth) -> Result<Subject, InspectError> {
    let mut subject = Subject::new(path, SubjectKind::File);
    let Some((bytes, size)) = image::on_disk(path, &subject.name)? else {
        return Err(InspectError::Unknown { path: path.to_owned() });
    };
    subject.size = Some(size);
    subject.contents.paths.insert(subject.name.clone());
    let abandoned = AtomicBool::new(false);
    thread::scope(|scope| {
        let beside = || parallel::builder().spawn_scoped(scope, || subject::digest(path, &abandoned));
        let digest = (depth == Depth::Deep).then(beside);
        subject.files.push(facts(subject.name.clone(), size, &bytes, depth));
        if let Some(digest) = digest {
            let digest = match digest {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(_) => subject::digest(path, &abandoned),
            };
            subject.sha256 = Some(digest?.0);
        }
        Ok(subject.completed())
    })
}
