//! The digests of base images, as skopeo reads them from a registry. `workspace` keeps them in the lock
//! of a pin set.

use std::collections::{BTreeMap, BTreeSet};

use super::base;
use super::files::each_workspace;
use crate::digest::Sha256;
use crate::error::{Diagnose, Diagnosis, Error, Kind};
use crate::events::{Event, Events, Step};
use crate::process::{Command, ProcessError, last_lines};
use crate::text::visible;
use crate::workspace::flavor::registry;
use crate::workspace::{Lock, Workspace};

/// Why the digest of an image is unknown.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The image's name has no registry, and each engine would choose its own.
    #[error("the image `{image}` has no registry in its name")]
    NoRegistry {
        /// The image.
        image: String,
    },
    /// skopeo cannot read the image.
    #[error("skopeo cannot read the digest of `{image}`")]
    Unreadable {
        /// The image.
        image: String,
        /// The last lines of skopeo's output.
        lines: Vec<String>,
    },
    /// skopeo is missing, could not be run, or was interrupted.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl Diagnose for ImageError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NoRegistry { image } => Kind::Config.with_help(format!(
                "write the whole name in rocmrpm.toml or in the chroot's file, such as \
                 `docker.io/library/{image}`"
            )),
            Self::Unreadable { lines, .. } => Kind::Network
                .with_help("check the name of the image and the network, and run the command again")
                .with_details(lines),
            Self::Process(error) => error.diagnosis(),
        }
    }
}

/// Returns the base images of a workspace's container files that have no digest in their name,
/// without those that only this machine has.
fn unpinned(workspace: &Workspace) -> Result<BTreeSet<String>, Error> {
    let mut images = BTreeSet::new();
    each_workspace(workspace, |workspace, flavors| {
        for flavor in flavors {
            let settings = workspace.manifest.containers.get(flavor).cloned().unwrap_or_default();
            images.insert(base(workspace, flavor, &settings)?);
        }
        Ok(())
    })?;
    images.retain(|image| !image.contains('@') && registry(image) != Some("localhost"));
    Ok(images)
}

/// Returns the digests of the base images that container files start from: those in the old lock, or
/// with `update`, those that the registries have now.
pub fn lock_images(
    workspace: &Workspace,
    old: &Lock,
    update: bool,
    events: &dyn Events,
) -> Result<BTreeMap<String, Sha256>, Error> {
    let mut images = BTreeMap::new();
    for image in unpinned(workspace)? {
        let digest = match old.images.get(&image) {
            _ if update => {
                events.event(Event::Step { step: Step::Reading, detail: image.clone() });
                digest_of(&image)?
            }
            Some(known) => *known,
            None => continue,
        };
        images.insert(image, digest);
    }
    Ok(images)
}

/// Returns the digest of an image's manifest, or of its list of manifests for several architectures.
fn digest_of(image: &str) -> Result<Sha256, ImageError> {
    if registry(image).is_none() {
        return Err(ImageError::NoRegistry { image: visible(image) });
    }
    let command = Command::new("skopeo").args(["inspect", "--raw"]);
    let done = command.arg(format!("docker://{image}")).env("LC_ALL", "C").run()?;
    if done.success() && !done.stdout.is_empty() {
        return Ok(Sha256::of_bytes(&done.stdout));
    }
    let lines = last_lines(&done.stderr, 4);
    Err(ImageError::Unreadable { image: visible(image), lines })
}
