//! Reads the files of an RPM, keeps their contents in one temporary file to save memory, and
//! follows symbolic links. It does not decide what goes into a wheel.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rocm_inspect::{self as inspect, ElfFacts};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::process;
use rocmrpm_base::text::covers;
use rocmrpm_rpms::{self as rpms, EntryKind, Header, PayloadEntry};

use super::WheelError;
use super::layout::{self, WheelDestination};

/// The help for a payload that contradicts its header.
const DAMAGED: &str =
    "check the package with `rpm -K --nosignature`; to rebuild a build result, remove its folder";

/// Upper bound on the links followed from one name, beyond which they count as a cycle.
const MAX_LINKS: usize = 40;

/// An unnamed temporary file that holds contents one after the other.
pub struct Spool {
    file: std::fs::File,
    end: u64,
}

/// A content in the spool: its position and what is known about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    offset: u64,
    /// The size in bytes.
    pub size: u64,
    /// The content's digest.
    pub sha256: Sha256,
    /// Whether anyone may execute the file.
    pub executable: bool,
}

/// A file or link of an RPM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A regular file.
    File(Stored),
    /// A symbolic link with its target, verbatim.
    Link(String),
}

/// The target of a symbolic link inside the payload.
pub enum Target {
    /// The path and content of a file.
    File(String, Stored),
    /// The path of a folder that has files.
    Folder(String),
}

impl Stored {
    /// Returns a number that is different for each content of a spool.
    pub fn id(&self) -> u64 {
        self.offset
    }
}

impl Spool {
    /// Creates a spool on the file system of `folder`, because `/tmp` may be in memory.
    pub fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile_in(folder)?, end: 0 })
    }

    /// Appends a content.
    pub fn append(&mut self, mut content: impl Read, executable: bool) -> io::Result<Stored> {
        let offset = self.end;
        let copy = Copying { content: &mut content, spool: &self.file };
        let (sha256, size) = Sha256::of_reader(copy)?;
        self.end += size;
        Ok(Stored { offset, size, sha256, executable })
    }

    /// Reads up to the length of `buffer`, starting `at` bytes into a content.
    pub fn read_at(&self, stored: &Stored, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = stored.size.saturating_sub(at).min(buffer.len() as u64) as usize;
        if left == 0 { Ok(0) } else { self.file.read_at(&mut buffer[..left], stored.offset + at) }
    }

    /// Fills the buffer, starting `at` bytes into a content.
    pub fn read_exact_at(&self, stored: &Stored, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        if stored.size.saturating_sub(at) < buffer.len() as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.file.read_exact_at(buffer, stored.offset + at)
    }

    /// Overwrites bytes of a content, each slice at its position in the content, and returns what is
    /// then known about it. Every other copy of `stored` is invalid afterwards. Fails if a slice
    /// reaches beyond the content.
    pub fn overwrite(&mut self, stored: Stored, edits: &[(u64, Vec<u8>)]) -> io::Result<Stored> {
        for (at, bytes) in edits {
            if at.saturating_add(bytes.len() as u64) > stored.size {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.file.write_all_at(bytes, stored.offset + at)?;
        }
        let (sha256, _) = Sha256::of_reader(self.reader(stored, 0))?;
        Ok(Stored { sha256, ..stored })
    }

    /// Appends another copy of a content that has `more` bytes at position `at`, after zeros. The
    /// copy has no digest before [`Self::overwrite`] returns it.
    pub fn extend(&mut self, stored: Stored, at: u64, more: &[u8]) -> io::Result<Stored> {
        let copy = self.duplicate(stored)?;
        let gap = at.checked_sub(stored.size).ok_or(io::ErrorKind::InvalidInput)?;
        io::copy(&mut io::repeat(0).take(gap), &mut &self.file)?;
        self.file.write_all(more)?;
        let size = at + more.len() as u64;
        self.end = copy.offset + size;
        Ok(Stored { size, ..copy })
    }

    /// Appends another copy of a content.
    pub fn duplicate(&mut self, stored: Stored) -> io::Result<Stored> {
        let (mut at, mut buffer) = (0, vec![0; 1 << 20]);
        while at < stored.size {
            let length = self.read_at(&stored, at, &mut buffer)?;
            self.file.write_all(&buffer[..length])?;
            at += length as u64;
        }
        let copy = Stored { offset: self.end, ..stored };
        self.end += stored.size;
        Ok(copy)
    }

    /// Returns the linkage of an ELF file, and whether the whole file was readable.
    pub fn linkage(&self, stored: &Stored) -> io::Result<Option<(ElfFacts, bool)>> {
        inspect::linkage(&self.file, stored.offset, stored.size)
    }

    /// Returns a reader of the content from `at` on.
    pub fn reader(&self, stored: Stored, at: u64) -> impl Read + '_ {
        Reading { spool: self, stored, at }
    }

    /// Returns the whole content, or `None` if it is longer than `limit` bytes.
    pub fn small(&self, stored: Stored, limit: u64) -> io::Result<Option<Vec<u8>>> {
        if stored.size > limit {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.reader(stored, 0).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }
}

/// A reader that copies what it reads to the spool.
struct Copying<'a, R> {
    content: &'a mut R,
    spool: &'a std::fs::File,
}

impl<R: Read> Read for Copying<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.content.read(buffer)?;
        self.spool.write_all(&buffer[..length])?;
        Ok(length)
    }
}

struct Reading<'a> {
    spool: &'a Spool,
    stored: Stored,
    at: u64,
}

impl Read for Reading<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.spool.read_at(&self.stored, self.at, buffer)?;
        self.at += length as u64;
        Ok(length)
    }
}

/// The files and links of one or more RPMs, by absolute path.
pub struct Payload {
    /// The RPMs.
    pub rpms: Vec<PathBuf>,
    /// Their files and links, without folders.
    pub nodes: BTreeMap<String, Node>,
    /// Patterns of paths that the wheel omits. Links may still lead to them.
    pub left_out: Vec<String>,
}

impl Payload {
    /// Reads those files of an RPM whose path is `wanted`; returns `None` for a source or debugging
    /// package.
    pub fn read(
        rpm: &Path,
        spool: &mut Spool,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Option<Self>, WheelError> {
        let skipped = |header: &Header| header.arch == "src" || header.is_debug();
        if skipped(&rpms::header(rpm)?) {
            return Ok(None);
        }
        let mut nodes = BTreeMap::new();
        let mut links = HardLinks::default();
        rpms::for_each_file(rpm, |entry, content| {
            process::check_stop()?;
            let refuse = |reason: &str| WheelError::file(rpm, &entry.path, reason);
            check_path(&entry.path).map_err(&refuse)?;
            if !wanted(&entry.path) {
                return Ok(());
            }
            let node = match &entry.kind {
                EntryKind::Directory | EntryKind::Ghost => return Ok(()),
                EntryKind::Special => {
                    return Err(refuse("a wheel cannot hold devices, sockets or pipes"));
                }
                EntryKind::Symlink(target) => Node::Link(target.clone()),
                EntryKind::Regular => {
                    let stored = spool.append(content, entry.permissions & 0o111 != 0)?;
                    if stored.size == 0
                        && entry.size > 0
                        && let Some(link) = entry.hard_link
                    {
                        links.waiting.push((link, entry.clone()));
                        return Ok(());
                    }
                    check_content(entry, &stored)
                        .map_err(|reason| refuse(&reason).with_help(DAMAGED))?;
                    links.contents.extend(entry.hard_link.map(|link| (link, stored)));
                    Node::File(stored)
                }
            };
            match nodes.insert(entry.path.clone(), node) {
                Some(_) => Err(refuse("the package contains this file twice")),
                None => Ok(()),
            }
        })?;
        for (link, entry) in links.waiting {
            let refuse = |reason: &str| WheelError::file(rpm, &entry.path, reason);
            let stored = links.contents.get(&link).ok_or_else(|| {
                refuse("a hard link to a file whose content is missing from the package")
                    .with_help(DAMAGED)
            })?;
            check_content(&entry, stored).map_err(|reason| refuse(&reason).with_help(DAMAGED))?;
            if nodes.insert(entry.path.clone(), Node::File(*stored)).is_some() {
                return Err(refuse("the package contains this file twice"));
            }
        }
        Ok(Some(Self { rpms: vec![rpm.to_owned()], nodes, left_out: Vec::new() }))
    }

    /// Adds the files of another RPM. Files that both RPMs have must be identical.
    pub fn merge(&mut self, other: Payload) -> Result<(), WheelError> {
        for (path, node) in other.nodes {
            if let Some(mine) = self.nodes.get(&path) {
                let same = match (mine, &node) {
                    (Node::File(a), Node::File(b)) => a.sha256 == b.sha256,
                    (a, b) => a == b,
                };
                if !same {
                    let (a, b) = (self.rpms[0].display(), &other.rpms[0]);
                    return Err(WheelError::file(
                        b,
                        &path,
                        &format!("it differs from the file in {a}"),
                    ));
                }
            } else {
                self.nodes.insert(path, node);
            }
        }
        self.rpms.extend(other.rpms);
        Ok(())
    }

    /// Returns the place of the file with this absolute path.
    pub(super) fn place<'a>(&self, path: &'a str) -> WheelDestination<'a> {
        match self.left_out.iter().any(|pattern| covers(pattern, path)) {
            true => WheelDestination::Dropped,
            false => layout::place(path),
        }
    }

    /// Returns the RPM to name in errors about the whole payload.
    pub(super) fn rpm(&self) -> &Path {
        self.rpms.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// Follows a link to its final target. Returns `None` if the target is outside the payload or
    /// the links form a cycle.
    pub fn follow(&self, link: &str) -> Option<Target> {
        let mut path = link.to_owned();
        for _ in 0..MAX_LINKS {
            match self.nodes.get(&path) {
                Some(Node::File(stored)) => return Some(Target::File(path, *stored)),
                Some(Node::Link(target)) => path = join(&path, target)?,
                None => match self.link_above(&path) {
                    Some((above, target)) => path = join(above, target)? + &path[above.len()..],
                    None if self.below(&path).next().is_some() => {
                        return Some(Target::Folder(path));
                    }
                    None => return None,
                },
            }
        }
        None
    }

    /// Returns the outermost parent folder of this path that is a link.
    fn link_above<'a>(&'a self, path: &'a str) -> Option<(&'a str, &'a str)> {
        path.match_indices('/').skip(1).find_map(|(at, _)| match self.nodes.get(&path[..at]) {
            Some(Node::Link(target)) => Some((&path[..at], target.as_str())),
            _ => None,
        })
    }

    /// Returns all files and links below a folder.
    pub fn below<'a>(
        &'a self,
        folder: &str,
    ) -> impl Iterator<Item = (&'a String, &'a Node)> + use<'a> {
        let start = format!("{folder}/");
        self.nodes.range(start.clone()..).take_while(move |(path, _)| path.starts_with(&start))
    }
}

/// Hard links, by the number that all names of a content share: the names that the payload has
/// without content, and the contents.
#[derive(Default)]
struct HardLinks {
    waiting: Vec<(usize, PayloadEntry)>,
    contents: BTreeMap<usize, Stored>,
}

/// Checks a content against the size and digest in the RPM's header.
fn check_content(entry: &PayloadEntry, stored: &Stored) -> Result<(), String> {
    if stored.size != entry.size {
        return Err(format!("it has {} bytes, but the header lists {}", stored.size, entry.size));
    }
    match entry.sha256 {
        Some(digest) if digest != stored.sha256 => Err(format!(
            "the content differs from the header: its SHA-256 is {}, expected {digest}",
            stored.sha256
        )),
        _ => Ok(()),
    }
}

/// Resolves a link's target, including `.` and `..`. Returns `None` if the target is the root or
/// above it.
pub fn join(link: &str, target: &str) -> Option<String> {
    let folder = link.rsplit_once('/').map_or("", |(folder, _)| folder);
    let whole =
        if target.starts_with('/') { target.to_owned() } else { format!("{folder}/{target}") };
    let mut parts = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| format!("/{}", parts.join("/")))
}

/// Checks that any system can unpack a path of the payload.
pub fn check_path(path: &str) -> Result<(), &'static str> {
    let rest = path.strip_prefix('/').ok_or("the path is not absolute")?;
    if path.contains('\u{fffd}') {
        return Err("the path is not UTF-8");
    }
    if path.contains(|c: char| c.is_control() || c == '\\') {
        return Err("the path has a control character or a backslash");
    }
    // RPMs contain neither the root folder itself nor folders with a trailing slash.
    if rest.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err("the path has an empty part, `.` or `..`");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(nodes: &[(&str, Option<&str>)]) -> Payload {
        let stored = Stored { offset: 0, size: 0, sha256: Sha256::of_bytes(""), executable: false };
        let node = |link: &Option<&str>| match link {
            Some(target) => Node::Link((*target).to_owned()),
            None => Node::File(stored),
        };
        let nodes = nodes.iter().map(|(path, link)| ((*path).to_owned(), node(link))).collect();
        Payload { rpms: Vec::new(), nodes, left_out: Vec::new() }
    }

    fn end(payload: &Payload, link: &str) -> Option<String> {
        match payload.follow(link)? {
            Target::File(path, _) => Some(path),
            Target::Folder(path) => Some(path + "/"),
        }
    }

    #[test]
    fn follows_links_through_folders() {
        let payload = payload(&[
            ("/usr/lib/a/x", None),
            ("/usr/lib/b", Some("a")),
            ("/usr/lib/c", Some("/usr/lib/./b/../b/x")),
            ("/usr/bin/d", Some("../lib/c")),
            ("/usr/bin/e", Some("../lib/b")),
        ]);
        assert_eq!(end(&payload, "/usr/lib/c").as_deref(), Some("/usr/lib/a/x"));
        assert_eq!(end(&payload, "/usr/bin/d").as_deref(), Some("/usr/lib/a/x"));
        assert_eq!(end(&payload, "/usr/bin/e").as_deref(), Some("/usr/lib/a/"));
    }

    #[test]
    fn ignores_external_and_cyclic_links() {
        let payload = payload(&[
            ("/usr/a", Some("/etc/passwd")),
            ("/usr/b", Some("../../..")),
            ("/usr/c", Some("d")),
            ("/usr/d", Some("c")),
            ("/usr/e", Some("e/x")),
            ("/usr/f", Some("")),
        ]);
        for link in ["/usr/a", "/usr/b", "/usr/c", "/usr/e"] {
            assert_eq!(end(&payload, link), None, "{link}");
        }
    }

    #[test]
    fn rejects_unsafe_paths() {
        assert_eq!(check_path("/usr/lib/a b,\"ä.py"), Ok(()));
        for bad in [
            "usr/a",
            "",
            "/",
            "/usr/../a",
            "/usr//a",
            "/usr/./a",
            "/usr/a/",
            "/a\nb",
            "/a\\b",
            "/a\u{fffd}",
        ] {
            assert!(check_path(bad).is_err(), "{bad:?}");
        }
    }
}
