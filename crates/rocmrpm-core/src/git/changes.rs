//! Finds files of a workspace that differ from its last commit. It compares bytes itself because
//! `git status` would run the filters that `.git/config` defines.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::repository::{Repository, RepositoryError};

/// Uncommitted files. All paths are relative to the requested folder.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Files that were modified, removed or added.
    pub changed: BTreeSet<String>,
    /// Files that git ignores.
    pub ignored: BTreeSet<String>,
}

/// An entry of the index.
struct GitIndexEntry {
    mode: String,
    object: String,
    path: String,
}

impl Repository<'_> {
    /// Compares the files below `paths`, or all files if empty, with the last commit.
    pub fn changes(&self, paths: &[String]) -> Result<Changes, RepositoryError> {
        let list = |args: &[&str]| -> Result<Vec<String>, RepositoryError> {
            let output = self.git(args).arg("--").args(paths).output().map_err(self.failed())?;
            let text = String::from_utf8_lossy(&output);
            Ok(text.split('\0').filter(|item| !item.is_empty()).map(str::to_owned).collect())
        };
        let mut changes = Changes::default();
        let staged = list(&["ls-files", "-z", "-t", "--stage"])?;
        if self.has_commits()? {
            let args = ["--cached", "-z", "--name-only", "--no-renames", "--relative"];
            let args = [&["diff-index"], &args[..], &["--ignore-submodules=none", "HEAD"]].concat();
            changes.changed.extend(list(&args)?);
        } else {
            changes
                .changed
                .extend(staged.iter().filter_map(|line| Some(line.split_once('\t')?.1.to_owned())));
        }
        let mut entries = Vec::new();
        for line in &staged {
            // Format: `<tag> <mode> <object> <stage> TAB <path>`, see git-ls-files(1).
            let Some((what, path)) = line.split_once('\t') else { continue };
            let [tag, mode, object, stage] = what.split(' ').collect::<Vec<_>>()[..] else {
                continue;
            };
            let there = self.root.join(path).symlink_metadata().is_ok();
            if stage != "0" || (!there && tag != "S") {
                changes.changed.insert(path.to_owned());
            } else if there {
                entries.push(GitIndexEntry {
                    mode: mode.into(),
                    object: object.into(),
                    path: path.into(),
                });
            }
        }
        changes.changed.extend(self.differing(entries)?);
        changes.ignored.extend(list(&[
            "ls-files",
            "-z",
            "--others",
            "--ignored",
            "--exclude-standard",
        ])?);
        let others = list(&["ls-files", "-z", "--others"])?.into_iter();
        changes.changed.extend(others.filter(|path| !changes.ignored.contains(path)));
        Ok(changes)
    }

    /// Returns the paths of entries whose files have different content or a different type.
    fn differing(&self, entries: Vec<GitIndexEntry>) -> Result<Vec<String>, RepositoryError> {
        let (mut files, mut links, mut differing) = (Vec::new(), Vec::new(), Vec::new());
        // Some file systems do not keep the executable bit.
        let modes = self.git(["config", "--type=bool", "--get", "core.fileMode"]).run();
        let keeps_modes = !modes.map_err(self.failed())?.stdout.starts_with(b"false");
        for entry in entries {
            let full = self.root.join(&entry.path);
            let Ok(data) = full.symlink_metadata() else {
                differing.push(entry.path);
                continue;
            };
            let executable = data.permissions().mode() & 0o100 != 0;
            match entry.mode.as_str() {
                "160000" if data.is_dir() => {
                    if self.submodule_differs(&full, &entry.object)? {
                        differing.push(entry.path);
                    }
                }
                "120000" if data.is_symlink() => links.push(entry),
                "100644" | "100755"
                    if data.is_file()
                        && (!keeps_modes || executable == (entry.mode == "100755")) =>
                {
                    files.push(entry);
                }
                _ => differing.push(entry.path),
            }
        }
        differing.extend(self.other_files(files)?);
        let objects: Vec<&str> = links.iter().map(|entry| entry.object.as_str()).collect();
        for (entry, target) in links.iter().zip(self.texts(&objects)?) {
            let now = std::fs::read_link(self.root.join(&entry.path)).unwrap_or_default();
            if now.to_string_lossy() != target {
                differing.push(entry.path.clone());
            }
        }
        Ok(differing)
    }

    /// Returns the paths of files whose content differs from the index.
    fn other_files(&self, entries: Vec<GitIndexEntry>) -> Result<Vec<String>, RepositoryError> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let mut wanted = Vec::new();
        for entry in &entries {
            wanted.extend(quoted(&self.root.join(&entry.path)));
            wanted.push(b'\n');
        }
        let hash = self.git(["hash-object", "--no-filters", "--stdin-paths"]).stdin(wanted);
        let hashes = hash.text().map_err(self.failed())?;
        let differs =
            |(entry, hash): (GitIndexEntry, &str)| (entry.object != hash).then_some(entry.path);
        Ok(entries.into_iter().zip(hashes.lines()).filter_map(differs).collect())
    }

    /// Returns whether a submodule has changes or is not at the commit in the index. A submodule
    /// that was not cloned counts as unchanged.
    fn submodule_differs(&self, dir: &Path, commit: &str) -> Result<bool, RepositoryError> {
        if dir.join(".git").symlink_metadata().is_err() {
            return Ok(false);
        }
        let submodule = Repository::submodule(dir);
        let head = submodule.git(["rev-parse", "--quiet", "--verify", "HEAD"]).run();
        let head = head.map_err(submodule.failed())?;
        if String::from_utf8_lossy(&head.stdout).trim() != commit {
            return Ok(true);
        }
        Ok(!submodule.changes(&[])?.changed.is_empty())
    }
}

/// Quotes a path for git's path lists. Source: git, `quote.c`, `unquote_c_style`.
fn quoted(path: &Path) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', *byte]),
            b'\n' => quoted.extend(b"\\n"),
            other => quoted.push(*other),
        }
    }
    quoted.push(b'"');
    quoted
}
