//! Determines the files of a ROCm that no package has, for the lock of its provider: ROCm's Python
//! packages, as uv resolves them, or the artifacts of a CI run of TheRock. Builds only use locked
//! files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use pep440_rs::Version;
use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl};

use crate::closure::{ClosureError, Locked, LockedFile, LockedOrigin, pylock};
use crate::digest::Sha256;
use crate::error::{Diagnose, Diagnosis, Error, IoError, Kind};
use crate::files;
use crate::process::ProcessError;
use crate::sources::{Fetcher, Resolved, SourceError, download_plain};
use crate::text::{SEGMENT, percent_encode};
use crate::uv::{self, Failure, FailureReason};
use crate::workspace::pin::{Pin, Source};
use crate::workspace::{Artifacts, Delivery, RocmFile, RocmLock, Selection, Workspace};

/// uv's output file; PEP 751 restricts its name.
const OUTPUT: &str = "pylock.toml";
/// The most pages of a bucket's list that are read; each has a thousand names.
const MAX_PAGES: usize = 100;

/// The new lock of a provider.
#[derive(Debug)]
pub struct ProviderLock {
    /// The provider.
    pub provider: String,
    /// The file, relative to the workspace.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
    /// Its old text; empty if it was missing.
    pub old_text: String,
    /// The new lock.
    pub lock: RocmLock,
}

impl ProviderLock {
    /// Returns whether the file is out of date.
    pub fn differs(&self) -> bool {
        self.old_text != self.lock.text()
    }

    /// Writes the lock file.
    pub fn write(&self) -> Result<(), Error> {
        let action = IoError::doing(format!("write `{}`", self.name));
        Ok(files::write_durably(&self.path, self.lock.text()).map_err(action)?)
    }
}

/// Determines the locks of the ROCm of all chroots of a workspace that no package has.
pub fn lock_all(workspace: &Workspace, fetcher: &Fetcher<'_>) -> Result<Vec<ProviderLock>, Error> {
    let mut locks: Vec<ProviderLock> = Vec::new();
    for chroot in workspace.all_chroots() {
        if locks.iter().any(|lock| lock.provider == chroot.rocm_provider.value) {
            continue;
        }
        let selection = Selection {
            chroot: Some(chroot.name.clone()),
            pins: Some(workspace.pins.name.clone()),
            ..Selection::default()
        };
        locks.extend(lock(&Workspace::load(&workspace.root, &selection)?, fetcher)?);
    }
    Ok(locks)
}

/// Determines the lock of the ROCm of the workspace's chosen chroot; `None` if packages have it.
pub fn lock(workspace: &Workspace, fetcher: &Fetcher<'_>) -> Result<Option<ProviderLock>, Error> {
    let provider = &workspace.provider;
    let Some(delivery) = &provider.delivery else { return Ok(None) };
    let name = format!("mock-configs/rocm/{}.lock", provider.name);
    let path = workspace.root.join(format!("mock-configs/rocm/{}.lock", provider.name));
    let old_text = match path.is_file() {
        true => fs_err::read_to_string(&path).map_err(IoError::doing(format!("read `{name}`")))?,
        false => String::new(),
    };
    let (target, arch) = (workspace.rocm_target(), workspace.chroot.architecture());
    let inputs = Some(RocmLock::inputs(delivery, arch, &target));
    let old = provider.lock.clone().unwrap_or_default();
    let files = if fetcher.is_offline() {
        if old.inputs != inputs {
            return Err(DeliveryError::Offline { file: name }.into());
        }
        old.files
    } else {
        match delivery {
            Delivery::PythonPackages { requirements, index, .. } => {
                packages(workspace, fetcher, (requirements, index.as_deref()), &old)?
            }
            Delivery::Artifacts(artifacts) => archives(artifacts, fetcher, &old)?,
        }
    };
    let lock = RocmLock { inputs, files };
    Ok(Some(ProviderLock { provider: provider.name.clone(), name, path, old_text, lock }))
}

/// Resolves requirements on ROCm's Python packages.
fn packages(
    workspace: &Workspace,
    fetcher: &Fetcher<'_>,
    (requirements, index): (&[String], Option<&str>),
    old: &RocmLock,
) -> Result<Vec<RocmFile>, Error> {
    let environment = workspace.chroot.environment()?;
    let scratch = tempfile::tempdir().map_err(IoError::doing("create a folder for uv"))?;
    let output = scratch.path().join(OUTPUT);
    let held: Vec<(&String, Version)> = old
        .files
        .iter()
        .filter_map(|file| file.distribution.as_ref())
        .filter_map(|(name, version)| Some((name, Version::from_str(version).ok()?)))
        .collect();
    if !held.is_empty() {
        let held = held.iter().map(|(name, version)| (name.as_str(), version));
        fs_err::write(&output, pylock::preferences(held))
            .map_err(IoError::doing("write files for uv"))?;
    }
    // Build requirements may be on another index than ROCm.
    let mut indexes: Vec<String> = index.map(str::to_owned).into_iter().collect();
    let usual = fetcher.index_url()?.to_owned();
    if !indexes.contains(&usual) {
        indexes.push(usual);
    }
    let mut args = vec!["--format", OUTPUT, "--output-file", OUTPUT];
    if requirements.iter().any(|text| is_of_prerelease(text)) {
        args.extend(["--prerelease", "allow"]);
    }
    let list: String = requirements.iter().map(|line| format!("{line}\n")).collect();
    let target = workspace.rocm_target();
    let root = &workspace.root;
    let from = (indexes.as_slice(), target.as_str());
    match uv::compile_for(root, &environment, scratch.path(), list, from, &args) {
        Ok(_) => {}
        Err(Failure::Refused { reported, why }) => {
            let (reported, network) = (uv::last(reported), why == FailureReason::Network);
            return Err(DeliveryError::Resolve { reported, network }.into());
        }
        Err(Failure::Process(error)) => return Err(DeliveryError::Process(error).into()),
        Err(Failure::Io(error)) => return Err(error.into()),
    }
    let text = fs_err::read_to_string(&output).map_err(IoError::doing("read what uv resolved"))?;
    let resolved = pylock::read(&text, &BTreeMap::new(), &environment);
    let resolved = resolved.map_err(DeliveryError::Closure)?;
    let files: Vec<RocmFile> = resolved.into_iter().filter_map(file_of).collect();
    for file in &files {
        let locked = old.files.iter().find(|locked| locked.name == file.name);
        if let Some(locked) = locked.filter(|locked| locked.sha256 != file.sha256) {
            let (name, locked, found) = (file.name.clone(), locked.sha256, file.sha256);
            return Err(DeliveryError::Changed { name, locked, found }.into());
        }
    }
    Ok(files)
}

/// Returns whether a requirement names a pre-release.
fn is_of_prerelease(requirement: &str) -> bool {
    let parsed = Requirement::<VerbatimUrl>::from_str(requirement);
    match parsed.ok().and_then(|requirement| requirement.version_or_url) {
        Some(VersionOrUrl::VersionSpecifier(specifiers)) => {
            specifiers.iter().any(|specifier| specifier.version().any_prerelease())
        }
        _ => false,
    }
}

/// Returns the file that is installed of a distribution: its wheel, or the sdist if there is none.
fn file_of(Locked { name, version, origin }: Locked) -> Option<RocmFile> {
    let LockedOrigin::Index { wheel, sdist } = origin else { return None };
    let LockedFile { name: file, sha256, size, .. } = wheel.or(sdist)?;
    Some(RocmFile { name: file, distribution: Some((name, version.to_string())), sha256, size })
}

/// Lists the artifacts of a run, and determines their digests.
fn archives(
    artifacts: &Artifacts,
    fetcher: &Fetcher<'_>,
    old: &RocmLock,
) -> Result<Vec<RocmFile>, Error> {
    let names = listed(artifacts)?;
    let wanted: Vec<&String> = names.iter().filter(|name| artifacts.wants(name)).collect();
    let has = |group: &String| wanted.iter().any(|name| name.split('_').next() == Some(group));
    let absent: Vec<String> =
        artifacts.groups.iter().filter(|group| !has(group)).cloned().collect();
    if wanted.is_empty() || !absent.is_empty() {
        let run = artifacts.url_of("");
        return Err(DeliveryError::NoArtifacts { run, absent, found: names.len() }.into());
    }
    let mut files = Vec::new();
    for name in wanted {
        let known = old.files.iter().find(|file| file.name == *name).map(|file| file.sha256);
        let file = RocmFile {
            name: name.clone(),
            distribution: None,
            sha256: Sha256::of_bytes(""),
            size: None,
        };
        let Some(pin) = file.pin(&Delivery::Artifacts(artifacts.clone())) else { continue };
        let source = Source::Url { url: artifacts.url_of(name), sha256: known };
        let pin = Pin { source, ..pin };
        let resolved = fetcher.resolve(&pin);
        fetcher.leave(&pin.component);
        if let Resolved::File { sha256, size, .. } = resolved? {
            files.push(RocmFile { sha256, size: Some(size), ..file });
        }
    }
    Ok(files)
}

/// Returns the names of the files in the folder of a run, as S3 lists them (ListObjectsV2), sorted.
fn listed(artifacts: &Artifacts) -> Result<Vec<String>, Error> {
    let Artifacts { url, run, .. } = artifacts;
    let scratch = tempfile::tempdir().map_err(IoError::doing("create a folder for a list"))?;
    let page = scratch.path().join("list.xml");
    let (mut names, mut token) = (Vec::new(), String::new());
    for _ in 0..MAX_PAGES {
        let list = format!("{url}/?list-type=2&prefix={run}%2F{token}");
        download_plain(&list, &page)?;
        let text = fs_err::read_to_string(&page).map_err(IoError::doing("read a list"))?;
        if !text.contains("<ListBucketResult") {
            return Err(DeliveryError::NotAList { url: list }.into());
        }
        let keys = elements(&text, "Key").filter_map(|key| key.strip_prefix(&format!("{run}/")));
        names.extend(keys.filter(|name| !name.contains('/')).map(str::to_owned));
        match elements(&text, "NextContinuationToken").next() {
            Some(next) => {
                token = format!("&continuation-token={}", percent_encode(next, SEGMENT));
            }
            None => break,
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the texts of all elements with this name in an XML document.
fn elements<'t>(text: &'t str, name: &str) -> impl Iterator<Item = &'t str> {
    let end = format!("</{name}>");
    text.split(&format!("<{name}>"))
        .skip(1)
        .filter_map(move |rest| {
            let at = rest.find(&end)?;
            Some(&rest[..at])
        })
        .collect::<Vec<_>>()
        .into_iter()
}

/// Why the files of ROCm could not be determined.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The lock is for other settings, and the network may not be used.
    #[error("{file} is missing or for other settings, and `--offline` forbids resolving it")]
    Offline {
        /// The lock file.
        file: String,
    },
    /// uv found no solution or could not query an index.
    #[error("uv cannot resolve ROCm's Python packages")]
    Resolve {
        /// The last lines of uv's output, without passwords.
        reported: Vec<String>,
        /// Whether an index was unreachable.
        network: bool,
    },
    /// An index has another file under the name of a locked one.
    #[error("{name} has sha256 {found}, but the lock has {locked}")]
    Changed {
        /// The name of the file.
        name: String,
        /// The digest in the lock.
        locked: Sha256,
        /// The digest on the index.
        found: Sha256,
    },
    /// A server has no list of a run's artifacts.
    #[error("{url} is not the list of a bucket")]
    NotAList {
        /// The URL.
        url: String,
    },
    /// A run lacks artifacts.
    #[error(
        "{run} has {}, but none of {}",
        crate::style::count(*found, "file"),
        if absent.is_empty() { "the wanted artifacts".to_owned() } else { absent.join(", ") }
    )]
    NoArtifacts {
        /// The URL of the run.
        run: String,
        /// The groups that it lacks.
        absent: Vec<String>,
        /// How many files it has.
        found: usize,
    },
    /// uv's output cannot be read.
    #[error(transparent)]
    Closure(ClosureError),
    /// A file could not be fetched.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// uv was not found or could not run.
    #[error(transparent)]
    Process(ProcessError),
}

impl Diagnose for DeliveryError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Offline { .. } => {
                Kind::Network.with_help("run `rocmrpm lock` without `--offline`")
            }
            Self::Resolve { network: true, reported } => {
                Kind::Network.with_help("run the same command again later").with_details(reported)
            }
            Self::Resolve { reported, .. } => Kind::Config
                .with_help(
                    "correct `requirements` or `index` of the provider's `[python-packages]`",
                )
                .with_details(reported),
            Self::Changed { .. } => Kind::Network.with_help(
                "if the file was replaced and you have checked the new one, delete the lock of the \
                 provider, and run `rocmrpm lock`",
            ),
            Self::NotAList { .. } => {
                Kind::Network.with_help("correct `url` of the provider's `[artifacts]`")
            }
            Self::NoArtifacts { .. } => Kind::Config
                .with_help("correct `run`, `groups` or `targets` of the provider's `[artifacts]`"),
            Self::Closure(error) => error.diagnosis(),
            Self::Source(error) => error.diagnosis(),
            Self::Process(error) => uv::diagnosis(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_requirements_on_prereleases() {
        for (requirement, expected) in [
            ("rocm[devel]==7.14.0a20260101", true),
            ("rocm[libraries]==7.14.0", false),
            ("rocm", false),
        ] {
            assert_eq!(is_of_prerelease(requirement), expected, "{requirement}");
        }
    }

    #[test]
    fn reads_the_elements_of_a_list() {
        let text =
            "<ListBucketResult><Key>1/a</Key><Size>3</Size><Key>1/b</Key></ListBucketResult>";
        assert_eq!(elements(text, "Key").collect::<Vec<_>>(), ["1/a", "1/b"]);
    }
}
