//! mock's own words: the last error of its output, and what dnf wrote into root.log.

use std::path::Path;

use crate::process::last_lines;

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
pub(super) fn unreadable_repositories(log: &Path) -> Vec<String> {
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
pub(super) fn missing_packages(log: &Path) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
