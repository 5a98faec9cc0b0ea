//! Explains a failed build, or a failed program on the GPU, from its log: the phase, the relevant
//! lines, and the cause if it is a known one. The causes themselves are data, in `failures.toml`.

mod catalog;
#[cfg(any(test, fuzzing, feature = "testing"))]
pub mod fuzzing;
mod log;
mod pattern;

use std::path::{Path, PathBuf};

pub use catalog::{Cause, CauseKind, KnownCause, Phase, cause, causes};
pub(in crate::build) use log::{Log, shown_lines};
pub use pattern::Pattern;

use crate::error::{Diagnose, Diagnosis, Kind, Problem};
use crate::process::{Finished, own_program};

/// The catalog's entry for a full disk.
const DISK_FULL: &str = "disk-full";

/// A file system with less free space than this, in bytes, counts as full.
const FULL: u64 = 64 * 1024;

/// A failed build, explained.
#[derive(Debug, thiserror::Error)]
#[error("`{component}` failed in {phase}{}", cause.as_ref().map(|c| format!(": {c}")).unwrap_or_default())]
pub struct Failure {
    /// The component.
    pub component: String,
    /// The phase, such as `%build` or `BuildRequires`.
    pub phase: String,
    /// The relevant lines of the log.
    pub lines: Vec<String>,
    /// The likely cause, if it is a known one.
    pub cause: Option<String>,
    /// How to fix it.
    pub help: Option<String>,
    /// The ID of the cause, if it comes from the catalog.
    pub id: Option<&'static str>,
    /// The path of the full log.
    pub log: PathBuf,
    /// The command that enters the build root, if there is one.
    pub enter: Option<String>,
    /// The position in the spec, if rpm reports one.
    pub problems: Vec<Problem>,
    /// What kind of failure it is.
    pub kind: Kind,
}

impl Failure {
    /// Explains a failure from rpmbuild's log. `spec` is the path and the text of the spec, for
    /// errors that name one of its lines.
    pub fn from_log(component: &str, path: &Path, spec: (&Path, &str)) -> Self {
        Self::of_log(&Log::read(path), component, path, spec)
    }

    fn of_log(log: &Log, component: &str, path: &Path, spec: (&Path, &str)) -> Self {
        let problems = log.spec_problems(spec);
        let phase = if problems.is_empty() { log.phase() } else { "the spec".to_owned() };
        let found = catalog::find(log.failed_part(), Phase::named(&phase));
        let (line, known) = found.unzip();
        let mut failure = Self {
            component: component.to_owned(),
            phase,
            lines: if problems.is_empty() { log.relevant(line) } else { Vec::new() },
            cause: None,
            help: None,
            id: None,
            log: path.to_owned(),
            enter: None,
            kind: if problems.is_empty() { Kind::Build } else { Kind::Config },
            problems,
        };
        // On a full disk, the error message may not have reached the log.
        if let Some(known) = known.or_else(|| KnownCause::of_full_disk(path)) {
            failure.because(known);
        }
        failure
    }

    /// Adds the cause that shows in how the process ended: if the kernel kills it for lack of
    /// memory, nothing reaches the log.
    #[must_use]
    pub fn ended(mut self, done: &Finished) -> Self {
        if let Some(known) = KnownCause::of_end(done).filter(|_| self.cause.is_none()) {
            self.because(known);
        }
        self
    }

    /// Sets a known cause.
    pub fn because(&mut self, known: KnownCause) {
        if self.problems.is_empty() {
            self.kind = known.kind;
        }
        (self.cause, self.help, self.id) = (Some(known.cause), Some(known.help), Some(known.id));
    }
}

impl Diagnose for Failure {
    fn diagnosis(&self) -> Diagnosis {
        let mut diagnosis = Diagnosis::from(self.kind)
            .with_help_lines(&self.help)
            .with_details(&self.lines)
            .with_problems(&self.problems)
            .with_reference("Log", self.log.display());
        if let Some(id) = self.id {
            diagnosis =
                diagnosis.with_reference("Explain", format!("{} explain {id}", own_program()));
        }
        match &self.enter {
            Some(enter) => diagnosis.with_reference("Shell", enter),
            None => diagnosis,
        }
    }
}

/// A log, explained.
#[derive(Debug)]
pub struct Explanation {
    /// The cause, if it is a known one.
    pub known: Option<KnownCause>,
    /// The relevant lines.
    pub lines: Vec<String>,
}

impl Explanation {
    /// Explains the log of a build, the output of a program that uses the GPU, or the kernel's log.
    /// `-` is the standard input.
    pub fn of_log(path: &Path) -> std::io::Result<Self> {
        let log = match path.as_os_str() == "-" {
            true => Log::of_stream(&mut std::io::stdin().lock())?,
            false => Log::try_read(path)?,
        };
        let lines = log.failed_part();
        // The log of a build names the phase that failed.
        let phase = Phase::named(&log.phase()).unwrap_or(Phase::Run);
        let found = catalog::find(lines, Some(phase)).or_else(|| catalog::find(lines, None));
        let (line, known) = found.unzip();
        Ok(Self { known, lines: log.relevant(line) })
    }
}

impl KnownCause {
    /// Finds the cause in a text, such as the end of a log of mock, dnf or a remote builder. `None`
    /// as the phase matches any.
    pub fn in_text(text: &[u8], phase: Option<Phase>) -> Option<Self> {
        catalog::find(Log::of(text).failed_part(), phase).map(|(_, known)| known)
    }

    /// Finds the cause in a log file, reading only its end.
    pub fn in_log(path: &Path, phase: Option<Phase>) -> Option<Self> {
        catalog::find(Log::read(path).failed_part(), phase).map(|(_, known)| known)
    }

    /// Returns a full disk as the cause if the disk of this path is full.
    pub(super) fn of_full_disk(path: &Path) -> Option<Self> {
        let stat = rustix::fs::statvfs(path).ok()?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        cause(DISK_FULL).filter(|_| free < FULL).map(|full| Self::of(full, &[]))
    }

    /// Finds the cause of an end by a signal that rocmrpm did not send.
    pub fn of_end(done: &Finished) -> Option<Self> {
        done.signal?;
        catalog::find(&[done.how()], None).map(|(_, known)| known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(log: &str, spec: &str) -> Failure {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("build.log");
        fs_err::write(&path, log).unwrap();
        Failure::from_log("demo", &path, (Path::new("demo.spec"), spec))
    }

    #[test]
    fn finds_phase_lines_and_cause() {
        let log = "+ make\nmaking\nfoo.cpp:1: fatal error: hip/hip_runtime.h: No such file\nmake: *** [x] Error 1\n\
                   error: Bad exit status from /var/tmp/rpm-tmp.Ab (%build)\n\nRPM build errors:\n    Bad exit";
        let failure = failure(log, "");
        assert_eq!(failure.phase, "%build");
        assert_eq!(failure.cause.as_deref(), Some("HIP's headers are not installed"));
        assert!(failure.lines.iter().any(|l| l.contains("hip_runtime.h")), "{:?}", failure.lines);
        assert_eq!(failure.kind(), Kind::Build);
        let Diagnosis { help, references, .. } = failure.diagnosis();
        assert_eq!(help.len(), 1, "{help:?}");
        let labels: Vec<&str> = references.iter().map(|reference| reference.label).collect();
        assert_eq!(labels, ["Log", "Explain"]);
    }

    #[test]
    fn ignores_output_of_earlier_phases() {
        let log = "Executing(%prep): sh\nHunk #1 succeeded at 5 (offset 2 lines).\nfoo: command not found\n\
                   Executing(%build): sh\n+ make\nmake: *** Error 1\n\
                   error: Bad exit status from /var/tmp/rpm-tmp.Ab (%build)\n";
        let failure = failure(log, "");
        assert_eq!((failure.phase.as_str(), failure.cause), ("%build", None));
        assert_eq!(failure.lines, ["+ make", "make: *** Error 1"]);
    }

    #[test]
    fn omits_warnings_that_rpm_6_repeats_and_an_earlier_rpmbuild() {
        let log = "Wrote: /builddir/x.src.rpm\nRPM build warnings:\n    old\n+ make\noops\n\
                   RPM build warnings:\n    old\nerror: Bad exit status from /var/tmp/x (%build)\n\n\
                   RPM build errors:\n    Bad exit status from /var/tmp/x (%build)\n";
        let failure = failure(log, "");
        assert_eq!(failure.lines.last().map(String::as_str), Some("oops"));
        assert_eq!(failure.phase, "%build");
    }

    #[test]
    fn shows_output_after_a_premature_summary() {
        let log = "Executing(%build): sh\nRPM build errors:\n+ make\nit breaks\n\
                   error: Bad exit status from /var/tmp/rpm-tmp.Ab (%build)\n    \
                   Bad exit status from /var/tmp/rpm-tmp.Ab (%build)\nChild return code was: 1\n";
        let failure = failure(log, "");
        assert_eq!(
            (failure.phase.as_str(), failure.lines),
            ("%build", vec!["+ make".into(), "it breaks".into()])
        );
    }

    #[test]
    fn shows_the_line_of_a_rejected_spec() {
        let failure = failure("error: line 2: Unknown tag: Nmae: x\n", "Version: 1\nNmae: x\n");
        assert_eq!(failure.kind(), Kind::Config);
        let problem = &failure.problems[0];
        assert_eq!(&problem.text[problem.span.clone().unwrap()], "Nmae: x");
        assert_eq!(problem.label, "Unknown tag: Nmae: x");
    }

    #[test]
    fn names_listed_files_that_are_missing() {
        let dir = "/w/BUILDROOT/python-six-1.17.0-1~dirty.x86_64";
        let log = format!(
            "Executing(%license): sh\n+ cp LICENSE x\n+ exit 0\n\nRPM build errors:\n    File not found: {dir}/usr/share/nothere\n"
        );
        let failure = failure(&log, "");
        assert_eq!(failure.phase, "%files");
        let cause = failure.cause.unwrap();
        assert_eq!(cause, "%files lists files that were not installed: /usr/share/nothere");
        assert!(failure.lines[0].ends_with("/usr/share/nothere"), "{:?}", failure.lines);
    }

    #[test]
    fn missing_build_requires_are_a_phase() {
        let log = "error: Failed build dependencies:\n\tfoo-devel is needed by demo-1-1.x86_64\n";
        let failure = failure(log, "");
        assert_eq!(failure.phase, "BuildRequires");
        assert!(failure.lines.iter().any(|l| l.contains("foo-devel")));
    }
}
