//! What can be wrong with an index, and how to fix it.

use std::io;
use std::path::PathBuf;

use super::publish::PublishError;
use super::view::{CHANNELS, View};
use python_packaging::wheel::{self, WheelError};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::error::{Diagnose, Diagnosis, Error, IoError, Kind};
use rocmrpm_base::process::ProcessError;
use rocmrpm_rpms::signing::SigningError;

/// Why an index was not read, written or changed.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A wheel is not one, or a wrong one.
    #[error(transparent)]
    Wheel(#[from] WheelError),
    /// Two files have one name.
    #[error("{} and {} have the same name and differ", first.display(), second.display())]
    SameName {
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// A file of this name is published, with other bytes.
    #[error("{file} is in {place} already, with the digest {there}; the new one has {new}")]
    OtherDigest {
        /// The file's name.
        file: String,
        /// Where it is.
        place: String,
        /// What is there.
        there: Sha256,
        /// What was to be put there.
        new: Sha256,
    },
    /// Installers could take either of two wheels.
    #[error("{first} and {second} are of one version, and both serve {tag}")]
    SameTags {
        /// One wheel.
        first: String,
        /// The other.
        second: String,
        /// A tag that both have.
        tag: String,
    },
    /// Installers would go on choosing the old wheel.
    #[error("{new} sorts below {old}, which is in {place}: installers would go on choosing the old one")]
    Below {
        /// The wheel that is to be added.
        new: String,
        /// The one that is there.
        old: String,
        /// The view that it is in.
        place: String,
    },
    /// A page is damaged, or was not written by us.
    #[error("the page {path} is not as rocmrpm writes it: {reason}")]
    Page {
        /// The page's path.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A published page names what is not there.
    #[error("{path} is missing in {place}, though its page names it")]
    Gone {
        /// The file's path.
        path: String,
        /// The index.
        place: String,
    },
    /// Somebody else published at the same time.
    #[error("{page} in {place} was changed by somebody else meanwhile; no page was written")]
    Meanwhile {
        /// The page's path.
        page: String,
        /// The index.
        place: String,
    },
    /// The manifest cannot be used.
    #[error("{path}: {reason}")]
    Manifest {
        /// Its path.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A page is not the one that was signed.
    #[error("{path} in {place} was changed by something that did not sign it")]
    Tampered {
        /// The page's path.
        path: String,
        /// The index.
        place: String,
    },
    /// What is published is older than what this machine has seen there.
    #[error("{place} was rolled back: its serial number is {there}, this machine has seen {seen}")]
    Rollback {
        /// The index or repository.
        place: String,
        /// The serial number there.
        there: u64,
        /// The highest one seen.
        seen: u64,
    },
    /// The index is signed, and there is no key to sign the change with.
    #[error("the index in {place} is signed, and no key is configured to sign this change")]
    NoKey {
        /// The index.
        place: String,
    },
    /// A file of an index cannot be fetched.
    #[error("{0}")]
    Download(Box<Error>),
    /// The manifest cannot be signed or verified.
    #[error(transparent)]
    Signing(#[from] SigningError),
    /// A folder is to be the index of a build and a published one.
    #[error("{} is {}", root.display(), if *published { "a published index" } else { "the index of a build" })]
    Mixed {
        /// The index's root.
        root: PathBuf,
        /// Which of the two it is.
        published: bool,
    },
    /// There is no such channel.
    #[error("there is no channel `{channel}`")]
    NoChannel {
        /// What was asked for.
        channel: String,
        /// A channel with a similar name.
        near: Option<String>,
    },
    /// What was asked for is not in the index.
    #[error("there is no {wanted} in {place}")]
    NotThere {
        /// What was asked for.
        wanted: String,
        /// Where it was looked for.
        place: String,
        /// What is there and similar.
        near: Option<String>,
    },
    /// The selection of wheels is not spelled right.
    #[error("`{0}` is neither NAME nor NAME==VERSION")]
    Selection(String),
    /// A version is needed, and none is named.
    #[error("`{0}` names no version")]
    NoVersion(String),
    /// A channel cannot be promoted to itself.
    #[error("{0} cannot be promoted to itself")]
    SameChannel(View),
    /// There is nothing to promote.
    #[error("there is no wheel in {view} of {place}")]
    Empty {
        /// The view that was asked for.
        view: View,
        /// The index.
        place: String,
    },
    /// The file system refuses.
    #[error(transparent)]
    Io(IoError),
    /// The tool that reaches the index failed, or found something else there.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// We were asked to stop.
    #[error(transparent)]
    Stopped(#[from] ProcessError),
}

impl From<io::Error> for IndexError {
    fn from(error: io::Error) -> Self {
        Self::Io(IoError::doing("read or write the files of the index or repository")(error))
    }
}

impl Diagnose for IndexError {
    fn diagnosis(&self) -> Diagnosis {
        let near = |near: &Option<String>| near.as_ref().map(|near| format!("did you mean `{near}`?"));
        match self {
            Self::Wheel(error) => error.diagnosis(),
            Self::Io(error) => error.diagnosis(),
            Self::Publish(error) => error.diagnosis(),
            Self::Stopped(error) => error.diagnosis(),
            Self::Signing(error) => error.diagnosis(),
            Self::Download(error) => error.diagnosis().clone(),
            Self::Manifest { .. } | Self::Tampered { .. } => {
                Kind::Environment.with_help("restore the index from a backup, or publish to a new place")
            }
            Self::Rollback { .. } => Kind::Environment.with_help(
                "find out who put the older state there; if it was you, accept it with `--allow-rollback`",
            ),
            Self::Page { .. } => Kind::Environment
                .with_help("restore the page from a backup; rocmrpm changes none that it cannot read whole"),
            Self::Meanwhile { .. } => Kind::Environment.with_help("run the same command again to resume"),
            Self::Gone { .. } => {
                Kind::Environment.with_help("restore the file from a backup, or yank the wheel")
            }
            Self::NoKey { .. } => Kind::Config
                .with_help("run the command in the workspace whose rocmrpm.toml has the key in `[signing]`"),
            Self::NoChannel { near: None, .. } => {
                Kind::Usage.with_help(format!("there is: {}", CHANNELS.join(", ")))
            }
            Self::NoChannel { near: name, .. } | Self::NotThere { near: name, .. } => {
                Diagnosis::from(Kind::Usage).with_help_lines(near(name))
            }
            Self::Selection(_) => {
                Kind::Usage.with_help("such as `torch` or `torch==2.11.0+rocm7.14.gfx1151`")
            }
            Self::NoVersion(name) => Kind::Usage
                .with_help(format!("all of it, with the label: `{name}==2.11.0+rocm7.14.gfx1151.3`")),
            Self::SameChannel(_) => Kind::Usage.with_help("`--from` and `--to` name two channels"),
            Self::Empty { .. } => Kind::Usage.with_help(
                "is the destination right? `rocmrpm publish index` puts the workspace's wheels there",
            ),
            Self::SameName { .. } => Kind::Usage
                .with_help("give different builds of one version different local labels, or leave one out"),
            Self::OtherDigest { .. } => Kind::Usage.with_help(
                "what is published never changes: raise the component's Release, build it, and publish that",
            ),
            Self::SameTags { .. } => {
                Kind::Usage.with_help("leave one of them out, or give it another version")
            }
            Self::Below { new, .. } if new.contains(".dirty.") => Kind::Usage.with_help(
                "wheels of dirty builds sort below all releases: commit the changes and build again",
            ),
            Self::Below { new, old, .. } => Kind::Usage.with_help(match differ_by_release(new, old) {
                true => {
                    "raise the component's Release, or yank the old wheel first with `rocmrpm publish yank`"
                }
                false => {
                    "their labels differ before the Release, which therefore does not count (another ROCm, \
                     other GPU targets, or something that is not committed): yank the old wheel first \
                     with `rocmrpm publish yank`, or publish to another index"
                }
            }),
            Self::Mixed { published: true, .. } => Kind::Usage.with_help(
                "a build's index removes what it does not name; publish to a folder outside of `build`",
            ),
            Self::Mixed { published: false, .. } => Kind::Usage.with_help(
                "each build removes from its index what it does not name; publish to another folder",
            ),
        }
    }
}

/// Returns whether the labels of two wheels are the same but for their last part.
fn differ_by_release(new: &str, old: &str) -> bool {
    let base = |name: &str| {
        let (_, label) = wheel::public_and_label(&wheel::FileName::parse(name).ok()?.version);
        Some(label.rsplit_once('.')?.0.to_owned())
    };
    base(new).is_some_and(|new| base(old) == Some(new))
}
