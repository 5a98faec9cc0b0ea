//! Represents a component's sources as `%prep` lays them out, without copying: the main source,
//! with the further sources in its subfolders. It never modifies them.

use std::path::{Path, PathBuf};

use crate::error::IoError;
use crate::sources::{Fetcher, SourceError, source_dir};
use crate::workspace::{Component, Pin};

/// Unpacked sources, nested in each other.
#[derive(Debug, Clone)]
pub struct Layers {
    main: PathBuf,
    /// The folder in the main source, and the location of the further source.
    further: Vec<(String, PathBuf)>,
}

/// The kind of object at a source path.
#[derive(Debug, PartialEq, Eq)]
pub enum SourcePath {
    /// A regular file with this path.
    File(PathBuf),
    /// A symbolic link with this path.
    Link(PathBuf),
    /// Nothing, or neither a file nor a link.
    Nothing,
    /// A path outside of the source.
    Outside,
}

impl Layers {
    /// Returns layers for existing folders.
    pub fn new(main: impl Into<PathBuf>, further: Vec<(String, PathBuf)>) -> Self {
        Self { main: main.into(), further }
    }

    /// Fetches and unpacks a pin's sources. Skips further sources that no patch or edit of the
    /// component names.
    pub fn of(
        fetcher: &Fetcher<'_>,
        component: &Component,
        pin: &Pin,
    ) -> Result<Self, SourceError> {
        let mut texts = Vec::new();
        for patch in component.patches_for(&pin.version) {
            let bytes = fs_err::read(component.dir.join(&patch.file_name));
            let bytes = bytes.map_err(IoError::doing("read a patch"))?;
            texts.push(String::from_utf8_lossy(&bytes).into_owned());
        }
        let main = fetcher.tree(pin)?.dir;
        let mut further = Vec::new();
        for (name, source) in &pin.sources {
            let dir = source_dir(source);
            let edited =
                component.edits_for(&pin.version).any(|edit| edit.source.as_ref() == Some(name));
            if edited || texts.iter().any(|text| text.contains(&format!("/{dir}/"))) {
                further.push((dir, fetcher.tree(source)?.dir));
            }
        }
        Ok(Self { main, further })
    }

    /// Returns the layer that contains a path, and the relative path.
    fn layer<'p>(&self, path: &'p str) -> (&Path, &'p str) {
        for (dir, root) in &self.further {
            if let Some(rest) =
                path.strip_prefix(dir.as_str()).and_then(|rest| rest.strip_prefix('/'))
            {
                return (root, rest);
            }
        }
        (&self.main, path)
    }

    /// Finds a path. Does not follow a link at the path itself; follows links in parent folders if
    /// they stay inside the source.
    pub fn place(&self, path: &str) -> SourcePath {
        let (root, rest) = self.layer(path);
        let full = root.join(rest);
        let Ok(kind) = std::fs::symlink_metadata(&full).map(|metadata| metadata.file_type()) else {
            return SourcePath::Nothing;
        };
        let parent = full.parent().unwrap_or(root).canonicalize();
        match (parent, root.canonicalize()) {
            (Ok(parent), Ok(root)) if parent.starts_with(&root) => {}
            _ => return SourcePath::Outside,
        }
        match () {
            () if kind.is_symlink() => SourcePath::Link(full),
            () if kind.is_file() => SourcePath::File(full),
            () => SourcePath::Nothing,
        }
    }

    /// Returns the text of a file; `None` if it does not exist. Invalid UTF-8 becomes U+FFFD.
    pub fn text(&self, path: &str) -> std::io::Result<Option<String>> {
        match self.place(path) {
            SourcePath::File(full) => {
                Ok(Some(String::from_utf8_lossy(&fs_err::read(full)?).into_owned()))
            }
            _ => Ok(None),
        }
    }

    /// Returns up to five other files with the same base name, sorted.
    pub fn same_name(&self, path: &str) -> Vec<String> {
        let Some(base) = Path::new(path).file_name() else { return Vec::new() };
        let (root, rest) = self.layer(path);
        let prefix = path.strip_suffix(rest).unwrap_or_default();
        let files =
            walkdir::WalkDir::new(root).sort_by_file_name().into_iter().filter_map(Result::ok);
        files
            .filter(|entry| entry.file_type().is_file() && entry.file_name() == base)
            .filter_map(|entry| entry.path().strip_prefix(root).ok().map(Path::to_owned))
            .map(|path| format!("{prefix}{}", path.display()))
            .take(5)
            .collect()
    }

    /// Copies a path to the same path below `to`; copies links as links.
    pub fn copy(&self, path: &str, to: &Path) -> std::io::Result<()> {
        let target = to.join(path);
        if std::fs::symlink_metadata(&target).is_ok() {
            return Ok(());
        }
        let parent = |target: &Path| fs_err::create_dir_all(target.parent().unwrap_or(to));
        match self.place(path) {
            SourcePath::File(full) => {
                parent(&target)?;
                copy_file(&full, &target)
            }
            SourcePath::Link(full) => {
                parent(&target)?;
                fs_err::os::unix::fs::symlink(fs_err::read_link(full)?, &target)
            }
            SourcePath::Nothing | SourcePath::Outside => Ok(()),
        }
    }

    /// Copies everything into an empty folder.
    pub fn copy_all(&self, to: &Path) -> std::io::Result<()> {
        copy_folder(&self.main, to)?;
        for (dir, root) in &self.further {
            let to = to.join(dir);
            if to.is_symlink() {
                let problem = format!("the source has a link at `{dir}`");
                return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, problem));
            }
            copy_folder(root, &to)?;
        }
        Ok(())
    }
}

/// Copies a folder, except git's folders below it, which would be repositories of their own.
pub(super) fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs_err::create_dir_all(to)?;
    let entries = walkdir::WalkDir::new(from).min_depth(1).into_iter();
    for entry in entries.filter_entry(|entry| !entry.file_name().eq_ignore_ascii_case(".git")) {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type());
        let target = to.join(path.strip_prefix(from).unwrap_or(path));
        if kind.is_dir() {
            fs_err::create_dir_all(&target)?;
        } else if kind.is_symlink() {
            fs_err::os::unix::fs::symlink(fs_err::read_link(path)?, &target)?;
        } else if kind.is_file() {
            copy_file(path, &target)?;
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    fs_err::copy(from, to)?;
    // Sources may contain read-only files.
    let mut permissions = fs_err::metadata(to)?.permissions();
    let mode = std::os::unix::fs::PermissionsExt::mode(&permissions);
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, mode | 0o600);
    fs_err::set_permissions(to, permissions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_not_follow_links_out() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for (path, text) in [("main/a b", "main"), ("more/x/a b", "more"), ("secret/f", "secret")] {
            fs_err::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs_err::write(at(path), text).unwrap();
        }
        fs_err::os::unix::fs::symlink("/etc/hostname", at("main/link")).unwrap();
        fs_err::os::unix::fs::symlink("../secret", at("main/out")).unwrap();
        let layers = Layers::new(at("main"), vec![("more-1".into(), at("more"))]);
        assert_eq!(layers.text("a b").unwrap().as_deref(), Some("main"));
        assert_eq!(layers.text("more-1/x/a b").unwrap().as_deref(), Some("more"));
        assert_eq!(layers.text("link").unwrap(), None);
        assert_eq!(layers.place("out/f"), SourcePath::Outside);
        assert_eq!(layers.same_name("gone/a b"), ["a b"]);
        assert_eq!(layers.same_name("more-1/gone/a b"), ["more-1/x/a b"]);
        layers.copy("link", &at("copy")).unwrap();
        layers.copy("out/f", &at("copy")).unwrap();
        assert!(at("copy/link").is_symlink() && !at("copy/out").exists());
    }
}
