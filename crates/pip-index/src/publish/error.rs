//! Why a place elsewhere did not take or give what it should.

use rocmrpm_base::error::{Diagnose, Diagnosis, IoError, Kind};
use rocmrpm_base::process::ProcessError;

/// Why something was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The destination is written wrongly.
    #[error("cannot publish to `{text}`: {why}")]
    Destination {
        /// What the user wrote.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// The tool that reaches the place failed.
    #[error("cannot {action} {place}: `{program}` {how}")]
    Tool {
        /// What was being done, with a preposition: `read pages of`.
        action: String,
        /// The place as users write it.
        place: String,
        /// The tool.
        program: String,
        /// How it ended.
        how: String,
        /// The last lines that it wrote.
        words: Vec<String>,
    },
    /// What lies there after sending is not what was sent.
    #[error("{path} did not arrive whole at {place}")]
    NotVerified {
        /// The place.
        place: String,
        /// The path below the index's root.
        path: String,
    },
    /// The tool could not be run, or we were asked to stop.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// This machine's file system refuses.
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

/// Known causes: the tool, a part of its output, and the help.
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
