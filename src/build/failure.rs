//! What went wrong in a build, as far as its log tells: phase, the lines that
//! matter, a known cause. The catalogue of causes is data, in `failures.toml`.

use std::path::{Path, PathBuf};

use crate::error::{Kind, Problem};

/// The catalogue of known causes.
const CATALOGUE: &str = include_str!("failures.toml");

/// How many lines of a log are shown.
const SHOWN: usize = 12;

/// Words of lines that tell what went wrong, in lower case.
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

/// The system's word for a full disk; the catalogue knows it.
const NO_SPACE: &str = "No space left on device";

/// With less than this free, in bytes, a file system counts as full.
const FULL: u64 = 64 * 1024;

/// A failed build, explained.
#[derive(Debug, thiserror::Error)]
#[error("`{component}` failed in {phase}{}", cause.as_ref().map(|c| format!(": {c}")).unwrap_or_default())]
pub struct Failure {
    /// Which component.
    pub component: String,
    /// In which phase, such as `%build` or `BuildRequires`.
    pub phase: String,
    /// The lines of the log that matter.
    pub lines: Vec<String>,
    /// The likely cause, where it is a known one.
    pub cause: Option<String>,
    /// How to mend that.
    pub remedy: Option<String>,
    /// The whole log.
    pub log: PathBuf,
    /// The command that tries again.
    pub retry: String,
    /// The command that enters the build root, where there is one.
    pub enter: Option<String>,
    /// The place in the spec, where rpm names one.
    pub problems: Vec<Problem>,
    /// What kind of failure it is.
    pub kind: Kind,
}

#[derive(serde::Deserialize)]
struct Catalogue {
    cause: Vec<Cause>,
}

#[derive(serde::Deserialize)]
struct Cause {
    pattern: String,
    cause: String,
    remedy: String,
    #[serde(default)]
    environment: bool,
}

impl Failure {
    /// Explains a failure from rpmbuild's log. `spec` is the spec's path and text,
    /// for errors that name a line of it.
    pub fn from_log(component: &str, log: &Path, spec: (&Path, &str), retry: &str) -> Self {
        let text = fs_err::read(log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let problems = spec_problems(&lines, spec);
        let phase = phase(&lines, !problems.is_empty());
        // On a full disk the words that say so may not have reached the log.
        let full = || disk_is_full(log).then(|| known_cause(&[NO_SPACE])).flatten();
        let known = known_cause(last_phase(&lines)).or_else(full);
        let kind = match &known {
            _ if !problems.is_empty() => Kind::Config,
            Some(known) if known.environment => Kind::Environment,
            _ => Kind::Build,
        };
        let (cause, remedy) = known.map(|known| (known.cause, known.remedy)).unzip();
        Self {
            component: component.to_owned(),
            phase,
            lines: if problems.is_empty() { relevant(&lines) } else { Vec::new() },
            cause,
            remedy,
            log: log.to_owned(),
            retry: retry.to_owned(),
            enter: None,
            problems,
            kind,
        }
    }

    /// Returns what kind of failure it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the remedy, the log, and the commands to go on with.
    pub fn hints(&self) -> Vec<String> {
        let mut hints: Vec<String> = self.remedy.iter().cloned().collect();
        hints.push(format!("the whole log: {}", self.log.display()));
        hints.push(format!("to try again: {}", self.retry));
        if let Some(enter) = &self.enter {
            hints.push(format!("to look around in the build root: {enter}"));
        }
        hints
    }
}

/// Reads the phase out of rpmbuild's last words.
fn phase(lines: &[&str], spec_is_wrong: bool) -> String {
    if spec_is_wrong {
        return "the spec".into();
    }
    let bad_exit = lines.iter().rev().find(|line| line.contains("Bad exit status from"));
    if let Some((_, rest)) = bad_exit.and_then(|line| line.rsplit_once('(')) {
        return rest.trim_end_matches(')').trim_end().trim_end_matches(')').to_owned();
    }
    if lines.iter().any(|line| line.contains("Failed build dependencies")) {
        return "BuildRequires".into();
    }
    if lines.iter().any(|line| line.contains("unpackaged") || line.contains("File not found")) {
        return "%files".into();
    }
    "rpmbuild".into()
}

/// Finds errors that rpm reports with a line of the spec: `error: line 12: ...`.
fn spec_problems(lines: &[&str], (path, text): (&Path, &str)) -> Vec<Problem> {
    let mut problems = Vec::new();
    for line in lines {
        let Some(rest) = line.strip_prefix("error: ") else { continue };
        let rest = rest.strip_prefix(&format!("{}: ", path.display())).unwrap_or(rest);
        let Some((number, message)) = rest.strip_prefix("line ").and_then(|r| r.split_once(": ")) else {
            continue;
        };
        let Ok(number) = number.parse::<usize>() else { continue };
        let start: usize = text.split_inclusive('\n').take(number.saturating_sub(1)).map(str::len).sum();
        let length = text[start.min(text.len())..].lines().next().map_or(0, str::len);
        problems.push(Problem {
            file: path.display().to_string(),
            text: text.to_owned(),
            span: Some(start..start + length),
            message: "rpm rejects the spec".into(),
            label: message.to_owned(),
            help: Some("this file is rendered; mend its template".into()),
        });
    }
    problems
}

/// Tells whether the file system that a file lies on is full.
fn disk_is_full(file: &Path) -> bool {
    let folder = file.parent().unwrap_or(Path::new("."));
    rustix::fs::statvfs(folder).is_ok_and(|stat| stat.f_bavail.saturating_mul(stat.f_frsize) < FULL)
}

/// Returns what the last phase said: what went well before has no part in a failure.
fn last_phase<'a, 'l>(lines: &'a [&'l str]) -> &'a [&'l str] {
    let begin = lines.iter().rposition(|l| l.starts_with("Executing(%")).map_or(0, |at| at + 1);
    &lines[begin..]
}

fn known_cause(lines: &[&str]) -> Option<Cause> {
    // The catalogue is part of the program; a test reads it.
    let catalogue: Catalogue = toml::from_str(CATALOGUE).ok()?;
    catalogue.cause.into_iter().find_map(|known| {
        let line = lines.iter().rev().find(|line| line.contains(&known.pattern))?;
        let rest = line.split_once(&known.pattern).map_or("", |(_, rest)| rest).trim_end();
        Some(Cause { cause: known.cause.replace("{1}", rest), ..known })
    })
}

/// Picks the lines to show: around the last line that looks like an error, or the
/// last lines before rpm's own summary.
fn relevant(lines: &[&str]) -> Vec<String> {
    let end = lines.iter().rposition(|l| l.starts_with("RPM build errors")).unwrap_or(lines.len());
    let end = lines[..end].iter().rposition(|l| l.contains("Bad exit status from")).unwrap_or(end);
    // rpm 6 repeats its warnings before it says how the script ended.
    let repeated = lines[..end].iter().rposition(|l| l.starts_with("RPM build warnings"));
    let end = match repeated {
        Some(start) if lines[start + 1..end].iter().all(|l| l.trim().is_empty() || l.starts_with("    ")) => {
            start
        }
        _ => end,
    };
    let body = last_phase(&lines[..end]);
    let looks_bad = |line: &&str| {
        let line = line.to_ascii_lowercase();
        WORDS.iter().any(|word| line.contains(word))
    };
    let tail = body.len().saturating_sub(SHOWN);
    let start = match body.iter().rposition(looks_bad) {
        // What looked bad long before the end was no reason to stop.
        Some(bad) if bad >= tail => bad.saturating_sub(SHOWN / 2),
        _ => tail,
    };
    let shown = body[start..].iter().filter(|l| !l.trim().is_empty());
    shown.take(SHOWN).map(|l| l.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(log: &str, spec: &str) -> Failure {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("build.log");
        fs_err::write(&path, log).unwrap();
        Failure::from_log("demo", &path, (Path::new("demo.spec"), spec), "rocmrpm build demo")
    }

    #[test]
    fn the_catalogue_is_valid() {
        let catalogue: Catalogue = toml::from_str(CATALOGUE).unwrap();
        assert!(catalogue.cause.len() > 10);
    }

    #[test]
    fn phase_lines_and_cause_are_found() {
        let log = "+ make\nmaking\nfoo.cpp:1: fatal error: hip/hip_runtime.h: No such file\nmake: *** [x] Error 1\n\
                   error: Bad exit status from /var/tmp/rpm-tmp.Ab (%build)\n\nRPM build errors:\n    Bad exit";
        let failure = failure(log, "");
        assert_eq!(failure.phase, "%build");
        assert_eq!(failure.cause.as_deref(), Some("HIP's headers are not installed"));
        assert!(failure.lines.iter().any(|l| l.contains("hip_runtime.h")), "{:?}", failure.lines);
        assert_eq!(failure.kind(), Kind::Build);
        assert!(failure.hints().iter().any(|h| h == "to try again: rocmrpm build demo"));
    }

    #[test]
    fn what_an_earlier_phase_said_is_no_cause() {
        let log = "Executing(%prep): sh\nHunk #1 succeeded at 5 (offset 2 lines).\nfoo: command not found\n\
                   Executing(%build): sh\n+ make\nmake: *** Error 1\n\
                   error: Bad exit status from /var/tmp/rpm-tmp.Ab (%build)\n";
        let failure = failure(log, "");
        assert_eq!((failure.phase.as_str(), failure.cause), ("%build", None));
        assert_eq!(failure.lines, ["+ make", "make: *** Error 1"]);
    }

    #[test]
    fn warnings_that_rpm_6_repeats_are_left_out_and_an_earlier_rpmbuild_too() {
        let log = "Wrote: /builddir/x.src.rpm\nRPM build warnings:\n    old\n+ make\noops\n\
                   RPM build warnings:\n    old\nerror: Bad exit status from /var/tmp/x (%build)\n\n\
                   RPM build errors:\n    Bad exit status from /var/tmp/x (%build)\n";
        let failure = failure(log, "");
        assert_eq!(failure.lines.last().map(String::as_str), Some("oops"));
        assert_eq!(failure.phase, "%build");
    }

    #[test]
    fn a_rejected_spec_is_shown_with_its_line() {
        let failure = failure("error: line 2: Unknown tag: Nmae: x\n", "Version: 1\nNmae: x\n");
        assert_eq!(failure.kind(), Kind::Config);
        let problem = &failure.problems[0];
        assert_eq!(&problem.text[problem.span.clone().unwrap()], "Nmae: x");
        assert_eq!(problem.label, "Unknown tag: Nmae: x");
    }

    #[test]
    fn missing_build_requires_are_a_phase() {
        let log = "error: Failed build dependencies:\n\tfoo-devel is needed by demo-1-1.x86_64\n";
        let failure = failure(log, "");
        assert_eq!(failure.phase, "BuildRequires");
        assert!(failure.lines.iter().any(|l| l.contains("foo-devel")));
    }
}
