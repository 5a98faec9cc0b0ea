//! Finds where every needed library comes from: the set itself, the system, or nowhere. The rules
//! judge the result.

pub(super) mod tree;

use std::collections::{HashMap, HashSet};

use self::tree::{Elf, RPMS, Root, Tree, WHEELS};
use super::facts::Subject;
use super::finding::{LibraryOrigin, Need};
use super::libraries;
use super::system::{DEFAULT_FOLDERS, System};
use rocmrpm_base::names::Soname;
use rocmrpm_base::names::normalized;

// JAX's ROCm plugin has 78 entries. A malicious file may have thousands, each of which would be
// searched for each of thousands of needed libraries.
const MAX_FOLDERS: usize = 256;
// How many files are visited, over all programs, to find the libraries that a program's own
// libraries load. Beyond this limit, libraries count as loaded.
const MAX_STEPS: usize = 1 << 20;

/// Finds the origin of every library that the subjects need.
pub(super) fn resolve(subjects: &[Subject], system: &System) -> Vec<Need> {
    let closure = Closure::new(subjects, system);
    let needs = closure.links.iter().map(|link| {
        let elf = &closure.tree.elfs[link.from];
        Need {
            subject: elf.subject.path.clone(),
            file: elf.file.path.clone(),
            library: link.library.to_string(),
            origin: link.origin,
            by: link.by.clone(),
        }
    });
    needs.collect()
}

/// A library that a file needs.
pub(super) struct Link<'a> {
    /// The index of the file that needs it.
    pub(super) from: usize,
    pub(super) library: &'a Soname,
    pub(super) origin: LibraryOrigin,
    /// The index of the file in the set that provides it.
    pub(super) to: Option<usize>,
    /// The file or package that provides it, or, if it is missing, the distribution whose wheel
    /// does.
    pub(super) by: Option<String>,
}

/// The files of a set with the libraries that they need from each other and from the system.
pub(super) struct Closure<'a> {
    pub(super) tree: Tree<'a>,
    /// Sorted by file, then in each file's order.
    pub(super) links: Vec<Link<'a>>,
}

impl<'a> Closure<'a> {
    pub(super) fn new(subjects: &'a [Subject], system: &System) -> Self {
        let tree = Tree::new(subjects);
        let mut sonames = HashMap::new();
        for (index, elf) in tree.elfs.iter().enumerate() {
            sonames.entry(key(elf, elf.soname())).or_insert(index);
        }
        let hosts = tree.elfs.iter().filter_map(|elf| libraries::host(elf.soname()));
        let packages = subjects.iter().filter_map(|subject| subject.package.as_deref());
        let search = Search {
            tree: &tree,
            sonames: &sonames,
            hosts: hosts.map(str::to_owned).chain(packages.map(normalized)).collect(),
            system,
        };
        let mut links = Vec::new();
        let mut asked = Vec::new();
        for (from, elf) in tree.elfs.iter().enumerate() {
            let folders = search.folders(elf);
            for library in &elf.facts.needed {
                let answer = search.find(elf, &folders, library.as_str());
                // A library is usually loaded by a program that has already loaded others: Python
                // and its modules rely on that. Only a program itself comes first.
                if matches!(answer, Resolution::Elsewhere(_)) && elf.facts.interpreter.is_some() {
                    asked.push(links.len());
                }
                links.push(search.link(from, library, answer));
            }
        }
        check_programs(&tree, &mut links, &asked);
        Self { tree, links }
    }

    /// Yields each file with the libraries that it needs.
    pub(super) fn of_files(&self) -> impl Iterator<Item = (&Elf<'a>, &[Link<'a>])> {
        let mut start = 0;
        self.tree.elfs.iter().enumerate().map(move |(index, elf)| {
            let end =
                start + self.links[start..].iter().take_while(|link| link.from == index).count();
            let links = &self.links[start..end];
            start = end;
            (elf, links)
        })
    }
}

/// A library's name, and what determines whether a file can load it: its root and its machine.
type Key<'s> = (&'s str, Root, u8, bool, &'s str);

fn key<'s>(elf: &'s Elf<'_>, soname: &'s str) -> Key<'s> {
    let facts = elf.facts;
    // Folders and single files that are inspected together share their libraries.
    (soname, elf.root.min(WHEELS + 1), facts.bits, facts.big_endian, &facts.machine)
}

enum Resolution {
    /// Found through the file's search paths or in the loader's folders.
    Found(usize),
    /// In the set, but the loader finds it only if something else has loaded it already.
    Elsewhere(usize),
    Package(String),
    Foreign(String),
    /// In the wheel of a distribution that is not in the set.
    OtherWheel(&'static str),
    Missing,
}

struct Search<'s, 'a> {
    tree: &'s Tree<'a>,
    sonames: &'s HashMap<Key<'s>, usize>,
    /// The names of the set's packages, and of the distributions whose libraries it contains.
    hosts: HashSet<String>,
    system: &'s System,
}

impl Search<'_, '_> {
    /// Returns the folders of the set in which the loader searches for a file's libraries, in
    /// search order. Source: ld.so(8).
    fn folders(&self, elf: &Elf<'_>) -> Vec<(Root, String)> {
        let mut folders: Vec<(Root, String)> = Vec::new();
        let own = entries(elf).iter().filter_map(|entry| expand(entry, elf));
        let standard = DEFAULT_FOLDERS.iter().map(|folder| (*folder).to_owned());
        for path in own.take(MAX_FOLDERS).chain(standard).chain(self.system.rocm_folders()) {
            // A wheel environment does not have a fixed location in the file system.
            let roots = if elf.root == WHEELS && path.starts_with('/') {
                [RPMS; 2]
            } else {
                [elf.root, RPMS]
            };
            let (roots, path) = match path.strip_prefix(INSIDE) {
                Some(inside) => ([elf.root; 2], inside),
                None => (roots, path.as_str()),
            };
            for root in roots {
                let folder = self.tree.folder(root, path).map(|folder| (root, folder));
                folders.extend(folder.filter(|folder| !folders.contains(folder)));
            }
        }
        folders
    }

    fn find(&self, elf: &Elf<'_>, folders: &[(Root, String)], library: &str) -> Resolution {
        let suits = |index: &usize| self.tree.elfs[*index].suits(elf);
        if library.contains('/') {
            return self.find_path(elf, library);
        }
        let mut found =
            folders.iter().filter_map(|(root, folder)| self.tree.elf(*root, folder, library));
        if let Some(index) = found.find(suits) {
            return Resolution::Found(index);
        }
        if let Some(package) = self.system.package(library) {
            return Resolution::Package(package.to_owned());
        }
        if let Some(index) = self.sonames.get(&key(elf, library)) {
            return Resolution::Elsewhere(*index);
        }
        if let Some(vendor) = libraries::vendor(library) {
            return Resolution::Foreign(vendor.to_owned());
        }
        if let Some(stem) = libraries::rocm_stem(library) {
            let mut there =
                self.system.rocm.keys().filter(|soname| libraries::rocm_stem(soname) == Some(stem));
            if let Some(there) = there.next() {
                return Resolution::Foreign(format!(
                    "another version of ROCm; {} has {there}",
                    self.system.name
                ));
            }
        }
        match libraries::host(library) {
            // An RPM's requirements cover this case.
            Some(host) if elf.root != RPMS && !self.hosts.contains(host) => {
                Resolution::OtherWheel(host)
            }
            _ => Resolution::Missing,
        }
    }

    /// Finds a library that is needed by path: the loader does not search for it.
    fn find_path(&self, elf: &Elf<'_>, path: &str) -> Resolution {
        let Some((folder, name)) = path.rsplit_once('/').filter(|_| path.starts_with('/')) else {
            return Resolution::Missing;
        };
        let root = if elf.root == WHEELS { RPMS } else { elf.root };
        let found =
            self.tree.folder(root, folder).and_then(|folder| self.tree.elf(root, &folder, name));
        if let Some(index) = found.filter(|index| self.tree.elfs[*index].suits(elf)) {
            return Resolution::Found(index);
        }
        let known = DEFAULT_FOLDERS.contains(&folder)
            || self.system.rocm_folders().iter().any(|f| f == folder);
        match self.system.package(name).filter(|_| known) {
            Some(package) => Resolution::Package(package.to_owned()),
            None => Resolution::Missing,
        }
    }

    fn link<'l>(&self, from: usize, library: &'l Soname, answer: Resolution) -> Link<'l> {
        let path = |index: usize| Some(self.tree.elfs[index].file.path.clone());
        let (origin, to, by) = match answer {
            Resolution::Found(index) | Resolution::Elsewhere(index) => {
                (LibraryOrigin::Own, Some(index), path(index))
            }
            Resolution::Package(package) => (LibraryOrigin::Provided, None, Some(package)),
            Resolution::Foreign(whose) => (LibraryOrigin::Foreign, None, Some(whose)),
            Resolution::OtherWheel(host) => (LibraryOrigin::Missing, None, Some(host.to_owned())),
            Resolution::Missing => (LibraryOrigin::Missing, None, None),
        };
        Link { from, library, origin, to, by }
    }
}

/// Marks libraries of programs as missing if they are in the set but nothing that the program loads
/// also loads them.
fn check_programs(tree: &Tree<'_>, links: &mut [Link<'_>], asked: &[usize]) {
    if asked.is_empty() {
        return;
    }
    let mut edges: Vec<Vec<usize>> = vec![Vec::new(); tree.elfs.len()];
    for (index, link) in links.iter().enumerate() {
        if let Some(to) = link.to.filter(|_| asked.binary_search(&index).is_err()) {
            edges[link.from].push(to);
        }
    }
    let mut steps = 0;
    for index in asked {
        let Some(wanted) = links[*index].to else { continue };
        let mut seen = HashSet::from([links[*index].from]);
        let mut open = vec![links[*index].from];
        while let Some(file) = open.pop().filter(|_| steps < MAX_STEPS) {
            steps += 1 + edges[file].len();
            open.extend(edges[file].iter().filter(|next| seen.insert(**next)));
        }
        if steps < MAX_STEPS && !seen.contains(&wanted) {
            let link = &mut links[*index];
            (link.origin, link.to, link.by) = (LibraryOrigin::Missing, None, None);
        }
    }
}

/// The prefix of paths that start in the file's own root.
const INSIDE: &str = "\0";

/// Returns the search path entries that the loader uses: DT_RPATH only applies if there is no
/// DT_RUNPATH.
pub(super) fn entries<'e>(elf: &Elf<'e>) -> &'e [String] {
    match elf.facts.runpath.is_empty() {
        true => &elf.facts.rpath,
        false => &elf.facts.runpath,
    }
}

/// Returns the folder that an entry refers to; `None` for a relative one. Source: ld.so(8),
/// "Dynamic string tokens".
fn expand(entry: &str, elf: &Elf<'_>) -> Option<String> {
    let lib = if elf.facts.bits == 64 { "lib64" } else { "lib" };
    let entry = entry.replace("${LIB}", lib).replace("$LIB", lib);
    if let Some(rest) = after_origin(&entry) {
        // The location of a single file is unknown.
        return Some(format!("{INSIDE}{}{rest}", elf.folder()));
    }
    entry.starts_with('/').then_some(entry)
}

/// Returns the part after `$ORIGIN` of an entry that starts with it.
pub(super) fn after_origin(entry: &str) -> Option<&str> {
    let rest = ["$ORIGIN", "${ORIGIN}"].iter().find_map(|name| entry.strip_prefix(name))?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{ElfFacts, FileFacts};
    use crate::testing::subject;

    /// A library with this path, these needed libraries, and this RUNPATH.
    pub(super) fn library(path: &str, needed: &[&str], runpath: &[&str]) -> FileFacts {
        let name = path.rsplit('/').next().unwrap();
        let elf = ElfFacts {
            bits: 64,
            machine: "x86_64".into(),
            soname: Some(Soname::new(name)),
            needed: needed.iter().map(|n| Soname::new(*n)).collect(),
            runpath: runpath.iter().map(|r| (*r).to_owned()).collect(),
            ..ElfFacts::default()
        };
        FileFacts { path: path.into(), elf: Some(elf), ..FileFacts::default() }
    }

    fn system() -> System {
        let mut system = System {
            name: "fedora-43".into(),
            rocm_prefix: "/opt/rocm".into(),
            ..System::default()
        };
        system.add("libc.so.6", "glibc");
        system.add("libamdhip64.so.7", "rocm-hip");
        system
    }

    fn answers(subjects: &[Subject]) -> Vec<String> {
        let needs = resolve(subjects, &system());
        let text = |n: &Need| {
            format!("{} {} {} {}", n.file, n.library, n.origin, n.by.as_deref().unwrap_or("-"))
        };
        needs.iter().map(text).collect()
    }

    #[test]
    fn distinguishes_provided_foreign_and_missing_libraries() {
        let needed = [
            "libc.so.6",
            "libamdhip64.so.7",
            "libamdhip64.so.6",
            "libcublas.so.12",
            "libmkl_core.so.2",
            "libx.so",
        ];
        assert_eq!(
            answers(&[subject("a.rpm", vec![library("/usr/lib64/liba.so", &needed, &[])])]),
            [
                "/usr/lib64/liba.so libc.so.6 provided glibc",
                "/usr/lib64/liba.so libamdhip64.so.7 provided rocm-hip",
                "/usr/lib64/liba.so libamdhip64.so.6 foreign another version of ROCm; fedora-43 has libamdhip64.so.7",
                "/usr/lib64/liba.so libcublas.so.12 foreign CUDA (NVIDIA)",
                "/usr/lib64/liba.so libmkl_core.so.2 foreign oneAPI (Intel)",
                "/usr/lib64/liba.so libx.so missing -",
            ]
        );
    }

    #[test]
    fn follows_search_paths_between_wheels() {
        let torch =
            subject("torch-2.whl", vec![library("torch/lib/libc10.so", &["libc.so.6"], &[])]);
        let origin = library("vllm/_C.so", &["libc10.so"], &["$ORIGIN/../torch/lib"]);
        let preloaded = library("vllm/_D.so", &["libc10.so"], &[]);
        assert_eq!(
            answers(&[torch, subject("vllm-1.whl", vec![origin, preloaded])])[1..],
            [
                "vllm/_C.so libc10.so self torch/lib/libc10.so",
                "vllm/_D.so libc10.so self torch/lib/libc10.so"
            ]
        );
    }

    #[test]
    fn names_the_wheel_of_torch() {
        let extension = || subject("x-1.whl", vec![library("x/_C.so", &["libc10.so"], &[])]);
        assert_eq!(answers(&[extension()]), ["x/_C.so libc10.so missing torch"]);
        // If torch is in the set, or if an RPM needs the library, no other wheel is named.
        let torch = subject("torch-2.whl", vec![library("torch/lib/libtorch.so", &[], &[])]);
        assert_eq!(answers(&[extension(), torch]), ["x/_C.so libc10.so missing -"]);
        let rpm = subject("x-1.rpm", vec![library("/usr/lib64/x.so", &["libc10.so"], &[])]);
        assert_eq!(answers(&[rpm]), ["/usr/lib64/x.so libc10.so missing -"]);
    }

    #[test]
    fn shares_only_the_loaders_folders_between_rpms_and_wheels() {
        let rpm = subject(
            "a.rpm",
            vec![
                library("/usr/lib64/libpublic.so", &[], &[]),
                library("/usr/lib64/a/libprivate.so", &[], &[]),
            ],
        );
        let wheel =
            subject("w-1.whl", vec![library("w/_C.so", &["libpublic.so", "libprivate.so"], &[])]);
        assert_eq!(
            answers(&[rpm, wheel]),
            [
                "w/_C.so libpublic.so self /usr/lib64/libpublic.so",
                "w/_C.so libprivate.so missing -"
            ]
        );
    }

    #[test]
    fn finds_only_libraries_that_a_program_loads() {
        let mut program = library("/usr/bin/p", &["libprivate.so"], &[]);
        program.elf.as_mut().unwrap().interpreter = Some("/lib64/ld-linux-x86-64.so.2".into());
        let private = library("/usr/lib64/p/libprivate.so", &[], &[]);
        let lost = answers(&[subject("p.rpm", vec![program.clone(), private.clone()])]);
        assert_eq!(lost, ["/usr/bin/p libprivate.so missing -"]);
        let helper = library("/usr/lib64/libhelper.so", &["libprivate.so"], &["$ORIGIN/p"]);
        program.elf.as_mut().unwrap().needed.insert(0, Soname::new("libhelper.so"));
        let found = answers(&[subject("p.rpm", vec![program, private, helper])]);
        assert_eq!(found[1], "/usr/bin/p libprivate.so self /usr/lib64/p/libprivate.so");
    }

    #[test]
    fn expands_lib_by_the_class_of_the_file() {
        for (bits, folder) in [(64, "/opt/x/lib64"), (32, "/opt/x/lib")] {
            let mut file = library("/usr/lib64/x.so", &[], &[]);
            file.elf.as_mut().unwrap().bits = bits;
            let subjects = [subject("x-1.rpm", vec![file])];
            let tree = Tree::new(&subjects);
            for entry in ["/opt/x/$LIB", "/opt/x/${LIB}"] {
                assert_eq!(expand(entry, &tree.elfs[0]).as_deref(), Some(folder), "{bits}");
            }
        }
    }

    #[test]
    fn uses_rpath_without_runpath() {
        let private = library("/opt/a/libprivate.so", &[], &[]);
        let mut program = library("/usr/bin/p", &["libprivate.so"], &[]);
        let elf = program.elf.as_mut().unwrap();
        elf.interpreter = Some("/lib64/ld-linux-x86-64.so.2".into());
        elf.rpath = vec!["/opt/a".into()];
        let answer = |program: &FileFacts| {
            answers(&[subject("p.rpm", vec![private.clone(), program.clone()])])
        };
        assert_eq!(answer(&program), ["/usr/bin/p libprivate.so self /opt/a/libprivate.so"]);
        program.elf.as_mut().unwrap().runpath = vec!["/opt/b".into()];
        assert_eq!(answer(&program), ["/usr/bin/p libprivate.so missing -"]);
    }

    #[test]
    fn ignores_files_for_other_machines() {
        let mut other = library("/usr/lib64/libx.so", &[], &[]);
        other.elf.as_mut().unwrap().bits = 32;
        let set = [subject("a.rpm", vec![library("/usr/lib64/liba.so", &["libx.so"], &[]), other])];
        assert_eq!(answers(&set), ["/usr/lib64/liba.so libx.so missing -"]);
    }

    #[test]
    fn searches_needed_paths_directly() {
        let needed = [
            "/opt/rocm/lib/libamdhip64.so.7",
            "/opt/x/libc.so.6",
            "/usr/lib64/libb.so",
            "./libb.so",
            "/usr/lib64/libc.so.6",
        ];
        let set = [subject(
            "a.rpm",
            vec![
                library("/usr/lib64/liba.so", &needed, &[]),
                library("/usr/lib64/libb.so", &[], &[]),
            ],
        )];
        let origins: Vec<_> = resolve(&set, &system()).iter().map(|need| need.origin).collect();
        let expected = [
            LibraryOrigin::Provided,
            LibraryOrigin::Missing,
            LibraryOrigin::Own,
            LibraryOrigin::Missing,
            LibraryOrigin::Provided,
        ];
        assert_eq!(origins, expected);
    }

    #[test]
    fn ignores_the_needs_of_debugging_data_and_gpu_code() {
        let mut gpu = library("/usr/lib64/a.co", &["libx.so"], &[]);
        gpu.elf.as_mut().unwrap().machine = "amdgpu".into();
        let mut debug = library("/usr/lib/debug/a.debug", &["libx.so"], &[]);
        debug.elf.as_mut().unwrap().debug = true;
        let info = subject("a-debuginfo.rpm", vec![library("/usr/lib/debug/b", &["libx.so"], &[])]);
        assert_eq!(answers(&[subject("a.rpm", vec![gpu, debug]), info]), [""; 0]);
    }

    #[test]
    fn answers_a_hundred_thousand_needs() {
        let paths: Vec<String> = (0..64).map(|n| format!("$ORIGIN/d{n}")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let names: Vec<String> = (0..100).map(|n| format!("lib{n}.so")).collect();
        let needed: Vec<&str> = names.iter().map(String::as_str).collect();
        let files =
            (0..1000).map(|n| library(&format!("/opt/lib{n}.so"), &needed, &paths)).collect();
        assert_eq!(answers(&[subject("a.rpm", files)]).len(), 100_000);
    }
}
