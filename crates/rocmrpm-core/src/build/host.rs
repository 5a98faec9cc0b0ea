//! The `host` builder: runs rpmbuild on this machine, in its own folder, with a clean environment.
//! If the machine's rpm lacks Fedora's macros, it uses rocmrpm's replacements. It does not isolate
//! the build from the machine or the network.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::host_root::{HostRoot, Unpacked};
use super::record::build_folder;
use super::requires::{HostNeeds, install_help, needs_of};
use super::rocm_root::RocmRoot;
use super::{BuildError, Builder, BuiltRpms, Job};
use crate::digest::Sha256;
use crate::gpu::GpuTarget;
use crate::machine;
use crate::macros::{FALLBACK_MACROS, macro_path};
use crate::packages::{Packages, RequirementAnswer};
use crate::process::{BUILD_MARK, Command, ProcessError, find_program, quote};
use crate::spec::rocm_version;
use crate::text::file_url;
use crate::workspace::{Chroot, Component, Workspace};

/// The PATH of a build: only the distribution's folders, so that nothing from a user's home is
/// used.
const BUILD_PATH: &str = "/usr/bin:/usr/sbin:/bin:/sbin";

/// rpmbuild's exit code if generated BuildRequires are missing. Source: rpm, build/build.c,
/// `RPMRC_MISSINGBUILDREQUIRES`; rpmbuild(1), "-br".
const MISSING_BUILDREQUIRES: i32 = 11;

/// The programs that derive the dependencies of packages from their files. Source: rpm,
/// fileattrs/elf.attr and fileattrs/pythondist.attr.
const GENERATORS: &[&str] = &["/usr/lib/rpm/elfdeps", "/usr/lib/rpm/pythondistdeps.py"];

/// Builds with rpmbuild on this machine.
pub struct HostBuilder<'w> {
    /// The workspace. Builds run code from its folder.
    workspace: &'w Workspace,
    defines: Vec<(String, String)>,
    identity: String,
}

impl<'w> HostBuilder<'w> {
    /// Returns a builder for a workspace's chosen chroot, which need not be `host`: it uses the
    /// chroot's dist tag and macros in either case.
    pub fn new(workspace: &'w Workspace) -> Self {
        let chroot = &workspace.chroot;
        let mut defines = Vec::new();
        if !chroot.dist.is_empty() {
            defines.push(("dist".to_owned(), chroot.dist.clone()));
        }
        defines.extend(chroot.macros.iter().map(|(name, value)| (name.clone(), value.clone())));
        let os = machine::os_release();
        let identity = format!(
            "rpmbuild on {} {}, Python {}, ROCm {}, fallback macros {}",
            os.id,
            os.version_id,
            machine::python_version().unwrap_or_default(),
            rocm_version(&workspace.provider).unwrap_or_default(),
            Sha256::of_bytes(FALLBACK_MACROS),
        );
        Self { workspace, defines, identity }
    }

    /// Uses the chroot's release and Python instead of this machine's, to unpack sources for
    /// another release. The chroot's own macros override these.
    #[must_use]
    pub fn as_chroot(mut self, chroot: &Chroot) -> Self {
        let mut defines = Vec::new();
        let mut define = |name: &str, value: String| defines.push((name.to_owned(), value));
        if chroot.dist.starts_with(".fc") {
            define("fedora", chroot.release.clone());
        }
        if !chroot.python.is_empty() {
            let python = &chroot.python;
            define("python3_version", python.clone());
            define("python3_version_nodots", python.replace('.', ""));
            define("python3_sitelib", format!("%{{_prefix}}/lib/python{python}/site-packages"));
            define("python3_sitearch", format!("%{{_libdir}}/python{python}/site-packages"));
        }
        self.defines.splice(0..0, defines);
        self
    }

    /// Unpacks and patches as the spec's `%prep` does, below [`build_root`].
    pub fn prep(&self, job: &Job<'_>) -> Result<(), BuildError> {
        self.rpmbuild_spec(job, "prep.log", "-bp")
    }

    /// Packs the files next to the spec and returns the RPMs. Does not need any BuildRequires.
    pub(crate) fn pack(&self, job: &Job<'_>) -> Result<Vec<PathBuf>, BuildError> {
        self.rpmbuild_spec(job, "pack.log", "-bb")?;
        Ok(rpms_below(&job.work.join("rpmbuild/RPMS"))?)
    }

    /// Returns everything except the spec that can change the result of [`Self::pack`].
    pub(crate) fn packer(&self) -> Result<String, ProcessError> {
        for generator in GENERATORS {
            if !Path::new(generator).exists() {
                return Err(ProcessError::Missing { program: (*generator).to_owned() });
            }
        }
        let version = Command::new("rpmbuild").arg("--version").text()?;
        let defines = self.defines.iter().map(|(name, value)| format!("{name} {value}\n"));
        Ok(format!("{}\n{version}{}", self.identity, defines.collect::<String>()))
    }

    /// Returns rpmbuild or rpmspec with rocmrpm's macro files and definitions.
    fn rpm_tool(&self, program: &str, job: &Job<'_>) -> Result<Command, BuildError> {
        refuse_path(&job.work)?;
        let fallback = job.work.join("fallback.macros");
        fs_err::write(&fallback, FALLBACK_MACROS)?;
        let top = job.work.join("rpmbuild");
        let tmp = job.work.join("tmp");
        for dir in [&top, &tmp] {
            fs_err::create_dir_all(dir)?;
        }
        let folder = |dir: &Path| dir.to_string_lossy().replace('%', "%%");
        let mut defines = vec![
            ("_topdir".to_owned(), folder(&top)),
            ("_tmppath".to_owned(), folder(&tmp)),
            ("_smp_build_ncpus".to_owned(), job.jobs.to_string()),
            ("_buildhost".to_owned(), "localhost".to_owned()),
            ("use_source_date_epoch_as_buildtime".to_owned(), "1".to_owned()),
            ("clamp_mtime_to_source_date_epoch".to_owned(), "1".to_owned()),
        ];
        let mut command = Command::new(program).arg("--macros").arg(macro_path(&fallback)?);
        if let Some(database) = HostRoot::database(&job.work) {
            defines.push(("_dbpath".to_owned(), folder(&database)));
        }
        if let Some(rocm) = RocmRoot::of_build(&job.work) {
            defines.push(("rocm_prefix".to_owned(), folder(&rocm.root)));
        }
        let gpu_macros = &self.workspace.provider.gpu_macros;
        // The chroot's definitions come first: they must not override those that the build itself
        // relies on.
        for (name, value) in self.defines.iter().cloned().chain(defines) {
            command = command.arg("--define").arg(format!("{name} {value}"));
        }
        let command = command.args(gpu_defines(gpu_macros, job.gpu_targets)).cwd(&job.work);
        let command = command.runs_code_of(&self.workspace.root);
        let command = build_env(command, &job.work, Some(job.spec.release.seconds));
        Ok(command.env(BUILD_MARK, &job.work))
    }

    /// Returns the folder that a failed build left, and a shell or a command that runs there in the
    /// build's environment; `None` if the build left no folder.
    pub fn shell(
        workspace: &Workspace,
        component: &Component,
        source_date: Option<i64>,
        command: &[String],
    ) -> Option<(PathBuf, Command)> {
        let work = build_folder(&workspace.build_dir_of(&component.name), &component.name);
        let folder = Some(build_root(&work)).filter(|folder| folder.is_dir())?;
        let run = shell_in(&workspace.root, &work, &folder, source_date, command);
        Some((folder, run))
    }

    /// Returns a shell or a command that runs in prepared sources below the folder `work`, in the
    /// environment of a build that requires these packages.
    pub fn shell_before_build(
        workspace: &Workspace,
        (work, folder): (&Path, &Path),
        required: &[PathBuf],
        source_date: i64,
        command: &[String],
    ) -> Result<Command, BuildError> {
        HostRoot::remove(work)?;
        HostRoot::unpack(work, required)?;
        Ok(shell_in(&workspace.root, work, folder, Some(source_date), command))
    }

    /// Returns all BuildRequires of the spec, one per line, including those that only
    /// `%generate_buildrequires` knows.
    fn build_requires(&self, job: &Job<'_>) -> Result<String, BuildError> {
        let query = self.rpm_tool("rpmspec", job)?.args(["-q", "--buildrequires"]);
        let mut all = query.arg(self.spec_path(job)).text()?;
        if job.spec.text.contains("\n%generate_buildrequires") {
            self.rpmbuild_spec(job, "buildrequires.log", "-br")?;
            for package in rpms_below(&job.work.join("rpmbuild/SRPMS"))? {
                if package.to_string_lossy().ends_with(".buildreqs.nosrc.rpm") {
                    let list =
                        Command::new("rpm").args(["-qp", "--requires"]).arg(package).text()?;
                    all = format!("{all}\n{list}");
                }
            }
        }
        Ok(all
            .lines()
            .filter(|line| !line.starts_with("rpmlib("))
            .map(|line| format!("{line}\n"))
            .collect())
    }

    /// Checks the BuildRequires that the unpacked packages do not provide.
    fn needs(
        &self,
        job: &Job<'_>,
        unpacked: &Unpacked,
        rocm: Option<&RocmRoot>,
    ) -> Result<HostNeeds, BuildError> {
        let mut provided = Packages::empty("host", false);
        for (name, version) in rocm.iter().flat_map(|rocm| &rocm.distributions) {
            provided.add(name, name, version);
        }
        for provide in &unpacked.provides {
            let version = provide.version.as_ref().map_or("", |(_, version)| version);
            provided.add(&provide.name, &provide.name, version);
        }
        let mut rest = String::new();
        for line in self.build_requires(job)?.lines() {
            if !matches!(provided.satisfy(line), Ok(RequirementAnswer::By(_))) {
                rest = rest + line + "\n";
            }
        }
        let python = HostRoot::of_build(&job.work).map_or_else(Vec::new, |root| root.python_path());
        Ok(needs_of(&rest, &variables(&job.work)["PATH"], &python)?)
    }

    fn spec_path(&self, job: &Job<'_>) -> PathBuf {
        job.sources.join(&job.spec.file_name)
    }

    /// Runs rpmbuild on the spec in the folder of its sources. `--rebuild` does not get that
    /// folder, because it removes the files in it.
    fn rpmbuild_spec(&self, job: &Job<'_>, log: &str, stage: &str) -> Result<(), BuildError> {
        let folder = job.sources.to_string_lossy().replace('%', "%%");
        let (sources, specs) = (format!("_sourcedir {folder}"), format!("_specdir {folder}"));
        // Sources are compressed already: rpm's usual level takes long and saves nothing.
        let payload = "_source_payload w1.gzdio";
        let args =
            [stage, "--nodeps", "--define", &sources, "--define", &specs, "--define", payload];
        self.rpmbuild(job, log, &args, &self.spec_path(job))
    }

    /// Runs rpmbuild with its output in a log, and explains a failure.
    fn rpmbuild(
        &self,
        job: &Job<'_>,
        log: &str,
        args: &[&str],
        file: &Path,
    ) -> Result<(), BuildError> {
        let log = job.logs.join(log);
        let command = self.rpm_tool("rpmbuild", job)?.args(args).arg(file).log_to(&log);
        let done = match command.timeout(job.timeout).run() {
            Err(ProcessError::TimedOut { allowed, .. }) => {
                let component = job.component.name.to_string();
                return Err(BuildError::TimedOut { component, allowed, log });
            }
            other => other?,
        };
        // `-br` exits with 11 after it has written down what is missing, which is what it is for.
        if done.success() || args.contains(&"-br") && done.code == Some(MISSING_BUILDREQUIRES) {
            return Ok(());
        }
        let spec = (self.spec_path(job), &job.spec.text);
        let failure = Failure::from_log(job.component.name.as_str(), &log, (&spec.0, spec.1));
        let mut failure = failure.ended(&done);
        if failure.lines.is_empty() && failure.problems.is_empty() {
            failure.lines.push(format!("rpmbuild {}", done.how()));
        }
        if failure.phase == "BuildRequires" {
            failure.help = Some(format!("install them: {}", builddep(&job.repository, &spec.0)));
        }
        let build_root = build_root(&job.work);
        let cd = || format!("cd {}", quote(&build_root.to_string_lossy()));
        failure.enter = build_root.is_dir().then(|| job.enter.clone().unwrap_or_else(cd));
        Err(failure.into())
    }
}

/// Sets the environment of the build in the folder `work`, and nothing else.
fn build_env(command: Command, work: &Path, source_date: Option<i64>) -> Command {
    let tmp = work.join("tmp");
    let command = command.isolated(&tmp).env("TMPDIR", tmp);
    let command =
        variables(work).iter().fold(command, |command, (name, value)| command.env(*name, value));
    match source_date {
        Some(seconds) => command.env("SOURCE_DATE_EPOCH", seconds.to_string()),
        None => command,
    }
}

/// Returns the variables with which the build in the folder `work` finds what it requires.
fn variables(work: &Path) -> BTreeMap<&'static str, String> {
    let mut variables = match HostRoot::of_build(work) {
        Some(root) => root.variables(BUILD_PATH),
        None => BTreeMap::from([("PATH", BUILD_PATH.to_owned())]),
    };
    if let Some(rocm) = RocmRoot::of_build(work) {
        rocm.add_to(&mut variables);
    }
    variables
}

/// Returns a shell, or a command, that runs in a folder below the build folder `work`, in the
/// build's environment. `root` is the workspace's folder.
fn shell_in(
    root: &Path,
    work: &Path,
    folder: &Path,
    source_date: Option<i64>,
    command: &[String],
) -> Command {
    let run = match command.split_first() {
        Some((program, args)) => Command::new(program).args(args),
        // The user's own settings would change PATH.
        None => Command::new("bash").args(["--noprofile", "--norc"]),
    };
    let run = run.cwd(folder).runs_code_of(root);
    let mut run = build_env(run, work, source_date);
    if let Some(terminal) = std::env::var_os("TERM") {
        run = run.env("TERM", terminal);
    }
    run
}

/// Returns the folder that rpmbuild unpacks sources in.
pub fn build_root(work: &Path) -> PathBuf {
    work.join("rpmbuild/BUILD")
}

/// Returns the command that installs a spec's BuildRequires. Packages of other components come from
/// the repository of earlier builds.
fn builddep(repository: &Path, spec: &Path) -> String {
    let mut command = "sudo dnf builddep".to_owned();
    if repository.join("repodata").is_dir() {
        let from = format!("--repofrompath=rocmrpm,{}", file_url(repository));
        command += &format!(" {} --setopt=rocmrpm.gpgcheck=0", quote(&from));
    }
    format!("{command} {}", quote(&spec.to_string_lossy()))
}

/// Rejects a build folder that rpm cannot handle: it writes the path into shell scripts, lists and
/// command lines without quotes.
fn refuse_path(dir: &Path) -> Result<(), BuildError> {
    let text = dir.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "-_./+,@=~%".contains(c);
    match text.chars().find(|c| !plain(*c)) {
        None => Ok(()),
        Some(odd) => Err(BuildError::Environment {
            message: match odd {
                ' ' => format!("rpmbuild cannot build in `{text}`: the path contains a space"),
                odd => format!("rpmbuild cannot build in `{text}`: the path contains the character `{odd}`"),
            },
            help: "move the workspace to a folder with only letters, digits, `-`, `_` and `.` in its path"
                .into(),
        }),
    }
}

/// Returns the arguments that set a provider's GPU macros to a component's targets.
pub(super) fn gpu_defines(macros: &[String], targets: &[GpuTarget]) -> Vec<String> {
    let list = targets.iter().map(GpuTarget::as_str).collect::<Vec<_>>().join(";");
    macros.iter().flat_map(|name| ["--define".to_owned(), format!("{name} \"{list}\"")]).collect()
}

impl Builder for HostBuilder<'_> {
    fn name(&self) -> &'static str {
        "host"
    }

    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn ready(&self) -> Result<(), BuildError> {
        match find_program("rpmbuild") {
            Some(_) => Ok(()),
            None => Err(ProcessError::Missing { program: "rpmbuild".into() }.into()),
        }
    }

    fn srpm(&self, job: &Job<'_>) -> Result<PathBuf, BuildError> {
        self.rpmbuild_spec(job, "srpm.log", "-bs")?;
        let made = rpms_below(&job.work.join("rpmbuild/SRPMS"))?;
        made.into_iter().next().ok_or_else(|| BuildError::Environment {
            message: "rpmbuild succeeded but made no SRPM".into(),
            help: format!("read the log: {}", job.logs.join("srpm.log").display()),
        })
    }

    fn rpms(&self, job: &Job<'_>, srpm: &Path) -> Result<BuiltRpms, BuildError> {
        let mut built = BuiltRpms::default();
        let mut args = vec!["--rebuild"];
        let unpacked = HostRoot::unpack(&job.work, &job.required)?;
        let log = job.logs.join("rocm.log");
        let rocm = RocmRoot::unpack(self.workspace, &job.work, &log)?;
        let has_rpms = machine::packages_are_rpms();
        if has_rpms {
            HostRoot::add_to_database(&job.work, &job.required)?;
            let mut list = Command::new("rpm").arg("-qa");
            if let Some(database) = HostRoot::database(&job.work) {
                list = list.arg("--dbpath").arg(database);
            }
            built.buildroot = list.text()?.lines().map(str::to_owned).collect();
        } else {
            let list = Command::new("dpkg-query").args([
                "-W",
                "-f",
                "${Package}-${Version}.${Architecture}\n",
            ]);
            // On a machine with neither RPMs nor Debian packages, the list stays empty.
            built.buildroot = list.text().unwrap_or_default().lines().map(str::to_owned).collect();
            built.buildroot.extend(unpacked.packages.iter().cloned());
        }
        built.buildroot.sort();
        // No database of packages lists a ROCm that is in no package.
        if !has_rpms || rocm.is_some() {
            let needs = self.needs(job, &unpacked, rocm.as_ref())?;
            if !needs.missing.is_empty() {
                let list: Vec<&str> = needs.missing.iter().map(|(name, _)| name.as_str()).collect();
                return Err(BuildError::Missing {
                    component: job.component.name.to_string(),
                    what: list.join(", "),
                    help: install_help(&needs.missing),
                });
            }
            built.unchecked = needs.unchecked;
            args.push("--nodeps");
        }
        self.rpmbuild(job, "build.log", &args, srpm)?;
        built.rpms = rpms_below(&job.work.join("rpmbuild/RPMS"))?;
        Ok(built)
    }

    fn output_logs(&self) -> &'static [&'static str] {
        &["srpm.log", "buildrequires.log", "build.log"]
    }

    fn build_roots(&self, job: &Job<'_>) -> Vec<String> {
        vec![job.work.to_string_lossy().into_owned()]
    }
}

/// Returns the RPM files below a folder, sorted.
pub(super) fn rpms_below(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut rpms = Vec::new();
    for entry in walkdir::WalkDir::new(dir).sort_by_file_name() {
        let entry = entry?;
        if entry.file_type().is_file() && entry.path().extension().is_some_and(|e| e == "rpm") {
            rpms.push(entry.into_path());
        }
    }
    Ok(rpms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_gpu_macros_to_the_quoted_list() {
        let targets = ["gfx1100", "gfx1151"].map(|name| GpuTarget::parse(name).unwrap());
        assert_eq!(
            gpu_defines(&["rocm_gpu_list".into()], &targets),
            ["--define", "rocm_gpu_list \"gfx1100;gfx1151\""]
        );
    }

    #[test]
    fn installs_packages_of_other_components_from_their_repository() {
        let dir = tempfile::tempdir().unwrap();
        let spec = Path::new("/w/x.spec");
        assert_eq!(builddep(dir.path(), spec), "sudo dnf builddep /w/x.spec");
        fs_err::create_dir(dir.path().join("repodata")).unwrap();
        let from = format!("--repofrompath=rocmrpm,file://{}", dir.path().display());
        let command =
            format!("sudo dnf builddep {} --setopt=rocmrpm.gpgcheck=0 /w/x.spec", quote(&from));
        assert_eq!(builddep(dir.path(), spec), command);
    }

    #[test]
    fn rejects_paths_that_rpm_does_not_quote() {
        for bad in ["/a b", "/a:b", "/a{b", "/a'b", "/a$b"] {
            assert!(refuse_path(Path::new(bad)).is_err(), "{bad}");
        }
        assert!(refuse_path(Path::new("/home/ü/x-1.2_3%/y")).is_ok());
    }
}
