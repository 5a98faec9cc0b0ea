//! Builds images and reads their labels with podman or buildah. Both accept the same files and
//! share one image store. The contents of the container files come from elsewhere.

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
    /// buildah, which also works where containers cannot run, with `BUILDAH_ISOLATION=chroot`.
    Buildah,
}

/// Why an engine failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The image could not be built.
    #[error("{engine} could not build the image: it {how}")]
    Build {
        /// The engine.
        engine: &'static str,
        /// How the engine exited.
        how: String,
        /// The last lines of its output.
        lines: Vec<String>,
        /// The file with its whole output.
        log: std::path::PathBuf,
    },
    /// The image does not exist.
    #[error("the image `{image}` does not exist")]
    NoImage {
        /// The image.
        image: String,
        /// The engine's message.
        reported: String,
    },
    /// The engine cannot inspect images.
    #[error("{engine} cannot inspect `{image}`: {reported}")]
    Store {
        /// The engine.
        engine: &'static str,
        /// The image.
        image: String,
        /// The engine's message.
        reported: String,
    },
    /// The engine's output cannot be parsed.
    #[error("cannot read {engine}'s description of `{image}`")]
    Answer {
        /// The engine.
        engine: &'static str,
        /// The image.
        image: String,
    },
    /// The engine is missing, could not be run, or was interrupted.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl Diagnose for EngineError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Build { log, lines, .. } => Diagnosis::from(Kind::Build)
                .with_reference("Log", log.display())
                .with_details(lines),
            Self::NoImage { reported, .. } => Kind::Usage
                .with_help("run `rocmrpm container build` to build it")
                .with_details([reported]),
            Self::Store { .. } | Self::Answer { .. } => Kind::Environment.into(),
            Self::Process(error) => error.diagnosis(),
        }
    }
}

impl Engine {
    /// Returns the engine to use on this machine; prefers podman.
    pub fn of_machine() -> Result<Self, EngineError> {
        Self::first([Self::Podman, Self::Buildah])
    }

    /// Returns the engine to run commands in images with. Prefers buildah, which also works where
    /// containers cannot run.
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

    /// Builds an image from a container file, with the file's folder as the context, and adds these
    /// labels. Writes the output to `log`.
    pub fn build(
        self,
        file: &Path,
        image: &str,
        base: Option<&str>,
        labels: &BTreeMap<String, String>,
        log: &Path,
    ) -> Result<(), EngineError> {
        let mut command = Command::new(self.name()).arg("build");
        for (name, value) in labels {
            command = command.arg("--label").arg(format!("{name}={value}"));
        }
        if let Some(base) = base {
            command = command.arg("--build-arg").arg(format!("BASE_IMAGE={base}"));
        }
        let context = file.parent().unwrap_or(Path::new("."));
        let command = command.arg("-t").arg(image).arg("-f").arg(file).arg(context);
        let done = command.cwd(context).log_to(log).run()?;
        if done.success() {
            return Ok(());
        }
        let reported = fs_err::read(log).unwrap_or_default();
        Err(EngineError::Build {
            engine: self.name(),
            how: done.how(),
            lines: last_lines(&reported, 12),
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
        // For an image without labels, the value is `null`.
        let labels: Option<BTreeMap<String, String>> =
            serde_json::from_value(labels).map_err(unreadable)?;
        Ok(labels.unwrap_or_default())
    }

    /// Explains why the engine could not inspect an image. Source: containers/storage, errors.go
    /// ("image not known"); podman, "no such image".
    pub fn refused(self, image: &str, done: &Finished) -> EngineError {
        let reported = visible(&last_lines(&done.stderr, 1).concat());
        let image = visible(image);
        match ["image not known", "no such image"]
            .iter()
            .any(|part| reported.to_lowercase().contains(part))
        {
            true => EngineError::NoImage { image, reported },
            false => EngineError::Store { engine: self.name(), image, reported },
        }
    }
}
