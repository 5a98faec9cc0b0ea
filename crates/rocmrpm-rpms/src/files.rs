//! The list of files in an RPM's header, and the lookup of the file for a member of the payload.
//! The lookup by name takes constant time, so a package may have any number of files.

use std::collections::HashMap;

use rpm::{FileFlags, FileType, IndexTag, PackageMetadata};

use super::payload::Member;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::text::visible;

/// `PATH_MAX` on Linux.
const MAX_PATH: usize = 4096;

/// A file of an RPM's payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadEntry {
    /// The absolute path on the installed system.
    pub path: String,
    /// The permission bits.
    pub permissions: u16,
    /// The size in bytes, as stated in the header.
    pub size: u64,
    /// The type of the file.
    pub kind: EntryKind,
    /// The SHA-256 digest of a regular file, as stated in the header (`FILEDIGESTS`); `None` if it
    /// is missing or uses another algorithm.
    pub sha256: Option<Sha256>,
    /// A number shared by all files that are hard links to each other; `None` for a file with a
    /// single name.
    pub hard_link: Option<usize>,
}

/// The type of a payload entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file with content.
    Regular,
    /// A regular file that is listed but not in the payload (`%ghost`).
    Ghost,
    /// A symbolic link with its target, verbatim.
    Symlink(String),
    /// A folder.
    Directory,
    /// A device, socket or pipe.
    Special,
}

/// The files of a package.
pub(super) struct Files {
    entries: Vec<PayloadEntry>,
    numbers: HashMap<String, usize>,
    /// For a payload without sizes of its own, the number of bytes it has of each file.
    sizes: Vec<u64>,
    seen: Vec<bool>,
}

impl Files {
    /// Reads the list from the header.
    pub(super) fn of(metadata: &PackageMetadata) -> Result<Self, rpm::Error> {
        let numbers = |tag| metadata.header.get_entry_data_as_u32_array(tag).unwrap_or_default();
        let (devices, inodes) =
            (numbers(IndexTag::RPMTAG_FILEDEVICES), numbers(IndexTag::RPMTAG_FILEINODES));
        let mut files = Self {
            entries: Vec::new(),
            numbers: HashMap::new(),
            sizes: Vec::new(),
            seen: Vec::new(),
        };
        // The last of a set of hard links has the content (rpm, `rpmfilesBuildNLink` and
        // `rpmfiArchiveHasContent` in lib/rpmfi.c).
        let mut links = HashMap::new();
        metadata.for_each_file_entry(|file| {
            let number = files.entries.len();
            let path = file.path();
            if path.as_os_str().len() > MAX_PATH {
                return Err(rpm::Error::Nom(format!(
                    "file {number} has a path of {} bytes",
                    path.as_os_str().len()
                )));
            }
            let path = path.to_string_lossy().into_owned();
            let size = file.size() as u64;
            let ghost = file.flags().contains(FileFlags::GHOST);
            let kind = match file.file_type() {
                _ if ghost => EntryKind::Ghost,
                FileType::Dir => EntryKind::Directory,
                FileType::SymbolicLink => {
                    EntryKind::Symlink(file.linkto().unwrap_or_default().to_owned())
                }
                FileType::Regular => EntryKind::Regular,
                _ => EntryKind::Special,
            };
            let stored = match kind {
                EntryKind::Regular | EntryKind::Symlink(_) => size,
                _ => 0,
            };
            let mut hard_link = None;
            if kind == EntryKind::Regular
                && let (Some(device), Some(inode)) = (devices.get(number), inodes.get(number))
                && let Some(earlier) = links.insert((*device, *inode), number)
            {
                files.sizes[earlier] = 0;
                // The number of the first hard link of the set.
                hard_link = Some(*files.entries[earlier].hard_link.get_or_insert(earlier));
            }
            // format_v4.md, "File information": FILEDIGESTALGO is the algorithm of the digests.
            let digest =
                file.digest().filter(|digest| digest.algorithm() == rpm::DigestAlgorithm::Sha2_256);
            let sha256 = digest.and_then(|digest| Sha256::parse(digest.as_hex()));
            files.numbers.entry(inside(&path).to_owned()).or_insert(number);
            let permissions = file.permissions();
            files.entries.push(PayloadEntry { path, permissions, size, kind, sha256, hard_link });
            files.sizes.push(stored);
            Ok(())
        })?;
        files.seen = vec![false; files.entries.len()];
        Ok(files)
    }

    /// Returns the files in the order of the header.
    pub(super) fn into_entries(self) -> Vec<PayloadEntry> {
        self.entries
    }

    /// Returns whether the package has no files.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the file of a member, and the number of its bytes in the payload.
    pub(super) fn take(&mut self, member: Member) -> Result<(&PayloadEntry, u64), String> {
        let (number, size) = match member {
            Member::Numbered(number) => match self.sizes.get(number) {
                Some(size) => (number, *size),
                None => {
                    return Err(format!(
                        "the payload has file number {number}, but the header lists only {}",
                        self.sizes.len()
                    ));
                }
            },
            Member::Named(name, size) => match self.numbers.get(inside(&name)) {
                Some(number) => (*number, size),
                None => {
                    return Err(format!(
                        "the payload has a file `{}` that the header does not list",
                        visible(&name)
                    ));
                }
            },
        };
        let entry = &self.entries[number];
        if std::mem::replace(&mut self.seen[number], true) {
            return Err(format!("the payload has the file `{}` twice", visible(&entry.path)));
        }
        Ok((entry, size))
    }

    /// Returns an error for the first file that is missing from the payload.
    pub(super) fn missing(&self) -> Option<String> {
        let mut files = self.entries.iter().zip(&self.seen);
        let (entry, _) = files.find(|(entry, seen)| !**seen && entry.kind != EntryKind::Ghost)?;
        Some(format!("the payload ends without `{}`", visible(&entry.path)))
    }

    /// Returns the files that are not in the payload.
    pub(super) fn ghosts(&self) -> impl Iterator<Item = &PayloadEntry> {
        self.entries.iter().zip(&self.seen).filter(|(_, seen)| !**seen).map(|(entry, _)| entry)
    }
}

/// Returns a path in the form that is common to the payload and the header: `./usr/a`, `/usr/a` and
/// `usr/a` are equal.
fn inside(path: &str) -> &str {
    path.strip_prefix("./").or_else(|| path.strip_prefix('/')).unwrap_or(path)
}
