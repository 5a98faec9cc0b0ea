//! The error type that all commands return: its kind, its cause, and how to fix it. `report`
//! formats it for the terminal.

use std::fmt;

use crate::stop;

/// What an error means for the process; determines the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Findings, or an unexpected difference.
    Findings,
    /// The command line names something that does not exist.
    Usage,
    /// A workspace file is invalid.
    Config,
    /// A component's build failed.
    Build,
    /// A build exceeded its time limit.
    Timeout,
    /// The chroot, this machine, or its file system does not allow the operation.
    Environment,
    /// The network or a remote service failed.
    Network,
    /// A required program is not installed.
    MissingTool,
    /// An internal error: a bug in rocmrpm.
    Internal,
    /// The user or the system asked us to stop.
    Interrupted,
}

impl Kind {
    /// Returns the process's exit code for this kind.
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Findings => 1,
            Kind::Usage => 2,
            Kind::Config => 3,
            Kind::Build => 10,
            Kind::Timeout => 11,
            Kind::Environment => 20,
            Kind::Network => 30,
            Kind::MissingTool => 40,
            Kind::Internal => 70,
            Kind::Interrupted => 130,
        }
    }

    /// All kinds, in the order of their exit codes.
    pub const ALL: &[Kind] = &[
        Kind::Findings,
        Kind::Usage,
        Kind::Config,
        Kind::Build,
        Kind::Timeout,
        Kind::Environment,
        Kind::Network,
        Kind::MissingTool,
        Kind::Internal,
        Kind::Interrupted,
    ];

    /// Returns a few words for lists of exit codes.
    pub fn summary(self) -> &'static str {
        match self {
            Kind::Findings => "findings or differences",
            Kind::Usage => "usage",
            Kind::Config => "configuration",
            Kind::Build => "build failed",
            Kind::Timeout => "timeout",
            Kind::Environment => "chroot or host",
            Kind::Network => "network",
            Kind::MissingTool => "missing tool",
            Kind::Internal => "internal error",
            Kind::Interrupted => "interrupted",
        }
    }

    /// Returns what the exit code means for the user, in sentences of Markdown.
    pub fn meaning(self) -> &'static str {
        match self {
            Kind::Findings => {
                "The command ran, and found errors in what it checks, or a difference that `--check` \
                 or `--dry-run` reports."
            }
            Kind::Usage => "The command line is invalid, or names something that does not exist.",
            Kind::Config => {
                "A file of the workspace is invalid, or the workspace is not trusted. The message \
                 shows every mistake with its line."
            }
            Kind::Build => {
                "A build failed. The message shows the relevant lines of the log, and the cause if \
                 it is a [known one](failures.md)."
            }
            Kind::Timeout => "A build exceeded its time limit.",
            Kind::Environment => {
                "The chroot, this machine, or its file system does not allow the operation. \
                 `rocmrpm doctor` checks the machine."
            }
            Kind::Network => "The network or a remote service failed. Run the command again later.",
            Kind::MissingTool => {
                "A required program is not installed. The message names its package on Fedora and \
                 on Debian."
            }
            Kind::Internal => "A bug in rocmrpm. Report it with the printed lines.",
            Kind::Interrupted => {
                "You or the system stopped the command. Run it again to resume; finished work is kept."
            }
        }
    }
}

/// What an error means for the process, and what helps the user beyond its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// The kind, which determines the exit code.
    pub kind: Kind,
    /// How to fix it: one sentence or command per item, best first.
    pub help: Vec<String>,
    /// Lines that show what happened, such as the end of a build log.
    pub details: Vec<String>,
    /// Mistakes in files, shown with their position and a snippet.
    pub problems: Vec<Problem>,
    /// What shows more, such as the full log. A run prints this once, at its end.
    pub references: Vec<Reference>,
}

/// A file or a command that shows more about an error, or continues from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// What it is: one capitalized word, such as `Log`.
    pub label: &'static str,
    /// The path or the command.
    pub target: String,
}

impl Kind {
    /// Returns a diagnosis of this kind with a line of help.
    #[must_use]
    pub fn with_help(self, help: impl Into<String>) -> Diagnosis {
        Diagnosis::from(self).with_help(help)
    }
}

impl From<Kind> for Diagnosis {
    fn from(kind: Kind) -> Self {
        Self {
            kind,
            help: Vec::new(),
            details: Vec::new(),
            problems: Vec::new(),
            references: Vec::new(),
        }
    }
}

impl Diagnosis {
    /// Returns the diagnosis of a file-system error. A wait for a lock that a request to stop
    /// interrupted is not a failure of the file system.
    pub fn of_io(error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::Interrupted => Kind::Interrupted.with_help(stop::HELP),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Kind::Environment
                .with_help("free some space and run the same command again to resume"),
            ErrorKind::PermissionDenied => Kind::Environment.with_help(
                "check the owner of the folder: an earlier run as root may have created it",
            ),
            ErrorKind::ReadOnlyFilesystem => Kind::Environment
                .with_help("make the file system writable, or use a folder on another one"),
            _ => Kind::Environment.into(),
        }
    }

    /// Adds a line of help.
    #[must_use]
    pub fn with_help(self, help: impl Into<String>) -> Self {
        self.with_help_lines([help])
    }

    /// Adds lines of help.
    #[must_use]
    pub fn with_help_lines(mut self, help: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.help.extend(help.into_iter().map(Into::into));
        self
    }

    /// Adds lines that show what happened.
    #[must_use]
    pub fn with_details(mut self, details: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.details.extend(details.into_iter().map(Into::into));
        self
    }

    /// Adds a file or a command that shows more.
    #[must_use]
    pub fn with_reference(mut self, label: &'static str, target: impl fmt::Display) -> Self {
        self.references.push(Reference { label, target: target.to_string() });
        self
    }

    /// Adds mistakes in files.
    #[must_use]
    pub fn with_problems(mut self, problems: &[Problem]) -> Self {
        self.problems.extend_from_slice(problems);
        self
    }
}

/// An error that provides its [`Diagnosis`], so that `?` converts it to an [`Error`].
///
/// Enums implement this with one exhaustive `match`. A variant that wraps another error returns
/// that error's diagnosis, extended where it knows more. So a new variant does not compile without
/// a diagnosis, and nothing of a wrapped error is lost. `miette` was considered: its `Diagnostic`
/// has a single help text and no kind, a forgotten `#[diagnostic(transparent)]` goes unnoticed, and
/// a second library would draw the snippets.
pub trait Diagnose: std::error::Error + Send + Sync + 'static {
    /// Returns the diagnosis.
    fn diagnosis(&self) -> Diagnosis;

    /// Returns the kind, which determines the exit code.
    fn kind(&self) -> Kind {
        self.diagnosis().kind
    }

    /// Returns the help lines: one sentence or command per item, best first.
    fn help(&self) -> Vec<String> {
        self.diagnosis().help
    }

    /// Returns lines that show what happened, such as the end of a build log.
    fn details(&self) -> Vec<String> {
        self.diagnosis().details
    }

    /// Returns mistakes in files, shown with their position and a snippet.
    fn problems(&self) -> Vec<Problem> {
        self.diagnosis().problems
    }
}

/// One mistake in a text file of the workspace, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, by the path that the user would type.
    pub file: String,
    /// The file's whole text.
    pub text: String,
    /// The byte range of the mistake in `text`; `None` for the whole file.
    pub span: Option<std::ops::Range<usize>>,
    /// What is wrong: a lowercase sentence without a period.
    pub message: String,
    /// What is at this position, or what was expected there.
    pub label: String,
    /// How to fix it, if known.
    pub help: Option<String>,
}

/// Mistakes in several files, reported together.
#[derive(Debug, Default, thiserror::Error)]
#[error("{} in the workspace's files", if .0.len() == 1 { "1 mistake".to_owned() } else { format!("{} mistakes", .0.len()) })]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Adds the mistakes that an error consists of, without duplicates. Returns the error if it
    /// contains no mistakes in files.
    pub fn absorb(&mut self, error: impl Into<Error>) -> Result<(), Error> {
        let error = error.into();
        if error.problems().is_empty() {
            return Err(error);
        }
        for problem in error.problems() {
            if !self.0.contains(problem) {
                self.0.push(problem.clone());
            }
        }
        Ok(())
    }
}

impl Diagnose for Problems {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::from(Kind::Config).with_problems(&self.0)
    }
}

/// The top-level error of the library.
#[derive(Debug)]
pub struct Error {
    /// Boxed because results contain errors.
    diagnosis: Box<Diagnosis>,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl Error {
    /// Returns an error that does not belong to a particular module.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { diagnosis: Box::new(kind.into()), source: message.into().into() }
    }

    /// Adds a line of help.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.diagnosis.help.push(help.into());
        self
    }

    /// Returns the whole diagnosis.
    pub fn diagnosis(&self) -> &Diagnosis {
        &self.diagnosis
    }

    /// Returns what the error means for the process.
    pub fn kind(&self) -> Kind {
        self.diagnosis.kind
    }

    /// Returns the lines of help, best first.
    pub fn help(&self) -> &[String] {
        &self.diagnosis.help
    }

    /// Returns lines that show what happened, such as the end of a build log.
    pub fn details(&self) -> &[String] {
        &self.diagnosis.details
    }

    /// Returns the mistakes in files that this error consists of, if any.
    pub fn problems(&self) -> &[Problem] {
        &self.diagnosis.problems
    }

    /// Returns the error of a module that this was converted from, if it has this type.
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.source.downcast_ref()
    }

    /// Returns the messages of the underlying causes, outermost first, without those that the
    /// previous message already contains.
    pub fn causes(&self) -> Vec<String> {
        let mut causes = Vec::new();
        let mut last = self.source.to_string();
        let mut next = self.source.source();
        while let Some(cause) = next {
            let text = cause.to_string();
            if !last.contains(&text) {
                causes.push(text.clone());
            }
            last = text;
            next = cause.source();
        }
        causes
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl<E: Diagnose> From<E> for Error {
    fn from(error: E) -> Self {
        Self { diagnosis: Box::new(error.diagnosis()), source: Box::new(error) }
    }
}

/// A file-system error that names the failed action. The messages of `fs_err` contain the paths.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}")]
pub struct IoError {
    action: String,
    source: std::io::Error,
}

impl IoError {
    /// Returns a function for `map_err` that adds the failed action, as in "cannot {action}".
    pub fn doing(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self { action: action.into(), source }
    }
}

impl Diagnose for IoError {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::of_io(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_listed_by_exit_code() {
        let codes: Vec<u8> = Kind::ALL.iter().map(|kind| kind.exit_code()).collect();
        assert!(codes.is_sorted_by(|a, b| a < b), "{codes:?}");
        // A new kind belongs in `ALL`, too.
        assert_eq!(codes.len(), 10);
    }

    #[test]
    fn read_only_file_system_has_its_own_help() {
        let error = std::io::Error::from(std::io::ErrorKind::ReadOnlyFilesystem);
        let help = IoError::doing("write `/srv/x`")(error).help();
        assert_eq!(help, ["make the file system writable, or use a folder on another one"]);
    }
}
