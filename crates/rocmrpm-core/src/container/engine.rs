//! podman and buildah: building an image and reading its labels. Both take the same files and
//! keep their images in the same store.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Diagnose, Diagnosis, Kind};
use crate::process::{Command, Finished, ProcessError, find_program, last_lines};
use crate::text::visible;

/// A program that builds images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// podman.
    Podman,
    /// buildah, which runs where containers cannot: `BUILDAH_ISOLATION=chroot`.
    Buildah,
}

/// Why an engine did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The image was not built.
    #[error("{engine} could not build the image: it {how}")]
    Build {
        /// The engine.
        engine: &'static str,
        /// How it ended.
        how: String,
        /// What it said last.
        lines: Vec<String>,
        /// Everything it said.
        log: std::path::PathBuf,
    },
    /// There is no such image.
    #[error("there is no image `{image}`")]
    NoImage {
        /// The image.
        image: String,
        /// What the engine said.
        said: String,
    },
    /// The engine cannot look at images.
    #[error("{engine} cannot look at `{image}`: {said}")]
    Store {
        /// The engine.
        engine: &'static str,
        /// The image.
        image: String,
        /// What the engine said.
        said: String,
    },
    /// The engine's answer cannot be read.
    #[error("cannot read what {engine} says about `{image}`")]
    Answer {
        /// The engine.
        engine: &'static str,
        /// The image.
        image: String,
    },
    /// It is missing, could not be run, or was stopped.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl Diagnose for EngineError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Build { log, lines, .. } => {
                Kind::Build.with_help(format!("the whole log: {}", log.display())).with_details(lines)
            }
            Self::NoImage { said, .. } => {
                Kind::Usage.with_help("`rocmrpm container build` makes one").with_details([said])
            }
            Self::Store { .. } | Self::Answer { .. } => Kind::Environment.into(),
            Self::Process(error) => error.diagnosis(),
        }
    }
}

impl Engine {
    /// Returns the engine of this machine: podman before buildah.
    pub fn of_machine() -> Result<Self, EngineError> {
        Self::first([Self::Podman, Self::Buildah])
    }

    /// Returns the engine that runs commands in images: buildah before podman, because it does
    /// that where containers cannot run, too.
    pub fn to_look_inside() -> Result<Self, EngineError> {
        Self::first([Self::Buildah, Self::Podman])
    }

    fn first(engines: [Self; 2]) -> Result<Self, EngineError> {
        engines
            .into_iter()
            .find(|engine| find_program(engine.name()).is_some())
            .ok_or_else(|| ProcessError::Missing { program: engines[0].name().into() }.into())
    }

    /// Returns the program's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Buildah => "buildah",
        }
    }

    /// Builds an image from a container file in its folder, the context. Output goes to the log.
    pub fn build(self, file: &Path, image: &str, base: Option<&str>, log: &Path) -> Result<(), EngineError> {
        let mut command = Command::new(self.name()).arg("build");
        if let Some(base) = base {
            command = command.arg("--build-arg").arg(format!("BASE_IMAGE={base}"));
        }
        let context = file.parent().unwrap_or(Path::new("."));
        let command = command.arg("-t").arg(image).arg("-f").arg(file).arg(context);
        let done = command.cwd(context).log_to(log).run()?;
        if done.success() {
            return Ok(());
        }
        let said = fs_err::read(log).unwrap_or_default();
        Err(EngineError::Build {
            engine: self.name(),
            how: done.how(),
            lines: last_lines(&said, 12),
            log: log.to_owned(),
        })
    }

    /// Reads the labels of an image.
    pub fn labels(self, image: &str) -> Result<BTreeMap<String, String>, EngineError> {
        let (args, place): (&[&str], _) = match self {
            Self::Podman => (&["image", "inspect"], "/0/Labels"),
            Self::Buildah => (&["inspect", "--type", "image"], "/OCIv1/config/Labels"),
        };
        let command = Command::new(self.name()).args(args).arg("--").arg(image);
        let done = command.env("LC_ALL", "C").run()?;
        if !done.success() {
            return Err(self.refused(image, &done));
        }
        let unreadable = |_| EngineError::Answer { engine: self.name(), image: visible(image) };
        let answer: serde_json::Value = serde_json::from_slice(&done.stdout).map_err(unreadable)?;
        let labels = answer.pointer(place).cloned().unwrap_or_default();
        // An image without labels has `null` there.
        let labels: Option<BTreeMap<String, String>> = serde_json::from_value(labels).map_err(unreadable)?;
        Ok(labels.unwrap_or_default())
    }

    /// Says why there is no answer about an image. Source: containers/storage, errors.go
    /// ("image not known"); podman, "no such image".
    pub fn refused(self, image: &str, done: &Finished) -> EngineError {
        let said = visible(&last_lines(&done.stderr, 1).concat());
        let image = visible(image);
        match ["image not known", "no such image"].iter().any(|part| said.to_lowercase().contains(part)) {
            true => EngineError::NoImage { image, said },
            false => EngineError::Store { engine: self.name(), image, said },
        }
    }
}
