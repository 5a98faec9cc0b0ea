//! The builder's decisions that need no access to COPR: what to put into a build root, and which
//! log explains a failure.

use std::path::{Path, PathBuf};

use super::macros::MacrosPackage;
use super::results::BACKEND_LOG;

/// COPR's log message for a failure of the build, as opposed to one of COPR. Source: COPR,
/// background_worker_build.py, `_check_build_success`.
const BUILD_FAILED: &str = "No success file => build failure";

/// Returns the packages of a build root with the macros package added and its other versions
/// removed; `None` if the build root already has the package.
pub(super) fn with_macros(present: &[&str], macros: &MacrosPackage) -> Option<Vec<String>> {
    let wanted = macros.in_build_root();
    if present.contains(&wanted.as_str()) {
        return None;
    }
    let others = present.iter().filter(|package| !macros.is_one(package));
    Some(others.map(ToString::to_string).chain([wanted]).collect())
}

/// Returns the log that best explains a failure: rpmbuild's if it ran, that of the build root if it
/// could not be set up.
pub(super) fn log_of_failure(logs: &[PathBuf], dir: &Path) -> PathBuf {
    let named = |name: &str| logs.iter().find(|log| log.ends_with(name)).cloned();
    let ran = |log: &PathBuf| {
        let text = text_of(log);
        text.contains("Executing(%") || text.contains("error: line")
    };
    let log = named("build.log").filter(ran).or_else(|| named("root.log"));
    let log = log.or_else(|| named("builder-live.log")).or_else(|| named(BACKEND_LOG));
    log.unwrap_or_else(|| dir.join("build.log"))
}

/// Returns the failure on COPR's side according to its log; `None` if the build itself failed.
pub(super) fn backend_failure(log: &str) -> Option<String> {
    let newest = log.lines().rev().find_map(|line| line.split_once("[ ERROR]")?.1.split_once("] "));
    let (_, error) = newest?;
    let error = error.strip_prefix("Build failed: ").unwrap_or(error);
    (error != BUILD_FAILED).then(|| crate::text::visible(error))
}

/// Returns a log's text; empty if it cannot be read.
pub(super) fn text_of(log: &Path) -> String {
    String::from_utf8_lossy(&fs_err::read(log).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_package_replaces_only_its_other_versions() {
        let macros = MacrosPackage::sample("test-rpm-macros", "3-abc.fc43");
        let with = |present: &[&str]| with_macros(present, &macros);
        let kept = ["gcc-c++", "test-rpm-macros-2-old.fc43", "rocm-rpm-macros"];
        let expected =
            ["gcc-c++", "rocm-rpm-macros", "test-rpm-macros-3-abc.fc43"].map(str::to_owned);
        assert_eq!(with(&kept), Some(expected.to_vec()));
        assert_eq!(with(&[]), Some(vec!["test-rpm-macros-3-abc.fc43".to_owned()]));
        assert_eq!(with(&["gcc-c++", "test-rpm-macros-3-abc.fc43"]), None);
    }

    #[test]
    fn distinguishes_failures_of_copr_from_failed_builds() {
        let log = |error: &str| {
            let line = |level: &str, text: &str| {
                format!("[2026-08-07 18:10:06,001][{level}][PID:7] {text}\n")
            };
            let start = line("  INFO", "Searching for 'success' file in resultdir");
            [start, line(" ERROR", &format!("Build failed: {error}")), line(" ERROR", error)]
                .concat()
        };
        assert_eq!(
            backend_failure(&log("createrepo failed")).as_deref(),
            Some("createrepo failed")
        );
        assert_eq!(backend_failure(&log(BUILD_FAILED)), None);
        assert_eq!(backend_failure(""), None);
    }

    #[test]
    fn selects_the_log_that_explains_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let log = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs_err::write(&path, text).unwrap();
            path
        };
        let (live, root) = (log("builder-live.log", "x"), log("root.log", "nothing provides gcc"));
        for (text, expected) in [
            ("Executing(%build): /bin/sh", "build.log"),
            ("error: line 3: bad tag", "build.log"),
            ("Start: rpmbuild", "root.log"),
        ] {
            let logs = [live.clone(), log("build.log", text), root.clone()];
            assert_eq!(log_of_failure(&logs, dir.path()), dir.path().join(expected), "{text}");
        }
        assert_eq!(log_of_failure(std::slice::from_ref(&live), dir.path()), live);
        assert_eq!(log_of_failure(&[], dir.path()), dir.path().join("build.log"));
    }
}
