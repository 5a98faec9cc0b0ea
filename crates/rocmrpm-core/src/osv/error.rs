//! Why nothing is known about vulnerabilities.

use std::path::{Path, PathBuf};

use jiff::civil::Date;

use crate::error::{Diagnose, Diagnosis, IoError, Kind};
use crate::process::ProcessError;
use crate::sources::SourceError;
use crate::text::visible;

/// Why nothing is known about vulnerabilities.
#[derive(Debug, thiserror::Error)]
pub enum OsvError {
    /// The service does not answer.
    #[error("cannot ask {address} for advisories")]
    Unreachable {
        /// Its address.
        address: String,
        /// What happened.
        source: Box<SourceError>,
    },
    /// The service answers with something else than OSV's documents.
    #[error("the answer of {url} cannot be used: {wrong}")]
    Answer {
        /// What was asked.
        url: String,
        /// What is wrong with the answer.
        wrong: String,
    },
    /// An export cannot be read.
    #[error("{} is not an export of OSV: {wrong}", path.display())]
    Export {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        wrong: String,
    },
    /// A file of an export cannot be read.
    #[error("{}: {}: {wrong}", path.display(), visible(member))]
    Member {
        /// The file or folder.
        path: PathBuf,
        /// The file in it.
        member: String,
        /// What is wrong.
        wrong: String,
    },
    /// No export has advisories of an ecosystem without which nothing can be said.
    #[error("{} has no advisory for {ecosystem}", listed(paths))]
    Lacks {
        /// The exports.
        paths: Vec<PathBuf>,
        /// The ecosystem.
        ecosystem: &'static str,
    },
    /// An export is too old to be of use.
    #[error("the newest advisory in {} is from {newest}, {days} days ago; at most {allowed} are allowed", path.display())]
    Old {
        /// The export.
        path: PathBuf,
        /// The day of its newest advisory.
        newest: Date,
        /// How long ago that is.
        days: i64,
        /// How long ago it may be.
        allowed: i64,
    },
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(Box<SourceError>),
    /// The user asked to stop.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The file system refuses.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl OsvError {
    pub(super) fn export(path: &Path, wrong: impl Into<String>) -> Self {
        Self::Export { path: path.to_owned(), wrong: wrong.into() }
    }

    pub(super) fn member(path: &Path, member: &str, wrong: impl Into<String>) -> Self {
        Self::Member { path: path.to_owned(), member: member.to_owned(), wrong: wrong.into() }
    }
}

fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Where exports are. Source: OSV's documentation, "Data dumps".
const FETCH: &str =
    "fetch a new export: `curl -fLO https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip`";

impl Diagnose for OsvError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Unreachable { source, .. }
                if matches!(source.kind(), Kind::MissingTool | Kind::Interrupted) =>
            {
                source.diagnosis()
            }
            Self::Unreachable { .. } | Self::Answer { .. } => Kind::Network.with_help(
                "check the network and https_proxy, or read an export: `rocmrpm closure audit --export all.zip`",
            ),
            Self::Lacks { ecosystem: "PyPI", .. }
            | Self::Export { .. }
            | Self::Member { .. }
            | Self::Old { .. } => Kind::Config.with_help(FETCH),
            Self::Lacks { ecosystem, .. } => {
                Kind::Config.with_help(FETCH.replace("/PyPI/", &format!("/{ecosystem}/")))
            }
            Self::Cache(error) => error.diagnosis(),
            Self::Process(error) => error.diagnosis(),
            Self::Io(error) => error.diagnosis(),
        }
    }
}
