//! A release's repositories, asked by dnf: which package satisfies a requirement.
//! Tables are read elsewhere.

use std::path::Path;

use crate::error::IoError;
use crate::process::Command;
use crate::workspace::Chroot;

use super::PackagesError;

/// Returns dnf's configuration for those of a chroot's repositories whose ids are wanted; for Fedora its
/// own are added, as mock-core-configs has them, if the release is wanted.
pub(crate) fn repositories_text(chroot: &Chroot, release: bool, wanted: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    if release && chroot.base_config.starts_with("fedora-") {
        for (id, repo) in [("fedora", "fedora-$releasever"), ("updates", "updates-released-f$releasever")] {
            text.push_str(&format!(
                "[{id}]\nname={id}\nmetalink=https://mirrors.fedoraproject.org/metalink?repo={repo}&arch=$basearch\n"
            ));
        }
    }
    for repository in chroot.repositories.iter().filter(|repository| wanted(&repository.id)) {
        let (id, url) = (&repository.id, &repository.url);
        text.push_str(&format!("[{id}]\nname={id}\nbaseurl={url}\npriority={}\n", repository.priority));
    }
    text
}

/// The repositories of a chroot, ready to be asked.
pub(super) struct Repositories {
    folder: tempfile::TempDir,
    release: String,
    arch: String,
}

impl Repositories {
    /// Writes dnf's configuration for the chroot's repositories; for Fedora its own are
    /// added, as mock-core-configs has them.
    pub(super) fn of(chroot: &Chroot) -> Result<Self, PackagesError> {
        let text = repositories_text(chroot, true, |_| true);
        let folder = tempfile::Builder::new().prefix("rocmrpm-dnf-").tempdir();
        let folder = folder.map_err(IoError::doing("make a folder for dnf"))?;
        fs_err::write(folder.path().join("chroot.repo"), text)
            .map_err(IoError::doing("write dnf's configuration"))?;
        Ok(Self { folder, release: chroot.release.clone(), arch: chroot.arch.clone() })
    }

    /// Returns a package that satisfies the requirement, with its version.
    pub(super) fn provider(&self, requirement: &str) -> Result<Option<String>, PackagesError> {
        let option = |name: &str, folder: &Path| format!("--setopt={name}={}", folder.display());
        let dir = self.folder.path();
        let output = Command::new("dnf")
            .args(["-q", "--releasever", &self.release, "--forcearch", &self.arch])
            .args([option("reposdir", dir), option("cachedir", &dir.join("cache"))])
            .args([option("logdir", &dir.join("log")), option("varsdir", &dir.join("vars"))])
            // A repository that cannot be reached is an error, not an empty one.
            .args(["--setopt=skip_if_unavailable=False", "--setopt=*.skip_if_unavailable=False"])
            .args(["repoquery", "--qf", "%{name} %{evr}\n", "--whatprovides", requirement])
            .text()?;
        Ok(output.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned))
    }
}
