//! The errors of an index, and how to fix them.

use std::io;
use std::path::PathBuf;

use super::publish_error::PublishError;
use super::view::{NoChannel, View};
use python_packaging::sdist::SdistError;
use python_packaging::wheel::{self, WheelError};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::error::{Diagnose, Diagnosis, Error, IoError, Kind};
use rocmrpm_base::process::ProcessError;
use rocmrpm_rpms::signing::SigningError;

/// Why reading, writing or changing an index failed.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A file is not a valid wheel.
    #[error(transparent)]
    Wheel(#[from] WheelError),
    /// A file is not a valid sdist.
    #[error(transparent)]
    Sdist(#[from] SdistError),
    /// Two different files have the same name.
    #[error("{} and {} have the same name but different contents", first.display(), second.display())]
    SameName {
        /// One file.
        first: PathBuf,
        /// The other file.
        second: PathBuf,
    },
    /// A published file has the same name and other bytes.
    #[error("{file} already exists in {place} with the digest {there}; the new file has {new}")]
    OtherDigest {
        /// The name of the file.
        file: String,
        /// The index that has it.
        place: String,
        /// The published digest.
        there: Sha256,
        /// The new digest.
        new: Sha256,
    },
    /// Two wheels are ambiguous to installers.
    #[error("{first} and {second} have the same version and both match {tag}")]
    SameTags {
        /// One wheel.
        first: String,
        /// The other.
        second: String,
        /// A tag that both wheels have.
        tag: String,
    },
    /// Installers would continue to choose the old wheel.
    #[error(
        "{new} sorts below {old}, which is in {place}: installers would keep choosing the old one"
    )]
    Below {
        /// The wheel to add.
        new: String,
        /// The published wheel.
        old: String,
        /// The view that has it.
        place: String,
    },
    /// A page is damaged, or another program wrote it.
    #[error("unexpected content in the page {path}: {reason}")]
    Page {
        /// The path of the page.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A page refers to a missing file.
    #[error("{path} is missing in {place}, but its page lists it")]
    Gone {
        /// The path of the file.
        path: String,
        /// The index.
        place: String,
    },
    /// Another writer published at the same time.
    #[error("another writer changed {page} in {place}; no page was written")]
    Meanwhile {
        /// The path of the page.
        page: String,
        /// The index.
        place: String,
    },
    /// The manifest is unusable.
    #[error("{path}: {reason}")]
    Manifest {
        /// The path of the manifest.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A page differs from the signed one.
    #[error("{path} in {place} was changed without a signature")]
    Tampered {
        /// The path of the page.
        path: String,
        /// The index.
        place: String,
    },
    /// The published state is older than one that this machine has seen.
    #[error(
        "{place} was rolled back: its serial number is {there}, but this machine has seen {seen}"
    )]
    Rollback {
        /// The index or repository.
        place: String,
        /// The published serial number.
        there: u64,
        /// The highest serial number seen.
        seen: u64,
    },
    /// The index is signed, but no key is configured to sign the change.
    #[error("the index in {place} is signed, but no key is configured to sign this change")]
    NoKey {
        /// The index.
        place: String,
    },
    /// Fetching a file of an index failed.
    #[error("{0}")]
    Download(Box<Error>),
    /// Signing or verifying the manifest failed.
    #[error(transparent)]
    Signing(#[from] SigningError),
    /// A folder would be both the index of a build and a published index.
    #[error("{} is {}", root.display(), if *published { "a published index" } else { "the index of a build" })]
    Mixed {
        /// The root of the index.
        root: PathBuf,
        /// Whether the folder has a published index.
        published: bool,
    },
    /// The channel does not exist.
    #[error(transparent)]
    NoChannel(#[from] NoChannel),
    /// The index does not have the requested wheels.
    #[error("there is no {wanted} in {place}")]
    NotThere {
        /// The requested name or version.
        wanted: String,
        /// The index or view.
        place: String,
        /// A similar name or version that exists.
        near: Option<String>,
    },
    /// The selection of wheels is malformed.
    #[error("`{0}` is neither NAME nor NAME==VERSION")]
    Selection(String),
    /// The selection lacks a version.
    #[error("`{0}` has no version")]
    NoVersion(String),
    /// The source and the target of a promotion are the same channel.
    #[error("{0} cannot be promoted to itself")]
    SameChannel(View),
    /// There is no wheel to promote.
    #[error("there is no wheel in {view} of {place}")]
    Empty {
        /// The source view.
        view: View,
        /// The index.
        place: String,
    },
    /// An I/O operation failed.
    #[error(transparent)]
    Io(IoError),
    /// The tool that transfers the index failed, or found unexpected data.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The user interrupted rocmrpm.
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
        let near =
            |near: &Option<String>| near.as_ref().map(|near| format!("did you mean `{near}`?"));
        match self {
            Self::Wheel(error) => error.diagnosis(),
            Self::Sdist(error) => error.diagnosis(),
            Self::Io(error) => error.diagnosis(),
            Self::Publish(error) => error.diagnosis(),
            Self::Stopped(error) => error.diagnosis(),
            Self::Signing(error) => error.diagnosis(),
            Self::Download(error) => error.diagnosis().clone(),
            Self::Manifest { .. } | Self::Tampered { .. } => {
                Kind::Environment.with_help("restore the index from a backup, or publish to a new place")
            }
            Self::Rollback { .. } => Kind::Environment
                .with_help("find out who restored the older state; if it was you, pass `--allow-rollback`"),
            Self::Page { .. } => Kind::Environment.with_help("restore the page from a backup"),
            Self::Meanwhile { .. } => Kind::Environment.with_help("run the same command again to resume"),
            Self::Gone { .. } => {
                Kind::Environment.with_help("restore the file from a backup, or yank the wheel")
            }
            Self::NoKey { .. } => Kind::Config
                .with_help("run the command in the workspace whose rocmrpm.toml has the key in `[signing]`"),
            Self::NoChannel(error) => error.diagnosis(),
            Self::NotThere { near: name, .. } => Diagnosis::from(Kind::Usage).with_help_lines(near(name)),
            Self::Selection(_) => {
                Kind::Usage.with_help("write e.g. `torch` or `torch==2.11.0+rocm7.14.gfx1151`")
            }
            Self::NoVersion(name) => Kind::Usage
                .with_help(format!("add the version and label, e.g. `{name}==2.11.0+rocm7.14.gfx1151.3`")),
            Self::SameChannel(_) => Kind::Usage.with_help("pass different channels to `--from` and `--to`"),
            Self::Empty { .. } => Kind::Usage.with_help(
                "check the destination, or upload the workspace's wheels with `rocmrpm publish index`",
            ),
            Self::SameName { .. } => Kind::Usage
                .with_help("give different builds of one version different local labels, or leave one out"),
            Self::OtherDigest { .. } => Kind::Usage.with_help(
                "published files never change: raise the component's Release, then build and publish again",
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
                    "their labels differ before the Release (another ROCm, other GPU targets, or \
                     uncommitted changes): yank the old wheel first with `rocmrpm publish yank`, or \
                     publish to another index"
                }
            }),
            Self::Mixed { published: true, .. } => Kind::Usage.with_help(
                "publish to a folder outside `build`; each build removes other files from its index",
            ),
            Self::Mixed { published: false, .. } => Kind::Usage
                .with_help("publish to another folder; each build removes other files from its index"),
        }
    }
}

/// Returns whether the labels of two wheels differ only in their last part.
fn differ_by_release(new: &str, old: &str) -> bool {
    let base = |name: &str| {
        let (_, label) = wheel::public_and_label(&wheel::FileName::parse(name).ok()?.version);
        Some(label.rsplit_once('.')?.0.to_owned())
    };
    base(new).is_some_and(|new| base(old) == Some(new))
}
