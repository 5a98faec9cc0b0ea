//! mock's own words: the last error of its output.

use std::path::Path;

use crate::build::failure::{Log, shown_lines};

/// What mock itself said of a failure.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// The command that failed, if it was one.
    pub command: String,
    /// The message, with what the command wrote where mock repeats it.
    pub lines: Vec<String>,
}

impl Said {
    pub fn read(log: &Path) -> Self {
        let log = Log::read(log);
        let lines = log.lines();
        // The first of mock's errors only names the SRPM.
        let is_error = |line: &String| line.starts_with("ERROR: ") && !line.starts_with("ERROR: Exception(");
        let Some(start) = lines.iter().rposition(is_error) else {
            return Self { command: String::new(), lines: log.last(SHOWN) };
        };
        let mut message: Vec<&str> = lines[start..].iter().map(String::as_str).collect();
        let mut command = String::new();
        if message[0].starts_with("ERROR: Command failed")
            && let Some(line) = message.get(1).and_then(|line| line.trim_start().strip_prefix("# "))
        {
            line.clone_into(&mut command);
            let alone = message[2..].iter().all(|line| line.trim().is_empty());
            message.drain(if alone { 2..message.len() } else { 0..2 });
        }
        message[0] = message[0].strip_prefix("ERROR: ").unwrap_or(message[0]);
        Self { command, lines: shown_lines(&message, SHOWN) }
    }
}

/// How many lines of mock's words are shown.
const SHOWN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

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
}
