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
    #[error("the chroot `{chroot}` is none of the COPR project's")]
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
    #[error("copr-cli cannot use its configuration: {said}")]
    Config {
        /// copr-cli's message.
        said: String,
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
    #[error("{url} does not accept the token: it expired, or is not valid")]
    Expired {
        /// The frontend.
        url: String,
    },
    /// Only COPR's administrators may do this.
    #[error("COPR lets only its own administrators set `auto-prune = false`")]
    AutoPrune,
    /// The user does not have permission.
    #[error("COPR does not allow it: {said}")]
    Forbidden {
        /// COPR's message.
        said: String,
        /// The project's page.
        page: String,
    },
    /// The project does not exist.
    #[error("there is no project `{project}` on {url}")]
    NoProject {
        /// `owner/project`.
        project: String,
        /// The frontend.
        url: String,
    },
    /// COPR rejects the request.
    #[error("COPR refuses to {what}: {said}")]
    Refused {
        /// The action.
        what: String,
        /// COPR's message.
        said: String,
    },
    /// The server fails or is unreachable. A retry may succeed.
    #[error("cannot {what} on {url}: {said}")]
    Server {
        /// The action.
        what: String,
        /// The frontend.
        url: String,
        /// The error message.
        said: String,
    },
    /// The answer cannot be parsed.
    #[error("cannot understand COPR's answer to `{asked}`: {why}")]
    Answer {
        /// The call.
        asked: String,
        /// What is wrong with it.
        why: String,
    },
    /// A fetched file is incomplete.
    #[error("`{file}` of build {build} did not arrive whole: {why}")]
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
    #[error("cannot keep what COPR answered")]
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
                "log in on {url}/api/ and put what that page shows into ~/.config/copr (mode 600)"
            ))
        };
        match self {
            Self::NoProjectFile => Kind::Config
                .with_help("write one with `owner`, `project` and `chroots`; docs/copr.md lists all keys"),
            Self::NotInProject { known, .. } => Kind::Usage
                .with_help(format!("the project builds for: {}", known.join(", ")))
                .with_help("add COPR's name of it to `chroots` in copr/project.toml"),
            Self::NotInstalled => Kind::MissingTool
                .with_help("on Fedora: `dnf install copr-cli`; elsewhere: `pip install copr-cli`"),
            Self::Config { url, .. } | Self::NoToken { url } => token(url),
            Self::Expired { url } => token(url).with_help(
                "tokens last for 180 days; `copr-cli new-api-token` renews one that is still valid",
            ),
            Self::Forbidden { page, .. } => Kind::Network.with_help(format!(
                "ask an admin of the project for the permission to build or to change it: {page}permissions/"
            )),
            Self::NoProject { .. } => {
                Kind::Config.with_help(format!("`{} copr sync` makes it", own_program()))
            }
            Self::Server { .. } | Self::Damaged { .. } => Kind::Network
                .with_help("run the same command again later to resume")
                .with_help("https://status.fedoraproject.org reports outages"),
            Self::Answer { .. } => {
                Kind::Network.with_help("rocmrpm was written for copr-cli 2.6: is yours older?")
            }
            Self::NotSigned { words, .. } => Kind::Network
                .with_help("COPR signs every package that it builds: delete the build on its page and push again")
                .with_details(words),
            Self::NotEncrypted { what: RESULT_URL, .. } => {
                Kind::Network.with_help("ask COPR's administrators why results are not served over https")
            }
            Self::NotEncrypted { .. } => {
                Kind::Config.with_help("set `copr_url` in ~/.config/copr to an https address")
            }
            Self::AutoPrune => Kind::Config.with_help(
                "remove `auto-prune` from copr/project.toml, or ask COPR's administrators to switch it off first",
            ),
            Self::Refused { said, .. } if said.contains("still in progress") => Kind::Network
                .with_help(format!("wait for the build, or cancel it: {} copr cancel", own_program())),
            Self::Refused { .. } => Kind::Network.into(),
            Self::Key(error) => error.diagnosis(),
            Self::Io(error) => Diagnosis::of_io(error),
            Self::Process(error) => error.diagnosis(),
        }
    }
}
