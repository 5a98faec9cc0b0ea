//! Explains why mock failed: picks the log that shows the reason, and falls back to mock's exit
//! codes. Finding the cause in a log is up to `failure`.

use std::path::Path;

use super::mock_error::{MockError, SHOWN, errors_of_dnf};
use crate::build::failure::{Failure, KnownCause, Phase, shown_lines};
use crate::build::{BuildError, Job};
use crate::error::Kind;
use crate::process::{Finished, ProcessError, is_full_disk};

/// mock's exit code for a build that took too long.
const TIMEOUT: i32 = 11;

/// mock's own log.
const LOG: &str = "mock.log";

/// An exit code, what kind of failure it is, its meaning or the phase, and the help.
type Exit = (i32, Kind, &'static str, &'static str);

/// The meanings of mock's exit codes. Source: mock, `mockbuild/exception.py`.
#[rustfmt::skip]
const EXITS: &[Exit] = &[
    (1, Kind::Environment, "mock failed", "check its log"),
    (2, Kind::Environment, "mock's setuid wrapper is missing", "reinstall the package `mock`"),
    (3, Kind::Config, "mock rejects the rendered config", "correct mock-configs/mock.cfg.tera or the chroot's definition"),
    (4, Kind::Build, "mock built only some of the packages", "check its log for the others"),
    (5, Kind::Internal, "mock does not know an option that rocmrpm uses", "update mock; rocmrpm needs mock 6 or newer"),
    (6, Kind::Environment, "this machine cannot build for the chroot's architecture", "build on a machine of that architecture, or install qemu-user-static"),
    (7, Kind::Interrupted, "mock was interrupted", "run the same command again"),
    (10, Kind::Build, "%build", ""),
    (TIMEOUT, Kind::Timeout, "the build took longer than mock allows", "raise `rpmbuild_timeout` in mock's own configuration"),
    (20, Kind::Environment, "mock could not set up the chroot", "check root.log"),
    (25, Kind::Environment, "LVM failed", "check root.log"),
    (30, Kind::Build, "BuildRequires", "correct the template's BuildRequires, or add the repository that provides them to the chroot's definition"),
    (31, Kind::Build, "BuildRequires", "remove external dependencies of a type that mock does not support"),
    (40, Kind::Config, "mock cannot read the SRPM", "remove the component's folder below build/, then try again"),
    (50, Kind::Environment, "a command of mock failed", "check root.log"),
    (60, Kind::Environment, "another mock uses this build root", "exit its shell, or wait until the build of a killed rocmrpm finishes"),
    (65, Kind::Environment, "another process holds LVM's thin pool", "wait until it finishes"),
    (70, Kind::Environment, "mock cannot create its result folder", "check whether the disk is full or the folder belongs to another user"),
    (80, Kind::Environment, "the kernel does not let mock create namespaces", "in a container, run it with --privileged; mock needs unshare(2)"),
    (90, Kind::Environment, "mock could not prepare the bootstrap chroot", "check root.log and the network"),
    (110, Kind::Environment, "mock lost track of its own state", "try again; if that fails, report it to mock"),
    (120, Kind::Build, "mock could not install a weak dependency", "check root.log"),
    (129, Kind::Interrupted, "mock lost its terminal", "run the same command again"),
    (141, Kind::Environment, "mock lost its output", "run the same command again"),
    (143, Kind::Interrupted, "mock was terminated", "run the same command again"),
];

/// Turns mock's exit code and logs into an error. `in_memory` is true if the build root was a
/// tmpfs, which is gone when mock exits.
pub(super) fn explain(
    job: &Job<'_>,
    results: &Path,
    done: &Finished,
    in_memory: bool,
) -> BuildError {
    let mock_log = results.join(LOG);
    let error = MockError::read(&mock_log);
    // If a command fails, mock passes on that command's exit code: 1 for rpmbuild.
    let code = match done.code {
        Some(code) if error.command.contains("rpmbuild") && code != TIMEOUT => Some(10),
        code => code,
    };
    let exit = code.and_then(|code| EXITS.iter().find(|(number, ..)| *number == code));
    let spec_path = job.sources.join(&job.spec.file_name);
    let component = job.component.name.as_str();
    let failure = |log: &str| {
        let log = Some(results.join(log))
            .filter(|path| path.exists())
            .unwrap_or_else(|| mock_log.clone());
        let mut failure = Failure::from_log(component, &log, (&spec_path, &job.spec.text));
        failure.enter = job.enter.clone().filter(|_| !in_memory);
        failure
    };
    let mut failure = match exit {
        Some((10, ..)) => {
            let mut failure = failure("build.log");
            if in_memory
                && failure.kind == Kind::Environment
                && is_full_disk(&failure.lines.join("\n"))
            {
                in_full_memory(&mut failure);
            }
            return failure.into();
        }
        Some((_, Kind::Interrupted, ..)) => return ProcessError::Stopped.into(),
        Some((TIMEOUT, ..)) => {
            if let Some(allowed) = job.timeout {
                let log = results.join("build.log");
                return BuildError::TimedOut { component: component.to_owned(), allowed, log };
            }
            failure("build.log")
        }
        Some((30 | 31, ..)) => failure("root.log"),
        _ => failure(LOG),
    };
    failure.lines = error.lines;
    failure.problems = Vec::new();
    (failure.cause, failure.help, failure.id) = (None, None, None);
    of_mock(&mut failure, exit, done, results);
    failure.into()
}

fn in_full_memory(failure: &mut Failure) {
    failure.cause = Some("the build root in memory is full".to_owned());
    let help = "raise `build-space` in component.toml, or remove it to build on disk";
    failure.help = Some(help.to_owned());
    failure.id = None;
}

/// Finds the cause of a failure that is mock's own, or that of dnf in it.
fn of_mock(failure: &mut Failure, exit: Option<&Exit>, done: &Finished, results: &Path) {
    let mut lost = if matches!(exit, Some((30, ..))) { errors_of_dnf(results) } else { Vec::new() };
    lost.retain(|line| !failure.lines.iter().any(|shown| shown.contains(line.trim())));
    failure.lines.extend(shown_lines(&lost, SHOWN));
    // dnf's output while it fills the root is in root.log; nothing else in that file is a cause.
    let of_dnf = || {
        KnownCause::in_log(&results.join("root.log"), Some(Phase::Dnf))
            .filter(|_| !matches!(exit, Some((1, ..))))
    };
    let of_lost = || KnownCause::in_text(lost.join("\n").as_bytes(), Some(Phase::Dnf));
    let known =
        KnownCause::in_log(&results.join(LOG), Some(Phase::Mock)).or_else(of_dnf).or_else(of_lost);
    failure.phase = match (exit, &known) {
        (Some((30, _, phase, _)), Some(KnownCause { kind: Kind::Build, .. }))
        | (Some((31, _, phase, _)), _) => phase,
        (Some((30, ..)), _) => "dnf",
        _ => "mock",
    }
    .to_owned();
    match (known.or_else(|| KnownCause::of_full_disk(results)), exit) {
        (Some(known), _) => failure.because(known),
        (None, Some((30, ..))) => failure.kind = Kind::Environment,
        (None, Some((number, kind, meaning, help))) => {
            failure.kind = *kind;
            failure.cause = Some((*meaning).to_owned()).filter(|_| *number != 31);
            failure.help = Some((*help).to_owned());
        }
        (None, None) => {
            failure.kind = Kind::Environment;
            failure.cause = Some(format!("mock {}", done.how()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_every_exit_code_of_mock_once() {
        let codes: std::collections::BTreeSet<i32> = EXITS.iter().map(|(code, ..)| *code).collect();
        assert_eq!(codes.len(), EXITS.len());
        let documented = [
            1, 2, 3, 4, 5, 6, 7, 10, 11, 20, 25, 30, 31, 40, 50, 60, 65, 70, 80, 90, 110, 120, 129,
            141, 143,
        ];
        assert_eq!(codes.into_iter().collect::<Vec<_>>(), documented);
    }
}
