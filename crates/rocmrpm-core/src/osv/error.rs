//! Defines the errors of vulnerability lookups and their help texts.

use std::path::{Path, PathBuf};

use jiff::civil::Date;

use crate::error::{Diagnose, Diagnosis, IoError, Kind};
use crate::process::ProcessError;
use crate::sources::SourceError;
use crate::text::visible;

/// Errors that occur while looking up vulnerabilities.
#[derive(Debug, thiserror::Error)]
pub enum OsvError {
    /// The service did not respond.
    #[error("cannot query {address} for advisories")]
    Unreachable {
        /// The address of the service.
        address: String,
        /// The cause.
        source: Box<SourceError>,
    },
    /// The service returned something other than OSV documents.
    #[error("unexpected response from {url}: {wrong}")]
    Answer {
        /// The requested URL.
        url: String,
        /// The problem with the response.
        wrong: String,
    },
    /// An export could not be read.
    #[error("{} is not an export of OSV: {wrong}", path.display())]
    Export {
        /// The file or folder.
        path: PathBuf,
        /// The problem.
        wrong: String,
    },
    /// A file in an export could not be read.
    #[error("{}: {}: {wrong}", path.display(), visible(member))]
    Member {
        /// The export.
        path: PathBuf,
        /// The file inside the export.
        member: String,
        /// The problem.
        wrong: String,
    },
    /// No export contains advisories for a required ecosystem.
    #[error("{} has no advisory for {ecosystem}", listed(paths))]
    Lacks {
        /// The exports.
        paths: Vec<PathBuf>,
        /// The ecosystem.
        ecosystem: &'static str,
    },
    /// An export is too old.
    #[error("the newest advisory in {} is from {newest}, {days} days ago; at most {allowed} are allowed", path.display())]
    Old {
        /// The export.
        path: PathBuf,
        /// The date of the newest advisory.
        newest: Date,
        /// The age of the newest advisory, in days.
        days: i64,
        /// The maximum age, in days.
        allowed: i64,
    },
    /// The cache could not be used.
    #[error(transparent)]
    Cache(Box<SourceError>),
    /// The user interrupted the command.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file system operation failed.
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

/// Where to download exports. Source: OSV's documentation, "Data dumps".
const FETCH: &str = "fetch a new export: `curl -fLO https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip`";

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
