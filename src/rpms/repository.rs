//! A folder of RPMs with the metadata that dnf reads, brought up to date so that
//! a reader sees the old state or the new one. Not which RPMs belong in it.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::{RpmError, header};
use crate::files;
use crate::process::Command;

/// Which RPMs the metadata describes, kept inside `repodata` so that both are
/// replaced in the same step.
const STAMP: &str = "repodata/.rocmrpm-packages";
const STAGING: &str = ".rocmrpm-repository-";
/// The revision of an empty repository: the earliest time a zip archive knows.
const EPOCH_1980: i64 = 315_532_800;

/// A repository folder.
#[derive(Debug, Clone)]
pub struct Repository {
    dir: PathBuf,
}

/// What [`Repository::refresh`] found and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refreshed {
    /// How many RPMs the repository has.
    pub packages: usize,
    /// Whether anything had to be done.
    pub changed: bool,
}

impl Repository {
    /// Returns the repository in this folder, which need not exist yet.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Returns the folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the repository hold exactly these RPMs, under their file names.
    ///
    /// New RPMs are put in first, then the metadata changes in one step, then
    /// RPMs that it no longer names are removed: a run that is killed leaves a
    /// repository that works, and the next run finishes it. Two processes that
    /// refresh the same folder wait for each other.
    pub fn refresh(&self, rpms: &[PathBuf]) -> Result<Refreshed, RpmError> {
        let wanted = by_name(rpms)?;
        fs::create_dir_all(&self.dir)?;
        let lock = fs::File::create(self.dir.join(".lock"))?;
        lock.file().lock()?;
        let stamp = stamp(&wanted)?;
        if self.is_current(&wanted, &stamp)? {
            return Ok(Refreshed { packages: wanted.len(), changed: false });
        }
        self.remove_leftovers()?;
        let staging = tempfile::Builder::new().prefix(STAGING).tempdir_in(&self.dir)?;
        for (name, rpm) in &wanted {
            header(rpm)?;
            link(rpm, &staging.path().join(name))?;
        }
        self.make_metadata(staging.path(), newest(&wanted)?)?;
        fs::write(staging.path().join(STAMP), &stamp)?;
        for (name, rpm) in &wanted {
            let target = self.dir.join(name);
            if !same_file(rpm, &target)? {
                fs::rename(staging.path().join(name), target)?;
            }
        }
        files::exchange(&staging.path().join("repodata"), &self.dir.join("repodata"))?;
        for stale in self.rpm_names()?.iter().filter(|name| !wanted.contains_key(*name)) {
            fs::remove_file(self.dir.join(stale))?;
        }
        Ok(Refreshed { packages: wanted.len(), changed: true })
    }

    /// Tells whether folder and metadata are what these RPMs would make them.
    fn is_current(&self, wanted: &BTreeMap<String, &Path>, stamp: &str) -> io::Result<bool> {
        match fs::read_to_string(self.dir.join(STAMP)) {
            Ok(old) if old == stamp => {}
            _ => return Ok(false),
        }
        if !self.dir.join("repodata/repomd.xml").is_file() || !self.rpm_names()?.iter().eq(wanted.keys()) {
            return Ok(false);
        }
        for (name, rpm) in wanted {
            if !same_file(rpm, &self.dir.join(name))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs `createrepo_c` in the staging folder. It takes over what the present
    /// metadata says of RPMs with the same name, size and time. The revision and
    /// all timestamps follow from the RPMs, so that the same files give the same
    /// metadata.
    fn make_metadata(&self, staging: &Path, revision: i64) -> Result<(), RpmError> {
        let mut command = Command::new("createrepo_c")
            .args(["--quiet", "--no-database", "--error-exit-val", "--set-timestamp-to-revision"])
            .args(["--revision", &revision.to_string()])
            .env("SOURCE_DATE_EPOCH", revision.to_string());
        if self.dir.join("repodata/repomd.xml").is_file() {
            command = command.arg("--update").arg("--update-md-path").arg(&self.dir);
        }
        command.arg(staging).output()?;
        Ok(())
    }

    /// Removes the staging folders of runs that were killed.
    fn remove_leftovers(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(STAGING) {
                files::remove_dir_if_there(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Returns the names of the RPM files in the folder, sorted.
    fn rpm_names(&self) -> io::Result<std::collections::BTreeSet<String>> {
        let mut names = std::collections::BTreeSet::new();
        for entry in fs::read_dir(&self.dir)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".rpm") {
                names.insert(name);
            }
        }
        Ok(names)
    }
}

fn by_name(rpms: &[PathBuf]) -> Result<BTreeMap<String, &Path>, RpmError> {
    let mut names = BTreeMap::new();
    for rpm in rpms {
        let invalid = |what: String| RpmError::Io(io::Error::new(io::ErrorKind::InvalidInput, what));
        let name = rpm.file_name().and_then(|name| name.to_str()).filter(|name| name.ends_with(".rpm"));
        let name =
            name.ok_or_else(|| invalid(format!("{}: the file's name does not end in .rpm", rpm.display())))?;
        if let Some(other) = names.insert(name.to_owned(), rpm.as_path()) {
            return Err(RpmError::SameName { one: other.to_owned(), other: rpm.clone() });
        }
    }
    Ok(names)
}

fn stamp(wanted: &BTreeMap<String, &Path>) -> io::Result<String> {
    let mut text = String::new();
    for (name, rpm) in wanted {
        let meta = fs::metadata(rpm)?;
        text += &format!("{name}\t{}\t{}.{:09}\n", meta.len(), meta.mtime(), meta.mtime_nsec());
    }
    Ok(text)
}

fn newest(wanted: &BTreeMap<String, &Path>) -> io::Result<i64> {
    wanted.values().try_fold(EPOCH_1980, |newest, rpm| Ok(newest.max(fs::metadata(rpm)?.mtime())))
}

/// Gives `from` a second name, or copies it with its time where the file system
/// allows no hard link: `createrepo_c` and [`same_file`] go by size and time.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    files::link_or_copy(from, to)?;
    let (source, copy) = (fs::metadata(from)?, fs::metadata(to)?);
    if source.mtime() != copy.mtime() || source.mtime_nsec() != copy.mtime_nsec() {
        fs::OpenOptions::new().write(true).open(to)?.file().set_modified(source.modified()?)?;
    }
    Ok(())
}

fn same_file(a: &Path, b: &Path) -> io::Result<bool> {
    let b = match fs::metadata(b) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let a = fs::metadata(a)?;
    let time = |m: &std::fs::Metadata| (m.len(), m.mtime(), m.mtime_nsec());
    Ok((a.dev(), a.ino()) == (b.dev(), b.ino()) || time(&a) == time(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(dir: &Path, name: &str) -> PathBuf {
        let mut builder = rpm::PackageBuilder::new(name, "1.0", "MIT", "noarch", "a demo");
        builder.release("1");
        builder.with_file_contents("x\n", rpm::FileOptions::new(format!("/usr/share/{name}/a"))).unwrap();
        let path = dir.join(format!("{name}-1.0-1.noarch.rpm"));
        builder.build().unwrap().write_file(&path).unwrap();
        path
    }

    fn query(repo: &Path, cache: &Path) -> Vec<String> {
        let text = Command::new("dnf")
            .args(["--quiet", "--repofrompath", &format!("demo,file://{}", repo.display())])
            .args(["--repo", "demo", "--setopt=module_platform_id=platform:f43", "--releasever=43"])
            .arg(format!("--setopt=cachedir={}", cache.display()))
            .args(["--refresh", "repoquery", "--qf", "%{name}-%{version}\\n"])
            .text()
            .unwrap();
        text.lines().filter(|l| !l.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn dnf_sees_exactly_the_given_rpms() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repository::at(dir.path().join("repo"));
        let (one, two) = (package(dir.path(), "one"), package(dir.path(), "two"));
        let both = [one.clone(), two.clone()];
        assert_eq!(repo.refresh(&both).unwrap(), Refreshed { packages: 2, changed: true });
        assert_eq!(repo.refresh(&both).unwrap(), Refreshed { packages: 2, changed: false });
        assert_eq!(query(repo.dir(), &dir.path().join("cache1")), ["one-1.0", "two-1.0"]);
        assert!(repo.refresh(&[two]).unwrap().changed);
        assert_eq!(query(repo.dir(), &dir.path().join("cache2")), ["two-1.0"]);
        assert_eq!(repo.rpm_names().unwrap().len(), 1);
        assert!(repo.refresh(&[]).unwrap().changed);
        assert!(query(repo.dir(), &dir.path().join("cache3")).is_empty());
    }

    #[test]
    fn the_same_rpms_give_the_same_metadata() {
        let dir = tempfile::tempdir().unwrap();
        let one = [package(dir.path(), "one")];
        let read = |name: &str| {
            let repo = Repository::at(dir.path().join(name));
            repo.refresh(&one).unwrap();
            fs::read(repo.dir().join("repodata/repomd.xml")).unwrap()
        };
        assert_eq!(read("a"), read("b"));
    }

    #[test]
    fn a_failed_run_leaves_the_old_state_and_a_damaged_one_is_mended() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repository::at(dir.path().join("repo"));
        let one = package(dir.path(), "one");
        repo.refresh(std::slice::from_ref(&one)).unwrap();
        let bad = dir.path().join("bad.rpm");
        fs::write(&bad, "not an RPM").unwrap();
        let error = repo.refresh(&[one.clone(), bad]).unwrap_err();
        assert!(error.to_string().contains("bad.rpm"), "{error}");
        assert!(!repo.refresh(std::slice::from_ref(&one)).unwrap().changed);
        // What a killed run leaves: its staging folder, and an RPM that is not the one described.
        fs::create_dir(repo.dir().join(".rocmrpm-repository-dead")).unwrap();
        fs::remove_file(repo.dir().join("one-1.0-1.noarch.rpm")).unwrap();
        fs::write(repo.dir().join("one-1.0-1.noarch.rpm"), "half").unwrap();
        assert!(repo.refresh(&[one]).unwrap().changed);
        assert_eq!(query(repo.dir(), &dir.path().join("cache")), ["one-1.0"]);
        assert!(!repo.dir().join(".rocmrpm-repository-dead").exists());
    }

    #[test]
    fn one_name_twice_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let one = package(dir.path(), "one");
        let error = Repository::at(dir.path().join("repo")).refresh(&[one.clone(), one]).unwrap_err();
        assert!(matches!(error, RpmError::SameName { .. }), "{error}");
    }
}
