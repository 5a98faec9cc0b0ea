//! Extracts the last error from mock's own output, and dnf's errors from its log, because mock may
//! lose the last lines of a command. Does not interpret them.

use std::path::Path;

use crate::build::failure::{Log, shown_lines};

/// mock's own error message.
#[derive(Debug, Default)]
pub(super) struct MockError {
    /// The command that failed, if any.
    pub command: String,
    /// The message, including the command's output if mock repeats it.
    pub lines: Vec<String>,
}

impl MockError {
    pub fn read(log: &Path) -> Self {
        let log = Log::read(log);
        let lines = log.lines();
        // The first error that mock prints only names the SRPM.
        let is_error =
            |line: &String| line.starts_with("ERROR: ") && !line.starts_with("ERROR: Exception(");
        let Some(start) = lines.iter().rposition(is_error) else {
            return Self { command: String::new(), lines: log.last(SHOWN) };
        };
        let mut message: Vec<&str> = lines[start..].iter().map(String::as_str).collect();
        let mut command = String::new();
        if message[0].starts_with("ERROR: Command failed")
            && let Some(line) = message.get(1).and_then(|line| line.trim_start().strip_prefix("# "))
        {
            line.clone_into(&mut command);
            let only_command = message[2..].iter().all(|line| line.trim().is_empty());
            message.drain(if only_command { 2..message.len() } else { 0..2 });
        }
        message[0] = message[0].strip_prefix("ERROR: ").unwrap_or(message[0]);
        Self { command, lines: shown_lines(&message, SHOWN) }
    }
}

/// Returns the errors of dnf's last run in the build root. mock stops reading when stdout ends, and
/// loses the rest of stderr. mock's plugin `chroot_scan` copies dnf's own log out of the root, to
/// the same path below a folder of that name.
pub(super) fn errors_of_dnf(results: &Path) -> Vec<String> {
    let copied = walkdir::WalkDir::new(results.join("chroot_scan")).sort_by_file_name();
    let mut logs =
        copied.into_iter().filter_map(Result::ok).filter(|entry| entry.file_name() == DNF_LOG);
    let Some(log) = logs.next() else { return Vec::new() };
    let log = Log::read(log.path());
    let lines = log.lines();
    let last = lines.iter().rev().find_map(|line| Some(dnf_line(line)?.0)).unwrap_or_default();
    let begin = lines.iter().rposition(|line| dnf_line(line).is_some_and(|(run, ..)| run != last));
    let mut is_error = false;
    let run = lines[begin.map_or(0, |at| at + 1)..].iter().filter_map(|line| {
        let Some((_, level, message)) = dnf_line(line) else {
            // A message of several lines.
            return Some(line.clone()).filter(|line| is_error && !line.trim().is_empty());
        };
        is_error = matches!(level, "ERROR" | "CRITICAL");
        Some(message.to_owned()).filter(|_| is_error)
    });
    run.collect()
}

/// Splits a line of dnf's log, such as `2026-11-22T00:37:28+0000 [210] ERROR No match`, into
/// process, level and message. Source: dnf5, libdnf5/logger/logger.cpp, `Logger::write`.
fn dnf_line(line: &str) -> Option<(&str, &str, &str)> {
    let (time, rest) = line.split_once(" [")?;
    let (run, rest) = rest.split_once("] ")?;
    let (level, message) = rest.split_once(' ')?;
    (time.contains('T') && run.parse::<u32>().is_ok()).then_some((run, level, message))
}

/// The name of dnf5's log.
const DNF_LOG: &str = "dnf5.log";

/// The number of lines shown of either log.
pub(super) const SHOWN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_failed_command_and_its_output() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("mock.log");
        let read = |text: &str| {
            fs_err::write(&log, text).unwrap();
            MockError::read(&log)
        };
        let rpmbuild = read(
            "Finish: rpmbuild -bs\nERROR: Exception(demo.spec) Config(lab) 0 minutes 22 seconds\n\
             INFO: Results and/or logs in: logs\nERROR: Command failed: \n \
             # bash --login -c '/usr/bin/rpmbuild -bs --target x86_64 demo.spec'\n\n",
        );
        assert!(rpmbuild.command.contains("rpmbuild"), "{rpmbuild:?}");
        let dnf =
            read("ERROR: Command failed: \n # /usr/bin/dnf5 install x\nNo match for argument: x\n");
        assert_eq!(dnf.lines, ["No match for argument: x"]);
        let locked = read("INFO: hello\nERROR: Build root is locked by another process.\n");
        assert_eq!((locked.command.as_str(), locked.lines.len()), ("", 1));
        assert_eq!(locked.lines[0], "Build root is locked by another process.");
        assert_eq!(
            read("mock: option -Z not recognized\n").lines,
            ["mock: option -Z not recognized"]
        );
    }

    #[test]
    fn reads_errors_of_the_last_run_of_dnf() {
        let dir = tempfile::tempdir().unwrap();
        assert!(errors_of_dnf(dir.path()).is_empty());
        let log = dir.path().join("chroot_scan/var/lib/mock/x/root/var/log/dnf5.log");
        fs_err::create_dir_all(log.parent().unwrap()).unwrap();
        let time = "2026-11-22T00:37:28+0000";
        let text = format!(
            "{time} [171] ERROR of an earlier run\n{time} [210] INFO --- DNF5 launched ---\n\
             {time} [210] ERROR No match for argument: no-such-devel >= 2\n{time} [210] DEBUG x\n  y\n\
             {time} [210] ERROR Problem: conflicting requests\n  - nothing provides b needed by a-1\n\
             {time} [210] DEBUG Cannot find z\n"
        );
        fs_err::write(&log, text).unwrap();
        assert_eq!(
            errors_of_dnf(dir.path()),
            [
                "No match for argument: no-such-devel >= 2",
                "Problem: conflicting requests",
                "  - nothing provides b needed by a-1",
            ]
        );
    }
}
