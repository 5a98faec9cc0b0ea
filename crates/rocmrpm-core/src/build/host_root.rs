//! The packages of the components that a component requires, unpacked below its build folder. A
//! build on this machine does not install them, and finds them here: by variables for compilers,
//! linkers, CMake, pkg-config, Python, and the shell. On a machine with RPMs, rpmbuild checks
//! BuildRequires in a copy of the RPM database that lists them.
//!
//! Paths inside the files still name the installed system. Files of pkg-config and links are
//! corrected; CMake's files find their folder by themselves. Scripts that contain such a path do
//! not work.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use super::BuildError;
use crate::error::{Diagnose, Diagnosis};
use crate::process::Command;
use crate::rpms::{self, EntryKind, PayloadEntry, Relation, Relations, RpmError};

/// The folders of libraries, below the root.
const LIBRARIES: [&str; 2] = ["usr/lib64", "usr/lib"];

/// The folders of pkg-config's files, below the root.
const PKG_CONFIG: [&str; 3] = ["usr/lib64/pkgconfig", "usr/lib/pkgconfig", "usr/share/pkgconfig"];

/// The unpacked packages.
#[derive(Debug, Clone)]
pub struct HostRoot {
    dir: PathBuf,
}

impl HostRoot {
    /// Returns the root below a build folder, if the build has one.
    pub fn of_build(work: &Path) -> Option<Self> {
        let dir = work.join("root");
        dir.is_dir().then_some(Self { dir })
    }

    /// Removes the root below a build folder.
    pub fn remove(work: &Path) -> std::io::Result<()> {
        crate::files::remove_dir_if_there(&work.join("root"))
    }

    /// Returns the copy of the RPM database below a build folder, if there is one.
    pub fn database(work: &Path) -> Option<PathBuf> {
        Some(work.join("rpmdb")).filter(|dir| dir.is_dir())
    }

    /// Copies this machine's RPM database below a build folder, and adds packages to the copy. Of a
    /// package that is installed, too, the copy only has the added version.
    pub fn add_to_database(work: &Path, packages: &[PathBuf]) -> Result<(), BuildError> {
        if packages.is_empty() {
            return Ok(());
        }
        let machine = Command::new("rpm").args(["--eval", "%{_dbpath}"]).text()?;
        let database = work.join("rpmdb");
        fs_err::create_dir_all(&database)?;
        for entry in fs_err::read_dir(machine.trim())? {
            let entry = entry?;
            // The lock is not part of the data.
            if entry.file_type()?.is_file() && entry.file_name() != ".rpm.lock" {
                fs_err::copy(entry.path(), database.join(entry.file_name()))?;
            }
        }
        // The packages are our own results, and nothing of them runs.
        let add = ["-U", "--justdb", "--force", "--nodeps", "--noscripts", "--notriggers"];
        let add = Command::new("rpm").args(add).args(["--nosignature", "--dbpath"]).arg(&database);
        add.args(packages).text()?;
        Ok(())
    }

    /// Unpacks packages below a build folder. Returns what they provide, and their NEVRAs.
    pub fn unpack(work: &Path, packages: &[PathBuf]) -> Result<Unpacked, BuildError> {
        let root = Self { dir: work.join("root") };
        let mut unpacked = Unpacked::default();
        for package in packages {
            let mut links = BTreeMap::new();
            let header = rpms::for_each_file(package, |entry, content| {
                root.write(entry, content, &mut links).map_err(|source| UnpackError::File {
                    package: package.clone(),
                    file: entry.path.clone(),
                    source,
                })
            })?;
            unpacked.packages.push(header.nevra());
            let relations = Relations::read(package).map_err(UnpackError::Rpm)?;
            unpacked.provides.extend(relations.provides);
        }
        root.correct().map_err(|source| UnpackError::Root { folder: root.dir.clone(), source })?;
        Ok(unpacked)
    }

    /// Writes one file of a package. Of hard links, only the last one has content.
    fn write(
        &self,
        entry: &PayloadEntry,
        content: &mut dyn Read,
        links: &mut BTreeMap<usize, Vec<PathBuf>>,
    ) -> std::io::Result<()> {
        let to = self.place(&entry.path)?;
        match &entry.kind {
            EntryKind::Directory => fs_err::create_dir_all(&to),
            EntryKind::Symlink(target) => {
                // Another package may have the same link.
                crate::files::remove_if_there(&to)?;
                let inside = target.strip_prefix('/').map(|path| self.dir.join(path));
                fs_err::os::unix::fs::symlink(inside.as_deref().unwrap_or(Path::new(target)), &to)
            }
            EntryKind::Regular => {
                let names = entry.hard_link.map(|number| links.entry(number).or_default());
                crate::files::remove_if_there(&to)?;
                let mut file = fs_err::File::create(&to)?;
                let written = std::io::copy(content, &mut file)?;
                let mode = u32::from(entry.permissions) & 0o777 | 0o600;
                file.set_permissions(std::fs::Permissions::from_mode(mode))?;
                let Some(names) = names else { return Ok(()) };
                if written == 0 {
                    names.push(to);
                    return Ok(());
                }
                names.iter().try_for_each(|name| {
                    fs_err::remove_file(name)?;
                    fs_err::hard_link(&to, name)
                })
            }
            EntryKind::Ghost | EntryKind::Special => Ok(()),
        }
    }

    /// Returns where a file of a package belongs, and makes its folder. No folder on the way may be
    /// a link, which could lead out of the root.
    fn place(&self, path: &str) -> std::io::Result<PathBuf> {
        let invalid = |what: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, what);
        let inside = path.trim_start_matches('/');
        let mut to = self.dir.clone();
        let mut parts = Path::new(inside).components().peekable();
        if parts.peek().is_none() {
            return Ok(to);
        }
        while let Some(part) = parts.next() {
            let Component::Normal(name) = part else { return Err(invalid("the path has `..`")) };
            to.push(name);
            if parts.peek().is_some() && to.is_symlink() {
                return Err(invalid("a folder in its path is a link in another package"));
            }
        }
        fs_err::create_dir_all(to.parent().unwrap_or(&self.dir))?;
        Ok(to)
    }

    /// Makes files of pkg-config name this root, and shows CMake the folder lib64, where it does not
    /// search on Debian.
    fn correct(&self) -> std::io::Result<()> {
        for folder in PKG_CONFIG {
            for file in self.entries(folder)? {
                if file.extension().is_some_and(|end| end == "pc") && !file.is_symlink() {
                    let text = fs_err::read_to_string(&file)?;
                    fs_err::write(&file, relocated(&text, &self.dir))?;
                }
            }
        }
        for config in self.entries("usr/lib64/cmake")? {
            let link = self.dir.join("usr/lib/cmake").join(config.file_name().unwrap_or_default());
            if !link.exists() {
                fs_err::create_dir_all(self.dir.join("usr/lib/cmake"))?;
                let name = link.file_name().unwrap_or_default();
                symlink(Path::new("../../lib64/cmake").join(name), &link)?;
            }
        }
        Ok(())
    }

    /// Returns what a folder below the root contains, sorted; nothing if it is missing.
    fn entries(&self, folder: &str) -> std::io::Result<Vec<PathBuf>> {
        let folder = self.dir.join(folder);
        let names = crate::files::names_in(&folder)?;
        Ok(names.into_iter().map(|name| folder.join(name)).collect())
    }

    /// Returns the folders of Python packages.
    pub fn python_path(&self) -> Vec<PathBuf> {
        let versions = LIBRARIES.iter().flat_map(|folder| self.entries(folder).unwrap_or_default());
        let sites = versions
            .filter(|dir| {
                dir.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"python3"))
            })
            .map(|dir| dir.join("site-packages"));
        sites.filter(|dir| dir.is_dir()).collect()
    }

    /// Returns the search path for programs: those of the root, then those in `path`.
    fn path(&self, path: &str) -> String {
        format!("{}:{path}", self.dir.join("usr/bin").display())
    }

    /// Returns the variables with which a build finds the packages; `path` is its PATH without them.
    pub fn variables(&self, path: &str) -> BTreeMap<&'static str, String> {
        let below = |folders: &[&str]| {
            let folders = folders.iter().map(|folder| self.dir.join(folder)).collect::<Vec<_>>();
            joined(&folders)
        };
        BTreeMap::from([
            ("PATH", self.path(path)),
            ("CPATH", below(&["usr/include"])),
            ("LIBRARY_PATH", below(&LIBRARIES)),
            ("LD_LIBRARY_PATH", below(&LIBRARIES)),
            ("CMAKE_PREFIX_PATH", below(&["usr"])),
            ("CMAKE_LIBRARY_PATH", below(&LIBRARIES)),
            ("PKG_CONFIG_PATH", below(&PKG_CONFIG)),
            ("PYTHONPATH", joined(&self.python_path())),
        ])
    }
}

/// What packages in a root provide.
#[derive(Debug, Default)]
pub struct Unpacked {
    /// Their provides.
    pub provides: Vec<Relation>,
    /// Their NEVRAs.
    pub packages: Vec<String>,
}

/// Joins folders as search paths do. The builder rejects paths with a colon.
fn joined(folders: &[PathBuf]) -> String {
    let folders: Vec<_> = folders.iter().map(|folder| folder.to_string_lossy()).collect();
    folders.join(":")
}

/// Returns a file of pkg-config for packages below `root`: prepends it to absolute paths that start
/// a value, or follow -I or -L, if they exist there.
fn relocated(text: &str, root: &Path) -> String {
    let moved = |path: &str| {
        let end = path.find(char::is_whitespace).unwrap_or(path.len());
        let inside = path[..end].trim_start_matches('/');
        path.starts_with('/') && root.join(inside).exists()
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) =
        ["=", "-I", "-L"].iter().filter_map(|s| Some(rest.find(s)? + s.len())).min()
    {
        let (before, after) = rest.split_at(at);
        let blanks = after.len() - after.trim_start_matches(' ').len();
        out += before;
        out += &after[..blanks];
        rest = &after[blanks..];
        if moved(rest) {
            out += &root.to_string_lossy();
        }
    }
    out + rest
}

/// Why packages could not be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// A package is unreadable.
    #[error(transparent)]
    Rpm(#[from] RpmError),
    /// A file could not be written.
    #[error("cannot unpack {file} of {}", package.display())]
    File {
        /// The RPM.
        package: PathBuf,
        /// The file's path in the package.
        file: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The unpacked files could not be corrected.
    #[error("cannot prepare the packages in {}", folder.display())]
    Root {
        /// The root.
        folder: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

impl Diagnose for UnpackError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Rpm(error) => error.diagnosis(),
            Self::File { source, .. } | Self::Root { source, .. } => Diagnosis::of_io(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pkg_config_files_name_the_root_if_it_has_the_path() {
        let dir = tempfile::tempdir().unwrap();
        fs_err::create_dir_all(dir.path().join("usr/include/saxpy")).unwrap();
        let root = dir.path().display();
        let text = "prefix=/usr\nlibdir = /opt/lib\nCflags: -I/usr/include/saxpy -I${prefix}/x -D=/usr/y\n";
        let expected = format!(
            "prefix={root}/usr\nlibdir = /opt/lib\n\
             Cflags: -I{root}/usr/include/saxpy -I${{prefix}}/x -D=/usr/y\n"
        );
        assert_eq!(relocated(text, dir.path()), expected);
    }

    #[test]
    fn places_files_below_the_root_only() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot { dir: dir.path().join("root") };
        assert_eq!(root.place("/usr/lib/x").unwrap(), root.dir.join("usr/lib/x"));
        assert!(root.place("/usr/../../x").is_err());
        symlink(dir.path(), root.dir.join("usr/out")).unwrap();
        assert!(root.place("/usr/out/x").is_err());
        assert_eq!(root.place("/usr/out").unwrap(), root.dir.join("usr/out"));
    }
}
