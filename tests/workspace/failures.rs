//! Tests the catalog of causes of failed builds with logs: `tests/failures/ID.log`, `ID.2.log` and
//! so on. The first lines of a log state its origin (`# from: ...`), the phase that failed if the
//! output of rpmbuild does not (`# phase: dnf`), and words that the cause must have
//! (`# expect: ...`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rocmrpm::build::{CauseKind, Failure, KnownCause, Pattern, Phase, causes};
use rocmrpm::error::Diagnose as _;

/// A log in `tests/failures/`.
struct Excerpt {
    id: String,
    phase: Option<String>,
    expected: Vec<String>,
    from: String,
    log: String,
}

fn excerpts() -> Vec<Excerpt> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/failures");
    let mut paths: Vec<PathBuf> =
        fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| excerpt(path)).collect()
}

fn excerpt(path: &Path) -> Excerpt {
    let name = path.file_name().unwrap().to_str().unwrap();
    let id = name.split('.').next().unwrap().to_owned();
    let mut excerpt =
        Excerpt { id, phase: None, expected: Vec::new(), from: String::new(), log: String::new() };
    for line in fs_err::read_to_string(path).unwrap().split_inclusive('\n') {
        match line.strip_prefix("# ").and_then(|line| line.split_once(": ")) {
            Some(("phase", phase)) => excerpt.phase = Some(phase.trim().to_owned()),
            Some(("expect", words)) => excerpt.expected.push(words.trim().to_owned()),
            Some(("from", from)) => excerpt.from = from.trim().to_owned(),
            _ => excerpt.log.push_str(line),
        }
    }
    excerpt
}

/// Explains a log as a builder does.
fn failure(log: &str) -> Failure {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("build.log");
    fs_err::write(&path, log).unwrap();
    Failure::from_log("demo", &path, (Path::new("demo.spec"), ""))
}

#[test]
fn every_log_leads_to_its_cause() {
    let mut wrong = Vec::new();
    for Excerpt { id, phase, expected, from, log } in excerpts() {
        assert!(!from.is_empty(), "{id}: no `# from:` line");
        let (found, cause) = match &phase {
            Some(phase) => {
                let phase = Phase::named(phase);
                assert!(phase.is_some(), "{id}: unknown phase");
                KnownCause::in_text(log.as_bytes(), phase).map(|known| (known.id, known.cause))
            }
            None => {
                let failure = failure(&log);
                failure.id.zip(failure.cause)
            }
        }
        .unwrap_or_default();
        let has_words = expected.iter().all(|words| cause.contains(words));
        if found != id || !has_words || cause.contains('{') {
            wrong.push(format!("{id}: {found}: {cause}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_cause_has_a_log_and_is_complete() {
    let tested: BTreeSet<String> = excerpts().into_iter().map(|excerpt| excerpt.id).collect();
    let ids: BTreeSet<String> = causes().iter().map(|cause| cause.id.clone()).collect();
    assert_eq!(ids.len(), causes().len(), "duplicate ID, or the catalog cannot be read");
    assert!(ids.len() >= 40);
    assert_eq!(
        ids.difference(&tested).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "these have no log"
    );
    assert_eq!(
        tested.difference(&ids).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "these have no cause"
    );
    for cause in causes() {
        let id = &cause.id;
        let plain = id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        assert!(plain && !id.starts_with('-') && !id.ends_with('-'), "{id}");
        assert!(!cause.patterns.is_empty(), "{id}");
        for text in [&cause.cause, &cause.help, &cause.seen] {
            assert!(!text.is_empty() && !text.ends_with('.'), "{id}: {text}");
        }
        assert!(CauseKind::ALL.contains(&cause.kind), "{id}");
        for match_name in ["{1}", "{2}", "{3}"] {
            let is_used = [&cause.cause, &cause.help].iter().any(|text| text.contains(match_name));
            let is_found = |pattern: &Pattern| pattern.as_str().contains(match_name);
            assert!(!is_used || cause.patterns.iter().all(is_found), "{id}: {match_name}");
        }
    }
}

#[test]
fn failure_shows_the_line_of_its_cause_and_its_id() {
    let filler: String = (0..60).map(|n| format!("[{n}/99] Building CXX object {n}.o\n")).collect();
    let log = format!(
        "Executing(%build): /bin/sh -e /var/tmp/rpm-tmp.x\n+ ninja\nFAILED: a.o\nclang++: error: invalid target ID \
         'gfx9999'; format is a processor name\n{filler}ninja: build stopped: subcommand failed.\n\
         error: Bad exit status from /var/tmp/rpm-tmp.x (%build)\n"
    );
    let failure = failure(&log);
    assert_eq!(failure.id, Some("gpu-target-unknown"));
    assert!(failure.lines.iter().any(|line| line.contains("gfx9999")), "{:?}", failure.lines);
    assert_eq!(failure.help().len(), 1, "{:?}", failure.help());
    let references = failure.diagnosis().references;
    let explain = references.iter().find(|reference| reference.label == "Explain").unwrap();
    assert!(explain.target.ends_with(" explain gpu-target-unknown"), "{explain:?}");
}

#[test]
fn tolerated_errors_are_not_causes() {
    let log = "Executing(%build): /bin/sh -e /var/tmp/rpm-tmp.x\n+ git describe\n\
               fatal: not a git repository (or any of the parent directories): .git\n+ :\n+ nproc-max\n\
               /var/tmp/rpm-tmp.x: line 9: nproc-max: command not found\n+ true\n+ make\nmake: *** [all] Error 2\n\
               error: Bad exit status from /var/tmp/rpm-tmp.x (%build)\n";
    assert_eq!(failure(log).cause, None);
    // A general cause must be near the end, even within the command that failed.
    let filler = "cc -c x.c\n".repeat(100);
    let log = format!(
        "Executing(%build): sh\n+ make\n/bin/sh: line 1: git: command not found\n{filler}make: *** [all] Error 2\n\
         error: Bad exit status from /var/tmp/rpm-tmp.x (%build)\n"
    );
    assert_eq!(failure(&log).cause, None);
}

#[test]
fn prefers_root_causes_then_the_last_one() {
    let log = |lines: &str| {
        format!(
            "Executing(%build): sh\n+ ninja\n{lines}error: Bad exit status from /var/tmp/rpm-tmp.x (%build)\n"
        )
    };
    let full = "ld: final link failed: No space left on device\nld.lld: error: unable to find library -lfoo\n";
    assert_eq!(failure(&log(full)).id, Some("disk-full"));
    let two = "x.c:1:10: fatal error: a.h: No such file or directory\nld.lld: error: unable to find library -lfoo\n";
    assert_eq!(failure(&log(two)).id, Some("library-not-found"));
    let general = "ld.lld: error: unable to find library -lfoo\nx.c: undefined reference to `f'\n";
    assert_eq!(failure(&log(general)).id, Some("library-not-found"));
}

#[test]
fn ignores_causes_of_other_phases() {
    let log = b"No match for argument: foo-devel\n";
    assert_eq!(KnownCause::in_text(log, Some(Phase::Check)), None);
    assert_eq!(KnownCause::in_text(log, Some(Phase::Dnf)).unwrap().id, "package-missing");
    assert_eq!(KnownCause::in_text(log, None).unwrap().id, "package-missing");
}

#[test]
fn lists_all_missing_names() {
    let text = "Failed to resolve the transaction:\nNo match for argument: a\nNo match for argument: b\nNo match for argument: a\n";
    let known = KnownCause::in_text(text.as_bytes(), Some(Phase::Dnf)).unwrap();
    assert_eq!(known.cause, "no repository of the chroot provides a, b");
}

#[test]
fn reports_a_kill_if_the_log_has_no_cause() {
    let killed = rocmrpm::process::Command::new("sh").args(["-c", "kill -9 $$"]).run().unwrap();
    let silent = failure("Executing(%build): sh\n+ ninja\n[1/9] cc\n").ended(&killed);
    assert_eq!(silent.id, Some("builder-killed"));
    let known =
        failure("Executing(%build): sh\n+ ninja\ncp: error writing 'a': No space left on device\n");
    assert_eq!(known.ended(&killed).id, Some("disk-full"));
    let exited = rocmrpm::process::Command::new("false").run().unwrap();
    assert_eq!(KnownCause::of_end(&exited), None);
}

#[test]
fn accepts_arbitrary_bytes() {
    let mut log = b"Executing(%build): sh\n+ x\n\xff\xfe\0\x1b[31m\n".to_vec();
    log.extend(vec![b'*'; 3_000_000]);
    log.extend(b"\nx.c:1: fatal error: \xff.h: No such file or directory\n");
    let known = KnownCause::in_text(&log, Some(Phase::Build)).unwrap();
    assert_eq!(known.id, "header-missing");
}
