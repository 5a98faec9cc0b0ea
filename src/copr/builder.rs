//! The `copr` builder: the SRPM is made here, sent to COPR, waited for, and its packages are
//! brought back. The gate behind this builder decides what is accepted and built on, `publish` what
//! users get.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::choose::{Ours, log_of_failure, text_of, with_macros};
use super::client::Client;
use super::error::CoprError;
use super::macros::MacrosPackage;
use super::project::is_built;
use super::publish::{accepted, write_origin};
use super::record::{Sent, content_of};
use super::results::Remote;
use super::state::{Build, State};
use crate::build::{BuildError, Builder, BuiltRpms, Failure, HostBuilder, Job, Limits};
use crate::error::Kind;
use crate::events::{Event, Events};
use crate::names::ComponentName;
use crate::process::find_program;
use crate::rpms;
use crate::workspace::copr::MAX_TIMEOUT;
use crate::workspace::{CoprChroot, CoprProject, Workspace};

/// COPR's words in a log for a build that took too long. Sources: COPR,
/// rpmbuild/copr_rpmbuild/helpers.py and backend/copr_backend/background_worker_build.py.
const TIMEOUTS: &[&str] = &["!! Copr timeout => sending", "Build timeouted"];

/// Builds on COPR, for one chroot of the project.
pub struct CoprBuilder<'w> {
    client: &'w Client<'w>,
    project: &'w CoprProject,
    chroot: &'w CoprChroot,
    workspace: &'w Workspace,
    local: HostBuilder,
    events: &'w dyn Events,
    ours: Ours,
}

/// What a component is sent as.
struct Parcel<'p> {
    name: &'p str,
    version_release: String,
    content: crate::digest::Sha256,
    dirty: bool,
    srpm: &'p Path,
    timeout: Option<Duration>,
}

impl<'w> CoprBuilder<'w> {
    /// Returns a builder for the workspace's chosen chroot, which must be one of the project's.
    pub fn new(
        client: &'w Client<'w>,
        project: &'w CoprProject,
        workspace: &'w Workspace,
        events: &'w dyn Events,
    ) -> Result<Self, CoprError> {
        let name = &workspace.chroot.name;
        let chroot = project.chroot_of(name).ok_or_else(|| CoprError::NotInProject {
            chroot: name.clone(),
            known: project.chroots.iter().map(|chroot| chroot.definition.clone()).collect(),
        })?;
        let local = HostBuilder::new(workspace).as_chroot(&workspace.chroot);
        Ok(Self { client, project, chroot, workspace, local, events, ours: Ours::default() })
    }

    /// Has the macros package built, where COPR does not have it, and puts it into the
    /// chroot's build root. Builds that were sent before are none of its business.
    pub fn provide_macros(&self, macros: &MacrosPackage, work: &Path) -> Result<(), BuildError> {
        let (client, chroot) = (self.client, &self.chroot.name.value);
        if !is_built(macros, chroot, &client.builds()?) {
            let say = |word: &'static str, detail: String| self.events.event(Event::Step { word, detail });
            crate::files::remove_dir_if_there(work)?;
            let srpm = macros.srpm(work)?;
            let parcel = Parcel {
                name: &macros.name,
                version_release: macros.version_release.clone(),
                content: crate::digest::Sha256::of_bytes(macros.in_build_root()),
                dirty: false,
                srpm: &srpm,
                timeout: None,
            };
            let sent = self.find_or_send(&parcel)?;
            say("Building", format!("{} on COPR: {}", macros.name, client.build_page(sent.build)));
            let state = self.watch(sent.build, &mut |_| ())?;
            self.settle(&parcel, &sent)?;
            if state.is_none_or(|state| !state.is_good()) {
                let logs = work.join("logs");
                fs_err::create_dir_all(&logs)?;
                let (log, _) = self.logs(sent.build, &logs)?;
                return Err(BuildError::Environment {
                    message: format!("COPR could not build the macros package `{}`", macros.name),
                    hint: format!("its log: {}; its page: {}", log.display(), client.build_page(sent.build)),
                });
            }
            crate::files::remove_dir_if_there(work)?;
        }
        self.add_to_build_root(macros)?;
        Ok(())
    }

    fn add_to_build_root(&self, macros: &MacrosPackage) -> Result<(), CoprError> {
        let path = format!("{}/{}", self.project.full_name(), self.chroot.name.value);
        let text = self.client.cli("read the chroot", &["get-chroot".to_owned(), path.clone()])?;
        let remote: serde_json::Value = serde_json::from_str(&text).map_err(|error| CoprError::Answer {
            asked: self.client.command(&["get-chroot"]),
            why: error.to_string(),
        })?;
        let list = remote.get("additional_packages").and_then(serde_json::Value::as_array);
        let present: Vec<&str> = list.into_iter().flatten().filter_map(|p| p.as_str()).collect();
        let Some(packages) = with_macros(&present, macros) else { return Ok(()) };
        let args = ["edit-chroot".to_owned(), format!("--packages={}", packages.join(" ")), path];
        self.client.cli("put the macros package into the build root", &args)?;
        Ok(())
    }

    /// Returns the build that this is sent as: one that was sent before and is not known to
    /// have ended, one of the same version and release, or a new one.
    fn find_or_send(&self, parcel: &Parcel<'_>) -> Result<Sent, CoprError> {
        let build_dir = self.workspace.build_dir();
        let earlier = Sent::read(&build_dir, parcel.name);
        if let Some(sent) = earlier.clone().filter(|sent| !sent.settled && sent.content == parcel.content) {
            // Who canceled it and pushes again wants it built.
            match self.client.state(sent.build)? {
                None | Some(State::Canceled) => {}
                Some(_) => {
                    self.ours.add(sent.build);
                    return Ok(sent);
                }
            }
        }
        let after = earlier.as_ref().map_or(0, |sent| sent.build);
        let mut tried = false;
        let mut sent = self.client.retried(|| {
            // Whoever was killed after sending it could not write down its number, and COPR
            // may have taken what it answered an error to.
            let build = match self.same(parcel, after, std::mem::replace(&mut tried, true))? {
                Some(build) => build.id,
                None => self.send(parcel)?,
            };
            self.ours.add(build);
            Ok(Sent::new(build, parcel.content, &parcel.version_release))
        })?;
        if let Some(earlier) = earlier {
            let accepted = accepted(&build_dir);
            let before = earlier.before.iter().copied().chain([earlier.build]);
            sent.before = before.filter(|build| *build != sent.build && !accepted.contains(build)).collect();
        }
        sent.write(&build_dir, parcel.name)?;
        Ok(sent)
    }

    /// Finds a build of the same version and release that is not known to have failed. Of
    /// what is not committed, the release says too little, unless this run `tried` to send it.
    fn same(&self, parcel: &Parcel<'_>, after: u64, tried: bool) -> Result<Option<Build>, CoprError> {
        if parcel.dirty && !tried {
            return Ok(None);
        }
        let mut looks = self.client.looks();
        // COPR tells what a build is of only when it has read the SRPM.
        while self.ours.leave_unknown(self.client.nameless()?.into_iter().map(|(id, _)| id), after) {
            looks.wait()?;
        }
        let same = |build: &Build| {
            build.id > after
                && build.source_package.name.as_deref() == Some(parcel.name)
                && build.is_of(&parcel.version_release, &self.workspace.chroot.dist)
                && build.chroots.contains(&self.chroot.name.value)
                && !matches!(build.state, State::Failed | State::Canceled | State::Skipped)
        };
        Ok(self.client.builds()?.into_iter().find(same))
    }

    /// Uploads an SRPM and returns the number of its build.
    fn send(&self, parcel: &Parcel<'_>) -> Result<u64, CoprError> {
        let mut args = vec!["build".to_owned(), "--nowait".to_owned()];
        args.push(format!("--chroot={}", self.chroot.name.value));
        if let Some(timeout) = parcel.timeout {
            args.push(format!("--timeout={}", timeout.min(MAX_TIMEOUT).as_secs()));
        }
        args.extend([self.project.full_name(), parcel.srpm.to_string_lossy().into_owned()]);
        let text = self.client.once(&format!("send `{}`", parcel.name), &args)?;
        let numbers = text.lines().find_map(|line| line.trim().strip_prefix("Created builds: "));
        numbers.and_then(|numbers| numbers.trim().parse().ok()).ok_or_else(|| CoprError::Answer {
            asked: self.client.command(&["build"]),
            why: "it names no build".to_owned(),
        })
    }

    /// Waits for a build's end; `None` if it was deleted.
    fn watch(&self, build: u64, tell: &mut dyn FnMut(State)) -> Result<Option<State>, CoprError> {
        let mut looks = self.client.looks();
        let mut last = None;
        loop {
            let Some(state) = self.client.state(build)? else { return Ok(None) };
            if last != Some(state) {
                tell(state);
                last = Some(state);
                looks = self.client.looks();
            }
            if state.is_over() {
                return Ok(Some(state));
            }
            looks.wait()?;
        }
    }

    fn settle(&self, parcel: &Parcel<'_>, sent: &Sent) -> std::io::Result<()> {
        sent.clone().settled().write(&self.workspace.build_dir(), parcel.name)
    }

    /// Brings a build's logs; returns the one that tells most of a failure, and whether COPR
    /// ended the build because of its time.
    fn logs(&self, build: u64, dir: &Path) -> Result<(PathBuf, bool), CoprError> {
        let logs = match Remote::find(self.client, build, &self.chroot.name.value)? {
            Some(remote) => remote.logs(dir)?,
            None => Vec::new(),
        };
        let timed_out = logs.iter().any(|log| TIMEOUTS.iter().any(|word| text_of(log).contains(word)));
        Ok((log_of_failure(&logs, dir), timed_out))
    }

    /// Explains a build that ended without packages.
    fn failed(&self, job: &Job<'_>, sent: &Sent, state: Option<State>) -> Result<BuildError, CoprError> {
        let name = job.component.name.as_str();
        let (log, timed_out) = self.logs(sent.build, &job.logs)?;
        let spec = job.sources.join(&job.spec.file_name);
        let mut failure = Failure::from_log(name, &log, (&spec, &job.spec.text), &job.retry);
        let page = self.client.build_page(sent.build);
        let (phase, kind, cause) = match state {
            None => ("COPR", Kind::Network, Some(format!("build {} was deleted there", sent.build))),
            Some(State::Canceled) => {
                ("COPR", Kind::Interrupted, Some(format!("build {} was canceled", sent.build)))
            }
            Some(State::Skipped) => {
                let cause =
                    format!("COPR skipped build {}: its spec excludes the chroot's architecture", sent.build);
                ("COPR", Kind::Build, Some(cause))
            }
            _ if timed_out => {
                let remedy = "raise `timeout` in its component.toml or in copr/project.toml; COPR's own is 5 hours, \
                              and 30 hours is the most";
                failure.remedy = Some(remedy.to_owned());
                ("COPR", Kind::Timeout, Some("the build took longer than COPR was asked to allow".to_owned()))
            }
            _ if fs_err::metadata(&log).is_err() => {
                let cause =
                    format!("build {} failed there before it had a log; its page tells why", sent.build);
                ("COPR", Kind::Build, Some(cause))
            }
            _ => ("", failure.kind, None),
        };
        if let Some(cause) = cause {
            phase.clone_into(&mut failure.phase);
            (failure.kind, failure.cause) = (kind, Some(cause));
        }
        failure.lines.push(format!("the build on COPR: {page}"));
        Ok(failure.into())
    }
}

impl Builder for CoprBuilder<'_> {
    fn name(&self) -> &'static str {
        "copr"
    }

    fn identity(&self) -> String {
        let CoprProject { network, bootstrap, isolation, .. } = self.project;
        let CoprChroot { name, repositories, packages, .. } = self.chroot;
        let settings = format!("{:?}", (network, bootstrap, isolation, repositories, packages));
        let settings = crate::digest::Sha256::of_bytes(settings);
        format!("COPR {}, {}, settings {settings}", self.project.full_name(), name.value)
    }

    fn ready(&self) -> Result<(), BuildError> {
        match find_program("rpmbuild") {
            Some(_) => Ok(()),
            None => Err(crate::process::ProcessError::Missing { program: "rpmbuild".into() }.into()),
        }
    }

    fn srpm(&self, job: &Job<'_>) -> Result<PathBuf, BuildError> {
        self.local.srpm(job)
    }

    fn rpms(&self, job: &Job<'_>, srpm: &Path) -> Result<BuiltRpms, BuildError> {
        let header = rpms::header(srpm).map_err(|error| BuildError::Environment {
            message: format!("the SRPM cannot be read: {error}"),
            hint: "run the same command again".to_owned(),
        })?;
        let component: &ComponentName = &job.component.name;
        let tell = |phase: &'static str, detail: String| {
            self.events.event(Event::Phase { component: component.clone(), phase, detail });
        };
        let parcel = Parcel {
            name: &header.name,
            version_release: format!("{}-{}", header.version, header.release),
            content: content_of(&job.sources)?,
            dirty: job.spec.release.dirty,
            srpm,
            timeout: job.timeout.or(self.project.timeout),
        };
        tell("Sending", format!("{} to {}", header.nevra(), self.client.project()));
        let sent = self.find_or_send(&parcel)?;
        let page = self.client.build_page(sent.build);
        let started = Instant::now();
        let state =
            self.watch(sent.build, &mut |state| tell("Building", format!("{} {page}", state.word())))?;
        if state.is_none_or(|state| !state.is_good()) {
            let failed = self.failed(job, &sent, state)?;
            self.settle(&parcel, &sent)?;
            return Err(failed);
        }
        let seconds = started.elapsed().as_secs();
        tell("Fetching", format!("the packages of build {}, after {seconds} s", sent.build));
        let remote = Remote::find(self.client, sent.build, &self.chroot.name.value)?;
        let remote = remote.ok_or_else(|| CoprError::Answer {
            asked: "build-chroot".to_owned(),
            why: format!("build {} succeeded and has no results", sent.build),
        })?;
        let dir = job.work.join("rpms");
        fs_err::create_dir_all(&dir)?;
        let rpms = remote.packages(&dir)?;
        remote.logs(&job.logs)?;
        write_origin(&job.logs, sent.build, page)?;
        let list = fs_err::read_to_string(job.logs.join("installed_pkgs.log")).unwrap_or_default();
        let mut buildroot: Vec<String> =
            list.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
        buildroot.sort();
        self.settle(&parcel, &sent)?;
        Ok(BuiltRpms { rpms, buildroot, ..BuiltRpms::default() })
    }

    /// COPR has machines of its own; what runs there at the same time is COPR's decision.
    fn limits(&self) -> Limits {
        Limits { cores: usize::MAX, memory: u64::MAX }
    }

    fn build_roots(&self, _: &Job<'_>) -> Vec<String> {
        // mock's, as COPR's builders use it.
        vec!["/builddir".to_owned()]
    }
}
