//! The errors of publishing to another machine.

use rocmrpm_base::error::{Diagnose, Diagnosis, IoError, Kind};
use rocmrpm_base::process::ProcessError;

/// Why publishing failed.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The destination is malformed.
    #[error("cannot publish to `{text}`: {why}")]
    Destination {
        /// The user's text.
        text: String,
        /// What is wrong with the text.
        why: String,
    },
    /// The tool that transfers the files failed.
    #[error("cannot {action} {place}: `{program}` {how}")]
    Tool {
        /// The action, with a preposition: `read pages of`.
        action: String,
        /// The place in the user's spelling.
        place: String,
        /// The name of the tool.
        program: String,
        /// The exit status.
        how: String,
        /// The last lines of its output.
        words: Vec<String>,
    },
    /// A stored file differs from the one that was sent.
    #[error("{path} in {place} differs from the file that was sent")]
    NotVerified {
        /// The place.
        place: String,
        /// The path below the root of the index.
        path: String,
    },
    /// The tool could not be run, or the user interrupted rocmrpm.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A local I/O operation failed.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl Diagnose for PublishError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Destination { .. } => Kind::Usage.with_help(
                "a destination is a folder, HOST:FOLDER, rsync://HOST/MODULE/FOLDER, or s3://BUCKET/PREFIX",
            ),
            Self::Tool { program, words, .. } => {
                let reported = words.join("\n");
                let known = HELP.iter().find(|(tool, text, _)| tool == program && reported.contains(text));
                Diagnosis::from(Kind::Network)
                    .with_help_lines(known.map(|(.., help)| *help))
                    .with_help("fix the cause, then run the same command again to resume")
                    .with_details(words)
            }
            Self::NotVerified { .. } => Kind::Network.with_help(
                "run the same command again; if that fails, remove the file, which no page links to",
            ),
            Self::Process(error) => error.diagnosis(),
            Self::Io(error) => error.diagnosis(),
        }
    }
}

/// Known causes: the tool, a substring of its output, and the help.
const HELP: &[(&str, &str, &str)] = &[
    ("aws", "Unable to locate credentials", "run `aws configure`, or set AWS_PROFILE"),
    ("aws", "NoSuchBucket", "create the bucket with `aws s3 mb s3://BUCKET`"),
    (
        "aws",
        "AccessDenied",
        "grant your credentials s3:ListBucket, s3:GetObject and s3:PutObject on the bucket",
    ),
    (
        "aws",
        "InvalidAccessKeyId",
        "check that --endpoint-url is the service that the credentials belong to",
    ),
    (
        "aws",
        "Could not connect to the endpoint",
        "check --endpoint-url, and that the service is running",
    ),
    ("rsync", "Unknown module", "list the server's modules with `rsync rsync://HOST/`"),
    ("rsync", "auth failed", "set RSYNC_PASSWORD, or allow your user on the server"),
    ("rsync", "read only", "set `read only = no` for the module in the server's rsyncd.conf"),
    (
        "rsync",
        "Permission denied",
        "give your user write access there; over ssh, try `ssh HOST` first",
    ),
    ("rsync", "Could not resolve hostname", "check the host name"),
    ("rsync", "Connection refused", "check that a server is listening on this port"),
    ("rsync", "command not found", "install rsync on the other machine too"),
    ("rsync", "unknown option", "install rsync 3.2.3 or newer on both machines"),
];
