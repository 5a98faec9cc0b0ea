//! Packs workspace folders and the output of `git archive` as reproducible `.tar.gz` files, and
//! calculates the digest of a folder. It does not fetch anything.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use flate2::{Compression, GzBuilder};
use fs_err as fs;
use sha2::Digest as _;
use walkdir::{DirEntry, WalkDir};

use super::SourceError;
use crate::digest::Sha256;
use crate::error::IoError;

/// A file or link to pack.
struct Member {
    /// The path relative to the folder.
    path: PathBuf,
    what: PackedKind,
}

enum PackedKind {
    File { executable: bool },
    Link { target: PathBuf },
}

/// The files of a folder to pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which<'a> {
    /// Only sources, in these files and folders if there are any.
    Sources(&'a [String]),
    /// All files.
    All,
}

/// Lists the source files and links in a folder, sorted by name. Ignores empty folders like git so
/// that a fresh clone gives the same archive.
///
/// [`Which::All`] includes generated files: crates have digests of all their files.
fn members(folder: &Path, component: &str, which: Which<'_>) -> Result<Vec<Member>, SourceError> {
    let wrong =
        |path, problem| SourceError::Folder { path, component: component.to_owned(), problem };
    match std::fs::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(wrong(folder.to_owned(), "does not exist"));
        }
        Ok(meta) if !meta.is_dir() => return Err(wrong(folder.to_owned(), "is not a folder")),
        _ => {}
    }
    let parts = match which {
        Which::Sources(paths) => paths,
        Which::All => &[],
    };
    if parts.is_empty() {
        let members = walk(folder, folder, which)?;
        return if members.is_empty() {
            Err(wrong(folder.to_owned(), "has no files"))
        } else {
            Ok(members)
        };
    }
    // One order and one copy of each file, however the pin lists them.
    let mut all = BTreeMap::new();
    for part in parts {
        let from = folder.join(part);
        if std::fs::symlink_metadata(&from)
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        {
            return Err(wrong(from, "does not exist"));
        }
        let members = walk(folder, &from, which)?;
        if members.is_empty() {
            return Err(wrong(from, "has no files"));
        }
        all.extend(members.into_iter().map(|Member { path, what }| (path, what)));
    }
    Ok(all.into_iter().map(|(path, what)| Member { path, what }).collect())
}

/// Lists the files and links of `folder` at or below `from`, sorted by name.
fn walk(folder: &Path, from: &Path, which: Which<'_>) -> Result<Vec<Member>, SourceError> {
    let mut members = Vec::new();
    let walk = WalkDir::new(from).follow_root_links(from == folder).sort_by_file_name().into_iter();
    for entry in walk.filter_entry(|entry| which == Which::All || is_source(entry)) {
        let entry =
            entry.map_err(|e| IoError::doing(format!("read {}", from.display()))(e.into()))?;
        // Entries of a walk start with its root.
        let Ok(path) = entry.path().strip_prefix(folder).map(Path::to_owned) else { continue };
        let kind = entry.file_type();
        let what = if kind.is_dir() {
            continue;
        } else if kind.is_symlink() {
            let target = fs::read_link(entry.path()).map_err(IoError::doing("pack a folder"))?;
            if !stays_inside(&path, &target) {
                let problem = format!(
                    "it is a link to {}, outside of {}",
                    target.display(),
                    folder.display()
                );
                return Err(SourceError::Unpackable { path: entry.path().to_owned(), problem });
            }
            PackedKind::Link { target }
        } else if kind.is_file() {
            let meta = fs::metadata(entry.path()).map_err(IoError::doing("pack a folder"))?;
            PackedKind::File { executable: meta.permissions().mode() & 0o100 != 0 }
        } else {
            let problem = "it is not a file, a folder or a link".to_owned();
            return Err(SourceError::Unpackable { path: entry.path().to_owned(), problem });
        };
        members.push(Member { path, what });
    }
    Ok(members)
}

/// Returns whether an entry is a source and not a build artifact.
fn is_source(entry: &DirEntry) -> bool {
    let top_build =
        entry.depth() == 1 && entry.file_name() == "build" && entry.file_type().is_dir();
    // The walk starts at a folder that the pin names.
    entry.depth() == 0 || !top_build && is_source_name(entry.file_name())
}

fn is_source_name(name: &OsStr) -> bool {
    !(name == "__pycache__" || name == ".git" || name.as_bytes().ends_with(b".pyc"))
}

/// Returns whether a file is packed as part of a source folder; both paths are relative to the same
/// folder.
pub fn is_packed(path: &str, folder: &str) -> bool {
    let Ok(inside) = Path::new(path).strip_prefix(folder) else { return false };
    let top_build = inside.components().count() > 1 && inside.starts_with("build");
    !top_build && inside.iter().all(is_source_name)
}

/// Returns whether the target of a link at `path` is in the same folder.
fn stays_inside(path: &Path, target: &Path) -> bool {
    let mut depth = path.components().count() as isize - 1;
    for component in target.components() {
        match component {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir => depth -= 1,
            Component::RootDir | Component::Prefix(_) => return false,
        }
        if depth < 0 {
            return false;
        }
    }
    true
}

/// A digest of members: paths, executable bits, content.
#[derive(Default)]
struct Content(sha2::Sha256);

impl Content {
    /// Adds a part and its length so that different folders never give the same input.
    fn part(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn file(&mut self, path: &Path, executable: bool, content: &Sha256) {
        self.part(path.as_os_str().as_bytes());
        self.part(if executable { b"x" } else { b"f" });
        self.part(content.as_bytes());
    }

    fn link(&mut self, path: &Path, target: &Path) {
        self.part(path.as_os_str().as_bytes());
        self.part(b"l");
        self.part(target.as_os_str().as_bytes());
    }

    fn digest(self) -> Sha256 {
        Sha256::of_bytes(self.0.finalize())
    }
}

/// Returns a digest of what [`folder`] would pack: paths, executable bits, content.
pub(super) fn digest(
    folder: &Path,
    component: &str,
    which: Which<'_>,
) -> Result<Sha256, SourceError> {
    let mut content = Content::default();
    for Member { path, what } in members(folder, component, which)? {
        match what {
            PackedKind::File { executable } => {
                let (digest, _) = Sha256::of_file(&folder.join(&path))
                    .map_err(IoError::doing("read a source folder"))?;
                content.file(&path, executable, &digest);
            }
            PackedKind::Link { target } => content.link(&path, &target),
        }
    }
    Ok(content.digest())
}

/// Packs a folder into `to` with the top folder `prefix`; all members get the time `mtime`, in
/// seconds since 1970. Returns a digest of the packed content, which differs from [`digest`] if a
/// file changed in the meantime.
pub(super) fn folder(
    folder: &Path,
    component: &str,
    which: Which<'_>,
    prefix: &str,
    mtime: u64,
    to: &Path,
) -> Result<Sha256, SourceError> {
    let action = || IoError::doing(format!("pack {}", folder.display()));
    let mut packed = Content::default();
    let mut builder = tar::Builder::new(gzip(to)?);
    for Member { path, what } in members(folder, component, which)? {
        let (place, name) = (folder.join(&path), Path::new(prefix).join(&path));
        let mut header = tar::Header::new_gnu();
        header.set_mtime(mtime);
        header.set_uid(0);
        header.set_gid(0);
        match what {
            PackedKind::File { executable } => {
                let file = fs::File::open(&place).map_err(action())?;
                let size = file.metadata().map_err(action())?.len();
                header.set_mode(if executable { 0o755 } else { 0o644 });
                header.set_size(size);
                let mut content = Hashing { source: file.take(size), hasher: Sha256::hasher() };
                builder.append_data(&mut header, name, &mut content).map_err(action())?;
                if content.source.limit() > 0 {
                    let problem = "it shrank while it was read".to_owned();
                    return Err(SourceError::Unpackable { path: place, problem });
                }
                packed.file(&path, executable, &Sha256::from(content.hasher));
            }
            PackedKind::Link { target } => {
                packed.link(&path, &target);
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_mode(0o777);
                header.set_size(0);
                builder.append_link(&mut header, name, target).map_err(action())?;
            }
        }
    }
    let gzip = builder.into_inner().map_err(action())?;
    finish(gzip).map_err(action())?;
    Ok(packed.digest())
}

/// Hashes everything that is read from `source`.
struct Hashing<R> {
    source: R,
    hasher: sha2::Sha256,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

/// Compresses a tar file into `to`.
pub(super) fn compress(tar: &Path, to: &Path) -> Result<(), SourceError> {
    let action = || IoError::doing(format!("compress {}", tar.display()));
    let mut gzip = gzip(to)?;
    io::copy(&mut fs::File::open(tar).map_err(action())?, &mut gzip).map_err(action())?;
    finish(gzip).map_err(action())?;
    Ok(())
}

type Gzip = flate2::write::GzEncoder<io::BufWriter<fs::File>>;

/// Returns a gzip stream without timestamp and origin.
fn gzip(to: &Path) -> Result<Gzip, SourceError> {
    let file = fs::File::create(to).map_err(IoError::doing("pack a source"))?;
    Ok(GzBuilder::new().mtime(0).write(io::BufWriter::new(file), Compression::default()))
}

fn finish(gzip: Gzip) -> io::Result<()> {
    gzip.finish()?.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(dir: &Path) {
        for (path, text) in [
            ("b.py", "b"),
            ("a/x.sh", "run"),
            ("build/out", "no"),
            ("a/build/keep", "yes"),
            ("a/y.pyc", "no"),
        ] {
            crate::files::write_atomically(&dir.join(path), text).unwrap();
        }
        for path in ["a/__pycache__/z", ".git/config"] {
            crate::files::write_atomically(&dir.join(path), "no").unwrap();
        }
        fs::set_permissions(dir.join("a/x.sh"), PermissionsExt::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink("../b.py", dir.join("a/link")).unwrap();
    }

    fn pack(dir: &Path) -> Vec<u8> {
        let out = tempfile::NamedTempFile::new().unwrap();
        let packed = folder(dir, "demo", Which::Sources(&[]), "demo-1", 5, out.path()).unwrap();
        assert_eq!(packed, digest(dir, "demo", Which::Sources(&[])).unwrap());
        fs::read(out.path()).unwrap()
    }

    #[test]
    fn same_content_gives_same_bytes() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        sample(one.path());
        sample(two.path());
        // Times, empty folders and permission bits unknown to git have no effect.
        fs::set_permissions(two.path().join("b.py"), PermissionsExt::from_mode(0o600)).unwrap();
        fs::create_dir(two.path().join("empty")).unwrap();
        let (bytes, id) =
            (pack(one.path()), digest(one.path(), "demo", Which::Sources(&[])).unwrap());
        assert_eq!(bytes, pack(two.path()));
        assert_eq!(id, digest(two.path(), "demo", Which::Sources(&[])).unwrap());

        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
        let listed: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|e| {
                let e = e.unwrap();
                let header = e.header();
                assert_eq!(
                    (header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap()),
                    (0, 0, 5)
                );
                (e.path().unwrap().display().to_string(), header.mode().unwrap())
            })
            .collect();
        let expected = [
            ("demo-1/a/build/keep", 0o644),
            ("demo-1/a/link", 0o777),
            ("demo-1/a/x.sh", 0o755),
            ("demo-1/b.py", 0o644),
        ];
        assert_eq!(listed, expected.map(|(p, m)| (p.to_owned(), m)));
    }

    #[test]
    fn digest_covers_the_content() {
        let dir = tempfile::tempdir().unwrap();
        sample(dir.path());
        let mut seen =
            std::collections::BTreeSet::from([
                digest(dir.path(), "demo", Which::Sources(&[])).unwrap()
            ]);
        fs::write(dir.path().join("b.py"), "c").unwrap();
        assert!(seen.insert(digest(dir.path(), "demo", Which::Sources(&[])).unwrap()), "bytes");
        fs::rename(dir.path().join("b.py"), dir.path().join("c.py")).unwrap();
        assert!(seen.insert(digest(dir.path(), "demo", Which::Sources(&[])).unwrap()), "name");
        fs::set_permissions(dir.path().join("c.py"), PermissionsExt::from_mode(0o755)).unwrap();
        assert!(seen.insert(digest(dir.path(), "demo", Which::Sources(&[])).unwrap()), "mode");
        fs::write(dir.path().join("a/new.pyc"), "c").unwrap();
        assert!(
            !seen.insert(digest(dir.path(), "demo", Which::Sources(&[])).unwrap()),
            "generated file"
        );
    }

    #[test]
    fn packs_only_the_listed_paths_in_one_order() {
        let dir = tempfile::tempdir().unwrap();
        sample(dir.path());
        let listed = |paths: &[&str]| -> Result<Vec<String>, String> {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
            let members = members(dir.path(), "demo", Which::Sources(&paths));
            let members = members.map_err(|error| error.to_string())?;
            Ok(members.iter().map(|member| member.path.display().to_string()).collect())
        };
        // The folder `build` directly below a listed folder is a build's, as in a source folder.
        let folder = vec!["a/link".to_owned(), "a/x.sh".to_owned()];
        assert_eq!(listed(&["a"]), Ok(folder.clone()));
        let all = [folder, vec!["b.py".to_owned()]].concat();
        assert_eq!(listed(&["b.py", "a/x.sh", "a"]), Ok(all));
        assert!(listed(&["b.py", "none"]).unwrap_err().ends_with("/none of `demo` does not exist"));
        assert!(
            listed(&["a/__pycache__", "b.py"]).is_ok_and(|found| found.len() == 2),
            "named by the pin"
        );
    }

    #[test]
    fn names_files_that_cannot_be_packed() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("none");
        let error = digest(&missing, "demo", Which::Sources(&[])).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("the source folder {} of `demo` does not exist", missing.display())
        );
        assert!(
            digest(dir.path(), "demo", Which::Sources(&[]))
                .unwrap_err()
                .to_string()
                .ends_with("has no files")
        );
        for target in ["/etc/passwd", "../x", "a/../../x"] {
            let link = dir.path().join("l");
            std::os::unix::fs::symlink(target, &link).unwrap();
            let error = digest(dir.path(), "demo", Which::Sources(&[])).unwrap_err().to_string();
            assert!(
                error.contains("l cannot be packed: it is a link to") && error.contains(target),
                "{error}"
            );
            fs::remove_file(link).unwrap();
        }
        let socket = std::os::unix::net::UnixListener::bind(dir.path().join("s")).unwrap();
        assert!(matches!(
            digest(dir.path(), "demo", Which::Sources(&[])),
            Err(SourceError::Unpackable { .. })
        ));
        drop(socket);
    }
}
