//! Why mock failed, in words: its exit codes, what it said, and what dnf said in root.log.
//! What rpmbuild said is `failure`'s business.

use std::path::Path;

use super::said::{Said, missing_packages, unreadable_repositories};
use crate::build::component::command_again;
use crate::build::failure::Failure;
use crate::build::{BuildError, Job};
use crate::error::Kind;
use crate::process::{Finished, ProcessError, says_full};
use crate::workspace::Workspace;

/// mock's exit code for a build that took too long.
const TIMEOUT: i32 = 11;

/// What mock's exit codes mean. Source: mock, `mockbuild/exception.py`.
#[rustfmt::skip]
const EXITS: &[(i32, Kind, &str, &str)] = &[
    (1, Kind::Environment, "mock failed", "its log says more"),
    (2, Kind::Environment, "mock's setuid wrapper is missing", "reinstall the package `mock`"),
    (3, Kind::Config, "mock rejects the rendered config", "mend mock-configs/mock.cfg.tera or the chroot's definition"),
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

/// Turns mock's exit code and logs into an error. `in_memory` tells that the build root was
/// a tmpfs, which ends with mock.
pub(super) fn explain(
    workspace: &Workspace,
    job: &Job<'_>,
    results: &Path,
    done: &Finished,
    in_memory: bool,
) -> BuildError {
    let said = Said::read(&results.join("mock.log"));
    // Where a command failed, mock hands on that command's exit code: rpmbuild's 1.
    let known = match done.code {
        Some(code) if said.command.contains("rpmbuild") && code != TIMEOUT => Some(10),
        code => code,
    };
    let known = known.and_then(|code| EXITS.iter().find(|(number, ..)| *number == code));
    let spec_path = job.sources.join(&job.spec.file_name);
    let component = job.component.name.as_str();
    let enter = || command_again(workspace, &format!("shell {component}"), &[]);
    let failure = |log: &str| {
        let log = Some(results.join(log)).filter(|path| path.exists());
        let log = log.unwrap_or_else(|| results.join("mock.log"));
        let mut failure = Failure::from_log(component, &log, (&spec_path, &job.spec.text), &job.retry);
        failure.enter = (!in_memory).then(enter);
        failure
    };
    let mut failure = match known {
        Some((10, ..)) => {
            let mut failure = failure("build.log");
            if in_memory && failure.kind == Kind::Environment && says_full(&failure.lines.join("\n")) {
                failure.cause = Some("the build root in memory is full".to_owned());
                failure.remedy = Some(
                    "raise `build-space` in component.toml, or leave it out to build on disk".to_owned(),
                );
            }
            return failure.into();
        }
        Some((_, Kind::Interrupted, ..)) => return ProcessError::Stopped.into(),
        Some((30 | 31, ..)) => failure("root.log"),
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
        _ => failure("mock.log"),
    };
    failure.lines = said.lines;
    failure.problems = Vec::new();
    "mock".clone_into(&mut failure.phase);
    let (kind, cause, remedy) = match known {
        Some((code @ (30 | 31), kind, phase, remedy)) => {
            let missing = missing_packages(&failure.log);
            let unreadable = unreadable_repositories(&failure.log);
            if !missing.is_empty() || *code == 31 {
                (*phase).clone_into(&mut failure.phase);
                let cause =
                    (!missing.is_empty()).then(|| format!("the chroot has no {}", missing.join(", ")));
                (*kind, cause, Some((*remedy).to_owned()))
            } else if !unreadable.is_empty() {
                "dnf".clone_into(&mut failure.phase);
                let cause = format!("cannot read the repository {}", unreadable.join(", "));
                let remedy = "is the network up, and is the URL in the chroot's definition right?";
                (Kind::Network, Some(cause), Some(remedy.to_owned()))
            } else {
                "dnf".clone_into(&mut failure.phase);
                (Kind::Environment, None, None)
            }
        }
        Some((_, kind, meaning, remedy)) => (*kind, Some((*meaning).to_owned()), Some((*remedy).to_owned())),
        None => (Kind::Environment, Some(format!("mock {}", done.how())), None),
    };
    (failure.kind, failure.cause, failure.remedy, failure.id) = (kind, cause, remedy, None);
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
