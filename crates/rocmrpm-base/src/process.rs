//! Starts, logs and stops every child process. Nothing else in the crate starts a program.
//! [`environment`] decides which environment variables a child inherits.

mod environment;
mod error;
mod leftovers;
mod output;
mod packages;
mod programs;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::stop;
use crate::trust;
use environment::Environment;

pub use crate::stop::{catch_signals, stop_requested};
pub use crate::text::quote;
pub use error::ProcessError;
pub use leftovers::{BUILD_MARK, end_leftovers};
pub use output::{Finished, is_full_disk, last_lines};
pub use packages::install_help;
pub use programs::{find_program, find_program_in, own_program};

/// Programs that always run code from their input: specs have scripts and macros, mock configs are
/// Python, and source distributions have build scripts.
const RUN_CODE: &[&str] = &["mock", "rpmbuild", "rpmspec", "uv"];

/// How long a child may take to exit after a request to stop.
const GRACE: Duration = Duration::from_secs(15);

/// Returns an error after a request to stop.
pub fn check_stop() -> Result<(), ProcessError> {
    if stop_requested() { Err(ProcessError::Stopped) } else { Ok(()) }
}

/// A program to run, with its arguments, folder and environment. It never runs through a shell.
#[derive(Debug, Clone)]
pub struct Command {
    program: String,
    args: Vec<OsString>,
    cwd: Option<PathBuf>,
    environment: Environment,
    log: Option<PathBuf>,
    stdin: Vec<u8>,
    our_group: bool,
    timeout: Option<Duration>,
    max_file: Option<u64>,
    code: Code,
}

/// The origin of the code that a program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Code {
    /// Only its own.
    Own,
    /// Code from this folder, which the user must have trusted.
    Of(PathBuf),
    /// Code that rocmrpm's tests wrote.
    OfTests,
}

impl Command {
    /// Returns a command that runs `program`, found on `PATH`.
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: None,
            environment: Environment::default(),
            log: None,
            stdin: Vec::new(),
            our_group: false,
            timeout: None,
            max_file: None,
            code: Code::Own,
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds several arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// Runs the program in this folder.
    #[must_use]
    pub fn cwd(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cwd = Some(dir.into());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl AsRef<OsStr>) -> Self {
        self.environment.set(name, Some(value.as_ref().to_owned()));
        self
    }

    /// Removes an environment variable.
    #[must_use]
    pub fn env_remove(mut self, name: impl Into<String>) -> Self {
        self.environment.set(name, None);
        self
    }

    /// Starts with an empty environment, in which only [`Command::env`] sets variables.
    #[must_use]
    pub fn clean_env(mut self) -> Self {
        self.environment.clean();
        self
    }

    /// Sets the folder whose code the program runs, such as a workspace or the folder of a spec.
    /// The program starts only if the user trusts this folder.
    #[must_use]
    pub fn runs_code_of(mut self, folder: &Path) -> Self {
        self.code = Code::Of(folder.to_owned());
        self
    }

    /// Runs code that a test wrote. rocmrpm itself never calls this.
    #[must_use]
    pub fn runs_code_of_tests(mut self) -> Self {
        self.code = Code::OfTests;
        self
    }

    /// Returns an error if the program would run code that the user has not trusted. Every start
    /// calls this.
    ///
    /// # Panics
    ///
    /// Panics if the program is one of [`RUN_CODE`] and the origin of its code was not set, which
    /// is a bug.
    fn check_trust(&self) -> Result<(), ProcessError> {
        match &self.code {
            Code::Of(folder) => trust::check(folder).map_err(ProcessError::Trust),
            Code::OfTests => Ok(()),
            Code::Own => {
                let name = Path::new(&self.program).file_name().unwrap_or_default();
                let runs_code = RUN_CODE.iter().any(|program| name == *program);
                assert!(
                    !runs_code || self.args == ["--version"],
                    "`{}` runs code, but `runs_code_of` was not called",
                    self.line()
                );
                Ok(())
            }
        }
    }

    fn must_be_installed(&self) -> Result<(), ProcessError> {
        if !self.program.contains('/') && find_program(&self.program).is_none() {
            return Err(ProcessError::Missing { program: self.program.clone() });
        }
        Ok(())
    }

    /// Restricts the environment for code that a workspace, a package or a root provides: only
    /// `PATH` is inherited, and the home folder is `home`, which only the user may write.
    #[must_use]
    pub fn isolated(self, home: impl AsRef<Path>) -> Self {
        self.clean_env()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home.as_ref())
            .env("LC_ALL", "C.UTF-8")
            .env("PYTHONNOUSERSITE", "1")
    }

    /// Appends its stdout and stderr to this file.
    #[must_use]
    pub fn log_to(mut self, path: impl Into<PathBuf>) -> Self {
        self.log = Some(path.into());
        self
    }

    /// Passes these bytes as standard input, which is empty otherwise.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Keeps it in our process group. For programs that run as root on behalf of an ordinary user:
    /// we may not signal them, but Ctrl-C in the terminal reaches them at any time.
    #[must_use]
    pub fn in_our_group(mut self) -> Self {
        self.our_group = true;
        self
    }

    /// Ends it and all processes that it started after this time, as after a request to stop.
    #[must_use]
    pub fn timeout(mut self, allowed: Option<Duration>) -> Self {
        self.timeout = allowed;
        self
    }

    /// Limits the size of the files that it writes; beyond that, the signal [`TOO_LARGE`] ends it.
    #[must_use]
    pub fn max_file(mut self, bytes: u64) -> Self {
        self.max_file = Some(bytes);
        self
    }

    /// Returns the command as a user could type it.
    pub fn line(&self) -> String {
        let words = std::iter::once(self.program.clone())
            .chain(self.args.iter().map(|a| a.to_string_lossy().into_owned()));
        words.map(|word| quote(&word)).collect::<Vec<_>>().join(" ")
    }

    /// Runs it until it exits, with any exit code. It gets its own process group, which is ended
    /// after a request to stop or at the time limit: first politely, then by force at the second
    /// request or after a grace period. If the system does not let us signal it, we retry until it
    /// does or the program exits.
    pub fn run(self) -> Result<Finished, ProcessError> {
        check_stop()?;
        self.check_trust()?;
        self.must_be_installed()?;
        let start_error = |source| ProcessError::Start { program: self.program.clone(), source };
        let mut expression = self.expression();
        if !self.our_group {
            expression = expression.before_spawn(|command| {
                std::os::unix::process::CommandExt::process_group(command, 0);
                Ok(())
            });
        }
        let signal = |handle: &duct::Handle, signal| signal_child(handle, signal, !self.our_group);
        expression = self.surroundings(expression);
        expression = if self.stdin.is_empty() {
            expression.stdin_null()
        } else {
            expression.stdin_bytes(self.stdin.clone())
        };
        expression = match &self.log {
            Some(path) => {
                let log = std::fs::OpenOptions::new().create(true).append(true).open(path);
                expression.stderr_to_stdout().stdout_file(log.map_err(start_error)?)
            }
            None => expression.stdout_capture().stderr_capture(),
        };
        let started = Instant::now();
        let handle = expression.start().map_err(start_error)?;
        if let Some(bytes) = self.max_file {
            limit_files(&handle, bytes);
        }
        let mut end: Option<ProcessError> = None;
        // When the program was asked to exit.
        let mut heard: Option<Instant> = None;
        let mut forced = false;
        let output = loop {
            match handle.wait_timeout(Duration::from_millis(100)) {
                Ok(Some(output)) => break output.clone(),
                Ok(None) => {}
                Err(source) => return Err(start_error(source)),
            }
            let requests = stop::requests();
            if end.is_none() && requests > 0 {
                end = Some(ProcessError::Stopped);
            } else if end.is_none()
                && let Some(allowed) = self.timeout.filter(|t| started.elapsed() > *t)
            {
                end = Some(ProcessError::TimedOut { program: self.program.clone(), allowed });
            }
            if end.is_some() && heard.is_none() {
                heard = signal(&handle, rustix::process::Signal::TERM).then(Instant::now);
            }
            if !forced && heard.is_some_and(|at| requests > 1 || at.elapsed() > GRACE) {
                forced = signal(&handle, rustix::process::Signal::KILL);
            }
        };
        if let Some(end) = end {
            // The child has exited, but processes that it started may still run.
            if !self.our_group {
                signal(&handle, rustix::process::Signal::KILL);
            }
            return Err(end);
        }
        Ok(Finished {
            code: output.status.code(),
            signal: std::os::unix::process::ExitStatusExt::signal(&output.status),
            stdout: output.stdout,
            stderr: output.stderr,
            elapsed: started.elapsed(),
        })
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that starts programs")]
    fn expression(&self) -> duct::Expression {
        duct::cmd(&self.program, &self.args).unchecked()
    }

    /// Sets the environment and the working folder.
    fn surroundings(&self, expression: duct::Expression) -> duct::Expression {
        let expression =
            expression.full_env(self.environment.of_child(&self.program, std::env::vars_os()));
        match &self.cwd {
            Some(dir) => expression.dir(dir),
            None => expression,
        }
    }

    /// Runs it interactively: with our terminal, and in our process group so that it receives the
    /// terminal's signals. Returns its exit code, or 128 plus the number of the signal that ended
    /// it, as a shell does.
    pub fn interactive(self) -> Result<u8, ProcessError> {
        self.check_trust()?;
        self.must_be_installed()?;
        let start_error = |source| ProcessError::Start { program: self.program.clone(), source };
        let expression = self.surroundings(self.expression());
        let status = expression.run().map_err(start_error)?.status;
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        let code = status.code().unwrap_or_else(|| 128 + signal.unwrap_or_default());
        Ok(u8::try_from(code).unwrap_or(u8::MAX))
    }

    /// Runs it even after a request to stop, because it helps with stopping. Returns whether it
    /// succeeded.
    pub fn run_to_stop(self) -> bool {
        if self.check_trust().is_err() {
            return false;
        }
        let expression = self.expression().stdin_null();
        let silent = self.surroundings(expression).stdout_null().stderr_null();
        silent.run().is_ok_and(|output| output.status.success())
    }

    /// Runs it and returns its stdout. An exit code other than 0 is an error with the last lines of
    /// stderr.
    pub fn output(self) -> Result<Vec<u8>, ProcessError> {
        let (program, log) = (self.program.clone(), self.log.clone());
        let finished = self.run()?;
        if finished.success() {
            return Ok(finished.stdout);
        }
        let output = match log {
            Some(path) => std::fs::read(path).unwrap_or_default(),
            None => finished.stderr.clone(),
        };
        let tail = last_lines(&output, 3).join("; ");
        Err(ProcessError::Failed { program, how: finished.how(), code: finished.code, tail })
    }

    /// Like [`Command::output`], but returns text with trailing whitespace removed.
    pub fn text(self) -> Result<String, ProcessError> {
        let bytes = self.output()?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }
}

/// The signal that ends a child that exceeds [`Command::max_file`]: SIGXFSZ.
pub const TOO_LARGE: i32 = rustix::process::Signal::XFSZ.as_raw();

/// Limits the size of a child's files. It has not written much before the limit applies.
fn limit_files(handle: &duct::Handle, bytes: u64) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    for pid in handle.pids() {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        // The child may have exited already.
        let _ = pid.map(|pid| prlimit(Some(pid), Resource::Fsize, limit));
    }
}

/// Sends a signal to a child, or to its whole process group. Returns whether the system allowed it.
fn signal_child(handle: &duct::Handle, signal: rustix::process::Signal, group: bool) -> bool {
    let mut allowed = true;
    for pid in handle.pids() {
        let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else {
            continue;
        };
        let send =
            if group { rustix::process::kill_process_group } else { rustix::process::kill_process };
        // An exited child is fine too.
        allowed &= send(pid, signal) != Err(rustix::io::Errno::PERM);
    }
    allowed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Diagnose, Kind};

    #[test]
    fn does_not_run_code_of_an_untrusted_folder() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        let touch = || Command::new("touch").arg(folder.join("PWNED")).runs_code_of(&folder);
        let error = touch().run().unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        assert_eq!(
            error.help(),
            [format!("to trust it, run `rocmrpm trust {}`", folder.display())]
        );
        touch().interactive().unwrap_err();
        assert!(!touch().run_to_stop());
        assert!(!folder.join("PWNED").exists());
    }

    #[test]
    #[should_panic(expected = "`rpmspec -P x.spec` runs code, but `runs_code_of` was not called")]
    fn requires_the_origin_of_code() {
        let _ = Command::new("rpmspec").args(["-P", "x.spec"]).run();
    }

    #[test]
    fn returns_output_or_failure() {
        assert_eq!(Command::new("echo").arg("a b").text().unwrap(), "a b");
        let error = Command::new("sh").args(["-c", "echo gone >&2; exit 7"]).text().unwrap_err();
        assert_eq!(error.to_string(), "`sh` exited with 7: gone");
    }

    #[test]
    fn reports_a_missing_program() {
        let error = Command::new("no-such-program").run().unwrap_err();
        assert_eq!(error.kind(), Kind::MissingTool);
    }

    #[test]
    fn quotes_command_lines() {
        assert_eq!(
            Command::new("rpm").args(["--eval", "%{x} 'y'"]).line(),
            r"rpm --eval '%{x} '\''y'\'''"
        );
    }

    #[test]
    fn runs_programs_in_their_own_group_by_default() {
        // The fifth field of /proc/PID/stat (man 5 proc_pid_stat) is the process group.
        let script = "set -- $(cat /proc/$$/stat); echo $5";
        let group = |command: Command| command.args(["-c", script]).text().unwrap();
        let ours = rustix::process::getpgrp().as_raw_nonzero().to_string();
        assert_ne!(group(Command::new("sh")), ours);
        assert_eq!(group(Command::new("sh").in_our_group()), ours);
    }

    #[test]
    fn ends_a_program_and_its_children_at_the_time_limit() {
        let dir = tempfile::tempdir().unwrap();
        let ids = dir.path().join("ids");
        // The child and its own child record their process IDs; the second one ignores SIGTERM.
        let script = format!(
            "echo $$ >> {0}; (trap '' TERM; sh -c 'echo $$ >> {0}; exec sleep 600') & wait",
            ids.display()
        );
        let command =
            Command::new("sh").args(["-c", &script]).timeout(Some(Duration::from_secs(1)));
        let command = command.log_to(dir.path().join("log"));
        let error = command.run().unwrap_err();
        assert_eq!(error.to_string(), "`sh` exceeded its time limit of 1 s");
        assert_eq!(error.kind(), Kind::Timeout);
        let ids = std::fs::read_to_string(ids).unwrap();
        assert_eq!(ids.lines().count(), 2);
        // The system removes a killed process with some delay.
        let deadline = Instant::now() + Duration::from_secs(60);
        let runs = |id: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        while ids.lines().any(runs) {
            assert!(Instant::now() < deadline, "{ids}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let in_time = Command::new("echo").arg("x").timeout(Some(Duration::from_secs(60)));
        assert_eq!(in_time.text().unwrap(), "x");
    }

    #[test]
    fn logs_both_streams() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        Command::new("sh").args(["-c", "echo out; echo err >&2"]).log_to(&log).run().unwrap();
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "out\nerr\n");
    }
}
