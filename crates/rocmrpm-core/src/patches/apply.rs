//! Applies a patch to a folder with GNU patch and parses its output: offsets and failed hunks. It
//! does not explain why a hunk fails.

use std::path::Path;

use serde::Serialize;

use super::unified::FileChange;
use crate::process::{Command, ProcessError};
use crate::workspace::edit::is_inside;

/// The result of applying a patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Hunks that apply at another line than the patch specifies.
    pub offsets: Vec<Offset>,
    /// Parts that do not apply.
    pub failures: Vec<Misfit>,
}

/// A hunk that applies at another line than the patch specifies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Offset {
    /// The file.
    pub file: String,
    /// The number of the hunk in the file, counted from 1.
    pub hunk: usize,
    /// The line where it applies.
    pub line: usize,
    /// How many lines further down it applies.
    pub offset: i64,
}

/// A part of a patch that does not apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The index of the file change; `None` if unknown.
    pub file: Option<usize>,
    /// The number of the hunk in the file, from 1; `None` for the whole file.
    pub hunk: Option<usize>,
    /// A description of the problem.
    pub problem: String,
}

/// Applies a patch to the files in `dir` as far as possible: `-p1` without fuzz, as rpm's
/// `%autosetup -p1` does (`%_default_patch_fuzz` is 0).
pub fn apply(dir: &Path, patch: &Path, changes: &[FileChange]) -> Result<Applied, ProcessError> {
    apply_with(dir, patch, changes, 0)
}

/// Applies a patch like [`apply`], but ignores up to `fuzz` lines of context.
pub(super) fn apply_with(
    dir: &Path,
    patch: &Path,
    changes: &[FileChange],
    fuzz: usize,
) -> Result<Applied, ProcessError> {
    for (at, change) in changes.iter().enumerate() {
        if let Some(name) = change.names().find(|name| !is_inside(name)) {
            let problem = format!("the patch changes `{name}`, which is outside of the source");
            return Ok(Applied::failed(Some(at), problem));
        }
    }
    if changes.is_empty() {
        return Ok(Applied::failed(None, "it is not a patch: it changes no file".into()));
    }
    let done = Command::new("patch")
        .arg(format!("--fuzz={fuzz}"))
        .args(["-p1", "-u", "--force", "--no-backup-if-mismatch", "--reject-file=-", "-i"])
        .arg(patch)
        .cwd(dir)
        .clean_env()
        .env("PATH", "/usr/bin:/bin")
        .env("LC_ALL", "C")
        .env("QUOTING_STYLE", "literal")
        .env("TMPDIR", dir)
        .run()?;
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let mut applied = read(&out, changes);
    if !done.success() && applied.failures.is_empty() {
        let reason = err.lines().chain(out.lines()).map(str::trim).find(|line| !line.is_empty());
        let reason = reason.unwrap_or("it gave no reason").trim_start_matches("patch: **** ");
        applied.failures.push(Misfit {
            file: None,
            hunk: None,
            problem: format!("GNU patch reports: {reason}"),
        });
    }
    Ok(applied)
}

impl Applied {
    fn failed(file: Option<usize>, problem: String) -> Self {
        Self { offsets: Vec::new(), failures: vec![Misfit { file, hunk: None, problem }] }
    }
}

/// Parses the output of GNU patch 2.7.
fn read(out: &str, changes: &[FileChange]) -> Applied {
    let mut applied = Applied::default();
    let mut next = 0;
    let mut file = None;
    for line in out.lines() {
        let names = ["patching file ", "patching symbolic link "];
        if let Some(name) = names.iter().find_map(|begin| line.strip_prefix(begin)) {
            // For a renamed file, the line is `patching file NEW (renamed from OLD)`.
            let is = |change: &FileChange| {
                change.names().any(|own| {
                    name == own || name.strip_prefix(own).is_some_and(|r| r.starts_with(" ("))
                })
            };
            file = (next..changes.len()).find(|at| is(&changes[*at]));
            next = file.map_or(next, |at| at + 1);
        } else if let Some(number) = line.strip_prefix("can't find file to patch at input line ") {
            let number: usize = number.trim().parse().unwrap_or(0);
            file = changes.iter().position(|change| change.lines.contains(&number));
            next = file.map_or(next, |at| at + 1);
            let problem = "the file was not found".to_owned();
            applied.failures.push(Misfit { file, hunk: None, problem });
        } else if line.ends_with("already exists!  Applying it anyway.")
            || line == "already exists!"
        {
            applied.failures.push(Misfit {
                file,
                hunk: None,
                problem: "the file already exists".into(),
            });
        } else if let Some((name, _)) =
            line.split_once(" is not a regular file -- refusing to patch")
        {
            let name = name.strip_prefix("File ").unwrap_or(name);
            file = (next..changes.len()).find(|at| changes[*at].names().any(|own| own == name));
            next = file.map_or(next, |at| at + 1);
            let problem = "it is not a regular file".to_owned();
            applied.failures.push(Misfit { file, hunk: None, problem });
        } else if let Some((hunk, rest)) = hunk_line(line) {
            if let Some(rest) = rest.strip_prefix("succeeded at ") {
                let place = rest.split_once(" (offset ");
                let (at, offset) = place.unwrap_or((rest.trim_end_matches('.'), "0"));
                let number =
                    |text: &str| text.split([' ', '.']).next().and_then(|n| n.parse::<i64>().ok());
                let line = number(at).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
                let name = file.map_or_else(String::new, |at| changes[at].name().to_owned());
                applied.offsets.push(Offset {
                    file: name,
                    hunk,
                    line,
                    offset: number(offset).unwrap_or(0),
                });
            } else if rest.starts_with("FAILED") {
                let problem = "its lines were not found";
                applied.failures.push(Misfit { file, hunk: Some(hunk), problem: problem.into() });
            }
        } else if line.starts_with("File ") && line.contains("git binary diff") {
            applied.failures.push(Misfit {
                file,
                hunk: None,
                problem: "GNU patch does not support binary diffs".into(),
            });
        }
    }
    applied
}

/// Parses `Hunk #1 FAILED at 12.` into the number and the rest.
fn hunk_line(line: &str) -> Option<(usize, &str)> {
    let (number, rest) = line.strip_prefix("Hunk #")?.split_once(' ')?;
    Some((number.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::super::unified::parse;
    use super::*;

    /// Applies a patch to a folder that contains a file `a b` with ten lines.
    fn applied(patch: &str) -> (Applied, String) {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs_err::create_dir(&tree).unwrap();
        fs_err::write(tree.join("a b"), "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n").unwrap();
        fs_err::os::unix::fs::symlink("a b", tree.join("link")).unwrap();
        let file = dir.path().join("x.patch");
        fs_err::write(&file, patch).unwrap();
        let applied = apply(&tree, &file, &parse(patch)).unwrap();
        (applied, fs_err::read_to_string(tree.join("a b")).unwrap())
    }

    fn problems(patch: &str) -> Vec<(Option<usize>, Option<usize>, String)> {
        applied(patch).0.failures.into_iter().map(|f| (f.file, f.hunk, f.problem)).collect()
    }

    #[test]
    fn reports_offsets() {
        let (done, text) = applied(
            "--- a/a b\t\n+++ b/a b\t\n@@ -2,3 +2,3 @@\n 5\n-6\n+six\n 7\n@@ -9 +9 @@\n-9\n+nine\n",
        );
        assert_eq!(text, "1\n2\n3\n4\n5\nsix\n7\n8\nnine\n10\n");
        assert_eq!(done.failures, []);
        let first = Offset { file: "a b".into(), hunk: 1, line: 5, offset: 3 };
        assert_eq!(done.offsets[0], first);
    }

    #[test]
    fn reports_what_does_not_apply() {
        let not_found = "its lines were not found".to_owned();
        let two =
            "--- a/a b\t\n+++ b/a b\t\n@@ -2 +2 @@\n-2\n+two\n@@ -5,2 +5,2 @@\n five\n-6\n+six\n";
        assert_eq!(problems(two), [(Some(0), Some(2), not_found)]);
        let gone = "--- a/a b\t\n+++ b/a b\t\n@@ -2 +2 @@\n-2\n+two\n--- a/gone\n+++ b/gone\n@@ -1 +1 @@\n-x\n+y\n";
        assert_eq!(problems(gone), [(Some(1), None, "the file was not found".to_owned())]);
        let link = "--- a/link\n+++ b/link\n@@ -1 +1 @@\n-1\n+y\n";
        assert_eq!(problems(link), [(Some(0), None, "it is not a regular file".to_owned())]);
        assert_eq!(problems("just prose\n")[0].2, "it is not a patch: it changes no file");
    }

    #[test]
    fn rejects_paths_that_lead_out() {
        for name in ["../../etc/x", "/etc/x"] {
            let patch = format!("--- a/{name}\n+++ b/{name}\n@@ -0,0 +1 @@\n+y\n");
            assert!(problems(&patch)[0].2.contains("outside of the source"), "{name}");
        }
    }
}
