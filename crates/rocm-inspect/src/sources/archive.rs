//! Walks one archive: streams its members once, inspects them on a second thread while the next
//! member is decompressed, and computes the archive's digest on a third thread. Other files read
//! the archive formats.

use std::collections::BTreeSet;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use fs_err as fs;

use super::members::Members;
use super::packed::Packed;
#[cfg(feature = "rpm")]
use super::rpm;
use super::subject::digest;
use super::{tar, wheel, with_cause};
use crate::InspectError;
use crate::facts::{Contents, Subject, SubjectKind, Unread};
use crate::file::facts;
use crate::finding::Depth;
use crate::image::{self, Image, MemberError, Taking};
use rocmrpm_base::parallel;
use rocmrpm_base::process::check_stop;

// How much all members together may decompress to; real packages stay below a tenth.
const LEAST_CONTENT: u64 = 1 << 30;
const CONTENT_RATIO: u64 = 256;
/// The maximum total length of all members' paths; texlive's have 20 MB.
const MAX_PATHS: usize = 256 << 20;

/// How many members are decompressed in parallel at most.
const MAX_WALKERS: usize = 8;

/// Reads all members of the archive at `path`.
pub(super) fn read(path: &Path, kind: SubjectKind, depth: Depth) -> Result<Subject, InspectError> {
    let size = fs::metadata(path)?.len();
    let mut subject = Subject::new(path, kind);
    let abandoned = AtomicBool::new(false);
    // A member is handed over after the previous one was inspected, so that each walker has only
    // one in memory or in a temporary file, and one is being inspected.
    let (sender, receiver) = sync_channel::<(String, u64, Image)>(0);
    // Members listed in a directory can be decompressed in parallel.
    let walkers = match kind {
        SubjectKind::Wheel => {
            thread::available_parallelism().map_or(1, usize::from).min(MAX_WALKERS)
        }
        _ => 1,
    };
    let next = AtomicUsize::new(0);
    let work = |sender: SyncSender<(String, u64, Image)>| {
        // The receiver only disconnects if it panicked, which joining its thread reports.
        let mut hand_over = |name, size, image| drop(sender.send((name, size, image)));
        let mut walker = Walker::new(path, size, depth, &next, &mut hand_over);
        let mut subject = Subject::new(path, kind);
        let walked = walker.walk(kind, &mut subject);
        if walked.is_err() {
            abandoned.store(true, Ordering::Relaxed);
            next.store(usize::MAX / 2, Ordering::Relaxed);
        }
        // The error of the first failed member is reported, even if another walker fails too.
        subject.unread = walker.unread;
        (walked.map_err(|error| (walker.count, error)), subject, walker.contents)
    };
    thread::scope(|scope| {
        let hashing = parallel::builder().spawn_scoped(scope, || digest(path, &abandoned));
        // One thread hands members over to another, so there must be two.
        let inspector = parallel::builder().spawn_scoped(scope, move || {
            let members = receiver.into_iter();
            members.map(|(name, size, image)| facts(name, size, &image, depth)).collect::<Vec<_>>()
        })?;
        let shared = sender.clone();
        let others = parallel::helpers(scope, walkers - 1, move || work(shared.clone()));
        let mut walked = vec![work(sender)];
        for other in others {
            walked.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        let files = inspector.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let digest = match hashing {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => digest(path, &abandoned),
        };
        let mut contents = Contents::default();
        let mut errors = Vec::new();
        for (result, part, paths) in walked {
            errors.extend(result.err());
            contents.paths.extend(paths.paths);
            contents.links.extend(paths.links);
            contents.archives.extend(paths.archives);
            contents.add_header(part.contents);
            (subject.name, subject.debug) = (part.name, part.debug);
            subject.package = subject.package.take().or(part.package);
            subject.unread.extend(part.unread);
        }
        if let Some((_, error)) = errors.into_iter().min_by_key(|(index, _)| *index) {
            return Err(error);
        }
        check_stop()?;
        if kind == SubjectKind::Wheel {
            subject.package = subject.package.take().or_else(|| wheel::name_of_file(&subject.name));
        }
        let (sha256, size) = digest?;
        (subject.sha256, subject.size) = (Some(sha256), Some(size));
        (subject.files, subject.contents) = (files, contents);
        Ok(())
    })
    .map(|()| subject.completed())
}

/// Reads all members of the archive at `path` on this thread: starting threads takes longer than
/// inspecting a small file.
#[cfg(any(test, fuzzing))]
pub(super) fn read_alone(
    path: &Path,
    kind: SubjectKind,
    depth: Depth,
) -> Result<Subject, InspectError> {
    let size = fs::metadata(path)?.len();
    let mut files = Vec::new();
    let mut inspect = |name, size, image: Image| files.push(facts(name, size, &image, depth));
    let next = AtomicUsize::new(0);
    let mut walker = Walker::new(path, size, depth, &next, &mut inspect);
    let mut subject = Subject::new(path, kind);
    walker.walk(kind, &mut subject)?;
    walker.contents.add_header(std::mem::take(&mut subject.contents));
    (subject.contents, subject.unread) = (walker.contents, walker.unread);
    subject.files = files;
    Ok(subject.completed())
}

/// Inspects the members of one archive.
struct Walker<'a> {
    archive: &'a Path,
    depth: Depth,
    limit: u64,
    passed: u64,
    contents: Contents,
    paths: usize,
    /// How many members there were so far; also the index of the current one.
    count: usize,
    /// The next member that no walker has taken, if there are several walkers.
    next: &'a AtomicUsize,
    /// The members to read a second time, completely.
    again: BTreeSet<usize>,
    /// The only members to inspect in the second pass.
    second: Option<BTreeSet<usize>>,
    /// Inspects a member, given its name, size and bytes.
    inspect: &'a mut dyn FnMut(String, u64, Image),
    /// The name of a nested archive and a slash while its members are read.
    inside: String,
    unread: Vec<Unread>,
}

impl<'a> Walker<'a> {
    fn new(
        archive: &'a Path,
        size: u64,
        depth: Depth,
        next: &'a AtomicUsize,
        inspect: &'a mut dyn FnMut(String, u64, Image),
    ) -> Self {
        Self {
            next,
            archive,
            depth,
            limit: size.saturating_mul(CONTENT_RATIO).max(LEAST_CONTENT),
            passed: 0,
            contents: Contents::default(),
            paths: 0,
            count: 0,
            again: BTreeSet::new(),
            second: None,
            inspect,
            inside: String::new(),
            unread: Vec::new(),
        }
    }

    fn walk(&mut self, kind: SubjectKind, subject: &mut Subject) -> Result<(), InspectError> {
        self.once(kind, subject)?;
        if !self.again.is_empty() {
            self.second = Some(std::mem::take(&mut self.again));
            (self.count, self.passed) = (0, 0);
            self.once(kind, subject)?;
        }
        Ok(())
    }

    fn once(&mut self, kind: SubjectKind, subject: &mut Subject) -> Result<(), InspectError> {
        match kind {
            #[cfg(feature = "rpm")]
            SubjectKind::Rpm => rpm::walk(self, subject),
            #[cfg(not(feature = "rpm"))]
            SubjectKind::Rpm => Err(InspectError::Damaged {
                path: self.archive.to_owned(),
                what: "this program was built without the feature `rpm`".to_owned(),
            }),
            SubjectKind::Tar => tar::walk(self, subject),
            _ => wheel::walk(self, subject),
        }
    }

    /// Returns whether the file is inspected.
    fn take(
        &mut self,
        name: &str,
        size: u64,
        allowed: u64,
        content: &mut dyn Read,
    ) -> Result<bool, InspectError> {
        check_stop()?;
        self.name(name)?;
        let nested = !self.inside.is_empty();
        let number = self.count;
        self.count += usize::from(!nested);
        let taking = match (&self.second, self.depth) {
            (Some(wanted), _) if !wanted.contains(&number) => return Ok(false),
            // Members of a nested archive are not read a second time.
            (None, Depth::Quick) if !nested => Taking::Sieved,
            _ => Taking::All,
        };
        if let Some(packed) = Packed::of(name) {
            return self.unpack(packed, name, allowed, content).map(|()| true);
        }
        match image::of_member(content, name, size, allowed, taking) {
            Ok(None) => Ok(false),
            Ok(Some(image)) => {
                (self.inspect)(format!("{}{name}", self.inside), size, image);
                Ok(true)
            }
            Err(MemberError::Again) => {
                self.again.insert(number);
                Ok(true)
            }
            Err(MemberError::TooLarge) => Err(self.too_large(name)),
            Err(MemberError::Unreadable(source)) => Err(self.unreadable(name, source)),
            Err(MemberError::Length(what)) => {
                Err(self
                    .unreadable(name, std::io::Error::new(std::io::ErrorKind::InvalidData, what)))
            }
            Err(MemberError::NoRoom(folder, source)) => Err(InspectError::NoRoom {
                archive: self.archive.to_owned(),
                member: name.to_owned(),
                folder,
                source,
            }),
        }
    }

    /// Reads the members of a nested archive. An unreadable one is recorded, because the rest of
    /// the outer archive is still readable.
    fn unpack(
        &mut self,
        packed: Packed,
        name: &str,
        allowed: u64,
        content: &mut dyn Read,
    ) -> Result<(), InspectError> {
        let path = format!("{}{name}", self.inside);
        if !self.inside.is_empty() || packed == Packed::Other {
            let why = if packed == Packed::Other {
                "unsupported archive format"
            } else {
                "a nested archive"
            };
            self.unread.push(Unread { path, archive: true, why: why.to_owned() });
            return Ok(());
        }
        self.inside = format!("{name}/");
        let content = BufReader::with_capacity(128 << 10, content.take(allowed));
        let walked = match packed {
            Packed::Tar(compression) => match compression.reader(content) {
                Ok(mut stream) => tar::walk_stream(self, &mut *stream, &mut None),
                Err(error) => Err(self.unreadable(name, error)),
            },
            _ => wheel::walk_nested(self, name, content),
        };
        self.inside.clear();
        match walked {
            Err(error @ (InspectError::Member { .. } | InspectError::Damaged { .. })) => {
                self.unread.push(Unread { path, archive: true, why: with_cause(&error) });
                Ok(())
            }
            Ok(()) => {
                self.contents.archives.insert(path);
                Ok(())
            }
            walked => walked,
        }
    }

    fn path(&mut self, length: usize) -> Result<(), InspectError> {
        // Each path counts with 64 bytes of overhead in addition to its text.
        self.paths = self.paths.saturating_add(if self.second.is_none() { length + 64 } else { 0 });
        match self.paths > MAX_PATHS {
            true => {
                Err(self
                    .damaged(format!("the names of its members exceed {MAX_PATHS} bytes in total")))
            }
            false => Ok(()),
        }
    }

    fn too_large(&self, member: &str) -> InspectError {
        InspectError::TooLarge {
            archive: self.archive.to_owned(),
            member: member.to_owned(),
            limit: self.limit,
        }
    }
}

impl Members for Walker<'_> {
    fn archive(&self) -> &Path {
        self.archive
    }

    fn next(&mut self, count: usize, after: Option<usize>) -> Option<usize> {
        let index = match &self.second {
            None => self.next.fetch_add(1, Ordering::Relaxed),
            Some(wanted) => *wanted.range(after.map_or(0, |index| index + 1)..).next()?,
        };
        self.count = index;
        (index < count).then_some(index)
    }

    fn link(&mut self, name: &str, target: &str) -> Result<(), InspectError> {
        self.path(name.len() + target.len())?;
        self.contents.links.insert(format!("{}{name}", self.inside), target.to_owned());
        Ok(())
    }

    fn name(&mut self, name: &str) -> Result<(), InspectError> {
        self.path(name.len())?;
        self.contents.paths.insert(format!("{}{name}", self.inside));
        Ok(())
    }

    fn unread(&mut self, name: &str, why: &str) -> Result<(), InspectError> {
        self.name(name)?;
        let path = format!("{}{name}", self.inside);
        self.unread.push(Unread { path, archive: false, why: why.to_owned() });
        Ok(())
    }

    fn streamed(
        &mut self,
        name: &str,
        size: u64,
        content: &mut dyn Read,
    ) -> Result<(), InspectError> {
        self.pass(name, size)?;
        self.take(name, size, u64::MAX, content).map(drop)
    }

    fn file(&mut self, name: &str, size: u64, content: &mut dyn Read) -> Result<(), InspectError> {
        let allowed = self.limit.saturating_sub(self.passed);
        match self.take(name, size, allowed, content)? {
            true => self.pass(name, size),
            false => Ok(()),
        }
    }

    fn pass(&mut self, name: &str, size: u64) -> Result<(), InspectError> {
        check_stop()?;
        self.passed = self.passed.saturating_add(size);
        match self.passed > self.limit {
            true => Err(self.too_large(name)),
            false => Ok(()),
        }
    }

    fn unreadable(&self, member: &str, source: std::io::Error) -> InspectError {
        if let Err(stopped) = check_stop() {
            return stopped.into();
        }
        InspectError::Member { archive: self.archive.to_owned(), member: member.to_owned(), source }
    }

    fn damaged(&self, what: String) -> InspectError {
        InspectError::Damaged { path: self.archive.to_owned(), what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_endless_archives() {
        let next = AtomicUsize::new(0);
        let mut inspect = |_, _, _| {};
        let mut members =
            Walker::new(Path::new("bomb.whl"), 1000, Depth::Quick, &next, &mut inspect);
        members.limit = 1000;
        let bomb = || (&b"\x7fELF"[..]).chain(std::io::repeat(0));
        let error = members.file("libk.so", 1001, &mut bomb()).unwrap_err();
        assert!(error.to_string().starts_with("bomb.whl: `libk.so`"), "{error}");
        let error = members.file("libk.so", 1000, &mut bomb()).unwrap_err();
        assert!(matches!(error, InspectError::Member { .. }), "{error}");
        assert!(members.pass("a", 600).is_ok());
        assert!(matches!(members.pass("b", 600), Err(InspectError::TooLarge { .. })));
        assert!(members.pass("c", u64::MAX).is_err());
    }

    #[test]
    fn rejects_too_many_names() {
        let next = AtomicUsize::new(0);
        let mut inspect = |_, _, _| {};
        let mut members =
            Walker::new(Path::new("names.rpm"), 1000, Depth::Quick, &next, &mut inspect);
        let name = "x".repeat(16 << 20);
        let taken = (0..100).take_while(|_| members.name(&name).is_ok()).count();
        assert!((10..16).contains(&taken), "{taken}");
    }
}
