//! The `mock` builder: one clean chroot per component, with a mock config rendered from the
//! chroot's definition. Runs as an ordinary user and never needs root.

mod cache;
mod config;
mod explain;
mod hermetic;
mod memory;
mod mock_error;
mod prepared;
mod root;
mod state;

pub use hermetic::{HermeticError, check_locks};
pub(super) use prepared::shell_dir;
pub use prepared::{is_prepared, prepare_root};
pub use root::BuildRoot;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::host::{gpu_defines, rpms_below};
use super::record::BUILDROOT_LOCK;
use super::schedule::Limits;
use super::{BuildError, Builder, BuiltRpms, Job, installed_packages};
use crate::digest::Sha256;
use crate::events::{Event, WorkPhase};
use crate::files;
use crate::machine;
use crate::parallel;
use crate::process::{Command, Finished, ProcessError, find_program, stop_requested};
use crate::sources::Cache;
use crate::workspace::{Component, Workspace};
use cache::{Filling, RootCache};
use config::TEMPLATE;
use memory::{Lease, Pool};
use root::config_path;
use state::{Follower, MockStep};

/// How often mock's logs are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How long mock may take to stop by itself after an interrupt: the terminal's Ctrl-C reaches mock
/// as well.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// The maximum size of the compiler cache. The objects of PyTorch with GPU code exceed ccache's own
/// default of 5 GB; `CCACHE_MAXSIZE` overrides this, as it does for ccache(1).
const CCACHE_SIZE: &str = "20G";

/// The group whose members may run mock. Source: mock, `mock.py`, `groupcheck`.
const GROUP: &str = "mock";

/// Builds with mock.
pub struct MockBuilder<'w> {
    workspace: &'w Workspace,
    ccache: Option<PathBuf>,
    root_cache: RootCache,
    /// The memory on this machine for builds: jobs and build roots.
    memory: u64,
    roots_in_memory: Pool,
    hermetic: Option<Hermetic>,
}

/// The cache of the build roots' packages, and whether downloads are forbidden.
struct Hermetic {
    cache: Cache,
    offline: bool,
}

impl<'w> MockBuilder<'w> {
    /// Returns a builder for the workspace's chosen chroot.
    pub fn new(workspace: &'w Workspace) -> Self {
        let memory = machine::available_memory();
        let spaces = workspace.components.values().filter_map(|component| component.build_space);
        let roots_in_memory = Pool::new(memory, spaces);
        Self {
            workspace,
            ccache: None,
            root_cache: RootCache::unknown(),
            memory,
            roots_in_memory,
            hermetic: None,
        }
    }

    /// Enables a compiler cache in this folder.
    #[must_use]
    pub fn with_ccache(mut self, dir: PathBuf) -> Self {
        self.ccache = Some(dir);
        self
    }

    /// Builds with exactly the packages of each component's last build, as listed in its lock.
    #[must_use]
    pub fn hermetic(mut self, cache: Cache, offline: bool) -> Self {
        self.hermetic = Some(Hermetic { cache, offline });
        self
    }

    /// Renders the mock config. All components of a chroot share it, and with it
    /// mock's cache of the build root.
    pub fn config(&self, repository: &Path) -> Result<String, BuildError> {
        config::render(self.workspace, repository)
    }

    fn write_config(&self, job: &Job<'_>) -> Result<PathBuf, BuildError> {
        if let Some(Hermetic { cache, offline }) = &self.hermetic {
            let (build_dir, component) = (self.workspace.regular_build_dir(), &job.component.name);
            let settings = hermetic::settings(cache, *offline, &build_dir, component)?;
            let config = job.work.with_file_name("hermetic.cfg");
            files::write_if_changed(&config, self.config(&job.repository)? + &settings)?;
            return Ok(config);
        }
        let config = config_path(self.workspace);
        // mock discards its cache if a config is newer.
        files::write_if_changed(&config, self.config(&job.repository)?)?;
        Ok(config)
    }

    /// Runs mock; returns the folders of the RPMs and of the logs.
    fn mock(
        &self,
        job: &Job<'_>,
        phase: &str,
        args: &[&str],
        paths: &[(&str, &Path)],
    ) -> Result<(PathBuf, PathBuf), BuildError> {
        refuse_path(&job.work)?;
        let config = self.write_config(job)?;
        let results = job.logs.join(phase);
        fs_err::create_dir_all(&results)?;
        let root = BuildRoot::new(self.workspace, config, &job.component.name);
        let lease = job.component.build_space.and_then(|space| self.roots_in_memory.lease(space));
        let mut command = root.mock().arg("--resultdir").arg(&results).args(args);
        command = command.args(self.options(job, lease.as_ref()));
        for (option, path) in paths {
            command = command.arg(option).arg(path);
        }
        let log = results.join("mock.log");
        let command = command.env("LC_ALL", "C.UTF-8").in_our_group().log_to(&log);
        let done = self.follow(job, &results, &root, command)?;
        if !done.success() {
            return Err(explain::explain(job, &results, &done, lease.is_some()));
        }
        let made = job.work.join(phase);
        fs_err::create_dir_all(&made)?;
        for rpm in rpms_below(&results)? {
            fs_err::rename(&rpm, made.join(rpm.file_name().unwrap_or_default()))?;
        }
        Ok((made, results))
    }

    /// Returns the options that depend on the run or on the component and therefore do not belong
    /// in the config.
    fn options(&self, job: &Job<'_>, lease: Option<&Lease<'_>>) -> Vec<String> {
        let mut options = vec!["--define".to_owned(), format!("_smp_ncpus_max {}", job.jobs)];
        options.extend(gpu_defines(&self.workspace.provider.gpu_macros, job.gpu_targets));
        // A timeout of rpmbuild only: waiting for a mirror is not the build's fault.
        options.extend(
            job.timeout.map(|limit| format!("--rpmbuild_timeout={}", limit.as_secs().max(1))),
        );
        options.extend(lease.iter().flat_map(|lease| lease.options()));
        options.extend(self.ccache_options(job.component));
        options
    }

    fn ccache_options(&self, component: &Component) -> Vec<String> {
        let Some(dir) = self.ccache.as_ref().filter(|_| component.ccache) else {
            return Vec::new();
        };
        let size = std::env::var("CCACHE_MAXSIZE").unwrap_or_else(|_| CCACHE_SIZE.to_owned());
        vec![
            "--enable-plugin=ccache".to_owned(),
            format!("--plugin-option=ccache:dir={}", dir.display()),
            format!("--plugin-option=ccache:max_cache_size={size}"),
        ]
    }

    /// Runs mock and reports its steps. The first build of a run makes the others wait until the
    /// build root exists, because mock lets several builds fill its cache.
    fn follow(
        &self,
        job: &Job<'_>,
        results: &Path,
        root: &BuildRoot,
        command: Command,
    ) -> Result<Finished, ProcessError> {
        // Hermetic build roots are not cached.
        let shared = self.hermetic.is_none().then_some(&self.root_cache);
        let filling = shared.and_then(RootCache::fill_or_wait);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Without this thread, nothing would stop mock on an interrupt.
            let watching = parallel::builder().spawn_scoped(scope, || {
                let mut watch = Watch { job, root, building: false, asked: None };
                let mut logs = Follower::new(results);
                while !ended.load(Ordering::SeqCst) {
                    std::thread::sleep(POLL_INTERVAL);
                    logs.read(|step| {
                        if step == MockStep::RootReady {
                            filling.iter().for_each(Filling::done);
                        }
                        watch.take(step);
                    });
                    watch.end_if_asked();
                }
            });
            watching.map_err(|source| ProcessError::Start { program: "mock".into(), source })?;
            let done = command.run();
            ended.store(true, Ordering::SeqCst);
            done
        })
    }
}

/// Watches one run of mock.
struct Watch<'a> {
    job: &'a Job<'a>,
    root: &'a BuildRoot,
    building: bool,
    asked: Option<Instant>,
}

impl Watch<'_> {
    fn take(&mut self, step: MockStep) {
        match step {
            MockStep::Building => self.building = true,
            MockStep::Began(detail) => {
                let component = self.job.component.name.clone();
                let phase = if self.building { WorkPhase::Building } else { WorkPhase::Preparing };
                self.job.events.event(Event::Phase { component, phase, detail });
            }
            MockStep::RootReady => {}
        }
    }

    /// Kills the processes in the build root after an interrupt if mock keeps running. Does nothing
    /// while mock sets up the root: killing a scriptlet there would corrupt the cache for later
    /// builds.
    fn end_if_asked(&mut self) {
        if !stop_requested() || !self.building {
            return;
        }
        let asked = *self.asked.get_or_insert_with(Instant::now);
        if asked.elapsed() > STOP_GRACE {
            self.asked = Some(Instant::now());
            // mock may have stopped by itself in the meantime; otherwise this is retried.
            let _ = self.root.end_all().run_to_stop();
        }
    }
}

/// Rejects a build folder whose path cannot be in mock's configuration: mock expands Jinja and
/// Python `%` expressions in it.
fn refuse_path(dir: &Path) -> Result<(), BuildError> {
    let text = dir.to_string_lossy();
    match text.chars().find(|c| matches!(c, '{' | '%')) {
        None => Ok(()),
        Some(odd) => Err(BuildError::Environment {
            message: format!(
                "mock cannot build in `{text}`: the path contains the character `{odd}`"
            ),
            help: "move the workspace to a folder without `{` or `%` in its path".into(),
        }),
    }
}

impl Builder for MockBuilder<'_> {
    fn name(&self) -> &'static str {
        "mock"
    }

    fn identity(&self) -> String {
        // The chroot's own settings are in its definition; everything else is in the template.
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
        let refused = |message: &str, help: &str| {
            Err(BuildError::Environment { message: message.to_owned(), help: help.to_owned() })
        };
        if rustix::process::geteuid().is_root() {
            return refused(
                "mock does not run as root",
                "run as an ordinary user; add the user to the group `mock` with `usermod -aG mock USER`",
            );
        }
        // The groups of this login, which may be older than /etc/group.
        let groups = Command::new("id").arg("-Gn").text()?;
        if !groups.split_whitespace().any(|group| group == GROUP) {
            return refused(
                "you are not in the group `mock`",
                "run `sudo usermod -aG mock $USER`, then log in again",
            );
        }
        Ok(())
    }

    fn limits(&self) -> Limits {
        Limits { cores: machine::cores(), memory: self.memory - self.roots_in_memory.whole() }
    }

    fn srpm(&self, job: &Job<'_>) -> Result<PathBuf, BuildError> {
        let spec = job.sources.join(&job.spec.file_name);
        let paths = [("--spec", spec.as_path()), ("--sources", job.sources.as_path())];
        let (made, results) = self.mock(job, "srpm", &["--buildsrpm"], &paths)?;
        let made = rpms_below(&made)?;
        made.into_iter().next().ok_or_else(|| BuildError::Environment {
            message: "mock succeeded but made no SRPM".into(),
            help: format!("read the log: {}", results.join("mock.log").display()),
        })
    }

    fn rpms(&self, job: &Job<'_>, srpm: &Path) -> Result<BuiltRpms, BuildError> {
        let (made, results) = self.mock(job, "rpm", &[], &[("--rebuild", srpm)])?;
        let rpms = rpms_below(&made)?;
        let buildroot = installed_packages(&results);
        let rpms =
            rpms.into_iter().filter(|p| !p.to_string_lossy().ends_with(".src.rpm")).collect();
        // A hermetic build root has the lock that already exists.
        let lock = match self.hermetic {
            None => results.join(BUILDROOT_LOCK),
            Some(_) => hermetic::lock_of(&self.workspace.regular_build_dir(), &job.component.name),
        };
        let lock = Some(lock).filter(|lock| lock.exists());
        Ok(BuiltRpms { rpms, buildroot, unchecked: Vec::new(), lock })
    }

    fn reads_repository(&self) -> bool {
        true
    }

    fn output_logs(&self) -> &'static [&'static str] {
        &["srpm/build.log", "rpm/build.log"]
    }

    fn build_roots(&self, _: &Job<'_>) -> Vec<String> {
        vec!["/builddir".to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Selection, testing};

    #[test]
    fn component_can_opt_out_of_ccache() {
        let dir = tempfile::tempdir().unwrap();
        testing::sample(dir.path(), "fedora-43");
        let file = dir.path().join("specs-templates/two/component.toml");
        fs_err::write(file, "ccache = false\n").unwrap();
        let selection = Selection { chroot: Some("fedora-43".to_owned()), ..Selection::default() };
        let workspace = Workspace::load(dir.path(), &selection).unwrap();
        let builder = MockBuilder::new(&workspace).with_ccache("/c".into());
        let options = |name: &str| builder.ccache_options(&workspace.components[name]);
        assert!(options("one").contains(&"--plugin-option=ccache:dir=/c".to_owned()));
        assert_eq!(options("two"), [""; 0]);
    }
}
