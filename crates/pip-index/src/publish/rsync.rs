//! Stores an index through rsync, over a remote shell or with a daemon. rsync compares files by its
//! own checksums, so that no package is downloaded for a comparison.

use std::collections::{BTreeMap, BTreeSet};

use super::missing;
use super::tool::{Layout, failed, levels, run};
use crate::IndexError;
use crate::place::{IndexStorage, Package, Page, Stored};
use crate::publish_error::PublishError;
use rocmrpm_base::process::{Command, Finished};

/// What the remote side has under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RemoteState {
    Nothing,
    Same,
    Other,
}

/// A folder that rsync reaches. RSYNC_RSH and the configuration of ssh determine how.
#[derive(Debug)]
pub struct Rsync {
    target: String,
}

impl Rsync {
    /// Wraps a target, without any request.
    pub fn new(target: &str) -> Self {
        Self { target: target.to_owned() }
    }

    fn fail(&self, finished: &Finished, action: &str) -> PublishError {
        failed("rsync", finished, action, &self.target)
    }

    /// The root with a trailing slash, which makes rsync transfer its contents instead of the
    /// folder itself.
    fn root(&self) -> String {
        if self.target.ends_with('/') { self.target.clone() } else { format!("{}/", self.target) }
    }

    /// Sends the files of a layout with the given options.
    fn send(
        &self,
        layout: &Layout,
        options: &[&str],
        action: &str,
    ) -> Result<Finished, PublishError> {
        // Without --keep-dirlinks, rsync would replace a remote link to a folder with an empty
        // folder.
        let command = Command::new("rsync")
            .args([
                "--copy-links",
                "--keep-dirlinks",
                "--mkpath",
                "--chmod=D755,F644",
                "--files-from",
            ])
            .arg(layout.list()?)
            .args(options)
            .arg("--")
            .arg(format!("{}/", layout.tree().display()))
            .arg(self.root());
        let finished = run(command)?;
        if finished.success() { Ok(finished) } else { Err(self.fail(&finished, action)) }
    }

    /// Compares every path of a layout with the remote side.
    fn compare_layout(
        &self,
        layout: &Layout,
    ) -> Result<BTreeMap<String, RemoteState>, PublishError> {
        let options = [
            "--dry-run",
            "--checksum",
            "--itemize-changes",
            "--itemize-changes",
            "--8-bit-output",
            "--out-format=%i %n",
        ];
        let finished = self.send(layout, &options, "compare files with")?;
        let lines = String::from_utf8_lossy(&finished.stdout);
        Ok(lines
            .lines()
            .filter_map(compared)
            .map(|(path, there)| (path.to_owned(), there))
            .collect())
    }

    fn compare_now(&self, packages: &[&Package]) -> Result<Vec<RemoteState>, PublishError> {
        if packages.is_empty() {
            return Ok(Vec::new());
        }
        let layout = linked(packages)?;
        let found = self.compare_layout(&layout)?;
        // A file that rsync does not mention is not known to be the same.
        Ok(packages
            .iter()
            .map(|package| found.get(&package.path).copied().unwrap_or(RemoteState::Other))
            .collect())
    }

    /// Downloads the existing files.
    fn fetch(&self, paths: &[String]) -> Result<Layout, PublishError> {
        // Uses a filter: with a list of files below a daemon's module, rsync 3.5.0 reads the wrong
        // folder if the module has no chroot.
        let layout = filter(paths)?;
        // Follows links: otherwise rsync skips them, and their pages would seem to be missing.
        let command = Command::new("rsync")
            .args(["--recursive", "--copy-links"])
            .arg(format!("--include-from={}", layout.list()?.display()))
            .args(["--exclude=*", "--"])
            .arg(self.root())
            .arg(format!("{}/", layout.tree().display()));
        let finished = run(command)?;
        let missing = is_missing_folder(&String::from_utf8_lossy(&finished.stderr));
        if finished.success() || missing {
            Ok(layout)
        } else {
            Err(self.fail(&finished, "read pages of"))
        }
    }
}

/// Returns whether rsync failed because the folder does not exist, as before the first publishing.
/// Any other failure to enter it must not be taken for an empty index.
fn is_missing_folder(stderr: &str) -> bool {
    stderr.lines().any(|line| line.contains("change_dir") && line.contains("No such file"))
}

/// Parses a line of rsync's comparison into a path and the state of the remote file. Source:
/// rsync(1), --itemize-changes: YXcstpoguax, where Y is the pending update, X is `f` for a file,
/// and a new file has only `+` after that.
fn compared(line: &str) -> Option<(&str, RemoteState)> {
    let (item, path) = line.split_once(' ')?;
    let there = match item.as_bytes() {
        [b'.', b'f', ..] => RemoteState::Same,
        [_, b'f', b'+', ..] => RemoteState::Nothing,
        [_, b'f', ..] => RemoteState::Other,
        _ => return None,
    };
    Some((path.trim_start(), there))
}

/// Returns a layout whose list is an rsync filter for these files and their parent folders.
fn filter(paths: &[String]) -> Result<Layout, PublishError> {
    let mut layout = Layout::new()?;
    let mut wanted = BTreeSet::new();
    for path in paths {
        let folders = path.match_indices('/').map(|(at, _)| format!("/{}", &path[..=at]));
        wanted.extend(folders.chain([format!("/{path}")]));
    }
    wanted.iter().for_each(|pattern| drop(layout.name(pattern)));
    Ok(layout)
}

fn linked(packages: &[&Package]) -> Result<Layout, PublishError> {
    let mut layout = Layout::new()?;
    for package in packages {
        layout.link(&package.path, &package.file)?;
    }
    Ok(layout)
}

impl IndexStorage for Rsync {
    fn name(&self) -> String {
        self.target.clone()
    }

    fn read(&self, paths: &[String]) -> Result<Vec<Option<Vec<u8>>>, IndexError> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let layout = self.fetch(paths)?;
        Ok(paths.iter().map(|path| layout.read(path)).collect::<Result<_, _>>()?)
    }

    fn stored(&self, paths: &[String]) -> Result<Vec<Option<Stored>>, IndexError> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let layout = self.fetch(paths)?;
        Ok(paths.iter().map(|path| layout.stored(path)).collect::<Result<_, _>>()?)
    }

    fn compare(&self, packages: &[Package]) -> Result<Vec<Option<Stored>>, IndexError> {
        let all: Vec<&Package> = packages.iter().collect();
        let found = self.compare_now(&all)?;
        let stored = |(package, there): (&Package, RemoteState)| match there {
            RemoteState::Nothing => Ok(None),
            RemoteState::Same => Ok(Some(package.stored)),
            // Only these files need to be downloaded.
            RemoteState::Other => {
                Ok(self.stored(std::slice::from_ref(&package.path))?.into_iter().flatten().next())
            }
        };
        packages.iter().zip(found).map(stored).collect()
    }

    fn put_packages(&self, packages: &[Package]) -> Result<(), IndexError> {
        let missing = missing(self, packages)?;
        if missing.is_empty() {
            return Ok(());
        }
        // rsync writes each file under another name and renames it. An interrupted run leaves its
        // partial file in a folder next to it.
        let options = ["--ignore-existing", "--partial-dir=.rsync-partial"];
        self.send(&linked(&missing)?, &options, "send files to")?;
        for (package, there) in missing.iter().zip(self.compare_now(&missing)?) {
            if there != RemoteState::Same {
                let (place, path) = (self.name(), package.path.clone());
                return Err(PublishError::NotVerified { place, path }.into());
            }
        }
        Ok(())
    }

    fn put_pages(&self, pages: &[Page]) -> Result<(), IndexError> {
        // rsync has its own order within a call: here, it sends all files first and renames them
        // together at the end.
        for pages in levels(pages) {
            let mut layout = Layout::new()?;
            for page in pages {
                layout.write(&page.path, &page.bytes)?;
            }
            self.send(&layout, &["--checksum", "--delay-updates"], "send pages to")?;
            let found = self.compare_layout(&layout)?;
            if let Some(page) =
                pages.iter().find(|page| found.get(&page.path) != Some(&RemoteState::Same))
            {
                let (place, path) = (self.name(), page.path.clone());
                return Err(PublishError::NotVerified { place, path }.into());
            }
        }
        Ok(())
    }

    fn remove(&self, paths: &[String]) -> Result<(), IndexError> {
        if paths.is_empty() {
            return Ok(());
        }
        // rsync deletes files that the filter includes and the empty folder lacks. All other files
        // are excluded from the transfer and therefore protected (rsync(1), "--delete").
        let layout = filter(paths)?;
        let folders: BTreeSet<&str> =
            paths.iter().filter_map(|p| Some(p.rsplit_once('/')?.0)).collect();
        for folder in folders {
            layout.folder(folder)?;
        }
        let command = Command::new("rsync")
            .args(["--recursive", "--keep-dirlinks", "--delete"])
            .arg(format!("--include-from={}", layout.list()?.display()))
            .args(["--exclude=*", "--"])
            .arg(format!("{}/", layout.tree().display()))
            .arg(self.root());
        let finished = run(command)?;
        if finished.success() {
            Ok(())
        } else {
            Err(self.fail(&finished, "remove files of").into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocmrpm_base::digest::Sha256;
    use rocmrpm_base::error::Diagnose;

    #[test]
    fn sends_compares_and_removes_files() {
        let dir = tempfile::tempdir().unwrap();
        let place = Rsync::new(&dir.path().join("index").to_string_lossy());
        let package = |path: &str, text: &str| {
            let file = dir.path().join(Sha256::of_bytes(text).to_string());
            fs_err::write(&file, text).unwrap();
            let stored = Stored { size: text.len() as u64, sha256: Sha256::of_bytes(text) };
            Package { path: path.into(), file, stored }
        };
        let (a, b) = (package("packages/a/a.whl", "a"), package("packages/b/b.whl", "b"));
        let paths = [a.path.clone(), b.path.clone()];
        assert_eq!(place.stored(&paths).unwrap(), [None, None], "no folder yet");
        place.put_packages(std::slice::from_ref(&a)).unwrap();
        assert_eq!(place.stored(&paths).unwrap(), [Some(a.stored), None]);
        assert_eq!(place.compare(&[a.clone(), b.clone()]).unwrap(), [Some(a.stored), None]);
        let other = package("packages/a/a.whl", "other");
        assert_eq!(place.compare(std::slice::from_ref(&other)).unwrap(), [Some(a.stored)]);
        let error = place.put_packages(&[b.clone(), other]).unwrap_err();
        assert!(matches!(error, IndexError::OtherDigest { .. }), "{error}");
        assert_eq!(place.stored(&paths).unwrap(), [Some(a.stored), None], "nothing is sent");

        let page = |path: &str, text: &str| Page {
            path: path.into(),
            bytes: text.into(),
            media_type: "text/html",
        };
        let read = |path: &str| place.read(&[path.to_owned()]).unwrap().remove(0);
        for text in ["one", "two"] {
            let pages = [page("simple/a/index.html", text), page("simple/index.html", text)];
            place.put_pages(&pages).unwrap();
            assert_eq!(pages.map(|page| read(&page.path)), [Some(text.into()), Some(text.into())]);
        }
        place.remove(&["simple/a/index.html".to_owned(), "simple/b".to_owned()]).unwrap();
        assert_eq!(
            (read("simple/a/index.html"), read("simple/index.html")),
            (None, Some("two".into()))
        );
        assert_eq!(place.stored(&paths).unwrap(), [Some(a.stored), None]);
    }

    #[test]
    fn reports_rsync_failures() {
        let dir = tempfile::tempdir().unwrap();
        // A file where the folder should be.
        let root = dir.path().join("index");
        fs_err::write(&root, "").unwrap();
        let place = Rsync::new(&root.to_string_lossy());
        let path = ["a".to_owned()];
        let page = Page { path: "a".into(), bytes: Vec::new(), media_type: "text/html" };
        let errors = [
            place.read(&path).unwrap_err(),
            place.stored(&path).unwrap_err(),
            place.put_pages(&[page]).unwrap_err(),
            place.remove(&path).unwrap_err(),
        ];
        for error in errors {
            assert!(error.to_string().contains("rsync"), "{error} {:?}", error.details());
        }
    }

    #[test]
    fn treats_only_a_missing_folder_as_empty() {
        let failed = |why: &str| {
            is_missing_folder(&format!("rsync: [sender] change_dir \"/srv/x\" failed: {why}\n"))
        };
        assert!(failed("No such file or directory (2)"));
        assert!(!failed("Permission denied (13)"));
        assert!(!failed("Input/output error (5)"));
        assert!(!is_missing_folder(
            "rsync: link_stat \"/srv/x/a\" failed: No such file or directory (2)\n"
        ));
    }

    #[test]
    fn parses_comparison_lines() {
        for (line, expected) in [
            (">f+++++++++ packages/f a.whl", Some(("packages/f a.whl", RemoteState::Nothing))),
            (".f          packages/a.whl", Some(("packages/a.whl", RemoteState::Same))),
            (".f..t...... packages/a.whl", Some(("packages/a.whl", RemoteState::Same))),
            (">fcst...... packages/a.whl", Some(("packages/a.whl", RemoteState::Other))),
            ("<f.st...... a", Some(("a", RemoteState::Other))),
            ("cd+++++++++ packages/f/", None),
            ("*deleting   packages/f", None),
            ("nothing", None),
        ] {
            assert_eq!(compared(line), expected, "{line}");
        }
    }

    #[test]
    fn filters_files_and_their_parents() {
        let layout = filter(&["a/b/c".to_owned(), "a/d".to_owned(), "e".to_owned()]).unwrap();
        let list = fs_err::read_to_string(layout.list().unwrap()).unwrap();
        assert_eq!(list.lines().collect::<Vec<_>>(), ["/a/", "/a/b/", "/a/b/c", "/a/d", "/e"]);
    }

    #[test]
    fn root_ends_with_one_slash() {
        assert_eq!(Rsync::new("host:srv/index").root(), "host:srv/index/");
        assert_eq!(Rsync::new("host:/").root(), "host:/");
        assert_eq!(Rsync::new("/srv").root(), "/srv/");
    }
}
