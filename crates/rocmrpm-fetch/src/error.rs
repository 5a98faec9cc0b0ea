//! What can go wrong between a pin and a verified file in the cache, and how to
//! fix it. URLs in these messages have no credentials.

use std::path::PathBuf;

use super::limits;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::error::{Diagnose, Diagnosis, IoError, Kind};
use rocmrpm_base::process::{ProcessError, quote};

/// The help when a host cannot be reached.
pub const NETWORK_HELP: &str = "is the network up, and is a proxy needed (https_proxy)?";

/// Why a source could not be had.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The pin has neither digest nor commit, so what it means can change.
    #[error("the pin of `{component}` {version} has no {missing}")]
    NotPinned {
        /// The component.
        component: String,
        /// Its version.
        version: String,
        /// `sha256` or `commit`.
        missing: &'static str,
    },
    /// What the pin names as a commit is not one.
    #[error("the pin of `{component}` names the commit `{commit}`, which is not 40 or 64 hexadecimal digits")]
    BadCommit {
        /// The component.
        component: String,
        /// What stands in the pin.
        commit: String,
    },
    /// The cache lacks it, and the network was forbidden.
    #[error("{what} is not in the cache {}, and `--offline` forbids fetching it", cache.display())]
    Offline {
        /// What would have to be fetched, and from where.
        what: String,
        /// The cache that was looked into.
        cache: PathBuf,
    },
    /// The file that came is not the pinned one.
    #[error("the digest of {what} is wrong: expected sha256 {expected}, found {found}{}", note(begins))]
    Digest {
        /// The file name and the URL it came from.
        what: String,
        /// What the pin or the index says.
        expected: Sha256,
        /// What the file has.
        found: Sha256,
        /// What the file begins with, where that is not an archive.
        begins: Option<String>,
    },
    /// The index offers another file than the pinned one under the same name.
    #[error("the index offers `{file}` with sha256 {found}, but the pin says {expected}")]
    IndexDigest {
        /// The file's name on the index.
        file: String,
        /// What the pin says.
        expected: Sha256,
        /// What the index says.
        found: Sha256,
    },
    /// The index does not have a file that it had.
    #[error("the index {index} no longer has `{file}`")]
    NoFile {
        /// The index, without credentials.
        index: String,
        /// The file's name.
        file: String,
    },
    /// The METADATA of a distribution cannot be read, or are of another one.
    #[error("the METADATA of `{file}` cannot be used: {wrong}")]
    Metadata {
        /// The distribution's file.
        file: String,
        /// What is wrong.
        wrong: String,
    },
    /// A file in the cache changed since it was verified.
    #[error("the cached file {} was damaged: expected sha256 {expected}, found {found}; it is removed", path.display())]
    Damaged {
        /// The file, which is no longer there.
        path: PathBuf,
        /// What its name promised.
        expected: Sha256,
        /// What it had.
        found: Sha256,
    },
    /// The content is not what the file name says.
    #[error("{file} is not {expected}: it begins with {begins}")]
    NotAnArchive {
        /// The file name and where it came from.
        file: String,
        /// The format, with its article.
        expected: &'static str,
        /// The first bytes, printable.
        begins: String,
    },
    /// A transfer did not take place.
    #[error("cannot fetch {url}: {reason}")]
    Transfer {
        /// The URL.
        url: String,
        /// What curl's exit code means.
        reason: String,
        /// The HTTP status, or 0.
        status: u16,
        /// How to fix it, if known.
        help: Option<&'static str>,
    },
    /// A server sends more than it may. Nothing is kept.
    #[error("cannot fetch {url}: it has more than {limit} bytes")]
    TooLarge {
        /// The URL.
        url: String,
        /// How many bytes it may have.
        limit: u64,
    },
    /// The limit that the user sets cannot be read.
    #[error("`{value}` in {variable} is not a size")]
    BadLimit {
        /// The variable.
        variable: &'static str,
        /// What it holds.
        value: String,
    },
    /// A transfer ended early. What arrived is kept.
    #[error("the download of {url} broke off after {arrived} bytes: {reason}")]
    Truncated {
        /// The URL.
        url: String,
        /// How many bytes are in the partial file.
        arrived: u64,
        /// How it broke off.
        reason: String,
    },
    /// The cache cannot be written to: usually a full disk. What arrived is kept.
    #[error("cannot write {} while fetching {url}: {free} bytes are free on its file system", path.display())]
    Write {
        /// The partial file.
        path: PathBuf,
        /// The URL.
        url: String,
        /// What the file system has left for us.
        free: u64,
    },
    /// Nothing would show that the file was replaced on its way.
    #[error("{url} is fetched without TLS, and its digest is not known")]
    Unprotected {
        /// The URL.
        url: String,
    },
    /// The URL cannot be used.
    #[error("`{url}` is not a URL that can be fetched: {reason}")]
    BadUrl {
        /// The URL.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// git could not talk to the repository.
    #[error("cannot fetch from the git repository {url}: {said}")]
    Git {
        /// The repository.
        url: String,
        /// git's last lines.
        said: String,
    },
    /// The repository does not have the commit.
    #[error("the git repository {url} has no commit {commit}{}", found.as_ref().map(|f| format!("; that object is a {f}")).unwrap_or_default())]
    NoCommit {
        /// The repository.
        url: String,
        /// The pinned commit.
        commit: String,
        /// What the object is instead, if it is there.
        found: Option<String>,
    },
    /// The commit does not have a folder that the pin wants packed.
    #[error("commit {commit} of {url} has no `{path}`")]
    NoPath {
        /// The repository.
        url: String,
        /// The pinned commit.
        commit: String,
        /// What the pin wants.
        path: String,
        /// The folders above it that are there, and what they have.
        there: String,
    },
    /// An archive cannot be unpacked.
    #[error("`{archive}` cannot be unpacked: {reason}")]
    NotUnpacked {
        /// The archive.
        archive: String,
        /// Why not.
        reason: String,
        /// How many bytes it may unpack to, if it has more.
        limit: Option<u64>,
    },
    /// A file of an unpacked source is not read.
    #[error("`{path}` of `{archive}` is not read: {reason}")]
    Unreadable {
        /// The file, below the source's top folder.
        path: String,
        /// The source's archive.
        archive: String,
        /// Why not.
        reason: String,
    },
    /// A submodule's commit cannot be had.
    #[error("the submodule `{path}` cannot be had: commit {commit} of {url}")]
    Submodule {
        /// The submodule's folder in the source.
        path: String,
        /// Its repository.
        url: String,
        /// The commit that the superproject records.
        commit: String,
        /// Why not.
        source: Box<Self>,
    },
    /// A commit names a submodule that is not fetched.
    #[error("the submodule `{path}` of commit {commit} of {superproject} is refused: {reason}")]
    BadSubmodule {
        /// The submodule's folder in the source.
        path: String,
        /// The repository that names it.
        superproject: String,
        /// The commit of that repository.
        commit: String,
        /// Why it is refused.
        reason: String,
    },
    /// The crates of a lock file cannot be vendored.
    #[error("the crates of {lock_file} cannot be vendored: {reason}")]
    Crates {
        /// The `Cargo.lock`, and the source that it is of.
        lock_file: String,
        /// Why not.
        reason: String,
        /// What cargo said.
        said: Vec<String>,
        /// What it means.
        kind: Kind,
    },
    /// The lock says something else of a source than is so.
    #[error("the lock is wrong about `{component}`: it has {locked} for {what}, which is {found}")]
    LockDiffers {
        /// The component.
        component: String,
        /// What differs.
        what: String,
        /// What the lock has.
        locked: String,
        /// What there is.
        found: String,
    },
    /// Upstream means something else by the version than it did when it was locked.
    #[error("{what} is {found} now, and was {locked} when it was locked")]
    Moved {
        /// The tag and its repository, or the file and its URL.
        what: String,
        /// What the lock has.
        locked: String,
        /// What there is now.
        found: String,
        /// The table of the lock file.
        table: String,
    },
    /// No tag of the repository stands for the version.
    #[error("the git repository {url} has no tag for version {version}; looked for {}", tried.join(", "))]
    NoTag {
        /// The repository.
        url: String,
        /// The pinned version.
        version: String,
        /// The tags that were looked for.
        tried: Vec<String>,
        /// Tags that are spelled alike.
        near: Vec<String>,
    },
    /// pip did not say which index it uses.
    #[error("cannot tell which package index pip uses: {reason}")]
    NoIndex {
        /// Why.
        reason: String,
    },
    /// The index does not know the project.
    #[error("the index {index} has no project `{project}`")]
    NoProject {
        /// The index.
        index: String,
        /// The normalised name.
        project: String,
    },
    /// The index has no sdist of that version.
    #[error("the index {index} has no sdist of `{project}` {version}{}", other.as_ref().map(|o| format!(", only {o}")).unwrap_or_default())]
    NoSdist {
        /// The index.
        index: String,
        /// The normalised name.
        project: String,
        /// The version, or `in a final version`.
        version: String,
        /// What it has of that version instead.
        other: Option<String>,
        /// The nearest versions that have one, greatest first.
        near: Vec<String>,
    },
    /// The index has no wheel of that name.
    #[error("the index {index} has no wheel `{file}`")]
    NoWheel {
        /// The index.
        index: String,
        /// The wheel's name.
        file: String,
    },
    /// The index answered with something that is no project page.
    #[error("the page {url} cannot be read: {reason}")]
    IndexPage {
        /// The page.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A folder source is not there or has no files.
    #[error("the source folder {} of `{component}` {problem}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The component.
        component: String,
        /// `does not exist`, and so on.
        problem: &'static str,
    },
    /// Something in a folder cannot be packed so that it unpacks elsewhere.
    #[error("{} cannot be packed: {problem}", path.display())]
    Unpackable {
        /// The file.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// Neither `ROCMRPM_CACHE` nor a home folder says where the cache is.
    #[error("no place for the cache: neither ROCMRPM_CACHE, XDG_CACHE_HOME nor HOME is set")]
    NoCache,
    /// Another user could put anything into the cache.
    #[error("the cache is not safe: `{}` {}", path.display(), whose(*owner))]
    OpenCache {
        /// The cache.
        cache: PathBuf,
        /// The cache, or a folder of it.
        path: PathBuf,
        /// Its owner, unless only its mode is wrong.
        owner: Option<u32>,
    },
    /// A child process.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The file system.
    #[error(transparent)]
    Io(#[from] IoError),
}

fn note(begins: &Option<String>) -> String {
    begins.as_ref().map(|b| format!("; what came begins with {b}")).unwrap_or_default()
}

/// What to do after a transfer that left a partial file.
const RESUME: &str = "run the same command again to resume";

impl Diagnose for SourceError {
    fn diagnosis(&self) -> Diagnosis {
        let nearest =
            |names: &[String]| (!names.is_empty()).then(|| format!("the nearest are {}", names.join(", ")));
        match self {
            Self::NotPinned { missing, .. } => {
                Kind::Config.with_help(format!("`rocmrpm lock` fetches it once and records its {missing}"))
            }
            Self::BadCommit { .. } => Kind::Config.with_help(
                "remove the commit and run `rocmrpm lock`, which records the one of the version's tag",
            ),
            Self::BadUrl { .. }
            | Self::NoProject { .. }
            | Self::NoFile { .. }
            | Self::BadSubmodule { .. }
            | Self::Unreadable { .. }
            | Self::Folder { .. }
            | Self::Unpackable { .. } => Kind::Config.into(),
            Self::Unprotected { .. } => Kind::Config
                .with_help("use https, or write the `sha256` that upstream publishes into the pin"),
            Self::BadLimit { variable, .. } => {
                Kind::Config.with_help(format!("write it as in `{variable}=\"64 GB\"`"))
            }
            Self::NotAnArchive { .. } => Kind::Config
                .with_help("open the URL of the pin in a browser: an error page, or the wrong file?"),
            Self::NotUnpacked { limit: Some(limit), .. } => Kind::Config.with_help(limits::help(*limit)),
            Self::NotUnpacked { .. } => {
                Kind::Config.with_help("is it the archive that upstream published? compare its digest")
            }
            Self::NoCommit { .. } => {
                Kind::Config.with_help("correct the commit in the pin, or remove it and run `rocmrpm lock`")
            }
            Self::NoTag { near, .. } => Diagnosis::from(Kind::Config)
                .with_help_lines(nearest(near))
                .with_help("write the commit into the pin"),
            Self::NoSdist { near, other, .. } => {
                let instead = other.as_ref().map(|_| "pin the source by URL or git commit instead");
                Diagnosis::from(Kind::Config).with_help_lines(nearest(near)).with_help_lines(instead)
            }
            Self::NoWheel { .. } => Kind::Config.with_help(
                "is it deleted? pin another version; `rocmrpm closure --write --upgrade` chooses those of a closure",
            ),
            Self::NoPath { there, .. } => Kind::Config.with_help(there),
            Self::LockDiffers { .. } => Kind::Config.with_help(
                "`rocmrpm lock` writes what is so; review the difference before you commit it",
            ),
            Self::Moved { table, .. } => Kind::Config
                .with_help("ask upstream why; a build continues to use what was locked")
                .with_help(format!(
                    "to accept it, remove the table `[{table}]` from the lock file and run `rocmrpm lock` again"
                )),
            Self::Offline { .. } => {
                Kind::Network.with_help("run the same command once without `--offline`")
            }
            Self::Digest { .. } | Self::IndexDigest { .. } => Kind::Network.with_help(
                "if upstream replaced the file and you have checked the new one, remove the digest from the pin and run `rocmrpm lock`",
            ),
            Self::Transfer { help, .. } => {
                Diagnosis::from(Kind::Network).with_help_lines(help.iter().copied())
            }
            // Any other limit is the size that the lock file or the index has.
            Self::TooLarge { limit, .. } if limits::file(None).is_ok_and(|most| most == *limit) => {
                Kind::Network.with_help(limits::help(*limit))
            }
            Self::TooLarge { .. } | Self::Metadata { .. } | Self::IndexPage { .. } => Kind::Network.into(),
            Self::Truncated { .. } => Kind::Network.with_help(RESUME),
            // What libcurl tells git where there is no way to the host.
            Self::Git { said, .. }
                if ["Could not resolve", "Failed to connect", "timed out"].iter().any(|text| said.contains(text)) =>
            {
                Kind::Network.with_help(NETWORK_HELP)
            }
            Self::Git { .. } => Kind::Network
                .with_help("check the URL of the pin; is the network up, and are credentials needed?"),
            Self::Damaged { .. } => {
                Kind::Environment.with_help("run the same command again; it fetches the file again")
            }
            Self::Write { .. } => Kind::Environment.with_help(format!(
                "free some space, or set ROCMRPM_CACHE to a folder elsewhere; then {RESUME}"
            )),
            Self::NoIndex { .. } => Kind::Environment.with_help("set PIP_INDEX_URL to the index's URL"),
            Self::NoCache => Kind::Environment.into(),
            Self::OpenCache { cache, owner: None, .. } => {
                Kind::Environment.with_help(format!("chmod 0700 {}", quote(&cache.to_string_lossy())))
            }
            Self::OpenCache { cache, owner: Some(_), .. } => {
                let own = format!("{}-{}", cache.display(), rustix::process::geteuid().as_raw());
                Kind::Environment
                    .with_help(format!("use a cache of your own: export ROCMRPM_CACHE={}", quote(&own)))
            }
            Self::Crates { kind, said, .. } => {
                let help = match kind {
                    Kind::Network => {
                        Some("is the network up? cargo's own configuration names mirrors and proxies")
                    }
                    Kind::Config => {
                        Some("the lock file is upstream's: pin another version or commit, or tell upstream")
                    }
                    _ => None,
                };
                Diagnosis::from(*kind).with_help_lines(help).with_details(said)
            }
            Self::Submodule { source, .. } => source.diagnosis(),
            Self::Process(error) => error.diagnosis(),
            Self::Io(error) => error.diagnosis(),
        }
    }
}

/// Describes who can write to a cache.
fn whose(owner: Option<u32>) -> String {
    match owner {
        Some(owner) => format!("belongs to another user (user ID {owner})"),
        None => "can be written to by other users".to_owned(),
    }
}
