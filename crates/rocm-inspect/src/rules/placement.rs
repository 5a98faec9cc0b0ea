//! Determines where the files of a set are after installation: which of them are next to each
//! other, and where a path relative to one of them leads. It does not judge them.

use std::collections::BTreeMap;

use crate::facts::{FileFacts, Subject, SubjectKind};

/// How many symbolic links are followed in a row, as in Linux.
const MAX_LINKS: usize = 40;

/// How to interpret a subject's paths.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Placement {
    /// The tree. Subjects of the same tree are installed together.
    tree: Tree,
    /// The prefix of the subject's paths.
    before: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Tree {
    /// RPMs, whose paths are absolute.
    System,
    /// Wheels, all below the same site-packages.
    Modules,
    /// Folders and files, at their location on this machine.
    Disk,
    /// A separate archive.
    Alone(String),
}

impl Placement {
    pub(super) fn of(subject: &Subject) -> Self {
        let (tree, before) = match subject.kind {
            SubjectKind::Rpm => (Tree::System, String::new()),
            SubjectKind::Wheel => (Tree::Modules, String::new()),
            SubjectKind::Folder => (Tree::Disk, subject.path.clone()),
            // The subject is itself the only file.
            SubjectKind::File => {
                let folder = subject.path.rsplit_once('/').map_or("", |(folder, _)| folder);
                (Tree::Disk, folder.to_owned())
            }
            SubjectKind::Tar => (Tree::Alone(subject.path.clone()), String::new()),
        };
        Self { tree, before }
    }

    /// Returns the installed path of one of the subject's paths.
    pub(super) fn path(&self, path: &str) -> Full {
        let path =
            if self.tree == Tree::Modules { module_path(SubjectKind::Wheel, path) } else { path };
        match self.before.as_str() {
            "" => Full(normal(path)),
            before => Full(normal(&format!("{before}/{path}"))),
        }
    }
}

/// A normalized path in its tree.
pub(super) struct Full(String);

impl Full {
    /// Returns the path of `relative` as seen from this file's folder.
    pub(super) fn resolve(&self, relative: &str) -> String {
        if relative.starts_with('/') {
            return normal(relative);
        }
        let folder = self.0.rsplit_once('/').map_or("", |(folder, _)| folder);
        let absolute = self.0.starts_with('/');
        normal(&format!(
            "{folder}{}{relative}",
            if folder.is_empty() && !absolute { "" } else { "/" }
        ))
    }
}

/// What is at a path.
#[derive(Clone, Copy)]
pub(super) struct InstalledFile<'a> {
    /// The file, if it was inspected.
    pub(super) file: Option<&'a FileFacts>,
}

/// All paths of a set.
pub(super) struct Installed<'a> {
    places: BTreeMap<(Tree, String), InstalledFile<'a>>,
    /// Symbolic links and their targets.
    links: BTreeMap<(Tree, String), String>,
}

impl<'a> Installed<'a> {
    pub(super) fn new(subjects: &'a [Subject]) -> Self {
        let (mut places, mut links) = (BTreeMap::new(), BTreeMap::new());
        for subject in subjects.iter().filter(|subject| !subject.debug) {
            let placement = Placement::of(subject);
            for path in &subject.contents.paths {
                let key = (placement.tree.clone(), placement.path(path).0);
                places.entry(key).or_insert(InstalledFile { file: None });
            }
            for file in &subject.files {
                let key = (placement.tree.clone(), placement.path(&file.path).0);
                places.insert(key, InstalledFile { file: Some(file) });
            }
            for (link, target) in &subject.contents.links {
                let full = placement.path(link);
                let target = full.resolve(target);
                links.insert((placement.tree.clone(), full.0), target);
            }
        }
        Self { places, links }
    }

    /// Returns what is at the path, following symbolic links to files.
    pub(super) fn at(&self, placement: &Placement, path: &str) -> Option<InstalledFile<'a>> {
        let mut key = (placement.tree.clone(), path.to_owned());
        for _ in 0..MAX_LINKS {
            if let Some(place) = self.places.get(&key) {
                return Some(*place);
            }
            key.1 = self.links.get(&key)?.clone();
        }
        None
    }

    /// Yields everything whose path starts with `start`, including links to files.
    pub(super) fn starting<'b>(
        &'b self,
        placement: &'b Placement,
        start: &'b str,
    ) -> impl Iterator<Item = (&'b str, InstalledFile<'a>)> {
        let from = (placement.tree.clone(), start.to_owned());
        let here = move |key: &(Tree, String)| key.0 == placement.tree && key.1.starts_with(start);
        let places = self.places.range(from.clone()..).take_while(move |(key, _)| here(key));
        let links = self.links.range(from..).take_while(move |(key, _)| here(key));
        let links =
            links.filter_map(|(key, _)| Some((key.1.as_str(), self.at(placement, &key.1)?)));
        places.map(|(key, place)| (key.1.as_str(), *place)).chain(links)
    }
}

/// Removes `.`, empty components, and `..` together with the preceding component.
fn normal(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if absolute => {}
            part => parts.push(part),
        }
    }
    format!("{}{}", if absolute { "/" } else { "" }, parts.join("/"))
}

/// Returns a path relative to site-packages: in wheels without the `.data` folder, otherwise the
/// part after `site-packages` or `dist-packages`.
pub(super) fn module_path(kind: SubjectKind, path: &str) -> &str {
    if kind == SubjectKind::Wheel {
        // Source: the binary distribution format, "The .data directory".
        let mut parts = path.splitn(3, '/');
        return match (parts.next(), parts.next(), parts.next()) {
            (Some(data), Some("purelib" | "platlib"), Some(rest)) if data.ends_with(".data") => {
                rest
            }
            _ => path,
        };
    }
    let below = ["/site-packages/", "/dist-packages/"];
    below.iter().find_map(|folder| path.split_once(folder)).map_or(path, |(_, below)| below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::subject;

    #[test]
    fn normalizes_paths() {
        for (path, wanted) in [
            ("/a/./b/../c//d", "/a/c/d"),
            ("a/../../b", "../b"),
            ("/../../a", "/a"),
            ("../../a/..", "../.."),
            ("", ""),
            (".kpack/x", ".kpack/x"),
        ] {
            assert_eq!(normal(path), wanted, "{path}");
        }
    }

    #[test]
    fn resolves_paths_relative_to_the_file() {
        let rpm = Placement::of(&subject("a.rpm", vec![]));
        let lib = rpm.path("/usr/lib64/rocm/lib/libk.so");
        assert_eq!(lib.resolve("../.kpack/k.kpack"), "/usr/lib64/rocm/.kpack/k.kpack");
        assert_eq!(lib.resolve("/opt/k.kpack"), "/opt/k.kpack");
        let wheel = Placement::of(&subject("a.whl", vec![]));
        assert_eq!(wheel.path("libk.so").resolve(".kpack/k"), ".kpack/k");
        assert_eq!(wheel.path("a-1.data/platlib/k/libk.so").resolve("../.kpack/k"), ".kpack/k");
        let folder = Placement::of(&subject("/work/out", vec![]));
        assert_eq!(folder.path("lib/libk.so").resolve("../k"), "/work/out/k");
        assert_eq!(rpm.path("/libk.so").resolve("k"), "/k");
    }

    #[test]
    fn follows_links_and_stops_at_loops() {
        let mut rpm = subject("a.rpm", vec![]);
        rpm.contents.paths.insert("/k/real".into());
        for (link, target) in [("/k/a", "b"), ("/k/b", "../k/real"), ("/k/x", "y"), ("/k/y", "x")] {
            rpm.contents.links.insert(link.into(), target.into());
        }
        let (subjects, placement) = ([rpm], Placement::of(&subject("b.rpm", vec![])));
        let installed = Installed::new(&subjects);
        assert!(installed.at(&placement, "/k/a").is_some());
        assert!(installed.at(&placement, "/k/x").is_none());
        let found: Vec<_> = installed.starting(&placement, "/k/").map(|(path, _)| path).collect();
        assert_eq!(found, ["/k/real", "/k/a", "/k/b"]);
        assert_eq!(installed.starting(&Placement::of(&subject("b.whl", vec![])), "/k/").count(), 0);
    }
}
