//! Models where the files of a set are located after installation, and resolves paths there,
//! including symbolic links. It does not know what the loader searches for.

use std::collections::{HashMap, HashSet};

use crate::facts::{ElfFacts, ElfKind, FileFacts, Subject, SubjectKind};

/// A file tree that the packages of one kind share. RPMs share the root folder and wheels share one
/// environment; each folder or single file has its own.
pub(crate) type Root = usize;

/// The root folder, shared by all RPMs.
pub(crate) const RPMS: Root = 0;
/// The environment into which all wheels are installed.
pub(crate) const WHEELS: Root = 1;

/// Where an environment's modules are located; the Python version does not matter.
pub(crate) const SITE_PACKAGES: &str = "/lib/python3/site-packages";
// Linux limits the links in one path (MAXSYMLINKS) and the length of a path.
const MAX_LINKS: usize = 40;
const MAX_PATH: usize = 4096;

/// An ELF file that the loader could load.
pub(crate) struct Elf<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) file: &'a FileFacts,
    pub(crate) facts: &'a ElfFacts,
    pub(crate) root: Root,
    /// Its path below its root.
    pub(crate) place: String,
}

impl Elf<'_> {
    /// Returns the folder that contains it.
    pub(crate) fn folder(&self) -> &str {
        self.place.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// Returns the name by which other files need it.
    pub(crate) fn soname(&self) -> &str {
        let name = || self.place.rsplit('/').next().unwrap_or_default();
        self.facts.soname.as_ref().map_or_else(name, |soname| soname.as_str())
    }

    /// Returns whether one process can load both.
    pub(crate) fn suits(&self, other: &Self) -> bool {
        let machine = |elf: &Self| (elf.facts.bits, elf.facts.big_endian);
        machine(self) == machine(other) && self.facts.machine == other.facts.machine
    }
}

enum InstalledEntry {
    Elf(usize),
    Link(String),
    Other,
}

/// All files of a set at their installed locations.
pub(crate) struct Tree<'a> {
    /// The ELF files, in the order of subjects and files.
    pub(crate) elfs: Vec<Elf<'a>>,
    entries: HashMap<(Root, String), InstalledEntry>,
    folders: HashSet<(Root, String)>,
    links: bool,
}

impl<'a> Tree<'a> {
    pub(crate) fn new(subjects: &'a [Subject]) -> Self {
        let (entries, folders) = (HashMap::new(), HashSet::new());
        let mut tree = Self { elfs: Vec::new(), entries, folders, links: false };
        for (index, subject) in subjects.iter().enumerate().filter(|(_, subject)| !subject.debug) {
            let root = match subject.kind {
                SubjectKind::Rpm => RPMS,
                SubjectKind::Wheel => WHEELS,
                _ => index + 2,
            };
            for path in &subject.contents.paths {
                tree.insert(root, installed(subject, path), InstalledEntry::Other);
            }
            for (path, target) in &subject.contents.links {
                tree.links = true;
                tree.insert(root, installed(subject, path), InstalledEntry::Link(target.clone()));
            }
            for file in &subject.files {
                let place = installed(subject, &file.path);
                let facts = file.elf.as_ref().filter(|elf| is_loadable(elf));
                // The loader finds nothing inside an archive, and such files find nothing outside
                // of it.
                let archives = &subject.contents.archives;
                let packed = archives.iter().any(|archive| is_below(&file.path, archive));
                let root = if packed { index + 2 } else { root };
                let Some(facts) = facts else {
                    tree.insert(root, place, InstalledEntry::Other);
                    continue;
                };
                tree.insert(root, place.clone(), InstalledEntry::Elf(tree.elfs.len()));
                tree.elfs.push(Elf { subject, file, facts, root, place });
            }
        }
        tree
    }

    fn insert(&mut self, root: Root, place: String, entry: InstalledEntry) {
        let mut folder = place.as_str();
        while let Some((parent, _)) = folder.rsplit_once('/') {
            // If a folder is known, so are its parents.
            if !self.folders.insert((root, parent.to_owned())) {
                break;
            }
            folder = parent;
        }
        // The list of paths includes the ELF files, and the same path in two packages is one file:
        // the first known ELF file wins.
        let known = self.entries.get(&(root, place.clone()));
        if !matches!(
            (known, &entry),
            (Some(InstalledEntry::Elf(_)), _) | (Some(_), InstalledEntry::Other)
        ) {
            self.entries.insert((root, place), entry);
        }
    }

    /// Returns the folder that a path leads to, if it is in the set.
    pub(crate) fn folder(&self, root: Root, path: &str) -> Option<String> {
        let path = normal(root, path)?;
        let place = self.follow(root, path, &mut 0)?;
        self.folders.contains(&(root, place.clone())).then_some(place)
    }

    /// Returns the index of the ELF file with this name in a folder that [`Tree::folder`] returned.
    pub(crate) fn elf(&self, root: Root, folder: &str, name: &str) -> Option<usize> {
        let place = self.follow(root, format!("{folder}/{name}"), &mut 0)?;
        match self.entries.get(&(root, place)) {
            Some(InstalledEntry::Elf(index)) => Some(*index),
            _ => None,
        }
    }

    /// Follows the links in a normalized path, including those of its folders.
    fn follow(&self, root: Root, path: String, links: &mut usize) -> Option<String> {
        if !self.links {
            return Some(path);
        }
        let mut place = String::new();
        let reversed = |path: &str| {
            path.rsplit('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
        };
        let mut rest: Vec<String> = reversed(&path);
        while let Some(part) = rest.pop() {
            let next = format!("{place}/{part}");
            let Some(InstalledEntry::Link(target)) = self.entries.get(&(root, next.clone())) else {
                place = next;
                continue;
            };
            *links += 1;
            if *links > MAX_LINKS {
                return None;
            }
            let target = match target.starts_with('/') {
                true => target.clone(),
                false => format!("{place}/{target}"),
            };
            let target = normal(root, &target)?;
            place.clear();
            rest.append(&mut reversed(&target));
        }
        Some(place)
    }
}

/// Returns whether a path is inside a folder.
pub(crate) fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns whether the loader could load this file.
fn is_loadable(elf: &ElfFacts) -> bool {
    !elf.debug && elf.machine != "amdgpu" && elf.kind != ElfKind::Relocatable
}

/// Returns the installed path of a subject's file, below its root.
fn installed(subject: &Subject, path: &str) -> String {
    let path = match subject.kind {
        SubjectKind::Rpm => format!("/{path}"),
        SubjectKind::Wheel => in_environment(path),
        _ => format!("/{path}"),
    };
    let root = if subject.kind == SubjectKind::Rpm { RPMS } else { WHEELS };
    normal(root, &path).unwrap_or_default()
}

/// Returns where an installer puts a file of a wheel. Source: binary distribution format, "The
/// .data directory".
fn in_environment(path: &str) -> String {
    let data = path.split_once('/').filter(|(folder, _)| folder.ends_with(".data"));
    match data.and_then(|(_, rest)| rest.split_once('/')) {
        Some(("purelib" | "platlib", rest)) => format!("{SITE_PACKAGES}/{rest}"),
        Some(("scripts", rest)) => format!("/bin/{rest}"),
        Some(("data", rest)) => format!("/{rest}"),
        _ => format!("{SITE_PACKAGES}/{path}"),
    }
}

/// Resolves `.` and `..` textually; `None` for a path that is too long for Linux. For RPMs,
/// `/lib64` is a link to `/usr/lib64`, as on every Fedora.
pub(crate) fn normal(root: Root, path: &str) -> Option<String> {
    if path.len() > MAX_PATH {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let merged = root == RPMS && matches!(parts.first(), Some(&("lib" | "lib64" | "bin" | "sbin")));
    let start = if merged { "/usr" } else { "" };
    Some(parts.iter().fold(start.to_owned(), |path, part| path + "/" + part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::subject;

    fn elf(path: &str) -> FileFacts {
        FileFacts { path: path.into(), elf: Some(ElfFacts::default()), ..FileFacts::default() }
    }

    #[test]
    fn follows_links_of_files_and_folders() {
        let mut rpm = subject("a.rpm", vec![elf("/opt/rocm-7/lib/liba.so.1.2")]);
        for (link, target) in [
            ("/opt/rocm", "rocm-7"),
            ("/opt/rocm-7/lib/liba.so.1", "liba.so.1.2"),
            ("/usr/lib64/liba.so.1", "../../opt/rocm/lib/liba.so.1"),
            ("/opt/loop", "/opt/loop"),
            ("/opt/gone", "/nowhere"),
        ] {
            rpm.contents.links.insert(link.into(), target.into());
        }
        let subjects = [rpm];
        let tree = Tree::new(&subjects);
        let folder = tree.folder(RPMS, "/opt/rocm/lib/../lib").unwrap();
        assert_eq!(folder, "/opt/rocm-7/lib");
        assert_eq!(tree.elf(RPMS, &folder, "liba.so.1"), Some(0));
        assert_eq!(tree.elf(RPMS, "/usr/lib64", "liba.so.1"), Some(0));
        assert_eq!(tree.elf(RPMS, &folder, "liba.so.2"), None);
        for gone in ["/opt/loop", "/opt/gone", "/opt/rocm-6"] {
            assert_eq!(tree.folder(RPMS, gone), None, "{gone}");
        }
        assert_eq!(tree.folder(RPMS, &"/x".repeat(4000)), None);
    }

    #[test]
    fn installs_wheels_into_one_environment() {
        let wheels = [
            subject("a-1.whl", vec![elf("torch/lib/liba.so")]),
            subject(
                "b-1.whl",
                vec![elf("b-1.data/platlib/b/libb.so"), elf("b-1.data/data/lib/libc.so")],
            ),
        ];
        let tree = Tree::new(&wheels);
        let folder =
            tree.folder(WHEELS, &format!("{}/../torch/lib", tree.elfs[1].folder())).unwrap();
        assert_eq!(tree.elf(WHEELS, &folder, "liba.so"), Some(0));
        assert_eq!(tree.elfs[2].place, "/lib/libc.so");
    }

    #[test]
    fn ignores_files_inside_archives() {
        let mut folder =
            subject("folder", vec![elf("a.zip/liba.so"), elf("a.zip.d/libb.so"), elf("libc.so")]);
        folder.contents.archives.insert("a.zip".into());
        let mut wheel = subject("a-1.whl", vec![elf("a/x.zip/liba.so"), elf("a/libb.so")]);
        wheel.contents.archives.insert("a/x.zip".into());
        let subjects = [folder, wheel];
        let tree = Tree::new(&subjects);
        let roots: Vec<Root> = tree.elfs.iter().map(|elf| elf.root).collect();
        assert_eq!(roots, [2, 2, 2, 3, WHEELS]);
        for (path, folder, below) in
            [("/a/b", "/a", true), ("/a", "/a", false), ("/ab", "/a", false), ("/b/a", "/a", false)]
        {
            assert_eq!(is_below(path, folder), below, "{path} {folder}");
        }
    }

    #[test]
    fn merges_the_library_folders_of_rpms() {
        let rpms = [subject("a.rpm", vec![elf("/lib64/liba.so")])];
        let tree = Tree::new(&rpms);
        assert_eq!(tree.elf(RPMS, &tree.folder(RPMS, "/usr/lib64").unwrap(), "liba.so"), Some(0));
    }
}
