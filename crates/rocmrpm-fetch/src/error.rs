//! The errors between a pin and a verified file in the cache, and how to fix them. URLs in these
//! messages have no credentials.

use std::path::PathBuf;

use super::limits::{self, BadLimit};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::error::{Diagnose, Diagnosis, IoError, Kind};
use rocmrpm_base::process::{ProcessError, quote};

/// The help for an unreachable host.
pub const NETWORK_HELP: &str = "check the network, and set https_proxy if you need a proxy";

/// Why a source is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The pin has neither digest nor commit, so its content can change.
    #[error("the pin of `{component}` {version} has no {missing}")]
    NotPinned {
        /// The component.
        component: String,
        /// Its version.
        version: String,
        /// `sha256` or `commit`.
        missing: &'static str,
    },
    /// The pin's commit is not a commit ID.
    #[error(
        "the pin of `{component}` names the commit `{commit}`, which is not 40 or 64 hexadecimal digits"
    )]
    BadCommit {
        /// The component.
        component: String,
        /// The text in the pin.
        commit: String,
    },
    /// The cache lacks a source, and `--offline` forbids fetching it.
    #[error("{what} is not in the cache {}, and `--offline` forbids fetching it", cache.display())]
    Offline {
        /// The missing source and its URL.
        what: String,
        /// The path of the cache.
        cache: PathBuf,
    },
    /// The fetched file has another digest than the pinned one.
    #[error(
        "the digest of {what} is wrong: expected sha256 {expected}, found {found}{}",
        note(begins)
    )]
    Digest {
        /// The file name and the URL.
        what: String,
        /// The digest in the pin or on the index.
        expected: Sha256,
        /// The digest of the file.
        found: Sha256,
        /// The start of the file, if that is not an archive.
        begins: Option<String>,
    },
    /// The index has another file than the pinned one under the same name.
    #[error("the index offers `{file}` with sha256 {found}, but the pin has {expected}")]
    IndexDigest {
        /// The name of the file on the index.
        file: String,
        /// The digest in the pin.
        expected: Sha256,
        /// The digest on the index.
        found: Sha256,
    },
    /// The index no longer has a file.
    #[error("the index {index} no longer has `{file}`")]
    NoFile {
        /// The index, without credentials.
        index: String,
        /// The name of the file.
        file: String,
    },
    /// The METADATA of a distribution is malformed, or belongs to another one.
    #[error("invalid METADATA of `{file}`: {wrong}")]
    Metadata {
        /// The file of the distribution.
        file: String,
        /// What is wrong.
        wrong: String,
    },
    /// A file in the cache changed after it was verified.
    #[error("the cached file {} was damaged: expected sha256 {expected}, found {found}; rocmrpm removed it", path.display())]
    Damaged {
        /// The path of the file, which was removed.
        path: PathBuf,
        /// The digest in its name.
        expected: Sha256,
        /// The digest of its content.
        found: Sha256,
    },
    /// The content does not match the format that the file name promises.
    #[error("{file} is not {expected}: it begins with {begins}")]
    NotAnArchive {
        /// The file name and its origin.
        file: String,
        /// The expected format, with its article.
        expected: &'static str,
        /// The first bytes, printable.
        begins: String,
    },
    /// A transfer failed.
    #[error("cannot fetch {url}: {reason}")]
    Transfer {
        /// The URL.
        url: String,
        /// The meaning of curl's exit code.
        reason: String,
        /// The HTTP status, or 0.
        status: u16,
        /// How to fix it, if known.
        help: Option<&'static str>,
    },
    /// A server sends more bytes than the limit. Nothing is kept.
    #[error("cannot fetch {url}: it has more than {limit} bytes")]
    TooLarge {
        /// The URL.
        url: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The user's limit is malformed.
    #[error(transparent)]
    BadLimit(#[from] BadLimit),
    /// A transfer ended early. The partial file is kept.
    #[error("the download of {url} was interrupted after {arrived} bytes: {reason}")]
    Truncated {
        /// The URL.
        url: String,
        /// The size of the partial file in bytes.
        arrived: u64,
        /// The reason.
        reason: String,
    },
    /// Writing to the cache failed, usually because the disk is full. The partial file is kept.
    #[error("cannot write {} while fetching {url}: {free} bytes are free on its file system", path.display())]
    Write {
        /// The partial file.
        path: PathBuf,
        /// The URL.
        url: String,
        /// The free space of the file system in bytes.
        free: u64,
    },
    /// Without TLS and a digest, a file that was replaced in transit would go unnoticed.
    #[error("refusing to fetch {url} without TLS or a known digest")]
    Unprotected {
        /// The URL.
        url: String,
    },
    /// The URL is invalid.
    #[error("`{url}` is not a URL that can be fetched: {reason}")]
    BadUrl {
        /// The URL.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// git failed to fetch from the repository.
    #[error("cannot fetch from the git repository {url}: {reported}")]
    Git {
        /// The repository.
        url: String,
        /// The last lines of git's output.
        reported: String,
    },
    /// The repository does not have the commit.
    #[error("the git repository {url} has no commit {commit}{}", found.as_ref().map(|f| format!("; that object is a {f}")).unwrap_or_default())]
    NoCommit {
        /// The repository.
        url: String,
        /// The pinned commit.
        commit: String,
        /// The type of the object instead, if it exists.
        found: Option<String>,
    },
    /// The commit lacks a folder that the pin selects.
    #[error("commit {commit} of {url} has no `{path}`")]
    NoPath {
        /// The repository.
        url: String,
        /// The pinned commit.
        commit: String,
        /// The missing path.
        path: String,
        /// The contents of its nearest existing parent folder.
        there: String,
    },
    /// Unpacking an archive failed.
    #[error("cannot unpack `{archive}`: {reason}")]
    NotUnpacked {
        /// The archive.
        archive: String,
        /// The reason.
        reason: String,
        /// The limit in bytes, if the archive exceeds it.
        limit: Option<u64>,
    },
    /// A file of an unpacked source is unreadable.
    #[error("cannot read `{path}` of `{archive}`: {reason}")]
    Unreadable {
        /// The path of the file below the source's top folder.
        path: String,
        /// The archive of the source.
        archive: String,
        /// The reason.
        reason: String,
    },
    /// A submodule could not be fetched.
    #[error("cannot fetch the submodule `{path}`: commit {commit} of {url}")]
    Submodule {
        /// The folder of the submodule in the source.
        path: String,
        /// The repository of the submodule.
        url: String,
        /// The commit that the superproject records.
        commit: String,
        /// The error of fetching it.
        source: Box<Self>,
    },
    /// A commit has a submodule that rocmrpm refuses to fetch.
    #[error("the submodule `{path}` of commit {commit} of {superproject} is refused: {reason}")]
    BadSubmodule {
        /// The folder of the submodule in the source.
        path: String,
        /// The repository of the superproject.
        superproject: String,
        /// The commit of that repository.
        commit: String,
        /// The reason.
        reason: String,
    },
    /// Vendoring the crates of a lock file failed.
    #[error("cannot vendor the crates of {lock_file}: {reason}")]
    Crates {
        /// The `Cargo.lock`, and the source that has it.
        lock_file: String,
        /// The reason.
        reason: String,
        /// cargo's output.
        reported: Vec<String>,
        /// The kind of the error.
        kind: Kind,
    },
    /// The lock file contradicts a source.
    #[error(
        "the lock file contradicts `{component}`: it has {locked} for {what}, which is {found}"
    )]
    LockDiffers {
        /// The component.
        component: String,
        /// The differing property.
        what: String,
        /// The value in the lock file.
        locked: String,
        /// The actual value.
        found: String,
    },
    /// The version refers to something else upstream than when it was locked.
    #[error("{what} has changed since it was locked: expected {locked}, found {found}")]
    Moved {
        /// The tag and its repository, or the file and its URL.
        what: String,
        /// The value in the lock file.
        locked: String,
        /// The current value.
        found: String,
        /// The name of the table in the lock file.
        table: String,
    },
    /// No tag of the repository matches the version.
    #[error("the git repository {url} has no tag for version {version}; tried {}", tried.join(", "))]
    NoTag {
        /// The repository.
        url: String,
        /// The pinned version.
        version: String,
        /// The candidates that were tried.
        tried: Vec<String>,
        /// Tags with a similar spelling.
        near: Vec<String>,
    },
    /// The repository has no such branch.
    #[error("the git repository {url} has no branch `{branch}`")]
    NoBranch {
        /// The repository.
        url: String,
        /// The branch.
        branch: String,
        /// Some of its branches.
        known: Vec<String>,
    },
    /// A commit of a branch has no version.
    #[error(
        "cannot determine the version of commit {commit} of {url}: `{file}` has none, and there are no tags"
    )]
    NoVersion {
        /// The repository.
        url: String,
        /// The commit.
        commit: String,
        /// The file that was read.
        file: String,
    },
    /// pip did not report which index it uses.
    #[error("cannot determine the package index that pip uses: {reason}")]
    NoIndex {
        /// The reason.
        reason: String,
    },
    /// The index does not have the project.
    #[error("the index {index} has no project `{project}`")]
    NoProject {
        /// The index.
        index: String,
        /// The normalized name.
        project: String,
    },
    /// The index has no sdist of that version.
    #[error("the index {index} has no sdist of `{project}` {version}{}", other.as_ref().map(|o| format!(", only {o}")).unwrap_or_default())]
    NoSdist {
        /// The index.
        index: String,
        /// The normalized name.
        project: String,
        /// The version, or `in a final version`.
        version: String,
        /// Another file of that version.
        other: Option<Box<str>>,
        /// Whether the index has wheels of that version; without a version, of any version.
        wheels: bool,
        /// The nearest versions with an sdist, newest first.
        near: Vec<String>,
    },
    /// The index has no wheel with that name.
    #[error("the index {index} has no wheel `{file}`")]
    NoWheel {
        /// The index.
        index: String,
        /// The file name of the wheel.
        file: String,
    },
    /// The index returned something other than a project page.
    #[error("the page {url} cannot be read: {reason}")]
    IndexPage {
        /// The page.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The folder of a source is missing or empty.
    #[error("the source folder {} of `{component}` {problem}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The component.
        component: String,
        /// A phrase such as `does not exist`.
        problem: &'static str,
    },
    /// A file in a folder cannot be packed portably.
    #[error("{} cannot be packed: {problem}", path.display())]
    Unpackable {
        /// The file.
        path: PathBuf,
        /// The reason.
        problem: String,
    },
    /// No environment variable determines the cache folder.
    #[error("cannot locate the cache: neither ROCMRPM_CACHE, XDG_CACHE_HOME nor HOME is set")]
    NoCache,
    /// Another user can write to the cache.
    #[error("the cache is not safe: `{}` {}", path.display(), access_problem(*owner))]
    OpenCache {
        /// The cache.
        cache: PathBuf,
        /// The cache, or a folder in it.
        path: PathBuf,
        /// The owner; `None` if only the mode is wrong.
        owner: Option<u32>,
    },
    /// A child process failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// An I/O operation failed.
    #[error(transparent)]
    Io(#[from] IoError),
}

fn note(begins: &Option<String>) -> String {
    begins.as_ref().map(|b| format!("; the file begins with {b}")).unwrap_or_default()
}

/// The help after a transfer that left a partial file.
const RESUME: &str = "run the same command again to resume";

impl Diagnose for SourceError {
    fn diagnosis(&self) -> Diagnosis {
        let nearest = |names: &[String]| {
            (!names.is_empty()).then(|| format!("the nearest are {}", names.join(", ")))
        };
        match self {
            Self::NotPinned { missing, .. } => {
                Kind::Config.with_help(format!("run `rocmrpm lock` to fetch it and record its {missing}"))
            }
            Self::BadCommit { .. } => Kind::Config.with_help(
                "remove the commit and run `rocmrpm lock` to record the commit of the version's tag",
            ),
            Self::NoProject { .. } => Kind::Config
                .with_help("check its name, and the index that pip uses: `pip config list`"),
            Self::BadUrl { .. }
            | Self::NoFile { .. }
            | Self::BadSubmodule { .. }
            | Self::Unreadable { .. }
            | Self::Folder { .. }
            | Self::Unpackable { .. } => Kind::Config.into(),
            Self::Unprotected { .. } => Kind::Config
                .with_help("use https, or add upstream's `sha256` to the pin"),
            Self::BadLimit(error) => error.diagnosis(),
            Self::NotAnArchive { .. } => Kind::Config
                .with_help("open the URL of the pin in a browser, and check that it is the right file"),
            Self::NotUnpacked { limit: Some(limit), .. } => Kind::Config.with_help(limits::help(*limit)),
            Self::NotUnpacked { .. } => {
                Kind::Config.with_help("compare its digest with the one that upstream published")
            }
            Self::NoCommit { .. } => {
                Kind::Config.with_help("correct the commit in the pin, or remove it and run `rocmrpm lock`")
            }
            Self::NoTag { near, .. } => Diagnosis::from(Kind::Config)
                .with_help_lines(nearest(near))
                .with_help("add the commit to the pin"),
            Self::NoBranch { known, .. } => Diagnosis::from(Kind::Config)
                .with_help_lines((!known.is_empty()).then(|| format!("it has {}", known.join(", "))))
                .with_help("correct `branch` in the pin"),
            Self::NoVersion { .. } => {
                Kind::Config.with_help("name the file with upstream's version: `version-from` in the pin")
            }
            Self::NoSdist { near, other, wheels: false, .. } => {
                let instead = other.as_ref().map(|_| "pin the source by URL or git commit instead");
                Diagnosis::from(Kind::Config).with_help_lines(nearest(near)).with_help_lines(instead)
            }
            Self::NoSdist { near, project, .. } => {
                let instead = Some(format!(
                    "package the wheel with `rocmrpm add {project} --wheel`, or pin the source by URL or \
                     git commit"
                ));
                Diagnosis::from(Kind::Config).with_help_lines(nearest(near)).with_help_lines(instead)
            }
            Self::NoWheel { .. } => Kind::Config.with_help(
                "pin another version; for a closure, run `rocmrpm closure --write --upgrade`",
            ),
            Self::NoPath { there, .. } => Kind::Config.with_help(there),
            Self::LockDiffers { .. } => Kind::Config.with_help(
                "run `rocmrpm lock` to update the lock file, and review the difference before you commit it",
            ),
            Self::Moved { table, .. } => Kind::Config
                .with_help("ask upstream for the reason; builds keep using the locked source")
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
            // Any other limit comes from the size in the lock file or on the index.
            Self::TooLarge { limit, .. } if limits::file(None).is_ok_and(|most| most == *limit) => {
                Kind::Network.with_help(limits::help(*limit))
            }
            Self::TooLarge { .. } | Self::Metadata { .. } | Self::IndexPage { .. } => Kind::Network.into(),
            Self::Truncated { .. } => Kind::Network.with_help(RESUME),
            // libcurl's errors for an unreachable host, as git prints them.
            Self::Git { reported, .. }
                if ["Could not resolve", "Failed to connect", "timed out"].iter().any(|text| reported.contains(text)) =>
            {
                Kind::Network.with_help(NETWORK_HELP)
            }
            Self::Git { .. } => Kind::Network
                .with_help("check the URL of the pin, the network, and your credentials"),
            Self::Damaged { .. } => {
                Kind::Environment.with_help("run the same command again to fetch a new copy")
            }
            Self::Write { .. } => Kind::Environment.with_help(format!(
                "free some space, or set ROCMRPM_CACHE to a folder on another file system; then {RESUME}"
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
            Self::Crates { kind, reported, .. } => {
                let help = match kind {
                    Kind::Network => {
                        Some("check the network, and the mirrors and proxies in cargo's configuration")
                    }
                    Kind::Config => {
                        Some("pin another version or commit, or report the lock file to upstream")
                    }
                    Kind::MissingTool => Some("run `rustup default stable`"),
                    _ => None,
                };
                Diagnosis::from(*kind).with_help_lines(help).with_details(reported)
            }
            Self::Submodule { source, .. } => source.diagnosis(),
            Self::Process(error) => error.diagnosis(),
            Self::Io(error) => error.diagnosis(),
        }
    }
}

impl SourceError {
    /// Returns whether the server answered, but does not have the source.
    pub fn is_absent(&self) -> bool {
        matches!(
            self,
            Self::NoTag { .. }
                | Self::NoBranch { .. }
                | Self::NoCommit { .. }
                | Self::NoProject { .. }
                | Self::NoSdist { .. }
                | Self::NoWheel { .. }
        )
    }
}

/// Describes who can write to a cache.
fn access_problem(owner: Option<u32>) -> String {
    match owner {
        Some(owner) => format!("belongs to another user (user ID {owner})"),
        None => "can be written to by other users".to_owned(),
    }
}
