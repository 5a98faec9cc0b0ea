//! Follows the loader's search for the ELF files of an installed wheel, among the wheel's members:
//! how they find each other and what they need from outside. It does not decide what is allowed.
//!
//! Source: ld.so(8), "DESCRIPTION"; glibc, `elf/dl-load.c` (`_dl_map_new_object`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter::successors;

use rocm_inspect::{ElfFacts, ElfKind};

use super::manylinux;

/// Upper bound on all look-ups together, beyond which [`follow`] gives up on a wheel.
const MAX_STEPS: usize = if cfg!(test) { 100_000 } else { 4_000_000 };

/// The linkage of an ELF file for a processor that runs Python. GPU code objects are ELF files too,
/// but only data to a wheel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Elf {
    /// The architecture, in the spelling of `uname -m`.
    pub arch: &'static str,
    /// The undefined symbols that belong to Python's C API.
    pub python: BTreeSet<String>,
    /// The first manylinux policy that allows its symbols.
    pub policy: Option<u32>,
    /// Whether the loader can load it: it is neither an object file nor debugging data.
    loadable: bool,
    soname: Option<String>,
    needed: Vec<String>,
    /// Libraries that its notes declare as possible `dlopen` targets.
    opens: Vec<String>,
    rpath: Vec<String>,
    runpath: Vec<String>,
}

impl Elf {
    /// Extracts the linkage; `sound` is whether the whole file was readable.
    pub fn new(facts: ElfFacts, sound: bool) -> Option<Self> {
        let arch = match facts.machine.as_str() {
            "x86_64" => "x86_64",
            "aarch64" => "aarch64",
            "i386" => "i686",
            "ppc64le" => "ppc64le",
            "riscv64" => "riscv64",
            "s390x" => "s390x",
            _ => return None,
        };
        let loadable = matches!(facts.kind, ElfKind::Shared | ElfKind::Executable) && !facts.debug;
        let ignored = facts.kind == ElfKind::Relocatable || facts.debug;
        let policy = match (sound && loadable, ignored) {
            (_, true) => manylinux::first(arch),
            (true, _) => manylinux::symbols(arch, &facts),
            (false, _) => None,
        };
        let python = facts.symbols.undefined.iter().filter(|name| is_python(name));
        Some(Self {
            arch,
            python: python.map(ToString::to_string).collect(),
            policy,
            loadable,
            soname: facts.soname.map(|soname| soname.as_str().to_owned()),
            needed: facts.needed.iter().map(|soname| soname.as_str().to_owned()).collect(),
            opens: facts.dlopen_notes,
            rpath: if facts.runpath.is_empty() { facts.rpath } else { Vec::new() },
            runpath: facts.runpath,
        })
    }

    /// Returns whether the loader can load it.
    pub fn is_loadable(&self) -> bool {
        self.loadable
    }

    /// Returns the SONAME, if there is one.
    pub fn soname(&self) -> Option<&str> {
        self.soname.as_deref()
    }

    /// Returns the SONAMEs of the libraries it links to.
    pub fn needed(&self) -> impl Iterator<Item = &str> {
        self.needed.iter().map(String::as_str)
    }

    /// Returns the libraries that its notes declare as possible `dlopen` targets.
    pub fn opens(&self) -> impl Iterator<Item = &str> {
        self.opens.iter().map(String::as_str)
    }

    /// Returns the effective entries of RPATH or RUNPATH.
    pub fn search_path(&self) -> impl Iterator<Item = &str> {
        self.rpath.iter().chain(&self.runpath).map(String::as_str)
    }
}

/// Returns whether a name is reserved for Python: `Py` or `_Py` followed by a capital letter or
/// `_`. C++ names are mangled and start with `_Z`.
fn is_python(name: &str) -> bool {
    let rest = name.strip_prefix('_').unwrap_or(name).strip_prefix("Py");
    rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase() || c == '_'))
}

/// The folder that an entry of RPATH or RUNPATH refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Folder {
    /// A path below site-packages, or below a scheme's folder in `.data`.
    Inside(String),
    /// A folder above site-packages.
    Above,
    /// An absolute path, independent of the environment.
    Absolute,
    /// Unpredictable: the current folder, or a variable of the loader.
    Unknown,
}

/// Returns the folder that an entry refers to in the search path of the member `file`.
pub(super) fn folder(file: &str, entry: &str) -> Folder {
    let below = ["$ORIGIN", "${ORIGIN}"].iter().find_map(|origin| entry.strip_prefix(origin));
    let below = match below {
        Some(below) if below.is_empty() || below.starts_with('/') => below,
        None if entry.starts_with('/') => return Folder::Absolute,
        _ => return Folder::Unknown,
    };
    if below.contains('$') {
        return Folder::Unknown;
    }
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    // Installers put each scheme of a `.data` folder in a place of its own.
    let fixed =
        if file.split('/').next().is_some_and(|top| top.ends_with(".data")) { 2 } else { 0 };
    for part in below.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.len() <= fixed => return Folder::Above,
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    Folder::Inside(parts.join("/"))
}

/// The result of loading a file of the wheel.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub root: String,
    /// The libraries needed from outside the wheel, by SONAME.
    pub outside: BTreeMap<String, Outside>,
    /// The libraries that loaded files may open, each with one such file.
    pub opens: BTreeMap<String, String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outside {
    /// The first file that needs it.
    pub file: String,
    /// The folders of AMD's wheels that the loader searches for it.
    pub searched: Vec<String>,
}

/// Follows the loader for every file, except for libraries that another file already loads. Returns
/// `None` if that exceeds `MAX_STEPS`.
pub(super) fn follow(files: &BTreeMap<String, Elf>) -> Option<Vec<Load>> {
    let needed: BTreeSet<&str> =
        files.values().flat_map(|elf| &elf.needed).map(String::as_str).collect();
    let named = |path: &str, elf: &Elf| {
        needed.contains(base(path))
            || elf.soname.as_deref().is_some_and(|soname| needed.contains(soname))
    };
    let (mut loads, mut seen, mut steps) = (Vec::new(), BTreeSet::new(), 0);
    // Libraries that only need each other are roots of their own in the second pass.
    for libraries in [false, true] {
        for (path, elf) in files.iter().filter(|(_, elf)| elf.loadable) {
            if named(path, elf) == libraries && !(libraries && seen.contains(path.as_str())) {
                loads.push(load(files, path, &mut seen, &mut steps)?);
            }
        }
    }
    Some(loads)
}

fn load<'a>(
    files: &'a BTreeMap<String, Elf>,
    root: &'a str,
    seen: &mut BTreeSet<&'a str>,
    steps: &mut usize,
) -> Option<Load> {
    let mut load = Load { root: root.to_owned(), ..Load::default() };
    let mut names = BTreeSet::new();
    // Each file, with the index of the file that loads it.
    let mut order: Vec<(&str, Option<usize>)> = vec![(root, None)];
    let mut queue = VecDeque::from([0]);
    while let Some(at) = queue.pop_front() {
        let (path, _) = order[at];
        let Some(elf) = files.get(path) else { continue };
        seen.insert(path);
        names.extend([base(path)].into_iter().chain(elf.soname.as_deref()));
        for opened in &elf.opens {
            load.opens.entry(opened.clone()).or_insert_with(|| path.to_owned());
        }
        for wanted in &elf.needed {
            *steps += 1;
            if *steps > MAX_STEPS {
                return None;
            }
            if !names.insert(wanted) {
                continue;
            }
            let above =
                successors(Some(at), |at| order[*at].1).take_while(|_| elf.runpath.is_empty());
            let handed_down = above.flat_map(|at| {
                let (its, _) = order[at];
                files.get(its).into_iter().flat_map(|elf| &elf.rpath).map(move |entry| (its, entry))
            });
            let mut searched = Vec::new();
            let mut found = None;
            for (its, entry) in handed_down.chain(elf.runpath.iter().map(|entry| (path, entry))) {
                *steps += 1;
                if *steps > MAX_STEPS {
                    return None;
                }
                let Folder::Inside(folder) = folder(its, entry) else { continue };
                let file =
                    if folder.is_empty() { wanted.clone() } else { format!("{folder}/{wanted}") };
                let fits = |(_, other): &(&String, &Elf)| other.loadable && other.arch == elf.arch;
                found = files.get_key_value(&file).filter(fits);
                if found.is_some() {
                    break;
                }
                if folder.starts_with("_rocm_sdk_") {
                    searched.push(folder);
                }
            }
            match found {
                Some((file, _)) => {
                    queue.push_back(order.len());
                    order.push((file, Some(at)));
                }
                None => {
                    load.outside
                        .insert(wanted.clone(), Outside { file: path.to_owned(), searched });
                }
            }
        }
    }
    Some(load)
}

/// Returns the manylinux policy that all files allow. A library of another wheel counts like any
/// library that is missing from the policy's list.
pub(super) fn policy(files: &BTreeMap<String, Elf>, loads: Option<&[Load]>) -> Option<u32> {
    let mut policy = 0;
    for elf in files.values() {
        policy = policy.max(elf.policy?);
    }
    for soname in loads?.iter().flat_map(|load| load.outside.keys()) {
        policy = policy.max(manylinux::library(soname)?);
    }
    Some(policy)
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocmrpm_base::names::Soname;

    fn elf(needed: &[&str], rpath: &[&str], runpath: &[&str]) -> Elf {
        let owned =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let facts = ElfFacts {
            machine: "x86_64".to_owned(),
            kind: ElfKind::Shared,
            needed: needed.iter().map(|name| Soname::new(*name)).collect(),
            rpath: owned(rpath),
            runpath: owned(runpath),
            ..ElfFacts::default()
        };
        Elf::new(facts, true).unwrap()
    }

    fn wheel(files: &[(&str, Elf)]) -> BTreeMap<String, Elf> {
        files.iter().map(|(path, elf)| ((*path).to_owned(), elf.clone())).collect()
    }

    /// Returns what each root needs from outside.
    fn outside(files: &[(&str, Elf)]) -> Vec<(String, Vec<String>)> {
        let loads = follow(&wheel(files)).unwrap();
        loads.into_iter().map(|load| (load.root, load.outside.into_keys().collect())).collect()
    }

    #[test]
    fn recognizes_names_of_python() {
        for (name, expected) in [
            ("PyInit_x", true),
            ("_Py_NoneStruct", true),
            ("Py_BuildValue", true),
            ("Pystone", false),
            ("_ZN2PyE", false),
            ("CPy_x", false),
            ("Py", false),
        ] {
            assert_eq!(is_python(name), expected, "{name}");
        }
    }

    #[test]
    fn resolves_search_path_entries() {
        let inside = |path: &str| Folder::Inside(path.to_owned());
        for (file, entry, expected) in [
            ("a/b/_C.so", "$ORIGIN", inside("a/b")),
            ("a/b/_C.so", "${ORIGIN}/../lib/.", inside("a/lib")),
            ("a/b/_C.so", "$ORIGIN/../..", inside("")),
            ("a/b/_C.so", "$ORIGIN/../../..", Folder::Above),
            ("_C.so", "$ORIGIN/..", Folder::Above),
            ("a.data/data/lib/x", "$ORIGIN/../share", inside("a.data/data/share")),
            ("a.data/data/lib/x", "$ORIGIN/../../a", Folder::Above),
            ("a/_C.so", "/opt/rocm/lib", Folder::Absolute),
            ("a/_C.so", "", Folder::Unknown),
            ("a/_C.so", "lib", Folder::Unknown),
            ("a/_C.so", "$ORIGINAL/lib", Folder::Unknown),
            ("a/_C.so", "$ORIGIN/$LIB", Folder::Unknown),
        ] {
            assert_eq!(folder(file, entry), expected, "{file} {entry}");
        }
    }

    #[test]
    fn inherits_rpath_but_not_runpath() {
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let deep = elf(&["libc.so.6"], &[], &[]);
        for (extension, library, expected) in [
            (
                elf(&["liba.so"], &[], &["$ORIGIN/l"]),
                elf(&["libb.so"], &[], &["$ORIGIN"]),
                &["libc.so.6"][..],
            ),
            (elf(&["liba.so"], &[], &["$ORIGIN/l"]), elf(&["libb.so"], &[], &[]), &["libb.so"]),
            (elf(&["liba.so"], &["$ORIGIN/l"], &[]), elf(&["libb.so"], &[], &[]), &["libc.so.6"]),
            // A RUNPATH is not inherited, and overrides an inherited RPATH.
            (
                elf(&["liba.so"], &["$ORIGIN/l"], &[]),
                elf(&["libb.so"], &[], &["$ORIGIN/x"]),
                &["libb.so"],
            ),
            // Already loaded.
            (
                elf(&["liba.so", "libb.so"], &[], &["$ORIGIN/l"]),
                elf(&["libb.so"], &[], &[]),
                &["libc.so.6"],
            ),
            (elf(&["liba.so"], &[], &[]), elf(&["libb.so"], &[], &["$ORIGIN"]), &["liba.so"]),
        ] {
            let files =
                [("p/_C.so", extension), ("p/l/liba.so", library), ("p/l/libb.so", deep.clone())];
            let found = outside(&files);
            assert_eq!(found[0], ("p/_C.so".to_owned(), names(expected)), "{files:?}");
        }
    }

    #[test]
    fn follows_cyclic_dependencies() {
        let files = [
            ("p/liba.so", elf(&["libb.so", "libx.so"], &[], &["$ORIGIN"])),
            ("p/libb.so", elf(&["liba.so"], &[], &["$ORIGIN"])),
        ];
        assert_eq!(outside(&files), [("p/liba.so".to_owned(), vec!["libx.so".to_owned()])]);
    }

    #[test]
    fn policy_covers_all_files_and_libraries() {
        let of = |files: &[(&str, Elf)]| {
            let files = wheel(files);
            policy(&files, follow(&files).as_deref())
        };
        assert_eq!(of(&[("a.so", elf(&["libc.so.6"], &[], &[]))]), Some(5));
        assert_eq!(of(&[("a.so", elf(&["libmvec.so.1"], &[], &[]))]), Some(24));
        assert_eq!(of(&[("a.so", elf(&["libamdhip64.so.7", "libc.so.6"], &[], &[]))]), None);
        assert_eq!(of(&[("a.so", elf(&["libpython3.14.so.1.0"], &[], &[]))]), None);
        let broken = Elf { policy: None, ..elf(&[], &[], &[]) };
        assert_eq!(of(&[("a.so", elf(&[], &[], &[])), ("b.so", broken)]), None);
    }

    #[test]
    fn gives_up_on_too_many_steps() {
        let names: Vec<String> = (0..400).map(|n| format!("lib{n}.so")).collect();
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        let root = elf(&all, &[], &["$ORIGIN"]);
        let roots: Vec<(String, Elf)> =
            (0..400).map(|n| (format!("r{n}.so"), root.clone())).collect();
        let files: BTreeMap<String, Elf> = roots.into_iter().collect();
        assert_eq!(follow(&files), None);
        assert_eq!(policy(&files, None), None);
    }
}
