//! The `mock` builder: a clean chroot per component, with a mock config rendered
//! from the chroot's definition. Runs as an ordinary user; never needs to be root.

mod cache;
mod config;
mod explain;
mod hermetic;
mod memory;
mod root;
mod said;
mod state;

pub use hermetic::{HermeticError, check_locks};
pub use root::BuildRoot;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::host::{gpu_defines, rpms_below};
use super::record::BUILDROOT_LOCK;
use super::schedule::Limits;
use super::{BuildError, Builder, BuiltRpms, Job};
use crate::digest::Sha256;
use crate::events::Event;
use crate::files;
use crate::machine;
use crate::parallel;
use crate::process::{Command, Finished, ProcessError, find_program, stop_requested};
use crate::sources::Cache;
use crate::workspace::Workspace;
use cache::{Filling, RootCache};
use config::TEMPLATE;
use memory::{Lease, Pool};
use root::config_path;
use state::{Follower, Step};

/// How often mock's logs are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// How long mock has to end by itself when we are asked to stop: the terminal's Ctrl-C
/// reaches it, too.
const PATIENCE: Duration = Duration::from_secs(3);

/// How large the compilers' cache may become. Objects of PyTorch with GPU code alone are
/// more than ccache's own 5 GB; `CCACHE_MAXSIZE` wins, as it does for ccache(1).
const CCACHE_SIZE: &str = "20G";

/// Who may run mock. Source: mock, `mock.py`, `groupcheck`.
const GROUP: &str = "mock";

/// Builds with mock.
pub struct MockBuilder<'w> {
    workspace: &'w Workspace,
    ccache: Option<PathBuf>,
    root_cache: RootCache,
    /// What this machine has for builds: jobs and build roots.
    memory: u64,
    roots_in_memory: Pool,
    hermetic: Option<Hermetic>,
}

/// Where the packages of build roots are kept, and whether others may be fetched.
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

    /// Lets compilers keep a cache in this folder.
    #[must_use]
    pub fn with_ccache(mut self, dir: PathBuf) -> Self {
        self.ccache = Some(dir);
        self
    }

    /// Builds in exactly the packages of each component's last build, as its lock has them.
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
            let (build_dir, component) = (self.workspace.build_dir(), &job.component.name);
            let settings = hermetic::settings(cache, *offline, &build_dir, component)?;
            let config = job.work.with_file_name("hermetic.cfg");
            files::write_if_changed(&config, self.config(&job.repository)? + &settings)?;
            return Ok(config);
        }
        let config = config_path(self.workspace);
        // mock throws its cache away when a config is newer.
        files::write_if_changed(&config, self.config(&job.repository)?)?;
        Ok(config)
    }

    /// Runs mock; returns the folder of the RPMs it made and that of its logs.
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

    /// Returns the options that differ from run to run, or from component to component,
    /// and are therefore not in the config.
    fn options(&self, job: &Job<'_>, lease: Option<&Lease<'_>>) -> Vec<String> {
        let mut options = vec!["--define".to_owned(), format!("_smp_ncpus_max {}", job.jobs)];
        options.extend(gpu_defines(&self.workspace.provider.gpu_macros, job.gpu_targets));
        // Of rpmbuild alone: that it waited for a mirror is not the build's fault.
        options.extend(job.timeout.map(|limit| format!("--rpmbuild_timeout={}", limit.as_secs().max(1))));
        options.extend(lease.iter().flat_map(|lease| lease.options()));
        if let Some(dir) = &self.ccache {
            let size = std::env::var("CCACHE_MAXSIZE").unwrap_or_else(|_| CCACHE_SIZE.to_owned());
            options.push("--enable-plugin=ccache".to_owned());
            options.push(format!("--plugin-option=ccache:dir={}", dir.display()));
            options.push(format!("--plugin-option=ccache:max_cache_size={size}"));
        }
        options
    }

    /// Runs mock and tells what it does. The first build of a run makes the others wait
    /// until the build root is there: mock does not mind that several fill its cache.
    fn follow(
        &self,
        job: &Job<'_>,
        results: &Path,
        root: &BuildRoot,
        command: Command,
    ) -> Result<Finished, ProcessError> {
        // Hermetic build roots have no cache.
        let shared = self.hermetic.is_none().then_some(&self.root_cache);
        let filling = shared.and_then(RootCache::fill_or_wait);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Without it, nothing would end mock when the user asks to stop.
            let watching = parallel::builder().spawn_scoped(scope, || {
                let mut watch = Watch { job, root, building: false, asked: None };
                let mut logs = Follower::new(results);
                while !ended.load(Ordering::SeqCst) {
                    std::thread::sleep(LOOK);
                    logs.read(|step| {
                        if step == Step::RootReady {
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
    fn take(&mut self, step: Step) {
        match step {
            Step::Building => self.building = true,
            Step::Began(detail) => {
                let component = self.job.component.name.clone();
                let phase = if self.building { "Building" } else { "Preparing" };
                self.job.events.event(Event::Phase { component, phase, detail });
            }
            Step::RootReady => {}
        }
    }

    /// Ends what runs in the build root if we are asked to stop and mock goes on. While it
    /// sets the root up it is left alone: a scriptlet that is killed there would spoil the
    /// cache for the builds to come.
    fn end_if_asked(&mut self) {
        if !stop_requested() || !self.building {
            return;
        }
        let asked = *self.asked.get_or_insert_with(Instant::now);
        if asked.elapsed() > PATIENCE {
            self.asked = Some(Instant::now());
            // It may have ended by itself in the meantime; if not, we try again.
            let _ = self.root.end_all().run_to_stop();
        }
    }
}

/// Refuses a build folder that cannot be in mock's configuration: it evaluates what looks
/// like an expression of Jinja or of Python's `%` in the paths that it is given.
fn refuse_path(dir: &Path) -> Result<(), BuildError> {
    let text = dir.to_string_lossy();
    match text.chars().find(|c| matches!(c, '{' | '%')) {
        None => Ok(()),
        Some(odd) => Err(BuildError::Environment {
            message: format!("mock cannot build in `{text}`: the path has the character `{odd}`"),
            help: "move the workspace to a folder whose path has neither `{` nor `%`".into(),
        }),
    }
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
        let refused = |message: &str, help: &str| {
            Err(BuildError::Environment { message: message.to_owned(), help: help.to_owned() })
        };
        if rustix::process::geteuid().is_root() {
            return refused(
                "mock does not run as root",
                "run as an ordinary user in the group `mock`: `usermod -aG mock USER`",
            );
        }
        // Groups are those of this login, not what /etc/group says by now.
        let groups = Command::new("id").arg("-Gn").text()?;
        if !groups.split_whitespace().any(|group| group == GROUP) {
            return refused(
                "you are not in the group `mock`",
                "`sudo usermod -aG mock $USER`, and then log in again",
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
            help: format!("its log: {}", results.join("mock.log").display()),
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
        // A hermetic build root is that of the lock that is there already.
        let lock = match self.hermetic {
            None => results.join(BUILDROOT_LOCK),
            Some(_) => hermetic::lock_of(&self.workspace.build_dir(), &job.component.name),
        };
        let lock = Some(lock).filter(|lock| lock.exists());
        Ok(BuiltRpms { rpms, buildroot, unchecked: Vec::new(), lock })
    }

    fn reads_repository(&self) -> bool {
        true
    }

    fn build_roots(&self, _: &Job<'_>) -> Vec<String> {
        vec!["/builddir".to_owned()]
    }
}
