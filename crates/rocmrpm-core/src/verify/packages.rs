//! Checks a stack's packages with dnf and rpm: whether they can be installed, and whether files
//! conflict. It uses copies of the databases and does not modify the location.

use std::path::{Path, PathBuf};

use fs_err as fs;

use super::place::VerifyTarget;
use super::{CONFLICTS, Check, INSTALL, Outcome, Verified};
use crate::error::{Error, IoError, Kind};
use crate::packages::repositories_text;
use crate::process::{Command, Finished, ProcessError, find_program, install_help, last_lines};
use crate::rpms::{self, is_debug, name_of_file};
use crate::stack::Stack;
use crate::text::visible;
use crate::workspace::Flavor;

/// Number of lines of a tool's output that a check shows.
const WORDS: usize = 4;

/// The packages of a stack that users install, and their RPMs.
pub(super) struct Packages<'a> {
    stack: &'a Stack<'a>,
    flavor: Flavor,
    /// The package names that users pass to dnf.
    pub names: Vec<String>,
    repository: PathBuf,
    rpms: Vec<PathBuf>,
}

impl<'a> Packages<'a> {
    /// Finds the packages for an image flavor in the stack's repository: for RPMs without
    /// `[container] packages`, all except those with debugging data.
    pub fn of(stack: &'a Stack<'a>, flavor: Flavor) -> Result<Self, Error> {
        let names = stack.order().iter().flat_map(|c| match flavor {
            Flavor::Vulkan => &c.vulkan_packages[..],
            Flavor::Fedora | Flavor::Ubuntu => &c.container_packages,
            Flavor::Toolbox | Flavor::Other(_) => &[],
        });
        let mut names: Vec<String> = names.map(|at| at.value.clone()).collect();
        let repository = stack.workspace.build_dir().join("repository");
        let listed =
            crate::files::names_in(&repository).map_err(IoError::doing("list the repository"))?;
        let rpms =
            listed.iter().filter(|name| name.ends_with(".rpm")).map(|name| repository.join(name));
        let rpms: Vec<PathBuf> = rpms.collect();
        if names.is_empty() && matches!(flavor, Flavor::Fedora | Flavor::Ubuntu) {
            let built = rpms.iter().filter(|path| !path.to_string_lossy().ends_with(".src.rpm"));
            let built = built.filter_map(|path| name_of_file(path));
            names = built.filter(|name| !is_debug(name)).map(str::to_owned).collect();
        }
        names.sort_unstable();
        names.dedup();
        Ok(Self { stack, flavor, names, rpms, repository })
    }

    /// Returns whether the location contains RPMs; other images contain wheels, or nothing from the
    /// stack.
    pub fn are_rpms(&self) -> bool {
        matches!(self.flavor, Flavor::Fedora | Flavor::Vulkan)
    }

    /// Checks with dnf whether each package can be installed.
    pub fn solve(&self, place: &VerifyTarget, verified: &mut Verified) -> Result<(), Error> {
        let Some(dnf) = ["dnf5", "dnf"].into_iter().find(|program| find_program(program).is_some())
        else {
            let reason = not_installed("dnf");
            for name in &self.names {
                verified.checks.push(installable(name, Outcome::NotRun, reason.clone()));
            }
            return Ok(());
        };
        let work = tempfile::Builder::new().prefix("rocmrpm-dnf-").tempdir();
        let work = work.map_err(IoError::doing("create a folder for dnf"))?;
        self.configure(work.path(), place)?;
        for name in &self.names {
            let finished = self.dnf(dnf, work.path(), place, name).run()?;
            let (outcome, detail) = solved(&finished);
            verified.checks.push(installable(name, outcome, detail));
        }
        Ok(())
    }

    /// Configures the repositories for dnf: ours, those of the chroot, and those of the location
    /// or, if it has none, of the release.
    fn configure(&self, work: &Path, place: &VerifyTarget) -> Result<(), Error> {
        let fail = || IoError::doing("write dnf's configuration");
        let repos = work.join("repos");
        for folder in ["repos", "log", "cache", "state"] {
            fs::create_dir_all(work.join(folder)).map_err(fail())?;
        }
        let mut theirs = String::new();
        let folder = place.known().join("etc/yum.repos.d");
        for name in
            crate::files::names_in(&folder).map_err(fail())?.iter().filter(|n| n.ends_with(".repo"))
        {
            let text = fs::read(folder.join(name)).map_err(fail())?;
            theirs.push_str(&String::from_utf8_lossy(&text));
            theirs.push('\n');
        }
        let chroot = &self.stack.workspace.chroot;
        let ours =
            repositories_text(chroot, theirs.is_empty(), |id| !theirs.contains(&format!("[{id}]")));
        let url = crate::text::file_url(&self.repository);
        let own =
            format!("[rocmrpm-stack]\nname=rocmrpm-stack\nbaseurl={url}\nenabled=1\ngpgcheck=0\n");
        fs::write(repos.join("all.repo"), format!("{theirs}{ours}{own}")).map_err(fail())?;
        Ok(())
    }

    fn dnf(&self, dnf: &str, work: &Path, place: &VerifyTarget, name: &str) -> Command {
        let option =
            |name: &str, folder: &str| format!("--setopt={name}={}", work.join(folder).display());
        let chroot = &self.stack.workspace.chroot;
        // dnf requires root as the owner of its database.
        let command = match rustix::process::geteuid().is_root() {
            true => Command::new(dnf),
            false => Command::new("unshare").args(["--user", "--map-root-user", dnf]),
        };
        let release = match chroot.release.as_str() {
            "" => release_of(place.known()).unwrap_or_else(|| "1".into()),
            release => release.to_owned(),
        };
        let command = command
            .arg(format!("--installroot={}", place.known().display()))
            .arg(format!("--releasever={release}"))
            .arg(format!("--setopt=module_platform_id=platform:f{release}"))
            .args([
                option("reposdir", "repos"),
                option("cachedir", "cache"),
                option("logdir", "log"),
            ])
            .args([option("persistdir", "state"), "--setopt=install_weak_deps=0".into()])
            // dnf only downloads metadata, and keys may be files inside the location.
            .args(["--setopt=*.gpgcheck=0", "--setopt=*.repo_gpgcheck=0"]);
        let arch = if chroot.arch.is_empty() {
            vec![]
        } else {
            vec![format!("--forcearch={}", chroot.arch)]
        };
        command.args(arch).args(["--assumeno", "install", name]).env("LC_ALL", "C")
    }

    /// Checks with rpm whether the stack's packages conflict with each other or with installed
    /// packages.
    pub fn conflicts(&self, place: &VerifyTarget, verified: &mut Verified) -> Result<(), Error> {
        let mut add = |outcome, detail| {
            let what =
                "the stack's packages have no file conflicts with each other or with installed packages"
                    .into();
            verified.checks.push(Check { id: CONFLICTS.into(), what, outcome, detail });
        };
        if self.rpms.is_empty() {
            add(Outcome::NotRun, "no packages found; run `rocmrpm build` to build them".into());
            return Ok(());
        }
        let command = Command::new("rpm")
            .arg("--dbpath")
            .arg(database(place.known()))
            .args([
                "-U",
                "--test",
                "--nodeps",
                "--replacepkgs",
                "--oldpackage",
                "--ignorearch",
                "--ignoreos",
            ])
            .args(["--ignoresize", "--nosignature"])
            .args(&self.rpms);
        match command.env("LC_ALL", "C").run() {
            Ok(finished) if finished.success() => add(Outcome::Pass, String::new()),
            Ok(finished) => add(Outcome::Fail, words(&finished.stderr)),
            Err(ProcessError::Missing { program }) => {
                add(Outcome::NotRun, not_installed(&program));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Returns why a package's files are missing or why that is unknown; `None` if it is installed.
    pub fn missing(&self, place: &VerifyTarget, name: &str) -> Result<Option<String>, Error> {
        if !self.are_rpms() {
            // pip installed the complete lock; otherwise the image would not exist.
            return Ok(None);
        }
        let command = Command::new("rpm").arg("--dbpath").arg(database(place.known()));
        match command.args(["-q", "--", name]).run() {
            Ok(finished) if finished.success() => Ok(None),
            Ok(_) => Ok(Some(format!("{name} is not installed"))),
            Err(ProcessError::Missing { program }) => Ok(Some(not_installed(&program))),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the Python modules in one of the stack's packages, sorted.
    pub fn modules(&self, name: &str) -> Result<Vec<String>, Error> {
        let mut modules = Vec::new();
        for rpm in self.rpms.iter().filter(|rpm| name_of_file(rpm) == Some(name)) {
            let (_, entries) = rpms::files(rpm)?;
            modules.extend(entries.iter().filter_map(|entry| module(&entry.path)));
        }
        modules.sort_unstable();
        modules.dedup();
        Ok(modules)
    }
}

/// Asks rpm about the installed packages of a location.
pub(super) fn query(place: &VerifyTarget, args: &[&str]) -> Result<String, Error> {
    let command = Command::new("rpm").arg("--dbpath").arg(database(place.known())).args(args);
    command.env("LC_ALL", "C").text().map_err(|error| match error {
        ProcessError::Missing { program } => {
            Error::new(Kind::Environment, "cannot list the installed packages")
                .with_help(not_installed(&program))
        }
        error => error.into(),
    })
}

/// Returns the message for a check that needs a missing program.
fn not_installed(program: &str) -> String {
    format!("`{program}` is not installed; {}", install_help(program))
}

fn installable(name: &str, outcome: Outcome, detail: String) -> Check {
    let what = format!("`dnf install {name}` finds all dependencies");
    Check { id: format!("{INSTALL}{name}"), what, outcome, detail }
}

/// Interprets dnf's result. With `--assumeno`, dnf exits with 1 even after finding a solution and
/// prints a message (dnf 4: "Operation aborted.", dnf5: "Operation aborted by the user.").
fn solved(finished: &Finished) -> (Outcome, String) {
    let output = [&finished.stdout[..], &finished.stderr[..]].concat();
    let text = String::from_utf8_lossy(&output);
    let has = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    if finished.success() || has(&["Operation aborted"]) {
        return (Outcome::Pass, String::new());
    }
    if has(&[
        "Failed to download metadata",
        "Failed to synchronize",
        "Cannot download",
        "Curl error",
    ]) {
        return (Outcome::NotRun, format!("cannot read a repository: {}", words(&output)));
    }
    let problem = |line: &&str| {
        ["nothing provides", "conflicts", "No match", "Unable to find", "cannot install"]
            .iter()
            .any(|part| line.contains(part))
    };
    let lines: Vec<&str> = text.lines().filter(problem).take(WORDS).map(str::trim).collect();
    let detail = if lines.is_empty() { words(&output) } else { visible(&lines.join("; ")) };
    (Outcome::Fail, detail)
}

fn words(output: &[u8]) -> String {
    visible(&last_lines(output, WORDS).join("; "))
}

/// Returns the path of a root's rpm database, which may not exist.
fn database(root: &Path) -> PathBuf {
    let places = ["usr/lib/sysimage/rpm", "var/lib/rpm"].map(|path| root.join(path));
    places.iter().find(|path| path.is_dir()).unwrap_or(&places[0]).clone()
}

/// Returns VERSION_ID of os-release(5).
fn release_of(root: &Path) -> Option<String> {
    let text = ["etc/os-release", "usr/lib/os-release"]
        .iter()
        .find_map(|path| fs::read_to_string(root.join(path)).ok())?;
    let line = text.lines().find_map(|line| line.strip_prefix("VERSION_ID="))?;
    Some(line.trim_matches('"').to_owned()).filter(|version| !version.is_empty())
}

/// Returns the importable module for a file in site-packages: a package's `__init__.py`, or a
/// top-level file. Ignores private names, which begin with an underscore.
pub(super) fn module(path: &str) -> Option<String> {
    let (_, below) =
        path.split_once("/site-packages/").or_else(|| path.split_once("/dist-packages/"))?;
    let name = match below.split_once('/') {
        Some((package, "__init__.py")) => package,
        Some(_) => return None,
        None => below
            .strip_suffix(".py")
            .or_else(|| below.strip_suffix(".so").and_then(|n| n.split('.').next()))?,
    };
    let plain = name.chars().all(|c| c.is_alphanumeric() || c == '_') && !name.starts_with('_');
    plain.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_only_importable_modules() {
        let site = "/usr/lib64/python3.14/site-packages";
        let found = |rest: &str| module(&format!("{site}/{rest}"));
        assert_eq!(found("torch/__init__.py").as_deref(), Some("torch"));
        assert_eq!(found("six.py").as_deref(), Some("six"));
        assert_eq!(found("fast.cpython-314-x86_64-linux-gnu.so").as_deref(), Some("fast"));
        for none in
            ["torch/nn/__init__.py", "_x.py", "torch-2.9.dist-info/METADATA", "x.pth", "a-b.py"]
        {
            assert_eq!(found(none), None, "{none}");
        }
        assert_eq!(module("/usr/bin/torchrun"), None);
    }
}
