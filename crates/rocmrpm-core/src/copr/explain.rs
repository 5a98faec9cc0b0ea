//! Explains from its logs why a build on COPR failed. Does not retry anything.

use std::path::{Path, PathBuf};

use super::builder::CoprBuilder;
use super::choose::{backend_failure, log_of_failure, text_of};
use super::error::CoprError;
use super::record::Sent;
use super::results::{BACKEND_LOG, Remote};
use super::state::BuildState;
use crate::build::{BuildError, Failure, Job};
use crate::error::Kind;
use crate::process::last_lines;

/// COPR's log messages when it ends a build that took too long. Sources: COPR,
/// rpmbuild/copr_rpmbuild/helpers.py and backend/copr_backend/background_worker_build.py.
const TIMEOUTS: &[&str] = &["!! Copr timeout => sending", "Build timeouted"];

/// The number of lines shown of COPR's own logs.
const LINES: usize = 5;

/// The logs of a failed build.
pub(super) struct Logs {
    /// The log that explains the most.
    pub log: PathBuf,
    /// Whether COPR ended the build because it took too long.
    timed_out: bool,
    /// The failure on COPR's side, if any.
    backend: Option<String>,
    /// Whether COPR got no further than reading the SRPM.
    source: bool,
}

/// A cause reported by COPR rather than by rpmbuild.
struct Cause {
    kind: Kind,
    text: String,
    help: Option<String>,
}

impl CoprBuilder<'_> {
    /// Fetches a failed build's logs: those of the chroot, or if the build never got there, those
    /// of the step that reads the SRPM.
    pub(super) fn logs(&self, build: u64, dir: &Path) -> Result<Logs, CoprError> {
        let remote = Remote::find(self.client, build, &self.chroot.name.value)?;
        let mut logs = remote.map(|remote| remote.logs(dir)).transpose()?.unwrap_or_default();
        let source = logs.is_empty();
        if source && let Some(remote) = Remote::find_source(self.client, build)? {
            logs = remote.logs(dir)?;
        }
        let timed_out = timed_out(&logs);
        let backend = logs.iter().find(|log| log.ends_with(BACKEND_LOG));
        let backend = backend.and_then(|log| backend_failure(&text_of(log)));
        Ok(Logs { log: log_of_failure(&logs, dir), timed_out, backend, source })
    }

    /// Explains a build that finished without packages.
    pub(super) fn failed(
        &self,
        job: &Job<'_>,
        sent: &Sent,
        state: Option<BuildState>,
    ) -> Result<BuildError, CoprError> {
        let name = job.component.name.as_str();
        let logs = self.logs(sent.build, &job.logs)?;
        let spec = job.sources.join(&job.spec.file_name);
        // COPR's builders run Fedora, so help for other systems does not apply.
        let mut failure = Failure::from_log(name, &logs.log, (&spec, &job.spec.text));
        failure.help = failure.help.take().and_then(|help| without_debian(&help));
        if let Some(cause) = cause(sent.build, state, &logs) {
            blame_copr(&mut failure, cause, &logs);
        }
        failure.lines.push(format!("build on COPR: {}", self.client.build_page(sent.build)));
        Ok(failure.into())
    }
}

/// Returns whether one of the logs shows that COPR ended the build because it took too long.
fn timed_out(logs: &[PathBuf]) -> bool {
    logs.iter()
        .map(|log| text_of(log))
        .any(|text| TIMEOUTS.iter().any(|words| text.contains(words)))
}

/// Replaces the cause found in the log with the one that COPR reports. Keeps the lines of the build
/// if it ran.
fn blame_copr(failure: &mut Failure, Cause { kind, text, help }: Cause, logs: &Logs) {
    "COPR".clone_into(&mut failure.phase);
    if logs.source || logs.backend.is_some() {
        failure.lines = last_lines(text_of(&logs.log).as_bytes(), LINES);
        failure.problems.clear();
    }
    (failure.kind, failure.cause, failure.help, failure.id) = (kind, Some(text), help, None);
}

fn cause(build: u64, state: Option<BuildState>, logs: &Logs) -> Option<Cause> {
    let cause = |kind, text: String| Some(Cause { kind, text, help: None });
    match state {
        None => cause(Kind::Network, format!("build {build} was deleted on COPR")),
        Some(BuildState::Canceled) => cause(Kind::Interrupted, format!("build {build} was canceled")),
        Some(BuildState::Skipped) => {
            let text = format!("COPR skipped build {build}: its spec excludes the chroot's architecture");
            cause(Kind::Build, text)
        }
        _ if logs.timed_out => Some(Cause {
            kind: Kind::Timeout,
            text: "the build exceeded its time limit on COPR".to_owned(),
            help: Some(
                "raise `timeout` in component.toml or in copr/project.toml [default: 5 hours, maximum: 30]"
                    .to_owned(),
            ),
        }),
        _ if logs.backend.is_some() => Some(Cause {
            kind: Kind::Network,
            text: format!("COPR itself failed: {}", logs.backend.as_deref().unwrap_or_default()),
            help: Some("push again, and check https://status.fedoraproject.org for outages".to_owned()),
        }),
        _ if logs.source => cause(Kind::Build, format!("COPR could not read the SRPM of build {build}")),
        _ => None,
    }
}

/// Removes the parts of a help text that only apply to Debian.
fn without_debian(help: &str) -> Option<String> {
    let parts: Vec<&str> = help.split("; ").filter(|part| !part.contains("(Debian)")).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omits_help_for_debian() {
        let help = "add `BuildRequires: rocm-hip-devel` (Fedora); run `apt-get install libamdhip64-dev` (Debian)";
        assert_eq!(
            without_debian(help).as_deref(),
            Some("add `BuildRequires: rocm-hip-devel` (Fedora)")
        );
        assert_eq!(without_debian("use clang; or gcc").as_deref(), Some("use clang; or gcc"));
        assert_eq!(without_debian("`apt-get install x` (Debian)"), None);
    }

    #[test]
    fn separates_failures_of_copr_from_failures_of_the_build() {
        let kind = |state, timed_out, backend: Option<&str>, source| {
            let backend = backend.map(str::to_owned);
            let logs = Logs { log: PathBuf::new(), timed_out, backend, source };
            cause(7, Some(state), &logs).map(|cause| cause.kind)
        };
        assert_eq!(kind(BuildState::Failed, false, None, false), None);
        assert_eq!(
            kind(BuildState::Failed, true, Some("Build timeouted"), false),
            Some(Kind::Timeout)
        );
        assert_eq!(
            kind(BuildState::Failed, false, Some("createrepo failed"), false),
            Some(Kind::Network)
        );
        assert_eq!(kind(BuildState::Failed, false, None, true), Some(Kind::Build));
        assert_eq!(kind(BuildState::Canceled, true, None, false), Some(Kind::Interrupted));
    }

    #[test]
    fn any_log_shows_that_a_build_took_too_long() {
        let dir = tempfile::tempdir().unwrap();
        let log = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs_err::write(&path, text).unwrap();
            path
        };
        let plain = log("build.log", "Executing(%build)\n");
        let backend = log("backend.log", "... Build timeouted\n");
        let live = log("builder-live.log", "!! Copr timeout => sending INT\n");
        for (logs, expected) in [
            (vec![plain.clone(), backend], true),
            (vec![live, plain.clone()], true),
            (vec![plain], false),
            (vec![dir.path().join("missing.log")], false),
            (vec![], false),
        ] {
            assert_eq!(timed_out(&logs), expected, "{logs:?}");
        }
    }

    #[test]
    fn the_log_of_copr_replaces_lines_of_a_build_that_did_not_fail() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("backend.log");
        fs_err::write(&path, "1\n2\n3\n4\n5\nno disk\n").unwrap();
        for (source, backend, replaced) in
            [(true, None, true), (false, Some("no disk"), true), (false, None, false)]
        {
            let mut failure = Failure::from_log("one", &path, (Path::new("one.spec"), ""));
            failure.lines = vec!["error: bad".into()];
            let logs = Logs {
                log: path.clone(),
                timed_out: false,
                backend: backend.map(str::to_owned),
                source,
            };
            let cause =
                Cause { kind: Kind::Network, text: "COPR itself failed".into(), help: None };
            blame_copr(&mut failure, cause, &logs);
            let shown: &[&str] =
                if replaced { &["2", "3", "4", "5", "no disk"] } else { &["error: bad"] };
            assert_eq!(failure.lines, shown);
            let found = (
                failure.phase.as_str(),
                failure.kind,
                failure.cause.as_deref(),
                failure.help.as_deref(),
            );
            assert_eq!(found, ("COPR", Kind::Network, Some("COPR itself failed"), None));
        }
    }
}
