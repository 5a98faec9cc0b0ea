//! The errors of COPR, separated by what the user can do about each.

use crate::build::{BuildError, RemoteError};
use crate::error::{Diagnose, Diagnosis, Kind};
use crate::process::{ProcessError, own_program};
use crate::rpms::signing::SigningError;

/// COPR's name for the URL of a build's results.
pub(super) const RESULT_URL: &str = "`result_url`";

/// Why a request to COPR failed.
#[derive(Debug, thiserror::Error)]
pub enum CoprError {
    /// The workspace has no project on COPR.
    #[error("the workspace has no copr/project.toml")]
    NoProjectFile,
    /// The chosen chroot does not belong to the project.
    #[error("the COPR project has no chroot `{chroot}`")]
    NotInProject {
        /// The chroot's name in mock-configs/.
        chroot: String,
        /// The project's chroots.
        known: Vec<String>,
    },
    /// copr-cli is not installed.
    #[error("the program `copr-cli` is not installed")]
    NotInstalled,
    /// copr-cli cannot read its configuration.
    #[error("copr-cli cannot use its configuration: {reported}")]
    Config {
        /// copr-cli's message.
        reported: String,
        /// The frontend.
        url: String,
    },
    /// copr-cli has no token.
    #[error("copr-cli has no token for {url}")]
    NoToken {
        /// The frontend.
        url: String,
    },
    /// The token is invalid or expired.
    #[error("{url} rejects the token: it is expired or invalid")]
    Expired {
        /// The frontend.
        url: String,
    },
    /// Only COPR's administrators may do this.
    #[error("only COPR's administrators can set `auto-prune = false`")]
    AutoPrune,
    /// The user does not have permission.
    #[error("COPR denies permission: {reported}")]
    Forbidden {
        /// COPR's message.
        reported: String,
        /// The project's page.
        page: String,
    },
    /// The project does not exist.
    #[error("the project `{project}` does not exist on {url}")]
    NoProject {
        /// `owner/project`.
        project: String,
        /// The frontend.
        url: String,
    },
    /// COPR rejects the request.
    #[error("cannot {what}: COPR rejects the request: {reported}")]
    Refused {
        /// The action.
        what: String,
        /// COPR's message.
        reported: String,
    },
    /// The server fails or is unreachable. A retry may succeed.
    #[error("cannot {what} on {url}: {reported}")]
    Server {
        /// The action.
        what: String,
        /// The frontend.
        url: String,
        /// The error message.
        reported: String,
    },
    /// The answer cannot be parsed.
    #[error("unexpected answer from COPR to `{asked}`: {why}")]
    Answer {
        /// The call.
        asked: String,
        /// What is wrong with it.
        why: String,
    },
    /// A downloaded file is incomplete or damaged.
    #[error("the downloaded `{file}` of build {build} is damaged: {why}")]
    Damaged {
        /// The file.
        file: String,
        /// The build's number.
        build: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A package is not signed with the project's key.
    #[error("`{file}` of build {build} is not signed with the project's key {key}")]
    NotSigned {
        /// The file.
        file: String,
        /// The build's number.
        build: u64,
        /// The URL of the key.
        key: String,
        /// rpm's output.
        words: Vec<String>,
    },
    /// The connection would not be encrypted.
    #[error("{what} is {url}, which is not https")]
    NotEncrypted {
        /// Where the URL comes from.
        what: &'static str,
        /// The URL.
        url: String,
    },
    /// The project's key cannot be used.
    #[error(transparent)]
    Key(#[from] SigningError),
    /// A file operation failed.
    #[error("cannot store COPR's answer")]
    Io(#[from] std::io::Error),
    /// A program is missing, or the run was interrupted.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl CoprError {
    /// Returns whether a retry may succeed.
    pub(super) fn passes(&self) -> bool {
        matches!(self, Self::Server { .. } | Self::Damaged { .. })
    }
}

impl From<CoprError> for BuildError {
    fn from(error: CoprError) -> Self {
        Self::Remote(RemoteError::new(error))
    }
}

impl Diagnose for CoprError {
    fn diagnosis(&self) -> Diagnosis {
        let token = |url: &str| {
            Kind::Config.with_help(format!(
                "log in at {url}/api/ and copy the text of that page to ~/.config/copr (mode 600)"
            ))
        };
        match self {
            Self::NoProjectFile => Kind::Config
                .with_help("create it with `owner`, `project` and `chroots`; all keys: docs/reference/files.md"),
            Self::NotInProject { known, .. } => Kind::Usage
                .with_help(format!("use a chroot of the project: {}", known.join(", ")))
                .with_help("or add COPR's name for it to `chroots` in copr/project.toml"),
            Self::NotInstalled => Kind::MissingTool
                .with_help("run `dnf install copr-cli` on Fedora, or `pip install copr-cli` elsewhere"),
            Self::Config { url, .. } | Self::NoToken { url } => token(url),
            Self::Expired { url } => token(url).with_help(
                "run `copr-cli new-api-token` to renew a token before it expires after 180 days",
            ),
            Self::Forbidden { page, .. } => Kind::Network.with_help(format!(
                "ask an admin of the project for permission to build or change it: {page}permissions/"
            )),
            Self::NoProject { .. } => {
                Kind::Config.with_help(format!("run `{} copr sync` to create it", own_program()))
            }
            Self::Server { .. } | Self::Damaged { .. } => Kind::Network
                .with_help("run the same command again later to resume")
                .with_help("check https://status.fedoraproject.org for outages"),
            Self::Answer { .. } => {
                Kind::Network.with_help("check the version of copr-cli; rocmrpm is tested with 2.6")
            }
            Self::NotSigned { words, .. } => Kind::Network
                .with_help("delete the build on its page and push again; COPR signs every package that it builds")
                .with_details(words),
            Self::NotEncrypted { what: RESULT_URL, .. } => {
                Kind::Network.with_help("ask COPR's administrators why results are not served over https")
            }
            Self::NotEncrypted { .. } => {
                Kind::Config.with_help("set `copr_url` in ~/.config/copr to an https address")
            }
            Self::AutoPrune => Kind::Config.with_help(
                "remove `auto-prune` from copr/project.toml, or ask COPR's administrators to disable it first",
            ),
            Self::Refused { reported, .. } if reported.contains("still in progress") => Kind::Network
                .with_help(format!("wait for the build, or cancel it: {} copr cancel", own_program())),
            Self::Refused { .. } => Kind::Network.into(),
            Self::Key(error) => error.diagnosis(),
            Self::Io(error) => Diagnosis::of_io(error),
            Self::Process(error) => error.diagnosis(),
        }
    }
}
