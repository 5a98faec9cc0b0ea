//! Updates a folder of RPMs and the metadata that dnf reads, so that a reader sees either the old
//! or the new state. It does not decide which RPMs belong in it.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::repomd::{REPOMD, Repomd};
use super::signing::Signer;
use super::{RpmError, header};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::files;
use rocmrpm_base::process::{Command, ProcessError, last_lines};

/// The list of RPMs that the metadata describes, inside `repodata` so that both are replaced
/// atomically. A published repository does not have it.
pub const STAMP: &str = "repodata/.rocmrpm-packages";
const STAGING: &str = ".rocmrpm-repository-";
/// The prefix of names of public key files.
const KEY_FILE: &str = "RPM-GPG-KEY-";
/// The revision of an empty repository: the earliest time that a zip archive can hold.
pub const EPOCH_1980: i64 = 315_532_800;

/// A folder with RPMs and their metadata.
#[derive(Debug, Clone)]
pub struct Repository {
    dir: PathBuf,
}

/// The result of [`Repository::refresh`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refreshed {
    /// The number of RPMs in the repository.
    pub packages: usize,
    /// Whether the refresh changed anything.
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

    /// Makes the repository contain exactly these RPMs, under their file names. With a signer, it
    /// contains signed copies of them, signed metadata and the public key.
    ///
    /// Adds new RPMs first, then replaces the metadata atomically, then removes RPMs that it no
    /// longer lists: a killed run leaves a working repository, and the next run completes it. Two
    /// processes that refresh the same folder wait for each other.
    pub fn refresh(
        &self,
        rpms: &[PathBuf],
        signer: Option<&Signer>,
    ) -> Result<Refreshed, RpmError> {
        let wanted = by_name(rpms)?;
        fs::create_dir_all(&self.dir)?;
        let _lock = files::lock(&self.dir.join(".lock"))?;
        if self.is_current(&wanted, signer)? {
            return Ok(Refreshed { packages: wanted.len(), changed: false });
        }
        self.remove_leftovers()?;
        let staging = tempfile::Builder::new().prefix(STAGING).tempdir_in(&self.dir)?;
        let old = fs::read_to_string(self.dir.join(STAMP)).unwrap_or_default();
        let same_key = old.lines().next() == stamp_head(signer).lines().next();
        let mut copies = Vec::new();
        for (name, rpm) in &wanted {
            header(rpm)?;
            let (here, copy) = (self.dir.join(name), staging.path().join(name));
            if signer.is_none() {
                link(rpm, &copy)?;
            } else if same_key
                && stamp_line(name, rpm, &here)?.is_some_and(|line| old.contains(&line))
            {
                fs::hard_link(here, copy)?;
            } else {
                fs::copy(rpm, &copy)?;
                copies.push((rpm, copy));
            }
        }
        if let Some(signer) = signer {
            let paths: Vec<PathBuf> = copies.iter().map(|(_, copy)| copy.clone()).collect();
            signer.sign_rpms(&paths)?;
        }
        for (rpm, copy) in &copies {
            fs::OpenOptions::new()
                .write(true)
                .open(copy)?
                .file()
                .set_modified(fs::metadata(rpm)?.modified()?)?;
        }
        let reuse = same_key && copies.is_empty() && self.can_reuse(&wanted, &old)?;
        make_metadata(staging.path(), newest(&wanted)?, reuse.then_some(&*self.dir))?;
        let text = stamp(&wanted, staging.path(), signer)?;
        fs::write(staging.path().join(STAMP), text.unwrap_or_default())?;
        if let Some(signer) = signer {
            let repomd = staging.path().join(REPOMD);
            signer.sign_file(&repomd, &repomd.with_extension("xml.asc"))?;
            files::write_if_changed(&self.dir.join(signer.file_name()), signer.public())?;
        }
        // After a system crash, the stamp must not exist without the files that it describes.
        for name in files::names_in(&staging.path().join("repodata"))? {
            fs::File::open(staging.path().join("repodata").join(name))?.sync_all()?;
        }
        for (_, copy) in &copies {
            fs::File::open(copy)?.sync_all()?;
        }
        for name in wanted.keys() {
            let (copy, target) = (staging.path().join(name), self.dir.join(name));
            // The signed and the unsigned file may have the same size and time.
            if !same_key
                || !same_file(&copy, &target)?
                || copies.iter().any(|(_, signed)| *signed == copy)
            {
                fs::rename(copy, target)?;
            }
        }
        files::sync_folder(&staging.path().join("repodata"))?;
        files::exchange(&staging.path().join("repodata"), &self.dir.join("repodata"))?;
        files::sync_folder(&self.dir)?;
        let key = signer.map(Signer::file_name);
        for stale in self.names(|name| is_rpm(name) || name.starts_with(KEY_FILE))? {
            if !wanted.contains_key(&stale) && Some(stale.as_str()) != key {
                fs::remove_file(self.dir.join(stale))?;
            }
        }
        Ok(Refreshed { packages: wanted.len(), changed: true })
    }

    /// Returns whether the folder and the metadata are up to date for these RPMs.
    fn is_current(
        &self,
        wanted: &BTreeMap<String, &Path>,
        signer: Option<&Signer>,
    ) -> io::Result<bool> {
        let there = |path: &str| self.dir.join(path).is_file();
        if Repomd::verified(&self.dir).is_err() || !self.names(is_rpm)?.iter().eq(wanted.keys()) {
            return Ok(false);
        }
        let signed = signer
            .is_none_or(|signer| there("repodata/repomd.xml.asc") && there(signer.file_name()));
        let old = fs::read_to_string(self.dir.join(STAMP)).ok();
        let now = stamp(wanted, &self.dir, signer)?;
        Ok(signed && now.is_some() && old == now)
    }

    /// Returns whether createrepo_c may reuse the existing metadata of RPMs that keep their names.
    /// It compares sizes and times in whole seconds, which two builds can share; the lines of the
    /// stamp have the full time.
    fn can_reuse(&self, wanted: &BTreeMap<String, &Path>, old: &str) -> io::Result<bool> {
        let old: BTreeMap<&str, &str> =
            old.lines().filter_map(|line| Some((line.split_once('\t')?.0, line))).collect();
        for (name, rpm) in wanted {
            let Some(before) = old.get(name.as_str()) else { continue };
            let now = stamp_line(name, rpm, &self.dir.join(name))?;
            if now.as_deref().map(str::trim_end) != Some(*before) {
                return Ok(false);
            }
        }
        Ok(Repomd::verified(&self.dir).is_ok())
    }

    /// Removes the staging folders of killed runs.
    fn remove_leftovers(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(STAGING) {
                files::remove_dir_if_there(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Returns the sorted names in the folder that match `wanted`.
    fn names(&self, wanted: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
        Ok(files::names_in(&self.dir)?.into_iter().filter(|name| wanted(name)).collect())
    }
}

/// Writes the metadata of the RPMs in a folder. Reuses the metadata in `old` of RPMs with the same
/// name, size and time. The revision and all timestamps depend only on the RPMs, so that the same
/// files give the same metadata. Fails if the metadata is incomplete.
pub fn make_metadata(folder: &Path, revision: i64, old: Option<&Path>) -> Result<(), RpmError> {
    let mut command = Command::new("createrepo_c")
        .args(["--quiet", "--no-database", "--error-exit-val", "--set-timestamp-to-revision"])
        .args(["--revision", &revision.to_string()])
        .env("SOURCE_DATE_EPOCH", revision.to_string());
    if let Some(old) = old {
        command = command.arg("--update").arg("--update-md-path").arg(old);
    }
    compressed(command.arg(folder))?;
    Repomd::verified(folder).map(drop)
}

/// Runs `createrepo_c` with zstd, or with gzip if it is older than 1.0 and does not support zstd,
/// like 0.17 on Debian 12.
fn compressed(command: Command) -> Result<(), RpmError> {
    let finished = command.clone().arg("--general-compress-type=zstd").env("LC_ALL", "C").run()?;
    if finished.success() {
        return Ok(());
    }
    if String::from_utf8_lossy(&finished.stderr).contains("compression type \"zstd\"") {
        command.output()?;
        return Ok(());
    }
    let tail = last_lines(&finished.stderr, 3).join("; ");
    let how = finished.how();
    Err(ProcessError::Failed { program: "createrepo_c".into(), how, code: finished.code, tail }
        .into())
}

fn is_rpm(name: &str) -> bool {
    name.ends_with(".rpm")
}

fn by_name(rpms: &[PathBuf]) -> Result<BTreeMap<String, &Path>, RpmError> {
    let mut names = BTreeMap::new();
    for rpm in rpms {
        let invalid =
            |what: String| RpmError::Io(io::Error::new(io::ErrorKind::InvalidInput, what));
        let name =
            rpm.file_name().and_then(|name| name.to_str()).filter(|name| name.ends_with(".rpm"));
        let name = name.ok_or_else(|| {
            invalid(format!("{}: the file's name does not end in .rpm", rpm.display()))
        })?;
        if let Some(other) = names.insert(name.to_owned(), rpm.as_path()) {
            return Err(RpmError::SameName { one: other.to_owned(), other: rpm.clone() });
        }
    }
    Ok(names)
}

/// Describes the RPMs, their signer, and the files in `dir` that were made from them; `None` if one
/// of these files is missing or has another time.
fn stamp(
    wanted: &BTreeMap<String, &Path>,
    dir: &Path,
    signer: Option<&Signer>,
) -> io::Result<Option<String>> {
    let mut text = stamp_head(signer);
    for (name, rpm) in wanted {
        let Some(line) = stamp_line(name, rpm, &dir.join(name))? else { return Ok(None) };
        text += &line;
    }
    Ok(Some(text))
}

/// Returns the fingerprint of the signing key and the digest of its public part, which changes when
/// the key is renewed.
fn stamp_head(signer: Option<&Signer>) -> String {
    let key =
        |s: &Signer| format!("signed\t{}\n{}\n", s.fingerprint(), Sha256::of_bytes(s.public()));
    signer.map_or_else(|| "unsigned\n".into(), key)
}

fn stamp_line(name: &str, rpm: &Path, copy: &Path) -> io::Result<Option<String>> {
    let copy = match fs::metadata(copy) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let meta = fs::metadata(rpm)?;
    let time = (meta.mtime(), meta.mtime_nsec());
    let line = format!("{name}\t{}\t{}.{:09}\t{}\n", meta.len(), time.0, time.1, copy.len());
    Ok((time == (copy.mtime(), copy.mtime_nsec())).then_some(line))
}

fn newest(wanted: &BTreeMap<String, &Path>) -> io::Result<i64> {
    wanted.values().try_fold(EPOCH_1980, |newest, rpm| Ok(newest.max(fs::metadata(rpm)?.mtime())))
}

/// Hard-links `from`, or copies it with its time if the file system does not support hard links:
/// `createrepo_c` and [`same_file`] compare sizes and times.
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
        builder
            .with_file_contents("x\n", rpm::FileOptions::new(format!("/usr/share/{name}/a")))
            .unwrap();
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
        assert_eq!(repo.refresh(&both, None).unwrap(), Refreshed { packages: 2, changed: true });
        assert_eq!(repo.refresh(&both, None).unwrap(), Refreshed { packages: 2, changed: false });
        assert_eq!(query(repo.dir(), &dir.path().join("cache1")), ["one-1.0", "two-1.0"]);
        assert!(repo.refresh(&[two], None).unwrap().changed);
        assert_eq!(query(repo.dir(), &dir.path().join("cache2")), ["two-1.0"]);
        assert_eq!(repo.names(is_rpm).unwrap().len(), 1);
        assert!(repo.refresh(&[], None).unwrap().changed);
        assert!(query(repo.dir(), &dir.path().join("cache3")).is_empty());
    }

    #[test]
    fn rebuild_with_the_same_size_and_second_gets_its_own_digest() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repository::at(dir.path().join("repo"));
        let rpm = package(dir.path(), "one");
        let second =
            std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        let digest = |tail: &str, nanoseconds| {
            // Bytes after the payload, which rpm does not read: another digest with the same size.
            package(dir.path(), "one");
            let bytes = [fs::read(&rpm).unwrap(), tail.as_bytes().to_vec()].concat();
            fs::remove_file(&rpm).unwrap();
            fs::write(&rpm, bytes).unwrap();
            let time = second + std::time::Duration::from_nanos(nanoseconds);
            fs::OpenOptions::new()
                .write(true)
                .open(&rpm)
                .unwrap()
                .file()
                .set_modified(time)
                .unwrap();
            assert!(repo.refresh(std::slice::from_ref(&rpm), None).unwrap().changed);
            let primary = files::names_in(&repo.dir().join("repodata")).unwrap();
            let primary = primary.into_iter().find(|name| name.contains("primary.xml")).unwrap();
            let primary = fs::read(repo.dir().join("repodata").join(primary)).unwrap();
            let text = match primary.starts_with(&[0x1f, 0x8b]) {
                true => {
                    std::io::read_to_string(flate2::read::GzDecoder::new(&primary[..])).unwrap()
                }
                false => {
                    String::from_utf8(zstd::stream::decode_all(&primary[..]).unwrap()).unwrap()
                }
            };
            let (own, _) = Sha256::of_file(&rpm).unwrap();
            assert!(text.contains(&own.to_string()), "{tail}: not {own}: {text}");
        };
        digest("a", 100);
        digest("b", 200);
    }

    #[test]
    fn same_rpms_give_the_same_metadata() {
        let dir = tempfile::tempdir().unwrap();
        let one = [package(dir.path(), "one")];
        let read = |name: &str| {
            let repo = Repository::at(dir.path().join(name));
            repo.refresh(&one, None).unwrap();
            fs::read(repo.dir().join("repodata/repomd.xml")).unwrap()
        };
        assert_eq!(read("a"), read("b"));
    }

    #[test]
    fn a_rebuild_within_a_second_gets_its_own_digest() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repository::at(dir.path().join("repo"));
        let one = package(dir.path(), "one");
        let set_nanos = |nanos| {
            let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_700_000_000, nanos);
            fs::OpenOptions::new().write(true).open(&one).unwrap().set_modified(time).unwrap();
        };
        set_nanos(1);
        repo.refresh(std::slice::from_ref(&one), None).unwrap();
        // Another build with the same size, in a new file because the first one is hard-linked.
        let mut bytes = fs::read(&one).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::remove_file(&one).unwrap();
        fs::write(&one, bytes).unwrap();
        set_nanos(2);
        assert!(repo.refresh(std::slice::from_ref(&one), None).unwrap().changed);
        let primary = files::names_in(&repo.dir().join("repodata")).unwrap();
        let primary = primary.iter().find(|name| name.contains("-primary.xml")).unwrap();
        let mut text = String::new();
        let file = fs::read(repo.dir().join("repodata").join(primary)).unwrap();
        if primary.ends_with(".zst") {
            text = String::from_utf8(zstd::decode_all(&file[..]).unwrap()).unwrap();
        } else {
            io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&file[..]), &mut text)
                .unwrap();
        }
        assert!(text.contains(&Sha256::of_file(&one).unwrap().0.to_string()), "{text}");
    }

    #[test]
    fn rewrites_damaged_metadata() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repository::at(dir.path().join("repo"));
        let one = package(dir.path(), "one");
        repo.refresh(std::slice::from_ref(&one), None).unwrap();
        let repomd = repo.dir().join(REPOMD);
        let whole = fs::read(&repomd).unwrap();
        for damaged in ["", "<repomd>"] {
            fs::write(&repomd, damaged).unwrap();
            assert!(repo.refresh(std::slice::from_ref(&one), None).unwrap().changed);
            assert_eq!(fs::read(&repomd).unwrap(), whole);
        }
    }

    #[test]
    fn keeps_old_state_on_failure_and_repairs_damage() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repository::at(dir.path().join("repo"));
        let one = package(dir.path(), "one");
        repo.refresh(std::slice::from_ref(&one), None).unwrap();
        let bad = dir.path().join("bad.rpm");
        fs::write(&bad, "not an RPM").unwrap();
        let error = repo.refresh(&[one.clone(), bad], None).unwrap_err();
        assert!(error.to_string().contains("bad.rpm"), "{error}");
        assert!(!repo.refresh(std::slice::from_ref(&one), None).unwrap().changed);
        // Leftovers of a killed run: its staging folder, and an RPM that does not match the
        // metadata.
        fs::create_dir(repo.dir().join(".rocmrpm-repository-dead")).unwrap();
        fs::remove_file(repo.dir().join("one-1.0-1.noarch.rpm")).unwrap();
        fs::write(repo.dir().join("one-1.0-1.noarch.rpm"), "half").unwrap();
        assert!(repo.refresh(&[one], None).unwrap().changed);
        assert_eq!(query(repo.dir(), &dir.path().join("cache")), ["one-1.0"]);
        assert!(!repo.dir().join(".rocmrpm-repository-dead").exists());
    }

    #[test]
    fn refreshes_a_repository_without_its_stamp() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repository::at(dir.path().join("repo"));
        let one = [package(dir.path(), "one")];
        repo.refresh(&one, None).unwrap();
        let copy = repo.dir().join("one-1.0-1.noarch.rpm");
        fs::remove_file(&copy).unwrap();
        fs::write(&copy, "of another time").unwrap();
        assert!(repo.dir().join(STAMP).exists());
        fs::remove_file(repo.dir().join(STAMP)).unwrap();
        assert!(repo.refresh(&one, None).unwrap().changed);
        assert_eq!(fs::read(&copy).unwrap(), fs::read(&one[0]).unwrap());
    }

    #[test]
    fn revision_is_the_newest_package_but_not_before_1980() {
        let dir = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = [1, EPOCH_1980 + 5, EPOCH_1980 + 2]
            .map(|seconds: i64| {
                let path = dir.path().join(seconds.to_string());
                let time =
                    std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds.unsigned_abs());
                fs::File::create(&path).unwrap().file().set_modified(time).unwrap();
                path
            })
            .into();
        for (count, expected) in
            [(0, EPOCH_1980), (1, EPOCH_1980), (2, EPOCH_1980 + 5), (3, EPOCH_1980 + 5)]
        {
            let wanted = files[..count]
                .iter()
                .map(|path| (path.display().to_string(), path.as_path()))
                .collect();
            assert_eq!(newest(&wanted).unwrap(), expected, "{count}");
        }
    }

    #[test]
    fn rejects_duplicate_file_names() {
        let dir = tempfile::tempdir().unwrap();
        let one = package(dir.path(), "one");
        let error =
            Repository::at(dir.path().join("repo")).refresh(&[one.clone(), one], None).unwrap_err();
        assert!(matches!(error, RpmError::SameName { .. }), "{error}");
    }
}
