//! The `mock` builder: a clean chroot per component, with a mock config rendered
//! from the chroot's definition. Runs as an ordinary user; never needs to be root.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::failure::Failure;
use super::host::{gpu_defines, rpms_below};
use super::{BuildError, Builder, BuiltRpms, Job};
use crate::digest::Sha256;
use crate::error::Kind;
use crate::files;
use crate::process::{Command, Finished, ProcessError, find_program, last_lines};
use crate::template::Templates;
use crate::text::file_url;
use crate::workspace::Workspace;

/// Where the template of the mock config is, in the workspace.
const TEMPLATE: &str = "mock-configs/mock.cfg.tera";

/// dnf's priority of what this workspace built: before every other repository.
const LOCAL_PRIORITY: i64 = 10;

/// Builds with mock.
pub struct MockBuilder<'w> {
    workspace: &'w Workspace,
}

#[derive(Serialize)]
struct Values<'a> {
    root: String,
    base_config: &'a str,
    dist: &'a str,
    repositories: Vec<RepositoryValues<'a>>,
    macros: Vec<MacroValues>,
}

#[derive(Serialize)]
struct RepositoryValues<'a> {
    id: &'a str,
    url: String,
    gpg_key: &'a str,
    priority: i64,
}

#[derive(Serialize)]
struct MacroValues {
    name: String,
    value: String,
}

impl<'w> MockBuilder<'w> {
    /// Returns a builder for the workspace's chosen chroot.
    pub fn new(workspace: &'w Workspace) -> Self {
        Self { workspace }
    }

    /// Renders the mock config. All components of a chroot share it, and with it
    /// mock's cache of the build root.
    pub fn config(&self, repository: &Path) -> Result<String, BuildError> {
        let chroot = &self.workspace.chroot;
        let text = fs_err::read_to_string(self.workspace.root.join(TEMPLATE))?;
        let mut repositories = vec![RepositoryValues {
            id: "rocmrpm-local",
            // dnf splits a base URL at spaces and commas, and takes `$` for the beginning of a variable.
            url: file_url(repository),
            gpg_key: "",
            priority: LOCAL_PRIORITY,
        }];
        repositories.extend(chroot.repositories.iter().map(|repository| RepositoryValues {
            id: &repository.id,
            url: repository.url.clone(),
            gpg_key: &repository.gpg_key,
            priority: repository.priority,
        }));
        let macros = chroot.macros.iter();
        let macros = macros.map(|(name, value)| MacroValues { name: name.clone(), value: value.clone() });
        let values = Values {
            root: format!("{}-{}", self.workspace.manifest.name, chroot.name),
            base_config: &chroot.base_config,
            dist: &chroot.dist,
            repositories,
            macros: macros.collect(),
        };
        Ok(Templates::parse([(TEMPLATE.to_owned(), text)])?.render(TEMPLATE, &values)?)
    }

    /// Runs mock; returns the folder of the RPMs it made and that of its logs.
    fn mock(
        &self,
        job: &Job<'_>,
        phase: &str,
        args: &[&str],
        paths: &[(&str, &Path)],
    ) -> Result<(PathBuf, PathBuf), BuildError> {
        let config = self.workspace.build_dir().join("mock.cfg");
        // mock throws its cache away when a config is newer.
        files::write_if_changed(&config, self.config(&job.repository)?)?;
        let results = job.logs.join(phase);
        fs_err::create_dir_all(&results)?;
        let log = results.join("mock.log");
        let mut command = root_of(job, &config).arg("--resultdir").arg(&results).args(args);
        // Not in the config: it differs from run to run.
        command = command.arg("--define").arg(format!("_smp_ncpus_max {}", job.jobs));
        // Nor these: they differ from component to component.
        command = command.args(gpu_defines(&self.workspace.provider.gpu_macros, job.gpu_targets));
        for (option, path) in paths {
            command = command.arg(option).arg(path);
        }
        let done = command.env("LC_ALL", "C.UTF-8").in_our_group().log_to(&log).run()?;
        if !done.success() {
            return Err(explain(job, &config, &results, &done));
        }
        let made = job.work.join(phase);
        fs_err::create_dir_all(&made)?;
        for rpm in rpms_below(&results)? {
            fs_err::rename(&rpm, made.join(rpm.file_name().unwrap_or_default()))?;
        }
        Ok((made, results))
    }
}

/// Returns mock with the component's own build root: the name's first part is the
/// cache's, which all components share.
fn root_of(job: &Job<'_>, config: &Path) -> Command {
    Command::new("mock").arg("-r").arg(config).arg("--uniqueext").arg(job.component.name.as_str())
}

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
    (11, Kind::Timeout, "the build took longer than mock allows", "raise `rpmbuild_timeout` in mock-configs/mock.cfg.tera"),
    (20, Kind::Environment, "the chroot could not be set up", "root.log says more"),
    (25, Kind::Environment, "LVM refuses", "root.log says more"),
    (30, Kind::Build, "BuildRequires", "correct the template's BuildRequires, or add the repository that has them to the chroot's definition"),
    (31, Kind::Build, "BuildRequires", "an external dependency is of a kind that mock does not know"),
    (40, Kind::Config, "mock cannot read the SRPM", "remove the component's folder below build/ and try again"),
    (50, Kind::Environment, "a command of mock failed", "root.log says more"),
    (60, Kind::Environment, "another process uses this build root", "wait until it is done"),
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

/// Turns mock's exit code and logs into an error.
fn explain(job: &Job<'_>, config: &Path, results: &Path, done: &Finished) -> BuildError {
    let said = Said::read(&results.join("mock.log"));
    // Where a command failed, mock hands on that command's exit code: rpmbuild's 1.
    let known = match done.code {
        Some(_) if said.command.contains("rpmbuild") => Some(10),
        code => code,
    };
    let known = known.and_then(|code| EXITS.iter().find(|(number, ..)| *number == code));
    let spec_path = job.sources.join(&job.spec.file_name);
    let failure = |log: &str| {
        let log = Some(results.join(log)).filter(|path| path.exists());
        let log = log.unwrap_or_else(|| results.join("mock.log"));
        let component = job.component.name.as_str();
        let mut failure = Failure::from_log(component, &log, (&spec_path, &job.spec.text), &job.retry);
        failure.enter = Some(root_of(job, config).arg("--shell").line());
        failure
    };
    let mut failure = match known {
        Some((10, ..)) => return failure("build.log").into(),
        Some((_, Kind::Interrupted, ..)) => return ProcessError::Stopped.into(),
        Some((30 | 31, ..)) => failure("root.log"),
        Some((11, ..)) => failure("build.log"),
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
    (failure.kind, failure.cause, failure.remedy) = (kind, cause, remedy);
    failure.into()
}

/// What mock itself said of a failure.
#[derive(Debug, Default)]
struct Said {
    /// The command that failed, if it was one.
    command: String,
    /// The message, with what the command wrote where mock repeats it.
    lines: Vec<String>,
}

impl Said {
    fn read(log: &Path) -> Self {
        let text = fs_err::read(log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        // The first of mock's errors only names the SRPM.
        let is_error = |line: &&str| line.starts_with("ERROR: ") && !line.starts_with("ERROR: Exception(");
        let Some(start) = lines.iter().rposition(is_error) else {
            return Self { command: String::new(), lines: last_lines(text.as_bytes(), SHOWN) };
        };
        let mut message = &lines[start..];
        let mut command = String::new();
        if message[0].starts_with("ERROR: Command failed")
            && let Some((line, rest)) = message[1..].split_first()
            && let Some(line) = line.trim_start().strip_prefix("# ")
        {
            line.clone_into(&mut command);
            message = if rest.iter().all(|line| line.trim().is_empty()) { &message[..2] } else { rest };
        }
        let text = message.join("\n");
        let text = text.strip_prefix("ERROR: ").unwrap_or(&text);
        Self { command, lines: last_lines(text.as_bytes(), SHOWN) }
    }
}

/// How many lines of mock's words are shown.
const SHOWN: usize = 12;

/// Reads the ids of repositories that dnf could not read out of root.log.
fn unreadable_repositories(log: &Path) -> Vec<String> {
    let text = fs_err::read(log).unwrap_or_default();
    let mut ids: Vec<String> = String::from_utf8_lossy(&text)
        .lines()
        .filter(|line| line.contains("Failed to download metadata"))
        .filter_map(|line| {
            let id = line.rsplit_once("for repository \"").or_else(|| line.rsplit_once("for repo '"))?.1;
            Some(id.split(['"', '\'']).next().unwrap_or(id).to_owned())
        })
        .collect();
    ids.sort();
    ids.dedup();
    ids
}

/// Reads the names of packages that dnf could not find out of root.log.
fn missing_packages(log: &Path) -> Vec<String> {
    let text = fs_err::read(log).unwrap_or_default();
    let mut names: Vec<String> = String::from_utf8_lossy(&text)
        .lines()
        .filter_map(|line| {
            let (_, rest) = line
                .split_once("No match for argument: ")
                .or_else(|| line.split_once("nothing provides "))
                .or_else(|| line.split_once("No matching package to install: "))?;
            let name = rest.split(" needed by").next().unwrap_or(rest).trim().trim_matches(['\'', '"', '`']);
            Some(name.to_owned())
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

impl Builder for MockBuilder<'_> {
    fn name(&self) -> &'static str {
        "mock"
    }

    fn identity(&self) -> String {
        // What is the chroot's own is in its definition; the rest is in the template.
        let template = Sha256::of_file(&self.workspace.root.join(TEMPLATE));
        format!(
            "mock, template {}",
            template.map_or_else(|e| e.to_string(), |(digest, _)| digest.to_string())
        )
    }

    fn ready(&self) -> Result<(), BuildError> {
        if find_program("mock").is_none() {
            return Err(ProcessError::Missing { program: "mock".into() }.into());
        }
        if rustix::process::geteuid().is_root() {
            return Err(BuildError::Environment {
                message: "mock does not run as root".into(),
                hint: "run as an ordinary user in the group `mock`: `sudo usermod -aG mock $USER`".into(),
            });
        }
        Ok(())
    }

    fn srpm(&self, job: &Job<'_>) -> Result<PathBuf, BuildError> {
        let spec = job.sources.join(&job.spec.file_name);
        let paths = [("--spec", spec.as_path()), ("--sources", job.sources.as_path())];
        let (made, results) = self.mock(job, "srpm", &["--buildsrpm"], &paths)?;
        let made = rpms_below(&made)?;
        made.into_iter().next().ok_or_else(|| BuildError::Environment {
            message: "mock succeeded but made no SRPM".into(),
            hint: format!("its log: {}", results.join("mock.log").display()),
        })
    }

    fn rpms(&self, job: &Job<'_>, srpm: &Path) -> Result<BuiltRpms, BuildError> {
        let (made, results) = self.mock(job, "rpm", &[], &[("--rebuild", srpm)])?;
        let rpms = rpms_below(&made)?;
        let list = fs_err::read_to_string(results.join("installed_pkgs.log")).unwrap_or_default();
        let mut buildroot: Vec<String> =
            list.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
        buildroot.sort();
        let rpms = rpms.into_iter().filter(|p| !p.to_string_lossy().ends_with(".src.rpm")).collect();
        Ok(BuiltRpms { rpms, buildroot, unchecked: Vec::new() })
    }

    fn reads_repository(&self) -> bool {
        true
    }

    fn build_roots(&self, _: &Job<'_>) -> Vec<String> {
        vec!["/builddir".to_owned()]
    }
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

    #[test]
    fn missing_packages_are_read_from_dnf5_and_dnf4() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("root.log");
        let text = "DEBUG util.py: No match for argument: foo-devel\n\
                    DEBUG util.py: - nothing provides libbar.so.1 needed by baz-1-1.x86_64\n\
                    DEBUG util.py: No matching package to install: 'python3dist(qux)'\n";
        fs_err::write(&log, text).unwrap();
        assert_eq!(missing_packages(&log), ["foo-devel", "libbar.so.1", "python3dist(qux)"]);
    }

    #[test]
    fn the_command_that_failed_and_its_words_are_read_from_mocks_log() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("mock.log");
        let said = |text: &str| {
            fs_err::write(&log, text).unwrap();
            Said::read(&log)
        };
        let rpmbuild = said(
            "Finish: rpmbuild -bs\nERROR: Exception(demo.spec) Config(lab) 0 minutes 22 seconds\n\
             INFO: Results and/or logs in: logs\nERROR: Command failed: \n \
             # bash --login -c '/usr/bin/rpmbuild -bs --target x86_64 demo.spec'\n\n",
        );
        assert!(rpmbuild.command.contains("rpmbuild"), "{rpmbuild:?}");
        let dnf = said("ERROR: Command failed: \n # /usr/bin/dnf5 install x\nNo match for argument: x\n");
        assert_eq!(dnf.lines, ["No match for argument: x"]);
        let locked = said("INFO: hello\nERROR: Build root is locked by another process.\n");
        assert_eq!((locked.command.as_str(), locked.lines.len()), ("", 1));
        assert_eq!(locked.lines[0], "Build root is locked by another process.");
        assert_eq!(said("mock: option -Z not recognized\n").lines, ["mock: option -Z not recognized"]);
    }

    #[test]
    fn repositories_that_cannot_be_read_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("root.log");
        let text = "DEBUG util.py:460:  Failed to download metadata (baseurl: \"file:///x\") for repository \"gone\": \
                    Usable URL not found\n";
        fs_err::write(&log, text).unwrap();
        assert_eq!(unreadable_repositories(&log), ["gone"]);
    }
}
