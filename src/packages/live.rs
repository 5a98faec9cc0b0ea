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

    /// Returns dnf, told to ask these repositories and to keep what it fetched in a folder.
    fn dnf(&self, cache: &Path) -> Command {
        let option = |name: &str, folder: &Path| format!("--setopt={name}={}", folder.display());
        let dir = self.folder.path();
        Command::new("dnf")
            .args(["-q", "--releasever", &self.release, "--forcearch", &self.arch])
            .args([option("reposdir", dir), option("cachedir", cache)])
            .args([option("logdir", &dir.join("log")), option("varsdir", &dir.join("vars"))])
            // A repository that cannot be reached is an error, not an empty one.
            .args(["--setopt=skip_if_unavailable=False", "--setopt=*.skip_if_unavailable=False"])
    }

    /// Returns a package that satisfies the requirement, with its version.
    pub(super) fn provider(&self, requirement: &str) -> Result<Option<String>, PackagesError> {
        let dnf = self.dnf(&self.folder.path().join("cache"));
        let output =
            dnf.args(["repoquery", "--qf", "%{name} %{evr}\n", "--whatprovides", requirement]).text()?;
        Ok(output.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned))
    }
}

/// A Python project that a package of the repositories provides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Provided {
    /// The project's name, as `python3.14dist()` has it.
    pub project: String,
    /// The version that is provided, as rpm writes it.
    pub version: String,
    /// The package.
    pub package: String,
    /// Its version with epoch and release.
    pub evr: String,
}

/// Returns the Python projects that the newest packages of a chroot's repositories provide for
/// its Python. dnf keeps the repositories' metadata in `cache`; with `offline` it fetches none.
pub(crate) fn dist_provides(
    chroot: &Chroot,
    cache: &Path,
    offline: bool,
) -> Result<Vec<Provided>, PackagesError> {
    let kind = format!("python{}dist(", chroot.python);
    // Its folder is there as long as it is.
    let repositories = Repositories::of(chroot)?;
    let mut dnf = repositories.dnf(cache);
    if offline {
        dnf = dnf.arg("-C");
    }
    let query = ["repoquery", "--latest-limit=1", "--qf", "package %{name} %{evr}\n%{provides}\n"];
    let output = dnf.args(query).args(["--whatprovides", &format!("{kind}*)")]).text()?;
    let found = provided(&output, &kind);
    // Every release has packages for its Python: something is wrong with what was asked.
    if found.is_empty() {
        let (chroot, python) = (chroot.name.clone(), chroot.python.clone());
        return Err(PackagesError::NoPython { chroot, python });
    }
    Ok(found)
}

/// Reads dnf's answer: a line for each package, and below it what that provides.
fn provided(output: &str, kind: &str) -> Vec<Provided> {
    let (mut found, mut of) = (Vec::new(), None);
    for line in output.lines().map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (words.as_slice(), of) {
            (["package", package, evr], _) => of = Some((*package, *evr)),
            ([name, "=", version], Some((package, evr))) => {
                let Some(project) = name.strip_prefix(kind).and_then(|rest| rest.strip_suffix(')')) else {
                    continue;
                };
                // An extra has a package, and with it a provide, of its own.
                if !project.contains('[') {
                    let [project, version, package, evr] =
                        [project, version, package, evr].map(str::to_owned);
                    found.push(Provided { project, version, package, evr });
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provides_are_read_with_their_packages() {
        let said = "package python3-numpy 1:2.3.1-1.fc43\nnumpy = 2\npython3-numpy = 1:2.3.1-1.fc43\n\
                    python3.14dist(numpy) = 2.3.1\npython3dist(numpy) = 2.3.1\npython3.14dist(bare)\n\n\
                    package python3-x+extra 1-1\npython3.14dist(x[extra]) = 1\n";
        let found = provided(said, "python3.14dist(");
        assert_eq!(found.len(), 1, "{found:?}");
        let Provided { project, version, package, evr } = &found[0];
        assert_eq!([project, version, package, evr], ["numpy", "2.3.1", "python3-numpy", "1:2.3.1-1.fc43"]);
        assert!(provided("garbage\npython3.14dist(a) = 1\n", "python3.14dist(").is_empty());
    }
}
