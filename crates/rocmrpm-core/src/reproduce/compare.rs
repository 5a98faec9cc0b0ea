//! Compares two sets of RPMs package by package: header tags, file lists and file contents. It does
//! not explain differences in content; `content` does.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::content::{self, BuildFolders, Cause, Content};
use crate::digest::Sha256;
use crate::error::{Error, IoError};
use crate::rpms::tags::{Tags, tag_name};
use crate::rpms::{self, EntryKind, PayloadEntry, RpmError};

/// Maximum size of a file to search for differences, in bytes.
const MAX_COMPARED: u64 = 512 << 20;

/// Maximum number of characters of a value to show.
const MAX_SHOWN: usize = 200;

/// Tags with the time and place of the build, which may legitimately differ.
const OF_THE_BUILD: &[u32] = &[1006, 1007, 1094];

/// The header region tag, and tags derived from files: sizes, digests, classes, the digest of the
/// compressed payload. Files are compared individually instead.
const OF_THE_FILES: &[u32] = &[
    63, 1009, 1028, 1029, 1030, 1033, 1034, 1035, 1036, 1037, 1039, 1040, 1045, 1095, 1096, 1097,
    1116, 1117, 1118, 1140, 1141, 1142, 1143, 1144, 1145, 5008, 5009, 5010, 5092, 5097, 5112, 5113,
];

const FILE_MTIMES: u32 = 1034;
const FILE_FLAGS: u32 = 1037;
const FILE_USER: u32 = 1039;
const FILE_GROUP: u32 = 1040;
const FILE_CAPS: u32 = 5010;
/// The digests of the compressed and uncompressed payload.
const PAYLOAD: [u32; 2] = [5097, 5092];

/// Two versions of one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// A tag, or a property of a file.
    pub what: String,
    /// The value of the earlier build, shortened if long.
    pub old: String,
    /// The value of the new build, shortened if long.
    pub new: String,
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileDifference {
    /// Its path on an installed system.
    pub path: String,
    /// The properties that differ; `sha256` if the content differs.
    pub differences: Vec<Difference>,
    /// Details of the content, if it differs.
    #[serde(flatten)]
    pub content: Content,
}

/// A package of both builds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Package {
    /// The RPM's file name.
    pub rpm: String,
    /// Whether both RPM files are byte-for-byte identical.
    pub same_bytes: bool,
    /// The number of identical files.
    pub same_files: usize,
    /// Header tags that differ, except those about the time and the machine of the build.
    pub tags: Vec<Difference>,
    /// Files that only the earlier package has.
    pub files_removed: Vec<String>,
    /// Files that only the new package has.
    pub files_added: Vec<String>,
    /// Files that differ.
    pub files: Vec<FileDifference>,
}

impl Package {
    /// Returns whether nothing differs that affects a user.
    pub fn same(&self) -> bool {
        self.tags.is_empty()
            && self.files_removed.is_empty()
            && self.files_added.is_empty()
            && self.files.is_empty()
    }
}

/// Two sets of packages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compared {
    /// RPMs that only the earlier build made.
    pub rpms_removed: Vec<String>,
    /// RPMs that only the new build made.
    pub rpms_added: Vec<String>,
    /// The packages that both builds made.
    pub packages: Vec<Package>,
}

impl Compared {
    /// Returns whether nothing differs that affects a user.
    pub fn same(&self) -> bool {
        self.rpms_removed.is_empty()
            && self.rpms_added.is_empty()
            && self.packages.iter().all(Package::same)
    }

    /// Returns the likely causes of all differences without duplicates.
    pub fn causes(&self) -> BTreeSet<Cause> {
        let files = self.packages.iter().flat_map(|package| &package.files);
        files.flat_map(|file| file.content.causes.iter().copied()).collect()
    }
}

/// Compares two sets of RPMs; RPMs of the same name are the same package. `scratch` is an existing
/// folder for copies of differing files.
pub fn compare(
    old: &[PathBuf],
    new: &[PathBuf],
    places: BuildFolders<'_>,
    scratch: &Path,
) -> Result<Compared, Error> {
    let named = |rpms: &[PathBuf]| -> BTreeMap<String, PathBuf> {
        let name =
            |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        rpms.iter().map(|path| (name(path), path.clone())).collect()
    };
    let (old, new) = (named(old), named(new));
    let missing = |from: &BTreeMap<String, PathBuf>, other: &BTreeMap<String, PathBuf>| {
        from.keys().filter(|name| !other.contains_key(*name)).cloned().collect()
    };
    let mut compared = Compared {
        rpms_removed: missing(&old, &new),
        rpms_added: missing(&new, &old),
        packages: Vec::new(),
    };
    for (name, before) in &old {
        if let Some(now) = new.get(name) {
            let package = package(before, now, places, scratch)?;
            compared.packages.push(Package { rpm: name.clone(), ..package });
        }
    }
    Ok(compared)
}

fn package(
    old: &Path,
    new: &Path,
    places: BuildFolders<'_>,
    scratch: &Path,
) -> Result<Package, Error> {
    let (before, now) = (ComparedPackage::read(old)?, ComparedPackage::read(new)?);
    if before.sha256 == now.sha256 {
        return Ok(Package {
            same_bytes: true,
            same_files: before.files.len(),
            ..Package::default()
        });
    }
    let mut package = Package::default();
    let mut unlike = BTreeSet::new();
    for (path, file) in &before.files {
        match now.files.get(path) {
            None => package.files_removed.push(path.clone()),
            Some(other) => match file.differences(other) {
                differences if differences.is_empty() => package.same_files += 1,
                differences => {
                    if file.content != other.content {
                        unlike.insert(path.clone());
                    }
                    let content = Content::default();
                    package.files.push(FileDifference { path: path.clone(), differences, content });
                }
            },
        }
    }
    package.files_added =
        now.files.keys().filter(|path| !before.files.contains_key(*path)).cloned().collect();
    look_into(&mut package, [old, new], &unlike, places, scratch)?;
    let tags: BTreeSet<u32> = before.tags.0.keys().chain(now.tags.0.keys()).copied().collect();
    for tag in tags {
        if OF_THE_BUILD.contains(&tag) || OF_THE_FILES.contains(&tag) {
            continue;
        }
        package.tags.extend(difference(
            &tag_name(tag),
            before.tags.0.get(&tag),
            now.tags.0.get(&tag),
        ));
    }
    if package.same() {
        // All files are identical, but the payload may still differ.
        let tag = PAYLOAD.into_iter().find(|tag| before.tags.0.get(tag) != now.tags.0.get(tag));
        let payload =
            |tag: u32| difference(&tag_name(tag), before.tags.0.get(&tag), now.tags.0.get(&tag));
        package.tags.extend(tag.and_then(payload));
    }
    Ok(package)
}

fn difference<T: PartialEq + ToString>(
    what: &str,
    old: Option<&T>,
    new: Option<&T>,
) -> Option<Difference> {
    let shown = |value: Option<&T>| match value {
        None => "none".to_owned(),
        Some(value) => shortened(&value.to_string()),
    };
    (old != new).then(|| Difference { what: what.to_owned(), old: shown(old), new: shown(new) })
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The compared properties of a file.
#[derive(Debug, PartialEq)]
struct File {
    kind: &'static str,
    target: String,
    permissions: u16,
    owner: String,
    group: String,
    capabilities: String,
    flags: u64,
    time: u64,
    content: Option<Sha256>,
}

impl File {
    fn differences(&self, new: &Self) -> Vec<Difference> {
        let octal = |mode: u16| format!("{mode:04o}");
        let digest = |file: &Self| file.content.map(|digest| digest.to_string());
        let pairs = [
            ("kind", self.kind.to_owned(), new.kind.to_owned()),
            ("target", self.target.clone(), new.target.clone()),
            ("mode", octal(self.permissions), octal(new.permissions)),
            ("owner", self.owner.clone(), new.owner.clone()),
            ("group", self.group.clone(), new.group.clone()),
            ("capabilities", self.capabilities.clone(), new.capabilities.clone()),
            ("flags", self.flags.to_string(), new.flags.to_string()),
            ("time", self.time.to_string(), new.time.to_string()),
            ("sha256", digest(self).unwrap_or_default(), digest(new).unwrap_or_default()),
        ];
        let differing = pairs.into_iter().filter(|(_, old, new)| old != new);
        differing
            .map(|(what, old, new)| Difference {
                what: what.to_owned(),
                old: shortened(&old),
                new: shortened(&new),
            })
            .collect()
    }
}

/// One of the two packages.
struct ComparedPackage {
    sha256: Sha256,
    tags: Tags,
    files: BTreeMap<String, File>,
}

impl ComparedPackage {
    fn read(path: &Path) -> Result<Self, Error> {
        let (sha256, _) = Sha256::of_file(path).map_err(IoError::doing("read an RPM"))?;
        let tags = Tags::read(path)?;
        // The entries are in header order, like the tags.
        let (_, entries) = rpms::files(path)?;
        let text = |tag: u32, at: usize| tags.texts(tag).get(at).cloned().unwrap_or_default();
        let number = |tag: u32, at: usize| tags.numbers(tag).get(at).copied().unwrap_or_default();
        let mut files = BTreeMap::new();
        for (at, entry) in entries.into_iter().enumerate() {
            let (kind, target) = match entry.kind {
                EntryKind::Regular => ("file", String::new()),
                EntryKind::Ghost => ("ghost", String::new()),
                EntryKind::Symlink(target) => ("link", target),
                EntryKind::Directory => ("folder", String::new()),
                EntryKind::Special => ("device", String::new()),
            };
            let file = File {
                kind,
                target,
                permissions: entry.permissions,
                owner: text(FILE_USER, at),
                group: text(FILE_GROUP, at),
                capabilities: text(FILE_CAPS, at),
                flags: number(FILE_FLAGS, at),
                time: number(FILE_MTIMES, at),
                // The last hard link has the content; the header has the digest of all links.
                content: entry.sha256.filter(|_| entry.hard_link.is_some()),
            };
            files.insert(entry.path, file);
        }
        rpms::for_each_file::<RpmError>(path, |entry, content| {
            if entry.kind == EntryKind::Regular
                && entry.hard_link.is_none()
                && let Some(file) = files.get_mut(&entry.path)
            {
                file.content = Some(Sha256::of_reader(content)?.0);
            }
            Ok(())
        })?;
        Ok(Self { sha256, tags, files })
    }
}

/// Determines the differences inside files.
fn look_into(
    package: &mut Package,
    sides: [&Path; 2],
    unlike: &BTreeSet<String>,
    places: BuildFolders<'_>,
    scratch: &Path,
) -> Result<(), Error> {
    let copies = tempfile::Builder::new().prefix("differences-").tempdir_in(scratch);
    let copies = copies.map_err(IoError::doing("create a folder for differing files"))?;
    let copy = |side: usize, number: usize| copies.path().join(format!("{side}-{number}"));
    let number = |entry: &PayloadEntry| unlike.iter().position(|path| *path == entry.path);
    for (side, rpm) in sides.into_iter().enumerate() {
        rpms::for_each_file::<RpmError>(rpm, |entry, content| {
            let wanted = entry.kind == EntryKind::Regular && entry.size <= MAX_COMPARED;
            if let Some(number) = number(entry).filter(|_| wanted) {
                let mut file = fs_err::File::create(copy(side, number))?;
                io::copy(content, &mut file)?;
                file.flush()?;
            }
            Ok(())
        })?;
    }
    for (number, path) in unlike.iter().enumerate() {
        let bytes = [copy(0, number), copy(1, number)].map(fs_err::read);
        let file = package.files.iter_mut().find(|file| file.path == *path);
        // A side is missing if the file is too large or is a hard link.
        if let (Some(file), [Ok(old), Ok(new)]) = (file, bytes) {
            file.content = content::compare(&old, &new, places);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Demo<'a> {
        time: u32,
        text: &'a str,
        mode: u16,
        owner: &'a str,
        requires: &'a str,
    }

    const DEMO: Demo<'_> =
        Demo { time: 1_000, text: "x\n", mode: 0o644, owner: "root", requires: "a" };

    fn rpm(dir: &Path, demo: &Demo<'_>) -> PathBuf {
        let mut builder = rpm::PackageBuilder::new("demo", "1", "MIT", "noarch", "a demo");
        let options =
            rpm::FileOptions::new("/usr/share/demo/a").permissions(demo.mode).user(demo.owner);
        builder.with_file_contents(demo.text, options).unwrap();
        builder.with_symlink(rpm::FileOptions::symlink("/usr/share/demo/b", "a")).unwrap();
        builder.requires(rpm::Dependency::any(demo.requires));
        builder.using_config(rpm::BuildConfig::v4().source_date(demo.time));
        fs_err::create_dir_all(dir).unwrap();
        let path = dir.join("demo-1-1.noarch.rpm");
        builder.build().unwrap().write_file(&path).unwrap();
        path
    }

    fn compared(old: &Demo<'_>, new: &Demo<'_>) -> Package {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (rpm(&dir.path().join("old"), old), rpm(&dir.path().join("new"), new));
        let places = BuildFolders { old: &[], new: &[] };
        let mut compared = compare(&[old], &[new], places, dir.path()).unwrap();
        compared.packages.remove(0)
    }

    #[test]
    fn identical_packages_have_no_differences() {
        let same = compared(&DEMO, &DEMO);
        assert!(same.same() && same.same_bytes, "{same:?}");
        assert_eq!(same.same_files, 2);
    }

    #[test]
    fn reports_every_kind_of_difference() {
        let what = |new: Demo<'_>| {
            let package = compared(&DEMO, &new);
            assert!(!package.same() && !package.same_bytes);
            let mut what: Vec<String> = package.tags.iter().map(|tag| tag.what.clone()).collect();
            let files = package.files.iter();
            what.extend(
                files.flat_map(|f| f.differences.iter().map(|d| format!("{} {}", f.path, d.what))),
            );
            what
        };
        let a = |what: &str| vec![format!("/usr/share/demo/a {what}")];
        assert_eq!(what(Demo { text: "y\n", ..DEMO }), a("sha256"));
        assert_eq!(what(Demo { mode: 0o755, ..DEMO }), a("mode"));
        // The `rpm` crate also adds a recommendation for the owner.
        assert!(what(Demo { owner: "games", ..DEMO }).ends_with(&a("owner")));
        assert_eq!(what(Demo { requires: "b", ..DEMO }), ["Requires"]);
    }

    #[test]
    fn reports_packages_of_only_one_build() {
        let dir = tempfile::tempdir().unwrap();
        let path = rpm(&dir.path().join("old"), &DEMO);
        let places = BuildFolders { old: &[], new: &[] };
        let gone = compare(std::slice::from_ref(&path), &[], places, dir.path()).unwrap();
        assert!(!gone.same());
        assert_eq!(gone.rpms_removed, ["demo-1-1.noarch.rpm"]);
        assert_eq!(
            compare(&[], &[path], places, dir.path()).unwrap().rpms_added,
            ["demo-1-1.noarch.rpm"]
        );
    }
}
