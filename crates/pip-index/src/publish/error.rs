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
    #[error("{path} did not arrive whole at {place}")]
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
                let said = words.join("\n");
                let known = HELP.iter().find(|(tool, text, _)| tool == program && said.contains(text));
                Diagnosis::from(Kind::Network)
                    .with_help_lines(known.map(|(.., help)| *help))
                    .with_help("once the cause is gone, run the same command again to resume")
                    .with_details(words)
            }
            Self::NotVerified { .. } => Kind::Network.with_help(
                "no page names it; run the same command again, and remove the file there if that does not help",
            ),
            Self::Process(error) => error.diagnosis(),
            Self::Io(error) => error.diagnosis(),
        }
    }
}

/// Known causes: the tool, a substring of its output, and the help.
const HELP: &[(&str, &str, &str)] = &[
    ("aws", "Unable to locate credentials", "`aws configure`, or set AWS_PROFILE, says who you are"),
    ("aws", "NoSuchBucket", "`aws s3 mb s3://BUCKET` makes the bucket"),
    ("aws", "AccessDenied", "the credentials need s3:ListBucket, s3:GetObject and s3:PutObject there"),
    ("aws", "InvalidAccessKeyId", "is --endpoint-url the service that the credentials belong to?"),
    ("aws", "Could not connect to the endpoint", "is --endpoint-url right, and does the service run?"),
    ("rsync", "Unknown module", "`rsync rsync://HOST/` lists the modules of a server"),
    ("rsync", "auth failed", "set RSYNC_PASSWORD, or let the server accept your user"),
    ("rsync", "read only", "the module's `read only` must be `no` in the server's rsyncd.conf"),
    ("rsync", "Permission denied", "your user must be allowed to write there; for ssh, try `ssh HOST` first"),
    ("rsync", "Could not resolve hostname", "is the host's name right?"),
    ("rsync", "Connection refused", "does a server run there, on this port?"),
    ("rsync", "command not found", "install rsync on the other machine too"),
    ("rsync", "unknown option", "rsync 3.2.3 or newer is needed on both machines"),
];
