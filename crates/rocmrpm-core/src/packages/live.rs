//! Asks a release's repositories through dnf which package satisfies a requirement. It does not
//! read package tables.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::IoError;
use crate::process::Command;
use crate::workspace::Chroot;

use super::PackagesError;
use super::requirement::Requirement;

/// Returns dnf's configuration for the chroot's repositories whose IDs are wanted. If `release` is
/// set, adds Fedora's own repositories as defined in mock-core-configs.
pub(crate) fn repositories_text(
    chroot: &Chroot,
    release: bool,
    wanted: impl Fn(&str) -> bool,
) -> String {
    let mut text = String::new();
    if release && chroot.base_config.starts_with("fedora-") {
        for (id, repo) in
            [("fedora", "fedora-$releasever"), ("updates", "updates-released-f$releasever")]
        {
            text.push_str(&format!(
                "[{id}]\nname={id}\nmetalink=https://mirrors.fedoraproject.org/metalink?repo={repo}&arch=$basearch\n"
            ));
        }
    }
    for repository in chroot.repositories.iter().filter(|repository| wanted(&repository.id)) {
        let (id, url) = (&repository.id, &repository.url);
        text.push_str(&format!(
            "[{id}]\nname={id}\nbaseurl={url}\npriority={}\n",
            repository.priority
        ));
    }
    text
}

/// The repositories of a chroot with a dnf configuration.
pub(super) struct Repositories {
    folder: tempfile::TempDir,
    release: String,
    arch: String,
}

impl Repositories {
    /// Writes the dnf configuration for the chroot's repositories, including Fedora's own as
    /// defined in mock-core-configs.
    pub(super) fn of(chroot: &Chroot) -> Result<Self, PackagesError> {
        let text = repositories_text(chroot, true, |_| true);
        let folder = tempfile::Builder::new().prefix("rocmrpm-dnf-").tempdir();
        let folder = folder.map_err(IoError::doing("create a folder for dnf"))?;
        fs_err::write(folder.path().join("chroot.repo"), text)
            .map_err(IoError::doing("write dnf's configuration"))?;
        Ok(Self { folder, release: chroot.release.clone(), arch: chroot.arch.clone() })
    }

    /// Returns dnf configured for these repositories, with `cache` as its cache folder.
    fn dnf(&self, cache: &Path) -> Command {
        let option = |name: &str, folder: &Path| format!("--setopt={name}={}", folder.display());
        let dir = self.folder.path();
        Command::new("dnf")
            .args(["-q", "--releasever", &self.release, "--forcearch", &self.arch])
            .args([option("reposdir", dir), option("cachedir", cache)])
            .args([option("logdir", &dir.join("log")), option("varsdir", &dir.join("vars"))])
            // Fail if a repository is unreachable instead of treating it as empty.
            .args(["--setopt=skip_if_unavailable=False", "--setopt=*.skip_if_unavailable=False"])
    }

    /// Returns a package that satisfies the requirement, and its version.
    pub(super) fn provider(&self, requirement: &str) -> Result<Option<String>, PackagesError> {
        let dnf = self.dnf(&self.folder.path().join("cache"));
        let output = dnf
            .args(["repoquery", "--qf", "%{name} %{evr}\n", "--whatprovides", requirement])
            .text()?;
        Ok(output.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned))
    }
}

/// A Python project provided by a package in the repositories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Provided {
    /// The project name in `python3.14dist()`.
    pub project: String,
    /// The provided version, in rpm's notation.
    pub version: String,
    /// The package name.
    pub package: String,
    /// The package's epoch, version and release.
    pub evr: String,
    /// Requirements of the package on Python projects that no package provides.
    pub unmet: Vec<String>,
}

/// Returns the Python projects that the newest packages in a chroot's repositories provide for its
/// Python, and their unmet requirements. dnf caches the repositories' metadata in `cache`;
/// `offline` disables fetching.
pub(crate) fn dist_provides(
    chroot: &Chroot,
    cache: &Path,
    offline: bool,
) -> Result<Vec<Provided>, PackagesError> {
    let kind = format!("python{}dist(", chroot.python);
    // Dropping this would remove its folder.
    let repositories = Repositories::of(chroot)?;
    let mut dnf = repositories.dnf(cache);
    if offline {
        dnf = dnf.arg("-C");
    }
    let query = ["repoquery", "--latest-limit=1", "--qf", FORMAT];
    let output = dnf.args(query).args(["--whatprovides", &format!("{kind}*)")]).text()?;
    let found = provided(&output, &kind);
    // Every release has packages for its Python, so an empty result means a wrong query.
    if found.is_empty() {
        let (chroot, python) = (chroot.name.clone(), chroot.python.clone());
        return Err(PackagesError::NoPython { chroot, python });
    }
    Ok(found)
}

/// dnf's output format: the package, its provides, and its requirements.
const FORMAT: &str = "package %{name} %{evr}\n%{provides}\nrequires\n%{requires}\n";

/// Parses dnf's output in [`FORMAT`].
fn provided(output: &str, kind: &str) -> Vec<Provided> {
    let (mut found, mut of): (Vec<Provided>, _) = (Vec::new(), None);
    let (mut required, mut requires): (Vec<(&str, &str)>, bool) = (Vec::new(), false);
    for line in output.lines().map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (words.as_slice(), of) {
            (["package", package, evr], _) => (of, requires) = (Some((*package, *evr)), false),
            (["requires"], _) => requires = true,
            (_, Some((package, _))) if requires => required.push((package, line)),
            ([name, "=", version], Some((package, evr))) => {
                let Some(project) = name.strip_prefix(kind).and_then(|rest| rest.strip_suffix(')'))
                else {
                    continue;
                };
                // Extras have their own packages and provides.
                if !project.contains('[') {
                    let [project, version, package, evr] =
                        [project, version, package, evr].map(str::to_owned);
                    found.push(Provided { project, version, package, evr, unmet: Vec::new() });
                }
            }
            _ => {}
        }
    }
    let mut versions: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for Provided { project, version, .. } in &found {
        versions.entry(format!("{kind}{project})")).or_default().push(version);
    }
    required.retain(|(_, requirement)| {
        requirement.contains(kind)
            && Requirement::parse(requirement).is_some_and(|r| !is_met(&r, &versions))
    });
    let mut unmet: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (package, requirement) in required {
        unmet.entry(package.to_owned()).or_default().push(requirement.to_owned());
    }
    for provided in &mut found {
        provided.unmet = unmet.get(&provided.package).cloned().unwrap_or_default();
    }
    found
}

/// Returns whether these versions satisfy a requirement on Python projects. Other requirements,
/// including those on extras, count as satisfied.
fn is_met(requirement: &Requirement, versions: &BTreeMap<String, Vec<&str>>) -> bool {
    match requirement {
        Requirement::Name { name, bound } => {
            let project =
                name.starts_with("python") && name.contains("dist(") && !name.contains('[');
            let fits = |version: &&str| bound.as_ref().is_none_or(|bound| bound.holds(version));
            !project || versions.get(name).is_some_and(|versions| versions.iter().any(fits))
        }
        Requirement::All(parts) => parts.iter().all(|part| is_met(part, versions)),
        Requirement::Any(parts) => parts.iter().any(|part| is_met(part, versions)),
        Requirement::Conditional(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_provides_with_their_packages() {
        let output = "package python3-numpy 1:2.3.1-1.fc43\nnumpy = 2\npython3-numpy = 1:2.3.1-1.fc43\n\
                    python3.14dist(numpy) = 2.3.1\npython3dist(numpy) = 2.3.1\npython3.14dist(bare)\n\n\
                    package python3-x+extra 1-1\npython3.14dist(x[extra]) = 1\n";
        let found = provided(output, "python3.14dist(");
        assert_eq!(found.len(), 1, "{found:?}");
        let Provided { project, version, package, evr, unmet } = &found[0];
        assert_eq!(
            [project, version, package, evr],
            ["numpy", "2.3.1", "python3-numpy", "1:2.3.1-1.fc43"]
        );
        assert_eq!(unmet, &[""; 0]);
        assert!(provided("garbage\npython3.14dist(a) = 1\n", "python3.14dist(").is_empty());
    }

    #[test]
    fn lists_unmet_requirements() {
        let listed = "package python3-a 1-1\npython3.14dist(a) = 1\nrequires\npython(abi) = 3.14\n\
                      (python3.14dist(b) >= 2 with python3.14dist(b) < 3)\npython3.14dist(b[x])\n\
                      (python3.14dist(none) if other)\n(python3.14dist(none) or python3.14dist(a))\n\
                      package python3-b 2.1-1\npython3.14dist(b) = 2.1\nrequires\npython3.14dist(a) > 1\n\
                      python3.14dist(none)\n";
        let found = provided(listed, "python3.14dist(");
        let unmet: Vec<_> = found.iter().map(|p| (p.project.as_str(), p.unmet.join("|"))).collect();
        assert_eq!(
            unmet,
            [("a", String::new()), ("b", "python3.14dist(a) > 1|python3.14dist(none)".to_owned())]
        );
    }
}
