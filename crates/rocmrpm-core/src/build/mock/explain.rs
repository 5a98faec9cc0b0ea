//! Explains why mock failed: picks the log that shows the reason, and falls back to mock's exit
//! codes. Finding the cause in a log is up to `failure`.

use std::path::Path;

use super::said::{SHOWN, Said, errors_of_dnf};
use crate::build::failure::{Failure, Known, Phase, shown_lines};
use crate::build::{BuildError, Job};
use crate::error::Kind;
use crate::process::{Finished, ProcessError, says_full};

/// mock's exit code for a build that took too long.
const TIMEOUT: i32 = 11;

/// The meanings of mock's exit codes. Source: mock, `mockbuild/exception.py`.
#[rustfmt::skip]
const EXITS: &[(i32, Kind, &str, &str)] = &[
    (1, Kind::Environment, "mock failed", "its log says more"),
    (2, Kind::Environment, "mock's setuid wrapper is missing", "reinstall the package `mock`"),
    (3, Kind::Config, "mock rejects the rendered config", "correct mock-configs/mock.cfg.tera or the chroot's definition"),
    (4, Kind::Build, "only some packages were built", "its log names the others"),
    (5, Kind::Internal, "mock does not know an option that rocmrpm uses", "update mock; rocmrpm needs mock 6 or newer"),
    (6, Kind::Environment, "this machine cannot build for the chroot's architecture", "build on a machine of that architecture, or install qemu-user-static"),
    (7, Kind::Interrupted, "mock was interrupted", "run the same command again"),
    (10, Kind::Build, "%build", ""),
    (TIMEOUT, Kind::Timeout, "the build took longer than mock allows", "raise `rpmbuild_timeout` in mock's own configuration"),
    (20, Kind::Environment, "the chroot could not be set up", "root.log says more"),
    (25, Kind::Environment, "LVM refuses", "root.log says more"),
    (30, Kind::Build, "BuildRequires", "correct the template's BuildRequires, or add the repository that has them to the chroot's definition"),
    (31, Kind::Build, "BuildRequires", "an external dependency is of a kind that mock does not know"),
    (40, Kind::Config, "mock cannot read the SRPM", "remove the component's folder below build/ and try again"),
    (50, Kind::Environment, "a command of mock failed", "root.log says more"),
    (60, Kind::Environment, "another mock uses this build root", "leave its shell, or wait until the build of a rocmrpm that was killed is done"),
    (65, Kind::Environment, "another process holds LVM's thin pool", "wait until it is done"),
    (70, Kind::Environment, "mock cannot create its result folder", "is the disk full, or does the folder belong to another user?"),
    (80, Kind::Environment, "the kernel refuses mock its namespaces", "mock needs unshare(2): in a container, run it with --privileged"),
    (90, Kind::Environment, "the bootstrap chroot could not be prepared", "root.log says more; is the network up?"),
    (110, Kind::Environment, "mock lost track of its own state", "try again; if it comes back, report it to mock"),
    (120, Kind::Build, "a weak dependency could not be installed", "root.log names it"),
    (129, Kind::Interrupted, "mock was hung up", "run the same command again"),
    (141, Kind::Environment, "mock lost its output", "run the same command again"),
    (143, Kind::Interrupted, "mock was asked to end", "run the same command again"),
];

/// Turns mock's exit code and logs into an error. `in_memory` is true if the build root was a
/// tmpfs, which is gone when mock exits.
pub(super) fn explain(job: &Job<'_>, results: &Path, done: &Finished, in_memory: bool) -> BuildError {
    let mock_log = results.join("mock.log");
    let said = Said::read(&mock_log);
    // If a command fails, mock passes on that command's exit code: 1 for rpmbuild.
    let code = match done.code {
        Some(code) if said.command.contains("rpmbuild") && code != TIMEOUT => Some(10),
        code => code,
    };
    let exit = code.and_then(|code| EXITS.iter().find(|(number, ..)| *number == code));
    let spec_path = job.sources.join(&job.spec.file_name);
    let component = job.component.name.as_str();
    let failure = |log: &str| {
        let log = Some(results.join(log)).filter(|path| path.exists()).unwrap_or_else(|| mock_log.clone());
        let mut failure = Failure::from_log(component, &log, (&spec_path, &job.spec.text), &job.retry);
        failure.enter = job.enter.clone().filter(|_| !in_memory);
        failure
    };
    let mut failure = match exit {
        Some((10, ..)) => {
            let mut failure = failure("build.log");
            if in_memory && failure.kind == Kind::Environment && says_full(&failure.lines.join("\n")) {
                failure.cause = Some("the build root in memory is full".to_owned());
                failure.help = Some(
                    "raise `build-space` in component.toml, or leave it out to build on disk".to_owned(),
                );
                failure.id = None;
            }
            return failure.into();
        }
        Some((_, Kind::Interrupted, ..)) => return ProcessError::Stopped.into(),
        Some((TIMEOUT, ..)) => {
            if let Some(allowed) = job.timeout {
                let log = results.join("build.log");
                return BuildError::TimedOut {
                    component: component.to_owned(),
                    allowed,
                    log,
                    retry: job.retry.clone(),
                };
            }
            failure("build.log")
        }
        Some((30 | 31, ..)) => failure("root.log"),
        _ => failure("mock.log"),
    };
    failure.lines = said.lines;
    let mut lost = if matches!(exit, Some((30, ..))) { errors_of_dnf(results) } else { Vec::new() };
    lost.retain(|line| !failure.lines.iter().any(|said| said.contains(line.trim())));
    failure.lines.extend(shown_lines(&lost, SHOWN));
    failure.problems = Vec::new();
    (failure.cause, failure.help, failure.id) = (None, None, None);
    // dnf's output while it fills the root is in root.log; nothing else in that file is a cause.
    let of_dnf = || Known::in_log(&results.join("root.log"), Some(Phase::Dnf)).filter(|_| code != Some(1));
    let of_lost = || Known::in_text(lost.join("\n").as_bytes(), Some(Phase::Dnf));
    let known = Known::in_log(&mock_log, Some(Phase::Mock)).or_else(of_dnf).or_else(of_lost);
    failure.phase = match (exit, &known) {
        (Some((30, _, phase, _)), Some(Known { kind: Kind::Build, .. })) | (Some((31, _, phase, _)), _) => {
            phase
        }
        (Some((30, ..)), _) => "dnf",
        _ => "mock",
    }
    .to_owned();
    match (known.or_else(|| Known::of_full_disk(results)), exit) {
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
    failure.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_code_of_mock_is_known_once() {
        let codes: std::collections::BTreeSet<i32> = EXITS.iter().map(|(code, ..)| *code).collect();
        assert_eq!(codes.len(), EXITS.len());
        let documented = [
            1, 2, 3, 4, 5, 6, 7, 10, 11, 20, 25, 30, 31, 40, 50, 60, 65, 70, 80, 90, 110, 120, 129, 141, 143,
        ];
        assert_eq!(codes.into_iter().collect::<Vec<_>>(), documented);
    }
}
