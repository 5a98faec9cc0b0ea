//! An index that rsync reaches: by a remote shell, or a daemon. Files are compared
//! by rsync's own checksums, so that no package travels for that.

use std::collections::{BTreeMap, BTreeSet};

use super::error::PublishError;
use super::missing;
use super::tool::{Layout, failed, run};
use crate::IndexError;
use crate::place::{Package, Page, Place, Stored};
use rocmrpm_base::process::{Command, Finished};

/// What the other side has under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum There {
    Nothing,
    Same,
    Other,
}

/// A folder that rsync reaches. How it gets there, RSYNC_RSH and ssh's configuration say.
#[derive(Debug)]
pub struct Rsync {
    target: String,
}

impl Rsync {
    /// Returns the place; nothing is asked yet.
    pub fn new(target: &str) -> Self {
        Self { target: target.to_owned() }
    }

    fn fail(&self, finished: &Finished, action: &str) -> PublishError {
        failed("rsync", finished, action, &self.target)
    }

    /// The root, as rsync is to see it: what is in it, not itself.
    fn root(&self) -> String {
        if self.target.ends_with('/') { self.target.clone() } else { format!("{}/", self.target) }
    }

    /// Sends what is in a layout, with the given options.
    fn send(&self, layout: &Layout, options: &[&str], action: &str) -> Result<Finished, PublishError> {
        // Without --keep-dirlinks, a link to a folder there would be replaced by an empty folder.
        let command = Command::new("rsync")
            .args(["--copy-links", "--keep-dirlinks", "--mkpath", "--chmod=D755,F644", "--files-from"])
            .arg(layout.list()?)
            .args(options)
            .arg("--")
            .arg(format!("{}/", layout.tree().display()))
            .arg(self.root());
        let finished = run(command)?;
        if finished.success() { Ok(finished) } else { Err(self.fail(&finished, action)) }
    }

    /// Tells for every path of a layout what the other side has.
    fn compare_layout(&self, layout: &Layout) -> Result<BTreeMap<String, There>, PublishError> {
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
        Ok(lines.lines().filter_map(compared).map(|(path, there)| (path.to_owned(), there)).collect())
    }

    fn compare_now(&self, packages: &[&Package]) -> Result<Vec<There>, PublishError> {
        if packages.is_empty() {
            return Ok(Vec::new());
        }
        let layout = linked(packages)?;
        let found = self.compare_layout(&layout)?;
        // What rsync does not speak of, it does not vouch for.
        Ok(packages.iter().map(|package| found.get(&package.path).copied().unwrap_or(There::Other)).collect())
    }

    /// Brings the files that are there.
    fn fetch(&self, paths: &[String]) -> Result<Layout, PublishError> {
        // By a filter: a list of files below a daemon's module is taken from the wrong folder by
        // rsync 3.5.0 where the module has no chroot.
        let layout = filter(paths)?;
        // Links are followed: without that they are passed over, and their pages would seem not to be
        // there.
        let command = Command::new("rsync")
            .args(["--recursive", "--copy-links"])
            .arg(format!("--include-from={}", layout.list()?.display()))
            .args(["--exclude=*", "--"])
            .arg(self.root())
            .arg(format!("{}/", layout.tree().display()));
        let finished = run(command)?;
        let missing = is_missing_folder(&String::from_utf8_lossy(&finished.stderr));
        if finished.success() || missing { Ok(layout) } else { Err(self.fail(&finished, "read pages of")) }
    }
}

/// Returns whether rsync failed because the folder does not exist, as before the first publishing. Any
/// other failure to enter it must not pass for an empty index.
fn is_missing_folder(stderr: &str) -> bool {
    stderr.lines().any(|line| line.contains("change_dir") && line.contains("No such file"))
}

/// Reads a line of rsync's comparison: a file's path, and what the other side has there. Source:
/// rsync(1), --itemize-changes: YXcstpoguax, where Y is what would be done, X is `f` for a file, and
/// only `+` follows for one that is new.
fn compared(line: &str) -> Option<(&str, There)> {
    let (item, path) = line.split_once(' ')?;
    let there = match item.as_bytes() {
        [b'.', b'f', ..] => There::Same,
        [_, b'f', b'+', ..] => There::Nothing,
        [_, b'f', ..] => There::Other,
        _ => return None,
    };
    Some((path.trim_start(), there))
}

/// Returns a layout whose list is a filter for these files and the folders that they are in.
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

impl Place for Rsync {
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
        let stored = |(package, there): (&Package, There)| match there {
            There::Nothing => Ok(None),
            There::Same => Ok(Some(package.stored)),
            // Only such a one is worth the journey.
            There::Other => {
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
        // Each file is written under another name and renamed; what an interrupted run sent of it
        // waits in a folder beside it.
        let options = ["--ignore-existing", "--partial-dir=.rsync-partial"];
        self.send(&linked(&missing)?, &options, "send files to")?;
        for (package, there) in missing.iter().zip(self.compare_now(&missing)?) {
            if there != There::Same {
                let (place, path) = (self.name(), package.path.clone());
                return Err(PublishError::NotVerified { place, path }.into());
            }
        }
        Ok(())
    }

    fn put_pages(&self, pages: &[Page]) -> Result<(), IndexError> {
        // rsync has an order of its own within a call: there, all files are sent first and renamed
        // together at the end. A page that names other pages lies above them.
        let depth = |page: &Page| page.path.split('/').count();
        for pages in pages.chunk_by(|one, other| depth(one) == depth(other)) {
            let mut layout = Layout::new()?;
            for page in pages {
                layout.write(&page.path, &page.bytes)?;
            }
            self.send(&layout, &["--checksum", "--delay-updates"], "send pages to")?;
            let found = self.compare_layout(&layout)?;
            if let Some(page) = pages.iter().find(|page| found.get(&page.path) != Some(&There::Same)) {
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
        // What the filter names and an empty folder does not have is deleted there; all else is out
        // of the transfer, and so protected (rsync(1), "--delete").
        let layout = filter(paths)?;
        let folders: BTreeSet<&str> = paths.iter().filter_map(|p| Some(p.rsplit_once('/')?.0)).collect();
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
        if finished.success() { Ok(()) } else { Err(self.fail(&finished, "remove files of").into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocmrpm_base::digest::Sha256;
    use rocmrpm_base::error::Diagnose;

    #[test]
    fn packages_and_pages_are_sent_compared_and_removed() {
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

        let page =
            |path: &str, text: &str| Page { path: path.into(), bytes: text.into(), media_type: "text/html" };
        let read = |path: &str| place.read(&[path.to_owned()]).unwrap().remove(0);
        for text in ["one", "two"] {
            let pages = [page("simple/a/index.html", text), page("simple/index.html", text)];
            place.put_pages(&pages).unwrap();
            assert_eq!(pages.map(|page| read(&page.path)), [Some(text.into()), Some(text.into())]);
        }
        place.remove(&["simple/a/index.html".to_owned(), "simple/b".to_owned()]).unwrap();
        assert_eq!((read("simple/a/index.html"), read("simple/index.html")), (None, Some("two".into())));
        assert_eq!(place.stored(&paths).unwrap(), [Some(a.stored), None]);
    }

    #[test]
    fn failures_of_rsync_are_not_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        // A file is in the place of the folder.
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
    fn only_a_missing_folder_passes_for_an_empty_index() {
        let failed =
            |why: &str| is_missing_folder(&format!("rsync: [sender] change_dir \"/srv/x\" failed: {why}\n"));
        assert!(failed("No such file or directory (2)"));
        assert!(!failed("Permission denied (13)"));
        assert!(!failed("Input/output error (5)"));
        assert!(!is_missing_folder("rsync: link_stat \"/srv/x/a\" failed: No such file or directory (2)\n"));
    }

    #[test]
    fn lines_of_a_comparison_name_files_and_what_is_there() {
        for (line, expected) in [
            (">f+++++++++ packages/f a.whl", Some(("packages/f a.whl", There::Nothing))),
            (".f          packages/a.whl", Some(("packages/a.whl", There::Same))),
            (".f..t...... packages/a.whl", Some(("packages/a.whl", There::Same))),
            (">fcst...... packages/a.whl", Some(("packages/a.whl", There::Other))),
            ("<f.st...... a", Some(("a", There::Other))),
            ("cd+++++++++ packages/f/", None),
            ("*deleting   packages/f", None),
            ("nothing", None),
        ] {
            assert_eq!(compared(line), expected, "{line}");
        }
    }

    #[test]
    fn a_filter_names_files_and_the_folders_above_them() {
        let layout = filter(&["a/b/c".to_owned(), "a/d".to_owned(), "e".to_owned()]).unwrap();
        let list = fs_err::read_to_string(layout.list().unwrap()).unwrap();
        assert_eq!(list.lines().collect::<Vec<_>>(), ["/a/", "/a/b/", "/a/b/c", "/a/d", "/e"]);
    }

    #[test]
    fn the_root_is_what_is_in_the_folder() {
        assert_eq!(Rsync::new("host:srv/index").root(), "host:srv/index/");
        assert_eq!(Rsync::new("host:/").root(), "host:/");
        assert_eq!(Rsync::new("/srv").root(), "/srv/");
    }
}
