//! The `copr` builder: makes the SRPM on this machine, sends it to COPR, waits for the build, and
//! fetches the packages. The gate behind this builder decides what is accepted, and `publish` what
//! users get.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use super::choose::with_macros;
use super::client::Client;
use super::error::CoprError;
use super::macros::MacrosPackage;
use super::parcel::{Parcel, header};
use super::project::is_built;
use super::publish::{origin, write_origin};
use super::record::Sent;
use super::results::Remote;
use super::state::BuildState;
use crate::build::{BuildError, Builder, BuiltRpms, HostBuilder, Job, Limits, installed_packages};
use crate::canonical::canonical;
use crate::digest::Sha256;
use crate::events::{Event, Events, Step, WorkPhase};
use crate::names::ComponentName;
use crate::process::find_program;
use crate::workspace::{CoprChroot, CoprProject, Workspace};

/// Builds on COPR, for one of the project's chroots.
pub struct CoprBuilder<'w> {
    pub(super) client: &'w Client<'w>,
    pub(super) project: &'w CoprProject,
    pub(crate) chroot: &'w CoprChroot,
    pub(super) workspace: &'w Workspace,
    pub(super) local: HostBuilder<'w>,
    pub(super) events: &'w dyn Events,
    /// The builds that the project had at the time of the first request.
    present: OnceLock<BTreeSet<u64>>,
}

impl<'w> CoprBuilder<'w> {
    /// Returns a builder for the workspace's chosen chroot, which must belong to the project.
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
        Ok(Self { client, project, chroot, workspace, local, events, present: OnceLock::new() })
    }

    /// Builds the macros package if COPR does not have it, and adds it to the chroot's build root.
    /// Ignores builds that were sent earlier.
    pub fn provide_macros(&self, macros: &MacrosPackage, work: &Path) -> Result<(), BuildError> {
        let (client, chroot) = (self.client, &self.chroot.name.value);
        if !is_built(macros, chroot, &client.builds()?) {
            let report =
                |step: Step, detail: String| self.events.event(Event::Step { step, detail });
            crate::files::remove_dir_if_there(work)?;
            let srpm = macros.srpm(work)?;
            let parcel = Parcel {
                component: None,
                name: &macros.name,
                version_release: macros.version_release.clone(),
                key: self.key(Sha256::of_bytes(macros.in_build_root())),
                srpm: &srpm,
                timeout: None,
                after: 0,
            };
            let sent = self.find_or_send(&parcel)?;
            report(
                Step::Building,
                format!("{} on COPR: {}", macros.name, client.build_page(sent.build)),
            );
            let state = self.watch(sent.build, &mut |_| ())?;
            self.settle(&parcel, &sent)?;
            if state.is_none_or(|state| !state.is_good()) {
                let logs = work.join("logs");
                fs_err::create_dir_all(&logs)?;
                let log = self.logs(sent.build, &logs)?.log;
                return Err(BuildError::Environment {
                    message: format!("COPR could not build the macros package `{}`", macros.name),
                    help: format!(
                        "read the log, {}, or the build page, {}",
                        log.display(),
                        client.build_page(sent.build)
                    ),
                });
            }
            crate::files::remove_dir_if_there(work)?;
        }
        self.add_to_build_root(macros)?;
        Ok(())
    }

    pub(super) fn add_to_build_root(&self, macros: &MacrosPackage) -> Result<(), CoprError> {
        let path = format!("{}/{}", self.project.full_name(), self.chroot.name.value);
        let text = self.client.cli("read the chroot", &["get-chroot".to_owned(), path.clone()])?;
        let remote: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| CoprError::Answer {
                asked: self.client.command(&["get-chroot"]),
                why: error.to_string(),
            })?;
        let list = remote.get("additional_packages").and_then(serde_json::Value::as_array);
        let present: Vec<&str> = list.into_iter().flatten().filter_map(|p| p.as_str()).collect();
        let Some(packages) = with_macros(&present, macros) else { return Ok(()) };
        let args = ["edit-chroot".to_owned(), format!("--packages={}", packages.join(" ")), path];
        self.client.cli("add the macros package to the build root", &args)?;
        Ok(())
    }

    /// Waits for a build to finish; `None` if it was deleted.
    pub(super) fn watch(
        &self,
        build: u64,
        report: &mut dyn FnMut(BuildState),
    ) -> Result<Option<BuildState>, CoprError> {
        let mut looks = self.client.looks();
        let mut last = None;
        loop {
            let Some(state) = self.client.state(build)? else { return Ok(None) };
            if last != Some(state) {
                report(state);
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

    /// Returns whether the project has a build, as of the first call.
    fn has(&self, build: u64) -> Result<bool, CoprError> {
        let present = match self.present.get() {
            Some(present) => present,
            None => {
                let builds = self.client.builds()?.into_iter().map(|build| build.id).collect();
                self.present.get_or_init(|| builds)
            }
        };
        Ok(present.contains(&build))
    }
}

/// Returns the settings that affect how packages are built.
fn settings_text(project: &CoprProject, chroot: &CoprChroot) -> String {
    let CoprProject { network, bootstrap, isolation, .. } = project;
    let CoprChroot { repositories, packages, .. } = chroot;
    canonical(&(network, bootstrap, isolation, repositories, packages))
}

impl Builder for CoprBuilder<'_> {
    fn name(&self) -> &'static str {
        "copr"
    }

    fn identity(&self) -> String {
        let settings = Sha256::of_bytes(settings_text(self.project, self.chroot));
        format!(
            "COPR {}, {}, settings {settings}",
            self.project.full_name(),
            self.chroot.name.value
        )
    }

    fn ready(&self) -> Result<(), BuildError> {
        match find_program("rpmbuild") {
            Some(_) => Ok(()),
            None => {
                Err(crate::process::ProcessError::Missing { program: "rpmbuild".into() }.into())
            }
        }
    }

    fn lost(&self, results: &Path) -> Result<Option<String>, BuildError> {
        let Some(build) = origin(results, self.client.project()) else { return Ok(None) };
        Ok((!self.has(build)?).then(|| format!("build {build} is no longer on COPR")))
    }

    fn srpm(&self, job: &Job<'_>) -> Result<PathBuf, BuildError> {
        self.numbered_srpm(job)
    }

    fn rpms(&self, job: &Job<'_>, srpm: &Path) -> Result<BuiltRpms, BuildError> {
        let header = header(srpm)?;
        let component: &ComponentName = &job.component.name;
        let report = |phase: WorkPhase, detail: String| {
            self.events.event(Event::Phase { component: component.clone(), phase, detail });
        };
        let parcel = self.parcel(job, &header, srpm)?;
        let sent = self.find_or_send(&parcel)?;
        let page = self.client.build_page(sent.build);
        let started = Instant::now();
        let state = self.watch(sent.build, &mut |state| {
            report(WorkPhase::Building, format!("{} {page}", state.word()))
        })?;
        if state.is_none_or(|state| !state.is_good()) {
            let failed = self.failed(job, &sent, state)?;
            self.settle(&parcel, &sent)?;
            return Err(failed);
        }
        let seconds = started.elapsed().as_secs();
        report(
            WorkPhase::Fetching,
            format!("the packages of build {}, after {seconds} s", sent.build),
        );
        let remote = Remote::find(self.client, sent.build, &self.chroot.name.value)?;
        let remote = remote.ok_or_else(|| CoprError::Answer {
            asked: "build-chroot".to_owned(),
            why: format!("build {} succeeded but has no results", sent.build),
        })?;
        let dir = job.work.join("rpms");
        fs_err::create_dir_all(&dir)?;
        let rpms = remote.packages(&dir)?;
        remote.logs(&job.logs)?;
        write_origin(self.client, &job.logs, sent.build)?;
        let buildroot = installed_packages(&job.logs);
        self.settle(&parcel, &sent)?;
        Ok(BuiltRpms { rpms, buildroot, ..BuiltRpms::default() })
    }

    /// COPR schedules builds on its own machines, so nothing is limited here.
    fn limits(&self) -> Limits {
        Limits { cores: usize::MAX, memory: u64::MAX }
    }

    fn build_roots(&self, _: &Job<'_>) -> Vec<String> {
        // mock's folder, as COPR's builders use it.
        vec!["/builddir".to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::testing::sample;

    #[test]
    fn the_settings_in_a_copr_key_are_pinned() {
        let dir = tempfile::tempdir().unwrap();
        let mut project = sample(dir.path(), "fedora-43").copr.unwrap();
        let mut chroot = project.chroots.remove(0);
        assert_eq!(settings_text(&project, &chroot), r#"(false, "default", "default", None, [])"#);
        chroot.repositories = Some(vec!["https://example.org/r".into()]);
        chroot.packages.push("git".into());
        let expected = r#"(false, "default", "default", Some(["https://example.org/r"]), ["git"])"#;
        assert_eq!(settings_text(&project, &chroot), expected);
    }
}
