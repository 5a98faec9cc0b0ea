//! The output and exit of a finished command, and commands that are still running.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::documents;

/// The exit and output of a command.
#[derive(Debug)]
pub struct Ran {
    /// `None` if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Fails unless the exit code is this one.
    #[track_caller]
    pub fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Fails unless stderr contains each of these.
    #[track_caller]
    pub fn reports<S: AsRef<str>>(&self, parts: impl IntoIterator<Item = S>) -> &Self {
        for part in parts {
            let part = part.as_ref();
            assert!(self.stderr.contains(part), "not in stderr: {part}\n{self}");
        }
        self
    }

    /// Fails if stderr contains this.
    #[track_caller]
    pub fn never_reports(&self, part: &str) -> &Self {
        assert!(!self.stderr.contains(part), "unexpected in stderr: {part}\n{self}");
        self
    }

    /// Fails unless stdout contains each of these. Where a line is wrapped depends on the length of
    /// the temporary folder's path, so each part is also searched for in the unwrapped text.
    #[track_caller]
    pub fn prints<S: AsRef<str>>(&self, parts: impl IntoIterator<Item = S>) -> &Self {
        let lines: Vec<&str> = self.stdout.lines().map(str::trim_start).collect();
        let unwrapped = lines.join(" ");
        for part in parts {
            let part = part.as_ref();
            let found = self.stdout.contains(part) || unwrapped.contains(part);
            assert!(found, "not in stdout: {part}\n{self}");
        }
        self
    }

    /// Returns the file or command after this label in stderr, which must show it once.
    #[track_caller]
    pub fn reference(&self, label: &str) -> String {
        let start = format!("{label:>12} ");
        let lines: Vec<&str> =
            self.stderr.lines().filter_map(|line| line.strip_prefix(&start)).collect();
        let [line] = lines[..] else { panic!("not one line `{start}` in stderr\n{self}") };
        line.to_owned()
    }

    /// Fails if stderr has more lines of help than errors.
    #[track_caller]
    pub fn has_one_help_per_error(&self) -> &Self {
        let count = |start| self.stderr.lines().filter(|line| line.starts_with(start)).count();
        assert!(count("help: ") <= count("error: "), "{self}");
        self
    }

    /// Reads stdout as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }

    /// Reads stdout as a JSON document of this schema.
    #[track_caller]
    pub fn document(&self, schema: &str) -> serde_json::Value {
        let value = self.json();
        assert_eq!(value["schema"], schema);
        value
    }
}

impl Ran {
    fn of(output: std::process::Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit code {:?}\nstdout:\n{}\nstderr:\n{}", self.code, self.stdout, self.stderr)
    }
}

/// Runs a command, and prints its output, which is shown if the test fails. Validates a JSON document
/// on stdout against its schema.
pub fn ran(command: &mut Command) -> Ran {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().unwrap_or_else(|error| {
        panic!("{program}: {error}; {}", rocmrpm::process::install_help(&program))
    });
    let ran = Ran::of(output);
    println!("$ {program} {:?}\n{ran}\n", command.get_args().collect::<Vec<_>>());
    documents::check_text(&ran.stdout);
    ran
}

/// A rocmrpm that is still running. Killed when dropped.
pub struct Running {
    pub(super) child: Option<Child>,
}

impl Running {
    pub fn signal(&self, name: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -s $0 $1", name, &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until it exits.
    pub fn finish(mut self) -> Ran {
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        let ran = Ran::of(output);
        println!("$ rocmrpm (in the background)\n{ran}\n");
        documents::check_text(&ran.stdout);
        ran
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until a condition holds; fails after half a minute.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(30), "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the IDs of processes with this argument.
pub fn processes_with(argument: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let id = entry.file_name().to_string_lossy().into_owned();
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if arguments.split(|byte| *byte == 0).any(|a| a == argument.as_bytes()) {
            found.push(id);
        }
    }
    found
}
