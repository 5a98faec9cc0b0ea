//! Why COPR does not do what it is asked, told apart by what the user can do about it.

use crate::build::{BuildError, RemoteError};
use crate::error::{Diagnose, Kind};
use crate::process::{ProcessError, own_program};
use crate::rpms::signing::SigningError;

/// What a COPR calls the folder of a build's results.
pub(super) const RESULT_URL: &str = "`result_url`";

/// Why COPR does not do what it is asked.
#[derive(Debug, thiserror::Error)]
pub enum CoprError {
    /// The workspace has no project on COPR.
    #[error("the workspace has no copr/project.toml")]
    NoProjectFile,
    /// The chosen chroot is none of the project's.
    #[error("the chroot `{chroot}` is none of the COPR project's")]
    NotInProject {
        /// The chroot's name in mock-configs/.
        chroot: String,
        /// Those of the project.
        known: Vec<String>,
    },
    /// copr-cli is not installed.
    #[error("the program `copr-cli` is not installed")]
    NotInstalled,
    /// copr-cli cannot read its configuration.
    #[error("copr-cli cannot use its configuration: {said}")]
    Config {
        /// copr-cli's words.
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
    /// The token is not valid, or not any more.
    #[error("{url} does not accept the token: it expired, or is not valid")]
    Expired {
        /// The frontend.
        url: String,
    },
    /// Only administrators of COPR itself may do this.
    #[error("COPR lets only its own administrators set `auto-prune = false`")]
    AutoPrune,
    /// The user may not do this.
    #[error("COPR does not allow it: {said}")]
    Forbidden {
        /// COPR's words.
        said: String,
        /// The project's page.
        page: String,
    },
    /// The project is not there.
    #[error("there is no project `{project}` on {url}")]
    NoProject {
        /// `owner/project`.
        project: String,
        /// The frontend.
        url: String,
    },
    /// COPR refuses what it was asked for.
    #[error("COPR refuses to {what}: {said}")]
    Refused {
        /// What it was to do.
        what: String,
        /// COPR's words.
        said: String,
    },
    /// The server fails, or cannot be reached. Worth another try.
    #[error("cannot {what} on {url}: {said}")]
    Server {
        /// What it was to do.
        what: String,
        /// The frontend.
        url: String,
        /// What was said of it.
        said: String,
    },
    /// The answer is not what COPR answers.
    #[error("cannot understand COPR's answer to `{asked}`: {why}")]
    Answer {
        /// The call.
        asked: String,
        /// What is wrong with it.
        why: String,
    },
    /// What was brought back is not whole.
    #[error("`{file}` of build {build} did not arrive whole: {why}")]
    Damaged {
        /// The file.
        file: String,
        /// The build's number.
        build: u64,
        /// How that shows.
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
        /// rpm's words.
        words: Vec<String>,
    },
    /// The connection would not be encrypted.
    #[error("{what} is {url}, which is not https")]
    NotEncrypted {
        /// What has the URL.
        what: &'static str,
        /// The URL.
        url: String,
    },
    /// The project's key cannot be used.
    #[error(transparent)]
    Key(#[from] SigningError),
    /// The file system refuses.
    #[error("cannot keep what COPR answered")]
    Io(#[from] std::io::Error),
    /// A program is missing, or we were asked to stop.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl CoprError {
    /// Returns whether the same call may succeed a little later.
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
    fn kind(&self) -> Kind {
        match self {
            Self::NoProjectFile
            | Self::Config { .. }
            | Self::NoToken { .. }
            | Self::Expired { .. }
            | Self::AutoPrune
            | Self::NoProject { .. } => Kind::Config,
            Self::NotInProject { .. } => Kind::Usage,
            Self::NotInstalled => Kind::MissingTool,
            Self::Forbidden { .. }
            | Self::Refused { .. }
            | Self::Server { .. }
            | Self::Answer { .. }
            | Self::NotSigned { .. }
            | Self::NotEncrypted { what: RESULT_URL, .. }
            | Self::Damaged { .. } => Kind::Network,
            Self::NotEncrypted { .. } => Kind::Config,
            Self::Key(error) => error.kind(),
            Self::Io(_) => Kind::Environment,
            Self::Process(error) => error.kind(),
        }
    }

    fn help(&self) -> Vec<String> {
        let token = |url: &str| {
            format!("log in on {url}/api/ and put what that page shows into ~/.config/copr (mode 600)")
        };
        match self {
            Self::NoProjectFile => {
                vec!["write one with `owner`, `project` and `chroots`; docs/copr.md tells all keys".into()]
            }
            Self::NotInProject { known, .. } => vec![
                format!("the project builds for: {}", known.join(", ")),
                "add COPR's name of it to `chroots` in copr/project.toml".into(),
            ],
            Self::NotInstalled => {
                vec!["on Fedora: `dnf install copr-cli`; elsewhere: `pip install copr-cli`".into()]
            }
            Self::Config { url, .. } | Self::NoToken { url } => vec![token(url)],
            Self::Expired { url } => vec![
                token(url),
                "tokens last for 180 days; `copr-cli new-api-token` renews one that is still valid".into(),
            ],
            Self::Forbidden { page, .. } => {
                vec![format!(
                    "ask an admin of the project for the permission to build or to change it: {page}permissions/"
                )]
            }
            Self::NoProject { .. } => vec![format!("`{} copr sync` makes it", own_program())],
            Self::Server { .. } | Self::Damaged { .. } => vec![
                "run the same command again later to resume".into(),
                "https://status.fedoraproject.org tells of outages".into(),
            ],
            Self::Answer { .. } => vec!["rocmrpm was written for copr-cli 2.6: is yours older?".into()],
            Self::NotSigned { .. } => vec![
                "COPR signs every package that it builds: delete the build on its page and push again".into(),
            ],
            Self::NotEncrypted { what: RESULT_URL, .. } => {
                vec!["ask COPR's administrators why results are not served over https".into()]
            }
            Self::NotEncrypted { .. } => vec!["set `copr_url` in ~/.config/copr to an https address".into()],
            Self::AutoPrune => vec![
                "remove `auto-prune` from copr/project.toml, or ask COPR's administrators to switch it off first"
                    .into(),
            ],
            Self::Key(error) => error.help(),
            Self::Refused { said, .. } if said.contains("still in progress") => {
                vec![format!("wait for the build, or cancel it: {} copr cancel", own_program())]
            }
            Self::Refused { .. } | Self::Io(_) => Vec::new(),
            Self::Process(error) => error.help(),
        }
    }

    fn details(&self) -> Vec<String> {
        match self {
            Self::NotSigned { words, .. } => words.clone(),
            Self::Key(error) => error.details(),
            _ => Vec::new(),
        }
    }
}
