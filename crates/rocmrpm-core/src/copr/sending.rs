//! Sends a source package to COPR exactly once, with a release that the project does not have yet.
//! Waiting for the build is up to `builder`.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::builder::CoprBuilder;
use super::error::CoprError;
use super::parcel::{Base, Parcel, has_key, header, numbered};
use super::publish::{accepted, origin};
use super::record::{Sent, content_of};
use super::state::{Build, BuildState};
use crate::build::{BuildError, Builder as _, Job};
use crate::digest::Sha256;
use crate::events::{Event, WorkPhase};
use crate::rpms;
use crate::workspace::Workspace;
use crate::workspace::copr::MAX_TIMEOUT;

/// A build that an earlier run sent.
struct EarlierBuild {
    build: u64,
    /// The name of the file that it was uploaded as.
    file: String,
}

impl<'w> CoprBuilder<'w> {
    /// Makes the SRPM, with a new release if the project already has a build of this version and
    /// release.
    pub(super) fn numbered_srpm(&self, job: &Job<'_>) -> Result<PathBuf, BuildError> {
        let srpm = self.local.srpm(job)?;
        let header = header(&srpm)?;
        let base =
            Base::new(&header.name, &header.version, &header.release, &self.workspace.chroot.dist);
        let number = self.number(&base, &self.parcel(job, &header, &srpm)?)?;
        let path = job.sources.join(&job.spec.file_name);
        match numbered(&job.spec.text, number).filter(|_| number > 1) {
            None => Ok(srpm),
            Some(text) => {
                fs_err::write(&path, text)?;
                fs_err::remove_file(&srpm)?;
                self.local.srpm(job)
            }
        }
    }

    /// Returns the parcel to send for a component.
    pub(super) fn parcel<'p>(
        &self,
        job: &Job<'p>,
        header: &'p rpms::Header,
        srpm: &'p Path,
    ) -> Result<Parcel<'p>, BuildError> {
        let (build_dir, project) = (self.workspace.build_dir(), self.client.project());
        let results = |name: &str| origin(&build_dir.join("results").join(name), project);
        // COPR's build numbers increase, so a build that used this package has a higher number.
        let required = job.component.requires.iter().filter_map(|name| results(&name.value)).max();
        let earlier = Sent::read(&build_dir, project, &header.name).map(|sent| sent.build);
        Ok(Parcel {
            component: Some(&job.component.name),
            name: &header.name,
            version_release: format!("{}-{}", header.version, header.release),
            key: self.key(content_of(&job.sources, &job.spec.file_name, &job.spec.text)?),
            srpm,
            timeout: job.timeout.or(self.project.timeout),
            after: required.max(earlier).unwrap_or(0),
        })
    }

    /// Returns the digest of the sources and all settings of the build.
    pub(super) fn key(&self, content: Sha256) -> Sha256 {
        Sha256::of_bytes(key_text(content, &self.identity(), self.workspace))
    }

    /// Returns the number of the build among those of its version and release: that of an earlier
    /// try, or the lowest that is higher than all others.
    pub(super) fn number(&self, base: &Base<'_>, parcel: &Parcel<'_>) -> Result<u32, CoprError> {
        if let Some(sent) = self.resumed(parcel)? {
            return Ok(base.number(&sent.version_release).unwrap_or(1));
        }
        let (builds, nameless) = (self.client.builds()?, self.client.nameless()?);
        let is_same = |build: &Build| base.number(build.version()).is_some();
        if let Some(found) = self.find(parcel, &builds, &nameless, is_same)? {
            let number = base.number_of_file(&found.file).unwrap_or(1);
            self.record(parcel, found.build, &base.numbered(number))?;
            return Ok(number);
        }
        let of_name = builds.iter().filter(|build| build.is_called(parcel.name));
        let named = of_name.filter_map(|build| base.number(build.version())).max();
        let mut unnamed = None;
        for (id, _) in nameless {
            let file = self.client.source_file(id)?;
            unnamed = unnamed.max(file.and_then(|file| base.number_of_file(&file)));
        }
        // A build that was deleted on COPR may still be installed somewhere.
        let record = Sent::read(&self.workspace.build_dir(), self.client.project(), parcel.name);
        let record = record.and_then(|sent| base.number(&sent.version_release));
        Ok(named.max(unnamed).max(record).map_or(1, |number| number + 1))
    }

    /// Returns the unfinished build recorded for the same key. A canceled build does not count,
    /// because a push should build it again.
    fn resumed(&self, parcel: &Parcel<'_>) -> Result<Option<Sent>, CoprError> {
        let sent = Sent::read(&self.workspace.build_dir(), self.client.project(), parcel.name);
        let Some(sent) = sent.filter(|sent| !sent.settled && sent.key == parcel.key) else {
            return Ok(None);
        };
        let state = self.client.state(sent.build)?;
        Ok(state.is_some_and(|state| state != BuildState::Canceled).then_some(sent))
    }

    /// Finds a build that an earlier run sent for the same key and that is not known to have
    /// failed. Only asks about builds that `could_be` accepts, and those whose SRPM COPR has not
    /// read.
    fn find(
        &self,
        parcel: &Parcel<'_>,
        builds: &[Build],
        nameless: &[(u64, BuildState)],
        could_be: impl Fn(&Build) -> bool,
    ) -> Result<Option<EarlierBuild>, CoprError> {
        let chroot = &self.chroot.name.value;
        let open = |build: &&Build| {
            build.is_called(parcel.name)
                && could_be(build)
                && build.chroots.contains(chroot)
                && !matches!(
                    build.state,
                    BuildState::Failed | BuildState::Canceled | BuildState::Skipped
                )
        };
        let named = builds.iter().filter(open).map(|build| build.id);
        let nameless = nameless.iter().map(|(id, _)| *id);
        for build in named.chain(nameless).filter(|build| *build > parcel.after) {
            let file = self.client.source_file(build)?.filter(|file| has_key(file, &parcel.key));
            if let Some(file) = file {
                return Ok(Some(EarlierBuild { build, file }));
            }
        }
        Ok(None)
    }

    /// Returns the build for this parcel: one that an earlier run sent, or a new one.
    pub(super) fn find_or_send(&self, parcel: &Parcel<'_>) -> Result<Sent, CoprError> {
        if let Some(sent) = self.resumed(parcel)? {
            return Ok(sent);
        }
        // COPR may have accepted an upload that it answered with an error. Choosing the release
        // already found the uploads of earlier runs, but not for the macros package, whose release
        // is fixed.
        let mut search = parcel.component.is_none();
        let build = self.client.retried(|| {
            let is_same =
                |build: &Build| build.is_of(&parcel.version_release, &self.workspace.chroot.dist);
            let found = match std::mem::replace(&mut search, true) {
                false => None,
                true => {
                    self.find(parcel, &self.client.builds()?, &self.client.nameless()?, is_same)?
                }
            };
            found.map_or_else(|| self.send(parcel), |found| Ok(found.build))
        })?;
        Ok(self.record(parcel, build, &parcel.version_release)?)
    }

    /// Records the build that a component was sent as.
    fn record(
        &self,
        parcel: &Parcel<'_>,
        build: u64,
        version_release: &str,
    ) -> std::io::Result<Sent> {
        let (build_dir, project) = (self.workspace.build_dir(), self.client.project());
        let mut sent = Sent::new(project, build, parcel.key, version_release);
        if let Some(earlier) = Sent::read(&build_dir, project, parcel.name) {
            let accepted = accepted(&build_dir, project);
            let before = earlier.before.iter().copied().chain([earlier.build]);
            sent.before =
                before.filter(|other| *other != build && !accepted.contains(other)).collect();
        }
        sent.write(&build_dir, parcel.name)?;
        Ok(sent)
    }

    /// Uploads an SRPM and returns the number of its build.
    fn send(&self, parcel: &Parcel<'_>) -> Result<u64, CoprError> {
        if let Some(component) = parcel.component {
            let detail = format!(
                "{}-{}.src to {}",
                parcel.name,
                parcel.version_release,
                self.client.project()
            );
            let component = component.clone();
            self.events.event(Event::Phase { component, phase: WorkPhase::Sending, detail });
        }
        let folder = tempfile::tempdir()?;
        let file = folder.path().join(parcel.file_name());
        symlink(std::path::absolute(parcel.srpm)?, &file)?;
        let mut args = vec!["build".to_owned(), "--nowait".to_owned()];
        args.push(format!("--chroot={}", self.chroot.name.value));
        if let Some(timeout) = parcel.timeout {
            args.push(format!("--timeout={}", timeout.min(MAX_TIMEOUT).as_secs()));
        }
        args.extend([self.project.full_name(), file.to_string_lossy().into_owned()]);
        let text = self.client.once(&format!("send `{}`", parcel.name), &args)?;
        let numbers = text.lines().find_map(|line| line.trim().strip_prefix("Created builds: "));
        numbers.and_then(|numbers| numbers.trim().parse().ok()).ok_or_else(|| CoprError::Answer {
            asked: self.client.command(&["build"]),
            why: "it does not name a build".to_owned(),
        })
    }
}

fn key_text(content: Sha256, builder: &str, workspace: &Workspace) -> String {
    let Workspace { chroot, provider, manifest, .. } = workspace;
    let targets: Vec<_> = manifest.gpu_targets.iter().map(|target| target.as_str()).collect();
    let packages: Vec<_> = chroot.additional_packages.iter().map(|at| &at.value).collect();
    json!([content.to_string(), builder, chroot.macros, provider.gpu_macros, targets, packages])
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::testing::sample;

    #[test]
    fn key_of_a_parcel_is_pinned() {
        let dir = tempfile::tempdir().unwrap();
        let mut workspace = sample(dir.path(), "fedora-43");
        workspace.chroot.macros.insert("a".into(), "%{b}".into());
        workspace.provider.gpu_macros.push("rocm_gpu_list".into());
        let content = Sha256::of_bytes("x");
        let expected = format!(r#"["{content}","COPR","MACROS",["rocm_gpu_list"],["gfx1151"],[]]"#)
            .replace("\"MACROS\"", r#"{"a":"%{b}"}"#);
        assert_eq!(key_text(content, "COPR", &workspace), expected);
    }
}
