//! Splits a build's log into its parts: phases, the relevant lines, and the errors in a spec that
//! rpm reports. Logs are untrusted and can have any size and any bytes. Causes are up to
//! `catalog`.

use std::io::{Read, Seek as _, SeekFrom};
use std::path::Path;

use crate::error::Problem;
use crate::text::visible;

/// The number of log lines shown.
const SHOWN: usize = 12;

/// The number of bytes read from the end of a log, where the reason for a failure is.
const END: u64 = 2 * 1024 * 1024;

/// The maximum length of a line, in bytes, and of a line for display, in characters.
const LONGEST: usize = 4096;
const WIDEST: usize = 300;

/// rpmbuild's messages after a script fails, and before it repeats its errors. Source: rpm,
/// build/build.c.
const BAD_EXIT: &str = "error: Bad exit status from";
const SUMMARY: &str = "RPM build errors";

/// Words that mark error lines, in lower case.
const WORDS: &[&str] = &[
    "error:",
    "error ",
    "fatal:",
    "not found",
    "no such file",
    "undefined reference",
    "no space left",
    "failed",
    "fault",
];

/// The end of a log, as lines of text.
#[derive(Debug, Default)]
pub(in crate::build) struct Log {
    lines: Vec<String>,
}

impl Log {
    /// Reads the end of a log; one that cannot be read is empty.
    pub(in crate::build) fn read(path: &Path) -> Self {
        Self::try_read(path).unwrap_or_else(|_| Self::of(&[]))
    }

    /// Reads the end of a log.
    pub(super) fn try_read(path: &Path) -> std::io::Result<Self> {
        let mut file = fs_err::File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Self::of_stream(&mut file);
        }
        let start = metadata.len().saturating_sub(END);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(END).read_to_end(&mut bytes)?;
        Ok(Self::of_end(bytes, start > 0))
    }

    /// Reads a stream up to its end.
    pub(super) fn of_stream(stream: &mut impl Read) -> std::io::Result<Self> {
        let (mut bytes, mut is_cut) = (Vec::new(), false);
        while stream.by_ref().take(END).read_to_end(&mut bytes)? > 0 {
            let before_end = bytes.len().saturating_sub(END as usize);
            is_cut |= before_end > 0;
            bytes.drain(..before_end);
        }
        Ok(Self::of_end(bytes, is_cut))
    }

    /// Splits the end of a log into lines; the first one is complete only at the start of the log.
    fn of_end(mut bytes: Vec<u8>, is_cut: bool) -> Self {
        let rest = bytes.iter().position(|byte| *byte == b'\n').filter(|_| is_cut);
        bytes.drain(..rest.map_or(0, |at| at + 1));
        Self::of(&bytes)
    }

    /// Splits a text into lines; only the end of the text counts.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let bytes = &bytes[bytes.len().saturating_sub(END as usize)..];
        let mut lines: Vec<String> = bytes.split(|byte| *byte == b'\n').map(plain).collect();
        // mock reads rpmbuild's stdout and stderr separately, so this line of stdout may come
        // before a script's stderr, where it does not end anything.
        let ended = lines.iter().rposition(|line| line.starts_with(BAD_EXIT));
        let summary = lines.iter().rposition(|line| line.starts_with(SUMMARY));
        if let (Some(ended), Some(summary)) = (ended, summary)
            && summary < ended
        {
            lines.remove(summary);
        }
        Self { lines }
    }

    pub(in crate::build) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Returns the last lines that are not blank, safe to print on a terminal.
    pub(in crate::build) fn last(&self, count: usize) -> Vec<String> {
        shown_lines(&self.lines, count)
    }

    /// Extracts the phase from rpmbuild's last messages.
    pub(super) fn phase(&self) -> String {
        let bad_exit = self.lines.iter().rev().find(|line| line.contains("Bad exit status from"));
        if let Some((_, rest)) = bad_exit.and_then(|line| line.rsplit_once('(')) {
            return visible(rest.trim_end_matches(')').trim_end());
        }
        let contains =
            |words: &[&str]| self.lines.iter().any(|l| words.iter().any(|word| l.contains(word)));
        if contains(&["Failed build dependencies"]) {
            return "BuildRequires".into();
        }
        if contains(&["(but unpackaged)", "File not found"]) {
            return "%files".into();
        }
        "rpmbuild".into()
    }

    /// Returns the lines of the failed part: those of the last script up to rpm's message that it
    /// failed, or to the end of the log. Parts that succeeded are left out.
    pub(super) fn failed_part(&self) -> &[String] {
        last_script(&self.lines[..self.bad_exit().unwrap_or(self.lines.len())])
    }

    fn bad_exit(&self) -> Option<usize> {
        let end =
            self.lines.iter().rposition(|l| l.starts_with(SUMMARY)).unwrap_or(self.lines.len());
        let output = &self.lines[..end];
        let exact = output.iter().rposition(|l| l.starts_with(BAD_EXIT));
        exact.or_else(|| output.iter().rposition(|l| l.contains("Bad exit status from")))
    }

    /// Selects the lines to show: around the one that shows the cause, or around the last one that
    /// looks like an error, or the last ones before rpm's own summary.
    pub(super) fn relevant(&self, cause: Option<usize>) -> Vec<String> {
        let lines = &self.lines;
        let summary = lines.iter().rposition(|l| l.starts_with(SUMMARY)).unwrap_or(lines.len());
        let end = self.bad_exit().unwrap_or(summary);
        // rpm 6 repeats its warnings before it reports how the script ended.
        let repeated = lines[..end].iter().rposition(|l| l.starts_with("RPM build warnings"));
        let is_repeated = |line: &String| line.trim().is_empty() || line.starts_with("    ");
        let end =
            repeated.filter(|start| lines[start + 1..end].iter().all(is_repeated)).unwrap_or(end);
        let body = before_epilogue(last_script(&lines[..end]));
        let after = summary.saturating_add(1);
        // If no script failed, older releases of rpm report errors only here.
        if self.bad_exit().is_none()
            && cause.is_some_and(|at| at >= body.len())
            && after < lines.len()
        {
            return shown_lines(&lines[after..], SHOWN);
        }
        let looks_bad = |line: &String| {
            let line = line.to_ascii_lowercase();
            WORDS.iter().any(|word| line.contains(word))
        };
        let tail = body.len().saturating_sub(SHOWN);
        let cause = cause.filter(|cause| *cause < body.len());
        // What a compiler or linker prints after its first error may only follow from it.
        let first = first_diagnostic(body);
        let first =
            first.filter(|first| cause.is_none_or(|at| (*first..first + SHOWN).contains(&at)));
        let start = match (first, cause, body.iter().rposition(looks_bad)) {
            (Some(first), ..) => first.saturating_sub(1).min(tail),
            (_, Some(cause), _) => cause.saturating_sub(SHOWN / 2).min(tail),
            // Lines long before the end that look like errors did not stop the build.
            (.., Some(bad)) if bad >= tail => bad.saturating_sub(SHOWN / 2),
            _ => tail,
        };
        let shown = body[start..].iter().filter(|line| !line.trim().is_empty());
        shown.take(SHOWN).map(|line| shown_line(line)).collect()
    }

    /// Finds errors that rpm reports with a line of the spec: `error: line 12: ...`.
    pub(super) fn spec_problems(&self, (path, text): (&Path, &str)) -> Vec<Problem> {
        let mut problems = Vec::new();
        for line in &self.lines {
            if problems.len() == SHOWN {
                break;
            }
            let Some(rest) = line.strip_prefix("error: ") else { continue };
            let rest = rest.strip_prefix(&format!("{}: ", path.display())).unwrap_or(rest);
            let Some((number, message)) =
                rest.strip_prefix("line ").and_then(|r| r.split_once(": "))
            else {
                continue;
            };
            let Ok(number) = number.parse::<usize>() else { continue };
            let start: usize =
                text.split_inclusive('\n').take(number.saturating_sub(1)).map(str::len).sum();
            let length = text[start.min(text.len())..].lines().next().map_or(0, str::len);
            problems.push(Problem {
                file: path.display().to_string(),
                text: text.to_owned(),
                span: Some(start..start + length),
                message: "rpm rejects the spec".into(),
                label: shown_line(message),
                help: Some("edit the template; this file is generated".into()),
            });
        }
        problems
    }
}

/// What pip prints when a build backend has failed; it says nothing about the cause. Source: pip,
/// `InstallationSubprocessError` and `MetadataGenerationFailed` in `_internal/exceptions.py`.
const EPILOGUE: &str = "error: subprocess-exited-with-error";

/// Returns the lines before pip's own description of a failed build backend.
fn before_epilogue(lines: &[String]) -> &[String] {
    let epilogue = lines.iter().position(|line| line.trim() == EPILOGUE);
    match epilogue {
        Some(end) if lines[..end].iter().any(|line| !line.trim().is_empty()) => &lines[..end],
        _ => lines,
    }
}

/// Returns the first line in the output of the last command that is an error of a compiler or a
/// linker.
fn first_diagnostic(lines: &[String]) -> Option<usize> {
    let from = lines.iter().rposition(|line| line.starts_with("+ ")).unwrap_or(0);
    let is_diagnostic = |line: &String| {
        let place = |mark: &str| line.split_once(mark).is_some_and(|(place, _)| is_place(place));
        place(": error: ")
            || place(": fatal error: ")
            || line.contains(": undefined reference to ")
            || ["ld.lld: error: ", "lld: error: ", "ld: error: ", "mold: error: ", "error[E"]
                .iter()
                .any(|start| line.trim_start().starts_with(start))
    };
    (from..lines.len()).find(|at| is_diagnostic(&lines[*at]))
}

/// Returns whether a text is `FILE:LINE` or `FILE:LINE:COLUMN`.
fn is_place(text: &str) -> bool {
    let mut parts = text.rsplit(':');
    let number = |part: Option<&str>| {
        part.is_some_and(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    number(parts.next()) && parts.next().is_some() && !text.contains(' ')
}

/// Returns the output of the last of rpm's scripts.
fn last_script(lines: &[String]) -> &[String] {
    let begin = lines.iter().rposition(|l| l.starts_with("Executing(%")).map_or(0, |at| at + 1);
    &lines[begin..]
}

/// Decodes a line as plain text: without colors, without text that a progress bar overwrote, and
/// cut to `LONGEST` bytes.
fn plain(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    let bytes = bytes.rsplit(|byte| *byte == b'\r').next().unwrap_or(bytes);
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]);
    if !text.contains('\u{1b}') {
        return text.into_owned();
    }
    // Control sequences end with a letter or one of a few symbols (ECMA-48, section 5.4).
    let mut out = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        rest = after.trim_start_matches(|c: char| matches!(c, ' '..='?'));
        rest = rest.strip_prefix(|c: char| matches!(c, '@'..='~')).unwrap_or(rest);
    }
    out + rest
}

/// Returns the last lines that are not blank, safe to print on a terminal.
pub(in crate::build) fn shown_lines(lines: &[impl AsRef<str>], count: usize) -> Vec<String> {
    let last = lines.iter().map(AsRef::as_ref).rev().filter(|line: &&str| !line.trim().is_empty());
    let mut shown: Vec<String> = last.take(count).map(shown_line).collect();
    shown.reverse();
    shown
}

/// Makes a line safe to print on a terminal.
fn shown_line(line: &str) -> String {
    let line = visible(line.replace('\t', "    ").trim_end());
    match line.char_indices().nth(WIDEST) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_colors_and_overwritten_text_and_cuts_long_lines() {
        assert_eq!(plain(b"\x1b[01;31m\x1b[Kerror:\x1b[m\x1b[K x\r"), "error: x");
        assert_eq!(plain(b" 10%\r100% done"), "100% done");
        assert_eq!(plain(&[0xff, b'x']), "\u{fffd}x");
        assert_eq!(plain(&vec![b'a'; 10_000_000]).len(), LONGEST);
        assert_eq!(shown_line("\ta\u{7}\u{202e}b"), "    a\\u{7}\\u{202e}b");
        assert_eq!(shown_line(&"ü".repeat(9000)).chars().count(), WIDEST + 3);
    }

    /// rpm announces the check in every build.
    #[test]
    fn blames_unpackaged_files_only_if_rpm_found_some() {
        let checking = "Checking for unpackaged file(s): /usr/lib/rpm/check-files /b\n";
        assert_eq!(Log::of(checking.as_bytes()).phase(), "rpmbuild");
        let found = format!("{checking}error: Installed (but unpackaged) file(s) found:\n   /x\n");
        assert_eq!(Log::of(found.as_bytes()).phase(), "%files");
    }

    /// For each log, the first and the last line to show.
    #[test]
    fn shows_the_first_cause_of_compilers_linkers_and_pip() {
        let pip = "  error: subprocess-exited-with-error\n\n  × Preparing metadata (pyproject.toml) did not run \
                   successfully.\n  │ exit code: 1\n  ╰─> See above for output.\n\n  note: This error originates \
                   from a subprocess, and is likely not a problem with pip.\nerror: metadata-generation-failed\n\n\
                   × Encountered error while generating package metadata.\n╰─> See above for output.\n\n\
                   note: This is an issue with the package mentioned above, not pip.\nhint: See above for details.\n";
        let referenced = ">>> referenced by x.cpp\n".repeat(30);
        let notes = "x.cpp:9:1: note: candidate\n".repeat(30);
        for (log, first, last) in [
            (
                format!(
                    "+ python3 -m pip wheel\n  Traceback (most recent call last):\n    File \"x\"\n  \
                         ValueError: invalid pyproject.toml config: `project.license`\n{pip}"
                ),
                "+ python3 -m pip wheel",
                "  ValueError: invalid pyproject.toml config: `project.license`",
            ),
            (
                format!(
                    "+ python3 -m pip wheel\n  FileNotFoundError: [Errno 2] No such file or directory: 'maturin'\n{pip}"
                ),
                "+ python3 -m pip wheel",
                "  FileNotFoundError: [Errno 2] No such file or directory: 'maturin'",
            ),
            (
                format!(
                    "+ make\nlinking\nld.lld: error: undefined symbol: __ockl_get_group_id\n{referenced}"
                ),
                "linking",
                ">>> referenced by x.cpp",
            ),
            (
                format!(
                    "+ make\nc++ x.cpp\nx.cpp:3:5: error: 'y' was not declared\n{notes}make: *** Error 1\n"
                ),
                "c++ x.cpp",
                "x.cpp:9:1: note: candidate",
            ),
            (
                format!(
                    "+ cargo build\n   Compiling x\nerror[E0425]: cannot find value `y`\n --> src/lib.rs:1\n{notes}"
                ),
                "   Compiling x",
                "x.cpp:9:1: note: candidate",
            ),
            // An error of a command that did not stop the build.
            (
                "+ cc probe.c\nprobe.c:1:1: error: no\n+ make\nmake: *** No rule to make target\n"
                    .to_owned(),
                "+ cc probe.c",
                "make: *** No rule to make target",
            ),
        ] {
            let shown = Log::of(log.as_bytes()).relevant(None);
            assert_eq!(shown.first().map(String::as_str), Some(first), "{shown:#?}");
            assert_eq!(shown.last().map(String::as_str), Some(last), "{shown:#?}");
        }
    }

    #[test]
    fn reads_only_the_end_of_a_huge_log() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let file = std::fs::File::create(&path).unwrap();
        // A sparse file takes no space on the disk.
        file.set_len(8 << 30).unwrap();
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut file, b"\nerror: the end\n").unwrap();
        let log = Log::read(&path);
        assert!(log.lines.iter().map(String::len).sum::<usize>() as u64 <= END);
        assert_eq!(log.relevant(None).last().map(String::as_str), Some("error: the end"));
        assert!(Log::read(&dir.path().join("absent")).lines.iter().all(String::is_empty));
    }
}
