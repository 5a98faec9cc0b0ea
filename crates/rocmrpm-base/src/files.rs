//! Writes files so that a reader never sees half of one and a killed process leaves no file that
//! looks complete, and locks files between writers. It does not know the content.

use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use fs_err as fs;
use rustix::fs::{CWD, RenameFlags};

use crate::stop::{Stopped, stop_requested};

/// How often a waiting thread tries to take a lock.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A held lock. It is released when it is dropped or when the process ends for any reason.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the lock is the open file")] fs::File);

/// Locks the file `path`, creating it if it is missing, and waits while another thread or process
/// holds the lock. A request to stop ends the wait with [`io::ErrorKind::Interrupted`].
pub fn lock(path: &Path) -> io::Result<Lock> {
    loop {
        if let Some(lock) = try_lock(path)? {
            return Ok(lock);
        }
        if stop_requested() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, Stopped));
        }
        std::thread::sleep(LOCK_POLL_INTERVAL);
    }
}

/// Like [`lock`], but returns `None` instead of waiting.
pub fn try_lock(path: &Path) -> io::Result<Option<Lock>> {
    let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
    match file.file().try_lock() {
        Ok(()) => Ok(Some(Lock(file))),
        Err(std::fs::TryLockError::WouldBlock) => Ok(None),
        Err(std::fs::TryLockError::Error(error)) => {
            Err(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
        }
    }
}

/// Locks the folder `path` itself. Returns `None` if another thread or process holds the lock.
pub fn try_lock_folder(path: &Path) -> io::Result<Option<Lock>> {
    let folder = fs::File::open(path)?;
    match folder.file().try_lock() {
        Ok(()) => Ok(Some(Lock(folder))),
        Err(std::fs::TryLockError::WouldBlock) => Ok(None),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Replaces `path` with `bytes` in one step: readers see either the old file or the new one.
/// Creates missing parent folders. Errors name the path.
///
/// Does not sync, which would cost some milliseconds per file, so a power loss may leave an empty
/// file. That is fine for caches and records, which are checked when they are read and can be
/// re-created. Use [`write_durably`] for everything else.
pub fn write_atomically(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    write(path, bytes.as_ref(), 0o644, false)
}

/// Like [`write_atomically`], but the file survives a power loss once this returns.
pub fn write_durably(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    write(path, bytes.as_ref(), 0o644, true)?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// Like [`write_durably`], but only the user can read the file.
pub fn write_private(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    write(path, bytes.as_ref(), 0o600, true)?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// Makes the entries of a folder survive a power loss.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    // The parent of a plain file name is the empty path.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    fs::File::open(folder)?.sync_all()
}

fn write(path: &Path, bytes: &[u8], mode: u32, durable: bool) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let name =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let mut file = tempfile::Builder::new()
        .prefix(".rocmrpm-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))
        .tempfile_in(folder)
        .map_err(name)?;
    file.write_all(bytes).map_err(name)?;
    file.flush().map_err(name)?;
    if durable {
        file.as_file().sync_all().map_err(name)?;
    }
    file.persist(path).map_err(|error| name(error.error))?;
    Ok(())
}

/// Like [`write_durably`], but does not touch a file that already has these bytes, so that its
/// modification time stays accurate. Returns whether it wrote.
pub fn write_if_changed(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<bool> {
    match fs::read(path) {
        Ok(old) if old == bytes.as_ref() => Ok(false),
        _ => write_durably(path, bytes).map(|()| true),
    }
}

/// Makes the file `from` available as `to` too: as a hard link if the file system allows it,
/// otherwise as a copy with the same modification time. Replaces `to` in one step.
pub fn link_or_copy(from: &Path, to: &Path) -> io::Result<()> {
    // If the name is free, creating the link is atomic by itself.
    if fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    let folder = to.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let holder = tempfile::Builder::new().prefix(".rocmrpm-").tempdir_in(folder)?;
    let staged = holder.path().join("file");
    if fs::hard_link(from, &staged).is_err() {
        fs::copy(from, &staged)?;
        let modified = fs::metadata(from)?.modified()?;
        fs::OpenOptions::new().write(true).open(&staged)?.set_modified(modified)?;
    }
    fs::rename(&staged, to)
}

/// Removes a folder and its content; a missing folder is not an error. Also removes subfolders
/// without write permission, which some sources contain.
pub fn remove_dir_if_there(path: &Path) -> io::Result<()> {
    let forgiven = |done: io::Result<()>| match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    match forgiven(fs::remove_dir_all(path)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            for entry in walkdir::WalkDir::new(path).into_iter().filter_map(Result::ok) {
                if entry.file_type().is_dir() {
                    let open = std::os::unix::fs::PermissionsExt::from_mode(0o700);
                    fs::set_permissions(entry.path(), open)?;
                }
            }
            forgiven(fs::remove_dir_all(path))
        }
        other => other,
    }
}

/// Returns an absolute path without `.` and `..`, as URLs have them. Does not follow links.
pub fn absolute(path: &Path) -> io::Result<PathBuf> {
    let mut whole = PathBuf::new();
    for part in std::path::absolute(path)?.components() {
        match part {
            Component::ParentDir => drop(whole.pop()),
            other => whole.push(other),
        }
    }
    Ok(whole)
}

/// Returns the names in a folder, sorted; empty if the folder is missing.
pub fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let names =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<io::Result<Vec<String>>>()?;
    names.sort();
    Ok(names)
}

/// Removes a file, or a folder and its content; a missing path is not an error.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => remove_dir_if_there(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Moves the folder `new` to `old`. If the file system can exchange names, this takes one step and
/// leaves the old folder at `new`; otherwise it takes two steps.
pub fn exchange(new: &Path, old: &Path) -> io::Result<()> {
    if !old.exists() {
        return fs::rename(new, old);
    }
    if rustix::fs::renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE).is_ok() {
        return Ok(());
    }
    let aside = new.with_extension("old");
    fs::rename(old, &aside)?;
    fs::rename(new, old)?;
    fs::rename(&aside, new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_not_touch_an_unchanged_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/c.txt");
        assert!(write_if_changed(&path, "one").unwrap());
        assert!(!write_if_changed(&path, "one").unwrap());
        assert!(write_if_changed(&path, "two").unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn exchanges_folders() {
        let dir = tempfile::tempdir().unwrap();
        let (new, old) = (dir.path().join("new"), dir.path().join("old"));
        write_atomically(&new.join("a"), "new").unwrap();
        write_atomically(&old.join("a"), "old").unwrap();
        exchange(&new, &old).unwrap();
        let read = |path: &Path| fs::read_to_string(path.join("a")).unwrap();
        assert_eq!((read(&old), read(&new)), ("new".into(), "old".into()));
    }

    #[test]
    fn link_replaces_the_target() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("x/to"));
        fs::write(&from, "new").unwrap();
        write_atomically(&to, "old").unwrap();
        link_or_copy(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "new");
    }
}
