//! Checks the paths of a workspace: inputs must be in the workspace, outputs in its `build`. A cloned
//! workspace can contain links.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use walkdir::{DirEntry, WalkDir};

use super::error::WorkspaceError;
use super::layout::{MANIFEST, MAX_FILE, PIPELINE, UPSTREAMS, WATCH};
use super::path_error::PathError;

/// The folders with inputs, in addition to [`MANIFEST`], [`PIPELINE`], [`UPSTREAMS`], [`WATCH`] and
/// `Containerfile.*`. Sources in the workspace are checked when they are packed.
const FOLDERS: &[&str] = &[".schemas", "copr", "mock-configs", "pins", "specs-templates"];

/// The folders of `build/<chroot>` with a folder of unpacked sources per component. These sources
/// can contain any links; rocmrpm never follows them or writes through them.
const UNPACKED: &[&str] = &["prep", "reproduce", "work"];

/// Checks that every input of a workspace is a regular file of limited size below its root. Whatever
/// reads a dangling link reports it.
pub fn check_inputs(root: &Path) -> Result<(), WorkspaceError> {
    let mut places: Vec<PathBuf> = [&[MANIFEST, PIPELINE, UPSTREAMS, WATCH], FOLDERS]
        .concat()
        .iter()
        .map(|name| root.join(name))
        .collect();
    for entry in fs_err::read_dir(root)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("Containerfile.") {
            places.push(entry.path());
        }
    }
    for place in places.iter().filter(|place| place.symlink_metadata().is_ok()) {
        for entry in WalkDir::new(place).follow_root_links(false) {
            let entry = entry.map_err(std::io::Error::from)?;
            check_input(root, &entry)?;
        }
    }
    Ok(())
}

fn check_input(root: &Path, entry: &DirEntry) -> Result<(), WorkspaceError> {
    let file = || shown(root, entry.path());
    let kind = entry.file_type();
    if kind.is_dir() {
        return Ok(());
    }
    let metadata = if kind.is_symlink() {
        let Ok(target) = entry.path().canonicalize() else { return Ok(()) };
        if !target.starts_with(root) {
            return Err(PathError::Outside { file: file(), target }.into());
        }
        target.metadata()?
    } else {
        entry.metadata().map_err(std::io::Error::from)?
    };
    if !metadata.is_file() && !metadata.is_dir() {
        return Err(PathError::Special { file: file() }.into());
    }
    if metadata.is_file() && metadata.len() > MAX_FILE {
        return Err(PathError::TooLarge { file: file(), size: metadata.len() }.into());
    }
    Ok(())
}

/// Checks that no link below `build/<chroot>` makes rocmrpm write or delete elsewhere. Every
/// command starts with this check.
pub(super) fn check_outputs(root: &Path, chroot: &str) -> Result<(), WorkspaceError> {
    let build = root.join("build");
    let out = build.join(chroot);
    for folder in [&build, &out] {
        match fs_err::symlink_metadata(folder) {
            Ok(metadata) if metadata.is_symlink() => return Err(output(root, folder).into()),
            // Writing reports the file that is in the way.
            Ok(metadata) if !metadata.is_dir() => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    let walk = WalkDir::new(&out).min_depth(1).into_iter();
    for entry in walk.filter_entry(|entry| !is_unpacked(&out, entry)) {
        let entry = match entry {
            Ok(entry) => entry,
            // Another process can delete files meanwhile.
            Err(error)
                if error.io_error().is_some_and(|e| e.kind() == std::io::ErrorKind::NotFound) =>
            {
                continue;
            }
            Err(error) => return Err(std::io::Error::from(error).into()),
        };
        let inside = || entry.path().canonicalize().is_ok_and(|target| target.starts_with(&out));
        if entry.file_type().is_symlink() && !inside() {
            return Err(output(root, entry.path()).into());
        }
    }
    Ok(())
}

/// Returns whether an entry is part of an unpacked source, or of what mock copied from a build root.
fn is_unpacked(out: &Path, entry: &DirEntry) -> bool {
    let below = entry.path().strip_prefix(out).unwrap_or(entry.path());
    let deep = entry.depth() > 3 && UNPACKED.iter().any(|name| below.starts_with(name));
    deep || entry.file_name() == "chroot_scan" && entry.file_type().is_dir()
}

fn output(root: &Path, link: &Path) -> PathError {
    let target = std::fs::read_link(link).unwrap_or_default();
    PathError::Output { file: shown(root, link), target }
}

/// Checks that the workspace belongs to the user, to root, or to an accepted user.
pub(super) fn check_owner(
    root: &Path,
    is_ours: impl Fn(u32) -> bool,
    is_accepted: impl Fn(&Path) -> bool,
) -> Result<(), WorkspaceError> {
    for path in [root.to_owned(), root.join(MANIFEST)] {
        let owner = path.symlink_metadata()?.uid();
        if !is_ours(owner) && !is_accepted(root) {
            return Err(PathError::Owner { root: root.to_owned(), path, owner }.into());
        }
    }
    Ok(())
}

fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Diagnose, Kind};
    use crate::files::write_atomically;
    use std::os::unix::fs::symlink;

    struct LinkFixture(tempfile::TempDir);

    impl LinkFixture {
        fn new() -> Self {
            let fixture = Self(tempfile::tempdir().unwrap());
            write_atomically(&fixture.at(MANIFEST), "").unwrap();
            write_atomically(&fixture.at("specs-templates/one/component.toml"), "").unwrap();
            fixture
        }

        fn root(&self) -> PathBuf {
            self.0.path().canonicalize().unwrap().join("ws")
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().join("ws").join(name)
        }

        #[track_caller]
        fn refuses_input(&self, name: &str, message: &str) {
            let error = check_inputs(&self.root()).unwrap_err();
            assert_eq!(error.kind(), Kind::Config);
            assert!(error.to_string().starts_with(&format!("`{name}` {message}")), "{error}");
            assert!(error.help()[0].contains(&format!("rm {name}")), "{:?}", error.help());
            fs_err::remove_file(self.at(name)).unwrap();
            check_inputs(&self.root()).unwrap();
        }
    }

    #[test]
    fn accepts_only_regular_files_of_the_workspace() {
        let fixture = LinkFixture::new();
        let secret = fixture.0.path().join("secret");
        fs_err::write(&secret, "s").unwrap();
        for name in
            ["specs-templates/one/leak.patch", "Containerfile.x", "upstreams.toml", "pins", "copr"]
        {
            symlink(&secret, fixture.at(name)).unwrap();
            fixture.refuses_input(name, "is a link to `");
        }
        symlink("../../../..", fixture.at("specs-templates/one/up")).unwrap();
        fixture.refuses_input("specs-templates/one/up", "is a link to `");
        symlink("one/component.toml", fixture.at("specs-templates/inside")).unwrap();
        symlink("user@host.1:2", fixture.at("specs-templates/.#lock-of-an-editor")).unwrap();
        symlink(&secret, fixture.at("notes")).unwrap();
        check_inputs(&fixture.root()).unwrap();
        let _socket =
            std::os::unix::net::UnixListener::bind(fixture.at("specs-templates/s")).unwrap();
        fixture.refuses_input("specs-templates/s", "is neither a file nor a folder");
        fs_err::File::create(fixture.at("specs-templates/large"))
            .unwrap()
            .set_len(MAX_FILE + 1)
            .unwrap();
        fixture.refuses_input(
            "specs-templates/large",
            "has 67108865 bytes; the limit is 67108864 bytes",
        );
    }

    #[test]
    fn rejects_links_out_of_build() {
        let victim = tempfile::tempdir().unwrap();
        for name in [
            "build",
            "build/host",
            "build/host/specs",
            "build/host/work/one",
            "build/host/work/one/build",
            "build/host/results/one/logs/build.log",
            "build/host/index/simple/one",
        ] {
            let fixture = LinkFixture::new();
            fs_err::create_dir_all(fixture.at(name).parent().unwrap()).unwrap();
            symlink(victim.path(), fixture.at(name)).unwrap();
            let error = check_outputs(&fixture.root(), "host").unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{name}` is a link to `/")), "{error}");
            assert!(error.help()[0].contains(&format!("rm {name}")), "{:?}", error.help());
            fs_err::remove_file(fixture.at(name)).unwrap();
            symlink("nowhere", fixture.at(name)).unwrap();
            check_outputs(&fixture.root(), "host").unwrap_err();
        }
    }

    #[test]
    fn allows_any_links_in_unpacked_sources() {
        let fixture = LinkFixture::new();
        for folder in ["prep/one/build/src", "work/one/build/src", "work/one/results/chroot_scan"] {
            let folder = fixture.at("build/host").join(folder);
            fs_err::create_dir_all(&folder).unwrap();
            symlink("/etc", folder.join("link")).unwrap();
        }
        fs_err::create_dir_all(fixture.at("build/host/results")).unwrap();
        symlink("../work", fixture.at("build/host/results/inside")).unwrap();
        check_outputs(&fixture.root(), "host").unwrap();
        check_outputs(&fixture.root(), "fedora-43").unwrap();
    }

    #[test]
    fn rejects_a_workspace_of_another_user() {
        let fixture = LinkFixture::new();
        let (root, owner) = (fixture.root(), fixture.root().metadata().unwrap().uid());
        check_owner(&root, |found| found == owner, |_| false).unwrap();
        check_owner(&root, |_| false, |accepted| accepted == root).unwrap();
        let error = check_owner(&root, |_| false, |_| false).unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        assert!(
            error.to_string().contains(&format!("belongs to another user (user ID {owner})")),
            "{error}"
        );
        assert_eq!(
            error.help(),
            [format!("if you trust this user: export ROCMRPM_TRUST={}", root.display())]
        );
    }
}
